// Quantized weights of products on matrix units, eight values in two steps (matmul_coop.glsl). A word has the nibbles of all
// eight. Two values and their scale are multiplied as halves: the product of a half and a small integer is rounded once
// either way.
uint dop_scaled2(uint biased, float bias, f16vec2 d) { return packFloat2x16((unpackFloat2x16(biased) - float16_t(bias)) * d); }
uvec2 dop_scaled4(uint w, f16vec2 d) // nibbles minus 8; dop_nib4_biased
{
    return uvec2(dop_scaled2((w & 0x000f000fu) | 0x64006400u, 1032.0, d), dop_scaled2((w & 0x00f000f0u) | 0x54005400u, 72.0, d));
}
uvec2 dop_scaled4_bytes(uint w, f16vec2 d) // bytes minus 128
{
    return uvec2(dop_scaled2((w & 0x00ff00ffu) | 0x64006400u, 1152.0, d),
                 dop_scaled2(((w >> 8) & 0x00ff00ffu) | 0x64006400u, 1152.0, d));
}
f16vec2 dop_scale2(uint w, uint odd) { return unpackFloat2x16(w >> (odd * 16u)).xx; }
#define DOP_HALVES_q4_0                                                                                             \
    DOP_HALVES(q4_0, dop_raw8(uvec4(p.v[i >> 3], p.v[aux * 4u + (i >> 6)], 0u, 0u), uvec4(0u)),                      \
               uvec4(dop_scaled4(r.a.x, dop_scale2(r.a.y, (i >> 5) & 1u)),                                           \
                     dop_scaled4(r.a.x >> 8, dop_scale2(r.a.y, (i >> 5) & 1u))))
#define DOP_HALVES_q8_0                                                                                             \
    DOP_HALVES(q8_0, dop_raw8(uvec4(dop_ldw2(p, i >> 3), p.v[aux * 4u + (i >> 6)], 0u), uvec4(0u)),                  \
               uvec4(dop_scaled4_bytes(r.a.x, dop_scale2(r.a.z, (i >> 5) & 1u)),                                     \
                     dop_scaled4_bytes(r.a.y, dop_scale2(r.a.z, (i >> 5) & 1u))))
// Scales for nibbles minus 8, which are multiplied by 2^-4. x: 2^4 times the unit's scale, twice as large as the largest
// value, so that it is not a subnormal half. y: the remaining offset. Weights lie on both sides of zero, so it is usually
// small, and rounding it to a half costs little.
struct dop_scales { f16vec2 x, y; };
dop_scales dop_halves_q4_k(uvec4 s, uint u)
{
    uvec3 n = s.yzw >> ((u & 7u) * 4u);
    uint q = (n.x & 15u) | ((n.z << 4) & 0x30u) | ((n.y & 15u) << 16) | ((n.z << 18) & 0x300000u);
    vec2 dm = unpackHalf2x16(s.x) * vec2(unpackFloat2x16(q | 0x64006400u) - float16_t(1024.0));
    f16vec2 d = unpackFloat2x16(packHalf2x16(vec2(16.0 * dm.x, 8.0 * dm.x - dm.y)));
    return dop_scales(d.xx, d.yy);
}
uint dop_scaled2_less(uint biased, float bias, dop_scales s)
{
    return packFloat2x16(fma(unpackFloat2x16(biased) - float16_t(bias), s.x, s.y));
}
uvec4 dop_scaled8(uint w, dop_scales s)
{
    uint v = w >> 8;
    return uvec4(dop_scaled2_less((w & 0x000f000fu) | 0x54005400u, 64.5, s),
                 dop_scaled2_less((w & 0x00f000f0u) | 0x44004400u, 4.5, s),
                 dop_scaled2_less((v & 0x000f000fu) | 0x54005400u, 64.5, s),
                 dop_scaled2_less((v & 0x00f000f0u) | 0x44004400u, 4.5, s));
}
#define DOP_HALVES_q4_k                                                                                             \
    DOP_HALVES(q4_k, dop_raw8(uvec4(p.v[i >> 3], 0u, 0u, 0u), dop_ldw4(p, aux + (i >> 8))),                          \
               dop_scaled8(r.a.x, dop_halves_q4_k(r.b, i >> 5)))
// Converts nibbles with the scale and the offset dm.
uvec4 dop_scaled8_nibbles(uint w, vec2 dm)
{
    f16vec2 d = unpackFloat2x16(packHalf2x16(vec2(16.0 * dm.x, 8.0 * dm.x + dm.y)));
    return dop_scaled8(w, dop_scales(d.xx, d.yy));
}
#define DOP_HALVES_q4_1                                                                                             \
    DOP_HALVES(q4_1, dop_raw8(uvec4(p.v[i >> 3], p.v[aux * 4u + (i >> 5)], 0u, 0u), uvec4(0u)),                      \
               dop_scaled8_nibbles(r.a.x, unpackHalf2x16(r.a.y)))
// Converts nibbles with a scale and a zero point, which is subtracted first.
uvec4 dop_scaled8_int4(uint w, vec2 dz) { return dop_scaled8_nibbles(w, vec2(dz.x, -dz.x * dz.y)); }
#define DOP_HALVES_INT4(T, GROUP_LOG2)                                                                              \
    DOP_HALVES(T, dop_raw8(uvec4(p.v[i >> 3], p.v[aux * 4u + (i >> GROUP_LOG2)], 0u, 0u), uvec4(0u)),                \
               dop_scaled8_int4(r.a.x, unpackHalf2x16(r.a.y)))
#define DOP_HALVES_int4_g128 DOP_HALVES_INT4(int4_g128, 7)
#define DOP_HALVES_int4_g64 DOP_HALVES_INT4(int4_g64, 6)
#define DOP_HALVES_int4_g32 DOP_HALVES_INT4(int4_g32, 5)
// Shifts a word to the right, or to the left if `by` is negative.
uint dop_moved(uint w, int by) { return by < 0 ? w << -by : w >> by; }
// Five-bit values minus 16, times 2^-5: nibbles of w, with the fifth bits in bits 4 and 8 of both halves of h.
uvec2 dop_scaled4_five(uint w, uint h, dop_scales s)
{
    return uvec2(dop_scaled2_less((w & 0x000f000fu) | (h & 0x00100010u) | 0x50005000u, 32.5, s),
                 dop_scaled2_less((w & 0x00f000f0u) | (h & 0x01000100u) | 0x40004000u, 2.5, s));
}
// Converts values 8 j to 8 j + 7 of a unit with fifth bits h; dm: the scale and the offset.
uvec4 dop_scaled8_five(uint w, uint h, uint j, vec2 dm)
{
    int by = int(dop_one_shift(2u * j)) - 4;
    f16vec2 d = unpackFloat2x16(packHalf2x16(vec2(32.0 * dm.x, 16.0 * dm.x + dm.y)));
    dop_scales s = dop_scales(d.xx, d.yy);
    return uvec4(dop_scaled4_five(w, dop_moved(h, by), s), dop_scaled4_five(w >> 8, dop_moved(h, by + 1), s));
}
uvec4 dop_load8_q5_0(U32 p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 48u, k = u & 31u;
    return uvec4(p.v[i >> 3], p.v[g + k], p.v[g + 32u + (k >> 1)], 0u);
}
uvec4 dop_halves_q5_0(uvec4 r, uint u, uint j)
{
    float d = dop_half(r.z, u & 1u);
    return dop_scaled8_five(r.x, r.y, j, vec2(d, -16.0 * d));
}
#define DOP_EIGHT(i) (((i) >> 3) & 3u) // index of the group of eight within the unit of value i
#define DOP_HALVES_q5_0                                                                                             \
    DOP_HALVES(q5_0, dop_raw8(dop_load8_q5_0(p, i, aux), uvec4(0u)), dop_halves_q5_0(r.a, i >> 5, DOP_EIGHT(i)))
#define DOP_HALVES_q5_1                                                                                             \
    DOP_HALVES(q5_1, dop_raw8(uvec4(p.v[i >> 3], dop_ldw2(p, aux * 2u + (i >> 5)), 0u), uvec4(0u)),                  \
               dop_scaled8_five(r.a.x, r.a.y, DOP_EIGHT(i), unpackHalf2x16(r.a.z)))
dop_raw8 dop_load8_q5_k(U32 p, uint i, uint aux)
{
    uint u = i >> 5, g = aux + (u >> 5) * 12u;
    return dop_raw8(uvec4(p.v[i >> 3], p.v[g * 4u + 16u + (u & 31u)], 0u, 0u), dop_ldw4(p, g + ((u >> 3) & 3u)));
}
#define DOP_HALVES_q5_k                                                                                             \
    DOP_HALVES(q5_k, dop_load8_q5_k(p, i, aux),                                                                     \
               dop_scaled8_five(r.a.x, r.a.y, DOP_EIGHT(i), vec2(1.0, -1.0) * dop_scale_min(r.b, i >> 5)))
// Six-bit values minus 32, times 2^-5, so that the scale, times 2^5, is as large as the largest value: nibbles of w, with the
// upper bits in bits 4 and 5 and in bits 8 and 9 of both halves of h.
uvec2 dop_scaled4_six(uint w, uint h, f16vec2 d)
{
    return uvec2(dop_scaled2((w & 0x000f000fu) | (h & 0x00300030u) | 0x50005000u, 33.0, d),
                 dop_scaled2((w & 0x00f000f0u) | (h & 0x03000300u) | 0x40004000u, 3.0, d));
}
// q6_k: loads a word of lower bits, a word of upper bits, a word of scales, and the word with the factor of the scales.
uvec4 dop_load8_q6_k(U32 p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 82u, k = u & 31u;
    return uvec4(p.v[i >> 3], p.v[g + k * 2u + ((i >> 4) & 1u)], p.v[g + 64u + (k >> 1)], p.v[g + 80u + (k >> 4)]);
}
uvec4 dop_halves_q6_k(uvec4 r, uint u, uint j)
{
    int by = int(j & 1u) * 8 - 4;
    float d = 32.0 * dop_half(r.w, (u >> 3) & 1u) * dop_s8(r.z, (u & 1u) * 2u + (j >> 1));
    f16vec2 d2 = unpackFloat2x16(packHalf2x16(vec2(d)));
    return uvec4(dop_scaled4_six(r.x, dop_moved(r.y, by), d2), dop_scaled4_six(r.x >> 8, dop_moved(r.y, by + 2), d2));
}
#define DOP_HALVES_q6_k                                                                                             \
    DOP_HALVES(q6_k, dop_raw8(dop_load8_q6_k(p, i, aux), uvec4(0u)), dop_halves_q6_k(r.a, i >> 5, DOP_EIGHT(i)))
// Two-bit values minus 1, times 2^-2, in bits 0, 4, 2 and 6 of both halves of w.
uvec4 dop_scaled8_two(uint w, dop_scales s)
{
    return uvec4(dop_scaled2_less((w & 0x00030003u) | 0x5c005c00u, 256.25, s),
                 dop_scaled2_less((w & 0x00300030u) | 0x4c004c00u, 16.25, s),
                 dop_scaled2_less((w & 0x000c000cu) | 0x54005400u, 64.25, s),
                 dop_scaled2_less((w & 0x00c000c0u) | 0x44004400u, 4.25, s));
}
// As above, with a scale and an offset.
uvec4 dop_scaled8_two(uint w, vec2 dm)
{
    f16vec2 d = unpackFloat2x16(packHalf2x16(vec2(4.0 * dm.x, dm.x + dm.y)));
    return dop_scaled8_two(w, dop_scales(d.xx, d.yy));
}
// q3_k: such values minus 4, with third bits after them.
uvec4 dop_load8_q3_k(U32 p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 50u, k = u & 31u;
    return uvec4(p.v[i >> 4], p.v[g + k], p.v[g + 32u + (k >> 1)], p.v[g + 48u + (k >> 4)]);
}
uvec4 dop_halves_q3_k(uvec4 r, uint u, uint j)
{
    int by = int(dop_one_shift(2u * j)) - 2;
    uint w = r.x >> (j & 1u) * 8u, h = dop_moved(r.y, by), v = dop_moved(r.y, by - 1);
    float d = 4.0 * dop_half(r.w, (u >> 3) & 1u) * dop_s8(r.z, (u & 1u) * 2u + (j >> 1));
    f16vec2 d2 = unpackFloat2x16(packHalf2x16(vec2(d)));
    return uvec4(dop_scaled2((w & 0x00030003u) | (h & 0x00040004u) | 0x5c005c00u, 257.0, d2),
                 dop_scaled2((w & 0x00300030u) | (h & 0x00400040u) | 0x4c004c00u, 17.0, d2),
                 dop_scaled2((w & 0x000c000cu) | (v & 0x00100010u) | 0x54005400u, 65.0, d2),
                 dop_scaled2((w & 0x00c000c0u) | (v & 0x01000100u) | 0x44004400u, 5.0, d2));
}
#define DOP_HALVES_q3_k                                                                                             \
    DOP_HALVES(q3_k, dop_raw8(dop_load8_q3_k(p, i, aux), uvec4(0u)), dop_halves_q3_k(r.a, i >> 5, DOP_EIGHT(i)))
uvec4 dop_load8_q2_k(U32 p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 20u, k = u & 31u;
    return uvec4(p.v[i >> 4], p.v[g + (k >> 1)], p.v[g + 16u + (k >> 3)], 0u);
}
uvec4 dop_halves_q2_k(uvec4 r, uint u, uint j)
{
    vec2 s = dop_scale_min_q2_k(r.y, r.z, (u & 1u) * 2u + (j >> 1));
    return dop_scaled8_two(r.x >> (j & 1u) * 8u, vec2(s.x, -s.y));
}
#define DOP_HALVES_q2_k                                                                                             \
    DOP_HALVES(q2_k, dop_raw8(dop_load8_q2_k(p, i, aux), uvec4(0u)), dop_halves_q2_k(r.a, i >> 5, DOP_EIGHT(i)))
// Levels of iq4 (DOP_IQ4). A polynomial approximates all sixteen: after adding 1526 (10 less than 1536), rounding to whole
// numbers gives the levels, whether or not multiplications and additions are rounded separately (unit.test_types). Levels are
// multiplied by 2^-7, and the scale by 2^7, so that it is not a subnormal half.
#define DOP_IQ4_POLYNOMIAL 0.0012960433959960938, 0.0777587890625, -0.2421875, 11.6171875
uint dop_scaled2_iq4(uint biased, float bias, f16vec2 d)
{
    const float by[4] = float[4](DOP_IQ4_POLYNOMIAL);
    f16vec2 n = unpackFloat2x16(biased) - float16_t(bias), p = f16vec2(by[0]);
    [[unroll]] for (uint k = 1u; k < 4u; k++)
        p = fma(p, n, f16vec2(by[k]));
    return packFloat2x16(fma(fma(p, n, f16vec2(1526.0)), f16vec2(0.0078125), f16vec2(-12.0)) * d);
}
uvec4 dop_scaled8_iq4(uint w, float d)
{
    f16vec2 s = unpackFloat2x16(packHalf2x16(vec2(128.0 * d)));
    uint v = w >> 8;
    return uvec4(dop_scaled2_iq4((w & 0x000f000fu) | 0x64006400u, 1031.0, s), dop_scaled2_iq4((w & 0x00f000f0u) | 0x54005400u, 71.0, s),
                 dop_scaled2_iq4((v & 0x000f000fu) | 0x64006400u, 1031.0, s), dop_scaled2_iq4((v & 0x00f000f0u) | 0x54005400u, 71.0, s));
}
#define DOP_HALVES_iq4_nl                                                                                           \
    DOP_HALVES(iq4_nl, dop_raw8(uvec4(p.v[i >> 3], p.v[aux * 4u + (i >> 6)], 0u, 0u), uvec4(0u)),                    \
               dop_scaled8_iq4(r.a.x, dop_half(r.a.y, (i >> 5) & 1u)))
// Doubled e2m1 numbers (dop_e2m1), times 2^-4, from codes in bits 0..3 and 4..7 of both halves and their dop_e2m1_less.
uvec2 dop_scaled4_e2m1(uint w, uint less, f16vec2 d)
{
    uint a = ((w & 0x000f000fu) | 0x54105410u) - 13u * (less & 0x00010001u);
    uint b = ((w & 0x00f000f0u) | 0x45004500u) - 13u * (less & 0x00100010u);
    return uvec2(dop_scaled2(a, 65.0625, d), dop_scaled2(b, 5.0625, d));
}
uvec4 dop_scaled8_e2m1(uint w, float d)
{
    uint less = dop_e2m1_less(w);
    f16vec2 s = unpackFloat2x16(packHalf2x16(vec2(16.0 * d)));
    return uvec4(dop_scaled4_e2m1(w, less, s), dop_scaled4_e2m1(w >> 8, less >> 8, s));
}
#define DOP_HALVES_mxfp4                                                                                            \
    DOP_HALVES(mxfp4, dop_raw8(uvec4(p.v[i >> 3], p.v[aux * 4u + (i >> 7)], 0u, 0u), uvec4(0u)),                     \
               dop_scaled8_e2m1(r.a.x, dop_e8m0(r.a.y, i >> 5)))
// Single bits: plus or minus the factor. They are in bits 0, 4, 1 and 5 of both halves of w.
uvec4 dop_signed8_one(uint w, float d)
{
    uint s = packHalf2x16(vec2(d)), n = ~w;
    return uvec4(((n << 15) & 0x80008000u) ^ s, ((n << 11) & 0x80008000u) ^ s, ((n << 14) & 0x80008000u) ^ s,
                 ((n << 10) & 0x80008000u) ^ s);
}
// Codebook entries in the form of dop_signed, times 2^-7.
uvec4 dop_scaled8_book(uvec2 e, float d)
{
    uvec2 v = e >> 8;
    f16vec2 s = unpackFloat2x16(packHalf2x16(vec2(128.0 * d)));
    return uvec4(dop_scaled2((e.x & 0x00ff00ffu) ^ 0x48804880u, 9.0, s), dop_scaled2((e.y & 0x00ff00ffu) ^ 0x48804880u, 9.0, s),
                 dop_scaled2((v.x & 0x00ff00ffu) ^ 0x48804880u, 9.0, s), dop_scaled2((v.y & 0x00ff00ffu) ^ 0x48804880u, 9.0, s));
}
// Codebook magnitudes, two entries of four values or one of eight (codes.glsl); bits of `signs` are the values' signs.
uint dop_scaled2_signed(uint e, uint signs, uint d)
{
    return dop_scaled2((e & 0x00ff00ffu) | 0x48004800u, 8.0, unpackFloat2x16((signs & 0x80008000u) ^ d));
}
uvec4 dop_scaled8_entry(uvec2 e, bool fours, uint signs, float d)
{
    uint s = packHalf2x16(vec2(128.0 * d)), by = signs * 0x8001u; // it has bits 2 k and 2 k + 1 in bits 2 k and 16 + 2 k
    uvec4 w = fours ? uvec4(e.x, e.x >> 8, e.y, e.y >> 8) : uvec4(e, e >> 8);
    return uvec4(dop_scaled2_signed(w.x, by << 15, s), dop_scaled2_signed(w.y, by << 13, s),
                 dop_scaled2_signed(w.z, by << 11, s), dop_scaled2_signed(w.w, by << 9, s));
}
