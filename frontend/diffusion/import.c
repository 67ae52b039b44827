/* Imports weights and tokenizer of a latent diffusion model whose parts are open. */
#include "frontend/hf/import.h"
#include "frontend/diffusion/parts.h"
#include "frontend/hf/tensor.h"
#include "text/import/tokenizer_hf.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

dop_status
dop_draw_no_memory(const dop_draw_reader *r)
{
    return DOP_NO_MEMORY(r->diag);
}

dop_status
dop_draw_open_config(dop_draw_reader *r, int part, const char *dir, const char *file)
{
    dop_draw_part *p = &r->parts.of[part];
    p->path = dop_arena_printf(r->arena, "%s/%s", dir, file);
    return p->path ? dop_json_decode_file(&(dop_json_how){.path = p->path}, r->diag, &p->config)
                   : dop_draw_no_memory(r);
}

static bool
ends_with_suffix(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

/* Returns the canonical name of a tensor: PREFIX and the published name, without ".weight" and with _bias for ".bias".
 * First-release autoencoders have other attention names. */
static const char *
make_canonical_name(const dop_draw_reader *r, const char *prefix, const char *name, const char *part)
{
    static const struct {
        const char *was, *is;
    } renamed[] = {{".query", ".to_q"}, {".key", ".to_k"}, {".value", ".to_v"}, {".proj_attn", ".to_out.0"}};
    const bool bias = ends_with_suffix(name, ".bias");
    int n = (int)strlen(name) - (bias ? 5 : ends_with_suffix(name, ".weight") ? 7 : 0);
    const char *tail = "";
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        const int k = (int)strlen(renamed[i].was);
        if (n > k && strncmp(name + n - k, renamed[i].was, (size_t)k) == 0) {
            n -= k;
            tail = renamed[i].is;
            break;
        }
    }
    return dop_arena_printf(r->arena, "%s%.*s%s%s%s", prefix, n, name, tail, part, bias ? "_bias" : "");
}

/* Adds rows first .. first + n - 1 of a tensor. A convolution's tensor is [outputs, channels, height, width]; the weight has rows
 * of [tap][channel]. */
static dop_status
add_weight(const dop_draw_reader *r, const char *prefix, const dop_st_tensor *t, const char *part, uint64_t first,
           uint64_t n)
{
    const dop_type_info *type = dop_type_of(dop_hf_type(t));
    uint64_t cols = 1;
    for (uint32_t i = 1; i < t->rank; i++)
        if (!dop_mul_u64(cols, t->shape[i], &cols) || cols > UINT32_MAX)
            return dop_st_refuse(t, "is too large", r->diag);
    const uint64_t taps = t->rank == 4 ? t->shape[2] * t->shape[3] : 1;
    if (cols == 0 || n == 0 || n > UINT32_MAX)
        return dop_st_refuse(t, "is empty or too large", r->diag);
    dop_weight w = {.name = make_canonical_name(r, prefix, t->name, part),
                    .type = dop_hf_type(t),
                    .rank = t->rank > 1 ? 2 : 1,
                    .rows = t->rank > 1 ? (uint32_t)n : 1,
                    .cols = (uint32_t)(t->rank > 1 ? cols : n),
                    .data = t->data + first * cols * type->bytes,
                    .row_stride = (t->rank > 1 ? cols : n) * type->bytes,
                    .col_stride = taps > 1 ? type->bytes : 0,
                    .taps = taps > 1 ? (uint32_t)taps : 0,
                    .source = t->name};
    return w.name ? dop_weights_add(&r->m->weights, &w, r->arena, r->diag) : dop_draw_no_memory(r);
}

static dop_status
add_draw_tensor(const dop_draw_reader *r, const char *prefix, const dop_st_tensor *t)
{
    if (t->rank == 0 || t->rank == 3 || t->rank > 4 || !dop_hf_is_float(t))
        return dop_st_refuse(t, "is no matrix, vector or convolution of floats", r->diag);
    if (!strstr(t->name, ".net.0.proj."))
        return add_weight(r, prefix, t, "", 0, t->shape[0]);
    const uint64_t half = t->shape[0] / 2; /* values, then gates */
    DOP_RETURN_IF_ERROR(add_weight(r, prefix, t, ".up", 0, half));
    return add_weight(r, prefix, t, ".gate", half, t->shape[0] - half);
}

static dop_status
add_tensors(const dop_draw_reader *r, int part, const char *prefix)
{
    const dop_st_set *set = &r->parts.of[part].set;
    for (uint32_t i = 0; i < set->n; i++)
        DOP_RETURN_IF_ERROR(add_draw_tensor(r, prefix, &set->tensors[i]));
    return DOP_OK;
}

/* ---- tokenizer ---------------------------------------------------------------------------------------------------------- */

/* Reads the padding token's text from DIR/tokenizer_config.json, otherwise from special_tokens_map.json; NULL: not
 * stated. */
static dop_status
read_pad(const dop_draw_reader *r, const char *dir, const char **out_pad)
{
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
    dop_status st = DOP_OK;
    *out_pad = NULL;
    for (size_t i = 0; i < 2 && st == DOP_OK && !*out_pad; i++) {
        json_t *root = NULL;
        const char *path = dop_arena_printf(r->arena, "%s/%s", dir, files[i]);
        if (!path)
            return dop_draw_no_memory(r);
        if (access(path, F_OK) == 0)
            st = dop_json_decode_file(&(dop_json_how){.path = path}, r->diag, &root);
        const json_t *v = json_object_get(root, "pad_token");
        const char *text = json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
        if (text && !(*out_pad = dop_arena_strdup(r->arena, text)))
            st = dop_draw_no_memory(r);
        json_decref(root);
    }
    return st;
}

/* Finds the padding token id with the tokenizer of `dir`. pad: its text; NULL: stated by that folder's files, otherwise the end
 * of text. */
static dop_status
find_pad(const dop_draw_reader *r, const char *dir, const char *pad, uint32_t *out_id)
{
    dop_tokenizer *tok = NULL;
    dop_status st = pad ? DOP_OK : read_pad(r, dir, &pad);
    if (st == DOP_OK)
        st = dop_tokenizer_from_hf_dir(dir, r->diag, &tok);
    if (st != DOP_OK)
        return st;
    pad = pad ? pad : "<|endoftext|>";
    *out_id = dop_tokenizer_find(tok, pad, strlen(pad));
    if (*out_id == DOP_NO_TOKEN)
        st = DOP_FAIL_IN(r->diag, DOP_E_INPUT, dir, "the tokenizer has no token %s, which fills texts up", pad);
    dop_tokenizer_destroy(tok);
    return st;
}

static dop_status
find_text_tokenizer(dop_draw_reader *r)
{
    dop_buf path = {0};
    if (dop_tokenizer_find_file(r->parts.tokenizer, &path))
        r->m->tokenizer_json_path = dop_arena_strdup(r->arena, path.data);
    const bool failed = path.failed;
    dop_buf_finish(&path);
    if (failed)
        return dop_draw_no_memory(r);
    return r->m->tokenizer_json_path
               ? DOP_OK
               : DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->parts.tokenizer, "there is no tokenizer here");
}

/* ---- all parts ---------------------------------------------------------------------------------------------------------- */

/* With a second encoder, the first encoder's result is the rows before its last layer, without a final norm. */
static dop_status
leave_last_layer(const dop_draw_reader *r, dop_draw_part *p)
{
    const json_int_t n = json_integer_value(json_object_get(p->config, "num_hidden_layers")) - 1;
    char layer[64];
    uint32_t kept = 0;
    if (n < 1 || n >= DOP_MAX_LAYERS)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, p->path,
                           "num_hidden_layers: the first of two text encoders has 2 or more");
    if (json_object_set_new(p->config, "num_hidden_layers", json_integer(n)) ||
        json_object_set_new(p->config, "_remove_final_layer_norm", json_true()))
        return dop_draw_no_memory(r);
    snprintf(layer, sizeof layer, "encoder.layers.%d.", (int)n);
    for (uint32_t i = 0; i < p->set.n; i++)
        if (!strstr(p->set.tensors[i].name, layer) && !strstr(p->set.tensors[i].name, "final_layer_norm."))
            p->set.tensors[kept++] = p->set.tensors[i];
    p->set.n = kept;
    return DOP_OK;
}

static dop_status
read_text_encoder(dop_draw_reader *r)
{
    dop_draw_part *p = &r->parts.of[DOP_DRAW_TEXT];
    if (r->parts.of[DOP_DRAW_TEXT_2].config)
        DOP_RETURN_IF_ERROR(leave_last_layer(r, p));
    DOP_RETURN_IF_ERROR(dop_import_hf_parts(p->dir, p->path, p->config, &p->set, r->diag, r->m));
    DOP_RETURN_IF_ERROR(find_text_tokenizer(r));
    return find_pad(r, r->parts.tokenizer, r->parts.pad, &r->d->pad);
}

static dop_status
read_draw_facts(dop_draw_reader *r)
{
    static dop_status (*const reads[])(dop_draw_reader * r,
                                       const dop_json *j) = {[DOP_DRAW_TEXT_2] = dop_draw_read_text_2,
                                                             [DOP_DRAW_UNET] = dop_draw_read_unet,
                                                             [DOP_DRAW_VAE] = dop_draw_read_vae,
                                                             [DOP_DRAW_SCHEDULER] = dop_draw_read_schedule};
    for (int i = 0; i < DOP_DRAW_N_PARTS; i++) {
        const dop_draw_part *p = &r->parts.of[i];
        dop_json j;
        if (!reads[i] || !p->config)
            continue;
        DOP_RETURN_IF_ERROR(dop_json_root(p->config, p->path, r->diag, &j));
        DOP_RETURN_IF_ERROR(reads[i](r, &j));
    }
    return DOP_OK;
}

dop_status
dop_draw_import(dop_draw_reader *r)
{
    dop_checkpoint *m = r->m;
    r->d = dop_arena_alloc(r->arena, sizeof *r->d);
    if (!r->d)
        DOP_RETURN_IF_ERROR(dop_draw_no_memory(r));
    *r->d = (dop_diffusion){.encodes = dop_st_find(&r->parts.of[DOP_DRAW_VAE].set, "encoder.conv_in.weight"),
                            .blank_zero = r->parts.blank_zero};
    DOP_RETURN_IF_ERROR(read_text_encoder(r));
    DOP_RETURN_IF_ERROR(read_draw_facts(r));
    const uint32_t given = r->d ? m->arch.hidden + r->d->text_2.width : 0;
    if (r->d->context != given)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->parts.path,
                           "the U-Net reads rows of %u values, and the text encoder gives %u", r->d->context, given);
    if (r->d->text_2.width)
        DOP_RETURN_IF_ERROR(find_pad(r, r->parts.tokenizer_2, r->parts.pad_2, &r->d->text_2.pad));
    DOP_RETURN_IF_ERROR(add_tensors(r, DOP_DRAW_TEXT_2, "text_2."));
    DOP_RETURN_IF_ERROR(add_tensors(r, DOP_DRAW_UNET, "unet."));
    DOP_RETURN_IF_ERROR(add_tensors(r, DOP_DRAW_VAE, "vae."));
    DOP_RETURN_IF_ERROR(dop_weights_seal(&m->weights, r->diag));
    m->diffusion = r->d;
    return DOP_OK;
}

dop_status
dop_draw_finish(dop_draw_reader *r, dop_status st)
{
    for (int i = 0; i < DOP_DRAW_N_PARTS; i++)
        json_decref(r->parts.of[i].config);
    return st;
}
