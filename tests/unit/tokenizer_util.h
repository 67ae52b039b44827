/* Shared by the tokenizer and chat tests: reading test data. */
#ifndef DOPPLER_TESTS_UNIT_TOKENIZER_UTIL_H
#define DOPPLER_TESTS_UNIT_TOKENIZER_UTIL_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/import/tokenizer_hf.h"

/* Whole file; a name ending in .gz goes through gzip.  False if it cannot be read. */
static inline bool
util_read(const char *path, dop_buf *out)
{
    size_t n = strlen(path);
    bool gz = n > 3 && strcmp(path + n - 3, ".gz") == 0;
    char cmd[1100], chunk[65536];
    snprintf(cmd, sizeof cmd, "gzip -dc '%s'", path);
    if (access(path, R_OK) != 0)
        return false;
    FILE *f = gz ? popen(cmd, "r") : fopen(path, "rb");
    if (!f)
        return false;
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        dop_buf_append(out, chunk, n);
    return (gz ? pclose(f) : fclose(f)) == 0 && !out->failed;
}

static inline json_t *
util_json(const char *path)
{
    dop_buf b = {0};
    json_error_t e;
    cr_assert(util_read(path, &b), "cannot read %s", path);
    json_t *j = json_loadb(b.data, b.size, JSON_ALLOW_NUL, &e);
    cr_assert(j, "%s:%d: %s", path, e.line, e.text);
    dop_buf_finish(&b);
    return j;
}

static inline dop_tokenizer *
util_tokenizer(const char *path)
{
    dop_buf b = {0};
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    cr_assert(util_read(path, &b), "cannot read %s", path);
    dop_tokenizer_from_bytes(path, b.data, b.size, NULL, &diag, &t);
    cr_assert(t, "%s: %s", path, diag.message);
    dop_buf_finish(&b);
    return t;
}

static inline void
util_print_ids(const char *what, const uint32_t *ids, size_t n, dop_buf *out)
{
    dop_buf_printf(out, "%s:", what);
    for (size_t i = 0; i < n && i < 40; i++)
        dop_buf_printf(out, " %u", ids[i]);
    dop_buf_puts(out, "\n");
}

/* Number of vectors of a list (objects with text and ids) that differ; prints the first few. */
static inline size_t
util_check_vectors(const dop_tokenizer *t, const json_t *list, const char *name, unsigned default_flags)
{
    size_t bad = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i), *text = json_object_get(v, "text"), *ids = json_object_get(v, "ids");
        const json_t *add = json_object_get(v, "add_special"), *parse = json_object_get(v, "parse_special");
        unsigned flags = default_flags;
        if (add)
            flags = (json_is_true(add) ? DOP_ENCODE_ADD_SPECIAL : 0u) |
                    (json_is_true(parse) ? DOP_ENCODE_PARSE_SPECIAL : 0u);
        dop_ids got = {0};
        dop_ids want = {0};
        dop_diag diag = {0};
        for (size_t k = 0; k < json_array_size(ids); k++)
            dop_ids_push(&want, (uint32_t)json_integer_value(json_array_get(ids, k)));
        dop_status st = dop_tokenizer_encode(t, json_string_value(text), json_string_length(text), flags, &diag, &got);
        if (st != DOP_OK || got.count != want.count ||
            (got.count && memcmp(got.data, want.data, got.count * sizeof *got.data) != 0)) {
            if (bad++ < 5) {
                dop_buf msg = {0};
                dop_buf_printf(&msg, "%s vector %zu flags %u: \"%.100s\" %s\n", name, i, flags, json_string_value(text),
                               diag.message);
                util_print_ids("  want", want.data, want.count, &msg);
                util_print_ids("  got ", got.data, got.count, &msg);
                fputs(msg.data, stderr);
                dop_buf_finish(&msg);
            }
        }
        dop_ids_finish(&got);
        dop_ids_finish(&want);
    }
    return bad;
}

#endif
