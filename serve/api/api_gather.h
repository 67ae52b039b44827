/* Shared by the files that read the bodies of calls: what a request says until its jobs are submitted. */
#ifndef DOPPLER_SERVE_API_API_GATHER_H
#define DOPPLER_SERVE_API_API_GATHER_H

#include "serve/api/api_internal.h"
#include "text/grammar/grammar.h"

/* What a request asks for: reasoning turned off, turned on, or neither. */
typedef enum dop_reasoning_wish { DOP_REASONING_UNSTATED, DOP_REASONING_OFF, DOP_REASONING_ON } dop_reasoning_wish;

/* What is gathered of a request until its jobs are submitted; everything but the JSON is owned. */
typedef struct gathering {
    const dop_api *api;
    dop_reader r;
    dop_call *call;
    dop_budget *budget;  /* the request's budget */
    dop_job_request job; /* what all jobs have in common */
    const char *stops[DOP_JOB_MAX_STOPS];
    dop_bias *biases;
    dop_ids *prompts;  /* [n_prompts] */
    uint32_t *seconds; /* owned, [n_prompts]: tokens before the second text of each pair; NULL: they are single texts */
    uint32_t n_prompts, n_each;
    dop_request_images images;
    const json_t *texts; /* with echo: the prompts as the request has them */
    const char *front;   /* what texts get in front of them; NULL: nothing */
    json_t *parts;  /* owned: what the answer has to be, behind its reasoning; NULL: anything, or what `grammar` says */
    json_t *schema; /* owned: the schema that `parts` was made from, or NULL */
    json_t *allowed;   /* owned: the tools that a choice of allowed_tools names; NULL: all */
    const char *param; /* the parameter of the request that `parts` or `grammar` is from */
    dop_grammar *grammar;
    dop_reasoning_wish wish;
    bool reasoning_closed; /* the template begins reasoning, and the prompt ends it at once */
    dop_buf *rendered;     /* receives the text of the prompt of a conversation; NULL: it is not wanted */
} gathering;

/* api_gather.c */
void dop_gather_prompts(gathering *g, const char *param); /* texts and lists of ids to prompts */
/* Appends the ids of a text with another one in front of it, g->front; special: DOP_ENCODE_* bits. */
dop_status dop_gather_text(gathering *g, const char *text, size_t n, unsigned special, dop_diag *diag, dop_ids *out);
void dop_gather_refuse(gathering *g, const char *param, const dop_diag *diag);
void dop_gather_no_memory(gathering *g);
/* Keeps the prompt of a choice that the answer repeats; false: out of memory. */
bool dop_gather_echo(const gathering *g, uint32_t prompt, dop_choice *choice);
/* Returns the template variables that the request sets, for the caller to release, and finds out whether it asks for reasoning. */
json_t *dop_gather_variables(gathering *g);
/* Reports the switches of reasoning that the template cannot honour as members without effect.  To be called with the prompt made. */
void dop_gather_check_reasoning(gathering *g);
/* api_constraints.c */
/* Takes the demands on the answer of all members that state one. */
void dop_gather_shape(gathering *g);
/* Takes over the demand of the member `param`, or refuses the request: wrong is why the demand cannot be met, or NULL.  compact: the
 * default of compact_json. */
void dop_gather_shape(gathering *g);
void dop_gather_demand(gathering *g, const char *param, const char *wrong, const dop_shape_demand *demand,
                       bool compact);
/* api_texts.c */
void dop_gather_embedding(gathering *g);
void dop_gather_rerank(gathering *g);

#endif
