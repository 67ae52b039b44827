/* The parts of a tokenizer.json that are lists of components. */
#ifndef DOPPLER_RUNTIME_TEXT_TOKENIZER_JSON_H
#define DOPPLER_RUNTIME_TEXT_TOKENIZER_JSON_H

#include <jansson.h>

#include "runtime/text/tokenizer_build.h"

/* All accept NULL or JSON null: the component is absent.  Unknown types are errors that name them. */
dop_status dop_tok_json_normalizer(dop_tok_build *b, const json_t *n, dop_diag *diag);
/* Also sets DOP_TOK_F_BYTE_LEVEL. */
dop_status dop_tok_json_pre_tokenizer(dop_tok_build *b, const json_t *p, dop_diag *diag);
dop_status dop_tok_json_post_processor(dop_tok_build *b, const json_t *p, dop_diag *diag);

/* Decoder steps that work on one token at a time, applied to every token once, at import. */
typedef struct dop_tok_decoder {
    enum { DOP_DEC_BYTE_LEVEL, DOP_DEC_REPLACE, DOP_DEC_BYTE_FALLBACK, DOP_DEC_STRIP } kind[16];
    const char *a[16], *by[16];
    size_t an[16], byn[16];
    uint32_t left[16], right[16];
    uint32_t count;
    bool fused; /* after Fuse only the start of the whole text can change */
} dop_tok_decoder;

/* Also sets b->strip. */
dop_status dop_tok_json_decoder(dop_tok_build *b, const json_t *d, dop_tok_decoder *dec, dop_diag *diag);
/* Text of a token as written in the vocabulary.  Appends to out. */
void dop_tok_decoder_apply(const dop_tok_decoder *dec, const char *s, size_t n, dop_buf *out);

/* Typed lookups: the fallback when the key is absent or null, an error when it has another type. */
dop_status dop_tok_json_bool(const json_t *o, const char *key, bool fallback, const char *path, dop_diag *diag,
                             bool *out);
dop_status dop_tok_json_string(const json_t *o, const char *key, const char *path, dop_diag *diag, const char **out,
                               size_t *out_len);
/* Token id out of a JSON integer; false when it is none or out of range. */
bool dop_tok_json_id(const json_t *v, uint32_t tokens, uint32_t *out_id);

#endif
