/* Random numbers for checks: the same sequence for a seed on every machine. */
#include "tools/check/check_random.h"
#include "tools/check/check.h"

/* splitmix64 (public domain, S. Vigna). */
static uint64_t
draw_check_random(dop_check_random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint32_t
dop_check_u32(dop_check_random *r)
{
    return (uint32_t)(draw_check_random(r) >> 32);
}

float
dop_check_uniform(dop_check_random *r)
{
    return (float)(draw_check_random(r) >> 40) / 16777216.0f;
}

float
dop_check_normal(dop_check_random *r)
{
    /* Sum of four 16-bit uniform values, each with variance 1/12. */
    uint64_t x = draw_check_random(r);
    uint32_t sum =
        (uint32_t)(x & 0xffff) + (uint32_t)(x >> 16 & 0xffff) + (uint32_t)(x >> 32 & 0xffff) + (uint32_t)(x >> 48);
    return ((float)sum / 65536.0f - 2.0f) * 1.7320508f;
}
