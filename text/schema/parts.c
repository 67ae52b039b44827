/* Grammars of texts that combine JSON, free text and fixed marks, such as tool calls. */
#include "base/encoding/utf8.h"
#include "text/grammar/grammar_internal.h"
#include "text/grammar/vocab.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 60, LONGEST_MARK = 200 };

typedef struct maker {
    const dop_vocab *vocab;
    dop_auto a;
    unsigned flags; /* DOP_SCHEMA_* bits */
    dop_status status;
    dop_diag *diag;
} maker;

static uint32_t add_grammar_part(maker *m, uint32_t from, const json_t *part, unsigned depth);

static bool
has_maker_failure(const maker *m)
{
    return m->status != DOP_OK || m->a.failed || m->a.too_large;
}

/* Adds a fixed text. Where it contains the text of a special token, adds that token instead. Omits the text from a
 * token on that ends generation. */
static uint32_t
add_fixed_text(maker *m, uint32_t from, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        bool ends = false;
        const size_t special = dop_vocab_special(m->vocab, s + i, n - i, &ends);
        if (special && ends)
            return from;
        if (special)
            from = dop_auto_text(&m->a, from, (char[]){DOP_VOCAB_SPECIAL}, 1);
        from = dop_auto_text(&m->a, from, s + i, special ? special : 1);
        i += special ? special : 1;
    }
    return from;
}

/* Adds any text up to and including a mark, with a Knuth-Morris-Pratt automaton: one state per prefix of the mark. */
static uint32_t
add_until_mark(maker *m, uint32_t from, const char *mark, size_t n)
{
    uint32_t c[LONGEST_MARK], state[LONGEST_MARK + 1];
    size_t len = 0, fail[LONGEST_MARK + 1] = {0};
    bool ends = false;
    /* A mark that is a special token needs no automaton, because free text cannot contain the token. */
    if (dop_vocab_special(m->vocab, mark, n, &ends) == n) {
        dop_charset any = {0};
        dop_charset_negate(&any);
        const uint32_t inside = dop_auto_state(&m->a);
        dop_auto_nothing(&m->a, from, inside);
        dop_auto_chars(&m->a, inside, &any, inside);
        m->a.failed |= any.failed;
        dop_charset_finish(&any);
        return add_fixed_text(m, inside, mark, n);
    }
    for (size_t i = 0; i < n && len < LONGEST_MARK;) {
        const dop_utf8_char one = dop_utf8_next(mark + i, n - i);
        c[len++] = one.cp;
        i += one.len;
    }
    if (len == 0)
        return from;
    for (size_t i = 1, k = 0; i < len; i++) {
        while (k > 0 && c[i] != c[k])
            k = fail[k];
        k += c[i] == c[k];
        fail[i + 1] = k;
    }
    for (size_t i = 0; i <= len; i++)
        state[i] = dop_auto_state(&m->a);
    dop_auto_nothing(&m->a, from, state[0]);
    for (size_t i = 0; i < len && !has_maker_failure(m); i++) {
        dop_charset others = {0};
        for (size_t k = 0; k < len; k++) {
            size_t to = i;
            bool again = false;
            for (size_t j = 0; j < k; j++)
                again |= c[j] == c[k];
            if (again)
                continue;
            while (to > 0 && c[to] != c[k])
                to = fail[to];
            to += c[to] == c[k];
            dop_charset one = {0};
            dop_charset_add(&one, c[k], c[k]);
            dop_auto_chars(&m->a, state[i], &one, state[to]);
            dop_charset_finish(&one);
            dop_charset_add(&others, c[k], c[k]);
        }
        dop_charset_negate(&others);
        dop_auto_chars(&m->a, state[i], &others, state[0]);
        m->a.failed |= others.failed;
        dop_charset_finish(&others);
    }
    return state[len];
}

static uint32_t
add_quoted_string(maker *m, uint32_t from, const char *mark, size_t n)
{
    if (n > 1)
        return add_until_mark(m, add_fixed_text(m, from, mark, n), mark, n);
    const uint32_t inside = dop_auto_state(&m->a), escape = dop_auto_state(&m->a);
    dop_charset plain = {0};
    dop_charset_add(&plain, 0, 0x1f);
    dop_charset_add(&plain, '\\', '\\');
    dop_charset_add(&plain, (unsigned char)mark[0], (unsigned char)mark[0]);
    dop_charset_negate(&plain);
    dop_auto_nothing(&m->a, dop_auto_text(&m->a, from, mark, n), inside);
    dop_auto_chars(&m->a, inside, &plain, inside);
    dop_charset_finish(&plain);
    dop_auto_bytes(&m->a, inside, '\\', '\\', escape);
    for (const char *e = "\\nt"; *e; e++)
        dop_auto_bytes(&m->a, escape, (uint8_t)*e, (uint8_t)*e, inside);
    dop_auto_bytes(&m->a, escape, (uint8_t)mark[0], (uint8_t)mark[0], inside);
    return dop_auto_text(&m->a, inside, mark, n);
}

/* Adds the items of a list in order; some are optional. The text `between` separates those present. */
static uint32_t
add_part_list(maker *m, uint32_t from, const json_t *items, const char *between, unsigned depth)
{
    uint32_t none = from, some = DOP_AUTO_NONE; /* states before the first item, and after at least one item */
    size_t i;
    const json_t *item;
    json_array_foreach(items, i, item)
    {
        const json_t *part = json_object_get(item, "part");
        const bool required = json_is_true(json_object_get(item, "required"));
        const uint32_t begin = dop_auto_state(&m->a), before = some;
        if (has_maker_failure(m))
            return from;
        if (none != DOP_AUTO_NONE)
            dop_auto_nothing(&m->a, none, begin);
        if (some != DOP_AUTO_NONE)
            dop_auto_nothing(&m->a, add_fixed_text(m, some, between, strlen(between)), begin);
        some = add_grammar_part(m, begin, part, depth + 1);
        if (required) {
            none = DOP_AUTO_NONE;
        } else if (before != DOP_AUTO_NONE) {
            const uint32_t joined = dop_auto_state(&m->a);
            dop_auto_nothing(&m->a, before, joined);
            dop_auto_nothing(&m->a, some, joined);
            some = joined;
        }
    }
    if (some == DOP_AUTO_NONE)
        return none;
    const uint32_t end = dop_auto_state(&m->a);
    dop_auto_nothing(&m->a, some, end);
    if (none != DOP_AUTO_NONE)
        dop_auto_nothing(&m->a, none, end);
    return end;
}

static uint32_t
add_identifier(maker *m, uint32_t from, json_int_t n)
{
    for (json_int_t i = 0; i < n && i < LONGEST_MARK; i++) {
        const uint32_t to = dop_auto_state(&m->a);
        dop_auto_bytes(&m->a, from, '0', '9', to);
        dop_auto_bytes(&m->a, from, 'A', 'Z', to);
        dop_auto_bytes(&m->a, from, 'a', 'z', to);
        from = to;
    }
    return from;
}

static uint32_t
add_grammar_part(maker *m, uint32_t from, const json_t *part, unsigned depth)
{
    size_t i;
    const json_t *v, *one;
    if (has_maker_failure(m) || depth > DEEPEST)
        return from;
    if (json_is_string(part))
        return add_fixed_text(m, from, json_string_value(part), json_string_length(part));
    if ((v = json_object_get(part, "seq"))) {
        json_array_foreach(v, i, one) from = add_grammar_part(m, from, one, depth + 1);
        return from;
    }
    if ((v = json_object_get(part, "any"))) {
        const uint32_t end = dop_auto_state(&m->a);
        json_array_foreach(v, i, one)
        {
            const uint32_t begin = dop_auto_state(&m->a);
            dop_auto_nothing(&m->a, from, begin);
            dop_auto_nothing(&m->a, add_grammar_part(m, begin, one, depth + 1), end);
        }
        return end;
    }
    if ((v = json_object_get(part, "until")))
        return add_until_mark(m, from, json_string_value(v), json_string_length(v));
    if ((v = json_object_get(part, "string")))
        return add_quoted_string(m, from, json_string_value(v), json_string_length(v));
    if ((v = json_object_get(part, "id")))
        return add_identifier(m, from, json_integer_value(v));
    if ((v = json_object_get(part, "list")))
        return add_part_list(m, from, v, json_string_value(json_object_get(part, "between")), depth);
    if ((v = json_object_get(part, "compact"))) {
        const unsigned before = m->flags;
        m->flags |= DOP_SCHEMA_COMPACT;
        from = add_grammar_part(m, from, v, depth + 1);
        m->flags = before;
        return from;
    }
    if ((v = json_object_get(part, "schema"))) {
        uint32_t rule = 0;
        m->status = dop_schema_add(&m->a, json_is_null(v) ? NULL : v, m->flags, m->diag, &rule);
        return has_maker_failure(m) ? from : dop_auto_call(&m->a, from, rule);
    }
    m->status = DOP_FAIL(m->diag, DOP_E_INPUT, "a part of the grammar is of no known kind");
    return from;
}

dop_status
dop_grammar_from_parts(const dop_vocab *vocab, const struct json_t *parts, dop_budget *budget, dop_diag *diag,
                       dop_grammar **out_grammar)
{
    maker m = {.vocab = vocab, .a.budget = budget, .diag = diag};
    *out_grammar = NULL;
    m.a.root = dop_auto_rule(&m.a);
    if (!has_maker_failure(&m))
        dop_auto_end(&m.a, add_grammar_part(&m, m.a.rules[m.a.root], parts, 0));
    if (m.status == DOP_OK)
        return dop_grammar_make(vocab, &m.a, diag, out_grammar);
    dop_auto_finish(&m.a);
    return m.status;
}
