#include "base/format/safetensors.h"

#include "base/json/json_util.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* MAX_HEADER is the limit of the reference implementation. */
enum { MAX_HEADER = 100000000, MAX_TENSORS = 1000000, MAX_NAME = 512, MAX_SHARDS = 4096 };

/* All element types of the format, with their sizes in bits. */
static const struct {
    const char *name;
    uint32_t bits;
} dtypes[] = {
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"I16", 16}, {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},
    {"U32", 32},    {"F32", 32},    {"F64", 64}, {"I64", 64},    {"U64", 64},    {"C64", 64},
};

static int
compare_st_names(const void *a, const void *b)
{
    return strcmp(((const dop_st_tensor *)a)->name, ((const dop_st_tensor *)b)->name);
}

/* Orders tensors by address, so that checking neighbors suffices to find overlaps. */
static int
compare_st_addresses(const void *a, const void *b)
{
    const dop_st_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static dop_status
read_st_dtype(dop_json *j, const char *name, dop_st_tensor *t, uint32_t *out_bits)
{
    const json_t *v = dop_json_get(j, "dtype");
    if (!json_is_string(v))
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "tensor %s: dtype is %s, expected a string", name,
                           dop_json_kind(v));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(json_string_value(v), dtypes[i].name) == 0) {
            t->dtype = dtypes[i].name;
            *out_bits = dtypes[i].bits;
            return DOP_OK;
        }
    return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "tensor %s: unknown dtype \"%.32s\"", name, json_string_value(v));
}

/* Reads a tensor's shape and computes its bytes with `bits` bits per value. */
static dop_status
read_st_shape(dop_json *j, const char *name, uint32_t bits, dop_st_tensor *t, uint64_t *out_bytes)
{
    const json_t *v = dop_json_get(j, "shape");
    if (!json_is_array(v))
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "tensor %s: shape is %s, expected a list", name,
                           dop_json_kind(v));
    size_t rank = json_array_size(v);
    if (rank > DOP_ST_MAX_RANK)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "tensor %s: shape has %zu axes, at most %d are supported",
                           name, rank, DOP_ST_MAX_RANK);
    t->rank = (uint32_t)rank;
    uint64_t total = bits;
    for (size_t i = 0; i < rank; i++) {
        const json_t *d = json_array_get(v, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "tensor %s: shape[%zu] is not an integer of 0 or more",
                               name, i);
        t->shape[i] = (uint64_t)json_integer_value(d);
        if (!dop_mul_u64(total, t->shape[i], &total))
            return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "tensor %s: shape is too large", name);
    }
    if (total % 8 != 0)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "tensor %s: shape does not fill whole bytes", name);
    *out_bytes = total / 8;
    return DOP_OK;
}

static dop_status
read_st_range(dop_json *j, const char *name, uint64_t limit, uint64_t *out_begin, uint64_t *out_end)
{
    const json_t *v = dop_json_get(j, "data_offsets");
    const json_t *b = json_is_array(v) && json_array_size(v) == 2 ? json_array_get(v, 0) : NULL;
    const json_t *e = b ? json_array_get(v, 1) : NULL;
    if (!json_is_integer(b) || !json_is_integer(e) || json_integer_value(b) < 0 || json_integer_value(e) < 0)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path,
                           "tensor %s: data_offsets is not a list of two integers of 0 or more", name);
    *out_begin = (uint64_t)json_integer_value(b);
    *out_end = (uint64_t)json_integer_value(e);
    if (*out_begin > *out_end)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "tensor %s: data_offsets end before they begin", name);
    if (*out_end > limit)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path,
                           "tensor %s: ends at byte %llu of the data, but the file has %llu (truncated download?)",
                           name, (unsigned long long)*out_end, (unsigned long long)limit);
    return DOP_OK;
}

static dop_status
read_st_tensor(const char *path, const char *name, const json_t *entry, const uint8_t *base, uint64_t limit,
               dop_diag *diag, dop_st_tensor *t)
{
    dop_json j = {.object = entry, .path = path, .diag = diag};
    uint32_t bits = 0;
    uint64_t bytes = 0, begin = 0, end = 0;
    if (!json_is_object(entry))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "tensor %s: the header entry is %s, expected an object", name,
                           dop_json_kind(entry));
    dop_status st = read_st_dtype(&j, name, t, &bits);
    if (st == DOP_OK)
        st = read_st_shape(&j, name, bits, t, &bytes);
    if (st == DOP_OK)
        st = read_st_range(&j, name, limit, &begin, &end);
    if (st != DOP_OK)
        return st;
    if (end - begin != bytes) {
        char shape[128];
        dop_st_shape_text(t, shape, sizeof shape);
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "tensor %s: %s %s takes %llu bytes, but data_offsets span %llu",
                           name, t->dtype, shape, (unsigned long long)bytes, (unsigned long long)(end - begin));
    }
    t->data = base + begin;
    t->bytes = bytes;
    return DOP_OK;
}

/* Sorts tensors by address and fails if any overlap. */
static dop_status
check_overlap(const char *path, dop_st_tensor *t, uint32_t n, dop_diag *diag)
{
    const dop_st_tensor *last = NULL;
    qsort(t, n, sizeof *t, compare_st_addresses);
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].bytes == 0)
            continue;
        if (last && t[i].data < last->data + last->bytes)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "tensors %s and %s overlap", last->name, t[i].name);
        last = &t[i];
    }
    return DOP_OK;
}

/* Finds and checks the header size. */
static dop_status
find_st_header(const char *path, const dop_map *map, dop_diag *diag, uint64_t *out_size)
{
    if (map->size < 8)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "not a safetensors file: it has %llu bytes, the header length "
                           "alone takes 8",
                           (unsigned long long)map->size);
    uint64_t n = 0;
    for (unsigned i = 0; i < 8; i++)
        n |= (uint64_t)map->data[i] << (8 * i);
    if (n > MAX_HEADER)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "not a safetensors file: header length %llu, at most %d is allowed",
                           (unsigned long long)n, MAX_HEADER);
    if (n > map->size - 8)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "truncated: the header takes %llu bytes, only %llu follow (truncated download?)",
                           (unsigned long long)n, (unsigned long long)(map->size - 8));
    if (n < 2 || map->data[8] != '{')
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "not a safetensors file: the header is not a JSON object");
    *out_size = n;
    return DOP_OK;
}

/* Parses the header; *out_bytes is its size.  The caller releases *out_root. */
static dop_status
read_st_header(const char *path, const dop_map *map, dop_diag *diag, uint64_t *out_bytes, json_t **out_root)
{
    DOP_RETURN_IF_ERROR(find_st_header(path, map, diag, out_bytes));
    return dop_json_decode(map->data + 8, (size_t)*out_bytes, &(dop_json_how){.path = path, .flags = DOP_JSON_UNIQUE},
                           diag, out_root);
}

dop_status
dop_st_metadata(const char *path, const dop_map *map, const char *key, dop_arena *arena, dop_diag *diag,
                const char **out_text)
{
    json_t *root = NULL;
    uint64_t bytes = 0;
    *out_text = NULL;
    dop_status st = read_st_header(path, map, diag, &bytes, &root);
    const char *text = json_string_value(json_object_get(json_object_get(root, "__metadata__"), key));
    if (text && !(*out_text = dop_arena_strdup(arena, text)))
        st = DOP_NO_MEMORY(diag);
    json_decref(root);
    return st;
}

dop_status
dop_st_parse(const char *path, const dop_map *map, dop_arena *arena, dop_diag *diag, dop_st_set *out_set)
{
    json_t *root = NULL;
    uint64_t header = 0;
    *out_set = (dop_st_set){0};
    dop_status st = read_st_header(path, map, diag, &header, &root);
    if (st != DOP_OK)
        return st;
    size_t cap = json_object_size(root);
    const char *file = dop_arena_strdup(arena, path), *name = NULL;
    dop_st_tensor *list = NULL;
    uint32_t n = 0;
    json_t *entry = NULL;
    if (cap > MAX_TENSORS) {
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%zu tensors, at most %d are supported", cap, MAX_TENSORS);
        goto error;
    }
    list = dop_arena_alloc(arena, (cap ? cap : 1) * sizeof *list);
    if (!list || !file) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    json_object_foreach(root, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (strlen(name) > MAX_NAME) {
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "a tensor name has %zu bytes, at most %d are supported",
                             strlen(name), MAX_NAME);
            goto error;
        }
        dop_st_tensor *t = &list[n++];
        t->file = file;
        t->name = dop_arena_strdup(arena, name);
        st = t->name ? read_st_tensor(path, name, entry, map->data + 8 + header, map->size - 8 - header, diag, t)
                     : DOP_NO_MEMORY(diag);
        if (st != DOP_OK)
            goto error;
    }
    st = check_overlap(path, list, n, diag);
    if (st != DOP_OK)
        goto error;
    qsort(list, n, sizeof *list, compare_st_names);
    *out_set = (dop_st_set){list, n, NULL, file};
error:
    json_decref(root);
    return st;
}

const dop_st_tensor *
dop_st_find(const dop_st_set *set, const char *name)
{
    dop_st_tensor key = {.name = name};
    return set->n ? bsearch(&key, set->tensors, set->n, sizeof key, compare_st_names) : NULL;
}

const dop_st_tensor *
dop_st_take(const dop_st_set *set, const char *name)
{
    const dop_st_tensor *t = dop_st_find(set, name);
    if (t)
        set->taken[t - set->tensors] = true;
    return t;
}

void
dop_st_shape_text(const dop_st_tensor *t, char *out, size_t size)
{
    size_t at = 0;
    int n = snprintf(out, size, "[");
    for (uint32_t i = 0; n > 0 && i < t->rank; i++) {
        at += (size_t)n;
        if (at >= size)
            return;
        n = snprintf(out + at, size - at, "%s%llu", i ? ", " : "", (unsigned long long)t->shape[i]);
    }
    at += n > 0 ? (size_t)n : 0;
    if (at < size)
        snprintf(out + at, size - at, "]");
}

/* ---- directories -------------------------------------------------------------------------------------------------- */

typedef struct shard {
    const char *file; /* file name as in the index */
    dop_st_set set;
} shard;

typedef struct opener {
    const char *dir;
    dop_arena *arena;
    dop_diag *diag;
    dop_map *maps;
    uint32_t n_maps;
    shard *shards;
    uint32_t n_shards;
} opener;

static dop_status
open_st_file(opener *o, const char *file, dop_st_set *out_set)
{
    char *path = dop_arena_printf(o->arena, "%s/%s", o->dir, file);
    dop_map *maps = realloc(o->maps, (o->n_maps + 1) * sizeof *maps);
    if (maps)
        o->maps = maps;
    if (!path || !maps)
        return DOP_NO_MEMORY(o->diag);
    dop_status st = dop_map_open(path, o->diag, &maps[o->n_maps]);
    if (st != DOP_OK)
        return st;
    return dop_st_parse(path, &maps[o->n_maps++], o->arena, o->diag, out_set);
}

/* Opens a shard named by the index, unless it is open.  Rejects names with a slash, which could leave the model's directory. */
static dop_status
open_st_shard(opener *o, const char *index_path, const char *tensor, const json_t *file, const shard **out)
{
    const char *name = json_string_value(file);
    if (!name)
        return DOP_FAIL_IN(o->diag, DOP_E_INPUT, index_path, "weight_map: the file of %s is %s, expected a string",
                           tensor, dop_json_kind(file));
    for (uint32_t i = 0; i < o->n_shards; i++)
        if (strcmp(o->shards[i].file, name) == 0) {
            *out = &o->shards[i];
            return DOP_OK;
        }
    if (strchr(name, '/') || strcmp(name, ".") == 0 || !dop_path_is_inside(name))
        return DOP_FAIL_IN(o->diag, DOP_E_INPUT, index_path, "weight_map: \"%.100s\" is not a plain file name", name);
    if (o->n_shards == MAX_SHARDS)
        return DOP_FAIL_IN(o->diag, DOP_E_INPUT, index_path, "weight_map: more than %d files", MAX_SHARDS);
    shard *list = realloc(o->shards, (o->n_shards + 1) * sizeof *list);
    if (!list)
        return DOP_NO_MEMORY(o->diag);
    o->shards = list;
    list[o->n_shards] = (shard){.file = name};
    dop_status st = open_st_file(o, name, &list[o->n_shards].set);
    *out = &list[o->n_shards++];
    return st;
}

static dop_status
open_st_index(opener *o, const char *index_path, dop_st_set *out_set)
{
    json_t *root = NULL, *file = NULL;
    dop_json top, map;
    const char *name = NULL;
    dop_status st = dop_json_decode_file(&(dop_json_how){.path = index_path, .flags = DOP_JSON_UNIQUE}, o->diag, &root);
    if (st == DOP_OK)
        st = dop_json_root(root, index_path, o->diag, &top);
    if (st == DOP_OK)
        st = dop_json_sub(&top, "weight_map", &map);
    if (st == DOP_OK && !map.object)
        st = dop_json_missing(&top, "weight_map");
    if (st != DOP_OK)
        goto error;
    size_t cap = json_object_size(map.object);
    if (cap > MAX_TENSORS) {
        st = DOP_FAIL_IN(o->diag, DOP_E_INPUT, index_path, "weight_map: %zu tensors do not fit", cap);
        goto error;
    }
    dop_st_tensor *list = dop_arena_alloc(o->arena, (cap ? cap : 1) * sizeof *list);
    if (!list) {
        st = DOP_NO_MEMORY(o->diag);
        goto error;
    }
    uint32_t n = 0;
    /* Jansson keeps the file's order; shards are opened in index order, so messages are deterministic. */
    json_object_foreach((json_t *)(uintptr_t)map.object, name, file)
    {
        const shard *s = NULL;
        st = open_st_shard(o, index_path, name, file, &s);
        if (st != DOP_OK)
            goto error;
        const dop_st_tensor *t = dop_st_find(&s->set, name);
        if (!t) {
            st = DOP_FAIL_IN(o->diag, DOP_E_INPUT, index_path, "weight_map: tensor %.200s is not in %s", name, s->file);
            goto error;
        }
        list[n++] = *t;
    }
    qsort(list, n, sizeof *list, compare_st_names);
    *out_set = (dop_st_set){list, n, NULL, index_path};
error:
    json_decref(root);
    return st;
}

/* True for files that may be model weights or a shard.  Excludes adapters and consolidated weights, which are often in the directory,
 * too. */
static int
is_weights(const struct dirent *entry)
{
    const char *name = entry->d_name, *end = strrchr(name, '.');
    return name[0] != '.' && end && strcmp(end, ".safetensors") == 0 && strncmp(name, "adapter_", 8) != 0 &&
           strncmp(name, "consolidated", 12) != 0;
}

/* True if the sorted files are one model: all shards NAME-00001-of-0000N.safetensors, or a single other file. */
static bool
are_whole_model(struct dirent *const *files, uint32_t n)
{
    static const char form[] = "-00001-of-00001.safetensors";
    const char *first = files[0]->d_name;
    const size_t length = strlen(first), stem = length < sizeof form ? 0 : length - (sizeof form - 1);
    char want[sizeof files[0]->d_name + sizeof form];
    unsigned number, count;
    bool all = n <= MAX_SHARDS;
    if (sscanf(first + stem, "-%5u-of-%5u.", &number, &count) != 2)
        return n == 1;
    for (uint32_t i = 0; i < n && all; i++) {
        snprintf(want, sizeof want, "%.*s-%05u-of-%05u.safetensors", (int)stem, first, i + 1, n);
        all = strcmp(files[i]->d_name, want) == 0;
    }
    return all;
}

/* Merges the tensors of all shards.  Fails if a tensor is in two shards. */
static dop_status
join_shards(opener *o, struct dirent *const *files, uint32_t n, dop_st_set *out_set)
{
    uint64_t all = 0, at = 0;
    dop_status st = DOP_OK;
    dop_st_set *sets = calloc(n, sizeof *sets);
    dop_st_tensor *list = NULL;
    if (!sets)
        return DOP_NO_MEMORY(o->diag);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        st = open_st_file(o, files[i]->d_name, &sets[i]);
        all += sets[i].n;
    }
    if (st == DOP_OK && all > MAX_TENSORS)
        st = DOP_FAIL_IN(o->diag, DOP_E_INPUT, o->dir, "%llu tensors do not fit", (unsigned long long)all);
    if (st == DOP_OK && !(list = dop_arena_alloc(o->arena, (all + 1) * sizeof *list)))
        st = DOP_NO_MEMORY(o->diag);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        memcpy(list + at, sets[i].tensors, sets[i].n * sizeof *list);
        at += sets[i].n;
    }
    free(sets);
    if (st != DOP_OK)
        return st;
    qsort(list, all, sizeof *list, compare_st_names);
    for (uint64_t i = 1; i < all; i++)
        if (strcmp(list[i - 1].name, list[i].name) == 0)
            return DOP_FAIL_IN(o->diag, DOP_E_INPUT, list[i].file, "tensor %.200s is in another file here, too",
                               list[i].name);
    *out_set = (dop_st_set){list, (uint32_t)all, NULL, o->dir};
    return DOP_OK;
}

/* Opens weights without an index: one file of any name, as some quantizers write, or all shards of a model. */
static dop_status
open_unindexed_weights(opener *o, const char *stem, dop_st_set *out_set)
{
    struct dirent **files = NULL;
    const int found = scandir(o->dir, &files, is_weights, alphasort);
    const uint32_t n = found > 0 ? (uint32_t)found : 0;
    const char *why =
        n ? "the weights that are here are not those of one model: a part is missing, or there are several"
          : "other weight formats must be converted to safetensors first";
    dop_status st = n == 0 || !are_whole_model(files, n)
                        ? DOP_FAIL_IN(o->diag, DOP_E_INPUT, o->dir,
                                      "no %s.safetensors and no %s.safetensors.index.json here (%s)", stem, stem, why)
                    : n == 1 ? open_st_file(o, files[0]->d_name, out_set)
                             : join_shards(o, files, n, out_set);
    for (uint32_t i = 0; i < n; i++)
        free(files[i]);
    free(files);
    return st;
}

dop_status
dop_st_open_stem(const char *dir, const char *stem, dop_arena *arena, dop_diag *diag, dop_st_set *out_set,
                 dop_map **out_maps, uint32_t *out_n_maps)
{
    opener o = {.dir = dir, .arena = arena, .diag = diag};
    dop_status st;
    char *name = dop_arena_printf(arena, "%s.safetensors", stem);
    char *single = dop_arena_printf(arena, "%s/%s.safetensors", dir, stem);
    char *index = dop_arena_printf(arena, "%s/%s.safetensors.index.json", dir, stem);
    *out_set = (dop_st_set){0};
    if (!name || !single || !index)
        st = DOP_NO_MEMORY(diag);
    else if (access(single, F_OK) == 0)
        st = open_st_file(&o, name, out_set);
    else if (access(index, F_OK) == 0)
        st = open_st_index(&o, index, out_set);
    else
        st = open_unindexed_weights(&o, stem, out_set);
    if (st == DOP_OK && !(out_set->taken = dop_arena_alloc(arena, (out_set->n ? out_set->n : 1) * sizeof(bool))))
        st = DOP_NO_MEMORY(diag);
    free(o.shards);
    *out_maps = o.maps;
    *out_n_maps = o.n_maps;
    return st;
}

dop_status
dop_st_open_dir(const char *dir, dop_arena *arena, dop_diag *diag, dop_st_set *out_set, dop_map **out_maps,
                uint32_t *out_n_maps)
{
    return dop_st_open_stem(dir, "model", arena, diag, out_set, out_maps, out_n_maps);
}

dop_status
dop_st_check_shape(const dop_st_tensor *t, uint32_t rank, const uint64_t *dims, dop_diag *diag)
{
    if (t->rank == rank && memcmp(t->shape, dims, rank * sizeof *dims) == 0)
        return DOP_OK;
    dop_st_tensor wanted = {.rank = rank};
    char got[192], want[192];
    memcpy(wanted.shape, dims, rank * sizeof *dims);
    dop_st_shape_text(t, got, sizeof got);
    dop_st_shape_text(&wanted, want, sizeof want);
    return DOP_FAIL_IN(diag, DOP_E_INPUT, t->file, "tensor %s: shape %s, expected %s by config.json", t->name, got,
                       want);
}

const dop_st_tensor *
dop_st_take_part(const dop_st_set *set, const char *prefix, const char *part)
{
    char name[300];
    snprintf(name, sizeof name, "%s%s", prefix, part);
    return dop_st_take(set, name);
}

bool
dop_st_is(const dop_st_tensor *t, const char *dtype)
{
    return t && strcmp(t->dtype, dtype) == 0;
}

dop_status
dop_st_refuse(const dop_st_tensor *t, const char *why, dop_diag *diag)
{
    char shape[160];
    dop_st_shape_text(t, shape, sizeof shape);
    return DOP_FAIL_IN(diag, DOP_E_INPUT, t->file, "tensor %s: %s %s %s", t->name, t->dtype, shape, why);
}
