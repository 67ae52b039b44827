/* Declarations shared by the files of the tokenizer. */
#ifndef DOPPLER_TEXT_TOKENIZER_TOKENIZER_INTERNAL_H
#define DOPPLER_TEXT_TOKENIZER_TOKENIZER_INTERNAL_H

#include "text/tokenizer/regex.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_format.h"

/* U+2581, the space character in SentencePiece vocabularies. */
#define DOP_TOK_SPACE "\xe2\x96\x81"
#define DOP_TOK_SPACE_LEN 3

struct dop_tok_kind;

struct dop_tokenizer {
    const struct dop_tok_kind *kind;
    void *owned; /* memory freed with the tokenizer: the blob, or NULL if the caller owns the blob */
    const char *blob;
    size_t blob_size;
    const dop_tok_header *head;
    /* Pointer into the blob and element count of each section. */
#define X(name, type) \
    const type *name; \
    uint32_t name##_count;
    DOP_TOK_SECTIONS(X)
#undef X
    dop_regex **regex;       /* [ops_count] compiled pattern of an op, or NULL */
    uint32_t ascii_ids[128]; /* tokens of the ASCII characters (character mode) */
    /* First-byte index of the added tokens; group 0 matches raw text, group 1 normalized text. Tokens that begin
     * with `byte` are added_first[group][byte] up to (excluding) added_first[group][byte + 1]. */
    uint32_t added_first[2][257];
    uint32_t longest_piece; /* bytes of the longest piece; longer words cannot be one token */
    uint32_t joint_node;    /* trie node reached by head->joint; 0: no piece begins with it */
};

/* Creates a tokenizer from a blob allocated with malloc(). Takes ownership of the blob, even on failure. */
dop_status dop_tokenizer_adopt(void *blob, size_t size, dop_diag *diag, dop_tokenizer **out_tok);

static inline const char *
dop_tok_piece(const dop_tokenizer *t, uint32_t id, size_t *out_len)
{
    *out_len = t->piece_off[id + 1] - t->piece_off[id];
    return t->piece_bytes + t->piece_off[id];
}

/* Returns the token of the model's vocabulary with exactly this piece, or DOP_TOK_NONE. */
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

/* Returns the child of a trie node for byte c, or 0 if there is none. */
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

/* Finds the longest user-defined token that s[0..n) begins with. Returns its length in bytes, or 0 if there is none. */
size_t dop_tok_user_defined(const dop_tokenizer *t, const char *s, size_t n, uint32_t *out_id);
/* Checks the trie of a loaded blob. Returns NULL, or the name of the bad section. */
const char *dop_tok_trie_check(const dop_tokenizer *t);

/* Reports a failed buffer allocation: DOP_E_LIMIT if the budget is exhausted, otherwise DOP_E_NOMEM. */
static inline dop_status
dop_tok_no_room(const dop_budget *budget, dop_diag *diag)
{
    if (budget && budget->end != DOP_BUDGET_LEFT)
        return dop_budget_fail(budget, diag, "tokenizing the text");
    return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}

/* Part of a text in normalizer and pre-tokenizer; the steps process each span separately. */
typedef struct dop_tok_span {
    size_t start, len; /* byte range in the current text */
    bool first;        /* true if the span begins at the start of the whole input */
} dop_tok_span;

typedef struct dop_tok_spans {
    dop_tok_span *data;
    size_t count, cap;
    bool failed;
} dop_tok_spans;

void dop_tok_spans_push(dop_tok_spans *spans, dop_tok_span span);

/* The current text and its spans, and the output buffers of the next step. */
typedef struct dop_tok_work {
    dop_buf text, text_next;
    dop_tok_spans spans, spans_next;
    dop_regex_scratch *regex;
    size_t limit;       /* maximum bytes of the text after any step; set by dop_tok_apply_ops() */
    dop_budget *budget; /* not owned; NULL: no limits */
} dop_tok_work;

void dop_tok_work_finish(dop_tok_work *w);
/* Applies ops [from, to) of the tokenizer to the spans in w. */
dop_status dop_tok_apply_ops(const dop_tokenizer *t, uint32_t from, uint32_t to, dop_tok_work *w, dop_diag *diag);

/* Decodes a piece from GPT-2's byte alphabet: printable bytes are themselves, other bytes are U+0100 and up. Appends
 * the bytes and returns true. Returns false if a character is not in the alphabet. */
bool dop_tok_bytes_of_piece(const char *s, size_t n, dop_buf *out);

/* Vtable of a vocabulary kind, which encodes one word (a span after pre-tokenization). create() returns the encoder
 * state of one thread, or NULL when out of memory. The state charges the budget, which it does not own, for buffers
 * and work. */
typedef struct dop_tok_kind {
    const char *name;
    const char *(*check)(const dop_tokenizer *t); /* checks a loaded blob; returns NULL, or the name of the bad
                                                   * section */
    void *(*create)(const dop_tokenizer *t, bool with_cache, dop_budget *budget);
    void (*destroy)(void *state); /* accepts NULL */
    dop_status (*word)(void *state, const char *s, size_t n, dop_diag *diag, dop_ids *out_ids);
} dop_tok_kind;

extern const dop_tok_kind dop_tok_bpe_kind, dop_tok_unigram_kind, dop_tok_wordpiece_kind;

#endif
