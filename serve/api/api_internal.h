/* What the files of the API share: api.c, paths; api_request.c, JSON to jobs; api_answer.c, jobs to JSON; api_tools.c, how
 * models call tools; api_json.c. */
#ifndef DOPPLER_SERVE_API_API_INTERNAL_H
#define DOPPLER_SERVE_API_API_INTERNAL_H

#include "serve/api/api.h"
#include "text/calls/api_form.h"

#include "base/json/json.h"

/* --- JSON ----------------------------------------------------------------------------------------------------------------- */

/* Reads members of a request; the first one that is wrong sets an error as the answer. */
typedef struct dop_reader {
    const json_t *root;
    dop_answer *answer;
    bool failed;
    const char *asked[128]; /* names that were looked for: other members have no effect */
    size_t n_asked;
} dop_reader;

/* --- shapes ---------------------------------------------------------------------------------------------------------------- */

/* The grammar of a GBNF text, or of parts (dop_grammar_from_parts); the caller's to release.  budget: the request's, for compiling
 * and for waiting until others are compiled.  Errors: those of the functions that make grammars. */
struct dop_grammar;

/* --- tools ---------------------------------------------------------------------------------------------------------------- */

/* What is read from an answer, and how. */
typedef struct dop_reading_terms {
    const dop_tool_form *form;
    const json_t *tools; /* tools that may be called; NULL: calls are not read */
    const char *begin;   /* the end of the prompt that belongs to the answer; NULL: nothing */
    bool thinks;         /* the prompt ends within reasoning */
    bool single;         /* at most one call */
    bool lone_close;     /* an end mark of reasoning counts even if nothing began the reasoning */
} dop_reading_terms;

typedef struct dop_thought {
    size_t from, to; /* bytes */
} dop_thought;

/* An answer in parts, which grow as its text does. */
typedef struct dop_reading {
    dop_buf content;   /* text that is certainly content and not (part of) a call */
    dop_buf reasoning; /* the model's reasoning, where it marks that */
    json_t *calls;     /* complete ones: {"id", "type", "function": {"name", "arguments"}}; NULL: there is none */
    bool over;         /* nothing that follows is read */
    size_t shown;      /* set by the caller: bytes of content that were passed on, so that they stay content */
    /* private */
    dop_reading_terms terms;
    dop_buf whole;
    dop_buf thoughts; /* of dop_thought: what of `whole` is reasoning, with its marks */
    size_t at, fed, wait, sure_content, sure_reasoning;
    bool thinks, fresh, after_thought, in_content;
} dop_reading;

/* What the answer to a request has to be, in the form that the model's template gives it. */
typedef struct dop_shape_demand {
    json_t *parts; /* for dop_grammar_from_parts, the caller's to release */
    dop_buf begin; /* marks that begin the answer, for the end of the prompt: models write them as one token */
} dop_shape_demand;

/* --- pictures ------------------------------------------------------------------------------------------------------------- */

enum { DOP_REQUEST_MAX_IMAGES = 16 };
/* Pictures of a request, in the order of their marks in the text. */
typedef struct dop_request_images {
    const struct dop_images *eyes; /* NULL: the model takes none */
    const dop_picture_urls *urls;
    double fetched_ms; /* what fetching the request's pictures has taken */
    dop_budget *budget;
    struct dop_image *list[DOP_REQUEST_MAX_IMAGES]; /* owned, [n] */
    uint32_t n;
} dop_request_images;

/* --- calls ---------------------------------------------------------------------------------------------------------------- */

typedef struct dop_choice {
    dop_job *job;
    dop_reading reading;
    size_t sent, sent_reasoning, sent_calls; /* bytes of content and reasoning; calls */
    uint32_t sent_tokens;                    /* with logprobs */
    size_t offset;                           /* characters of the first sent_tokens tokens */
    bool begun, over;                        /* the first event was sent; the last one was */
    /* With echo. */
    uint32_t *prompt; /* owned, [n_prompt] */
    uint32_t n_prompt;
    uint32_t n_added; /* tokens at its beginning that the tokenizer has put there */
    dop_buf before;   /* text of the prompt */
    bool repeated;    /* the prompt has been sent */
} dop_choice;

/* How far a whole answer has been written. */
typedef struct dop_writing {
    bool begun;
    uint32_t choice;
    bool in_choice;
    int list;       /* list of the choice's log-probabilities that is being written */
    uint32_t token; /* the next token of the list */
    size_t offset;  /* characters of the tokens before it */
} dop_writing;

typedef struct dop_news dop_news;

/* How the answer of a call is written: the public form of another API than that of chat completions (serve/protocols).  Calls
 * with a writer have one choice. */
typedef struct dop_writer {
    const char *id; /* what ids of answers begin with */
    /* Appends the whole answer, whose job has ended well. */
    void (*whole)(dop_call *call, const dop_news *news, dop_answer *answer);
    /* Appends what is new in a stream. */
    void (*stream)(dop_call *call, const dop_news *news, dop_answer *answer);
    void (*finish)(void *state); /* frees the state; accepts NULL */
} dop_writer;

/* How the answer of a call is written whose jobs have tasks, one for each choice. */
typedef struct dop_task_writer {
    /* Around and for each choice of a whole answer, whose jobs have ended well. */
    void (*begin)(const dop_call *call, dop_buf *out);
    void (*choice)(const dop_call *call, uint32_t index, dop_buf *out);
    void (*end)(const dop_call *call, dop_buf *out);
    bool (*stream)(dop_call *call, dop_answer *answer); /* appends what is new; true: the answer is complete */
    const char *(*type)(const dop_call *call);          /* of a whole answer, which ends well; NULL: JSON */
} dop_task_writer;

struct dop_call {
    const dop_api *api;
    const dop_task_writer *tasks; /* NULL: the jobs write, or embed */
    const dop_writer *writer;     /* NULL: the form of chat completions, completions, embeddings or ranks */
    void *state;                  /* owned: the writer's */
    bool clamped;                 /* the context has no room for all that the answer was allowed */
    size_t n_own_stops;           /* how many of the stop texts, the first ones, are the model's */
    bool draws;                   /* the jobs draw pictures */
    bool chat, embeds, ranks, stream, include_usage, logprobs;
    bool echo;           /* the prompt stands before what is written, with its log-probabilities */
    bool base64;         /* how embeddings are written */
    uint32_t dimensions; /* values of an embedding that are written */
    bool pairs;          /* ranks: each choice is a pair with the query; otherwise the first choice is the query */
    uint32_t top_n;      /* ranks: documents in the answer */
    json_t *documents;   /* owned: ranks: the request's documents, where the answer repeats them; NULL: it does not */
    uint32_t n_top;
    dop_reading_terms terms; /* how answers are read */
    json_t *tools;           /* owned: descriptions of the tools that may be called, or NULL */
    dop_buf begin;           /* the end of the prompt that belongs to the answers */
    char id[40];
    int64_t created;
    json_t *schema;             /* owned: what answers are validated for when they are complete; NULL: nothing */
    uint32_t n_choices, n_each; /* n_each: choices that share a prompt, which stand side by side */
    dop_writing writing;
    dop_choice choices[]; /* [n_choices] */
};

/* What a call with a writer has written, and what of it is new since the last look.  Texts belong to the call. */
struct dop_news {
    dop_job_state state; /* without tokens */
    bool ended, good;    /* the job has ended; it goes on, or has ended well */
    const char *reasoning, *content;
    size_t n_reasoning, n_content; /* bytes that are new; all of them for a whole answer */
    const json_t *calls;           /* NULL: there is none */
    uint32_t thought_tokens;       /* once the job has ended: those of its tokens that are reasoning */
    size_t first_call;             /* the first call that is new */
};

/* api_request.c: makes a call from a body and submits its jobs; NULL: refused, and the answer says why. */
typedef enum dop_call_kind { DOP_CALL_COMPLETION, DOP_CALL_CHAT, DOP_CALL_EMBEDDING, DOP_CALL_RERANK } dop_call_kind;
typedef struct dop_call_how {
    dop_call_kind kind;
    const dop_writer *writer; /* NULL: the kind's own form */
    void *state;              /* the writer's, which is freed with the call, or when there is none */
} dop_call_how;
#endif
