// Units of 32 weights, which stay packed until they are written to shared memory: an invocation loads a dop_raw_T by
// dop_wload_T, and dop_take_T(r, j) converts its values 8 j to 8 j + 7 to f16. If the matrices of a part have different
// types, units are decoded when they are loaded, by dop_w32_T.
struct dop_raw32 { uvec4 v[4]; };
#define DOP_W32(T)                                                                                                  \
    dop_raw32 dop_w32_##T(U32 p, uint i, uint aux)                                                                  \
    {                                                                                                               \
        dop_raw32 r;                                                                                                \
        [[unroll]] for (uint j = 0u; j < 4u; j++)                                                                   \
            r.v[j] = dop_pack8(dop_w4_##T(p, i + j * 8u, aux), dop_w4_##T(p, i + j * 8u + 4u, aux));                 \
        return r;                                                                                                   \
    }
uvec4 dop_take_q4_0(dop_raw_q4_0 r, uint j)
{
    f16vec2 d = dop_scale2(r.d, r.u & 1u);
    return uvec4(dop_scaled4(r.q[j], d), dop_scaled4(r.q[j] >> 8, d));
}
uvec4 dop_take_q4_k(dop_raw_q4_k r, uint j) { return dop_scaled8(r.q[j], dop_halves_q4_k(r.s, r.u)); }
uvec4 dop_take_q8_0(dop_raw_q8_0 r, uint j)
{
    uvec2 w = j == 0u ? r.a.xy : j == 1u ? r.a.zw : j == 2u ? r.b.xy : r.b.zw;
    f16vec2 d = dop_scale2(r.d, r.u & 1u);
    return uvec4(dop_scaled4_bytes(w.x, d), dop_scaled4_bytes(w.y, d));
}
uvec4 dop_take_q6_k(dop_raw_q6_k r, uint j)
{
    return dop_halves_q6_k(uvec4(r.q[j], r.h[j >> 1], r.s, r.d), r.u, j);
}
uvec4 dop_take_q4_1(dop_raw_q4_1 r, uint j) { return dop_scaled8_nibbles(r.q[j], unpackHalf2x16(r.dm)); }
uvec4 dop_take_q5_0(dop_raw_q5_0 r, uint j) { return dop_halves_q5_0(uvec4(r.q[j], r.h, r.d, 0u), r.u, j); }
uvec4 dop_take_q5_1(dop_raw_q5_1 r, uint j) { return dop_scaled8_five(r.q[j], r.a.x, j, unpackHalf2x16(r.a.y)); }
uvec4 dop_take_q5_k(dop_raw_q5_k r, uint j)
{
    return dop_scaled8_five(r.q[j], r.h, j, vec2(1.0, -1.0) * dop_scale_min(r.s, r.u));
}
uvec4 dop_take_q3_k(dop_raw_q3_k r, uint j)
{
    return dop_halves_q3_k(uvec4(r.q[j >> 1], r.h, r.s, r.d), r.u, j);
}
uvec4 dop_take_q2_k(dop_raw_q2_k r, uint j)
{
    return dop_halves_q2_k(uvec4(r.q[j >> 1], r.s, r.d, 0u), r.u, j);
}
uvec4 dop_take_iq4_nl(dop_raw_iq4_nl r, uint j)
{
    return dop_scaled8_iq4(r.q[j], dop_half(r.d, r.u & 1u));
}
uvec4 dop_take_mxfp4(dop_raw_mxfp4 r, uint j)
{
    return dop_scaled8_e2m1(r.q[j], dop_e8m0(r.e, r.u));
}
uvec4 dop_take_int4(dop_raw_int4 r, uint j) { return dop_scaled8_int4(r.q[j], unpackHalf2x16(r.dz)); }
#define dop_take_int4_g128 dop_take_int4
#define dop_take_int4_g64 dop_take_int4
#define dop_take_int4_g32 dop_take_int4
// Types that are decoded eight values at a time (types/codes.glsl).
#define DOP_TAKE(T) uvec4 dop_take_##T(dop_raw_##T r, uint j) { return dop_half8_##T(r, j); }
// Codebook values are looked up when the unit is loaded: entries as bytes, or as words of two bits per value, from which a
// number is subtracted.
struct dop_raw_book { uvec2 v[4]; vec2 s; };
#define DOP_TAKE_BOOK(T)                                                                                            \
    dop_raw_book dop_bload_##T(U32 p, uint u, uint aux)                                                             \
    {                                                                                                               \
        dop_raw_##T w = dop_wload_##T(p, u, aux);                                                                   \
        dop_raw_book r;                                                                                             \
        r.s = dop_scale_##T(w);                                                                                     \
        [[unroll]] for (uint j = 0u; j < 4u; j++)                                                                   \
            r.v[j] = dop_bytes_##T(w, j);                                                                           \
        return r;                                                                                                   \
    }                                                                                                               \
    uvec4 dop_take_##T(dop_raw_book r, uint j)                                                                      \
    {                                                                                                               \
        return dop_scaled8_book(r.v[j], r.s[j >> 1]);                                               \
    }
struct dop_raw_moved { uvec4 v; vec4 less; vec2 s; };
#define DOP_TAKE_MOVED(T)                                                                                           \
    dop_raw_moved dop_bload_##T(U32 p, uint u, uint aux)                                                            \
    {                                                                                                               \
        dop_raw_##T w = dop_wload_##T(p, u, aux);                                                                   \
        dop_raw_moved r;                                                                                            \
        r.s = dop_scale_##T(w);                                                                                     \
        [[unroll]] for (uint j = 0u; j < 4u; j++) {                                                                 \
            r.v[j] = dop_word_##T(w, j);                                                                            \
            r.less[j] = dop_less_##T(w, j);                                                                         \
        }                                                                                                           \
        return r;                                                                                                   \
    }                                                                                                               \
    uvec4 dop_take_##T(dop_raw_moved r, uint j)                                                                     \
    {                                                                                                               \
        return dop_scaled8_two(r.v[j], r.s[j >> 1] * vec2(1.0, -r.less[j]));                                       \
    }
