#include "base/encoding/utf8.h"
#include "base/foreign.h"
#include "base/os/system.h"
#include "frontend/diffusion/diffusers.h"
#include "frontend/diffusion/single_file.h"
#include "frontend/facts/arch.h"
#include "frontend/facts/import.h"
#include "frontend/facts/leftovers.h"
#include "frontend/facts/names.h"
#include "frontend/families/families.h"
#include "frontend/gguf/import.h"
#include "frontend/gguf/mmproj.h"
#include "frontend/hf/ggml.h"
#include "frontend/hf/import.h"
#include "frontend/not_a_model.h"
#include "frontend/rdrr/import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NAME = 96 }; /* maximum bytes of a model's name */

/* Counts parameters by the required shapes, so that a repacked or quantized file gives the same number. */
static dop_status
count_parameters(void *user, const dop_weight_need *need)
{
    uint64_t *n = user;
    *n += (uint64_t)need->rows * (need->rank > 1 ? need->cols : 1) * (need->rank == 3 ? need->experts : 1);
    return DOP_OK;
}

static bool
is_printable_name(const char *name)
{
    const size_t n = strlen(name);
    size_t i = 0;
    while (i < n && (unsigned char)name[i] >= 0x20 && name[i] != 0x7f)
        i++;
    return i == n && n > 0 && n <= MAX_NAME && dop_utf8_check(name, n) == n;
}

/* Names a model without stated name by its family and size: "gemma3-5M". The path is never used, because plans do not depend on
 * it. */
static dop_status
name_model(dop_checkpoint *m)
{
    if (m->name && is_printable_name(m->name))
        return DOP_OK;
    uint64_t n = 0;
    dop_status st = m->diffusion ? DOP_OK : dop_arch_each_weight(&m->arch, count_parameters, &n);
    for (uint32_t i = 0; m->diffusion && i < m->weights.n; i++)
        n += (uint64_t)m->weights.items[i].rows * m->weights.items[i].cols;
    if (st != DOP_OK)
        return st;
    static const struct {
        double unit;
        char letter;
    } units[] = {{1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
    size_t u = 0;
    while (u < 2 && (double)n < 0.9995 * units[u].unit)
        u++;
    const double size = (double)n / units[u].unit;
    m->name = dop_arena_printf(m->arena, "%s-%.*f%c", m->diffusion ? "diffusion" : m->arch.family,
                               size < 10 && units[u].letter != 'K', size, units[u].letter);
    return m->name ? DOP_OK : DOP_E_NOMEM;
}

/* Sets dop_weight.gguf of a weight, because importance matrices use GGUF names for models of any format. */
static dop_status
name_tensor(void *user, const dop_weight_need *need)
{
    dop_checkpoint *m = user;
    const dop_family *f = dop_families;
    while (f < dop_families + dop_n_families && strcmp(f->name, m->arch.family) != 0)
        f++;
    dop_weight *w = (dop_weight *)(uintptr_t)dop_weights_find(&m->weights, need->name);
    f = f < dop_families + dop_n_families ? f : NULL;
    if (!w || need->rank < 2)
        return DOP_OK;
    const dop_status st = dop_gguf_full_name(f, need, false, m->arena, &w->gguf);
    return st == DOP_OK ? dop_gguf_full_name(f, need, true, m->arena, &w->gguf_fused) : st;
}

static dop_status
load_directory(const char *path, dop_diag *diag, dop_checkpoint *m)
{
    char *gguf = NULL;
    /* A converted model's folder may have a config.json but no safetensors. */
    const bool safetensors =
        dop_has_file(path, "model.safetensors") || dop_has_file(path, "model.safetensors.index.json");
    if (dop_has_file(path, "model_index.json") && dop_has_file(path, "unet/config.json"))
        return dop_import_diffusers(path, diag, m);
    if (!safetensors && dop_has_file(path, "manifest.json"))
        return dop_import_rdrr(path, diag, m);
    dop_status st = safetensors ? DOP_OK : dop_look_around(path, m->arena, diag, &gguf);
    if (st != DOP_OK)
        return st;
    return gguf ? dop_import_gguf(gguf, diag, m) : dop_import_hf(path, diag, m);
}

/* Loads a file: GGUF, GGML of a speech model, or safetensors of a diffusion model, recognized by its first bytes. */
static dop_status
load_file(const char *path, dop_diag *diag, dop_checkpoint *m)
{
    dop_map map;
    dop_status st = dop_map_open(path, diag, &map);
    const dop_file_kind kind = dop_file_kind_of(map.data, map.size);
    bool single = false;
    dop_map_close(&map);
    if (st == DOP_OK && kind == DOP_FILE_SAFETENSORS)
        st = dop_import_single_file(path, diag, m, &single);
    if (st != DOP_OK || single)
        return st;
    return kind == DOP_FILE_GGUF   ? dop_import_gguf(path, diag, m)
           : kind == DOP_FILE_GGML ? dop_import_ggml(path, diag, m)
                                   : dop_not_a_model(path, kind, diag);
}

dop_status
dop_checkpoint_load(const char *path, dop_arena *arena, dop_diag *diag, dop_checkpoint *out_model)
{
    struct stat sb;
    *out_model = (dop_checkpoint){.arena = arena, .temperature = -1, .top_p = 1};
    if (stat(path, &sb) != 0)
        return dop_refuse_absent(path, errno, diag);
    dop_status st = S_ISDIR(sb.st_mode) ? load_directory(path, diag, out_model) : load_file(path, diag, out_model);
    if (st == DOP_OK && ((st = dop_arch_each_weight(&out_model->arch, name_tensor, out_model)) == DOP_E_NOMEM ||
                         (st = name_model(out_model)) == DOP_E_NOMEM))
        DOP_NO_MEMORY(diag);
    if (st != DOP_OK)
        dop_checkpoint_finish(out_model);
    return st;
}

dop_status
dop_checkpoint_add_vision(dop_checkpoint *m, const char *mmproj, dop_diag *diag)
{
    char *beside = NULL, note[sizeof diag->message + 192];
    dop_diag why = {0};
    uint32_t n = 0;
    if (mmproj && (m->vision || !m->tokenizer_gguf_path))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, mmproj, "`mmproj` is for a GGUF model with a vocabulary");
    if (mmproj)
        return dop_import_mmproj(mmproj, diag, m);
    if (m->vision || !m->tokenizer_gguf_path)
        return DOP_OK;
    dop_status st = dop_find_mmproj(m->tokenizer_gguf_path, m->arena, diag, &beside, &n);
    if (st != DOP_OK || n == 0)
        return st;
    const char *name = dop_path_name(beside);
    if (n > 1) {
        snprintf(note, sizeof note, "%u vision parts (mmproj) are beside the model: name one with `mmproj`", n);
        return dop_checkpoint_note(m, note, diag);
    }
    st = dop_import_mmproj(beside, &why, m);
    if (st == DOP_E_INPUT)
        snprintf(note, sizeof note, "the vision part beside the model, %.100s, is left out: %s", name, why.message);
    else if (st == DOP_OK)
        snprintf(note, sizeof note, "the vision part is %.100s, which is beside the model", name);
    else
        return DOP_FAIL_IN(diag, st, beside, "%s", why.message);
    return dop_checkpoint_note(m, note, diag);
}

/* Fails if an EAGLE-3 drafter's inputs or vocabulary do not match the model. */
static dop_status
check_eagle_fits(const dop_arch *a, const dop_arch *d, const char *path, dop_diag *diag)
{
    const dop_eagle *e = &d->layers[0].eagle;
    if (!e->head && e->vocab != a->vocab)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "this drafter has no output matrix for its %u tokens", e->vocab);
    if (!e->listed && e->vocab != a->vocab)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "this drafter does not say which of the model's tokens its %u are (tensor d2t)", e->vocab);
    if (e->defaults && a->n_layers < 5)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "this drafter does not say which layers it reads, and the model has only %u", a->n_layers);
    for (uint32_t i = 0; i < e->n && !e->defaults; i++)
        if (e->from[i] > a->n_layers)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                               "this drafter is of another model: it reads layer %u, and the model has %u", e->from[i],
                               a->n_layers);
    return DOP_OK;
}

/* Fails if the model does not have the keys and values that a drafter reads. */
static dop_status
check_reader_fits(const dop_arch *a, const dop_arch *d, const char *path, dop_diag *diag)
{
    for (uint32_t i = 0; i < d->drafts; i++) {
        const dop_attention *t = dop_layer_attention(&d->layers[i]);
        uint32_t from = 0;
        const char *other = dop_arch_find_read(a, t, &from);
        if (other)
            return DOP_FAIL_IN(
                diag, DOP_E_INPUT, path,
                "this drafter is of another model: its layer %u reads keys of %u heads of %u values in a "
                "window of %u, and the model has %s",
                i, t->n_kv_heads, t->head_dim, t->window, other);
    }
    return DOP_OK;
}

/* Fails if a drafter does not match the model. */
static dop_status
check_drafter_fits(const dop_arch *a, const dop_arch *d, const char *path, dop_diag *diag)
{
    if (!dop_arch_is_drafter(d))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "this is a model (%s), not a drafter (EAGLE-3, Gemma 4's assistant)", d->family);
    if (a->encoder.used || a->altup.n || a->cross.rows || a->learned_positions || a->embed_width ||
        a->embed_norm.kind != DOP_NORM_NONE)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "models of %s have no drafter", a->family);
    if (d->hidden != a->hidden)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "this drafter is of another model: its hidden size is %u, the model's %u", d->hidden,
                           a->hidden);
    if (d->vocab != a->vocab)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "this drafter is of another model: it knows %u tokens, the model %u", d->vocab, a->vocab);
    if (a->n_ropes + d->n_ropes > DOP_MAX_ROPES)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "too many rotary embeddings");
    return dop_arch_drafts_by_reading(d) ? check_reader_fits(a, d, path, diag) : check_eagle_fits(a, d, path, diag);
}

/* True if the drafter's matrix equals the model's, value by value. */
static bool
has_same(const dop_checkpoint *m, const char *name, const dop_weight *w)
{
    const dop_weight *own = dop_weights_find(&m->weights, name);
    if (!own || own->type != w->type || own->rows != w->rows || own->cols != w->cols || own->parts || w->parts ||
        own->below || w->below || own->block_rows || w->block_rows || own->col_stride || w->col_stride ||
        own->row_stride != w->row_stride)
        return false;
    return memcmp(own->data, w->data, own->rows * own->row_stride) == 0;
}

/* Moves a drafter's weights to a model, as layers from y on. Skips matrices that the model already has. */
static dop_status
move_weights(dop_checkpoint *m, dop_checkpoint *d, dop_layer *y, dop_diag *diag)
{
    dop_weights *w = &m->weights;
    dop_eagle *e = &y->eagle;
    uint32_t n = 0;
    char own[16];
    const int length = snprintf(own, sizeof own, "L%u.", m->arch.n_layers);
    for (uint32_t i = 0; i < w->n; i++)
        /* the weights of the model's own drafting layer are removed */
        if (strncmp(w->items[i].name, own, (size_t)length) != 0)
            w->items[n++] = w->items[i];
    w->n = n;
    DOP_RETURN_IF_ERROR(dop_weights_keep(w, d->weights.maps, d->weights.n_maps, diag));
    d->weights.maps = NULL;
    d->weights.n_maps = 0;
    for (uint32_t i = 0; i < d->weights.n; i++) {
        dop_weight one = d->weights.items[i];
        char *dot = NULL;
        const unsigned long layer = strtoul(one.name + 1, &dot, 10); /* "L0.q" */
        const char *role = dot + 1;
        if (strcmp(role, dop_role_name(DOP_W_draft_embed)) == 0 && has_same(m, "embed", &one)) {
            e->embeds = false;
            continue;
        }
        one.gguf = one.gguf_fused = NULL; /* GGUF names of the model's first layer do not apply to the drafter */
        one.name = dop_arena_printf(m->arena, "L%lu.%s", m->arch.n_layers + layer, role);
        DOP_RETURN_IF_ERROR(one.name ? dop_weights_add(w, &one, m->arena, diag) : DOP_NO_MEMORY(diag));
    }
    return dop_weights_seal(w, diag);
}

/* Makes a matching drafter the model's drafting layers. */
static dop_status
adopt_drafter(dop_checkpoint *m, dop_checkpoint *d, dop_diag *diag)
{
    dop_arch *a = &m->arch;
    const uint32_t n = a->n_layers, defaults[] = {2, n / 2, n - 3};
    dop_layer *all = dop_arena_alloc(m->arena, (n + (size_t)d->arch.drafts) * sizeof *all), *y = all ? &all[n] : NULL;
    if (!all)
        return DOP_NO_MEMORY(diag);
    memcpy(all, a->layers, n * sizeof *all);
    memcpy(y, d->arch.layers, d->arch.drafts * sizeof *y);
    for (uint32_t i = 0; i < d->arch.n_ropes; i++)
        a->ropes[a->n_ropes + i] = d->arch.ropes[i];
    for (uint32_t i = 0; i < d->arch.drafts; i++) {
        dop_attention *t = &y[i].mixers[0].attn;
        uint32_t from = 0;
        t->rope = t->rope >= 0 ? t->rope + (int32_t)a->n_ropes : -1;
        if (t->shares && !dop_arch_find_read(a, t, &from))
            t->shares = from + 1;
    }
    a->n_ropes += d->arch.n_ropes;
    if (y->eagle.defaults)
        memcpy(y->eagle.from, defaults, sizeof defaults);
    a->layers = all;
    dop_status st = move_weights(m, d, y, diag);
    a->drafts = d->arch.drafts;
    a->drafts_normed = d->arch.drafts_normed;
    return st;
}

dop_status
dop_checkpoint_add_drafter(dop_checkpoint *m, const char *path, dop_diag *diag)
{
    dop_checkpoint d;
    const bool own = m->arch.drafts;
    dop_status st = dop_checkpoint_load(path, m->arena, diag, &d);
    if (st != DOP_OK)
        return st;
    st = check_drafter_fits(&m->arch, &d.arch, path, diag);
    if (st == DOP_OK)
        st = adopt_drafter(m, &d, diag);
    if (st == DOP_OK && d.note)
        st = dop_checkpoint_note(m, d.note, diag);
    if (st == DOP_OK && own)
        st = dop_checkpoint_note(m, "the drafter takes the place of the model's own layer that drafts", diag);
    dop_checkpoint_finish(&d);
    return st;
}

void
dop_checkpoint_finish(dop_checkpoint *m)
{
    for (uint32_t i = 0; i < m->weights.n_maps; i++)
        dop_map_close(&m->weights.maps[i]);
    free(m->weights.maps);
    memset(m, 0, sizeof *m);
}
