#include "text/import/chat_files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format/gguf.h"
#include "text/import/tokenizer_json.h"
#include "text/jinja/jinja.h"

/* Text of a template inside an open file or JSON value; s is NULL if there is none. */
typedef struct part {
    const char *s;
    size_t n;
} part;

typedef struct named {
    part plain, tools;
} named;

/* Removes one trailing line break, as Jinja does at the end of a template. */
static part
trim_last_break(part p)
{
    if (p.n > 0 && p.s[p.n - 1] == '\n')
        p.n--;
    if (p.n > 0 && p.s[p.n - 1] == '\r')
        p.n--;
    return p;
}

static void
append_template_part(dop_buf *out, const char *words, part p)
{
    dop_buf_puts(out, words);
    dop_buf_append(out, p.s, p.n);
}

static dop_status
join_templates(const named *t, const char *path, dop_diag *diag, dop_buf *out)
{
    part plain = t->plain, tools = t->tools;
    if ((plain.s && memchr(plain.s, 0, plain.n)) || (tools.s && memchr(tools.s, 0, tools.n)))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the chat template holds a NUL byte");
    if (plain.n > J_MAX_TEXT || tools.n > J_MAX_TEXT)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "a chat template of %zu bytes, at most %d are supported",
                           plain.n > tools.n ? plain.n : tools.n, J_MAX_TEXT);
    const bool same = plain.n == tools.n && plain.n > 0 && memcmp(plain.s, tools.s, plain.n) == 0;
    if (plain.n > 0 && tools.n > 0 && !same) { /* the + signs preserve white space at the seams */
        append_template_part(out, "{% if tools is not none +%}", trim_last_break(tools));
        append_template_part(out, "{%+ else +%}", trim_last_break(plain));
        dop_buf_puts(out, "{%+ endif %}");
    } else if (plain.n > 0 || tools.n > 0) {
        append_template_part(out, "", plain.n > 0 ? plain : tools);
    }
    if (out->size > 0)
        dop_buf_append(out, "", 1);
    if (out->failed)
        return DOP_NO_MEMORY(diag);
    out->size -= out->size > 0;
    return DOP_OK;
}

static void
set_named_template(named *t, const char *name, part p)
{
    if (strcmp(name, "default") == 0)
        t->plain = p;
    else if (strcmp(name, "tool_use") == 0)
        t->tools = p;
}

static part
make_json_part(const json_t *v)
{
    return (part){json_string_value(v), json_string_length(v)};
}

/* Reads one template, or named templates given as an object or as a list of {"name", "template"}. */
static dop_status
read_json_templates(named *t, const json_t *v, const char *path, dop_diag *diag)
{
    const char *name;
    json_t *one;
    size_t i;
    bool understood = !v || json_is_string(v) || json_is_object(v) || json_is_array(v) || json_is_null(v);
    if (json_is_string(v))
        t->plain = make_json_part(v);
    json_object_foreach((json_t *)(uintptr_t)v, name, one) set_named_template(t, name, make_json_part(one));
    json_array_foreach(v, i, one)
    {
        name = json_string_value(json_object_get(one, "name"));
        understood = understood && name && json_is_string(json_object_get(one, "template"));
        if (understood)
            set_named_template(t, name, make_json_part(json_object_get(one, "template")));
    }
    if (!understood)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "\"chat_template\" is neither a text nor a list of {\"name\", \"template\"}");
    /* A single template serves all purposes, independent of its name. */
    if (json_array_size(v) == 1 && !t->plain.s)
        t->plain = make_json_part(json_object_get(json_array_get(v, 0), "template"));
    return DOP_OK;
}

static dop_status
read_template_file(const char *dir, const char *name, dop_diag *diag, dop_buf *out)
{
    json_t *root = NULL;
    dop_buf path = {0};
    named t = {0};
    dop_buf_printf(&path, "%s/%s", dir, name);
    dop_status st = DOP_OK;
    DOP_TRY(path.failed ? DOP_NO_MEMORY(diag) : dop_tok_read_object(dir, name, diag, &root));
    DOP_TRY(read_json_templates(&t, json_object_get(root, "chat_template"), path.data, diag));
    DOP_TRY(join_templates(&t, path.data, diag, out));
error:
    json_decref(root);
    dop_buf_finish(&path);
    return st;
}

/* Maps an optional file; leaves *out unchanged if it does not exist. */
static dop_status
open_template_file(const char *dir, const char *name, dop_diag *diag, dop_map *map, part *out)
{
    dop_buf path = {0};
    dop_status st = DOP_OK;
    dop_buf_printf(&path, "%s/%s", dir, name);
    if (path.failed)
        st = DOP_NO_MEMORY(diag);
    else if (access(path.data, F_OK) == 0 && (st = dop_map_open(path.data, diag, map)) == DOP_OK)
        *out = (part){map->data ? (const char *)map->data : "", (size_t)map->size};
    dop_buf_finish(&path);
    return st;
}

dop_status
dop_chat_of_dir(const char *dir, dop_diag *diag, dop_buf *out)
{
    dop_map plain = {0}, tools = {0};
    named t = {0};
    dop_status st = open_template_file(dir, "chat_template.jinja", diag, &plain, &t.plain);
    if (st == DOP_OK)
        st = open_template_file(dir, "additional_chat_templates/tool_use.jinja", diag, &tools, &t.tools);
    if (st == DOP_OK && t.plain.s)
        st = join_templates(&t, "chat_template.jinja", diag, out);
    if (st == DOP_OK && !t.plain.s && (st = read_template_file(dir, "chat_template.json", diag, out)) == DOP_OK &&
        out->size == 0)
        st = read_template_file(dir, "tokenizer_config.json", diag, out);
    if (st == DOP_OK && out->size == 0 && t.tools.s)
        st = join_templates(&t, "additional_chat_templates/tool_use.jinja", diag, out);
    dop_map_close(&plain);
    dop_map_close(&tools);
    return st;
}

static part
find_gguf_template(const dop_gguf *gguf, const char *key)
{
    dop_gguf_str s;
    if (!dop_gguf_string(dop_gguf_find(gguf, key), &s))
        return (part){0};
    return (part){s.data, s.len < SIZE_MAX ? (size_t)s.len : SIZE_MAX};
}

dop_status
dop_chat_of_gguf(const dop_gguf *gguf, dop_diag *diag, dop_buf *out)
{
    const named t = {.plain = find_gguf_template(gguf, "tokenizer.chat_template"),
                     .tools = find_gguf_template(gguf, "tokenizer.chat_template.tool_use")};
    return join_templates(&t, gguf->path, diag, out);
}
