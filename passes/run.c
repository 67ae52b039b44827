/* The pass driver, the fusion log, and lookups in the pass and reason tables. */
#include "ir/syntax/text.h"
#include "passes/pass.h"

#include <stdlib.h>
#include <string.h>

typedef dop_status (*pass_fn)(dop_pass_ctx *, dop_graph *, bool *);

static const dop_pass_info infos[] = {
#define PASS(id, name, letter, needs, breaks, what) {name, letter, needs, breaks, what},
#include "passes/passes.def"
#undef PASS
};

static const pass_fn functions[] = {
#define PASS(id, ...) dop_pass_##id,
#include "passes/passes.def"
#undef PASS
};

const dop_pass_info *
dop_pass_of(dop_pass_id p)
{
    return &infos[p];
}

bool
dop_pass_parse(const char *name, dop_pass_id *out_pass)
{
    for (int i = 0; i < DOP_PASS_COUNT; i++)
        if (strcmp(infos[i].name, name) == 0) {
            *out_pass = (dop_pass_id)i;
            return true;
        }
    return false;
}

static const struct {
    const char *code, *text;
} reasons[] = {
    {"", ""},
#define REASON(id, code, text) {code, text},
#include "passes/fusion/reasons.def"
#undef REASON
};

const char *
dop_reason_code(dop_reason r)
{
    return reasons[r].code;
}

const char *
dop_reason_text(dop_reason r)
{
    return reasons[r].text;
}

int
dop_reason_weight(dop_reason r)
{
    switch (r) {
    case DOP_REASON_none:
        return 0;
    case DOP_REASON_template_limit:
        return 1;
    case DOP_REASON_cycle: /* only a consequence of another reader of the same value */
        return 2;
    case DOP_REASON_reduction_barrier:
        return 3;
    case DOP_REASON_tile_mismatch:
    case DOP_REASON_cross_workgroup:
        return 4;
    case DOP_REASON_disabled:
        return 6;
    default:
        return 5;
    }
}

void
dop_fusion_log_init(dop_fusion_log *log)
{
    memset(log, 0, sizeof *log);
}

void
dop_fusion_log_finish(dop_fusion_log *log)
{
    free(log->items);
    memset(log, 0, sizeof *log);
}

dop_status
dop_fusion_log_add(dop_fusion_log *log, const dop_fusion_event *e, dop_diag *diag)
{
    if (!log)
        return DOP_OK;
    /* Most replaced events are recent: search backwards, but only a limited distance. */
    uint32_t stop = log->n > 4096 ? log->n - 4096 : 0;
    bool placed = false;
    for (uint32_t i = log->n; i-- > stop;) {
        dop_fusion_event *o = &log->items[i];
        if (o->producer != e->producer || o->consumer != e->consumer)
            continue;
        if (o->reason ==
            DOP_REASON_none) { /* already fused: another fusion of this edge only adds its saved dispatches */
            o->dispatches += e->reason == DOP_REASON_none ? e->dispatches : 0;
            return DOP_OK;
        }
        if (placed) {
            memmove(o, o + 1, (log->n - i - 1) * sizeof *o);
            log->n--;
        } else if (e->reason == DOP_REASON_none || strcmp(o->pass, e->pass) == 0) {
            *o = *e;
            placed = true;
            if (e->reason != DOP_REASON_none)
                return DOP_OK;
        }
    }
    if (placed)
        return DOP_OK;
    if (log->n == log->cap) {
        uint32_t cap = log->cap ? log->cap * 2 : 64;
        dop_fusion_event *p = realloc(log->items, cap * sizeof *p);
        if (!p)
            return DOP_NO_MEMORY(diag);
        log->items = p;
        log->cap = cap;
    }
    log->items[log->n++] = *e;
    return DOP_OK;
}

/* Prints, parses and prints the graph again, and compares the texts (--check). */
static dop_status
check_text_round_trip(dop_pass_ctx *cx, const dop_graph *g, const char *pass)
{
    dop_status st = DOP_OK;
    dop_buf a = {0}, b = {0};
    dop_arena arena;
    dop_graph back;
    size_t end = 0;
    dop_arena_init(&arena);
    dop_graph_print(g, &a);
    if (a.failed) {
        st = DOP_NO_MEMORY(cx->diag);
        goto error;
    }
    st = dop_graph_parse("(printed graph)", a.data, a.size, &arena, cx->diag, &back, &end);
    if (st != DOP_OK)
        goto error;
    dop_graph_print(&back, &b);
    if (a.size != b.size || memcmp(a.data, b.data, a.size) != 0)
        st = DOP_FAIL(cx->diag, DOP_E_INTERNAL, "after pass %s the printed graph does not read back to itself", pass);
error:
    dop_arena_finish(&arena);
    dop_buf_finish(&a);
    dop_buf_finish(&b);
    return st;
}

/* The pass that establishes each fact. */
static const struct {
    uint32_t fact;
    dop_pass_id pass;
} makers[] = {
    {PF_REGIONS, DOP_PASS_form_regions},
    {PF_ORDERED, DOP_PASS_order},
    {PF_PLACED, DOP_PASS_place},
    {PF_SELECTED, DOP_PASS_select},
};

dop_status
dop_passes_need(const dop_pass_ctx *cx, uint32_t needs, const char *who)
{
    for (size_t f = 0; f < sizeof makers / sizeof *makers; f++)
        if (needs & ~cx->facts & makers[f].fact)
            return DOP_FAIL(cx->diag, DOP_E_USAGE, "%s needs what pass `%s` makes: do not skip it", who,
                            infos[makers[f].pass].name);
    return DOP_OK;
}

dop_status
dop_passes_run(dop_pass_ctx *cx, const dop_pass_options *opt, dop_graph *g)
{
    uint64_t before = dop_graph_hash(g);
    cx->facts = 0;
    for (int i = 0; i < DOP_PASS_COUNT; i++) {
        const dop_pass_info *p = &infos[i];
        if (opt->skip[i])
            continue;
        dop_status st = dop_passes_need(cx, p->needs, p->name);
        if (st != DOP_OK)
            return st;
        bool changed = false;
        st = functions[i](cx, g, &changed);
        if (st != DOP_OK)
            return st;
        const uint64_t after = dop_graph_hash(g);
        if ((after != before) != changed)
            return DOP_FAIL(cx->diag, DOP_E_INTERNAL, "pass %s said changed=%d, but the graph %s", p->name, changed,
                            changed ? "is the same" : "is another");
        before = after;
        if (changed)
            cx->facts &= ~p->breaks;
        for (size_t f = 0; f < sizeof makers / sizeof *makers; f++)
            cx->facts |= makers[f].pass == (dop_pass_id)i ? makers[f].fact : 0;
        st = dop_graph_verify(g, p->name, cx->diag);
        if (st == DOP_OK && opt->check)
            st = check_text_round_trip(cx, g, p->name);
        if (st != DOP_OK)
            return st;
        if (opt->dump)
            opt->dump(opt->user, (dop_pass_id)i, g, changed);
        if (opt->stop_after == i)
            break;
    }
    return DOP_OK;
}
