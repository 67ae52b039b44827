/* Kernel paths: overrides of what the compiler decides.  Which variant and tile each op uses per phase and layer, with which storage
 * types, fused or not.  --kernel-path, --tuning, --force and --no-fuse all make rules of this one kind.
 *
 * A YAML file (examples/kernel-paths has those that --kernel-path knows by name):
 *
 *   name: f16-mine-f32a                what was asked for, or the file's own name, when absent
 *   about: one line for people
 *   families: [gemma3, llama]          of NAME.yaml: gemma3-NAME and llama-NAME, names that manifests use, are this file too
 *   forms: [online]                    of NAME.yaml: NAME-online is this file too, also after a family
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
 *       wg: 256                        and other fields of a tile (ir/tile.def), instead of what the variant would choose;
 *                                      with `variant`, for regions that get that one only
 *       fuse: off                      leave these regions apart from all others; with op: A+B only what is named B from the A
 *                                      that it reads; on, with op: A+B: join these two where it can be done, also where the
 *                                      compiler would not because it expects the step to take longer
 *       weights: dequant               prefill only: quantized matrices become f16 in a dispatch of their own, which the
 *                                      matmul of several tokens then reads; dequant_f32: f32; fused: decoded where they
 *                                      are multiplied, the default
 *
 * Or the manifest.json of an RDRR directory: its storage types, and those of its kernels that have a counterpart here.
 * Except in a file with `measured` and in one for --tuning, a rule that cannot be followed anywhere is an error that says what
 * is possible there and what is missing, and so is a tile that its kernel cannot have.  So is one that changes nothing: fuse: off
 * for what is not joined without it either, fuse: on for a pair that ends in two dispatches (or for one op that nothing kept
 * apart), and one that later rules of its file outvote wherever it applies. */
#ifndef DOPPLER_COMPILER_SCHEDULE_KERNEL_PATH_H
#define DOPPLER_COMPILER_SCHEDULE_KERNEL_PATH_H

#include "frontend/build/build.h"
#include "kernels/kernel.h"
#include "passes/fusion/reasons.h"

typedef struct dop_layer_range {
    uint32_t first, last;
} dop_layer_range;

enum { DOP_MAX_RANGES = 16 };

typedef struct dop_path_rule {
    const char *source; /* "`forces` qkv=gemv", "file.yaml:7", for messages */
    bool decode, prefill;
    uint32_t n_layers; /* number of ranges; 0: everywhere, also outside of layers */
    dop_layer_range layers[DOP_MAX_RANGES];
    const char *op;                 /* template, label, role or op that regions must have; NULL: everything */
    const char *reader;             /* B of a rule that keeps a pair A+B apart or joins it (A is op); NULL: no pair */
    dop_template tpl;               /* the template that regions must have; none: any */
    uint32_t step;                  /* rows of the schedule's steps; 0: any */
    dop_variant_id variant;         /* the variant that regions get; none: not stated */
    uint32_t tile[DOP_TILE_FIELDS]; /* fields of the tile that regions get */
    uint32_t fields;                /* those that the rule states, as bits by number */
    bool unfused, fused;            /* `fuse: off` and `fuse: on`; at most one of the two */
    bool expands;                   /* the rule says whether weights are expanded before they are multiplied */
    dop_type expand;                /* f16 or f32: the type that weights are expanded to; none: they are not */
    bool forced;                    /* from the command line, where an unknown name is wrong usage */
    bool hint;                      /* measured, or from a manifest made for another engine: followed where possible */
    bool gpu;                       /* made for GPUs: no rule for a software device */
    uint32_t met;                   /* regions that the rule applies to, before or after fusion */
    uint32_t used;                  /* regions that the rule chose a variant for */
    uint32_t expanded;              /* matmuls for which the rule said whether weights are expanded */
    uint32_t won;                   /* regions of `used` for which no later rule chose another variant */
    uint32_t by;                    /* number of a later rule that chose another variant instead, from 1; 0: none */
    uint32_t undone;                /* matmuls whose weights this rule does not expand although an earlier rule does */
    uint32_t had, kept;     /* those of `fields` that some region's variant has; those that no later rule states */
    dop_variant_id lacks;   /* a variant without some of `fields`, of a region that the rule is about */
    uint32_t outdone;       /* number of a later rule that states a field instead, from 1; 0: none */
    bool skipped;           /* a hint that is illegal for some region */
    bool changed;           /* for a rule with `fuse`: regions would be others without the rule */
    uint32_t edges, joined; /* for a pair A+B: places where B reads what A makes; those where both are in one region */
    dop_reason apart;       /* for a pair A+B: the most telling reason why the two are not joined */
    const char *why_not;    /* why the variant does not fit the last region that the rule applied to; NULL: it fits */
    char possible[256];     /* names of the variants that fit regions to which the rule applied, for messages */
} dop_path_rule;

/* What measured rules were measured with; they hold for nothing else. */
typedef struct dop_measured {
    const char *device, *driver, *kernels; /* names of device and driver; digest of the kernel templates */
} dop_measured;

typedef struct dop_kernel_path {
    const char *name; /* name of the path; NULL: there is no path */
    dop_type act, kv; /* storage of activations and caches; none: not stated */
    const char *weights;
    const char *int_dot; /* a word that dop_int_dot_parse() knows; NULL: not stated */
    bool unfused;
    dop_measured measured; /* what the rules were measured with; device NULL: the file does not say */
    uint32_t n_layers;     /* layers of the model */
    uint32_t n_skipped;    /* hints that are illegal for some region, which is left as it is without them */
    const char *skipped;   /* the first of them: where it is, the rule that it breaks, and for what; NULL: none */
    uint32_t muted;        /* number of a rule that is left out for now, from 1; 0: none */
    uint32_t n_rules, cap_rules;
    dop_path_rule *rules; /* in the arena */
} dop_kernel_path;

/* Loads a kernel path.  spec: a name, or a file (with a slash, or ending in .yaml or .json).  glsl_dir: where the templates were
 * found, beside which the known paths lie.  n_layers: of the model.  Errors list the known names. */
dop_status dop_kernel_path_load(const char *spec, const char *glsl_dir, uint32_t n_layers, dop_arena *arena,
                                dop_diag *diag, dop_kernel_path *out);
/* Makes the kernel path that the model's own manifest states; out->name is NULL if there is none.  Dispatches one by one are hints.  A
 * name is loaded as by dop_kernel_path_load(), and forceKernels are rules like any others. */
dop_status dop_kernel_path_of_model(const dop_checkpoint *m, const char *glsl_dir, dop_arena *arena, dop_diag *diag,
                                    dop_kernel_path *out);
/* Loads the file of --tuning, which has rules and what they were measured with, and nothing else. */
dop_status dop_kernel_path_tuning(const char *path, uint32_t n_layers, dop_arena *arena, dop_diag *diag,
                                  dop_kernel_path *out);
/* Puts the rules of `first` before those of p. */
dop_status dop_kernel_path_prepend(dop_kernel_path *p, const dop_kernel_path *first, dop_arena *arena, dop_diag *diag);
/* A digest of the texts of all kernel templates. */
uint64_t dop_templates_digest(const dop_templates *templates);
/* What a measurement on this device with these templates would be made with, to compare with dop_kernel_path.measured. */
dop_status dop_measured_here(const dop_device_caps *device, const dop_templates *templates, dop_arena *arena,
                             dop_diag *diag, dop_measured *out);
/* Why measured rules do not hold here: which of device, driver and kernels differs, as text.  NULL: none differs, or the path does
 * not say where it was measured. */
const char *dop_kernel_path_stale(const dop_kernel_path *p, const dop_measured *here);
/* Adds the rule of --force OP=VARIANT behind all other rules. */
dop_status dop_kernel_path_force(dop_kernel_path *p, const char *op, const char *variant, dop_arena *arena,
                                 dop_diag *diag);

/* Fails with `code`: there is no kernel of this name, and those that there are.  source: who names it. */
dop_status dop_unknown_variant(const char *source, const char *name, dop_status code, dop_diag *diag);

/* Adds the rule of --no-fuse A+B. */
dop_status dop_kernel_path_no_fuse(dop_kernel_path *p, const char *pair, dop_arena *arena, dop_diag *diag);

/* Is everything of this phase unfused? */
bool dop_kernel_path_unfused(const dop_kernel_path *p, dop_phase phase);
/* has_apart: does the path have rules that keep some regions of this phase apart?  apart: do its rules keep these two regions apart? */
bool dop_kernel_path_has_apart(const dop_kernel_path *p, dop_phase phase);
bool dop_kernel_path_apart(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a,
                           const dop_region *b);
/* Does a rule ask to join this pair of regions, even where the compiler expects the step to take longer with them joined? */
bool dop_kernel_path_joins(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a,
                           const dop_region *b);
/* has_expand: does the path have rules that expand weights in this phase?  expand: the type that the weights of this matmul are
 * expanded to (none: they are not). */
bool dop_kernel_path_has_expand(const dop_kernel_path *p, dop_phase phase);
dop_type dop_kernel_path_expand(dop_kernel_path *p, dop_phase phase, const dop_graph *g, dop_node_id matmul);
/* Is rule i one about fusion in this phase, of which no schedule has shown so far that regions would be others without it? */
bool dop_kernel_path_to_judge(const dop_kernel_path *p, uint32_t i, dop_phase phase);
/* Counts, for a rule about a pair A+B, the edges where B reads A and those whose ends share a region, and keeps the most telling
 * reason against joining the others.  log: of the passes that formed the regions of g. */
void dop_path_rule_look(dop_path_rule *rule, const dop_graph *g, const dop_fusion_log *log);
/* Is this a rule of the phase that asks for a pair to be joined? */
bool dop_path_rule_joins(const dop_path_rule *rule, dop_phase phase);
/* The variant that rules ask for at a region (NULL: none).  Errors: the target lacks what the variant needs. */
dop_status dop_kernel_path_choose(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r,
                                  const dop_target *t, dop_diag *diag, const char **out_variant);
/* Sets the fields of the region's tile that rules state, as far as its variant has them.  Hints that are illegal are left out.  Errors:
 * the tile that all other rules make together is illegal. */
dop_status dop_kernel_path_tile(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r,
                                const dop_target *t, dop_diag *diag, dop_selection *choice);
/* After all schedules: fails for a rule that applied to no region, or whose variant, fields or expansion were used nowhere, and for
 * one that changed nothing: a pair that is kept apart but would not be joined, or is to be joined and is not. */
dop_status dop_kernel_path_check(dop_kernel_path *p, dop_arena *arena, dop_diag *diag);

#endif
