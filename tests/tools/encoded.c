/* Does a plan encode texts as the golden data say?
 *
 *   encoded PLAN MODEL BOUND    (MODEL: a folder with expected.json and hidden.f32 and embedding.f32, or scores)
 *
 * BOUND is that of hidden states and scores, in standard deviations of the former.  Texts of several lengths in one step have to
 * give what each gives alone, whatever stands beside them. */
#include <doppler/doppler.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *
read_floats(const char *dir, const char *name, size_t n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    float *all = calloc(n, sizeof *all);
    if (!f || !all || fread(all, sizeof *all, n, f) != n)
        exit(2);
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

static double
deviation(const float *x, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i] / (double)n;
        squares += (double)x[i] * (double)x[i] / (double)n;
    }
    return sqrt(squares - sum * sum);
}

static double
apart(const float *x, const float *y, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = isfinite((double)x[i]) ? fmax(most, fabs((double)x[i] - (double)y[i])) : (double)INFINITY;
    return most;
}

static double
cosine(const float *x, const float *y, size_t n)
{
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        xy += (double)x[i] * (double)y[i];
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
    }
    return xy / sqrt(xx * yy);
}

static int
report(const char *what, double value, double bound)
{
    printf("%s: %.3g, at most %.3g\n", what, value, bound);
    return !(value <= bound);
}

/* Beginnings of the text, of several lengths, in one call and one by one. */
static int
together(dop_model *model, const uint32_t *ids, uint32_t n, uint32_t width, uint32_t classes)
{
    enum { TEXTS = 9 };
    dop_diag diag = {0};
    dop_token_text texts[TEXTS];
    float *all = calloc(TEXTS * (size_t)width, sizeof *all), *one = calloc(width, sizeof *one);
    double most = 0;
    if (!all || !one)
        exit(2);
    for (uint32_t i = 0; i < TEXTS; i++) {
        const uint32_t from = i % 3, len = i == 4 ? 1 : (n - from) * (i + 1) / TEXTS + 1;
        texts[i] = (dop_token_text){.ids = ids + from, .n = len < n - from ? len : n - from, .second = UINT32_MAX};
    }
    must(dop_model_embed(model, texts, TEXTS, DOP_POOLING_MODEL, &diag, all), &diag);
    for (uint32_t i = 0; i < TEXTS; i++) {
        must(dop_model_embed(model, &texts[i], 1, DOP_POOLING_MODEL, &diag, one), &diag);
        most = fmax(most, apart(all + i * width, one, width));
    }
    free(all);
    free(one);
    return report("texts in one step and alone", most, classes ? 1e-4 : 1e-5);
}

int
main(int argc, char **argv)
{
    char path[1024];
    dop_diag diag = {0};
    dop_model *model;
    dop_program_facts facts;
    uint32_t ids[512], n = 0;
    if (argc != 4)
        return 2;
    snprintf(path, sizeof path, "%s/expected.json", argv[2]);
    json_t *expected = json_load_file(path, 0, NULL), *list = json_object_get(expected, "ids"),
           *scores = json_object_get(expected, "scores");
    for (; n < json_array_size(list) && n < 512; n++)
        ids[n] = (uint32_t)json_integer_value(json_array_get(list, n));
    must(dop_model_open(argv[1], NULL, &diag, &model), &diag);
    if (n == 0 || !dop_model_program(model, 0, &facts))
        return 2;
    const double bound = strtod(argv[3], NULL);
    const size_t size = (size_t)n * facts.width;
    float *rows = calloc(size, sizeof *rows), *vector = calloc(facts.width, sizeof *vector);
    if (!rows || !vector)
        return 2;
    const dop_value in = {"tokens", ids, n}, out[] = {{"rows", rows, size}, {"vectors", vector, facts.width}};
    must(dop_program_run(model, "encode", &in, 1, out, 2, &diag), &diag);
    int bad = 0;
    if (scores) {
        for (uint32_t i = 0; i < facts.width; i++)
            bad += report("score", fabs((double)vector[i] - json_number_value(json_array_get(scores, i))), bound);
    } else {
        float *hidden = read_floats(argv[2], "hidden.f32", size),
              *embedding = read_floats(argv[2], "embedding.f32", facts.width);
        bad += report("hidden states", apart(rows, hidden, size) / deviation(hidden, size), bound);
        bad += report("1 - cosine", 1 - cosine(vector, embedding, facts.width), bound < 1e-3 ? 1e-5 : 1e-3);
        free(hidden);
        free(embedding);
    }
    bad += together(model, ids, n, facts.width, facts.classes);
    const dop_value none = {"tokens", ids, 0}, wrong = {"types", ids, n}, both[] = {in, wrong};
    if (dop_program_run(model, "encode", &none, 1, out, 0, &diag) != DOP_E_INPUT ||
        dop_program_run(model, "decode", &in, 1, out, 2, &diag) != DOP_E_INPUT ||
        dop_program_run(model, "encode", both, 2, out, 2, &diag) != DOP_E_INPUT) {
        printf("an empty text, a program that there is not, or types that do not exist were accepted\n");
        bad++;
    }
    free(rows);
    free(vector);
    json_decref(expected);
    dop_model_close(model);
    return bad ? 1 : 0;
}
