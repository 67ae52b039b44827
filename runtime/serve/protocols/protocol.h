/* The public forms of other APIs, as translations of chat completions: a request becomes the JSON of a chat completion, which
 * api_request.c reads like any other, and its answer is told in the other API's words (dop_writer).
 *
 * messages_*.c: Anthropic's Messages.  responses*.c: OpenAI's Responses.  native.c: llama.cpp's own.  conversation.c: conversations.
 * drawings.c and transcriptions.c: OpenAI's pictures and audio, which are no chat completions. */
#ifndef DOPPLER_RUNTIME_SERVE_PROTOCOLS_PROTOCOL_H
#define DOPPLER_RUNTIME_SERVE_PROTOCOLS_PROTOCOL_H

#include "runtime/serve/api/api_internal.h"

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

/* Appends text to the conversation; between: what separates the text from other text of the same message. */
void dop_conversation_text(dop_conversation *t, const char *role, const char *between, const json_t *text);
/* Appends a picture: a part of a message as chat completions, Responses or Messages have it (dop_request_image). */
void dop_conversation_picture(dop_conversation *t, const char *role, const json_t *part);
void dop_conversation_reasoning(dop_conversation *t, const json_t *text);
/* Appends a call; arguments: an object or a JSON text. */
void dop_conversation_call(dop_conversation *t, const char *id, const char *name, const json_t *arguments);
/* Appends the result of a call, behind texts and pictures of the role "tool" that were appended before. */
void dop_conversation_result(dop_conversation *t, const char *id, const dop_buf *text);
/* Ends the conversation and the reading of a request: gives `request`, a chat completion, with the conversation's messages.  NULL: `r`
 * has refused something or there was no memory, the answer says so, and `request` is freed. */
json_t *dop_conversation_end(dop_conversation *t, dop_reader *r, json_t *request);

/* A request's tool in the form of chat completions: a new reference.  NULL members are left out. */
json_t *dop_tool_description(const json_t *name, const json_t *description, const json_t *parameters,
                             const json_t *strict);
/* Makes the part of the answer's head that names things in a request that have no effect; with "strict" in the request, refuses the
 * request for them. */
void dop_reader_ignore(dop_reader *r, const char *param, const char *const *names, size_t n);
/* Takes over members that chat completions have and the API does not: switches of reasoning, and the shape of the answer.  To be
 * called before members of the API that mean the same. */
void dop_reader_take_chat(dop_reader *r, json_t *out);
/* The value of a JSON text, which is an object; an empty object where it is none (a call that was cut). */
json_t *dop_call_arguments(const json_t *call);

/* --- Anthropic's Messages ---------------------------------------------------------------------------------------------------- */

/* The request as one of chat completions; counts: for POST /v1/messages/count_tokens.  NULL: refused. */
json_t *dop_messages_translate(dop_reader *r, bool counts);
extern const dop_writer dop_messages_writer;

void dop_messages_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                        dop_call **out_call);
void dop_messages_count(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                        dop_call **out_call);

/* --- llama.cpp's own requests: native.c -------------------------------------------------------------------------------------- */

void dop_completion_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                          dop_call **out_call);
void dop_infill_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                      dop_call **out_call);

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
/* False: it is none, and the answer says so. */
bool dop_request_form(const dop_api_request *request, dop_answer *answer, dop_form_data *out_form);

/* --- OpenAI's audio: transcriptions.c --------------------------------------------------------------------------------------- */

/* POST /v1/audio/transcriptions and /v1/audio/translations: root has the texts of the form, whose file is in the request's body. */
void dop_transcriptions_begin(const dop_api *api, const dop_api_request *request, const json_t *root,
                              dop_answer *answer, dop_call **out_call);
void dop_translations_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                            dop_call **out_call);

/* --- OpenAI's pictures: drawings.c ------------------------------------------------------------------------------------------ */

/* POST /v1/images/generations and /v1/images/edits: the jobs of their calls have tasks (dop_job_task).  Of edits root has the texts of
 * the form, whose picture is in the request's body. */
void dop_drawings_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                        dop_call **out_call);
void dop_edits_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                     dop_call **out_call);

/* --- OpenAI's Responses ------------------------------------------------------------------------------------------------------ */

/* What the answer to a request needs of it. */
typedef struct dop_response_terms {
    json_t *echo;   /* owned: members of the request that the answer repeats */
    json_t *custom; /* owned: names of the tools whose input is a text, as members of an object */
    json_t *items;  /* owned: the items of the conversation, earlier ones included */
    bool keeps;     /* the response is to be stored */
    bool detached;  /* the answer is made in the background */
} dop_response_terms;

void dop_response_terms_finish(dop_response_terms *terms); /* accepts a zeroed one */
/* Looks whether an answer that is being made is complete and, if so, writes what is kept of it; cancels: ends the answer as it is.  True:
 * the call is needed no more. */
typedef bool dop_response_settle(dop_call *call, bool cancels, dop_buf *io_response, dop_buf *io_items);
/* The request as one of chat completions; NULL: refused. */
json_t *dop_responses_translate(const dop_api *api, dop_reader *r, dop_response_settle *settle,
                                dop_response_terms *out_terms);
/* Appends items to a conversation. */
void dop_responses_take_items(dop_reader *r, const json_t *items, dop_conversation *turns);

/* The answer that grows. */
typedef struct dop_response {
    dop_response_terms terms;
    json_t *output; /* owned: items that are complete */
    uint64_t n_events;
    const char *open; /* type of the item that grows; NULL: there is none */
    dop_buf text;     /* of the item that grows */
} dop_response;

extern const dop_writer dop_responses_writer;
/* Gives items of a response's conversation that have no id one of their own. */
void dop_response_name_items(const dop_call *c, json_t *items);
/* The response as it stands; status NULL: that of its end.  Takes no ownership. */
json_t *dop_response_json(const dop_call *c, const dop_response *response, const dop_news *news, const char *status);

/* The requests for /v1/responses and paths below it. */
typedef void dop_path_fn(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                         dop_call **out_call);
dop_path_fn dop_responses_begin, dop_responses_get, dop_responses_delete, dop_responses_cancel;

/* --- stored responses: responses_store.c -------------------------------------------------------------------------------------- */

/* Keeps a response and the items of its conversation as JSON texts; the oldest responses make room. */
void dop_response_store_put(dop_response_store *store, const char *id, const json_t *response, const json_t *items);
/* Keeps a response whose answer is still being made, with its call, which the store owns from then on. */
bool dop_response_store_put_call(dop_response_store *store, const char *id, const json_t *response, const json_t *items,
                                 dop_call *call);
/* The response, and in *out_items, unless that is NULL, the items of its conversation, its output behind them: new references; NULL:
 * there is none of this id.  settle is called first where the answer is still being made. */
json_t *dop_response_store_get(dop_response_store *store, const char *id, dop_response_settle *settle, bool cancels,
                               json_t **out_items);
/* False: there is none of this id. */
bool dop_response_store_delete(dop_response_store *store, const char *id);

#endif
