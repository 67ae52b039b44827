#include "compiler/library/make.h"

#include "compiler/library/settle.h"
#include "compiler/pack/imatrix.h"
#include "compiler/pack/quant.h"
#include "compiler/schedule/persistent.h"
#include "compiler/target/target.h"
#include "frontend/adapter_places.h"
#include "frontend/facts/leftovers.h"
#include "frontend/facts/vision.h"
#include "runtime/device/probe.h"
#include "text/chat/chat.h"

#include <string.h>

static dop_status
compile_kernels(dop_compilation *c, dop_diag *diag)
{
    dop_status st = dop_kernel_set_compile(&c->kernels, c->target, c->options.threads, &c->options.progress, diag);
    dop_compilation_drop_persistent(c);
    return st;
}

static dop_status
lay_out_weights(dop_compilation *c, dop_diag *diag)
{
    return dop_pack_layout(&c->pack, dop_compilation_max_segment(c), diag);
}

dop_status
dop_compilations_share(dop_compilation *list, uint32_t n, dop_diag *diag)
{
    dop_status st = DOP_OK;
    for (uint32_t i = 1; i < n && st == DOP_OK; i++) {
        for (uint32_t k = 0; k < list[i].n_schedules && st == DOP_OK; k++)
            if ((st = dop_pack_add_graph(&list[0].pack, &list[i].schedules[k].g, diag)) == DOP_OK &&
                dop_target_views(list[i].target))
                dop_pack_join(&list[0].pack, &list[i].schedules[k].g);
        for (uint32_t k = 0; k < list[i].pack.n && st == DOP_OK; k++) {
            const dop_packed *own = &list[i].pack.items[k], *shared = dop_pack_find(&list[0].pack, &own->from);
            if (!shared || shared->type != own->type || shared->experts != own->experts || shared->rows != own->rows ||
                shared->cols != own->cols)
                st = DOP_FAIL(diag, DOP_E_INPUT,
                              "targets %s and %s store weight %s in different ways: make a plan for each",
                              list[0].target->name, list[i].target->name, own->name);
        }
    }
    return st == DOP_OK && n > 1 ? lay_out_weights(&list[0], diag) : st;
}

/* Parses the chat template, to report its errors at compile time. */
static dop_status
check_template(const char *model_path, const char *text, dop_diag *diag)
{
    dop_chat *chat = NULL;
    dop_diag why = {0};
    dop_status st = text ? dop_chat_create(text, strlen(text), &why, &chat) : DOP_OK;
    dop_chat_destroy(chat);
    if (st != DOP_OK)
        (void)dop_fail(diag, why.src_file, why.src_line, st, model_path, 0, 0, "%s%s", why.message,
                       st == DOP_E_INPUT ? "; mend it, or take it out of the model to go without a chat format" : "");
    return st;
}

/* Opens the importance matrix and checks it against the weights that are quantized. */
static dop_status
open_imatrix(dop_compilation *c, dop_diag *diag)
{
    const dop_weights *w = &c->model.weights;
    bool *wanted = dop_arena_alloc(&c->arena, w->n + 1);
    if (!wanted)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < w->n; i++)
        wanted[i] =
            w->items[i].rank > 1 && c->packed_types[i] != w->items[i].type && dop_quantizable(c->packed_types[i]);
    DOP_RETURN_IF_ERROR(dop_imatrix_open(c->options.imatrix, &c->arena, diag, &c->imatrix));
    return dop_imatrix_check(c->imatrix, w, wanted, diag, &c->n_unweighed);
}

/* Decides whether the plan accepts images. Fails if not and a vision file was named. */
static dop_status
choose_pictures(dop_compilation *c, dop_diag *diag)
{
    const dop_vision *v = c->model.vision;
    const char *why = NULL;
    if (v->places == DOP_PLACES_TABLE && v->n_places > DOP_STEP_MAX_ROWS)
        why = "the vision part is left out: a picture has too many patches";
    else if (v->features != c->model.arch.hidden || c->model.arch.altup.n)
        why = "the vision part is left out: its features are no rows of the text model";
    c->pictures = !why;
    if (why && c->options.mmproj)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, c->options.mmproj, "%s", strchr(why, ':') + 2);
    return why ? dop_checkpoint_note(&c->model, why, diag) : DOP_OK;
}

/* Adds the schedules of the vision part. If all tiles have one size: a schedule for one tile, and one for as many tiles
 * as a step holds if images may have several. Otherwise: three sizes. One step makes all features of an image step. */
static dop_status
add_vision_schedules(dop_compilation *c, dop_diag *diag)
{
    static const uint32_t sizes[] = {256, 1024, DOP_STEP_MAX_ROWS};
    const dop_vision *v = c->model.vision;
    const bool one = v->places == DOP_PLACES_TABLE;
    const uint32_t tiles =
                       one && c->model.tiles && v->n_places < DOP_STEP_MAX_ROWS ? DOP_STEP_MAX_ROWS / v->n_places : 1,
                   most = one ? tiles * v->n_places : DOP_STEP_MAX_ROWS;
    if (one)
        DOP_RETURN_IF_ERROR(dop_schedule_add_image(c, v->n_places, diag));
    if (tiles > 1)
        DOP_RETURN_IF_ERROR(dop_schedule_add_image(c, most, diag));
    for (size_t i = 0; !one && i < sizeof sizes / sizeof *sizes; i++)
        DOP_RETURN_IF_ERROR(dop_schedule_add_image(c, sizes[i], diag));
    const uint32_t features = most / (v->merge * v->merge);
    return dop_schedule_add_features(c, features > 0 ? features : 1, diag);
}

/* Adds the schedules of the program `draft` for different numbers of rows: 1 row, a few rows (after a round of drafts),
 * one row of each sequence, rows of a step of all sequences, and prompt chunks. A drafter that keeps no states needs at
 * most one row of each sequence. */
static dop_status
add_drafts(dop_compilation *c, dop_diag *diag)
{
    enum { ROUND = 4, FEW = 8, MOST = 512 };
    const dop_compilation_options *o = &c->options;
    const bool stays = dop_arch_drafts_by_reading(&c->model.arch);
    const uint32_t chunk = stays ? 1 : o->chunks[o->n_chunks - 1], rows = o->n_rows ? o->rows[o->n_rows - 1] : 1;
    uint32_t each = stays ? o->sequences : chunk > rows ? chunk : rows;
    each = each < DOP_DRAFT_EACH ? each : DOP_DRAFT_EACH;
    const uint32_t own = each < o->sequences ? each : o->sequences;
    const uint32_t sizes[] = {1,    each < ROUND ? each : ROUND, each < FEW ? each : FEW, own,
                              each, chunk < MOST ? chunk : MOST};
    uint32_t last = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] > last)
            DOP_RETURN_IF_ERROR(dop_schedule_add_draft(c, last = sizes[i], diag));
    return DOP_OK;
}

/* Checks --draft-vocabulary, and adds a note about its effect. */
static dop_status
settle_draft_vocabulary(dop_compilation *c, const char *model_path, dop_diag *diag)
{
    const dop_arch *a = &c->model.arch;
    const uint32_t n = c->options.draft_vocabulary;
    if (!n)
        return DOP_OK;
    if (!a->drafts)
        return DOP_FAIL_IN(diag, DOP_E_USAGE, model_path, "`draft_vocabulary` is for models with a layer that drafts");
    if (a->layers[a->n_layers].eagle.vocab)
        return DOP_FAIL(diag, DOP_E_USAGE, "`draft_vocabulary`: the drafter has a list of its own of %u tokens",
                        a->layers[a->n_layers].eagle.vocab);
    if (a->head_bias)
        return DOP_FAIL_IN(diag, DOP_E_USAGE, model_path, "`draft_vocabulary`: the model's output has a bias");
    if (n >= a->vocab) {
        c->options.draft_vocabulary = 0;
        return DOP_OK;
    }
    const char *note = dop_arena_printf(&c->arena,
                                        "drafts are among the first %u of %u tokens; text whose tokens are behind them "
                                        "has fewer right ones",
                                        n, a->vocab);
    return note ? dop_checkpoint_note(&c->model, note, diag) : DOP_NO_MEMORY(diag);
}

/* Merges the adapters into the model's weights, and adds control vectors. */
static dop_status
merge_adapters(dop_compilation *c, dop_diag *diag)
{
    const dop_compilation_options *o = &c->options;
    c->loras = dop_arena_alloc(&c->arena, ((size_t)o->n_loras + o->n_controls + 1) * sizeof *c->loras);
    if (!c->loras)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < o->n_loras + o->n_controls; i++) {
        dop_lora *l = &c->loras[i];
        const bool control = i >= o->n_loras;
        DOP_RETURN_IF_ERROR(dop_adapter_argument(control ? o->controls[i - o->n_loras] : o->loras[i], &c->arena, diag,
                                                 &l->path, &l->scale));
        if (control)
            DOP_RETURN_IF_ERROR(
                dop_checkpoint_control(&c->model, l->path, l->scale, o->control_first, o->control_last, diag));
        else
            DOP_RETURN_IF_ERROR(dop_checkpoint_merge(&c->model, l->path, l->scale, diag));
    }
    return DOP_OK;
}

/* Adds the drafter of --draft-head. Fails if the model itself is a drafter. */
static dop_status
add_drafter(dop_compilation *c, const char *model_path, dop_diag *diag)
{
    const dop_compilation_options *o = &c->options;
    if (dop_arch_is_drafter(&c->model.arch))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, model_path,
                           "this is a drafter, not a model: name its model, and this with `draft_head`");
    if (o->draft_head && o->in_parts)
        return DOP_FAIL(diag, DOP_E_USAGE, "`draft_head` is for plans of one part");
    return o->draft_head ? dop_checkpoint_add_drafter(&c->model, o->draft_head, diag) : DOP_OK;
}

/* Loads the model and applies the options that extend or reduce it. */
static dop_status
load_model(dop_compilation *c, const char *path, dop_diag *diag)
{
    const dop_compilation_options *o = &c->options;
    DOP_RETURN_IF_ERROR(dop_checkpoint_load(path, &c->arena, diag, &c->model));
    DOP_RETURN_IF_ERROR(dop_checkpoint_add_vision(&c->model, o->mmproj, diag));
    DOP_RETURN_IF_ERROR(add_drafter(c, path, diag));
    DOP_RETURN_IF_ERROR(check_template(path, c->model.chat_template, diag));
    DOP_RETURN_IF_ERROR(merge_adapters(c, diag));
    if (c->model.arch.drafts && o->in_parts) {
        c->model.arch.drafts = 0;
        DOP_RETURN_IF_ERROR(
            dop_checkpoint_note(&c->model, "the layer that drafts is left out: it is for plans of one part", diag));
    }
    return settle_draft_vocabulary(c, path, diag);
}

/* Chooses the storage types of weights. */
static dop_status
choose_types(dop_compilation *c, dop_diag *diag)
{
    const dop_compilation_options *o = &c->options;
    const size_t n = (size_t)c->model.weights.n + 1;
    c->packed_types = dop_arena_alloc(&c->arena, n * sizeof *c->packed_types);
    c->asked_types = dop_arena_alloc(&c->arena, n * sizeof *c->asked_types);
    dop_status st = c->packed_types && c->asked_types
                        ? dop_quant_choose(o->quant, &c->model.weights, diag, c->packed_types, c->asked_types)
                        : DOP_NO_MEMORY(diag);
    if (st == DOP_OK && o->imatrix)
        st = open_imatrix(c, diag);
    if (st != DOP_OK)
        return st;
    dop_pack_init(&c->pack, &c->model, c->ctx);
    c->pack.threads = o->threads;
    c->pack.imatrix = c->imatrix;
    return DOP_OK;
}

/* Adds the schedules of a model that processes whole inputs: an encoder or a diffusion model. */
static dop_status
add_encoder_schedules(dop_compilation *c, const char *path, dop_diag *diag)
{
    const dop_compilation_options *o = &c->options;
    if (o->adapters)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "`adapters` is for models that write: an adapter of an encoder is merged (`loras`)");
    if (c->model.diffusion)
        /* first, because the plan's states come from its first schedule */
        DOP_RETURN_IF_ERROR(dop_schedule_add_draw(c, diag));
    for (uint32_t i = 0; i < o->n_chunks; i++)
        DOP_RETURN_IF_ERROR(dop_schedule_add_encode(c, o->chunks[i], diag));
    return DOP_OK;
}

/* Adds the schedules of a generative model: its steps by row count, then scoring, embedding, vision, audio and drafts. */
static dop_status
add_decoder_schedules(dop_compilation *c, const char *path, dop_diag *diag)
{
    const dop_compilation_options *o = &c->options;
    const uint32_t sounds = c->model.arch.cross.rows;
    /* Scoring returns logits of every position, [T, vocab]. The second chunk size limits their memory. */
    const uint32_t score = o->chunks[o->n_chunks > 1 ? 1 : 0];
    if (sounds && o->in_parts)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "a model of speech is not cut into parts");
    if (c->model.vision && !sounds && !o->in_parts)
        DOP_RETURN_IF_ERROR(choose_pictures(c, diag));
    DOP_RETURN_IF_ERROR(dop_schedule_add(c, DOP_PHASE_DECODE, o->invariant ? o->chunks[0] : 1, diag));
    for (uint32_t i = 0; i < o->n_chunks; i++)
        if (o->chunks[i] > 1)
            DOP_RETURN_IF_ERROR(dop_schedule_add(c, DOP_PHASE_PREFILL, o->chunks[i], diag));
    for (uint32_t i = 0; i < o->n_rows; i++)
        if (o->rows[i] > 1)
            DOP_RETURN_IF_ERROR(dop_schedule_add_rows(c, o->rows[i], diag));
    DOP_RETURN_IF_ERROR(dop_schedule_add(c, DOP_PHASE_SCORE, score, diag));
    if (o->embed)
        DOP_RETURN_IF_ERROR(dop_schedule_add_embed(c, score, diag));
    if (c->pictures)
        DOP_RETURN_IF_ERROR(add_vision_schedules(c, diag));
    if (sounds)
        DOP_RETURN_IF_ERROR(dop_schedule_add_audio(c, sounds, diag));
    if (c->model.arch.drafts)
        DOP_RETURN_IF_ERROR(add_drafts(c, diag));
    return DOP_OK;
}

dop_status
dop_compilation_make(const char *model_path, const dop_compilation_options *options, dop_diag *diag,
                     dop_compilation *out)
{
    dop_compilation *c = out;
    memset(c, 0, sizeof *c);
    c->options = *options;
    dop_arena_init(&c->arena);
    dop_status st = DOP_OK;
    dop_target here;
    const dop_target *device = options->target ? options->target : &here;
    const bool whole = options->passes.stop_after < 0;
    if (!options->target)
        DOP_TRY(dop_target_resolve("auto", diag, &here));
    DOP_TRY(load_model(c, model_path, diag));
    DOP_TRY(dop_settle_sizes(c, device, model_path, diag));
    DOP_TRY(dop_templates_load(options->own_path, &c->templates, diag));
    DOP_TRY(dop_settle_path(c, device, diag));
    DOP_TRY(choose_types(c, diag));
    DOP_TRY(c->model.arch.encoder.used ? add_encoder_schedules(c, model_path, diag)
                                       : add_decoder_schedules(c, model_path, diag));
    if (whole)
        DOP_TRY(dop_kernel_path_check(&c->path, &c->arena, diag));
    DOP_TRY(lay_out_weights(c, diag));
    if (!options->no_spirv && whole)
        DOP_TRY(compile_kernels(c, diag));
error:
    if (st != DOP_OK)
        dop_compilation_finish(c);
    return st;
}

void
dop_compilation_finish(dop_compilation *c)
{
    dop_kernel_set_finish(&c->kernels);
    for (uint32_t i = 0; i < c->n_schedules; i++)
        dop_fusion_log_finish(&c->schedules[i].log);
    dop_pack_finish(&c->pack);
    dop_imatrix_close(c->imatrix);
    dop_templates_finish(&c->templates);
    dop_checkpoint_finish(&c->model);
    dop_arena_finish(&c->arena);
    memset(c, 0, sizeof *c);
}
