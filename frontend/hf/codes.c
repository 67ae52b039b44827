/* Quantized matrices of codes with separate scales, recognized by their tensors. Tensors of a linear layer NAME with `in` inputs and
 * `out` outputs:
 *
 *   NAME.weight F8_E4M3 [out, in]        NAME.weight_scale_inv (DeepSeek, Qwen) or NAME.weight_scale (compressed-tensors, FBGEMM,
 *                                        modelopt): factor on the codes in both cases
 *   NAME.weight I8 [out, in]             NAME.weight_scale (compressed-tensors, int-quantized)
 *   NAME.weight_packed I32 [out, in / 8 or in / 4]   4-bit or 8-bit values, lowest bits first, with the middle added;
 *                                        NAME.weight_scale, NAME.weight_zero_point [out / 8, groups] (pack-quantized)
 *   NAME.weight or NAME.weight_packed U8 [out, in / 2]   e2m1, the first of two in the low nibble; NAME.weight_scale F8_E4M3
 *                                        [out, in / 16]; scales are multiplied by NAME.weight_scale_2 (modelopt), or divided by
 *                                        NAME.weight_global_scale (nvfp4-pack-quantized)
 *
 *   NAME.weight or NAME.weight_packed U8 [out, in / 2], NAME.weight_scale U8 or F8_E8M0 [out, in / 32]: MXFP4 (Quark,
 *                                        mxfp4-pack-quantized)
 *   NAME._weight_qdata, NAME._weight_scale, NAME._weight_zero_point   torchao: F8_E4M3 as above, or bytes of 8 bits or fewer
 *                                        (flat.c has its other forms)
 *
 *   NAME F8_E4M3 [experts, out, in], with NAME_scale_inv or NAME_scale, with experts as first axis
 *
 * There is one scale for the tensor ([] or [1]), one per output ([out] or [out, 1]), or one per tile. The tile size is weight_block_size
 * of quantization_config, or 128 x 128, or follows from the number of scales. Tile scales may also be exponent bytes.
 * Sources: https://docs.vllm.ai (compressed-tensors, Quark), the model cards of DeepSeek-V3 and Qwen3-FP8, NVIDIA's modelopt, torchao's
 * prototype/safetensors/safetensors_support.py, OCP's Microscaling Formats (MX) specification. */
#include "frontend/hf/codes.h"
#include "base/encoding/little_endian.h"
#include "frontend/facts/leftovers.h"
#include "frontend/hf/hf.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct matrix {
    dop_hf *hf;
    const dop_st_set *set;
    const char *name; /* prefix of tensor names, such as "model.layers.0.mlp.up_proj." */
    uint64_t outputs;
    uint32_t inputs;
    const dop_st_tensor *codes, *scales, *zeros;
} matrix;

/* Returns the tile size along an axis of `n` values with `tiles` tiles; 0: none fits. asked: the configured size, or 0. */
static uint32_t
get_tile_size(uint64_t n, uint64_t tiles, uint32_t asked)
{
    if (tiles == 1)
        return (uint32_t)n;
    if (asked && (n + asked - 1) / asked == tiles)
        return asked;
    if ((n + 127) / 128 == tiles)
        return 128;
    return tiles && n % tiles == 0 ? (uint32_t)(n / tiles) : 0;
}

/* Reads weight_block_size [rows, columns] of quantization_config; zeros if absent. */
static void
read_tile_size(const dop_hf *hf, uint32_t out[2])
{
    const json_t *q = json_object_get(hf->root, "quantization_config"), *size = json_object_get(q, "weight_block_size");
    for (size_t i = 0; i < 2; i++) {
        const json_int_t v = json_integer_value(json_array_get(size, i));
        out[i] = v > 0 && v <= DOP_MAX_WIDTH ? (uint32_t)v : 0;
    }
}

/* True if the scales are exponent bytes (E8M0). */
static bool
is_exponents(const dop_st_tensor *t)
{
    return dop_st_is(t, "F8_E8M0") || dop_st_is(t, "U8");
}

/* Sets tile size and tiles per row from the shape of the scales. */
static dop_status
read_scales(const matrix *m, dop_code_parts *p)
{
    const dop_st_tensor *t = m->scales;
    uint32_t tile[2];
    const uint64_t n = t->rank ? t->shape[0] : 1;
    read_tile_size(m->hf, tile);
    p->exponents = is_exponents(t);
    if (!p->exponents && !dop_hf_is_float(t))
        return dop_st_refuse(t, "is no scale; known: F16, BF16, F32, F8_E8M0", m->hf->diag);
    for (uint64_t i = 0; p->exponents && i < t->bytes; i++)
        if (t->data[i] == 255)
            return dop_st_refuse(t, "has a scale that is no number", m->hf->diag);
    if (t->rank > 2 || (t->rank < 2 && n != 1 && n != m->outputs))
        return dop_st_refuse(t, "are scales of another matrix", m->hf->diag);
    const uint64_t down = t->rank == 0 ? 1 : t->shape[0], across = t->rank == 2 ? t->shape[1] : 1;
    p->tile_rows = get_tile_size(m->outputs, down, tile[0]);
    p->tile_cols = get_tile_size(m->inputs, across, tile[1]);
    p->tiles = (uint32_t)across;
    p->scales = t->data;
    p->scale_type = dop_hf_type(t);
    if (!p->tile_rows || !p->tile_cols)
        return dop_st_refuse(t, "are scales of tiles of unknown size", m->hf->diag);
    return DOP_OK;
}

/* Checks that all scales fit f16, the scale type of blocks. */
static dop_status
check_halves(const matrix *m)
{
    const dop_st_tensor *t = m->scales;
    const uint32_t size = dop_type_of(dop_hf_type(t))->bytes;
    for (uint64_t i = 0; i < t->bytes / size; i++) {
        float v;
        dop_decode_row(dop_hf_type(t), t->data + i * size, 1, &v);
        const float h = dop_f16_to_f32(dop_f32_to_f16(v));
        if (!(fabsf(h - v) <= fabsf(v) / 512)) /* negated, so that infinities and NaN fail, too */
            return DOP_FAIL_IN(m->hf->diag, DOP_E_INPUT, t->file, "tensor %s: the scale %g does not fit f16", t->name,
                               (double)v);
    }
    return DOP_OK;
}

static dop_status
check_codes(const matrix *m, uint64_t columns)
{
    const uint64_t shape[] = {m->outputs, columns};
    return dop_st_check_shape(m->codes, 2, shape, m->hf->diag);
}

/* Checks that a tile's width is a multiple of the type's block, or a whole row. */
static dop_status
check_code_tiles(const matrix *m, const dop_code_parts *p, uint32_t block)
{
    return p->tile_cols % block == 0 || p->tile_cols >= m->inputs
               ? DOP_OK
               : DOP_FAIL_IN(m->hf->diag, DOP_E_INPUT, m->scales->file,
                             "tensor %s: scales of %u columns are not supported; known: multiples of %u, whole rows",
                             m->scales->name, p->tile_cols, block);
}

/* Adds a note about converted matrices, once per text. `text` must be static. */
static dop_status
note_code_conversion(const matrix *m, const char *text)
{
    if (m->hf->quant.skipped == text)
        return DOP_OK;
    m->hf->quant.skipped = text;
    return dop_checkpoint_note(m->hf->model, text, m->hf->diag);
}

static dop_status
read_fp8(const matrix *m, dop_code_parts *p, dop_type *type)
{
    p->kind = DOP_CODE_E4M3;
    *type = DOP_TYPE_f8_128;
    dop_status st = check_codes(m, m->inputs);
    if (st != DOP_OK || !p->exponents || p->tile_cols % 128 == 0 || p->tile_cols >= m->inputs)
        return st == DOP_OK ? check_code_tiles(m, p, 128) : st;
    *type = DOP_TYPE_bf16;
    return note_code_conversion(
        m, "matrices of 8 bits with scales of fewer than 128 values (MXFP8) become bf16, almost twice their bytes");
}

/* Reads zero points that are signed bytes, one per scale. They are kept only if one is not zero. */
static dop_status
read_zero_bytes(const matrix *m, dop_code_parts *p)
{
    const dop_st_tensor *t = m->zeros;
    if (t->bytes != m->scales->bytes / dop_type_of(dop_hf_type(m->scales))->bytes)
        return dop_st_refuse(t, "are not the zero points of all scales", m->hf->diag);
    for (uint64_t i = 0; i < t->bytes && !p->zero_bytes; i++)
        if (t->data[i] != 0)
            p->zero_bytes = t->data;
    return DOP_OK;
}

/* True if all codes of a byte matrix fit 4 bits. */
static bool
fits_4_bits(const matrix *m)
{
    uint64_t i = 0;
    while (i < m->codes->bytes && (uint8_t)(m->codes->data[i] + 8) < 16)
        i++;
    return i == m->codes->bytes;
}

/* Reads the group number of each input, if stated; NULL: groups are adjacent inputs. */
static dop_status
read_code_order(const matrix *m, dop_code_parts *p)
{
    const dop_st_tensor *t = dop_st_take_part(m->set, m->name, "weight_g_idx");
    const uint64_t shape[] = {m->inputs};
    if (!t || !dop_st_is(t, "I32") || p->tiles == 1)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_st_check_shape(t, 1, shape, m->hf->diag));
    for (uint32_t i = 0; i < m->inputs; i++) {
        const uint32_t of = dop_word_at(t->data, i);
        if (of == UINT32_MAX)
            /* compressed-tensors initializes it to -1: no order was stored */
            return p->order = NULL, DOP_OK;
        if (of >= p->tiles)
            return dop_st_refuse(t, "names a group that is not there", m->hf->diag);
        if (of != i / p->tile_cols)
            p->order = t->data;
    }
    return DOP_OK;
}

/* Reads integers of 4 or 8 bits, packed in words; bits 0: signed bytes. */
static dop_status
read_integers(const matrix *m, uint32_t bits, dop_code_parts *p, dop_type *type)
{
    const uint32_t group = p->tile_cols;
    const bool tiny = !bits && p->tile_rows == 1 && group % 32 == 0 && fits_4_bits(m);
    DOP_RETURN_IF_ERROR(check_codes(m, bits ? m->inputs / (32 / bits) : m->inputs));
    if (p->exponents)
        DOP_RETURN_IF_ERROR(dop_st_refuse(m->scales, "is no scale of integers; known: F16, BF16, F32", m->hf->diag));
    DOP_RETURN_IF_ERROR(read_code_order(m, p));
    if (m->zeros && bits != 4 && !dop_st_is(m->zeros, "I8"))
        DOP_RETURN_IF_ERROR(
            dop_st_refuse(m->zeros, "are zero points, which are supported for 4 bits and as I8", m->hf->diag));
    if (m->zeros && bits == 4) {
        const uint64_t shape[] = {(m->outputs + 7) / 8, p->tiles};
        DOP_RETURN_IF_ERROR(dop_st_check_shape(m->zeros, 2, shape, m->hf->diag));
        p->zeros = m->zeros->data;
    } else if (m->zeros) {
        DOP_RETURN_IF_ERROR(read_zero_bytes(m, p));
    }
    p->kind = bits == 4 || tiny ? DOP_CODE_INT4 : DOP_CODE_INT8;
    p->bytes = tiny;
    p->biased = bits == 8;
    *type = p->kind == DOP_CODE_INT8 ? DOP_TYPE_q8_0
            : group % 128 == 0       ? DOP_TYPE_int4_g128
            : group % 64 == 0        ? DOP_TYPE_int4_g64
                                     : DOP_TYPE_int4_g32;
    if (p->order || (p->kind == DOP_CODE_INT8 && p->zero_bytes)) {
        *type = DOP_TYPE_f16;
        return note_code_conversion(
            m, p->order
                   ? "matrices in activation order (actorder) become f16, up to 4 times their bytes; `quant` makes "
                     "them smaller again"
                   : "matrices of 8 bits with zero points become f16, twice their bytes; `quant` makes them smaller "
                     "again");
    }
    DOP_RETURN_IF_ERROR(check_code_tiles(m, p, dop_type_of(*type)->block));
    if ((p->tile_rows != 1 || (bits == 4 && group % 32 != 0)) && bits)
        DOP_RETURN_IF_ERROR(dop_st_refuse(
            m->scales, "are scales of more than one output, or of groups that are no multiple of 32", m->hf->diag));
    return check_halves(m);
}

/* MXFP4: blocks of 32 values in file order, with an exponent per block. */
static dop_status
read_mxfp4(const matrix *m, const dop_rows *rows, dop_weight *w)
{
    const uint64_t shape[] = {m->outputs, m->inputs / 32};
    dop_int4_parts *parts = dop_arena_alloc(m->hf->arena, sizeof *parts);
    if (!parts)
        return DOP_NO_MEMORY(m->hf->diag);
    dop_status st = DOP_OK;
    DOP_TRY(check_codes(m, m->inputs / 2));
    DOP_TRY(dop_st_check_shape(m->scales, 2, shape, m->hf->diag));
    if (m->inputs % 32 != 0 || rows->block > 1)
        DOP_TRY(dop_st_refuse(m->codes, "has rows that are not whole blocks of 32, or parts that do not lie together",
                              m->hf->diag));
error:
    *parts = (dop_int4_parts){.microscaling = true,
                              .words = m->codes->data,
                              .scales = m->scales->data,
                              .outputs = m->outputs,
                              .first = rows->start,
                              .step = rows->block ? rows->block_step : 1};
    w->type = DOP_TYPE_mxfp4;
    w->parts = parts;
    w->source = m->codes->name;
    return st;
}

static dop_status
read_nvfp4(const matrix *m, dop_code_parts *p, dop_type *type)
{
    const dop_st_tensor *times = dop_st_take_part(m->set, m->name, "weight_scale_2"),
                        *by = dop_st_take_part(m->set, m->name, "weight_global_scale");
    const dop_st_tensor *t = times ? times : by;
    const uint64_t shape[] = {m->outputs, m->inputs / 16};
    p->kind = DOP_CODE_E2M1;
    p->factor = 1;
    *type = DOP_TYPE_nvfp4;
    dop_status st = check_codes(m, m->inputs / 2);
    if (st == DOP_OK)
        st = dop_st_check_shape(m->scales, 2, shape, m->hf->diag);
    if (st == DOP_OK && (!dop_st_is(m->scales, "F8_E4M3") || m->inputs % 16 != 0))
        st = dop_st_refuse(m->scales, "is no scale of 16 values; known: F8_E4M3", m->hf->diag);
    if (st == DOP_OK && t && (dop_hf_type(t) != DOP_TYPE_f32 || t->bytes != 4))
        st = dop_st_refuse(t, "is not the scale of one tensor; known: F32", m->hf->diag);
    if (st != DOP_OK)
        return st;
    if (t)
        dop_decode_row(DOP_TYPE_f32, t->data, 1, &p->factor);
    p->factor = times || !t ? p->factor : 1 / p->factor;
    if (!isfinite(p->factor))
        return dop_st_refuse(t, "is not finite, or zero", m->hf->diag);
    for (uint64_t i = 0; i < m->scales->bytes; i++)
        if (m->scales->data[i] >= 127)
            return dop_st_refuse(m->scales, "has negative scales, or one that is no number", m->hf->diag);
    p->scales = m->scales->data;
    p->tiles = m->inputs / 16;
    return DOP_OK;
}

/* Returns the matrix of expert e of a tensor with all experts, as a separate tensor. */
static dop_st_tensor
get_expert_tensor(const dop_st_tensor *t, uint32_t e)
{
    dop_st_tensor one = *t;
    one.rank = t->rank - 1;
    for (uint32_t i = 0; i < one.rank; i++)
        one.shape[i] = t->shape[i + 1];
    one.bytes = t->bytes / t->shape[0];
    one.data += e * one.bytes;
    return one;
}

bool
dop_hf_has_expert_codes(const dop_st_set *set, const char *name)
{
    const dop_st_tensor *t = dop_st_find(set, name);
    return t && t->rank == 3 && dop_st_is(t, "F8_E4M3");
}

dop_status
dop_hf_expert_codes(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows, dop_weight *w)
{
    matrix m = {.hf = hf, .set = set, .name = name, .outputs = rows->total, .inputs = w->cols};
    const uint64_t shape[] = {w->experts, m.outputs, m.inputs};
    const dop_st_tensor *codes = dop_st_take(set, name), *scales = dop_st_take_part(m.set, m.name, "_scale_inv");
    dop_weight *each = dop_arena_alloc(hf->arena, w->experts * sizeof *each);
    dop_int4_parts *parts = dop_arena_alloc(hf->arena, w->experts * sizeof *parts);
    dop_code_parts *p = dop_arena_alloc(hf->arena, w->experts * sizeof *p);
    if (!each || !parts || !p)
        return DOP_NO_MEMORY(hf->diag);
    if (!scales)
        scales = dop_st_take_part(m.set, m.name, "_scale");
    /* scale of activations; unused, because activations are not quantized here */
    (void)dop_st_take_part(m.set, m.name, "_input_scale");
    if (!scales)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, set->path, "tensor %s_scale_inv is missing", name);
    DOP_RETURN_IF_ERROR(dop_st_check_shape(codes, 3, shape, hf->diag));
    if (scales->rank == 0 || scales->shape[0] != w->experts)
        DOP_RETURN_IF_ERROR(dop_st_refuse(scales, "are not scales of all experts", m.hf->diag));
    for (uint32_t e = 0; e < w->experts; e++) {
        const dop_st_tensor own = get_expert_tensor(codes, e), of = get_expert_tensor(scales, e);
        p[e] = (dop_code_parts){.codes = own.data, .first = rows->start, .block = rows->block, .factor = 1};
        p[e].block_step = rows->block_step;
        p[e].row_bytes = m.inputs;
        m.codes = &own;
        m.scales = &of;
        each[e] = (dop_weight){.name = w->name, .rank = 2, .rows = w->rows, .cols = w->cols, .source = codes->name};
        DOP_RETURN_IF_ERROR(read_scales(&m, &p[e]));
        DOP_RETURN_IF_ERROR(read_fp8(&m, &p[e], &each[e].type));
        parts[e] = (dop_int4_parts){.codes = &p[e]};
        each[e].parts = &parts[e];
    }
    w->type = DOP_TYPE_f8_128;
    w->each = each;
    w->source = codes->name;
    return DOP_OK;
}

/* Writes the name of one of the tensors that torchao makes of the tensor `name`; false: not such a tensor. */
static bool
write_torchao_name(const char *name, const char *part, char out[300])
{
    const size_t n = strlen(name), cut = strlen("weight");
    if (n <= cut || strcmp(name + n - cut, "weight") != 0)
        return false;
    snprintf(out, 300, "%.*s_weight%s", (int)(n - cut), name, part);
    return true;
}

bool
dop_hf_has_codes(const dop_st_set *set, const char *name)
{
    char other[300];
    const dop_st_tensor *t = dop_st_find(set, name);
    if (t)
        return dop_st_is(t, "F8_E4M3") || dop_st_is(t, "I8") || dop_st_is(t, "U8");
    snprintf(other, sizeof other, "%s_packed", name);
    return dop_st_find(set, other) || (write_torchao_name(name, "_qdata", other) && dop_st_find(set, other));
}

/* Takes the first of several tensors of a matrix that exists; NULL: none. */
static const dop_st_tensor *
take_first(const matrix *m, const char *const *parts, size_t n)
{
    const dop_st_tensor *t = NULL;
    for (size_t i = 0; !t && i < n; i++)
        t = dop_st_take_part(m->set, m->name, parts[i]);
    return t;
}

/* Takes the tensors of a matrix. Also marks the scales of activations, which are not quantized here, as used. */
static dop_status
take_tensors(matrix *m)
{
    static const char *const codes[] = {"weight", "weight_packed", "_weight_qdata"},
                             *const scales[] = {"weight_scale_inv", "weight_scale", "_weight_scale"},
                             *const zeros[] = {"weight_zero_point", "_weight_zero_point"};
    static const char *const unread[] = {"input_scale",
                                         "input_zero_point",
                                         "input_global_scale",
                                         "activation_scale",
                                         "k_scale",
                                         "v_scale",
                                         "output_scale",
                                         "weight_shape",
                                         "_weight_act_quant_scale",
                                         "_weight_act_quant_zero_point"};
    m->codes = take_first(m, codes, sizeof codes / sizeof *codes);
    m->scales = take_first(m, scales, sizeof scales / sizeof *scales);
    m->zeros = take_first(m, zeros, sizeof zeros / sizeof *zeros);
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        (void)dop_st_take_part(m->set, m->name, unread[i]);
    const dop_st_tensor *pre = dop_st_take_part(m->set, m->name, "_weight_act_pre_scale");
    if (pre)
        return dop_st_refuse(pre, "scales the inputs of a matrix, which is not supported", m->hf->diag);
    if (m->codes && m->scales && strstr(m->codes->name, "_qdata") &&
        (dop_st_is(m->codes, "U8") || is_exponents(m->scales)))
        return dop_st_refuse(m->codes, "is of torchao's MXTensor or NVFP4Tensor, which are not supported", m->hf->diag);
    return m->codes && m->scales ? DOP_OK
                                 : DOP_FAIL_IN(m->hf->diag, DOP_E_INPUT, m->set->path, "tensor %sweight%s is missing",
                                               m->name, m->codes ? "_scale" : "");
}

dop_status
dop_hf_codes_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows, dop_weight *w)
{
    matrix m = {.hf = hf, .set = set, .name = name, .outputs = rows->total, .inputs = w->cols};
    dop_int4_parts *parts = dop_arena_alloc(hf->arena, sizeof *parts);
    dop_code_parts *p = dop_arena_alloc(hf->arena, sizeof *p);
    if (!parts || !p)
        return DOP_NO_MEMORY(hf->diag);
    dop_status st = take_tensors(&m);
    if (st != DOP_OK)
        return st;
    if (dop_st_is(m.codes, "U8") && is_exponents(m.scales))
        return read_mxfp4(&m, rows, w);
    *p = (dop_code_parts){.codes = m.codes->data, .first = rows->start, .block = rows->block, .factor = 1};
    p->block_step = rows->block_step;
    st = dop_st_is(m.codes, "U8") ? DOP_OK : read_scales(&m, p);
    if (st != DOP_OK)
        return st;
    const bool words = dop_hf_type(m.codes) == DOP_TYPE_i32 || dop_hf_type(m.codes) == DOP_TYPE_u32;
    if (dop_st_is(m.codes, "F8_E4M3"))
        st = read_fp8(&m, p, &w->type);
    else if (dop_st_is(m.codes, "U8"))
        st = read_nvfp4(&m, p, &w->type);
    else if (dop_st_is(m.codes, "I8"))
        st = read_integers(&m, 0, p, &w->type);
    else if (words && m.codes->rank == 2 && (m.codes->shape[1] * 8 == w->cols || m.codes->shape[1] * 4 == w->cols))
        st = read_integers(&m, m.codes->shape[1] * 8 == w->cols ? 4 : 8, p, &w->type);
    else
        st = dop_st_refuse(m.codes, "is no matrix of codes of 4 or 8 bits", m.hf->diag);
    if (st != DOP_OK)
        return st;
    p->row_bytes = m.outputs ? m.codes->bytes / m.outputs : 0;
    *parts = (dop_int4_parts){.codes = p};
    w->parts = parts;
    w->source = m.codes->name;
    return DOP_OK;
}
