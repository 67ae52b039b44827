/* Check of persistent dispatches. Their stages cannot run one by one, but the values passed between them stay in
 * memory after a step. Each stage is compared with the dispatch of the same region in the schedule with barriers, on
 * the stage's own inputs, so that errors do not accumulate. A step must also pick the largest of its own logits and
 * clear the mailbox copy of the next step. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_STAGES_H
#define DOPPLER_TOOLS_CHECK_CHECK_STAGES_H

#include "tools/check/check.h"

/* Checks all stages and prints one line. graphs: [n_schedules]; results: [n_kernels], for their bounds. Leaves cache
 * rows written. Sets out_result->values, ->miss and ->error, which is a fraction of the bounds. */
dop_status dop_check_stages(dop_check_device *device, const dop_graph *graphs, const dop_check_result *results,
                            dop_diag *diag, dop_check_result *out_result);

#endif
