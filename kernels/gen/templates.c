/* Locates, reads and fills the GLSL templates. */
#include "kernels/gen/templates.h"

#include "base/os/system.h"
#include "base/step_record.h"
#include "kernels/gen/gen.h"

#include <dirent.h>
#include <shaderc/shaderc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dop_status
read_template_file(dop_templates *t, const char *name, dop_diag *diag)
{
    char path[1400];
    dop_map map;
    if (t->n == sizeof t->files / sizeof *t->files)
        return DOP_FAIL_IN(diag, DOP_E_INTERNAL, t->dir, "more template files than expected");
    snprintf(path, sizeof path, "%s/%s", t->dir, name);
    dop_status st = dop_map_open(path, diag, &map);
    if (st != DOP_OK)
        return st;
    char *text = malloc((size_t)map.size + 1);
    if (!text) {
        dop_map_close(&map);
        return DOP_NO_MEMORY(diag);
    }
    if (map.size)
        memcpy(text, map.data, (size_t)map.size);
    text[map.size] = 0;
    if (strlen(name) >= sizeof t->files[0].name) {
        free(text);
        dop_map_close(&map);
        return DOP_FAIL_IN(diag, DOP_E_INTERNAL, t->dir, "template name too long: %s", name);
    }
    memcpy(t->files[t->n].name, name, strlen(name) + 1);
    t->files[t->n++].text = text;
    dop_map_close(&map);
    return DOP_OK;
}

static dop_status
read_template_folder(dop_templates *t, const char *sub, dop_diag *diag)
{
    char path[1200];
    dop_status st = DOP_OK;
    snprintf(path, sizeof path, "%s/%s", t->dir, sub);
    DIR *d = opendir(path);
    if (!d)
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "the kernel templates are missing: reinstall Doppler");
    for (struct dirent *e; st == DOP_OK && (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        char name[300];
        if (len < 6 || strcmp(e->d_name + len - 5, ".glsl") != 0)
            continue;
        snprintf(name, sizeof name, "%s%s%s", sub, *sub ? "/" : "", e->d_name);
        st = read_template_file(t, name, diag);
    }
    closedir(d);
    return st;
}

/* Appends the GLSL declarations of dop_row and dop_step. */
static void
put_step_record(dop_buf *out)
{
    static const char *const words[] = {
#define STEP_ROW(name) #name,
#include "base/step_record.def"
    };
    static const struct {
        const char *type, *name, *note;
        uint32_t n; /* array length; 0: not an array */
    } fields[] = {
#define STEP_WORD(name) {"uint", #name, "", 0},
#define STEP_WORDS(name, n, note) {"uint", #name, note, n},
#define STEP_ROWS(name, n) {"Row", #name, "", n},
#include "base/step_record.def"
    };
    dop_buf_puts(out, "struct Row {\n    uint ");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        dop_buf_printf(out, "%s%s", i ? ", " : "", words[i]);
    dop_buf_puts(out, ";\n};\nlayout(buffer_reference, std430, buffer_reference_align = 16) buffer Step {\n");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        dop_buf_printf(out, "    SHARED %s %s", fields[i].type, fields[i].name);
        if (fields[i].n)
            dop_buf_printf(out, "[%u]", fields[i].n);
        dop_buf_printf(out, ";%s\n", fields[i].note);
    }
    dop_buf_puts(out, "};");
}

/* Replaces ${STEP_RECORD} in common.glsl by the step record. */
static dop_status
fill_common(dop_templates *t, dop_diag *diag)
{
    static const char hole[] = "${STEP_RECORD}";
    for (uint32_t i = 0; i < t->n; i++) {
        const char *text = t->files[i].text, *at = strstr(text, hole);
        dop_buf out = {0};
        if (strcmp(t->files[i].name, "common.glsl") != 0)
            continue;
        if (!at)
            return DOP_FAIL_IN(diag, DOP_E_IO, t->dir, "common.glsl is of another release: reinstall Doppler");
        dop_buf_append(&out, text, (size_t)(at - text));
        put_step_record(&out);
        dop_buf_puts(&out, at + sizeof hole - 1);
        if (out.failed) {
            dop_buf_finish(&out);
            return DOP_NO_MEMORY(diag);
        }
        free(t->files[i].text);
        t->files[i].text = out.data;
    }
    return DOP_OK;
}

dop_status
dop_templates_load(const char *own_path, dop_templates *out, dop_diag *diag)
{
    memset(out, 0, sizeof *out);
    char exe[900] = "";
    const char *slash = dop_path_slash(own_path);
    if (slash && (size_t)(slash - own_path) < sizeof exe)
        memcpy(exe, own_path, (size_t)(slash - own_path));
    snprintf(out->dir, sizeof out->dir, "%s/%s", exe, DOP_GLSL_INSTALL_REL);
    if (access(out->dir, R_OK) != 0)
        snprintf(out->dir, sizeof out->dir, "%s/glsl", exe);
    dop_status st = DOP_OK;
    DOP_TRY(read_template_folder(out, "", diag));
    DOP_TRY(read_template_folder(out, "types", diag));
    DOP_TRY(fill_common(out, diag));
    if (!(out->glsl_compiler = shaderc_compiler_initialize()))
        DOP_TRY(DOP_NO_MEMORY(diag));
error:
    if (st != DOP_OK)
        dop_templates_finish(out);
    return st;
}

void
dop_templates_finish(dop_templates *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        free(t->files[i].text);
    if (t->glsl_compiler)
        shaderc_compiler_release(t->glsl_compiler);
    memset(t, 0, sizeof *t);
}

const char *
dop_templates_get(const dop_templates *t, const char *name)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->files[i].name, name) == 0)
            return t->files[i].text;
    return NULL;
}

/* Linked list of the texts of a generator. */
struct dop_gen_texts {
    dop_buf text;
    struct dop_gen_texts *next;
};

dop_buf *
dop_gen_text(dop_gen *gen)
{
    struct dop_gen_texts *t = dop_arena_alloc(gen->e.g->arena, sizeof *t);
    if (!t) {
        gen->e.status = gen->e.status ? gen->e.status : DOP_NO_MEMORY(gen->e.diag);
        return &gen->main; /* never read after a failure */
    }
    *t = (struct dop_gen_texts){.next = gen->texts};
    gen->texts = t;
    return &t->text;
}

const char *
dop_gen_keep(dop_gen *gen, dop_buf *text)
{
    const char *kept = text->failed ? NULL : dop_arena_strdup(gen->e.g->arena, text->data ? text->data : "");
    if (!kept && gen->e.status == DOP_OK)
        gen->e.status = DOP_NO_MEMORY(gen->e.diag);
    dop_buf_finish(text);
    return kept ? kept : "";
}

void
dop_gen_close(dop_gen *gen)
{
    for (struct dop_gen_texts *t = gen->texts; t; t = t->next)
        dop_buf_finish(&t->text);
    gen->texts = NULL;
    dop_buf_finish(&gen->main);
}

void
dop_keys_set(dop_keys *k, const char *key, const char *value)
{
    if (k->n < DOP_MAX_KEYS) {
        k->items[k->n].key = key;
        k->items[k->n].value = value ? value : "";
        k->items[k->n].text = NULL;
    }
    k->n++;
}

dop_buf *
dop_keys_text(dop_gen *gen, dop_keys *k, const char *key)
{
    dop_buf *text = dop_gen_text(gen);
    dop_keys_set(k, key, NULL);
    if (k->n <= DOP_MAX_KEYS)
        k->items[k->n - 1].text = text;
    return text;
}

void
dop_keys_numbers(dop_gen *gen, dop_keys *k, dop_buf *out, const dop_number *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const bool plain = numbers[i].name[0] == '#';
        const char *name = numbers[i].name + plain;
        dop_keys_set(k, name, dop_emit_str(&gen->e, "%u", numbers[i].value));
        if (out)
            dop_buf_printf(out, "#define %s %u%s\n", name, numbers[i].value, plain ? "" : "u");
    }
}

static const char *
find_key(const dop_keys *keys, const char *name, size_t len)
{
    for (uint32_t i = 0; i < keys->n; i++)
        if (strlen(keys->items[i].key) == len && strncmp(keys->items[i].key, name, len) == 0)
            return keys->items[i].text ? dop_buf_text(keys->items[i].text) : keys->items[i].value;
    return NULL;
}

/* Copies the text with each ${KEY} replaced by its value. An unknown key is a bug in the template or its generator. */
static dop_status
fill_keys(dop_gen *gen, const char *name, const dop_keys *keys, const char *text, dop_buf *out)
{
    while (*text) {
        const char *hole = strstr(text, "${");
        if (!hole) {
            dop_buf_puts(out, text);
            break;
        }
        dop_buf_append(out, text, (size_t)(hole - text));
        const char *end = strchr(hole, '}');
        size_t len = end ? (size_t)(end - hole - 2) : 0;
        const char *value = find_key(keys, hole + 2, len);
        if (!end || !value)
            return DOP_FAIL(gen->e.diag, DOP_E_INTERNAL, "template %s: no value for ${%.*s}", name, (int)len, hole + 2);
        dop_buf_puts(out, value);
        text = end + 1;
    }
    return out->failed ? DOP_NO_MEMORY(gen->e.diag) : DOP_OK;
}

dop_status
dop_template_fill(dop_gen *gen, const char *name, const dop_keys *keys, dop_buf *out)
{
    const char *text = dop_templates_get(gen->templates, name);
    if (gen->e.status != DOP_OK)
        return gen->e.status;
    if (dop_buf_failures() != gen->failures) /* some value's text is incomplete */
        return DOP_NO_MEMORY(gen->e.diag);
    if (keys->n > DOP_MAX_KEYS)
        return DOP_FAIL(gen->e.diag, DOP_E_INTERNAL, "kernel template %s: %u keys, of which %u fit", name, keys->n,
                        (uint32_t)DOP_MAX_KEYS);
    if (!text)
        return DOP_FAIL(gen->e.diag, DOP_E_IO, "kernel template %s is missing in %s: reinstall Doppler", name,
                        gen->templates->dir);
    return fill_keys(gen, name, keys, text, out);
}
