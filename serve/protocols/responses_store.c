/* Responses kept in memory. They are stored as JSON texts, because threads must not share JSON values. */
#include "serve/protocols/responses_store.h"
#include "serve/api/api_answer.h"
#include "serve/protocols/protocol.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 };

typedef struct row {
    struct row *next; /* next more recently used row */
    char id[sizeof((dop_call *)0)->id];
    dop_buf response, items; /* items: the conversation's items, including the response's output */
    dop_call *call;          /* owned: call of an answer in progress; NULL: complete */
} row;

struct dop_response_store {
    pthread_mutex_t lock;
    row *first; /* least recently used row */
    uint32_t n, most;
    size_t bytes;
};

dop_status
dop_response_store_create(uint32_t n, dop_diag *diag, dop_response_store **out_store)
{
    dop_response_store *s = *out_store = calloc(1, sizeof *s);
    if (!s)
        return DOP_NO_MEMORY(diag);
    pthread_mutex_init(&s->lock, NULL);
    s->most = n;
    return DOP_OK;
}

static void
free_stored_row(row *x)
{
    if (!x)
        return;
    dop_call_end(x->call);
    dop_buf_finish(&x->response);
    dop_buf_finish(&x->items);
    free(x);
}

void
dop_response_store_destroy(dop_response_store *store)
{
    if (!store)
        return;
    for (row *x = store->first, *next; x; x = next) {
        next = x->next;
        free_stored_row(x);
    }
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static size_t
get_row_size(const row *x)
{
    return sizeof *x + x->response.size + x->items.size;
}

/* Under the lock: removes the row with this id from the list; NULL: none. */
static row *
remove_stored_row(dop_response_store *s, const char *id)
{
    for (row **at = &s->first; *at; at = &(*at)->next) {
        row *x = *at;
        if (strcmp(x->id, id) != 0)
            continue;
        *at = x->next;
        x->next = NULL;
        s->n--;
        s->bytes -= get_row_size(x);
        return x;
    }
    return NULL;
}

/* Under the lock: appends a row as the most recently used one. */
static void
append_stored_row(dop_response_store *s, row *x)
{
    row **at = &s->first;
    while (*at)
        at = &(*at)->next;
    *at = x;
    s->n++;
    s->bytes += get_row_size(x);
}

/* Under the lock: removes the least recently used rows until the store is within its limits. Returns them as a list. */
static row *
remove_surplus_rows(dop_response_store *s)
{
    row *out = NULL;
    while (s->first && (s->n > s->most || s->bytes > MOST_BYTES)) {
        row *x = remove_stored_row(s, s->first->id);
        x->next = out;
        out = x;
    }
    return out;
}

/* Stores a new row, and frees rows that exceed the limits. Takes ownership of the row. */
static bool
put_stored_row(dop_response_store *s, row *x)
{
    if (!x || x->response.failed || x->items.failed) {
        free_stored_row(x);
        return false;
    }
    pthread_mutex_lock(&s->lock);
    row *earlier = remove_stored_row(s, x->id);
    append_stored_row(s, x);
    row *surplus = remove_surplus_rows(s);
    pthread_mutex_unlock(&s->lock);
    free_stored_row(earlier);
    for (row *next; surplus; surplus = next) {
        next = surplus->next;
        free_stored_row(surplus);
    }
    return true;
}

static row *
make_stored_row(const char *id, const json_t *response, const json_t *items)
{
    row *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    snprintf(x->id, sizeof x->id, "%s", id);
    dop_json_encode(&x->response, response);
    dop_json_encode(&x->items, items);
    return x;
}

void
dop_response_store_put(dop_response_store *store, const char *id, const json_t *response, const json_t *items)
{
    (void)put_stored_row(store, make_stored_row(id, response, items));
}

bool
dop_response_store_put_call(dop_response_store *store, const char *id, const json_t *response, const json_t *items,
                            dop_call *call)
{
    row *x = make_stored_row(id, response, items);
    if (!x) {
        dop_call_end(call);
        return false;
    }
    x->call = call;
    return put_stored_row(store, x);
}

static json_t *
parse_stored_json(const dop_buf *text)
{
    json_t *v = NULL;
    if (text->size && !text->failed)
        (void)dop_json_decode(text->data, text->size, &(dop_json_how){.flags = DOP_JSON_EXACT}, NULL, &v);
    return v;
}

json_t *
dop_response_store_get(dop_response_store *s, const char *id, dop_response_settle *settle, bool cancels,
                       json_t **out_items)
{
    pthread_mutex_lock(&s->lock);
    row *x = remove_stored_row(s, id);
    json_t *found = NULL;
    if (out_items)
        *out_items = NULL;
    if (x) {
        if (x->call && settle(x->call, cancels, &x->response, &x->items)) {
            dop_call_end(x->call);
            x->call = NULL;
        }
        found = parse_stored_json(&x->response);
        if (out_items)
            *out_items = parse_stored_json(&x->items);
        append_stored_row(s, x); /* least recently used rows are dropped first */
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

bool
dop_response_store_delete(dop_response_store *store, const char *id)
{
    pthread_mutex_lock(&store->lock);
    row *x = remove_stored_row(store, id);
    pthread_mutex_unlock(&store->lock);
    const bool there = x != NULL;
    free_stored_row(x);
    return there;
}
