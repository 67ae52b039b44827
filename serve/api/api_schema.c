/* Determines argument types from the schemas of tools. */
#include "serve/api/api_call.h"

#include <string.h>

const json_t *
dop_tool_find(const json_t *tools, const char *name, size_t n, bool *out_known)
{
    size_t i;
    const json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        const json_t *own = json_object_get(function, "name");
        if (json_string_length(own) == n && memcmp(json_string_value(own), name, n) == 0) {
            *out_known = true;
            return json_object_get(function, "parameters");
        }
    }
    *out_known = false;
    return NULL;
}

const json_t *
dop_tool_property(const json_t *schema, const char *name)
{
    const json_t *own = json_object_get(json_object_get(schema, "properties"), name);
    if (!own && json_is_object(json_object_get(schema, "additionalProperties")))
        own = json_object_get(schema, "additionalProperties");
    return own;
}

/* Resolves a reference within the schema, such as "#/$defs/NAME". */
static const json_t *
resolve_schema_ref(const json_t *root, const char *ref)
{
    const json_t *at = root;
    if (!ref || ref[0] != '#')
        return NULL;
    for (const char *c = ref + 1; at && *c == '/';) {
        const size_t n = strcspn(++c, "/");
        char name[128];
        if (n >= sizeof name)
            return NULL;
        memcpy(name, c, n);
        name[n] = 0;
        at = json_object_get(at, name);
        c += n;
    }
    return at;
}

static unsigned
get_type_bit(const char *name)
{
    static const struct {
        const char *name;
        dop_form_type type;
    } types[] = {{"string", DOP_TYPE_STRING}, {"number", DOP_TYPE_NUMBER}, {"integer", DOP_TYPE_NUMBER},
                 {"boolean", DOP_TYPE_BOOL},  {"null", DOP_TYPE_NULL},     {"array", DOP_TYPE_LIST},
                 {"object", DOP_TYPE_OBJECT}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return 1u << types[i].type;
    return 0;
}

static unsigned
get_value_bit(const json_t *v)
{
    return 1u << (json_is_string(v)    ? DOP_TYPE_STRING
                  : json_is_number(v)  ? DOP_TYPE_NUMBER
                  : json_is_boolean(v) ? DOP_TYPE_BOOL
                  : json_is_array(v)   ? DOP_TYPE_LIST
                  : json_is_object(v)  ? DOP_TYPE_OBJECT
                                       : DOP_TYPE_NULL);
}

static unsigned
collect_schema_types(const json_t *root, const json_t *schema, unsigned depth)
{
    static const char *const unions[] = {"anyOf", "oneOf"};
    const json_t *type = json_object_get(schema, "type"), *v;
    unsigned bits = get_type_bit(json_string_value(type));
    size_t i;
    if (!json_is_object(schema) || depth > 16)
        return 0;
    json_array_foreach(type, i, v) bits |= get_type_bit(json_string_value(v));
    if (bits && json_is_true(json_object_get(schema, "nullable")))
        bits |= 1u << DOP_TYPE_NULL;
    if (!bits && json_object_get(schema, "const"))
        bits = get_value_bit(json_object_get(schema, "const"));
    if (!bits)
        json_array_foreach(json_object_get(schema, "enum"), i, v) bits |= get_value_bit(v);
    if (!bits && json_object_get(schema, "$ref"))
        bits = collect_schema_types(root, resolve_schema_ref(root, json_string_value(json_object_get(schema, "$ref"))),
                                    depth + 1);
    for (size_t u = 0; u < 2 && !bits; u++)
        json_array_foreach(json_object_get(schema, unions[u]), i, v)
        {
            const unsigned one = collect_schema_types(root, v, depth + 1);
            if (!one)
                return 0;
            bits |= one;
        }
    if (!bits && json_array_size(json_object_get(schema, "allOf")) > 0)
        json_array_foreach(json_object_get(schema, "allOf"), i, v) bits |= collect_schema_types(root, v, depth + 1);
    if (!bits && json_object_get(schema, "properties"))
        bits = 1u << DOP_TYPE_OBJECT;
    if (!bits && json_object_get(schema, "items"))
        bits = 1u << DOP_TYPE_LIST;
    return bits;
}

unsigned
dop_tool_types(const json_t *root, const json_t *schema)
{
    return collect_schema_types(root, schema, 0);
}
