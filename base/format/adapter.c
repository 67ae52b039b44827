#include "base/format/adapter.h"

#include "base/foreign.h"
#include "base/format/adapter_file.h"
#include "base/os/system.h"
#include "base/words.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PARTS = 1 << 21 };

static int
compare_adapter_places(const void *a, const void *b)
{
    const dop_adapter_place *x = a, *y = b;
    const int by_name = strcmp(x->tensor, y->tensor);
    if (by_name != 0)
        return by_name;
    return x->target != y->target ? (x->target < y->target ? -1 : 1) : x->first < y->first ? -1 : x->first > y->first;
}

void
dop_adapter_sort_places(dop_adapter_place *places, uint32_t n)
{
    if (n)
        qsort(places, n, sizeof *places, compare_adapter_places);
}

/* Returns the first place of a tensor name; NULL: none. */
static const dop_adapter_place *
find_first_place(const dop_adapter_map *map, const char *name)
{
    uint32_t least = 0, most = map->n_places;
    while (least < most) {
        const uint32_t half = least + (most - least) / 2;
        if (strcmp(map->places[half].tensor, name) < 0)
            least = half + 1;
        else
            most = half;
    }
    return least < map->n_places && strcmp(map->places[least].tensor, name) == 0 ? &map->places[least] : NULL;
}

/* Returns the first place of a module: the longest suffix of its name, starting after a dot, that is a tensor name. */
static const dop_adapter_place *
find_module_places(const dop_adapter_map *map, const dop_adapter_file *f, const char *module)
{
    const dop_adapter_place *p = find_first_place(map, module);
    for (const char *at = strchr(module, '.'); at && !p && !f->exact; at = strchr(at + 1, '.'))
        p = find_first_place(map, at + 1);
    return p;
}

/* ---- values --------------------------------------------------------------------------------------------------------- */

/* State of reading one adapter. */
typedef struct reader {
    const dop_adapter_map *map;
    const dop_adapter_file *f;
    dop_arena *arena;
    dop_diag *diag;
    dop_adapter *out;
    uint32_t cap;
} reader;

/* Transposes a matrix. */
static dop_status
transpose_floats(const reader *r, const float *from, uint64_t rows, uint64_t cols, const float **out)
{
    float *v = dop_arena_alloc(r->arena, (size_t)(rows * cols) * sizeof *v);
    if (!v)
        return DOP_NO_MEMORY(r->diag);
    for (uint64_t i = 0; i < rows * cols; i++)
        v[i % cols * rows + i / cols] = from[i];
    *out = v;
    return DOP_OK;
}

/* Reads one expert's matrix as floats.  turn: transposes it.  *out: [rows, cols] of the result. */
static dop_status
read_expert_matrix(const reader *r, const dop_adapter_matrix *m, uint32_t expert, bool turn, const float **out)
{
    const uint64_t n = m->rows * m->cols, from = (m->experts > 1 ? expert : 0) * n;
    float *v = n < SIZE_MAX / sizeof *v ? dop_arena_alloc(r->arena, (size_t)(n ? n : 1) * sizeof *v) : NULL;
    if (!v)
        return DOP_NO_MEMORY(r->diag);
    for (uint64_t i = 0; i < n; i++) {
        const float x = dop_adapter_value(m, from + i);
        if (!isfinite(x))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->f->path, "tensor %s holds an infinity or NaN", m->tensor);
        v[turn ? i % m->cols * m->rows + i / m->cols : i] = x;
    }
    *out = v;
    return DOP_OK;
}

/* ---- places --------------------------------------------------------------------------------------------------------- */

/* Returns the tensor's row for row r of a place. */
static uint64_t
tensor_row_of_place(const dop_adapter_place *p, uint32_t r)
{
    const uint32_t half = p->head / 2, in = p->head ? r % p->head : 0;
    if (p->order == DOP_ADAPTER_PAIRS_IN_FILE)
        r = r - in + in % half * 2 + in / half;
    else if (p->order == DOP_ADAPTER_HALVES_IN_FILE)
        r = r - in + in % 2 * half + in / 2;
    return p->start + (p->block ? (uint64_t)(r / p->block) * p->step + r % p->block : r);
}

static dop_status
refuse_adapter_shape(const reader *r, const dop_adapter_matrix *m, uint64_t rows, uint64_t cols)
{
    char any[24];
    snprintf(any, sizeof any, "%llu", (unsigned long long)cols);
    return DOP_FAIL_IN(
        r->diag, DOP_E_INPUT, r->f->path,
        "tensor %s: %llu x %llu values, this model's need %llu x %s: the adapter is of another model or rank",
        m->tensor, (unsigned long long)m->rows, (unsigned long long)m->cols, (unsigned long long)rows, any);
}

/* Copies the rows of a place from a matrix with all of the tensor's rows and `cols` columns. */
static dop_status
copy_place_rows(const reader *r, const dop_adapter_place *p, const float *all, uint64_t cols, const float **out)
{
    float *rows = dop_arena_alloc(r->arena, (size_t)(p->n * cols) * sizeof *rows);
    if (!rows)
        return DOP_NO_MEMORY(r->diag);
    for (uint32_t i = 0; i < p->n; i++)
        memcpy(rows + i * cols, all + tensor_row_of_place(p, i) * cols, (size_t)cols * sizeof *rows);
    *out = rows;
    return DOP_OK;
}

/* Matrices of a pair for one expert, with the rows and columns of the tensor. */
typedef struct values {
    const float *a, *b, *lengths, *whole; /* [rank, cols], [total, rank], [total], [total, cols] */
    uint64_t rank, total, cols;
} values;

static dop_status
check_adapter_rank(const reader *r, const dop_adapter_matrix *m, uint64_t rank)
{
    if (rank >= 1 && rank <= DOP_ADAPTER_MAX_RANK)
        return DOP_OK;
    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->f->path, "tensor %s: a rank of %llu, 1 to %d are supported", m->tensor,
                       (unsigned long long)rank, DOP_ADAPTER_MAX_RANK);
}

/* Checks a pair against its target and reads its matrices. */
static dop_status
read_adapter_pair(const reader *r, const dop_adapter_pair *p, const dop_adapter_place *place, uint32_t expert,
                  values *out)
{
    const dop_adapter_target *t = &r->map->targets[place->target];
    const uint64_t total = place->total, cols = place->turned ? t->rows : t->cols;
    dop_status st = DOP_OK;
    *out = (values){.total = total, .cols = cols};
    if (p->a.tensor && t->embedding) { /* embedding: rows are tokens; a and b swap roles, a may be transposed */
        out->rank = p->b.cols;
        st = check_adapter_rank(r, &p->b, out->rank);
        if (st == DOP_OK && p->b.rows != t->cols)
            st = refuse_adapter_shape(r, &p->b, t->cols, out->rank);
        if (st == DOP_OK && p->turned ? p->a.rows != out->rank || p->a.cols != total
                                      : p->a.rows != total || p->a.cols != out->rank)
            st = refuse_adapter_shape(r, &p->a, p->turned ? out->rank : total, p->turned ? total : out->rank);
        if (st == DOP_OK)
            st = read_expert_matrix(r, &p->b, expert, true, &out->a);
        if (st == DOP_OK)
            st = read_expert_matrix(r, &p->a, expert, p->turned, &out->b);
    } else if (p->a.tensor) {
        out->rank = p->a.rows;
        st = check_adapter_rank(r, &p->a, out->rank);
        if (st == DOP_OK && p->a.cols != cols)
            st = refuse_adapter_shape(r, &p->a, out->rank, cols);
        if (st == DOP_OK && (p->b.rows != total || p->b.cols != out->rank))
            st = refuse_adapter_shape(r, &p->b, total, out->rank);
        if (st == DOP_OK)
            st = read_expert_matrix(r, &p->a, expert, false, &out->a);
        if (st == DOP_OK)
            st = read_expert_matrix(r, &p->b, expert, false, &out->b);
    }
    if (st == DOP_OK && p->lengths.tensor && p->lengths.rows * p->lengths.cols != total)
        st = refuse_adapter_shape(r, &p->lengths, 1, total);
    if (st == DOP_OK && p->lengths.tensor)
        st = read_expert_matrix(r, &p->lengths, 0, false, &out->lengths);
    if (st == DOP_OK && p->whole.tensor && (p->whole.rows != total || p->whole.cols != cols))
        st = refuse_adapter_shape(r, &p->whole, total, cols);
    if (st == DOP_OK && p->whole.tensor)
        st = read_expert_matrix(r, &p->whole, 0, false, &out->whole);
    return st;
}

/* Converts a change of a matrix's rows to a change of the transposed matrix. */
static dop_status
transpose_part(const reader *r, const dop_adapter_place *place, const values *v, dop_adapter_part *part)
{
    const uint32_t n = part->n;
    part->n = r->map->targets[place->target].rows;
    if (part->lengths)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->f->path, "%s: DoRA is not supported for this matrix", part->tensor);
    if (v->a)
        DOP_RETURN_IF_ERROR(transpose_floats(r, part->b, n, v->rank, &part->a));
    if (v->a)
        DOP_RETURN_IF_ERROR(transpose_floats(r, v->a, v->rank, v->cols, &part->b));
    if (v->whole)
        DOP_RETURN_IF_ERROR(transpose_floats(r, part->whole, n, v->cols, &part->whole));
    return DOP_OK;
}

static dop_status
add_adapter_part(reader *r, const dop_adapter_pair *p, const dop_adapter_place *place, uint32_t expert, const values *v)
{
    dop_adapter_part part = {.target = place->target,
                             .expert = expert,
                             .first = place->first,
                             .n = place->n,
                             .rank = (uint32_t)v->rank,
                             .scale = p->scale,
                             .a = v->a,
                             .tensor = p->module};
    dop_status st = v->b ? copy_place_rows(r, place, v->b, v->rank, &part.b) : DOP_OK;
    if (st == DOP_OK && v->lengths)
        st = copy_place_rows(r, place, v->lengths, 1, &part.lengths);
    if (st == DOP_OK && v->whole)
        st = copy_place_rows(r, place, v->whole, v->cols, &part.whole);
    if (st == DOP_OK && place->turned)
        st = transpose_part(r, place, v, &part);
    if (st != DOP_OK)
        return st;
    if (r->out->n_parts == MAX_PARTS ||
        !dop_arena_grow(r->arena, (void **)&r->out->parts, r->out->n_parts, &r->cap, sizeof part))
        return DOP_NO_MEMORY(r->diag);
    r->out->parts[r->out->n_parts++] = part;
    r->out->rank = part.rank > r->out->rank ? part.rank : r->out->rank;
    return DOP_OK;
}

static dop_status
check_adapter_pair(const reader *r, const dop_adapter_pair *p, const dop_adapter_target *t)
{
    const char *path = r->f->path;
    if (!p->a.tensor != !p->b.tensor)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "%s has one matrix of the two that an adapter needs (%s)",
                           p->module, p->a.tensor ? p->a.tensor : p->b.tensor);
    if (p->lengths.tensor && !p->a.tensor)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "%s has a magnitude vector and no matrices", p->module);
    if (p->whole.tensor && p->a.tensor)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "%s has a matrix of its own and a change of it", p->module);
    if (t->embedding && p->a.tensor && !p->embedding)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "%s: matrices of an embedding are expected (lora_embedding_A)",
                           p->module);
    if (p->embedding && !t->embedding)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "%s is no embedding of this model", p->module);
    if (t->embedding && p->a.tensor && r->map->tied)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path,
                           "%s: the embedding is also this model's output matrix, which the adapter does not change",
                           p->module);
    return DOP_OK;
}

static dop_status
read_adapter_module(reader *r, const dop_adapter_pair *p)
{
    const dop_adapter_map *map = r->map;
    const dop_adapter_place *place = find_module_places(map, r->f, p->module);
    const char *part = strstr(p->module, "vision");
    if (!part)
        part = strstr(p->module, "visual");
    if (part || !place)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->f->path, "%.120s: %s", p->module,
                           part ? "adapters of a vision part are not supported"
                                : "this model has no matrix of that name that an adapter may change");
    values v = {0};
    const dop_adapter_place *of = NULL; /* place that the values were read for */
    for (const dop_adapter_place *at = place;
         at < map->places + map->n_places && strcmp(at->tensor, place->tensor) == 0; at++) {
        if (at->target == DOP_ADAPTER_NOWHERE)
            continue;
        const dop_adapter_target *t = &map->targets[at->target];
        const bool all = at->expert == UINT32_MAX;
        dop_status st = check_adapter_pair(r, p, t);
        if (st == DOP_OK && p->a.tensor && (p->a.experts != (all ? t->experts : 1) || p->b.experts != p->a.experts))
            st = DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->f->path, "tensor %s: matrices of %llu experts, %u are expected",
                             p->a.tensor, (unsigned long long)p->a.experts, all ? t->experts : 1);
        for (uint32_t e = 0; e < (all ? t->experts : 1) && st == DOP_OK; e++) {
            if (!of || of->target != at->target || all) /* the heads of latent attention share one tensor */
                st = read_adapter_pair(r, p, at, e, &v);
            of = at;
            if (st == DOP_OK)
                st = add_adapter_part(r, p, at, all ? e : at->expert, &v);
        }
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

/* ---- files ---------------------------------------------------------------------------------------------------------- */

static dop_status
open_adapter_directory(const char *dir, bool draws, dop_arena *arena, dop_diag *diag, dop_adapter_file *f)
{
    const char *weights = dop_arena_printf(arena, "%s/adapter_model.safetensors", dir),
               *config = dop_arena_printf(arena, "%s/adapter_config.json", dir),
               *pickle = dop_arena_printf(arena, "%s/adapter_model.bin", dir),
               *drawing = dop_arena_printf(arena, "%s/pytorch_lora_weights.safetensors", dir);
    if (!weights || !config || !pickle || !drawing)
        return DOP_NO_MEMORY(diag);
    if (draws && access(config, F_OK) != 0 && access(drawing, F_OK) == 0)
        return dop_adapter_read_diffusers(drawing, arena, diag, f);
    if (access(config, F_OK) != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, dir, "not an adapter: adapter_config.json is missing");
    if (access(weights, F_OK) != 0 && access(pickle, F_OK) == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, dir,
                           "this adapter's matrices are a pickle (adapter_model.bin): save it as safetensors");
    return dop_adapter_read_peft(weights, config, arena, diag, f);
}

static dop_status
open_adapter_file(const char *path, bool draws, dop_arena *arena, dop_diag *diag, dop_adapter_file *f)
{
    dop_map map;
    dop_status st = dop_map_open(path, diag, &map);
    const dop_file_kind kind = dop_file_kind_of(map.data, map.size);
    dop_map_close(&map);
    if (st != DOP_OK)
        return st;
    if (kind == DOP_FILE_GGUF)
        return dop_adapter_read_gguf(path, arena, diag, f);
    if (kind != DOP_FILE_SAFETENSORS)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "not an adapter: a PEFT directory, its .safetensors file or a GGUF adapter is expected");
    const char *slash = dop_path_slash(path);
    const char *config = dop_arena_printf(arena, "%.*sadapter_config.json", slash ? (int)(slash + 1 - path) : 0, path);
    if (!config)
        return DOP_NO_MEMORY(diag);
    if (draws && access(config, F_OK) != 0)
        return dop_adapter_read_diffusers(path, arena, diag, f);
    if (access(config, F_OK) != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "adapter_config.json is missing beside this file");
    return dop_adapter_read_peft(path, config, arena, diag, f);
}

dop_status
dop_adapter_read(const char *path, const dop_adapter_map *map, dop_arena *arena, dop_diag *diag, dop_adapter *out)
{
    struct stat sb;
    dop_adapter_file f = {0};
    *out = (dop_adapter){0};
    if (stat(path, &sb) != 0)
        return dop_refuse_absent(path, errno, diag);
    dop_status st = DOP_OK;
    DOP_TRY(S_ISDIR(sb.st_mode) ? open_adapter_directory(path, map->draws, arena, diag, &f)
                                : open_adapter_file(path, map->draws, arena, diag, &f));
    if (f.arch && *map->archs && !dop_has_word(map->archs, f.arch))
        DOP_TRY(DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                            "this adapter is of a model of architecture %s, and this one is %s", f.arch, map->archs));
    if (f.n_pairs == 0)
        DOP_TRY(DOP_FAIL_IN(diag, DOP_E_INPUT, path, "this adapter has no matrices"));
    reader r = {map, &f, arena, diag, out, 0};
    for (uint32_t i = 0; i < f.n_pairs; i++)
        DOP_TRY(read_adapter_module(&r, &f.pairs[i]));
error:
    dop_map_close(&f.map);
    return st;
}

dop_status
dop_adapter_argument(const char *text, dop_arena *arena, dop_diag *diag, const char **out_path, double *out_scale)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    *out_scale = 1;
    if (colon && colon > text && colon[1] && !dop_is_slash(colon[1]) &&
        access(text, F_OK) != 0) { /* not a drive letter: C:/FILE */
        const double v = strtod(colon + 1, &end);
        if (*end || !isfinite(v) || fabs(v) > 1e6)
            return DOP_FAIL(diag, DOP_E_USAGE, "%s: expected FILE or FILE:SCALE with a number", text);
        *out_scale = v;
    } else {
        colon = NULL;
    }
    *out_path = dop_arena_printf(arena, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
    return *out_path ? DOP_OK : DOP_NO_MEMORY(diag);
}
