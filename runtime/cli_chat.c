/* Messages to the text and ids that a model's chat format makes of them. */
#include "runtime/cli_chat.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

dop_status
dop_cli_chat_ids(const dop_chat *chat, const dop_text *text, const json_t *messages, unsigned flags, dop_diag *diag,
                 dop_ids *out_ids)
{
    uint32_t *ids;
    size_t n;
    dop_buf json = {0};
    dop_json_encode(&json, messages);
    dop_status st = json.failed ? DOP_FAIL(diag, DOP_E_NOMEM, "out of memory")
                                : dop_chat_ids(chat, text, json.data, json.size, flags, diag, &ids, &n);
    if (!json.failed)
        dop_cli_take_ids(ids, n, out_ids);
    dop_buf_finish(&json);
    return st;
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
    dop_status st;
    if (cli->tokens || cli->tokens_file)
        return DOP_FAIL(diag, DOP_E_USAGE, "--chat takes a prompt in words: -p or -f");
    json_t *messages = json_array();
    if (!messages)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if ((st = dop_chat_of_text(gen->text, diag, &chat)) != DOP_OK ||
        (st = dop_chat_add_stops(chat, &gen->stops, diag)) != DOP_OK ||
        (st = dop_chat_add_message(messages, "user", message->data ? message->data : "", message->size, diag)) !=
            DOP_OK)
        goto error;
    st = dop_cli_chat_ids(chat, gen->text, messages, 0, diag, out_ids);
error:
    json_decref(messages);
    dop_chat_destroy(chat);
    return st;
}

dop_status
dop_mode_render_chat(dop_cli *cli, dop_diag *diag)
{
    dop_text *text = NULL;
    dop_chat *chat = NULL;
    dop_buf file = {0};
    char *rendered = NULL;
    size_t n;
    dop_status st = dop_cli_text_open(cli, diag, &text);
    if (st != DOP_OK || (st = dop_cli_read(cli->render_chat, diag, &file)) != DOP_OK ||
        (st = dop_chat_of_text(text, diag, &chat)) != DOP_OK)
        goto error;
    st = dop_chat_text(chat, text, file.data ? file.data : "", file.size, 0, diag, &rendered, &n);
    if (st == DOP_OK)
        st = dop_cli_print(rendered, n, diag);
    else if (!diag->path[0])
        snprintf(diag->path, sizeof diag->path, "%s", cli->render_chat);
error:
    dop_free(rendered);
    dop_chat_destroy(chat);
    dop_text_destroy(text);
    dop_buf_finish(&file);
    return st;
}
