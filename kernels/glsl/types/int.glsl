// Packed integer products: activations in int8, with one factor per unit of 32 values, times weights from the planes of
// quant.glsl.
//
// A unit of activations x is stored as d = max |x| / 127, q = round(x / d) and s = d * (sum of q). The bytes of q have the
// order that weights have after one mask, so that no byte must be moved: words 2m and 2m + 1 have the values 8m + (0, 4, 1,
// 5) and 8m + (2, 6, 3, 7). With DOP_XI_BYTES, if all weights of a kernel are bytes, word j has the values 4j + (0, 2, 1, 3).
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450) // OpSDot
int dop_sdot_packed(uint a, uint b, spirv_literal int format);
#define DOP_SDOT(a, b) dop_sdot_packed(a, b, 0) // 0: packed 4x8

struct dop_xi {
    uvec4 a, b; // words 0..3 and 4..7
    vec2 ds;
};

// --- unsigned nibbles: values 0 .. 15, or with more bits up to 63 -------------------------------------------------------
#define DOP_LOW(w) ((w) & 0x0f0f0f0fu)
#define DOP_HIGH(w) (((w) >> 4) & 0x0f0f0f0fu)
int dop_idot_nib(uvec4 q, dop_xi x)
{
    return (((DOP_SDOT(DOP_LOW(q.x), x.a.x) + DOP_SDOT(DOP_HIGH(q.x), x.a.y)) +
             (DOP_SDOT(DOP_LOW(q.y), x.a.z) + DOP_SDOT(DOP_HIGH(q.y), x.a.w))) +
            ((DOP_SDOT(DOP_LOW(q.z), x.b.x) + DOP_SDOT(DOP_HIGH(q.z), x.b.y)) +
             (DOP_SDOT(DOP_LOW(q.w), x.b.z) + DOP_SDOT(DOP_HIGH(q.w), x.b.w))));
}
// Word m of nibbles, each with a fifth bit from h, whose lowest bit belongs to value 8m.
int dop_idot_five(uint w, uint h, uint xl, uint xh)
{
    uint low = DOP_LOW(w) | ((h << 4) & 0x00100010u) | ((h << 11) & 0x10001000u);
    uint high = DOP_HIGH(w) | (h & 0x00100010u) | ((h << 7) & 0x10001000u);
    return DOP_SDOT(low, xl) + DOP_SDOT(high, xh);
}
int dop_idot_fives(uvec4 q, uint h, dop_xi x)
{
    return (dop_idot_five(q.x, h, x.a.x, x.a.y) + dop_idot_five(q.y, h >> 2, x.a.z, x.a.w)) +
           (dop_idot_five(q.z, h >> 8, x.b.x, x.b.y) + dop_idot_five(q.w, h >> 10, x.b.z, x.b.w));
}
// Word m of nibbles, each with two more bits from h.
int dop_idot_six(uint w, uint h, uint xl, uint xh)
{
    uint low = DOP_LOW(w) | ((h << 4) & 0x00300030u) | ((h << 10) & 0x30003000u);
    uint high = DOP_HIGH(w) | (h & 0x00300030u) | ((h << 6) & 0x30003000u);
    return DOP_SDOT(low, xl) + DOP_SDOT(high, xh);
}
// The eight values of words m and m + 1, which are stored with 128 added.
#ifdef DOP_XI_BYTES
int dop_idot_bytes(uint w, uint v, uint xl, uint xh)
{
    return DOP_SDOT(w ^ 0x80808080u, xl) + DOP_SDOT(v ^ 0x80808080u, xh);
}
#else
int dop_idot_bytes(uint w, uint v, uint xl, uint xh)
{
    uint low = (w & 0x00ff00ffu) | ((v << 8) & 0xff00ff00u), high = ((w >> 8) & 0x00ff00ffu) | (v & 0xff00ff00u);
    return DOP_SDOT(low ^ 0x80808080u, xl) + DOP_SDOT(high ^ 0x80808080u, xh);
}
#endif
// Sixteen two-bit values of word w, whose pairs of bits are moved to the positions of activations.
uint dop_two_bytes(uint w) { return (w & 0x00030003u) | ((w << 6) & 0x03000300u); }
int dop_idot_twos(uint w, uvec4 x)
{
    return (DOP_SDOT(dop_two_bytes(w), x.x) + DOP_SDOT(dop_two_bytes(w >> 4), x.y)) +
           (DOP_SDOT(dop_two_bytes(w >> 8), x.z) + DOP_SDOT(dop_two_bytes(w >> 12), x.w));
}
// Two-bit values in the form of dop_two_bytes, each with a third bit from h, whose lowest bit belongs to the first value.
uint dop_three_bytes(uint w, uint h) { return dop_two_bytes(w) | ((h << 2) & 0x00040004u) | ((h << 9) & 0x04000400u); }
int dop_idot_threes(uint w, uint h, uvec4 x)
{
    return (DOP_SDOT(dop_three_bytes(w, h), x.x) + DOP_SDOT(dop_three_bytes(w >> 4, h >> 4), x.y)) +
           (DOP_SDOT(dop_three_bytes(w >> 8, h >> 2), x.z) + DOP_SDOT(dop_three_bytes(w >> 12, h >> 6), x.w));
}
#ifdef DOP_LEVELS
// Levels of both nibbles of each byte of iq4: that of the lower nibble in byte 0, that of the upper one in byte 2. One lookup
// serves two values; arithmetic would need ten instructions for each.
shared uint dop_level_pairs[256];
uint dop_level_byte(uint n) { return (uvec4(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u)[n >> 2] >> ((n & 3u) * 8u)) & 255u; }
void dop_fill_level_pairs()
{
    for (uint i = gl_LocalInvocationIndex; i < 256u; i += WG)
        dop_level_pairs[i] = dop_level_byte(i & 15u) | dop_level_byte(i >> 4) << 16;
}
// The eight values of a word.
int dop_idot_level(uint w, uint xl, uint xh)
{
    uint a = dop_level_pairs[w & 255u] | dop_level_pairs[(w >> 8) & 255u] << 8;
    uint b = dop_level_pairs[(w >> 16) & 255u] | dop_level_pairs[w >> 24] << 8;
    return DOP_SDOT((a & 0xffffu) | b << 16, xl) + DOP_SDOT(a >> 16 | (b & 0xffff0000u), xh);
}
int dop_idot_levels(uvec4 q, dop_xi x)
{
    return (dop_idot_level(q.x, x.a.x, x.a.y) + dop_idot_level(q.y, x.a.z, x.a.w)) +
           (dop_idot_level(q.z, x.b.x, x.b.y) + dop_idot_level(q.w, x.b.z, x.b.w));
}
#endif
int dop_isum4(uvec4 x)
{
    return (DOP_SDOT(x.x, 0x01010101u) + DOP_SDOT(x.y, 0x01010101u)) +
           (DOP_SDOT(x.z, 0x01010101u) + DOP_SDOT(x.w, 0x01010101u));
}

// --- one function per type: the dot product of a unit with its activations ----------------------------------------------
float dop_wdoti_q4_0(dop_raw_q4_0 r, dop_xi x)
{
    return dop_half(r.d, r.u & 1u) * (x.ds.x * float(dop_idot_nib(r.q, x)) - 8.0 * x.ds.y);
}
float dop_wdoti_q8_0(dop_raw_q8_0 r, dop_xi x)
{
    int s = (dop_idot_bytes(r.a.x, r.a.y, x.a.x, x.a.y) + dop_idot_bytes(r.a.z, r.a.w, x.a.z, x.a.w)) +
            (dop_idot_bytes(r.b.x, r.b.y, x.b.x, x.b.y) + dop_idot_bytes(r.b.z, r.b.w, x.b.z, x.b.w));
    return dop_half(r.d, r.u & 1u) * x.ds.x * float(s);
}
float dop_wdoti_q4_1(dop_raw_q4_1 r, dop_xi x)
{
    vec2 dm = unpackHalf2x16(r.dm);
    return dm.x * (x.ds.x * float(dop_idot_nib(r.q, x))) + dm.y * x.ds.y;
}
float dop_wdoti_q5_0(dop_raw_q5_0 r, dop_xi x)
{
    return dop_half(r.d, r.u & 1u) * (x.ds.x * float(dop_idot_fives(r.q, r.h, x)) - 16.0 * x.ds.y);
}
float dop_wdoti_q5_1(dop_raw_q5_1 r, dop_xi x)
{
    vec2 dm = unpackHalf2x16(r.a.y);
    return dm.x * (x.ds.x * float(dop_idot_fives(r.q, r.a.x, x))) + dm.y * x.ds.y;
}
float dop_wdoti_q4_k(dop_raw_q4_k r, dop_xi x)
{
    vec2 dm = dop_scale_min(r.s, r.u);
    return dm.x * (x.ds.x * float(dop_idot_nib(r.q, x))) - dm.y * x.ds.y;
}
float dop_wdoti_q5_k(dop_raw_q5_k r, dop_xi x)
{
    vec2 dm = dop_scale_min(r.s, r.u);
    return dm.x * (x.ds.x * float(dop_idot_fives(r.q, r.h, x))) - dm.y * x.ds.y;
}
// q6_k: a unit has two integer scales. Sums stay integers as long as floats hold them exactly (63 * 127 * 16 * 127 < 2^24).
float dop_wdoti_q6_k(dop_raw_q6_k r, dop_xi x)
{
    int a = dop_idot_six(r.q.x, r.h.x, x.a.x, x.a.y) + dop_idot_six(r.q.y, r.h.x >> 8, x.a.z, x.a.w);
    int b = dop_idot_six(r.q.z, r.h.y, x.b.x, x.b.y) + dop_idot_six(r.q.w, r.h.y >> 8, x.b.z, x.b.w);
    int s = int(r.s >> ((r.u & 1u) * 16u));
    int sum = bitfieldExtract(s, 0, 8) * (a - 32 * dop_isum4(x.a)) + bitfieldExtract(s, 8, 8) * (b - 32 * dop_isum4(x.b));
    return dop_half(r.d, (r.u >> 3) & 1u) * (x.ds.x * float(sum));
}
// mxfp4: codes marked by dop_e2m1_less stand for 13 less. The activations of marked codes are summed separately, times
// sixteen if the code is the upper nibble of a byte.
float dop_wdoti_mxfp4(dop_raw_mxfp4 r, dop_xi x)
{
    uvec4 less = uvec4(dop_e2m1_less(r.q.x), dop_e2m1_less(r.q.y), dop_e2m1_less(r.q.z), dop_e2m1_less(r.q.w));
    uvec4 a = less & 0x01010101u, b = less & 0x10101010u;
    int low = (DOP_SDOT(a.x, x.a.x) + DOP_SDOT(a.y, x.a.z)) + (DOP_SDOT(a.z, x.b.x) + DOP_SDOT(a.w, x.b.z));
    int high = (DOP_SDOT(b.x, x.a.y) + DOP_SDOT(b.y, x.a.w)) + (DOP_SDOT(b.z, x.b.y) + DOP_SDOT(b.w, x.b.w));
    return dop_e8m0(r.e, r.u) * (x.ds.x * float(dop_idot_nib(r.q, x) - 13 * (low + high / 16)) - x.ds.y);
}
float dop_wdoti_int4(dop_raw_int4 r, dop_xi x)
{
    vec2 dz = unpackHalf2x16(r.dz);
    return dz.x * (x.ds.x * float(dop_idot_nib(r.q, x)) - dz.y * x.ds.y);
}
#define dop_wdoti_int4_g128 dop_wdoti_int4
#define dop_wdoti_int4_g64 dop_wdoti_int4
#define dop_wdoti_int4_g32 dop_wdoti_int4
// q2_k: scales and minimums are integers, so sums stay integers, as for q6_k.
float dop_wdoti_q2_k(dop_raw_q2_k r, dop_xi x)
{
    uint s = r.s >> ((r.u & 1u) * 16u);
    vec2 dm = x.ds.x * unpackHalf2x16(r.d);
    int scaled = int(s & 15u) * dop_idot_twos(r.q.x, x.a) + int((s >> 8) & 15u) * dop_idot_twos(r.q.y, x.b);
    int least = int((s >> 4) & 15u) * dop_isum4(x.a) + int((s >> 12) & 15u) * dop_isum4(x.b);
    return dm.x * float(scaled) - dm.y * float(least);
}
float dop_wdoti_q3_k(dop_raw_q3_k r, dop_xi x)
{
    int s = int(r.s >> ((r.u & 1u) * 16u));
    int sum = bitfieldExtract(s, 0, 8) * (dop_idot_threes(r.q.x, r.h, x.a) - 4 * dop_isum4(x.a)) +
              bitfieldExtract(s, 8, 8) * (dop_idot_threes(r.q.y, r.h >> 8, x.b) - 4 * dop_isum4(x.b));
    return dop_half(r.d, (r.u >> 3) & 1u) * (x.ds.x * float(sum));
}
#ifdef DOP_LEVELS
float dop_wdoti_iq4_nl(dop_raw_iq4_nl r, dop_xi x)
{
    return dop_half(r.d, r.u & 1u) * (x.ds.x * float(dop_idot_levels(r.q, x)));
}
#endif
#ifdef DOP_CODES
#ifdef DOP_LEVELS
float dop_wdoti_iq4_xs(dop_raw_iq4_xs r, dop_xi x)
{
    return dop_scale_iq4_xs(r).x * (x.ds.x * float(dop_idot_levels(r.q, x)));
}
#endif
// Two words of e2m1 codes: doubled values, as for mxfp4.
int dop_idot_e2m1(uvec2 q, uvec4 x)
{
    uvec2 less = uvec2(dop_e2m1_less(q.x), dop_e2m1_less(q.y)), a = less & 0x01010101u, b = less & 0x10101010u;
    int codes = (DOP_SDOT(DOP_LOW(q.x), x.x) + DOP_SDOT(DOP_HIGH(q.x), x.y)) +
                (DOP_SDOT(DOP_LOW(q.y), x.z) + DOP_SDOT(DOP_HIGH(q.y), x.w));
    int high = DOP_SDOT(b.x, x.y) + DOP_SDOT(b.y, x.w);
    return codes - 13 * (DOP_SDOT(a.x, x.x) + DOP_SDOT(a.y, x.z) + high / 16) - dop_isum4(x);
}
float dop_wdoti_nvfp4(dop_raw_nvfp4 r, dop_xi x)
{
    return x.ds.x * dot(dop_scale_nvfp4(r), vec2(dop_idot_e2m1(r.q.xy, x.a), dop_idot_e2m1(r.q.zw, x.b)));
}
float dop_wdoti_two(dop_raw_two r, dop_xi x)
{
    return r.d * (x.ds.x * float(dop_idot_twos(r.q.x, x.a) + dop_idot_twos(r.q.y, x.b)) - x.ds.y);
}
// Bits as integers 0 and 1, moved as by dop_three_bytes.
uint dop_one_bytes(uint h) { return (h & 0x00010001u) | ((h << 7) & 0x01000100u); }
float dop_wdoti_q1_0(dop_raw_q1_0 r, dop_xi x)
{
    int a = (DOP_SDOT(dop_one_bytes(r.q), x.a.x) + DOP_SDOT(dop_one_bytes(r.q >> 4), x.a.y)) +
            (DOP_SDOT(dop_one_bytes(r.q >> 2), x.a.z) + DOP_SDOT(dop_one_bytes(r.q >> 6), x.a.w));
    int b = (DOP_SDOT(dop_one_bytes(r.q >> 8), x.b.x) + DOP_SDOT(dop_one_bytes(r.q >> 12), x.b.y)) +
            (DOP_SDOT(dop_one_bytes(r.q >> 10), x.b.z) + DOP_SDOT(dop_one_bytes(r.q >> 14), x.b.w));
    return r.d * (x.ds.x * float(a + b) - 0.5 * x.ds.y);
}
#define DOP_WORDS(x, i) ((i) == 0u ? x.a.xy : (i) == 1u ? x.a.zw : (i) == 2u ? x.b.xy : x.b.zw)
#define DOP_BOOK_PRODUCT(T)                                                             \
    float dop_wdoti_##T(dop_raw_##T r, dop_xi x)                                        \
    {                                                                                   \
        ivec2 s = ivec2(0);                                                             \
        [[unroll]] for (uint i = 0u; i < 4u; i++) {                                     \
            uvec2 w = dop_bytes_##T(r, i), v = DOP_WORDS(x, i);                         \
            s[i >> 1] += DOP_SDOT(w.x, v.x) + DOP_SDOT(w.y, v.y);                       \
        }                                                                               \
        return x.ds.x * dot(dop_scale_##T(r), vec2(s));                                 \
    }
#define DOP_MOVED_PRODUCT(T)                                                                                \
    float dop_wdoti_##T(dop_raw_##T r, dop_xi x)                                                            \
    {                                                                                                       \
        vec2 s = vec2(0.0);                                                                                 \
        [[unroll]] for (uint i = 0u; i < 4u; i++) {                                                         \
            uvec2 v = DOP_WORDS(x, i);                                                                      \
            uint w = dop_word_##T(r, i);                                                                    \
            s[i >> 1] += float(DOP_SDOT(dop_two_bytes(w), v.x) + DOP_SDOT(dop_two_bytes(w >> 4), v.y)) -    \
                         dop_less_##T(r, i) * float(DOP_SDOT(v.x, 0x01010101u) + DOP_SDOT(v.y, 0x01010101u)); \
        }                                                                                                   \
        return x.ds.x * dot(dop_scale_##T(r), s);                                                           \
    }
DOP_BOOK_PRODUCT(iq3_s)
DOP_BOOK_PRODUCT(iq3_xxs)
DOP_BOOK_PRODUCT(iq2_s)
DOP_BOOK_PRODUCT(iq2_xs)
DOP_BOOK_PRODUCT(iq2_xxs)
DOP_MOVED_PRODUCT(iq1_m)
DOP_MOVED_PRODUCT(iq1_s)
#define dop_wdoti_tq1_0 dop_wdoti_two
#define dop_wdoti_tq2_0 dop_wdoti_two
#define dop_wdoti_q2_0 dop_wdoti_two
#endif
