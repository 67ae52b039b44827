// Units of 32 weights.  dop_take_T(r, j): the values 8 j and on of raw unit r of type T, as halves.  Types without it are decoded
// when they are loaded, by dop_w32_T.
#define PAIR (DEEP % 64u == 0u ? 2u : 1u) // units side by side that neighbouring lanes load
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
    return dop_halves_q6_k(uvec4(r.q[j], r.h[j >> 1], r.s, r.d), r.u * 32u + j * 8u);
}
