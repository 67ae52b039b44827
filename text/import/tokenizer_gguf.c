/* Tokenizers stored in GGUF metadata (tokenizer.ggml.*).
 *
 * GGUF stores the vocabulary, merges or scores, and the name of a pre-tokenizer ("pre"). llama.cpp defines these
 * names. The table below maps them to the regular expressions of the models' own tokenizer.json files. */
#include <math.h>
#include <stdlib.h>

#include "base/format/gguf.h"
#include "text/import/chat_files.h"
#include "text/import/tokenizer_gguf.h"
#include "text/import/tokenizer_json.h"
#include "text/tokenizer/tokenizer_patterns.h"

/* Flags of pre_type. raw: BPE over characters with byte tokens <0x41>, instead of over GPT-2's byte alphabet. marks:
 * spaces become U+2581. */
enum { ignore_merges = 1, adds_bos = 2, nfc = 4, raw = 8, marks = 16, lines = 32, no_merges = 64 };

/* A pre-tokenizer: its values of tokenizer.ggml.pre, separated by spaces, and its patterns, applied in sequence. */
typedef struct pre_type {
    const char *names;
    unsigned flags;
    const char *pattern[6];
} pre_type;

static const pre_type pre_types[] = {
    {"default", 0, {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"gpt-2 phi-2 mpt olmo jais trillion granite-docling exaone4 jina-es jina-de jina-v2-es jina-v2-de jina-v2-code "
     "gigachat a.x-4.0 mellum modern-bert roberta-bpe jina-v1-en",
     0,
     {GPT2}},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     ignore_merges | adds_bos,
     {LLAMA3}},
    {"dbrx smaug-bpe glm4 chatglm-bpe", 0, {LLAMA3}},
    {"qwen2 f2llmv2", nfc, {QWEN2}},
    {"deepseek-r1-qwen kormo stablelm2 hunyuan megrez grok-2 solar-open", 0, {QWEN2}},
    {"qwen35", nfc, {QWEN35}},
    {"gpt-4o llama4 kanana2 minimax-m2 talkie", 0, {O200K}},
    {"granite-embed-multi-97m", ignore_merges, {O200K}},
    {"tiny_aya cohere2moe", 0, {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K}},
    {"tekken", ignore_merges | adds_bos, {TEKKEN}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", 0, {"\\p{N}", GPT2}},
    {"falcon", 0, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"deepseek-coder",
     0,
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+|\\p{N}"}},
    {"deepseek-llm",
     0,
     {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
      "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+", "\\s+$",
      "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+", "\\p{N}+"}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", 0, {"\\p{N}{1,3}", CJK, DEEPSEEK_WORDS}},
    {"spark2_5", 0, {"\\p{N}{1,3}", CJK, SPARK, "\\p{N}"}},
    {"youtu", ignore_merges, {YOUTU_BLOCKS, O200K_DIGITS("\\p{N}")}},
    {"afmoe", 0, {DIGITS3, AFMOE_LETTERS, DEEPSEEK_WORDS}},
    {"kimi-k2", no_merges, {KIMI}},
    {"jais-2", 0, {JAIS2}},
    {"minicpm5", ignore_merges, {"\\p{N}{1,3}", MINICPM5}},
    {"poro-chat bloom gpt3-finnish", 0, {BLOOM}},
    {"viking", 0, {BLOOM, "\\p{N}"}},
    {"chameleon",
     adds_bos,
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GPT2}},
    {"superbpe", 0, {"\\p{N}+", "\\d{1,3}(?=(?:\\d{3})*(?!\\d))"}},
    {"ufakzeka", 0, {QWEN2_WORDS}},
    {"laguna", 0, {LINES, QWEN2}},
    {"exaone-moe", 0, {EXAONE_MOE}},
    {"gemma4 granite-embed-multi-311m", raw | marks | lines | adds_bos, {LINES}},
    {"sarvam-moe", raw | marks, {LINES}},
    {"whitespace", raw, {"\\S+"}},
    {"seed-coder", 0, {SEED}},
    {"bailingmoe bailingmoe2 llada-moe", 0, {BAILING}},
};

/* values of tokenizer.ggml.token_type */
enum { type_normal = 1, type_unknown = 2, type_control = 3, type_user = 4, type_unused = 5, type_byte = 6 };

/* DeepSeek's end-of-text token, written with full-width bars. */
#define DEEPSEEK_END \
    "<\xef\xbd\x9c"  \
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"

/* Texts of tokens that end generation in any vocabulary that contains them. */
static const char *const end_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>",  "<end_of_turn>", "<|endoftext|>",      "<|end_of_text|>",
    "<|eom_id|>", "<|return|>", "<|call|>", "<EOT>",         "<end_of_utterance>", DEEPSEEK_END,
};

struct importer;

/* Tokenizer type (tokenizer.ggml.model) with llama.cpp's defaults for missing keys. */
typedef struct gguf_model {
    const char *name;
    const char *pre; /* overrides the file's pre_type name; NULL: use the file's */
    bool byte_level; /* BPE with a pre-tokenizer */
    uint32_t bos, eos, unk;
    bool add_bos, add_eos, space_prefix;
    dop_status (*finish)(struct importer *im); /* runs after tokens and special ids have been read */
} gguf_model;

typedef struct importer {
    const dop_gguf *g;
    dop_tok_build b;
    dop_diag *diag;
    const dop_gguf_kv *tokens, *types;
    const gguf_model *model;
    const pre_type *pre; /* NULL if the model has no pre-tokenizer */
    bool byte_level, add_bos, add_eos, space_prefix;
} importer;

#define BAD(im, ...) DOP_FAIL_IN((im)->diag, DOP_E_INPUT, (im)->g->path, __VA_ARGS__)

static bool
is_gguf_text(dop_gguf_str s, const char *t)
{
    return s.len == strlen(t) && memcmp(s.data, t, s.len) == 0;
}

static int64_t
read_token_type(const importer *im, uint32_t id)
{
    int64_t t = type_normal;
    return dop_gguf_i64(im->types, id, &t) ? t : type_normal;
}

static bool
has_pre_name(const char *names, dop_gguf_str name)
{
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, " ");
        if (n == name.len && memcmp(p, name.data, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

/* Finds the pre-tokenizer by the name that the model type implies, otherwise by the file's. */
static dop_status
find_pre_type(importer *im)
{
    dop_gguf_str name = {"default", 7};
    dop_gguf_string(dop_gguf_find(im->g, "tokenizer.ggml.pre"), &name);
    if (im->model->pre)
        name = (dop_gguf_str){im->model->pre, strlen(im->model->pre)};
    const pre_type *pre = NULL;
    for (size_t i = 0; i < sizeof pre_types / sizeof *pre_types && !pre; i++)
        if (has_pre_name(pre_types[i].names, name))
            pre = &pre_types[i];
    if (!pre) {
        dop_buf known = {0};
        for (size_t i = 0; i < sizeof pre_types / sizeof *pre_types; i++)
            dop_buf_printf(&known, " %s", pre_types[i].names);
        dop_status st = BAD(im, "tokenizer.ggml.pre \"%.*s\" is not supported; known are:%s",
                            name.len > 40 ? 40 : (int)name.len, name.data, known.data ? known.data : "");
        dop_buf_finish(&known);
        return st;
    }
    im->pre = pre;
    im->byte_level = !(pre->flags & raw);
    return DOP_OK;
}

static dop_status
apply_pre_type(importer *im)
{
    const pre_type *pre = im->pre;
    im->add_bos = (pre->flags & adds_bos) != 0;
    im->b.flags |= (pre->flags & ignore_merges) ? DOP_TOK_F_IGNORE_MERGES : 0u;
    dop_status st = DOP_OK;
    im->b.flags |= ((pre->flags & raw) ? DOP_TOK_F_BYTE_FALLBACK : 0u) | ((pre->flags & lines) ? DOP_TOK_F_LINES : 0u);
    if (pre->flags & marks)
        st = dop_tok_build_op(&im->b, DOP_OP_REPLACE, 0, " ", 1, DOP_TOK_SPACE, DOP_TOK_SPACE_LEN, im->diag);
    if (pre->flags & nfc)
        st = dop_tok_build_op(&im->b, DOP_OP_NFC, 0, "", 0, "", 0, im->diag);
    im->b.norm_ops = im->b.op_count;
    for (size_t i = 0; i < 6 && pre->pattern[i] && st == DOP_OK; i++)
        st = dop_tok_build_op(&im->b, DOP_OP_SPLIT_REGEX, DOP_SPLIT_ISOLATED, pre->pattern[i], strlen(pre->pattern[i]),
                              "", 0, im->diag);
    return st;
}

static const gguf_model *find_gguf_model(dop_gguf_str name);

static dop_status
read_gguf_model(importer *im)
{
    dop_gguf_str model;
    if (!dop_gguf_string(dop_gguf_find(im->g, "tokenizer.ggml.model"), &model))
        return BAD(im, "the file has no tokenizer (tokenizer.ggml.model)");
    im->model = find_gguf_model(model);
    if (!im->model)
        return BAD(im,
                   "tokenizer.ggml.model \"%.*s\" is not supported (\"gpt2\", \"gemma4\", \"llama\", \"t5\" and "
                   "\"bert\" are)",
                   model.len > 40 ? 40 : (int)model.len, model.data);
    im->byte_level = im->model->byte_level;
    dop_status st = im->model->byte_level ? find_pre_type(im) : DOP_OK;
    if (st != DOP_OK)
        return st;
    im->tokens = dop_gguf_find(im->g, "tokenizer.ggml.tokens");
    im->types = dop_gguf_find(im->g, "tokenizer.ggml.token_type");
    if (!im->tokens || im->tokens->type != DOP_GGUF_ARRAY || im->tokens->elem != DOP_GGUF_STRING)
        return BAD(im, "tokenizer.ggml.tokens is missing or no list of strings");
    if (im->tokens->count > DOP_TOK_MAX_TOKENS)
        return BAD(im, "tokenizer.ggml.tokens has %llu entries, too many", (unsigned long long)im->tokens->count);
    if (im->types && im->types->count < im->tokens->count)
        return BAD(im, "tokenizer.ggml.token_type is shorter than the vocabulary");
    return DOP_OK;
}

/* Returns the text that a token decodes to. */
static dop_tok_str
decode_gguf_token(importer *im, dop_gguf_str s, int64_t type, dop_buf *scratch)
{
    dop_tok_build *b = &im->b;
    scratch->size = 0;
    if (type == type_control || type == type_user || type == type_unknown)
        return dop_tok_build_string(b, s.data, (size_t)s.len);
    if (im->byte_level) {
        if (dop_tok_bytes_of_piece(s.data, (size_t)s.len, scratch))
            return dop_tok_build_string(b, scratch->data, scratch->size);
        return dop_tok_build_string(b, s.data, (size_t)s.len);
    }
    int byte = type == type_byte || im->pre ? dop_tok_byte_token(s.data, (size_t)s.len) : -1;
    if (byte >= 0) {
        char c = (char)byte;
        return dop_tok_build_string(b, &c, 1);
    }
    for (size_t i = 0; i < s.len;) {
        bool mark = s.len - i >= DOP_TOK_SPACE_LEN && memcmp(s.data + i, DOP_TOK_SPACE, DOP_TOK_SPACE_LEN) == 0;
        dop_buf_append(scratch, mark ? " " : s.data + i, 1);
        i += mark ? DOP_TOK_SPACE_LEN : 1;
    }
    return dop_tok_build_string(b, scratch->data, scratch->size);
}

static dop_status
read_gguf_tokens(importer *im)
{
    dop_tok_build *b = &im->b;
    dop_buf scratch = {0};
    uint64_t at = 0;
    dop_gguf_str s;
    for (uint32_t id = 0; dop_gguf_next_string(im->tokens, &at, &s); id++) {
        int64_t type = read_token_type(im, id);
        b->token_flags[id] = DOP_TOKEN_USED;
        if (type == type_control || type == type_unknown)
            b->token_flags[id] |= DOP_TOKEN_SPECIAL;
        if (s.len == 0 || s.len > UINT32_MAX / 4)
            continue;
        b->text[id] = decode_gguf_token(im, s, type, &scratch);
        int byte = -1;
        scratch.size = 0;
        if (!im->byte_level) {
            b->piece[id] = dop_tok_build_string(b, s.data, (size_t)s.len);
            b->token_flags[id] |= DOP_TOKEN_MODEL;
            byte = type == type_byte || im->pre ? dop_tok_byte_token(s.data, (size_t)s.len) : -1;
        } else if (dop_tok_bytes_of_piece(s.data, (size_t)s.len, &scratch)) {
            b->piece[id] = dop_tok_build_string(b, scratch.data, scratch.size);
            b->token_flags[id] |= DOP_TOKEN_MODEL;
            byte = scratch.size == 1 ? (uint8_t)scratch.data[0] : -1;
        }
        if (byte >= 0)
            b->byte_ids[byte] = id;
    }
    bool failed = scratch.failed || b->strings.failed;
    dop_buf_finish(&scratch);
    return failed ? DOP_NO_MEMORY(im->diag) : DOP_OK;
}

/* Allocates scores [tokens], which the caller frees, also on failure. All 0 if the file has none. */
static dop_status
read_scores(importer *im, double **out_scores)
{
    const dop_gguf_kv *kv = dop_gguf_find(im->g, "tokenizer.ggml.scores");
    double *scores = calloc(im->b.tokens, sizeof *scores);
    *out_scores = scores;
    if (!scores)
        return DOP_NO_MEMORY(im->diag);
    for (uint32_t i = 0; kv && i < im->b.tokens; i++)
        if (!dop_gguf_f64(kv, i, &scores[i]) || isnan(scores[i]))
            return BAD(im, "tokenizer.ggml.scores is too short or has no number for token %u", i);
    return DOP_OK;
}

/* Hash table from pieces to ids, used while merges are read. */
typedef struct piece_index {
    uint32_t *slot;
    uint64_t slots;
} piece_index;

static bool
index_pieces(const dop_tok_build *b, piece_index *ix)
{
    ix->slots = (uint64_t)b->tokens * 2 + 8;
    ix->slot = malloc(ix->slots * sizeof *ix->slot);
    if (!ix->slot)
        return false;
    memset(ix->slot, 0xff, ix->slots * sizeof *ix->slot);
    for (uint32_t id = 0; id < b->tokens; id++) {
        if (!(b->token_flags[id] & DOP_TOKEN_MODEL))
            continue;
        uint64_t k =
            dop_tok_slot(dop_tok_hash_bytes(b->strings.data + b->piece[id].offset, b->piece[id].bytes), ix->slots);
        while (ix->slot[k] != DOP_TOK_NONE)
            k = k + 1 == ix->slots ? 0 : k + 1;
        ix->slot[k] = id;
    }
    return true;
}

static uint32_t
find_indexed_piece(const dop_tok_build *b, const piece_index *ix, const char *s, size_t n)
{
    uint64_t k = dop_tok_slot(dop_tok_hash_bytes(s, n), ix->slots);
    for (; ix->slot[k] != DOP_TOK_NONE; k = k + 1 == ix->slots ? 0 : k + 1) {
        const dop_tok_str *p = &b->piece[ix->slot[k]];
        if (p->bytes == n && memcmp(b->strings.data + p->offset, s, n) == 0)
            return ix->slot[k];
    }
    return DOP_TOK_NONE;
}

/* Appends the bytes of one side of a merge. Byte-level tokenizers write them in GPT-2's byte alphabet. */
static bool
append_merge_side(const dop_tok_build *b, const char *s, size_t n, dop_buf *bytes)
{
    if (b->flags & DOP_TOK_F_BYTE_LEVEL)
        return dop_tok_bytes_of_piece(s, n, bytes);
    dop_buf_append(bytes, s, n);
    return true;
}

/* Parses one merge "left right". Returns false if one of its tokens is not in the vocabulary. */
static bool
read_gguf_merge(const dop_tok_build *b, const piece_index *ix, dop_gguf_str s, dop_buf *bytes, dop_tok_merge *m)
{
    const char *space = s.len > 1 ? memchr(s.data + 1, ' ', (size_t)s.len - 1) : NULL;
    bytes->size = 0;
    if (!space || !append_merge_side(b, s.data, (size_t)(space - s.data), bytes))
        return false;
    size_t left = bytes->size;
    if (!append_merge_side(b, space + 1, (size_t)(s.data + s.len - space - 1), bytes) || bytes->failed)
        return false;
    m->a = find_indexed_piece(b, ix, bytes->data, left);
    m->b = find_indexed_piece(b, ix, bytes->data + left, bytes->size - left);
    m->id = find_indexed_piece(b, ix, bytes->data, bytes->size);
    return m->a != DOP_TOK_NONE && m->b != DOP_TOK_NONE && m->id != DOP_TOK_NONE;
}

static dop_status
read_gguf_merges(importer *im)
{
    dop_tok_build *b = &im->b;
    const dop_gguf_kv *kv = dop_gguf_find(im->g, "tokenizer.ggml.merges");
    dop_buf bytes = {0};
    piece_index ix = {0};
    dop_status st = DOP_OK;
    uint64_t at = 0;
    dop_gguf_str s;
    if (!kv && (im->pre->flags & no_merges))
        return DOP_OK;
    if (!kv || kv->type != DOP_GGUF_ARRAY || kv->elem != DOP_GGUF_STRING ||
        kv->count > (uint64_t)DOP_TOK_MAX_TOKENS * 4)
        return BAD(im, "tokenizer.ggml.merges is missing or no list of strings");
    b->merges = calloc((size_t)kv->count + 1, sizeof *b->merges);
    if (!b->merges || !index_pieces(b, &ix)) {
        st = DOP_NO_MEMORY(im->diag);
        goto error;
    }
    for (uint32_t i = 0; dop_gguf_next_string(kv, &at, &s); i++) {
        dop_tok_merge *m = &b->merges[b->merge_count];
        if (!read_gguf_merge(b, &ix, s, &bytes, m)) {
            st = BAD(im, "tokenizer.ggml.merges: entry %u \"%.*s\" is not made of tokens of the vocabulary", i,
                     s.len > 80 ? 80 : (int)s.len, s.data);
            goto error;
        }
        m->rank = i;
        b->merge_count++;
    }
    b->first_merge_wins = true;
error:
    free(ix.slot);
    dop_buf_finish(&bytes);
    return st;
}

static uint32_t
read_id_key(const importer *im, const char *key, uint32_t fallback)
{
    uint64_t v;
    if (!dop_gguf_u64(dop_gguf_find(im->g, key), 0, &v) || v >= im->b.tokens)
        return fallback < im->b.tokens ? fallback : DOP_TOK_NONE;
    return (uint32_t)v;
}

static uint32_t
find_token_by_text(const importer *im, const char *text)
{
    uint64_t at = 0;
    dop_gguf_str s;
    for (uint32_t id = 0; dop_gguf_next_string(im->tokens, &at, &s); id++)
        if (is_gguf_text(s, text))
            return id;
    return DOP_TOK_NONE;
}

static void
read_end_tokens(importer *im)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    dop_tok_build *b = &im->b;
    /* In gpt-oss's harmony format <|end|> ends a message, not the answer. */
    bool harmony =
        find_token_by_text(im, "<|return|>") != DOP_TOK_NONE && find_token_by_text(im, "<|call|>") != DOP_TOK_NONE;
    b->eos = read_id_key(im, keys[0], im->model->eos);
    for (size_t i = 0; i < 3; i++) {
        uint32_t id = i ? read_id_key(im, keys[i], DOP_TOK_NONE) : b->eos;
        if (id != DOP_TOK_NONE)
            dop_ids_push(&b->end_ids, id);
    }
    for (size_t i = 0; i < sizeof end_texts / sizeof *end_texts; i++) {
        uint32_t id = find_token_by_text(im, end_texts[i]);
        if (id == DOP_TOK_NONE || (harmony && strcmp(end_texts[i], "<|end|>") == 0))
            continue;
        dop_ids_push(&b->end_ids, id);
        b->token_flags[id] |= DOP_TOKEN_SPECIAL;
    }
}

static void
read_special_ids(importer *im)
{
    dop_tok_build *b = &im->b;
    b->bos = read_id_key(im, "tokenizer.ggml.bos_token_id", im->model->bos);
    b->unk = read_id_key(im, "tokenizer.ggml.unknown_token_id", im->model->unk);
    read_end_tokens(im);
    im->space_prefix = im->model->space_prefix;
    dop_gguf_bool(dop_gguf_find(im->g, "tokenizer.ggml.add_space_prefix"), 0, &im->space_prefix);
}

/* True if the token absorbs the white space after it. GGUF does not store this property, which is known only for
 * Phi-3. */
static bool
absorbs_space(const importer *im, dop_gguf_str token)
{
    static const char *const no[] = {"<unk>", "<s>", "<|endoftext|>"};
    dop_gguf_str name;
    char lower[128] = "";
    if (!dop_gguf_string(dop_gguf_find(im->g, "general.name"), &name))
        return false;
    for (size_t i = 0; i < name.len && i + 1 < sizeof lower; i++)
        lower[i] = (char)(name.data[i] >= 'A' && name.data[i] <= 'Z' ? name.data[i] + 32 : name.data[i]);
    if (!strstr(lower, "phi-3") && !strstr(lower, "phi3"))
        return false;
    for (size_t i = 0; i < 3; i++)
        if (is_gguf_text(token, no[i]))
            return false;
    return true;
}

static dop_status
read_gguf_added(importer *im)
{
    dop_tok_build *b = &im->b;
    uint64_t at = 0;
    dop_gguf_str s;
    for (uint32_t id = 0; dop_gguf_next_string(im->tokens, &at, &s); id++) {
        int64_t type = read_token_type(im, id);
        bool special = (b->token_flags[id] & DOP_TOKEN_SPECIAL) != 0;
        if ((!special && type != type_user) || s.len == 0)
            continue;
        uint32_t flags = (special ? DOP_ADDED_SPECIAL : 0u) | (absorbs_space(im, s) ? DOP_ADDED_RSTRIP : 0u);
        dop_status st = dop_tok_build_add(b, id, flags, false, s.data, (size_t)s.len, im->diag);
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

/* Sets b->middle if a separator follows the suffix between the texts of a pair (XLM-RoBERTa: "a </s></s> b").
 * ModernBERT's files set the flag wrongly: its pairs, like BERT's, have only the suffix between the texts. */
static void
read_separator(importer *im)
{
    dop_tok_build *b = &im->b;
    bool adds = false;
    dop_gguf_str arch;
    const uint32_t sep = read_id_key(im, "tokenizer.ggml.seperator_token_id", b->eos);
    dop_gguf_bool(dop_gguf_find(im->g, "tokenizer.ggml.add_sep_token"), 0, &adds);
    if (!adds || sep == DOP_TOK_NONE || b->model == DOP_TOK_WORDPIECE ||
        (dop_gguf_string(dop_gguf_find(im->g, "general.architecture"), &arch) && is_gguf_text(arch, "modern-bert")))
        return;
    for (size_t i = 0; i < b->suffix.count; i++)
        dop_ids_push(&b->middle, b->suffix.data[i]);
    dop_ids_push(&b->middle, sep);
}

/* Sets the special tokens that ADD_SPECIAL puts before and after a text. */
static void
read_frame(importer *im)
{
    dop_tok_build *b = &im->b;
    dop_gguf_bool(dop_gguf_find(im->g, "tokenizer.ggml.add_bos_token"), 0, &im->add_bos);
    dop_gguf_bool(dop_gguf_find(im->g, "tokenizer.ggml.add_eos_token"), 0, &im->add_eos);
    if (im->pre && (im->pre->flags & lines)) /* overrides the file: Gemma 4's first files have the wrong value */
        im->add_bos = true;
    if (im->add_bos && b->bos != DOP_TOK_NONE)
        dop_ids_push(&b->prefix, b->bos);
    if (im->add_eos && b->eos != DOP_TOK_NONE)
        dop_ids_push(&b->suffix, b->eos);
    read_separator(im);
}

static dop_status
finish_gpt2(importer *im)
{
    DOP_RETURN_IF_ERROR(apply_pre_type(im));
    return read_gguf_merges(im);
}

/* SentencePiece with merges by score: prepends a space, replaces spaces with U+2581, does not split words. */
static dop_status
finish_llama(importer *im)
{
    dop_tok_build *b = &im->b;
    double *scores = NULL;
    dop_status st = read_scores(im, &scores);
    if (st == DOP_OK)
        st = dop_tok_build_ranks(b, scores, im->diag);
    free(scores);
    if (st == DOP_OK && im->space_prefix)
        st = dop_tok_build_op(b, DOP_OP_PREPEND, 0, " ", 1, "", 0, im->diag);
    if (st == DOP_OK)
        st = dop_tok_build_op(b, DOP_OP_REPLACE, 0, " ", 1, DOP_TOK_SPACE, DOP_TOK_SPACE_LEN, im->diag);
    b->flags |= DOP_TOK_F_BY_SCORE | DOP_TOK_F_BYTE_FALLBACK;
    b->norm_ops = b->op_count;
    b->strip = im->space_prefix ? 1 : 0;
    return st;
}

/* Reads the charsmap, an array of signed or unsigned bytes. */
static dop_status
read_charsmap(importer *im)
{
    const dop_gguf_kv *kv = dop_gguf_find(im->g, "tokenizer.ggml.precompiled_charsmap");
    dop_tok_build *b = &im->b;
    for (uint64_t i = 0; kv && i < kv->count; i++) {
        int64_t v;
        if (!dop_gguf_i64(kv, i, &v) || v < -128 || v > 255 || i >= UINT32_MAX / 4)
            return BAD(im, "tokenizer.ggml.precompiled_charsmap is no list of bytes");
        char c = (char)(uint8_t)v;
        dop_buf_append(&b->charsmap, &c, 1);
    }
    return dop_tok_build_charsmap(b, im->diag);
}

/* SentencePiece Unigram with llama.cpp's scores: user-defined tokens have score 0. */
static dop_status
finish_t5(importer *im)
{
    enum { unk_penalty = 10 };
    dop_tok_build *b = &im->b;
    bool merge = false, suffix = false, any = false;
    double least = 0;
    DOP_RETURN_IF_ERROR(read_scores(im, &b->scores));
    DOP_RETURN_IF_ERROR(read_charsmap(im));
    for (uint32_t i = 0; i < b->tokens; i++) {
        int64_t type = read_token_type(im, i);
        if (!(fabs(b->scores[i]) <= 1e30))
            return BAD(im, "tokenizer.ggml.scores: token %u has no usable score", i);
        if (type != type_normal && type != type_user && type != type_unused)
            b->token_flags[i] &= (uint8_t)~DOP_TOKEN_MODEL;
        if (type == type_normal && (!any || b->scores[i] < least)) {
            least = b->scores[i];
            any = true;
        }
        if (type == type_user)
            b->scores[i] = 0;
    }
    b->model = DOP_TOK_UNIGRAM;
    b->unk_score = least - unk_penalty;
    dop_gguf_bool(dop_gguf_find(im->g, "tokenizer.ggml.remove_extra_whitespaces"), 0, &merge);
    dop_gguf_bool(dop_gguf_find(im->g, "tokenizer.ggml.treat_whitespace_as_suffix"), 0, &suffix);
    uint32_t flags = DOP_SP_ESCAPE | (merge ? DOP_SP_MERGE_SPACES : 0u) | (im->space_prefix ? DOP_SP_PREFIX : 0u) |
                     (suffix ? DOP_SP_SUFFIX : 0u) | (b->charsmap.size ? DOP_SP_CHARSMAP : 0u);
    b->strip = merge || im->space_prefix ? 1 : 0;
    DOP_RETURN_IF_ERROR(dop_tok_build_op(b, DOP_OP_SENTENCEPIECE, flags, "", 0, "", 0, im->diag));
    b->norm_ops = b->op_count;
    return DOP_OK;
}

/* BERT WordPiece. Pieces at the start of a word begin with U+2581; all other pieces continue a word. */
static dop_status
finish_bert(importer *im)
{
    dop_tok_build *b = &im->b;
    bool lower = true;
    dop_gguf_bool(dop_gguf_find(im->g, "tokenizer.ggml.normalizer.lowercase"), 0, &lower);
    dop_status st = dop_tok_build_bert(b, true, true, lower, lower, im->diag);
    b->norm_ops = b->op_count;
    if (st == DOP_OK)
        st = dop_tok_build_bert_words(b, im->diag);
    if (st == DOP_OK)
        st = dop_tok_build_op(b, DOP_OP_PREPEND, 0, DOP_TOK_SPACE, DOP_TOK_SPACE_LEN, "", 0, im->diag);
    uint32_t sep = read_id_key(im, "tokenizer.ggml.seperator_token_id", 102);
    if (sep != DOP_TOK_NONE)
        dop_ids_push(&b->suffix, sep);
    b->model = DOP_TOK_WORDPIECE;
    b->strip = 1;
    return st;
}

static const gguf_model models[] = {
    {"gpt2", NULL, true, 11, 11, DOP_TOK_NONE, false, false, false, finish_gpt2},
    {"gemma4", "gemma4", true, DOP_TOK_NONE, DOP_TOK_NONE, DOP_TOK_NONE, false, false, false, finish_gpt2},
    {"whitespace", "whitespace", true, 11, 11, DOP_TOK_NONE, false, false, false, finish_gpt2},
    {"llama", NULL, false, 1, 2, 0, true, false, true, finish_llama},
    {"t5", NULL, false, DOP_TOK_NONE, 1, 2, false, true, false, finish_t5},
    {"bert", NULL, false, 101, DOP_TOK_NONE, 100, true, false, false, finish_bert},
};

static const gguf_model *
find_gguf_model(dop_gguf_str name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (is_gguf_text(name, models[i].name))
            return &models[i];
    return NULL;
}

dop_status
dop_tokenizer_from_gguf(const dop_gguf *gguf, dop_diag *diag, dop_tokenizer **out_tok)
{
    importer im = {.g = gguf, .diag = diag};
    dop_buf chat = {0};
    dop_status st;
    *out_tok = NULL;
    if ((st = read_gguf_model(&im)) != DOP_OK ||
        (st = dop_tok_build_init(&im.b, gguf->path, (uint32_t)im.tokens->count, diag)) != DOP_OK)
        goto error;
    im.b.flags = DOP_TOK_F_GGUF_MATCH | (im.byte_level ? DOP_TOK_F_BYTE_LEVEL : 0u);
    im.add_bos = im.model->add_bos;
    im.add_eos = im.model->add_eos;
    if ((st = read_gguf_tokens(&im)) != DOP_OK)
        goto error;
    read_special_ids(&im);
    if ((st = dop_chat_of_gguf(gguf, diag, &chat)) != DOP_OK)
        goto error;
    im.b.chat = chat.size ? chat.data : NULL;
    im.b.chat_len = chat.size;
    if ((st = im.model->finish(&im)) != DOP_OK || (st = read_gguf_added(&im)) != DOP_OK)
        goto error;
    read_frame(&im);
    st = dop_tok_build_finish(&im.b, diag, out_tok);
error:
    dop_tok_build_free(&im.b);
    dop_buf_finish(&chat);
    return st;
}
