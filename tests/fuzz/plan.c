/* Plans.  An input is a file; or, behind an 'S', its sections alone (put_section), of which the file is made here: header,
 * table, digests, and zeros for weights.  The mutator knows sections and their rows, so that most of what it makes gets behind
 * the digests. */
#include "plan/plan.h"
#include "plan/disasm.h"
#include "plan/plan_ranges.h"

#include "plan/plan_weights.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/buf_align.h"

enum { SECTION_HEAD = 5, MOST_WEIGHTS = 1 << 20 };

/* A row of a kind that is not known has one byte. */
static uint32_t
row_bytes_of(uint32_t kind)
{
    const uint32_t bytes = dop_plan_row_bytes(kind);
    return bytes ? bytes : 1;
}

/* A section of an input: a byte of kind, four of size, and its bytes; of WEIGHTS eight, which say how many there are. */
typedef struct part {
    uint32_t kind;
    size_t at, size; /* of its bytes in the input */
} part;

static size_t
find_parts(const uint8_t *data, size_t size, part *out)
{
    size_t n = 0;
    for (size_t at = 1; size - at >= SECTION_HEAD && n < DOP_SEC_LIMIT; n++) {
        uint32_t bytes = 0;
        memcpy(&bytes, data + at + 1, sizeof bytes);
        size_t left = size - at - SECTION_HEAD;
        out[n] = (part){data[at], at + SECTION_HEAD, bytes < left ? bytes : left};
        at = out[n].at + out[n].size;
    }
    return n;
}

static void
put_section(dop_buf *out, uint32_t kind, const void *bytes, size_t size)
{
    const uint32_t n = (uint32_t)size;
    dop_buf_append(out, &(char){(char)kind}, 1);
    dop_buf_append(out, &n, sizeof n);
    dop_buf_append(out, bytes, size);
}

/* Digests of the header and the sections, as far as they lie in the file. */
static void
set_digests(uint8_t *file, size_t size)
{
    dop_plan_header *h = (dop_plan_header *)(void *)file;
    dop_plan_section *s = (dop_plan_section *)(void *)(file + sizeof *h);
    for (uint32_t i = 0; i < h->n_sections; i++) {
        if (s[i].offset >= size || s[i].size > size - s[i].offset)
            continue;
        dop_weights_range range = {file + s[i].offset, s[i].size, 0};
        if (s[i].kind == DOP_SEC_WEIGHTS && dop_weights_digest(&range, 1, NULL, NULL) == DOP_OK)
            s[i].digest = range.digest;
        else
            s[i].digest = dop_plan_digest(range.data, range.size);
    }
    h->digest = dop_plan_header_digest(h, s, h->n_sections);
}

void
fuzz_plan_assemble(const uint8_t *data, size_t size, dop_buf *out)
{
    part parts[DOP_SEC_LIMIT];
    dop_plan_section table[DOP_SEC_LIMIT];
    dop_plan_header h = {.version = DOP_PLAN_VERSION};
    h.n_sections = (uint32_t)find_parts(data, size, parts);
    memset(table, 0, sizeof table);
    memcpy(h.magic, DOP_PLAN_MAGIC, sizeof h.magic);
    dop_buf_zeros(out, sizeof h + h.n_sections * sizeof *table);
    for (uint32_t i = 0; i < h.n_sections; i++) {
        const bool weights = parts[i].kind == DOP_SEC_WEIGHTS;
        uint64_t n = 0;
        buf_align(out, weights ? 4096 : 16);
        table[i] = (dop_plan_section){.kind = parts[i].kind,
                                      .row_bytes = row_bytes_of(parts[i].kind),
                                      .offset = out->size,
                                      .size = parts[i].size};
        if (weights) {
            memcpy(&n, data + parts[i].at, parts[i].size < sizeof n ? parts[i].size : sizeof n);
            table[i].size = n % (MOST_WEIGHTS + 1);
            dop_buf_zeros(out, table[i].size);
        } else {
            dop_buf_append(out, data + parts[i].at, parts[i].size);
        }
    }
    h.file_size = out->size;
    require(!out->failed);
    memcpy(out->data, &h, sizeof h);
    memcpy(out->data + sizeof h, table, h.n_sections * sizeof *table);
    set_digests((uint8_t *)out->data, out->size);
}

static void
repair(uint8_t *bytes, size_t size)
{
    dop_plan_header *h = (dop_plan_header *)(void *)bytes;
    if (size < sizeof *h)
        return;
    memcpy(h->magic, DOP_PLAN_MAGIC, sizeof h->magic);
    h->version = DOP_PLAN_VERSION;
    h->file_size = size;
    h->n_sections %= 20;
    if (sizeof *h + h->n_sections * sizeof(dop_plan_section) <= size)
        set_digests(bytes, size);
}

static void
try_open(const uint8_t *bytes, size_t size)
{
    dop_plan plan;
    dop_diag diag = {0};
    dop_status st = dop_plan_open_memory(bytes, size, &diag, &plan);
    fuzz_check(st, &diag);
    if (st != DOP_OK)
        return;
    dop_buf text = {0};
    dop_plan_disasm(&plan, &text);
    dop_buf_finish(&text);
    uint8_t sum = 0;
    for (uint32_t i = 0; i < plan.n_slots; i++)
        if (plan.slots[i].kind == DOP_SLOT_WEIGHTS)
            for (uint64_t at = 0, left; at < plan.slots[i].size; at += 61)
                sum = (uint8_t)(sum + *dop_plan_slot_bytes(&plan, i, at, &left));
    fuzz_check(dop_plan_verify_weights(&plan, NULL, &diag), &diag);
    dop_plan_close(&plan);
    (void)sum;
}

void
fuzz_plan(const uint8_t *data, size_t size)
{
    dop_buf file = {0};
    if (size && data[0] == 'S') {
        fuzz_plan_assemble(data, size, &file);
        try_open((const uint8_t *)file.data, file.size);
    } else {
        dop_buf_append(&file, data, size);
        require(!file.failed);
        try_open((const uint8_t *)file.data, size);
        if (size)
            repair((uint8_t *)file.data, size);
        try_open((const uint8_t *)file.data, size);
    }
    dop_buf_finish(&file);
}

/* ---- mutations ------------------------------------------------------------------------------------------------------ */

/* A number somewhere in the rows gets a value that is worth a try. */
static void
change_number(uint8_t *bytes, size_t size, uint32_t row, uint32_t *seed)
{
    uint32_t words = (uint32_t)(size / 4), at, from, v, other;
    if (words == 0)
        return;
    at = fuzz_random(seed) % words;
    from = row >= 4 ? (at % (row / 4) + fuzz_random(seed) % (words / (row / 4) + 1) * (row / 4)) % words
                    : fuzz_random(seed) % words; /* the same field of another row */
    memcpy(&v, bytes + 4 * (size_t)at, 4);
    memcpy(&other, bytes + 4 * (size_t)from, 4);
    const uint32_t r = fuzz_random(seed);
    switch (r % 10) {
    case 0:
        v = 0;
        break;
    case 1:
        v = UINT32_MAX - (r >> 8) % 4;
        break;
    case 2:
        v += 1 + (r >> 8) % 3;
        break;
    case 3:
        v -= 1 + (r >> 8) % 3;
        break;
    case 4:
        v = (uint32_t)1 << (r >> 8) % 32;
        break;
    case 5:
        v ^= (uint32_t)1 << (r >> 8) % 32;
        break;
    case 6:
        v = (r >> 8) % 17;
        break;
    case 7:
        v = fuzz_random(seed);
        break;
    default:
        v = other;
        break;
    }
    memcpy(bytes + 4 * (size_t)at, &v, 4);
}

/* The part gets `now` bytes in place of what it has; the caller has seen that there is room. */
static size_t
resize(uint8_t *data, size_t size, const part *p, size_t now)
{
    const uint32_t n = (uint32_t)now;
    memmove(data + p->at + now, data + p->at + p->size, size - p->at - p->size);
    if (now > p->size)
        memset(data + p->at + p->size, 0, now - p->size);
    memcpy(data + p->at - 4, &n, 4);
    return size - p->size + now;
}

static size_t
change_rows(uint8_t *data, size_t size, size_t max_size, const part *p, uint32_t *seed)
{
    const size_t row = row_bytes_of(p->kind), n = p->size / row;
    const uint32_t r = fuzz_random(seed);
    if (n == 0 || row > p->size)
        return size;
    uint8_t *bytes = data + p->at, *one = bytes + r / 8 % n * row, *two = bytes + fuzz_random(seed) % n * row;
    switch (r % 4) {
    case 0: /* one less */
        memmove(one, one + row, (size_t)(bytes + p->size - one) - row);
        /* What is behind the last row goes with the part. */
        memmove(bytes + p->size - row, bytes + p->size, size - p->at - p->size);
        memcpy(data + p->at - 4, &(uint32_t){(uint32_t)(p->size - row)}, 4);
        return size - row;
    case 1: /* one more, like another */
        if (size + row > max_size)
            return size;
        size = resize(data, size, p, p->size + row);
        memcpy(bytes + p->size, two, row);
        return size;
    case 2: /* one becomes like another */
        memmove(one, two, row);
        return size;
    default: /* two change places */
        for (size_t i = 0; i < row && one != two; i++) {
            uint8_t x = one[i];
            one[i] = two[i];
            two[i] = x;
        }
        return size;
    }
}

size_t
fuzz_plan_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed_of)
{
    part parts[DOP_SEC_LIMIT];
    uint32_t seed = seed_of * 2654435761u + 1;
    size_t n = size && data[0] == 'S' ? find_parts(data, size, parts) : 0;
    if (n == 0 || fuzz_random(&seed) % 16 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    for (uint32_t times = 1 + fuzz_random(&seed) % 3; times > 0; times--) {
        n = find_parts(data, size, parts);
        const part *p = n ? &parts[fuzz_random(&seed) % n] : NULL;
        const uint32_t r = fuzz_random(&seed) % 16;
        if (!p || p->size == 0)
            continue;
        if (r == 0) {
            data[p->at - SECTION_HEAD] = (uint8_t)(fuzz_random(&seed) % 20);
        } else if (r == 1) {
            size = resize(data, size, p, 0);
        } else if (r < 5) {
            size = change_rows(data, size, max_size, p, &seed);
        } else if (r < 7 || row_bytes_of(p->kind) == 1) { /* its bytes, as many as before */
            (void)LLVMFuzzerMutate(data + p->at, p->size, p->size);
        } else {
            change_number(data + p->at, p->size, row_bytes_of(p->kind), &seed);
        }
    }
    return size;
}

/* ---- seeds ---------------------------------------------------------------------------------------------------------- */

/* The shortest module that is taken for a kernel's. */
static void
put_module(dop_buf *out, const uint32_t local[3])
{
    const uint32_t words[] = {0x07230203, 0x00010300,    0, 2,  0,        5u << 16 | 15, 5,       1, 0x6e69616d,
                              0,          6u << 16 | 16, 1, 17, local[0], local[1],      local[2]};
    dop_buf_append(out, words, sizeof words);
}

static void
put_kernels(const dop_plan *plan, dop_buf *out)
{
    dop_buf rows = {0}, modules = {0};
    for (uint32_t i = 0; i < plan->n_kernels; i++) {
        dop_plan_kernel k = plan->kernels[i];
        k.spirv_first = (uint32_t)(modules.size / 4);
        put_module(&modules, k.local);
        k.spirv_words = (uint32_t)(modules.size / 4) - k.spirv_first;
        dop_buf_append(&rows, &k, sizeof k);
    }
    put_section(out, DOP_SEC_KERNELS, rows.data, rows.size);
    put_section(out, DOP_SEC_SPIRV, modules.data, modules.size);
    dop_buf_finish(&rows);
    dop_buf_finish(&modules);
}

int
fuzz_plan_shrink(const char *in, const char *out_path)
{
    enum { MOST_TEXT = 1024 };
    dop_plan plan;
    dop_diag diag = {0};
    dop_buf out = {0};
    dop_status st = dop_plan_open(in, &diag, &plan);
    if (st == DOP_OK) {
        const dop_plan_header *h = (const dop_plan_header *)(const void *)plan.data;
        const dop_plan_section *s = (const dop_plan_section *)(const void *)(plan.data + sizeof *h);
        dop_buf_puts(&out, "S");
        for (uint32_t i = 0; i < h->n_sections; i++) {
            const uint8_t *bytes = plan.data + s[i].offset;
            if (s[i].kind == DOP_SEC_KERNELS)
                put_kernels(&plan, &out);
            else if (s[i].kind == DOP_SEC_WEIGHTS)
                put_section(&out, s[i].kind, &s[i].size, sizeof s[i].size);
            else if (s[i].kind != DOP_SEC_SPIRV)
                put_section(&out, s[i].kind, bytes,
                            s[i].row_bytes > 1 || s[i].kind == DOP_SEC_STRINGS || s[i].size < MOST_TEXT ? s[i].size
                                                                                                        : MOST_TEXT);
        }
        st = dop_write_file(out_path, out.data, out.size, &diag);
        dop_plan_close(&plan);
    }
    if (st != DOP_OK)
        fprintf(stderr, "fuzz_plan: %s\n", diag.message);
    dop_buf_finish(&out);
    return st != DOP_OK;
}
