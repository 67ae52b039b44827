#include "text/chat/chat.h"
#include "text/jinja/arena.h"
#include "text/jinja/eval.h"
#include "text/jinja/function.h"
#include "text/jinja/parse_block.h"
#include "text/jinja/value.h"

#include <stdlib.h>
#include <string.h>

#include "base/encoding/utf8.h"
#include "text/jinja/jinja.h"

enum { max_stop = 40 };

struct dop_chat {
    char *text;
    size_t len;
    char stop[max_stop + 1];
    const char *stops[2]; /* texts that end an answer, terminated by NULL: `stop` or none */
};

/* Built-in chat templates, for models without a template. */
#define TURNS(open, close_user, open_answer, system)                                                        \
    "{{ bos_token }}{% set ns = namespace(inside=false) %}{% for m in messages %}"                          \
    "{% if not ns.inside and m.role != 'assistant' %}{{ '" open "' }}{% set ns.inside = true %}{% endif %}" \
    "{% if m.role == 'system' %}{{ " system " }}"                                                           \
    "{% elif m.role == 'user' %}{{ m.content + '" close_user "' }}"                                         \
    "{% else %}{{ '" open_answer "' + m.content + eos_token }}{% set ns.inside = false %}{% endif %}{% endfor %}"

static const struct {
    const char *name, *text;
} builtins[] = {
    {"chatml", "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"gemma",
     "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
     "{% set ns.system = m.content | trim %}{% else %}"
     "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}"
     "{% if ns.system and m.role != 'assistant' %}{{ ns.system + '\\n\\n' }}{% set ns.system = '' %}{% endif %}"
     "{{ m.content | trim + '<end_of_turn>\\n' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"llama2", TURNS("[INST] ", " [/INST]", "", "m.content + '\\n'")},
    {"llama2-sys", TURNS("[INST] ", " [/INST]", "", "'<<SYS>>\\n' + m.content + '\\n<</SYS>>\\n\\n'")},
    {"llama3", "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n'"
               " + m.content | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
               "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"mistral", TURNS("[INST] ", " [/INST]", "", "m.content + '\\n'")},
    {"mistral-v1", TURNS(" [INST] ", " [/INST]", " ", "m.content + '\\n\\n'")},
    {"mistral-v3", TURNS("[INST] ", "[/INST]", " ", "m.content + '\\n\\n'")},
    {"mistral-v3-tekken", TURNS("[INST]", "[/INST]", "", "m.content + '\\n\\n'")},
    {"mistral-v7",
     "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
     "{{ '[SYSTEM_PROMPT] ' + m.content + '[/SYSTEM_PROMPT]' }}{% elif m.role == 'user' %}"
     "{{ '[INST] ' + m.content + '[/INST]' }}{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}"},
};

/* Checks the template's syntax at creation, so that a malformed template is rejected before a conversation starts. */
static dop_status
check_template_syntax(const dop_chat *c, dop_diag *diag)
{
    dop_j_ctx cx;
    dop_j_init(&cx, "chat template", NULL, diag);
    dop_j_parse(&cx, c->text, c->len);
    dop_j_free_all(&cx);
    return cx.status;
}

/* Probe conversations; the value is the number of messages. BEGINS: a question and the generation prompt. ENDS: a
 * question and its answer. GOES_ON: another question in addition. */
enum { BEGINS = 1, ENDS = 2, GOES_ON = 3 };

static dop_status
render_probe(const dop_chat *c, const char *answer, int n_messages, dop_diag *diag, dop_buf *out)
{
    static const char *const questions[] = {"A?", "B?"};
    json_t *messages = json_array();
    dop_status st = DOP_OK;
    for (int i = 0; i < n_messages; i++)
        if (json_array_append_new(messages, json_pack("{s:s, s:s}", "role", i == 1 ? "assistant" : "user", "content",
                                                      i == 1 ? answer : questions[i / 2])) != 0)
            st = DOP_NO_MEMORY(diag);
    const dop_chat_input in = {
        .messages = messages, .add_generation_prompt = n_messages == BEGINS, .bos_token = "", .eos_token = ""};
    if (st == DOP_OK)
        st = dop_chat_render(c, &in, diag, out);
    json_decref(messages);
    return st;
}

/* Returns the text after the last occurrence of an answer in a rendered conversation, or NULL if the answer does not
 * occur. */
static const char *
find_after_answer(const dop_buf *text, const char *answer, size_t *out_n)
{
    size_t n = strlen(answer);
    const char *found = NULL, *p = text->data, *end = text->size ? text->data + text->size : NULL;
    while (p && p < end && (p = memmem(p, (size_t)(end - p), answer, n)) != NULL)
        found = p += n;
    *out_n = found ? (size_t)(end - found) : 0;
    return found;
}

/* True if the template writes marks before an answer that are not in the generation prompt, so that the model writes
 * them. Answers then have parts (as in the harmony format), and the mark after the last part also ends other parts. */
static bool
answer_has_parts(const dop_buf *before, const dop_buf *whole, const char *answer)
{
    size_t same = 0, rest;
    const char *end = find_after_answer(whole, answer, &rest);
    size_t n = end ? (size_t)(end - whole->data) - strlen(answer) : 0;
    while (same < before->size && same < n && before->data[same] == whole->data[same])
        same++;
    return n > same && memmem(whole->data + same, n - same, "<|", 2) != NULL;
}

/* Finds the stop text: the mark in angle or square brackets that ends an answer. The template must write it after
 * the answer both at the end of a conversation and before another question. There is no stop text if the text after
 * an answer begins otherwise, or if the template rejects the probe conversations. */
static dop_status
find_stop_text(dop_chat *c, dop_diag *diag)
{
    static const char answer[] = "quite so 7291";
    dop_buf begins = {0}, ends = {0}, goes_on = {0};
    dop_diag refusal = {0};
    size_t n = 0, m = 0, same = 0;
    dop_status st = render_probe(c, answer, ENDS, &refusal, &ends);
    if (st == DOP_OK && (st = render_probe(c, answer, GOES_ON, &refusal, &goes_on)) == DOP_OK)
        st = render_probe(c, answer, BEGINS, &refusal, &begins);
    const char *a = st == DOP_OK ? find_after_answer(&ends, answer, &n) : NULL,
               *b = a ? find_after_answer(&goes_on, answer, &m) : NULL;
    while (b && same < n && same < m && a[same] == b[same])
        same++;
    while (same > 0 && (*a == ' ' || *a == '\n'))
        a++, same--;
    const char *close = same > 2 && (*a == '<' || *a == '[') ? memchr(a, *a == '<' ? '>' : ']', same) : NULL;
    if (close && close - a < max_stop && !answer_has_parts(&begins, &ends, answer)) {
        memcpy(c->stop, a, (size_t)(close - a) + 1);
        c->stops[0] = c->stop;
    }
    dop_buf_finish(&begins);
    dop_buf_finish(&ends);
    dop_buf_finish(&goes_on);
    return st == DOP_E_NOMEM ? DOP_NO_MEMORY(diag) : DOP_OK;
}

dop_status
dop_chat_create(const char *text, size_t len, dop_diag *diag, dop_chat **out_chat)
{
    *out_chat = NULL;
    if (len > J_MAX_TEXT)
        return DOP_FAIL(diag, DOP_E_INPUT, "the chat template has %zu bytes, more than %d", len, J_MAX_TEXT);
    if (dop_utf8_check(text, len) != len)
        return DOP_FAIL(diag, DOP_E_INPUT, "the chat template is not valid UTF-8");
    dop_chat *c = calloc(1, sizeof *c);
    if (!c || !(c->text = malloc(len + 1))) {
        free(c);
        return DOP_NO_MEMORY(diag);
    }
    memcpy(c->text, text, len);
    c->text[len] = 0;
    c->len = len;
    dop_status st = check_template_syntax(c, diag);
    if (st == DOP_OK)
        st = find_stop_text(c, diag);
    if (st != DOP_OK) {
        dop_chat_destroy(c);
        return st;
    }
    *out_chat = c;
    return DOP_OK;
}

dop_status
dop_chat_create_builtin(const char *name, dop_diag *diag, dop_chat **out_chat)
{
    dop_buf known = {0};
    *out_chat = NULL;
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
        if (strcmp(builtins[i].name, name) == 0) {
            dop_buf_finish(&known);
            return dop_chat_create(builtins[i].text, strlen(builtins[i].text), diag, out_chat);
        }
        dop_buf_printf(&known, "%s%s", i ? ", " : "", builtins[i].name);
    }
    dop_status st = DOP_FAIL(diag, DOP_E_INPUT, "chat format \"%.80s\" is not known; known are %s", name,
                             known.data ? known.data : "");
    dop_buf_finish(&known);
    return st;
}

dop_status
dop_chat_create_from_tokenizer(const dop_tokenizer *tok, dop_diag *diag, dop_chat **out_chat)
{
    size_t n;
    const char *text = dop_tokenizer_chat_template(tok, &n);
    *out_chat = NULL;
    if (!text)
        return DOP_FAIL(
            diag, DOP_E_INPUT,
            "the model has no chat template: prompt it with plain text, or give one with `dop_chat_of_template`");
    return dop_chat_create(text, n, diag, out_chat);
}

void
dop_chat_destroy(dop_chat *c)
{
    if (!c)
        return;
    free(c->text);
    free(c);
}

const char *
dop_chat_template(const dop_chat *c)
{
    return c->text;
}

const char *const *
dop_chat_stops(const dop_chat *c)
{
    return c->stops;
}

static dop_j_val
make_special_value(const char *given, const dop_tokenizer *tok, uint32_t id)
{
    size_t n;
    if (given)
        return dop_j_lit(given);
    const char *s = tok && id != DOP_NO_TOKEN ? dop_tokenizer_piece(tok, id, &n) : NULL;
    return s ? dop_j_text(s, n) : dop_j_lit("");
}

static void
define_variable(dop_j_ctx *cx, const char *name, dop_j_val v)
{
    dop_j_set(cx, &cx->root->vars, dop_j_lit(name), v);
}

static dop_status
check_messages(const json_t *messages, dop_diag *diag)
{
    if (!json_is_array(messages))
        return DOP_FAIL(diag, DOP_E_INPUT, "a conversation is a list of {\"role\", \"content\"}");
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (!json_is_string(json_object_get(json_array_get(messages, i), "role")))
            return DOP_FAIL(diag, DOP_E_INPUT, "message %zu of the conversation has no \"role\"", i + 1);
    return DOP_OK;
}

bool
dop_chat_reserved(const char *name)
{
    static const char *const names[] = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return dop_j_is_builtin(name);
}

static dop_status
check_extra_variables(const json_t *extra, dop_diag *diag)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)extra, key, v) if (dop_chat_reserved(key)) return DOP_FAIL(
        diag, DOP_E_INPUT, "\"%s\" is a name of the chat template's own and cannot be given", key);
    return DOP_OK;
}

static void
define_input_variables(dop_j_ctx *cx, const dop_chat_input *in)
{
    const dop_tokenizer *t = in->tokenizer;
    dop_j_val none = {.kind = J_NONE};
    const char *key;
    json_t *v;
    define_variable(cx, "messages", dop_j_from_json(cx, in->messages));
    define_variable(cx, "tools", in->tools ? dop_j_from_json(cx, in->tools) : none);
    define_variable(cx, "documents", none);
    define_variable(cx, "add_generation_prompt", dop_j_bool(in->add_generation_prompt));
    define_variable(cx, "bos_token", make_special_value(in->bos_token, t, t ? dop_tokenizer_bos(t) : DOP_NO_TOKEN));
    define_variable(cx, "eos_token", make_special_value(in->eos_token, t, t ? dop_tokenizer_eos(t) : DOP_NO_TOKEN));
    json_object_foreach((json_t *)(uintptr_t)in->extra, key, v) define_variable(cx, key, dop_j_from_json(cx, v));
}

dop_status
dop_chat_render(const dop_chat *chat, const dop_chat_input *in, dop_diag *diag, dop_buf *out)
{
    dop_j_scope root = {.up = NULL};
    dop_j_out text = {0};
    dop_j_ctx cx;
    dop_status st = check_messages(in->messages, diag);
    if (st == DOP_OK)
        st = check_extra_variables(in->extra, diag);
    if (st != DOP_OK)
        return st;
    dop_j_init(&cx, "chat template", in->budget, diag);
    cx.root = cx.scope = &root;
    cx.out = &text;
    time_t now = time(NULL);
    if (in->now)
        cx.now = *in->now;
    else
        localtime_r(&now, &cx.now);
    dop_j_parse(&cx, chat->text, chat->len);
    define_input_variables(&cx, in);
    cx.depth = 0;
    dop_j_run(&cx);
    if (cx.status == DOP_OK) {
        dop_buf_append(out, text.s ? text.s : "", text.n);
        if (out->failed)
            cx.status = DOP_NO_MEMORY(diag);
    }
    dop_j_free_all(&cx);
    return cx.status;
}

dop_status
dop_chat_render_added(const dop_chat *chat, const dop_chat_input *in, dop_diag *diag, dop_buf *out)
{
    dop_buf all = {0}, before = {0};
    dop_chat_input past = *in;
    json_t *head = NULL;
    dop_status st = dop_chat_render(chat, in, diag, &all);
    size_t n = json_array_size(in->messages);
    if (st != DOP_OK || n == 0)
        goto error;
    if (n > 1) {
        head = json_copy((json_t *)(uintptr_t)in->messages);
        if (!head || json_array_remove(head, n - 1) != 0) {
            st = DOP_NO_MEMORY(diag);
            goto error;
        }
        past.messages = head;
        past.add_generation_prompt = false;
        if ((st = dop_chat_render(chat, &past, diag, &before)) != DOP_OK)
            goto error;
    }
    size_t same = 0;
    while (same < before.size && same < all.size && before.data[same] == all.data[same])
        same++;
    if (same < before.size) {
        st = DOP_FAIL(diag, DOP_E_INPUT, "this chat template rewrites earlier messages; render the whole conversation");
        goto error;
    }
    if (in->add_generation_prompt && before.size && before.data[before.size - 1] == '\n')
        dop_buf_puts(out, "\n");
    dop_buf_append(out, all.data + same, all.size - same);
    if (out->failed)
        st = DOP_NO_MEMORY(diag);
error:
    json_decref(head);
    dop_buf_finish(&all);
    dop_buf_finish(&before);
    return st;
}

dop_status
dop_chat_encode(const dop_tokenizer *tok, const dop_buf *text, bool start, dop_budget *budget, dop_diag *diag,
                dop_ids *out_ids)
{
    return dop_tokenizer_encode_within(tok, text->data ? text->data : "", text->size,
                                       start ? (unsigned)DOP_ENCODE_CHAT : (unsigned)DOP_ENCODE_PARSE_SPECIAL, budget,
                                       diag, out_ids);
}
