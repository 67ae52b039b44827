#include "base/format/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    max_nesting = 4,    /* maximum nesting of arrays */
    max_name = 65535,   /* maximum bytes of a key or tensor name */
    min_kv = 8 + 4 + 1, /* minimum bytes of an entry: key length, type, smallest value */
    min_tensor = 8 + 4 + 4 + 8,
};

/* ggml_type numbers and their blocks (ggml-common.h of ggml). */
static const struct {
    uint32_t type;
    dop_gguf_tensor_info info;
} tensor_types[] = {
    {0, {"F32", 1, 4}},         {1, {"F16", 1, 2}},         {2, {"Q4_0", 32, 18}},      {3, {"Q4_1", 32, 20}},
    {6, {"Q5_0", 32, 22}},      {7, {"Q5_1", 32, 24}},      {8, {"Q8_0", 32, 34}},      {9, {"Q8_1", 32, 36}},
    {10, {"Q2_K", 256, 84}},    {11, {"Q3_K", 256, 110}},   {12, {"Q4_K", 256, 144}},   {13, {"Q5_K", 256, 176}},
    {14, {"Q6_K", 256, 210}},   {15, {"Q8_K", 256, 292}},   {16, {"IQ2_XXS", 256, 66}}, {17, {"IQ2_XS", 256, 74}},
    {18, {"IQ3_XXS", 256, 98}}, {19, {"IQ1_S", 256, 50}},   {20, {"IQ4_NL", 32, 18}},   {21, {"IQ3_S", 256, 110}},
    {22, {"IQ2_S", 256, 82}},   {23, {"IQ4_XS", 256, 136}}, {24, {"I8", 1, 1}},         {25, {"I16", 1, 2}},
    {26, {"I32", 1, 4}},        {27, {"I64", 1, 8}},        {28, {"F64", 1, 8}},        {29, {"IQ1_M", 256, 56}},
    {30, {"BF16", 1, 2}},       {34, {"TQ1_0", 256, 54}},   {35, {"TQ2_0", 256, 66}},   {39, {"MXFP4", 32, 17}},
    {40, {"NVFP4", 64, 36}},    {41, {"Q1_0", 128, 18}},    {42, {"Q2_0", 64, 18}},
};

bool
dop_gguf_tensor_type(uint32_t type, dop_gguf_tensor_info *out)
{
    for (size_t i = 0; i < sizeof tensor_types / sizeof *tensor_types; i++) {
        if (tensor_types[i].type == type) {
            *out = tensor_types[i].info;
            return true;
        }
    }
    return false;
}

/* Returns the bytes of a fixed-size value; 0 for strings, arrays and unknown types. */
static uint32_t
gguf_fixed_size(uint32_t type)
{
    static const uint8_t size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof size ? size[type] : 0;
}

/* Read position; every read is checked against the end of the file. */
typedef struct cursor {
    const uint8_t *data;
    uint64_t at, size;
    const char *path;
    dop_diag *diag;
} cursor;

static dop_status
refuse_truncated_gguf(const cursor *c, const char *what)
{
    return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path,
                       "the GGUF file ends inside %s (at byte %" PRIu64 "); it is damaged or incomplete", what, c->at);
}

/* Reads n bytes into *out; zeroes *out if the file ends too early. */
static dop_status
read_gguf_bytes(cursor *c, const char *what, void *out, size_t n)
{
    memset(out, 0, n);
    if (c->size - c->at < n)
        return refuse_truncated_gguf(c, what);
    memcpy(out, c->data + c->at, n);
    c->at += n;
    return DOP_OK;
}

static dop_status
read_gguf_u32(cursor *c, const char *what, uint32_t *out)
{
    return read_gguf_bytes(c, what, out, sizeof *out);
}

static dop_status
read_gguf_u64(cursor *c, const char *what, uint64_t *out)
{
    return read_gguf_bytes(c, what, out, sizeof *out);
}

static dop_status
read_gguf_string(cursor *c, const char *what, dop_gguf_str *out)
{
    *out = (dop_gguf_str){"", 0};
    dop_status st = read_gguf_u64(c, what, &out->len);
    if (st != DOP_OK)
        return st;
    if (out->len > c->size - c->at)
        return refuse_truncated_gguf(c, what);
    out->data = (const char *)c->data + c->at;
    c->at += out->len;
    return DOP_OK;
}

static int
gguf_shown_length(dop_gguf_str s)
{
    return s.len > 100 ? 100 : (int)s.len;
}

/* Skips `count` values of a type. */
static dop_status
skip_gguf_values(cursor *c, uint32_t type, uint64_t count, uint32_t depth)
{
    uint32_t size = gguf_fixed_size(type);
    if (size) {
        if (count > (c->size - c->at) / size)
            return refuse_truncated_gguf(c, "a metadata array");
        c->at += count * size;
        return DOP_OK;
    }
    if (type != DOP_GGUF_STRING && type != DOP_GGUF_ARRAY)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "unknown metadata type %" PRIu32 " at byte %" PRIu64, type,
                           c->at);
    if (depth >= max_nesting)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "metadata arrays are nested more than %d deep", max_nesting);
    for (uint64_t i = 0; i < count; i++) { /* bounded: each iteration reads at least 8 bytes */
        dop_status st;
        if (type == DOP_GGUF_STRING) {
            dop_gguf_str s;
            st = read_gguf_string(c, "a metadata string", &s);
        } else {
            uint32_t elem = 0;
            uint64_t n = 0;
            st = read_gguf_u32(c, "a metadata array", &elem);
            if (st == DOP_OK)
                st = read_gguf_u64(c, "a metadata array", &n);
            if (st == DOP_OK)
                st = skip_gguf_values(c, elem, n, depth + 1);
        }
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

static dop_status
read_gguf_kv(cursor *c, dop_gguf_kv *kv)
{
    uint32_t type = 0, elem = 0;
    dop_status st = read_gguf_string(c, "a metadata key", &kv->key);
    if (st == DOP_OK && (kv->key.len == 0 || kv->key.len > max_name))
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "a metadata key has %" PRIu64 " bytes", kv->key.len);
    if (st != DOP_OK || (st = read_gguf_u32(c, "a metadata type", &type)) != DOP_OK)
        return st;
    kv->count = 1;
    elem = type;
    if (type == DOP_GGUF_ARRAY && ((st = read_gguf_u32(c, "a metadata array", &elem)) != DOP_OK ||
                                   (st = read_gguf_u64(c, "a metadata array", &kv->count)) != DOP_OK))
        return st;
    kv->type = (dop_gguf_type)type;
    kv->elem = (dop_gguf_type)elem;
    kv->data = c->data + c->at;
    uint64_t start = c->at;
    st = skip_gguf_values(c, elem, kv->count, 0);
    kv->bytes = c->at - start;
    return st;
}

static dop_status
compute_gguf_tensor_size(const cursor *c, dop_gguf_tensor *t)
{
    dop_gguf_tensor_info info;
    uint64_t n = 1;
    if (!dop_gguf_tensor_type(t->type, &info))
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor \"%.*s\" has the unknown type %" PRIu32,
                           gguf_shown_length(t->name), t->name.data, t->type);
    for (uint32_t i = 0; i < DOP_GGUF_MAX_DIMS; i++)
        if (t->dims[i] == 0 || !dop_mul_u64(n, t->dims[i], &n))
            return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor \"%.*s\" has an impossible shape",
                               gguf_shown_length(t->name), t->name.data);
    if (t->dims[0] % info.block)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path,
                           "tensor \"%.*s\" has rows of %" PRIu64 " elements, not a multiple of the %" PRIu32
                           " of a %s block",
                           gguf_shown_length(t->name), t->name.data, t->dims[0], info.block, info.name);
    if (!dop_mul_u64(n / info.block, info.bytes, &t->bytes))
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor \"%.*s\" has an impossible shape",
                           gguf_shown_length(t->name), t->name.data);
    return DOP_OK;
}

static dop_status
read_gguf_tensor(cursor *c, dop_gguf_tensor *t)
{
    dop_status st = read_gguf_string(c, "a tensor name", &t->name);
    if (st == DOP_OK && (t->name.len == 0 || t->name.len > max_name))
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "a tensor name has %" PRIu64 " bytes", t->name.len);
    if (st != DOP_OK || (st = read_gguf_u32(c, "a tensor description", &t->dims_count)) != DOP_OK)
        return st;
    if (t->dims_count > DOP_GGUF_MAX_DIMS)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor \"%.*s\" has %" PRIu32 " dimensions, more than %d",
                           gguf_shown_length(t->name), t->name.data, t->dims_count, DOP_GGUF_MAX_DIMS);
    for (uint32_t i = 0; i < DOP_GGUF_MAX_DIMS; i++) {
        t->dims[i] = 1;
        if (i < t->dims_count && (st = read_gguf_u64(c, "a tensor description", &t->dims[i])) != DOP_OK)
            return st;
    }
    if ((st = read_gguf_u32(c, "a tensor description", &t->type)) != DOP_OK ||
        (st = read_gguf_u64(c, "a tensor description", &t->offset)) != DOP_OK)
        return st;
    return compute_gguf_tensor_size(c, t);
}

/* Converts the tensors' offsets to file offsets, once the start of the data is known. */
static dop_status
place_gguf_tensors(const cursor *c, dop_gguf *g)
{
    for (size_t i = 0; i < g->tensor_count; i++) {
        dop_gguf_tensor *t = &g->tensors[i];
        uint64_t start, end;
        if (t->offset % g->alignment)
            return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path,
                               "tensor \"%.*s\" is at offset %" PRIu64 ", not a multiple of the alignment %" PRIu64,
                               gguf_shown_length(t->name), t->name.data, t->offset, g->alignment);
        if (!dop_add_u64(g->data_offset, t->offset, &start) || !dop_add_u64(start, t->bytes, &end) || end > c->size)
            return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path,
                               "tensor \"%.*s\" (%" PRIu64
                               " bytes) reaches beyond the end of the file; it is damaged or incomplete",
                               gguf_shown_length(t->name), t->name.data, t->bytes);
        t->offset = start;
    }
    return DOP_OK;
}

static int
compare_gguf_names(const void *x, const void *y)
{
    const dop_gguf_str *a = *(const dop_gguf_str *const *)x, *b = *(const dop_gguf_str *const *)y;
    int r = memcmp(a->data, b->data, (size_t)(a->len < b->len ? a->len : b->len));
    return r ? r : a->len < b->len ? -1 : a->len > b->len;
}

/* Fails if two entries have one name, because readers would differ in which one counts. */
static dop_status
check_unique(const cursor *c, const char *what, const void *rows, size_t count, size_t stride)
{
    dop_status st = DOP_OK;
    const dop_gguf_str **names = calloc(count + 1, sizeof *names);
    if (!names)
        return DOP_NO_MEMORY(c->diag);
    for (size_t i = 0; i < count; i++) /* the name is the first member of both row types */
        names[i] = (const dop_gguf_str *)(const void *)((const char *)rows + i * stride);
    qsort(names, count, sizeof *names, compare_gguf_names);
    for (size_t i = 1; i < count && st == DOP_OK; i++)
        if (compare_gguf_names(&names[i - 1], &names[i]) == 0)
            st = DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "%s \"%.*s\" is there twice", what,
                             gguf_shown_length(*names[i]), names[i]->data);
    free(names);
    return st;
}

static dop_status
read_gguf_header(cursor *c, dop_gguf *g, uint64_t *tensors, uint64_t *kvs)
{
    dop_status st;
    if (c->size < 4 || memcmp(c->data, "GGUF", 4) != 0)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "not a GGUF file");
    c->at = 4;
    if ((st = read_gguf_u32(c, "its header", &g->version)) != DOP_OK)
        return st;
    if (g->version == 0x02000000u || g->version == 0x03000000u)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "big-endian GGUF files are not supported");
    if (g->version != 2 && g->version != 3)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "GGUF version %" PRIu32 " is not supported (2 and 3 are)",
                           g->version);
    if ((st = read_gguf_u64(c, "its header", tensors)) != DOP_OK ||
        (st = read_gguf_u64(c, "its header", kvs)) != DOP_OK)
        return st;
    if (*kvs > (c->size - c->at) / min_kv || *tensors > (c->size - c->at) / min_tensor)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path,
                           "the GGUF header promises %" PRIu64 " keys and %" PRIu64
                           " tensors, more than fit in the file",
                           *kvs, *tensors);
    return DOP_OK;
}

static dop_status
parse_gguf(cursor *c, dop_gguf *g)
{
    uint64_t tensors = 0, kvs = 0;
    dop_status st = read_gguf_header(c, g, &tensors, &kvs);
    if (st != DOP_OK)
        return st;
    g->kvs = calloc((size_t)kvs + 1, sizeof *g->kvs);
    g->tensors = calloc((size_t)tensors + 1, sizeof *g->tensors);
    if (!g->kvs || !g->tensors)
        return DOP_NO_MEMORY(c->diag);
    for (; g->kv_count < kvs; g->kv_count++)
        if ((st = read_gguf_kv(c, &g->kvs[g->kv_count])) != DOP_OK)
            return st;
    for (; g->tensor_count < tensors; g->tensor_count++)
        if ((st = read_gguf_tensor(c, &g->tensors[g->tensor_count])) != DOP_OK)
            return st;
    const dop_gguf_kv *align = dop_gguf_find(g, "general.alignment");
    g->alignment = 32;
    if (align && (!dop_gguf_u64(align, 0, &g->alignment) || g->alignment == 0 || g->alignment > (1u << 20) ||
                  (g->alignment & (g->alignment - 1))))
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "general.alignment is not a power of two up to 1 MiB");
    g->data_offset = dop_align_u64(c->at, g->alignment);
    if ((st = check_unique(c, "metadata key", g->kvs, g->kv_count, sizeof *g->kvs)) != DOP_OK ||
        (st = check_unique(c, "tensor", g->tensors, g->tensor_count, sizeof *g->tensors)) != DOP_OK)
        return st;
    return place_gguf_tensors(c, g);
}

dop_status
dop_gguf_open_bytes(const char *path, const void *bytes, uint64_t size, dop_diag *diag, dop_gguf *out)
{
    memset(out, 0, sizeof *out);
    cursor c = {.data = bytes, .size = size, .path = path, .diag = diag};
    out->path = path;
    dop_status st = parse_gguf(&c, out);
    if (st != DOP_OK)
        dop_gguf_close(out);
    return st;
}

dop_status
dop_gguf_open(const char *path, dop_diag *diag, dop_gguf *out)
{
    dop_map map;
    memset(out, 0, sizeof *out);
    dop_status st = dop_map_open(path, diag, &map);
    if (st != DOP_OK)
        return st;
    st = dop_gguf_open_bytes(path, map.data ? (const void *)map.data : "", map.size, diag, out);
    if (st == DOP_OK)
        out->map = map;
    else
        dop_map_close(&map);
    return st;
}

void
dop_gguf_close(dop_gguf *g)
{
    free(g->kvs);
    free(g->tensors);
    dop_map_close(&g->map);
    memset(g, 0, sizeof *g);
}

static bool
gguf_name_equals(dop_gguf_str s, const char *name, size_t n)
{
    return s.len == n && memcmp(s.data, name, n) == 0;
}

const dop_gguf_kv *
dop_gguf_find(const dop_gguf *g, const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < g->kv_count; i++)
        if (gguf_name_equals(g->kvs[i].key, key, n))
            return &g->kvs[i];
    return NULL;
}

const dop_gguf_tensor *
dop_gguf_find_tensor(const dop_gguf *g, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < g->tensor_count; i++)
        if (gguf_name_equals(g->tensors[i].name, name, n))
            return &g->tensors[i];
    return NULL;
}

/* Reads element `index` as sign and magnitude.  False if its type is not an integer. */
static bool
read_gguf_integer(const dop_gguf_kv *kv, uint64_t index, bool *negative, uint64_t *magnitude)
{
    uint32_t size = kv ? gguf_fixed_size(kv->elem) : 0;
    if (!size || index >= kv->count || kv->elem == DOP_GGUF_F32 || kv->elem == DOP_GGUF_F64 ||
        kv->elem == DOP_GGUF_BOOL)
        return false;
    const uint8_t *p = kv->data + index * size;
    uint64_t v = 0;
    memcpy(&v, p, size); /* file and host are little-endian */
    bool is_signed =
        kv->elem == DOP_GGUF_I8 || kv->elem == DOP_GGUF_I16 || kv->elem == DOP_GGUF_I32 || kv->elem == DOP_GGUF_I64;
    *negative = is_signed && (p[size - 1] & 0x80u);
    if (*negative && size < 8)
        v |= UINT64_MAX << (8 * size);
    *magnitude = *negative ? 0 - v : v;
    return true;
}

bool
dop_gguf_u64(const dop_gguf_kv *kv, uint64_t index, uint64_t *out)
{
    bool negative;
    return read_gguf_integer(kv, index, &negative, out) && !negative;
}

bool
dop_gguf_i64(const dop_gguf_kv *kv, uint64_t index, int64_t *out)
{
    bool negative;
    uint64_t m;
    if (!read_gguf_integer(kv, index, &negative, &m) || m > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? -(int64_t)(m - 1) - 1 : (int64_t)m;
    return true;
}

bool
dop_gguf_f64(const dop_gguf_kv *kv, uint64_t index, double *out)
{
    bool negative;
    uint64_t m;
    if (kv && index < kv->count && kv->elem == DOP_GGUF_F32) {
        float f;
        memcpy(&f, kv->data + index * 4, 4);
        *out = (double)f;
        return true;
    }
    if (kv && index < kv->count && kv->elem == DOP_GGUF_F64) {
        memcpy(out, kv->data + index * 8, 8);
        return true;
    }
    if (!read_gguf_integer(kv, index, &negative, &m))
        return false;
    *out = negative ? -(double)m : (double)m;
    return true;
}

bool
dop_gguf_bool(const dop_gguf_kv *kv, uint64_t index, bool *out)
{
    if (!kv || kv->elem != DOP_GGUF_BOOL || index >= kv->count)
        return false;
    *out = kv->data[index] != 0;
    return true;
}

/* Returns the string at p, whose length was checked at opening. */
static dop_gguf_str
load_gguf_string(const uint8_t *p)
{
    dop_gguf_str s;
    memcpy(&s.len, p, 8);
    s.data = (const char *)p + 8;
    return s;
}

bool
dop_gguf_string(const dop_gguf_kv *kv, dop_gguf_str *out)
{
    if (!kv || kv->type != DOP_GGUF_STRING)
        return false;
    *out = load_gguf_string(kv->data);
    return true;
}

bool
dop_gguf_next_string(const dop_gguf_kv *kv, uint64_t *cursor_bytes, dop_gguf_str *out)
{
    if (!kv || kv->type != DOP_GGUF_ARRAY || kv->elem != DOP_GGUF_STRING || *cursor_bytes >= kv->bytes)
        return false;
    *out = load_gguf_string(kv->data + *cursor_bytes);
    *cursor_bytes += 8 + out->len;
    return true;
}
