/* Models that must not load: each gives its one message.  The damaged files are made here from the golden ones. */
#include "base/format/safetensors.h"
#include "frontend/facts/import.h"
#include "frontend/families/families.h"
#include "tests/unit/import_util.h"

/* ---- config.json -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *model, *patch, *message;
} config_cases[] = {
    /* what it is */
    {"llama", "{\"architectures\": [\"RwkvForCausalLM\"]}",
     "architecture \"RwkvForCausalLM\" is not supported; dopplerc --list-models has the names that are"},
    {"llama", "{\"architectures\": null, \"model_type\": \"rwkv\"}",
     "model_type \"rwkv\" is not supported; dopplerc --list-models has the names that are"},
    {"llama", "{\"architectures\": \"<delete>\", \"model_type\": \"<delete>\"}",
     "architectures and model_type are both missing"},
    /* experts */
    {"mixtral", "{\"num_experts_per_tok\": 5}", "layer 0: 5 active experts of 4"},
    {"mixtral", "{\"num_local_experts\": 0}", "the number of experts is 0, expected 1 to 4096"},
    {"mixtral", "{\"num_local_experts\": 1000000}", "num_local_experts is 1000000, expected 0 to 4096"},
    {"mixtral", "{\"num_experts_per_tok\": 0}", "the number of active experts is 0, expected 1 to 64"},
    {"glm4_moe", "{\"n_group\": 0}", "the number of groups of experts is 0, expected 1 to 4096"},
    {"glm4_moe", "{\"n_group\": 3}", "layer 1: 4 experts do not make 3 equal groups"},
    {"glm4_moe", "{\"n_group\": 2, \"topk_group\": 3}", "layer 1: the best 3 of 2 groups of experts"},
    {"glm4_moe", "{\"n_group\": 4}", "layer 1: the best 2 of the 1 experts of a group"},
    {"deepseek_v2", "{\"scoring_func\": \"sigmoid\"}",
     "scoring_func is sigmoid, which deepseek_v2 models do not score by"},
    {"glm4_moe", "{\"scoring_func\": \"softmax\"}", "scoring_func is softmax, which glm4_moe models do not score by"},
    {"qwen3_next", "{\"output_gate_type\": \"tanh\"}",
     "output_gate_type \"tanh\" is not supported; known: silu, swish, sigmoid"},
    {"qwen2_moe", "{\"decoder_sparse_step\": 0}", "decoder_sparse_step is 0, expected 1 to 1024"},
    {"qwen2_moe", "{\"mlp_only_layers\": [2]}", "mlp_only_layers[0] is not a layer below 2"},
    {"llama", "{\"architectures\": []}", "architectures is not a list of names"},
    {"llama", "{\"architectures\": [7]}", "architectures is not a list of names"},
    {"llama", "{\"architectures\": \"LlamaForCausalLM\"}", "architectures is not a list of names"},
    {"llama", "{\"model_type\": 3}", "model_type is an integer, expected a string"},
    {"mistral_window",
     "{\"architectures\": [\"Mistral3ForConditionalGeneration\"],"
     " \"text_config\": {\"model_type\": \"mistral9\"}}",
     "text_config.model_type \"mistral9\" is not supported; dopplerc --list-models has the names that are"},
    {"gemma3",
     "{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"text_config\": {\"model_type\": \"llama\"}}",
     "architectures names Gemma3ForConditionalGeneration, which is gemma3, but text_config.model_type is \"llama\": "
     "one of "
     "the two is wrong"},
    {"llama", "{\"model_type\": \"mistral\"}",
     "architectures names LlamaForCausalLM, which is llama, but model_type is \"mistral\": one of the two is wrong"},
    {"llama", "{\"architectures\": [\"LlavaForConditionalGeneration\"]}",
     "architecture \"LlavaForConditionalGeneration\" is not supported; dopplerc --list-models has the names that are"},
    {"gemma3", "{\"text_config\": [1]}", "text_config is a list, expected an object"},
    /* sizes */
    {"llama", "{\"num_attention_heads\": 0}", "num_attention_heads is 0, expected 1 to 4096"},
    {"llama", "{\"num_attention_heads\": \"<delete>\"}", "num_attention_heads is missing"},
    {"llama", "{\"num_attention_heads\": \"4\"}", "num_attention_heads is a string, expected an integer"},
    {"llama", "{\"num_attention_heads\": 4.5}", "num_attention_heads is a number, expected an integer"},
    {"llama", "{\"num_key_value_heads\": 0}", "num_key_value_heads is 0, expected 1 to 4096"},
    {"llama", "{\"num_key_value_heads\": 3}", "num_attention_heads 4 is not a multiple of num_key_value_heads 3"},
    {"llama", "{\"num_key_value_heads\": 8}", "num_attention_heads 4 is not a multiple of num_key_value_heads 8"},
    {"llama", "{\"hidden_size\": -64}", "hidden_size is -64, expected 1 to 1048576"},
    {"llama", "{\"hidden_size\": null}", "hidden_size is missing"},
    {"llama", "{\"hidden_size\": 65, \"head_dim\": \"<delete>\"}",
     "hidden_size 65 is not divisible by num_attention_heads 4"},
    {"llama", "{\"num_hidden_layers\": 1000000000}", "num_hidden_layers is 1000000000, expected 1 to 1024"},
    {"llama", "{\"num_hidden_layers\": 0}", "num_hidden_layers is 0, expected 1 to 1024"},
    {"llama", "{\"vocab_size\": 99999999999}", "vocab_size is 99999999999, expected 1 to 16777216"},
    {"llama", "{\"intermediate_size\": \"<delete>\"}", "intermediate_size is missing"},
    {"llama", "{\"intermediate_size\": -1}", "intermediate_size is -1, expected 1 to 1048576"},
    {"llama", "{\"max_position_embeddings\": 0}", "max_position_embeddings is 0, expected 1 to 1073741824"},
    {"llama", "{\"head_dim\": 5000}", "head_dim is 5000, expected 1 to 4096"},
    {"llama", "{\"head_dim\": 15}",
     "rotary embedding turns 15 of 15 values of a head (head_dim), expected an even number"},
    {"llama", "{\"head_dim\": 4096, \"num_attention_heads\": 4096, \"num_key_value_heads\": 1}",
     "the width of all heads is 16777216, expected 1 to 1048576"},
    {"gpt2", "{\"n_head\": 5}", "n_embd 64 is not divisible by n_head 5"},
    {"gpt2", "{\"n_layer\": 2000}", "n_layer is 2000, expected 1 to 1024"},
    {"gpt2", "{\"scale_attn_by_inverse_layer_idx\": true}", "scale_attn_by_inverse_layer_idx is not supported"},
    /* scalars */
    {"llama", "{\"rms_norm_eps\": -1e-5}", "rms_norm_eps is -1e-05, expected 0 to 1"},
    {"llama", "{\"rms_norm_eps\": \"small\"}", "rms_norm_eps is a string, expected a number"},
    {"llama", "{\"hidden_act\": \"mish\"}", "hidden_act \"mish\" is not supported"},
    {"llama", "{\"hidden_act\": 1}", "hidden_act is an integer, expected a string"},
    {"llama", "{\"tie_word_embeddings\": \"yes\"}", "tie_word_embeddings is a string, expected true or false"},
    {"llama", "{\"attention_bias\": 1}", "attention_bias is an integer, expected true or false"},
    {"gemma2", "{\"attn_logit_softcapping\": -50}", "attn_logit_softcapping is -50, expected 0.001 to 1e+06"},
    {"gemma3", "{\"query_pre_attn_scalar\": 0}", "query_pre_attn_scalar is 0, expected 0.001 to 1e+06"},
    {"gemma3", "{\"use_bidirectional_attention\": true}",
     "use_bidirectional_attention is true: a model that gives tokens cannot attend in both directions"},
    {"granite", "{\"logits_scaling\": 0}", "logits_scaling is 0, expected 1e-06 to 1e+06"},
    /* windows and layer types */
    {"mistral_window", "{\"sliding_window\": 0}", "sliding_window is 0, expected 1 to 1073741824"},
    {"mistral_window", "{\"sliding_window\": -5}", "sliding_window is -5, expected 1 to 1073741824"},
    {"gemma3", "{\"layer_types\": [\"full_attention\"]}", "layer_types has 1 entries, expected 7 (num_hidden_layers)"},
    {"gemma3", "{\"layer_types\": 7}", "layer_types is an integer, expected a list"},
    {"qwen3", "{\"layer_types\": [\"full_attention\", \"linear_attention\"]}",
     "layer_types[1] is linear_attention, expected full_attention or sliding_attention"},
    {"qwen3", "{\"layer_types\": [\"full_attention\", null]}",
     "layer_types[1] is null, expected full_attention or sliding_attention"},
    {"llama", "{\"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
     "layer_types[1] is sliding_attention, which llama models do not have"},
    {"gemma3", "{\"sliding_window\": null}", "layer_types[0] is sliding_attention, but sliding_window is null"},
    {"gemma3", "{\"layer_types\": null, \"sliding_window_pattern\": 0}",
     "sliding_window_pattern is 0, expected 1 to 1073741824"},
    {"smollm3_nope", "{\"no_rope_layers\": [1, 1]}", "no_rope_layers is not a list of 4 entries (num_hidden_layers)"},
    {"smollm3_nope", "{\"no_rope_layers\": [1, 1, 2, 0]}", "no_rope_layers[2] is not 0 or 1"},
    /* what has no facts yet */
    {"gemma3", "{\"num_kv_shared_layers\": 2}", "num_kv_shared_layers is not supported"},
    {"gemma3", "{\"enable_moe_block\": true}", "enable_moe_block is not supported"},
    {"gemma3", "{\"hidden_size_per_layer_input\": 256}", "hidden_size_per_layer_input is not supported"},
    /* inputs of single layers, shared keys and values */
    {"gemma4", "{\"num_kv_shared_layers\": 7}", "num_kv_shared_layers is 7, expected 0 to 6"},
    {"gemma4", "{\"num_kv_shared_layers\": 2}",
     "num_kv_shared_layers is 2 of 6 layers: none is left whose keys and values layer 5, which has full attention, "
     "could "
     "take"},
    {"gemma4",
     "{\"num_kv_shared_layers\": 1, \"layer_types\": [\"full_attention\", \"sliding_attention\", "
     "\"sliding_attention\", "
     "\"sliding_attention\", \"sliding_attention\", \"full_attention\"], \"per_layer_config\": {\"0\": {\"head_dim\": "
     "32}, \"5\": {\"head_dim\": 32, \"num_key_value_heads\": 2}}}",
     "layer 5 shares keys and values of layer 0, which has 1 heads of 32 values in a window of 0 instead of 2 of 32 in "
     "0"},
    {"gemma4", "{\"hidden_size_per_layer_input\": 16, \"vocab_size_per_layer_input\": 100}",
     "the layers' own inputs know 100 of 320 tokens"},
    {"gemma4", "{\"hidden_size_per_layer_input\": 100000, \"vocab_size_per_layer_input\": 320}",
     "the width of a layer's own input is 100000, expected 1 to 1024"},
    {"gemma4", "{\"enable_moe_block\": true}", "num_experts is missing"},
    {"gemma4", "{\"attention_k_eq_v\": 1}", "attention_k_eq_v is an integer, expected true or false"},
    {"olmoe", "{\"clip_qkv\": 8.0}", "clip_qkv is not supported"},
    {"phi", "{\"qk_layernorm\": true}", "qk_layernorm is not supported"},
    {"gemma4", "{\"per_layer_config\": {\"1\": {\"head_dim\": 32}}}",
     "layer 1 has heads of 32 values, others of its type have 16: one rotary embedding does not fit both"},
    {"gpt_neox", "{\"use_parallel_residual\": 1}", "use_parallel_residual is an integer, expected true or false"},
    {"cohere2", "{\"logit_scale\": 0}", "logit_scale is 0, expected 1e-06 to 1e+06"},
    /* rotary */
    {"llama", "{\"rope_parameters\": null, \"rope_theta\": 0}", "rope_theta is 0, expected 0.001 to 1e+12"},
    {"llama", "{\"rope_parameters\": {\"rope_theta\": -1, \"rope_type\": \"default\"}}",
     "rope_parameters.rope_theta is -1, expected 0.001 to 1e+12"},
    {"llama", "{\"rope_parameters\": {\"rope_type\": \"spiral\", \"factor\": 2.0}}",
     "rope_parameters.rope_type \"spiral\" is not supported; known: default, linear, ntk, llama3, yarn, longrope, "
     "proportional"},
    {"llama", "{\"rope_theta\": 500000}", "rope_theta is 500000, but rope_parameters.rope_theta is 10000"},
    {"llama", "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
     "rope_scaling.type is \"linear\", but rope_parameters, which newer files have instead, says \"default\": keep one "
     "of "
     "them"},
    {"gpt_neox", "{\"rotary_pct\": 0.5}", "rotary_pct is 0.5, but rope_parameters.partial_rotary_factor is 0.25"},
    {"llama", "{\"rope_parameters\": null, \"rope_scaling\": \"linear\"}",
     "rope_scaling is a string, expected an object"},
    {"llama", "{\"rope_parameters\": null, \"rope_scaling\": {\"type\": \"linear\"}}",
     "rope_scaling.factor is missing"},
    {"llama", "{\"rope_parameters\": null, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}",
     "rope_scaling.factor is 0, expected 0.001 to 1e+06"},
    {"llama3_rope_tied", "{\"rope_scaling\": {\"<merge>\": 1, \"low_freq_factor\": 4.5}}",
     "rope_scaling.high_freq_factor 4 is below low_freq_factor 4.5"},
    {"llama3_rope_tied", "{\"rope_scaling\": {\"<merge>\": 1, \"high_freq_factor\": \"<delete>\"}}",
     "rope_scaling.high_freq_factor is missing"},
    {"phi3", "{\"partial_rotary_factor\": 0.01}",
     "rotary embedding turns 0 of 16 values of a head (head_dim), expected an even number"},
    {"phi3", "{\"partial_rotary_factor\": 1.5}", "partial_rotary_factor is 1.5, expected 0.001 to 1"},
    {"phi4_mini_longrope", "{\"rope_scaling\": {\"<merge>\": 1, \"long_factor\": [1.0, 2.0]}}",
     "rope_scaling.long_factor has 2 entries, expected 6 (half of the rotated values)"},
    {"phi4_mini_longrope", "{\"rope_scaling\": {\"<merge>\": 1, \"short_factor\": \"<delete>\"}}",
     "rope_scaling.short_factor is missing"},
    {"phi4_mini_longrope", "{\"rope_scaling\": {\"<merge>\": 1, \"long_factor\": [1, 1, \"x\", 1, 1, 1]}}",
     "rope_scaling.long_factor[2] is a string, expected a number"},
    {"phi4_mini_longrope", "{\"rope_scaling\": {\"<merge>\": 1, \"long_factor\": [1, 1, 0, 1, 1, 1]}}",
     "rope_scaling.long_factor[2] is 0, expected 1e-06 to 1e+06"},
    {"gemma3", "{\"rope_parameters\": {\"full_attention\": {\"rope_theta\": \"big\"}}}",
     "rope_parameters.full_attention.rope_theta is a string, expected a number"},
    /* ids */
    {"llama", "{\"eos_token_id\": \"</s>\"}", "eos_token_id is not a token id or a list of token ids"},
    {"llama", "{\"eos_token_id\": [2, -3]}", "eos_token_id is not a token id or a list of token ids"},
    {"llama", "{\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}",
     "eos_token_id has 17 ids, at most 16 are supported"},
    {"llama", "{\"bos_token_id\": 1.5}", "bos_token_id is not a token id or a list of token ids"},
};

/* Every family is in every list that it belongs into, once. */
Test(import_errors, lists_of_families)
{
    dop_buf names = {0}, types = {0}, gguf = {0};
    dop_family_list(&names);
    dop_family_list_types(&types);
    dop_family_list_gguf(&gguf);
    const struct {
        const char *list, *begin;
    } lists[] = {{names.data, "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "},
                 {types.data, "llama, mistral, qwen2, qwen3, gemma, "},
                 {gguf.data, "llama, qwen2, qwen2vl, qwen3, qwen3vl, gemma, "}};
    for (int k = 0; k < 3; k++) {
        cr_expect_eq(strncmp(lists[k].list, lists[k].begin, strlen(lists[k].begin)), 0, "%s", lists[k].list);
        for (uint32_t i = 0; i < dop_n_families; i++) {
            const dop_family *f = &dop_families[i];
            const char *all = k == 0 ? f->archs[0] : k == 1 ? f->model_types[0] : f->gguf;
            for (size_t len; all && *all; all += len + (all[len] == ' ')) { /* GGUF: or several names */
                char name[64];
                unsigned n = 0;
                len = strcspn(all, " ");
                snprintf(name, sizeof name, "%.*s", (int)len, all);
                for (const char *at = lists[k].list; (at = strstr(at, name)); at += len)
                    n += (at == lists[k].list || at[-1] == ' ') && (at[len] == ',' || at[len] == 0);
                cr_expect_eq(n, 1, "%s is there %u times", name, n);
            }
        }
    }
    dop_buf_finish(&names);
    dop_buf_finish(&types);
    dop_buf_finish(&gguf);
}

Test(import_errors, config_fields)
{
    for (size_t i = 0; i < sizeof config_cases / sizeof *config_cases; i++) {
        scratch s = scratch_make();
        scratch_config(&s, config_cases[i].model, config_cases[i].patch);
        scratch_tensors(&s, config_cases[i].model, "{}");
        expect_failure(s.dir, "config.json", config_cases[i].message, 0, 0);
        scratch_remove(&s);
    }
}

Test(import_errors, config_syntax)
{
    static const struct {
        const char *text, *message;
        long line, column;
    } cases[] = {
        {"", "invalid JSON: it is empty", 1, 1},
        {"{\n  \"hidden_size\": 64,\n  \"vocab_size\" 320\n}\n", "invalid JSON: ':' expected near '320'", 3, 16},
        {"{\"hidden_size\": 64", "invalid JSON: ',' or '}' expected at the end", 1, 19},
        {"[1, 2]", "the file holds a list, expected an object", 0, 0},
        {"{\"a\": \"\xff\"}", "invalid JSON: the byte 0xff is not UTF-8", 1, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        scratch_text(&s, "config.json", cases[i].text);
        expect_failure(s.dir, "config.json", cases[i].message, cases[i].line, cases[i].column);
        scratch_remove(&s);
    }
}

Test(import_errors, other_json_files)
{
    static const struct {
        const char *file, *text, *message;
        long line, column;
    } cases[] = {
        {"generation_config.json", "{\"do_sample\": true, \"temperature\": -1}", "temperature is -1, expected 0 to 100",
         0, 0},
        {"generation_config.json", "{\"do_sample\": 1}", "do_sample is an integer, expected true or false", 0, 0},
        {"generation_config.json", "{\"do_sample\": true, \"top_p\": 2}", "top_p is 2, expected 0 to 1", 0, 0},
        {"generation_config.json", "{\"do_sample\": true, \"top_k\": -4}", "top_k is -4, expected 0 to 16777216", 0, 0},
        {"generation_config.json", "{\"eos_token_id\": {}}", "eos_token_id is not a token id or a list of token ids", 0,
         0},
        {"generation_config.json", "{,}", "invalid JSON: a name in quotes or '}' expected near ','", 1, 2},
        {"tokenizer_config.json", "{\"chat_template\": 5}",
         "\"chat_template\" is neither a text nor a list of {\"name\", \"template\"}", 0, 0},
        {"tokenizer_config.json", "{", "invalid JSON: a name in quotes or '}' expected at the end", 1, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        scratch_config(&s, "llama", "{}");
        scratch_tensors(&s, "llama", "{}");
        scratch_text(&s, cases[i].file, cases[i].text);
        expect_failure(s.dir, cases[i].file, cases[i].message, cases[i].line, cases[i].column);
        scratch_remove(&s);
    }
}

/* ---- safetensors -------------------------------------------------------------------------------------------------- */

#define Q "model.layers.0.self_attn.q_proj.weight"

#define EMPTY "{\"dtype\": \"BF16\", \"shape\": [0], \"data_offsets\": [0, 0]}"
#define UNREAD ": config.json says nothing of it, so leaving it out would compile another model"

static const struct {
    const char *model, *patch, *message;
} tensor_cases[] = {
    {"llama", "{\"" Q "\": \"<delete>\"}", "tensor " Q " is missing"},
    {"llama", "{\"lm_head.weight\": \"<delete>\"}", "tensor lm_head.weight is missing"},
    {"llama", "{\"model.embed_tokens.weight\": \"<delete>\"}", "tensor model.embed_tokens.weight is missing"},
    {"llama_attnbias_linear", "{\"model.layers.1.mlp.up_proj.bias\": \"<delete>\"}",
     "tensor model.layers.1.mlp.up_proj.bias is missing"},
    {"gemma3", "{\"model.layers.0.pre_feedforward_layernorm.weight\": \"<delete>\"}",
     "tensor model.layers.0.pre_feedforward_layernorm.weight is missing"}, /* which another family's names have */
    {"qwen3", "{\"model.layers.1.self_attn.k_norm.weight\": \"<delete>\"}",
     "tensor model.layers.1.self_attn.k_norm.weight is missing"},
    {"llama", "{\"model.layers.0.self_attn.q_proj.bias\": " EMPTY "}",
     "tensor model.layers.0.self_attn.q_proj.bias" UNREAD},
    {"llama", "{\"model.layers.1.mlp.router.weight\": " EMPTY ", \"model.layers.1.a\": " EMPTY ", \"v\": " EMPTY "}",
     "tensor model.layers.1.a: config.json says nothing of it (and of 2 tensors more), so leaving it out would compile "
     "another model"},
    {"llama", "{\"model.layers.2.mlp.up_proj.weight\": " EMPTY "}",
     "tensor model.layers.2.mlp.up_proj.weight is of layer 2, but num_hidden_layers is 2"},
    {"llama", "{\"model.layers.0.self_attn.attn.bias\": " EMPTY "}",
     "tensor model.layers.0.self_attn.attn.bias" UNREAD}, /* a mask has more axes */
    {"gpt2", "{\"transformer.h.2.mlp.c_fc.bias\": " EMPTY "}",
     "tensor transformer.h.2.mlp.c_fc.bias is of layer 2, but n_layer is 2"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"shape\": [32, 128]}}",
     "tensor " Q ": shape [32, 128], expected [64, 64] by config.json"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"shape\": [4096]}}",
     "tensor " Q ": shape [4096], expected [64, 64] by config.json"},
    {"llama", "{\"model.norm.weight\": {\"<merge>\": 1, \"shape\": [1, 64]}}",
     "tensor model.norm.weight: shape [1, 64], expected [64] by config.json"},
    {"gpt2", "{\"transformer.h.1.attn.c_attn.weight\": {\"<merge>\": 1, \"shape\": [192, 64]}}",
     "tensor transformer.h.1.attn.c_attn.weight: shape [192, 64], expected [64, 192] by config.json"},
    {"phi3", "{\"model.layers.0.self_attn.qkv_proj.weight\": {\"<merge>\": 1, \"shape\": [64, 128]}}",
     "tensor model.layers.0.self_attn.qkv_proj.weight: shape [64, 128], expected [128, 64] by config.json"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"dtype\": \"I16\"}}",
     "tensor " Q ": dtype I16 is not supported; known: F32, F16, BF16"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"dtype\": \"BF17\"}}", "tensor " Q ": unknown dtype \"BF17\""},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"dtype\": 16}}", "tensor " Q ": dtype is an integer, expected a string"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"dtype\": \"F32\"}}",
     "tensor " Q ": F32 [64, 64] takes 16384 bytes, but data_offsets span 8192"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"shape\": [64, 65]}}",
     "tensor " Q ": BF16 [64, 65] takes 8320 bytes, but data_offsets span 8192"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"shape\": [4294967296, 4294967296, 4294967296]}}",
     "tensor " Q ": shape is too large"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"shape\": [64, -64]}}",
     "tensor " Q ": shape[1] is not an integer of 0 or more"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"shape\": [1,1,1,1,1,1,1,64,64]}}",
     "tensor " Q ": shape has 9 axes, at most 8 are supported"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"shape\": \"64x64\"}}",
     "tensor " Q ": shape is a string, expected a list"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"dtype\": \"F4\", \"shape\": [3]}}",
     "tensor " Q ": shape does not fill whole bytes"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"data_offsets\": [0]}}",
     "tensor " Q ": data_offsets is not a list of two integers of 0 or more"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"data_offsets\": [-8192, 0]}}",
     "tensor " Q ": data_offsets is not a list of two integers of 0 or more"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"data_offsets\": [8192, 0]}}",
     "tensor " Q ": data_offsets end before they begin"},
    {"llama", "{\"" Q "\": {\"<merge>\": 1, \"data_offsets\": [9223372036854767615, 9223372036854775807]}}",
     "tensor " Q ": ends at byte 9223372036854775807 of the data, but the file has 254592 (truncated download?)"},
    {"llama", "{\"model.norm.weight\": {\"<merge>\": 1, \"data_offsets\": [100, 228]}}",
     "tensors lm_head.weight and model.norm.weight overlap"},
    {"llama", "{\"" Q "\": [64, 64]}", "tensor " Q ": the header entry is a list, expected an object"},
};

Test(import_errors, tensors)
{
    for (size_t i = 0; i < sizeof tensor_cases / sizeof *tensor_cases; i++) {
        scratch s = scratch_make();
        scratch_config(&s, tensor_cases[i].model, "{}");
        scratch_tensors(&s, tensor_cases[i].model, tensor_cases[i].patch);
        expect_failure(s.dir, "model.safetensors", tensor_cases[i].message, 0, 0);
        scratch_remove(&s);
    }
}

/* A model with layers that the file does not have, or of another width. */
Test(import_errors, tensors_do_not_fit_config)
{
    static const struct {
        const char *patch, *message;
    } cases[] = {
        {"{\"num_hidden_layers\": 1}",
         "tensor model.layers.1.input_layernorm.weight is of layer 1, but num_hidden_layers is 1"},
        {"{\"num_hidden_layers\": 3}", "tensor model.layers.2.input_layernorm.weight is missing"},
        {"{\"vocab_size\": 321}",
         "tensor model.embed_tokens.weight: shape [320, 64], expected [321, 64] by config.json"},
        {"{\"intermediate_size\": 128}",
         "tensor model.layers.0.mlp.gate_proj.weight: shape [160, 64], expected [128, 64] by config.json"},
        {"{\"num_key_value_heads\": 4}",
         "tensor model.layers.0.self_attn.k_proj.weight: shape [32, 64], expected [64, 64] by config.json"},
        {"{\"attention_bias\": true}", "tensor model.layers.0.self_attn.q_proj.bias is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        scratch_config(&s, "llama", cases[i].patch);
        scratch_tensors(&s, "llama", "{}");
        expect_failure(s.dir, "model.safetensors", cases[i].message, 0, 0);
        scratch_remove(&s);
    }
}

Test(import_errors, safetensors_container)
{
    dop_buf whole = golden_file("llama", "model.safetensors");
    const uint64_t n = st_header_size(&whole);
    const char *header = whole.data + 8, *data = whole.data + 8 + n;
    const size_t data_size = whole.size - 8 - (size_t)n;
    char truncated[160], short_data[200];
    snprintf(truncated, sizeof truncated,
             "truncated: the header takes %llu bytes, only 100 follow (truncated download?)", (unsigned long long)n);
    snprintf(short_data, sizeof short_data,
             "tensor %s: ends at byte %zu of the data, but the file has %zu (truncated download?)", "model.norm.weight",
             data_size, data_size - 1);
    const struct {
        dop_buf file;
        const char *message;
        long line, column;
    } cases[] = {
        {{.data = NULL}, "not a safetensors file: it has 0 bytes, the header length alone takes 8", 0, 0},
        {st_bytes("", 0, 0, NULL, 0), "not a safetensors file: the header is not a JSON object", 0, 0},
        {st_bytes("{}", 2, 1, NULL, 0), "not a safetensors file: the header is not a JSON object", 0, 0},
        {st_bytes("[]", 2, 2, NULL, 0), "not a safetensors file: the header is not a JSON object", 0, 0},
        {st_bytes(header, (size_t)n, UINT64_MAX, data, data_size),
         "not a safetensors file: header length 18446744073709551615, at most 100000000 is allowed", 0, 0},
        {st_bytes(header, (size_t)n, 100000001, data, data_size),
         "not a safetensors file: header length 100000001, at most 100000000 is allowed", 0, 0},
        {st_bytes(header, 100, n, NULL, 0), truncated, 0, 0},
        {st_bytes("{\"a\": }", 7, 7, NULL, 0), "invalid JSON: a value expected near '}'", 1, 7},
        {st_bytes("{\"a\":1,\"a\":2}", 13, 13, NULL, 0), "invalid JSON: a name comes twice in an object, near 'a'", 1,
         8},
        {st_bytes("{}", 2, 2, NULL, 0), "tensor model.embed_tokens.weight is missing", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        scratch_config(&s, "llama", "{}");
        scratch_write(&s, "model.safetensors", cases[i].file.data ? cases[i].file.data : "", cases[i].file.size);
        expect_failure(s.dir, "model.safetensors", cases[i].message, cases[i].line, cases[i].column);
        scratch_remove(&s);
        dop_buf b = cases[i].file;
        dop_buf_finish(&b);
    }
    scratch s = scratch_make();
    scratch_config(&s, "llama", "{}");
    scratch_write(&s, "model.safetensors", whole.data, whole.size - 1);
    expect_failure(s.dir, "model.safetensors", short_data, 0, 0);
    scratch_remove(&s);
    dop_buf_finish(&whole);
}

/* ---- shards ------------------------------------------------------------------------------------------------------- */

Test(import_errors, index_file)
{
    static const struct {
        const char *index, *file, *message;
        long line, column;
    } cases[] = {
        {"{\"weight_map\": {\"a\": \"one.safetensors\"}}", "one.safetensors", "cannot open: No such file or directory",
         0, 0},
        {"{\"weight_map\": {\"a\": \"../llama/model.safetensors\"}}", "model.safetensors.index.json",
         "weight_map: \"../llama/model.safetensors\" is not a plain file name", 0, 0},
        {"{\"weight_map\": {\"a\": \"..\"}}", "model.safetensors.index.json",
         "weight_map: \"..\" is not a plain file name", 0, 0},
        {"{\"weight_map\": {\"a\": \"\"}}", "model.safetensors.index.json", "weight_map: \"\" is not a plain file name",
         0, 0},
        {"{\"weight_map\": {\"a\": 1}}", "model.safetensors.index.json",
         "weight_map: the file of a is an integer, expected a string", 0, 0},
        {"{\"weight_map\": {\"a\": \"shard.bin\"}}", "model.safetensors.index.json",
         "weight_map: tensor a is not in shard.bin", 0, 0},
        {"{\"weight_map\": {\"lm_head.weight\": \"shard.bin\"}}", "model.safetensors.index.json",
         "tensor model.embed_tokens.weight is missing", 0, 0},
        {"{\"weight_map\": []}", "model.safetensors.index.json", "weight_map is a list, expected an object", 0, 0},
        {"{\"metadata\": {}}", "model.safetensors.index.json", "weight_map is missing", 0, 0},
        {"{\"weight_map\": {}}", "model.safetensors.index.json", "tensor model.embed_tokens.weight is missing", 0, 0},
        {"{\"weight_map\": {\"a\"}}", "model.safetensors.index.json", "invalid JSON: ':' expected near '}'", 1, 20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        dop_buf b = golden_file("llama", "model.safetensors");
        scratch_config(&s, "llama", "{}");
        scratch_write(&s, "shard.bin", b.data, b.size);
        scratch_text(&s, "model.safetensors.index.json", cases[i].index);
        expect_failure(s.dir, cases[i].file, cases[i].message, cases[i].line, cases[i].column);
        scratch_remove(&s);
        dop_buf_finish(&b);
    }
}

/* A file NAME with one tensor, an F32 that is 1. */
static void
write_tensor(scratch *s, const char *name, const char *tensor)
{
    static const uint8_t one[4] = {0, 0, 0x80, 0x3f};
    char text[128];
    const int n =
        snprintf(text, sizeof text, "{\"%s\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}", tensor);
    const uint64_t size = (uint64_t)n;
    dop_buf b = {0};
    dop_buf_append(&b, &size, sizeof size);
    dop_buf_append(&b, text, (size_t)n);
    dop_buf_append(&b, one, sizeof one);
    scratch_write(s, name, b.data, b.size);
    dop_buf_finish(&b);
}

static dop_status
open_weights(const scratch *s, const char *tensor, dop_diag *diag)
{
    dop_arena arena = {0};
    dop_st_set set;
    dop_map *maps = NULL;
    uint32_t n = 0;
    *diag = (dop_diag){0};
    const dop_status st = dop_st_open_dir(s->dir, &arena, diag, &set, &maps, &n);
    if (st == DOP_OK)
        cr_expect(dop_st_find(&set, tensor), "%s of %u tensors", tensor, set.n);
    for (uint32_t i = 0; i < n; i++)
        dop_map_close(&maps[i]);
    free(maps);
    dop_arena_finish(&arena);
    return st;
}

Test(import_errors, shards_without_an_index)
{
    scratch s = scratch_make();
    dop_diag diag;
    write_tensor(&s, "model-00002-of-00003.safetensors", "b");
    write_tensor(&s, "model-00003-of-00003.safetensors", "a");
    cr_expect_neq(open_weights(&s, "a", &diag), DOP_OK, "the first is missing");
    write_tensor(&s, "model-00001-of-00003.safetensors", "c");
    for (const char *name = "abc"; *name; name++)
        cr_expect_eq(open_weights(&s, (char[]){*name, 0}, &diag), DOP_OK, "%s", diag.message);
    write_tensor(&s, "model-00001-of-00003.safetensors", "b");
    cr_expect_neq(open_weights(&s, "b", &diag), DOP_OK);
    cr_expect(strstr(diag.message, "tensor b is in another file here, too"), "%s", diag.message);
    scratch_remove(&s);
}

/* ---- paths -------------------------------------------------------------------------------------------------------- */

Test(import_errors, paths)
{
    scratch s = scratch_make();
    expect_failure(s.dir, "", "not a model: no config.json and no manifest.json here", 0, 0);
    expect_failure("/no/such/model", "", "cannot open: No such file or directory", 0, 0);
    scratch_config(&s, "llama", "{}");
    expect_failure(s.dir, "",
                   "no model.safetensors and no model.safetensors.index.json here (other weight formats must be "
                   "converted to safetensors first)",
                   0, 0);
    scratch_text(&s, "notes.txt", "hello");
    char file[128];
    snprintf(file, sizeof file, "%s/notes.txt", s.dir);
    expect_failure(file, "", "not a model: expected a GGUF file or a directory with config.json", 0, 0);
    scratch_remove(&s);
}

/* ---- random damage ------------------------------------------------------------------------------------------------ */

/* Bytes of the header replaced at random: it loads or it says why; the sanitizers see the rest. */
Test(import_errors, random_headers)
{
    dop_buf b = golden_file("llama", "model.safetensors");
    const size_t header = (size_t)st_header_size(&b);
    uint64_t rng = 12345;
    unsigned refused = 0;
    for (unsigned round = 0; round < 4000; round++) {
        dop_buf copy = {0};
        dop_arena arena;
        dop_diag diag = {0};
        dop_st_set set;
        dop_buf_append(&copy, b.data, b.size);
        for (unsigned k = 0; k < 1 + round % 4; k++) {
            rng = rng * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(rng >> 33) % (8 + header);
            copy.data[at] = round % 2 ? "0123456789[]{},\":-"[(rng >> 20) % 18] : (char)(rng >> 13);
        }
        dop_map map = {.data = (const uint8_t *)copy.data, .size = copy.size};
        dop_arena_init(&arena);
        dop_status st = dop_st_parse("x", &map, &arena, &diag, &set);
        cr_assert(st == DOP_OK || (st == DOP_E_INPUT && diag.message[0]), "round %u", round);
        refused += st != DOP_OK;
        for (uint32_t i = 0; st == DOP_OK && i < set.n; i++) {
            const uint8_t *end = map.data + map.size;
            cr_assert(set.tensors[i].data >= map.data && set.tensors[i].data <= end &&
                          set.tensors[i].bytes <= (uint64_t)(end - set.tensors[i].data),
                      "round %u: tensor outside the file", round);
        }
        dop_arena_finish(&arena);
        dop_buf_finish(&copy);
    }
    cr_expect(refused > 3000, "only %u of 4000 were refused", refused);
    dop_buf_finish(&b);
}
