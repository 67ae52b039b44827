/* Hugging Face tokenizer.json, model type BPE. */
#include "runtime/text/tokenizer_json.h"

#include <stdlib.h>

#include "runtime/text/utf8.h"

#define BAD(b, diag, ...) DOP_FAIL_IN((diag), DOP_E_INPUT, (b)->path, __VA_ARGS__)

void
dop_tokenizer_facts_init(dop_tokenizer_facts *f)
{
    memset(f, 0, sizeof *f);
    f->add_bos = f->add_eos = -1;
    f->bos_id = -1;
}

/* What is needed of the file beside the build. */
typedef struct reader {
    dop_tok_build b;
    const json_t *root, *model, *vocab, *added;
    dop_diag *diag;
} reader;

/* One past the largest id of vocabulary and added tokens. */
static dop_status
count_tokens(reader *r, const char *path, uint32_t *out_tokens)
{
    json_int_t top = -1;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)r->vocab, key, v)
    {
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= DOP_TOK_MAX_TOKENS)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "token \"%.80s\" has no id between 0 and %u", key,
                               DOP_TOK_MAX_TOKENS - 1);
        if (json_integer_value(v) > top)
            top = json_integer_value(v);
    }
    for (size_t i = 0; i < json_array_size(r->added); i++) {
        const json_t *id = json_object_get(json_array_get(r->added, i), "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= DOP_TOK_MAX_TOKENS)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "added token %zu has no id between 0 and %u", i,
                               DOP_TOK_MAX_TOKENS - 1);
        if (json_integer_value(id) > top)
            top = json_integer_value(id);
    }
    *out_tokens = (uint32_t)(top + 1);
    return DOP_OK;
}

static bool
vocab_id(const reader *r, const char *s, size_t n, uint32_t *out_id)
{
    const json_t *v = json_object_getn(r->vocab, s, n);
    return v && dop_tok_json_id(v, r->b.tokens, out_id);
}

static dop_status
read_vocab(reader *r, const dop_tok_decoder *dec)
{
    dop_tok_build *b = &r->b;
    dop_buf text = {0};
    const char *key;
    size_t n;
    json_t *v;
    dop_status st = DOP_OK;
    json_object_keylen_foreach((json_t *)(uintptr_t)r->vocab, key, n, v)
    {
        uint32_t id = (uint32_t)json_integer_value(v);
        if (b->token_flags[id] & DOP_TOKEN_USED) {
            st = BAD(b, r->diag, "two tokens have the id %u", id);
            break;
        }
        b->token_flags[id] = DOP_TOKEN_USED | DOP_TOKEN_MODEL;
        text.size = 0;
        if (!(b->flags & DOP_TOK_F_BYTE_LEVEL)) {
            b->piece[id] = dop_tok_build_string(b, key, n);
        } else if (dop_tok_bytes_of_piece(key, n, &text)) {
            b->piece[id] = dop_tok_build_string(b, text.data, text.size);
        } else { /* no text can lead to it */
            b->token_flags[id] = DOP_TOKEN_USED;
        }
        text.size = 0;
        dop_tok_decoder_apply(dec, key, n, &text);
        b->text[id] = dop_tok_build_string(b, text.data, text.size);
    }
    if (st == DOP_OK && text.failed)
        st = DOP_FAIL(r->diag, DOP_E_NOMEM, "out of memory");
    dop_buf_finish(&text);
    return st;
}

/* "left right" or ["left", "right"]. */
static bool
split_merge(const json_t *m, const char **l, size_t *ln, const char **rr, size_t *rn)
{
    if (json_is_string(m)) {
        *l = json_string_value(m);
        const char *space = memchr(*l, ' ', json_string_length(m));
        if (!space)
            return false;
        *ln = (size_t)(space - *l);
        *rr = space + 1;
        *rn = json_string_length(m) - *ln - 1;
        return true;
    }
    const json_t *a = json_array_get(m, 0), *c = json_array_get(m, 1);
    if (json_array_size(m) != 2 || !json_is_string(a) || !json_is_string(c))
        return false;
    *l = json_string_value(a);
    *ln = json_string_length(a);
    *rr = json_string_value(c);
    *rn = json_string_length(c);
    return true;
}

static dop_status
read_merges(reader *r)
{
    dop_tok_build *b = &r->b;
    const json_t *list = json_object_get(r->model, "merges");
    dop_buf joined = {0};
    dop_status st = DOP_OK;
    if (!json_is_array(list))
        return BAD(b, r->diag, "the model has no list \"merges\"");
    size_t n = json_array_size(list);
    if (n > (size_t)DOP_TOK_MAX_TOKENS * 4)
        return BAD(b, r->diag, "the model has %zu merges, too many", n);
    b->merges = calloc(n + 1, sizeof *b->merges);
    if (!b->merges)
        return DOP_FAIL(r->diag, DOP_E_NOMEM, "out of memory");
    for (size_t i = 0; i < n && st == DOP_OK; i++) {
        const char *x, *y;
        size_t xn, yn;
        dop_tok_merge *m = &b->merges[i];
        if (!split_merge(json_array_get(list, i), &x, &xn, &y, &yn)) {
            st = BAD(b, r->diag, "merge %zu is not a pair of tokens", i);
            break;
        }
        joined.size = 0;
        dop_buf_append(&joined, x, xn);
        dop_buf_append(&joined, y, yn);
        m->rank = (uint32_t)i;
        if (joined.failed)
            st = DOP_FAIL(r->diag, DOP_E_NOMEM, "out of memory");
        else if (!vocab_id(r, x, xn, &m->a))
            st = BAD(b, r->diag, "merge %zu: \"%.*s\" is not in the vocabulary", i, xn > 80 ? 80 : (int)xn, x);
        else if (!vocab_id(r, y, yn, &m->b))
            st = BAD(b, r->diag, "merge %zu: \"%.*s\" is not in the vocabulary", i, yn > 80 ? 80 : (int)yn, y);
        else if (!vocab_id(r, joined.data, joined.size, &m->id))
            st = BAD(b, r->diag, "merge %zu: its result \"%.80s\" is not in the vocabulary", i, joined.data);
    }
    b->merge_count = n;
    dop_buf_finish(&joined);
    return st;
}

static dop_status
read_added(reader *r)
{
    static const struct {
        const char *key;
        uint32_t flag;
    } keys[] = {{"lstrip", DOP_ADDED_LSTRIP},
                {"rstrip", DOP_ADDED_RSTRIP},
                {"single_word", DOP_ADDED_SINGLE_WORD},
                {"special", DOP_ADDED_SPECIAL}};
    dop_tok_build *b = &r->b;
    for (size_t i = 0; i < json_array_size(r->added); i++) {
        const json_t *o = json_array_get(r->added, i);
        const char *s;
        size_t n;
        uint32_t id = (uint32_t)json_integer_value(json_object_get(o, "id")), flags = 0;
        bool normalized, set;
        dop_status st = dop_tok_json_string(o, "content", b->path, r->diag, &s, &n);
        for (size_t k = 0; k < sizeof keys / sizeof *keys && st == DOP_OK; k++) {
            st = dop_tok_json_bool(o, keys[k].key, false, b->path, r->diag, &set);
            flags |= set ? keys[k].flag : 0;
        }
        if (st == DOP_OK)
            st = dop_tok_json_bool(o, "normalized", !(flags & DOP_ADDED_SPECIAL), b->path, r->diag, &normalized);
        if (st != DOP_OK)
            return st;
        vocab_id(r, s, n, &id); /* a token that the model has keeps the model's id */
        if (!(b->token_flags[id] & DOP_TOKEN_USED) || !(b->token_flags[id] & DOP_TOKEN_MODEL)) {
            b->piece[id] = b->text[id] = dop_tok_build_string(b, s, n);
        }
        b->token_flags[id] |= DOP_TOKEN_USED;
        if (flags & DOP_ADDED_SPECIAL)
            b->token_flags[id] |= DOP_TOKEN_SPECIAL;
        if ((st = dop_tok_build_add(b, id, flags, normalized, s, n, r->diag)) != DOP_OK)
            return st;
    }
    return DOP_OK;
}

/* Ids of bytes: the first symbols (byte-level) or the fallback tokens. */
static void
find_byte_ids(reader *r)
{
    dop_tok_build *b = &r->b;
    for (uint32_t id = 0; id < b->tokens; id++) {
        const char *s = b->strings.data + b->piece[id].offset;
        int byte = -1;
        if (!(b->token_flags[id] & DOP_TOKEN_MODEL))
            continue;
        if (!(b->flags & DOP_TOK_F_BYTE_LEVEL))
            byte = dop_tok_byte_token(s, b->piece[id].bytes);
        else if (b->piece[id].bytes == 1)
            byte = (uint8_t)s[0];
        if (byte >= 0)
            b->byte_ids[byte] = id;
    }
}

static dop_status
read_model(reader *r)
{
    dop_tok_build *b = &r->b;
    dop_diag *diag = r->diag;
    bool fallback, fuse, ignore;
    dop_status st;
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_object_get(r->model, affixes[i]);
        if (json_is_string(v) && json_string_length(v))
            return BAD(b, diag, "model: \"%s\" is not supported", affixes[i]);
    }
    const json_t *dropout = json_object_get(r->model, "dropout");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) > 0)
        return BAD(b, diag, "model: \"dropout\" is not supported");
    if ((st = dop_tok_json_bool(r->model, "byte_fallback", false, b->path, diag, &fallback)) != DOP_OK ||
        (st = dop_tok_json_bool(r->model, "fuse_unk", false, b->path, diag, &fuse)) != DOP_OK ||
        (st = dop_tok_json_bool(r->model, "ignore_merges", false, b->path, diag, &ignore)) != DOP_OK)
        return st;
    b->flags |= (fallback ? DOP_TOK_F_BYTE_FALLBACK : 0u) | (fuse ? DOP_TOK_F_FUSE_UNK : 0u) |
                (ignore ? DOP_TOK_F_IGNORE_MERGES : 0u);
    const json_t *unk = json_object_get(r->model, "unk_token");
    if (json_is_string(unk) && !vocab_id(r, json_string_value(unk), json_string_length(unk), &b->unk))
        return BAD(b, diag, "model: unk_token \"%.80s\" is not in the vocabulary", json_string_value(unk));
    return DOP_OK;
}

/* Id of a token named by text: added tokens first. */
static uint32_t
token_by_text(const reader *r, const char *s)
{
    uint32_t id;
    if (!s)
        return DOP_TOK_NONE;
    for (size_t i = 0; i < r->b.added_count; i++) {
        const dop_tok_build_added *a = &r->b.added[i];
        if (a->text.bytes == strlen(s) && memcmp(r->b.strings.data + a->text.offset, s, a->text.bytes) == 0)
            return a->id;
    }
    return vocab_id(r, s, strlen(s), &id) ? id : DOP_TOK_NONE;
}

/* Puts an id at one end of the frame that add_special makes, or takes it away. */
static void
want_edge(dop_ids *ids, bool front, int want, uint32_t id)
{
    size_t at = front ? 0 : ids->count - 1;
    bool has = ids->count && ids->data[at] == id;
    if (want < 0 || id == DOP_TOK_NONE || has == (want != 0))
        return;
    if (want) {
        dop_ids_push(ids, id);
        if (front && !ids->failed) {
            memmove(ids->data + 1, ids->data, (ids->count - 1) * sizeof *ids->data);
            ids->data[0] = id;
        }
        return;
    }
    if (front)
        memmove(ids->data, ids->data + 1, (ids->count - 1) * sizeof *ids->data);
    ids->count--;
}

static dop_status
use_facts(reader *r, const dop_tokenizer_facts *f)
{
    dop_tok_build *b = &r->b;
    b->bos = f->bos_id >= 0 && f->bos_id < b->tokens ? (uint32_t)f->bos_id : token_by_text(r, f->bos_token);
    for (size_t i = 0; i < f->eos_count; i++) {
        if (f->eos_ids[i] < 0 || f->eos_ids[i] >= b->tokens)
            continue; /* models may name ids that only a larger embedding has */
        if (b->eos == DOP_TOK_NONE)
            b->eos = (uint32_t)f->eos_ids[i];
        dop_ids_push(&b->end_ids, (uint32_t)f->eos_ids[i]);
    }
    uint32_t by_text = token_by_text(r, f->eos_token);
    if (by_text != DOP_TOK_NONE) { /* the tokenizer's own EOS: the last token of a turn in chat models */
        if (b->eos == DOP_TOK_NONE)
            b->eos = by_text;
        dop_ids_push(&b->end_ids, by_text);
    }
    want_edge(&b->prefix, true, f->add_bos, b->bos);
    want_edge(&b->suffix, false, f->add_eos, by_text != DOP_TOK_NONE ? by_text : b->eos);
    b->chat = f->chat_template;
    b->chat_len = f->chat_template ? strlen(f->chat_template) : 0;
    return DOP_OK;
}

static dop_status
read_root(reader *r, const char *path, const dop_tokenizer_facts *facts, dop_tokenizer **out_tok)
{
    dop_tok_build *b = &r->b;
    dop_tok_decoder dec;
    dop_tokenizer_facts none;
    uint32_t tokens = 0;
    dop_status st;
    r->model = json_object_get(r->root, "model");
    r->vocab = json_object_get(r->model, "vocab");
    r->added = json_object_get(r->root, "added_tokens");
    const json_t *type = json_object_get(r->model, "type");
    if (!json_is_object(r->model))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "not a tokenizer.json: it has no object \"model\"");
    if (json_is_string(type) && strcmp(json_string_value(type), "BPE") != 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "tokenizer model \"%.40s\" is not supported (only BPE is)",
                           json_string_value(type));
    if (!json_is_object(r->vocab))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "the model has no object \"vocab\"");
    if ((st = count_tokens(r, path, &tokens)) != DOP_OK ||
        (st = dop_tok_build_init(b, path, tokens, r->diag)) != DOP_OK)
        return st;
    if (!facts) {
        dop_tokenizer_facts_init(&none);
        facts = &none;
    }
    if ((st = read_model(r)) != DOP_OK ||
        (st = dop_tok_json_normalizer(b, json_object_get(r->root, "normalizer"), r->diag)) != DOP_OK ||
        (st = dop_tok_json_pre_tokenizer(b, json_object_get(r->root, "pre_tokenizer"), r->diag)) != DOP_OK ||
        (st = dop_tok_json_decoder(b, json_object_get(r->root, "decoder"), &dec, r->diag)) != DOP_OK ||
        (st = read_vocab(r, &dec)) != DOP_OK || (st = read_added(r)) != DOP_OK || (st = read_merges(r)) != DOP_OK ||
        (st = dop_tok_json_post_processor(b, json_object_get(r->root, "post_processor"), r->diag)) != DOP_OK)
        return st;
    find_byte_ids(r);
    if ((st = use_facts(r, facts)) != DOP_OK)
        return st;
    return dop_tok_build_finish(b, r->diag, out_tok);
}

dop_status
dop_tokenizer_from_json(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                        dop_diag *diag, dop_tokenizer **out_tok)
{
    reader r = {.diag = diag};
    json_error_t error;
    *out_tok = NULL;
    json_t *root = json_loadb(bytes, size, JSON_ALLOW_NUL, &error);
    if (!root)
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, error.line, error.column, "not valid JSON: %s", error.text);
    r.root = root;
    dop_status st = read_root(&r, path, facts, out_tok);
    dop_tok_build_free(&r.b);
    json_decref(root);
    return st;
}
