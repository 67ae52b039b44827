/* Shards of RDRR directories; opened and verified at first use. */
#include "frontend/rdrr/shards.h"
#include "frontend/facts/leftovers.h"
#include "frontend/rdrr/rdrr.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dop_status
verify_shard_hash(const dop_rdrr *r, uint32_t i, const char *path, const dop_map *map)
{
    const dop_rdrr_shard *s = &r->shards[i];
    uint8_t digest[EVP_MAX_MD_SIZE];
    char hex[65] = {0};
    unsigned n = 0;
    if (map->size != s->size)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "shard %u has %llu bytes, the manifest says %llu", i,
                           (unsigned long long)map->size, (unsigned long long)s->size);
    if (s->algorithm != DOP_RDRR_SHA256)
        return DOP_OK;
    if (!EVP_Digest(map->data, (size_t)map->size, digest, &n, EVP_sha256(), NULL) || n != 32)
        return DOP_FAIL_IN(r->diag, DOP_E_INTERNAL, path, "cannot compute a sha256");
    for (unsigned k = 0; k < 32; k++)
        snprintf(hex + 2 * k, 3, "%02x", digest[k]);
    if (strcmp(hex, s->hash) != 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path,
                           "shard %u does not have the sha256 that the manifest states: damaged, download it again", i);
    return DOP_OK;
}

/* Opens a shard at its first use. */
static dop_status
open_rdrr_shard(dop_rdrr *r, uint32_t i)
{
    dop_weights *w = &r->model->weights;
    if (r->shards[i].data)
        return DOP_OK;
    char *path = dop_arena_printf(r->arena, "%s/%s", r->dir, r->shards[i].file);
    if (w->n_maps == w->cap_maps) {
        uint32_t cap = w->cap_maps ? 2 * w->cap_maps : 16;
        dop_map *maps = realloc(w->maps, cap * sizeof *maps);
        if (!maps)
            return DOP_NO_MEMORY(r->diag);
        w->maps = maps;
        w->cap_maps = cap;
    }
    dop_map *map = &w->maps[w->n_maps];
    DOP_RETURN_IF_ERROR(path ? dop_map_open(path, r->diag, map) : DOP_NO_MEMORY(r->diag));
    w->n_maps++;
    r->shards[i].data = map->data;
    if (r->shards[i].algorithm == DOP_RDRR_BLAKE3 && !r->unverified) {
        r->unverified = true;
        DOP_RETURN_IF_ERROR(dop_checkpoint_note(
            r->model, "shards not verified: their hashes are blake3, only sha256 is checked", r->diag));
    }
    return verify_shard_hash(r, i, path, map);
}

dop_status
dop_rdrr_gather(dop_rdrr *r, const dop_rdrr_tensor *t, const uint8_t **out)
{
    uint8_t *copy = NULL;
    uint64_t at = 0;
    for (uint32_t i = 0; i < t->n_spans; i++) {
        dop_status st = open_rdrr_shard(r, t->spans[i].shard);
        if (st != DOP_OK)
            return st;
    }
    if (t->n_spans == 1) {
        *out = r->shards[t->spans[0].shard].data + t->spans[0].offset;
        return DOP_OK;
    }
    copy = dop_arena_alloc(r->arena, (size_t)t->size);
    if (!copy)
        return DOP_FAIL(r->diag, DOP_E_NOMEM, "out of host memory for tensor %s (%llu bytes)", t->name,
                        (unsigned long long)t->size);
    for (uint32_t i = 0; i < t->n_spans; i++) {
        memcpy(copy + at, r->shards[t->spans[i].shard].data + t->spans[i].offset, (size_t)t->spans[i].size);
        at += t->spans[i].size;
    }
    *out = copy;
    return DOP_OK;
}
