/* Codebooks of storage types with one to three bits per value, from codebooks.def. */
#ifndef DOPPLER_IR_CODEBOOKS_H
#define DOPPLER_IR_CODEBOOKS_H

#include "base/storage/types.h"

#define BOOK(name, values, bits, ...) extern const uint16_t dop_book_##name[];
#include "ir/codebooks.def"
#undef BOOK

/* Absolute values for the level numbers in an entry. */
extern const uint8_t dop_levels_iq2[3], dop_levels_iq3_xxs[8];

/* Writes the codebook of a type in the layout of the kernels, dop_type_of(t)->pack.book bytes. */
void dop_type_book(dop_type t, uint8_t *out);

#endif
