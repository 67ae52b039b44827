/* SentencePiece's precompiled rules for normalizing characters.
 *
 * The form is that of the field precompiled_charsmap of its model files: a 32-bit count of bytes, a double array trie
 * of that size (32-bit units as in Darts-clone), and 0-terminated replacements, which the trie's values point into.
 * References: SentencePiece (normalizer.cc), Darts-clone (the units' bits), and for the grapheme form the Rust crate
 * spm_precompiled as Hugging Face's tokenizers use it. */
#ifndef DOPPLER_TEXT_TOKENIZER_TOKENIZER_CHARSMAP_H
#define DOPPLER_TEXT_TOKENIZER_TOKENIZER_CHARSMAP_H

#include "text/tokenizer/tokenizer_internal.h"

/* Checks a map of `size` bytes (0: an empty map) and returns what is wrong with it, or NULL. */
const char *dop_charsmap_check(const char *map, size_t size);

/* Rewrite s[0..n), which is valid UTF-8, into out: the normalizer steps DOP_OP_CHARSMAP, and DOP_OP_SENTENCEPIECE with its flags
 * DOP_SP_*. */
void dop_charsmap_graphemes(const dop_tokenizer *t, const char *s, size_t n, dop_buf *out);
void dop_charsmap_sentencepiece(const dop_tokenizer *t, unsigned flags, const char *s, size_t n, dop_buf *out);

#endif
