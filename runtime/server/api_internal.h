/* What the files of the API share: api.c, paths; api_request.c, JSON to jobs; api_answer.c, jobs to JSON; api_tools.c, how
 * models call tools; api_json.c. */
#ifndef DOPPLER_RUNTIME_SERVER_API_INTERNAL_H
#define DOPPLER_RUNTIME_SERVER_API_INTERNAL_H

#include "runtime/server/api.h"

#include <jansson.h>

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
/* When everything has been read: names the members that have no effect in the header X-Doppler-Ignored of the answer; with "strict"
 * the request is refused for them. */
void dop_reader_report(dop_reader *r);
double dop_reader_real(dop_reader *r, const char *name, double otherwise, double min, double max);
int64_t dop_reader_whole(dop_reader *r, const char *name, int64_t otherwise, int64_t min, int64_t max);
bool dop_reader_bool(dop_reader *r, const char *name, bool otherwise);
/* NULL: absent. */
const char *dop_reader_text(dop_reader *r, const char *name, size_t *out_n);

/* Takes ownership of the value. */
void dop_answer_json(dop_answer *answer, unsigned status, json_t *value);
void dop_json_append(dop_buf *out, const json_t *value);
/* Parses a request's body within its budget; NULL: refused, and the answer says why. */
json_t *dop_request_json(const dop_api_request *request, dop_answer *answer);
/* Answers a failure of something that a request asked for: 400, or 408 where its time is up, or 503 where there is no memory. */
void dop_reader_fail(dop_reader *r, const char *param, const dop_diag *diag, const dop_budget *budget);
/* Four characters for three bytes (RFC 4648, section 4). */
json_t *dop_json_base64(const void *bytes, size_t n);
/* Bytes that are not UTF-8 become U+FFFD. */
json_t *dop_json_text(const char *bytes, size_t n);

/* --- shapes ---------------------------------------------------------------------------------------------------------------- */

/* The grammar of a schema (NULL: any object) between two texts, or of a GBNF text; the caller's to release.  Errors as of
 * dop_grammar_from_schema and dop_grammar_from_gbnf. */
struct dop_grammar;
dop_status dop_shapes_find(dop_shapes *shapes, const json_t *schema, const char *before, const char *after,
                           const char *gbnf, size_t n_gbnf, dop_diag *diag, struct dop_grammar **out_grammar);

/* --- tools ---------------------------------------------------------------------------------------------------------------- */

/* How the model's template writes calls, found by what the template says; see api_tools.c. */
typedef struct dop_tool_form dop_tool_form;
const dop_tool_form *dop_tool_form_of(const char *template);
/* Whether answers have channels, even without tools (api_harmony.c). */
bool dop_tool_form_has_channels(const dop_tool_form *form); /* accepts NULL */

/* An answer in parts. */
typedef struct dop_reading {
    dop_buf content;   /* text that is certainly content and not (part of) a call */
    dop_buf reasoning; /* the model's reasoning, where it marks that */
    json_t *calls;     /* in the API's shape: {"id", "type", "function": {"name", "arguments"}}; NULL: there is none */
} dop_reading;
/* begin: the end of the prompt that belongs to the answer; NULL: nothing.  Calls are read when the answer has ended. */
void dop_reading_make(const dop_tool_form *form, const char *begin, const char *text, size_t n, bool ended,
                      dop_reading *out);
void dop_reading_channels(const char *text, size_t n, bool ended, dop_reading *out);
void dop_reading_finish(dop_reading *reading);
/* How many bytes at the end of a text may be the beginning of this mark. */
size_t dop_partial_mark(const char *text, size_t n, const char *mark);
/* Adds a call; names and arguments have lengths. */
void dop_json_add_call(json_t *calls, const char *name, size_t n_name, const char *arguments, size_t n_arguments);

/* The constraint that makes a model call a function; schema and begin are the caller's to release. */
typedef struct dop_tool_demand {
    json_t *schema;
    const char *before, *after; /* text around the part that the schema describes */
    char *begin;                /* end of the prompt; "" for nothing */
} dop_tool_demand;
/* A call of any of the tools, or of the one with this name.  Returns what is wrong, or NULL. */
const char *dop_tool_require(const dop_tool_form *form, const json_t *tools, const char *only, dop_tool_demand *out);

/* --- calls ---------------------------------------------------------------------------------------------------------------- */

typedef struct dop_choice {
    dop_job *job;
    size_t sent, sent_reasoning; /* bytes of its text */
    uint32_t sent_tokens;        /* with logprobs */
    size_t offset;               /* bytes of these tokens */
    bool begun, over;
} dop_choice;

/* How far a whole answer has been written. */
typedef struct dop_writing {
    bool begun;
    uint32_t choice;
    bool in_choice;
    int list;       /* of its log-probabilities */
    uint32_t token; /* of this list */
    size_t offset;  /* bytes of the tokens before */
} dop_writing;

struct dop_call {
    const dop_api *api;
    bool chat, embeds, stream, include_usage, logprobs;
    bool base64; /* how embeddings are written */
    uint32_t n_top;
    const dop_tool_form *tools; /* how calls are read from answers; NULL: not at all, because no tools were offered */
    char *begin;                /* owned: the end of the prompt that belongs to the answers; NULL: nothing */
    char id[40];
    int64_t created;
    uint32_t n_choices, n_each; /* n_each: choices that share a prompt, which stand side by side */
    dop_writing writing;
    dop_choice choices[]; /* [n_choices] */
};

/* api_request.c: makes a call from a body and submits its jobs; NULL: refused, and the answer says why. */
typedef enum dop_call_kind { DOP_CALL_COMPLETION, DOP_CALL_CHAT, DOP_CALL_EMBEDDING } dop_call_kind;
dop_call *dop_call_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_call_kind kind,
                         dop_answer *answer);
#endif
