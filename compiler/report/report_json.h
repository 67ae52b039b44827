/* Writes the report as JSON. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_JSON_H
#define DOPPLER_COMPILER_REPORT_REPORT_JSON_H

#include "compiler/report/report.h"

/* Appends one object with keys in this order.  Bytes are per token unless noted otherwise; counts are integers.
 *   format              "doppler-report 1"
 *   model               {name, family, context}
 *   target              {name, bandwidth (bytes/s), capabilities [..]}
 *   kernel_path         name, or null
 *   distinct_kernels    of the whole plan
 *   memory              {weights, caches, activations, results, kernels}: bytes
 *   weights             [{stored, packed, asked, columns (null unless asked is not packed), count, bytes, how}]
 *   schedules           [{name, tokens, dispatches_per_layer, dispatches_outside, distinct_kernels,
 *                         persistent (a sentence; absent unless the target requests it),
 *                         before, after: {dispatches, barriers, bytes_read, bytes_written, activation_bytes,
 *                                 unshared_bytes (of activations, if none shared memory)},
 *                         regions: [{label, template, variant, why, ops [..], count, bytes_read, bytes_written,
 *                                    floor_us, workgroups, kernel}],
 *                         fusions: [{rule, pass, producer, consumer, count, bytes, dispatches}],
 *                         refusals: [{producer, consumer, from, to (labels of regions), reason, reasons, count,
 *                                    bytes}],
 *                         viability: [{producer, consumer, why, fused, refused, reasons {code: count}}]}]
 *   parts               of a plan in parts: [{layers [first, last], target, weights, caches, activations (bytes of memory),
 *                       bytes_read, bytes_written, floor_us, bytes_sent}]
 *   reasons             {code: text} */
dop_status dop_report_json(const dop_report *r, dop_diag *diag, dop_buf *out);

#endif
