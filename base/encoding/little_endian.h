/* Words of files, whose first byte is the lowest one, on any machine. */
#ifndef DOPPLER_BASE_ENCODING_LITTLE_ENDIAN_H
#define DOPPLER_BASE_ENCODING_LITTLE_ENDIAN_H

#include <stdint.h>

/* Word i of four bytes each, from p on. */
static inline uint32_t
dop_word_at(const uint8_t *p, uint64_t i)
{
    p += 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

#endif
