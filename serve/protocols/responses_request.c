/* Translates requests of OpenAI's Responses API to chat completions. */
#include "serve/protocols/responses_request.h"
#include "serve/api/api_json.h"
#include "serve/protocols/conversation.h"
#include "serve/protocols/protocol.h"
#include "serve/protocols/responses_store.h"

#include <string.h>

static bool
is_json_text(const json_t *text, const char *word)
{
    return json_is_string(text) && strcmp(json_string_value(text), word) == 0;
}

void
dop_response_terms_finish(dop_response_terms *terms)
{
    json_decref(terms->echo);
    json_decref(terms->custom);
    json_decref(terms->items);
    *terms = (dop_response_terms){0};
}

/* --- items ------------------------------------------------------------------------------------------------------------------ */

/* Adds the text so far, and then an image, to a message with this role. */
static void
add_conversation_image(dop_conversation *t, const char *role, const json_t *part, dop_buf *text)
{
    json_t *whole = json_stringn(text->size ? text->data : "", text->size);
    dop_conversation_text(t, role, "\n\n", whole);
    dop_conversation_picture(t, role, part);
    json_decref(whole);
    dop_buf_finish(text);
}

/* Appends the texts of a content. Text before an image goes into a message with this role. role NULL: images are
 * refused. Returns false if the content is neither a text nor a list of parts. */
static bool
append_content_texts(dop_reader *r, size_t number, const json_t *content, const char *role, dop_conversation *t,
                     dop_buf *out)
{
    static const char *const kinds[][2] = {
        {"input_text", "text"}, {"output_text", "text"},    {"text", "text"},
        {"refusal", "refusal"}, {"reasoning_text", "text"}, {"summary_text", "text"},
    };
    const json_t *part;
    size_t i;
    if (json_is_string(content))
        dop_buf_append(out, json_string_value(content), json_string_length(content));
    json_array_foreach(content, i, part)
    {
        const json_t *type = json_object_get(part, "type"), *text = NULL;
        if (role && is_json_text(type, "input_image")) {
            add_conversation_image(t, role, part, out);
            continue;
        }
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds && !text; k++)
            if (is_json_text(type, kinds[k][0]))
                text = json_object_get(part, kinds[k][1]);
        if (!json_is_string(text)) {
            dop_reader_refuse(r, "input", "input[%zu].content[%zu]: %s", number, i,
                              is_json_text(type, "input_image") || is_json_text(type, "input_file")
                                  ? "this server reads texts, and pictures in messages and outputs"
                                  : "a part is {\"type\": \"input_text\" or \"output_text\", \"text\": ...}");
            return true;
        }
        dop_buf_append(out, json_string_value(text), json_string_length(text));
    }
    return json_is_string(content) || json_is_array(content);
}

static void
add_message_item(dop_reader *r, size_t number, const json_t *item, dop_conversation *t)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    const json_t *role = json_object_get(item, "role");
    const char *name = NULL;
    dop_buf text = {0};
    for (size_t i = 0; i < 4; i++)
        if (is_json_text(role, roles[i]))
            name = roles[i];
    if (!name)
        dop_reader_refuse(r, "input", "input[%zu]: the role of a message is user, assistant, system or developer",
                          number);
    /* Leading instructions are merged into one system message. */
    const bool first = json_array_size(t->messages) == 0 && (!t->role || strcmp(t->role, "system") == 0);
    if (name && strcmp(name, "developer") == 0 && first)
        name = "system";
    if (name && !append_content_texts(r, number, json_object_get(item, "content"), name, t, &text))
        dop_reader_refuse(r, "input", "input[%zu]: content is a text or a list of parts", number);
    json_t *whole = json_stringn(text.size ? text.data : "", text.size);
    if (name)
        dop_conversation_text(t, name, "\n\n", whole);
    json_decref(whole);
    dop_buf_finish(&text);
}

static void
add_call_item(dop_reader *r, size_t number, const json_t *item, bool custom, dop_conversation *t)
{
    const char *id = json_string_value(json_object_get(item, "call_id")),
               *name = json_string_value(json_object_get(item, "name"));
    const json_t *given = json_object_get(item, custom ? "input" : "arguments");
    if (!id || !name || !json_is_string(given)) {
        dop_reader_refuse(r, "input", "input[%zu]: a call has the texts \"call_id\", \"name\" and \"%s\"", number,
                          custom ? "input" : "arguments");
        return;
    }
    json_t *arguments =
        custom ? json_pack("{s:O}", "input", (json_t *)(uintptr_t)given) : json_incref((json_t *)(uintptr_t)given);
    dop_conversation_call(t, id, name, arguments);
    json_decref(arguments);
}

static void
add_output_item(dop_reader *r, size_t number, const json_t *item, dop_conversation *t)
{
    const char *id = json_string_value(json_object_get(item, "call_id"));
    dop_buf text = {0};
    if (!id)
        dop_reader_refuse(r, "input", "input[%zu]: an output has the \"call_id\" of its call", number);
    else if (!append_content_texts(r, number, json_object_get(item, "output"), "tool", t, &text))
        dop_reader_refuse(r, "input", "input[%zu]: output is a text or a list of parts", number);
    else
        dop_conversation_result(t, id, &text);
    dop_buf_finish(&text);
}

/* Reads reasoning: its content or, if empty, its summary. Encrypted reasoning is ignored, because only OpenAI can
 * read it. */
static void
add_reasoning_item(dop_reader *r, size_t number, const json_t *item, dop_conversation *t)
{
    const json_t *content = json_object_get(item, "content"), *summary = json_object_get(item, "summary");
    dop_buf text = {0};
    if ((content && !json_is_null(content) && !json_is_array(content)) || (summary && !json_is_array(summary)))
        dop_reader_refuse(r, "input", "input[%zu]: content and summary of reasoning are lists", number);
    else
        (void)append_content_texts(r, number, json_array_size(content) > 0 ? content : summary, NULL, t, &text);
    json_t *whole = json_stringn(text.size ? text.data : "", text.size);
    if (text.size)
        dop_conversation_reasoning(t, whole);
    json_decref(whole);
    dop_buf_finish(&text);
}

/* True if the item belongs to a tool that OpenAI's servers run, or that is not a function. Such items and tools are
 * ignored. */
static bool
is_hosted_tool_item(const json_t *type)
{
    static const char *const types[] = {"web_search_call",       "file_search_call",
                                        "image_generation_call", "code_interpreter_call",
                                        "computer_call",         "computer_call_output",
                                        "local_shell_call",      "local_shell_call_output",
                                        "mcp_list_tools",        "mcp_call",
                                        "mcp_approval_request",  "mcp_approval_response",
                                        "tool_search_call",      "tool_search_output"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (is_json_text(type, types[i]))
            return true;
    return false;
}

static void
add_input_item(dop_reader *r, size_t number, const json_t *item, dop_conversation *t)
{
    const json_t *type = json_object_get(item, "type");
    if (!json_is_object(item))
        dop_reader_refuse(r, "input", "input[%zu]: an item is an object", number);
    else if (!type || is_json_text(type, "message"))
        add_message_item(r, number, item, t);
    else if (is_json_text(type, "function_call"))
        add_call_item(r, number, item, false, t);
    else if (is_json_text(type, "custom_tool_call"))
        add_call_item(r, number, item, true, t);
    else if (is_json_text(type, "function_call_output") || is_json_text(type, "custom_tool_call_output"))
        add_output_item(r, number, item, t);
    else if (is_json_text(type, "reasoning"))
        add_reasoning_item(r, number, item, t);
    else if (!is_hosted_tool_item(type))
        dop_reader_refuse(r, "input",
                          "input[%zu]: an item is a message, function_call, function_call_output, custom_tool_call, "
                          "custom_tool_call_output or reasoning",
                          number);
}

void
dop_responses_take_items(dop_reader *r, const json_t *items, dop_conversation *turns)
{
    size_t i;
    const json_t *item;
    json_array_foreach(items, i, item)
    {
        if (r->failed)
            return;
        add_input_item(r, i, item, turns);
    }
}

/* --- tools ---------------------------------------------------------------------------------------------------------------------- */

/* True if a choice {"type": "allowed_tools"} permits this tool. allowed NULL: all tools. */
static bool
is_allowed_tool(const json_t *allowed, const json_t *name)
{
    size_t i;
    const json_t *one;
    json_array_foreach(allowed, i, one) if (json_equal(json_object_get(one, "name"), name)) return true;
    return !allowed;
}

/* Copies the tools. A custom tool becomes a function with one string argument, "input". */
static void
convert_response_tools(dop_reader *r, dop_response_terms *terms, const json_t *allowed, json_t *out)
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
        const json_t *type = json_object_get(tool, "type"), *name = json_object_get(tool, "name"),
                     *about = json_object_get(tool, "description"), *schema = json_object_get(tool, "parameters");
        const bool custom = is_json_text(type, "custom"), function = is_json_text(type, "function");
        if (json_is_string(type) && !custom && !function) { /* a tool that OpenAI's servers run */
            if (n < MOST)
                ignored[n++] = json_string_value(type);
        } else if (!json_is_string(type) || !json_is_string(name) || json_string_length(name) == 0 ||
                   (schema && !json_is_null(schema) && !json_is_object(schema))) {
            dop_reader_refuse(r, "tools", "tools[%zu] is not {\"type\": \"function\", \"name\", \"parameters\"}", i);
        } else if (is_allowed_tool(allowed, name)) {
            json_t *own = custom ? json_pack("{s:s, s:{s:{s:s}}, s:[s]}", "type", "object", "properties", "input",
                                             "type", "string", "required", "input")
                                 : json_incref((json_t *)(uintptr_t)schema);
            if (custom)
                json_object_set_new(terms->custom, json_string_value(name), json_true());
            json_array_append_new(list, dop_tool_description(name, about, json_is_null(own) ? NULL : own,
                                                             json_object_get(tool, "strict")));
            json_decref(own);
        }
    }
    if (!r->failed)
        dop_reader_ignore(r, "tools", ignored, n);
    if (json_array_size(list) > 0)
        json_object_set(out, "tools", list);
    json_decref(list);
    if (tools)
        json_object_set(terms->echo, "tools", (json_t *)(uintptr_t)tools);
    else
        json_object_set_new(terms->echo, "tools", json_array());
}

static void
convert_response_choice(dop_reader *r, dop_response_terms *terms, json_t *out)
{
    const json_t *choice = dop_reader_get(r, "tool_choice"), *type = json_object_get(choice, "type"), *allowed = NULL,
                 *name = json_object_get(choice, "name");
    if (is_json_text(type, "allowed_tools")) {
        allowed = json_object_get(choice, "tools");
        if (!json_is_array(allowed))
            dop_reader_refuse(r, "tool_choice", "tool_choice.tools is a list of tools");
        json_object_set(out, "tool_choice", json_object_get(choice, "mode"));
    } else if ((is_json_text(type, "function") || is_json_text(type, "custom")) && json_is_string(name)) {
        json_object_set_new(
            out, "tool_choice",
            json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", (json_t *)(uintptr_t)name));
    } else if (json_is_string(choice)) {
        json_object_set(out, "tool_choice", (json_t *)(uintptr_t)choice);
    } else if (choice) {
        dop_reader_refuse(r, "tool_choice", "tool_choice is none, auto, required, or a function by its name");
    }
    convert_response_tools(r, terms, allowed, out);
    if (choice)
        json_object_set(terms->echo, "tool_choice", (json_t *)(uintptr_t)choice);
    else
        json_object_set_new(terms->echo, "tool_choice", json_string("auto"));
}

/* --- the request ----------------------------------------------------------------------------------------------------------------- */

/* Reads the answer's format: {"format": {"type", "name", "schema", "strict"}}. */
static void
convert_text_format(dop_reader *r, dop_response_terms *terms, json_t *out)
{
    const json_t *text = dop_reader_get(r, "text"), *format = json_object_get(text, "format"),
                 *type = json_object_get(format, "type");
    if (text && !json_is_object(text))
        dop_reader_refuse(r, "text", "text is an object");
    json_t *echo = json_pack("{s:{s:s}}", "format", "type", "text");
    json_object_update(echo, (json_t *)(uintptr_t)text); /* `text` may have other members than "format" */
    json_object_set_new(terms->echo, "text", echo);
    if (!format || json_is_null(format) || is_json_text(type, "text"))
        return;
    if (is_json_text(type, "json_object"))
        json_object_set_new(out, "response_format", json_pack("{s:s}", "type", "json_object"));
    else if (is_json_text(type, "json_schema") && json_is_object(json_object_get(format, "schema")))
        json_object_set_new(out, "response_format",
                            json_pack("{s:s, s:O}", "type", "json_schema", "json_schema", (json_t *)(uintptr_t)format));
    else
        dop_reader_refuse(r, "text", "text.format is {\"type\": text, json_object, or json_schema with a \"schema\"}");
}

static void
echo_reasoning(dop_reader *r, dop_response_terms *terms)
{
    const json_t *reasoning = dop_reader_get(r, "reasoning"), *effort = json_object_get(reasoning, "effort");
    if (reasoning && !json_is_object(reasoning))
        dop_reader_refuse(r, "reasoning", "reasoning is an object");
    json_object_set_new(terms->echo, "reasoning",
                        json_pack("{s:O?, s:n}", "effort", (json_t *)(uintptr_t)effort, "summary"));
}

/* Reads whether log-probabilities are requested: "include": ["message.output_text.logprobs"]. */
static void
read_include(dop_reader *r, json_t *out)
{
    const json_t *include = dop_reader_get(r, "include"), *one;
    const int64_t top = dop_reader_whole(r, "top_logprobs", 0, 0, DOP_JOB_MAX_TOP);
    bool wanted = false;
    size_t i;
    if (include && !json_is_array(include))
        dop_reader_refuse(r, "include", "include is a list of texts");
    json_array_foreach(include, i, one)
    {
        if (!json_is_string(one))
            dop_reader_refuse(r, "include", "include is a list of texts");
        wanted |= is_json_text(one, "message.output_text.logprobs");
    }
    if (!wanted)
        return;
    json_object_set_new(out, "logprobs", json_true());
    json_object_set_new(out, "top_logprobs", json_integer((json_int_t)top));
}

/* Copies members that chat completions also have, and members that the answer repeats. */
static void
copy_response_members(const dop_api *api, dop_reader *r, dop_response_terms *terms, json_t *out)
{
    static const struct {
        const char *name, *chat;
        bool echo;
    } rows[] = {
        {"model", "model", false},
        {"stream", "stream", false},
        {"temperature", "temperature", true},
        {"top_p", "top_p", true},
        {"top_k", "top_k", false},
        {"seed", "seed", false},
        {"parallel_tool_calls", "parallel_tool_calls", true},
        {"max_output_tokens", "max_tokens", true},
        {"thinking", "thinking", false},
        {"instructions", NULL, true},
        {"metadata", NULL, true},
        {"truncation", NULL, true},
        {"user", NULL, true},
        {"stream_options", NULL, false},
        {"max_tool_calls", NULL, true},
        {"prompt_cache_key", NULL, false},
        {"client_metadata", NULL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *v = (json_t *)(uintptr_t)dop_reader_get(r, rows[i].name);
        if (rows[i].echo)
            json_object_set(terms->echo, rows[i].name, v ? v : json_null());
        if (v && rows[i].chat)
            json_object_set(out, rows[i].chat, v);
    }
    (void)dop_reader_whole(r, "max_output_tokens", 1, 1, INT64_MAX);
    const json_t *truncation = dop_reader_get(r, "truncation"), *metadata = dop_reader_get(r, "metadata");
    if (truncation && !is_json_text(truncation, "auto") && !is_json_text(truncation, "disabled"))
        dop_reader_refuse(r, "truncation", "truncation is auto or disabled");
    if (!truncation)
        json_object_set_new(terms->echo, "truncation", json_string("disabled"));
    if (metadata && !json_is_object(metadata))
        dop_reader_refuse(r, "metadata", "metadata is an object");
    if (!metadata)
        json_object_set_new(terms->echo, "metadata", json_object());
    if (json_is_null(json_object_get(terms->echo, "temperature")))
        json_object_set_new(terms->echo, "temperature",
                            json_real(api->sampling.temperature > 0 ? (double)api->sampling.temperature : 0));
    if (json_is_null(json_object_get(terms->echo, "top_p")))
        json_object_set_new(terms->echo, "top_p", json_real((double)api->sampling.top_p));
    if (json_is_null(json_object_get(terms->echo, "parallel_tool_calls")))
        json_object_set_new(terms->echo, "parallel_tool_calls", json_true());
}

/* Continues from the items of an earlier response. */
static void
load_earlier_response(const dop_api *api, dop_reader *r, const char *id, dop_response_settle *settle,
                      dop_response_terms *terms)
{
    json_t *earlier = dop_response_store_get(api->store, id, settle, false, &terms->items);
    if (!earlier) {
        r->failed = true;
        dop_answer_error(
            r->answer,
            &(dop_api_error){400, "invalid_request_error", "previous_response_not_found", "previous_response_id"},
            "Previous response with id '%.80s' not found.", id);
    } else if (is_json_text(json_object_get(earlier, "status"), "in_progress")) {
        dop_reader_refuse(r, "previous_response_id", "the response with id '%.80s' is still being made", id);
    }
    json_decref(earlier);
}

/* Reads the members that need stored responses. */
static void
read_state_members(const dop_api *api, dop_reader *r, dop_response_settle *settle, dop_response_terms *terms)
{
    static const char *const refused[] = {"conversation", "prompt"};
    const bool keeps = dop_reader_bool(r, "store", true), detached = dop_reader_bool(r, "background", false);
    size_t n;
    const char *earlier = dop_reader_text(r, "previous_response_id", &n);
    for (size_t i = 0; i < 2; i++)
        if (dop_reader_get(r, refused[i]))
            dop_reader_refuse(r, refused[i], "%s is not supported: send the items of the conversation as input",
                              refused[i]);
    if (earlier && !api->store)
        dop_reader_refuse(r, "previous_response_id",
                          "this server keeps no responses (--store): send the items of the conversation as input");
    else if (detached && !api->store)
        dop_reader_refuse(r, "background",
                          "this server keeps no responses (--store), so none is made in the background");
    else if (detached && api->models)
        dop_reader_refuse(r, "background", "a server of several models makes no response in the background");
    else if (detached && (!keeps || dop_reader_bool(r, "stream", false)))
        dop_reader_refuse(r, "background", "a response in the background is stored, and is no stream");
    else if (earlier && !r->failed)
        load_earlier_response(api, r, earlier, settle, terms);
    terms->keeps = keeps && api->store;
    terms->detached = detached;
    json_object_set_new(terms->echo, "previous_response_id", earlier ? json_string(earlier) : json_null());
    json_object_set_new(terms->echo, "store", json_boolean(terms->keeps));
    json_object_set_new(terms->echo, "background", json_boolean(detached));
}

/* Returns a new reference to the item of an earlier answer with this id; NULL: not stored. An item's id has the
 * digits of its response's id (make_item_id). *io_response: the last response read, which is often the next one, too. */
static json_t *
find_stored_item(const dop_api *api, const char *id, dop_response_settle *settle, json_t **io_response)
{
    const char *digits = strchr(id, '_');
    char name[sizeof((dop_call *)0)->id];
    const json_t *item;
    size_t i;
    snprintf(name, sizeof name, "resp_%.16s", digits ? digits + 1 : "");
    if (!is_json_text(json_object_get(*io_response, "id"), name)) {
        json_decref(*io_response);
        *io_response = dop_response_store_get(api->store, name, settle, false, NULL);
    }
    json_array_foreach(json_object_get(*io_response, "output"), i, item)
    {
        if (is_json_text(json_object_get(item, "id"), id))
            return json_incref((json_t *)(uintptr_t)item);
    }
    return NULL;
}

/* Replaces references to items of earlier answers by these items. */
static void
resolve_item_references(const dop_api *api, dop_reader *r, dop_response_settle *settle, json_t *items)
{
    enum { MOST = 1000 }; /* maximum references; each may require parsing a response */
    json_t *response = NULL, *item;
    size_t i, n = 0;
    json_array_foreach(items, i, item)
    {
        const char *id = json_string_value(json_object_get(item, "id"));
        if (!is_json_text(json_object_get(item, "type"), "item_reference") || r->failed)
            continue;
        json_t *found = id && api->store && ++n <= MOST ? find_stored_item(api, id, settle, &response) : NULL;
        if (found)
            json_array_set_new(items, i, found);
        else if (!api->store)
            dop_reader_refuse(
                r, "input",
                "input[%zu]: this server keeps no responses (--store): send the item itself, as clients do "
                "where \"store\" is false",
                i);
        else if (n > MOST)
            dop_reader_refuse(r, "input", "input has more than %d references", MOST);
        else
            dop_reader_refuse(r, "input", "Item with id '%.80s' not found.", id ? id : "");
    }
    json_decref(response);
}

static void
gather_input_items(const dop_api *api, dop_reader *r, dop_response_settle *settle, dop_response_terms *terms)
{
    const json_t *input = dop_reader_get(r, "input");
    if (!terms->items)
        terms->items = json_array();
    if (json_is_string(input))
        json_array_append_new(terms->items, json_pack("{s:s, s:s, s:O}", "type", "message", "role", "user", "content",
                                                      (json_t *)(uintptr_t)input));
    else if (json_is_array(input) && json_array_size(input) > 0)
        json_array_extend(terms->items, (json_t *)(uintptr_t)input);
    else
        dop_reader_refuse(r, "input", "input is a text, or a list of items that is not empty");
    resolve_item_references(api, r, settle, terms->items);
}

json_t *
dop_responses_translate(const dop_api *api, dop_reader *r, dop_response_settle *settle, dop_response_terms *out_terms)
{
    json_t *out = json_object();
    dop_conversation t = {0};
    size_t n;
    *out_terms = (dop_response_terms){.echo = json_object(), .custom = json_object()};
    const char *instructions = dop_reader_text(r, "instructions", &n);
    dop_reader_take_chat(r, out);
    copy_response_members(api, r, out_terms, out);
    convert_response_choice(r, out_terms, out);
    convert_text_format(r, out_terms, out);
    echo_reasoning(r, out_terms);
    read_include(r, out);
    read_state_members(api, r, settle, out_terms);
    gather_input_items(api, r, settle, out_terms);
    if (instructions && n > 0)
        dop_conversation_text(&t, "system", "", dop_reader_get(r, "instructions"));
    dop_responses_take_items(r, out_terms->items, &t);
    return dop_conversation_end(&t, r, out);
}
