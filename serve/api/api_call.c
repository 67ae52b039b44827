#include "serve/api/api_call.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 40, LONGEST_WORD = 256 };

static bool
is_call_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Matches a pattern with holes (api_form.h) at *io_at, and moves *io_at past the match. key: required text of KEY
 * holes; NULL: any text. */
static dop_span
match_form_text(const dop_call_text *c, size_t *io_at, const char *pattern, const char *key, size_t n_key)
{
    size_t at = *io_at;
    for (const char *p = pattern; *p; p++) {
        if (is_call_blank(*p)) {
            at = dop_span_blank(c->text, c->n, at);
        } else if (*p == DOP_HOLE_KEY && key) {
            const size_t left = c->n - at;
            if (memcmp(c->text + at, key, left < n_key ? left : n_key) != 0)
                return DOP_SPAN_BAD;
            if (left < n_key)
                return DOP_SPAN_CUT;
            at += n_key;
        } else if (*p < 8) {
            const size_t from = at;
            while (at < c->n && c->text[at] != p[1] && !is_call_blank(c->text[at]) && c->text[at] != '<' &&
                   at - from < LONGEST_WORD)
                at++;
            if (at == c->n && p[1])
                return DOP_SPAN_CUT;
        } else {
            if (at == c->n)
                return DOP_SPAN_CUT;
            if (c->text[at] != *p) {
                /* white space that the template does not have */
                at = dop_span_blank(c->text, c->n, at);
                if (at == c->n)
                    return DOP_SPAN_CUT;
                if (c->text[at] != *p || (p > pattern && isalnum((unsigned char)p[-1]) && isalnum((unsigned char)*p)))
                    return DOP_SPAN_BAD;
            }
            at++;
        }
    }
    *io_at = at;
    return DOP_SPAN_GOOD;
}

dop_span
dop_call_match(dop_call_text *c, const char *pattern)
{
    return match_form_text(c, &c->at, pattern, NULL, 0);
}

/* Adds a call to c->out_calls, and takes ownership of the arguments. */
static void
add_read_call(dop_call_text *c, const char *name, size_t n, dop_buf *arguments)
{
    json_array_append_new(c->out_calls, json_pack("{s:s%, s:s%}", "name", name, n, "arguments",
                                                  arguments->size ? arguments->data : "{}",
                                                  arguments->size ? arguments->size : (size_t)2));
    dop_buf_finish(arguments);
}

/* --- values ------------------------------------------------------------------------------------------------------------------ */

/* Appends a text as JSON if it is a value of a permitted type. bits: permitted types (1 << dop_form_type). Returns
 * false if it is not. */
static bool
append_typed_value(const char *text, size_t n, unsigned bits, dop_buf *out)
{
    dop_buf made = {0};
    size_t at = 0;
    dop_span got = dop_span_json(text, n, &at);
    if (got == DOP_SPAN_GOOD && dop_span_blank(text, n, at) == n) {
        dop_span_append(&made, text, at);
    } else { /* a Python literal */
        at = 0;
        made.size = 0;
        got = dop_span_literal(text, n, NULL, &at, &made);
        if (got != DOP_SPAN_GOOD || dop_span_blank(text, n, at) != n)
            made.size = 0;
    }
    bool good = made.size > 0;
    if (good) {
        const char c = made.data[0];
        const dop_form_type type = c == '"'               ? DOP_TYPE_STRING
                                   : c == '{'             ? DOP_TYPE_OBJECT
                                   : c == '['             ? DOP_TYPE_LIST
                                   : c == 't' || c == 'f' ? DOP_TYPE_BOOL
                                   : c == 'n'             ? DOP_TYPE_NULL
                                                          : DOP_TYPE_NUMBER;
        good = (bits & 1u << type) != 0;
    }
    if (good)
        dop_buf_append(out, made.data, made.size);
    dop_buf_finish(&made);
    return good;
}

/* True if the text stands for an omitted argument instead of a value of the types `bits` (0: any). Models write an
 * empty text or None for it. */
static bool
is_absent_argument(const char *text, size_t n, unsigned bits)
{
    const size_t from = dop_span_blank(text, n, 0);
    while (n > from && is_call_blank(text[n - 1]))
        n--;
    return bits && !(bits & 1u << DOP_TYPE_STRING) &&
           (n == from ||
            (n - from == 4 && (memcmp(text + from, "None", 4) == 0 || memcmp(text + from, "null", 4) == 0)));
}

/* Appends the text between marks as JSON of a type that the schema permits, or nothing if the argument was omitted.
 * string: the marks declare it a string. */
static void
append_marked_value(const json_t *root, const json_t *schema, bool string, const char *text, size_t n, dop_buf *out)
{
    static const char raw[] = "<![CDATA[", end[] = "]]>";
    const unsigned strings = 1u << DOP_TYPE_STRING;
    unsigned bits = dop_tool_types(root, schema);
    if (n >= strlen(raw) + strlen(end) && memcmp(text, raw, strlen(raw)) == 0 &&
        memcmp(text + n - strlen(end), end, strlen(end)) == 0) {
        dop_span_quote(out, text + strlen(raw), n - strlen(raw) - strlen(end));
        return;
    }
    if (!bits)
        bits = string ? strings : ~strings;
    if ((bits & ~strings) && append_typed_value(text, n, bits & ~strings, out))
        return;
    if (string || !is_absent_argument(text, n, dop_tool_types(root, schema)))
        dop_span_quote(out, text, n);
    else if (bits & 1u << DOP_TYPE_NULL)
        dop_buf_puts(out, "null");
}

/* --- keys and values between marks ------------------------------------------------------------------------------------------------ */

/* Returns whether the text at `at` may follow an argument. */
static dop_span
match_argument_follower(const dop_call_text *c, size_t at)
{
    const dop_tool_form *f = c->form;
    const char *const texts[] = {f->arg_open, f->tail, f->next};
    dop_span best = DOP_SPAN_BAD;
    for (size_t i = 0; i < 3; i++) {
        size_t behind = at;
        const dop_span got = texts[i] && texts[i][0] ? match_form_text(c, &behind, texts[i], NULL, 0) : DOP_SPAN_BAD;
        best = got > best ? got : best;
    }
    return best;
}

static dop_span read_keyed_arguments(dop_call_text *c, const json_t *root, const json_t *schema, unsigned depth,
                                     bool list, dop_buf *out);
static dop_span read_tool_name(dop_call_text *c, const char **out_name, size_t *out_n, const json_t **out_schema);

/* True if an argument's opening mark and a property name other than `key` are at `at`. */
static bool
begins_argument(const dop_call_text *c, size_t at, const char *key, size_t n_key, const json_t *schema)
{
    const char *name;
    const json_t *own;
    if (!c->form->arg_open[0] || match_form_text(c, &at, c->form->arg_open, NULL, 0) != DOP_SPAN_GOOD)
        return false;
    json_object_foreach(json_object_get(schema, "properties"), name, own)
    {
        size_t after = at + strlen(name);
        if (c->n - at >= strlen(name) && memcmp(c->text + at, name, strlen(name)) == 0 &&
            !(n_key == strlen(name) && memcmp(key, name, n_key) == 0) &&
            match_form_text(c, &after, c->form->assign, name, strlen(name)) == DOP_SPAN_GOOD)
            return true;
    }
    return false;
}

/* Returns whether a value without an end mark ends at `at`, because another argument begins there or the call ends.
 * CUT: it ends there unless the value's end mark follows later. */
static dop_span
match_open_value_end(const dop_call_text *c, size_t at, const char *key, size_t n_key, const json_t *schema)
{
    const dop_tool_form *f = c->form;
    size_t after = at;
    if (begins_argument(c, at, key, n_key, schema))
        return DOP_SPAN_GOOD;
    if (f->next && f->next[0] && match_form_text(c, &after, f->next, NULL, 0) == DOP_SPAN_GOOD) {
        const char *name;
        size_t n_name;
        const json_t *parameters;
        dop_call_text own = *c;
        own.at = after;
        if (read_tool_name(&own, &name, &n_name, &parameters) == DOP_SPAN_GOOD)
            return DOP_SPAN_GOOD;
    }
    after = at;
    if (!f->tail[0] || match_form_text(c, &after, f->tail, NULL, 0) != DOP_SPAN_GOOD)
        return DOP_SPAN_BAD;
    after = dop_span_blank(c->text, c->n, after);
    return c->ended && after == c->n ? DOP_SPAN_GOOD : DOP_SPAN_CUT;
}

/* Finds the end of the value at c->at. Moves c->at past its end mark, or to the end of a value without one. schema:
 * that of the object with the arguments; NULL: values have end marks. nested: the end mark of an outer value may
 * follow. */
static dop_span
find_value_end(dop_call_text *c, const char *key, size_t n_key, const json_t *schema, bool nested, size_t *out_end)
{
    const char *close = c->form->value_close, *mark = close;
    while (is_call_blank(*mark))
        mark++;
    const size_t n_blank = (size_t)(mark - close);
    const char *begins = c->form->arg_open[0] ? c->form->arg_open : c->form->tail;
    dop_span got = DOP_SPAN_BAD;
    size_t open = SIZE_MAX; /* end of the value if it has no end mark; SIZE_MAX: unknown */
    bool is_sure = false;
    for (size_t at = c->at; at < c->n; at++) {
        if (c->text[at] != *mark && c->text[at] != *begins && c->text[at] != c->form->tail[0])
            continue;
        const dop_span ends = nested ? DOP_SPAN_BAD : match_open_value_end(c, at, key, n_key, schema);
        is_sure = ends == DOP_SPAN_GOOD;
        if (is_sure || (ends == DOP_SPAN_CUT && open == SIZE_MAX))
            open = at;
        if (is_sure)
            break;
        if (c->text[at] != *mark)
            continue;
        size_t behind = at;
        dop_span one = match_form_text(c, &behind, mark, key, n_key);
        if (one == DOP_SPAN_GOOD && !nested)
            one = match_argument_follower(c, behind);
        else if (one == DOP_SPAN_CUT && c->ended)
            one = DOP_SPAN_BAD;
        if (one == DOP_SPAN_BAD)
            continue;
        got = one;
        if (one == DOP_SPAN_GOOD || c->ended) {
            *out_end = at;
            if (at - c->at >= n_blank && memcmp(c->text + at - n_blank, close, n_blank) == 0)
                *out_end = at - n_blank;
            c->at = behind;
            return DOP_SPAN_GOOD;
        }
        break;
    }
    if (open == SIZE_MAX || !(c->ended || is_sure))
        return c->ended ? DOP_SPAN_BAD : got == DOP_SPAN_BAD ? DOP_SPAN_CUT : got;
    *out_end = open;
    if (*out_end > c->at && c->text[*out_end - 1] == '\n') /* line break before the missing mark */
        --*out_end;
    c->at = open;
    return DOP_SPAN_GOOD;
}

/* Parses the value of a key of object `of`. */
static dop_span
read_key_value(dop_call_text *c, const char *key, size_t n_key, const json_t *root, const json_t *of,
               const json_t *schema, unsigned depth, dop_buf *out)
{
    const dop_tool_form *f = c->form;
    const char *const type = strchr(f->assign, DOP_HOLE_TYPE);
    size_t n_assign = strlen(f->assign), word = 0, end;
    bool string = false;
    while (n_assign > 0 && is_call_blank(f->assign[n_assign - 1]))
        n_assign--;
    char *assign = strndup(f->assign, n_assign);
    if (assign && type) { /* the word for the type determines whether the value is a string */
        const size_t head = (size_t)(type - f->assign), left = c->n - c->at;
        word = left > head ? head : left;
        const char *want = f->words[DOP_TYPE_STRING] ? f->words[DOP_TYPE_STRING] : "";
        string = left > head + strlen(want) && memcmp(c->text + c->at + word, want, strlen(want)) == 0 &&
                 !isalnum((unsigned char)c->text[c->at + word + strlen(want)]);
    }
    dop_span got = assign ? match_form_text(c, &c->at, assign, key, n_key) : DOP_SPAN_BAD;
    free(assign);
    if (got != DOP_SPAN_GOOD)
        return got;
    const size_t n_blank = strlen(f->assign + n_assign);
    if (n_blank > 0 && c->n - c->at >= n_blank && memcmp(c->text + c->at, f->assign + n_assign, n_blank) == 0)
        c->at += n_blank;
    if (f->item && depth < DEEPEST) { /* the value may be written as nested arguments */
        dop_call_text inner = *c;
        const unsigned bits = dop_tool_types(root, schema);
        size_t at = c->at;
        const bool list = bits == 1u << DOP_TYPE_LIST;
        if (bits != 1u << DOP_TYPE_STRING && match_form_text(c, &at, f->arg_open, NULL, 0) == DOP_SPAN_GOOD &&
            at < c->n && c->text[at] != '/') {
            const size_t n_item = strlen(f->item);
            const bool items =
                list || (bits != 1u << DOP_TYPE_OBJECT && c->n - at > n_item &&
                         memcmp(c->text + at, f->item, n_item) == 0 && !isalnum((unsigned char)c->text[at + n_item]));
            if ((got = read_keyed_arguments(&inner, root, schema, depth + 1, items, out)) != DOP_SPAN_GOOD)
                return got;
            c->at = inner.at;
            return match_form_text(c, &c->at, f->value_close, key, n_key);
        }
    }
    const size_t from = c->at;
    if ((got = find_value_end(c, key, n_key, depth > 0 ? NULL : of, depth > 0, &end)) != DOP_SPAN_GOOD)
        return got;
    append_marked_value(root, schema, string, c->text + from, end - from, out);
    return DOP_SPAN_GOOD;
}

static dop_span
read_keyed_arguments(dop_call_text *c, const json_t *root, const json_t *schema, unsigned depth, bool list,
                     dop_buf *out)
{
    const dop_tool_form *f = c->form;
    const char after_key = is_call_blank(f->assign[0]) ? '\n' : f->assign[0];
    const size_t begin = out->size;
    dop_buf_puts(out, list ? "[" : "{");
    for (;;) {
        size_t at = c->at;
        dop_span got = match_form_text(c, &at, f->arg_open, NULL, 0);
        /* An argument's opening mark may be a prefix of an end mark: "<" and "</". */
        if (got == DOP_SPAN_GOOD && at < c->n && c->text[at] == '/')
            got = DOP_SPAN_BAD;
        if ((got == DOP_SPAN_CUT || (got == DOP_SPAN_GOOD && at == c->n)) && !c->ended)
            return DOP_SPAN_CUT;
        if (got != DOP_SPAN_GOOD)
            break;
        const size_t key = at;
        while (at < c->n && c->text[at] != after_key && c->text[at] != '\n' && at - key < LONGEST_WORD)
            at++;
        if (at == c->n)
            return c->ended ? DOP_SPAN_BAD : DOP_SPAN_CUT;
        char name[LONGEST_WORD + 1];
        memcpy(name, c->text + key, at - key);
        name[at - key] = 0;
        c->at = at;
        const json_t *own = list ? json_object_get(schema, "items") : dop_tool_property(schema, name);
        dop_buf value = {0};
        got = read_key_value(c, c->text + key, at - key, root, schema, own, depth, &value);
        if (got == DOP_SPAN_GOOD && (value.size || list)) {
            if (out->size > begin + 1)
                dop_buf_puts(out, ",");
            if (!list) {
                dop_span_quote(out, name, at - key);
                dop_buf_puts(out, ":");
            }
            dop_buf_append(out, value.size ? value.data : "null", value.size ? value.size : strlen("null"));
        }
        dop_buf_finish(&value);
        if (got != DOP_SPAN_GOOD)
            return got;
    }
    dop_buf_puts(out, list ? "]" : "}");
    return DOP_SPAN_GOOD;
}

/* --- keys and literals --------------------------------------------------------------------------------------------------------------- */

static dop_span
read_literal_arguments(dop_call_text *c, const json_t *schema, dop_buf *out)
{
    const dop_tool_form *f = c->form;
    dop_buf_puts(out, "{");
    for (bool first = true;; first = false) {
        dop_span got;
        c->at = dop_span_blank(c->text, c->n, c->at);
        if (c->at == c->n)
            return DOP_SPAN_CUT;
        if (c->text[c->at] == f->tail[0])
            break;
        if (!first) {
            if ((got = dop_call_match(c, f->arg_open)) != DOP_SPAN_GOOD)
                return got;
            dop_buf_puts(out, ",");
            c->at = dop_span_blank(c->text, c->n, c->at);
        }
        const size_t key = c->at;
        while (c->at < c->n && (isalnum((unsigned char)c->text[c->at]) || strchr("_-.$", c->text[c->at])) &&
               c->text[c->at])
            c->at++;
        if (c->at == c->n)
            return DOP_SPAN_CUT;
        const size_t n_key = c->at - key;
        if (n_key == 0 || n_key > LONGEST_WORD)
            return DOP_SPAN_BAD;
        char name[LONGEST_WORD + 1];
        memcpy(name, c->text + key, n_key);
        name[n_key] = 0;
        if ((got = dop_call_match(c, f->assign)) != DOP_SPAN_GOOD)
            return got;
        dop_span_quote(out, name, n_key);
        dop_buf_puts(out, ":");
        dop_buf value = {0};
        if ((got = dop_span_literal(c->text, c->n, f->quote, &c->at, &value)) == DOP_SPAN_GOOD) {
            /* The schema requires another type than string: the quoted text may be a value of that type. */
            const unsigned bits = dop_tool_types(schema, dop_tool_property(schema, name)),
                           string = 1u << DOP_TYPE_STRING;
            json_t *plain = bits && !(bits & string) && value.size && value.data[0] == '"'
                                ? dop_span_string(value.data, value.size)
                                : NULL;
            if (!plain || !append_typed_value(json_string_value(plain), json_string_length(plain), bits, out)) {
                if (plain && is_absent_argument(json_string_value(plain), json_string_length(plain), bits))
                    dop_buf_puts(out, "null");
                else if (bits == string && value.size && value.data[0] != '"')
                    dop_span_quote(out, value.data, value.size);
                else
                    dop_buf_append(out, value.size ? value.data : "", value.size);
            }
            json_decref(plain);
        }
        dop_buf_finish(&value);
        if (got != DOP_SPAN_GOOD)
            return got;
    }
    dop_buf_puts(out, "}");
    return DOP_SPAN_GOOD;
}

/* --- JSON --------------------------------------------------------------------------------------------------------------------------- */

/* Appends arguments as a JSON object: unchanged, decoded from a string, or {} if there are none. Returns false if
 * they are not an object. */
static bool
append_json_arguments(const char *text, size_t n, dop_buf *out)
{
    size_t at = 0;
    if (n > 0 && text[0] == '{') {
        dop_span_append(out, text, n);
        return true;
    }
    json_t *inner = n > 0 && text[0] == '"' ? dop_span_string(text, n) : NULL;
    const char *s = json_string_value(inner);
    const size_t len = json_string_length(inner), from = s ? dop_span_blank(s, len, 0) : 0;
    bool good = n == 0 || (n == 4 && memcmp(text, "null", 4) == 0) || (s && from == len);
    if (good) {
        dop_buf_puts(out, "{}");
    } else if (s && s[from] == '{' && dop_span_json(s, len, &at) == DOP_SPAN_GOOD &&
               dop_span_blank(s, len, at) == len) {
        dop_span_append(out, s, len);
        good = true;
    }
    json_decref(inner);
    return good;
}

static bool
is_member_name(const dop_span_member *m, const char *name)
{
    return name && m->n_name == strlen(name) + 2 && memcmp(m->name + 1, name, strlen(name)) == 0;
}

/* Adds the call that a JSON object represents. Returns false if it names no known tool. */
static bool
add_object_call(dop_call_text *c, const char *text, size_t n, unsigned depth)
{
    const dop_tool_form *f = c->form;
    size_t at = 0;
    dop_span_member m, name = {.n_value = 0}, arguments = {.n_value = 0};
    while (dop_span_next(text, n, &at, &m)) {
        if (!f->name_key && !name.n_value) { /* the member's name is the tool's name */
            name = arguments = m;
            name.value = m.name;
            name.n_value = m.n_name;
        }
        if (f->name_key && (is_member_name(&m, f->name_key) || (is_member_name(&m, "name") && !name.n_value)))
            name = m;
        if (f->name_key &&
            (is_member_name(&m, f->arguments_key) ||
             (!arguments.n_value && (is_member_name(&m, "arguments") || is_member_name(&m, "parameters")))))
            arguments = m;
        if (is_member_name(&m, "function") && m.value[0] == '{' && depth == 0)
            return add_object_call(c, m.value, m.n_value, 1);
    }
    json_t *word = name.n_value ? dop_span_string(name.value, name.n_value) : NULL;
    dop_buf made = {0};
    bool known = false;
    if (word)
        (void)dop_tool_find(c->tools, json_string_value(word), json_string_length(word), &known);
    const bool good = known && append_json_arguments(arguments.value, arguments.n_value, &made);
    if (good)
        add_read_call(c, json_string_value(word), json_string_length(word), &made);
    else
        dop_buf_append(c->unknown, text, n);
    dop_buf_finish(&made);
    json_decref(word);
    return good;
}

static dop_span
read_object_calls(dop_call_text *c)
{
    bool any = false;
    for (;;) {
        c->at = dop_span_blank(c->text, c->n, c->at);
        const size_t from = c->at;
        size_t end = from;
        if (from == c->n)
            return any && c->ended ? DOP_SPAN_GOOD : DOP_SPAN_CUT;
        if (c->text[from] != '{' && c->text[from] != '[')
            return any ? DOP_SPAN_GOOD : DOP_SPAN_BAD;
        const dop_span got = dop_span_json(c->text, c->n, &end);
        if (got != DOP_SPAN_GOOD)
            return any && (c->ended || got == DOP_SPAN_BAD) ? DOP_SPAN_GOOD : got;
        if (c->text[from] == '{')
            any |= add_object_call(c, c->text + from, end - from, 0);
        for (size_t at = from + 1; c->text[from] == '[' && at < end;) {
            at = dop_span_blank(c->text, end, at);
            const size_t item = at;
            if (dop_span_json(c->text, end, &at) != DOP_SPAN_GOOD)
                break;
            if (c->text[item] == '{')
                any |= add_object_call(c, c->text + item, at - item, 0);
            at = dop_span_blank(c->text, end, at) + 1;
        }
        c->at = end;
        if (!any)
            return DOP_SPAN_BAD;
        size_t more = dop_span_blank(c->text, c->n, end);
        if (more < c->n && (c->text[more] == ';' || c->text[more] == ','))
            more = dop_span_blank(c->text, c->n, more + 1);
        if (more >= c->n && !c->ended && !c->form->value_close[0])
            return DOP_SPAN_CUT; /* another object may follow */
        if (more >= c->n || (c->text[more] != '{' && c->text[more] != '['))
            return DOP_SPAN_GOOD;
        c->at = more;
    }
}

/* --- regions ------------------------------------------------------------------------------------------------------------------------- */

/* Parses a tool name at c->at: the longest one that is followed by the rest of the form. */
static dop_span
read_tool_name(dop_call_text *c, const char **out_name, size_t *out_n, const json_t **out_schema)
{
    dop_span best = DOP_SPAN_BAD;
    if (c->form->manner == DOP_FORM_LITERAL)
        c->at = dop_span_blank(c->text, c->n, c->at);
    size_t i, behind = c->at;
    const json_t *tool;
    *out_n = 0;
    json_array_foreach(c->tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function"), *name = json_object_get(function, "name");
        const size_t n = json_string_length(name), left = c->n - c->at;
        if (n == 0 || memcmp(c->text + c->at, json_string_value(name), left < n ? left : n) != 0)
            continue;
        size_t at = c->at + n;
        dop_span got = left < n ? DOP_SPAN_CUT : match_form_text(c, &at, c->form->middle, NULL, 0);
        if (got == DOP_SPAN_GOOD && (c->form->middle[0] == 0 ||
                                     is_call_blank(c->form->middle[0]))) { /* check that the name does not continue */
            const char next = left > n ? c->text[c->at + n] : 0;
            if (next && (isalnum((unsigned char)next) || strchr("_-.:/", next)))
                got = DOP_SPAN_BAD;
            else if (left == n && !c->ended)
                got = DOP_SPAN_CUT;
        }
        if (got > best || (got == best && got == DOP_SPAN_GOOD && n > *out_n)) {
            best = got;
            if (got == DOP_SPAN_GOOD) {
                *out_name = json_string_value(name);
                *out_n = n;
                *out_schema = json_object_get(function, "parameters");
                behind = at;
            }
        }
    }
    if (best == DOP_SPAN_GOOD)
        c->at = behind;
    return best;
}

static dop_span
read_call_arguments(dop_call_text *c, const json_t *schema, dop_buf *out)
{
    if (c->form->manner == DOP_FORM_KEYS)
        return read_keyed_arguments(c, schema, schema, 0, false, out);
    if (c->form->manner == DOP_FORM_LITERAL)
        return read_literal_arguments(c, schema, out);
    c->at = dop_span_blank(c->text, c->n, c->at);
    const size_t from = c->at;
    if (from == c->n)
        return DOP_SPAN_CUT;
    if (c->text[from] != '{')
        return DOP_SPAN_BAD;
    const dop_span got = dop_span_json(c->text, c->n, &c->at);
    if (got == DOP_SPAN_GOOD)
        dop_span_append(out, c->text + from, c->at - from);
    return got;
}

/* True if the text ends where either the end of the arguments or another argument could begin. */
static bool
is_call_cut(const dop_call_text *c)
{
    size_t at = c->at;
    return dop_span_blank(c->text, c->n, at) == c->n ||
           match_form_text(c, &at, c->form->arg_open, NULL, 0) == DOP_SPAN_CUT;
}

static dop_span
read_named_calls(dop_call_text *c)
{
    const dop_tool_form *f = c->form;
    size_t complete = c->at; /* position after the last complete call */
    for (;;) {
        const char *name = "";
        const json_t *schema = NULL;
        size_t n;
        dop_buf made = {0};
        dop_span got = read_tool_name(c, &name, &n, &schema);
        if (got == DOP_SPAN_GOOD)
            got = read_call_arguments(c, schema, &made);
        size_t behind = c->at, end = c->at; /* positions after the mark between two calls, and after the end mark */
        const bool open_ended = f->manner == DOP_FORM_NAMED; /* a complete object needs no end mark */
        dop_span tail = DOP_SPAN_GOOD, next = DOP_SPAN_BAD;
        if (got == DOP_SPAN_GOOD) {
            next = f->next ? match_form_text(c, &behind, f->next, NULL, 0) : DOP_SPAN_BAD;
            tail = match_form_text(c, &end, f->tail, NULL, 0);
            if (!c->ended && next == DOP_SPAN_GOOD && tail == DOP_SPAN_CUT)
                next = DOP_SPAN_CUT;
            /* The longer mark wins: the mark between two calls may be a prefix of the end mark, apart from white
             * space. */
            if (next == DOP_SPAN_GOOD && (tail == DOP_SPAN_CUT || (tail == DOP_SPAN_GOOD && end > behind)))
                next = DOP_SPAN_BAD;
            if (!c->ended && (next == DOP_SPAN_CUT || (next == DOP_SPAN_BAD && tail == DOP_SPAN_CUT)))
                got = DOP_SPAN_CUT;
            else if (next != DOP_SPAN_GOOD && tail != DOP_SPAN_GOOD && !open_ended &&
                     (tail == DOP_SPAN_BAD || is_call_cut(c)))
                got = DOP_SPAN_BAD;
        }
        if (got == DOP_SPAN_GOOD)
            add_read_call(c, name, n, &made);
        dop_buf_finish(&made);
        if (got != DOP_SPAN_GOOD) {
            const bool some = json_array_size(c->out_calls) > 0 && (got == DOP_SPAN_BAD || c->ended);
            c->at = complete;
            return some ? DOP_SPAN_GOOD : got;
        }
        complete = c->at;
        c->at = next == DOP_SPAN_GOOD ? behind : tail == DOP_SPAN_GOOD ? end : tail == DOP_SPAN_CUT ? c->n : c->at;
        if (next != DOP_SPAN_GOOD)
            return DOP_SPAN_GOOD;
    }
}

/* Parses calls in the alternative form of Mistral's models. They write objects or named calls after the same mark,
 * regardless of their template. */
static dop_span
read_mistral_calls(dop_call_text *c, size_t from)
{
    const dop_tool_form objects_form = {.manner = DOP_FORM_OBJECT,
                                        .name_key = (char[]){"name"},
                                        .arguments_key = (char[]){"arguments"},
                                        .value_close = (char[]){""}},
                        named_form = {.manner = DOP_FORM_NAMED,
                                      .middle = (char[]){"[ARGS]"},
                                      .next = (char[]){"[TOOL_CALLS]"},
                                      .tail = (char[]){""}};
    const dop_tool_form *own = c->form;
    const bool named = own->manner == DOP_FORM_OBJECT;
    const size_t at = dop_span_blank(c->text, c->n, from);
    if (!strstr(own->open, named ? "[TOOL_CALLS]" : "[") || at == c->n)
        return DOP_SPAN_BAD;
    c->form = named ? &named_form : &objects_form;
    c->at = from;
    const dop_span got = named ? read_named_calls(c) : read_object_calls(c);
    c->form = own;
    return got;
}

dop_span
dop_call_read(dop_call_text *c)
{
    const size_t from = c->at;
    if (c->form->manner != DOP_FORM_OBJECT) {
        const dop_span got = read_named_calls(c);
        return got == DOP_SPAN_BAD && c->form->manner == DOP_FORM_NAMED ? read_mistral_calls(c, from) : got;
    }
    dop_span got = read_object_calls(c);
    if (got != DOP_SPAN_GOOD)
        return got == DOP_SPAN_BAD ? read_mistral_calls(c, from) : got;
    got = dop_call_match(c, c->form->value_close);
    if (got == DOP_SPAN_CUT && c->ended)
        c->at = c->n;
    return got == DOP_SPAN_CUT && !c->ended ? got : DOP_SPAN_GOOD;
}
