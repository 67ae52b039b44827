/* libdoppler: conversion of text to token ids and back, and chat formats.
 *
 * A dop_text is the tokenizer of a plan with its chat template; a dop_chat is a parsed chat template.  Both are immutable and can be
 * used by any number of threads.  A dop_decoder belongs to one thread at a time.  None of them needs a device.  A dop_text made from an
 * open model must not outlive it; one opened from a file depends on no model. */
#ifndef DOPPLER_INCLUDE_DOPPLER_TEXT_H
#define DOPPLER_INCLUDE_DOPPLER_TEXT_H

#include <doppler/doppler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_text dop_text;
typedef struct dop_decoder dop_decoder;
typedef struct dop_chat dop_chat;

/* Creates the tokenizer of an open model, which must outlive it.  DOP_E_INPUT: the plan has no tokenizer.  The caller destroys it. */
dop_status dop_text_of_model(const dop_model *model, dop_diag *diag, dop_text **out_text);
/* Creates a tokenizer from a plan file, without a device.  DOP_E_INPUT: the plan has no tokenizer.  The caller destroys it. */
dop_status dop_text_open(const char *plan_path, dop_diag *diag, dop_text **out_text);
void dop_text_destroy(dop_text *text); /* accepts NULL */

uint32_t dop_text_vocab(const dop_text *text); /* largest id + 1; the model may have more or fewer logits */
bool dop_text_adds_bos(const dop_text *text);  /* true if DOP_TEXT_ADD_SPECIAL prepends an id */

enum {
    DOP_TEXT_ADD_SPECIAL = 1,   /* encoding: add the special tokens that the model puts around a text (BOS, EOS) */
    DOP_TEXT_PARSE_SPECIAL = 2, /* encoding: convert special tokens written in the text to their ids */
    DOP_TEXT_ONCE = 4,          /* with ADD_SPECIAL: skip tokens that the text already begins or ends with */
    /* Flags for trusted prompts: handwritten markers (fill-in-the-middle, chat turns) become special tokens, and BOS is not doubled.
     * For untrusted text use DOP_TEXT_ADD_SPECIAL alone. */
    DOP_TEXT_PROMPT = DOP_TEXT_ADD_SPECIAL | DOP_TEXT_PARSE_SPECIAL | DOP_TEXT_ONCE
};

/* Encodes a text of len bytes, which may include NUL.  *out_ids [*out_n] must be released with dop_free; NULL if empty.  flags:
 * DOP_TEXT_* bits.  DOP_E_INPUT: invalid UTF-8; the message has the byte offset. */
dop_status dop_text_encode(const dop_text *text, const char *bytes, size_t len, unsigned flags, dop_diag *diag,
                           uint32_t **out_ids, size_t *out_n);
/* Encodes a pair of texts for cross-encoders (rerankers).  Release *out_ids [*out_n] with dop_free.  *out_second: number of ids before
 * the second text. */
dop_status dop_text_encode_pair(const dop_text *text, const char *first, size_t n_first, const char *second,
                                size_t n_second, dop_diag *diag, uint32_t **out_ids, size_t *out_n, size_t *out_second);
/* Returns the prompt to prepend to a text before embedding it, from the model's config_sentence_transformers.json: the one called
 * `name`, or with NULL the default one.  *out_prompt is 0-terminated and owned by text; "" if there is no default.  The library does
 * not add it by itself.  DOP_E_INPUT: the name is unknown; the message lists the known ones. */
dop_status dop_text_prompt(const dop_text *text, const char *name, dop_diag *diag, const char **out_prompt);
/* Returns the prompt to prepend to a search query (query true) or to a document (false): the model's prompt for that purpose, otherwise
 * its default.  Owned by text. */
const char *dop_text_search_prompt(const dop_text *text, bool query);
/* Decodes n ids without special tokens.  *out_bytes is 0-terminated and *out_len bytes long; release it with dop_free.  Invalid UTF-8
 * becomes U+FFFD.  DOP_E_INPUT: an id is outside the vocabulary. */
dop_status dop_text_decode(const dop_text *text, const uint32_t *ids, size_t n, dop_diag *diag, char **out_bytes,
                           size_t *out_len);
/* True if the id ends generation. */
bool dop_text_is_end(const dop_text *text, uint32_t id);

enum {
    DOP_TEXT_GOES_ON = 1,     /* decoding: the ids continue an earlier text, so keep a space before the first word */
    DOP_TEXT_KEEP_SPECIAL = 2 /* decoding: include the text of special tokens */
};

/* Creates an incremental decoder, which returns only complete characters.  flags: DOP_TEXT_GOES_ON, DOP_TEXT_KEEP_SPECIAL.  text must
 * outlive the decoder; the caller destroys it. */
dop_status dop_decoder_create(const dop_text *text, unsigned flags, dop_diag *diag, dop_decoder **out_decoder);
void dop_decoder_destroy(dop_decoder *decoder); /* accepts NULL */
/* Decodes one id.  *out_bytes: characters that the id completes, 0-terminated and *out_len bytes long (often 0), owned by the decoder,
 * valid until the next call.  DOP_E_INPUT: the id is outside the vocabulary. */
dop_status dop_decoder_push(dop_decoder *decoder, uint32_t id, dop_diag *diag, const char **out_bytes, size_t *out_len);
/* Ends the text: an incomplete character becomes U+FFFD.  Results are those of dop_decoder_push. */
dop_status dop_decoder_end(dop_decoder *decoder, dop_diag *diag, const char **out_bytes, size_t *out_len);

/* A message of a conversation; both strings are 0-terminated UTF-8. */
typedef struct dop_message {
    const char *role; /* "system", "user", "assistant", or another role of the template */
    const char *content;
} dop_message;

/* Encodes a conversation in the model's chat format, up to the beginning of the answer.  Release *out_ids [*out_n] with dop_free.
 * Special tokens written in messages become ids, as in the template.  DOP_E_INPUT: the model has no template, or the template rejects
 * the conversation (with the template's message). */
dop_status dop_text_chat(const dop_text *text, const dop_message *messages, size_t n, dop_diag *diag,
                         uint32_t **out_ids, size_t *out_n);

bool dop_text_has_chat(const dop_text *text); /* true if the model has a chat template */

/* Creates the chat format of a tokenizer by parsing the model's template; supports growing conversations and tools.  The caller
 * destroys it.  DOP_E_INPUT: the model has no template, or an invalid one. */
dop_status dop_chat_of_text(const dop_text *text, dop_diag *diag, dop_chat **out_chat);
/* Creates a chat format from len bytes of Jinja, for models without a usable template. */
dop_status dop_chat_of_template(const char *template_text, size_t len, dop_diag *diag, dop_chat **out_chat);
/* Creates a chat format by name: chatml, gemma, llama2, llama3, mistral, ...  DOP_E_INPUT: unknown name; the message lists the known
 * ones. */
dop_status dop_chat_of_name(const char *name, dop_diag *diag, dop_chat **out_chat);
void dop_chat_destroy(dop_chat *chat); /* accepts NULL */
/* Returns the stop strings of an answer, in addition to the ids that end generation: the text that the template writes after an answer.
 * NULL-terminated; valid as long as the format. */
const char *const *dop_chat_stops(const dop_chat *chat);

enum {
    DOP_CHAT_LAST = 1 /* only the text that the last message adds to the conversation */
};

/* Formats a conversation as text (*out_bytes, 0-terminated, *out_len bytes) or as ids (*out_ids [*out_n]); release both with dop_free.
 * json: len bytes of JSON, an array of messages, or an object with "messages" and optionally "tools" (an array of tool descriptions)
 * and "add_generation_prompt" (false: do not begin an answer).  A message is an object with "role", "content" and other members of the
 * template.  flags: 0 or DOP_CHAT_LAST, for a sequence that holds the earlier messages.  text: the one passed to dop_chat_of_text.
 * DOP_E_INPUT: invalid JSON (with line and column) or another form; the template rejects the conversation (with its message); or, with
 * DOP_CHAT_LAST, the template formats earlier messages differently after later ones. */
dop_status dop_chat_text(const dop_chat *chat, const dop_text *text, const char *json, size_t len, unsigned flags,
                         dop_diag *diag, char **out_bytes, size_t *out_len);
dop_status dop_chat_ids(const dop_chat *chat, const dop_text *text, const char *json, size_t len, unsigned flags,
                        dop_diag *diag, uint32_t **out_ids, size_t *out_n);

#ifdef __cplusplus
}
#endif

#endif
