/* Writes a plan's description of its model: facts, card, part, programs, tokenizer and chat template. */
#include "base/format/gguf.h"
#include "base/os/system.h"
#include "compiler/write/plan_writer.h"
#include "frontend/facts/diffusion.h"
#include "frontend/facts/vision.h"
#include "text/import/prompt_files.h"
#include "text/import/tokenizer_ggml.h"
#include "text/import/tokenizer_gguf.h"
#include "text/import/tokenizer_hf.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Returns, for --trace-kernels, the reason why each kernel was chosen for the first region that uses it. NULL: out of
 * memory. */
static json_t *
choices_json(const dop_plan_writer *w)
{
    json_t *choices = json_object();
    for (uint32_t k = 0; k < w->n_targets; k++) {
        const dop_compilation *c = w->targets[k].c;
        for (uint32_t i = 0; i < c->n_schedules; i++)
            for (dop_region_id r = 1; r < c->schedules[i].g.n_regions; r++) {
                const dop_built_region *b = &c->schedules[i].regions[r];
                char name[160];
                dop_plan_writer_kernel_name(&w->targets[k], b->kernel, name, sizeof name);
                if (!b->choice.why[0] || json_object_get(choices, name))
                    continue;
                if (json_object_set_new(choices, name, json_string(b->choice.why)) != 0) {
                    json_decref(choices);
                    return NULL;
                }
            }
    }
    return choices;
}

/* Appends the storage types of the matrices as "q4_k, q6_k", the type with most bytes first. */
static void
weight_types(const dop_pack *p, dop_buf *out)
{
    uint64_t bytes[DOP_TYPE_COUNT] = {0};
    for (uint32_t i = 0; i < p->n; i++)
        if (p->items[i].source && p->items[i].source->rank > 1)
            bytes[p->items[i].type] += p->items[i].size;
    for (;;) {
        uint32_t most = 0;
        for (uint32_t t = 1; t < DOP_TYPE_COUNT; t++)
            most = bytes[t] > bytes[most] ? t : most;
        if (bytes[most] == 0)
            return;
        dop_buf_printf(out, "%s%s", out->size ? ", " : "", dop_type_of((dop_type)most)->name);
        bytes[most] = 0;
    }
}

/* Returns facts about each target's schedules for the card. NULL: out of memory. */
static json_t *
targets_json(const dop_plan_writer *w)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < w->n_targets; i++) {
        const dop_compilation *c = w->targets[i].c;
        const dop_schedule *d = &c->schedules[0];
        const char *k = dop_type_of(c->options.kv_type)->name, *v = dop_type_of(c->options.v_type)->name;
        json_t *row = json_pack("{s:s, s:o, s:s, s:i, s:i, s:i}", "name", c->target->name, "kvType",
                                k == v ? json_string(k) : json_sprintf("k=%s,v=%s", k, v), "activationType",
                                dop_type_of(c->options.act_type)->name, "decodeDispatches", (int)(d->g.n_regions - 1),
                                "decodeOps", (int)d->n_ops, "decodeBarriers", (int)d->placement.n_barriers);
        if (json_array_append_new(list, row) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int
append_json(const char *text, size_t size, void *user)
{
    dop_buf *out = user;
    dop_buf_append(out, text, size);
    return out->failed ? -1 : 0;
}

/* Copies the folder of a model's tokenizer to `out`. */
static void
find_tokenizer_folder(const dop_checkpoint *m, char *out, size_t size)
{
    snprintf(out, size, "%s", m->tokenizer_json_path);
    const char *slash = dop_path_slash(out);
    if (slash)
        out[slash - out] = 0;
    else
        snprintf(out, size, ".");
}

static dop_status
add_prompts(dop_plan_writer *w, const dop_checkpoint *m, json_t *card)
{
    char dir[1024];
    json_t *prompts = NULL;
    if (m->pair_prompt && json_object_set_new(card, "pairPrompt", json_string(m->pair_prompt)))
        dop_plan_writer_no_memory(w);
    if (!m->tokenizer_json_path)
        return DOP_OK;
    find_tokenizer_folder(m, dir, sizeof dir);
    dop_status st = dop_prompts_of_dir(dir, w->diag, &prompts);
    if (prompts && json_object_update(card, prompts))
        dop_plan_writer_no_memory(w);
    json_decref(prompts);
    return st;
}

uint32_t
dop_compilation_rewind(const dop_compilation *c)
{
    uint32_t least = DOP_PLAN_NO_RINGS;
    const dop_graph *g = &c->schedules[0].g;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        if (dop_op_of(dop_node_at(g, id)->op)->root != DOP_ROOT_attention)
            continue;
        const dop_reach r = dop_attention_reach(g, id);
        uint32_t sees = r.chunk && (!r.window || r.chunk < r.window) ? r.chunk : r.window;
        if (r.ring && r.mask != DOP_MASK_cache && r.ring - sees < least)
            least = r.ring - sees;
    }
    return least;
}

/* Returns dop_plan_model.rewind: the minimum over all targets. */
static uint32_t
find_least_rewind(const dop_plan_writer *w)
{
    uint32_t least = DOP_PLAN_NO_RINGS;
    for (uint32_t i = 0; i < w->n_targets; i++) {
        const dop_compilation *c = w->targets[i].c;
        const uint32_t own = c->cut ? c->cut->rewind : dop_compilation_rewind(c);
        least = own < least ? own : least;
    }
    return least;
}

void
dop_plan_writer_part(dop_plan_writer *w)
{
    const dop_cut *cut = w->targets[0].c->cut;
    if (!cut)
        return;
    dop_plan_part row = {.number = cut->number, /* dop_plan_set_write() sets the digest */
                         .n_parts = cut->n_parts,
                         .first_layer = cut->first_layer,
                         .end_layer = cut->end_layer,
                         .flags = cut->flags};
    dop_buf_append(&w->sections.sec[DOP_SEC_PART], &row, sizeof row);
}

void
dop_plan_writer_model(dop_plan_writer *w)
{
    const dop_compilation *c = w->targets[0].c;
    const dop_arch *a = &c->model.arch;
    dop_buf types = {0};
    weight_types(w->sections.pack, &types);
    dop_plan_model m = {.vocab = a->vocab,
                        .ctx = c->ctx,
                        .ctx_train = a->ctx_train,
                        .hidden = a->hidden,
                        .rewind = find_least_rewind(w),
                        .n_layers = a->n_layers,
                        .n_sequences = c->schedules[0].g.max_q,
                        .state_copies = c->schedules[0].g.copies,
                        .page = dop_graph_page(&c->schedules[0].g),
                        .n_pages = dop_plan_writer_pages(c),
                        .bos_id = (int32_t)a->bos_id,
                        .n_end_ids = a->n_end_ids,
                        .temperature = (float)c->model.temperature,
                        .top_p = (float)c->model.top_p,
                        .min_p = (float)c->model.min_p,
                        .top_k = c->model.top_k,
                        .name = dop_plan_writer_string(w, c->model.name ? c->model.name : ""),
                        .family = dop_plan_writer_string(w, a->family),
                        .quant = dop_plan_writer_string(w, types.data ? types.data : ""),
                        .kernel_path = c->path_name ? dop_plan_writer_string(w, c->path_name) : 0};
    for (uint32_t i = 0; i < a->n_end_ids && i < 16; i++)
        m.end_ids[i] = (uint32_t)a->end_ids[i];
    if (types.failed)
        dop_plan_writer_no_memory(w);
    dop_buf_finish(&types);
    dop_plan_writer_adapters(w, &m);
    dop_buf_append(&w->sections.sec[DOP_SEC_MODEL], &m, sizeof m);
    json_t *card =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:o, s:o, s:o}", "name", c->model.name ? c->model.name : "", "family",
                  a->family, "layers", (int)a->n_layers, "hidden", (int)a->hidden, "vocab", (int)a->vocab, "context",
                  (int)c->ctx, "targets", targets_json(w), "choices", choices_json(w), "made", dop_plan_made(c));
    const dop_status st = card ? add_prompts(w, &c->model, card) : DOP_OK;
    if (st != DOP_OK)
        w->status = st;
    /* json_dumps() of Jansson 2.14 may omit a key without an error when memory runs out; dop_buf records the failure. */
    if (!card || json_dump_callback(card, append_json, &w->sections.sec[DOP_SEC_CARD], JSON_SORT_KEYS | JSON_INDENT(2)))
        dop_plan_writer_no_memory(w);
    json_decref(card);
}

/* Writes the row of the program `draft`, if the plan has it. */
static void
write_draft(dop_plan_writer *w)
{
    const dop_arch *a = &w->targets[0].c->model.arch;
    const dop_plan_program row = {.name = dop_plan_writer_string(w, "draft"),
                                  .kind = DOP_SCHED_DRAFT,
                                  .width = a->hidden,
                                  .classes = a->drafts ? dop_compilation_draft_ids(w->targets[0].c) : 0,
                                  .stays = dop_arch_drafts_by_reading(a)};
    if (a->drafts)
        dop_buf_append(&w->sections.sec[DOP_SEC_PROGRAMS], &row, sizeof row);
}

/* Writes the rows of the programs `image` and `features`, if the plan has schedules for them. */
static void
write_vision(dop_plan_writer *w)
{
    const dop_compilation *c = w->targets[0].c;
    const dop_vision *v = c->model.vision;
    bool used = false;
    for (uint32_t i = 0; i < c->n_schedules; i++)
        used = used || c->schedules[i].program == DOP_SCHED_IMAGE;
    if (!used)
        return;
    const dop_plan_program rows[] = {{.name = dop_plan_writer_string(w, "image"),
                                      .kind = DOP_SCHED_IMAGE,
                                      .width = v->hidden,
                                      .n_places = v->places == DOP_PLACES_NONE ? 0 : v->n_places,
                                      .class_row = v->class_token},
                                     {.name = dop_plan_writer_string(w, "features"),
                                      .kind = DOP_SCHED_FEATURES,
                                      .width = v->features,
                                      .merge = v->merge * v->merge}};
    dop_buf_append(&w->sections.sec[DOP_SEC_PROGRAMS], rows, sizeof rows);
    dop_buf_append(&w->sections.sec[DOP_SEC_IMAGES], c->model.images, c->model.n_images);
}

/* Writes the row of the program `audio`, and the token ids that transcriptions suppress. */
static void
write_audio(dop_plan_writer *w)
{
    const dop_checkpoint *m = &w->targets[0].c->model;
    const dop_plan_program row = {.name = dop_plan_writer_string(w, "audio"),
                                  .kind = DOP_SCHED_AUDIO,
                                  .width = m->vision->hidden,
                                  .n_places = m->vision->n_places,
                                  .bins = m->vision->bins};
    dop_buf_append(&w->sections.sec[DOP_SEC_PROGRAMS], &row, sizeof row);
    if (m->suppressed)
        dop_buf_append(&w->sections.sec[DOP_SEC_SPEECH], m->suppressed,
                       (2 + (size_t)m->suppressed[0] + m->suppressed[1]) * sizeof *m->suppressed);
}

/* Writes the rows of a diffusion model's programs, and the section about drawing. */
static void
write_draw(dop_plan_writer *w)
{
    const dop_compilation *c = w->targets[0].c;
    const dop_diffusion *d = c->model.diffusion;
    const uint32_t places = 1u << (2 * (d->n_levels - 1)),
                   pixels = 1u << (2 * (d->n_decodes - 1)); /* places per row of the step; pixels per place */
    const dop_plan_program rows[] = {
        /* `context` returns no rows, but every program has a width, at most that of the largest result. */
        {.name = dop_plan_writer_string(w, "context"), .kind = DOP_SCHED_CONTEXT, .width = c->model.arch.hidden},
        {.name = dop_plan_writer_string(w, "denoise"), .kind = DOP_SCHED_DENOISE, .width = places * d->latents},
        {.name = dop_plan_writer_string(w, "decode"),
         .kind = DOP_SCHED_DECODE_LATENTS,
         .width = places * pixels * d->colours},
        {.name = dop_plan_writer_string(w, "encode_picture"),
         .kind = DOP_SCHED_ENCODE_PIXELS,
         .width = 2 * places * d->latents},
        {.name = dop_plan_writer_string(w, "encode_2"),
         .kind = DOP_SCHED_ENCODE_2,
         .width = d->text_2.width + d->text_2.projection}};
    const dop_plan_draw draw = {.scaling = d->scaling,
                                .moved = d->moved,
                                .beta_first = d->beta_first,
                                .beta_last = d->beta_last,
                                .width = c->latents_width,
                                .height = c->latents_height,
                                .scale = 1u << (d->n_decodes - 1),
                                .latents = d->latents,
                                .colours = d->colours,
                                .times = dop_unet_times(d),
                                .cosine_first = d->cosine_first,
                                .shift = d->shift,
                                .context = d->context,
                                .context_rows = c->model.arch.ctx_train,
                                .pad = d->pad,
                                .train_steps = d->train_steps,
                                .offset = d->offset,
                                .beta_roots = d->beta_roots,
                                .spacing = d->spacing,
                                .predicts = d->predicts,
                                .rescaled = d->rescaled,
                                .last_first = d->last_first,
                                .method = d->method,
                                .text_2 = d->text_2.width,
                                .pooled = d->text_2.projection,
                                .pad_2 = d->text_2.pad,
                                .size_values = d->size_values,
                                .blank_zero = d->blank_zero};
    dop_buf_append(&w->sections.sec[DOP_SEC_PROGRAMS], rows, (3 + (size_t)d->encodes) * sizeof *rows);
    if (d->text_2.width)
        dop_buf_append(&w->sections.sec[DOP_SEC_PROGRAMS], &rows[4], sizeof *rows);
    dop_buf_append(&w->sections.sec[DOP_SEC_DRAW], &draw, sizeof draw);
}

void
dop_plan_writer_programs(dop_plan_writer *w)
{
    const dop_arch *a = &w->targets[0].c->model.arch;
    const dop_encoder *e = &a->encoder;
    _Static_assert((int)DOP_BY_CLS == DOP_POOL_CLS && (int)DOP_BY_MEAN == DOP_POOL_MEAN &&
                       (int)DOP_BY_LAST == DOP_POOL_LAST && (int)DOP_BY_END == DOP_POOL_END,
                   "the runtime knows these numbers");
    if (a->cross.rows) {
        write_audio(w);
        return;
    }
    if (!e->used) {
        write_vision(w);
        write_draft(w);
        return;
    }
    dop_plan_program row = {.name = dop_plan_writer_string(w, "encode"),
                            .kind = DOP_SCHED_ENCODE,
                            .width = dop_dense_in(e, a->hidden, e->n_dense),
                            .n_types = e->n_types,
                            .pool = e->pool,
                            .normalized = e->normalized,
                            .classes = e->classes,
                            .end_id = e->pool == DOP_BY_END ? e->end_id : 0};
    dop_buf_append(&w->sections.sec[DOP_SEC_PROGRAMS], &row, sizeof row);
    if (w->targets[0].c->model.diffusion)
        write_draw(w);
}

void
dop_plan_writer_text(dop_plan_writer *w)
{
    const dop_checkpoint *m = &w->targets[0].c->model;
    dop_tokenizer *tok = NULL;
    dop_status st = DOP_OK;
    if (w->targets[0].c->cut && w->targets[0].c->cut->number > 0)
        return; /* only the first part reads and writes text */
    if (m->tokenizer_json_path) {
        char dir[1024];
        find_tokenizer_folder(m, dir, sizeof dir);
        st = dop_tokenizer_from_hf_dir(dir, w->diag, &tok);
    } else if (m->tokenizer_gguf_path) {
        dop_gguf gguf = {0};
        st = dop_gguf_open(m->tokenizer_gguf_path, w->diag, &gguf);
        if (st == DOP_OK)
            st = dop_tokenizer_from_gguf(&gguf, w->diag, &tok);
        dop_gguf_close(&gguf);
    } else if (m->tokenizer_ggml_path) {
        st = dop_tokenizer_from_ggml(m->tokenizer_ggml_path, w->diag, &tok);
    }
    if (st == DOP_OK && tok && dop_tokenizer_serialize(tok, &w->sections.sec[DOP_SEC_TOKENIZER]) != DOP_OK)
        dop_plan_writer_no_memory(w);
    if (st == DOP_OK && m->chat_template)
        dop_buf_puts(&w->sections.sec[DOP_SEC_TEMPLATE], m->chat_template);
    if (st != DOP_OK)
        w->status = st;
    dop_tokenizer_destroy(tok);
}
