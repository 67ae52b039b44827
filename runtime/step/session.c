/* Saves sequences to files: snapshots (runtime/cache/snapshot.h) of all states of their first n_fed tokens, cache rows
 * first. */
#include "runtime/step/sequence_pages.h"
#include "runtime/step/sequence_states.h"
#include "runtime/step/speculator.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"
#include "runtime/step/stored.h"
#include "runtime/step/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct saver {
    dop_out_file out;
    XXH3_state_t *digest;
} saver;

static dop_status
put_session_bytes(void *user, const void *bytes, size_t size, dop_diag *diag)
{
    saver *s = user;
    if (size == 0)
        return DOP_OK;
    if (fwrite(bytes, 1, size, s->out.f) != size)
        return DOP_FAIL_IN(diag, DOP_E_IO, s->out.path, "cannot write the session: the disk may be full");
    (void)XXH3_64bits_update(s->digest, bytes, size);
    return DOP_OK;
}

static dop_states
select_session_states(const dop_sequence *s, uint32_t n)
{
    return (dop_states){.place = s->place, .to = n, .rows = true, .whole = true};
}

static dop_status
write_states(saver *f, const dop_sequence *s, dop_diag *diag)
{
    dop_states rows = select_session_states(s, s->n_fed), whole = rows;
    rows.whole = whole.rows = false;
    DOP_RETURN_IF_ERROR(dop_transfer_read(s->model, &rows, put_session_bytes, f, diag));
    return dop_transfer_read(s->model, &whole, put_session_bytes, f, diag);
}

static dop_status
write_session(saver *f, dop_sequence *s, const void *note, size_t n_note, dop_diag *diag)
{
    dop_model *m = s->model;
    const uint64_t zero = 0;
    const dop_snapshot_plan plan = dop_stored_plan(m);
    const dop_states states = select_session_states(s, s->n_fed);
    dop_snapshot_head h = dop_snapshot_head_of(&plan, DOP_SNAPSHOT_ROWS | DOP_SNAPSHOT_WHOLE);
    if (n_note > INT32_MAX)
        return DOP_FAIL(diag, DOP_E_INPUT, "a note of %zu bytes", n_note);
    h.n_tokens = s->n_tokens;
    h.to = s->n_fed;
    h.over = s->n_written > s->n_fed ? s->n_written - s->n_fed : 0;
    h.n_note = (uint32_t)n_note;
    h.seed = s->prefix.seed;
    h.n_marks = s->prefix.n_marks;
    h.file_size = dop_snapshot_states_at(&h) + dop_transfer_size(m, &states) + sizeof(uint64_t);
    dop_status st = put_session_bytes(f, &h, sizeof h, diag);
    if (st == DOP_OK)
        st = put_session_bytes(f, s->tokens, s->n_tokens * sizeof *s->tokens, diag);
    if (st == DOP_OK)
        st = put_session_bytes(f, &zero, s->n_tokens % 2 * sizeof *s->tokens, diag);
    _Static_assert(sizeof(dop_prefix_mark) == DOP_SNAPSHOT_MARK, "marks are written as they are");
    if (st == DOP_OK)
        st = put_session_bytes(f, s->prefix.marks, s->prefix.n_marks * sizeof *s->prefix.marks, diag);
    if (st == DOP_OK)
        st = put_session_bytes(f, note, n_note, diag);
    if (st == DOP_OK)
        st = put_session_bytes(f, &zero, dop_align_u64(n_note, 8) - n_note, diag);
    if (st == DOP_OK)
        st = write_states(f, s, diag);
    uint64_t digest = XXH3_64bits_digest(f->digest);
    return st == DOP_OK ? put_session_bytes(f, &digest, sizeof digest, diag) : st;
}

/* Prepares for reading and writing states: fails if a step is open or the plan does not list its states, and waits for
 * in-flight steps. */
static dop_status
be_ready(dop_model *m, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(dop_step_none_open(m, diag));
    DOP_RETURN_IF_ERROR(dop_step_drain(m, diag));
    if (!dop_transfer_can(m))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path, "the plan does not list its states: compile it again");
    return DOP_OK;
}

/* Fails for a sequence with adapters, because a file does not record which ones its states were computed with. */
static dop_status
check_plain(const dop_sequence *s, dop_diag *diag)
{
    return s->n_uses == 0 ? DOP_OK
                          : DOP_FAIL(diag, DOP_E_INPUT,
                                     "a sequence that uses adapters is neither saved nor loaded: merge the adapter "
                                     "(`dop_compile_options.loras`)");
}

dop_status
dop_sequence_save(dop_sequence *sequence, const char *path, const void *note, size_t n_note, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    saver f = {.digest = NULL};
    dop_status st = check_plain(sequence, diag);
    if (st == DOP_OK)
        st = be_ready(sequence->model, diag);
    if (st == DOP_OK)
        st = dop_sequence_settle(sequence, diag);
    if (st == DOP_OK)
        st = dop_sequence_keep_rings(sequence, sequence->n_fed, diag);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < sequence->n_tokens; i++)
        if (sequence->tokens[i] >= sequence->model->plan.model->vocab)
            return DOP_FAIL(diag, DOP_E_INPUT,
                            "a sequence with pictures cannot be saved: ids of their rows end with the model");
    f.digest = XXH3_createState();
    if (!f.digest || XXH3_64bits_reset(f.digest) != XXH_OK) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    if ((st = dop_out_file_open(path, diag, &f.out)) != DOP_OK)
        goto error;
    dop_out_file_keep_private(&f.out); /* the file holds a conversation */
    st = write_session(&f, sequence, note, n_note, diag);
    dop_status closed = dop_out_file_close(&f.out, st == DOP_OK, diag);
    st = st != DOP_OK ? st : closed;
error:
    XXH3_freeState(f.digest);
    return st;
}

/* Validates the file as far as possible before anything is changed. */
static dop_status
check_file(dop_sequence *s, const char *path, const dop_map *map, dop_snapshot_head *out, dop_diag *diag)
{
    const dop_snapshot_plan plan = dop_stored_plan(s->model);
    dop_status st = dop_snapshot_check(map->data, map->size, &plan, path, diag, out);
    const dop_states states = select_session_states(s, st == DOP_OK ? out->to : 0);
    if (st == DOP_OK &&
        ((out->flags & DOP_SNAPSHOT_CACHED) || dop_snapshot_states_size(out) != dop_transfer_size(s->model, &states)))
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved sequence is damaged: %u tokens, %u with states",
                         out->n_tokens, out->to);
    return st;
}

/* Copies the note, with a terminating zero. */
static dop_status
copy_session_note(const dop_map *map, const dop_snapshot_head *h, dop_diag *diag, char **out_note)
{
    *out_note = malloc((size_t)h->n_note + 1);
    if (!*out_note)
        return DOP_NO_MEMORY(diag);
    memcpy(*out_note, map->data + dop_snapshot_note_at(h), h->n_note);
    (*out_note)[h->n_note] = 0;
    return DOP_OK;
}

static dop_status
check_pages(const dop_sequence *s, uint32_t n, dop_diag *diag)
{
    const dop_pages *p = &s->model->pages;
    uint32_t needed = p->page ? (n + p->page - 1) / p->page : 0, free = dop_pages_available(p);
    for (uint32_t i = 0; i < p->of[s->place].n; i++)
        free += p->rows[p->tables[(size_t)s->place * p->per + i]].refs == 1;
    return needed <= free ? DOP_OK
                          : DOP_FAIL_IN(diag, DOP_E_FULL, s->model->plan.path,
                                        "the saved sequence needs %u pages of %u positions and %u of %u are free: "
                                        "destroy or rewind a sequence, or compile with a larger `ctx_total`",
                                        needed, p->page, free, p->n_pages);
}

/* Returns the file's marks, which are aligned to 8 bytes. */
static const dop_prefix_mark *
marks_of(const dop_map *map, const dop_snapshot_head *h)
{
    return (const dop_prefix_mark *)(const void *)(map->data + dop_snapshot_marks_at(h));
}

dop_status
dop_sequence_load(dop_sequence *sequence, const char *path, dop_diag *diag, char **out_note, size_t *out_n_note)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    dop_map map = {0};
    dop_snapshot_head h = {.version = 0};
    char *note = NULL;
    dop_status st = check_plain(s, diag);
    if (st != DOP_OK || (st = be_ready(m, diag)) != DOP_OK || (st = dop_map_open(path, diag, &map)) != DOP_OK)
        return st;
    if ((st = check_file(s, path, &map, &h, diag)) != DOP_OK ||
        (out_note && (st = copy_session_note(&map, &h, diag, &note)) != DOP_OK))
        goto error;
    /* Check for enough pages before any change, counting those that the sequence will release. */
    if ((st = check_pages(s, h.to, diag)) != DOP_OK)
        goto error;
    dop_speculator_forget(s->speculator);
    s->n_tokens = 0;
    if ((st = dop_sequence_empty(s, diag)) != DOP_OK || (st = dop_sequence_reserve(s, 0, h.to, diag)) != DOP_OK ||
        (st = dop_prefix_set(&s->prefix, h.seed, marks_of(&map, &h), h.n_marks, diag)) != DOP_OK)
        goto error;
    const dop_states states = select_session_states(s, h.to);
    if ((st = dop_stored_write(m, &states, map.data + dop_snapshot_states_at(&h), diag)) != DOP_OK)
        goto error;
    memcpy(s->tokens, map.data + sizeof h, h.n_tokens * sizeof *s->tokens);
    s->n_tokens = h.n_tokens;
    s->n_fed = h.to;
    s->n_written = h.to + h.over;
    if (out_note) {
        *out_note = note;
        *out_n_note = h.n_note;
        note = NULL;
    }
error:
    free(note);
    dop_map_close(&map);
    return st;
}
