#include "runtime/model/pages.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NONE UINT32_MAX

dop_status
dop_pages_init(const dop_plan_model *model, volatile uint32_t *device_tables, dop_diag *diag, dop_pages *out_pages)
{
    dop_pages *p = out_pages;
    memset(p, 0, sizeof *p);
    if (model->page == 0)
        return DOP_OK;
    p->page = model->page;
    p->n_pages = model->n_pages;
    p->per = model->ctx / model->page;
    p->device_tables = device_tables;
    for (p->n_buckets = 1; p->n_buckets < p->n_pages; p->n_buckets *= 2)
        ;
    const size_t entries = (size_t)model->n_sequences * p->per;
    p->tables = calloc(entries, sizeof *p->tables);
    p->prefixes = calloc(entries, sizeof *p->prefixes);
    p->rows = calloc(p->n_pages, sizeof *p->rows);
    p->tokens = calloc((size_t)p->n_pages * p->page, sizeof *p->tokens);
    p->buckets = calloc(p->n_buckets, sizeof *p->buckets);
    if (!p->tables || !p->prefixes || !p->rows || !p->tokens || !p->buckets) {
        dop_pages_finish(p);
        return DOP_NO_MEMORY(diag);
    }
    memset(p->buckets, 0xff, p->n_buckets * sizeof *p->buckets);
    for (uint32_t i = 0; i < p->n_pages; i++)
        p->rows[i].next = i + 1 < p->n_pages ? i + 1 : NONE;
    p->first_kept = p->last_kept = NONE;
    p->n_free = p->n_pages;
    return DOP_OK;
}

void
dop_pages_finish(dop_pages *pages)
{
    free(pages->tables);
    free(pages->prefixes);
    free(pages->rows);
    free(pages->tokens);
    free(pages->buckets);
    memset(pages, 0, sizeof *pages);
}

uint32_t
dop_pages_available(const dop_pages *pages)
{
    return pages->n_free + pages->n_kept;
}

/* --- prefixes -------------------------------------------------------------------------------------------------------- */

/* Prefixes form chains: the prefix before a page has an id of its own, which is never reused. */
static uint32_t
find_page_bucket(const dop_pages *p, uint64_t before, const uint32_t *tokens)
{
    return (uint32_t)XXH3_64bits_withSeed(tokens, p->page * sizeof *tokens, before) & (p->n_buckets - 1);
}

/* Returns the id of the empty prefix for a seed. Bit 63 keeps it distinct from the ids of pages. */
static uint64_t
make_first_prefix(uint64_t seed)
{
    return seed ? seed | 1ull << 63 : 0;
}

/* Returns the identified page with these tokens after that prefix; NONE if there is none. */
static uint32_t
look_up_page(const dop_pages *p, uint64_t before, const uint32_t *tokens)
{
    uint32_t i = p->buckets[find_page_bucket(p, before, tokens)];
    while (i != NONE && (p->rows[i].before != before ||
                         memcmp(p->tokens + (size_t)i * p->page, tokens, p->page * sizeof *tokens) != 0))
        i = p->rows[i].same;
    return i;
}

static void
forget_page(dop_pages *p, uint32_t page)
{
    dop_page_row *row = &p->rows[page];
    if (row->prefix == 0)
        return;
    uint32_t *at = &p->buckets[find_page_bucket(p, row->before, p->tokens + (size_t)page * p->page)];
    while (*at != page)
        at = &p->rows[*at].same;
    *at = row->same;
    row->prefix = row->before = 0;
}

/* --- available pages ------------------------------------------------------------------------------------------------- */

static void
leave_kept(dop_pages *p, uint32_t page)
{
    const dop_page_row *row = &p->rows[page];
    if (row->previous == NONE)
        p->first_kept = row->next;
    else
        p->rows[row->previous].next = row->next;
    if (row->next == NONE)
        p->last_kept = row->previous;
    else
        p->rows[row->next].previous = row->previous;
    p->n_kept--;
}

/* Allocates a free page, or else evicts the cached page that was released first. One of them must exist. */
static uint32_t
take_page(dop_pages *p)
{
    uint32_t page = p->first_free;
    if (p->n_free > 0) {
        p->first_free = p->rows[page].next;
        p->n_free--;
    } else {
        page = p->first_kept;
        leave_kept(p, page);
        forget_page(p, page);
    }
    p->rows[page].refs = 1;
    return page;
}

static void
let_go(dop_pages *p, uint32_t page)
{
    dop_page_row *row = &p->rows[page];
    if (--row->refs > 0)
        return;
    if (row->prefix == 0) {
        row->next = p->n_free > 0 ? p->first_free : NONE;
        p->first_free = page;
        p->n_free++;
        return;
    }
    row->next = NONE;
    row->previous = p->n_kept > 0 ? p->last_kept : NONE;
    if (p->n_kept > 0)
        p->rows[p->last_kept].next = page;
    else
        p->first_kept = page;
    p->last_kept = page;
    p->n_kept++;
}

/* --- sequences ------------------------------------------------------------------------------------------------------- */

static void
set_page_entry(dop_pages *p, uint32_t place, uint32_t i, uint32_t page)
{
    p->tables[(size_t)place * p->per + i] = page;
    p->device_tables[(size_t)place * p->per + i] = page;
}

static uint32_t
get_page_entry(const dop_pages *p, uint32_t place, uint32_t i)
{
    return p->tables[(size_t)place * p->per + i];
}

uint32_t
dop_pages_begin(const dop_pages *pages, uint32_t place, uint32_t from)
{
    const uint32_t i = from / pages->page, n = pages->of[place].n;
    return i < n ? i : n;
}

uint32_t
dop_pages_missing(const dop_pages *pages, uint32_t place, uint32_t from, uint32_t to)
{
    const dop_pages *p = pages;
    uint32_t n = 0;
    if (p->page == 0 || from >= to)
        return 0;
    for (uint32_t i = dop_pages_begin(p, place, from); i <= (to - 1) / p->page; i++)
        n += i >= p->of[place].n || p->rows[get_page_entry(p, place, i)].refs > 1;
    return n;
}

void
dop_pages_own(dop_pages *pages, uint32_t place, uint32_t i, uint32_t *out_old)
{
    dop_pages *p = pages;
    dop_page_list *list = &p->of[place];
    *out_old = NONE;
    list->n_known = list->n_known < i ? list->n_known : i;
    if (i < list->n) {
        const uint32_t page = get_page_entry(p, place, i);
        if (p->rows[page].refs == 1) {
            forget_page(p, page);
            return;
        }
        *out_old = page;
        p->rows[page].refs--; /* other sequences still use it */
    }
    set_page_entry(p, place, i, take_page(p));
    list->n = list->n > i ? list->n : i + 1;
}

void
dop_pages_keep(dop_pages *pages, uint32_t place, uint32_t n)
{
    dop_pages *p = pages;
    if (p->page == 0)
        return;
    dop_page_list *list = &p->of[place];
    /* Release the last page first: eviction is in order of release, and a prefix is useless without its beginning. */
    while (list->n > 0 && (uint64_t)(list->n - 1) * p->page >= n)
        let_go(p, get_page_entry(p, place, --list->n));
    list->n_known = list->n_known < n / p->page ? list->n_known : n / p->page;
}

void
dop_pages_share(dop_pages *pages, uint32_t from, uint32_t to, uint32_t n)
{
    dop_pages *p = pages;
    if (p->page == 0)
        return;
    dop_page_list *a = &p->of[from], *b = &p->of[to];
    for (b->n = 0; b->n < a->n && (uint64_t)b->n * p->page < n; b->n++) {
        set_page_entry(p, to, b->n, get_page_entry(p, from, b->n));
        p->rows[get_page_entry(p, from, b->n)].refs++;
    }
    b->n_known = a->n_known < n / p->page ? a->n_known : n / p->page;
    memcpy(p->prefixes + (size_t)to * p->per, p->prefixes + (size_t)from * p->per, b->n_known * sizeof *p->prefixes);
}

void
dop_pages_note(dop_pages *pages, uint32_t place, uint64_t seed, const uint32_t *tokens, uint32_t n)
{
    dop_pages *p = pages;
    if (p->page == 0)
        return;
    dop_page_list *list = &p->of[place];
    uint64_t *prefixes = p->prefixes + (size_t)place * p->per;
    for (; list->n_known < list->n && (list->n_known + 1) * p->page <= n; list->n_known++) {
        const uint32_t i = list->n_known, *own = tokens + (size_t)i * p->page;
        const uint64_t before = i > 0 ? prefixes[i - 1] : make_first_prefix(seed);
        const uint32_t mine = get_page_entry(p, place, i);
        uint32_t page = look_up_page(p, before, own);
        if (page == NONE) {
            page = mine;
            forget_page(p, page);
            dop_page_row *row = &p->rows[page];
            uint32_t *bucket = &p->buckets[find_page_bucket(p, before, own)];
            row->prefix = ++p->last_prefix;
            row->before = before;
            row->same = *bucket;
            *bucket = page;
            memcpy(p->tokens + (size_t)page * p->page, own, p->page * sizeof *own);
        } else if (page != mine) { /* same content: keep only one of the two pages */
            if (p->rows[page].refs++ == 0)
                leave_kept(p, page);
            let_go(p, mine);
            set_page_entry(p, place, i, page);
        }
        prefixes[i] = p->rows[page].prefix;
    }
}

uint32_t
dop_pages_match(const dop_pages *pages, uint64_t seed, const uint32_t *tokens, size_t n)
{
    uint64_t before = make_first_prefix(seed);
    uint32_t i = 0;
    if (pages->page == 0)
        return 0;
    while (i < pages->per && (size_t)(i + 1) * pages->page <= n) {
        const uint32_t page = look_up_page(pages, before, tokens + (size_t)i * pages->page);
        if (page == NONE)
            break;
        before = pages->rows[page].prefix;
        i++;
    }
    return i * pages->page;
}

uint32_t
dop_pages_find(dop_pages *pages, uint32_t place, uint64_t seed, const uint32_t *tokens, size_t n)
{
    dop_pages *p = pages;
    if (p->page == 0)
        return 0;
    dop_page_list *list = &p->of[place];
    uint64_t *prefixes = p->prefixes + (size_t)place * p->per, before = make_first_prefix(seed);
    while (list->n < p->per && (size_t)(list->n + 1) * p->page <= n) {
        uint32_t page = look_up_page(p, before, tokens + (size_t)list->n * p->page);
        if (page == NONE)
            break;
        if (p->rows[page].refs++ == 0)
            leave_kept(p, page);
        prefixes[list->n] = before = p->rows[page].prefix;
        set_page_entry(p, place, list->n++, page);
    }
    list->n_known = list->n;
    p->reused += (uint64_t)list->n * p->page;
    return list->n * p->page;
}
