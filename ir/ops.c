/* The tables of ops.def, attrs.def and templates.def as data. */
#include "ir/graph.h"

/* ATTRS(a, b) becomes the two initializers `2, {DOP_A_a, DOP_A_b}`. */
/* clang-format off */
#define ATTRS_1(a) 1, {DOP_A_##a}
#define ATTRS_2(a, b) 2, {DOP_A_##a, DOP_A_##b}
#define ATTRS_3(a, b, c) 3, {DOP_A_##a, DOP_A_##b, DOP_A_##c}
#define ATTRS_4(a, b, c, d) 4, {DOP_A_##a, DOP_A_##b, DOP_A_##c, DOP_A_##d}
#define ATTRS_6(a, b, c, d, e, f) 6, {DOP_A_##a, DOP_A_##b, DOP_A_##c, DOP_A_##d, DOP_A_##e, DOP_A_##f}
#define ATTRS_5(a, b, c, d, e) 5, {DOP_A_##a, DOP_A_##b, DOP_A_##c, DOP_A_##d, DOP_A_##e}
#define ATTRS_PICK(a, b, c, d, e, f, pick, ...) pick
#define ATTRS(...) ATTRS_PICK(__VA_ARGS__, ATTRS_6, ATTRS_5, ATTRS_4, ATTRS_3, ATTRS_2, ATTRS_1, 0)(__VA_ARGS__)
#define ATTRS_NONE 0, {DOP_A_COUNT}
/* clang-format on */

static const dop_op_info ops[DOP_OP_COUNT] = {
    {"none", 0, 0, 0, DOP_REACH_NONE, ATTRS_NONE, ""},
#define OP(name, smin, smax, traits, reach, attrs, expr) \
    {#name, smin, smax, DOP_##traits, DOP_REACH_##reach, attrs, expr},
#include "ir/ops.def"
#undef OP
};

static const struct {
    const char *name;
    dop_attr_kind kind;
} attrs[DOP_A_COUNT] = {
#define ATTR(name, kind) {#name, DOP_ATTR_##kind},
#include "ir/attrs.def"
#undef ATTR
};

static const char *const templates[DOP_TPL_COUNT] = {
    "none",
#define TEMPLATE(name, ...) #name,
#include "ir/templates.def"
#undef TEMPLATE
};

const dop_op_info *
dop_op_of(dop_op op)
{
    return &ops[(unsigned)op < DOP_OP_COUNT ? op : DOP_OP_none];
}

const char *
dop_attr_name(dop_attr_id a)
{
    return (unsigned)a < DOP_A_COUNT ? attrs[a].name : "none";
}

dop_attr_kind
dop_attr_kind_of(dop_attr_id a)
{
    return (unsigned)a < DOP_A_COUNT ? attrs[a].kind : DOP_ATTR_I;
}

const char *
dop_reach_name(dop_reach r)
{
    static const char *const names[] = {"NONE", "ELEM", "DIMS", "HEAD", "ROW", "ALL"};
    return (unsigned)r < sizeof names / sizeof names[0] ? names[r] : "none";
}

const char *
dop_template_name(dop_template t)
{
    return (unsigned)t < DOP_TPL_COUNT ? templates[t] : "none";
}
