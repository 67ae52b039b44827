/* The step record: what a device reads to run a step.  kernels/gen/templates.c declares it for GLSL, from the same list of fields
 * (step_record.def).  plan/plan_format.h is about plans. */
#ifndef DOPPLER_BASE_STEP_RECORD_H
#define DOPPLER_BASE_STEP_RECORD_H

#include <stdint.h>

/* The step record: the only thing that changes from step to step.  Kernels read it through its device address; the
 * kernel that picks an id advances it, so that a greedy step needs nothing from the host.  GLSL sees the same layout
 * (std430).
 *
 * A row is one token of one sequence; the row table determines what a step computes.  Before a step the host (or
 * the previous step) sets n_rows and rows[0 .. n_rows).  Rows after those are undefined, and kernels neither compute
 * nor store anything for them.  Rows may be in any order of position; a row sees what the rows of this step write to its
 * sequence's caches at its own position and before.  A schedule that gives one row of logits gives those of the last row.
 * The kernel that picks an id makes the next step's table: rows[0] is that id, in the sequence of the last row and with its
 * flags, at the next position, and n_rows is 1.
 *
 * Rows of a program that keeps no states (plan_format.h) have the last position that the row sees in place of `sequence`, and the
 * row's type in place of `flags`.
 *
 * A kernel that picks from each row also makes the next step's row in place of a row t with DOP_ROW_CONTINUED: rows[t] becomes the
 * pick from row t at the next position.  A step with such rows has one row of each sequence, and all its rows have this flag.  So that
 * the host can read the picks while the next step runs, the pick from row t is at
 * ids[DOP_STEP_MAX_SEQUENCES * (position % DOP_STEP_TURNS) + t], with the position of the row.  A program whose rows stay
 * (dop_plan_program.stays) makes the next row at the row's own position; the number of steps before this one, flags / DOP_ROW_TURN, then
 * counts in place of the position.  In a model with states of kind
 * replace, no step has rows of several sequences.  The margin of a pick is how much its logit exceeds the largest other one that might
 * have been picked; it is stored for rows t below DOP_STEP_MAX_SEQUENCES, and means nothing where the pick was drawn.
 *
 * State of kind replace has copies in a ring, two or more, and `parity` says for each sequence which one is current.  A step reads
 * the current one and writes the next.  In a model with more than two copies, a step of rows of any sequences that has fewer rows of a
 * sequence than there are copies writes the state after each of its rows, in as many copies behind the current one, so that the last rows can
 * be dropped; of more rows of a sequence it writes the state after the last one.  A step changes nothing that existed before, so it can be run
 * again or dropped.  It takes effect when it is committed, which moves the parity of the sequences that have rows in it to the copy
 * that was written last:
 *  - in a full replay of a schedule that picks (DOP_PICKS_NEXT), the picking kernel commits, after everything else, so that the
 *    next step can follow on the device;
 *  - else (the body alone, or a schedule that does not pick) the host commits, after the step has succeeded and before the
 *    next one is submitted.
 * A committed step is undone by restoring the parity, as long as no later step of that sequence has run.  A host that may
 * want to drop picks must therefore not let more than one step run ahead.  Append state needs none of this: rows of
 * dropped positions are written again before they are read.
 *
 * Where caches lie in pages, the record is followed by a page table for each sequence: [n_sequences][ctx / page] page
 * numbers.  A number names the same page in every paged state.  Entries of positions that no row of the step writes or reads
 * may be anything below n_pages; the host changes no entry that a running step uses.
 *
 * After the page tables comes a mask for each sequence, [n_sequences][(vocab + 31) / 32] words with a bit for each id, the lowest
 * bit first.  The pick of a row with DOP_ROW_MASKED is the largest logit among the ids whose bits are set in its sequence's
 * mask.
 *
 * After the masks come the sampling parameters, a dop_row_way for each sequence.  The pick from a row with DOP_ROW_DRAWN, which targets
 * with `draws` support, is drawn at random with the parameters of its sequence, among the ids of its mask if it has one. */
enum {
    DOP_STEP_MAX_ROWS = 4096,
    DOP_STEP_RING = 4096,
    DOP_STEP_MAX_SEQUENCES = 64,
    DOP_STEP_SEVERAL = 8,
    DOP_STEP_RUNS = 12
};
enum {
    DOP_STEP_TURNS = DOP_STEP_RING / DOP_STEP_MAX_SEQUENCES
}; /* steps whose picks the ids hold, with DOP_ROW_CONTINUED */
enum {
    DOP_STEP_STALLED = 1, /* a wait for a value exceeded its bound: see DOP_ORDER_PERSISTENT */
    DOP_STEP_UNPAIRED = 2 /* the device lacks DOP_CAP_coop_pairs after all; results are garbage */
};
enum { DOP_STEP_EDGE = 1024 }; /* a place in a picture is row * DOP_STEP_EDGE + column, both below it */
/* DOP_ROW_TURN: what a row's flags grow by with each step of a program whose rows stay at their positions. */
enum { DOP_ROW_MASKED = 1, DOP_ROW_DRAWN = 2, DOP_ROW_CONTINUED = 4, DOP_ROW_TURN = 1 << 16 };
typedef struct dop_row {
#define STEP_ROW(name) uint32_t name;
#include "base/step_record.def"
} dop_row;

/* Sampling parameters of a sequence: top-k applies to the softmax of the logits first, then top-p to what top-k leaves, then min-p; from
 * the rest one id is drawn with the logits divided by the temperature.  The draw depends on the seed, the row's position and the
 * ids. */
typedef struct dop_row_way {
    float by;       /* 1 / temperature */
    float least;    /* log(min_p); a large negative number: no min-p */
    float top_p;    /* sum of probabilities that top-p keeps; 1: all */
    uint32_t top_k; /* number of ids that top-k keeps; 0: all */
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
