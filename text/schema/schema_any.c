/* Rules for unrestricted JSON values. */
#include "text/schema/schema_any.h"
#include "text/schema/schema_base.h"
#include "text/schema/schema_character.h"
#include "text/schema/schema_internal.h"
#include "text/schema/schema_number.h"

static uint32_t
add_any_list(dop_schema *s, uint32_t from, const char *open, uint32_t item, const char *close)
{
    uint32_t start, more = dop_schema_rule_new(s, &start), end = dop_auto_state(&s->a);
    dop_auto_end(&s->a, dop_auto_call(&s->a, dop_schema_blank(s, dop_schema_text(s, start, ",")), item));
    from = dop_schema_blank(s, dop_schema_text(s, from, open));
    dop_auto_nothing(&s->a, from, end);
    uint32_t others = dop_auto_repeat(&s->a, dop_auto_call(&s->a, from, item), more, 0, DOP_AUTO_MANY);
    dop_auto_nothing(&s->a, dop_schema_blank(s, others), end);
    return dop_schema_text(s, end, close);
}

uint32_t
dop_schema_any_string(dop_schema *s)
{
    if (s->string == DOP_AUTO_NONE) {
        uint32_t start;
        s->string = dop_schema_rule_new(s, &start);
        start = dop_schema_text(s, start, "\"");
        start = dop_auto_repeat(&s->a, start, dop_schema_character(s), 0, DOP_AUTO_MANY);
        dop_auto_end(&s->a, dop_schema_text(s, start, "\""));
    }
    return s->string;
}

uint32_t
dop_schema_any_object(dop_schema *s)
{
    if (s->object == DOP_AUTO_NONE) {
        uint32_t start, member_start;
        s->object = dop_schema_rule_new(s, &start);
        uint32_t member = dop_schema_rule_new(s, &member_start);
        uint32_t key = dop_auto_call(&s->a, member_start, dop_schema_any_string(s));
        key = dop_schema_blank(s, dop_schema_text(s, key, ":"));
        dop_auto_end(&s->a, dop_auto_call(&s->a, key, dop_schema_any_value(s)));
        dop_auto_end(&s->a, add_any_list(s, start, "{", member, "}"));
    }
    return s->object;
}

static uint32_t
make_any_array(dop_schema *s)
{
    if (s->array == DOP_AUTO_NONE) {
        uint32_t start;
        s->array = dop_schema_rule_new(s, &start);
        dop_auto_end(&s->a, add_any_list(s, start, "[", dop_schema_any_value(s), "]"));
    }
    return s->array;
}

static uint32_t
make_any_number(dop_schema *s)
{
    if (s->number == DOP_AUTO_NONE) {
        uint32_t start;
        s->number = dop_schema_rule_new(s, &start);
        dop_auto_end(&s->a, dop_schema_any_number(s, start));
    }
    return s->number;
}

uint32_t
dop_schema_any_value(dop_schema *s)
{
    if (s->value == DOP_AUTO_NONE) {
        uint32_t start;
        s->value = dop_schema_rule_new(s, &start);
        dop_auto_end(&s->a, dop_auto_call(&s->a, start, dop_schema_any_object(s)));
        dop_auto_end(&s->a, dop_auto_call(&s->a, start, make_any_array(s)));
        dop_auto_end(&s->a, dop_auto_call(&s->a, start, dop_schema_any_string(s)));
        dop_auto_end(&s->a, dop_auto_call(&s->a, start, make_any_number(s)));
        dop_auto_end(&s->a, dop_schema_text(s, start, "true"));
        dop_auto_end(&s->a, dop_schema_text(s, start, "false"));
        dop_auto_end(&s->a, dop_schema_text(s, start, "null"));
    }
    return s->value;
}
