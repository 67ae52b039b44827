/* Profile as an HTML page (assets/profile.html): a zoomable timeline with tooltips, and tables. The page is
 * self-contained. */
#ifndef DOPPLER_TOOLS_PROFILE_PROFILE_HTML_H
#define DOPPLER_TOOLS_PROFILE_PROFILE_HTML_H

#include "tools/profile/profile.h"

/* profile_html.c: writes one HTML document without external resources. */
void dop_profile_html(const dop_profile *profile, dop_buf *out);

#endif
