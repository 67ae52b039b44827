#include "runtime/step/speculator.h"

#include <stdlib.h>
#include <string.h>

void
dop_speculator_destroy(dop_speculator *speculator)
{
    if (!speculator)
        return;
    free(speculator->row);
    free(speculator->ngrams.ends);
    free(speculator);
}

void
dop_speculator_forget(dop_speculator *speculator)
{
    if (!speculator)
        return;
    speculator->known = 0;
    speculator->again = false;
    speculator->ahead = UINT32_MAX;
}

void
dop_speculator_end(dop_sequence *sequence)
{
    dop_speculator *p = sequence->speculator;
    if (p && p->counts.steps > 0)
        sequence->model->drift.policy = p->policy;
    dop_speculator_destroy(p);
    sequence->speculator = NULL;
}

uint32_t
dop_speculator_limit(const dop_speculator *speculator, uint32_t wanted)
{
    return speculator && speculator->ahead < wanted ? speculator->ahead : wanted;
}

void
dop_speculator_took(dop_speculator *speculator)
{
    if (speculator && speculator->ahead != UINT32_MAX && speculator->ahead > 0)
        speculator->ahead--;
}

dop_status
dop_ngrams_init(dop_ngrams *ngrams, uint32_t n, uint32_t ctx, dop_diag *diag)
{
    uint32_t size = 64;
    while (size < ctx && size < 1u << 30)
        size *= 2;
    *ngrams = (dop_ngrams){.n = n, .mask = size - 1, .ends = calloc(size, sizeof *ngrams->ends), .n_indexed = 0};
    return ngrams->ends ? DOP_OK : DOP_NO_MEMORY(diag);
}

/* Returns an FNV-1a hash of the n tokens before `end`. */
static uint32_t
hash_ngram(const dop_ngrams *g, const uint32_t *tokens, uint32_t end)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = end - g->n; i < end; i++)
        h = (h ^ tokens[i]) * 16777619u;
    return (h ^ h >> 15) & g->mask;
}

/* Entries are only hints, because the text may have changed since: the n-grams are compared. */
uint32_t
dop_ngrams_find(dop_ngrams *ngrams, const uint32_t *tokens, uint32_t n)
{
    dop_ngrams *g = ngrams;
    if (n <= g->n)
        return 0;
    if (g->n_indexed > n)
        g->n_indexed = n;
    for (uint32_t end = g->n_indexed > g->n ? g->n_indexed : g->n; end < n; end++)
        g->ends[hash_ngram(g, tokens, end)] = end;
    g->n_indexed = n;
    uint32_t end = g->ends[hash_ngram(g, tokens, n)];
    bool same = end >= g->n && end < n && memcmp(tokens + end - g->n, tokens + n - g->n, g->n * sizeof *tokens) == 0;
    return same ? end : 0;
}
