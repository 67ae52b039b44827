/* Adds the parts of a plan to the report. */
#include "compiler/report/report_parts.h"
#include "compiler/report/report.h"
#include "compiler/schedule/part_graph.h"
#include "compiler/schedule/region_facts.h"
#include "passes/fusion/region.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static dop_report_part
describe_part(const dop_compilation *part)
{
    const dop_schedule *decode = &part->schedules[0];
    dop_report_part x = {.first_layer = part->cut->first_layer,
                         .end_layer = part->cut->end_layer,
                         .target = part->target->name,
                         .caches = dop_report_state_bytes(part)};
    for (uint32_t i = 0; i < part->pack.n_segments; i++)
        x.weights += part->pack.segment_size[i];
    for (uint32_t i = 0; i < part->n_schedules; i++)
        if (part->schedules[i].placement.scratch > x.activations)
            x.activations = part->schedules[i].placement.scratch;
    for (dop_region_id r = 1; r < decode->g.n_regions; r++) {
        uint64_t read, written;
        dop_region_traffic(&decode->g, &decode->g.regions[r], DOP_REPORT_DEPTH, &read, &written);
        x.read += (double)read;
        x.written += (double)written;
    }
    x.floor_us = (x.read + x.written) / part->target->bandwidth * 1e6;
    for (uint32_t i = 0; i < decode->n_sent; i++)
        x.sent += dop_node_bytes(&decode->g, decode->sent[i]);
    return x;
}

void
dop_report_parts_text(const dop_report *r, dop_buf *out)
{
    const double mib = 1024.0 * 1024.0;
    if (r->n_parts > 0)
        dop_buf_puts(out,
                     "\nparts\n    layers     target            weights MiB  caches MiB  activations MiB  MiB a token  "
                     "floor us  bytes sent a token\n");
    for (uint32_t i = 0; i < r->n_parts; i++) {
        const dop_report_part x = describe_part(&r->parts[i]);
        dop_buf_printf(out, "    %3u to %3u %-16s %12.2f %11.2f %16.2f %12.2f %9.3f %19llu\n", x.first_layer,
                       x.end_layer - 1, x.target, (double)x.weights / mib, (double)x.caches / mib,
                       (double)x.activations / mib, (x.read + x.written) / mib, x.floor_us, (unsigned long long)x.sent);
    }
}

void
dop_report_parts_json(const dop_report *r, void *json_object)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->n_parts; i++) {
        const dop_report_part x = describe_part(&r->parts[i]);
        json_array_append_new(
            list, json_pack("{s:[I,I], s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:I}", "layers", (json_int_t)x.first_layer,
                            (json_int_t)x.end_layer - 1, "target", x.target, "weights", (json_int_t)x.weights, "caches",
                            (json_int_t)x.caches, "activations", (json_int_t)x.activations, "bytes_read", x.read,
                            "bytes_written", x.written, "floor_us", x.floor_us, "bytes_sent", (json_int_t)x.sent));
    }
    if (r->n_parts > 0)
        json_object_set(json_object, "parts", list);
    json_decref(list);
}

/* --- HTML page
 * --------------------------------------------------------------------------------------------------------- */

/* Returns the bytes of a value for one row of a step. */
static uint64_t
count_row_bytes(const dop_graph *g, dop_node_id id)
{
    return dop_node_bytes(g, id) / (dop_node_per_token(g, id) ? g->max_t : 1);
}

static void
put_crossings(const dop_report *r, dop_buf *out)
{
    dop_buf_puts(out, "<h3>What crosses the cuts</h3><table><tr><th>step</th><th>from</th><th>to</th><th>value</th>"
                      "<th class=n>bytes a row</th><th class=n>bytes a step, at most</th></tr>\n");
    for (uint32_t i = 0; i < r->n_schedules; i++)
        for (uint32_t k = 0; k + 1 < r->n_parts; k++) {
            const dop_schedule *s = &r->parts[k].schedules[i];
            for (uint32_t v = 0; v < s->n_sent; v++) {
                const uint64_t bytes = dop_node_bytes(&s->g, s->sent[v]);
                dop_buf_printf(out,
                               "<tr><td>%s</td><td>part %u</td><td>part %u</td><td><code>%s</code></td>"
                               "<td class=n>%llu</td><td class=n>%llu</td></tr>\n",
                               dop_schedule_name(s), k, k + 1, dop_node_at(&s->g, s->sent[v])->name,
                               (unsigned long long)count_row_bytes(&s->g, s->sent[v]), (unsigned long long)bytes);
            }
        }
    dop_buf_puts(out, "</table>\n");
}

void
dop_report_parts_html(const dop_report *r, dop_buf *out)
{
    const double mib = 1024.0 * 1024.0;
    if (r->n_parts == 0)
        return;
    dop_buf_puts(out,
                 "<h2>Parts</h2><table><tr><th>part</th><th>layers</th><th>target</th><th class=n>dispatches a token"
                 "</th><th class=n>weights, MiB</th><th class=n>caches, MiB</th><th class=n>activations, MiB</th>"
                 "<th class=n>MiB a token</th><th class=n>floor, us</th></tr>\n");
    for (uint32_t i = 0; i < r->n_parts; i++) {
        const dop_report_part x = describe_part(&r->parts[i]);
        dop_buf_printf(out,
                       "<tr><td>%u</td><td>%u to %u</td><td>%s</td><td class=n>%u</td><td class=n>%.2f</td>"
                       "<td class=n>%.2f</td><td class=n>%.2f</td><td class=n>%.2f</td><td class=n>%.3f</td></tr>\n",
                       i, x.first_layer, x.end_layer - 1, x.target, r->parts[i].schedules[0].g.n_regions - 1,
                       (double)x.weights / mib, (double)x.caches / mib, (double)x.activations / mib,
                       (x.read + x.written) / mib, x.floor_us);
    }
    dop_buf_puts(out, "</table>\n");
    put_crossings(r, out);
}

/* --- one region -------------------------------------------------------------------------------------------------------- */

dop_status
dop_report_places_make(const dop_compilation *c, uint32_t schedule, const dop_compilation *parts, uint32_t n,
                       dop_diag *diag, dop_report_places *out_places)
{
    const dop_graph *g = &c->schedules[schedule].g;
    *out_places = (dop_report_places){parts, n, schedule, NULL};
    if (n == 0)
        return DOP_OK;
    out_places->numbers = calloc(g->n_regions, sizeof *out_places->numbers);
    if (!out_places->numbers)
        return DOP_NO_MEMORY(diag);
    dop_status st = DOP_OK;
    DOP_TRY(dop_region_layers(g, c->model.arch.n_layers, diag, out_places->numbers));
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        uint32_t part = 0;
        while (part + 1 < n && out_places->numbers[r] >= parts[part].cut->end_layer)
            part++;
        out_places->numbers[r] = part;
    }
error:
    if (st != DOP_OK)
        dop_report_places_finish(out_places);
    return st;
}

void
dop_report_places_finish(dop_report_places *p)
{
    free(p->numbers);
    memset(p, 0, sizeof *p);
}

/* Returns the last part that receives the value with this name; 0 if none does. */
static uint32_t
find_last_receiver(const dop_report_places *p, const char *name)
{
    uint32_t last = 0;
    for (uint32_t k = 1; k < p->n; k++) {
        const dop_schedule *s = &p->parts[k].schedules[p->schedule];
        for (uint32_t v = 0; v < s->n_received; v++)
            if (strcmp(dop_node_at(&s->g, s->received[v])->name, name) == 0)
                last = k;
    }
    return last;
}

void
dop_report_place(const dop_report_places *p, const dop_schedule *s, dop_region_id r, dop_buf *out)
{
    const dop_region *region = &s->g.regions[r];
    const char *before = "which sends";
    if (p->n == 0)
        return;
    const uint32_t own = p->numbers[r];
    dop_buf_printf(out, ", in part %u of %u", own, p->n);
    for (uint32_t i = 0; i < region->n_outs; i++) {
        const char *name = dop_node_at(&s->g, region->outs[i])->name;
        const uint32_t last = find_last_receiver(p, name);
        if (last <= own)
            continue;
        dop_buf_printf(out, ", %s %s (%llu bytes a row) to part %u", before, name,
                       (unsigned long long)count_row_bytes(&s->g, region->outs[i]), own + 1);
        if (last > own + 1)
            dop_buf_printf(out, " and on to part %u", last);
        before = "and";
    }
}
