/* Chat templates against renderings made by Jinja2 and llama.cpp. */
#include "base/json/json.h"
#include "tests/unit/tokenizer_util.h"
#include "text/chat/chat.h"
#include "tools/doppler-exec/common/text_file.h"

#include <doppler/constraint.h>

static const struct tm golden_day = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26};

static const char *
text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static dop_chat_input
input_of(const json_t *c)
{
    const json_t *tools = json_object_get(c, "tools");
    return (dop_chat_input){.messages = json_object_get(c, "messages"),
                            .tools = json_is_array(tools) ? tools : NULL,
                            .add_generation_prompt = json_is_true(json_object_get(c, "add_generation_prompt")),
                            .bos_token = text_of(c, "bos_token"),
                            .eos_token = text_of(c, "eos_token"),
                            .now = &golden_day};
}

/* Whether a template makes of a case what is expected: a text, or a refusal with these words. */
static bool
check_case(const dop_chat *chat, const json_t *c, const char *what, const json_t *expected, const json_t *error)
{
    dop_buf out = {0};
    dop_diag diag = {0};
    dop_chat_input in = input_of(c);
    dop_status st = dop_chat_render(chat, &in, &diag, &out);
    bool ok;
    if (json_is_string(error))
        ok = st == DOP_E_INPUT && strstr(diag.message, json_string_value(error));
    else
        ok = st == DOP_OK && out.size == json_string_length(expected) &&
             memcmp(out.data ? out.data : "", json_string_value(expected), out.size) == 0;
    if (!ok)
        fprintf(stderr, "%s %s: %s\n--- want\n%s\n--- got\n%s\n---\n", what, text_of(c, "name"), diag.message,
                json_is_string(error) ? json_string_value(error) : json_string_value(expected),
                out.data ? out.data : "");
    dop_buf_finish(&out);
    return ok;
}

Test(chat, renderings_of_jinja2)
{
    if (access(DOP_SHARED_DIR "/golden/chat_templates/renders.json", R_OK) != 0)
        cr_skip_test("no shared data");
    json_t *list = util_json(DOP_SHARED_DIR "/golden/chat_templates/renders.json");
    size_t bad = 0;
    cr_assert(json_array_size(list) > 200);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        char path[1024];
        dop_buf text = {0};
        dop_diag diag = {0};
        dop_chat *chat = NULL;
        snprintf(path, sizeof path, "%s/golden/chat_templates/%s.jinja", DOP_SHARED_DIR, text_of(c, "template"));
        cr_assert(util_read(path, &text));
        cr_assert_eq(dop_chat_create(text.data, text.size, &diag, &chat), DOP_OK, "%s: %s", path, diag.message);
        bad +=
            !check_case(chat, c, text_of(c, "template"), json_object_get(c, "expected"), json_object_get(c, "error"));
        dop_chat_destroy(chat);
        dop_buf_finish(&text);
    }
    cr_expect_eq(bad, 0, "%zu renderings differ", bad);
    json_decref(list);
}

Test(chat, cases_of_llama_cpp)
{
    if (access(DOP_SHARED_DIR "/golden/chat_templates/llama_cpp_cases.json", R_OK) != 0)
        cr_skip_test("no shared data");
    json_t *list = util_json(DOP_SHARED_DIR "/golden/chat_templates/llama_cpp_cases.json");
    size_t bad = 0;
    cr_assert(json_array_size(list) == 17);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i), *template = json_object_get(c, "template");
        dop_diag diag = {0};
        dop_chat *chat = NULL;
        dop_status st = dop_chat_create(json_string_value(template), json_string_length(template), &diag, &chat);
        cr_assert_eq(st, DOP_OK, "%s: %s", text_of(c, "name"), diag.message);
        bad += !check_case(chat, c, "llama.cpp", json_object_get(c, "jinja2"), json_object_get(c, "jinja2_error"));
        dop_chat_destroy(chat);
    }
    cr_expect_eq(bad, 0, "%zu cases differ", bad);
    json_decref(list);
}

Test(chat, one_more_message)
{
    if (access(DOP_SHARED_DIR "/golden/chat_templates/llama_cpp_format_single.json", R_OK) != 0)
        cr_skip_test("no shared data");
    json_t *list = util_json(DOP_SHARED_DIR "/golden/chat_templates/llama_cpp_format_single.json");
    cr_assert(json_array_size(list) == 19);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        dop_diag diag = {0};
        dop_chat *chat = NULL;
        dop_buf out = {0};
        json_t *messages = json_deep_copy(json_object_get(c, "before"));
        json_array_append(messages, json_object_get(c, "message"));
        dop_chat_input in = {.messages = messages,
                             .add_generation_prompt = json_is_true(json_object_get(c, "add_generation_prompt"))};
        cr_assert_eq(dop_chat_create_builtin(text_of(c, "format"), &diag, &chat), DOP_OK, "%s", diag.message);
        cr_assert_eq(dop_chat_render_added(chat, &in, &diag, &out), DOP_OK, "%s", diag.message);
        cr_expect_str_eq(out.data ? out.data : "", text_of(c, "expected_added_text"), "%s", text_of(c, "format"));
        dop_buf_finish(&out);
        dop_chat_destroy(chat);
        json_decref(messages);
    }
    json_decref(list);
}

Test(chat, marks_that_end_an_answer)
{
    static const struct {
        const char *file, *stop;
    } rows[] = {{"gemma-2", "<end_of_turn>"},
                {"gemma-3", "<end_of_turn>"},
                {"gpt-oss", NULL}, /* another one where the conversation goes on */
                {"llama-3.1", "<|eot_id|>"},
                {"llama-3.2", "<|eot_id|>"},
                {"mistral-nemo", NULL}, /* eos_token, which is an id */
                {"phi-3-medium", "<|end|>"},
                {"phi-3-mini", "<|end|>"},
                {"phi-3.5-mini", "<|end|>"},
                {"phi-4-mini", "<|end|>"},
                {"qwen2.5", "<|im_end|>"},
                {"qwen3", "<|im_end|>"},
                {"phi-4-mini-reasoning", "<|end|>"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[1024];
        dop_buf text = {0};
        dop_diag diag = {0};
        dop_chat *chat = NULL;
        snprintf(path, sizeof path, "%s/golden/chat_templates/%s.jinja", DOP_SHARED_DIR, rows[i].file);
        if (access(path, R_OK) != 0)
            cr_skip_test("no shared data");
        cr_assert(util_read(path, &text));
        cr_assert_eq(dop_chat_create(text.data, text.size, &diag, &chat), DOP_OK, "%s", diag.message);
        const char *stop = dop_chat_stops(chat)[0];
        cr_expect(rows[i].stop ? stop && strcmp(stop, rows[i].stop) == 0 : !stop, "%s: %s", rows[i].file,
                  stop ? stop : "none");
        dop_chat_destroy(chat);
        dop_buf_finish(&text);
    }
}

Test(chat, marks_of_any_template)
{
#define EACH(user, answer) \
    "{% for m in messages %}{% if m.role == 'user' %}" user "{% else %}" answer "{% endif %}{% endfor %}"
    static const struct {
        const char *template, *stop;
    } rows[] = {
        {EACH("[Q]{{ m.content }}", "[A]{{ m.content }}  [/A]\n"), "[/A]"},
        {EACH("Q: {{ m.content }}\n", "A: {{ m.content }}\n\n"), NULL},
        {EACH("<u>{{ m.content }}", "<a>{{ m.content }}{{ eos_token }}"), NULL},
        {EACH("{{ raise_exception('no') }}", "<a>{{ m.content }}</a>"), NULL},
        {EACH("<u>{{ m.content }}", "<a>{{ m.content }}<an end that is much too long to be a token of any model>"),
         NULL},
        {EACH("<u>{{ m.content }}", "<a>{{ m.content }}<no end"), NULL},
        {"always the same", NULL},
        {"", NULL},
        {EACH("<u>{{ m.content }}", "<a>{{ m.content[0:3] }}</a>"), NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_diag diag = {0};
        dop_chat *chat = NULL;
        cr_assert_eq(dop_chat_of_template(rows[i].template, strlen(rows[i].template), &diag, &chat), DOP_OK, "%s",
                     diag.message);
        const char *stop = dop_chat_stops(chat)[0];
        cr_expect(rows[i].stop ? stop && strcmp(stop, rows[i].stop) == 0 : !stop, "%s", rows[i].template);
        dop_chat_destroy(chat);
    }
}

/* Renders a template over {"a": ..., ...}; the caller frees. */
static dop_status
render(const char *template, const char *extra, dop_diag *diag, dop_buf *out)
{
    dop_chat *chat = NULL;
    json_t *messages = json_array(), *more = json_loads(extra, 0, NULL);
    dop_chat_input in = {.messages = messages, .now = &golden_day, .extra = more};
    dop_status st = dop_chat_create(template, strlen(template), diag, &chat);
    if (st == DOP_OK)
        st = dop_chat_render(chat, &in, diag, out);
    dop_chat_destroy(chat);
    json_decref(messages);
    json_decref(more);
    return st;
}

Test(chat, language)
{
    static const struct {
        const char *template, *extra, *want;
    } rows[] = {
        {"{{ 1 + 2 * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }}", "{}",
         "7 3 -4 2 3.5 1024"},
        {"{{ 'a' ~ 1 ~ none ~ true }}", "{}", "a1NoneTrue"},
        {"{{ x | trim + 'z' }}", "{\"x\": \" q \"}", "qz"},
        {"{{ x[1:] }}|{{ x[:-1] }}|{{ x[::-1] }}|{{ x[-1] }}", "{\"x\": \"abc\"}", "bc|ab|cba|c"},
        {"{{ x }}", "{\"x\": [1, \"it's\", null, {\"k\": 2.5}]}", "[1, \"it's\", None, {'k': 2.5}]"},
        {"{{ x | tojson }}", "{\"x\": {\"a\": [1, \"\\u00fc\\n\"], \"b\": 1e20}}",
         "{\"a\": [1, \"\xc3\xbc\\n\"], \"b\": 1e+20}"},
        {"{{ x | tojson(indent=2) }}", "{\"x\": {\"a\": [], \"b\": [1]}}",
         "{\n  \"a\": [],\n  \"b\": [\n    1\n  ]\n}"},
        {"{% for k, v in x.items() if k != 'b' %}{{ loop.index }}{{ k }}{{ v }}{% if not loop.last %},{% endif %}{% "
         "endfor %}",
         "{\"x\": {\"a\": 1, \"b\": 2, \"c\": 3}}", "1a1,2c3"},
        {"{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i "
         "}}{% endfor %}",
         "{}", "02"},
        {"{% for i in [] %}x{% else %}none{% endfor %}", "{}", "none"},
        {"{% set n = namespace(v=0) %}{% for i in range(4) %}{% set n.v = n.v + i %}{% set y = i %}{% endfor %}{{ n.v "
         "}}{{ y }}",
         "{}", "6"},
        {"{% macro m(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}", "{}", "[1x][12]"},
        {"{% set t %}a{{ 1 }}{% endset %}{{ t | upper }}{% filter trim %}  q {% endfilter %}", "{}", "A1q"},
        {"a\n  {% if true %}\nb\n  {% endif %}\nc\n", "{}", "a\nb\nc"},
        {"a  {%- if true -%}  b  {%- endif +%}  \nc", "{}", "ab  \nc"},
        {"  {%+ if true %}x{% endif %}{# gone #}\ny", "{}", "  xy"},
        {"{% raw %}{{ x }}{% endraw %}", "{}", "{{ x }}"},
        {"{{ '}}' }}{{ {'a': {'b': 1}}['a'].b }}", "{}", "}}1"},
        {"{{ (x is defined) and (y is not defined) }} {{ x is string }} {{ z is none }} {{ 3 is odd }}",
         "{\"x\": \"s\", \"z\": null}", "True True True True"},
        {"{{ x | selectattr('r', 'equalto', 'u') | map(attribute='c') | join('-') }}",
         "{\"x\": [{\"r\": \"u\", \"c\": 1}, {\"r\": \"a\", \"c\": 2}, {\"r\": \"u\", \"c\": 3}]}", "1-3"},
        {"{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'xaxbx'.strip('x') }} {{ 'ab'.startswith('a') }}", "{}",
         "['a', 'b', '', 'c'] ['a', 'b'] axb True"},
        {"{{ u | default('d') }} {{ '' | default('e', true) }} {{ x.get('q', 5) }}", "{\"x\": {}}", "d e 5"},
        {"{{ 'b' in 'abc' }} {{ 1 not in [1] }} {{ 1 < 2 < 3 }} {{ 'x' if false else 'y' }}", "{}",
         "True False True y"},
        {"{{ strftime_now('%d %b %Y') }}", "{}", "26 Jul 2024"},
        {"{{ \"\\u00fc\\x41\\t\" }}{{ 'it''s' }}", "{}",
         "\xc3\xbc"
         "A\tits"},
        {"{{ 0.1 }} {{ 1e5 }} {{ 100.0 }} {{ x }}", "{\"x\": 1.5e-7}", "0.1 100000.0 100.0 1.5e-07"},
        {"{{ x | length }} {{ x | first }} {{ x | last }} {{ x | reverse | list }}", "{\"x\": [3, 4, 5]}",
         "3 3 5 [5, 4, 3]"},
        /* As Jinja2 3.1 renders them with the filters and functions that transformers adds. */
        {"{{ strftime_now is defined }} {{ raise_exception is callable }} {{ f is defined }}", "{}", "True True False"},
        {"{{ x | tojson(separators=(',', ':')) }} {{ x | tojson(sort_keys=true) }} {{ x | tojson(ensure_ascii=true) }}",
         "{\"x\": {\"b\": \"\\u00fc\\ud83d\\ude00\", \"a\": [1, 2]}}",
         "{\"b\":\"\xc3\xbc\xf0\x9f\x98\x80\",\"a\":[1,2]} {\"a\": [1, 2], \"b\": \"\xc3\xbc\xf0\x9f\x98\x80\"} "
         "{\"b\": \"\\u00fc\\ud83d\\ude00\", \"a\": [1, 2]}"},
        {"{% macro m(l) %}{% for x in l %}{{ caller(x) }}{{ varargs }}{% endfor %}{% endmacro %}{% call(u) m([1, 2], "
         "3) "
         "%}<{{ u }}>{% endcall %}",
         "{}", "<1>(3,)<2>(3,)"},
        {"{% for v in [1, 2] %}{% macro m() %}{{ v }}{{ loop.depth }}{% endmacro %}{{ m() }}{% endfor %}", "{}",
         "1121"},
        {"{% for n in x recursive %}{{ loop.depth }}{{ n.v }}({{ loop(n.c) }}){% endfor %}",
         "{\"x\": [{\"v\": \"a\", \"c\": [{\"v\": \"b\", \"c\": []}]}]}", "1a(2b())"},
        {"{% for i in [1, 1, 2] %}{{ loop.changed(i) }} {% endfor %}", "{}", "True False True "},
        {"{{ x.splitlines() }} {{ x.rsplit('b', 1) }} {{ x.partition('a')[2] | length }} {{ x.find('a', 1) }}",
         "{\"x\": \"ab\\nab\\n\"}", "['ab', 'ab'] ['ab\\na', '\\n'] 5 3"},
        {"{{ 'x-y'.removeprefix('x').removesuffix('y') }} {{ '12'.isdigit() }} {{ 'aXb'.startswith('X', 1) }}", "{}",
         "- True True"},
        {"{{ x | upper }} {{ x.title() }} {{ 'foo_bar (b-C' | title }}", "{\"x\": \"\\u00e9a b\"}",
         "\xc3\x89"
         "A B \xc3\x89"
         "a B Foo_bar (B-C"},
        {"{{ [1, 2.5] | sum }} {{ x | max(attribute='v') }} {{ 2.5 | round }} {{ '1.5' | float }} {{ [3, 1] | min }}",
         "{\"x\": [{\"v\": 1}, {\"v\": 2}]}", "3.5 {'v': 2} 2.0 1.5 1"},
        {"{{ '%s=%05.2f%%' % ('a', 1.5) }} {{ '%d'|format(3) }} {{ 1.5e-5 }} {{ '<\"' | e }}", "{}",
         "a=01.50% 3 1.5e-05 &lt;&#34;"},
        {"{{ 'a\nb\n' | indent('> ', blank=true) }}|{{ {'a': 2, 'b': 1} | dictsort(by='value') }}", "{}",
         "a\n> b\n> |[('b', 1), ('a', 2)]"},
        {"{{ [3, 1, 2] | batch(2) | list }} {{ x | groupby('g') }} {{ [1, 2] | select('>', 1) | list }}",
         "{\"x\": [{\"g\": 2}, {\"g\": 1}]}", "[[3, 1], [2]] [(1, [{'g': 1}]), (2, [{'g': 2}])] [2]"},
        {"{% set n = namespace(l=[1, 2, 3]) %}{{ n.l.pop(0) }}{{ n.l.pop() }}{{ n.l }}", "{}", "13[2]"},
        {" {% raw %}\n {{ x }}\n {% endraw %}\n y", "{}", "\n {{ x }}\n y"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_buf out = {0};
        dop_diag diag = {0};
        cr_expect_eq(render(rows[i].template, rows[i].extra, &diag, &out), DOP_OK, "%s: %s", rows[i].template,
                     diag.message);
        cr_expect_str_eq(out.data ? out.data : "", rows[i].want, "%s", rows[i].template);
        dop_buf_finish(&out);
    }
}

Test(chat, refusals)
{
    static const struct {
        const char *template, *message;
    } rows[] = {
        {"{{ x.y }}", "line 1: 'x' is undefined"},
        {"\n{{ 'a' + 1 }}", "line 2: cannot compute string + integer"},
        {"{{ raise_exception('no way') }}", "refuses this conversation: no way"},
        {"{% if x %}", "\"elif\" is missing"},
        {"{{ x", "a tag has no end"},
        {"{{ 'x }}", "a string has no end"},
        {"{% include 'x' %}", "block tag \"include\" is not known"},
        {"{{ x | nonsense }}", "filter \"nonsense\" is not known"},
        {"{{ x is nonsense }}", "test \"nonsense\" is not known"},
        {"{{ nonsense() }}", "there is no function \"nonsense\""},
        {"{{ 'a'.nonsense() }}", "a string has no method \"nonsense\""},
        {"{{ 1 / 0 }}", "division by zero"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too deeply"},
        {"{% set r = range(10000) %}{% for a in r %}{% for b in r %}{{ 1 }}{% endfor %}{% endfor %}",
         "takes too many steps"},
        {"{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' * 100000000 }}", "takes too much memory"},
        {"{{ range(99999999) }}", "out of range"},
        {"{{ 1 2 }}", "unexpected text"},
        {"{{ }}", "expected an expression"},
        {"{% endif %}", "block tag \"endif\" is not known here"},
        {"{% break %}", "outside of a loop"},
        {"{% macro m(a) %}{% endmacro %}{{ m(1, b=2) }}", "macro \"m\" has no parameter \"b\""},
        {"{% for x in [[]] recursive %}{{ loop([[]]) }}{% endfor %}", "too deeply"},
        {"{{ '%d' % 'x' }}", "needs a number"},
        {"{{ '%s %s' % 1 }}", "more places than values"},
        {"{{ {} | tojson(separators=1) }}", "separators are two strings"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_buf out = {0};
        dop_diag diag = {0};
        const bool limit = strstr(rows[i].message, "too ") != NULL;
        cr_expect_eq(render(rows[i].template, "{}", &diag, &out), limit ? DOP_E_LIMIT : DOP_E_INPUT, "%s",
                     rows[i].template);
        cr_expect(strstr(diag.message, rows[i].message), "%s: \"%s\" does not say \"%s\"", rows[i].template,
                  diag.message, rows[i].message);
        cr_expect_eq(out.size, 0);
        dop_buf_finish(&out);
    }
    dop_buf deep = {0}, out = {0};
    dop_diag diag = {0};
    dop_buf_puts(&deep, "{{ ");
    for (int i = 0; i < 100000; i++)
        dop_buf_puts(&deep, "(");
    cr_expect_eq(render(deep.data, "{}", &diag, &out), DOP_E_INPUT);
    deep.size = 0;
    dop_buf_puts(&deep, "{{ 1");
    for (int i = 0; i < 100000; i++)
        dop_buf_puts(&deep, "+1");
    dop_buf_puts(&deep, " }}");
    cr_expect_eq(render(deep.data, "{}", &diag, &out), DOP_E_LIMIT);
    dop_buf_finish(&deep);
    dop_buf_finish(&out);
}

Test(chat, truncated_templates)
{
    static const char *const files[] = {"gpt-oss", "llama-3.1", "qwen3", "mistral-nemo"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char path[1024];
        dop_buf text = {0};
        snprintf(path, sizeof path, "%s/golden/chat_templates/%s.jinja", DOP_SHARED_DIR, files[f]);
        if (access(path, R_OK) != 0)
            cr_skip_test("no shared data");
        cr_assert(util_read(path, &text));
        size_t refused = 0, tries = 0;
        for (size_t n = 0; n < text.size; n += 7, tries++) {
            dop_diag diag = {0};
            dop_chat *chat = NULL;
            refused += dop_chat_create(text.data, n, &diag, &chat) != DOP_OK;
            dop_chat_destroy(chat);
        }
        cr_expect(refused > tries / 2);
        dop_buf_finish(&text);
    }
}

Test(chat, wrong_input)
{
    dop_diag diag = {0};
    dop_chat *chat = NULL;
    dop_buf out = {0};
    cr_expect_eq(dop_chat_create_builtin("nonsense", &diag, &chat), DOP_E_INPUT);
    cr_expect(strstr(diag.message, "chatml, gemma"), "%s", diag.message);
    diag = (dop_diag){0};
    cr_expect_eq(dop_chat_create("\xff", 1, &diag, &chat), DOP_E_INPUT);
    diag = (dop_diag){0};
    cr_assert_eq(dop_chat_create_builtin("chatml", &diag, &chat), DOP_OK);
    dop_chat_input in = {0};
    cr_expect_eq(dop_chat_render(chat, &in, &diag, &out), DOP_E_INPUT);
    diag = (dop_diag){0};
    json_t *messages = json_pack("[{s:s}]", "content", "x");
    in.messages = messages;
    cr_expect_eq(dop_chat_render(chat, &in, &diag, &out), DOP_E_INPUT);
    cr_expect(strstr(diag.message, "message 1"), "%s", diag.message);
    json_decref(messages);
    dop_chat_destroy(chat);
    dop_buf_finish(&out);
}

/* ---- doppler/text.h --------------------------------------------------------------------------------------------------*/

/* A folder with the demo's tokenizer and a chat template; *out_dir is to be removed with remove_folder. */
static dop_text *
text_with_template(const char *chat_template, char dir[32])
{
    char path[96], target[512];
    dop_text *text = NULL;
    dop_diag diag = {0};
    strcpy(dir, "/tmp/doppler-test-XXXXXX");
    cr_assert(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    snprintf(target, sizeof target, "%s/examples/shakespeare-gemma3/tokenizer.json", DOP_SOURCE_DIR);
    cr_assert_eq(symlink(target, path), 0);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    json_t *config = json_pack("{s:s}", "chat_template", chat_template);
    cr_assert_eq(json_dump_file(config, path, 0), 0);
    json_decref(config);
    cr_assert_eq(dop_text_of_file(dir, &diag, &text), DOP_OK, "%s", diag.message);
    return text;
}

static void
remove_folder(const char *dir)
{
    char path[96];
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    unlink(path);
    cr_assert_eq(rmdir(dir), 0);
}

static const char chatml[] = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                             "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

static void
expect_chat(const dop_chat *chat, const dop_text *text, const char *json, unsigned flags, const char *want)
{
    dop_diag diag = {0};
    char *got = NULL;
    size_t n, n_ids, n_want;
    uint32_t *ids, *want_ids;
    cr_assert_eq(dop_chat_text(chat, text, json, strlen(json), flags, &diag, &got, &n), DOP_OK, "%s", diag.message);
    cr_assert_str_eq(got, want);
    cr_assert_eq(n, strlen(want));
    dop_free(got);
    cr_assert_eq(dop_chat_ids(chat, text, json, strlen(json), flags, &diag, &ids, &n_ids), DOP_OK, "%s", diag.message);
    unsigned how = flags & DOP_CHAT_LAST ? (unsigned)DOP_TEXT_PARSE_SPECIAL : (unsigned)DOP_TEXT_PROMPT;
    cr_assert_eq(dop_text_encode(text, want, strlen(want), how, &diag, &want_ids, &n_want), DOP_OK);
    cr_assert_eq(n_ids, n_want);
    cr_assert_arr_eq(ids, want_ids, n_ids * sizeof *ids);
    dop_free(ids);
    dop_free(want_ids);
}

Test(chat, conversations_of_the_public_interface)
{
    char dir[32];
    dop_diag diag = {0};
    dop_chat *chat = NULL;
    dop_text *text = text_with_template(chatml, dir);
    cr_assert(dop_text_has_chat(text));
    cr_assert_eq(dop_chat_of_text(text, &diag, &chat), DOP_OK, "%s", diag.message);
    const char *const *stops = dop_chat_stops(chat);
    cr_assert(stops[0] && strcmp(stops[0], "<|im_end|>") == 0);
    expect_chat(chat, text, "[{\"role\":\"user\",\"content\":\"Who?\"}]", 0,
                "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n");
    expect_chat(chat, text, "{\"messages\":[{\"role\":\"user\",\"content\":\"Who?\"}],\"add_generation_prompt\":false}",
                0, "<|im_start|>user\nWho?<|im_end|>\n");
    expect_chat(chat, text,
                "[{\"role\":\"user\",\"content\":\"Who?\"},{\"role\":\"assistant\",\"content\":\"I.\"},"
                "{\"role\":\"user\",\"content\":\"Oh.\"}]",
                DOP_CHAT_LAST, "\n<|im_start|>user\nOh.<|im_end|>\n<|im_start|>assistant\n");
    static const struct {
        const char *json, *want;
        long line;
    } bad[] = {
        {"[{\"role\":\n", "invalid JSON", 2}, {"{\"tools\":[]}", "expected an array", 0}, {"", "invalid JSON", 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t *ids;
        size_t n;
        diag = (dop_diag){0};
        cr_assert_eq(dop_chat_ids(chat, text, bad[i].json, strlen(bad[i].json), 0, &diag, &ids, &n), DOP_E_INPUT);
        cr_assert_null(ids);
        cr_assert(strstr(diag.message, bad[i].want), "%s", diag.message);
        cr_assert_eq(diag.line, bad[i].line, "%s: %ld", diag.message, diag.line);
    }
    const dop_message no_texts[] = {{"user", "\xff"}, {"\xff", "Who?"}, {"user", NULL}, {NULL, "Who?"}};
    for (size_t i = 0; i < sizeof no_texts / sizeof *no_texts; i++) {
        uint32_t *ids;
        size_t n;
        cr_assert_eq(dop_text_chat(text, &no_texts[i], 1, &diag, &ids, &n), DOP_E_INPUT);
        cr_assert_str_eq(diag.message, "message 0: role and content are texts in UTF-8");
    }
    dop_chat_destroy(chat);
    dop_text_destroy(text);
    remove_folder(dir);
    text = text_with_template("{{ messages[0].content }}", dir);
    diag = (dop_diag){0};
    cr_assert(dop_text_has_chat(text)); /* of a format that nobody knows */
    cr_assert_eq(dop_chat_of_text(text, &diag, &chat), DOP_OK);
    expect_chat(chat, text, "[{\"role\":\"user\",\"content\":\"Who?\"}]", 0, "Who?");
    dop_chat_destroy(chat);
    dop_text_destroy(text);
    remove_folder(dir);
    text = text_with_template("{{ messages[0].content ", dir);
    cr_assert_eq(dop_chat_of_text(text, &diag, &chat), DOP_E_INPUT);
    cr_assert_null(chat);
    dop_text_destroy(text);
    remove_folder(dir);
}

/* Numbers of a conversation come to a template as Python reads them, and tojson writes them as Python does. */
Test(chat, numbers_of_messages)
{
    static const char template[] =
        "{{ messages[0].x | tojson }};{% for n in messages[0].x %}{{ n }},{{ n is integer }},"
        "{{ n > 2 }};{% endfor %}";
    static const char json[] = "[{\"role\": \"user\", \"content\": \"\", \"x\": [0.1, 1.0, 1e2, 123456789012345678901, "
                               "-18446744073709551616, 1e400, NaN, 9007199254740993]}]";
    dop_diag diag = {0};
    dop_chat *chat = NULL;
    json_t *messages;
    dop_buf out = {0};
    const dop_json_how how = {.flags = DOP_JSON_EXACT};
    cr_assert_eq(dop_json_decode(json, strlen(json), &how, &diag, &messages), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_chat_create(template, strlen(template), &diag, &chat), DOP_OK, "%s", diag.message);
    const dop_chat_input in = {.messages = messages};
    cr_assert_eq(dop_chat_render(chat, &in, &diag, &out), DOP_OK, "%s", diag.message);
    cr_expect_str_eq(out.data,
                     "[0.1, 1.0, 100.0, 123456789012345678901, -18446744073709551616, Infinity, NaN, 9007199254740993];"
                     "0.1,False,False;1.0,False,False;100.0,False,True;123456789012345678901,True,True;"
                     "-18446744073709551616,True,False;inf,False,True;nan,False,False;9007199254740993,True,True;");
    dop_buf_finish(&out);
    json_decref(messages);
    dop_chat_destroy(chat);
}

Test(chat, texts_of_tokenizer_files)
{
    dop_diag diag = {0};
    dop_text *text = NULL;
    dop_chat *chat = NULL;
    dop_constraint *shape = NULL;
    uint32_t *ids;
    size_t n, len;
    cr_assert_eq(dop_text_of_file(DOP_SOURCE_DIR "/examples/shakespeare-gemma3", &diag, &text), DOP_OK, "%s",
                 diag.message);
    cr_assert(!dop_text_has_chat(text));
    cr_assert_eq(dop_chat_of_text(text, &diag, &chat), DOP_E_INPUT);
    cr_assert_eq(dop_text_encode(text, "A rose", 6, DOP_TEXT_ADD_SPECIAL, &diag, &ids, &n), DOP_OK);
    cr_assert(dop_text_adds_bos(text));
    cr_assert(n > 1 && ids[0] < dop_text_vocab(text));
    for (unsigned flags = 0; flags <= DOP_TEXT_KEEP_SPECIAL; flags += DOP_TEXT_KEEP_SPECIAL) {
        dop_decoder *decoder;
        const char *bytes;
        cr_assert_eq(dop_decoder_create(text, flags, &diag, &decoder), DOP_OK);
        cr_assert_eq(dop_decoder_push(decoder, ids[0], &diag, &bytes, &len), DOP_OK);
        cr_assert_str_eq(bytes, flags ? "<bos>" : "");
        dop_decoder_destroy(decoder);
    }
    dop_free(ids);
    diag = (dop_diag){0};
    cr_assert_eq(dop_constraint_from_schema(text, "", 0, &diag, &shape), DOP_OK, "%s", diag.message);
    dop_constraint_destroy(shape);
    dop_text_destroy(text);
    cr_assert_eq(dop_text_of_file("/nowhere", &diag, &text), DOP_E_IO);
    cr_assert_null(text);
    diag = (dop_diag){0};
    cr_assert_eq(dop_text_of_file(DOP_SOURCE_DIR "/LICENSE", &diag, &text), DOP_E_INPUT);
    cr_assert_null(text);
}
