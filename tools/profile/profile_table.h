/* Totals and the text table of a profile. */
#ifndef DOPPLER_TOOLS_PROFILE_PROFILE_TABLE_H
#define DOPPLER_TOOLS_PROFILE_PROFILE_TABLE_H

#include "tools/profile/profile.h"

/* Computes groups and totals from steps and times. */
dop_status dop_profile_sum_up(dop_profile *profile, dop_diag *diag);
void dop_profile_table(const dop_profile *profile, dop_buf *out);

#endif
