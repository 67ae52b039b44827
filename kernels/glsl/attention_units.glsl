// Fragments of attention on matrix units (gen_attention_coop.c): MM x MN x MN, in shared memory as words of eight halves or
// four floats. A subgroup has one of RG groups of MM rows and one of PS groups of CW positions. VG subgroups have the same
// rows and positions, and a share of the values each. If the depth of the scores is divided among them (DG), they add up
// their partial scores.
#define R (G * BQ)
#define DM ((D + MN - 1u) / MN * MN) // the head's values padded to whole fragments; those past D and DV are zero
#define DVM ((DV + MN - 1u) / MN * MN)
#define FS (DM / MN / DG) // fragments of the depth per subgroup
#define FV (DVM / MN / VG)
#define CW (CP / PS)
#define FC (CW / MN)
#define ROWS (RG * MM)
#define LK (DM / 8u + 1u) // row stride in words of eight halves, padded against bank conflicts
#if IN_KEYS // V is columns of K
#define LV LK
#else
#define LV (DVM / 8u + 1u)
#endif
#define MW (MN / 8u) // words of eight halves per row of a fragment
#define LS (MN / 4u + 1u) // row stride in words of a fragment of sums, or of two fragments of halves
#define EL (MM * MN / SG) // elements of an accumulator per invocation (no length(), which is a constant that KHR lacks)
#define LANES (SG / MM) // adjacent invocations that own a row when values pass through a subgroup's piece
#define OWN (MN / 4u / LANES) // words of four floats per such invocation
#define NK ((CP * D / 8u + WG - 1u) / WG) // words of a tile that an invocation moves
#define NV (IN_KEYS == 1 ? 0u : (CP * DV / 8u + WG - 1u) / WG)
#define PIECE_AT (PIECES_AT + sub * PIECE)
#define SLACK 8.0
#define NOTHING -1e30 // M before the first score
#define UNSEEN -3e38 // score of a masked position
#define DOP_T(j) min(t0 + (j) / G, n_tokens - 1u)
#define DOP_H(j) (gl_WorkGroupID.x * G + (j) % G)
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, MM, MN>
#define FRAG_A fcoopmatNV<16, gl_ScopeSubgroup, MM, MN>
#define FRAG_B fcoopmatNV<16, gl_ScopeSubgroup, MN, MN>
shared uvec4 dop_s[WORDS]; // K and V, queries (initially, or always), a piece per subgroup
shared float dop_m[PS * VG * ROWS], dop_f[PS * VG * ROWS]; // M of each row of a subgroup, and the scale factor of its sums
shared float dop_p[ROWS], dop_w[ROWS], dop_c[MN]; // last and first position of each row; dop_c: 0, 1, ...
#define DOP_SYNC subgroupMemoryBarrierShared(), subgroupBarrier()
#define DOP_ALL(i, n) for (uint i = gl_LocalInvocationIndex; i < n; i += WG)

void dop_put_q(uint at, uint i, vec4 q)
{
    dop_s[at + i / D * LK + i % D / 8u][i % 8u / 2u] = packHalf2x16(q.xy);
    dop_s[at + i / D * LK + i % D / 8u][i % 8u / 2u + 1u] = packHalf2x16(q.zw);
}
#if SPLIT_Q // the part beyond the first 11 bits is stored separately
#define DOP_Q_PUT(i, q)                                                                                             \
    {                                                                                                               \
        vec4 most = uintBitsToFloat(floatBitsToUint(q) & 0xffffe000u);                                              \
        dop_put_q(Q_AT + ROWS * LK, (i) * 4u, q - most);                                                            \
        dop_put_q(Q_AT, (i) * 4u, most);                                                                            \
    }
#else
#define DOP_Q_PUT(i, q) dop_put_q(Q_AT, (i) * 4u, q)
#endif

// Returns the maximum of the invocation's row, for a fragment in the subgroup's piece.
float dop_row_max(uint at, uint lane)
{
    float m = NOTHING;
    DOP_EACH(i, OWN) {
        vec4 x = uintBitsToFloat(dop_s[at + lane / LANES * LS + lane % LANES * OWN + i]);
        m = max(m, max(max(x.x, x.y), max(x.z, x.w)));
    }
    [[unroll]] for (uint i = 1u; i < LANES; i *= 2u)
        m = max(m, subgroupShuffleXor(m, i));
    return m;
}

// Adds the fragments of other subgroups, numbers 1 to n - 1, to the fragment.
#define DOP_ADD(matrix, n, at)                                                                                      \
    [[unroll]] for (uint g = 1u; g < n; g++) {                                                                      \
        FRAG other;                                                                                                 \
        coopMatLoadNV(other, dop_s, at, LS, false);                                                                 \
        DOP_EACH(e, EL) matrix[e] += other[e];                                                                      \
    }
// Fills n rows with zeros past the values of a head.
#define DOP_FILL(at, n, d, dm, stride)                                                                              \
    if (d < dm) /* by one word: heads are multiples of 8 */                                                         \
        DOP_ALL(i, (n)) dop_s[(at) + i * stride + d / 8u] = uvec4(0u);
// Moves rows of a tile from global memory to registers, and from there to shared memory.
#define DOP_MOVE(n, size, to, from)                                                                                 \
    DOP_EACH(i, n) {                                                                                                \
        uint e = gl_LocalInvocationIndex + i * WG;                                                                  \
        if (size % WG == 0u || e < size)                                                                            \
            to = from;                                                                                              \
    }
#define DOP_LOAD(n, d, which, base)                                                                                 \
    DOP_MOVE(n, CP * d / 8u, next[i],                                                                               \
             DOP_RAW_##which(DOP_LD_##which(DOP_ROW_##which(min(base + e / (d / 8u), wh)), e % (d / 8u))))
#define DOP_PUT(n, d, which, at, stride)                                                                            \
    DOP_MOVE(n, CP * d / 8u, dop_s[at + e / (d / 8u) * stride + e % (d / 8u)], DOP_HALVES_##which(next[i]))
