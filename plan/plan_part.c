#include "plan/plan_part.h"
#include "plan/plan.h"
#include "plan/plan_names.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define DAMAGED(path, ...) \
    DOP_FAIL_IN(diag, DOP_E_INPUT, (path) && *(path) ? (path) : NULL, "the plan is damaged: " __VA_ARGS__)

uint64_t
dop_plan_set_digest(const dop_plan_set_header *header, const dop_plan_set_row *rows)
{
    uint8_t bytes[sizeof *header + DOP_MAX_PARTS * sizeof *rows];
    dop_plan_set_header h = *header;
    h.digest = 0;
    memcpy(bytes, &h, sizeof h);
    memcpy(bytes + sizeof h, rows, h.n_parts * sizeof *rows);
    return XXH3_64bits(bytes, sizeof h + h.n_parts * sizeof *rows);
}

static dop_status
check_set_rows(const dop_plan_set_header *h, const uint8_t *bytes, const char *path, dop_diag *diag)
{
    const dop_plan_set_row *rows = (const dop_plan_set_row *)(const void *)(h + 1);
    uint64_t at = sizeof *h + h->n_parts * sizeof *rows;
    for (uint32_t i = 0; i < h->n_parts; i++) {
        uint64_t end;
        if (rows[i].offset < at || rows[i].offset % 4096 != 0 || rows[i].size < sizeof(dop_plan_header) ||
            !dop_add_u64(rows[i].offset, rows[i].size, &end) || end > h->file_size)
            return DAMAGED(path,
                           "part %u (offset %llu, %llu bytes) is misaligned, overlaps its neighbour or leaves the file",
                           i, (unsigned long long)rows[i].offset, (unsigned long long)rows[i].size);
        for (; at < rows[i].offset; at++)
            if (bytes[at] != 0)
                return DAMAGED(path, "padding before part %u is not 0", i);
        if (!memchr(rows[i].target, 0, sizeof rows[i].target))
            return DAMAGED(path, "the name of the target of part %u does not end", i);
        at = end;
    }
    return at == h->file_size ? DOP_OK : DAMAGED(path, "something lies behind its last part");
}

/* Checks the directory of a file of several parts.  *out_set points into the bytes; NULL (and DOP_OK) for other files. */
static dop_status
check_set(const void *bytes, uint64_t size, const char *path, dop_diag *diag, const dop_plan_set_header **out_set)
{
    const dop_plan_set_header *h = bytes;
    *out_set = NULL;
    if (size < sizeof h->magic || memcmp(bytes, DOP_PLAN_SET_MAGIC, sizeof h->magic) != 0)
        return DOP_OK;
    if (size >= 12 && h->version != DOP_PLAN_VERSION)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "the plan has format version %u and this program reads version %u: compile it again with "
                           "the dopplerc of this release",
                           h->version, DOP_PLAN_VERSION);
    if (size < sizeof *h || size < h->file_size)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is truncated: %llu bytes", (unsigned long long)size);
    if (size > h->file_size)
        return DAMAGED(path, "%llu bytes where its header says %llu", (unsigned long long)size,
                       (unsigned long long)h->file_size);
    if (h->n_parts < 2 || h->n_parts > DOP_MAX_PARTS || size < sizeof *h + h->n_parts * sizeof(dop_plan_set_row))
        return DAMAGED(path, "a directory of %u parts", h->n_parts);
    if (dop_plan_set_digest(h, (const dop_plan_set_row *)(const void *)(h + 1)) != h->digest)
        return DAMAGED(path, "the digest of its directory does not match");
    DOP_RETURN_IF_ERROR(check_set_rows(h, bytes, path, diag));
    *out_set = h;
    return DOP_OK;
}

/* Opens a file without blocking on a pipe, from which nothing is read; opening the plan later reports the error. */
static FILE *
open_without_waiting(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

bool
dop_plan_is_set(const char *path)
{
    char magic[sizeof DOP_PLAN_SET_MAGIC - 1];
    FILE *f = open_without_waiting(path);
    const bool set = f && fread(magic, sizeof magic, 1, f) == 1 && memcmp(magic, DOP_PLAN_SET_MAGIC, sizeof magic) == 0;
    if (f)
        fclose(f);
    return set;
}

/* Returns the number of parts from the plan's PART section; 1 without one; 0 if the file is truncated. */
static uint32_t
read_part_count(FILE *f, const dop_plan_header *h)
{
    dop_plan_section section;
    dop_plan_part part;
    for (uint32_t i = 0; i < h->n_sections && i < DOP_SEC_LIMIT; i++) {
        if (fread(&section, sizeof section, 1, f) != 1)
            return 0;
        if (section.kind == DOP_SEC_PART)
            return section.offset < INT64_MAX && fseeko(f, (off_t)section.offset, SEEK_SET) == 0 &&
                           fread(&part, sizeof part, 1, f) == 1
                       ? part.n_parts
                       : 0;
    }
    return 1;
}

uint32_t
dop_plan_count_parts(const char *path)
{
    char part[520];
    uint32_t n;
    bool split = false;
    union {
        char magic[8];
        dop_plan_header plan;
        dop_plan_set_header set;
    } h;
    FILE *f = open_without_waiting(path);
    for (uint32_t i = 0; i < DOP_MAX_PARTS && !f; i++) { /* this host may have only another part's file */
        snprintf(part, sizeof part, "%.500s.part%u", path, i);
        f = open_without_waiting(part);
        split = f != NULL;
    }
    n = split ? 0 : 1;
    if (f && fread(&h.plan, sizeof h.plan, 1, f) == 1) {
        if (memcmp(h.magic, DOP_PLAN_SET_MAGIC, sizeof h.magic) == 0)
            n = h.set.n_parts;
        else if (memcmp(h.magic, DOP_PLAN_MAGIC, sizeof h.magic) == 0)
            n = read_part_count(f, &h.plan);
    }
    if (f)
        fclose(f);
    return n > 0 || split ? n : 1;
}

dop_status
dop_plan_wants_ranks(const char *path, uint32_t n_parts, dop_diag *diag)
{
    return DOP_FAIL_IN(diag, DOP_E_USAGE, path,
                       "a plan in %u parts, each for a process and a device of its own: run it as mpirun -n %u "
                       "doppler-exec %s ...",
                       n_parts, n_parts, path);
}

static dop_status
refuse_part_count(const char *path, uint32_t has, uint32_t n_parts, dop_diag *diag)
{
    return DOP_FAIL_IN(diag, DOP_E_USAGE, path, "a plan in %u parts, and there are %u ranks: run it with mpirun -n %u",
                       has, n_parts, has);
}

dop_status
dop_plan_find_part(dop_plan *plan, uint32_t n_parts, uint32_t part, dop_diag *diag)
{
    const dop_plan_set_header *set = NULL;
    dop_status st = check_set(plan->data, plan->size, plan->path, diag, &set);
    if (st != DOP_OK || !set)
        return st;
    if (n_parts == 0)
        return dop_plan_wants_ranks(plan->path, set->n_parts, diag);
    if (n_parts != set->n_parts || part >= n_parts)
        return refuse_part_count(plan->path, set->n_parts, n_parts, diag);
    const dop_plan_set_row *row = (const dop_plan_set_row *)(const void *)(set + 1) + part;
    plan->data += row->offset;
    plan->size = row->size;
    if (memcmp(&((const dop_plan_header *)(const void *)plan->data)->digest, &row->digest, sizeof row->digest) != 0)
        return DAMAGED(plan->path, "part %u is not the one that its directory names", part);
    return DOP_OK;
}

dop_status
dop_plan_is_part(const dop_plan *plan, uint32_t n_parts, uint32_t part, dop_diag *diag)
{
    const dop_plan_part *p = plan->part;
    if (!p)
        return DOP_FAIL_IN(
            diag, DOP_E_USAGE, plan->path,
            "a plan of one part, and there are %u ranks: make one in parts with `dop_compile_options.parts` %u",
            n_parts, n_parts);
    if (p->n_parts != n_parts)
        return refuse_part_count(plan->path, p->n_parts, n_parts, diag);
    return p->number == part
               ? DOP_OK
               : DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path, "part %u of %u, and this is rank %u, which wants part %u",
                             p->number, p->n_parts, part, part);
}

static dop_status
check_crossing(const dop_plan *plan, uint32_t i, dop_diag *diag)
{
    const dop_plan_crossing *x = &plan->crossings[i];
    const dop_plan_part *p = plan->part;
    const bool received = x->way == DOP_CROSSING_RECEIVED;
    uint64_t bytes, end;
    if (x->schedule >= plan->n_schedules || x->name >= plan->strings_size ||
        (x->way != DOP_CROSSING_SENT && !received) || x->one_row > 1)
        return DAMAGED(plan->path, "crossing %u is of schedule %u and way %u", i, x->schedule, x->way);
    if (!p && plan->schedules[x->schedule].kind < DOP_SCHED_IMAGE &&
        !dop_plan_program_of(plan, received ? DOP_SCHED_IMAGE : DOP_SCHED_DRAFT))
        return DAMAGED(plan->path, "values cross in a plan that is no part");
    if (p && (received ? p->number == 0 : p->number + 1 == p->n_parts))
        return DAMAGED(plan->path, "crossing %u leads out of the model", i);
    const uint32_t kind = x->slot < plan->n_slots ? plan->slots[x->slot].kind : 0;
    if (kind != DOP_SLOT_RECEIVED && (received || kind != DOP_SLOT_SENT))
        return DAMAGED(plan->path, "crossing %u is in slot %u, which is not for it", i, x->slot);
    const uint32_t rows = x->one_row ? 1 : plan->schedules[x->schedule].max_rows;
    if (x->row_bytes == 0 || x->row_bytes % 4 != 0 || x->offset % 4 != 0 || !dop_mul_u64(x->row_bytes, rows, &bytes) ||
        !dop_add_u64(x->offset, bytes, &end) || end > plan->slots[x->slot].size)
        return DAMAGED(plan->path, "crossing %u (%s) leaves its slot", i, dop_plan_string(plan, x->name));
    return DOP_OK;
}

/* Returns crossing number n of a schedule; NULL: it has fewer. */
static const dop_plan_crossing *
find_schedule_crossing(const dop_plan *plan, uint32_t schedule, uint32_t n)
{
    for (uint32_t i = 0; i < plan->n_crossings; i++)
        if (plan->crossings[i].schedule == schedule && n-- == 0)
            return &plan->crossings[i];
    return NULL;
}

static bool
has_same_crossings(const dop_plan *plan, uint32_t s, uint32_t other)
{
    for (uint32_t n = 0;; n++) {
        const dop_plan_crossing *x = find_schedule_crossing(plan, s, n), *y = find_schedule_crossing(plan, other, n);
        if (!x || !y)
            return !x && !y && n > 0 && n <= DOP_PART_MAX_VALUES;
        if (x->one_row || y->one_row || x->row_bytes != y->row_bytes ||
            strcmp(dop_plan_string(plan, x->name), dop_plan_string(plan, y->name)) != 0)
            return false;
    }
}

/* Checks a value that steps of sequences receive for feature rows, or send. */
static dop_status
check_features(const dop_plan *plan, const dop_plan_crossing *x, dop_diag *diag)
{
    const char *name = dop_plan_string(plan, x->name);
    const bool rows = strcmp(name, "features") == 0 || strncmp(name, "deep", 4) == 0 || x->way == DOP_CROSSING_SENT;
    const uint64_t bytes = rows ? (uint64_t)plan->model->hidden * sizeof(float) : sizeof(uint32_t);
    return (!x->one_row || plan->schedules[x->schedule].max_rows == 1) && x->row_bytes == bytes
               ? DOP_OK
               : DAMAGED(plan->path, "what steps receive as \"%s\" has rows of %llu bytes", name,
                         (unsigned long long)x->row_bytes);
}

/* True if all values of a schedule of `image` or `features` have the sizes of the program.  rows: bytes of a row that `features`
 * receives; 0 for schedules of `image`. */
static bool
fits_program(const dop_plan *plan, uint32_t schedule, uint64_t rows)
{
    const dop_plan_program *of = dop_plan_program_of(plan, rows ? DOP_SCHED_FEATURES : DOP_SCHED_IMAGE);
    for (uint32_t i = 0; i < plan->n_crossings; i++) {
        const dop_plan_crossing *x = &plan->crossings[i];
        if (x->schedule != schedule)
            continue;
        if (x->way == DOP_CROSSING_SENT && x->row_bytes != of->width * sizeof(float))
            return false;
        if (x->way == DOP_CROSSING_RECEIVED && rows && x->row_bytes != rows)
            return false;
    }
    return true;
}

/* True if a schedule of the program `audio` receives two mel frames per row, and otherwise only numbers. */
static bool
fits_audio(const dop_plan *plan, uint32_t schedule)
{
    const dop_plan_program *of = dop_plan_program_of(plan, DOP_SCHED_AUDIO);
    bool frames = false;
    for (uint32_t i = 0; i < plan->n_crossings; i++) {
        const dop_plan_crossing *x = &plan->crossings[i];
        if (x->schedule != schedule)
            continue;
        const bool mel = strcmp(dop_plan_string(plan, x->name), "mel") == 0;
        if (!of || x->way != DOP_CROSSING_RECEIVED || x->one_row ||
            x->row_bytes != (mel ? 2 * (uint64_t)of->bins * sizeof(float) : sizeof(uint32_t)))
            return false;
        frames = frames || mel;
    }
    return frames && plan->schedules[schedule].max_rows % of->n_places == 0;
}

/* The program `draft` must receive one hidden state per row and send one. */
static dop_status
check_draft(const dop_plan *plan, uint32_t s, dop_diag *diag)
{
    const uint64_t bytes = plan->model->hidden * (uint64_t)sizeof(float);
    const dop_plan_crossing *in = find_schedule_crossing(plan, s, 0), *out = find_schedule_crossing(plan, s, 1);
    const bool one = plan->schedules[s].max_rows == 1;
    return in && out && !find_schedule_crossing(plan, s, 2) && in->way == DOP_CROSSING_RECEIVED &&
                   out->way == DOP_CROSSING_SENT && in->row_bytes == bytes && out->row_bytes == bytes &&
                   (one || (!in->one_row && !out->one_row))
               ? DOP_OK
               : DAMAGED(plan->path, "schedule %u of the program draft receives or sends other values", s);
}

/* Checks the values that the host passes to programs of a whole model.  All schedules of a program must have the same values, and
 * `features` must receive rows of `image`.  io_first: first schedule of each; initially UINT32_MAX. */
static dop_status
check_given(const dop_plan *plan, uint32_t s, uint32_t io_first[2], dop_diag *diag)
{
    const uint32_t kind = plan->schedules[s].kind;
    if (kind < DOP_SCHED_IMAGE) {
        dop_status st = DOP_OK;
        for (uint32_t i = 0; i < plan->n_crossings && st == DOP_OK; i++)
            if (plan->crossings[i].schedule == s)
                st = check_features(plan, &plan->crossings[i], diag);
        return st;
    }
    if (kind == DOP_SCHED_DRAFT)
        return check_draft(plan, s, diag);
    if (kind >= DOP_SCHED_CONTEXT)
        return DOP_OK; /* sizes are checked against the inputs of each call */
    if (kind == DOP_SCHED_AUDIO)
        return fits_audio(plan, s) ? DOP_OK
                                   : DAMAGED(plan->path, "schedule %u receives other values than its program has", s);
    uint32_t *of = &io_first[kind == DOP_SCHED_FEATURES];
    *of = *of == UINT32_MAX ? s : *of;
    const dop_plan_crossing *x = find_schedule_crossing(plan, s, 0);
    uint64_t rows = 0;
    if (kind == DOP_SCHED_FEATURES)
        rows = (uint64_t)dop_plan_program_of(plan, DOP_SCHED_FEATURES)->merge *
               dop_plan_program_of(plan, DOP_SCHED_IMAGE)->width * sizeof(float);
    return has_same_crossings(plan, s, *of) && (!rows || x->row_bytes == rows) && fits_program(plan, s, rows)
               ? DOP_OK
               : DAMAGED(plan->path, "schedule %u receives other values than its program has", s);
}

/* Checks that the schedule receives values from the previous part and sends values to the next, if these exist. */
static dop_status
check_sides(const dop_plan *plan, uint32_t s, dop_diag *diag)
{
    const dop_plan_part *p = plan->part;
    uint32_t n[2] = {0, 0};
    for (uint32_t i = 0; i < plan->n_crossings; i++)
        if (plan->crossings[i].schedule == s)
            n[plan->crossings[i].way - 1]++;
    return (n[0] > 0) == (p->number > 0) && (n[1] > 0) == (p->number + 1 < p->n_parts) && n[0] <= DOP_PART_MAX_VALUES &&
                   n[1] <= DOP_PART_MAX_VALUES
               ? DOP_OK
               : DAMAGED(plan->path, "schedule %u of part %u receives %u values and sends %u", s, p->number, n[0],
                         n[1]);
}

dop_status
dop_plan_check_part(const dop_plan *plan, dop_diag *diag)
{
    const dop_plan_part *p = plan->part;
    uint32_t first[2] = {UINT32_MAX, UINT32_MAX};
    if (p && (p->n_parts < 2 || p->n_parts > DOP_MAX_PARTS || p->number >= p->n_parts ||
              p->first_layer >= p->end_layer || p->end_layer > plan->model->n_layers || p->flags >> 2))
        return DAMAGED(plan->path, "part %u of %u, layers %u to %u of %u", p->number, p->n_parts, p->first_layer,
                       p->end_layer, plan->model->n_layers);
    for (uint32_t i = 0; i < plan->n_crossings; i++)
        DOP_RETURN_IF_ERROR(check_crossing(plan, i, diag));
    for (uint32_t s = 0; s < plan->n_schedules; s++)
        DOP_RETURN_IF_ERROR(p ? check_sides(plan, s, diag) : check_given(plan, s, first, diag));
    return DOP_OK;
}
