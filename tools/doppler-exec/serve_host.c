#include "tools/doppler-exec/serve_host.h"

#include "plan/prompts.h"
#include "runtime/library/text_internal.h"
#include "runtime/model/info.h"
#include "serve/api/api_adapters.h"
#include "serve/api/api_constraints.h"
#include "text/calls/api_form.h"
#include "text/grammar/grammar.h"
#include "tools/doppler-exec/client/cli_chat.h"
#include "tools/doppler-exec/common/cli_common.h"
#include "tools/doppler-exec/common/text_file.h"

#include <doppler/images.h>
#include <doppler/speech.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct dop_hosted {
    dop_model *model;
    dop_model_info info;
    dop_text *text; /* tokenizer of --tokenizer, otherwise the plan's */
    json_t *prompts;
    const dop_tokenizer *tok;
    dop_chat *chat;
    struct dop_tool_form *form;
    dop_vocab *vocab;
    dop_engine *engine;
    dop_speech *speech;
    dop_api api;
};

/* Returns the cost limits of parsing a request. A budget step takes about 10 ns, so that on an idle machine too
 * costly requests exceed the steps before the time and get the proper error. */
static dop_api_limits
get_request_limits(const dop_cli *cli)
{
    const double steps_per_s = 4e7;
    return (dop_api_limits){.steps = (uint64_t)(cli->serve_prepare * steps_per_s),
                            .bytes = (uint64_t)cli->serve_memory << 20,
                            .seconds = cli->serve_prepare};
}

dop_api
dop_host_defaults(const dop_cli *cli)
{
    return (dop_api){.max_tokens = cli->serve_tokens,
                     .max_choices = DOP_MAX_ANSWERS,
                     .max_inputs = DOP_MAX_INPUTS,
                     .max_answer = (uint64_t)cli->serve_answer << 10,
                     .time_limit_s = cli->serve_time,
                     .limits = get_request_limits(cli),
                     .created = (int64_t)time(NULL)};
}

/* Opens the tokenizer, prompts and chat format of the model. */
static dop_status
open_text(dop_cli *cli, const char *path, dop_hosted *s, dop_diag *diag)
{
    dop_status st = DOP_OK;
    if (!cli->tokenizer && !s->api.facts.has_text)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "the plan has no tokenizer (the model came without one), which --serve needs: give one with "
                           "--tokenizer");
    st =
        cli->tokenizer ? dop_text_of_file(cli->tokenizer, diag, &s->text) : dop_text_of_model(s->model, diag, &s->text);
    if (st != DOP_OK)
        return st;
    s->tok = dop_text_tokenizer(s->text);
    if (!cli->quiet && dop_tokenizer_vocab_size(s->tok) > s->api.facts.vocab)
        dop_say("note",
                "note: the tokenizer has ids up to %u and the model's vocabulary has %u: prompts with "
                "others are refused",
                dop_tokenizer_vocab_size(s->tok) - 1, s->api.facts.vocab);
    return dop_cli_chat_open(cli, s->text, diag, &s->chat);
}

/* Loads control vectors and the adapters of --lora, which requests select by name. */
static dop_status
open_adapters(const dop_cli *cli, dop_hosted *s, dop_diag *diag)
{
    dop_adapter_use *uses = NULL;
    size_t n = 0;
    dop_status st = DOP_OK;
    if (cli->lora.count + cli->control_vector.count)
        DOP_TRY(dop_cli_adapters(cli, s->model, diag, &uses, &n));
    if (n > 0)
        DOP_TRY(dop_adapter_list_create(s->model, uses, n, diag, &s->api.adapters));
error:
    free(uses);
    return st;
}

static dop_status
open_hosted_parts(dop_cli *cli, const char *path, dop_hosted *s, dop_diag *diag)
{
    dop_open_options open;
    dop_cli_open_options(cli, &open);
    dop_status st = dop_cli_keep_prompts(cli, diag, &open);
    if (st == DOP_OK)
        st = dop_model_open(path, &open, diag, &s->model);
    if (st != DOP_OK)
        return st;
    dop_model_describe(s->model, &s->info);
    s->api = dop_host_defaults(cli);
    dop_model_facts(s->model, &s->api.facts);
    if (dop_model_program(s->model, 0, &s->api.program) &&
        s->api.program.merge) /* the program does not compute embeddings */
        s->api.program = (dop_program_facts){0};
    if ((st = open_adapters(cli, s, diag)) != DOP_OK)
        return st;
    s->api.prompts = s->prompts = dop_prompts_of(s->info.plan);
    if ((st = open_text(cli, path, s, diag)) != DOP_OK ||
        (st = dop_cli_sampling(cli, &s->api.facts, diag, &s->api.sampling)) != DOP_OK ||
        (st = dop_vocab_create(s->tok, s->api.facts.vocab, s->api.facts.end_ids, s->api.facts.n_end_ids, diag,
                               &s->vocab)) != DOP_OK)
        return st;
    dop_diag blind = {0}; /* a plan without image input is served as text only */
    if (dop_images_open(s->model, NULL, &blind, &s->api.eyes) == DOP_E_NOMEM)
        return DOP_NO_MEMORY(diag);
    dop_audio_facts hears;
    if (dop_model_audio(s->model, &hears) && (st = dop_speech_open(s->model, s->text, diag, &s->speech)) != DOP_OK)
        return st;
    s->api.speech = s->speech;
    const dop_engine_options engine = {.max_queue = cli->serve_queue};
    if ((st = dop_engine_create(s->model, s->tok, &engine, diag, &s->engine)) != DOP_OK)
        return st;
    s->api.model = s->model;
    s->api.engine = s->engine;
    s->api.tok = s->tok;
    s->api.chat = s->chat;
    s->api.system = cli->system;
    if ((st = dop_tool_form_create(s->chat, s->chat ? dop_chat_template(s->chat) : "", s->tok, diag, &s->form)) !=
        DOP_OK)
        return st;
    s->api.form = s->form;
    return dop_constraints_create(s->vocab, diag, &s->api.shapes);
}

dop_status
dop_host_open(dop_cli *cli, const char *path, const char *id, dop_diag *diag, dop_hosted **out_hosted)
{
    dop_hosted *s = calloc(1, sizeof *s);
    *out_hosted = NULL;
    if (!s)
        return DOP_NO_MEMORY(diag);
    const dop_status st = open_hosted_parts(cli, path, s, diag);
    if (st != DOP_OK) {
        dop_host_close(s);
        return st;
    }
    if (id)
        s->api.facts.name = id;
    *out_hosted = s;
    return DOP_OK;
}

void
dop_host_close(dop_hosted *hosted)
{
    dop_hosted *s = hosted;
    if (!s)
        return;
    dop_engine_destroy(s->engine);
    dop_images_close(s->api.eyes);
    dop_speech_close(s->speech);
    dop_constraints_destroy(s->api.shapes);
    dop_adapter_list_destroy(s->api.adapters);
    dop_vocab_destroy(s->vocab);
    dop_tool_form_destroy(s->form);
    dop_chat_destroy(s->chat);
    json_decref(s->prompts);
    dop_text_destroy(s->text);
    dop_model_close(s->model);
    free(s);
}

dop_api *
dop_host_api(dop_hosted *hosted)
{
    return &hosted->api;
}
