#include "compiler/schedule/region_facts.h"

#include "ir/graph/access.h"
#include "ir/graph/dims.h"
#include "ir/region/region.h"
#include "passes/fusion/region.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dop_label
dop_region_label(const dop_graph *g, const dop_region *r)
{
    /* If the root has no role (as in a row program), the first output's label is used. */
    const dop_label label = dop_node_at(g, r->info->root)->label;
    return *label.role ? label : dop_node_at(g, r->outs[0])->label;
}

bool
dop_label_layers(const char *text, const char *slash, unsigned long *out_first, unsigned long *out_last)
{
    char *end;
    if (text[0] != 'L')
        return false;
    *out_first = 0;
    *out_last = ULONG_MAX;
    if (text[1] == '*')
        return slash == text + 2;
    if (text[1] < '0' || text[1] > '9')
        return false;
    *out_first = *out_last = strtoul(text + 1, &end, 10);
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        *out_last = strtoul(end + 1, &end, 10);
    return end == slash;
}

bool
dop_label_is(dop_label label, const char *name)
{
    const char *asked = strchr(name, '/');
    unsigned long first, last;
    if (strcmp(label.role, name) == 0)
        return true;
    return label.layer >= 0 && asked && strcmp(label.role, asked + 1) == 0 &&
           dop_label_layers(name, asked, &first, &last) && (unsigned long)label.layer >= first &&
           (unsigned long)label.layer <= last;
}

void
dop_region_ops(const dop_graph *g, const dop_region *r, dop_buf *out)
{
    for (uint32_t i = 0; i < r->n_nodes; i++)
        dop_buf_printf(out, "%s%s", i ? " " : "", dop_op_of(dop_node_at(g, r->nodes[i])->op)->name);
}

typedef struct traffic {
    const dop_graph *g;
    const dop_region *r;
    uint32_t depth;
    uint64_t bytes;
} traffic;

/* Returns the bytes that attention reads of a cache: `depth` positions, or all rows of a shorter ring buffer. */
static uint64_t
count_cache_bytes(const traffic *t, dop_node_id cache)
{
    const uint32_t rows = dop_cache_rows(t->g, cache);
    return dop_node_bytes(t->g, cache) / rows / t->g->max_q * (t->depth < rows ? t->depth : rows);
}

/* True if the region also reads, at all positions, the cache to which its node `write` appends a row. */
static bool
reads_own_cache(const traffic *t, dop_node_id write)
{
    for (uint32_t i = 0; i < t->r->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(t->g, t->r->nodes[i])->n_srcs; k++)
            if (dop_node_base(t->g, dop_node_at(t->g, t->r->nodes[i])->src[k], NULL) == write &&
                dop_node_map(t->g, t->r->nodes[i], k, DOP_AXIS_pos).reach == DOP_REACH_ALL)
                return true;
    return false;
}

static void
count_read(void *user, dop_node_id base)
{
    traffic *t = user;
    const dop_graph *g = t->g;
    uint64_t bytes = dop_node_bytes(g, base);
    uint64_t part = 0;                    /* number of matrix rows that products read */
    uint64_t rows_at = 0, experts_at = 0; /* number of table rows and expert matrices that index values select */
    bool once = false, cache = false;
    if (dop_node_is_input(g, base))
        return;
    for (uint32_t i = 0; i < t->r->n_nodes; i++) {
        dop_node_id id = t->r->nodes[i];
        for (uint32_t k = dop_node_is(g, id, DOP_EFFECT); k < dop_node_at(g, id)->n_srcs; k++) {
            const dop_access *a = dop_node_access(g, id, k);
            if (dop_node_base(g, dop_node_at(g, id)->src[k], NULL) != base)
                continue;
            if (dop_node_map(g, id, k, DOP_AXIS_pos).reach == DOP_REACH_ALL)
                cache = true;
            else
                once = true;
            if (dop_node_map(g, id, k, DOP_AXIS_row).kind == DOP_ACCESS_col && dop_node_cols(g, id) > part)
                part = dop_node_cols(g, id);
            if (a->by >= dop_node_at(g, id)->n_srcs) /* no source is an index, or the step record selects one row */
                continue;
            const dop_node_id by = dop_node_at(g, id)->src[a->by];
            const uint64_t choices = dop_node_rows(g, by, g->max_t) * dop_node_cols(g, by);
            if (dop_node_map(g, id, k, DOP_AXIS_row).chosen && choices > rows_at)
                rows_at = choices;
            if (dop_node_map(g, id, k, DOP_AXIS_expert).chosen && choices > experts_at)
                experts_at = choices;
        }
    }
    if (cache)
        t->bytes += count_cache_bytes(t, base);
    /* Only selected table rows, selected expert matrices and leading matrix rows are read, each once. */
    const uint64_t first = dop_dim_value(g, dop_node_at(g, base)->shape.dim[0], 1);
    const bool prefix = part < first && dop_node_at(g, base)->shape.rank == 2;
    const uint64_t chosen = rows_at ? rows_at : experts_at ? (experts_at < first ? experts_at : 0) : prefix ? part : 0;
    if (once)
        t->bytes += chosen ? bytes / first * chosen : bytes;
}

void
dop_region_traffic(const dop_graph *g, const dop_region *r, uint32_t depth, uint64_t *out_read, uint64_t *out_written)
{
    traffic t = {g, r, depth, 0};
    dop_region_reads(r, count_read, &t);
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (dop_node_is(g, r->nodes[i], DOP_EFFECT) && dop_shape_appends(&dop_node_at(g, r->nodes[i])->shape) &&
            reads_own_cache(&t, r->nodes[i]))
            t.bytes += count_cache_bytes(&t, r->nodes[i]);
    *out_read = t.bytes;
    *out_written = 0;
    for (uint32_t i = 0; i < r->n_outs; i++) /* dop_node_space: for a cache, only the rows that this step writes */
        *out_written += dop_node_bytes(g, dop_node_space(g, r->outs[i]));
}
