/* Perplexity. The text is split into windows, each read into an empty sequence after BOS. Every token is predicted
 * once, from the tokens before it in its window. */
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scorer {
    const uint32_t *targets; /* targets of the window; row i predicts target i */
    size_t n_targets;
    uint32_t vocab;
    double nll; /* sum of negative log-likelihoods over all windows (natural log) */
    size_t n;   /* number of predicted tokens */
    size_t all; /* number of tokens in the text */
    bool shows; /* true: print the progress */
} scorer;

/* Returns -log softmax(row)[id], computed in double. */
static double
row_nll(const float *row, uint32_t vocab, uint32_t id)
{
    double largest = (double)row[0], sum = 0;
    for (uint32_t v = 1; v < vocab; v++)
        if ((double)row[v] > largest)
            largest = (double)row[v];
    for (uint32_t v = 0; v < vocab; v++)
        sum += exp((double)row[v] - largest);
    return largest + log(sum) - (double)row[id];
}

static dop_status
score_rows(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    scorer *s = user;
    (void)diag;
    for (size_t i = 0; i < n_rows && first + i < s->n_targets; i++) {
        uint32_t id = s->targets[first + i];
        if (id >= s->vocab)
            return DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", id, s->vocab);
        s->nll += row_nll(rows + i * s->vocab, s->vocab, id);
        s->n++;
    }
    if (s->shows)
        fprintf(stderr, "\r%3.0f%% of %zu tokens", (double)s->n * 100 / (double)s->all, s->all);
    return DOP_OK;
}

static dop_status
score_text(dop_sequence *sequence, const dop_ids *text, uint32_t window, int32_t bos, scorer *s, dop_diag *diag)
{
    uint32_t *inputs = calloc((size_t)window + 1, sizeof *inputs);
    if (!inputs)
        return DOP_NO_MEMORY(diag);
    dop_status st = DOP_OK;
    size_t at = 0;
    while (at < text->count && st == DOP_OK) {
        size_t n = text->count - at < window ? text->count - at : window, n_inputs = 0;
        s->targets = text->data + at;
        s->n_targets = n;
        if (bos >= 0)
            inputs[n_inputs++] = (uint32_t)bos;
        else {
            s->targets++; /* without BOS, the window's first token has no prediction */
            s->n_targets--;
        }
        for (size_t i = 0; i + 1 < n; i++)
            inputs[n_inputs++] = text->data[at + i];
        if (n_inputs > 0 && (st = dop_sequence_rewind(sequence, 0, diag)) == DOP_OK)
            st = dop_sequence_score(sequence, inputs, n_inputs, score_rows, s, diag);
        at += n;
    }
    if (s->shows)
        fprintf(stderr, "\r%30s\r", "");
    free(inputs);
    return st;
}

dop_status
dop_mode_score(dop_cli *cli, dop_diag *diag)
{
    dop_model *model = NULL;
    dop_sequence *sequence = NULL;
    dop_facts facts;
    dop_text *tokenizer = NULL;
    dop_buf text = {0};
    dop_ids ids = {0};
    dop_status st = dop_cli_open(cli, diag, &model, &sequence);
    if (st != DOP_OK)
        return st;
    dop_model_facts(model, &facts);
    uint32_t ctx = facts.ctx, window = cli->ppl_ctx == DOP_CLI_UNSET ? ctx : cli->ppl_ctx;
    if (window > ctx) {
        st = DOP_FAIL(diag, DOP_E_INPUT, "--ppl-ctx %u is larger than the plan's context of %u", window, ctx);
        goto error;
    }
    if ((st = dop_cli_text(cli, model, "--ppl", diag, &tokenizer)) != DOP_OK ||
        (st = dop_cli_read(cli->ppl, diag, &text)) != DOP_OK ||
        (st = dop_cli_encode(tokenizer, text.data, text.size, 0, diag, &ids)) != DOP_OK)
        goto error;
    scorer s = {.vocab = facts.vocab, .all = ids.count, .shows = dop_cli_shows_progress(cli)};
    dop_cli_hint(cli, model);
    double start = dop_now_ms();
    if ((st = score_text(sequence, &ids, window, facts.bos_id, &s, diag)) != DOP_OK)
        goto error;
    if (s.n == 0) {
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, cli->ppl, "the text has no tokens to predict");
        goto error;
    }
    double nll = s.nll / (double)s.n;
    dop_buf line = {0};
    dop_buf_printf(&line, "{\"tokens\":%zu,\"ctx\":%u,\"nll_per_token\":%.9g,\"perplexity\":%.9g}\n", s.n, window, nll,
                   exp(nll));
    st = dop_cli_print_buf(&line, diag);
    dop_buf_finish(&line);
    if (!cli->quiet)
        fprintf(stderr, "load %.0f ms; %zu tokens, %.1f tok/s; on %s\n", facts.load_ms, s.n,
                (double)s.n * 1e3 / (dop_now_ms() - start), facts.device);
error:
    dop_text_destroy(tokenizer);
    dop_model_close(model);
    dop_buf_finish(&text);
    dop_ids_finish(&ids);
    return st;
}
