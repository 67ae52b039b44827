/* Allocates pages before a sequence is written, and releases them after it is rewound. */
#include "runtime/step/sequence_pages.h"
#include "runtime/model/model.h"
#include "runtime/step/transfer.h"

dop_status
dop_sequence_reserve(dop_sequence *sequence, uint32_t from, uint32_t to, dop_diag *diag)
{
    dop_model *m = sequence->model;
    dop_pages *p = &m->pages;
    const uint32_t place = sequence->place, n = dop_pages_missing(p, place, from, to);
    dop_status st = DOP_OK;
    if (p->page == 0 || from >= to)
        return DOP_OK;
    if (n > dop_pages_available(p))
        return DOP_FAIL_IN(diag, DOP_E_FULL, m->plan.path,
                           "%u more pages of %u positions are needed and %u of %u are free: destroy or rewind a "
                           "sequence, or compile with a larger `ctx_total`",
                           n, p->page, dop_pages_available(p), p->n_pages);
    for (uint32_t i = dop_pages_begin(p, place, from); i <= (to - 1) / p->page && st == DOP_OK; i++) {
        uint32_t old, rows = from > i * p->page ? from - i * p->page : 0;
        dop_pages_own(p, place, i, &old);
        if (old != UINT32_MAX && rows > 0) {
            p->copied++;
            st = dop_transfer_copy_page(m, old, p->tables[(size_t)place * p->per + i], rows, diag);
        }
    }
    if (st != DOP_OK) /* the page's tokens must be fed again */
        sequence->n_fed = from / p->page * p->page < sequence->n_fed ? from / p->page * p->page : sequence->n_fed;
    return st;
}

uint32_t
dop_sequence_end(const dop_sequence *sequence, uint32_t schedule, uint32_t end)
{
    const dop_plan *plan = &sequence->model->plan;
    return end + (plan->schedules[schedule].ordering != DOP_ORDER_BARRIERS && end < plan->model->ctx);
}

void
dop_sequence_note(dop_sequence *sequence)
{
    dop_sequence *s = sequence;
    const uint32_t *keys = dop_prefix_keys(&s->prefix, s->tokens, s->n_fed);
    if (keys) /* without keys its pages are not found again */
        dop_pages_note(&s->model->pages, s->place, s->prefix.seed, keys, s->n_fed);
}

void
dop_sequence_trim(dop_sequence *sequence)
{
    dop_pages_keep(&sequence->model->pages, sequence->place, sequence->n_fed);
}
