/* Parser of Jinja statements ("{% ... %}") and of the texts between tags. */
#include "text/jinja/parse_block.h"
#include "text/jinja/arena.h"
#include "text/jinja/lex.h"
#include "text/jinja/parse.h"
#include "text/jinja/value.h"

static void parse_body(dop_j_parser *p, const char *const *ends, dop_j_node ***out, size_t *out_n);

static void
expect_block_end(dop_j_parser *p)
{
    if (dop_j_peek(p)->kind != JT_BLOCK_END)
        dop_j_fail(p->cx, dop_j_peek(p)->line, DOP_E_INPUT, "unexpected text at the end of a block tag");
    else
        p->at++;
}

/* Consumes the closing tag "{% name %}" before which parse_body() stopped. */
static void
expect_closing_tag(dop_j_parser *p)
{
    if (p->cx->status != DOP_OK)
        return;
    p->at += 2;
    expect_block_end(p);
}

static dop_j_node *parse_targets(dop_j_parser *p);

/* Parses the target of an assignment or a loop: a name, a namespace attribute, or several targets in parentheses. */
static dop_j_node *
parse_target(dop_j_parser *p)
{
    dop_j_node *n = NULL;
    if (dop_j_accept(p, JT_OP, "(")) {
        n = dop_j_enter(p) ? parse_targets(p) : NULL;
        dop_j_leave(p);
        dop_j_expect(p, JT_OP, ")");
        return n;
    }
    n = dop_j_make(p, JN_NAME);
    if (!n)
        return NULL;
    n->s = dop_j_expect_name(p);
    if (dop_j_accept(p, JT_OP, ".")) {
        dop_j_node *attribute = dop_j_make(p, JN_ATTR);
        if (!attribute)
            return NULL;
        attribute->a = n;
        attribute->s = dop_j_expect_name(p);
        n = attribute;
    }
    return n;
}

static dop_j_node *
parse_targets(dop_j_parser *p)
{
    dop_j_node *first = parse_target(p), *n;
    if (!dop_j_is(dop_j_peek(p), JT_OP, ",") || !(n = dop_j_make(p, JN_TUPLE)))
        return first;
    dop_j_add_node(p, &n->list, &n->list_n, first);
    while (p->cx->status == DOP_OK && dop_j_accept(p, JT_OP, ",")) {
        const dop_j_tok *t = dop_j_peek(p);
        if (t->kind != JT_NAME && !dop_j_is(t, JT_OP, "("))
            break;
        if (dop_j_is(t, JT_NAME, "in"))
            break;
        dop_j_add_node(p, &n->list, &n->list_n, parse_target(p));
    }
    return n;
}

/* Parses the iterable of a loop. Conditional expressions are excluded, because "if" filters the loop's items. */
static dop_j_node *
parse_looped(dop_j_parser *p)
{
    dop_j_node *e = dop_j_parse_or(p), *n;
    if (!dop_j_is(dop_j_peek(p), JT_OP, ",") || !(n = dop_j_make(p, JN_TUPLE)))
        return e;
    dop_j_add_node(p, &n->list, &n->list_n, e);
    while (p->cx->status == DOP_OK && dop_j_accept(p, JT_OP, ",") && dop_j_peek(p)->kind != JT_BLOCK_END &&
           !dop_j_is(dop_j_peek(p), JT_NAME, "recursive"))
        dop_j_add_node(p, &n->list, &n->list_n, dop_j_parse_or(p));
    return n;
}

static dop_j_node *
parse_for(dop_j_parser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL}, *const end[] = {"endfor", NULL};
    dop_j_node *n = dop_j_make(p, JN_FOR);
    if (!n)
        return NULL;
    n->target = parse_targets(p);
    dop_j_expect(p, JT_NAME, "in");
    n->a = parse_looped(p);
    if (dop_j_accept(p, JT_NAME, "if"))
        n->b = dop_j_parse_expr(p);
    n->recursive = dop_j_accept(p, JT_NAME, "recursive");
    expect_block_end(p);
    parse_body(p, ends, &n->body, &n->body_n);
    if (p->cx->status == DOP_OK && dop_j_is(dop_j_peek(p) + 1, JT_NAME, "else")) {
        expect_closing_tag(p);
        parse_body(p, end, &n->other, &n->other_n);
    }
    expect_closing_tag(p);
    return n;
}

static dop_j_node *
parse_if(dop_j_parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const end[] = {"endif", NULL};
    dop_j_node *first = dop_j_make(p, JN_IF);
    for (dop_j_node *n = first; n && p->cx->status == DOP_OK;) {
        n->a = dop_j_parse_tuple(p);
        expect_block_end(p);
        parse_body(p, ends, &n->body, &n->body_n);
        if (p->cx->status != DOP_OK)
            break;
        if (dop_j_is(dop_j_peek(p) + 1, JT_NAME, "elif")) {
            p->at += 2;
            dop_j_node *other = dop_j_make(p, JN_IF);
            dop_j_add_node(p, &n->other, &n->other_n, other);
            n = other;
            continue;
        }
        if (dop_j_is(dop_j_peek(p) + 1, JT_NAME, "else")) {
            expect_closing_tag(p);
            parse_body(p, end, &n->other, &n->other_n);
        }
        expect_closing_tag(p);
        break;
    }
    return first;
}

static dop_j_node *
parse_set(dop_j_parser *p)
{
    static const char *const end[] = {"endset", NULL};
    dop_j_node *n = dop_j_make(p, JN_SET);
    if (!n)
        return NULL;
    n->target = parse_targets(p);
    if (dop_j_accept(p, JT_OP, "=")) {
        n->a = dop_j_parse_tuple(p);
        expect_block_end(p);
        return n;
    }
    n->kind = JN_SET_BLOCK;
    while (p->cx->status == DOP_OK && dop_j_accept(p, JT_OP, "|"))
        dop_j_add_node(p, &n->list, &n->list_n, dop_j_parse_filter(p, NULL));
    expect_block_end(p);
    parse_body(p, end, &n->body, &n->body_n);
    expect_closing_tag(p);
    return n;
}

/* Parses the parameters of a macro after "(", including ")". */
static void
parse_parameters(dop_j_parser *p, dop_j_node *n)
{
    while (p->cx->status == DOP_OK && !dop_j_accept(p, JT_OP, ")")) {
        dop_j_add_word(p, n, dop_j_expect_name(p));
        if (dop_j_accept(p, JT_OP, "="))
            dop_j_add_node(p, &n->list, &n->list_n, dop_j_parse_expr(p));
        else if (n->list_n)
            dop_j_fail(p->cx, n->line, DOP_E_INPUT, "a parameter without default after one with");
        if (!dop_j_is(dop_j_peek(p), JT_OP, ")"))
            dop_j_expect(p, JT_OP, ",");
    }
}

/* Parses a macro's body. As in Jinja, the names varargs, kwargs and caller in the body determine which extra
 * arguments the macro accepts. */
static void
parse_macro_body(dop_j_parser *p, dop_j_node *n, const char *const *end)
{
    const size_t from = p->at;
    expect_block_end(p);
    parse_body(p, end, &n->body, &n->body_n);
    for (size_t i = from; i < p->at && dop_j_step(p->cx, 1); i++) {
        if (i > from && dop_j_is(&p->toks[i - 1], JT_OP, "."))
            continue;
        n->more_args |= dop_j_is(&p->toks[i], JT_NAME, "varargs");
        n->more_named |= dop_j_is(&p->toks[i], JT_NAME, "kwargs");
        n->asks_caller |= dop_j_is(&p->toks[i], JT_NAME, "caller");
    }
    expect_closing_tag(p);
}

static dop_j_node *
parse_macro(dop_j_parser *p)
{
    static const char *const end[] = {"endmacro", NULL};
    dop_j_node *n = dop_j_make(p, JN_MACRO);
    if (!n)
        return NULL;
    n->s = dop_j_expect_name(p);
    dop_j_expect(p, JT_OP, "(");
    parse_parameters(p, n);
    parse_macro_body(p, n, end);
    return n;
}

/* Parses {% call(parameters) macro(arguments) %}. The block becomes a macro that the called macro receives as
 * `caller`. */
static dop_j_node *
parse_call_block(dop_j_parser *p)
{
    static const char *const end[] = {"endcall", NULL};
    dop_j_node *n = dop_j_make(p, JN_CALL_BLOCK);
    if (!n)
        return NULL;
    n->s = (dop_j_str){"caller", 6};
    if (dop_j_accept(p, JT_OP, "("))
        parse_parameters(p, n);
    n->a = dop_j_parse_expr(p);
    if (n->a && n->a->kind != JN_CALL)
        dop_j_fail(p->cx, n->line, DOP_E_INPUT, "expected a call");
    parse_macro_body(p, n, end);
    return n;
}

static void
parse_with(dop_j_parser *p, dop_j_node *n)
{
    while (p->cx->status == DOP_OK && dop_j_peek(p)->kind != JT_BLOCK_END) {
        dop_j_node *set = dop_j_make(p, JN_SET);
        if (!set)
            return;
        set->target = parse_target(p);
        dop_j_expect(p, JT_OP, "=");
        set->a = dop_j_parse_expr(p);
        dop_j_add_node(p, &n->list, &n->list_n, set);
        if (!dop_j_accept(p, JT_OP, ","))
            break;
    }
}

/* Parses a block with its own scope: with, filter, block, autoescape, and generation, which transformers adds. */
static dop_j_node *
parse_wrapped(dop_j_parser *p, dop_j_str word)
{
    const char *end[] = {"endgeneration", NULL};
    dop_j_node *n = dop_j_make(p, dop_j_eq_lit(word, "filter") ? JN_FILTER_BLOCK : JN_SCOPE);
    if (!n)
        return NULL;
    if (n->kind == JN_FILTER_BLOCK) {
        end[0] = "endfilter";
        do
            dop_j_add_node(p, &n->list, &n->list_n, dop_j_parse_filter(p, NULL));
        while (p->cx->status == DOP_OK && dop_j_accept(p, JT_OP, "|"));
    } else if (dop_j_eq_lit(word, "with")) {
        end[0] = "endwith";
        parse_with(p, n);
    } else if (dop_j_eq_lit(word, "block")) {
        end[0] = "endblock";
        dop_j_expect_name(p);
    } else if (dop_j_eq_lit(word, "autoescape")) {
        end[0] = "endautoescape";
        if (!dop_j_accept(p, JT_NAME, "false") && !dop_j_accept(p, JT_NAME, "False"))
            dop_j_fail(p->cx, n->line, DOP_E_INPUT, "autoescape is not supported");
    }
    expect_block_end(p);
    parse_body(p, end, &n->body, &n->body_n);
    if (p->cx->status == DOP_OK && dop_j_eq_lit(word, "block") && (dop_j_peek(p) + 2)->kind == JT_NAME)
        p->at++; /* skip the repeated block name */
    expect_closing_tag(p);
    return n;
}

static dop_j_node *
parse_simple(dop_j_parser *p, dop_j_str word)
{
    dop_j_node *n = NULL;
    if (dop_j_eq_lit(word, "break") || dop_j_eq_lit(word, "continue")) {
        n = dop_j_make(p, word.s[0] == 'b' ? JN_BREAK : JN_CONTINUE);
    } else if (dop_j_eq_lit(word, "do")) {
        n = dop_j_make(p, JN_DO);
        if (n)
            n->a = dop_j_parse_tuple(p);
    } else {
        dop_j_fail(p->cx, dop_j_peek(p)->line, DOP_E_INPUT, "block tag \"%.*s\" is not known here",
                   word.n > 40 ? 40 : (int)word.n, word.s);
        return NULL;
    }
    expect_block_end(p);
    return n;
}

/* Parses one statement after "{%". */
static dop_j_node *
parse_statement(dop_j_parser *p)
{
    static const struct {
        const char *word;
        dop_j_node *(*parse)(dop_j_parser *p);
    } rows[] = {
        {"for", parse_for}, {"if", parse_if}, {"set", parse_set}, {"macro", parse_macro}, {"call", parse_call_block}};
    static const char *const wrapped[] = {"filter", "with", "generation", "block", "autoescape"};
    const dop_j_str word = dop_j_expect_name(p);
    if (p->cx->status != DOP_OK)
        return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (dop_j_eq_lit(word, rows[i].word))
            return rows[i].parse(p);
    for (size_t i = 0; i < sizeof wrapped / sizeof *wrapped; i++)
        if (dop_j_eq_lit(word, wrapped[i]))
            return parse_wrapped(p, word);
    return parse_simple(p, word);
}

static dop_j_node *
parse_output(dop_j_parser *p)
{
    dop_j_node *n = dop_j_make(p, JN_OUTPUT);
    if (n)
        n->a = dop_j_parse_tuple(p);
    if (dop_j_peek(p)->kind != JT_VAR_END)
        dop_j_fail(p->cx, dop_j_peek(p)->line, DOP_E_INPUT, "unexpected text at the end of an expression");
    else
        p->at++;
    return n;
}

/* Parses statements until a block tag with a name from `ends` and stops before that tag. ends: terminated by NULL;
 * NULL: until the end of the template. */
static void
parse_body(dop_j_parser *p, const char *const *ends, dop_j_node ***out, size_t *out_n)
{
    dop_j_enter(p);
    while (p->cx->status == DOP_OK) {
        const dop_j_tok *t = dop_j_peek(p);
        dop_j_node *n = NULL;
        if (t->kind == JT_EOF) {
            if (ends)
                dop_j_fail(p->cx, t->line, DOP_E_INPUT, "\"%s\" is missing", ends[0]);
            break;
        }
        bool end = false;
        for (size_t i = 0; t->kind == JT_BLOCK_BEGIN && ends && ends[i]; i++)
            end |= dop_j_is(t + 1, JT_NAME, ends[i]);
        if (end)
            break;
        p->at++;
        if (t->kind == JT_BLOCK_BEGIN) {
            n = parse_statement(p);
        } else if (t->kind == JT_DATA) {
            n = dop_j_make(p, JN_DATA);
            if (n)
                n->s = t->s;
        } else {
            n = parse_output(p);
        }
        dop_j_add_node(p, out, out_n, n);
    }
    dop_j_leave(p);
}

void
dop_j_parse(dop_j_ctx *cx, const char *s, size_t n)
{
    dop_j_parser p = {.cx = cx};
    p.toks = dop_j_lex(cx, s, n, &p.n);
    if (p.toks)
        parse_body(&p, NULL, &cx->tree, &cx->tree_n);
}
