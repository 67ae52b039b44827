/* Table-driven readers for normalizers, pre-tokenizers and post-processors of a tokenizer.json. */
#include "text/import/tokenizer_json_parts.h"
#include "base/encoding/base64.h"
#include "text/import/tokenizer_json.h"

#define BAD(b, diag, ...) DOP_FAIL_IN((diag), DOP_E_INPUT, (b)->path, __VA_ARGS__)

dop_status
dop_tok_json_bool(const json_t *o, const char *key, bool fallback, const char *path, dop_diag *diag, bool *out)
{
    const json_t *v = json_object_get(o, key);
    *out = fallback;
    if (!v || json_is_null(v))
        return DOP_OK;
    if (!json_is_boolean(v))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "\"%s\" is not true or false", key);
    *out = json_is_true(v);
    return DOP_OK;
}

dop_status
dop_tok_json_string(const json_t *o, const char *key, const char *path, dop_diag *diag, const char **out,
                    size_t *out_len)
{
    const json_t *v = json_object_get(o, key);
    *out = "";
    *out_len = 0;
    if (!json_is_string(v))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "\"%s\" is missing or not a string", key);
    *out = json_string_value(v);
    *out_len = json_string_length(v);
    return DOP_OK;
}

dop_status
dop_tok_json_added(const json_t *o, const char *path, dop_diag *diag, const char **out_text, size_t *out_len,
                   uint32_t *out_flags, bool *out_normalized)
{
    static const struct {
        const char *key;
        uint32_t flag;
    } keys[] = {{"lstrip", DOP_ADDED_LSTRIP},
                {"rstrip", DOP_ADDED_RSTRIP},
                {"single_word", DOP_ADDED_SINGLE_WORD},
                {"special", DOP_ADDED_SPECIAL}};
    dop_status st = dop_tok_json_string(o, "content", path, diag, out_text, out_len);
    *out_flags = 0;
    for (size_t k = 0; k < sizeof keys / sizeof *keys && st == DOP_OK; k++) {
        bool set;
        st = dop_tok_json_bool(o, keys[k].key, false, path, diag, &set);
        *out_flags |= set ? keys[k].flag : 0;
    }
    if (st != DOP_OK)
        return st;
    return dop_tok_json_bool(o, "normalized", !(*out_flags & DOP_ADDED_SPECIAL), path, diag, out_normalized);
}

bool
dop_tok_json_id(const json_t *v, uint32_t tokens, uint32_t *out_id)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= (json_int_t)tokens)
        return false;
    *out_id = (uint32_t)json_integer_value(v);
    return true;
}

static const char *
read_component_type(const json_t *o)
{
    const char *t = json_string_value(json_object_get(o, "type"));
    return t ? t : "(no type)";
}

/* Reads a pattern {"String": s} or {"Regex": s}. */
static dop_status
read_component_pattern(const dop_tok_build *b, const json_t *o, dop_diag *diag, bool *regex, const char **s, size_t *n)
{
    const json_t *p = json_object_get(o, "pattern");
    *s = "";
    *n = 0;
    *regex = json_object_get(p, "Regex") != NULL;
    if (!*regex && !json_object_get(p, "String"))
        return BAD(b, diag, "%s has no pattern of the form {\"String\": ...} or {\"Regex\": ...}",
                   read_component_type(o));
    return dop_tok_json_string(p, *regex ? "Regex" : "String", b->path, diag, s, n);
}

typedef dop_status part_fn(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag);

typedef struct part {
    const char *type;
    part_fn *read;
    uint32_t arg;
} part;

static dop_status
read_component(dop_tok_build *b, const json_t *o, const part *table, const char *what, dop_diag *diag)
{
    const char *type = read_component_type(o);
    for (; table->type; table++)
        if (strcmp(table->type, type) == 0)
            return table->read(b, o, table->arg, diag);
    return BAD(b, diag, "%s \"%s\" is not supported", what, type);
}

/* Component table of one section of the file, and the key of a Sequence's items. */
typedef struct part_list {
    const part *table;
    const char *what, *list_key;
    bool (*closed)(const dop_tok_build *b); /* true if no component may follow those already read; may be NULL */
    const char *const *yet;                 /* components that may follow even then, terminated by NULL */
} part_list;

enum { max_nesting = 8 };

static bool
is_listed_name(const char *name, const char *const *names)
{
    while (names && *names && strcmp(*names, name) != 0)
        names++;
    return names && *names;
}

/* Reads one component or a Sequence of components, which may be nested. */
static dop_status
read_components(dop_tok_build *b, const json_t *o, const part_list *list, int depth, dop_diag *diag)
{
    if (!o || json_is_null(o))
        return DOP_OK;
    if (strcmp(read_component_type(o), "Sequence") != 0)
        return read_component(b, o, list->table, list->what, diag);
    const json_t *items = json_object_get(o, list->list_key);
    if (!json_is_array(items))
        return BAD(b, diag, "%s \"Sequence\" has no list \"%s\"", list->what, list->list_key);
    if (depth == max_nesting)
        return BAD(b, diag, "%s \"Sequence\" is nested more than %d times", list->what, max_nesting);
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        if (i && list->closed && list->closed(b) && !is_listed_name(read_component_type(item), list->yet))
            return BAD(b, diag, "%s \"%s\" after \"%s\" is not supported", list->what, read_component_type(item),
                       read_component_type(json_array_get(items, i - 1)));
        dop_status st = read_components(b, item, list, depth + 1, diag);
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

/* Normalizers */

static dop_status
norm_simple(dop_tok_build *b, const json_t *o, uint32_t kind, dop_diag *diag)
{
    (void)o;
    return dop_tok_build_op(b, (dop_tok_op_kind)kind, 0, "", 0, "", 0, diag);
}

static dop_status
norm_strip(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    bool left, right;
    (void)arg;
    DOP_RETURN_IF_ERROR(dop_tok_json_bool(o, "strip_left", true, b->path, diag, &left));
    DOP_RETURN_IF_ERROR(dop_tok_json_bool(o, "strip_right", true, b->path, diag, &right));
    return dop_tok_build_op(b, DOP_OP_STRIP, (left ? 1u : 0u) | (right ? 2u : 0u), "", 0, "", 0, diag);
}

static dop_status
norm_prepend(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    const char *s;
    size_t n;
    (void)arg;
    DOP_RETURN_IF_ERROR(dop_tok_json_string(o, "prepend", b->path, diag, &s, &n));
    return dop_tok_build_op(b, DOP_OP_PREPEND, 0, s, n, "", 0, diag);
}

static dop_status
norm_replace(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    const char *s, *by;
    size_t n, byn;
    bool regex;
    (void)arg;
    DOP_RETURN_IF_ERROR(read_component_pattern(b, o, diag, &regex, &s, &n));
    DOP_RETURN_IF_ERROR(dop_tok_json_string(o, "content", b->path, diag, &by, &byn));
    return dop_tok_build_op(b, regex ? DOP_OP_REPLACE_REGEX : DOP_OP_REPLACE, 0, s, n, by, byn, diag);
}

static dop_status
norm_bert(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    bool clean, chinese, lower, accents;
    dop_status st;
    (void)arg;
    if ((st = dop_tok_json_bool(o, "clean_text", true, b->path, diag, &clean)) != DOP_OK ||
        (st = dop_tok_json_bool(o, "handle_chinese_chars", true, b->path, diag, &chinese)) != DOP_OK ||
        (st = dop_tok_json_bool(o, "lowercase", true, b->path, diag, &lower)) != DOP_OK ||
        (st = dop_tok_json_bool(o, "strip_accents", lower, b->path, diag, &accents)) != DOP_OK)
        return st;
    return dop_tok_build_bert(b, clean, chinese, accents, lower, diag);
}

static dop_status
norm_precompiled(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    const json_t *map = json_object_get(o, "precompiled_charsmap");
    (void)arg;
    if (json_is_null(map) || (json_is_string(map) && json_string_length(map) == 0))
        return DOP_OK; /* no rules */
    if (!json_is_string(map))
        return BAD(b, diag, "Precompiled: \"precompiled_charsmap\" is not a string");
    if (b->charsmap.size)
        return BAD(b, diag, "a second normalizer \"Precompiled\" is not supported");
    if (!dop_base64_decode(json_string_value(map), json_string_length(map), &b->charsmap))
        return BAD(b, diag, "Precompiled: \"precompiled_charsmap\" is not valid base64");
    DOP_RETURN_IF_ERROR(dop_tok_build_charsmap(b, diag));
    return dop_tok_build_op(b, DOP_OP_CHARSMAP, 0, "", 0, "", 0, diag);
}

/* Nmt normalizer: drops control characters, and replaces white space and similar characters with spaces. */
#define NMT_DROPPED "[\\x{1}-\\x{8}\\x{b}\\x{e}-\\x{1f}\\x{7f}\\x{8f}\\x{9f}]"
#define NMT_SPACES "[\\x{9}\\x{a}\\x{c}\\x{d}\\x{1680}\\x{200b}-\\x{200f}\\x{2028}\\x{2029}\\x{2581}\\x{feff}\\x{fffd}]"

static dop_status
norm_nmt(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    (void)o;
    (void)arg;
    DOP_RETURN_IF_ERROR(dop_tok_build_op(b, DOP_OP_REPLACE_REGEX, 0, NMT_DROPPED, strlen(NMT_DROPPED), "", 0, diag));
    return dop_tok_build_op(b, DOP_OP_REPLACE_REGEX, 0, NMT_SPACES, strlen(NMT_SPACES), " ", 1, diag);
}

static dop_status
norm_accents(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    (void)o;
    (void)arg;
    return dop_tok_build_op(b, DOP_OP_STRIP_ACCENTS, DOP_ACCENTS_ALL, "", 0, "", 0, diag);
}

static const part normalizers[] = {
    {"NFC", norm_simple, DOP_OP_NFC},
    {"NFD", norm_simple, DOP_OP_NFD},
    {"NFKC", norm_simple, DOP_OP_NFKC},
    {"NFKD", norm_simple, DOP_OP_NFKD},
    {"Lowercase", norm_simple, DOP_OP_LOWERCASE},
    {"StripAccents", norm_accents, 0},
    {"Strip", norm_strip, 0},
    {"Prepend", norm_prepend, 0},
    {"Replace", norm_replace, 0},
    {"BertNormalizer", norm_bert, 0},
    {"Precompiled", norm_precompiled, 0},
    {"Nmt", norm_nmt, 0},
    {NULL, NULL, 0},
};

dop_status
dop_tok_json_normalizer(dop_tok_build *b, const json_t *n, dop_diag *diag)
{
    static const part_list list = {normalizers, "normalizer", "normalizers", NULL, NULL};
    dop_status st = read_components(b, n, &list, 0, diag);
    b->norm_ops = b->op_count;
    return st;
}

/* Pre-tokenizers */

static dop_status
read_split_behavior(const dop_tok_build *b, const json_t *o, const char *fallback, dop_diag *diag, uint32_t *out)
{
    static const char *const names[DOP_SPLIT_COUNT] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                       "Contiguous"};
    const json_t *v = json_object_get(o, "behavior");
    const char *s = json_is_string(v) ? json_string_value(v) : fallback;
    for (uint32_t i = 0; s && i < DOP_SPLIT_COUNT; i++) {
        if (strcmp(s, names[i]) == 0) {
            *out = i;
            return DOP_OK;
        }
    }
    return BAD(b, diag, "pre-tokenizer \"%s\": behavior \"%s\" is not known", read_component_type(o), s ? s : "(none)");
}

static dop_status
pre_split(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    const char *s;
    size_t n;
    bool regex, invert;
    uint32_t flags;
    dop_status st;
    (void)arg;
    if ((st = read_component_pattern(b, o, diag, &regex, &s, &n)) != DOP_OK ||
        (st = read_split_behavior(b, o, NULL, diag, &flags)) != DOP_OK ||
        (st = dop_tok_json_bool(o, "invert", false, b->path, diag, &invert)) != DOP_OK)
        return st;
    return dop_tok_build_op(b, regex ? DOP_OP_SPLIT_REGEX : DOP_OP_SPLIT, flags | (invert ? DOP_SPLIT_INVERT : 0), s, n,
                            "", 0, diag);
}

static dop_status
add_regex_split(dop_tok_build *b, const char *pattern, uint32_t flags, dop_diag *diag)
{
    return dop_tok_build_op(b, DOP_OP_SPLIT_REGEX, flags, pattern, strlen(pattern), "", 0, diag);
}

static dop_status
pre_byte_level(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    bool space, use_regex;
    dop_status st;
    (void)arg;
    if ((st = dop_tok_json_bool(o, "add_prefix_space", true, b->path, diag, &space)) != DOP_OK ||
        (st = dop_tok_json_bool(o, "use_regex", true, b->path, diag, &use_regex)) != DOP_OK)
        return st;
    b->flags |= DOP_TOK_F_BYTE_LEVEL;
    if (space)
        st = dop_tok_build_op(b, DOP_OP_PREPEND, DOP_PREPEND_MISSING, " ", 1, "", 0, diag);
    if (st == DOP_OK && use_regex)
        st = add_regex_split(b, dop_tok_gpt2_pattern, DOP_SPLIT_ISOLATED, diag);
    return st == DOP_OK ? dop_tok_build_op(b, DOP_OP_LETTERS, 0, "", 0, "", 0, diag) : st;
}

/* Reads when Metaspace prepends its mark: "always", "first" (only at the start of the input), "never". */
static dop_status
read_prepend_scheme(const dop_tok_build *b, const json_t *o, dop_diag *diag, bool *prepend, bool *first)
{
    const json_t *v = json_object_get(o, "prepend_scheme");
    dop_status st = dop_tok_json_bool(o, "add_prefix_space", true, b->path, diag, prepend); /* older form */
    *first = false;
    if (st != DOP_OK || !v || json_is_null(v))
        return st;
    const char *s = json_is_string(v) ? json_string_value(v) : "";
    *first = strcmp(s, "first") == 0;
    *prepend = *first || strcmp(s, "always") == 0;
    if (!*prepend && strcmp(s, "never") != 0)
        return BAD(b, diag, "Metaspace: prepend_scheme \"%s\" is not known", s);
    return DOP_OK;
}

static dop_status
pre_metaspace(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    const char *mark;
    size_t n;
    bool prepend, first, cut;
    dop_status st;
    (void)arg;
    if ((st = dop_tok_json_string(o, "replacement", b->path, diag, &mark, &n)) != DOP_OK ||
        (st = read_prepend_scheme(b, o, diag, &prepend, &first)) != DOP_OK ||
        (st = dop_tok_json_bool(o, "split", true, b->path, diag, &cut)) != DOP_OK ||
        (st = dop_tok_build_op(b, DOP_OP_REPLACE, 0, " ", 1, mark, n, diag)) != DOP_OK)
        return st;
    if (prepend)
        st = dop_tok_build_op(b, DOP_OP_PREPEND, DOP_PREPEND_MISSING | (first ? DOP_PREPEND_FIRST : 0), mark, n, "", 0,
                              diag);
    if (st == DOP_OK && cut)
        st = dop_tok_build_op(b, DOP_OP_SPLIT, DOP_SPLIT_MERGED_WITH_NEXT, mark, n, "", 0, diag);
    return st;
}

static dop_status
pre_digits(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    bool individual;
    (void)arg;
    DOP_RETURN_IF_ERROR(dop_tok_json_bool(o, "individual_digits", false, b->path, diag, &individual));
    return add_regex_split(b, "\\p{N}", individual ? DOP_SPLIT_ISOLATED : DOP_SPLIT_CONTIGUOUS, diag);
}

static dop_status
pre_punctuation(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    uint32_t flags;
    (void)arg;
    DOP_RETURN_IF_ERROR(read_split_behavior(b, o, "Isolated", diag, &flags));
    return add_regex_split(b, dop_tok_punctuation, flags, diag);
}

static dop_status
pre_whitespace(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
#define WORD \
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}" /* includes the joiners used in Persian and
                                                                      * emoji */
    (void)o;
    (void)arg;
    return add_regex_split(b, "[" WORD "]+|[^" WORD "\\s]+", DOP_SPLIT_REMOVED | DOP_SPLIT_INVERT, diag);
#undef WORD
}

static dop_status
pre_whitespace_split(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    (void)o;
    (void)arg;
    return add_regex_split(b, "\\s", DOP_SPLIT_REMOVED, diag);
}

static dop_status
pre_bert(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    (void)o;
    (void)arg;
    return dop_tok_build_bert_words(b, diag);
}

static dop_status
pre_delimiter(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    const char *s;
    size_t n;
    (void)arg;
    DOP_RETURN_IF_ERROR(dop_tok_json_string(o, "delimiter", b->path, diag, &s, &n));
    return dop_tok_build_op(b, DOP_OP_SPLIT, DOP_SPLIT_REMOVED, s, n, "", 0, diag);
}

static const part pre_tokenizers[] = {
    {"Split", pre_split, 0},
    {"ByteLevel", pre_byte_level, 0},
    {"Metaspace", pre_metaspace, 0},
    {"Digits", pre_digits, 0},
    {"Punctuation", pre_punctuation, 0},
    {"Whitespace", pre_whitespace, 0},
    {"WhitespaceSplit", pre_whitespace_split, 0},
    {"BertPreTokenizer", pre_bert, 0},
    {"CharDelimiterSplit", pre_delimiter, 0},
    {NULL, NULL, 0},
};

/* True if a ByteLevel component was read. Such a component converts the text to the byte alphabet, so only splits
 * may follow. */
static bool
has_byte_level(const dop_tok_build *b)
{
    return (b->flags & DOP_TOK_F_BYTE_LEVEL) != 0;
}

dop_status
dop_tok_json_pre_tokenizer(dop_tok_build *b, const json_t *p, dop_diag *diag)
{
    static const char *const splits[] = {
        "Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit", NULL};
    static const part_list list = {pre_tokenizers, "pre-tokenizer", "pretokenizers", has_byte_level, splits};
    dop_status st = read_components(b, p, &list, 0, diag);
    if (st != DOP_OK || !has_byte_level(b))
        return st;
    if (b->ops[b->op_count - 1].kind == DOP_OP_LETTERS) { /* no split follows, so the conversion to letters is not
                                                           * needed */
        b->op_count--;
        return DOP_OK;
    }
    return dop_tok_build_op(b, DOP_OP_BYTES, 0, "", 0, "", 0, diag);
}

/* Post-processors */

static dop_status
post_nothing(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    (void)b;
    (void)o;
    (void)arg;
    (void)diag;
    return DOP_OK;
}

/* Reads the special tokens of a template. Tokens before text i go to out[i], tokens after the last text to
 * out[n_texts]. A NULL list drops them. */
static dop_status
read_template(dop_tok_build *b, const char *name, const json_t *list, const json_t *special, size_t n_texts,
              dop_ids *const *out, dop_diag *diag)
{
    size_t seen = 0;
    if (!json_is_array(list))
        return BAD(b, diag, "TemplateProcessing: \"%s\" is not a list", name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *piece = json_array_get(list, i), *tok = json_object_get(piece, "SpecialToken");
        if (json_object_get(piece, "Sequence")) {
            if (seen == n_texts)
                return BAD(b, diag, "TemplateProcessing: \"%s\" has the text twice", name);
            seen++;
            continue;
        }
        const char *id_name = json_string_value(json_object_get(tok, "id"));
        const json_t *ids = id_name ? json_object_get(json_object_get(special, id_name), "ids") : NULL;
        if (!json_is_array(ids))
            return BAD(b, diag, "TemplateProcessing: special token \"%s\" is not defined", id_name ? id_name : "?");
        for (size_t k = 0; k < json_array_size(ids); k++) {
            uint32_t id;
            if (!dop_tok_json_id(json_array_get(ids, k), b->tokens, &id))
                return BAD(b, diag, "TemplateProcessing: special token \"%s\" has an id outside the vocabulary",
                           id_name);
            if (out[seen])
                dop_ids_push(out[seen], id);
        }
    }
    return seen == n_texts ? DOP_OK : BAD(b, diag, "TemplateProcessing: \"%s\" has no text", name);
}

static size_t
count_texts(const json_t *list)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        n += json_object_get(json_array_get(list, i), "Sequence") != NULL;
    return n;
}

static dop_status
post_template_processing(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    const json_t *single = json_object_get(o, "single"), *pair = json_object_get(o, "pair"),
                 *special = json_object_get(o, "special_tokens");
    dop_ids *const around[] = {&b->prefix, &b->suffix}, *const between[] = {NULL, &b->middle, NULL};
    (void)arg;
    dop_status st = read_template(b, "single", single, special, 1, around, diag);
    /* The tokens around a pair equal those around a single text. Models without pairs may have an empty pair
     * template, or one with a single text. */
    return st == DOP_OK && count_texts(pair) == 2 ? read_template(b, "pair", pair, special, 2, between, diag) : st;
}

/* Reads BertProcessing and RobertaProcessing; "cls" and "sep" are ["text", id]. */
static dop_status
post_cls_sep(dop_tok_build *b, const json_t *o, uint32_t arg, dop_diag *diag)
{
    uint32_t cls, sep;
    (void)arg;
    if (!dop_tok_json_id(json_array_get(json_object_get(o, "cls"), 1), b->tokens, &cls) ||
        !dop_tok_json_id(json_array_get(json_object_get(o, "sep"), 1), b->tokens, &sep))
        return BAD(b, diag, "%s: \"cls\" or \"sep\" is not [text, id]", read_component_type(o));
    dop_ids_push(&b->prefix, cls);
    dop_ids_push(&b->suffix, sep);
    for (int n = strcmp(read_component_type(o), "RobertaProcessing") == 0 ? 2 : 1; n > 0; n--)
        dop_ids_push(&b->middle, sep);
    return DOP_OK;
}

static const part post_processors[] = {
    {"ByteLevel", post_nothing, 0}, /* affects offsets only */
    {"TemplateProcessing", post_template_processing, 0},
    {"BertProcessing", post_cls_sep, 0},
    {"RobertaProcessing", post_cls_sep, 0},
    {NULL, NULL, 0},
};

static bool
adds_tokens(const dop_tok_build *b)
{
    return b->prefix.count || b->suffix.count;
}

dop_status
dop_tok_json_post_processor(dop_tok_build *b, const json_t *p, dop_diag *diag)
{
    static const part_list list = {post_processors, "post-processor", "processors", adds_tokens, NULL};
    return read_components(b, p, &list, 0, diag);
}
