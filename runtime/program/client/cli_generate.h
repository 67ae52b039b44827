/* Generation, shared by plain runs and conversations: from the tokens of a sequence to text or ids. */
#ifndef DOPPLER_RUNTIME_PROGRAM_CLIENT_CLI_GENERATE_H
#define DOPPLER_RUNTIME_PROGRAM_CLIENT_CLI_GENERATE_H

#include "base/program/output.h"
#include "runtime/program/common/cli.h"

#include <doppler/constraint.h>

#include <signal.h>

typedef struct dop_generation {
    dop_model *draft_model; /* of --draft; NULL: none */
    dop_model *model;       /* owned */
    dop_sequence *sequence; /* the model's */
    dop_facts facts;
    dop_text *text; /* owned; NULL: the plan has none */
    dop_sampling sampling;
    dop_texts stops;   /* owned list: --stop and those of the chat format */
    dop_ending ending; /* most: of dop_generate */
    uint32_t n_top;    /* alternatives of each pick in `logprobs` */
    bool streams;      /* text goes to stdout as it comes */
    dop_constraint_matcher
        *shaper; /* restricts picks on the device; NULL: nothing does, or the sequence's own sampler */
    const volatile sig_atomic_t *interrupted; /* generation ends when it is not 0; NULL: no interruption */

    /* of the last dop_generate */
    dop_output output;
    dop_ids ids;             /* with the end id when one was picked */
    double *times;           /* dop_now_ms when each id was known */
    dop_logprob *logprobs;   /* owned, of each id itself and n_top others; NULL: the sampling does not want them */
    double waited_ms[2];     /* dop_counters.waited_ms when the first id was known, and the last one */
    const char *stop_reason; /* "length", "end", "text", "interrupt" */
} dop_generation;

/* Opens model, sequence and tokenizer; needed_for as in dop_cli_text. */
dop_status dop_generation_open(dop_cli *cli, const char *needed_for, dop_diag *diag, dop_generation *out_gen);
void dop_generation_finish(dop_generation *gen); /* accepts a zeroed one */
/* Before a text after n_before tokens of the sequence: penalties count from there on. */
void dop_generation_begin(dop_generation *gen, size_t n_before);
/* Feeds n tokens; at the beginning of a sequence, those that are cached already are reused. */
dop_status dop_generation_feed(dop_generation *gen, const uint32_t *ids, size_t n, dop_diag *diag);
/* Restricts the next pick to what the shaper allows, if there is one. */
dop_status dop_generation_constrain(dop_generation *gen, dop_diag *diag);
/* Takes up to n tokens after what was fed. */
dop_status dop_generate(dop_generation *gen, uint32_t n, dop_diag *diag);

/* cli_chat.c: the conversation of one user message, as the model's format wants it; adds the format's stop texts. */
dop_status dop_chat_prompt(const dop_cli *cli, dop_generation *gen, const dop_buf *message, dop_diag *diag,
                           dop_ids *out_ids);

#endif
