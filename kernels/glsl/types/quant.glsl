// Quantized weights have units of 32 values. Plane 0 holds each unit's low bits; plane 1 (in groups of 32 units) holds
// scales, minimums and high bits. compiler/pack/repack.c writes both and describes every field.
//
// A word keeps values in its two 16-bit halves: the four values 4j .. 4j+3 of a unit ("quad" j) are at offset 0 of the low
// and the high half, then at the next offset of both. So one mask isolates two values. As the low mantissa bits of two f16
// whose other bits are those of 1024, both become floats at once.

// Converts two values below 1024, one in each half of a, and subtracts z. z is a constant, so it is merged into the
// subtraction of the bias.
vec2 dop_u2z(uint a, float z)
{
#ifdef DOP_CPU
    return vec2(ivec2(a & 0xffffu, a >> 16)) - z; // signed, because SIMD instruction sets convert that in one step
#else
    return unpackHalf2x16(a | 0x64006400u) - (1024.0 + z);
#endif
}
vec2 dop_u2(uint a) { return dop_u2z(a, 0.0); }
// Converts the four nibbles in bits 0..3 and 4..7 of both halves.
#ifdef DOP_CPU
vec4 dop_nib4(uint w) { return vec4(dop_u2(w & 0x000f000fu), dop_u2((w >> 4) & 0x000f000fu)); }
#else
// The second pair needs no shift, because bit 4 of the mantissa counts 1 in an f16 whose other bits are those of 64.
#define DOP_NIB_BIAS vec4(1024.0, 1024.0, 64.0, 64.0)
vec4 dop_nib4_biased(uint w)
{
    return vec4(unpackHalf2x16((w & 0x000f000fu) | 0x64006400u), unpackHalf2x16((w & 0x00f000f0u) | 0x54005400u));
}
vec4 dop_nib4(uint w) { return dop_nib4_biased(w) - DOP_NIB_BIAS; }
#define DOP_NIB4_8(w) (dop_nib4_biased(w) - (DOP_NIB_BIAS + 8.0))
#endif
// Converts four nibbles of w, each with a fifth bit from h: bits 0 and 4 of both halves.
vec4 dop_five4(uint w, uint h)
{
    return vec4(dop_u2((w & 0x000f000fu) | ((h << 4) & 0x00100010u)), dop_u2(((w >> 4) & 0x000f000fu) | (h & 0x00100010u)));
}
// Converts four nibbles of w, each with two more bits from h: bits 0..1 and 4..5 of both halves; minus z.
vec4 dop_six4z(uint w, uint h, float z)
{
    return vec4(dop_u2z((w & 0x000f000fu) | ((h << 4) & 0x00300030u), z),
                dop_u2z(((w >> 4) & 0x000f000fu) | (h & 0x00300030u), z));
}
vec4 dop_six4(uint w, uint h) { return dop_six4z(w, h, 0.0); }
// Converts four two-bit values in bits 0..1 and 4..5 of both halves.
vec4 dop_two4(uint w) { return vec4(dop_u2(w & 0x00030003u), dop_u2((w >> 4) & 0x00030003u)); }
// Converts four two-bit values, each with a third bit from h: bits 0 and 4 of both halves.
vec4 dop_three4(uint w, uint h)
{
    return vec4(dop_u2((w & 0x00030003u) | ((h << 2) & 0x00040004u)),
                dop_u2(((w >> 4) & 0x00030003u) | ((h >> 2) & 0x00040004u)));
}
vec4 dop_byte4z(uint w, float z) { return vec4(dop_u2z(w & 0x00ff00ffu, z), dop_u2z((w >> 8) & 0x00ff00ffu, z)); }
vec4 dop_byte4(uint w) { return dop_byte4z(w, 0.0); }

// Shift to quad j of a unit within a word of nibbles, of single high bits, and of pairs of bits.
uint dop_nib_shift(uint j) { return (j & 1u) * 8u; }
uint dop_one_shift(uint j) { return (j & 3u) + (j >> 2) * 8u; }
uint dop_two_shift(uint j) { return (j & 1u) * 2u + ((j >> 1) & 1u) * 8u; }

float dop_sum8(vec4 x[8])
{
    vec4 s = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    return dop_sum(s);
}
// Values with an offset: on a CPU, where an invocation has several rows, the offset is subtracted using the sums of x, which
// all its rows share. Otherwise the offset is part of the conversion.
#define DOP_DOT8(F, q, x)                                                                                   \
    (((dot(F(q.x), x[0]) + dot(F(q.x >> 8), x[1])) + (dot(F(q.y), x[2]) + dot(F(q.y >> 8), x[3]))) +           \
     ((dot(F(q.z), x[4]) + dot(F(q.z >> 8), x[5])) + (dot(F(q.w), x[6]) + dot(F(q.w >> 8), x[7]))))
#ifdef DOP_CPU
#define DOP_OFFSET(z) 0.0
#define DOP_LESS(z, sum) (z * sum)
// Nibbles minus z. A nibble in its place in a word is the end of the mantissa of a float whose exponent makes the nibble's
// lowest bit count 1. That needs no shift and no conversion, and the subtraction is exact. The first function converts the
// lowest four nibbles, the second one those of the upper half from bit 4 on.
#define DOP_NIB_AT(w, k, z) (uintBitsToFloat((w & (15u << k)) | ((150u - k) << 23)) - (float(1u << (23u - k)) + z))
vec4 dop_nib4_even(uint w, float z)
{
    uint h = w >> 16;
    return vec4(DOP_NIB_AT(w, 0u, z), DOP_NIB_AT(w, 16u, z), DOP_NIB_AT(w, 4u, z), DOP_NIB_AT(h, 4u, z));
}
vec4 dop_nib4_odd(uint w, float z)
{
    uint h = w >> 16;
    return vec4(DOP_NIB_AT(w, 8u, z), DOP_NIB_AT(h, 8u, z), DOP_NIB_AT(w, 12u, z), DOP_NIB_AT(h, 12u, z));
}
#define DOP_DOT_NIBS(less, q, x)                                                                                       \
    (((dot(dop_nib4_even(q.x, less), x[0]) + dot(dop_nib4_odd(q.x, less), x[1])) +                                        \
      (dot(dop_nib4_even(q.y, less), x[2]) + dot(dop_nib4_odd(q.y, less), x[3]))) +                                       \
     ((dot(dop_nib4_even(q.z, less), x[4]) + dot(dop_nib4_odd(q.z, less), x[5])) +                                        \
      (dot(dop_nib4_even(q.w, less), x[6]) + dot(dop_nib4_odd(q.w, less), x[7]))))
float dop_dot_nib(uvec4 q, vec4 x[8]) { return DOP_DOT_NIBS(0.0, q, x); }
float dop_dot_nib_8(uvec4 q, vec4 x[8]) { return DOP_DOT_NIBS(8.0, q, x); }
#else
#define DOP_OFFSET(z) z
#define DOP_LESS(z, sum) 0.0
// Nibbles as floats that are 64 too large. The excess is subtracted using the sum of x, which the offsets of units need as
// well. A smaller excess costs less precision of an f32 sum: 64 costs three bits, 1024 would cost seven.
vec4 dop_nib4_64(uint w)
{
    return vec4(unpackHalf2x16(((w << 4) & 0x00f000f0u) | 0x54005400u), unpackHalf2x16((w & 0x00f000f0u) | 0x54005400u));
}
float dop_dot_nib(uvec4 q, vec4 x[8]) { return DOP_DOT8(dop_nib4_64, q, x) - 64.0 * dop_sum8(x); }
float dop_dot_nib_8(uvec4 q, vec4 x[8]) { return DOP_DOT8(DOP_NIB4_8, q, x); }
#endif
float dop_dot_five(uvec4 q, uint h, vec4 x[8])
{
    float s = 0.0;
    [[unroll]] for (uint j = 0u; j < 8u; j++)
        s += dot(dop_five4(q[j >> 1] >> dop_nib_shift(j), h >> dop_one_shift(j)), x[j]);
    return s;
}
// Returns the f16 in the low half of w, or in the high one if `odd` is 1.
float dop_half(uint w, uint odd) { return unpackHalf2x16(w >> (odd * 16u)).x; }

// --- one f16 scale per unit: q4_0, q8_0 ----------------------------------------------------------------------
struct dop_raw_q4_0 { uvec4 q; uint d, u; };
dop_raw_q4_0 dop_wload_q4_0(DOP_W p, uint u, uint aux)
{
    return dop_raw_q4_0(dop_unit4(p, u), dop_ldw1(p, aux * 4u + (u >> 1)), u);
}
float dop_wdot_q4_0(dop_raw_q4_0 r, vec4 x[8])
{
    return dop_half(r.d, r.u & 1u) * dop_dot_nib_8(r.q, x);
}
vec4 dop_w4_q4_0(DOP_W p, uint i, uint aux)
{
    uint u = i >> 5, w = dop_ldw1(p, i >> 3) >> dop_nib_shift(i >> 2);
    return dop_half(dop_ldw1(p, aux * 4u + (u >> 1)), u & 1u) * (dop_nib4(w) - 8.0);
}

struct dop_raw_q8_0 { uvec4 a, b; uint d, u; };
dop_raw_q8_0 dop_wload_q8_0(DOP_W p, uint u, uint aux)
{
    return dop_raw_q8_0(dop_unit4(p, 2u * u), dop_ldw4(p, 2u * u + 1u), dop_ldw1(p, aux * 4u + (u >> 1)), u);
}
#define DOP_BYTE4(w) dop_byte4z(w, DOP_OFFSET(128.0)) // bytes are stored with 128 added
float dop_wdot_q8_0(dop_raw_q8_0 r, vec4 x[8])
{
    float s = ((dot(DOP_BYTE4(r.a.x), x[0]) + dot(DOP_BYTE4(r.a.y), x[1])) +
               (dot(DOP_BYTE4(r.a.z), x[2]) + dot(DOP_BYTE4(r.a.w), x[3]))) +
              ((dot(DOP_BYTE4(r.b.x), x[4]) + dot(DOP_BYTE4(r.b.y), x[5])) +
               (dot(DOP_BYTE4(r.b.z), x[6]) + dot(DOP_BYTE4(r.b.w), x[7])));
    return dop_half(r.d, r.u & 1u) * (s - DOP_LESS(128.0, dop_sum8(x)));
}
vec4 dop_w4_q8_0(DOP_W p, uint i, uint aux)
{
    uint u = i >> 5;
    return dop_half(dop_ldw1(p, aux * 4u + (u >> 1)), u & 1u) * (dop_byte4(dop_ldw1(p, i >> 2)) - 128.0);
}

// --- a scale and an offset per unit: q4_1, q5_1, and q5_0 -------------------------------------------------------------
struct dop_raw_q4_1 { uvec4 q; uint dm; };
dop_raw_q4_1 dop_wload_q4_1(DOP_W p, uint u, uint aux) { return dop_raw_q4_1(dop_unit4(p, u), dop_ldw1(p, aux * 4u + u)); }
float dop_wdot_q4_1(dop_raw_q4_1 r, vec4 x[8])
{
    vec2 dm = unpackHalf2x16(r.dm);
    return dm.x * dop_dot_nib(r.q, x) + dm.y * dop_sum8(x);
}
vec4 dop_w4_q4_1(DOP_W p, uint i, uint aux)
{
    vec2 dm = unpackHalf2x16(dop_ldw1(p, aux * 4u + (i >> 5)));
    return dm.x * dop_nib4(dop_ldw1(p, i >> 3) >> dop_nib_shift(i >> 2)) + dm.y;
}

struct dop_raw_q5_1 { uvec4 q; uvec2 a; };
dop_raw_q5_1 dop_wload_q5_1(DOP_W p, uint u, uint aux) { return dop_raw_q5_1(dop_unit4(p, u), dop_ldw2(p, aux * 2u + u)); }
float dop_wdot_q5_1(dop_raw_q5_1 r, vec4 x[8])
{
    vec2 dm = unpackHalf2x16(r.a.y);
    return dm.x * dop_dot_five(r.q, r.a.x, x) + dm.y * dop_sum8(x);
}
vec4 dop_w4_q5_1(DOP_W p, uint i, uint aux)
{
    uvec2 a = dop_ldw2(p, aux * 2u + (i >> 5));
    vec2 dm = unpackHalf2x16(a.y);
    uint j = (i >> 2) & 7u;
    return dm.x * dop_five4(dop_ldw1(p, i >> 3) >> dop_nib_shift(j), a.x >> dop_one_shift(j)) + dm.y;
}

struct dop_raw_q5_0 { uvec4 q; uint h, d, u; };
dop_raw_q5_0 dop_wload_q5_0(DOP_W p, uint u, uint aux)
{
    uint g = aux * 4u + (u >> 5) * 48u, k = u & 31u;
    return dop_raw_q5_0(dop_unit4(p, u), dop_ldw1(p, g + k), dop_ldw1(p, g + 32u + (k >> 1)), u);
}
float dop_wdot_q5_0(dop_raw_q5_0 r, vec4 x[8])
{
    return dop_half(r.d, r.u & 1u) * (dop_dot_five(r.q, r.h, x) - 16.0 * dop_sum8(x));
}
vec4 dop_w4_q5_0(DOP_W p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 48u, k = u & 31u, j = (i >> 2) & 7u;
    vec4 v = dop_five4(dop_ldw1(p, i >> 3) >> dop_nib_shift(j), dop_ldw1(p, g + k) >> dop_one_shift(j));
    return dop_half(dop_ldw1(p, g + 32u + (k >> 1)), u & 1u) * (v - 16.0);
}

// --- blocks of 256 with six-bit scales: q4_k, q5_k -----------------------------------------------------------------------
// The block's word s has two f16: the factor of scales and that of minimums. In the other words nibble k belongs to unit k:
// the low bits of its scale, the low bits of its minimum, then the upper two bits of both.
vec2 dop_scale_min(uvec4 s, uint u)
{
    uvec3 n = s.yzw >> ((u & 7u) * 4u);
    ivec2 q = ivec2((n.x & 15u) | ((n.z << 4) & 0x30u), (n.y & 15u) | ((n.z << 2) & 0x30u));
    return unpackHalf2x16(s.x) * vec2(q);
}
struct dop_raw_q4_k { uvec4 q, s; uint u; };
dop_raw_q4_k dop_wload_q4_k(DOP_W p, uint u, uint aux)
{
    return dop_raw_q4_k(dop_unit4(p, u), dop_ldw4(p, aux + (u >> 3)), u);
}
float dop_wdot_q4_k(dop_raw_q4_k r, vec4 x[8])
{
    vec2 dm = dop_scale_min(r.s, r.u);
    return dm.x * dop_dot_nib(r.q, x) - dm.y * dop_sum8(x);
}
vec4 dop_w4_q4_k(DOP_W p, uint i, uint aux)
{
    vec2 dm = dop_scale_min(dop_ldw4(p, aux + (i >> 8)), i >> 5);
    return dm.x * dop_nib4(dop_ldw1(p, i >> 3) >> dop_nib_shift(i >> 2)) - dm.y;
}

struct dop_raw_q5_k { uvec4 q, s; uint h, u; };
dop_raw_q5_k dop_wload_q5_k(DOP_W p, uint u, uint aux)
{
    uint g = aux + (u >> 5) * 12u;
    return dop_raw_q5_k(dop_unit4(p, u), dop_ldw4(p, g + ((u >> 3) & 3u)), dop_ldw1(p, g * 4u + 16u + (u & 31u)), u);
}
float dop_wdot_q5_k(dop_raw_q5_k r, vec4 x[8])
{
    vec2 dm = dop_scale_min(r.s, r.u);
    return dm.x * dop_dot_five(r.q, r.h, x) - dm.y * dop_sum8(x);
}
vec4 dop_w4_q5_k(DOP_W p, uint i, uint aux)
{
    uint u = i >> 5, g = aux + (u >> 5) * 12u, j = (i >> 2) & 7u;
    vec2 dm = dop_scale_min(dop_ldw4(p, g + ((u >> 3) & 3u)), u);
    return dm.x * dop_five4(dop_ldw1(p, i >> 3) >> dop_nib_shift(j), dop_ldw1(p, g * 4u + 16u + (u & 31u)) >> dop_one_shift(j)) - dm.y;
}

// --- blocks of 256 with scales of 16 values: q6_k, q3_k, q2_k ------------------------------------------------------------
// Returns byte k of w, sign-extended.
float dop_s8(uint w, uint k) { return float(bitfieldExtract(int(w), int(k * 8u), 8)); }
float dop_sum4(vec4 a, vec4 b, vec4 c, vec4 d) { return dop_sum((a + b) + (c + d)); }

struct dop_raw_q6_k { uvec4 q; uvec2 h; uint s, d, u; };
dop_raw_q6_k dop_wload_q6_k(DOP_W p, uint u, uint aux)
{
    uint g = aux * 4u + (u >> 5) * 82u, k = u & 31u;
    return dop_raw_q6_k(dop_unit4(p, u), dop_ldw2(p, (g >> 1) + k), dop_ldw1(p, g + 64u + (k >> 1)), dop_ldw1(p, g + 80u + (k >> 4)), u);
}
#define DOP_SIX4(w, h) dop_six4z(w, h, DOP_OFFSET(32.0))
float dop_wdot_q6_k(dop_raw_q6_k r, vec4 x[8])
{
    float a = (dot(DOP_SIX4(r.q.x, r.h.x), x[0]) + dot(DOP_SIX4(r.q.x >> 8, r.h.x >> 2), x[1])) +
              (dot(DOP_SIX4(r.q.y, r.h.x >> 8), x[2]) + dot(DOP_SIX4(r.q.y >> 8, r.h.x >> 10), x[3]));
    float b = (dot(DOP_SIX4(r.q.z, r.h.y), x[4]) + dot(DOP_SIX4(r.q.z >> 8, r.h.y >> 2), x[5])) +
              (dot(DOP_SIX4(r.q.w, r.h.y >> 8), x[6]) + dot(DOP_SIX4(r.q.w >> 8, r.h.y >> 10), x[7]));
    a -= DOP_LESS(32.0, dop_sum4(x[0], x[1], x[2], x[3]));
    b -= DOP_LESS(32.0, dop_sum4(x[4], x[5], x[6], x[7]));
    uint s = r.s >> ((r.u & 1u) * 16u);
    return dop_half(r.d, (r.u >> 3) & 1u) * (dop_s8(s, 0u) * a + dop_s8(s, 1u) * b);
}
vec4 dop_w4_q6_k(DOP_W p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 82u, k = u & 31u, j = (i >> 2) & 7u;
    vec4 v = dop_six4(dop_ldw1(p, i >> 3) >> dop_nib_shift(j), dop_ldw1(p, g + k * 2u + (j >> 2)) >> dop_two_shift(j));
    float s = dop_half(dop_ldw1(p, g + 80u + (k >> 4)), (k >> 3) & 1u) * dop_s8(dop_ldw1(p, g + 64u + (k >> 1)), (k & 1u) * 2u + (j >> 2));
    return s * (v - 32.0);
}

struct dop_raw_q3_k { uvec2 q; uint h, s, d, u; };
dop_raw_q3_k dop_wload_q3_k(DOP_W p, uint u, uint aux)
{
    uint g = aux * 4u + (u >> 5) * 50u, k = u & 31u;
    return dop_raw_q3_k(dop_unit2(p, u), dop_ldw1(p, g + k), dop_ldw1(p, g + 32u + (k >> 1)), dop_ldw1(p, g + 48u + (k >> 4)), u);
}
float dop_wdot_q3_k(dop_raw_q3_k r, vec4 x[8])
{
    vec2 s = vec2(0.0);
    [[unroll]] for (uint j = 0u; j < 8u; j++)
        s[j >> 2] += dot(dop_three4(r.q[j >> 2] >> dop_two_shift(j), r.h >> dop_one_shift(j)), x[j]);
    s -= 4.0 * vec2(dop_sum4(x[0], x[1], x[2], x[3]), dop_sum4(x[4], x[5], x[6], x[7]));
    uint sc = r.s >> ((r.u & 1u) * 16u);
    return dop_half(r.d, (r.u >> 3) & 1u) * dot(vec2(dop_s8(sc, 0u), dop_s8(sc, 1u)), s);
}
vec4 dop_w4_q3_k(DOP_W p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 50u, k = u & 31u, j = (i >> 2) & 7u;
    vec4 v = dop_three4(dop_ldw1(p, u * 2u + (j >> 2)) >> dop_two_shift(j), dop_ldw1(p, g + k) >> dop_one_shift(j));
    float s = dop_half(dop_ldw1(p, g + 48u + (k >> 4)), (k >> 3) & 1u) * dop_s8(dop_ldw1(p, g + 32u + (k >> 1)), (k & 1u) * 2u + (j >> 2));
    return s * (v - 4.0);
}

struct dop_raw_q2_k { uvec2 q; uint s, d, u; };
dop_raw_q2_k dop_wload_q2_k(DOP_W p, uint u, uint aux)
{
    uint g = aux * 4u + (u >> 5) * 20u, k = u & 31u;
    return dop_raw_q2_k(dop_unit2(p, u), dop_ldw1(p, g + (k >> 1)), dop_ldw1(p, g + 16u + (k >> 3)), u);
}
// Returns scale and minimum of half h of a unit, the nibbles of byte h.
vec2 dop_scale_min_q2_k(uint s, uint d, uint h)
{
    return unpackHalf2x16(d) * vec2(ivec2(uvec2(s >> (h * 8u), s >> (h * 8u + 4u)) & 15u));
}
float dop_wdot_q2_k(dop_raw_q2_k r, vec4 x[8])
{
    vec2 s = vec2(0.0);
    [[unroll]] for (uint j = 0u; j < 8u; j++)
        s[j >> 2] += dot(dop_two4(r.q[j >> 2] >> dop_two_shift(j)), x[j]);
    uint sc = r.s >> ((r.u & 1u) * 16u);
    vec2 a = dop_scale_min_q2_k(sc, r.d, 0u), b = dop_scale_min_q2_k(sc, r.d, 1u);
    return (a.x * s.x + b.x * s.y) -
           (a.y * dop_sum4(x[0], x[1], x[2], x[3]) + b.y * dop_sum4(x[4], x[5], x[6], x[7]));
}
vec4 dop_w4_q2_k(DOP_W p, uint i, uint aux)
{
    uint u = i >> 5, g = aux * 4u + (u >> 5) * 20u, k = u & 31u, j = (i >> 2) & 7u;
    vec2 s = dop_scale_min_q2_k(dop_ldw1(p, g + (k >> 1)) >> ((k & 1u) * 16u), dop_ldw1(p, g + 16u + (k >> 3)), j >> 2);
    return s.x * dop_two4(dop_ldw1(p, u * 2u + (j >> 2)) >> dop_two_shift(j)) - s.y;
}

// --- sixteen levels: iq4_nl, which has a table of them, and mxfp4 ---------------------------------------------------------
// Returns level n of a table in four words of signed bytes.
float dop_level(uint n, uint a, uint b, uint c, uint d)
{
    return dop_s8(n < 8u ? (n < 4u ? a : b) : (n < 12u ? c : d), n & 3u);
}
vec4 dop_levels4(uint w, uint a, uint b, uint c, uint d)
{
    return vec4(dop_level(w & 15u, a, b, c, d), dop_level((w >> 16) & 15u, a, b, c, d), dop_level((w >> 4) & 15u, a, b, c, d),
                dop_level((w >> 20) & 15u, a, b, c, d));
}
#define DOP_IQ4(w) dop_levels4(w, 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u)

#define dop_raw_iq4_nl dop_raw_q4_0
dop_raw_q4_0 dop_wload_iq4_nl(DOP_W p, uint u, uint aux) { return dop_wload_q4_0(p, u, aux); }
float dop_wdot_iq4_nl(dop_raw_q4_0 r, vec4 x[8])
{
    float s = 0.0;
    [[unroll]] for (uint j = 0u; j < 8u; j++)
        s += dot(DOP_IQ4(r.q[j >> 1] >> dop_nib_shift(j)), x[j]);
    return dop_half(r.d, r.u & 1u) * s;
}
vec4 dop_w4_iq4_nl(DOP_W p, uint i, uint aux)
{
    uint u = i >> 5;
    return dop_half(dop_ldw1(p, aux * 4u + (u >> 1)), u & 1u) * DOP_IQ4(dop_ldw1(p, i >> 3) >> dop_nib_shift(i >> 2));
}

// Marks codes of mxfp4 by the lowest bit of their nibble. Twice the number is the code (compiler/pack/repack.c) minus 1, and
// minus another 13 if the code is marked.
uint dop_e2m1_less(uint w)
{
    uint b1 = w >> 1, b3 = w >> 3;
    return (b1 & b3) | (~w & (b1 | b3));
}
// Returns four doubled numbers, from the codes in bits 0..3 and 4..7 of both halves.
vec4 dop_e2m1(uint w)
{
    uint less = dop_e2m1_less(w);
    uint a = ((w & 0x000f000fu) | 0x00100010u) - 13u * (less & 0x00010001u);
    uint b = (((w >> 4) & 0x000f000fu) | 0x00100010u) - 13u * ((less >> 4) & 0x00010001u);
    return vec4(dop_u2z(a, 17.0), dop_u2z(b, 17.0));
}
// Returns 2^(e - 128), where e is byte u & 3 of w: half of the format's scale, because levels are doubled. For e of 0 and 1
// it would be subnormal, so it is 0.
float dop_e8m0(uint w, uint u)
{
    uint e = (w >> ((u & 3u) * 8u)) & 0xffu;
    return e < 2u ? 0.0 : uintBitsToFloat((e - 1u) << 23);
}
struct dop_raw_mxfp4 { uvec4 q; uint e, u; };
dop_raw_mxfp4 dop_wload_mxfp4(DOP_W p, uint u, uint aux)
{
    return dop_raw_mxfp4(dop_unit4(p, u), dop_ldw1(p, aux * 4u + (u >> 2)), u);
}
float dop_wdot_mxfp4(dop_raw_mxfp4 r, vec4 x[8])
{
    return dop_e8m0(r.e, r.u) * DOP_DOT8(dop_e2m1, r.q, x);
}
vec4 dop_w4_mxfp4(DOP_W p, uint i, uint aux)
{
    uint u = i >> 5;
    return dop_e8m0(dop_ldw1(p, aux * 4u + (u >> 2)), u) * dop_e2m1(dop_ldw1(p, i >> 3) >> dop_nib_shift(i >> 2));
}

// --- groups with an f16 scale and zero point: int4_g128, int4_g64, int4_g32 ----------------------------------------------
struct dop_raw_int4 { uvec4 q; uint dz; };
float dop_wdot_int4(dop_raw_int4 r, vec4 x[8])
{
    vec2 dz = unpackHalf2x16(r.dz);
    return dz.x * (dop_dot_nib(r.q, x) - dz.y * dop_sum8(x));
}
#define DOP_INT4(T, UNITS_LOG2)                                                                              \
    dop_raw_int4 dop_wload_##T(DOP_W p, uint u, uint aux)                                                      \
    {                                                                                                       \
        return dop_raw_int4(dop_unit4(p, u), dop_ldw1(p, aux * 4u + (u >> UNITS_LOG2)));                               \
    }                                                                                                       \
    float dop_wdot_##T(dop_raw_int4 r, vec4 x[8]) { return dop_wdot_int4(r, x); }                            \
    vec4 dop_w4_##T(DOP_W p, uint i, uint aux)                                                                 \
    {                                                                                                       \
        vec2 dz = unpackHalf2x16(dop_ldw1(p, aux * 4u + (i >> (5 + UNITS_LOG2))));                                   \
        return dz.x * (dop_nib4(dop_ldw1(p, i >> 3) >> dop_nib_shift(i >> 2)) - dz.y);                               \
    }
DOP_INT4(int4_g128, 2)
DOP_INT4(int4_g64, 1)
DOP_INT4(int4_g32, 0)
#define dop_raw_int4_g128 dop_raw_int4
#define dop_raw_int4_g64 dop_raw_int4
#define dop_raw_int4_g32 dop_raw_int4

// --- single values: matrices are read value by value only if their rows are not a multiple of four values -----------------
#define DOP_W1(T) float dop_w1_##T(DOP_W p, uint i, uint aux) { return dop_w4_##T(p, i & ~3u, aux)[i & 3u]; }
DOP_W1(q4_0)
DOP_W1(q4_1)
DOP_W1(q5_0)
DOP_W1(q5_1)
DOP_W1(q8_0)
DOP_W1(q2_k)
DOP_W1(q3_k)
DOP_W1(q4_k)
DOP_W1(q5_k)
DOP_W1(q6_k)
DOP_W1(iq4_nl)
DOP_W1(mxfp4)
DOP_W1(int4_g128)
DOP_W1(int4_g64)
DOP_W1(int4_g32)
