/* Constraints that requests place on answers, and a cache of recent grammars. Clients often send the same
 * schema again, and a cached grammar keeps the token masks it has computed. */
#include "serve/api/api_constraints.h"
#include "serve/api/api_gather.h"
#include "serve/api/api_json.h"
#include "serve/api/api_require.h"
#include "text/grammar/grammar.h"
#include "text/schema/validate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEPT = 16, AT_A_TIME = 2 };
/* Maximum bytes for compiling one grammar. AT_A_TIME compilations and all cached grammars together stay below 300
 * MB. */
static const uint64_t most_bytes = 72u << 20;

struct dop_constraints {
    const dop_vocab *vocab;
    pthread_mutex_t lock;
    struct {
        char *key; /* owned */
        dop_grammar *grammar;
        uint64_t used; /* value of `n` when the row was last used; the smallest is the least recently used */
    } rows[KEPT];
    uint64_t n;
    pthread_cond_t compiled;
    uint32_t compiling; /* number of grammars that are being compiled */
};

dop_status
dop_constraints_create(const struct dop_vocab *vocab, dop_diag *diag, dop_constraints **out_shapes)
{
    dop_constraints *s = calloc(1, sizeof *s);
    *out_shapes = s;
    if (!s)
        return DOP_NO_MEMORY(diag);
    s->vocab = vocab;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t how;
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    pthread_cond_init(&s->compiled, &how);
    pthread_condattr_destroy(&how);
    return DOP_OK;
}

void
dop_constraints_destroy(dop_constraints *shapes)
{
    if (!shapes)
        return;
    for (size_t i = 0; i < KEPT; i++) {
        free(shapes->rows[i].key);
        dop_grammar_release(shapes->rows[i].grammar);
    }
    pthread_cond_destroy(&shapes->compiled);
    pthread_mutex_destroy(&shapes->lock);
    free(shapes);
}

/* Returns a new reference to the cached grammar with this key; NULL: none. */
static dop_grammar *
find_cached_grammar(dop_constraints *s, const char *key)
{
    dop_grammar *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < KEPT && !found; i++)
        if (s->rows[i].key && strcmp(s->rows[i].key, key) == 0) {
            s->rows[i].used = ++s->n;
            found = dop_grammar_share(s->rows[i].grammar);
        }
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* Caches a grammar in place of the least recently used one. */
static void
cache_grammar(dop_constraints *s, const char *key, dop_grammar *grammar)
{
    char *own = strdup(key);
    size_t oldest = 0;
    if (!own)
        return;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 1; i < KEPT; i++)
        if (s->rows[i].used < s->rows[oldest].used)
            oldest = i;
    free(s->rows[oldest].key);
    dop_grammar_release(s->rows[oldest].grammar);
    s->rows[oldest].key = own;
    s->rows[oldest].grammar = dop_grammar_share(grammar);
    s->rows[oldest].used = ++s->n;
    pthread_mutex_unlock(&s->lock);
}

/* Waits until fewer than AT_A_TIME grammars are being compiled. Returns false if the request's budget ended first. */
static bool
begin_grammar_compile(dop_constraints *s, dop_budget *budget)
{
    enum { LOOK_EVERY_MS = 20 };
    pthread_mutex_lock(&s->lock);
    while (s->compiling == AT_A_TIME && !dop_budget_ended(budget)) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_EVERY_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        (void)pthread_cond_timedwait(&s->compiled, &s->lock, &until);
    }
    const bool may_wait = s->compiling < AT_A_TIME && !dop_budget_ended(budget);
    s->compiling += may_wait;
    pthread_mutex_unlock(&s->lock);
    return may_wait;
}

static void
end_grammar_compile(dop_constraints *s)
{
    pthread_mutex_lock(&s->lock);
    s->compiling--;
    pthread_cond_signal(&s->compiled);
    pthread_mutex_unlock(&s->lock);
}

/* Drops the least recently used grammars while all of them use much memory, so that the cache does not prevent new
 * grammars. */
static void
drop_cached_grammars(dop_constraints *s)
{
    enum { MUCH = 64u << 20 };
    for (size_t n = 0; n < KEPT && dop_vocab_held(s->vocab) > MUCH; n++) {
        size_t oldest = KEPT;
        pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < KEPT; i++)
            if (s->rows[i].key && (oldest == KEPT || s->rows[i].used < s->rows[oldest].used))
                oldest = i;
        dop_grammar *g = oldest < KEPT ? s->rows[oldest].grammar : NULL;
        if (g) {
            free(s->rows[oldest].key);
            s->rows[oldest].key = NULL;
            s->rows[oldest].grammar = NULL;
            s->rows[oldest].used = 0;
        }
        pthread_mutex_unlock(&s->lock);
        dop_grammar_release(g);
    }
}

/* Input of a grammar: a GBNF text, or parts (dop_grammar_from_parts). */
typedef struct source {
    const char *gbnf;
    size_t n_gbnf;
    const json_t *parts;
} source;

static dop_status
compile_grammar(const dop_constraints *shapes, const source *from, dop_budget *io_budget, dop_diag *diag,
                dop_grammar **out_grammar)
{
    dop_budget budget = *io_budget;
    budget.bytes = budget.bytes < most_bytes ? budget.bytes : most_bytes;
    json_t *plain = dop_json_plain((json_t *)(uintptr_t)from->parts);
    dop_status st;
    if (from->parts && !plain)
        st = DOP_NO_MEMORY(diag);
    else if (from->gbnf)
        st = dop_grammar_from_gbnf(shapes->vocab, "grammar", from->gbnf, from->n_gbnf, &budget, diag, out_grammar);
    else
        st = dop_grammar_from_parts(shapes->vocab, plain, &budget, diag, out_grammar);
    json_decref(plain);
    io_budget->steps = budget.steps;
    io_budget->end = budget.end;
    return st;
}

/* Returns the cached grammar with this key, or compiles and caches it. */
static dop_status
find_or_compile_grammar(dop_constraints *shapes, dop_buf *key, const source *from, dop_budget *budget, dop_diag *diag,
                        dop_grammar **out_grammar)
{
    dop_status st = DOP_OK;
    bool kept = !key->failed && strlen(key->data) == key->size; /* a text with a zero byte cannot be a key */
    *out_grammar = kept ? find_cached_grammar(shapes, key->data) : NULL;
    if (!*out_grammar && !begin_grammar_compile(shapes, budget)) {
        st = dop_budget_fail(budget, diag, "the grammar");
    } else if (!*out_grammar) {
        drop_cached_grammars(shapes);
        st = compile_grammar(shapes, from, budget, diag, out_grammar);
        end_grammar_compile(shapes);
        if (st == DOP_OK && kept)
            cache_grammar(shapes, key->data, *out_grammar);
    }
    dop_buf_finish(key);
    return st;
}

dop_status
dop_constraints_find_parts(dop_constraints *shapes, const json_t *parts, dop_budget *budget, dop_diag *diag,
                           struct dop_grammar **out_grammar)
{
    dop_buf key = {0};
    dop_buf_puts(&key, "p");
    dop_json_encode(&key, parts);
    return find_or_compile_grammar(shapes, &key, &(source){.parts = parts}, budget, diag, out_grammar);
}

dop_status
dop_constraints_find_gbnf(dop_constraints *shapes, const char *gbnf, size_t n, dop_budget *budget, dop_diag *diag,
                          struct dop_grammar **out_grammar)
{
    dop_buf key = {0};
    dop_buf_puts(&key, "g");
    dop_buf_append(&key, gbnf, n);
    return find_or_compile_grammar(shapes, &key, &(source){.gbnf = gbnf, .n_gbnf = n}, budget, diag, out_grammar);
}

/* --- constraints in requests ------------------------------------------------------------------------------------------------------- */

/* Constraints that a request can state, under the names of several APIs: OpenAI's response_format, llama.cpp's
 * json_schema and grammar, and vLLM's structured_outputs and guided_*. */
typedef enum shape_kind {
    SHAPE_SCHEMA,  /* JSON schema, as JSON or as a string with JSON text */
    SHAPE_OBJECT,  /* true: any JSON object */
    SHAPE_CHOICE,  /* list of permitted answer texts */
    SHAPE_GRAMMAR, /* GBNF grammar */
    SHAPE_OTHER    /* not supported */
} shape_kind;

/* Members of a request or, if set, of its member `outer`. */
static const struct {
    const char *outer, *name;
    shape_kind kind;
} shape_members[] = {
    {NULL, "json_schema", SHAPE_SCHEMA},
    {NULL, "guided_json", SHAPE_SCHEMA},
    {NULL, "guided_choice", SHAPE_CHOICE},
    {NULL, "guided_regex", SHAPE_OTHER},
    {NULL, "guided_grammar", SHAPE_GRAMMAR},
    {NULL, "regex", SHAPE_OTHER},
    {NULL, "grammar", SHAPE_GRAMMAR},
    {"structured_outputs", "json", SHAPE_SCHEMA},
    {"structured_outputs", "json_object", SHAPE_OBJECT},
    {"structured_outputs", "choice", SHAPE_CHOICE},
    {"structured_outputs", "regex", SHAPE_OTHER},
    {"structured_outputs", "grammar", SHAPE_GRAMMAR},
    {"structured_outputs", "structural_tag", SHAPE_OTHER},
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

/* Requires an answer that matches these parts, and takes ownership of them. */
static void
require_parts(gathering *g, const char *param, json_t *parts)
{
    static const dop_tool_form plain;
    dop_shape_demand demand = {.parts = NULL};
    const char *wrong = dop_answer_require(g->call->chat && g->api->form ? g->api->form : &plain, parts, &demand);
    dop_gather_demand(g, param, wrong, &demand, false);
}

/* Requires an answer that is valid for the schema; NULL: any object. */
static void
require_schema(gathering *g, const char *param, const json_t *schema)
{
    const dop_json_how how = {.flags = DOP_JSON_EXACT | DOP_JSON_UNIQUE, .budget = g->budget};
    dop_diag diag = {0};
    if (!json_is_string(schema))
        g->schema = json_incref((json_t *)(uintptr_t)schema);
    else if (dop_json_decode(json_string_value(schema), json_string_length(schema), &how, &diag, &g->schema) != DOP_OK)
        dop_gather_refuse(g, param, &diag);
    if (!g->r.failed)
        require_parts(g, param, json_pack("{s:O?}", "schema", g->schema));
}

static void
require_choice(gathering *g, const char *param, const json_t *list)
{
    size_t i;
    const json_t *one;
    bool good = json_array_size(list) > 0;
    json_array_foreach(list, i, one) good = good && json_is_string(one);
    if (good)
        require_parts(g, param, json_pack("{s:O}", "any", (json_t *)(uintptr_t)list));
    else
        dop_reader_refuse(&g->r, param, "the choice of answers is a list of texts that is not empty");
}

static void
require_grammar(gathering *g, const char *param, const json_t *text)
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

/* Applies a constraint of this kind, stated by member `name`. param: member of the request that contains it. */
static void
apply_constraint(gathering *g, const char *param, const char *name, shape_kind kind, const json_t *value)
{
    if (kind == SHAPE_OBJECT && !json_is_true(value))
        return;
    if (g->param)
        dop_reader_refuse(&g->r, param, "%s and %s exclude one another", param, g->param);
    else if (kind == SHAPE_OTHER)
        dop_reader_refuse(&g->r, param, "%s is not supported: json_schema, choices and grammar are", name);
    else if (kind == SHAPE_GRAMMAR && !json_is_string(value))
        dop_reader_refuse(&g->r, param, "%s is a text", name);
    if (g->r.failed)
        return;
    if (kind == SHAPE_SCHEMA || kind == SHAPE_OBJECT)
        require_schema(g, param, kind == SHAPE_SCHEMA ? value : NULL);
    else if (kind == SHAPE_CHOICE)
        require_choice(g, param, value);
    else
        require_grammar(g, param, value);
}

static void
read_response_format(gathering *g)
{
    const char *const param = "response_format";
    const json_t *format = dop_reader_get(&g->r, param), *schema = json_object_get(format, "schema");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!schema)
        schema = json_object_get(json_object_get(format, "json_schema"), "schema");
    if (!format || (type && strcmp(type, "text") == 0))
        return;
    if (type && strcmp(type, "json_object") == 0)
        apply_constraint(g, param, type, schema ? SHAPE_SCHEMA : SHAPE_OBJECT, schema ? schema : json_true());
    else if (!type || strcmp(type, "json_schema") != 0)
        dop_reader_refuse(&g->r, param, "response_format is text, json_object or json_schema");
    else if (!schema)
        dop_reader_refuse(&g->r, param, "response_format has no schema, as json_schema.schema or schema");
    else
        apply_constraint(g, param, type, SHAPE_SCHEMA, schema);
}

void
dop_gather_shape(gathering *g)
{
    bool taken = false;
    read_response_format(g);
    for (size_t i = 0; i < sizeof shape_members / sizeof *shape_members; i++) {
        const char *outer = shape_members[i].outer, *param = outer ? outer : shape_members[i].name;
        const json_t *value = dop_reader_get(&g->r, param);
        if (outer)
            value = json_object_get(value, shape_members[i].name);
        if (value && !json_is_null(value) && !g->r.failed)
            apply_constraint(g, param, shape_members[i].name, shape_members[i].kind, value);
        taken = taken || (outer && value);
    }
    if (!taken)
        dop_reader_forget(&g->r, "structured_outputs");
}

/* --- keywords that are not enforced ------------------------------------------------------------------------------------------------ */

/* True if the request demands exact enforcement of its schema. */
static bool
demands_strict_schema(const json_t *root, const char **out_param)
{
    const json_t *tools = json_object_get(root, "tools"), *tool, *format = json_object_get(root, "response_format");
    size_t i;
    *out_param = format ? "response_format" : "tools";
    if (format)
        return json_is_true(json_object_get(format, "strict")) ||
               json_is_true(json_object_get(json_object_get(format, "json_schema"), "strict"));
    json_array_foreach(
        tools, i, tool) if (json_is_true(json_object_get(json_object_get(tool, "function"), "strict"))) return true;
    return false;
}

void
dop_constraints_note_unenforced(dop_reader *r, const struct dop_grammar *grammar, json_t *schema, dop_call *call)
{
    enum { MOST = 20 };
    const char *names[MOST], *param;
    size_t n = 0;
    char *copy = strdup(dop_grammar_unenforced(grammar)), *rest = NULL;
    for (char *name = copy ? strtok_r(copy, ", ", &rest) : NULL; name && n < MOST; name = strtok_r(NULL, ", ", &rest))
        names[n++] = name;
    if (n > 0 && demands_strict_schema(r->root, &param)) {
        dop_reader_refuse(r, param, "strict: the keyword %s of the schema cannot be enforced exactly", names[0]);
    } else if (n > 0) {
        dop_answer_header(r->answer, "X-Doppler-Unenforced", names, n);
        call->schema = json_incref(schema);
    }
    free(copy);
}

void
dop_call_note_validity(const dop_call *call, uint32_t index, json_t *choice)
{
    const dop_job_state s = dop_job_look(call->choices[index].job);
    if (!call->schema || s.end == DOP_JOB_LENGTH || s.end == DOP_JOB_GOES_ON)
        return;
    /* Runs under the engine's lock, so the budget limits it to some milliseconds. */
    dop_budget budget = {.steps = 1000000, .bytes = 8u << 20};
    const dop_buf *content = &call->choices[index].reading.content; /* chat: the answer is completely parsed */
    json_t *value = NULL;
    (void)dop_json_decode(call->chat ? content->data : s.text, call->chat ? content->size : s.n_text,
                          &(dop_json_how){.budget = &budget}, NULL, &value);
    dop_schema_index *index_of = NULL;
    bool valid = false;
    if (value && dop_schema_index_create(call->schema, NULL, &budget, NULL, &index_of) == DOP_OK &&
        dop_schema_validate(index_of, call->schema, value, &budget, NULL, &valid) == DOP_OK)
        json_object_set_new(choice, "schema_valid", json_boolean(valid));
    dop_schema_index_destroy(index_of);
    json_decref(value);
}
