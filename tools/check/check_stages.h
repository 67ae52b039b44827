/* The stages of a persistent dispatch cannot be run one by one, but what they hand to each other is still in memory
 * after a step.  So each is compared with the dispatch of the same region in the schedule that is ordered by
 * barriers, which gets what the stage got: differences do not add up from stage to stage.  Besides, a step must pick
 * the largest of its own logits, and leave nothing in the copy of the mailboxes that the next step takes. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_STAGES_H
#define DOPPLER_TOOLS_CHECK_CHECK_STAGES_H

#include "tools/check/check.h"

/* graphs: by schedule; results: by kernel, for their bounds.  Prints one line.  Leaves some rows of the caches written.
 * Sets out_result->values, ->miss and ->error; the error is a share of the bounds. */
dop_status dop_check_stages(dop_check_device *device, const dop_graph *graphs, const dop_check_result *results,
                            dop_diag *diag, dop_check_result *out_result);

#endif
