/* Byte pair encoding of one word.
 *
 * Repeatedly merges the adjacent pair of symbols with the lowest rank, the leftmost first among equals. With a merge
 * table, ranks belong to pairs. With scores (SentencePiece in GGUF), ranks belong to the resulting tokens. Short
 * words scan an array of pairs; long words use a heap. */
#include <stdlib.h>

#include "base/encoding/utf8.h"
#include "text/tokenizer/tokenizer_internal.h"

/* Bytes [start, start + len) of the word. id is DOP_TOK_NONE for a character without a token. */
typedef struct symbol {
    uint32_t id, start, len;
    /* Indices of the neighbours, DOP_TOK_NONE at the ends. Used only for long words (heap). */
    uint32_t prev, next;
    bool frozen; /* user-defined token, never merged */
} symbol;

/* Heap entry: symbols `left` and `right`, together `len` bytes, can be merged into token `id`. Stale once either
 * symbol has been merged with another. */
typedef struct candidate {
    uint32_t rank, left, right, len, id;
} candidate;

enum { scan_max = 48, cache_key = 30, cache_ids = 7, cache_slots = 8192 };

typedef struct cached {
    uint8_t len; /* bytes of the word in key[]; 0: empty entry */
    uint8_t count;
    char key[cache_key];
    uint32_t ids[cache_ids];
} cached;

typedef struct dop_tok_bpe {
    const dop_tokenizer *t;
    const char *s; /* word being encoded */
    symbol *sym;
    size_t count, cap;
    candidate *heap;
    size_t heap_count, heap_cap;
    cached *cache;
    dop_budget *budget; /* not owned */
} dop_tok_bpe;

static void *
bpe_create(const dop_tokenizer *t, bool with_cache, dop_budget *budget)
{
    dop_tok_bpe *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->t = t;
    b->budget = budget;
    if (with_cache)
        b->cache = calloc(cache_slots, sizeof *b->cache); /* encoding works without a cache, only slower */
    return b;
}

static void
bpe_destroy(void *state)
{
    dop_tok_bpe *b = state;
    if (!b)
        return;
    dop_budget_give(b->budget, b->cap * sizeof *b->sym + b->heap_cap * sizeof *b->heap);
    free(b->sym);
    free(b->heap);
    free(b->cache);
    free(b);
}

static bool
reserve_symbols(dop_tok_bpe *b, size_t n)
{
    if (n <= b->cap)
        return true;
    size_t cap = n + n / 2 + 64;
    if (cap > SIZE_MAX / sizeof *b->sym || !dop_budget_take(b->budget, (cap - b->cap) * sizeof *b->sym))
        return false;
    symbol *p = realloc(b->sym, cap * sizeof *p);
    if (!p) {
        dop_budget_give(b->budget, (cap - b->cap) * sizeof *p);
        return false;
    }
    b->sym = p;
    b->cap = cap;
    return true;
}

static void
add_symbol(dop_tok_bpe *b, uint32_t id, size_t start, size_t len)
{
    b->sym[b->count++] = (symbol){.id = id, .start = (uint32_t)start, .len = (uint32_t)len};
}

/* Returns the token of a word's last character with the end-of-word mark ("</w>") appended. */
static uint32_t
find_last_token(const dop_tokenizer *t, const char *s, size_t n)
{
    char piece[4 + DOP_TOK_MAX_JOINT];
    memcpy(piece, s, n);
    memcpy(piece + n, t->strings + t->head->joint.offset, t->head->joint.bytes);
    return dop_tok_lookup(t, piece, n + t->head->joint.bytes);
}

/* True if byte fallback is on and each byte of a character has a byte token. */
static bool
has_byte_tokens(const dop_tokenizer *t, const char *s, size_t n)
{
    if (!(t->head->flags & DOP_TOK_F_BYTE_FALLBACK))
        return false;
    for (size_t i = 0; i < n; i++)
        if (t->byte_ids[(uint8_t)s[i]] == DOP_TOK_NONE)
            return false;
    return true;
}

/* Creates the initial symbols of a word, one per character. Characters without a token become byte tokens or the
 * unknown token. With DOP_TOK_F_FUSE_UNK consecutive unknown characters share one. Without byte and unknown tokens
 * they are dropped. */
static void
symbols_from_chars(dop_tok_bpe *b, size_t n)
{
    const dop_tokenizer *t = b->t;
    bool by_score = (t->head->flags & DOP_TOK_F_BY_SCORE) != 0, pending = false;
    size_t unk_start = 0, unk_len = 0;
    bool user_defined = (t->head->flags & DOP_TOK_F_USER_DEFINED) != 0;
    for (size_t i = 0, len; i < n; i += len) {
        uint8_t c = (uint8_t)b->s[i];
        uint32_t user;
        if (user_defined && (len = dop_tok_user_defined(t, b->s + i, n - i, &user)) != 0) {
            if (pending)
                add_symbol(b, t->head->unk, unk_start, unk_len);
            pending = false;
            add_symbol(b, user, i, len);
            b->sym[b->count - 1].frozen = true;
            continue;
        }
        len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        uint32_t id = t->head->joint.bytes && i + len == n ? find_last_token(t, b->s + i, len)
                      : c < 0x80                           ? t->ascii_ids[c]
                                                           : dop_tok_lookup(t, b->s + i, len);
        /* With scores, a character without a token may still be part of a longer token. */
        if (id != DOP_TOK_NONE || by_score) {
            if (pending)
                add_symbol(b, t->head->unk, unk_start, unk_len);
            pending = false;
            add_symbol(b, id, i, len);
        } else if (has_byte_tokens(t, b->s + i, len)) {
            for (size_t k = 0; k < len; k++)
                add_symbol(b, t->byte_ids[(uint8_t)b->s[i + k]], i + k, 1);
        } else if (t->head->unk != DOP_TOK_NONE) {
            if (pending && (t->head->flags & DOP_TOK_F_FUSE_UNK)) {
                unk_len += len;
            } else {
                if (pending)
                    add_symbol(b, t->head->unk, unk_start, unk_len);
                pending = true;
                unk_start = i;
                unk_len = len;
            }
        }
    }
    if (pending)
        add_symbol(b, t->head->unk, unk_start, unk_len);
}

static void
symbols_from_bytes(dop_tok_bpe *b, size_t n)
{
    const dop_tokenizer *t = b->t;
    for (size_t i = 0; i < n; i++) {
        uint32_t id =
            t->head->joint.bytes && i + 1 == n ? find_last_token(t, b->s + i, 1) : t->byte_ids[(uint8_t)b->s[i]];
        if (id != DOP_TOK_NONE)
            add_symbol(b, id, i, 1);
        else if (t->head->unk != DOP_TOK_NONE)
            add_symbol(b, t->head->unk, i, 1);
    }
}

/* Returns the rank of merging two adjacent symbols and sets *out_id to the result, or returns DOP_TOK_NONE if they
 * cannot merge. */
static uint32_t
pair_rank(const dop_tok_bpe *b, const symbol *l, const symbol *r, uint32_t *out_id)
{
    const dop_tokenizer *t = b->t;
    if (l->frozen || r->frozen)
        return DOP_TOK_NONE;
    if (t->head->flags & DOP_TOK_F_BY_SCORE) {
        uint32_t len = l->len + r->len;
        if (len > t->longest_piece)
            return DOP_TOK_NONE;
        uint32_t id = dop_tok_lookup(t, b->s + l->start, len);
        if (id == DOP_TOK_NONE)
            return DOP_TOK_NONE;
        *out_id = id;
        return t->ranks[id];
    }
    const dop_tok_merge *m = dop_tok_find_merge(t, l->id, r->id);
    if (!m)
        return DOP_TOK_NONE;
    *out_id = m->id;
    return m->rank;
}

/* Merges the pairs of a short word by rescanning for the best pair; quadratic time. */
static void
merge_by_scan(dop_tok_bpe *b)
{
    uint32_t rank[scan_max], id[scan_max];
    symbol *s = b->sym;
    size_t n = b->count;
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = pair_rank(b, &s[i], &s[i + 1], &id[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == DOP_TOK_NONE)
            break;
        s[best].id = id[best];
        s[best].len += s[best + 1].len;
        n--;
        for (size_t i = best + 1; i < n; i++) {
            s[i] = s[i + 1];
            rank[i - 1] = rank[i]; /* recomputed below if i - 1 == best */
            id[i - 1] = id[i];
        }
        if (best + 1 < n)
            rank[best] = pair_rank(b, &s[best], &s[best + 1], &id[best]);
        if (best > 0)
            rank[best - 1] = pair_rank(b, &s[best - 1], &s[best], &id[best - 1]);
    }
    b->count = n;
}

static bool
is_candidate_before(const candidate *x, const candidate *y)
{
    return x->rank != y->rank ? x->rank < y->rank : x->left < y->left;
}

static bool
heap_push(dop_tok_bpe *b, candidate c)
{
    if (b->heap_count == b->heap_cap) {
        size_t cap = b->heap_cap ? b->heap_cap * 2 : 256;
        if (cap > SIZE_MAX / sizeof *b->heap || !dop_budget_take(b->budget, (cap - b->heap_cap) * sizeof *b->heap))
            return false;
        candidate *p = realloc(b->heap, cap * sizeof *p);
        if (!p) {
            dop_budget_give(b->budget, (cap - b->heap_cap) * sizeof *p);
            return false;
        }
        b->heap = p;
        b->heap_cap = cap;
    }
    size_t i = b->heap_count++;
    while (i > 0 && is_candidate_before(&c, &b->heap[(i - 1) / 2])) {
        b->heap[i] = b->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    b->heap[i] = c;
    return true;
}

static candidate
heap_pop(dop_tok_bpe *b)
{
    candidate top = b->heap[0], c = b->heap[--b->heap_count];
    size_t n = b->heap_count, i = 0;
    for (size_t k = 1; k < n; k = 2 * i + 1) {
        if (k + 1 < n && is_candidate_before(&b->heap[k + 1], &b->heap[k]))
            k++;
        if (!is_candidate_before(&b->heap[k], &c))
            break;
        b->heap[i] = b->heap[k];
        i = k;
    }
    b->heap[i] = c;
    return top;
}

static bool
consider_pair(dop_tok_bpe *b, uint32_t left, uint32_t right)
{
    candidate c = {.left = left, .right = right};
    if (!dop_budget_step(b->budget, 16)) /* cost of a table look-up, and of a heap insertion and removal */
        return false;
    if (left == DOP_TOK_NONE || right == DOP_TOK_NONE)
        return true;
    c.rank = pair_rank(b, &b->sym[left], &b->sym[right], &c.id);
    if (c.rank == DOP_TOK_NONE)
        return true;
    c.len = b->sym[left].len + b->sym[right].len;
    return heap_push(b, c);
}

/* Merges the pairs of a long word, best first, with a linked list of symbols and a heap of pairs. Returns false if
 * the budget or memory is exhausted. */
static bool
merge_by_heap(dop_tok_bpe *b)
{
    symbol *s = b->sym;
    uint32_t n = (uint32_t)b->count;
    b->heap_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        s[i].prev = i ? i - 1 : DOP_TOK_NONE;
        s[i].next = i + 1 < n ? i + 1 : DOP_TOK_NONE;
    }
    for (uint32_t i = 0; i + 1 < n; i++)
        if (!consider_pair(b, i, i + 1))
            return false;
    while (b->heap_count) {
        candidate c = heap_pop(b);
        symbol *l = &s[c.left], *r = &s[c.right];
        /* Detects stale entries: lengths only grow, and a symbol merged into its left neighbour has length 0. */
        if (!l->len || !r->len || l->len + r->len != c.len || l->next != c.right)
            continue;
        l->id = c.id;
        l->len = c.len;
        l->next = r->next;
        r->len = 0;
        if (l->next != DOP_TOK_NONE)
            s[l->next].prev = c.left;
        if (!consider_pair(b, l->prev, c.left) || !consider_pair(b, c.left, l->next))
            return false;
    }
    size_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (s[i].len)
            s[kept++] = s[i];
    b->count = kept;
    return true;
}

static void
emit_symbols(const dop_tok_bpe *b, dop_ids *out)
{
    const dop_tokenizer *t = b->t;
    bool fallback = (t->head->flags & DOP_TOK_F_BYTE_FALLBACK) != 0, was_unknown = false;
    for (size_t i = 0; i < b->count; i++) {
        const symbol *s = &b->sym[i];
        /* With scores only: a character that has no token and was not merged. */
        bool unknown = s->id == DOP_TOK_NONE;
        if (!unknown) {
            dop_ids_push(out, s->id);
        } else if (!fallback && t->head->unk != DOP_TOK_NONE) {
            if (!was_unknown || !(t->head->flags & DOP_TOK_F_FUSE_UNK))
                dop_ids_push(out, t->head->unk);
        }
        was_unknown = unknown;
        for (uint32_t k = 0; unknown && fallback && k < s->len; k++) {
            uint32_t id = t->byte_ids[(uint8_t)b->s[s->start + k]];
            if (id == DOP_TOK_NONE)
                id = t->head->unk;
            if (id != DOP_TOK_NONE)
                dop_ids_push(out, id);
        }
    }
}

static dop_status
encode_word(dop_tok_bpe *b, const char *s, size_t n, dop_diag *diag, dop_ids *out)
{
    const dop_tokenizer *t = b->t;
    /* With DOP_TOK_F_LINES a word has either only line feeds or none. */
    const bool whole =
        (t->head->flags & DOP_TOK_F_IGNORE_MERGES) || ((t->head->flags & DOP_TOK_F_LINES) && n > 0 && s[0] == '\n');
    if (whole && n <= t->longest_piece) {
        uint32_t id = dop_tok_lookup(t, s, n);
        if (id != DOP_TOK_NONE) {
            dop_ids_push(out, id);
            return DOP_OK;
        }
    }
    if (n > UINT32_MAX / 4)
        return DOP_FAIL(diag, DOP_E_INPUT, "the text is too long to tokenize (%zu bytes in one word)", n);
    b->s = s;
    b->count = 0;
    if (!reserve_symbols(b, n))
        return dop_tok_no_room(b->budget, diag);
    if (t->head->flags & DOP_TOK_F_BYTE_LEVEL)
        symbols_from_bytes(b, n);
    else
        symbols_from_chars(b, n);
    if (b->count <= scan_max)
        merge_by_scan(b);
    else if (!merge_by_heap(b))
        return dop_tok_no_room(b->budget, diag);
    emit_symbols(b, out);
    return DOP_OK;
}

static dop_status
encode_cached(dop_tok_bpe *b, const char *s, size_t n, dop_diag *diag, dop_ids *out)
{
    if (!b->cache || n > cache_key)
        return encode_word(b, s, n, diag, out);
    cached *c = &b->cache[dop_tok_slot(dop_tok_hash_bytes(s, n), cache_slots)];
    if (c->len == n && memcmp(c->key, s, n) == 0) {
        for (uint32_t i = 0; i < c->count; i++)
            dop_ids_push(out, c->ids[i]);
        return DOP_OK;
    }
    size_t before_count = out->count;
    dop_status st = encode_word(b, s, n, diag, out);
    size_t made = out->count - before_count;
    if (st != DOP_OK || out->failed || made > cache_ids)
        return st;
    c->len = (uint8_t)n;
    c->count = (uint8_t)made;
    memcpy(c->key, s, n);
    memcpy(c->ids, out->data + before_count, made * sizeof *c->ids);
    return DOP_OK;
}

static dop_status
bpe_word(void *state, const char *s, size_t n, dop_diag *diag, dop_ids *out)
{
    dop_tok_bpe *b = state;
    const dop_tok_header *h = b->t->head;
    /* Cuts the text where no merge can cross (DOP_TOK_F_SEAMS). The ids stay the same, and the shorter words are
     * cacheable. */
    while ((h->flags & DOP_TOK_F_SEAMS) && n > DOP_TOK_SPACE_LEN) {
        size_t cut = 1;
        const char *p;
        while ((p = memmem(s + cut, n - cut, DOP_TOK_SPACE, DOP_TOK_SPACE_LEN)) != NULL) {
            uint8_t last = (uint8_t)p[-1];
            cut = (size_t)(p - s);
            if (!(h->seam[last >> 3] & (1u << (last & 7u))))
                break;
            cut += DOP_TOK_SPACE_LEN;
        }
        if (!p)
            break;
        dop_status st = encode_cached(b, s, cut, diag, out);
        if (st != DOP_OK)
            return st;
        s += cut;
        n -= cut;
    }
    return n ? encode_cached(b, s, n, diag, out) : DOP_OK;
}

static const char *
bpe_check(const dop_tokenizer *t)
{
    const dop_tok_header *h = t->head;
    const uint32_t no_mark = DOP_TOK_F_BY_SCORE | DOP_TOK_F_BYTE_FALLBACK | DOP_TOK_F_SEAMS;
    if (h->word_max || h->unk_score != 0 || t->scores_count)
        return "header";
    if (h->joint.bytes > DOP_TOK_MAX_JOINT || (h->joint.bytes ? h->flags & no_mark : h->joint.offset))
        return "joint";
    return (h->flags & DOP_TOK_F_BY_SCORE) && t->ranks_count != h->tokens ? "ranks" : NULL;
}

const dop_tok_kind dop_tok_bpe_kind = {"BPE", bpe_check, bpe_create, bpe_destroy, bpe_word};
