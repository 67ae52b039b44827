/* What importers make of models that load: facts, weights, the text side. */
#include "compiler/pack/pack_rows.h"
#include "frontend/hf/hf.h"
#include "frontend/hf/import.h"
#include "tests/unit/import_util.h"

#include <math.h>

typedef struct loaded {
    dop_arena arena;
    dop_checkpoint m;
} loaded;

static void
load_dir(loaded *l, const char *dir)
{
    dop_diag diag = {0};
    dop_arena_init(&l->arena);
    dop_status st = dop_checkpoint_load(dir, &l->arena, &diag, &l->m);
    cr_assert_eq(st, DOP_OK, "%s: %s: %s", dir, diag.path, diag.message);
}

static void
unload(loaded *l)
{
    dop_checkpoint_finish(&l->m);
    dop_arena_finish(&l->arena);
}

/* A golden model with a patched config.json. */
static void
load_patched(loaded *l, const char *model, const char *patch)
{
    scratch s = scratch_make();
    scratch_config(&s, model, patch);
    scratch_tensors(&s, model, "{}");
    load_dir(l, s.dir);
    scratch_remove(&s); /* the maps stay valid */
}

static void
same_ropes(const dop_arch *a, const dop_arch *b)
{
    cr_assert_eq(a->n_ropes, b->n_ropes);
    for (uint32_t i = 0; i < a->n_ropes; i++) {
        const dop_rope *x = &a->ropes[i], *y = &b->ropes[i];
        cr_expect(x->theta == y->theta && x->dims == y->dims && x->interleaved == y->interleaved &&
                      x->rotated == y->rotated && x->scaling == y->scaling && x->factor == y->factor &&
                      x->low_freq_factor == y->low_freq_factor && x->high_freq_factor == y->high_freq_factor &&
                      x->original_ctx == y->original_ctx && x->n_factors == y->n_factors &&
                      x->attention_factor == y->attention_factor,
                  "rotary embedding %u differs", i);
        for (uint32_t k = 0; k < x->n_factors; k++)
            cr_expect(x->short_factors[k] == y->short_factors[k] && x->long_factors[k] == y->long_factors[k]);
    }
}

static void
same_norm(const dop_norm *a, const dop_norm *b)
{
    cr_expect(a->kind == b->kind && a->bias == b->bias && a->eps == b->eps && a->add == b->add);
}

static void
same_facts(const dop_arch *a, const dop_arch *b)
{
    cr_assert_eq(a->n_layers, b->n_layers);
    cr_expect(a->hidden == b->hidden && a->vocab == b->vocab && a->ctx_train == b->ctx_train);
    cr_expect(a->tied == b->tied && a->learned_positions == b->learned_positions);
    cr_expect(a->logit_softcap == b->logit_softcap && a->embed_scale == b->embed_scale);
    same_norm(&a->final_norm, &b->final_norm);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        const dop_layer *x = &a->layers[i], *y = &b->layers[i];
        const dop_attention *p = &x->mixers[0].attn, *q = &y->mixers[0].attn;
        cr_expect(p->n_heads == q->n_heads && p->n_kv_heads == q->n_kv_heads && p->head_dim == q->head_dim &&
                      p->window == q->window && p->rope == q->rope && p->scale == q->scale &&
                      p->softcap == q->softcap && p->bias_q == q->bias_q && p->bias_o == q->bias_o,
                  "layer %u: attention differs", i);
        cr_expect(x->ffn.width == y->ffn.width && x->ffn.act == y->ffn.act && x->ffn.gated == y->ffn.gated &&
                      x->ffn.bias == y->ffn.bias && x->residual_scale == y->residual_scale &&
                      x->parallel == y->parallel,
                  "layer %u differs", i);
        same_norm(&x->attn_norm, &y->attn_norm);
        same_norm(&x->post_ffn_norm, &y->post_ffn_norm);
        same_norm(&p->q_norm, &q->q_norm);
    }
    same_ropes(a, b);
}

/* The same model in both styles of config.json. */
Test(import, old_and_new_style)
{
    static const struct {
        const char *model, *patch;
    } cases[] = {
        {"llama", "{\"dtype\": \"<delete>\", \"torch_dtype\": \"bfloat16\", \"rope_parameters\": \"<delete>\","
                  " \"rope_theta\": 10000.0, \"rope_scaling\": null, \"head_dim\": \"<delete>\"}"},
        {"llama3_rope_tied", "{\"rope_scaling\": \"<delete>\", \"rope_theta\": \"<delete>\", \"rope_parameters\": "
                             "{\"rope_theta\": 500000.0,"
                             " \"factor\": 8.0, \"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0,"
                             " \"original_max_position_embeddings\": 64, \"rope_type\": \"llama3\"}}"},
        {"llama_attnbias_linear", "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}"},
        {"llama_attnbias_linear", "{\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 4.0}}"},
        {"gemma", "{\"rope_parameters\": null, \"hidden_activation\": null, \"hidden_act\": \"gelu\","
                  " \"tie_word_embeddings\": \"<delete>\", \"rope_theta\": \"<delete>\"}"},
        {"gemma2",
         "{\"layer_types\": \"<delete>\", \"rope_parameters\": null, \"final_logit_softcapping\": \"<delete>\","
         " \"attn_logit_softcapping\": \"<delete>\"}"},
        {"gemma3",
         "{\"layer_types\": \"<delete>\", \"rope_parameters\": null, \"_sliding_window_pattern\": \"<delete>\","
         " \"sliding_window_pattern\": 6, \"rope_theta\": 1000000, \"rope_local_base_freq\": 10000}"},
        {"gemma3",
         "{\"layer_types\": \"<delete>\", \"rope_parameters\": null, \"_sliding_window_pattern\": \"<delete>\"}"},
        {"gemma3", "{\"attn_logit_softcapping\": 20.0}"}, /* which its attention does not read */
        {"qwen3", "{\"layer_types\": null, \"rope_parameters\": null, \"rope_theta\": 1000000.0}"},
        {"smollm3_nope", "{\"layer_types\": null, \"no_rope_layers\": null, \"tie_word_embeddings\": \"<delete>\"}"},
        {"phi4_mini_longrope",
         "{\"rope_scaling\": null, \"rope_theta\": null, \"partial_rotary_factor\": null, \"rope_parameters\": {"
         "\"rope_theta\": 10000.0, \"rope_type\": \"longrope\", \"partial_rotary_factor\": 0.75,"
         " \"original_max_position_embeddings\": 32, \"long_factor\": [1.0, 1.6, 2.2, 2.8, 3.4, 4.0],"
         " \"short_factor\": [1.0, 1.05, 1.1, 1.15, 1.2, 1.25]}}"},
        {"gpt_neox", "{\"rope_parameters\": \"<delete>\", \"rotary_pct\": 0.25, \"rotary_emb_base\": 10000,"
                     " \"attention_bias\": \"<delete>\", \"use_parallel_residual\": \"<delete>\"}"},
        {"cohere2", "{\"layer_types\": \"<delete>\", \"rope_parameters\": \"<delete>\", \"rope_theta\": 50000.0}"},
        {"exaone4", "{\"layer_types\": \"<delete>\", \"rope_parameters\": \"<delete>\", \"rope_theta\": 1000000.0}"},
        {"exaone4", "{\"sliding_window_pattern\": \"LLLG\"}"},
        {"glm4", "{\"rope_parameters\": \"<delete>\", \"partial_rotary_factor\": \"<delete>\"}"},
        {"gemma4", "{\"per_layer_config\": \"<delete>\", \"global_head_dim\": 32, \"layer_types\": \"<delete>\"}"},
        {"starcoder2", "{\"use_bias\": \"<delete>\", \"tie_word_embeddings\": \"<delete>\"}"},
        {"phi4_mini_longrope", "{\"rope_scaling\": {\"<merge>\": 1, \"rope_type\": \"<delete>\", \"type\": \"su\","
                               " \"original_max_position_embeddings\": \"<delete>\"}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loaded a, b;
        load_patched(&a, cases[i].model, "{}");
        load_patched(&b, cases[i].model, cases[i].patch);
        same_facts(&a.m.arch, &b.m.arch);
        unload(&a);
        unload(&b);
    }
}

/* Which layers rotate, and with heads of how many values. */
Test(import, layers_that_differ)
{
    static const struct {
        const char *model, *patch;
        int32_t rope[6];
        uint32_t head_dim[6];
    } cases[] = {
        {"cohere2", "{}", {0, 0, 0, -1}, {16, 16, 16, 16}},
        {"exaone4", "{}", {0, 0, 0, -1}, {16, 16, 16, 16}},
        {"exaone4", "{\"sliding_window\": null, \"layer_types\": null}", {0, 0, 0, 0}, {16, 16, 16, 16}},
        {"exaone4", "{\"sliding_window_pattern\": 1, \"layer_types\": null}", {-1, -1, -1, -1}, {16, 16, 16, 16}},
        {"gemma4", "{}", {1, 1, 1, 1, 1, 0}, {16, 16, 16, 16, 16, 32}},
        {"smollm3_nope", "{}", {0, 0, 0, -1}, {16, 16, 16, 16}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loaded l;
        load_patched(&l, cases[i].model, cases[i].patch);
        for (uint32_t k = 0; k < l.m.arch.n_layers; k++) {
            const dop_attention *t = dop_layer_attention(&l.m.arch.layers[k]);
            cr_assert(t);
            cr_expect(t->rope == cases[i].rope[k] && t->head_dim == cases[i].head_dim[k], "case %zu, layer %u: %d, %u",
                      i, k, t->rope, t->head_dim);
        }
        unload(&l);
    }
}

Test(import, sliding_windows)
{
    static const struct {
        const char *model, *patch;
        uint32_t window[4]; /* of the first layers; ~0 ends */
    } cases[] = {
        {"mistral_window", "{}", {12, 12, ~0u}},
        {"mistral_window", "{\"sliding_window\": null}", {0, 0, ~0u}},
        {"mistral_window", "{\"sliding_window\": \"<delete>\"}", {4096, 4096, ~0u}},
        {"qwen2", "{\"sliding_window\": 16}", {0, 0, ~0u}},
        {"qwen2",
         "{\"sliding_window\": 16, \"use_sliding_window\": true, \"max_window_layers\": 1, \"layer_types\": null}",
         {0, 16, ~0u}},
        {"qwen2",
         "{\"sliding_window\": 16, \"use_sliding_window\": true, \"layer_types\": [\"sliding_attention\","
         " \"full_attention\"]}",
         {16, 0, ~0u}},
        {"gemma2", "{}", {10, 0, 10, 0}},
        {"gemma3", "{}", {10, 10, 10, 10}},
        {"gemma3", "{\"layer_types\": null, \"sliding_window_pattern\": 2}", {10, 0, 10, 0}},
        {"phi3", "{\"sliding_window\": 9}", {9, 9, ~0u}},
        {"smollm3_nope", "{\"sliding_window\": 8, \"use_sliding_window\": true, \"layer_types\": null}", {0, 0, 0, 8}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loaded l;
        load_patched(&l, cases[i].model, cases[i].patch);
        for (uint32_t k = 0; k < 4 && cases[i].window[k] != ~0u; k++)
            cr_expect_eq(l.m.arch.layers[k].mixers[0].attn.window, cases[i].window[k], "case %zu, layer %u: window %u",
                         i, k, l.m.arch.layers[k].mixers[0].attn.window);
        unload(&l);
    }
}

/* A golden model as the text part of a model of several parts: its config below text_config, its tensors with a longer
 * prefix, and some of the other parts beside them. */
static void
write_nested(scratch *s, const char *model, const char *arch, const char *model_type, const char *prefix)
{
    static const char *const others[] = {"vision_tower.patch_embed.weight", "model.vision_tower.layers.0.q.weight",
                                         "multi_modal_projector.linear.weight", "audio_tower.conv1.weight",
                                         "mtp.layers.0.fc.weight"};
    dop_buf b = golden_file(model, "config.json"), t = golden_file(model, "model.safetensors");
    json_t *text = json_of(b.data), *top = json_object();
    json_object_del(text, "architectures");
    json_object_del(text, "eos_token_id");
    json_object_set_new(top, "architectures", json_pack("[s]", arch));
    json_object_set_new(top, "model_type", json_string(model_type));
    json_object_set_new(top, "eos_token_id", json_pack("[i,i]", 1, 106));
    json_object_set_new(top, "text_config", text);
    scratch_json(s, "config.json", top);
    json_t *header = json_loadb(t.data + 8, (size_t)st_header_size(&t), 0, NULL), *renamed = json_object(), *v;
    const char *key;
    json_object_foreach(header, key, v)
    {
        char name[256];
        const bool inside = strncmp(key, "model.", 6) == 0;
        if (strcmp(key, "__metadata__") == 0)
            continue;
        snprintf(name, sizeof name, "%s%s",
                 inside                                        ? prefix
                 : strncmp(prefix, "language_model.", 15) == 0 ? "language_model."
                                                               : "",
                 inside ? key + 6 : key);
        json_object_set(renamed, name, v);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        json_object_set_new(renamed, others[i],
                            json_pack("{s:s, s:[i,i], s:[i,i]}", "dtype", "F32", "shape", 0, 0, "data_offsets", 0, 0));
    char *dump = json_dumps(renamed, JSON_COMPACT);
    dop_buf out = st_bytes(dump, strlen(dump), strlen(dump), t.data + 8 + st_header_size(&t),
                           t.size - 8 - (size_t)st_header_size(&t));
    scratch_write(s, "model.safetensors", out.data, out.size);
    free(dump);
    json_decref(header);
    json_decref(renamed);
    json_decref(top);
    dop_buf_finish(&b);
    dop_buf_finish(&t);
    dop_buf_finish(&out);
}

Test(import, nested_text_config)
{
    static const struct {
        const char *model, *arch, *model_type, *prefix;
    } cases[] = {
        {"gemma3", "Gemma3ForConditionalGeneration", "gemma3", "language_model.model."},
        {"gemma3", "Gemma3ForConditionalGeneration", "gemma3", "model.language_model."},
        {"gemma4", "Gemma4ForConditionalGeneration", "gemma4", "model.language_model."},
        {"mistral_window", "Mistral3ForConditionalGeneration", "mistral3", "language_model.model."},
        {"llama", "LlavaForConditionalGeneration", "llava", "language_model.model."},
        {"llama", "SmolVLMForConditionalGeneration", "smolvlm", "model.text_model."},
        {"qwen2", "InternVLForConditionalGeneration", "internvl", "model.language_model."},
        {"cohere2", "AyaVisionForConditionalGeneration", "aya_vision", "model.language_model."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loaded plain, l;
        scratch s = scratch_make();
        load_patched(&plain, cases[i].model, "{}");
        write_nested(&s, cases[i].model, cases[i].arch, cases[i].model_type, cases[i].prefix);
        load_dir(&l, s.dir);
        same_facts(&plain.m.arch, &l.m.arch);
        cr_expect_eq(l.m.weights.n, plain.m.weights.n);
        cr_expect(l.m.arch.n_end_ids == 2 && l.m.arch.end_ids[0] == 1 && l.m.arch.end_ids[1] == 106);
        cr_expect_str_eq(l.m.note,
                         "tensors not used: 3 of the vision part: only text is compiled; 1 of the audio part: only "
                         "text is compiled; 1 of layers that predict further tokens, which are not compiled");
        unload(&l);
        unload(&plain);
        scratch_remove(&s);
    }
}

static void
same_weights(const dop_weights *a, const dop_weights *b)
{
    cr_assert_eq(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        const dop_weight *x = &a->items[i], *y = &b->items[i];
        cr_expect_str_eq(x->name, y->name);
        cr_assert(x->type == y->type && x->rows == y->rows && x->cols == y->cols && x->col_stride == 0);
        for (uint32_t r = 0; r < x->rows; r++)
            cr_assert_arr_eq(x->data + r * x->row_stride, y->data + r * y->row_stride,
                             x->cols * dop_type_of(x->type)->bytes, "%s row %u", x->name, r);
    }
}

/* The tensors of one file in two shards give the same weights. */
Test(import, shards)
{
    dop_buf b = golden_file("llama", "model.safetensors");
    const size_t n = (size_t)st_header_size(&b);
    json_t *header = json_loadb(b.data + 8, n, 0, NULL), *v, *map = json_object();
    scratch s = scratch_make();
    scratch_config(&s, "llama", "{}");
    for (unsigned part = 0; part < 2; part++) {
        json_t *own = json_object();
        dop_buf data = {0};
        char file[64];
        const char *key;
        unsigned i = 0;
        snprintf(file, sizeof file, "model-0000%u-of-00002.safetensors", part + 1);
        json_object_foreach(header, key, v)
        {
            if (strcmp(key, "__metadata__") == 0 || i++ % 2 != part)
                continue;
            size_t begin = (size_t)json_integer_value(json_array_get(json_object_get(v, "data_offsets"), 0));
            size_t end = (size_t)json_integer_value(json_array_get(json_object_get(v, "data_offsets"), 1));
            json_t *copy = json_copy(v);
            json_object_set_new(copy, "data_offsets",
                                json_pack("[I,I]", (json_int_t)data.size, (json_int_t)(data.size + end - begin)));
            json_object_set_new(own, key, copy);
            json_object_set_new(map, key, json_string(file));
            dop_buf_append(&data, b.data + 8 + n + begin, end - begin);
        }
        char *text = json_dumps(own, JSON_COMPACT);
        dop_buf out = st_bytes(text, strlen(text), strlen(text), data.data, data.size);
        scratch_write(&s, file, out.data, out.size);
        free(text);
        json_decref(own);
        dop_buf_finish(&data);
        dop_buf_finish(&out);
    }
    json_t *index = json_object();
    json_object_set_new(index, "weight_map", map);
    scratch_json(&s, "model.safetensors.index.json", index);
    loaded sharded, single;
    load_dir(&sharded, s.dir);
    load_patched(&single, "llama", "{}");
    cr_expect_eq(sharded.m.weights.n_maps, 2);
    same_weights(&single.m.weights, &sharded.m.weights);
    unload(&sharded);
    unload(&single);
    scratch_remove(&s);
    json_decref(index);
    json_decref(header);
    dop_buf_finish(&b);
}

/* Weights point into the mapped file, also as parts of fused and transposed tensors. */
Test(import, nothing_is_copied)
{
    static const char *const models[] = {"llama", "phi3", "gpt2", "gemma3"};
    for (size_t i = 0; i < 4; i++) {
        loaded l;
        load_patched(&l, models[i], "{}");
        const dop_map *map = &l.m.weights.maps[0];
        cr_assert_eq(l.m.weights.n_maps, 1);
        for (uint32_t k = 0; k < l.m.weights.n; k++)
            cr_expect(l.m.weights.items[k].data >= map->data && l.m.weights.items[k].data < map->data + map->size);
        unload(&l);
    }
    loaded l;
    load_patched(&l, "gpt2", "{}");
    const dop_weight *q = dop_weights_find(&l.m.weights, "L1.q"), *k = dop_weights_find(&l.m.weights, "L1.k");
    cr_assert(q && k);
    cr_expect(q->rows == 64 && q->cols == 64 && q->row_stride == 4 && q->col_stride == 192 * 4 &&
              k->data == q->data + 256);
    unload(&l);
    /* q, k and v of each head below each other: 16 rows of each, 48 from head to head. */
    load_patched(&l, "gpt_neox", "{}");
    q = dop_weights_find(&l.m.weights, "L1.q");
    k = dop_weights_find(&l.m.weights, "L1.k");
    cr_assert(q && k);
    cr_expect(q->row_stride == 128 && k->data == q->data + 16 * 128 && dop_weight_at(q, 15) == q->data + 15 * 128 &&
              dop_weight_at(q, 16) == q->data + 48 * 128 && dop_weight_at(k, 63) == k->data + (3 * 48 + 15) * 128);
    unload(&l);
    /* 16 rows of the query, 16 of the key, 32 of values and 32 of the gate in each of two groups; the first three are one
     * matrix whose rows are queries, then keys, then values. */
    load_patched(&l, "qwen3_next", "{}");
    q = dop_weights_find(&l.m.weights, "L1.mix_in");
    k = dop_weights_find(&l.m.weights, "L1.mix_z");
    cr_assert(q && k && q->rows == 128 && k->rows == 64);
    static const int from[][2] = {{0, 0},    {15, 15}, {16, 96}, {31, 111}, {32, 16},  {47, 31},
                                  {48, 112}, {64, 32}, {95, 63}, {96, 128}, {127, 159}};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        cr_expect(dop_weight_at(q, (uint32_t)from[i][0]) == q->data + from[i][1] * 128, "row %d", from[i][0]);
    cr_expect(k->data == q->data + 64 * 128 && dop_weight_at(k, 32) == q->data + 160 * 128);
    q = dop_weights_find(&l.m.weights, "L1.mix_beta"); /* two rows of each in each group */
    k = dop_weights_find(&l.m.weights, "L1.mix_dt");
    cr_assert(q && k && q->rows == 4 && k->rows == 4);
    cr_expect(k->data == q->data + 2 * 128 && dop_weight_at(q, 2) == q->data + 4 * 128 &&
              dop_weight_at(k, 3) == q->data + 7 * 128);
    unload(&l);
}

Test(import, ids_and_sampling)
{
    static const struct {
        const char *config, *generation;
        uint32_t n_end, top_k;
        int64_t end[2], bos;
        double temperature, top_p, min_p;
    } cases[] = {
        {"{}", NULL, 1, 0, {2}, 1, -1, 1, 0},
        {"{\"eos_token_id\": [2, 7]}", NULL, 2, 0, {2, 7}, 1, -1, 1, 0},
        {"{\"eos_token_id\": [2, 320]}", NULL, 1, 0, {2}, 1, -1, 1, 0}, /* 320 is past the vocabulary */
        {"{\"eos_token_id\": null, \"bos_token_id\": null}", NULL, 0, 0, {0}, -1, -1, 1, 0},
        {"{}", "{\"eos_token_id\": [5, 6], \"bos_token_id\": 3}", 2, 0, {5, 6}, 3, -1, 1, 0},
        {"{}", "{\"temperature\": 0.7, \"top_p\": 0.5}", 1, 0, {2}, 1, -1, 1, 0}, /* does not sample */
        {"{}", "{\"do_sample\": true}", 1, 50, {2}, 1, 1, 1, 0},
        {"{}",
         "{\"do_sample\": true, \"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.95, \"min_p\": 0.1}",
         1,
         20,
         {2},
         1,
         0.6,
         0.95,
         0.1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        loaded l;
        scratch_config(&s, "llama", cases[i].config);
        scratch_tensors(&s, "llama", "{}");
        if (cases[i].generation)
            scratch_text(&s, "generation_config.json", cases[i].generation);
        load_dir(&l, s.dir);
        cr_assert_eq(l.m.arch.n_end_ids, cases[i].n_end, "case %zu: %u end ids", i, l.m.arch.n_end_ids);
        for (uint32_t k = 0; k < cases[i].n_end; k++)
            cr_expect_eq(l.m.arch.end_ids[k], cases[i].end[k], "case %zu", i);
        cr_expect_eq(l.m.arch.bos_id, cases[i].bos, "case %zu", i);
        cr_expect(l.m.temperature == cases[i].temperature && l.m.top_p == cases[i].top_p &&
                      l.m.min_p == cases[i].min_p && l.m.top_k == cases[i].top_k,
                  "case %zu", i);
        unload(&l);
        scratch_remove(&s);
    }
}

/* Files as others write them: a byte order mark, Infinity, names that come twice, integers beyond 64 bits, NUL in a name. */
Test(import, json_of_others)
{
    loaded plain, l;
    scratch s = scratch_make();
    load_patched(&plain, "llama", "{}");
    dop_buf config = golden_file("llama", "config.json"), tensors = golden_file("llama", "model.safetensors"),
            odd = {0};
    dop_buf_puts(&odd, "\xef\xbb\xbf{\"hidden_size\": 3, \"x\\u0000y\": NaN, \"router_jitter\": -Infinity, "
                       "\"seed\": 123456789012345678901234567890, \"cut\": \"\\ud83d\",");
    dop_buf_puts(&odd, strchr(config.data, '{') + 1);
    scratch_write(&s, "config.json", odd.data, odd.size);
    scratch_write(&s, "model.safetensors", tensors.data, tensors.size);
    scratch_text(&s, "tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656}");
    load_dir(&l, s.dir);
    same_facts(&plain.m.arch, &l.m.arch);
    unload(&l);
    unload(&plain);
    dop_buf_finish(&config);
    dop_buf_finish(&tensors);
    dop_buf_finish(&odd);
    scratch_remove(&s);
}

/* A model without its output matrix. */
Test(import, without_head)
{
    static const struct {
        const char *golden, *arch;
    } rows[] = {{"llama", "LlamaModel"}, {"qwen3", "Qwen3Model"}, {"gemma3", "Gemma3TextModel"}, {"gpt2", "GPT2Model"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char patch[200];
        loaded plain, l;
        scratch s = scratch_make();
        load_patched(&plain, rows[i].golden, "{}");
        snprintf(patch, sizeof patch, "{\"architectures\": [\"%s\"], \"tie_word_embeddings\": false}", rows[i].arch);
        scratch_config(&s, rows[i].golden, patch);
        scratch_tensors(&s, rows[i].golden, "{\"lm_head.weight\": \"<delete>\"}");
        load_dir(&l, s.dir);
        cr_expect_null(l.m.note);
        cr_expect(l.m.arch.encoder.used && l.m.arch.encoder.pool == DOP_BY_LAST && l.m.arch.encoder.normalized);
        plain.m.arch.tied = l.m.arch.tied;
        same_facts(&plain.m.arch, &l.m.arch);
        unload(&l);
        unload(&plain);
        scratch_remove(&s);
    }
}

/* LFM2's first files: the width before two thirds of it are taken and rounded up. */
Test(import, width_of_first_lfm2_files)
{
    static const struct {
        const char *patch;
        uint32_t width;
    } rows[] = {
        {"{\"intermediate_size\": \"<delete>\", \"block_auto_adjust_ff_dim\": true, \"block_ff_dim\": 12288}", 8192},
        {"{\"intermediate_size\": \"<delete>\", \"block_auto_adjust_ff_dim\": true, \"block_ff_dim\": 6656}", 4608},
        {"{\"intermediate_size\": \"<delete>\", \"block_auto_adjust_ff_dim\": true, \"block_ff_dim\": 10240, "
         "\"block_multiple_of\": 100}",
         6900},
        {"{\"block_ff_dim\": 1000, \"block_auto_adjust_ff_dim\": false}", 1000},
        {"{\"block_auto_adjust_ff_dim\": \"<delete>\", \"block_ff_dim\": 1000, \"block_ffn_dim_multiplier\": 1.5, "
         "\"block_multiple_of\": 1}",
         999},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scratch s = scratch_make();
        dop_arena arena;
        dop_diag diag = {0};
        dop_arena_init(&arena);
        dop_checkpoint m = {.arena = &arena, .temperature = -1, .top_p = 1};
        dop_hf hf = {.dir = s.dir, .arena = &arena, .diag = &diag, .model = &m};
        scratch_config(&s, "lfm2", rows[i].patch);
        cr_assert_eq(dop_hf_facts(&hf), DOP_OK, "%s: %s", rows[i].patch, diag.message);
        cr_expect_eq(m.arch.layers[0].ffn.width, rows[i].width, "%s: %u", rows[i].patch, m.arch.layers[0].ffn.width);
        json_decref(hf.root);
        dop_arena_finish(&arena);
        scratch_remove(&s);
    }
}

/* Falcon-H1 with the norm of Mamba-2: a weight more, over all heads. */
Test(import, norm_of_recurrent_heads)
{
    scratch s = scratch_make();
    dop_arena arena;
    dop_diag diag = {0};
    dop_arena_init(&arena);
    dop_checkpoint m = {.arena = &arena, .temperature = -1, .top_p = 1};
    dop_hf hf = {.dir = s.dir, .arena = &arena, .diag = &diag, .model = &m};
    scratch_config(&s, "falcon_h1", "{\"mamba_rms_norm\": true, \"mamba_norm_before_gate\": false}");
    cr_assert_eq(dop_hf_facts(&hf), DOP_OK, "%s", diag.message);
    dop_weight_need need;
    const dop_recurrent *r = dop_layer_recurrent(&m.arch.layers[0]);
    cr_expect(r->norm.kind == DOP_NORM_RMS && r->norm_rows && !r->norm_first);
    cr_expect(dop_arch_weight(&m.arch, 0, DOP_W_mix_norm, &need) && need.cols == r->n_heads * r->head_dim);
    json_decref(hf.root);
    dop_arena_finish(&arena);
    dop_arena_init(&arena);
    m = (dop_checkpoint){.arena = &arena, .temperature = -1, .top_p = 1};
    hf = (dop_hf){.dir = s.dir, .arena = &arena, .diag = &diag, .model = &m};
    scratch_config(&s, "falcon_h1",
                   "{\"mamba_rms_norm\": true, \"mamba_norm_before_gate\": true, \"mamba_n_groups\": 2, "
                   "\"projectors_bias\": true, \"ssm_in_multiplier\": 3}");
    cr_assert_eq(dop_hf_facts(&hf), DOP_OK, "%s", diag.message);
    r = dop_layer_recurrent(&m.arch.layers[0]);
    cr_expect(r->norm_first && r->norm_groups && r->bias_out && !r->bias_in && r->in_scale == 1);
    cr_expect(dop_arch_weight(&m.arch, 0, DOP_W_mix_out_bias, &need));
    cr_expect(!dop_arch_weight(&m.arch, 0, DOP_W_mix_z_bias, &need));
    json_decref(hf.root);
    dop_arena_finish(&arena);
    scratch_remove(&s);
}

/* -1 is none and no limit; ids that are no tokens are named. */
Test(import, ids_and_limits_that_are_none)
{
    loaded l;
    scratch s = scratch_make();
    dop_buf tensors = golden_file("llama", "model.safetensors");
    scratch_config(&s, "llama", "{\"eos_token_id\": -1, \"bos_token_id\": -1}");
    scratch_write(&s, "model.safetensors", tensors.data, tensors.size);
    load_dir(&l, s.dir);
    cr_expect(l.m.arch.n_end_ids == 0 && l.m.arch.bos_id == -1 && !l.m.note);
    unload(&l);
    scratch_text(&s, "generation_config.json",
                 "{\"do_sample\": true, \"top_k\": -1, \"top_p\": -1, \"min_p\": -1, \"temperature\": 0.7, "
                 "\"eos_token_id\": [2, 1099511627776, -1, 1e30]}");
    load_dir(&l, s.dir);
    cr_expect(l.m.top_k == 0 && l.m.top_p == 1 && l.m.min_p == 0 && l.m.temperature == 0.7);
    cr_expect(l.m.arch.n_end_ids == 1 && l.m.arch.end_ids[0] == 2);
    cr_expect_str_eq(
        l.m.note,
        "eos_token_id 1099511627776 of generation_config.json is no token, since there are 320; "
        "eos_token_id 1000000000000000019884624838656 of generation_config.json is no token, since there are 320");
    unload(&l);
    dop_buf_finish(&tensors);
    scratch_remove(&s);
}

Test(import, chat_template_and_tokenizer)
{
    static const struct {
        const char *tokenizer_config, *json, *jinja, *expected;
    } cases[] = {
        {NULL, NULL, NULL, NULL},
        {"{\"chat_template\": \"one\"}", NULL, NULL, "one"},
        {"{\"chat_template\": null}", NULL, NULL, NULL},
        {"{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"no\"}, {\"name\": \"default\", \"template\": "
         "\"yes\"}]}",
         NULL, NULL, "{% if tools is not none +%}no{%+ else +%}yes{%+ endif %}"},
        {"{\"chat_template\": \"one\"}", "{\"chat_template\": \"two\"}", NULL, "two"},
        {"{\"chat_template\": \"one\"}", "{\"chat_template\": \"two\"}", "three", "three"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        loaded l;
        scratch_config(&s, "llama", "{}");
        scratch_tensors(&s, "llama", "{}");
        scratch_text(&s, "tokenizer.json", "{}");
        if (cases[i].tokenizer_config)
            scratch_text(&s, "tokenizer_config.json", cases[i].tokenizer_config);
        if (cases[i].json)
            scratch_text(&s, "chat_template.json", cases[i].json);
        if (cases[i].jinja)
            scratch_text(&s, "chat_template.jinja", cases[i].jinja);
        load_dir(&l, s.dir);
        cr_expect((!cases[i].expected && !l.m.chat_template) ||
                      (l.m.chat_template && cases[i].expected && strcmp(l.m.chat_template, cases[i].expected) == 0),
                  "case %zu: \"%s\"", i, l.m.chat_template ? l.m.chat_template : "none");
        cr_expect_str_eq(l.m.tokenizer_json_path, scratch_path(&s, "tokenizer.json"));
        unload(&l);
        scratch_remove(&s);
    }
}

/* The name is what the model says, else family and size; never anything of the path. */
Test(import, name)
{
    static const struct {
        const char *config, *expected;
    } cases[] = {{"{}", "llama-127K"},
                 {"{\"_name_or_path\": \"\"}", "llama-127K"},
                 {"{\"_name_or_path\": \"TinyTalk\"}", "TinyTalk"},
                 {"{\"_name_or_path\": \"someone/TinyTalk-2\"}", "TinyTalk-2"},
                 {"{\"_name_or_path\": \"/home/someone/checkpoint\"}", "llama-127K"},
                 {"{\"_name_or_path\": \"out/runs/checkpoint\"}", "llama-127K"},
                 {"{\"_name_or_path\": \"./checkpoint\"}", "llama-127K"},
                 {"{\"_name_or_path\": \"two\\nlines\"}", "llama-127K"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        loaded l;
        scratch_config(&s, "llama", cases[i].config);
        scratch_tensors(&s, "llama", "{}");
        load_dir(&l, s.dir);
        cr_expect_str_eq(l.m.name, cases[i].expected, "case %zu: %s", i, l.m.name);
        unload(&l);
        scratch_remove(&s);
    }
}

/* sqrt(hidden), not rounded to the type of the embedding. */
Test(import, gemma_embedding_scale)
{
    loaded l;
    load_dir(&l, DOP_SOURCE_DIR "/examples/shakespeare-gemma3");
    cr_expect_eq(l.m.arch.embed_scale, 16.0);
    cr_expect_eq(l.m.arch.final_norm.add, 1.0);
    cr_expect_eq(l.m.arch.layers[0].mixers[0].attn.scale, 0.125);
    unload(&l);
    load_dir(&l, DOP_SOURCE_DIR "/tests/encoders/embeddinggemma_48");
    cr_expect_eq(l.m.arch.embed_scale, (double)sqrtf(48));
    unload(&l);
}

/* Granite 4 without experts: layers are the shared one alone, and no tensor of experts is there. */
Test(import, shared_expert_alone)
{
    loaded l;
    scratch s = scratch_make();
    char drop[1024] = "{";
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
            static const char *const names[] = {"router.layer", "input_linear", "output_linear"};
            const size_t n = strlen(drop);
            snprintf(drop + n, sizeof drop - n, "%s\"model.layers.%d.block_sparse_moe.%s.weight\": \"<delete>\"",
                     n > 1 ? ", " : "", i, names[k]);
        }
    strcat(drop, "}");
    scratch_config(&s, "granitemoehybrid", "{\"num_local_experts\": 0, \"num_experts_per_tok\": 0}");
    scratch_tensors(&s, "granitemoehybrid", drop);
    load_dir(&l, s.dir);
    for (uint32_t i = 0; i < l.m.arch.n_layers; i++) {
        const dop_ffn *f = &l.m.arch.layers[i].ffn;
        cr_expect(f->kind == DOP_FFN_DENSE && f->width == 96 && f->gated, "layer %u", i);
        char name[32];
        snprintf(name, sizeof name, "L%u.up", i);
        const dop_weight *up = dop_weights_find(&l.m.weights, name);
        cr_assert(up && up->rows == 96 && strstr(up->source, "shared_mlp.input_linear"));
    }
    unload(&l);
    scratch_remove(&s);
}

/* Adds a tensor of floats with these experts' matrices, inputs before outputs; two matrices: their outputs take turns. */
static void
add_turned(json_t *header, dop_buf *data, const char *name, const dop_weight *first, const dop_weight *second)
{
    const uint32_t n = second ? 2 : 1, rows = first->rows * n, cols = first->cols;
    float *row = malloc(cols * sizeof *row), *turned = calloc((size_t)rows * cols, sizeof *turned);
    const size_t begin = data->size;
    cr_assert(row && turned);
    for (uint32_t e = 0; e < first->experts; e++) {
        for (uint32_t r = 0; r < rows; r++) {
            const dop_weight w = dop_weight_expert(r % n ? second : first, e);
            dop_weight_row(&w, r / n, row);
            for (uint32_t c = 0; c < cols; c++)
                turned[(size_t)c * rows + r] = row[c];
        }
        dop_buf_append(data, turned, (size_t)rows * cols * sizeof *turned);
    }
    json_object_set_new(header, name,
                        json_pack("{s:s, s:[i,i,i], s:[I,I]}", "dtype", "F32", "shape", (int)first->experts, (int)cols,
                                  (int)rows, "data_offsets", (json_int_t)begin, (json_int_t)data->size));
    free(row);
    free(turned);
}

/* gpt-oss whose experts were dequantized, as transformers and others save it. */
Test(import, experts_of_floats)
{
    loaded plain, l;
    scratch s = scratch_make();
    dop_buf b = golden_file("gpt_oss", "model.safetensors"), data = {0};
    const size_t n = (size_t)st_header_size(&b);
    json_t *header = json_loadb(b.data + 8, n, 0, NULL);
    load_patched(&plain, "gpt_oss", "{}");
    dop_buf_append(&data, b.data + 8 + n, b.size - 8 - n);
    for (uint32_t i = 0; i < plain.m.arch.n_layers; i++) {
        static const char *const parts[] = {"gate_up_proj_blocks", "gate_up_proj_scales", "down_proj_blocks",
                                            "down_proj_scales"};
        const dop_weight *w[3];
        char name[128];
        for (uint32_t k = 0; k < 4; k++) {
            snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s", i, parts[k]);
            cr_assert_eq(json_object_del(header, name), 0, "%s", name);
        }
        for (uint32_t k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "L%u.expert_%s", i, (const char *const[]){"gate", "up", "down"}[k]);
            cr_assert((w[k] = dop_weights_find(&plain.m.weights, name)) != NULL, "%s", name);
        }
        snprintf(name, sizeof name, "model.layers.%u.mlp.experts.gate_up_proj", i);
        add_turned(header, &data, name, w[0], w[1]);
        snprintf(name, sizeof name, "model.layers.%u.mlp.experts.down_proj", i);
        add_turned(header, &data, name, w[2], NULL);
    }
    char *text = json_dumps(header, JSON_COMPACT);
    dop_buf out = st_bytes(text, strlen(text), strlen(text), data.data, data.size);
    scratch_config(&s, "gpt_oss", "{\"quantization_config\": \"<delete>\"}");
    scratch_write(&s, "model.safetensors", out.data, out.size);
    load_dir(&l, s.dir);
    cr_assert_eq(l.m.weights.n, plain.m.weights.n);
    for (uint32_t i = 0; i < l.m.weights.n; i++) {
        const dop_weight *x = &l.m.weights.items[i], *y = dop_weights_find(&plain.m.weights, x->name);
        float got[256], want[256];
        cr_assert(y && x->rows == y->rows && x->cols == y->cols && x->cols <= 256 && x->experts == y->experts);
        for (uint32_t r = 0; r < x->rows * dop_weight_experts(x); r++) {
            const dop_weight a = dop_weight_expert(x, r / x->rows), c = dop_weight_expert(y, r / x->rows);
            dop_weight_row(&a, r % x->rows, got);
            dop_weight_row(&c, r % x->rows, want);
            cr_assert_arr_eq(got, want, x->cols * sizeof *got, "%s row %u", x->name, r);
        }
    }
    free(text);
    json_decref(header);
    dop_buf_finish(&b);
    dop_buf_finish(&data);
    dop_buf_finish(&out);
    unload(&l);
    unload(&plain);
    scratch_remove(&s);
}

/* What checkpoints carry besides the model's weights, and what the user is told of it. */
Test(import, excused_tensors)
{
#define NONE "{\"dtype\": \"F32\", \"shape\": [0, 0], \"data_offsets\": [0, 0]}"
    static const struct {
        const char *model, *config, *tensors, *note; /* NULL: none */
    } cases[] = {
        {"llama", "{}", "{}", NULL},
        {"llama", "{}",
         "{\"model.layers.0.self_attn.rotary_emb.inv_freq\": " NONE
         ", \"model.layers.1.self_attn.rotary_emb.inv_freq\": " NONE ", \"vision_tower.patch.weight\": " NONE "}",
         "tensors not used: 2 rotary frequencies, which are computed from the rotary base; 1 of the vision part: only "
         "text is compiled"},
        {"gpt2", "{}", "{\"transformer.h.0.attn.bias\": " NONE ", \"transformer.h.0.attn.masked_bias\": " NONE "}",
         "tensors not used: 2 attention masks, which the kernels know"},
        {"llama", "{\"num_nextn_predict_layers\": 1}", "{\"model.layers.2.embed_tokens.weight\": " NONE "}",
         "tensors not used: 1 of layers that predict further tokens, which are not compiled"},
        {"llama", "{\"tie_word_embeddings\": true}", "{}",
         "tensors not used: 1 output matrix: the embedding is used for it, as the configuration says"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loaded l;
        scratch s = scratch_make();
        scratch_config(&s, cases[i].model, cases[i].config);
        scratch_tensors(&s, cases[i].model, cases[i].tensors);
        load_dir(&l, s.dir);
        cr_expect(cases[i].note ? l.m.note && strcmp(l.m.note, cases[i].note) == 0 : !l.m.note, "case %zu: \"%s\"", i,
                  l.m.note ? l.m.note : "(none)");
        unload(&l);
        scratch_remove(&s);
    }
}
