/* --compare: compares two plans over a text: logits by scoring and by decoding kernels, greedy output, and speed. */
#include "base/json/json.h"
#include "base/os/clock.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/common/cli_common.h"
#include "tools/doppler-exec/on_demand/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 256 /* window length in tokens, by default */,
    GREEDY = 64 /* tokens to generate, by default; at most half the context */,
    MOST_KEPT = 256 << 20 /* maximum bytes of a window's logits */
};

/* Distance of two plans' logits over all positions; the first plan is the reference. */
typedef struct distance {
    uint64_t rows, same_largest;
    double largest, sum; /* maximum and sum of |a - b| */
    double divergence, most_divergent;
    uint64_t n; /* number of logits compared */
    double nll[2];
    uint64_t predicted;
} distance;

typedef struct side {
    const char *path, *name; /* not owned: path of the plan; its name on the command line */
    dop_model *model;
    dop_sequence *sequence;
    dop_facts facts;
    double prompt_ms, decode_ms;
    uint32_t *greedy; /* owned, [n_greedy] */
} side;

typedef struct comparison {
    side sides[2];
    const uint32_t *ids; /* tokens of the current window */
    size_t n_ids;
    size_t at;   /* rows of the window that decoding has produced so far */
    float *kept; /* owned, [window, vocab]: logits of the first plan */
    uint32_t vocab, window, n_greedy, same_greedy;
    size_t n_tokens, n_windows, n_prompt, n_prompts;
    bool second;
    distance score, decode, *into;
} comparison;

/* Returns log(sum(exp(row))). *out_largest: the lowest id with the largest logit. */
static double
log_sum(const float *row, uint32_t vocab, uint32_t *out_largest)
{
    uint32_t most = 0;
    double sum = 0;
    for (uint32_t v = 1; v < vocab; v++)
        most = row[v] > row[most] ? v : most;
    for (uint32_t v = 0; v < vocab; v++)
        sum += exp((double)row[v] - (double)row[most]);
    *out_largest = most;
    return (double)row[most] + log(sum);
}

/* Adds a position to a distance. next: the token that follows in the text, or UINT32_MAX. */
static void
add_row(distance *d, const float *a, const float *b, uint32_t vocab, uint32_t next)
{
    uint32_t largest_a, largest_b;
    const double za = log_sum(a, vocab, &largest_a), zb = log_sum(b, vocab, &largest_b);
    double divergence = 0;
    for (uint32_t v = 0; v < vocab; v++) {
        const double x = (double)a[v], y = (double)b[v], apart = fabs(x - y);
        d->sum += apart;
        d->largest = apart > d->largest ? apart : d->largest;
        divergence += exp(x - za) * ((x - za) - (y - zb));
    }
    d->n += vocab;
    d->rows++;
    d->same_largest += largest_a == largest_b;
    divergence = divergence > 0 ? divergence : 0; /* rounding may make the divergence negative */
    d->divergence += divergence;
    d->most_divergent = divergence > d->most_divergent ? divergence : d->most_divergent;
    if (next != UINT32_MAX) {
        d->nll[0] += za - (double)a[next];
        d->nll[1] += zb - (double)b[next];
        d->predicted++;
    }
}

/* Stores a row of logits of the first plan, or compares the second plan's row with it. */
static void
take_logit_row(comparison *c, size_t i, const float *row)
{
    float *kept = c->kept + i * c->vocab;
    if (!c->second)
        memcpy(kept, row, c->vocab * sizeof *row);
    else
        add_row(c->into, kept, row, c->vocab, i + 1 < c->n_ids ? c->ids[i + 1] : UINT32_MAX);
}

static dop_status
take_rows(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    comparison *c = user;
    (void)diag;
    for (size_t i = 0; i < n_rows; i++)
        take_logit_row(c, first + i, rows + i * c->vocab);
    return DOP_OK;
}

/* Collects the logits and returns the text's next token (dop_sampler_fn). */
static dop_status
follow_text(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n_tokens, dop_diag *diag,
            uint32_t *out_id)
{
    comparison *c = user;
    (void)tokens, (void)n_tokens, (void)diag, (void)vocab;
    take_logit_row(c, c->at++, logits);
    *out_id = c->at < c->n_ids ? c->ids[c->at] : c->ids[0];
    return DOP_OK;
}

static dop_status
score_window(comparison *c, side *s, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(dop_sequence_rewind(s->sequence, 0, diag));
    c->into = &c->score;
    return dop_sequence_score(s->sequence, c->ids, c->n_ids, take_rows, c, diag);
}

static dop_status
decode_window(comparison *c, side *s, dop_diag *diag)
{
    dop_status st = dop_sequence_rewind(s->sequence, 0, diag);
    uint32_t id;
    c->into = &c->decode;
    c->at = 0;
    dop_sequence_set_sampler(s->sequence, follow_text, c);
    if (st == DOP_OK)
        st = dop_sequence_feed(s->sequence, c->ids, 1, diag);
    while (st == DOP_OK && c->at < c->n_ids) {
        dop_sequence_expect(s->sequence, 1);
        st = dop_sequence_next(s->sequence, diag, &id);
    }
    dop_sequence_set_sampler(s->sequence, NULL, NULL);
    return st;
}

/* Measures the prompt time, then generates greedily. */
static dop_status
run_greedily(comparison *c, side *s, dop_diag *diag)
{
    dop_status st = DOP_OK;
    for (int round = 0; round < 2 && st == DOP_OK; round++) { /* the first round warms up */
        st = dop_sequence_rewind(s->sequence, 0, diag);
        const double start = dop_now_ms();
        if (st == DOP_OK)
            st = dop_sequence_feed(s->sequence, c->ids, c->n_prompt, diag);
        if (st == DOP_OK && c->n_greedy) /* the pick needs the prompt's states */
            st = dop_sequence_next(s->sequence, diag, &s->greedy[0]);
        const double read = dop_now_ms();
        dop_sequence_expect(s->sequence, c->n_greedy ? c->n_greedy - 1 : 0);
        for (uint32_t i = 1; i < c->n_greedy && st == DOP_OK; i++)
            st = dop_sequence_next(s->sequence, diag, &s->greedy[i]);
        s->prompt_ms = read - start;
        s->decode_ms = dop_now_ms() - read;
    }
    return st;
}

static dop_status
compare_window(comparison *c, dop_diag *diag)
{
    for (int i = 0; i < 2; i++) {
        c->second = i == 1;
        DOP_RETURN_IF_ERROR(score_window(c, &c->sides[i], diag));
    }
    for (int i = 0; i < 2; i++) {
        c->second = i == 1;
        DOP_RETURN_IF_ERROR(decode_window(c, &c->sides[i], diag));
    }
    return DOP_OK;
}

static dop_status
compare_all(const dop_cli *cli, comparison *c, const dop_ids *text, dop_diag *diag)
{
    dop_status st = DOP_OK;
    const bool shows = dop_cli_shows_progress(cli);
    for (size_t at = 0; at < text->count && st == DOP_OK; at += c->window) {
        c->ids = text->data + at;
        c->n_ids = text->count - at < c->window ? text->count - at : c->window;
        st = compare_window(c, diag);
        c->n_windows++;
        if (shows)
            fprintf(stderr, "\r%3.0f%% of %zu tokens", (double)(at + c->n_ids) * 100 / (double)text->count,
                    text->count);
    }
    if (shows)
        fprintf(stderr, "\r%30s\r", "");
    c->ids = text->data;
    for (int i = 0; i < 2 && st == DOP_OK; i++)
        st = run_greedily(c, &c->sides[i], diag);
    while (st == DOP_OK && c->same_greedy < c->n_greedy &&
           c->sides[0].greedy[c->same_greedy] == c->sides[1].greedy[c->same_greedy])
        c->same_greedy++;
    return st;
}

static double
divide_or_zero(double sum, uint64_t n)
{
    return n ? sum / (double)n : 0;
}

static double
per_second(size_t n, double ms)
{
    return ms > 0 ? (double)n * 1e3 / ms : 0;
}

static void
distance_text(const char *name, const distance *d, dop_buf *out)
{
    dop_buf_printf(out,
                   "%-11s logits at most %.6g apart, %.6g on average; KL divergence %.6g nats, at most %.6g; same "
                   "largest logit at %.2f%% of %llu positions\n",
                   name, d->largest, divide_or_zero(d->sum, d->n), divide_or_zero(d->divergence, d->rows),
                   d->most_divergent, divide_or_zero(100.0 * (double)d->same_largest, d->rows),
                   (unsigned long long)d->rows);
}

static void
write_text(const comparison *c, dop_buf *out)
{
    for (int i = 0; i < 2; i++)
        dop_buf_printf(out, "%-11s %s: %s\n", i ? "with" : "plan", c->sides[i].name, c->sides[i].facts.quant);
    dop_buf_printf(out, "%-11s %zu tokens in %zu window%s of at most %u\n", "text", c->n_tokens, c->n_windows,
                   c->n_windows == 1 ? "" : "s", c->window);
    distance_text("scored", &c->score, out);
    distance_text("decoded", &c->decode, out);
    if (c->score.predicted)
        dop_buf_printf(out, "%-11s %.6g and %.6g\n", "perplexity",
                       exp(divide_or_zero(c->score.nll[0], c->score.predicted)),
                       exp(divide_or_zero(c->score.nll[1], c->score.predicted)));
    if (c->same_greedy == c->n_greedy)
        dop_buf_printf(out, "%-11s all %u ids are the same\n", "greedy", c->n_greedy);
    else
        dop_buf_printf(out, "%-11s the first %u of %u ids are the same\n", "greedy", c->same_greedy, c->n_greedy);
    dop_buf_printf(out, "%-11s %.1f and %.1f tok/s\n", "prompt", per_second(c->n_prompt, c->sides[0].prompt_ms),
                   per_second(c->n_prompt, c->sides[1].prompt_ms));
    if (c->n_greedy > 1)
        dop_buf_printf(out, "%-11s %.1f and %.1f tok/s\n", "decode", per_second(c->n_greedy - 1, c->sides[0].decode_ms),
                       per_second(c->n_greedy - 1, c->sides[1].decode_ms));
}

static json_t *
distance_json(const distance *d)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I}", "maxDifference", d->largest, "meanDifference",
                     divide_or_zero(d->sum, d->n), "klDivergence", divide_or_zero(d->divergence, d->rows),
                     "maxKlDivergence", d->most_divergent, "sameLargest", (json_int_t)d->same_largest, "positions",
                     (json_int_t)d->rows);
}

static void
write_json(const comparison *c, dop_buf *out)
{
    json_t *plans = json_array();
    for (int i = 0; i < 2; i++) {
        const side *s = &c->sides[i];
        char digest[17];
        snprintf(digest, sizeof digest, "%016llx", (unsigned long long)s->facts.digest);
        json_array_append_new(
            plans, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f}", "plan", s->name, "digest", digest, "weights",
                             s->facts.quant, "perplexity", exp(divide_or_zero(c->score.nll[i], c->score.predicted)),
                             "promptTokensPerSec", per_second(c->n_prompt, s->prompt_ms), "decodeTokensPerSec",
                             per_second(c->n_greedy ? c->n_greedy - 1 : 0, s->decode_ms)));
    }
    json_t *root = json_pack(
        "{s:o, s:I, s:I, s:o, s:o, s:{s:I, s:I}, s:s}", "plans", plans, "tokens", (json_int_t)c->n_tokens, "window",
        (json_int_t)c->window, "score", distance_json(&c->score), "decode", distance_json(&c->decode), "greedy", "ids",
        (json_int_t)c->n_greedy, "same", (json_int_t)c->same_greedy, "device", c->sides[0].facts.device);
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (text)
        dop_buf_printf(out, "%s\n", text);
    out->failed = !text || out->failed;
    free(text);
    json_decref(root);
}

static dop_status
open_sides(const dop_cli *cli, comparison *c, dop_diag *diag)
{
    dop_status st = dop_cli_plan(cli, diag, &c->sides[0].path);
    dop_open_options o;
    c->sides[1].path = cli->compare;
    dop_cli_open_options(cli, &o);
    for (int i = 0; i < 2 && st == DOP_OK; i++) {
        side *s = &c->sides[i];
        s->name = dop_cli_models_name(cli, s->path);
        st = dop_model_open(s->path, &o, diag, &s->model);
        if (st == DOP_OK)
            st = dop_sequence_create(s->model, diag, &s->sequence);
        if (st == DOP_OK)
            dop_model_facts(s->model, &s->facts);
    }
    if (st == DOP_OK && c->sides[0].facts.vocab != c->sides[1].facts.vocab)
        st = DOP_FAIL(diag, DOP_E_INPUT, "%s has a vocabulary of %u and %s one of %u: their logits cannot be compared",
                      c->sides[0].name, c->sides[0].facts.vocab, c->sides[1].name, c->sides[1].facts.vocab);
    return st;
}

/* Chooses the window length, the prompt length, and the number of tokens to generate after it. */
static dop_status
choose_compare_lengths(const dop_cli *cli, comparison *c, const dop_ids *text, dop_diag *diag)
{
    const uint32_t a = c->sides[0].facts.ctx, b = c->sides[1].facts.ctx, ctx = a < b ? a : b;
    const uint64_t most = MOST_KEPT / (c->vocab * sizeof *c->kept), usual = WINDOW < most ? WINDOW : most;
    /* A decode step needs a free position for the picked token. */
    c->window = cli->ppl_ctx != DOP_CLI_UNSET ? cli->ppl_ctx : usual < ctx ? (uint32_t)usual : ctx - 1;
    if (c->window < 1 || c->window >= ctx || c->window > most)
        return DOP_FAIL(diag, DOP_E_INPUT, "--ppl-ctx %u: at most %u here (the context but one, and 256 MiB of logits)",
                        c->window, most < ctx ? (uint32_t)most : ctx - 1);
    if (text->count == 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "the text has no tokens");
    for (size_t i = 0; i < text->count; i++)
        if (text->data[i] >= c->vocab)
            return DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", text->data[i], c->vocab);
    const size_t rows = text->count < c->window ? text->count : c->window;
    const uint32_t half = ctx / 2, usual_greedy = half < GREEDY ? half : GREEDY;
    const uint32_t wanted = cli->n_predict < DOP_OPTION_MINUS_1 ? cli->n_predict : usual_greedy;
    const uint32_t room = wanted < ctx ? ctx - wanted : 1;
    c->n_prompt = rows < room ? rows : room;
    c->n_greedy = wanted < ctx - c->n_prompt ? wanted : (uint32_t)(ctx - c->n_prompt);
    c->kept = malloc(rows * c->vocab * sizeof *c->kept);
    for (int i = 0; i < 2; i++)
        c->sides[i].greedy = calloc((size_t)c->n_greedy + 1, sizeof(uint32_t));
    return c->kept && c->sides[0].greedy && c->sides[1].greedy ? DOP_OK : DOP_NO_MEMORY(diag);
}

dop_status
dop_mode_compare(dop_cli *cli, dop_diag *diag)
{
    comparison c = {.n_tokens = 0};
    dop_text *tokenizer = NULL;
    dop_buf text = {0}, out = {0};
    dop_ids ids = {0};
    dop_status st = DOP_OK;
    DOP_TRY(open_sides(cli, &c, diag));
    c.vocab = c.sides[0].facts.vocab;
    if (cli->prompt || cli->file)
        DOP_TRY(dop_cli_text(cli, c.sides[0].model, cli->prompt ? "-p" : "-f", diag, &tokenizer));
    DOP_TRY(dop_cli_prompt(cli, tokenizer, diag, &ids, &text));
    DOP_TRY(choose_compare_lengths(cli, &c, &ids, diag));
    c.n_tokens = ids.count;
    DOP_TRY(compare_all(cli, &c, &ids, diag));
    if (cli->json)
        write_json(&c, &out);
    else
        write_text(&c, &out);
    DOP_TRY(dop_cli_print_buf(&out, diag));
error:
    for (int i = 0; i < 2; i++) {
        free(c.sides[i].greedy);
        dop_model_close(c.sides[i].model);
    }
    free(c.kept);
    dop_text_destroy(tokenizer);
    dop_buf_finish(&text);
    dop_buf_finish(&out);
    dop_ids_finish(&ids);
    return st;
}
