/* Chooses the rows of each step, and runs it.
 *
 * Every decoding job has one row in each step; if a step cannot hold them all, they alternate. Prompts are read in
 * the order of their jobs. The rest of a prompt joins a step of decoding jobs if it fits. Otherwise it is read in
 * the largest possible chunks, in steps of its own that alternate with decode steps. While the same jobs decode, the
 * next step is submitted before the tokens of the last one are known (step_ahead.c). A prompt that arrives then
 * waits for that step. */
#include "serve/engine/engine_step.h"
#include "runtime/library/images.h"
#include "runtime/model/model.h"
#include "runtime/step/adapters.h"
#include "runtime/step/features.h"
#include "runtime/step/restore_point.h"
#include "runtime/step/resume.h"
#include "runtime/step/step_ahead.h"
#include "serve/engine/engine_drafts.h"
#include "serve/engine/engine_internal.h"
#include "serve/engine/engine_job.h"
#include "serve/engine/engine_score.h"
#include "serve/engine/engine_slots.h"
#include "serve/engine/engine_task.h"
#include "text/grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

/* Budget of grammar steps between two steps of the model, for all jobs together: about 10 ms. */
enum { MASK_STEPS = 1000000 };

static void
end_engine_job(dop_engine *e, dop_job *job, dop_job_end end)
{
    size_t from;
    if (job->gen.n_written > 0)
        (void)dop_generation_flush(&job->gen, NULL, &from);
    dop_job_finish(e, job, end, end == DOP_JOB_FAILED ? &e->diag : NULL);
    if (job->released)
        dop_job_free(job);
}

static void
end_due_jobs(dop_engine *e)
{
    double now = dop_now_ms();
    for (uint32_t i = 0; i < e->n_slots; i++) {
        dop_job *job = e->slots[i].job;
        dop_job_end end = job && !e->slots[i].flies ? dop_job_ends_now(e, job, now) : DOP_JOB_GOES_ON;
        if (end != DOP_JOB_GOES_ON)
            end_engine_job(e, job, end);
    }
    dop_job *left = e->first;
    e->first = e->last = NULL;
    e->n_waiting = 0;
    for (dop_job *job = left, *next; job; job = next) {
        next = job->next;
        job->next = NULL;
        dop_job_end end = dop_job_ends_now(e, job, now);
        if (end != DOP_JOB_GOES_ON) {
            end_engine_job(e, job, end);
            continue;
        }
        dop_engine_enqueue(e, job);
    }
}

/* --- rows ---------------------------------------------------------------------------------------------------------------- */

static void
add_job_row(dop_engine *e, dop_job *job, uint32_t token, bool last)
{
    dop_step_row *row = &e->rows[e->n_rows];
    uint32_t wants = dop_generation_wants(&job->gen);
    wants |= wants == DOP_WANTS_LOGITS ? (uint32_t)DOP_WANTS_UNCHECKED : 0;
    *row = (dop_step_row){e->slots[job->slot].sequence, token, last ? wants : 0};
    if (last)
        job->row = e->n_rows;
    e->n_rows++;
}

/* Returns the job that was started first among those in prefill, or NULL. */
static dop_job *
find_next_reader(const dop_engine *e)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < e->n_slots; i++) {
        const dop_job *job = e->slots[i].job;
        if (job && !e->slots[i].flies && job->phase == DOP_JOB_READS && job->row == UINT32_MAX &&
            !dop_job_lacks_mask(job) && job->n_read != dop_job_tokens(job) &&
            (best == UINT32_MAX || e->slots[i].used < e->slots[best].used))
            best = i;
    }
    return best == UINT32_MAX ? NULL : e->slots[best].job;
}

/* Computes the features of the prompt's images, and puts the ids of the image rows into the prompt. */
static dop_status
place_prompt_images(dop_engine *e, dop_job *job, dop_diag *diag)
{
    dop_status st = DOP_OK;
    const uint32_t n = job->request.n_images;
    for (uint32_t i = 0; i < n; i++) {
        DOP_TRY(dop_image_see(job->images[i], diag));
        dop_engine_lock(e);
        e->metrics.pictures++;
        e->metrics.pictures_kept += dop_image_was_kept(job->images[i]);
        dop_engine_unlock(e);
    }
    DOP_TRY(dop_images_place(job->request.eyes, job->tokens_of, job->request.n_prompt, job->images, n, diag));
error:
    job->placed = st == DOP_OK;
    job->gen.refused = st == DOP_E_INPUT;
    return st;
}

/* Resumes from the prefix cache before the first token of a prompt is read. */
static dop_status
resume_prompt(dop_engine *e, dop_job *job, dop_diag *diag)
{
    /* minimum tokens of an ended text to save it to host memory before its sequence is reused */
    enum { WORTH_STORING = 1024 };
    const uint64_t seed = dop_adapters_name(e->model, job->request.uses, job->request.n_uses);
    const dop_prompt prompt = {
        .ids = job->tokens_of, .n = dop_job_tokens(job), .most = dop_job_tokens(job) - 1, .seed = seed};
    dop_slot *slot = &e->slots[job->slot];
    dop_resumed got;
    size_t n;
    (void)dop_sequence_tokens(slot->sequence, &n);
    if (slot->ended && n >= WORTH_STORING)
        (void)dop_sequence_end_turn(slot->sequence, NULL);
    else if (slot->ended && dop_step_drain(e->model, NULL) == DOP_OK)
        (void)dop_sequence_mark(slot->sequence, NULL);
    slot->ended = false;
    dop_status st = job->images && !job->placed ? place_prompt_images(e, job, diag) : DOP_OK;
    if (st == DOP_OK)
        st = dop_sequence_set_adapters(slot->sequence, job->request.uses, job->request.n_uses, diag);
    if (st == DOP_OK)
        st = dop_sequence_resume(slot->sequence, &prompt, diag, &got);
    if (st != DOP_OK)
        return st;
    job->n_read = got.n;
    job->parts_at = got.common;
    dop_engine_lock(e);
    if (job->gen.n_written == 0) {
        job->n_reused = got.n;
        e->metrics.reused_tokens += got.n;
        e->metrics.prompt_tokens += job->request.n_prompt;
    }
    dop_engine_unlock(e);
    return DOP_OK;
}

/* Adds the rows of a decoding job: earlier tokens that its sequence lacks again, its last token, and drafts. */
static void
add_writer_rows(dop_engine *e, dop_job *job)
{
    const dop_sequence *s = e->slots[job->slot].sequence;
    const uint32_t n = dop_job_tokens(job), from = e->drafts && s->n_tokens < n ? s->n_tokens : n - 1;
    if (e->n_rows + n - from + job->n_drafts > e->max_rows)
        job->n_drafts = 0;
    for (uint32_t i = from; i < n; i++)
        add_job_row(e, job, job->tokens_of[i], i + 1 == n);
    const uint32_t row = job->row;
    for (uint32_t i = 0; i < job->n_drafts; i++)
        add_job_row(e, job, job->drafts[i], true);
    job->row = row;
}

/* Adds the rows of up to `most` decoding jobs. Returns the number of rows. */
static uint32_t
add_all_writers(dop_engine *e, uint32_t most)
{
    uint32_t n = 0;
    if (most > 0)
        dop_engine_drafts_make(e);
    for (uint32_t k = 0; k < e->n_slots; k++) {
        uint32_t i = (e->turn + k) % e->n_slots;
        dop_job *job = e->slots[i].job;
        if (!job || e->slots[i].flies || job->phase != DOP_JOB_WRITES || dop_job_lacks_mask(job))
            continue;
        if (n == most || (n > 0 && e->drafts && e->n_rows + DOP_JOB_DRAFTS + 1 > e->max_rows)) {
            e->turn = i;
            break;
        }
        add_writer_rows(e, job);
        n++;
    }
    return e->n_rows;
}

/* Adds the next tokens of a prompt. The step ends where the prompt diverges from an earlier one, so that a
 * checkpoint can be made there. */
static void
add_prompt_rows(dop_engine *e, dop_job *job, uint32_t n)
{
    if (job->parts_at > job->n_read && job->parts_at - job->n_read < n)
        n = job->parts_at - job->n_read;
    n = dop_features_whole(e->model, job->tokens_of, job->n_read, n, dop_job_tokens(job), e->max_chunk);
    e->slots[job->slot].reads = true;
    for (uint32_t i = 0; i < n; i++, job->n_read++)
        add_job_row(e, job, job->tokens_of[job->n_read], job->n_read + 1 == dop_job_tokens(job));
}

/* Clears the row of the job that owns it: the job gets no token in this step. */
static void
clear_job_row(dop_engine *e, uint32_t row)
{
    for (uint32_t i = 0; i < e->n_slots; i++)
        if (e->slots[i].job && !e->slots[i].flies && e->slots[i].job->row == row)
            e->slots[i].job->row = UINT32_MAX;
}

/* Ends a job with a copy of its embedding; vector NULL: the job fails with diag. */
static void
end_embedding_job(dop_engine *e, dop_job *job, const float *vector, const dop_diag *diag)
{
    float *copy = vector ? calloc((size_t)job->n_embedding + 1, sizeof *copy) : NULL;
    if (!copy) {
        dop_engine_fail_job(e, job, diag);
        return;
    }
    memcpy(copy, vector, job->n_embedding * sizeof *copy);
    dop_engine_lock(e);
    job->embedding = copy; /* under the lock, because other threads read jobs (dop_job_look) */
    e->metrics.prompt_tokens += job->request.n_prompt;
    dop_job_finish(e, job, DOP_JOB_LENGTH, NULL);
    if (job->released)
        dop_job_free(job);
    dop_engine_unlock(e);
}

/* Computes the embedding of a job immediately, between two steps. */
static void
embed_job(dop_engine *e, dop_job *job)
{
    dop_diag diag = {0};
    dop_sequence *s = e->slots[job->slot].sequence;
    dop_status st = dop_slot_rewind(&e->slots[job->slot], 0, &diag);
    float *vector = calloc((size_t)job->n_embedding + 1, sizeof *vector);
    if (st == DOP_OK && !vector)
        st = DOP_NO_MEMORY(&diag);
    if (st == DOP_OK)
        st = dop_sequence_embed(s, job->tokens_of, job->request.n_prompt, job->request.pooling, &diag, vector);
    if (st == DOP_E_DEVICE)
        dop_engine_give_up(e, &diag);
    end_embedding_job(e, job, st == DOP_OK ? vector : NULL, &diag);
    free(vector);
}

/* Computes the embeddings of n jobs as a batch. If that fails, retries each job separately, so that only the faulty
 * jobs fail. */
static void
encode_job_batch(dop_engine *e, dop_job *const *jobs, uint32_t n)
{
    dop_diag diag = {0};
    dop_token_text texts[DOP_ENGINE_TEXTS];
    const uint32_t size = jobs[0]->n_embedding;
    float *vectors = calloc((size_t)n * size + 1, sizeof *vectors);
    for (uint32_t i = 0; i < n; i++)
        texts[i] = (dop_token_text){.ids = jobs[i]->tokens_of,
                                    .n = (uint32_t)jobs[i]->request.n_prompt,
                                    .second = jobs[i]->request.second ? jobs[i]->request.second : UINT32_MAX};
    dop_status st =
        vectors ? dop_model_embed(e->model, texts, n, jobs[0]->request.pooling, &diag, vectors) : DOP_NO_MEMORY(&diag);
    if (st == DOP_E_DEVICE)
        dop_engine_give_up(e, &diag);
    for (uint32_t i = 0; i < n; i++) {
        if (st != DOP_OK && st != DOP_E_DEVICE && n > 1)
            encode_job_batch(e, &jobs[i], 1);
        else
            end_embedding_job(e, jobs[i], st == DOP_OK ? vectors + (size_t)i * size : NULL, &diag);
    }
    free(vectors);
}

/* Runs the tasks of jobs, and computes the embeddings of jobs with the pooling of the first one, in as few steps as
 * possible. */
static void
encode_ready_jobs(dop_engine *e)
{
    dop_job *jobs[DOP_ENGINE_TEXTS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_slots; i++) {
        dop_job *job = e->slots[i].job;
        if (job && job->request.task.run) {
            dop_engine_do_task(e, job);
            continue;
        }
        if (job && (n == 0 || job->request.pooling == jobs[0]->request.pooling))
            jobs[n++] = job;
    }
    if (n > 0)
        encode_job_batch(e, jobs, n);
}

static void
clear_all_job_rows(dop_engine *e)
{
    for (uint32_t i = 0; i < e->n_rows; i++)
        clear_job_row(e, i);
    e->n_rows = 0;
}

/* Returns the maximum number of decoding jobs in a step. If several steps are in flight, each gets an equal share of
 * these jobs. */
static uint32_t
count_step_writers(const dop_engine *e)
{
    uint32_t n = 0, room = e->max_rows > 1 ? e->max_rows : e->n_slots;
    for (uint32_t i = 0; i < e->n_slots; i++)
        n += e->slots[i].job && e->slots[i].job->phase == DOP_JOB_WRITES && !dop_job_lacks_mask(e->slots[i].job);
    n = e->n_groups > 1 ? (n + e->n_groups - 1) / e->n_groups : n;
    return n < room ? n : room;
}

void
dop_engine_prepare_masks(dop_engine *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_slots; i++)
        n += e->slots[i].job && !e->slots[i].flies && dop_job_lacks_mask(e->slots[i].job);
    for (uint32_t i = 0; i < e->n_slots && n > 0; i++) {
        dop_diag diag = {0};
        dop_job *job = e->slots[i].job;
        if (job && !e->slots[i].flies && dop_generation_prepare(&job->gen, MASK_STEPS / n, &diag) != DOP_OK)
            dop_engine_fail_job(e, job, &diag);
    }
}

void
dop_engine_plan_step(dop_engine *e)
{
    bool together = e->max_rows > 1 || e->n_slots == 1;
    e->n_rows = 0;
    if (e->encodes) {
        encode_ready_jobs(e);
        return;
    }
    for (uint32_t i = 0; i < e->n_slots; i++)
        if (e->slots[i].job && !e->slots[i].flies)
            e->slots[i].job->row = UINT32_MAX;
    uint32_t n = add_all_writers(e, count_step_writers(e));
    bool alone = n > 0 && e->read_last; /* this step is only for decoding jobs */
    e->read_last = false;
    if (n > 0 && dop_step_rows_run(e->model))
        return;
    for (dop_job *job; (job = find_next_reader(e)) != NULL;) {
        dop_diag diag = {0};
        if (job->request.embeds || job->request.task.run || dop_job_lacks_scores(job)) {
            if (alone || e->n_rows > n)
                return;
            clear_all_job_rows(e);
            e->lands = e->n_flying > 0;
            if (e->lands)
                return;
            e->read_last = true;
            if (job->request.task.run)
                dop_engine_do_task(e, job);
            else if (job->request.embeds)
                embed_job(e, job);
            else
                dop_engine_score(e, job);
            return;
        }
        if (job->n_read == UINT32_MAX && resume_prompt(e, job, &diag) != DOP_OK) {
            if (diag.code == DOP_E_DEVICE)
                dop_engine_give_up(e, &diag);
            dop_engine_fail_job(e, job, &diag);
            continue;
        }
        uint32_t left = dop_job_tokens(job) - job->n_read;
        if (!together) { /* each sequence is replayed separately */
            add_prompt_rows(e, job, left < e->max_chunk ? left : e->max_chunk);
            return;
        }
        if (e->n_rows > 0 && e->n_rows + left <= e->max_rows) {
            add_prompt_rows(e, job, left);
            if (job->n_read < dop_job_tokens(job)) /* the step ends where the prompt diverges */
                return;
            continue;
        }
        if (alone || e->n_rows > n) /* other prompts are already in this step: a long one must wait for the next */
            return;
        clear_all_job_rows(e);
        n = 0;
        e->read_last = true;
        add_prompt_rows(e, job, left < e->max_chunk ? left : e->max_chunk);
        if (e->n_rows >= e->max_rows)
            return;
    }
}

/* --- running ------------------------------------------------------------------------------------------------------------- */

/* Samples the token of one job. A failure ends only this job. */
static dop_status
pick_job_token(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    dop_engine_picks *p = user;
    dop_job *job = p->jobs[index];
    (void)diag;
    job->step_diag = (dop_diag){0};
    if (dop_engine_drafts_pick(job, &p->e->pickers[worker], &job->step_diag) == DOP_OK && job->gen.matcher &&
        !dop_matcher_must_end(job->gen.matcher))
        (void)dop_generation_prepare(&job->gen, p->slice, &job->step_diag); /* computed here to use several threads */
    return DOP_OK;
}

void
dop_engine_pick_all(dop_engine *e, bool flies, uint32_t group, dop_engine_picks *out_picks)
{
    enum { WORTH_A_THREAD = 60000 }; /* number of logits per additional thread */
    dop_engine_picks *p = out_picks;
    uint64_t values = 0;
    *p = (dop_engine_picks){.e = e};
    for (uint32_t i = 0; i < e->n_slots; i++) {
        const dop_slot *slot = &e->slots[i];
        dop_job *job = slot->job;
        if (!job || job->row == UINT32_MAX || slot->flies != flies || (flies && slot->group != group))
            continue;
        p->jobs[p->n++] = job;
        values += dop_generation_wants(&job->gen) == DOP_WANTS_LOGITS ? e->facts.vocab : 0;
    }
    p->slice = p->n > 0 ? MASK_STEPS / p->n : 0;
    uint64_t threads = values / WORTH_A_THREAD + 1;
    if (threads > e->n_threads)
        threads = e->n_threads;
    if (p->n > 0)
        (void)dop_parallel_for(p->n, (uint32_t)threads, pick_job_token, p, NULL);
}

void
dop_engine_write_all(dop_engine *e, const dop_engine_picks *picks)
{
    const dop_engine_picks *p = picks;
    double now = dop_now_ms();
    for (uint32_t i = 0; i < p->n; i++) {
        dop_job *job = p->jobs[i];
        job->phase = DOP_JOB_WRITES;
        if (job->step_diag.code != DOP_OK)
            dop_job_finish(e, job, DOP_JOB_FAILED, &job->step_diag);
        else if (job->request.max_tokens == 0)
            dop_job_finish(e, job, DOP_JOB_LENGTH, NULL);
        for (uint32_t k = 0; job->phase == DOP_JOB_WRITES && k < job->n_picks; k++) {
            job->gen.pick = job->picks[k];
            dop_job_write(e, job, now);
        }
        if (job->released && job->phase == DOP_JOB_ENDED)
            dop_job_free(job);
    }
}

/* Runs the rows of one sequence of a failed step. If they fail again, the sequence's job is the cause and fails. */
static void
run_sequence_alone(dop_engine *e, dop_job *job, const dop_step_row *rows, uint32_t n)
{
    dop_diag diag = {0};
    dop_engine_picks p = {.e = e, .n = 1, .jobs = {job}, .slice = MASK_STEPS};
    dop_step_row *own = malloc(n * sizeof *own);
    uint32_t n_own = 0;
    for (uint32_t i = 0; i < n && own; i++)
        if (rows[i].sequence == e->slots[job->slot].sequence)
            own[n_own++] = rows[i];
    n_own -= n_own > job->n_drafts ? job->n_drafts : 0;
    job->n_drafts = 0;
    if (!own)
        DOP_NO_MEMORY(&diag);
    else if (n_own > 0 && dop_step_run(e->model, own, n_own, &diag) == DOP_OK) {
        bool picks_now = job->row != UINT32_MAX;
        job->row = n_own - 1;
        if (picks_now)
            (void)pick_job_token(&p, 0, 0, NULL);
        dop_step_commit(e->model);
        if (picks_now) {
            dop_engine_lock(e);
            dop_engine_write_all(e, &p);
            dop_engine_unlock(e);
        }
    }
    free(own);
    if (diag.code == DOP_E_DEVICE)
        dop_engine_give_up(e, &diag);
    else if (diag.code != DOP_OK)
        dop_engine_fail_job(e, job, &diag);
}

void
dop_engine_run_each(dop_engine *e, const dop_step_row *rows, uint32_t n_rows)
{
    for (uint32_t i = 0; i < e->n_slots; i++)
        if (e->slots[i].job && !e->slots[i].flies)
            run_sequence_alone(e, e->slots[i].job, rows, n_rows);
}

void
dop_engine_mark_chunks(dop_engine *e)
{
    for (uint32_t i = 0; i < e->n_slots; i++) {
        dop_slot *slot = &e->slots[i];
        const dop_job *job = slot->job;
        if (!slot->reads || slot->flies)
            continue;
        slot->reads = false;
        if (!job || job->n_read == UINT32_MAX)
            continue;
        if (job->n_read == job->parts_at || job->n_read == dop_job_tokens(job))
            (void)dop_sequence_mark(slot->sequence, NULL); /* after a failure, the tokens are recomputed later */
        else
            (void)dop_sequence_mark_chunk(slot->sequence, NULL);
    }
}

void
dop_engine_ready_picks(dop_engine *e)
{
    for (uint32_t i = 0; i < e->n_slots; i++) {
        dop_diag diag = {0};
        dop_job *job = e->slots[i].job;
        if (job && !e->slots[i].flies && job->row != UINT32_MAX && dop_generation_ready(&job->gen, &diag) != DOP_OK)
            dop_engine_fail_job(e, job, &diag);
    }
}

void
dop_engine_count_step(dop_engine *e, uint32_t n_rows, double start_ms, double pick_ms)
{
    e->metrics.steps++;
    e->metrics.rows += n_rows;
    dop_histogram_add(&e->metrics.step, (dop_now_ms() - start_ms) / 1e3);
    dop_histogram_add(&e->metrics.pick, pick_ms / 1e3);
}

/* Announces how many more tokens the sequences of this step will get, so that no useless step is submitted ahead. If
 * the next step reads a prompt, only one token is announced. */
static void
announce_token_counts(dop_engine *e)
{
    const bool reads = find_next_reader(e) != NULL;
    for (uint32_t i = 0; i < e->n_slots; i++) {
        const dop_job *job = e->slots[i].job;
        if (job && job->row != UINT32_MAX)
            dop_sequence_expect(e->slots[i].sequence, reads ? 1 : job->request.max_tokens - job->gen.n_written);
    }
}

void
dop_engine_run_step(dop_engine *e)
{
    dop_diag diag = {0};
    dop_engine_picks p = {0};
    double begin = dop_now_ms();
    dop_engine_ready_picks(e);
    announce_token_counts(e);
    dop_status st = dop_step_run(e->model, e->rows, e->n_rows, &diag);
    double ran = dop_now_ms(), picked = ran;
    if (st == DOP_OK) {
        dop_engine_pick_all(e, false, 0, &p);
        picked = dop_now_ms();
        dop_engine_drafts_judge(e, &p, ran - begin);
        dop_step_commit(e->model);
        dop_engine_mark_chunks(e);
    } else if (st == DOP_E_FULL && dop_engine_make_pages(e)) {
        return;
    } else if (st == DOP_E_DEVICE) {
        dop_engine_give_up(e, &diag);
        return;
    } else {
        dop_engine_run_each(e, e->rows, e->n_rows);
    }
    dop_engine_lock(e);
    dop_engine_write_all(e, &p);
    dop_engine_count_step(e, e->n_rows, begin, picked - ran);
    dop_engine_unlock(e);
}

/* Copies the model's counters to the metrics. dop_engine_metrics adds the counters of files, which change in the
 * background. */
static void
copy_model_counters(dop_engine *e)
{
    const dop_counters c = dop_model_counters(e->model);
    e->metrics.steps_ahead = c.steps_ahead;
    e->metrics.loaded_tokens = c.tokens_loaded;
    e->metrics.checkpoints_made = c.checkpoints_made;
    e->metrics.checkpoints_used = c.checkpoints_used;
    e->metrics.cache_hits = c.cache_hits;
    e->metrics.file_hits = c.file_hits;
    e->metrics.checkpoint_bytes = c.checkpoint_bytes;
    e->metrics.cache_bytes = c.cache_bytes;
}

bool
dop_engine_take_jobs(dop_engine *e)
{
    dop_engine_lock(e);
    copy_model_counters(e);
    end_due_jobs(e);
    dop_engine_give_sequences(e);
    dop_engine_publish(e);
    while (e->metrics.running == 0 && !e->first && !e->stopped)
        pthread_cond_wait(&e->work, &e->lock);
    dop_engine_give_sequences(e);
    const bool done = e->stopped && e->metrics.running == 0;
    dop_engine_unlock(e);
    return !done;
}
