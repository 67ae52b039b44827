/* The profile as stage times: what dopplerc --simulate takes the time of parts from (compiler/parts/stage_times.h
 * says what the rows mean, and reads them). */
#ifndef DOPPLER_TOOLS_PROFILE_PROFILE_TIMES_H
#define DOPPLER_TOOLS_PROFILE_PROFILE_TIMES_H

#include "tools/profile/profile.h"

/* profile_times.c: stage times for dopplerc --simulate, as YAML.  whole: NULL: not measured. */
void dop_profile_times_yaml(const dop_profile *profile, const dop_profile_whole *whole, dop_buf *out);

#endif
