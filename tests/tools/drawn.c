/* Do the programs of a diffusion model's plan compute what tests/diffusion/reference.py does?
 *
 *   drawn PLAN MODEL BOUND    (MODEL: a folder with expected.json and text.f32, noise.f32, given.f32, predicted.f32, latents.f32,
 *                             picture.f32; for a plan that begins with pictures also init.f32, moments.f32, init_euler.f32,
 *                             init_ddim.f32)
 *
 * The text's states, each program, and all steps from the noise to the latents, with guidance where the case has it.
 * BOUND is a share of the largest value.  Each program is run twice and has to give the same bits; the text is in the second sequence. */
#include <doppler/draw.h>

#include "runtime/sample/diffusion.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *
read_floats(const char *dir, const char *name, size_t n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.f32", dir, name);
    FILE *f = fopen(path, "rb");
    float *all = calloc(n, sizeof *all);
    if (!f || !all || fread(all, sizeof *all, n, f) != n || fgetc(f) != EOF) {
        fprintf(stderr, "%s has not %zu values\n", path, n);
        exit(2);
    }
    fclose(f);
    return all;
}

static void
must(dop_status st, const dop_diag *diag)
{
    if (st == DOP_OK)
        return;
    fprintf(stderr, "%s\n", diag->message);
    exit(1);
}

static bool
near(const char *what, const float *got, const float *want, size_t n, double bound)
{
    double most = 0, far = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)want[i]));
        far = isfinite(got[i]) ? fmax(far, fabs((double)got[i] - (double)want[i])) : (double)INFINITY;
    }
    printf("%s: %.3g of the largest value\n", what, far / most);
    return far <= bound * most;
}

static bool
runs(dop_model *m, const char *program, const dop_value *in, size_t n_in, const char *output, const float *want,
     size_t n, double bound)
{
    dop_diag diag = {0};
    float *out[2] = {calloc(n, sizeof(float)), calloc(n, sizeof(float))};
    for (int i = 0; i < 2; i++)
        must(dop_program_run(m, program, in, n_in, &(dop_value){output, out[i], n}, 1, &diag), &diag);
    const bool same = memcmp(out[0], out[1], n * sizeof(float)) == 0;
    if (!same)
        printf("%s: two runs differ\n", program);
    const bool ok = near(program, out[0], want, n, bound) && same;
    free(out[0]);
    free(out[1]);
    return ok;
}

/* The ids of a list; blank: those of a text without words.  *out_end: the place of the id that ends texts, which is the vocabulary's
 * last. */
static uint32_t *
ids_of(const dop_draw_facts *f, const json_t *ids, bool blank, size_t *out_end)
{
    uint32_t *list = calloc(f->context_rows, sizeof *list);
    const size_t count = json_array_size(ids);
    size_t end = 0;
    for (size_t i = 0; i < count && i < f->context_rows; i++) {
        list[i] = (uint32_t)json_integer_value(json_array_get(ids, i));
        end = list[i] > list[end] ? i : end;
    }
    if (blank) {
        list[1] = list[end];
        for (uint32_t i = 2; i < f->context_rows; i++)
            list[i] = list[f->context_rows - 1];
        end = 1;
    }
    *out_end = end;
    return list;
}

/* States of the case's text for a sequence; added: with a second text encoder, what joins the embedding of the time. */
static void
read_text(dop_model *m, const dop_draw_facts *f, const json_t *root, bool blank, uint32_t sequence, float *rows,
          float *added)
{
    dop_diag diag = {0};
    size_t end;
    const size_t n = f->context_rows, first = f->context - f->rows_2, wide = f->rows_2 + f->pooled;
    uint32_t *list = ids_of(f, json_object_get(root, "ids"), blank, &end);
    float *own = calloc(n * first, sizeof *own), *more = calloc(n * (wide + 1), sizeof *more);
    must(dop_program_run(m, "encode", &(dop_value){"tokens", list, n}, 1, &(dop_value){"rows", own, n * first}, 1,
                         &diag),
         &diag);
    free(list);
    if (f->rows_2) {
        list = ids_of(f, json_object_get(root, "ids_2"), blank, &end);
        must(dop_program_run(m, "encode_2", &(dop_value){"tokens", list, n}, 1, &(dop_value){"rows", more, n * wide}, 1,
                             &diag),
             &diag);
        free(list);
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(rows + i * f->context, own + i * first, first * sizeof *rows);
        memcpy(rows + i * f->context + first, more + i * wide, f->rows_2 * sizeof *rows);
    }
    if (f->rows_2) {
        const double sizes[] = {f->height, f->width, 0, 0, f->height, f->width};
        const uint32_t each = (f->added - f->pooled) / 6;
        memcpy(added, more + end * wide + f->rows_2, f->pooled * sizeof *added);
        for (size_t i = 0; i < 6; i++)
            dop_time_embedding(sizes[i], true, 0, added + f->pooled + i * each, each);
    }
    const dop_value states[] = {{"context", rows, n * f->context}, {"sequence", &sequence, 1}};
    must(dop_program_run(m, "context", states, 2, NULL, 0, &diag), &diag);
    free(own);
    free(more);
}

typedef struct how {
    uint8_t predicts, spacing;
    dop_draw_sampler_kind kind;
    const float *start; /* latents that x is noise for; NULL: none */
    float *added[2];    /* of the text without words, and of the case's */
} how;

/* From noise x to latents in the case's steps. */
static void
draw(dop_model *m, const dop_draw_facts *f, const json_t *root, const how *h, float *x, size_t n)
{
    dop_diag diag = {0};
    dop_draw_sampler s;
    const double guidance = json_number_value(json_object_get(root, "guidance"));
    const dop_noise_facts facts = {1000, 1, 0.00085, 0.012, 1, h->spacing, h->predicts, false, h->spacing == 0};
    float *given = calloc(3 * n, sizeof *given), *e = given + n, *blank = e + n, *time = calloc(f->times, sizeof *time);
    const char *steps = h->start ? "init_steps" : "steps";
    dop_sampler_begin(&facts, h->kind, (uint32_t)json_integer_value(json_object_get(root, steps)), 1, &s);
    if (h->start)
        dop_sampler_start_at(&s, json_number_value(json_object_get(root, "strength")));
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] * s.first + (h->start ? (double)h->start[i] : 0));
    for (uint32_t i = 0; i < s.n_steps; i++) {
        dop_sampler_input(&s, i, x, n, given);
        dop_time_embedding(s.times[i], true, 0, time, f->times);
        for (uint32_t q = guidance != 1 ? 0 : 1; q < 2; q++) {
            const dop_value in[] = {
                {"latents", given, n}, {"time", time, f->times}, {"sequence", &q, 1}, {"added", h->added[q], f->added}};
            must(dop_program_run(m, "denoise", in, f->added ? 4 : 3, &(dop_value){"predicted", q ? e : blank, n}, 1,
                                 &diag),
                 &diag);
        }
        for (size_t k = 0; k < n && guidance != 1; k++)
            e[k] = (float)((double)blank[k] + guidance * ((double)e[k] - (double)blank[k]));
        dop_sampler_step(&s, i, e, x, n);
    }
    free(given);
    free(time);
}

/* Drawing that begins with a picture: its latents, and all steps by two samplers. */
static bool
from_picture(dop_model *m, const dop_draw_facts *f, const char *dir, const json_t *root, how h, size_t n, double bound)
{
    const size_t n_pixels = (size_t)f->width * f->height * f->colours;
    float *pixels = read_floats(dir, "init", n_pixels), *moments = read_floats(dir, "moments", 2 * n),
          *start = calloc(n, sizeof *start);
    bool ok = runs(m, "encode_picture", &(dop_value){"pixels", pixels, n_pixels}, 1, "moments", moments, 2 * n, bound);
    for (size_t i = 0; i < n; i++)
        start[i] = moments[i / f->latents * 2 * f->latents + i % f->latents] * 0.18215f;
    h.start = start;
    for (int ddim = 0; ddim < 2; ddim++) {
        float *x = read_floats(dir, "noise", n), *want = read_floats(dir, ddim ? "init_ddim" : "init_euler", n);
        h.kind = ddim ? DOP_SAMPLER_DDIM : DOP_SAMPLER_EULER;
        draw(m, f, root, &h, x, n);
        ok = near(ddim ? "from a picture, ddim" : "from a picture, euler", x, want, n, bound) && ok;
        free(x);
        free(want);
    }
    free(pixels);
    free(moments);
    free(start);
    return ok;
}

int
main(int argc, char **argv)
{
    dop_model *m;
    dop_diag diag = {0};
    dop_draw_facts f;
    char path[1024];
    if (argc != 4)
        return 2;
    const double bound = strtod(argv[3], NULL);
    const dop_open_options options = {.separate_memory =
                                          true}; /* as on a GPU, where the host reads copies of results */
    must(dop_model_open(argv[1], &options, &diag, &m), &diag);
    if (!dop_model_draw_facts(m, &f))
        return 1;
    snprintf(path, sizeof path, "%s/expected.json", argv[2]);
    json_t *root = json_load_file(path, 0, NULL);
    const double time = json_number_value(json_array_get(json_object_get(root, "times"), 0));
    const size_t n = (size_t)f.latents_width * f.latents_height * f.latents,
                 n_text = (size_t)f.context * f.context_rows, n_pixels = (size_t)f.width * f.height * f.colours;
    float *text = read_floats(argv[2], "text", n_text), *given = read_floats(argv[2], "given", n),
          *predicted = read_floats(argv[2], "predicted", n), *latents = read_floats(argv[2], "latents", n),
          *picture = read_floats(argv[2], "picture", n_pixels), *times = calloc(f.times, sizeof(float));
    const float scaling =
        json_object_get(root, "scaling") ? (float)json_number_value(json_object_get(root, "scaling")) : 0.18215f;
    for (size_t i = 0; i < n; i++)
        latents[i] /= scaling;
    dop_time_embedding(time, true, 0, times, f.times);
    uint32_t sequence = 1;
    float *rows = calloc(n_text, sizeof *rows), *x = read_floats(argv[2], "noise", n),
          *added[2] = {calloc(f.added + 1, sizeof(float)), calloc(f.added + 1, sizeof(float))};
    read_text(m, &f, root, true, 0, rows, added[0]);
    read_text(m, &f, root, false, sequence, rows, added[1]);
    bool ok = near("text", rows, text, n_text, bound);
    const json_t *pooled = json_object_get(root, "pooled");
    float *want = calloc(f.pooled + 1, sizeof *want);
    for (uint32_t i = 0; i < f.pooled; i++)
        want[i] = (float)json_number_value(json_array_get(pooled, i));
    ok = (f.pooled == 0 || near("vector of the text", added[1], want, f.pooled, bound)) && ok;
    const dop_value in[] = {
        {"latents", given, n}, {"time", times, f.times}, {"sequence", &sequence, 1}, {"added", added[1], f.added}};
    ok = runs(m, "denoise", in, f.added ? 4 : 3, "predicted", predicted, n, bound) && ok;
    ok = runs(m, "decode", &(dop_value){"latents", latents, n}, 1, "pixels", picture, n_pixels, bound) && ok;
    for (size_t i = 0; i < n; i++)
        latents[i] *= scaling;
    const char *kind = strrchr(argv[2], '/');
    const bool velocity = kind && strcmp(kind, "/sd21") == 0, turbo = kind && strcmp(kind, "/turbo") == 0;
    const how h = {velocity ? 1 : 0, turbo ? 2 : 0, DOP_SAMPLER_EULER, NULL, {added[0], added[1]}};
    draw(m, &f, root, &h, x, n);
    ok = near("all steps", x, latents, n, bound) && ok;
    if (f.takes_pictures)
        ok = from_picture(m, &f, argv[2], root, h, n, bound) && ok;
    dop_model_close(m);
    return ok ? 0 : 1;
}
