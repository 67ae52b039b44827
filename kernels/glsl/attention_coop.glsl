// Prefill attention on matrix units (GL_NV_cooperative_matrix, MM x 16 x 16) in one walk over the cache, with the online
// softmax of FlashAttention-2 (Dao, arXiv 2307.08691): a workgroup has ROWS query rows (tokens by the G query heads of
// one KV head) and takes CP positions at a time, whose K and V rows all its subgroups share while the next ones are on
// their way to registers.  RG groups of MM rows by PS groups of CW positions are a subgroup each; what the position
// groups found is merged at the end.  VG subgroups, with one group of positions, have the same rows and a share of the values each;
// where the depth of the scores can be divided among them (DG), they add up what they found.  SHARES workgroups have the same
// tokens and KV head, and a share of its query heads each.
//
// Scores stay in the units: exp2(score - M) is made element by element, whatever rows and columns an invocation has.  M
// is no maximum but a number that no score so far exceeds by more than 2^SLACK: only where one does, the subgroup takes the
// rows' maxima through its piece of shared memory and scales its sums, so that almost all tiles need neither.
#define R (G * BQ)
#define DM ((D + 15u) / 16u * 16u) // the head's values in whole matrices; those past D and DV are zero
#define DVM ((DV + 15u) / 16u * 16u)
#define FD (DM / 16u)
#define FS (FD / DG) // matrices of the depth that a subgroup goes through
#define FV (DVM / 16u / VG)
#define CW (CP / PS)
#define FC (CW / 16u)
#define ROWS (RG * MM)
#define LK (DM / 8u + 1u) // words of eight halves from one row to the next, padded against bank conflicts
#if IN_KEYS // V is columns of K
#define LV LK
#else
#define LV (DVM / 8u + 1u)
#endif
#define LS 5u // words from one row to the next of a matrix of sums, or of two matrices of halves
#define EL (MM * 16u / SG) // elements of a matrix of sums that an invocation has (no length(): a constant that KHR has not)
#define LANES (SG / MM) // invocations side by side that own a row where values pass through a subgroup's piece
#define NK ((CP * D / 8u + WG - 1u) / WG) // words of a tile that an invocation moves
#define NV (IN_KEYS == 1 ? 0u : (CP * DV / 8u + WG - 1u) / WG)
#define K_AT 0u
#define PIECE_AT (PIECES_AT + sub * PIECE)
#define SLACK 8.0
#define NOTHING -1e30 // M before there is a score
#define UNSEEN -3e38 // the score of a position that a row must not see
#define DOP_T(j) min(t0 + (j) / G, n_tokens - 1u)
#define DOP_H(j) (gl_WorkGroupID.x * G + (j) % G)
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, MM, 16>
#define FRAG_A fcoopmatNV<16, gl_ScopeSubgroup, MM, 16>
#define FRAG_B fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
shared uvec4 dop_s[WORDS]; // K and V, queries (at first, or always), a piece for each subgroup
shared float dop_m[PS * VG * ROWS], dop_f[PS * VG * ROWS]; // M of each row of a subgroup, and what its sums are to be scaled by
shared float dop_p[ROWS], dop_w[ROWS], dop_c[16]; // the rows' positions, the first that each sees; 0 to 15
#define DOP_SYNC subgroupMemoryBarrierShared(), subgroupBarrier()
${DECLS}
void dop_store_row(uint t, uint h, uint d, vec4 o, float l)
{
${STORE}}

float dop_score(float x) // times FACTOR it is a score in units of log(2)
{
    return ${SCORE};
}

void dop_put_q(uint at, uint i, vec4 q)
{
    dop_s[at + i / D * LK + i % D / 8u][i % 8u / 2u] = packHalf2x16(q.xy);
    dop_s[at + i / D * LK + i % D / 8u][i % 8u / 2u + 1u] = packHalf2x16(q.zw);
}

// The largest value of the row that this invocation owns, of a matrix in the subgroup's piece.
float dop_row_max(uint at, uint lane)
{
    float m = NOTHING;
    [[unroll]] for (uint i = 0u; i < 4u / LANES; i++) {
        vec4 x = uintBitsToFloat(dop_s[at + lane / LANES * LS + lane % LANES * (4u / LANES) + i]);
        m = max(m, max(max(x.x, x.y), max(x.z, x.w)));
    }
    [[unroll]] for (uint i = 1u; i < LANES; i *= 2u)
        m = max(m, subgroupShuffleXor(m, i));
    return m;
}

// Zeros past the values of a head, in n rows.
#define DOP_FILL(at, n, d, dm, stride)                                                                              \
    if (d < dm) /* by a word: heads are multiples of 8 */                                                           \
        for (uint i = gl_LocalInvocationIndex; i < (n); i += WG)                                                    \
            dop_s[(at) + i * stride + d / 8u] = uvec4(0u);

void main()
{
    uint kvh = gl_WorkGroupID.x / SHARES, t0 = gl_WorkGroupID.y * BQ, n_tokens = ${N_TOKENS};
    if (t0 >= n_tokens)
        return;
${SEQUENCE}    uint sub = gl_LocalInvocationIndex / SG, lane = gl_LocalInvocationIndex % SG;
    uint rg = sub % RG, cw = sub / RG % PS * CW, vg = sub / (RG * PS), row0 = rg * MM, stats = sub * MM;
    uint part = DG > 1u ? vg * FS : 0u; // of the depth
    for (uint i = gl_LocalInvocationIndex * 4u; i < ROWS * D; i += WG * 4u) {
        uint j = i / D, t = DOP_T(j), c = DOP_H(j) * D + i % D;
        vec4 q = vec4(0.0);
        if (j < R) {
${LOAD_Q}        }
#if SPLIT_Q // what the first 11 bits do not hold is stored beside them
        vec4 most = uintBitsToFloat(floatBitsToUint(q) & 0xffffe000u);
        dop_put_q(Q_AT + ROWS * LK, i, q - most);
        q = most;
#endif
        dop_put_q(Q_AT, i, q);
    }
    // What rows see: those of the workgroup lo to wh; of the subgroup, the first from sf or later, from sg on all of them, and the last
    // to sl or farther, to sh.
    uint lo = 0xffffffffu, wh = 0u, sf = 0xffffffffu, sg = 0u, sl = 0xffffffffu, sh = 0u;
    for (uint j = lane; j < ROWS; j += SG) {
        uint t = DOP_T(min(j, R - 1u));
        ${BOUNDS}
        bool own = j >= row0 && j < row0 + MM;
        lo = min(lo, begin);
        wh = max(wh, end);
        sf = own ? min(sf, begin) : sf;
        sg = own ? max(sg, begin) : sg;
        sl = own ? min(sl, end) : sl;
        sh = own ? max(sh, end) : sh;
        if (sub == 0u) {
            dop_p[j] = float(end);
            dop_w[j] = float(begin);
        }
    }
    lo = subgroupMin(lo);
    wh = subgroupMax(wh);
    sf = subgroupMin(sf);
    sg = subgroupMax(sg);
    sl = subgroupMin(sl);
    sh = subgroupMax(sh);
    DOP_RING_FROM(lo);
    if (gl_LocalInvocationIndex < 16u)
        dop_c[gl_LocalInvocationIndex] = float(gl_LocalInvocationIndex);
    for (uint i = gl_LocalInvocationIndex; i < PS * VG * ROWS; i += WG)
        dop_m[i] = NOTHING;
    uvec4 next[max(NK, NV)];
#define DOP_LOAD(n, size, d, which, base)                                                                           \
    [[unroll]] for (uint i = 0u; i < n; i++) {                                                                      \
        uint e = gl_LocalInvocationIndex + i * WG;                                                                  \
        if (size % WG == 0u || e < size)                                                                            \
            next[i] = DOP_RAW_##which(DOP_LD_##which(DOP_ROW_##which(min(base + e / (d / 8u), wh)), e % (d / 8u)));  \
    }
#define DOP_PUT(n, size, d, which, at, stride)                                                                             \
    [[unroll]] for (uint i = 0u; i < n; i++) {                                                                      \
        uint e = gl_LocalInvocationIndex + i * WG;                                                                  \
        if (size % WG == 0u || e < size)                                                                            \
            dop_s[at + e / (d / 8u) * stride + e % (d / 8u)] = DOP_HALVES_##which(next[i]);                         \
    }
    DOP_LOAD(NK, CP * D / 8u, D, K, lo)
    DOP_FILL(Q_AT, ROWS * (1u + SPLIT_Q), D, DM, LK)
    barrier();
#if !Q_STAYS
    FRAG_A q[FS];
    [[unroll]] for (uint i = 0u; i < FS; i++)
        coopMatLoadNV(q[i], dop_s, Q_AT + row0 * LK + (part + i) * 2u, LK, false);
    barrier();
#endif
    DOP_FILL(K_AT, CP, D, DM, LK)
#if !IN_KEYS
    DOP_FILL(V_AT, CP, DV, DVM, LV)
#endif
    FRAG acc[FV], sums = FRAG(0.0), m = FRAG(NOTHING);
    [[unroll]] for (uint i = 0u; i < FV; i++)
        acc[i] = FRAG(0.0);
    for (uint base = lo; base <= wh; base += CP) {
        DOP_PUT(NK, CP * D / 8u, D, K, K_AT, LK)
        barrier();
#if IN_KEYS
        if (base + CP <= wh) {
            DOP_LOAD(NK, CP * D / 8u, D, K, base + CP)
        }
#else
        DOP_LOAD(NV, CP * DV / 8u, DV, V, base)
#endif
        uint first = base + cw; // of this subgroup's positions
        bool live = first <= sh && first + CW > sf;
        FRAG_A p[FC];
#if DG > 1
        FRAG s[FC];
#endif
        if (live) {
#if DG == 1
            FRAG s[FC];
#endif
            [[unroll]] for (uint c = 0u; c < FC; c++)
                s[c] = FRAG(0.0);
            [[unroll]] for (uint i = 0u; i < FS; i++) {
#if Q_STAYS
                FRAG_A q_i;
                coopMatLoadNV(q_i, dop_s, Q_AT + row0 * LK + (part + i) * 2u, LK, false);
#define DOP_Q(i) q_i
#else
#define DOP_Q(i) q[i]
#endif
#if SPLIT_Q
                FRAG_A rest;
                coopMatLoadNV(rest, dop_s, Q_AT + (ROWS + row0) * LK + (part + i) * 2u, LK, false);
#endif
                [[unroll]] for (uint c = 0u; c < FC; c++) {
                    FRAG_B k;
                    coopMatLoadNV(k, dop_s, K_AT + (cw + c * 16u) * LK + (part + i) * 2u, LK, true);
                    s[c] = coopMatMulAddNV(DOP_Q(i), k, s[c]);
#if SPLIT_Q
                    s[c] = coopMatMulAddNV(rest, k, s[c]);
#endif
                }
            }
#if DG > 1
        }
        [[unroll]] for (uint c = 0u; c < FC; c++) {
            if (live)
                coopMatStoreNV(s[c], dop_s, PIECE_AT, LS, false);
            barrier();
            if (live) {
                coopMatLoadNV(s[c], dop_s, PIECES_AT + rg * PIECE, LS, false);
                [[unroll]] for (uint g = 1u; g < DG; g++) {
                    FRAG other;
                    coopMatLoadNV(other, dop_s, PIECES_AT + (g * RG + rg) * PIECE, LS, false);
                    [[unroll]] for (uint e = 0u; e < EL; e++)
                        s[c][e] += other[e];
                }
            }
            barrier();
        }
        if (live) {
#endif
#if EAGER
            [[unroll]] for (uint c = 0u; c < FC; c++)
                [[unroll]] for (uint e = 0u; e < EL; e++)
                    s[c][e] = dop_score(s[c][e]);
#endif
            // At the edge of what the rows see, some positions must not count.
            if (first + CW > sl + 1u || first < sg) {
                FRAG col, row, from;
                coopMatLoadNV(col, dop_c, 0u, 0u, false);
                coopMatLoadNV(row, dop_p, row0, 0u, true);
                coopMatLoadNV(from, dop_w, row0, 0u, true);
                [[unroll]] for (uint c = 0u; c < FC; c++)
                    [[unroll]] for (uint e = 0u; e < EL; e++) {
                        float at = col[e] + float(first + c * 16u);
                        s[c][e] = at <= row[e] && at >= from[e] ? s[c][e] : UNSEEN;
                    }
            }
            FRAG top = s[0];
            bool over = false;
            [[unroll]] for (uint e = 0u; e < EL; e++) {
                [[unroll]] for (uint c = 1u; c < FC; c++)
                    top[e] = max(top[e], s[c][e]);
                over = over || top[e] * FACTOR > m[e] + SLACK;
            }
            if (subgroupAny(over)) {
                coopMatStoreNV(top, dop_s, PIECE_AT, LS, false);
                DOP_SYNC;
                float was = dop_m[stats + lane / LANES];
                float now = max(was, dop_row_max(PIECE_AT, lane) * FACTOR);
                subgroupBarrier();
                if (lane % LANES == 0u) {
                    dop_m[stats + lane / LANES] = now;
                    dop_f[stats + lane / LANES] = exp2(was - now);
                }
                DOP_SYNC;
                FRAG f;
                coopMatLoadNV(m, dop_m, stats, 0u, true);
                coopMatLoadNV(f, dop_f, stats, 0u, true);
                [[unroll]] for (uint e = 0u; e < EL; e++) {
                    sums[e] *= f[e];
                    [[unroll]] for (uint i = 0u; i < FV; i++)
                        acc[i][e] *= f[e];
                }
            }
            [[unroll]] for (uint c = 0u; c < FC; c++) {
                [[unroll]] for (uint e = 0u; e < EL; e++)
                    s[c][e] = exp2(s[c][e] * FACTOR - m[e]);
#if PASS == 0 // a matrix of sums is a factor
                p[c] = FRAG_A(s[c]);
#else // it becomes one in shared memory, two at a time
#if PASS == 1
                FRAG_A h = FRAG_A(s[c]);
                coopMatStoreNV(h, dop_s, PIECE_AT + c % 2u * 2u, LS, false);
#else // only matrices of f32 sums exist; invocations convert them to halves
                coopMatStoreNV(s[c], dop_s, PIECE_AT + MM * LS, LS, false);
                DOP_SYNC;
                [[unroll]] for (uint k = 0u; k < 4u / LANES; k++) {
                    uint d = lane % LANES * (4u / LANES) + k;
                    uint at = PIECE_AT + lane / LANES * LS + c % 2u * 2u + d / 2u;
                    vec4 x = uintBitsToFloat(dop_s[PIECE_AT + MM * LS + lane / LANES * LS + d]);
                    dop_s[at][d % 2u * 2u] = packHalf2x16(x.xy);
                    dop_s[at][d % 2u * 2u + 1u] = packHalf2x16(x.zw);
                }
#endif
                if (c % 2u == 1u || c + 1u == FC) {
                    DOP_SYNC;
                    [[unroll]] for (uint j = c / 2u * 2u; j <= c; j++)
                        coopMatLoadNV(p[j], dop_s, PIECE_AT + j % 2u * 2u, LS, false);
                    subgroupBarrier();
                }
#endif
            }
        }
#if !IN_KEYS
#if ONE_BUFFER
        barrier();
#endif
        DOP_PUT(NV, CP * DV / 8u, DV, V, V_AT, LV)
        barrier();
        if (base + CP <= wh) {
            DOP_LOAD(NK, CP * D / 8u, D, K, base + CP)
        }
#endif
        if (live) {
            [[unroll]] for (uint c = 0u; c < FC; c++) {
                // Sums of the rounded weights, which are what V is multiplied with, so that these add up to 1.
                sums = coopMatMulAddNV(p[c], FRAG_B(1.0), sums);
                [[unroll]] for (uint i = 0u; i < FV; i++) {
                    FRAG_B v;
                    coopMatLoadNV(v, dop_s, V_AT + (cw + c * 16u) * LV + (vg * FV + i) * 2u, LV, false);
                    acc[i] = coopMatMulAddNV(p[c], v, acc[i]);
                }
            }
        }
#if ONE_BUFFER || IN_KEYS
        barrier();
#endif
    }
    // Every invocation gets the sum of the row that it owns.
    coopMatStoreNV(sums, dop_s, PIECE_AT, LS, false);
    DOP_SYNC;
    float l = uintBitsToFloat(dop_s[PIECE_AT + lane / LANES * LS].x);
    subgroupBarrier();
    uint row = row0 + lane / LANES, t = t0 + row / G, h = DOP_H(row);
#if PS > 1
    // Brings the sums of all position groups to one scale and adds them up.
    if (lane % LANES == 0u)
        dop_f[stats + lane / LANES] = l;
    barrier();
    float most = dop_m[row], own = dop_m[stats + lane / LANES];
    [[unroll]] for (uint g = 1u; g < PS; g++)
        most = max(most, dop_m[g * ROWS + row]);
    l = 0.0;
    [[unroll]] for (uint g = 0u; g < PS; g++)
        l += dop_f[g * ROWS + row] * exp2(dop_m[g * ROWS + row] - most);
    barrier();
    if (lane % LANES == 0u)
        dop_f[stats + lane / LANES] = exp2(own - most);
    DOP_SYNC;
    FRAG f;
    coopMatLoadNV(f, dop_f, stats, 0u, true);
    [[unroll]] for (uint i = 0u; i < FV; i++) {
        [[unroll]] for (uint e = 0u; e < EL; e++)
            acc[i][e] *= f[e];
        if (sub >= RG)
            coopMatStoreNV(acc[i], dop_s, PIECE_AT, LS, false);
        barrier();
        if (sub < RG)
            [[unroll]] for (uint g = 1u; g < PS; g++) {
                FRAG other;
                coopMatLoadNV(other, dop_s, PIECE_AT + g * RG * PIECE, LS, false);
                [[unroll]] for (uint e = 0u; e < EL; e++)
                    acc[i][e] += other[e];
            }
        barrier();
    }
    if (sub >= RG)
        return;
#else
    float most = dop_m[stats + lane / LANES];
#endif
${SINK}    [[unroll]] for (uint i = 0u; i < FV; i++) {
        coopMatStoreNV(acc[i], dop_s, PIECE_AT, LS, false);
        DOP_SYNC;
        if (row < R && t < n_tokens)
            [[unroll]] for (uint k = 0u; k < 4u / LANES; k++) {
                uint d = lane % LANES * (4u / LANES) + k;
                uint at = (vg * FV + i) * 16u + d * 4u;
                if (DV == DVM || at < DV)
                    dop_store_row(t, h, at, uintBitsToFloat(dop_s[PIECE_AT + lane / LANES * LS + d]), l);
            }
        subgroupBarrier();
    }
}
