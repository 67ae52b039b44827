/* The OpenAI-compatible API on top of the engine: turns JSON requests into jobs, and jobs into answers.
 *
 * This layer has no sockets. A request is a method, a path and a body. An answer that is not ready at once is a
 * *call*. The call wakes the caller when it has new output, and the caller then polls it. */
#ifndef DOPPLER_SERVE_API_API_H
#define DOPPLER_SERVE_API_API_H

#include "base/budget.h"
#include "serve/engine/engine.h"
#include "text/chat/chat.h"

struct dop_vocab;

/* Cache of grammars compiled from requests, reused by later requests with the same schema. Any thread. */
typedef struct dop_constraints dop_constraints;

typedef struct dop_call dop_call;

/* Responses (POST /v1/responses) kept in memory: at most n of them and at most 64 MiB. Any thread. */
typedef struct dop_response_store dop_response_store;

/* Loaded adapters and their default scale factors, used by requests that state none. Any thread. */
typedef struct dop_adapter_list dop_adapter_list;

enum { DOP_MAX_ANSWERS = 64, DOP_MAX_INPUTS = 2048 }; /* maximum choices and maximum embedding inputs of a request */

/* Limits on reading one request, from its JSON to its jobs; 0: no limit. */
typedef struct dop_api_limits {
    uint64_t steps, bytes;
    double seconds;
} dop_api_limits;

typedef struct dop_models dop_models;

/* Sources of images that requests name by URL. Read by any thread. */
typedef struct dop_picture_urls {
    /* Fetches at most max_bytes from an http or https address within `seconds`. NULL: such addresses are refused.
     * Stops early when *cancelled is set (NULL: never). Fails with DOP_E_INPUT and the reason if the image cannot be
     * fetched. */
    dop_status (*fetch)(void *user, const char *url, size_t max_bytes, double seconds, const atomic_bool *cancelled,
                        dop_diag *diag, dop_buf *out);
    void *user;
    const char *folder; /* directory for file: URLs (symbolic links are not followed); NULL: file: URLs are refused */
} dop_picture_urls;

typedef struct dop_api {
    /* The server's model catalog (serve/models.h); NULL: the server has a single model. With a catalog, the server's
     * own dop_api has no model, engine and so on. Each model has its own dop_api, and each call holds a lease on it. */
    dop_models *models;
    void (*hold)(dop_models *models, const struct dop_api *api);
    void (*give_back)(dop_models *models, const struct dop_api *api);
    const dop_model *model; /* used for its facts only */
    dop_engine *engine;
    const dop_tokenizer *tok;
    struct dop_images *eyes;         /* image preprocessor; NULL: text-only model */
    const dop_picture_urls *urls;    /* sources for image URLs; NULL: images must be embedded in the request */
    const struct dop_speech *speech; /* speech preprocessor; NULL: the model accepts no audio */
    const dop_chat *chat;            /* chat template; NULL: none, and conversations are refused */
    dop_constraints *shapes;
    dop_adapter_list *adapters;       /* loaded adapters; NULL: none */
    dop_response_store *store;        /* stored responses; NULL: responses are not stored */
    const char *system;               /* default system message for conversations without one; NULL: none */
    const struct dop_tool_form *form; /* how the model writes reasoning and tool calls; set if `chat` is set */
    dop_facts facts;
    dop_program_facts program;    /* program that computes embeddings or scores; width 0: sequences compute them */
    const struct json_t *prompts; /* text prefixes for embedding inputs (dop_prompts_of); NULL: none */
    dop_sampling sampling;        /* defaults for sampling parameters that a request does not state */
    uint32_t max_tokens;          /* maximum tokens of an answer; 0: limited by the context only */
    uint32_t max_choices;         /* maximum choices of a request */
    uint32_t max_inputs;          /* maximum inputs of an embedding request */
    uint64_t max_answer;          /* maximum estimated bytes of an answer, checked before it begins; 0: no limit */
    double time_limit_s;          /* time limit of a request in seconds; 0: no limit */
    dop_api_limits limits;
    int64_t created; /* start time of the server, in seconds since the epoch */
} dop_api;

typedef struct dop_api_request {
    const char *method, *path;
    const char *query; /* query string NAME=VALUE[&...], still percent-encoded; NULL or "": none */
    const char *body;
    size_t n_body;
    uint64_t client;          /* client id; the queue gives each client a fair share */
    int priority;             /* priority: requests with a higher value are served first */
    dop_budget *budget;       /* time and memory budget, charged by every stage of reading the request */
    void (*wake)(void *user); /* called by another thread when a call has new output; must not call this API */
    void *user;
} dop_api_request;

/* Token counts of a call. */
typedef struct dop_answer_counts {
    bool known;
    uint32_t prompt, reused, written; /* reused: prompt tokens found in the prefix cache */
    double first_at_ms;               /* dop_now_ms of the first token; 0: no token yet */
    char model[80];                   /* name of the model, possibly truncated */
} dop_answer_counts;

/* Format of error bodies. */
typedef enum dop_error_form { DOP_ERRORS_OPENAI, DOP_ERRORS_ANTHROPIC } dop_error_form;

typedef struct dop_answer {
    dop_error_form errors;    /* set by the caller before anything is answered */
    unsigned status;          /* HTTP status; 0: not known yet */
    const char *type;         /* Content-Type; NULL: JSON */
    const char *allow;        /* with status 405: methods that the path accepts */
    bool streams;             /* the body keeps growing until the call is over */
    bool waits;               /* no answer yet: `wake` is called when the request should be tried again */
    bool events;              /* with `waits`: the answer will be an event stream, unless it is an error */
    bool more;                /* the call has more output as soon as there is room; it will not call `wake` for it */
    dop_answer_counts counts; /* set when the call is over */
    dop_buf headers;          /* additional header fields, each as "NAME: VALUE\r\n" */
    dop_buf body;
} dop_answer;
/* An error to answer with. It replaces the answer so far, in the format answer->errors. */
typedef struct dop_api_error {
    unsigned status;
    const char *type, *code, *param; /* code and param: NULL if there is none */
} dop_api_error;

#endif
