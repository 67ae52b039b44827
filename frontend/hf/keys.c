/* Fields of config.json with alternative names. */
#include "frontend/hf/keys.h"
#include "frontend/hf/hf.h"

#include <stdio.h>
#include <string.h>

const char *
dop_hf_key(const dop_hf *hf, const char *keys, char *first, size_t size)
{
    const char *other = strchr(keys, '|');
    snprintf(first, size, "%.*s", (int)strcspn(keys, "|"), keys);
    return other && dop_json_has(&hf->cfg, other + 1) ? other + 1 : first;
}
