/* Translates requests of Anthropic's Messages API to chat completions. */
#include "serve/protocols/messages_request.h"
#include "serve/api/api_json.h"
#include "serve/protocols/conversation.h"
#include "serve/protocols/protocol.h"

#include <string.h>

/* Position of a block in the messages, for error messages. */
typedef struct place {
    dop_reader *r;
    char name[64];
} place;

static bool
is_json_word(const json_t *text, const char *word)
{
    return json_is_string(text) && strcmp(json_string_value(text), word) == 0;
}

static void
refuse_block(const place *p, const char *why)
{
    dop_reader_refuse(p->r, "messages", "%s: %s", p->name, why);
}

/* --- contents ------------------------------------------------------------------------------------------------------------------ */

/* Appends the text of a block in a tool result or document, where only text is permitted. */
static void
append_plain_block(const place *p, const json_t *block, dop_buf *out)
{
    const json_t *type = json_object_get(block, "type"), *text = json_object_get(block, "text"), *one;
    size_t i;
    if (is_json_word(type, "search_result")) {
        const json_t *content = json_object_get(block, "content");
        if (!json_is_array(content))
            refuse_block(p, "content of a search_result is a list of text blocks");
        json_array_foreach(content, i, one)
        {
            text = json_object_get(one, "text");
            dop_buf_append(out, json_string_value(text), json_string_length(text));
        }
    } else if (is_json_word(type, "tool_reference") && json_is_string(json_object_get(block, "tool_name"))) {
        text = json_object_get(block, "tool_name"); /* a tool found by a search; the request's tools describe it */
        dop_buf_append(out, json_string_value(text), json_string_length(text));
    } else if (!is_json_word(type, "text") || !json_is_string(text)) {
        refuse_block(p, is_json_word(type, "image") ? "pictures are blocks of a user or of a tool_result"
                                                    : "a block here is {\"type\": \"text\", \"text\": ...}");
    } else {
        if (out->size)
            dop_buf_puts(out, "\n");
        dop_buf_append(out, json_string_value(text), json_string_length(text));
    }
}

/* Appends content that is a text or a list of text blocks. */
static void
append_plain_content(const place *p, const json_t *content, dop_buf *out)
{
    size_t i;
    const json_t *block;
    if (json_is_string(content))
        dop_buf_append(out, json_string_value(content), json_string_length(content));
    else if (content && !json_is_null(content) && !json_is_array(content))
        refuse_block(p, "content is a text or a list of blocks");
    json_array_foreach(content, i, block) append_plain_block(p, block, out);
}

/* Adds the text of a tool result so far to the conversation, before an image of that result. */
static void
flush_result_text(dop_conversation *t, dop_buf *text)
{
    json_t *whole = json_stringn(text->size ? text->data : "", text->size);
    dop_conversation_text(t, "tool", "", whole);
    json_decref(whole);
    dop_buf_finish(text);
}

static void
add_result_block(const place *p, const json_t *block, dop_conversation *t)
{
    const char *id = json_string_value(json_object_get(block, "tool_use_id"));
    const json_t *content = json_object_get(block, "content"), *one;
    dop_buf text = {0};
    size_t i;
    if (!id)
        refuse_block(p, "a tool_result has the id of its call as \"tool_use_id\"");
    if (!json_is_array(content))
        append_plain_content(p, content, &text);
    json_array_foreach(content, i, one)
    {
        if (!id || !is_json_word(json_object_get(one, "type"), "image")) {
            append_plain_block(p, one, &text);
            continue;
        }
        flush_result_text(t, &text);
        dop_conversation_picture(t, "tool", one);
    }
    if (id)
        dop_conversation_result(t, id, &text);
    dop_buf_finish(&text);
}

static void
add_document_text(const place *p, const json_t *block, dop_conversation *t)
{
    const json_t *source = json_object_get(block, "source"), *type = json_object_get(source, "type");
    const json_t *title = json_object_get(block, "title");
    dop_buf text = {0};
    if (is_json_word(type, "text") && json_is_string(json_object_get(source, "data")))
        append_plain_content(p, json_object_get(source, "data"), &text);
    else if (is_json_word(type, "content"))
        append_plain_content(p, json_object_get(source, "content"), &text);
    else
        refuse_block(p, "of documents this server reads those whose source is text or content");
    json_t *whole = json_stringn(text.size ? text.data : "", text.size);
    if (json_is_string(title))
        dop_conversation_text(t, "user", "\n", title);
    dop_conversation_text(t, "user", "\n", whole);
    json_decref(whole);
    dop_buf_finish(&text);
}

static void
add_user_block(const place *p, const json_t *block, const char *between, dop_conversation *t)
{
    const json_t *type = json_object_get(block, "type"), *text = json_object_get(block, "text");
    dop_buf found = {0};
    if (is_json_word(type, "text") && json_is_string(text)) {
        dop_conversation_text(t, "user", between, text);
    } else if (is_json_word(type, "image")) {
        dop_conversation_picture(t, "user", block);
    } else if (is_json_word(type, "tool_result")) {
        add_result_block(p, block, t);
    } else if (is_json_word(type, "document")) {
        add_document_text(p, block, t);
    } else if (is_json_word(type, "search_result")) {
        append_plain_block(p, block, &found);
        json_t *whole = json_stringn(found.size ? found.data : "", found.size);
        dop_conversation_text(t, "user", between, whole);
        json_decref(whole);
    } else {
        refuse_block(p, is_json_word(type, "text")
                            ? "a text block has its \"text\""
                            : "blocks of a user are text, image, tool_result, document or search_result");
    }
    dop_buf_finish(&found);
}

static void
add_assistant_block(const place *p, const json_t *block, dop_conversation *t)
{
    static const char *const others[] = {"redacted_thinking",
                                         "server_tool_use",
                                         "web_search_tool_result",
                                         "web_fetch_tool_result",
                                         "code_execution_tool_result",
                                         "bash_code_execution_tool_result",
                                         "text_editor_code_execution_tool_result",
                                         "tool_search_tool_result",
                                         "mcp_tool_use",
                                         "mcp_tool_result"};
    const json_t *type = json_object_get(block, "type"), *text = json_object_get(block, "text"),
                 *thinking = json_object_get(block, "thinking"), *input = json_object_get(block, "input"),
                 *content = json_object_get(block, "content");
    const char *id = json_string_value(json_object_get(block, "id")),
               *name = json_string_value(json_object_get(block, "name"));
    if (is_json_word(type, "text") && json_is_string(text)) {
        dop_conversation_text(t, "assistant", "", text);
    } else if (is_json_word(type, "compaction") &&
               json_is_string(content)) { /* a summary of the earlier conversation */
        dop_conversation_text(t, "assistant", "", content);
    } else if (is_json_word(type, "thinking") && json_is_string(thinking)) {
        dop_conversation_reasoning(t, thinking);
    } else if (is_json_word(type, "tool_use")) {
        if (!id || !name || (input && !json_is_object(input)))
            refuse_block(p, "a tool_use has an \"id\", a \"name\" and an \"input\", which is an object");
        else
            dop_conversation_call(t, id, name, input);
    } else {
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (is_json_word(type, others[i])) /* blocks that only Anthropic's servers can read are skipped */
                return;
        refuse_block(p, "blocks of an assistant are text, thinking or tool_use");
    }
}

static void
add_messages_message(dop_reader *r, size_t number, const json_t *message, dop_conversation *t)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    const json_t *role = json_object_get(message, "role"), *content = json_object_get(message, "content"), *block;
    const char *name = NULL;
    size_t i;
    place p = {.r = r};
    for (size_t k = 0; k < 3; k++)
        if (is_json_word(role, roles[k]))
            name = roles[k];
    snprintf(p.name, sizeof p.name, "messages.%zu", number);
    if (!name) {
        refuse_block(&p, "a message has the \"role\" user or assistant");
    } else if (json_is_string(content)) {
        dop_conversation_text(t, name, *name == 'a' ? "" : "\n\n", content);
    } else if (!json_is_array(content)) {
        refuse_block(&p, "content is a text or a list of blocks");
    } else if (json_array_size(content) == 0) {
        json_t *none = json_string("");
        dop_conversation_text(t, name, "", none);
        json_decref(none);
    } else {
        json_array_foreach(content, i, block)
        {
            snprintf(p.name, sizeof p.name, "messages.%zu.content.%zu", number, i);
            if (*name == 'a')
                add_assistant_block(&p, block, t);
            else if (*name == 'u')
                add_user_block(&p, block, i > 0 ? "\n" : "\n\n", t);
            else if (is_json_word(json_object_get(block, "type"), "text"))
                dop_conversation_text(t, "system", "\n\n", json_object_get(block, "text"));
            else
                refuse_block(&p, "blocks of a system message are text");
            if (r->failed)
                return;
        }
    }
}

/* True if the text is a client's billing header. It differs in every request, so it would defeat the prefix cache. */
static bool
is_billing_header(const json_t *text)
{
    static const char mark[] = "x-anthropic-billing-header:";
    return json_string_length(text) > strlen(mark) && strncmp(json_string_value(text), mark, strlen(mark)) == 0;
}

static void
add_system_text(dop_reader *r, dop_conversation *t)
{
    const json_t *system = dop_reader_get(r, "system"), *block;
    size_t i;
    if (json_is_string(system))
        dop_conversation_text(t, "system", "", system);
    else if (system && !json_is_array(system))
        dop_reader_refuse(r, "system", "system is a text or a list of text blocks");
    json_array_foreach(system, i, block)
    {
        const json_t *text = json_object_get(block, "text");
        if (!is_json_word(json_object_get(block, "type"), "text") || !json_is_string(text))
            dop_reader_refuse(r, "system", "system.%zu: a block here is {\"type\": \"text\", \"text\": ...}", i);
        else if (!is_billing_header(text))
            dop_conversation_text(t, "system", "\n\n", text);
    }
}

/* --- tools ------------------------------------------------------------------------------------------------------------------------ */

static json_t *
convert_messages_tools(dop_reader *r)
{
    enum { MOST = 20 };
    const json_t *tools = dop_reader_get(r, "tools"), *tool;
    const char *ignored[MOST];
    json_t *list = json_array();
    size_t i, n = 0;
    if (tools && !json_is_array(tools))
        dop_reader_refuse(r, "tools", "tools is a list");
    json_array_foreach(tools, i, tool)
    {
        const json_t *name = json_object_get(tool, "name"), *type = json_object_get(tool, "type"),
                     *schema = json_object_get(tool, "input_schema");
        const bool own = !type || json_is_null(type) || is_json_word(type, "custom");
        if (!own && json_is_string(type)) { /* a tool that Anthropic's servers run */
            if (n < MOST)
                ignored[n++] = json_string_value(type);
        } else if (!own || !json_is_string(name) || json_string_length(name) == 0 || !json_is_object(schema)) {
            dop_reader_refuse(r, "tools",
                              "tools.%zu: a tool has a \"name\" and an \"input_schema\", which is an object", i);
        } else {
            json_array_append_new(list, dop_tool_description(name, json_object_get(tool, "description"), schema,
                                                             json_object_get(tool, "strict")));
        }
    }
    if (!r->failed)
        dop_reader_ignore(r, "tools", ignored, n);
    return list;
}

static void
convert_messages_choice(dop_reader *r, json_t *out)
{
    const json_t *choice = dop_reader_get(r, "tool_choice"), *type = json_object_get(choice, "type"),
                 *name = json_object_get(choice, "name"),
                 *single = json_object_get(choice, "disable_parallel_tool_use");
    if (!choice)
        return;
    if (is_json_word(type, "auto") || is_json_word(type, "none"))
        json_object_set(out, "tool_choice", (json_t *)(uintptr_t)type);
    else if (is_json_word(type, "any"))
        json_object_set_new(out, "tool_choice", json_string("required"));
    else if (is_json_word(type, "tool") && json_is_string(name))
        json_object_set_new(
            out, "tool_choice",
            json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", (json_t *)(uintptr_t)name));
    else
        dop_reader_refuse(r, "tool_choice",
                          "tool_choice is {\"type\": auto, any, none, or tool with the \"name\" of one}");
    if (single && !json_is_boolean(single))
        dop_reader_refuse(r, "tool_choice", "disable_parallel_tool_use is true or false");
    if (json_is_true(single))
        json_object_set_new(out, "parallel_tool_calls", json_false());
}

/* --- the request ------------------------------------------------------------------------------------------------------------------- */

/* Reads whether the model should reason. */
static void
copy_thinking(dop_reader *r, json_t *out)
{
    const json_t *thinking = dop_reader_get(r, "thinking"), *type = json_object_get(thinking, "type"),
                 *budget = json_object_get(thinking, "budget_tokens");
    if (!thinking)
        return;
    if (!is_json_word(type, "enabled") && !is_json_word(type, "disabled") && !is_json_word(type, "adaptive"))
        dop_reader_refuse(r, "thinking", "thinking.type is enabled, adaptive or disabled");
    else if (budget && (!json_is_integer(budget) || json_integer_value(budget) < 1))
        dop_reader_refuse(r, "thinking", "thinking.budget_tokens is a whole number above 0");
    else
        json_object_set(out, "thinking", (json_t *)(uintptr_t)thinking);
}

/* Reads the answer's format and the reasoning effort. */
static void
convert_output_config(dop_reader *r, json_t *out)
{
    const json_t *config = dop_reader_get(r, "output_config"), *format = dop_reader_get(r, "output_format");
    if (config && !json_is_object(config))
        dop_reader_refuse(r, "output_config", "output_config is an object");
    const json_t *effort = json_object_get(config, "effort");
    if (json_is_object(json_object_get(config, "format")))
        format = json_object_get(config, "format");
    if (effort && !json_is_null(effort) && !json_is_string(effort))
        dop_reader_refuse(r, "output_config", "output_config.effort is a text");
    else if (json_is_string(effort))
        json_object_set(out, "reasoning_effort", (json_t *)(uintptr_t)effort);
    if (!format)
        return;
    if (!is_json_word(json_object_get(format, "type"), "json_schema") ||
        !json_is_object(json_object_get(format, "schema")))
        dop_reader_refuse(r, "output_format",
                          "the format of the answer is {\"type\": \"json_schema\", \"schema\": ...}");
    else
        json_object_set_new(out, "response_format",
                            json_pack("{s:s, s:{s:s, s:O}}", "type", "json_schema", "json_schema", "name", "answer",
                                      "schema", json_object_get(format, "schema")));
}

static void
copy_stop_sequences(dop_reader *r, json_t *out)
{
    const json_t *stops = dop_reader_get(r, "stop_sequences"), *one;
    size_t i;
    if (stops && !json_is_array(stops))
        dop_reader_refuse(r, "stop_sequences", "stop_sequences is a list of texts");
    json_array_foreach(stops, i, one) if (!json_is_string(one) || json_string_length(one) == 0 ||
                                          strlen(json_string_value(one)) != json_string_length(one))
        dop_reader_refuse(r, "stop_sequences", "stop_sequences.%zu: a stop sequence is a text that is not empty", i);
    if (stops)
        json_object_set(out, "stop", (json_t *)(uintptr_t)stops);
}

/* Copies members that have the same name in chat completions. Some clients send -1 for an unset top_p. */
static void
copy_same_members(dop_reader *r, json_t *out)
{
    static const char *const names[] = {"stream", "temperature", "top_p", "top_k", "model", "seed"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = dop_reader_get(r, names[i]);
        if (v && !(strcmp(names[i], "top_p") == 0 && json_number_value(v) == -1))
            json_object_set(out, names[i], (json_t *)(uintptr_t)v);
    }
}

/* Refuses threads, conversations kept by Anthropic's servers. After an error of this form, clients send the whole
 * conversation. */
static void
refuse_threads(dop_reader *r)
{
    if (r->failed || !dop_reader_get(r, "thread"))
        return;
    dop_answer_json(r->answer, 400,
                    json_pack("{s:s, s:{s:s, s:s, s:{s:s, s:[]}}}", "type", "error", "error", "type",
                              "invalid_request_error", "message",
                              "this server keeps no threads: send the whole conversation, without \"thread\"",
                              "details", "error_code", "thread_unsupported_request", "unsupported"));
    r->failed = true;
}

/* Marks members that only concern Anthropic's servers as read. */
static void
mark_anthropic_members(dop_reader *r)
{
    static const char *const names[] = {"anthropic_version", "anthropic_beta", "context_management", "container",
                                        "inference_geo",     "betas",          "cache_control",      "diagnostics"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)dop_reader_get(r, names[i]);
}

json_t *
dop_messages_translate(dop_reader *r, bool counts)
{
    json_t *out = json_object(), *tools;
    const json_t *messages = dop_reader_get(r, "messages"), *message;
    const int64_t most = dop_reader_whole(r, "max_tokens", 0, 1, INT64_MAX);
    dop_conversation t = {0};
    size_t i;
    if (most == 0 && !counts)
        dop_reader_refuse(r, "max_tokens", "max_tokens: Field required");
    if (most > 0)
        json_object_set_new(out, "max_tokens", json_integer((json_int_t)most));
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        dop_reader_refuse(r, "messages", "messages: a list of {\"role\", \"content\"} that is not empty");
    dop_reader_take_chat(r, out);
    copy_same_members(r, out);
    copy_stop_sequences(r, out);
    copy_thinking(r, out);
    convert_output_config(r, out);
    mark_anthropic_members(r);
    refuse_threads(r);
    tools = convert_messages_tools(r);
    if (json_array_size(tools) > 0)
        json_object_set(out, "tools", tools);
    json_decref(tools);
    convert_messages_choice(r, out);
    add_system_text(r, &t);
    json_array_foreach(messages, i, message)
    {
        if (!r->failed)
            add_messages_message(r, i, message, &t);
    }
    return dop_conversation_end(&t, r, out);
}
