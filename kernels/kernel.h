/* From a region to SPIR-V: selection of a variant and tile, generation of GLSL, compilation, reflection. */
#ifndef DOPPLER_KERNELS_KERNEL_H
#define DOPPLER_KERNELS_KERNEL_H

#include "kernels/emit/emit.h"

/* The GLSL templates, read once per compilation. */
typedef struct dop_templates {
    char dir[1024];
    uint32_t n;
    struct {
        char name[64];
        char *text;
    } files[64];
    void *
        glsl_compiler; /* as long as one exists, glslang keeps its parsed built-ins, which take longer than most kernels */
} dop_templates;

/* Finds and reads the template folder by its place relative to own_path, the file of the program or library: where an installation has
 * it, or the folder "glsl" next to the file. */
dop_status dop_templates_load(const char *own_path, dop_templates *out, dop_diag *diag);
void dop_templates_finish(dop_templates *t);
const char *dop_templates_get(const dop_templates *t, const char *name); /* NULL: no such file */

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
    uint32_t caps; /* DOP_CAP_* needed */
    const char *when;
    const dop_descriptor *descriptor;
} dop_variant;
const dop_variant *dop_variant_of(dop_variant_id v);
bool dop_variant_parse(const char *name, dop_variant_id *out);

/* Why a kernel cannot make a region on a target. */
typedef struct dop_refusal {
    const char *why;    /* NULL: it can */
    const char *remedy; /* what would make it possible; NULL: nothing known */
} dop_refusal;
/* Can the variant make the region on that target when it is asked for?  Whatever this accepts can be generated. */
dop_refusal dop_kernel_fits(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t);

/* Why a variant cannot have a tile. */
typedef struct dop_tile_fault {
    int field;     /* number of the field that breaks a rule; DOP_TILE_FIELDS: no single one */
    char why[160]; /* the rule with its bound: "lanes must be a power of two between 1 and 256, not 7"; "": no fault */
    const char *remedy; /* what would make it possible; NULL: another tile */
} dop_tile_fault;
/* The check that every tile passes, whoever chose it (also in dop_kernel_generate): true if the variant, which fits the region,
 * makes it correctly with that tile, by code of bounded size. */
bool dop_kernel_legal(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t,
                      const dop_tile *tile, dop_tile_fault *out_fault);
/* Fields of the tile that the variant has: bits by number (DOP_TILE_NO_*). */
uint32_t dop_kernel_fields(dop_variant_id v);
/* Sets fields of the tile that follow from the others, after some of these were changed. */
void dop_kernel_settle(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t, dop_tile *tile);

/* One choice, with what was rejected and why, for --explain and the report. */
typedef struct dop_selection {
    dop_variant_id variant;
    dop_tile tile;
    const char *source; /* who changed the tile, for messages: "paths.yaml:3"; NULL: it is the variant's own choice */
    char why[512];      /* "gemv_subgroup: one token; rejected gemv: ..." */
} dop_selection;

/* Chooses the first row of the region's template that fits and that no `avoid` speaks against.  forced: a variant
 * name, or NULL.  Errors: no row fits, or the forced one does not (the message lists those that do). */
dop_status dop_kernel_select(const dop_graph *g, const dop_region *r, const dop_target *target, const char *forced,
                             dop_diag *diag, dop_selection *out_choice);

/* Chooses the kernel of a stage of a persistent dispatch, whose workgroups have target->persistent invocations: the form, fit for a
 * stage, of `own`, which was chosen for an ordinary dispatch.  Returns NULL, or the reason why there is none. */
const char *dop_kernel_select_stage(const dop_graph *g, const dop_region *r, const dop_target *target,
                                    const dop_selection *own, dop_selection *out_choice);

/* For attention, the form of a stage while its cache is short: a head group is divided among workgroups that splits
 * of a longer cache would occupy.  Returns up to how many positions it is used; 0: there is no such form. */
uint32_t dop_kernel_select_short(const dop_graph *g, const dop_region *r, const dop_target *target,
                                 const dop_selection *stage, dop_selection *out_choice);

/* A generated kernel.  Strings and args live in the graph's arena. */
typedef struct dop_kernel {
    const char *glsl;
    uint32_t n_args;
    const dop_kernel_arg *args;
    uint32_t grid[3];
    uint32_t local; /* invocations, one-dimensional */
    dop_variant_id variant;
    uint32_t caps;
    uint32_t subgroup; /* required size; 0: any */
    dop_rounding rounding;
    const char *nest;          /* dump of the nest that it was made from; NULL: from a template */
    uint32_t n_stages;         /* a persistent dispatch: */
    const char *const *stages; /* GLSL of its functions */
    const char *const *nests;  /* dumps of the nests of these functions, in the order of `stages` */
} dop_kernel;

/* How a kernel is ordered in a plan that has persistent dispatches (DOP_ORDER_PERSISTENT of plan/plan_format.h). */
typedef enum dop_sync_kind {
    DOP_SYNC_STAGE, /* a function of a persistent dispatch, which receives and sends values through mailboxes */
    DOP_SYNC_ADVANCE /* ordered by barriers, but the last of its schedule: adds `runs` to its count of runs in dop_step */
} dop_sync_kind;
typedef struct dop_sync {
    dop_sync_kind kind;
    const uint8_t *routes; /* for a stage: DOP_MAILBOX and DOP_LEAVES by node */
    uint32_t runs; /* added to the count of persistent runs (a number of the dispatch): 1 after stages, else 0 */
    bool several;  /* the schedule has stages of several rows, whose persistent runs have a count of their own */
} dop_sync;

/* sync NULL: ordered by barriers, of which the kernel knows nothing. */
dop_status dop_kernel_generate(const dop_templates *t, const dop_graph *g, const dop_region *r,
                               const dop_target *target, const dop_selection *choice, const dop_sync *sync,
                               dop_diag *diag, dop_kernel *out_kernel);

/* The kernel of a persistent dispatch with these distinct stages of graph g, all of the same workgroup size.  Its arguments are
 * the table of stages, the step record, and two numbers: the rows of the table, and the words of one copy of the mailboxes. */
dop_status dop_kernel_persistent(const dop_templates *t, const dop_graph *g, const dop_target *target,
                                 const dop_kernel *const *stages, uint32_t n_stages, const uint32_t numbers[2],
                                 dop_arena *arena, dop_diag *diag, dop_kernel *out_kernel);

/* Compiles GLSL to SPIR-V 1.3+ for Vulkan 1.2 with shaderc, gives matrices their KHR form where k->caps says so
 * (spirv_khr_matrix.h), and checks the interface of the module: push-constant size, workgroup size, shared
 * memory within the target's, and no capability beyond k->caps.  name is for messages. */
dop_status dop_kernel_compile(const char *name, const dop_kernel *k, const dop_target *target, dop_diag *diag,
                              dop_buf *out_spirv, uint32_t *out_shared_bytes);

#endif
