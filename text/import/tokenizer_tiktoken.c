/* Vocabularies of ranked byte strings: tiktoken files (per line a token in base64 and its rank) and tekken.json.
 *
 * Pairs merge by the rank of the result, and a word that is itself a token is not split; no list of merges is
 * needed. A tiktoken file contains neither the split pattern nor special tokens. Both come from
 * tokenizer_config.json or from the published vocabularies below.
 *
 * References: tiktoken (openai_public.py, lib.rs), mistral-common (tekken.py), the tokenization files that the named
 * models come with. */
#include <stdlib.h>

#include "base/encoding/base64.h"
#include "base/encoding/utf8.h"
#include "base/words.h"
#include "text/import/tokenizer_facts.h"
#include "text/import/tokenizer_json.h"
#include "text/import/tokenizer_json_parts.h"
#include "text/import/tokenizer_tiktoken.h"
#include "text/tokenizer/tokenizer_patterns.h"

#define BAD(b, diag, ...) DOP_FAIL_IN((diag), DOP_E_INPUT, (b)->path, __VA_ARGS__)

/* Special tokens of a published vocabulary: `count` consecutive ids starting at number of ranks + `id`. With count >
 * 1 the texts are numbered. */
typedef struct special {
    uint32_t id;
    const char *text; /* with count > 1, contains %u for the number */
    uint32_t count, from;
} special;

static const special gpt2_specials[] = {{0, "<|endoftext|>", 1, 0}, {0, NULL, 0, 0}};
static const special cl100k_specials[] = {{1, "<|endoftext|>", 1, 0},    {2, "<|fim_prefix|>", 1, 0},
                                          {3, "<|fim_middle|>", 1, 0},   {4, "<|fim_suffix|>", 1, 0},
                                          {20, "<|endofprompt|>", 1, 0}, {0, NULL, 0, 0}};
static const special o200k_specials[] = {{1, "<|endoftext|>", 1, 0}, {20, "<|endofprompt|>", 1, 0}, {0, NULL, 0, 0}};
static const special qwen_specials[] = {{0, "<|endoftext|>", 1, 0},
                                        {1, "<|im_start|>", 1, 0},
                                        {2, "<|im_end|>", 1, 0},
                                        {3, "<|extra_%u|>", 205, 0},
                                        {0, NULL, 0, 0}};
static const special llama3_specials[] = {{0, "<|begin_of_text|>", 1, 0},
                                          {1, "<|end_of_text|>", 1, 0},
                                          {2, "<|reserved_special_token_%u|>", 2, 0},
                                          {4, "<|finetune_right_pad_id|>", 1, 0},
                                          {5, "<|step_id|>", 1, 0},
                                          {6, "<|start_header_id|>", 1, 0},
                                          {7, "<|end_header_id|>", 1, 0},
                                          {8, "<|eom_id|>", 1, 0},
                                          {9, "<|eot_id|>", 1, 0},
                                          {10, "<|python_tag|>", 1, 0},
                                          {11, "<|reserved_special_token_%u|>", 245, 2},
                                          {0, NULL, 0, 0}};

/* A published vocabulary. Identified by the class in tokenizer_config.json, otherwise by its number of ranks. */
typedef struct published {
    const char *name, *classes; /* classes: tokenizer_class values, separated by spaces */
    uint32_t ranks;             /* number of ranks; 0: identified only by its class */
    const char *pattern;
    const special *specials;
    const char *bos, *eos; /* token texts; may be NULL; bos is prepended to texts */
} published;

static const published table[] = {
    {"gpt2", "", 50256, GPT2, gpt2_specials, NULL, "<|endoftext|>"},
    {"cl100k_base", "", 100256, LLAMA3, cl100k_specials, NULL, "<|endoftext|>"},
    {"o200k_base", "", 199998, O200K, o200k_specials, NULL, "<|endoftext|>"},
    {"qwen", "QWenTokenizer", 151643, QWEN2, qwen_specials, NULL, "<|endoftext|>"},
    {"llama3", "", 128000, LLAMA3, llama3_specials, "<|begin_of_text|>", "<|end_of_text|>"},
    {"glm4", "ChatGLM4Tokenizer", 0, LLAMA3, NULL, NULL, "<|endoftext|>"},
    {"kimi", "TikTokenTokenizer", 0, KIMI, NULL, NULL, NULL},
};

static const published *
find_published(const char *class, uint32_t ranks)
{
    const published *by_size = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (class && dop_has_word(table[i].classes, class))
            return &table[i];
        if (table[i].ranks == ranks)
            by_size = &table[i];
    }
    return by_size;
}

/* One line of a tiktoken file: "base64 rank". */
typedef struct line {
    const char *text; /* token in base64 */
    size_t n;
    uint32_t rank;
} line;

/* Parses the line at *at and advances; skips empty lines. Returns false at the end of the file (*out_bad false) or
 * for a malformed line (*out_bad true). */
static bool
next_rank_line(const char *s, size_t size, size_t *at, line *out, bool *out_bad)
{
    size_t i = *at, end;
    *out_bad = false;
    while (i < size && (s[i] == '\n' || s[i] == '\r'))
        i++;
    if (i == size)
        return false;
    const char *newline = memchr(s + i, '\n', size - i);
    end = newline ? (size_t)(newline - s) : size;
    *at = end;
    if (end > i && s[end - 1] == '\r')
        end--;
    const char *space = memchr(s + i, ' ', end - i);
    *out_bad = true;
    if (!space || space == s + i)
        return false;
    *out = (line){s + i, (size_t)(space - (s + i)), 0};
    size_t k = (size_t)(space - s) + 1;
    if (k == end || end - k > 9)
        return false;
    for (; k < end; k++) {
        if (s[k] < '0' || s[k] > '9')
            return false;
        out->rank = out->rank * 10 + (uint32_t)(s[k] - '0');
    }
    *out_bad = false;
    return true;
}

dop_status
dop_tok_ranks_token(dop_tok_build *b, uint32_t id, uint32_t rank, const char *s, size_t n, dop_diag *diag)
{
    if (b->token_flags[id] & DOP_TOKEN_USED)
        return BAD(b, diag, "two tokens have the rank %u", rank);
    if (n == 0)
        return BAD(b, diag, "the token of rank %u is empty", rank);
    b->piece[id] = b->text[id] = dop_tok_build_string(b, s, n);
    b->token_flags[id] = DOP_TOKEN_USED | DOP_TOKEN_MODEL;
    b->ranks[id] = rank;
    if (n == 1)
        b->byte_ids[(uint8_t)s[0]] = id;
    return DOP_OK;
}

dop_status
dop_tok_ranks_pattern(dop_tok_build *b, const char *pattern, size_t n, dop_diag *diag)
{
    b->flags |= DOP_TOK_F_BYTE_LEVEL | DOP_TOK_F_BY_SCORE | DOP_TOK_F_IGNORE_MERGES;
    for (unsigned i = 0; i < 256; i++)
        if (b->byte_ids[i] == DOP_TOK_NONE)
            return BAD(b, diag, "no token is the single byte 0x%02x", i);
    return dop_tok_build_op(b, DOP_OP_SPLIT_REGEX, DOP_SPLIT_ISOLATED, pattern, n, "", 0, diag);
}

dop_status
dop_tok_ranks_special(dop_tok_build *b, uint32_t id, const char *text, size_t n, dop_diag *diag)
{
    if (id >= b->tokens || (b->token_flags[id] & DOP_TOKEN_USED) || n == 0)
        return BAD(b, diag, "special token \"%.*s\" has the id %u, which it cannot have", n > 80 ? 80 : (int)n, text,
                   id);
    b->piece[id] = b->text[id] = dop_tok_build_string(b, text, n);
    b->token_flags[id] = DOP_TOKEN_USED | DOP_TOKEN_SPECIAL;
    return dop_tok_build_add(b, id, DOP_ADDED_SPECIAL, false, text, n, diag);
}

/* Adds the special tokens of a published vocabulary; their ids follow its ranks. */
static dop_status
add_published(dop_tok_build *b, const published *p, uint32_t ranks, dop_diag *diag)
{
    for (const special *s = p->specials; s && s->text; s++) {
        for (uint32_t k = 0; k < s->count; k++) {
            char text[64];
            const char *number = strstr(s->text, "%u");
            if (number)
                snprintf(text, sizeof text, "%.*s%u%s", (int)(number - s->text), s->text, s->from + k, number + 2);
            else
                snprintf(text, sizeof text, "%s", s->text);
            DOP_RETURN_IF_ERROR(dop_tok_ranks_special(b, ranks + s->id + k, text, strlen(text), diag));
        }
    }
    return DOP_OK;
}

static uint32_t
count_published_tokens(const published *p, uint32_t ranks)
{
    uint32_t tokens = ranks;
    for (const special *s = p->specials; s && s->text; s++)
        if (ranks + s->id + s->count > tokens)
            tokens = ranks + s->id + s->count;
    return tokens;
}

/* Sets *out_ranks to one past the largest rank. */
static dop_status
count_ranks(const char *path, const char *s, size_t size, dop_diag *diag, uint32_t *out_ranks)
{
    size_t at = 0;
    uint32_t lines = 0;
    line l;
    bool bad;
    *out_ranks = 0;
    while (next_rank_line(s, size, &at, &l, &bad)) {
        lines++;
        if (l.rank >= DOP_TOK_MAX_TOKENS)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "line %u: the rank %u is too large (at most %u)", lines, l.rank,
                               DOP_TOK_MAX_TOKENS - 1);
        *out_ranks = l.rank >= *out_ranks ? l.rank + 1 : *out_ranks;
    }
    if (bad || lines == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "line %u is not a token in base64, a space and a rank", lines + 1);
    return DOP_OK;
}

static dop_status
read_rank_lines(dop_tok_build *b, const char *s, size_t size, dop_diag *diag)
{
    dop_buf bytes = {0};
    dop_status st = DOP_OK;
    size_t at = 0;
    line l;
    bool bad;
    b->ranks = calloc(b->tokens, sizeof *b->ranks);
    if (!b->ranks)
        return DOP_NO_MEMORY(diag);
    while (st == DOP_OK && next_rank_line(s, size, &at, &l, &bad)) {
        bytes.size = 0;
        if (!dop_base64_decode(l.text, l.n, &bytes))
            st = BAD(b, diag, "the token of rank %u is not valid base64", l.rank);
        else if (bytes.failed)
            st = DOP_NO_MEMORY(diag);
        else
            st = dop_tok_ranks_token(b, l.rank, l.rank, bytes.data, bytes.size, diag);
    }
    dop_buf_finish(&bytes);
    return st;
}

bool
dop_tok_is_tiktoken(const void *bytes, size_t size)
{
    size_t at = 0;
    line l;
    bool bad;
    if (!next_rank_line(bytes, size, &at, &l, &bad))
        return false;
    dop_buf token = {0};
    bool ok = dop_base64_decode(l.text, l.n, &token);
    dop_buf_finish(&token);
    return ok;
}

dop_status
dop_tokenizer_from_tiktoken(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                            dop_diag *diag, dop_tokenizer **out_tok)
{
    dop_tok_build b = {0};
    dop_tokenizer_facts none;
    uint32_t ranks, tokens;
    dop_status st;
    *out_tok = NULL;
    dop_tokenizer_facts_init(&none);
    if ((st = count_ranks(path, bytes, size, diag, &ranks)) != DOP_OK)
        return st;
    const json_t *config = facts ? facts->config : NULL;
    const published *p = find_published(json_string_value(json_object_get(config, "tokenizer_class")), ranks);
    const json_t *pattern = json_object_get(config, "pat_str");
    bool has_specials = json_is_object(json_object_get(config, "added_tokens_decoder"));
    if (!json_is_string(pattern) && !p)
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, path,
            "the file does not say how text is split, and %u ranks are no vocabulary that is known: give "
            "the pattern as \"pat_str\" in tokenizer_config.json",
            ranks);
    tokens = p && !has_specials ? count_published_tokens(p, ranks) : ranks;
    if ((st = dop_tok_config_tokens(facts, path, diag, &tokens)) != DOP_OK ||
        (st = dop_tok_build_init(&b, path, tokens, diag)) != DOP_OK ||
        (st = read_rank_lines(&b, bytes, size, diag)) != DOP_OK)
        goto error;
    st = json_is_string(pattern)
             ? dop_tok_ranks_pattern(&b, json_string_value(pattern), json_string_length(pattern), diag)
             : dop_tok_ranks_pattern(&b, p->pattern, strlen(p->pattern), diag);
    if (st == DOP_OK)
        st = has_specials || !p ? dop_tok_config_add(&b, facts, diag) : add_published(&b, p, ranks, diag);
    if (st != DOP_OK)
        goto error;
    if (p && p->bos && (b.bos = dop_tok_build_find(&b, p->bos, strlen(p->bos))) != DOP_TOK_NONE)
        dop_ids_push(&b.prefix, b.bos);
    b.eos = p && p->eos ? dop_tok_build_find(&b, p->eos, strlen(p->eos)) : DOP_TOK_NONE;
    dop_tok_build_facts(&b, facts ? facts : &none);
    st = dop_tok_build_finish(&b, diag, out_tok);
error:
    dop_tok_build_free(&b);
    return st;
}

/* tekken.json */

bool
dop_tok_is_tekken(const json_t *root)
{
    return !json_object_get(root, "model") && json_is_object(json_object_get(root, "config")) &&
           json_is_array(json_object_get(root, "vocab"));
}

/* First special tokens of files that do not list them; the remaining ones are <SPECIAL_n>. */
static const char *const tekken_specials[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};

static dop_status
read_config_count(const json_t *config, const char *key, const char *path, dop_diag *diag, uint32_t *out)
{
    const json_t *v = json_object_get(config, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > DOP_TOK_MAX_TOKENS)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "config: \"%s\" is not a number from 0 to %u", key,
                           DOP_TOK_MAX_TOKENS);
    *out = (uint32_t)json_integer_value(v);
    return DOP_OK;
}

static dop_status
add_tekken_specials(dop_tok_build *b, const json_t *list, uint32_t specials, dop_diag *diag)
{
    dop_status st = DOP_OK;
    for (size_t i = 0; i < json_array_size(list) && st == DOP_OK; i++) {
        const json_t *o = json_array_get(list, i), *s = json_object_get(o, "token_str");
        uint32_t id;
        if (!dop_tok_json_id(json_object_get(o, "rank"), specials, &id) || !json_is_string(s))
            return BAD(b, diag, "special token %zu has no rank below %u or no text", i, specials);
        st = dop_tok_ranks_special(b, id, json_string_value(s), json_string_length(s), diag);
    }
    for (uint32_t id = 0; id < specials && st == DOP_OK; id++) {
        char text[32];
        const char *name = text;
        if (b->token_flags[id] & DOP_TOKEN_USED)
            continue;
        snprintf(text, sizeof text, "<SPECIAL_%u>", id);
        if (!list && id < sizeof tekken_specials / sizeof *tekken_specials)
            name = tekken_specials[id];
        st = dop_tok_ranks_special(b, id, name, strlen(name), diag);
    }
    return st;
}

/* Reads as many ranks as the vocabulary has ids. Files list more ranks, best first. */
static dop_status
read_tekken_vocab(dop_tok_build *b, const json_t *vocab, uint32_t specials, dop_diag *diag)
{
    dop_buf bytes = {0};
    dop_status st = DOP_OK;
    b->ranks = calloc(b->tokens, sizeof *b->ranks);
    if (!b->ranks)
        return DOP_NO_MEMORY(diag);
    for (size_t i = 0; i < json_array_size(vocab) && st == DOP_OK; i++) {
        const json_t *o = json_array_get(vocab, i), *s = json_object_get(o, "token_bytes");
        const json_t *rank = json_object_get(o, "rank");
        bytes.size = 0;
        if (!json_is_integer(rank) || json_integer_value(rank) < 0 || !json_is_string(s))
            st = BAD(b, diag, "entry %zu of the vocabulary has no rank or no \"token_bytes\"", i);
        else if (json_integer_value(rank) >= (json_int_t)(b->tokens - specials))
            continue;
        else if (!dop_base64_decode(json_string_value(s), json_string_length(s), &bytes))
            st = BAD(b, diag, "entry %zu of the vocabulary is not valid base64", i);
        else if (bytes.failed)
            st = DOP_NO_MEMORY(diag);
        else
            st = dop_tok_ranks_token(b, (uint32_t)json_integer_value(rank) + specials,
                                     (uint32_t)json_integer_value(rank), bytes.data, bytes.size, diag);
    }
    dop_buf_finish(&bytes);
    return st;
}

dop_status
dop_tok_tekken(const json_t *root, const char *path, const dop_tokenizer_facts *facts, dop_diag *diag,
               dop_tokenizer **out_tok)
{
    const json_t *config = json_object_get(root, "config"), *pattern = json_object_get(config, "pattern");
    dop_tok_build b = {0};
    dop_tokenizer_facts none;
    uint32_t tokens = 0, specials = 0;
    dop_status st;
    *out_tok = NULL;
    dop_tokenizer_facts_init(&none);
    if ((st = read_config_count(config, "default_vocab_size", path, diag, &tokens)) != DOP_OK ||
        (st = read_config_count(config, "default_num_special_tokens", path, diag, &specials)) != DOP_OK)
        return st;
    if (!json_is_string(pattern) || specials > tokens)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "config: \"pattern\" is no string, or there are more special tokens than tokens");
    if ((st = dop_tok_build_init(&b, path, tokens, diag)) != DOP_OK ||
        (st = read_tekken_vocab(&b, json_object_get(root, "vocab"), specials, diag)) != DOP_OK ||
        (st = add_tekken_specials(&b, json_object_get(root, "special_tokens"), specials, diag)) != DOP_OK ||
        (st = dop_tok_ranks_pattern(&b, json_string_value(pattern), json_string_length(pattern), diag)) != DOP_OK)
        goto error;
    b.unk = dop_tok_build_find(&b, "<unk>", 5);
    b.bos = dop_tok_build_find(&b, "<s>", 3);
    b.eos = dop_tok_build_find(&b, "</s>", 4);
    if (b.bos != DOP_TOK_NONE)
        dop_ids_push(&b.prefix, b.bos);
    dop_tok_build_facts(&b, facts ? facts : &none);
    st = dop_tok_build_finish(&b, diag, out_tok);
error:
    dop_tok_build_free(&b);
    return st;
}
