/* Page pool of the caches in models with several sequences: tracks the pages of each sequence, the free pages, and
 * cached pages that may be reused.
 *
 * A page number selects the same rows in every paged state. Sequences with a common beginning may share pages; only
 * unshared pages are written. A full page is identified by its tokens and those before them (its prefix). After its
 * last sequence releases it, it stays cached until the pool needs it; eviction is in order of release. */
#ifndef DOPPLER_RUNTIME_MODEL_PAGES_H
#define DOPPLER_RUNTIME_MODEL_PAGES_H

#include "base/base.h"
#include "plan/plan_format.h"

/* One page of the pool. */
typedef struct dop_page_row {
    uint32_t refs;           /* number of sequences that use it */
    uint32_t next, previous; /* neighbors in the list of free or of cached pages; UINT32_MAX: the end */
    uint32_t same;           /* next page in the same hash bucket; UINT32_MAX: none */
    uint64_t prefix;         /* id of the prefix that ends with this page; 0: not identified by tokens */
    uint64_t before;         /* id of the prefix before the page; 0: none */
} dop_page_row;

/* Pages of one sequence. */
typedef struct dop_page_list {
    uint32_t n;       /* number of pages */
    uint32_t n_known; /* number of leading pages that are full and have an id in prefixes[] */
} dop_page_list;

typedef struct dop_pages {
    uint32_t page, n_pages;           /* positions per page; number of pages */
    uint32_t per;                     /* maximum pages of a sequence */
    volatile uint32_t *device_tables; /* not owned: [sequences][per], part of the step record */
    uint32_t *tables;                 /* owned, host copy of device_tables */
    uint64_t *prefixes;               /* owned, [sequences][per] */
    dop_page_row *rows;               /* owned, [n_pages] */
    uint32_t *tokens;                 /* owned, [n_pages][page]: tokens of identified pages */
    uint32_t *buckets;                /* owned, [n_buckets], a power of two */
    uint32_t n_buckets;
    dop_page_list of[DOP_STEP_MAX_SEQUENCES];
    uint32_t first_free, first_kept, last_kept, n_free, n_kept;
    uint64_t last_prefix;    /* last prefix id that was assigned */
    uint64_t reused, copied; /* tokens reused and pages copied since opening */
} dop_pages;

/* Initializes the pool, or zeroes it for a plan without pages. device_tables: follows the step record. */
dop_status dop_pages_init(const dop_plan_model *model, volatile uint32_t *device_tables, dop_diag *diag,
                          dop_pages *out_pages);
void dop_pages_finish(dop_pages *pages); /* accepts a zeroed one */

/* Returns the number of pages that no sequence uses, including cached ones. */
uint32_t dop_pages_available(const dop_pages *pages);
/* Returns the index of the first page needed to write from position `from` on. It is lower than from / page for a
 * sequence restored from a checkpoint of sliding windows only, which has no earlier pages. */
uint32_t dop_pages_begin(const dop_pages *pages, uint32_t place, uint32_t from);
/* Returns the number of pages to allocate before positions [from, to) can be written. */
uint32_t dop_pages_missing(const dop_pages *pages, uint32_t place, uint32_t from, uint32_t to);
/* Makes page i of a sequence writable: replaces it if it is shared, allocates it if it is missing. A page must be
 * available. The page loses its prefix id. *out_old: page to copy the rows from; UINT32_MAX: nothing to copy. */
void dop_pages_own(dop_pages *pages, uint32_t place, uint32_t i, uint32_t *out_old);
/* Releases all pages after the first n positions. */
void dop_pages_keep(dop_pages *pages, uint32_t place, uint32_t n);
/* Shares the pages of the first n positions of `from` with `to`, which must have none. `from` may have fewer
 * (dop_pages_begin). */
void dop_pages_share(dop_pages *pages, uint32_t from, uint32_t to, uint32_t n);
/* Records that the first n keys (prefix.h: seed and tokens) of a sequence are in its pages. Full pages get prefix ids,
 * or are replaced by cached pages with the same keys. No step that reads them may be in flight. */
void dop_pages_note(dop_pages *pages, uint32_t place, uint64_t seed, const uint32_t *tokens, uint32_t n);
/* Returns how many leading keys the cached pages cover. */
uint32_t dop_pages_match(const dop_pages *pages, uint64_t seed, const uint32_t *tokens, size_t n);
/* Gives a sequence without pages the cached pages that match the beginning of the tokens. Returns the number of tokens
 * covered. */
uint32_t dop_pages_find(dop_pages *pages, uint32_t place, uint64_t seed, const uint32_t *tokens, size_t n);

#endif
