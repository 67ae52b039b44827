/* Finds how a template writes calls. Renders conversations with marks as names, keys and values, and compares
 * renderings to separate the texts around the marks. */
#include "base/os/clock.h"
#include "text/calls/api_form.h"
#include "text/calls/api_span.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NAME_1 "dopcallone"
#define NAME_2 "dopcalltwo"
#define KEY_1 "dopkeyone"
#define KEY_2 "dopkeytwo"
#define VALUE_1 "dopvalueone"
#define VALUE_2 "dopvaluetwo"
#define ITEM "dopitem"
#define ID_1 "dopid0001"
#define ID_2 "dopid0002"
#define NUMBER "4711"

/* One way to pass calls to the template. */
typedef struct way {
    const char *content; /* message content; NULL stands for JSON null */
    bool text, flat, id_has_name;
    bool described; /* tool descriptions are passed, too */
} way;

char *
dop_probe_render(const dop_probe *p, json_t *messages, const json_t *tools, bool generate)
{
    dop_buf out = {0};
    dop_diag diag = {0};
    dop_chat_input in = {.messages = messages,
                         .tools = tools,
                         .add_generation_prompt = generate,
                         .tokenizer = p->tok,
                         .extra = p->extra,
                         .budget = p->budget};
    const dop_status st = dop_budget_ended(p->budget) ? DOP_E_LIMIT
                          : messages                  ? dop_chat_render(p->chat, &in, &diag, &out)
                                                      : DOP_E_NOMEM;
    char *text = st == DOP_OK ? strndup(out.size ? out.data : "", out.size) : NULL;
    json_decref(messages);
    dop_buf_finish(&out);
    return text;
}

json_t *
dop_probe_tools(void)
{
    const char *const names[] = {NAME_1, NAME_2};
    json_t *tools = json_array();
    for (size_t i = 0; i < 2; i++)
        json_array_append_new(tools,
                              json_pack("{s:s, s:{s:s, s:s, s:{s:s, s:{s:{s:s, s:s}, s:{s:s, s:s}}, s:[s]}}}", "type",
                                        "function", "function", "name", names[i], "description", "x", "parameters",
                                        "type", "object", "properties", KEY_1, "type", "string", "description", "x",
                                        KEY_2, "type", "string", "description", "x", "required", KEY_1));
    return tools;
}

static json_t *
make_probe_call(const way *w, unsigned number, json_t *arguments)
{
    const char *name = number ? NAME_2 : NAME_1;
    json_t *id = w->id_has_name ? json_sprintf("functions.%s:%u", name, number) : json_string(number ? ID_2 : ID_1);
    if (w->text) {
        char *text = json_dumps(arguments, 0);
        json_decref(arguments);
        arguments = json_string(text ? text : "{}");
        free(text);
    }
    json_t *one = json_pack("{s:o, s:s, s:{s:s, s:O}}", "id", id, "type", "function", "function", "name", name,
                            "arguments", arguments);
    if (w->flat) {
        json_object_set_new(one, "name", json_string(name));
        json_object_set(one, "arguments", arguments);
    }
    json_decref(arguments);
    return one;
}

/* Renders a message with one call, or two if `second` is not NULL. Takes ownership of the arguments. Returns the
 * text after the user's message, or NULL. */
static char *
render_calls(const dop_probe *p, const way *w, json_t *first, json_t *second)
{
    json_t *calls = json_array(), *tools = w->described ? dop_probe_tools() : NULL;
    json_array_append_new(calls, make_probe_call(w, 0, first));
    if (second)
        json_array_append_new(calls, make_probe_call(w, 1, second));
    char *text = dop_probe_render(p,
                                  json_pack("[{s:s, s:s}, {s:s, s:s?, s:o}]", "role", "user", "content", DOP_PROBE_USER,
                                            "role", "assistant", "content", w->content, "tool_calls", calls),
                                  tools, false);
    json_decref(tools);
    char *from = text, *hit;
    while (from && (hit = strstr(from, DOP_PROBE_USER)))
        from = hit + strlen(DOP_PROBE_USER);
    char *rest = from ? strdup(from) : NULL;
    free(text);
    return rest;
}

/* --- texts ------------------------------------------------------------------------------------------------------------------- */

static size_t
count_common_head(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

static size_t
count_common_tail(const char *a, const char *b)
{
    const size_t na = strlen(a), nb = strlen(b);
    size_t n = 0;
    while (n < na && n < nb && a[na - 1 - n] == b[nb - 1 - n])
        n++;
    return n;
}

/* Returns the last occurrence of `what` in a text, or NULL. */
static char *
find_last_text(char *text, const char *what)
{
    char *found = NULL;
    for (char *hit = text; (hit = strstr(hit, what)); hit++)
        found = hit;
    return found;
}

static void
put_hole(char *text, const char *what, char hole)
{
    const size_t n = strlen(what);
    for (char *hit = text; (hit = strstr(hit, what)); hit++) {
        *hit = hole;
        memmove(hit + 1, hit + n, strlen(hit + n) + 1);
    }
}

/* Returns a copy of [from, to) with marks replaced by holes. */
static char *
copy_with_holes(const char *from, const char *to)
{
    static const struct {
        const char *what;
        char hole;
    } holes[] = {{NAME_1, DOP_HOLE_NAME}, {NAME_2, DOP_HOLE_NAME}, {ID_1, DOP_HOLE_ID},
                 {ID_2, DOP_HOLE_ID},     {KEY_1, DOP_HOLE_KEY},   {KEY_2, DOP_HOLE_KEY}};
    char *text = from && to && from <= to ? strndup(from, (size_t)(to - from)) : NULL;
    for (size_t i = 0; text && i < sizeof holes / sizeof *holes; i++)
        put_hole(text, holes[i].what, holes[i].hole);
    return text;
}

static void
replace_text(char **field, char *text)
{
    free(*field);
    *field = text;
}

static void
trim_blank_start(char *text)
{
    memmove(text, text + dop_span_blank(text, strlen(text), 0),
            strlen(text) - dop_span_blank(text, strlen(text), 0) + 1);
}

static bool
is_closing_mark(char c)
{
    return c == '>' || c == ']' || c == ')' || c == '}';
}

/* --- the part that the model writes -------------------------------------------------------------------------------------------- */

/* Renderings without calls. Text that they share with a rendering of calls does not belong to a call. */
typedef struct frame {
    char *prompt; /* generation prompt after the user's message */
    char *plain;  /* text after the user's message, including an answer DOP_PROBE_CONTENT */
} frame;

static char *
take_after_user(char *text)
{
    char *hit = text ? find_last_text(text, DOP_PROBE_USER) : NULL;
    char *rest = hit ? strdup(hit + strlen(DOP_PROBE_USER)) : NULL;
    free(text);
    return rest;
}

static void
find_probe_frame(const dop_probe *p, bool described, frame *out)
{
    json_t *tools = described ? dop_probe_tools() : NULL;
    out->prompt = take_after_user(
        dop_probe_render(p, json_pack("[{s:s, s:s}]", "role", "user", "content", DOP_PROBE_USER), tools, true));
    out->plain =
        take_after_user(dop_probe_render(p,
                                         json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content",
                                                   DOP_PROBE_USER, "role", "assistant", "content", DOP_PROBE_CONTENT),
                                         tools, false));
    json_decref(tools);
}

/* Removes the end of a rendering of calls that an answer without calls has, too. */
static void
cut_common_end(char *text, const frame *f)
{
    const char *content = f->plain ? strstr(f->plain, DOP_PROBE_CONTENT) : NULL;
    const char *end = content ? content + strlen(DOP_PROBE_CONTENT) : "";
    const size_t n = strlen(text);
    size_t same = count_common_tail(text, end);
    while (same > 0 && same < strlen(end) && !strchr("<[ \n", text[n - same]))
        same--;
    text[n - same] = 0;
}

size_t
dop_form_answer(const char *text, const char *prompt)
{
    size_t same = prompt ? count_common_head(text, prompt) : 0;
    if (prompt && prompt[same])
        while (same > 0 && !is_closing_mark(text[same - 1]) && !isspace((unsigned char)text[same - 1]))
            same--;
    return same;
}

/* Returns the mark that opens the first call, whose name or JSON value begins at `at` in `text`. Excludes text that
 * begins every answer. with: rendering of the same calls together with a content, or NULL. *content_close: set to
 * the mark that ends the content. */
static char *
find_call_open(const char *text, const char *at, const char *with, const frame *f, char **content_close)
{
    size_t skip = dop_form_answer(text, f->prompt);
    if (text + skip > at)
        skip = (size_t)(at - text);
    char *open = strndup(text + skip, (size_t)(at - text) - skip);
    const char *content = with ? strstr(with, DOP_PROBE_CONTENT) : NULL;
    const char *key = content ? strstr(content, KEY_1) : NULL, *here = strstr(at, KEY_1);
    if (open && key && here) {
        const size_t n = strlen(open);
        content += strlen(DOP_PROBE_CONTENT);
        char *other = strndup(content, strlen(content));
        /* The mark that ends the content does not belong to the call. */
        const char *plain = f->plain ? strstr(f->plain, DOP_PROBE_CONTENT) : NULL;
        size_t close = plain ? count_common_head(content, plain + strlen(DOP_PROBE_CONTENT)) : 0;
        while (close > 0 && !is_closing_mark(content[close - 1]))
            close--;
        if (content_close && close > 0)
            replace_text(content_close, strndup(content, close));
        if (other) { /* both texts are equal from `at` to the key */
            const size_t inner = (size_t)(here - at), all = (size_t)(key - content);
            const size_t n_other = all >= inner + close ? all - inner - close : 0;
            memmove(other, other + close, n_other);
            other[n_other] = 0;
            size_t same = count_common_tail(open, other);
            while (same > 0 && same < n && same < n_other && !strchr("<[ \n", open[n - same]))
                same--;
            memmove(open, open + n - same, same + 1);
        }
        free(other);
    } else if (open && f->plain && f->prompt) {
        const char *content_at = strstr(f->plain, DOP_PROBE_CONTENT);
        const size_t before = dop_form_answer(f->plain, f->prompt);
        const size_t n = content_at && content_at > f->plain + before ? (size_t)(content_at - f->plain) - before : 0;
        if (n > 0 && strncmp(open, f->plain + before, n) == 0)
            memmove(open, open + n, strlen(open + n) + 1);
    }
    if (open)
        trim_blank_start(open);
    return open;
}

/* --- manners ------------------------------------------------------------------------------------------------------------------ */

static json_t *
make_arguments(const char *k1, json_t *v1, const char *k2, json_t *v2)
{
    json_t *o = json_object();
    if (k1)
        json_object_set_new(o, k1, v1);
    if (k2)
        json_object_set_new(o, k2, v2);
    return o;
}

static json_t *
make_usual_arguments(void)
{
    return make_arguments(KEY_1, json_string(VALUE_1), NULL, NULL);
}

typedef struct finder {
    const dop_probe *p;
    const way *w;
    frame frame;
    char *one, *two, *with; /* renderings: one call; two calls, or NULL; one call and a content, or NULL */
    dop_tool_form *form;
} finder;

/* Tries DOP_FORM_OBJECT: finds the innermost JSON object that contains both the name and the key. */
static bool
find_object_form(finder *s)
{
    const char *name = strstr(s->one, NAME_1), *key = strstr(s->one, KEY_1), *begin = NULL;
    const size_t n = strlen(s->one);
    size_t end = 0;
    if (!name || !key)
        return false;
    for (const char *c = s->one; c < name && c < key; c++) {
        size_t at = (size_t)(c - s->one);
        if (*c == '{' && dop_span_json(s->one, n, &at) == DOP_SPAN_GOOD && s->one + at > name && s->one + at > key) {
            begin = c;
            end = at;
        }
    }
    if (!begin)
        return false;
    const size_t size = end - (size_t)(begin - s->one);
    size_t at = 0;
    dop_span_member m, arguments = {.n_value = 0};
    json_t *name_key = NULL, *arguments_key = NULL;
    bool is_key = false;
    while (dop_span_next(begin, size, &at, &m)) {
        if (m.n_name == strlen(NAME_1) + 2 && memcmp(m.name + 1, NAME_1, strlen(NAME_1)) == 0) {
            is_key = true;
            arguments = m;
        } else if (m.n_value == strlen(NAME_1) + 2 && memcmp(m.value + 1, NAME_1, strlen(NAME_1)) == 0) {
            json_decref(name_key);
            name_key = dop_span_string(m.name, m.n_name);
        } else if (!arguments.n_value && memmem(m.value, m.n_value, KEY_1, strlen(KEY_1))) {
            json_decref(arguments_key);
            arguments_key = dop_span_string(m.name, m.n_name);
            arguments = m;
        }
    }
    const bool good = arguments.n_value > 0 && (is_key || (name_key && arguments_key)) && name < arguments.value;
    if (good) {
        dop_tool_form *f = s->form;
        const char *list = begin;
        while (list > s->one && isspace((unsigned char)list[-1]))
            list--;
        f->manner = DOP_FORM_OBJECT;
        f->list = list > s->one && list[-1] == '[';
        f->text_within = arguments.value[0] == '"';
        const char *from = f->list ? list - 1 : begin;
        if (!is_key) {
            replace_text(&f->name_key, strdup(json_string_value(name_key)));
            replace_text(&f->arguments_key, strdup(json_string_value(arguments_key)));
        }
        replace_text(&f->open, find_call_open(s->one, from, s->with, &s->frame, &f->content_close));
        put_hole(f->open, ID_1, DOP_HOLE_ID);
        replace_text(&f->head, copy_with_holes(from, name));
        replace_text(&f->middle, copy_with_holes(name + strlen(NAME_1), arguments.value));
        replace_text(&f->tail, copy_with_holes(arguments.value + arguments.n_value, s->one + n));
        size_t behind = dop_span_blank(s->one, n, end);
        replace_text(&f->value_close, strdup(s->one + (f->list && s->one[behind] == ']' ? behind + 1 : end)));
    }
    json_decref(name_key);
    json_decref(arguments_key);
    return good && !s->form->text_within;
}

/* Finds the JSON object with the arguments in `from`, the text after the call's name. Returns NULL if there is none. */
static const char *
find_arguments_json(const char *from, size_t *out_n)
{
    const size_t n = strlen(from);
    for (const char *c = strchr(from, '{'); c; c = strchr(c + 1, '{')) {
        size_t at = (size_t)(c - from), inner = 0;
        dop_span_member m;
        if (dop_span_json(from, n, &at) != DOP_SPAN_GOOD)
            continue;
        *out_n = at - (size_t)(c - from);
        if (dop_span_next(c, *out_n, &inner, &m) && m.n_name == strlen(KEY_1) + 2 &&
            memcmp(m.name + 1, KEY_1, strlen(KEY_1)) == 0)
            return c;
    }
    return NULL;
}

/* Replaces a number that differs between two calls with a hole (DOP_HOLE_INDEX). */
static void
replace_call_index(char *one, const char *other)
{
    const size_t same = count_common_head(one, other);
    size_t n = 0;
    while (isdigit((unsigned char)one[same + n]))
        n++;
    if (n == 0 || !isdigit((unsigned char)other[same]) || strcmp(one + same + n, other + same + n) != 0)
        return;
    one[same] = DOP_HOLE_INDEX;
    memmove(one + same + 1, one + same + n, strlen(one + same + n) + 1);
}

static bool
find_named_form(finder *s)
{
    const char *first = strstr(s->one, KEY_1);
    char *name = NULL;
    size_t n;
    for (char *hit = s->one; first && (hit = strstr(hit, NAME_1)) && hit < first; hit++)
        name = hit;
    const char *args = name ? find_arguments_json(name + strlen(NAME_1), &n) : NULL;
    if (!args || (args > name && args[-1] == '"'))
        return false;
    dop_tool_form *f = s->form;
    f->manner = DOP_FORM_NAMED;
    replace_text(&f->open, find_call_open(s->one, name, s->with, &s->frame, &f->content_close));
    put_hole(f->open, NAME_1, DOP_HOLE_NAME);
    put_hole(f->open, ID_1, DOP_HOLE_ID);
    replace_text(&f->middle, copy_with_holes(name + strlen(NAME_1), args));
    replace_text(&f->tail, copy_with_holes(args + n, s->one + strlen(s->one)));
    char *second = s->two ? strstr(s->two, NAME_2) : NULL, *before = s->two ? strstr(s->two, NAME_1) : NULL;
    char *last_second = second;
    for (char *hit = second; hit && (hit = strstr(hit, NAME_2)); hit++)
        if (!strstr(second, KEY_1) || hit < strstr(second, KEY_1))
            last_second = hit;
    const char *args_1 = before ? find_arguments_json(before, &n) : NULL;
    const char *end_1 = args_1 ? args_1 + n : NULL;
    const char *args_2 = last_second ? find_arguments_json(last_second + strlen(NAME_2), &n) : NULL;
    if (end_1 && args_2 && end_1 <= last_second) {
        char *middle = copy_with_holes(last_second + strlen(NAME_2), args_2);
        replace_text(&f->next, copy_with_holes(end_1, last_second));
        if (f->middle && middle)
            replace_call_index(f->middle, middle);
        free(middle);
    }
    return true;
}

/* Splits the text between a value and the next key into the value's end mark and the next argument's start. Returns
 * the length of the end mark. */
static size_t
split_between_values(const char *between, const char *middle, const char *end)
{
    const size_t n = strlen(between), lo = n - count_common_tail(middle, between), hi = count_common_head(between, end);
    for (size_t i = lo; i <= hi; i++)
        if (i > 0 && is_closing_mark(between[i - 1]))
            return i;
    return lo > hi ? hi : lo;
}

/* Renders a call with one argument. Returns the text after the argument's key: its value and the rest. */
static char *
render_after_key(const finder *s, json_t *value)
{
    char *text = render_calls(s->p, s->w, make_arguments(KEY_1, value, NULL, NULL), NULL);
    if (text)
        cut_common_end(text, &s->frame);
    char *name = text ? strstr(text, NAME_1) : NULL, *key = name ? strstr(name, KEY_1) : NULL;
    char *rest = key ? strdup(key + strlen(KEY_1)) : NULL;
    free(text);
    return rest;
}

static json_t *
make_sample_value(dop_form_type type)
{
    switch (type) {
    case DOP_TYPE_NUMBER:
        return json_integer(atoi(NUMBER));
    case DOP_TYPE_BOOL:
        return json_true();
    case DOP_TYPE_NULL:
        return json_null();
    case DOP_TYPE_LIST:
        return json_pack("[s]", ITEM);
    case DOP_TYPE_OBJECT:
        return json_pack("{s:s}", KEY_2, ITEM);
    default:
        return json_string(VALUE_1);
    }
}

/* Finds the word in `assign` that depends on the value's type, by comparing renderings of a string and a number.
 * Then finds the word of each type. */
static void
find_type_words(finder *s, const char *strings, const char *numbers)
{
    size_t head = count_common_head(strings, numbers);
    while (head > 0 && isalnum((unsigned char)strings[head - 1]))
        head--;
    size_t tail = count_common_tail(strings + head, numbers + head);
    while (tail > 0 && isalnum((unsigned char)strings[strlen(strings) - tail]))
        tail--;
    const char *end = strings + strlen(strings) - tail;
    dop_buf assign = {0};
    dop_buf_append(&assign, strings, head);
    dop_buf_append(&assign, (char[]){DOP_HOLE_TYPE}, 1);
    dop_buf_puts(&assign, end);
    for (dop_form_type t = 0; t < DOP_TYPES; t++) {
        char *text = render_after_key(s, make_sample_value(t));
        size_t n = 0;
        while (text && strlen(text) > head && isalnum((unsigned char)text[head + n]))
            n++;
        if (n > 0)
            replace_text(&s->form->words[t], strndup(text + head, n));
        free(text);
    }
    replace_text(&s->form->assign, assign.failed ? NULL : strdup(assign.data));
    dop_buf_finish(&assign);
}

/* Detects whether lists and objects are written as nested arguments, and the key of list items. */
static void
find_nested_values(finder *s)
{
    dop_tool_form *f = s->form;
    char *text = render_after_key(s, make_sample_value(DOP_TYPE_LIST));
    char *hit = text ? strstr(text, ITEM) : NULL;
    const size_t n_assign = strlen(f->assign), n_open = strlen(f->arg_open);
    if (hit && n_open > 0 && strncmp(text, f->assign, n_assign) == 0 &&
        strncmp(text + n_assign, f->arg_open, n_open) == 0 && (size_t)(hit - text) > 2 * n_assign + n_open) {
        const char *item = text + n_assign + n_open;
        replace_text(&f->item, strndup(item, (size_t)(hit - item) - n_assign));
    }
    free(text);
}

static void
find_word_spelling(finder *s, dop_form_type type)
{
    if (!s->form->assign || strchr(s->form->assign, DOP_HOLE_TYPE))
        return;
    char *text = render_after_key(s, make_sample_value(type)),
         *number = render_after_key(s, make_sample_value(DOP_TYPE_NUMBER));
    const char *at = number ? strstr(number, NUMBER) : NULL;
    const size_t from = at && text ? (size_t)(at - number) : 0;
    size_t n = 0;
    if (at && text && strlen(text) > from)
        while (isalpha((unsigned char)text[from + n]))
            n++;
    if (n > 0)
        replace_text(&s->form->spelling[type], strndup(text + from, n));
    free(text);
    free(number);
}

/* Returns the quotation mark of DOP_FORM_LITERAL: the text that strings have before and after the value and numbers
 * lack. Returns NULL if there is none. */
static char *
find_quote_mark(const char *strings, const char *numbers, const char *behind_string, const char *behind_number)
{
    const size_t n = strlen(numbers), more = strlen(strings) > n ? strlen(strings) - n : 0;
    if (more == 0 || strncmp(strings, numbers, n) != 0 || strncmp(behind_string, strings + n, more) != 0 ||
        strcmp(behind_string + more, behind_number) != 0)
        return NULL;
    return strdup(strings + n);
}

static bool
find_keys_form(finder *s)
{
    dop_tool_form *f = s->form;
    bool good = false;
    char *two =
        render_calls(s->p, s->w, make_arguments(KEY_1, json_string(VALUE_1), KEY_2, json_string(VALUE_2)), NULL);
    char *numbers = render_after_key(s, make_sample_value(DOP_TYPE_NUMBER));
    char *key = strstr(s->one, KEY_1), *name = NULL;
    for (char *hit = s->one; key && (hit = strstr(hit, NAME_1)) && hit < key; hit++)
        name = hit;
    char *value = key ? strstr(key, VALUE_1) : NULL, *number = numbers ? strstr(numbers, NUMBER) : NULL;
    char *value_a = two ? strstr(two, VALUE_1) : NULL, *key_b = value_a ? strstr(value_a, KEY_2) : NULL;
    if (name && value && number && key_b) {
        f->manner = DOP_FORM_KEYS;
        replace_text(&f->open, find_call_open(s->one, name, s->with, &s->frame, &f->content_close));
        put_hole(f->open, NAME_1, DOP_HOLE_NAME);
        put_hole(f->open, ID_1, DOP_HOLE_ID);
        replace_text(&f->middle, copy_with_holes(name + strlen(NAME_1), key));
        char *strings = copy_with_holes(key + strlen(KEY_1), value),
             *end = copy_with_holes(value + strlen(VALUE_1), s->one + strlen(s->one));
        char *between = copy_with_holes(value_a + strlen(VALUE_1), key_b), *numeric = copy_with_holes(numbers, number);
        char *behind = copy_with_holes(number + strlen(NUMBER), numbers + strlen(numbers));
        char *quote = strings && end && numeric && behind ? find_quote_mark(strings, numeric, end, behind) : NULL;
        if (quote && between && strncmp(between, quote, strlen(quote)) == 0) {
            f->manner = DOP_FORM_LITERAL;
            const size_t q = strlen(quote);
            replace_text(&f->assign, strdup(numeric));
            replace_text(&f->arg_open, strdup(between + q));
            replace_text(&f->tail, strdup(end + q));
            replace_text(&f->quote, strdup(quote));
            good = true;
        } else if (strings && end && between && numeric && f->middle) {
            const size_t at = split_between_values(between, f->middle, end), open = strlen(between) - at;
            replace_text(&f->value_close, strndup(between, at));
            replace_text(&f->arg_open, strdup(between + at));
            replace_text(&f->tail, strdup(end + at));
            replace_text(&f->assign, strdup(strings));
            good =
                strlen(f->middle) >= open && strcmp(f->middle + strlen(f->middle) - open, between + at) == 0 && at > 0;
            if (good) {
                f->middle[strlen(f->middle) - open] = 0;
                if (strcmp(strings, numeric) != 0)
                    find_type_words(s, strings, numeric);
                find_nested_values(s);
            }
        }
        find_word_spelling(s, DOP_TYPE_BOOL);
        find_word_spelling(s, DOP_TYPE_NULL);
        char *first = s->two ? strstr(s->two, VALUE_1) : NULL, *second = first ? strstr(first, NAME_2) : NULL;
        for (char *hit = second; hit && (hit = strstr(hit, NAME_2)) && hit < strstr(second, KEY_1); hit++)
            second = hit;
        const size_t skip = strlen(quote && f->quote ? quote : f->value_close ? f->value_close : "");
        char *next = second ? copy_with_holes(first + strlen(VALUE_1), second) : NULL;
        if (next && strlen(next) >= skip)
            replace_text(&f->next, strdup(next + skip));
        char *key_2 = second ? strstr(second, KEY_1) : NULL;
        char *middle = key_2 ? copy_with_holes(second + strlen(NAME_2), key_2) : NULL;
        if (middle && good && f->manner == DOP_FORM_KEYS && strlen(middle) >= strlen(f->arg_open))
            middle[strlen(middle) - strlen(f->arg_open)] = 0;
        if (middle && good)
            replace_call_index(f->middle, middle);
        free(middle);
        free(next);
        free(strings);
        free(end);
        free(between);
        free(numeric);
        free(behind);
        free(quote);
    }
    free(two);
    free(numbers);
    return good;
}

static void
clear_form_texts(dop_tool_form *f)
{
    char **texts[] = {&f->open,     &f->middle,        &f->next,         &f->tail,   &f->head,
                      &f->name_key, &f->arguments_key, &f->arg_open,     &f->assign, &f->value_close,
                      &f->quote,    &f->item,          &f->content_close};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        replace_text(texts[i], NULL);
    for (size_t i = 0; i < DOP_TYPES; i++) {
        replace_text(&f->words[i], NULL);
        replace_text(&f->spelling[i], NULL);
    }
    f->list = f->text_within = false;
}

/* Tries one way to pass calls to the template. Returns true if a format was found. */
static bool
try_call_way(const dop_probe *p, const way *w, dop_tool_form *form)
{
    finder s = {.p = p, .w = w, .form = form};
    bool good = false;
    s.one = render_calls(p, w, make_usual_arguments(), NULL);
    if (s.one && strstr(s.one, NAME_1) && strstr(s.one, VALUE_1)) {
        way with = *w;
        with.content = DOP_PROBE_CONTENT;
        s.two = render_calls(p, w, make_usual_arguments(), make_usual_arguments());
        s.with = render_calls(p, &with, make_usual_arguments(), NULL);
        find_probe_frame(p, w->described, &s.frame);
        cut_common_end(s.one, &s.frame);
        if (s.two && !strstr(s.two, NAME_2)) {
            free(s.two);
            s.two = NULL;
        }
        if (s.two)
            cut_common_end(s.two, &s.frame);
        clear_form_texts(form);
        good = find_object_form(&s);
        if (!good) {
            clear_form_texts(form);
            good = find_named_form(&s);
        }
        if (!good && !w->text) {
            clear_form_texts(form);
            good = find_keys_form(&s);
        }
        good = good && form->open && form->middle && form->tail;
        if (!good)
            clear_form_texts(form);
        form->several = s.two != NULL;
    }
    free(s.one);
    free(s.two);
    free(s.with);
    free(s.frame.prompt);
    free(s.frame.plain);
    return good;
}

bool
dop_form_find_calls(const dop_probe *p, dop_tool_form *form)
{
    static const char *const contents[] = {"", NULL, DOP_PROBE_CONTENT};
    enum { TEXT = 1, FLAT = 2, BARE = 4, NAMED = 8, WAYS = 16 };
    for (unsigned how = 0; how < WAYS; how++) {
        if ((how & NAMED) && (how & FLAT))
            continue;
        for (size_t c = 0; c < 3; c++) {
            const way w = {.content = contents[c],
                           .text = (how & TEXT) != 0,
                           .flat = (how & FLAT) != 0,
                           .described = (how & BARE) == 0,
                           .id_has_name = (how & NAMED) != 0};
            if (!try_call_way(p, &w, form))
                continue;
            form->arguments_text = w.text;
            form->flat = w.flat;
            form->id_has_name = w.id_has_name;
            form->null_content = c == 1;
            form->needs_content = c == 2;
            return true;
        }
    }
    return false;
}
