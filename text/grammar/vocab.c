#include "text/grammar/vocab.h"

#include "text/grammar/sets.h"

#include <stdlib.h>
#include <string.h>

static const size_t most_bytes = 128u << 20; /* memory limit in bytes for all grammars of a vocabulary */

enum { LONGEST = 1024 }; /* maximum bytes of a token; longer ones are never allowed */

typedef struct piece {
    const char *bytes;
    size_t n;
    uint32_t id;
} piece;

static int
compare_piece_bytes(const void *x, const void *y)
{
    const piece *a = x, *b = y;
    int order = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);
    if (order != 0)
        return order;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

bool
dop_vocab_is_end(const dop_vocab *vocab, uint32_t id)
{
    for (size_t i = 0; i < vocab->n_end_ids; i++)
        if (vocab->end_ids[i] == id)
            return true;
    return false;
}

/* Collects the tokens that have a text, sorted bytewise. Returns their number. */
static uint32_t
collect_token_pieces(const dop_vocab *v, piece *pieces)
{
    uint32_t n = 0, known = dop_tokenizer_vocab_size(v->tok);
    for (uint32_t id = 0; id < v->n_vocab && id < known; id++) {
        piece p = {.id = id};
        p.bytes = dop_tokenizer_piece(v->tok, id, &p.n);
        if (p.bytes && p.n > 0 && p.n <= LONGEST && !dop_tokenizer_is_special(v->tok, id) && !dop_vocab_is_end(v, id))
            pieces[n++] = p;
    }
    const char *marked = v->marked;
    for (uint32_t i = 0; i < v->n_specials; i++) {
        piece p = {.id = v->specials[i], .bytes = marked};
        (void)dop_tokenizer_piece(v->tok, p.id, &p.n);
        marked += ++p.n;
        if (!dop_vocab_is_end(v, p.id))
            pieces[n++] = p;
    }
    qsort(pieces, n, sizeof *pieces, compare_piece_bytes);
    return n;
}

static size_t
count_shared_bytes(const piece *a, const piece *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Builds the trie's nodes and returns their number; with nodes NULL, only counts the nodes. */
static uint32_t
build_trie_nodes(const dop_vocab *v, const piece *pieces, uint32_t n, dop_vocab_node *nodes)
{
    uint32_t n_nodes = 0, open[LONGEST], n_open = 0; /* open[]: nodes on the path to the last token */
    (void)v;
    for (uint32_t i = 0; i < n; i++) {
        size_t same = i > 0 ? count_shared_bytes(&pieces[i - 1], &pieces[i]) : 0;
        for (; n_open > same; n_open--)
            if (nodes)
                nodes[open[n_open - 1]].end = n_nodes;
        for (size_t k = same; k < pieces[i].n; k++) {
            if (nodes)
                nodes[n_nodes] =
                    (dop_vocab_node){.token = i, .depth = (uint16_t)k, .byte = (uint8_t)pieces[i].bytes[k]};
            open[n_open++] = n_nodes++;
        }
    }
    for (; n_open > 0 && nodes; n_open--)
        nodes[open[n_open - 1]].end = n_nodes;
    return n_nodes;
}

/* Collects the special tokens, which grammars may name. */
static bool
collect_special_tokens(dop_vocab *v)
{
    dop_buf marked = {0};
    const uint32_t known = dop_tokenizer_vocab_size(v->tok);
    v->specials = malloc(((size_t)v->n_vocab + 1) * sizeof *v->specials);
    for (uint32_t id = 0; v->specials && id < v->n_vocab && id < known; id++) {
        size_t n = 0;
        const char *text = dop_tokenizer_is_special(v->tok, id) ? dop_tokenizer_piece(v->tok, id, &n) : NULL;
        if (!text || n == 0 || n >= LONGEST)
            continue;
        dop_buf_append(&marked, (char[]){DOP_VOCAB_SPECIAL}, 1);
        dop_buf_append(&marked, text, n);
        v->specials[v->n_specials++] = id;
    }
    v->marked = marked.data;
    return v->specials && !marked.failed;
}

size_t
dop_vocab_special(const dop_vocab *vocab, const char *text, size_t n, bool *out_ends)
{
    size_t best = 0;
    for (uint32_t i = 0; i < vocab->n_specials; i++) {
        size_t len = 0;
        const char *own = dop_tokenizer_piece(vocab->tok, vocab->specials[i], &len);
        if (len <= best || len > n || memcmp(own, text, len) != 0)
            continue;
        best = len;
        *out_ends = dop_vocab_is_end(vocab, vocab->specials[i]);
    }
    return best;
}

dop_status
dop_vocab_create(const dop_tokenizer *tok, uint32_t n_vocab, const uint32_t *end_ids, size_t n_end_ids, dop_diag *diag,
                 dop_vocab **out_vocab)
{
    dop_vocab *v = calloc(1, sizeof *v);
    piece *pieces = calloc((size_t)n_vocab + 1, sizeof *pieces);
    *out_vocab = NULL;
    if (!v || !pieces || !(v->pool = calloc(1, sizeof *v->pool)))
        goto error;
    pthread_mutex_init(&v->pool->lock, NULL);
    v->pool->most = most_bytes;
    v->tok = tok;
    v->n_vocab = n_vocab;
    v->n_words = dop_div_up_u32(n_vocab, 32);
    v->end_ids = malloc((n_end_ids + 1) * sizeof *v->end_ids);
    if (!v->end_ids)
        goto error;
    if (n_end_ids)
        memcpy(v->end_ids, end_ids, n_end_ids * sizeof *end_ids);
    v->n_end_ids = n_end_ids;
    if (!collect_special_tokens(v))
        goto error;
    v->n_tokens = collect_token_pieces(v, pieces);
    v->n_nodes = build_trie_nodes(v, pieces, v->n_tokens, NULL);
    v->nodes = calloc((size_t)v->n_nodes + 1, sizeof *v->nodes);
    v->tokens = malloc(((size_t)v->n_tokens + 1) * sizeof *v->tokens);
    if (!v->nodes || !v->tokens)
        goto error;
    (void)build_trie_nodes(v, pieces, v->n_tokens, v->nodes);
    v->nodes[v->n_nodes].token = v->n_tokens;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        v->tokens[i] = pieces[i].id;
        v->longest = pieces[i].n > v->longest ? (uint32_t)pieces[i].n : v->longest;
    }
    free(pieces);
    *out_vocab = v;
    return DOP_OK;
error:
    free(pieces);
    dop_vocab_destroy(v);
    return DOP_NO_MEMORY(diag);
}

uint32_t
dop_vocab_size(const dop_vocab *vocab)
{
    return vocab->n_vocab;
}

void
dop_vocab_destroy(dop_vocab *vocab)
{
    if (!vocab)
        return;
    if (vocab->pool)
        pthread_mutex_destroy(&vocab->pool->lock);
    free(vocab->pool);
    free(vocab->end_ids);
    free(vocab->nodes);
    free(vocab->tokens);
    free(vocab->marked);
    free(vocab->specials);
    free(vocab);
}
