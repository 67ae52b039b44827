// Quantized weights that are decoded eight values at a time; base/storage/types.def describes their fields. A type T has
//   dop_raw_T                                      what an invocation loads of a unit of 32 values
//   dop_raw_T dop_load_T(p, u, aux, low)           unit u, whose words in plane 0 are `low`
//   vec2 dop_scale_T(raw)                          the factors of values 0 .. 15 and 16 .. 31
//   dop_eight dop_eight_T(raw, i)                  values 8 i .. 8 i + 7, not yet multiplied
// From these, DOP_TYPE(T, words of a unit in plane 0) generates the functions of kernels/emit/weight_types.h.
#define DOP_CODES
struct dop_eight { vec4 a, b; };
#if defined(DOP_AHEAD) && defined(DOP_TEXELS)
uint dop_unit1(DOP_W p, uint i) { return dop_ahead[i & 3u]; }
#elif defined(DOP_AHEAD)
uint dop_unit1(U32 p, uint i) { return unpack32(dop_ahead)[i & 1u]; }
#else
#define dop_unit1 dop_ldw1
#endif
struct dop_words8 { uvec4 a, b; };
#define dop_unit8(p, u) dop_words8(dop_unit4(p, 2u * (u)), dop_ldw4(p, 2u * (u) + 1u))
#define dop_ldw8(p, u) dop_words8(dop_ldw4(p, 2u * (u)), dop_ldw4(p, 2u * (u) + 1u))
#define DOP_TYPE(T, WORDS)                                                                                             \
    dop_raw_##T dop_wload_##T(DOP_W p, uint u, uint aux) { return dop_load_##T(p, u, aux, dop_unit##WORDS(p, u)); }     \
    float dop_wdot_##T(dop_raw_##T r, vec4 x[8])                                                                        \
    {                                                                                                                  \
        vec2 s = vec2(0.0);                                                                                             \
        [[unroll]] for (uint i = 0u; i < 4u; i++) {                                                                     \
            dop_eight v = dop_eight_##T(r, i);                                                                          \
            s[i >> 1] += dot(v.a, x[2u * i]) + dot(v.b, x[2u * i + 1u]);                                                \
        }                                                                                                              \
        return dot(dop_scale_##T(r), s);                                                                                \
    }                                                                                                                  \
    dop_eight dop_values8_##T(DOP_W p, uint i, uint aux)                                                                \
    {                                                                                                                  \
        dop_raw_##T r = dop_load_##T(p, i >> 5, aux, dop_ldw##WORDS(p, i >> 5));                                        \
        dop_eight v = dop_eight_##T(r, (i >> 3) & 3u);                                                                  \
        float s = dop_scale_##T(r)[(i >> 4) & 1u];                                                                      \
        return dop_eight(s * v.a, s * v.b);                                                                             \
    }                                                                                                                  \
    vec4 dop_w4_##T(DOP_W p, uint i, uint aux)                                                                          \
    {                                                                                                                  \
        dop_eight v = dop_values8_##T(p, i, aux);                                                                       \
        return (i & 4u) != 0u ? v.b : v.a;                                                                              \
    }                                                                                                                  \
    float dop_w1_##T(DOP_W p, uint i, uint aux) { return dop_w4_##T(p, i & ~3u, aux)[i & 3u]; }
// For products on matrix units (matmul_coop.glsl): dop_half8_T(raw, j) converts values 8 j to 8 j + 7 of a unit to f16.
uvec4 dop_pack_eight(dop_eight v, float s)
{
    v = dop_eight(s * v.a, s * v.b);
    return uvec4(packHalf2x16(v.a.xy), packHalf2x16(v.a.zw), packHalf2x16(v.b.xy), packHalf2x16(v.b.zw));
}
#define DOP_HALF8(T, r, j) dop_pack_eight(dop_eight_##T(r, j), dop_scale_##T(r)[(j) >> 1])
#define DOP_HALF8_MOVED(T, r, j)                                                                                       \
    dop_scaled8_two(dop_word_##T(r, j), dop_scale_##T(r)[(j) >> 1] * vec2(1.0, -dop_less_##T(r, j)))
#define DOP_HALF8_BOOK(T, r, j)                                                                                        \
    dop_scaled8_entry(dop_entry_##T(r, j), dop_fours_##T, dop_signs_##T(r, j), dop_scale_##T(r)[(j) >> 1])
#define dop_half8_iq4_xs(r, j) dop_scaled8_iq4((r).q[j], dop_scale_iq4_xs(r).x)
#define dop_half8_nvfp4(r, j) dop_scaled8_e2m1((r).q[j], dop_scale_nvfp4(r)[(j) >> 1])
#define dop_half8_f8_128(r, j) DOP_HALF8(f8_128, r, j)
#define dop_half8_tq2_0(r, j) dop_scaled8_two((r).q[(j) >> 1] >> ((j) & 1u) * 8u, vec2((r).d, -(r).d))
#define dop_half8_tq1_0(r, j) dop_scaled8_two((r).q[(j) >> 1] >> ((j) & 1u) * 8u, vec2((r).d, -(r).d))
#define dop_half8_q2_0(r, j) dop_scaled8_two((r).q[(j) >> 1] >> ((j) & 1u) * 8u, vec2((r).d, -(r).d))
#define dop_half8_q1_0(r, j) dop_signed8_one((r).q >> dop_one_shift(2u * (j)), 0.5 * (r).d)
#define dop_half8_iq2_xxs(r, j) DOP_HALF8_BOOK(iq2_xxs, r, j)
#define dop_half8_iq2_xs(r, j) DOP_HALF8_BOOK(iq2_xs, r, j)
#define dop_half8_iq2_s(r, j) DOP_HALF8_BOOK(iq2_s, r, j)
#define dop_half8_iq3_xxs(r, j) DOP_HALF8_BOOK(iq3_xxs, r, j)
#define dop_half8_iq3_s(r, j) DOP_HALF8_BOOK(iq3_s, r, j)
#define dop_half8_iq1_s(r, j) DOP_HALF8_MOVED(iq1_s, r, j)
#define dop_half8_iq1_m(r, j) DOP_HALF8_MOVED(iq1_m, r, j)
#define DOP_HALVES_ANY(T)                                                                                              \
    uvec4 dop_load8_##T(U32 p, uint i, uint aux)                                                                        \
    {                                                                                                                  \
        dop_raw_##T r = dop_wload_##T(p, i >> 5, aux);                                                                  \
        uint j = (i >> 3) & 3u;                                                                                         \
        return dop_half8_##T(r, j);                                                                                     \
    }                                                                                                                  \
    DOP_HALVES(T, dop_raw8(dop_load8_##T(p, i, aux), uvec4(0u)), r.a)
// Weights for products on matrix units, for types with the levels of iq4 and one scale per unit.
#define DOP_HALVES_LEVELS(T)                                                                                           \
    uvec4 dop_load8_##T(U32 p, uint i, uint aux)                                                                        \
    {                                                                                                                  \
        dop_raw_##T r = dop_load_##T(p, i >> 5, aux, uvec4(p.v[i >> 3]));                                               \
        return uvec4(r.q.x, floatBitsToUint(dop_scale_##T(r).x), 0u, 0u);                                               \
    }                                                                                                                  \
    DOP_HALVES(T, dop_raw8(dop_load8_##T(p, i, aux), uvec4(0u)), dop_scaled8_iq4(r.a.x, uintBitsToFloat(r.a.y)))

// Returns the factor of block u / 8, a half after `words` words of its group of `group` words.
float dop_block_half(DOP_W p, uint u, uint aux, uint group, uint words)
{
    uint b = (u >> 3) & 3u;
    return dop_half(dop_ldw1(p, aux * 4u + (u >> 5) * group + words + (b >> 1)), b & 1u);
}

// --- sixteen levels ------------------------------------------------------------------------------------------------------
struct dop_raw_iq4_xs { uvec4 q; uvec2 s; uint u; };
dop_raw_iq4_xs dop_load_iq4_xs(DOP_W p, uint u, uint aux, uvec4 low)
{
    return dop_raw_iq4_xs(low, dop_ldw2(p, aux * 2u + (u >> 3)), u & 7u);
}
vec2 dop_scale_iq4_xs(dop_raw_iq4_xs r)
{
    uint s = ((r.s.y >> (4u * r.u)) & 15u) | (((r.s.x >> (16u + 2u * r.u)) & 3u) << 4);
    return vec2(dop_half(r.s.x, 0u) * float(int(s) - 32));
}
dop_eight dop_eight_iq4_xs(dop_raw_iq4_xs r, uint i) { return dop_eight(DOP_IQ4(r.q[i]), DOP_IQ4(r.q[i] >> 8)); }
DOP_TYPE(iq4_xs, 4)

// Returns half of the unsigned e4m3 number in the lowest byte of b; the NaN code counts as 0.
float dop_half_e4m3(uint b)
{
    uint e = (b >> 3) & 15u, m = b & 7u;
    return (b & 127u) == 127u ? 0.0 : e == 0u ? float(m) * 0.0009765625 : uintBitsToFloat(((e + 119u) << 23) | (m << 20));
}
struct dop_raw_nvfp4 { uvec4 q; uint s; float d; };
dop_raw_nvfp4 dop_load_nvfp4(DOP_W p, uint u, uint aux, uvec4 low)
{
    return dop_raw_nvfp4(low, dop_ldw1(p, aux * 4u + (u >> 1)) >> ((u & 1u) * 16u), uintBitsToFloat(dop_ldw1(p, aux * 4u - 4u)));
}
vec2 dop_scale_nvfp4(dop_raw_nvfp4 r) { return r.d * vec2(dop_half_e4m3(r.s), dop_half_e4m3(r.s >> 8)); }
dop_eight dop_eight_nvfp4(dop_raw_nvfp4 r, uint i) { return dop_eight(dop_e2m1(r.q[i]), dop_e2m1(r.q[i] >> 8)); }
DOP_TYPE(nvfp4, 4)

// --- e4m3 with a factor: numbers as halves are 256 times too small -----------------------------------------------------
vec4 dop_e4m3(uint w)
{
    uint v = w >> 8;
    vec2 a = unpackHalf2x16(((w & 0x00800080u) << 8) | ((w & 0x007f007fu) << 7));
    vec2 b = unpackHalf2x16(((v & 0x00800080u) << 8) | ((v & 0x007f007fu) << 7));
    return vec4(a.x, b.x, a.y, b.y);
}
struct dop_raw_f8_128 { dop_words8 q; float d; };
dop_raw_f8_128 dop_load_f8_128(DOP_W p, uint u, uint aux, dop_words8 low)
{
    return dop_raw_f8_128(low, 256.0 * uintBitsToFloat(dop_ldw1(p, aux * 4u + (u >> 2))));
}
vec2 dop_scale_f8_128(dop_raw_f8_128 r) { return vec2(r.d); }
dop_eight dop_eight_f8_128(dop_raw_f8_128 r, uint i)
{
    uvec4 q = i < 2u ? r.q.a : r.q.b;
    uvec2 w = (i & 1u) != 0u ? q.zw : q.xy;
    return dop_eight(dop_e4m3(w.x), dop_e4m3(w.y));
}
DOP_TYPE(f8_128, 8)

// --- one and two bits with a factor ---------------------------------------------------------------------------------------
vec4 dop_two4z(uint w, float z) { return vec4(dop_u2z(w & 0x00030003u, z), dop_u2z((w >> 4) & 0x00030003u, z)); }
dop_eight dop_eight_two(uint w, float z) { return dop_eight(dop_two4z(w, z), dop_two4z(w >> 2, z)); }
struct dop_raw_two { uvec2 q; float d; };
vec2 dop_scale_two(dop_raw_two r) { return vec2(r.d); }
dop_eight dop_eight_two(dop_raw_two r, uint i) { return dop_eight_two(r.q[i >> 1] >> ((i & 1u) * 8u), 1.0); }
dop_raw_two dop_load_tq2_0(DOP_W p, uint u, uint aux, uvec2 low) { return dop_raw_two(low, dop_block_half(p, u, aux, 2u, 0u)); }
#define dop_load_tq1_0 dop_load_tq2_0
dop_raw_two dop_load_q2_0(DOP_W p, uint u, uint aux, uvec2 low)
{
    return dop_raw_two(low, dop_half(dop_ldw1(p, aux * 4u + (u >> 2)), (u >> 1) & 1u));
}
#define dop_raw_tq2_0 dop_raw_two
#define dop_raw_tq1_0 dop_raw_two
#define dop_raw_q2_0 dop_raw_two
#define dop_scale_tq2_0 dop_scale_two
#define dop_scale_tq1_0 dop_scale_two
#define dop_scale_q2_0 dop_scale_two
#define dop_eight_tq2_0 dop_eight_two
#define dop_eight_tq1_0 dop_eight_two
#define dop_eight_q2_0 dop_eight_two
DOP_TYPE(tq2_0, 2)
DOP_TYPE(tq1_0, 2)
DOP_TYPE(q2_0, 2)

struct dop_raw_q1_0 { uint q; float d; };
dop_raw_q1_0 dop_load_q1_0(DOP_W p, uint u, uint aux, uint low)
{
    return dop_raw_q1_0(low, 2.0 * dop_half(dop_ldw1(p, aux * 4u + (u >> 3)), (u >> 2) & 1u));
}
vec2 dop_scale_q1_0(dop_raw_q1_0 r) { return vec2(r.d); }
vec4 dop_one4(uint w) { return vec4(dop_u2z(w & 0x00010001u, 0.5), dop_u2z((w >> 4) & 0x00010001u, 0.5)); }
dop_eight dop_eight_q1_0(dop_raw_q1_0 r, uint i)
{
    uint w = r.q >> dop_one_shift(2u * i);
    return dop_eight(dop_one4(w), dop_one4(w >> 1));
}
DOP_TYPE(q1_0, 1)

// --- codebooks ----------------------------------------------------------------------------------------------------------
// A codebook is between plane 0 and plane 1; `book` counts 16-byte words. Its entries are the magnitudes of values as bytes,
// in the order of int8 activations (int.glsl): for eight values 0, 4, 1, 5 and 2, 6, 3, 7; for four 0, 2, 1, 3.
#ifdef DOP_BOOK_WORDS // a copy in shared memory: the kernel's weights have one codebook
shared uvec2 dop_book[DOP_BOOK_WORDS / 2u];
#define dop_book2(r, i) dop_book[i]
#define dop_book1(r, i) dop_book[(i) >> 1][(i) & 1u]
void dop_fill_book(DOP_W p, uint aux)
{
    for (uint i = gl_LocalInvocationIndex; i < DOP_BOOK_WORDS / 2u; i += WG)
        dop_book[i] = dop_ldw2(p, aux * 2u - DOP_BOOK_WORDS / 2u + i);
}
#else
#define dop_book2(r, i) dop_ldw2((r).p, (r).book * 2u + (i))
#define dop_book1(r, i) dop_ldw1((r).p, (r).book * 4u + (i))
#endif
uvec2 dop_fours(uint a, uint b)
{
    return uvec2((a & 0x00ff00ffu) | ((b & 0x00ff00ffu) << 8), ((a >> 8) & 0x00ff00ffu) | (b & 0xff00ff00u));
}
// Applies the signs of values 0 .. 7, which are bits of s. The multiplication moves bits 0, 1, 4 and 5 to bits 0, 16, 8 and
// 24 without carries between them.
uvec2 dop_signed(uvec2 e, uint s)
{
    uvec2 t = ((uvec2(s, s >> 2) & 0x33u) * 0x88011u) & 0x01010101u;
    return (e ^ (t * 255u)) + t;
}
dop_eight dop_eight_signed(uvec2 e)
{
    uvec2 b = e ^ 0x80808080u;
    return dop_eight(vec4(dop_u2z(b.x & 0x00ff00ffu, 128.0), dop_u2z(b.y & 0x00ff00ffu, 128.0)),
                     vec4(dop_u2z((b.x >> 8) & 0x00ff00ffu, 128.0), dop_u2z((b.y >> 8) & 0x00ff00ffu, 128.0)));
}
// Functions of a type T with a codebook of bytes. dop_entry_T(raw, i) returns the magnitudes of values 8 i .. 8 i + 7 (FOURS:
// in two entries of four), dop_signs_T(raw, i) the signs.
#define DOP_BOOK_TYPE(T, FOURS)                                                                                         \
    const bool dop_fours_##T = FOURS;                                                                                   \
    uvec2 dop_bytes_##T(dop_raw_##T r, uint i)                                                                          \
    {                                                                                                                  \
        uvec2 e = dop_entry_##T(r, i);                                                                                  \
        return dop_signed(FOURS ? dop_fours(e.x, e.y) : e, dop_signs_##T(r, i));                                        \
    }                                                                                                                  \
    dop_eight dop_eight_##T(dop_raw_##T r, uint i) { return dop_eight_signed(dop_bytes_##T(r, i)); }                    \
    DOP_TYPE(T, 2)
// Returns seven signs and an eighth that makes the number of set bits even.
uint dop_even(uint seven) { return (seven & 127u) | ((uint(bitCount(seven & 127u)) & 1u) << 7); }
uint dop_byte(uint w, uint i) { return (w >> (8u * (i & 3u))) & 255u; }

struct dop_raw_iq2_xxs { uvec2 q; float d; uint book; DOP_W p; };
dop_raw_iq2_xxs dop_load_iq2_xxs(DOP_W p, uint u, uint aux, uvec2 low)
{
    return dop_raw_iq2_xxs(low, dop_block_half(p, u, aux, 2u, 0u), aux - 128u, p);
}
vec2 dop_scale_iq2_xxs(dop_raw_iq2_xxs r) { return vec2(r.d * (0.5 + float(r.q.y >> 28)) * 0.25); }
uvec2 dop_entry_iq2_xxs(dop_raw_iq2_xxs r, uint i) { return dop_book2(r, dop_byte(r.q.x, i)); }
uint dop_signs_iq2_xxs(dop_raw_iq2_xxs r, uint i) { return dop_even(r.q.y >> (7u * i)); }
DOP_BOOK_TYPE(iq2_xxs, false)

struct dop_raw_iq2_xs { uvec2 q; uint s, book; float d; DOP_W p; };
dop_raw_iq2_xs dop_load_iq2_xs(DOP_W p, uint u, uint aux, uvec2 low)
{
    uint s = dop_ldw1(p, aux * 4u + (u >> 5) * 10u + ((u & 31u) >> 2));
    return dop_raw_iq2_xs(low, dop_byte(s, u), aux - 256u, dop_block_half(p, u, aux, 10u, 8u), p);
}
vec2 dop_scale_iq2_xs(dop_raw_iq2_xs r) { return r.d * (0.5 + vec2(float(r.s & 15u), float(r.s >> 4))) * 0.25; }
uvec2 dop_entry_iq2_xs(dop_raw_iq2_xs r, uint i) { return dop_book2(r, (r.q[i >> 1] >> ((i & 1u) * 16u)) & 511u); }
uint dop_signs_iq2_xs(dop_raw_iq2_xs r, uint i) { return dop_even(r.q[i >> 1] >> ((i & 1u) * 16u + 9u)); }
DOP_BOOK_TYPE(iq2_xs, false)

struct dop_raw_iq2_s { uvec2 q; uint h, s, book; float d; DOP_W p; };
dop_raw_iq2_s dop_load_iq2_s(DOP_W p, uint u, uint aux, uvec2 low)
{
    uint g = aux * 4u + (u >> 5) * 18u + ((u & 31u) >> 2);
    return dop_raw_iq2_s(low, dop_byte(dop_ldw1(p, g), u), dop_byte(dop_ldw1(p, g + 8u), u), aux - 512u,
                         dop_block_half(p, u, aux, 18u, 16u), p);
}
vec2 dop_scale_iq2_s(dop_raw_iq2_s r) { return r.d * (0.5 + vec2(float(r.s & 15u), float(r.s >> 4))) * 0.25; }
uvec2 dop_entry_iq2_s(dop_raw_iq2_s r, uint i)
{
    uint at = dop_byte(r.q.x, i) | ((r.h << (8u - 2u * i)) & 0x300u);
    return dop_book2(r, at);
}
uint dop_signs_iq2_s(dop_raw_iq2_s r, uint i) { return dop_byte(r.q.y, i); }
DOP_BOOK_TYPE(iq2_s, false)

struct dop_raw_iq3_xxs { uvec2 q; uint s, book; float d; DOP_W p; };
dop_raw_iq3_xxs dop_load_iq3_xxs(DOP_W p, uint u, uint aux, uvec2 low)
{
    return dop_raw_iq3_xxs(low, dop_ldw1(p, aux * 4u + (u >> 5) * 34u + (u & 31u)), aux - 64u,
                           dop_block_half(p, u, aux, 34u, 32u), p);
}
vec2 dop_scale_iq3_xxs(dop_raw_iq3_xxs r) { return vec2(r.d * (0.5 + float(r.s >> 28)) * 0.5); }
uvec2 dop_entry_iq3_xxs(dop_raw_iq3_xxs r, uint i)
{
    uint w = r.q[i >> 1] >> ((i & 1u) * 16u);
    return uvec2(dop_book1(r, w & 255u), dop_book1(r, (w >> 8) & 255u));
}
uint dop_signs_iq3_xxs(dop_raw_iq3_xxs r, uint i) { return dop_even(r.s >> (7u * i)); }
DOP_BOOK_TYPE(iq3_xxs, true)

struct dop_raw_iq3_s { uvec2 q; uint s, h, book; float d; DOP_W p; };
dop_raw_iq3_s dop_load_iq3_s(DOP_W p, uint u, uint aux, uvec2 low)
{
    uint g = aux * 4u + (u >> 5) * 46u, k = u & 31u;
    uint scale = (dop_ldw1(p, g + 40u + (k >> 3)) >> (4u * (k & 7u))) & 15u;
    return dop_raw_iq3_s(low, dop_ldw1(p, g + k), dop_byte(dop_ldw1(p, g + 32u + (k >> 2)), k), aux - 128u,
                         dop_block_half(p, u, aux, 46u, 44u) * float(1u + 2u * scale), p);
}
vec2 dop_scale_iq3_s(dop_raw_iq3_s r) { return vec2(r.d); }
uvec2 dop_entry_iq3_s(dop_raw_iq3_s r, uint i)
{
    uint w = r.q[i >> 1] >> ((i & 1u) * 16u), h = r.h >> (2u * i);
    uint a = (w & 255u) | ((h & 1u) << 8), b = ((w >> 8) & 255u) | ((h & 2u) << 7);
    return uvec2(dop_book1(r, a), dop_book1(r, b));
}
uint dop_signs_iq3_s(dop_raw_iq3_s r, uint i) { return dop_byte(r.s, i); }
DOP_BOOK_TYPE(iq3_s, true)

// A word of iq1's codebook has two entries of eight two-bit values. Values are -1, 0 and 1, shifted up or down by an eighth.
#define DOP_ENTRY_IQ1(r, at) (dop_book1(r, (at) >> 1) >> (((at) & 1u) * 8u))
// Functions of a type T with iq1's codebook: values 8 i .. 8 i + 7 are those of dop_word_T(raw, i) minus dop_less_T(raw, i).
#define DOP_MOVED_TYPE(T)                                                                                                \
    dop_eight dop_eight_##T(dop_raw_##T r, uint i) { return dop_eight_two(dop_word_##T(r, i), dop_less_##T(r, i)); }  \
    DOP_TYPE(T, 1)
struct dop_raw_iq1_s { uint q, h, book; float d; DOP_W p; };
dop_raw_iq1_s dop_load_iq1_s(DOP_W p, uint u, uint aux, uint low)
{
    uint k = u & 31u, h = (dop_ldw1(p, aux * 4u + (u >> 5) * 18u + (k >> 1)) >> ((k & 1u) * 16u)) & 0xffffu;
    return dop_raw_iq1_s(low, h, aux - 256u, dop_block_half(p, u, aux, 18u, 16u), p);
}
vec2 dop_scale_iq1_s(dop_raw_iq1_s r) { return vec2(r.d * float(2u * ((r.h >> 12) & 7u) + 1u)); }
uint dop_word_iq1_s(dop_raw_iq1_s r, uint i)
{
    uint at = dop_byte(r.q, i) | (((r.h >> (3u * i)) & 7u) << 8);
    return DOP_ENTRY_IQ1(r, at);
}
float dop_less_iq1_s(dop_raw_iq1_s r, uint i) { return (r.h >> 15) != 0u ? 1.125 : 0.875; }
DOP_MOVED_TYPE(iq1_s)

struct dop_raw_iq1_m { uint q, h, u, book; uvec2 s; DOP_W p; };
dop_raw_iq1_m dop_load_iq1_m(DOP_W p, uint u, uint aux, uint low)
{
    uint k = u & 31u, g = aux * 4u + (u >> 5) * 24u;
    return dop_raw_iq1_m(low, dop_ldw1(p, g + (k >> 1)) >> ((k & 1u) * 16u), k & 7u, aux - 256u,
                         dop_ldw2(p, (g >> 1) + 8u + (k >> 3)), p);
}
vec2 dop_scale_iq1_m(dop_raw_iq1_m r)
{
    uint d = ((r.s.x >> 12) & 15u) | ((r.s.x >> 24) & 0xf0u) | ((r.s.y >> 4) & 0xf00u) | ((r.s.y >> 16) & 0xf000u);
    uint s = (r.u < 4u ? r.s.x : r.s.y) >> (((r.u >> 1) & 1u) * 16u + (r.u & 1u) * 6u);
    return dop_half(d, 0u) * vec2(float(2u * (s & 7u) + 1u), float(2u * ((s >> 3) & 7u) + 1u));
}
uint dop_word_iq1_m(dop_raw_iq1_m r, uint i)
{
    uint at = dop_byte(r.q, i) | (((r.h >> (4u * i)) & 7u) << 8);
    return DOP_ENTRY_IQ1(r, at);
}
float dop_less_iq1_m(dop_raw_iq1_m r, uint i) { return ((r.h >> (4u * i)) & 8u) != 0u ? 1.125 : 0.875; }
DOP_MOVED_TYPE(iq1_m)
