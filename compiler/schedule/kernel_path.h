/* Kernel paths: overrides of what the compiler decides.  Which variant and tile each op uses per phase and layer, with which storage
 * types, fused or not.  --kernel-path, --tuning, --force and --no-fuse all make rules of this one kind.
 *
 * A YAML file (examples/kernel-paths has those that --kernel-path knows by name):
 *
 *   name: f16-mine-f32a                what was asked for, or the file's own name, when absent
 *   about: one line for people
 *   families: [gemma3, llama]          of NAME.yaml: gemma3-NAME and llama-NAME, names that manifests use, are this file too
 *   activation: f32                    f32 or f16; --act wins
 *   kv: f16                            f16 or f32; --kv wins
 *   weights: f16                       as --quant, which wins
 *   fuse: on                           off: one dispatch per op
 *   int_dot: allow                     prefer: round activations to 8 bits and multiply in integers wherever there is a
 *                                      kernel for it; off: nowhere; absent: what the target says
 *   measured: {device: NVIDIA L40S, driver: NVIDIA 580.159.04, kernels: 0123456789abcdef}
 *                                      what the rules were measured with (dopplerc --tune).  Where device, driver or text of the
 *                                      kernel templates differ, the rules are left out; where they do not, each is followed
 *                                      wherever it can be
 *   rules:                             later rules win over earlier ones
 *     - phase: decode                  decode, prefill (with score) or both, which is also the default
 *       layers: 0-17                   N, N-M, or a list of those; absent: everywhere
 *       op: qkv                        a template (gemv), a label (L0/qkv) or its last part (qkv, attn, o, ffn_up,
 *                                      ffn_down, head) or an op (matmul); absent: everything
 *       template: gemv                 a template, in addition to op; absent: any
 *       step: 16                       rows of the schedule's steps; absent: any
 *       variant: gemv_subgroup         a row of kernels.def
 *       wg: 256                        and other fields of a tile (ir/tile.def), instead of what the variant would choose
 *       fuse: off                      leave these regions apart from all others; with op: A+B only what is named B from the A
 *                                      that it reads; on, with op: A+B: join these two where it can be done, also where the
 *                                      compiler would not because it expects the step to take longer
 *       weights: dequant               prefill only: quantized matrices become f16 in a dispatch of their own, which the
 *                                      matmul of several tokens then reads; dequant_f32: f32; fused: decoded where they
 *                                      are multiplied, the default
 *
 * Or the manifest.json of an RDRR directory: its storage types, and those of its kernels that have a counterpart here.
 * Except in a file with `measured` and in one for --tuning, a rule that cannot be followed anywhere is an error that says what
 * is possible there and what is missing.  So is one that changes nothing: fuse: off for what is not joined without it either,
 * fuse: on for a pair that ends in two dispatches (or for one op that nothing kept apart), and one that later rules of its file
 * outvote wherever it applies. */
#ifndef DOPPLER_COMPILER_SCHEDULE_KERNEL_PATH_H
#define DOPPLER_COMPILER_SCHEDULE_KERNEL_PATH_H

#include "compiler/build/build.h"
#include "kernels/kernel.h"
#include "passes/reasons.h"

typedef struct dop_layer_range {
    uint32_t first, last;
} dop_layer_range;

enum { DOP_MAX_RANGES = 16 };

typedef struct dop_path_rule {
    const char *source; /* "--force qkv=gemv", "file.yaml:7", for messages */
    bool decode, prefill;
    uint32_t n_layers; /* 0: everywhere, also outside of layers */
    dop_layer_range layers[DOP_MAX_RANGES];
    const char *op;     /* NULL: everything */
    const char *reader; /* of op: the rule is about this pair only, which it keeps apart or joins; NULL: it is not */
    dop_template tpl;   /* none: any */
    uint32_t step;      /* rows; 0: any */
    dop_variant_id variant;         /* none: not stated */
    uint32_t tile[DOP_TILE_FIELDS]; /* 0: not stated */
    bool tiles;                     /* states some field of it */
    bool unfused, fused;            /* at most one */
    bool expands;                   /* says how weights are read: */
    dop_type expand;                /* expanded to f16 or f32, none: as they are */
    bool forced;                    /* from the command line, where an unknown name is wrong usage */
    bool hint;                      /* measured, or from a manifest made for another engine: followed where possible */
    bool gpu;                       /* made for GPUs: no rule for a software device */
    uint32_t met;                   /* regions that it applies to, before or after fusion */
    uint32_t used;                  /* regions that it chose a variant for */
    uint32_t expanded;              /* matmuls whose weights it decided about */
    uint32_t won;                   /* of `used`: regions for which no later rule chose another variant */
    uint32_t by;                    /* number of a later rule that chose instead of it, from 1; 0: none */
    uint32_t undone;        /* matmuls whose weights it keeps as they are although an earlier rule expands them */
    bool changed;           /* fuse: regions would be others without it */
    uint32_t edges, joined; /* A+B: where B reads what A makes; how often both are in one region */
    dop_reason apart;       /* A+B: the most telling reason why two are not joined */
    const char *why_not;    /* why its variant could not be used at the last such region; NULL: there was none */
    char possible[256];     /* variants that regions with its op could have had */
} dop_path_rule;

/* What measurements depend on. */
typedef struct dop_measured {
    const char *device, *driver, *kernels; /* the last: a digest */
} dop_measured;

typedef struct dop_kernel_path {
    const char *name; /* NULL: none */
    dop_type act, kv; /* none: not stated */
    const char *weights;
    const char *int_dot; /* of dop_int_dot_parse(); NULL: not stated */
    bool unfused;
    dop_measured measured; /* device NULL: the file does not say */
    uint32_t n_layers;     /* of the model */
    uint32_t muted;        /* number of a rule that is left out for now, from 1; 0: none */
    uint32_t n_rules, cap_rules;
    dop_path_rule *rules; /* in the arena */
} dop_kernel_path;

/* spec: a name, or a file (with a slash, or ending in .yaml or .json).  glsl_dir: where the templates were found, beside
 * which the known paths lie.  n_layers: of the model.  Errors list the known names. */
dop_status dop_kernel_path_load(const char *spec, const char *glsl_dir, uint32_t n_layers, dop_arena *arena,
                                dop_diag *diag, dop_kernel_path *out);
/* The path that the model itself states, as hints; out->name is NULL when it states none. */
dop_status dop_kernel_path_of_model(const dop_checkpoint *m, dop_arena *arena, dop_diag *diag, dop_kernel_path *out);
/* --tuning: a file of rules and what they were measured with, and nothing else. */
dop_status dop_kernel_path_tuning(const char *path, uint32_t n_layers, dop_arena *arena, dop_diag *diag,
                                  dop_kernel_path *out);
/* Puts the rules of `first` before those of p. */
dop_status dop_kernel_path_prepend(dop_kernel_path *p, const dop_kernel_path *first, dop_arena *arena, dop_diag *diag);
/* Of the texts of all kernel templates. */
uint64_t dop_templates_digest(const dop_templates *templates);
/* What a measurement here, now, would be made with. */
dop_status dop_measured_here(const dop_device_caps *device, const dop_templates *templates, dop_arena *arena,
                             dop_diag *diag, dop_measured *out);
/* NULL: the path was measured here, or does not say where.  Else what differs, as text. */
const char *dop_kernel_path_stale(const dop_kernel_path *p, const dop_measured *here);
/* --force OP=VARIANT, after all rules. */
dop_status dop_kernel_path_force(dop_kernel_path *p, const char *op, const char *variant, dop_arena *arena,
                                 dop_diag *diag);

/* --no-fuse A+B. */
dop_status dop_kernel_path_no_fuse(dop_kernel_path *p, const char *pair, dop_arena *arena, dop_diag *diag);

/* Is everything of this phase unfused? */
bool dop_kernel_path_unfused(const dop_kernel_path *p, dop_phase phase);
/* Does the path have rules that keep some regions of this phase apart?  And do they apply to these two? */
bool dop_kernel_path_has_apart(const dop_kernel_path *p, dop_phase phase);
bool dop_kernel_path_apart(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a,
                           const dop_region *b);
/* Does a rule ask to join this pair whatever the compiler expects that to cost? */
bool dop_kernel_path_joins(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a,
                           const dop_region *b);
/* Does the path have rules that expand weights in this phase?  To which type at this matmul (none: not expanded)? */
bool dop_kernel_path_has_expand(const dop_kernel_path *p, dop_phase phase);
dop_type dop_kernel_path_expand(dop_kernel_path *p, dop_phase phase, const dop_graph *g, dop_node_id matmul);
/* Has rule i (fuse, in this phase) still to show that it changes something: that regions would be others without it? */
bool dop_kernel_path_to_judge(const dop_kernel_path *p, uint32_t i, dop_phase phase);
/* Counts, for a rule about a pair, where the two are neighbours and where they share a region, and why not; the log is of the
 * passes that formed these regions. */
void dop_path_rule_look(dop_path_rule *rule, const dop_graph *g, const dop_fusion_log *log);
/* Rules of this phase that ask for a pair to be joined. */
bool dop_path_rule_joins(const dop_path_rule *rule, dop_phase phase);
/* The variant asked for at a region (NULL: none), checked against the target. */
dop_status dop_kernel_path_choose(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r,
                                  const dop_target *t, dop_diag *diag, const char **out_variant);
/* Sets the fields of the region's tile that rules state. */
void dop_kernel_path_tile(const dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r,
                          dop_tile *tile);
/* After all schedules: fails for a rule that applied to no region, or whose variant or expansion was used nowhere, and for one
 * that changed nothing: a pair that is kept apart but would not be joined, or is to be joined and is not. */
dop_status dop_kernel_path_check(const dop_kernel_path *p, dop_diag *diag);

#endif
