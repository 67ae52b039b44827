/* Writes a plan's sections to a file or to a memory image. */
#include "compiler/write/plan_file.h"

#include "plan/plan_part.h"
#include "plan/plan_weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

static const uint32_t row_sizes[DOP_SEC_LIMIT] = {
#define SECTION(number, name, type, what) [number] = (uint32_t)sizeof(type),
    DOP_PLAN_SECTIONS(SECTION)
#undef SECTION
};

typedef struct layout {
    dop_plan_header head;
    dop_plan_section table[DOP_SEC_LIMIT];
} layout;

static bool
put_plan_bytes(FILE *f, const void *data, size_t size)
{
    return size == 0 || fwrite(data, 1, size, f) == size;
}

static bool
pad_to(FILE *f, uint64_t *at, uint64_t target)
{
    static const char zeros[4096];
    while (*at < target) {
        size_t n = target - *at < sizeof zeros ? (size_t)(target - *at) : sizeof zeros;
        if (!put_plan_bytes(f, zeros, n))
            return false;
        *at += n;
    }
    return true;
}

/* Writes data, and leaves holes in a sparse file for blocks of zeros. last: true if these are the last bytes of the
 * file. Their final block is always written, because it sets the file's length. */
static bool
put_sparsely(FILE *f, const uint8_t *data, size_t size, bool last)
{
    enum { BLOCK = 1 << 20 };
    for (size_t at = 0, n; at < size; at += n) {
        n = size - at < BLOCK ? size - at : BLOCK;
        const bool hole =
            n == BLOCK && !(last && at + n == size) && data[at] == 0 && memcmp(data + at, data + at + 1, n - 1) == 0;
        if (!(hole && fseeko(f, (off_t)n, SEEK_CUR) == 0) && !put_plan_bytes(f, data + at, n))
            return false;
    }
    return true;
}

/* Output of packed weights: a file and a digest. */
typedef struct weights_out {
    const dop_plan_sections *parts;
    FILE *f; /* output file; NULL: compute the digest only */
    dop_weights_hash hash;
    uint64_t at;   /* bytes written so far */
    uint64_t held; /* bytes written since the model's pages were last released */
} weights_out;

static dop_status
put_packed(weights_out *o, const void *bytes, uint64_t size, dop_diag *diag)
{
    dop_weights_hash_add(&o->hash, bytes, size);
    if (o->f && !put_sparsely(o->f, bytes, (size_t)size, o->at + size == o->parts->weights_size))
        return DOP_FAIL(diag, DOP_E_IO, "cannot write the weights: %s", strerror(errno));
    o->at += size;
    o->held += size;
    return dop_progress_report(&o->parts->progress, "weights", o->at, o->parts->weights_size) ? DOP_OK
                                                                                              : DOP_CANCELLED(diag);
}

static dop_status
put_gap(weights_out *o, uint64_t end, dop_diag *diag)
{
    static const char zeros[4096];
    while (o->at < end)
        DOP_RETURN_IF_ERROR(put_packed(o, zeros, end - o->at < sizeof zeros ? end - o->at : sizeof zeros, diag));
    return DOP_OK;
}

/* Releases the mapped pages of the model's files after each 256 MiB of weights. Otherwise a large model would fill the
 * memory, although its pages are read only once. */
static void
forget_sources(weights_out *o)
{
    const uint64_t most = 256u << 20;
    const dop_pack *p = o->parts->pack;
    if (o->held < most)
        return;
    for (uint32_t i = 0; i < p->model->weights.n_maps; i++)
        dop_map_forget(&p->model->weights.maps[i]);
    o->held = 0;
}

/* Packs and writes a weight: all at once, or a few rows at a time if it is large and its packed rows are contiguous. */
static dop_status
put_weight(weights_out *o, const dop_packed *x, dop_diag *diag)
{
    const uint64_t most = 64u << 20;
    const bool apart = x->source && x->source->rank == 2 && dop_type_of(x->type)->kind != DOP_KIND_QUANT;
    const uint32_t rows = apart && x->size > most && x->row_bytes <= most ? (uint32_t)(most / x->row_bytes) : x->rows;
    uint8_t *bytes = malloc(rows < x->rows ? (size_t)most : (size_t)x->size + 1);
    dop_status st = bytes ? DOP_OK : DOP_NO_MEMORY(diag);
    for (uint32_t r = 0; r < x->rows && st == DOP_OK; r += rows) {
        dop_packed some = *x;
        if (rows < x->rows) {
            some.from.first += r;
            some.rows = x->rows - r < rows ? x->rows - r : rows;
            some.size = some.rows * x->row_bytes;
        }
        st = dop_pack_write(o->parts->pack, &some, bytes, diag);
        if (st == DOP_OK)
            st = put_packed(o, bytes, some.size, diag);
        forget_sources(o);
    }
    free(bytes);
    return st;
}

/* Writes the gaps between the matrices of a weight that stays in the model's file, and between the planes of block
 * types. at: offset of the weight; *io_left_out: bytes before it that stay in files of the model. */
static dop_status
put_between(weights_out *o, const dop_packed *x, dop_stored as, uint64_t at, uint64_t *io_left_out, dop_diag *diag)
{
    const uint32_t book = as == DOP_STORED_BLOCKS ? dop_type_of(x->type)->pack.book : 0;
    const dop_planes planes = dop_pack_planes(x);
    uint8_t *bytes = malloc(book + 1u);
    dop_status st = bytes ? DOP_OK : DOP_NO_MEMORY(diag);
    for (uint32_t e = 0; e < x->experts && st == DOP_OK; e++) {
        const uint64_t begin = at + e * x->expert_stride;
        st = put_gap(o, begin - *io_left_out, diag);
        *io_left_out += as == DOP_STORED_BLOCKS ? planes.units : dop_pack_matrix_bytes(x);
        if (st != DOP_OK || as != DOP_STORED_BLOCKS)
            continue;
        dop_pack_book(x, e, bytes);
        st = put_gap(o, begin + planes.book - *io_left_out, diag);
        if (st == DOP_OK && book)
            st = put_packed(o, bytes, book, diag);
        *io_left_out += planes.group_bytes;
    }
    free(bytes);
    return st;
}

/* Packs and writes the weights one at a time, because together they may be far larger than memory. */
static dop_status
put_packed_weights(const dop_plan_sections *parts, FILE *f, dop_diag *diag, uint64_t *out_digest)
{
    const dop_pack *p = parts->pack;
    weights_out o = {.parts = parts, .f = f};
    uint64_t segment = 0, left_out = 0;
    dop_status st = dop_weights_hash_init(&o.hash, diag);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < p->n && st == DOP_OK; i++) {
        const dop_packed *x = &p->items[i];
        if (i > 0 && x->segment != p->items[i - 1].segment)
            segment += p->segment_size[p->items[i - 1].segment];
        st = put_gap(&o, segment + x->offset - left_out, diag);
        const dop_stored as = dop_plan_sections_refers(parts, x);
        if (st == DOP_OK && as != DOP_STORED_NOT)
            st = put_between(&o, x, as, segment + x->offset, &left_out, diag);
        else if (st == DOP_OK)
            st = put_weight(&o, x, diag);
    }
    if (st == DOP_OK)
        st = put_gap(&o, parts->weights_size, diag);
    if (st == DOP_OK)
        st = dop_weights_hash_value(&o.hash, diag, out_digest);
    dop_weights_hash_finish(&o.hash);
    return st;
}

static dop_status
lay_out_sections(const dop_plan_sections *p, dop_diag *diag, layout *out)
{
    uint32_t n = 0;
    memset(out, 0, sizeof *out);
    for (uint32_t k = 1; k < DOP_SEC_LIMIT; k++)
        if (p->sec[k].failed)
            return DOP_NO_MEMORY(diag);
        else if (p->sec[k].size > 0 && k != DOP_SEC_WEIGHTS)
            out->table[n++] = (dop_plan_section){.kind = k,
                                                 .row_bytes = row_sizes[k],
                                                 .size = p->sec[k].size,
                                                 .digest = XXH3_64bits(p->sec[k].data, p->sec[k].size)};
    if (p->weights_size > 0 && !p->external)
        out->table[n++] = (dop_plan_section){.kind = DOP_SEC_WEIGHTS, .row_bytes = 1, .size = p->weights_size};
    memcpy(out->head.magic, DOP_PLAN_MAGIC, sizeof out->head.magic);
    out->head.version = DOP_PLAN_VERSION;
    out->head.n_sections = n;
    uint64_t offset = sizeof out->head + n * sizeof *out->table;
    for (uint32_t i = 0; i < n; i++) {
        offset = dop_align_u64(offset, out->table[i].kind == DOP_SEC_WEIGHTS ? 4096 : 16);
        out->table[i].offset = offset;
        offset += out->table[i].size;
    }
    out->head.file_size = offset;
    return DOP_OK;
}

static bool
put_plan_head(const layout *l, FILE *f, uint64_t *at)
{
    *at += sizeof l->head + l->head.n_sections * sizeof *l->table;
    return put_plan_bytes(f, &l->head, sizeof l->head) &&
           put_plan_bytes(f, l->table, l->head.n_sections * sizeof *l->table);
}

/* Writes a plan at byte `base` of the file. The header comes first and contains digests, but the weights' digest is
 * known only after packing. In a file, the header is therefore written again at the end; for a pipe, the weights are
 * packed twice. */
static dop_status
put_plan_file(const dop_plan_sections *p, FILE *f, uint64_t base, dop_diag *diag, layout *out_layout)
{
    layout *l = out_layout;
    uint64_t at = 0, digest;
    bool again = ftello(f) >= 0;
    dop_status st = lay_out_sections(p, diag, l);
    for (uint32_t i = 0; i < l->head.n_sections && st == DOP_OK && !again; i++)
        if (l->table[i].kind == DOP_SEC_WEIGHTS)
            st = put_packed_weights(p, NULL, diag, &l->table[i].digest);
    if (st != DOP_OK)
        return st;
    l->head.digest = dop_plan_header_digest(&l->head, l->table, l->head.n_sections);
    if (!put_plan_head(l, f, &at))
        goto io;
    for (uint32_t i = 0; i < l->head.n_sections; i++) {
        dop_plan_section *s = &l->table[i];
        if (!pad_to(f, &at, s->offset))
            goto io;
        if (s->kind == DOP_SEC_WEIGHTS) {
            st = put_packed_weights(p, f, diag, &digest);
            if (st == DOP_OK && !again && digest != s->digest)
                st = DOP_FAIL(diag, DOP_E_IO, "the model's files changed while they were read");
            if (st != DOP_OK)
                return st;
            s->digest = digest;
        } else if (!put_plan_bytes(f, p->sec[s->kind].data, s->size)) {
            goto io;
        }
        at += s->size;
    }
    l->head.digest = dop_plan_header_digest(&l->head, l->table, l->head.n_sections);
    if (again && (fseeko(f, (off_t)base, SEEK_SET) != 0 || !put_plan_head(l, f, &at)))
        goto io;
    return DOP_OK;
io:
    return DOP_FAIL(diag, DOP_E_IO, "cannot write the plan: %s", strerror(errno));
}

/* Writes the weights to a file next to the plan, and sets their size and digest in the plan's row for the file. */
static dop_status
put_external(dop_plan_sections *sections, const char *path, dop_diag *diag, dop_out_file *output)
{
    dop_plan_file *row = (dop_plan_file *)(void *)sections->sec[DOP_SEC_FILES].data;
    DOP_RETURN_IF_ERROR(dop_out_file_open(path, diag, output));
    if (!output->tmp)
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot write the weights: not a regular file");
    DOP_RETURN_IF_ERROR(put_packed_weights(sections, output->f, diag, &row->digest));
    row->size = sections->weights_size;
    return DOP_OK;
}

dop_status
dop_plan_refuse_open(const char *path, dop_diag *diag)
{
    struct stat sb;
    bool open_elsewhere = true;
    if (stat(path, &sb) != 0 || !S_ISREG(sb.st_mode))
        return DOP_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    /* Another compiler that makes this check holds the lock briefly, so retry. */
    for (int i = 0; i < 4 && open_elsewhere; i++) {
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        open_elsewhere = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    }
    if (fd >= 0)
        close(fd);
    return open_elsewhere ? DOP_FAIL_IN(diag, DOP_E_IO, path,
                                        "a program has this plan open: end it, or name another file to write to")
                          : DOP_OK;
}

/* Both files get their final names only when both are complete. The weights come first, because the plan is useless
 * without them. */
dop_status
dop_plan_sections_write(dop_plan_sections *sections, const char *path, dop_diag *diag)
{
    dop_out_file plan = {0}, weights = {0};
    layout l;
    char *weights_path = NULL;
    struct stat sb;
    if (sections->external && (sections->sec[DOP_SEC_FILES].failed || asprintf(&weights_path, "%s.weights", path) < 0))
        return DOP_NO_MEMORY(diag);
    dop_status st = DOP_OK;
    if (sections->external && stat(path, &sb) == 0 && !S_ISREG(sb.st_mode)) /* opening a pipe would wait for a reader */
        st = DOP_FAIL_IN(diag, DOP_E_IO, path, "`external_weights` needs a regular file to write the plan to");
    if (st == DOP_OK)
        st = dop_out_file_open(path, diag, &plan);
    if (st == DOP_OK && isatty(fileno(plan.f)))
        st = DOP_FAIL_IN(diag, DOP_E_USAGE, path, "a plan is not text: name a file, or send stdout to one");
    if (st == DOP_OK && sections->external)
        st = put_external(sections, weights_path, diag, &weights);
    if (st == DOP_OK)
        st = put_plan_file(sections, plan.f, 0, diag, &l);
    if (sections->external) {
        dop_status closed = dop_out_file_close(&weights, st == DOP_OK, diag);
        st = st == DOP_OK ? closed : st;
    }
    dop_status closed = dop_out_file_close(&plan, st == DOP_OK, diag);
    if (st == DOP_OK && closed != DOP_OK && sections->external)
        unlink(weights_path);
    free(weights_path);
    return st == DOP_OK ? closed : st;
}

/* ---- several plans ---- */

typedef struct set_writer {
    dop_plan_sections *const *parts;
    dop_plan_set_row *rows;
    uint32_t n;
    const char *path;
    bool split;
    dop_diag *diag;
    dop_out_file *plans;   /* plan files: [n] with split, otherwise [1] */
    dop_out_file *weights; /* [n] files of external weights */
    char **names;          /* [2 * n] owned; paths of each part's plan and weights */
    layout *layouts;       /* [n] */
} set_writer;

static dop_status
write_failed(dop_diag *diag)
{
    return DOP_FAIL(diag, DOP_E_IO, "cannot write the plan: %s", strerror(errno));
}

static dop_status
open_set(set_writer *w)
{
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < w->n && st == DOP_OK; i++) {
        if (asprintf(&w->names[2 * i], "%s.part%u", w->path, i) < 0 ||
            asprintf(&w->names[2 * i + 1], "%s.part%u.weights", w->path, i) < 0)
            return DOP_NO_MEMORY(w->diag);
        const char *path = w->split ? w->names[2 * i] : w->path;
        if (i > 0 && !w->split)
            continue;
        st = w->split ? dop_plan_refuse_open(path, w->diag) : DOP_OK;
        if (st == DOP_OK && (st = dop_out_file_open(path, w->diag, &w->plans[i])) == DOP_OK && !w->plans[i].tmp)
            st = DOP_FAIL_IN(w->diag, DOP_E_IO, path, "a plan in parts needs a regular file to be written to");
    }
    return st;
}

/* Writes part i and its external weights. *io_at: in, minimum offset of the part in a common file; out, its end. */
static dop_status
put_part(set_writer *w, uint32_t i, uint64_t *io_at)
{
    dop_plan_sections *p = w->parts[i];
    FILE *f = w->plans[w->split ? i : 0].f;
    dop_status st = p->external ? put_external(p, w->names[2 * i + 1], w->diag, &w->weights[i]) : DOP_OK;
    const uint64_t base = w->split ? 0 : dop_align_u64(*io_at, 4096);
    if (st != DOP_OK)
        return st;
    if (!w->split && !pad_to(f, io_at, base))
        return write_failed(w->diag);
    if ((st = put_plan_file(p, f, base, w->diag, &w->layouts[i])) != DOP_OK)
        return st;
    w->rows[i].offset = base;
    w->rows[i].size = w->layouts[i].head.file_size;
    *io_at = base + w->rows[i].size;
    return fseeko(f, (off_t)*io_at, SEEK_SET) == 0 ? DOP_OK : write_failed(w->diag);
}

/* Writes the digest of the set to every part, then updates the digests of the changed sections and headers. The set's
 * digest is computed from the headers' digests before this change. */
static dop_status
put_set_digest(set_writer *w, uint64_t set)
{
    for (uint32_t i = 0; i < w->n; i++) {
        FILE *f = w->plans[w->split ? i : 0].f;
        layout *l = &w->layouts[i];
        dop_buf *sec = &w->parts[i]->sec[DOP_SEC_PART];
        uint64_t at = 0;
        ((dop_plan_part *)(void *)sec->data)->set = set;
        for (uint32_t k = 0; k < l->head.n_sections; k++) {
            if (l->table[k].kind != DOP_SEC_PART)
                continue;
            l->table[k].digest = XXH3_64bits(sec->data, sec->size);
            if (fseeko(f, (off_t)(w->rows[i].offset + l->table[k].offset), SEEK_SET) != 0 ||
                !put_plan_bytes(f, sec->data, sec->size))
                return write_failed(w->diag);
        }
        l->head.digest = dop_plan_header_digest(&l->head, l->table, l->head.n_sections);
        w->rows[i].digest = l->head.digest;
        if (fseeko(f, (off_t)w->rows[i].offset, SEEK_SET) != 0 || !put_plan_head(l, f, &at))
            return write_failed(w->diag);
    }
    return DOP_OK;
}

static dop_status
put_set(set_writer *w)
{
    dop_plan_set_header h = {.version = DOP_PLAN_VERSION, .n_parts = w->n};
    uint64_t at = 0, *digests = calloc(w->n, sizeof *digests);
    dop_status st = digests ? DOP_OK : DOP_NO_MEMORY(w->diag);
    memcpy(h.magic, DOP_PLAN_SET_MAGIC, sizeof h.magic);
    if (st == DOP_OK && !w->split && !pad_to(w->plans[0].f, &at, sizeof h + w->n * sizeof *w->rows))
        st = write_failed(w->diag);
    for (uint32_t i = 0; i < w->n && st == DOP_OK; i++) {
        st = put_part(w, i, &at);
        digests[i] = w->layouts[i].head.digest;
    }
    if (st == DOP_OK) {
        h.set = XXH3_64bits(digests, w->n * sizeof *digests);
        h.file_size = at;
        st = put_set_digest(w, h.set);
    }
    if (st == DOP_OK && !w->split) {
        FILE *f = w->plans[0].f;
        h.digest = dop_plan_set_digest(&h, w->rows);
        if (fseeko(f, 0, SEEK_SET) != 0 || !put_plan_bytes(f, &h, sizeof h) ||
            !put_plan_bytes(f, w->rows, w->n * sizeof *w->rows))
            st = write_failed(w->diag);
    }
    free(digests);
    return st;
}

dop_status
dop_plan_set_write(dop_plan_sections *const *parts, dop_plan_set_row *rows, uint32_t n, const char *path, bool split,
                   dop_diag *diag)
{
    set_writer w = {.parts = parts, .rows = rows, .n = n, .path = path, .split = split, .diag = diag};
    w.plans = calloc(n, sizeof *w.plans);
    w.weights = calloc(n, sizeof *w.weights);
    w.names = calloc(2 * (size_t)n, sizeof *w.names);
    w.layouts = calloc(n, sizeof *w.layouts);
    dop_status st = w.plans && w.weights && w.names && w.layouts ? open_set(&w) : DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st = put_set(&w);
    for (uint32_t i = 0; i < 2 * n; i++) { /* weights get their final names first, because a plan needs them */
        dop_out_file *files = i < n ? w.weights : w.plans;
        dop_status closed = files ? dop_out_file_close(&files[i % n], st == DOP_OK, diag) : DOP_OK;
        st = st == DOP_OK ? closed : st;
    }
    for (uint32_t i = 0; w.names && i < 2 * n; i++)
        free(w.names[i]);
    free(w.plans);
    free(w.weights);
    free(w.names);
    free(w.layouts);
    return st;
}

dop_status
dop_plan_sections_image(const dop_plan_sections *sections, dop_diag *diag, dop_plan_image *out_image)
{
    layout l;
    memset(out_image, 0, sizeof *out_image);
    dop_status st = lay_out_sections(sections, diag, &l);
    if (st != DOP_OK)
        return st;
    /* The weights' pages use no memory, because they are never written. */
    void *at = mmap(NULL, (size_t)l.head.file_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        return DOP_NO_MEMORY(diag);
    uint8_t *bytes = at;
    for (uint32_t i = 0; i < l.head.n_sections; i++)
        if (l.table[i].kind != DOP_SEC_WEIGHTS)
            memcpy(bytes + l.table[i].offset, sections->sec[l.table[i].kind].data, (size_t)l.table[i].size);
    l.head.digest = dop_plan_header_digest(&l.head, l.table, l.head.n_sections);
    memcpy(bytes, &l.head, sizeof l.head);
    memcpy(bytes + sizeof l.head, l.table, l.head.n_sections * sizeof *l.table);
    *out_image = (dop_plan_image){at, l.head.file_size};
    return DOP_OK;
}

void
dop_plan_image_finish(dop_plan_image *image)
{
    if (image->bytes)
        munmap(image->bytes, (size_t)image->size);
    memset(image, 0, sizeof *image);
}

void
dop_plan_sections_finish(dop_plan_sections *sections)
{
    for (uint32_t i = 0; i < DOP_SEC_LIMIT; i++)
        dop_buf_finish(&sections->sec[i]);
}
