/* Files of YAML, and the words of --quant. */
#include "compiler/pack/quant.h"
#include "compiler/schedule/kernel_path.h"
#include "compiler/target/target.h"
#include "tests/fuzz/fuzz.h"

#include <unistd.h>

/* The path of a file of YAML with these bytes: its name says what it is. */
static const char *
yaml_file(const uint8_t *data, size_t size)
{
    static char link[96];
    const char *dir = NULL, *path = fuzz_file(data, size, 0);
    if (!link[0]) {
        fuzz_file_in("config.json", NULL, 0, 0, &dir);
        snprintf(link, sizeof link, "%s/fuzz.yaml", dir);
        require(symlink(path, link) == 0);
    }
    return link;
}

void
fuzz_target(const uint8_t *data, size_t size)
{
    dop_diag diag = {0};
    dop_target t;
    fuzz_check(dop_target_resolve(yaml_file(data, size), &diag, &t), &diag);
}

void
fuzz_kernel_path(const uint8_t *data, size_t size)
{
    enum { LAYERS = 4 };
    dop_diag diag = {0};
    dop_arena arena;
    dop_kernel_path p = {0};
    dop_arena_init(&arena);
    dop_status st = dop_kernel_path_load(yaml_file(data, size), NULL, LAYERS, &arena, &diag, &p);
    fuzz_check(st, &diag);
    if (st == DOP_OK && p.measured.device)
        (void)dop_kernel_path_stale(&p, &(dop_measured){"a device", "a driver", "0"});
    if (st == DOP_OK)
        fuzz_check(dop_kernel_path_check(&p, &arena, &diag), &diag);
    dop_arena_finish(&arena);
}

/* As a file for --tuning, whose rules come before those of a path. */
void
fuzz_tuning(const uint8_t *data, size_t size)
{
    enum { LAYERS = 4 };
    dop_diag diag = {0};
    dop_arena arena;
    dop_kernel_path p = {.n_layers = LAYERS}, tuned = {0};
    dop_arena_init(&arena);
    dop_status st = dop_kernel_path_tuning(yaml_file(data, size), LAYERS, &arena, &diag, &tuned);
    fuzz_check(st, &diag);
    if (st == DOP_OK)
        fuzz_check(dop_kernel_path_force(&p, "head", "gemv", &arena, &diag), &diag);
    if (st == DOP_OK)
        fuzz_check(dop_kernel_path_prepend(&p, &tuned, &arena, &diag), &diag);
    require(st != DOP_OK || p.n_rules == tuned.n_rules + 1 || p.n_rules == 1024);
    dop_arena_finish(&arena);
}

/* A text without a line break is what stands behind --quant, another one a file. */
void
fuzz_quant(const uint8_t *data, size_t size)
{
    static const float zeros[512];
    static const char *const names[] = {"embed", "L0.q", "L0.down", "L0.attn_norm", "L1.q"};
    dop_weight items[5];
    dop_type types[5], asked[5];
    dop_diag diag = {0};
    memset(items, 0, sizeof items);
    for (uint32_t i = 0; i < 5; i++) {
        items[i].name = names[i];
        items[i].type = DOP_TYPE_f32;
        items[i].rank = i == 3 ? 1 : 2;
        items[i].rows = i == 3 ? 1 : 2;
        items[i].cols = 256;
        items[i].data = (const uint8_t *)zeros;
        items[i].row_stride = sizeof zeros / 2;
        items[i].source = "model.layers.0.weight";
    }
    const dop_weights w = {.n = 5, .cap = 5, .items = items};
    char *text = malloc(size + 1);
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = 0;
    const char *spec = memchr(data, '\n', size) ? yaml_file(data, size) : text;
    fuzz_check(dop_quant_choose(spec, &w, &diag, types, asked), &diag);
    free(text);
}
