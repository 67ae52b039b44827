/* Sequences in files.
 *
 *   header, tokens u32[n_tokens], padding to 8 bytes, note, padding, states, digest u64 (XXH3 of everything before it)
 *
 * States are those of the first n_fed tokens, one after the other as the plan lists them: of append state the rows of those
 * positions, of state that steps replace its current copy.  Little-endian.  Nothing in it depends on the device. */
#include "runtime/step/speculator.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char magic[8] = "DOPSEQ\n";
enum { VERSION = 1 };

typedef struct session_header {
    char magic[8];
    uint32_t version;
    uint32_t n_tokens, n_fed;
    uint32_t n_note;    /* bytes of the note */
    uint64_t file_size; /* bytes */
    uint64_t plan;      /* digest of the plan */
    uint64_t layout;    /* digest of what the plan says of the states in use */
} session_header;

/* Names, kinds and sizes of the states: a plan for several targets may have them in several forms. */
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

/* Bytes before the states. */
static uint64_t
states_offset(const session_header *h)
{
    return sizeof *h + dop_align_u64((uint64_t)h->n_tokens * 4, 8) + dop_align_u64(h->n_note, 8);
}

typedef struct saver {
    dop_out_file out;
    XXH3_state_t *digest;
} saver;

static dop_status
put(void *user, const void *bytes, size_t size, dop_diag *diag)
{
    saver *s = user;
    if (size == 0)
        return DOP_OK;
    if (fwrite(bytes, 1, size, s->out.f) != size)
        return DOP_FAIL_IN(diag, DOP_E_IO, s->out.path, "cannot write the session: the disk may be full");
    (void)XXH3_64bits_update(s->digest, bytes, size);
    return DOP_OK;
}

static dop_status
write_all(saver *f, dop_sequence *s, const void *note, size_t n_note, dop_diag *diag)
{
    dop_model *m = s->model;
    const uint64_t zero = 0;
    session_header h = {.version = VERSION,
                        .n_tokens = s->n_tokens,
                        .n_fed = s->n_fed,
                        .n_note = (uint32_t)n_note,
                        .plan = m->plan.digest,
                        .layout = layout_digest(m)};
    memcpy(h.magic, magic, sizeof magic);
    if (n_note > INT32_MAX)
        return DOP_FAIL(diag, DOP_E_INPUT, "a note of %zu bytes", n_note);
    h.file_size = states_offset(&h) +
                  dop_transfer_size(m, &(dop_states){.place = s->place, .to = s->n_fed, .rows = true, .whole = true}) +
                  sizeof(uint64_t);
    dop_status st = put(f, &h, sizeof h, diag);
    if (st == DOP_OK)
        st = put(f, s->tokens, s->n_tokens * sizeof *s->tokens, diag);
    if (st == DOP_OK)
        st = put(f, &zero, s->n_tokens % 2 * sizeof *s->tokens, diag);
    if (st == DOP_OK)
        st = put(f, note, n_note, diag);
    if (st == DOP_OK)
        st = put(f, &zero, dop_align_u64(n_note, 8) - n_note, diag);
    if (st == DOP_OK)
        st = dop_transfer_read(m, &(dop_states){.place = s->place, .to = s->n_fed, .rows = true, .whole = true}, put, f,
                               diag);
    uint64_t digest = XXH3_64bits_digest(f->digest);
    return st == DOP_OK ? put(f, &digest, sizeof digest, diag) : st;
}

/* Ensures that states can be read and written: no step is open, nothing is in flight, and the plan says where they are. */
static dop_status
be_ready(dop_model *m, dop_diag *diag)
{
    dop_status st = dop_step_none_open(m, diag);
    if (st == DOP_OK)
        st = dop_step_drain(m, diag);
    if (st == DOP_OK && !dop_transfer_can(m))
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path, "the plan does not list its states: compile it again");
    return st;
}

dop_status
dop_sequence_save(dop_sequence *sequence, const char *path, const void *note, size_t n_note, dop_diag *diag)
{
    dop_diag_clear(diag);
    saver f = {.digest = NULL};
    dop_status st = be_ready(sequence->model, diag);
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
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
        goto error;
    }
    if ((st = dop_out_file_open(path, diag, &f.out)) != DOP_OK)
        goto error;
    dop_out_file_keep_private(&f.out); /* it holds a conversation */
    st = write_all(&f, sequence, note, n_note, diag);
    dop_status closed = dop_out_file_close(&f.out, st == DOP_OK, diag);
    st = st != DOP_OK ? st : closed;
error:
    XXH3_freeState(f.digest);
    return st;
}

/* Checks everything about the file that can be checked before anything is changed. */
static dop_status
check_file(dop_model *m, const char *path, const dop_map *map, session_header *out, dop_diag *diag)
{
    session_header h;
    uint64_t digest;
    if (map->size < sizeof h + sizeof digest || memcmp(map->data, magic, sizeof magic) != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "not a saved sequence");
    memcpy(&h, map->data, sizeof h);
    if (h.version != VERSION)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the sequence was saved in version %u and this program reads %d",
                           h.version, VERSION);
    if (h.file_size != map->size)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved sequence is cut short: %llu of %llu bytes are there",
                           (unsigned long long)map->size, (unsigned long long)h.file_size);
    memcpy(&digest, map->data + map->size - sizeof digest, sizeof digest);
    if (dop_plan_digest(map->data, map->size - sizeof digest) != digest)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved sequence is damaged: its digest does not fit");
    if (h.plan != m->plan.digest)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "the sequence is of another plan (digest %016llx, and this one has %016llx)",
                           (unsigned long long)h.plan, (unsigned long long)m->plan.digest);
    if (h.layout != layout_digest(m))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "the sequence was saved by another of the plan's targets, which lays out its states "
                           "differently");
    if (h.n_fed > h.n_tokens || h.n_tokens > m->plan.model->ctx + 1 || h.n_fed > m->plan.model->ctx ||
        states_offset(&h) + dop_transfer_size(m, &(dop_states){.to = h.n_fed, .rows = true, .whole = true}) +
                sizeof digest !=
            map->size)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved sequence is damaged: %u tokens, %u with states",
                           h.n_tokens, h.n_fed);
    const uint32_t *tokens = (const uint32_t *)(const void *)(map->data + sizeof h);
    for (uint32_t i = 0; i < h.n_tokens; i++)
        if (tokens[i] >= m->plan.model->vocab)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved sequence is damaged: token id %u of %u", tokens[i],
                               m->plan.model->vocab);
    *out = h;
    return DOP_OK;
}

/* A copy of the note. */
static dop_status
take_note(const dop_map *map, const session_header *h, dop_diag *diag, char **out_note)
{
    *out_note = malloc((size_t)h->n_note + 1);
    if (!*out_note)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    memcpy(*out_note, map->data + states_offset(h) - dop_align_u64(h->n_note, 8), h->n_note);
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
                                        "destroy or rewind a sequence, or compile with a larger --ctx-total",
                                        needed, p->page, free, p->n_pages);
}

dop_status
dop_sequence_load(dop_sequence *sequence, const char *path, dop_diag *diag, char **out_note, size_t *out_n_note)
{
    dop_diag_clear(diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    dop_map map = {0};
    session_header h = {.version = 0};
    char *note = NULL;
    dop_status st = be_ready(m, diag);
    if (st != DOP_OK || (st = dop_map_open(path, diag, &map)) != DOP_OK)
        return st;
    if ((st = check_file(m, path, &map, &h, diag)) != DOP_OK ||
        (out_note && (st = take_note(&map, &h, diag, &note)) != DOP_OK))
        goto error;
    /* Before anything is changed: are there enough pages, counting those that the sequence will release? */
    if ((st = check_pages(s, h.n_fed, diag)) != DOP_OK)
        goto error;
    dop_speculator_forget(s->speculator);
    s->n_tokens = 0;
    if ((st = dop_sequence_empty(s, diag)) != DOP_OK || (st = dop_sequence_reserve(s, 0, h.n_fed, diag)) != DOP_OK ||
        (st = dop_transfer_write(m, &(dop_states){.place = s->place, .to = h.n_fed, .rows = true, .whole = true},
                                 map.data + states_offset(&h), diag)) != DOP_OK)
        goto error;
    memcpy(s->tokens, map.data + sizeof h, h.n_tokens * sizeof *s->tokens);
    s->n_tokens = h.n_tokens;
    s->n_fed = s->n_written = h.n_fed;
    if (m->plan.model->rewind !=
        DOP_PLAN_NO_RINGS) /* its rings may hold positions that were dropped before it was saved */
        s->n_written += m->plan.model->rewind;
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
