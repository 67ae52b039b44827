/* Growable arrays of token ids (ids.h). */
#include "text/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

void
dop_ids_push(dop_ids *ids, uint32_t id)
{
    if (ids->failed)
        return;
    if (ids->count == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 64;
        uint32_t *p = cap <= SIZE_MAX / sizeof *p ? realloc(ids->data, cap * sizeof *p) : NULL;
        if (!p) {
            ids->failed = true;
            return;
        }
        ids->data = p;
        ids->cap = cap;
    }
    ids->data[ids->count++] = id;
}

void
dop_ids_finish(dop_ids *ids)
{
    free(ids->data);
    memset(ids, 0, sizeof *ids);
}
