/* Little-endian loads, independent of host byte order. */
#ifndef DOPPLER_BASE_ENCODING_LITTLE_ENDIAN_H
#define DOPPLER_BASE_ENCODING_LITTLE_ENDIAN_H

#include <stdint.h>

/* Returns the 32-bit word i of the bytes at p. */
static inline uint32_t
dop_word_at(const uint8_t *p, uint64_t i)
{
    p += 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

#endif
