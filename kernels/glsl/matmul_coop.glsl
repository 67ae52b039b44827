// Tiled matrix product on matrix units (GL_NV_cooperative_matrix, MM x MN x MK, f16 in, f32 accumulate): tiles of
// BM tokens by BN rows per matrix, BK deep.  Each subgroup owns WM x WN of the tile.
#define BM ${BM}u
#define BN ${BN}u
#define BK ${BK}u
#define WM ${WM}u
#define WN ${WN}u
#define LD ((BK + 8u) / 8u) // words of 8 halves per row, padded against bank conflicts
#define FM (WM / MM)
#define FN (WN / MN)
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, MM, MN>
#define FRAG_A fcoopmatNV<16, gl_ScopeSubgroup, MM, MK>
#define FRAG_B fcoopmatNV<16, gl_ScopeSubgroup, MK, MN>
#define FJ ${FJ}u // fragments side by side that are stored together
#define LS (FJ * MN + 4u) // floats from one of their rows to the next
#define SIZE_A (BM * LD)
// Token and row of value q of such fragments, in matmul_coop_part.glsl, and its place in their piece of shared memory.
#define DOP_ROW(q) (t0 + wm * WM + i * MM + (q) / (FJ * MN))
#define DOP_COLUMN(q) (n0 + wn * WN + j * FJ * MN + (q) % (FJ * MN))
#define DOP_PLACE(q) ((q) / (FJ * MN) * LS + (q) % (FJ * MN))
shared uvec4 dop_s[${WORDS}u]; // activations and weights; at the end, FJ fragments for each matrix and subgroup
vec4 dop_c4(uint i) { return uintBitsToFloat(dop_s[i >> 2]); }
float dop_c1(uint i) { return uintBitsToFloat(dop_s[i >> 2][i & 3u]); }
uvec4 dop_pack8(vec4 a, vec4 b)
{
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
uint dop_tokens; // read once
// Eight values in two steps: what they are made of is loaded a tile ahead, and becomes halves when the tile is stored, so
// that no product waits for a load.  dop_w8load_T(p, i, aux) and dop_w8_T(raw, i) for each weight type T used here.
struct dop_raw8 { uvec4 a, b; };
struct dop_piece { uvec2 p; uint at, aux; }; // a row of weights: address, first value from there, and the scales' place
#define DOP_HALVES(T, LOAD, TAKE)                                                                                   \
    dop_raw8 dop_w8load_##T(U32 p, uint i, uint aux) { return LOAD; }                                               \
    uvec4 dop_w8_##T(dop_raw8 r, uint i) { return TAKE; }
#define DOP_HALVES_f16 DOP_HALVES(f16, dop_raw8(dop_ldw4(p, i >> 3), uvec4(0u)), r.a)
#define DOP_HALVES_bf16 DOP_HALVES(bf16, dop_raw8(dop_ldw4(p, i >> 3), uvec4(0u)),                                   \
                                   dop_pack8(dop_bf16x4(r.a.xy), dop_bf16x4(r.a.zw)))
#define DOP_HALVES_f32 DOP_HALVES(f32, dop_raw8(dop_ldw4(p, i >> 2), dop_ldw4(p, (i >> 2) + 1u)),                    \
                                  dop_pack8(uintBitsToFloat(r.a), uintBitsToFloat(r.b)))
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
// Types without functions of their own are decoded when they are loaded.
#define DOP_HALVES_EAGER(T)                                                                                         \
    DOP_HALVES(T, dop_raw8(dop_pack8(dop_w4_##T(p, i, aux), dop_w4_##T(p, i + 4u, aux)), uvec4(0u)), r.a)
${DECLS}${TYPES}${PARTS}
void main()
{
    dop_tokens = ${N_TOKENS};
${BEGIN}${CALLS}}
