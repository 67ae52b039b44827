/* Tokenizers of model directories: finds the tokenizer file, detects its format from its content, and reads the
 * accompanying JSON files. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/import/chat_files.h"
#include "text/import/tokenizer_facts.h"
#include "text/import/tokenizer_hf.h"
#include "text/import/tokenizer_json.h"
#include "text/import/tokenizer_merges.h"
#include "text/import/tokenizer_spm.h"
#include "text/import/tokenizer_tiktoken.h"

enum { max_end_ids = 64 };

typedef struct side_files {
    json_t *config, *generation, *tokenizer, *map, *added; /* NULL if the file does not exist */
    dop_buf chat;                                          /* chat template, 0-terminated */
    int64_t eos_ids[max_end_ids];
} side_files;

/* Returns the text of a token given as "text" or {"content": "text"}, or NULL. */
static const char *
read_token_text(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

static int
read_tri_state(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_boolean(v) ? json_is_true(v) : -1;
}

/* Reads a special token from tokenizer_config.json, otherwise from special_tokens_map.json. Returns true if the
 * config explicitly sets it to null. */
static bool
read_named_token(const side_files *s, const char *key, const char **out_text)
{
    const json_t *v = json_object_get(s->tokenizer, key);
    *out_text = read_token_text(v ? s->tokenizer : s->map, key);
    return json_is_null(v);
}

static void
read_eos_ids(side_files *s, const json_t *v, dop_tokenizer_facts *f)
{
    f->eos_ids = s->eos_ids;
    if (json_is_integer(v))
        s->eos_ids[f->eos_count++] = json_integer_value(v);
    for (size_t i = 0; i < json_array_size(v) && f->eos_count < max_end_ids; i++)
        if (json_is_integer(json_array_get(v, i)))
            s->eos_ids[f->eos_count++] = json_integer_value(json_array_get(v, i));
}

static void
gather_tokenizer_facts(side_files *s, dop_tokenizer_facts *f)
{
    dop_tokenizer_facts_init(f);
    f->add_bos = read_tri_state(s->tokenizer, "add_bos_token");
    f->add_eos = read_tri_state(s->tokenizer, "add_eos_token");
    f->no_bos = read_named_token(s, "bos_token", &f->bos_token);
    f->no_eos = read_named_token(s, "eos_token", &f->eos_token);
    f->config = s->tokenizer;
    f->chat_template = s->chat.data;
    read_eos_ids(s, json_object_get(s->generation, "eos_token_id"), f);
    if (f->eos_count == 0)
        read_eos_ids(s, json_object_get(s->config, "eos_token_id"), f);
    /* The text in tokenizer_config.json names the BOS that the tokenizer adds. The model's id is used only without
     * it. */
    const json_t *bos = json_object_get(s->generation, "bos_token_id");
    if (!json_is_integer(bos))
        bos = json_object_get(s->config, "bos_token_id");
    if (!f->bos_token && json_is_integer(bos))
        f->bos_id = json_integer_value(bos);
}

/* Converts added_tokens.json {"text": id}, the older form, into "added_tokens_decoder". Tokens with a role in
 * tokenizer_config.json become special. */
static dop_status
convert_added_tokens(side_files *s, dop_diag *diag)
{
    static const char *const named[] = {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token"};
    const json_t *more = json_object_get(s->tokenizer, "additional_special_tokens");
    const char *key;
    json_t *v;
    if (!s->added || json_object_get(s->tokenizer, "added_tokens_decoder"))
        return DOP_OK;
    json_t *decoder = json_object();
    if (!s->tokenizer)
        s->tokenizer = json_object();
    if (json_object_set_new(s->tokenizer, "added_tokens_decoder", decoder))
        return DOP_NO_MEMORY(diag);
    json_object_foreach(s->added, key, v)
    {
        char id[24];
        bool special = false;
        for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
            const char *text = read_token_text(s->tokenizer, named[i]);
            special |= text && strcmp(text, key) == 0;
        }
        for (size_t i = 0; i < json_array_size(more); i++) {
            const json_t *o = json_array_get(more, i);
            const char *text = json_string_value(json_is_object(o) ? json_object_get(o, "content") : o);
            special |= text && strcmp(text, key) == 0;
        }
        snprintf(id, sizeof id, "%lld", (long long)json_integer_value(v));
        if (json_object_set_new(decoder, id,
                                json_pack("{s:s, s:b, s:b}", "content", key, "special", special, "normalized", 0)))
            return DOP_NO_MEMORY(diag);
    }
    return DOP_OK;
}

/* Appends the alphabetically first file name of a directory that ends with `end`. Returns false if there is none. */
static bool
find_file_ending(const char *dir, const char *end, dop_buf *out_name)
{
    size_t m = strlen(end), start = out_name->size;
    bool found = false;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name);
        if (n <= m || strcmp(e->d_name + n - m, end) != 0 || (found && strcmp(e->d_name, out_name->data + start) >= 0))
            continue;
        out_name->size = start;
        dop_buf_puts(out_name, e->d_name);
        found = !out_name->failed;
    }
    if (d)
        closedir(d);
    return found;
}

bool
dop_tokenizer_find_file(const char *dir, dop_buf *out_path)
{
    /* "*.ext" matches all file names with this ending. */
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "*.tiktoken",
                                        "tiktoken.model", "tekken.json",     "merges.txt"};
    size_t start = out_path->size;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        out_path->size = start;
        dop_buf_printf(out_path, "%s/", dir);
        if (names[i][0] == '*' && find_file_ending(dir, names[i] + 1, out_path))
            return true;
        dop_buf_puts(out_path, names[i]);
        if (names[i][0] != '*' && !out_path->failed && access(out_path->data, F_OK) == 0)
            return true;
    }
    out_path->size = start;
    dop_buf_printf(out_path, "%s/%s", dir, names[0]);
    return false;
}

static bool
is_sentencepiece(const void *bytes, size_t size)
{
    return size > 0 && *(const uint8_t *)bytes == 0x0a; /* tag of the message's first field: a piece */
}

typedef dop_status from_fn(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                           dop_diag *diag, dop_tokenizer **out_tok);

dop_status
dop_tokenizer_from_bytes(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                         dop_diag *diag, dop_tokenizer **out_tok)
{
    static const struct {
        bool (*is)(const void *bytes, size_t size);
        from_fn *from;
    } kinds[] = {
        {dop_tok_is_tiktoken, dop_tokenizer_from_tiktoken},
        {is_sentencepiece, dop_tokenizer_from_sentencepiece},
        {dop_tok_is_merges, dop_tokenizer_from_merges},
    };
    const uint8_t *p = bytes;
    size_t i = 0;
    if (size >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) /* skip the byte order mark */
        i = 3;
    while (i < size && (p[i] == ' ' || p[i] == '\t' || p[i] == '\r' || p[i] == '\n'))
        i++;
    bool json = i == size || p[i] == '{' || p[i] == '[';
    for (i = 0; i < sizeof kinds / sizeof *kinds && !json; i++)
        if (kinds[i].is(bytes, size))
            return kinds[i].from(path, bytes, size, facts, diag, out_tok);
    return dop_tokenizer_from_json(path, bytes, size, facts, diag, out_tok);
}

dop_status
dop_tokenizer_from_hf_dir(const char *dir, dop_diag *diag, dop_tokenizer **out_tok)
{
    side_files s = {0};
    dop_tokenizer_facts facts;
    dop_buf path = {0};
    dop_map map = {0};
    dop_status st;
    *out_tok = NULL;
    if ((st = dop_tok_read_object(dir, "config.json", diag, &s.config)) != DOP_OK ||
        (st = dop_tok_read_object(dir, "generation_config.json", diag, &s.generation)) != DOP_OK ||
        (st = dop_tok_read_object(dir, "tokenizer_config.json", diag, &s.tokenizer)) != DOP_OK ||
        (st = dop_tok_read_object(dir, "added_tokens.json", diag, &s.added)) != DOP_OK ||
        (st = dop_tok_read_object(dir, "special_tokens_map.json", diag, &s.map)) != DOP_OK ||
        (st = dop_chat_of_dir(dir, diag, &s.chat)) != DOP_OK || (st = convert_added_tokens(&s, diag)) != DOP_OK)
        goto error;
    dop_tokenizer_find_file(dir, &path);
    st = path.failed ? DOP_NO_MEMORY(diag) : dop_map_open(path.data, diag, &map);
    if (st != DOP_OK)
        goto error;
    gather_tokenizer_facts(&s, &facts);
    st = dop_tokenizer_from_bytes(path.data, map.data ? (const void *)map.data : "", (size_t)map.size, &facts, diag,
                                  out_tok);
error:
    dop_map_close(&map);
    dop_buf_finish(&path);
    json_decref(s.config);
    json_decref(s.generation);
    json_decref(s.tokenizer);
    json_decref(s.map);
    json_decref(s.added);
    dop_buf_finish(&s.chat);
    return st;
}
