/* Conversion of chat messages to text and tokens with the model's chat format. */
#include "tools/doppler-exec/client/cli_chat.h"

#include "tools/doppler-exec/client/cli_images.h"
#include "tools/doppler-exec/common/cli_common.h"

#include "base/json/json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opens the format of --chat-template: a built-in name, otherwise a template file. */
static dop_status
open_template(const char *name, dop_diag *diag, dop_chat **out_chat)
{
    dop_buf text = {0};
    dop_status st = DOP_E_INPUT;
    if (!strpbrk(name, "/.")) {
        st = dop_chat_of_name(name, diag, out_chat);
        if (st != DOP_E_INPUT || access(name, F_OK) != 0)
            return st;
        *diag = (dop_diag){0};
    }
    if ((st = dop_cli_read(name, diag, &text)) == DOP_OK) {
        st = dop_chat_of_template(text.size ? text.data : "", text.size, diag, out_chat);
        if (st != DOP_OK && !diag->path[0])
            snprintf(diag->path, sizeof diag->path, "%s", name);
    }
    dop_buf_finish(&text);
    return st;
}

/* Tries --system with the template. Fails if the template rejects system messages; prints a note if it omits them. */
static dop_status
try_system(const dop_cli *cli, const dop_chat *chat, const dop_text *text, dop_diag *diag)
{
    dop_diag why = {0};
    json_t *messages =
        json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "system", "content", cli->system, "role", "user", "content", "?");
    char *json = messages ? json_dumps(messages, JSON_COMPACT) : NULL, *out = NULL;
    dop_status st = DOP_OK;
    const size_t blank = strspn(cli->system, " \t\r\n"), n = strlen(cli->system + blank);
    size_t size = 0;
    if (!json)
        st = DOP_FAIL(diag, DOP_E_INPUT, "--system is not valid UTF-8");
    else if (dop_chat_text(chat, text, json, strlen(json), 0, &why, &out, &size) != DOP_OK)
        st = DOP_FAIL(diag, DOP_E_INPUT, "--system: %s", why.message);
    else if (!cli->quiet && n > 0 && !memmem(out, size, cli->system + blank, n < 16 ? n : 16))
        fprintf(stderr, "doppler-exec: note: the model's chat format leaves out the system message of --system\n");
    json_decref(messages);
    free(json);
    dop_free(out);
    return st;
}

dop_status
dop_cli_chat_open(const dop_cli *cli, const dop_text *text, dop_diag *diag, dop_chat **out_chat)
{
    dop_status st = DOP_OK;
    *out_chat = NULL;
    if (cli->chat_template)
        DOP_TRY(open_template(cli->chat_template, diag, out_chat));
    else if (dop_text_has_chat(text))
        DOP_TRY(dop_chat_of_text(text, diag, out_chat));
    if (*out_chat && cli->system)
        DOP_TRY(try_system(cli, *out_chat, text, diag));
    else if (!*out_chat && cli->system)
        DOP_TRY(DOP_FAIL(diag, DOP_E_INPUT,
                         "--system: the model has no chat template; give one with --chat-template NAME|FILE"));
error:
    if (st != DOP_OK) {
        dop_chat_destroy(*out_chat);
        *out_chat = NULL;
    }
    return st;
}

/* Returns the messages with a system message first, unless they begin with one or `system` is NULL. The caller owns
 * the reference; NULL: out of memory. */
static json_t *
with_system(const char *system, json_t *messages)
{
    const char *first = json_string_value(json_object_get(json_array_get(messages, 0), "role"));
    if (!system || (first && (strcmp(first, "system") == 0 || strcmp(first, "developer") == 0)))
        return json_incref(messages);
    json_t *list = json_pack("[{s:s, s:s}]", "role", "system", "content", system);
    if (list && json_array_extend(list, messages) != 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

dop_status
dop_cli_chat_ids(const dop_chat *chat, const dop_text *text, const char *system, json_t *messages,
                 const dop_cli_images *images, dop_diag *diag, dop_ids *out_ids)
{
    uint32_t *ids = NULL;
    char *rendered = NULL;
    size_t n;
    json_t *all = with_system(system, messages);
    dop_buf json = {0};
    if (all)
        dop_json_encode(&json, all);
    json_decref(all);
    dop_status st = DOP_OK;
    if (!all || json.failed)
        DOP_TRY(DOP_NO_MEMORY(diag));
    if (images && images->n > 0) {
        const unsigned special = (unsigned)DOP_TEXT_ADD_SPECIAL | DOP_TEXT_ONCE | DOP_TEXT_PARSE_SPECIAL;
        DOP_TRY(dop_chat_text(chat, text, json.data, json.size, 0, diag, &rendered, &n));
        DOP_TRY(dop_cli_images_encode(images, text, rendered, n, special, diag, out_ids));
    } else {
        DOP_TRY(dop_chat_ids(chat, text, json.data, json.size, 0, diag, &ids, &n));
        dop_cli_take_ids(ids, n, out_ids);
    }
error:
    dop_free(rendered);
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
        return DOP_NO_MEMORY(diag);
    return DOP_OK;
}

dop_status
dop_cli_images_message(const dop_cli_images *x, size_t n, json_t *messages, const char *text, size_t len,
                       dop_diag *diag)
{
    char *marked = NULL;
    const size_t said = len;
    dop_status st = DOP_OK;
    if (n > 0)
        DOP_TRY(dop_images_mark(x->images, text, len, n, diag, &marked, &len));
    DOP_TRY(dop_chat_add_message(messages, "user", marked ? marked : text, len, diag));
    if (n > 0) {
        /* fields for doppler-exec; templates ignore them */
        json_t *message = json_array_get(messages, json_array_size(messages) - 1);
        if (json_object_set_new(message, "n_images", json_integer((json_int_t)n)) ||
            json_object_set_new(message, "said", json_stringn(text, said)))
            DOP_TRY(DOP_NO_MEMORY(diag));
    }
error:
    dop_free(marked);
    return st;
}

dop_status
dop_chat_add_stops(const dop_chat *chat, dop_texts *stops, dop_diag *diag)
{
    for (const char *const *s = dop_chat_stops(chat); s && *s; s++)
        DOP_RETURN_IF_ERROR(dop_texts_push(stops, *s, diag));
    return DOP_OK;
}

static dop_status
have_chat(const dop_chat *chat, dop_diag *diag)
{
    if (chat)
        return DOP_OK;
    return DOP_FAIL(diag, DOP_E_INPUT,
                    "the model has no chat template: prompt it with plain text, or give one with --chat-template "
                    "NAME|FILE");
}

dop_status
dop_chat_prompt(const dop_cli *cli, dop_cli_generation *gen, const dop_buf *message, const dop_cli_images *images,
                dop_diag *diag, dop_ids *out_ids)
{
    dop_chat *chat = NULL;
    dop_status st;
    if (cli->tokens || cli->tokens_file)
        return DOP_FAIL(diag, DOP_E_USAGE, "--chat takes a prompt in words: -p or -f");
    json_t *messages = json_array();
    if (!messages)
        return DOP_NO_MEMORY(diag);
    if ((st = dop_cli_chat_open(cli, gen->text, diag, &chat)) != DOP_OK || (st = have_chat(chat, diag)) != DOP_OK ||
        (st = dop_chat_add_stops(chat, &gen->stops, diag)) != DOP_OK ||
        (st = dop_cli_images_message(images, images->n, messages, message->data ? message->data : "", message->size,
                                     diag)) != DOP_OK)
        goto error;
    st = dop_cli_chat_ids(chat, gen->text, cli->system, messages, images, diag, out_ids);
error:
    json_decref(messages);
    dop_chat_destroy(chat);
    return st;
}

/* Inserts the message of --system into a JSON conversation: an array of messages, or an object with one. */
static dop_status
add_system(const char *system, dop_buf *io_json, dop_diag *diag)
{
    json_t *root = NULL;
    const dop_json_how how = {.flags = DOP_JSON_EXACT};
    if (dop_json_decode(io_json->data, io_json->size, &how, NULL, &root) != DOP_OK)
        return DOP_OK; /* rendering reports the JSON error */
    json_t *messages = json_is_object(root) ? json_object_get(root, "messages") : root;
    json_t *all = json_is_array(messages) ? with_system(system, messages) : json_incref(root);
    if (all && json_is_object(root) && messages)
        json_object_set(root, "messages", all);
    io_json->size = 0;
    if (all)
        dop_json_encode(io_json, json_is_object(root) ? root : all);
    const bool failed = !all;
    json_decref(all);
    json_decref(root);
    return failed || io_json->failed ? DOP_NO_MEMORY(diag) : DOP_OK;
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
        (st = dop_cli_chat_open(cli, text, diag, &chat)) != DOP_OK || (st = have_chat(chat, diag)) != DOP_OK ||
        (cli->system && (st = add_system(cli->system, &file, diag)) != DOP_OK))
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
