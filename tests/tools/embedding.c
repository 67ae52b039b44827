/* Is an embedding what the logits say?
 *
 *   embedding ANSWER MODEL.safetensors LOGITS BOUND    (ANSWER: of doppler-exec --embed; LOGITS: of --logits, same tokens)
 *
 * Logits are the head's matrix times the hidden states, so that the matrix times the embedding is proportional to the logits
 * of the last token, or to their mean; BOUND: in standard deviations of them.  For models with a bf16 "lm_head.weight" and
 * nothing behind it. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *
read_file(const char *path, size_t *out_size)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        exit(2);
    *out_size = (size_t)ftell(f);
    char *bytes = calloc(*out_size + 1, 1);
    rewind(f);
    if (!bytes || fread(bytes, 1, *out_size, f) != *out_size)
        exit(2);
    fclose(f);
    return bytes;
}

/* The head's matrix: *out_rows times as many columns as there are values in a row. */
static const uint16_t *
find_head(const char *file, size_t *out_rows, size_t *out_cols)
{
    uint64_t header;
    json_int_t from = 0, to = 0, rows = 0, cols = 0;
    memcpy(&header, file, sizeof header);
    json_t *root = json_loadb(file + 8, header, 0, NULL);
    if (json_unpack(root, "{s:{s:[I,I], s:[I,I]}}", "lm_head.weight", "data_offsets", &from, &to, "shape", &rows,
                    &cols) != 0 ||
        to - from != rows * cols * 2)
        exit(2);
    *out_rows = (size_t)rows;
    *out_cols = (size_t)cols;
    json_decref(root);
    return (const uint16_t *)(const void *)(file + 8 + header + from);
}

static double
bf16(const uint16_t *at)
{
    uint32_t bits = (uint32_t)*at << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Largest distance of a and k b, for the best k, in standard deviations of a; infinite where k is not positive. */
static double
distance(const double *a, const double *b, size_t n)
{
    double ab = 0, bb = 0, sum = 0, squares = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        ab += a[i] * b[i];
        bb += b[i] * b[i];
        sum += a[i] / (double)n;
        squares += a[i] * a[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(a[i] - ab / bb * b[i]));
    return ab > 0 ? worst / sqrt(squares - sum * sum) : (double)INFINITY;
}

int
main(int argc, char **argv)
{
    size_t size, rows, cols;
    if (argc != 5)
        return 2;
    json_t *answer = json_load_file(argv[1], 0, NULL);
    const json_t *vector = json_object_get(answer, "embedding");
    char *model = read_file(argv[2], &size);
    const uint16_t *head = find_head(model, &rows, &cols);
    float *logits = read_file(argv[3], &size);
    double *want = calloc(rows, sizeof *want), *got = calloc(rows, sizeof *got), length = 0;
    size_t n = size / (rows * sizeof *logits);
    bool mean = strcmp(json_string_value(json_object_get(answer, "pooling")), "mean") == 0;
    if (!want || !got || json_array_size(vector) != cols || n < 2 ||
        json_integer_value(json_object_get(answer, "promptTokens")) != (json_int_t)n)
        return 1;
    for (size_t t = mean ? 0 : n - 1; t < n; t++)
        for (size_t i = 0; i < rows; i++)
            want[i] += (double)logits[t * rows + i];
    for (size_t i = 0; i < cols; i++) {
        double v = json_real_value(json_array_get(vector, i));
        length += v * v;
        for (size_t r = 0; r < rows; r++)
            got[r] += bf16(head + r * cols + i) * v;
    }
    double d = distance(want, got, rows);
    printf("%zu tokens, length %.7f, %.3g standard deviations from the logits\n", n, sqrt(length), d);
    free(want);
    free(got);
    free(logits);
    free(model);
    json_decref(answer);
    return d <= strtod(argv[4], NULL) && fabs(sqrt(length) - 1) < 1e-5 ? 0 : 1;
}
