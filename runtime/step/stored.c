#include "runtime/step/stored.h"
#include "plan/plan_names.h"
#include "runtime/step/sequence_pages.h"
#include "runtime/step/transfer.h"

#include <stdlib.h>
#include <string.h>

/* Block size in positions for plans without pages, and default size limit of the prompt files in bytes. */
enum { BLOCK = 64 };
static const uint64_t default_bound = 32ull << 30;

/* Returns a digest of the states' names, kinds and sizes. A plan for several targets may have several layouts. */
static uint64_t
layout_digest(const dop_model *m)
{
    uint64_t h = m->plan.model->vocab;
    for (uint32_t i = 0; i < m->plan.n_states; i++) {
        const dop_plan_state *s = &m->plan.states[i];
        const char *name = dop_plan_string(&m->plan, s->name);
        if (m->memory.places[s->slot].block == UINT32_MAX)
            continue;
        const uint64_t facts[] = {h, m->plan.slots[s->slot].state, s->rows, s->row_bytes,
                                  dop_plan_digest(name, strlen(name))};
        h = dop_plan_digest(facts, sizeof facts);
    }
    return h;
}

dop_snapshot_plan
dop_stored_plan(const dop_model *model)
{
    return (dop_snapshot_plan){.plan = model->plan.digest,
                               .layout = layout_digest(model),
                               .vocab = model->plan.model->vocab,
                               .ctx = model->plan.model->ctx};
}

static uint32_t
find_block_size(const dop_model *m)
{
    const uint32_t ctx = m->plan.model->ctx;
    return m->pages.page ? m->pages.page : ctx < BLOCK ? ctx : (uint32_t)BLOCK;
}

dop_status
dop_stored_open(dop_model *model, const dop_open_options *options, dop_diag *diag)
{
    dop_model *m = model;
    if ((options->cache_memory == 0 && !options->prompt_cache) || !dop_plan_steps(&m->plan) || !dop_transfer_can(m))
        return DOP_OK;
    const dop_store_options how = {.memory = options->cache_memory,
                                   .folder = options->prompt_cache,
                                   .bound = options->prompt_cache_bytes ? options->prompt_cache_bytes : default_bound,
                                   .block = find_block_size(m),
                                   .plan = dop_stored_plan(m)};
    const dop_states row = {.to = 1, .rows = true};
    m->kept.prompts.has_rows = dop_transfer_size(m, &row) > 0;
    DOP_RETURN_IF_ERROR(dop_transfer_keep_staging(m, diag));
    return dop_store_create(&how, diag, &m->kept.prompts.store);
}

/* --- bytes ------------------------------------------------------------------------------------------------------------- */

typedef struct sink {
    uint8_t *at;
    uint64_t left;
} sink;

static dop_status
take_state_bytes(void *user, const void *bytes, size_t size, dop_diag *diag)
{
    sink *s = user;
    if (size > s->left)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "more bytes of states than there are");
    memcpy(s->at, bytes, size);
    s->at += size;
    s->left -= size;
    return DOP_OK;
}

static dop_states
select_half(const dop_states *x, bool rows)
{
    dop_states h = *x;
    h.rows = x->rows && rows;
    h.whole = x->whole && !rows;
    return h;
}

uint64_t
dop_stored_size(dop_model *model, const dop_states *states)
{
    return dop_transfer_size(model, states);
}

dop_status
dop_stored_read(dop_model *model, const dop_states *states, uint8_t *out, dop_diag *diag)
{
    const dop_states rows = select_half(states, true), whole = select_half(states, false);
    sink s = {out, dop_transfer_size(model, states)};
    dop_status st = rows.rows ? dop_transfer_read(model, &rows, take_state_bytes, &s, diag) : DOP_OK;
    return st == DOP_OK && whole.whole ? dop_transfer_read(model, &whole, take_state_bytes, &s, diag) : st;
}

dop_status
dop_stored_write(dop_model *model, const dop_states *states, const uint8_t *bytes, dop_diag *diag)
{
    const dop_states rows = select_half(states, true), whole = select_half(states, false);
    if (rows.rows)
        DOP_RETURN_IF_ERROR(dop_transfer_write(model, &rows, bytes, diag));
    if (whole.whole)
        DOP_RETURN_IF_ERROR(
            dop_transfer_write(model, &whole, bytes + (rows.rows ? dop_transfer_size(model, &rows) : 0), diag));
    return DOP_OK;
}

/* Returns the number of leading keys that are valid in other processes. Ids of image features are not; the marks that
 * replace them in dop_prefix_keys are. */
static uint32_t
count_lasting(const dop_model *m, const uint32_t *keys, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && (keys[i] < m->plan.model->vocab || keys[i] >= DOP_PREFIX_MARKED))
        i++;
    return i;
}

/* --- saving
 * ----------------------------------------------------------------------------------------------------------- */

/* Stores one snapshot: rows of the sequence, and with `whole` the states of position `to` from a place or slot. */
static dop_status
keep_one(dop_sequence *s, const dop_snapshot_key *key, const uint32_t *keys, uint32_t whole_at, uint32_t over,
         dop_diag *diag)
{
    dop_model *m = s->model;
    const dop_snapshot_plan plan = dop_stored_plan(m);
    const dop_states rows = {.place = s->place, .from = key->from, .to = key->to, .rows = true},
                     whole = {.place = whole_at, .from = key->from, .to = key->to, .whole = key->whole};
    const uint64_t n_rows = dop_transfer_size(m, &rows), n_whole = key->whole ? dop_transfer_size(m, &whole) : 0;
    dop_snapshot_head head;
    dop_snapshot *x = dop_snapshot_begin(&plan, key, s->prefix.seed, over, keys + (key->whole ? 0 : key->from),
                                         n_rows + n_whole, &head);
    if (!x)
        return DOP_NO_MEMORY(diag);
    uint8_t *states = x->bytes + dop_snapshot_states_at(&head);
    dop_status st = DOP_OK;
    DOP_TRY(dop_stored_read(m, &rows, states, diag));
    if (key->whole)
        DOP_TRY(dop_stored_read(m, &whole, states + n_rows, diag));
    dop_snapshot_finish(x);
    dop_store_put(m->kept.prompts.store, key, x);
error:
    dop_snapshot_release(x);
    return st;
}

/* Stores the single-position states at position n, unless they are stored already. */
static dop_status
keep_point(dop_sequence *s, const uint32_t *keys, uint32_t n, uint32_t whole_at, uint32_t over, dop_diag *diag)
{
    dop_model *m = s->model;
    const uint32_t block = find_block_size(m);
    dop_snapshot_key key = {.from = n / block * block, .to = n, .whole = true};
    uint64_t digest[1][2];
    dop_snapshot_digests(s->prefix.seed, keys, &n, 1, digest);
    memcpy(key.digest, digest[0], sizeof key.digest);
    return dop_store_has(m->kept.prompts.store, &key) ? DOP_OK : keep_one(s, &key, keys, whole_at, over, diag);
}

static dop_status
keep_blocks(dop_sequence *s, const uint32_t *keys, uint32_t n, dop_diag *diag)
{
    dop_model *m = s->model;
    const uint32_t block = find_block_size(m), n_blocks = n / block;
    uint32_t *at = malloc((n_blocks + 1) * sizeof *at);
    uint64_t(*digests)[2] = malloc((n_blocks + 1) * sizeof *digests);
    dop_status st = DOP_OK;
    if (!(at && digests))
        DOP_TRY(DOP_NO_MEMORY(diag));
    for (uint32_t i = 0; i < n_blocks; i++)
        at[i] = (i + 1) * block;
    dop_snapshot_digests(s->prefix.seed, keys, at, n_blocks, digests);
    for (uint32_t i = 0; i < n_blocks; i++) {
        dop_snapshot_key key = {.from = i * block, .to = (i + 1) * block};
        memcpy(key.digest, digests[i], sizeof key.digest);
        if (!dop_store_has(m->kept.prompts.store, &key))
            DOP_TRY(keep_one(s, &key, keys, s->place, 0, diag));
    }
error:
    free(at);
    free(digests);
    return st;
}

dop_status
dop_stored_keep(dop_sequence *sequence, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    const uint32_t n = s->n_fed, rewind = m->plan.model->rewind, *keys = dop_prefix_keys(&s->prefix, s->tokens, n);
    if (!m->kept.prompts.store || n == 0)
        return DOP_OK;
    if (!keys)
        return DOP_NO_MEMORY(diag);
    const uint32_t lasting = count_lasting(m, keys, n);
    dop_store_refresh(m->kept.prompts.store);
    if (m->kept.prompts.has_rows)
        DOP_RETURN_IF_ERROR(keep_blocks(s, keys, lasting, diag));
    if (!m->kept.one_position)
        return DOP_OK;
    const uint32_t over = s->n_written > n ? s->n_written - n : 0;
    if (lasting == n && (rewind == DOP_PLAN_NO_RINGS || over <= rewind))
        DOP_RETURN_IF_ERROR(keep_point(s, keys, n, s->place, over, diag));
    for (uint32_t i = 0; i < m->kept.slots.n; i++) {
        dop_restore_point *c = &m->kept.points[i];
        const bool last = c->id == s->chunk_marks[0] || c->id == s->chunk_marks[1];
        if (c->id == 0 || c->n >= n || c->n > lasting || (c->chunk && !last) || c->prefix.seed != s->prefix.seed)
            continue;
        const uint32_t *own = dop_prefix_keys(&c->prefix, c->tokens, c->n);
        if (own && dop_prefix_same(own, keys, c->n) == c->n)
            DOP_RETURN_IF_ERROR(keep_point(s, keys, c->n, m->plan.model->n_sequences + i, c->over, diag));
    }
    return DOP_OK;
}

/* --- finding ------------------------------------------------------------------------------------------------------------ */

/* Returns the number of leading blocks that are on the device or in the store. */
static uint32_t
count_stored_blocks(const dop_model *m, uint64_t (*digests)[2], uint32_t n, uint32_t rows)
{
    const uint32_t block = find_block_size(m);
    uint32_t i = rows / block;
    if (!m->kept.prompts.has_rows)
        return n;
    for (; i < n; i++) {
        dop_snapshot_key key = {.from = i * block, .to = (i + 1) * block};
        memcpy(key.digest, digests[i], sizeof key.digest);
        if (!dop_store_has(m->kept.prompts.store, &key))
            break;
    }
    return i < n ? i : n;
}

/* Finds the last stored checkpoint that the blocks reach. */
static bool
find_point(const dop_model *m, uint64_t seed, const uint32_t *keys, uint32_t most, uint32_t n_blocks,
           dop_snapshot_key *out)
{
    const uint32_t block = find_block_size(m);
    uint32_t n, *at = dop_store_points(m->kept.prompts.store, most, &n);
    uint64_t(*digests)[2] = at ? malloc(n * sizeof *digests) : NULL;
    bool found = false;
    if (digests)
        dop_snapshot_digests(seed, keys, at, n, digests);
    for (uint32_t i = n; i-- > 0 && digests && !found;) {
        *out = (dop_snapshot_key){.from = at[i] / block * block, .to = at[i], .whole = true};
        memcpy(out->digest, digests[i], sizeof out->digest);
        found = at[i] / block <= n_blocks && dop_store_has(m->kept.prompts.store, out);
    }
    free(digests);
    free(at);
    return found;
}

/* Loads the snapshots of x. Sets x->n to 0 if one is missing or damaged: the store then no longer lists it, and the
 * caller must search again. */
static dop_status
get_images(dop_model *m, const uint32_t *keys, uint64_t (*digests)[2], const dop_snapshot_key *point,
           dop_stored_load *x, dop_diag *diag)
{
    const uint32_t block = find_block_size(m), first = x->rows / block,
                   end = m->kept.prompts.has_rows ? x->n / block : first;
    x->snapshots = calloc((size_t)(end > first ? end - first : 0) + 1, sizeof(dop_snapshot *));
    if (!x->snapshots)
        return DOP_NO_MEMORY(diag);
    /* Load all of them, to detect every damaged one at once. */
    bool good = true;
    for (uint32_t i = first; i < end + point->whole; i++) {
        dop_snapshot_key key = *point;
        if (i < end) {
            key = (dop_snapshot_key){.from = i * block, .to = (i + 1) * block};
            memcpy(key.digest, digests[i], sizeof key.digest);
        }
        dop_snapshot *got = dop_store_get(m->kept.prompts.store, &key, keys + (i < end ? key.from : 0));
        if (got)
            x->snapshots[x->n_images++] = got;
        good = good && got;
    }
    if (!good) {
        dop_stored_load_finish(x);
        *x = (dop_stored_load){0};
    }
    return DOP_OK;
}

/* Finds the longest prefix of a prompt that the store lists, and the checkpoint that it needs. */
static void
find_named_states(const dop_model *m, uint64_t seed, const uint32_t *keys, uint32_t most, uint32_t rows,
                  uint64_t (*digests)[2], dop_snapshot_key *out_point, dop_stored_load *out)
{
    const uint32_t block = find_block_size(m), blocks = count_stored_blocks(m, digests, most / block, rows);
    *out = (dop_stored_load){.known = m->kept.prompts.has_rows ? blocks * block : 0};
    *out_point = (dop_snapshot_key){.whole = false};
    if (!m->kept.one_position)
        out->n = blocks * block;
    else if (find_point(m, seed, keys, most, blocks, out_point))
        out->n = out_point->to;
    out->rows = rows / block * block < out->n / block * block ? rows / block * block : out->n / block * block;
}

dop_status
dop_stored_find(dop_model *model, uint64_t seed, const uint32_t *keys, uint32_t most, uint32_t rows, uint32_t least,
                dop_diag *diag, dop_stored_load *out)
{
    dop_model *m = model;
    *out = (dop_stored_load){0};
    if (!m->kept.prompts.store)
        return DOP_OK;
    most = count_lasting(m, keys, most);
    const uint32_t block = find_block_size(m), n_blocks = most / block;
    uint32_t *at = malloc((n_blocks + 1) * sizeof *at);
    uint64_t(*digests)[2] = malloc((n_blocks + 1) * sizeof *digests);
    dop_snapshot_key point;
    dop_status st = at && digests ? DOP_OK : DOP_NO_MEMORY(diag);
    if (st == DOP_OK) {
        dop_store_refresh(m->kept.prompts.store);
        for (uint32_t i = 0; i < n_blocks; i++)
            at[i] = (i + 1) * block;
        if (m->kept.prompts.has_rows)
            dop_snapshot_digests(seed, keys, at, n_blocks, digests);
        find_named_states(m, seed, keys, most, rows, digests, &point, out);
    }
    /* Each pass that removes a damaged snapshot finds a shorter prefix. */
    for (uint32_t before = UINT32_MAX; st == DOP_OK && out->n > least && out->n < before;) {
        before = out->n;
        st = get_images(m, keys, digests, &point, out, diag);
        if (st != DOP_OK || out->n > 0)
            break;
        find_named_states(m, seed, keys, most, rows, digests, &point, out);
    }
    if (out->n_images == 0)
        out->n = 0;
    free(at);
    free(digests);
    return st;
}

dop_files_counts
dop_stored_count_files(const dop_model *model)
{
    const dop_store *store = model->kept.prompts.store;
    return store ? dop_store_count_files(store) : (dop_files_counts){0};
}

void
dop_stored_load_finish(dop_stored_load *load)
{
    for (uint32_t i = 0; i < load->n_images; i++)
        dop_snapshot_release(load->snapshots[i]);
    free(load->snapshots);
    *load = (dop_stored_load){0};
}

/* --- resuming
 * --------------------------------------------------------------------------------------------------------- */

dop_status
dop_stored_take(dop_sequence *sequence, const dop_stored_load *load, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    dop_sequence_kept(s, UINT32_MAX, 0);
    s->logits = NULL;
    for (uint32_t i = 0; i < load->n_images; i++) {
        dop_snapshot_head h;
        memcpy(&h, load->snapshots[i]->bytes, sizeof h);
        const dop_states x = {
            .place = s->place, .from = h.from, .to = h.to, .rows = true, .whole = (h.flags & DOP_SNAPSHOT_WHOLE) != 0};
        if (dop_transfer_size(m, &x) != dop_snapshot_states_size(&h))
            return DOP_FAIL(diag, DOP_E_INPUT, "states of another size");
        if (h.to > h.from)
            DOP_RETURN_IF_ERROR(dop_sequence_reserve(s, h.from, h.to, diag));
        DOP_RETURN_IF_ERROR(dop_stored_write(m, &x, load->snapshots[i]->bytes + dop_snapshot_states_at(&h), diag));
        s->n_fed = h.to;
        s->n_written = h.to + h.over;
    }
    return DOP_OK;
}
