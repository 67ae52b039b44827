/* The shape that a request demands of its answer, under the names of several APIs: OpenAI's response_format, llama.cpp's json_schema
 * and grammar, and vLLM's structured_outputs and guided_*. */
#include "runtime/serve/api/api_gather.h"

#include <string.h>

typedef enum shape_kind {
    SHAPE_SCHEMA,  /* a JSON schema, or a JSON text of one */
    SHAPE_OBJECT,  /* true: any JSON object */
    SHAPE_CHOICE,  /* a list of texts, of which the answer is one */
    SHAPE_PATTERN, /* a regular expression that matches the whole answer */
    SHAPE_GRAMMAR, /* a GBNF text */
    SHAPE_OTHER    /* not supported */
} shape_kind;

/* Members of a request, or of its member `outer`. */
static const struct {
    const char *outer, *name;
    shape_kind kind;
} members[] = {
    {NULL, "json_schema", SHAPE_SCHEMA},
    {NULL, "guided_json", SHAPE_SCHEMA},
    {NULL, "guided_choice", SHAPE_CHOICE},
    {NULL, "guided_regex", SHAPE_PATTERN},
    {NULL, "guided_grammar", SHAPE_GRAMMAR},
    {NULL, "regex", SHAPE_PATTERN},
    {NULL, "grammar", SHAPE_GRAMMAR},
    {"structured_outputs", "json", SHAPE_SCHEMA},
    {"structured_outputs", "json_object", SHAPE_OBJECT},
    {"structured_outputs", "choice", SHAPE_CHOICE},
    {"structured_outputs", "regex", SHAPE_PATTERN},
    {"structured_outputs", "grammar", SHAPE_GRAMMAR},
    {"structured_outputs", "structural_tag", SHAPE_OTHER},
};

/* Members of response_format, by its type; the first one that is there holds. */
static const struct {
    const char *type, *member;
    shape_kind kind;
} formats[] = {
    {"json_schema", "schema", SHAPE_SCHEMA}, {"json_object", "schema", SHAPE_SCHEMA},
    {"json", "value", SHAPE_SCHEMA},         {"regex", "pattern", SHAPE_PATTERN},
    {"regex", "value", SHAPE_PATTERN},       {"grammar", "grammar", SHAPE_GRAMMAR},
};

void
dop_gather_demand(gathering *g, const char *param, const char *wrong, const dop_shape_demand *demand, bool compact)
{
    if (wrong)
        dop_reader_refuse(&g->r, param, "%s", wrong);
    g->parts = demand->parts;
    if (dop_reader_bool(&g->r, "compact_json", compact) && g->parts &&
        !(g->parts = json_pack("{s:o}", "compact", g->parts)))
        dop_gather_no_memory(g);
    g->param = param;
    g->call->begin = demand->begin;
}

/* Demands an answer of these parts, and takes ownership of them. */
static void
demand_parts(gathering *g, const char *param, json_t *parts)
{
    static const dop_tool_form plain;
    dop_shape_demand demand = {.parts = NULL};
    const char *wrong = dop_answer_require(g->call->chat && g->api->form ? g->api->form : &plain, parts, &demand);
    dop_gather_demand(g, param, wrong, &demand, false);
}

/* Demands an answer that is valid for a schema; NULL: any object. */
static void
demand_schema(gathering *g, const char *param, const json_t *schema)
{
    const dop_json_how how = {.flags = DOP_JSON_EXACT | DOP_JSON_UNIQUE, .budget = g->budget};
    dop_diag diag = {0};
    if (!json_is_string(schema))
        g->schema = json_incref((json_t *)(uintptr_t)schema);
    else if (dop_json_decode(json_string_value(schema), json_string_length(schema), &how, &diag, &g->schema) != DOP_OK)
        dop_gather_refuse(g, param, &diag);
    if (!g->r.failed)
        demand_parts(g, param, json_pack("{s:O?}", "schema", g->schema));
}

static void
demand_choice(gathering *g, const char *param, const json_t *list)
{
    size_t i;
    const json_t *one;
    bool good = json_array_size(list) > 0;
    json_array_foreach(list, i, one) good = good && json_is_string(one);
    if (good)
        demand_parts(g, param, json_pack("{s:O}", "any", (json_t *)(uintptr_t)list));
    else
        dop_reader_refuse(&g->r, param, "the choice of answers is a list of texts that is not empty");
}

static void
demand_grammar(gathering *g, const char *param, const json_t *text)
{
    dop_diag diag = {0};
    if (json_string_length(text) == 0)
        return;
    g->param = param;
    if (dop_constraints_find_gbnf(g->api->shapes, json_string_value(text), json_string_length(text), g->budget, &diag,
                                  &g->grammar) == DOP_OK)
        return;
    if (diag.line > 0)
        dop_reader_refuse(&g->r, param, "line %ld, column %ld: %s", diag.line, diag.column, diag.message);
    else
        dop_gather_refuse(g, param, &diag);
}

/* Takes a demand of this kind, which the member `name` states; param: the member of the request that it is in. */
static void
take_shape(gathering *g, const char *param, const char *name, shape_kind kind, const json_t *value)
{
    if (kind == SHAPE_OBJECT && !json_is_true(value))
        return;
    if (g->param)
        dop_reader_refuse(&g->r, param, "%s and %s exclude one another", param, g->param);
    else if (kind == SHAPE_OTHER)
        dop_reader_refuse(&g->r, param, "%s: %s is not supported", param, name);
    else if ((kind == SHAPE_PATTERN || kind == SHAPE_GRAMMAR) && !json_is_string(value))
        dop_reader_refuse(&g->r, param, "%s is a text", name);
    if (g->r.failed)
        return;
    if (kind == SHAPE_SCHEMA || kind == SHAPE_OBJECT)
        demand_schema(g, param, kind == SHAPE_SCHEMA ? value : NULL);
    else if (kind == SHAPE_CHOICE)
        demand_choice(g, param, value);
    else if (kind == SHAPE_PATTERN)
        demand_parts(g, param, json_pack("{s:O}", "pattern", (json_t *)(uintptr_t)value));
    else
        demand_grammar(g, param, value);
}

static void
take_response_format(gathering *g)
{
    const char *const param = "response_format";
    const json_t *format = dop_reader_get(&g->r, param), *inner = json_object_get(format, "json_schema"), *value = NULL;
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || (type && strcmp(type, "text") == 0))
        return;
    size_t i = 0;
    for (; type && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(type, formats[i].type) == 0) {
            value = json_object_get(format, formats[i].member);
            if (!value && formats[i].kind == SHAPE_SCHEMA)
                value = json_object_get(inner, "schema");
            if (value || strcmp(type, "json_object") == 0)
                break;
        }
    if (type && i < sizeof formats / sizeof *formats)
        take_shape(g, param, formats[i].member, value ? formats[i].kind : SHAPE_OBJECT, value ? value : json_true());
    else if (type && strcmp(type, "json_schema") == 0)
        dop_reader_refuse(&g->r, param, "response_format.json_schema.schema is missing");
    else
        dop_reader_refuse(&g->r, param, "response_format is text, json_object, json_schema, regex or grammar");
}

void
dop_gather_shape(gathering *g)
{
    bool taken = false;
    take_response_format(g);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const char *outer = members[i].outer, *param = outer ? outer : members[i].name;
        const json_t *value = dop_reader_get(&g->r, param);
        if (outer)
            value = json_object_get(value, members[i].name);
        if (value && !json_is_null(value) && !g->r.failed)
            take_shape(g, param, members[i].name, members[i].kind, value);
        taken = taken || (outer && value);
    }
    if (!taken)
        dop_reader_forget(&g->r, "structured_outputs");
}
