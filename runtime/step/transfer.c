/* Transfers states of a sequence: to another place of the same plan, to the host, and back.  Each call records its own command
 * buffer, which depends on the places and on the number of positions. */
#include "runtime/parts/lead/ranks.h"

#include <string.h>

/* Size of the staging memory, bytes. */
enum { STAGING = 8 << 20 };

/* A contiguous piece of memory of one state. */
typedef struct piece {
    VkBuffer buffer;
    uint64_t offset, size; /* bytes */
} piece;

bool
dop_transfer_can(const dop_model *model)
{
    bool states = false;
    for (uint32_t i = 0; i < model->plan.n_slots; i++)
        states = states || model->plan.slots[i].kind == DOP_SLOT_STATE;
    return model->plan.n_states > 0 || !states;
}

static bool
is_paged(const dop_model *m, uint32_t i)
{
    return m->plan.states[i].paged != 0;
}

/* Does the chosen profile have the state, and is it kept in one piece for each sequence? */
static bool
is_whole(const dop_model *m, uint32_t i)
{
    return m->memory.places[m->plan.states[i].slot].block != UINT32_MAX && !is_paged(m, i);
}

static bool
has_whole(const dop_model *m)
{
    for (uint32_t i = 0; i < m->plan.n_states; i++)
        if (is_whole(m, i))
            return true;
    return false;
}

/* The first `rows` rows of a page, in a state that lies in pages. */
static piece
find_page(const dop_model *m, uint32_t i, uint32_t page, uint32_t rows)
{
    const dop_plan_state *s = &m->plan.states[i];
    const dop_slot_place *p = &m->memory.places[s->slot];
    if (p->block == UINT32_MAX)
        return (piece){0};
    return (piece){m->memory.blocks[p->block].buffer,
                   p->offset + s->offset + (uint64_t)page * m->pages.page * s->row_bytes, rows * s->row_bytes};
}

/* Where state i of the sequence at a place begins, which is in one piece, and how much of it belongs to the first n positions;
 * size 0: the chosen profile does not have this state. */
static piece
find(const dop_model *m, uint32_t i, uint32_t place, uint32_t n, uint32_t copy)
{
    const dop_plan_state *s = &m->plan.states[i];
    const dop_slot_place *p = &m->memory.places[s->slot];
    if (p->block == UINT32_MAX)
        return (piece){0};
    uint32_t rows = n < s->rows ? n : s->rows;
    if (m->plan.slots[s->slot].state == DOP_PLAN_STATE_REPLACE)
        rows = n > 0;
    return (piece){m->memory.blocks[p->block].buffer,
                   p->offset + s->offset + place * s->sequence_stride + copy * s->copy_stride, rows * s->row_bytes};
}

/* Piece k of what belongs to the first n positions: of state that steps replace the current copy; size 0: there is none. */
static piece
current(const dop_model *m, uint32_t i, uint32_t place, uint32_t n, uint32_t k)
{
    if (!is_paged(m, i))
        return k == 0 ? find(m, i, place, n, m->parity[place]) : (piece){0};
    const uint32_t page = m->pages.page;
    if ((uint64_t)k * page >= n)
        return (piece){0};
    const uint32_t left = n - k * page;
    return find_page(m, i, m->pages.tables[(size_t)place * m->pages.per + k], left < page ? left : page);
}

static dop_status
begin(dop_model *m, dop_diag *diag, VkCommandBuffer *out)
{
    return dop_replay_begin(&m->replay, diag, out);
}

static dop_status
end(dop_model *m, dop_diag *diag)
{
    uint64_t ticket;
    dop_status st = dop_replay_end(&m->replay, diag, &ticket);
    return st == DOP_OK ? dop_replay_wait(&m->replay, ticket, diag) : st;
}

dop_status
dop_transfer_clear(dop_model *model, uint32_t place, dop_diag *diag)
{
    dop_model *m = model;
    VkCommandBuffer commands;
    dop_status st = dop_ranks_order(m, DOP_ORDER_CLEAR_PLACE, (uint32_t[]){place}, 1, diag);
    if (st != DOP_OK || !has_whole(m))
        return st;
    st = begin(m, diag, &commands);
    for (uint32_t i = 0; i < m->plan.n_states && st == DOP_OK; i++)
        for (uint32_t copy = 0; copy < 2 && is_whole(m, i); copy++) {
            piece p = find(m, i, place, m->plan.model->ctx, copy);
            if (copy == 0 || m->plan.states[i].copy_stride > 0)
                vkCmdFillBuffer(commands, p.buffer, p.offset, p.size, 0);
        }
    return st == DOP_OK ? end(m, diag) : st;
}

dop_status
dop_transfer_copy(dop_model *model, uint32_t from, uint32_t to, uint32_t n, dop_diag *diag)
{
    dop_model *m = model;
    VkCommandBuffer commands;
    if (n == 0)
        return DOP_OK;
    dop_status st =
        dop_ranks_order(m, DOP_ORDER_COPY_PLACE, (uint32_t[]){from, to, n, m->parity[from], m->parity[to]}, 5, diag);
    if (st != DOP_OK || !has_whole(m))
        return st;
    st = begin(m, diag, &commands);
    for (uint32_t i = 0; i < m->plan.n_states && st == DOP_OK; i++)
        if (is_whole(m, i)) {
            piece a = current(m, i, from, n, 0), b = current(m, i, to, n, 0);
            vkCmdCopyBuffer(commands, a.buffer, b.buffer, 1, &(VkBufferCopy){a.offset, b.offset, a.size});
        }
    return st == DOP_OK ? end(m, diag) : st;
}

dop_status
dop_transfer_copy_page(dop_model *model, uint32_t from, uint32_t to, uint32_t rows, dop_diag *diag)
{
    dop_model *m = model;
    VkCommandBuffer commands;
    dop_status st = dop_ranks_order(m, DOP_ORDER_COPY_PAGE, (uint32_t[]){from, to, rows}, 3, diag);
    if (st == DOP_OK)
        st = begin(m, diag, &commands);
    for (uint32_t i = 0; i < m->plan.n_states && st == DOP_OK; i++) {
        piece a = is_paged(m, i) ? find_page(m, i, from, rows) : (piece){0}, b = find_page(m, i, to, rows);
        if (a.size > 0)
            vkCmdCopyBuffer(commands, a.buffer, b.buffer, 1, &(VkBufferCopy){a.offset, b.offset, a.size});
    }
    return st == DOP_OK ? end(m, diag) : st;
}

/* The size in bytes of the states in this part. */
static uint64_t
size_here(const dop_model *m, uint32_t n)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < m->plan.n_states; i++)
        size += is_paged(m, i) ? find_page(m, i, 0, n).size : find(m, i, 0, n, 0).size;
    return size;
}

uint64_t
dop_transfer_size(dop_model *model, uint32_t n)
{
    return size_here(model, n) + dop_ranks_size(model, n);
}

/* Staging memory: host memory that the device copies from and to.  dop_model_counters does not count it. */
static dop_status
make_staging(dop_model *m, dop_diag *diag, dop_block *out)
{
    const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint64_t allocations = m->device.allocations;
    dop_status st = dop_block_create(&m->device, STAGING, visible, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0, diag, out);
    m->base.allocations += m->device.allocations - allocations;
    if (st == DOP_OK && !out->mapped) {
        dop_block_destroy(&m->device, out);
        st = DOP_FAIL(diag, DOP_E_DEVICE, "device %s maps no memory for the host", m->device.info.caps.name);
    }
    return st;
}

/* A transfer of pieces, many in one submission: when the staging memory is full, it is submitted and emptied. */
typedef struct batch {
    dop_model *m;
    dop_diag *diag;
    dop_block staging;
    VkCommandBuffer commands; /* while used > 0 */
    uint64_t used;            /* bytes of staging memory */
    const uint8_t *bytes;     /* what the device receives next; NULL: the host receives, by `take` */
    dop_bytes_fn *take;
    void *user;
} batch;

static dop_status
flush(batch *b)
{
    if (b->used == 0)
        return DOP_OK;
    dop_status st = end(b->m, b->diag);
    if (st == DOP_OK && !b->bytes)
        st = b->take(b->user, b->staging.mapped, (size_t)b->used, b->diag);
    b->used = 0;
    return st;
}

static dop_status
move(batch *b, const piece *p)
{
    dop_status st = DOP_OK;
    for (uint64_t at = 0, size; at < p->size && st == DOP_OK; at += size) {
        size = p->size - at < STAGING - b->used ? p->size - at : STAGING - b->used;
        if (b->used == 0 && (st = begin(b->m, b->diag, &b->commands)) != DOP_OK)
            return st;
        if (b->bytes) {
            memcpy(b->staging.mapped + b->used, b->bytes, (size_t)size);
            b->bytes += size;
            vkCmdCopyBuffer(b->commands, b->staging.buffer, p->buffer, 1,
                            &(VkBufferCopy){b->used, p->offset + at, size});
        } else {
            vkCmdCopyBuffer(b->commands, p->buffer, b->staging.buffer, 1,
                            &(VkBufferCopy){p->offset + at, b->used, size});
        }
        b->used += size;
        if (b->used == STAGING)
            st = flush(b);
    }
    return st;
}

static dop_status
move_all(batch *b, uint32_t place, uint32_t n)
{
    dop_model *m = b->m;
    dop_status st = make_staging(m, b->diag, &b->staging);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < m->plan.n_states && st == DOP_OK; i++) {
        piece p = current(m, i, place, n, 0);
        for (uint32_t k = 1; p.size > 0 && st == DOP_OK; k++) {
            st = move(b, &p);
            p = current(m, i, place, n, k);
        }
    }
    if (st == DOP_OK)
        st = flush(b);
    dop_block_destroy(&m->device, &b->staging);
    return st;
}

dop_status
dop_transfer_read(dop_model *model, uint32_t place, uint32_t n, dop_bytes_fn *take, void *user, dop_diag *diag)
{
    batch b = {.m = model, .diag = diag, .take = take, .user = user};
    dop_status st = move_all(&b, place, n);
    return st == DOP_OK ? dop_ranks_read(model, place, n, take, user, diag) : st;
}

dop_status
dop_transfer_write(dop_model *model, uint32_t place, uint32_t n, const uint8_t *bytes, dop_diag *diag)
{
    batch b = {.m = model, .diag = diag, .bytes = bytes};
    dop_status st = move_all(&b, place, n);
    return st == DOP_OK ? dop_ranks_write(model, place, n, bytes + size_here(model, n), diag) : st;
}
