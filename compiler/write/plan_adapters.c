/* Writes where the matrices of run-time adapters are placed in the plan's weights. */
#include "compiler/write/plan_writer.h"
#include "frontend/adapter_places.h"

#include <stdio.h>
#include <string.h>

/* Returns the row of DOP_SEC_TENSORS (equal to the packed item's index) for this origin; UINT32_MAX if nothing was
 * packed for it. */
static uint32_t
find_packed_tensor(const dop_plan_writer *w, dop_origin_kind kind, uint32_t index)
{
    const dop_packed *x = dop_pack_find(w->sections.pack, &(dop_origin){.kind = kind, .index = index});
    return x ? (uint32_t)(x - w->sections.pack->items) : UINT32_MAX;
}

/* True if the plan has a place for everything that an adapter's tensor changes. A partial change would be another
 * adapter. */
static bool
has_adapter_room(const dop_plan_writer *w, const dop_adapter_map *map, const char *tensor)
{
    uint32_t least = 0, most = map->n_places; /* binary search for the tensor's first place */
    while (least < most) {
        const uint32_t half = least + (most - least) / 2;
        if (strcmp(map->places[half].tensor, tensor) < 0)
            least = half + 1;
        else
            most = half;
    }
    for (; least < map->n_places && strcmp(map->places[least].tensor, tensor) == 0; least++)
        if (find_packed_tensor(w, DOP_FROM_LORA_B, map->places[least].target) == UINT32_MAX)
            return false;
    return true;
}

void
dop_plan_writer_adapters(dop_plan_writer *w, dop_plan_model *model)
{
    const dop_compilation *c = w->targets[0].c;
    dop_arena arena;
    dop_adapter_map map = {0};
    if (c->options.adapters == 0)
        return;
    dop_arena_init(&arena);
    const dop_status st = dop_adapter_places(&c->model, &arena, w->diag, &map);
    w->status = w->status == DOP_OK ? st : w->status;
    model->adapters = c->options.adapters;
    model->adapter_rank = c->options.rank;
    model->adapter_uses = dop_compilation_uses(c);
    model->adapter_factors = find_packed_tensor(w, DOP_FROM_LORA_FACTORS, 0);
    model->adapter_archs = dop_plan_writer_string(w, map.archs ? map.archs : "");
    model->tied = map.tied;
    for (uint32_t i = 0; i < map.n_places; i++) {
        const dop_adapter_place *p = &map.places[i];
        const uint32_t a = find_packed_tensor(w, DOP_FROM_LORA_A, p->target),
                       b = find_packed_tensor(w, DOP_FROM_LORA_B, p->target);
        if (!has_adapter_room(w, &map, p->tensor))
            continue;
        const dop_plan_adapter_place row = {.tensor = dop_plan_writer_string(w, p->tensor),
                                            .a = a,
                                            .b = b,
                                            .first = p->first,
                                            .n = p->n,
                                            .start = p->start,
                                            .block = p->block,
                                            .step = p->step,
                                            .total = p->total,
                                            .order = p->order,
                                            .head = p->head};
        dop_buf_append(&w->sections.sec[DOP_SEC_PLACES], &row, sizeof row);
    }
    for (uint32_t i = 0; i < c->model.arch.n_layers; i++) {
        char name[32];
        const uint32_t at = find_packed_tensor(w, DOP_FROM_CONTROL, i);
        snprintf(name, sizeof name, "direction.%u", i);
        const dop_plan_adapter_place row = {.tensor = dop_plan_writer_string(w, name),
                                            .a = at,
                                            .b = at,
                                            .n = c->model.arch.hidden,
                                            .start = i,
                                            .total = c->model.arch.n_layers};
        if (at != UINT32_MAX)
            dop_buf_append(&w->sections.sec[DOP_SEC_PLACES], &row, sizeof row);
    }
    dop_arena_finish(&arena);
}
