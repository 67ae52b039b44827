// Products on matrix units (GL_NV_cooperative_matrix, MM x MN x MK, f16 in, f32 accumulate), whose nest is gen_matmul_coop.c:
// tiles of BM tokens by BN weight rows per matrix, with depth BK. Each subgroup owns WM x WN of the tile, or a share of their
// depth (TEAMS).
#define LD ((DEEP + 8u) / 8u) // words of 8 halves per row, padded against bank conflicts
#define FM (WM / MM)
#define FN (WN / MN)
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, MM, MN>
#define FRAG_A fcoopmatNV<16, gl_ScopeSubgroup, MM, MK>
#define FRAG_B fcoopmatNV<16, gl_ScopeSubgroup, MK, MN>
#define LS (FJ * MN + 4u) // row stride in floats of FJ adjacent fragments, which are stored together
#define SIZE_A (BM * LD)
#define TS (WG / SG / TEAMS) // subgroups per share of the depth
shared uvec4 dop_s[WORDS]; // activations and weights; in the epilogue, FJ fragments per matrix and subgroup
vec4 dop_c4(uint i) { return uintBitsToFloat(dop_s[i >> 2]); }
float dop_c1(uint i) { return uintBitsToFloat(dop_s[i >> 2][i & 3u]); }
// Index of the sum of matrix M at offset E of such fragments, in the subgroup's piece of shared memory.
#define DOP_SUM_AT(M, E) (((M) * (WG / SG) + sg) * (MM * LS) + (E))
uvec4 dop_pack8(vec4 a, vec4 b)
{
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
uint dop_tokens; // read once
// Eight values in two steps: stored data is loaded a tile ahead, and converted to f16 when the tile is written to shared
// memory, so that no product waits for a load. The functions are dop_w8load_T(p, i, aux) and dop_w8_T(raw, i) for each weight
// type T used here. The second one's i need only be correct within 512 values, the largest block that shares data.
struct dop_raw8 { uvec4 a, b; };
struct dop_piece { uvec2 p; uint at, aux; }; // a row of weights: address, index of the first value, and position of the scales
#define DOP_HALVES(T, LOAD, TAKE)                                                                                   \
    dop_raw8 dop_w8load_##T(U32 p, uint i, uint aux) { return LOAD; }                                               \
    uvec4 dop_w8_##T(dop_raw8 r, uint i) { return TAKE; }
#define DOP_HALVES_f16 DOP_HALVES(f16, dop_raw8(dop_ldw4(p, i >> 3), uvec4(0u)), r.a)
#define DOP_HALVES_bf16 DOP_HALVES(bf16, dop_raw8(dop_ldw4(p, i >> 3), uvec4(0u)),                                   \
                                   dop_pack8(dop_bf16x4(r.a.xy), dop_bf16x4(r.a.zw)))
#define DOP_HALVES_f32 DOP_HALVES(f32, dop_raw8(dop_ldw4(p, i >> 2), dop_ldw4(p, (i >> 2) + 1u)),                    \
                                  dop_pack8(uintBitsToFloat(r.a), uintBitsToFloat(r.b)))
// Pieces of 8 weights, or of units of 32: row and column of piece i in a tile with depth DEEP; columns count pieces. Eight
// lanes, whose 16 bytes each are moved together, have two adjacent units of four rows. So they touch few cache lines, and
// store to all banks of shared memory.
#define DOP_ROW_8 i / (DEEP / 8u)
#define DOP_COLUMN_8 i % (DEEP / 8u)
#define PAIR (DEEP % 64u == 0u ? 2u : 1u) // adjacent units that adjacent lanes load
#define DOP_ROW_32 i % 4u + i / (4u * PAIR) % 2u * 4u + i / (8u * (DEEP / 32u)) * 8u
#define DOP_COLUMN_32 i / 4u % PAIR + i / (8u * PAIR) % (DEEP / (32u * PAIR)) * PAIR
#define DOP_SYNC() subgroupMemoryBarrierShared(), subgroupBarrier()
// Sums in the epilogue. DOP_VALUE: the first of the S-th group of W adjacent values of a lane, in fragments that are stored
// together. For value q, DOP_TOKEN: its token relative to the fragments' first; DOP_COLUMN: its weight row; DOP_PLACE: the
// index of its sum.
#if DIRECT // in registers
#define OWN (WN / 4u) // adjacent rows of one matrix
#define DOP_VALUE(S, W) ((S) * (W))
#define DOP_TOKEN(q) ((q) / OWN * 8u + g)
#define DOP_COLUMN(q) (n0 + wn * WN + t * OWN + (q) % OWN)
#define DOP_PLACE(q) (q)
#define DOP_SUM(M, E, U) acc[((M) * FM + i + (E) / (2u * OWN)) * FN + (E) % OWN / 4u][(E) / OWN % 2u * 4u + (U)]
#define DOP_SUM4(M, E) vec4(DOP_SUM(M, E, 0u), DOP_SUM(M, E, 1u), DOP_SUM(M, E, 2u), DOP_SUM(M, E, 3u))
#define DOP_SUM1(M, E) DOP_SUM(M, E, (E) % 4u)
#else // in shared memory, of FJ adjacent fragments
#define DOP_VALUE(S, W) (((S) * SG + lane % SG) * (W))
#define DOP_TOKEN(q) ((q) / (FJ * MN))
#define DOP_COLUMN(q) (n0 + wn * WN + j * FJ * MN + (q) % (FJ * MN))
#define DOP_PLACE(q) ((q) / (FJ * MN) * LS + (q) % (FJ * MN))
#if FEW
vec4 dop_shares4(uint i)
{
    vec4 x = vec4(0.0);
    [[unroll]] for (uint k = 0u; k < TEAMS; k++)
        x += dop_c4(i + k * TS * MM * LS);
    return x;
}
float dop_shares1(uint i)
{
    float x = 0.0;
    [[unroll]] for (uint k = 0u; k < TEAMS; k++)
        x += dop_c1(i + k * TS * MM * LS);
    return x;
}
#define DOP_SUM4(M, E) dop_shares4(DOP_SUM_AT(M, E))
#define DOP_SUM1(M, E) dop_shares1(DOP_SUM_AT(M, E))
#else
#define DOP_SUM4(M, E) dop_c4(DOP_SUM_AT(M, E))
#define DOP_SUM1(M, E) dop_c1(DOP_SUM_AT(M, E))
#endif
#endif
