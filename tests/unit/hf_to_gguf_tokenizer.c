/* A tokenizer for a small model, of the kind that published files of its family carry: 3 special tokens, the 256 bytes, and pairs
 * of letters that merges (or scores) make. */
#include "tests/unit/hf_to_gguf_parts.h"

#include <stdio.h>
#include <string.h>

enum { SPECIALS = 3, FIRST = SPECIALS + 256, LETTERS = 26, I32 = 5, F32 = 6, STRING = 8 };

/* tokenizer.ggml.model and .pre of published files, by architecture; a family with another one than its architecture's first. */
static const struct {
    const char *arch, *rope; /* rope: the type of scaling; NULL: any */
    const char *model, *pre;
} kinds[] = {
    {"llama", "llama3", "gpt2", "llama-bpe"},
    {"llama4", NULL, "gpt2", "llama4"},
    {"gemma4", NULL, "gemma4", NULL},
    {"qwen2", NULL, "gpt2", "qwen2"},
    {"qwen2moe", NULL, "gpt2", "qwen2"},
    {"qwen3", NULL, "gpt2", "qwen2"},
    {"qwen3moe", NULL, "gpt2", "qwen2"},
    {"qwen2vl", NULL, "gpt2", "qwen2"},
    {"qwen3vl", NULL, "gpt2", "qwen2"},
    {"qwen3vlmoe", NULL, "gpt2", "qwen2"},
    {"qwen35", NULL, "gpt2", "qwen35"},
    {"qwen3next", NULL, "gpt2", "qwen2"},
    {"phi3", "longrope", "gpt2", "gpt-4o"},
    {"gpt2", NULL, "gpt2", "gpt-2"},
    {"granite", NULL, "gpt2", "refact"},
    {"granitehybrid", NULL, "gpt2", "dbrx"},
    {"olmo2", NULL, "gpt2", "dbrx"},
    {"olmoe", NULL, "gpt2", "olmo"},
    {"smollm3", NULL, "gpt2", "smaug-bpe"},
    {"seed_oss", NULL, "gpt2", "seed-coder"},
    {"starcoder2", NULL, "gpt2", "starcoder"},
    {"stablelm", NULL, "gpt2", "stablelm2"},
    {"exaone4", NULL, "gpt2", "exaone4"},
    {"glm4", NULL, "gpt2", "glm4"},
    {"glm4moe", NULL, "gpt2", "glm4"},
    {"gptneox", NULL, "gpt2", "olmo"},
    {"cohere2", NULL, "gpt2", "command-r"},
    {"apertus", NULL, "gpt2", "tekken"},
    {"minimax-m2", NULL, "gpt2", "minimax-m2"},
    {"gpt-oss", NULL, "gpt2", "gpt-4o"},
    {"deepseek2", NULL, "gpt2", "deepseek-v3"},
    {"mamba2", NULL, "gpt2", "olmo"},
    {"falcon-h1", NULL, "gpt2", "falcon-h1"},
    {"lfm2", NULL, "gpt2", "lfm2"},
    {"mistral3", NULL, "gpt2", "tekken"},
    {"olmo", NULL, "gpt2", "olmo"},
    {"hunyuan-dense", NULL, "gpt2", "hunyuan-dense"},
    {"hunyuan-moe", NULL, "gpt2", "hunyuan"},
    {"command-r", NULL, "gpt2", "command-r"},
    {"phi2", NULL, "gpt2", "phi-2"},
    {"falcon", NULL, "gpt2", "falcon"},
    {"bloom", NULL, "gpt2", "bloom"},
    {"mpt", NULL, "gpt2", "mpt"},
    {"jais2", NULL, "gpt2", "jais-2"},
    {"dots1", NULL, "gpt2", "qwen2"},
    {"exaone-moe", NULL, "gpt2", "exaone-moe"},
    {"afmoe", NULL, "gpt2", "afmoe"},
    {"laguna", NULL, "gpt2", "laguna"},
    {"mimo2", NULL, "gpt2", "qwen2"},
    {"granitemoe", NULL, "gpt2", "refact"},
    {"qwen35moe", NULL, "gpt2", "qwen35"},
    {"lfm2moe", NULL, "gpt2", "lfm2"},
    {"nemotron_h", NULL, "gpt2", "pixtral"},
    {"nemotron_h_moe", NULL, "gpt2", "pixtral"},
    {"mamba", NULL, "gpt2", "gpt-2"},
    {"kimi-linear", NULL, "gpt2", "kimi-k2"},
    {"dbrx", NULL, "gpt2", "dbrx"},
    {"muse-glimmer", NULL, "gpt2", "llama4"},
    {"hy_v3", NULL, "gpt2", "hunyuan-dense"},
};

/* A byte in GPT-2's alphabet: printable ones stand for themselves, the others come from U+0100 on. */
static void
gpt2_byte(unsigned byte, char out[4])
{
    unsigned cp = byte, others = 0;
    for (unsigned i = 0; i <= byte; i++) {
        const bool plain = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        if (i == byte && !plain)
            cp = 256 + others;
        others += !plain;
    }
    if (cp < 128)
        snprintf(out, 4, "%c", (char)cp);
    else
        snprintf(out, 4, "%c%c", (char)(0xc0u | cp >> 6), (char)(0x80u | (cp & 0x3fu)));
}

/* Whether a tokenizer works on characters, so that letters are tokens beside the bytes. */
static bool
on_characters(const char *model)
{
    return strcmp(model, "gpt2") != 0;
}

/* The text of a token behind the bytes, and of what it is made of; false: of nothing. */
static bool
made_token(const char *model, unsigned i, char out[16], char parts[16])
{
    static const char *const more[] = {"\xe2\x96\x81", "\n", "\n\n"};
    const unsigned plain = on_characters(model) ? LETTERS + 3 : 0;
    if (i < plain) {
        snprintf(out, 16, "%s", i < LETTERS ? (char[]){(char)('a' + i), 0} : more[i - LETTERS]);
        return false;
    }
    const char a = (char)('a' + (i - plain) % LETTERS), b = (char)('a' + (i - plain) / LETTERS);
    snprintf(out, 16, "%c%c", a, b);
    snprintf(parts, 16, "%c %c", a, b);
    return true;
}

static void
put_tokens(const hg_model *m, const char *model, unsigned vocab)
{
    gguf_writer *w = m->w;
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    char text[16], parts[16];
    gguf_array(w, "tokenizer.ggml.tokens", STRING, vocab);
    for (unsigned i = 0; i < vocab; i++) {
        if (i >= FIRST)
            made_token(model, i - FIRST, text, parts);
        else if (i >= SPECIALS && on_characters(model))
            snprintf(text, sizeof text, "<0x%02X>", i - SPECIALS);
        else if (i >= SPECIALS)
            gpt2_byte(i - SPECIALS, text);
        const char *const picture = hg_picture_token(m, i);
        gguf_put_str(&w->kvs, picture ? picture : i < SPECIALS ? special[i] : text);
    }
    gguf_array(w, "tokenizer.ggml.token_type", I32, vocab);
    for (unsigned i = 0; i < vocab; i++)
        gguf_put_u32(&w->kvs, i == 0                                   ? 2
                              : i < SPECIALS || hg_picture_token(m, i) ? 3
                              : i < FIRST && on_characters(model)      ? 6
                                                                       : 1);
}

static void
put_merges(const hg_model *m, const char *model, unsigned vocab)
{
    gguf_writer *w = m->w;
    char text[16], parts[16];
    unsigned n = 0;
    for (unsigned i = FIRST; i < vocab; i++)
        n += made_token(model, i - FIRST, text, parts) && !hg_picture_token(m, i);
    gguf_array(w, "tokenizer.ggml.merges", STRING, n);
    for (unsigned i = FIRST; i < vocab; i++)
        if (made_token(model, i - FIRST, text, parts) && !hg_picture_token(m, i))
            gguf_put_str(&w->kvs, parts);
}

void
hg_tokenizer(hg_model *m, const char *rope)
{
    const unsigned vocab = (unsigned)hg_number(m, "vocab_size", 0);
    const char *model = "llama", *pre = "default";
    if (vocab < FIRST + LETTERS + 4) {
        gguf_str(m->w, "tokenizer.ggml.model", "no_vocab");
        return;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].arch, m->w->arch) == 0 && (!kinds[i].rope || strcmp(kinds[i].rope, rope) == 0)) {
            model = kinds[i].model;
            pre = kinds[i].pre;
            break;
        }
    gguf_str(m->w, "tokenizer.ggml.model", model);
    if (pre)
        gguf_str(m->w, "tokenizer.ggml.pre", pre);
    put_tokens(m, model, vocab);
    if (strcmp(model, "llama") != 0) {
        put_merges(m, model, vocab);
        return;
    }
    gguf_array(m->w, "tokenizer.ggml.scores", F32, vocab);
    for (unsigned i = 0; i < vocab; i++)
        dop_buf_append(&m->w->kvs, &(float){-(float)i}, sizeof(float));
}
