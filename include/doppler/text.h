/* libdoppler: text to token ids and back, and the chat format of a model.
 *
 * A dop_text is the tokenizer of a plan with its chat template, and a dop_chat is a chat template that was read.  Both are
 * immutable: any number of threads may use one.  A dop_decoder belongs to one thread at a time.  None of them needs a device.
 * A dop_text that was made from an open model must not outlive it; one that was opened from a file depends on no model. */
#ifndef DOPPLER_INCLUDE_DOPPLER_TEXT_H
#define DOPPLER_INCLUDE_DOPPLER_TEXT_H

#include <doppler/doppler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_text dop_text;
typedef struct dop_decoder dop_decoder;
typedef struct dop_chat dop_chat;

/* Creates the text of an open model, which must stay open as long.  DOP_E_INPUT: its plan has no tokenizer.  The caller destroys
 * it. */
dop_status dop_text_of_model(const dop_model *model, dop_diag *diag, dop_text **out_text);
/* Creates a text from the file of a plan; needs no device.  DOP_E_INPUT: the plan has no tokenizer.  The caller destroys it. */
dop_status dop_text_open(const char *plan_path, dop_diag *diag, dop_text **out_text);
void dop_text_destroy(dop_text *text); /* accepts NULL */

uint32_t dop_text_vocab(const dop_text *text); /* largest id + 1; a model may have logits for more ids, or for fewer */
bool dop_text_adds_bos(const dop_text *text);  /* whether DOP_TEXT_ADD_SPECIAL puts an id in front of a text */

enum {
    DOP_TEXT_ADD_SPECIAL = 1,   /* encoding: add what the model's definition adds around a text (BOS, EOS) */
    DOP_TEXT_PARSE_SPECIAL = 2, /* encoding: special tokens written in the text become tokens instead of plain text */
    DOP_TEXT_ONCE = 4,          /* with ADD_SPECIAL: add nothing that the text itself begins or ends with */
    /* What the programs do with a prompt: marks for filling in the middle or for the turns of a chat that somebody wrote by
     * hand are the tokens that the model knows, and BOS is not doubled.  Text from others, in which such marks must not
     * work, takes DOP_TEXT_ADD_SPECIAL alone. */
    DOP_TEXT_PROMPT = DOP_TEXT_ADD_SPECIAL | DOP_TEXT_PARSE_SPECIAL | DOP_TEXT_ONCE
};

/* The ids of a text of len bytes, which may include NUL: *out_ids [*out_n], the caller's to free with dop_free; NULL when
 * there are none.  flags: DOP_TEXT_* bits.  DOP_E_INPUT: the text is not valid UTF-8; the message has the byte offset. */
dop_status dop_text_encode(const dop_text *text, const char *bytes, size_t len, unsigned flags, dop_diag *diag,
                           uint32_t **out_ids, size_t *out_n);
/* The ids of a pair of texts, as models that score how well two texts go together take them: *out_ids [*out_n], to free with
 * dop_free.  *out_second: number of ids before the second text. */
dop_status dop_text_encode_pair(const dop_text *text, const char *first, size_t n_first, const char *second,
                                size_t n_second, dop_diag *diag, uint32_t **out_ids, size_t *out_n, size_t *out_second);
/* The prompt that goes in front of a text whose vector is wanted: the one that the model's files
 * (config_sentence_transformers.json) have under `name` or, with NULL, their default: *out_prompt, 0-terminated and owned by
 * text; "" where there is no default.  Nothing in the library adds it by itself.  DOP_E_INPUT: no prompt of that name; the
 * message has the names. */
dop_status dop_text_prompt(const dop_text *text, const char *name, dop_diag *diag, const char **out_prompt);
/* The prompt that goes in front of a search's query (query true), or of the texts that are searched (false): the one that the
 * model's files have for that, else their default.  Owned by text. */
const char *dop_text_search_prompt(const dop_text *text, bool query);
/* The text of n ids, special tokens left out: *out_bytes, 0-terminated and *out_len bytes long, the caller's to free with
 * dop_free.  Bytes that are not valid UTF-8 become U+FFFD.  DOP_E_INPUT: an id outside the vocabulary. */
dop_status dop_text_decode(const dop_text *text, const uint32_t *ids, size_t n, dop_diag *diag, char **out_bytes,
                           size_t *out_len);
/* Whether `id` is one of the ids that end generation. */
bool dop_text_is_end(const dop_text *text, uint32_t id);

enum {
    DOP_TEXT_GOES_ON = 1,     /* decoding: the ids continue earlier text, so a space before the first word is kept */
    DOP_TEXT_KEEP_SPECIAL = 2 /* decoding: special tokens become text too */
};

/* Decodes token by token and returns only complete characters.  flags: DOP_TEXT_GOES_ON, DOP_TEXT_KEEP_SPECIAL.  text must
 * outlive the decoder; the caller destroys it. */
dop_status dop_decoder_create(const dop_text *text, unsigned flags, dop_diag *diag, dop_decoder **out_decoder);
void dop_decoder_destroy(dop_decoder *decoder); /* accepts NULL */
/* Decodes one more id.  *out_bytes: the characters that this id completes, 0-terminated and *out_len bytes long (often 0), owned
 * by the decoder and valid until the next call.  DOP_E_INPUT: an id outside the vocabulary. */
dop_status dop_decoder_push(dop_decoder *decoder, uint32_t id, dop_diag *diag, const char **out_bytes, size_t *out_len);
/* Ends the text: an incomplete character becomes U+FFFD.  Results as in dop_decoder_push. */
dop_status dop_decoder_end(dop_decoder *decoder, dop_diag *diag, const char **out_bytes, size_t *out_len);

/* One message of a conversation; both strings are UTF-8, 0-terminated. */
typedef struct dop_message {
    const char *role; /* "system", "user", "assistant", or another one that the template knows */
    const char *content;
} dop_message;

/* The ids of a conversation in the model's chat format, up to where the model's answer begins: *out_ids [*out_n], the
 * caller's to free with dop_free.  Special tokens that are written in a message become tokens, as those of the template do.
 * DOP_E_INPUT: the model has no template, or the template refuses the conversation (the message is the template's). */
dop_status dop_text_chat(const dop_text *text, const dop_message *messages, size_t n, dop_diag *diag,
                         uint32_t **out_ids, size_t *out_n);

bool dop_text_has_chat(const dop_text *text); /* whether the model has a chat template */

/* The chat format of a text, for conversations that grow and for those with tools: the model's template itself is run, whatever
 * its format is.  The caller destroys it.  DOP_E_INPUT: the model has no template, or one with a mistake. */
dop_status dop_chat_of_text(const dop_text *text, dop_diag *diag, dop_chat **out_chat);
/* The chat format of a template that the caller has, len bytes of Jinja, for models that have none or a wrong one. */
dop_status dop_chat_of_template(const char *template_text, size_t len, dop_diag *diag, dop_chat **out_chat);
/* The chat format of a common name: chatml, gemma, llama2, llama3, mistral, ...  DOP_E_INPUT: an unknown name; the message lists
 * the known ones. */
dop_status dop_chat_of_name(const char *name, dop_diag *diag, dop_chat **out_chat);
void dop_chat_destroy(dop_chat *chat); /* accepts NULL */
/* Strings that end an answer, in addition to the ids that end generation: the mark that the template writes behind an answer.
 * The list ends with NULL and lives as long as the format. */
const char *const *dop_chat_stops(const dop_chat *chat);

enum {
    DOP_CHAT_LAST = 1 /* only what the last message adds to the conversation before it */
};

/* A conversation in the chat format: as text (*out_bytes, 0-terminated and *out_len bytes long) or as ids (*out_ids [*out_n]);
 * both are the caller's to free with dop_free.  json: len bytes of JSON, either an array of messages, or an object with the array
 * as "messages" and optionally "tools" (an array of tool descriptions) and "add_generation_prompt" (false: stop before the
 * beginning of an answer).  A message is an object with "role", "content" and other members that the template knows.  flags:
 * DOP_CHAT_LAST or 0; a sequence that holds the earlier messages needs only the last one.  text: the one that dop_chat_of_text
 * got.  DOP_E_INPUT: json is not JSON (diag has line and column) or not of this form, the template refuses the conversation (the
 * message has its own words), or, with DOP_CHAT_LAST, the template renders earlier messages differently after later ones. */
dop_status dop_chat_text(const dop_chat *chat, const dop_text *text, const char *json, size_t len, unsigned flags,
                         dop_diag *diag, char **out_bytes, size_t *out_len);
dop_status dop_chat_ids(const dop_chat *chat, const dop_text *text, const char *json, size_t len, unsigned flags,
                        dop_diag *diag, uint32_t **out_ids, size_t *out_n);

#ifdef __cplusplus
}
#endif

#endif
