/* Facts about a tokenizer from files other than its own: BOS, EOS, and the added tokens of tokenizer_config.json. */
#include <stdlib.h>

#include "text/import/tokenizer_facts.h"
#include "text/import/tokenizer_json.h"
#include "text/import/tokenizer_json_parts.h"

void
dop_tokenizer_facts_init(dop_tokenizer_facts *f)
{
    memset(f, 0, sizeof *f);
    f->add_bos = f->add_eos = -1;
    f->bos_id = -1;
}

uint32_t
dop_tok_build_find(const dop_tok_build *b, const char *text, size_t n)
{
    for (size_t i = 0; i < b->added_count; i++) {
        const dop_tok_build_added *a = &b->added[i];
        if (a->text.bytes == n && memcmp(b->strings.data + a->text.offset, text, n) == 0)
            return a->id;
    }
    for (uint32_t id = 0; id < b->tokens; id++)
        if ((b->token_flags[id] & DOP_TOKEN_USED) && b->piece[id].bytes == n &&
            memcmp(b->strings.data + b->piece[id].offset, text, n) == 0)
            return id;
    return DOP_TOK_NONE;
}

static uint32_t
find_token_text(const dop_tok_build *b, const char *text)
{
    return text && *text ? dop_tok_build_find(b, text, strlen(text)) : DOP_TOK_NONE;
}

/* Adds an id at the front or back of `ids`, the prefix or suffix of texts (want 1), removes it from there (0), or
 * does nothing (-1). */
static void
set_edge_id(dop_ids *ids, bool front, int want, uint32_t id)
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

void
dop_tok_build_facts(dop_tok_build *b, const dop_tokenizer_facts *f)
{
    uint32_t own = b->eos;
    uint32_t bos = f->bos_id >= 0 && f->bos_id < b->tokens ? (uint32_t)f->bos_id : find_token_text(b, f->bos_token);
    b->bos = f->no_bos ? DOP_TOK_NONE : bos == DOP_TOK_NONE ? b->bos : bos;
    b->eos = DOP_TOK_NONE;
    for (size_t i = 0; i < f->eos_count; i++) {
        if (f->eos_ids[i] < 0 || f->eos_ids[i] >= b->tokens)
            continue; /* configurations may name ids that exist only in a larger embedding */
        if (b->eos == DOP_TOK_NONE)
            b->eos = (uint32_t)f->eos_ids[i];
        dop_ids_push(&b->end_ids, (uint32_t)f->eos_ids[i]);
    }
    /* Chat models end a message with the tokenizer's own EOS. */
    uint32_t by_text = find_token_text(b, f->eos_token);
    if (by_text == DOP_TOK_NONE && !f->no_eos)
        by_text = own;
    if (by_text != DOP_TOK_NONE)
        dop_ids_push(&b->end_ids, by_text);
    /* The first end id often ends a turn instead of a text, so the EOS found by text has priority. */
    if (by_text != DOP_TOK_NONE || f->no_eos)
        b->eos = by_text;
    set_edge_id(&b->prefix, true, f->add_bos, b->bos);
    set_edge_id(&b->suffix, false, f->add_eos, by_text != DOP_TOK_NONE ? by_text : b->eos);
    b->chat = f->chat_template;
    b->chat_len = f->chat_template ? strlen(f->chat_template) : 0;
}

/* Parses a key of "added_tokens_decoder", a decimal id. Returns false if it is not a valid id. */
static bool
parse_id_key(const char *key, uint32_t *out_id)
{
    uint64_t v = 0;
    size_t n = strlen(key);
    if (n == 0 || n > 10)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (key[i] < '0' || key[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(key[i] - '0');
    }
    *out_id = (uint32_t)v;
    return v < DOP_TOK_MAX_TOKENS;
}

static json_t *
find_config_tokens(const dop_tokenizer_facts *facts)
{
    return facts ? json_object_get(facts->config, "added_tokens_decoder") : NULL;
}

dop_status
dop_tok_config_tokens(const dop_tokenizer_facts *facts, const char *path, dop_diag *diag, uint32_t *in_out_tokens)
{
    const char *key;
    json_t *v;
    json_object_foreach(find_config_tokens(facts), key, v)
    {
        uint32_t id;
        if (!parse_id_key(key, &id))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                               "\"added_tokens_decoder\" of its tokenizer_config.json: \"%.40s\" is no token id", key);
        if (id >= *in_out_tokens)
            *in_out_tokens = id + 1;
    }
    return DOP_OK;
}

dop_status
dop_tok_config_add(dop_tok_build *b, const dop_tokenizer_facts *facts, dop_diag *diag)
{
    const char *key;
    json_t *v;
    bool *known = calloc(b->tokens ? b->tokens : 1, sizeof *known); /* [tokens] true if the tokenizer's own file
                                                                     * added the token */
    dop_status st = known ? DOP_OK : DOP_NO_MEMORY(diag);
    for (size_t i = 0; known && i < b->added_count; i++)
        known[b->added[i].id] = true;
    json_object_foreach(st == DOP_OK ? find_config_tokens(facts) : NULL, key, v)
    {
        const char *s;
        size_t n;
        uint32_t id = 0, flags;
        bool normalized;
        st = dop_tok_json_added(v, b->path, diag, &s, &n, &flags, &normalized);
        if (st == DOP_OK && (!parse_id_key(key, &id) || id >= b->tokens || n == 0))
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, b->path, "added token %.40s has no text", key);
        if (st != DOP_OK)
            break;
        if (known[id] || b->token_flags[id] & DOP_TOKEN_USER_DEFINED)
            continue; /* user-defined tokens are matched by the model's vocabulary, not before it */
        if (!(b->token_flags[id] & DOP_TOKEN_USED))
            b->piece[id] = b->text[id] = dop_tok_build_string(b, s, n);
        b->token_flags[id] |= DOP_TOKEN_USED | ((flags & DOP_ADDED_SPECIAL) ? DOP_TOKEN_SPECIAL : 0);
        if ((st = dop_tok_build_add(b, id, flags, normalized, s, n, diag)) != DOP_OK)
            break;
    }
    free(known);
    return st;
}

typedef struct scored {
    double score;
    uint32_t id;
} scored;

static int
compare_scores(const void *x, const void *y)
{
    const scored *a = x, *b = y;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

dop_status
dop_tok_build_ranks(dop_tok_build *b, const double *scores, dop_diag *diag)
{
    dop_status st = DOP_OK;
    scored *rows = calloc(b->tokens, sizeof *rows);
    b->ranks = calloc(b->tokens, sizeof *b->ranks);
    if (!rows || !b->ranks) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    for (uint32_t i = 0; i < b->tokens; i++)
        rows[i] = (scored){scores[i], i};
    qsort(rows, b->tokens, sizeof *rows, compare_scores);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < b->tokens; i++) {
        if (i && rows[i].score < rows[i - 1].score)
            rank++;
        b->ranks[rows[i].id] = rank;
    }
error:
    free(rows);
    return st;
}
