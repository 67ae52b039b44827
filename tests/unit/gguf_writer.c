#include "tests/unit/gguf_writer.h"
#include "tests/unit/buf_align.h"

#include <stdio.h>
#include <string.h>

enum { U32 = 4, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 }; /* types of metadata */

void
gguf_put_u32(dop_buf *b, uint32_t v)
{
    dop_buf_append(b, &v, sizeof v);
}

void
gguf_put_u64(dop_buf *b, uint64_t v)
{
    dop_buf_append(b, &v, sizeof v);
}

void
gguf_put_str(dop_buf *b, const char *s)
{
    gguf_put_u64(b, strlen(s));
    dop_buf_puts(b, s);
}

void
gguf_put_key(gguf_writer *w, const char *key, uint32_t type)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", key[0] == '%' ? w->arch : "", key[0] == '%' ? key + 1 : key);
    gguf_put_str(&w->kvs, full);
    gguf_put_u32(&w->kvs, type);
    w->n_kvs++;
}

void
gguf_u32(gguf_writer *w, const char *key, uint32_t v)
{
    gguf_put_key(w, key, U32);
    gguf_put_u32(&w->kvs, v);
}

void
gguf_f32(gguf_writer *w, const char *key, double v)
{
    const float f = (float)v;
    gguf_put_key(w, key, F32);
    dop_buf_append(&w->kvs, &f, sizeof f);
}

void
gguf_bool(gguf_writer *w, const char *key, bool v)
{
    gguf_put_key(w, key, BOOL);
    dop_buf_append(&w->kvs, v ? "\1" : "\0", 1);
}

void
gguf_str(gguf_writer *w, const char *key, const char *v)
{
    gguf_put_key(w, key, STRING);
    gguf_put_str(&w->kvs, v);
}

void
gguf_array(gguf_writer *w, const char *key, uint32_t elem, uint64_t n)
{
    gguf_put_key(w, key, ARRAY);
    gguf_put_u32(&w->kvs, elem);
    gguf_put_u64(&w->kvs, n);
}

static uint64_t
begin_tensor(gguf_writer *w, const char *name, uint32_t type, uint32_t rank, const uint64_t *shape)
{
    uint64_t n = 1;
    buf_align(&w->data, 32);
    gguf_put_str(&w->infos, name);
    gguf_put_u32(&w->infos, rank);
    for (uint32_t i = rank; i-- > 0; n *= shape[i])
        gguf_put_u64(&w->infos, shape[i]);
    gguf_put_u32(&w->infos, type);
    gguf_put_u64(&w->infos, w->data.size);
    w->n_tensors++;
    return n;
}

void
gguf_tensor(gguf_writer *w, const char *name, uint32_t type, uint32_t rank, const uint64_t *shape, const float *values)
{
    const uint64_t n = begin_tensor(w, name, type, rank, shape);
    if (type == GGUF_F32) {
        dop_buf_append(&w->data, values, (size_t)n * sizeof *values);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint16_t h = type == GGUF_F16 ? dop_f32_to_f16(values[i]) : dop_f32_to_bf16(values[i]);
        dop_buf_append(&w->data, &h, sizeof h);
    }
}

void
gguf_tensor_bytes(gguf_writer *w, const char *name, uint32_t type, uint32_t rank, const uint64_t *shape,
                  const void *bytes, uint64_t size)
{
    begin_tensor(w, name, type, rank, shape);
    dop_buf_append(&w->data, bytes, (size_t)size);
}

bool
gguf_save(gguf_writer *w, const char *path)
{
    dop_buf b = {0};
    dop_buf_puts(&b, "GGUF");
    gguf_put_u32(&b, 3);
    gguf_put_u64(&b, w->n_tensors);
    gguf_put_u64(&b, w->n_kvs);
    dop_buf_append(&b, w->kvs.data, w->kvs.size);
    dop_buf_append(&b, w->infos.data, w->infos.size);
    buf_align(&b, 32);
    dop_buf_append(&b, w->data.data, w->data.size);
    const bool whole = !b.failed && !w->kvs.failed && !w->infos.failed && !w->data.failed;
    FILE *f = whole ? fopen(path, "wb") : NULL;
    bool ok = f && fwrite(b.data, 1, b.size, f) == b.size;
    ok = f && fclose(f) == 0 && ok;
    dop_buf_finish(&b);
    gguf_finish(w);
    return ok;
}

void
gguf_finish(gguf_writer *w)
{
    dop_buf_finish(&w->kvs);
    dop_buf_finish(&w->infos);
    dop_buf_finish(&w->data);
}
