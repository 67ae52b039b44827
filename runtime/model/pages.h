/* The pool of pages that holds a model's caches where there are several sequences: which pages a sequence has, which are
 * free, and which hold the states of tokens that may come again.
 *
 * A page has a number, which names the same rows in every state that lies in pages.  Sequences that begin alike may share
 * pages; a page is written only by a sequence that does not share it.  A full page is known by its tokens and by those before
 * them (its prefix).  It is kept after its last sequence has released it, until the pool needs it; the page that was released
 * first is reused first. */
#ifndef DOPPLER_RUNTIME_MODEL_PAGES_H
#define DOPPLER_RUNTIME_MODEL_PAGES_H

#include "base/base.h"
#include "plan/plan_format.h"

/* A page of the pool. */
typedef struct dop_page_row {
    uint32_t refs;           /* sequences that have it */
    uint32_t next, previous; /* in its list, that of free or of kept pages; UINT32_MAX: the end */
    uint32_t same;           /* the next known page in its hash bucket; UINT32_MAX: none */
    uint64_t prefix;         /* number of the prefix that it completes; 0: it is not known by its tokens */
    uint64_t before;         /* number of the prefix before it; 0: none */
} dop_page_row;

/* The pages of a sequence. */
typedef struct dop_page_list {
    uint32_t n;       /* pages */
    uint32_t n_known; /* this many first pages are full and have a number in prefixes[] */
} dop_page_list;

typedef struct dop_pages {
    uint32_t page, n_pages;           /* positions of a page; number of pages */
    uint32_t per;                     /* most pages of a sequence */
    volatile uint32_t *device_tables; /* not owned: [sequences][per] of the step record */
    uint32_t *tables;                 /* owned, the same for the host */
    uint64_t *prefixes;               /* owned, [sequences][per] */
    dop_page_row *rows;               /* owned, [n_pages] */
    uint32_t *tokens;                 /* owned, [n_pages][page]: of known pages */
    uint32_t *buckets;                /* owned, [n_buckets], a power of two */
    uint32_t n_buckets;
    dop_page_list of[DOP_STEP_MAX_SEQUENCES];
    uint32_t first_free, first_kept, last_kept, n_free, n_kept;
    uint64_t last_prefix;    /* numbers given out */
    uint64_t reused, copied; /* tokens found again; pages copied, since opening */
} dop_pages;

/* Initializes for a plan with pages, or to zeros for one without; device_tables: after the step record. */
dop_status dop_pages_init(const dop_plan_model *model, volatile uint32_t *device_tables, dop_diag *diag,
                          dop_pages *out_pages);
void dop_pages_finish(dop_pages *pages); /* accepts a zeroed one */

/* Number of pages that no sequence has, including known ones. */
uint32_t dop_pages_available(const dop_pages *pages);
/* The first page that writing from position `from` on needs: a sequence whose states came from a checkpoint of rings alone has no pages before. */
uint32_t dop_pages_begin(const dop_pages *pages, uint32_t place, uint32_t from);
/* Number of pages that must be taken before positions [from, to) may be written. */
uint32_t dop_pages_missing(const dop_pages *pages, uint32_t place, uint32_t from, uint32_t to);
/* Makes page i of a sequence its own, where it is shared or missing; the caller knows that a page is available.  The page is no
 * longer known by its tokens.  *out_old: the page whose rows must be copied to it; UINT32_MAX: none, it has them or is new. */
void dop_pages_own(dop_pages *pages, uint32_t place, uint32_t i, uint32_t *out_old);
/* Keeps the pages of the first n positions. */
void dop_pages_keep(dop_pages *pages, uint32_t place, uint32_t n);
/* Gives `to`, which has no pages, those of the first n positions of `from`, which may have fewer (dop_pages_begin). */
void dop_pages_share(dop_pages *pages, uint32_t from, uint32_t to, uint32_t n);
/* Records that the first n keys (prefix.h: seed and tokens) of a sequence are in its pages.  Full pages are known from now on, or are
 * exchanged for known ones with the same keys.  No step that reads them may be in flight. */
void dop_pages_note(dop_pages *pages, uint32_t place, uint64_t seed, const uint32_t *tokens, uint32_t n);
/* How many of these keys known pages cover, from the first on. */
uint32_t dop_pages_match(const dop_pages *pages, uint64_t seed, const uint32_t *tokens, size_t n);
/* Gives a sequence without pages the known pages for the beginning of these tokens, and returns how many tokens they cover. */
uint32_t dop_pages_find(dop_pages *pages, uint32_t place, uint64_t seed, const uint32_t *tokens, size_t n);

#endif
