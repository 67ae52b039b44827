/* Three passes over the module: record types and values, infer uses by a union-find over values that must have the same use,
 * and rewrite the module. A value is an id of the NV module whose type is or contains a matrix. Constants are not values in
 * this sense: one constant may be needed in several uses, and each place gets the matching copy. */
#include "kernels/spirv/spirv_khr_matrix.h"

#include "kernels/spirv/spirv.h"

#include <stdlib.h>
#include <string.h>

enum { USES = 3 };

typedef struct id_facts {
    uint32_t at;       /* word index of the id's definition; 0: none */
    uint32_t type;     /* values and constants: id of the type */
    uint32_t parent;   /* values: parent in the union-find of values with the same use */
    uint32_t function; /* functions: id of the function type after the rewrite */
    uint8_t is_type, is_constant;
    uint8_t has_matrix; /* the type is or contains an NV matrix; or the value or constant has such a type */
    uint8_t uses;       /* bits by use: of a root value, its use; of types and constants, all required uses */
    uint32_t made[USES];
} id_facts;

typedef struct rewriter {
    const char *name;
    const uint32_t *w;
    size_t n;
    uint32_t bound, next; /* ids of the input are below `bound`; `next` is the next free id */
    uint32_t use_id[USES];
    id_facts *id;
    uint32_t *line; /* the instruction being written */
    size_t line_at; /* word index in `w` of that instruction */
    dop_diag *diag;
    dop_buf *out;
    dop_status st;
} rewriter;

static void
fail_rewrite(rewriter *r, const char *what, uint32_t number)
{
    if (r->st == DOP_OK)
        r->st = DOP_FAIL(r->diag, DOP_E_INTERNAL, "kernel %s: KHR form of its matrices: %s %u", r->name, what, number);
}

/* Returns the properties of an id; for a word that is not an id, those of id 0. */
static id_facts *
matrix_facts(const rewriter *r, uint32_t id)
{
    return &r->id[id < r->bound ? id : 0];
}

/* True if the instruction has a result type. Capabilities, names and decorations, which precede the first type, have ids and
 * literals in any position. */
static bool
has_result_type(const rewriter *r, const uint32_t *w, bool after_types)
{
    return after_types && !dop_spv_is_type(dop_spv_op(w)) && dop_spv_op(w) != SpvOpTypeForwardPointer &&
           dop_spv_len(w) > 2 && matrix_facts(r, w[1])->is_type;
}

static void
note_matrix_type(rewriter *r, const uint32_t *w)
{
    id_facts *t = matrix_facts(r, w[1]);
    uint32_t op = dop_spv_op(w), len = dop_spv_len(w);
    t->is_type = 1;
    t->has_matrix = op == SpvOpTypeCooperativeMatrixNV;
    if (op == SpvOpTypeArray && len > 2)
        t->has_matrix = matrix_facts(r, w[2])->has_matrix;
    else if (op == SpvOpTypePointer && len > 3)
        t->has_matrix = matrix_facts(r, w[3])->has_matrix;
    else if (op == SpvOpTypeStruct || op == SpvOpTypeFunction)
        for (uint32_t i = 2; i < len; i++)
            t->has_matrix |= matrix_facts(r, w[i])->has_matrix;
}

/* True if the instruction is within the module, and long enough for the words that are read unchecked. */
static bool
is_whole_instruction(const rewriter *r, size_t at)
{
    uint32_t op = dop_spv_op(r->w + at), len = dop_spv_len(r->w + at);
    uint32_t least = op == SpvOpTypeCooperativeMatrixNV                                                ? 6
                     : op == SpvOpFunction                                                             ? 5
                     : op == SpvOpTypeInt || op == SpvOpTypePointer                                    ? 4
                     : op == SpvOpTypeFunction || op == SpvOpTypeArray || op == SpvOpFunctionParameter ? 3
                                                                                                       : 1;
    return len >= least && at + len <= r->n;
}

static void
collect_matrices(rewriter *r)
{
    bool types = false, code = false;
    for (size_t at = 5; at < r->n && r->st == DOP_OK; at += dop_spv_len(r->w + at)) {
        const uint32_t *w = r->w + at;
        uint32_t op = dop_spv_op(w);
        if (!is_whole_instruction(r, at)) {
            fail_rewrite(r, "instruction out of bounds at word", (uint32_t)at);
            return;
        }
        types = types || (dop_spv_is_type(op) && dop_spv_len(w) > 1);
        code = code || op == SpvOpFunction;
        if (dop_spv_is_type(op) && dop_spv_len(w) > 1) {
            matrix_facts(r, w[1])->at = (uint32_t)at;
            note_matrix_type(r, w);
        } else if (has_result_type(r, w, types)) {
            id_facts *v = matrix_facts(r, w[2]);
            v->at = (uint32_t)at;
            v->type = w[1];
            v->parent = w[2];
            v->is_constant = !code && op != SpvOpVariable;
            v->has_matrix = matrix_facts(r, w[1])->has_matrix;
        }
    }
    if (r->id[0].at)
        fail_rewrite(r, "an id out of bounds near word", r->id[0].at);
}

/* --- uses -------------------------------------------------------------------------------------------------------------- */

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
    const id_facts *f = matrix_facts(r, id);
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
        fail_rewrite(r, "a matrix of two uses, value", id);
}

static void
join_uses(rewriter *r, uint32_t a, uint32_t b)
{
    if (!is_value(r, a) || !is_value(r, b))
        return;
    uint32_t x = root(r, a), y = root(r, b);
    uint8_t uses = r->id[x].uses | r->id[y].uses;
    r->id[y].parent = x;
    r->id[x].uses = uses;
    if (uses & (uses - 1))
        fail_rewrite(r, "a matrix of two uses, value", b);
}

/* Returns the use of a value. Values that are never multiplied are accumulators: they can be loaded, scaled and stored. */
static dop_matrix_use
use_of(const rewriter *r, uint32_t id)
{
    uint8_t uses = r->id[root(r, id)].uses;
    return uses == 1 ? DOP_MATRIX_A : uses == 2 ? DOP_MATRIX_B : DOP_MATRIX_SUM;
}

/* Range of an instruction's words that are operands with the same use as the result; end 0: up to the last word. */
typedef struct operand_range {
    uint32_t first, last_op, begin, end;
} operand_range;

static const operand_range ranges[] = {
    {SpvOpUndef, SpvOpUndef, 3, 3},
    {SpvOpFunctionParameter, SpvOpFunctionParameter, 3, 3},
    {SpvOpVariable, SpvOpVariable, 4, 5},
    {SpvOpLoad, SpvOpLoad, 3, 4},
    {SpvOpAccessChain, SpvOpInBoundsAccessChain, 3, 4},
    {SpvOpCompositeConstruct, SpvOpCompositeConstruct, 3, 0},
    {SpvOpCompositeExtract, SpvOpCompositeExtract, 3, 4},
    {SpvOpCompositeInsert, SpvOpCompositeInsert, 3, 5},
    {SpvOpCopyObject, SpvOpCopyObject, 3, 4},
    {SpvOpConvertFToU, SpvOpFConvert, 3, 4},
    {SpvOpSNegate, SpvOpFDiv, 3, 0},
    {SpvOpMatrixTimesScalar, SpvOpMatrixTimesScalar, 3, 4},
    {SpvOpSelect, SpvOpSelect, 4, 6},
    {SpvOpPhi, SpvOpPhi, 3, 0},
    {SpvOpCooperativeMatrixLoadNV, SpvOpCooperativeMatrixLoadNV, 3, 3},
};

static const operand_range *
operand_range_of(uint32_t op)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (op >= ranges[i].first && op <= ranges[i].last_op)
            return &ranges[i];
    return NULL;
}

/* Callback for each word of a function's instruction that may be a matrix operand. `like` is the id that has the same use; 0:
 * the use is `use`. */
typedef void (*operand_fn)(rewriter *r, size_t word, uint32_t like, dop_matrix_use use);

static void
call_operands(rewriter *r, size_t at, operand_fn visit)
{
    const uint32_t *w = r->w + at;
    size_t p = matrix_facts(r, w[3])->at;
    p += p ? dop_spv_len(r->w + p) : r->n;
    for (uint32_t i = 4; i < dop_spv_len(w) && p < r->n; i++) {
        const uint32_t *param = r->w + p;
        if (dop_spv_op(param) != SpvOpFunctionParameter || dop_spv_len(param) < 3)
            break;
        visit(r, at + i, param[2], DOP_MATRIX_SUM);
        p += dop_spv_len(param);
    }
}

static void
operands(rewriter *r, size_t at, uint32_t function, operand_fn visit)
{
    const uint32_t *w = r->w + at;
    uint32_t op = dop_spv_op(w), len = dop_spv_len(w);
    const operand_range *range = operand_range_of(op);
    if (op == SpvOpCooperativeMatrixMulAddNV && len == 6) {
        visit(r, at + 3, 0, DOP_MATRIX_A);
        visit(r, at + 4, 0, DOP_MATRIX_B);
        visit(r, at + 5, 0, DOP_MATRIX_SUM);
    } else if (op == SpvOpCooperativeMatrixStoreNV && len > 4) {
        visit(r, at + 2, w[2], DOP_MATRIX_SUM);
    } else if (op == SpvOpStore && len > 2) {
        visit(r, at + 1, w[1], DOP_MATRIX_SUM);
        visit(r, at + 2, w[1], DOP_MATRIX_SUM);
    } else if (op == SpvOpCopyMemory && len > 2) {
        visit(r, at + 2, w[1], DOP_MATRIX_SUM);
    } else if (op == SpvOpReturnValue && len > 1) {
        visit(r, at + 1, function, DOP_MATRIX_SUM);
    } else if (op == SpvOpFunctionCall && len > 3) {
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
        join_uses(r, like, r->w[word]);
    else
        set_use(r, r->w[word], use);
}

static void
infer_uses(rewriter *r)
{
    uint32_t function = 0;
    bool types = false;
    for (size_t at = 5; at < r->n && r->st == DOP_OK; at += dop_spv_len(r->w + at)) {
        const uint32_t *w = r->w + at;
        uint32_t op = dop_spv_op(w);
        types = types || dop_spv_is_type(op);
        if (op == SpvOpFunction && dop_spv_len(w) == 5) {
            function = w[2];
            continue;
        }
        if (!function)
            continue;
        operands(r, at, function, join_operand);
        if (op == SpvOpCooperativeMatrixMulAddNV && dop_spv_len(w) == 6)
            set_use(r, w[2], DOP_MATRIX_SUM);
        else if (op == SpvOpFunctionCall && dop_spv_len(w) > 3)
            join_uses(r, w[3], w[2]);
        else if (has_result_type(r, w, types) && matrix_facts(r, w[1])->has_matrix && !operand_range_of(op))
            fail_rewrite(r, "matrices in instruction", op);
    }
}

/* --- required types and constants -------------------------------------------------------------------------------------- */

static dop_matrix_use
wanted_use(const rewriter *r, uint32_t like, dop_matrix_use use)
{
    return like && is_value(r, like) ? use_of(r, like) : use;
}

static void
want_constant(rewriter *r, size_t word, uint32_t like, dop_matrix_use use)
{
    id_facts *f = matrix_facts(r, r->w[word]);
    if (f->has_matrix && f->is_constant)
        f->uses |= (uint8_t)(1u << wanted_use(r, like, use));
}

/* Propagates required uses backwards over the definitions: types and constants are defined after their parts, so all uses are
 * known when a definition is reached. */
static void
spread_wants(rewriter *r, const uint32_t *defs, size_t n)
{
    for (uint32_t i = 1; i < r->bound; i++)
        if (r->id[i].at && is_value(r, i))
            matrix_facts(r, r->id[i].type)->uses |= (uint8_t)(1u << use_of(r, i));
    while (n-- > 0) {
        const uint32_t *w = r->w + defs[n];
        uint32_t op = dop_spv_op(w), len = dop_spv_len(w);
        id_facts *f = matrix_facts(r, w[dop_spv_is_type(op) ? 1 : 2]);
        if (!f->has_matrix || op == SpvOpTypeFunction)
            continue;
        if (f->is_constant)
            matrix_facts(r, f->type)->uses |= f->uses;
        if (op == SpvOpConstantComposite || op == SpvOpTypeStruct || op == SpvOpTypeArray || op == SpvOpTypePointer)
            for (uint32_t i = op == SpvOpConstantComposite || op == SpvOpTypePointer ? 3 : 2; i < len; i++)
                if (matrix_facts(r, w[i])->has_matrix)
                    matrix_facts(r, w[i])->uses |= f->uses;
    }
}

/* Finds the required uses of all types and constants, and assigns an id to each combination. */
static void
find_needed_uses(rewriter *r)
{
    uint32_t *defs = calloc(r->bound, sizeof *defs), function = 0;
    size_t n = 0;
    if (!defs) {
        r->st = DOP_NO_MEMORY(r->diag);
        return;
    }
    for (size_t at = 5; at < r->n; at += dop_spv_len(r->w + at)) {
        const uint32_t *w = r->w + at;
        function = dop_spv_op(w) == SpvOpFunction && dop_spv_len(w) == 5 ? w[2] : function;
        if (function) {
            operands(r, at, function, want_constant);
            continue;
        }
        bool type = dop_spv_is_type(dop_spv_op(w)) && dop_spv_len(w) > 1;
        const id_facts *f = type ? matrix_facts(r, w[1]) : dop_spv_len(w) > 2 ? matrix_facts(r, w[2]) : &r->id[0];
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

/* --- writing ----------------------------------------------------------------------------------------------------------- */

static void
append_matrix_words(rewriter *r, const uint32_t *words, size_t n)
{
    dop_buf_append(r->out, words, n * 4);
}

static void
append_matrix_word(rewriter *r, uint32_t word)
{
    append_matrix_words(r, &word, 1);
}

/* Returns the id of a type or constant in this use; any other id unchanged. */
static uint32_t
in_use(const rewriter *r, uint32_t id, dop_matrix_use use)
{
    const id_facts *f = matrix_facts(r, id);
    return f->has_matrix && (f->is_type || f->is_constant) ? f->made[use] : id;
}

static bool
same_words(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* Writes one function type for each distinct list of KHR types among the functions that have the NV type at `at`. */
static void
put_function_types(rewriter *r, size_t at)
{
    enum { MAX_WORDS = 64, MAX_KINDS = 8 };
    uint32_t kinds[MAX_KINDS][MAX_WORDS], n = 0, len = dop_spv_len(r->w + at);
    const uint32_t *w = r->w + at;
    if (len > MAX_WORDS) {
        fail_rewrite(r, "parameters of one function:", len);
        return;
    }
    for (uint32_t f = 1; f < r->bound; f++) {
        size_t p = r->id[f].at;
        if (!p || dop_spv_op(r->w + p) != SpvOpFunction || dop_spv_len(r->w + p) != 5 || r->w[p + 4] != w[1])
            continue;
        uint32_t kind[MAX_WORDS], k = 0;
        memcpy(kind, w, len * sizeof *kind);
        kind[2] = in_use(r, w[2], wanted_use(r, f, DOP_MATRIX_SUM));
        p += 5;
        for (uint32_t i = 3; i < len && p < r->n && dop_spv_op(r->w + p) == SpvOpFunctionParameter; i++) {
            kind[i] = in_use(r, w[i], wanted_use(r, r->w[p + 2], DOP_MATRIX_SUM));
            p += dop_spv_len(r->w + p);
        }
        while (k < n && !same_words(kinds[k] + 2, kind + 2, len - 2))
            k++;
        if (k == MAX_KINDS) {
            fail_rewrite(r, "kinds of functions with one signature, more than", MAX_KINDS);
            return;
        }
        if (k == n) {
            memcpy(kinds[k], kind, len * sizeof *kind);
            kinds[n++][1] = k ? r->next++ : w[1];
            append_matrix_words(r, kinds[k], len);
        }
        r->id[f].function = kinds[k][1];
    }
}

static void
put_matrix_types(rewriter *r, size_t at)
{
    const uint32_t *w = r->w + at;
    const id_facts *rows = matrix_facts(r, w[4]), *number = matrix_facts(r, rows->type);
    const uint32_t *integer = r->w + number->at;
    if (dop_spv_len(w) != 6 || !number->at || dop_spv_op(integer) != SpvOpTypeInt || integer[2] != 32) {
        fail_rewrite(r, "not a matrix of constant size, type", w[1]);
        return;
    }
    if (dop_spv_op(r->w + matrix_facts(r, w[2])->at) != SpvOpTypeFloat) {
        fail_rewrite(r, "a matrix of integers, type", w[1]);
        return;
    }
    for (uint32_t u = 0; u < USES && !r->use_id[USES - 1]; u++) {
        r->use_id[u] = r->next++;
        append_matrix_words(r, (uint32_t[]){4u << 16 | SpvOpConstant, rows->type, r->use_id[u], u}, 4);
    }
    for (uint32_t u = 0; u < USES; u++)
        if (r->id[w[1]].uses >> u & 1)
            append_matrix_words(r,
                                (uint32_t[]){7u << 16 | DOP_SPV_TYPE_MATRIX_KHR, r->id[w[1]].made[u], w[2], w[3], w[4],
                                             w[5], r->use_id[u]},
                                7);
}

/* Writes a type or constant that contains matrices, once for each required use. */
static void
put_definition(rewriter *r, size_t at, uint32_t id)
{
    const uint32_t *w = r->w + at;
    uint32_t op = dop_spv_op(w), len = dop_spv_len(w), first = op == SpvOpTypeArray || op == SpvOpTypeStruct ? 2 : 3;
    if (op == SpvOpTypeCooperativeMatrixNV) {
        put_matrix_types(r, at);
        return;
    }
    if (op == SpvOpTypeFunction) {
        put_function_types(r, at);
        return;
    }
    if (op != SpvOpTypeArray && op != SpvOpTypeStruct && op != SpvOpTypePointer && op != SpvOpConstantComposite &&
        op != SpvOpConstantNull && op != SpvOpUndef) {
        fail_rewrite(r, "matrices in definition", op);
        return;
    }
    for (uint32_t u = 0; u < USES; u++) {
        dop_matrix_use use = (dop_matrix_use)u;
        if (!(r->id[id].uses >> u & 1))
            continue;
        for (uint32_t i = 0; i < len; i++) {
            bool own = i == (dop_spv_is_type(op) ? 1u : 2u), part = i >= first || (!dop_spv_is_type(op) && i == 1);
            append_matrix_word(r, own ? r->id[id].made[u] : part ? in_use(r, w[i], use) : w[i]);
        }
    }
}

/* Converts NV's Boolean ColumnMajor to KHR's layout 0 or 1, for which the constants of the first two uses serve. */
static uint32_t
matrix_layout(rewriter *r, uint32_t id)
{
    uint32_t op = matrix_facts(r, id)->at ? dop_spv_op(r->w + matrix_facts(r, id)->at) : 0;
    if (op != SpvOpConstantTrue && op != SpvOpConstantFalse)
        fail_rewrite(r, "an order of elements that is no constant, id", id);
    return r->use_id[op == SpvOpConstantTrue];
}

/* Replaces one word of the instruction in r->line, which begins at r->line_at. */
static void
replace_operand(rewriter *r, size_t word, uint32_t like, dop_matrix_use use)
{
    const id_facts *f = matrix_facts(r, r->w[word]);
    if (f->has_matrix && f->is_constant)
        r->line[word - r->line_at] = f->made[wanted_use(r, like, use)];
}

/* Converts a load or store: NV operands are (pointer, stride, column major, access...), KHR operands (pointer, layout,
 * stride, access...). */
static void
swap_layout(rewriter *r, uint32_t *line, uint32_t len, uint32_t stride, uint32_t op)
{
    if (len < stride + 2) {
        fail_rewrite(r, "a short instruction", dop_spv_op(line));
        return;
    }
    uint32_t layout = matrix_layout(r, line[stride + 1]);
    line[stride + 1] = line[stride];
    line[stride] = layout;
    line[0] = len << 16 | op;
}

static void
rewrite_code(rewriter *r, size_t at, uint32_t function, bool types)
{
    const uint32_t *w = r->w + at;
    uint32_t op = dop_spv_op(w), len = dop_spv_len(w), *line = r->line;
    memcpy(line, w, len * sizeof *w);
    r->line_at = at;
    if (function)
        operands(r, at, function, replace_operand);
    if (has_result_type(r, w, types) && is_value(r, w[2]))
        line[1] = in_use(r, w[1], use_of(r, w[2]));
    if (op == SpvOpFunction && len == 5 && matrix_facts(r, w[2])->function)
        line[4] = matrix_facts(r, w[2])->function;
    if (op == SpvOpCooperativeMatrixLoadNV)
        swap_layout(r, line, len, 4, DOP_SPV_MATRIX_LOAD_KHR);
    else if (op == SpvOpCooperativeMatrixStoreNV)
        swap_layout(r, line, len, 3, DOP_SPV_MATRIX_STORE_KHR);
    else if (op == SpvOpCooperativeMatrixMulAddNV)
        line[0] = len << 16 | DOP_SPV_MATRIX_MUL_ADD_KHR;
    else if (op == SpvOpCooperativeMatrixLengthNV) /* KHR's length depends on the use, which is unknown here */
        fail_rewrite(r, "the number of elements of matrix type", len > 3 ? w[3] : 0);
    append_matrix_words(r, line, len);
}

/* Writes an OpExtension, whose operand is a 0-terminated string, with the NV name replaced by the KHR one. */
static void
put_extension(rewriter *r, const uint32_t *w)
{
    static const char nv[] = "SPV_NV_cooperative_matrix", khr[] = "SPV_KHR_cooperative_matrix";
    if (dop_spv_len(w) != 1 + sizeof nv / 4 + 1 || memcmp(w + 1, nv, sizeof nv) != 0) {
        append_matrix_words(r, w, dop_spv_len(w));
        return;
    }
    uint32_t words[1 + sizeof khr / 4 + 1] = {(1 + sizeof khr / 4 + 1) << 16 | SpvOpExtension};
    memcpy(words + 1, khr, sizeof khr);
    append_matrix_words(r, words, sizeof words / 4);
}

/* True for an unused type or constant, and for its names and decorations. They are omitted, because a device must support
 * every matrix type and use that a module declares (VUID-RuntimeSpirv-OpTypeCooperativeMatrixKHR-10163). */
static bool
is_left_out(const rewriter *r, const uint32_t *w)
{
    const uint32_t op = dop_spv_op(w);
    const bool names = op == SpvOpName || op == SpvOpMemberName || op == SpvOpDecorate || op == SpvOpMemberDecorate;
    const id_facts *f = matrix_facts(r, names && dop_spv_len(w) > 1 ? w[1] : 0);
    const bool function = f->at && dop_spv_op(r->w + f->at) == SpvOpTypeFunction;
    return f->has_matrix && (f->is_type || f->is_constant) && !function && !f->uses;
}

static void
write_matrix_module(rewriter *r)
{
    uint32_t function = 0;
    bool types = false;
    append_matrix_words(r, r->w, 5);
    for (size_t at = 5; at < r->n && r->st == DOP_OK; at += dop_spv_len(r->w + at)) {
        const uint32_t *w = r->w + at;
        uint32_t op = dop_spv_op(w), len = dop_spv_len(w);
        types = types || dop_spv_is_type(op);
        function = op == SpvOpFunction && len == 5 ? w[2] : function;
        uint32_t made = dop_spv_is_type(op) && len > 1 ? w[1] : has_result_type(r, w, types) ? w[2] : 0;
        const id_facts *f = matrix_facts(r, made);
        if (op == SpvOpCapability && len == 2 && w[1] == SpvCapabilityCooperativeMatrixNV)
            append_matrix_words(r, (uint32_t[]){w[0], DOP_SPV_CAPABILITY_MATRIX_KHR}, 2);
        else if (op == SpvOpExtension)
            put_extension(r, w);
        else if (f->has_matrix && (f->is_type || f->is_constant))
            put_definition(r, at, made);
        else if (!is_left_out(r, w))
            rewrite_code(r, at, function, types);
    }
    if (r->out->failed)
        r->st = DOP_NO_MEMORY(r->diag);
    else
        ((uint32_t *)(void *)r->out->data)[3] = r->next;
}

dop_status
dop_spirv_khr_matrix(const char *name, const uint32_t *words, size_t n, dop_diag *diag, dop_buf *out_spirv)
{
    enum { MAX_BOUND = 1 << 22, MAX_LINE = 65536 };
    if (n < 5 || words[0] != SpvMagicNumber || words[3] == 0 || words[3] > MAX_BOUND || n > UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "kernel %s: KHR form of its matrices: not a SPIR-V module", name);
    rewriter r = {.name = name, .w = words, .n = n, .bound = words[3], .next = words[3], .diag = diag};
    dop_buf out = {0};
    r.out = &out;
    r.id = calloc(r.bound, sizeof *r.id);
    r.line = malloc(MAX_LINE * sizeof *r.line);
    if (!r.id || !r.line)
        r.st = DOP_NO_MEMORY(diag);
    if (r.st == DOP_OK)
        collect_matrices(&r);
    if (r.st == DOP_OK)
        infer_uses(&r);
    if (r.st == DOP_OK)
        find_needed_uses(&r);
    if (r.st == DOP_OK)
        write_matrix_module(&r);
    if (r.st == DOP_OK)
        dop_buf_append(out_spirv, out.data, out.size);
    if (r.st == DOP_OK && out_spirv->failed)
        r.st = DOP_NO_MEMORY(diag);
    dop_buf_finish(&out);
    free(r.line);
    free(r.id);
    return r.st;
}
