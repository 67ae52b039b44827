// Units of 32 weights.  dop_take_T(r, j): the values 8 j and on of raw unit r of type T, as halves.  Types without it are decoded
// when they are loaded, by dop_w32_T.
struct dop_raw32 { uvec4 v[4]; };
#define DOP_W32(T)                                                                                                  \
    dop_raw32 dop_w32_##T(U32 p, uint i, uint aux)                                                                  \
    {                                                                                                               \
        dop_raw32 r;                                                                                                \
        [[unroll]] for (uint j = 0u; j < 4u; j++)                                                                   \
            r.v[j] = dop_pack8(dop_w4_##T(p, i + j * 8u, aux), dop_w4_##T(p, i + j * 8u + 4u, aux));                 \
        return r;                                                                                                   \
    }
// The bias of a nibble's float is subtracted together with its offset.
#ifdef DOP_CPU
uvec4 dop_take_nibbles(uint w, float d, float m) { return dop_pack8(d * dop_nib4(w) - m, d * dop_nib4(w >> 8) - m); }
#else
uvec4 dop_take_nibbles(uint w, float d, float m)
{
    vec4 less = d * DOP_NIB_BIAS + m;
    return dop_pack8(d * dop_nib4_biased(w) - less, d * dop_nib4_biased(w >> 8) - less);
}
#endif
uvec4 dop_take_q4_0(dop_raw_q4_0 r, uint j)
{
    float d = dop_half(r.d, r.u & 1u);
    return dop_take_nibbles(r.q[j], d, 8.0 * d);
}
uvec4 dop_take_q4_k(dop_raw_q4_k r, uint j)
{
    vec2 dm = dop_scale_min(r.s, r.u);
    return dop_take_nibbles(r.q[j], dm.x, dm.y);
}
uvec4 dop_take_q8_0(dop_raw_q8_0 r, uint j)
{
    uvec2 w = j == 0u ? r.a.xy : j == 1u ? r.a.zw : j == 2u ? r.b.xy : r.b.zw;
    float d = dop_half(r.d, r.u & 1u);
    return dop_pack8(d * dop_byte4z(w.x, 128.0), d * dop_byte4z(w.y, 128.0));
}
uvec4 dop_take_q6_k(dop_raw_q6_k r, uint j)
{
    uint h = r.h[j >> 1] >> (j & 1u) * 8u;
    float d = dop_half(r.d, (r.u >> 3) & 1u) * dop_s8(r.s, (r.u & 1u) * 2u + (j >> 1));
    return dop_pack8(d * dop_six4z(r.q[j], h, 32.0), d * dop_six4z(r.q[j] >> 8, h >> 2, 32.0));
}
