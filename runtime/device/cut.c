/* Copies of values that cross a cut (cut.h). Kernels access only device memory: a copy is one large transfer, where
 * kernels would do many small stores to host memory. Also, the host may use its mirror while kernels run. */
#include "runtime/device/cut.h"
#include "plan/plan_names.h"

/* True if every step of the schedule copies this value. A forwarded value is sent from the slot in which it was
 * received, so it is not copied again. */
static bool
is_crossing_of_cut(const dop_plan *plan, const dop_plan_crossing *x, uint32_t schedule, dop_cut_side cut)
{
    const uint32_t kind = plan->slots[x->slot].kind;
    if (x->schedule != schedule || dop_plan_is_of_features(plan, x))
        return false;
    return cut == DOP_CUT_IN ? x->way == DOP_CROSSING_RECEIVED : x->way == DOP_CROSSING_SENT && kind == DOP_SLOT_SENT;
}

bool
dop_cut_is_crossed(const dop_plan *plan, uint32_t schedule, dop_cut_side cut)
{
    for (uint32_t i = 0; i < plan->n_crossings; i++)
        if (is_crossing_of_cut(plan, &plan->crossings[i], schedule, cut))
            return true;
    return false;
}

static void
record_cut_copy(const dop_memory *memory, const dop_plan_crossing *x, dop_cut_side cut, uint64_t first, uint64_t rows,
                VkCommandBuffer commands)
{
    const dop_slot_place *p = &memory->places[x->slot];
    const uint64_t at = x->offset + first * x->row_bytes, device = p->offset + at, host = p->mirror_offset + at;
    const bool in = cut == DOP_CUT_IN;
    VkBuffer own = memory->blocks[p->block].buffer, mirror = memory->blocks[p->mirror].buffer;
    const VkBufferCopy copy = {
        .srcOffset = in ? host : device, .dstOffset = in ? device : host, .size = x->row_bytes * rows};
    vkCmdCopyBuffer(commands, in ? mirror : own, in ? own : mirror, 1, &copy);
}

void
dop_cut_record_features(const dop_plan *plan, const dop_memory *memory, uint32_t schedule, uint32_t first, uint32_t n,
                        VkCommandBuffer commands)
{
    for (uint32_t i = 0; i < plan->n_crossings; i++)
        if (plan->crossings[i].schedule == schedule && dop_plan_is_of_features(plan, &plan->crossings[i]))
            record_cut_copy(memory, &plan->crossings[i], DOP_CUT_IN, first, n, commands);
}

void
dop_cut_record(const dop_plan *plan, const dop_memory *memory, uint32_t schedule, dop_cut_side cut,
               VkCommandBuffer commands)
{
    for (uint32_t i = 0; i < plan->n_crossings; i++)
        if (is_crossing_of_cut(plan, &plan->crossings[i], schedule, cut))
            record_cut_copy(memory, &plan->crossings[i], cut, 0,
                            plan->crossings[i].one_row ? 1 : plan->schedules[schedule].max_rows, commands);
    /* The previous step ends with a barrier of its own. */
    const VkMemoryBarrier after = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask =
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT,
    };
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                         VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT |
                             VK_PIPELINE_STAGE_HOST_BIT,
                         0, 1, &after, 0, NULL, 0, NULL);
}
