#include "plan/plan.h"

#include "base/foreign.h"
#include "base/os/system.h"
#include "plan/plan_check.h"
#include "plan/plan_names.h"
#include "plan/plan_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { MAX_SECTIONS = 64 };

/* Returns the name of a section kind; NULL: unknown. */
static const char *
section_name(uint32_t kind)
{
    switch (kind) {
#define SECTION(number, name, type, what) \
    case number:                          \
        return #name;
        DOP_PLAN_SECTIONS(SECTION)
#undef SECTION
    default:
        return NULL;
    }
}

uint32_t
dop_plan_row_bytes(uint32_t kind)
{
    switch (kind) {
#define SECTION(number, name, type, what) \
    case number:                          \
        return (uint32_t)sizeof(type);
        DOP_PLAN_SECTIONS(SECTION)
#undef SECTION
    default:
        return 0;
    }
}

uint64_t
dop_plan_digest(const void *bytes, uint64_t size)
{
    return XXH3_64bits(bytes, (size_t)size);
}

uint64_t
dop_plan_header_digest(const dop_plan_header *header, const dop_plan_section *sections, uint32_t n_sections)
{
    dop_plan_header h = *header;
    h.digest = 0;
    uint8_t buf[sizeof h + MAX_SECTIONS * sizeof *sections];
    if (n_sections > MAX_SECTIONS)
        return 0;
    memcpy(buf, &h, sizeof h);
    memcpy(buf + sizeof h, sections, n_sections * sizeof *sections);
    return XXH3_64bits(buf, sizeof h + n_sections * sizeof *sections);
}

static const char *
plan_path_or_null(const dop_plan *plan)
{
    return plan->path[0] ? plan->path : NULL;
}

/* Fails with a message about the kind of file found instead of a plan. */
static dop_status
refuse_foreign_file(const dop_plan *plan, const char *path, dop_diag *diag)
{
    const dop_file_kind kind = dop_file_kind_of(plan->data, plan->size);
    const char *why = dop_file_refusal(kind);
    if (why)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "not a Doppler plan: %s", why);
    if ((kind == DOP_FILE_GGUF || kind == DOP_FILE_GGML) && path)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "this is a model, not a plan: compile it first (dopplerc %.300s -o model.plan)", path);
    if (kind == DOP_FILE_SAFETENSORS)
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, path,
            "these are weights of a model, not a plan: compile the model's folder first (dopplerc FOLDER "
            "-o model.plan)");
    if (kind == DOP_FILE_JSON)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "not a Doppler plan: this is a JSON file: name the model's folder that it is in");
    return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                       "not a Doppler plan (its first bytes are not the magic); make one with dopplerc");
}

/* Fails if the path does not exist or is a folder. */
static dop_status
check_plan_path(const char *path, dop_diag *diag)
{
    char file[4096];
    struct stat sb;
    if (stat(path, &sb) != 0)
        return dop_refuse_absent(path, errno, diag);
    if (!S_ISDIR(sb.st_mode))
        return DOP_OK;
    const int n = snprintf(file, sizeof file, "%s/config.json", path);
    if (n > 0 && (size_t)n < sizeof file && access(file, F_OK) == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "this is a model, not a plan: compile it first (dopplerc %.300s -o model.plan)", path);
    return DOP_FAIL_IN(
        diag, DOP_E_INPUT, path,
        "this is a folder, not a plan: name a file that dopplerc wrote (a model's folder is compiled first: dopplerc "
        "%.300s -o model.plan)",
        path);
}

static dop_status
check_header(const dop_plan *plan, dop_diag *diag, const dop_plan_section **out_sections)
{
    const char *path = plan_path_or_null(plan);
    const dop_plan_header *h = (const dop_plan_header *)(const void *)plan->data;
    if (plan->size < sizeof h->magic || memcmp(plan->data, DOP_PLAN_MAGIC, sizeof h->magic) != 0)
        return refuse_foreign_file(plan, path, diag);
    if (plan->size < 12)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is truncated: %llu bytes",
                           (unsigned long long)plan->size);
    if (h->version != DOP_PLAN_VERSION)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "the plan has format version %u and this program reads version %u: compile it again with "
                           "the dopplerc of this release",
                           h->version, DOP_PLAN_VERSION);
    if (plan->size < sizeof *h)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is truncated: %llu bytes",
                           (unsigned long long)plan->size);
    if (plan->size < h->file_size)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is truncated: %llu of %llu bytes",
                           (unsigned long long)plan->size, (unsigned long long)h->file_size);
    if (plan->size > h->file_size)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is damaged: %llu bytes where its header says %llu",
                           (unsigned long long)plan->size, (unsigned long long)h->file_size);
    if (h->n_sections > MAX_SECTIONS || sizeof *h + h->n_sections * sizeof(dop_plan_section) > plan->size)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is damaged: its section table does not fit (%u sections)",
                           h->n_sections);
    const dop_plan_section *sections = (const dop_plan_section *)(const void *)(plan->data + sizeof *h);
    if (dop_plan_header_digest(h, sections, h->n_sections) != h->digest)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is damaged: the digest of its header does not match");
    *out_sections = sections;
    return DOP_OK;
}

/* Sections must follow the table in order, aligned and without overlap, with only zeros between them.  Then every byte of the file is
 * covered by a digest or known to be zero. */
static dop_status
check_sections(const dop_plan *plan, const dop_plan_section *s, uint32_t n, dop_diag *diag)
{
    const char *path = plan_path_or_null(plan);
    uint64_t at = sizeof(dop_plan_header) + n * sizeof *s;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = section_name(s[i].kind);
        if (!name)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is damaged: section kind %u is not known", s[i].kind);
        if (seen >> s[i].kind & 1)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is damaged: section %s appears twice", name);
        seen |= (uint64_t)1 << s[i].kind;
        uint32_t row = dop_plan_row_bytes(s[i].kind);
        if (s[i].row_bytes != row || s[i].size % row != 0)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                               "the plan is damaged: section %s has rows of %u bytes and %llu bytes in all, expected "
                               "rows of %u",
                               name, s[i].row_bytes, (unsigned long long)s[i].size, row);
        uint64_t end, align = s[i].kind == DOP_SEC_WEIGHTS ? 4096 : 16;
        if (s[i].offset < at || s[i].offset % align != 0 || !dop_add_u64(s[i].offset, s[i].size, &end) ||
            end > plan->size)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                               "the plan is damaged: section %s (offset %llu, %llu bytes) is misaligned, overlaps its "
                               "neighbour or leaves the file",
                               name, (unsigned long long)s[i].offset, (unsigned long long)s[i].size);
        for (; at < s[i].offset; at++)
            if (plan->data[at] != 0)
                return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is damaged: padding before section %s is not 0",
                                   name);
        at = end;
    }
    for (; at < plan->size; at++)
        if (plan->data[at] != 0)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan is damaged: padding at its end is not 0");
    return DOP_OK;
}

static dop_status
check_digests(const dop_plan *plan, const dop_plan_section *s, uint32_t n, dop_diag *diag)
{
    for (uint32_t i = 0; i < n; i++)
        if (s[i].kind != DOP_SEC_WEIGHTS && dop_plan_digest(plan->data + s[i].offset, s[i].size) != s[i].digest)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, plan_path_or_null(plan),
                               "the plan is damaged: the digest of section %s does not match", section_name(s[i].kind));
    return DOP_OK;
}

/* Sets a row pointer and its count.  Fails for more than INT32_MAX rows. */
static dop_status
bind_rows(const dop_plan *plan, const dop_plan_section *s, const void **out_rows, uint32_t *out_n, dop_diag *diag)
{
    uint64_t n = s->size / s->row_bytes;
    if (n > INT32_MAX)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, plan_path_or_null(plan), "the plan is damaged: section %s has %llu rows",
                           section_name(s->kind), (unsigned long long)n);
    *out_rows = plan->data + s->offset;
    *out_n = (uint32_t)n;
    return DOP_OK;
}

static dop_status
bind_section(dop_plan *plan, const dop_plan_section *s, uint32_t *io_n_models, dop_diag *diag)
{
    const uint8_t *bytes = plan->data + s->offset;
    const void *rows = NULL;
    dop_status st = DOP_OK;
    switch (s->kind) {
#define ROWS(kind, field, count)                            \
    case DOP_SEC_##kind:                                    \
        st = bind_rows(plan, s, &rows, &plan->count, diag); \
        plan->field = rows;                                 \
        return st
        ROWS(PROFILES, profiles, n_profiles);
        ROWS(KERNELS, kernels, n_kernels);
        ROWS(SLOTS, slots, n_slots);
        ROWS(SCHEDULES, schedules, n_schedules);
        ROWS(DISPATCHES, dispatches, n_dispatches);
        ROWS(ARGS, args, n_args);
        ROWS(TENSORS, tensors, n_tensors);
        ROWS(FILES, files, n_files);
        ROWS(RANGES, ranges, n_ranges);
        ROWS(STATES, states, n_states);
        ROWS(CROSSINGS, crossings, n_crossings);
        ROWS(PROGRAMS, programs, n_programs);
        ROWS(PLACES, places, n_places);
        ROWS(SPEECH, speech, n_speech);
#undef ROWS
    case DOP_SEC_MODEL:
        st = bind_rows(plan, s, &rows, io_n_models, diag);
        plan->model = rows;
        return st;
    case DOP_SEC_PART:
        if (s->size != sizeof *plan->part)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, plan_path_or_null(plan), "the plan is damaged: it is %llu parts",
                               (unsigned long long)(s->size / sizeof *plan->part));
        plan->part = (const dop_plan_part *)(const void *)bytes;
        return DOP_OK;
    case DOP_SEC_DRAW:
        if (s->size != sizeof *plan->draw)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, plan_path_or_null(plan),
                               "the plan is damaged: section DRAW has %llu bytes", (unsigned long long)s->size);
        plan->draw = (const dop_plan_draw *)(const void *)bytes;
        return DOP_OK;
    case DOP_SEC_SPIRV:
        plan->spirv = (const uint32_t *)(const void *)bytes;
        plan->n_spirv = s->size / 4;
        return DOP_OK;
#define BYTES(kind, field, type)                         \
    case DOP_SEC_##kind:                                 \
        plan->field = (const type *)(const void *)bytes; \
        plan->field##_size = s->size;                    \
        return DOP_OK
        BYTES(STRINGS, strings, char);
        BYTES(CARD, card, char);
        BYTES(IR, ir, char);
        BYTES(TOKENIZER, tokenizer, uint8_t);
        BYTES(IMAGES, images, uint8_t);
#undef BYTES
    case DOP_SEC_TEMPLATE:
        plan->chat_template = (const char *)bytes;
        plan->template_size = s->size;
        return DOP_OK;
    case DOP_SEC_WEIGHTS:
        plan->weights = bytes;
        plan->weights_size = s->size;
        plan->weights_digest = s->digest;
        return DOP_OK;
    default:
        return DOP_OK;
    }
}

static dop_status
bind_sections(dop_plan *plan, const dop_plan_section *s, uint32_t n, dop_diag *diag)
{
    uint32_t n_models = 0;
    for (uint32_t i = 0; i < n; i++) {
        dop_status st = bind_section(plan, &s[i], &n_models, diag);
        if (st != DOP_OK)
            return st;
    }
    const char *missing = !plan->strings       ? "STRINGS"
                          : n_models != 1      ? "MODEL"
                          : !plan->n_profiles  ? "PROFILES"
                          : !plan->n_kernels   ? "KERNELS"
                          : !plan->n_spirv     ? "SPIRV"
                          : !plan->n_slots     ? "SLOTS"
                          : !plan->n_schedules ? "SCHEDULES"
                                               : NULL;
    if (missing)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, plan_path_or_null(plan),
                           "the plan is damaged: section %s is missing or empty", missing);
    return DOP_OK;
}

static dop_status
open_plan_bytes(dop_plan *plan, dop_diag *diag)
{
    const dop_plan_section *sections = NULL;
    dop_status st = check_header(plan, diag, &sections);
    if (st != DOP_OK)
        return st;
    const dop_plan_header *h = (const dop_plan_header *)(const void *)plan->data;
    plan->digest = h->digest;
    if ((st = check_sections(plan, sections, h->n_sections, diag)) != DOP_OK ||
        (st = check_digests(plan, sections, h->n_sections, diag)) != DOP_OK ||
        (st = bind_sections(plan, sections, h->n_sections, diag)) != DOP_OK)
        return st;
    return dop_plan_check_rows(plan, diag);
}

dop_status
dop_plan_open_memory(const void *data, uint64_t size, dop_diag *diag, dop_plan *out_plan)
{
    memset(out_plan, 0, sizeof *out_plan);
    if ((uintptr_t)data % 16 != 0)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a plan in memory must be aligned to 16 bytes");
    out_plan->data = data;
    out_plan->size = size;
    dop_status st = DOP_OK;
    DOP_TRY(open_plan_bytes(out_plan, diag));
    if (out_plan->n_files > 0)
        DOP_TRY(DOP_FAIL(diag, DOP_E_INPUT, "the plan has external weights and was opened from memory"));
error:
    if (st != DOP_OK)
        memset(out_plan, 0, sizeof *out_plan);
    return st;
}

/* Maps external weights and model files.  Names of external weights are relative to the plan's directory; dop_plan_check_rows has
 * rejected names that leave it. */
static dop_status
open_plan_files(dop_plan *plan, dop_diag *diag)
{
    dop_status st = DOP_OK;
    dop_buf path = {0};
    plan->file_maps = calloc(plan->n_files, sizeof *plan->file_maps);
    if (!plan->file_maps)
        return DOP_NO_MEMORY(diag);
    const char *slash = dop_path_slash(plan->path);
    for (uint32_t i = 0; i < plan->n_files && st == DOP_OK; i++) {
        path.size = 0;
        if (slash && !plan->files[i].model)
            dop_buf_append(&path, plan->path, (size_t)(slash - plan->path) + 1);
        dop_buf_puts(&path, dop_plan_string(plan, plan->files[i].name));
        if (path.failed)
            st = DOP_NO_MEMORY(diag);
        else
            st = dop_map_open(path.data, plan->files[i].model ? NULL : diag, &plan->file_maps[i]);
        if (plan->files[i].model &&
            (st == DOP_E_IO || (st == DOP_OK && plan->file_maps[i].size != plan->files[i].size)))
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path,
                             "the model's file %.400s, which has weights of this plan, %s: compile the plan again",
                             path.data, st == DOP_OK ? "was changed" : "is gone or cannot be read");
        if (st == DOP_OK && plan->file_maps[i].size != plan->files[i].size)
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, path.data,
                             "external weights of %s: %llu bytes where the plan expects %llu; compile the plan again",
                             plan->path, (unsigned long long)plan->file_maps[i].size,
                             (unsigned long long)plan->files[i].size);
    }
    dop_buf_finish(&path);
    return st;
}

/* Acquires a shared lock on the plan file and returns the value of dop_plan.lock. */
static int
lock_plan_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0) {
        close(fd);
        fd = -1;
    }
    return fd + 1;
}

/* True if the part has a file of its own, and no file of all parts exists. */
static bool
find_own_file(const char *path, uint32_t part, char out[512])
{
    int len = snprintf(out, 512, "%s.part%u", path, part);
    return access(path, F_OK) != 0 && len < 512 && access(out, F_OK) == 0;
}

bool
dop_plan_lacks_part(const char *path, uint32_t part)
{
    char own[512];
    return access(path, F_OK) != 0 && !find_own_file(path, part, own);
}

dop_status
dop_plan_open_part(const char *path, uint32_t n_parts, uint32_t part, dop_diag *diag, dop_plan *out_plan)
{
    char own[512];
    memset(out_plan, 0, sizeof *out_plan);
    if (n_parts > 0 && find_own_file(path, part, own))
        path = own;
    dop_status st = check_plan_path(path, diag);
    if (st == DOP_OK)
        st = dop_map_open(path, diag, &out_plan->map);
    if (st != DOP_OK)
        return st;
    out_plan->lock = lock_plan_file(path);
    snprintf(out_plan->path, sizeof out_plan->path, "%s", path);
    out_plan->data = out_plan->map.data;
    out_plan->size = out_plan->map.size;
    st = dop_plan_find_part(out_plan, n_parts, part, diag);
    if (st == DOP_OK)
        st = open_plan_bytes(out_plan, diag);
    if (st == DOP_OK && n_parts > 0)
        st = dop_plan_is_part(out_plan, n_parts, part, diag);
    if (st == DOP_OK && out_plan->n_files > 0)
        st = open_plan_files(out_plan, diag);
    if (st != DOP_OK)
        dop_plan_close(out_plan);
    return st;
}

dop_status
dop_plan_open(const char *path, dop_diag *diag, dop_plan *out_plan)
{
    return dop_plan_open_part(path, 0, 0, diag, out_plan);
}

void
dop_plan_close(dop_plan *plan)
{
    if (plan->file_maps)
        for (uint32_t i = 0; i < plan->n_files; i++)
            dop_map_close(&plan->file_maps[i]);
    free(plan->file_maps);
    dop_map_close(&plan->map);
    if (plan->lock > 0)
        close(plan->lock - 1);
    memset(plan, 0, sizeof *plan);
}
