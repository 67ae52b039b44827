/* Models of every format, from their files to the graph.  The bytes of weights are zeros that nobody has to invent: a file is
 * as long as its description says, up to a limit. */
#include "base/format/ggml.h"
#include "base/format/gguf.h"
#include "base/format/safetensors.h"
#include "compiler/schedule/kernel_path.h"
#include "frontend/build/build.h"
#include "frontend/build/build_vision.h"
#include "frontend/facts/import.h"
#include "frontend/gguf/mmproj.h"
#include "frontend/hf/vision.h"
#include "ir/syntax/text.h"
#include "tests/fuzz/fuzz.h"
#include "text/import/tokenizer_ggml.h"
#include "text/import/tokenizer_gguf.h"
#include "text/import/tokenizer_hf.h"

#include <jansson.h>

enum { MOST_BYTES = 8 << 20, MOST_NODES_LAYERS = 64 };

/* The graph of a model that was read. */
static void
build(const dop_checkpoint *m, dop_arena *arena)
{
    static const dop_phase phases[] = {DOP_PHASE_DECODE, DOP_PHASE_PREFILL};
    for (size_t i = 0; i < sizeof phases / sizeof *phases && m->arch.n_layers <= MOST_NODES_LAYERS; i++) {
        const bool encodes = m->arch.encoder.used;
        const dop_build_options opt = {.phase = encodes ? DOP_PHASE_SCORE : phases[i],
                                       .max_t = i ? 8 : 1,
                                       .max_s = m->arch.ctx_train < 64 ? m->arch.ctx_train : 64,
                                       .kv_type = DOP_TYPE_f16,
                                       .act_type = DOP_TYPE_f32,
                                       .encodes = encodes};
        dop_graph g;
        dop_diag diag = {0};
        dop_status st = dop_build_graph(m, &opt, arena, &diag, &g);
        fuzz_check(st, &diag);
        if (st == DOP_OK)
            fuzz_check(dop_graph_verify(&g, "fuzz", &diag), &diag);
    }
}

static void
load(const char *path)
{
    dop_arena arena;
    dop_checkpoint m;
    dop_diag diag = {0};
    dop_arena_init(&arena);
    dop_status st = dop_checkpoint_load(path, &arena, &diag, &m);
    fuzz_check(st, &diag);
    if (st == DOP_OK) {
        if (!dop_arch_is_drafter(&m.arch))
            build(&m, &arena);
        dop_checkpoint_finish(&m);
    }
    dop_arena_finish(&arena);
}

/* The file as it is; and, where it is one, its tokenizer, and the model with zeros for what is missing behind it. */
void
fuzz_gguf(const uint8_t *data, size_t size)
{
    dop_gguf g;
    dop_tokenizer *t = NULL;
    dop_diag diag = {0};
    dop_status st = dop_gguf_open_bytes("fuzz", data, size, &diag, &g);
    fuzz_check(st, &diag);
    if (st == DOP_OK) {
        for (size_t i = 0; i < g.tensor_count; i++)
            require(g.tensors[i].offset <= size && g.tensors[i].bytes <= size - g.tensors[i].offset);
        fuzz_check(dop_tokenizer_from_gguf(&g, &diag, &t), &diag);
        dop_tokenizer_destroy(t);
        dop_gguf_close(&g);
    }
    load(fuzz_file(data, size, MOST_BYTES));
}

/* The file as it is; and the model with zeros for what is missing behind it. */
void
fuzz_ggml(const uint8_t *data, size_t size)
{
    dop_arena arena;
    dop_ggml g;
    dop_diag diag = {0};
    dop_arena_init(&arena);
    const dop_status st = dop_ggml_parse("fuzz", data, size, &arena, &diag, &g);
    fuzz_check(st, &diag);
    for (uint32_t i = 0; i < g.n_tensors && st == DOP_OK; i++)
        require(g.tensors[i].data >= data && g.tensors[i].bytes <= (size_t)(data + size - g.tensors[i].data));
    dop_arena_finish(&arena);
    if (st != DOP_OK) /* as both of these say after they have read a file */
        return;
    dop_tokenizer *t = NULL;
    dop_diag why = {0};
    const char *path = fuzz_file(data, size, 0);
    fuzz_check(dop_tokenizer_from_ggml(path, &why, &t), &why);
    dop_tokenizer_destroy(t);
    load(path);
}

static void
put_u64(uint8_t out[8], uint64_t v)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(v >> (8 * i));
}

/* Where the last tensor of a header ends. */
static uint64_t
end_of(const char *text, size_t n)
{
    uint64_t end = 0;
    json_t *root = json_loadb(text, n, 0, NULL), *v;
    const char *key;
    json_object_foreach(root, key, v)
    {
        json_int_t to = json_integer_value(json_array_get(json_object_get(v, "data_offsets"), 1));
        if (to > 0 && (uint64_t)to > end)
            end = (uint64_t)to;
    }
    json_decref(root);
    return end;
}

/* config.json, a 0 byte, and the header of model.safetensors. */
/* A folder of config.json and model.safetensors from such an input. */
static const char *
hf_folder(const uint8_t *data, size_t size)
{
    size_t n = size ? strnlen((const char *)data, size) : 0, n_header = n < size ? size - n - 1 : 0;
    const char *header = (const char *)data + n + 1, *dir = NULL;
    uint8_t *file = malloc(n_header + 8);
    require(file != NULL);
    put_u64(file, n_header);
    if (n_header)
        memcpy(file + 8, header, n_header);
    uint64_t end = n_header ? end_of(header, n_header) : 0;
    fuzz_file_in("config.json", data, n, 0, &dir);
    fuzz_file_in("model.safetensors", file, n_header + 8, n_header + 8 + (end < MOST_BYTES ? end : 0), &dir);
    free(file);
    return dir;
}

void
fuzz_hf(const uint8_t *data, size_t size)
{
    load(hf_folder(data, size));
}

/* The vision part of such a model: facts, weights and graphs. */
void
fuzz_hf_vision(const uint8_t *data, size_t size)
{
    const dop_vision_options opt = {.max_t = 8, .act_type = DOP_TYPE_f16};
    const char *dir = hf_folder(data, size);
    dop_arena arena;
    dop_diag diag = {0};
    json_t *root = NULL;
    dop_json config = {0};
    dop_st_set set = {0};
    dop_map *maps = NULL;
    dop_graph g;
    dop_vision_model m = {0};
    uint32_t n_maps = 0;
    bool present = false;
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", dir);
    dop_arena_init(&arena);
    dop_status st = dop_json_decode_file(&(dop_json_how){.path = path}, &diag, &root);
    if (st == DOP_OK)
        st = dop_json_root(root, path, &diag, &config);
    if (st == DOP_OK)
        st = dop_st_open_dir(dir, &arena, &diag, &set, &maps, &n_maps);
    if (st == DOP_OK)
        st = dop_hf_vision(&config, &set, &arena, &diag, &present, &m);
    if (st == DOP_OK && present)
        st = dop_build_vision(&m, &opt, &arena, &diag, &g);
    if (st == DOP_OK && present)
        st = dop_graph_verify(&g, "vision", &diag);
    for (uint32_t i = 0; st == DOP_OK && present && i <= m.facts.n_deep; i++)
        st = dop_build_features(&m, i, &opt, &arena, &diag, &g);
    fuzz_check(st, &diag);
    for (uint32_t i = 0; i < n_maps; i++)
        dop_map_close(&maps[i]);
    free(maps);
    json_decref(root);
    dop_arena_finish(&arena);
}

/* The vision part of a GGUF model: facts, image processor, weights and graphs.  Its own metadata is also the text model's vocabulary. */
void
fuzz_mmproj(const uint8_t *data, size_t size)
{
    const dop_vision_options opt = {.max_t = 8, .act_type = DOP_TYPE_f16};
    dop_arena arena;
    dop_diag diag = {0};
    dop_graph g;
    dop_arena_init(&arena);
    char *path = (char *)(uintptr_t)fuzz_file(data, size, MOST_BYTES);
    dop_checkpoint m = {.arena = &arena, .tokenizer_gguf_path = path};
    dop_status st = dop_import_mmproj(path, &diag, &m);
    if (st == DOP_OK) {
        const dop_vision_model v = {.facts = *m.vision, .weights = m.weights};
        st = dop_build_vision(&v, &opt, &arena, &diag, &g);
        if (st == DOP_OK)
            st = dop_graph_verify(&g, "vision", &diag);
        for (uint32_t i = 0; st == DOP_OK && i <= v.facts.n_deep; i++)
            st = dop_build_features(&v, i, &opt, &arena, &diag, &g);
    }
    fuzz_check(st, &diag);
    dop_checkpoint_finish(&m);
    dop_arena_finish(&arena);
}

/* What stands beside a model: parts that a 0 byte ends, one for each file.  The tokenizer and the one shard are sound. */
void
fuzz_hf_beside(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tokenizer_config.json", "generation_config.json", "added_tokens.json",
                                        "chat_template.jinja", "model.safetensors.index.json"};
    static const char words[] =
        "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true}],\"pre_tokenizer\":"
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},\"decoder\":{\"type\":"
        "\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"<s>\":0,\"a\":1,\"b\":2},\"merges\":[]}}";
    static const char shard[] =
        "\x38\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  \0\0\0\0\0\0\0\0";
    const char *dir = NULL;
    dop_tokenizer *t = NULL;
    dop_diag diag = {0}, why = {0};
    dop_arena arena;
    dop_st_set set;
    dop_map *maps = NULL;
    uint32_t n_maps = 0;
    fuzz_file_in("tokenizer.json", words, sizeof words - 1, 0, &dir);
    fuzz_file_in("a.safetensors", shard, sizeof shard - 1, 0, &dir);
    for (size_t i = 0, at = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = at < size ? strnlen((const char *)data + at, size - at) : 0;
        fuzz_file_gone(names[i]);
        if (n > 0)
            fuzz_file_in(names[i], data + at, n, 0, &dir);
        at += n + (at < size);
    }
    fuzz_check(dop_tokenizer_from_hf_dir(dir, &diag, &t), &diag);
    dop_tokenizer_destroy(t);
    dop_arena_init(&arena);
    fuzz_check(dop_st_open_dir(dir, &arena, &why, &set, &maps, &n_maps), &why);
    for (uint32_t i = 0; i < n_maps; i++)
        dop_map_close(&maps[i]);
    free(maps);
    dop_arena_finish(&arena);
}

void
fuzz_safetensors(const uint8_t *data, size_t size)
{
    dop_arena arena;
    dop_st_set set;
    dop_diag diag = {0};
    const dop_map map = {.data = data, .size = size};
    dop_arena_init(&arena);
    dop_status st = dop_st_parse("fuzz", &map, &arena, &diag, &set);
    fuzz_check(st, &diag);
    for (uint32_t i = 0; st == DOP_OK && i < set.n; i++) {
        const dop_st_tensor *t = &set.tensors[i];
        char text[128];
        require(t->bytes == 0 ||
                (t->data >= data && t->data <= data + size && t->bytes <= (size_t)(data + size - t->data)));
        dop_st_shape_text(t, text, sizeof text);
        require(dop_st_find(&set, t->name) == t);
    }
    dop_arena_finish(&arena);
}

/* manifest.json, whose shards shard_0.bin and shard_1.bin are zeros; nobody checks hashes that are not sha256. */
void
fuzz_rdrr(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"shard_0.bin", "shard_1.bin"};
    const char *dir = NULL;
    json_t *root = json_loadb((const char *)data, size, 0, NULL);
    const json_t *shards = json_object_get(root, "shards");
    fuzz_file_in("manifest.json", data, size, 0, &dir);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_int_t n = json_integer_value(json_object_get(json_array_get(shards, i), "size"));
        fuzz_file_in(names[i], NULL, 0, n > 0 && n < MOST_BYTES ? (size_t)n : 0, &dir);
    }
    json_decref(root);
    load(dir);
    dop_arena arena;
    dop_checkpoint m;
    dop_kernel_path p;
    dop_diag diag = {0};
    dop_arena_init(&arena);
    if (dop_checkpoint_load(dir, &arena, &diag, &m) == DOP_OK) {
        fuzz_check(dop_kernel_path_of_model(&m, ".", &arena, &diag, &p), &diag);
        dop_checkpoint_finish(&m);
    }
    dop_arena_finish(&arena);
}
