/* Eight lanes in one vector, for processors with AVX2. Only this file is compiled for AVX2, so the program also runs on
 * other processors. */
#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#define WIDTH 8
#define OPERATIONS dop_lanes_of_8
#include "compiler/pack/quant_lanes.c"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#include "compiler/pack/quant_lanes.h"

const dop_lanes *
dop_lanes_best(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return &dop_lanes_of_8;
#endif
    return &dop_lanes_of_4;
}
