#include "runtime/program/client/cli_generate.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Estimates the tokens of the prompt, so that what it needs is loaded first; 0: unknown. */
static uint32_t
guess_prompt(const dop_cli *cli)
{
    enum { TEXT_PER_TOKEN = 4, TEMPLATE = 16, MOST = 1 << 20 };
    if (cli->interactive || cli->logits || cli->file || cli->tokens_file || (!cli->tokens && !cli->prompt))
        return 0;
    size_t n = cli->prompt ? strlen(cli->prompt) / TEXT_PER_TOKEN + 1 + (cli->chat ? TEMPLATE : 0) : 0;
    for (const char *p = cli->tokens; p && *p; p++)
        n += isdigit((unsigned char)*p) && !isdigit((unsigned char)p[1]);
    return n < MOST ? (uint32_t)n : MOST;
}

/* --draft and --draft-ngram. */
static dop_status
start_drafts(const dop_cli *cli, dop_generation *g, dop_diag *diag)
{
    dop_speculation how = {.ngram = cli->draft_ngram};
    dop_open_options o;
    dop_status st = DOP_OK;
    if (!cli->draft && !cli->draft_ngram)
        return DOP_OK;
    if (cli->draft) {
        dop_cli_open_options(cli, &o);
        o.wire = NULL;
        o.no_scoring = true;
        st = dop_model_open(cli->draft, &o, diag, &g->draft_model);
        if (st == DOP_OK)
            st = dop_sequence_create(g->draft_model, diag, &how.draft);
    }
    return st == DOP_OK ? dop_sequence_set_speculation(g->sequence, &how, diag) : st;
}

dop_status
dop_generation_open(dop_cli *cli, const char *needed_for, dop_diag *diag, dop_generation *out_gen)
{
    dop_generation *g = out_gen;
    memset(g, 0, sizeof *g);
    dop_status st = DOP_OK;
    for (size_t i = 0; i < cli->stop.count && st == DOP_OK; i++)
        st = dop_texts_push(&g->stops, cli->stop.items[i], diag);
    if (st != DOP_OK ||
        (st = dop_cli_open_for(cli, guess_prompt(cli), !cli->logits, diag, &g->model, &g->sequence)) != DOP_OK)
        goto error;
    dop_model_facts(g->model, &g->facts);
    g->ending = (dop_ending){.ids = g->facts.end_ids, .n_ids = cli->ignore_eos ? 0 : g->facts.n_end_ids};
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
        dop_generation_finish(g);
    return st;
}

void
dop_generation_finish(dop_generation *gen)
{
    dop_text_destroy(gen->text); /* before the model, whose bytes it uses */
    dop_model_close(gen->model);
    dop_model_close(gen->draft_model);
    dop_texts_finish(&gen->stops);
    dop_output_finish(&gen->output);
    dop_ids_finish(&gen->ids);
    free(gen->times);
    free(gen->logprobs);
    memset(gen, 0, sizeof *gen);
}

void
dop_generation_begin(dop_generation *gen, size_t n_before)
{
    gen->sampling.penalty_from = (uint32_t)n_before;
    dop_sequence_set_sampling(gen->sequence, &gen->sampling);
}

static dop_status
release_text(const dop_generation *g, size_t from, dop_diag *diag)
{
    if (!g->streams || from == g->output.text.size)
        return DOP_OK;
    return dop_cli_print(g->output.text.data + from, g->output.text.size - from, diag);
}

dop_status
dop_generation_feed(dop_generation *gen, const uint32_t *ids, size_t n, dop_diag *diag)
{
    size_t found = 0, has;
    dop_status st = DOP_OK;
    (void)dop_sequence_tokens(gen->sequence, &has);
    if (has == 0)
        st = dop_sequence_reuse(gen->sequence, ids, n, diag, &found);
    return st == DOP_OK ? dop_sequence_feed(gen->sequence, ids + found, n - found, diag) : st;
}

dop_status
dop_generation_constrain(dop_generation *gen, dop_diag *diag)
{
    if (!gen->shaper)
        return DOP_OK;
    const uint32_t *mask = dop_constraint_matcher_mask(gen->shaper, diag);
    dop_status st = mask ? dop_sequence_set_mask(gen->sequence, mask, diag) : diag->code;
    if (st == DOP_E_INPUT)
        return DOP_FAIL(diag, DOP_E_INPUT, "no token of the vocabulary goes on with what the shape wants next");
    return st;
}

/* Prints the text of a token, or at the end (id NULL) what the decoder still holds, up to a stop text. */
static dop_status
write_text(dop_generation *g, dop_decoder *decoder, const uint32_t *id, dop_diag *diag)
{
    const char *bytes;
    size_t n, from = 0;
    if (!decoder || g->output.stopped)
        return DOP_OK;
    dop_status st = id ? dop_decoder_push(decoder, *id, diag, &bytes, &n) : dop_decoder_end(decoder, diag, &bytes, &n);
    if (st == DOP_OK)
        st = dop_output_push(&g->output, bytes, n, diag, &from);
    if (st == DOP_OK)
        st = release_text(g, from, diag);
    if (st == DOP_OK && !id && (st = dop_output_end(&g->output, diag, &from)) == DOP_OK)
        st = release_text(g, from, diag);
    return st;
}

/* The next token of the text, with what is known of it. */
static dop_status
take_token(dop_generation *g, dop_diag *diag, uint32_t *out_id)
{
    const size_t i = g->ids.count, each = (size_t)g->n_top + 1;
    dop_status st = dop_generation_constrain(g, diag);
    if (st == DOP_OK)
        st = dop_sequence_next(g->sequence, diag, out_id);
    if (st == DOP_OK && g->shaper)
        st = dop_constraint_matcher_accept(g->shaper, *out_id, diag);
    if (st == DOP_OK && g->logprobs)
        st = dop_sequence_logprobs(g->sequence, g->n_top, diag, &g->logprobs[i * each], &g->logprobs[i * each + 1]);
    if (st != DOP_OK)
        return st;
    g->times[i] = dop_now_ms();
    g->waited_ms[i > 0] = g->waited_ms[1] = dop_model_counters(g->model).waited_ms;
    dop_ids_push(&g->ids, *out_id);
    return g->ids.failed ? DOP_FAIL(diag, DOP_E_NOMEM, "out of memory") : DOP_OK;
}

/* Forgets the last text. */
static dop_status
begin(dop_generation *g, uint32_t n, dop_diag *diag)
{
    g->ids.count = 0;
    g->ending.most = n;
    free(g->times);
    free(g->logprobs);
    g->times = calloc((size_t)n + 1, sizeof *g->times);
    g->logprobs = g->sampling.logprobs ? calloc((size_t)n * (g->n_top + 1) + 1, sizeof *g->logprobs) : NULL;
    dop_output_finish(&g->output);
    dop_output_init(&g->output, &g->stops);
    return g->times && (g->logprobs || !g->sampling.logprobs) ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}

dop_status
dop_generate(dop_generation *gen, uint32_t n, dop_diag *diag)
{
    dop_generation *g = gen;
    dop_decoder *decoder = NULL;
    dop_end end = n > 0 ? DOP_END_NOT_YET : DOP_END_LENGTH;
    bool interrupted = false;
    dop_status st = begin(g, n, diag);
    if (st == DOP_OK && g->text)
        st = dop_decoder_create(g->text, DOP_TEXT_GOES_ON, diag, &decoder);
    while (st == DOP_OK && end == DOP_END_NOT_YET) {
        uint32_t id;
        interrupted = g->interrupted && *g->interrupted;
        if (interrupted || (st = take_token(g, diag, &id)) != DOP_OK)
            break;
        if (!dop_ending_has(&g->ending, id))
            st = write_text(g, decoder, &id, diag);
        end = dop_output_ends(&g->output, &g->ending, id, (uint32_t)g->ids.count, false);
    }
    if (st == DOP_OK)
        st = write_text(g, decoder, NULL, diag);
    dop_decoder_destroy(decoder);
    g->stop_reason = g->output.stopped ? "text" : end == DOP_END_ID ? "end" : interrupted ? "interrupt" : "length";
    return st;
}
