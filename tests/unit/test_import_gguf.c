/* GGUF import: the golden models rewritten as GGUF (as converters of that ecosystem store them) must give the golden
 * logits; the published files give their published ids; damaged metadata gives its message. */
#include "tests/unit/import_util.h"
#include "tests/unit/model_util.h"

/* ---- a small GGUF writer ------------------------------------------------------------------------------------------ */

typedef struct writer {
    dop_buf kvs, infos, data;
    uint64_t n_kvs, n_tensors;
    const char *arch;
} writer;

static void
put_u32(dop_buf *b, uint32_t v)
{
    dop_buf_append(b, &v, sizeof v);
}

static void
put_u64(dop_buf *b, uint64_t v)
{
    dop_buf_append(b, &v, sizeof v);
}

static void
put_str(dop_buf *b, const char *s)
{
    put_u64(b, strlen(s));
    dop_buf_puts(b, s);
}

/* A key; "%" in it stands for the architecture. */
static void
put_key(writer *w, const char *key, uint32_t type)
{
    char full[96];
    if (key[0] == '%')
        snprintf(full, sizeof full, "%s%s", w->arch, key + 1);
    else
        snprintf(full, sizeof full, "%s", key);
    put_str(&w->kvs, full);
    put_u32(&w->kvs, type);
    w->n_kvs++;
}

static void
kv_u32(writer *w, const char *key, uint32_t v)
{
    put_key(w, key, 4);
    put_u32(&w->kvs, v);
}

static void
kv_f32(writer *w, const char *key, double v)
{
    float f = (float)v;
    put_key(w, key, 6);
    dop_buf_append(&w->kvs, &f, sizeof f);
}

static void
kv_str(writer *w, const char *key, const char *v)
{
    put_key(w, key, 8);
    put_str(&w->kvs, v);
}

static void
tensor(writer *w, const char *name, uint64_t cols, uint64_t rows, const float *values)
{
    dop_buf_align(&w->data, 32);
    put_str(&w->infos, name);
    put_u32(&w->infos, rows ? 2 : 1);
    put_u64(&w->infos, cols);
    if (rows)
        put_u64(&w->infos, rows);
    put_u32(&w->infos, 0);
    put_u64(&w->infos, w->data.size);
    dop_buf_append(&w->data, values, (size_t)(cols * (rows ? rows : 1)) * sizeof *values);
    w->n_tensors++;
}

static void
write_file(writer *w, const char *path)
{
    dop_buf b = {0};
    dop_buf_puts(&b, "GGUF");
    put_u32(&b, 3);
    put_u64(&b, w->n_tensors);
    put_u64(&b, w->n_kvs);
    dop_buf_append(&b, w->kvs.data, w->kvs.size);
    dop_buf_append(&b, w->infos.data, w->infos.size);
    dop_buf_align(&b, 32);
    dop_buf_append(&b, w->data.data, w->data.size);
    FILE *f = fopen(path, "wb");
    cr_assert(f && !b.failed && fwrite(b.data, 1, b.size, f) == b.size && fclose(f) == 0);
    dop_buf_finish(&b);
    dop_buf_finish(&w->kvs);
    dop_buf_finish(&w->infos);
    dop_buf_finish(&w->data);
}

/* ---- a golden model as GGUF --------------------------------------------------------------------------------------- */

/* Values of a weight, decoded. */
static float *
values_of(const dop_checkpoint *m, const char *name, const dop_weight **out)
{
    const dop_weight *w = dop_weights_find(&m->weights, name);
    cr_assert(w, "no weight %s", name);
    float *v = calloc((size_t)w->rows * w->cols, sizeof *v);
    for (uint32_t r = 0; r < w->rows; r++)
        for (uint32_t c = 0; c < w->cols; c++)
            dop_decode_row(w->type,
                           w->data + r * w->row_stride +
                               c * (w->col_stride ? w->col_stride : dop_type_of(w->type)->bytes),
                           1, &v[(size_t)r * w->cols + c]);
    *out = w;
    return v;
}

/* Rows of rotate-half heads as rows of side-by-side pairs: what converters do to llama's q and k. */
static void
interleave(float *v, uint32_t rows, uint32_t cols, uint32_t head_dim)
{
    float *old = malloc((size_t)rows * cols * sizeof *old);
    memcpy(old, v, (size_t)rows * cols * sizeof *old);
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t head = r / head_dim, i = r % head_dim, from = head * head_dim + (i % 2) * head_dim / 2 + i / 2;
        memcpy(v + (size_t)r * cols, old + (size_t)from * cols, cols * sizeof *v);
    }
    free(old);
}

typedef struct converter {
    writer *w;
    const dop_checkpoint *m;
    bool interleave, fuse_qkv, fuse_ffn;
    double norm_add;
} converter;

static void
convert(converter *c, const char *source, const char *name)
{
    const dop_weight *w;
    float *v = values_of(c->m, source, &w);
    const char *role = strrchr(source, '.') ? strrchr(source, '.') + 1 : source;
    bool qk = strcmp(role, "q") == 0 || strcmp(role, "k") == 0;
    bool qk_bias = strcmp(role, "q_bias") == 0 || strcmp(role, "k_bias") == 0;
    if (c->interleave && qk)
        interleave(v, w->rows, w->cols, c->m->arch.layers[0].mixers[0].attn.head_dim);
    if (c->interleave && qk_bias)
        interleave(v, w->cols, 1, c->m->arch.layers[0].mixers[0].attn.head_dim);
    if (strstr(role, "norm") && !strstr(role, "bias"))
        for (uint32_t i = 0; i < w->cols; i++)
            v[i] += (float)c->norm_add;
    tensor(c->w, name, w->cols, w->rank == 2 ? w->rows : 0, v);
    free(v);
}

/* Several weights below each other as one tensor. */
static void
convert_fused(converter *c, uint32_t layer, const char *const *roles, unsigned n, const char *name)
{
    dop_buf all = {0};
    uint64_t rows = 0, cols = 0;
    for (unsigned i = 0; i < n; i++) {
        char source[64];
        const dop_weight *w;
        snprintf(source, sizeof source, "L%u.%s", layer, roles[i]);
        float *v = values_of(c->m, source, &w);
        dop_buf_append(&all, v, (size_t)w->rows * w->cols * sizeof *v);
        rows += w->rank == 2 ? w->rows : 0;
        cols = w->rank == 2 ? w->cols : cols + w->cols;
        free(v);
    }
    tensor(c->w, name, cols, rows, (const float *)(void *)all.data);
    dop_buf_finish(&all);
}

static void
convert_layer(converter *c, uint32_t i)
{
    static const char *const names[][2] = {
        {"attn_norm", "attn_norm.weight"},
        {"attn_norm_bias", "attn_norm.bias"},
        {"q", "attn_q.weight"},
        {"k", "attn_k.weight"},
        {"v", "attn_v.weight"},
        {"o", "attn_output.weight"},
        {"q_bias", "attn_q.bias"},
        {"k_bias", "attn_k.bias"},
        {"v_bias", "attn_v.bias"},
        {"o_bias", "attn_output.bias"},
        {"q_norm", "attn_q_norm.weight"},
        {"k_norm", "attn_k_norm.weight"},
        {"post_attn_norm", "post_attention_norm.weight"},
        {"ffn_norm", "ffn_norm.weight"},
        {"ffn_norm_bias", "ffn_norm.bias"},
        {"gate", "ffn_gate.weight"},
        {"up", "ffn_up.weight"},
        {"down", "ffn_down.weight"},
        {"gate_bias", "ffn_gate.bias"},
        {"up_bias", "ffn_up.bias"},
        {"down_bias", "ffn_down.bias"},
        {"post_ffn_norm", "post_ffw_norm.weight"},
    };
    static const char *const qkv[] = {"q", "k", "v"}, *const qkv_bias[] = {"q_bias", "k_bias", "v_bias"},
                             *const gate_up[] = {"gate", "up"};
    char name[96];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char source[64];
        const char *role = names[k][0];
        bool is_qkv = strlen(role) == 1 && strchr("qkv", role[0]);
        bool is_qkv_bias = role[1] == '_' && strchr("qkv", role[0]) && strstr(role, "bias");
        bool is_gate_up = strcmp(role, "gate") == 0 || strcmp(role, "up") == 0;
        snprintf(source, sizeof source, "L%u.%s", i, role);
        snprintf(name, sizeof name, "blk.%u.%s", i, names[k][1]);
        if (!dop_weights_find(&c->m->weights, source) || (c->fuse_qkv && (is_qkv || is_qkv_bias)) ||
            (c->fuse_ffn && is_gate_up))
            continue;
        convert(c, source, name);
    }
    snprintf(name, sizeof name, "blk.%u.attn_qkv.weight", i);
    if (c->fuse_qkv)
        convert_fused(c, i, qkv, 3, name);
    snprintf(name, sizeof name, "blk.%u.attn_qkv.bias", i);
    if (c->fuse_qkv && c->m->arch.layers[0].mixers[0].attn.bias_q)
        convert_fused(c, i, qkv_bias, 3, name);
    snprintf(name, sizeof name, "blk.%u.ffn_up.weight", i);
    if (c->fuse_ffn)
        convert_fused(c, i, gate_up, 2, name);
}

/* Metadata that every file has. */
static void
convert_metadata(writer *w, const dop_arch *a)
{
    const dop_attention *l = &a->layers[0].mixers[0].attn;
    kv_str(w, "general.architecture", w->arch);
    kv_str(w, "general.name", "Tiny Talk");
    kv_u32(w, "%.block_count", a->n_layers);
    kv_u32(w, "%.embedding_length", a->hidden);
    kv_u32(w, "%.context_length", a->ctx_train);
    kv_u32(w, "%.feed_forward_length", a->layers[0].ffn.width);
    kv_u32(w, "%.attention.head_count", l->n_heads);
    kv_u32(w, "%.attention.head_count_kv", l->n_kv_heads);
    kv_u32(w, "%.attention.key_length", l->head_dim);
    kv_u32(w, "%.attention.value_length", l->head_dim);
    kv_f32(w,
           a->final_norm.kind == DOP_NORM_LAYER ? "%.attention.layer_norm_epsilon"
                                                : "%.attention.layer_norm_rms_epsilon",
           a->final_norm.eps);
    if (a->n_ropes)
        kv_f32(w, "%.rope.freq_base", a->ropes[0].theta);
    if (l->window)
        kv_u32(w, "%.attention.sliding_window", l->window);
    if (l->softcap > 0)
        kv_f32(w, "%.attn_logit_softcapping", l->softcap);
    if (a->logit_softcap > 0)
        kv_f32(w, "%.final_logit_softcapping", a->logit_softcap);
    kv_u32(w, "tokenizer.ggml.eos_token_id", 2);
    kv_u32(w, "tokenizer.ggml.bos_token_id", 1);
}

/* What the rotary embedding of the golden model is in GGUF. */
static void
convert_rope(writer *w, const dop_rope *r)
{
    float list[64], other[64];
    switch (r->scaling) {
    case DOP_ROPE_LINEAR:
        kv_str(w, "%.rope.scaling.type", "linear");
        kv_f32(w, "%.rope.scaling.factor", r->factor);
        break;
    case DOP_ROPE_LLAMA3: /* divisors: plain frequency by scaled one, from the angles of position 1 */
        for (uint32_t i = 0; i < r->dims / 2; i++) {
            double freq = pow(r->theta, -2.0 * i / r->dims), turns = r->original_ctx * freq / 6.283185307179586;
            double keep = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
            keep = fmin(fmax(keep, 0), 1);
            list[i] = (float)(1 / (keep + (1 - keep) / r->factor));
        }
        tensor(w, "rope_freqs.weight", r->dims / 2, 0, list);
        break;
    case DOP_ROPE_LONGROPE:
        for (uint32_t i = 0; i < r->dims / 2; i++) {
            list[i] = (float)r->short_factors[i];
            other[i] = (float)r->long_factors[i];
        }
        tensor(w, "rope_factors_short.weight", r->dims / 2, 0, list);
        tensor(w, "rope_factors_long.weight", r->dims / 2, 0, other);
        kv_u32(w, "%.rope.scaling.original_context_length", r->original_ctx);
        kv_f32(w, "%.rope.scaling.attn_factor", sqrt(1 + log(r->factor) / log(r->original_ctx)));
        break;
    default:
        break;
    }
    kv_u32(w, "%.rope.dimension_count", r->dims);
}

static void
convert_model(writer *w, const char *golden, const char *arch)
{
    dop_arena arena;
    dop_diag diag = {0};
    dop_checkpoint m;
    char dir[512];
    snprintf(dir, sizeof dir, GOLDEN "/%s", golden);
    dop_arena_init(&arena);
    cr_assert_eq(dop_checkpoint_load(dir, &arena, &diag, &m), DOP_OK, "%s", diag.message);
    *w = (writer){.arch = arch};
    converter c = {.w = w,
                   .m = &m,
                   .interleave = strcmp(arch, "llama") == 0,
                   .norm_add = m.arch.final_norm.add,
                   .fuse_qkv = strcmp(arch, "phi3") == 0 || strcmp(arch, "gpt2") == 0,
                   .fuse_ffn = strcmp(arch, "phi3") == 0};
    convert_metadata(w, &m.arch);
    if (m.arch.n_ropes)
        convert_rope(w, &m.arch.ropes[0]);
    convert(&c, "embed", "token_embd.weight");
    if (m.arch.learned_positions)
        convert(&c, "pos_embed", "position_embd.weight");
    for (uint32_t i = 0; i < m.arch.n_layers; i++)
        convert_layer(&c, i);
    convert(&c, "final_norm", "output_norm.weight");
    if (m.arch.final_norm.kind == DOP_NORM_LAYER)
        convert(&c, "final_norm_bias", "output_norm.bias");
    if (!m.arch.tied)
        convert(&c, "lm_head", "output.weight");
    dop_checkpoint_finish(&m);
    dop_arena_finish(&arena);
}

Test(import_gguf, golden_logits)
{
    static const char *const cases[][2] = {
        {"llama", "llama"},
        {"llama3_rope_tied", "llama"},
        {"llama_attnbias_linear", "llama"},
        {"mistral_window", "llama"},
        {"gemma", "gemma"},
        {"gemma3", "gemma3"},
        {"gemma3_hd256", "gemma3"},
        {"qwen2", "qwen2"},
        {"qwen3", "qwen3"},
        {"phi3", "phi3"},
        {"phi4_mini_longrope", "phi3"},
        {"gpt2", "gpt2"},
        {"gemma2", "gemma2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        writer w;
        util_model u;
        convert_model(&w, cases[i][0], cases[i][1]);
        if (strcmp(cases[i][0], "gemma3_hd256") == 0) { /* two layers, the second full: not the usual pattern */
            put_key(&w, "%.attention.sliding_window_pattern", 9);
            put_u32(&w.kvs, 7);
            put_u64(&w.kvs, 2);
            dop_buf_append(&w.kvs, "\1\0", 2);
        }
        write_file(&w, scratch_path(&s, "model.gguf"));
        char path[600];
        snprintf(path, sizeof path, GOLDEN "/%s/expected.json", cases[i][0]);
        json_t *root = util_json_open(path);
        util_ids prompt = util_ids_of(json_object_get(root, "prompt"));
        double std = json_number_value(json_object_get(root, "logits_std"));
        snprintf(path, sizeof path, GOLDEN "/%s/logits.f32", cases[i][0]);
        float *want = util_floats(path, (size_t)prompt.n * 320), *got = calloc((size_t)prompt.n * 320, sizeof *got);
        util_model_open(&u, scratch_path(&s, "model.gguf"), prompt.n + 24);
        if (strcmp(cases[i][0], "gemma2") == 0) /* its query scale, 1/sqrt(20), cannot be said in GGUF */
            for (uint32_t k = 0; k < u.m.arch.n_layers; k++)
                u.m.arch.layers[k].mixers[0].attn.scale = 1 / sqrt(20);
        util_step(&u, DOP_PHASE_SCORE, prompt.id, prompt.n, 0, got);
        double worst = util_worst(got, want, (size_t)prompt.n * 320) / std;
        cr_expect(worst < 5e-4, "%s: worst logit differs by %.3g standard deviations", cases[i][0], worst);
        cr_expect(u.m.arch.n_end_ids == 1 && u.m.arch.end_ids[0] == 2 && u.m.arch.bos_id == 1);
        cr_expect_eq(u.m.arch.final_norm.add, 0.0);
        cr_expect_str_eq(u.m.name, "Tiny Talk");
        util_model_close(&u);
        scratch_remove(&s);
        json_decref(root);
        free(want);
        free(got);
    }
}

/* The output matrix in a part of its own. */
Test(import_gguf, split_file)
{
    scratch s = scratch_make();
    writer w, two = {.arch = "llama"};
    util_model u;
    convert_model(&w, "llama", "llama");
    kv_u32(&w, "split.no", 0);
    kv_u32(&w, "split.count", 2);
    uint64_t total = w.n_tensors;
    kv_u32(&w, "split.tensors.count", (uint32_t)total + 1);
    /* The output matrix moves to part two; what was it in part one gets a name that is excused. */
    char *at = memmem(w.infos.data, w.infos.size, "output.weight", 13);
    while (at && at[-1] == '_') /* not attn_output.weight */
        at = memmem(at + 1, w.infos.size - (size_t)(at + 1 - w.infos.data), "output.weight", 13);
    cr_assert(at);
    memcpy(at, "visual.weight", 13);
    float *head = calloc(320 * 64, sizeof *head);
    tensor(&two, "output.weight", 64, 320, head);
    free(head);
    kv_u32(&two, "split.no", 1);
    kv_u32(&two, "split.count", 2);
    write_file(&w, scratch_path(&s, "m-00001-of-00002.gguf"));
    write_file(&two, scratch_path(&s, "m-00002-of-00002.gguf"));
    util_model_open(&u, scratch_path(&s, "m-00001-of-00002.gguf"), 16);
    cr_expect_eq(u.m.weights.n_maps, 2);
    cr_expect_str_eq(u.m.note, "tensors not used: 1 of the vision part: only text is compiled");
    const dop_weight *lm_head = dop_weights_find(&u.m.weights, "lm_head");
    const dop_map *second = &u.m.weights.maps[1];
    cr_expect(lm_head && lm_head->data > second->data && lm_head->data < second->data + second->size);
    util_model_close(&u);
    char path[128];
    snprintf(path, sizeof path, "%s/m-00002-of-00002.gguf", s.dir);
    expect_failure(path, "", "this is part 2 of 2: name the first part", 0, 0);
    cr_assert_eq(unlink(path), 0);
    dop_arena arena;
    dop_diag diag = {0};
    dop_checkpoint m;
    dop_arena_init(&arena);
    cr_expect_eq(dop_checkpoint_load(scratch_path(&s, "m-00001-of-00002.gguf"), &arena, &diag, &m), DOP_E_IO);
    cr_expect_str_eq(diag.path, path);
    cr_expect_str_eq(diag.message, "cannot open: No such file or directory");
    dop_arena_finish(&arena);
    char renamed[128];
    snprintf(renamed, sizeof renamed, "%s/model.gguf", s.dir);
    cr_assert_eq(rename(scratch_path(&s, "m-00001-of-00002.gguf"), renamed), 0);
    expect_failure(
        renamed, "",
        "a model in 2 parts: the first part's name must end with -00001-of-00002.gguf, so that the others are "
        "found",
        0, 0);
    scratch_remove(&s);
}

/* ---- damaged metadata --------------------------------------------------------------------------------------------- */

/* The llama file with one key renamed away or one added. */
Test(import_gguf, bad_metadata)
{
    static const struct {
        const char *from, *to; /* bytes replaced in the metadata, same length */
        const char *message;
    } cases[] = {
        {"llama.block_count", "llama.block_covnt", "llama.block_count is missing"},
        {"general.architecture", "general.architectvre", "general.architecture is missing or not a string"},
        {"llama.attention.head_count\4", "llama.attention.head_covnt\4", "llama.attention.head_count is missing"},
        {"token_embd.weight", "token_embd.weighs", "tensor token_embd.weight is missing"},
        {"blk.1.ffn_up.weight", "blk.1.ffn_vp.weight", "tensor blk.1.ffn_up.weight is missing"},
        {"llama.attention.layer_norm_rms_epsilon", "llama.attention.layer_norm_rms_epsilom",
         "llama.attention.layer_norm_rms_epsilon is missing"},
    };
    dop_buf whole = {0};
    scratch s = scratch_make();
    writer w;
    convert_model(&w, "llama", "llama");
    write_file(&w, scratch_path(&s, "whole.gguf"));
    whole = golden_file(s.dir, "whole.gguf");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_buf b = {0};
        dop_buf_append(&b, whole.data, whole.size);
        char *at = memmem(b.data, b.size, cases[i].from, strlen(cases[i].from));
        cr_assert(at, "case %zu is not in the file", i);
        memcpy(at, cases[i].to, strlen(cases[i].to));
        scratch_write(&s, "m.gguf", b.data, b.size);
        char path[128];
        snprintf(path, sizeof path, "%s/m.gguf", s.dir);
        expect_failure(path, "", cases[i].message, 0, 0);
        dop_buf_finish(&b);
    }
    dop_buf_finish(&whole);
    scratch_remove(&s);
}

/* Numbers in the metadata replaced: name, new value, message. */
Test(import_gguf, bad_numbers)
{
    static const struct {
        const char *key;
        uint32_t value;
        const char *message;
    } cases[] = {
        {"llama.block_count", 1000000000, "llama.block_count is 1000000000, expected 1 to 1024"},
        {"llama.block_count", 1, "tensor blk.1.attn_norm.weight is of layer 1, but llama.block_count is 1"},
        {"llama.block_count", 3, "tensor blk.2.attn_norm.weight is missing"},
        {"llama.attention.head_count", 0, "llama.attention.head_count is 0, expected 1 to 4096"},
        {"llama.attention.head_count_kv", 3, "layer 0: 4 attention heads are not a multiple of 3 key/value heads"},
        {"llama.attention.key_length", 15, "heads of 15 for keys and 16 for values are not supported"},
        {"llama.embedding_length", 128,
         "tensor token_embd.weight: 320 x 64 values, expected 320 x 128 by the metadata"},
        {"llama.rope.dimension_count", 15, "llama.rope.dimension_count is 15, expected an even number"},
        {"llama.rope.dimension_count", 32, "layer 0: rotary embedding of 32 values on heads of 16"},
        {"llama.feed_forward_length", 0, "llama.feed_forward_length is 0, expected 1 to 1048576"},
    };
    scratch s = scratch_make();
    writer w;
    convert_model(&w, "llama", "llama");
    write_file(&w, scratch_path(&s, "whole.gguf"));
    dop_buf whole = golden_file(s.dir, "whole.gguf");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_buf b = {0}, key = {0};
        dop_buf_append(&b, whole.data, whole.size);
        put_str(&key, cases[i].key);
        char *at = memmem(b.data, b.size, key.data, key.size);
        cr_assert(at, "no key %s", cases[i].key);
        memcpy(at + key.size + 4, &cases[i].value, 4);
        scratch_write(&s, "m.gguf", b.data, b.size);
        char path[128];
        snprintf(path, sizeof path, "%s/m.gguf", s.dir);
        expect_failure(path, "", cases[i].message, 0, 0);
        dop_buf_finish(&b);
        dop_buf_finish(&key);
    }
    dop_buf_finish(&whole);
    scratch_remove(&s);
}

/* A tensor more than the metadata describe: a bias makes the first layer biased, and must then be everywhere. */
Test(import_gguf, unread_tensors)
{
    static const struct {
        const char *name, *message;
    } cases[] = {
        {"blk.0.attn_q.bias", "tensor blk.1.attn_q.bias is missing"},
        {"blk.1.attn_q.bias", "tensor blk.1.attn_q.bias: the metadata says nothing of it, so leaving it out would "
                              "compile another model"},
        {"extra.weight", "tensor extra.weight: the metadata says nothing of it, so leaving it out would compile "
                         "another model"},
        {"blk.7.ffn_up.bias", "tensor blk.7.ffn_up.bias is of layer 7, but llama.block_count is 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        writer w;
        const float zeros[64] = {0};
        char path[128];
        convert_model(&w, "llama", "llama");
        tensor(&w, cases[i].name, 64, 0, zeros);
        write_file(&w, scratch_path(&s, "m.gguf"));
        snprintf(path, sizeof path, "%s/m.gguf", s.dir);
        expect_failure(path, "", cases[i].message, 0, 0);
        scratch_remove(&s);
    }
}

Test(import_gguf, unknown_architecture_and_type)
{
    scratch s = scratch_make();
    writer w;
    char path[128];
    snprintf(path, sizeof path, "%s/m.gguf", s.dir);
    convert_model(&w, "llama", "mamba");
    write_file(&w, path);
    expect_failure(path, "",
                   "architecture \"mamba\" is not supported in GGUF files; known: llama, qwen2, qwen3, gemma, gemma2, "
                   "gemma3, phi3, gpt2",
                   0, 0);
    convert_model(&w, "llama", "llama");
    kv_u32(&w, "%.expert_count", 8);
    write_file(&w, path);
    expect_failure(path, "", "llama.expert_count: mixtures of experts are not supported in GGUF files", 0, 0);
    convert_model(&w, "llama", "llama");
    kv_str(&w, "%.rope.scaling.type", "dynamic");
    write_file(&w, path);
    expect_failure(path, "",
                   "llama.rope.scaling.type \"dynamic\" is not supported; known: none, linear, yarn, longrope", 0, 0);
    /* type number of the first tensor's row: IQ2_XXS needs rows of 256, so I8 it is */
    convert_model(&w, "llama", "llama");
    char *at = memmem(w.infos.data, w.infos.size, "token_embd.weight", 17);
    cr_assert(at);
    uint32_t i8 = 24;
    memcpy(at + 17 + 4 + 16, &i8, 4);
    write_file(&w, path);
    expect_failure(path, "",
                   "tensor token_embd.weight: type I8 is not supported; known: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
                   "Q8_0, Q2_K to Q6_K, IQ4_NL, MXFP4",
                   0, 0);
    scratch_remove(&s);
}

/* ---- published files, read in place -------------------------------------------------------------------------------- */

/* Ids fed back as the file says; the arg-max of each step must agree where the margin is clear. */
static void
follow(const char *gguf, const char *expected, double margin, uint32_t steps)
{
    util_model u;
    json_t *root = util_json_open(expected);
    json_t *first = json_array_get(json_object_get(root, "greedy"), 0);
    cr_assert(first, "%s has no ids", expected);
    util_ids prompt = util_ids_of(json_object_get(first, "ids"));
    json_t *own = json_object_get(first, "dequant_fp32_greedy"),
           *own_margin = json_object_get(first, "dequant_fp32_margin");
    if (!own) {
        own = json_object_get(first, "greedy");
        own_margin = json_object_get(first, "greedy_margin");
    }
    util_ids greedy = util_ids_of(own);
    unsigned compared = 0;
    util_model_open(&u, gguf, 256);
    uint32_t id = util_step(&u, DOP_PHASE_PREFILL, prompt.id, prompt.n, 0, NULL);
    for (uint32_t i = 0; i < greedy.n && i < steps; i++) {
        if (json_number_value(json_array_get(own_margin, i)) > margin) {
            cr_expect_eq(id, greedy.id[i], "%s: step %u gives %u, expected %u", gguf, i, id, greedy.id[i]);
            compared++;
        }
        id = util_step(&u, DOP_PHASE_DECODE, &greedy.id[i], 1, prompt.n + i, NULL);
    }
    cr_expect(compared >= steps / 2, "only %u steps were compared", compared);
    util_model_close(&u);
    json_decref(root);
}

Test(import_gguf, published_files)
{
    static const struct {
        const char *stem;
        uint32_t steps;
    } files[] = {
        {"stories260k-gguf/stories260k-f32", 64},
        {"stories260k-gguf/stories260k-f16", 64},
        {"stories260k-gguf/stories260k-q8_0", 64},
        {"shakespeare-gemma3-gguf/shakespeare-gemma3-f16", 12},
        {"shakespeare-gemma3-gguf/shakespeare-gemma3-q8_0", 12},
        {"shakespeare-gemma3-gguf/shakespeare-gemma3-q6_k", 12},
        {"shakespeare-gemma3-gguf/shakespeare-gemma3-q4_k_m", 12},
        {"shakespeare-gemma3-gguf/shakespeare-gemma3-q4_0", 12},
    };
    if (access(DOP_SHARED_DIR "/models", F_OK) != 0)
        cr_skip_test("no shared test data");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char gguf[600], expected[600];
        snprintf(gguf, sizeof gguf, DOP_SHARED_DIR "/models/%s.gguf", files[i].stem);
        snprintf(expected, sizeof expected, DOP_SHARED_DIR "/models/%s.expected_greedy.json", files[i].stem);
        follow(gguf, expected, 1e-3, files[i].steps);
    }
}
