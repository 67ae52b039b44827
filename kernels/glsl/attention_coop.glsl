// Prefill attention on matrix units (GL_NV_cooperative_matrix, MM x 16 x 16).  Every subgroup works alone on MM query
// rows (tokens by the G query heads of one KV head): a first walk over the cache finds each row's largest score, a second
// one adds up exp(score - largest) times V, so that no sum has to be scaled again.  Scores pass through the subgroup's
// own piece of shared memory, where LANES lanes side by side own a row.
#define D ${D}u
#define DV ${DV}u
#define G ${G}u
#define BQ ${BQ}u
#define R (G * BQ)
#define KV ${KV}u
#define FD (D / 16u)
#define CP 32u // positions at once
#define LS (CP / 4u + 1u) // words of four from one row of scores to the next, against bank conflicts
#define LP (CP / 4u + 2u) // the same for weights: rows stay aligned to 16 bytes
#define ROWS (WG / SG * MM)
#define LANES (SG / MM)
#define DOP_T(j) min(t0 + (j) / G, n_tokens - 1u)
#define DOP_H(j) (kvh * G + (j) % G)
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, MM, 16>
#define FRAG_A fcoopmatNV<16, gl_ScopeSubgroup, MM, 16>
#define FRAG_B fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
shared uvec4 dop_qh[ROWS * D / 8u];
shared uvec4 dop_sf[ROWS * LS];
shared uvec2 dop_ph[ROWS * LP];
#define DOP_Q_PUT(i, x) dop_qh[(i) >> 1][((i) & 1u) * 2u] = packHalf2x16((x).xy), \
                       dop_qh[(i) >> 1][((i) & 1u) * 2u + 1u] = packHalf2x16((x).zw)
${DECLS}
void dop_store_row(uint t, uint h, uint d, vec4 o, float l)
{
${STORE}}

float dop_score(float x)
{
    return ${SCORE};
}

// Scores of this subgroup's rows against positions base .. base + CP, into its piece of shared memory.
void dop_scores(uint base, uint kvh, uint sg, FRAG_A q[FD])
{
    FRAG s[2];
    s[0] = FRAG(0.0);
    s[1] = FRAG(0.0);
    [[unroll]] for (uint i = 0u; i < FD; i++) {
        FRAG_B k;
        [[unroll]] for (uint j = 0u; j < 2u; j++) {
            coopMatLoadNV(k, U32x4(${K}).v, (DOP_SLOT(base + j * 16u) * KV + ${KVH}) * (D / 8u) + i * 2u, KV * (D / 8u), true);
            s[j] = coopMatMulAddNV(q[i], k, s[j]);
        }
    }
    coopMatStoreNV(s[0], dop_sf, sg * MM * LS, LS, false);
    coopMatStoreNV(s[1], dop_sf, sg * MM * LS + 4u, LS, false);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

void main()
{
    uint kvh = gl_WorkGroupID.x, t0 = gl_WorkGroupID.y * BQ, n_tokens = ${N_TOKENS};
    if (t0 >= n_tokens)
        return;
    for (uint i = gl_LocalInvocationIndex * 4u; i < ROWS * D; i += WG * 4u) {
        uint j = i / D, t = DOP_T(j), c = DOP_H(j) * D + i % D;
        vec4 q = vec4(0.0);
        if (j < R) {
${LOAD_Q}        }
        DOP_Q_PUT(i >> 2, q);
    }
    barrier();
    uint sg = gl_LocalInvocationIndex / SG, lane = gl_LocalInvocationIndex % SG;
    uint first = sg * MM, row = first + lane / LANES, side = lane % LANES * (CP / LANES);
    if (first >= R)
        return;
    uint pq = ${STEP_RECORD}.rows[DOP_T(row)].position; // of this lane's row
    uint least = subgroupMin(pq), last = subgroupMax(pq);
    uint lo = DOP_FIRST(least) / CP * CP, hi = last + 1u; // 16 positions from a multiple of 16 lie side by side in a ring, too
    DOP_RING_FROM(lo);
    FRAG_A q[FD];
    [[unroll]] for (uint i = 0u; i < FD; i++)
        coopMatLoadNV(q[i], dop_qh, first * D / 8u + i * 2u, D / 8u, false);
${SEQUENCE}    float m = -1e30, l = 0.0;
    for (uint base = lo; base < hi; base += CP) {
        dop_scores(base, kvh, sg, q);
        for (uint i = 0u; i < CP / LANES; i += 4u) {
            vec4 x = uintBitsToFloat(dop_sf[row * LS + (side + i) / 4u]);
            [[unroll]] for (uint k = 0u; k < 4u; k++) {
                uint p = base + side + i + k;
                bool seen = p <= pq && p >= DOP_FIRST(pq);
                m = seen ? max(m, dop_score(x[k])) : m;
            }
        }
        subgroupBarrier();
    }
    [[unroll]] for (uint i = 1u; i < LANES; i *= 2u)
        m = max(m, subgroupShuffleXor(m, i));
    FRAG acc[${FD}];
    [[unroll]] for (uint i = 0u; i < FD; i++)
        acc[i] = FRAG(0.0);
    for (uint base = lo; base < hi; base += CP) {
        dop_scores(base, kvh, sg, q);
        for (uint i = 0u; i < CP / LANES; i += 4u) {
            vec4 x = uintBitsToFloat(dop_sf[row * LS + (side + i) / 4u]), e;
            [[unroll]] for (uint k = 0u; k < 4u; k++) {
                uint p = base + side + i + k;
                bool seen = p <= pq && p >= DOP_FIRST(pq);
                e[k] = seen ? exp(dop_score(x[k]) - m) : 0.0;
            }
            l += (e.x + e.y) + (e.z + e.w);
            dop_ph[row * LP + (side + i) / 4u] = uvec2(packHalf2x16(e.xy), packHalf2x16(e.zw));
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        [[unroll]] for (uint j = 0u; j < 2u; j++) {
            FRAG_A p;
            FRAG_B v;
            coopMatLoadNV(p, dop_ph, first * LP + j * 4u, LP, false);
            [[unroll]] for (uint i = 0u; i < FD; i++) {
                coopMatLoadNV(v, U32x4(${V}).v, (DOP_SLOT(base + j * 16u) * KV + ${KVH}) * (D / 8u) + i * 2u, KV * (D / 8u), false);
                acc[i] = coopMatMulAddNV(p, v, acc[i]);
            }
        }
        subgroupBarrier();
    }
    [[unroll]] for (uint i = 1u; i < LANES; i *= 2u)
        l += subgroupShuffleXor(l, i);
    uint t = t0 + row / G, h = DOP_H(row);
${SINK}    [[unroll]] for (uint i = 0u; i < FD; i++) {
        coopMatStoreNV(acc[i], dop_sf, first * LS, LS, false);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        if (row < R && t < n_tokens)
            for (uint q = 0u; q < 16u / LANES; q += 4u) {
                uint d = lane % LANES * (16u / LANES) + q;
                dop_store_row(t, h, i * 16u + d, uintBitsToFloat(dop_sf[row * LS + d / 4u]), l);
            }
        subgroupBarrier();
    }
}
