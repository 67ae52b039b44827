#include "runtime/model/prefix.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void
dop_prefix_finish(dop_prefix *prefix)
{
    free(prefix->marks);
    free(prefix->keys);
    memset(prefix, 0, sizeof *prefix);
}

dop_status
dop_prefix_set(dop_prefix *prefix, uint64_t seed, const dop_prefix_mark *marks, uint32_t n_marks, dop_diag *diag)
{
    dop_prefix_mark *own = NULL;
    if (n_marks > 0) {
        own = malloc(n_marks * sizeof *own);
        if (!own)
            return DOP_NO_MEMORY(diag);
        memcpy(own, marks, n_marks * sizeof *own);
    }
    free(prefix->marks);
    prefix->marks = own;
    prefix->n_marks = n_marks;
    prefix->seed = seed;
    return DOP_OK;
}

dop_status
dop_prefix_copy(dop_prefix *to, const dop_prefix *from, dop_diag *diag)
{
    return dop_prefix_set(to, from->seed, from->marks, from->n_marks, diag);
}

void
dop_prefix_cut(dop_prefix *prefix, uint32_t first, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < prefix->n_marks; i++) {
        dop_prefix_mark mark = prefix->marks[i];
        if (mark.pos >= first + n)
            mark.pos -= n;
        else if (mark.pos + mark.n > first)
            continue;
        prefix->marks[kept++] = mark;
    }
    prefix->n_marks = kept;
}

void
dop_prefix_rewind(dop_prefix *prefix, uint32_t n)
{
    while (prefix->n_marks > 0 && prefix->marks[prefix->n_marks - 1].pos >= n)
        prefix->n_marks--;
    if (prefix->n_marks > 0) {
        dop_prefix_mark *last = &prefix->marks[prefix->n_marks - 1];
        last->n = last->pos + last->n > n ? n - last->pos : last->n;
    }
}

const uint32_t *
dop_prefix_keys(dop_prefix *prefix, const uint32_t *tokens, size_t n)
{
    if (prefix->n_marks == 0)
        return tokens;
    if (n > prefix->cap_keys) {
        uint32_t *p = realloc(prefix->keys, n * sizeof *p);
        if (!p)
            return NULL;
        prefix->keys = p;
        prefix->cap_keys = n;
    }
    memcpy(prefix->keys, tokens, n * sizeof *tokens);
    for (uint32_t i = 0; i < prefix->n_marks; i++) {
        const dop_prefix_mark *mark = &prefix->marks[i];
        for (uint32_t k = 0; k < mark->n && mark->pos + k < n; k++)
            prefix->keys[mark->pos + k] =
                DOP_PREFIX_MARKED | (uint32_t)XXH3_64bits_withSeed(mark->digest, sizeof mark->digest, k);
    }
    return prefix->keys;
}

size_t
dop_prefix_same(const uint32_t *a, const uint32_t *b, size_t n)
{
    size_t same = 0;
    while (same < n && a[same] == b[same])
        same++;
    return same;
}
