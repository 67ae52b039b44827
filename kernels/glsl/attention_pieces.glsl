// Rows of a cache in registers (gen_attention_decode.c). LANES adjacent invocations hold one row of K or V, in pieces of 8
// values (16 bytes of f16). Lane i % LANES has piece i; it has CK pieces of a K row and CV of a V row. So a subgroup reads
// whole rows, and queries in shared memory have no bank conflicts. An invocation holds NP rows. DOP_HELD(n) is the position
// of row n relative to the first one of its subgroup or, if subgroups walk together, of the workgroup; DOP_PLACE(n) is always
// relative to the workgroup's.
#define GROUPS (WG / LANES) // rows per pass
#define ROWS (SG / LANES) // rows per pass of a subgroup
#define SUBGROUPS (WG / SG)
#define DOP_H(j) (head0 + (j))
#if APART // subgroups walk over separate positions
#define DOP_HELD(n) ((n) * ROWS + gl_LocalInvocationIndex % SG / LANES)
#define DOP_PLACE(n) (gl_LocalInvocationIndex / SG * (ROWS * NP) + DOP_HELD(n))
#define DOP_FIX(j) DOP_OF_HEAD(dop_fix, sub, j)
#define DOP_WEIGHT(n, j) DOP_OF_HEAD(dop_s, DOP_PLACE(n), j)
#if WIDE == 1 // the heads of a position or subgroup are adjacent
#define DOP_OF_HEAD(array, at, j) array[(at) * R + (j)]
#else
#define DOP_OF_HEAD(array, at, j) array[(at) * (R / WIDE) + (j) / WIDE][(j) % WIDE]
#endif
#else
#define DOP_HELD(n) ((n) * GROUPS + gl_LocalInvocationIndex / LANES)
#define DOP_PLACE(n) DOP_HELD(n)
#define DOP_FIX(j) dop_fix[j]
#define DOP_WEIGHT(n, j) dop_s[(j) * CP + DOP_PLACE(n)]
#endif
// Each halving step of sums over lanes that share rows leaves a lane half of the sums. If subgroups walk apart, a lane ends
// with the sums of some rows for one head, or of some rows for all heads. DOP_VALUE is the index of the product of row n with
// head j before the first step.
#if APART && LEFT_HEADS == 1
#define DOP_VALUE(n, j) ((j) * NP + (n))
#define DOP_FIRST_HEAD (first / NP)
#define DOP_LEFT_ROW(i) (first % NP + (i))
#define DOP_TELLS (gl_LocalInvocationIndex % SG < R)
#else
#define DOP_VALUE(n, j) ((n) * R + (j))
#define DOP_FIRST_HEAD 0u
#define DOP_LEFT_ROW(i) (first / R + (i) / R)
#define DOP_TELLS (gl_LocalInvocationIndex % SG == 0u)
#endif
#define DOP_OTHER(x, bit) subgroupShuffleXor(x, bit)
// A query is stored as the first halves of LANES pieces, then their second halves, so that adjacent lanes read adjacent
// words.
#define DOP_Q_AT(i) ((i) / (2u * LANES) * (2u * LANES) + (i) % 2u * LANES + (i) % (2u * LANES) / 2u)
#define DOP_Q_PUT(i, x) dop_q[DOP_Q_AT(i)] = x
#define DOP_Q_PUT1(i, x) dop_q[DOP_Q_AT((i) >> 2)][(i) & 3u] = x
#define DOP_QUERY(j, c, half) dop_q[(j) * D / 4u + (2u * (c) + (half)) * LANES + part]
#define DOP_DOT_K(w, q0, q1) (DOP_FACTOR_K(w) * (dot(DOP_LO_K(w), q0) + dot(DOP_HI_K(w), q1)))
DOP_PIECE_K dop_k[NP * CK];
// Piece c of row n of V. If V is columns of K, it is already in registers.
#if V_IN_K
#define DOP_V(n, c) dop_k[(n) * CK + V0 / 8u / LANES + (c)]
#else
DOP_PIECE_V dop_v[NP * CV];
#define DOP_V(n, c) dop_v[(n) * CV + (c)]
#endif
// Loads the rows at positions from base on that are in [from, to) from global memory.
#define DOP_HOLD(base, from, to, place, n_pieces, which)                                                            \
    DOP_EACH(n, NP) if (base + DOP_HELD(n) >= from && base + DOP_HELD(n) < to) {                                    \
        uint at = DOP_ROW_##which(base + DOP_HELD(n)), lane = gl_LocalInvocationIndex % LANES;                      \
        DOP_EACH(c, n_pieces) place = DOP_LD_##which(at, lane + c * LANES);                                         \
    }
void dop_hold_k(uint base, uint kvh, uint from, uint to) { DOP_HOLD(base, from, to, dop_k[n * CK + c], CK, K) }
void dop_hold_v(uint base, uint kvh, uint from, uint to)
{
#if !V_IN_K
    DOP_HOLD(base, from, to, dop_v[n * CV + c], CV, V)
#endif
}

#if KEEPS_K || KEEPS_V
#define DOP_NEW0_PUT(i, x) dop_new[i] = x
#define DOP_NEW1_PUT(i, x) dop_new[D / 4u + (i)] = x
#define DOP_NEW0_PUT1(i, x) dop_new[(i) >> 2][(i) & 3u] = x
#define DOP_NEW1_PUT1(i, x) dop_new[D / 4u + ((i) >> 2)][(i) & 3u] = x
uvec4 dop_new_part(uint first)
{
    vec4 a = dop_new[first], b = dop_new[first + 1u];
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
#endif
// Copies the rows of this step, from position `made` to pos, if they are among those from base on. The workgroup made or
// received them, so they are in shared memory.
#if defined(DOP_STAGE) && defined(DOP_ROWS)
#define DOP_IS_MADE(p) ((p) >= made && (p) <= pos)
#define DOP_MADE_AT(p) ((p) - made) * DOP_NEW +
#else
#define DOP_IS_MADE(p) ((p) == pos)
#define DOP_MADE_AT(p)
#endif
void dop_hold_new(uint base, uint made, uint pos)
{
#if KEEPS_K || KEEPS_V
    uint lane = gl_LocalInvocationIndex % LANES;
    DOP_EACH(n, NP) if (DOP_IS_MADE(base + DOP_HELD(n))) {
        const uint p = base + DOP_HELD(n);
#if KEEPS_K
        DOP_EACH(c, CK) dop_k[n * CK + c] = DOP_MADE_K(DOP_MADE_AT(p) (c * LANES + lane) * 2u);
#endif
#if KEEPS_V && !V_IN_K
        DOP_EACH(c, CV) dop_v[n * CV + c] = DOP_MADE_V(DOP_MADE_AT(p) (D + V0) / 4u + (c * LANES + lane) * 2u);
#endif
    }
#endif
}
// Empties the mailboxes of this workgroup's heads.
#define DOP_CLEAR(box, first, splits)                                                                               \
    for (uint i = (first) + gl_LocalInvocationIndex % SG * used; i < splits; i += SG * used)                        \
        for (uint j = 0u; j < R; j++)                                                                               \
            if (dop_left(box, ((head0 + j) * splits + i) * (DV + 4u) + DV))                                         \
                for (uint c = 0u; c < DV + 4u; c += 4u)                                                             \
                    dop_clear4(box, ((head0 + j) * splits + i) * (DV + 4u) + c);
