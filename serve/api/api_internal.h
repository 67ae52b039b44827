/* Shared by the API's files: api.c routes paths, api_request.c turns JSON into jobs, api_answer.c turns jobs into
 * JSON, api_tools.c parses tool calls, api_json.c has JSON helpers. */
#ifndef DOPPLER_SERVE_API_API_INTERNAL_H
#define DOPPLER_SERVE_API_API_INTERNAL_H

#include "serve/api/api.h"
#include "text/calls/api_form.h"

#include "base/json/json.h"

/* --- JSON ----------------------------------------------------------------------------------------------------------------- */

/* Reader for the members of a request. The first faulty member sets an error as the answer. */
typedef struct dop_reader {
    const json_t *root;
    dop_answer *answer;
    bool failed;
    const char *asked[128]; /* member names that were looked up; all other members are reported as ignored */
    size_t n_asked;
} dop_reader;

/* --- constraints ----------------------------------------------------------------------------------------------------------- */

/* A compiled grammar of a GBNF text or of parts (dop_grammar_from_parts), released by its user. The request's budget
 * covers compiling it, and waiting while other grammars are compiled. */
struct dop_grammar;

/* --- tools ---------------------------------------------------------------------------------------------------------------- */

/* How an answer is parsed. */
typedef struct dop_reading_terms {
    const dop_tool_form *form;
    const json_t *tools; /* tools that may be called; NULL: calls are not parsed */
    const char *begin;   /* end of the prompt that counts as the beginning of the answer; NULL: none */
    bool thinks;         /* the prompt ends inside reasoning */
    bool single;         /* at most one call per answer */
    bool lone_close;     /* an end mark of reasoning counts even without an opening mark */
} dop_reading_terms;

typedef struct dop_thought {
    size_t from, to; /* byte range in dop_reading.whole */
} dop_thought;

/* A parsed answer, which grows with its text. */
typedef struct dop_reading {
    dop_buf content;   /* text that is certain to be content, not (part of) a call */
    dop_buf reasoning; /* reasoning text, if the model marks it */
    json_t *calls;     /* complete calls: {"id", "type", "function": {"name", "arguments"}}; NULL: none */
    bool over;         /* all further text is ignored */
    size_t shown;      /* set by the caller: bytes of content already sent, which must remain content */
    /* Private. at: end of the parsed text; fed: bytes received; wait: size of `whole` needed for the next attempt;
     * sure_*: bytes of complete messages in harmony format. */
    dop_reading_terms terms;
    dop_buf whole;
    dop_buf thoughts; /* dop_thought entries: ranges of `whole` that are reasoning, including its marks */
    size_t at, fed, wait, sure_content, sure_reasoning;
    bool thinks, fresh, after_thought, in_content;
} dop_reading;

/* Constraint on an answer, in the format of the model's template. */
typedef struct dop_shape_demand {
    json_t *parts; /* input of dop_grammar_from_parts; the caller releases it */
    dop_buf begin; /* opening marks of the answer, appended to the prompt because models write each as one token */
} dop_shape_demand;

/* --- images --------------------------------------------------------------------------------------------------------------- */

enum { DOP_REQUEST_MAX_IMAGES = 16 };
/* Images of a request, in the order of their marks in the text. */
typedef struct dop_request_images {
    const struct dop_images *eyes; /* image preprocessor; NULL: text-only model */
    const dop_picture_urls *urls;
    double fetched_ms; /* time spent on fetching the request's images, in milliseconds */
    dop_budget *budget;
    struct dop_image *list[DOP_REQUEST_MAX_IMAGES]; /* owned, [n] */
    uint32_t n;
} dop_request_images;

/* --- calls ---------------------------------------------------------------------------------------------------------------- */

typedef struct dop_choice {
    dop_job *job;
    dop_reading reading;
    size_t sent, sent_reasoning, sent_calls; /* bytes of content and of reasoning sent so far; number of calls sent */
    uint32_t sent_tokens;                    /* tokens sent so far, with logprobs */
    size_t offset;                           /* characters in the first sent_tokens tokens */
    bool begun, over;                        /* begun: the first event was sent; over: the last one was */
    /* Used with echo only. */
    uint32_t *prompt; /* owned, [n_prompt] */
    uint32_t n_prompt;
    uint32_t n_added; /* tokens at the beginning of the prompt that the tokenizer added */
    dop_buf before;   /* text of the prompt */
    bool repeated;    /* the prompt was already sent */
} dop_choice;

/* Progress of writing a whole answer. */
typedef struct dop_writing {
    bool begun;
    uint32_t choice;
    bool in_choice;
    int list;       /* index of the log-probability list that is being written */
    uint32_t token; /* next token of the list */
    size_t offset;  /* characters in the tokens before `token` */
} dop_writing;

typedef struct dop_news dop_news;

/* Writes the answer of a call in the format of another API than chat completions (serve/protocols). Calls with a
 * writer have exactly one choice. */
typedef struct dop_writer {
    const char *id; /* prefix of answer ids */
    /* Appends the whole answer of a job that succeeded. */
    void (*whole)(dop_call *call, const dop_news *news, dop_answer *answer);
    /* Appends new output to a stream. */
    void (*stream)(dop_call *call, const dop_news *news, dop_answer *answer);
    void (*finish)(void *state); /* frees the state; accepts NULL */
} dop_writer;

/* Writes the answer of a call whose jobs run tasks, one per choice. */
typedef struct dop_task_writer {
    /* Called before, for and after the choices of a whole answer. All jobs have succeeded. */
    void (*begin)(const dop_call *call, dop_buf *out);
    void (*choice)(const dop_call *call, uint32_t index, dop_buf *out);
    void (*end)(const dop_call *call, dop_buf *out);
    bool (*stream)(dop_call *call, dop_answer *answer); /* appends new output; returns true if the answer is complete */
    const char *(*type)(const dop_call *call);          /* Content-Type of a whole, successful answer; NULL: JSON */
} dop_task_writer;

struct dop_call {
    const dop_api *api;
    const dop_task_writer *tasks; /* NULL: the jobs generate text or compute embeddings */
    const dop_writer *writer;     /* NULL: the format of chat completions, completions, embeddings or reranking */
    void *state;                  /* owned: state of the writer */
    bool clamped;                 /* the context was too small for the number of tokens requested */
    size_t n_own_stops;           /* number of stop texts that belong to the model; they come first in the list */
    bool draws;                   /* the jobs generate images */
    bool chat, embeds, ranks, stream, include_usage, logprobs;
    bool echo;           /* the answer repeats the prompt, with its log-probabilities */
    bool base64;         /* embeddings are written as base64 */
    uint32_t dimensions; /* number of values written per embedding */
    bool pairs;          /* ranks: each choice is a pair of query and document; otherwise choice 0 is the query */
    uint32_t top_n;      /* ranks: maximum number of documents in the answer */
    json_t *documents;   /* owned: ranks: documents of the request to repeat in the answer; NULL: not repeated */
    uint32_t n_top;
    dop_reading_terms terms; /* how answers are parsed */
    json_t *tools;           /* owned: descriptions of the tools that may be called; NULL: none */
    dop_buf begin;           /* end of the prompt that counts as the beginning of the answers */
    char id[40];
    int64_t created;
    json_t *schema;             /* owned: schema that complete answers are validated against; NULL: none */
    uint32_t n_choices, n_each; /* n_each: choices per prompt; choices of one prompt are adjacent */
    dop_writing writing;
    dop_choice choices[]; /* [n_choices] */
};

/* Output of a call with a writer, and the part that is new since the last poll. The call owns the texts. */
struct dop_news {
    dop_job_state state; /* state of the job, without its tokens */
    bool ended, good;    /* ended: the job has ended; good: it is still running or has succeeded */
    const char *reasoning, *content;
    size_t n_reasoning, n_content; /* new bytes; for a whole answer, all bytes */
    const json_t *calls;           /* all complete calls; NULL: none */
    uint32_t thought_tokens;       /* reasoning tokens of the job; valid once the job has ended */
    size_t first_call;             /* index of the first new call */
};

/* Kind of a call, and the parameters with which dop_call_begin makes it. */
typedef enum dop_call_kind { DOP_CALL_COMPLETION, DOP_CALL_CHAT, DOP_CALL_EMBEDDING, DOP_CALL_RERANK } dop_call_kind;
typedef struct dop_call_how {
    dop_call_kind kind;
    const dop_writer *writer; /* NULL: default format of the kind */
    void *state;              /* state of the writer, freed with the call, or at once if no call is made */
} dop_call_how;
#endif
