/* Reader of tokenizer.json (normalizer, pre-tokenizer, post-processor, decoder and model) and of tekken.json. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_H

#include "base/json/json.h"
#include "text/import/tokenizer_build.h"
#include "text/import/tokenizer_files.h"

/* State while reading a tokenizer.json: the build, and sections of the file. */
typedef struct dop_tok_json {
    dop_tok_build b;
    const json_t *root, *model, *added;
    json_t *vocab; /* owned object, ids by text; Unigram's list of pieces is converted to this form */
    dop_diag *diag;
} dop_tok_json;

/* Handler of one "model" type of tokenizer.json (BPE, Unigram, WordPiece); see the table in tokenizer_json_models.c. */
typedef struct dop_tok_json_model {
    const char *type;
    bool (*fits)(const json_t *model); /* detects the model in older files, which have no type */
    /* begin() runs before other sections are read, finish() after the vocabulary and added tokens. */
    dop_status (*begin)(dop_tok_json *r);
    dop_status (*finish)(dop_tok_json *r);
} dop_tok_json_model;

/* Decoder steps that process tokens separately, applied to each token once, at import. */
typedef struct dop_tok_decoder {
    enum {
        DOP_DEC_BYTE_LEVEL,
        DOP_DEC_REPLACE,
        DOP_DEC_BYTE_FALLBACK,
        DOP_DEC_STRIP,
        DOP_DEC_WORDPIECE, /* removes the prefix `a`; prepends a space to tokens without it */
    } kind[16];
    const char *a[16], *by[16];
    size_t an[16], byn[16];
    uint32_t left[16], right[16];
    uint32_t count;
    bool wordpiece;
    bool fused; /* true after a Fuse step; later steps may only change the start of the whole text */
} dop_tok_decoder;

/* Reads an optional file of a directory, which must contain a JSON object. Leaves *out unchanged if the file does
 * not exist. */
dop_status dop_tok_read_object(const char *dir, const char *name, dop_diag *diag, json_t **out);

/* Parses tokenizer.json or tekken.json (UTF-8 JSON). path is used in messages only; facts may be NULL. Fails, naming
 * the component, if an unsupported one would change ids. */
dop_status dop_tokenizer_from_json(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                                   dop_diag *diag, dop_tokenizer **out_tok);

#endif
