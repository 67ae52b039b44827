/* Assembles small plans by hand, for tests of the runtime that need no compiler: sections as growable buffers, kernels
 * from GLSL, digests at the end. */
#ifndef DOPPLER_TESTS_UNIT_PLAN_BUILDER_H
#define DOPPLER_TESTS_UNIT_PLAN_BUILDER_H

#include "plan/plan.h"

typedef struct plan_builder {
    dop_buf sections[DOP_SEC_LIMIT]; /* by DOP_SEC_*; empty ones are left out */
} plan_builder;

void plan_builder_init(plan_builder *b);
void plan_builder_finish(plan_builder *b);

uint32_t pb_string(plan_builder *b, const char *s);
/* Appends a row and returns its index. */
uint32_t pb_row(plan_builder *b, uint32_t section, const void *row, size_t row_bytes);
#define PB_ROW(b, name, ...) pb_row((b), DOP_SEC_##name, &(__VA_ARGS__), sizeof(__VA_ARGS__))
/* Compiles GLSL (Vulkan 1.2 compute) and appends its kernel row; local size x only. */
uint32_t pb_kernel(plan_builder *b, const char *name, const char *glsl, uint32_t local_x, uint32_t n_args);
uint32_t pb_slot(plan_builder *b, uint32_t kind, const char *name, uint64_t size);
uint32_t pb_arg(plan_builder *b, uint32_t slot, uint64_t offset, uint64_t size);
/* Row i of a section, to be changed. */
void *pb_at(plan_builder *b, uint32_t section, uint32_t row, size_t row_bytes);
#define PB_AT(b, name, type, row) ((type *)pb_at((b), DOP_SEC_##name, (row), sizeof(type)))

/* The file: header, table, sections, digests.  Aligned to 16 bytes; finish the buffer when done. */
void pb_build(plan_builder *b, dop_buf *out);
/* Writes the file to a new path, which takes the place of the XXXXXX at the end of `path`. */
void pb_write(plan_builder *b, char *path);
/* Puts right all digests of a file whose bytes were changed. */
void pb_redigest(uint8_t *file);

/* A toy language model: 64 tokens, context 128.  state[pos] = token; h = sum over p of (p + 1) * state[p], mod 64;
 * logits[v] = W[h][v].  Schedules: decode, prefill of 8 and of 32, score of 8; slots: weights, state, step, result. */
enum { TOY_VOCAB = 64, TOY_CTX = 128 };
void pb_toy(plan_builder *b);
/* The same for several sequences, with a schedule for 4 rows of any; the plan lists its state then. */
void pb_toy_of(plan_builder *b, uint32_t n_sequences);
/* Adds a persistent decode schedule, the last row of SCHEDULES: like the other one, as one stage with a mailbox and a
 * dispatch that picks.  From run stall_at on waits run out, and from then on the picks are wrong: UINT32_MAX for never.  A
 * mailbox that is not empty before a step (a run that was half a one, or an incomplete reset) shows as a stall too.
 * Logits of odd tokens are `nudge` larger than they should be. */
void pb_toy_persistent(plan_builder *b, uint32_t stall_at, float nudge);
/* The heads of the schedules that pick get 20 arguments each, in a parameter record.  Returns the slot of the first one's; the others
 * follow it. */
uint32_t pb_toy_record(plan_builder *b);
float toy_weight(uint32_t h, uint32_t v);
/* Logits after n tokens, [TOY_VOCAB]. */
void toy_logits(const uint32_t *tokens, size_t n, float *out);
uint32_t toy_argmax(const uint32_t *tokens, size_t n);

#endif
