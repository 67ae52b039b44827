/* Weights of products on matrix units: how a piece of them is loaded, and how it becomes halves. */
#include "kernels/gen_coop.h"

#include "kernels/weight_types.h"

#include <string.h>

/* The type of all the part's matrices; DOP_TYPE_COUNT: they differ. */
static dop_type
only_type(const dop_graph *g, const dop_segment *part)
{
    dop_type first = DOP_TYPE_COUNT;
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_type t = dop_node_at(g, dop_node_at(g, part->mats[m])->src[1])->type;
        if (m > 0 && t != first)
            return DOP_TYPE_COUNT;
        first = t;
    }
    return first;
}

enum { BOOK_LEAST = 1024 }; /* bytes; what is smaller is no codebook that values are looked up in */

/* The form in which values from a codebook stay in registers until they are stored in shared memory: iq1's (4 bytes for 32 values)
 * as words of two bits a value (MOVED), other types' as bytes; NONE: the type has no codebook. */
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

/* Has the type its functions in types/codes.glsl? */
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

/* Do the part's units stay in their packed form until they are written to shared memory?  This takes one type for all matrices. */
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

/* Expressions of the column of piece i in its row, counted in units of 32 values or in eights. */
#define UNITS_COLUMN "i / 4u % PAIR + i / (8u * PAIR) % (DEEP / (32u * PAIR)) * PAIR"
#define EIGHTS_COLUMN "i % (DEEP / 8u)"

/* Can the rows of a part's pieces be found before the loop over the depth?  Not where the matrices have different types, or there
 * is one for each expert. */
static bool
found_before(const dop_gen *gen, const dop_coop_rows *rows)
{
    const dop_graph *g = gen->e.g;
    const dop_node *w = dop_node_at(g, dop_node_at(g, rows->part->mats[0])->src[1]);
    return only_type(g, rows->part) < DOP_TYPE_COUNT && w->shape.rank == 2;
}

/* The body of dop_piece_of(n0, i): the address of the matrix that has the row of piece i, where the row begins, and where the
 * matrix has its scales. */
static void
find_piece(dop_gen *gen, const dop_coop_rows *rows, dop_buf *out)
{
    dop_emit *e = &gen->e;
    uint32_t before = rows->rows;
    dop_node_id w = dop_node_at(e->g, rows->part[0].mats[0])->src[1];
    const dop_type_info *type = dop_type_of(dop_node_at(e->g, w)->type);
    const uint32_t stride = dop_row_values(e->g, w);
    dop_buf_printf(out, "    uvec2 p = uvec2(%s);\n    uint aux = %s;\n", dop_emit_matrix_arg(e, w),
                   dop_emit_weight(e, w));
    for (uint32_t m = 1; m < rows->part[0].n_mats; m++) {
        w = dop_node_at(e->g, rows->part[0].mats[m])->src[1];
        dop_buf_printf(out, "    if (m == %uu) {\n        p = uvec2(%s);\n        aux = %s;\n    }\n", m,
                       dop_emit_matrix_arg(e, w), dop_emit_weight(e, w));
    }
    for (uint32_t i = rows->n - 1; i > 0; i--) {
        w = dop_node_at(e->g, rows->part[i].mats[0])->src[1];
        before -= rows->part[i].rows;
        dop_buf_printf(
            out, "    %sif (n >= %uu) {\n        p = uvec2(%s);\n        aux = %s;\n        n -= %uu;\n    }\n",
            i + 1 < rows->n ? "else " : "", before, dop_emit_matrix_arg(e, w), dop_emit_weight(e, w), before);
    }
    e->addresses = true;
    if (type->kind == DOP_KIND_QUANT)
        dop_buf_printf(out, "    return dop_piece(p, n * %uu, aux);\n", stride);
    else /* one address for a row, without which registers would hold that of its matrix as well */
        dop_buf_printf(out, "    return dop_piece(dop_behind(p, n * %uu), 0u, aux);\n", stride / (16 / type->bytes));
}

/* What the functions of matmul_coop_part.glsl know of a piece's row, and how they find the column. */
static void
name_piece(dop_gen *gen, const dop_coop_rows *rows, uint32_t index, bool units, dop_keys *keys, dop_buf *find)
{
    dop_emit *e = &gen->e;
    const bool found = find != NULL;
    if (found) {
        dop_buf_printf(find, "dop_piece dop_piece_of%u(uint n0, uint i)\n{\n    const uint k0 = 0u;\n    DOP_B_AT%u\n",
                       index, index);
        find_piece(gen, rows, find);
        dop_buf_puts(find, "}\n");
    }
    dop_keys_set(keys, "FIND", found ? find->data : "");
    dop_keys_set(keys, "FROM", found ? "dop_piece b" : "uint n0");
    dop_keys_set(keys, "OF_I", found ? "piece[i]" : "n0");
    dop_keys_set(keys, "OF_B", found ? "piece[b]" : "n0");
    dop_keys_set(
        keys, "AT",
        found ? dop_emit_str(e, "uint c = k0 + (%s) * %uu;", units ? UNITS_COLUMN : EIGHTS_COLUMN, units ? 32 : 8)
              : dop_emit_str(e, "DOP_B_AT%u", index));
    dop_keys_set(keys, "PIECES",
                 found ? dop_emit_str(e,
                                      "    dop_piece piece[NB];\n"
                                      "    [[unroll]] for (uint i = 0u; i < NB; i++)\n"
                                      "        piece[i] = dop_piece_of%u(n0, lane + i * WG);\n",
                                      index)
                       : "");
}

/* Expressions by which a piece of matrix m is loaded: the matrix, the first value of the row, and where the scales are. */
typedef struct piece_source {
    const char *matrix, *first, *aux;
} piece_source;

static piece_source
source_of(dop_gen *gen, dop_node_id w, bool found)
{
    dop_emit *e = &gen->e;
    if (found)
        return (piece_source){"U32(b.p)", "b.at", "b.aux"};
    const char *matrix = dop_emit_matrix(e, w, "dop_matrix");
    return (piece_source){matrix, dop_emit_str(e, "n * %uu", dop_row_values(e->g, w)), dop_emit_weight(e, w)};
}

/* Weights are loaded in pieces of whole units, so that the scale of a unit is loaded and prepared once (matmul_coop_units.glsl). */
static void
load_units(dop_gen *gen, const dop_parts *p, const dop_segment *part, bool found, dop_keys *keys, dop_buf *load,
           dop_buf *take)
{
    dop_emit *e = &gen->e;
    const dop_type type = only_type(e->g, part);
    const char *name = type < DOP_TYPE_COUNT ? dop_type_of(type)->name : "";
    const bool raw = stored_units(e->g, part);
    const book kept = raw && !gen->book ? book_of(type) : BOOK_NONE;
    DOP_NUMBERS(gen, keys, NULL, {"PIECE", 32});
    dop_keys_set(keys, "RAW",
                 !raw                 ? "dop_raw32"
                 : kept == BOOK_BYTES ? "dop_raw_book"
                 : kept == BOOK_MOVED ? "dop_raw_moved"
                                      : dop_emit_str(e, "dop_raw_%s", name));
    /* Eight lanes, whose 16 bytes each are moved together, have two units side by side of four rows: so they ask for few lines of
     * the cache, and store to all banks of shared memory. */
    dop_keys_set(keys, "PIECE_ROW", "i % 4u + i / (4u * PAIR) % 2u * 4u + i / (8u * (DEEP / 32u)) * 8u");
    dop_keys_set(keys, "PIECE_COLUMN", UNITS_COLUMN);
    dop_keys_set(keys, "PIECE_AT", "(ROW) % 4u + (ROW) / 4u % 2u * (4u * PAIR) + (ROW) / 8u * (8u * (DEEP / 32u))");
    for (uint32_t m = 0; m < (found ? 1 : part->n_mats); m++) {
        dop_node_id w = dop_node_at(e->g, part->mats[m])->src[1];
        const piece_source from = source_of(gen, w, found);
        const char *which = !found && m + 1 < part->n_mats ? dop_emit_str(e, "    if (m == %uu)\n        ", m) : "    ";
        /* Past the end of a row the last unit is read again; activations are zero there. */
        const char *c =
            p->k % gen->choice->tile.bk ? dop_emit_str(e, "min(c, %uu)", (dop_row_values(e->g, w) - 1) / 32 * 32) : "c";
        if (raw)
            dop_buf_printf(load, "%sreturn dop_%s_%s(%s, (%s + %s) >> 5, %s);\n", which, kept ? "bload" : "wload", name,
                           from.matrix, from.first, c, from.aux);
        else
            dop_buf_printf(load, "%sreturn dop_w32_%s(%s, %s + %s, %s);\n", which,
                           dop_type_of(dop_node_at(e->g, w)->type)->name, from.matrix, from.first, c, from.aux);
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

/* Eight values of matrix m's row n from column c: loads their stored form, and converts it to halves. */
static void
load_eights(dop_gen *gen, const dop_parts *p, const dop_segment *part, bool found, dop_buf *load, dop_buf *take)
{
    dop_emit *e = &gen->e;
    dop_coop_guard_column(gen, p, load);
    for (uint32_t m = 0; m < (found ? 1 : part->n_mats); m++) {
        dop_node_id w = dop_node_at(e->g, part->mats[m])->src[1];
        const piece_source from = source_of(gen, w, found);
        const char *name = dop_type_of(dop_node_at(e->g, w)->type)->name;
        const char *which = !found && m + 1 < part->n_mats ? dop_emit_str(e, "    if (m == %uu)\n        ", m) : "    ";
        dop_buf_printf(load, "%sreturn dop_w8load_%s(%s, %s + c, %s);\n", which, name, from.matrix, from.first,
                       from.aux);
        dop_buf_printf(take, "%sreturn dop_w8_%s(r, %s + c);\n", which, name, from.first);
    }
}

static dop_type
type_of(const dop_graph *g, dop_node_id product)
{
    return dop_node_at(g, dop_node_at(g, product)->src[1])->type;
}

static bool
is_quant(const dop_graph *g, dop_node_id product)
{
    return dop_type_of(type_of(g, product))->kind == DOP_KIND_QUANT;
}

/* The macro of types/books.glsl for a type whose values are looked up in a codebook and stay integers until they are stored in
 * shared memory (schedule.coop_late_books); NULL: the type has no codebook, or the target does not want that. */
static const char *
late_macro(const dop_gen *gen, dop_type t)
{
    const book kept = gen->e.target->schedule.coop_late_books ? book_of(t) : BOOK_NONE;
    return kept == BOOK_MOVED ? "DOP_HALVES_MOVED" : kept == BOOK_BYTES ? "DOP_HALVES_BOOK" : NULL;
}

/* The two functions for the weight types of a part, except those in *done (bits), which it updates. */
static void
declare_eights(const dop_gen *gen, const dop_segment *part, uint64_t *done, dop_buf *out)
{
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_type t = dop_node_at(gen->e.g, dop_node_at(gen->e.g, part->mats[m])->src[1])->type;
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

void
dop_coop_weights(dop_gen *gen, const dop_parts *p, const dop_coop_rows *rows, bool units, dop_keys *keys, dop_buf *load,
                 dop_buf *take, dop_buf *find)
{
    const bool found = find && found_before(gen, rows);
    if (find)
        name_piece(gen, rows, (uint32_t)(rows->part - p->part), units, keys, found ? find : NULL);
    if (units) {
        load_units(gen, p, rows->part, found, keys, load, take);
        return;
    }
    DOP_NUMBERS(gen, keys, NULL, {"PIECE", 8});
    dop_keys_set(keys, "RAW", "dop_raw8");
    dop_keys_set(keys, "PIECE_ROW", "i / (DEEP / 8u)");
    dop_keys_set(keys, "PIECE_COLUMN", EIGHTS_COLUMN);
    dop_keys_set(keys, "PIECE_AT", "(ROW) * (DEEP / 8u)");
    load_eights(gen, p, rows->part, found, load, take);
}

/* The functions for units of the part's types, except those in *done (bits), which it updates. */
static void
declare_units(const dop_gen *gen, const dop_segment *part, uint64_t *done, dop_buf *out)
{
    static const char *const takes[] = {"DOP_TAKE(%s)\n", "DOP_TAKE_BOOK(%s)\n", "DOP_TAKE_MOVED(%s)\n"};
    const dop_graph *g = gen->e.g;
    const bool stored = stored_units(g, part);
    for (uint32_t m = 0; m < part->n_mats; m++) {
        const dop_type t = type_of(g, part->mats[m]);
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
                         bool (*in_units)(const dop_gen *gen, const dop_segment *part), dop_buf *decls, dop_buf *types)
{
    dop_keys none = {0};
    bool units = false, quant = false, late = false;
    uint64_t eights = 0, units_of[2] = {0}; /* bits of types that already have their functions */
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t m = 0; m < p->part[i].n_mats; m++)
            quant = quant || is_quant(gen->e.g, p->part[i].mats[m]);
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t m = 0; m < p->part[i].n_mats; m++)
            late = late || late_macro(gen, type_of(gen->e.g, p->part[i].mats[m]));
    if (quant)
        st = dop_template_fill(gen, "types/halves.glsl", &none, decls);
    if (late && st == DOP_OK)
        st = dop_template_fill(gen, "types/books.glsl", &none, decls);
    for (uint32_t i = 0; st == DOP_OK && i < p->n; i++) {
        const dop_segment *part = &p->part[i];
        if (!in_units(gen, part)) {
            declare_eights(gen, part, &eights, types);
            continue;
        }
        if (!units)
            st = dop_template_fill(gen, "matmul_coop_units.glsl", &none, decls);
        units = true;
        declare_units(gen, part, units_of, types);
    }
    return st;
}
