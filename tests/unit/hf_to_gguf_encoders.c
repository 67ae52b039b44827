/* What llama.cpp's converter does with encoders (conversion/bert.py, t5.py and gemma.py). */
#include "tests/unit/hf_to_gguf_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const hg_rule hg_bert[] = {
    {"embeddings.word_embeddings", "token_embd", HG_PLAIN},
    {"embeddings.position_embeddings", "position_embd", HG_PLAIN},
    {"embeddings.token_type_embeddings", "token_types", HG_PLAIN},
    {"embeddings.LayerNorm", "token_embd_norm", HG_PLAIN},
    {"*.attention.self.query", "attn_q", HG_PLAIN},
    {"*.attention.self.key", "attn_k", HG_PLAIN},
    {"*.attention.self.value", "attn_v", HG_PLAIN},
    {"*.attention.output.dense", "attn_output", HG_PLAIN},
    {"*.attention.output.LayerNorm", "attn_output_norm", HG_PLAIN},
    {"*.intermediate.dense", "ffn_up", HG_PLAIN},
    {"*.output.dense", "ffn_down", HG_PLAIN},
    {"*.output.LayerNorm", "layer_output_norm", HG_PLAIN},
    {"pooler.dense", "", HG_DROPPED},
    {"classifier.dense", "cls", HG_PLAIN},
    {"classifier.out_proj", "cls.output", HG_PLAIN},
    /* DistilBERT */
    {"*.attention.q_lin", "attn_q", HG_PLAIN},
    {"*.attention.k_lin", "attn_k", HG_PLAIN},
    {"*.attention.v_lin", "attn_v", HG_PLAIN},
    {"*.attention.out_lin", "attn_output", HG_PLAIN},
    {"*.sa_layer_norm", "attn_output_norm", HG_PLAIN},
    {"*.ffn.lin1", "ffn_up", HG_PLAIN},
    {"*.ffn.lin2", "ffn_down", HG_PLAIN},
    {"*.output_layer_norm", "layer_output_norm", HG_PLAIN},
    {0},
};
const hg_rule hg_roberta[] = {
    {"embeddings.position_embeddings", "position_embd", HG_BEHIND_2},
    {0},
};
const hg_rule hg_nomic_bert[] = {
    {"emb_ln", "token_embd_norm", HG_PLAIN},
    {"*.attn.Wqkv", "attn_qkv", HG_PLAIN},
    {"*.attn.out_proj", "attn_output", HG_PLAIN},
    {"*.norm1", "attn_output_norm", HG_PLAIN},
    {"*.mlp.fc11", "ffn_up", HG_PLAIN},
    {"*.mlp.fc12", "ffn_gate", HG_PLAIN},
    {"*.mlp.fc2", "ffn_down", HG_PLAIN},
    {"*.norm2", "layer_output_norm", HG_PLAIN},
    {0},
};
const hg_rule hg_modernbert[] = {
    {"embeddings.tok_embeddings", "token_embd", HG_PLAIN},
    {"embeddings.norm", "token_embd_norm", HG_PLAIN},
    {"final_norm", "output_norm", HG_PLAIN},
    {"*.attn_norm", "attn_norm", HG_PLAIN},
    {"*.attn.Wqkv", "attn_qkv", HG_PLAIN},
    {"*.attn.Wo", "attn_output", HG_PLAIN},
    {"*.mlp_norm", "ffn_norm", HG_PLAIN},
    {"*.mlp.Wi", "ffn_up", HG_PLAIN},
    {"*.mlp.Wo", "ffn_down", HG_PLAIN},
    {0},
};
const hg_rule hg_t5[] = {
    {"shared", "token_embd", HG_PLAIN},
    {"final_layer_norm", "enc.output_norm", HG_PLAIN},
    {"*.relative", "attn_rel_b", HG_PLAIN},
    {"*.attn_norm", "attn_norm", HG_PLAIN},
    {"*.q", "attn_q", HG_PLAIN},
    {"*.k", "attn_k", HG_PLAIN},
    {"*.v", "attn_v", HG_PLAIN},
    {"*.o", "attn_o", HG_PLAIN},
    {"*.ffn_norm", "ffn_norm", HG_PLAIN},
    {"*.wi", "ffn_up", HG_PLAIN},
    {"*.wi_0", "ffn_gate", HG_PLAIN},
    {"*.wi_1", "ffn_up", HG_PLAIN},
    {"*.wo", "ffn_down", HG_PLAIN},
    {0},
};

void
hg_rename_t5(char *name, size_t size)
{
    static const char *const parts[][2] = {{".layer.0.SelfAttention.relative_attention_bias.", ".relative."},
                                           {".layer.0.layer_norm.", ".attn_norm."},
                                           {".layer.1.layer_norm.", ".ffn_norm."},
                                           {".layer.0.SelfAttention.", "."},
                                           {".layer.1.DenseReluDense.", "."}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char rest[200];
        char *at = strstr(name, parts[i][0]);
        if (!at)
            continue;
        snprintf(rest, sizeof rest, "%s", at + strlen(parts[i][0]));
        snprintf(at, size - (size_t)(at - name), "%s%s", parts[i][1], rest);
    }
}

/* The kind of pooling that the files of sentence-transformers state. */
void
hg_pooling(hg_model *m)
{
    static const char *const modes[] = {"", "mean_tokens", "cls_token", "lasttoken"};
    char path[1200], field[48];
    json_error_t err;
    snprintf(path, sizeof path, "%s/1_Pooling/config.json", m->dir);
    json_t *pooling = json_load_file(path, 0, &err);
    for (uint32_t i = 1; i < 4; i++) {
        snprintf(field, sizeof field, "pooling_mode_%s", modes[i]);
        if (json_is_true(json_object_get(pooling, field)))
            gguf_u32(m->w, "%.pooling_type", i);
    }
    json_decref(pooling);
}

void
hg_embedding_gemma(hg_model *m)
{
    hg_gemma(m);
    hg_pooling(m);
}

/* Words of a WordPiece vocabulary: what continues one loses its "##", what begins one gets a mark. */
static void
put_words(hg_model *m)
{
    char path[1200], text[64];
    const char *word;
    json_t *id;
    json_error_t err;
    snprintf(path, sizeof path, "%s/tokenizer.json", m->dir);
    json_t *root = json_load_file(path, 0, &err);
    const json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    const size_t n = json_object_size(vocab);
    const char **words = calloc(n + 1, sizeof *words);
    json_object_foreach((json_t *)(uintptr_t)vocab, word, id)
    {
        if (words && (size_t)json_integer_value(id) < n)
            words[json_integer_value(id)] = word;
    }
    gguf_str(m->w, "tokenizer.ggml.model", n ? "bert" : "no_vocab");
    if (n && words) {
        gguf_array(m->w, "tokenizer.ggml.tokens", 8, n);
        for (size_t i = 0; i < n; i++) {
            const char *w = words[i] ? words[i] : "";
            snprintf(text, sizeof text, "%s%s", w[0] == '[' || strncmp(w, "##", 2) == 0 ? "" : "\xe2\x96\x81",
                     strncmp(w, "##", 2) == 0 ? w + 2 : w);
            gguf_put_str(&m->w->kvs, text);
        }
        gguf_array(m->w, "tokenizer.ggml.token_type", 5, n);
        for (size_t i = 0; i < n; i++)
            gguf_put_u32(&m->w->kvs, words[i] && words[i][0] == '[' && words[i][1] ? 3 : 1);
        gguf_u32(m->w, "tokenizer.ggml.token_type_count", 2);
        static const char *const special[][2] = {{"[UNK]", "unknown"}, {"[CLS]", "bos"}, {"[SEP]", "seperator"}};
        for (size_t k = 0; k < 3; k++) {
            char key[64];
            snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", special[k][1]);
            gguf_u32(m->w, key, (uint32_t)json_integer_value(json_object_get(vocab, special[k][0])));
        }
    }
    free(words);
    json_decref(root);
}

void
hg_encoder(hg_model *m)
{
    if (strcmp(json_string_value(hg_field(m, "model_type")), "distilbert") == 0)
        gguf_f32(m->w, "%.attention.layer_norm_epsilon", 1e-12);
    gguf_bool(m->w, "%.attention.causal", false);
    hg_pooling(m);
    if (m->family->flags & HG_OWN_WORDS)
        put_words(m);
}

void
hg_modern_bert(hg_model *m)
{
    hg_encoder(m);
    hg_copy_u32(m, "local_attention", "%.attention.sliding_window");
    hg_copy_u32(m, "global_attn_every_n_layers", "%.attention.sliding_window_pattern");
    gguf_str(m->w, "%.rope.scaling.type", "none");
    gguf_str(m->w, "%.hidden_act", json_string_value(hg_field(m, "hidden_activation")));
}

void
hg_t5_encoder(hg_model *m)
{
    hg_copy_f32(m, "layer_norm_epsilon", "%.attention.layer_norm_epsilon");
    hg_copy_u32(m, "relative_attention_num_buckets", "%.attention.relative_buckets_count");
}
