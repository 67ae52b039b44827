/* Generation for single runs and conversations: from a sequence's tokens to text or ids. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_GENERATE_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_GENERATE_H

#include "tools/doppler-exec/common/cli.h"

#include <doppler/generation.h>

#include <signal.h>

typedef struct dop_cli_generation {
    dop_model *draft_model; /* owned: model of --draft; NULL: none */
    dop_model *model;       /* owned */
    dop_sequence *sequence; /* owned by the model */
    dop_facts facts;
    dop_text *text; /* owned; NULL: the plan has none */
    dop_sampling sampling;
    dop_texts stops; /* owned: --stop and the stop strings of the chat format */
    bool ignore_end;
    uint32_t n_top;                           /* alternatives per token in `logprobs` */
    bool streams;                             /* text is printed to stdout as it is generated */
    dop_constraint_matcher *matcher;          /* not owned: constraint on the next text; NULL: none */
    const volatile sig_atomic_t *interrupted; /* nonzero ends the generation; NULL: not interruptible */

    /* Results of the last text: */
    dop_generation *writer;  /* owned */
    dop_ids ids;             /* includes the end id if one was picked */
    double *times;           /* owned: time (dop_now_ms) at which each id was known */
    dop_logprob *logprobs;   /* owned, [ids][1 + n_top]: each id, then its alternatives; NULL: not requested */
    double waited_ms[2];     /* dop_counters.waited_ms at the first and the last id */
    const char *stop_reason; /* "length", "end", "text", "interrupt" */
} dop_cli_generation;

/* Opens model, sequence and tokenizer. needed_for: see dop_cli_text. */
dop_status dop_cli_generation_open(dop_cli *cli, const char *needed_for, dop_diag *diag, dop_cli_generation *out_gen);
void dop_cli_generation_finish(dop_cli_generation *gen); /* accepts a zeroed struct */
/* Begins a text of up to n_tokens tokens (0: none) after n_prompt more prompt tokens, which the caller feeds next. */
dop_status dop_cli_generation_begin(dop_cli_generation *gen, size_t n_prompt, uint32_t n_tokens, dop_diag *diag);
/* Generates the text that was begun. The prompt must have been fed. */
dop_status dop_cli_generate(dop_cli_generation *gen, uint32_t n_tokens, dop_diag *diag);

/* cli_chat.c: formats one user message with the model's chat format, and adds the stop strings of the format. */
struct dop_cli_images; /* cli_images.h */
dop_status dop_chat_prompt(const dop_cli *cli, dop_cli_generation *gen, const dop_buf *message,
                           const struct dop_cli_images *images, dop_diag *diag, dop_ids *out_ids);

#endif
