#include "tools/imatrix/imatrix.h"

#include <string.h>

enum { ALIGN = 32, TYPE_U32 = 4, TYPE_STRING = 8, TYPE_ARRAY = 9, F32 = 0 };

static void
put_u32(dop_buf *b, uint32_t v)
{
    dop_buf_append(b, &v, sizeof v);
}

static void
put_u64(dop_buf *b, uint64_t v)
{
    dop_buf_append(b, &v, sizeof v);
}

static void
put_string(dop_buf *b, const char *s, const char *end)
{
    put_u64(b, strlen(s) + strlen(end));
    dop_buf_append(b, s, strlen(s));
    dop_buf_append(b, end, strlen(end));
}

static void
put_number(dop_buf *b, const char *key, uint32_t v)
{
    put_string(b, key, "");
    put_u32(b, TYPE_U32);
    put_u32(b, v);
}

static void
pad_to_alignment(dop_buf *b)
{
    static const char zeros[ALIGN] = {0};
    dop_buf_append(b, zeros, (ALIGN - b->size % ALIGN) % ALIGN);
}

static void
put_tensor(dop_buf *b, const dop_imatrix_entry *e, const char *end, uint32_t cols, uint64_t *at)
{
    put_string(b, e->name, end);
    put_u32(b, 2);
    put_u64(b, cols);
    put_u64(b, e->matrices);
    put_u32(b, F32);
    put_u64(b, *at);
    *at = dop_align_u64(*at + (uint64_t)cols * e->matrices * sizeof(float), ALIGN);
}

void
dop_imatrix_gguf(const dop_imatrix_made *made, const char *dataset, dop_buf *out)
{
    dop_buf *b = out;
    uint64_t at = 0;
    dop_buf_append(b, "GGUF", 4);
    put_u32(b, 3);
    put_u64(b, 2 * (uint64_t)made->n);
    put_u64(b, 4);
    put_string(b, "general.type", "");
    put_u32(b, TYPE_STRING);
    put_string(b, "imatrix", "");
    put_string(b, "imatrix.datasets", "");
    put_u32(b, TYPE_ARRAY);
    put_u32(b, TYPE_STRING);
    put_u64(b, 1);
    put_string(b, dataset, "");
    put_number(b, "imatrix.chunk_count", made->chunks);
    put_number(b, "imatrix.chunk_size", made->chunk_size);
    for (uint32_t i = 0; i < made->n; i++) {
        put_tensor(b, &made->entries[i], ".in_sum2", made->entries[i].cols, &at);
        put_tensor(b, &made->entries[i], ".counts", 1, &at);
    }
    for (uint32_t i = 0; i < made->n; i++) {
        const dop_imatrix_entry *e = &made->entries[i];
        pad_to_alignment(b);
        for (uint64_t k = 0; k < (uint64_t)e->matrices * e->cols; k++)
            dop_buf_append(b, &(float){(float)e->sums[k]}, sizeof(float));
        pad_to_alignment(b);
        for (uint32_t k = 0; k < e->matrices; k++)
            dop_buf_append(b, &(float){(float)e->counts[k]}, sizeof(float));
    }
    pad_to_alignment(b);
}
