/* Compares what doppler-exec printed with an expected.json (tests/golden, examples/shakespeare-gemma3).
 *
 *   expect tokens FILE CASE               prints the prompt's ids for --tokens
 *   expect forced FILE CASE               the same with all greedy ids but the last behind them (teacher forcing)
 *   expect count  FILE CASE               prints the number of greedy ids
 *   expect print  FILE PATH               prints one string or number
 *   expect vectors FILE TEXTS IDS         {"vectors": [{"text", "ids"}]} to the input and the expected output of
 *                                         doppler-exec --tokenize (nothing added, special
 *                                         tokens read as such); prints how many
 *   expect logits FILE CASE REF GOT BOUND every logit of GOT within BOUND x logits_std of REF (both f32 [prompt, vocab])
 *   expect apart  FILE CASE REF GOT BOUND MOST  the same but for at most MOST positions, which it names
 *   expect argmax FILE CASE GOT MARGIN    GOT are the logits of `forced`: at every step whose greedy_margin is at least
 *                                         MARGIN the largest logit is the greedy id
 *   expect ids    FILE CASE GOT MARGIN    GOT is a line of ids: equal up to the first step with a margin under MARGIN
 *   expect first  FILE CASE GOT MARGIN N  the same for the first N ids
 *
 * CASE is a dotted path to the object inside FILE (`greedy.0`), or `.` for the whole file.
 * Exit status 0 when it holds, 1 when it does not, 2 when a file cannot be used. */
#include "base/base.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNUSABLE 2

/* One test case: json_t pointers are borrowed from the document. */
typedef struct expected {
    const json_t *prompt, *greedy, *margin;
    size_t rows, vocab; /* shape of the prompt's logits, 0 when the file has none */
    double logits_std;
} expected;

static void
unusable(const char *file, const char *why)
{
    fprintf(stderr, "expect: %s: %s\n", file, why);
    exit(UNUSABLE);
}

static const json_t *
walk(const json_t *at, const char *path)
{
    char part[64];
    while (at && *path && strcmp(path, ".") != 0) {
        size_t n = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(part, NULL, 10)) : json_object_get(at, part);
        path += n + (path[n] == '.');
    }
    return at;
}

static expected
read_case(const json_t *doc, const char *file, const char *path, bool greedy)
{
    const json_t *at = walk(doc, path);
    expected e = {.prompt = json_object_get(at, "prompt"),
                  .greedy = json_object_get(at, "greedy"),
                  .margin = json_object_get(at, "greedy_margin"),
                  .logits_std = json_number_value(json_object_get(at, "logits_std"))};
    if (!json_is_array(e.prompt)) /* the demo has the prompt as text and its ids beside it */
        e.prompt = json_object_get(at, "ids");
    if (!json_is_array(e.prompt))
        unusable(file, "no such case, or no prompt in it");
    if (greedy && (json_array_size(e.prompt) == 0 || json_array_size(e.greedy) == 0 ||
                   json_array_size(e.greedy) != json_array_size(e.margin)))
        unusable(file, "no prompt, greedy ids and margins in the case");
    const json_t *shape = json_object_get(at, "logits_shape");
    if (shape) {
        e.rows = (size_t)json_integer_value(json_array_get(shape, 0));
        e.vocab = (size_t)json_integer_value(json_array_get(shape, 1));
    } else {
        e.vocab = (size_t)json_integer_value(json_object_get(doc, "vocab"));
    }
    return e;
}

static void
print_ids(const json_t *ids, size_t n, bool first)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%" JSON_INTEGER_FORMAT, first && i == 0 ? "" : " ", json_integer_value(json_array_get(ids, i)));
}

static int
print_value(const json_t *value)
{
    if (json_is_string(value))
        puts(json_string_value(value));
    else if (json_is_number(value))
        printf("%.17g\n", json_number_value(value));
    else
        return UNUSABLE;
    return 0;
}

/* Maps a file of exactly rows x vocab floats until the process ends; two files at most. */
static const float *
open_floats(const char *path, size_t rows, size_t vocab)
{
    static dop_map maps[2];
    static size_t n;
    dop_diag diag = {0};
    dop_map *map = &maps[n++];
    if (dop_map_open(path, &diag, map) != DOP_OK)
        unusable(path, diag.message);
    if (map->size != rows * vocab * sizeof(float) || map->size == 0) {
        fprintf(stderr, "expect: %s: %" PRIu64 " bytes instead of %zu x %zu floats\n", path, map->size, rows, vocab);
        exit(UNUSABLE);
    }
    return (const float *)(const void *)map->data;
}

static int
compare_logits(const expected *e, const char *ref_path, const char *got_path, double factor)
{
    const float *ref = open_floats(ref_path, e->rows, e->vocab), *got = open_floats(got_path, e->rows, e->vocab);
    double worst = 0, bound = factor * e->logits_std;
    size_t where = 0;
    for (size_t i = 0; i < e->rows * e->vocab; i++) {
        double d = fabs((double)got[i] - (double)ref[i]);
        if (!(d <= worst)) { /* a NaN is the worst */
            worst = d;
            where = i;
            if (isnan(d))
                break;
        }
    }
    bool ok = bound > 0 && worst <= bound;
    printf("%s: worst error %.3g = %.3g x std at [%zu, %zu] (%g instead of %g), bound %.3g x std\n", ok ? "ok" : "MISS",
           worst, worst / e->logits_std, where / e->vocab, where % e->vocab, (double)got[where], (double)ref[where],
           factor);
    return !ok;
}

/* Where experts nearly tie, rounding chooses another one, and all logits of the position are others. */
static int
compare_positions(const expected *e, const char *ref_path, const char *got_path, double factor, size_t most)
{
    const float *ref = open_floats(ref_path, e->rows, e->vocab), *got = open_floats(got_path, e->rows, e->vocab);
    double worst = 0, bound = factor * e->logits_std;
    size_t apart = 0;
    for (size_t row = 0; row < e->rows; row++) {
        double d = 0;
        for (size_t i = row * e->vocab; i < (row + 1) * e->vocab; i++)
            if (!(fabs((double)got[i] - (double)ref[i]) <= d))
                d = fabs((double)got[i] - (double)ref[i]);
        if (!(d <= bound))
            printf("position %zu is %.3g x std away\n", row, d / e->logits_std);
        else if (d > worst)
            worst = d;
        apart += !(d <= bound);
    }
    printf("%s: %zu of %zu positions apart, the others %.3g x std and less\n", apart <= most ? "ok" : "MISS", apart,
           e->rows, worst / e->logits_std);
    return apart > most || !(bound > 0);
}

static int
compare_argmax(const expected *e, const char *path, double margin)
{
    size_t n = json_array_size(e->greedy), first = json_array_size(e->prompt) - 1, checked = 0;
    const float *rows = open_floats(path, first + n, e->vocab);
    for (size_t i = 0; i < n; i++) {
        if (json_number_value(json_array_get(e->margin, i)) < margin)
            continue;
        checked++;
        const float *row = rows + (first + i) * e->vocab;
        size_t best = 0;
        for (size_t t = 1; t < e->vocab; t++)
            best = row[t] > row[best] ? t : best;
        json_int_t want = json_integer_value(json_array_get(e->greedy, i));
        if ((json_int_t)best != want) {
            printf("MISS: step %zu: %zu instead of %" JSON_INTEGER_FORMAT " (margin %g)\n", i, best, want,
                   json_number_value(json_array_get(e->margin, i)));
            return 1;
        }
    }
    printf("%s: %zu of %zu steps have a clear margin\n", checked ? "ok" : "MISS", checked, n);
    return checked == 0;
}

static int
compare_ids(const expected *e, const char *path, double margin, size_t most)
{
    FILE *f = fopen(path, "r");
    if (!f)
        unusable(path, "cannot open");
    size_t n = json_array_size(e->greedy), i;
    n = n < most ? n : most;
    for (i = 0; i < n; i++) {
        if (json_number_value(json_array_get(e->margin, i)) < margin)
            break;
        json_int_t want = json_integer_value(json_array_get(e->greedy, i));
        long long got;
        if (fscanf(f, "%lld", &got) != 1 || got != want) {
            printf("MISS: step %zu is not %" JSON_INTEGER_FORMAT "\n", i, want);
            fclose(f);
            return 1;
        }
    }
    /* What follows an unclear step may be others, but not missing. */
    size_t there = i;
    for (long long got; there < n && fscanf(f, "%lld", &got) == 1;)
        there++;
    fclose(f);
    if (there < n) {
        printf("MISS: %zu ids instead of %zu\n", there, n);
        return 1;
    }
    printf("ok: %zu of %zu steps compared\n", i, n);
    return 0;
}

static int
write_vectors(const json_t *list, const char *texts, const char *ids)
{
    FILE *t = fopen(texts, "w"), *i = fopen(ids, "w");
    bool ok = t && i;
    for (size_t k = 0; ok && k < json_array_size(list); k++) {
        const json_t *v = json_array_get(list, k);
        json_t *line =
            json_pack("{s:O, s:b, s:b}", "text", json_object_get(v, "text"), "add_special", 0, "parse_special", 1);
        ok = line && json_dumpf(line, t, JSON_COMPACT) == 0 && fputc('\n', t) != EOF &&
             json_dumpf(json_object_get(v, "ids"), i, JSON_COMPACT) == 0 && fputc('\n', i) != EOF;
        json_decref(line);
    }
    ok = t && fclose(t) == 0 && ok;
    ok = i && fclose(i) == 0 && ok;
    printf("%zu\n", json_array_size(list));
    return ok ? 0 : UNUSABLE;
}

int
main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: expect tokens|forced|count|print|vectors|logits|apart|argmax|ids|first FILE ...\n");
        return UNUSABLE;
    }
    const char *what = argv[1], *file = argv[2];
    json_error_t error;
    json_t *doc = json_load_file(file, 0, &error);
    if (!doc)
        unusable(file, error.text);
    int status = UNUSABLE;
    if (strcmp(what, "print") == 0) {
        status = print_value(walk(doc, argv[3]));
        json_decref(doc);
        return status;
    }
    if (strcmp(what, "vectors") == 0 && argc == 5) {
        status = write_vectors(walk(doc, "vectors"), argv[3], argv[4]);
        json_decref(doc);
        return status;
    }
    expected e = read_case(doc, file, argv[3], strcmp(what, "tokens") != 0 && strcmp(what, "logits") != 0);
    if (strcmp(what, "tokens") == 0 || strcmp(what, "forced") == 0) {
        print_ids(e.prompt, json_array_size(e.prompt), true);
        if (*what == 'f')
            print_ids(e.greedy, json_array_size(e.greedy) - 1, false);
        putchar('\n');
        status = 0;
    } else if (strcmp(what, "count") == 0) {
        printf("%zu\n", json_array_size(e.greedy));
        status = 0;
    } else if (strcmp(what, "logits") == 0 && argc == 7) {
        status = compare_logits(&e, argv[4], argv[5], atof(argv[6]));
    } else if (strcmp(what, "apart") == 0 && argc == 8) {
        status = compare_positions(&e, argv[4], argv[5], atof(argv[6]), strtoul(argv[7], NULL, 10));
    } else if (strcmp(what, "argmax") == 0 && argc == 6) {
        status = compare_argmax(&e, argv[4], atof(argv[5]));
    } else if (strcmp(what, "ids") == 0 && argc == 6) {
        status = compare_ids(&e, argv[4], atof(argv[5]), SIZE_MAX);
    } else if (strcmp(what, "first") == 0 && argc == 7) {
        status = compare_ids(&e, argv[4], atof(argv[5]), strtoul(argv[6], NULL, 10));
    } else {
        fprintf(stderr, "expect: wrong number of arguments for %s\n", what);
    }
    json_decref(doc);
    return status;
}
