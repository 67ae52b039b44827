/* Matrices of further quantizers. Tensors of a linear layer NAME with `in` inputs and `out` outputs:
 *
 *   AWQ (version gemv): NAME.qweight I32 [out, in / 8] words of eight inputs, NAME.scales F16 [out, 8 n], NAME.qzeros I32 [out, n]
 *       words of eight groups; n: words needed for the groups, rounded up to 2 for groups of 64 and to 4 for groups of 32
 *   bitsandbytes, 4 bits: NAME.weight U8 [out * in / 2, 1], NAME.weight.quant_map F32 [16], NAME.weight.absmax: F32 per block, or U8
 *       with NAME.weight.nested_quant_map F32 [256] and NAME.weight.nested_absmax F32 per block of blocks, and
 *       NAME.weight.quant_state.bitsandbytes__nf4 (or fp4), JSON as bytes: blocksize, shape, nested_blocksize, nested_offset
 *   bitsandbytes, 8 bits: NAME.weight I8 [out, in], NAME.SCB F32 [out]: the largest magnitude per output, coded as 127;
 *       NAME.weight_format, 0 for row-major
 *   HQQ: NAME.W_q U8, two 4-bit codes per byte; NAME.scale, NAME.zero per group; and parameters (nbits, group_size, axis, shape, ...),
 *       from quantization_config if missing
 *   MLX: NAME.weight U32 [out, in * bits / 32], a bit stream, NAME.scales and NAME.biases [out, in / group]: value =
 *       code * scale + bias; three axes for experts
 *   torchao, 4 bits: NAME._weight_qdata I8 or U8 [out, in / 2], two of -8 to 7 per byte, the first in the low nibble, with
 *       NAME._weight_scale and NAME._weight_zero_point [groups, out]: value = code * scale + zero point (Int4Tensor); or
 *       NAME._weight_qdata I32 [out / 8, in / (16 n), 32, n / 2], codes of 0 to 15 in the order of matrix units, with
 *       NAME._weight_scale_and_zero [groups, out, 2]: value = (code - 8) * scale + zero (Int4TilePackedTo4dTensor, padded)
 *
 * Sources: AutoAWQ, awq/modules/linear/gemv.py; bitsandbytes, functional.py (QuantState.as_dict); HQQ, hqq/core/quantize.py; MLX,
 * mlx.core.quantize; torchao, quantization/quantize_/workflows/int4, and PyTorch's _convert_weight_to_int4pack. */
#include "frontend/hf/flat.h"
#include "frontend/facts/leftovers.h"
#include "frontend/hf/hf.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 8, LEVELS = 16, NESTED = 256, SMALLEST_GROUP = 32 };

typedef struct matrix {
    dop_hf *hf;
    const dop_st_set *set;
    const char *name; /* prefix of tensor names, such as "model.layers.0.mlp.up_proj." */
    uint64_t outputs;
    uint32_t inputs;
} matrix;

static dop_status
fail_missing_part(const matrix *m, const char *part)
{
    return DOP_FAIL_IN(m->hf->diag, DOP_E_INPUT, m->set->path, "tensor %s%s is missing", m->name, part);
}

/* True if a tensor has n values of a type, in any shape. */
static bool
has_typed_values(const dop_st_tensor *t, const char *dtype, uint64_t n)
{
    return dop_st_is(t, dtype) && t->bytes == n * (strcmp(dtype, "U8") == 0 ? 1 : 4);
}

static dop_status
check_finite_values(const matrix *m, const dop_st_tensor *t)
{
    const uint32_t size = dop_type_of(dop_hf_type(t))->bytes;
    for (uint64_t i = 0; i < t->bytes / size; i++) {
        float v;
        dop_decode_row(dop_hf_type(t), t->data + i * size, 1, &v);
        if (!isfinite(v))
            return dop_st_refuse(t, "has an infinity or NaN", m->hf->diag);
    }
    return DOP_OK;
}

/* True if f16 represents all values, times a factor, up to rounding of the last bits. */
static bool
fits_half(const dop_st_tensor *t, float factor)
{
    const uint32_t size = dop_type_of(dop_hf_type(t))->bytes;
    for (uint64_t i = 0; i < t->bytes / size; i++) {
        float v;
        dop_decode_row(dop_hf_type(t), t->data + i * size, 1, &v);
        v *= factor;
        if (!(fabsf(dop_f16_to_f32(dop_f32_to_f16(v)) - v) <= fabsf(v) / 512))
            return false;
    }
    return true;
}

static dop_status
note_flat_conversion(const matrix *m, const char *what, const char *cost)
{
    char text[200];
    if (m->hf->quant.skipped && strcmp(m->hf->quant.skipped, what) == 0)
        return DOP_OK;
    m->hf->quant.skipped = what;
    snprintf(text, sizeof text, "matrices of %s become f16, %s their bytes; `quant` makes them smaller again", what,
             cost);
    return dop_checkpoint_note(m->hf->model, text, m->hf->diag);
}

/* Sets w to a weight stored as p, which is copied. */
static dop_status
finish_flat_weight(const matrix *m, const dop_code_parts *p, const char *source, dop_weight *w)
{
    dop_int4_parts *parts = dop_arena_alloc(m->hf->arena, sizeof *parts);
    dop_code_parts *codes = dop_arena_alloc(m->hf->arena, sizeof *codes);
    if (!parts || !codes)
        return DOP_NO_MEMORY(m->hf->diag);
    *codes = *p;
    parts->codes = codes;
    w->parts = parts;
    w->source = source;
    return DOP_OK;
}

static dop_type
get_int4_type(uint64_t group)
{
    return group % 128 == 0 ? DOP_TYPE_int4_g128 : group % 64 == 0 ? DOP_TYPE_int4_g64 : DOP_TYPE_int4_g32;
}

/* ---- AWQ -------------------------------------------------------------------------------------------------------------- */

dop_status
dop_hf_awq_gemv(dop_hf *hf, const dop_st_set *set, const char *name, uint64_t outputs, uint64_t first, dop_weight *w)
{
    const matrix m = {.hf = hf, .set = set, .name = name, .outputs = outputs, .inputs = w->cols};
    const dop_st_tensor *words = dop_st_take_part(m.set, m.name, "qweight"),
                        *zeros = dop_st_take_part(m.set, m.name, "qzeros"),
                        *scales = dop_st_take_part(m.set, m.name, "scales");
    const uint32_t group = hf->quant.group ? hf->quant.group : m.inputs;
    if (!words || !zeros || !scales)
        return fail_missing_part(&m, words ? zeros ? "scales" : "qzeros" : "qweight");
    if (group % SMALLEST_GROUP != 0 || m.inputs % group != 0)
        return dop_st_refuse(words, "does not have whole groups of a multiple of 32 inputs", m.hf->diag);
    const uint32_t unit = group >= 128 ? 1 : group == 64 ? 2 : 4;
    const uint32_t n = ((m.inputs / group + WORD - 1) / WORD + unit - 1) / unit * unit;
    dop_status st = dop_st_check_shape(words, 2, (const uint64_t[]){outputs, m.inputs / WORD}, hf->diag);
    if (st == DOP_OK)
        st = dop_st_check_shape(zeros, 2, (const uint64_t[]){outputs, n}, hf->diag);
    if (st == DOP_OK)
        st = dop_st_check_shape(scales, 2, (const uint64_t[]){outputs, (uint64_t)n * WORD}, hf->diag);
    if (st == DOP_OK && (!dop_st_is(words, "I32") || !dop_st_is(zeros, "I32")))
        st = dop_st_refuse(dop_st_is(words, "I32") ? zeros : words, "is not supported; known: I32", m.hf->diag);
    if (st == DOP_OK && !dop_st_is(scales, "F16"))
        st = dop_st_refuse(scales, "is no scale; known: F16", m.hf->diag);
    if (st == DOP_OK)
        st = check_finite_values(&m, scales);
    if (st != DOP_OK)
        return st;
    w->type = get_int4_type(group);
    return finish_flat_weight(&m,
                              &(dop_code_parts){.kind = DOP_CODE_INT4,
                                                .codes = words->data,
                                                .row_bytes = m.inputs / 2,
                                                .scales = scales->data,
                                                .scale_type = dop_hf_type(scales),
                                                .tile_rows = 1,
                                                .tile_cols = group,
                                                .tiles = n * WORD,
                                                .zeros = zeros->data,
                                                .zero_words = n,
                                                .factor = 1,
                                                .first = first},
                              words->name, w);
}

/* ---- bitsandbytes ------------------------------------------------------------------------------------------------------ */

/* Returns a positive integer of the quantization state; 0: none. */
static uint64_t
get_state_number(const json_t *state, const char *key)
{
    const json_int_t v = json_integer_value(json_object_get(state, key));
    return v > 0 && v <= 1 << 20 ? (uint64_t)v : 0;
}

static dop_status
read_nested(const matrix *m, const json_t *state, dop_flat_parts *f)
{
    const dop_st_tensor *levels = dop_st_take_part(m->set, m->name, "weight.nested_quant_map"),
                        *nested = dop_st_take_part(m->set, m->name, "weight.nested_absmax");
    f->nested_group = get_state_number(state, "nested_blocksize");
    const double offset = json_number_value(json_object_get(state, "nested_offset"));
    if (!levels || !nested)
        return fail_missing_part(m, levels ? "weight.nested_absmax" : "weight.nested_quant_map");
    if (!has_typed_values(levels, "F32", NESTED))
        return dop_st_refuse(levels, "is no map of 256 levels", m->hf->diag);
    if (!f->nested_group || !has_typed_values(nested, "F32", (f->groups + f->nested_group - 1) / f->nested_group))
        return dop_st_refuse(nested, "are not the scales of all blocks of blocks that quant_state states", m->hf->diag);
    if (!(fabs(offset) < 1e30))
        return dop_st_refuse(nested, "have an offset that is no number", m->hf->diag);
    f->nested_levels = levels->data;
    f->nested = nested->data;
    f->offset = (float)offset;
    DOP_RETURN_IF_ERROR(check_finite_values(m, levels));
    return check_finite_values(m, nested);
}

static dop_status
read_bytes4(const matrix *m, const dop_st_tensor *codes, const json_t *state, dop_flat_parts *f)
{
    const dop_st_tensor *levels = dop_st_take_part(m->set, m->name, "weight.quant_map"),
                        *largest = dop_st_take_part(m->set, m->name, "weight.absmax");
    const uint64_t n = m->outputs * m->inputs;
    const json_t *shape = json_object_get(state, "shape");
    f->bits = 4;
    f->codes = codes->data;
    f->group = get_state_number(state, "blocksize");
    if (!levels || !largest)
        return fail_missing_part(m, levels ? "weight.absmax" : "weight.quant_map");
    if (!f->group || (json_integer_value(json_array_get(shape, 0)) != (json_int_t)m->outputs) ||
        json_integer_value(json_array_get(shape, 1)) != (json_int_t)m->inputs)
        return dop_st_refuse(codes, "has a quant_state of another shape, or without a size of blocks", m->hf->diag);
    f->groups = (n + f->group - 1) / f->group;
    if (!has_typed_values(codes, "U8", (n + 1) / 2))
        return dop_st_refuse(codes, "is not the matrix of 4 bits that config.json calls for", m->hf->diag);
    if (!has_typed_values(levels, "F32", LEVELS))
        return dop_st_refuse(levels, "is no map of 16 levels", m->hf->diag);
    if (!has_typed_values(largest, "F32", f->groups) && !has_typed_values(largest, "U8", f->groups))
        return dop_st_refuse(largest, "are not the scales of all blocks; known: F32, U8", m->hf->diag);
    f->levels = levels->data;
    f->largest = largest->data;
    DOP_RETURN_IF_ERROR(check_finite_values(m, levels));
    DOP_RETURN_IF_ERROR(dop_st_is(largest, "U8") ? read_nested(m, state, f) : check_finite_values(m, largest));
    return note_flat_conversion(m, "4 bits (bitsandbytes)", "almost 4 times");
}

static dop_status
read_bytes8(const matrix *m, const dop_st_tensor *codes, dop_code_parts *p, dop_weight *w)
{
    const dop_st_tensor *scales = dop_st_take_part(m->set, m->name, "SCB"),
                        *format = dop_st_take_part(m->set, m->name, "weight_format");
    dop_status st = dop_st_check_shape(codes, 2, (const uint64_t[]){m->outputs, m->inputs}, m->hf->diag);
    if (st != DOP_OK)
        return st;
    if (!scales)
        return fail_missing_part(m, "SCB");
    if (!has_typed_values(scales, "F32", m->outputs))
        return dop_st_refuse(scales, "are not the largest magnitudes of all outputs; known: F32", m->hf->diag);
    for (uint64_t i = 0; format && i < format->bytes; i++)
        if (format->data[i] != 0)
            return dop_st_refuse(format, "says that rows do not lie as they are, which is not supported", m->hf->diag);
    if ((st = check_finite_values(m, scales)) != DOP_OK)
        return st;
    if (!fits_half(scales, 1.0f / 127))
        return dop_st_refuse(scales, "has a scale that does not fit f16", m->hf->diag);
    p->kind = DOP_CODE_INT8;
    p->codes = codes->data;
    p->row_bytes = m->inputs;
    p->scales = scales->data;
    p->scale_type = dop_hf_type(scales);
    p->tile_rows = 1;
    p->tile_cols = m->inputs;
    p->tiles = 1;
    p->factor = 1.0f / 127;
    w->type = DOP_TYPE_q8_0;
    return DOP_OK;
}

static dop_status
read_bnb_codes(const matrix *m, dop_code_parts *p, dop_flat_parts *f, const char **source, dop_weight *w)
{
    const dop_st_tensor *codes = dop_st_take_part(m->set, m->name, "weight"),
                        *state = dop_st_take_part(m->set, m->name, "weight.quant_state.bitsandbytes__nf4");
    if (!state)
        state = dop_st_take_part(m->set, m->name, "weight.quant_state.bitsandbytes__fp4");
    *source = codes->name;
    if (dop_st_is(codes, "I8"))
        return read_bytes8(m, codes, p, w);
    if (!state)
        return fail_missing_part(m, "weight.quant_state.bitsandbytes__nf4");
    json_t *root = json_loadb((const char *)state->data, (size_t)state->bytes, 0, NULL);
    dop_status st = root && dop_st_is(state, "U8") ? read_bytes4(m, codes, root, f)
                                                   : dop_st_refuse(state, "is no JSON object", m->hf->diag);
    json_decref(root);
    p->kind = DOP_CODE_FLAT;
    w->type = DOP_TYPE_f16;
    return st;
}

/* ---- HQQ --------------------------------------------------------------------------------------------------------------- */

/* Returns a number of HQQ's metadata, from a tensor next to the matrix, otherwise from quantization_config. */
static json_int_t
read_hqq_number(const matrix *m, const char *key, json_int_t otherwise)
{
    const dop_st_tensor *t = dop_st_take_part(m->set, m->name, key);
    if (t && (dop_st_is(t, "I32") || dop_st_is(t, "I64") || dop_st_is(t, "U8"))) {
        json_int_t v = 0;
        for (uint64_t i = 0; i < t->bytes && i < 4; i++) /* little-endian; valid values are not negative */
            v |= (json_int_t)t->data[i] << (8 * i);
        return v;
    }
    const json_t *q = json_object_get(m->hf->root, "quantization_config");
    const json_t *c = json_object_get(q, "quant_config"), *p = json_object_get(c ? c : q, "weight_quant_params"),
                 *own = json_object_get(p ? p : q, key);
    return json_is_integer(own) ? json_integer_value(own) : otherwise;
}

static dop_status
check_flat_groups(const matrix *m, const dop_st_tensor *t, uint64_t groups)
{
    if (!dop_hf_is_float(t))
        return dop_st_refuse(t, "is not supported; known: F16, BF16, F32", m->hf->diag);
    if (t->bytes != groups * dop_type_of(dop_hf_type(t))->bytes)
        return dop_st_refuse(t, "are not the values of all groups", m->hf->diag);
    return check_finite_values(m, t);
}

/* Fills the parts of codes whose groups have a scale and a zero (or a summand) each. */
static dop_status
take_groups(const matrix *m, dop_code_parts *p, dop_flat_parts *f, const dop_st_tensor *codes,
            const dop_st_tensor *scales, const dop_st_tensor *zeros)
{
    p->kind = DOP_CODE_FLAT;
    f->codes = codes->data;
    f->scales = scales->data;
    f->zeros = zeros->data;
    f->scale_type = dop_hf_type(scales);
    f->zero_type = dop_hf_type(zeros);
    const dop_status st = check_flat_groups(m, scales, f->groups);
    return st == DOP_OK ? check_flat_groups(m, zeros, f->groups) : st;
}

static dop_status
read_hqq(const matrix *m, dop_code_parts *p, dop_flat_parts *f, const char **source, dop_weight *w)
{
    static const char *const unread[] = {"shape",
                                         "packing",
                                         "view_as_float",
                                         "unpack_view_dtype",
                                         "optimize",
                                         "round_zero",
                                         "quant_scale",
                                         "quant_zero",
                                         "channel_wise",
                                         "compute_dtype",
                                         "offload_meta",
                                         "stores_quant_config",
                                         "encoded_state_dict"};
    const dop_st_tensor *codes = dop_st_take_part(m->set, m->name, "W_q"),
                        *scales = dop_st_take_part(m->set, m->name, "scale"),
                        *zeros = dop_st_take_part(m->set, m->name, "zero");
    const json_int_t bits = read_hqq_number(m, "nbits", 4), group = read_hqq_number(m, "group_size", 64),
                     axis = read_hqq_number(m, "axis", 1);
    const uint64_t n = m->outputs * m->inputs;
    for (size_t i = 0; i < sizeof unread / sizeof *unread;
         i++) /* tensors that repeat information of other tensors' shapes */
        (void)dop_st_take_part(m->set, m->name, unread[i]);
    *source = codes->name;
    if (!scales || !zeros)
        return fail_missing_part(m, scales ? "zero" : "scale");
    if ((bits != 4 && bits != 8) || (axis != 0 && axis != 1) || group < 1 || n % (uint64_t)group != 0)
        return DOP_FAIL_IN(
            m->hf->diag, DOP_E_INPUT, codes->file,
            "tensor %s: %lld bits, groups of %lld along axis %lld are not supported; known: 4 and 8 bits, "
            "groups that fill the matrix, axes 0 and 1",
            codes->name, (long long)bits, (long long)group, (long long)axis);
    f->bits = (uint32_t)bits;
    f->group = (uint64_t)group;
    f->groups = n / f->group;
    f->strided = axis == 0;
    if (!has_typed_values(codes, "U8", n * f->bits / 8) || (bits == 4 && (f->strided ? f->group : f->groups) % 2 != 0))
        return dop_st_refuse(codes, "is not the matrix that config.json calls for, as U8", m->hf->diag);
    dop_status st = take_groups(m, p, f, codes, scales, zeros);
    if (st != DOP_OK)
        return st;
    const bool blocks = bits == 4 && !f->strided && group % SMALLEST_GROUP == 0 && m->inputs % f->group == 0;
    if (blocks && fits_half(scales, 1) && fits_half(zeros, 1)) {
        w->type = get_int4_type(f->group);
        return DOP_OK;
    }
    w->type = DOP_TYPE_f16;
    return bits == 8 ? note_flat_conversion(m, "8 bits (HQQ)", "twice")
                     : note_flat_conversion(m, "4 bits in groups across rows (HQQ)", "almost 4 times");
}

/* ---- MLX --------------------------------------------------------------------------------------------------------------- */

/* mlx-lm stacks the matrices of all experts in one tensor, "mlp.switch_mlp.up_proj.weight" for "mlp.experts.3.up_proj.weight".
 * Writes its name up to the last dot, and the expert's number; false: `name` is not of an expert. */
static bool
split_expert_name(const char *name, char out[300], uint32_t *out_expert)
{
    static const char mark[] = ".experts.";
    const char *at = strstr(name, mark);
    char *end = NULL;
    const unsigned long n = at ? strtoul(at + strlen(mark), &end, 10) : 0;
    if (!at || *end != '.' || n > DOP_MAX_EXPERTS)
        return false;
    *out_expert = (uint32_t)n;
    snprintf(out, 300, "%.*s.switch_mlp%.*s", (int)(at - name), name, (int)(strrchr(end, '.') + 1 - end), end);
    return true;
}

/* Takes a tensor of a matrix, which may be part of a tensor with all experts; false: missing. */
static bool
take_mlx(const matrix *m, const char *part, dop_st_tensor *out)
{
    const dop_st_tensor *t = dop_st_take_part(m->set, m->name, part);
    char all[300];
    uint32_t expert = 0;
    if (!t && split_expert_name(m->name, all, &expert) && (t = dop_st_take_part(m->set, all, part)) &&
        (t->rank != 3 || expert >= t->shape[0]))
        return false;
    if (!t)
        return false;
    *out = *t;
    if (t->rank == 3) {
        out->rank = 2;
        out->shape[0] = t->shape[1];
        out->shape[1] = t->shape[2];
        out->bytes = t->bytes / t->shape[0];
        out->data += expert * out->bytes;
    }
    return true;
}

static dop_status
read_mlx_matrix(const matrix *m, dop_code_parts *p, dop_flat_parts *f, const char **source, dop_weight *w)
{
    static const char *const names[] = {"weight", "scales", "biases"};
    dop_st_tensor parts[3];
    for (size_t i = 0; i < 3; i++)
        if (!take_mlx(m, names[i], &parts[i]))
            return fail_missing_part(m, names[i]);
    const dop_st_tensor *codes = &parts[0], *scales = &parts[1], *biases = &parts[2];
    *source = codes->name;
    const uint64_t word = 32, bits = codes->rank == 2 ? codes->shape[1] * word / m->inputs : 0,
                   groups = scales->rank == 2 ? scales->shape[1] : 0;
    if (!dop_st_is(codes, "U32") || codes->rank != 2 || codes->shape[0] != m->outputs || bits < 2 || bits > 8 ||
        bits * m->inputs != codes->shape[1] * word)
        return dop_st_refuse(codes, "is not a matrix of 2 to 8 bits a value in words of U32", m->hf->diag);
    if (groups == 0 || m->inputs % groups != 0)
        return dop_st_refuse(scales, "are not the scales of whole groups", m->hf->diag);
    f->bits = (uint32_t)bits;
    f->group = m->inputs / groups;
    f->groups = m->outputs * groups;
    f->stream = true;
    dop_status st = take_groups(m, p, f, codes, scales, biases);
    if (st != DOP_OK)
        return st;
    w->type = DOP_TYPE_f16;
    if (bits <= 5 && f->group % SMALLEST_GROUP == 0 && fits_half(scales, 1) && fits_half(biases, 1)) {
        w->type = bits == 5 ? DOP_TYPE_q5_1 : DOP_TYPE_q4_1;
        return DOP_OK;
    }
    return bits == 8 ? note_flat_conversion(m, "8 bits (MLX)", "almost twice")
                     : note_flat_conversion(m, "MLX in these sizes", "more than twice");
}

/* True if a matrix is quantized by MLX. */
static bool
has_mlx(const dop_hf *hf, const dop_st_set *set, const char *name)
{
    const size_t n = strlen(name);
    char other[300], all[300];
    uint32_t expert;
    if (!hf->quant.mlx || n < 8 || strcmp(name + n - 7, ".weight") != 0)
        return false;
    snprintf(other, sizeof other, "%.*sscales", (int)(n - 6), name);
    if (dop_st_find(set, name))
        return dop_st_find(set, other) != NULL;
    if (!split_expert_name(name, all, &expert))
        return false;
    snprintf(other, sizeof other, "%.280sscales", all);
    return dop_st_find(set, other) != NULL;
}

/* ---- torchao ----------------------------------------------------------------------------------------------------------- */

/* Reads the sizes of a matrix stored in tiles, which is padded. */
static dop_status
read_torchao_tiles(const matrix *m, const dop_st_tensor *codes, const dop_st_tensor *scales, dop_flat_parts *f)
{
    const uint64_t *shape = codes->shape;
    if (!dop_st_is(codes, "I32") || codes->rank != 4 || shape[2] != 32 ||
        (shape[3] != 1 && shape[3] != 2 && shape[3] != 4))
        return dop_st_refuse(codes,
                             "is not a matrix of 4 bits in tiles; known: I32 [outputs / 8, inputs / (16 n), 32, n / 2]",
                             m->hf->diag);
    f->inner_tiles = 2 * (uint32_t)shape[3];
    f->outer_tiles = shape[1] > DOP_MAX_WIDTH ? 0 : (uint32_t)shape[1];
    f->rows = scales->rank == 3 ? scales->shape[1] : 0;
    const uint64_t padded = (uint64_t)f->outer_tiles * f->inner_tiles * 16;
    if (padded < m->inputs || padded - m->inputs >= 1024 || shape[0] > DOP_MAX_WIDTH || shape[0] * 8 < m->outputs ||
        shape[0] * 8 - m->outputs >= 32)
        return dop_st_refuse(codes, "is not the matrix that config.json calls for", m->hf->diag);
    if (f->rows != shape[0] * 8 || scales->shape[2] != 2 || scales->shape[0] == 0 || padded % scales->shape[0] != 0)
        return dop_st_refuse(scales, "are not the scales and zeros of all groups", m->hf->diag);
    f->group = padded / scales->shape[0];
    f->groups = 2 * f->rows * scales->shape[0];
    f->step = 2;
    return DOP_OK;
}

static dop_status
read_nibbles(const matrix *m, const dop_st_tensor *codes, const dop_st_tensor *scales, dop_flat_parts *f)
{
    if ((!dop_st_is(codes, "I8") && !dop_st_is(codes, "U8")) || codes->rank != 2 || codes->shape[0] != m->outputs ||
        codes->shape[1] * 2 != m->inputs)
        return dop_st_refuse(codes, "is not a matrix of 4 bits, two in a byte of I8 or U8", m->hf->diag);
    if (scales->rank != 2 || scales->shape[1] != m->outputs || scales->shape[0] == 0 ||
        m->inputs % scales->shape[0] != 0)
        return dop_st_refuse(scales, "are not the scales of whole groups of all outputs", m->hf->diag);
    f->signs = true;
    f->rows = m->outputs;
    f->group = m->inputs / scales->shape[0];
    f->groups = f->rows * scales->shape[0];
    f->step = 1;
    return DOP_OK;
}

static dop_status
read_torchao(const matrix *m, dop_code_parts *p, dop_flat_parts *f, const char **source, dop_weight *w)
{
    const dop_st_tensor *codes = dop_st_take_part(m->set, m->name, "_weight_qdata"),
                        *both = dop_st_take_part(m->set, m->name, "_weight_scale_and_zero"),
                        *scales = both ? both : dop_st_take_part(m->set, m->name, "_weight_scale"),
                        *zeros = both ? both : dop_st_take_part(m->set, m->name, "_weight_zero_point"),
                        *pre = dop_st_take_part(m->set, m->name, "_weight_act_pre_scale");
    if (!scales || !zeros)
        return fail_missing_part(m, scales ? "_weight_zero_point" : "_weight_scale");
    if (pre)
        return dop_st_refuse(pre, "scales the inputs of a matrix, which is not supported", m->hf->diag);
    *source = codes->name;
    f->bits = 4;
    f->stream = true;
    f->centred = true;
    f->columns = m->inputs;
    dop_status st = both ? read_torchao_tiles(m, codes, both, f) : read_nibbles(m, codes, scales, f);
    if (st == DOP_OK)
        st = take_groups(m, p, f, codes, scales, zeros);
    if (st != DOP_OK)
        return st;
    f->zeros += both ? dop_type_of(f->zero_type)->bytes : 0;
    w->type = DOP_TYPE_f16;
    if (f->group % SMALLEST_GROUP == 0 && fits_half(scales, 1) && fits_half(zeros, 1)) {
        w->type = DOP_TYPE_q4_1;
        return DOP_OK;
    }
    return note_flat_conversion(m, "4 bits (torchao) whose scales do not fit f16", "almost 4 times");
}

/* True if a matrix is quantized to 4 bits by torchao. */
static bool
has_torchao(const dop_st_set *set, const char *name)
{
    const size_t n = strlen(name);
    char codes[300], scales[300], zeros[300];
    if (n < 8 || strcmp(name + n - 7, ".weight") != 0)
        return false;
    snprintf(codes, sizeof codes, "%.*s_weight_qdata", (int)(n - 6), name);
    snprintf(scales, sizeof scales, "%.*s_weight_scale_and_zero", (int)(n - 6), name);
    snprintf(zeros, sizeof zeros, "%.*s_weight_zero_point", (int)(n - 6), name);
    const dop_st_tensor *t = dop_st_find(set, zeros);
    return dop_st_find(set, codes) && (dop_st_find(set, scales) || (t && dop_hf_type(t) != DOP_TYPE_none));
}

bool
dop_hf_has_flat(const dop_hf *hf, const dop_st_set *set, const char *name)
{
    const size_t n = strlen(name);
    char other[300];
    if (has_mlx(hf, set, name) || has_torchao(set, name))
        return true;
    if (n < 8 || strcmp(name + n - 7, ".weight") != 0 || (!hf->quant.bytes && !hf->quant.hqq))
        return false;
    snprintf(other, sizeof other, "%.*s%s", (int)(n - 6), name, hf->quant.hqq ? "W_q" : "SCB");
    if (hf->quant.hqq)
        return dop_st_find(set, other) != NULL;
    const bool scaled = dop_st_find(set, other) != NULL;
    snprintf(other, sizeof other, "%s.absmax", name);
    return dop_st_find(set, name) && (scaled || dop_st_find(set, other));
}

dop_status
dop_hf_flat_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows, dop_weight *w)
{
    const matrix m = {.hf = hf, .set = set, .name = name, .outputs = rows->total, .inputs = w->cols};
    const char *source = NULL;
    dop_flat_parts *f = dop_arena_alloc(hf->arena, sizeof *f);
    dop_code_parts p = {.flat = f, .factor = 1, .first = rows->start, .block = rows->block};
    p.block_step = rows->block_step;
    if (!f)
        return DOP_NO_MEMORY(hf->diag);
    char weight[300];
    snprintf(weight, sizeof weight, "%sweight", name);
    DOP_RETURN_IF_ERROR(has_torchao(set, weight) ? read_torchao(&m, &p, f, &source, w)
                        : hf->quant.hqq          ? read_hqq(&m, &p, f, &source, w)
                        : hf->quant.mlx          ? read_mlx_matrix(&m, &p, f, &source, w)
                                                 : read_bnb_codes(&m, &p, f, &source, w));
    return finish_flat_weight(&m, &p, source, w);
}
