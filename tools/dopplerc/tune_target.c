#include "tools/dopplerc/tune_target.h"

#include "base/os/clock.h"
#include "base/os/system.h"
#include "compiler/schedule/region_facts.h"
#include "compiler/target/target.h"
#include "passes/fusion/region.h"
#include "tools/dopplerc/tune_memory.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MOST_TIMED = 1 << 15, ROUNDS = 5, LAST_ROUNDS = 15, MOST_STEPS = DOP_MAX_SCHEDULES, MOST_NEW = 512 };
/* Maximum time of all steps with a change, relative to the time without it; smaller gains may be noise. */
static const double worth = 0.995;
/* Maximum time of any single step, relative to its time before the change. */
static const double most_worse = 1.01;
static const double most_ms = 14 * 60 * 1000;

/* Kernel with its grid and numbers, identified by a digest, and its time in microseconds; us < 0: cannot be built. */
typedef struct timed {
    uint64_t key;
    double us;
} timed;

/* Times of a plan's steps in microseconds. */
typedef struct times {
    uint32_t n;
    double us[MOST_STEPS];
    char name[MOST_STEPS][24];
} times;

typedef struct tuner {
    const char *model;
    dop_compilation_options options;
    dop_target builtin, base, now; /* builtin: the built-in target with base's name */
    dop_kernel_bench *bench;
    dop_diag *diag;
    timed *table; /* owned, [MOST_TIMED], open addressing by key */
    uint32_t n_timed;
    dop_kernel_run runs[MOST_NEW];
    uint64_t keys[MOST_NEW];
    double us[MOST_NEW];
    times before, best;
    double start_ms, bytes_per_us; /* bytes_per_us: highest read rate of any kernel */
    void (*line)(const char *);
} tuner;

static timed *
find_timed_kernel(tuner *t, uint64_t key)
{
    uint32_t i = (uint32_t)(key % MOST_TIMED);
    while (t->table[i].key && t->table[i].key != key)
        i = (i + 1) % MOST_TIMED;
    return &t->table[i];
}

static void
keep_kernel_time(tuner *t, uint64_t key, double us)
{
    timed *x = find_timed_kernel(t, key);
    t->n_timed += x->key == 0;
    *x = (timed){key, us};
}

/* True if the schedule is measured. Schedules that return logits or hidden states of all rows use the kernels of
 * other schedules. */
static bool
is_measured_schedule(const dop_schedule *s)
{
    return s->phase != DOP_PHASE_SCORE || s->mixed;
}

static dop_status
generate_keyed_kernel(dop_compilation *c, const dop_schedule *s, dop_region_id r, dop_diag *diag, dop_kernel *out,
                      uint64_t *out_key)
{
    dop_status st =
        dop_kernel_generate(&c->templates, &s->g, &s->g.regions[r], c->target, &s->regions[r].choice, NULL, diag, out);
    if (st != DOP_OK)
        return st;
    uint64_t key = XXH3_64bits_withSeed(out->glsl, strlen(out->glsl), s->g.max_t);
    key = XXH3_64bits_withSeed(out->grid, sizeof out->grid, key);
    for (uint32_t i = 0; i < out->n_args; i++) {
        const dop_kernel_arg *a = &out->args[i];
        const uint64_t bytes = a->numbers ? 0 : a->value ? dop_node_bytes(&s->g, a->value) : a->bytes;
        const uint64_t what[] = {a->numbers, a->number[0], a->number[1], bytes};
        key = XXH3_64bits_withSeed(what, sizeof what, key);
    }
    *out_key = key ? key : 1;
    return DOP_OK;
}

/* Times the kernels of a schedule that are not in the table, or all if `again`. out_keys[n_regions]: kernel key of
 * each region; 0: dead region. */
static dop_status
time_new(tuner *t, dop_compilation *c, const dop_schedule *s, uint32_t rounds, bool again, uint64_t *out_keys)
{
    dop_tune_memory m;
    uint32_t n = 0;
    dop_status st = dop_tune_memory_init(c, s, t->bench, t->diag, &m);
    for (dop_region_id r = 1; r < s->g.n_regions && st == DOP_OK; r++) {
        dop_kernel k;
        dop_diag why = {0};
        if (s->g.regions[r].dead || (st = generate_keyed_kernel(c, s, r, t->diag, &k, &out_keys[r])) != DOP_OK)
            continue;
        bool known = !again && find_timed_kernel(t, out_keys[r])->key != 0;
        for (uint32_t i = 0; i < n && !known; i++)
            known = t->keys[i] == out_keys[r];
        if (known)
            continue;
        if (n == MOST_NEW || t->n_timed + n + 1 > MOST_TIMED / 2)
            st = DOP_FAIL(t->diag, DOP_E_INPUT, "--target-out: the model has more kernels than can be timed");
        else if ((st = dop_tune_place(&m, &k, &t->runs[n])) == DOP_OK) {
            if (dop_tune_compile(&m, &k, &why, &t->runs[n].kernel) == DOP_OK)
                t->keys[n++] = out_keys[r];
            else
                keep_kernel_time(t, out_keys[r], -1);
        }
    }
    if (st == DOP_OK && n > 0 && (st = dop_tune_memory_make(&m, t->runs, n)) == DOP_OK)
        st = dop_kernel_bench_time(t->bench, t->runs, n, rounds, t->diag, t->us);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++)
        keep_kernel_time(t, t->keys[i], t->us[i]);
    dop_tune_memory_finish(&m);
    return st;
}

/* Returns the total time of a schedule's kernels and barriers, or a negative value if a kernel cannot be built. */
static double
add_up_kernel_times(tuner *t, const dop_compilation *c, const dop_schedule *s, const uint64_t *keys)
{
    double sum = 0;
    for (dop_region_id r = 1; r < s->g.n_regions; r++) {
        uint64_t reads, writes;
        if (keys[r] == 0)
            continue;
        const double us = find_timed_kernel(t, keys[r])->us;
        if (us < 0)
            return -1;
        sum += us + c->target->dispatch_us + (s->placement.barrier[r] ? c->target->barrier_us : 0);
        dop_region_traffic(&s->g, &s->g.regions[r], 0, &reads, &writes);
        if (reads > 64u << 20 && us > 0 && (double)reads / us > t->bytes_per_us)
            t->bytes_per_us = (double)reads / us;
    }
    return sum;
}

/* Compiles the model for a target and measures its steps. *out_good: true if all kernels can be built. */
static dop_status
measure_target_steps(tuner *t, const dop_target *target, uint32_t rounds, bool again, times *out, bool *out_good)
{
    dop_compilation c;
    dop_compilation_options o = t->options;
    dop_diag why = {0};
    o.target = target;
    out->n = 0;
    *out_good = false;
    dop_status st = dop_compilation_make(t->model, &o, &why, &c);
    if (st != DOP_OK) { /* the numbers leave an op without a kernel */
        if (t->before.n == 0)
            *t->diag = why;
        return t->before.n == 0 ? st : DOP_OK;
    }
    *out_good = true;
    for (uint32_t i = 0; i < c.n_schedules && st == DOP_OK; i++) {
        const dop_schedule *s = &c.schedules[i];
        if (!is_measured_schedule(s))
            continue;
        uint64_t *keys = dop_arena_alloc(&c.arena, s->g.n_regions * sizeof *keys);
        st = keys ? time_new(t, &c, s, rounds, again, keys) : DOP_NO_MEMORY(t->diag);
        if (st == DOP_OK)
            out->us[out->n] = add_up_kernel_times(t, &c, s, keys);
        snprintf(out->name[out->n], sizeof out->name[0], "%s", dop_schedule_name(s));
        *out_good = *out_good && out->us[out->n] >= 0;
        out->n++;
    }
    dop_compilation_finish(&c);
    return st;
}

/* Returns the total time relative to before, with steps equally weighted, or 2 if one step is much slower. */
static double
get_time_ratio(const times *now, const times *before)
{
    double sum = 0;
    for (uint32_t i = 0; i < now->n; i++) {
        if (now->us[i] > before->us[i] * most_worse)
            return 2;
        sum += now->us[i] / before->us[i];
    }
    return sum / now->n;
}

static bool
out_of_time(const tuner *t)
{
    return dop_now_ms() - t->start_ms > most_ms;
}

/* Measures a candidate and keeps it if it is faster. */
static dop_status
try_candidate(tuner *t, const dop_target *candidate, const char *name, const char *what, bool *out_kept)
{
    times now = {0};
    bool good;
    *out_kept = false;
    dop_status st = measure_target_steps(t, candidate, ROUNDS, false, &now, &good);
    if (st != DOP_OK || !good)
        return st;
    const double s = get_time_ratio(&now, &t->best);
    if (s >= worth)
        return DOP_OK;
    *out_kept = true;
    t->now = *candidate;
    t->best = now;
    if (t->line) {
        dop_buf text = {0};
        dop_buf_printf(&text, "%s %s: %.1f%% less time", name, what, 100 * (1 - s));
        t->line(text.data ? text.data : "");
        dop_buf_finish(&text);
    }
    return DOP_OK;
}

/* Doubles and halves a number as long as that helps. */
static dop_status
tune_number(tuner *t, uint32_t i)
{
    for (int down = 0; down < 2; down++) {
        bool kept = true, any = false;
        while (kept && !out_of_time(t)) {
            dop_target candidate = t->now;
            const char *name;
            uint32_t least;
            uint32_t *at = dop_schedule_number(&candidate.schedule, i, &name, &least);
            const uint32_t value = down ? *at / 2 : *at * 2;
            char what[24];
            if (value == *at || value < least || value > 1u << 20)
                break;
            *at = value;
            snprintf(what, sizeof what, "%u", value);
            DOP_RETURN_IF_ERROR(try_candidate(t, &candidate, name, what, &kept));
            any = any || kept;
        }
        if (any)
            break;
    }
    return DOP_OK;
}

/* Removes rows from a table as long as that helps. */
static dop_status
tune_table(tuner *t, uint32_t table)
{
    dop_status st = DOP_OK;
    for (uint32_t row = 0; row < dop_schedule_table_rows(&t->now.schedule, table) && st == DOP_OK && !out_of_time(t);) {
        dop_target candidate = t->now;
        bool kept = false;
        char what[32];
        snprintf(what, sizeof what, "without row %u", row + 1);
        if (dop_schedule_table_drop(&candidate.schedule, table, row))
            st = try_candidate(t, &candidate, dop_schedule_table_name(table), what, &kept);
        row += !kept;
    }
    return st;
}

/* Sets the target's bandwidth to the highest measured read rate, unless steps get slower: it affects fusion
 * decisions. */
static dop_status
tune_bandwidth(tuner *t)
{
    dop_target candidate = t->now;
    times now = {0};
    bool good = false;
    if (t->bytes_per_us == 0) /* no kernel reads enough data */
        return DOP_OK;
    candidate.bandwidth = t->bytes_per_us * 1e6;
    dop_status st = measure_target_steps(t, &candidate, ROUNDS, false, &now, &good);
    if (st != DOP_OK || !good || get_time_ratio(&now, &t->best) > 1)
        return st;
    t->now = candidate;
    t->best = now;
    return DOP_OK;
}

/* Times the steps of both targets again, and restores the old numbers if the new ones are not better. */
static dop_status
judge_tuned_target(tuner *t)
{
    bool good;
    dop_status st = measure_target_steps(t, &t->base, LAST_ROUNDS, true, &t->before, &good);
    if (st == DOP_OK)
        st = measure_target_steps(t, &t->now, LAST_ROUNDS, true, &t->best, &good);
    if (st != DOP_OK || (good && get_time_ratio(&t->best, &t->before) <= 1))
        return st;
    if (t->line && memcmp(&t->now, &t->base, sizeof t->now) != 0)
        t->line("measured again, the numbers were no better than before: they stay as they were");
    t->now = t->base;
    t->best = t->before;
    return DOP_OK;
}

static dop_status
write_target(const tuner *t, const char *path)
{
    const dop_device_caps *d = dop_kernel_bench_caps(t->bench);
    const char *file = dop_path_name(path);
    dop_buf out = {0}, numbers = {0};
    dop_buf_printf(
        &out, "# Made by dopplerc --tune --target-out on %s, driver %s.  Microseconds of steps, before and now:\n#",
        d->name, d->driver);
    for (uint32_t i = 0; i < t->best.n; i++)
        dop_buf_printf(&out, "%s %s %.0f, %.0f", i ? ";" : "", t->best.name[i], t->before.us[i], t->best.us[i]);
    dop_buf_printf(&out, "\nbase: %s\nname: %.*s\n", t->base.name, (int)strcspn(file, "."), file);
    dop_buf_printf(&out, "devices: {vendor: 0x%04x, ids: [0x%04x]}\n", d->vendor_id, d->device_id);
    dop_target_print(&t->builtin, &t->now, &out);
    if (dop_schedule_print(&t->builtin.schedule, &t->now.schedule, &numbers) > 0)
        dop_buf_printf(&out, "schedule:\n%s", numbers.data);
    dop_status st =
        out.failed || numbers.failed ? DOP_NO_MEMORY(t->diag) : dop_write_file(path, out.data, out.size, t->diag);
    dop_buf_finish(&out);
    dop_buf_finish(&numbers);
    return st;
}

static dop_status
tune_all(tuner *t, void (*progress)(double done))
{
    const uint32_t n = dop_schedule_count(), tables = dop_schedule_table_count();
    bool good;
    dop_status st = measure_target_steps(t, &t->base, ROUNDS, false, &t->best, &good);
    t->before = t->best;
    for (uint32_t i = 0; i < n + tables && st == DOP_OK && !out_of_time(t); i++) {
        if (progress)
            progress((double)i / (n + tables));
        st = i < tables ? tune_table(t, i) : tune_number(t, i - tables);
    }
    if (st == DOP_OK && out_of_time(t) && t->line)
        t->line("14 minutes are over: the other numbers stay as they are");
    if (progress)
        progress(1);
    if (st == DOP_OK)
        st = tune_bandwidth(t);
    return st == DOP_OK ? judge_tuned_target(t) : st;
}

dop_status
dop_tune_target(const char *model, const dop_compilation_options *options, const char *out_path,
                void (*line)(const char *text), void (*progress)(double done), dop_diag *diag)
{
    tuner *t = calloc(1, sizeof *t);
    dop_status st = DOP_OK;
    if (!t || !(t->table = calloc(MOST_TIMED, sizeof *t->table)))
        DOP_TRY(DOP_NO_MEMORY(diag));
    t->model = model;
    t->options = *options;
    t->options.no_spirv = true;
    t->options.tuning = NULL;
    t->options.progress = (dop_progress){NULL, NULL};
    t->diag = diag;
    t->line = line;
    t->start_ms = dop_now_ms();
    t->base = t->now = *options->target;
    DOP_TRY(dop_target_resolve(t->base.name, diag, &t->builtin));
    DOP_TRY(dop_kernel_bench_open(diag, &t->bench));
    if (dop_caps_missing(t->base.caps, dop_kernel_bench_caps(t->bench)->caps))
        DOP_TRY(DOP_FAIL(diag, DOP_E_DEVICE,
                         "--tune measures on the device at hand, %s, which is no %s: leave --target out",
                         dop_kernel_bench_caps(t->bench)->name, t->base.name));
    DOP_TRY(tune_all(t, progress));
    DOP_TRY(write_target(t, out_path));
error:
    if (t) {
        dop_kernel_bench_close(t->bench);
        free(t->table);
    }
    free(t);
    return st;
}
