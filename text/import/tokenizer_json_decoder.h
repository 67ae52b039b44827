/* Decoder section of a tokenizer.json. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_DECODER_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_DECODER_H

#include "text/import/tokenizer_json.h"

/* Reads the section "decoder" into dec, and sets b->strip. */
dop_status dop_tok_json_decoder(dop_tok_build *b, const json_t *d, dop_tok_decoder *dec, dop_diag *diag);
/* Adds the step that transformers appends to a ByteLevel decoder of models with end-of-word marks: replaces the mark
 * with a space. */
void dop_tok_json_word_ends(const json_t *model, dop_tok_decoder *dec);
/* Decodes a token and appends its text to out. s is the token as written in the vocabulary. */
void dop_tok_decoder_apply(const dop_tok_decoder *dec, const char *s, size_t n, dop_buf *out);

#endif
