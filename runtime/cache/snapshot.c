#include "runtime/cache/snapshot.h"

#include <string.h>
#include <xxhash.h>

static const char magic[8] = "DOPSEQ\n";

dop_snapshot_head
dop_snapshot_head_of(const dop_snapshot_plan *plan, uint32_t flags)
{
    dop_snapshot_head h = {.version = DOP_SNAPSHOT_VERSION, .flags = flags, .plan = plan->plan, .layout = plan->layout};
    memcpy(h.magic, magic, sizeof magic);
    return h;
}

uint64_t
dop_snapshot_marks_at(const dop_snapshot_head *head)
{
    return sizeof *head + dop_align_u64((uint64_t)head->n_tokens * 4, 8);
}

uint64_t
dop_snapshot_note_at(const dop_snapshot_head *head)
{
    return dop_snapshot_marks_at(head) + (uint64_t)head->n_marks * DOP_SNAPSHOT_MARK;
}

uint64_t
dop_snapshot_states_at(const dop_snapshot_head *head)
{
    return dop_snapshot_note_at(head) + dop_align_u64(head->n_note, 8);
}

uint64_t
dop_snapshot_states_size(const dop_snapshot_head *head)
{
    return head->file_size - dop_snapshot_states_at(head) - sizeof(uint64_t);
}

/* True if the counts are consistent with the snapshot's kind. */
static bool
counts_fit(const dop_snapshot_head *h, const dop_snapshot_plan *plan)
{
    const uint32_t both = DOP_SNAPSHOT_ROWS | DOP_SNAPSHOT_WHOLE;
    if (h->from > h->to || h->to > plan->ctx || h->over > plan->ctx || h->n_tokens > plan->ctx + 1)
        return false;
    if (h->flags == both)
        return h->from == 0 && h->to <= h->n_tokens && h->n_marks <= h->n_tokens;
    if (h->n_marks > 0 || h->n_note > 0 || !(h->flags & DOP_SNAPSHOT_CACHED))
        return false;
    return h->flags == (DOP_SNAPSHOT_CACHED | DOP_SNAPSHOT_ROWS)
               ? h->n_tokens == h->to - h->from
               : h->flags == (DOP_SNAPSHOT_CACHED | both) && h->n_tokens == h->to;
}

static bool
marks_fit(const uint8_t *bytes, const dop_snapshot_head *h)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < h->n_marks; i++) {
        uint32_t mark[2];
        memcpy(mark, bytes + dop_snapshot_marks_at(h) + (uint64_t)i * DOP_SNAPSHOT_MARK, sizeof mark);
        if (mark[0] < end || mark[0] > h->n_tokens || mark[1] > h->n_tokens - mark[0])
            return false;
        end = mark[0] + mark[1];
    }
    return true;
}

dop_status
dop_snapshot_check(const uint8_t *bytes, uint64_t size, const dop_snapshot_plan *plan, const char *path, dop_diag *diag,
                   dop_snapshot_head *out_head)
{
    dop_snapshot_head h;
    uint64_t digest;
    if (size < sizeof h + sizeof digest || memcmp(bytes, magic, sizeof magic) != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "not a saved sequence");
    memcpy(&h, bytes, sizeof h);
    if (h.version != DOP_SNAPSHOT_VERSION)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the sequence was saved in version %u and this program reads %d",
                           h.version, DOP_SNAPSHOT_VERSION);
    if (h.file_size > size)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved sequence is cut short: %llu of %llu bytes are there",
                           (unsigned long long)size, (unsigned long long)h.file_size);
    if (h.file_size < size)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "the saved sequence is damaged: it has %llu bytes, and the file %llu",
                           (unsigned long long)h.file_size, (unsigned long long)size);
    memcpy(&digest, bytes + size - sizeof digest, sizeof digest);
    if (XXH3_64bits(bytes, size - sizeof digest) != digest)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved sequence is damaged: its digest does not fit");
    if (h.plan != plan->plan)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "the sequence is of another plan (digest %016llx, and this one has %016llx)",
                           (unsigned long long)h.plan, (unsigned long long)plan->plan);
    if (h.layout != plan->layout)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "the sequence was saved by another of the plan's targets, which lays out its states "
                           "differently");
    if (!counts_fit(&h, plan) || dop_snapshot_states_at(&h) + sizeof digest > size || !marks_fit(bytes, &h))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved sequence is damaged: %u tokens, %u with states",
                           h.n_tokens, h.to);
    for (uint32_t i = 0; i < h.n_tokens && !(h.flags & DOP_SNAPSHOT_CACHED); i++) {
        uint32_t token;
        memcpy(&token, bytes + sizeof h + (uint64_t)i * 4, sizeof token);
        if (token >= plan->vocab)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved sequence is damaged: token id %u of %u", token,
                               plan->vocab);
    }
    *out_head = h;
    return DOP_OK;
}
