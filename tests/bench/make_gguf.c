/* Writes a GGUF file of a real model's shape with random weights, for speed work: the values mean nothing, the sizes
 * are right, and equal arguments give equal bytes.
 *
 *   make_gguf SHAPE TYPE OUT.gguf [SEED|empty]
 *
 * TYPE: f16 q8_0 q4_0 q4_k.  As llama.cpp's own quantizer does it, embeddings of the 4-bit ones are q6_k, and rows that
 * whole blocks do not fill fall back to q8_0.  There is no vocabulary: prompts are token ids.  With `empty` the weights
 * are a hole in the file, which takes no room on disk: for what depends on sizes alone.
 *
 * Build: cc -O2 -D_GNU_SOURCE -I ROOT make_gguf.c ROOT/runtime/base.c */
#include "runtime/base.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct shape {
    const char *name, *arch;
    uint32_t hidden, ffn, layers, heads, kv_heads, head_dim, vocab;
    bool tied;
    float rope_base;
} shape;

static const shape shapes[] = {
    {"gemma3-1b", "gemma3", 1152, 6912, 26, 4, 1, 256, 262144, true, 1e6f},
    {"llama3.2-1b", "llama", 2048, 8192, 16, 32, 8, 64, 128256, true, 5e5f},
    {"llama3.1-8b", "llama", 4096, 14336, 32, 32, 8, 128, 128256, false, 5e5f},
    {"qwen3-0.6b", "qwen3", 1024, 3072, 28, 16, 8, 128, 151936, true, 1e6f},
    {"smollm2-1.7b", "llama", 2048, 8192, 24, 32, 32, 64, 49152, true, 1.3e5f},
    {"smollm2-135m", "llama", 576, 1536, 30, 9, 3, 64, 49152, true, 1e5f},
    {"deep-200", "llama", 64, 128, 200, 4, 2, 16, 256, true, 1e4f}, /* tiny layers, for the time that compiling takes */
    {"deep-1024", "llama", 64, 128, 1024, 4, 2, 16, 256, true, 1e4f},
    {"phi4-mini", "llama", 3072, 8192, 32, 24, 8, 128, 200064, true, 1e4f},
};

/* Number in the file, values and bytes of a block: ggml's types. */
typedef struct storage {
    const char *name;
    uint32_t id, values, bytes;
} storage;

static const storage storages[] = {
    {"f32", 0, 1, 4},    {"f16", 1, 1, 2},       {"q8_0", 8, 32, 34},
    {"q4_0", 2, 32, 18}, {"q4_k", 12, 256, 144}, {"q6_k", 14, 256, 210},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0], N_STORAGES = sizeof storages / sizeof storages[0] };
enum { MAX_TENSORS = 16384, TABLE = 65536 };

typedef struct tensor {
    char name[64];
    const storage *type;
    uint64_t cols, rows; /* rows == 0: a vector */
} tensor;

typedef struct writer {
    FILE *f;
    const shape *shape;
    const storage *type, *embedding;
    tensor tensors[MAX_TENSORS];
    size_t n_tensors;
    dop_buf keys;
    uint64_t n_keys, random;
    int16_t bell[TABLE]; /* a sum of four uniform draws: close to normal, exact on every machine */
} writer;

/* splitmix64 */
static uint64_t
draw(writer *w)
{
    uint64_t z = w->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static const storage *
find_storage(const char *name)
{
    for (size_t i = 0; i < N_STORAGES; i++)
        if (strcmp(storages[i].name, name) == 0)
            return &storages[i];
    return NULL;
}

static void
put_text(dop_buf *b, const char *text)
{
    uint64_t n = strlen(text);
    dop_buf_append(b, &n, sizeof n);
    dop_buf_append(b, text, n);
}

/* A key; "%s." in front of those of the architecture. */
static void
put_key(writer *w, const char *prefix, const char *name, uint32_t type)
{
    char key[96];
    snprintf(key, sizeof key, "%s%s%s", prefix, prefix[0] ? "." : "", name);
    put_text(&w->keys, key);
    dop_buf_append(&w->keys, &type, sizeof type);
    w->n_keys++;
}

static void
key_u32(writer *w, const char *prefix, const char *name, uint32_t value)
{
    put_key(w, prefix, name, 4);
    dop_buf_append(&w->keys, &value, sizeof value);
}

static void
key_f32(writer *w, const char *prefix, const char *name, float value)
{
    put_key(w, prefix, name, 6);
    dop_buf_append(&w->keys, &value, sizeof value);
}

static void
key_text(writer *w, const char *name, const char *value)
{
    put_key(w, "", name, 8);
    put_text(&w->keys, value);
}

static void
put_keys(writer *w)
{
    const shape *s = w->shape;
    const char *a = s->arch;
    key_text(w, "general.architecture", a);
    key_text(w, "general.name", s->name);
    key_u32(w, "", "general.quantization_version", 2);
    key_u32(w, a, "context_length", 32768);
    key_u32(w, a, "embedding_length", s->hidden);
    key_u32(w, a, "block_count", s->layers);
    key_u32(w, a, "feed_forward_length", s->ffn);
    key_u32(w, a, "attention.head_count", s->heads);
    key_u32(w, a, "attention.head_count_kv", s->kv_heads);
    key_f32(w, a, "attention.layer_norm_rms_epsilon", 1e-6f);
    key_u32(w, a, "attention.key_length", s->head_dim);
    key_u32(w, a, "attention.value_length", s->head_dim);
    key_u32(w, a, "rope.dimension_count", s->head_dim);
    key_f32(w, a, "rope.freq_base", s->rope_base);
    key_u32(w, a, "vocab_size", s->vocab);
    if (strcmp(a, "gemma3") == 0)
        key_u32(w, a, "attention.sliding_window", 512);
    key_text(w, "tokenizer.ggml.model", "no_vocab");
}

/* layer < 0: none. */
static void
add_tensor(writer *w, int layer, const char *name, const storage *type, uint64_t cols, uint64_t rows)
{
    tensor *t = &w->tensors[w->n_tensors++];
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s.weight", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s.weight", layer, name);
    t->type = cols % type->values == 0 ? type : find_storage(cols % 32 == 0 ? "q8_0" : "f16");
    t->cols = cols;
    t->rows = rows;
}

static void
add_tensors(writer *w)
{
    const shape *s = w->shape;
    const storage *f32 = find_storage("f32");
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    bool is_gemma = strcmp(s->arch, "gemma3") == 0, head_norms = is_gemma || strcmp(s->arch, "qwen3") == 0;
    add_tensor(w, -1, "token_embd", w->embedding, s->hidden, s->vocab);
    add_tensor(w, -1, "output_norm", f32, s->hidden, 0);
    if (!s->tied)
        add_tensor(w, -1, "output", w->embedding, s->hidden, s->vocab);
    for (int i = 0; i < (int)s->layers; i++) {
        add_tensor(w, i, "attn_norm", f32, s->hidden, 0);
        add_tensor(w, i, "attn_q", w->type, s->hidden, q);
        add_tensor(w, i, "attn_k", w->type, s->hidden, kv);
        add_tensor(w, i, "attn_v", w->type, s->hidden, kv);
        add_tensor(w, i, "attn_output", w->type, q, s->hidden);
        if (head_norms) {
            add_tensor(w, i, "attn_q_norm", f32, s->head_dim, 0);
            add_tensor(w, i, "attn_k_norm", f32, s->head_dim, 0);
        }
        if (is_gemma) {
            add_tensor(w, i, "post_attention_norm", f32, s->hidden, 0);
            add_tensor(w, i, "post_ffw_norm", f32, s->hidden, 0);
        }
        add_tensor(w, i, "ffn_norm", f32, s->hidden, 0);
        add_tensor(w, i, "ffn_gate", w->type, s->hidden, s->ffn);
        add_tensor(w, i, "ffn_up", w->type, s->hidden, s->ffn);
        add_tensor(w, i, "ffn_down", w->type, s->ffn, s->hidden);
    }
}

static uint64_t
tensor_bytes(const tensor *t)
{
    return (t->rows ? t->rows : 1) * t->cols / t->type->values * t->type->bytes;
}

static void
put_half(uint8_t *at, double value)
{
    uint16_t h = dop_f32_to_f16((float)value);
    memcpy(at, &h, sizeof h);
}

/* One row: random bits with scales that give a standard deviation of about 1 / sqrt(cols). */
static void
fill_row(writer *w, const tensor *t, uint8_t *row)
{
    const storage *s = t->type;
    double scale = 1 / sqrt((double)t->cols);
    if (strcmp(s->name, "f32") == 0) { /* only norms */
        const float one = 1;
        for (uint64_t i = 0; i < t->cols; i++)
            memcpy(row + 4 * i, &one, sizeof one);
        return;
    }
    if (strcmp(s->name, "f16") == 0) {
        /* The draws' deviation is 32768 / sqrt(3), summed over four and divided by four. */
        double unit = scale * sqrt(12.0) / 32768;
        for (uint64_t i = 0; i < t->cols; i++)
            put_half(row + 2 * i, unit * w->bell[draw(w) % TABLE]);
        return;
    }
    uint64_t n = t->cols / s->values;
    for (uint64_t i = 0; i < n * s->bytes; i += 8) {
        uint64_t bits = draw(w), left = n * s->bytes - i;
        memcpy(row + i, &bits, left < 8 ? left : 8);
    }
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *block = row + i * s->bytes;
        if (strcmp(s->name, "q8_0") == 0)
            put_half(block, scale / 74);
        else if (strcmp(s->name, "q4_0") == 0)
            put_half(block, scale / 4.6);
        else if (strcmp(s->name, "q6_k") == 0)
            put_half(block + 208, scale / 18 / 74);
        else { /* q4_k: scale and minimum */
            put_half(block, scale / 4.6 / 32);
            put_half(block + 2, scale * 1.6 / 32);
        }
    }
}

static bool
put_zeros(FILE *f, uint64_t n)
{
    for (; n > 0; n--)
        if (fputc(0, f) == EOF)
            return false;
    return true;
}

static bool
write_header(writer *w)
{
    dop_buf b = {0};
    const uint32_t version = 3;
    const uint64_t n_tensors = w->n_tensors;
    uint64_t offset = 0;
    put_keys(w);
    dop_buf_append(&b, "GGUF", 4);
    dop_buf_append(&b, &version, sizeof version);
    dop_buf_append(&b, &n_tensors, sizeof n_tensors);
    dop_buf_append(&b, &w->n_keys, sizeof w->n_keys);
    dop_buf_append(&b, w->keys.data, w->keys.size);
    for (size_t i = 0; i < w->n_tensors; i++) {
        const tensor *t = &w->tensors[i];
        const uint32_t n_dims = t->rows ? 2 : 1;
        put_text(&b, t->name);
        dop_buf_append(&b, &n_dims, sizeof n_dims);
        dop_buf_append(&b, &t->cols, sizeof t->cols);
        if (t->rows)
            dop_buf_append(&b, &t->rows, sizeof t->rows);
        dop_buf_append(&b, &t->type->id, sizeof t->type->id);
        dop_buf_append(&b, &offset, sizeof offset);
        offset += dop_align_u64(tensor_bytes(t), 32);
    }
    dop_buf_align(&b, 32);
    bool ok = !b.failed && !w->keys.failed && fwrite(b.data, 1, b.size, w->f) == b.size;
    dop_buf_finish(&b);
    return ok;
}

static bool
write_weights(writer *w)
{
    for (size_t i = 0; i < TABLE; i++) {
        uint64_t bits = draw(w);
        int32_t sum = 0;
        for (int k = 0; k < 4; k++)
            sum += (int16_t)(uint16_t)(bits >> 16 * k);
        w->bell[i] = (int16_t)(sum / 4);
    }
    bool ok = true;
    for (size_t i = 0; i < w->n_tensors && ok; i++) {
        const tensor *t = &w->tensors[i];
        size_t row_bytes = (size_t)(t->cols / t->type->values * t->type->bytes);
        uint8_t *row = malloc(row_bytes);
        ok = row != NULL;
        for (uint64_t r = 0; r < (t->rows ? t->rows : 1) && ok; r++) {
            fill_row(w, t, row);
            ok = fwrite(row, 1, row_bytes, w->f) == row_bytes;
        }
        free(row);
        uint64_t bytes = tensor_bytes(t);
        ok = ok && put_zeros(w->f, dop_align_u64(bytes, 32) - bytes);
    }
    return ok;
}

static bool
leave_hole(writer *w)
{
    off_t size = ftello(w->f);
    for (size_t i = 0; i < w->n_tensors; i++)
        size += (off_t)dop_align_u64(tensor_bytes(&w->tensors[i]), 32);
    return fflush(w->f) == 0 && ftruncate(fileno(w->f), size) == 0;
}

static int
usage(void)
{
    fprintf(stderr, "usage: make_gguf SHAPE f16|q8_0|q4_0|q4_k OUT.gguf [SEED|empty]\nshapes:");
    for (size_t i = 0; i < N_SHAPES; i++)
        fprintf(stderr, " %s", shapes[i].name);
    fprintf(stderr, "\n");
    return 2;
}

int
main(int argc, char **argv)
{
    writer *w = calloc(1, sizeof *w);
    if (!w || argc < 4 || argc > 5) {
        free(w);
        return usage();
    }
    for (size_t i = 0; i < N_SHAPES; i++)
        if (strcmp(shapes[i].name, argv[1]) == 0)
            w->shape = &shapes[i];
    w->type = find_storage(argv[2]);
    if (!w->shape || !w->type || strcmp(argv[2], "f32") == 0 || strcmp(argv[2], "q6_k") == 0) {
        free(w);
        return usage();
    }
    w->embedding = strncmp(argv[2], "q4", 2) == 0 ? find_storage("q6_k") : w->type;
    w->random = argc > 4 ? strtoull(argv[4], NULL, 10) : 7;
    w->f = fopen(argv[3], "wbe");
    add_tensors(w);
    bool empty = argc > 4 && strcmp(argv[4], "empty") == 0;
    bool ok = w->f && write_header(w) && (empty ? leave_hole(w) : write_weights(w));
    if (w->f)
        ok = fclose(w->f) == 0 && ok;
    if (!ok)
        fprintf(stderr, "make_gguf: %s: %s\n", argv[3], strerror(errno));
    dop_buf_finish(&w->keys);
    free(w);
    return ok ? 0 : 1;
}
