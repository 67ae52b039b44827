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

/* Number of rows whose logits, or hidden states, a schedule gives. */
uint32_t dop_plan_logit_rows(const dop_plan_schedule *schedule);
/* Bytes of one row of logits or hidden states, in whichever part it is computed, and of all rows that this plan computes. */
uint64_t dop_plan_result_row_bytes(const dop_plan *plan, const dop_plan_schedule *schedule);
uint64_t dop_plan_result_bytes(const dop_plan *plan, const dop_plan_schedule *schedule);

/* The program whose schedules are of this kind; NULL: the plan has none. */
const dop_plan_program *dop_plan_program_of(const dop_plan *plan, uint32_t kind);
/* Does a step of sequences receive the value, which is a long one, only for those of its rows that are features of pictures? */
bool dop_plan_is_of_features(const dop_plan *plan, const dop_plan_crossing *crossing);
/* Does the plan have schedules that advance sequences? */
bool dop_plan_steps(const dop_plan *plan);

/* Number of pages of a sequence that fills its context; 0: states are in one piece. */
uint32_t dop_plan_sequence_pages(const dop_plan *plan);
/* Bytes of the step record, tables of pages and masks included. */
uint64_t dop_plan_step_bytes(const dop_plan *plan);
/* Bytes from the step record to the mask of the sequence at a place. */
uint64_t dop_plan_mask_offset(const dop_plan *plan, uint32_t place);
/* Bytes from the step record to the dop_row_way of the sequence at a place. */
uint64_t dop_plan_way_offset(const dop_plan *plan, uint32_t place);

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

/* A string of the plan; every offset in a row of an open plan is valid. */
const char *dop_plan_string(const dop_plan *plan, uint32_t offset);

/* Finds the bytes of a WEIGHTS slot from `offset` on.  *out_size: how many follow each other there; all of a tensor of no quantized type
 * that begins at the offset do.  NULL: they are made of blocks of a file, and can only be copied. */
const uint8_t *dop_plan_slot_bytes(const dop_plan *plan, uint32_t slot, uint64_t offset, uint64_t *out_size);
/* Copies bytes offset .. offset + size - 1 of a WEIGHTS slot. */
void dop_plan_copy_slot(const dop_plan *plan, uint32_t slot, uint64_t offset, uint64_t size, uint8_t *out);
/* Bytes of a model's file that a row of DOP_SEC_RANGES reads; 0 for groups, which are made of the same bytes as their units. */
uint64_t dop_plan_range_bytes(const dop_plan_range *range);
/* Checks the rows of DOP_SEC_RANGES; those of slots, files and tensors are sound. */
dop_status dop_plan_check_ranges(const dop_plan *plan, dop_diag *diag);

/* Checks the digests of the weights, embedded, external and in the model's files.  Reads all of them; stop as in plan_weights.h. */
dop_status dop_plan_verify_weights(const dop_plan *plan, const _Atomic bool *stop, dop_diag *diag);

/* Size of a row of a section of this kind; 0: the kind is not known. */
uint32_t dop_plan_row_bytes(uint32_t kind);
/* The digest of a header (its digest field is taken as zero) and its section table, as the header stores it. */
uint64_t dop_plan_header_digest(const dop_plan_header *header, const dop_plan_section *sections, uint32_t n_sections);
/* XXH3, 64 bits: the digest of a section's bytes. */
uint64_t dop_plan_digest(const void *bytes, uint64_t size);

/* The digest that the header of a file of several parts must have. */
uint64_t dop_plan_set_digest(const dop_plan_set_header *header, const dop_plan_set_row *rows);
/* For a plan that is only mapped: sets data and size to those of the part, where the file has several.  Fails for a file with
 * another number of parts. */
dop_status dop_plan_find_part(dop_plan *plan, uint32_t n_parts, uint32_t part, dop_diag *diag);
/* Fails if the open plan is not that part. */
dop_status dop_plan_is_part(const dop_plan *plan, uint32_t n_parts, uint32_t part, dop_diag *diag);
/* Is the part's own file missing here, as well as a file of all parts? */
bool dop_plan_lacks_part(const char *path, uint32_t part);
/* Number of parts of the plan whose file or files have this name, without opening it: 1 where there is no readable file; 0 where
 * a file for a part does not tell, for example because it is cut short. */
uint32_t dop_plan_count_parts(const char *path);
/* Does a file of this name begin like one of several parts? */
bool dop_plan_is_set(const char *path);
/* The error for a part that is to be run without the others. */
dop_status dop_plan_wants_ranks(const char *path, uint32_t n_parts, dop_diag *diag);
/* Checks the rows that describe parts against plan_format.h. */
dop_status dop_plan_check_part(const dop_plan *plan, dop_diag *diag);

/* plan_check.c: checks every row of a plan whose section pointers are set. */
dop_status dop_plan_check_rows(dop_plan *plan, dop_diag *diag);

/* The count of a persistent schedule's runs, in the step record. */
static inline volatile uint32_t *
dop_plan_runs(volatile dop_step *step, const dop_plan_schedule *schedule)
{
    return schedule->max_rows == 1 ? &step->persistent_runs : &step->several_runs[schedule->max_rows - 1];
}

/* "barriers" or "persistent", of DOP_ORDER_*. */
const char *dop_plan_ordering_name(uint32_t ordering);
/* A schedule's kind and most rows: "decode1", "prefill64", "score64"; the compiler's graphs and reports use the same names. */
enum { DOP_SCHEDULE_NAME = 32 };
void dop_plan_schedule_name(const dop_plan_schedule *schedule, char out[DOP_SCHEDULE_NAME]);
/* Does the profile have a decode schedule with this DOP_ORDER_*? */
bool dop_plan_decodes(const dop_plan *plan, uint32_t profile, uint32_t ordering);
/* disasm.c: the schedules of a plan as text, one line per dispatch; the compiler prints the same. */
void dop_plan_disasm(const dop_plan *plan, dop_buf *out);

#endif
