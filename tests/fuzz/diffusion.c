/* Models that draw, in one file, and their adapters. */
#include "base/format/adapter.h"
#include "frontend/adapter_places.h"
#include "frontend/build/build_diffusion.h"
#include "frontend/facts/import.h"
#include "ir/syntax/text.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <math.h>

enum { MOST_MODEL = 64 << 20, MOST_NAME = 200 };

/* Puts tensors one behind the other: {"NAME": [SIZE, ...]} becomes the header of a file of values in 16 bits, *out_end bytes of them. */
static char *
header_of(const json_t *shapes, uint64_t *out_end)
{
    json_t *root = json_object(), *shape, *size;
    const char *name;
    size_t i;
    *out_end = 0;
    json_object_foreach((json_t *)(uintptr_t)shapes, name, shape)
    {
        uint64_t bytes = 2;
        json_array_foreach(shape, i, size) bytes =
            bytes <= MOST_MODEL && json_integer_value(size) >= 0 && json_integer_value(size) <= MOST_MODEL
                ? bytes * (uint64_t)json_integer_value(size)
                : MOST_MODEL + 1ull;
        if (!json_is_array(shape) || bytes > MOST_MODEL - *out_end || strlen(name) > MOST_NAME)
            continue;
        json_object_set_new(root, name,
                            json_pack("{s:s, s:O, s:[I, I]}", "dtype", "F16", "shape", shape, "data_offsets",
                                      (json_int_t)*out_end, (json_int_t)(*out_end + bytes)));
        *out_end += bytes;
    }
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

/* scheduler_config.json (none: there is no such file), a 0 byte, and the shapes of the tensors, whose values are zeros. */
void
fuzz_draw_model(const uint8_t *data, size_t size)
{
    static dop_status (*const builds[])(const dop_diffusion *d, const dop_weights *weights,
                                        const dop_diffusion_options *opt, dop_arena *arena, dop_diag *diag,
                                        dop_graph *out_graph) = {dop_build_context, dop_build_denoise, dop_build_decode,
                                                                 dop_build_encode_picture, dop_build_text_2};
    static const char vocab[] = "{\"!\":0,\"<|startoftext|>\":1,\"<|endoftext|>\":2,\"a\":3,\"a</w>\":4}",
                      merges[] = "#version: 0.2\n";
    const size_t n = size ? strnlen((const char *)data, size) : 0;
    json_t *shapes = n < size ? json_loadb((const char *)data + n + 1, size - n - 1, 0, NULL) : NULL;
    uint64_t end = 0;
    char *text = json_is_object(shapes) ? header_of(shapes, &end) : NULL, path[256];
    json_decref(shapes);
    if (!text)
        return;
    const uint64_t length = strlen(text);
    const char *dir = NULL;
    dop_buf file = {0};
    dop_buf_append(&file, &length, sizeof length);
    dop_buf_append(&file, text, (size_t)length);
    static bool written; /* the files that are always the same */
    if (!written) {
        fuzz_file_in("vocab.json", vocab, sizeof vocab - 1, 0, &dir);
        fuzz_file_in("merges.txt", merges, sizeof merges - 1, 0, &dir);
        written = true;
    }
    fuzz_file_in("model.safetensors", file.data, file.size, file.size + (size_t)end, &dir);
    fuzz_file_gone("scheduler_config.json");
    if (n > 0)
        fuzz_file_in("scheduler_config.json", data, n, 0, &dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    free(text);
    dop_buf_finish(&file);

    const dop_diffusion_options opt = {.width = 16,
                                       .height = 8,
                                       .context_rows = 77,
                                       .sequences = 2,
                                       .act_type = DOP_TYPE_f32,
                                       .kv_type = DOP_TYPE_f16};
    dop_arena arena;
    dop_checkpoint m;
    dop_diag diag = {0};
    dop_arena_init(&arena);
    dop_status st = dop_checkpoint_load(path, &arena, &diag, &m);
    fuzz_check(st, &diag);
    const dop_diffusion *d = st == DOP_OK ? m.diffusion : NULL;
    /* One of the programs, as the input's size says: all of them would take five times as long. */
    const size_t i = size % (sizeof builds / sizeof *builds - !(d && d->text_2.width));
    if (d && d->n_levels <= 4 && (builds[i] != dop_build_encode_picture || d->encodes)) {
        dop_graph g;
        dop_diag why = {0};
        st = builds[i](d, &m.weights, &opt, &arena, &why, &g);
        fuzz_check(st, &why);
        if (st == DOP_OK)
            fuzz_check(dop_graph_verify(&g, "fuzz", &why), &why);
    }
    if (d) { /* and every weight of it has places for adapters, or none */
        dop_adapter_map map;
        fuzz_check(dop_adapter_places(&m, &arena, &diag, &map), &diag);
    }
    if (d)
        dop_checkpoint_finish(&m);
    dop_arena_finish(&arena);
}

/* The places for adapters of the model that lies beside the program. */
static const dop_adapter_map *
places(void)
{
    static dop_adapter_map map;
    static dop_arena arena;
    static dop_checkpoint m;
    dop_diag diag = {0};
    if (map.n_places)
        return &map;
    dop_arena_init(&arena);
    require(dop_checkpoint_load(fuzz_beside("fuzz.draws"), &arena, &diag, &m) == DOP_OK);
    require(dop_adapter_places(&m, &arena, &diag, &map) == DOP_OK);
    return &map;
}

/* The bytes of such a file. */
void
fuzz_draw_adapter(const uint8_t *data, size_t size)
{
    const dop_adapter_map *map = places();
    dop_arena arena;
    dop_adapter x;
    dop_diag diag = {0};
    const char *dir = NULL;
    char path[256];
    fuzz_file_in("model.safetensors", data, size, 0, &dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    dop_arena_init(&arena);
    const dop_status st = dop_adapter_read(path, map, &arena, &diag, &x);
    fuzz_check(st, &diag);
    for (uint32_t i = 0; st == DOP_OK && i < x.n_parts; i++) {
        const dop_adapter_part *p = &x.parts[i];
        require(p->target < map->n_targets && p->expert == 0 && isfinite(p->scale));
        const dop_adapter_target *t = &map->targets[p->target];
        require(p->first + p->n <= t->rows && p->rank <= DOP_ADAPTER_MAX_RANK && (p->rank > 0) == (p->a && p->b));
        double sum = 0;
        for (size_t k = 0; k < (size_t)p->rank * t->cols; k++)
            sum += (double)p->a[k];
        for (size_t k = 0; k < (size_t)p->rank * p->n; k++)
            sum += (double)p->b[k];
        for (size_t k = 0; p->lengths && k < p->n; k++)
            sum += (double)p->lengths[k];
        require(isfinite(sum) && !p->whole);
    }
    dop_arena_finish(&arena);
}
