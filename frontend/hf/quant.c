/* Checkpoints of AutoAWQ, AutoGPTQ and GPTQModel: matrices of packed integers with zero points and scales.
 *
 * Instead of NAME.weight [out, in], a linear layer NAME with `in` inputs and `out` outputs has
 *   NAME.scales  [groups, out]     f16
 *   NAME.qzeros  [groups, out / 8] words of eight outputs
 *   NAME.qweight AWQ (version gemm): [in, out / 8] words of eight outputs; GPTQ: [in / 8, out] words of eight inputs; for 2, 3
 *                and 8 bits the corresponding number of words
 *   NAME.g_idx   GPTQ: [in], the group of each input
 * and value (o, i) = scale * (q - zero). AWQ's words have outputs in the order 0 2 4 6 1 3 5 7, from the lowest bits on (AutoAWQ,
 * awq/utils/packing_utils.py). GPTQ's first checkpoint format stores zero points minus 1, modulo 16; "gptq_v2" stores them unchanged
 * (GPTQModel, README). With "sym" every zero point is the middle of the integers' range, whatever is stored: GPTQModel 5 writes them
 * unchanged but calls the format "gptq". */
#include "frontend/hf/quant.h"
#include "base/encoding/little_endian.h"
#include "frontend/facts/leftovers.h"
#include "frontend/hf/flat.h"
#include "frontend/hf/hf.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { WORD = 8 /* 4-bit integers per word */, SMALLEST_GROUP = 32 };

/* ---- quantization_config ------------------------------------------------------------------------------------------ */

static dop_status
refuse_quant_value(const dop_json *q, const char *key, const char *value, const char *known)
{
    return DOP_FAIL_IN(q->diag, DOP_E_INPUT, q->path, "%s%s \"%.40s\" is not supported; known: %s", q->where, key,
                       value, known);
}

/* Reads the group size: inputs that share a scale; 0: all inputs of a row. */
static dop_status
read_group(const dop_json *q, uint32_t *out)
{
    const json_t *v = dop_json_get(q, dop_json_has(q, "q_group_size") ? "q_group_size" : "group_size");
    const json_int_t n = json_is_integer(v) ? json_integer_value(v) : v ? 0 : 128;
    if (n != -1 && (n < SMALLEST_GROUP || n > DOP_MAX_WIDTH || n % SMALLEST_GROUP != 0))
        return DOP_FAIL_IN(q->diag, DOP_E_INPUT, q->path,
                           "%sgroup_size is %lld; groups of 32, 64, 128 or another multiple of 32 and -1 (whole rows) "
                           "are supported",
                           q->where, (long long)n);
    *out = n == -1 ? 0 : (uint32_t)n;
    return DOP_OK;
}

static dop_status
read_awq(const dop_json *q, dop_hf_quant *out)
{
    const char *version = NULL;
    bool zeros = true;
    dop_status st = dop_json_str_or(q, "version", "gemm", &version);
    out->by_input = st == DOP_OK && strcasecmp(version, "gemv") == 0;
    if (st == DOP_OK && !out->by_input && strcasecmp(version, "gemm") != 0)
        st = refuse_quant_value(q, "version", version, "gemm, gemv");
    if (st == DOP_OK)
        st = dop_json_bool_or(q, "zero_point", true, &zeros);
    if (st == DOP_OK && !zeros)
        st = DOP_FAIL_IN(q->diag, DOP_E_INPUT, q->path, "%szero_point false is not supported", q->where);
    return st;
}

static dop_status
read_gptq(const dop_json *q, dop_hf_quant *out)
{
    const char *format = NULL, *words = NULL;
    dop_status st = dop_json_str_or(q, "format", "gptq", &format);
    if (st == DOP_OK)
        st = dop_json_str_or(q, "checkpoint_format", format, &format);
    if (st == DOP_OK && strcmp(format, "gptq") != 0 && strcmp(format, "gptq_v2") != 0)
        st = refuse_quant_value(q, "checkpoint_format", format, "gptq, gptq_v2");
    if (st == DOP_OK)
        st = dop_json_str_or(q, "pack_dtype", "int32", &words);
    if (st == DOP_OK && strcmp(words, "int32") != 0)
        st = refuse_quant_value(q, "pack_dtype", words, "int32");
    if (st == DOP_OK)
        st = dop_json_bool_or(q, "desc_act", false, &out->act_order);
    if (st == DOP_OK)
        st = dop_json_bool_or(q, "sym", false, &out->symmetric);
    const json_t *dynamic = dop_json_get(q, "dynamic");
    if (st == DOP_OK && dynamic && json_object_size(dynamic) > 0)
        st = DOP_FAIL_IN(q->diag, DOP_E_INPUT, q->path, "%sdynamic (settings by layer) is not supported", q->where);
    out->zero_add = st == DOP_OK && strcmp(format, "gptq") == 0 ? 1 : 0;
    return st;
}

/* Reads MLX's "quantization", which mlx-lm repeats as "quantization_config". Bits and group size of a matrix, which may differ,
 * follow from its tensors' shapes (flat.c). */
static dop_status
read_mlx_config(const dop_json *q, dop_hf_quant *out)
{
    const char *mode = NULL;
    dop_status st = dop_json_str_or(q, "mode", "affine", &mode);
    out->mlx = true;
    return st == DOP_OK && strcmp(mode, "affine") != 0 ? refuse_quant_value(q, "mode", mode, "affine") : st;
}

/* Resolves methods that use another one's form. AutoRound's files are packed like GPTQ or AWQ; bitsandbytes' first files only
 * state the number of bits. */
static dop_status
resolve_method(const dop_json *q, const char **io_method)
{
    const char *packing = NULL;
    dop_status st = DOP_OK;
    if (!**io_method &&
        (json_is_true(dop_json_get(q, "load_in_4bit")) || json_is_true(dop_json_get(q, "load_in_8bit"))))
        *io_method = "bitsandbytes";
    if (strcmp(*io_method, "auto-round") != 0 && strcmp(*io_method, "intel/auto-round") != 0)
        return DOP_OK;
    const char *const key = dop_json_has(q, "packing_format") ? "packing_format" : "backend";
    st = dop_json_str_or(q, key, "auto_round:auto_gptq", &packing);
    if (st == DOP_OK && strstr(packing, "awq"))
        *io_method = "awq";
    else if (st == DOP_OK && strstr(packing, "gptq"))
        *io_method = "gptq";
    else if (st == DOP_OK)
        st = refuse_quant_value(q, key, packing, "auto_round:auto_gptq, auto_round:auto_awq");
    const json_t *extra = dop_json_get(q, "extra_config"), *layer;
    const char *name;
    json_object_foreach((json_t *)(uintptr_t)extra, name, layer)
    {
        const json_t *bits = json_object_get(layer, "bits");
        if (st == DOP_OK && bits && json_integer_value(bits) < 16 && /* 16-bit matrices are not quantized */
            json_integer_value(bits) != json_integer_value(dop_json_get(q, "bits")))
            st = DOP_FAIL_IN(q->diag, DOP_E_INPUT, q->path,
                             "%sextra_config: %.80s has bits of its own, which is not supported", q->where, name);
    }
    return st;
}

/* Reads the quantization description q. The file may omit the method's name. */
static dop_status
read_config(dop_hf *hf, const dop_json *q, const char *method)
{
    static const char *const by_tensors[] = {"fp8",   "fbgemm_fp8", "compressed-tensors", "modelopt", "modelopt_fp4",
                                             "quark", "torchao"};
    uint32_t bits = 0;
    dop_status st = dop_json_str_or(q, "quant_method", method, &method);
    if (st == DOP_OK)
        st = resolve_method(q, &method);
    if (st != DOP_OK)
        return st;
    hf->quant.mxfp4 = st == DOP_OK && strcmp(method, "mxfp4") == 0;
    if (hf->quant.mxfp4)
        return DOP_OK;
    for (size_t i = 0; st == DOP_OK && i < sizeof by_tensors / sizeof *by_tensors; i++)
        if (strcmp(method, by_tensors[i]) == 0) {
            hf->quant.codes = true;
            return DOP_OK;
        }
    hf->quant.bytes = st == DOP_OK && strcmp(method, "bitsandbytes") == 0;
    hf->quant.hqq = st == DOP_OK && strcmp(method, "hqq") == 0;
    if (hf->quant.bytes || hf->quant.hqq)
        return DOP_OK;
    if (st == DOP_OK && strcmp(method, "awq") != 0 && strcmp(method, "gptq") != 0)
        return refuse_quant_value(
            q, "quant_method", method,
            "awq, gptq, mxfp4, fp8, fbgemm_fp8, compressed-tensors, modelopt, quark, torchao, bitsandbytes, hqq, "
            "auto-round, and MLX's quantization");
    hf->quant.used = true;
    hf->quant.awq = st == DOP_OK && *method == 'a';
    if (st == DOP_OK)
        st = dop_json_u32(q, dop_json_has(q, "w_bit") ? "w_bit" : "bits", 0, 64, &bits);
    if (st == DOP_OK && bits != 4 && (hf->quant.awq || (bits != 2 && bits != 3 && bits != 8)))
        return DOP_FAIL_IN(q->diag, DOP_E_INPUT, q->path, "%sbits is %u; %s are supported", q->where, bits,
                           hf->quant.awq ? "only 4 bits" : "2, 3, 4 and 8 bits");
    hf->quant.bits = bits;
    if (st == DOP_OK)
        st = read_group(q, &hf->quant.group);
    if (st == DOP_OK)
        st = hf->quant.awq ? read_awq(q, &hf->quant) : read_gptq(q, &hf->quant);
    return st;
}

/* Reads separate configuration files, as written by quantizers older than the transformers field and by NVIDIA's. */
static dop_status
read_beside(dop_hf *hf)
{
    static const struct {
        const char *file, *method, *field; /* field that distinguishes it from other files of this name */
    } files[] = {{"quantize_config.json", "gptq", "bits"},
                 {"quant_config.json", "awq", "w_bit"},
                 {"hf_quant_config.json", "modelopt", "quantization"}};
    dop_status st = DOP_OK;
    for (size_t i = 0; st == DOP_OK && i < sizeof files / sizeof *files; i++) {
        const char *path = dop_arena_printf(hf->arena, "%s/%s", hf->dir, files[i].file);
        json_t *root = NULL;
        dop_json q;
        if (!path)
            return DOP_NO_MEMORY(hf->diag);
        if (access(path, F_OK) != 0)
            continue;
        st = dop_json_decode_file(&(dop_json_how){.path = path}, hf->diag, &root);
        if (st == DOP_OK)
            st = dop_json_root(root, path, hf->diag, &q);
        const bool its = st == DOP_OK && dop_json_has(&q, files[i].field);
        if (its)
            st = read_config(hf, &q, files[i].method);
        json_decref(root);
        if (its)
            return st;
    }
    return st;
}

dop_status
dop_hf_quant_config(dop_hf *hf)
{
    dop_json q;
    dop_status st = dop_json_sub(&hf->top, "quantization", &q);
    if (st == DOP_OK && q.object && dop_json_has(&q, "group_size") && dop_json_has(&q, "bits"))
        return read_mlx_config(&q, &hf->quant);
    if (st == DOP_OK)
        st = dop_json_sub(&hf->top, "quantization_config", &q);
    if (st != DOP_OK)
        return st;
    return q.object ? read_config(hf, &q, "") : read_beside(hf);
}

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

/* The tensors of one linear layer. */
typedef struct layer {
    dop_hf *hf;
    const dop_st_set *set;
    const char *name; /* prefix of tensor names, such as "model.layers.0.mlp.up_proj." */
    uint32_t inputs, group;
    uint64_t outputs, groups;
    const dop_st_tensor *words, *zeros, *scales, *g_idx;
} layer;

static dop_status
find_quant_tensor(const layer *l, const char *part, bool required, const dop_st_tensor **out)
{
    char name[300];
    snprintf(name, sizeof name, "%s%s", l->name, part);
    *out = dop_st_take(l->set, name);
    return *out || !required ? DOP_OK
                             : DOP_FAIL_IN(l->hf->diag, DOP_E_INPUT, l->set->path, "tensor %s is missing", name);
}

static dop_status
check_words(const layer *l, const dop_st_tensor *t, uint32_t rank, uint64_t d0, uint64_t d1)
{
    DOP_RETURN_IF_ERROR(dop_st_check_shape(t, rank, (const uint64_t[]){d0, d1}, l->hf->diag));
    if (dop_hf_type(t) != DOP_TYPE_i32 && dop_hf_type(t) != DOP_TYPE_u32)
        return DOP_FAIL_IN(l->hf->diag, DOP_E_INPUT, t->file, "tensor %s: dtype %s is not supported; known: I32",
                           t->name, t->dtype);
    return DOP_OK;
}

/* Checks that scales fit f16, the scale type of blocks. Fails if rounding would change more than the last bits of a wider
 * type. */
static dop_status
check_scales(const layer *l)
{
    const dop_st_tensor *t = l->scales;
    const uint32_t size = dop_type_of(dop_hf_type(t))->bytes;
    DOP_RETURN_IF_ERROR(dop_st_check_shape(t, 2, (const uint64_t[]){l->groups, l->outputs}, l->hf->diag));
    DOP_RETURN_IF_ERROR(dop_hf_check_float(t, l->hf->diag));
    for (uint64_t i = 0; i < l->groups * l->outputs; i++) {
        float v;
        dop_decode_row(dop_hf_type(t), t->data + i * size, 1, &v);
        const float h = dop_f16_to_f32(dop_f32_to_f16(v));
        if (!(fabsf(h - v) <= fabsf(v) / 512))
            /* negated, so that infinities and NaN fail, too */
            return DOP_FAIL_IN(l->hf->diag, DOP_E_INPUT, t->file, "tensor %s: the scale %g does not fit f16", t->name,
                               (double)v);
    }
    return DOP_OK;
}

/* Reads whether groups are adjacent inputs. With desc_act they follow the order of the inputs' activations instead. */
static dop_status
read_group_order(layer *l)
{
    const dop_st_tensor *t = l->g_idx;
    l->g_idx = NULL;
    if (!t && !l->hf->quant.act_order)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(t ? check_words(l, t, 1, l->inputs, 0) : find_quant_tensor(l, "g_idx", true, &t));
    for (uint32_t i = 0; i < l->inputs; i++) {
        const uint32_t group = dop_word_at(t->data, i);
        if (group >= l->groups)
            return DOP_FAIL_IN(l->hf->diag, DOP_E_INPUT, t->file, "tensor %s: group %u of input %u is not there",
                               t->name, group, i);
        if (group != i / l->group)
            l->g_idx = t;
    }
    return DOP_OK;
}

/* True if every zero point is the middle of the integers' range. */
static bool
is_centred(const layer *l)
{
    const uint8_t middle = (uint8_t)(128 - l->hf->quant.zero_add);
    for (uint64_t i = 0; l->zeros && i < l->zeros->bytes; i++)
        if (l->zeros->data[i] != middle)
            return false;
    return true;
}

static dop_status
note_expanded(dop_hf *hf, const layer *l)
{
    char note[200];
    if (hf->quant.expanded)
        return DOP_OK;
    hf->quant.expanded = true;
    snprintf(note, sizeof note, "matrices %s become f16, %s their bytes; `quant` makes them smaller again",
             l->g_idx ? "in activation order (desc_act)" : "of 8 bits with zero points",
             l->g_idx ? "up to 4 times" : "twice");
    return dop_checkpoint_note(hf->model, note, hf->diag);
}

static dop_status
open_layer(layer *l)
{
    const dop_hf_quant *q = &l->hf->quant;
    const dop_st_tensor *t = NULL;
    dop_status st = find_quant_tensor(l, "qweight", true, &l->words);
    if (st == DOP_OK)
        st = find_quant_tensor(l, "scales", true, &l->scales);
    if (st == DOP_OK)
        st = find_quant_tensor(l, "qzeros", q->awq || !q->symmetric,
                               &l->zeros); /* marked as used even if it is not needed below */
    if (st == DOP_OK && !q->awq)
        st = find_quant_tensor(l, "g_idx", false, &l->g_idx);
    if (st != DOP_OK)
        return st;
    t = l->words;
    if (q->group == 0 && l->inputs % SMALLEST_GROUP != 0)
        return DOP_FAIL_IN(l->hf->diag, DOP_E_INPUT, t->file,
                           "tensor %s: group_size -1 with %u inputs is not supported: they are no multiple of 32",
                           t->name, l->inputs);
    l->group = q->group ? q->group : l->inputs;
    l->groups = (l->inputs + l->group - 1) / l->group;
    if (l->outputs * q->bits % 32 != 0 || l->inputs * q->bits % 32 != 0 || (q->awq && l->inputs % l->group != 0))
        return DOP_FAIL_IN(l->hf->diag, DOP_E_INPUT, t->file,
                           "tensor %s: %llu outputs of %u inputs do not fill words and groups of %u", t->name,
                           (unsigned long long)l->outputs, l->inputs, l->group);
    st = q->awq ? check_words(l, t, 2, l->inputs, l->outputs / WORD)
                : check_words(l, t, 2, l->inputs * q->bits / 32, l->outputs);
    if (st == DOP_OK && l->zeros)
        st = check_words(l, l->zeros, 2, l->groups, l->outputs * q->bits / 32);
    if (q->symmetric)
        l->zeros = NULL;
    if (st == DOP_OK)
        st = check_scales(l);
    return st == DOP_OK && !q->awq ? read_group_order(l) : st;
}

dop_status
dop_hf_quant_weight(dop_hf *hf, const dop_st_set *set, const char *name, uint64_t outputs, uint64_t first,
                    dop_weight *w)
{
    layer l = {.hf = hf, .set = set, .name = name, .inputs = w->cols, .outputs = outputs};
    if (hf->quant.by_input)
        return dop_hf_awq_gemv(hf, set, name, outputs, first, w);
    dop_status st = open_layer(&l);
    if (st != DOP_OK)
        return st;
    dop_int4_parts *p = dop_arena_alloc(hf->arena, sizeof *p);
    if (!p)
        return DOP_NO_MEMORY(hf->diag);
    *p = (dop_int4_parts){.words = l.words->data,
                          .zeros = l.zeros ? l.zeros->data : NULL,
                          .scales = l.scales->data,
                          .scale_type = dop_hf_type(l.scales),
                          .by_output = hf->quant.awq,
                          .zero_add = hf->quant.zero_add,
                          .group = l.group,
                          .outputs = outputs,
                          .first = first};
    w->type = l.group % 128 == 0 ? DOP_TYPE_int4_g128 : l.group % 64 == 0 ? DOP_TYPE_int4_g64 : DOP_TYPE_int4_g32;
    if (l.g_idx || hf->quant.bits != 4) {
        p->bits = hf->quant.bits;
        p->order = l.g_idx ? l.g_idx->data : NULL;
        if (l.g_idx || (p->bits == 8 && !is_centred(&l))) {
            w->type = DOP_TYPE_f16;
            st = note_expanded(hf, &l);
        } else if (p->bits == 8) {
            w->type = DOP_TYPE_q8_0;
        }
    }
    w->source = l.words->name;
    w->parts = p;
    return st;
}

/* ---- mxfp4, for experts only -------------------------------------------------------------------------------------- */

static dop_status
find_bytes(dop_hf *hf, const dop_st_set *set, const char *name, const char *part, uint32_t rank, const uint64_t *shape,
           const dop_st_tensor **out)
{
    char full[300];
    snprintf(full, sizeof full, "%s%s", name, part);
    *out = dop_st_take(set, full);
    if (!*out)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, set->path, "tensor %s is missing", full);
    DOP_RETURN_IF_ERROR(dop_st_check_shape(*out, rank, shape, hf->diag));
    if (strcmp((*out)->dtype, "U8") != 0)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, (*out)->file, "tensor %s: dtype %s is not supported; known: U8", full,
                           (*out)->dtype);
    return DOP_OK;
}

dop_status
dop_hf_mxfp4_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows, dop_weight *w)
{
    const uint64_t groups = w->cols / 32, shape[] = {w->experts, rows->total, groups, 16};
    const dop_st_tensor *blocks = NULL, *scales = NULL;
    if (w->cols % 32 != 0)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "tensor %s_blocks: rows of %u values are no multiple of 32",
                           name, w->cols);
    dop_status st = find_bytes(hf, set, name, "_blocks", 4, shape, &blocks);
    if (st == DOP_OK)
        st = find_bytes(hf, set, name, "_scales", 3, shape, &scales);
    if (st != DOP_OK)
        return st;
    dop_weight *each = dop_arena_alloc(hf->arena, w->experts * sizeof *each);
    dop_int4_parts *parts = dop_arena_alloc(hf->arena, w->experts * sizeof *parts);
    if (!each || !parts)
        return DOP_NO_MEMORY(hf->diag);
    for (uint32_t e = 0; e < w->experts; e++) {
        parts[e] = (dop_int4_parts){.microscaling = true,
                                    .words = blocks->data,
                                    .scales = scales->data,
                                    .outputs = rows->total,
                                    .first = e * rows->total + rows->start,
                                    .step = rows->block ? rows->block_step / rows->block : 1};
        each[e] = (dop_weight){.name = w->name,
                               .type = DOP_TYPE_mxfp4,
                               .rank = 2,
                               .rows = w->rows,
                               .cols = w->cols,
                               .source = blocks->name,
                               .parts = &parts[e]};
    }
    w->each = each;
    w->type = DOP_TYPE_mxfp4;
    w->source = blocks->name;
    return DOP_OK;
}
