/* Byte-level BPE from merges.txt and vocab.json (tokenizer_merges.h). Converts both to a tokenizer.json and reads
 * that. */
#include <stdlib.h>
#include <string.h>

#include "base/os/system.h"
#include "text/import/tokenizer_json.h"
#include "text/import/tokenizer_merges.h"
#include "text/tokenizer/tokenizer_patterns.h"

static const char clip_words[] = "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+";

bool
dop_tok_is_merges(const void *bytes, size_t size)
{
    static const char mark[] = "#version";
    return size >= sizeof mark - 1 && memcmp(bytes, mark, sizeof mark - 1) == 0;
}

/* Returns the merges in tokenizer.json's form, each "a b". NULL if the text is not UTF-8 or memory is exhausted. */
static json_t *
list_merges(const char *text, size_t size)
{
    json_t *list = json_array();
    for (size_t at = 0; list && at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - (text + at)) : size - at;
        const size_t next = at + n + 1;
        n -= n > 0 && text[at + n - 1] == '\r';
        if (n > 0 && !(at == 0 && text[0] == '#') &&
            json_array_append_new(list, json_stringn(text + at, n)) != 0) { /* not UTF-8, or out of memory */
            json_decref(list);
            return NULL;
        }
        at = next;
    }
    return list;
}

static bool
has_word_end_marks(const json_t *vocab)
{
    const char *key;
    json_t *id;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, id)
    {
        const size_t n = strlen(key);
        if (n > 4 && strcmp(key + n - 4, "</w>") == 0)
            return true;
    }
    return false;
}

/* Returns an added-token object for a text, or NULL if the text is not in the vocabulary. */
static json_t *
make_special_token(const json_t *vocab, const char *text)
{
    const json_t *id = text ? json_object_get(vocab, text) : NULL;
    return json_is_integer(id) ? json_pack("{s:I,s:s,s:b,s:b}", "id", json_integer_value(id), "content", text,
                                           "special", 1, "normalized", 0)
                               : NULL;
}

static const char *
choose_token_text(const char *stated, const char *otherwise)
{
    return stated ? stated : otherwise;
}

/* True if tokenizer_class begins with one of the names, a list terminated by NULL. */
static bool
is_tokenizer_class(const dop_tokenizer_facts *facts, const char *const *names)
{
    const char *name = json_string_value(json_object_get(facts ? facts->config : NULL, "tokenizer_class"));
    while (name && *names && strncmp(name, *names, strlen(*names)) != 0)
        names++;
    return name && *names;
}

/* Returns a pre-tokenizer that splits by a pattern and then applies `bytes`, whose reference it consumes. */
static json_t *
make_split_pre_tokenizer(const char *pattern, const char *behavior, bool invert, json_t *bytes)
{
    return json_pack("{s:s,s:[{s:s,s:{s:s},s:s,s:b},o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                     "pattern", "Regex", pattern, "behavior", behavior, "invert", invert, bytes);
}

/* Returns the equivalent tokenizer.json. Consumes the references to vocab and merges. */
static json_t *
make_tokenizer_json(json_t *vocab, json_t *merges, const dop_tokenizer_facts *facts)
{
    static const char *const marked[] = {"Roberta", "Longformer", "LED", "Bart", NULL}, *const qwens[] = {"Qwen2",
                                                                                                          NULL};
    const bool clip = has_word_end_marks(vocab), ends = !clip && is_tokenizer_class(facts, marked),
               qwen = is_tokenizer_class(facts, qwens);
    const char *bos = choose_token_text(facts ? facts->bos_token : NULL, clip   ? "<|startoftext|>"
                                                                         : ends ? "<s>"
                                                                                : NULL);
    const char *eos = choose_token_text(facts ? facts->eos_token : NULL, ends ? "</s>" : "<|endoftext|>");
    json_t *added = json_array(), *first = make_special_token(vocab, bos),
           *last = bos && strcmp(bos, eos) == 0 ? NULL : make_special_token(vocab, eos);
    const bool marks = (clip || ends) && first && last;
    const json_int_t first_id = first ? json_integer_value(json_object_get(first, "id")) : 0,
                     last_id = last ? json_integer_value(json_object_get(last, "id")) : 0;
    if (first)
        json_array_append_new(added, first);
    if (last)
        json_array_append_new(added, last);
    json_t *root = json_pack("{s:o,s:{s:s,s:o,s:o,s:s}}", "added_tokens", added, "model", "type", "BPE", "vocab", vocab,
                             "merges", merges, "end_of_word_suffix", clip ? "</w>" : "");
    json_t *bytes = json_pack("{s:s,s:b,s:b,s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                              "use_regex", clip || qwen ? 0 : 1);
    if (!root || !bytes) {
        json_decref(root);
        json_decref(bytes);
        return NULL;
    }
    json_object_set_new(root, "decoder", json_deep_copy(bytes));
    if (clip)
        json_object_set_new(root, "normalizer",
                            json_pack("{s:s,s:[{s:s},{s:s,s:{s:s},s:s},{s:s}]}", "type", "Sequence", "normalizers",
                                      "type", "NFC", "type", "Replace", "pattern", "Regex", "\\s+", "content", " ",
                                      "type", "Lowercase"));
    else if (qwen)
        json_object_set_new(root, "normalizer", json_pack("{s:s}", "type", "NFC"));
    json_object_set_new(root, "pre_tokenizer",
                        clip   ? make_split_pre_tokenizer(clip_words, "Removed", true, bytes)
                        : qwen ? make_split_pre_tokenizer(QWEN2, "Isolated", false, bytes)
                               : bytes);
    if (marks)
        json_object_set_new(root, "post_processor",
                            json_pack("{s:s,s:[sI],s:[sI],s:b,s:b}", "type", "RobertaProcessing", "sep", eos, last_id,
                                      "cls", bos, first_id, "trim_offsets", 0, "add_prefix_space", 0));
    return root;
}

dop_status
dop_tokenizer_from_merges(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                          dop_diag *diag, dop_tokenizer **out_tok)
{
    const char *slash = dop_path_slash(path);
    json_t *vocab = NULL, *root = NULL;
    char *dir = slash ? strndup(path, (size_t)(slash - path)) : strdup("."), *text = NULL;
    if (!dir)
        return DOP_NO_MEMORY(diag);
    dop_status st = dop_tok_read_object(dir, "vocab.json", diag, &vocab);
    free(dir);
    if (st == DOP_OK && !vocab)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "there is no vocab.json beside it");
    json_t *merges = st == DOP_OK ? list_merges(bytes, size) : NULL;
    if (st == DOP_OK && !merges)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "it is not UTF-8 text");
    if (st != DOP_OK) {
        json_decref(vocab);
        return st;
    }
    root = make_tokenizer_json(vocab, merges, facts);
    text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return DOP_NO_MEMORY(diag);
    st = dop_tokenizer_from_json(path, text, strlen(text), facts, diag, out_tok);
    free(text);
    return st;
}
