// Attention of R query rows (BQ tokens by the G query heads of one KV head) over one split of the cache, by online
// softmax.  An invocation scores whole positions, so each K row is read once for all R rows; then invocations own
// 4 values of the head and a share of the positions, so each V row is read once too.
#define D ${D}u
#define G ${G}u
#define BQ ${BQ}u
#define R (G * BQ)
#define KV ${KV}u
#define LANES_D (D / 4u)
#define SHARES (WG / LANES_D)
shared vec4 dop_q[R * D / 4u];
shared float dop_s[R * WG];
shared float dop_m[R];
shared float dop_l[R];
shared vec4 dop_acc[SHARES * LANES_D];
${DECLS}
void dop_store_row(uint t, uint h, uint d, vec4 o, float m, float l, uint split)
{
${STORE}}

void main()
{
    uint kvh = gl_WorkGroupID.x, t0 = gl_WorkGroupID.y * BQ, split = gl_WorkGroupID.z;
    uint n_tokens = ${N_TOKENS};
    if (t0 >= n_tokens)
        return;
    uint pos0 = ${POS} + t0; // position of the first query row
    uint last = min(pos0 + BQ - 1u, ${POS} + n_tokens - 1u);
    uint lo = ${WINDOW}u > 0u && pos0 + 1u > ${WINDOW}u ? pos0 + 1u - ${WINDOW}u : 0u;
    uint hi = last + 1u;
#if SPLITS > 1
    uint len = max(64u, (hi - lo + SPLITS - 1u) / SPLITS);
    lo += split * len;
    hi = min(lo + len, hi);
    if (lo >= hi)
        return;
#endif
${PROLOGUE}    for (uint j = gl_LocalInvocationIndex; j < R; j += WG) {
        dop_m[j] = -1e30;
        dop_l[j] = 0.0;
    }
    vec4 acc[R];
    float l[R];
    for (uint j = 0u; j < R; j++) {
        acc[j] = vec4(0.0);
        l[j] = 0.0;
    }
    uint d4 = gl_LocalInvocationIndex % LANES_D, share = gl_LocalInvocationIndex / LANES_D;
    barrier();
    for (uint base = lo; base < hi; base += WG) {
        uint p = base + gl_LocalInvocationIndex;
        float s[R];
        for (uint j = 0u; j < R; j++)
            s[j] = 0.0;
        if (p < hi) {
            uint at = (p * KV + kvh) * D;
            for (uint d = 0u; d < D; d += 4u) {
                vec4 k = ${LOAD_K};
                for (uint j = 0u; j < R; j++)
                    s[j] += dot(k, dop_q[(j * D + d) >> 2]);
            }
        }
        for (uint j = 0u; j < R; j++) {
            uint pq = pos0 + j / G; // this row's own position
            float x = ${SCORE};
            bool seen = p < hi && p <= pq && (${WINDOW}u == 0u || p + ${WINDOW}u > pq);
            s[j] = seen ? x : -1e30;
            float m_old = dop_m[j];
            float m = max(m_old, dop_wg_max(s[j]));
            float e = seen ? exp(s[j] - m) : 0.0;
            float fix = exp(m_old - m);
            dop_s[j * WG + gl_LocalInvocationIndex] = e;
            l[j] = l[j] * fix + e;
            acc[j] *= fix;
            barrier();
            if (gl_LocalInvocationIndex == 0u)
                dop_m[j] = m;
        }
        barrier();
        if (share < SHARES) {
            uint n = min(hi - base, WG);
            for (uint i = share; i < n; i += SHARES) {
                uint at = ((base + i) * KV + kvh) * D + d4 * 4u;
                vec4 v = ${LOAD_V};
                for (uint j = 0u; j < R; j++)
                    acc[j] += dop_s[j * WG + i] * v;
            }
        }
        barrier();
    }
    for (uint j = 0u; j < R; j++) {
        uint t = t0 + j / G, h = kvh * G + j % G;
        float sum = dop_wg_sum(l[j]);
        float m = dop_m[j];
${SINK}        barrier();
        if (share < SHARES)
            dop_acc[share * LANES_D + d4] = acc[j];
        barrier();
        if (share == 0u && t < n_tokens) {
            vec4 o = dop_acc[d4];
            for (uint i = 1u; i < SHARES; i++)
                o += dop_acc[i * LANES_D + d4];
            dop_store_row(t, h, d4 * 4u, o, m, sum, split);
        }
    }
}
