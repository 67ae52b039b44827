/* The state of writing a plan's sections, shared by plan_write.c, which writes what is run, and plan_model.c, which writes what
 * describes the model. */
#ifndef DOPPLER_COMPILER_WRITE_PLAN_WRITER_H
#define DOPPLER_COMPILER_WRITE_PLAN_WRITER_H

#include "compiler/write/plan_file.h"
#include "compiler/write/plan_write.h"

typedef struct dop_state_place {
    const char *name;
    uint32_t slot;
    uint64_t offset, size;
    dop_plan_state row; /* without the slot */
} dop_state_place;

/* What belongs to one target: its buffers, and the places of its kernels in the table of all. */
typedef struct dop_target_rows {
    const dop_compilation *c;
    uint32_t slot_scratch, slot_counts, slot_received, slot_sent;
    uint64_t sums_at;                                                        /* in slot_counts */
    uint32_t slot_mailbox[DOP_MAX_SCHEDULES], slot_table[DOP_MAX_SCHEDULES]; /* of schedules with a persistent form */
    uint32_t
        slot_records[DOP_MAX_SCHEDULES]; /* of the form with barriers; DOP_PLAN_NO_SLOT: it has no parameter records */
    dop_state_place *states;
    uint32_t n_states;
    uint32_t *kernels; /* [c->kernels.n] row of DOP_SEC_KERNELS */
} dop_target_rows;

typedef struct dop_plan_writer {
    dop_diag *diag;
    dop_status status;
    dop_plan_sections sections;
    dop_lookup strings; /* offsets of those in the table */
    uint32_t n_slots, slot_step, slot_result, slot_weights, n_kernels;
    uint32_t n_targets;
    dop_target_rows targets[DOP_MAX_TARGETS];
} dop_plan_writer;

/* Offset of a string in the table; equal strings share one. */
uint32_t dop_plan_writer_string(dop_plan_writer *w, const char *s);
void dop_plan_writer_no_memory(dop_plan_writer *w);
/* A kernel's name in the plan, known once the kernels are written. */
void dop_plan_writer_kernel_name(const dop_target_rows *t, uint32_t kernel, char *out, size_t size);
/* Number of pages in the pool. */
uint32_t dop_plan_writer_pages(const dop_compilation *c);

/* plan_model.c: the model's row and card; which part it is; tokenizer and chat template. */
void dop_plan_writer_model(dop_plan_writer *w);
void dop_plan_writer_part(dop_plan_writer *w);
/* The programs that the plan has beside steps of sequences. */
void dop_plan_writer_programs(dop_plan_writer *w);
void dop_plan_writer_text(dop_plan_writer *w);
/* plan_made.c: the card's "made": {release, kernels (digest of their templates), quant, imatrix, kernelPath, tuning, ignored (rules of
 * it that are not followed), forced, apart (--no-fuse A+B), skipped (passes), embed}.  NULL: out of memory. */
struct json_t *dop_plan_made(const dop_compilation *c);

#endif
