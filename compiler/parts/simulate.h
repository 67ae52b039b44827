/* Predicts the speed of a plan in parts on described devices and links, from stage times measured on one device
 * (stage_times.h).  Nothing is run.
 *
 * The description is a YAML mapping:
 *
 *   link: {latency_us: 3, bandwidth: 5e9}   # of every cut, bandwidth in bytes/s; or a list, one for each cut
 *   device: {stage_times: h200.yaml}        # of every part; or a list, one for each part
 *   sequences: 32                           # default 32, but not more than the model is compiled for
 *   groups: 2                               # groups of sequences in flight; default: as in the runtime
 *   prompt: 2048                            # tokens; default 2048
 *
 * A link may also have `overlaps: false`: the part after it receives only while it runs no step.
 *
 * A device has `stage_times`, a file or a list of files, relative to the folder of the description.  `memory_speed` and
 * `product_speed` are its speeds relative to the measured device in steps of up to 64 rows and in larger steps (default 1).
 * A device without stage_times has rates: `bandwidth` in bytes/s and `flops` in operations/s.  A dispatch then takes the
 * longer of the two times.  Further fields: `stage_us`, fixed cost of a dispatch (default: the target's); `step_us`, time of
 * the host to submit a step and to detect its end (default 40); `memory` in bytes (default: not stated). */
#ifndef DOPPLER_COMPILER_PARTS_SIMULATE_H
#define DOPPLER_COMPILER_PARTS_SIMULATE_H

#include "compiler/parts/pipeline.h"
#include "compiler/parts/stage_times.h"
#include "compiler/schedule/compilation.h"

typedef struct dop_sim_link {
    double latency_us, bandwidth; /* latency in microseconds; bandwidth in bytes/s */
    bool overlaps;
} dop_sim_link;

typedef struct dop_sim_device {
    dop_stage_times times; /* measured stage times; times.n == 0: bandwidth and flops are used instead */
    double memory_speed, product_speed;
    double bandwidth, flops;  /* bytes/s and operations/s */
    double stage_us, step_us; /* fixed cost of a dispatch and of a step in microseconds; stage_us < 0: the target's */
    double memory;            /* bytes of memory; 0: not stated */
} dop_sim_device;

typedef struct dop_sim_setup {
    uint32_t n_links, n_devices; /* entries in links[] and devices[]; 1: one entry for all */
    dop_sim_link links[DOP_MAX_PARTS];
    dop_sim_device *devices;            /* owned array [DOP_MAX_PARTS] */
    uint32_t sequences, groups, prompt; /* in-flight groups 0: the runtime's default; prompt in tokens */
} dop_sim_setup;

dop_status dop_sim_load(const char *path, dop_diag *diag, dop_sim_setup *out_setup);
void dop_sim_setup_finish(dop_sim_setup *s); /* accepts a zeroed setup */

enum { DOP_SIM_CHUNKS = 8 }; /* maximum number of different chunks in a prompt */

/* Predicted times of a step of one size, in microseconds. */
typedef struct dop_sim_step {
    uint32_t rows;                 /* rows of the step; 0: the plan has no schedule of this kind */
    double part_us[DOP_MAX_PARTS]; /* time of each part, including its host */
    double body_us[DOP_MAX_PARTS]; /* part_us of a chunk that is not the last of its prompt: without logits */
    double hop_us[DOP_MAX_PARTS];  /* transfer over the cut after each part */
    uint64_t hop_bytes[DOP_MAX_PARTS];
} dop_sim_step;

typedef struct dop_sim_result {
    uint32_t n_parts; /* number of parts; 1: the whole model on the first device */
    uint64_t weights[DOP_MAX_PARTS], memory[DOP_MAX_PARTS]; /* bytes of weights and total bytes of each part */
    uint32_t first_layer[DOP_MAX_PARTS], end_layer[DOP_MAX_PARTS];
    const char *target[DOP_MAX_PARTS];
    bool fits[DOP_MAX_PARTS], all_fit;
    dop_sim_step decode, many, chunks[DOP_SIM_CHUNKS];
    uint32_t n_chunks; /* length of chunks[] and repeats[]; equal chunks in a row share one item */
    uint32_t repeats[DOP_SIM_CHUNKS];
    double decode_us;           /* time per token of a single sequence */
    uint32_t sequences, groups; /* sequences 0: the plan supports one sequence only */
    double many_us;             /* time per token of each of the sequences */
    uint32_t prompt;
    double prompt_us;
    double idle;        /* idle fraction of the parts' time while the prompt runs */
    uint32_t n_guessed; /* dispatches of kinds that were not measured */
} dop_sim_result;

/* Predicts the times of a plan. parts[n] comes from dop_parts_make(); with n == 1 it is the compilation of the whole
 * model. */
dop_status dop_simulate(const dop_sim_setup *setup, const char *path, const dop_compilation *parts, uint32_t n,
                        dop_diag *diag, dop_sim_result *out_result);

/* simulate_print.c: prints the predictions for the parts and for the whole model on one device.  The JSON is one object:
 *   format       "doppler-prediction 1"
 *   predicted    true
 *   model        name
 *   measured     [{device, model, weights}], the sources of the stage times; empty: rates were stated
 *   parts, one   {decode_tps, sequences, groups, sequences_tps, prompt, prompt_tps, fits, not_measured (dispatches),
 *                parts [{layers [first, last], target, weights, memory (bytes), fits, decode_us, sequences_us,
 *                chunks_us [..], hop_bytes, hop_us, sequences_hop_us, chunks_hop_us [..]}]} */
void dop_sim_text(const dop_sim_setup *setup, const dop_compilation *whole, const dop_sim_result *parts,
                  const dop_sim_result *one, dop_buf *out);
dop_status dop_sim_json(const dop_sim_setup *setup, const dop_compilation *whole, const dop_sim_result *parts,
                        const dop_sim_result *one, dop_diag *diag, dop_buf *out);

#endif
