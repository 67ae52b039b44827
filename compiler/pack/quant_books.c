/* Quantizes blocks of iq3_s, whose codebook entries are the magnitudes of four values. */
#include "base/base.h"
#include "compiler/pack/quant_levels.h"
#include "ir/codebooks.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { ENTRIES = 512, POINTS = 4096, NEAR = 8, SUBS = 8, SUB = 32, FOURS = SUB / 4 };

/* near[p]: codebook entries nearest to point p, nearest first. Coordinate i of a point is the odd number 2b + 1 from 1
 * to 15, where b is bits 3i .. 3i + 2 of p. */
static uint16_t near[POINTS][NEAR];
static float level[ENTRIES][4];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
find_near_entries(void)
{
    for (uint32_t e = 0; e < ENTRIES; e++)
        for (uint32_t i = 0; i < 4; i++)
            level[e][i] = (float)(2 * (dop_book_iq3_s[e] >> (3 * i) & 7) + 1);
    for (uint32_t p = 0; p < POINTS; p++) {
        float best[NEAR];
        uint32_t n = 0;
        for (uint32_t e = 0; e < ENTRIES; e++) {
            float apart = 0;
            for (uint32_t i = 0; i < 4; i++) {
                const float by = level[e][i] - (float)(2 * (p >> (3 * i) & 7) + 1);
                apart += by * by;
            }
            uint32_t at = n < NEAR ? n++ : NEAR - 1;
            if (at == NEAR - 1 && n == NEAR && e >= NEAR && !(apart < best[at]))
                continue;
            for (; at > 0 && best[at - 1] > apart; at--) {
                best[at] = best[at - 1];
                near[p][at] = near[p][at - 1];
            }
            best[at] = apart;
            near[p][at] = (uint16_t)e;
        }
    }
}

typedef struct sums {
    double error, xq, qq;
} sums;

/* Chooses the codebook entries nearest to the magnitudes a[SUB] / scale. w: weights of their squared errors; NULL: 1.
 * Returns the error, and the sums that determine the best scale for these entries. */
static sums
choose_book_entries(const float *a, const float *w, float scale, uint16_t *entry)
{
    const float inverse = scale > 1e-37f ? 1 / scale : 0;
    float error = 0, xq = 0, qq = 0;
    for (uint32_t g = 0; g < FOURS; g++) {
        float v[4], least = INFINITY;
        uint32_t point = 0;
        for (uint32_t i = 0; i < 4; i++) {
            v[i] = a[4 * g + i] * inverse;
            point |= (uint32_t)fminf(fmaxf(rintf((v[i] - 1) / 2), 0), 7) << (3 * i);
        }
        for (uint32_t k = 0; k < NEAR; k++) {
            const float *q = level[near[point][k]];
            float apart = 0;
            for (uint32_t i = 0; i < 4; i++)
                apart += (w ? w[4 * g + i] : 1) * (v[i] - q[i]) * (v[i] - q[i]);
            if (apart < least) {
                least = apart;
                entry[g] = near[point][k];
            }
        }
        for (uint32_t i = 0; i < 4; i++) {
            const float q = level[entry[g]][i], e = a[4 * g + i] - scale * q, wq = (w ? w[4 * g + i] : 1) * q;
            error += (w ? w[4 * g + i] : 1) * e * e;
            xq += wq * a[4 * g + i];
            qq += wq * q;
        }
    }
    return (sums){(double)error, (double)xq, (double)qq};
}

static float
fit_book_scale(const float *a, const float *w)
{
    const int steps = w ? 18 : 9;
    float most = 0, best = 0, better = 0;
    double least = INFINITY;
    uint16_t entry[FOURS];
    for (uint32_t i = 0; i < SUB; i++)
        most = fmaxf(most, a[i]);
    /* Initial scales map the largest magnitude to different places near the upper end of the range. Two more rounds use
     * the best scale for the entries found so far. */
    for (int step = 0; step < steps + 2 && most > 0; step++) {
        float scale = step < steps ? most / (11.8f + 0.6f * (float)step) : better;
        const sums s = choose_book_entries(a, w, scale, entry);
        if (s.error < least) {
            least = s.error;
            best = scale;
            better = s.qq > 0 ? (float)(s.xq / s.qq) : scale;
        }
    }
    return best;
}

void
dop_make_iq3_s(const float *x, const float *w, uint8_t *out)
{
    float a[SUBS * SUB], scale[SUBS], most = 0;
    uint16_t entry[SUBS * FOURS];
    uint32_t s[SUBS] = {0};
    double least = INFINITY;
    pthread_once(&once, find_near_entries);
    for (uint32_t j = 0; j < SUBS; j++) {
        for (uint32_t i = SUB * j; i < SUB * (j + 1); i++)
            a[i] = fabsf(x[i]);
        scale[j] = fit_book_scale(a + SUB * j, w ? w + SUB * j : NULL);
        most = fmaxf(most, scale[j]);
    }
    float d = most / 31;
    for (int turn = 0; turn < 2; turn++) {
        const uint16_t h = dop_f32_to_f16(fminf(d, 65504));
        double total = 0, xq = 0, qq = 0;
        uint32_t tried[SUBS];
        uint16_t found[SUBS * FOURS];
        d = dop_f16_to_f32(h);
        for (uint32_t j = 0; j < SUBS; j++) {
            const int from = d > 0 ? (int)rintf(fminf((scale[j] / d - 1) / 2, 15)) : 0;
            sums best = {.error = INFINITY};
            tried[j] = 0;
            for (int k = from - 1; k <= from + 1; k++) {
                uint16_t e[FOURS];
                if (k < 0 || k > 15)
                    continue;
                const sums r = choose_book_entries(a + SUB * j, w ? w + SUB * j : NULL, d * (float)(1 + 2 * k), e);
                if (r.error < best.error) {
                    best = r;
                    tried[j] = (uint32_t)k;
                    memcpy(found + FOURS * j, e, sizeof e);
                }
            }
            total += best.error;
            xq += best.xq * (1 + 2 * tried[j]);
            qq += best.qq * (1 + 2 * tried[j]) * (1 + 2 * tried[j]);
        }
        if (total < least) {
            least = total;
            out[0] = (uint8_t)(h & 255);
            out[1] = (uint8_t)(h >> 8);
            memcpy(s, tried, sizeof s);
            memcpy(entry, found, sizeof entry);
        }
        d = qq > 0 ? (float)(xq / qq) : d;
    }
    for (uint32_t j = 0; j < SUBS; j++)
        out[106 + j / 2] = (uint8_t)(out[106 + j / 2] | s[j] << (4 * (j % 2)));
    for (uint32_t g = 0; g < SUBS * FOURS; g++) {
        out[2 + g] = (uint8_t)(entry[g] & 255);
        out[66 + g / 8] = (uint8_t)(out[66 + g / 8] | entry[g] >> 8 << (g % 8));
    }
    for (uint32_t i = 0; i < SUBS * SUB; i++)
        out[74 + i / 8] = (uint8_t)(out[74 + i / 8] | (x[i] < 0) << (i % 8));
}
