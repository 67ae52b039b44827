#include "runtime/cache/store.h"

#include "base/os/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct entry {
    struct entry *next; /* next entry in the bucket */
    dop_snapshot_key key;
    dop_snapshot *snapshot; /* NULL: only in a file */
    uint64_t used;
    double touched_ms; /* dop_now_ms when its file was last marked as used */
    bool in_file;
    uint64_t listed; /* value of `refreshes` when its file was last listed; 0: never */
} entry;

enum { FIRST_BUCKETS = 256, TOUCH_MS = 60000 };

struct dop_store {
    dop_store_options options;
    dop_files *files;
    entry **buckets;
    uint32_t n_buckets, n_entries;
    uint64_t clock, refreshes;
    dop_store_counts counts;
};

/* --- entries ----------------------------------------------------------------------------------------------------------- */

static entry **
find_entry_bucket(const dop_store *s, const dop_snapshot_key *key)
{
    return &s->buckets[key->digest[0] & (s->n_buckets - 1)];
}

static bool
is_same_snapshot_key(const dop_snapshot_key *a, const dop_snapshot_key *b)
{
    return a->digest[0] == b->digest[0] && a->digest[1] == b->digest[1] && a->from == b->from && a->to == b->to &&
           a->whole == b->whole;
}

static entry *
find_store_entry(const dop_store *s, const dop_snapshot_key *key)
{
    entry *e = *find_entry_bucket(s, key);
    while (e && !is_same_snapshot_key(&e->key, key))
        e = e->next;
    return e;
}

static void
drop_image(dop_store *s, entry *e)
{
    if (!e->snapshot)
        return;
    s->counts.bytes -= e->snapshot->size;
    s->counts.snapshots--;
    dop_snapshot_release(e->snapshot);
    e->snapshot = NULL;
}

static void
drop_store_entry(dop_store *s, entry *e)
{
    entry **at = find_entry_bucket(s, &e->key);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    drop_image(s, e);
    free(e);
    s->n_entries--;
}

static void
grow_store_buckets(dop_store *s)
{
    const uint32_t n = s->n_buckets * 2;
    entry **old = s->buckets, **buckets = calloc(n, sizeof(entry *));
    if (!buckets)
        return; /* longer chains still work */
    const uint32_t n_old = s->n_buckets;
    s->buckets = buckets;
    s->n_buckets = n;
    for (uint32_t i = 0; i < n_old; i++)
        for (entry *e = old[i], *next; e; e = next) {
            entry **at = find_entry_bucket(s, &e->key);
            next = e->next;
            e->next = *at;
            *at = e;
        }
    free(old);
}

static entry *
add_store_entry(dop_store *s, const dop_snapshot_key *key)
{
    entry *e = find_store_entry(s, key);
    if (e)
        return e;
    if (s->n_entries >= s->n_buckets)
        grow_store_buckets(s);
    e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    entry **at = find_entry_bucket(s, key);
    *e = (entry){.next = *at, .key = *key};
    *at = e;
    s->n_entries++;
    return e;
}

/* Evicts the least recently used snapshots except `but`. Among equally old ones it evicts the last in its prompt first,
 * because the others are useful without it. */
static void
shrink_store(dop_store *s, uint64_t bound, const entry *but)
{
    while (s->counts.bytes > bound) {
        entry *oldest = NULL;
        for (uint32_t i = 0; i < s->n_buckets; i++)
            for (entry *e = s->buckets[i]; e; e = e->next)
                if (e->snapshot && e != but &&
                    (!oldest || e->used < oldest->used || (e->used == oldest->used && e->key.to > oldest->key.to)))
                    oldest = e;
        if (!oldest)
            return;
        if (oldest->in_file)
            drop_image(s, oldest);
        else
            drop_store_entry(s, oldest);
    }
}

static void
keep_snapshot(dop_store *s, entry *e, dop_snapshot *snapshot)
{
    if (e->snapshot || snapshot->size > s->options.memory)
        return;
    e->snapshot = dop_snapshot_hold(snapshot);
    s->counts.bytes += snapshot->size;
    s->counts.snapshots++;
    shrink_store(s, s->options.memory, e);
}

/* --- opening ------------------------------------------------------------------------------------------------------------- */

static void
list_store_file(void *user, const dop_snapshot_key *key, uint64_t size)
{
    dop_store *s = user;
    (void)size;
    entry *e = add_store_entry(s, key);
    if (e) {
        e->in_file = true;
        e->listed = s->refreshes;
    }
}

/* Handles files that have disappeared: their snapshots in memory will be written again. all_written: no file was queued
 * or failed before the listing, so files that were never listed are gone as well. */
static void
forget_gone(dop_store *s, bool all_written)
{
    for (uint32_t i = 0; i < s->n_buckets; i++)
        for (entry *e = s->buckets[i], *next; e; e = next) {
            next = e->next;
            if (!e->in_file || e->listed == s->refreshes || (e->listed == 0 && !all_written))
                continue;
            e->in_file = false;
            e->listed = 0;
            if (!e->snapshot)
                drop_store_entry(s, e);
        }
}

void
dop_store_refresh(dop_store *store)
{
    const dop_files_counts files = dop_store_count_files(store);
    store->clock++;
    store->refreshes++;
    if (store->files && dop_files_list(store->files, list_store_file, store))
        forget_gone(store, files.waiting == 0 && files.failed == 0);
}

dop_status
dop_store_create(const dop_store_options *options, dop_diag *diag, dop_store **out_store)
{
    dop_store *s = calloc(1, sizeof *s);
    *out_store = NULL;
    if (!s || !(s->buckets = calloc(FIRST_BUCKETS, sizeof(entry *)))) {
        free(s);
        return DOP_NO_MEMORY(diag);
    }
    s->n_buckets = FIRST_BUCKETS;
    s->options = *options;
    s->options.folder = NULL;
    dop_status st =
        options->folder ? dop_files_open(options->folder, options->bound, &options->plan, diag, &s->files) : DOP_OK;
    if (st != DOP_OK) {
        dop_store_destroy(s);
        return st;
    }
    dop_store_refresh(s);
    *out_store = s;
    return DOP_OK;
}

void
dop_store_destroy(dop_store *store)
{
    dop_store *s = store;
    if (!s)
        return;
    dop_files_close(s->files);
    for (uint32_t i = 0; i < s->n_buckets; i++)
        while (s->buckets[i])
            drop_store_entry(s, s->buckets[i]);
    free(s->buckets);
    free(s);
}

/* --- lookup
 * -------------------------------------------------------------------------------------------------------------- */

bool
dop_store_has(const dop_store *store, const dop_snapshot_key *key)
{
    return find_store_entry(store, key) != NULL;
}

static int
smaller_first(const void *x, const void *y)
{
    const uint32_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b ? 1 : 0;
}

uint32_t *
dop_store_points(const dop_store *store, uint32_t most, uint32_t *out_n)
{
    uint32_t found = 0, kept = 0, *at = malloc(((size_t)store->n_entries + 1) * sizeof *at);
    *out_n = 0;
    for (uint32_t i = 0; i < store->n_buckets && at; i++)
        for (const entry *e = store->buckets[i]; e; e = e->next)
            if (e->key.whole && e->key.to <= most)
                at[found++] = e->key.to;
    if (!at || found == 0) {
        free(at);
        return NULL;
    }
    qsort(at, found, sizeof *at, smaller_first);
    for (uint32_t i = 0; i < found; i++)
        if (i == 0 || at[i] != at[kept - 1])
            at[kept++] = at[i];
    *out_n = kept;
    return at;
}

static bool
has_keys(const dop_snapshot *x, const dop_snapshot_key *key, const uint32_t *keys)
{
    const uint32_t n = key->whole ? key->to : key->to - key->from;
    return memcmp(x->bytes + sizeof(dop_snapshot_head), keys, n * sizeof *keys) == 0;
}

dop_snapshot *
dop_store_get(dop_store *store, const dop_snapshot_key *key, const uint32_t *keys)
{
    dop_store *s = store;
    entry *e = find_store_entry(s, key);
    dop_snapshot_head head;
    if (!e)
        return NULL;
    dop_snapshot *x = e->snapshot ? dop_snapshot_hold(e->snapshot)
                      : s->files  ? dop_files_read(s->files, key, &head)
                                  : NULL;
    const bool of_file = x && !e->snapshot;
    if (x && !has_keys(x, key, keys)) {
        dop_snapshot_release(x);
        return NULL;
    }
    if (!x) {
        drop_store_entry(s, e);
        return NULL;
    }
    e->used = s->clock;
    if (s->files && e->in_file && (of_file || dop_now_ms() - e->touched_ms > TOUCH_MS)) {
        if (!of_file) /* reading a file marks it as used */
            dop_files_touch(s->files, key);
        e->touched_ms = dop_now_ms();
    }
    s->counts.from_files += of_file;
    s->counts.from_memory += !of_file;
    if (of_file)
        keep_snapshot(s, e, x);
    return x;
}

void
dop_store_put(dop_store *store, const dop_snapshot_key *key, dop_snapshot *snapshot)
{
    dop_store *s = store;
    entry *e = add_store_entry(s, key);
    if (!e)
        return;
    e->used = ++s->clock;
    if (s->files && !e->in_file) {
        dop_files_write(s->files, key, snapshot);
        e->in_file = true; /* if the write fails, the lookup finds it missing */
    }
    keep_snapshot(s, e, snapshot);
    if (!e->snapshot && !e->in_file)
        drop_store_entry(s, e);
}

dop_store_counts
dop_store_count(const dop_store *store)
{
    dop_store_counts c = store->counts;
    c.files = dop_store_count_files(store);
    return c;
}

dop_files_counts
dop_store_count_files(const dop_store *store)
{
    return store->files ? dop_files_count(store->files) : (dop_files_counts){0};
}

/* --- making snapshots --------------------------------------------------------------------------------------------------------- */

dop_snapshot *
dop_snapshot_begin(const dop_snapshot_plan *plan, const dop_snapshot_key *key, uint64_t seed, uint32_t over,
                   const uint32_t *keys, uint64_t n_states, dop_snapshot_head *out_head)
{
    dop_snapshot_head h = dop_snapshot_head_of(plan, (key->whole ? (uint32_t)DOP_SNAPSHOT_WHOLE : 0) |
                                                         DOP_SNAPSHOT_ROWS | DOP_SNAPSHOT_CACHED);
    h.n_tokens = key->whole ? key->to : key->to - key->from;
    h.from = key->from;
    h.to = key->to;
    h.over = over;
    h.seed = seed;
    memcpy(h.key, key->digest, sizeof h.key);
    h.file_size = dop_snapshot_states_at(&h) + n_states + sizeof(uint64_t);
    dop_snapshot *x = dop_snapshot_create(h.file_size);
    if (!x)
        return NULL;
    memcpy(x->bytes, &h, sizeof h);
    memset(x->bytes + sizeof h, 0, (size_t)(dop_snapshot_states_at(&h) - sizeof h));
    memcpy(x->bytes + sizeof h, keys, h.n_tokens * sizeof *keys);
    *out_head = h;
    return x;
}

void
dop_snapshot_finish(dop_snapshot *snapshot)
{
    const uint64_t size = snapshot->size - sizeof(uint64_t), digest = XXH3_64bits(snapshot->bytes, size);
    memcpy(snapshot->bytes + size, &digest, sizeof digest);
}

void
dop_snapshot_digests(uint64_t seed, const uint32_t *keys, const uint32_t *at, uint32_t n, uint64_t (*out)[2])
{
    XXH3_state_t *state = XXH3_createState();
    uint32_t done = 0;
    memset(out, 0, n * sizeof *out);
    if (!state)
        return; /* no snapshot has digest 0 */
    (void)XXH3_128bits_reset_withSeed(state, seed);
    for (uint32_t i = 0; i < n; i++) {
        (void)XXH3_128bits_update(state, keys + done, (at[i] - done) * sizeof *keys);
        done = at[i];
        const XXH128_hash_t h = XXH3_128bits_digest(state);
        out[i][0] = h.low64;
        out[i][1] = h.high64;
    }
    XXH3_freeState(state);
}
