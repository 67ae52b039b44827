/* Properties of a region for reports and matching: its label, ops and memory traffic. */
#ifndef DOPPLER_COMPILER_SCHEDULE_REGION_FACTS_H
#define DOPPLER_COMPILER_SCHEDULE_REGION_FACTS_H

#include "ir/graph/graph.h"

/* Returns the label (layer and role) of the region's root, or of its first output if the root has none. */
dop_label dop_region_label(const dop_graph *g, const dop_region *r);
/* True if the name matches this label. A name is the text of a label ("L3/qkv"), its role ("qkv"), or a label for
 * several layers ("L0-3" or "L*" in place of the layer). */
bool dop_label_is(dop_label label, const char *name);
/* Parses the layers before the slash of a name: "L3", "L0-3", or "L*" (0 to ULONG_MAX). Returns false for anything
 * else. */
bool dop_label_layers(const char *name, const char *slash, unsigned long *out_first, unsigned long *out_last);
/* Appends the names of a region's ops in order, separated by spaces. */
void dop_region_ops(const dop_graph *g, const dop_region *r, dop_buf *out);
/* Computes the bytes that a region reads and writes in one step of maximum size. Attention reads `depth` positions of a
 * cache. */
void dop_region_traffic(const dop_graph *g, const dop_region *r, uint32_t depth, uint64_t *out_read,
                        uint64_t *out_written);

#endif
