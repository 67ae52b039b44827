/* Adapters' files, read for a model of two layers. */
#include "base/format/adapter.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

static const dop_adapter_target targets[] = {
    {"embed", 32, 8, 1, true}, {"L0.q", 16, 8, 1, false}, {"L0.k", 8, 8, 1, false}, {"L0.expert_up", 12, 8, 3, false}};

/* Both names of each matrix, one of several matrices below each other, rows by head, and experts. */
static const dop_adapter_place places[] = {
    {"blk.0.attn_k", 2, 0, 0, 8, 0, 0, 0, 8, DOP_ADAPTER_PAIRS_IN_FILE, 8, 0},
    {"blk.0.attn_q", 1, 0, 0, 16, 0, 0, 0, 16, DOP_ADAPTER_PAIRS_IN_FILE, 8, 0},
    {"blk.0.ffn_up_exps", 3, UINT32_MAX, 0, 12, 0, 0, 0, 12, 0, 0, 0},
    {"embed_tokens", 0, 0, 0, 32, 0, 0, 0, 32, 0, 0, 0},
    {"layers.0.mlp.experts.1.up_proj", 3, 1, 0, 12, 0, 0, 0, 12, 0, 0, 0},
    {"layers.0.self_attn.qk_proj", 1, 0, 0, 16, 0, 8, 12, 24, 0, 0, 0},
    {"layers.0.self_attn.qk_proj", 2, 0, 0, 8, 8, 4, 12, 24, DOP_ADAPTER_HALVES_IN_FILE, 4, 0},
    {"token_embd", 0, 0, 0, 32, 0, 0, 0, 32, 0, 0, 0}};

static void
check(const dop_adapter *x)
{
    for (uint32_t i = 0; i < x->n_parts; i++) {
        const dop_adapter_part *p = &x->parts[i];
        const dop_adapter_target *t = &targets[p->target];
        double sum = 0;
        require(p->first + p->n <= t->rows && p->expert < t->experts && p->rank <= DOP_ADAPTER_MAX_RANK &&
                isfinite(p->scale) && (p->rank > 0) == (p->a && p->b));
        for (size_t k = 0; k < (size_t)p->rank * t->cols; k++)
            sum += (double)p->a[k];
        for (size_t k = 0; k < (size_t)p->rank * p->n; k++)
            sum += (double)p->b[k];
        for (size_t k = 0; p->whole && k < (size_t)p->n * t->cols; k++)
            sum += (double)p->whole[k];
        for (size_t k = 0; p->lengths && k < p->n; k++)
            sum += (double)p->lengths[k];
        require(isfinite(sum));
    }
}

/* A GGUF file; or adapter_config.json, a 0 byte, and adapter_model.safetensors. */
void
fuzz_adapter(const uint8_t *data, size_t size)
{
    const dop_adapter_map map = {.targets = targets,
                                 .n_targets = sizeof targets / sizeof *targets,
                                 .places = places,
                                 .n_places = sizeof places / sizeof *places,
                                 .archs = "llama",
                                 .tied = size % 2};
    const char *path = NULL;
    dop_arena arena;
    dop_adapter x;
    dop_diag diag = {0};
    if (size > 4 && memcmp(data, "GGUF", 4) == 0) {
        path = fuzz_file(data, size, MOST_BYTES);
    } else {
        const size_t n = size ? strnlen((const char *)data, size) : 0, rest = n < size ? size - n - 1 : 0;
        fuzz_file_in("adapter_config.json", data, n, 0, &path);
        fuzz_file_in("adapter_model.safetensors", data + n + (rest > 0), rest, 0, &path);
    }
    dop_arena_init(&arena);
    const dop_status st = dop_adapter_read(path, &map, &arena, &diag, &x);
    fuzz_check(st, &diag);
    if (st == DOP_OK)
        check(&x);
    dop_arena_finish(&arena);
}
