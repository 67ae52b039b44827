/* doppler/draw.h: text to image. */
#include "runtime/library/draw.h"
#include "plan/plan_names.h"

#include <doppler/text.h>

#include "media/picture/picture_write.h"
#include "runtime/library/draw_fit.h"
#include "runtime/sample/diffusion.h"
#include "runtime/step/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT, NEGATIVE }; /* sequences whose text states `denoise` reads */

static const double STRENGTH = 0.8; /* default of dop_draw_options.strength */

typedef struct drawing {
    dop_model *m;
    const dop_plan_draw *plan;
    dop_text *text;
    dop_draw_sampler sampler;
    double guidance;
    size_t n; /* number of latent values */
    uint32_t cut;
    float *x, *given, *predicted, *blank; /* [n] */
    float *time, *rows, *rows_2, *pixels;
    float *added[2];      /* by sequence: values added to the time embedding */
    dop_draw_init init;   /* initial image */
    float *clean, *noise; /* [n], only with a mask: latents of the initial image, and the noise added to them */
    dop_diag *diag;
} drawing;

/* True if the model was trained for one step without guidance (SD-Turbo, https://arxiv.org/abs/2311.17042). Such models
 * have trailing timestep spacing and were not trained on pure noise. */
static bool
is_turbo(const dop_plan_draw *p)
{
    enum { TRAILING = 2 }; /* must match dop_draw_spacing */
    return p->spacing == TRAILING && p->predicts == 0 && !p->rescaled;
}

static uint32_t
default_steps(const dop_plan_draw *p)
{
    return is_turbo(p) ? 1 : p->method == DOP_SAMPLER_LCM ? 4 : 20;
}

static double
default_guidance(const dop_plan_draw *p, uint32_t steps, dop_draw_sampler_kind kind)
{
    return steps == 1 || kind == DOP_SAMPLER_LCM || is_turbo(p) ? 1 : 7.5;
}

/* Returns the strength; with a mask the default is 1, so that masked pixels keep nothing of the image. */
static double
strength_of(const dop_draw_options *o)
{
    return o->strength > 0 ? o->strength : o->mask ? 1 : STRENGTH;
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
                                .rows_2 = p->text_2,
                                .pooled = p->pooled,
                                .added = p->text_2 ? (uint32_t)dop_draw_added(p) : 0,
                                .steps = default_steps(p),
                                .guidance = default_guidance(p, default_steps(p), (dop_draw_sampler_kind)p->method),
                                .sampler = dop_sampler_name((dop_draw_sampler_kind)p->method),
                                .takes_pictures = dop_plan_program_of(&model->plan, DOP_SCHED_ENCODE_PIXELS) != NULL};
    return p != NULL;
}

/* Computes the ids of a text, padded to the model's row count. A text that is too long is truncated, but keeps its end
 * token. *out_end: position of that token. */
static dop_status
encode_draw_text(drawing *d, const char *text, uint32_t *ids, uint32_t *out_end)
{
    const uint32_t n = d->plan->context_rows;
    uint32_t *all = NULL;
    size_t count = 0;
    dop_status st = dop_text_encode(d->text, text, strlen(text), DOP_TEXT_ADD_SPECIAL, d->diag, &all, &count);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = i < count ? all[i] : d->plan->pad;
    *out_end = (uint32_t)(count > n ? n : count ? count : 1) - 1;
    if (count > n) {
        ids[n - 1] = all[count - 1];
        d->cut += (uint32_t)(count - n);
    }
    free(all);
    return DOP_OK;
}

/* Appends the second encoder's columns to those of the first, and computes its part of the time embedding, together
 * with the image size. */
static dop_status
read_second(drawing *d, uint32_t *ids, uint32_t end, uint32_t sequence)
{
    const dop_plan_draw *p = d->plan;
    const uint32_t n = p->context_rows, wide = p->text_2 + p->pooled, first = p->context - p->text_2;
    const uint32_t sizes[] = {p->height * p->scale, p->width * p->scale, 0, 0,
                              p->height * p->scale, p->width * p->scale};
    for (uint32_t i = end + 1; i < n; i++)
        ids[i] = p->pad_2;
    dop_status st = dop_program_run(d->m, "encode_2", &(dop_value){"tokens", ids, n}, 1,
                                    &(dop_value){"rows", d->rows_2, dop_draw_rows_2(p)}, 1, d->diag);
    for (uint32_t i = n; i-- > 0 && st == DOP_OK;) { /* spread the narrower rows of the first encoder, last row first */
        memmove(d->rows + (size_t)i * p->context, d->rows + (size_t)i * first, first * sizeof *d->rows);
        memcpy(d->rows + (size_t)i * p->context + first, d->rows_2 + (size_t)i * wide, p->text_2 * sizeof *d->rows);
    }
    float *added = d->added[sequence];
    memcpy(added, d->rows_2 + (size_t)end * wide + p->text_2, p->pooled * sizeof *added);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        dop_time_embedding(sizes[i], p->cosine_first, p->shift, added + p->pooled + i * p->size_values, p->size_values);
    return st;
}

/* Computes the text states of a sequence; text NULL: the empty text. */
static dop_status
read_draw_text(drawing *d, const char *text, uint32_t sequence)
{
    const dop_plan_draw *p = d->plan;
    const uint32_t n = p->context_rows;
    const size_t values = (size_t)n * p->context, own = (size_t)n * (p->context - p->text_2);
    uint32_t *ids = calloc(n, sizeof *ids), end = 0;
    dop_status st = DOP_OK;
    DOP_TRY(ids ? encode_draw_text(d, text ? text : "", ids, &end) : DOP_NO_MEMORY(d->diag));
    DOP_TRY(dop_program_run(d->m, "encode", &(dop_value){"tokens", ids, n}, 1, &(dop_value){"rows", d->rows, own}, 1,
                            d->diag));
    if (p->text_2)
        DOP_TRY(read_second(d, ids, end, sequence));
    if (!text && p->blank_zero) {
        memset(d->rows, 0, values * sizeof *d->rows);
        memset(d->added[sequence], 0, p->pooled * sizeof(float));
    }
    const dop_value in[] = {{"context", d->rows, values}, {"sequence", &sequence, 1}};
    DOP_TRY(dop_program_run(d->m, "context", in, 2, NULL, 0, d->diag));
error:
    free(ids);
    return st;
}

static dop_status
predict_noise(drawing *d, uint32_t sequence, float *out)
{
    const dop_value in[] = {{"latents", d->given, d->n},
                            {"time", d->time, d->plan->times},
                            {"sequence", &sequence, 1},
                            {"added", d->added[sequence], dop_draw_added(d->plan)}};
    return dop_program_run(d->m, "denoise", in, d->plan->text_2 ? 4 : 3, &(dop_value){"predicted", out, d->n}, 1,
                           d->diag);
}

/* With a mask: resets latent positions without drawn pixels to the initial image plus noise of the level before step i
 * (blended latent diffusion, https://arxiv.org/abs/2206.02779). */
static void
keep_places(drawing *d, uint32_t i)
{
    const dop_plan_draw *p = d->plan;
    for (size_t k = 0; k < d->n && d->init.places; k++)
        if (!d->init.places[k / p->latents])
            d->x[k] = (float)((double)d->clean[k] + d->sampler.levels[i] * (double)d->noise[k]);
}

/* Runs one step, with classifier-free guidance unless it is 1 (https://arxiv.org/abs/2207.12598). */
static dop_status
step_drawing(drawing *d, uint32_t i)
{
    dop_sampler_input(&d->sampler, i, d->x, d->n, d->given);
    dop_time_embedding(d->sampler.times[i], d->plan->cosine_first, d->plan->shift, d->time, d->plan->times);
    dop_status st = DOP_OK;
    DOP_TRY(predict_noise(d, PROMPT, d->predicted));
    if (d->guidance != 1)
        DOP_TRY(predict_noise(d, NEGATIVE, d->blank));
    for (size_t k = 0; k < d->n && d->guidance != 1; k++)
        d->predicted[k] = (float)((double)d->blank[k] + d->guidance * ((double)d->predicted[k] - (double)d->blank[k]));
    dop_sampler_step(&d->sampler, i, d->predicted, d->x, d->n);
error:
    keep_places(d, i + 1);
    return st;
}

static dop_status
decode_drawing(drawing *d, dop_drawing *out)
{
    const dop_plan_draw *p = d->plan;
    const size_t n_pixels = dop_draw_pixels(p), places = n_pixels / p->colours;
    for (size_t i = 0; i < d->n; i++)
        d->x[i] = (float)((double)d->x[i] / p->scaling + p->moved);
    dop_status st = dop_program_run(d->m, "decode", &(dop_value){"latents", d->x, d->n}, 1,
                                    &(dop_value){"pixels", d->pixels, n_pixels}, 1, d->diag);
    out->rgb = st == DOP_OK ? malloc(places * 3) : NULL;
    if (st == DOP_OK && !out->rgb)
        return DOP_NO_MEMORY(d->diag);
    for (size_t i = 0; i < places * 3 && st == DOP_OK; i++) {
        const float v = d->pixels[i / 3 * p->colours + (p->colours < 3 ? 0 : i % 3)];
        if (!isfinite(v))
            st = DOP_FAIL(d->diag, DOP_E_INPUT, "the model made values that are not finite");
        out->rgb[i] = (uint8_t)lrint(255 * fmin(fmax(((double)v + 1) / 2, 0), 1));
        if (d->init.drawn && !d->init.drawn[i / 3])
            out->rgb[i] = d->init.picture.rgb[i];
    }
    return st;
}

static dop_status
allocate_drawing(drawing *d)
{
    d->x = calloc(6 * d->n, sizeof *d->x);
    d->time = calloc(d->plan->times, sizeof *d->time);
    d->rows = calloc((size_t)d->plan->context_rows * d->plan->context, sizeof *d->rows);
    d->pixels = calloc(dop_draw_pixels(d->plan), sizeof *d->pixels);
    if (!d->x || !d->time || !d->rows || !d->pixels)
        return DOP_NO_MEMORY(d->diag);
    if (d->plan->text_2) {
        d->rows_2 = calloc(dop_draw_rows_2(d->plan), sizeof *d->rows_2);
        d->added[PROMPT] = calloc(2 * dop_draw_added(d->plan), sizeof *d->added[PROMPT]);
        if (!d->rows_2 || !d->added[PROMPT])
            return DOP_NO_MEMORY(d->diag);
        d->added[NEGATIVE] = d->added[PROMPT] + dop_draw_added(d->plan);
    }
    d->given = d->x + d->n;
    d->predicted = d->given + d->n;
    d->blank = d->predicted + d->n;
    d->clean = d->blank + d->n;
    d->noise = d->clean + d->n;
    return DOP_OK;
}

static dop_status
go_on(const dop_draw_options *o, uint32_t step_of, uint32_t n, dop_diag *diag)
{
    return !o->progress || o->progress(o->user, step_of, n)
               ? DOP_OK
               : DOP_FAIL(diag, DOP_E_CANCELLED, "the drawing was stopped");
}

/* Encodes the initial image: d->x gets the encoder's means, scaled for the model. */
static dop_status
read_init(drawing *d, const dop_draw_options *o)
{
    const dop_plan_draw *p = d->plan;
    const size_t n_pixels = dop_draw_pixels(p), places = d->n / p->latents;
    float *moments = calloc(2 * d->n, sizeof *moments);
    dop_status st = DOP_OK;
    DOP_TRY(moments ? dop_draw_init_read(p, o, d->diag, &d->init) : DOP_NO_MEMORY(d->diag));
    for (size_t i = 0; i < n_pixels; i++) {
        const uint8_t *rgb = &d->init.picture.rgb[i / p->colours * 3];
        const size_t k = i % p->colours;
        const double grey = (rgb[0] + rgb[1] + rgb[2]) / 3.0;
        d->pixels[i] = (float)((p->colours < 3 ? grey : k < 3 ? rgb[k] : 255) / 127.5 - 1);
    }
    DOP_TRY(dop_program_run(d->m, "encode_picture", &(dop_value){"pixels", d->pixels, n_pixels}, 1,
                            &(dop_value){"moments", moments, 2 * d->n}, 1, d->diag));
    for (size_t i = 0; i < places; i++)
        for (size_t k = 0; k < p->latents; k++)
            d->x[i * p->latents + k] = (float)(((double)moments[i * 2 * p->latents + k] - p->moved) * p->scaling);
error:
    free(moments);
    return st;
}

/* Sets the initial latents: noise, added to those of the initial image if there is one. */
static dop_status
begin_drawing(drawing *d, const dop_draw_options *o)
{
    dop_status st = o->init ? read_init(d, o) : DOP_OK;
    dop_sampler_noise(&d->sampler, d->given, d->n);
    memcpy(d->clean, d->x, d->n * sizeof *d->x);
    memcpy(d->noise, d->given, d->n * sizeof *d->x);
    for (size_t i = 0; i < d->n && st == DOP_OK; i++)
        d->x[i] = (float)((o->init ? (double)d->x[i] : 0) + (double)d->given[i] * d->sampler.first);
    return st;
}

static dop_status
run_drawing(drawing *d, const dop_draw_options *o, dop_drawing *out)
{
    DOP_RETURN_IF_ERROR(allocate_drawing(d));
    DOP_RETURN_IF_ERROR(read_draw_text(d, o->text, PROMPT));
    if (d->guidance != 1)
        DOP_RETURN_IF_ERROR(read_draw_text(d, o->negative, NEGATIVE));
    DOP_RETURN_IF_ERROR(begin_drawing(d, o));
    for (uint32_t i = 0; i < d->sampler.n_steps; i++) {
        DOP_RETURN_IF_ERROR(go_on(o, i, d->sampler.n_steps, d->diag));
        DOP_RETURN_IF_ERROR(step_drawing(d, i));
    }
    DOP_RETURN_IF_ERROR(go_on(o, d->sampler.n_steps, d->sampler.n_steps, d->diag));
    return decode_drawing(d, out);
}

/* Checks the options and resolves defaults. */
static dop_status
settle_draw_options(const dop_model *model, const dop_draw_options *o, dop_diag *diag, dop_draw_sampler *out_sampler,
                    double *out_guidance)
{
    const dop_plan_draw *p = model->plan.draw;
    if (!p)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, model->plan.path, "the plan draws no pictures");
    dop_draw_sampler_kind kind = (dop_draw_sampler_kind)p->method;
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
    if (o->mask && !o->init)
        return DOP_FAIL(diag, DOP_E_INPUT, "a mask says where to draw in a picture to begin with, and there is none");
    if (!(o->strength >= 0 && o->strength <= 1))
        return DOP_FAIL(diag, DOP_E_INPUT, "strength is 0 to 1");
    if (o->init && !dop_plan_program_of(&model->plan, DOP_SCHED_ENCODE_PIXELS))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, model->plan.path,
                           "the plan begins with no picture: its model has no encoder of pictures");
    *out_guidance = o->guidance > 0 ? o->guidance : default_guidance(p, steps, kind);
    const dop_noise_facts facts = {.train_steps = p->train_steps,
                                   .offset = p->offset,
                                   .beta_first = p->beta_first,
                                   .beta_last = p->beta_last,
                                   .beta_roots = (uint8_t)p->beta_roots,
                                   .spacing = (uint8_t)p->spacing,
                                   .predicts = (uint8_t)p->predicts,
                                   .rescaled = p->rescaled != 0,
                                   .last_first = p->last_first != 0};
    dop_sampler_begin(&facts, kind, steps, o->seed, out_sampler);
    if (o->init)
        dop_sampler_start_at(out_sampler, strength_of(o));
    return DOP_OK;
}

dop_status
dop_draw_check(const dop_model *model, const dop_draw_options *options, dop_diag *diag)
{
    dop_draw_sampler *sampler = calloc(1, sizeof *sampler);
    double guidance;
    const dop_status st = sampler ? settle_draw_options(model, options, diag, sampler, &guidance) : DOP_NO_MEMORY(diag);
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
        return DOP_NO_MEMORY(diag);
    *d = (drawing){.m = model, .plan = model->plan.draw, .diag = diag};
    dop_status st = settle_draw_options(model, options, diag, &d->sampler, &d->guidance);
    if (st == DOP_OK) {
        d->n = dop_draw_latents(d->plan);
        st = dop_text_of_model(model, diag, &d->text);
    }
    if (st == DOP_OK)
        st = run_drawing(d, options, out_drawing);
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
    dop_draw_init_finish(&d->init);
    free(d->x);
    free(d->time);
    free(d->rows);
    free(d->rows_2);
    free(d->added[PROMPT]);
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
    if (o->init)
        dop_buf_printf(&text, ", Denoising strength: %g", strength_of(o));
    *out_text = text.failed ? NULL : text.data;
    if (text.failed)
        dop_buf_finish(&text);
    return *out_text ? DOP_OK : DOP_NO_MEMORY(diag);
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
