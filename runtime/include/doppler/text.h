/* libdoppler: text to token ids and back, and the chat format of a model.
 *
 * A dop_text is the tokenizer of a plan with its chat template.  It is immutable: any number of threads may use one, and a
 * dop_chat.  A dop_decoder belongs to one thread at a time.  None of them needs a device, and a dop_text outlives the model it
 * was made of only when it was opened from a file. */
#ifndef DOPPLER_RUNTIME_INCLUDE_DOPPLER_TEXT_H
#define DOPPLER_RUNTIME_INCLUDE_DOPPLER_TEXT_H

#include <doppler/doppler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_text dop_text;
typedef struct dop_decoder dop_decoder;
typedef struct dop_chat dop_chat;

/* Of an open model, which must stay open as long.  DOP_E_INPUT: its plan has no tokenizer.  The caller destroys it. */
dop_status dop_text_of_model(const dop_model *model, dop_diag *diag, dop_text **out_text);
/* Of a plan, without a device. */
dop_status dop_text_open(const char *plan_path, dop_diag *diag, dop_text **out_text);
/* Of what tokenizers come in, found by content: a Hugging Face folder, tokenizer.json, a SentencePiece model, a tiktoken
 * file, tekken.json, or a GGUF file.  DOP_E_INPUT: it is none of these, or damaged, or needs what is not supported (named). */
dop_status dop_text_of_file(const char *path, dop_diag *diag, dop_text **out_text);
void dop_text_destroy(dop_text *text); /* accepts NULL */

uint32_t dop_text_vocab(const dop_text *text); /* the largest id and 1; models may have logits for more, or fewer */
bool dop_text_adds_bos(const dop_text *text);  /* DOP_TEXT_ADD_SPECIAL puts an id in front of a text */

enum {
    DOP_TEXT_ADD_SPECIAL = 1,  /* encoding: add what the model's definition adds around a text (BOS, EOS) */
    DOP_TEXT_PARSE_SPECIAL = 2 /* encoding: special tokens written in the text become that token, not plain text */
};

/* The ids of a text of len bytes (any bytes, NUL included): *out_ids [*out_n], the caller's to free with dop_free; NULL
 * for none.  flags: DOP_TEXT_* bits.  Text that is not valid UTF-8 is DOP_E_INPUT naming the byte offset. */
dop_status dop_text_encode(const dop_text *text, const char *bytes, size_t len, unsigned flags, dop_diag *diag,
                           uint32_t **out_ids, size_t *out_n);
/* The text of n ids, special tokens left out: *out_bytes, 0-terminated and *out_len bytes long, the caller's to free with
 * dop_free.  Bytes that are no valid UTF-8 come out as U+FFFD.  An id outside the vocabulary is DOP_E_INPUT. */
dop_status dop_text_decode(const dop_text *text, const uint32_t *ids, size_t n, dop_diag *diag, char **out_bytes,
                           size_t *out_len);
/* Is it one of the ids that end generation? */
bool dop_text_is_end(const dop_text *text, uint32_t id);

enum {
    DOP_TEXT_GOES_ON =
        1, /* decoding: the ids go on after earlier text, so that a space before the first word is kept */
    DOP_TEXT_KEEP_SPECIAL = 2 /* decoding: special tokens give their text too */
};

/* Decodes token by token and hands out complete characters only.  flags: those two.  text must outlive it; the caller
 * destroys it. */
dop_status dop_decoder_create(const dop_text *text, unsigned flags, dop_diag *diag, dop_decoder **out_decoder);
void dop_decoder_destroy(dop_decoder *decoder); /* accepts NULL */
/* *out_bytes: what became complete, 0-terminated and *out_len bytes long (often 0), the decoder's until the next call.  An
 * id outside the vocabulary is DOP_E_INPUT. */
dop_status dop_decoder_push(dop_decoder *decoder, uint32_t id, dop_diag *diag, const char **out_bytes, size_t *out_len);
/* End of text: what was held becomes U+FFFD.  Results as of dop_decoder_push. */
dop_status dop_decoder_end(dop_decoder *decoder, dop_diag *diag, const char **out_bytes, size_t *out_len);

/* One message of a conversation; both UTF-8, 0-terminated. */
typedef struct dop_message {
    const char *role; /* "system", "user", "assistant", or what else the template knows */
    const char *content;
} dop_message;

/* The ids of a conversation in the model's chat format, up to where the model answers: *out_ids [*out_n], the caller's to
 * free with dop_free.  DOP_E_INPUT: the model has no template, or one of an unknown format, or it refuses the
 * conversation (in its own words). */
dop_status dop_text_chat(const dop_text *text, const dop_message *messages, size_t n, dop_diag *diag,
                         uint32_t **out_ids, size_t *out_n);

bool dop_text_has_chat(const dop_text *text); /* the model has a template, which may be of an unknown format */
/* The chat format itself, for conversations that go on, and those with tools; text must outlive it, and the caller destroys it.
 * DOP_E_INPUT: the model has no template, or one of an unknown format (the nearest one is named). */
dop_status dop_chat_of_text(const dop_text *text, dop_diag *diag, dop_chat **out_chat);
void dop_chat_destroy(dop_chat *chat); /* accepts NULL */
/* Texts that end an answer, beside the ids that do; ends with NULL, and lives as long as the format. */
const char *const *dop_chat_stops(const dop_chat *chat);

enum {
    DOP_CHAT_LAST =
        1 /* only what the last message adds to the conversation before it, whose ids a sequence has already */
};

/* What the format makes of a conversation, as text (*out_bytes, 0-terminated and *out_len bytes long) and as ids (*out_ids
 * [*out_n]); both the caller's to free with dop_free.  json: len bytes of JSON: an array of messages, which are objects with "role",
 * "content" and what else the template knows, or an object with such an array as "messages" and, where they are wanted,
 * "tools" (an array of descriptions) and "add_generation_prompt" (false: not up to where the model answers).  text: the one that
 * the format is of.  DOP_E_INPUT: it is something else, with line and column where it is no JSON at all, or the template
 * refuses the conversation (in its own words), or writes earlier messages in another way after later ones (DOP_CHAT_LAST). */
dop_status dop_chat_text(const dop_chat *chat, const dop_text *text, const char *json, size_t len, unsigned flags,
                         dop_diag *diag, char **out_bytes, size_t *out_len);
dop_status dop_chat_ids(const dop_chat *chat, const dop_text *text, const char *json, size_t len, unsigned flags,
                        dop_diag *diag, uint32_t **out_ids, size_t *out_n);

#ifdef __cplusplus
}
#endif

#endif
