/* Rules of schemas: one for each list of schemas that must hold together. A rule is created at its first call and
 * gets its body later (schema.c), so that schemas may be recursive. */
#include "text/schema/schema_rules.h"
#include "text/schema/schema_any.h"
#include "text/schema/schema_base.h"
#include "text/schema/schema_internal.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 100 };

static size_t
find_rule_slot(const dop_schema *s, const json_t *const *of, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint64_t)(uintptr_t)of[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    size_t i = (size_t)h & (s->n_rule_slots - 1);
    for (; s->rule_slots[i]; i = (i + 1) & (s->n_rule_slots - 1)) {
        const dop_schema_rule *r = &s->rules[s->rule_slots[i] - 1];
        if (r->n == n && memcmp(r->list, of, n * sizeof *of) == 0)
            break;
    }
    return i;
}

static bool
grow_rule_slots(dop_schema *s)
{
    if (2 * s->n_rules < s->n_rule_slots)
        return true;
    const size_t cap = s->n_rule_slots ? 2 * s->n_rule_slots : 64;
    uint32_t *slots =
        dop_budget_take(s->a.budget, (cap - s->n_rule_slots) * sizeof *slots) ? calloc(cap, sizeof *slots) : NULL;
    if (!slots) {
        dop_schema_no_memory(s);
        return false;
    }
    free(s->rule_slots);
    s->rule_slots = slots;
    s->n_rule_slots = cap;
    for (uint32_t i = 0; i < s->n_rules; i++)
        slots[find_rule_slot(s, s->rules[i].list, s->rules[i].n)] = i + 1;
    return true;
}

/* Returns the JSON text of a schema whose meaning is independent of its position, so that equal texts share a rule.
 * The caller frees it. Returns NULL if the schema contains subschemas, lists or references. */
static char *
make_schema_text(const json_t *schema)
{
    enum { MOST = 6 };
    const char *key;
    json_t *v;
    if (!json_is_object(schema) || json_object_size(schema) > MOST)
        return NULL;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        unsigned own;
        const bool texts = json_is_string(v) && !dop_schema_is_keyword(key, &own); /* annotations, such as
                                                                                    * descriptions */
        if (key[0] == '$' || json_is_object(v) || json_is_array(v) || texts || json_is_boolean(v))
            return NULL;
    }
    return json_dumps(schema, JSON_COMPACT | JSON_SORT_KEYS);
}

static uint32_t
create_schema_rule(dop_schema *s, const char *name, const json_t *const *of, size_t n)
{
    uint32_t start;
    const uint32_t rule = dop_schema_rule_new(s, &start);
    if (!dop_schema_goes_on(s))
        return 0;
    const size_t before = name ? dop_schema_enter(s, name) : s->n_path;
    if (s->depth >= DEEPEST)
        dop_schema_refuse(s, "schemas are nested more than %d deep", DEEPEST);
    char *path = dop_budget_take(s->a.budget, s->n_path + 1) ? strdup(s->path) : NULL;
    if (!path)
        dop_schema_no_memory(s);
    s->rules[s->n_rules] = (dop_schema_rule){dop_schema_copy(s, of, n, sizeof *of), n, rule, start, s->depth + 1, path};
    s->rule_slots[find_rule_slot(s, of, n)] = (uint32_t)s->n_rules + 1;
    s->n_rules++;
    dop_schema_leave(s, before);
    return rule;
}

uint32_t
dop_schema_rule_of(dop_schema *s, const char *name, const json_t *const *of, size_t n)
{
    bool any = true;
    for (size_t i = 0; i < n; i++)
        any &= json_is_true(of[i]) || (json_is_object(of[i]) && json_object_size(of[i]) == 0);
    if (any)
        return dop_schema_any_value(s);
    if (!grow_rule_slots(s))
        return 0;
    const size_t slot = find_rule_slot(s, of, n);
    if (s->rule_slots[slot])
        return s->rules[s->rule_slots[slot] - 1].rule;
    char *text = n == 1 ? make_schema_text(of[0]) : NULL;
    const json_t *same = text ? json_object_get(s->by_text, text) : NULL;
    uint32_t rule = same ? (uint32_t)json_integer_value(same) : 0;
    s->rules = dop_schema_grow(s, s->rules, s->n_rules, &s->cap_rules, sizeof *s->rules);
    if (!same && dop_schema_goes_on(s)) {
        rule = create_schema_rule(s, name, of, n);
        if (text && dop_schema_goes_on(s))
            s->a.failed |= json_object_set_new(s->by_text, text, json_integer((json_int_t)rule)) != 0;
    }
    free(text);
    return rule;
}
