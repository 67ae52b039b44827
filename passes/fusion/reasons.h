/* The fusion log: every fusion with its pass, every refused neighbour pair with its reason.  The report prints it. */
#ifndef DOPPLER_PASSES_FUSION_REASONS_H
#define DOPPLER_PASSES_FUSION_REASONS_H

#include "ir/graph/graph.h"

typedef enum dop_reason {
    DOP_REASON_none,
#define REASON(id, code, text) DOP_REASON_##id,
#include "passes/fusion/reasons.def"
#undef REASON
    DOP_REASON_COUNT
} dop_reason;

const char *dop_reason_code(dop_reason r);
const char *dop_reason_text(dop_reason r);
/* Ranks reasons by how close the pass came to fusing the two regions; the highest is shown. "The consumer's kind cannot be an
 * epilogue" says less than "its row does not fit".  0: none. */
int dop_reason_weight(dop_reason r);

/* One decision about an edge: `producer` is read by `consumer`. */
typedef struct dop_fusion_event {
    dop_node_id producer, consumer; /* nodes of the final graph; ids remain valid while regions change */
    const char *pass;               /* option name of the pass that decided */
    dop_reason reason;              /* none: the two are fused */
    uint64_t bytes;                 /* bytes of memory traffic per step that the fusion saves, or would save */
    uint32_t dispatches;            /* dispatches that the fusion saves; counted once, at its first edge */
} dop_fusion_event;

typedef struct dop_fusion_log {
    dop_fusion_event *items;
    uint32_t n, cap;
} dop_fusion_log;

void dop_fusion_log_init(dop_fusion_log *log);
void dop_fusion_log_finish(dop_fusion_log *log);
/* Adds a decision to the log.  A fusion replaces every refusal of its edge; a refusal replaces an earlier one of the same pass.
 * An edge thus ends up with one fusion, or with one refusal per pass that tried. log may be NULL. */
dop_status dop_fusion_log_add(dop_fusion_log *log, const dop_fusion_event *e, dop_diag *diag);

#endif
