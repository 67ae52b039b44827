/* Files and messages that come from elsewhere: control vectors, importance matrices, lists of models, orders to ranks, lists of files of a
 * model hub. */
#include "base/format/control_vector.h"
#include "compiler/pack/imatrix.h"
#include "runtime/parts/lead/rank_orders.h"
#include "tests/fuzz/fuzz.h"
#include "tools/doppler-exec/serve_host.h"
#include "tools/fetch/hub.h"

#include <math.h>

enum { WIDTH = 8, LAYERS = 4 };

void
fuzz_control(const uint8_t *data, size_t size)
{
    const dop_control_want want = {.width = WIDTH, .layers = LAYERS, .first = size % 2, .last = LAYERS - 1};
    const char *path = fuzz_file(data, size, 0);
    dop_arena arena;
    dop_control x = {0};
    dop_diag diag = {0};
    dop_arena_init(&arena);
    (void)dop_control_is(path);
    const dop_status st = dop_control_read(path, &want, &arena, &diag, &x);
    fuzz_check(st, &diag);
    for (uint32_t i = 0; i < x.n && st == DOP_OK; i++) {
        require(x.directions[i].layer >= want.first && x.directions[i].layer <= want.last);
        for (uint32_t k = 0; k < WIDTH; k++)
            require(isfinite(x.directions[i].values[k]));
    }
    dop_arena_finish(&arena);
}

void
fuzz_imatrix(const uint8_t *data, size_t size)
{
    dop_weight items[2] = {{.name = "L0.q",
                            .type = DOP_TYPE_f32,
                            .rank = 2,
                            .rows = 4,
                            .cols = WIDTH,
                            .source = "model.q",
                            .gguf = "blk.0.attn_q.weight"},
                           {.name = "L0.expert_up",
                            .type = DOP_TYPE_f32,
                            .rank = 3,
                            .experts = 2,
                            .rows = 4,
                            .cols = WIDTH,
                            .source = "model.up",
                            .gguf = "blk.0.ffn_up_exps.weight"}};
    const dop_weights w = {.n = 2, .cap = 2, .items = items};
    const bool wanted[] = {true, true};
    const dop_imatrix *m = NULL;
    dop_arena arena;
    dop_diag diag = {0};
    uint32_t without = 0;
    dop_arena_init(&arena);
    dop_status st = dop_imatrix_open(fuzz_file(data, size, 0), &arena, &diag, &m);
    if (st == DOP_OK)
        st = dop_imatrix_check(m, &w, wanted, &diag, &without);
    fuzz_check(st, &diag);
    for (uint32_t i = 0; i < 2 && st == DOP_OK; i++) {
        float columns[WIDTH];
        if (dop_imatrix_columns(m, &items[i], 0, columns))
            for (uint32_t k = 0; k < WIDTH; k++)
                require(isfinite(columns[k]) && columns[k] >= 0);
    }
    dop_imatrix_close(m);
    dop_arena_finish(&arena);
}

void
fuzz_models_file(const uint8_t *data, size_t size)
{
    static dop_cli cli; /* all zeros: the defaults are of no account here */
    dop_host_list list;
    dop_diag diag = {0};
    cli.models = fuzz_file(data, size, 0);
    const dop_status st = dop_host_list_read(&cli, &diag, &list);
    fuzz_check_lines(st, &diag);
    require(st != DOP_OK || list.n > 0);
    dop_host_list_finish(&list);
}

void
fuzz_orders(const uint8_t *data, size_t size)
{
    static const dop_plan_model plan = {
        .ctx = 64, .page = 16, .n_pages = 8, .n_sequences = 2, .vocab = 32, .state_copies = 2};
    uint32_t *own = malloc(size + 4); /* messages are aligned */
    dop_order order;
    dop_diag diag = {0};
    require(own != NULL);
    memcpy(own, data, size);
    const dop_status st = dop_order_decode((const uint8_t *)own, size, &plan, &diag, &order);
    if (st == DOP_OK) { /* it says the same again */
        dop_buf again = {0};
        dop_order_encode(&order, &again);
        require(again.size == size && memcmp(again.data, own, size) == 0);
        dop_buf_finish(&again);
    }
    free(own);
}

/* A name as -hf has it, a line break, and the pages of the list, each after a zero. */
void
fuzz_hub(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    char text[256];
    dop_hub_name name = {0};
    dop_hub_files files = {0};
    const dop_hub_file *gguf = NULL;
    dop_diag diag = {0};
    snprintf(text, sizeof text, "%.*s", (int)(end ? end - data : 0), (const char *)data);
    dop_status st = dop_hub_name_parse(text, &diag, &name);
    for (const uint8_t *at = end; st == DOP_OK && at && at < data + size;) {
        const uint8_t *from = at + 1, *next = memchr(from, 0, (size_t)(data + size - from));
        at = next ? next : data + size;
        st = dop_hub_files_read((const char *)from, (size_t)(at - from), name.repo, &diag, &files);
    }
    if (st == DOP_OK)
        st = dop_hub_files_choose(&files, &name, &diag, &gguf);
    fuzz_check(st, &diag);
    for (size_t i = 0; i < files.n; i++)
        require(dop_path_is_inside(files.list[i].path));
    dop_hub_files_finish(&files);
    dop_hub_name_finish(&name);
}
