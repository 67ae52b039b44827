/* GGUF container, versions 2 and 3, little-endian: metadata and tensor directory of a mapped file.
 *
 * Opening verifies every count, length, type, dimension and offset.  The accessors below therefore fail only for missing keys and wrong
 * types.  Format: the GGUF specification (ggml repository, docs/gguf.md). */
#ifndef DOPPLER_BASE_FORMAT_GGUF_H
#define DOPPLER_BASE_FORMAT_GGUF_H

#include "base/base.h"

/* Types of metadata values; the numbers are those of the file format. */
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

/* A string inside the file, not 0-terminated. */
typedef struct dop_gguf_str {
    const char *data;
    uint64_t len;
} dop_gguf_str;

typedef struct dop_gguf_kv {
    dop_gguf_str key;
    dop_gguf_type type;
    dop_gguf_type elem;  /* element type of an array; otherwise equal to type */
    uint64_t count;      /* number of elements of an array; otherwise 1 */
    const uint8_t *data; /* value or first array element; unaligned */
    uint64_t bytes;      /* size of the value or of all elements */
} dop_gguf_kv;

#define DOP_GGUF_MAX_DIMS 4

typedef struct dop_gguf_tensor {
    dop_gguf_str name;
    uint32_t dims_count;
    uint64_t dims[DOP_GGUF_MAX_DIMS]; /* fastest first (GGUF order); 1 beyond dims_count */
    uint32_t type;                    /* ggml_type; always valid for dop_gguf_tensor_type */
    uint64_t offset;                  /* from the start of the file */
    uint64_t bytes;
} dop_gguf_tensor;

typedef struct dop_gguf {
    const char *path; /* for messages; not owned */
    dop_map map;      /* owned if opened by path */
    uint32_t version;
    uint64_t alignment;
    uint64_t data_offset; /* start of the tensor data, in bytes */
    dop_gguf_kv *kvs;     /* [kv_count] in file order */
    size_t kv_count;
    dop_gguf_tensor *tensors; /* [tensor_count] in file order */
    size_t tensor_count;
} dop_gguf;

/* Maps and verifies a file.  path must outlive it. */
dop_status dop_gguf_open(const char *path, dop_diag *diag, dop_gguf *out_gguf);
/* Opens a file in memory; the caller keeps the bytes. */
dop_status dop_gguf_open_bytes(const char *path, const void *bytes, uint64_t size, dop_diag *diag, dop_gguf *out_gguf);
void dop_gguf_close(dop_gguf *gguf); /* accepts a zeroed struct */

/* Return NULL if there is no such key or tensor. */
const dop_gguf_kv *dop_gguf_find(const dop_gguf *gguf, const char *key);
const dop_gguf_tensor *dop_gguf_find_tensor(const dop_gguf *gguf, const char *name);

/* Read element `index` of a value (0 if it is not an array), converted.  False if type or range does not fit. */
bool dop_gguf_u64(const dop_gguf_kv *kv, uint64_t index, uint64_t *out);
bool dop_gguf_i64(const dop_gguf_kv *kv, uint64_t index, int64_t *out);
bool dop_gguf_f64(const dop_gguf_kv *kv, uint64_t index, double *out); /* any numeric type */
bool dop_gguf_bool(const dop_gguf_kv *kv, uint64_t index, bool *out);
/* Reads a string value (not an array). */
bool dop_gguf_string(const dop_gguf_kv *kv, dop_gguf_str *out);
/* Iterates over an array of strings; *cursor starts at 0.  False at the end, or if the value is not an array of strings. */
bool dop_gguf_next_string(const dop_gguf_kv *kv, uint64_t *cursor, dop_gguf_str *out);

/* Storage of a ggml tensor type.  dop_gguf_tensor_type() returns false for an unknown type number. */
typedef struct dop_gguf_tensor_info {
    const char *name;
    uint32_t block; /* elements per block */
    uint32_t bytes; /* bytes per block */
} dop_gguf_tensor_info;
bool dop_gguf_tensor_type(uint32_t type, dop_gguf_tensor_info *out);

#endif
