/* Writes a model of speech (Whisper) as whisper.cpp's GGML file or, where OUT has no dot, as a directory of Hugging Face with the
 * same values.
 *
 *   speech_model OUT[.bin] like DIR TYPE               the model of a directory, whose tensors have f32, f16 or bf16
 *   speech_model OUT[.bin] SIZE TYPE [KEY=VALUE...]    random values: the same seed, the same bytes
 *
 * TYPE: f32, f16, or for matrices blocks as q8_0 and q5_0, which directories have as the floats that they stand for.  SIZE: tiny
 * (for tests), base, large-v3, turbo.  Keys: hidden, heads, layers, decoder, ffn, bins, rows, ctx, tokens, languages, seed.  Random
 * tokens are the 256 bytes and words of made-up letters. */
#include "base/encoding/languages.h"
#include "base/format/ggml.h"
#include "base/format/safetensors.h"
#include "compiler/pack/quant.h"
#include "ir/interp/interp.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct sizes {
    const char *name;
    uint32_t hidden, heads, layers, decoder, ffn, bins, rows, ctx, tokens, languages, seed;
} sizes;

static const sizes known[] = {
    {"tiny", 64, 4, 2, 2, 0, 80, 100, 64, 300, 99, 1},
    {"base", 512, 8, 6, 6, 0, 80, 1500, 448, 50257, 99, 1},
    {"large-v3", 1280, 20, 32, 32, 0, 128, 1500, 448, 50257, 100, 1},
    {"turbo", 1280, 20, 32, 4, 0, 128, 1500, 448, 50257, 100, 1},
};

typedef struct writer {
    FILE *f;
    bool ggml;
    dop_type type;
    sizes s;
    uint32_t vocab;
    uint64_t random;
    const dop_st_set *from; /* values are those of its tensors; NULL: random ones */
    json_t *header;         /* of safetensors */
    uint64_t at;            /* bytes of its tensors so far */
    int pass;               /* of a directory: 0 lists the tensors, 1 writes them */
} writer;

static void
fail(const char *what, const char *name)
{
    fprintf(stderr, "speech_model: %s %s\n", what, name);
    exit(1);
}

static void
put_u32(writer *w, uint32_t v)
{
    fwrite(&v, sizeof v, 1, w->f);
}

/* Roughly normal: a sum of four equally distributed numbers. */
static float
next_random(writer *w)
{
    uint64_t z = w->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z ^= z >> 27;
    const uint32_t sum =
        (uint32_t)(z & 0xffff) + (uint32_t)(z >> 16 & 0xffff) + (uint32_t)(z >> 32 & 0xffff) + (uint32_t)(z >> 48);
    return ((float)sum / 65536 - 2) * 1.732f;
}

static void
fill(writer *w, const char *hf, uint32_t rank, const uint64_t *shape, float *values, uint64_t n)
{
    if (w->from) {
        const dop_st_tensor *t = dop_st_find(w->from, hf);
        if (!t)
            fail("there is no", hf);
        const dop_type type = dop_st_is(t, "F32") ? DOP_TYPE_f32 : dop_st_is(t, "F16") ? DOP_TYPE_f16 : DOP_TYPE_bf16;
        dop_decode_row(type, t->data, n, values);
        return;
    }
    const bool norm = strstr(hf, "norm") != NULL, bias = strstr(hf, ".bias") != NULL;
    const uint64_t inputs = n / (rank ? shape[0] : 1);
    const float by = norm || bias                    ? 0.1f
                     : strstr(hf, "embed_tokens")    ? 0.05f
                     : strstr(hf, "embed_positions") ? 0.02f
                                                     : 1 / sqrtf((float)inputs);
    for (uint64_t i = 0; i < n; i++)
        values[i] = next_random(w) * by + (norm && !bias ? 1.0f : 0.0f);
}

/* Quantizes a row; q5_0, in which many models of speech are published, is none of the types that the compiler makes. */
static void
quantize(dop_type type, const float *in, uint64_t n, uint8_t *out)
{
    enum { BLOCK = 32, BYTES = 22 };
    if (type != DOP_TYPE_q5_0) {
        if (!dop_quantizable(type))
            fail("nothing makes", dop_type_of(type)->name);
        dop_quantize_row(type, in, NULL, (uint32_t)n, out);
        return;
    }
    for (; n >= BLOCK; n -= BLOCK, in += BLOCK, out += BYTES) {
        float most = 0;
        uint32_t high = 0;
        for (int i = 0; i < BLOCK; i++)
            most = fabsf(in[i]) > fabsf(most) ? in[i] : most;
        const float by = most / -16;
        const uint16_t half = dop_f32_to_f16(by);
        memset(out, 0, BYTES);
        memcpy(out, &half, sizeof half);
        for (int i = 0; i < BLOCK; i++) {
            const float v = by != 0 ? in[i] / by + 16.5f : 16;
            const uint32_t q = v < 0 ? 0 : v > 31 ? 31 : (uint32_t)v;
            out[6 + i % 16] |= (uint8_t)((q & 15) << (i < 16 ? 0 : 4));
            high |= (q >> 4) << i;
        }
        memcpy(out + 2, &high, sizeof high);
    }
}

/* A tensor under both names. */
static void
tensor(writer *w, const char *ggml, const char *hf, uint32_t rank, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t shape[3] = {a, b, c};
    uint64_t n = a * (rank > 1 ? b : 1) * (rank > 2 ? c : 1);
    const bool matrix = rank > 1 && !strstr(hf, "embed_positions"), blocks = dop_type_of(w->type)->block > 1;
    const dop_type stored = !matrix ? DOP_TYPE_f32 : blocks && rank > 2 ? DOP_TYPE_f16 : w->type;
    /* A directory has what the values in blocks are, as floats. */
    const dop_type type = !w->ggml && dop_type_of(stored)->block > 1 ? DOP_TYPE_f32 : stored;
    const uint64_t bytes = n / dop_type_of(type)->block * dop_type_of(type)->bytes;
    if (!w->ggml && w->pass == 0) {
        json_t *dims = json_array();
        for (uint32_t i = 0; i < rank; i++)
            json_array_append_new(dims, json_integer((json_int_t)shape[i]));
        json_object_set_new(w->header, hf,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", type == DOP_TYPE_f32 ? "F32" : "F16", "shape",
                                      dims, "data_offsets", (json_int_t)w->at, (json_int_t)(w->at + bytes)));
        w->at += bytes;
        return;
    }
    float *values = malloc(n * sizeof *values);
    uint8_t *out = malloc(bytes);
    if (!values || !out)
        fail("no memory for", hf);
    fill(w, hf, rank, shape, values, n);
    const size_t row = stored == type ? 0 : b / dop_type_of(stored)->block * dop_type_of(stored)->bytes;
    uint8_t *packed = row ? malloc(row) : NULL;
    for (uint64_t i = 0; i < a && row; i++) {
        quantize(stored, values + i * b, b, packed);
        dop_decode_row(stored, packed, b, values + i * b);
    }
    free(packed);
    if (type == DOP_TYPE_f32)
        memcpy(out, values, bytes);
    else if (type == DOP_TYPE_f16)
        for (uint64_t i = 0; i < n; i++)
            ((uint16_t *)(void *)out)[i] = dop_f32_to_f16(values[i]);
    else
        for (uint64_t i = 0; i < a; i++)
            quantize(type, values + i * b, b, out + bytes / a * i);
    if (w->ggml) {
        const bool conv_bias = strstr(ggml, "conv") && rank == 1;
        put_u32(w, conv_bias ? 2 : rank);
        put_u32(w, (uint32_t)strlen(ggml));
        put_u32(w, (uint32_t)dop_type_of(type)->gguf);
        if (conv_bias)
            put_u32(w, 1);
        for (uint32_t i = rank; i-- > 0;)
            put_u32(w, (uint32_t)shape[i]);
        fwrite(ggml, 1, strlen(ggml), w->f);
    }
    fwrite(out, 1, bytes, w->f);
    free(values);
    free(out);
}

static void
layer_tensor(writer *w, const char *part, uint32_t number, const char *ggml, const char *hf, uint64_t a, uint64_t b)
{
    char one[96], other[128];
    snprintf(one, sizeof one, "%s.blocks.%u.%s", part, number, ggml);
    snprintf(other, sizeof other, "model.%s.layers.%u.%s", part, number, hf);
    tensor(w, one, other, b ? 2 : 1, a, b, 0);
}

static void
attention(writer *w, const char *part, uint32_t i, const char *ggml, const char *hf)
{
    static const char *const rows[][2] = {
        {"query", "q_proj"}, {"key", "k_proj"}, {"value", "v_proj"}, {"out", "out_proj"}};
    const uint64_t d = w->s.hidden;
    char one[64], other[64];
    for (int bias = 0; bias < 2; bias++) {
        snprintf(one, sizeof one, "%s_ln.%s", ggml, bias ? "bias" : "weight");
        snprintf(other, sizeof other, "%s_layer_norm.%s", hf, bias ? "bias" : "weight");
        layer_tensor(w, part, i, one, other, d, 0);
    }
    for (size_t k = 0; k < 4; k++)
        for (int bias = 0; bias < (k == 1 ? 1 : 2); bias++) {
            snprintf(one, sizeof one, "%s.%s.%s", ggml, rows[k][0], bias ? "bias" : "weight");
            snprintf(other, sizeof other, "%s.%s.%s", hf, rows[k][1], bias ? "bias" : "weight");
            layer_tensor(w, part, i, one, other, d, bias ? 0 : d);
        }
}

static void
layer(writer *w, const char *part, uint32_t i)
{
    const uint64_t d = w->s.hidden, f = w->s.ffn;
    attention(w, part, i, "attn", "self_attn");
    if (strcmp(part, "decoder") == 0)
        attention(w, part, i, "cross_attn", "encoder_attn");
    layer_tensor(w, part, i, "mlp_ln.weight", "final_layer_norm.weight", d, 0);
    layer_tensor(w, part, i, "mlp_ln.bias", "final_layer_norm.bias", d, 0);
    layer_tensor(w, part, i, "mlp.0.weight", "fc1.weight", f, d);
    layer_tensor(w, part, i, "mlp.0.bias", "fc1.bias", f, 0);
    layer_tensor(w, part, i, "mlp.2.weight", "fc2.weight", d, f);
    layer_tensor(w, part, i, "mlp.2.bias", "fc2.bias", d, 0);
}

static void
tensors(writer *w)
{
    const sizes *s = &w->s;
    const uint64_t d = s->hidden;
    w->random = s->seed;
    tensor(w, "encoder.positional_embedding", "model.encoder.embed_positions.weight", 2, s->rows, d, 0);
    tensor(w, "encoder.conv1.weight", "model.encoder.conv1.weight", 3, d, s->bins, 3);
    tensor(w, "encoder.conv1.bias", "model.encoder.conv1.bias", 1, d, 0, 0);
    tensor(w, "encoder.conv2.weight", "model.encoder.conv2.weight", 3, d, d, 3);
    tensor(w, "encoder.conv2.bias", "model.encoder.conv2.bias", 1, d, 0, 0);
    for (uint32_t i = 0; i < s->layers; i++)
        layer(w, "encoder", i);
    tensor(w, "encoder.ln_post.weight", "model.encoder.layer_norm.weight", 1, d, 0, 0);
    tensor(w, "encoder.ln_post.bias", "model.encoder.layer_norm.bias", 1, d, 0, 0);
    tensor(w, "decoder.positional_embedding", "model.decoder.embed_positions.weight", 2, s->ctx, d, 0);
    tensor(w, "decoder.token_embedding.weight", "model.decoder.embed_tokens.weight", 2, w->vocab, d, 0);
    for (uint32_t i = 0; i < s->decoder; i++)
        layer(w, "decoder", i);
    tensor(w, "decoder.ln.weight", "model.decoder.layer_norm.weight", 1, d, 0, 0);
    tensor(w, "decoder.ln.bias", "model.decoder.layer_norm.bias", 1, d, 0, 0);
}

/* The bytes of a token: one byte, or a blank and letters; the last one of the published size is empty. */
static size_t
token_bytes(uint32_t id, char out[16])
{
    size_t n = 0;
    if (id < 256) {
        out[0] = (char)id;
        return 1;
    }
    if (id == 50256)
        return 0;
    out[n++] = ' ';
    for (uint32_t v = id - 256 + 26; v > 0; v /= 26)
        out[n++] = (char)('a' + v % 26);
    return n;
}

/* Slaney's scale: linear up to 1000 Hz, logarithmic above it. */
static double
hz_of(double mel)
{
    return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

/* The triangles of the mel filters, for whisper.cpp. */
static void
write_filters(writer *w)
{
    const double step = (15 + log(8.0) * 27 / log(6.4)) / (w->s.bins + 1);
    for (uint32_t i = 0; i < w->s.bins; i++)
        for (uint32_t k = 0; k < 201; k++) {
            const double low = hz_of(i * step), mid = hz_of((i + 1) * step), high = hz_of((i + 2) * step),
                         hz = k * 40.0;
            const double up = (hz - low) / (mid - low), down = (high - hz) / (high - mid);
            const float value = (float)(fmax(0, fmin(up, down)) * 2 / (high - low));
            fwrite(&value, sizeof value, 1, w->f);
        }
}

static void
write_ggml(writer *w)
{
    const sizes *s = &w->s;
    const uint32_t ftype = w->type == DOP_TYPE_f32    ? 0
                           : w->type == DOP_TYPE_f16  ? 1
                           : w->type == DOP_TYPE_q8_0 ? 1007
                                                      : 1008;
    const uint32_t head[] = {0x67676d6c, w->vocab, s->rows,    s->hidden, s->heads, s->layers, s->ctx,
                             s->hidden,  s->heads, s->decoder, s->bins,   ftype,    s->bins,   201};
    fwrite(head, sizeof head, 1, w->f);
    write_filters(w);
    put_u32(w, s->tokens);
    for (uint32_t i = 0; i < s->tokens; i++) {
        char bytes[16];
        const size_t n = token_bytes(i, bytes);
        put_u32(w, (uint32_t)n);
        fwrite(bytes, 1, n, w->f);
    }
    tensors(w);
}

static void
dump(const char *dir, const char *name, json_t *root)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (json_dump_file(root, path, JSON_INDENT(1)) != 0)
        fail("cannot write", path);
    json_decref(root);
}

static void
write_tokenizer(const writer *w, const char *dir)
{
    static const char *const others[] = {"translate",   "transcribe", "startoflm",
                                         "startofprev", "nospeech",   "notimestamps"};
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint32_t first = w->s.tokens;
    char path[512], text[32];
    snprintf(path, sizeof path, "%s/multilingual.tiktoken", dir);
    FILE *f = fopen(path, "wb");
    for (uint32_t i = 0; f && i < w->s.tokens; i++) {
        char t[19] = "";
        const size_t n = token_bytes(i, t);
        for (size_t k = 0; k < n; k += 3) {
            const uint32_t v = (uint32_t)(uint8_t)t[k] << 16 | (k + 1 < n ? (uint32_t)(uint8_t)t[k + 1] << 8 : 0) |
                               (k + 2 < n ? (uint8_t)t[k + 2] : 0);
            fprintf(f, "%c%c%c%c", digits[v >> 18], digits[v >> 12 & 63], k + 1 < n ? digits[v >> 6 & 63] : '=',
                    k + 2 < n ? digits[v & 63] : '=');
        }
        if (n)
            fprintf(f, " %u\n", i);
    }
    if (!f || fclose(f) != 0)
        fail("cannot write", path);
    json_t *added = json_object();
    for (uint32_t id = first; id < w->vocab; id++) {
        const uint32_t k = id - first, l = w->s.languages;
        const char *name = k == 0      ? "endoftext"
                           : k == 1    ? "startoftranscript"
                           : k < 2 + l ? dop_language_at(k - 2)->code
                           : k < 8 + l ? others[k - 2 - l]
                                       : NULL;
        char key[16];
        snprintf(key, sizeof key, "%u", id);
        if (name)
            snprintf(text, sizeof text, "<|%s|>", name);
        else
            snprintf(text, sizeof text, "<|%u.%02u|>", (k - 8 - l) / 50, (k - 8 - l) % 50 * 2);
        json_object_set_new(added, key, json_pack("{s:s, s:b}", "content", text, "special", 1));
    }
    dump(dir, "tokenizer_config.json",
         json_pack("{s:s, s:o}", "pat_str",
                   "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                   "added_tokens_decoder", added));
}

static void
write_directory(writer *w, const char *dir)
{
    const sizes *s = &w->s;
    char path[512];
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        fail("cannot make", dir);
    dump(dir, "config.json",
         json_pack("{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
                   "architectures", "WhisperForConditionalGeneration", "model_type", "whisper", "activation_function",
                   "gelu", "vocab_size", (int)w->vocab, "d_model", (int)s->hidden, "num_mel_bins", (int)s->bins,
                   "max_source_positions", (int)s->rows, "max_target_positions", (int)s->ctx, "encoder_layers",
                   (int)s->layers, "encoder_attention_heads", (int)s->heads, "encoder_ffn_dim", (int)s->ffn,
                   "decoder_layers", (int)s->decoder, "decoder_attention_heads", (int)s->heads, "decoder_ffn_dim",
                   (int)s->ffn, "eos_token_id", (int)s->tokens, "decoder_start_token_id", (int)s->tokens + 1));
    write_tokenizer(w, dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (!(w->f = fopen(path, "wb")))
        fail("cannot write", path);
    w->header = json_object();
    tensors(w);
    char *text = json_dumps(w->header, JSON_COMPACT);
    const uint64_t n = strlen(text), whole = (n + 7) / 8 * 8;
    fwrite(&whole, sizeof whole, 1, w->f);
    fprintf(w->f, "%s%*s", text, (int)(whole - n), "");
    free(text);
    json_decref(w->header);
    w->pass = 1;
    tensors(w);
}

static uint32_t
number_of(const json_t *config, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(config, key));
}

/* The sizes of the model in a directory. */
static sizes
read_sizes(const char *dir)
{
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", dir);
    json_t *c = json_load_file(path, 0, NULL);
    const sizes s = {.hidden = number_of(c, "d_model"),
                     .heads = number_of(c, "encoder_attention_heads"),
                     .layers = number_of(c, "encoder_layers"),
                     .decoder = number_of(c, "decoder_layers"),
                     .ffn = number_of(c, "encoder_ffn_dim"),
                     .bins = number_of(c, "num_mel_bins"),
                     .rows = number_of(c, "max_source_positions"),
                     .ctx = number_of(c, "max_target_positions"),
                     .tokens = number_of(c, "vocab_size")};
    json_decref(c);
    return s;
}

static void
set_size(sizes *s, const char *arg)
{
    static const struct {
        const char *key;
        size_t at;
    } keys[] = {{"hidden", offsetof(sizes, hidden)}, {"heads", offsetof(sizes, heads)},
                {"layers", offsetof(sizes, layers)}, {"decoder", offsetof(sizes, decoder)},
                {"ffn", offsetof(sizes, ffn)},       {"bins", offsetof(sizes, bins)},
                {"rows", offsetof(sizes, rows)},     {"ctx", offsetof(sizes, ctx)},
                {"tokens", offsetof(sizes, tokens)}, {"languages", offsetof(sizes, languages)},
                {"seed", offsetof(sizes, seed)}};
    const char *is = strchr(arg, '=');
    for (size_t i = 0; is && i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i].key) == (size_t)(is - arg) && strncmp(keys[i].key, arg, (size_t)(is - arg)) == 0) {
            *(uint32_t *)(void *)((char *)s + keys[i].at) = (uint32_t)strtoul(is + 1, NULL, 10);
            return;
        }
    fail("no size is", arg);
}

int
main(int argc, char **argv)
{
    enum { OTHERS = 8, TIMES = 1501 };
    const bool like = argc == 5 && strcmp(argv[2], "like") == 0;
    writer w = {0};
    dop_arena arena;
    dop_st_set set;
    dop_map *maps = NULL;
    uint32_t n_maps = 0;
    dop_diag diag = {0};
    const char *type = like ? argv[4] : argc > 3 ? argv[3] : "";
    dop_arena_init(&arena);
    if (!dop_type_parse(type, strlen(type), &w.type)) {
        fprintf(stderr, "usage: speech_model OUT[.bin] like DIR TYPE | SIZE TYPE [KEY=VALUE...]\n");
        return 2;
    }
    const char *name = strrchr(argv[1], '/') ? strrchr(argv[1], '/') : argv[1];
    w.ggml = strchr(name, '.') != NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known && !like; i++)
        if (strcmp(known[i].name, argv[2]) == 0)
            w.s = known[i];
    for (int i = 4; i < argc && !like; i++)
        set_size(&w.s, argv[i]);
    if (like) {
        w.s = read_sizes(argv[3]);
        if (dop_st_open_dir(argv[3], &arena, &diag, &set, &maps, &n_maps) != DOP_OK)
            fail("cannot read", argv[3]);
        w.from = &set;
    }
    if (w.s.hidden == 0)
        fail("no size is", argv[2]);
    w.s.ffn = w.s.ffn ? w.s.ffn : 4 * w.s.hidden;
    w.vocab = w.s.tokens + (like ? 0 : w.s.languages + OTHERS + TIMES);
    if (w.ggml && !(w.f = fopen(argv[1], "wb")))
        fail("cannot write", argv[1]);
    if (w.ggml)
        write_ggml(&w);
    else
        write_directory(&w, argv[1]);
    if (ferror(w.f) || fclose(w.f) != 0)
        fail("cannot write", argv[1]);
    for (uint32_t i = 0; i < n_maps; i++)
        dop_map_close(&maps[i]);
    free(maps);
    dop_arena_finish(&arena);
    return 0;
}
