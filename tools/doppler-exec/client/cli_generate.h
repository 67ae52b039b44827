/* Generation, shared by plain runs and conversations: from the tokens of a sequence to text or ids. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_GENERATE_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_GENERATE_H

#include "tools/doppler-exec/common/cli.h"

#include <doppler/generation.h>

#include <signal.h>

typedef struct dop_cli_generation {
    dop_model *draft_model; /* owned: the model of --draft; NULL: none */
    dop_model *model;       /* owned */
    dop_sequence *sequence; /* the model's */
    dop_facts facts;
    dop_text *text; /* owned; NULL: the plan has none */
    dop_sampling sampling;
    dop_texts stops; /* owned list: --stop and those of the chat format */
    bool ignore_end;
    uint32_t n_top;                           /* alternatives of each pick in `logprobs` */
    bool streams;                             /* text goes to stdout as it comes */
    dop_constraint_matcher *matcher;          /* not owned: restricts the next text; NULL: nothing does */
    const volatile sig_atomic_t *interrupted; /* generation ends when it is not 0; NULL: no interruption */

    /* The following is about the last text. */
    dop_generation *writer;  /* owned */
    dop_ids ids;             /* with the end id when one was picked */
    double *times;           /* owned: dop_now_ms when each id was known */
    dop_logprob *logprobs;   /* owned, of each id itself and n_top others; NULL: the sampling does not want them */
    double waited_ms[2];     /* dop_counters.waited_ms when the first id was known, and the last one */
    const char *stop_reason; /* "length", "end", "text", "interrupt" */
} dop_cli_generation;

/* Opens model, sequence and tokenizer; needed_for as in dop_cli_text. */
dop_status dop_cli_generation_open(dop_cli *cli, const char *needed_for, dop_diag *diag, dop_cli_generation *out_gen);
void dop_cli_generation_finish(dop_cli_generation *gen); /* accepts a zeroed one */
/* Begins a text of up to n_tokens tokens (0: none), after n_prompt more tokens of the sequence, which are fed next. */
dop_status dop_cli_generation_begin(dop_cli_generation *gen, size_t n_prompt, uint32_t n_tokens, dop_diag *diag);
/* Writes the text that was begun; what went before it has been fed. */
dop_status dop_cli_generate(dop_cli_generation *gen, uint32_t n_tokens, dop_diag *diag);

/* cli_chat.c: the conversation of one user message, as the model's format wants it; adds the format's stop texts. */
struct dop_cli_images; /* cli_images.h */
dop_status dop_chat_prompt(const dop_cli *cli, dop_cli_generation *gen, const dop_buf *message,
                           const struct dop_cli_images *images, dop_diag *diag, dop_ids *out_ids);

#endif
