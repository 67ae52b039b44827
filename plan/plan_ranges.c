#include "plan/plan_ranges.h"
#include "base/storage/packing.h"
#include "plan/plan.h"
#include "plan/plan_names.h"
#include "plan/plan_weights.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_EXPERTS = 65536 };

#define DAMAGED(...) \
    DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path[0] ? plan->path : NULL, "the plan is damaged: " __VA_ARGS__)

/* Returns the first range of the slot that ends after byte `offset`, or the next slot's first range; n_ranges if none. */
static uint32_t
find_range(const dop_plan *plan, uint32_t slot, uint64_t offset)
{
    uint32_t low = 0, high = plan->n_ranges;
    while (low < high) {
        const uint32_t half = low + (high - low) / 2;
        const dop_plan_range *r = &plan->ranges[half];
        if (r->slot < slot || (r->slot == slot && r->offset + r->size <= offset))
            low = half + 1;
        else
            high = half;
    }
    return low;
}

/* Returns the range that contains byte `offset` of a slot; NULL: the plan contains it.  *out_size: bytes up to the end of the range, or
 * up to the next one.  *out_before: bytes of the slot's ranges before `offset`. */
static const dop_plan_range *
find_range_at(const dop_plan *plan, uint32_t slot, uint64_t offset, uint64_t *out_size, uint64_t *out_before)
{
    const uint32_t i = find_range(plan, slot, offset);
    const dop_plan_range *r = i < plan->n_ranges && plan->ranges[i].slot == slot ? &plan->ranges[i] : NULL,
                         *last = i > 0 && plan->ranges[i - 1].slot == slot ? &plan->ranges[i - 1] : NULL;
    *out_before = last ? last->before + last->size : 0;
    if (r && r->offset <= offset) {
        *out_size = r->offset + r->size - offset;
        return r;
    }
    *out_size = (r ? r->offset : plan->slots[slot].size) - offset;
    return NULL;
}

const uint8_t *
dop_plan_slot_bytes(const dop_plan *plan, uint32_t slot, uint64_t offset, uint64_t *out_size)
{
    const dop_plan_slot *s = &plan->slots[slot];
    uint64_t before;
    const dop_plan_range *r = find_range_at(plan, slot, offset, out_size, &before);
    if (r && r->what != DOP_RANGE_BYTES)
        return NULL;
    if (r)
        return plan->file_maps[r->file].data + r->file_offset + (offset - r->offset);
    const uint8_t *base = s->file == UINT32_MAX ? plan->weights : plan->file_maps[s->file].data;
    return base + s->file_offset + (offset - before);
}

/* Copies up to `size` bytes of a slot, at most to the end of a range; packs blocks if needed.  Returns the number of bytes. */
static uint64_t
copy_some(const dop_plan *plan, uint32_t slot, uint64_t offset, uint64_t size, uint8_t *out)
{
    uint64_t n, before;
    const dop_plan_range *r = find_range_at(plan, slot, offset, &n, &before);
    n = n < size ? n : size;
    if (!r || r->what == DOP_RANGE_BYTES) {
        uint64_t left;
        memcpy(out, dop_plan_slot_bytes(plan, slot, offset, &left), (size_t)n);
        return n;
    }
    const uint8_t *blocks = plan->file_maps[r->file].data + r->file_offset;
    if (r->what == DOP_RANGE_UNITS)
        dop_pack_units((dop_type)r->type, blocks, offset - r->offset, n, out);
    else
        dop_pack_groups((dop_type)r->type, blocks, r->blocks, offset - r->offset, n, out);
    return n;
}

void
dop_plan_copy_slot(const dop_plan *plan, uint32_t slot, uint64_t offset, uint64_t size, uint8_t *out)
{
    while (size > 0) {
        const uint64_t n = copy_some(plan, slot, offset, size, out);
        out += n;
        offset += n;
        size -= n;
    }
}

uint64_t
dop_plan_range_bytes(const dop_plan_range *range)
{
    return range->what == DOP_RANGE_BYTES   ? range->size
           : range->what == DOP_RANGE_UNITS ? range->blocks * dop_type_of((dop_type)range->type)->bytes
                                            : 0;
}

/* True if the range has the size of its plane.  *out_bytes: bytes of its blocks in the file. */
static bool
has_plane_size(const dop_plan_range *r, uint64_t *out_bytes)
{
    const dop_type_info *ti = dop_type_of(r->type < DOP_TYPE_COUNT ? (dop_type)r->type : DOP_TYPE_none);
    *out_bytes = r->size;
    if (r->what == DOP_RANGE_BYTES)
        return r->type == 0 && r->blocks == 0;
    if (r->what > DOP_RANGE_GROUPS || ti->kind != DOP_KIND_QUANT || ti->pack.unit == 0 || r->blocks == 0 ||
        !dop_mul_u64(r->blocks, ti->bytes, out_bytes) || *out_bytes > INT64_MAX / 8)
        return false;
    const dop_planes planes = dop_planes_of((dop_type)r->type, r->blocks * (ti->block / ti->pack.unit));
    return r->size == (r->what == DOP_RANGE_UNITS ? planes.units : planes.group_bytes);
}

/* True if r is the GROUPS range of the UNITS range `last`. */
static bool
is_units_groups_pair(const dop_plan_range *last, const dop_plan_range *r)
{
    return last && last->what == DOP_RANGE_UNITS && last->slot == r->slot && last->file == r->file &&
           last->file_offset == r->file_offset && last->digest == r->digest && last->type == r->type &&
           last->blocks == r->blocks;
}

/* Ranges must lie in their slots and files, sorted and without overlap. */
static dop_status
check_range_rows(const dop_plan *plan, dop_diag *diag)
{
    for (uint32_t i = 0; i < plan->n_ranges; i++) {
        const dop_plan_range *r = &plan->ranges[i], *last = i > 0 ? &plan->ranges[i - 1] : NULL;
        const bool follows = last && last->slot == r->slot;
        uint64_t end, file_end, bytes;
        if (r->slot >= plan->n_slots || plan->slots[r->slot].kind != DOP_SLOT_WEIGHTS || r->file >= plan->n_files ||
            !plan->files[r->file].model)
            return DAMAGED("range %u is of slot %u and file %u", i, r->slot, r->file);
        if (!has_plane_size(r, &bytes) || (r->what == DOP_RANGE_GROUPS && !is_units_groups_pair(last, r)))
            return DAMAGED("range %u is no plane of a matrix", i);
        if (r->size == 0 || !dop_add_u64(r->offset, r->size, &end) || end > plan->slots[r->slot].size ||
            !dop_add_u64(r->file_offset, bytes, &file_end) || file_end > plan->files[r->file].size)
            return DAMAGED("range %u leaves slot %u or file %u", i, r->slot, r->file);
        if ((last && last->slot > r->slot) || (follows && last->offset + last->size > r->offset) ||
            r->before != (follows ? last->before + last->size : 0))
            return DAMAGED("range %u is not in order", i);
    }
    return DOP_OK;
}

/* The bytes of slots outside ranges must lie in section WEIGHTS. */
static dop_status
check_own_bytes(const dop_plan *plan, dop_diag *diag)
{
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const dop_plan_slot *s = &plan->slots[i];
        uint64_t left, before, end;
        if (s->kind != DOP_SLOT_WEIGHTS)
            continue;
        (void)find_range_at(plan, i, s->size, &left, &before);
        if (s->file != UINT32_MAX || !dop_add_u64(s->file_offset, s->size - before, &end) || end > plan->weights_size)
            return DAMAGED("slot %u reads past the end of the weights (offset %llu, %llu bytes, %llu there)", i,
                           (unsigned long long)s->file_offset, (unsigned long long)(s->size - before),
                           (unsigned long long)plan->weights_size);
    }
    return DOP_OK;
}

dop_status
dop_plan_check_ranges(const dop_plan *plan, dop_diag *diag)
{
    if (plan->n_ranges == 0)
        return DOP_OK;
    dop_status st = check_range_rows(plan, diag);
    if (st == DOP_OK)
        st = check_own_bytes(plan, diag);
    for (uint32_t i = 0; i < plan->n_tensors && st == DOP_OK; i++) {
        const dop_plan_tensor *t = &plan->tensors[i];
        if (t->experts > MAX_EXPERTS)
            st = DAMAGED("tensor %s has %u experts", dop_plan_string(plan, t->name), t->experts);
        /* quantized: the two planes are not adjacent. */
        const bool quant = dop_type_of((dop_type)t->type)->kind == DOP_KIND_QUANT;
        for (uint32_t e = 0; e < t->experts && !quant && st == DOP_OK; e++) {
            uint64_t left = t->size, before;
            const dop_plan_range *r = NULL;
            if (plan->slots[t->slot].kind == DOP_SLOT_WEIGHTS)
                r = find_range_at(plan, t->slot, t->offset + e * t->expert_stride, &left, &before);
            if (left < t->size || (r && r->what != DOP_RANGE_BYTES))
                st = DAMAGED("a range ends within tensor %s", dop_plan_string(plan, t->name));
            if (t->expert_stride == 0)
                break;
        }
    }
    return st;
}

/* Digests to verify: section WEIGHTS, external weight files, then ranges of model files. */
typedef struct digested {
    dop_weights_range *list; /* owned, [n] */
    uint64_t *want;          /* owned, [n] expected digests */
    uint32_t *file;          /* owned, [n] row of FILES; UINT32_MAX: section WEIGHTS */
    uint32_t n;
} digested;

static void
add_digested_range(digested *d, const uint8_t *data, uint64_t size, uint64_t want, uint32_t file)
{
    d->list[d->n] = (dop_weights_range){data, size, 0};
    d->want[d->n] = want;
    d->file[d->n++] = file;
}

static dop_status
refuse_digest_mismatch(const dop_plan *plan, uint32_t file, dop_diag *diag)
{
    if (file == UINT32_MAX)
        return DAMAGED("the digest of section WEIGHTS does not match");
    const char *name = dop_plan_string(plan, plan->files[file].name);
    return plan->files[file].model
               ? DOP_FAIL_IN(
                     diag, DOP_E_INPUT, plan->path[0] ? plan->path : NULL,
                     "the model's file %.400s, which has weights of this plan, was changed: compile the plan again",
                     name)
               : DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path[0] ? plan->path : NULL,
                             "the digest of the external weights %s does not match: compile the plan again", name);
}

dop_status
dop_plan_verify_weights(const dop_plan *plan, const _Atomic bool *stop, dop_diag *diag)
{
    const size_t most = (size_t)plan->n_files + plan->n_ranges + 1;
    digested d = {.list = calloc(most, sizeof *d.list),
                  .want = calloc(most, sizeof *d.want),
                  .file = calloc(most, sizeof *d.file)};
    dop_status st = DOP_OK;
    if (!(d.list && d.want && d.file))
        DOP_TRY(DOP_NO_MEMORY(diag));
    if (plan->weights)
        add_digested_range(&d, plan->weights, plan->weights_size, plan->weights_digest, UINT32_MAX);
    for (uint32_t i = 0; i < plan->n_files; i++)
        if (!plan->files[i].model)
            add_digested_range(&d, plan->file_maps[i].data, plan->file_maps[i].size, plan->files[i].digest, i);
    for (uint32_t i = 0; i < plan->n_ranges; i++) {
        const dop_plan_range *r = &plan->ranges[i];
        if (r->what != DOP_RANGE_GROUPS)
            add_digested_range(&d, plan->file_maps[r->file].data + r->file_offset, dop_plan_range_bytes(r), r->digest,
                               r->file);
    }
    DOP_TRY(dop_weights_digest(d.list, d.n, stop, diag));
    for (uint32_t i = 0; i < d.n; i++)
        if (d.list[i].digest != d.want[i])
            DOP_TRY(refuse_digest_mismatch(plan, d.file[i], diag));
error:
    free(d.list);
    free(d.want);
    free(d.file);
    return st;
}
