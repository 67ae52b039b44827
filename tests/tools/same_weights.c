/* same_weights A B: do two plans give a device the same weights, wherever they are: in the plan or in the model's file?  Prints how many
 * bytes the second one leaves in files.  They are copied in pieces of many sizes, which begin anywhere.  Exit status 0: they do. */
#include "plan/plan.h"
#include "plan/plan_ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 30011 };

/* Copies the slot of plan b in pieces and compares it with that of plan a. */
static bool
same(const dop_plan *a, const dop_plan *b, uint32_t slot)
{
    const uint64_t size = a->slots[slot].size;
    uint8_t *of_a = malloc((size_t)size), *of_b = malloc((size_t)size);
    bool is = of_a && of_b && b->slots[slot].kind == a->slots[slot].kind && b->slots[slot].size == size;
    if (is)
        dop_plan_copy_slot(a, slot, 0, size, of_a);
    for (uint64_t at = 0, n; is && at < size; at += n) {
        n = at * 7 % PIECE + 1;
        n = n < size - at ? n : size - at;
        dop_plan_copy_slot(b, slot, at, n, of_b + at);
    }
    is = is && memcmp(of_a, of_b, (size_t)size) == 0;
    free(of_a);
    free(of_b);
    return is;
}

int
main(int argc, char **argv)
{
    dop_plan a = {0}, b = {0};
    dop_diag diag = {0};
    uint64_t shared = 0;
    bool is = argc == 3 && dop_plan_open(argv[1], &diag, &a) == DOP_OK && dop_plan_open(argv[2], &diag, &b) == DOP_OK &&
              dop_plan_verify_weights(&b, NULL, &diag) == DOP_OK && a.n_slots == b.n_slots;
    for (uint32_t i = 0; is && i < a.n_slots; i++)
        is = a.slots[i].kind != DOP_SLOT_WEIGHTS || same(&a, &b, i);
    for (uint32_t i = 0; is && i < b.n_ranges; i++)
        shared += dop_plan_range_bytes(&b.ranges[i]);
    printf("%llu\n", (unsigned long long)shared);
    if (!is)
        fprintf(stderr, "same_weights: %s\n", diag.message[0] ? diag.message : "the weights differ");
    dop_plan_close(&a);
    dop_plan_close(&b);
    return is ? 0 : 1;
}
