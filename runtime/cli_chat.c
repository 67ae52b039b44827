/* Messages to the text and ids that a model's chat format makes of them. */
#include "runtime/cli_chat.h"

#include <stdlib.h>
#include <string.h>

dop_status
dop_cli_chat(const dop_plan *plan, const dop_tokenizer *tok, dop_diag *diag, dop_chat **out_chat)
{
    if (plan && plan->template_size > 0)
        return dop_chat_create(plan->chat_template, (size_t)plan->template_size, 0, diag, out_chat);
    return dop_chat_create_from_tokenizer(tok, 0, diag, out_chat);
}

dop_status
dop_chat_add_message(json_t *messages, const char *role, const char *text, size_t len, dop_diag *diag)
{
    json_t *content = json_stringn(text, len);
    if (!content)
        return DOP_FAIL(diag, DOP_E_INPUT, "the message is not valid UTF-8");
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    if (!message || json_array_append_new(messages, message) != 0)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    return DOP_OK;
}

dop_status
dop_chat_add_stops(const dop_chat *chat, dop_texts *stops, dop_diag *diag)
{
    dop_status st = DOP_OK;
    for (const char *const *s = dop_chat_stops(chat); s && *s && st == DOP_OK; s++)
        st = dop_texts_push(stops, *s, diag);
    return st;
}

dop_status
dop_chat_prompt(const dop_cli *cli, dop_generation *gen, const dop_buf *message, dop_diag *diag, dop_ids *out_ids)
{
    dop_chat *chat = NULL;
    dop_buf text = {0};
    dop_status st;
    if (cli->tokens || cli->tokens_file)
        return DOP_FAIL(diag, DOP_E_USAGE, "--chat takes a prompt in words: -p or -f");
    json_t *messages = json_array();
    if (!messages)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if ((st = dop_cli_chat(gen->info.plan, gen->tok, diag, &chat)) != DOP_OK ||
        (st = dop_chat_add_stops(chat, &gen->stops, diag)) != DOP_OK ||
        (st = dop_chat_add_message(messages, "user", message->data ? message->data : "", message->size, diag)) !=
            DOP_OK)
        goto error;
    dop_chat_input in = {.messages = messages, .add_generation_prompt = true, .tokenizer = gen->tok};
    if ((st = dop_chat_render(chat, &in, diag, &text)) == DOP_OK)
        st = dop_chat_encode(gen->tok, &text, true, diag, out_ids);
error:
    json_decref(messages);
    dop_chat_destroy(chat);
    dop_buf_finish(&text);
    return st;
}

/* An array of messages, or an object with "messages", "tools" and "add_generation_prompt" (true when absent). */
static dop_status
render_file(const dop_cli *cli, const dop_text_source *src, dop_diag *diag, dop_buf *out)
{
    dop_buf file = {0};
    dop_chat *chat = NULL;
    json_t *root = NULL;
    json_error_t error;
    dop_status st = dop_cli_read(cli->render_chat, diag, &file);
    if (st != DOP_OK)
        goto error;
    root = json_loadb(file.data ? file.data : "", file.size, 0, &error);
    if (!root) {
        st = DOP_FAIL_AT(diag, DOP_E_INPUT, cli->render_chat, error.line, error.column, "invalid JSON: %s", error.text);
        goto error;
    }
    const json_t *messages = json_is_object(root) ? json_object_get(root, "messages") : root;
    const json_t *tools = json_object_get(root, "tools"), *add = json_object_get(root, "add_generation_prompt");
    if (!json_is_array(messages)) {
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, cli->render_chat, "expected an array of {\"role\", \"content\"}");
        goto error;
    }
    if ((st = dop_cli_chat(src->plan.data ? &src->plan : NULL, src->tok, diag, &chat)) != DOP_OK)
        goto error;
    dop_chat_input in = {
        .messages = messages,
        .tools = json_is_array(tools) ? tools : NULL,
        .add_generation_prompt = !add || json_is_true(add),
        .tokenizer = src->tok,
    };
    st = dop_chat_render(chat, &in, diag, out);
error:
    json_decref(root);
    dop_chat_destroy(chat);
    dop_buf_finish(&file);
    return st;
}

dop_status
dop_mode_render_chat(dop_cli *cli, dop_diag *diag)
{
    dop_text_source src;
    dop_buf text = {0};
    dop_status st = dop_text_source_open(cli, "--render-chat", diag, &src);
    if (st == DOP_OK)
        st = render_file(cli, &src, diag, &text);
    if (st == DOP_OK && text.size > 0)
        st = dop_cli_print(text.data, text.size, diag);
    dop_text_source_close(&src);
    dop_buf_finish(&text);
    return st;
}
