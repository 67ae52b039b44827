#include "runtime/sample/diffusion.h"

#include <math.h>
#include <string.h>

enum { LEADING, LINSPACE, TRAILING };       /* dop_draw_spacing */
enum { OF_NOISE, OF_VELOCITY, OF_LATENTS }; /* dop_draw_predicts */

static const char *const names[DOP_N_SAMPLERS] = {"euler", "ancestral", "ddim", "lcm"};

const char *
dop_sampler_name(dop_draw_sampler_kind kind)
{
    return names[kind];
}

bool
dop_sampler_by_name(const char *name, dop_draw_sampler_kind *out_kind)
{
    for (uint32_t i = 0; i < DOP_N_SAMPLERS; i++)
        if (strcmp(names[i], name) == 0) {
            *out_kind = (dop_draw_sampler_kind)i;
            return true;
        }
    return false;
}

/* Returns the share of the image's variance that remains after a training step (cumulative alpha). */
static double
share_left(const dop_noise_facts *f, uint32_t step)
{
    const double from = f->beta_roots ? sqrt(f->beta_first) : f->beta_first,
                 to = f->beta_roots ? sqrt(f->beta_last) : f->beta_last;
    double left = 1;
    for (uint32_t i = 0; i <= step; i++) {
        const double b = from + (to - from) * i / (f->train_steps - 1);
        left *= 1 - (f->beta_roots ? b * b : b);
    }
    return left;
}

/* Returns the noise level after a training step, sqrt((1 - a) / a) for the remaining share a. With rescaled betas the
 * last share is 0 (https://arxiv.org/abs/2305.08891, algorithm 1); it is bounded below to keep the level finite. */
static double
find_trained_level(const dop_noise_facts *f, uint32_t step)
{
    const double least = 0x1p-24;
    double left = share_left(f, step);
    if (f->rescaled) {
        const double first = sqrt(share_left(f, 0)), last = sqrt(share_left(f, f->train_steps - 1));
        const double root = (sqrt(left) - last) * first / (first - last);
        left = root * root > least ? root * root : least;
    }
    return sqrt((1 - left) / left);
}

/* Returns the noise level at a time, interpolated between training steps. */
static double
level_at(const dop_noise_facts *f, double time)
{
    const double last = f->train_steps - 1, all = time < 0 ? 0 : time < last ? time : last;
    const uint32_t at = (uint32_t)floor(all);
    const double level = find_trained_level(f, at);
    return all > at ? level + (find_trained_level(f, at + 1) - level) * (all - at) : level;
}

static double
find_step_time(const dop_noise_facts *f, dop_draw_sampler_kind kind, uint32_t step, uint32_t n)
{
    enum { DISTILLED = 50 };
    const double train = f->train_steps;
    if (kind == DOP_SAMPLER_LCM && n <= DISTILLED && f->train_steps >= DISTILLED)
        return (double)(DISTILLED - step * DISTILLED / n) * (f->train_steps / DISTILLED) - 1;
    if (f->spacing == LINSPACE) {
        const double t = n > 1 ? (train - 1) * (n - 1 - step) / (n - 1) : train - 1;
        return kind == DOP_SAMPLER_DDIM ? nearbyint(t) : t;
    }
    if (f->spacing == LEADING) {
        const double t = (double)(n - 1 - step) * (f->train_steps / n) + f->offset;
        return t < train - 1 ? t : train - 1;
    }
    const double t = nearbyint(train - step * train / n) - 1;
    return t > 0 ? t : 0;
}

void
dop_sampler_begin(const dop_noise_facts *facts, dop_draw_sampler_kind kind, uint32_t n_steps, uint64_t seed,
                  dop_draw_sampler *out)
{
    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->facts = *facts;
    out->n_steps = n_steps;
    out->seed = seed;
    for (uint32_t i = 0; i < n_steps; i++) {
        out->times[i] = find_step_time(facts, kind, i, n_steps);
        out->levels[i] = level_at(facts, out->times[i]);
    }
    out->levels[n_steps] = kind == DOP_SAMPLER_DDIM && facts->last_first ? find_trained_level(facts, 0) : 0;
    if (out->levels[n_steps] >= out->levels[n_steps - 1])
        out->levels[n_steps] = 0;
    /* With leading spacing, the first time is before the end of training, but the initial latents have the full
     * variance. DDIM and LCM start from unit noise as the model's input. */
    const bool unit = kind == DOP_SAMPLER_DDIM || kind == DOP_SAMPLER_LCM || facts->spacing == LEADING;
    out->first = unit ? hypot(out->levels[0], 1) : out->levels[0];
}

void
dop_sampler_start_at(dop_draw_sampler *s, double strength)
{
    uint32_t keep = (uint32_t)(strength * s->n_steps);
    keep = keep < 1 ? 1 : keep > s->n_steps ? s->n_steps : keep;
    const uint32_t skip = s->n_steps - keep;
    memmove(s->times, s->times + skip, keep * sizeof *s->times);
    memmove(s->levels, s->levels + skip, ((size_t)keep + 1) * sizeof *s->levels);
    s->n_steps = keep;
    s->first = s->levels[0];
}

/* Returns 64 random bits: splitmix64 of the seed and a counter (public domain, S. Vigna). */
static uint64_t
hash_counter(uint64_t seed, uint64_t n)
{
    uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns a normal value by the Box-Muller transform (https://doi.org/10.1214/aoms/1177706645). */
static double
draw_normal(uint64_t seed, uint64_t n)
{
    const double a = (double)((hash_counter(seed, 2 * n) >> 11) + 1) * 0x1p-53,
                 b = (double)(hash_counter(seed, 2 * n + 1) >> 11) * 0x1p-53;
    return sqrt(-2 * log(a)) * cos(2 * 3.14159265358979323846 * b);
}

void
dop_sampler_noise(dop_draw_sampler *s, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)draw_normal(s->seed, s->drawn++);
}

void
dop_sampler_input(const dop_draw_sampler *s, uint32_t step, const float *x, size_t n, float *out)
{
    const double by = 1 / hypot(s->levels[step], 1);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)((double)x[i] * by);
}

/* Returns the clean latents that a prediction implies for latents x at a level. */
static double
clean_of(uint8_t predicts, double x, double predicted, double level)
{
    const double all = level * level + 1;
    return predicts == OF_NOISE      ? x - level * predicted
           : predicts == OF_VELOCITY ? x / all - predicted * level / sqrt(all)
                                     : predicted;
}

/* Computes the boundary-condition weights of a consistency model, for the latents and the clean latents (the paper's
 * section 4.1; times are scaled by 10, the deviation is 0.5). */
static void
weigh_consistency(double time, double *out_skip, double *out_keep)
{
    const double t = time * 10, own = 0.5;
    *out_skip = own * own / (t * t + own * own);
    *out_keep = t / sqrt(t * t + own * own);
}

void
dop_sampler_step(dop_draw_sampler *s, uint32_t step, const float *predicted, float *x, size_t n)
{
    const double level = s->levels[step], next = s->levels[step + 1];
    const double end = 1 / hypot(next, 1); /* rescales the variance if the last step leaves noise */
    double down = next, noise = 0, skip = 0, keep = 1;
    if (s->kind == DOP_SAMPLER_ANCESTRAL && next > 0) {
        noise = next * sqrt((level * level - next * next) / (level * level));
        down = sqrt(next * next - noise * noise);
    } else if (s->kind == DOP_SAMPLER_LCM) {
        noise = next;
        weigh_consistency(s->times[step], &skip, &keep);
    }
    for (size_t i = 0; i < n; i++) {
        const double clean = clean_of(s->facts.predicts, (double)x[i], (double)predicted[i], level);
        const double y = s->kind == DOP_SAMPLER_LCM ? keep * clean + skip * (double)x[i] / hypot(level, 1)
                                                    : clean + ((double)x[i] - clean) * (down / level);
        x[i] = (float)(noise > 0 ? y + noise * draw_normal(s->seed, s->drawn++) : step + 1 < s->n_steps ? y : y * end);
    }
}

void
dop_time_embedding(double time, bool cosine_first, uint32_t shift, float *out, uint32_t n)
{
    const uint32_t half = n / 2;
    for (uint32_t i = 0; i < half; i++) {
        const double a = time * exp(-log(10000) * i / (double)(half - shift));
        out[i] = (float)(cosine_first ? cos(a) : sin(a));
        out[half + i] = (float)(cosine_first ? sin(a) : cos(a));
    }
}
