/* Profile as stage times, the input of dopplerc --simulate. compiler/parts/stage_times.h describes the rows and
 * reads them. */
#ifndef DOPPLER_TOOLS_PROFILE_PROFILE_TIMES_H
#define DOPPLER_TOOLS_PROFILE_PROFILE_TIMES_H

#include "tools/profile/profile.h"

/* profile_times.c: writes stage times as YAML for dopplerc --simulate. whole: NULL if not measured. */
void dop_profile_times_yaml(const dop_profile *profile, const dop_profile_whole *whole, dop_buf *out);

#endif
