/* A plan file, mapped and checked.
 *
 * The rows are used in place (plan_format.h).  Opening checks magic, version, sizes, the digests of everything but the
 * weights, and every index, offset and count of every row, so that code behind a dop_plan indexes without checks.  The
 * weights are most of the file: their digests are checked by dop_plan_verify_weights, which a loader runs beside the
 * upload. */
#ifndef DOPPLER_PLAN_PLAN_H
#define DOPPLER_PLAN_PLAN_H

#include "base/base.h"
#include "plan/plan_format.h"

typedef struct dop_plan {
    char path[512]; /* for messages; "" when opened from memory */
    const uint8_t *data;
    uint64_t size;   /* bytes */
    uint64_t digest; /* the header's digest: names this plan (it covers the digests of all sections) */

    const dop_plan_model *model;
    const char *strings;
    const dop_plan_profile *profiles;
    const dop_plan_kernel *kernels;
    const uint32_t *spirv;
    const dop_plan_slot *slots;
    const dop_plan_schedule *schedules;
    const dop_plan_dispatch *dispatches;
    const dop_plan_arg *args;
    const dop_plan_tensor *tensors;
    const dop_plan_file *files;
    const dop_plan_range *ranges;
    const dop_plan_state *states;
    const dop_plan_part *part; /* NULL: the plan is of the whole model */
    const dop_plan_crossing *crossings;
    const dop_plan_program *programs;
    const dop_plan_adapter_place *places;
    const char *card; /* the four texts and blobs are not 0-terminated; NULL when absent */
    const char *ir;
    const char *chat_template;
    const uint8_t *tokenizer;
    const uint8_t *images;  /* how pictures are prepared; NULL: the plan does not say */
    const uint32_t *speech; /* tokens that transcriptions must not have (section SPEECH); NULL: the plan does not say */
    const dop_plan_draw *draw; /* NULL: the plan makes no pictures */
    const uint8_t *weights;
    uint64_t strings_size, card_size, ir_size, template_size, tokenizer_size, images_size, weights_size; /* bytes */
    uint32_t n_speech;       /* words of `speech` */
    uint64_t weights_digest; /* XXH3, as the section table says */
    uint32_t n_profiles, n_kernels, n_slots, n_schedules, n_dispatches, n_args, n_tensors, n_files, n_ranges, n_states,
        n_crossings, n_programs, n_places;
    uint64_t n_spirv;   /* 32-bit words */
    uint32_t step_slot; /* index of the only slot of kind DOP_SLOT_STEP */
    bool replaces;      /* a slot holds state that steps replace, here or in another part, so that steps have to be
                           committed (dop_step) */

    dop_map map;        /* owned; zeroed when opened from memory */
    int lock;           /* 1 + the descriptor that holds a shared lock (flock) on the file; 0: there is none */
    dop_map *file_maps; /* owned, n_files: external weights and files of the model, mapped */
} dop_plan;

/* Maps and checks a plan and the sizes of the other files that have its weights.  While it is open, a shared lock on the file keeps writers
 * of plans from replacing it, if the file system has locks. */
dop_status dop_plan_open(const char *path, dop_diag *diag, dop_plan *out_plan);
/* Part `part` of n_parts; n_parts 0: as dop_plan_open, which opens plans of whole models and single parts, but not a file
 * of several.  Finds the part in a file of several; where there is no file `path`, `path`.part<part> is opened.
 * Errors: the plan has another number of parts, or the file holds another part. */
dop_status dop_plan_open_part(const char *path, uint32_t n_parts, uint32_t part, dop_diag *diag, dop_plan *out_plan);
/* Opens a plan in memory, which must stay and be aligned to 16 bytes; external weights are not supported. */
dop_status dop_plan_open_memory(const void *data, uint64_t size, dop_diag *diag, dop_plan *out_plan);
void dop_plan_close(dop_plan *plan); /* accepts a zeroed one */

/* Size of a row of a section of this kind; 0: the kind is not known. */
uint32_t dop_plan_row_bytes(uint32_t kind);
/* The digest of a header (its digest field is taken as zero) and its section table, as the header stores it. */
uint64_t dop_plan_header_digest(const dop_plan_header *header, const dop_plan_section *sections, uint32_t n_sections);
/* XXH3, 64 bits: the digest of a section's bytes. */
uint64_t dop_plan_digest(const void *bytes, uint64_t size);
/* Is the part's own file missing here, as well as a file of all parts? */
bool dop_plan_lacks_part(const char *path, uint32_t part);

/* The count of a persistent schedule's runs, in the step record. */
static inline volatile uint32_t *
dop_plan_runs(volatile dop_step *step, const dop_plan_schedule *schedule)
{
    return schedule->max_rows == 1 ? &step->persistent_runs : &step->several_runs[schedule->max_rows - 1];
}
/* A schedule's kind and most rows: "decode1", "prefill64", "score64"; the compiler's graphs and reports use the same names. */
enum { DOP_SCHEDULE_NAME = 32 };

#endif
