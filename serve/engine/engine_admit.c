/* Admission to the queue.
 *
 * A full queue is shared fairly. A request that finds no room displaces waiting requests with a lower priority. If
 * there are none, it displaces the newest requests of the client with the largest share. That share must be larger
 * than its own client's. */
#include "serve/engine/engine_admit.h"
#include "runtime/library/images.h"
#include "serve/engine/engine_internal.h"
#include "serve/engine/engine_job.h"

enum { MAX_BYTES = 1 << 28 /* maximum bytes of all waiting jobs; a single request may exceed it */ };

/* Returns the memory of a job. Jobs of one request share images, which count for the first job only. */
static uint64_t
count_job_bytes(const dop_job_request *r, bool leads)
{
    uint64_t bytes = (r->n_prompt + 2 * (uint64_t)r->max_tokens) * sizeof(uint32_t) + r->task.bytes;
    for (uint32_t i = 0; i < r->n_images && leads; i++)
        bytes += dop_image_bytes(r->images[i]);
    return bytes;
}

/* True if a job counts toward the queue's length. A request for embeddings counts once, for any number of inputs. */
static bool
counts_in_queue(const dop_job_request *r, bool leads)
{
    return !r->embeds || leads;
}

/* Returns the fraction of the queue that a job uses. */
static double
compute_queue_share(const dop_engine *e, const dop_job_request *r, bool leads)
{
    return (counts_in_queue(r, leads) ? 1.0 / e->max_queue : 0) + (double)count_job_bytes(r, leads) / MAX_BYTES;
}

/* True if n more jobs fit once all displaced ones have left. */
static bool
has_queue_room(const dop_engine *e, const dop_job_request *requests, uint32_t n)
{
    uint64_t jobs = 0, bytes = 0;
    bool waits = false;
    for (const dop_job *j = e->first; j; j = j->next) {
        if (j->displaced)
            continue;
        jobs += counts_in_queue(&j->request, j->leads);
        bytes += count_job_bytes(&j->request, j->leads);
        waits = true;
    }
    for (uint32_t i = 0; i < n; i++) {
        jobs += counts_in_queue(&requests[i], i == 0);
        bytes += count_job_bytes(&requests[i], i == 0);
    }
    return jobs <= e->max_queue + (e->n_slots - e->metrics.running) && (!waits || bytes <= MAX_BYTES);
}

/* Marks the jobs of one more request as displaced, in favor of a request with this client, priority and share.
 * Returns false if there is none. */
static bool
displace_request(dop_engine *e, uint64_t client, int priority, double own)
{
    double shares[DOP_ENGINE_CLIENTS] = {0}, most = 0;
    const dop_job *victim = NULL;
    int least = priority;
    for (const dop_job *j = e->first; j; j = j->next)
        least = !j->displaced && j->request.priority < least ? j->request.priority : least;
    for (const dop_job *j = e->first; j; j = j->next)
        if (!j->displaced && j->request.priority == least)
            shares[j->request.client % DOP_ENGINE_CLIENTS] += compute_queue_share(e, &j->request, j->leads);
    if (least == priority) /* at equal priority, only a client with a larger share gives way */
        most = own + shares[client % DOP_ENGINE_CLIENTS];
    for (const dop_job *j = e->first; j; j = j->next) {
        const double share = shares[j->request.client % DOP_ENGINE_CLIENTS];
        const bool may = !j->displaced && j->leads && j->request.priority == least && j->gen.n_written == 0;
        if (!may || share < most || (share == most && (!victim || j->number < victim->number)))
            continue;
        most = share;
        victim = j;
    }
    for (dop_job *j = e->first; j && victim; j = j->next)
        j->displaced |= j->number == victim->number;
    return victim != NULL;
}

bool
dop_engine_admit(dop_engine *e, const dop_job_request *requests, uint32_t n)
{
    double own = 0;
    for (uint32_t i = 0; i < n; i++)
        own += compute_queue_share(e, &requests[i], i == 0);
    bool fits = has_queue_room(e, requests, n);
    while (!fits && displace_request(e, requests[0].client, requests[0].priority, own))
        fits = has_queue_room(e, requests, n);
    for (dop_job *j = e->first, *next; j; j = next) {
        next = j->next;
        if (j->displaced && fits) {
            dop_engine_leave_queue(e, j);
            dop_job_finish(e, j, DOP_JOB_DISPLACED, NULL);
        }
        j->displaced = false;
    }
    return fits;
}

void
dop_engine_leave_queue(dop_engine *e, dop_job *job)
{
    dop_job *before = NULL;
    for (dop_job *j = e->first; j; before = j, j = j->next) {
        if (j != job)
            continue;
        if (before)
            before->next = j->next;
        else
            e->first = j->next;
        if (e->last == j)
            e->last = before;
        e->n_waiting--;
        return;
    }
}
