/* The parts of the Jinja interpreter: arena, values, tokens, syntax tree, evaluation.
 *
 * Errors are sticky: the first one is kept in cx->status and every function below then returns something harmless
 * (an undefined value, NULL), so that only loops have to look. */
#ifndef DOPPLER_RUNTIME_JINJA_JINJA_H
#define DOPPLER_RUNTIME_JINJA_JINJA_H

#include <time.h>

#include "base/json.h"
#include "base/number.h"

typedef struct dop_j_ctx dop_j_ctx;
typedef struct dop_j_node dop_j_node;
typedef struct dop_j_list dop_j_list;
typedef struct dop_j_dict dop_j_dict;
typedef struct dop_j_loop dop_j_loop;
typedef struct dop_j_scope dop_j_scope;
typedef struct dop_j_macro dop_j_macro;

typedef struct dop_j_str {
    const char *s;
    size_t n;
} dop_j_str;

typedef enum dop_j_kind {
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
    J_FUNCTION,
    J_LOOP,
    J_BIG /* an integer beyond 64 bits, which is printed and compared, and a real in arithmetic */
} dop_j_kind;

typedef struct dop_j_val {
    dop_j_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        dop_j_str str; /* J_STR; the digits of J_BIG; the name for J_UNDEF and J_FUNCTION */
        dop_j_list *list;
        dop_j_dict *dict; /* J_DICT, J_NAMESPACE */
        const dop_j_macro *macro;
        dop_j_loop *loop;
    } u;
} dop_j_val;

struct dop_j_list {
    dop_j_val *items;
    size_t n, cap;
};

struct dop_j_dict { /* in order of insertion; small, so lookup is linear */
    dop_j_str *keys;
    dop_j_val *vals;
    size_t n, cap;
};

struct dop_j_loop {
    const dop_j_list *items;
    size_t at, depth;       /* depth: how often a recursive loop called itself to come here, and 1 */
    const dop_j_node *node; /* the statement */
    dop_j_val changed;      /* what loop.changed() was given last, as a list */
    bool has_changed;
};

/* One name table; lookups go outwards.  All but the outermost are in the arena, because macros refer to theirs. */
struct dop_j_scope {
    dop_j_dict vars;
    dop_j_scope *up;
};

/* A macro, or the body of a call block, with the names that it sees. */
struct dop_j_macro {
    const dop_j_node *node;
    dop_j_scope *scope;
};

/* Text under construction, in the arena. */
typedef struct dop_j_out {
    char *s;
    size_t n, cap;
} dop_j_out;

struct dop_j_ctx {
    dop_status status;
    dop_diag *diag;
    const char *name; /* of the template, for messages */
    void *blocks;     /* arena */
    size_t arena_used;
    uint64_t steps;
    unsigned depth;
    dop_j_scope *root, *scope;
    dop_j_out *out;
    size_t loop_depth;
    struct tm now;
    dop_j_node **tree; /* the parsed template */
    size_t tree_n;
};

/* Limits for templates, which are outside data. */
enum { J_MAX_DEPTH = 300, J_MAX_STEPS = 20 * 1000 * 1000, J_MAX_ARENA = 128 * 1024 * 1024, J_MAX_TEXT = 1 << 20 };

/* Records the first error; returns an undefined value. */
dop_j_val dop_j_fail(dop_j_ctx *cx, long line, dop_status code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Zeroed memory, 16-byte aligned, freed with the context; NULL after an error. */
void *dop_j_alloc(dop_j_ctx *cx, size_t n);
void dop_j_free_all(dop_j_ctx *cx);

/* ---- values (value.c) ---- */
static inline dop_j_val
dop_j_undef(dop_j_str name)
{
    return (dop_j_val){.kind = J_UNDEF, .u.str = name};
}

static inline dop_j_val
dop_j_bool(bool b)
{
    return (dop_j_val){.kind = J_BOOL, .u.b = b};
}

static inline dop_j_val
dop_j_int(int64_t i)
{
    return (dop_j_val){.kind = J_INT, .u.i = i};
}

static inline dop_j_val
dop_j_text(const char *s, size_t n)
{
    return (dop_j_val){.kind = J_STR, .u.str = {s, n}};
}

dop_j_val dop_j_lit(const char *s);
bool dop_j_eq_lit(dop_j_str s, const char *t);
bool dop_j_str_eq(dop_j_str a, dop_j_str b);
void dop_j_put(dop_j_ctx *cx, dop_j_out *o, const char *s, size_t n);
void dop_j_puts(dop_j_ctx *cx, dop_j_out *o, const char *s);
dop_j_val dop_j_take(const dop_j_out *o);
dop_j_val dop_j_new_list(dop_j_ctx *cx);
dop_j_val dop_j_new_dict(dop_j_ctx *cx, dop_j_kind kind);
void dop_j_push(dop_j_ctx *cx, dop_j_list *l, dop_j_val v);
void dop_j_set(dop_j_ctx *cx, dop_j_dict *d, dop_j_str key, dop_j_val v);
const dop_j_val *dop_j_get(const dop_j_dict *d, dop_j_str key);
bool dop_j_truth(dop_j_val v);
bool dop_j_equal(dop_j_val a, dop_j_val b, unsigned depth);
/* -1, 0, 1; sets *ok to false when the two have no order. */
int dop_j_order(dop_j_val a, dop_j_val b, bool *ok);
void dop_j_print(dop_j_ctx *cx, dop_j_out *o, dop_j_val v);                /* str() of Python */
void dop_j_repr(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, unsigned depth); /* repr() of Python */
/* Arguments of json.dumps. */
typedef struct dop_j_json_form {
    int64_t indent;                 /* < 0: one line */
    dop_j_str between, behind_name; /* items; a name and its value */
    bool ascii, sort;
} dop_j_json_form;
void dop_j_json(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const dop_j_json_form *form, unsigned depth);
dop_j_val dop_j_from_json(dop_j_ctx *cx, const json_t *j, unsigned depth);
const char *dop_j_kind_name(dop_j_kind k);
/* Items of anything iterable (list, dict keys, characters), as a list; NULL if it is none. */
const dop_j_list *dop_j_items(dop_j_ctx *cx, dop_j_val v);
size_t dop_j_chars(dop_j_str s);  /* length in code points */
bool dop_j_is_space(uint32_t cp); /* str.isspace() of Python */
dop_j_str dop_j_strip(dop_j_str s, const dop_j_str *chars, bool left, bool right);

/* ---- tokens and syntax (lex.c, parse.c) ---- */
typedef enum dop_j_tok_kind {
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
} dop_j_tok_kind;

typedef struct dop_j_tok {
    dop_j_tok_kind kind;
    long line;
    dop_j_str s; /* data, name, unescaped string, operator */
    int64_t i;
    double f;
} dop_j_tok;

/* Cuts a template into tokens ending with JT_EOF; NULL after an error. */
dop_j_tok *dop_j_lex(dop_j_ctx *cx, const char *s, size_t n, size_t *out_n);

typedef enum dop_j_node_kind {
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
} dop_j_node_kind;

/* What the fields hold depends on the kind (see the parser). */
struct dop_j_node {
    dop_j_node_kind kind;
    long line;
    dop_j_str s;
    dop_j_val value;
    bool negate, recursive;
    const dop_j_node *a, *b, *c;
    dop_j_node **list, **body, **other; /* children, statements, else part */
    size_t list_n, body_n, other_n;
    dop_j_str *names; /* keyword names of the last names_n children of list; parameters; targets */
    size_t names_n;
    bool more_args, more_named; /* of a macro: it takes more arguments than it has parameters */
};

/* Parses into cx->tree. */
void dop_j_parse(dop_j_ctx *cx, const char *s, size_t n);

/* ---- evaluation (eval.c; args.c, text.c, test.c, filter.c, builtin.c) ---- */
dop_j_val dop_j_eval(dop_j_ctx *cx, const dop_j_node *e);
void dop_j_run(dop_j_ctx *cx);

/* Evaluated arguments of a call. */
typedef struct dop_j_args {
    const dop_j_val *pos;
    size_t n;
    const dop_j_str *names;
    const dop_j_val *named;
    size_t named_n;
    long line;
} dop_j_args;

/* Argument by position or keyword, NULL when absent. */
const dop_j_val *dop_j_arg(const dop_j_args *a, size_t index, const char *name);
/* The same as a string or an integer, with a fallback. */
dop_j_str dop_j_str_arg(dop_j_ctx *cx, const dop_j_args *a, size_t index, const char *name, const char *fallback);
int64_t dop_j_int_arg(const dop_j_args *a, size_t index, const char *name, int64_t fallback);
/* Fails: "WHAT does not work on a KIND". */
dop_j_val dop_j_wrong(dop_j_ctx *cx, const dop_j_args *a, const char *what, dop_j_val v);
dop_j_val dop_j_join(dop_j_ctx *cx, const dop_j_list *l, dop_j_str sep);
/* str.split(): at a separator, or at runs of white space when there is none; max < 0: no limit. */
dop_j_val dop_j_split(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, int64_t max);
/* The methods of strings that give texts or lists of texts; Python's, as far as templates use them. */
typedef enum dop_j_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL } dop_j_case;
dop_j_val dop_j_change_case(dop_j_ctx *cx, dop_j_str s, dop_j_case how);
bool dop_j_is_cased(dop_j_ctx *cx, dop_j_str s, bool upper); /* letters, and none of the other case */
dop_j_val dop_j_replace(dop_j_ctx *cx, dop_j_str s, dop_j_str from, dop_j_str to, int64_t count);
dop_j_val dop_j_rsplit(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, int64_t max);
dop_j_val dop_j_split_lines(dop_j_ctx *cx, dop_j_str s, bool keep_ends);
/* FORMAT % ARGUMENTS, a list or one value. */
dop_j_val dop_j_format(dop_j_ctx *cx, dop_j_str format, const dop_j_val *args, size_t n, long line);
dop_j_val dop_j_filter(dop_j_ctx *cx, dop_j_str name, dop_j_val v, const dop_j_args *a);
bool dop_j_test(dop_j_ctx *cx, dop_j_str name, dop_j_val v, const dop_j_args *a);
/* Sets *known to false when there is no such method. */
dop_j_val dop_j_method(dop_j_ctx *cx, dop_j_val self, dop_j_str name, const dop_j_args *a, bool *known);
/* A function by its name, as a value; an undefined value: there is none. */
dop_j_val dop_j_function_value(dop_j_str name);
dop_j_val dop_j_function(dop_j_ctx *cx, dop_j_str name, const dop_j_args *a);
/* self.name as the template sees it. */
dop_j_val dop_j_attribute(dop_j_ctx *cx, dop_j_val self, dop_j_str name, long line);

#endif
