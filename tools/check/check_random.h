/* Random numbers for checks: the same sequence for a seed on every machine. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_RANDOM_H
#define DOPPLER_TOOLS_CHECK_CHECK_RANDOM_H

#include "tools/check/check.h"

uint32_t dop_check_u32(dop_check_random *r);
float dop_check_uniform(dop_check_random *r); /* 0 <= x < 1 */
float dop_check_normal(dop_check_random *r);  /* mean 0, variance 1, |x| < 4 */

#endif
