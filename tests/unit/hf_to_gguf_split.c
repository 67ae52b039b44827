/* What the converter does with tensors of experts, of latent attention and of recurrent layers. */
#include "tests/unit/hf_to_gguf_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One tensor on its way: values, and what it is called. */
typedef struct item {
    hg_model *m;
    const hg_rule *rule;
    const char *hf, *ending;
    char name[2][160]; /* of what it becomes */
    hg_tensor t;
    float *v;
} item;

/* ---- experts ------------------------------------------------------------------------------------------------------ */

/* Called with the first expert's tensor, writes all of them; does nothing for the others. */
static bool
stack_experts(item *it)
{
    static const char *const marks[] = {".experts.", ".norms.", "projections."};
    const char *number = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !number; i++)
        number = strstr(it->hf, marks[i]) ? strstr(it->hf, marks[i]) + strlen(marks[i]) : NULL;
    const size_t before = (size_t)(number - it->hf), digits = strspn(number, "0123456789");
    hg_tensor one;
    dop_buf all = {0};
    uint64_t n = 0;
    char name[256];
    if (strtoul(number, NULL, 10) != 0)
        return true;
    for (;; n++) {
        snprintf(name, sizeof name, "%.*s%llu%s", (int)before, it->hf, (unsigned long long)n, number + digits);
        if (!hg_find(it->m, name, &one))
            break;
        float *v = hg_values(&one);
        dop_buf_append(&all, v, (size_t)one.count * sizeof *v);
        free(v);
    }
    memmove(it->t.shape + 1, it->t.shape, it->t.rank * sizeof *it->t.shape);
    it->t.shape[0] = n;
    it->t.rank++;
    hg_write(it->m, it->name[0], &it->t, (const float *)(void *)all.data);
    dop_buf_finish(&all);
    return true;
}

/* The part of [.., n, last] whose index along n is first + step * i. */
static void
write_part(item *it, int which, uint64_t outer, uint64_t n, uint64_t last, uint64_t first, uint64_t step)
{
    hg_tensor t = it->t;
    const uint64_t half = n / 2;
    float *part = malloc(outer * half * last * sizeof *part);
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t i = 0; i < half; i++)
            memcpy(part + (o * half + i) * last, it->v + (o * n + first + step * i) * last, last * sizeof *part);
    t.shape[t.rank - (last == 1 ? 1 : 2)] = half;
    hg_write(it->m, it->name[which], &t, part);
    free(part);
}

static bool
split_halves(item *it)
{
    const uint32_t r = it->t.rank;
    const uint64_t outer = r == 3 ? it->t.shape[0] : 1, n = it->t.shape[r - 2], last = it->t.shape[r - 1];
    write_part(it, 0, outer, n, last, 0, 1);
    write_part(it, 1, outer, n, last, n / 2, 1);
    return r >= 2;
}

/* Values of the last axis. */
static bool
split_even_odd(item *it)
{
    const uint64_t n = it->t.shape[it->t.rank - 1];
    write_part(it, 0, it->t.count / n, n, 1, 0, 2);
    write_part(it, 1, it->t.count / n, n, 1, 1, 2);
    return true;
}

/* [.., rows, cols] becomes [.., cols, rows]. */
static void
turn(float *v, hg_tensor *t)
{
    const uint64_t rows = t->shape[t->rank - 2], cols = t->shape[t->rank - 1];
    float *old = malloc(t->count * sizeof *old);
    memcpy(old, v, t->count * sizeof *old);
    for (uint64_t i = 0; i < t->count; i++) {
        const uint64_t o = i / (rows * cols), r = i / cols % rows, c = i % cols;
        v[(o * cols + c) * rows + r] = old[i];
    }
    t->shape[t->rank - 2] = cols;
    t->shape[t->rank - 1] = rows;
    free(old);
}

/* Blocks [expert, rows, groups, 16] hold values 2i and 2i + 1 in byte i; ggml's hold i and i + 16, behind the scale. */
static void
write_mxfp4(item *it, const hg_tensor *scales, int which, uint64_t first, uint64_t step)
{
    const uint64_t experts = it->t.shape[0], rows = it->t.shape[1], groups = it->t.shape[2];
    const uint64_t shape[] = {experts, rows / step, groups * 32};
    dop_buf out = {0};
    for (uint64_t e = 0; e < experts; e++)
        for (uint64_t r = first; r < rows; r += step)
            for (uint64_t g = 0; g < groups; g++) {
                const uint64_t at = (e * rows + r) * groups + g;
                const uint8_t *from = it->t.data + 16 * at;
                uint8_t block[17] = {scales->data[at]};
                for (unsigned i = 0; i < 16; i++) {
                    const unsigned low = from[i / 2] >> 4 * (i % 2) & 15, high = from[8 + i / 2] >> 4 * (i % 2) & 15;
                    block[1 + i] = (uint8_t)(low | high << 4);
                }
                dop_buf_append(&out, block, sizeof block);
            }
    gguf_tensor_bytes(it->m->w, it->name[which], GGUF_MXFP4, 3, shape, out.data, out.size);
    dop_buf_finish(&out);
}

static bool
repack_mxfp4(item *it)
{
    const uint64_t step = it->rule->how == HG_MXFP4_EVEN_ODD ? 2 : 1;
    char name[256];
    hg_tensor scales;
    snprintf(name, sizeof name, "%.*sscales", (int)(strlen(it->hf) - strlen("blocks")), it->hf);
    if (it->t.rank != 4 || it->t.shape[3] != 16 || !hg_find(it->m, name, &scales))
        return false;
    for (uint64_t k = 0; k < step; k++)
        write_mxfp4(it, &scales, (int)k, k, step);
    return true;
}

/* ---- latent attention --------------------------------------------------------------------------------------------- */

/* Rows of a head are its keys' and then its values': [heads, latent, key] and [heads, value, latent]. */
static bool
split_kv_b(item *it)
{
    const uint64_t key = (uint64_t)hg_number(it->m, "qk_nope_head_dim", 0),
                   value = (uint64_t)hg_number(it->m, "v_head_dim", 0);
    const uint64_t latent = it->t.shape[1], heads = it->t.shape[0] / (key + value);
    hg_tensor t[2] = {it->t, it->t};
    for (int k = 0; k < 2; k++) {
        const uint64_t rows = k ? value : key;
        float *part = malloc(heads * rows * latent * sizeof *part);
        for (uint64_t h = 0; h < heads; h++)
            memcpy(part + h * rows * latent, it->v + (h * (key + value) + (k ? key : 0)) * latent,
                   rows * latent * sizeof *part);
        t[k].rank = 3;
        t[k].shape[0] = heads;
        t[k].shape[1] = rows;
        t[k].shape[2] = latent;
        t[k].count = heads * rows * latent;
        if (k == 0)
            turn(part, &t[k]);
        hg_write(it->m, it->name[k], &t[k], part);
        free(part);
    }
    return true;
}

/* ---- recurrent layers --------------------------------------------------------------------------------------------- */

/* q, k, v and z of the first key head, then of the second, ...: all q, all k, all v; and all z. */
static bool
split_qkvz(item *it)
{
    const uint64_t keys = (uint64_t)hg_number(it->m, "linear_num_key_heads", 0),
                   values = (uint64_t)hg_number(it->m, "linear_num_value_heads", 0),
                   k_dim = (uint64_t)hg_number(it->m, "linear_key_head_dim", 0),
                   v_dim = (uint64_t)hg_number(it->m, "linear_value_head_dim", 0);
    const uint64_t v_rows = values / keys * v_dim, head = 2 * k_dim + 2 * v_rows, cols = it->t.shape[1];
    const uint64_t part[] = {k_dim, k_dim, v_rows, v_rows}, start[] = {0, k_dim, 2 * k_dim, 2 * k_dim + v_rows};
    uint64_t *from = malloc(it->t.shape[0] * sizeof *from), at = 0;
    for (int p = 0; p < 4; p++)
        for (uint64_t h = 0; h < keys; h++)
            for (uint64_t r = 0; r < part[p]; r++)
                from[at++] = h * head + start[p] + r;
    hg_reorder(it->v, from, it->t.shape[0], cols);
    free(from);
    hg_tensor qkv = it->t, z = it->t;
    qkv.shape[0] = keys * (2 * k_dim + v_rows);
    z.shape[0] = keys * v_rows;
    hg_write(it->m, it->name[0], &qkv, it->v);
    hg_write(it->m, it->name[1], &z, it->v + qkv.shape[0] * cols);
    return true;
}

/* Value heads lie by key head; the new order takes the first of every key head, then the second, ... */
static void
tile_heads(const hg_model *m, float *v, uint64_t dim, uint64_t cols)
{
    const uint64_t keys = (uint64_t)hg_number(m, "linear_num_key_heads", 1),
                   values = (uint64_t)hg_number(m, "linear_num_value_heads", 1), each = values / keys;
    uint64_t *from = malloc(values * dim * sizeof *from);
    for (uint64_t h = 0; h < values; h++)
        for (uint64_t r = 0; r < dim; r++)
            from[h * dim + r] = (h % keys * each + h / keys) * dim + r;
    hg_reorder(v, from, values * dim, cols);
    free(from);
}

static bool
write_tiled(item *it)
{
    const uint64_t qk =
        2 * (uint64_t)(hg_number(it->m, "linear_num_key_heads", 0) * hg_number(it->m, "linear_key_head_dim", 0));
    const uint64_t dim = (uint64_t)hg_number(it->m, "linear_value_head_dim", 0);
    hg_tensor *t = &it->t;
    if (it->rule->how == HG_V_TAPS) {
        t->shape[1] = t->shape[2];
        t->rank = 2;
    }
    const uint64_t cols = t->rank > 1 ? t->shape[1] : 1;
    switch (it->rule->how) {
    case HG_V_ROWS:
    case HG_V_TAPS:
        tile_heads(it->m, it->v + qk * cols, dim, cols);
        break;
    case HG_V_ALL_ROWS:
        tile_heads(it->m, it->v, dim, cols);
        break;
    case HG_V_COLUMNS:
        turn(it->v, t);
        tile_heads(it->m, it->v, dim, t->shape[1]);
        turn(it->v, t);
        break;
    default:
        tile_heads(it->m, it->v, 1, cols);
    }
    for (uint64_t i = 0; it->rule->how == HG_V_DECAY && i < t->count; i++)
        it->v[i] = -expf(it->v[i]);
    hg_write(it->m, it->name[0], t, it->v);
    return true;
}

/* Falcon-H1: rows of z, x, B, C and dt times their multipliers. */
static void
scale_mix_in(item *it)
{
    const json_t *list = json_object_get(it->m->config, "ssm_multipliers");
    const double in = hg_number(it->m, "ssm_in_multiplier", 1);
    const uint64_t inner = (uint64_t)hg_number(it->m, "mamba_d_ssm", 0);
    const uint64_t group = (uint64_t)(hg_number(it->m, "mamba_n_groups", 0) * hg_number(it->m, "mamba_d_state", 0));
    const uint64_t end[] = {inner, 2 * inner, 2 * inner + group, 2 * inner + 2 * group, it->t.shape[0]};
    for (uint64_t r = 0, p = 0; r < it->t.shape[0]; r++) {
        while (r >= end[p])
            p++;
        for (uint64_t c = 0; c < it->t.shape[1]; c++)
            it->v[r * it->t.shape[1] + c] *= (float)(in * json_number_value(json_array_get(list, p)));
    }
}

static bool
reshape(item *it)
{
    const hg_how how = it->rule->how;
    hg_tensor *t = &it->t;
    const uint64_t groups = (uint64_t)hg_number(it->m, "n_groups", hg_number(it->m, "mamba_n_groups", 1));
    for (uint64_t i = 0; (how == HG_DECAY || how == HG_DECAY_COLUMN) && i < t->count; i++)
        it->v[i] = -expf(it->v[i]);
    if (how == HG_DECAY_COLUMN || how == HG_COLUMN) {
        t->rank = 2;
        t->shape[1] = 1;
    } else if (how == HG_TAPS && t->rank == 3) {
        t->rank = 2;
        t->shape[1] = t->shape[2];
    } else if (how == HG_TAPS_APART) {
        t->shape[3] = t->shape[2];
        t->shape[1] = t->shape[0];
        t->shape[0] = t->shape[2] = 1;
        t->rank = 4;
    } else if (how == HG_FLAT || how == HG_FLAT_TURNED) {
        t->rank = 3;
        t->shape[2] = t->shape[1];
        t->shape[0] = (uint64_t)json_integer_value(hg_field(it->m, "ffn_config.moe_num_experts"));
        t->shape[1] = t->count / t->shape[0] / t->shape[2];
        if (how == HG_FLAT_TURNED)
            turn(it->v, t);
    } else if (how == HG_GROUPS) {
        t->rank = 2;
        t->shape[1] = t->shape[0] / groups;
        t->shape[0] = groups;
    } else if (how == HG_MIX_IN) {
        scale_mix_in(it);
        t->dtype = "F32";
    } else if (how == HG_COLUMN_HALVES || how == HG_TURNED) {
        turn(it->v, t);
    }
    if (how == HG_COLUMN_HALVES)
        return split_halves(it);
    hg_write(it->m, it->name[0], t, it->v);
    return true;
}

/* ---- all ---------------------------------------------------------------------------------------------------------- */

static bool
convert(item *it)
{
    switch (it->rule->how) {
    case HG_EXPERTS:
        return stack_experts(it);
    case HG_HALVES:
        return split_halves(it);
    case HG_EVEN_ODD:
        return split_even_odd(it);
    case HG_KV_B:
        return split_kv_b(it);
    case HG_QKVZ:
        return split_qkvz(it);
    case HG_V_ROWS:
    case HG_V_ALL_ROWS:
    case HG_V_VALUES:
    case HG_V_DECAY:
    case HG_V_TAPS:
    case HG_V_COLUMNS:
        return write_tiled(it);
    default:
        return reshape(it);
    }
}

bool
hg_split(hg_model *m, const hg_rule *rule, const char *hf, const char *gguf, const char *ending)
{
    item it = {.m = m, .rule = rule, .hf = hf, .ending = ending};
    const char *comma = strchr(gguf, ','), *dot = strncmp(gguf, "blk.", 4) == 0 ? strchr(gguf + 4, '.') + 1 : gguf;
    const bool bare =
        strstr(gguf, ".weight") || strstr(gguf, ".bias") || strcmp(dot, "ssm_a") == 0 || strcmp(dot, "ssm_d") == 0;
    snprintf(it.name[0], sizeof it.name[0], "%.*s%s", (int)(comma ? comma - gguf : (long)strlen(gguf)), gguf,
             bare ? "" : ending);
    snprintf(it.name[1], sizeof it.name[1], "%.*s%s", (int)(dot - gguf), gguf, comma ? comma + 1 : "");
    if (!hg_find(m, hf, &it.t))
        return false;
    if (rule->how == HG_MXFP4 || rule->how == HG_MXFP4_EVEN_ODD)
        return repack_mxfp4(&it);
    it.v = hg_values(&it.t);
    const bool ok = it.v && convert(&it);
    free(it.v);
    return ok;
}
