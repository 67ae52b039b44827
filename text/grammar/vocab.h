/* Vocabulary as a byte trie, for walks over all tokens. */
#ifndef DOPPLER_TEXT_GRAMMAR_VOCAB_H
#define DOPPLER_TEXT_GRAMMAR_VOCAB_H

#include "text/grammar/grammar.h"

/* Trie node. Nodes are in preorder: descendants follow their node. */
typedef struct dop_vocab_node {
    uint32_t end;   /* first node after the descendants */
    uint32_t token; /* index in tokens[] of the first token ending here; the next node's value ends the range */
    uint16_t depth; /* number of bytes before this one */
    uint8_t byte;
} dop_vocab_node;

struct dop_vocab {
    struct dop_pool *pool; /* owned memory pool of the vocabulary's grammars */
    const dop_tokenizer *tok;
    uint32_t n_vocab, n_words; /* n_vocab: number of tokens; n_words: 32-bit words of a mask */
    uint32_t *end_ids;         /* owned: end-of-generation ids */
    size_t n_end_ids;
    dop_vocab_node *nodes; /* owned, [n_nodes + 1]; the last one ends the tokens of its predecessor */
    uint32_t n_nodes;
    uint32_t *tokens;           /* owned: ids sorted by the tokens' bytes */
    uint32_t n_tokens, longest; /* longest: length of the longest token in bytes */
    char *marked;               /* owned: texts of the special tokens, each prefixed with DOP_VOCAB_SPECIAL */
    uint32_t *specials;         /* owned: ids of the special tokens, in the order of `marked` */
    uint32_t n_specials;
};

/* Prefix byte for texts of special tokens. The byte never occurs in text, so special tokens match only where a
 * grammar names them. */
#define DOP_VOCAB_SPECIAL ((char)0xff)

/* Returns the length in bytes of the longest special token that a text begins with, or 0 if there is none.
 * *out_ends: true if the token ends generation. */
size_t dop_vocab_special(const dop_vocab *vocab, const char *text, size_t n, bool *out_ends);

bool dop_vocab_is_end(const dop_vocab *vocab, uint32_t id);

#endif
