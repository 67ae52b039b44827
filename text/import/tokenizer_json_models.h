/* Types of "model" in a tokenizer.json: BPE, Unigram, WordPiece. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_MODELS_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_MODELS_H

#include "text/import/tokenizer_json.h"

/* Finds the handler of a model. Fails with a list of the supported types if there is none. */
dop_status dop_tok_json_find_model(const json_t *model, const char *path, dop_diag *diag,
                                   const dop_tok_json_model **out_model);
/* Sets r->vocab, which r owns. path is used in messages. */
dop_status dop_tok_json_vocab(dop_tok_json *r, const char *path);
bool dop_tok_json_vocab_id(const dop_tok_json *r, const char *s, size_t n, uint32_t *out_id);

#endif
