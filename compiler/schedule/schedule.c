#include "compiler/schedule/schedule.h"

#include "compiler/schedule/compilation.h"
#include "compiler/schedule/part_graph.h"
#include "compiler/schedule/persistent.h"
#include "compiler/schedule/region_facts.h"
#include "frontend/build/build_diffusion.h"
#include "frontend/build/build_vision.h"
#include "passes/fusion/region.h"

#include <stdlib.h>
#include <string.h>

const char *
dop_schedule_name(const dop_schedule *s)
{
    return s->g.name;
}

uint32_t
dop_schedule_rows(const dop_schedule *s)
{
    return s->phase == DOP_PHASE_DECODE ? 1 : s->g.max_t;
}

static dop_status
take_kernel(dop_compilation *c, const dop_graph *g, const dop_region *r, const dop_kernel *k, dop_built_region *b,
            dop_diag *diag)
{
    memcpy(b->grid, k->grid, sizeof b->grid);
    b->args = k->args;
    b->n_args = k->n_args;
    return dop_kernel_set_add(&c->kernels, k, r->tpl, dop_region_label(g, r), diag, &b->kernel);
}

static dop_status
generate_kernels(dop_compilation *c, dop_schedule *s, dop_diag *diag)
{
    const dop_graph *g = &s->g;
    /* After a persistent dispatch, the last region's kernel also counts the run (persistent.h). */
    const dop_sync advance = {.kind = DOP_SYNC_ADVANCE};
    for (dop_region_id i = 1; i < g->n_regions; i++) {
        dop_built_region *b = &s->regions[i];
        dop_kernel k;
        bool advances = c->target->persistent && s->phase != DOP_PHASE_SCORE && i + 1 == g->n_regions;
        if (g->regions[i].dead)
            continue;
        dop_status st = dop_kernel_generate(&c->templates, g, &g->regions[i], c->target, &b->choice,
                                            advances ? &advance : NULL, diag, &k);
        if (st == DOP_OK)
            st = take_kernel(c, g, &g->regions[i], &k, b, diag);
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

/* Counts the regions that a step without logits needs: up to the last region that writes a state or a sent value, or
 * that such a region reads. The remaining ones (the end of the last layer, the LM head) only serve this step's logits. */
static dop_status
count_body(const dop_schedule *s, dop_diag *diag, uint32_t *out_n)
{
    const dop_graph *g = &s->g;
    dop_flow f = {0};
    dop_status st = dop_flow_init(g, diag, &f);
    bool *needed = calloc(g->n_regions, sizeof *needed);
    if (st == DOP_OK && !needed)
        st = DOP_NO_MEMORY(diag);
    *out_n = 0;
    for (dop_region_id r = g->n_regions - 1; st == DOP_OK && r > 0; r--) { /* backwards, because readers come later */
        const dop_region *reg = &g->regions[r];
        for (uint32_t i = 0; i < reg->n_outs; i++) {
            needed[r] = needed[r] || dop_node_at(g, reg->outs[i])->op == DOP_OP_state_write;
            for (uint32_t k = 0; k < s->n_sent && !s->program; k++)
                needed[r] = needed[r] || dop_node_base(g, reg->outs[i], NULL) == s->sent[k];
            for (uint32_t k = 0; k < f.readers[reg->outs[i]].n; k++)
                needed[r] = needed[r] || needed[f.readers[reg->outs[i]].ids[k]];
        }
        if (needed[r] && *out_n == 0)
            *out_n = r;
    }
    if (*out_n == 0)
        *out_n = g->n_regions - 1;
    dop_flow_finish(&f);
    free(needed);
    return st;
}

void
dop_passes_skip_fusion(dop_pass_options *o)
{
    static const dop_pass_id fusing[] = {DOP_PASS_hoist_last,    DOP_PASS_split_norms,   DOP_PASS_hoist_scale,
                                         DOP_PASS_split_kv,      DOP_PASS_split_argmax,  DOP_PASS_merge_siblings,
                                         DOP_PASS_fuse_prologue, DOP_PASS_fuse_epilogue, DOP_PASS_meet_products,
                                         DOP_PASS_share_row,     DOP_PASS_fuse_rows,     DOP_PASS_merge_rows};
    for (size_t i = 0; i < sizeof fusing / sizeof *fusing; i++)
        o->skip[fusing[i]] = true;
}

void
dop_passes_hold_rows(dop_pass_options *o)
{
    o->skip[DOP_PASS_hoist_last] = true;
}

typedef struct path_in_phase {
    dop_compilation *c;
    dop_schedule *s;
    dop_kernel_path *path;
    dop_phase phase;
    const dop_cuts *cuts;
    uint64_t max_segment; /* maximum bytes of a weight segment */
    dop_diag *diag;
} path_in_phase;

static bool
keep_apart(void *user, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const path_in_phase *x = user;
    return (x->cuts && dop_parts_divide(x->cuts, g, a, b)) || dop_kernel_path_apart(x->path, x->phase, g, a, b);
}

static bool
join_by_rule(void *user, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const path_in_phase *x = user;
    return dop_kernel_path_joins(x->path, x->phase, g, a, b);
}

static dop_type
choose_expansion(void *user, const dop_graph *g, dop_node_id matmul)
{
    const path_in_phase *x = user;
    return dop_kernel_path_expand(x->path, x->phase, g, matmul);
}

static uint32_t
choose_piece_rows(void *user, const dop_graph *g, dop_node_id weight)
{
    const path_in_phase *x = user;
    const dop_node *w = dop_node_at(g, weight);
    return dop_pack_piece_rows(w->type, &w->shape, x->max_segment);
}

/* Chooses a region's kernel and tile by the kernel path, otherwise by the target's order of kernels. Keeps the reason. */
static dop_status
select_kernel(void *user, const dop_graph *g, dop_region_id id, const char **out_variant, dop_tile *out_tile)
{
    const path_in_phase *x = user;
    dop_compilation *c = x->c;
    dop_schedule *s = x->s;
    dop_diag *diag = x->diag;
    const dop_region *r = &g->regions[id];
    const char *variant = NULL;
    if (!s->regions)
        s->regions = dop_arena_alloc(&c->arena, g->n_regions * sizeof *s->regions);
    if (!s->regions)
        return DOP_NO_MEMORY(diag);
    dop_selection *choice = &s->regions[id].choice;
    dop_status st = dop_kernel_path_choose(x->path, x->phase, g, r, c->target, diag, &variant);
    if (st == DOP_OK)
        st = dop_kernel_select(g, r, c->target, variant, diag, choice);
    if (st == DOP_OK)
        st = dop_kernel_path_tile(x->path, x->phase, g, r, c->target, diag, choice);
    if (st != DOP_OK)
        return st;
    *out_variant = dop_variant_of(choice->variant)->name;
    *out_tile = choice->tile;
    return DOP_OK;
}

static dop_schedule *
next_schedule(dop_compilation *c, dop_phase phase)
{
    dop_schedule *s = &c->schedules[c->n_schedules++];
    s->phase = phase;
    dop_fusion_log_init(&s->log);
    return s;
}

/* Runs the passes with callbacks for the kernel path. `in` must live as long as cx, which keeps a pointer to it. */
static dop_status
run_passes(dop_compilation *c, dop_schedule *s, path_in_phase *in, dop_pass_ctx *cx, dop_pass_options *passes,
           dop_graph *g)
{
    const dop_phase phase = s->phase;
    if (dop_kernel_path_unfused(&c->path, phase))
        dop_passes_skip_fusion(passes);
    else if (c->options.cuts || dop_kernel_path_has_apart(&c->path, phase))
        cx->keep_apart = keep_apart;
    cx->joins = join_by_rule;
    if (dop_kernel_path_has_expand(&c->path, phase))
        cx->expand = choose_expansion;
    cx->piece_rows = choose_piece_rows;
    cx->select = select_kernel;
    *in = (path_in_phase){c, s, &c->path, phase, c->options.cuts, dop_compilation_max_segment(c), cx->diag};
    cx->user = in;
    return dop_passes_run(cx, passes, g);
}

/* Copies a graph without its regions, so that passes over the original do not change the nodes of the copy. */
static dop_status
copy_bare_graph(const dop_graph *from, dop_arena *arena, dop_diag *diag, dop_graph *out)
{
    *out = *from;
    out->arena = arena;
    out->nodes = dop_arena_alloc(arena, from->n_nodes * sizeof *out->nodes);
    out->outs = dop_arena_alloc(arena, (from->n_outs + 1) * sizeof *out->outs);
    out->regions = dop_arena_alloc(arena, sizeof *out->regions);
    if (!out->nodes || !out->outs || !out->regions)
        return DOP_NO_MEMORY(diag);
    memcpy(out->nodes, from->nodes, from->n_nodes * sizeof *out->nodes);
    memcpy(out->outs, from->outs, from->n_outs * sizeof *out->outs);
    out->cap_nodes = from->n_nodes;
    out->cap_outs = from->n_outs + 1;
    out->n_regions = out->cap_regions = 1;
    return DOP_OK;
}

/* Sets rule->changed if the rule changes the regions. Runs the passes again without the rule to find out. */
static dop_status
judge_rule(dop_compilation *c, dop_schedule *s, const dop_graph *built, uint32_t rule, dop_diag *diag)
{
    dop_path_rule *r = &c->path.rules[rule];
    dop_arena arena;
    dop_fusion_log log;
    dop_graph g;
    path_in_phase in;
    dop_pass_options passes = c->options.passes;
    passes.dump = NULL;
    passes.skip[DOP_PASS_select] = true;
    dop_arena_init(&arena);
    dop_fusion_log_init(&log);
    dop_pass_ctx cx = {.arena = &arena, .diag = diag, .target = c->target, .log = &log};
    dop_status st = DOP_OK;
    DOP_TRY(copy_bare_graph(built, &arena, diag, &g));
    c->path.muted = rule + 1;
    DOP_TRY(run_passes(c, s, &in, &cx, &passes, &g));
    c->path.muted = 0;
    r->changed = dop_graph_hash_unbound(&g) != dop_graph_hash_unbound(&s->g);
    if (!r->changed && r->reader && r->unfused)
        dop_path_rule_look(r, &g, &log);
error:
    dop_fusion_log_finish(&log);
    dop_arena_finish(&arena);
    return st;
}

/* Determines the effect of each fusion rule in this schedule. */
static dop_status
judge_rules(dop_compilation *c, dop_schedule *s, const dop_graph *built, dop_diag *diag)
{
    for (uint32_t i = 0; i < c->path.n_rules; i++) {
        if (dop_path_rule_joins(&c->path.rules[i], s->phase))
            dop_path_rule_look(&c->path.rules[i], &s->g, &s->log);
        if (dop_kernel_path_to_judge(&c->path, i, s->phase))
            DOP_RETURN_IF_ERROR(judge_rule(c, s, built, i, diag));
    }
    return DOP_OK;
}

static bool
has_fuse_rules(const dop_kernel_path *p)
{
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (p->rules[i].fused || p->rules[i].unfused)
            return true;
    return false;
}

/* Completes a schedule from its built graph: passes, kernels, persistent form, weights to pack. */
static dop_status
build_schedule(dop_compilation *c, dop_schedule *s, dop_diag *diag)
{
    dop_phase phase = s->phase;
    dop_pass_ctx cx = {.arena = &c->arena, .diag = diag, .target = c->target, .log = &s->log};
    dop_pass_options passes = c->options.passes;
    const bool judged = has_fuse_rules(&c->path) && passes.stop_after < 0;
    path_in_phase in;
    dop_graph built = {0};
    s->g.name = dop_arena_printf(&c->arena, "%s%u%s", s->g.name, dop_schedule_rows(s),
                                 s->adapted ? "_adapted" : ""); /* same format as dop_plan_schedule_name() */
    if (!s->g.name)
        return DOP_NO_MEMORY(diag);
    for (dop_node_id id = 1; id < s->g.n_nodes; id++)
        s->n_ops += dop_node_computed(&s->g, id);
    s->before = s->g;
    if (judged)
        DOP_RETURN_IF_ERROR(copy_bare_graph(&s->g, &c->arena, diag, &built));
    DOP_RETURN_IF_ERROR(run_passes(c, s, &in, &cx, &passes, &s->g));
    if (judged)
        DOP_RETURN_IF_ERROR(judge_rules(c, s, &built, diag));
    s->placement = cx.placement;
    if (c->options.passes.stop_after >= 0)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_passes_need(&cx, PF_PLACED | PF_SELECTED, "a plan"));
    if (s->g.n_regions <= 1)
        return DOP_OK;
    if (s->sends)
        s->sent[s->n_sent++] = dop_node_base(&s->g, s->g.outs[s->sends], NULL);
    DOP_RETURN_IF_ERROR(count_body(s, diag, &s->n_body));
    DOP_RETURN_IF_ERROR(generate_kernels(c, s, diag));
    const bool steps = phase == DOP_PHASE_DECODE || (s->mixed && !s->program && s->g.max_t <= DOP_STEP_SEVERAL);
    if (steps && c->target->persistent && !c->options.in_parts)
        /* parts.c does this for models in parts */
        DOP_RETURN_IF_ERROR(dop_persistent_build(c, s, diag));
    DOP_RETURN_IF_ERROR(dop_pack_add_graph(&c->pack, &s->g, diag));
    if (dop_target_views(c->target))
        dop_pack_join(&c->pack, &s->g);
    return DOP_OK;
}

/* Lists the values that the schedule receives (ops `received`), in graph order. */
static dop_status
find_received(dop_schedule *s, dop_diag *diag)
{
    s->n_received = 0;
    for (dop_node_id id = 1; id < s->g.n_nodes; id++) {
        if (dop_node_at(&s->g, id)->op != DOP_OP_received)
            continue;
        if (s->n_received == DOP_PART_MAX_VALUES)
            return DOP_FAIL(diag, DOP_E_INTERNAL, "%s receives more than %d values", s->g.name, DOP_PART_MAX_VALUES);
        s->received[s->n_received++] = id;
    }
    return DOP_OK;
}

/* Returns the number of copies of replaced states. In models that draft, there is one per row of a sequence's step, so
 * that rejected rows can be dropped. Only kernels that contain a step's whole recurrence write these copies, so there
 * are 2 if fusion is restricted. */
static uint32_t
state_copies(const dop_compilation *c)
{
    const dop_compilation_options *o = &c->options;
    const uint32_t rows = o->n_rows ? o->rows[o->n_rows - 1] / (o->sequences ? o->sequences : 1) : 0;
    bool held = o->n_apart > 0;
    for (uint32_t i = 0; i < DOP_PASS_COUNT; i++)
        held = held || (i != DOP_PASS_hoist_last && o->passes.skip[i]);
    if (!c->model.arch.drafts || held || rows < 2)
        return 2;
    return 1 + (rows < DOP_STEP_SEVERAL ? rows : DOP_STEP_SEVERAL);
}

/* Adds one schedule. `how` gives its phase, size, kind and adapter ranks. */
static dop_status
add_single_schedule(dop_compilation *c, dop_build_options how, dop_diag *diag)
{
    dop_schedule *s = next_schedule(c, how.phase);
    const bool program = how.encodes || how.drafts, each = how.mixed;
    dop_build_options build = how;
    build.max_s = c->ctx;
    build.kv_type = c->options.kv_type;
    build.v_type = c->options.v_type;
    build.act_type = c->options.act_type;
    build.types = c->packed_types;
    build.max_q = c->options.sequences;
    build.invariant = c->options.invariant && !program;
    build.copies = program ? 0 : state_copies(c);
    build.keeps_each = each;
    build.sends = c->model.arch.drafts > 0 && !program && !how.embeds && (how.phase != DOP_PHASE_SCORE || each);
    build.rank = c->options.rank;
    build.uses = dop_compilation_uses(c);
    build.chosen = how.max_t <= c->target->schedule.adapter_rows;
    build.pictures = c->pictures;
    for (uint32_t i = 0; i < c->options.n_chunks; i++)
        build.max_rows = build.max_rows > c->options.chunks[i] ? build.max_rows : c->options.chunks[i];
    for (uint32_t i = 0; i < c->options.n_rows; i++)
        /* all rows of a step may belong to one sequence */
        build.max_rows = build.max_rows > c->options.rows[i] ? build.max_rows : c->options.rows[i];
    if (build.max_rows < c->options.sequences)
        build.max_rows = c->options.sequences;
    s->mixed = each;
    s->embeds = how.embeds;
    s->program = how.encodes ? DOP_SCHED_ENCODE : how.drafts ? DOP_SCHED_DRAFT : 0;
    s->sends = build.sends || (how.drafts && each) ? 2
               : how.drafts                        ? 1
                                                   : 0; /* after the logits and, if any, the token id */
    s->adapted = how.ranks > 0 && !c->options.invariant;
    DOP_RETURN_IF_ERROR(dop_build_graph(&c->model, &build, &c->arena, diag, &s->g));
    DOP_RETURN_IF_ERROR(build_schedule(c, s, diag));
    return find_received(s, diag);
}

/* Adds a schedule for steps of sequences, or for programs that read tokens. `how` gives its phase, size and kind. With
 * run-time adapters there are two schedules: one for steps without adapters and one for all others. With --invariant
 * there is only the second, because other rows must not change the bits of a row's logits. */
static dop_status
add_schedule(dop_compilation *c, dop_build_options how, dop_diag *diag)
{
    const uint32_t ranks = how.encodes || how.drafts ? 0 : dop_compilation_ranks(c);
    dop_status st = ranks == 0 || !c->options.invariant ? add_single_schedule(c, how, diag) : DOP_OK;
    how.ranks = ranks;
    return st == DOP_OK && ranks > 0 ? add_single_schedule(c, how, diag) : st;
}

dop_status
dop_schedule_add(dop_compilation *c, dop_phase phase, uint32_t max_t, dop_diag *diag)
{
    return add_schedule(c, (dop_build_options){.phase = phase, .max_t = max_t}, diag);
}

dop_status
dop_schedule_add_rows(dop_compilation *c, uint32_t max_t, dop_diag *diag)
{
    return add_schedule(c, (dop_build_options){.phase = DOP_PHASE_SCORE, .max_t = max_t, .mixed = true}, diag);
}

dop_status
dop_schedule_add_embed(dop_compilation *c, uint32_t max_t, dop_diag *diag)
{
    return add_schedule(c, (dop_build_options){.phase = DOP_PHASE_SCORE, .max_t = max_t, .embeds = true}, diag);
}

dop_status
dop_schedule_add_encode(dop_compilation *c, uint32_t max_t, dop_diag *diag)
{
    return add_schedule(c, (dop_build_options){.phase = DOP_PHASE_SCORE, .max_t = max_t, .encodes = true}, diag);
}

dop_status
dop_schedule_add_draft(dop_compilation *c, uint32_t max_t, dop_diag *diag)
{
    const dop_build_options how = {.phase = DOP_PHASE_SCORE,
                                   .max_t = max_t,
                                   .mixed = max_t <= DOP_DRAFT_EACH,
                                   .drafts = true,
                                   .draft_ids = c->options.draft_vocabulary};
    return add_schedule(c, how, diag);
}

static dop_status
add_vision_program(dop_compilation *c, uint32_t program, uint32_t max_t, dop_diag *diag)
{
    dop_schedule *s = next_schedule(c, DOP_PHASE_SCORE);
    const dop_vision_model m = {.facts = *c->model.vision, .weights = c->model.weights};
    const dop_vision_options build = {.max_t = max_t,
                                      .act_type = c->options.act_type,
                                      .together = true,
                                      .types = c->packed_types,
                                      .decoder = &c->model.arch,
                                      .max_q = c->options.sequences,
                                      .kv_type = c->options.kv_type,
                                      .v_type = c->options.v_type};
    s->program = program;
    DOP_RETURN_IF_ERROR(program == DOP_SCHED_IMAGE   ? dop_build_vision(&m, &build, &c->arena, diag, &s->g)
                        : program == DOP_SCHED_AUDIO ? dop_build_audio(&m, &build, &c->arena, diag, &s->g)
                                                     : dop_build_features(&m, 0, &build, &c->arena, diag, &s->g));
    DOP_RETURN_IF_ERROR(build_schedule(c, s, diag));
    for (uint32_t i = 1; program != DOP_SCHED_AUDIO && i < s->g.n_outs && i < DOP_PART_MAX_VALUES; i++)
        s->sent[s->n_sent++] = s->g.outs[i]; /* outputs from other layers; output 0 is the program's own result */
    return find_received(s, diag);
}

dop_status
dop_schedule_add_image(dop_compilation *c, uint32_t max_t, dop_diag *diag)
{
    return add_vision_program(c, DOP_SCHED_IMAGE, max_t, diag);
}

dop_status
dop_schedule_add_features(dop_compilation *c, uint32_t max_t, dop_diag *diag)
{
    return add_vision_program(c, DOP_SCHED_FEATURES, max_t, diag);
}

dop_status
dop_schedule_add_audio(dop_compilation *c, uint32_t max_t, dop_diag *diag)
{
    return add_vision_program(c, DOP_SCHED_AUDIO, max_t, diag);
}

dop_status
dop_schedule_add_draw(dop_compilation *c, dop_diag *diag)
{
    static const struct {
        uint32_t program;
        dop_status (*build)(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt,
                            dop_arena *arena, dop_diag *diag, dop_graph *out_graph);
    } programs[] = {{DOP_SCHED_CONTEXT, dop_build_context},
                    {DOP_SCHED_DENOISE, dop_build_denoise},
                    {DOP_SCHED_DECODE_LATENTS, dop_build_decode},
                    {DOP_SCHED_ENCODE_PIXELS, dop_build_encode_picture},
                    {DOP_SCHED_ENCODE_2, dop_build_text_2}};
    const size_t n = sizeof programs / sizeof *programs;
    const dop_diffusion *d = c->model.diffusion;
    const dop_diffusion_options build = {.width = c->latents_width,
                                         .height = c->latents_height,
                                         .context_rows = c->model.arch.ctx_train,
                                         .sequences = c->options.sequences,
                                         .act_type = c->options.act_type,
                                         .kv_type = c->options.kv_type,
                                         .types = c->packed_types};
    for (size_t i = 0; i < n; i++) {
        if ((programs[i].program == DOP_SCHED_ENCODE_PIXELS && !d->encodes) ||
            (programs[i].program == DOP_SCHED_ENCODE_2 && !d->text_2.width))
            continue;
        dop_schedule *s = next_schedule(c, DOP_PHASE_SCORE);
        s->program = programs[i].program;
        DOP_RETURN_IF_ERROR(programs[i].build(d, &c->model.weights, &build, &c->arena, diag, &s->g));
        DOP_RETURN_IF_ERROR(build_schedule(c, s, diag));
        DOP_RETURN_IF_ERROR(find_received(s, diag));
    }
    return DOP_OK;
}

dop_status
dop_schedule_add_graph(dop_compilation *c, dop_phase phase, const dop_graph *g, dop_diag *diag)
{
    dop_schedule *s = next_schedule(c, phase);
    s->g = *g;
    return build_schedule(c, s, diag);
}
