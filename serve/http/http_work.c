/* The workers of the HTTP server.
 *
 * Some workers read requests: they parse, render, tokenize and compile within the request's budget. Other workers
 * write answers, so that tokens are not delayed by slow requests. */
#include "base/os/clock.h"
#include "serve/api/api_answer.h"
#include "serve/api/api_json.h"
#include "serve/http/http_internal.h"
#include "serve/routes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* One worker is always kept free of large requests. A request is large if its body has more than LARGE_BODY bytes,
 * or if reading it takes more than LONG_MS (images, grammars, templates). */
enum { LARGE_BODY = 65536, LONG_MS = 50 };

/* Bytes: after a request that used more memory, free memory is returned to the system at once. */
enum { WORTH_A_TRIM = 4 << 20 };

void
dop_http_wake(dop_http *h)
{
    const uint64_t one = 1;
    ssize_t n = write(h->event, &one, sizeof one);
    (void)n; /* write() fails if the eventfd's counter is full; the thread then wakes anyway */
}

/* --- lists, under the lock ----------------------------------------------------------------------------------------------------- */

static void
push_exchange(dop_exchange_list *list, dop_exchange *x)
{
    x->next = NULL;
    if (list->last)
        list->last->next = x;
    else
        list->first = x;
    list->last = x;
}

static dop_exchange *
pop_exchange(dop_exchange_list *list)
{
    dop_exchange *x = list->first;
    if (x && !(list->first = x->next))
        list->last = NULL;
    return x;
}

/* Removes the first request that a worker may read. Large ones are skipped unless another worker stays free. */
static dop_exchange *
pop_readable_exchange(dop_http *h)
{
    dop_exchange *before = NULL, *x = h->work.first;
    while (x && x->large && h->n_large + 1 >= DOP_HTTP_WORKERS && x->connection) {
        before = x;
        x = x->next;
    }
    if (!x)
        return NULL;
    if (before)
        before->next = x->next;
    else
        h->work.first = x->next;
    if (h->work.last == x)
        h->work.last = before;
    return x;
}

static void
queue_exchange(dop_exchange *x)
{
    dop_http *h = x->http;
    x->state = DOP_EXCHANGE_QUEUED;
    push_exchange(x->begun ? &h->answers : &h->work, x);
    pthread_cond_signal(x->begun ? &h->more_answers : &h->more_work);
}

/* --- exchanges ----------------------------------------------------------------------------------------------------------------- */

/* dop_api_request.wake: queues the exchange again. Called under the engine's lock. */
static void
wake_exchange(void *user)
{
    dop_exchange *x = user;
    pthread_mutex_lock(&x->http->lock);
    if (x->state == DOP_EXCHANGE_PARKED)
        queue_exchange(x);
    else
        x->again = true;
    pthread_mutex_unlock(&x->http->lock);
}

static void
destroy_exchange(dop_exchange *x)
{
    if (!x)
        return;
    if (x->waits)
        dop_api_forget(x->http->api, x);
    dop_call_end(x->call);
    free(x->method);
    free(x->path);
    free(x->query);
    dop_buf_finish(&x->body);
    dop_answer_finish(&x->answer);
    free(x);
}

dop_exchange *
dop_exchange_begin(dop_connection *c, const dop_api_request *head, dop_buf *io_body)
{
    dop_http *h = c->http;
    dop_exchange *x = calloc(1, sizeof *x);
    if (!x || !(x->method = strdup(head->method)) || !(x->path = strdup(head->path)) ||
        !(x->query = strdup(head->query))) {
        destroy_exchange(x);
        return NULL;
    }
    x->http = h;
    x->connection = c;
    x->whose = c->whose;
    x->body = *io_body;
    *io_body = (dop_buf){0};
    x->answer.errors = dop_api_error_form(x->path);
    x->large = x->body.size > LARGE_BODY;
    dop_api_budget(h->api, &x->cancelled, &x->budget);
    pthread_mutex_lock(&h->lock);
    h->n_exchanges++;
    queue_exchange(x);
    pthread_mutex_unlock(&h->lock);
    return x;
}

dop_exchange *
dop_exchange_next(dop_http *h)
{
    dop_exchange *x = NULL;
    pthread_mutex_lock(&h->lock);
    while ((x = pop_exchange(&h->news)) != NULL &&
           !x->connection) /* the client has left since: a worker frees the exchange */
        queue_exchange(x);
    if (x)
        x->state = DOP_EXCHANGE_FULL; /* until dop_exchange_go_on reports that its output was consumed */
    pthread_mutex_unlock(&h->lock);
    return x;
}

void
dop_exchange_resume(dop_exchange *x)
{
    pthread_mutex_lock(&x->http->lock);
    const bool full = x->state == DOP_EXCHANGE_FULL;
    if (full && x->again)
        queue_exchange(x);
    else if (full)
        x->state = DOP_EXCHANGE_PARKED;
    pthread_mutex_unlock(&x->http->lock);
}

void
dop_exchange_go_on(dop_exchange *x, bool has_room)
{
    pthread_mutex_lock(&x->http->lock);
    if (!has_room) {
        x->state = DOP_EXCHANGE_FULL;
    } else if (x->again) {
        queue_exchange(x);
    } else {
        x->state = DOP_EXCHANGE_PARKED;
    }
    pthread_mutex_unlock(&x->http->lock);
}

void
dop_exchange_end(dop_exchange *x)
{
    if (!x)
        return;
    dop_http *h = x->http;
    pthread_mutex_lock(&h->lock);
    x->connection = NULL;
    atomic_store(&x->cancelled, true);
    if (x->state == DOP_EXCHANGE_PARKED || x->state == DOP_EXCHANGE_FULL)
        queue_exchange(x);
    pthread_mutex_unlock(&h->lock);
}

/* --- workers ------------------------------------------------------------------------------------------------------------------- */

/* dop_budget.extend: marks a request as large after LONG_MS of reading. It continues unless all other workers read
 * large requests. */
static double
mark_large_exchange(void *user)
{
    dop_exchange *x = user;
    pthread_mutex_lock(&x->http->lock);
    x->large = true;
    x->counted = x->http->n_large + 1 < DOP_HTTP_WORKERS;
    x->http->n_large += x->counted;
    x->put_back = !x->counted;
    pthread_mutex_unlock(&x->http->lock);
    return x->counted ? x->deadline_ms : 0;
}

/* Prepares the budget of a request that is about to be read. */
static void
prepare_reading_budget(dop_exchange *x)
{
    if (x->waits || x->put_back) /* the request must not pay for the delay */
        dop_api_budget(x->http->api, &x->cancelled, &x->budget);
    if (!x->put_back)
        x->deadline_ms = x->budget.until_ms;
    x->put_back = false;
    x->budget.until_ms = x->deadline_ms;
    if (x->large || x->deadline_ms <= 0)
        return;
    const double soon = dop_now_ms() + LONG_MS;
    x->budget.until_ms = soon < x->deadline_ms ? soon : x->deadline_ms;
    x->budget.extend = mark_large_exchange;
    x->budget.user = x;
}

/* Returns free memory to the system. Only glibc has a call for this; other C libraries do it on their own. */
static void
trim_memory(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* Reads the request, and answers it or begins its call. */
static void
begin_exchange_call(dop_exchange *x)
{
    dop_api_request q = {.method = x->method,
                         .path = x->path,
                         .query = x->query,
                         .body = x->body.data,
                         .n_body = x->body.size,
                         .budget = &x->budget,
                         .client = x->whose.id,
                         .priority = x->whose.priority,
                         .wake = wake_exchange,
                         .user = x};
    prepare_reading_budget(x);
    const size_t body = x->body.size;
    const uint64_t bytes = x->budget.bytes;
    dop_api_begin(x->http->api, &q, &x->answer, &x->call);
    x->waits = x->answer.waits;
    x->events = x->answer.events;
    x->answer.waits = x->answer.events = false;
    x->put_back &= !x->waits && !x->call && x->answer.status >= 400;
    if (x->put_back)
        dop_answer_finish(&x->answer);
    if (x->waits || x->put_back)
        return;
    dop_buf_finish(&x->body);
    x->begun = true;
    x->over = !x->call;
    if (body > WORTH_A_TRIM || x->budget.end == DOP_BUDGET_BYTES || bytes - x->budget.bytes > WORTH_A_TRIM)
        trim_memory();
}

/* Reads the request of an exchange, or writes new output of its answer. */
static void
run_exchange(dop_exchange *x)
{
    if (!x->begun)
        begin_exchange_call(x);
    if (x->begun && !x->over)
        x->over = dop_call_poll(x->call, &x->answer);
}

/* Runs the next exchange of a queue and reports its output. Returns false if the server is ending and the queue is
 * empty. */
static bool
work_on_exchange(dop_http *h, bool writes)
{
    dop_exchange *x = NULL;
    pthread_mutex_lock(&h->lock);
    while (!(x = writes ? pop_exchange(&h->answers) : pop_readable_exchange(h)) && !h->ends)
        pthread_cond_wait(writes ? &h->more_answers : &h->more_work, &h->lock);
    const bool left = x && !x->connection;
    if (x) {
        x->state = DOP_EXCHANGE_RUNS;
        x->again = false;
        x->counted = x->large && !x->begun && !left;
        h->n_large += x->counted;
        h->n_exchanges -= left;
    }
    pthread_mutex_unlock(&h->lock);
    if (!x)
        return false;
    if (left) {
        destroy_exchange(x);
        return true;
    }
    run_exchange(x);
    pthread_mutex_lock(&h->lock);
    x->again |= x->answer.more;
    x->answer.more = false;
    if (x->counted && h->n_large-- == DOP_HTTP_WORKERS - 1)
        pthread_cond_broadcast(&h->more_work);
    x->counted = false;
    if (x->put_back) {
        queue_exchange(x);
    } else {
        x->state = DOP_EXCHANGE_REPORTS;
        push_exchange(&h->news, x);
    }
    pthread_mutex_unlock(&h->lock);
    dop_http_wake(h);
    return true;
}

static void *
run_request_reader(void *http)
{
    enum { NICE = 5 };
    /* On Linux, each thread has its own nice value. If cores are scarce, writing answers has priority over reading
     * requests. */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    while (work_on_exchange(http, false)) {
    }
    return NULL;
}

static void *
run_answer_writer(void *http)
{
    while (work_on_exchange(http, true)) {
    }
    return NULL;
}

bool
dop_http_start_workers(dop_http *h)
{
    for (uint32_t i = 0; i < DOP_HTTP_WORKERS + DOP_HTTP_WRITERS; i++) {
        if (pthread_create(&h->threads[i], NULL, i < DOP_HTTP_WORKERS ? run_request_reader : run_answer_writer, h) != 0)
            return false;
        h->n_threads++;
    }
    return true;
}

void
dop_http_join_workers(dop_http *h)
{
    pthread_mutex_lock(&h->lock);
    h->ends = true;
    pthread_cond_broadcast(&h->more_work);
    pthread_cond_broadcast(&h->more_answers);
    pthread_mutex_unlock(&h->lock);
    for (uint32_t i = 0; i < h->n_threads; i++)
        pthread_join(h->threads[i], NULL);
    h->n_threads = 0;
    for (dop_exchange *x; (x = pop_exchange(&h->news)) != NULL;) /* exchanges whose clients are gone */
        destroy_exchange(x);
}
