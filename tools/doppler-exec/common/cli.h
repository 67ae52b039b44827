/* doppler-exec: options, and the modes in cli_*.c. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_COMMON_CLI_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_COMMON_CLI_H

#include "base/base.h"
#include "base/program/options.h"
#include "base/program/print.h"
#include "base/program/say.h"
#include "base/spans.h"
#include "text/tokenizer/ids.h"

#include <doppler/compile.h>
#include <doppler/doppler.h>
#include <doppler/text.h>

#include <stdio.h>

struct dop_plan;
struct dop_cli_models;

/* Values of the options. Options that are not given keep the value set by dop_cli_init. */
typedef struct dop_cli {
    /* prompt: */
    const char *prompt, *file, *tokens, *tokens_file;
    /* generation: */
    uint32_t n_predict; /* DOP_CLI_UNSET: 128, limited by the context; DOP_OPTION_MINUS_1: until the model ends */
    double temperature, top_p, min_p, repeat_penalty; /* NaN: the model's default */
    uint32_t top_k, repeat_last_n;                    /* DOP_CLI_UNSET: the model's default */
    double presence_penalty, frequency_penalty;
    dop_texts logit_bias;
    dop_bias *biases; /* owned: biases used by the result of dop_cli_sampling */
    const char *seed;
    bool ignore_eos, no_display_prompt, no_special, print_ids, chat, interactive;
    dop_texts stop, lora, control_vector;
    dop_texts images;                   /* image files of the prompt */
    const char *features;               /* output file for image features; NULL: none */
    const char *audio, *mel, *language; /* input files of a speech model; language of the audio */
    bool translate, no_timestamps, srt, vtt;
    uint32_t audio_batch;                           /* audio chunks per batch; 0: one after the other */
    const char *draw, *negative, *output, *sampler; /* prompt of an image, negative prompt, output file, sampler */
    uint32_t steps;                                 /* denoising steps; 0: the model's default */
    double guidance;                                /* guidance scale; NaN: the model's default */
    const char *init;
    const char *mask;
    double strength; /* NaN: the default */
    /* scoring: */
    const char *logits, *ppl;
    const char *imatrix;        /* output file for the importance matrix */
    const char *embed;          /* pooling, "" for the default; NULL: no embedding */
    const char *prompt_name;    /* name of the prefix of texts; NULL: the model's default */
    const char *rerank;         /* query that texts are compared with */
    bool classify;              /* --score */
    const char *compare;        /* plan to compare with */
    uint32_t logprobs;          /* with --json: alternatives per token; DOP_CLI_UNSET: no log-probabilities */
    const char *draft;          /* plan of the draft model */
    uint32_t draft_ngram;       /* n-gram length for draft lookup; 0: none */
    const char *control_layers; /* layers after which control vectors are added, such as "1-12" */
    const char *session;        /* session file: restored before, saved after */
    uint32_t ppl_ctx;
    /* device: */
    const char *device, *ordering;
    char *device_list;                       /* owned: list that `device` points into; NULL: none */
    struct dop_mpi *mpi;                     /* ranks of a plan in parts (cli_mpi.c); NULL: one part */
    const struct dop_mpi_module *mpi_module; /* module that runs the ranks; NULL: not loaded */
    const struct dop_wire *wire;             /* transport between the ranks of a plan in parts */
    uint32_t gpu_loop, chunk, threads;
    bool list_devices;
    /* --bench, whose -p and -n are lists: */
    const char *bench_prompts, *bench_gens, *bench_depths, *bench_batches, *bench_output, *bench_drafts;
    bool bench_sampled;
    uint32_t bench_rounds; /* 0: default (5) */
    double bench_floor;
    const char *profile;
    /* text without a device: */
    const char *tokenizer, *tokenize, *detokenize, *render_chat;
    const char *chat_template, *system; /* for all chat modes */
    const char *json_schema, *grammar;  /* files that constrain the output */
    bool json_mode;
    /* --serve: */
    const char *serve, *api_key_file;
    const char *image_urls, *image_files; /* URLs that may be fetched; folder of image files; NULL: none */
    uint32_t serve_queue, serve_body, serve_tokens,
        serve_connections;               /* jobs, KiB, tokens (0: no limit), connections */
    uint32_t serve_memory, serve_answer; /* MiB, KiB; 0: no limit */
    double serve_time, serve_receive, serve_prepare,
        serve_grace; /* seconds; serve_time and serve_prepare 0: no limit */
    dop_texts serve_hosts, cors;
    const char *prefix, *log;
    uint32_t store; /* number of responses that the server stores */
    bool systemd;
    const char *models;                                          /* folder or YAML file */
    uint32_t models_memory;                                      /* MiB; 0: no limit */
    double models_idle;                                          /* seconds; 0: never */
    const char *notify_socket, *listen_pid, *listen_fds;         /* with --systemd: systemd's environment variables */
    double serve_comment;                                        /* seconds; 0: never */
    const char *cache_memory, *prompt_cache, *prompt_cache_size; /* for -i and --serve */
    /* models instead of plans (tools/doppler-exec/on_demand): */
    dop_compile_options compile; /* its lists are the members below */
    dop_texts force, no_fuse, skip, avoid;
    uint32_t cache_limit; /* MiB; 0: the default */
    bool cache_list;
    const char *cache_clear;            /* what to remove, "" for the default; NULL: nothing */
    const char *hf;                     /* model to download */
    const char *hf_endpoint, *hf_token; /* from the environment; NULL: not set */
    const char *release;                /* release of this program, part of the keys of plans */
    dop_progress progress;              /* callback for compiling and downloading; zeroed: stderr */
    struct dop_cli_models *compiled;    /* owned; NULL: no model was given */
    dop_device_fn *chosen;              /* for dop_open_options, with chosen_user */
    void (*refused)(void *user, const char *kernel);
    void *chosen_user; /* user of both callbacks */
    bool made;         /* a plan was just compiled; the driver may reject its kernels */
    /* general: */
    bool bench, trace_kernels, report, check, info, disasm, json, quiet, verbose, help, version;

    dop_texts plans;
    const char *cache_dir;    /* from an option or the environment; owned by main */
    const char *history_file; /* history of -i, from the environment; NULL: not saved; owned by main */
    bool launched;            /* started by mpirun or another launcher */
    double start_ms;          /* start time of the process (dop_now_ms) */
} dop_cli;

#define DOP_CLI_UNSET UINT32_MAX
/* Rows of option tables, for OPT and NUM macros of dop_cli: compile options shared with dopplerc, and cache options. */
#define DOP_CLI_MODEL_OPTIONS                                                                                          \
    DOP_OPTION_HEADING("Models (MODEL in the place of PLAN: compiled once, and kept)"),                                \
        OPT(0, "hf", TEXT, hf, "USER/REPO[:FILE]", "download a model of huggingface.co, and run it; also -hf",         \
            .one_dash = true),                                                                                         \
        OPT(0, "target", TEXT, compile.target, "NAME|FILE",                                                            \
            "compile for this target instead of the device (dopplerc)"),                                               \
        OPT(0, "quant", TEXT, compile.quant, "SPEC", "storage of the weights (dopplerc)"),                             \
        OPT(0, "imatrix", TEXT, compile.imatrix, "FILE", "with --quant: how much inputs matter (dopplerc)"),           \
        OPT(0, "mmproj", TEXT, compile.mmproj, "FILE", "the vision part of a GGUF model (dopplerc)"),                  \
        OPT(0, "draft-head", TEXT, compile.draft_head, "DIR|FILE", "a drafter for the model (dopplerc)"),              \
        NUM(0, "draft-vocabulary", COUNT, compile.draft_vocabulary, "N",                                               \
            "drafts are among the first N tokens (dopplerc)", 1, 1u << 24),                                            \
        NUM(0, "ctx", COUNT, compile.ctx, "N", "cache length (default: the model's, at most 4096)", 1, 1u << 24),      \
        OPT(0, "size", TEXT, compile.size, "WxH", "size of the pictures of a diffusion model (dopplerc)"),             \
        OPT(0, "chunks", TEXT, compile.chunks, "LIST", "prefill chunk sizes (dopplerc)"),                              \
        NUM(0, "sequences", COUNT, compile.sequences, "N", "sequences at once (default 1)", 1, 64),                    \
        NUM(0, "adapters", COUNT, compile.adapters, "N", "leave room for N adapters of --lora (dopplerc)", 1, 64),     \
        NUM(0, "rank", COUNT, compile.rank, "R", "with --adapters: their largest rank (dopplerc)", 1, 512),            \
        NUM(0, "ctx-total", COUNT, compile.ctx_total, "N", "cache positions of all sequences together", 1, 1u << 30),  \
        OPT(0, "rows", TEXT, compile.rows, "LIST", "sizes of steps of several sequences (dopplerc)"),                  \
        OPT(0, "kv", TEXT, compile.kv, "TYPE", "storage of the cache: f16 (default), f32, q8_0, q4_0 (dopplerc)"),     \
        OPT(0, "invariant", FLAG, compile.invariant, NULL, "the same bits for a row in every batch (dopplerc)"),       \
        OPT(0, "act", TEXT, compile.act, "TYPE", "storage of activations: f32 (default) or f16", .values = "f16 f32"), \
        OPT(0, "kernel-path", TEXT, compile.kernel_path, "NAME|FILE", "which kernel each op uses (dopplerc)"),         \
        OPT(0, "tuning", TEXT, compile.tuning, "FILE", "use what dopplerc --tune has measured"),                       \
        OPT(0, "force", LIST, force, "OP=VARIANT", "choose a kernel; repeatable (dopplerc)"),                          \
        OPT(0, "avoid", LIST, avoid, "VARIANT,...", "do without these kernels; repeatable (dopplerc)"),                \
        OPT(0, "no-fuse", PAIRS, no_fuse, "A+B", "one dispatch per op, or only A and B apart (dopplerc)"),             \
        OPT(0, "skip", LIST, skip, "PASS", "leave a pass out; repeatable (dopplerc)"),                                 \
        OPT(0, "parts", TEXT, compile.parts, "N|LIST|auto", "cut the model into parts, for mpirun (dopplerc)"),        \
        OPT(0, "part-memory", TEXT, compile.part_memory, "LIST", "memory of the parts' devices (dopplerc)"),           \
        OPT(0, "cache-dir", TEXT, cache_dir, "DIR", "keep plans, downloads and compiled pipelines here"),              \
        NUM(0, "cache-limit", COUNT, cache_limit, "MIB",                                                               \
            "what plans in the cache may take; the least recently used are removed (default 65536)", 1, 1u << 30)

#define DOP_CLI_ORDERINGS "auto barriers persistent" /* values of --ordering, in the order of dop_ordering */

typedef dop_status dop_mode_fn(dop_cli *cli, dop_diag *diag);

dop_mode_fn dop_mode_run;                       /* cli_run.c: generation */
dop_mode_fn dop_mode_audio;                     /* cli_audio.c */
dop_mode_fn dop_mode_draw;                      /* cli_draw.c */
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
dop_mode_fn dop_mode_serve;       /* cli_serve.c, or no_server.c */
extern const bool dop_cli_has_server;

/* cli_info.c */
/* Called for the plan of the command line, or for each of its parts: number i of n. plan: NULL if the part's file is
 * on another host. n is 1 for a plan in one part. */
typedef dop_status dop_part_fn(void *user, const struct dop_plan *plan, uint32_t n, uint32_t i, dop_diag *diag);

/* cli_logits.c: raw logits of every fed token, written to a file that is renamed into place when complete. */
typedef struct dop_logits_file {
    dop_out_file out;
    uint32_t vocab;
} dop_logits_file;
dop_logits_fn dop_logits_file_write; /* user: a dop_logits_file */

#endif
