#include "compiler/library/settle.h"

#include "compiler/target/target.h"
#include "frontend/facts/diffusion.h"
#include "ir/graph/cache_row.h"
#include "runtime/device/probe.h"

#include <stdlib.h>
#include <string.h>

static int
compare_sizes(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Chooses the sizes of steps that mix sequences: one row for each sequence, then a quarter of that and less for times
 * with fewer active sequences. GPUs also get a larger size, for a prompt chunk next to rows of other sequences. Models
 * that draft have several rows per sequence, so GPUs get all powers of two in between. */
static void
settle_rows(dop_compilation_options *o, bool cpu, bool drafts)
{
    static const uint32_t checked[] = {2, 4, 8}; /* row counts for a token and its drafts */
    if (o->sequences == 0)
        o->sequences = 1;
    const bool given = o->n_rows > 0;
    const uint32_t by = drafts && !cpu ? 2 : 4;
    uint32_t most = 1;
    while (most < o->sequences)
        most *= 2;
    if (!given && most > 1 && !cpu)
        o->rows[o->n_rows++] = most < 64 ? 64 : 2 * most;
    for (uint32_t i = 0; !given && most == 1 && drafts && i < (cpu ? 2u : 3u); i++)
        o->rows[o->n_rows++] = checked[i];
    for (uint32_t more = most < 64 ? 32 : most; !given && by == 2 && most > 1 && more > most; more /= 2)
        o->rows[o->n_rows++] = more;
    for (; !given && most > 1 && o->n_rows < DOP_MAX_ROWS_SIZES; most /= by)
        o->rows[o->n_rows++] = most;
    qsort(o->rows, o->n_rows, sizeof *o->rows, compare_sizes);
}

/* Sets the single step size of an invariant plan. chunks[0] applies to prompt chunks, steps of several sequences and
 * single tokens. */
static dop_status
settle_invariant(dop_compilation *c, bool cpu, dop_diag *diag)
{
    dop_compilation_options *o = &c->options;
    if (o->n_chunks > 1)
        return DOP_FAIL(diag, DOP_E_USAGE, "`invariant` has steps of one size: give one to `chunks`");
    if (o->n_chunks == 0)
        o->chunks[o->n_chunks++] = cpu ? 8 : 64;
    if (o->chunks[0] < o->sequences)
        o->chunks[0] = o->sequences;
    if (o->chunks[0] > c->ctx)
        o->chunks[0] = c->ctx;
    if (o->chunks[0] > DOP_STEP_MAX_ROWS)
        return DOP_FAIL(diag, DOP_E_USAGE, "`invariant` `chunks` %u: at most %d", o->chunks[0], DOP_STEP_MAX_ROWS);
    o->rows[0] = o->chunks[0];
    o->n_rows = o->sequences > 1 || c->model.arch.drafts > 0;
    dop_passes_hold_rows(&o->passes);
    return DOP_OK;
}

/* Chooses the step sizes of an encoder: a short text, several texts or a page, and the maximum size, because many texts
 * fill a GPU better. The largest size must hold the longest text, because each row of a text attends to all others. */
static dop_status
settle_encoder(dop_compilation *c, const dop_target *device, const char *path, dop_diag *diag)
{
    dop_compilation_options *o = &c->options;
    static const uint32_t gpu[] = {64, 512, DOP_STEP_MAX_ROWS}, cpu[] = {32, 256};
    uint32_t most = 0;
    if (o->in_parts || o->sequences > 1)
        return DOP_FAIL_IN(diag, DOP_E_USAGE, path, "%s is for models that give tokens, and this one encodes texts",
                           o->in_parts ? "`parts`" : "`sequences`");
    c->ctx = c->ctx < DOP_STEP_MAX_ROWS ? c->ctx : DOP_STEP_MAX_ROWS;
    if (c->model.diffusion) { /* all texts have one length */
        o->n_chunks = 1;
        o->chunks[0] = c->ctx;
    } else if (o->n_chunks == 0) {
        o->n_chunks = device->cpu ? 2 : 3;
        memcpy(o->chunks, device->cpu ? cpu : gpu, o->n_chunks * sizeof *o->chunks);
    }
    for (uint32_t i = 0; i < o->n_chunks; i++)
        most = o->chunks[i] > most ? o->chunks[i] : most;
    if (most < c->ctx && o->n_chunks < DOP_MAX_CHUNKS)
        o->chunks[o->n_chunks++] = c->ctx;
    else if (most < c->ctx)
        c->ctx = most;
    return DOP_OK;
}

/* Sets the image size of a diffusion model, and two sequences for the texts of classifier-free guidance. */
static dop_status
settle_draw(dop_compilation *c, const char *path, dop_diag *diag)
{
    enum { TEXTS = 2 };
    const dop_compilation_options *o = &c->options;
    const dop_diffusion *d = c->model.diffusion;
    const uint32_t scale = 1u << (d->n_decodes - 1), part = 1u << (d->n_levels - 1), of = part * scale;
    c->options.sequences = TEXTS;
    c->latents_width = o->draw_width ? o->draw_width / scale : d->sample;
    c->latents_height = o->draw_height ? o->draw_height / scale : d->sample;
    const uint64_t places = (uint64_t)(c->latents_width / part) * (c->latents_height / part);
    if (o->draw_width % of || o->draw_height % of || c->latents_width % part || places > DOP_STEP_MAX_ROWS)
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, path,
            "`size`: edges of this model's pictures are multiples of %u, and there are at most %llu pixels", of,
            (unsigned long long)DOP_STEP_MAX_ROWS * of * of);
    return DOP_OK;
}

dop_status
dop_settle_sizes(dop_compilation *c, const dop_target *device, const char *path, dop_diag *diag)
{
    const dop_arch *a = &c->model.arch;
    dop_status st;
    c->ctx = c->options.ctx;
    if (c->ctx == 0)
        c->ctx = a->ctx_train < 4096 ? a->ctx_train : 4096;
    if (a->learned_positions && c->ctx > a->ctx_train)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "`ctx` %u is more than the %u positions the model learned", c->ctx,
                           a->ctx_train);
    if (c->options.invariant && a->encoder.used)
        return DOP_FAIL_IN(diag, DOP_E_USAGE, path,
                           "`invariant` is for models that give tokens, and this one encodes texts");
    settle_rows(&c->options, device->cpu, a->drafts);
    if (c->options.invariant && (st = settle_invariant(c, device->cpu, diag)) != DOP_OK)
        return st;
    if (c->options.ctx_total && c->options.sequences == 1)
        return DOP_FAIL_IN(diag, DOP_E_USAGE, path, "`ctx_total` is for plans of several `sequences`");
    if (c->options.ctx_total && c->options.ctx_total < c->ctx)
        return DOP_FAIL_IN(diag, DOP_E_USAGE, path, "`ctx_total` %u has no room for one sequence of `ctx` %u",
                           c->options.ctx_total, c->ctx);
    if (c->options.ctx_total > (uint64_t)c->options.sequences * c->ctx) /* more than all sequences need: no limit */
        c->options.ctx_total = 0;
    if (a->encoder.used && (st = settle_encoder(c, device, path, diag)) != DOP_OK)
        return st;
    if (c->model.diffusion && (st = settle_draw(c, path, diag)) != DOP_OK)
        return st;
    if (!c->model.diffusion && c->options.draw_width)
        return DOP_FAIL_IN(diag, DOP_E_USAGE, path, "`size` is for models that draw");
    if (c->options.n_chunks == 0) {
        /* Large chunks amortize the reading of weights on GPUs. Matrix units need even larger chunks to be full, and a
         * size between few and many tokens. Software devices are compute-bound at any size. With other sequences or
         * several parts, a chunk delays others, so the largest size is left out. */
        static const uint32_t matrix[] = {16, 64, 128, 512, 1024}, gpu[] = {16, 64, 512}, cpu[] = {8, 64};
        const bool alone = c->options.sequences == 1 && !c->options.in_parts;
        c->options.n_chunks = device->cpu ? 2 : !device->matrix ? 3 : alone ? 5 : 4;
        const uint32_t *sizes = device->cpu ? cpu : device->matrix ? matrix : gpu;
        memcpy(c->options.chunks, sizes, c->options.n_chunks * sizeof *sizes);
    }
    for (uint32_t i = 0; i < c->options.n_chunks; i++)
        if (c->options.chunks[i] > c->ctx && !a->encoder.used)
            c->options.chunks[i] = c->ctx;
    /* sort and drop duplicates */
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

/* True if steps of few rows (several sequences, or a token and its drafts) may be persistent. Experts cannot be stages
 * of a persistent dispatch. */
static bool
rows_as_stages(const dop_compilation *c, const dop_target *device)
{
    const dop_arch *a = &c->model.arch;
    bool all = device->persistent && (c->options.sequences > 1 || a->drafts > 0) && !c->options.in_parts;
    for (uint32_t i = 0; i < a->n_layers; i++)
        all = all && !dop_ffn_experts(&a->layers[i].ffn);
    return all;
}

/* Sets c->target to the device without the capabilities that model and options rule out. */
static dop_status
settle_target(dop_compilation *c, const dop_target *device, dop_diag *diag)
{
    dop_target *t = dop_arena_alloc(&c->arena, sizeof *t);
    if (!t)
        return DOP_NO_MEMORY(diag);
    *t = *device;
    c->target = t;
    /* An f32 cache requests the precision of the reference: no f16 inputs to matrix units, no 8-bit activations. */
    if (c->options.kv_type == DOP_TYPE_f32) {
        t->caps &= ~(uint32_t)DOP_CAP_coop;
        if (t->int_dot == DOP_INT_DOT_PREFER)
            t->int_dot = DOP_INT_DOT_ALLOW;
    }
    if (c->options.invariant) { /* scan chunks would depend on the step, and persistent dispatches use other kernels */
        t->persistent = 0;
        t->schedule.scan_units_least = UINT32_MAX;
    }
    t->rows_as_stages = rows_as_stages(c, device);
    if (c->path.int_dot)
        (void)dop_int_dot_parse(c->path.int_dot, &t->int_dot);
    if (t->int_dot == DOP_INT_DOT_OFF)
        t->caps &= ~(uint32_t)DOP_CAP_int_dot;
    if (c->path.int_dot && t->int_dot == DOP_INT_DOT_PREFER && !(t->caps & DOP_CAP_int_dot))
        return DOP_FAIL(
            diag, DOP_E_INPUT,
            "kernel path %s: int_dot: prefer needs int_dot (packed 4x8 integer dot products), which target %s "
            "lacks",
            c->path_name, t->name);
    return DOP_OK;
}

/* Drops the measured rules of a kernel path if the device, driver or kernels differ from those of the measurement. */
static dop_status
drop_stale(dop_compilation *c, const char *file, dop_kernel_path *p, dop_diag *diag)
{
    dop_device_caps device = {.name = "no device"};
    dop_measured here;
    dop_diag ignored = {0};
    if (!p->measured.device)
        return DOP_OK;
    (void)dop_device_probe(c->options.device, &ignored, &device);
    dop_status st = dop_measured_here(&device, &c->templates, &c->arena, diag, &here);
    const char *why = st == DOP_OK ? dop_kernel_path_stale(p, &here) : NULL;
    if (why) {
        p->n_rules = 0;
        c->stale_file = file;
        c->stale = why;
    }
    return st;
}

/* Adds the rules of the command line to the kernel path: --tuning before the path's own rules, --force and --no-fuse
 * after them. */
static dop_status
add_rules(dop_compilation *c, dop_diag *diag)
{
    const dop_compilation_options *o = &c->options;
    dop_kernel_path tuned;
    if (o->kernel_path)
        DOP_RETURN_IF_ERROR(drop_stale(c, o->kernel_path, &c->path, diag));
    if (o->tuning) {
        DOP_RETURN_IF_ERROR(dop_kernel_path_tuning(o->tuning, c->model.arch.n_layers, &c->arena, diag, &tuned));
        DOP_RETURN_IF_ERROR(drop_stale(c, o->tuning, &tuned, diag));
        DOP_RETURN_IF_ERROR(dop_kernel_path_prepend(&c->path, &tuned, &c->arena, diag));
    }
    for (uint32_t i = 0; i < o->n_forces; i++)
        DOP_RETURN_IF_ERROR(dop_kernel_path_force(&c->path, o->forces[i].op, o->forces[i].variant, &c->arena, diag));
    for (uint32_t i = 0; i < o->n_apart; i++)
        DOP_RETURN_IF_ERROR(dop_kernel_path_no_fuse(&c->path, o->apart[i], &c->arena, diag));
    return DOP_OK;
}

dop_status
dop_settle_path(dop_compilation *c, const dop_target *device, dop_diag *diag)
{
    dop_compilation_options *o = &c->options;
    bool f16 = (device->caps & DOP_CAP_f16_storage) != 0;
    dop_status st;
    if (o->kernel_path) {
        st = dop_kernel_path_load(o->kernel_path, c->templates.dir, c->model.arch.n_layers, &c->arena, diag, &c->path);
    } else {
        st = dop_kernel_path_of_model(&c->model, c->templates.dir, &c->arena, diag, &c->path);
        if (!f16) /* the model's own types are only a preference */
            c->path.act = c->path.kv = DOP_TYPE_none;
    }
    if (st != DOP_OK)
        return st;
    c->path_name = c->path.name;
    if ((st = settle_target(c, device, diag)) != DOP_OK)
        return st;
    if (o->kv_type == DOP_TYPE_none)
        o->kv_type = c->path.kv != DOP_TYPE_none ? c->path.kv : f16 ? DOP_TYPE_f16 : DOP_TYPE_f32;
    if (o->act_type == DOP_TYPE_none)
        o->act_type = c->path.act != DOP_TYPE_none ? c->path.act : DOP_TYPE_f32;
    if (!o->quant)
        o->quant = c->path.weights;
    if (o->v_type == DOP_TYPE_none)
        o->v_type = o->kv_type;
    const dop_type cache = o->kv_type != DOP_TYPE_f32 ? o->kv_type : o->v_type;
    if (!f16 && (cache != DOP_TYPE_f32 || o->act_type == DOP_TYPE_f16))
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "target %s lacks f16_storage (16-bit storage buffers), which %s in %s needs; "
                        "possible: f32",
                        c->target->name, cache != DOP_TYPE_f32 ? "a cache" : "an activation",
                        cache != DOP_TYPE_f32 ? dop_type_of(cache)->name : "f16");
    const bool blocks = dop_cache_blocks(o->kv_type) || dop_cache_blocks(o->v_type);
    if (blocks && (!(c->target->caps & DOP_CAP_subgroup) || c->target->subgroup < 8))
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "a cache in blocks is written by neighbouring invocations together, and target %s has no "
                        "subgroups of 8 and more; possible: f16, f32",
                        c->target->name);
    return add_rules(c, diag);
}
