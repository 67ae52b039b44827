/* The API of OpenAI's clients, on top of the engine: from JSON requests to jobs, and from jobs to answers.
 *
 * Nothing here knows about sockets: a request is a method, a path and a body.  An answer that is not ready at once is a *call*,
 * which reports when it has something new and is then asked for it. */
#ifndef DOPPLER_SERVE_API_API_H
#define DOPPLER_SERVE_API_API_H

#include "base/budget.h"
#include "serve/engine/engine.h"
#include "text/chat/chat.h"

struct dop_vocab;

/* Grammars of requests, kept for later requests with the same schema.  Any thread. */
typedef struct dop_constraints dop_constraints;

typedef struct dop_call dop_call;

/* Responses (POST /v1/responses) that are kept in memory: at most n of them, and 64 MiB.  Any thread. */
typedef struct dop_response_store dop_response_store;

/* The adapters that are loaded, with the factors of requests that state none: uses[n], which are copied.  Any thread. */
typedef struct dop_adapter_list dop_adapter_list;

enum { DOP_MAX_ANSWERS = 64, DOP_MAX_INPUTS = 2048 }; /* most choices, and most inputs for embeddings, of a request */

/* What reading one request may cost, from its JSON to its jobs; 0: no limit. */
typedef struct dop_api_limits {
    uint64_t steps, bytes;
    double seconds;
} dop_api_limits;

typedef struct dop_models dop_models;

/* Pictures of requests that are elsewhere.  Read by any thread. */
typedef struct dop_picture_urls {
    /* Fetches the bytes of an http or https address in at most so many seconds; NULL: such addresses are refused.  It ends early when
     * *cancelled is set (NULL: never).  DOP_E_INPUT: the picture cannot be had, and why. */
    dop_status (*fetch)(void *user, const char *url, size_t max_bytes, double seconds, const atomic_bool *cancelled,
                        dop_diag *diag, dop_buf *out);
    void *user;
    const char *folder; /* the folder below which file: URLs are read, without symbolic links; NULL: they are refused */
} dop_picture_urls;

typedef struct dop_api {
    /* The server's catalog of models (serve/models.h); NULL: it has one model.  Where there is a catalog, the server itself has
     * an API without model, engine and so on, and each model has its own, which calls hold. */
    dop_models *models;
    void (*hold)(dop_models *models, const struct dop_api *api);
    void (*give_back)(dop_models *models, const struct dop_api *api);
    const dop_model *model; /* facts of it only */
    dop_engine *engine;
    const dop_tokenizer *tok;
    struct dop_images *eyes;         /* what the model knows of pictures; NULL: it takes none */
    const dop_picture_urls *urls;    /* NULL: pictures come with their requests only */
    const struct dop_speech *speech; /* what the model knows of sound; NULL: it hears nothing */
    const dop_chat *chat;            /* NULL: the model has no template, and conversations are refused */
    dop_constraints *shapes;
    dop_adapter_list *adapters;       /* NULL: there are none */
    dop_response_store *store;        /* NULL: no responses are kept */
    const char *system;               /* message of conversations that have none of their own; NULL: none */
    const struct dop_tool_form *form; /* how its answers are read; with chat */
    dop_facts facts;
    dop_program_facts program;    /* the program that makes vectors or scores; width 0: sequences make them */
    const struct json_t *prompts; /* in front of texts whose vectors are wanted (dop_prompts_of); NULL: none */
    dop_sampling sampling;        /* defaults for what a request does not state */
    uint32_t max_tokens;          /* most tokens of an answer; 0: as the context allows */
    uint32_t max_choices;         /* most choices of a request */
    uint32_t max_inputs;          /* most inputs of a request for embeddings */
    uint64_t max_answer;          /* most bytes of an answer, as estimated before it begins; 0: no limit */
    double time_limit_s;          /* seconds that a request may take; 0: no limit */
    dop_api_limits limits;
    int64_t created; /* when the server was started, seconds of the epoch */
} dop_api;

typedef struct dop_api_request {
    const char *method, *path;
    const char *query; /* NAME=VALUE[&...] with escapes; NULL or "": none */
    const char *body;
    size_t n_body;
    uint64_t client;          /* whose request it is: clients get their turns in a queue fairly */
    int priority;             /* requests with a larger one come first */
    dop_budget *budget;       /* the request's budget, which every stage of reading the request charges */
    void (*wake)(void *user); /* a call has something new; called by another thread, and must not call this API */
    void *user;
} dop_api_request;

/* What a call has cost, in tokens. */
typedef struct dop_answer_counts {
    bool known;
    uint32_t prompt, reused, written; /* reused: tokens of the prompts that were cached */
    double first_at_ms;               /* dop_now_ms of its first token; 0: it has none */
    char model[80];                   /* its name, which may be cut */
} dop_answer_counts;

/* Whose form errors have. */
typedef enum dop_error_form { DOP_ERRORS_OPENAI, DOP_ERRORS_ANTHROPIC } dop_error_form;

typedef struct dop_answer {
    dop_error_form errors; /* set before anything is answered */
    unsigned status;       /* HTTP status; 0: not known yet */
    const char *type;      /* Content-Type */
    const char *allow;     /* with status 405: the methods that the path takes */
    bool streams;          /* the body grows until the call is over */
    bool waits;            /* nothing yet: `wake` is called when it is worth asking again */
    bool events;           /* with waits: the answer will be a stream of events, unless it is an error */
    bool more;             /* the call has more to write as soon as there is room, and will not wake anybody for it */
    dop_answer_counts counts; /* when the call is over */
    dop_buf headers;          /* "NAME: VALUE\r\n" of each further header field */
    dop_buf body;
} dop_answer;
/* Replaces the answer so far by an error in the form answer->errors. */
typedef struct dop_api_error {
    unsigned status;
    const char *type, *code, *param; /* code and param: NULL for none */
} dop_api_error;

#endif
