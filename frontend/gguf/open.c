/* Opens, searches and closes a GGUF model of one or several files. */
#include "frontend/gguf/open.h"
#include "frontend/gguf/gguf_import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const dop_gguf_tensor *
dop_gi_tensor(const dop_gi *gi, const char *name, const dop_gguf **out_part)
{
    for (uint32_t i = 0; i < gi->n_parts; i++) {
        const dop_gguf_tensor *t = dop_gguf_find_tensor(&gi->parts[i], name);
        if (t) {
            if (out_part)
                *out_part = &gi->parts[i];
            return t;
        }
    }
    return NULL;
}

const dop_gguf_tensor *
dop_gi_take(const dop_gi *gi, const char *name, const dop_gguf **out_part)
{
    size_t before = 0;
    for (uint32_t i = 0; i < gi->n_parts; i++) {
        const dop_gguf_tensor *t = dop_gguf_find_tensor(&gi->parts[i], name);
        if (t) {
            gi->taken[before + (size_t)(t - gi->parts[i].tensors)] = true;
            *out_part = &gi->parts[i];
            return t;
        }
        before += gi->parts[i].tensor_count;
    }
    return NULL;
}

/* Opens the other parts of a split model; their paths follow from the first, NAME-00001-of-00003.gguf. */
static dop_status
open_other_parts(dop_gi *gi, uint64_t count)
{
    char tail[32];
    const size_t n = strlen(gi->path);
    snprintf(tail, sizeof tail, "-00001-of-%05u.gguf", (unsigned)count);
    if (n <= strlen(tail) || strcmp(gi->path + n - strlen(tail), tail) != 0)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "a model in %u parts: the first part's name must end with %s, so that the others are found",
                           (unsigned)count, tail);
    for (uint32_t i = 1; i < count; i++) {
        char *path = dop_arena_printf(gi->model->arena, "%.*s-%05u-of-%05u.gguf", (int)(n - strlen(tail)), gi->path,
                                      i + 1, (unsigned)count);
        if (!path)
            return DOP_NO_MEMORY(gi->diag);
        dop_status st = dop_gguf_open(path, gi->diag, &gi->parts[i]);
        if (st != DOP_OK)
            return st;
        gi->n_parts = i + 1;
        uint64_t no = 0;
        if (!dop_gguf_u64(dop_gguf_find(&gi->parts[i], "split.no"), 0, &no) || no != i)
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, path, "split.no is not %u: not part %u of this model", i, i + 1);
    }
    return DOP_OK;
}

dop_status
dop_gi_open(dop_gi *gi)
{
    uint64_t count = 1, no = 0, tensors = 0, found = 0;
    dop_gguf first;
    dop_status st = dop_gguf_open(gi->path, gi->diag, &first);
    if (st != DOP_OK)
        return st;
    const dop_gguf_kv *kv = dop_gguf_find(&first, "split.count");
    if (kv && (!dop_gguf_u64(kv, 0, &count) || count > DOP_GGUF_MAX_PARTS))
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "split.count is not a number of 0 to %d", DOP_GGUF_MAX_PARTS);
    count = count ? count : 1;
    if (st == DOP_OK && count > 1 && dop_gguf_u64(dop_gguf_find(&first, "split.no"), 0, &no) && no != 0)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "this is part %u of %u: name the first part",
                         (unsigned)no + 1, (unsigned)count);
    gi->parts = st == DOP_OK ? calloc((size_t)count, sizeof *gi->parts) : NULL;
    if (!gi->parts) {
        dop_gguf_close(&first);
        return st == DOP_OK ? DOP_NO_MEMORY(gi->diag) : st;
    }
    gi->parts[0] = first;
    gi->n_parts = 1;
    st = count > 1 ? open_other_parts(gi, count) : DOP_OK;
    for (uint32_t i = 0; i < gi->n_parts; i++)
        found += gi->parts[i].tensor_count;
    if (st == DOP_OK && count > 1 && dop_gguf_u64(dop_gguf_find(&gi->parts[0], "split.tensors.count"), 0, &tensors) &&
        tensors != found)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "split.tensors.count is %llu, but the parts have %llu",
                         (unsigned long long)tensors, (unsigned long long)found);
    gi->taken =
        st == DOP_OK ? dop_arena_alloc(gi->model->arena, (size_t)(found ? found : 1) * sizeof *gi->taken) : NULL;
    return st == DOP_OK && !gi->taken ? DOP_NO_MEMORY(gi->diag) : st;
}

void
dop_gi_close(dop_gi *gi)
{
    dop_weights *w = &gi->model->weights;
    w->maps = calloc(gi->n_parts ? gi->n_parts : 1, sizeof *w->maps);
    for (uint32_t i = 0; i < gi->n_parts; i++) {
        if (w->maps) {
            w->maps[w->n_maps++] = gi->parts[i].map;
            gi->parts[i].map = (dop_map){0};
        }
        dop_gguf_close(&gi->parts[i]);
    }
    w->cap_maps = w->n_maps;
    free(gi->parts);
}
