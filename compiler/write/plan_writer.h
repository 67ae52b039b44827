/* The state of writing a plan's sections, shared by plan_write.c, which writes what is run, and plan_model.c, which writes what
 * describes the model. */
#ifndef DOPPLER_COMPILER_WRITE_PLAN_WRITER_H
#define DOPPLER_COMPILER_WRITE_PLAN_WRITER_H

#include "compiler/write/plan_file.h"
#include "compiler/write/plan_write.h"

/* Where a state of a target is: its slot, and bytes into it. */
typedef struct dop_state_place {
    const char *name;
    uint32_t slot;
    uint64_t offset, size;
    dop_plan_state row; /* the row of DOP_SEC_STATES; its slot is set last */
} dop_state_place;

/* What is written for one target: its slots, its states, and the rows of its kernels. */
typedef struct dop_target_rows {
    const dop_compilation *c;
    uint32_t slot_scratch, slot_counts, slot_received, slot_sent;
    uint64_t sums_at; /* where sums begin in slot_counts, in bytes */
    uint32_t slot_mailbox[DOP_MAX_SCHEDULES], slot_table[DOP_MAX_SCHEDULES]; /* where there is a persistent form */
    /* Parameter records of each schedule's form with barriers; DOP_PLAN_NO_SLOT: it has none. */
    uint32_t slot_records[DOP_MAX_SCHEDULES];
    dop_state_place *states;
    uint32_t n_states;
    uint32_t *kernels; /* [c->kernels.n] row of each kernel in DOP_SEC_KERNELS */
} dop_target_rows;

typedef struct dop_plan_writer {
    dop_diag *diag;
    dop_status status;
    dop_plan_sections sections;
    dop_lookup strings; /* finds strings that the table has already */
    uint32_t n_slots, slot_step, slot_result, slot_weights, n_kernels;
    uint32_t n_targets;
    dop_target_rows targets[DOP_MAX_TARGETS];
} dop_plan_writer;

/* Has a name a control character?  The table of strings has none, since names are shown. */
bool dop_plan_writer_refuses(const char *name);
/* The offset of a string in the plan's table of strings; equal strings share one. */
uint32_t dop_plan_writer_string(dop_plan_writer *w, const char *s);
void dop_plan_writer_no_memory(dop_plan_writer *w);
/* Gives the name of a kernel in the plan, which is known once the kernels are written. */
void dop_plan_writer_kernel_name(const dop_target_rows *t, uint32_t kernel, char *out, size_t size);
/* Number of pages in the pool of all sequences; 0: caches have no pages. */
uint32_t dop_plan_writer_pages(const dop_compilation *c);

/* plan_ranges.c: writes the rows of RANGES, and those of FILES for the model's files.  shared: [segments] zeros, to which the bytes of
 * each segment are added that stay in files. */
void dop_plan_writer_ranges(dop_plan_writer *w, uint64_t *shared);
/* plan_model.c.  model: writes the model's row and card.  part: writes which part of a model the plan is.  text: writes tokenizer
 * and chat template. */
void dop_plan_writer_model(dop_plan_writer *w);
void dop_plan_writer_part(dop_plan_writer *w);
/* Writes the rows of the programs that the plan has beside steps of sequences. */
void dop_plan_writer_programs(dop_plan_writer *w);
/* Writes what the plan's room for adapters is, if it has any. */
void dop_plan_writer_adapters(dop_plan_writer *w, dop_plan_model *model);
void dop_plan_writer_text(dop_plan_writer *w);
/* plan_made.c: how the plan was made, the card's "made": {release, kernels (digest of their templates), quant, imatrix, kernelPath,
 * tuning, ignored (rules of the tuning file that are not followed), forced, apart (--no-fuse A+B), skipped (passes), embed}.  NULL: out
 * of memory. */
struct json_t *dop_plan_made(const dop_compilation *c);

#endif
