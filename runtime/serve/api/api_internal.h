/* What the files of the API share: api.c, paths; api_request.c, JSON to jobs; api_answer.c, jobs to JSON; api_tools.c, how
 * models call tools; api_json.c. */
#ifndef DOPPLER_RUNTIME_SERVE_API_API_INTERNAL_H
#define DOPPLER_RUNTIME_SERVE_API_API_INTERNAL_H

#include "runtime/serve/api/api.h"
#include "runtime/serve/api/api_form.h"

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

/* Refuses the request because `param` is wrong. */
void dop_reader_refuse(dop_reader *r, const char *param, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A member that exists and is not null; NULL otherwise. */
const json_t *dop_reader_get(dop_reader *r, const char *name);
/* api_adapters.c.  reader_adapters: what "lora" and a name "base:adapter" in "model" ask for.  name: that of an adapter; NULL: there are
 * no more.  json and set: GET and POST /lora-adapters. */
void dop_reader_adapters(dop_reader *r, const dop_api *api, dop_job_request *job);
const char *dop_adapter_list_name(const dop_adapter_list *list, uint32_t i);
json_t *dop_adapter_list_json(dop_adapter_list *list);
void dop_adapter_list_set(const dop_api *api, const json_t *value, dop_answer *answer);
/* When everything has been read: names the members that have no effect in the header X-Doppler-Ignored of the answer; with "strict"
 * the request is refused for them. */
void dop_reader_report(dop_reader *r);
double dop_reader_real(dop_reader *r, const char *name, double otherwise, double min, double max);
int64_t dop_reader_whole(dop_reader *r, const char *name, int64_t otherwise, int64_t min, int64_t max);
bool dop_reader_bool(dop_reader *r, const char *name, bool otherwise);
/* A member that is a string of *out_n bytes; NULL: absent. */
const char *dop_reader_text(dop_reader *r, const char *name, size_t *out_n);

/* Makes a JSON value the answer, and takes ownership of it. */
void dop_answer_json(dop_answer *answer, unsigned status, json_t *value);
/* Parses a request's body within its budget; NULL: refused, and the answer says why. */
json_t *dop_request_json(const dop_api_request *request, bool list, dop_answer *answer);
/* What follows "/v1/NAME/" or "/NAME/" in a path; NULL: it is another path. */
const char *dop_path_below(const char *path, const char *name);
/* The value of a name in the request's query, without escapes and cut where it does not fit.  False: the query does not have it. */
bool dop_request_parameter(const dop_api_request *request, const char *name, char *out, size_t size);
/* Answers a failure of something that a request asked for: 400, or 408 where its time is up, or 503 where there is no memory. */
void dop_reader_fail(dop_reader *r, const char *param, const dop_diag *diag, const dop_budget *budget);
/* A seed that nobody has chosen. */
uint64_t dop_any_seed(void);
/* Answers that jobs were not accepted. */
void dop_answer_not_submitted(dop_answer *answer, dop_submit result, const dop_diag *diag);
/* Base64: a string with four characters for three bytes (RFC 4648, section 4). */
json_t *dop_json_base64(const void *bytes, size_t n);

/* --- shapes ---------------------------------------------------------------------------------------------------------------- */

/* The grammar of a GBNF text, or of parts (dop_grammar_from_parts); the caller's to release.  budget: the request's, for compiling
 * and for waiting until others are compiled.  Errors: those of the functions that make grammars. */
struct dop_grammar;
dop_status dop_constraints_find_gbnf(dop_constraints *shapes, const char *gbnf, size_t n, dop_budget *budget,
                                     dop_diag *diag, struct dop_grammar **out_grammar);
dop_status dop_constraints_find_parts(dop_constraints *shapes, const json_t *parts, dop_budget *budget, dop_diag *diag,
                                      struct dop_grammar **out_grammar);
/* Where a grammar does not enforce all keywords of its schema: names them in a header, or refuses the request where it demands
 * `strict`; the call keeps the schema, for dop_call_note_validity. */
void dop_constraints_note_unenforced(dop_reader *r, const struct dop_grammar *grammar, dop_call *call);
/* A finished choice whose schema was not enforced exactly gets "schema_valid": whether its text is valid. */
void dop_call_note_validity(const dop_call *call, uint32_t index, json_t *choice);

/* --- tools ---------------------------------------------------------------------------------------------------------------- */

/* What is read from an answer, and how. */
typedef struct dop_reading_terms {
    const dop_tool_form *form;
    const json_t *tools; /* tools that may be called; NULL: calls are not read */
    const char *begin;   /* the end of the prompt that belongs to the answer; NULL: nothing */
    bool thinks;         /* the prompt ends within reasoning */
    bool single;         /* at most one call */
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
    /* private */
    dop_reading_terms terms;
    dop_buf whole;
    dop_buf thoughts; /* of dop_thought: what of `whole` is reasoning, with its marks */
    size_t at, fed, wait, sure_content, sure_reasoning;
    bool thinks, fresh, after_thought, in_content;
} dop_reading;

/* Terms are copied; what they point to must outlive the reading. */
void dop_reading_begin(dop_reading *r, const dop_reading_terms *terms);
/* Reads on.  text: everything that has been written so far, [n], which begins with what was fed before.  ended: nothing follows. */
void dop_reading_feed(dop_reading *r, const char *text, size_t n, bool ended);
void dop_reading_finish(dop_reading *r);
/* The tokens of what has been read that are reasoning or its marks.  text_ends: dop_job_state.text_ends, [n]. */
uint32_t dop_reading_thought_tokens(const dop_reading *r, const uint32_t *text_ends, uint32_t n);
/* The bytes from `from` to `to` of r->whole are reasoning. */
void dop_reading_add_thought(dop_reading *r, size_t from, size_t to);
void dop_reading_add_call(dop_reading *r, const char *name, size_t n_name, const char *arguments, size_t n_arguments);
/* Reads r->whole, an answer with channels (Harmony), into its parts. */
void dop_reading_channels(dop_reading *r, bool ended);
/* How many bytes at the end of a text may be the beginning of this mark. */
size_t dop_partial_mark(const char *text, size_t n, const char *mark);

/* What the answer to a request has to be, in the form that the model's template gives it. */
typedef struct dop_shape_demand {
    json_t *parts; /* for dop_grammar_from_parts, the caller's to release */
    dop_buf begin; /* marks that begin the answer, for the end of the prompt: models write them as one token */
} dop_shape_demand;
/* The tools that a choice {"type": "allowed_tools"} leaves, a new list.  *out_mode: "auto" or "required"; NULL: the choice is wrong. */
json_t *dop_tools_allowed(const json_t *tools, const json_t *choice, const char **out_mode);
/* Demands a call of any of the tools or, unless NULL, of the tool `only`.  Returns what is wrong, or NULL. */
const char *dop_tool_require(const dop_tool_form *form, const json_t *tools, const char *only, dop_shape_demand *out);
/* Demands an answer that is valid for a schema (NULL: any object).  Returns what is wrong, or NULL. */
const char *dop_answer_require(const dop_tool_form *form, const json_t *schema, dop_shape_demand *out);

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

/* The bytes of data:TYPE;base64,BYTES; false: refused. */
bool dop_reader_data(dop_reader *r, const char *param, const char *uri, dop_budget *budget, dop_buf *out);
/* Reads a part of a message if it is a picture, and appends its mark to the text; false: it is none.  What is wrong with it refuses the
 * request. */
bool dop_request_image(dop_request_images *x, dop_reader *reader, const json_t *part, dop_buf *text);
void dop_request_images_finish(dop_request_images *x);
/* The ids of a rendered conversation, with those of the tokens that stand for its pictures. */
dop_status dop_request_images_encode(const dop_request_images *x, const dop_tokenizer *tok, const dop_buf *text,
                                     dop_diag *diag, dop_ids *out_ids);

/* --- histories ------------------------------------------------------------------------------------------------------------ */

/* Messages as the template takes them; NULL: refused.  The caller's to release. */
json_t *dop_history_make(const dop_tool_form *form, const json_t *messages, const json_t *tools, dop_reader *reader,
                         dop_request_images *images);

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

/* How the answer of a call is written: the public form of another API than that of chat completions (runtime/serve/protocols).  Calls
 * with a writer have one choice. */
typedef struct dop_writer {
    const char *id; /* what ids of answers begin with */
    /* Appends the whole answer, whose job has ended well. */
    void (*whole)(dop_call *call, const dop_news *news, dop_answer *answer);
    /* Appends what is new in a stream. */
    void (*stream)(dop_call *call, const dop_news *news, dop_answer *answer);
    void (*finish)(void *state); /* frees the state; accepts NULL */
    /* An answer that may become longer than fits is made shorter; otherwise the request is refused. */
    bool clamps;
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

/* api_answer.c: frees what a choice owns, its job aside. */
void dop_choice_finish(dop_choice *choice);

/* api_texts.c: the vector of an input; the scores of all documents, the best first. */
void dop_texts_write_vector(const dop_call *c, uint32_t index, dop_buf *out);
void dop_texts_write_ranks(const dop_call *c, dop_buf *out);

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

/* api_answer.c: why an answer ended, as OpenAI names it; the error for a job that has not ended well; the counts of an ended call. */
const char *dop_finish_reason(const dop_job_state *state, const json_t *calls);
void dop_answer_failure(dop_answer *answer, const dop_job_state *state);
dop_answer_counts dop_call_count(const dop_call *call);
/* The list of the tokens' log-probabilities of an ended call with `logprobs`, as chat completions have it. */
json_t *dop_call_logprobs(const dop_call *call);
/* Appends the error for a job that has not ended well to a stream. */
void dop_answer_failed_event(dop_answer *answer, const dop_job_state *state);
/* Appends an event with a name of its own, and takes ownership of the value. */
void dop_answer_event(dop_answer *answer, const char *name, json_t *value);

/* api_request.c: makes a call from a body and submits its jobs; NULL: refused, and the answer says why. */
typedef enum dop_call_kind { DOP_CALL_COMPLETION, DOP_CALL_CHAT, DOP_CALL_EMBEDDING, DOP_CALL_RERANK } dop_call_kind;
typedef struct dop_call_how {
    dop_call_kind kind;
    const dop_writer *writer; /* NULL: the kind's own form */
    void *state;              /* the writer's, which is freed with the call, or when there is none */
} dop_call_how;
dop_call *dop_call_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_call_how how,
                         dop_answer *answer);
/* The number of tokens of a conversation's prompt; false: refused, and the answer says why. */
bool dop_call_measure(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                      size_t *out_n);
/* POST /apply-template: the prompt that a conversation becomes. */
void dop_call_render(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer);
#endif
