#include "compiler/pack/pack.h"

#include "base/parallel.h"
#include "compiler/pack/imatrix.h"
#include "compiler/pack/pack_rows.h"
#include "compiler/pack/quant.h"
#include "compiler/pack/repack.h"
#include "frontend/build/build.h"
#include "frontend/build/build_vision.h"
#include "ir/codebooks.h"
#include "ir/interp/interp.h"
#include "kernels/emit/weight_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = DOP_PACK_ALIGN, TAIL = 16 /* bytes after a tensor that a vector load of its last value may touch */ };
enum { SEGMENT = 256 << 20 }; /* bytes of a segment; a larger tensor gets its own */

void
dop_pack_init(dop_pack *p, const dop_checkpoint *model, uint32_t ctx)
{
    memset(p, 0, sizeof *p);
    p->model = model;
    p->ctx = ctx;
}

void
dop_pack_finish(dop_pack *p)
{
    free(p->items);
    dop_lookup_finish(&p->by_origin);
    memset(p, 0, sizeof *p);
}

static uint32_t
hash_origin(const dop_origin *x)
{
    const uint32_t h = ((x->index * 8 + (uint32_t)x->kind) * 16777619u ^ x->first) * 16777619u ^ x->rows;
    return h ^ h >> 15;
}

const dop_packed *
dop_pack_find(const dop_pack *p, const dop_origin *from)
{
    uint32_t cursor = 0, i;
    while (dop_lookup_next(&p->by_origin, hash_origin(from), &cursor, &i)) {
        const dop_origin *x = &p->items[i].from;
        if (x->kind == from->kind && x->index == from->index && x->first == from->first && x->rows == from->rows)
            return &p->items[i];
    }
    return NULL;
}

/* Returns the bytes that a weight of `size` bytes occupies in a segment. */
static uint64_t
count_taken_bytes(uint64_t size)
{
    return dop_align_u64(size + TAIL, ALIGN);
}

uint32_t
dop_pack_piece_rows(dop_type type, const dop_shape *shape, uint64_t max_segment)
{
    const uint32_t rank = shape->rank, rows = shape->dim[rank - 2].mul, cols = shape->dim[rank - 1].mul;
    const uint64_t others = rank == 3 ? shape->dim[0].mul - 1 : 0; /* number of matrices before the last one */
    uint32_t most = rows + 1, least = 0; /* bisection: `most` rows do not fit, `least` rows do */
    while (most - least > 1) {
        const uint32_t half = most > rows ? rows : least + (most - least) / 2;
        const uint64_t size = others * dop_packed_expert_stride(type, half, cols) + dop_packed_bytes(type, half, cols);
        if (count_taken_bytes(size) <= max_segment)
            least = half;
        else
            most = half;
    }
    if (least == 0 || least == rows)
        return 0;
    const uint32_t unit = least >= 1024 ? 64 : least >= 4 ? 4 : 1; /* rows that kernels compute together */
    const uint32_t even = dop_div_up_u32(rows, dop_div_up_u32(rows, least / unit * unit));
    return dop_div_up_u32(even, unit) * unit;
}

/* True for run-time adapter weights, which are zeros in the plan. */
static bool
is_adapter_room(dop_origin_kind kind)
{
    return kind == DOP_FROM_LORA_A || kind == DOP_FROM_LORA_B || kind == DOP_FROM_LORA_FACTORS ||
           kind == DOP_FROM_CONTROL;
}

static dop_status
add_leaf(dop_pack *p, const dop_graph *g, dop_node_id id, dop_diag *diag)
{
    const dop_node *n = dop_node_at(g, id);
    const char *name = dop_node_s(g, id, DOP_A_name);
    const dop_checkpoint *m = p->model;
    dop_packed item = {.name = name, .from = n->origin, .type = n->type, .experts = 1};
    if (dop_pack_find(p, &item.from))
        return DOP_OK;
    if (item.from.kind == DOP_FROM_WEIGHT && item.from.index < m->weights.n) {
        item.source = &m->weights.items[item.from.index];
        item.rows = item.from.rows ? item.from.rows : item.source->rows;
        item.cols = item.source->cols;
        item.experts = dop_weight_experts(item.source);
    } else if (item.from.kind == DOP_FROM_ROPE && item.from.index < m->arch.n_ropes) {
        item.rows = dop_rope_rows(p->ctx);
        item.cols = dop_node_cols(g, id);
    } else if (is_adapter_room(item.from.kind)) {
        item.rows = n->shape.dim[0].mul;
        item.cols = dop_node_cols(g, id);
    } else if (item.from.kind == DOP_FROM_TEMPER) {
        item.rows = p->ctx;
        item.cols = 1;
    } else if (item.from.kind == DOP_FROM_ONES) {
        item.rows = item.from.index;
        item.cols = 1;
    } else if (item.from.kind == DOP_FROM_RELATIVE) {
        item.rows = dop_layer_attention(&m->arch.layers[0])->n_heads;
        item.cols = dop_node_cols(g, id);
    } else if (item.from.kind == DOP_FROM_TURNS && m->vision) {
        item.rows = 2 * DOP_STEP_EDGE;
        item.cols = m->vision->head_dim;
    } else if (item.from.kind == DOP_FROM_PLACES && item.from.index < m->arch.n_ropes) {
        item.rows = 2 * DOP_STEP_EDGE;
        item.cols = dop_node_cols(g, id);
    } else {
        return DOP_FAIL(diag, DOP_E_INTERNAL, "the graph reads weight %s, which the model does not have", name);
    }
    bool matrix = !item.source || item.source->rank > 1;
    uint32_t values = matrix ? dop_packed_row_values(item.type, item.cols) : item.cols;
    if (!dop_type_row_bytes(item.type, values, &item.row_bytes))
        return DOP_FAIL(diag, DOP_E_INPUT, "weight %s is too large", name);
    item.size = matrix ? dop_packed_bytes(item.type, item.rows, item.cols) : item.row_bytes;
    if (item.source && item.source->rank == 3) {
        item.expert_stride = dop_packed_expert_stride(item.type, item.rows, item.cols);
        uint64_t others = 0;
        if (!dop_mul_u64(item.expert_stride, item.experts - 1, &others) || !dop_add_u64(others, item.size, &item.size))
            return DOP_FAIL(diag, DOP_E_INPUT, "weight %s is too large", name);
    }
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? p->cap * 2 : 64;
        dop_packed *items = realloc(p->items, cap * sizeof *items);
        if (!items)
            return DOP_NO_MEMORY(diag);
        p->items = items;
        p->cap = cap;
    }
    if (!dop_lookup_add(&p->by_origin, hash_origin(&item.from), p->n))
        return DOP_NO_MEMORY(diag);
    p->items[p->n++] = item;
    return DOP_OK;
}

dop_status
dop_pack_add_graph(dop_pack *p, const dop_graph *g, dop_diag *diag)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        dop_status st = dop_node_at(g, id)->op == DOP_OP_weight ? add_leaf(p, g, id, diag) : DOP_OK;
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

void
dop_pack_join(dop_pack *p, const dop_graph *g)
{
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        uint32_t first = UINT32_MAX, last = 0;
        for (uint32_t i = 0; i < g->regions[r].n_nodes; i++) {
            const dop_node *n = dop_node_at(g, g->regions[r].nodes[i]);
            for (uint32_t k = 0; k < n->n_srcs; k++) {
                const dop_node *w = dop_node_at(g, n->src[k]);
                const dop_packed *x = w->op == DOP_OP_weight && w->shape.rank > 1 ? dop_pack_find(p, &w->origin) : NULL;
                const uint32_t at = x ? (uint32_t)(x - p->items) : first;
                first = at < first ? at : first;
                last = x && at > last ? at : last;
            }
        }
        for (uint32_t i = first; i < last; i++)
            p->items[i + 1].joined = true;
    }
}

/* Returns the bytes that item i and the joined items after it occupy in a segment. */
static uint64_t
count_run_bytes(const dop_pack *p, uint32_t i)
{
    uint64_t bytes = count_taken_bytes(p->items[i].size);
    for (uint32_t k = i + 1; k < p->n && p->items[k].joined; k++)
        bytes += count_taken_bytes(p->items[k].size);
    return bytes;
}

dop_status
dop_pack_layout(dop_pack *p, uint64_t max_segment, dop_diag *diag)
{
    uint64_t usual = max_segment < SEGMENT ? max_segment : SEGMENT;
    p->n_segments = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        dop_packed *x = &p->items[i];
        uint64_t bytes = count_taken_bytes(x->size);
        if (bytes > max_segment)
            return DOP_FAIL(diag, DOP_E_INPUT,
                            "weight %s takes %llu bytes, more than one allocation of the target (%llu): %s%s%s",
                            x->name, (unsigned long long)bytes, (unsigned long long)max_segment,
                            x->source ? "quantize it (`quant` " : "take a smaller `ctx`, which is its rows",
                            !x->source             ? ""
                            : strchr(x->name, '.') ? strchr(x->name, '.') + 1
                                                   : x->name,
                            x->source ? "=q8_0)" : "");
        const uint64_t run = count_run_bytes(p, i), room = x->joined ? max_segment : usual;
        const uint64_t next = !x->joined && run <= max_segment ? run : bytes;
        if (p->n_segments == 0 || p->segment_size[p->n_segments - 1] + next > room) {
            if (p->n_segments == DOP_MAX_SEGMENTS)
                return DOP_FAIL(diag, DOP_E_INPUT, "the weights need more than %d allocations on this target",
                                DOP_MAX_SEGMENTS);
            p->segment_size[p->n_segments++] = 0;
        }
        x->segment = p->n_segments - 1;
        x->offset = p->segment_size[x->segment];
        p->segment_size[x->segment] += bytes;
    }
    return DOP_OK;
}

static void
encode_row(dop_type t, const float *in, uint32_t n, uint8_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        uint16_t h = t == DOP_TYPE_f16 ? dop_f32_to_f16(in[i]) : dop_f32_to_bf16(in[i]);
        if (t == DOP_TYPE_f32)
            memcpy(out + i * 4u, &in[i], 4);
        else
            memcpy(out + i * 2u, &h, 2);
    }
}

static dop_status
fill_relative_table(const dop_pack *p, const dop_packed *item, float *table, dop_diag *diag)
{
    const dop_relative *r = &p->model->arch.encoder.relative;
    const dop_weight *w = dop_weights_find(&p->model->weights, "relative");
    float *learned = w && w->cols == item->rows ? calloc((size_t)r->buckets * item->rows, sizeof *learned) : NULL;
    if (!learned)
        return w ? DOP_NO_MEMORY(diag) : DOP_FAIL(diag, DOP_E_INTERNAL, "the model has no values by distance");
    for (uint32_t i = 0; i < r->buckets; i++)
        dop_decode_row(w->type, dop_weight_at(w, i), w->cols, learned + (size_t)i * w->cols);
    dop_relative_table(r, learned, item->rows, table);
    free(learned);
    return DOP_OK;
}

static dop_status
write_table(const dop_pack *p, const dop_packed *item, uint8_t *out, dop_diag *diag)
{
    float *table = calloc((size_t)item->rows * item->cols, sizeof *table);
    if (!table)
        return DOP_NO_MEMORY(diag);
    dop_status st = DOP_OK;
    if (item->from.kind == DOP_FROM_TEMPER)
        dop_temper_table(&p->model->arch.temper, item->rows, table);
    else if (item->from.kind == DOP_FROM_ONES)
        for (uint32_t i = 0; i < item->rows; i++)
            table[i] = 1;
    else if (item->from.kind == DOP_FROM_RELATIVE)
        st = fill_relative_table(p, item, table, diag);
    else if (item->from.kind == DOP_FROM_TURNS)
        dop_vision_turns(p->model->vision, table);
    else if (item->from.kind == DOP_FROM_PLACES)
        st = dop_rope_places(&p->model->arch.ropes[item->from.index], p->ctx, table, diag);
    else
        st = dop_rope_table(&p->model->arch.ropes[item->from.index], p->ctx, table, diag);
    memset(out, 0, item->size);
    for (uint32_t r = 0; r < item->rows && st == DOP_OK; r++)
        memcpy(out + r * item->row_bytes, table + (size_t)r * item->cols, item->cols * sizeof *table);
    free(table);
    return st;
}

/* Rows per work item of a thread. In weights with parts, a word may hold one input of several rows, and a cache line
 * holds this input for many rows. With 128 rows, each line is read only once. */
enum { ROWS_AT_ONCE = 16, ROWS_OF_PARTS = 128 };

/* True if no value is an infinity or NaN. n must be a multiple of 16. */
static bool
all_finite(const float *x, uint32_t n)
{
    enum { AT_ONCE = 16 };
    const uint32_t exponent = 0x7f800000;
    uint32_t u[AT_ONCE], bad[AT_ONCE] = {0}, any = 0;
    for (uint32_t i = 0; i < n; i += AT_ONCE) {
        memcpy(u, x + i, sizeof u);
        for (int k = 0; k < AT_ONCE; k++)
            bad[k] |= (u[k] & exponent) == exponent;
    }
    for (int k = 0; k < AT_ONCE; k++)
        any |= bad[k];
    return any == 0;
}

/* Buffers of one thread. */
typedef struct row_buffers {
    float *values;
    uint8_t *blocks; /* one row as blocks of the packed type */
    uint8_t *parts;  /* several rows of a weight with parts, as blocks of its stored type */
    float *columns;  /* importance of each input */
    bool weighs;     /* true if `columns` is set: rows are quantized by importance */
} row_buffers;

/* Parallel writing of a packed tensor. Each thread takes groups of rows in turn. A group has rows of one expert only,
 * and no two rows share a byte. */
typedef struct row_job {
    const dop_packed *item;
    const dop_imatrix *imatrix;
    uint8_t *out;
    uint32_t at_once; /* rows per group */
    uint32_t blocks;  /* groups per expert */
    row_buffers buffers[DOP_MAX_THREADS];
} row_job;

/* Writes one row of matrix w, whose packed form begins at out. stored: the row as blocks of its stored type; NULL if it
 * is not contiguous. Returns false if the row contains an infinity or NaN and must be quantized. */
static bool
write_packed_row(const dop_packed *item, const dop_weight *w, const row_buffers *b, uint32_t row, const uint8_t *stored,
                 uint8_t *out)
{
    const bool quant = dop_type_of(item->type)->kind == DOP_KIND_QUANT,
               other = w->type != item->type || w->n_changes > 0;
    if (other || !quant) {
        const float factor = stored ? dop_weight_factor(w) : 1;
        if (stored)
            dop_decode_row(w->type, stored, w->cols, b->values);
        else
            dop_weight_row(w, item->from.first + row, b->values);
        for (uint32_t i = 0; factor != 1 && i < w->cols; i++)
            b->values[i] *= factor;
    }
    if (!quant) {
        encode_row(item->type, b->values, item->cols, out + row * item->row_bytes);
        return true;
    }
    if (other) {
        memset(b->values + item->cols, 0, 16 * sizeof *b->values);
        if (!all_finite(b->values, (item->cols + 15) / 16 * 16))
            return false;
        dop_quantize_row(item->type, b->values, b->weighs ? b->columns : NULL, item->cols, b->blocks);
        stored = b->blocks;
    }
    dop_repack_row(item->type, stored, row, item->rows, item->cols, out);
    return true;
}

/* Returns "expert 3, " for messages if a tensor has the matrices of several experts, otherwise "". */
static const char *
expert_text(const dop_packed *item, uint32_t expert, char *out, size_t size)
{
    if (item->source->rank == 3 && !item->source->each)
        snprintf(out, size, "expert %u, ", expert);
    else
        out[0] = 0;
    return out;
}

static dop_status
write_packed_rows(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    row_job *j = user;
    const dop_packed *item = j->item;
    const uint32_t expert = index / j->blocks;
    const dop_weight w = dop_weight_expert(item->source, expert);
    uint8_t *out = j->out + expert * item->expert_stride;
    row_buffers *b = &j->buffers[worker];
    uint64_t packed = 0, stored = 0;
    uint32_t first = index % j->blocks * j->at_once, left = item->rows - first,
             n = left < j->at_once ? left : j->at_once;
    (void)dop_type_row_bytes(item->type, item->cols, &packed);
    (void)dop_type_row_bytes(w.type, item->cols, &stored);
    if (!b->values) {
        b->values = malloc(((size_t)item->cols + 256) * sizeof *b->values);
        b->blocks = malloc((size_t)packed + 1);
        b->columns = malloc(((size_t)item->cols + 1) * sizeof *b->columns);
    }
    const bool parts = w.parts && !w.n_changes;
    if (parts && !b->parts)
        b->parts = malloc(j->at_once * (size_t)stored);
    if (!b->values || !b->blocks || !b->columns || (parts && !b->parts))
        return DOP_NO_MEMORY(diag);
    if (parts)
        dop_int4_rows(&w, item->from.first + first, n, b->parts);
    b->weighs = j->imatrix && (w.type != item->type || w.n_changes) && dop_quantizable(item->type) &&
                dop_imatrix_columns(j->imatrix, item->source, expert, b->columns);
    for (uint32_t r = first; r < first + n; r++) {
        const uint8_t *at = parts                         ? b->parts + (r - first) * stored
                            : w.col_stride || w.n_changes ? NULL
                                                          : dop_weight_at(&w, item->from.first + r);
        if (!write_packed_row(item, &w, b, r, at, out))
            return DOP_FAIL(diag, DOP_E_INPUT, "tensor %s holds infinities or NaN (%srow %u): it cannot be quantized",
                            w.source, expert_text(item, expert, (char[24]){0}, 24), item->from.first + r);
    }
    if (first == 0 && w.type == item->type && !w.n_changes)
        dop_repack_factor(item->type, dop_weight_factor(&w), item->rows, item->cols, out);
    return DOP_OK;
}

/* Writes a tensor whose rows are repacked, quantized or converted, not only copied. */
static dop_status
write_in_threads(const dop_pack *p, const dop_packed *item, uint8_t *out, dop_diag *diag)
{
    const uint32_t experts = dop_weight_experts(item->source);
    const dop_weight first = dop_weight_expert(item->source, 0);
    row_job j = {
        .item = item, .imatrix = p->imatrix, .out = out, .at_once = first.parts ? ROWS_OF_PARTS : ROWS_AT_ONCE};
    bool small = (uint64_t)item->rows * item->cols * experts < 65536; /* too small for several threads */
    j.blocks = dop_div_up_u32(item->rows, j.at_once);
    const uint64_t n = (uint64_t)j.blocks * experts;
    if (n > UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_INPUT, "weight %s is too large", item->name);
    dop_status st = dop_parallel_for((uint32_t)n, small ? 1 : p->threads, write_packed_rows, &j, diag);
    for (uint32_t i = 0; i < DOP_MAX_THREADS; i++) {
        free(j.buffers[i].values);
        free(j.buffers[i].blocks);
        free(j.buffers[i].parts);
        free(j.buffers[i].columns);
    }
    return st;
}

uint64_t
dop_pack_matrix_bytes(const dop_packed *item)
{
    return item->size - (item->experts - 1) * item->expert_stride;
}

dop_planes
dop_pack_planes(const dop_packed *item)
{
    const dop_weight_type *t = dop_weight_type_of(item->type);
    return dop_planes_of(item->type,
                         t ? (uint64_t)item->rows * (dop_packed_row_values(item->type, item->cols) / t->unit) : 0);
}

/* True if the model stores values of the plan's type, in rows without gaps between values. */
static bool
has_same_values(const dop_packed *item, const dop_weight *w)
{
    return w->type == item->type && w->col_stride == 0 && !w->parts && !w->n_changes;
}

dop_stored
dop_pack_stored_as(const dop_packed *item)
{
    const bool quant = dop_type_of(item->type)->kind == DOP_KIND_QUANT;
    bool is = item->source != NULL;
    for (uint32_t e = 0; is && e < item->experts; e++) {
        const dop_weight w = dop_weight_expert(item->source, e);
        uint64_t bytes = 0;
        is = has_same_values(item, &w) && dop_type_row_bytes(item->type, item->cols, &bytes) &&
             bytes == item->row_bytes && (quant || dop_pack_matrix_bytes(item) == bytes * item->rows) &&
             !w.block_rows && !w.below && (item->rows == 1 || w.row_stride == bytes);
    }
    return !is ? DOP_STORED_NOT : quant ? DOP_STORED_BLOCKS : DOP_STORED_BYTES;
}

void
dop_pack_book(const dop_packed *item, uint32_t expert, uint8_t *out)
{
    const dop_weight w = dop_weight_expert(item->source, expert);
    const float factor = dop_weight_factor(&w);
    dop_type_book(item->type, out);
    if (item->type == DOP_TYPE_nvfp4)
        memcpy(out, &factor, sizeof factor);
}

const uint8_t *
dop_pack_stored(const dop_packed *item, uint32_t expert)
{
    const dop_weight w = dop_weight_expert(item->source, expert);
    return dop_weight_at(&w, item->from.first);
}

dop_status
dop_pack_write(const dop_pack *p, const dop_packed *item, uint8_t *out, dop_diag *diag)
{
    uint64_t bytes = 0;
    if (is_adapter_room(item->from.kind)) {
        memset(out, 0, item->size);
        return DOP_OK;
    }
    if (!item->source)
        return write_table(p, item, out, diag);
    memset(out, 0, item->size);
    (void)dop_type_row_bytes(item->type, item->cols, &bytes);
    for (uint32_t e = 0; e < dop_weight_experts(item->source); e++, out += item->expert_stride) {
        const dop_weight w = dop_weight_expert(item->source, e);
        if (dop_type_of(item->type)->kind == DOP_KIND_QUANT || !has_same_values(item, &w))
            return write_in_threads(p, item, out - e * item->expert_stride, diag);
        for (uint32_t r = 0; r < item->rows; r++)
            memcpy(out + r * item->row_bytes, dop_weight_at(&w, item->from.first + r), bytes);
    }
    return DOP_OK;
}
