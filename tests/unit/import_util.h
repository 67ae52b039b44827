/* Shared by the importer tests: models made of the golden ones with something changed, in a directory of their own. */
#ifndef DOPPLER_TESTS_UNIT_IMPORT_UTIL_H
#define DOPPLER_TESTS_UNIT_IMPORT_UTIL_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json/json_util.h"
#include "frontend/facts/arch.h"

#define GOLDEN DOP_SOURCE_DIR "/tests/golden"

typedef struct scratch {
    char dir[64];
    char path[512]; /* of the last name asked for */
} scratch;

static inline scratch
scratch_make(void)
{
    scratch s = {.dir = "/tmp/doppler-test-XXXXXX"};
    cr_assert(mkdtemp(s.dir), "cannot make %s", s.dir);
    return s;
}

static inline const char *
scratch_path(scratch *s, const char *file)
{
    snprintf(s->path, sizeof s->path, "%s/%s", s->dir, file);
    return s->path;
}

static inline void
scratch_write(scratch *s, const char *file, const void *data, size_t size)
{
    FILE *f = fopen(scratch_path(s, file), "wb");
    cr_assert(f && fwrite(data, 1, size, f) == size && fclose(f) == 0, "cannot write %s", s->path);
}

static inline void
scratch_text(scratch *s, const char *file, const char *text)
{
    scratch_write(s, file, text, strlen(text));
}

static inline void
scratch_remove(scratch *s)
{
    DIR *d = opendir(s->dir);
    cr_assert(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlink(scratch_path(s, e->d_name));
    closedir(d);
    rmdir(s->dir);
}

/* A whole file of a golden model, 0-terminated. */
static inline dop_buf
golden_file(const char *model, const char *file)
{
    char path[512];
    dop_map map;
    dop_buf b = {0};
    snprintf(path, sizeof path, "%s%s%s/%s", model[0] == '/' ? "" : GOLDEN, model[0] == '/' ? "" : "/", model, file);
    cr_assert_eq(dop_map_open(path, NULL, &map), DOP_OK, "cannot open %s", path);
    dop_buf_append(&b, map.data, (size_t)map.size);
    dop_map_close(&map);
    cr_assert(!b.failed);
    return b;
}

static inline json_t *
json_of(const char *text)
{
    json_error_t err;
    json_t *j = json_loads(text, JSON_DECODE_ANY, &err);
    cr_assert(j, "test data: %s: %s", err.text, text);
    return j;
}

/* Sets the members of `patch` in `object`; the value "<delete>" removes one, "<merge>" in an object goes into it. */
static inline void
patch_object(json_t *object, const json_t *patch)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)patch, key, v)
    {
        if (json_is_string(v) && strcmp(json_string_value(v), "<delete>") == 0)
            json_object_del(object, key);
        else if (json_is_object(v) && json_object_get(v, "<merge>") && json_object_get(object, key))
            patch_object(json_object_get(object, key), v);
        else if (strcmp(key, "<merge>") != 0)
            json_object_set(object, key, v);
    }
}

static inline void
scratch_json(scratch *s, const char *file, const json_t *root)
{
    char *text = json_dumps(root, JSON_INDENT(2));
    scratch_text(s, file, text);
    free(text);
}

/* config.json of a golden model, patched. */
static inline void
scratch_config(scratch *s, const char *model, const char *patch_text)
{
    dop_buf b = golden_file(model, "config.json");
    json_t *root = json_of(b.data), *patch = json_of(patch_text);
    patch_object(root, patch);
    scratch_json(s, "config.json", root);
    json_decref(root);
    json_decref(patch);
    dop_buf_finish(&b);
}

/* Safetensors bytes from a header and the data; the length field says what it says. */
static inline dop_buf
st_bytes(const char *header, size_t header_size, uint64_t length, const void *data, size_t data_size)
{
    dop_buf b = {0};
    for (unsigned i = 0; i < 8; i++) {
        uint8_t byte = (uint8_t)(length >> (8 * i));
        dop_buf_append(&b, &byte, 1);
    }
    dop_buf_append(&b, header, header_size);
    dop_buf_append(&b, data, data_size);
    cr_assert(!b.failed);
    return b;
}

static inline uint64_t
st_header_size(const dop_buf *b)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < 8; i++)
        n |= (uint64_t)(uint8_t)b->data[i] << (8 * i);
    return n;
}

/* model.safetensors of a golden model with its header patched. */
static inline void
scratch_tensors(scratch *s, const char *model, const char *patch_text)
{
    dop_buf b = golden_file(model, "model.safetensors");
    uint64_t n = st_header_size(&b);
    json_t *root = json_loadb(b.data + 8, n, 0, NULL), *patch = json_of(patch_text);
    cr_assert(root);
    patch_object(root, patch);
    char *text = json_dumps(root, JSON_COMPACT);
    dop_buf out = st_bytes(text, strlen(text), strlen(text), b.data + 8 + n, b.size - 8 - n);
    scratch_write(s, "model.safetensors", out.data, out.size);
    free(text);
    json_decref(root);
    json_decref(patch);
    dop_buf_finish(&b);
    dop_buf_finish(&out);
}

/* Loads DIR and expects one failure with exactly this message about FILE ("" : the directory itself). */
static inline void
expect_failure(const char *dir, const char *file, const char *message, long line, long column)
{
    dop_arena arena;
    dop_diag diag = {0};
    dop_checkpoint m;
    char path[600];
    snprintf(path, sizeof path, "%s%s%s", dir, *file ? "/" : "", file);
    dop_arena_init(&arena);
    dop_status st = dop_checkpoint_load(dir, &arena, &diag, &m);
    cr_expect(st == DOP_E_INPUT || st == DOP_E_IO, "expected \"%s\", got status %d", message, (int)st);
    cr_expect_str_eq(diag.message, message, "message \"%s\"\n expected \"%s\"", diag.message, message);
    cr_expect_str_eq(diag.path, path, "\"%s\": path %s, expected %s", message, diag.path, path);
    cr_expect_eq(diag.line, line, "\"%s\": line %ld, expected %ld", message, diag.line, line);
    cr_expect_eq(diag.column, column, "\"%s\": column %ld, expected %ld", message, diag.column, column);
    dop_checkpoint_finish(&m);
    dop_arena_finish(&arena);
}

#endif
