/* Summary line of dopplerc: output file, elapsed time, device memory, and conversions of weights. */
#include "base/os/clock.h"
#include "compiler/report/report.h"
#include "plan/plan_names.h"
#include "runtime/model/info.h"
#include "tools/dopplerc/cli.h"

#include <stdio.h>
#include <string.h>

enum { MOST_KINDS = 16 };

/* Matrices with the same types in the model and in the plan; both may be equal. */
typedef struct conversion {
    dop_type from, to;
    uint32_t count;
    uint64_t bytes; /* size in the plan */
} conversion;

/* Counts a packed matrix. first: the first or only piece of its weight. Returns false if the list is full. */
static bool
count_weight(conversion *list, uint32_t *io_n, const dop_packed *x, bool first)
{
    uint32_t k = 0;
    while (k < *io_n && (list[k].from != x->source->type || list[k].to != x->type))
        k++;
    if (k == MOST_KINDS)
        return false;
    if (k == *io_n)
        list[(*io_n)++] = (conversion){.from = x->source->type, .to = x->type};
    list[k].count += first;
    list[k].bytes += x->size;
    return true;
}

/* Orders conversions: unchanged types first, then by decreasing size. */
static bool
is_listed_before(const conversion *a, const conversion *b)
{
    const bool kept = a->from == a->to, other = b->from == b->to;
    return kept != other ? kept : a->bytes > b->bytes;
}

/* Appends the types of all matrices, such as "q4_k (7.10 GiB), f16 -> q8_0 (2 tensors, 1.50 MiB)". */
static void
append_weight_types(const dop_pack *p, dop_buf *out)
{
    conversion list[MOST_KINDS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const dop_packed *x = &p->items[i];
        bool first = true; /* a weight may be packed in several pieces */
        if (!x->source || x->source->rank < 2)
            continue;
        for (uint32_t k = 0; k < i && first && x->from.first; k++)
            first = p->items[k].source != x->source;
        if (!count_weight(list, &n, x, first))
            break;
    }
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k > 0 && is_listed_before(&list[k], &list[k - 1]); k--) {
            const conversion moved = list[k];
            list[k] = list[k - 1];
            list[k - 1] = moved;
        }
    for (uint32_t i = 0; i < n; i++) {
        const conversion *x = &list[i];
        char bytes[32];
        dop_report_bytes((double)x->bytes, bytes, sizeof bytes);
        dop_buf_printf(out, "%s%s", i ? ", " : "", dop_type_of(x->from)->name);
        if (x->from == x->to)
            dop_buf_printf(out, " (%s)", bytes);
        else
            dop_buf_printf(out, " -> %s (%u tensor%s, %s)", dop_type_of(x->to)->name, x->count,
                           x->count == 1 ? "" : "s", bytes);
    }
}

/* Appends the device memory of each target of a plan, computed as for doppler-exec --info. */
static void
append_device_memory(const dop_plan *plan, dop_buf *out)
{
    for (uint32_t i = 0; i < plan->n_profiles; i++) {
        uint64_t kinds[DOP_SLOT_KINDS], all = 0;
        char bytes[32];
        if (dop_used_memory(plan, i, NULL, kinds) != DOP_OK)
            return;
        for (uint32_t k = 0; k < DOP_SLOT_KINDS; k++)
            all += kinds[k];
        dop_buf_printf(out, "%s%s", out->size ? ", " : "", dop_report_bytes((double)all, bytes, sizeof bytes));
        if (plan->n_profiles > 1)
            dop_buf_printf(out, " (%s)", dop_plan_string(plan, plan->profiles[i].name));
    }
}

void
dop_cli_say_summary(const dop_compiler_cli *o, const dop_compile_job *job, double start_ms)
{
    dop_buf types = {0}, memory = {0};
    dop_compile_facts facts;
    char bytes[32] = "";
    if (o->quiet || !o->output)
        return;
    dop_compile_job_facts(job, o->output, &facts);
    for (uint32_t i = 0; i < facts.n_parts && facts.bytes; i++) { /* a pipe cannot be read back */
        dop_plan plan;
        if (dop_plan_open_part(o->output, job->parts ? facts.n_parts : 0, i, NULL, &plan) != DOP_OK)
            continue;
        append_device_memory(&plan, &memory);
        dop_plan_close(&plan);
    }
    if (facts.bytes)
        dop_report_bytes((double)facts.bytes, bytes, sizeof bytes);
    append_weight_types(&job->list[0].pack, &types);
    fprintf(stderr, "dopplerc: %s: %s%sin %.1f s", o->output, bytes, facts.bytes ? " " : "",
            (dop_now_ms() - start_ms) / 1e3);
    if (memory.size && !memory.failed)
        fprintf(stderr, "; %s on the device%s", memory.data, job->parts ? "s of the parts" : "");
    if (types.size && !types.failed)
        fprintf(stderr, "; weights %s", types.data);
    fputs("\n", stderr);
    dop_buf_finish(&types);
    dop_buf_finish(&memory);
}
