/* Reading of tokenizer.json: normalizer, pre-tokenizer, post-processor, decoder and model; and of tekken.json. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_H

#include "base/json/json.h"
#include "text/import/tokenizer_build.h"
#include "text/import/tokenizer_files.h"

/* A tokenizer.json that is being read: the build, and the parts of the file. */
typedef struct dop_tok_json {
    dop_tok_build b;
    const json_t *root, *model, *added;
    json_t *vocab; /* object of ids by text; Unigram's list of pieces is turned into one */
    dop_diag *diag;
} dop_tok_json;

/* A kind of "model" of tokenizer.json (BPE, Unigram, WordPiece): a row of the table in tokenizer_json_models.c. */
typedef struct dop_tok_json_model {
    const char *type;
    bool (*fits)(const json_t *model); /* older files do not say their type */
    /* begin: called before anything else is read; finish: called after vocabulary and added tokens. */
    dop_status (*begin)(dop_tok_json *r);
    dop_status (*finish)(dop_tok_json *r);
} dop_tok_json_model;

/* Decoder steps that work on one token at a time, applied to every token once, at import. */
typedef struct dop_tok_decoder {
    enum {
        DOP_DEC_BYTE_LEVEL,
        DOP_DEC_REPLACE,
        DOP_DEC_BYTE_FALLBACK,
        DOP_DEC_STRIP,
        DOP_DEC_WORDPIECE, /* drops a leading `a`, or puts a space in front where there is none */
    } kind[16];
    const char *a[16], *by[16];
    size_t an[16], byn[16];
    uint32_t left[16], right[16];
    uint32_t count;
    bool wordpiece;
    bool fused; /* a step Fuse has been read: later steps can only change the start of the whole text */
} dop_tok_decoder;

/* Reads an optional file of a folder, which holds a JSON object; *out stays as it is where the file is absent. */
dop_status dop_tok_read_object(const char *dir, const char *name, dop_diag *diag, json_t **out);

/* Parses tokenizer.json or tekken.json (UTF-8 JSON text).  path is for messages only; facts may be NULL.  Anything that
 * would change ids and that is not supported is an error that names the component. */
dop_status dop_tokenizer_from_json(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                                   dop_diag *diag, dop_tokenizer **out_tok);

#endif
