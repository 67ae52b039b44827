/* doppler/draw.h: from a text to a picture. */
#include "runtime/library/draw.h"

#include <doppler/text.h>

#include "runtime/media/picture_write.h"
#include "runtime/sample/diffusion.h"
#include "runtime/step/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT, NEGATIVE }; /* sequences of the states that denoise reads */

typedef struct drawing {
    dop_model *m;
    const dop_plan_draw *plan;
    dop_text *text;
    dop_draw_sampler sampler;
    double guidance;
    size_t n; /* values of latents */
    uint32_t cut;
    float *x, *given, *predicted, *blank; /* [n] */
    float *time, *rows, *pixels;
    dop_diag *diag;
} drawing;

static uint32_t
default_steps(const dop_plan_draw *p)
{
    enum { STEPS = 20, TRAILING = 2 }; /* dop_draw_spacing */
    return p->spacing == TRAILING ? 1 : STEPS;
}

/* Models that draw in one step, or by consistency, were trained to do so without guidance. */
static double
default_guidance(uint32_t steps, dop_draw_sampler_kind kind)
{
    return steps == 1 || kind == DOP_SAMPLER_LCM ? 1 : 7.5;
}

bool
dop_model_draw_facts(const dop_model *model, dop_draw_facts *out)
{
    const dop_plan_draw *p = model->plan.draw;
    if (p)
        *out = (dop_draw_facts){.width = p->width * p->scale,
                                .height = p->height * p->scale,
                                .latents_width = p->width,
                                .latents_height = p->height,
                                .latents = p->latents,
                                .times = p->times,
                                .context = p->context,
                                .context_rows = p->context_rows,
                                .colours = p->colours,
                                .steps = default_steps(p),
                                .guidance = default_guidance(default_steps(p), DOP_SAMPLER_EULER)};
    return p != NULL;
}

/* The ids of a text, filled up to the rows that the model reads; what is too long loses its end, but keeps the end's own token. */
static dop_status
tokens_of(drawing *d, const char *text, uint32_t *ids)
{
    const uint32_t n = d->plan->context_rows;
    uint32_t *all = NULL;
    size_t count = 0;
    dop_status st = dop_text_encode(d->text, text, strlen(text), DOP_TEXT_ADD_SPECIAL, d->diag, &all, &count);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = i < count ? all[i] : d->plan->pad;
    if (count > n) {
        ids[n - 1] = all[count - 1];
        d->cut += (uint32_t)(count - n);
    }
    free(all);
    return DOP_OK;
}

/* Leaves the states of a text for a sequence. */
static dop_status
read_text(drawing *d, const char *text, uint32_t sequence)
{
    const uint32_t n = d->plan->context_rows;
    uint32_t *ids = calloc(n, sizeof *ids);
    dop_status st = ids ? tokens_of(d, text, ids) : DOP_FAIL(d->diag, DOP_E_NOMEM, "out of memory");
    const size_t values = (size_t)n * d->plan->context;
    if (st == DOP_OK)
        st = dop_program_run(d->m, "encode", &(dop_value){"tokens", ids, n}, 1, &(dop_value){"rows", d->rows, values},
                             1, d->diag);
    const dop_value in[] = {{"context", d->rows, values}, {"sequence", &sequence, 1}};
    if (st == DOP_OK)
        st = dop_program_run(d->m, "context", in, 2, NULL, 0, d->diag);
    free(ids);
    return st;
}

static dop_status
predict(drawing *d, uint32_t sequence, float *out)
{
    const dop_value in[] = {{"latents", d->given, d->n}, {"time", d->time, d->plan->times}, {"sequence", &sequence, 1}};
    return dop_program_run(d->m, "denoise", in, 3, &(dop_value){"predicted", out, d->n}, 1, d->diag);
}

/* One step, with what the model predicts for the text, and with guidance what it predicts without (https://arxiv.org/abs/2207.12598). */
static dop_status
step(drawing *d, uint32_t i)
{
    dop_sampler_input(&d->sampler, i, d->x, d->n, d->given);
    dop_time_embedding(d->sampler.times[i], d->plan->cosine_first, d->plan->shift, d->time, d->plan->times);
    dop_status st = predict(d, PROMPT, d->predicted);
    if (st == DOP_OK && d->guidance != 1)
        st = predict(d, NEGATIVE, d->blank);
    for (size_t k = 0; k < d->n && st == DOP_OK && d->guidance != 1; k++)
        d->predicted[k] = (float)((double)d->blank[k] + d->guidance * ((double)d->predicted[k] - (double)d->blank[k]));
    if (st == DOP_OK)
        dop_sampler_step(&d->sampler, i, d->predicted, d->x, d->n);
    return st;
}

static dop_status
decode(drawing *d, dop_drawing *out)
{
    const dop_plan_draw *p = d->plan;
    const size_t n_pixels = dop_draw_pixels(p), places = n_pixels / p->colours;
    for (size_t i = 0; i < d->n; i++)
        d->x[i] = (float)((double)d->x[i] / p->scaling + p->moved);
    dop_status st = dop_program_run(d->m, "decode", &(dop_value){"latents", d->x, d->n}, 1,
                                    &(dop_value){"pixels", d->pixels, n_pixels}, 1, d->diag);
    out->rgb = st == DOP_OK ? malloc(places * 3) : NULL;
    if (st == DOP_OK && !out->rgb)
        return DOP_FAIL(d->diag, DOP_E_NOMEM, "out of memory");
    for (size_t i = 0; i < places * 3 && st == DOP_OK; i++) {
        const float v = d->pixels[i / 3 * p->colours + (p->colours < 3 ? 0 : i % 3)];
        if (!isfinite(v))
            st = DOP_FAIL(d->diag, DOP_E_INPUT, "the model made values that are not finite");
        out->rgb[i] = (uint8_t)lrint(255 * fmin(fmax(((double)v + 1) / 2, 0), 1));
    }
    return st;
}

static dop_status
allocate(drawing *d)
{
    d->x = calloc(4 * d->n, sizeof *d->x);
    d->time = calloc(d->plan->times, sizeof *d->time);
    d->rows = calloc((size_t)d->plan->context_rows * d->plan->context, sizeof *d->rows);
    d->pixels = calloc(dop_draw_pixels(d->plan), sizeof *d->pixels);
    if (!d->x || !d->time || !d->rows || !d->pixels)
        return DOP_FAIL(d->diag, DOP_E_NOMEM, "out of memory");
    d->given = d->x + d->n;
    d->predicted = d->given + d->n;
    d->blank = d->predicted + d->n;
    return DOP_OK;
}

static dop_status
go_on(const dop_draw_options *o, uint32_t step_of, uint32_t n, dop_diag *diag)
{
    return !o->progress || o->progress(o->user, step_of, n)
               ? DOP_OK
               : DOP_FAIL(diag, DOP_E_CANCELLED, "the drawing was stopped");
}

static dop_status
draw(drawing *d, const dop_draw_options *o, dop_drawing *out)
{
    dop_status st = allocate(d);
    if (st == DOP_OK)
        st = read_text(d, o->text, PROMPT);
    if (st == DOP_OK && d->guidance != 1)
        st = read_text(d, o->negative ? o->negative : "", NEGATIVE);
    if (st != DOP_OK)
        return st;
    dop_sampler_noise(&d->sampler, d->x, d->n);
    for (size_t i = 0; i < d->n; i++)
        d->x[i] = (float)((double)d->x[i] * d->sampler.first);
    for (uint32_t i = 0; i < d->sampler.n_steps && st == DOP_OK; i++) {
        st = go_on(o, i, d->sampler.n_steps, d->diag);
        if (st == DOP_OK)
            st = step(d, i);
    }
    if (st == DOP_OK)
        st = go_on(o, d->sampler.n_steps, d->sampler.n_steps, d->diag);
    return st == DOP_OK ? decode(d, out) : st;
}

/* Resolves the options; `out` gets what is used. */
static dop_status
settle(const dop_model *model, const dop_draw_options *o, dop_diag *diag, dop_draw_sampler *out_sampler,
       double *out_guidance)
{
    const dop_plan_draw *p = model->plan.draw;
    dop_draw_sampler_kind kind = DOP_SAMPLER_EULER;
    if (!p)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, model->plan.path, "the plan draws no pictures");
    const uint32_t most = p->train_steps < DOP_DRAW_MAX_STEPS ? p->train_steps : DOP_DRAW_MAX_STEPS;
    const uint32_t steps = o->steps ? o->steps : default_steps(p);
    if (!o->text)
        return DOP_FAIL(diag, DOP_E_INPUT, "a picture needs a text");
    if (steps > most)
        return DOP_FAIL(diag, DOP_E_INPUT, "%u steps: the model has 1 to %u", steps, most);
    if (o->sampler && !dop_sampler_by_name(o->sampler, &kind))
        return DOP_FAIL(diag, DOP_E_INPUT, "no sampler \"%.40s\": euler, ancestral, ddim, lcm", o->sampler);
    if (!(o->guidance >= 0 && o->guidance <= 100))
        return DOP_FAIL(diag, DOP_E_INPUT, "guidance is 0 to 100");
    *out_guidance = o->guidance > 0 ? o->guidance : default_guidance(steps, kind);
    const dop_noise_facts facts = {.train_steps = p->train_steps,
                                   .offset = p->offset,
                                   .beta_first = p->beta_first,
                                   .beta_last = p->beta_last,
                                   .beta_roots = (uint8_t)p->beta_roots,
                                   .spacing = (uint8_t)p->spacing,
                                   .predicts = (uint8_t)p->predicts};
    dop_sampler_begin(&facts, kind, steps, o->seed, out_sampler);
    return DOP_OK;
}

dop_status
dop_draw_check(const dop_model *model, const dop_draw_options *options, dop_diag *diag)
{
    dop_draw_sampler *sampler = calloc(1, sizeof *sampler);
    double guidance;
    const dop_status st =
        sampler ? settle(model, options, diag, sampler, &guidance) : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    free(sampler);
    return st;
}

dop_status
dop_draw_picture(dop_model *model, const dop_draw_options *options, dop_diag *diag, dop_drawing *out_drawing)
{
    drawing *d = calloc(1, sizeof *d);
    *out_drawing = (dop_drawing){0};
    dop_diag_clear(diag);
    if (!d)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    *d = (drawing){.m = model, .plan = model->plan.draw, .diag = diag};
    dop_status st = settle(model, options, diag, &d->sampler, &d->guidance);
    if (st == DOP_OK) {
        d->n = dop_draw_latents(d->plan);
        st = dop_text_of_model(model, diag, &d->text);
    }
    if (st == DOP_OK)
        st = draw(d, options, out_drawing);
    if (st == DOP_OK)
        *out_drawing = (dop_drawing){.width = d->plan->width * d->plan->scale,
                                     .height = d->plan->height * d->plan->scale,
                                     .rgb = out_drawing->rgb,
                                     .steps = d->sampler.n_steps,
                                     .cut = d->cut,
                                     .guidance = d->guidance,
                                     .sampler = dop_sampler_name(d->sampler.kind)};
    else {
        free(out_drawing->rgb);
        *out_drawing = (dop_drawing){0};
    }
    dop_text_destroy(d->text);
    free(d->x);
    free(d->time);
    free(d->rows);
    free(d->pixels);
    free(d);
    return st;
}

dop_status
dop_drawing_parameters(const dop_drawing *d, const dop_draw_options *o, dop_diag *diag, char **out_text)
{
    dop_buf text = {0};
    dop_diag_clear(diag);
    dop_buf_puts(&text, o->text);
    if (o->negative && o->negative[0])
        dop_buf_printf(&text, "\nNegative prompt: %s", o->negative);
    dop_buf_printf(&text, "\nSteps: %u, Sampler: %s, CFG scale: %g, Seed: %llu, Size: %ux%u", d->steps, d->sampler,
                   d->guidance, (unsigned long long)o->seed, d->width, d->height);
    *out_text = text.failed ? NULL : text.data;
    if (text.failed)
        dop_buf_finish(&text);
    return *out_text ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}

dop_status
dop_drawing_png(const dop_drawing *d, const char *text, dop_diag *diag, void **out_bytes, size_t *out_n)
{
    const dop_picture picture = {d->width, d->height, d->rgb};
    const dop_picture_text parameters = {"parameters", text};
    dop_buf png = {0};
    dop_diag_clear(diag);
    *out_bytes = NULL;
    *out_n = 0;
    const dop_status st = dop_picture_write_png(&picture, &parameters, text != NULL, diag, &png);
    if (st != DOP_OK) {
        dop_buf_finish(&png);
        return st;
    }
    *out_bytes = png.data;
    *out_n = png.size;
    return DOP_OK;
}
