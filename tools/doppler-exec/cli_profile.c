/* --profile: times every dispatch of a prompt and a few tokens, of an embedded text, or of an image generation. */
#include "plan/plan_format.h"
#include "plan/plan_names.h"
#include "plan/plan_part.h"
#include "runtime/model/model.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/common/cli_common.h"
#include "tools/profile/profile.h"
#include "tools/profile/profile_html.h"
#include "tools/profile/profile_stages.h"
#include "tools/profile/profile_table.h"
#include "tools/profile/profile_times.h"
#include "tools/profile/profile_trace.h"

#include <doppler/draw.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 64, TOKENS = 32 };

/* Gets the command line's prompt, or arbitrary ids without one; speed does not depend on them. */
static dop_status
choose_profile_prompt(const dop_cli *cli, const dop_model *model, dop_diag *diag, dop_ids *out_ids)
{
    const char *needed = cli->prompt ? "-p" : cli->file ? "-f" : NULL;
    dop_status st = DOP_OK;
    dop_facts facts;
    dop_model_facts(model, &facts);
    if (!needed && !cli->tokens && !cli->tokens_file) {
        uint32_t n = facts.ctx / 2 < PROMPT ? (facts.ctx + 1) / 2 : PROMPT;
        for (uint32_t i = 0; i < n; i++)
            dop_ids_push(out_ids, (i * 2654435761u >> 8) % facts.vocab);
    } else {
        dop_text *tokenizer = NULL;
        dop_buf text = {0};
        st = needed ? dop_cli_text(cli, model, needed, diag, &tokenizer) : DOP_OK;
        if (st == DOP_OK)
            st = dop_cli_prompt(cli, tokenizer, diag, out_ids, &text);
        dop_buf_finish(&text);
        dop_text_destroy(tokenizer);
    }
    if (st == DOP_OK && out_ids->failed)
        st = DOP_NO_MEMORY(diag);
    if (st == DOP_OK && out_ids->count == 0)
        st = DOP_FAIL(diag, DOP_E_INPUT, "the prompt has no tokens");
    return st;
}

/* Runs n steps of `batch` sequences with the prefix of s. *out_ms: time of all steps but the first. */
static dop_status
run_batch(dop_model *m, dop_sequence *s, dop_profile *p, uint32_t batch, uint32_t n, dop_diag *diag, double *out_ms)
{
    dop_step_row rows[DOP_STEP_MAX_SEQUENCES] = {{s, 0, DOP_WANTS_PICK}};
    double start = 0;
    dop_status st = DOP_OK;
    for (uint32_t k = 1; k < batch && st == DOP_OK; k++) {
        rows[k] = rows[0];
        st = dop_sequence_fork(s, diag, &rows[k].sequence);
    }
    for (uint32_t k = 0; k < batch && st == DOP_OK; k++)
        dop_sequence_expect(rows[k].sequence, n);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        dop_profile_begin(p, "step", i);
        st = dop_step_run(m, rows, batch, diag);
        for (uint32_t k = 0; k < batch && st == DOP_OK; k++)
            rows[k].token = dop_step_pick(m, k);
        dop_step_commit(m);
        dop_profile_end(p);
        start = i == 0 ? dop_now_ms() : start;
    }
    *out_ms = dop_now_ms() - start;
    for (uint32_t k = 1; k < batch; k++)
        dop_sequence_destroy(rows[k].sequence);
    return st;
}

/* Runs a prompt, then n tokens or n steps of `batch` sequences. Records nothing while p is stopped. *out_ms: time of
 * the tokens, or of all steps but the first. */
static dop_status
run_prompt_and_steps(dop_model *m, dop_sequence *s, dop_profile *p, const dop_ids *prompt, uint32_t batch, uint32_t n,
                     dop_diag *diag, double *out_ms)
{
    double start = 0;
    dop_profile_begin(p, "reset", 0);
    dop_status st = dop_sequence_rewind(s, 0, diag);
    dop_profile_end(p);
    dop_sequence_expect(s, n);
    dop_profile_begin(p, "prompt", 0);
    if (st == DOP_OK)
        st = dop_sequence_feed(s, prompt->data, prompt->count, diag);
    dop_profile_end(p);
    if (st == DOP_OK && batch > 1)
        return run_batch(m, s, p, batch, n, diag, out_ms);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        uint32_t id;
        dop_profile_begin(p, "token", i);
        st = dop_sequence_next(s, diag, &id);
        dop_profile_end(p);
        start = i == 0 ? dop_now_ms() : start;
    }
    *out_ms = dop_now_ms() - start;
    return st;
}

/* Measures the time of a step without timestamps, which prevent dispatches from overlapping. The profile p is
 * stopped. */
static dop_status
time_whole_steps(dop_model *m, dop_sequence *s, dop_profile *p, const dop_ids *prompt, uint32_t batch, uint32_t n,
                 dop_diag *diag, dop_profile_whole *out)
{
    const uint32_t kind = batch > 1 ? DOP_SCHED_ROWS : DOP_SCHED_DECODE;
    double ms = 0;
    dop_status st = n > 1 ? run_prompt_and_steps(m, s, p, prompt, batch, n, diag, &ms) : DOP_OK;
    for (size_t i = 0; i < p->n_totals; i++)
        if (p->info.plan->schedules[p->totals[i].schedule].kind == kind)
            *out = (dop_profile_whole){p->totals[i].schedule, n > 1 ? ms * 1e3 / (n - 1) : 0};
    return st;
}

static dop_status
profile_tokens(dop_cli *cli, dop_model *m, dop_sequence *s, dop_profile *p, dop_profile_whole *whole, dop_diag *diag)
{
    dop_facts facts;
    dop_sampling sampling;
    dop_ids prompt = {0};
    dop_model_facts(m, &facts);
    unsigned long batch = cli->bench_batches ? strtoul(cli->bench_batches, NULL, 10) : 1;
    if (batch == 0 || batch > facts.n_sequences)
        return DOP_FAIL(diag, DOP_E_USAGE, "-b %s: --profile takes one number of sequences, and the plan holds %u",
                        cli->bench_batches, facts.n_sequences);
    dop_status st = choose_profile_prompt(cli, m, diag, &prompt);
    if (st != DOP_OK)
        goto error;
    uint32_t ctx = facts.ctx, n = cli->n_predict == DOP_CLI_UNSET ? TOKENS : cli->n_predict;
    uint32_t room = prompt.count < ctx ? ctx - (uint32_t)prompt.count : 0;
    if (n > room && cli->n_predict >= DOP_OPTION_MINUS_1)
        n = room;
    if (prompt.count > ctx || n > room) {
        st = DOP_FAIL(diag, DOP_E_INPUT, "%zu and %u tokens do not fit the plan's context of %u", prompt.count, n, ctx);
        goto error;
    }
    if ((st = dop_cli_sampling(cli, &facts, diag, &sampling)) != DOP_OK)
        goto error;
    /* Greedy picks run on the device alone; the command line may choose otherwise. */
    if (isnan(cli->temperature))
        sampling.temperature = 0;
    dop_sequence_set_sampling(s, &sampling);
    if ((st = dop_profile_attach(m, diag, p)) != DOP_OK)
        goto error;
    /* The first run records command buffers and raises clocks; the second is profiled. */
    double ms;
    if ((st = run_prompt_and_steps(m, s, p, &prompt, (uint32_t)batch, n < DOP_PROFILE_RING ? n : DOP_PROFILE_RING, diag,
                                   &ms)) == DOP_OK &&
        (st = dop_profile_start(p, diag)) == DOP_OK &&
        (st = run_prompt_and_steps(m, s, p, &prompt, (uint32_t)batch, n, diag, &ms)) == DOP_OK &&
        (st = dop_profile_stages(p, m, diag)) == DOP_OK && (st = dop_profile_stop(p, diag)) == DOP_OK && whole)
        st = time_whole_steps(m, s, p, &prompt, (uint32_t)batch, n, diag, whole);
error:
    dop_ids_finish(&prompt);
    return st;
}

/* Runs the programs of a model without tokens: one image (two denoising steps by default), or the prompt's
 * embedding. */
static dop_status
run_programs(const dop_cli *cli, dop_model *m, dop_profile *p, const dop_ids *prompt, dop_diag *diag)
{
    enum { STEPS = 2 };
    dop_draw_facts draws;
    dop_profile_begin(p, "programs", 0);
    dop_status st = DOP_OK;
    if (dop_model_draw_facts(m, &draws)) {
        const uint32_t steps = cli->n_predict < DOP_CLI_UNSET ? (uint32_t)cli->n_predict : STEPS;
        dop_drawing picture = {0};
        st = dop_draw_picture(m, &(dop_draw_options){.text = "a picture", .steps = steps, .guidance = 1}, diag,
                              &picture);
        free(picture.rgb);
    } else {
        float *vector = calloc(dop_model_embedding_size(m) + 1u, sizeof *vector);
        const dop_token_text text = {prompt->data, (uint32_t)prompt->count, (uint32_t)prompt->count};
        st = vector ? dop_model_embed(m, &text, 1, DOP_POOLING_MODEL, diag, vector) : DOP_NO_MEMORY(diag);
        free(vector);
    }
    dop_profile_end(p);
    return st;
}

/* Profiles a model without tokens, as profile_tokens() does for others. */
static dop_status
profile_programs(const dop_cli *cli, dop_model *m, dop_profile *p, dop_diag *diag)
{
    dop_ids prompt = {0};
    dop_draw_facts draws;
    dop_status st = DOP_OK;
    if (!(dop_model_draw_facts(m, &draws)))
        DOP_TRY(choose_profile_prompt(cli, m, diag, &prompt));
    DOP_TRY(dop_profile_attach(m, diag, p));
    DOP_TRY(run_programs(cli, m, p, &prompt, diag));
    DOP_TRY(dop_profile_start(p, diag));
    DOP_TRY(run_programs(cli, m, p, &prompt, diag));
    DOP_TRY(dop_profile_stop(p, diag));
error:
    dop_ids_finish(&prompt);
    return st;
}

/* Opens the plan. *out_sequence stays NULL if the model does not generate tokens. */
static dop_status
open_profiled_model(const dop_cli *cli, dop_diag *diag, dop_model **out_model, dop_sequence **out_sequence)
{
    const char *path = NULL;
    dop_open_options o;
    dop_status st = dop_cli_plan(cli, diag, &path);
    dop_cli_open_options(cli, &o);
    if (st == DOP_OK)
        st = dop_model_open(path, &o, diag, out_model);
    return st == DOP_OK && dop_plan_steps(&(*out_model)->plan) ? dop_cli_sequence(cli, *out_model, diag, out_sequence)
                                                               : st;
}

/* Fails if the plan is in parts: dispatches are timed on one device. */
static dop_status
check_profile_parts(const dop_cli *cli, dop_diag *diag)
{
    const char *path = NULL;
    dop_status st = dop_cli_plan(cli, diag, &path);
    const uint32_t n = st == DOP_OK ? dop_plan_count_parts(path) : 0;
    return n > 1
               ? DOP_FAIL_IN(diag, DOP_E_USAGE, path,
                             "--profile times the dispatches of one device, and this plan is in %u parts: compile the "
                             "model without --parts",
                             n)
               : st;
}

dop_status
dop_mode_profile(dop_cli *cli, dop_diag *diag)
{
    dop_model *model = NULL;
    dop_sequence *sequence = NULL;
    dop_profile p = {0};
    dop_profile_whole whole = {0};
    dop_buf text = {0}, file = {0};
    const char *dot = strrchr(cli->profile, '.');
    bool html = dot && strcmp(dot, ".html") == 0, json = dot && strcmp(dot, ".json") == 0;
    const bool times = dot && strcmp(dot, ".yaml") == 0;
    if (!html && !json && !times)
        return DOP_FAIL(diag, DOP_E_USAGE, "--profile writes FILE.html, FILE.json or FILE.yaml, not \"%s\"",
                        cli->profile);
    /* Uses barriers by default: times of single dispatches are most meaningful if dispatches do not overlap. */
    if (!cli->ordering)
        cli->ordering = "barriers";
    dop_status st = check_profile_parts(cli, diag);
    if (st == DOP_OK)
        st = open_profiled_model(cli, diag, &model, &sequence);
    if (st == DOP_OK)
        st = sequence ? profile_tokens(cli, model, sequence, &p, times ? &whole : NULL, diag)
                      : profile_programs(cli, model, &p, diag);
    if (st != DOP_OK)
        goto error;
    dop_profile_table(&p, &text);
    if (html)
        dop_profile_html(&p, &file);
    else if (times)
        dop_profile_times_yaml(&p, whole.us > 0 ? &whole : NULL, &file);
    else
        dop_profile_trace_json(&p, &file);
    if (text.failed || file.failed)
        st = DOP_NO_MEMORY(diag);
    else if ((st = dop_write_file(cli->profile, file.data, file.size, diag)) == DOP_OK)
        st = dop_cli_print(text.data, text.size, diag);
error:
    dop_buf_finish(&text);
    dop_buf_finish(&file);
    dop_profile_finish(&p);
    dop_model_close(model);
    return st;
}
