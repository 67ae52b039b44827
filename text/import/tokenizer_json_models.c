/* Types of "model" in a tokenizer.json: BPE, Unigram, WordPiece. */
#include <math.h>
#include <stdlib.h>

#include "text/import/tokenizer_json.h"
#include "text/import/tokenizer_json_models.h"
#include "text/import/tokenizer_json_parts.h"

#define BAD(b, diag, ...) DOP_FAIL_IN((diag), DOP_E_INPUT, (b)->path, __VA_ARGS__)

typedef dop_tok_json reader;

bool
dop_tok_json_vocab_id(const reader *r, const char *s, size_t n, uint32_t *out_id)
{
    const json_t *v = json_object_getn(r->vocab, s, n);
    return v && dop_tok_json_id(v, r->b.tokens, out_id);
}

/* Converts Unigram's list of [piece, score] to an object. The last of several entries with the same piece counts. */
static dop_status
convert_vocab_list(reader *r, const json_t *list, const char *path)
{
    size_t n = json_array_size(list);
    if (n > DOP_TOK_MAX_TOKENS)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "the model has %zu tokens, at most %u are supported", n,
                           DOP_TOK_MAX_TOKENS);
    r->vocab = json_object();
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(json_array_get(list, i), 0);
        if (!json_is_string(s))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "entry %zu of the vocabulary is not [piece, score]", i);
        if (json_object_setn_new(r->vocab, json_string_value(s), json_string_length(s), json_integer((json_int_t)i)))
            return DOP_NO_MEMORY(r->diag);
    }
    return r->vocab ? DOP_OK : DOP_NO_MEMORY(r->diag);
}

dop_status
dop_tok_json_vocab(reader *r, const char *path)
{
    json_t *vocab = json_object_get(r->model, "vocab");
    if (json_is_array(vocab))
        return convert_vocab_list(r, vocab, path);
    if (!json_is_object(vocab))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "the model has no object \"vocab\"");
    r->vocab = json_incref(vocab);
    return DOP_OK;
}

/* BPE */

/* Splits a merge given as "left right" or ["left", "right"]. */
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
read_json_merges(reader *r)
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
        return DOP_NO_MEMORY(r->diag);
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
            st = DOP_NO_MEMORY(r->diag);
        else if (!dop_tok_json_vocab_id(r, x, xn, &m->a))
            st = BAD(b, r->diag, "merge %zu: \"%.*s\" is not in the vocabulary", i, xn > 80 ? 80 : (int)xn, x);
        else if (!dop_tok_json_vocab_id(r, y, yn, &m->b))
            st = BAD(b, r->diag, "merge %zu: \"%.*s\" is not in the vocabulary", i, yn > 80 ? 80 : (int)yn, y);
        else if (!dop_tok_json_vocab_id(r, joined.data, joined.size, &m->id))
            st = BAD(b, r->diag, "merge %zu: its result \"%.80s\" is not in the vocabulary", i, joined.data);
    }
    b->merge_count = n;
    dop_buf_finish(&joined);
    return st;
}

/* Finds the tokens of single bytes: initial symbols of byte-level BPE, or byte-fallback tokens. */
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

/* Reads end_of_word_suffix, which ends the last piece of each word ("</w>" in CLIP and GPT). */
static dop_status
read_word_end_mark(reader *r, bool byte_fallback)
{
    dop_tok_build *b = &r->b;
    const json_t *mark = json_object_get(r->model, "end_of_word_suffix");
    const size_t n = json_string_length(mark);
    if (n == 0)
        return DOP_OK;
    if (n > DOP_TOK_MAX_JOINT || byte_fallback)
        return BAD(b, r->diag, "model: \"end_of_word_suffix\" %s is not supported",
                   byte_fallback ? "with \"byte_fallback\"" : "of so many bytes");
    b->joint = dop_tok_build_string(b, json_string_value(mark), n);
    return b->strings.failed ? DOP_NO_MEMORY(r->diag) : DOP_OK;
}

static dop_status
bpe_begin(reader *r)
{
    dop_tok_build *b = &r->b;
    dop_diag *diag = r->diag;
    bool fallback, fuse, ignore;
    dop_status st;
    if (json_string_length(json_object_get(r->model, "continuing_subword_prefix")))
        return BAD(b, diag, "model: \"continuing_subword_prefix\" is not supported");
    const json_t *dropout = json_object_get(r->model, "dropout");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) > 0)
        return BAD(b, diag, "model: \"dropout\" is not supported");
    if ((st = dop_tok_json_bool(r->model, "byte_fallback", false, b->path, diag, &fallback)) != DOP_OK ||
        (st = dop_tok_json_bool(r->model, "fuse_unk", false, b->path, diag, &fuse)) != DOP_OK ||
        (st = dop_tok_json_bool(r->model, "ignore_merges", false, b->path, diag, &ignore)) != DOP_OK)
        return st;
    b->flags |= (fallback ? DOP_TOK_F_BYTE_FALLBACK : 0u) | (fuse ? DOP_TOK_F_FUSE_UNK : 0u) |
                (ignore ? DOP_TOK_F_IGNORE_MERGES : 0u);
    if ((st = read_word_end_mark(r, fallback)) != DOP_OK)
        return st;
    const json_t *unk = json_object_get(r->model, "unk_token");
    if (json_is_string(unk) && !dop_tok_json_vocab_id(r, json_string_value(unk), json_string_length(unk), &b->unk))
        return BAD(b, diag, "model: unk_token \"%.80s\" is not in the vocabulary", json_string_value(unk));
    return DOP_OK;
}

static dop_status
bpe_finish(reader *r)
{
    find_byte_ids(r);
    return read_json_merges(r);
}

/* Unigram */

static dop_status
reject_byte_level(reader *r, const char *type)
{
    if (r->b.flags & DOP_TOK_F_BYTE_LEVEL)
        return BAD(&r->b, r->diag, "pre-tokenizer \"ByteLevel\" with a model \"%s\" is not supported", type);
    return DOP_OK;
}

static dop_status
unigram_begin(reader *r)
{
    dop_tok_build *b = &r->b;
    bool fallback;
    dop_status st = dop_tok_json_bool(r->model, "byte_fallback", false, b->path, r->diag, &fallback);
    const json_t *unk = json_object_get(r->model, "unk_id");
    if (st != DOP_OK)
        return st;
    b->model = DOP_TOK_UNIGRAM;
    b->flags |= fallback ? DOP_TOK_F_BYTE_FALLBACK : 0u;
    if (unk && !json_is_null(unk) && !dop_tok_json_id(unk, b->tokens, &b->unk))
        return BAD(b, r->diag, "model: \"unk_id\" is no token of the vocabulary");
    if (!json_is_array(json_object_get(r->model, "vocab")))
        return BAD(b, r->diag, "model: the \"vocab\" of a Unigram model is a list");
    return DOP_OK;
}

static dop_status
unigram_finish(reader *r)
{
    enum { unk_penalty = 10 };
    dop_tok_build *b = &r->b;
    const json_t *list = json_object_get(r->model, "vocab");
    double least = 0;
    b->scores = calloc(b->tokens, sizeof *b->scores);
    if (!b->scores)
        return DOP_NO_MEMORY(r->diag);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(json_array_get(list, i), 1);
        double score = json_number_value(v);
        if (!json_is_number(v) || !(fabs(score) <= 1e30))
            return BAD(b, r->diag, "entry %zu of the vocabulary has no score", i);
        b->scores[i] = score;
        least = i == 0 || score < least ? score : least;
    }
    b->unk_score = least - unk_penalty;
    find_byte_ids(r);
    return reject_byte_level(r, "Unigram");
}

/* WordPiece */

static dop_status
read_string_or(const json_t *o, const char *key, const char *fallback, const char *path, dop_diag *diag,
               const char **out, size_t *out_n)
{
    if (json_object_get(o, key))
        return dop_tok_json_string(o, key, path, diag, out, out_n);
    *out = fallback;
    *out_n = strlen(fallback);
    return DOP_OK;
}

static dop_status
wordpiece_begin(reader *r)
{
    dop_tok_build *b = &r->b;
    const char *unk, *joint;
    size_t unk_n, joint_n;
    dop_status st;
    const json_t *most = json_object_get(r->model, "max_input_chars_per_word");
    if ((st = read_string_or(r->model, "unk_token", "[UNK]", b->path, r->diag, &unk, &unk_n)) != DOP_OK ||
        (st = read_string_or(r->model, "continuing_subword_prefix", "##", b->path, r->diag, &joint, &joint_n)) !=
            DOP_OK)
        return st;
    if (!dop_tok_json_vocab_id(r, unk, unk_n, &b->unk))
        return BAD(b, r->diag, "model: unk_token \"%.80s\" is not in the vocabulary", unk);
    if (most && (!json_is_integer(most) || json_integer_value(most) < 1 || json_integer_value(most) > 1 << 20))
        return BAD(b, r->diag, "model: \"max_input_chars_per_word\" must be 1 to %d", 1 << 20);
    b->model = DOP_TOK_WORDPIECE;
    b->joint = dop_tok_build_string(b, joint, joint_n);
    b->word_max = most ? (uint32_t)json_integer_value(most) : 100;
    return b->strings.failed ? DOP_NO_MEMORY(r->diag) : DOP_OK;
}

static dop_status
wordpiece_finish(reader *r)
{
    return reject_byte_level(r, "WordPiece");
}

/* Table of model types */

static bool
has_merges(const json_t *m)
{
    return json_object_get(m, "merges") != NULL;
}

static bool
has_list(const json_t *m)
{
    return json_is_array(json_object_get(m, "vocab"));
}

static bool
has_subword_prefix(const json_t *m)
{
    return json_object_get(m, "continuing_subword_prefix") && json_object_get(m, "max_input_chars_per_word");
}

static const dop_tok_json_model models[] = {
    {"BPE", has_merges, bpe_begin, bpe_finish},
    {"Unigram", has_list, unigram_begin, unigram_finish},
    {"WordPiece", has_subword_prefix, wordpiece_begin, wordpiece_finish},
};

dop_status
dop_tok_json_find_model(const json_t *model, const char *path, dop_diag *diag, const dop_tok_json_model **out_model)
{
    const char *type = json_string_value(json_object_get(model, "type"));
    *out_model = NULL;
    for (size_t i = 0; i < sizeof models / sizeof *models && !*out_model; i++)
        if (type ? strcmp(type, models[i].type) == 0 : models[i].fits(model))
            *out_model = &models[i];
    if (!type && !*out_model)
        *out_model = &models[0];
    if (*out_model)
        return DOP_OK;
    return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                       "tokenizer model \"%.40s\" is not supported (BPE, Unigram and WordPiece are)", type);
}
