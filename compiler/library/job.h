/* All compilations for one plan: one for each target, and one for each part. dop_compile() and dopplerc share this
 * code. */
#ifndef DOPPLER_COMPILER_LIBRARY_JOB_H
#define DOPPLER_COMPILER_LIBRARY_JOB_H

#include "compiler/library/inputs.h"
#include "compiler/parts/parts.h"

#include <doppler/compile.h>

typedef struct dop_compile_job {
    const char *model;                /* path; not owned */
    const dop_compile_options *asked; /* not owned */
    dop_compilation_options options;  /* options of every compilation; may be changed before dop_compile_job_make() */
    dop_arena arena;                  /* owns strings of `options` */
    char own_path[1024];              /* path of the binary that contains this code */
    dop_inputs inputs;                /* files that are read and must not be overwritten */
    dop_target targets[DOP_MAX_TARGETS];
    uint32_t n;            /* number of targets */
    dop_compilation *list; /* owned, [n] */
    dop_cuts cuts;
    dop_compilation *parts; /* owned, [cuts.n_parts]; NULL: the plan has one part */
    /* Called before each compilation with `user` and the name of its target; the name is NULL if there is one target.
     * May be NULL. */
    void (*begin)(void *user, const char *target);
    void *user;
} dop_compile_job;

/* Reads the options and lists the inputs. The arguments must outlive *out. The caller must finish *out even after a
 * failure. */
dop_status dop_compile_job_prepare(const char *model, const dop_compile_options *asked, dop_diag *diag,
                                   dop_compile_job *out);
/* Finds the targets; one of them may be the local device. */
dop_status dop_compile_job_find_targets(dop_compile_job *job, dop_diag *diag);
/* Fails if the plan would overwrite an input or a plan that a running program has open. */
dop_status dop_compile_job_refuse_plan(const dop_compile_job *job, const char *plan, dop_diag *diag);
dop_status dop_compile_job_make(dop_compile_job *job, dop_diag *diag);
dop_status dop_compile_job_write(const dop_compile_job *job, const char *plan, dop_diag *diag);
/* Sets *out to facts about the written plan. */
void dop_compile_job_facts(const dop_compile_job *job, const char *plan, dop_compile_facts *out);
void dop_compile_job_finish(dop_compile_job *job); /* accepts a zeroed job */

/* Implemented in notes.c: */
/* Reports notes about surprising results of the compilations (notes), and measured rules that do not apply here
 * (note_stale). plan: the written file, or NULL. */
void dop_compile_job_notes(const dop_compile_job *job, const char *plan, const dop_log *log);
void dop_compile_job_note_stale(const dop_compile_job *job, const dop_log *log);

/* no_memory.c: makes a program exit with status 1 and a line on stderr if the shader compiler runs out of memory. Only
 * for programs. */
void dop_compiler_prepare(const char *program);

/* options.c: converts options to their internal form. Strings that change are copied to the arena. */
dop_status dop_compile_options_read(const dop_compile_options *asked, dop_arena *arena, dop_diag *diag,
                                    dop_compilation_options *out);
/* Fails because no pass has this name. */
dop_status dop_unknown_pass(const char *name, dop_diag *diag);

#endif
