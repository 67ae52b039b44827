/* Pages that the build embeds from assets/: HTML with its style sheet and script in place (assets/embed.cmake) and holes,
 * written @name@, for what the program finds out. */
#ifndef DOPPLER_BASE_PROGRAM_PAGE_H
#define DOPPLER_BASE_PROGRAM_PAGE_H

#include "base/base.h"

extern const char *const dop_page_profile; /* tools/profile/assets/profile.html */
extern const char *const dop_page_chat;    /* serve/page/chat.html */

/* Fills in a page: appends `page` up to the hole of a given name, and returns the rest of the page behind the hole, for the next call.
 * Where there is no hole of that name, or hole is NULL, all of `page` is appended. */
const char *dop_page_fill(const char *page, const char *hole, dop_buf *out);

#endif
