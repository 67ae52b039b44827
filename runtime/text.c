/* doppler/text.h: the tokenizer and chat template of a plan. */
#include "runtime/model.h"
#include "runtime/text/chat.h"
#include "runtime/text_internal.h"

#include <doppler/text.h>

#include <stdlib.h>
#include <string.h>

struct dop_text {
    dop_plan own;         /* of a text that was opened from a file; zeroed otherwise */
    const dop_plan *plan; /* own, or a model's */
    dop_tokenizer *tok;   /* owned */
};

struct dop_decoder {
    dop_text_stream stream;
    dop_buf out; /* what the last call gave out */
};

static dop_status
start(dop_text *t, const dop_plan *plan, dop_diag *diag)
{
    t->plan = plan;
    if (plan->tokenizer_size == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path, "the plan has no tokenizer: the model came without one");
    return dop_tokenizer_from_blob(plan->tokenizer, (size_t)plan->tokenizer_size, diag, &t->tok);
}

dop_status
dop_text_of_model(const dop_model *model, dop_diag *diag, dop_text **out_text)
{
    *out_text = NULL;
    dop_text *t = calloc(1, sizeof *t);
    if (!t)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    dop_status st = start(t, &model->plan, diag);
    if (st == DOP_OK)
        *out_text = t;
    else
        dop_text_destroy(t);
    return st;
}

dop_status
dop_text_open(const char *plan_path, dop_diag *diag, dop_text **out_text)
{
    *out_text = NULL;
    dop_text *t = calloc(1, sizeof *t);
    if (!t)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    dop_status st = dop_plan_open(plan_path, diag, &t->own);
    if (st == DOP_OK)
        st = start(t, &t->own, diag);
    if (st == DOP_OK)
        *out_text = t;
    else
        dop_text_destroy(t);
    return st;
}

void
dop_text_destroy(dop_text *text)
{
    if (!text)
        return;
    dop_tokenizer_destroy(text->tok);
    dop_plan_close(&text->own);
    free(text);
}

/* What was gathered becomes the caller's. */
static dop_status
give_ids(dop_status st, dop_ids *ids, dop_diag *diag, uint32_t **out_ids, size_t *out_n)
{
    if (st == DOP_OK && ids->failed)
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (st == DOP_OK && ids->count > 0) {
        *out_ids = ids->data;
        *out_n = ids->count;
        memset(ids, 0, sizeof *ids);
    }
    dop_ids_finish(ids);
    return st;
}

dop_status
dop_text_encode(const dop_text *text, const char *bytes, size_t len, unsigned flags, dop_diag *diag, uint32_t **out_ids,
                size_t *out_n)
{
    dop_ids ids = {0};
    unsigned how = (flags & DOP_TEXT_ADD_SPECIAL ? DOP_ENCODE_ADD_SPECIAL : 0) |
                   (flags & DOP_TEXT_PARSE_SPECIAL ? DOP_ENCODE_PARSE_SPECIAL : 0);
    *out_ids = NULL;
    *out_n = 0;
    return give_ids(dop_tokenizer_encode(text->tok, bytes, len, how, diag, &ids), &ids, diag, out_ids, out_n);
}

dop_status
dop_text_decode(const dop_text *text, const uint32_t *ids, size_t n, dop_diag *diag, char **out_bytes, size_t *out_len)
{
    dop_buf out = {0};
    *out_bytes = NULL;
    *out_len = 0;
    dop_status st = dop_tokenizer_decode(text->tok, ids, n, DOP_DECODE_SKIP_SPECIAL, diag, &out);
    dop_buf_append(&out, "", 1); /* also where nothing was appended */
    if (st == DOP_OK && out.failed)
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (st != DOP_OK) {
        dop_buf_finish(&out);
        return st;
    }
    *out_bytes = out.data;
    *out_len = out.size - 1;
    return DOP_OK;
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
    const dop_plan_model *m = text->plan->model;
    for (uint32_t i = 0; i < m->n_end_ids; i++)
        if (m->end_ids[i] == id)
            return true;
    return false;
}

dop_status
dop_decoder_create(const dop_text *text, bool goes_on, dop_diag *diag, dop_decoder **out_decoder)
{
    dop_decoder *d = calloc(1, sizeof *d);
    *out_decoder = d;
    if (!d)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    dop_text_stream_init(&d->stream, text->tok, DOP_DECODE_SKIP_SPECIAL | (goes_on ? DOP_DECODE_CONTINUE : 0));
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
    return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}

dop_status
dop_decoder_push(dop_decoder *decoder, uint32_t id, dop_diag *diag, const char **out_bytes, size_t *out_len)
{
    *out_bytes = "";
    *out_len = 0;
    decoder->out.size = 0;
    dop_status st = dop_text_stream_push(&decoder->stream, id, diag, &decoder->out);
    return st == DOP_OK ? give_text(decoder, diag, out_bytes, out_len) : st;
}

dop_status
dop_decoder_end(dop_decoder *decoder, dop_diag *diag, const char **out_bytes, size_t *out_len)
{
    decoder->out.size = 0;
    dop_text_stream_flush(&decoder->stream, &decoder->out);
    return give_text(decoder, diag, out_bytes, out_len);
}

static dop_status
render(const dop_text *t, const json_t *list, dop_diag *diag, dop_buf *out)
{
    dop_chat *chat = NULL;
    dop_status st = t->plan->template_size > 0
                        ? dop_chat_create(t->plan->chat_template, (size_t)t->plan->template_size, 0, diag, &chat)
                        : dop_chat_create_from_tokenizer(t->tok, 0, diag, &chat);
    dop_chat_input in = {.messages = list, .add_generation_prompt = true, .tokenizer = t->tok};
    if (st == DOP_OK)
        st = dop_chat_render(chat, &in, diag, out);
    if (st == DOP_OK && out->failed)
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    dop_chat_destroy(chat);
    return st;
}

dop_status
dop_text_chat(const dop_text *text, const dop_message *messages, size_t n, dop_diag *diag, uint32_t **out_ids,
              size_t *out_n)
{
    dop_ids ids = {0};
    dop_buf rendered = {0};
    dop_status st = DOP_OK;
    *out_ids = NULL;
    *out_n = 0;
    json_t *list = json_array();
    for (size_t i = 0; i < n && list && st == DOP_OK; i++) {
        json_t *content = json_string(messages[i].content);
        if (!content)
            st = DOP_FAIL(diag, DOP_E_INPUT, "message %zu is not valid UTF-8", i);
        else if (json_array_append_new(list, json_pack("{s:s, s:o}", "role", messages[i].role, "content", content)) !=
                 0)
            st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    if (!list)
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (st == DOP_OK)
        st = render(text, list, diag, &rendered);
    if (st == DOP_OK)
        st = dop_chat_encode(text->tok, &rendered, true, diag, &ids);
    json_decref(list);
    dop_buf_finish(&rendered);
    return give_ids(st, &ids, diag, out_ids, out_n);
}
