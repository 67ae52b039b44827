/* The parts of a tokenizer.json that are lists of components. */
#ifndef DOPPLER_COMPILER_IMPORT_TEXT_TOKENIZER_JSON_H
#define DOPPLER_COMPILER_IMPORT_TEXT_TOKENIZER_JSON_H

#include "base/json/json.h"
#include "compiler/import/text/tokenizer_build.h"

/* All accept NULL or JSON null: the component is absent.  Unknown types are errors that name them. */
dop_status dop_tok_json_normalizer(dop_tok_build *b, const json_t *n, dop_diag *diag);
/* Also sets DOP_TOK_F_BYTE_LEVEL. */
dop_status dop_tok_json_pre_tokenizer(dop_tok_build *b, const json_t *p, dop_diag *diag);
dop_status dop_tok_json_post_processor(dop_tok_build *b, const json_t *p, dop_diag *diag);

/* What is read of the file beside the build. */
typedef struct dop_tok_json {
    dop_tok_build b;
    const json_t *root, *model, *added;
    json_t *vocab; /* object of ids by text; a list of pieces is made one */
    dop_diag *diag;
} dop_tok_json;

/* Kinds of "model", by table. */
typedef struct dop_tok_json_model {
    const char *type;
    bool (*fits)(const json_t *model); /* older files do not say their type */
    /* Before anything else is read, and after vocabulary and added tokens. */
    dop_status (*begin)(dop_tok_json *r);
    dop_status (*finish)(dop_tok_json *r);
} dop_tok_json_model;

/* The row that a model belongs to; an error that lists the known ones when there is none. */
dop_status dop_tok_json_find_model(const json_t *model, const char *path, dop_diag *diag,
                                   const dop_tok_json_model **out_model);
/* Whether a file's first line is one of a tiktoken file. */
bool dop_tok_is_tiktoken(const void *bytes, size_t size);
/* Mistral's tekken.json, which is JSON too; tokenizer_tiktoken.c. */
bool dop_tok_is_tekken(const json_t *root);
dop_status dop_tok_tekken(const json_t *root, const char *path, const dop_tokenizer_facts *facts, dop_diag *diag,
                          dop_tokenizer **out_tok);
/* Sets r->vocab, owned by r; path is for messages. */
dop_status dop_tok_json_vocab(dop_tok_json *r, const char *path);
bool dop_tok_json_vocab_id(const dop_tok_json *r, const char *s, size_t n, uint32_t *out_id);

/* Decoder steps that work on one token at a time, applied to every token once, at import. */
typedef struct dop_tok_decoder {
    enum {
        DOP_DEC_BYTE_LEVEL,
        DOP_DEC_REPLACE,
        DOP_DEC_BYTE_FALLBACK,
        DOP_DEC_STRIP,
        DOP_DEC_WORDPIECE, /* drops a in front, or puts a space there */
    } kind[16];
    const char *a[16], *by[16];
    size_t an[16], byn[16];
    uint32_t left[16], right[16];
    uint32_t count;
    bool wordpiece;
    bool fused; /* after Fuse only the start of the whole text can change */
} dop_tok_decoder;

/* Also sets b->strip. */
dop_status dop_tok_json_decoder(dop_tok_build *b, const json_t *d, dop_tok_decoder *dec, dop_diag *diag);
/* Adds what transformers does behind a decoder ByteLevel where the model marks ends of words. */
void dop_tok_json_word_ends(const json_t *model, dop_tok_decoder *dec);
/* Text of a token as written in the vocabulary.  Appends to out. */
void dop_tok_decoder_apply(const dop_tok_decoder *dec, const char *s, size_t n, dop_buf *out);

/* Reads an optional file of a folder, which holds a JSON object; *out stays as it is where the file is absent. */
dop_status dop_tok_read_object(const char *dir, const char *name, dop_diag *diag, json_t **out);

/* Typed lookups: the fallback when the key is absent or null, an error when it has another type. */
dop_status dop_tok_json_bool(const json_t *o, const char *key, bool fallback, const char *path, dop_diag *diag,
                             bool *out);
dop_status dop_tok_json_string(const json_t *o, const char *key, const char *path, dop_diag *diag, const char **out,
                               size_t *out_len);
/* An added token: {"content", "lstrip", "rstrip", "single_word", "special", "normalized"}. */
dop_status dop_tok_json_added(const json_t *o, const char *path, dop_diag *diag, const char **out_text, size_t *out_len,
                              uint32_t *out_flags, bool *out_normalized);
/* Token id out of a JSON integer; false when it is none or out of range. */
bool dop_tok_json_id(const json_t *v, uint32_t tokens, uint32_t *out_id);

#endif
