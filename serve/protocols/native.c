/* POST /completion and /infill, in the format of llama.cpp's server: continues a text, or fills in text between a
 * prefix and a suffix.
 *
 * Fill-in-the-middle models are trained with special tokens before the parts of a text.  The prompt is
 *     [REPO name SEP file text SEP file text ... SEP file]  PREFIX prefix  SUFFIX suffix  MIDDLE prompt
 * and the answer is its continuation. */
#include "serve/protocols/native.h"
#include "serve/api/api_answer.h"
#include "serve/api/api_json.h"
#include "serve/api/api_read.h"
#include "serve/api/api_request.h"
#include "serve/protocols/protocol.h"

#include <stdlib.h>
#include <string.h>

typedef enum mark { PREFIX, SUFFIX, MIDDLE, REPO, SEPARATOR, MARKS } mark;

/* Spellings of the special tokens in published models, for finding them in a tokenizer. */
static const char *const forms[MARKS][9] = {
    [PREFIX] = {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<\uff5cfim\u2581begin\uff5c>", "<|code_prefix|>",
                "<PRE>", "\u2581<PRE>", "[PREFIX]"},
    [SUFFIX] = {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<\uff5cfim\u2581hole\uff5c>", "<|code_suffix|>",
                "<SUF>", "\u2581<SUF>", "[SUFFIX]"},
    [MIDDLE] = {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<\uff5cfim\u2581end\uff5c>", "<|code_middle|>",
                "<MID>", "\u2581<MID>", "[MIDDLE]"},
    [REPO] = {"<|fim_repo|>", "<|repo_name|>", "<reponame>", "<fim-repo>", "<REPO>"},
    [SEPARATOR] = {"<|file_sep|>", "<|file_separator|>", "<file_sep>"},
};

static uint32_t
find_fim_token(const dop_tokenizer *tok, mark m)
{
    uint32_t id = DOP_NO_TOKEN;
    for (size_t i = 0; forms[m][i] && id == DOP_NO_TOKEN; i++)
        id = dop_tokenizer_find(tok, forms[m][i], strlen(forms[m][i]));
    return id;
}

/* --- the prompt ------------------------------------------------------------------------------------------------------------- */

typedef struct filling {
    const dop_api *api;
    dop_reader r;
    dop_budget *budget;
    json_t *ids; /* token ids of the prompt */
} filling;

/* Appends the ids of a text, in which special tokens are not recognized. */
static void
append_text_ids(filling *f, const char *param, const char *text, size_t n)
{
    dop_ids ids = {0};
    dop_diag diag = {0};
    if (n > 0 && dop_tokenizer_encode_within(f->api->tok, text, n, 0, f->budget, &diag, &ids) != DOP_OK)
        dop_reader_fail(&f->r, param, &diag, f->budget);
    for (size_t i = 0; i < ids.count; i++)
        json_array_append_new(f->ids, json_integer(ids.data[i]));
    dop_ids_finish(&ids);
}

static void
append_prompt_id(filling *f, uint32_t id)
{
    json_array_append_new(f->ids, json_integer(id));
}

/* Appends the token that the tokenizer puts before texts. */
static void
append_beginning_ids(filling *f)
{
    dop_ids ids = {0};
    dop_diag diag = {0};
    if (dop_tokenizer_encode_within(f->api->tok, "", 0, DOP_ENCODE_ADD_SPECIAL, f->budget, &diag, &ids) != DOP_OK)
        dop_reader_fail(&f->r, NULL, &diag, f->budget);
    if (ids.count > 0) /* tokens put after the text are omitted */
        append_prompt_id(f, ids.data[0]);
    dop_ids_finish(&ids);
}

static void
append_member_ids(filling *f, const char *name)
{
    size_t n;
    const char *text = dop_reader_text(&f->r, name, &n);
    append_text_ids(f, name, text ? text : "", n);
}

/* Appends the texts of other files, which precede the prompt. */
static void
append_extra_files(filling *f)
{
    const json_t *extra = dop_reader_get(&f->r, "input_extra"), *one;
    const uint32_t repo = find_fim_token(f->api->tok, REPO), separator = find_fim_token(f->api->tok, SEPARATOR);
    size_t i;
    if (extra && !json_is_array(extra))
        dop_reader_refuse(&f->r, "input_extra", "input_extra is a list of {\"filename\", \"text\"}");
    if (json_array_size(extra) > 0 && repo != DOP_NO_TOKEN) {
        append_prompt_id(f, repo);
        append_text_ids(f, "input_extra", "project\n", strlen("project\n"));
    }
    json_array_foreach(extra, i, one)
    {
        const json_t *name = json_object_get(one, "filename"), *text = json_object_get(one, "text");
        if (!json_is_string(text) || (name && !json_is_string(name))) {
            dop_reader_refuse(&f->r, "input_extra", "input_extra[%zu] is not {\"filename\", \"text\"}", i);
            return;
        }
        if (separator != DOP_NO_TOKEN) {
            append_prompt_id(f, separator);
            append_text_ids(f, "input_extra", json_string_value(name), json_string_length(name));
            append_text_ids(f, "input_extra", "\n", 1);
        }
        append_text_ids(f, "input_extra", json_string_value(text), json_string_length(text));
    }
    if (json_array_size(extra) > 0 && separator != DOP_NO_TOKEN) {
        append_prompt_id(f, separator);
        append_text_ids(f, "input_extra", "file\n", strlen("file\n"));
    }
}

/* --- the answer --------------------------------------------------------------------------------------------------------------- */

/* Returns the final members of a complete answer. Takes ownership of the text. */
static json_t *
make_native_ending(const dop_call *c, const dop_news *news, json_t *text)
{
    const dop_job_state *s = &news->state;
    const double read_ms = s->first_ms > 0 ? s->first_ms - s->submitted_ms : 0,
                 write_ms = s->first_ms > 0 ? s->last_ms - s->first_ms : 0;
    const json_int_t n_read = (json_int_t)s->n_prompt - s->n_reused, n_written = s->n_tokens;
    json_t *timings =
        json_pack("{s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f}", "cache_n", (json_int_t)s->n_reused, "prompt_n",
                  n_read, "prompt_ms", read_ms, "prompt_per_token_ms", n_read > 0 ? read_ms / (double)n_read : 0,
                  "prompt_per_second", read_ms > 0 ? 1e3 * (double)n_read / read_ms : 0, "predicted_n", n_written,
                  "predicted_ms", write_ms, "predicted_per_token_ms", n_written > 0 ? write_ms / (double)n_written : 0,
                  "predicted_per_second", write_ms > 0 ? 1e3 * (double)n_written / write_ms : 0);
    const char *why = s->end == DOP_JOB_LENGTH ? "limit" : s->end == DOP_JOB_STOP_TEXT ? "word" : "eos";
    json_t *all =
        json_pack("{s:i, s:o, s:b, s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:o}", "index", 0, "content", text, "stop", 1,
                  "model", c->api->facts.name, "stop_type", why, "stopping_word", s->stop ? s->stop : "",
                  "tokens_predicted", (json_int_t)s->n_tokens, "tokens_evaluated", (json_int_t)s->n_prompt,
                  "tokens_cached", (json_int_t)s->n_reused, "truncated", 0, "timings", timings);
    if (c->logprobs)
        json_object_set_new(all, "completion_probabilities", dop_call_logprobs(c));
    return all;
}

static void
write_whole_native(dop_call *c, const dop_news *news, dop_answer *answer)
{
    json_t *all = make_native_ending(c, news, dop_json_text(news->content, news->n_content));
    dop_json_encode(&answer->body, all);
    answer->body.failed |= !all;
    json_decref(all);
}

static void
write_native_stream(dop_call *c, const dop_news *news, dop_answer *answer)
{
    if (news->n_content)
        dop_answer_event(answer, NULL,
                         json_pack("{s:i, s:o, s:b}", "index", 0, "content",
                                   dop_json_text(news->content, news->n_content), "stop", 0));
    if (news->ended && news->good) {
        dop_answer_event(answer, NULL, make_native_ending(c, news, json_string("")));
    } else if (news->ended) {
        dop_answer error = {0};
        dop_answer_failure(&error, &news->state);
        dop_buf_printf(&answer->body, "data: %s\n\n", error.body.data ? error.body.data : "{}");
        dop_answer_finish(&error);
    }
}

static const dop_writer writer = {
    .id = "native", .whole = write_whole_native, .stream = write_native_stream, .finish = free};

/* Begins a completions call with one answer for the request. The prompt's ids are in f->ids. */
static void
begin_native_call(filling *f, const dop_api_request *request, json_t *completion, dop_answer *answer,
                  dop_call **out_call)
{
    (void)dop_reader_whole(&f->r, "n", 1, 1, 1);
    const int64_t n_probs = dop_reader_whole(&f->r, "n_probs", 0, 0, DOP_JOB_MAX_TOP);
    json_object_del(completion, "n_probs");
    if (n_probs > 0)
        json_object_set_new(completion, "logprobs", json_integer(n_probs));
    if (!f->r.failed && completion)
        *out_call = dop_call_begin(f->api, request, completion,
                                   (dop_call_how){.kind = DOP_CALL_COMPLETION, .writer = &writer}, answer);
    json_decref(completion);
    json_decref(f->ids);
}

/* Reads the prompt of POST /completion: a text, token ids, or a list of both. Its texts may have special tokens. */
static void
read_native_prompt(filling *f, json_t *completion)
{
    const json_t *prompt = dop_reader_get(&f->r, "prompt"), *one;
    bool texts = false;
    size_t i;
    if (json_is_array(prompt) && json_array_size(prompt) == 1 && json_is_string(json_array_get(prompt, 0)))
        json_object_set(completion, "prompt", json_array_get(prompt, 0));
    if (!json_is_array(prompt) || json_array_size(prompt) < 2)
        return;
    json_array_foreach(prompt, i, one)
    {
        texts = texts || json_is_string(one);
        if (!json_is_string(one) && !json_is_integer(one))
            dop_reader_refuse(&f->r, "prompt",
                              "a prompt is a text, or a list of token ids and texts; /v1/completions takes several");
    }
    json_array_foreach(prompt, i, one)
    {
        dop_ids ids = {0};
        dop_diag diag = {0};
        const unsigned flags = DOP_ENCODE_PARSE_SPECIAL | (i == 0 ? DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_ONCE : 0);
        if (!json_is_string(one))
            json_array_append(f->ids, (json_t *)(uintptr_t)one);
        else if (!f->r.failed &&
                 dop_tokenizer_encode_within(f->api->tok, json_string_value(one), json_string_length(one), flags,
                                             f->budget, &diag, &ids) != DOP_OK)
            dop_reader_fail(&f->r, "prompt", &diag, f->budget);
        for (size_t k = 0; k < ids.count; k++)
            append_prompt_id(f, ids.data[k]);
        dop_ids_finish(&ids);
    }
    if (texts)
        json_object_set(completion, "prompt", f->ids);
}

void
dop_completion_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                     dop_call **out_call)
{
    filling f = {.api = api, .r = {.root = root, .answer = answer}, .budget = request->budget, .ids = json_array()};
    json_t *completion = json_copy((json_t *)(uintptr_t)root);
    read_native_prompt(&f, completion);
    if (!json_object_get(root, "n_predict") && !json_object_get(root, "max_tokens"))
        json_object_set_new(completion, "n_predict", json_integer(-1));
    begin_native_call(&f, request, completion, answer, out_call);
}

void
dop_infill_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                 dop_call **out_call)
{
    filling f = {.api = api, .r = {.root = root, .answer = answer}, .budget = request->budget, .ids = json_array()};
    const uint32_t prefix = find_fim_token(api->tok, PREFIX), suffix = find_fim_token(api->tok, SUFFIX),
                   middle = find_fim_token(api->tok, MIDDLE);
    json_t *chat = NULL;
    if (prefix == DOP_NO_TOKEN || suffix == DOP_NO_TOKEN || middle == DOP_NO_TOKEN) {
        dop_reader_refuse(&f.r, NULL, "the model's tokenizer has no tokens for filling in the middle");
    } else {
        append_beginning_ids(&f);
        append_extra_files(&f);
        append_prompt_id(&f, prefix);
        append_member_ids(&f, "input_prefix");
        append_prompt_id(&f, suffix);
        append_member_ids(&f, "input_suffix");
        append_prompt_id(&f, middle);
        append_member_ids(&f, "prompt");
    }
    if (!f.r.failed) {
        chat = json_copy((json_t *)(uintptr_t)root);
        json_object_del(chat, "input_prefix");
        json_object_del(chat, "input_suffix");
        json_object_del(chat, "input_extra");
        json_object_set(chat, "prompt", f.ids);
    }
    begin_native_call(&f, request, chat, answer, out_call);
}
