/* A plan file, mapped and verified.
 *
 * Rows are used in place (plan_format.h).  Opening verifies magic, version, sizes, all digests except those of the weights, and every
 * index, offset and count of every row.  Code that uses a dop_plan therefore indexes without checks.  Weights are most of the file;
 * dop_plan_verify_weights checks their digests while the loader uploads them. */
#ifndef DOPPLER_PLAN_PLAN_H
#define DOPPLER_PLAN_PLAN_H

#include "base/base.h"
#include "plan/plan_format.h"

typedef struct dop_plan {
    char path[512]; /* path for messages; "" if opened from memory */
    const uint8_t *data;
    uint64_t size;   /* bytes */
    uint64_t digest; /* the header's digest, which covers all section digests; identifies the plan */

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
    const dop_plan_part *part; /* NULL: the plan is a whole model */
    const dop_plan_crossing *crossings;
    const dop_plan_program *programs;
    const dop_plan_adapter_place *places;
    /* Model card, JSON; card, ir, chat_template and tokenizer are not 0-terminated, and NULL if absent. */
    const char *card;
    const char *ir;
    const char *chat_template;
    const uint8_t *tokenizer;
    const uint8_t *images;     /* image preprocessor (section IMAGES); NULL: none */
    const uint32_t *speech;    /* suppressed tokens of transcriptions (section SPEECH); NULL: none */
    const dop_plan_draw *draw; /* diffusion model; NULL: the plan generates no images */
    const uint8_t *weights;
    /* Section sizes in bytes. */
    uint64_t strings_size, card_size, ir_size, template_size, tokenizer_size, images_size, weights_size;
    uint32_t n_speech;       /* words of `speech` */
    uint64_t weights_digest; /* XXH3 of the weights, from the section table */
    uint32_t n_profiles, n_kernels, n_slots, n_schedules, n_dispatches, n_args, n_tensors, n_files, n_ranges, n_states,
        n_crossings, n_programs, n_places;
    uint64_t n_spirv;   /* 32-bit words */
    uint32_t step_slot; /* index of the slot of kind DOP_SLOT_STEP */
    /* True if steps replace states, here or in another part, so that they must be committed (dop_step). */
    bool replaces;

    dop_map map;        /* owned; zeroed if opened from memory */
    int lock;           /* 1 + descriptor that holds a shared lock (flock) on the file; 0: none */
    dop_map *file_maps; /* owned, [n_files] mapped external weights and model files */
} dop_plan;

/* Maps and verifies a plan, and checks the sizes of its other weight files.  A shared lock keeps writers from replacing the file while
 * it is open, if the file system supports locks. */
dop_status dop_plan_open(const char *path, dop_diag *diag, dop_plan *out_plan);
/* Opens part `part` of n_parts, from a file of several parts or from `path`.part<part> if `path` does not exist.  n_parts 0: as
 * dop_plan_open, which accepts whole models and single parts, but not files of several parts.  Fails if the plan has another number of
 * parts, or the file holds another part. */
dop_status dop_plan_open_part(const char *path, uint32_t n_parts, uint32_t part, dop_diag *diag, dop_plan *out_plan);
/* Opens a plan in memory aligned to 16 bytes, which must outlive it.  External weights are not supported. */
dop_status dop_plan_open_memory(const void *data, uint64_t size, dop_diag *diag, dop_plan *out_plan);
void dop_plan_close(dop_plan *plan); /* accepts a zeroed struct */

/* Returns the row size of a section kind in bytes; 0: unknown kind. */
uint32_t dop_plan_row_bytes(uint32_t kind);
/* Computes the digest of a header, with its digest field as zero, and its section table. */
uint64_t dop_plan_header_digest(const dop_plan_header *header, const dop_plan_section *sections, uint32_t n_sections);
/* Computes XXH3 (64 bits), the digest of a section's bytes. */
uint64_t dop_plan_digest(const void *bytes, uint64_t size);
/* True if neither the part's own file nor a file of all parts exists. */
bool dop_plan_lacks_part(const char *path, uint32_t part);

/* Returns the run counter of a persistent schedule in the step record. */
static inline volatile uint32_t *
dop_plan_runs(volatile dop_step *step, const dop_plan_schedule *schedule)
{
    return schedule->max_rows == 1 ? &step->persistent_runs : &step->several_runs[schedule->max_rows - 1];
}
/* Buffer size for a schedule's name: kind and maximum rows, such as "decode1" or "prefill64".  The compiler uses the same names. */
enum { DOP_SCHEDULE_NAME = 32 };

#endif
