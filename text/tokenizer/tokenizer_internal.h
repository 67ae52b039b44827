/* What the files of the tokenizer share among themselves. */
#ifndef DOPPLER_TEXT_TOKENIZER_TOKENIZER_INTERNAL_H
#define DOPPLER_TEXT_TOKENIZER_TOKENIZER_INTERNAL_H

#include "text/tokenizer/regex.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_format.h"

/* U+2581, which stands for a space in SentencePiece vocabularies. */
#define DOP_TOK_SPACE "\xe2\x96\x81"
#define DOP_TOK_SPACE_LEN 3

struct dop_tok_kind;

struct dop_tokenizer {
    const struct dop_tok_kind *kind;
    void *owned; /* memory that is freed with the tokenizer: the blob, or NULL when the caller owns the blob */
    const char *blob;
    size_t blob_size;
    const dop_tok_header *head;
    /* A pointer into the blob and a number of elements for each section. */
#define X(name, type) \
    const type *name; \
    uint32_t name##_count;
    DOP_TOK_SECTIONS(X)
#undef X
    dop_regex **regex;       /* [ops_count], NULL where an op has none */
    uint32_t ascii_ids[128]; /* token of a one-byte character (character mode) */
    /* Index of the added tokens by first byte, for those of raw text (group 0) and of normalized text (group 1): [group][byte] is the
     * first token's index, [group][byte + 1] the end. */
    uint32_t added_first[2][257];
    uint32_t longest_piece; /* bytes: a longer word cannot be one token */
    uint32_t joint_node;    /* node of the trie that head->joint leads to; 0: no piece begins with it */
};

/* Makes a tokenizer of a blob from malloc(), which it takes ownership of whether it succeeds or not. */
dop_status dop_tokenizer_adopt(void *blob, size_t size, dop_diag *diag, dop_tokenizer **out_tok);

static inline const char *
dop_tok_piece(const dop_tokenizer *t, uint32_t id, size_t *out_len)
{
    *out_len = t->piece_off[id + 1] - t->piece_off[id];
    return t->piece_bytes + t->piece_off[id];
}

/* Finds the token of the model's vocabulary with exactly this piece; DOP_TOK_NONE: there is none. */
static inline uint32_t
dop_tok_lookup(const dop_tokenizer *t, const char *s, size_t n)
{
    uint32_t slots = t->vocab_hash_count;
    for (uint32_t i = dop_tok_slot(dop_tok_hash_bytes(s, n), slots);; i = i + 1 == slots ? 0 : i + 1) {
        uint32_t id = t->vocab_hash[i];
        if (id == DOP_TOK_NONE)
            return id;
        size_t len;
        const char *p = dop_tok_piece(t, id, &len);
        if (len == n && memcmp(p, s, n) == 0)
            return id;
    }
}

static inline const dop_tok_merge *
dop_tok_find_merge(const dop_tokenizer *t, uint32_t a, uint32_t b)
{
    uint32_t slots = t->merges_count;
    for (uint32_t i = dop_tok_slot(dop_tok_hash_pair(a, b), slots);; i = i + 1 == slots ? 0 : i + 1) {
        const dop_tok_merge *m = &t->merges[i];
        if (m->a == DOP_TOK_NONE)
            return NULL;
        if (m->a == a && m->b == b)
            return m;
    }
}

/* The child of a trie's node for a byte; 0 if there is none. */
static inline uint32_t
dop_tok_step(const dop_tokenizer *t, uint32_t node, uint8_t c)
{
    uint32_t lo = t->trie_first[node], hi = t->trie_first[node + 1], end = hi;
    while (hi - lo > 8) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (t->trie_label[mid] <= c)
            lo = mid;
        else
            hi = mid;
    }
    while (lo < end && t->trie_label[lo] < c)
        lo++;
    return lo < end && t->trie_label[lo] == c ? lo : 0;
}

/* Length of the longest piece of a user-defined token that s[0..n) begins with; 0 if there is none. */
size_t dop_tok_user_defined(const dop_tokenizer *t, const char *s, size_t n, uint32_t *out_id);
/* Checks the trie of a loaded blob: returns NULL, or the name of what is wrong. */
const char *dop_tok_trie_check(const dop_tokenizer *t);

/* Fails because a buffer could not be allocated: DOP_E_LIMIT when the budget is exhausted, else DOP_E_NOMEM. */
static inline dop_status
dop_tok_no_room(const dop_budget *budget, dop_diag *diag)
{
    if (budget && budget->end != DOP_BUDGET_LEFT)
        return dop_budget_fail(budget, diag, "tokenizing the text");
    return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}

/* A part of a text on its way through normalizer and pre-tokenizer, which work on each part by itself. */
typedef struct dop_tok_span {
    size_t start, len; /* bytes in the current text */
    bool first;        /* begins where the whole input begins */
} dop_tok_span;

typedef struct dop_tok_spans {
    dop_tok_span *data;
    size_t count, cap;
    bool failed;
} dop_tok_spans;

void dop_tok_spans_push(dop_tok_spans *spans, dop_tok_span span);

/* The current text with its spans, and buffers that the next step writes to. */
typedef struct dop_tok_work {
    dop_buf text, text_next;
    dop_tok_spans spans, spans_next;
    dop_regex_scratch *regex;
    size_t limit;       /* most bytes that the text may grow to; set by dop_tok_apply_ops */
    dop_budget *budget; /* not owned; NULL: no limits */
} dop_tok_work;

void dop_tok_work_finish(dop_tok_work *w);
/* Applies ops [from, to) to the spans in w. */
dop_status dop_tok_apply_ops(const dop_tokenizer *t, uint32_t from, uint32_t to, dop_tok_work *w, dop_diag *diag);

/* GPT-2's alphabet for bytes: printable bytes stand for themselves, the others are U+0100 and up.  Appends the bytes
 * that a piece in this alphabet spells and returns true; false when some character is not of the alphabet. */
bool dop_tok_bytes_of_piece(const char *s, size_t n, dop_buf *out);

/* A kind of vocabulary: the functions that make tokens of one word (a span that the pre-tokenizer leaves).  The state that create()
 * makes (NULL: out of memory) has the buffers of one thread; the budget, not owned, is charged for the buffers and for the work. */
typedef struct dop_tok_kind {
    const char *name;
    const char *(*check)(const dop_tokenizer *t); /* NULL, or the name of what is wrong in a loaded blob */
    void *(*create)(const dop_tokenizer *t, bool with_cache, dop_budget *budget);
    void (*destroy)(void *state); /* accepts NULL */
    dop_status (*word)(void *state, const char *s, size_t n, dop_diag *diag, dop_ids *out_ids);
} dop_tok_kind;

extern const dop_tok_kind dop_tok_bpe_kind, dop_tok_unigram_kind, dop_tok_wordpiece_kind;

#endif
