/* Pages that the build embeds from assets/: HTML with its style sheet and script in place (assets/embed.cmake) and holes,
 * written @name@, for what the program finds out. */
#ifndef DOPPLER_BASE_PROGRAM_PAGE_H
#define DOPPLER_BASE_PROGRAM_PAGE_H

#include "base/base.h"

extern const char *const dop_page_profile; /* runtime/inspect/profile/assets/profile.html */
extern const char *const dop_page_chat;    /* runtime/serve/assets/chat.html */

/* Appends `page` up to the hole of that name and gives what follows the hole; NULL takes the whole page.  A page is filled
 * from front to back by calling this with what the last call gave.  Without such a hole the whole page is appended. */
const char *dop_page_fill(const char *page, const char *hole, dop_buf *out);

#endif
