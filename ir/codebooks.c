/* Codebooks in the layout of the kernels (kernels/glsl/types/codes.glsl), made from codebooks.def. */
#include "ir/codebooks.h"

#include "base/base.h"

#define BOOK(name, values, bits, ...) const uint16_t dop_book_##name[] = {__VA_ARGS__};
#include "ir/codebooks.def"
#undef BOOK

const uint8_t dop_levels_iq2[3] = {8, 25, 43}, dop_levels_iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};

static void
put_book_word(uint8_t *p, uint32_t bits)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(bits >> (8 * i) & 255);
}

/* Writes the entries of a codebook, one byte per value, in the value order of 8-bit activations (types/int.glsl). */
static void
write_byte_entries(const uint16_t *book, uint32_t entries, uint32_t values, uint32_t bits, const uint8_t *levels,
                   uint8_t *out)
{
    static const uint8_t of_eight[8] = {0, 4, 1, 5, 2, 6, 3, 7}, of_four[4] = {0, 2, 1, 3};
    const uint8_t *order = values == 8 ? of_eight : of_four;
    for (uint32_t i = 0; i < entries; i++)
        for (uint32_t k = 0; k < values; k++)
            *out++ = levels[(uint32_t)book[i] >> (bits * order[k]) & ((1u << bits) - 1)];
}

void
dop_type_book(dop_type t, uint8_t *out)
{
    static const uint8_t odd[8] = {1, 3, 5, 7, 9, 11, 13, 15}, at[8] = {0, 16, 4, 20, 2, 18, 6, 22};
    switch (t) {
    case DOP_TYPE_iq2_xxs:
        write_byte_entries(dop_book_iq2_xxs, 256, 8, 2, dop_levels_iq2, out);
        break;
    case DOP_TYPE_iq2_xs:
        write_byte_entries(dop_book_iq2_xs, 512, 8, 2, dop_levels_iq2, out);
        break;
    case DOP_TYPE_iq2_s:
        write_byte_entries(dop_book_iq2_s, 1024, 8, 2, dop_levels_iq2, out);
        break;
    case DOP_TYPE_iq3_xxs:
        write_byte_entries(dop_book_iq3_xxs, 256, 4, 3, dop_levels_iq3_xxs, out);
        break;
    case DOP_TYPE_iq3_s:
        write_byte_entries(dop_book_iq3_s, 512, 4, 3, odd, out);
        break;
    case DOP_TYPE_iq1_s:
    case DOP_TYPE_iq1_m: /* two entries per word, each as two groups of four 2-bit values spread over byte lanes (types.def) */
        for (uint32_t i = 0; i < 2048; i += 2, out += 4) {
            uint32_t w = 0;
            for (uint32_t k = 0; k < 16; k++)
                w |= (uint32_t)(dop_book_iq1[i + k / 8] >> (2 * (k % 8)) & 3) << (at[k % 8] + k / 8 * 8);
            put_book_word(out, w);
        }
        break;
    case DOP_TYPE_nvfp4: /* factor of the whole matrix as f32; 1 unless it is overwritten */
        put_book_word(out, 0x3f800000);
        break;
    default:
        break;
    }
}
