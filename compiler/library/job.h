/* All compilations that one plan is made of: of a model for each target, and of its parts.  What dop_compile() and dopplerc share. */
#ifndef DOPPLER_COMPILER_LIBRARY_JOB_H
#define DOPPLER_COMPILER_LIBRARY_JOB_H

#include "compiler/library/inputs.h"
#include "compiler/parts/parts.h"

#include <doppler/compile.h>

typedef struct dop_compile_job {
    const char *model;                /* path; not owned */
    const dop_compile_options *asked; /* not owned */
    dop_compilation_options options;  /* of every compilation; may be changed before dop_compile_job_make */
    dop_arena arena;                  /* texts of `options` */
    char own_path[1024];              /* file that this code is in */
    dop_inputs inputs;                /* files that are read, which no output may replace */
    dop_target targets[DOP_MAX_TARGETS];
    uint32_t n;            /* number of targets */
    dop_compilation *list; /* owned, [n] */
    dop_cuts cuts;
    dop_compilation *parts; /* owned, [cuts.n_parts]; NULL: the plan is in one piece */
    /* Called with `user` before each compilation, with the name of its target, or NULL where there is only one; may be NULL. */
    void (*begin)(void *user, const char *target);
    void *user;
} dop_compile_job;

/* Reads the options, and lists the inputs.  Everything that *out points to must outlive it.  *out must be finished
 * even after a failure. */
dop_status dop_compile_job_prepare(const char *model, const dop_compile_options *asked, dop_diag *diag,
                                   dop_compile_job *out);
/* Finds the targets, one of which may be the device at hand. */
dop_status dop_compile_job_find_targets(dop_compile_job *job, dop_diag *diag);
/* Fails where the plan would replace an input, or a plan that a program has open. */
dop_status dop_compile_job_refuse_plan(const dop_compile_job *job, const char *plan, dop_diag *diag);
dop_status dop_compile_job_make(dop_compile_job *job, dop_diag *diag);
dop_status dop_compile_job_write(const dop_compile_job *job, const char *plan, dop_diag *diag);
/* Facts about the plan that was written. */
void dop_compile_job_facts(const dop_compile_job *job, const char *plan, dop_compile_facts *out);
void dop_compile_job_finish(dop_compile_job *job); /* accepts a zeroed one */

/* notes.c */
/* Reports what may surprise about the compilations, and that rules which were measured elsewhere are left out.  plan: the file that was
 * written, or NULL. */
void dop_compile_job_notes(const dop_compile_job *job, const char *plan, const dop_log *log);
void dop_compile_job_note_stale(const dop_compile_job *job, const dop_log *log);

/* no_memory.c: for programs: one that gets no memory for the shader compiler ends with a line on stderr and status 1. */
void dop_compiler_prepare(const char *program);

/* options.c: the inner form of options; texts are copied to the arena where they are changed. */
dop_status dop_compile_options_read(const dop_compile_options *asked, dop_arena *arena, dop_diag *diag,
                                    dop_compilation_options *out);
/* Fails because no pass has the name. */
dop_status dop_unknown_pass(const char *name, dop_diag *diag);

#endif
