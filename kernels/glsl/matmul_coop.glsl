// Tiled matrix product on matrix units (GL_NV_cooperative_matrix, MM x MN x MK, f16 in, f32 accumulate): tiles of
// BM tokens by BN rows per matrix, BK deep.  Each subgroup owns WM x WN of the tile.
#define LD ((BK + 8u) / 8u) // words of 8 halves per row, padded against bank conflicts
#define FM (WM / MM)
#define FN (WN / MN)
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, MM, MN>
#define FRAG_A fcoopmatNV<16, gl_ScopeSubgroup, MM, MK>
#define FRAG_B fcoopmatNV<16, gl_ScopeSubgroup, MK, MN>
#define LS (FJ * MN + 4u) // floats from one row to the next of FJ fragments side by side, which are stored together
#define SIZE_A (BM * LD)
shared uvec4 dop_s[WORDS]; // activations and weights; at the end, FJ fragments for each matrix and subgroup
vec4 dop_c4(uint i) { return uintBitsToFloat(dop_s[i >> 2]); }
float dop_c1(uint i) { return uintBitsToFloat(dop_s[i >> 2][i & 3u]); }
// Where the subgroup's piece of shared memory has the sum of matrix M at place E of such fragments.
#define DOP_SUM_AT(M, E) (((M) * (WG / SG) + sg) * (MM * LS) + (E))
uvec4 dop_pack8(vec4 a, vec4 b)
{
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
uint dop_tokens; // read once
// Eight values in two steps: what they are made of is loaded a tile ahead, and becomes halves when the tile is stored, so
// that no product waits for a load.  dop_w8load_T(p, i, aux) and dop_w8_T(raw, i) for each weight type T used here; the second
// one's i need only be right within 512 values, the most that have something in common.
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
${DECLS}${TYPES}${PARTS}
void main()
{
    dop_tokens = ${N_TOKENS};
${BEGIN}${CALLS}}
