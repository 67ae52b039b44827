/* Interface of the kernels module: selects a variant and tile for a region, generates its GLSL, and compiles it to
 * SPIR-V. */
#ifndef DOPPLER_KERNELS_KERNEL_H
#define DOPPLER_KERNELS_KERNEL_H

#include "kernels/emit/emit.h"

/* The GLSL template files, loaded once per compilation. */
typedef struct dop_templates {
    char dir[1024];
    uint32_t n;
    struct {
        char name[64];
        char *text;
    } files[64];
    void
        *glsl_compiler; /* caches glslang's parsed built-ins, which take longer to parse than most kernels to compile */
} dop_templates;

/* Locates and reads the template folder relative to own_path, the path of the executable or library: the installed folder, or
 * "glsl" next to the file. */
dop_status dop_templates_load(const char *own_path, dop_templates *out, dop_diag *diag);
void dop_templates_finish(dop_templates *t);
const char *dop_templates_get(const dop_templates *t, const char *name); /* NULL if no such file */

typedef enum dop_variant_id {
    DOP_VARIANT_none,
#define KERNEL(name, ...) DOP_VARIANT_##name,
#include "kernels/kernels.def"
#undef KERNEL
    DOP_VARIANT_COUNT
} dop_variant_id;

typedef struct dop_descriptor dop_descriptor; /* kernels/descriptor.h */

typedef struct dop_variant {
    const char *name;
    dop_template tpl;
    uint32_t caps; /* required DOP_CAP_* bits */
    const char *when;
    const dop_descriptor *descriptor;
} dop_variant;
const dop_variant *dop_variant_of(dop_variant_id v);
bool dop_variant_parse(const char *name, dop_variant_id *out);

/* The reason why a kernel cannot compute a region on a target. */
typedef struct dop_refusal {
    const char *why;    /* NULL: the kernel can compute it */
    const char *remedy; /* change that would make it possible; NULL: unknown */
} dop_refusal;
/* Checks whether the variant can compute the region on the target if it is forced. Every accepted combination can be
 * generated. */
dop_refusal dop_kernel_fits(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t);

/* The reason why a tile is invalid for a variant. */
typedef struct dop_tile_fault {
    int field;     /* number of the invalid field; DOP_TILE_FIELDS: no single field */
    char why[160]; /* violated rule and bound: "lanes must be a power of two between 1 and 256, not 7"; "": valid */
    const char *remedy; /* change that would make it possible; NULL: choose another tile */
} dop_tile_fault;
/* True if the variant, which must fit the region, computes it correctly with the tile, in code of bounded size. Checked for
 * every tile regardless of its source, also in dop_kernel_generate. */
bool dop_kernel_legal(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t,
                      const dop_tile *tile, dop_tile_fault *out_fault);
/* Returns the set of tile fields that the variant uses, as bits by field number (DOP_TILE_NO_*). */
uint32_t dop_kernel_fields(dop_variant_id v);
/* Updates the dependent tile fields after other fields were changed. */
void dop_kernel_settle(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t, dop_tile *tile);

/* A selected variant and tile, with the rejected variants and reasons for --explain and the report. */
typedef struct dop_selection {
    dop_variant_id variant;
    dop_tile tile;
    const char *source; /* source of a changed tile, for messages: "paths.yaml:3"; NULL: the variant's own tile */
    char why[512];      /* "gemv_subgroup: one token; rejected gemv: ..." */
} dop_selection;

/* Selects the first variant of the region's template that fits and whose `avoid` function does not object. `forced` is a
 * variant name or NULL. Fails if no variant fits, or if the forced one does not (the message lists those that do). */
dop_status dop_kernel_select(const dop_graph *g, const dop_region *r, const dop_target *target, const char *forced,
                             dop_diag *diag, dop_selection *out_choice);

/* Selects the variant and tile for a stage of a persistent dispatch, given `own`, the selection for an ordinary dispatch.
 * Stages have target->persistent invocations per workgroup. Returns NULL on success, otherwise the reason why the region
 * cannot be a stage. */
const char *dop_kernel_select_stage(const dop_graph *g, const dop_region *r, const dop_target *target,
                                    const dop_selection *own, dop_selection *out_choice);

/* For attention, selects the tile of a stage while its cache is short: workgroups that would process splits of a longer cache
 * share a head group instead. Returns the maximum cache length in positions for this tile; 0 if there is no such tile. */
uint32_t dop_kernel_select_short(const dop_graph *g, const dop_region *r, const dop_target *target,
                                 const dop_selection *stage, dop_selection *out_choice);

/* A generated kernel. Strings and args are allocated in the graph's arena. */
typedef struct dop_kernel {
    const char *glsl;
    uint32_t n_args;
    const dop_kernel_arg *args;
    uint32_t grid[3];
    uint32_t local; /* workgroup size in invocations, one-dimensional */
    dop_variant_id variant;
    uint32_t caps;
    uint32_t subgroup; /* required subgroup size; 0: any */
    dop_rounding rounding;
    const char *nest;          /* dump of the nest that the GLSL was printed from; NULL: made from a template */
    uint32_t n_stages;         /* number of stages of a persistent dispatch */
    const char *const *stages; /* [n_stages] GLSL of the stages */
    const char *const *nests;  /* [n_stages] dumps of the stages' nests */
} dop_kernel;

/* Synchronization of a kernel in a plan with persistent dispatches (DOP_ORDER_PERSISTENT of plan/plan_format.h). */
typedef enum dop_sync_kind {
    DOP_SYNC_STAGE,  /* a stage of a persistent dispatch: exchanges values with other stages through mailboxes */
    DOP_SYNC_ADVANCE /* ordered by barriers; as its schedule's last kernel, adds `runs` to the run count in dop_step */
} dop_sync_kind;
typedef struct dop_sync {
    dop_sync_kind kind;
    const uint8_t *routes; /* stages: DOP_MAILBOX and DOP_LEAVES bits by node */
    uint32_t runs; /* increment of the persistent run count, a number of the dispatch: 1 after stages, otherwise 0 */
    bool several;  /* the schedule has multi-row stages, whose persistent runs are counted separately */
} dop_sync;

/* Generates the kernel's GLSL, arguments and grid. `sync` NULL: the kernel is ordered by barriers outside of it. */
dop_status dop_kernel_generate(const dop_templates *t, const dop_graph *g, const dop_region *r,
                               const dop_target *target, const dop_selection *choice, const dop_sync *sync,
                               dop_diag *diag, dop_kernel *out_kernel);

/* Generates the kernel of a persistent dispatch from these distinct stages of graph g, which must have equal workgroup sizes.
 * The arguments are the stage table, the step record, and two numbers: the table's length in rows and the size of one copy of
 * the mailboxes in words. */
dop_status dop_kernel_persistent(const dop_templates *t, const dop_graph *g, const dop_target *target,
                                 const dop_kernel *const *stages, uint32_t n_stages, const uint32_t numbers[2],
                                 dop_arena *arena, dop_diag *diag, dop_kernel *out_kernel);

/* Compiles GLSL to SPIR-V 1.3+ for Vulkan 1.2 with shaderc, and converts matrices to the KHR form if k->caps requires it
 * (spirv_khr_matrix.h). Checks the module's interface: push-constant size, workgroup size, shared memory within the target's
 * limit, and no capability beyond k->caps. `name` is for messages. */
dop_status dop_kernel_compile(const char *name, const dop_kernel *k, const dop_target *target, dop_diag *diag,
                              dop_buf *out_spirv, uint32_t *out_shared_bytes);

#endif
