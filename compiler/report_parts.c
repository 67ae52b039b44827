/* What the report says of a plan in parts. */
#include "compiler/parts.h"
#include "compiler/region_facts.h"
#include "compiler/report.h"
#include "passes/region.h"

#include <jansson.h>

dop_report_part
dop_report_part_of(const dop_compilation *part)
{
    const dop_schedule *decode = &part->schedules[0];
    dop_report_part x = {.first_layer = part->cut->first_layer,
                         .end_layer = part->cut->end_layer,
                         .target = part->target.name,
                         .caches = dop_report_state_bytes(&decode->g)};
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
    x.floor_us = (x.read + x.written) / part->target.bandwidth * 1e6;
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
        const dop_report_part x = dop_report_part_of(&r->parts[i]);
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
        const dop_report_part x = dop_report_part_of(&r->parts[i]);
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
