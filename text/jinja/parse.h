/* Declarations shared by the parsers of expressions (parse.c) and statements (parse_block.c). */
#ifndef DOPPLER_TEXT_JINJA_PARSE_H
#define DOPPLER_TEXT_JINJA_PARSE_H

#include "text/jinja/jinja.h"

typedef struct dop_j_parser {
    dop_j_ctx *cx;
    const dop_j_tok *toks;
    size_t at, n;
} dop_j_parser;

static inline const dop_j_tok *
dop_j_peek(const dop_j_parser *p)
{
    return &p->toks[p->at];
}

bool dop_j_is(const dop_j_tok *t, dop_j_tok_kind kind, const char *s);
/* Consumes the next token if it has this kind and text. Otherwise returns false. */
bool dop_j_accept(dop_j_parser *p, dop_j_tok_kind kind, const char *s);
void dop_j_expect(dop_j_parser *p, dop_j_tok_kind kind, const char *s);
dop_j_str dop_j_expect_name(dop_j_parser *p);
/* Enters a recursion level. Returns false after an error; dop_j_leave() must be called in any case. */
bool dop_j_enter(dop_j_parser *p);
void dop_j_leave(dop_j_parser *p);
/* Allocates a node in the arena. Returns NULL after an error. */
dop_j_node *dop_j_make(dop_j_parser *p, dop_j_node_kind kind);
void dop_j_add_node(dop_j_parser *p, dop_j_node ***list, size_t *n, dop_j_node *node);
void dop_j_add_word(dop_j_parser *p, dop_j_node *node, dop_j_str s);
dop_j_node *dop_j_parse_expr(dop_j_parser *p);
dop_j_node *dop_j_parse_or(dop_j_parser *p); /* Parses an expression without "if ... else". */
/* Parses an expression, or a tuple without parentheses. */
dop_j_node *dop_j_parse_tuple(dop_j_parser *p);
dop_j_node *dop_j_parse_primary(dop_j_parser *p);
/* Parses the name and arguments of a filter after "|". */
dop_j_node *dop_j_parse_filter(dop_j_parser *p, const dop_j_node *operand);

#endif
