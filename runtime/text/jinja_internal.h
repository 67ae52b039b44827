/* The parts of the Jinja interpreter: arena, values, tokens, syntax tree, evaluation.
 *
 * Errors are sticky: the first one is kept in cx->status and every function below then returns something harmless
 * (an undefined value, NULL), so that only loops have to look. */
#ifndef DOPPLER_RUNTIME_TEXT_JINJA_INTERNAL_H
#define DOPPLER_RUNTIME_TEXT_JINJA_INTERNAL_H

#include <jansson.h>
#include <time.h>

#include "runtime/base.h"

typedef struct j_ctx j_ctx;
typedef struct j_node j_node;
typedef struct j_list j_list;
typedef struct j_dict j_dict;
typedef struct j_loop j_loop;
typedef struct j_scope j_scope;

typedef struct j_str {
    const char *s;
    size_t n;
} j_str;

typedef enum j_kind {
    J_UNDEF,
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_STR,
    J_LIST,
    J_DICT,
    J_NAMESPACE,
    J_MACRO,
    J_LOOP
} j_kind;

typedef struct j_val {
    j_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        j_str str; /* J_STR; the name for J_UNDEF */
        j_list *list;
        j_dict *dict; /* J_DICT, J_NAMESPACE */
        const j_node *macro;
        j_loop *loop;
    } u;
} j_val;

struct j_list {
    j_val *items;
    size_t n, cap;
};

struct j_dict { /* in order of insertion; small, so lookup is linear */
    j_str *keys;
    j_val *vals;
    size_t n, cap;
};

struct j_loop {
    const j_list *items;
    size_t at;
    size_t depth;
};

/* One name table; lookups go outwards. */
struct j_scope {
    j_dict vars;
    j_scope *up;
};

/* Text under construction, in the arena. */
typedef struct j_out {
    char *s;
    size_t n, cap;
} j_out;

struct j_ctx {
    dop_status status;
    dop_diag *diag;
    const char *name; /* of the template, for messages */
    void *blocks;     /* arena */
    size_t arena_used;
    uint64_t steps;
    unsigned depth;
    j_scope *root, *scope;
    j_out *out;
    size_t loop_depth;
    struct tm now;
    j_node **tree; /* the parsed template */
    size_t tree_n;
};

/* Limits for templates, which are outside data. */
enum { J_MAX_DEPTH = 300, J_MAX_STEPS = 20 * 1000 * 1000, J_MAX_ARENA = 128 * 1024 * 1024, J_MAX_TEXT = 1 << 20 };

/* Records the first error; returns an undefined value. */
j_val j_fail(j_ctx *cx, long line, dop_status code, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Zeroed memory, 16-byte aligned, freed with the context; NULL after an error. */
void *j_alloc(j_ctx *cx, size_t n);
void j_free_all(j_ctx *cx);

/* ---- values (jinja_value.c) ---- */
static inline j_val
j_undef(j_str name)
{
    return (j_val){.kind = J_UNDEF, .u.str = name};
}

static inline j_val
j_bool(bool b)
{
    return (j_val){.kind = J_BOOL, .u.b = b};
}

static inline j_val
j_int(int64_t i)
{
    return (j_val){.kind = J_INT, .u.i = i};
}

static inline j_val
j_text(const char *s, size_t n)
{
    return (j_val){.kind = J_STR, .u.str = {s, n}};
}

j_val j_lit(const char *s);
bool j_eq_lit(j_str s, const char *t);
bool j_str_eq(j_str a, j_str b);
void j_put(j_ctx *cx, j_out *o, const char *s, size_t n);
void j_puts(j_ctx *cx, j_out *o, const char *s);
j_val j_take(const j_out *o);
j_val j_new_list(j_ctx *cx);
j_val j_new_dict(j_ctx *cx, j_kind kind);
void j_push(j_ctx *cx, j_list *l, j_val v);
void j_set(j_ctx *cx, j_dict *d, j_str key, j_val v);
const j_val *j_get(const j_dict *d, j_str key);
bool j_truth(j_val v);
bool j_equal(j_val a, j_val b, unsigned depth);
/* -1, 0, 1; sets *ok to false when the two have no order. */
int j_order(j_val a, j_val b, bool *ok);
void j_print(j_ctx *cx, j_out *o, j_val v);                /* str() of Python */
void j_repr(j_ctx *cx, j_out *o, j_val v, unsigned depth); /* repr() of Python */
/* json.dumps(v, ensure_ascii=False, indent=indent); indent < 0: one line. */
void j_json(j_ctx *cx, j_out *o, j_val v, int64_t indent, unsigned depth);
j_val j_from_json(j_ctx *cx, const json_t *j, unsigned depth);
const char *j_kind_name(j_kind k);
/* Items of anything iterable (list, dict keys, characters), as a list; NULL if it is none. */
const j_list *j_items(j_ctx *cx, j_val v);
size_t j_chars(j_str s);      /* length in code points */
bool j_is_space(uint32_t cp); /* str.isspace() of Python */
j_str j_strip(j_str s, const j_str *chars, bool left, bool right);

/* ---- tokens and syntax (jinja_lex.c, jinja_parse.c) ---- */
typedef enum j_tok_kind {
    JT_DATA,
    JT_VAR_BEGIN,
    JT_VAR_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_INT,
    JT_FLOAT,
    JT_STR,
    JT_OP,
    JT_EOF
} j_tok_kind;

typedef struct j_tok {
    j_tok_kind kind;
    long line;
    j_str s; /* data, name, unescaped string, operator */
    int64_t i;
    double f;
} j_tok;

/* Cuts a template into tokens ending with JT_EOF; NULL after an error. */
j_tok *j_lex(j_ctx *cx, const char *s, size_t n, size_t *out_n);

typedef enum j_node_kind {
    /* expressions */
    JN_CONST,
    JN_NAME,
    JN_LIST,
    JN_DICT,
    JN_ATTR,
    JN_ITEM,
    JN_SLICE,
    JN_CALL,
    JN_FILTER,
    JN_TEST,
    JN_NOT,
    JN_NEG,
    JN_AND,
    JN_OR,
    JN_IF_EXPR,
    JN_BINARY,
    JN_COMPARE,
    /* statements */
    JN_DATA,
    JN_OUTPUT,
    JN_FOR,
    JN_IF,
    JN_SET,
    JN_SET_BLOCK,
    JN_MACRO,
    JN_BREAK,
    JN_CONTINUE,
    JN_SCOPE,
    JN_FILTER_BLOCK,
    JN_DO,
    JN_CALL_BLOCK,
} j_node_kind;

/* What the fields hold depends on the kind (see the parser). */
struct j_node {
    j_node_kind kind;
    long line;
    j_str s;
    j_val value;
    bool negate;
    const j_node *a, *b, *c;
    j_node **list, **body, **other; /* children, statements, else part */
    size_t list_n, body_n, other_n;
    j_str *names; /* keyword names of the last names_n children of list; parameters; targets */
    size_t names_n;
};

/* Parses into cx->tree. */
void j_parse(j_ctx *cx, const char *s, size_t n);

/* ---- evaluation (jinja_eval.c, jinja_filter.c, jinja_builtin.c) ---- */
j_val j_eval(j_ctx *cx, const j_node *e);
void j_run(j_ctx *cx);

/* Evaluated arguments of a call. */
typedef struct j_args {
    const j_val *pos;
    size_t n;
    const j_str *names;
    const j_val *named;
    size_t named_n;
    long line;
} j_args;

/* Argument by position or keyword, NULL when absent. */
const j_val *j_arg(const j_args *a, size_t index, const char *name);
/* The same as a string or an integer, with a fallback. */
j_str j_str_arg(j_ctx *cx, const j_args *a, size_t index, const char *name, const char *fallback);
int64_t j_int_arg(const j_args *a, size_t index, const char *name, int64_t fallback);
/* Fails: "WHAT does not work on a KIND". */
j_val j_wrong(j_ctx *cx, const j_args *a, const char *what, j_val v);
j_val j_join(j_ctx *cx, const j_list *l, j_str sep);
/* str.split(): at a separator, or at runs of white space when there is none; max < 0: no limit. */
j_val j_split(j_ctx *cx, j_str s, const j_str *sep, int64_t max);
j_val j_call_macro(j_ctx *cx, const j_node *macro, const j_args *a);
j_val j_filter(j_ctx *cx, j_str name, j_val v, const j_args *a);
bool j_test(j_ctx *cx, j_str name, j_val v, const j_args *a);
/* Sets *known to false when there is no such method. */
j_val j_method(j_ctx *cx, j_val self, j_str name, const j_args *a, bool *known);
j_val j_function(j_ctx *cx, j_str name, const j_args *a, bool *known);
/* self.name as the template sees it. */
j_val j_attribute(j_ctx *cx, j_val self, j_str name, long line);

#endif
