/* Recursive-descent parser for Jinja expressions, with Jinja2's precedence: a filter binds tighter than any
 * operator. */
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/parse.h"
#include "text/jinja/value.h"

static const dop_j_tok *
next_parser_token(dop_j_parser *p)
{
    const dop_j_tok *t = &p->toks[p->at];
    if (t->kind != JT_EOF)
        p->at++;
    return t;
}

bool
dop_j_is(const dop_j_tok *t, dop_j_tok_kind kind, const char *s)
{
    return t->kind == kind && dop_j_eq_lit(t->s, s);
}

bool
dop_j_accept(dop_j_parser *p, dop_j_tok_kind kind, const char *s)
{
    if (!dop_j_is(dop_j_peek(p), kind, s))
        return false;
    p->at++;
    return true;
}

void
dop_j_expect(dop_j_parser *p, dop_j_tok_kind kind, const char *s)
{
    if (!dop_j_accept(p, kind, s))
        dop_j_fail(p->cx, dop_j_peek(p)->line, DOP_E_INPUT, "expected '%s'%s%.*s%s", s,
                   dop_j_peek(p)->s.n ? ", found '" : "", dop_j_peek(p)->s.n > 40 ? 40 : (int)dop_j_peek(p)->s.n,
                   dop_j_peek(p)->s.s ? dop_j_peek(p)->s.s : "", dop_j_peek(p)->s.n ? "'" : "");
}

dop_j_str
dop_j_expect_name(dop_j_parser *p)
{
    const dop_j_tok *t = next_parser_token(p);
    if (t->kind != JT_NAME)
        dop_j_fail(p->cx, t->line, DOP_E_INPUT, "expected a name");
    return t->kind == JT_NAME ? t->s : (dop_j_str){"", 0};
}

dop_j_node *
dop_j_make(dop_j_parser *p, dop_j_node_kind kind)
{
    dop_j_node *n = dop_j_alloc(p->cx, sizeof *n);
    if (n) {
        n->kind = kind;
        n->line = dop_j_peek(p)->line;
    }
    return n;
}

void
dop_j_add_node(dop_j_parser *p, dop_j_node ***list, size_t *n, dop_j_node *node)
{
    if ((*n & (*n - 1)) == 0) { /* the capacity is a power of two, so the list is full at each */
        dop_j_node **q = dop_j_alloc(p->cx, (*n ? *n * 2 : 1) * sizeof *q);
        if (!q)
            return;
        if (*n)
            memcpy(q, *list, *n * sizeof *q);
        *list = q;
    }
    (*list)[(*n)++] = node;
}

void
dop_j_add_word(dop_j_parser *p, dop_j_node *node, dop_j_str s)
{
    size_t n = node->names_n;
    if ((n & (n - 1)) == 0) {
        dop_j_str *q = dop_j_alloc(p->cx, (n ? n * 2 : 1) * sizeof *q);
        if (!q)
            return;
        if (n)
            memcpy(q, node->names, n * sizeof *q);
        node->names = q;
    }
    node->names[node->names_n++] = s;
}

static dop_j_node *
make_constant_node(dop_j_parser *p, dop_j_val v)
{
    dop_j_node *n = dop_j_make(p, JN_CONST);
    if (n)
        n->value = v;
    return n;
}

static dop_j_node *
make_binary_node(dop_j_parser *p, dop_j_node_kind kind, dop_j_str op, const dop_j_node *a, const dop_j_node *b)
{
    dop_j_node *n = dop_j_make(p, kind);
    if (n) {
        n->s = op;
        n->a = a;
        n->b = b;
    }
    return n;
}

bool
dop_j_enter(dop_j_parser *p)
{
    if (++p->cx->depth > J_MAX_DEPTH)
        dop_j_fail(p->cx, dop_j_peek(p)->line, DOP_E_LIMIT, "expressions or blocks are nested too deeply");
    return p->cx->status == DOP_OK;
}

void
dop_j_leave(dop_j_parser *p)
{
    p->cx->depth--;
}

/* Parses the arguments of a call after "(", including ")". */
static void
parse_args(dop_j_parser *p, dop_j_node *node)
{
    while (p->cx->status == DOP_OK && node && !dop_j_accept(p, JT_OP, ")")) {
        const dop_j_tok *t = dop_j_peek(p);
        const bool late = node->splat || node->named_splat;
        if (dop_j_accept(p, JT_OP, "*")) {
            if (late)
                dop_j_fail(p->cx, t->line, DOP_E_INPUT, "a call has one * and then one **");
            node->splat = dop_j_parse_expr(p);
        } else if (dop_j_accept(p, JT_OP, "**")) {
            if (node->named_splat)
                dop_j_fail(p->cx, t->line, DOP_E_INPUT, "a call has one * and then one **");
            node->named_splat = dop_j_parse_expr(p);
        } else {
            const bool named = t->kind == JT_NAME && dop_j_is(t + 1, JT_OP, "=");
            if (named) {
                p->at += 2;
                dop_j_add_word(p, node, t->s);
            }
            if (named ? node->named_splat != NULL : late || node->names_n)
                dop_j_fail(p->cx, t->line, DOP_E_INPUT, "a positional argument after a named one");
            dop_j_add_node(p, &node->list, &node->list_n, dop_j_parse_expr(p));
        }
        if (!dop_j_is(dop_j_peek(p), JT_OP, ")"))
            dop_j_expect(p, JT_OP, ",");
    }
}

/* Parses a list after "[", including "]". */
static dop_j_node *
parse_list_literal(dop_j_parser *p)
{
    dop_j_node *n = dop_j_make(p, JN_LIST);
    while (n && p->cx->status == DOP_OK && !dop_j_accept(p, JT_OP, "]")) {
        dop_j_add_node(p, &n->list, &n->list_n, dop_j_parse_expr(p));
        if (!dop_j_is(dop_j_peek(p), JT_OP, "]"))
            dop_j_expect(p, JT_OP, ",");
    }
    return n;
}

static dop_j_node *
parse_dict(dop_j_parser *p)
{
    dop_j_node *n = dop_j_make(p, JN_DICT);
    while (n && p->cx->status == DOP_OK && !dop_j_accept(p, JT_OP, "}")) {
        dop_j_add_node(p, &n->list, &n->list_n, dop_j_parse_expr(p));
        dop_j_expect(p, JT_OP, ":");
        dop_j_add_node(p, &n->list, &n->list_n, dop_j_parse_expr(p));
        if (!dop_j_is(dop_j_peek(p), JT_OP, "}"))
            dop_j_expect(p, JT_OP, ",");
    }
    return n;
}

static dop_j_node *
parse_name(dop_j_parser *p, const dop_j_tok *t)
{
    static const struct {
        const char *name;
        dop_j_kind kind;
        bool b;
    } words[] = {{"true", J_BOOL, true},   {"True", J_BOOL, true},  {"false", J_BOOL, false},
                 {"False", J_BOOL, false}, {"none", J_NONE, false}, {"None", J_NONE, false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (dop_j_eq_lit(t->s, words[i].name))
            return make_constant_node(p,
                                      words[i].kind == J_NONE ? (dop_j_val){.kind = J_NONE} : dop_j_bool(words[i].b));
    dop_j_node *n = dop_j_make(p, JN_NAME);
    if (n)
        n->s = t->s;
    return n;
}

/* Parses a tuple or a parenthesized expression after "(", including ")". */
static dop_j_node *
parse_parentheses(dop_j_parser *p)
{
    dop_j_node *e = dop_j_is(dop_j_peek(p), JT_OP, ")") ? dop_j_make(p, JN_TUPLE) : dop_j_parse_tuple(p);
    dop_j_expect(p, JT_OP, ")");
    return e;
}

static dop_j_node *
parse_string(dop_j_parser *p, const dop_j_tok *t)
{
    dop_j_out o = {0};
    if (dop_j_peek(p)->kind != JT_STR)
        return make_constant_node(p, dop_j_str_val(t->s));
    dop_j_put(p->cx, &o, t->s.s, t->s.n);
    while (dop_j_peek(p)->kind == JT_STR) { /* adjacent literals form one string, as in Python */
        t = next_parser_token(p);
        dop_j_put(p->cx, &o, t->s.s, t->s.n);
    }
    return make_constant_node(p, dop_j_take(&o));
}

dop_j_node *
dop_j_parse_primary(dop_j_parser *p)
{
    const dop_j_tok *t = next_parser_token(p);
    switch (t->kind) {
    case JT_NAME:
        return parse_name(p, t);
    case JT_INT:
        return make_constant_node(p, dop_j_int(t->i));
    case JT_BIG:
        return make_constant_node(p, (dop_j_val){.kind = J_BIG, .u.str = t->s});
    case JT_FLOAT:
        return make_constant_node(p, dop_j_float(t->f));
    case JT_STR:
        return parse_string(p, t);
    case JT_OP:
        if (dop_j_eq_lit(t->s, "["))
            return parse_list_literal(p);
        if (dop_j_eq_lit(t->s, "{"))
            return parse_dict(p);
        if (dop_j_eq_lit(t->s, "("))
            return parse_parentheses(p);
        break;
    default:
        break;
    }
    dop_j_fail(p->cx, t->line, DOP_E_INPUT, "expected an expression%s%.*s%s", t->s.n ? ", found '" : "",
               t->s.n > 40 ? 40 : (int)t->s.n, t->s.s ? t->s.s : "", t->s.n ? "'" : "");
    return NULL;
}

/* Parses one part of a subscript, an index or a slice, up to "," or "]". */
static dop_j_node *
parse_subscript_part(dop_j_parser *p)
{
    dop_j_node *part[3] = {NULL, NULL, NULL};
    if (!dop_j_is(dop_j_peek(p), JT_OP, ":"))
        part[0] = dop_j_parse_expr(p);
    if (!dop_j_is(dop_j_peek(p), JT_OP, ":"))
        return part[0];
    for (int i = 1; i < 3 && dop_j_accept(p, JT_OP, ":"); i++) {
        const dop_j_tok *t = dop_j_peek(p);
        if (!dop_j_is(t, JT_OP, ":") && !dop_j_is(t, JT_OP, "]") && !dop_j_is(t, JT_OP, ","))
            part[i] = dop_j_parse_expr(p);
    }
    dop_j_node *s = dop_j_make(p, JN_SLICE);
    for (size_t i = 0; i < 3 && s; i++)
        dop_j_add_node(p, &s->list, &s->list_n, part[i]);
    return s;
}

/* Parses the subscript of expression `of` (an item or a slice) after "[", including "]". */
static dop_j_node *
parse_subscript(dop_j_parser *p, const dop_j_node *of)
{
    dop_j_node *n = NULL, *tuple = NULL;
    if (dop_j_is(dop_j_peek(p), JT_OP, "]"))
        tuple = dop_j_make(p, JN_TUPLE);
    while (p->cx->status == DOP_OK && !dop_j_is(dop_j_peek(p), JT_OP, "]")) {
        n = parse_subscript_part(p);
        if (!tuple && dop_j_is(dop_j_peek(p), JT_OP, ",") && (tuple = dop_j_make(p, JN_TUPLE)) == NULL)
            break;
        if (tuple)
            dop_j_add_node(p, &tuple->list, &tuple->list_n, n);
        if (!dop_j_accept(p, JT_OP, ","))
            break;
    }
    dop_j_expect(p, JT_OP, "]");
    if (p->cx->status != DOP_OK)
        return NULL;
    if (!tuple && n->kind == JN_SLICE) {
        n->a = of;
        return n;
    }
    return make_binary_node(p, JN_ITEM, (dop_j_str){"", 0}, of, tuple ? tuple : n);
}

static dop_j_node *
parse_call(dop_j_parser *p, const dop_j_node *callee)
{
    dop_j_node *n = make_binary_node(p, JN_CALL, (dop_j_str){"", 0}, callee, NULL);
    parse_args(p, n);
    return n;
}

static dop_j_node *
parse_postfix(dop_j_parser *p, dop_j_node *e)
{
    while (p->cx->status == DOP_OK) {
        if (dop_j_accept(p, JT_OP, ".")) {
            const dop_j_tok *t = next_parser_token(p);
            if (t->kind == JT_INT)
                e = make_binary_node(p, JN_ITEM, (dop_j_str){"", 0}, e, make_constant_node(p, dop_j_int(t->i)));
            else if (t->kind == JT_NAME)
                e = make_binary_node(p, JN_ATTR, t->s, e, NULL);
            else
                dop_j_fail(p->cx, t->line, DOP_E_INPUT, "expected a name after '.'");
        } else if (dop_j_accept(p, JT_OP, "[")) {
            e = parse_subscript(p, e);
        } else if (dop_j_accept(p, JT_OP, "(")) {
            e = parse_call(p, e);
        } else {
            break;
        }
    }
    return e;
}

dop_j_node *
dop_j_parse_filter(dop_j_parser *p, const dop_j_node *operand)
{
    dop_j_node *n = make_binary_node(p, JN_FILTER, dop_j_expect_name(p), operand, NULL);
    if (dop_j_accept(p, JT_OP, "("))
        parse_args(p, n);
    return n;
}

/* Parses a test after "is": [not] name [argument]. */
static dop_j_node *
parse_one_test(dop_j_parser *p, const dop_j_node *operand)
{
    bool negate = dop_j_accept(p, JT_NAME, "not");
    dop_j_node *n = make_binary_node(p, JN_TEST, dop_j_expect_name(p), operand, NULL);
    const dop_j_tok *t = dop_j_peek(p);
    if (!n)
        return NULL;
    n->negate = negate;
    bool word = dop_j_is(t, JT_NAME, "else") || dop_j_is(t, JT_NAME, "or") || dop_j_is(t, JT_NAME, "and") ||
                dop_j_is(t, JT_NAME, "is") || dop_j_is(t, JT_NAME, "if") || dop_j_is(t, JT_NAME, "in") ||
                dop_j_is(t, JT_NAME, "not");
    if (dop_j_accept(p, JT_OP, "("))
        parse_args(p, n);
    else if ((t->kind == JT_NAME && !word) || t->kind == JT_STR || t->kind == JT_INT || t->kind == JT_BIG ||
             t->kind == JT_FLOAT || dop_j_is(t, JT_OP, "[") || dop_j_is(t, JT_OP, "{"))
        dop_j_add_node(p, &n->list, &n->list_n, parse_postfix(p, dop_j_parse_primary(p)));
    return n;
}

static dop_j_node *
parse_filters(dop_j_parser *p, dop_j_node *e)
{
    while (p->cx->status == DOP_OK) {
        if (dop_j_accept(p, JT_OP, "|"))
            e = dop_j_parse_filter(p, e);
        else if (dop_j_accept(p, JT_NAME, "is"))
            e = parse_one_test(p, e);
        else if (dop_j_accept(p, JT_OP, "("))
            e = parse_call(p, e);
        else
            break;
    }
    return e;
}

static dop_j_node *
parse_unary(dop_j_parser *p, bool with_filter)
{
    dop_j_node *e = NULL;
    if (dop_j_enter(p)) {
        if (dop_j_accept(p, JT_OP, "-"))
            e = make_binary_node(p, JN_NEG, (dop_j_str){"", 0}, parse_unary(p, false), NULL);
        else if (dop_j_accept(p, JT_OP, "+"))
            e = make_binary_node(p, JN_POS, (dop_j_str){"", 0}, parse_unary(p, false), NULL);
        else
            e = dop_j_parse_primary(p);
        e = parse_postfix(p, e);
    }
    dop_j_leave(p);
    return with_filter ? parse_filters(p, e) : e;
}

/* Parses left-associative binary operators by precedence level, 0 the lowest. */
static dop_j_node *
parse_binary(dop_j_parser *p, int level)
{
    static const char *const ops[4][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
    if (level == 4)
        return parse_unary(p, true);
    dop_j_node *e = parse_binary(p, level + 1);
    for (bool more = true; more && p->cx->status == DOP_OK;) {
        more = false;
        for (int i = 0; ops[level][i] && !more; i++) {
            const dop_j_tok *t = dop_j_peek(p);
            if ((more = dop_j_accept(p, JT_OP, ops[level][i])))
                e = make_binary_node(p, JN_BINARY, t->s, e, parse_binary(p, level + 1));
        }
    }
    return e;
}

static dop_j_node *
parse_compare(dop_j_parser *p)
{
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">"};
    dop_j_node *e = parse_binary(p, 0), *n = NULL;
    while (p->cx->status == DOP_OK) {
        const dop_j_tok *t = dop_j_peek(p);
        dop_j_str op = {"", 0};
        for (size_t i = 0; i < 6 && !op.n; i++)
            if (dop_j_accept(p, JT_OP, ops[i]))
                op = t->s;
        if (!op.n && dop_j_accept(p, JT_NAME, "in"))
            op = (dop_j_str){"in", 2};
        if (!op.n && dop_j_is(t, JT_NAME, "not") && dop_j_is(t + 1, JT_NAME, "in")) {
            p->at += 2;
            op = (dop_j_str){"not in", 6};
        }
        if (!op.n)
            break;
        if (!n)
            n = make_binary_node(p, JN_COMPARE, (dop_j_str){"", 0}, e, NULL);
        if (!n)
            return NULL;
        dop_j_add_word(p, n, op);
        dop_j_add_node(p, &n->list, &n->list_n, parse_binary(p, 0));
    }
    return n ? n : e;
}

static dop_j_node *
parse_not(dop_j_parser *p)
{
    if (!dop_j_accept(p, JT_NAME, "not"))
        return parse_compare(p);
    dop_j_node *e = dop_j_enter(p) ? make_binary_node(p, JN_NOT, (dop_j_str){"", 0}, parse_not(p), NULL) : NULL;
    dop_j_leave(p);
    return e;
}

static dop_j_node *
parse_and(dop_j_parser *p)
{
    dop_j_node *e = parse_not(p);
    while (p->cx->status == DOP_OK && dop_j_accept(p, JT_NAME, "and"))
        e = make_binary_node(p, JN_AND, (dop_j_str){"", 0}, e, parse_not(p));
    return e;
}

dop_j_node *
dop_j_parse_or(dop_j_parser *p)
{
    dop_j_node *e = parse_and(p);
    while (p->cx->status == DOP_OK && dop_j_accept(p, JT_NAME, "or"))
        e = make_binary_node(p, JN_OR, (dop_j_str){"", 0}, e, parse_and(p));
    return e;
}

dop_j_node *
dop_j_parse_expr(dop_j_parser *p)
{
    dop_j_node *e = dop_j_enter(p) ? dop_j_parse_or(p) : NULL;
    while (p->cx->status == DOP_OK && dop_j_accept(p, JT_NAME, "if")) {
        dop_j_node *n = make_binary_node(p, JN_IF_EXPR, (dop_j_str){"", 0}, dop_j_parse_or(p), e);
        if (n && dop_j_accept(p, JT_NAME, "else"))
            n->c = dop_j_parse_expr(p);
        e = n;
    }
    dop_j_leave(p);
    return e;
}

dop_j_node *
dop_j_parse_tuple(dop_j_parser *p)
{
    dop_j_node *e = dop_j_parse_expr(p);
    if (!dop_j_is(dop_j_peek(p), JT_OP, ","))
        return e;
    dop_j_node *n = dop_j_make(p, JN_TUPLE);
    if (n)
        dop_j_add_node(p, &n->list, &n->list_n, e);
    while (n && p->cx->status == DOP_OK && dop_j_accept(p, JT_OP, ",")) {
        const dop_j_tok *t = dop_j_peek(p);
        if (t->kind == JT_BLOCK_END || t->kind == JT_VAR_END || dop_j_is(t, JT_OP, ")"))
            break;
        dop_j_add_node(p, &n->list, &n->list_n, dop_j_parse_expr(p));
    }
    return n;
}
