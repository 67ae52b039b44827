#include "text/schema/schema_index.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 4096, DEEPEST = 400 };

typedef struct slot {
    const json_t *schema;
    const char *base; /* base URI of the schema; a key of `bases` */
} slot;

struct dop_schema_index {
    const json_t *root, *documents;
    json_t *named;           /* owned: maps URIs, with or without anchor, to addresses of schemas */
    json_t *dynamic, *bases; /* owned: like `named` for $dynamicAnchor; set of base URIs */
    slot *slots;             /* owned, [cap] hash table of schemas by address, size a power of 2 */
    size_t n, cap;
    dop_budget *budget;
    bool failed, limited;
};

/* --- URIs (RFC 3986, section 5.2) ---------------------------------------------------------------------------------------------- */

static bool
has_scheme(const char *s)
{
    size_t n = strcspn(s, ":/?#");
    return n > 0 && s[n] == ':';
}

/* Removes "." and ".." segments from a path, in place. */
static void
remove_dots(char *path)
{
    char *out = path;
    for (char *at = path; *at;) {
        if (strncmp(at, "/./", 3) == 0) {
            at += 2;
        } else if (strcmp(at, "/.") == 0) {
            at[1] = 0;
        } else if (strncmp(at, "/../", 4) == 0 || strcmp(at, "/..") == 0) {
            const bool last = at[3] == 0;
            while (out > path && *--out != '/') {
            }
            at += last ? 2 : 3;
            if (last)
                *at = '/';
        } else {
            do
                *out++ = *at++;
            while (*at && *at != '/');
        }
    }
    *out = 0;
}

/* Resolves a reference relative to a base URI. Returns false if the result is too long. */
static bool
join_schema_uri(const char *base, const char *ref, char out[LONGEST])
{
    const size_t n_base = strcspn(base, "#");
    size_t keep = 0;
    if (n_base + strlen(ref) + 2 >= LONGEST)
        return false;
    if (has_scheme(ref)) {
        strcpy(out, ref);
        return true;
    }
    if (ref[0] == '#' || !ref[0]) {
        memcpy(out, base, n_base);
        strcpy(out + n_base, ref);
        return true;
    }
    const char *colon = has_scheme(base) ? strchr(base, ':') + 1 : base;
    const char *path = strncmp(colon, "//", 2) == 0 ? colon + 2 + strcspn(colon + 2, "/?#") : colon;
    if (strncmp(ref, "//", 2) == 0)
        keep = (size_t)(colon - base);
    else if (ref[0] == '/')
        keep = (size_t)(path - base);
    else
        for (const char *c = path; c < base + n_base && *c != '?'; c++)
            keep = *c == '/' ? (size_t)(c + 1 - base) : keep;
    if (keep < (size_t)(path - base) && strncmp(ref, "//", 2) != 0)
        keep = (size_t)(path - base);
    memcpy(out, base, keep);
    if (keep == (size_t)(path - base) && path > colon && ref[0] != '/') /* authority without a path */
        out[keep++] = '/';
    strcpy(out + keep, ref);
    if (strncmp(ref, "//", 2) != 0 && !strchr(out, '?'))
        remove_dots(out + (path - base));
    return true;
}

/* --- the table of schemas ----------------------------------------------------------------------------------------------------- */

static size_t
find_schema_slot(const dop_schema_index *x, const json_t *schema)
{
    uint64_t h = (uint64_t)(uintptr_t)schema * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h >> 20) & (x->cap - 1);
    while (x->slots[i].schema && x->slots[i].schema != schema)
        i = (i + 1) & (x->cap - 1);
    return i;
}

static bool
grow_schema_slots(dop_schema_index *x)
{
    if (2 * x->n < x->cap)
        return true;
    dop_schema_index more = {.cap = x->cap ? 2 * x->cap : 64};
    if (!dop_budget_take(x->budget, (more.cap - x->cap) * sizeof *x->slots)) {
        x->limited = true;
        return false;
    }
    more.slots = calloc(more.cap, sizeof *more.slots);
    if (!more.slots) {
        x->failed = true;
        return false;
    }
    for (size_t i = 0; i < x->cap; i++)
        if (x->slots[i].schema)
            more.slots[find_schema_slot(&more, x->slots[i].schema)] = x->slots[i];
    free(x->slots);
    x->slots = more.slots;
    x->cap = more.cap;
    return true;
}

/* Returns a copy of a base URI that lives as long as the index. Equal URIs share one copy. */
static const char *
keep_base_uri(dop_schema_index *x, const char *base)
{
    void *at;
    if (!json_object_get(x->bases, base) && json_object_set_new(x->bases, base, json_null()) != 0)
        x->failed = true;
    at = json_object_iter_at(x->bases, base);
    return at ? json_object_iter_key(at) : "";
}

static bool
add_schema_slot(dop_schema_index *x, const json_t *schema, const char *base)
{
    if (!grow_schema_slots(x))
        return false;
    slot *s = &x->slots[find_schema_slot(x, schema)];
    if (s->schema)
        return false;
    *s = (slot){schema, base};
    x->n++;
    return true;
}

static void
add_schema_name(dop_schema_index *x, json_t *map, const char *base, const char *anchor, const json_t *schema)
{
    char uri[LONGEST];
    if (strlen(base) + (anchor ? strlen(anchor) : 0) + 2 >= sizeof uri)
        return;
    const int n =
        snprintf(uri, sizeof uri, "%.*s%s%s", (int)strcspn(base, "#"), base, anchor ? "#" : "", anchor ? anchor : "");
    if (n > 0 && (size_t)n >= sizeof uri)
        return;
    if (!json_object_get(map, uri) && json_object_set_new(map, uri, json_integer((json_int_t)(uintptr_t)schema)) != 0)
        x->failed = true;
}

static const json_t *
find_schema_name(const json_t *map, const char *uri)
{
    const json_t *v = json_object_get(map, uri);
    return v ? (const json_t *)(uintptr_t)json_integer_value(v) : NULL;
}

/* Returns where a keyword's value contains subschemas. 1: the value is a schema or a list of schemas; 2: its members
 * are schemas; 0: nowhere. */
static int
find_subschema_place(const char *key)
{
    static const char *const direct[] = {"allOf",
                                         "anyOf",
                                         "oneOf",
                                         "prefixItems",
                                         "items",
                                         "not",
                                         "if",
                                         "then",
                                         "else",
                                         "additionalProperties",
                                         "additionalItems",
                                         "propertyNames",
                                         "contains",
                                         "unevaluatedItems",
                                         "unevaluatedProperties",
                                         "contentSchema"};
    static const char *const maps[] = {"properties",  "patternProperties", "$defs",
                                       "definitions", "dependentSchemas",  "dependencies"};
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++)
        if (strcmp(direct[i], key) == 0)
            return 1;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        if (strcmp(maps[i], key) == 0)
            return 2;
    return 0;
}

static void
visit_subschema(dop_schema_index *x, const json_t *schema, const char *base, int depth)
{
    const char *key;
    json_t *v, *inner;
    size_t i;
    if (!json_is_object(schema) || depth > DEEPEST || x->failed || x->limited)
        return;
    const char *id = json_string_value(json_object_get(schema, "$id"));
    const char *anchor = json_string_value(json_object_get(schema, "$anchor"));
    const char *dynamic = json_string_value(json_object_get(schema, "$dynamicAnchor"));
    char uri[LONGEST];
    if (id && join_schema_uri(base, id, uri)) {
        uri[strcspn(uri, "#")] = 0;
        base = keep_base_uri(x, uri);
        add_schema_name(x, x->named, base, NULL, schema);
    }
    if (!add_schema_slot(x, schema, base))
        return;
    if (anchor)
        add_schema_name(x, x->named, base, anchor, schema);
    if (dynamic) {
        add_schema_name(x, x->named, base, dynamic, schema);
        add_schema_name(x, x->dynamic, base, dynamic, schema);
    }
    x->limited |= !dop_budget_step(x->budget, json_object_size(schema) + 1);
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        const int how = find_subschema_place(key);
        const char *unused;
        if (how == 1 && json_is_array(v))
            json_array_foreach(v, i, inner) visit_subschema(x, inner, base, depth + 1);
        else if (how == 1)
            visit_subschema(x, v, base, depth + 1);
        else if (how == 2)
            json_object_foreach(v, unused, inner) visit_subschema(x, inner, base, depth + 1);
    }
}

dop_status
dop_schema_index_create(const json_t *root, const json_t *documents, dop_budget *budget, dop_diag *diag,
                        dop_schema_index **out_index)
{
    dop_schema_index *x = calloc(1, sizeof *x);
    *out_index = NULL;
    if (!x)
        return DOP_NO_MEMORY(diag);
    *x = (dop_schema_index){.root = root,
                            .documents = documents,
                            .named = json_object(),
                            .dynamic = json_object(),
                            .bases = json_object(),
                            .budget = budget};
    x->failed = !x->named || !x->dynamic || !x->bases;
    if (!x->failed) {
        add_schema_name(x, x->named, "", NULL, root);
        visit_subschema(x, root, keep_base_uri(x, ""), 0);
    }
    dop_status st = x->failed    ? DOP_NO_MEMORY(diag)
                    : x->limited ? dop_budget_fail(budget, diag, "the JSON schema")
                                 : DOP_OK;
    if (st == DOP_OK)
        *out_index = x;
    else
        dop_schema_index_destroy(x);
    return st;
}

void
dop_schema_index_destroy(dop_schema_index *index)
{
    if (!index)
        return;
    json_decref(index->named);
    json_decref(index->dynamic);
    json_decref(index->bases);
    free(index->slots);
    free(index);
}

void
dop_schema_index_adopt(dop_schema_index *index, const json_t *made, const json_t *from)
{
    (void)add_schema_slot(index, made, dop_schema_index_base(index, from));
}

const char *
dop_schema_index_base(const dop_schema_index *index, const json_t *schema)
{
    const slot *s = index->cap ? &index->slots[find_schema_slot(index, schema)] : NULL;
    return s && s->schema ? s->base : "";
}

/* --- references ------------------------------------------------------------------------------------------------------------------ */

static int
read_hex_pair(const char *s)
{
    const int a = dop_hex_digit(s[0]), b = a < 0 ? -1 : dop_hex_digit(s[1]);
    return b < 0 ? -1 : a * 16 + b;
}

/* Follows a JSON pointer (RFC 6901), given as a URI fragment, from a schema. Returns NULL if the pointer has no
 * target. */
static const json_t *
follow_json_pointer(dop_schema_index *x, const json_t *at, const char *path)
{
    const char *base = dop_schema_index_base(x, at);
    for (const char *p = path; *p && at;) {
        char part[1024];
        size_t n = 0;
        for (p++; *p && *p != '/' && n + 1 < sizeof part; p++) {
            const int code = *p == '%' ? read_hex_pair(p + 1) : -1;
            if (code > 0)
                p += 2;
            part[n++] = (char)(code > 0 ? code : *p);
        }
        part[n] = 0;
        if (*p && *p != '/')
            return NULL;
        char *out = part;
        for (const char *c = part; *c; c++) {
            const bool escape = c[0] == '~' && (c[1] == '0' || c[1] == '1');
            *out++ = (char)(escape ? c[1] == '0' ? '~' : '/' : *c);
            c += escape;
        }
        *out = 0;
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(part, NULL, 10)) : json_object_get(at, part);
        if (at && x->cap && x->slots[find_schema_slot(x, at)].schema)
            base = dop_schema_index_base(x, at);
    }
    if (at) /* the target may be a schema outside all known keywords */
        visit_subschema(x, at, base, 0);
    return at;
}

const json_t *
dop_schema_index_resolve(dop_schema_index *index, const json_t *from, const char *ref)
{
    char uri[LONGEST];
    if (!join_schema_uri(dop_schema_index_base(index, from), ref, uri))
        return NULL;
    char *fragment = strchr(uri, '#');
    const json_t *at = fragment && fragment[1] && fragment[1] != '/' ? find_schema_name(index->named, uri) : NULL;
    if (at)
        return at;
    if (fragment)
        *fragment++ = 0;
    at = find_schema_name(index->named, uri);
    if (!at && (at = json_object_get(index->documents, uri))) {
        add_schema_name(index, index->named, uri, NULL, at);
        visit_subschema(index, at, keep_base_uri(index, uri), 0);
        return dop_schema_index_resolve(index, from, ref);
    }
    if (!at || !fragment || !*fragment)
        return at;
    if (*fragment != '/')
        return NULL;
    const json_t *to = follow_json_pointer(index, at, fragment);
    /* Many schemas use "#/..." for the whole document, even inside a subschema with its own $id. */
    return to || ref[0] != '#' ? to : follow_json_pointer(index, index->root, fragment);
}

const json_t *
dop_schema_index_dynamic(const dop_schema_index *index, const char *base, const char *anchor)
{
    char uri[LONGEST];
    if (strlen(base) + strlen(anchor) + 2 >= sizeof uri)
        return NULL;
    const int n = snprintf(uri, sizeof uri, "%s#%s", base, anchor);
    return n < 0 || (size_t)n >= sizeof uri ? NULL : find_schema_name(index->dynamic, uri);
}
