/* doppler/text.h: tokenizer and chat template of a plan. */
#include "base/json/json.h"
#include "plan/prompts.h"
#include "runtime/library/text_internal.h"
#include "runtime/model/model.h"
#include "text/chat/chat.h"

#include <doppler/text.h>

#include <stdlib.h>
#include <string.h>

struct dop_text {
    dop_plan own;         /* plan opened by dop_text_open; zeroed otherwise */
    const dop_plan *plan; /* `own` or a model's plan; NULL: the tokenizer comes from a separate file */
    dop_tokenizer *tok;   /* owned */
    json_t *prompts;      /* owned: prompts from the model's files (dop_prompts_of); NULL: none */
};

struct dop_decoder {
    dop_text_stream stream;
    dop_buf out; /* result of the last call */
};

static dop_status
start_text(dop_text *t, const dop_plan *plan, dop_diag *diag)
{
    t->plan = plan;
    if (plan->tokenizer_size == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path, "the plan has no tokenizer: the model came without one");
    t->prompts = dop_prompts_of(plan);
    return dop_tokenizer_from_blob(plan->tokenizer, (size_t)plan->tokenizer_size, diag, &t->tok);
}

/* Ends every function that creates a text: passes it to the caller, or destroys it after a failure. */
static dop_status
give_new_text(dop_text *t, dop_status st, dop_text **out_text)
{
    if (st == DOP_OK)
        *out_text = t;
    else
        dop_text_destroy(t);
    return st;
}

dop_status
dop_text_of_model(const dop_model *model, dop_diag *diag, dop_text **out_text)
{
    dop_diag_clear(diag);
    *out_text = NULL;
    dop_text *t = calloc(1, sizeof *t);
    if (!t)
        return DOP_NO_MEMORY(diag);
    dop_status st = start_text(t, &model->plan, diag);
    return give_new_text(t, st, out_text);
}

dop_status
dop_text_open(const char *plan_path, dop_diag *diag, dop_text **out_text)
{
    dop_diag_clear(diag);
    *out_text = NULL;
    dop_text *t = calloc(1, sizeof *t);
    if (!t)
        return DOP_NO_MEMORY(diag);
    dop_status st = dop_plan_open(plan_path, diag, &t->own);
    if (st == DOP_OK)
        st = start_text(t, &t->own, diag);
    return give_new_text(t, st, out_text);
}

dop_status
dop_text_of_tokenizer(dop_tokenizer *tok, dop_diag *diag, dop_text **out_text)
{
    dop_text *t = calloc(1, sizeof *t);
    *out_text = t;
    if (!t) {
        dop_tokenizer_destroy(tok);
        return DOP_NO_MEMORY(diag);
    }
    t->tok = tok;
    return DOP_OK;
}

void
dop_text_destroy(dop_text *text)
{
    if (!text)
        return;
    dop_tokenizer_destroy(text->tok);
    json_decref(text->prompts);
    dop_plan_close(&text->own);
    free(text);
}

dop_status
dop_text_prompt(const dop_text *text, const char *name, dop_diag *diag, const char **out_prompt)
{
    dop_diag_clear(diag);
    return dop_prompts_find(text->prompts, name, diag, out_prompt);
}

const char *
dop_text_search_prompt(const dop_text *text, bool query)
{
    return dop_prompts_for(text->prompts, query);
}

/* Passes a list of ids to the caller, who frees it with dop_free. Frees it after a failure. */
static dop_status
give_ids(dop_status st, dop_ids *ids, dop_diag *diag, uint32_t **out_ids, size_t *out_n)
{
    if (st == DOP_OK && ids->failed)
        st = DOP_NO_MEMORY(diag);
    if (st == DOP_OK && ids->count > 0) {
        *out_ids = ids->data;
        *out_n = ids->count;
        memset(ids, 0, sizeof *ids);
    }
    dop_ids_finish(ids);
    return st;
}

static dop_status
give_bytes(dop_status st, dop_buf *bytes, dop_diag *diag, char **out_bytes, size_t *out_len)
{
    *out_bytes = NULL;
    *out_len = 0;
    dop_buf_append(bytes, "", 1); /* also if nothing was appended */
    if (st == DOP_OK && bytes->failed)
        st = DOP_NO_MEMORY(diag);
    if (st != DOP_OK) {
        dop_buf_finish(bytes);
        return st;
    }
    *out_bytes = bytes->data;
    *out_len = bytes->size - 1;
    return DOP_OK;
}

dop_status
dop_text_encode(const dop_text *text, const char *bytes, size_t len, unsigned flags, dop_diag *diag, uint32_t **out_ids,
                size_t *out_n)
{
    dop_diag_clear(diag);
    dop_ids ids = {0};
    unsigned how = (flags & DOP_TEXT_ADD_SPECIAL ? DOP_ENCODE_ADD_SPECIAL : 0) |
                   (flags & DOP_TEXT_ONCE ? DOP_ENCODE_ONCE : 0) |
                   (flags & DOP_TEXT_PARSE_SPECIAL ? DOP_ENCODE_PARSE_SPECIAL : 0);
    *out_ids = NULL;
    *out_n = 0;
    return give_ids(dop_tokenizer_encode(text->tok, bytes, len, how, diag, &ids), &ids, diag, out_ids, out_n);
}

dop_status
dop_text_encode_pair(const dop_text *text, const char *first, size_t n_first, const char *second, size_t n_second,
                     dop_diag *diag, uint32_t **out_ids, size_t *out_n, size_t *out_second)
{
    dop_diag_clear(diag);
    dop_ids ids = {0};
    *out_ids = NULL;
    *out_n = 0;
    dop_buf whole = {0};
    dop_status st;
    if (dop_prompts_pair(text->prompts, first, n_first, second, n_second, &whole)) {
        st = dop_tokenizer_encode(text->tok, whole.data, whole.size, DOP_ENCODE_PARSE_SPECIAL, diag, &ids);
        *out_second = ids.count;
    } else if (whole.failed) {
        st = DOP_NO_MEMORY(diag);
    } else {
        st = dop_tokenizer_encode_pair(text->tok, first, n_first, second, n_second, NULL, diag, &ids, out_second);
    }
    dop_buf_finish(&whole);
    return give_ids(st, &ids, diag, out_ids, out_n);
}

dop_status
dop_text_decode(const dop_text *text, const uint32_t *ids, size_t n, dop_diag *diag, char **out_bytes, size_t *out_len)
{
    dop_diag_clear(diag);
    dop_buf out = {0};
    dop_status st = dop_tokenizer_decode(text->tok, ids, n, DOP_DECODE_SKIP_SPECIAL, diag, &out);
    return give_bytes(st, &out, diag, out_bytes, out_len);
}

uint32_t
dop_text_vocab(const dop_text *text)
{
    return dop_tokenizer_vocab_size(text->tok);
}

bool
dop_text_adds_bos(const dop_text *text)
{
    return dop_tokenizer_adds_bos(text->tok);
}

const dop_plan *
dop_text_plan(const dop_text *text)
{
    return text->plan;
}

const dop_tokenizer *
dop_text_tokenizer(const dop_text *text)
{
    return text->tok;
}

bool
dop_text_is_end(const dop_text *text, uint32_t id)
{
    if (!text->plan)
        return dop_tokenizer_is_end(text->tok, id);
    const dop_plan_model *m = text->plan->model;
    for (uint32_t i = 0; i < m->n_end_ids; i++)
        if (m->end_ids[i] == id)
            return true;
    return false;
}

dop_status
dop_decoder_create(const dop_text *text, unsigned flags, dop_diag *diag, dop_decoder **out_decoder)
{
    dop_diag_clear(diag);
    dop_decoder *d = calloc(1, sizeof *d);
    *out_decoder = d;
    if (!d)
        return DOP_NO_MEMORY(diag);
    dop_text_stream_init(&d->stream, text->tok,
                         (flags & DOP_TEXT_KEEP_SPECIAL ? 0 : (unsigned)DOP_DECODE_SKIP_SPECIAL) |
                             (flags & DOP_TEXT_GOES_ON ? (unsigned)DOP_DECODE_CONTINUE : 0));
    return DOP_OK;
}

void
dop_decoder_destroy(dop_decoder *decoder)
{
    if (!decoder)
        return;
    dop_buf_finish(&decoder->out);
    free(decoder);
}

static dop_status
give_text(dop_decoder *d, dop_diag *diag, const char **out_bytes, size_t *out_len)
{
    *out_bytes = d->out.size ? d->out.data : "";
    *out_len = d->out.size;
    if (!d->out.failed)
        return DOP_OK;
    *out_bytes = "";
    *out_len = 0;
    dop_buf_finish(&d->out);
    return DOP_NO_MEMORY(diag);
}

dop_status
dop_decoder_push(dop_decoder *decoder, uint32_t id, dop_diag *diag, const char **out_bytes, size_t *out_len)
{
    dop_diag_clear(diag);
    *out_bytes = "";
    *out_len = 0;
    decoder->out.size = 0;
    DOP_RETURN_IF_ERROR(dop_text_stream_push(&decoder->stream, id, diag, &decoder->out));
    return give_text(decoder, diag, out_bytes, out_len);
}

dop_status
dop_decoder_end(dop_decoder *decoder, dop_diag *diag, const char **out_bytes, size_t *out_len)
{
    dop_diag_clear(diag);
    decoder->out.size = 0;
    dop_text_stream_flush(&decoder->stream, &decoder->out);
    return give_text(decoder, diag, out_bytes, out_len);
}

bool
dop_text_has_chat(const dop_text *text)
{
    size_t len;
    return (text->plan && text->plan->template_size > 0) || dop_tokenizer_chat_template(text->tok, &len);
}

dop_status
dop_chat_of_text(const dop_text *text, dop_diag *diag, dop_chat **out_chat)
{
    dop_diag_clear(diag);
    const dop_plan *plan = text->plan;
    *out_chat = NULL;
    if (plan && plan->template_size > 0)
        return dop_chat_create(plan->chat_template, (size_t)plan->template_size, diag, out_chat);
    return dop_chat_create_from_tokenizer(text->tok, diag, out_chat);
}

dop_status
dop_chat_of_template(const char *template_text, size_t len, dop_diag *diag, dop_chat **out_chat)
{
    dop_diag_clear(diag);
    return dop_chat_create(template_text, len, diag, out_chat);
}

dop_status
dop_chat_of_name(const char *name, dop_diag *diag, dop_chat **out_chat)
{
    dop_diag_clear(diag);
    return dop_chat_create_builtin(name, diag, out_chat);
}

static dop_status
render_chat_messages(const dop_text *t, const json_t *list, dop_diag *diag, dop_buf *out)
{
    dop_chat *chat = NULL;
    dop_status st = DOP_OK;
    DOP_TRY(dop_chat_of_text(t, diag, &chat));
    dop_chat_input in = {.messages = list, .add_generation_prompt = true, .tokenizer = t->tok};
    DOP_TRY(dop_chat_render(chat, &in, diag, out));
    if (out->failed)
        DOP_TRY(DOP_NO_MEMORY(diag));
error:
    dop_chat_destroy(chat);
    return st;
}

dop_status
dop_text_chat(const dop_text *text, const dop_message *messages, size_t n, dop_diag *diag, uint32_t **out_ids,
              size_t *out_n)
{
    dop_diag_clear(diag);
    dop_ids ids = {0};
    dop_buf rendered = {0};
    dop_status st = DOP_OK;
    *out_ids = NULL;
    *out_n = 0;
    json_t *list = json_array();
    for (size_t i = 0; i < n && list && st == DOP_OK; i++) {
        json_t *role = json_string(messages[i].role), *content = json_string(messages[i].content);
        if (role && content) {
            json_t *message = json_pack("{s:O, s:O}", "role", role, "content", content);
            if (json_array_append_new(list, message) != 0)
                st = DOP_NO_MEMORY(diag);
        } else {
            st = DOP_FAIL(diag, DOP_E_INPUT, "message %zu: role and content are texts in UTF-8", i);
        }
        json_decref(role);
        json_decref(content);
    }
    if (!list)
        st = DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st = render_chat_messages(text, list, diag, &rendered);
    if (st == DOP_OK)
        st = dop_chat_encode(text->tok, &rendered, true, NULL, diag, &ids);
    json_decref(list);
    dop_buf_finish(&rendered);
    return give_ids(st, &ids, diag, out_ids, out_n);
}

static dop_status
render_json(const dop_chat *chat, const dop_text *text, const char *json, size_t len, unsigned flags, dop_diag *diag,
            dop_buf *out)
{
    json_t *root;
    dop_status st = dop_json_decode(json, len, &(dop_json_how){.flags = DOP_JSON_EXACT}, diag, &root);
    if (st != DOP_OK)
        return st;
    const json_t *messages = json_is_object(root) ? json_object_get(root, "messages") : root;
    const json_t *tools = json_object_get(root, "tools"), *add = json_object_get(root, "add_generation_prompt");
    const dop_chat_input in = {
        .messages = messages,
        .tools = json_is_array(tools) ? tools : NULL,
        .add_generation_prompt = !add || json_is_true(add),
        .tokenizer = text->tok,
    };
    if (!json_is_array(messages))
        st = DOP_FAIL(diag, DOP_E_INPUT, "expected an array of {\"role\", \"content\"}");
    else if (flags & DOP_CHAT_LAST)
        st = dop_chat_render_added(chat, &in, diag, out);
    else
        st = dop_chat_render(chat, &in, diag, out);
    if (st == DOP_OK && out->failed)
        st = DOP_NO_MEMORY(diag);
    json_decref(root);
    return st;
}

dop_status
dop_chat_text(const dop_chat *chat, const dop_text *text, const char *json, size_t len, unsigned flags, dop_diag *diag,
              char **out_bytes, size_t *out_len)
{
    dop_diag_clear(diag);
    dop_buf out = {0};
    return give_bytes(render_json(chat, text, json, len, flags, diag, &out), &out, diag, out_bytes, out_len);
}

dop_status
dop_chat_ids(const dop_chat *chat, const dop_text *text, const char *json, size_t len, unsigned flags, dop_diag *diag,
             uint32_t **out_ids, size_t *out_n)
{
    dop_diag_clear(diag);
    dop_ids ids = {0};
    dop_buf rendered = {0};
    *out_ids = NULL;
    *out_n = 0;
    dop_status st = render_json(chat, text, json, len, flags, diag, &rendered);
    if (st == DOP_OK)
        st = dop_chat_encode(text->tok, &rendered, !(flags & DOP_CHAT_LAST), NULL, diag, &ids);
    dop_buf_finish(&rendered);
    return give_ids(st, &ids, diag, out_ids, out_n);
}
