/* Other APIs as translations of chat completions. A request becomes the JSON of a chat completion, which
 * api_request.c reads like any other. A dop_writer writes the answer in the API's own format.
 *
 * messages_*.c: Anthropic's Messages. responses*.c: OpenAI's Responses. native.c: llama.cpp's own API.
 * conversation.c: shared conversations. drawings.c and transcriptions.c: OpenAI's image and audio APIs, which are
 * not translated. */
#ifndef DOPPLER_SERVE_PROTOCOLS_PROTOCOL_H
#define DOPPLER_SERVE_PROTOCOLS_PROTOCOL_H

#include "serve/api/api_internal.h"

/* --- conversations --------------------------------------------------------------------------------------------------------- */

/* Builds a conversation from blocks or items. Consecutive ones with the same role are merged into one message,
 * because many templates require alternating roles. */
typedef struct dop_conversation {
    json_t *messages; /* owned: messages of a chat completion */
    /* The last message, which can still grow. */
    const char *role; /* static string; NULL: there is no message yet */
    json_t *parts;    /* owned: texts and images of the message that precede `text`; NULL: it has no image */
    dop_buf text, reasoning;
    json_t *calls;
    bool failed; /* memory ran out */
} dop_conversation;

/* --- forms with files: form_data.c ------------------------------------------------------------------------------------------- */

/* Names of form parts that are files; all other parts are text fields. */
typedef enum dop_form_name { DOP_FORM_FILE, DOP_FORM_IMAGE, DOP_FORM_MASK, DOP_FORM_NAMES } dop_form_name;

/* A parsed multipart/form-data body. */
typedef struct dop_form_data {
    json_t *fields; /* owned: object of text fields; the value is a list if the name ends with [] */
    struct {
        const char *bytes; /* [n], in the request's body: the first file of this name */
        size_t n;
        uint32_t count; /* number of files with this name */
    } files[DOP_FORM_NAMES];
} dop_form_data;

/* --- OpenAI's Responses ------------------------------------------------------------------------------------------------------ */

/* Data of a request that its answer needs. */
typedef struct dop_response_terms {
    json_t *echo;   /* owned: members of the request that the answer repeats */
    json_t *custom; /* owned: object whose member names are the tools with free-form text input */
    json_t *items;  /* owned: items of the conversation, including earlier ones */
    bool keeps;     /* store the response */
    bool detached;  /* the answer is produced in the background */
} dop_response_terms;
/* Checks whether an answer in progress is complete and, if so, writes the response and items to store. cancels: ends
 * the answer in its current state. Returns true if the call is not needed any more. */
typedef bool dop_response_settle(dop_call *call, bool cancels, dop_buf *io_response, dop_buf *io_items);

/* A response in progress: the state of dop_responses_writer. */
typedef struct dop_response {
    dop_response_terms terms;
    json_t *output; /* owned: completed items */
    uint64_t n_events;
    const char *open; /* type of the item in progress; NULL: none */
    dop_buf text;     /* text of the item in progress */
} dop_response;

/* Handlers of /v1/responses and the paths below it. */
typedef void dop_path_fn(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                         dop_call **out_call);
dop_path_fn dop_responses_begin, dop_responses_get, dop_responses_delete, dop_responses_cancel;

#endif
