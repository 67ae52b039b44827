/* Container part of manifest.json: shards and tensors. */
#include "frontend/rdrr/manifest.h"
#include "base/words.h"
#include "frontend/rdrr/rdrr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHARDS = 65536, MAX_TENSORS = 1000000, MAX_SPANS = 65536 };
static const uint64_t max_bytes = 1ull << 50;

/* Element types by their names in manifests. */
static const struct {
    const char *name;
    dop_type type;
    uint32_t bits; /* bits per value if `type` is none */
} dtypes[] = {
    {"F32", DOP_TYPE_f32, 0},     {"F16", DOP_TYPE_f16, 0},   {"BF16", DOP_TYPE_bf16, 0}, {"Q4_K_M", DOP_TYPE_q4_k, 0},
    {"Q4_K", DOP_TYPE_q4_k, 0},   {"Q6_K", DOP_TYPE_q6_k, 0}, {"Q8_0", DOP_TYPE_q8_0, 0}, {"Q4_0", DOP_TYPE_q4_0, 0},
    {"MXFP4", DOP_TYPE_mxfp4, 0}, {"I32", DOP_TYPE_i32, 0},   {"U32", DOP_TYPE_u32, 0},   {"U8", DOP_TYPE_none, 8},
    {"I8", DOP_TYPE_none, 8},     {"I64", DOP_TYPE_none, 64}, {"BOOL", DOP_TYPE_none, 8},
};

dop_status
dop_rdrr_known(const dop_json *j, const char *words)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)j->object, key, v)
    {
        const bool empty = json_is_null(v) || json_is_false(v) || (json_is_number(v) && json_number_value(v) == 0.0) ||
                           (json_is_object(v) && json_object_size(v) == 0) ||
                           (json_is_array(v) && json_array_size(v) == 0);
        bool fact = false;
        for (int i = 0; i < DOP_N_FACTS && !fact; i++)
            fact = dop_facts_rdrr[i].key && strcmp(dop_facts_rdrr[i].key, key) == 0;
        if (!empty && !fact && !dop_has_word(words, key))
            return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%.60s is not supported", j->where, key);
    }
    return DOP_OK;
}

/* ---- shards ------------------------------------------------------------------------------------------------------- */

static dop_status
read_algorithm(const dop_json *j, const dop_json *top, dop_rdrr_hash *out)
{
    const char *name = NULL;
    DOP_RETURN_IF_ERROR(dop_json_str_or(top, "hashAlgorithm", "sha256", &name));
    DOP_RETURN_IF_ERROR(dop_json_str_or(j, "hashAlgorithm", name, &name));
    *out = strcmp(name, "blake3") == 0 ? DOP_RDRR_BLAKE3 : DOP_RDRR_SHA256;
    if (*out == DOP_RDRR_SHA256 && strcmp(name, "sha256") != 0)
        return DOP_FAIL_IN(top->diag, DOP_E_INPUT, top->path,
                           "hashAlgorithm \"%.40s\" is not supported; known: sha256, blake3", name);
    return DOP_OK;
}

static dop_status
read_shard(dop_rdrr *r, uint32_t i, const json_t *entry, uint64_t *at)
{
    dop_json j = {.object = entry, .path = r->path, .diag = r->diag};
    dop_rdrr_shard *s = &r->shards[i];
    uint64_t index = 0, offset = 0;
    const char *legacy = NULL;
    snprintf(j.where, sizeof j.where, "shards[%u].", i);
    if (!json_is_object(entry))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "shards[%u] is %s, expected an object", i,
                           dop_json_kind(entry));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "fileName", NULL, &s->file));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "filename", s->file, &s->file));
    if (!s->file)
        return dop_json_missing(&j, "filename");
    if (!*s->file || strchr(s->file, '/') || s->file[0] == '.' || !dop_path_is_inside(s->file))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "shards[%u].filename \"%.100s\" is not a plain file name", i,
                           s->file);
    DOP_RETURN_IF_ERROR(dop_json_u64(&j, "size", 1, max_bytes, &s->size));
    if (dop_json_has(&j, "index"))
        DOP_RETURN_IF_ERROR(dop_json_u64(&j, "index", i, i, &index));
    if (dop_json_has(&j, "offset"))
        DOP_RETURN_IF_ERROR(dop_json_u64(&j, "offset", *at, *at, &offset));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "blake3", NULL, &legacy));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "hash", legacy, &s->hash));
    DOP_RETURN_IF_ERROR(read_algorithm(&j, &r->top, &s->algorithm));
    if (!s->hash || strlen(s->hash) != 64 || strspn(s->hash, "0123456789abcdef") != 64)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "shards[%u].hash is not 64 hexadecimal digits", i);
    *at += s->size;
    return DOP_OK;
}

static dop_status
read_shards(dop_rdrr *r)
{
    const json_t *list = dop_json_get(&r->top, "shards");
    uint64_t at = 0, total = 0;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > MAX_SHARDS)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "shards is not a list of 1 to %d shards", MAX_SHARDS);
    r->n_shards = (uint32_t)json_array_size(list);
    r->shards = dop_arena_alloc(r->arena, r->n_shards * sizeof *r->shards);
    if (!r->shards)
        return DOP_NO_MEMORY(r->diag);
    for (uint32_t i = 0; i < r->n_shards; i++)
        DOP_RETURN_IF_ERROR(read_shard(r, i, json_array_get(list, i), &at));
    return dop_json_has(&r->top, "totalSize") ? dop_json_u64(&r->top, "totalSize", at, at, &total) : DOP_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

static dop_status
add_span(dop_rdrr *r, dop_rdrr_tensor *t, const dop_json *j, const char *shard_key, uint64_t size)
{
    uint64_t shard = 0, end = 0;
    dop_rdrr_span *s = &t->spans[t->n_spans++];
    DOP_RETURN_IF_ERROR(dop_json_u64(j, shard_key, 0, r->n_shards - 1, &shard));
    DOP_RETURN_IF_ERROR(dop_json_u64(j, "offset", 0, max_bytes, &s->offset));
    s->shard = (uint32_t)shard;
    s->size = size;
    if (!dop_add_u64(s->offset, size, &end) || end > r->shards[shard].size)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s ends at byte %llu of shard %u, which has %llu",
                           t->name, (unsigned long long)end, s->shard, (unsigned long long)r->shards[shard].size);
    return DOP_OK;
}

static dop_status
read_spans(dop_rdrr *r, dop_rdrr_tensor *t, const dop_json *j)
{
    const json_t *list = dop_json_get(j, "spans");
    const size_t n = list ? json_array_size(list) : 1;
    uint64_t sum = 0;
    if (list && (!json_is_array(list) || n == 0 || n > MAX_SPANS))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%sspans is not a list of 1 to %d spans", j->where,
                           MAX_SPANS);
    t->spans = dop_arena_alloc(r->arena, n * sizeof *t->spans);
    if (!t->spans)
        return DOP_NO_MEMORY(r->diag);
    if (!list)
        return add_span(r, t, j, "shard", t->size);
    for (size_t i = 0; i < n; i++) {
        dop_json span = {.object = json_array_get(list, i), .path = r->path, .diag = r->diag};
        uint64_t size = 0;
        snprintf(span.where, sizeof span.where, "tensor %.50s: spans[%zu].", t->name, i);
        if (!json_is_object(span.object))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s: spans[%zu] is not an object", t->name, i);
        DOP_RETURN_IF_ERROR(dop_json_u64(&span, "size", 1, max_bytes, &size));
        DOP_RETURN_IF_ERROR(add_span(r, t, &span, "shardIndex", size));
        sum += size;
    }
    if (sum != t->size)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s: spans add up to %llu bytes, size is %llu",
                           t->name, (unsigned long long)sum, (unsigned long long)t->size);
    return DOP_OK;
}

static dop_status
read_rdrr_shape(dop_rdrr *r, dop_rdrr_tensor *t, const dop_json *j)
{
    const json_t *list = dop_json_get(j, "shape");
    if (!json_is_array(list) || json_array_size(list) > DOP_RDRR_MAX_RANK)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%sshape is not a list of at most %d sizes", j->where,
                           DOP_RDRR_MAX_RANK);
    t->rank = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < t->rank; i++) {
        const json_t *d = json_array_get(list, i);
        if (!json_is_integer(d) || json_integer_value(d) < 1 || (uint64_t)json_integer_value(d) > UINT32_MAX)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%sshape[%u] is not an integer of 1 or more", j->where,
                               i);
        t->shape[i] = (uint64_t)json_integer_value(d);
    }
    return DOP_OK;
}

static dop_status
read_layout(dop_rdrr *r, dop_rdrr_tensor *t, const dop_json *j)
{
    const char *layout = NULL;
    dop_status st = dop_json_str_or(j, "layout", NULL, &layout);
    if (st != DOP_OK)
        return st;
    const bool quant = t->type != DOP_TYPE_none && dop_type_of(t->type)->kind == DOP_KIND_QUANT;
    if (!layout)
        t->layout = quant ? DOP_RDRR_FLAT : DOP_RDRR_ROW;
    else if (strcmp(layout, "row") == 0)
        t->layout = DOP_RDRR_ROW;
    else if (strcmp(layout, "col") == 0 || strcmp(layout, "column") == 0)
        t->layout = DOP_RDRR_COLUMN;
    else
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%slayout \"%.40s\" is not supported; known: row, col",
                           j->where, layout);
    return DOP_OK;
}

/* Computes the number of bytes for shape, type and layout; false: more than 64 bits. */
static bool
get_tensor_bytes(const dop_rdrr_tensor *t, uint32_t bits, uint64_t *out)
{
    uint64_t n = 1, row = 0;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!dop_mul_u64(n, t->shape[i], &n))
            return false;
    if (t->type == DOP_TYPE_none) {
        if (!dop_mul_u64(n, bits, &n))
            return false;
        *out = n / 8;
        return true;
    }
    if (t->layout == DOP_RDRR_FLAT || t->rank < 2)
        return dop_type_row_bytes(t->type, n, out);
    /* For a matrix stored by columns, manifests state its own shape or the stored one; rows of bytes follow the stored matrix. */
    const uint64_t along = t->layout == DOP_RDRR_COLUMN ? t->shape[0] : t->shape[t->rank - 1];
    return dop_type_row_bytes(t->type, along, &row) && dop_mul_u64(row, n / along, out);
}

/* Reads the sourceTransform of 4-bit integers with an f32 scale per row. Any other transform is an error when its
 * tensor is used. */
static dop_status
read_transform(dop_rdrr *r, dop_rdrr_tensor *t, const dop_json *j)
{
    static const char *const keys[] = {"kind", "sourceDtype", "storageEncoding", "scaleSemantics"};
    const char *v[4] = {NULL};
    dop_json transform, source;
    DOP_RETURN_IF_ERROR(dop_json_sub(j, "sourceTransform", &transform));
    for (int i = 0; i < 4; i++)
        DOP_RETURN_IF_ERROR(dop_json_str_or(&transform, keys[i], "", &v[i]));
    DOP_RETURN_IF_ERROR(dop_json_sub(&transform, "scaleSource", &source));
    if (!dop_has_word("litert_axis_dequant litert_rowwise_dequant", v[0]) || strcmp(v[1], "INT4") != 0 ||
        !dop_has_word("signed offset_binary", v[2]) || strcmp(v[3], "step") != 0 || t->rank != 2 ||
        t->shape[1] % 32 != 0 || t->layout != DOP_RDRR_ROW)
        return DOP_OK;
    dop_rdrr_scales *scales = dop_arena_alloc(r->arena, sizeof *scales);
    if (!scales)
        return DOP_NO_MEMORY(r->diag);
    *scales = (dop_rdrr_scales){.tensor = {.name = t->name, .size = t->shape[0] * 4}, .is_signed = v[2][0] == 's'};
    uint64_t size = 0;
    DOP_RETURN_IF_ERROR(dop_json_u64(&source, "size", scales->tensor.size, scales->tensor.size, &size));
    DOP_RETURN_IF_ERROR(read_spans(r, &scales->tensor, &source));
    if (t->size != t->shape[0] * (t->shape[1] / 2))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s: size is %llu, but its 4-bit integers take %llu",
                           t->name, (unsigned long long)t->size, (unsigned long long)(t->shape[0] * (t->shape[1] / 2)));
    t->scales = scales;
    return DOP_OK;
}

static dop_status
read_rdrr_tensor(dop_rdrr *r, dop_rdrr_tensor *t, const json_t *entry)
{
    dop_json j = {.object = entry, .path = r->path, .diag = r->diag};
    uint32_t bits = 0;
    uint64_t bytes = 0;
    snprintf(j.where, sizeof j.where, "tensor %.80s: ", t->name);
    if (!json_is_object(entry))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s is %s, expected an object", t->name,
                           dop_json_kind(entry));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "dtype", "", &t->dtype));
    size_t k = 0;
    while (k < sizeof dtypes / sizeof *dtypes && strcmp(dtypes[k].name, t->dtype) != 0)
        k++;
    if (k == sizeof dtypes / sizeof *dtypes)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s: type \"%.40s\" is not supported", t->name,
                           t->dtype);
    t->type = dtypes[k].type;
    bits = dtypes[k].bits;
    t->transformed = dop_json_has(&j, "sourceTransform");
    DOP_RETURN_IF_ERROR(dop_rdrr_known(
        &j, "shard offset size shape dtype role group spans layout originalShape storage sourceTransform"));
    DOP_RETURN_IF_ERROR(read_layout(r, t, &j));
    DOP_RETURN_IF_ERROR(read_rdrr_shape(r, t, &j));
    DOP_RETURN_IF_ERROR(dop_json_u64(&j, "size", 1, max_bytes, &t->size));
    if (!t->transformed && (!get_tensor_bytes(t, bits, &bytes) || bytes != t->size)) {
        /* The stated shape may be that of the stored, transposed matrix. */
        dop_rdrr_tensor swapped = *t;
        swapped.shape[0] = t->shape[1];
        swapped.shape[1] = t->shape[0];
        if (t->layout != DOP_RDRR_COLUMN || t->rank != 2 || !get_tensor_bytes(&swapped, bits, &bytes) ||
            bytes != t->size)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path,
                               "tensor %s: size is %llu, but shape and type %s take %llu", t->name,
                               (unsigned long long)t->size, t->dtype, (unsigned long long)bytes);
    }
    DOP_RETURN_IF_ERROR(read_spans(r, t, &j));
    return t->transformed ? read_transform(r, t, &j) : DOP_OK;
}

static int
compare_rdrr_names(const void *a, const void *b)
{
    return strcmp(((const dop_rdrr_tensor *)a)->name, ((const dop_rdrr_tensor *)b)->name);
}

/* Reads the tensor list, from the manifest or from the file named by tensorsFile. */
static dop_status
read_tensors(dop_rdrr *r)
{
    const char *file = NULL, *name = NULL;
    dop_json list;
    json_t *entry = NULL;
    DOP_RETURN_IF_ERROR(dop_json_sub(&r->top, "tensors", &list));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&r->top, "tensorsFile", NULL, &file));
    if (!list.object && !file)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "neither tensors nor tensorsFile is there");
    if (!list.object && (strchr(file, '/') || file[0] == '.' || !dop_path_is_inside(file)))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensorsFile \"%.100s\" is not a plain file name", file);
    if (!list.object) {
        const char *path = dop_arena_printf(r->arena, "%s/%s", r->dir, file);
        DOP_RETURN_IF_ERROR(path ? dop_json_decode_file(&(dop_json_how){.path = path, .flags = DOP_JSON_UNIQUE},
                                                        r->diag, &r->tensors_root)
                                 : DOP_NO_MEMORY(r->diag));
        DOP_RETURN_IF_ERROR(dop_json_root(r->tensors_root, path, r->diag, &list));
    }
    const size_t n = json_object_size(list.object);
    if (n > MAX_TENSORS)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%zu tensors do not fit", n);
    r->tensors = dop_arena_alloc(r->arena, (n ? n : 1) * sizeof *r->tensors);
    if (!r->tensors)
        return DOP_NO_MEMORY(r->diag);
    json_object_foreach((json_t *)(uintptr_t)list.object, name, entry)
    {
        dop_rdrr_tensor *t = &r->tensors[r->n_tensors++];
        t->name = name;
        if (strlen(name) > 512)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, list.path,
                               "a tensor name has %zu bytes, at most 512 are supported", strlen(name));
        DOP_RETURN_IF_ERROR(read_rdrr_tensor(r, t, entry));
    }
    qsort(r->tensors, r->n_tensors, sizeof *r->tensors, compare_rdrr_names);
    return DOP_OK;
}

/* Checks that names in groups exist; groups only repeat information of shards and tensors. */
static dop_status
check_manifest_groups(dop_rdrr *r)
{
    dop_json groups;
    const char *name = NULL;
    json_t *group = NULL;
    dop_status st = dop_json_sub(&r->top, "groups", &groups);
    if (st != DOP_OK || !groups.object)
        return st;
    json_object_foreach((json_t *)(uintptr_t)groups.object, name, group)
    {
        const json_t *tensors = json_object_get(group, "tensors");
        for (size_t i = 0; i < json_array_size(tensors); i++) {
            const char *tensor = json_string_value(json_array_get(tensors, i));
            if (!tensor || !dop_rdrr_find(r, tensor))
                return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path,
                                   "groups.%.80s names tensor %.200s, which is not there", name,
                                   tensor ? tensor : "(not a name)");
        }
    }
    return DOP_OK;
}

static dop_status
check_version(dop_rdrr *r)
{
    const json_t *v = dop_json_get(&r->top, "version");
    double version = json_is_number(v)   ? json_number_value(v)
                     : json_is_string(v) ? strtod(json_string_value(v), NULL)
                                         : 0;
    if (version >= 1 && version < 2)
        return DOP_OK;
    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "version is not 1: not an RDRR manifest that is known here");
}

dop_status
dop_rdrr_open(dop_rdrr *r)
{
    DOP_RETURN_IF_ERROR(
        dop_json_decode_file(&(dop_json_how){.path = r->path, .flags = DOP_JSON_UNIQUE}, r->diag, &r->root));
    DOP_RETURN_IF_ERROR(dop_json_root(r->root, r->path, r->diag, &r->top));
    DOP_RETURN_IF_ERROR(check_version(r));
    DOP_RETURN_IF_ERROR(read_shards(r));
    DOP_RETURN_IF_ERROR(read_tensors(r));
    return check_manifest_groups(r);
}

void
dop_rdrr_close(dop_rdrr *r)
{
    json_decref(r->root);
    json_decref(r->tensors_root);
    json_decref(r->config);
    r->root = r->tensors_root = r->config = NULL;
}

const dop_rdrr_tensor *
dop_rdrr_find(const dop_rdrr *r, const char *name)
{
    dop_rdrr_tensor key = {.name = name};
    return r->n_tensors ? bsearch(&key, r->tensors, r->n_tensors, sizeof key, compare_rdrr_names) : NULL;
}

const dop_rdrr_tensor *
dop_rdrr_find_in_layer(const dop_rdrr *r, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%slayers.0.%s", r->prefix, name);
    return dop_rdrr_find(r, full);
}
