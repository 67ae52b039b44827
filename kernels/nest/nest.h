/* The body of a kernel as a tree of statements, between a family, which says what is computed and where, and the GLSL text.
 *
 * A family opens a nest, adds statements from the outside to the inside, and prints it.  Expressions are GLSL texts over names that
 * statements around or before them have introduced.  Nobody adds barriers or loads ahead of time: dop_nest_finish() finds them.
 *
 * Order of calls: dop_nest_open, statements, dop_nest_finish, dop_nest_print and dop_nest_dump.  The first failure is kept, and
 * later calls do nothing. */
#ifndef DOPPLER_KERNELS_NEST_NEST_H
#define DOPPLER_KERNELS_NEST_NEST_H

#include "base/arena.h"
#include "kernels/nest/placement.h"

#define DOP_NEST_PRINTF(n) __attribute__((format(printf, n, n + 1)))

typedef enum dop_stmt_kind {
#define STATEMENT(kind, ...) DOP_STMT_##kind,
#include "kernels/nest/statement.def"
#undef STATEMENT
    DOP_STMT_KINDS
} dop_stmt_kind;

typedef struct dop_stmt {
    dop_stmt_kind kind;
    const char *type, *name; /* what the statement introduces; name also: a place, a function, a hole's purpose */
    const char *value;       /* first value of a loop, condition, parameters or arguments, text of a hole */
    const char *end, *step;  /* of a loop: bound of its variable, and increment */
    uint32_t reads, writes;  /* shared memory that the statement reads and writes, bits by dop_nest_memory() */
    bool unroll;             /* an unrolled loop, whose iterations lie side by side in registers */
    bool rolled;             /* a loop that must stay one */
    bool late_test; /* a loop whose condition is tested behind the body, so that there is an iteration at least */
    bool declared;  /* a loop whose variable exists already; no first value: it has one, too */
    bool through;   /* a loop that has a turn at its bound, too */
    bool apart;     /* a loop or condition that invocations of the workgroup pass differently */
    bool disjoint;  /* of code: no invocation reads what another one writes here */
    bool together;  /* has a barrier of its own, so that all invocations must come here */
    bool shows;     /* its barrier shows to all what was written before */
    /* Of a loop that each subgroup passes by itself: the call by which its invocations see each other's writes.  What one subgroup
     * writes there, others read after the loop only. */
    const char *in_step;
    struct dop_stmt *body, *other, *next;
    /* Of a loop around prefetched loads (dop_nest_ahead): `more` is the condition under which there is another iteration, `again`
     * the arguments of the first load of the next iteration, and `late` says that this load is issued when the iteration is
     * over. */
    const char *more, *again;
    bool late;
    /* Names of the arrays that a prefetching call fills (q0, q1 ...); each has a copy for the next iteration. */
    const char *const *registers;
    uint32_t n_registers;
} dop_stmt;

enum { DOP_NEST_DEPTH = 16, DOP_NEST_MEMORIES = 32 };

typedef struct dop_nest {
    dop_arena *arena;
    dop_diag *diag;
    dop_status status;
    const char *name; /* of the family, for the dump */
    dop_nest_placement placement;
    dop_stmt *first, **at; /* where the next statement goes */
    dop_stmt *open[DOP_NEST_DEPTH];
    uint32_t n_open;
    const char *memories[DOP_NEST_MEMORIES];
    uint32_t n_memories;
} dop_nest;

void dop_nest_open(dop_nest *n, const char *name, const dop_nest_placement *p, dop_arena *arena, dop_diag *diag);

/* A text in the arena. */
const char *dop_nest_text(dop_nest *n, const char *format, ...) DOP_NEST_PRINTF(2);

/* Statements.  Those that return after the beginning of a block are ended by dop_nest_end(). */
void dop_nest_number(dop_nest *n, const char *name, uint32_t value);
uint32_t dop_nest_memory(dop_nest *n, const char *name);      /* its bit; of memory that a library declares */
uint32_t dop_nest_named(const dop_nest *n, const char *text); /* bits of the memory that the text names */
/* Memory of the workgroup, declared before the function that is open; returns its bit. */
uint32_t dop_nest_shared(dop_nest *n, const char *type, const char *name, uint32_t count);
void dop_nest_function(dop_nest *n, const char *name, const char *parameters); /* begins a block; so do the next four */
/* `name` from `first` on while it is less than `end`. */
dop_stmt *dop_nest_for(dop_nest *n, const char *name, const char *first, const char *end, const char *step);
/* A loop that stays one, with its test behind the body: until the variable's next value, the expression `next`, is not below `end`;
 * NULL: one more. */
dop_stmt *dop_nest_rolled(dop_nest *n, const char *name, const char *first, const char *end, const char *next);
/* An unrolled loop: `name` from 0 on for `turns` iterations, which lie side by side. */
dop_stmt *dop_nest_unrolled(dop_nest *n, const char *name, uint32_t turns);
dop_stmt *dop_nest_if(dop_nest *n, const char *condition, ...) DOP_NEST_PRINTF(2);
void dop_nest_else(dop_nest *n); /* ends the statements under a condition, and begins the others */
void dop_nest_end(dop_nest *n);
void dop_nest_ends(dop_nest *n, uint32_t blocks); /* ends that many */
dop_stmt *dop_nest_let(dop_nest *n, const char *type, const char *name, const char *value, ...) DOP_NEST_PRINTF(4);
void dop_nest_array(dop_nest *n, const char *type, const char *name, uint32_t count);
void dop_nest_zeros(dop_nest *n, const char *name, uint32_t count); /* an array of floats, all 0 */
dop_stmt *dop_nest_set(dop_nest *n, const char *place, const char *value, ...) DOP_NEST_PRINTF(3);
/* An unrolled loop around the statement. */
dop_stmt *dop_nest_each(dop_nest *n, const char *name, uint32_t turns, const char *place, const char *value, ...)
    DOP_NEST_PRINTF(5);
dop_stmt *dop_nest_add(dop_nest *n, const char *place, const char *value, ...) DOP_NEST_PRINTF(3);
void dop_nest_load(dop_nest *n, const char *place, const char *value, ...) DOP_NEST_PRINTF(3);
void dop_nest_store(dop_nest *n, uint32_t memory, const char *place, const char *value, ...) DOP_NEST_PRINTF(4);
void dop_nest_dot(dop_nest *n, const char *place, const char *value, ...) DOP_NEST_PRINTF(3);
dop_stmt *dop_nest_reduce(dop_nest *n, const char *place, const char *value, ...) DOP_NEST_PRINTF(3);
dop_stmt *dop_nest_call(dop_nest *n, const char *function, const char *arguments);
/* A call of a library's function that reads and writes this memory. */
void dop_nest_library(dop_nest *n, const char *function, const char *arguments, uint32_t reads, uint32_t writes);
/* Prefetch: what an iteration of the innermost loop loads into registers, by a call of the function with these arguments; `first`:
 * the arguments for the first iteration.  The call is issued an iteration earlier, across iterations of the outer loops as well
 * where these have an `again`. */
void dop_nest_ahead(dop_nest *n, const char *function, const char *first, const char *arguments,
                    const char *const *registers, uint32_t n_registers);
void dop_nest_break(dop_nest *n, const char *condition);
void dop_nest_return(dop_nest *n, const char *condition, ...) DOP_NEST_PRINTF(2);
/* Lines of GLSL, each of which ends with \n.  What shared memory they read and write is found by its names. */
dop_stmt *dop_nest_code(dop_nest *n, const char *lines, ...) DOP_NEST_PRINTF(2);
dop_stmt *dop_nest_hole(dop_nest *n, const char *what, const char *text); /* the text is kept, not copied */

/* For the files of dop_nest_finish(): makes a statement that is in no block yet; keeps the first failure. */
dop_stmt *dop_nest_new(dop_nest *n, dop_stmt_kind kind);
void dop_nest_fail(dop_nest *n, const char *what, const char *name);
/* The function of that name; NULL: a library's. */
const dop_stmt *dop_nest_find(const dop_nest *n, const char *function);

#endif
