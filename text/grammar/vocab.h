/* A vocabulary as a tree of bytes, for walks through all tokens. */
#ifndef DOPPLER_TEXT_GRAMMAR_VOCAB_H
#define DOPPLER_TEXT_GRAMMAR_VOCAB_H

#include "text/grammar/grammar.h"

/* Nodes are in the order of a walk: a node's descendants follow it. */
typedef struct dop_vocab_node {
    uint32_t end;   /* first node after its descendants */
    uint32_t token; /* index into tokens[] of the first token that ends here; the next node's index is the end */
    uint16_t depth; /* bytes before its own */
    uint8_t byte;
} dop_vocab_node;

struct dop_vocab {
    struct dop_pool *pool; /* owned */
    const dop_tokenizer *tok;
    uint32_t n_vocab, n_words; /* number of tokens; 32-bit words of a mask */
    uint32_t *end_ids;         /* owned */
    size_t n_end_ids;
    dop_vocab_node *nodes; /* owned, [n_nodes + 1]: the last one ends the tokens */
    uint32_t n_nodes;
    uint32_t *tokens;           /* owned, ids in the order of their bytes */
    uint32_t n_tokens, longest; /* longest: bytes of the longest token */
    char *marked;               /* owned: texts of special tokens, each behind DOP_VOCAB_SPECIAL */
    uint32_t *specials;         /* owned: ids of the special tokens, in the order of their texts in `marked` */
    uint32_t n_specials;
};

/* Before the text of a special token.  No text has this byte, so that special tokens stand only where a grammar names them. */
#define DOP_VOCAB_SPECIAL ((char)0xff)

/* The length of the longest special token that a text begins with, in bytes; 0: there is none.  *out_ends: the token ends an answer. */
size_t dop_vocab_special(const dop_vocab *vocab, const char *text, size_t n, bool *out_ends);

bool dop_vocab_is_end(const dop_vocab *vocab, uint32_t id);

#endif
