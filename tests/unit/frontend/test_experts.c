/* Weights with a matrix for each expert: stacked in one tensor or one tensor each, in both formats, they are found,
 * checked, quantized, packed and read back; and what does not fit is refused with both shapes. */
#include <math.h>

#include "compiler/pack/pack.h"
#include "compiler/pack/quant.h"
#include "frontend/facts/names.h"
#include "frontend/gguf/gguf_import.h"
#include "frontend/gguf/import.h"
#include "frontend/gguf/open.h"
#include "frontend/hf/hf.h"
#include "frontend/hf/import.h"
#include "frontend/hf/weights.h"
#include "kernels/emit/weight_types.h"
#include "tests/unit/buf_align.h"
#include "tests/unit/checkpoint_leaves.h"
#include "tests/unit/import_util.h"
#include "tests/unit/test_ir_util.h"
#include "tools/check/check.h"
#include "tools/check/check_weights.h"

enum { EXPERTS = 3, HIDDEN = 256, WIDTH = 40, VOCAB = 8, MOST = WIDTH * HIDDEN };

typedef struct stored {
    dop_role role;
    const char *name; /* canonical */
    uint32_t rows, cols;
} stored;

static const stored gate = {DOP_W_expert_gate, "L0.expert_gate", WIDTH, HIDDEN},
                    up = {DOP_W_expert_up, "L0.expert_up", WIDTH, HIDDEN},
                    down = {DOP_W_expert_down, "L0.expert_down", HIDDEN, WIDTH};

/* Value (row, col) of an expert, as f16 has it. */
static float
value(dop_role role, uint32_t expert, uint32_t row, uint32_t col)
{
    uint32_t h = (uint32_t)role * 31 + expert * 7919 + row * 104729 + col * 1299709;
    h = (h ^ h >> 13) * 2654435761u;
    return dop_f16_to_f32(dop_f32_to_f16((float)(int32_t)(h >> 8) / 16777216.0f - 0.5f));
}

static dop_layer layer;
static dop_arch
facts(void)
{
    layer = (dop_layer){.residual_scale = 1,
                        .ffn = {.kind = DOP_FFN_EXPERTS, .experts = {.n = EXPERTS, .width = WIDTH}, .gated = true}};
    return (dop_arch){
        .family = "made-up", .n_layers = 1, .hidden = HIDDEN, .vocab = VOCAB, .tied = true, .layers = &layer};
}

/* ---- packed bytes ------------------------------------------------------------------------------------------------- */

/* A weight of the model as `type`, packed as a graph that multiplies by it needs it. */
static uint8_t *
pack(const dop_checkpoint *m, const stored *s, dop_type type, dop_packed *out)
{
    dop_arena arena;
    dop_graph g;
    dop_pack p;
    dop_diag diag = {0};
    char text[512];
    dop_arena_init(&arena);
    snprintf(text, sizeof text,
             "graph g(T<=4, S<=4, Q=1) { %%x:f32[T,%u] = input \"x\" %%i:u32[T,2] = input \"i\" "
             "%%w:%s[%u,%u,%u] = weight \"%s\" %%y:f32[T,2,%u] = matmul_at %%x, %%w, %%i return %%y }",
             s->cols, dop_type_of(type)->name, EXPERTS, s->rows, s->cols, s->name, s->rows);
    test_must_parse(text, &arena, &g);
    dop_checkpoint_leaves_name(&m->weights, &g);
    dop_pack_init(&p, m, 4);
    cr_assert_eq(dop_pack_add_graph(&p, &g, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_pack_layout(&p, 1 << 28, &diag), DOP_OK, "%s", diag.message);
    cr_assert(p.n == 1);
    *out = p.items[0];
    uint8_t *bytes = malloc(out->size);
    memset(bytes, 0xa5, out->size);
    cr_assert_eq(dop_pack_write(&p, out, bytes, &diag), DOP_OK, "%s", diag.message);
    out->name = s->name;
    dop_pack_finish(&p);
    dop_arena_finish(&arena);
    return bytes;
}

/* The same bytes as a matrix of its own is packed to, at `expert` strides. */
static void
expect_expert(const stored *s, uint32_t expert, dop_type type, const dop_packed *x, const uint8_t *bytes)
{
    static float values[MOST];
    for (uint32_t r = 0; r < s->rows; r++)
        for (uint32_t c = 0; c < s->cols; c++)
            values[r * s->cols + c] = value(s->role, expert, r, c);
    dop_weight w = {.name = "w",
                    .source = "w",
                    .type = DOP_TYPE_f32,
                    .rank = 2,
                    .rows = s->rows,
                    .cols = s->cols,
                    .row_stride = s->cols * sizeof *values,
                    .data = (const uint8_t *)values};
    dop_packed one = {.type = type,
                      .rows = s->rows,
                      .cols = s->cols,
                      .experts = 1,
                      .row_bytes = x->row_bytes,
                      .size = dop_packed_bytes(type, s->rows, s->cols),
                      .source = &w};
    dop_checkpoint none = {0};
    dop_pack p;
    dop_pack_init(&p, &none, 4);
    uint8_t *matrix = malloc(one.size);
    cr_assert_eq(dop_pack_write(&p, &one, matrix, NULL), DOP_OK);
    cr_expect(x->expert_stride % 256 == 0 && x->expert_stride >= one.size &&
              x->size == (EXPERTS - 1) * x->expert_stride + one.size);
    cr_expect(memcmp(bytes + expert * x->expert_stride, matrix, one.size) == 0, "%s expert %u as %s", s->name, expert,
              dop_type_of(type)->name);
    for (uint64_t i = one.size; i < x->expert_stride && expert + 1 < EXPERTS; i++)
        cr_assert(bytes[expert * x->expert_stride + i] == 0, "bytes between experts");
    free(matrix);
    dop_pack_finish(&p);
}

/* --check decodes what was packed: the row of the expert that it asks for. */
static void
expect_rows(const stored *s, dop_type type, const dop_packed *x, const uint8_t *bytes)
{
    float got[HIDDEN], want[HIDDEN], in[HIDDEN + 256] = {0};
    uint8_t blocks[4 * HIDDEN + 64];
    dop_plan_slot slot = {.kind = DOP_SLOT_WEIGHTS, .size = x->size, .file = UINT32_MAX};
    dop_plan_tensor t = {.type = type,
                         .rows = s->rows,
                         .cols = s->cols,
                         .experts = EXPERTS,
                         .size = x->size - (EXPERTS - 1) * x->expert_stride,
                         .expert_stride = x->expert_stride};
    dop_plan plan = {.slots = &slot, .n_slots = 1, .weights = bytes, .weights_size = x->size, .strings = "w"};
    for (uint32_t e = 0; e < EXPERTS; e++)
        for (uint32_t r = 0; r < s->rows; r += 13) {
            for (uint32_t c = 0; c < s->cols; c++)
                want[c] = in[c] = value(s->role, e, r, c);
            if (dop_type_of(type)->kind == DOP_KIND_QUANT) {
                dop_quantize_row(type, in, NULL, s->cols, blocks);
                dop_decode_row(type, blocks, s->cols, want);
            }
            cr_assert_eq(dop_check_weight_row(&plan, &t, e, r, got, NULL), DOP_OK);
            for (uint32_t c = 0; c < s->cols; c++)
                cr_assert(fabsf(got[c] - want[c]) <= 1e-6f * fabsf(want[c]),
                          "%s as %s: expert %u, row %u, %u: %g, not %g", s->name, dop_type_of(type)->name, e, r, c,
                          (double)got[c], (double)want[c]);
        }
    cr_expect(dop_check_weight_row(&plan, &t, EXPERTS, 0, got, NULL) != DOP_OK);
    cr_expect(dop_check_weight_row(&plan, &t, 0, s->rows, got, NULL) != DOP_OK);
}

/* A weight whose stored values are those of value(), as several types. */
static void
expect_packed(const dop_checkpoint *m, const stored *s)
{
    static const dop_type types[] = {DOP_TYPE_f16, DOP_TYPE_f32, DOP_TYPE_q8_0, DOP_TYPE_q4_k, DOP_TYPE_q6_k};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        dop_packed x;
        uint8_t *bytes = pack(m, s, types[i], &x);
        for (uint32_t e = 0; e < EXPERTS; e++)
            expect_expert(s, e, types[i], &x, bytes);
        expect_rows(s, types[i], &x, bytes);
        free(bytes);
    }
}

/* ---- Hugging Face ------------------------------------------------------------------------------------------------- */

static const dop_tensor_name names_each[] = {{DOP_W_embed, "embed", DOP_PART_ALL, false},
                                             {DOP_W_router, "router", DOP_PART_ALL, false},
                                             {DOP_W_expert_gate, "experts.*.w1.weight", DOP_PART_ALL, false},
                                             {DOP_W_expert_up, "experts.*.w3.weight", DOP_PART_ALL, false},
                                             {DOP_W_expert_down, "experts.*.w2.weight", DOP_PART_ALL, false},
                                             {0}},
                             names_stacked[] = {{DOP_W_embed, "embed", DOP_PART_ALL, false},
                                                {DOP_W_router, "router", DOP_PART_ALL, false},
                                                {DOP_W_expert_gate, "experts.gate", DOP_PART_ALL, false},
                                                {DOP_W_expert_up, "experts.up", DOP_PART_ALL, false},
                                                {DOP_W_expert_down, "experts.down", DOP_PART_ALL, false},
                                                {0}},
                             /* gate and up in one tensor, and stored [inputs, outputs] */
    names_fused[] = {{DOP_W_embed, "embed", DOP_PART_ALL, false},
                     {DOP_W_router, "router", DOP_PART_ALL, false},
                     {DOP_W_expert_gate, "experts.gate_up", DOP_PART_GATE, true},
                     {DOP_W_expert_up, "experts.gate_up", DOP_PART_UP, true},
                     {DOP_W_expert_down, "experts.down", DOP_PART_ALL, true},
                     {0}};

typedef struct st_file {
    dop_buf header, data;
} st_file;

/* One tensor of f16 (or bytes of bf16, all 0). */
static void
st_tensor(st_file *f, const char *name, const char *dtype, const char *shape, const uint16_t *values, size_t n)
{
    const size_t at = f->data.size;
    dop_buf_append(&f->data, values, n * sizeof *values);
    dop_buf_printf(&f->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                   f->header.size ? "," : "{", name, dtype, shape, at, f->data.size);
}

typedef enum flaw {
    FLAW_NONE,
    FLAW_MISSING, /* expert 2 of up */
    FLAW_MORE,    /* an expert 3 */
    FLAW_SHAPE,   /* expert 1 of up has a row less */
    FLAW_TYPE,    /* expert 1 of up is bf16 */
    FLAW_NAN      /* in row 5 of the last expert of up */
} flaw;

/* Values of an expert, of two matrices side by side where b is given. */
static size_t
fill_values(const stored *a, const stored *b, uint32_t expert, bool turned, uint16_t *out)
{
    const uint32_t rows = a->rows + (b ? b->rows : 0);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < a->cols; c++) {
            const stored *s = r < a->rows ? a : b;
            out[turned ? c * rows + r : r * a->cols + c] =
                dop_f32_to_f16(value(s->role, expert, r < a->rows ? r : r - a->rows, c));
        }
    return (size_t)rows * a->cols;
}

static void
st_each(st_file *f, const stored *s, const char *pattern, flaw bad)
{
    static uint16_t v[MOST];
    char full[64], name[80], shape[32];
    if (s != &up)
        bad = FLAW_NONE;
    for (uint32_t e = 0; e < EXPERTS + (bad == FLAW_MORE); e++) {
        if (bad == FLAW_MISSING && e == 2)
            continue;
        size_t n = fill_values(s, NULL, e, false, v);
        uint32_t rows = s->rows - (bad == FLAW_SHAPE && e == 1);
        if (bad == FLAW_NAN && e == EXPERTS - 1)
            v[5 * s->cols + 9] = 0x7e00;
        snprintf(full, sizeof full, "layers.0.%s", pattern);
        dop_expert_name(full, e, name, sizeof name);
        snprintf(shape, sizeof shape, "%u,%u", rows, s->cols);
        st_tensor(f, name, bad == FLAW_TYPE && e == 1 ? "BF16" : "F16", shape, v, n / s->rows * rows);
    }
}

static void
st_stacked(st_file *f, const stored *a, const stored *b, const char *name, bool turned, flaw bad)
{
    static uint16_t v[2 * MOST * (EXPERTS + 1)];
    const uint32_t rows = a->rows + (b ? b->rows : 0), n = bad == FLAW_MORE && a == &up ? EXPERTS + 1 : EXPERTS;
    char full[64], shape[48];
    size_t at = 0;
    for (uint32_t e = 0; e < n; e++)
        at += fill_values(a, b, e, turned, v + at);
    if (bad == FLAW_NAN && a == &up)
        v[((EXPERTS - 1) * WIDTH + 5) * HIDDEN + 9] = 0x7e00;
    snprintf(full, sizeof full, "layers.0.%s", name);
    snprintf(shape, sizeof shape, "%u,%u,%u", n, turned ? a->cols : rows, turned ? rows : a->cols);
    st_tensor(f, full, "F16", shape, v, at);
}

static void
st_write(scratch *s, const dop_tensor_name *names, flaw bad)
{
    static uint16_t zeros[VOCAB * HIDDEN];
    st_file f = {0};
    dop_buf out = {0};
    st_tensor(&f, "embed", "F16", "8,256", zeros, VOCAB * HIDDEN);
    st_tensor(&f, "layers.0.router", "F16", "3,256", zeros, EXPERTS * HIDDEN);
    if (names == names_each) {
        st_each(&f, &gate, "experts.*.w1.weight", bad);
        st_each(&f, &up, "experts.*.w3.weight", bad);
        st_each(&f, &down, "experts.*.w2.weight", bad);
    } else if (names == names_stacked) {
        st_stacked(&f, &gate, NULL, "experts.gate", false, bad);
        st_stacked(&f, &up, NULL, "experts.up", false, bad);
        st_stacked(&f, &down, NULL, "experts.down", false, bad);
    } else {
        st_stacked(&f, &gate, &up, "experts.gate_up", true, bad);
        st_stacked(&f, &down, NULL, "experts.down", true, bad);
    }
    dop_buf_puts(&f.header, "}");
    uint64_t size = f.header.size;
    dop_buf_append(&out, &size, sizeof size);
    dop_buf_append(&out, f.header.data, f.header.size);
    dop_buf_append(&out, f.data.data, f.data.size);
    cr_assert(!out.failed);
    scratch_write(s, "model.safetensors", out.data, out.size);
    dop_buf_finish(&out);
    dop_buf_finish(&f.header);
    dop_buf_finish(&f.data);
}

typedef struct opened {
    scratch dir;
    dop_arena arena;
    dop_diag diag;
    dop_checkpoint m;
} opened;

static dop_status
hf_open(opened *o, const dop_tensor_name *names, flaw bad)
{
    static const dop_hf_keys keys = {.layers = "num_hidden_layers"};
    const dop_family family = {
        .name = "made-up", .names = names, .keys = &keys, .prefix = "", .layer_prefix = "layers."};
    *o = (opened){.dir = scratch_make()};
    dop_arena_init(&o->arena);
    o->m = (dop_checkpoint){.arena = &o->arena, .arch = facts()};
    st_write(&o->dir, names, bad);
    dop_hf hf = {.dir = o->dir.dir,
                 .path = "config.json",
                 .family = &family,
                 .arena = &o->arena,
                 .diag = &o->diag,
                 .model = &o->m};
    return dop_hf_weights(&hf);
}

static void
opened_close(opened *o)
{
    dop_checkpoint_finish(&o->m);
    dop_arena_finish(&o->arena);
    scratch_remove(&o->dir);
}

Test(experts, hugging_face)
{
    static const dop_tensor_name *const forms[] = {names_each, names_stacked, names_fused};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        opened o;
        cr_assert_eq(hf_open(&o, forms[i], FLAW_NONE), DOP_OK, "%s", o.diag.message);
        cr_expect(!o.m.note, "%s", o.m.note);
        const dop_weight *w = dop_weights_find(&o.m.weights, "L0.expert_up");
        cr_assert(w && w->rank == 3 && w->experts == EXPERTS && w->rows == WIDTH && w->cols == HIDDEN);
        cr_expect((w->each != NULL) == (i == 0));
        expect_packed(&o.m, &gate);
        expect_packed(&o.m, &up);
        expect_packed(&o.m, &down);
        opened_close(&o);
    }
}

Test(experts, refused_hugging_face)
{
    static const struct {
        const dop_tensor_name *names;
        flaw bad;
        const char *message;
    } cases[] = {
        {names_each, FLAW_MISSING, "tensor layers.0.experts.2.w3.weight is missing"},
        {names_each, FLAW_MORE, "tensor layers.0.experts.3.w3.weight: config.json says nothing of it"},
        {names_each, FLAW_SHAPE,
         "tensor layers.0.experts.1.w3.weight: shape [39, 256], expected [40, 256] by config.json"},
        {names_each, FLAW_TYPE,
         "tensor layers.0.experts.1.w3.weight: type bf16, but layers.0.experts.0.w3.weight of the first expert is f16"},
        {names_stacked, FLAW_MORE,
         "tensor layers.0.experts.up: shape [4, 40, 256], expected [3, 40, 256] by config.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        opened o;
        cr_assert_neq(hf_open(&o, cases[i].names, cases[i].bad), DOP_OK, "case %zu", i);
        cr_expect(strstr(o.diag.message, cases[i].message), "case %zu: %s", i, o.diag.message);
        opened_close(&o);
    }
}

/* What cannot be quantized says which expert. */
Test(experts, not_finite)
{
    static const struct {
        const dop_tensor_name *names;
        const char *message;
    } cases[] = {
        {names_each, "tensor layers.0.experts.2.w3.weight holds infinities or NaN (row 5)"},
        {names_stacked, "tensor layers.0.experts.up holds infinities or NaN (expert 2, row 5)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        opened o;
        dop_pack p;
        dop_diag diag = {0};
        dop_packed x;
        cr_assert_eq(hf_open(&o, cases[i].names, FLAW_NAN), DOP_OK, "%s", o.diag.message);
        free(pack(&o.m, &up, DOP_TYPE_f16, &x));
        x.type = DOP_TYPE_q8_0;
        x.expert_stride = 16384;
        x.size = EXPERTS * x.expert_stride;
        uint8_t *bytes = malloc(x.size);
        dop_pack_init(&p, &o.m, 4);
        cr_assert_neq(dop_pack_write(&p, &x, bytes, &diag), DOP_OK);
        cr_expect(strstr(diag.message, cases[i].message), "%s", diag.message);
        free(bytes);
        dop_pack_finish(&p);
        opened_close(&o);
    }
}

/* ---- GGUF --------------------------------------------------------------------------------------------------------- */

typedef struct gguf_file {
    dop_buf infos, data;
    uint64_t n;
} gguf_file;

static void
put(dop_buf *b, uint64_t v, size_t bytes)
{
    dop_buf_append(b, &v, bytes);
}

/* ggml's number of the types used here. */
static uint32_t
ggml_type(dop_type t)
{
    return t == DOP_TYPE_f32 ? 0 : t == DOP_TYPE_f16 ? 1 : t == DOP_TYPE_q8_0 ? 8 : 12;
}

static void
gguf_tensor(gguf_file *f, const char *name, dop_type type, uint32_t experts, uint32_t rows, uint32_t cols)
{
    buf_align(&f->data, 32);
    put(&f->infos, strlen(name), 8);
    dop_buf_puts(&f->infos, name);
    put(&f->infos, experts ? 3 : 2, 4);
    put(&f->infos, cols, 8);
    put(&f->infos, rows, 8);
    if (experts)
        put(&f->infos, experts, 8);
    put(&f->infos, ggml_type(type), 4);
    put(&f->infos, f->data.size, 8);
    f->n++;
}

/* Values of an expert in blocks of the type, as files have them. */
static void
gguf_values(gguf_file *f, const stored *s, dop_type type, uint32_t expert)
{
    for (uint32_t r = 0; r < s->rows; r++) {
        float v[HIDDEN + 256] = {0};
        uint8_t blocks[4 * HIDDEN];
        uint64_t bytes = 0;
        for (uint32_t c = 0; c < s->cols; c++) {
            v[c] = value(s->role, expert, r, c);
            uint16_t h = dop_f32_to_f16(v[c]);
            memcpy(blocks + 2 * c, &h, 2);
        }
        if (type != DOP_TYPE_f16)
            dop_quantize_row(type, v, NULL, s->cols, blocks);
        cr_assert(dop_type_row_bytes(type, s->cols, &bytes));
        dop_buf_append(&f->data, blocks, (size_t)bytes);
    }
}

static void
gguf_expert_tensors(gguf_file *f, const stored *s, const char *name, dop_type type, uint32_t experts)
{
    if (!strchr(name, '*'))
        gguf_tensor(f, name, type, experts, s->rows, s->cols);
    for (uint32_t e = 0; e < experts; e++) {
        char one[64];
        dop_expert_name(name, e, one, sizeof one);
        if (strchr(name, '*'))
            gguf_tensor(f, one, type, 0, s->rows, s->cols);
        gguf_values(f, s, type, e);
    }
}

static void
gguf_write(scratch *s, bool each, dop_type type, uint32_t experts)
{
    static float zeros[VOCAB * HIDDEN];
    gguf_file f = {0};
    dop_buf b = {0};
    gguf_tensor(&f, "token_embd.weight", DOP_TYPE_f32, 0, VOCAB, HIDDEN);
    dop_buf_append(&f.data, zeros, sizeof zeros);
    gguf_tensor(&f, "blk.0.ffn_gate_inp.weight", DOP_TYPE_f32, 0, EXPERTS, HIDDEN);
    dop_buf_append(&f.data, zeros, EXPERTS * HIDDEN * sizeof *zeros);
    gguf_expert_tensors(&f, &gate, each ? "blk.0.ffn_gate.*.weight" : "blk.0.ffn_gate_exps.weight", type, experts);
    gguf_expert_tensors(&f, &up, each ? "blk.0.ffn_up.*.weight" : "blk.0.ffn_up_exps.weight", type, experts);
    gguf_expert_tensors(&f, &down, each ? "blk.0.ffn_down.*.weight" : "blk.0.ffn_down_exps.weight", DOP_TYPE_f16,
                        experts);
    dop_buf_puts(&b, "GGUF");
    put(&b, 3, 4);
    put(&b, f.n, 8);
    put(&b, 0, 8);
    dop_buf_append(&b, f.infos.data, f.infos.size);
    buf_align(&b, 32);
    dop_buf_append(&b, f.data.data, f.data.size);
    cr_assert(!b.failed);
    scratch_write(s, "m.gguf", b.data, b.size);
    dop_buf_finish(&b);
    dop_buf_finish(&f.infos);
    dop_buf_finish(&f.data);
}

static dop_status
gguf_open(opened *o, bool each, dop_type type, uint32_t experts)
{
    static const dop_tensor_name names[] = {{DOP_W_expert_gate, "ffn_gate.*.weight", DOP_PART_ALL, false},
                                            {DOP_W_expert_up, "ffn_up.*.weight", DOP_PART_ALL, false},
                                            {DOP_W_expert_down, "ffn_down.*.weight", DOP_PART_ALL, false},
                                            {0}};
    const dop_family family = {.name = "made-up", .gguf = "made-up", .more_gguf_names = each ? names : NULL};
    *o = (opened){.dir = scratch_make()};
    dop_arena_init(&o->arena);
    o->m = (dop_checkpoint){.arena = &o->arena, .arch = facts()};
    gguf_write(&o->dir, each, type, experts);
    dop_gi gi = {.path = scratch_path(&o->dir, "m.gguf"), .family = &family, .diag = &o->diag, .model = &o->m};
    dop_status st = dop_gi_open(&gi);
    if (st == DOP_OK)
        st = dop_gi_weights(&gi);
    dop_gi_close(&gi);
    return st == DOP_OK ? dop_arch_check_weights(&o->m.arch, &o->m.weights, o->dir.path, &o->diag) : st;
}

/* Stored blocks are repacked as they are: what making the same blocks of the values gives. */
Test(experts, gguf)
{
    static const dop_type types[] = {DOP_TYPE_f16, DOP_TYPE_q8_0, DOP_TYPE_q4_k};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int each = 0; each < 2; each++) {
            opened o;
            dop_packed x;
            cr_assert_eq(gguf_open(&o, each, types[i], EXPERTS), DOP_OK, "%s", o.diag.message);
            const dop_weight *w = dop_weights_find(&o.m.weights, "L0.expert_up");
            cr_assert(w && w->type == types[i] && (w->each != NULL) == (each != 0));
            uint8_t *bytes = pack(&o.m, &up, types[i], &x);
            for (uint32_t e = 0; e < EXPERTS; e++)
                expect_expert(&up, e, types[i], &x, bytes);
            free(bytes);
            if (types[i] == DOP_TYPE_f16)
                expect_packed(&o.m, &gate);
            expect_packed(&o.m, &down);
            opened_close(&o);
        }
}

Test(experts, refused_gguf)
{
    opened o;
    cr_assert_neq(gguf_open(&o, false, DOP_TYPE_q4_k, EXPERTS + 1), DOP_OK);
    cr_expect(strstr(o.diag.message, "tensor blk.0.ffn_gate_exps.weight: 4 x 40 x 256 values, expected 3 x 40 x 256"),
              "%s", o.diag.message);
    opened_close(&o);
    cr_assert_neq(gguf_open(&o, true, DOP_TYPE_q4_k, EXPERTS - 1), DOP_OK);
    cr_expect(strstr(o.diag.message, "tensor blk.0.ffn_gate.2.weight is missing"), "%s", o.diag.message);
    opened_close(&o);
}

/* ---- facts, --quant, the interpreter ------------------------------------------------------------------------------ */

static void
expect_check(const dop_arch *a, const dop_weights *w, const char *message)
{
    dop_diag diag = {0};
    dop_status st = dop_arch_check_weights(a, w, "m", &diag);
    cr_expect((st == DOP_OK) == (message == NULL), "%s", diag.message);
    if (message)
        cr_expect(strstr(diag.message, message), "%s", diag.message);
}

Test(experts, checked)
{
    opened o;
    cr_assert_eq(gguf_open(&o, false, DOP_TYPE_q8_0, EXPERTS), DOP_OK, "%s", o.diag.message);
    dop_weight *w = (dop_weight *)(uintptr_t)dop_weights_find(&o.m.weights, "L0.expert_down");
    const dop_weight good = *w;
    expect_check(&o.m.arch, &o.m.weights, NULL);
    w->experts = 4;
    expect_check(&o.m.arch, &o.m.weights, "_exps.weight: 4 x 256 x 40 values, expected 3 x 256 x 40");
    *w = good;
    w->rank = 2;
    w->experts = 0;
    expect_check(&o.m.arch, &o.m.weights, "_exps.weight: 256 x 40 values, expected 3 x 256 x 40");
    *w = good;
    w->expert_stride += 1 << 20; /* the last expert lies behind the file, the first two do not overflow it */
    expect_check(&o.m.arch, &o.m.weights, "_exps.weight ends past its file");
    w->expert_stride = UINT64_MAX;
    expect_check(&o.m.arch, &o.m.weights, "_exps.weight ends past its file");
    *w = good;
    expect_check(&o.m.arch, &o.m.weights, NULL);
    opened_close(&o);
}

/* Experts are matrices of class ffn, and a role each. */
Test(experts, quant)
{
    dop_weight w[] = {
        {.name = "L0.expert_up", .source = "up", .type = DOP_TYPE_f16, .rank = 3, .experts = 4, .rows = 8, .cols = 576},
        {.name = "L0.q", .source = "q", .type = DOP_TYPE_f16, .rank = 2, .rows = 8, .cols = 576},
        {.name = "L0.router", .source = "r", .type = DOP_TYPE_f32, .rank = 2, .rows = 4, .cols = 576},
        {.name = "L0.expert_up_bias", .source = "b", .type = DOP_TYPE_f32, .rank = 2, .rows = 4, .cols = 8}};
    const dop_weights all = {.n = 4, .items = w};
    dop_type types[4], asked[4];
    cr_assert_eq(dop_quant_choose("ffn=q8_0", &all, NULL, types, asked), DOP_OK);
    cr_expect(types[0] == DOP_TYPE_q8_0 && types[1] == DOP_TYPE_f16);
    cr_assert_eq(dop_quant_choose("expert_up=q6_k", &all, NULL, types, asked), DOP_OK);
    cr_expect(types[0] == DOP_TYPE_q8_0 && asked[0] == DOP_TYPE_q6_k && types[1] == DOP_TYPE_f16);
    for (int i = 0; i < 2; i++) { /* what decides stays, and biases do */
        cr_assert_eq(dop_quant_choose(i ? "all=q4_0" : "q4_0", &all, NULL, types, asked), DOP_OK);
        cr_expect(types[0] == DOP_TYPE_q4_0 && types[1] == DOP_TYPE_q4_0);
        cr_expect(types[2] == DOP_TYPE_f32 && types[3] == DOP_TYPE_f32);
    }
    cr_assert_eq(dop_quant_choose("all=q4_0,router=f16", &all, NULL, types, asked), DOP_OK);
    cr_expect(types[0] == DOP_TYPE_q4_0 && types[2] == DOP_TYPE_f16);
}

/* The reference interpreter reads the expert's matrix that a graph asks for. */
Test(experts, leaves)
{
    for (int each = 0; each < 2; each++) {
        opened o;
        dop_graph g;
        dop_checkpoint_leaves *leaves = NULL;
        dop_tensor t;
        cr_assert_eq(hf_open(&o, each ? names_each : names_fused, FLAW_NONE), DOP_OK, "%s", o.diag.message);
        cr_assert_eq(dop_checkpoint_leaves_create(&o.m, &o.diag, &leaves), DOP_OK);
        test_must_parse("graph g(T<=4, S<=4, Q=1) { %x:f32[T,256] = input \"x\" %i:u32[T,2] = input \"i\" "
                        "%w:f16[3,40,256] = weight \"L0.expert_up\" %y:f32[T,2,40] = matmul_at %x, %w, %i return %y }",
                        &o.arena, &g);
        dop_checkpoint_leaves_name(&o.m.weights, &g);
        dop_leaf_provider p = dop_checkpoint_leaves_provider(leaves);
        cr_assert_eq(p.get(p.user, &g, test_find(&g, "w"), 1, &t, &o.diag), DOP_OK, "%s", o.diag.message);
        cr_assert(t.count == EXPERTS * WIDTH * HIDDEN && t.shape.rank == 3);
        for (uint32_t e = 0; e < EXPERTS; e++)
            for (uint32_t r = 0; r < WIDTH; r++)
                for (uint32_t c = 0; c < HIDDEN; c++)
                    cr_assert(t.f[(e * WIDTH + r) * HIDDEN + c] == value(DOP_W_expert_up, e, r, c));
        dop_checkpoint_leaves_destroy(leaves);
        opened_close(&o);
    }
}

/* Ernie 4.5: the last layer with experts; -1: the last one of all. */
Test(experts, layers_that_have_them)
{
    static const struct {
        const char *patch;
        bool has[3];
    } rows[] = {
        {"{}", {false, true, true}},
        {"{\"moe_layer_end_index\": 1}", {false, true, false}},
        {"{\"moe_layer_start_index\": 0, \"moe_layer_end_index\": 0}", {true, false, false}},
        {"{\"moe_layer_start_index\": 2, \"moe_layer_end_index\": -1}", {false, false, true}},
        {"{\"moe_layer_start_index\": 0, \"moe_layer_end_index\": \"<delete>\"}", {true, true, true}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scratch s = scratch_make();
        dop_arena arena;
        dop_diag diag = {0};
        dop_arena_init(&arena);
        dop_checkpoint m = {.arena = &arena, .temperature = -1, .top_p = 1};
        dop_hf hf = {.dir = s.dir, .arena = &arena, .diag = &diag, .model = &m};
        scratch_config(&s, "ernie4_5_moe", rows[i].patch);
        cr_assert_eq(dop_hf_facts(&hf), DOP_OK, "%s: %s", rows[i].patch, diag.message);
        for (uint32_t k = 0; k < 3; k++)
            cr_expect_eq(m.arch.layers[k].ffn.kind == DOP_FFN_EXPERTS, rows[i].has[k], "%s: layer %u", rows[i].patch,
                         k);
        json_decref(hf.root);
        dop_arena_finish(&arena);
        scratch_remove(&s);
    }
}
