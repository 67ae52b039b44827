#include "tools/dopplerc/tune.h"

#include "compiler/schedule/region_facts.h"
#include "ir/graph/ops.h"
#include "kernels/descriptor.h"
#include "passes/fusion/region.h"
#include "tools/dopplerc/tune_memory.h"

#include <stdlib.h>
#include <string.h>

/* Limits by design: the first two bound the tuning time; with an odd number of rounds, the median is a measured
 * time. */
enum { MOST_WAYS = 24, MOST_SHAPES = 16, ROUNDS = 9 };
/* Maximum time of a candidate relative to the default; smaller gains may be noise. Single decode rounds deviate up
 * to 3% from their median (tests/bench/log/2026-11-22-builds-1882133.md). */
static const double worth = 0.97;

/* Shape of an op: `count` regions with equal kernel and grid, represented by `region`. */
typedef struct shape {
    dop_region_id region;
    uint32_t count;
} shape;

/* Candidate for an op: kernels for all its shapes, and the total time of all its regions in microseconds. */
typedef struct way {
    dop_selection choice[MOST_SHAPES];
    dop_kernel kernel[MOST_SHAPES];
    double us;
} way;

typedef struct tuner {
    dop_compilation c;
    dop_kernel_bench *bench;
    dop_diag *diag;
    const dop_schedule *s;
    const char *only; /* op to tune; NULL: all */
    uint32_t met;     /* number of ops to tune, counted per template and schedule */
    uint32_t n_shapes, n_ways;
    shape shapes[MOST_SHAPES];
    way ways[MOST_WAYS];
    dop_kernel_run runs[MOST_WAYS * MOST_SHAPES]; /* [n_ways][n_shapes] */
    double us[MOST_WAYS * MOST_SHAPES];
    dop_tune_memory memory;
    dop_buf out;
} tuner;

static const char *
op_of(const dop_schedule *s, dop_region_id r)
{
    return dop_region_label(&s->g, &s->g.regions[r]).role;
}

/* Finds the shapes of an op by grouping equal regions. Returns false if one rule cannot cover all regions: there are
 * too many shapes, or default kernels or tiles differ. */
static bool
find_shapes(tuner *t, const char *op, dop_template tpl)
{
    const dop_schedule *s = t->s;
    t->n_shapes = 0;
    for (dop_region_id r = 1; r < s->g.n_regions; r++) {
        uint32_t i = 0;
        if (s->g.regions[r].dead || s->g.regions[r].tpl != tpl || strcmp(op_of(s, r), op) != 0)
            continue;
        while (i < t->n_shapes &&
               (s->regions[t->shapes[i].region].kernel != s->regions[r].kernel ||
                memcmp(s->regions[t->shapes[i].region].grid, s->regions[r].grid, sizeof s->regions[r].grid) != 0))
            i++;
        const dop_selection *own = &s->regions[r].choice,
                            *first = &s->regions[t->n_shapes ? t->shapes[0].region : r].choice;
        if (i == MOST_SHAPES || own->variant != first->variant ||
            memcmp(&own->tile, &first->tile, sizeof own->tile) != 0)
            return false;
        if (i == t->n_shapes)
            t->shapes[t->n_shapes++] = (shape){r, 0};
        t->shapes[i].count++;
    }
    return true;
}

/* --- candidates
 * ---------------------------------------------------------------------------------------------------- */

static bool
is_known_way(const tuner *t, const way *w)
{
    for (uint32_t i = 0; i < t->n_ways; i++) {
        bool same = true;
        for (uint32_t k = 0; k < t->n_shapes; k++)
            same = same && strcmp(t->ways[i].kernel[k].glsl, w->kernel[k].glsl) == 0 &&
                   memcmp(t->ways[i].kernel[k].grid, w->kernel[k].grid, sizeof w->kernel[k].grid) == 0;
        if (same)
            return true;
    }
    return false;
}

/* Adds a candidate with its kernels and runs. Skips duplicates and candidates that cannot be built. The first
 * candidate is the default choice, which must be buildable. */
static dop_status
add_way(tuner *t, const dop_selection *choice)
{
    way *w = &t->ways[t->n_ways];
    dop_diag why = {0}, *diag = t->n_ways ? &why : t->diag;
    dop_status st = DOP_OK;
    if (t->n_ways == MOST_WAYS)
        return DOP_OK;
    memcpy(w->choice, choice, t->n_shapes * sizeof *choice);
    for (uint32_t k = 0; k < t->n_shapes && st == DOP_OK; k++)
        st = dop_kernel_generate(&t->c.templates, &t->s->g, &t->s->g.regions[t->shapes[k].region], t->c.target,
                                 &w->choice[k], NULL, diag, &w->kernel[k]);
    if (st == DOP_OK && is_known_way(t, w))
        return DOP_OK;
    for (uint32_t k = 0; k < t->n_shapes && st == DOP_OK; k++) {
        dop_kernel_run *run = &t->runs[t->n_ways * t->n_shapes + k];
        if ((st = dop_tune_place(&t->memory, &w->kernel[k], run)) == DOP_OK)
            st = dop_tune_compile(&t->memory, &w->kernel[k], diag, &run->kernel);
    }
    if (st != DOP_OK)
        return t->n_ways ? DOP_OK : st;
    t->n_ways++;
    return DOP_OK;
}

/* Tile fields that tuning may change if the kernel's descriptor allows it. */
static const int steps[] = {DOP_TILE_NO_rows, DOP_TILE_NO_lanes, DOP_TILE_NO_unroll, DOP_TILE_NO_wg};

/* Adds candidates with other tiles: for each changeable field, one with twice its value and one with half of it. */
static dop_status
add_tiles(tuner *t, const dop_selection *from)
{
    dop_selection choice[MOST_SHAPES];
    const uint32_t offered = dop_variant_of(from->variant)->descriptor->tunes;
    for (size_t i = 0; i < 2 * (sizeof steps / sizeof *steps); i++) {
        const int field = steps[i / 2];
        bool can = (offered >> field & 1) != 0;
        for (uint32_t k = 0; k < t->n_shapes && can; k++) {
            const dop_region *r = &t->s->g.regions[t->shapes[k].region];
            dop_tile *tile = &choice[k].tile;
            dop_tile_fault fault;
            choice[k] = from[k];
            choice[k].source = "--tune";
            const uint32_t value = dop_tile_get(tile, field);
            dop_tile_set(tile, field, i % 2 ? value / 2 : value * 2);
            dop_kernel_settle(from->variant, &t->s->g, r, t->c.target, tile);
            can = dop_kernel_legal(from->variant, &t->s->g, r, t->c.target, tile, &fault);
        }
        if (can)
            DOP_RETURN_IF_ERROR(add_way(t, choice));
    }
    return DOP_OK;
}

/* Adds all candidates: the default, other kernels that support all shapes and do not round more, and other tiles of
 * each. */
static dop_status
add_ways(tuner *t)
{
    const dop_built_region *first = &t->s->regions[t->shapes[0].region];
    const dop_variant *own = dop_variant_of(first->choice.variant);
    dop_selection choice[MOST_SHAPES];
    for (uint32_t k = 0; k < t->n_shapes; k++)
        choice[k] = t->s->regions[t->shapes[k].region].choice;
    DOP_RETURN_IF_ERROR(add_way(t, choice));
    for (int v = 1; v < DOP_VARIANT_COUNT; v++) {
        const dop_variant *other = dop_variant_of((dop_variant_id)v);
        const bool rounds = other->descriptor->ints || (other->caps & DOP_CAP_coop);
        bool can = other->tpl == own->tpl && (!rounds || other->descriptor->ints == own->descriptor->ints);
        for (uint32_t k = 0; k < t->n_shapes && can; k++) {
            dop_diag no = {0};
            const dop_region *r = &t->s->g.regions[t->shapes[k].region];
            can = !dop_kernel_fits((dop_variant_id)v, &t->s->g, r, t->c.target).why &&
                  dop_kernel_select(&t->s->g, r, t->c.target, other->name, &no, &choice[k]) == DOP_OK;
        }
        if (can)
            DOP_RETURN_IF_ERROR(add_way(t, choice));
        if (can && t->n_shapes)
            DOP_RETURN_IF_ERROR(add_tiles(t, choice));
    }
    return DOP_OK;
}

/* --- ops ------------------------------------------------------------------------------------------------------------- */

static void
report_best_way(tuner *t, const char *phase, const char *op, const way *best, void (*line)(const char *))
{
    const way *own = &t->ways[0];
    dop_buf entry = {0}, text = {0};
    bool other = best->choice[0].variant != own->choice[0].variant;
    if (best != own) {
        dop_tile usual = own->choice[0].tile;
        dop_selection again;
        dop_diag no = {0};
        const dop_region *r = &t->s->g.regions[t->shapes[0].region];
        const char *name = dop_variant_of(best->choice[0].variant)->name;
        if (other && dop_kernel_select(&t->s->g, r, t->c.target, name, &no, &again) == DOP_OK)
            usual = again.tile; /* the rule states only the difference from the kernel's default tile */
        dop_buf_printf(&entry, "  - {op: %s, template: %s, phase: %s, step: %u", op, dop_template_name(r->tpl), phase,
                       t->s->g.max_t);
        if (other)
            dop_buf_printf(&entry, ", variant: %s", name);
        for (int i = 0; i < DOP_TILE_FIELDS; i++) {
            const uint32_t value = dop_tile_get(&best->choice[0].tile, i);
            if (dop_tile_tuned(i) && value && value != dop_tile_get(&usual, i))
                dop_buf_printf(&entry, ", %s: %u", dop_tile_name(i), value);
        }
        dop_buf_printf(&t->out, "%s} # %.1f us, %.1f by default\n", entry.data ? entry.data : "", best->us, own->us);
    }
    if (line) {
        dop_buf_printf(&text, "%s %s: %.1f us, best of %u ways %.1f us (%s)", dop_schedule_name(t->s), op, own->us,
                       t->n_ways, best->us,
                       best == own ? "the default" : dop_variant_of(best->choice[0].variant)->name);
        line(text.data ? text.data : "");
    }
    dop_buf_finish(&entry);
    dop_buf_finish(&text);
}

static dop_status
tune_op(tuner *t, const char *op, dop_template tpl, void (*line)(const char *))
{
    t->n_ways = 0;
    dop_tune_memory_clear(&t->memory);
    if (!find_shapes(t, op, tpl))
        return DOP_OK;
    dop_status st = add_ways(t);
    if (st != DOP_OK || t->n_ways < 2)
        return st;
    st = dop_tune_memory_make(&t->memory, t->runs, t->n_ways * t->n_shapes);
    if (st == DOP_OK)
        st = dop_kernel_bench_time(t->bench, t->runs, t->n_ways * t->n_shapes, ROUNDS, t->diag, t->us);
    if (st != DOP_OK)
        return st;
    way *best = &t->ways[0];
    for (uint32_t i = 0; i < t->n_ways; i++) {
        t->ways[i].us = 0;
        for (uint32_t k = 0; k < t->n_shapes; k++)
            t->ways[i].us += t->us[i * t->n_shapes + k] * t->shapes[k].count;
        if (t->ways[i].us < worth * t->ways[0].us && (best == &t->ways[0] || t->ways[i].us < best->us))
            best = &t->ways[i];
    }
    report_best_way(t, t->s->phase == DOP_PHASE_DECODE ? "decode" : "prefill", op, best, line);
    return DOP_OK;
}

/* Tunes each pair of op and template of a schedule once, at its first region. */
static dop_status
tune_schedule(tuner *t, const dop_schedule *s, void (*line)(const char *))
{
    t->s = s;
    dop_status st = DOP_OK;
    DOP_TRY(dop_tune_memory_init(&t->c, s, t->bench, t->diag, &t->memory));
    for (dop_region_id r = 1; r < s->g.n_regions; r++) {
        const char *op = op_of(s, r);
        bool first = !s->g.regions[r].dead;
        for (dop_region_id k = 1; k < r && first; k++)
            first = s->g.regions[k].dead || s->g.regions[k].tpl != s->g.regions[r].tpl || strcmp(op_of(s, k), op) != 0;
        if (first && t->only && strcmp(t->only, op) != 0)
            continue;
        t->met += first;
        if (first)
            DOP_TRY(tune_op(t, op, s->g.regions[r].tpl, line));
    }
error:
    dop_tune_memory_finish(&t->memory);
    return st;
}

dop_status
dop_tune(const char *model, const dop_compilation_options *options, const char *only, const char *out_path,
         void (*line)(const char *text), dop_diag *diag)
{
    dop_compilation_options o = *options;
    dop_measured here;
    tuner *t = calloc(1, sizeof *t);
    if (!t)
        return DOP_NO_MEMORY(diag);
    t->diag = diag;
    t->only = only;
    o.no_spirv = true;
    o.tuning = NULL;
    dop_status st = dop_compilation_make(model, &o, diag, &t->c);
    if (st != DOP_OK) {
        free(t);
        return st;
    }
    if ((st = dop_kernel_bench_open(diag, &t->bench)) == DOP_OK) {
        const dop_device_caps *d = dop_kernel_bench_caps(t->bench);
        const uint32_t missing = dop_caps_missing(t->c.target->caps, d->caps);
        if (missing)
            st = DOP_FAIL(diag, DOP_E_DEVICE,
                          "--tune measures on the device at hand, %s, which is no %s: leave --target out", d->name,
                          t->c.target->name);
        if (st == DOP_OK)
            st = dop_measured_here(d, &t->c.templates, &t->c.arena, diag, &here);
        if (st == DOP_OK)
            dop_buf_printf(&t->out, "measured: {device: \"%s\", driver: \"%s\", kernels: \"%s\"}\nrules:\n",
                           here.device, here.driver, here.kernels);
    }
    for (uint32_t i = 0; i < t->c.n_schedules && st == DOP_OK; i++)
        if (t->c.schedules[i].phase != DOP_PHASE_SCORE)
            st = tune_schedule(t, &t->c.schedules[i], line);
    if (st == DOP_OK && t->only && !t->met)
        st = DOP_FAIL(diag, DOP_E_USAGE,
                      "--tune=%s: no region here is %s; known are a label's last parts, as qkv, o, head", t->only,
                      t->only);
    if (st == DOP_OK && t->out.failed)
        st = DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st = dop_write_file(out_path, t->out.data, t->out.size, diag);
    dop_kernel_bench_close(t->bench);
    dop_buf_finish(&t->out);
    dop_compilation_finish(&t->c);
    free(t);
    return st;
}
