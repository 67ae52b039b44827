/* States of a sequence on their way: to another place of the same plan, to the host, and back.  Each call records a command
 * buffer of its own, because it depends on the places and on how many positions there are. */
#include "runtime/model.h"

#include <string.h>

/* Bytes that go through host memory at a time. */
enum { STAGING = 8 << 20 };

/* A stretch of memory of one state. */
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

/* Where state i of the sequence at a place begins, and how much of it belongs to the first n positions; size 0: the
 * chosen profile does not have this state. */
static piece
find(const dop_model *m, uint32_t i, uint32_t place, uint32_t n, uint32_t copy)
{
    const dop_plan_state *s = &m->plan.states[i];
    const dop_place *p = &m->memory.places[s->slot];
    if (p->block == UINT32_MAX)
        return (piece){0};
    uint32_t rows = n < s->rows ? n : s->rows;
    if (m->plan.slots[s->slot].state == DOP_PLAN_STATE_REPLACE)
        rows = n > 0;
    return (piece){m->memory.blocks[p->block].buffer,
                   p->offset + s->offset + place * s->sequence_stride + copy * s->copy_stride, rows * s->row_bytes};
}

static piece
current(const dop_model *m, uint32_t i, uint32_t place, uint32_t n)
{
    return find(m, i, place, n, m->parity[place]);
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
    dop_status st = begin(m, diag, &commands);
    for (uint32_t i = 0; i < m->plan.n_states && st == DOP_OK; i++)
        for (uint32_t copy = 0; copy < 2; copy++) {
            piece p = find(m, i, place, m->plan.model->ctx, copy);
            if (p.size > 0 && (copy == 0 || m->plan.states[i].copy_stride > 0))
                vkCmdFillBuffer(commands, p.buffer, p.offset, p.size, 0);
        }
    return st == DOP_OK ? end(m, diag) : st;
}

dop_status
dop_transfer_copy(dop_model *model, uint32_t from, uint32_t to, uint32_t n, dop_diag *diag)
{
    dop_model *m = model;
    VkCommandBuffer commands;
    dop_status st = begin(m, diag, &commands);
    for (uint32_t i = 0; i < m->plan.n_states && st == DOP_OK; i++) {
        piece a = current(m, i, from, n), b = current(m, i, to, n);
        if (a.size > 0)
            vkCmdCopyBuffer(commands, a.buffer, b.buffer, 1, &(VkBufferCopy){a.offset, b.offset, a.size});
    }
    return st == DOP_OK ? end(m, diag) : st;
}

uint64_t
dop_transfer_size(const dop_model *model, uint32_t n)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < model->plan.n_states; i++)
        size += current(model, i, 0, n).size;
    return size;
}

/* Host memory that the device copies from and to.  It is no part of the model's: dop_model_counters leaves it out. */
static dop_status
make_staging(dop_model *m, dop_diag *diag, dop_block *out)
{
    const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint64_t allocations = m->device.allocations;
    dop_status st = dop_block_create(&m->device, STAGING, visible, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0, diag, out);
    m->base_allocations += m->device.allocations - allocations;
    if (st == DOP_OK && !out->mapped) {
        dop_block_destroy(&m->device, out);
        st = DOP_FAIL(diag, DOP_E_DEVICE, "device %s maps no memory for the host", m->device.info.caps.name);
    }
    return st;
}

static dop_status
copy_piece(dop_model *m, VkBuffer from, uint64_t from_offset, VkBuffer to, uint64_t to_offset, uint64_t size,
           dop_diag *diag)
{
    VkCommandBuffer commands;
    dop_status st = begin(m, diag, &commands);
    if (st != DOP_OK)
        return st;
    vkCmdCopyBuffer(commands, from, to, 1, &(VkBufferCopy){from_offset, to_offset, size});
    return end(m, diag);
}

dop_status
dop_transfer_read(dop_model *model, uint32_t place, uint32_t n, dop_bytes_fn *take, void *user, dop_diag *diag)
{
    dop_model *m = model;
    dop_block staging;
    dop_status st = make_staging(m, diag, &staging);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < m->plan.n_states && st == DOP_OK; i++) {
        piece p = current(m, i, place, n);
        for (uint64_t at = 0, size; at < p.size && st == DOP_OK; at += size) {
            size = p.size - at < STAGING ? p.size - at : STAGING;
            st = copy_piece(m, p.buffer, p.offset + at, staging.buffer, 0, size, diag);
            if (st == DOP_OK)
                st = take(user, staging.mapped, (size_t)size, diag);
        }
    }
    dop_block_destroy(&m->device, &staging);
    return st;
}

dop_status
dop_transfer_write(dop_model *model, uint32_t place, uint32_t n, const uint8_t *bytes, dop_diag *diag)
{
    dop_model *m = model;
    dop_block staging;
    dop_status st = make_staging(m, diag, &staging);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < m->plan.n_states && st == DOP_OK; i++) {
        piece p = current(m, i, place, n);
        for (uint64_t at = 0, size; at < p.size && st == DOP_OK; at += size) {
            size = p.size - at < STAGING ? p.size - at : STAGING;
            memcpy(staging.mapped, bytes, (size_t)size);
            bytes += size;
            st = copy_piece(m, staging.buffer, 0, p.buffer, p.offset + at, size, diag);
        }
    }
    dop_block_destroy(&m->device, &staging);
    return st;
}
