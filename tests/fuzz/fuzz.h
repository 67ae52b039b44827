/* What the fuzz targets share.  One program has all of them (targets.def); the name it is called by says which one
 * runs. */
#ifndef DOPPLER_TESTS_FUZZ_FUZZ_H
#define DOPPLER_TESTS_FUZZ_FUZZ_H

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

typedef void fuzz_run(const uint8_t *data, size_t size);
/* As LLVMFuzzerCustomMutator. */
typedef size_t fuzz_mutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

#define FUZZ(name, mutator, longest, what) fuzz_run fuzz_##name;
#include "tests/fuzz/targets.def"
#undef FUZZ
fuzz_mutator fuzz_plan_mutate;

/* libFuzzer's own mutations of some bytes. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* What must hold. */
static inline void
require(bool ok)
{
    if (!ok)
        abort();
}

/* A call ended well, or with a message that is fit for a terminal: one line, and not that of a bug of ours. */
void fuzz_check(dop_status st, const dop_diag *diag);
/* The same where a message may show the line of a text that is wrong. */
void fuzz_check_lines(dop_status st, const dop_diag *diag);

/* The path of a file of this process with these bytes, and zeros behind them up to `whole` bytes; until the next call. */
const char *fuzz_file(const void *bytes, size_t size, size_t whole);
/* The same for a file NAME in a folder of this process, whose path is *out_dir; it goes when the process ends well. */
void fuzz_file_in(const char *name, const void *bytes, size_t size, size_t whole, const char **out_dir);
void fuzz_file_gone(const char *name);
/* The path of a file next to the program. */
const char *fuzz_beside(const char *name);
/* grammar.c: the printable signs of ASCII, and some pieces of JSON. */
struct dop_tokenizer;
const struct dop_tokenizer *fuzz_tokenizer(void);
/* Numbers from a seed, for mutators. */
uint32_t fuzz_random(uint32_t *state);

/* plan.c: the file of an input of fuzz_plan that begins with 'S', appended. */
void fuzz_plan_assemble(const uint8_t *data, size_t size, dop_buf *out);
/* A plan without the bytes of its weights and the text of its kernels, as the mutator takes it; 0: the files are
 * written. */
int fuzz_plan_shrink(const char *in, const char *out);

#endif
