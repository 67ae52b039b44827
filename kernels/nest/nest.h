/* The body of a kernel as a tree of statements: an intermediate representation between a kernel family, which says what is
 * computed and where, and GLSL text.
 *
 * A family opens a nest, adds statements from the outside to the inside, and prints it. Expressions are GLSL texts over names
 * introduced by enclosing or earlier statements. Families write neither barriers nor prefetches: dop_nest_finish() inserts
 * them.
 *
 * Order of calls: dop_nest_open, statements, dop_nest_finish, dop_nest_print and dop_nest_dump. The first failure is
 * recorded, and later calls do nothing. */
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
    const char *type, *name; /* name of the new variable, or an lvalue, function, or hole's purpose */
    const char *value;       /* initial value of a loop, condition, parameters or arguments, text of a hole */
    const char *end, *step;  /* loops: bound of the variable, and increment */
    uint32_t reads, writes;  /* shared memory that the statement reads and writes, as bits from dop_nest_memory() */
    bool unroll;             /* a fully unrolled loop, whose iterations are independent in registers */
    bool rolled;             /* a loop that must not be unrolled */
    bool late_test;          /* a post-tested loop: at least one iteration */
    bool declared;           /* the loop variable already exists; without an initial value (""), it keeps its value */
    bool through;            /* the loop bound is inclusive (<=) */
    bool apart;              /* a loop or condition on which invocations of the workgroup may diverge */
    bool disjoint;           /* code: no invocation reads what another one writes here */
    bool together;           /* contains a barrier, so control flow must be uniform here */
    bool shows;              /* its barrier makes all earlier writes visible */
    /* For a loop that subgroups execute independently: the call that synchronizes the invocations of a subgroup in place of a
     * barrier. Other subgroups may read what one subgroup writes in the loop only after the loop. */
    const char *in_step;
    struct dop_stmt *body, *other, *next;
    /* For a loop around a prefetching loop (dop_nest_ahead): `more` is the condition that another iteration follows, and
     * `again` the arguments of its first load. `late`: this load is issued at the end of the iteration. */
    const char *more, *again;
    bool late;
    /* Names of the register arrays that a prefetching call fills (q0, q1 ...). Each array has a copy for the next
     * iteration. */
    const char *const *registers;
    uint32_t n_registers;
} dop_stmt;

enum { DOP_NEST_DEPTH = 16, DOP_NEST_MEMORIES = 32 };

typedef struct dop_nest {
    dop_arena *arena;
    dop_diag *diag;
    dop_status status;
    const char *name; /* name of the kernel for the dump */
    dop_nest_placement placement;
    dop_stmt *first, **at; /* insertion point of the next statement */
    dop_stmt *open[DOP_NEST_DEPTH];
    uint32_t n_open;
    const char *memories[DOP_NEST_MEMORIES];
    uint32_t n_memories;
} dop_nest;

void dop_nest_open(dop_nest *n, const char *name, const dop_nest_placement *p, dop_arena *arena, dop_diag *diag);

/* Formats a text in the arena. */
const char *dop_nest_text(dop_nest *n, const char *format, ...) DOP_NEST_PRINTF(2);

/* Statements. Calls that begin a block are paired with dop_nest_end(). */
void dop_nest_number(dop_nest *n, const char *name, uint32_t value);
uint32_t dop_nest_memory(dop_nest *n, const char *name);      /* registers shared memory; returns its bit */
uint32_t dop_nest_named(const dop_nest *n, const char *text); /* bits of shared memory that the text names */
/* Declares shared memory before the open function, and returns its bit. */
uint32_t dop_nest_shared(dop_nest *n, const char *type, const char *name, uint32_t count);
void dop_nest_function(dop_nest *n, const char *name, const char *parameters); /* begins a block, also the next four */
/* A loop with `name` from `first` while less than `end`, in steps of `step` (NULL: 1). */
dop_stmt *dop_nest_for(dop_nest *n, const char *name, const char *first, const char *end, const char *step);
/* A post-tested loop that must not be unrolled. It ends when the variable's next value, the expression `next` (NULL: plus 1),
 * is not below `end`. */
dop_stmt *dop_nest_rolled(dop_nest *n, const char *name, const char *first, const char *end, const char *next);
/* An unrolled loop with `name` from 0 below `turns`. */
dop_stmt *dop_nest_unrolled(dop_nest *n, const char *name, uint32_t turns);
dop_stmt *dop_nest_if(dop_nest *n, const char *condition, ...) DOP_NEST_PRINTF(2);
void dop_nest_else(dop_nest *n); /* ends the statements of the condition, and begins the else branch */
void dop_nest_end(dop_nest *n);
void dop_nest_ends(dop_nest *n, uint32_t blocks); /* ends that many blocks */
dop_stmt *dop_nest_let(dop_nest *n, const char *type, const char *name, const char *value, ...) DOP_NEST_PRINTF(4);
void dop_nest_array(dop_nest *n, const char *type, const char *name, uint32_t count);
void dop_nest_zeros(dop_nest *n, const char *name, uint32_t count); /* an array of floats, all 0 */
dop_stmt *dop_nest_set(dop_nest *n, const char *place, const char *value, ...) DOP_NEST_PRINTF(3);
/* A statement in an unrolled loop of its own. */
dop_stmt *dop_nest_each(dop_nest *n, const char *name, uint32_t turns, const char *place, const char *value, ...)
    DOP_NEST_PRINTF(5);
dop_stmt *dop_nest_add(dop_nest *n, const char *place, const char *value, ...) DOP_NEST_PRINTF(3);
void dop_nest_load(dop_nest *n, const char *place, const char *value, ...) DOP_NEST_PRINTF(3);
void dop_nest_store(dop_nest *n, uint32_t memory, const char *place, const char *value, ...) DOP_NEST_PRINTF(4);
void dop_nest_dot(dop_nest *n, const char *place, const char *value, ...) DOP_NEST_PRINTF(3);
dop_stmt *dop_nest_reduce(dop_nest *n, const char *place, const char *value, ...) DOP_NEST_PRINTF(3);
dop_stmt *dop_nest_call(dop_nest *n, const char *function, const char *arguments);
/* A call of a library function that reads and writes this shared memory. */
void dop_nest_library(dop_nest *n, const char *function, const char *arguments, uint32_t reads, uint32_t writes);
/* Prefetch: a call of `function` that loads into registers what an iteration of the innermost loop uses; `first` are the
 * arguments for the first iteration. The call is issued one iteration ahead, also across iterations of outer loops that have
 * `again`. */
void dop_nest_ahead(dop_nest *n, const char *function, const char *first, const char *arguments,
                    const char *const *registers, uint32_t n_registers);
void dop_nest_break(dop_nest *n, const char *condition);
void dop_nest_return(dop_nest *n, const char *condition, ...) DOP_NEST_PRINTF(2);
/* Lines of GLSL, each ending with \n. Accesses to shared memory are found by its name in the text. */
dop_stmt *dop_nest_code(dop_nest *n, const char *lines, ...) DOP_NEST_PRINTF(2);
dop_stmt *dop_nest_hole(dop_nest *n, const char *what, const char *text); /* keeps the pointer to the text */

/* For the passes of dop_nest_finish(). dop_nest_new creates a statement outside of any block; dop_nest_fail records the first
 * failure. */
dop_stmt *dop_nest_new(dop_nest *n, dop_stmt_kind kind);
void dop_nest_fail(dop_nest *n, const char *what, const char *name);
/* Returns the function of that name; NULL if it is a library's. */
const dop_stmt *dop_nest_find(const dop_nest *n, const char *function);

#endif
