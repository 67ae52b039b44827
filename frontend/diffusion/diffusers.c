/* Imports diffusers directories: model_index.json, and a folder per part. Format: https://huggingface.co/docs/diffusers (section
 * "Model files and layouts"). */
#include "frontend/diffusion/diffusers.h"
#include "frontend/diffusion/parts.h"

#include <unistd.h>

/* Opens the part in DIR/FOLDER: its config.json, and STEM.safetensors, or STEM.fp16.safetensors if there is no
 * other. */
static dop_status
open_diffusers_part(dop_draw_reader *r, int part, const char *folder, const char *stem)
{
    dop_draw_part *p = &r->parts.of[part];
    dop_map *maps = NULL;
    uint32_t n_maps = 0;
    const char *halves = dop_arena_printf(r->arena, "%s.fp16", stem);
    p->dir = dop_arena_printf(r->arena, "%s/%s", r->parts.path, folder);
    const char *half = p->dir && halves ? dop_arena_printf(r->arena, "%s/%s.safetensors", p->dir, halves) : NULL;
    const char *full = half ? dop_arena_printf(r->arena, "%s/%s.safetensors", p->dir, stem) : NULL;
    if (!full)
        return dop_draw_no_memory(r);
    dop_status st = dop_draw_open_config(r, part, p->dir, "config.json");
    if (st != DOP_OK)
        return st;
    st = dop_st_open_stem(p->dir, access(full, F_OK) != 0 && access(half, F_OK) == 0 ? halves : stem, r->arena, r->diag,
                          &p->set, &maps, &n_maps);
    const dop_status kept = dop_weights_keep(&r->m->weights, maps, n_maps, r->diag);
    return st == DOP_OK ? kept : st;
}

/* Opens the second text encoder, if present, and reads the fields about both in model_index.json. */
static dop_status
open_text_2(dop_draw_reader *r)
{
    json_t *root = NULL;
    dop_json j;
    const char *index = dop_arena_printf(r->arena, "%s/model_index.json", r->parts.path),
               *config = dop_arena_printf(r->arena, "%s/text_encoder_2/config.json", r->parts.path);
    r->parts.tokenizer_2 = dop_arena_printf(r->arena, "%s/tokenizer_2", r->parts.path);
    if (!index || !config || !r->parts.tokenizer_2)
        return dop_draw_no_memory(r);
    if (access(config, F_OK) != 0)
        return DOP_OK;
    dop_status st = dop_json_decode_file(&(dop_json_how){.path = index}, r->diag, &root);
    if (st == DOP_OK)
        st = dop_json_root(root, index, r->diag, &j);
    if (st == DOP_OK)
        st = dop_json_bool_or(&j, "force_zeros_for_empty_prompt", true, &r->parts.blank_zero);
    json_decref(root);
    return st == DOP_OK ? open_diffusers_part(r, DOP_DRAW_TEXT_2, "text_encoder_2", "model") : st;
}

dop_status
dop_import_diffusers(const char *dir, dop_diag *diag, dop_checkpoint *m)
{
    dop_draw_reader r = {.arena = m->arena, .diag = diag, .m = m, .parts = {.path = dir}};
    static const char stem[] = "diffusion_pytorch_model";
    r.parts.tokenizer = dop_arena_printf(m->arena, "%s/tokenizer", dir);
    dop_status st = r.parts.tokenizer ? DOP_OK : dop_draw_no_memory(&r);
    if (st == DOP_OK)
        st = open_diffusers_part(&r, DOP_DRAW_TEXT, "text_encoder", "model");
    if (st == DOP_OK)
        st = open_text_2(&r);
    if (st == DOP_OK)
        st = open_diffusers_part(&r, DOP_DRAW_UNET, "unet", stem);
    if (st == DOP_OK)
        st = open_diffusers_part(&r, DOP_DRAW_VAE, "vae", stem);
    if (st == DOP_OK)
        st = dop_draw_open_config(&r, DOP_DRAW_SCHEDULER, dir, "scheduler/scheduler_config.json");
    return dop_draw_finish(&r, st == DOP_OK ? dop_draw_import(&r) : st);
}
