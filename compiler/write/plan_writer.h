/* State of a plan writer. plan_write.c writes the executable sections; plan_model.c writes the description of the
 * model. */
#ifndef DOPPLER_COMPILER_WRITE_PLAN_WRITER_H
#define DOPPLER_COMPILER_WRITE_PLAN_WRITER_H

#include "compiler/write/plan_file.h"
#include "compiler/write/plan_write.h"

/* Location of a target's state: a slot and a byte offset in it. */
typedef struct dop_state_place {
    const char *name;
    uint32_t slot;
    uint64_t offset, size;
    dop_plan_state row; /* row of DOP_SEC_STATES; row.slot is set last */
} dop_state_place;

/* Output for one target: its slots, its states, and the rows of its kernels. */
typedef struct dop_target_rows {
    const dop_compilation *c;
    uint32_t slot_scratch, slot_counts, slot_received, slot_sent;
    uint64_t sums_at; /* byte offset of split-K sums in slot_counts */
    uint32_t slot_mailbox[DOP_MAX_SCHEDULES], slot_table[DOP_MAX_SCHEDULES]; /* for schedules with a persistent form */
    /* Slot of the parameter records of each schedule with barriers; DOP_PLAN_NO_SLOT: none. */
    uint32_t slot_records[DOP_MAX_SCHEDULES];
    dop_state_place *states;
    uint32_t n_states;
    uint32_t *kernels; /* [c->kernels.n] row of each kernel in DOP_SEC_KERNELS */
} dop_target_rows;

typedef struct dop_plan_writer {
    dop_diag *diag;
    dop_status status;
    dop_plan_sections sections;
    dop_lookup strings; /* index of the strings in the table */
    uint32_t n_slots, slot_step, slot_result, slot_weights, n_kernels;
    uint32_t n_targets;
    dop_target_rows targets[DOP_MAX_TARGETS];
} dop_plan_writer;

/* True if a name contains a control character. Such names are not allowed in the string table, because names are
 * displayed. */
bool dop_plan_writer_refuses(const char *name);
/* Returns the offset of a string in the plan's string table. Equal strings share one entry. */
uint32_t dop_plan_writer_string(dop_plan_writer *w, const char *s);
void dop_plan_writer_no_memory(dop_plan_writer *w);
/* Copies the name of a kernel in the plan to `out`. Valid after the kernels are written. */
void dop_plan_writer_kernel_name(const dop_target_rows *t, uint32_t kernel, char *out, size_t size);
/* Returns the number of pages in the pool of all sequences; 0 if caches have no pages. */
uint32_t dop_plan_writer_pages(const dop_compilation *c);

/* plan_ranges.c: writes the rows of RANGES, and the rows of FILES for the model's files. shared: [segments], zeroed by
 * the caller; receives the bytes of each segment that stay in files. */
void dop_plan_writer_ranges(dop_plan_writer *w, uint64_t *shared);
/* plan_model.c. model: writes the model's row and card. part: writes the part's row if the plan is a part. text: writes
 * tokenizer and chat template. */
void dop_plan_writer_model(dop_plan_writer *w);
void dop_plan_writer_part(dop_plan_writer *w);
/* Writes the rows of the plan's programs, which run in addition to steps of sequences. */
void dop_plan_writer_programs(dop_plan_writer *w);
/* Writes the plan's places for run-time adapters, if it has any. */
void dop_plan_writer_adapters(dop_plan_writer *w, dop_plan_model *model);
void dop_plan_writer_text(dop_plan_writer *w);
/* plan_made.c: returns the card's "made", a description of how the plan was made: {release, kernels (digest of their
 * templates), quant, imatrix, kernelPath, tuning, ignored (unused rules of the tuning file), forced, apart (--no-fuse
 * A+B), skipped (passes), embed}. NULL: out of memory. */
struct json_t *dop_plan_made(const dop_compilation *c);

#endif
