/* The tables of ops.def, attrs.def and templates.def as data. */
#include "ir/graph/ops.h"
#include "ir/graph/graph.h"

/* ATTRS(a, b) becomes the two initializers `2, {DOP_A_a, DOP_A_b}`. */
/* clang-format off */
#define ATTRS_1(a) 1, {DOP_A_##a}
#define ATTRS_2(a, b) 2, {DOP_A_##a, DOP_A_##b}
#define ATTRS_3(a, b, c) 3, {DOP_A_##a, DOP_A_##b, DOP_A_##c}
#define ATTRS_4(a, b, c, d) 4, {DOP_A_##a, DOP_A_##b, DOP_A_##c, DOP_A_##d}
#define ATTRS_6(a, b, c, d, e, f) 6, {DOP_A_##a, DOP_A_##b, DOP_A_##c, DOP_A_##d, DOP_A_##e, DOP_A_##f}
#define ATTRS_7(a, b, c, d, e, f, g) 7, {DOP_A_##a, DOP_A_##b, DOP_A_##c, DOP_A_##d, DOP_A_##e, DOP_A_##f, DOP_A_##g}
#define ATTRS_5(a, b, c, d, e) 5, {DOP_A_##a, DOP_A_##b, DOP_A_##c, DOP_A_##d, DOP_A_##e}
#define ATTRS_8(a, b, c, d, e, f, g, h) 8, {DOP_A_##a, DOP_A_##b, DOP_A_##c, DOP_A_##d, DOP_A_##e, DOP_A_##f, DOP_A_##g, DOP_A_##h}
#define ATTRS_9(a, b, c, d, e, f, g, h, i) \
    9, {DOP_A_##a, DOP_A_##b, DOP_A_##c, DOP_A_##d, DOP_A_##e, \
        DOP_A_##f, DOP_A_##g, DOP_A_##h, DOP_A_##i}
#define ATTRS_10(a, b, c, d, e, f, g, h, i, j) \
    10, {DOP_A_##a, DOP_A_##b, DOP_A_##c, DOP_A_##d, DOP_A_##e, \
        DOP_A_##f, DOP_A_##g, DOP_A_##h, DOP_A_##i, DOP_A_##j}
#define ATTRS_PICK(a, b, c, d, e, f, g, h, i, j, pick, ...) pick
#define ATTRS(...) ATTRS_PICK(__VA_ARGS__, ATTRS_10, ATTRS_9, ATTRS_8, ATTRS_7, ATTRS_6, ATTRS_5, ATTRS_4, ATTRS_3, ATTRS_2, ATTRS_1, 0)(__VA_ARGS__)
#define ATTRS_NONE 0, {DOP_A_COUNT}
/* S(ROW(same) COL(all)) becomes {.axis[DOP_AXIS_row] = DOP_ACCESS_same, .axis[DOP_AXIS_col] = DOP_ACCESS_all, } */
#define S(...) {__VA_ARGS__}
#define AXIS(name, kind) .axis[DOP_AXIS_##name] = DOP_ACCESS_##kind,
#define ROW(kind) AXIS(row, kind)
#define POS(kind) AXIS(pos, kind)
#define PART(kind) AXIS(part, kind)
#define HEAD(kind) AXIS(head, kind)
#define COL(kind) AXIS(col, kind)
#define ROW_AT(source) AXIS(row, at) .by = source,
#define ROW_AT_STEP AXIS(row, at) .by = DOP_BY_STEP,
#define TAPS(n) .taps = n,
#define EXPERT_AT(source) AXIS(expert, at) .by = source,
#define EACH ROW(same) HEAD(same) COL(same)
#define ACCESS(...) {__VA_ARGS__}
#define ACCESS_NONE {{.by = 0}}
/* ops.def and templates.def write traits, holes and joins without their prefix. */
enum { LEAF = DOP_LEAF, VIEW = DOP_VIEW, PURE = DOP_PURE, EFFECT = DOP_EFFECT, STATISTIC = DOP_STATISTIC,
       ALONGSIDE = DOP_ALONGSIDE, PARTIAL = DOP_PARTIAL };
enum { ELEMENTS = DOP_HOLE_ELEMENTS, ROWS = DOP_HOLE_ROWS, SCALAR = DOP_HOLE_SCALAR, HEADS = DOP_HOLE_HEADS,
       CHOICE = DOP_HOLE_CHOICE };
enum { JOIN_ELEMENT = DOP_JOIN_ELEMENT, JOIN_ROW = DOP_JOIN_ROW, JOIN_PARTIAL = DOP_JOIN_PARTIAL,
       JOIN_CHOICE = DOP_JOIN_CHOICE,   JOIN_HEADS = DOP_JOIN_HEADS };
/* clang-format on */

static const dop_op_info ops[DOP_OP_COUNT] = {
    {"none", 0, 0, 0, DOP_ROOT_none, ACCESS_NONE, ATTRS_NONE, ""},
#define OP(name, smin, smax, traits, root, access, attrs, expr) \
    {#name, smin, smax, traits, DOP_ROOT_##root, access, attrs, expr},
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

/* clang-format off */
#undef AXIS
#define AXIS(name, span) [DOP_AXIS_##name] = DOP_TILE_##span,
#define TILE(...) {__VA_ARGS__}
#define HOLES(...) {__VA_ARGS__}
#define ANYWHERE {ELEMENTS, ELEMENTS, ELEMENTS, ELEMENTS, ELEMENTS, ELEMENTS, ELEMENTS}
#define CAPACITIES(...) __VA_ARGS__
/* clang-format on */

static const dop_template_info templates[DOP_TPL_COUNT] = {
    {.name = "none"},
#define TEMPLATE(id, kind_, tile_, joins_, holes_, capacities, what) \
    {.name = #id, .kind = kind_, .tile = tile_, .joins = joins_, .hole = holes_, capacities, .makes = what},
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
dop_attr_word(dop_attr_id a, int64_t i)
{
    static const char *const state_kinds[] = {"append", "replace", NULL}, *const masks[] = {"causal", "full",
                                                                                            "segments", "cache"};
    if (i < 0 || i > 3)
        return NULL;
    return a == DOP_A_kind && i < 3 ? state_kinds[i] : a == DOP_A_mask ? masks[i] : NULL;
}

bool
dop_attr_optional(dop_attr_id a)
{
    return dop_attr_kind_of(a) == DOP_ATTR_O || dop_attr_kind_of(a) == DOP_ATTR_D;
}

const dop_template_info *
dop_template_of(dop_template t)
{
    return &templates[(unsigned)t < DOP_TPL_COUNT ? t : DOP_TPL_none];
}

const char *
dop_template_name(dop_template t)
{
    return dop_template_of(t)->name;
}
