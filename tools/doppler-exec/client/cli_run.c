/* Text generation: reads a prompt, writes text or ids, prints timings at the end. */
#include "tools/doppler-exec/client/cli_audio.h"
#include "tools/doppler-exec/client/cli_constraint.h"
#include "tools/doppler-exec/client/cli_generate.h"
#include "tools/doppler-exec/client/cli_images.h"
#include "tools/doppler-exec/client/cli_logits.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct run {
    dop_cli *cli;
    dop_cli_generation gen;
    dop_ids prompt;
    dop_buf prompt_text; /* as given; empty for ids */
    dop_cli_images images;
    bool as_ids;     /* print ids instead of text */
    size_t n_before; /* tokens restored by --session */
    uint32_t n;      /* maximum tokens to generate */
    dop_cli_constraint shape;
    double feed_ms;   /* time (dop_now_ms) when feeding began */
    double waited_ms; /* dop_counters.waited_ms when feeding began */
} run;

/* Sets the number of tokens to generate from -n and the free context. */
static dop_status
choose_length(run *r, dop_diag *diag)
{
    uint32_t ctx = r->gen.facts.ctx, trained = r->gen.facts.ctx_trained;
    size_t n_prompt = r->n_before + r->prompt.count;
    if (n_prompt == 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "the prompt has no tokens: give one with -p, -f or --tokens");
    if (n_prompt > ctx)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "the prompt has %zu tokens and the plan's context %u: shorten it or compile with a larger "
                        "--ctx (the model was trained for %u positions)",
                        n_prompt, ctx, trained);
    uint32_t room = ctx - (uint32_t)n_prompt;
    r->n = r->cli->n_predict;
    if (r->n == DOP_CLI_UNSET)
        r->n = room < 128 ? room : 128;
    else if (r->n == DOP_OPTION_MINUS_1)
        r->n = room;
    if (r->n > room)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "-n %u after a prompt of %zu tokens does not fit the plan's context of %u: use -n %u or less, "
                        "or compile with a larger --ctx (the model was trained for %u positions)",
                        r->n, n_prompt, ctx, room, trained);
    return DOP_OK;
}

/* Restores the sequence from --session FILE if the file exists. */
static dop_status
restore_session(run *r, dop_diag *diag)
{
    if (!r->cli->session || access(r->cli->session, F_OK) != 0)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_sequence_load(r->gen.sequence, r->cli->session, diag, NULL, NULL));
    (void)dop_sequence_tokens(r->gen.sequence, &r->n_before);
    return DOP_OK;
}

static dop_status
prepare_run(run *r, dop_diag *diag)
{
    dop_cli *cli = r->cli;
    dop_status st;
    const char *needed = cli->chat                                                ? "--chat"
                         : cli->prompt                                            ? "-p"
                         : cli->file                                              ? "-f"
                         : cli->images.count && !cli->tokens && !cli->tokens_file ? "--image"
                         : cli->stop.count                                        ? "--stop"
                         : dop_cli_wants_shape(cli)                               ? "a shape of what is generated"
                                                                                  : NULL;
    if ((st = dop_cli_generation_open(cli, needed, diag, &r->gen)) != DOP_OK)
        return st;
    const dop_text *text = r->gen.text;
    if ((st = restore_session(r, diag)) != DOP_OK ||
        (st = dop_cli_hear(cli, r->gen.model, r->gen.sequence, diag)) != DOP_OK ||
        (st = dop_cli_images_add(&r->images, cli, r->gen.model, diag)) != DOP_OK ||
        (st = dop_cli_prompt(cli, cli->chat || r->images.n ? NULL : text, diag, &r->prompt, &r->prompt_text)) != DOP_OK)
        return st;
    if (r->images.n && (cli->tokens || cli->tokens_file))
        st = dop_cli_images_place(&r->images, &r->prompt, diag);
    else if (r->images.n && !cli->chat)
        st = dop_cli_images_encode(&r->images, text, r->prompt_text.data, r->prompt_text.size, dop_cli_special(cli),
                                   diag, &r->prompt);
    if (st != DOP_OK)
        return st;
    if (r->n_before > 0 && text && !cli->chat && !cli->tokens && !cli->tokens_file) {
        r->prompt.count = 0; /* the prompt continues a text: no BOS */
        st = dop_cli_encode(text, r->prompt_text.data, r->prompt_text.size,
                            dop_cli_special(cli) & DOP_TEXT_PARSE_SPECIAL, diag, &r->prompt);
        if (st != DOP_OK)
            return st;
    }
    if (cli->chat && (st = dop_chat_prompt(cli, &r->gen, &r->prompt_text, &r->images, diag, &r->prompt)) != DOP_OK)
        return st;
    /* Without any prompt: start from BOS. */
    if (!text && r->n_before == 0 && !cli->tokens && !cli->tokens_file && r->gen.facts.bos_id >= 0)
        dop_ids_push(&r->prompt, (uint32_t)r->gen.facts.bos_id);
    if (r->prompt.failed)
        return DOP_NO_MEMORY(diag);
    r->as_ids = cli->print_ids || !text;
    r->gen.streams = !r->as_ids && !cli->json;
    if (dop_cli_wants_shape(cli) && (st = dop_cli_constraint_start(cli, &r->gen, diag, &r->shape)) != DOP_OK)
        return st;
    if (cli->logprobs != DOP_CLI_UNSET && !cli->json)
        return DOP_FAIL(diag, DOP_E_USAGE, "--logprobs goes with --json");
    st = choose_length(r, diag);
    return st == DOP_OK && r->n > 0 ? dop_cli_generation_begin(&r->gen, r->prompt.count, r->n, diag) : st;
}

static dop_status
show_prompt(run *r, dop_diag *diag)
{
    if (r->cli->no_display_prompt || r->cli->chat || r->as_ids || r->cli->json || r->n == 0)
        return DOP_OK;
    if (r->prompt_text.size > 0)
        return dop_cli_print(r->prompt_text.data, r->prompt_text.size, diag);
    char *text;
    size_t n;
    dop_status st = DOP_OK;
    DOP_TRY(dop_text_decode(r->gen.text, r->prompt.data, r->prompt.count, diag, &text, &n));
    DOP_TRY(dop_cli_print(text, n, diag));
error:
    dop_free(text);
    return st;
}

static dop_status
feed_prompt(run *r, dop_diag *diag)
{
    r->waited_ms = dop_model_counters(r->gen.model).waited_ms;
    r->feed_ms = dop_now_ms();
    if (!r->cli->logits) {
        if (r->n == 0) /* the prompt matters only for the session to save */
            return r->cli->session ? dop_sequence_feed(r->gen.sequence, r->prompt.data, r->prompt.count, diag) : DOP_OK;
        return dop_generation_read(r->gen.writer, r->prompt.data, r->prompt.count, diag);
    }
    dop_logits_file file;
    dop_status st = dop_logits_file_open(r->cli->logits, r->gen.facts.vocab, diag, &file);
    if (st != DOP_OK)
        return st;
    st = dop_sequence_score(r->gen.sequence, r->prompt.data, r->prompt.count, dop_logits_file_write, &file, diag);
    dop_status closed = dop_logits_file_close(&file, st == DOP_OK, diag);
    return st != DOP_OK ? st : closed;
}

/* Feeds the prompt. On a terminal, shows a progress line meanwhile, as some devices compile kernels in their first
 * step. */
static dop_status
read_run_prompt(run *r, dop_diag *diag)
{
    const bool shows = dop_cli_shows_progress(r->cli);
    if (shows)
        fputs("reading ...", stderr);
    const dop_status st = feed_prompt(r, diag);
    if (shows)
        fputs("\r           \r", stderr);
    return st;
}

static dop_status
print_ids(const run *r, dop_diag *diag)
{
    dop_buf line = {0};
    for (size_t i = 0; i < r->gen.ids.count; i++)
        dop_buf_printf(&line, "%s%u", i ? " " : "", r->gen.ids.data[i]);
    dop_buf_puts(&line, "\n");
    dop_status st = dop_cli_print_buf(&line, diag);
    dop_buf_finish(&line);
    return st;
}

/* Returns prompt tokens per second, without the time spent waiting for kernels, which print_run_summary reports
 * separately. */
static double
get_prefill_rate(const run *r)
{
    if (r->gen.ids.count == 0)
        return 0;
    const double waited = r->gen.waited_ms[0] - r->waited_ms;
    return (double)r->prompt.count * 1e3 / (r->gen.times[0] - r->feed_ms - waited);
}

static double
decode_rate(const run *r)
{
    const size_t n = r->gen.ids.count;
    const double waited = r->gen.waited_ms[1] - r->gen.waited_ms[0];
    return n > 1 ? (double)(n - 1) * 1e3 / (r->gen.times[n - 1] - r->gen.times[0] - waited) : 0;
}

static int
compare_step_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Computes percentiles (nearest rank) of the time between tokens in ms. */
static void
compute_percentiles(const run *r, const double *shares, size_t n_shares, double *out)
{
    size_t n = r->gen.ids.count > 1 ? r->gen.ids.count - 1 : 0;
    double *steps = n ? calloc(n, sizeof *steps) : NULL;
    for (size_t i = 0; i < n && steps; i++)
        steps[i] = r->gen.times[i + 1] - r->gen.times[i];
    if (steps)
        qsort(steps, n, sizeof *steps, compare_step_times);
    for (size_t i = 0; i < n_shares; i++) {
        size_t rank = (size_t)(shares[i] * (double)n + 0.999999);
        out[i] = steps ? steps[rank ? rank - 1 : 0] : 0;
    }
    free(steps);
}

/* Returns the value as JSON, or null if it was not measured. */
static json_t *
make_measured_json(bool known, double value)
{
    return known ? json_real(value) : json_null();
}

static json_t *
timings_json(const run *r)
{
    static const double shares[3] = {0.50, 0.95, 0.99};
    double p[3];
    compute_percentiles(r, shares, 3, p);
    const bool any = r->gen.ids.count > 0, several = r->gen.ids.count > 1;
    const double first = any ? r->gen.times[0] : 0;
    const dop_counters c = dop_model_counters(r->gen.model);
    return json_pack(
        "{s:f, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o}, s:o, s:I}", "modelLoadMs", r->gen.facts.load_ms, "firstTokenMs",
        make_measured_json(any, first - r->feed_ms), "startToFirstTokenMs",
        make_measured_json(any, first - r->cli->start_ms), "prefillTokensPerSec",
        make_measured_json(any, get_prefill_rate(r)), "decodeTokensPerSec", make_measured_json(several, decode_rate(r)),
        "decodeMsPerToken", "p50", make_measured_json(several, p[0]), "p95", make_measured_json(several, p[1]), "p99",
        make_measured_json(several, p[2]), "kernelsWaitMs", make_measured_json(any, r->gen.waited_ms[1] - r->waited_ms),
        "tokensReused", (json_int_t)c.tokens_reused);
}

static json_t *
speculation_json(const run *r)
{
    dop_speculation_counts c = dop_sequence_speculation_counts(r->gen.sequence);
    return json_pack("{s:I, s:I, s:I, s:I}", "steps", (json_int_t)c.steps, "drafted", (json_int_t)c.drafted, "accepted",
                     (json_int_t)c.accepted, "again", (json_int_t)c.again);
}

static json_t *
logprob_json(const dop_logprob *p)
{
    return json_pack("{s:I, s:f}", "id", (json_int_t)p->id, "logprob", (double)p->logprob);
}

/* Returns an array with an object per token: {"id", "logprob", "top": [{"id", "logprob"}, ...]}, most likely first. */
static json_t *
logprobs_json(const run *r)
{
    const uint32_t n_top = r->gen.n_top;
    const dop_logprob *p = r->gen.logprobs;
    json_t *list = json_array();
    for (size_t i = 0; i < r->gen.ids.count; i++, p += n_top + 1) {
        json_t *pick = logprob_json(p), *top = json_array();
        for (uint32_t k = 0; k < n_top; k++)
            json_array_append_new(top, logprob_json(&p[1 + k]));
        json_object_set_new(pick, "top", top);
        json_array_append_new(list, pick);
    }
    return list;
}

static dop_status
print_json(const run *r, dop_diag *diag)
{
    const dop_facts *facts = &r->gen.facts;
    dop_counters c = dop_model_counters(r->gen.model);
    char digest[17];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)facts->digest);
    json_t *ids = json_array();
    for (size_t i = 0; i < r->gen.ids.count; i++)
        json_array_append_new(ids, json_integer(r->gen.ids.data[i]));
    json_t *root = json_object();
    size_t n_text = 0;
    const char *text = r->gen.writer ? dop_generation_text(r->gen.writer, &n_text) : "";
    if (r->gen.text)
        json_object_set_new(root, "text", json_stringn(text, n_text));
    json_object_set_new(root, "ids", ids);
    if (r->gen.logprobs)
        json_object_set_new(root, "logprobs", logprobs_json(r));
    json_object_set_new(root, "promptTokens", json_integer((json_int_t)r->prompt.count));
    json_object_set_new(root, "stop", json_string(r->gen.stop_reason));
    json_object_set_new(root, "seed", json_integer((json_int_t)r->gen.sampling.seed));
    json_object_set_new(root, "timings", timings_json(r));
    if (r->cli->draft || r->cli->draft_ngram || r->gen.facts.drafts)
        json_object_set_new(root, "speculation", speculation_json(r));
    json_object_set_new(root, "device",
                        json_pack("{s:s, s:s, s:I}", "name", facts->device, "driver", facts->driver, "bytes",
                                  (json_int_t)facts->device_bytes));
    json_object_set_new(root, "ordering", json_string(dop_model_ordering(r->gen.model)));
    json_object_set_new(root, "plan", json_pack("{s:s, s:s}", "digest", digest, "model", facts->name));
    json_object_set_new(root, "afterLoad",
                        json_pack("{s:I, s:I, s:I}", "deviceAllocations", (json_int_t)c.allocations,
                                  "commandBufferRecordings", (json_int_t)c.recordings, "submissions",
                                  (json_int_t)c.submissions));
    char *line = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(7));
    json_decref(root);
    dop_status st = dop_cli_print_line(line, diag);
    free(line);
    return st;
}

static void
print_run_summary(const run *r)
{
    if (r->cli->quiet)
        return;
    fprintf(stderr, "load %.0f ms", r->gen.facts.load_ms);
    if (r->gen.ids.count > 0)
        fprintf(stderr, "; prefill %zu tokens, %.1f tok/s; first token after %.0f ms", r->prompt.count,
                get_prefill_rate(r), r->gen.times[0] - r->cli->start_ms);
    if (r->gen.ids.count > 1)
        fprintf(stderr, "; decode %zu tokens, %.1f tok/s", r->gen.ids.count - 1, decode_rate(r));
    const double waited = r->gen.ids.count ? r->gen.waited_ms[1] - r->waited_ms : 0;
    if (waited >= 1)
        fprintf(stderr, "; beside that %.0f ms for kernels that were still compiled", waited);
    dop_speculation_counts c = dop_sequence_speculation_counts(r->gen.sequence);
    if (c.steps > 0)
        fprintf(stderr, "; %llu of %llu drafts accepted in %llu steps", (unsigned long long)c.accepted,
                (unsigned long long)c.drafted, (unsigned long long)c.steps);
    fprintf(stderr, "; on %s\n", r->gen.facts.device);
}

dop_status
dop_mode_run(dop_cli *cli, dop_diag *diag)
{
    run r = {.cli = cli};
    dop_status st;
    if ((st = prepare_run(&r, diag)) != DOP_OK)
        goto error;
    dop_cli_hint(cli, r.gen.model);
    if (cli->features && !cli->audio && !cli->mel &&
        (st = dop_cli_features_write(&r.images, cli->features, diag)) != DOP_OK)
        goto error;
    if ((st = read_run_prompt(&r, diag)) != DOP_OK || (st = show_prompt(&r, diag)) != DOP_OK ||
        (st = dop_cli_generate(&r.gen, r.n, diag)) != DOP_OK)
        goto error;
    if (cli->session && (st = dop_sequence_save(r.gen.sequence, cli->session, NULL, 0, diag)) != DOP_OK)
        goto error;
    if (cli->json)
        st = print_json(&r, diag);
    else if (r.as_ids)
        st = print_ids(&r, diag);
    else if (r.n > 0)
        st = dop_cli_print("\n", 1, diag);
    if (st == DOP_OK && r.gen.matcher && strcmp(r.gen.stop_reason, "length") == 0 && !cli->quiet)
        fprintf(stderr, "doppler-exec: note: after %u tokens the text is not complete in the shape that is asked for\n",
                r.n);
    if (st == DOP_OK)
        print_run_summary(&r);
error:
    dop_cli_images_finish(&r.images);
    dop_cli_generation_finish(&r.gen);
    dop_cli_constraint_finish(&r.shape);
    dop_ids_finish(&r.prompt);
    dop_buf_finish(&r.prompt_text);
    return st;
}
