/* The step record: the device memory that controls a step.  C and GLSL (kernels/gen/templates.c) declare it from one list of fields,
 * step_record.def.  plan/plan_format.h is the format of plans. */
#ifndef DOPPLER_BASE_STEP_RECORD_H
#define DOPPLER_BASE_STEP_RECORD_H

#include <stdint.h>

/* The step record is the only data that changes from step to step.  Kernels read it through its device address.  The kernel that picks
 * an id advances the record, so greedy steps need nothing from the host.  The GLSL layout is equal (std430).
 *
 * Rows.  A row is one token of one sequence; the row table determines what a step computes.  The host or the previous step sets n_rows
 * and rows[0 .. n_rows).  Later rows are undefined; kernels neither compute nor store anything for them.  Rows may be in any order of
 * position.  A row attends to cache rows of its sequence up to its own position, including those that this step writes.  Schedules with
 * one row of logits return those of the last row.  The picking kernel then makes the next step's table: one row with the picked id at
 * the next position, with sequence and flags of the last row.
 *
 * In programs without states (plan_format.h), `sequence` holds the last position that the row attends to, and `flags` the row type.
 *
 * DOP_ROW_CONTINUED.  A kernel that picks from each row replaces a row t with this flag by the next step's row: the pick from row t at
 * the next position.  Such a step has one row per sequence, and all rows have the flag.  The pick from row t is stored at
 * ids[DOP_STEP_MAX_SEQUENCES * (position % DOP_STEP_TURNS) + t], so that the host can read it while the next step runs.  In a program
 * with dop_plan_program.stays the position does not advance; the number of earlier steps, flags / DOP_ROW_TURN, replaces it in that
 * index.
 *
 * Margins.  The margin of a pick is the difference between its logit and the largest other allowed logit.  It is stored for rows below
 * DOP_STEP_MAX_SEQUENCES and meaningless for random draws.
 *
 * Replace states.  They have two or more copies in a ring; parity[sequence] is the current one.  A step reads the current copy and
 * writes the next.  With more than two copies, a step with fewer rows of a sequence than copies writes the state after each row to
 * successive copies, so that its last rows can be dropped; with more rows it writes only the state after the last one.  A step changes
 * nothing that existed before, so it can be repeated or dropped.  Committing it moves the parity of its sequences to the copy written
 * last:
 *   - in a full replay of a schedule that picks (DOP_PICKS_NEXT), the picking kernel commits at the end, so that the next step can
 *     follow on the device;
 *   - otherwise (the body alone, or a schedule without picks) the host commits after the step has succeeded, before it submits the next.
 * A committed step is undone by restoring the parity, unless a later step of that sequence has run.  A host that may drop picks must
 * therefore not let more than one step run ahead.  Append states need no commit: rows of dropped positions are rewritten before they
 * are read.
 *
 * Appended tables.  With paged caches, the record is followed by a page table per sequence: [n_sequences][ctx / page] page numbers,
 * which are shared by all paged states.  Entries that no row of the step uses may be anything below n_pages.  The host does not change
 * entries that a running step uses.  After the page tables come the masks: [n_sequences][(vocab + 31) / 32] words, one bit per id,
 * least significant bit first.  A row with DOP_ROW_MASKED picks the largest logit among the ids in its sequence's mask.  After the
 * masks come the sampling parameters, one dop_row_way per sequence.  A row with DOP_ROW_DRAWN draws its pick at random with them,
 * within its mask if it has one.  Only targets with `draws` support it. */
enum {
    DOP_STEP_MAX_ROWS = 4096,
    DOP_STEP_RING = 4096,
    DOP_STEP_MAX_SEQUENCES = 64,
    DOP_STEP_SEVERAL = 8,
    DOP_STEP_RUNS = 12
};
enum {
    DOP_STEP_TURNS = DOP_STEP_RING / DOP_STEP_MAX_SEQUENCES
}; /* steps whose picks `ids` holds, with DOP_ROW_CONTINUED */
enum {
    DOP_STEP_STALLED = 1, /* a wait for a value exceeded its bound (see DOP_ORDER_PERSISTENT) */
    DOP_STEP_UNPAIRED = 2 /* the device lacks DOP_CAP_coop_pairs; results are garbage */
};
enum { DOP_STEP_EDGE = 1024 }; /* a position in an image is row * DOP_STEP_EDGE + column */
/* DOP_ROW_TURN: added to a row's flags after each step of a program with `stays`. */
enum { DOP_ROW_MASKED = 1, DOP_ROW_DRAWN = 2, DOP_ROW_CONTINUED = 4, DOP_ROW_TURN = 1 << 16 };
typedef struct dop_row {
#define STEP_ROW(name) uint32_t name;
#include "base/step_record.def"
} dop_row;

/* Sampling parameters of a sequence.  Order: top-k by probability, then top-p, then min-p; one of the remaining ids is drawn with
 * logits divided by the temperature.  The draw depends on the seed, the row's position and the ids. */
typedef struct dop_row_way {
    float by;       /* 1 / temperature */
    float least;    /* log(min_p); a large negative number disables min-p */
    float top_p;    /* cumulative probability kept by top-p; 1: all */
    uint32_t top_k; /* number of ids kept by top-k; 0: all */
    uint32_t seed[2];
    uint32_t reserved[2];
} dop_row_way;

typedef struct dop_step {
#define STEP_WORD(name) uint32_t name;
#define STEP_WORDS(name, n, note) uint32_t name[n];
#define STEP_ROWS(name, n) dop_row name[n];
#include "base/step_record.def"
} dop_step;
enum { DOP_STEP_WORDS = sizeof(dop_step) / sizeof(uint32_t) };

#endif
