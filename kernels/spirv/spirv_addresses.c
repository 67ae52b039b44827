/* Two passes over the module. The first finds the addresses whose words are needed, and assigns an id to each pair of words.
 * The second writes the module with these words. The words are computed right after the address, which precedes all of its
 * uses. */
#include "kernels/spirv/spirv_addresses.h"

#include "kernels/spirv/spirv.h"

#include <stdlib.h>

typedef struct id_facts {
    uint32_t type;    /* values: id of the type; 0: not a value */
    uint32_t same_as; /* id of an address with the same words, or of the pair of words itself; 0: none */
    uint32_t pair;    /* id of the address's pair of words; 0: not needed */
    uint8_t is_type, is_address_type;
} id_facts;

typedef struct rewriter {
    const char *name;
    const uint32_t *w;
    size_t n;
    uint32_t bound, next; /* ids of the input are below `bound`; `next` is the next free id */
    uint32_t uint_type, pair_type;
    bool lacks_uint, lacks_pair; /* the module does not declare the type */
    bool changes;
    id_facts *id;
    dop_buf *out;
    dop_buf later; /* instructions delayed until the next position where they are allowed */
} rewriter;

/* Returns the properties of an id; for a word that is not an id, those of id 0. */
static id_facts *
address_facts(const rewriter *r, uint32_t id)
{
    return &r->id[id < r->bound ? id : 0];
}

static bool
is_address_id(const rewriter *r, uint32_t id)
{
    return address_facts(r, address_facts(r, id)->type)->is_address_type;
}

/* --- reading ----------------------------------------------------------------------------------------------------------- */

static void
note_address_type(rewriter *r, const uint32_t *w)
{
    const uint32_t op = dop_spv_op(w), len = dop_spv_len(w);
    address_facts(r, w[1])->is_type = 1;
    if (op == SpvOpTypeInt && len == 4 && w[2] == 32 && w[3] == 0)
        r->uint_type = w[1];
    else if (op == SpvOpTypeVector && len == 4 && w[2] == r->uint_type && w[3] == 2)
        r->pair_type = w[1];
    else if (op == SpvOpTypePointer && len == 4)
        address_facts(r, w[1])->is_address_type = w[2] == SpvStorageClassPhysicalStorageBuffer;
}

static bool
chooses(uint32_t op)
{
    return op == SpvOpPhi || op == SpvOpSelect;
}

/* Position of the selected addresses among the words of an OpPhi or OpSelect: from first_choice on, in steps of
 * choice_step. */
static uint32_t
first_choice(uint32_t op)
{
    return op == SpvOpPhi ? 3 : 4;
}

static uint32_t
choice_step(uint32_t op)
{
    return op == SpvOpPhi ? 2 : 1;
}

static void
note_value(rewriter *r, const uint32_t *w)
{
    id_facts *f = address_facts(r, w[2]);
    const bool same = dop_spv_op(w) == SpvOpCopyObject || dop_spv_op(w) == SpvOpBitcast;
    if (dop_spv_len(w) == 4 && same && address_facts(r, w[1])->is_address_type &&
        (is_address_id(r, w[3]) || (r->pair_type && address_facts(r, w[3])->type == r->pair_type)))
        f->same_as = w[3];
    f->type = w[1];
}

/* True if the instruction has a type and a result. `types` is true after the first type: names and decorations before it have
 * ids and literals in any position. */
static bool
has_result(const rewriter *r, const uint32_t *w, bool types)
{
    const uint32_t op = dop_spv_op(w);
    return types && dop_spv_len(w) > 2 && !dop_spv_is_type(op) && op != SpvOpTypeForwardPointer &&
           address_facts(r, w[1])->is_type;
}

static dop_status
collect_addresses(rewriter *r, dop_diag *diag)
{
    bool types = false;
    for (size_t at = 5; at < r->n; at += dop_spv_len(r->w + at)) {
        const uint32_t *w = r->w + at, op = dop_spv_op(w), len = dop_spv_len(w);
        if (len == 0 || at + len > r->n)
            return DOP_FAIL(diag, DOP_E_INTERNAL, "kernel %s: its addresses: instruction out of bounds at word %zu",
                            r->name, at);
        types = types || dop_spv_is_type(op);
        if (dop_spv_is_type(op) && len > 1)
            note_address_type(r, w);
        else if (has_result(r, w, types))
            note_value(r, w);
    }
    return DOP_OK;
}

/* Returns the address or pair from which `id` was cast, possibly through several casts; `id` itself if it is not a cast. */
static uint32_t
origin(const rewriter *r, uint32_t id)
{
    for (uint32_t n = 0; n < r->bound && address_facts(r, id)->same_as; n++) /* a damaged module may contain a cycle */
        id = address_facts(r, id)->same_as;
    return id;
}

static void
request_pair(rewriter *r, uint32_t id)
{
    const uint32_t from = origin(r, id);
    id_facts *f = address_facts(r, from);
    if (is_address_id(r, from) && !f->pair)
        f->pair = r->next++;
    else if (!is_address_id(r, from))
        f->pair = from;
}

static void
find_needed_pairs(rewriter *r)
{
    bool types = false;
    for (size_t at = 5; at < r->n; at += dop_spv_len(r->w + at)) {
        const uint32_t *w = r->w + at, op = dop_spv_op(w), len = dop_spv_len(w);
        types = types || dop_spv_is_type(op);
        if (len < 4 || !has_result(r, w, types) || !address_facts(r, w[1])->is_address_type)
            continue;
        if (op == SpvOpBitcast && is_address_id(r, w[3])) {
            request_pair(r, w[3]);
            r->changes = true;
        } else if (chooses(op)) {
            request_pair(r, w[2]);
            for (uint32_t i = first_choice(op); i < len; i += choice_step(op))
                request_pair(r, w[i]);
            r->changes = true;
        }
    }
}

/* --- writing ----------------------------------------------------------------------------------------------------------- */

static void
append_words(dop_buf *out, const uint32_t *words, uint32_t n)
{
    dop_buf_append(out, words, n * 4u);
}

static void
put_cast(dop_buf *out, uint32_t type, uint32_t result, uint32_t from)
{
    append_words(out, (uint32_t[]){4u << 16 | SpvOpBitcast, type, result, from}, 4);
}

static uint32_t
pair_of(const rewriter *r, uint32_t id)
{
    return address_facts(r, origin(r, id))->pair;
}

static void
put_later(rewriter *r)
{
    dop_buf_append(r->out, r->later.data, r->later.size);
    r->later.size = 0;
}

static void
put_choice(rewriter *r, const uint32_t *w)
{
    const uint32_t op = dop_spv_op(w), len = dop_spv_len(w), pair = address_facts(r, w[2])->pair;
    const uint32_t step = choice_step(op);
    append_words(r->out, (uint32_t[]){w[0], r->pair_type, pair}, 3);
    for (uint32_t i = 3; i < len; i++) {
        const bool chosen = i >= first_choice(op) && (i - first_choice(op)) % step == 0;
        append_words(r->out, (uint32_t[]){chosen ? pair_of(r, w[i]) : w[i]}, 1);
    }
    put_cast(&r->later, w[1], w[2], pair); /* must follow all OpPhi of the block */
}

/* Writes an instruction that produces an address whose words are needed, and computes the words. */
static void
put_maker(rewriter *r, const uint32_t *w, bool in_function)
{
    const uint32_t op = dop_spv_op(w), pair = address_facts(r, w[2])->pair;
    append_words(r->out, w, dop_spv_len(w));
    if (!in_function && (op == SpvOpUndef || op == SpvOpConstantNull))
        append_words(&r->later, (uint32_t[]){3u << 16 | op, r->pair_type, pair}, 3);
    else
        put_cast(&r->later, r->pair_type, pair, w[2]);
}

/* Assigns ids for the declarations of put_pair_type, because constants before the functions also use the type. */
static void
name_pair_type(rewriter *r)
{
    r->lacks_uint = !r->uint_type;
    r->lacks_pair = !r->pair_type;
    if (r->lacks_uint)
        r->uint_type = r->next++;
    if (r->lacks_pair)
        r->pair_type = r->next++;
}

/* Declares the type of pairs before the first function, if the module lacks it. */
static void
put_pair_type(rewriter *r)
{
    if (r->lacks_uint)
        append_words(r->out, (uint32_t[]){4u << 16 | SpvOpTypeInt, r->uint_type, 32, 0}, 4);
    if (r->lacks_pair)
        append_words(r->out, (uint32_t[]){4u << 16 | SpvOpTypeVector, r->pair_type, r->uint_type, 2}, 4);
}

/* True if delayed instructions may be inserted before this instruction. */
static bool
is_place(uint32_t op)
{
    return op != SpvOpPhi && op != SpvOpLine && op != SpvOpNoLine && op != SpvOpFunctionParameter && op != SpvOpLabel &&
           op != SpvOpVariable;
}

static void
write_address_module(rewriter *r)
{
    bool in_function = false, types = false;
    name_pair_type(r);
    append_words(r->out, r->w, 5);
    for (size_t at = 5; at < r->n; at += dop_spv_len(r->w + at)) {
        const uint32_t *w = r->w + at, op = dop_spv_op(w), len = dop_spv_len(w);
        if (op == SpvOpFunction && !in_function) {
            put_pair_type(r);
            put_later(r);
            in_function = true;
        }
        if (in_function && is_place(op))
            put_later(r);
        types = types || dop_spv_is_type(op);
        const bool makes =
            has_result(r, w, types) && len > (op == SpvOpBitcast ? 3u : 2u) && address_facts(r, w[1])->is_address_type;
        const id_facts *f = address_facts(r, makes ? w[2] : 0);
        if (makes && op == SpvOpBitcast && is_address_id(r, w[3]))
            put_cast(r->out, w[1], w[2], pair_of(r, w[3]));
        else if (makes && chooses(op))
            put_choice(r, w);
        else if (makes && f->pair && !f->same_as)
            put_maker(r, w, in_function);
        else
            append_words(r->out, w, len);
    }
    if (!r->out->failed)
        ((uint32_t *)(void *)r->out->data)[3] = r->next;
}

dop_status
dop_spirv_addresses(const char *name, dop_buf *spirv, dop_diag *diag)
{
    enum { MAX_BOUND = 1 << 22 };
    const uint32_t *words = (const uint32_t *)(const void *)spirv->data;
    const size_t n = spirv->size / 4;
    if (n < 5 || words[0] != SpvMagicNumber || words[3] == 0 || words[3] > MAX_BOUND)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "kernel %s: its addresses: not a SPIR-V module", name);
    dop_buf out = {0};
    rewriter r = {.name = name, .w = words, .n = n, .bound = words[3], .next = words[3], .out = &out};
    dop_status st = DOP_OK;
    r.id = calloc(r.bound, sizeof *r.id);
    if (!r.id)
        return DOP_NO_MEMORY(diag);
    st = collect_addresses(&r, diag);
    if (st == DOP_OK)
        find_needed_pairs(&r);
    if (st == DOP_OK && r.changes) {
        write_address_module(&r);
        if (out.failed || r.later.failed) {
            st = DOP_NO_MEMORY(diag);
        } else {
            dop_buf_finish(spirv);
            *spirv = out;
            out = (dop_buf){0};
        }
    }
    dop_buf_finish(&r.later);
    dop_buf_finish(&out);
    free(r.id);
    return st;
}
