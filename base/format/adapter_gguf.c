/* GGUF adapters: general.type "adapter", tensors NAME.lora_a and NAME.lora_b.  Source: the GGUF specification and the converter
 * (convert_lora_to_gguf). */
#include "base/format/adapter_file.h"
#include "base/format/gguf.h"

#include <math.h>
#include <string.h>

enum { MAX_NAME = 200 };

static bool
gguf_key_equals(const dop_gguf *g, const char *key, const char *value)
{
    dop_gguf_str s;
    return dop_gguf_string(dop_gguf_find(g, key), &s) && s.len == strlen(value) && memcmp(s.data, value, s.len) == 0;
}

static bool
gguf_name_ends_with(const dop_gguf_str *name, const char *with, size_t *out_len)
{
    const size_t n = strlen(with);
    const bool is = name->len > n && memcmp(name->data + name->len - n, with, n) == 0;
    *out_len = is ? (size_t)name->len - n : 0;
    return is;
}

static dop_status
make_gguf_matrix(const dop_gguf *g, const dop_gguf_tensor *t, const char *name, dop_diag *diag, dop_adapter_matrix *out)
{
    static const struct {
        uint32_t gguf;
        dop_adapter_type type;
    } types[] = {{0, DOP_ADAPTER_F32}, {1, DOP_ADAPTER_F16}, {30, DOP_ADAPTER_BF16}, {8, DOP_ADAPTER_Q8_0}};
    dop_gguf_tensor_info info = {.name = "?"};
    *out = (dop_adapter_matrix){
        .tensor = name, .data = g->map.data + t->offset, .experts = t->dims[2], .rows = t->dims[1], .cols = t->dims[0]};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].gguf == t->type) {
            out->type = types[i].type;
            return t->dims[3] == 1 ? DOP_OK : DOP_FAIL_IN(diag, DOP_E_INPUT, g->path, "tensor %s has four axes", name);
        }
    dop_gguf_tensor_type(t->type, &info);
    return DOP_FAIL_IN(diag, DOP_E_INPUT, g->path, "tensor %s: type %s is not supported; known: F32, F16, BF16, Q8_0",
                       name, info.name);
}

static dop_status
add_gguf_adapter_tensor(const dop_gguf *g, const dop_gguf_tensor *t, dop_arena *arena, dop_diag *diag,
                        dop_adapter_file *f)
{
    size_t len = 0;
    const char *name =
        dop_arena_printf(arena, "%.*s", (int)(t->name.len > MAX_NAME ? MAX_NAME : t->name.len), t->name.data);
    if (t->name.len > MAX_NAME)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, g->path, "a tensor name has %llu bytes, at most %d are supported",
                           (unsigned long long)t->name.len, MAX_NAME);
    if (!name)
        return DOP_NO_MEMORY(diag);
    const bool is_a = gguf_name_ends_with(&t->name, ".lora_a", &len);
    if (!is_a && !gguf_name_ends_with(&t->name, ".lora_b", &len))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, g->path, "tensor %s is no part of a low-rank adapter (lora_a, lora_b)",
                           name);
    static const char weight[] = ".weight";
    if (len > sizeof weight - 1 && memcmp(name + len - (sizeof weight - 1), weight, sizeof weight - 1) == 0)
        len -= sizeof weight - 1;
    dop_adapter_pair *p = NULL;
    dop_status st = dop_adapter_add(f, name, len, arena, diag, &p);
    if (st != DOP_OK)
        return st;
    p->embedding = strcmp(p->module, "token_embd") == 0;
    return make_gguf_matrix(g, t, name, diag, is_a ? &p->a : &p->b);
}

dop_status
dop_adapter_read_gguf(const char *path, dop_arena *arena, dop_diag *diag, dop_adapter_file *out)
{
    dop_gguf g;
    dop_gguf_str arch;
    double alpha = 0;
    dop_status st = dop_gguf_open(path, diag, &g);
    if (st != DOP_OK)
        return st;
    *out = (dop_adapter_file){.path = path, .exact = true};
    if (!gguf_key_equals(&g, "general.type", "adapter"))
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "this GGUF file is not an adapter (general.type)");
    else if (!gguf_key_equals(&g, "adapter.type", "lora"))
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "this adapter is not a LoRA adapter (adapter.type)");
    if (st == DOP_OK && dop_gguf_string(dop_gguf_find(&g, "general.architecture"), &arch) &&
        !(out->arch = dop_arena_printf(arena, "%.*s", (int)(arch.len > 60 ? 60 : arch.len), arch.data)))
        st = DOP_NO_MEMORY(diag);
    const dop_gguf_kv *kv = st == DOP_OK ? dop_gguf_find(&g, "adapter.lora.alpha") : NULL;
    if (kv && (!dop_gguf_f64(kv, 0, &alpha) || !isfinite(alpha) || fabs(alpha) > 1e6))
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "adapter.lora.alpha is not a number of sensible size");
    for (size_t i = 0; i < g.tensor_count && st == DOP_OK; i++)
        st = add_gguf_adapter_tensor(&g, &g.tensors[i], arena, diag, out);
    if (st == DOP_OK)
        st = dop_adapter_join(out, diag);
    for (uint32_t i = 0; i < out->n_pairs && st == DOP_OK; i++) {
        const dop_adapter_pair *p = &out->pairs[i]; /* without alpha, the scale is 1 */
        out->pairs[i].scale = alpha != 0 && p->b.tensor && p->b.cols ? alpha / (double)p->b.cols : 1;
    }
    out->map = g.map; /* the pairs point into it */
    g.map = (dop_map){0};
    dop_gguf_close(&g);
    return st;
}
