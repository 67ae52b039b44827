/* Arrays: a grid of states, with a row per number of items so far and a column per number of items that match
 * `contains`. */
#include "text/schema/schema_array.h"
#include "text/schema/schema_base.h"
#include "text/schema/schema_internal.h"
#include "text/schema/schema_rules.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STATES = 200000 };

typedef struct bounds {
    size_t min, max, prefix;
    const json_t *contains; /* schema of `contains`; NULL if there is none */
    size_t least;           /* minimum number of items that must match `contains` */
} bounds;

static const json_t *
find_prefix_items(const json_t *schema)
{
    const json_t *items = json_object_get(schema, "items");
    return json_is_array(items) ? items : json_object_get(schema, "prefixItems");
}

static bounds
find_array_bounds(dop_schema *s, const dop_conjunction *c)
{
    bounds b = {.max = SIZE_MAX};
    bool bounded = false, tail = false;
    for (size_t i = 0; i < c->n; i++) {
        const json_t *schema = c->all[i], *contains = json_object_get(schema, "contains");
        const size_t min = dop_schema_count(s, schema, "minItems", 0),
                     max = dop_schema_count(s, schema, "maxItems", SIZE_MAX),
                     prefix = json_array_size(find_prefix_items(schema));
        b.min = min > b.min ? min : b.min;
        b.max = max < b.max ? max : b.max;
        b.prefix = prefix > b.prefix ? prefix : b.prefix;
        bounded |= json_object_get(schema, "minItems") != NULL;
        tail |= json_object_get(schema, "maxItems") || json_object_get(schema, "unevaluatedItems") ||
                (json_object_get(schema, "items") && !json_is_array(json_object_get(schema, "items"))) ||
                json_object_get(schema, "additionalItems");
        if (contains) {
            if (json_object_get(schema, "maxContains"))
                dop_schema_unenforced(s, "maxContains");
            const size_t least = dop_schema_count(s, schema, "minContains", 1);
            if (least > 0 && b.contains)
                dop_schema_unenforced(s, "contains");
            else if (least > 0) {
                b.contains = contains;
                b.least = least;
            }
        }
    }
    if (b.prefix > 0 && !s->open) { /* without DOP_SCHEMA_OPEN all items of prefixItems are required */
        b.min = bounded ? b.min : b.prefix < b.max ? b.prefix : b.max;
        if (!tail)
            b.max = b.prefix > b.min ? b.prefix : b.min;
    }
    return b;
}

/* Returns the list of schemas for the item at index `at`, which the caller frees. *out_never: set if one of the
 * schemas is false. */
static const json_t **
list_item_schemas(dop_schema *s, const dop_conjunction *c, size_t at, size_t *out_n, bool *out_never)
{
    const json_t **list = malloc((c->n + c->n_closures + 2) * sizeof *list);
    size_t n = 0;
    s->a.failed |= !list;
    for (size_t i = 0; i < c->n + c->n_closures && list; i++) {
        const json_t *one = NULL;
        if (i < c->n)
            one = json_array_get(find_prefix_items(c->all[i]), at);
        else if (c->closures[i - c->n].for_items && at >= c->closures[i - c->n].prefix)
            one = c->closures[i - c->n].schema;
        *out_never |= json_is_false(one);
        if (one && !json_is_true(one))
            list[n++] = one;
    }
    *out_n = n;
    return list;
}

/* Creates two rules for the item at an index, including the comma before it: for any valid item, and for one that
 * also matches `contains`. */
static void
make_item_rules(dop_schema *s, const dop_conjunction *c, const bounds *b, size_t at, uint32_t out_rules[2])
{
    bool never = false;
    size_t n = 0;
    char name[48];
    const json_t **list = list_item_schemas(s, c, at, &n, &never);
    snprintf(name, sizeof name, at < b->prefix ? "prefixItems/%zu" : "items", at);
    out_rules[0] = out_rules[1] = 0;
    if (list && dop_schema_goes_on(s))
        out_rules[0] = dop_schema_rule_of(s, name, list, n);
    if (list && b->contains && dop_schema_goes_on(s)) {
        list[n++] = b->contains;
        out_rules[1] = dop_schema_rule_of(s, "contains", list, n);
    }
    free((void *)list);
    for (size_t i = 0; i < 2 && at > 0; i++) {
        uint32_t start, rule = dop_schema_rule_new(s, &start);
        start = dop_schema_blank(s, dop_schema_text(s, start, ","));
        dop_auto_end(&s->a, dop_auto_call(&s->a, start, out_rules[i]));
        out_rules[i] = rule;
        if (!b->contains)
            break;
    }
}

/* Adds an item from each state of a grid row to the states of the next row. Rows have [least + 1] states. */
static void
add_item_edges(dop_schema *s, const bounds *b, const uint32_t rules[2], const uint32_t *row, const uint32_t *next)
{
    for (size_t m = 0; m <= b->least && dop_schema_goes_on(s); m++) {
        dop_auto_call_to(&s->a, row[m], rules[0], next[m]);
        if (b->contains)
            dop_auto_call_to(&s->a, row[m], rules[1], next[m < b->least ? m + 1 : m]);
    }
}

/* Adds the grid of states. last: state after the last item, followed only by white space and `end`. */
static void
add_grid_rows(dop_schema *s, const dop_conjunction *c, const bounds *b, uint32_t from, uint32_t last, uint32_t end)
{
    const size_t width = b->least + 1, most = b->max == SIZE_MAX ? (b->min > b->prefix ? b->min : b->prefix) : b->max;
    uint32_t *row = calloc(2 * width, sizeof *row), rules[2] = {0};
    s->a.failed |= !row;
    for (size_t m = 0; m < width && row; m++)
        row[m] = m == 0 ? from : dop_auto_state(&s->a);
    if (row && b->min == 0 && b->least == 0)
        dop_auto_nothing(&s->a, from, end);
    for (size_t i = 0; row && dop_schema_goes_on(s) && i < (most ? most : 1); i++) {
        uint32_t *next = row + width;
        if (i <= b->prefix || i == 1)
            make_item_rules(s, c, b, i, rules);
        for (size_t m = 0; m < width; m++)
            next[m] = dop_auto_state(&s->a);
        add_item_edges(s, b, rules, row, next);
        memmove(row, next, width * sizeof *row);
        if (i + 1 >= b->min)
            dop_auto_nothing(&s->a, row[b->least], last);
    }
    if (row && b->max == SIZE_MAX && dop_schema_goes_on(s)) { /* loop for any number of further items */
        make_item_rules(s, c, b, most ? most : 1, rules);
        add_item_edges(s, b, rules, row, row);
    }
    free(row);
}

void
dop_schema_add_array(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to)
{
    bounds b = find_array_bounds(s, c);
    for (size_t i = 0; i <= b.prefix && dop_schema_goes_on(s); i++) {
        bool never = false;
        size_t n;
        free((void *)list_item_schemas(s, c, i, &n, &never));
        if (never && b.max > i)
            b.max = i;
    }
    for (size_t i = 0; i < c->n; i++)
        if (json_is_true(json_object_get(c->all[i], "uniqueItems")) && b.max > 1)
            dop_schema_unenforced(s, "uniqueItems");
    if (b.min > b.max) {
        dop_schema_note_empty(s, "minItems is more than maxItems, or than items and prefixItems allow");
        return;
    }
    if (b.least > 0 && b.max == 0) {
        dop_schema_note_empty(s, "contains wants an item, and none may be there");
        return;
    }
    if (b.min >= MOST_STATES) {
        dop_schema_unenforced(s, "minItems");
        b.min = MOST_STATES / 4;
    }
    if (b.max != SIZE_MAX && b.max >= MOST_STATES) {
        dop_schema_unenforced(s, "maxItems");
        b.max = SIZE_MAX;
    }
    const size_t rows = 1 + (b.max == SIZE_MAX ? b.min + b.prefix : b.max);
    if (b.least > 0 && (b.least > 1000 || rows * (b.least + 1) > MOST_STATES)) {
        dop_schema_unenforced(s, "contains");
        b.contains = NULL;
        b.least = 0;
    }
    const uint32_t last = dop_auto_state(&s->a), end = dop_auto_state(&s->a), open = dop_schema_text(s, from, "[");
    if (b.max == 0) {
        dop_auto_nothing(&s->a, open, end);
    } else if (dop_schema_goes_on(s)) {
        add_grid_rows(s, c, &b, dop_schema_blank(s, open), last, end);
        dop_auto_nothing(&s->a, dop_schema_blank(s, last), end);
    }
    dop_auto_nothing(&s->a, dop_schema_text(s, end, "]"), to);
}
