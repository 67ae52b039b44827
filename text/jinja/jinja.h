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
/* Charges the steps that are owed to both budgets; false: an error has occurred, as that a budget is exhausted. */
bool dop_j_charge(dop_j_ctx *cx);

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
/* Arguments of json.dumps. */
typedef struct dop_j_json_form {
    bool lines; /* an indent is given */
    /* Indentation of a level; separators between items, and between a name and its value. */
    dop_j_str indent, between, behind_name;
    bool ascii, sort;
} dop_j_json_form;
/* An item to sort, with the key to sort it by (sort.c). */
typedef struct dop_j_keyed {
    dop_j_val key, item;
} dop_j_keyed;

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
typedef enum dop_j_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP, CASE_FOLD } dop_j_case;

/* ---- what templates call (filter.c, filter_value.c, filter_list.c, filter_text.c, method.c, function.c) ---- */
typedef dop_j_val dop_j_filter_fn(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how);
typedef struct dop_j_filter_row {
    const char *name;
    dop_j_filter_fn *fn;
    int how;
} dop_j_filter_row;
/* Tables of filters; each ends with a row without a name. */
extern const dop_j_filter_row dop_j_value_filters[], dop_j_list_filters[], dop_j_text_filters[];

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

#endif
