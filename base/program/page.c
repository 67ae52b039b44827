#include "base/program/page.h"

#include <string.h>

const char *
dop_page_fill(const char *page, const char *hole, dop_buf *out)
{
    size_t len = hole ? strlen(hole) : 0;
    for (const char *at = page; hole && (at = strchr(at, '@')) != NULL; at++)
        if (strncmp(at + 1, hole, len) == 0 && at[len + 1] == '@') {
            dop_buf_append(out, page, (size_t)(at - page));
            return at + len + 2;
        }
    dop_buf_puts(out, page);
    return page + strlen(page);
}
