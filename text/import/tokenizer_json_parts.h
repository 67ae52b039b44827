/* Table-driven readers for normalizers, pre-tokenizers and post-processors of a tokenizer.json. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_PARTS_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_PARTS_H

#include "text/import/tokenizer_build.h"

#include <jansson.h>

/* Read one component of the file into the build. NULL or JSON null means that the component is absent. An unknown
 * type is an error that names the type. */
dop_status dop_tok_json_normalizer(dop_tok_build *b, const json_t *n, dop_diag *diag);
/* Reads the section "pre_tokenizer"; also sets DOP_TOK_F_BYTE_LEVEL. */
dop_status dop_tok_json_pre_tokenizer(dop_tok_build *b, const json_t *p, dop_diag *diag);
dop_status dop_tok_json_post_processor(dop_tok_build *b, const json_t *p, dop_diag *diag);

/* Typed look-ups of a key. A missing or null boolean has the fallback value; a wrong type is an error. */
dop_status dop_tok_json_bool(const json_t *o, const char *key, bool fallback, const char *path, dop_diag *diag,
                             bool *out);
dop_status dop_tok_json_string(const json_t *o, const char *key, const char *path, dop_diag *diag, const char **out,
                               size_t *out_len);
/* Reads an added token: {"content", "lstrip", "rstrip", "single_word", "special", "normalized"}. */
dop_status dop_tok_json_added(const json_t *o, const char *path, dop_diag *diag, const char **out_text, size_t *out_len,
                              uint32_t *out_flags, bool *out_normalized);
/* Reads a token id below `tokens` from a JSON integer. Returns false if v is not an integer in this range. */
bool dop_tok_json_id(const json_t *v, uint32_t tokens, uint32_t *out_id);

#endif
