/* Weights of products on matrix units: loads of pieces, and their conversion to f16. */
#include "kernels/gen/templates.h"
#include "kernels/product/gen_coop.h"

#include "kernels/emit/weight_types.h"

#include <string.h>

/* Returns the type of all the part's matrices; DOP_TYPE_COUNT if they differ. */
static dop_type
only_type(const dop_graph *g, const dop_segment *part)
{
    dop_type first = DOP_TYPE_COUNT;
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_type t = dop_product_type(g, part->mats[m]);
        if (m > 0 && t != first)
            return DOP_TYPE_COUNT;
        first = t;
    }
    return first;
}

enum { BOOK_LEAST = 1024 }; /* bytes; smaller tables are not codebooks */

/* Form in which codebook values stay in registers until they are stored in shared memory. MOVED: two-bit words, for iq1 types
 * (4 bytes per 32 values). BYTES: other types. NONE: the type has no codebook. */
typedef enum book { BOOK_NONE, BOOK_BYTES, BOOK_MOVED } book;

static book
book_of(dop_type t)
{
    enum { MOVED_BYTES = 4 };
    const dop_type_info *info = dop_type_of(t);
    return info->pack.book < BOOK_LEAST ? BOOK_NONE : info->pack.unit_bytes == MOVED_BYTES ? BOOK_MOVED : BOOK_BYTES;
}

uint32_t
dop_coop_book_bytes(const dop_graph *g, const dop_region *r, const dop_tile *tile)
{
    const dop_node_id w = dop_node_at(g, r->info->product.parts[0].mats[0])->src[1];
    const uint32_t bytes = dop_type_of(dop_node_at(g, w)->type)->pack.book;
    return tile->direct && bytes >= BOOK_LEAST ? bytes : 0;
}

/* True if the type's functions are in types/codes.glsl. */
static bool
in_codes(dop_type t)
{
    return strcmp(dop_weight_type_of(t)->file, "types/codes.glsl") == 0;
}

static bool
has_levels(dop_type t)
{
    return dop_type_of(t)->pack.ints == DOP_INTS_LEVELS;
}

/* True if the part's units stay packed until they are written to shared memory, which needs one type for all matrices. */
static bool
stored_units(const dop_graph *g, const dop_segment *part)
{
    const dop_type t = only_type(g, part);
    return t < DOP_TYPE_COUNT && dop_type_of(t)->kind == DOP_KIND_QUANT;
}

bool
dop_coop_listed_units(const dop_gen *gen, const dop_segment *part)
{
    const dop_schedule_numbers *n = &gen->e.target->schedule;
    const dop_type t = only_type(gen->e.g, part);
    for (uint32_t i = 0; i < n->n_coop_units; i++)
        if (n->coop_units[i].type == (uint32_t)t)
            return true;
    return false;
}

/* True if the rows of a part's pieces can be found before the loop over the depth: all matrices have one type, and are not
 * per expert. */
static bool
found_before(const dop_coop *o)
{
    const dop_graph *g = o->gen->e.g;
    const dop_node *w = dop_node_at(g, dop_node_at(g, o->part->mats[0])->src[1]);
    return o->form->kind <= DOP_COOP_direct && only_type(g, o->part) < DOP_TYPE_COUNT && w->shape.rank == 2;
}

/* Emits the function dop_piece_ofP for row n of matrix m of the part. It returns the address of the matrix, the start of the
 * row, and the position of the scales. */
static void
emit_piece_of(const dop_coop *o, dop_buf *out)
{
    dop_emit *e = &o->gen->e;
    uint32_t before = o->rows;
    dop_node_id w = dop_node_at(e->g, o->part->mats[0])->src[1];
    const dop_type_info *type = dop_type_of(dop_node_at(e->g, w)->type);
    const uint32_t stride = dop_row_values(e->g, w);
    dop_buf_printf(out, "dop_piece dop_piece_of%u(uint m, uint n)\n{\n    uvec2 p = uvec2(%s);\n    uint aux = %s;\n",
                   o->index, dop_emit_matrix_arg(e, w), dop_emit_weight(e, w));
    for (uint32_t m = 1; m < o->part->n_mats; m++) {
        w = dop_node_at(e->g, o->part->mats[m])->src[1];
        dop_buf_printf(out, "    if (m == %uu) {\n        p = uvec2(%s);\n        aux = %s;\n    }\n", m,
                       dop_emit_matrix_arg(e, w), dop_emit_weight(e, w));
    }
    for (uint32_t i = o->n_parts - 1; i > 0; i--) {
        w = dop_node_at(e->g, o->part[i].mats[0])->src[1];
        before -= o->part[i].rows;
        dop_buf_printf(
            out, "    %sif (n >= %uu) {\n        p = uvec2(%s);\n        aux = %s;\n        n -= %uu;\n    }\n",
            i + 1 < o->n_parts ? "else " : "", before, dop_emit_matrix_arg(e, w), dop_emit_weight(e, w), before);
    }
    e->addresses = true;
    if (type->kind == DOP_KIND_QUANT)
        dop_buf_printf(out, "    return dop_piece(p, n * %uu, aux);\n}\n", stride);
    else /* one address per row; otherwise registers would also hold that of its matrix */
        dop_buf_printf(out, "    return dop_piece(dop_behind(p, n * %uu), 0u, aux);\n}\n", stride / (16 / type->bytes));
}

/* Expressions for the load of a matrix's piece: matrix, first value of the row, position of the scales, and condition that
 * the piece belongs to the matrix. */
typedef struct piece_source {
    const char *matrix, *first, *aux, *which, *name;
    dop_node_id w;
} piece_source;

static piece_source
source_of(const dop_coop *o, uint32_t m)
{
    dop_emit *e = &o->gen->e;
    const dop_node_id w = dop_node_at(e->g, o->part->mats[m])->src[1];
    const char *which =
                   !o->found && m + 1 < o->part->n_mats ? dop_emit_str(e, "    if (m == %uu)\n        ", m) : "    ",
               *name = dop_type_of(dop_node_at(e->g, w)->type)->name;
    if (o->found)
        return (piece_source){"U32(b.p)", "b.at", "b.aux", which, name, w};
    const char *matrix = dop_emit_matrix(e, w, "dop_matrix");
    return (piece_source){
        matrix, dop_emit_str(e, "n * %uu", dop_row_values(e->g, w)), dop_emit_weight(e, w), which, name, w};
}

/* Emits loads of weights in pieces of whole units, so that the scale of a unit is loaded and prepared once
 * (matmul_coop_units.glsl). */
static void
load_units(dop_coop *o, dop_buf *load, dop_buf *take)
{
    dop_emit *e = &o->gen->e;
    const dop_type type = only_type(e->g, o->part);
    const char *name = type < DOP_TYPE_COUNT ? dop_type_of(type)->name : "";
    const bool raw = stored_units(e->g, o->part);
    const book kept = raw && !o->gen->book ? book_of(type) : BOOK_NONE;
    o->piece = 32;
    o->raw = !raw                 ? "dop_raw32"
             : kept == BOOK_BYTES ? "dop_raw_book"
             : kept == BOOK_MOVED ? "dop_raw_moved"
                                  : dop_emit_str(e, "dop_raw_%s", name);
    for (uint32_t m = 0; m < (o->found ? 1 : o->part->n_mats); m++) {
        const piece_source from = source_of(o, m);
        /* Past the end of a row the last unit is loaded again; activations are zero there. */
        const char *c = o->p->k % o->gen->choice->tile.bk
                            ? dop_emit_str(e, "min(c, %uu)", (dop_row_values(e->g, from.w) - 1) / 32 * 32)
                            : "c";
        if (raw)
            dop_buf_printf(load, "%sreturn dop_%s_%s(%s, (%s + %s) >> 5, %s);\n", from.which, kept ? "bload" : "wload",
                           name, from.matrix, from.first, c, from.aux);
        else
            dop_buf_printf(load, "%sreturn dop_w32_%s(%s, %s + %s, %s);\n", from.which, from.name, from.matrix,
                           from.first, c, from.aux);
    }
    if (raw)
        dop_buf_printf(take, "    return dop_take_%s(r, j);\n", name);
    else
        dop_buf_puts(take, "    return r.v[j];\n");
}

void
dop_coop_guard_column(dop_gen *gen, const dop_parts *p, dop_buf *out)
{
    if (p->k % gen->choice->tile.bk)
        dop_buf_printf(out, "    if (c >= %uu)\n        return dop_raw8(uvec4(0u), uvec4(0u));\n", p->k);
}

/* Emits loads of eight values of matrix m's row n from column c in stored form, and their conversion to f16. */
static void
load_eights(dop_coop *o, dop_buf *load, dop_buf *take)
{
    o->piece = 8;
    o->raw = "dop_raw8";
    dop_coop_guard_column(o->gen, o->p, load);
    for (uint32_t m = 0; m < (o->found ? 1 : o->part->n_mats); m++) {
        const piece_source from = source_of(o, m);
        dop_buf_printf(load, "%sreturn dop_w8load_%s(%s, %s + c, %s);\n", from.which, from.name, from.matrix,
                       from.first, from.aux);
        dop_buf_printf(take, "%sreturn dop_w8_%s(r, %s + c);\n", from.which, from.name, from.first);
    }
}

void
dop_coop_weights(dop_coop *o, dop_buf *out)
{
    dop_buf load = {0}, take = {0};
    o->found = found_before(o);
    if (o->found)
        emit_piece_of(o, out);
    const char *of = o->found ? "dop_piece b" : "uint m, uint n";
    const bool units = o->form->in_units(o->gen, o->part);
    (units ? load_units : load_eights)(o, &load, &take);
    if (units || o->form->kind != DOP_COOP_direct)
        dop_buf_printf(
            out,
            "%s dop_load_b%u(%s, uint c)\n{\n%s}\n"
            "uvec4 dop_take_b%u(%s r, uint j, %s, uint c) // values 8 j to 8 j + 7 of a piece, as halves\n{\n%s}\n",
            o->raw, o->index, of, dop_buf_text(&load), o->index, o->raw, of, dop_buf_text(&take));
    dop_buf_finish(&load);
    dop_buf_finish(&take);
}

static bool
is_quant(const dop_graph *g, dop_node_id product)
{
    return dop_type_of(dop_product_type(g, product))->kind == DOP_KIND_QUANT;
}

/* Returns the macro of types/books.glsl for a type whose codebook values stay integers until they are stored in shared memory
 * (schedule.coop_late_books); NULL if the type has no codebook, or the target disables this. */
static const char *
late_macro(const dop_gen *gen, dop_type t)
{
    const book kept = gen->e.target->schedule.coop_late_books ? book_of(t) : BOOK_NONE;
    return kept == BOOK_MOVED ? "DOP_HALVES_MOVED" : kept == BOOK_BYTES ? "DOP_HALVES_BOOK" : NULL;
}

/* Declares the two functions for the weight types of a part, except those in *done (bits), which it updates. */
static void
declare_eights(const dop_gen *gen, const dop_segment *part, uint64_t *done, dop_buf *out)
{
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_type t = dop_product_type(gen->e.g, part->mats[m]);
        const uint64_t bit = (uint64_t)1 << t;
        const char *late = late_macro(gen, t);
        if (!(*done & bit) && late)
            dop_buf_printf(out, "%s(%s)\n", late, dop_type_of(t)->name);
        else if (!(*done & bit))
            dop_buf_printf(out,
                           !in_codes(t)    ? "DOP_HALVES_%s\n"
                           : has_levels(t) ? "DOP_HALVES_LEVELS(%s)\n"
                                           : "DOP_HALVES_ANY(%s)\n",
                           dop_type_of(t)->name);
        *done |= bit;
    }
}

/* Declares the functions for units of the part's types, except those in *done (bits), which it updates. */
static void
declare_units(const dop_gen *gen, const dop_segment *part, uint64_t *done, dop_buf *out)
{
    const dop_graph *g = gen->e.g;
    static const char *const takes[] = {"DOP_TAKE(%s)\n", "DOP_TAKE_BOOK(%s)\n", "DOP_TAKE_MOVED(%s)\n"};
    const bool stored = stored_units(g, part);
    for (uint32_t m = 0; m < part->n_mats; m++) {
        const dop_type t = dop_product_type(g, part->mats[m]);
        const uint64_t bit = (uint64_t)1 << t;
        if (!(done[stored] & bit) && !stored)
            dop_buf_printf(out, "DOP_W32(%s)\n", dop_type_of(t)->name);
        else if (!(done[stored] & bit) && in_codes(t))
            dop_buf_printf(out, takes[gen->book ? BOOK_NONE : book_of(t)], dop_type_of(t)->name);
        done[stored] |= bit;
    }
}

dop_status
dop_coop_declare_weights(dop_gen *gen, const dop_parts *p,
                         bool (*in_units)(const dop_gen *gen, const dop_segment *part), dop_buf *decls)
{
    const dop_keys none = {0};
    const dop_graph *g = gen->e.g;
    bool units = false, quant = false, late = false;
    uint64_t eights = 0, units_of[2] = {0}; /* bits of types that are already declared */
    dop_buf types = {0};
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < p->n; i++) {
        for (uint32_t m = 0; m < p->part[i].n_mats; m++) {
            quant = quant || is_quant(g, p->part[i].mats[m]);
            late = late || late_macro(gen, dop_product_type(g, p->part[i].mats[m]));
        }
        if (!in_units(gen, &p->part[i])) {
            declare_eights(gen, &p->part[i], &eights, &types);
            continue;
        }
        declare_units(gen, &p->part[i], units_of, &types);
        units = true;
    }
    if (quant)
        DOP_TRY(dop_template_fill(gen, "types/halves.glsl", &none, decls));
    if (late)
        DOP_TRY(dop_template_fill(gen, "types/books.glsl", &none, decls));
    if (units)
        DOP_TRY(dop_template_fill(gen, "matmul_coop_units.glsl", &none, decls));
error:
    dop_buf_puts(decls, dop_buf_text(&types));
    dop_buf_finish(&types);
    return st;
}
