/* HTML pages embedded by the build, with style sheet and script inlined (assets/embed.cmake), and placeholders
 * written @name@. */
#ifndef DOPPLER_BASE_PROGRAM_PAGE_H
#define DOPPLER_BASE_PROGRAM_PAGE_H

#include "base/base.h"

extern const char *const dop_page_profile; /* tools/profile/assets/profile.html */
extern const char *const dop_page_chat;    /* serve/page/chat.html */

/* Appends `page` up to the placeholder @hole@ and returns the rest after it, for the next call.  Appends all of `page` if there is no
 * such placeholder or hole is NULL. */
const char *dop_page_fill(const char *page, const char *hole, dop_buf *out);

#endif
