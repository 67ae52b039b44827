/* edit_plan IN OUT OLD NEW: a plan with OLD replaced by NEW, of the same length, wherever its graphs say it; digests are
 * put right, so that only the contradiction is left.
 * edit_plan IN OUT --workgroups N: the same plan with N workgroups in its persistent dispatches, for devices that run no
 * more of them at once.
 * edit_plan IN OUT --shift N: the same plan, whose persistent stage N reads its largest weights from 64 bytes further on.
 * edit_plan IN OUT --short N: the same plan, whose stages take a cache for short up to N positions (0: never). */
#include "plan/plan_format.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static int
fail(const char *what)
{
    fprintf(stderr, "edit_plan: %s\n", what);
    return 1;
}

static dop_plan_section *
section(uint8_t *file, uint32_t kind)
{
    dop_plan_header *h = (dop_plan_header *)(void *)file;
    dop_plan_section *s = (dop_plan_section *)(void *)(file + sizeof *h);
    for (uint32_t i = 0; i < h->n_sections; i++)
        if (s[i].kind == kind)
            return &s[i];
    return NULL;
}

/* How many persistent dispatches have n workgroups, or stages n positions, now. */
static unsigned
set_persistent(uint8_t *file, bool workgroups, uint32_t n)
{
    dop_plan_section *schedules = section(file, DOP_SEC_SCHEDULES), *dispatches = section(file, DOP_SEC_DISPATCHES);
    unsigned changed = 0;
    if (!schedules || !dispatches)
        return 0;
    const dop_plan_schedule *s = (dop_plan_schedule *)(void *)(file + schedules->offset);
    dop_plan_dispatch *d = (dop_plan_dispatch *)(void *)(file + dispatches->offset);
    for (uint64_t i = 0; i < schedules->size / sizeof *s; i++)
        if (s[i].n_stages > 0 && workgroups) {
            d[s[i].first_dispatch].grid[0] = n;
            changed++;
        } else {
            for (uint32_t k = 0; k < s[i].n_stages; k++)
                if (d[s[i].first_stage + k].short_positions > 0) {
                    d[s[i].first_stage + k].short_positions = n;
                    changed++;
                }
        }
    dispatches->digest = XXH3_64bits(file + dispatches->offset, dispatches->size);
    return changed;
}

/* Stage n of every persistent schedule reads its largest weights from elsewhere.  How many do. */
static unsigned
shift_weights(uint8_t *file, uint32_t n)
{
    enum { BY = 64 };
    dop_plan_section *schedules = section(file, DOP_SEC_SCHEDULES), *args = section(file, DOP_SEC_ARGS);
    const dop_plan_schedule *s = (dop_plan_schedule *)(void *)(file + schedules->offset);
    const dop_plan_slot *slots = (dop_plan_slot *)(void *)(file + section(file, DOP_SEC_SLOTS)->offset);
    const dop_plan_dispatch *d = (dop_plan_dispatch *)(void *)(file + section(file, DOP_SEC_DISPATCHES)->offset);
    unsigned changed = 0;
    for (uint64_t i = 0; i < schedules->size / sizeof *s; i++) {
        dop_plan_arg *most = NULL;
        for (uint32_t k = 0; n < s[i].n_stages && k < d[s[i].first_stage + n].n_args; k++) {
            dop_plan_arg *a = (dop_plan_arg *)(void *)(file + args->offset) + d[s[i].first_stage + n].first_arg + k;
            if (a->slot != DOP_ARG_NUMBERS && slots[a->slot].kind == DOP_SLOT_WEIGHTS && a->size > BY &&
                (!most || a->size > most->size))
                most = a;
        }
        if (most) {
            most->offset += BY;
            most->size -= BY;
            changed++;
        }
    }
    args->digest = XXH3_64bits(file + args->offset, args->size);
    return changed;
}

int
main(int argc, char **argv)
{
    bool shift = argc == 5 && strcmp(argv[3], "--shift") == 0;
    bool workgroups = argc == 5 && strcmp(argv[3], "--workgroups") == 0;
    bool number = workgroups || shift || (argc == 5 && strcmp(argv[3], "--short") == 0);
    if (argc != 5 || (!number && strlen(argv[3]) != strlen(argv[4])))
        return fail("usage: edit_plan IN OUT OLD NEW, OLD and NEW of one length");
    FILE *in = fopen(argv[1], "rb");
    if (!in || fseek(in, 0, SEEK_END) != 0)
        return fail("cannot read");
    long size = ftell(in);
    rewind(in);
    uint8_t *file = size > 0 ? malloc((size_t)size) : NULL;
    if (!file || fread(file, 1, (size_t)size, in) != (size_t)size)
        return fail("cannot read");
    fclose(in);
    dop_plan_header *h = (dop_plan_header *)(void *)file;
    dop_plan_section *s = (dop_plan_section *)(void *)(file + sizeof *h);
    uint32_t n = number ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    unsigned changed = shift ? shift_weights(file, n) : number ? set_persistent(file, workgroups, n) : 0;
    for (uint32_t i = 0; i < h->n_sections && !number; i++) {
        if (s[i].kind != DOP_SEC_IR)
            continue;
        size_t len = strlen(argv[3]);
        for (uint8_t *p = file + s[i].offset, *end = p + s[i].size; p + len <= end; p++)
            if (memcmp(p, argv[3], len) == 0) {
                memcpy(p, argv[4], len);
                changed++;
            }
        s[i].digest = XXH3_64bits(file + s[i].offset, s[i].size);
    }
    h->digest = 0;
    XXH3_state_t *x = XXH3_createState();
    XXH3_64bits_reset(x);
    XXH3_64bits_update(x, h, sizeof *h);
    XXH3_64bits_update(x, s, h->n_sections * sizeof *s);
    h->digest = XXH3_64bits_digest(x);
    XXH3_freeState(x);
    FILE *out = fopen(argv[2], "wb");
    if (!out || fwrite(file, 1, (size_t)size, out) != (size_t)size || fclose(out) != 0)
        return fail("cannot write");
    free(file);
    return changed ? 0 : fail("the plan does not say it");
}
