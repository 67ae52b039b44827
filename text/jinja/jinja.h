/* Types of the Jinja interpreter: arena, values, tokens, syntax tree, evaluation.
 *
 * Errors are sticky. The first one is kept in cx->status; afterwards all functions return a harmless value
 * (undefined or NULL). Therefore only loops need to check the status. */
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

/* Kinds of values, modelled on Python's types. */
typedef enum dop_j_kind {
    J_UNDEF,
    J_NONE,
    J_BOOL,
    J_INT,
    J_BIG, /* integer beyond 64 bits, stored as decimal digits; supports comparison and printing only */
    J_FLOAT,
    J_STR,
    J_LIST,
    J_TUPLE,
    J_RANGE,
    J_VIEW, /* view returned by a dictionary's keys(), values() or items() */
    J_ITER, /* one-shot iterator, the result of many filters */
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
    bool safe; /* the string is Markup, which is never escaped again */
    union {
        bool b;
        int64_t i;
        double f;
        dop_j_str str;    /* J_STR: the string; J_BIG: the digits; J_UNDEF, J_FUNCTION: the name */
        dop_j_list *list; /* J_LIST to J_ITER, J_CYCLER, J_JOINER: the items */
        dop_j_dict *dict; /* J_DICT, J_NAMESPACE: the entries */
        const dop_j_macro *macro;
        const dop_j_bound *method;
        dop_j_loop *loop;
    } u;
} dop_j_val;

struct dop_j_list {
    dop_j_val *items;
    size_t n, cap;
    size_t at;                 /* J_ITER: number of consumed items; J_CYCLER, J_JOINER: number of calls */
    const char *name;          /* J_VIEW: Python's type name of the view */
    int64_t first, stop, step; /* J_RANGE: arguments of range() */
};

typedef struct dop_j_entry {
    dop_j_val key, val;
    uint64_t hash; /* hash of the key; valid if the dictionary has an index */
} dop_j_entry;

/* Dictionary in insertion order: an array of entries and, beyond a few entries, a hash index with open addressing. */
struct dop_j_dict {
    dop_j_entry *entries;
    size_t n, cap;
    uint32_t *slots; /* [slots_n] index of an entry plus 1; 0: empty slot */
    size_t slots_n;  /* number of slots, a power of 2; 0: no index */
};

struct dop_j_loop {
    const dop_j_list *items;
    size_t at, depth;       /* index of the current item; recursion depth, from 1 */
    const dop_j_node *node; /* the for statement */
    dop_j_val changed;      /* tuple of arguments of the last loop.changed() call */
    bool has_changed;
};

/* Scope of variables; look-ups continue in `up`. All scopes except the root are in the arena, because macros keep
 * the scope of their definition. */
struct dop_j_scope {
    dop_j_dict vars;
    dop_j_scope *up;
};

/* Closure: a macro or the body of a call block, with the scope of its definition. */
struct dop_j_macro {
    const dop_j_node *node;
    dop_j_scope *scope;
};

/* Text builder in the arena. */
typedef struct dop_j_out {
    char *s;
    size_t n, cap;
} dop_j_out;

struct dop_j_ctx {
    dop_status status;
    dop_diag *diag;
    const char *name;   /* template name, for messages */
    dop_budget *budget; /* caller's budget; NULL: only the interpreter's limits apply */
    dop_budget own;     /* interpreter's own limits, J_MAX_STEPS and J_MAX_ARENA; set by dop_j_init() */
    uint64_t owed;      /* steps done but not yet charged */
    void *blocks;       /* arena: list of blocks; small allocations come from the first */
    unsigned depth;
    dop_j_scope *root, *scope;
    dop_j_out *out;
    size_t loop_depth;
    struct tm now;
    dop_j_node **tree; /* [tree_n] statements of the parsed template */
    size_t tree_n;
};

/* Limits for templates, which are untrusted input. One step is about 10 ns. */
enum {
    J_MAX_DEPTH = 300,
    J_MAX_STEPS = 60 * 1000 * 1000,
    J_MAX_ARENA = 128 * 1024 * 1024,
    J_MAX_TEXT = 1 << 20,
    J_MAX_RANGE = 100000, /* Jinja's sandbox has the same limit */
    J_NODE_STEPS = 6,     /* steps charged per evaluated node */
    J_CHARGE_EVERY = 4096
};
/* Charges the owed steps to both budgets. Returns false if an error has occurred, such as an exhausted budget. */
bool dop_j_charge(dop_j_ctx *cx);

/* Counts steps of work. Each loop whose length depends on values must call it and stop when it returns false. */
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
dop_j_is_list(dop_j_val v) /* true if the items are in u.list */
{
    return v.kind >= J_LIST && v.kind <= J_ITER;
}
/* Arguments of json.dumps. */
typedef struct dop_j_json_form {
    bool lines; /* true if an indent is given */
    /* Indentation per level; separator between items; separator after a name. */
    dop_j_str indent, between, behind_name;
    bool ascii, sort;
} dop_j_json_form;
/* Item to be sorted, with its sort key (sort.c). */
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
    dop_j_str s; /* text of data, names and operators; content of strings */
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

/* Node of the syntax tree. The use of the fields depends on the kind (see the parser). */
struct dop_j_node {
    dop_j_node_kind kind;
    long line;
    dop_j_str s;
    dop_j_val value;
    bool negate, recursive;
    const dop_j_node *a, *b, *c;
    dop_j_node **list, **body, **other; /* list: children of an expression; body, other: statements of a block and of
                                         * its else branch */
    size_t list_n, body_n, other_n;
    /* Call: names of the keyword arguments, which are the last names_n of `list`. Macro: parameters. Comparison:
     * operators. */
    dop_j_str *names;
    size_t names_n;
    const dop_j_node *splat, *named_splat; /* *list and **dictionary arguments of a call */
    const dop_j_node *target; /* target of a loop or assignment: a name, a namespace attribute or a tuple */
    bool more_args, more_named,
        asks_caller; /* macro body mentions varargs, kwargs, caller, and so accepts extra arguments, extra named
                      * ones, a caller */
};

/* Evaluated arguments of a call, positional and named. */
typedef struct dop_j_args {
    const dop_j_val *pos;
    size_t n;
    const dop_j_str *names;
    const dop_j_val *named;
    size_t named_n;
    long line;
} dop_j_args;

enum { J_STACK_ARGS = 8 }; /* calls with more arguments allocate them in the arena */
typedef enum dop_j_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP, CASE_FOLD } dop_j_case;

/* ---- functions that templates call (filter*.c, method.c, function.c) ---- */
typedef dop_j_val dop_j_filter_fn(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how);
typedef struct dop_j_filter_row {
    const char *name;
    dop_j_filter_fn *fn;
    int how;
} dop_j_filter_row;
/* Filter tables, each terminated by a row without a name. */
extern const dop_j_filter_row dop_j_value_filters[], dop_j_list_filters[], dop_j_text_filters[];

/* Method of a kind of value. `how` distinguishes methods that share a function. */
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
