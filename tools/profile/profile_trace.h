/* Profile in trace-event format (a JSON object with "traceEvents"): complete events, times in microseconds. */
#ifndef DOPPLER_TOOLS_PROFILE_PROFILE_TRACE_H
#define DOPPLER_TOOLS_PROFILE_PROFILE_TRACE_H

#include "tools/profile/profile.h"

/* profile_trace.c: writes the trace-event format of chrome://tracing and Perfetto. */
void dop_profile_trace_json(const dop_profile *profile, dop_buf *out);
/* Appends a quoted JSON string. */
void dop_json_string(const char *text, dop_buf *out);

#endif
