/* Unigram: finds the most probable sequence of pieces of one word with the Viterbi algorithm.
 *
 * Time is at most bytes of the word x bytes of the longest piece (DOP_TOK_MAX_PIECE); memory is 16 bytes per byte of
 * the word. Rounding decides between equal sums, so sums are computed exactly as in the vocabulary's own library.
 * Hugging Face and llama.cpp use double; SentencePiece rounds to float after each piece. */
#include <math.h>
#include <stdlib.h>

#include "base/encoding/utf8.h"
#include "text/tokenizer/tokenizer_internal.h"

/* Viterbi state at a byte of the word: the best sequence of pieces that ends there. */
typedef struct node {
    union {
        double score; /* score of the best sequence up to this byte */
        struct {      /* after backtracking, on the best path: end and token of the piece that begins here */
            uint32_t end, id;
        } next;
    };
    uint32_t start, id; /* start (DOP_TOK_NONE: unreachable) and token of the last piece of the best sequence */
} node;

typedef struct unigram {
    const dop_tokenizer *t;
    node *nodes;
    size_t cap;
    dop_budget *budget; /* not owned */
} unigram;

static void *
unigram_create(const dop_tokenizer *t, bool with_cache, dop_budget *budget)
{
    unigram *u = calloc(1, sizeof *u);
    (void)with_cache;
    if (u)
        *u = (unigram){.t = t, .budget = budget};
    return u;
}

static void
unigram_destroy(void *state)
{
    unigram *u = state;
    if (!u)
        return;
    dop_budget_give(u->budget, u->cap * sizeof *u->nodes);
    free(u->nodes);
    free(u);
}

static void
offer_piece(const unigram *u, uint32_t start, uint32_t end, double score, uint32_t id)
{
    node *n = &u->nodes[end];
    double sum = u->nodes[start].score + score;
    if (u->t->head->flags & DOP_TOK_F_FLOAT_SCORES)
        sum = (double)(float)sum;
    if (n->start != DOP_TOK_NONE && !(sum > n->score))
        return;
    n->score = sum;
    n->start = start;
    n->id = id;
}

/* Forward pass: finds the best last piece for each character boundary. Returns false if the budget is exhausted. */
static bool
search_pieces(const unigram *u, const char *s, uint32_t n)
{
    const dop_tokenizer *t = u->t;
    for (uint32_t i = 0; i <= n; i++)
        u->nodes[i].start = DOP_TOK_NONE;
    u->nodes[0].score = 0;
    for (uint32_t at = 0, len; at < n; at += len) {
        len = dop_utf8_next(s + at, n - at).len;
        bool single = false;
        uint32_t at_node = 0, seen = 0, to = n - at < t->longest_piece ? n : at + t->longest_piece;
        for (uint32_t k = at; k < to && (at_node = dop_tok_step(t, at_node, (uint8_t)s[k])) != 0; k++) {
            seen = k - at;
            uint32_t id = t->trie_token[at_node];
            if (id == DOP_TOK_NONE)
                continue;
            offer_piece(u, at, k + 1, t->scores[id], id);
            single |= k + 1 - at == len;
        }
        if (!single)
            offer_piece(u, at, at + len, t->head->unk_score, t->head->unk);
        if (!dop_budget_step(u->budget, 1 + seen))
            return false;
    }
    return true;
}

/* Backtracking: stores the best path as forward links. Pieces of a damaged vocabulary may end inside a character. No
 * path continues there, because the search starts pieces at characters only. */
static void
link_best_path(const unigram *u, uint32_t n)
{
    for (uint32_t end = n; end > 0;) {
        uint32_t start = u->nodes[end].start, id = u->nodes[end].id;
        u->nodes[start].next.end = end;
        u->nodes[start].next.id = id;
        end = start;
    }
}

/* Encodes a run of characters without pieces: as the token with exactly this text, as byte tokens, or as one unknown
 * token. */
static void
put_unknown(const dop_tokenizer *t, const char *s, size_t n, dop_ids *out)
{
    uint32_t id = dop_tok_lookup(t, s, n);
    bool bytes = id == DOP_TOK_NONE && (t->head->flags & DOP_TOK_F_BYTE_FALLBACK);
    for (size_t i = 0; i < n && bytes; i++)
        bytes = t->byte_ids[(uint8_t)s[i]] != DOP_TOK_NONE;
    for (size_t i = 0; i < n && bytes; i++)
        dop_ids_push(out, t->byte_ids[(uint8_t)s[i]]);
    if (bytes)
        return;
    id = id == DOP_TOK_NONE ? t->head->unk : id;
    if (id != DOP_TOK_NONE)
        dop_ids_push(out, id);
}

static dop_status
unigram_word(void *state, const char *s, size_t len, dop_diag *diag, dop_ids *out)
{
    unigram *u = state;
    const dop_tokenizer *t = u->t;
    if (len >= UINT32_MAX / 4)
        return DOP_FAIL(diag, DOP_E_INPUT, "the text is too long to tokenize (%zu bytes in one word)", len);
    uint32_t n = (uint32_t)len;
    if (n + 1 > u->cap) {
        size_t cap = (size_t)n + n / 2 + 64;
        free(u->nodes);
        u->nodes = NULL;
        dop_budget_give(u->budget, u->cap * sizeof *u->nodes);
        u->cap = 0;
        if (dop_budget_take(u->budget, cap * sizeof *u->nodes) && !(u->nodes = malloc(cap * sizeof *u->nodes)))
            dop_budget_give(u->budget, cap * sizeof *u->nodes);
        if (!u->nodes)
            return dop_tok_no_room(u->budget, diag);
        u->cap = cap;
    }
    if (!search_pieces(u, s, n))
        return dop_tok_no_room(u->budget, diag);
    link_best_path(u, n);
    for (uint32_t at = 0, end; at < n; at = end) {
        uint32_t id = u->nodes[at].next.id;
        end = u->nodes[at].next.end;
        if (id != t->head->unk) {
            dop_ids_push(out, id);
            continue;
        }
        while (end < n && u->nodes[end].next.id == t->head->unk)
            end = u->nodes[end].next.end;
        put_unknown(t, s + at, end - at, out);
    }
    return DOP_OK;
}

static const char *
unigram_check(const dop_tokenizer *t)
{
    const dop_tok_header *h = t->head;
    if (h->word_max || h->joint.bytes || h->joint.offset || !isfinite(h->unk_score) ||
        (h->flags & (DOP_TOK_F_BYTE_LEVEL | DOP_TOK_F_BY_SCORE)))
        return "header";
    if (t->trie_label_count == 0)
        return "trie";
    if (t->scores_count != h->tokens)
        return "scores";
    for (uint32_t i = 0; i < t->scores_count; i++)
        if (!(fabs(t->scores[i]) <= 1e30))
            return "scores";
    return NULL;
}

const dop_tok_kind dop_tok_unigram_kind = {"Unigram", unigram_check, unigram_create, unigram_destroy, unigram_word};
