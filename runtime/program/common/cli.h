/* doppler-exec: its options and its modes, one file each (cli_*.c). */
#ifndef DOPPLER_RUNTIME_PROGRAM_COMMON_CLI_H
#define DOPPLER_RUNTIME_PROGRAM_COMMON_CLI_H

#include "base/base.h"
#include "base/program/options.h"
#include "base/program/print.h"
#include "base/spans.h"
#include "runtime/text/ids.h"

#include <doppler/doppler.h>
#include <doppler/text.h>

#include <stdio.h>

struct dop_plan;

/* Values of the options; options that were not given keep the value that dop_cli_init set. */
typedef struct dop_cli {
    /* prompt */
    const char *prompt, *file, *tokens, *tokens_file;
    /* generation */
    uint32_t n_predict; /* DOP_CLI_UNSET: 128, as far as the context goes; DOP_OPTION_MINUS_1: until the model ends */
    double temperature, top_p, min_p, repeat_penalty; /* NaN: the model's own */
    uint32_t top_k, repeat_last_n;                    /* DOP_CLI_UNSET: the model's own */
    double presence_penalty, frequency_penalty;
    dop_texts logit_bias;
    dop_bias *biases; /* owned: the biases of the sampling that dop_cli_sampling gives */
    const char *seed;
    bool ignore_eos, no_display_prompt, no_special, print_ids, chat, interactive;
    dop_texts stop;
    dop_texts images;     /* files of pictures in the prompt */
    const char *features; /* file to write their features to; NULL: none */
    /* scoring */
    const char *logits, *ppl;
    const char *imatrix;     /* file to write the importance matrix to */
    const char *embed;       /* how to pool, "" for the default; NULL: no embedding */
    const char *prompt_name; /* name of the prompt that goes in front of texts; NULL: the model's default */
    const char *rerank;      /* the query that texts are compared with */
    bool classify;           /* --score */
    const char *compare;     /* the plan to compare with */
    uint32_t logprobs;       /* with --json: alternatives shown for each token; DOP_CLI_UNSET: no log-probabilities */
    const char *draft;       /* a plan for drafts */
    uint32_t draft_ngram;    /* length of the n-grams that are looked up for drafts; 0: none */
    const char *session;     /* file of the sequence: restored before, saved after */
    uint32_t ppl_ctx;
    /* device */
    const char *device, *ordering;
    char *device_list;                       /* owned: the list that `device` points into; NULL: none */
    struct dop_mpi *mpi;                     /* cli_mpi.c: the ranks of a plan in parts; NULL: a plan in one part */
    const struct dop_mpi_module *mpi_module; /* the module that runs the ranks; NULL: it is not loaded */
    const struct dop_wire *wire;             /* the wire between the ranks of a plan in parts */
    uint32_t gpu_loop, chunk, threads;
    bool list_devices;
    /* --bench, whose -p and -n are lists */
    const char *bench_prompts, *bench_gens, *bench_depths, *bench_batches, *bench_output, *bench_drafts;
    bool bench_sampled;
    uint32_t bench_rounds; /* 0: 5 */
    double bench_floor;
    const char *profile;
    /* text without a device */
    const char *tokenizer, *tokenize, *detokenize, *render_chat;
    const char *chat_template, *system; /* wherever there is a chat */
    const char *json_schema, *grammar;  /* files that say what may be generated */
    bool json_mode;
    /* --serve */
    const char *serve, *api_key_file;
    uint32_t serve_queue, serve_body, serve_tokens,
        serve_connections;               /* jobs, KiB, tokens (0: no limit), connections */
    uint32_t serve_memory, serve_answer; /* MiB, KiB; 0: no limit */
    double serve_time, serve_receive, serve_prepare,
        serve_grace; /* seconds; serve_time and serve_prepare 0: no limit */
    dop_texts serve_hosts, cors;
    const char *prefix, *log;
    uint32_t store; /* responses that the server keeps */
    bool systemd;
    const char *notify_socket, *listen_pid, *listen_fds; /* what systemd says in the environment, with --systemd */
    double serve_comment;                                /* seconds; 0: never */
    /* about */
    bool bench, trace_kernels, report, check, info, disasm, json, quiet, verbose, help, version;

    dop_texts plans;
    const char *cache_dir; /* owned by main; from the environment, as `launched` is */
    bool launched;         /* mpirun or another launcher started this process */
    double start_ms;       /* dop_now_ms when the process started */
} dop_cli;

#define DOP_CLI_UNSET UINT32_MAX
#define DOP_CLI_ORDERINGS "auto barriers persistent" /* values of --ordering, as in dop_ordering */

typedef dop_status dop_mode_fn(dop_cli *cli, dop_diag *diag);

dop_mode_fn dop_mode_run;                       /* cli_run.c: generate */
dop_mode_fn dop_mode_score;                     /* cli_score.c: --ppl */
dop_mode_fn dop_mode_rerank, dop_mode_classify; /* cli_embed.c */
dop_mode_fn dop_mode_embed;                     /* cli_embed.c */
dop_mode_fn dop_mode_list_devices;              /* cli_info.c */
dop_mode_fn dop_mode_info;
dop_mode_fn dop_mode_disasm;
dop_mode_fn dop_mode_trace;
dop_mode_fn dop_mode_report;   /* cli_report.c */
dop_mode_fn dop_mode_tokenize; /* cli_text.c */
dop_mode_fn dop_mode_detokenize;
dop_mode_fn dop_mode_render_chat; /* cli_chat.c */
dop_mode_fn dop_mode_converse;    /* cli_converse.c: -i */
dop_mode_fn dop_mode_check;       /* check.c */
dop_mode_fn dop_mode_imatrix;     /* cli_imatrix.c */
dop_mode_fn dop_mode_bench;       /* cli_bench.c */
dop_mode_fn dop_mode_profile;     /* cli_profile.c */
dop_mode_fn dop_mode_compare;     /* cli_compare.c */
dop_mode_fn dop_mode_serve;       /* cli_serve.c */

/* cli_outputs.c: refuses a file to write to that is one to read. */
dop_status dop_cli_refuse_outputs(const dop_cli *cli, dop_diag *diag);

/* cli_modes.c */
/* The mode that the command line asks for.  table: its options.  DOP_E_USAGE: an option that this mode would ignore. */
dop_status dop_cli_choose(const dop_option *table, size_t n, const dop_cli *cli, const dop_options_given *given,
                          dop_diag *diag, dop_mode_fn **out_mode);

/* cli_info.c */
/* Calls fn for the plan of the command line, or for each of its parts in turn: number i of n, with n 1 for a plan in one part,
 * and with NULL for a part whose file is on another host. */
typedef dop_status dop_part_fn(void *user, const struct dop_plan *plan, uint32_t n, uint32_t i, dop_diag *diag);
dop_status dop_cli_each_part(const dop_cli *cli, dop_part_fn *fn, void *user, dop_diag *diag);

/* cli_common.c */
/* The command line's only plan. */
dop_status dop_cli_plan(const dop_cli *cli, dop_diag *diag, const char **out_path);
void dop_cli_open_options(const dop_cli *cli, dop_open_options *out_options);
/* Opens the plan as a model, and creates a sequence. */
dop_status dop_cli_open(const dop_cli *cli, dop_diag *diag, dop_model **out_model, dop_sequence **out_sequence);
/* Opens as dop_cli_open does, with these values of dop_open_options.first_tokens and .no_scoring. */
dop_status dop_cli_open_for(const dop_cli *cli, uint32_t first_tokens, bool no_scoring, dop_diag *diag,
                            dop_model **out_model, dop_sequence **out_sequence);
/* The model's tokenizer; *out_text is NULL when it has none, and then `needed_for` (an option) is an error unless NULL. */
dop_status dop_cli_text(const dop_cli *cli, const dop_model *model, const char *needed_for, dop_diag *diag,
                        dop_text **out_text);
/* The tokenizer of --tokenizer, or else of the plan; needs no model. */
dop_status dop_cli_text_open(const dop_cli *cli, dop_diag *diag, dop_text **out_text);
/* How prompts are encoded: DOP_TEXT_* bits, by --no-special. */
unsigned dop_cli_special(const dop_cli *cli);
/* Appends the ids of a text; flags: DOP_TEXT_*. */
dop_status dop_cli_encode(const dop_text *text, const char *bytes, size_t len, unsigned flags, dop_diag *diag,
                          dop_ids *out_ids);
/* Appends ids that a function of the library returned, and frees them. */
void dop_cli_take_ids(uint32_t *ids, size_t n, dop_ids *out_ids);
/* A whole file, or standard input for "-". */
dop_status dop_cli_read(const char *path, dop_diag *diag, dop_buf *out);
/* The prompt's ids from -p, -f, --tokens or --tokens-file; out_text receives the text of the first two. */
dop_status dop_cli_prompt(const dop_cli *cli, const dop_text *text, dop_diag *diag, dop_ids *out_ids,
                          dop_buf *out_text);
/* The model's sampling, overridden by the command line; cli owns the biases. */
dop_status dop_cli_sampling(dop_cli *cli, const dop_facts *facts, dop_diag *diag, dop_sampling *out_sampling);
/* May stderr show progress that is overwritten?  Only on a terminal, and unless quiet or verbose output was asked for. */
bool dop_cli_shows_progress(const dop_cli *cli);
/* One line on stderr when the plan was made for another kind of device than the one that runs it: it works, but slowly. */
void dop_cli_hint(const dop_cli *cli, const dop_model *model);

/* cli_bench.c: --bench has options of its own. */
const dop_option *dop_cli_bench_options(size_t *out_n);
bool dop_cli_wants_bench(int argc, char **argv);

/* cli_logits.c: raw logits of every token fed, streamed to a file that appears when it is complete. */
typedef struct dop_logits_file {
    dop_out_file out;
    uint32_t vocab;
} dop_logits_file;

dop_status dop_logits_file_open(const char *path, uint32_t vocab, dop_diag *diag, dop_logits_file *out_file);
dop_logits_fn dop_logits_file_write; /* user: dop_logits_file */
dop_status dop_logits_file_close(dop_logits_file *file, bool complete, dop_diag *diag);

#endif
