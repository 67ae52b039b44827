// Matrices of attention on matrix units (gen_attention_coop.c): MM x MN x MN, in shared memory as words of eight halves or four floats.
// RG groups of MM rows by PS groups of CW positions are a subgroup each; VG subgroups have the same rows and a share of the values
// each, and where the depth of the scores can be divided among them (DG) add up what they found.
#define R (G * BQ)
#define DM ((D + MN - 1u) / MN * MN) // the head's values in whole matrices; those past D and DV are zero
#define DVM ((DV + MN - 1u) / MN * MN)
#define FS (DM / MN / DG) // matrices of the depth that a subgroup goes through
#define FV (DVM / MN / VG)
#define CW (CP / PS)
#define FC (CW / MN)
#define ROWS (RG * MM)
#define LK (DM / 8u + 1u) // words of eight halves from one row to the next, padded against bank conflicts
#if IN_KEYS // V is columns of K
#define LV LK
#else
#define LV (DVM / 8u + 1u)
#endif
#define MW (MN / 8u) // words of eight halves of a matrix's row
#define LS (MN / 4u + 1u) // words from one row to the next of a matrix of sums, or of two matrices of halves
#define EL (MM * MN / SG) // elements of a matrix of sums that an invocation has (no length(): a constant that KHR has not)
#define LANES (SG / MM) // invocations side by side that own a row where values pass through a subgroup's piece
#define OWN (MN / 4u / LANES) // words of four floats that each of them has
#define NK ((CP * D / 8u + WG - 1u) / WG) // words of a tile that an invocation moves
#define NV (IN_KEYS == 1 ? 0u : (CP * DV / 8u + WG - 1u) / WG)
#define PIECE_AT (PIECES_AT + sub * PIECE)
#define SLACK 8.0
#define NOTHING -1e30 // M before there is a score
#define UNSEEN -3e38 // the score of a position that a row must not see
#define DOP_T(j) min(t0 + (j) / G, n_tokens - 1u)
#define DOP_H(j) (gl_WorkGroupID.x * G + (j) % G)
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, MM, MN>
#define FRAG_A fcoopmatNV<16, gl_ScopeSubgroup, MM, MN>
#define FRAG_B fcoopmatNV<16, gl_ScopeSubgroup, MN, MN>
shared uvec4 dop_s[WORDS]; // K and V, queries (at first, or always), a piece for each subgroup
shared float dop_m[PS * VG * ROWS], dop_f[PS * VG * ROWS]; // M of each row of a subgroup, and what its sums are to be scaled by
shared float dop_p[ROWS], dop_w[ROWS], dop_c[MN]; // the rows' positions, the first that each sees; 0, 1, ...
#define DOP_SYNC subgroupMemoryBarrierShared(), subgroupBarrier()
#define DOP_ALL(i, n) for (uint i = gl_LocalInvocationIndex; i < n; i += WG)

void dop_put_q(uint at, uint i, vec4 q)
{
    dop_s[at + i / D * LK + i % D / 8u][i % 8u / 2u] = packHalf2x16(q.xy);
    dop_s[at + i / D * LK + i % D / 8u][i % 8u / 2u + 1u] = packHalf2x16(q.zw);
}
#if SPLIT_Q // what the first 11 bits do not hold is stored beside them
#define DOP_Q_PUT(i, q)                                                                                             \
    {                                                                                                               \
        vec4 most = uintBitsToFloat(floatBitsToUint(q) & 0xffffe000u);                                              \
        dop_put_q(Q_AT + ROWS * LK, (i) * 4u, q - most);                                                            \
        dop_put_q(Q_AT, (i) * 4u, most);                                                                            \
    }
#else
#define DOP_Q_PUT(i, q) dop_put_q(Q_AT, (i) * 4u, q)
#endif

// The largest value of the row that this invocation owns, of a matrix in the subgroup's piece.
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

// Adds the matrices of other subgroups, from number 1 on of n, to the matrix.
#define DOP_ADD(matrix, n, at)                                                                                      \
    [[unroll]] for (uint g = 1u; g < n; g++) {                                                                      \
        FRAG other;                                                                                                 \
        coopMatLoadNV(other, dop_s, at, LS, false);                                                                 \
        DOP_EACH(e, EL) matrix[e] += other[e];                                                                      \
    }
// Zeros past the values of a head, in n rows.
#define DOP_FILL(at, n, d, dm, stride)                                                                              \
    if (d < dm) /* by a word: heads are multiples of 8 */                                                           \
        DOP_ALL(i, (n)) dop_s[(at) + i * stride + d / 8u] = uvec4(0u);
// Rows of a tile on their way from memory to registers, and to shared memory.
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
