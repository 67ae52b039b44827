/* Shared by the files that read request bodies: the state gathered from a request until its jobs are submitted. */
#ifndef DOPPLER_SERVE_API_API_GATHER_H
#define DOPPLER_SERVE_API_API_GATHER_H

#include "serve/api/api_internal.h"
#include "text/grammar/grammar.h"

/* Reasoning setting of a request: not stated, off, or on. */
typedef enum dop_reasoning_wish { DOP_REASONING_UNSTATED, DOP_REASONING_OFF, DOP_REASONING_ON } dop_reasoning_wish;

/* State gathered from a request until its jobs are submitted. Everything but the request's JSON is owned. */
typedef struct gathering {
    const dop_api *api;
    dop_reader r;
    dop_call *call;
    dop_budget *budget;  /* time and memory budget of the request */
    dop_job_request job; /* settings shared by all jobs of the request */
    const char *stops[DOP_JOB_MAX_STOPS];
    dop_bias *biases;
    dop_ids *prompts; /* [n_prompts] */
    /* owned, [n_prompts]: number of tokens before the second text of each pair; NULL: single texts */
    uint32_t *seconds;
    uint32_t n_prompts, n_each;
    dop_request_images images;
    const json_t *texts; /* with echo: the prompts as they appear in the request */
    const char *front;   /* prefix put before each text; NULL: none */
    /* owned: grammar parts for the answer after its reasoning; NULL: unconstrained, or `grammar` applies */
    json_t *parts;
    json_t *schema;    /* owned: the schema that `parts` was made from, or NULL */
    json_t *allowed;   /* owned: tools named by a tool_choice of type allowed_tools; NULL: all */
    const char *param; /* request parameter that `parts` or `grammar` comes from */
    dop_grammar *grammar;
    dop_reasoning_wish wish;
    bool reasoning_closed; /* the template opens reasoning and the prompt closes it at once */
    dop_buf *rendered;     /* receives the rendered text of a conversation's prompt; NULL: not requested */
} gathering;

/* Functions of api_gather.c. */
void dop_gather_prompts(gathering *g, const char *param); /* converts texts and lists of ids to prompts */
/* Appends the ids of g->front followed by the text. special: DOP_ENCODE_* bits. */
dop_status dop_gather_text(gathering *g, const char *text, size_t n, unsigned special, dop_diag *diag, dop_ids *out);
void dop_gather_refuse(gathering *g, const char *param, const dop_diag *diag);
void dop_gather_no_memory(gathering *g);
/* Stores the prompt in a choice that echoes it. Returns false if memory runs out. */
bool dop_gather_echo(const gathering *g, uint32_t prompt, dop_choice *choice);
/* Returns the template variables that the request sets, to be released by the caller. Also determines whether the
 * request asks for reasoning. */
json_t *dop_gather_variables(gathering *g);
/* Reports reasoning switches that the template does not support as ignored members. Call it after the prompt is
 * made. */
void dop_gather_check_reasoning(gathering *g);
/* Functions of api_constraints.c. */
/* Reads the constraints on the answer from all members that state one. */
void dop_gather_shape(gathering *g);
/* Adds the constraint of member `param`, or refuses the request. wrong: why the constraint cannot be met, or NULL.
 * compact: default of compact_json. */
void dop_gather_demand(gathering *g, const char *param, const char *wrong, const dop_shape_demand *demand,
                       bool compact);
/* Functions of api_texts.c. */
void dop_gather_embedding(gathering *g);
void dop_gather_rerank(gathering *g);

#endif
