/* Jinja syntax to a tree, by recursive descent with Jinja2's precedence: a filter binds tighter than any operator. */
#include <string.h>

#include "runtime/jinja/jinja.h"

typedef struct parser {
    dop_j_ctx *cx;
    const dop_j_tok *toks;
    size_t at, n;
} parser;

static dop_j_node *parse_expr(parser *p);
static dop_j_node *parse_unary(parser *p, bool with_filter);
static void parse_body(parser *p, const char *const *ends, dop_j_node ***out, size_t *out_n);

static const dop_j_tok *
peek(const parser *p)
{
    return &p->toks[p->at];
}

static const dop_j_tok *
next(parser *p)
{
    const dop_j_tok *t = &p->toks[p->at];
    if (t->kind != JT_EOF)
        p->at++;
    return t;
}

static bool
is(const dop_j_tok *t, dop_j_tok_kind kind, const char *s)
{
    return t->kind == kind && dop_j_eq_lit(t->s, s);
}

static bool
take(parser *p, dop_j_tok_kind kind, const char *s)
{
    if (!is(peek(p), kind, s))
        return false;
    p->at++;
    return true;
}

static void
expect(parser *p, dop_j_tok_kind kind, const char *s)
{
    if (!take(p, kind, s))
        dop_j_fail(p->cx, peek(p)->line, DOP_E_INPUT, "expected '%s'%s%.*s%s", s, peek(p)->s.n ? ", found '" : "",
                   peek(p)->s.n > 40 ? 40 : (int)peek(p)->s.n, peek(p)->s.s ? peek(p)->s.s : "",
                   peek(p)->s.n ? "'" : "");
}

static dop_j_str
expect_name(parser *p)
{
    const dop_j_tok *t = next(p);
    if (t->kind != JT_NAME)
        dop_j_fail(p->cx, t->line, DOP_E_INPUT, "expected a name");
    return t->kind == JT_NAME ? t->s : (dop_j_str){"", 0};
}

/* A node in the arena; NULL after an error. */
static dop_j_node *
make(parser *p, dop_j_node_kind kind)
{
    dop_j_node *n = dop_j_alloc(p->cx, sizeof *n);
    if (n) {
        n->kind = kind;
        n->line = peek(p)->line;
    }
    return n;
}

static void
add_node(parser *p, dop_j_node ***list, size_t *n, dop_j_node *node)
{
    if ((*n & (*n - 1)) == 0) { /* full at every power of two */
        dop_j_node **q = dop_j_alloc(p->cx, (*n ? *n * 2 : 1) * sizeof *q);
        if (!q)
            return;
        if (*n)
            memcpy(q, *list, *n * sizeof *q);
        *list = q;
    }
    (*list)[(*n)++] = node;
}

static void
add_word(parser *p, dop_j_node *node, dop_j_str s)
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
constant(parser *p, dop_j_val v)
{
    dop_j_node *n = make(p, JN_CONST);
    if (n)
        n->value = v;
    return n;
}

static dop_j_node *
two(parser *p, dop_j_node_kind kind, dop_j_str op, const dop_j_node *a, const dop_j_node *b)
{
    dop_j_node *n = make(p, kind);
    if (n) {
        n->s = op;
        n->a = a;
        n->b = b;
    }
    return n;
}

/* "(" has been read: arguments up to ")". */
static void
parse_args(parser *p, dop_j_node *node)
{
    while (p->cx->status == DOP_OK && node && !take(p, JT_OP, ")")) {
        const dop_j_tok *t = peek(p);
        if (t->kind == JT_NAME && is(t + 1, JT_OP, "=")) {
            p->at += 2;
            add_word(p, node, t->s);
        } else if (node->names_n) {
            dop_j_fail(p->cx, t->line, DOP_E_INPUT, "a positional argument after a named one");
        }
        add_node(p, &node->list, &node->list_n, parse_expr(p));
        if (!is(peek(p), JT_OP, ")"))
            expect(p, JT_OP, ",");
    }
}

/* "[" or "(" has been read: items up to the closing mark. */
static dop_j_node *
parse_list(parser *p, const char *close, dop_j_node *first)
{
    dop_j_node *n = make(p, JN_LIST);
    if (n && first)
        add_node(p, &n->list, &n->list_n, first);
    while (n && p->cx->status == DOP_OK && !take(p, JT_OP, close)) {
        add_node(p, &n->list, &n->list_n, parse_expr(p));
        if (!is(peek(p), JT_OP, close))
            expect(p, JT_OP, ",");
    }
    return n;
}

static dop_j_node *
parse_dict(parser *p)
{
    dop_j_node *n = make(p, JN_DICT);
    while (n && p->cx->status == DOP_OK && !take(p, JT_OP, "}")) {
        add_node(p, &n->list, &n->list_n, parse_expr(p));
        expect(p, JT_OP, ":");
        add_node(p, &n->list, &n->list_n, parse_expr(p));
        if (!is(peek(p), JT_OP, "}"))
            expect(p, JT_OP, ",");
    }
    return n;
}

static dop_j_node *
parse_name(parser *p, const dop_j_tok *t)
{
    static const struct {
        const char *name;
        dop_j_kind kind;
        bool b;
    } words[] = {{"true", J_BOOL, true},   {"True", J_BOOL, true},  {"false", J_BOOL, false},
                 {"False", J_BOOL, false}, {"none", J_NONE, false}, {"None", J_NONE, false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (dop_j_eq_lit(t->s, words[i].name))
            return constant(p, words[i].kind == J_NONE ? (dop_j_val){.kind = J_NONE} : dop_j_bool(words[i].b));
    dop_j_node *n = make(p, JN_NAME);
    if (n)
        n->s = t->s;
    return n;
}

static dop_j_node *
parse_primary(parser *p)
{
    const dop_j_tok *t = next(p);
    switch (t->kind) {
    case JT_NAME:
        return parse_name(p, t);
    case JT_INT:
        return constant(p, dop_j_int(t->i));
    case JT_FLOAT:
        return constant(p, (dop_j_val){.kind = J_FLOAT, .u.f = t->f});
    case JT_STR: {
        dop_j_out o = {0};
        dop_j_put(p->cx, &o, t->s.s, t->s.n);
        while (peek(p)->kind == JT_STR) { /* adjacent literals are one string, as in Python */
            t = next(p);
            dop_j_put(p->cx, &o, t->s.s, t->s.n);
        }
        return constant(p, dop_j_take(&o));
    }
    case JT_OP:
        if (dop_j_eq_lit(t->s, "[")) {
            return parse_list(p, "]", NULL);
        } else if (dop_j_eq_lit(t->s, "{")) {
            return parse_dict(p);
        } else if (dop_j_eq_lit(t->s, "(")) {
            if (is(peek(p), JT_OP, ")"))
                return parse_list(p, ")", NULL);
            dop_j_node *e = parse_expr(p);
            if (take(p, JT_OP, ","))
                return parse_list(p, ")", e);
            expect(p, JT_OP, ")");
            return e;
        }
        break;
    default:
        break;
    }
    dop_j_fail(p->cx, t->line, DOP_E_INPUT, "expected an expression%s%.*s%s", t->s.n ? ", found '" : "",
               t->s.n > 40 ? 40 : (int)t->s.n, t->s.s ? t->s.s : "", t->s.n ? "'" : "");
    return NULL;
}

/* "[" has been read: an item or a slice of `of`. */
static dop_j_node *
parse_subscript(parser *p, const dop_j_node *of)
{
    dop_j_node *part[3] = {NULL, NULL, NULL};
    size_t n = 0;
    bool slice = false;
    while (p->cx->status == DOP_OK && !is(peek(p), JT_OP, "]")) {
        if (take(p, JT_OP, ":")) {
            slice = true;
            if (++n > 2)
                dop_j_fail(p->cx, peek(p)->line, DOP_E_INPUT, "a slice has three parts at most");
        } else if (part[n]) {
            expect(p, JT_OP, "]");
        } else {
            part[n] = parse_expr(p);
        }
    }
    expect(p, JT_OP, "]");
    if (!slice && !part[0])
        dop_j_fail(p->cx, peek(p)->line, DOP_E_INPUT, "an empty subscript");
    if (!slice)
        return two(p, JN_ITEM, (dop_j_str){"", 0}, of, part[0]);
    dop_j_node *s = two(p, JN_SLICE, (dop_j_str){"", 0}, of, NULL);
    for (size_t i = 0; i < 3 && s; i++)
        add_node(p, &s->list, &s->list_n, part[i]);
    return s;
}

static dop_j_node *
parse_call(parser *p, const dop_j_node *callee)
{
    dop_j_node *n = two(p, JN_CALL, (dop_j_str){"", 0}, callee, NULL);
    parse_args(p, n);
    return n;
}

static dop_j_node *
parse_postfix(parser *p, dop_j_node *e)
{
    while (p->cx->status == DOP_OK) {
        if (take(p, JT_OP, ".")) {
            const dop_j_tok *t = next(p);
            if (t->kind == JT_INT)
                e = two(p, JN_ITEM, (dop_j_str){"", 0}, e, constant(p, dop_j_int(t->i)));
            else if (t->kind == JT_NAME)
                e = two(p, JN_ATTR, t->s, e, NULL);
            else
                dop_j_fail(p->cx, t->line, DOP_E_INPUT, "expected a name after '.'");
        } else if (take(p, JT_OP, "[")) {
            e = parse_subscript(p, e);
        } else if (take(p, JT_OP, "(")) {
            e = parse_call(p, e);
        } else {
            break;
        }
    }
    return e;
}

/* Name and arguments of a filter, behind "|". */
static dop_j_node *
parse_one_filter(parser *p, const dop_j_node *operand)
{
    dop_j_node *n = two(p, JN_FILTER, expect_name(p), operand, NULL);
    if (take(p, JT_OP, "("))
        parse_args(p, n);
    return n;
}

/* Behind "is": [not] name [argument]. */
static dop_j_node *
parse_one_test(parser *p, const dop_j_node *operand)
{
    bool negate = take(p, JT_NAME, "not");
    dop_j_node *n = two(p, JN_TEST, expect_name(p), operand, NULL);
    const dop_j_tok *t = peek(p);
    if (!n)
        return NULL;
    n->negate = negate;
    bool word = is(t, JT_NAME, "else") || is(t, JT_NAME, "or") || is(t, JT_NAME, "and") || is(t, JT_NAME, "is") ||
                is(t, JT_NAME, "if") || is(t, JT_NAME, "in") || is(t, JT_NAME, "not");
    if (take(p, JT_OP, "("))
        parse_args(p, n);
    else if ((t->kind == JT_NAME && !word) || t->kind == JT_STR || t->kind == JT_INT || t->kind == JT_FLOAT ||
             is(t, JT_OP, "[") || is(t, JT_OP, "{"))
        add_node(p, &n->list, &n->list_n, parse_postfix(p, parse_primary(p)));
    return n;
}

static dop_j_node *
parse_filters(parser *p, dop_j_node *e)
{
    while (p->cx->status == DOP_OK) {
        if (take(p, JT_OP, "|"))
            e = parse_one_filter(p, e);
        else if (take(p, JT_NAME, "is"))
            e = parse_one_test(p, e);
        else if (take(p, JT_OP, "("))
            e = parse_call(p, e);
        else
            break;
    }
    return e;
}

static dop_j_node *
parse_unary(parser *p, bool with_filter)
{
    dop_j_node *e;
    if (++p->cx->depth > J_MAX_DEPTH) {
        dop_j_fail(p->cx, peek(p)->line, DOP_E_INPUT, "expressions are nested too deeply");
        p->cx->depth--;
        return NULL;
    }
    if (take(p, JT_OP, "-"))
        e = two(p, JN_NEG, (dop_j_str){"", 0}, parse_unary(p, false), NULL);
    else if (take(p, JT_OP, "+"))
        e = parse_unary(p, false);
    else
        e = parse_postfix(p, parse_primary(p));
    p->cx->depth--;
    return with_filter ? parse_filters(p, e) : e;
}

/* Left-associative binary operators, by level. */
static dop_j_node *
parse_binary(parser *p, int level)
{
    static const char *const ops[4][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
    if (level == 4)
        return parse_unary(p, true);
    dop_j_node *e = parse_binary(p, level + 1);
    for (bool more = true; more && p->cx->status == DOP_OK;) {
        more = false;
        for (int i = 0; ops[level][i] && !more; i++) {
            const dop_j_tok *t = peek(p);
            if ((more = take(p, JT_OP, ops[level][i])))
                e = two(p, JN_BINARY, t->s, e, parse_binary(p, level + 1));
        }
    }
    return e;
}

static dop_j_node *
parse_compare(parser *p)
{
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">"};
    dop_j_node *e = parse_binary(p, 0), *n = NULL;
    while (p->cx->status == DOP_OK) {
        const dop_j_tok *t = peek(p);
        dop_j_str op = {"", 0};
        for (size_t i = 0; i < 6 && !op.n; i++)
            if (take(p, JT_OP, ops[i]))
                op = t->s;
        if (!op.n && take(p, JT_NAME, "in"))
            op = (dop_j_str){"in", 2};
        if (!op.n && is(t, JT_NAME, "not") && is(t + 1, JT_NAME, "in")) {
            p->at += 2;
            op = (dop_j_str){"not in", 6};
        }
        if (!op.n)
            break;
        if (!n)
            n = two(p, JN_COMPARE, (dop_j_str){"", 0}, e, NULL);
        if (!n)
            return NULL;
        add_word(p, n, op);
        add_node(p, &n->list, &n->list_n, parse_binary(p, 0));
    }
    return n ? n : e;
}

static dop_j_node *
parse_not(parser *p)
{
    if (!take(p, JT_NAME, "not"))
        return parse_compare(p);
    if (++p->cx->depth > J_MAX_DEPTH) {
        dop_j_fail(p->cx, peek(p)->line, DOP_E_INPUT, "expressions are nested too deeply");
        p->cx->depth--;
        return NULL;
    }
    dop_j_node *e = two(p, JN_NOT, (dop_j_str){"", 0}, parse_not(p), NULL);
    p->cx->depth--;
    return e;
}

static dop_j_node *
parse_and(parser *p)
{
    dop_j_node *e = parse_not(p);
    while (p->cx->status == DOP_OK && take(p, JT_NAME, "and"))
        e = two(p, JN_AND, (dop_j_str){"", 0}, e, parse_not(p));
    return e;
}

static dop_j_node *
parse_or(parser *p)
{
    dop_j_node *e = parse_and(p);
    while (p->cx->status == DOP_OK && take(p, JT_NAME, "or"))
        e = two(p, JN_OR, (dop_j_str){"", 0}, e, parse_and(p));
    return e;
}

static dop_j_node *
parse_expr(parser *p)
{
    if (++p->cx->depth > J_MAX_DEPTH) {
        dop_j_fail(p->cx, peek(p)->line, DOP_E_INPUT, "expressions are nested too deeply");
        p->cx->depth--;
        return NULL;
    }
    dop_j_node *e = parse_or(p);
    while (p->cx->status == DOP_OK && take(p, JT_NAME, "if")) {
        dop_j_node *n = two(p, JN_IF_EXPR, (dop_j_str){"", 0}, parse_or(p), e);
        if (n && take(p, JT_NAME, "else"))
            n->c = parse_expr(p);
        e = n;
    }
    p->cx->depth--;
    return e;
}

/* An expression or a tuple without parentheses. */
static dop_j_node *
parse_tuple(parser *p)
{
    dop_j_node *e = parse_expr(p);
    if (!is(peek(p), JT_OP, ","))
        return e;
    dop_j_node *n = make(p, JN_LIST);
    if (n)
        add_node(p, &n->list, &n->list_n, e);
    while (n && p->cx->status == DOP_OK && take(p, JT_OP, ",") && peek(p)->kind != JT_BLOCK_END)
        add_node(p, &n->list, &n->list_n, parse_expr(p));
    return n;
}

static void
end_block(parser *p)
{
    if (peek(p)->kind != JT_BLOCK_END)
        dop_j_fail(p->cx, peek(p)->line, DOP_E_INPUT, "unexpected text at the end of a block tag");
    else
        p->at++;
}

/* Reads the closing tag that parse_body stopped at: "{% name". */
static void
close_block(parser *p)
{
    if (p->cx->status != DOP_OK)
        return;
    p->at += 2;
    end_block(p);
}

static void
parse_targets(parser *p, dop_j_node *n)
{
    bool paren = take(p, JT_OP, "(");
    do
        add_word(p, n, expect_name(p));
    while (p->cx->status == DOP_OK && take(p, JT_OP, ","));
    if (paren)
        expect(p, JT_OP, ")");
}

static dop_j_node *
parse_for(parser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL}, *const end[] = {"endfor", NULL};
    dop_j_node *n = make(p, JN_FOR);
    if (!n)
        return NULL;
    parse_targets(p, n);
    expect(p, JT_NAME, "in");
    n->a = parse_or(p); /* no "if" expression here: "if" filters the items */
    if (take(p, JT_NAME, "if"))
        n->b = parse_expr(p);
    n->recursive = take(p, JT_NAME, "recursive");
    end_block(p);
    parse_body(p, ends, &n->body, &n->body_n);
    if (p->cx->status == DOP_OK && is(peek(p) + 1, JT_NAME, "else")) {
        close_block(p);
        parse_body(p, end, &n->other, &n->other_n);
    }
    close_block(p);
    return n;
}

static dop_j_node *
parse_if(parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const end[] = {"endif", NULL};
    dop_j_node *first = make(p, JN_IF);
    for (dop_j_node *n = first; n && p->cx->status == DOP_OK;) {
        n->a = parse_expr(p);
        end_block(p);
        parse_body(p, ends, &n->body, &n->body_n);
        if (p->cx->status != DOP_OK)
            break;
        if (is(peek(p) + 1, JT_NAME, "elif")) {
            p->at += 2;
            dop_j_node *other = make(p, JN_IF);
            add_node(p, &n->other, &n->other_n, other);
            n = other;
            continue;
        }
        if (is(peek(p) + 1, JT_NAME, "else")) {
            close_block(p);
            parse_body(p, end, &n->other, &n->other_n);
        }
        close_block(p);
        break;
    }
    return first;
}

static dop_j_node *
parse_set(parser *p)
{
    static const char *const end[] = {"endset", NULL};
    dop_j_node *n = make(p, JN_SET);
    if (!n)
        return NULL;
    if (is(peek(p) + 1, JT_OP, ".")) {
        n->s = expect_name(p);
        p->at++;
        add_word(p, n, expect_name(p));
    } else {
        parse_targets(p, n);
    }
    if (take(p, JT_OP, "=")) {
        n->a = parse_tuple(p);
        end_block(p);
        return n;
    }
    n->kind = JN_SET_BLOCK;
    while (p->cx->status == DOP_OK && take(p, JT_OP, "|"))
        add_node(p, &n->list, &n->list_n, parse_one_filter(p, NULL));
    end_block(p);
    parse_body(p, end, &n->body, &n->body_n);
    close_block(p);
    return n;
}

/* "(" has been read: parameters up to ")". */
static void
parse_parameters(parser *p, dop_j_node *n)
{
    while (p->cx->status == DOP_OK && !take(p, JT_OP, ")")) {
        add_word(p, n, expect_name(p));
        if (take(p, JT_OP, "="))
            add_node(p, &n->list, &n->list_n, parse_expr(p));
        else if (n->list_n)
            dop_j_fail(p->cx, n->line, DOP_E_INPUT, "a parameter without default after one with");
        if (!is(peek(p), JT_OP, ")"))
            expect(p, JT_OP, ",");
    }
}

/* Tells by the names in the body whether a macro takes arguments beyond its parameters. */
static void
parse_macro_body(parser *p, dop_j_node *n, const char *const *end)
{
    const size_t from = p->at;
    end_block(p);
    parse_body(p, end, &n->body, &n->body_n);
    for (size_t i = from; i < p->at; i++) {
        n->more_args |= is(&p->toks[i], JT_NAME, "varargs");
        n->more_named |= is(&p->toks[i], JT_NAME, "kwargs");
    }
    close_block(p);
}

static dop_j_node *
parse_macro(parser *p)
{
    static const char *const end[] = {"endmacro", NULL};
    dop_j_node *n = make(p, JN_MACRO);
    if (!n)
        return NULL;
    n->s = expect_name(p);
    expect(p, JT_OP, "(");
    parse_parameters(p, n);
    parse_macro_body(p, n, end);
    return n;
}

/* {% call(parameters) macro(arguments) %}: a macro whose body the other one gets as `caller`. */
static dop_j_node *
parse_call_block(parser *p)
{
    static const char *const end[] = {"endcall", NULL};
    dop_j_node *n = make(p, JN_CALL_BLOCK);
    if (!n)
        return NULL;
    n->s = (dop_j_str){"caller", 6};
    if (take(p, JT_OP, "("))
        parse_parameters(p, n);
    n->a = parse_expr(p);
    if (n->a && n->a->kind != JN_CALL)
        dop_j_fail(p->cx, n->line, DOP_E_INPUT, "expected a call");
    parse_macro_body(p, n, end);
    return n;
}

/* {% filter %}, {% with %} and {% generation %}: a body with something around it. */
static dop_j_node *
parse_wrapped(parser *p, dop_j_str word)
{
    const char *end[] = {"endgeneration", NULL};
    dop_j_node *n = make(p, dop_j_eq_lit(word, "filter") ? JN_FILTER_BLOCK : JN_SCOPE);
    if (!n)
        return NULL;
    if (n->kind == JN_FILTER_BLOCK) {
        end[0] = "endfilter";
        do
            add_node(p, &n->list, &n->list_n, parse_one_filter(p, NULL));
        while (p->cx->status == DOP_OK && take(p, JT_OP, "|"));
    } else if (dop_j_eq_lit(word, "with")) {
        end[0] = "endwith";
        while (p->cx->status == DOP_OK && peek(p)->kind == JT_NAME) {
            add_word(p, n, expect_name(p));
            expect(p, JT_OP, "=");
            add_node(p, &n->list, &n->list_n, parse_expr(p));
            if (!take(p, JT_OP, ","))
                break;
        }
    }
    end_block(p);
    parse_body(p, end, &n->body, &n->body_n);
    close_block(p);
    return n;
}

/* "{%" has been read. */
static dop_j_node *
parse_statement(parser *p)
{
    dop_j_str word = expect_name(p);
    if (p->cx->status != DOP_OK)
        return NULL;
    if (dop_j_eq_lit(word, "for"))
        return parse_for(p);
    if (dop_j_eq_lit(word, "if"))
        return parse_if(p);
    if (dop_j_eq_lit(word, "set"))
        return parse_set(p);
    if (dop_j_eq_lit(word, "macro"))
        return parse_macro(p);
    if (dop_j_eq_lit(word, "call"))
        return parse_call_block(p);
    if (dop_j_eq_lit(word, "filter") || dop_j_eq_lit(word, "with") || dop_j_eq_lit(word, "generation"))
        return parse_wrapped(p, word);
    dop_j_node *n = NULL;
    if (dop_j_eq_lit(word, "break")) {
        n = make(p, JN_BREAK);
    } else if (dop_j_eq_lit(word, "continue")) {
        n = make(p, JN_CONTINUE);
    } else if (dop_j_eq_lit(word, "do")) {
        n = make(p, JN_DO);
        if (n)
            n->a = parse_tuple(p);
    } else {
        dop_j_fail(p->cx, peek(p)->line, DOP_E_INPUT, "block tag \"%.*s\" is not known here",
                   word.n > 40 ? 40 : (int)word.n, word.s);
        return NULL;
    }
    end_block(p);
    return n;
}

/* Statements up to a block tag with one of the names (NULL-terminated; NULL: up to the end); stays in front of it. */
static void
parse_body(parser *p, const char *const *ends, dop_j_node ***out, size_t *out_n)
{
    if (++p->cx->depth > J_MAX_DEPTH)
        dop_j_fail(p->cx, peek(p)->line, DOP_E_INPUT, "blocks are nested too deeply");
    while (p->cx->status == DOP_OK) {
        const dop_j_tok *t = peek(p);
        dop_j_node *n = NULL;
        if (t->kind == JT_EOF) {
            if (ends)
                dop_j_fail(p->cx, t->line, DOP_E_INPUT, "\"%s\" is missing", ends[0]);
            break;
        }
        if (t->kind == JT_BLOCK_BEGIN) {
            bool end = false;
            for (size_t i = 0; ends && ends[i]; i++)
                end |= is(t + 1, JT_NAME, ends[i]);
            if (end)
                break;
            p->at++;
            n = parse_statement(p);
        } else if (t->kind == JT_DATA) {
            n = make(p, JN_DATA);
            if (n)
                n->s = t->s;
            p->at++;
        } else {
            p->at++;
            n = make(p, JN_OUTPUT);
            if (n)
                n->a = parse_tuple(p);
            if (peek(p)->kind != JT_VAR_END)
                dop_j_fail(p->cx, peek(p)->line, DOP_E_INPUT, "unexpected text at the end of an expression");
            else
                p->at++;
        }
        add_node(p, out, out_n, n);
    }
    p->cx->depth--;
}

void
dop_j_parse(dop_j_ctx *cx, const char *s, size_t n)
{
    parser p = {.cx = cx};
    p.toks = dop_j_lex(cx, s, n, &p.n);
    if (p.toks)
        parse_body(&p, NULL, &cx->tree, &cx->tree_n);
}
