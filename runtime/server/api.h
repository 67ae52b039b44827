/* The API of OpenAI's clients, on top of the engine: from JSON requests to jobs, and from jobs to answers.
 *
 * Nothing here knows about sockets: a request is a method, a path and a body.  An answer that is not ready at once is a *call*,
 * which reports when it has something new and is then asked for it. */
#ifndef DOPPLER_RUNTIME_SERVER_API_H
#define DOPPLER_RUNTIME_SERVER_API_H

#include "runtime/server/engine.h"
#include "runtime/text/chat.h"

struct dop_vocab;

/* Grammars of requests, kept for later requests with the same schema.  Any thread. */
typedef struct dop_shapes dop_shapes;
dop_status dop_shapes_create(const struct dop_vocab *vocab, dop_diag *diag, dop_shapes **out_shapes);
void dop_shapes_destroy(dop_shapes *shapes); /* accepts NULL */

typedef struct dop_call dop_call;

typedef struct dop_api {
    const dop_model *model; /* facts of it only */
    dop_engine *engine;
    const dop_tokenizer *tok;
    const dop_chat *chat; /* NULL: the model has no template, and conversations are refused */
    dop_shapes *shapes;
    const char *system;               /* message of conversations that have none of their own; NULL: none */
    const struct dop_tool_form *form; /* how its answers are read; with chat */
    dop_facts facts;
    dop_sampling sampling; /* defaults for what a request does not state */
    uint32_t max_tokens;   /* of an answer; 0: as the context allows */
    uint32_t max_choices;  /* of a request */
    double time_limit_s;   /* of a request; 0: none */
    int64_t created;       /* when the server was started, seconds of the epoch */
} dop_api;

typedef struct dop_api_request {
    const char *method, *path;
    const char *body;
    size_t n_body;
    void (*wake)(void *user); /* a call has something new; called by another thread, and must not call this API */
    void *user;
} dop_api_request;

typedef struct dop_answer {
    unsigned status; /* of HTTP; 0: not known yet */
    const char *type;
    const char *allow; /* with status 405: the methods that the path takes */
    bool streams;      /* the body grows until the call is over */
    dop_buf headers;   /* "NAME: VALUE\r\n" of each further header field */
    dop_buf body;
} dop_answer;

/* Adds a header field, whose value is a list of at most about 20 names; of the values only printable ASCII is kept.  The field may
 * be added several times. */
void dop_answer_header(dop_answer *answer, const char *name, const char *const *values, size_t n);

/* Answers at once, or gives the call that will answer: *out_call, which the caller ends by dop_call_end. */
void dop_api_begin(const dop_api *api, const dop_api_request *request, dop_answer *out_answer, dop_call **out_call);
/* Appends what is new to the body of the answer.  True: the call is over, and the answer is complete. */
bool dop_call_poll(dop_call *call, dop_answer *io_answer);
/* Ends the call, whatever it was doing.  Accepts NULL. */
void dop_call_end(dop_call *call);

/* Replaces the answer so far by an error in the API's own form. */
typedef struct dop_api_error {
    unsigned status;
    const char *type, *code, *param; /* code and param: NULL for none */
} dop_api_error;

void dop_answer_error(dop_answer *answer, const dop_api_error *error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
