/* The public forms of other APIs, as translations of chat completions: a request becomes the JSON of a chat completion, which
 * api_request.c reads like any other, and its answer is told in the other API's words (dop_writer).
 *
 * messages_*.c: Anthropic's Messages.  responses*.c: OpenAI's Responses.  native.c: llama.cpp's own.  conversation.c: conversations.
 * drawings.c and transcriptions.c: OpenAI's pictures and audio, which are no chat completions. */
#ifndef DOPPLER_SERVE_PROTOCOLS_PROTOCOL_H
#define DOPPLER_SERVE_PROTOCOLS_PROTOCOL_H

#include "serve/api/api_internal.h"

/* --- conversations --------------------------------------------------------------------------------------------------------- */

/* A conversation that is put together from blocks or items: those that follow each other and have the same role become one
 * message, because many templates demand that roles alternate. */
typedef struct dop_conversation {
    json_t *messages; /* owned: the messages of a chat completion */
    /* The last message, which still grows. */
    const char *role; /* static; NULL: there is none */
    json_t *parts;    /* owned: its texts and pictures before `text`; NULL: it has no picture */
    dop_buf text, reasoning;
    json_t *calls;
    bool failed; /* there was no memory */
} dop_conversation;

/* --- forms with files: form_data.c ------------------------------------------------------------------------------------------- */

/* Parts of forms that are files, by their names; all others are texts. */
typedef enum dop_form_name { DOP_FORM_FILE, DOP_FORM_IMAGE, DOP_FORM_MASK, DOP_FORM_NAMES } dop_form_name;

/* A body of multipart/form-data. */
typedef struct dop_form_data {
    json_t *fields; /* owned: an object of texts; of a name that ends with [], a list of them */
    struct {
        const char *bytes; /* [n], in the body: the first file of this name */
        size_t n;
        uint32_t count; /* files of this name */
    } files[DOP_FORM_NAMES];
} dop_form_data;

/* --- OpenAI's Responses ------------------------------------------------------------------------------------------------------ */

/* What the answer to a request needs of it. */
typedef struct dop_response_terms {
    json_t *echo;   /* owned: members of the request that the answer repeats */
    json_t *custom; /* owned: names of the tools whose input is a text, as members of an object */
    json_t *items;  /* owned: the items of the conversation, earlier ones included */
    bool keeps;     /* the response is to be stored */
    bool detached;  /* the answer is made in the background */
} dop_response_terms;
/* Looks whether an answer that is being made is complete and, if so, writes what is kept of it; cancels: ends the answer as it is.  True:
 * the call is needed no more. */
typedef bool dop_response_settle(dop_call *call, bool cancels, dop_buf *io_response, dop_buf *io_items);

/* The answer that grows. */
typedef struct dop_response {
    dop_response_terms terms;
    json_t *output; /* owned: items that are complete */
    uint64_t n_events;
    const char *open; /* type of the item that grows; NULL: there is none */
    dop_buf text;     /* of the item that grows */
} dop_response;

/* The requests for /v1/responses and paths below it. */
typedef void dop_path_fn(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                         dop_call **out_call);
dop_path_fn dop_responses_begin, dop_responses_get, dop_responses_delete, dop_responses_cancel;

#endif
