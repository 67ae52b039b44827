#include "runtime/model/draft_policy.h"

#include <math.h>

/* The weight of a round one round later. */
static const double fading = 0.9;
/* Weight of a new measurement in the running average of a time.  A smaller time replaces the average, because what else the machine
 * does makes steps slower, never faster. */
static const double rising = 0.25;
/* The assumed cost of each further row of a step, in steps of one row, until it is measured. */
static const double row_cost = 0.25;
/* What a round must gain to pay: the first tokens without drafts take longer than later ones, because no steps run ahead of
 * them, so that rounds look better than they are until more tokens were measured. */
static const double least_gain = 1.05;
/* The share of time that trials may lose. */
static const double trial_share = 0.02;
enum { FIRST_TOKENS = 4, NEXT_TOKENS = 1, FIRST_WAIT = 32, MOST_WAIT = 1024, MOST_CREDIT = 4 }; /* tokens */
/* What is believed before the first round, as so many judged drafts. */
static const double prior_judged = 2, prior_chance = 0.6;

void
dop_draft_policy_init(dop_draft_policy *policy, const uint32_t *rows, uint32_t n_rows)
{
    /* The first tokens say how long one takes without drafts. */
    *policy = (dop_draft_policy){
        .right = prior_chance * prior_judged, .judged = prior_judged, .rounds = 1, .wait = FIRST_TOKENS};
    for (; policy->n_sizes < n_rows && policy->n_sizes < DOP_DRAFT_SIZES; policy->n_sizes++)
        policy->sizes[policy->n_sizes].rows = rows[policy->n_sizes];
}

void
dop_draft_policy_follow(dop_draft_policy *policy, const dop_draft_policy *last)
{
    dop_draft_policy *p = policy;
    if (last->token_ms <= 0 || last->n_sizes != p->n_sizes)
        return;
    p->token_ms = last->token_ms;
    p->draft_ms = last->draft_ms;
    p->wait = NEXT_TOKENS;
    for (uint32_t i = 0; i < p->n_sizes; i++)
        p->sizes[i] = last->sizes[i];
    p->right = last->right / last->judged * prior_judged;
}

static void
keep_time(double *kept, double ms)
{
    if (ms > 0) /* or the clock is too coarse */
        *kept = *kept <= 0 || ms < *kept ? ms : *kept + rising * (ms - *kept);
}

static double
expected(uint32_t rows)
{
    return 1 + row_cost * (rows - 1);
}

/* Time of a round of size i in single steps: measured, or in proportion to the nearest size that was. */
static double
cost_of(const dop_draft_policy *p, uint32_t i)
{
    double cost = expected(p->sizes[i].rows);
    if (p->token_ms <= 0)
        return cost;
    for (uint32_t d = 0; d < p->n_sizes; d++)
        for (int side = 0; side < 2; side++) {
            uint32_t k = side ? i + d : i - d; /* wraps around below 0 */
            if (k < p->n_sizes && p->sizes[k].ms > 0)
                return p->sizes[k].ms / p->token_ms * cost / expected(p->sizes[k].rows);
        }
    return cost;
}

/* Tokens per time of a round with n drafts in size i, times that of single steps. */
static double
gain_of(const dop_draft_policy *p, uint32_t i, uint32_t n)
{
    double chance = p->right / p->judged, reached = 1, tokens = 1;
    for (uint32_t k = 0; k < n; k++)
        tokens += reached *= chance;
    double drafts = p->token_ms > 0 ? n * p->draft_ms / p->token_ms : 0;
    return tokens / (cost_of(p, i) + drafts + p->doubts / p->rounds);
}

static uint32_t
size_for(const dop_draft_policy *p, uint32_t rows)
{
    uint32_t i = 0;
    while (i + 1 < p->n_sizes && p->sizes[i].rows < rows)
        i++;
    return i;
}

uint32_t
dop_draft_policy_length(const dop_draft_policy *policy, uint32_t unfed, uint32_t most, bool *out_pays)
{
    const dop_draft_policy *p = policy;
    const uint32_t smallest = size_for(p, unfed + 1);
    uint32_t best = 1, trial = 1;
    double best_gain = 0, trial_gain = 0;
    for (uint32_t n = 1; n <= most; n++) {
        const uint32_t i = size_for(p, unfed + n);
        const double gain = gain_of(p, i, n);
        if (gain >= best_gain) {
            best_gain = gain;
            best = n;
        }
        if (i == smallest && gain >= trial_gain) {
            trial_gain = gain;
            trial = n;
        }
    }
    *out_pays = best_gain > least_gain;
    return *out_pays ? best : trial;
}

/* Time of a step of so many rows: measured, or in proportion to the nearest size that was, or in steps of one row. */
static double
ms_of(const dop_draft_policy *p, uint32_t rows)
{
    const uint32_t i = size_for(p, rows);
    for (uint32_t d = 0; d < p->n_sizes; d++)
        for (int side = 0; side < 2; side++) {
            const uint32_t k = side ? i + d : i - d; /* wraps around below 0 */
            if (k < p->n_sizes && p->sizes[k].ms > 0)
                return p->sizes[k].ms * expected(p->sizes[i].rows) / expected(p->sizes[k].rows);
        }
    return expected(p->sizes[i].rows);
}

uint32_t
dop_draft_policy_share(const dop_draft_policy *policy, uint32_t sequences, uint32_t most, bool *out_pays)
{
    const dop_draft_policy *p = policy;
    const double chance = p->right / p->judged, plain = ms_of(p, sequences);
    double best_gain = 0, reached = 1, tokens = 1;
    uint32_t best = 1;
    for (uint32_t n = 1; n <= most; n++) {
        tokens += reached *= chance;
        const double gain = tokens * plain / (ms_of(p, sequences * (1 + n)) + n * p->draft_ms);
        if (gain > best_gain) {
            best_gain = gain;
            best = n;
        }
    }
    *out_pays = best_gain > least_gain;
    return *out_pays ? best : 1;
}

void
dop_draft_policy_shared(dop_draft_policy *policy, const dop_draft_round *round, uint32_t sequences, uint32_t ended)
{
    dop_draft_policy *p = policy;
    const uint32_t i = size_for(p, round->rows);
    bool pays;
    if (p->sizes[i].uses++ > 0)
        keep_time(&p->sizes[i].ms, round->step_ms);
    if (round->drafts == 0)
        return;
    keep_time(&p->draft_ms, round->draft_ms);
    p->right = p->right * fading + round->accepted;
    p->judged = p->judged * fading + round->accepted + ended;
    (void)dop_draft_policy_share(p, sequences, 1, &pays);
    const double made = 1 + round->accepted / (double)sequences,
                 lost = ms_of(p, round->rows) / ms_of(p, sequences) - made;
    p->credit = fmin(fmax(p->credit - lost, 0), MOST_CREDIT);
    p->back_off = pays || p->credit > 0     ? 0
                  : p->back_off == 0        ? FIRST_WAIT
                  : p->back_off < MOST_WAIT ? 2 * p->back_off
                                            : MOST_WAIT;
    p->wait = p->back_off;
}

static void
end_tokens(dop_draft_policy *p)
{
    if (p->plain < FIRST_TOKENS)
        return;
    keep_time(&p->token_ms, p->plain_ms / p->plain);
    p->plain = 0;
    p->plain_ms = 0;
}

void
dop_draft_policy_token(dop_draft_policy *policy, double ms)
{
    policy->plain++;
    policy->plain_ms += ms;
    if (policy->plain == 4 * FIRST_TOKENS) /* several submissions, each of which may be of several steps */
        end_tokens(policy);
}

void
dop_draft_policy_round(dop_draft_policy *policy, const dop_draft_round *round)
{
    dop_draft_policy *p = policy;
    const dop_draft_round *r = round;
    const uint32_t i = size_for(p, r->rows);
    const bool ended = r->accepted < r->drafts; /* by a draft that was not accepted */
    bool pays;
    end_tokens(p);
    if (r->drafts > 0)
        keep_time(&p->draft_ms, r->draft_ms / r->drafts);
    if (p->sizes[i].uses++ > 0) /* the first use may have to wait for pipelines */
        keep_time(&p->sizes[i].ms, r->step_ms);
    if (!r->judged)
        return;
    p->right = p->right * fading + r->accepted;
    p->judged = p->judged * fading + r->accepted + (ended ? 1 : 0);
    p->doubts = p->doubts * fading + (r->doubt ? 1 : 0);
    p->rounds = p->rounds * fading + 1;
    (void)dop_draft_policy_length(p, 1, p->sizes[p->n_sizes - 1].rows - 1, &pays);
    const double made = r->accepted + (r->doubt ? 0 : 1), lost = cost_of(p, i) - made;
    p->credit = fmin(fmax(p->credit - lost, 0), MOST_CREDIT);
    if (pays || p->credit > 0) {
        p->back_off = p->wait = 0;
        return;
    }
    double least = lost / trial_share;
    least = least < MOST_WAIT ? least : MOST_WAIT;
    p->back_off = p->back_off == 0 ? FIRST_WAIT : p->back_off < MOST_WAIT / 2 ? 2 * p->back_off : MOST_WAIT;
    p->back_off = least > p->back_off ? (uint32_t)least : p->back_off;
    p->wait = p->back_off;
}
