/* Three walks over the module: types and values are recorded, uses are found by joining values that must have the same
 * one, and the module is written again.  A value is an id of the NV module whose type is a matrix or contains matrices.
 * Constants are not values in this sense: one constant may be needed in several uses, and each place gets the one it needs. */
#include "kernels/spirv_khr_matrix.h"

#include <stdlib.h>
#include <string.h>

/* SPIR-V 1.6, section 3.52 (Instructions). */
enum {
    OP_UNDEF = 1,
    OP_NAME = 5,
    OP_MEMBER_NAME = 6,
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_TYPE_VOID = 19,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_TYPE_ARRAY = 28,
    OP_TYPE_STRUCT = 30,
    OP_TYPE_POINTER = 32,
    OP_TYPE_FUNCTION = 33,
    OP_TYPE_FORWARD_POINTER = 39,
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT_FALSE = 42,
    OP_CONSTANT = 43,
    OP_CONSTANT_COMPOSITE = 44,
    OP_CONSTANT_NULL = 46,
    OP_FUNCTION = 54,
    OP_FUNCTION_PARAMETER = 55,
    OP_FUNCTION_CALL = 57,
    OP_VARIABLE = 59,
    OP_LOAD = 61,
    OP_STORE = 62,
    OP_COPY_MEMORY = 63,
    OP_ACCESS_CHAIN = 65,
    OP_IN_BOUNDS_ACCESS_CHAIN = 66,
    OP_DECORATE = 71,
    OP_MEMBER_DECORATE = 72,
    OP_COMPOSITE_CONSTRUCT = 80,
    OP_COMPOSITE_EXTRACT = 81,
    OP_COMPOSITE_INSERT = 82,
    OP_COPY_OBJECT = 83,
    OP_CONVERT_F_TO_U = 109,
    OP_F_CONVERT = 115,
    OP_S_NEGATE = 126,
    OP_F_DIV = 136,
    OP_MATRIX_TIMES_SCALAR = 143,
    OP_SELECT = 169,
    OP_PHI = 245,
    OP_RETURN_VALUE = 254,
    USES = 3
};

typedef struct id_facts {
    uint32_t at;       /* number of the word where the id's definition begins; 0: none */
    uint32_t type;     /* id of the type of a value or constant */
    uint32_t parent;   /* of a value: parent in the union-find of values that have one use */
    uint32_t function; /* of a function: id of the function's type after the rewriting */
    uint8_t is_type, is_constant;
    uint8_t has_matrix; /* a type that is or holds an NV matrix; a value or constant of such a type */
    uint8_t uses;       /* bits: for the root of a value, its use; for types and constants, all uses that are needed */
    uint32_t made[USES];
} id_facts;

typedef struct rewriter {
    const char *name;
    const uint32_t *w;
    size_t n;
    uint32_t bound, next; /* ids of the input are below `bound`; `next` is the next free id */
    uint32_t use_id[USES];
    id_facts *id;
    uint32_t *line; /* the instruction that is being written */
    size_t line_at; /* number of the word of `w` where the instruction begins */
    dop_diag *diag;
    dop_buf *out;
    dop_status st;
} rewriter;

static void
fail(rewriter *r, const char *what, uint32_t number)
{
    if (r->st == DOP_OK)
        r->st = DOP_FAIL(r->diag, DOP_E_INTERNAL, "kernel %s: KHR form of its matrices: %s %u", r->name, what, number);
}

static uint32_t
opcode(const uint32_t *w)
{
    return w[0] & 0xffffu;
}

static uint32_t
length(const uint32_t *w)
{
    return w[0] >> 16;
}

/* The facts of an id; for a word that is not an id, the facts of id 0. */
static id_facts *
facts(const rewriter *r, uint32_t id)
{
    return &r->id[id < r->bound ? id : 0];
}

static bool
is_type_op(uint32_t op)
{
    return (op >= OP_TYPE_VOID && op < OP_TYPE_FORWARD_POINTER) || op == DOP_SPV_TYPE_MATRIX_NV;
}

/* Before the first type come capabilities, names and decorations, which hold ids and literals in any place. */
static bool
has_result_type(const rewriter *r, const uint32_t *w, bool after_types)
{
    return after_types && !is_type_op(opcode(w)) && opcode(w) != OP_TYPE_FORWARD_POINTER && length(w) > 2 &&
           facts(r, w[1])->is_type;
}

static void
note_type(rewriter *r, const uint32_t *w)
{
    id_facts *t = facts(r, w[1]);
    uint32_t op = opcode(w), len = length(w);
    t->is_type = 1;
    t->has_matrix = op == DOP_SPV_TYPE_MATRIX_NV;
    if (op == OP_TYPE_ARRAY && len > 2)
        t->has_matrix = facts(r, w[2])->has_matrix;
    else if (op == OP_TYPE_POINTER && len > 3)
        t->has_matrix = facts(r, w[3])->has_matrix;
    else if (op == OP_TYPE_STRUCT || op == OP_TYPE_FUNCTION)
        for (uint32_t i = 2; i < len; i++)
            t->has_matrix |= facts(r, w[i])->has_matrix;
}

/* Is the instruction inside the module, and long enough for the words that are read without a check? */
static bool
is_whole(const rewriter *r, size_t at)
{
    uint32_t op = opcode(r->w + at), len = length(r->w + at);
    uint32_t least = op == DOP_SPV_TYPE_MATRIX_NV                                                   ? 6
                     : op == OP_FUNCTION                                                            ? 5
                     : op == OP_TYPE_INT || op == OP_TYPE_POINTER                                   ? 4
                     : op == OP_TYPE_FUNCTION || op == OP_TYPE_ARRAY || op == OP_FUNCTION_PARAMETER ? 3
                                                                                                    : 1;
    return len >= least && at + len <= r->n;
}

static void
collect(rewriter *r)
{
    bool types = false, code = false;
    for (size_t at = 5; at < r->n && r->st == DOP_OK; at += length(r->w + at)) {
        const uint32_t *w = r->w + at;
        uint32_t op = opcode(w);
        if (!is_whole(r, at)) {
            fail(r, "instruction out of bounds at word", (uint32_t)at);
            return;
        }
        types = types || (is_type_op(op) && length(w) > 1);
        code = code || op == OP_FUNCTION;
        if (is_type_op(op) && length(w) > 1) {
            facts(r, w[1])->at = (uint32_t)at;
            note_type(r, w);
        } else if (has_result_type(r, w, types)) {
            id_facts *v = facts(r, w[2]);
            v->at = (uint32_t)at;
            v->type = w[1];
            v->parent = w[2];
            v->is_constant = !code && op != OP_VARIABLE;
            v->has_matrix = facts(r, w[1])->has_matrix;
        }
    }
    if (r->id[0].at)
        fail(r, "an id out of bounds near word", r->id[0].at);
}

/* --- uses ------------------------------------------------------------------------------------------------------------ */

static uint32_t
root(const rewriter *r, uint32_t id)
{
    while (r->id[id].parent != id) {
        r->id[id].parent = r->id[r->id[id].parent].parent;
        id = r->id[id].parent;
    }
    return id;
}

static bool
is_value(const rewriter *r, uint32_t id)
{
    const id_facts *f = facts(r, id);
    return f->has_matrix && !f->is_type && !f->is_constant;
}

static void
set_use(rewriter *r, uint32_t id, dop_matrix_use use)
{
    if (!is_value(r, id))
        return;
    id_facts *f = &r->id[root(r, id)];
    f->uses |= (uint8_t)(1u << use);
    if (f->uses & (f->uses - 1))
        fail(r, "a matrix of two uses, value", id);
}

static void
join(rewriter *r, uint32_t a, uint32_t b)
{
    if (!is_value(r, a) || !is_value(r, b))
        return;
    uint32_t x = root(r, a), y = root(r, b);
    uint8_t uses = r->id[x].uses | r->id[y].uses;
    r->id[y].parent = x;
    r->id[x].uses = uses;
    if (uses & (uses - 1))
        fail(r, "a matrix of two uses, value", b);
}

/* A value that nothing multiplies is a sum: it can be loaded, scaled and stored. */
static dop_matrix_use
use_of(const rewriter *r, uint32_t id)
{
    uint8_t uses = r->id[root(r, id)].uses;
    return uses == 1 ? DOP_MATRIX_A : uses == 2 ? DOP_MATRIX_B : DOP_MATRIX_SUM;
}

/* The words of an instruction that are operands with the same use as the result; end 0: up to the instruction's last word. */
typedef struct operand_range {
    uint32_t first, last_op, begin, end;
} operand_range;

static const operand_range ranges[] = {
    {OP_UNDEF, OP_UNDEF, 3, 3},
    {OP_FUNCTION_PARAMETER, OP_FUNCTION_PARAMETER, 3, 3},
    {OP_VARIABLE, OP_VARIABLE, 4, 5},
    {OP_LOAD, OP_LOAD, 3, 4},
    {OP_ACCESS_CHAIN, OP_IN_BOUNDS_ACCESS_CHAIN, 3, 4},
    {OP_COMPOSITE_CONSTRUCT, OP_COMPOSITE_CONSTRUCT, 3, 0},
    {OP_COMPOSITE_EXTRACT, OP_COMPOSITE_EXTRACT, 3, 4},
    {OP_COMPOSITE_INSERT, OP_COMPOSITE_INSERT, 3, 5},
    {OP_COPY_OBJECT, OP_COPY_OBJECT, 3, 4},
    {OP_CONVERT_F_TO_U, OP_F_CONVERT, 3, 4},
    {OP_S_NEGATE, OP_F_DIV, 3, 0},
    {OP_MATRIX_TIMES_SCALAR, OP_MATRIX_TIMES_SCALAR, 3, 4},
    {OP_SELECT, OP_SELECT, 4, 6},
    {OP_PHI, OP_PHI, 3, 0},
    {DOP_SPV_MATRIX_LOAD_NV, DOP_SPV_MATRIX_LOAD_NV, 3, 3},
};

static const operand_range *
range_of(uint32_t op)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (op >= ranges[i].first && op <= ranges[i].last_op)
            return &ranges[i];
    return NULL;
}

/* Calls visit(r, word, like) for every word of an instruction of a function that may be a matrix operand: like is the id
 * whose use it has, or 0 and the use is named. */
typedef void (*operand_fn)(rewriter *r, size_t word, uint32_t like, dop_matrix_use use);

static void
call_operands(rewriter *r, size_t at, operand_fn visit)
{
    const uint32_t *w = r->w + at;
    size_t p = facts(r, w[3])->at;
    p += p ? length(r->w + p) : r->n;
    for (uint32_t i = 4; i < length(w) && p < r->n; i++) {
        const uint32_t *param = r->w + p;
        if (opcode(param) != OP_FUNCTION_PARAMETER || length(param) < 3)
            break;
        visit(r, at + i, param[2], DOP_MATRIX_SUM);
        p += length(param);
    }
}

static void
operands(rewriter *r, size_t at, uint32_t function, operand_fn visit)
{
    const uint32_t *w = r->w + at;
    uint32_t op = opcode(w), len = length(w);
    const operand_range *range = range_of(op);
    if (op == DOP_SPV_MATRIX_MUL_ADD_NV && len == 6) {
        visit(r, at + 3, 0, DOP_MATRIX_A);
        visit(r, at + 4, 0, DOP_MATRIX_B);
        visit(r, at + 5, 0, DOP_MATRIX_SUM);
    } else if (op == DOP_SPV_MATRIX_STORE_NV && len > 4) {
        visit(r, at + 2, w[2], DOP_MATRIX_SUM);
    } else if (op == OP_STORE && len > 2) {
        visit(r, at + 1, w[1], DOP_MATRIX_SUM);
        visit(r, at + 2, w[1], DOP_MATRIX_SUM);
    } else if (op == OP_COPY_MEMORY && len > 2) {
        visit(r, at + 2, w[1], DOP_MATRIX_SUM);
    } else if (op == OP_RETURN_VALUE && len > 1) {
        visit(r, at + 1, function, DOP_MATRIX_SUM);
    } else if (op == OP_FUNCTION_CALL && len > 3) {
        call_operands(r, at, visit);
    } else if (range) {
        for (uint32_t i = range->begin; i < (range->end ? range->end : len) && i < len; i++)
            visit(r, at + i, w[2], DOP_MATRIX_SUM);
    }
}

static void
join_operand(rewriter *r, size_t word, uint32_t like, dop_matrix_use use)
{
    if (like)
        join(r, like, r->w[word]);
    else
        set_use(r, r->w[word], use);
}

static void
infer_uses(rewriter *r)
{
    uint32_t function = 0;
    bool types = false;
    for (size_t at = 5; at < r->n && r->st == DOP_OK; at += length(r->w + at)) {
        const uint32_t *w = r->w + at;
        uint32_t op = opcode(w);
        types = types || is_type_op(op);
        if (op == OP_FUNCTION && length(w) == 5) {
            function = w[2];
            continue;
        }
        if (!function)
            continue;
        operands(r, at, function, join_operand);
        if (op == DOP_SPV_MATRIX_MUL_ADD_NV && length(w) == 6)
            set_use(r, w[2], DOP_MATRIX_SUM);
        else if (op == OP_FUNCTION_CALL && length(w) > 3)
            join(r, w[3], w[2]);
        else if (has_result_type(r, w, types) && facts(r, w[1])->has_matrix && !range_of(op))
            fail(r, "matrices in instruction", op);
    }
}

/* --- which types and constants are needed --------------------------------------------------------------------------- */

static dop_matrix_use
wanted_use(const rewriter *r, uint32_t like, dop_matrix_use use)
{
    return like && is_value(r, like) ? use_of(r, like) : use;
}

static void
want_constant(rewriter *r, size_t word, uint32_t like, dop_matrix_use use)
{
    id_facts *f = facts(r, r->w[word]);
    if (f->has_matrix && f->is_constant)
        f->uses |= (uint8_t)(1u << wanted_use(r, like, use));
}

/* Types and constants follow their parts, so that walking backwards, everything is known when it is reached. */
static void
spread_wants(rewriter *r, const uint32_t *defs, size_t n)
{
    for (uint32_t i = 1; i < r->bound; i++)
        if (r->id[i].at && is_value(r, i))
            facts(r, r->id[i].type)->uses |= (uint8_t)(1u << use_of(r, i));
    while (n-- > 0) {
        const uint32_t *w = r->w + defs[n];
        uint32_t op = opcode(w), len = length(w);
        id_facts *f = facts(r, w[is_type_op(op) ? 1 : 2]);
        if (!f->has_matrix || op == OP_TYPE_FUNCTION)
            continue;
        if (f->is_constant)
            facts(r, f->type)->uses |= f->uses;
        if (op == OP_CONSTANT_COMPOSITE || op == OP_TYPE_STRUCT || op == OP_TYPE_ARRAY || op == OP_TYPE_POINTER)
            for (uint32_t i = op == OP_CONSTANT_COMPOSITE || op == OP_TYPE_POINTER ? 3 : 2; i < len; i++)
                if (facts(r, w[i])->has_matrix)
                    facts(r, w[i])->uses |= f->uses;
    }
}

/* Definitions before the first function, in order: at most one per id.  Then the ids that stand for them. */
static void
find_wants(rewriter *r)
{
    uint32_t *defs = calloc(r->bound, sizeof *defs), function = 0;
    size_t n = 0;
    if (!defs) {
        r->st = DOP_FAIL(r->diag, DOP_E_NOMEM, "out of memory");
        return;
    }
    for (size_t at = 5; at < r->n; at += length(r->w + at)) {
        const uint32_t *w = r->w + at;
        function = opcode(w) == OP_FUNCTION && length(w) == 5 ? w[2] : function;
        if (function) {
            operands(r, at, function, want_constant);
            continue;
        }
        bool type = is_type_op(opcode(w)) && length(w) > 1;
        const id_facts *f = type ? facts(r, w[1]) : length(w) > 2 ? facts(r, w[2]) : &r->id[0];
        if (f->at == at && f->has_matrix && (f->is_type || f->is_constant) && n < r->bound)
            defs[n++] = (uint32_t)at;
    }
    spread_wants(r, defs, n);
    for (uint32_t i = 1; i < r->bound; i++) {
        id_facts *f = &r->id[i];
        if (!f->has_matrix || !(f->is_type || f->is_constant))
            continue;
        bool first = true;
        for (uint32_t u = 0; u < USES; u++)
            if (f->uses >> u & 1) {
                f->made[u] = first ? i : r->next++;
                first = false;
            }
    }
    free(defs);
}

/* --- writing ---------------------------------------------------------------------------------------------------------- */

static void
put(rewriter *r, const uint32_t *words, size_t n)
{
    dop_buf_append(r->out, words, n * 4);
}

static void
put_word(rewriter *r, uint32_t word)
{
    put(r, &word, 1);
}

/* The id that stands for a type or constant in this use; any other id is itself. */
static uint32_t
in_use(const rewriter *r, uint32_t id, dop_matrix_use use)
{
    const id_facts *f = facts(r, id);
    return f->has_matrix && (f->is_type || f->is_constant) ? f->made[use] : id;
}

static bool
same_words(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* One function type for each distinct list of KHR types among the functions of the NV type at `at`. */
static void
put_function_types(rewriter *r, size_t at)
{
    enum { MAX_WORDS = 64, MAX_KINDS = 8 };
    uint32_t kinds[MAX_KINDS][MAX_WORDS], n = 0, len = length(r->w + at);
    const uint32_t *w = r->w + at;
    if (len > MAX_WORDS) {
        fail(r, "parameters of one function:", len);
        return;
    }
    for (uint32_t f = 1; f < r->bound; f++) {
        size_t p = r->id[f].at;
        if (!p || opcode(r->w + p) != OP_FUNCTION || length(r->w + p) != 5 || r->w[p + 4] != w[1])
            continue;
        uint32_t kind[MAX_WORDS], k = 0;
        memcpy(kind, w, len * sizeof *kind);
        kind[2] = in_use(r, w[2], wanted_use(r, f, DOP_MATRIX_SUM));
        p += 5;
        for (uint32_t i = 3; i < len && p < r->n && opcode(r->w + p) == OP_FUNCTION_PARAMETER; i++) {
            kind[i] = in_use(r, w[i], wanted_use(r, r->w[p + 2], DOP_MATRIX_SUM));
            p += length(r->w + p);
        }
        while (k < n && !same_words(kinds[k] + 2, kind + 2, len - 2))
            k++;
        if (k == MAX_KINDS) {
            fail(r, "kinds of functions with one signature, more than", MAX_KINDS);
            return;
        }
        if (k == n) {
            memcpy(kinds[k], kind, len * sizeof *kind);
            kinds[n++][1] = k ? r->next++ : w[1];
            put(r, kinds[k], len);
        }
        r->id[f].function = kinds[k][1];
    }
}

static void
put_matrix_types(rewriter *r, size_t at)
{
    const uint32_t *w = r->w + at;
    const id_facts *rows = facts(r, w[4]), *number = facts(r, rows->type);
    const uint32_t *integer = r->w + number->at;
    if (length(w) != 6 || !number->at || opcode(integer) != OP_TYPE_INT || integer[2] != 32) {
        fail(r, "not a matrix of constant size, type", w[1]);
        return;
    }
    if (opcode(r->w + facts(r, w[2])->at) != OP_TYPE_FLOAT) {
        fail(r, "a matrix of integers, type", w[1]);
        return;
    }
    for (uint32_t u = 0; u < USES && !r->use_id[USES - 1]; u++) {
        r->use_id[u] = r->next++;
        put(r, (uint32_t[]){4u << 16 | OP_CONSTANT, rows->type, r->use_id[u], u}, 4);
    }
    for (uint32_t u = 0; u < USES; u++)
        if (r->id[w[1]].uses >> u & 1)
            put(r,
                (uint32_t[]){7u << 16 | DOP_SPV_TYPE_MATRIX_KHR, r->id[w[1]].made[u], w[2], w[3], w[4], w[5],
                             r->use_id[u]},
                7);
}

/* A type or constant made of matrices: written once for each use that is needed. */
static void
put_definition(rewriter *r, size_t at, uint32_t id)
{
    const uint32_t *w = r->w + at;
    uint32_t op = opcode(w), len = length(w), first = op == OP_TYPE_ARRAY || op == OP_TYPE_STRUCT ? 2 : 3;
    if (op == DOP_SPV_TYPE_MATRIX_NV) {
        put_matrix_types(r, at);
        return;
    }
    if (op == OP_TYPE_FUNCTION) {
        put_function_types(r, at);
        return;
    }
    if (op != OP_TYPE_ARRAY && op != OP_TYPE_STRUCT && op != OP_TYPE_POINTER && op != OP_CONSTANT_COMPOSITE &&
        op != OP_CONSTANT_NULL && op != OP_UNDEF) {
        fail(r, "matrices in definition", op);
        return;
    }
    for (uint32_t u = 0; u < USES; u++) {
        dop_matrix_use use = (dop_matrix_use)u;
        if (!(r->id[id].uses >> u & 1))
            continue;
        for (uint32_t i = 0; i < len; i++) {
            bool own = i == (is_type_op(op) ? 1u : 2u), part = i >= first || (!is_type_op(op) && i == 1);
            put_word(r, own ? r->id[id].made[u] : part ? in_use(r, w[i], use) : w[i]);
        }
    }
}

/* ColumnMajor was a Boolean; the layout is the number 0 or 1, for which the constants of the first two uses serve. */
static uint32_t
layout_of(rewriter *r, uint32_t id)
{
    uint32_t op = facts(r, id)->at ? opcode(r->w + facts(r, id)->at) : 0;
    if (op != OP_CONSTANT_TRUE && op != OP_CONSTANT_FALSE)
        fail(r, "an order of elements that is no constant, id", id);
    return r->use_id[op == OP_CONSTANT_TRUE];
}

/* One word of the instruction in r->line, which begins at r->line_at. */
static void
replace_operand(rewriter *r, size_t word, uint32_t like, dop_matrix_use use)
{
    const id_facts *f = facts(r, r->w[word]);
    if (f->has_matrix && f->is_constant)
        r->line[word - r->line_at] = f->made[wanted_use(r, like, use)];
}

/* The NV forms are (pointer, stride, column major, access...), the KHR ones (pointer, layout, stride, access...). */
static void
swap_layout(rewriter *r, uint32_t *line, uint32_t len, uint32_t stride, uint32_t op)
{
    if (len < stride + 2) {
        fail(r, "a short instruction", opcode(line));
        return;
    }
    uint32_t layout = layout_of(r, line[stride + 1]);
    line[stride + 1] = line[stride];
    line[stride] = layout;
    line[0] = len << 16 | op;
}

static void
put_code(rewriter *r, size_t at, uint32_t function, bool types)
{
    const uint32_t *w = r->w + at;
    uint32_t op = opcode(w), len = length(w), *line = r->line;
    memcpy(line, w, len * sizeof *w);
    r->line_at = at;
    if (function)
        operands(r, at, function, replace_operand);
    if (has_result_type(r, w, types) && is_value(r, w[2]))
        line[1] = in_use(r, w[1], use_of(r, w[2]));
    if (op == OP_FUNCTION && len == 5 && facts(r, w[2])->function)
        line[4] = facts(r, w[2])->function;
    if (op == DOP_SPV_MATRIX_LOAD_NV)
        swap_layout(r, line, len, 4, DOP_SPV_MATRIX_LOAD_KHR);
    else if (op == DOP_SPV_MATRIX_STORE_NV)
        swap_layout(r, line, len, 3, DOP_SPV_MATRIX_STORE_KHR);
    else if (op == DOP_SPV_MATRIX_MUL_ADD_NV)
        line[0] = len << 16 | DOP_SPV_MATRIX_MUL_ADD_KHR;
    else if (op == DOP_SPV_MATRIX_LENGTH_NV) /* the length depends on the use, which nothing here tells */
        fail(r, "the number of elements of matrix type", len > 3 ? w[3] : 0);
    put(r, line, len);
}

/* OpExtension with a string: an extension's name in words, 0-terminated. */
static void
put_extension(rewriter *r, const uint32_t *w)
{
    static const char nv[] = "SPV_NV_cooperative_matrix", khr[] = "SPV_KHR_cooperative_matrix";
    if (length(w) != 1 + sizeof nv / 4 + 1 || memcmp(w + 1, nv, sizeof nv) != 0) {
        put(r, w, length(w));
        return;
    }
    uint32_t words[1 + sizeof khr / 4 + 1] = {(1 + sizeof khr / 4 + 1) << 16 | OP_EXTENSION};
    memcpy(words + 1, khr, sizeof khr);
    put(r, words, sizeof words / 4);
}

/* A type or constant that nothing uses is left out: a device must support every matrix type that a module declares
 * (VUID-RuntimeSpirv-OpTypeCooperativeMatrixKHR-10163), with its use.  So are its names and decorations. */
static bool
is_left_out(const rewriter *r, const uint32_t *w)
{
    const uint32_t op = opcode(w);
    const bool names = op == OP_NAME || op == OP_MEMBER_NAME || op == OP_DECORATE || op == OP_MEMBER_DECORATE;
    const id_facts *f = facts(r, names && length(w) > 1 ? w[1] : 0);
    const bool function = f->at && opcode(r->w + f->at) == OP_TYPE_FUNCTION;
    return f->has_matrix && (f->is_type || f->is_constant) && !function && !f->uses;
}

static void
write_module(rewriter *r)
{
    uint32_t function = 0;
    bool types = false;
    put(r, r->w, 5);
    for (size_t at = 5; at < r->n && r->st == DOP_OK; at += length(r->w + at)) {
        const uint32_t *w = r->w + at;
        uint32_t op = opcode(w), len = length(w);
        types = types || is_type_op(op);
        function = op == OP_FUNCTION && len == 5 ? w[2] : function;
        uint32_t made = is_type_op(op) && len > 1 ? w[1] : has_result_type(r, w, types) ? w[2] : 0;
        const id_facts *f = facts(r, made);
        if (op == OP_CAPABILITY && len == 2 && w[1] == DOP_SPV_CAPABILITY_MATRIX_NV)
            put(r, (uint32_t[]){w[0], DOP_SPV_CAPABILITY_MATRIX_KHR}, 2);
        else if (op == OP_EXTENSION)
            put_extension(r, w);
        else if (f->has_matrix && (f->is_type || f->is_constant))
            put_definition(r, at, made);
        else if (!is_left_out(r, w))
            put_code(r, at, function, types);
    }
    if (r->out->failed)
        r->st = DOP_FAIL(r->diag, DOP_E_NOMEM, "out of memory");
    else
        ((uint32_t *)(void *)r->out->data)[3] = r->next;
}

dop_status
dop_spirv_khr_matrix(const char *name, const uint32_t *words, size_t n, dop_diag *diag, dop_buf *out_spirv)
{
    enum { MAGIC = 0x07230203, MAX_BOUND = 1 << 22, MAX_LINE = 65536 };
    if (n < 5 || words[0] != MAGIC || words[3] == 0 || words[3] > MAX_BOUND || n > UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "kernel %s: KHR form of its matrices: not a SPIR-V module", name);
    rewriter r = {.name = name, .w = words, .n = n, .bound = words[3], .next = words[3], .diag = diag};
    dop_buf out = {0};
    r.out = &out;
    r.id = calloc(r.bound, sizeof *r.id);
    r.line = malloc(MAX_LINE * sizeof *r.line);
    if (!r.id || !r.line)
        r.st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (r.st == DOP_OK)
        collect(&r);
    if (r.st == DOP_OK)
        infer_uses(&r);
    if (r.st == DOP_OK)
        find_wants(&r);
    if (r.st == DOP_OK)
        write_module(&r);
    if (r.st == DOP_OK)
        dop_buf_append(out_spirv, out.data, out.size);
    if (r.st == DOP_OK && out_spirv->failed)
        r.st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    dop_buf_finish(&out);
    free(r.line);
    free(r.id);
    return r.st;
}
