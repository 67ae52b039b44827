/* Chooses where a model is cut: as the user asks, or so that the work of the parts is as equal as possible. */
#include "compiler/parts/parts.h"
#include "compiler/schedule/part_graph.h"
#include "compiler/schedule/region_facts.h"
#include "ir/graph/dims.h"
#include "passes/fusion/region.h"

#include <stdlib.h>
#include <string.h>

typedef struct chooser {
    dop_compilation *c;
    dop_diag *diag;
    uint32_t n_layers, n_memory;
    uint64_t memory[DOP_MAX_PARTS]; /* [n_memory] memory of each device in bytes */
    uint64_t *time;                 /* [n_layers] cost of a token in each layer: bytes read and written */
    uint64_t *bytes;                /* [n_layers] bytes of each layer's weights and states */
    const char **why;               /* [n_layers + 1] why the model cannot be cut before each layer; NULL: it can */
    uint64_t fixed;                 /* bytes of a part's activations */
} chooser;

typedef struct reader {
    chooser *k;
    const dop_graph *g;
    uint32_t layer;
    uint32_t *seen; /* [n_nodes] 1 + the last layer that counted each weight or state; 0: not counted */
} reader;

static void
count_leaf(void *user, dop_node_id base)
{
    reader *r = user;
    const dop_node_id leaf = dop_storage_node(r->g, base);
    const dop_node *n = dop_node_at(r->g, leaf);
    if (r->seen[leaf] == r->layer + 1 || (n->op != DOP_OP_weight && n->op != DOP_OP_state))
        return;
    r->seen[leaf] = r->layer + 1;
    const dop_packed *w = n->op == DOP_OP_weight ? dop_pack_find(&r->k->c->pack, &n->origin) : NULL;
    r->k->bytes[r->layer] += w ? w->size : dop_node_bytes(r->g, leaf) * (dop_shape_appends(&n->shape) ? 1 : 2);
}

/* Computes the cost of a token and the memory of each layer from the decode schedule, and where the model can be cut. */
static dop_status
weigh_layers(chooser *k)
{
    const dop_graph *g = &k->c->schedules[0].g;
    uint32_t *layers = calloc(g->n_regions, sizeof *layers);
    reader r = {.k = k, .g = g, .seen = calloc(g->n_nodes, sizeof *r.seen)};
    dop_status st = DOP_OK;
    DOP_TRY(layers && r.seen ? dop_region_layers(g, k->n_layers, k->diag, layers) : DOP_NO_MEMORY(k->diag));
    for (dop_region_id i = 1; i < g->n_regions; i++) {
        uint64_t read, written;
        dop_region_traffic(g, &g->regions[i], 0, &read, &written);
        k->time[layers[i]] += read + written;
        r.layer = layers[i];
        dop_region_reads(&g->regions[i], count_leaf, &r);
    }
    for (uint32_t i = 0; i < k->c->n_schedules; i++)
        if (k->c->schedules[i].placement.scratch > k->fixed)
            k->fixed = k->c->schedules[i].placement.scratch;
    for (uint32_t i = 1; i < k->n_layers; i++)
        DOP_TRY(dop_parts_may_cut(k->c, i, k->diag, &k->why[i]));
error:
    free(layers);
    free(r.seen);
    return st;
}

/* Returns the cost of a token in a part with layers from .. to - 1; UINT64_MAX if the part exceeds the memory of device
 * `number`. */
static uint64_t
compute_part_cost(const chooser *k, uint32_t number, uint32_t from, uint32_t to)
{
    uint64_t time = 0, bytes = k->fixed;
    for (uint32_t i = from; i < to; i++) {
        time += k->time[i];
        bytes += k->bytes[i];
    }
    return number < k->n_memory && bytes > k->memory[number] ? UINT64_MAX : time;
}

/* Finds the division into n parts whose most expensive part is cheapest, by dynamic programming. Leaves out->n_parts 0
 * if there is none. */
static dop_status
divide_layers(const chooser *k, uint32_t n, dop_cuts *out)
{
    const uint32_t l = k->n_layers;
    /* Both [part][end]. best: minimal cost of the most expensive part if this part ends before layer `end`. from: its
     * first layer. */
    uint64_t *best = malloc((size_t)n * (l + 1) * sizeof *best);
    uint32_t *from = calloc((size_t)n * (l + 1), sizeof *from);
    dop_status st = best && from ? DOP_OK : DOP_NO_MEMORY(k->diag);
    for (uint32_t p = 0; best && from && p < n; p++)
        for (uint32_t end = 0; end <= l; end++) {
            uint64_t *b = &best[p * (l + 1) + end];
            *b = UINT64_MAX;
            if (end < p + 1 || (end < l && k->why[end]))
                continue;
            for (uint32_t start = p; start < end; start++) {
                const uint64_t before = p == 0 ? (start == 0 ? 0 : UINT64_MAX) : best[(p - 1) * (l + 1) + start];
                const uint64_t own = before == UINT64_MAX ? UINT64_MAX : compute_part_cost(k, p, start, end);
                const uint64_t most = own > before ? own : before;
                if (most < *b) {
                    *b = most;
                    from[p * (l + 1) + end] = start;
                }
            }
        }
    if (n > 0 && best && from && best[(n - 1) * (l + 1) + l] != UINT64_MAX) {
        out->n_parts = n;
        out->end[n - 1] = l;
        for (uint32_t p = n - 1; p > 0; p--)
            out->end[p - 1] = from[p * (l + 1) + out->end[p]];
    }
    free(best);
    free(from);
    return st;
}

/* Parses a size as in "24GiB": a number with KiB, MiB, GiB, MB or GB. */
static bool
parse_bytes(const char *text, size_t len, uint64_t *out)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"MB", 1e6}, {"GB", 1e9}};
    char *end;
    const double v = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (v > 0 && v < 1e6 && (size_t)(end - text) < len && len - (size_t)(end - text) == strlen(units[i].name) &&
            strncmp(end, units[i].name, strlen(units[i].name)) == 0) {
            *out = (uint64_t)(v * units[i].bytes);
            return true;
        }
    return false;
}

static dop_status
parse_memory(chooser *k, const char *text)
{
    for (const char *p = text; p;) {
        const char *end = strchr(p, ',');
        if (k->n_memory == DOP_MAX_PARTS ||
            !parse_bytes(p, end ? (size_t)(end - p) : strlen(p), &k->memory[k->n_memory++]))
            return DOP_FAIL(k->diag, DOP_E_USAGE,
                            "`part_memory` %s: expected the memory of each device, as 24GiB,16GiB", text);
        p = end ? end + 1 : NULL;
    }
    return DOP_OK;
}

static dop_status
parse_layer_counts(const chooser *k, const char *how, dop_cuts *out)
{
    uint64_t at = 0;
    out->n_parts = 0;
    for (const char *p = how; *p;) {
        char *end;
        const unsigned long v = strtoul(p, &end, 10);
        if (end == p || v == 0 || v > k->n_layers || (*end && (*end != ',' || !end[1])) ||
            out->n_parts == DOP_MAX_PARTS)
            return DOP_FAIL(k->diag, DOP_E_USAGE,
                            "`parts` %s: expected a number of parts, or the layers of each as 20,12", how);
        at += v;
        out->end[out->n_parts++] = at < k->n_layers ? (uint32_t)at : k->n_layers;
        p = *end ? end + 1 : end;
    }
    if (at != k->n_layers)
        return DOP_FAIL(k->diag, DOP_E_USAGE, "`parts` %s: these are %llu layers, and the model has %u", how,
                        (unsigned long long)at, k->n_layers);
    for (uint32_t i = 0; i + 1 < out->n_parts; i++)
        if (k->why[out->end[i]])
            return DOP_FAIL(k->diag, DOP_E_INPUT, "`parts` %s: no cut before layer %u: %s", how, out->end[i],
                            k->why[out->end[i]]);
    return DOP_OK;
}

/* Fails with the reason why the model cannot be divided into n parts. */
static dop_status
fail_impossible_cut(const chooser *k, uint32_t n)
{
    uint32_t cuts = 0, first = 0;
    for (uint32_t i = 1; i < k->n_layers; i++) {
        cuts += !k->why[i];
        first = !first && k->why[i] ? i : first;
    }
    if (cuts + 1 < n && first)
        return DOP_FAIL(k->diag, DOP_E_INPUT, "`parts` %u: the model can be cut at %u places; not before layer %u: %s",
                        n, cuts, first, k->why[first]);
    if (cuts + 1 < n)
        return DOP_FAIL(k->diag, DOP_E_INPUT, "`parts` %u: the model has %u layers", n, k->n_layers);
    return DOP_FAIL(k->diag, DOP_E_INPUT,
                    "`parts` %u: the memory that `part_memory` states does not hold them: give more parts", n);
}

static dop_status
choose_part_cuts(chooser *k, const char *how, dop_cuts *out)
{
    char *end;
    const unsigned long n = strtoul(how, &end, 10);
    if (strcmp(how, "auto") == 0) {
        if (k->n_memory < 2)
            return DOP_FAIL(k->diag, DOP_E_USAGE,
                            "`parts` auto needs the memory of two devices or more, as `part_memory` 24GiB,24GiB");
        if (compute_part_cost(k, 0, 0, k->n_layers) != UINT64_MAX)
            return DOP_FAIL(k->diag, DOP_E_USAGE,
                            "`parts` auto: the first device holds the whole model: compile without "
                            "`parts`, or say how many there are to be");
        dop_status st = DOP_OK;
        for (uint32_t i = 2; i <= k->n_memory && st == DOP_OK && !out->n_parts; i++)
            st = divide_layers(k, i, out);
        return st == DOP_OK && !out->n_parts ? fail_impossible_cut(k, k->n_memory) : st;
    }
    if (*end || end == how || strchr(how, '-'))
        return parse_layer_counts(k, how, out);
    if (n < 2 || n > DOP_MAX_PARTS)
        return DOP_FAIL(k->diag, DOP_E_USAGE, "`parts` %s: from 2 to %d parts", how, DOP_MAX_PARTS);
    dop_status st = divide_layers(k, (uint32_t)n, out);
    return st == DOP_OK && !out->n_parts ? fail_impossible_cut(k, (uint32_t)n) : st;
}

dop_status
dop_parts_choose(dop_compilation *c, const char *how, const char *memory, dop_diag *diag, dop_cuts *out_cuts)
{
    chooser k = {.c = c, .diag = diag, .n_layers = c->model.arch.n_layers};
    memset(out_cuts, 0, sizeof *out_cuts);
    k.time = calloc(k.n_layers, sizeof *k.time);
    k.bytes = calloc(k.n_layers, sizeof *k.bytes);
    k.why = calloc(k.n_layers + (size_t)1, sizeof *k.why);
    dop_status st = DOP_OK;
    if (!(k.time && k.bytes && k.why))
        DOP_TRY(DOP_NO_MEMORY(diag));
    if (memory)
        DOP_TRY(parse_memory(&k, memory));
    DOP_TRY(weigh_layers(&k));
    DOP_TRY(choose_part_cuts(&k, how, out_cuts));
error:
    free(k.time);
    free(k.bytes);
    free(k.why);
    return st;
}
