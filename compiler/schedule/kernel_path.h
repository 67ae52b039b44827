/* Kernel paths: rules that override decisions of the compiler: the variant and tile of each op per phase and layer, storage types, and
 * fusion.  --kernel-path, --tuning, --force and --no-fuse all add rules of this kind.
 *
 * A YAML file (examples/kernel-paths has the files that --kernel-path finds by name):
 *
 *   name: f16-mine-f32a                default: the name asked for, or the file's own name
 *   about: one line for people
 *   families: [gemma3, llama]          in NAME.yaml: gemma3-NAME and llama-NAME, names used by manifests, are aliases of the file
 *   forms: [online]                    in NAME.yaml: NAME-online is an alias of the file, with or without a family
 *   activation: f32                    f32 or f16; --act overrides it
 *   kv: f16                            f16 or f32; --kv overrides it
 *   weights: f16                       as --quant, which overrides it
 *   fuse: on                           off: one dispatch per op
 *   int_dot: allow                     prefer: round activations to 8 bits and multiply in integers wherever there is a
 *                                      kernel for it; off: nowhere; default: the target's setting
 *   measured: {device: NVIDIA L40S, driver: NVIDIA 580.159.04, kernels: 0123456789abcdef}
 *                                      conditions of the measurement (dopplerc --tune).  If the device, the driver or the
 *                                      kernel templates differ here, all rules are ignored; otherwise each rule applies
 *                                      wherever it is legal
 *   rules:                             later rules override earlier ones
 *     - phase: decode                  decode, prefill (with score) or both (default)
 *       layers: 0-17                   N, N-M, or a list of those; default: everywhere
 *       op: qkv                        a template (gemv), a label (L0/qkv) or its last part (qkv, attn, o, ffn_up,
 *                                      ffn_down, head) or an op (matmul); default: everything
 *       template: gemv                 a template, in addition to op; default: any
 *       step: 16                       rows of the schedule's steps; default: any
 *       variant: gemv_subgroup         a row of kernels.def
 *       wg: 256                        this and other fields of a tile (ir/tile.def) override the variant's choice; with
 *                                      `variant`, only for regions that get this variant
 *       fuse: off                      do not fuse these regions with any other; with op: A+B, do not fuse B with the A
 *                                      that it reads; on, with op: A+B: fuse the two wherever possible, even where the
 *                                      compiler expects a slower step
 *       weights: dequant               prefill only: a dispatch of its own decodes quantized matrices to f16 for matmuls
 *                                      of several tokens; dequant_f32: to f32; fused (default): decoded in the matmul
 *
 * A kernel path may also be the manifest.json of an RDRR directory: its storage types, and its kernels that have a counterpart here.
 * A rule that applies nowhere is an error that names the possible choices and the missing capability.  A tile that its kernel does not
 * support is an error, too.  So is a rule without effect: fuse: off for regions that would not be fused anyway, fuse: on for a pair
 * that stays in two dispatches (or for one op that no rule kept apart), and a rule that later rules of its file always override.
 * Files with `measured` and files for --tuning are exempt from these errors. */
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
    const char *source; /* origin for messages, as "`forces` qkv=gemv" or "file.yaml:7" */
    bool decode, prefill;
    uint32_t n_layers; /* number of ranges; 0: everywhere, including outside of layers */
    dop_layer_range layers[DOP_MAX_RANGES];
    const char *op;                 /* template, label, role or op of the regions; NULL: any */
    const char *reader;             /* the B of a rule that separates or joins a pair A+B (op is A); NULL: no pair */
    dop_template tpl;               /* template of the regions; none: any */
    uint32_t step;                  /* rows of the schedule's steps; 0: any */
    dop_variant_id variant;         /* variant for the regions; none: not stated */
    uint32_t tile[DOP_TILE_FIELDS]; /* values of tile fields, by field number */
    uint32_t fields;                /* bit set of the tile fields that the rule states */
    bool unfused, fused;            /* `fuse: off` and `fuse: on`; at most one is true */
    bool expands;                   /* the rule says whether weights are expanded before the matmul */
    dop_type expand;                /* type that weights are expanded to (f16 or f32); none: not expanded */
    bool forced;                    /* from the command line: an unknown name is a usage error */
    bool hint;                      /* measured, or from a manifest for another engine: followed only where legal */
    bool gpu;                       /* made for GPUs: ignored for software devices */
    uint32_t met;                   /* number of regions that the rule applies to, before or after fusion */
    uint32_t used;                  /* number of regions for which the rule chose a variant */
    uint32_t expanded;              /* number of matmuls for which the rule decided about expansion */
    uint32_t won;                   /* number of regions in `used` where no later rule chose another variant */
    uint32_t by;                    /* number of a later rule that chose another variant, from 1; 0: none */
    uint32_t undone;                /* number of matmuls that an earlier rule expands and this rule does not */
    uint32_t had, kept;     /* bit sets of `fields`: supported by some region's variant; decisive in some region */
    dop_variant_id lacks;   /* variant of a matching region that lacks some of `fields` */
    uint32_t outdone;       /* number of a later rule that overrides a field, from 1; 0: none */
    bool skipped;           /* the rule is a hint that is illegal for some region */
    bool changed;           /* for rules with `fuse`: the regions would be different without the rule */
    uint32_t edges, joined; /* for pairs A+B: places where B reads A's output; places where both share a region */
    dop_reason apart;       /* for pairs A+B: most informative reason why the two are not joined */
    const char *why_not;    /* why the variant does not fit the last matching region; NULL: it fits */
    char possible[256];     /* names of the variants that fit the matching regions, for messages */
} dop_path_rule;

/* Conditions of a measurement. Measured rules are valid only under equal conditions. */
typedef struct dop_measured {
    const char *device, *driver, *kernels; /* name of the device, name of the driver, digest of the kernel templates */
} dop_measured;

typedef struct dop_kernel_path {
    const char *name; /* name of the path; NULL: no kernel path */
    dop_type act, kv; /* storage types of activations and caches; none: not stated */
    const char *weights;
    const char *int_dot; /* a word that dop_int_dot_parse() accepts; NULL: not stated */
    bool unfused;
    dop_measured measured; /* conditions of the measurement; device NULL: not stated */
    uint32_t n_layers;     /* number of layers of the model */
    uint32_t n_skipped;    /* number of hints that are illegal for some region; such regions ignore them */
    const char *skipped;   /* location and reason of the first illegal hint; NULL: none */
    uint32_t muted;        /* number of a rule that is temporarily ignored, from 1; 0: none */
    uint32_t n_rules, cap_rules;
    dop_path_rule *rules; /* rules in order; allocated in the arena */
} dop_kernel_path;

/* Loads a kernel path. spec: a name, or a file (with a slash, or ending in .yaml or .json). glsl_dir: folder of the
 * templates; the named paths are next to it. n_layers: number of layers of the model. Errors list the known names. */
dop_status dop_kernel_path_load(const char *spec, const char *glsl_dir, uint32_t n_layers, dop_arena *arena,
                                dop_diag *diag, dop_kernel_path *out);
/* Makes the kernel path that the model's own manifest states; out->name is NULL if there is none. Single dispatches
 * become hints. A name is loaded as by dop_kernel_path_load(), and forceKernels become ordinary rules. */
dop_status dop_kernel_path_of_model(const dop_checkpoint *m, const char *glsl_dir, dop_arena *arena, dop_diag *diag,
                                    dop_kernel_path *out);
/* Loads the file of --tuning, which may contain only rules and the conditions of their measurement. */
dop_status dop_kernel_path_tuning(const char *path, uint32_t n_layers, dop_arena *arena, dop_diag *diag,
                                  dop_kernel_path *out);
/* Puts the rules of `first` before those of p. */
dop_status dop_kernel_path_prepend(dop_kernel_path *p, const dop_kernel_path *first, dop_arena *arena, dop_diag *diag);
/* Returns a digest of the texts of all kernel templates. */
uint64_t dop_templates_digest(const dop_templates *templates);
/* Returns the conditions of a measurement on this device with these templates, to compare with
 * dop_kernel_path.measured. */
dop_status dop_measured_here(const dop_device_caps *device, const dop_templates *templates, dop_arena *arena,
                             dop_diag *diag, dop_measured *out);
/* Returns text that says why measured rules are not valid here: another device, driver or kernels. Returns NULL if they
 * are valid or the path states no conditions. */
const char *dop_kernel_path_stale(const dop_kernel_path *p, const dop_measured *here);
/* Adds the rule of --force OP=VARIANT after all other rules. */
dop_status dop_kernel_path_force(dop_kernel_path *p, const char *op, const char *variant, dop_arena *arena,
                                 dop_diag *diag);

/* Fails with `code` because no kernel has this name, and lists the known names. source: origin of the name. */
dop_status dop_unknown_variant(const char *source, const char *name, dop_status code, dop_diag *diag);

/* Adds the rule of --no-fuse A+B. */
dop_status dop_kernel_path_no_fuse(dop_kernel_path *p, const char *pair, dop_arena *arena, dop_diag *diag);

/* True if the path disables all fusion in this phase. */
bool dop_kernel_path_unfused(const dop_kernel_path *p, dop_phase phase);
/* has_apart: true if the path keeps some regions of this phase apart. apart: true if its rules keep these two regions
 * apart. */
bool dop_kernel_path_has_apart(const dop_kernel_path *p, dop_phase phase);
bool dop_kernel_path_apart(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a,
                           const dop_region *b);
/* True if a rule joins this pair of regions, even where the compiler expects a slower step. */
bool dop_kernel_path_joins(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a,
                           const dop_region *b);
/* has_expand: true if the path expands weights in this phase. expand: returns the type that this matmul's weights are
 * expanded to (none: not expanded). */
bool dop_kernel_path_has_expand(const dop_kernel_path *p, dop_phase phase);
dop_type dop_kernel_path_expand(dop_kernel_path *p, dop_phase phase, const dop_graph *g, dop_node_id matmul);
/* True if rule i is about fusion in this phase and no schedule has shown yet that it changes the regions. */
bool dop_kernel_path_to_judge(const dop_kernel_path *p, uint32_t i, dop_phase phase);
/* Counts, for a pair rule A+B, the edges where B reads A, and the edges within one region. Keeps the most informative
 * reason why the others were not joined. log: the log of the passes that formed the regions of g. */
void dop_path_rule_look(dop_path_rule *rule, const dop_graph *g, const dop_fusion_log *log);
/* True if the rule joins a pair in this phase. */
bool dop_path_rule_joins(const dop_path_rule *rule, dop_phase phase);
/* Sets *out_variant to the variant that rules choose for a region, or NULL. Fails if the target lacks a feature that
 * the variant needs. */
dop_status dop_kernel_path_choose(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r,
                                  const dop_target *t, dop_diag *diag, const char **out_variant);
/* Sets the fields of the region's tile that rules state and its variant has. Illegal hints are skipped. Fails if the
 * tile that the remaining rules make is illegal. */
dop_status dop_kernel_path_tile(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r,
                                const dop_target *t, dop_diag *diag, dop_selection *choice);
/* Fails if a rule had no effect in any schedule: it matched no region; its variant, fields or expansion were never
 * used; or it did not change fusion. Called after all schedules are built. */
dop_status dop_kernel_path_check(dop_kernel_path *p, dop_arena *arena, dop_diag *diag);

#endif
