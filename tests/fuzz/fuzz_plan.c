/* libFuzzer target for the plan loader: the bytes as they are, and again with the digests put right, so that the fuzzer
 * gets behind them.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -I. tests/fuzz/fuzz_plan.c runtime/plan.c \
 *       runtime/plan_check.c runtime/disasm.c runtime/base.c -lxxhash -lpthread -o fuzz_plan
 *   ./fuzz_plan CORPUS_OF_SMALL_PLANS */
#include "runtime/plan.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try_open(const uint8_t *bytes, size_t size)
{
    dop_plan plan;
    dop_diag diag = {0};
    if (dop_plan_open_memory(bytes, size, &diag, &plan) != DOP_OK) {
        if (!diag.message[0] || strchr(diag.message, '\n'))
            abort();
        return;
    }
    dop_buf text = {0};
    dop_plan_disasm(&plan, &text);
    dop_buf_finish(&text);
    uint8_t sum = 0;
    for (uint32_t i = 0; i < plan.n_slots; i++)
        if (plan.slots[i].kind == DOP_SLOT_WEIGHTS)
            for (uint64_t at = 0; at < plan.slots[i].size; at += 61)
                sum = (uint8_t)(sum + dop_plan_slot_bytes(&plan, i)[at]);
    dop_plan_verify_weights(&plan, NULL, &diag);
    dop_plan_close(&plan);
    (void)sum;
}

static void
repair(uint8_t *bytes, size_t size)
{
    dop_plan_header *h = (dop_plan_header *)(void *)bytes;
    if (size < sizeof *h)
        return;
    memcpy(h->magic, DOP_PLAN_MAGIC, sizeof h->magic);
    h->version = DOP_PLAN_VERSION;
    h->file_size = size;
    h->n_sections %= 20;
    if (sizeof *h + h->n_sections * sizeof(dop_plan_section) > size)
        return;
    dop_plan_section *s = (dop_plan_section *)(void *)(bytes + sizeof *h);
    for (uint32_t i = 0; i < h->n_sections; i++)
        if (s[i].offset < size && s[i].size <= size - s[i].offset)
            s[i].digest = dop_plan_digest(bytes + s[i].offset, s[i].size);
    h->digest = dop_plan_header_digest(h, s, h->n_sections);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = aligned_alloc(16, (size + 16) & ~(size_t)15);
    if (!bytes)
        return 0;
    if (size)
        memcpy(bytes, data, size);
    try_open(bytes, size);
    repair(bytes, size);
    try_open(bytes, size);
    free(bytes);
    return 0;
}
