#include "compiler/compile.h"

#include "compiler/persistent.h"
#include "compiler/quant.h"
#include "compiler/target.h"
#include "ir/region.h"
#include "passes/region.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *
dop_schedule_name(const dop_schedule *s)
{
    return s->g.name;
}

const char *
dop_region_label(const dop_graph *g, const dop_region *r)
{
    dop_node_id root = r->info->root;
    /* What stands at the region's heart names it; a row program alone is named by what it stores. */
    const char *label = dop_node_at(g, root)->label;
    return label && *label ? label : dop_node_at(g, r->outs[0])->label;
}

void
dop_region_ops(const dop_graph *g, const dop_region *r, dop_buf *out)
{
    for (uint32_t i = 0; i < r->n_nodes; i++)
        dop_buf_printf(out, "%s%s", i ? " " : "", dop_op_of(dop_node_at(g, r->nodes[i])->op)->name);
}

typedef struct traffic {
    const dop_graph *g;
    const dop_region *r;
    uint32_t depth;
    uint64_t bytes;
} traffic;

static void
count_read(void *user, dop_node_id base)
{
    traffic *t = user;
    const dop_node *n = dop_node_at(t->g, base);
    if (n->op == DOP_OP_input)
        return;
    if (n->op == DOP_OP_state || n->op == DOP_OP_state_write) {
        /* A cache is read as deep as the sequence is long, and not at all by a write. */
        for (uint32_t i = 0; i < t->r->n_nodes; i++) {
            const dop_node *x = dop_node_at(t->g, t->r->nodes[i]);
            for (uint32_t k = 1; k < x->n_srcs && k < 3; k++)
                if ((x->op == DOP_OP_attention || x->op == DOP_OP_attn_split) &&
                    dop_node_base(t->g, x->src[k], NULL) == base)
                    t->bytes += dop_node_bytes(t->g, base) / t->g->max_s * t->depth;
        }
        return;
    }
    /* Of a table only the gathered or rotated rows are read. */
    bool table = false;
    for (uint32_t i = 0; i < t->r->n_nodes; i++) {
        const dop_node *x = dop_node_at(t->g, t->r->nodes[i]);
        table = table || (x->op == DOP_OP_gather && x->src[0] == base) || (x->op == DOP_OP_rope && x->src[2] == base);
    }
    uint64_t bytes = dop_node_bytes(t->g, base);
    if (table)
        bytes = bytes / dop_dim_value(t->g, n->shape.dim[0], 1) * t->g->max_t;
    t->bytes += bytes;
}

void
dop_region_traffic(const dop_graph *g, const dop_region *r, uint32_t depth, uint64_t *out_read, uint64_t *out_written)
{
    traffic t = {g, r, depth, 0};
    dop_region_reads(g, r, count_read, &t);
    *out_read = t.bytes;
    *out_written = 0;
    for (uint32_t i = 0; i < r->n_outs; i++) {
        const dop_node *n = dop_node_at(g, r->outs[i]);
        *out_written += n->op == DOP_OP_state_write ? dop_node_bytes(g, n->src[1]) : dop_node_bytes(g, r->outs[i]);
    }
}

/* --- kernels --------------------------------------------------------------------------------------------------------- */

dop_status
dop_intern_kernel(dop_compilation *c, const dop_kernel *k, const dop_graph *g, const dop_region *r, dop_diag *diag,
                  uint32_t *out_index)
{
    for (uint32_t i = 0; i < c->n_kernels; i++)
        if (strcmp(c->kernels[i].k.glsl, k->glsl) == 0) {
            *out_index = i;
            return DOP_OK;
        }
    if (c->n_kernels == c->cap_kernels) {
        uint32_t cap = c->cap_kernels ? c->cap_kernels * 2 : 32;
        dop_built_kernel *p = realloc(c->kernels, cap * sizeof *p);
        if (!p)
            return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
        c->kernels = p;
        c->cap_kernels = cap;
    }
    dop_built_kernel *b = &c->kernels[c->n_kernels];
    memset(b, 0, sizeof *b);
    b->k = *k;
    b->tpl = r->tpl;
    b->label = dop_region_label(g, r);
    *out_index = c->n_kernels++;
    return DOP_OK;
}

static dop_status
take_kernel(dop_compilation *c, const dop_graph *g, const dop_region *r, const dop_kernel *k, dop_built_region *b,
            dop_diag *diag)
{
    memcpy(b->grid, k->grid, sizeof b->grid);
    memcpy(b->args, k->args, sizeof b->args);
    b->n_args = k->n_args;
    return dop_intern_kernel(c, k, g, r, diag, &b->kernel);
}

static dop_status
generate_kernels(dop_compilation *c, dop_schedule *s, dop_diag *diag)
{
    const dop_graph *g = &s->g;
    /* The last one is the same kernel as after a persistent dispatch, which takes turns (persistent.h). */
    const dop_sync advance = {.kind = DOP_SYNC_ADVANCE};
    s->regions = dop_arena_alloc(&c->arena, g->n_regions * sizeof *s->regions);
    if (!s->regions)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (dop_region_id i = 1; i < g->n_regions; i++) {
        const dop_region *r = &g->regions[i];
        dop_built_region *b = &s->regions[i];
        dop_kernel k;
        bool advances = c->target.persistent && s->phase != DOP_PHASE_SCORE && i + 1 == g->n_regions;
        if (r->dead)
            continue;
        const char *variant = NULL;
        dop_status st = dop_kernel_path_choose(&c->path, s->phase, g, r, &c->target, diag, &variant);
        if (st == DOP_OK)
            st = dop_kernel_select(g, r, &c->target, variant, diag, &b->choice);
        if (st == DOP_OK) {
            static const char *const phases[] = {"decode", "prefill", "score"};
            dop_tuning_apply(&c->tuning, phases[s->phase], dop_template_name(r->tpl), dop_region_label(g, r),
                             &b->choice.tile);
        }
        if (st == DOP_OK)
            st = dop_kernel_generate(&c->templates, g, r, &c->target, &b->choice, advances ? &advance : NULL, diag, &k);
        if (st == DOP_OK)
            st = take_kernel(c, g, r, &k, b, diag);
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

typedef struct job {
    dop_compilation *c;
    pthread_mutex_t lock;
    uint32_t next, done;
    dop_diag diag; /* of the first failing kernel in table order, so that messages do not depend on timing */
    uint32_t failed;
} job;

static void *
compile_thread(void *user)
{
    job *j = user;
    for (;;) {
        pthread_mutex_lock(&j->lock);
        uint32_t i = j->next++;
        pthread_mutex_unlock(&j->lock);
        if (i >= j->c->n_kernels)
            return NULL;
        dop_built_kernel *k = &j->c->kernels[i];
        dop_diag diag = {0};
        char name[128];
        snprintf(name, sizeof name, "%s@%s", dop_variant_of(k->k.variant)->name, k->label);
        dop_status st = dop_kernel_compile(name, &k->k, &j->c->target, &diag, &k->spirv, &k->shared_bytes);
        pthread_mutex_lock(&j->lock);
        k->dropped = k->optional && st == DOP_E_INPUT;
        if (st != DOP_OK && !k->dropped && i < j->failed) {
            j->failed = i;
            j->diag = diag;
        }
        j->done++;
        if (j->c->options.progress)
            j->c->options.progress(j->c->options.user, "kernels", (double)j->done / j->c->n_kernels);
        pthread_mutex_unlock(&j->lock);
    }
}

static dop_status
compile_kernels(dop_compilation *c, dop_diag *diag)
{
    job j = {.c = c, .failed = UINT32_MAX};
    pthread_t threads[64];
    uint32_t n = c->options.threads, started = 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (n == 0)
        n = cores > 0 ? (uint32_t)cores : 1;
    if (n > 64)
        n = 64;
    pthread_mutex_init(&j.lock, NULL);
    while (started + 1 < n && pthread_create(&threads[started], NULL, compile_thread, &j) == 0)
        started++;
    compile_thread(&j);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&j.lock);
    for (uint32_t i = 0; i < c->n_schedules; i++) {
        dop_schedule *s = &c->schedules[i];
        if (s->persistent && c->kernels[s->persistent->kernel].dropped) {
            s->persistent = NULL;
            s->persistent_no = "its stages need more shared memory than a workgroup has";
        }
    }
    if (j.failed == UINT32_MAX)
        return DOP_OK;
    *diag = j.diag;
    return j.diag.code;
}

/* --- schedules ------------------------------------------------------------------------------------------------------- */

/* Regions up to the last one that a cache write needs: what follows (the last layer behind its attention, the LM head) is
 * for this step's logits only. */
static dop_status
count_body(const dop_graph *g, dop_diag *diag, uint32_t *out_n)
{
    dop_flow f = {0};
    dop_status st = dop_flow_init(g, diag, &f);
    bool *needed = calloc(g->n_regions, sizeof *needed);
    if (st == DOP_OK && !needed)
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    *out_n = 0;
    for (dop_region_id r = g->n_regions - 1; st == DOP_OK && r > 0; r--) { /* readers come later */
        const dop_region *reg = &g->regions[r];
        for (uint32_t i = 0; i < reg->n_outs; i++) {
            needed[r] = needed[r] || dop_node_at(g, reg->outs[i])->op == DOP_OP_state_write;
            for (uint32_t k = f.first_reader[reg->outs[i]]; k < f.first_reader[reg->outs[i] + 1]; k++)
                needed[r] = needed[r] || needed[f.readers[k]];
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
                                         DOP_PASS_fuse_prologue, DOP_PASS_fuse_epilogue, DOP_PASS_fuse_rows,
                                         DOP_PASS_merge_rows};
    for (size_t i = 0; i < sizeof fusing / sizeof *fusing; i++)
        o->skip[fusing[i]] = true;
}

typedef struct path_in_phase {
    dop_kernel_path *path;
    dop_phase phase;
} path_in_phase;

static bool
keep_apart(void *user, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const path_in_phase *x = user;
    return dop_kernel_path_apart(x->path, x->phase, g, a, b);
}

static dop_type
expand(void *user, const dop_graph *g, dop_node_id matmul)
{
    const path_in_phase *x = user;
    return dop_kernel_path_expand(x->path, x->phase, g, matmul);
}

static dop_status
add_schedule(dop_compilation *c, dop_phase phase, uint32_t max_t, dop_diag *diag)
{
    dop_schedule *s = &c->schedules[c->n_schedules++];
    dop_build_options build = {phase, max_t, c->ctx, c->options.kv_type, c->options.act_type};
    dop_pass_ctx cx = {.arena = &c->arena, .diag = diag, .target = &c->target, .log = &s->log};
    dop_pass_options passes = c->options.passes;
    if (dop_kernel_path_unfused(&c->path, phase))
        dop_passes_skip_fusion(&passes);
    else if (dop_kernel_path_has_apart(&c->path, phase))
        cx.keep_apart = keep_apart;
    if (dop_kernel_path_has_expand(&c->path, phase))
        cx.expand = expand;
    cx.user = &(path_in_phase){&c->path, phase};
    dop_weights *w = &c->model.weights;
    s->phase = phase;
    dop_fusion_log_init(&s->log);
    /* The builder sees the types that weights are packed with. */
    dop_type *stored = dop_arena_alloc(&c->arena, (w->n + 1) * sizeof *stored);
    if (!stored)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < w->n; i++) {
        stored[i] = w->items[i].type;
        w->items[i].type = c->packed_types[i];
    }
    dop_status st = dop_build_graph(&c->model, &build, &c->arena, diag, &s->g);
    for (uint32_t i = 0; i < w->n; i++)
        w->items[i].type = stored[i];
    if (st != DOP_OK)
        return st;
    if (phase != DOP_PHASE_DECODE)
        s->g.name = dop_arena_printf(&c->arena, "%s%u", phase == DOP_PHASE_PREFILL ? "prefill" : "score", max_t);
    if (!s->g.name)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (dop_node_id id = 1; id < s->g.n_nodes; id++)
        s->n_ops += dop_node_computed(&s->g, id);
    s->before = s->g;
    st = dop_passes_run(&cx, &passes, &s->g);
    if (st != DOP_OK)
        return st;
    s->placement = cx.placement;
    if (s->g.n_regions <= 1 || c->options.passes.stop_after >= 0)
        return DOP_OK;
    st = count_body(&s->g, diag, &s->n_body);
    if (st == DOP_OK)
        st = generate_kernels(c, s, diag);
    if (st == DOP_OK && phase == DOP_PHASE_DECODE && c->target.persistent)
        st = dop_persistent_build(c, s, diag);
    return st == DOP_OK ? dop_pack_add_graph(&c->pack, &s->g, diag) : st;
}

static dop_status
check_options(dop_compilation *c, const char *path, dop_diag *diag)
{
    const dop_arch *a = &c->model.arch;
    c->ctx = c->options.ctx;
    if (c->ctx == 0)
        c->ctx = a->ctx_train < 4096 ? a->ctx_train : 4096;
    if (a->learned_positions && c->ctx > a->ctx_train)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "--ctx %u is more than the %u positions the model learned", c->ctx,
                           a->ctx_train);
    if (c->options.n_chunks == 0) {
        /* Large chunks amortize weights on GPUs; a software device is bound by arithmetic at any size. */
        static const uint32_t gpu[] = {16, 64, 512}, cpu[] = {8, 64};
        c->options.n_chunks = c->target.cpu ? 2 : 3;
        memcpy(c->options.chunks, c->target.cpu ? cpu : gpu, c->options.n_chunks * sizeof *gpu);
    }
    for (uint32_t i = 0; i < c->options.n_chunks; i++)
        if (c->options.chunks[i] > c->ctx)
            c->options.chunks[i] = c->ctx;
    /* ascending, each once */
    for (uint32_t i = 0; i < c->options.n_chunks; i++)
        for (uint32_t k = i + 1; k < c->options.n_chunks;) {
            uint32_t x = c->options.chunks[i], y = c->options.chunks[k];
            if (x == y) {
                c->options.chunks[k] = c->options.chunks[--c->options.n_chunks];
                continue;
            }
            if (x > y) {
                c->options.chunks[i] = y;
                c->options.chunks[k] = x;
            }
            k++;
        }
    return DOP_OK;
}

/* The kernel path, and the storage types that options, path and target leave. */
static dop_status
choose_path(dop_compilation *c, dop_diag *diag)
{
    dop_compile_options *o = &c->options;
    bool f16 = (c->target.caps & DOP_CAP_f16_storage) != 0;
    dop_status st;
    if (o->kernel_path) {
        st = dop_kernel_path_load(o->kernel_path, c->templates.dir, c->model.arch.n_layers, &c->arena, diag, &c->path);
    } else {
        st = dop_kernel_path_of_model(&c->model, &c->arena, diag, &c->path);
        if (!f16) /* the model's own types are a wish */
            c->path.act = c->path.kv = DOP_TYPE_none;
    }
    if (st != DOP_OK)
        return st;
    c->path_name = c->path.name;
    if (c->path.int_dot)
        (void)dop_int_dot_parse(c->path.int_dot, &c->target.int_dot);
    if (c->target.int_dot == DOP_INT_DOT_OFF)
        c->target.caps &= ~(uint32_t)DOP_CAP_int_dot;
    if (c->path.int_dot && c->target.int_dot == DOP_INT_DOT_PREFER && !(c->target.caps & DOP_CAP_int_dot))
        return DOP_FAIL(
            diag, DOP_E_INPUT,
            "kernel path %s: int_dot: prefer needs int_dot (packed 4x8 integer dot products), which target %s "
            "lacks",
            c->path_name, c->target.name);
    if (o->kv_type == DOP_TYPE_none)
        o->kv_type = c->path.kv != DOP_TYPE_none ? c->path.kv : f16 ? DOP_TYPE_f16 : DOP_TYPE_f32;
    if (o->act_type == DOP_TYPE_none)
        o->act_type = c->path.act != DOP_TYPE_none ? c->path.act : DOP_TYPE_f32;
    if (!o->quant)
        o->quant = c->path.weights;
    if (!f16 && (o->kv_type == DOP_TYPE_f16 || o->act_type == DOP_TYPE_f16))
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "target %s lacks f16_storage (16-bit storage buffers), which an f16 %s needs; "
                        "possible: f32",
                        c->target.name, o->kv_type == DOP_TYPE_f16 ? "cache" : "activation");
    for (uint32_t i = 0; i < o->n_forces && st == DOP_OK; i++)
        st = dop_kernel_path_force(&c->path, o->forces[i].op, o->forces[i].variant, &c->arena, diag);
    return st;
}

static dop_status
lay_out_weights(dop_compilation *c, dop_diag *diag)
{
    uint64_t limit = c->options.max_alloc ? c->options.max_alloc : c->target.max_alloc;
    return dop_pack_layout(&c->pack, limit < (1ull << 31) ? limit : 1ull << 31, diag);
}

dop_status
dop_compilations_share(dop_compilation *list, uint32_t n, dop_diag *diag)
{
    dop_status st = DOP_OK;
    for (uint32_t i = 1; i < n && st == DOP_OK; i++) {
        for (uint32_t k = 0; k < list[i].n_schedules && st == DOP_OK; k++)
            st = dop_pack_add_graph(&list[0].pack, &list[i].schedules[k].g, diag);
        for (uint32_t k = 0; k < list[i].pack.n && st == DOP_OK; k++) {
            const dop_packed *own = &list[i].pack.items[k], *shared = dop_pack_find(&list[0].pack, own->name);
            if (!shared || shared->type != own->type || shared->rows != own->rows || shared->cols != own->cols)
                st = DOP_FAIL(diag, DOP_E_INPUT,
                              "targets %s and %s store weight %s in different ways: make a plan for each",
                              list[0].target.name, list[i].target.name, own->name);
        }
    }
    return st == DOP_OK && n > 1 ? lay_out_weights(&list[0], diag) : st;
}

dop_status
dop_compile(const char *model_path, const dop_compile_options *options, dop_diag *diag, dop_compilation *out)
{
    dop_compilation *c = out;
    memset(c, 0, sizeof *c);
    c->options = *options;
    dop_arena_init(&c->arena);
    dop_status st = DOP_OK;
    if (options->target)
        c->target = *options->target;
    else
        st = dop_target_resolve("auto", diag, &c->target);
    /* An f32 cache asks for the arithmetic of the reference: no f16 inputs to matrix units, no 8-bit activations. */
    if (options->kv_type == DOP_TYPE_f32) {
        c->target.caps &= ~(uint32_t)DOP_CAP_coop;
        if (c->target.int_dot == DOP_INT_DOT_PREFER)
            c->target.int_dot = DOP_INT_DOT_ALLOW;
    }
    if (st == DOP_OK)
        st = dop_checkpoint_load(model_path, &c->arena, diag, &c->model);
    if (st == DOP_OK)
        st = check_options(c, model_path, diag);
    if (st == DOP_OK)
        st = dop_templates_load(options->exe_path, &c->templates, diag);
    if (st == DOP_OK)
        st = choose_path(c, diag);
    if (st == DOP_OK) {
        c->packed_types = dop_arena_alloc(&c->arena, (c->model.weights.n + 1) * sizeof *c->packed_types);
        c->asked_types = dop_arena_alloc(&c->arena, (c->model.weights.n + 1) * sizeof *c->asked_types);
        st = c->packed_types && c->asked_types
                 ? dop_quant_choose(c->options.quant, &c->model.weights, diag, c->packed_types, c->asked_types)
                 : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    if (st == DOP_OK && options->tuning)
        st = dop_tuning_load(options->tuning, &c->tuning, diag);
    if (st != DOP_OK)
        goto error;
    dop_pack_init(&c->pack, &c->model, c->ctx);
    c->pack.threads = c->options.threads;
    st = add_schedule(c, DOP_PHASE_DECODE, 1, diag);
    for (uint32_t i = 0; i < c->options.n_chunks && st == DOP_OK; i++)
        if (c->options.chunks[i] > 1)
            st = add_schedule(c, DOP_PHASE_PREFILL, c->options.chunks[i], diag);
    /* Logits of every position: the middle size, since [T, vocab] is large. */
    uint32_t score = c->options.chunks[c->options.n_chunks > 1 ? 1 : 0];
    if (st == DOP_OK)
        st = add_schedule(c, DOP_PHASE_SCORE, score, diag);
    if (st == DOP_OK && options->passes.stop_after < 0)
        st = dop_kernel_path_check(&c->path, diag);
    if (st == DOP_OK)
        st = lay_out_weights(c, diag);
    if (st == DOP_OK && !options->no_spirv && options->passes.stop_after < 0)
        st = compile_kernels(c, diag);
error:
    if (st != DOP_OK)
        dop_compilation_finish(c);
    return st;
}

void
dop_compilation_finish(dop_compilation *c)
{
    for (uint32_t i = 0; i < c->n_kernels; i++)
        dop_buf_finish(&c->kernels[i].spirv);
    free(c->kernels);
    for (uint32_t i = 0; i < c->n_schedules; i++)
        dop_fusion_log_finish(&c->schedules[i].log);
    dop_pack_finish(&c->pack);
    dop_templates_finish(&c->templates);
    dop_checkpoint_finish(&c->model);
    dop_arena_finish(&c->arena);
    memset(c, 0, sizeof *c);
}
