#include "frontend/adapter_places.h"

#include "frontend/diffusion/parts.h"
#include "frontend/facts/import.h"
#include "frontend/facts/names.h"
#include "frontend/families/families.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lister {
    const dop_checkpoint *m;
    const dop_family *family;
    const dop_family *converted; /* family of GGUF files of such models */
    bool is_gguf;                /* the model is a GGUF file */
    bool hf, gguf;               /* adapters with names of this format are supported */
    dop_arena *arena;
    dop_diag *diag;
    dop_adapter_place *places;
    uint32_t n, cap;
} lister;

/* Returns how rows of q and k heads of the given format are ordered, relative to the model's own file. */
static uint32_t
get_head_row_order(const lister *l, const dop_weight_need *need, bool gguf)
{
    const dop_attention *t = need->layer >= 0 ? dop_layer_attention(&l->m->arch.layers[need->layer]) : NULL;
    const bool of[] = {(l->family->flags & DOP_FAM_ROPE_PAIRS) != 0, l->converted->gguf_interleaved};
    if (!t || t->head_dim % 2 || (need->role != DOP_W_q && need->role != DOP_W_k) || of[gguf] == of[l->is_gguf])
        return DOP_ADAPTER_STRAIGHT;
    return of[gguf] ? DOP_ADAPTER_PAIRS_IN_FILE : DOP_ADAPTER_HALVES_IN_FILE;
}

/* True for slices whose rows are not exactly the tensor's rows. */
static bool
is_indirect_slice(dop_slice part)
{
    return part == DOP_PART_PAIRED || part == DOP_PART_FOURFOLD || part == DOP_PART_KEY || part == DOP_PART_FLAT;
}

static dop_status
append_adapter_place(lister *l, const dop_adapter_place *p, const char *tensor)
{
    if (!tensor || !dop_arena_grow(l->arena, (void **)&l->places, l->n, &l->cap, sizeof *l->places))
        return DOP_NO_MEMORY(l->diag);
    /* If several table rows name the same tensor for a weight, the first counts, as for importers. */
    for (uint32_t i = l->n; i-- > 0 && l->places[i].target == p->target;)
        if (l->places[i].first == p->first && l->places[i].expert == p->expert &&
            strcmp(l->places[i].tensor, tensor) == 0)
            return DOP_OK;
    l->places[l->n] = *p;
    l->places[l->n++].tensor = tensor;
    return DOP_OK;
}

static dop_status
append_named_place(lister *l, const dop_adapter_place *p, const char *name)
{
    static const char end[] = ".weight";
    const size_t n = strlen(name), cut = sizeof end - 1;
    if (n <= cut || strcmp(name + n - cut, end) != 0)
        return DOP_OK;
    return append_adapter_place(l, p, dop_arena_printf(l->arena, "%.*s", (int)(n - cut), name));
}

/* Adds the places of latent attention's key matrices (transposed) or value matrices, which are stacked by head. */
static dop_status
add_heads(lister *l, const dop_weight_need *need, bool keys, uint32_t target, const dop_rows *rows, const char *name)
{
    const uint32_t each = (uint32_t)(rows->each / (keys ? need->rows : need->cols));
    for (uint32_t h = 0; h < need->experts; h++) {
        const dop_adapter_place p = {.target = target,
                                     .expert = h,
                                     .n = keys ? need->cols : need->rows,
                                     .start = h * each + (uint32_t)rows->start,
                                     .total = need->experts * each,
                                     .turned = keys};
        DOP_RETURN_IF_ERROR(append_named_place(l, &p, name));
    }
    return DOP_OK;
}

/* Adds the place of a weight's rows from `first` on, for one row of a name table; one place per expert if experts are
 * separate tensors. */
static dop_status
add_table_row_place(lister *l, const dop_weight_need *need, const dop_tensor_name *n, bool gguf, uint32_t target,
                    uint32_t first, uint32_t *out_own)
{
    const dop_layer *y = need->layer >= 0 ? &l->m->arch.layers[need->layer] : NULL;
    const dop_rows rows = dop_part_rows(y, n->part, need->rows);
    const uint32_t head = y && dop_layer_attention(y) ? dop_layer_attention(y)->head_dim : 0;
    char name[256], one[272];
    *out_own = rows.own;
    if (is_indirect_slice(n->part) || rows.turned || strchr(n->source, '#') || first >= need->rows)
        return DOP_OK;
    if (gguf && need->layer >= 0)
        snprintf(name, sizeof name, "blk.%d.%s", (int)need->layer, n->source);
    else if (gguf)
        snprintf(name, sizeof name, "%s", n->source);
    else
        dop_hf_full_name("", l->family->layer_prefix, need, n->source, name, sizeof name);
    if (rows.each)
        return add_heads(l, need, n->part == DOP_PART_K_UP, target, &rows, name);
    const uint32_t n_rows = rows.own && rows.own < need->rows - first ? rows.own : need->rows - first;
    dop_adapter_place p = {.target = target,
                           .first = first,
                           .n = n_rows,
                           .start = (uint32_t)rows.start,
                           .block = rows.block,
                           .step = rows.block_step,
                           .total = (uint32_t)rows.total,
                           .order = get_head_row_order(l, need, gguf),
                           .head = head};
    const bool each = need->rank == 3 && strchr(name, '*') != NULL;
    if (need->rank == 3 && !each)
        p.expert = UINT32_MAX;
    if (!each)
        return append_named_place(l, &p, name);
    for (uint32_t e = 0; e < need->experts; e++) {
        dop_expert_name(name, e, one, sizeof one);
        p.expert = e;
        DOP_RETURN_IF_ERROR(append_named_place(l, &p, one));
    }
    return DOP_OK;
}

/* Adds the places of a weight for one name table. Consecutive rows with one role name parts of the weight, stacked by
 * rows. */
static dop_status
add_table(lister *l, const dop_weight_need *need, const dop_tensor_name *table, bool gguf, uint32_t target)
{
    uint32_t first = 0, own = 0;
    for (const dop_tensor_name *n = table; n && n->role != DOP_W_none; n++) {
        if (n->role != need->role)
            continue;
        const bool below = n != table && n[-1].role == n->role;
        first = below ? first + own : 0;
        if (!(below && own == 0))
            DOP_RETURN_IF_ERROR(add_table_row_place(l, need, n, gguf, target, first, &own));
    }
    return DOP_OK;
}

static bool
table_has_role(const dop_tensor_name *table, dop_role role)
{
    while (table && table->role != DOP_W_none && table->role != role)
        table++;
    return table && table->role == role;
}

static dop_status
add_weight_places(void *user, const dop_weight_need *need)
{
    lister *l = user;
    const dop_family *f = l->family;
    const dop_weight *w = need->rank > 1 && !need->vectors ? dop_weights_find(&l->m->weights, need->name) : NULL;
    if (!w)
        return DOP_OK;
    const uint32_t target = (uint32_t)(w - l->m->weights.items);
    /* If the family has its own names for a role, the common names belong to other families. */
    const dop_tensor_name *own = l->converted->more_gguf_names;
    if (l->hf)
        DOP_RETURN_IF_ERROR(
            add_table(l, need, table_has_role(f->more_names, need->role) ? f->more_names : f->names, false, target));
    if (l->gguf && need->layer >= 0)
        DOP_RETURN_IF_ERROR(add_table(l, need, dop_gguf_names_fused, true, target));
    if (l->gguf)
        DOP_RETURN_IF_ERROR(add_table(l, need, table_has_role(own, need->role) ? own : dop_gguf_names, true, target));
    return DOP_OK;
}

/* ---- models that draw --------------------------------------------------------------------------------------------------- */

/* Adds a place for every name of a matrix in adapter files. */
static dop_status
add_names(lister *l, const dop_adapter_place *p, const char *module)
{
    const char *names[DOP_DRAW_MOST_NAMES];
    const uint32_t n = module ? dop_draw_adapter_names(l->arena, l->m->diffusion, module, names) : 0;
    if (!module)
        DOP_RETURN_IF_ERROR(DOP_NO_MEMORY(l->diag));
    for (uint32_t i = 0; i < n; i++)
        DOP_RETURN_IF_ERROR(append_adapter_place(l, p, names[i]));
    return DOP_OK;
}

/* Adds the adapter names of a matrix of the first text encoder, which has the place `p`. With two encoders the last layer is
 * unused, and its names map to nothing. */
static dop_status
add_text_encoder_names(lister *l, const dop_adapter_place *p)
{
    const dop_arch *a = &l->m->arch;
    char last[64];
    dop_status st = add_names(l, p, dop_arena_printf(l->arena, "text_encoder.%s%s", l->family->prefix, p->tensor));
    const int n = snprintf(last, sizeof last, "%s%u.", l->family->layer_prefix, a->n_layers - 1);
    if (st != DOP_OK || !l->m->diffusion->text_2.width || strncmp(p->tensor, last, (size_t)n) != 0)
        return st;
    dop_adapter_place none = *p;
    none.target = DOP_ADAPTER_NOWHERE;
    return add_names(l, &none,
                     dop_arena_printf(l->arena, "text_encoder.%s%s%u.%s", l->family->prefix, l->family->layer_prefix,
                                      a->n_layers, p->tensor + n));
}

/* Adds the adapter names of a matrix of the U-Net or the second text encoder. In files one matrix has values and gates of a
 * feed-forward part. */
static dop_status
add_drawing(lister *l, uint32_t target)
{
    static const char unet[] = "unet.", text_2[] = "text_2.", up[] = ".up", gate[] = ".gate";
    const dop_weight *w = &l->m->weights.items[target];
    const bool second = strncmp(w->name, text_2, sizeof text_2 - 1) == 0;
    if (w->rank != 2 || (!second && strncmp(w->name, unet, sizeof unet - 1) != 0))
        return DOP_OK;
    const char *name = w->name + (second ? sizeof text_2 : sizeof unet) - 1, *part = strstr(name, ".net.0.proj.");
    const char *half = part ? part + sizeof ".net.0.proj" - 1 : "";
    const size_t len = strlen(name) - strlen(half);
    const dop_adapter_place p = {.target = target,
                                 .n = w->rows,
                                 .start = strcmp(half, gate) == 0 ? w->rows : 0,
                                 .total = strcmp(half, gate) == 0 || strcmp(half, up) == 0 ? 2 * w->rows : w->rows};
    return add_names(l, &p, dop_arena_printf(l->arena, "%s%.*s", second ? "text_encoder_2." : unet, (int)len, name));
}

/* Adds the adapter names of diffusion models, in addition to those of the text encoder. */
static dop_status
add_drawings(lister *l)
{
    const uint32_t n_text = l->n;
    for (uint32_t i = 0; i < n_text; i++) {
        const dop_adapter_place p = l->places[i]; /* the list may move when it grows */
        DOP_RETURN_IF_ERROR(add_text_encoder_names(l, &p));
    }
    for (uint32_t i = 0; i < l->m->weights.n; i++)
        DOP_RETURN_IF_ERROR(add_drawing(l, i));
    return DOP_OK;
}

dop_status
dop_adapter_places(const dop_checkpoint *m, dop_arena *arena, dop_diag *diag, dop_adapter_map *out)
{
    lister l = {.m = m, .family = dop_families, .arena = arena, .diag = diag};
    while (l.family < dop_families + dop_n_families && strcmp(l.family->name, m->arch.family) != 0)
        l.family++;
    dop_adapter_target *targets = dop_arena_alloc(arena, (m->weights.n + 1) * sizeof *targets);
    if (!targets)
        return DOP_NO_MEMORY(diag);
    if (l.family == dop_families + dop_n_families)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "the family %s is unknown", m->arch.family);
    const dop_weight *embed = dop_weights_find(&m->weights, "embed");
    l.is_gguf = embed && strncmp(embed->source, "token_embd.", 11) == 0;
    /* For some families, converters multiply matrices by facts of the model or reorder columns. Adapters with names of the other
     * format lack that, so they are not supported. */
    const bool apart = l.family->recurrent && (l.family->recurrent->multipliers || l.family->recurrent->gguf_in_turn);
    l.hf = !apart || !l.is_gguf;
    l.gguf = !apart || l.is_gguf;
    l.converted =
        l.family->gguf_as ? dop_family_by_gguf(l.family->gguf_as, strlen(l.family->gguf_as), false, false) : l.family;
    l.converted = l.converted ? l.converted : l.family;
    for (uint32_t i = 0; i < m->weights.n; i++) {
        const dop_weight *w = &m->weights.items[i];
        targets[i] = (dop_adapter_target){.name = w->name,
                                          .rows = w->rows,
                                          .cols = w->cols,
                                          .experts = dop_weight_experts(w),
                                          .embedding = strcmp(w->name, "embed") == 0};
    }
    dop_status st = DOP_OK;
    DOP_TRY(dop_arch_each_weight(&m->arch, add_weight_places, &l));
    if (m->diffusion)
        DOP_TRY(add_drawings(&l));
error:
    dop_adapter_sort_places(l.places, l.n);
    *out = (dop_adapter_map){.targets = targets,
                             .n_targets = m->weights.n,
                             .places = l.places,
                             .n_places = l.n,
                             .archs = l.converted->gguf ? l.converted->gguf : "",
                             .tied = m->arch.tied,
                             .draws = m->diffusion != NULL};
    return st;
}

/* Reorders rows of a convolution from [channel][tap], as in files, to [tap][channel], as in the weight; NULL: out of memory. */
static const float *
reorder_rows_by_tap(const dop_weight *w, const float *from, uint32_t rows, dop_arena *arena)
{
    const uint32_t channels = w->cols / w->taps;
    float *made = dop_arena_alloc(arena, (size_t)rows * w->cols * sizeof *made);
    for (size_t r = 0; made && r < rows; r++)
        for (uint32_t c = 0; c < w->cols; c++)
            made[r * w->cols + c % w->taps * channels + c / w->taps] = from[r * w->cols + c];
    return made;
}

/* Adds one adapter change to its weight. */
static dop_status
apply_part_change(dop_checkpoint *m, const dop_adapter_part *part, double scale, dop_diag *diag)
{
    dop_weight *w = &m->weights.items[part->target];
    dop_weight_change *list = dop_arena_alloc(m->arena, (w->n_changes + 1) * sizeof *list);
    const float *a = part->a, *whole = part->whole;
    if (w->taps && a)
        a = reorder_rows_by_tap(w, a, part->rank, m->arena);
    if (w->taps && whole)
        whole = reorder_rows_by_tap(w, whole, part->n, m->arena);
    if (!list || !a != !part->a || !whole != !part->whole)
        return DOP_NO_MEMORY(diag);
    if (w->n_changes)
        memcpy(list, w->changes, w->n_changes * sizeof *list);
    list[w->n_changes++] = (dop_weight_change){.expert = part->expert,
                                               .first = part->first,
                                               .n = part->n,
                                               .rank = part->rank,
                                               .scale = (float)(scale * part->scale),
                                               .a = a,
                                               .b = part->b,
                                               .lengths = part->lengths,
                                               .whole = whole};
    w->changes = list;
    return DOP_OK;
}

dop_status
dop_checkpoint_merge(dop_checkpoint *m, const char *path, double scale, dop_diag *diag)
{
    dop_adapter_map map;
    dop_adapter adapter;
    DOP_RETURN_IF_ERROR(dop_adapter_places(m, m->arena, diag, &map));
    DOP_RETURN_IF_ERROR(dop_adapter_read(path, &map, m->arena, diag, &adapter));
    for (uint32_t i = 0; i < adapter.n_parts; i++)
        DOP_RETURN_IF_ERROR(apply_part_change(m, &adapter.parts[i], scale, diag));
    return DOP_OK;
}
