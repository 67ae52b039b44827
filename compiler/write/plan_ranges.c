/* Writes which weights of a plan stay in the model's files (DOP_SEC_RANGES of runtime/plan/plan_format.h). */
#include "compiler/write/plan_writer.h"
#include "runtime/plan/plan_weights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 4096 /* bytes: smaller ones are copied to the plan */ };

/* The map of the model that has these bytes; n_maps: none has, because an importer made them. */
static uint32_t
find_map(const dop_weights *weights, const uint8_t *bytes, uint64_t size)
{
    uint32_t i = 0;
    for (; i < weights->n_maps; i++) {
        const dop_map *m = &weights->maps[i];
        if (m->path && (uintptr_t)bytes >= (uintptr_t)m->data &&
            (uintptr_t)bytes + size <= (uintptr_t)m->data + m->size)
            break;
    }
    return i;
}

bool
dop_plan_sections_refers(const dop_plan_sections *sections, const dop_packed *item)
{
    if (!sections->refers || item->size < LEAST || !dop_pack_is_stored(item))
        return false;
    const dop_weights *weights = &sections->pack->model->weights;
    bool found = true;
    for (uint32_t e = 0; e < item->experts && found; e++)
        found = find_map(weights, dop_pack_stored(item, e), dop_pack_matrix_bytes(item)) < weights->n_maps;
    return found;
}

/* The row of FILES for a map of the model.  rows: [n_maps] 1 + the row; 0: there is none yet. */
static uint32_t
file_row(dop_plan_writer *w, uint32_t map, uint32_t *rows)
{
    const dop_map *m = &w->sections.pack->model->weights.maps[map];
    dop_buf *files = &w->sections.sec[DOP_SEC_FILES];
    if (rows[map] == 0) {
        char *path = realpath(m->path, NULL);
        if (!path && errno == ENOMEM)
            dop_plan_writer_no_memory(w);
        else if (!path && w->status == DOP_OK)
            w->status = DOP_FAIL_IN(w->diag, DOP_E_IO, m->path, "cannot find its path: %s", strerror(errno));
        dop_plan_file row = {.name = dop_plan_writer_string(w, path ? path : ""), .model = 1, .size = m->size};
        dop_buf_append(files, &row, sizeof row);
        rows[map] = (uint32_t)(files->size / sizeof row);
        free(path);
    }
    return rows[map] - 1;
}

/* Sets the digests of all ranges. */
static dop_status
set_digests(dop_plan_range *ranges, uint32_t n, const uint8_t *const *bytes, dop_diag *diag)
{
    dop_weights_range *list = calloc(n + 1u, sizeof *list);
    if (!list)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        list[i] = (dop_weights_range){bytes[i], ranges[i].size, 0};
    dop_status st = dop_weights_digest(list, n, NULL, diag);
    for (uint32_t i = 0; i < n; i++)
        ranges[i].digest = list[i].digest;
    free(list);
    return st;
}

void
dop_plan_writer_ranges(dop_plan_writer *w, uint64_t *shared)
{
    const dop_pack *p = w->sections.pack;
    const dop_weights *weights = &p->model->weights;
    uint32_t *rows = calloc(weights->n_maps + 1u, sizeof *rows);
    dop_buf bytes = {0}, *out = &w->sections.sec[DOP_SEC_RANGES];
    if (!rows) {
        dop_plan_writer_no_memory(w);
        return;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const dop_packed *x = &p->items[i];
        const uint64_t size = dop_pack_matrix_bytes(x);
        for (uint32_t e = 0; dop_plan_sections_refers(&w->sections, x) && e < x->experts; e++) {
            const uint8_t *at = dop_pack_stored(x, e);
            const uint32_t map = find_map(weights, at, size);
            dop_plan_range row = {.slot = w->slot_weights + x->segment,
                                  .file = file_row(w, map, rows),
                                  .offset = x->offset + e * x->expert_stride,
                                  .size = size,
                                  .file_offset = (uint64_t)(at - weights->maps[map].data),
                                  .before = shared[x->segment]};
            shared[x->segment] += size;
            dop_buf_append(out, &row, sizeof row);
            dop_buf_append(&bytes, &at, sizeof at);
        }
    }
    if (out->failed || bytes.failed)
        dop_plan_writer_no_memory(w);
    else if (w->status == DOP_OK && out->size > 0)
        w->status = set_digests((dop_plan_range *)(void *)out->data, (uint32_t)(out->size / sizeof(dop_plan_range)),
                                (const uint8_t *const *)(void *)bytes.data, w->diag);
    dop_buf_finish(&bytes);
    free(rows);
}
