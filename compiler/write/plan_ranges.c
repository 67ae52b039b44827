/* Writes the weights that stay in the model's files (DOP_SEC_RANGES of plan/plan_format.h). */
#include "plan/plan_ranges.h"
#include "compiler/write/plan_writer.h"
#include "plan/plan_weights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 4096 /* bytes; smaller weights are copied to the plan */ };

bool
dop_plan_can_refer(const dop_weights *weights)
{
    bool can = true;
    for (uint32_t i = 0; i < weights->n_maps && can; i++) {
        char *path = weights->maps[i].path ? realpath(weights->maps[i].path, NULL) : NULL;
        can = !path || !dop_plan_writer_refuses(path);
        free(path);
    }
    return can;
}

/* Returns the index of the model's file mapping that contains these bytes; n_maps if none does, because an importer
 * made them. */
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

/* Returns the number of blocks of one matrix; 0 for types without blocks. */
static uint64_t
count_matrix_blocks(const dop_packed *item)
{
    const dop_type_info *ti = dop_type_of(item->type);
    return ti->kind == DOP_KIND_QUANT ? item->rows * (item->row_bytes / ti->bytes) : 0;
}

/* Returns the bytes of one matrix in the model's file. */
static uint64_t
count_file_bytes(const dop_packed *item)
{
    const uint64_t blocks = count_matrix_blocks(item);
    return blocks ? blocks * dop_type_of(item->type)->bytes : dop_pack_matrix_bytes(item);
}

dop_stored
dop_plan_sections_refers(const dop_plan_sections *sections, const dop_packed *item)
{
    const dop_stored as = sections->refers && item->size >= LEAST ? dop_pack_stored_as(item) : DOP_STORED_NOT;
    const dop_weights *weights = &sections->pack->model->weights;
    bool found = as != DOP_STORED_NOT;
    for (uint32_t e = 0; e < item->experts && found; e++)
        found = find_map(weights, dop_pack_stored(item, e), count_file_bytes(item)) < weights->n_maps;
    return found ? as : DOP_STORED_NOT;
}

/* Returns the row of FILES for a mapped file of the model, and adds it if necessary. rows: [n_maps] 1 + the row; 0: not
 * added yet. */
static uint32_t
add_file_row(dop_plan_writer *w, uint32_t map, uint32_t *rows)
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
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < n; i++)
        list[i] = (dop_weights_range){bytes[i], dop_plan_range_bytes(&ranges[i]), 0};
    dop_status st = dop_weights_digest(list, n, NULL, diag);
    for (uint32_t i = 0; i < n; i++)
        ranges[i].digest = ranges[i].what == DOP_RANGE_GROUPS ? ranges[i - 1].digest : list[i].digest;
    free(list);
    return st;
}

/* Output buffers for the rows of all weights. */
typedef struct ranges_out {
    dop_plan_writer *w;
    dop_buf bytes;    /* [rows] address of each row's bytes (const uint8_t *) */
    uint64_t *shared; /* [segments] bytes that stay in the model's files */
    uint32_t *rows;   /* [n_maps] 1 + row in FILES of each mapped file; 0: none yet */
} ranges_out;

/* Writes a row for `size` bytes from byte `at` of the expert's matrix. */
static void
put_range(ranges_out *o, const dop_packed *x, uint32_t expert, uint32_t what, uint64_t at, uint64_t size)
{
    dop_plan_writer *w = o->w;
    const dop_weights *weights = &w->sections.pack->model->weights;
    const uint8_t *stored = dop_pack_stored(x, expert);
    const uint32_t map = find_map(weights, stored, count_file_bytes(x));
    dop_plan_range row = {.slot = w->slot_weights + x->segment,
                          .file = add_file_row(w, map, o->rows),
                          .offset = x->offset + expert * x->expert_stride + at,
                          .size = size,
                          .file_offset = (uint64_t)(stored - weights->maps[map].data),
                          .before = o->shared[x->segment],
                          .what = what,
                          .type = what == DOP_RANGE_BYTES ? 0 : (uint32_t)x->type,
                          .blocks = count_matrix_blocks(x)};
    o->shared[x->segment] += size;
    dop_buf_append(&w->sections.sec[DOP_SEC_RANGES], &row, sizeof row);
    dop_buf_append(&o->bytes, &stored, sizeof stored);
}

void
dop_plan_writer_ranges(dop_plan_writer *w, uint64_t *shared)
{
    const dop_pack *p = w->sections.pack;
    dop_buf *out = &w->sections.sec[DOP_SEC_RANGES];
    ranges_out o = {.w = w, .shared = shared, .rows = calloc(p->model->weights.n_maps + 1u, sizeof *o.rows)};
    if (!o.rows) {
        dop_plan_writer_no_memory(w);
        return;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const dop_packed *x = &p->items[i];
        const dop_stored as = dop_plan_sections_refers(&w->sections, x);
        const dop_planes planes = dop_pack_planes(x);
        for (uint32_t e = 0; as == DOP_STORED_BYTES && e < x->experts; e++)
            put_range(&o, x, e, DOP_RANGE_BYTES, 0, dop_pack_matrix_bytes(x));
        for (uint32_t e = 0; as == DOP_STORED_BLOCKS && e < x->experts; e++) {
            put_range(&o, x, e, DOP_RANGE_UNITS, 0, planes.units);
            put_range(&o, x, e, DOP_RANGE_GROUPS, planes.groups, planes.group_bytes);
        }
    }
    if (out->failed || o.bytes.failed)
        dop_plan_writer_no_memory(w);
    else if (w->status == DOP_OK && out->size > 0)
        w->status = set_digests((dop_plan_range *)(void *)out->data, (uint32_t)(out->size / sizeof(dop_plan_range)),
                                (const uint8_t *const *)(void *)o.bytes.data, w->diag);
    dop_buf_finish(&o.bytes);
    free(o.rows);
}
