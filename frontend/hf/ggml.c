/* GGML files of speech models (whisper.cpp). Presents their sizes as the config.json of the model's Hugging Face directory, and their
 * tensors under the names used there.
 *
 * The file's mel filters are not read, because they equal the built-in ones (media/audio). */
#include "base/format/ggml.h"
#include "frontend/hf/ggml.h"
#include "frontend/hf/hf.h"
#include "frontend/hf/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tensor names in GGML files and in directories, without ".weight" or ".bias"; '#' is a layer's number. */
static const struct {
    const char *ggml, *hf;
} names[] = {
    {"encoder.positional_embedding", "model.encoder.embed_positions.weight"},
    {"encoder.conv1", "model.encoder.conv1"},
    {"encoder.conv2", "model.encoder.conv2"},
    {"encoder.ln_post", "model.encoder.layer_norm"},
    {"encoder.blocks.#.attn_ln", "model.encoder.layers.#.self_attn_layer_norm"},
    {"encoder.blocks.#.attn.query", "model.encoder.layers.#.self_attn.q_proj"},
    {"encoder.blocks.#.attn.key", "model.encoder.layers.#.self_attn.k_proj"},
    {"encoder.blocks.#.attn.value", "model.encoder.layers.#.self_attn.v_proj"},
    {"encoder.blocks.#.attn.out", "model.encoder.layers.#.self_attn.out_proj"},
    {"encoder.blocks.#.mlp_ln", "model.encoder.layers.#.final_layer_norm"},
    {"encoder.blocks.#.mlp.0", "model.encoder.layers.#.fc1"},
    {"encoder.blocks.#.mlp.2", "model.encoder.layers.#.fc2"},
    {"decoder.positional_embedding", "model.decoder.embed_positions.weight"},
    {"decoder.token_embedding", "model.decoder.embed_tokens"},
    {"decoder.ln", "model.decoder.layer_norm"},
    {"decoder.blocks.#.attn_ln", "model.decoder.layers.#.self_attn_layer_norm"},
    {"decoder.blocks.#.attn.query", "model.decoder.layers.#.self_attn.q_proj"},
    {"decoder.blocks.#.attn.key", "model.decoder.layers.#.self_attn.k_proj"},
    {"decoder.blocks.#.attn.value", "model.decoder.layers.#.self_attn.v_proj"},
    {"decoder.blocks.#.attn.out", "model.decoder.layers.#.self_attn.out_proj"},
    {"decoder.blocks.#.cross_attn_ln", "model.decoder.layers.#.encoder_attn_layer_norm"},
    {"decoder.blocks.#.cross_attn.query", "model.decoder.layers.#.encoder_attn.q_proj"},
    {"decoder.blocks.#.cross_attn.key", "model.decoder.layers.#.encoder_attn.k_proj"},
    {"decoder.blocks.#.cross_attn.value", "model.decoder.layers.#.encoder_attn.v_proj"},
    {"decoder.blocks.#.cross_attn.out", "model.decoder.layers.#.encoder_attn.out_proj"},
    {"decoder.blocks.#.mlp_ln", "model.decoder.layers.#.final_layer_norm"},
    {"decoder.blocks.#.mlp.0", "model.decoder.layers.#.fc1"},
    {"decoder.blocks.#.mlp.2", "model.decoder.layers.#.fc2"},
};

/* True if `name` matches the pattern, in which '#' is a number. *out_rest: the rest of the name. */
static bool
match_numbered_name(const char *pattern, const char *name, unsigned *out_number, const char **out_rest)
{
    const char *hash = strchr(pattern, '#');
    const size_t before = hash ? (size_t)(hash - pattern) : strlen(pattern);
    if (strncmp(pattern, name, before) != 0)
        return false;
    name += before;
    *out_number = 0;
    if (hash) {
        const size_t digits = strspn(name, "0123456789");
        if (digits == 0 || digits > 4 || strncmp(hash + 1, name + digits, strlen(hash + 1)) != 0)
            return false;
        for (size_t i = 0; i < digits; i++)
            *out_number = *out_number * 10 + (unsigned)(name[i] - '0');
        name += digits + strlen(hash + 1);
    }
    *out_rest = name;
    return !*name || strcmp(name, ".weight") == 0 || strcmp(name, ".bias") == 0;
}

/* Returns the name in a directory; NULL: unknown tensor, which keeps its name. */
static const char *
get_hf_name(dop_arena *arena, const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unsigned number;
        const char *rest, *to = names[i].hf;
        if (!match_numbered_name(names[i].ggml, name, &number, &rest))
            continue;
        const char *hash = strchr(to, '#');
        return hash ? dop_arena_printf(arena, "%.*s%u%s%s", (int)(hash - to), to, number, hash + 1, rest)
                    : dop_arena_printf(arena, "%s%s", to, rest);
    }
    return name;
}

/* Returns the spelling of a type in a set of tensors: as in safetensors files, or the block type's own name. */
static const char *
get_dtype_name(uint32_t number)
{
    dop_type type;
    if (!dop_type_of_gguf(number, &type))
        return "?";
    return type == DOP_TYPE_f32    ? "F32"
           : type == DOP_TYPE_f16  ? "F16"
           : type == DOP_TYPE_bf16 ? "BF16"
                                   : dop_type_of(type)->name;
}

static int
compare_ggml_tensors(const void *a, const void *b)
{
    return strcmp(((const dop_st_tensor *)a)->name, ((const dop_st_tensor *)b)->name);
}

/* Lists the tensors as those of a directory. */
static dop_status
list_tensors(const dop_ggml *g, dop_hf *hf, dop_st_set *set)
{
    *set = (dop_st_set){.path = g->path};
    set->tensors = dop_arena_alloc(hf->arena, ((size_t)g->n_tensors + 1) * sizeof *set->tensors);
    set->taken = dop_arena_alloc(hf->arena, (size_t)g->n_tensors + 1);
    if (!set->tensors || !set->taken)
        return DOP_NO_MEMORY(hf->diag);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const dop_ggml_tensor *t = &g->tensors[i];
        dop_st_tensor *to = &set->tensors[set->n++];
        *to = (dop_st_tensor){.name = get_hf_name(hf->arena, t->name),
                              .file = g->path,
                              .dtype = get_dtype_name(t->type),
                              .data = t->data,
                              .bytes = t->bytes};
        if (!to->name)
            return DOP_NO_MEMORY(hf->diag);
        /* Biases of convolutions have an additional axis of length 1, which is dropped. */
        const uint32_t first = t->n_dims == 2 && t->dims[0] == 1 ? 1 : 0;
        for (uint32_t k = t->n_dims; k-- > first;)
            to->shape[to->rank++] = t->dims[k];
    }
    qsort(set->tensors, set->n, sizeof *set->tensors, compare_ggml_tensors);
    for (uint32_t i = 1; i < set->n; i++)
        if (strcmp(set->tensors[i - 1].name, set->tensors[i].name) == 0)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, g->path, "the tensor %s is there twice", set->tensors[i].name);
    return DOP_OK;
}

/* Returns the width of the first feed-forward part of encoder or decoder, from its tensor. */
static json_int_t
get_ffn_width(const dop_st_set *set, const char *part)
{
    char name[64];
    snprintf(name, sizeof name, "model.%s.layers.0.fc1.weight", part);
    const dop_st_tensor *t = dop_st_find(set, name);
    return t && t->rank == 2 ? (json_int_t)t->shape[0] : 0;
}

/* Returns the sizes as a config.json object, a new reference. */
static json_t *
make_ggml_config(const dop_ggml *g, const dop_st_set *set)
{
    const dop_ggml_sizes *s = &g->sizes;
    uint32_t first, languages;
    json_t *c =
        json_pack("{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "architectures",
                  "WhisperForConditionalGeneration", "model_type", "whisper", "activation_function", "gelu",
                  "vocab_size", (json_int_t)s->vocab, "d_model", (json_int_t)s->text_hidden, "num_mel_bins",
                  (json_int_t)s->bins, "max_source_positions", (json_int_t)s->audio_rows, "max_target_positions",
                  (json_int_t)s->text_rows, "encoder_layers", (json_int_t)s->audio_layers, "encoder_attention_heads",
                  (json_int_t)s->audio_heads, "encoder_ffn_dim", get_ffn_width(set, "encoder"), "decoder_layers",
                  (json_int_t)s->text_layers, "decoder_attention_heads", (json_int_t)s->text_heads, "decoder_ffn_dim",
                  get_ffn_width(set, "decoder"), "decoder_start_token_id", (json_int_t)0);
    if (c && dop_ggml_specials(g, &first, &languages)) {
        json_object_set_new(c, "eos_token_id", json_integer(first));
        json_object_set_new(c, "decoder_start_token_id", json_integer(first + 1));
    }
    return c;
}

dop_status
dop_import_ggml(const char *path, dop_diag *diag, dop_checkpoint *m)
{
    dop_hf hf = {.dir = path, .arena = m->arena, .diag = diag, .model = m};
    dop_weights *w = &m->weights;
    dop_st_set set;
    dop_ggml g;
    if (!(w->maps = calloc(1, sizeof *w->maps)))
        return DOP_NO_MEMORY(diag);
    dop_status st = dop_map_open(path, diag, w->maps);
    if (st != DOP_OK)
        return st;
    w->n_maps = w->cap_maps = 1;
    st = dop_ggml_parse(path, w->maps->data, w->maps->size, m->arena, diag, &g);
    if (st == DOP_OK && g.sizes.audio_hidden != g.sizes.text_hidden)
        st =
            DOP_FAIL_IN(diag, DOP_E_INPUT, path, "rows of %u values in the encoder and of %u in the decoder do not fit",
                        g.sizes.audio_hidden, g.sizes.text_hidden);
    if (st == DOP_OK)
        st = list_tensors(&g, &hf, &set);
    if (st == DOP_OK && !(hf.root = make_ggml_config(&g, &set)))
        st = DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st = dop_import_hf_parts(path, NULL, hf.root, &set, diag, m);
    uint32_t first, languages;
    if (st == DOP_OK && dop_ggml_specials(&g, &first, &languages) &&
        !(m->tokenizer_ggml_path = dop_arena_strdup(m->arena, path)))
        st = DOP_NO_MEMORY(diag);
    json_decref(hf.root);
    return st;
}
