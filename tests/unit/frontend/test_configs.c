/* Configurations with the values that well-known models were published with (tests/configs/models.jsonl): each is read as far as
 * the weights, whose number is the published one (and "windows", where it is there, that of layers with a window), or is refused by a
 * name that docs/models.md lists as not supported. */
#include "frontend/hf/hf.h"
#include "frontend/hf/import.h"
#include "tests/unit/import_util.h"

#include <math.h>

typedef struct counted {
    const dop_arch *a;
    double n;
} counted;

/* Is it a weight of a block that layers share, which an earlier layer has too? */
static bool
shared_before(const dop_arch *a, const dop_weight_need *need)
{
    static const dop_role roles[] = {DOP_W_side_norm,     DOP_W_q,         DOP_W_k,       DOP_W_v,        DOP_W_o,
                                     DOP_W_side_ffn_norm, DOP_W_side_gate, DOP_W_side_up, DOP_W_side_down};
    bool shared = false, earlier = false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        shared = shared || need->role == roles[i];
    for (int32_t i = 0; i < need->layer; i++)
        earlier = earlier || (a->layers[i].side.width && a->layers[i].side.block == a->layers[need->layer].side.block);
    return need->layer >= 0 && a->layers[need->layer].side.width && shared && earlier;
}

static dop_status
count(void *user, const dop_weight_need *need)
{
    counted *c = user;
    if (!shared_before(c->a, need))
        c->n += (double)need->rows * need->cols * (need->rank == 3 ? need->experts : 1);
    return DOP_OK;
}

/* The page has a name in its list of what is not supported. */
static bool
listed(const dop_map *page, const char *name)
{
    static const char begin[] = "Not supported by name:";
    const char *text = (const char *)page->data, *from = memmem(text, (size_t)page->size, begin, strlen(begin));
    const char *end = from ? memmem(from, (size_t)(text + page->size - from), "\n\n", 2) : NULL;
    return end && memmem(from, (size_t)(end - from), name, strlen(name));
}

static bool
check_model(const json_t *row, scratch *s, const dop_map *page)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    const char *refused = json_string_value(json_object_get(row, "refused"));
    dop_diag diag = {0};
    dop_arena arena;
    dop_buf text = {0};
    double params = json_number_value(json_object_get(row, "params")) * 1e9;
    dop_json_encode(&text, json_object_get(row, "config"));
    scratch_text(s, "config.json", text.data);
    dop_arena_init(&arena);
    dop_checkpoint m = {.arena = &arena, .temperature = -1, .top_p = 1};
    dop_hf hf = {.dir = s->dir, .arena = &arena, .diag = &diag, .model = &m};
    const dop_status st = dop_hf_facts(&hf);
    if (refused) {
        cr_expect(st == DOP_E_INPUT && strstr(diag.message, refused), "%s: \"%s\"", name, diag.message);
        cr_expect(listed(page, refused), "%s: docs/models.md does not list %s", name, refused);
    } else if (st != DOP_OK) {
        cr_expect_fail("%s: %s", name, diag.message);
    } else {
        m.arch.tied |= hf.headless != NULL;
        counted all = {.a = &m.arch};
        dop_arch_each_weight(&m.arch, count, &all);
        const double n = all.n;
        cr_expect(fabs(n - params) <= 0.003 * params, "%s: %.4f billion parameters, published are %.4f", name, n / 1e9,
                  params / 1e9);
        cr_expect_null(m.note, "%s: %s", name, m.note);
        uint32_t windows = 0;
        for (uint32_t i = 0; i < m.arch.n_layers; i++)
            windows += m.arch.layers[i].mixers[0].attn.window > 0;
        const json_t *want = json_object_get(row, "windows");
        cr_expect(!want || json_integer_value(want) == windows, "%s: %u layers have a window", name, windows);
    }
    json_decref(hf.root);
    dop_arena_finish(&arena);
    dop_buf_finish(&text);
    return !refused;
}

Test(configs, as_published)
{
    scratch s = scratch_make();
    dop_map file, page;
    unsigned n = 0, n_read = 0;
    cr_assert_eq(dop_map_open(DOP_SOURCE_DIR "/tests/configs/models.jsonl", NULL, &file), DOP_OK);
    cr_assert_eq(dop_map_open(DOP_SOURCE_DIR "/docs/models.md", NULL, &page), DOP_OK);
    for (size_t at = 0; at < file.size;) {
        size_t end = 0;
        json_t *row = NULL;
        const dop_json_how how = {.end = &end};
        cr_assert_eq(dop_json_decode(file.data + at, (size_t)file.size - at, &how, NULL, &row), DOP_OK);
        n_read += check_model(row, &s, &page);
        n++;
        json_decref(row);
        at += end + 1; /* the line feed */
    }
    cr_assert_geq(n, 100);
    cr_log_info("%u published configurations: %u are read as far as the weights, %u are refused by name", n, n_read,
                n - n_read);
    dop_map_close(&file);
    dop_map_close(&page);
    scratch_remove(&s);
}
