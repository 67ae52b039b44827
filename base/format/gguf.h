/* GGUF container, versions 2 and 3, little-endian: metadata and tensor directory of a mapped file.
 *
 * Everything is checked when the file is opened: every count, length, type, dimension and offset lies inside the
 * file, so the accessors below cannot fail on damaged data, only on a missing key or another type.
 * Format: the GGUF specification (ggml repository, docs/gguf.md). */
#ifndef DOPPLER_BASE_FORMAT_GGUF_H
#define DOPPLER_BASE_FORMAT_GGUF_H

#include "base/base.h"

/* Types of metadata values, with the numbers of the file format. */
typedef enum dop_gguf_type {
    DOP_GGUF_U8 = 0,
    DOP_GGUF_I8 = 1,
    DOP_GGUF_U16 = 2,
    DOP_GGUF_I16 = 3,
    DOP_GGUF_U32 = 4,
    DOP_GGUF_I32 = 5,
    DOP_GGUF_F32 = 6,
    DOP_GGUF_BOOL = 7,
    DOP_GGUF_STRING = 8,
    DOP_GGUF_ARRAY = 9,
    DOP_GGUF_U64 = 10,
    DOP_GGUF_I64 = 11,
    DOP_GGUF_F64 = 12,
} dop_gguf_type;

/* A string as it lies in the file, not 0-terminated. */
typedef struct dop_gguf_str {
    const char *data;
    uint64_t len;
} dop_gguf_str;

typedef struct dop_gguf_kv {
    dop_gguf_str key;
    dop_gguf_type type;
    dop_gguf_type elem;  /* element type of an array, otherwise the same as type */
    uint64_t count;      /* elements of an array, otherwise 1 */
    const uint8_t *data; /* the value, or an array's first element; unaligned */
    uint64_t bytes;      /* size of the value or of all elements */
} dop_gguf_kv;

#define DOP_GGUF_MAX_DIMS 4

typedef struct dop_gguf_tensor {
    dop_gguf_str name;
    uint32_t dims_count;
    uint64_t dims[DOP_GGUF_MAX_DIMS]; /* fastest first (GGUF order), 1 beyond dims_count */
    uint32_t type;                    /* ggml_type; always one that dop_gguf_tensor_type knows */
    uint64_t offset;                  /* from the start of the file */
    uint64_t bytes;
} dop_gguf_tensor;

typedef struct dop_gguf {
    const char *path; /* for messages, borrowed */
    dop_map map;      /* owned if opened by path */
    uint32_t version;
    uint64_t alignment;
    uint64_t data_offset; /* start of the tensor data */
    dop_gguf_kv *kvs;     /* file order */
    size_t kv_count;
    dop_gguf_tensor *tensors; /* file order */
    size_t tensor_count;
} dop_gguf;

/* Maps and checks a file.  path must outlive it. */
dop_status dop_gguf_open(const char *path, dop_diag *diag, dop_gguf *out_gguf);
/* Opens a file that is in memory already, whose bytes the caller keeps. */
dop_status dop_gguf_open_bytes(const char *path, const void *bytes, uint64_t size, dop_diag *diag, dop_gguf *out_gguf);
void dop_gguf_close(dop_gguf *gguf); /* accepts a zeroed one */

/* NULL if there is no such key or tensor. */
const dop_gguf_kv *dop_gguf_find(const dop_gguf *gguf, const char *key);
const dop_gguf_tensor *dop_gguf_find_tensor(const dop_gguf *gguf, const char *name);

/* Element `index` of a value (0 for one that is no array), converted; false if the type or the range does not fit. */
bool dop_gguf_u64(const dop_gguf_kv *kv, uint64_t index, uint64_t *out);
bool dop_gguf_i64(const dop_gguf_kv *kv, uint64_t index, int64_t *out);
bool dop_gguf_f64(const dop_gguf_kv *kv, uint64_t index, double *out); /* any number */
bool dop_gguf_bool(const dop_gguf_kv *kv, uint64_t index, bool *out);
/* A string value (not an array). */
bool dop_gguf_string(const dop_gguf_kv *kv, dop_gguf_str *out);
/* Iterates over an array of strings; *cursor starts at 0.  False: at the end, or the value is no array of strings. */
bool dop_gguf_next_string(const dop_gguf_kv *kv, uint64_t *cursor, dop_gguf_str *out);

/* Storage of a ggml tensor type: elements and bytes per block.  dop_gguf_tensor_type() returns false for an unknown number. */
typedef struct dop_gguf_tensor_info {
    const char *name;
    uint32_t block; /* elements */
    uint32_t bytes; /* per block */
} dop_gguf_tensor_info;
bool dop_gguf_tensor_type(uint32_t type, dop_gguf_tensor_info *out);

#endif
