#include "tools/doppler-exec/client/cli_generate.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Estimates the prompt length in tokens for dop_open_options.first_tokens; 0: unknown. */
static uint32_t
guess_prompt(const dop_cli *cli)
{
    enum { TEXT_PER_TOKEN = 4, TEMPLATE = 16, MOST = 1 << 20 };
    const char *file = cli->file ? cli->file : cli->tokens_file;
    struct stat sb;
    if (cli->interactive || cli->logits || cli->images.count ||
        (file && (stat(file, &sb) != 0 || !S_ISREG(sb.st_mode))))
        return 0;
    if (!cli->tokens && !cli->prompt && !file) /* only BOS */
        return 1;
    const size_t bytes = cli->prompt ? strlen(cli->prompt) : file ? (size_t)sb.st_size : 0;
    size_t n = cli->prompt || file ? bytes / TEXT_PER_TOKEN + 1 : 0;
    n += cli->chat ? TEMPLATE : 0;
    for (const char *p = cli->tokens; p && *p; p++)
        n += isdigit((unsigned char)*p) && !isdigit((unsigned char)p[1]);
    return n < MOST ? (uint32_t)n : MOST;
}

/* Starts speculative decoding if --draft or --draft-ngram asks for it, or the plan has a draft layer. */
static dop_status
start_drafts(const dop_cli *cli, dop_cli_generation *g, dop_diag *diag)
{
    const bool none = cli->draft && strcmp(cli->draft, "none") == 0;
    dop_speculation how = {.ngram = cli->draft_ngram, .own = g->facts.drafts && !cli->draft};
    dop_open_options o;
    if (none && !cli->draft_ngram)
        return dop_sequence_set_speculation(g->sequence, NULL, diag);
    if (!cli->draft && !how.ngram && !how.own)
        return DOP_OK;
    if (cli->draft && !none) {
        dop_cli_open_options(cli, &o);
        o.wire = NULL;
        o.no_scoring = true;
        o.on_demand = !cli->made;
        DOP_RETURN_IF_ERROR(dop_model_open(cli->draft, &o, diag, &g->draft_model));
        DOP_RETURN_IF_ERROR(dop_sequence_create(g->draft_model, diag, &how.draft));
    }
    return dop_sequence_set_speculation(g->sequence, &how, diag);
}

dop_status
dop_cli_generation_open(dop_cli *cli, const char *needed_for, dop_diag *diag, dop_cli_generation *out_gen)
{
    dop_cli_generation *g = out_gen;
    memset(g, 0, sizeof *g);
    dop_status st = DOP_OK;
    for (size_t i = 0; i < cli->stop.count && st == DOP_OK; i++)
        st = dop_texts_push(&g->stops, cli->stop.items[i], diag);
    if (st != DOP_OK || (st = dop_cli_open_for(cli, guess_prompt(cli), !cli->logits, cli->n_predict <= 1, diag,
                                               &g->model, &g->sequence)) != DOP_OK)
        goto error;
    dop_model_facts(g->model, &g->facts);
    g->ignore_end = cli->ignore_eos;
    if ((st = dop_cli_text(cli, g->model, needed_for, diag, &g->text)) != DOP_OK ||
        (st = dop_cli_sampling(cli, &g->facts, diag, &g->sampling)) != DOP_OK)
        goto error;
    if (cli->logprobs != DOP_CLI_UNSET) {
        g->sampling.logprobs = true;
        g->n_top = cli->logprobs < g->facts.vocab ? cli->logprobs : g->facts.vocab;
    }
    dop_sequence_set_sampling(g->sequence, &g->sampling);
    st = start_drafts(cli, g, diag);
error:
    if (st != DOP_OK)
        dop_cli_generation_finish(g);
    return st;
}

void
dop_cli_generation_finish(dop_cli_generation *gen)
{
    dop_generation_destroy(gen->writer);
    dop_text_destroy(gen->text); /* before the model, whose memory it references */
    dop_model_close(gen->model);
    dop_model_close(gen->draft_model);
    dop_texts_finish(&gen->stops);
    dop_ids_finish(&gen->ids);
    free(gen->times);
    free(gen->logprobs);
    memset(gen, 0, sizeof *gen);
}

/* Discards the last text. */
static dop_status
discard_last_text(dop_cli_generation *g, uint32_t n, dop_diag *diag)
{
    dop_generation_destroy(g->writer);
    g->writer = NULL;
    g->ids.count = 0;
    free(g->times);
    free(g->logprobs);
    g->times = calloc((size_t)n + 1, sizeof *g->times);
    g->logprobs = g->sampling.logprobs ? calloc((size_t)n * (g->n_top + 1) + 1, sizeof *g->logprobs) : NULL;
    return g->times && (g->logprobs || !g->sampling.logprobs) ? DOP_OK : DOP_NO_MEMORY(diag);
}

dop_status
dop_cli_generation_begin(dop_cli_generation *gen, size_t n_prompt, uint32_t n_tokens, dop_diag *diag)
{
    const dop_generation_options how = {.text = gen->text,
                                        .sampling = &gen->sampling,
                                        .matcher = gen->matcher,
                                        .stops = gen->stops.items,
                                        .n_stops = gen->stops.count,
                                        .max_tokens = n_tokens,
                                        .n_top = gen->n_top,
                                        .ignore_end = gen->ignore_end};
    DOP_RETURN_IF_ERROR(discard_last_text(gen, n_tokens, diag));
    DOP_RETURN_IF_ERROR(dop_generation_create(gen->sequence, &how, diag, &gen->writer));
    return dop_generation_begin(gen->writer, n_prompt, diag);
}

/* Records a token with its time and log-probabilities, and prints its text. */
static dop_status
take_generated_token(dop_cli_generation *g, const dop_generation_token *token, dop_diag *diag)
{
    const size_t i = g->ids.count, each = (size_t)g->n_top + 1;
    g->times[i] = dop_now_ms();
    g->waited_ms[i > 0] = g->waited_ms[1] = dop_model_counters(g->model).waited_ms;
    if (g->logprobs)
        memcpy(&g->logprobs[i * each], token->logprobs, each * sizeof *g->logprobs);
    dop_ids_push(&g->ids, token->id);
    if (g->ids.failed)
        return DOP_NO_MEMORY(diag);
    return g->streams && token->len > 0 ? dop_cli_print(token->text, token->len, diag) : DOP_OK;
}

dop_status
dop_cli_generate(dop_cli_generation *gen, uint32_t n_tokens, dop_diag *diag)
{
    static const char *const reasons[] = {[DOP_END_NOT_YET] = "interrupt",
                                          [DOP_END_ID] = "end",
                                          [DOP_END_STOP_TEXT] = "text",
                                          [DOP_END_CONSTRAINT] = "end",
                                          [DOP_END_LENGTH] = "length"};
    dop_cli_generation *g = gen;
    dop_generation_token token = {.end = n_tokens > 0 ? DOP_END_NOT_YET : DOP_END_LENGTH};
    while (token.end == DOP_END_NOT_YET && !(g->interrupted && *g->interrupted)) {
        DOP_RETURN_IF_ERROR(dop_generation_next(g->writer, diag, &token));
        DOP_RETURN_IF_ERROR(take_generated_token(g, &token, diag));
    }
    if (token.end == DOP_END_NOT_YET) {
        DOP_RETURN_IF_ERROR(dop_generation_stop(g->writer, diag, &token));
        if (g->streams && token.len > 0)
            DOP_RETURN_IF_ERROR(dop_cli_print(token.text, token.len, diag));
    }
    g->stop_reason = reasons[token.end];
    return DOP_OK;
}
