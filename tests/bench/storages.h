/* Storage types as make_gguf.c writes them. */
#ifndef DOPPLER_TESTS_BENCH_STORAGES_H
#define DOPPLER_TESTS_BENCH_STORAGES_H

#include <stdint.h>

/* Number in the file, values and bytes of a block: ggml's types.  Blocks are random bits but for two halves: the scale, at a byte of
 * the block, is the wished deviation divided by `deviation`, that of what it is multiplied by; what is added or subtracted, at
 * another byte unless that is 0, is the wished deviation times `offset`, which moves the mean to about zero. */
typedef struct storage {
    const char *name;
    uint32_t id, values, bytes;
    uint32_t scale_at, offset_at;
    double deviation, offset;
} storage;

static const storage storages[] = {
    {"f32", 0, 1, .bytes = 4},
    {"f16", 1, 1, .bytes = 2},
    {"q8_0", 8, 32, 34, .deviation = 74},
    {"q4_0", 2, 32, 18, .deviation = 4.6},
    {"q4_1", 3, 32, 20, .deviation = 4.6, .offset_at = 2, .offset = -1.6},
    {"q5_0", 6, 32, 22, .deviation = 9.2},
    {"q5_1", 7, 32, 24, .deviation = 9.2, .offset_at = 2, .offset = -1.7},
    {"q2_k", 10, 256, 84, .scale_at = 80, .deviation = 1.1 * 8, .offset_at = 82, .offset = 1.4 / 8},
    {"q3_k", 11, 256, 110, .scale_at = 108, .deviation = 2.3 * 18},
    {"q4_k", 12, 256, 144, .deviation = 4.6 * 32, .offset_at = 2, .offset = 1.6 / 32},
    {"q5_k", 13, 256, 176, .deviation = 9.2 * 32, .offset_at = 2, .offset = 1.7 / 32},
    {"q6_k", 14, 256, 210, .scale_at = 208, .deviation = 18 * 74},
    {"iq4_nl", 20, 32, 18, .deviation = 70},
    {"mxfp4", 39, 32, .bytes = 17},
    {"iq4_xs", 23, 256, 136, .deviation = 70 * 18},
    {"iq3_s", 21, 256, 110, .deviation = 7.5 * 18},
    {"iq3_xxs", 18, 256, 98, .deviation = 30 * 4.6},
    {"iq2_s", 22, 256, 82, .deviation = 25 * 2.3},
    {"iq2_xs", 17, 256, 74, .deviation = 25 * 2.3},
    {"iq2_xxs", 16, 256, 66, .deviation = 25 * 2.3},
    {"iq1_m", 29, 256, 56, .deviation = 0.75 * 9.2},
    {"iq1_s", 19, 256, 50, .deviation = 0.75 * 9.2},
    {"tq1_0", 34, 256, 54, .scale_at = 52, .deviation = 0.8},
    {"tq2_0", 35, 256, 66, .scale_at = 64, .deviation = 1.2},
    {"nvfp4", 40, 64, .bytes = 36},
    {"q1_0", 41, 128, 18, .deviation = 1},
    {"q2_0", 42, 64, 18, .deviation = 1.2},
};

#endif
