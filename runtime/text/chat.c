#include "runtime/text/chat.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/jinja/jinja.h"
#include "runtime/text/utf8.h"

struct dop_chat {
    char *text;
    size_t len;
    const char *family;
    const char *const *stops;
};

enum { max_marks = 3, max_stops = 4 };

/* A template is of the first format in the list all of whose marks it contains. */
typedef struct format_row {
    const char *family;
    const char *marks[max_marks];
    const char *stops[max_stops];
} format_row;

static const format_row formats[] = {
    {"gpt-oss", {"<|start|>", "<|message|>", "<|channel|>"}, {"<|return|>", "<|call|>"}},
    {"gemma", {"<start_of_turn>", "<end_of_turn>"}, {"<end_of_turn>"}},
    {"llama3", {"<|start_header_id|>", "<|end_header_id|>"}, {"<|eot_id|>", "<|eom_id|>"}},
    {"llama4", {"<|header_start|>", "<|header_end|>"}, {"<|eot|>", "<|eom|>"}},
    {"phi-4", {"<|im_start|>", "<|im_sep|>", "<|im_end|>"}, {"<|im_end|>"}},
    {"qwen3", {"<|im_start|>", "<|im_end|>", "</think>"}, {"<|im_end|>"}},
    {"qwen2.5", {"<|im_start|>", "<|im_end|>", "<tool_call>"}, {"<|im_end|>"}},
    {"chatml", {"<|im_start|>", "<|im_end|>"}, {"<|im_end|>"}},
    {"phi-3", {"<|end|>", "<|assistant|>"}, {"<|end|>"}},
    {"llama2", {"[INST]", "[/INST]", "<<SYS>>"}, {NULL}},
    {"mistral-v7", {"[INST]", "[/INST]", "[SYSTEM_PROMPT]"}, {NULL}},
    {"mistral-v3", {"[INST]", "[/INST]", "[AVAILABLE_TOOLS]"}, {NULL}},
    {"mistral", {"[INST]", "[/INST]"}, {NULL}},
};

enum { format_count = sizeof formats / sizeof *formats };

/* Formats by name, for models that bring no template. */
#define TURNS(open, close_user, open_answer, system)                                                        \
    "{{ bos_token }}{% set ns = namespace(inside=false) %}{% for m in messages %}"                          \
    "{% if not ns.inside and m.role != 'assistant' %}{{ '" open "' }}{% set ns.inside = true %}{% endif %}" \
    "{% if m.role == 'system' %}{{ " system " }}"                                                           \
    "{% elif m.role == 'user' %}{{ m.content + '" close_user "' }}"                                         \
    "{% else %}{{ '" open_answer "' + m.content + eos_token }}{% set ns.inside = false %}{% endif %}{% endfor %}"

static const struct {
    const char *name, *family, *text;
} builtins[] = {
    {"chatml", "chatml",
     "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"gemma", "gemma",
     "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
     "{% set ns.system = m.content | trim %}{% else %}"
     "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}"
     "{% if ns.system and m.role != 'assistant' %}{{ ns.system + '\\n\\n' }}{% set ns.system = '' %}{% endif %}"
     "{{ m.content | trim + '<end_of_turn>\\n' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"llama2", "mistral", TURNS("[INST] ", " [/INST]", "", "m.content + '\\n'")},
    {"llama2-sys", "llama2", TURNS("[INST] ", " [/INST]", "", "'<<SYS>>\\n' + m.content + '\\n<</SYS>>\\n\\n'")},
    {"llama3", "llama3",
     "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n'"
     " + m.content | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"mistral", "mistral", TURNS("[INST] ", " [/INST]", "", "m.content + '\\n'")},
    {"mistral-v1", "mistral", TURNS(" [INST] ", " [/INST]", " ", "m.content + '\\n\\n'")},
    {"mistral-v3", "mistral-v3", TURNS("[INST] ", "[/INST]", " ", "m.content + '\\n\\n'")},
    {"mistral-v3-tekken", "mistral-v3", TURNS("[INST]", "[/INST]", "", "m.content + '\\n\\n'")},
    {"mistral-v7", "mistral-v7",
     "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
     "{{ '[SYSTEM_PROMPT] ' + m.content + '[/SYSTEM_PROMPT]' }}{% elif m.role == 'user' %}"
     "{{ '[INST] ' + m.content + '[/INST]' }}{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}"},
};

static bool
has(const char *text, size_t n, const char *mark)
{
    return n && memmem(text, n, mark, strlen(mark)) != NULL;
}

static const format_row *
recognize(const char *text, size_t n)
{
    for (size_t i = 0; i < format_count; i++) {
        bool all = true;
        for (size_t k = 0; k < max_marks && formats[i].marks[k]; k++)
            all &= has(text, n, formats[i].marks[k]);
        if (all)
            return &formats[i];
    }
    return NULL;
}

/* Share of a format's marks, in pieces of four bytes, that a text has: 0 to 1000. */
static unsigned
likeness(const format_row *row, const char *text, size_t n)
{
    unsigned found = 0, all = 0;
    for (size_t k = 0; k < max_marks && row->marks[k]; k++) {
        const char *m = row->marks[k];
        for (size_t i = 0; i + 4 <= strlen(m); i++, all++)
            found += n && memmem(text, n, m + i, 4) != NULL;
    }
    return all ? found * 1000 / all : 0;
}

static dop_status
not_recognized(const char *text, size_t n, dop_diag *diag)
{
    dop_buf known = {0};
    size_t best = 0;
    for (size_t i = 0; i < format_count; i++) {
        dop_buf_printf(&known, "%s%s", i ? ", " : "", formats[i].family);
        if (likeness(&formats[i], text, n) > likeness(&formats[best], text, n))
            best = i;
    }
    dop_status st =
        DOP_FAIL(diag, DOP_E_INPUT, "the model's chat template is not one of the known formats (%s); the nearest is %s",
                 known.data ? known.data : "", formats[best].family);
    dop_buf_finish(&known);
    return st;
}

/* Checks the syntax once, so that a broken template is refused before a conversation starts. */
static dop_status
check_syntax(const dop_chat *c, dop_diag *diag)
{
    dop_j_ctx cx;
    dop_j_init(&cx, "chat template", NULL, diag);
    dop_j_parse(&cx, c->text, c->len);
    dop_j_free_all(&cx);
    return cx.status;
}

static dop_status
create(const char *text, size_t len, const char *family, const char *const *stops, dop_diag *diag, dop_chat **out_chat)
{
    dop_chat *c = calloc(1, sizeof *c);
    *out_chat = NULL;
    if (!c || !(c->text = malloc(len + 1))) {
        free(c);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    memcpy(c->text, text, len);
    c->text[len] = 0;
    c->len = len;
    c->family = family;
    c->stops = stops;
    dop_status st = check_syntax(c, diag);
    if (st != DOP_OK) {
        dop_chat_destroy(c);
        return st;
    }
    *out_chat = c;
    return DOP_OK;
}

dop_status
dop_chat_create(const char *text, size_t len, unsigned flags, dop_diag *diag, dop_chat **out_chat)
{
    static const char *const none[] = {NULL};
    *out_chat = NULL;
    if (len > J_MAX_TEXT)
        return DOP_FAIL(diag, DOP_E_INPUT, "the chat template has %zu bytes, more than %d", len, J_MAX_TEXT);
    if (dop_utf8_check(text, len) != len)
        return DOP_FAIL(diag, DOP_E_INPUT, "the chat template is not valid UTF-8");
    const format_row *row = recognize(text, len);
    if (!row && !(flags & DOP_CHAT_ANY))
        return not_recognized(text, len, diag);
    return create(text, len, row ? row->family : "unknown", row ? row->stops : none, diag, out_chat);
}

dop_status
dop_chat_create_builtin(const char *name, dop_diag *diag, dop_chat **out_chat)
{
    dop_buf known = {0};
    *out_chat = NULL;
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
        if (strcmp(builtins[i].name, name) != 0) {
            dop_buf_printf(&known, "%s%s", i ? ", " : "", builtins[i].name);
            continue;
        }
        const char *const *stops = NULL;
        for (size_t k = 0; k < format_count; k++)
            if (strcmp(formats[k].family, builtins[i].family) == 0)
                stops = formats[k].stops;
        dop_buf_finish(&known);
        return create(builtins[i].text, strlen(builtins[i].text), builtins[i].name, stops, diag, out_chat);
    }
    dop_status st = DOP_FAIL(diag, DOP_E_INPUT, "chat format \"%.80s\" is not known; known are %s", name,
                             known.data ? known.data : "");
    dop_buf_finish(&known);
    return st;
}

dop_status
dop_chat_create_from_tokenizer(const dop_tokenizer *tok, unsigned flags, dop_diag *diag, dop_chat **out_chat)
{
    size_t n;
    const char *text = dop_tokenizer_chat_template(tok, &n);
    *out_chat = NULL;
    if (!text)
        return DOP_FAIL(diag, DOP_E_INPUT, "the model has no chat template; prompt it with plain text");
    return dop_chat_create(text, n, flags, diag, out_chat);
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
dop_chat_family(const dop_chat *c)
{
    return c->family;
}

const char *const *
dop_chat_stops(const dop_chat *c)
{
    return c->stops;
}

static dop_j_val
special_text(const char *given, const dop_tokenizer *tok, uint32_t id)
{
    size_t n;
    if (given)
        return dop_j_lit(given);
    const char *s = tok && id != DOP_NO_TOKEN ? dop_tokenizer_piece(tok, id, &n) : NULL;
    return s ? dop_j_text(s, n) : dop_j_lit("");
}

static void
define(dop_j_ctx *cx, const char *name, dop_j_val v)
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
check_extra(const json_t *extra, dop_diag *diag)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)extra, key, v) if (dop_chat_reserved(key)) return DOP_FAIL(
        diag, DOP_E_INPUT, "\"%s\" is a name of the chat template's own and cannot be given", key);
    return DOP_OK;
}

static void
define_input(dop_j_ctx *cx, const dop_chat_input *in)
{
    const dop_tokenizer *t = in->tokenizer;
    dop_j_val none = {.kind = J_NONE};
    const char *key;
    json_t *v;
    define(cx, "messages", dop_j_from_json(cx, in->messages));
    define(cx, "tools", in->tools ? dop_j_from_json(cx, in->tools) : none);
    define(cx, "documents", none);
    define(cx, "add_generation_prompt", dop_j_bool(in->add_generation_prompt));
    define(cx, "bos_token", special_text(in->bos_token, t, t ? dop_tokenizer_bos(t) : DOP_NO_TOKEN));
    define(cx, "eos_token", special_text(in->eos_token, t, t ? dop_tokenizer_eos(t) : DOP_NO_TOKEN));
    json_object_foreach((json_t *)(uintptr_t)in->extra, key, v) define(cx, key, dop_j_from_json(cx, v));
}

dop_status
dop_chat_render(const dop_chat *chat, const dop_chat_input *in, dop_diag *diag, dop_buf *out)
{
    dop_j_scope root = {.up = NULL};
    dop_j_out text = {0};
    dop_j_ctx cx;
    dop_status st = check_messages(in->messages, diag);
    if (st == DOP_OK)
        st = check_extra(in->extra, diag);
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
    define_input(&cx, in);
    cx.depth = 0;
    dop_j_run(&cx);
    if (cx.status == DOP_OK) {
        dop_buf_append(out, text.s ? text.s : "", text.n);
        if (out->failed)
            cx.status = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
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
            st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
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
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
error:
    json_decref(head);
    dop_buf_finish(&all);
    dop_buf_finish(&before);
    return st;
}

dop_status
dop_chat_encode(const dop_tokenizer *tok, const dop_buf *text, bool start, dop_diag *diag, dop_ids *out_ids)
{
    uint32_t bos = dop_tokenizer_bos(tok);
    size_t len = 0;
    const char *written = bos != DOP_NO_TOKEN ? dop_tokenizer_piece(tok, bos, &len) : NULL;
    const char *data = text->data ? text->data : "";
    bool has_bos = written && len > 0 && text->size >= len && memcmp(data, written, len) == 0;
    unsigned flags = DOP_ENCODE_PARSE_SPECIAL;
    if (start && !has_bos)
        flags |= DOP_ENCODE_ADD_SPECIAL;
    return dop_tokenizer_encode(tok, data, text->size, flags, diag, out_ids);
}
