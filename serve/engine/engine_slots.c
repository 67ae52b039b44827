/* Assigns sequences to jobs, and ends jobs or frees pages when resources run out. */
#include "serve/engine/engine_slots.h"
#include "runtime/step/adapters.h"
#include "runtime/step/resume.h"
#include "serve/engine/engine_internal.h"
#include "serve/engine/engine_job.h"

/* Returns how many of the job's tokens can be reused after rewinding the slot's sequence. Excludes the job's last
 * token, which must be computed because its logits are needed. */
static size_t
count_reusable_tokens(const dop_engine *e, const dop_slot *slot, const dop_job *job)
{
    const uint64_t seed = dop_adapters_name(e->model, job->request.uses, job->request.n_uses);
    return e->encodes ? 0 : dop_sequence_reach(slot->sequence, seed, job->tokens_of, dop_job_tokens(job) - 1);
}

/* Chooses the free sequence with the longest common prefix; among equals, the least recently used one. */
static uint32_t
choose_free_slot(const dop_engine *e, const dop_job *job)
{
    uint32_t best = UINT32_MAX;
    size_t best_same = 0;
    for (uint32_t i = 0; i < e->n_slots; i++) {
        if (e->slots[i].job || e->slots[i].flies)
            continue;
        size_t same = count_reusable_tokens(e, &e->slots[i], job);
        if (best == UINT32_MAX || same > best_same || (same == best_same && e->slots[i].used < e->slots[best].used)) {
            best = i;
            best_same = same;
        }
    }
    return best;
}

dop_status
dop_slot_rewind(dop_slot *slot, size_t n, dop_diag *diag)
{
    return slot->sequence ? dop_sequence_rewind(slot->sequence, (uint32_t)n, diag) : DOP_OK;
}

/* Makes sequences without a job release their pages. Full pages stay in the prefix cache until they are overwritten. */
static void
empty_free_slots(dop_engine *e)
{
    for (uint32_t i = 0; i < e->n_slots; i++)
        if (!e->slots[i].job && !e->slots[i].flies)
            (void)dop_slot_rewind(&e->slots[i], 0, NULL);
}

/* True if there are pages for all tokens of the job, and one more page for every running job. */
static bool
has_pages_for_job(dop_engine *e, const dop_job *job)
{
    uint32_t page = e->facts.page, need = page ? dop_job_tokens(job) / page + 1 + e->metrics.running : 0;
    if (need == 0 || e->metrics.running == 0 || dop_model_counters(e->model).pages_free >= need)
        return true;
    empty_free_slots(e);
    return dop_model_counters(e->model).pages_free >= need;
}

void
dop_engine_give_sequences(dop_engine *e)
{
    while (e->first && e->metrics.running < e->n_slots && has_pages_for_job(e, e->first)) {
        dop_job *job = e->first;
        uint32_t slot = choose_free_slot(e, job);
        if (slot == UINT32_MAX) /* free sequences are still part of an in-flight step */
            return;
        e->first = job->next;
        if (!e->first)
            e->last = NULL;
        e->n_waiting--;
        job->next = NULL;
        e->turns.now = job->turn > e->turns.now ? job->turn : e->turns.now;
        job->slot = slot;
        job->phase = DOP_JOB_READS;
        job->n_read = UINT32_MAX;
        job->gen.sequence = e->slots[slot].sequence;
        e->slots[slot].job = job;
        e->slots[slot].used = ++e->n_given;
        e->metrics.running++;
    }
}

/* When no page is left: preempts the job that was started last, which releases its pages and becomes the first in
 * the queue. Returns false if it is the only job. */
static bool
preempt_newest_job(dop_engine *e)
{
    uint32_t last = UINT32_MAX, n = 0;
    for (uint32_t i = 0; i < e->n_slots; i++)
        if (e->slots[i].job) {
            n++;
            last = last == UINT32_MAX || e->slots[i].used > e->slots[last].used ? i : last;
        }
    if (n < 2)
        return false;
    dop_job *job = e->slots[last].job;
    dop_engine_lock(e);
    e->slots[last].job = NULL;
    job->phase = DOP_JOB_WAITS;
    job->next = e->first;
    e->first = job;
    if (!e->last)
        e->last = job;
    e->n_waiting++;
    e->metrics.running--;
    dop_engine_unlock(e);
    (void)dop_slot_rewind(&e->slots[last], 0, NULL);
    return true;
}

void
dop_engine_fail_job(dop_engine *e, dop_job *job, const dop_diag *diag)
{
    dop_engine_lock(e);
    dop_job_finish(e, job, DOP_JOB_FAILED, diag);
    if (job->released)
        dop_job_free(job);
    dop_engine_unlock(e);
}

void
dop_engine_give_up(dop_engine *e, const dop_diag *diag)
{
    dop_engine_lock(e);
    e->broken = true;
    e->diag = *diag;
    dop_engine_unlock(e);
}

void
dop_engine_end_turns(dop_engine *e)
{
    dop_engine_lock(e);
    const bool idle = e->metrics.running == 0 && !e->first;
    dop_engine_unlock(e);
    for (uint32_t i = 0; i < e->n_slots && idle; i++) {
        dop_slot *slot = &e->slots[i];
        if (!slot->ended || slot->job || slot->flies || !slot->sequence)
            continue;
        slot->ended = false;
        (void)dop_sequence_end_turn(slot->sequence, NULL); /* after a failure, the tokens are recomputed later */
    }
}

bool
dop_engine_make_pages(dop_engine *e)
{
    empty_free_slots(e);
    if (!preempt_newest_job(e))
        return false;
    for (uint32_t i = 0; i < e->n_slots; i++) {
        size_t n;
        dop_job *job = e->slots[i].job;
        if (!job || job->phase != DOP_JOB_READS || job->n_read == UINT32_MAX)
            continue;
        (void)dop_sequence_tokens(e->slots[i].sequence, &n);
        job->n_read = (uint32_t)n;
    }
    return true;
}
