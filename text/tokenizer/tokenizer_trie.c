/* Trie of the pieces of a vocabulary. Nodes are stored breadth first, so siblings are adjacent. */
#include "text/tokenizer/tokenizer_internal.h"

const char *
dop_tok_trie_check(const dop_tokenizer *t)
{
    uint32_t nodes = t->trie_label_count;
    if (nodes == 0)
        return t->trie_first_count || t->trie_token_count ? "trie" : NULL;
    if (t->trie_first_count != nodes + 1 || t->trie_token_count != nodes || t->trie_first[0] != 1 ||
        t->trie_first[nodes] != nodes || t->longest_piece > DOP_TOK_MAX_PIECE)
        return "trie";
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t from = t->trie_first[i], to = t->trie_first[i + 1];
        if (from <= i || from > to || to > nodes)
            return "trie_first";
        for (uint32_t k = from + 1; k < to; k++)
            if (t->trie_label[k] <= t->trie_label[k - 1])
                return "trie_label";
        uint32_t id = t->trie_token[i];
        if (id != DOP_TOK_NONE && (id >= t->head->tokens || i == 0))
            return "trie_token";
    }
    return NULL;
}

size_t
dop_tok_user_defined(const dop_tokenizer *t, const char *s, size_t n, uint32_t *out_id)
{
    size_t longest = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < n && i < t->longest_piece && (node = dop_tok_step(t, node, (uint8_t)s[i])) != 0; i++) {
        uint32_t id = t->trie_token[node];
        if (id != DOP_TOK_NONE && (t->token_flags[id] & DOP_TOKEN_USER_DEFINED)) {
            longest = i + 1;
            *out_id = id;
        }
    }
    return longest;
}
