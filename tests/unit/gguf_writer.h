/* Writes GGUF files: metadata and tensors in the order in which they are given. */
#ifndef DOPPLER_TESTS_UNIT_GGUF_WRITER_H
#define DOPPLER_TESTS_UNIT_GGUF_WRITER_H

#include "base/base.h"

/* ggml's numbers of the types that are written here. */
enum { GGUF_F32 = 0, GGUF_F16 = 1, GGUF_BF16 = 30, GGUF_MXFP4 = 39 };

typedef struct gguf_writer {
    dop_buf kvs, infos, data; /* infos: of the tensors */
    uint64_t n_kvs, n_tensors;
    char arch[32]; /* stands for the "%" that a key begins with */
} gguf_writer;

/* Numbers as they stand in a file. */
void gguf_put_u32(dop_buf *b, uint32_t v);
void gguf_put_u64(dop_buf *b, uint64_t v);
void gguf_put_str(dop_buf *b, const char *s);

/* A key and its type; its value is to follow in kvs. */
void gguf_put_key(gguf_writer *w, const char *key, uint32_t type);
void gguf_u32(gguf_writer *w, const char *key, uint32_t v);
void gguf_f32(gguf_writer *w, const char *key, double v);
void gguf_bool(gguf_writer *w, const char *key, bool v);
void gguf_str(gguf_writer *w, const char *key, const char *v);
/* An array's key, type of elements and number of elements; they are to follow in kvs. */
void gguf_array(gguf_writer *w, const char *key, uint32_t elem, uint64_t n);

/* A tensor of float values, the slowest axis first, as `type` (F32, F16, BF16) has them. */
void gguf_tensor(gguf_writer *w, const char *name, uint32_t type, uint32_t rank, const uint64_t *shape,
                 const float *values);
/* The same of bytes that are what the type has. */
void gguf_tensor_bytes(gguf_writer *w, const char *name, uint32_t type, uint32_t rank, const uint64_t *shape,
                       const void *bytes, uint64_t size);

/* Writes the file and empties the writer; false: it could not be written. */
bool gguf_save(gguf_writer *w, const char *path);
void gguf_finish(gguf_writer *w);

#endif
