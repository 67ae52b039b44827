/* Files of tests are written piece by piece, some of which begin at multiples of a power of two. */
#ifndef DOPPLER_TESTS_UNIT_BUF_ALIGN_H
#define DOPPLER_TESTS_UNIT_BUF_ALIGN_H

#include "base/base.h"

/* Pads with zeros to a multiple of `align`, a power of two. */
static inline void
buf_align(dop_buf *b, size_t align)
{
    dop_buf_zeros(b, (size_t)(dop_align_u64(b->size, align) - b->size));
}

#endif
