#include "runtime/model/draft_policy.h"

#include <math.h>

/* Decay of a round's weight per later round. */
static const double fading = 0.9;
/* Assumed cost of each additional row of a step, in single-row steps, until it is measured. */
static const double row_cost = 0.25;
/* Minimum gain of a round that pays. The first tokens without drafts are slower than later ones, because no steps run
 * ahead of them. Rounds therefore look too good until more tokens are measured. */
static const double least_gain = 1.05;
/* Minimum gain of a chosen draft count, relative to the best one. */
static const double near_best = 0.94;
/* Maximum share of time that trials may lose. */
static const double trial_share = 0.02;
enum { FIRST_TOKENS = 4, NEXT_TOKENS = 1, FIRST_WAIT = 32, MOST_WAIT = 1024 }; /* tokens */
/* Maximum credit (gain that later rounds may lose again): within a text, and carried over to the next one. */
static const double most_credit = 32, next_credit = 4; /* tokens */
enum { FEW = 3 };                                      /* with fewer samples, a time is not reliable */
/* Prior: the assumed acceptance rate, and its weight in judged drafts. */
static const double prior_judged = 2, prior_chance = 0.6;

void
dop_draft_policy_init(dop_draft_policy *policy, const uint32_t *rows, uint32_t n_rows)
{
    /* The first tokens measure the time of one token without drafts. */
    *policy = (dop_draft_policy){
        .right = prior_chance * prior_judged, .judged = prior_judged, .rounds = 1, .wait = FIRST_TOKENS};
    for (; policy->n_sizes < n_rows && policy->n_sizes < DOP_DRAFT_SIZES; policy->n_sizes++)
        policy->sizes[policy->n_sizes].rows = rows[policy->n_sizes];
}

void
dop_draft_policy_follow(dop_draft_policy *policy, const dop_draft_policy *last)
{
    dop_draft_policy *p = policy;
    if (last->n_sizes != p->n_sizes || (last->token.ms <= 0 && last->draft.ms <= 0))
        return;
    p->token = last->token;
    p->draft = last->draft;
    /* steps of several sequences do not measure the time of a single token */
    p->wait = p->token.ms > 0 ? NEXT_TOKENS : p->wait;
    p->credit = fmin(last->credit, next_credit);
    for (uint32_t i = 0; i < p->n_sizes; i++)
        p->sizes[i] = last->sizes[i];
    p->right = last->right / last->judged * prior_judged;
}

static void
keep_time(dop_draft_time *t, double ms)
{
    double sum = 0, least, most;
    if (ms <= 0) /* the clock is too coarse */
        return;
    t->last[t->n++ % DOP_DRAFT_TIMES] = ms;
    least = most = ms;
    const uint32_t n = t->n < DOP_DRAFT_TIMES ? t->n : DOP_DRAFT_TIMES;
    for (uint32_t i = 0; i < n; i++) {
        sum += t->last[i];
        least = fmin(least, t->last[i]);
        most = fmax(most, t->last[i]);
    }
    t->ms = n < FEW ? least : (sum - least - most) / (n - 2);
}

static double
expect_step_cost(uint32_t rows)
{
    return 1 + row_cost * (rows - 1);
}

/* Returns the time of a step of size i: measured, or scaled from the nearest measured size; 0: none is measured. A size
 * with few samples gets the smaller of the two, because one slow step would otherwise rule it out for good. */
static double
ms_of(const dop_draft_policy *p, uint32_t i)
{
    const dop_draft_time *own = &p->sizes[i].time;
    double near = 0;
    for (uint32_t d = 1; d < p->n_sizes && near <= 0; d++)
        for (int side = 0; side < 2; side++) {
            const uint32_t k = side ? i + d : i - d; /* i - d wraps around below 0 and fails the bounds check */
            if (k < p->n_sizes && p->sizes[k].time.ms > 0 && near <= 0)
                near = p->sizes[k].time.ms * expect_step_cost(p->sizes[i].rows) / expect_step_cost(p->sizes[k].rows);
        }
    if (own->ms <= 0 || (own->n > 0 && own->n < FEW && near > 0))
        return own->ms > 0 ? fmin(own->ms, near) : near;
    return own->ms;
}

/* Returns the cost of a step of size i plus n drafts, in single-row steps. A multi-row step never costs less than 1: a
 * lower ratio means that the single-row samples were disturbed. */
static double
cost_of(const dop_draft_policy *p, uint32_t i, uint32_t n)
{
    const double ms = ms_of(p, i);
    if (p->token.ms <= 0 || ms <= 0)
        return expect_step_cost(p->sizes[i].rows);
    return fmax(ms / p->token.ms, 1) + n * p->draft.ms / p->token.ms;
}

/* Returns the speedup over single steps of a round with n drafts in size i, if each draft is right with the given
 * chance. */
static double
gain_of(const dop_draft_policy *p, uint32_t i, uint32_t n, double chance)
{
    double reached = 1, tokens = 1;
    for (uint32_t k = 0; k < n; k++)
        tokens += reached *= chance;
    return tokens / (cost_of(p, i, n) + p->doubts / p->rounds);
}

static uint32_t
find_draft_size(const dop_draft_policy *p, uint32_t rows)
{
    uint32_t i = 0;
    while (i + 1 < p->n_sizes && p->sizes[i].rows < rows)
        i++;
    return i;
}

/* Returns the size for trials: the smallest in which a round would pay if all drafts were right. Smaller ones could
 * never pay. */
static uint32_t
trial_size(const dop_draft_policy *p, uint32_t unfed, uint32_t most)
{
    for (uint32_t n = 1; n <= most; n++)
        if (gain_of(p, find_draft_size(p, unfed + n), n, 1) > least_gain)
            return find_draft_size(p, unfed + n);
    return find_draft_size(p, unfed + 1);
}

uint32_t
dop_draft_policy_length(const dop_draft_policy *policy, uint32_t unfed, uint32_t most, bool *out_pays)
{
    const dop_draft_policy *p = policy;
    const uint32_t tried = trial_size(p, unfed, most);
    const double chance = p->right / p->judged;
    uint32_t taken = 1, trial = 1;
    double best_gain = 0, trial_gain = 0;
    for (uint32_t n = 1; n <= most; n++)
        best_gain = fmax(best_gain, gain_of(p, find_draft_size(p, unfed + n), n, chance));
    *out_pays = best_gain > least_gain;
    /* A draft count above the best one is allowed if `credit` covers the loss when all drafts are wrong. */
    const double least = fmax(best_gain * near_best, least_gain);
    for (uint32_t n = 1; n <= most; n++) {
        const uint32_t i = find_draft_size(p, unfed + n);
        const double gain = gain_of(p, i, n, chance);
        if (gain >= best_gain || (gain >= least && cost_of(p, i, n) - 1 <= p->credit))
            taken = n;
        if (i == tried && gain >= trial_gain) {
            trial_gain = gain;
            trial = n;
        }
    }
    return *out_pays ? taken : trial;
}

/* Returns the time of a step that gives each sequence one token. */
static double
plain_of(const dop_draft_policy *p, uint32_t sequences)
{
    const uint32_t i = find_draft_size(p, sequences);
    const double ms = sequences == 1 && p->token.ms > 0 ? p->token.ms : ms_of(p, i);
    return ms > 0 ? ms : expect_step_cost(sequences == 1 ? 1 : p->sizes[i].rows);
}

/* Returns the cost of a step of `rows` rows of several sequences plus n draft steps, relative to a step that gives each
 * sequence one token. */
static double
shared_cost(const dop_draft_policy *p, uint32_t sequences, uint32_t rows, uint32_t n)
{
    const double plain = plain_of(p, sequences), ms = ms_of(p, find_draft_size(p, rows));
    return fmax((ms > 0 ? ms : expect_step_cost(rows)) / plain, 1) + n * p->draft.ms / plain;
}

uint32_t
dop_draft_policy_share(const dop_draft_policy *policy, uint32_t sequences, uint32_t most, bool *out_pays)
{
    const dop_draft_policy *p = policy;
    const double chance = p->right / p->judged;
    double best_gain = 0, reached = 1, tokens = 1;
    uint32_t best = 1;
    for (uint32_t n = 1; n <= most; n++) {
        tokens += reached *= chance;
        const double gain = tokens / shared_cost(p, sequences, sequences * (1 + n), n);
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
    const uint32_t i = find_draft_size(p, round->rows);
    bool pays;
    if (round->drafts == 0 && sequences == 1) /* one sequence has its own decode schedule */
        keep_time(&p->token, round->step_ms);
    else if (p->sizes[i].uses++ > 0)
        keep_time(&p->sizes[i].time, round->step_ms);
    if (round->drafts == 0)
        return;
    keep_time(&p->draft, round->draft_ms);
    p->right = p->right * fading + round->accepted;
    p->judged = p->judged * fading + round->accepted + ended;
    const uint32_t each = (round->drafts + sequences - 1) / sequences;
    (void)dop_draft_policy_share(p, sequences, each, &pays);
    const double made = 1 + round->accepted / (double)sequences,
                 lost = shared_cost(p, sequences, round->rows, each) - made;
    p->credit = fmin(fmax(p->credit - lost, 0), most_credit);
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
    keep_time(&p->token, p->plain_ms / p->plain);
    p->plain = 0;
    p->plain_ms = 0;
}

void
dop_draft_policy_token(dop_draft_policy *policy, double ms)
{
    policy->plain++;
    policy->plain_ms += ms;
    if (policy->plain == 4 * FIRST_TOKENS) /* covers several submissions, each of which may contain several steps */
        end_tokens(policy);
}

void
dop_draft_policy_round(dop_draft_policy *policy, const dop_draft_round *round)
{
    dop_draft_policy *p = policy;
    const dop_draft_round *r = round;
    const uint32_t i = find_draft_size(p, r->rows);
    const bool ended = r->accepted < r->drafts; /* a rejected draft ended the round */
    bool pays;
    end_tokens(p);
    if (r->drafts > 0)
        keep_time(&p->draft, r->draft_ms / r->drafts);
    if (p->sizes[i].uses++ > 0) /* the first use may include waiting for pipelines */
        keep_time(&p->sizes[i].time, r->step_ms);
    if (!r->judged)
        return;
    p->right = p->right * fading + r->accepted;
    p->judged = p->judged * fading + r->accepted + (ended ? 1 : 0);
    p->doubts = p->doubts * fading + (r->doubt ? 1 : 0);
    p->rounds = p->rounds * fading + 1;
    (void)dop_draft_policy_length(p, 1, p->sizes[p->n_sizes - 1].rows - 1, &pays);
    const double made = r->accepted + (r->doubt ? 0 : 1), lost = cost_of(p, i, r->drafts) - made;
    p->credit = fmin(fmax(p->credit - lost, 0), most_credit);
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
