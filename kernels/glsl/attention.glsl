// Attention of R query rows (BQ tokens by G query heads of one KV head) over one split of the cache, by online
// softmax.  DS neighbouring invocations score one position, so each K row is read once for all R rows; then invocations
// own 4 values of the head and a share of the positions, so each V row is read once too.  A query and a key have D values, a V has DV.
// GROUP_WGS workgroups share the query heads of a KV head; the sums of BATCH rows are in shared memory at the same time.
#define R (G * BQ)
#define LANES_D (DV / 4u)
#define SHARES (WG / LANES_D)
#define SUBGROUPS (WG / SG)
#define CP (WG / DS) // positions that are scored at once
#define DOP_T(j) min(t0 + (j) / G, n_tokens - 1u)
#define DOP_H(j) (head0 + (j) % G)
shared vec4 dop_q[R * D / 4u];
#define DOP_Q_PUT(i, x) dop_q[i] = x
#define DOP_Q_PUT1(i, x) dop_q[(i) >> 2][(i) & 3u] = x
shared float dop_s[R * WG];
shared vec4 dop_acc[BATCH * SHARES * LANES_D];
#if SG > 1
shared float dop_part[R * SUBGROUPS];
#endif
${DECLS}
// Largest of s[j] over the workgroup, for all rows at once.
void dop_rows_max(inout float s[R])
{
#if SG > 1
    for (uint j = 0u; j < R; j++)
        s[j] = subgroupMax(s[j]);
    if (SUBGROUPS > 1u) {
        barrier();
        if (gl_LocalInvocationIndex % SG == 0u)
            for (uint j = 0u; j < R; j++)
                dop_part[j * SUBGROUPS + gl_LocalInvocationIndex / SG] = s[j];
        barrier();
        for (uint j = 0u; j < R; j++)
            for (uint i = 0u; i < SUBGROUPS; i++)
                s[j] = max(s[j], dop_part[j * SUBGROUPS + i]);
    }
#else
    barrier();
    for (uint j = 0u; j < R; j++)
        dop_s[j * WG + gl_LocalInvocationIndex] = s[j];
    for (uint n = WG / 2u; n > 0u; n /= 2u) {
        barrier();
        if (gl_LocalInvocationIndex < n)
            for (uint j = 0u; j < R; j++)
                dop_s[j * WG + gl_LocalInvocationIndex] =
                    max(dop_s[j * WG + gl_LocalInvocationIndex], dop_s[j * WG + gl_LocalInvocationIndex + n]);
    }
    barrier();
    for (uint j = 0u; j < R; j++)
        s[j] = dop_s[j * WG];
    barrier();
#endif
}

void dop_store_row(uint t, uint h, uint d, vec4 o, float m, float l, uint split)
{
${STORE}}

void main()
{
    uint head0 = gl_WorkGroupID.x * G, kvh = gl_WorkGroupID.x / GROUP_WGS, t0 = gl_WorkGroupID.y * BQ, split = gl_WorkGroupID.z;
    uint n_tokens = ${N_TOKENS};
    if (t0 >= n_tokens)
        return;
${SEQUENCE}${SPAN}    DOP_RING_FROM(lo);
#if SPLITS > 1
    uint len = dop_split_len(hi - lo, SPLITS, ROUND), used = dop_split_count(hi - lo, len, SPLITS);
    lo += split * len;
    hi = dop_split_end(hi, lo, len, split, SPLITS);
    if (lo >= hi)
        return;
#endif
${PROLOGUE}    vec4 acc[R];
    float l[R], m[R];
    for (uint j = 0u; j < R; j++) {
        acc[j] = vec4(0.0);
        l[j] = 0.0;
        m[j] = -1e30;
    }
    uint d4 = gl_LocalInvocationIndex % LANES_D, share = gl_LocalInvocationIndex / LANES_D;
    barrier();
    for (uint base = lo; base < hi; base += CP) {
        uint p = base + gl_LocalInvocationIndex / DS, part = gl_LocalInvocationIndex % DS;
        float s[R], top[R];
        for (uint j = 0u; j < R; j++)
            s[j] = 0.0;
        if (p < hi) {
            uint at = DOP_AT_K(p);
            for (uint d = part * (D / DS); d < (part + 1u) * (D / DS); d += STEP) {
#if STEP == 8
                DOP_PIECE_K kw = DOP_LD8_K(at, d);
                vec4 k0 = DOP_LO_K(kw), k1 = DOP_HI_K(kw);
                for (uint j = 0u; j < R; j++)
                    s[j] += dot(k0, dop_q[(j * D + d) >> 2]) + dot(k1, dop_q[((j * D + d) >> 2) + 1u]);
#else
                vec4 k = DOP_LD4_K(at, d);
                for (uint j = 0u; j < R; j++)
                    s[j] += dot(k, dop_q[(j * D + d) >> 2]);
#endif
            }
        }
#if SG > 1
        [[unroll]] for (uint n = 1u; n < DS; n *= 2u)
            for (uint j = 0u; j < R; j++)
                s[j] += subgroupShuffleXor(s[j], n);
#endif
        for (uint j = 0u; j < R; j++) {
            float x = ${SCORE};
            bool seen = p < hi && p <= pq[j / G] && p >= ${FROM};
            s[j] = seen ? x : -1e30;
            top[j] = s[j];
        }
        dop_rows_max(top);
        for (uint j = 0u; j < R; j++) {
            float t = max(m[j], top[j]), fix = exp(m[j] - t);
            // A row that sees no position here has scores of -1e30 only.  Its weights must be 0 and not exp(0).
            float e = s[j] > -1e29 ? exp(s[j] - t) : 0.0;
            if (part == 0u)
                dop_s[j * CP + gl_LocalInvocationIndex / DS] = e;
            l[j] = l[j] * fix + (part == 0u ? e : 0.0);
            acc[j] *= fix;
            m[j] = t;
        }
        barrier();
        if (share < SHARES) {
            uint n = min(hi - base, CP);
            for (uint i = share; i < n; i += SHARES) {
                uint at = DOP_AT_V(base + i);
                vec4 v = DOP_LD4_V(at, d4 * 4u);
                for (uint j = 0u; j < R; j++)
                    acc[j] += dop_s[j * CP + i] * v;
            }
        }
        barrier();
    }
#if SG > 1
    for (uint j = 0u; j < R; j++) {
        float sum = subgroupAdd(l[j]);
        if (gl_LocalInvocationIndex % SG == 0u)
            dop_part[j * SUBGROUPS + gl_LocalInvocationIndex / SG] = sum;
    }
#else
    // Sums of the weights, in the shared memory of the scores, which are no longer needed.
    for (uint j = 0u; j < R; j++)
        dop_s[j * WG + gl_LocalInvocationIndex] = l[j];
#endif
    [[unroll]] for (uint j0 = 0u; j0 < R; j0 += BATCH) {
        if (share < SHARES)
            for (uint j = 0u; j < min(BATCH, R - j0); j++)
                dop_acc[(j * SHARES + share) * LANES_D + d4] = acc[j0 + j];
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < min(BATCH, R - j0) * LANES_D; i += WG) {
            uint j = j0 + i / LANES_D, d = i % LANES_D;
            uint t = t0 + j / G, h = head0 + j % G;
            if (t < n_tokens) {
                float sum = 0.0, top = m[0];
                for (uint k = 1u; k < R; k++)
                    top = k == j ? m[k] : top;
#if SG > 1
                for (uint k = 0u; k < SUBGROUPS; k++)
                    sum += dop_part[j * SUBGROUPS + k];
#else
                for (uint k = 0u; k < WG; k++)
                    sum += dop_s[j * WG + k];
#endif
                vec4 o = vec4(0.0);
                for (uint k = 0u; k < SHARES; k++)
                    o += dop_acc[((j - j0) * SHARES + k) * LANES_D + d];
${SINK}                dop_store_row(t, h, d * 4u, o, top, sum, split);
            }
        }
        barrier();
    }
#if MERGE
    // The last workgroup of this KV head to get here merges the splits.
    if (!dop_last_of(${COUNTS}, gl_WorkGroupID.x, used))
        return;
${MERGE_BODY}#endif
${TAIL}}
