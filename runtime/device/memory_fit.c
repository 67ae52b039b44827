/* Checks whether a plan fits in device memory before anything is allocated, and lists options that would save
 * memory. */
#include "plan/plan_names.h"
#include "runtime/device/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TYPES = 64,  /* more than the number of types in base/storage/types.def */
    LEAST_CTX = 512, /* shortest context that is suggested */
    LEAST_SAVED = 64 /* savings below 1/64 of the total are not mentioned */
};

static const double mib = 1024.0 * 1024.0;

typedef struct needs {
    uint64_t heap, available; /* bytes: largest device-local heap, and free device memory */
    /* bytes and value counts of the used weights, by storage type */
    double type_bytes[MAX_TYPES], type_values[MAX_TYPES];
    double rows;                   /* bytes of caches with a row for every position */
    double q8_rows;                /* bytes that q8_0 caches would save */
    double q8_weights, q4_weights; /* bytes that q8_0 and q4_k weights would save */
} needs;

static double
count_saved_bytes(double bytes, double values, double bits)
{
    double less = values * bits / 8;
    return bytes > less ? bytes - less : 0;
}

static void
count_weights(const dop_plan *plan, const dop_memory_use *use, needs *n)
{
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        const dop_plan_tensor *t = &plan->tensors[i];
        if (!use->slots[t->slot] || t->type >= MAX_TYPES)
            continue;
        double bytes = (double)t->size * t->experts, values = (double)t->rows * t->cols * t->experts;
        n->type_bytes[t->type] += bytes;
        n->type_values[t->type] += values;
        if (t->rows > 1 && t->cols % 32 == 0)
            n->q8_weights += count_saved_bytes(bytes, values, 8.5);
        if (t->rows > 1 && t->cols % 256 == 0)
            n->q4_weights += count_saved_bytes(bytes, values, 4.5);
    }
}

/* True if a state can store q8_0 blocks instead of f16, judged by its line in the plan's IR, such as %kc:f16[Q,S,2,64]
 * = state "k". */
static bool
can_be_q8(const dop_plan *plan, const dop_plan_state *s)
{
    char key[256], line[256];
    if (!plan->ir || snprintf(key, sizeof key, "= state \"%s\"", dop_plan_string(plan, s->name)) >= (int)sizeof key)
        return false;
    const char *at = memmem(plan->ir, (size_t)plan->ir_size, key, strlen(key)), *from = at;
    while (from && from > plan->ir && from[-1] != '\n' && at - from < (ptrdiff_t)sizeof line - 1)
        from--;
    if (!from)
        return false;
    snprintf(line, sizeof line, "%.*s", (int)(at - from), from);
    const char *last = strrchr(line, ',');
    unsigned long width = last ? strtoul(last + 1, NULL, 10) : 0;
    return strstr(line, ":f16[") && width > 0 && width % 32 == 0;
}

static void
count_caches(const dop_plan *plan, const dop_memory_use *use, needs *n)
{
    const dop_plan_model *m = plan->model;
    for (uint32_t i = 0; i < plan->n_states; i++) {
        const dop_plan_state *s = &plan->states[i];
        if (!use->slots[s->slot] || plan->slots[s->slot].state != DOP_PLAN_STATE_APPEND)
            continue;
        double rows = s->paged ? (double)m->n_pages * m->page : (double)s->rows * m->n_sequences;
        double bytes = rows * (double)s->row_bytes;
        if (s->paged || s->rows >= m->ctx) /* a sliding window's size does not depend on the context */
            n->rows += bytes;
        if (can_be_q8(plan, s))
            n->q8_rows += bytes * (1 - 8.5 / 16);
    }
}

static void
add_saving_option(dop_buf *out, const char *option, double bytes, uint64_t total)
{
    if (bytes * LEAST_SAVED >= (double)total)
        dop_buf_printf(out, "%s%s saves %.1f MiB", out->size ? ", " : "", option, bytes / mib);
}

/* Lists the options in order of increasing cost to the user. */
static void
list_ways(const dop_memory *m, const dop_plan *plan, const needs *n, dop_buf *out)
{
    char option[64];
    const bool pool = plan->model->n_sequences > 1 && plan->model->page > 0;
    const uint32_t all = pool ? plan->model->n_pages * plan->model->page : plan->model->ctx;
    uint32_t less = all / 2;
    while (less / 2 >= LEAST_CTX && (double)m->total - n->rows * (all - less) / all > 0.9 * (double)n->available)
        less /= 2;
    snprintf(option, sizeof option, "%s %u", pool ? "`ctx_total`" : "`ctx`", less);
    if (less >= LEAST_CTX)
        add_saving_option(out, option, n->rows * (all - less) / all, m->total);
    add_saving_option(out, "`kv` q8_0", n->q8_rows, m->total);
    add_saving_option(out, "`quant` q8_0", n->q8_weights, m->total);
    add_saving_option(out, "`quant` q4_k", n->q4_weights, m->total);
}

static void
log_table(const dop_memory *m, const needs *n, const dop_log *log)
{
    dop_log_printf(log, "memory: %s", m->device->info.caps.name);
    for (uint32_t i = 0; i < MAX_TYPES; i++)
        if (n->type_values[i] > 0)
            dop_log_printf(log, "memory:   weights, %-4.3g bits each %10.1f MiB",
                           n->type_bytes[i] * 8 / n->type_values[i], n->type_bytes[i] / mib);
    const struct {
        const char *name;
        double bytes;
    } rows[] = {{"weights, all", (double)m->bytes[DOP_SLOT_WEIGHTS]},
                {"caches and states", (double)m->bytes[DOP_SLOT_STATE]},
                {"activations", (double)m->bytes[DOP_SLOT_SCRATCH]},
                {"results and steps", (double)(m->bytes[DOP_SLOT_RESULT] + m->bytes[DOP_SLOT_STEP] +
                                               m->bytes[DOP_SLOT_RECEIVED] + m->bytes[DOP_SLOT_SENT])},
                {"in all", (double)m->total},
                {"staging, of the host", m->written ? 0 : (double)DOP_UPLOAD_MOST_STAGING},
                {"the device's largest heap", (double)n->heap},
                {"free of it", (double)n->available}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        dop_log_printf(log, "memory:   %-23s %10.1f MiB", rows[i].name, rows[i].bytes / mib);
}

dop_status
dop_memory_check_fit(const dop_memory *memory, const dop_plan *plan, const dop_memory_use *use, uint64_t available,
                     const dop_log *log, dop_diag *diag)
{
    const dop_memory *m = memory;
    bool fits = m->total <= available, tight = (double)m->total > 0.9 * (double)available;
    needs n = {.heap = m->device->info.caps.memory, .available = available};
    dop_buf ways = {0};
    dop_status st = DOP_OK;
    if (tight || (log && log->line)) {
        count_weights(plan, use, &n);
        log_table(m, &n, log);
    }
    if (tight) {
        count_caches(plan, use, &n);
        list_ways(m, plan, &n, &ways);
    }
    const char *text = ways.size ? ways.data : "";
    if (!fits)
        st = DOP_FAIL(diag, DOP_E_DEVICE,
                      "the plan needs %.1f MiB of device memory (weights %.1f MiB, caches %.1f MiB for %u positions, "
                      "activations %.1f MiB) and %s has %.1f MiB free of %.1f: %s%s%schoose another `device`",
                      (double)m->total / mib, (double)m->bytes[DOP_SLOT_WEIGHTS] / mib,
                      (double)m->bytes[DOP_SLOT_STATE] / mib, plan->model->ctx,
                      (double)m->bytes[DOP_SLOT_SCRATCH] / mib, m->device->info.caps.name, (double)available / mib,
                      (double)n.heap / mib, *text ? "compile it again: " : "", text, *text ? ", or " : "");
    else if (tight)
        dop_log_printf(log, "memory: over 90%% of what is free%s%s", *text ? ": compiled again, " : "", text);
    else
        dop_log_printf(log, "memory: everything goes to the device, in %u allocations", m->n_blocks);
    dop_buf_finish(&ways);
    return st;
}
