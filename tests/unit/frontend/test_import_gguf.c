/* GGUF import: the golden models rewritten as GGUF (as converters of that ecosystem store them) must give the golden
 * logits; the published files give their published ids; damaged metadata gives its message. */
#include "base/format/gguf.h"
#include "frontend/build/build.h"
#include "frontend/families/families.h"
#include "tests/unit/hf_to_gguf.h"
#include "tests/unit/import_util.h"
#include "tests/unit/model_util.h"
#include "text/import/tokenizer_files.h"
#include "text/import/tokenizer_gguf.h"

#include <math.h>

/* A golden model as GGUF. */
static void
convert_model(gguf_writer *w, const char *golden)
{
    char dir[512], error[200] = "";
    *w = (gguf_writer){0};
    snprintf(dir, sizeof dir, GOLDEN "/%s", golden);
    cr_assert(hf_to_gguf(dir, false, w, error, sizeof error), "%s: %s", golden, error);
}

/* The file's tokenizer gives a text's ids and the text of these ids, and knows the ends that the importer found. */
static void
check_tokenizer(const char *name, const char *path)
{
    static const char text[] = "abba, naa 123 w\xc3\xb6rld\n\nx";
    dop_gguf g;
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_ids ids = {0};
    dop_buf back = {0};
    cr_assert_eq(dop_gguf_open(path, &diag, &g), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_tokenizer_from_gguf(&g, &diag, &t), DOP_OK, "%s: %s", name, diag.message);
    cr_assert_eq(dop_tokenizer_encode(t, text, strlen(text), 0, &diag, &ids), DOP_OK, "%s: %s", name, diag.message);
    cr_assert_eq(dop_tokenizer_decode(t, ids.data, ids.count, 0, &diag, &back), DOP_OK, "%s: %s", name, diag.message);
    cr_expect_str_eq(back.data, text, "%s: \"%s\"", name, back.data);
    cr_expect(ids.count < strlen(text), "%s: %zu tokens, none of which has two characters", name, (size_t)ids.count);
    cr_expect(dop_tokenizer_bos(t) == 1 && dop_tokenizer_eos(t) == 2 && dop_tokenizer_is_end(t, 2), "%s", name);
    dop_ids_finish(&ids);
    dop_buf_finish(&back);
    dop_tokenizer_destroy(t);
    dop_gguf_close(&g);
}

/* Every family that has a GGUF form. */
Test(import_gguf, golden_logits)
{
    static const char *const cases[] = {
        "llama",
        "llama3_rope_tied",
        "llama_attnbias_linear",
        "mistral_window",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_hd256",
        "qwen2",
        "qwen3",
        "phi3",
        "phi4_mini_longrope",
        "gpt2",
        "granite",
        "orion",
        "pangu_embedded",
        "gpt_bigcode",
        "codeshell",
        "qwen",
        "exaone",
        "minicpm",
        "glm",
        "deepseek",
        "bailing_moe",
        "olmo2",
        "smollm3_nope",
        "arcee",
        "seed_oss",
        "ernie4_5",
        "starcoder2",
        "stablelm",
        "exaone4",
        "glm4",
        "gpt_neox",
        "cohere2",
        "nemotron",
        "apertus",
        "gemma4",
        "mixtral",
        "qwen2_moe",
        "qwen3_moe",
        "olmoe",
        "ernie4_5_moe",
        "minimax_m2",
        "glm4_moe",
        "gpt_oss",
        "mamba2",
        "falcon_h1",
        "lfm2",
        "qwen3_5",
        "qwen3_next",
        "granitemoehybrid",
        "llama4_text",
        "deepseek_v3",
        "ministral3",
        "olmo",
        "olmo3",
        "hunyuan_dense",
        "hunyuan_moe",
        "cohere",
        "stablelm_2_12b",
        "phi",
        "phimoe",
        "falcon",
        "bloom",
        "mpt",
        "jais2",
        "seed_oss_bias",
        "minicpm3",
        "gemma3n",
        "deepseek_v2",
        "glm4_moe_lite",
        "solar_open",
        "dots1",
        "exaone_moe",
        "hy_v3",
        "afmoe",
        "laguna",
        "mimo_v2_flash",
        "dbrx",
        "granitemoe",
        "granitemoeshared",
        "qwen3_5_moe",
        "lfm2_moe",
        "nemotron_h",
        "nemotron_h_moe",
        "mamba",
        "jamba",
        "kimi_linear",
        "muse_glimmer",
    };
    scratch s = scratch_make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_writer w;
        util_model u;
        convert_model(&w, cases[i]);
        cr_assert(gguf_save(&w, scratch_path(&s, "model.gguf")));
        char path[600];
        snprintf(path, sizeof path, GOLDEN "/%s/expected.json", cases[i]);
        json_t *root = util_json_open(path);
        util_ids prompt = util_ids_of(json_object_get(root, "prompt"));
        double std = json_number_value(json_object_get(root, "logits_std"));
        snprintf(path, sizeof path, GOLDEN "/%s/logits.f32", cases[i]);
        util_model_open(&u, scratch_path(&s, "model.gguf"), prompt.n + 24);
        const size_t n = (size_t)prompt.n * u.m.arch.vocab;
        float *want = util_floats(path, n), *got = calloc(n, sizeof *got);
        util_step(&u, DOP_PHASE_SCORE, prompt.id, prompt.n, 0, got);
        double worst = util_worst(got, want, n) / std;
        cr_expect(worst < 5e-4, "%s: worst logit differs by %.3g standard deviations", cases[i], worst);
        cr_expect(u.m.arch.n_end_ids == 1 && u.m.arch.end_ids[0] == 2 && u.m.arch.bos_id == 1);
        cr_expect_eq(u.m.arch.final_norm.add, 0.0);
        cr_expect_str_eq(u.m.name, cases[i]);
        cr_expect_null(u.m.note, "%s: %s", cases[i], u.m.note);
        if (u.m.arch.vocab >= 320) /* room for the words that the converter makes */
            check_tokenizer(cases[i], scratch_path(&s, "model.gguf"));
        util_model_close(&u);
        json_decref(root);
        free(want);
        free(got);
    }
    scratch_remove(&s);
}

/* Worst difference of a file's logits from golden ones, in standard deviations. */
static double
distance(const char *path, const char *golden)
{
    util_model u;
    char file[600];
    snprintf(file, sizeof file, GOLDEN "/%s/expected.json", golden);
    json_t *root = util_json_open(file);
    util_ids prompt = util_ids_of(json_object_get(root, "prompt"));
    const double std = json_number_value(json_object_get(root, "logits_std"));
    snprintf(file, sizeof file, GOLDEN "/%s/logits.f32", golden);
    float *want = util_floats(file, (size_t)prompt.n * 320), *got = calloc((size_t)prompt.n * 320, sizeof *got);
    util_model_open(&u, path, prompt.n + 24);
    util_step(&u, DOP_PHASE_SCORE, prompt.id, prompt.n, 0, got);
    const double worst = util_worst(got, want, (size_t)prompt.n * 320) / std;
    util_model_close(&u);
    json_decref(root);
    free(want);
    free(got);
    return worst;
}

/* The same file with a tensor for each expert. */
static void
split_experts(gguf_writer *w)
{
    static const char mark[] = "_exps.weight";
    dop_buf infos = {0};
    uint64_t n_tensors = 0, len, dims[4], offset;
    uint32_t rank, type;
    for (size_t at = 0; at < w->infos.size;) {
        const char *p = w->infos.data + at, *name = p + 8;
        memcpy(&len, p, 8);
        memcpy(&rank, name + len, 4);
        memcpy(dims, name + len + 4, 8 * rank);
        memcpy(&type, name + len + 4 + 8 * rank, 4);
        memcpy(&offset, name + len + 8 + 8 * rank, 8);
        at += 8 + len + 16 + 8 * rank;
        const bool experts =
            rank == 3 && len > strlen(mark) && memcmp(name + len - strlen(mark), mark, strlen(mark)) == 0;
        for (uint64_t e = 0; e < (experts ? dims[2] : 1); e++, n_tensors++) {
            char one[128];
            const uint64_t bytes = dims[0] * dims[1] * (type == GGUF_F32 ? 4 : 2);
            if (experts)
                snprintf(one, sizeof one, "%.*s.%d.weight", (int)(len - strlen(mark)), name, (int)e);
            else
                snprintf(one, sizeof one, "%.*s", (int)len, name);
            gguf_put_str(&infos, one);
            gguf_put_u32(&infos, experts ? 2 : rank);
            for (uint32_t i = 0; i < (experts ? 2 : rank); i++)
                gguf_put_u64(&infos, dims[i]);
            gguf_put_u32(&infos, type);
            gguf_put_u64(&infos, offset + e * bytes);
        }
    }
    dop_buf_finish(&w->infos);
    w->infos = infos;
    w->n_tensors = n_tensors;
}

/* Files of the time before experts were stacked: "ffn_gate.0.weight" to "ffn_gate.7.weight". */
Test(import_gguf, a_tensor_for_each_expert)
{
    scratch s = scratch_make();
    const char *path = scratch_path(&s, "model.gguf");
    gguf_writer w;
    convert_model(&w, "mixtral");
    const uint64_t before = w.n_tensors;
    split_experts(&w);
    cr_assert_gt(w.n_tensors, before);
    cr_assert(gguf_save(&w, path));
    const double worst = distance(path, "mixtral");
    cr_expect_lt(worst, 5e-4, "worst logit differs by %.3g standard deviations", worst);
    convert_model(&w, "mixtral");
    split_experts(&w);
    char *last = memmem(w.infos.data, w.infos.size, "blk.1.ffn_up.1.weight", 21);
    cr_assert(last);
    memcpy(last, "blk.1.ffn_up.9.weight", 21);
    cr_assert(gguf_save(&w, path));
    expect_failure(path, "", "tensor blk.1.ffn_up.1.weight is missing", 0, 0);
    scratch_remove(&s);
}

/* Makes the matrices whose names have `part`, bf16, such of q8_0, or of f32 with the values that those have. */
static void
requantize(gguf_writer *w, const char *part, bool blocks)
{
    enum { Q8_0 = 8, BLOCK = 32 };
    uint64_t len, dims[4], offset;
    uint32_t rank, type;
    unsigned n = 0;
    for (size_t at = 0; at < w->infos.size;) {
        char *p = w->infos.data + at, *name = p + 8;
        memcpy(&len, p, 8);
        memcpy(&rank, name + len, 4);
        memcpy(dims, name + len + 4, 8 * rank);
        char *end = name + len + 4 + 8 * rank;
        memcpy(&type, end, 4);
        memcpy(&offset, end + 4, 8);
        at += 8 + len + 16 + 8 * rank;
        if (!memmem(name, len, part, strlen(part)))
            continue;
        cr_assert(rank == 2 && type == GGUF_BF16 && dims[0] % BLOCK == 0);
        dop_buf out = {0};
        for (uint64_t i = 0; i < dims[0] * dims[1]; i += BLOCK) {
            float x[BLOCK], most = 0;
            for (int k = 0; k < BLOCK; k++) {
                uint16_t h;
                memcpy(&h, w->data.data + offset + 2 * (i + (uint64_t)k), 2);
                x[k] = dop_bf16_to_f32(h);
                most = fmaxf(most, fabsf(x[k]));
            }
            const uint16_t d = dop_f32_to_f16(most / 127);
            const float by = dop_f16_to_f32(d);
            if (blocks)
                dop_buf_append(&out, &d, sizeof d);
            for (int k = 0; k < BLOCK; k++) {
                const int8_t q = (int8_t)lrintf(fminf(fmaxf(x[k] / by, -127), 127));
                const float v = (float)q * by;
                dop_buf_append(&out, blocks ? (const void *)&q : &v, blocks ? 1 : sizeof v);
            }
        }
        while (w->data.size % 32)
            dop_buf_append(&w->data, "", 1);
        offset = w->data.size;
        type = blocks ? Q8_0 : GGUF_F32;
        memcpy(end, &type, 4);
        memcpy(end + 4, &offset, 8);
        dop_buf_append(&w->data, out.data, out.size);
        dop_buf_finish(&out);
        n++;
    }
    cr_assert_gt(n, 0);
}

/* Keys of latent attention are used turned, which blocks are copied for. */
Test(import_gguf, quantized_keys_and_values_in_one_matrix)
{
    scratch s = scratch_make();
    const char *path = scratch_path(&s, "model.gguf");
    double worst[2];
    for (int blocks = 0; blocks < 2; blocks++) {
        gguf_writer w;
        convert_model(&w, "minicpm3");
        requantize(&w, "attn_kv_b.weight", blocks);
        cr_assert(gguf_save(&w, path));
        worst[blocks] = distance(path, "minicpm3");
    }
    cr_expect(worst[0] == worst[1] && worst[0] > 1e-5 && worst[0] < 0.2, "%.6g and %.6g standard deviations", worst[0],
              worst[1]);
    scratch_remove(&s);
}

/* rope.scaling.attn_factor multiplies cosines and sines, besides what YaRN does, and without any scaling too. */
Test(import_gguf, attention_factor)
{
    static const struct {
        const char *golden;
        bool yarn;
    } rows[] = {{"llama", false}, {"llama", true}};
    scratch s = scratch_make();
    const char *path = scratch_path(&s, "model.gguf");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float table[2][4 * 16];
        for (int with = 0; with < 2; with++) {
            gguf_writer w;
            util_model u;
            dop_diag diag = {0};
            convert_model(&w, rows[i].golden);
            if (rows[i].yarn) {
                gguf_str(&w, "%.rope.scaling.type", "yarn");
                gguf_f32(&w, "%.rope.scaling.factor", 4);
                gguf_u32(&w, "%.rope.scaling.original_context_length", 64);
            }
            if (with)
                gguf_f32(&w, "%.rope.scaling.attn_factor", 5);
            cr_assert(gguf_save(&w, path));
            util_model_open(&u, path, 16);
            cr_assert_eq(u.m.arch.ropes[0].dims, 16);
            cr_assert_eq(dop_rope_table(&u.m.arch.ropes[0], 4, table[with], &diag), DOP_OK);
            util_model_close(&u);
        }
        const float first = rows[i].yarn ? (float)(0.1 * log(4) + 1) : 1; /* the cosine of position 0 */
        cr_expect_float_eq(table[0][0], first, 1e-6);
        for (size_t k = 0; k < 4 * 16; k++)
            cr_expect_float_eq(table[1][k], 5 * table[0][k], 1e-5);
    }
    scratch_remove(&s);
}

/* The output matrix in a part of its own. */
Test(import_gguf, split_file)
{
    scratch s = scratch_make();
    gguf_writer w, two = {.arch = "llama"};
    util_model u;
    convert_model(&w, "llama");
    gguf_u32(&w, "split.no", 0);
    gguf_u32(&w, "split.count", 2);
    uint64_t total = w.n_tensors;
    gguf_u32(&w, "split.tensors.count", (uint32_t)total + 1);
    /* The output matrix moves to part two; what was it in part one gets a name that is excused. */
    char *at = memmem(w.infos.data, w.infos.size, "output.weight", 13);
    while (at && at[-1] == '_') /* not attn_output.weight */
        at = memmem(at + 1, w.infos.size - (size_t)(at + 1 - w.infos.data), "output.weight", 13);
    cr_assert(at);
    memcpy(at, "visual.weight", 13);
    float *head = calloc(320 * 64, sizeof *head);
    gguf_tensor(&two, "output.weight", GGUF_F32, 2, (const uint64_t[]){320, 64}, head);
    free(head);
    gguf_u32(&two, "split.no", 1);
    gguf_u32(&two, "split.count", 2);
    cr_assert(gguf_save(&w, scratch_path(&s, "m-00001-of-00002.gguf")));
    cr_assert(gguf_save(&two, scratch_path(&s, "m-00002-of-00002.gguf")));
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
    gguf_writer w;
    convert_model(&w, "llama");
    cr_assert(gguf_save(&w, scratch_path(&s, "whole.gguf")));
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
        const char *model, *key;
        uint32_t value;
        const char *message;
    } cases[] = {
        {"llama", "llama.block_count", 1000000000, "llama.block_count is 1000000000, expected 1 to 1024"},
        {"llama", "llama.block_count", 1, "tensor blk.1.attn_norm.weight is of layer 1, but llama.block_count is 1"},
        {"llama", "llama.block_count", 3, "tensor blk.2.attn_norm.weight is missing"},
        {"llama", "llama.attention.head_count", 0, "llama.attention.head_count is 0, expected 1 to 4096"},
        {"llama", "llama.attention.head_count_kv", 3,
         "layer 0: 4 attention heads are not a multiple of 3 key/value heads"},
        {"llama", "llama.attention.key_length", 15, "heads of 15 for keys and 16 for values are not supported"},
        {"llama", "llama.embedding_length", 128,
         "tensor token_embd.weight: 320 x 64 values, expected 320 x 128 by the metadata"},
        {"llama", "llama.rope.dimension_count", 15, "llama.rope.dimension_count is 15, expected an even number"},
        {"llama", "llama.rope.dimension_count", 32, "layer 0: rotary embedding of 32 values on heads of 16"},
        {"llama", "llama.feed_forward_length", 0, "llama.feed_forward_length is 0, expected 1 to 1048576"},
        {"mixtral", "llama.expert_used_count", 5, "layer 0: 5 active experts of 4"},
        {"mixtral", "llama.expert_used_count", 0, "llama.expert_used_count is 0, expected 1 to 64"},
        {"mixtral", "llama.expert_count", 1000000, "llama.expert_count is 1000000, expected 1 to 4096"},
        {"mixtral", "llama.expert_count", 5,
         "tensor blk.0.ffn_gate_inp.weight: 4 x 64 values, expected 5 x 64 by the metadata"},
        {"glm4_moe", "glm4moe.expert_gating_func", 7, "glm4moe.expert_gating_func is not 1 (softmax) or 2 (sigmoid)"},
        {"glm4_moe", "glm4moe.expert_shared_count", 2,
         "tensor blk.1.ffn_gate_shexp.weight: 64 x 64 values, expected 128 x 64 by the metadata"},
        {"deepseek_v3", "deepseek2.attention.key_length_mla", 8,
         "deepseek2.rope.dimension_count is 8, but deepseek2.attention.key_length_mla is 8"},
        {"deepseek_v3", "deepseek2.attention.key_length_mla", 26,
         "heads of 26 values, 8 of them rotated, made of 32, and values of 16 are not multiples of 4 (of 8 where "
         "rotated)"},
        {"deepseek_v3", "deepseek2.attention.kv_lora_rank", 0,
         "deepseek2.attention.kv_lora_rank is 0, expected 1 to 4096"},
        {"llama4_text", "llama4.attention.sliding_window", 0,
         "llama4.attention.sliding_window is 0, expected 1 to 1073741824"},
        {"gemma4", "gemma4.attention.shared_kv_layers", 7,
         "gemma4.attention.shared_kv_layers is not an integer from 0 to 6"},
        {"gemma4", "gemma4.attention.shared_kv_layers", 2,
         "gemma4.attention.shared_kv_layers is 2 of 6 layers: none is left whose keys and values layer 5, which has "
         "full "
         "attention, could take"},
        {"mamba2", "mamba2.ssm.time_step_rank", 7,
         "mamba2.ssm.inner_size 128 is not divisible by mamba2.ssm.time_step_rank 7"},
        {"mamba2", "mamba2.ssm.group_count", 3, "layer 0: 8 value heads are not a multiple of 3 key heads"},
        {"mamba2", "mamba2.ssm.conv_kernel", 0, "mamba2.ssm.conv_kernel is 0, expected 1 to 16"},
        {"kimi_linear", "kimi-linear.kda.head_dim", 0, "kimi-linear.kda.head_dim is 0, expected 1 to 4096"},
        {"mamba", "mamba.ssm.time_step_rank", 7,
         "tensor blk.0.ssm_x.weight: 40 x 128 values, expected 39 x 128 by the metadata"},
        {"mpt", "mpt.attention.max_alibi_bias", 0,
         "mpt.attention.max_alibi_bias is 0: other positions than those of ALiBi are not supported"},
        {"gemma3n", "gemma3n.altup.num_inputs", 9, "gemma3n.altup.num_inputs is 9, expected 1 to 8"},
        {"minicpm3", "minicpm3.attention.key_length", 8,
         "minicpm3.rope.dimension_count is 8, but minicpm3.attention.key_length is 8"},
        {"minicpm3", "minicpm3.attention.key_length", 20,
         "tensor blk.0.attn_q_b.weight: 96 x 48 values, expected 80 x 48 by the metadata"},
        {"lfm2", "lfm2.shortconv.l_cache", 4,
         "tensor blk.0.shortconv.conv.weight: 64 x 3 values, expected 64 x 4 by the "
         "metadata"},
    };
    scratch s = scratch_make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_writer w;
        dop_buf key = {0};
        convert_model(&w, cases[i].model);
        cr_assert(gguf_save(&w, scratch_path(&s, "m.gguf")));
        dop_buf b = golden_file(s.dir, "m.gguf");
        gguf_put_str(&key, cases[i].key);
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
        gguf_writer w;
        const float zeros[64] = {0};
        char path[128];
        convert_model(&w, "llama");
        gguf_tensor(&w, cases[i].name, GGUF_F32, 1, (const uint64_t[]){64}, zeros);
        cr_assert(gguf_save(&w, scratch_path(&s, "m.gguf")));
        snprintf(path, sizeof path, "%s/m.gguf", s.dir);
        expect_failure(path, "", cases[i].message, 0, 0);
        scratch_remove(&s);
    }
}

Test(import_gguf, unknown_architecture_and_type)
{
    scratch s = scratch_make();
    gguf_writer w;
    char path[128];
    snprintf(path, sizeof path, "%s/m.gguf", s.dir);
    convert_model(&w, "llama");
    char *at = memmem(w.kvs.data, w.kvs.size, "\5\0\0\0\0\0\0\0llama", 13);
    cr_assert(at);
    memcpy(at + 8, "rwkv7", 5);
    cr_assert(gguf_save(&w, path));
    dop_buf list = {0}, message = {0};
    dop_family_list_gguf(&list);
    dop_buf_printf(&message, "architecture \"rwkv7\" is not supported in GGUF files; known: %s", list.data);
    expect_failure(path, "", message.data, 0, 0);
    dop_buf_finish(&list);
    dop_buf_finish(&message);
    convert_model(&w, "qwen3");
    gguf_u32(&w, "%.expert_count", 8);
    cr_assert(gguf_save(&w, path));
    expect_failure(path, "", "qwen3.expert_count is 8, but qwen3 models have no experts", 0, 0);
    convert_model(&w, "llama");
    gguf_u32(&w, "%.nextn_predict_layers", 2);
    cr_assert(gguf_save(&w, path));
    expect_failure(path, "", "llama.nextn_predict_layers is 2, but llama.block_count is 2", 0, 0);
    convert_model(&w, "glm4");
    gguf_u32(&w, "%.attention.sliding_window", 4096);
    cr_assert(gguf_save(&w, path));
    expect_failure(path, "", "glm4.attention.sliding_window is 4096, which glm4 models do not have", 0, 0);
    convert_model(&w, "gpt_neox");
    gguf_u32(&w, "%.attention.shared_kv_layers", 2);
    cr_assert(gguf_save(&w, path));
    expect_failure(path, "", "gptneox.attention.shared_kv_layers is 2, which is not supported", 0, 0);
    convert_model(&w, "llama");
    char *own = memmem(w.kvs.data, w.kvs.size, "tokenizer.ggml.tokens", 21);
    cr_assert(own);
    own[20] = 'z';
    gguf_array(&w, "tokenizer.ggml.tokens", 8, 321);
    for (int i = 0; i < 321; i++)
        gguf_put_str(&w.kvs, "x");
    cr_assert(gguf_save(&w, path));
    expect_failure(path, "", "tokenizer.ggml.tokens has 321 entries, but tensor token_embd.weight 320 rows", 0, 0);
    convert_model(&w, "llama");
    gguf_str(&w, "%.rope.scaling.type", "dynamic");
    cr_assert(gguf_save(&w, path));
    expect_failure(path, "",
                   "llama.rope.scaling.type \"dynamic\" is not supported; known: none, linear, yarn, longrope", 0, 0);
    /* type number of the first tensor's row: IQ2_XXS needs rows of 256, so I8 it is */
    convert_model(&w, "llama");
    at = memmem(w.infos.data, w.infos.size, "token_embd.weight", 17);
    cr_assert(at);
    uint32_t i8 = 24;
    memcpy(at + 17 + 4 + 16, &i8, 4);
    cr_assert(gguf_save(&w, path));
    expect_failure(path, "",
                   "tensor token_embd.weight: type I8 is not supported; known: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
                   "Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, MXFP4, IQ4_XS, IQ3_S, IQ3_XXS, IQ2_S, IQ2_XS, IQ2_XXS, "
                   "IQ1_M, IQ1_S, TQ1_0, TQ2_0, NVFP4, Q1_0, Q2_0",
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
        {"shakespeare-gemma3-gguf/shakespeare-gemma3-iq4_xs", 12},
        {"shakespeare-gemma3-gguf/shakespeare-gemma3-iq3_s", 12},
        {"shakespeare-gemma3-gguf/shakespeare-gemma3-iq2_xs", 12},
        {"shakespeare-gemma3-gguf/shakespeare-gemma3-nvfp4", 12},
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
