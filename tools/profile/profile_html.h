/* The data of the profile's page (assets/profile.html): a timeline on a canvas that zooms and explains itself, and
 * the tables under it.  Nothing is loaded from elsewhere. */
#ifndef DOPPLER_TOOLS_PROFILE_PROFILE_HTML_H
#define DOPPLER_TOOLS_PROFILE_PROFILE_HTML_H

#include "tools/profile/profile.h"

/* profile_html.c: one HTML document without external resources. */
void dop_profile_html(const dop_profile *profile, dop_buf *out);

#endif
