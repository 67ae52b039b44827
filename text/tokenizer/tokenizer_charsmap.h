/* SentencePiece's precompiled character normalization rules.
 *
 * The layout is that of the model files' field precompiled_charsmap: a 32-bit byte count, a double-array trie of
 * that size (32-bit units as in Darts-clone), and 0-terminated replacements that the trie's values point into.
 * References: SentencePiece (normalizer.cc), Darts-clone (bits of a unit), and the Rust crate spm_precompiled for
 * matching by grapheme as in Hugging Face's tokenizers. */
#ifndef DOPPLER_TEXT_TOKENIZER_TOKENIZER_CHARSMAP_H
#define DOPPLER_TEXT_TOKENIZER_TOKENIZER_CHARSMAP_H

#include "text/tokenizer/tokenizer_internal.h"

/* Checks a map of `size` bytes (0: an empty map). Returns a description of the first error, or NULL. */
const char *dop_charsmap_check(const char *map, size_t size);

/* Normalize s[0..n), which must be valid UTF-8, and append the result to out. Implement the steps DOP_OP_CHARSMAP
 * and DOP_OP_SENTENCEPIECE (flags: DOP_SP_*). */
void dop_charsmap_graphemes(const dop_tokenizer *t, const char *s, size_t n, dop_buf *out);
void dop_charsmap_sentencepiece(const dop_tokenizer *t, unsigned flags, const char *s, size_t n, dop_buf *out);

#endif
