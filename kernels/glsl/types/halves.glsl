// Quantized weights of products on matrix units, eight values in two steps (matmul_coop.glsl).  A word has the nibbles of all eight.
// Two values and their scale are multiplied as halves: the product of a half and a small integer is rounded once either way.
uint dop_scaled2(uint biased, float bias, f16vec2 d) { return packFloat2x16((unpackFloat2x16(biased) - float16_t(bias)) * d); }
uvec2 dop_scaled4(uint w, f16vec2 d) // nibbles, less 8; dop_nib4_biased
{
    return uvec2(dop_scaled2((w & 0x000f000fu) | 0x64006400u, 1032.0, d), dop_scaled2((w & 0x00f000f0u) | 0x54005400u, 72.0, d));
}
uvec2 dop_scaled4_bytes(uint w, f16vec2 d) // less 128
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
// Nibbles less 8, 2^-4 of them, times their unit's scale, 2^4 times (twice as large as the largest value, so that it is no subnormal
// half), and what is left of the offset.  Weights lie on both sides of zero, so that this is mostly little, and rounding it to a
// half costs little.  x: that scale; y: what is left.
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
// Nibbles with the scale and the offset dm.
uvec4 dop_scaled8_nibbles(uint w, vec2 dm)
{
    f16vec2 d = unpackFloat2x16(packHalf2x16(vec2(16.0 * dm.x, 8.0 * dm.x + dm.y)));
    return dop_scaled8(w, dop_scales(d.xx, d.yy));
}
#define DOP_HALVES_q4_1                                                                                             \
    DOP_HALVES(q4_1, dop_raw8(uvec4(p.v[i >> 3], p.v[aux * 4u + (i >> 5)], 0u, 0u), uvec4(0u)),                      \
               dop_scaled8_nibbles(r.a.x, unpackHalf2x16(r.a.y)))
// A scale and the zero point that is subtracted first.
uvec4 dop_scaled8_int4(uint w, vec2 dz) { return dop_scaled8_nibbles(w, vec2(dz.x, -dz.x * dz.y)); }
#define DOP_HALVES_INT4(T, GROUP_LOG2)                                                                              \
    DOP_HALVES(T, dop_raw8(uvec4(p.v[i >> 3], p.v[aux * 4u + (i >> GROUP_LOG2)], 0u, 0u), uvec4(0u)),                \
               dop_scaled8_int4(r.a.x, unpackHalf2x16(r.a.y)))
#define DOP_HALVES_int4_g128 DOP_HALVES_INT4(int4_g128, 7)
#define DOP_HALVES_int4_g64 DOP_HALVES_INT4(int4_g64, 6)
#define DOP_HALVES_int4_g32 DOP_HALVES_INT4(int4_g32, 5)
// Values of five bits less 16, 2^-5 of them; h has the fifth bits of all values of a unit, and i says which of them are wanted.
uvec2 dop_scaled4_five(uint w, uint h, dop_scales s)
{
    return uvec2(dop_scaled2_less((w & 0x000f000fu) | ((h << 4) & 0x00100010u) | 0x50005000u, 32.5, s),
                 dop_scaled2_less(((w >> 4) & 0x000f000fu) | (h & 0x00100010u) | 0x50005000u, 32.5, s));
}
uvec4 dop_scaled8_five(uint w, uint h, uint i, vec2 dm)
{
    uint bits = h >> dop_one_shift((i >> 2) & 7u);
    f16vec2 d = unpackFloat2x16(packHalf2x16(vec2(32.0 * dm.x, 16.0 * dm.x + dm.y)));
    dop_scales s = dop_scales(d.xx, d.yy);
    return uvec4(dop_scaled4_five(w, bits, s), dop_scaled4_five(w >> 8, bits >> 1, s));
}
uvec4 dop_load8_q5_0(U32 p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 48u, k = u & 31u;
    return uvec4(p.v[i >> 3], p.v[g + k], p.v[g + 32u + (k >> 1)], 0u);
}
uvec4 dop_halves_q5_0(uvec4 r, uint i)
{
    float d = dop_half(r.z, (i >> 5) & 1u);
    return dop_scaled8_five(r.x, r.y, i, vec2(d, -16.0 * d));
}
#define DOP_HALVES_q5_0 DOP_HALVES(q5_0, dop_raw8(dop_load8_q5_0(p, i, aux), uvec4(0u)), dop_halves_q5_0(r.a, i))
#define DOP_HALVES_q5_1                                                                                             \
    DOP_HALVES(q5_1, dop_raw8(uvec4(p.v[i >> 3], dop_ldw2(p, aux * 2u + (i >> 5)), 0u), uvec4(0u)),                  \
               dop_scaled8_five(r.a.x, r.a.y, i, unpackHalf2x16(r.a.z)))
dop_raw8 dop_load8_q5_k(U32 p, uint i, uint aux)
{
    uint u = i >> 5, g = aux + (u >> 5) * 12u;
    return dop_raw8(uvec4(p.v[i >> 3], p.v[g * 4u + 16u + (u & 31u)], 0u, 0u), dop_ldw4(p, g + ((u >> 3) & 3u)));
}
#define DOP_HALVES_q5_k                                                                                             \
    DOP_HALVES(q5_k, dop_load8_q5_k(p, i, aux),                                                                     \
               dop_scaled8_five(r.a.x, r.a.y, i, vec2(1.0, -1.0) * dop_scale_min(r.b, i >> 5)))
// Values of six bits less 32, 2^-5 of them, so that the scale, times 2^5, is as large as the largest value.
uvec2 dop_scaled4_six(uint w, uint h, f16vec2 d)
{
    return uvec2(dop_scaled2((w & 0x000f000fu) | ((h << 4) & 0x00300030u) | 0x50005000u, 33.0, d),
                 dop_scaled2(((w >> 4) & 0x000f000fu) | (h & 0x00300030u) | 0x50005000u, 33.0, d));
}
// q6_k: loads a word of lower bits, a word of upper bits, a word of scales, and the word that has the factor of the scales.
uvec4 dop_load8_q6_k(U32 p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 82u, k = u & 31u;
    return uvec4(p.v[i >> 3], p.v[g + k * 2u + ((i >> 4) & 1u)], p.v[g + 64u + (k >> 1)], p.v[g + 80u + (k >> 4)]);
}
uvec4 dop_halves_q6_k(uvec4 r, uint i)
{
    uint h = r.y >> ((i >> 3) & 1u) * 8u;
    float d = 32.0 * dop_half(r.w, (i >> 8) & 1u) * dop_s8(r.z, (i >> 4) & 3u);
    f16vec2 d2 = unpackFloat2x16(packHalf2x16(vec2(d)));
    return uvec4(dop_scaled4_six(r.x, h, d2), dop_scaled4_six(r.x >> 8, h >> 2, d2));
}
#define DOP_HALVES_q6_k DOP_HALVES(q6_k, dop_raw8(dop_load8_q6_k(p, i, aux), uvec4(0u)), dop_halves_q6_k(r.a, i))
// q3_k and q2_k, types of few bits: values are computed as f32 and rounded to halves at the end.
uvec4 dop_load8_q3_k(U32 p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 50u, k = u & 31u;
    return uvec4(p.v[i >> 4], p.v[g + k], p.v[g + 32u + (k >> 1)], p.v[g + 48u + (k >> 4)]);
}
uvec4 dop_halves_q3_k(uvec4 r, uint i)
{
    uint j = (i >> 2) & 7u, w = r.x >> dop_two_shift(j), h = r.y >> dop_one_shift(j);
    float s = dop_half(r.w, (i >> 8) & 1u) * dop_s8(r.z, (i >> 4) & 3u);
    return dop_pack8(s * (dop_three4(w, h) - 4.0), s * (dop_three4(w >> 2, h >> 1) - 4.0));
}
#define DOP_HALVES_q3_k DOP_HALVES(q3_k, dop_raw8(dop_load8_q3_k(p, i, aux), uvec4(0u)), dop_halves_q3_k(r.a, i))
uvec4 dop_load8_q2_k(U32 p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 20u, k = u & 31u;
    return uvec4(p.v[i >> 4], p.v[g + (k >> 1)], p.v[g + 16u + (k >> 3)], 0u);
}
uvec4 dop_halves_q2_k(uvec4 r, uint i)
{
    uint w = r.x >> dop_two_shift((i >> 2) & 7u);
    vec2 s = dop_scale_min_q2_k(r.y, r.z, (i >> 4) & 3u);
    return dop_pack8(s.x * dop_two4(w) - s.y, s.x * dop_two4(w >> 2) - s.y);
}
#define DOP_HALVES_q2_k DOP_HALVES(q2_k, dop_raw8(dop_load8_q2_k(p, i, aux), uvec4(0u)), dop_halves_q2_k(r.a, i))
// Levels of iq4 (DOP_IQ4).  A polynomial comes so near to all sixteen that what is left of it where 1526, 10 less than 1536, is added, whole
// numbers, are the levels, whether or not multiplications and additions are rounded apart (unit.test_types).  2^-7 of a level, times 2^7
// times the scale, so that this is no subnormal half.
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
// Doubled numbers of e2m1 (dop_e2m1), 2^-4 of them.
uvec2 dop_scaled4_e2m1(uint w, f16vec2 d)
{
    uint less = dop_e2m1_less(w);
    uint a = ((w & 0x000f000fu) | 0x00100010u) - 13u * (less & 0x00010001u);
    uint b = (((w >> 4) & 0x000f000fu) | 0x00100010u) - 13u * ((less >> 4) & 0x00010001u);
    return uvec2(dop_scaled2(a | 0x54005400u, 65.0625, d), dop_scaled2(b | 0x54005400u, 65.0625, d));
}
uvec4 dop_scaled8_e2m1(uint w, float d)
{
    f16vec2 s = unpackFloat2x16(packHalf2x16(vec2(16.0 * d)));
    return uvec4(dop_scaled4_e2m1(w, s), dop_scaled4_e2m1(w >> 8, s));
}
#define DOP_HALVES_mxfp4                                                                                            \
    DOP_HALVES(mxfp4, dop_raw8(uvec4(p.v[i >> 3], p.v[aux * 4u + (i >> 7)], 0u, 0u), uvec4(0u)),                     \
               dop_scaled8_e2m1(r.a.x, dop_e8m0(r.a.y, i >> 5)))
