/* Reading of tokenizer.json: normalizer, pre-tokenizer, post-processor, decoder and model; and of tekken.json. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_JSON_H

#include "base/json/json.h"
#include "text/import/tokenizer_build.h"

/* Read one component of the file into the build; NULL or JSON null: the component is absent.  A component of unknown type is an error
 * that names the type. */
dop_status dop_tok_json_normalizer(dop_tok_build *b, const json_t *n, dop_diag *diag);
/* Also sets DOP_TOK_F_BYTE_LEVEL. */
dop_status dop_tok_json_pre_tokenizer(dop_tok_build *b, const json_t *p, dop_diag *diag);
dop_status dop_tok_json_post_processor(dop_tok_build *b, const json_t *p, dop_diag *diag);

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

/* The row of the table that reads a model; fails, listing the known types, where there is none. */
dop_status dop_tok_json_find_model(const json_t *model, const char *path, dop_diag *diag,
                                   const dop_tok_json_model **out_model);
/* Whether a file is a tiktoken file, judged by its first line. */
bool dop_tok_is_tiktoken(const void *bytes, size_t size);
/* Whether a file is a list of merges, judged by its first line. */
bool dop_tok_is_merges(const void *bytes, size_t size);
/* tokenizer_tiktoken.c: whether a JSON file is Mistral's tekken.json, and the tokenizer of one. */
bool dop_tok_is_tekken(const json_t *root);
dop_status dop_tok_tekken(const json_t *root, const char *path, const dop_tokenizer_facts *facts, dop_diag *diag,
                          dop_tokenizer **out_tok);
/* Sets r->vocab, which r owns; path is for messages. */
dop_status dop_tok_json_vocab(dop_tok_json *r, const char *path);
bool dop_tok_json_vocab_id(const dop_tok_json *r, const char *s, size_t n, uint32_t *out_id);

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

/* Reads the component "decoder" into dec, and sets b->strip. */
dop_status dop_tok_json_decoder(dop_tok_build *b, const json_t *d, dop_tok_decoder *dec, dop_diag *diag);
/* Adds the step that transformers appends to a ByteLevel decoder where the model marks ends of words: the mark becomes a space. */
void dop_tok_json_word_ends(const json_t *model, dop_tok_decoder *dec);
/* Appends to out the text that a token decodes to; s is the token as written in the vocabulary. */
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
/* A token id below `tokens` from a JSON integer; false: v is no integer or out of range. */
bool dop_tok_json_id(const json_t *v, uint32_t tokens, uint32_t *out_id);

#endif
