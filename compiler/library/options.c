/* Parses the textual options of dop_compile() and dopplerc. */
#include "compiler/library/job.h"
#include "ir/graph/cache_row.h"
#include "plan/plan_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EDGE = 1 << 14, MOST_CHUNK = 4096 };

/* Parses a list of sizes from 1 to `largest`. Drops duplicates and fails if more than `most` sizes remain. */
static dop_status
parse_sizes(const char *option, const char *list, uint32_t largest, uint32_t most, dop_diag *diag, uint32_t *out_sizes,
            uint32_t *out_n)
{
    const char *p = list;
    uint32_t n = 0;
    while (*p) {
        char *end = NULL;
        unsigned long v = strtoul(p, &end, 10);
        if (end == p || v < 1 || v > largest || (*end && *end != ','))
            return DOP_FAIL(diag, DOP_E_USAGE, "`%s` %s: expected sizes from 1 to %u, separated by commas", option,
                            list, largest);
        bool there = false;
        for (uint32_t i = 0; i < n; i++)
            there = there || out_sizes[i] == v;
        if (!there && n == most)
            return DOP_FAIL(diag, DOP_E_USAGE, "`%s` %s: at most %u sizes", option, list, most);
        if (!there)
            out_sizes[n++] = (uint32_t)v;
        p = *end ? end + 1 : end;
    }
    *out_n = n;
    return n ? DOP_OK : DOP_FAIL(diag, DOP_E_USAGE, "`%s` needs at least one size", option);
}

/* Parses --size as WIDTHxHEIGHT in pixels. */
static dop_status
parse_picture(const char *text, dop_compilation_options *o, dop_diag *diag)
{
    char *end;
    const unsigned long w = strtoul(text, &end, 10);
    const char *second = end + 1;
    const unsigned long h = *end == 'x' && *second >= '0' && *second <= '9' ? strtoul(second, &end, 10) : 0;
    if (*text < '0' || *text > '9' || *end || w < 1 || w > MOST_EDGE || h < 1 || h > MOST_EDGE)
        return DOP_FAIL(diag, DOP_E_USAGE, "`size` %s: expected WIDTHxHEIGHT in pixels, as 512x512", text);
    o->draw_width = (uint32_t)w;
    o->draw_height = (uint32_t)h;
    return DOP_OK;
}

static bool
parse_cache_type(const char *text, size_t len, dop_type *out)
{
    return dop_type_parse(text, len, out) && (*out == DOP_TYPE_f16 || *out == DOP_TYPE_f32 || dop_cache_blocks(*out));
}

/* Parses --kv: one type for keys and values, or k=TYPE,v=TYPE in either order. */
static dop_status
parse_cache(const char *text, dop_compilation_options *o, dop_diag *diag)
{
    if (!text || parse_cache_type(text, strlen(text), &o->kv_type))
        return DOP_OK;
    dop_type types[2] = {DOP_TYPE_none, DOP_TYPE_none};
    for (const char *p = text; p;) {
        const char *end = strchr(p, ',');
        size_t len = end ? (size_t)(end - p) : strlen(p);
        dop_type *which = p[0] == 'k' ? &types[0] : p[0] == 'v' ? &types[1] : NULL;
        if (!which || p[1] != '=' || *which != DOP_TYPE_none || !parse_cache_type(p + 2, len - 2, which))
            break;
        p = end ? end + 1 : NULL;
        if (!p && types[0] != DOP_TYPE_none && types[1] != DOP_TYPE_none) {
            o->kv_type = types[0];
            o->v_type = types[1];
            return DOP_OK;
        }
    }
    return DOP_FAIL(diag, DOP_E_USAGE, "`kv` %s: known are f16, f32, q8_0 and q4_0, for both or as k=TYPE,v=TYPE",
                    text);
}

dop_status
dop_unknown_pass(const char *name, dop_diag *diag)
{
    dop_buf list = {0};
    for (int i = 0; i < DOP_PASS_COUNT; i++)
        dop_buf_printf(&list, " %s", dop_pass_of((dop_pass_id)i)->name);
    dop_status st = DOP_FAIL(diag, DOP_E_USAGE, "unknown pass %s; known:%s", name, list.data ? list.data : "");
    dop_buf_finish(&list);
    return st;
}

static dop_status
read_passes(const dop_compile_options *a, dop_compilation_options *o, dop_diag *diag)
{
    dop_pass_id p;
    o->passes.stop_after = -1;
    for (size_t i = 0; i < a->n_skips; i++) {
        if (!dop_pass_parse(a->skips[i], &p))
            return dop_unknown_pass(a->skips[i], diag);
        o->passes.skip[p] = true;
    }
    for (size_t i = 0; i < a->n_apart; i++) {
        if (!*a->apart[i])
            dop_passes_skip_fusion(&o->passes);
        else if (o->n_apart == DOP_MAX_FORCES)
            return DOP_FAIL(diag, DOP_E_USAGE, "`apart`: at most %d pairs", DOP_MAX_FORCES);
        else
            o->apart[o->n_apart++] = a->apart[i];
    }
    return DOP_OK;
}

static dop_status
read_force_options(const dop_compile_options *a, dop_arena *arena, dop_compilation_options *o, dop_diag *diag)
{
    for (size_t i = 0; i < a->n_forces; i++) {
        char *op = dop_arena_strdup(arena, a->forces[i]), *eq = op ? strchr(op, '=') : NULL;
        if (!op)
            return DOP_NO_MEMORY(diag);
        if (!eq || o->n_forces == DOP_MAX_FORCES)
            return DOP_FAIL(diag, DOP_E_USAGE, "`forces` %s: expected OP=VARIANT", a->forces[i]);
        *eq = 0;
        o->forces[o->n_forces++] = (dop_force){op, eq + 1};
    }
    return DOP_OK;
}

/* Parses --control-vector-layers, a range of layers such as "1-12". */
static dop_status
read_control_layers(const char *text, dop_compilation_options *o, dop_diag *diag)
{
    unsigned first = 1, last = UINT32_MAX;
    int end = 0;
    if (text && (sscanf(text, "%9u-%9u%n", &first, &last, &end) != 2 || text[end] || first > last))
        return DOP_FAIL(diag, DOP_E_USAGE, "`control_layers` %s: expected layers as 1-12", text);
    o->control_first = first;
    o->control_last = last;
    return DOP_OK;
}

/* Fails for numbers above their limits and for options that would have no effect. */
static dop_status
check_options(const dop_compile_options *a, dop_diag *diag)
{
    const struct {
        const char *name;
        uint32_t value, most;
    } numbers[] = {{"ctx", a->ctx, DOP_COMPILE_MOST_CTX},
                   {"ctx_total", a->ctx_total, DOP_COMPILE_MOST_CTX_TOTAL},
                   {"sequences", a->sequences, DOP_COMPILE_MOST_SEQUENCES},
                   {"adapters", a->adapters, DOP_COMPILE_MOST_ADAPTERS},
                   {"rank", a->rank, DOP_COMPILE_MOST_RANK}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value > numbers[i].most)
            return DOP_FAIL(diag, DOP_E_USAGE, "`%s` %u: at most %u", numbers[i].name, numbers[i].value,
                            numbers[i].most);
    if (!a->parts && (a->split || a->part_memory))
        return DOP_FAIL(diag, DOP_E_USAGE, "`%s` is about a plan in parts: set `parts`",
                        a->split ? "split" : "part_memory");
    if (a->control_layers && a->n_controls == 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "`control_layers` is about control vectors: set `controls`");
    if ((a->adapters > 0) != (a->rank > 0))
        return DOP_FAIL(diag, DOP_E_USAGE, "`adapters` and `rank` need one another");
    if (a->external_weights && a->model_weights)
        return DOP_FAIL(diag, DOP_E_USAGE, "`external_weights` and `model_weights` exclude one another");
    return DOP_OK;
}

dop_status
dop_compile_options_read(const dop_compile_options *a, dop_arena *arena, dop_diag *diag, dop_compilation_options *o)
{
    *o = (dop_compilation_options){.device = a->device,
                                   .ctx = a->ctx,
                                   .quant = a->quant,
                                   .imatrix = a->imatrix,
                                   .mmproj = a->mmproj,
                                   .draft_head = a->draft_head,
                                   .draft_vocabulary = a->draft_vocabulary,
                                   .loras = a->loras,
                                   .n_loras = (uint32_t)a->n_loras,
                                   .controls = a->controls,
                                   .n_controls = (uint32_t)a->n_controls,
                                   .adapters = a->adapters,
                                   .rank = a->rank,
                                   .threads = a->threads,
                                   .tuning = a->tuning,
                                   .kernel_path = a->kernel_path,
                                   .sequences = a->sequences,
                                   .ctx_total = a->ctx_total,
                                   .embed = a->embed,
                                   .invariant = a->invariant,
                                   .in_parts = a->parts != NULL,
                                   .progress = a->progress};
    DOP_RETURN_IF_ERROR(check_options(a, diag));
    DOP_RETURN_IF_ERROR(read_passes(a, o, diag));
    DOP_RETURN_IF_ERROR(read_force_options(a, arena, o, diag));
    if (a->chunks)
        DOP_RETURN_IF_ERROR(
            parse_sizes("chunks", a->chunks, MOST_CHUNK, DOP_MAX_CHUNKS, diag, o->chunks, &o->n_chunks));
    if (a->size)
        DOP_RETURN_IF_ERROR(parse_picture(a->size, o, diag));
    if (a->rows)
        DOP_RETURN_IF_ERROR(
            parse_sizes("rows", a->rows, DOP_STEP_MAX_ROWS, DOP_MAX_ROWS_SIZES, diag, o->rows, &o->n_rows));
    DOP_RETURN_IF_ERROR(read_control_layers(a->control_layers, o, diag));
    DOP_RETURN_IF_ERROR(parse_cache(a->kv, o, diag));
    if (a->act && !(dop_type_parse(a->act, strlen(a->act), &o->act_type) &&
                    (o->act_type == DOP_TYPE_f16 || o->act_type == DOP_TYPE_f32)))
        return DOP_FAIL(diag, DOP_E_USAGE, "`act` %s: known are f16 and f32", a->act);
    return DOP_OK;
}
