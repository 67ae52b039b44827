/* The parts of the Jinja interpreter: arena, values, tokens, syntax tree, evaluation.
 *
 * Errors are sticky: the first one is kept in cx->status and every function below then returns something harmless
 * (an undefined value, NULL), so that only loops have to look. */
#ifndef DOPPLER_TEXT_JINJA_JINJA_H
#define DOPPLER_TEXT_JINJA_JINJA_H

#include <time.h>

#include "base/json/json.h"
#include "base/json/number.h"

typedef struct dop_j_ctx dop_j_ctx;
typedef struct dop_j_node dop_j_node;
typedef struct dop_j_list dop_j_list;
typedef struct dop_j_dict dop_j_dict;
typedef struct dop_j_loop dop_j_loop;
typedef struct dop_j_scope dop_j_scope;
typedef struct dop_j_macro dop_j_macro;
typedef struct dop_j_bound dop_j_bound;

typedef struct dop_j_str {
    const char *s;
    size_t n;
} dop_j_str;

/* Kinds of values, after Python's types. */
typedef enum dop_j_kind {
    J_UNDEF,
    J_NONE,
    J_BOOL,
    J_INT,
    J_BIG, /* a whole number beyond 64 bits, as its digits: it is compared and printed, not computed with */
    J_FLOAT,
    J_STR,
    J_LIST,
    J_TUPLE,
    J_RANGE,
    J_VIEW, /* what keys(), values() and items() of a dictionary give */
    J_ITER, /* what many filters give: its items can be taken once */
    J_DICT,
    J_NAMESPACE,
    J_MACRO,
    J_FUNCTION,
    J_METHOD,
    J_LOOP,
    J_CYCLER,
    J_JOINER
} dop_j_kind;

typedef struct dop_j_val {
    dop_j_kind kind;
    bool safe; /* the string is Markup, which is not escaped again */
    union {
        bool b;
        int64_t i;
        double f;
        dop_j_str str;    /* J_STR; J_BIG: the digits; J_UNDEF, J_FUNCTION: the name */
        dop_j_list *list; /* J_LIST to J_ITER, J_CYCLER, J_JOINER */
        dop_j_dict *dict; /* J_DICT, J_NAMESPACE */
        const dop_j_macro *macro;
        const dop_j_bound *method;
        dop_j_loop *loop;
    } u;
} dop_j_val;

struct dop_j_list {
    dop_j_val *items;
    size_t n, cap;
    size_t at;                 /* J_ITER: items already taken; J_CYCLER, J_JOINER: calls so far */
    const char *name;          /* J_VIEW: Python's name of the view's type */
    int64_t first, stop, step; /* J_RANGE */
};

typedef struct dop_j_entry {
    dop_j_val key, val;
    uint64_t hash; /* hash of the key; set once the dictionary has an index */
} dop_j_entry;

/* A dictionary, which keeps the order of insertion: entries, and for more than a few entries an index with open addressing. */
struct dop_j_dict {
    dop_j_entry *entries;
    size_t n, cap;
    uint32_t *slots; /* index of an entry, plus 1; 0: the slot is free */
    size_t slots_n;  /* number of slots, a power of 2; 0: no index */
};

struct dop_j_loop {
    const dop_j_list *items;
    size_t at, depth;       /* index of the current item; level of recursion, from 1 */
    const dop_j_node *node; /* the loop's statement */
    dop_j_val changed;      /* arguments of the last call of loop.changed(), as a tuple */
    bool has_changed;
};

/* A scope of names; look-ups go outwards.  All scopes but the outermost are in the arena, because macros keep the scope that they are
 * defined in. */
struct dop_j_scope {
    dop_j_dict vars;
    dop_j_scope *up;
};

/* A closure: a macro, or the body of a call block, with the scope that it sees. */
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
    const char *name;   /* the template's name, for messages */
    dop_budget *budget; /* the caller's budget; NULL: only the interpreter's own limits hold */
    dop_budget own;     /* the interpreter's own limits, J_MAX_STEPS and J_MAX_ARENA; set by dop_j_init */
    uint64_t owed;      /* steps done and not yet charged */
    void *blocks;       /* arena: the block that small allocations come from, and those before it */
    unsigned depth;
    dop_j_scope *root, *scope;
    dop_j_out *out;
    size_t loop_depth;
    struct tm now;
    dop_j_node **tree; /* the parsed template */
    size_t tree_n;
};

/* Limits for templates, which are outside data.  A step is some 10 ns. */
enum {
    J_MAX_DEPTH = 300,
    J_MAX_STEPS = 60 * 1000 * 1000,
    J_MAX_ARENA = 128 * 1024 * 1024,
    J_MAX_TEXT = 1 << 20,
    J_MAX_RANGE = 100000, /* as in Jinja's sandbox */
    J_NODE_STEPS = 6,     /* steps for evaluating one node */
    J_CHARGE_EVERY = 4096
};

/* A context with its limits; `budget` may be NULL. */
void dop_j_init(dop_j_ctx *cx, const char *name, dop_budget *budget, dop_diag *diag);
/* Records the first error; returns an undefined value. */
dop_j_val dop_j_fail(dop_j_ctx *cx, long line, dop_status code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Charges the steps that are owed to both budgets; false: an error has occurred, as that a budget is exhausted. */
bool dop_j_charge(dop_j_ctx *cx);
/* Zeroed memory, 16-byte aligned, freed with the context; NULL after an error. */
void *dop_j_alloc(dop_j_ctx *cx, size_t n);
/* Makes room for `need` elements in an array of the arena that only *p refers to; false after an error. */
bool dop_j_grow(dop_j_ctx *cx, void **p, size_t *cap, size_t need, size_t elem);
void dop_j_free_all(dop_j_ctx *cx);

/* Counts steps of work; every loop whose length depends on values calls it, and ends when it returns false. */
static inline bool
dop_j_step(dop_j_ctx *cx, uint64_t steps)
{
    cx->owed += steps;
    return cx->owed < J_CHARGE_EVERY ? cx->status == DOP_OK : dop_j_charge(cx);
}

/* ---- values (value.c, print.c) ---- */
static inline dop_j_val
dop_j_undef(dop_j_str name)
{
    return (dop_j_val){.kind = J_UNDEF, .u.str = name};
}

static inline dop_j_val
dop_j_none(void)
{
    return (dop_j_val){.kind = J_NONE};
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
dop_j_float(double f)
{
    return (dop_j_val){.kind = J_FLOAT, .u.f = f};
}

static inline dop_j_val
dop_j_text(const char *s, size_t n)
{
    return (dop_j_val){.kind = J_STR, .u.str = {s, n}};
}

static inline dop_j_val
dop_j_str_val(dop_j_str s)
{
    return (dop_j_val){.kind = J_STR, .u.str = s};
}

static inline bool
dop_j_is_list(dop_j_val v) /* the kinds whose items are in u.list */
{
    return v.kind >= J_LIST && v.kind <= J_ITER;
}

dop_j_val dop_j_lit(const char *s);
bool dop_j_eq_lit(dop_j_str s, const char *t);
bool dop_j_str_eq(dop_j_str a, dop_j_str b);
/* memmem(), also for empty texts; charged. */
const char *dop_j_find(dop_j_ctx *cx, dop_j_str in, dop_j_str what);
void dop_j_put(dop_j_ctx *cx, dop_j_out *o, const char *s, size_t n);
void dop_j_puts(dop_j_ctx *cx, dop_j_out *o, const char *s);
void dop_j_fill(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, uint64_t times);
dop_j_val dop_j_take(const dop_j_out *o);
/* Make an empty list of one of the kinds from J_LIST to J_ITER, and an empty dictionary or namespace. */
dop_j_val dop_j_new_list(dop_j_ctx *cx, dop_j_kind kind);
dop_j_val dop_j_new_dict(dop_j_ctx *cx, dop_j_kind kind);
void dop_j_push(dop_j_ctx *cx, dop_j_val list, dop_j_val v); /* does nothing after an error */
dop_j_val dop_j_pair(dop_j_ctx *cx, dop_j_val a, dop_j_val b);
/* Set and look up an entry of a dictionary; a key that Python could not hash is an error for both functions. */
void dop_j_set(dop_j_ctx *cx, dop_j_dict *d, dop_j_val key, dop_j_val v);
const dop_j_val *dop_j_get(dop_j_ctx *cx, const dop_j_dict *d, dop_j_val key);
void dop_j_clear(dop_j_dict *d);
bool dop_j_hashable(dop_j_ctx *cx, dop_j_val v);
bool dop_j_truth(dop_j_val v);
/* The value of a number; false: v is no number. */
bool dop_j_number(dop_j_val v, double *out);
bool dop_j_equal(dop_j_ctx *cx, dop_j_val a, dop_j_val b);
/* Compares two values: -1, 0 or 1; sets *ok to false when Python has no order for the two. */
int dop_j_order(dop_j_ctx *cx, dop_j_val a, dop_j_val b, bool *ok);
void dop_j_print(dop_j_ctx *cx, dop_j_out *o, dop_j_val v); /* str() of Python */
void dop_j_repr(dop_j_ctx *cx, dop_j_out *o, dop_j_val v);  /* repr() of Python */
dop_j_val dop_j_string(dop_j_ctx *cx, dop_j_val v);         /* str(), as a value; a string even after an error */
/* Arguments of json.dumps. */
typedef struct dop_j_json_form {
    bool lines; /* an indent is given */
    /* Indentation of a level; separators between items, and between a name and its value. */
    dop_j_str indent, between, behind_name;
    bool ascii, sort;
} dop_j_json_form;
void dop_j_json(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const dop_j_json_form *form);
/* Makes a value of JSON; its texts point into `j`, which must live as long as the context. */
dop_j_val dop_j_from_json(dop_j_ctx *cx, const json_t *j);
const char *dop_j_kind_name(dop_j_kind k);
/* The items of anything iterable (list, dict keys, characters), as a list; NULL: v is not iterable.  The items of a J_ITER are consumed. */
const dop_j_list *dop_j_items(dop_j_ctx *cx, dop_j_val v);
size_t dop_j_chars(dop_j_ctx *cx, dop_j_str s); /* length in code points */
/* s[from:to] in code points, both already within the text. */
dop_j_str dop_j_cut(dop_j_ctx *cx, dop_j_str s, int64_t from, int64_t to);
bool dop_j_is_space(uint32_t cp); /* str.isspace() of Python */
dop_j_str dop_j_strip(dop_j_ctx *cx, dop_j_str s, const dop_j_str *chars, bool left, bool right);
/* An item to sort, with the key to sort it by (sort.c). */
typedef struct dop_j_keyed {
    dop_j_val key, item;
} dop_j_keyed;
void dop_j_sort(dop_j_ctx *cx, dop_j_keyed *items, size_t n, bool down, long line);
/* Operators (operator.c). */
dop_j_val dop_j_binary(dop_j_ctx *cx, dop_j_str op, dop_j_val x, dop_j_val y, long line);
bool dop_j_contains(dop_j_ctx *cx, dop_j_val in, dop_j_val what, long line);
bool dop_j_compare(dop_j_ctx *cx, dop_j_str op, dop_j_val x, dop_j_val y, long line);
dop_j_val dop_j_item(dop_j_ctx *cx, dop_j_val v, dop_j_val key, long line);
dop_j_val dop_j_slice(dop_j_ctx *cx, dop_j_val v, const dop_j_val part[3], long line);
dop_j_val dop_j_undefined_use(dop_j_ctx *cx, dop_j_val v, long line);

/* ---- tokens and syntax (lex.c, parse.c) ---- */
typedef enum dop_j_tok_kind {
    JT_DATA,
    JT_VAR_BEGIN,
    JT_VAR_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_INT,
    JT_BIG,
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
    JN_TUPLE,
    JN_DICT,
    JN_ATTR,
    JN_ITEM,
    JN_SLICE,
    JN_CALL,
    JN_FILTER,
    JN_TEST,
    JN_NOT,
    JN_NEG,
    JN_POS,
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

/* A node of the syntax tree; what its fields hold depends on the kind (see the parser). */
struct dop_j_node {
    dop_j_node_kind kind;
    long line;
    dop_j_str s;
    dop_j_val value;
    bool negate, recursive;
    const dop_j_node *a, *b, *c;
    dop_j_node **list, **body, **other; /* children of an expression; statements of a block, and of its else part */
    size_t list_n, body_n, other_n;
    /* Names of a call's keyword arguments, which are the last names_n of list; names of parameters; of targets. */
    dop_j_str *names;
    size_t names_n;
    const dop_j_node *splat, *named_splat; /* *list and **dictionary of a call */
    const dop_j_node *target; /* what a loop or an assignment binds: a name, an attribute of a namespace, a tuple */
    bool more_args, more_named,
        asks_caller; /* a macro's body names varargs, kwargs, caller: it takes further arguments, named ones, a caller */
};

/* Parses into cx->tree. */
void dop_j_parse(dop_j_ctx *cx, const char *s, size_t n);

/* ---- evaluation (eval.c) ---- */
dop_j_val dop_j_eval(dop_j_ctx *cx, const dop_j_node *e);
void dop_j_run(dop_j_ctx *cx);

/* The evaluated arguments of a call: by position, and by name. */
typedef struct dop_j_args {
    const dop_j_val *pos;
    size_t n;
    const dop_j_str *names;
    const dop_j_val *named;
    size_t named_n;
    long line;
} dop_j_args;

enum { J_STACK_ARGS = 8 }; /* a call with more takes memory from the arena */

/* Argument by position or keyword, NULL when absent. */
const dop_j_val *dop_j_arg(const dop_j_args *a, size_t index, const char *name);
/* An argument as a string, an integer or a truth value; `fallback` where it is absent, and for None where Python's default is None. */
dop_j_str dop_j_str_arg(dop_j_ctx *cx, const dop_j_args *a, size_t index, const char *name, const char *fallback);
int64_t dop_j_int_arg(dop_j_ctx *cx, const dop_j_args *a, size_t index, const char *name, int64_t fallback);
bool dop_j_bool_arg(const dop_j_args *a, size_t index, const char *name, bool fallback);
/* Fails: "WHAT does not work on a KIND". */
dop_j_val dop_j_wrong(dop_j_ctx *cx, const dop_j_args *a, const char *what, dop_j_val v);

/* ---- texts (text.c, format.c) ---- */
dop_j_val dop_j_join(dop_j_ctx *cx, const dop_j_list *l, dop_j_str sep);
typedef enum dop_j_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP, CASE_FOLD } dop_j_case;
dop_j_val dop_j_change_case(dop_j_ctx *cx, dop_j_str s, dop_j_case how);
dop_j_val dop_j_replace(dop_j_ctx *cx, dop_j_str s, dop_j_str from, dop_j_str to, int64_t count);
/* str.split() and rsplit(): at a separator, or at runs of white space when there is none; max < 0: no limit. */
dop_j_val dop_j_split(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, int64_t max);
dop_j_val dop_j_rsplit(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, int64_t max);
dop_j_val dop_j_split_lines(dop_j_ctx *cx, dop_j_str s, bool keep_ends);
/* Read a number as Python's float() and int() do; false: the text is no number. */
bool dop_j_read_float(dop_j_str s, double *out);
bool dop_j_read_int(dop_j_ctx *cx, dop_j_str s, int base, dop_j_val *out);
/* Format a text: FORMAT % ARGUMENTS, where these are a tuple, a dictionary or one value, and FORMAT.format(ARGUMENTS). */
dop_j_val dop_j_percent(dop_j_ctx *cx, dop_j_str format, dop_j_val args, long line);
dop_j_val dop_j_str_format(dop_j_ctx *cx, dop_j_str format, const dop_j_args *a);

/* ---- what templates call (filter.c, filter_value.c, filter_list.c, filter_text.c, method.c, function.c) ---- */
typedef dop_j_val dop_j_filter_fn(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how);
typedef struct dop_j_filter_row {
    const char *name;
    dop_j_filter_fn *fn;
    int how;
} dop_j_filter_row;
/* Tables of filters; each ends with a row without a name. */
extern const dop_j_filter_row dop_j_value_filters[], dop_j_list_filters[], dop_j_text_filters[];
/* The items of a value that a filter works on; fails with the filter's name where the value is not iterable. */
const dop_j_list *dop_j_items_of(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, const char *filter);
/* Looks up a filter's `attribute` argument in an item: an index, or names and indices with dots between them. */
dop_j_val dop_j_attribute_of(dop_j_ctx *cx, dop_j_val item, dop_j_val attribute, long line);
/* Keys and values of a mapping as pairs. */
dop_j_val dop_j_pairs(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a);
dop_j_val dop_j_filter(dop_j_ctx *cx, dop_j_str name, dop_j_val v, const dop_j_args *a);
bool dop_j_has_filter(dop_j_str name);
bool dop_j_test(dop_j_ctx *cx, dop_j_str name, dop_j_val v, const dop_j_args *a);
/* Escapes a value for HTML unless it is marked as safe. */
dop_j_val dop_j_escape(dop_j_ctx *cx, dop_j_val v);
/* Escapes a string, or the strings in a list or mapping. */
dop_j_val dop_j_escape_items(dop_j_ctx *cx, dop_j_val v);

/* A method of one value; `how` tells methods apart that share a function. */
typedef struct dop_j_method_row {
    const char *name;
    dop_j_val (*fn)(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how);
    int how;
} dop_j_method_row;
struct dop_j_bound {
    dop_j_val self;
    const dop_j_method_row *row;
};
dop_j_val dop_j_call_method(dop_j_ctx *cx, dop_j_val self, const dop_j_method_row *row, const dop_j_args *a);
/* Finds a method of a kind of values; NULL: there is none of that name.  A method that the sandbox refuses has a row without a
 * function. */
const dop_j_method_row *dop_j_find_method(dop_j_kind kind, dop_j_str name);
const dop_j_method_row *dop_j_other_methods(dop_j_kind kind);
/* Whether a name is one of the functions that every template finds. */
bool dop_j_is_builtin(const char *name);
/* A function by its name, as a value; an undefined value: there is none. */
dop_j_val dop_j_function_value(dop_j_str name);
dop_j_val dop_j_function(dop_j_ctx *cx, dop_j_str name, const dop_j_args *a);
/* self.name as the template sees it: attributes and methods before the members of a mapping. */
dop_j_val dop_j_attribute(dop_j_ctx *cx, dop_j_val self, dop_j_str name, long line);

#endif
