/* Where models keep their chat templates and how they name their tokens; and what a prompt gets. */
#include "base/format/gguf.h"
#include "tests/unit/gguf_writer.h"
#include "tests/unit/tokenizer_util.h"
#include "text/chat/chat.h"
#include "text/import/chat_files.h"
#include "text/import/tokenizer_gguf.h"
#include "text/import/tokenizer_hf.h"

#include <sys/stat.h>

typedef struct folder {
    char path[32];
} folder;

static folder
make_folder(void)
{
    folder f = {"/tmp/doppler-test-XXXXXX"};
    cr_assert(mkdtemp(f.path));
    return f;
}

static void
write_file(const folder *f, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    if (strchr(name, '/')) {
        char *slash = strrchr(path, '/');
        *slash = 0;
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    cr_assert(file);
    cr_assert_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    cr_assert_eq(fclose(file), 0);
}

static void
remove_folder(const folder *f)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", f->path);
    cr_assert_eq(system(command), 0);
}

/* What a template makes of no messages, with tools or without. */
static void
expect_text(const char *template, bool tools, const char *want)
{
    dop_diag diag = {0};
    dop_chat *chat = NULL;
    dop_buf out = {0};
    json_t *none = json_array();
    cr_assert_eq(dop_chat_create(template, strlen(template), &diag, &chat), DOP_OK, "%s", diag.message);
    const dop_chat_input in = {.messages = none, .tools = tools ? none : NULL};
    cr_assert_eq(dop_chat_render(chat, &in, &diag, &out), DOP_OK, "%s", diag.message);
    dop_buf_append(&out, "", 1);
    cr_expect_str_eq(out.data, want);
    dop_buf_finish(&out);
    json_decref(none);
    dop_chat_destroy(chat);
}

Test(chat_files, places_in_a_folder)
{
    static const struct {
        const char *file[4], *text[4], *plain, *tools; /* plain NULL: there is no template */
    } rows[] = {
        {{NULL}, {NULL}, NULL, NULL},
        {{"tokenizer_config.json"}, {"{\"chat_template\": \"A\"}"}, "A", "A"},
        {{"tokenizer_config.json"}, {"{\"chat_template\": null}"}, NULL, NULL},
        {{"tokenizer_config.json"}, {"{}"}, NULL, NULL},
        {{"tokenizer_config.json"},
         {"{\"chat_template\": [{\"name\": \"rag\", \"template\": \"R\"}, {\"name\": \"default\", \"template\": \"D\"},"
          "{\"name\": \"tool_use\", \"template\": \"T\"}]}"},
         "D",
         "T"},
        {{"tokenizer_config.json"}, {"{\"chat_template\": [{\"name\": \"default\", \"template\": \"D\"}]}"}, "D", "D"},
        {{"tokenizer_config.json"}, {"{\"chat_template\": [{\"name\": \"own\", \"template\": \"O\"}]}"}, "O", "O"},
        {{"tokenizer_config.json"}, {"{\"chat_template\": {\"default\": \"D\", \"tool_use\": \"T\"}}"}, "D", "T"},
        {{"tokenizer_config.json"},
         {"{\"chat_template\": [{\"name\": \"default\", \"template\": \"S\"}, {\"name\": \"tool_use\", "
          "\"template\": \"S\"}]}"},
         "S",
         "S"},
        {{"chat_template.json", "tokenizer_config.json"},
         {"{\"chat_template\": \"J\"}", "{\"chat_template\": \"A\"}"},
         "J",
         "J"},
        {{"chat_template.json", "tokenizer_config.json"}, {"{}", "{\"chat_template\": \"A\"}"}, "A", "A"},
        {{"chat_template.jinja", "chat_template.json", "tokenizer_config.json"},
         {"F", "{\"chat_template\": \"J\"}", "{\"chat_template\": \"A\"}"},
         "F",
         "F"},
        {{"chat_template.jinja", "additional_chat_templates/tool_use.jinja", "additional_chat_templates/rag.jinja"},
         {"F", "T", "R"},
         "F",
         "T"},
        {{"additional_chat_templates/tool_use.jinja"}, {"T"}, "T", "T"},
        /* White space at the seams of the two stays what it is alone. */
        {{"chat_template.jinja", "additional_chat_templates/tool_use.jinja"},
         {"\n  F {% if true %}\n x\n  {% endif %}\n", "\n\nT\n  \n"},
         "\n  F  x\n",
         "\n\nT\n  "},
        {{"chat_template.jinja", "additional_chat_templates/tool_use.jinja"},
         {"{%- set a = 1 -%}\r\n F{{ a }}\r\n", "{%- macro m() %} x {% endmacro %}{{ m() -}}  \n"},
         "F1",
         " x "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        folder f = make_folder();
        dop_diag diag = {0};
        dop_buf out = {0};
        for (size_t k = 0; k < 4 && rows[i].file[k]; k++)
            write_file(&f, rows[i].file[k], rows[i].text[k]);
        cr_assert_eq(dop_chat_of_dir(f.path, &diag, &out), DOP_OK, "row %zu: %s", i, diag.message);
        cr_expect_eq(out.size > 0, rows[i].plain != NULL, "row %zu", i);
        if (rows[i].plain) {
            expect_text(out.data, false, rows[i].plain);
            expect_text(out.data, true, rows[i].tools);
        }
        dop_buf_finish(&out);
        remove_folder(&f);
    }
}

Test(chat_files, what_is_no_template_is_named)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"{\"chat_template\": 3}", "is neither a text nor a list"},
        {"{\"chat_template\": [\"x\"]}", "is neither a text nor a list"},
        {"{\"chat_template\": [{\"name\": \"default\"}]}", "is neither a text nor a list"},
        {"{\"chat_template\": \"a\\u0000b\"}", "NUL"},
        {"[]", "not a JSON object"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        folder f = make_folder();
        dop_diag diag = {0};
        dop_buf out = {0};
        write_file(&f, "tokenizer_config.json", rows[i].text);
        cr_expect_eq(dop_chat_of_dir(f.path, &diag, &out), DOP_E_INPUT);
        cr_expect(strstr(diag.message, rows[i].why), "%s", diag.message);
        cr_expect(strstr(diag.path, "tokenizer_config.json"), "%s", diag.path);
        dop_buf_finish(&out);
        remove_folder(&f);
    }
}

/* A tokenizer with <s> 0, </s> 1, <turn> 2, "a" 3, <pre> 4, <suf> 5, <mid> 6; what a folder says about it in `config`,
 * tokenizer_config.json, and `more`, special_tokens_map.json (NULL: not there). */
static dop_tokenizer *
named_tokens(const char *config, const char *more, const char *generation)
{
    folder f = make_folder();
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    static const char *const special[] = {"<s>", "</s>", "<turn>", "a", "<pre>", "<suf>", "<mid>"};
    dop_buf b = {0};
    dop_buf_puts(&b, "{\"added_tokens\": [");
    for (int i = 0; i < 7; i++)
        if (i != 3)
            dop_buf_printf(&b, "%s{\"id\": %d, \"content\": \"%s\", \"special\": true}", i ? "," : "", i, special[i]);
    dop_buf_puts(&b, "], \"normalizer\": null, \"pre_tokenizer\": null, \"post_processor\": {\"type\": "
                     "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, "
                     "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], \"special_tokens\": {\"<s>\": "
                     "{\"id\": \"<s>\", \"ids\": [0], \"tokens\": [\"<s>\"]}}}, \"decoder\": null, \"model\": "
                     "{\"type\": \"BPE\", \"vocab\": {\"a\": 3");
    static const char *const letters[] = {"<", ">", "/", "s", "t", "u", "r", "n", "p", "e", "f", "m", "i", "d"};
    for (int i = 0; i < 14; i++)
        dop_buf_printf(&b, ", \"%s\": %d", letters[i], 10 + i);
    dop_buf_puts(&b, "}, \"merges\": []}}");
    write_file(&f, "tokenizer.json", b.data);
    if (config)
        write_file(&f, "tokenizer_config.json", config);
    if (more)
        write_file(&f, "special_tokens_map.json", more);
    if (generation)
        write_file(&f, "generation_config.json", generation);
    cr_assert_eq(dop_tokenizer_from_hf_dir(f.path, &diag, &t), DOP_OK, "%s", diag.message);
    dop_buf_finish(&b);
    remove_folder(&f);
    return t;
}

Test(chat_files, tokens_of_templates_are_those_of_the_tokenizer)
{
    static const struct {
        const char *config, *map, *generation, *want;
    } rows[] = {
        {"{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}", NULL, "{\"eos_token_id\": [2, 1]}", "[<s>][</s>]"},
        {"{\"eos_token\": {\"content\": \"</s>\", \"lstrip\": false}}", NULL, "{\"eos_token_id\": 2}", "[][</s>]"},
        {"{\"bos_token\": null, \"eos_token\": null}", NULL, "{\"bos_token_id\": 0, \"eos_token_id\": 1}", "[][]"},
        {"{\"bos_token\": null, \"eos_token\": null}", "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}", NULL,
         "[][]"},
        {"{}", "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"<turn>\"}", "{\"eos_token_id\": 1}",
         "[<s>][<turn>]"},
        {NULL, NULL, "{\"bos_token_id\": 0, \"eos_token_id\": [2, 1]}", "[<s>][<turn>]"},
        {"{\"eos_token\": \"<not there>\"}", NULL, "{\"eos_token_id\": 1}", "[][</s>]"},
        {NULL, NULL, NULL, "[][]"},
    };
    static const char template[] = "[{{ bos_token }}][{{ eos_token }}]";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_tokenizer *t = named_tokens(rows[i].config, rows[i].map, rows[i].generation);
        dop_chat *chat = NULL;
        dop_diag diag = {0};
        dop_buf blob = {0};
        dop_tokenizer *stored = NULL; /* as a plan keeps it */
        cr_assert_eq(dop_tokenizer_serialize(t, &blob), DOP_OK);
        cr_assert_eq(dop_tokenizer_from_blob(blob.data, blob.size, &diag, &stored), DOP_OK);
        json_t *none = json_array();
        cr_assert_eq(dop_chat_create(template, strlen(template), &diag, &chat), DOP_OK);
        for (int k = 0; k < 2; k++) {
            dop_buf out = {0};
            const dop_chat_input in = {.messages = none, .tokenizer = k ? stored : t};
            cr_assert_eq(dop_chat_render(chat, &in, &diag, &out), DOP_OK, "%s", diag.message);
            dop_buf_append(&out, "", 1);
            cr_expect_str_eq(out.data, rows[i].want, "row %zu: %s", i, out.data);
            dop_buf_finish(&out);
        }
        json_decref(none);
        dop_chat_destroy(chat);
        dop_tokenizer_destroy(stored);
        dop_tokenizer_destroy(t);
        dop_buf_finish(&blob);
    }
}

Test(chat_files, what_ends_generation_stays)
{
    dop_tokenizer *t = named_tokens("{\"eos_token\": \"</s>\"}", NULL, "{\"eos_token_id\": [2]}");
    cr_expect(dop_tokenizer_is_end(t, 1) && dop_tokenizer_is_end(t, 2) && !dop_tokenizer_is_end(t, 0));
    dop_tokenizer_destroy(t);
    t = named_tokens("{\"eos_token\": null}", NULL, "{\"eos_token_id\": [2]}");
    cr_expect(!dop_tokenizer_is_end(t, 1) && dop_tokenizer_is_end(t, 2));
    dop_tokenizer_destroy(t);
}

Test(chat_files, special_tokens_in_prompts)
{
    static const struct {
        const char *text;
        unsigned flags;
        const char *ids;
    } rows[] = {
        {"a", DOP_ENCODE_PROMPT, "0 3"},
        {"<s>a", DOP_ENCODE_PROMPT, "0 3"},
        {"<s><s>a", DOP_ENCODE_PROMPT, "0 0 3"},
        {"a<s>", DOP_ENCODE_PROMPT, "0 3 0"},
        {"", DOP_ENCODE_PROMPT, "0"},
        {"<s>", DOP_ENCODE_PROMPT, "0"},
        {"<pre>a<suf>a<mid>", DOP_ENCODE_PROMPT, "0 4 3 5 3 6"},
        {"<s>a", DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_PARSE_SPECIAL, "0 0 3"},
        {"<s>a", DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_ONCE, "0 10 13 11 3"}, /* letters */
        {"<pre>a", DOP_ENCODE_ADD_SPECIAL, "0 10 18 16 19 11 3"},
        {"<s>a", DOP_ENCODE_CHAT, "0 3"},
        {"a", DOP_ENCODE_CHAT, "0 3"},
    };
    dop_tokenizer *t = named_tokens("{\"bos_token\": \"<s>\"}", NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_ids ids = {0};
        dop_diag diag = {0};
        dop_buf got = {0};
        dop_ids_push(&ids, 77); /* what is there already stays */
        cr_assert_eq(dop_tokenizer_encode(t, rows[i].text, strlen(rows[i].text), rows[i].flags, &diag, &ids), DOP_OK,
                     "%s", diag.message);
        for (size_t k = 1; k < ids.count; k++)
            dop_buf_printf(&got, "%s%u", k > 1 ? " " : "", ids.data[k]);
        cr_expect_eq(ids.data[0], 77);
        cr_expect_str_eq(got.data, rows[i].ids, "row %zu: %s", i, got.data);
        dop_buf_finish(&got);
        dop_ids_finish(&ids);
    }
    dop_tokenizer_destroy(t);
}

Test(chat_files, what_stands_behind_a_text)
{
    dop_tokenizer *t = named_tokens("{\"eos_token\": \"</s>\", \"add_eos_token\": true}", NULL, NULL);
    static const struct {
        const char *text;
        unsigned flags;
        const uint32_t ids[4];
        size_t n;
    } rows[] = {
        {"a", DOP_ENCODE_PROMPT, {0, 3, 1}, 3}, {"a</s>", DOP_ENCODE_PROMPT, {0, 3, 1}, 3},
        {"a", DOP_ENCODE_CHAT, {0, 3}, 2},      {"a</s>", DOP_ENCODE_CHAT, {0, 3, 1}, 3},
        {"", DOP_ENCODE_PROMPT, {0, 1}, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_ids ids = {0};
        dop_diag diag = {0};
        cr_assert_eq(dop_tokenizer_encode(t, rows[i].text, strlen(rows[i].text), rows[i].flags, &diag, &ids), DOP_OK);
        cr_expect_eq(ids.count, rows[i].n, "row %zu", i);
        cr_expect(memcmp(ids.data, rows[i].ids, rows[i].n * sizeof *ids.data) == 0, "row %zu", i);
        dop_ids_finish(&ids);
    }
    dop_tokenizer_destroy(t);
}

Test(chat_files, templates_of_gguf_files)
{
    static const struct {
        const char *plain, *tools, *want, *want_tools; /* NULL: there is none */
    } rows[] = {{"P", "T", "P", "T"}, {"P\n", NULL, "P", "P"}, {NULL, NULL, NULL, NULL}, {NULL, "T", "T", "T"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        folder f = make_folder();
        char path[64];
        gguf_writer w = {.arch = "llama"};
        dop_gguf gguf = {0};
        dop_diag diag = {0};
        dop_tokenizer *t = NULL;
        dop_buf out = {0};
        snprintf(path, sizeof path, "%s/m.gguf", f.path);
        gguf_str(&w, "tokenizer.ggml.model", "llama");
        gguf_array(&w, "tokenizer.ggml.tokens", 8, 4);
        static const char *const tokens[] = {"<unk>", "<s>", "</s>", "<turn>"};
        for (int k = 0; k < 4; k++)
            gguf_put_str(&w.kvs, tokens[k]);
        gguf_array(&w, "tokenizer.ggml.scores", 6, 4);
        for (int k = 0; k < 4; k++)
            gguf_put_u32(&w.kvs, 0);
        gguf_array(&w, "tokenizer.ggml.token_type", 5, 4);
        for (int k = 0; k < 4; k++)
            gguf_put_u32(&w.kvs, k ? 3 : 2);
        gguf_u32(&w, "tokenizer.ggml.bos_token_id", 1);
        gguf_u32(&w, "tokenizer.ggml.eos_token_id", 2);
        gguf_u32(&w, "tokenizer.ggml.eot_token_id", 3);
        if (rows[i].plain)
            gguf_str(&w, "tokenizer.chat_template", rows[i].plain);
        if (rows[i].tools)
            gguf_str(&w, "tokenizer.chat_template.tool_use", rows[i].tools);
        cr_assert(gguf_save(&w, path));
        cr_assert_eq(dop_gguf_open(path, &diag, &gguf), DOP_OK, "%s", diag.message);
        cr_assert_eq(dop_chat_of_gguf(&gguf, &diag, &out), DOP_OK, "%s", diag.message);
        cr_expect_eq(out.size > 0, rows[i].want != NULL);
        if (rows[i].want) {
            expect_text(out.data, false, rows[i].want);
            expect_text(out.data, true, rows[i].want_tools);
        }
        cr_assert_eq(dop_tokenizer_from_gguf(&gguf, &diag, &t), DOP_OK, "%s", diag.message);
        size_t n;
        const char *kept = dop_tokenizer_chat_template(t, &n);
        cr_expect(rows[i].want ? n == out.size && memcmp(kept, out.data, n) == 0 : !kept);
        cr_expect(dop_tokenizer_bos(t) == 1 && dop_tokenizer_eos(t) == 2 && dop_tokenizer_is_end(t, 3));
        dop_tokenizer_destroy(t);
        dop_gguf_close(&gguf);
        dop_buf_finish(&out);
        remove_folder(&f);
    }
}
