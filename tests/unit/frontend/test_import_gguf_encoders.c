/* GGUF files of encoders and rerankers: what their keys and tensors say about pooling and classes, and what is
 * refused. */
#include "frontend/facts/import.h"
#include "ir/interp/interp.h"
#include "tests/unit/hf_to_gguf.h"
#include "tests/unit/import_util.h"

enum { HIDDEN = 64 };

static void
convert(gguf_writer *w, const char *dir)
{
    char path[512], error[200] = "";
    *w = (gguf_writer){0};
    snprintf(path, sizeof path, DOP_SOURCE_DIR "/tests/%s", dir);
    cr_assert(hf_to_gguf(path, false, w, error, sizeof error), "%s: %s", dir, error);
}

/* A product whose row r has the value r + 1 everywhere. */
static void
put_product(gguf_writer *w, const char *name, uint64_t rows)
{
    const uint64_t shape[] = {rows, HIDDEN};
    float v[8 * HIDDEN];
    for (uint64_t i = 0; i < rows * HIDDEN; i++)
        v[i] = (float)(i / HIDDEN + 1);
    gguf_tensor(w, name, GGUF_F32, 2, shape, v);
}

static void
put_labels(gguf_writer *w, const char *first, const char *second)
{
    gguf_array(w, "%.classifier.output_labels", 8, 2);
    gguf_put_str(&w->kvs, first);
    gguf_put_str(&w->kvs, second);
}

typedef struct opened {
    dop_arena arena;
    dop_checkpoint m;
} opened;

static const dop_encoder *
open_file(opened *o, gguf_writer *w, const char *path)
{
    dop_diag diag = {0};
    cr_assert(gguf_save(w, path));
    dop_arena_init(&o->arena);
    cr_assert_eq(dop_checkpoint_load(path, &o->arena, &diag, &o->m), DOP_OK, "%s", diag.message);
    return &o->m.arch.encoder;
}

static void
close_file(opened *o)
{
    dop_checkpoint_finish(&o->m);
    dop_arena_finish(&o->arena);
}

/* The first value of a row of a product. */
static double
value_of(const opened *o, dop_role role, uint64_t row)
{
    for (uint32_t i = 0; i < o->m.weights.n; i++) {
        const dop_weight *w = &o->m.weights.items[i];
        float v[HIDDEN];
        if (strcmp(w->name, dop_role_name(role)) != 0)
            continue;
        dop_decode_row(w->type, w->data + row * w->row_stride, HIDDEN, v);
        return (double)v[0];
    }
    return -1;
}

/* Qwen3-Reranker: two classes of the last row, "yes" before "no", of which the second is taken for that of what is relevant. */
Test(import_gguf_encoders, yes_and_no)
{
    scratch s = scratch_make();
    const char *path = scratch_path(&s, "model.gguf");
    for (int yes_first = 0; yes_first < 2; yes_first++) {
        gguf_writer w;
        opened o;
        convert(&w, "golden/qwen3");
        gguf_u32(&w, "%.pooling_type", 4);
        gguf_str(&w, "tokenizer.chat_template.rerank", "Q {query} D {document}");
        put_labels(&w, yes_first ? "yes" : "no", yes_first ? "no" : "yes");
        put_product(&w, "cls.output.weight", 2);
        const dop_encoder *e = open_file(&o, &w, path);
        cr_expect(e->used && e->classes == 2 && e->pool == DOP_BY_LAST && !e->normalized && e->n_dense == 1);
        cr_expect(!o.m.arch.layers[0].mixers[0].attn.both);
        cr_expect_str_eq(o.m.pair_prompt, "Q {query} D {document}");
        cr_expect_eq(value_of(&o, DOP_W_dense1, 0), yes_first ? 2.0 : 1.0);
        cr_expect_eq(value_of(&o, DOP_W_dense1, 1), yes_first ? 1.0 : 2.0);
        close_file(&o);
    }
    scratch_remove(&s);
}

/* A reranker's files may leave pooling_type out, and a vector's files may have a classifier. */
Test(import_gguf_encoders, products)
{
    scratch s = scratch_make();
    const char *path = scratch_path(&s, "model.gguf");
    gguf_writer w;
    opened o;
    convert(&w, "encoders/xlm_roberta_cross");
    const dop_encoder *e = open_file(&o, &w, path);
    cr_expect(e->classes == 1 && e->n_dense == 2 && e->pool == DOP_BY_CLS && e->dense[0].active && !e->dense[1].active);
    cr_expect(e->dense[0].act == DOP_ACT_TANH && e->dense[0].bias && e->dense[1].bias && e->n_types == 1);
    close_file(&o);
    convert(&w, "encoders/xlm_roberta_cross");
    gguf_u32(&w, "%.pooling_type", 2);
    e = open_file(&o, &w, path);
    cr_expect(e->classes == 0 && e->n_dense == 0 && e->pool == DOP_BY_CLS && e->normalized);
    close_file(&o);
    convert(&w, "encoders/embeddinggemma");
    put_product(&w, "dense_2.weight", 8);
    e = open_file(&o, &w, path);
    cr_expect(e->classes == 0 && e->n_dense == 1 && e->dense[0].width == 8 && !e->dense[0].active && e->normalized);
    cr_expect(o.m.arch.layers[0].mixers[0].attn.both && o.m.arch.layers[0].mixers[0].attn.window == 10 / 2 + 1);
    close_file(&o);
    convert(&w, "golden/qwen3"); /* an embedding model, whose output matrix is not needed */
    gguf_u32(&w, "%.pooling_type", 3);
    e = open_file(&o, &w, path);
    cr_expect(e->used && e->pool == DOP_BY_LAST && e->normalized);
    close_file(&o);
    convert(&w, "golden/qwen3");
    gguf_u32(&w, "%.pooling_type", 0);
    e = open_file(&o, &w, path);
    cr_expect(!e->used);
    close_file(&o);
    scratch_remove(&s);
}

Test(import_gguf_encoders, refused)
{
    scratch s = scratch_make();
    const char *path = scratch_path(&s, "model.gguf");
    gguf_writer w;
    static const struct {
        const char *dir;
        uint32_t pooling;
        const char *product, *message;
    } cases[] = {
        {"golden/qwen3", 9, NULL, "qwen3.pooling_type is not 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank)"},
        {"golden/qwen3", 4, NULL,
         "qwen3.pooling_type is 4 (rank), but there is no tensor cls.weight or cls.output.weight"},
        {"golden/mamba2", 4, "cls.output.weight",
         "mamba2: layers with states neither attend in both directions nor give scores of classes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        convert(&w, cases[i].dir);
        gguf_u32(&w, "%.pooling_type", cases[i].pooling);
        if (cases[i].product)
            put_product(&w, cases[i].product, 2);
        cr_assert(gguf_save(&w, path));
        expect_failure(path, "", cases[i].message, 0, 0);
    }
    scratch_remove(&s);
}
