/* Lanes: sequences that transcribe windows of audio, many of them in each step. Reference: openai/whisper,
 * decoding.py. */
#include "base/os/clock.h"
#include "base/parallel.h"
#include "runtime/library/speech.h"

#include <stdlib.h>

enum { MOST_LANES = DOP_STEP_MAX_SEQUENCES };

dop_status
dop_lane_init(dop_lane *lane, dop_hearing *hearing, dop_sequence *sequence, dop_diag *diag)
{
    const dop_speech *s = dop_hearing_speech(hearing);
    *lane = (dop_lane){.hearing = dop_hearing_share(hearing), .sequence = sequence, .window = UINT32_MAX};
    lane->attempt.cap = s->ctx;
    lane->attempt.ids = malloc(s->ctx * sizeof *lane->attempt.ids);
    lane->chunk = malloc((size_t)s->facts.bins * s->facts.frames * sizeof *lane->chunk);
    lane->scores = malloc(s->vocab * sizeof *lane->scores);
    return lane->attempt.ids && lane->chunk && lane->scores ? DOP_OK : DOP_NO_MEMORY(diag);
}

void
dop_lane_finish(dop_lane *lane)
{
    free(lane->attempt.ids);
    dop_free(lane->attempt.text);
    free(lane->chunk);
    free(lane->scores);
    dop_hearing_release(lane->hearing);
    *lane = (dop_lane){0};
}

static void
force_lane_token(dop_lane *lane, uint32_t id)
{
    lane->forced[lane->n_forced++] = id;
}

/* Sets the tokens that must follow the start-of-transcript token. */
static void
force_tokens(dop_lane *lane)
{
    const dop_speech *s = dop_hearing_speech(lane->hearing);
    const dop_speech_how *how = dop_hearing_how(lane->hearing);
    lane->n_forced = lane->behind = 0;
    if (s->tokens.languages) {
        force_lane_token(lane, s->language_ids[*dop_hearing_language(lane->hearing)]);
        force_lane_token(lane, how->translate ? s->tokens.translate : s->tokens.transcribe);
    }
    if (how->no_timestamps)
        force_lane_token(lane, s->tokens.no_timestamps);
}

/* Feeds the tokens before the start-of-transcript token, which is the row of the next step. */
static dop_status
begin_attempt(dop_lane *lane, double temperature, dop_diag *diag)
{
    dop_hearing *h = lane->hearing;
    const dop_speech *s = dop_hearing_speech(h);
    const dop_speech_how *how = dop_hearing_how(h);
    const size_t half = s->ctx / 2, most = half > 1 ? half - 1 : 0;
    size_t n, fed = 0;
    const uint32_t *before = dop_hearing_before(h, &n);
    lane->picker = (dop_speech_picker){.speech = s,
                                       .no_timestamps = how->no_timestamps,
                                       .temperature = temperature,
                                       .random = how->seed + dop_hearing_frame(h, lane->window),
                                       .scores = lane->scores};
    lane->attempt.n = 0;
    lane->attempt.temperature = temperature;
    lane->finds_language = s->tokens.languages && *dop_hearing_language(h) == UINT32_MAX;
    dop_status st = dop_sequence_rewind(lane->sequence, 0, diag);
    if (st == DOP_OK && n > 0 && s->tokens.prev != UINT32_MAX && !lane->finds_language) {
        fed = n < most ? n : most;
        st = dop_sequence_feed(lane->sequence, &s->tokens.prev, 1, diag);
        if (st == DOP_OK && fed > 0)
            st = dop_sequence_feed(lane->sequence, before + n - fed, fed, diag);
        fed++;
    }
    if (!lane->finds_language)
        force_tokens(lane);
    lane->token = s->tokens.sot;
    const size_t used = fed + 1 + (lane->finds_language ? 3 : lane->n_forced), room = s->ctx > used ? s->ctx - used : 0;
    lane->most = room < half ? room : half;
    return st;
}

dop_status
dop_lane_begin(dop_lane *lane, dop_diag *diag)
{
    const dop_audio_facts *f = &dop_hearing_speech(lane->hearing)->facts;
    if (dop_lane_writes(lane) || !dop_hearing_next(lane->hearing, &lane->window))
        return DOP_OK;
    const double begin = dop_now_ms();
    dop_hearing_cut(lane->hearing, lane->window, lane->chunk);
    dop_status st = dop_sequence_hear(lane->sequence, lane->chunk, (size_t)f->bins * f->frames, diag, NULL);
    const double heard = dop_now_ms();
    if (st == DOP_OK)
        st = begin_attempt(lane, dop_hearing_how(lane->hearing)->temperature, diag);
    dop_hearing_count(lane->hearing, 0, (heard - begin) / 1e3 + 1e-9, (dop_now_ms() - heard) / 1e3);
    return st;
}

/* True if the next row is the start-of-transcript token. */
static bool
is_first(const dop_lane *lane)
{
    return lane->attempt.n == 0 && lane->behind == 0;
}

dop_step_row
dop_lane_row(const dop_lane *lane)
{
    const bool wants = is_first(lane) || lane->behind == lane->n_forced;
    return (dop_step_row){lane->sequence, lane->token, wants ? DOP_WANTS_LOGITS | DOP_WANTS_UNCHECKED : 0};
}

dop_status
dop_lane_pick(dop_lane *lane, const float *logits, dop_diag *diag)
{
    const dop_speech *s = dop_hearing_speech(lane->hearing);
    lane->pick = UINT32_MAX;
    if (!logits)
        return DOP_OK;
    if (is_first(lane))
        lane->attempt.no_speech = dop_speech_probability(s, logits, s->tokens.no_speech);
    if (lane->finds_language) {
        lane->pick = dop_speech_likeliest_language(s, logits);
        return DOP_OK;
    }
    if (lane->behind < lane->n_forced)
        return DOP_OK;
    return dop_speech_pick(&lane->picker, logits, lane->attempt.ids, lane->attempt.n, diag, &lane->pick);
}

/* Ends an attempt: starts another one if it failed, otherwise delivers it. */
static dop_status
end_attempt(dop_lane *lane, dop_diag *diag)
{
    const dop_speech_how *how = dop_hearing_how(lane->hearing);
    dop_attempt *a = &lane->attempt;
    bool failed = false;
    a->avg_logprob = lane->picker.sum_logprobs / (double)(a->n + 1);
    DOP_RETURN_IF_ERROR(dop_hearing_judge(lane->hearing, a, diag, &failed));
    if (failed && !how->one_attempt && a->temperature + 0.2 < 1.01)
        return begin_attempt(lane, a->temperature + 0.2, diag);
    DOP_RETURN_IF_ERROR(dop_hearing_take(lane->hearing, lane->window, a, diag));
    lane->window = UINT32_MAX;
    return DOP_OK;
}

static dop_status
know_language(dop_lane *lane, dop_diag *diag)
{
    const dop_speech *s = dop_hearing_speech(lane->hearing);
    size_t n;
    for (uint32_t i = 0; i < DOP_N_LANGUAGES; i++)
        if (s->language_ids[i] == lane->pick)
            *dop_hearing_language(lane->hearing) = i;
    lane->finds_language = false;
    (void)dop_hearing_before(lane->hearing, &n);
    if (n > 0) /* the context could not be fed before the language was known */
        return begin_attempt(lane, lane->attempt.temperature, diag);
    force_tokens(lane);
    lane->token = lane->forced[lane->behind++];
    return DOP_OK;
}

dop_status
dop_lane_write(dop_lane *lane, dop_diag *diag)
{
    dop_attempt *a = &lane->attempt;
    if (!dop_hearing_continues(lane->hearing))
        return DOP_FAIL(diag, DOP_E_CANCELLED, "cancelled");
    if (lane->finds_language)
        return know_language(lane, diag);
    if (lane->behind < lane->n_forced) {
        lane->token = lane->forced[lane->behind++];
        return DOP_OK;
    }
    dop_hearing_count(lane->hearing, 1, 0, 0);
    if (lane->pick != dop_hearing_speech(lane->hearing)->tokens.eot && a->n < lane->most && a->n < a->cap) {
        lane->token = a->ids[a->n++] = lane->pick;
        if (a->n < lane->most)
            return DOP_OK;
    }
    return end_attempt(lane, diag);
}

/* --- steps
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct picks {
    dop_lane *lanes[MOST_LANES];
    const float *logits[MOST_LANES];
} picks;

/* Picks for one lane (dop_parallel_fn). */
static dop_status
pick_lane_token(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    picks *p = user;
    (void)worker;
    return dop_lane_pick(p->lanes[index], p->logits[index], diag);
}

dop_status
dop_lanes_step(dop_lane *const *lanes, uint32_t n, uint32_t n_threads, dop_diag *diag)
{
    const double begin = dop_now_ms();
    dop_step_row rows[MOST_LANES];
    picks p;
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < n && n_rows < MOST_LANES; i++)
        if (dop_lane_writes(lanes[i])) {
            rows[n_rows] = dop_lane_row(lanes[i]);
            p.lanes[n_rows++] = lanes[i];
        }
    if (n_rows == 0)
        return DOP_OK;
    dop_model *model = dop_hearing_speech(p.lanes[0]->hearing)->model;
    dop_status st = dop_step_run(model, rows, n_rows, diag);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < n_rows; i++)
        p.logits[i] = dop_step_logits(model, i);
    st = dop_parallel_for(n_rows, n_threads && n_threads < n_rows ? n_threads : n_rows, pick_lane_token, &p, diag);
    dop_step_commit(model);
    const double share = (dop_now_ms() - begin) / 1e3 / n_rows;
    for (uint32_t i = 0; i < n_rows && st == DOP_OK; i++) {
        dop_hearing_count(p.lanes[i]->hearing, 0, 0, share);
        st = dop_lane_write(p.lanes[i], diag);
    }
    return st;
}
