/* Adapters of diffusion models: one safetensors file with pairs for the U-Net and the text encoders.  Supported names: PEFT as written
 * by diffusers ("unet.NAME.lora_A.weight"); older diffusers ("unet.NAME.lora.down.weight", "unet.NAME.processor.to_q_lora.down.weight",
 * "NAME.lora_linear_layer.down.weight"); kohya-ss's sd-scripts ("lora_unet_NAME.lora_down.weight", with "_" for the dots in NAME).
 * Formats: https://huggingface.co/docs/diffusers (section "Load adapters"), https://github.com/kohya-ss/sd-scripts (networks/lora.py). */
#include "base/format/adapter_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Suffixes of tensor names after the module. */
static const struct {
    const char *name;
    size_t field;
} ends[] = {
    {".lora_A", offsetof(dop_adapter_pair, a)},
    {".lora_B", offsetof(dop_adapter_pair, b)},
    {".lora_down", offsetof(dop_adapter_pair, a)},
    {".lora_up", offsetof(dop_adapter_pair, b)},
    {".lora.down", offsetof(dop_adapter_pair, a)},
    {".lora.up", offsetof(dop_adapter_pair, b)},
    {".lora_linear_layer.down", offsetof(dop_adapter_pair, a)},
    {".lora_linear_layer.up", offsetof(dop_adapter_pair, b)},
    {"_lora.down", offsetof(dop_adapter_pair, a)},
    {"_lora.up", offsetof(dop_adapter_pair, b)},
    {".lora_magnitude_vector", offsetof(dop_adapter_pair, lengths)},
    {".alpha", offsetof(dop_adapter_pair, alpha)},
};

/* True if the name ends here, with ".weight", or with an adapter's name and ".weight". */
static bool
is_diffusers_name_end(const char *rest)
{
    static const char weight[] = ".weight";
    const size_t n = strlen(rest), k = sizeof weight - 1;
    if (n == 0 || strcmp(rest, weight) == 0)
        return true;
    return *rest == '.' && n > k && strcmp(rest + n - k, weight) == 0 && strcspn(rest + 1, ".") + 1 == n - k;
}

/* Returns the module for a tensor name, converting the attention names of early diffusers versions ("NAME.processor.to_out", in text
 * encoders "NAME.self_attn.to_out"). */
static const char *
make_diffusers_module(const char *name, size_t len, dop_arena *arena)
{
    static const struct {
        const char *was, *is;
    } rows[] = {{".processor.to_q", ".to_q"},
                {".processor.to_k", ".to_k"},
                {".processor.to_v", ".to_v"},
                {".processor.to_out", ".to_out.0"},
                {".self_attn.to_q", ".self_attn.q_proj"},
                {".self_attn.to_k", ".self_attn.k_proj"},
                {".self_attn.to_v", ".self_attn.v_proj"},
                {".self_attn.to_out", ".self_attn.out_proj"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t k = strlen(rows[i].was);
        if (len > k && strncmp(name + len - k, rows[i].was, k) == 0)
            return dop_arena_printf(arena, "%.*s%s", (int)(len - k), name, rows[i].is);
    }
    return dop_arena_printf(arena, "%.*s", (int)len, name);
}

static dop_status
read_alpha(const dop_st_tensor *t, dop_diag *diag, dop_adapter_matrix *out)
{
    dop_st_tensor one = *t;
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->shape[i] != 1)
            return dop_st_refuse(t, "one value is expected", diag);
    one.rank = 1;
    one.shape[0] = 1;
    return dop_adapter_matrix_of(&one, diag, out);
}

static dop_status
add_diffusers_tensor(const dop_st_tensor *t, dop_arena *arena, dop_diag *diag, dop_adapter_file *f)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *at = strstr(t->name, ends[i].name);
        if (!at || at == t->name || !is_diffusers_name_end(at + strlen(ends[i].name)))
            continue;
        const char *module = make_diffusers_module(t->name, (size_t)(at - t->name), arena);
        dop_adapter_pair *p = NULL;
        if (!module)
            return DOP_NO_MEMORY(diag);
        const dop_status st = dop_adapter_add(f, module, strlen(module), arena, diag, &p);
        if (st != DOP_OK)
            return st;
        dop_adapter_matrix *m = (dop_adapter_matrix *)(void *)((char *)p + ends[i].field);
        return m == &p->alpha ? read_alpha(t, diag, m) : dop_adapter_matrix_of(t, diag, m);
    }
    return DOP_FAIL_IN(diag, DOP_E_INPUT, t->file, "tensor %.160s is no part of a low-rank adapter that is read here",
                       t->name);
}

/* Reads the configuration of one model part from the metadata "lora_adapter_metadata", whose members are "unet.r" and so on.
 * *out_says: true if there is one. */
static dop_status
read_part_config(const json_t *root, const char *part, const char *path, dop_diag *diag, json_t **out_own,
                 dop_adapter_config *out, bool *out_says)
{
    const size_t k = strlen(part);
    const char *key;
    json_t *value, *own = json_object();
    *out_own = own;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        if (strncmp(key, part, k) == 0 && key[k] == '.' && !json_is_null(value) &&
            json_object_set(own, key + k + 1, value))
            return DOP_NO_MEMORY(diag);
    }
    *out_says = json_object_size(own) > 0;
    return *out_says ? dop_adapter_read_config(own, path, diag, out) : DOP_OK;
}

/* Sets the scale of each pair: alpha / rank if the file has an alpha, otherwise by the metadata of the module's part, otherwise 1. */
static dop_status
set_diffusers_scales(dop_adapter_file *f, const json_t *root, dop_diag *diag)
{
    static const char *const parts[] = {"unet", "text_encoder", "text_encoder_2"};
    enum { PARTS = sizeof parts / sizeof *parts };
    dop_adapter_config configs[PARTS];
    json_t *own[PARTS] = {NULL};
    bool says[PARTS] = {false};
    dop_status st = DOP_OK;
    for (size_t i = 0; i < PARTS; i++)
        DOP_TRY(read_part_config(root, parts[i], f->path, diag, &own[i], &configs[i], &says[i]));
    for (uint32_t i = 0; i < f->n_pairs; i++) {
        dop_adapter_pair *p = &f->pairs[i];
        const size_t k = strcspn(p->module, ".");
        size_t part = 0;
        while (part < PARTS && (strncmp(p->module, parts[part], k) != 0 || parts[part][k]))
            part++;
        const double alpha = p->alpha.tensor ? (double)dop_adapter_value(&p->alpha, 0) : 1;
        if (!isfinite(alpha) || fabs(alpha) > 1e6)
            DOP_TRY(DOP_FAIL_IN(diag, DOP_E_INPUT, f->path, "tensor %s is no sensible number", p->alpha.tensor));
        else if (p->alpha.tensor)
            p->scale = p->a.rows ? alpha / (double)p->a.rows : 1;
        else if (part < PARTS && says[part])
            DOP_TRY(dop_adapter_set_scale(&configs[part], p, diag));
    }
error:
    for (size_t i = 0; i < PARTS; i++)
        json_decref(own[i]);
    return st;
}

dop_status
dop_adapter_read_diffusers(const char *path, dop_arena *arena, dop_diag *diag, dop_adapter_file *out)
{
    dop_st_set set = {0};
    const char *said = NULL;
    json_t *root = NULL;
    *out = (dop_adapter_file){.path = path, .exact = true};
    dop_status st = DOP_OK;
    DOP_TRY(dop_map_open(path, diag, &out->map));
    DOP_TRY(dop_st_parse(path, &out->map, arena, diag, &set));
    DOP_TRY(dop_st_metadata(path, &out->map, "lora_adapter_metadata", arena, diag, &said));
    if (said)
        DOP_TRY(dop_json_decode(said, strlen(said), &(dop_json_how){.path = path}, diag, &root));
    for (uint32_t i = 0; i < set.n; i++)
        DOP_TRY(add_diffusers_tensor(&set.tensors[i], arena, diag, out));
    DOP_TRY(dop_adapter_join(out, diag));
    DOP_TRY(set_diffusers_scales(out, root, diag));
error:
    json_decref(root);
    return st;
}
