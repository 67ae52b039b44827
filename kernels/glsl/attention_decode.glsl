// Attention of one token: the R query heads of one KV head over one split of an f16 cache, 64 positions at a time.
// LANES neighbouring invocations own one row of K or V, 8 values (16 bytes) each, so that a subgroup reads whole rows and
// its queries lie in shared memory without conflicts.  Scores meet in shared memory, a subgroup turns each head's into
// weights (online softmax), and every invocation adds up its columns over its share of the positions.
//
// The first rows are on their way before this step's queries are waited for, the next ones while the current are used.
#define D ${D}u
#define R ${R}u
#define G R
#define KV ${KV}u
#define LANES (D / 8u)
#define GROUPS (WG / LANES) // rows of a pass
#define CP 64u              // positions at a time
#define NP (CP / GROUPS)    // rows of an invocation
#define TEAMS (WG / SG)
#define HALVINGS ${HALVINGS} // steps of the sum over LANES that halve the number of values
#define VALUES (NP * R)
#define BATCH ${BATCH}u // heads whose sums meet in shared memory at once
#define DOP_T(j) 0u
#define DOP_H(j) (kvh * R + (j))
// The first halves of all lanes' values, then the second: neighbouring lanes read neighbouring words.
shared vec4 dop_q[R * D / 4u];
#define DOP_Q_AT(i) ((i) / (2u * LANES) * (2u * LANES) + (i) % 2u * LANES + (i) % (2u * LANES) / 2u)
#define DOP_Q_PUT(i, x) dop_q[DOP_Q_AT(i)] = x
#define DOP_Q_PUT1(i, x) dop_q[DOP_Q_AT((i) >> 2)][(i) & 3u] = x
shared float dop_s[R * CP];
shared float dop_m[R], dop_l[R], dop_fix[R];
shared vec4 dop_acc[BATCH * TEAMS * D / 4u];
uvec4 dop_k[NP], dop_v[NP];
${DECLS}
// Rows of the positions from base that lie in [from, to).
void dop_hold_k(uint base, uint kvh, uint from, uint to)
{
    [[unroll]] for (uint n = 0u; n < NP; n++) {
        uint p = base + n * GROUPS + gl_LocalInvocationIndex / LANES;
        if (p >= from && p < to)
            dop_k[n] = C32x4(${K}).v[((p * KV + kvh) * D) / 8u + gl_LocalInvocationIndex % LANES];
    }
}
void dop_hold_v(uint base, uint kvh, uint from, uint to)
{
    [[unroll]] for (uint n = 0u; n < NP; n++) {
        uint p = base + n * GROUPS + gl_LocalInvocationIndex / LANES;
        if (p >= from && p < to)
            dop_v[n] = C32x4(${V}).v[((p * KV + kvh) * D) / 8u + gl_LocalInvocationIndex % LANES];
    }
}

// Products of the rows held with the queries into dop_s[head * CP + position].
void dop_scores(uint n_rows)
{
    uint lane = gl_LocalInvocationIndex % LANES, group = gl_LocalInvocationIndex / LANES;
    float s[VALUES]; // [row][head]
    [[unroll]] for (uint j = 0u; j < R; j++) {
        vec4 q0 = dop_q[j * D / 4u + lane], q1 = dop_q[j * D / 4u + LANES + lane];
        [[unroll]] for (uint n = 0u; n < NP; n++)
            s[n * R + j] = dot(dop_f16x4(dop_k[n].xy), q0) + dot(dop_f16x4(dop_k[n].zw), q1);
    }
    // Sums over LANES: while there is an even number of values, one half of the lanes keeps one half of them.
    uint first = 0u;
${SUMS}    if ((lane >> HALVINGS) == 0u)
        [[unroll]] for (uint i = 0u; i < (VALUES >> HALVINGS); i++) {
            uint n = (first + i) / R, j = (first + i) % R, p = n * GROUPS + group;
            float x = s[i];
            dop_s[j * CP + p] = p < n_rows ? ${SCORE} : -1e30;
        }
}

// Scores into weights, one head per subgroup; dop_fix is what earlier sums are worth now.
void dop_softmax()
{
    uint lane = gl_LocalInvocationIndex % SG;
    for (uint j = gl_LocalInvocationIndex / SG; j < R; j += TEAMS) {
        float x[CP / SG], old = dop_m[j], top = old, sum = 0.0;
        [[unroll]] for (uint i = 0u; i < CP / SG; i++) {
            x[i] = dop_s[j * CP + i * SG + lane];
            top = max(top, x[i]);
        }
        top = subgroupMax(top);
        [[unroll]] for (uint i = 0u; i < CP / SG; i++) {
            float e = x[i] > -1e29 ? exp(x[i] - top) : 0.0;
            dop_s[j * CP + i * SG + lane] = e;
            sum += e;
        }
        sum = subgroupAdd(sum);
        if (lane == 0u) {
            float fix = exp(old - top);
            dop_l[j] = dop_l[j] * fix + sum;
            dop_m[j] = top;
            dop_fix[j] = fix;
        }
    }
}

void main()
{
    uint kvh = gl_WorkGroupID.x, split = gl_WorkGroupID.z;
    uint pos0 = ${POS}; // position of the query
    uint hi = pos0 + 1u, lo = ${WINDOW} > 0u && hi > ${WINDOW} ? hi - ${WINDOW} : 0u;
#if SPLITS > 1
    uint len = dop_split_len(hi - lo, SPLITS), used = (hi - lo + len - 1u) / len;
    lo += split * len;
    hi = min(lo + len, hi);
    if (lo >= hi)
        return;
#endif
    [[unroll]] for (uint n = 0u; n < NP; n++)
        dop_k[n] = dop_v[n] = uvec4(0u);
    dop_hold_k(lo, kvh, lo, min(hi, pos0));
    dop_hold_v(lo, kvh, lo, min(hi, pos0));
    for (uint j = gl_LocalInvocationIndex; j < R; j += WG) {
        dop_m[j] = -1e30;
        dop_l[j] = 0.0;
    }
    dop_wait();
${PROLOGUE}    barrier();
    if (pos0 - lo < CP) { // the row of this step
        dop_hold_k(lo, kvh, pos0, hi);
        dop_hold_v(lo, kvh, pos0, hi);
    }
    uint part = gl_LocalInvocationIndex % LANES, group = gl_LocalInvocationIndex / LANES;
    vec4 acc[R * 2u];
    [[unroll]] for (uint j = 0u; j < R * 2u; j++)
        acc[j] = vec4(0.0);
    for (uint base = lo; base < hi; base += CP) {
        dop_scores(hi - base);
        dop_hold_k(base + CP, kvh, base + CP, hi);
        barrier();
        dop_softmax();
        barrier();
        [[unroll]] for (uint j = 0u; j < R; j++) {
            float fix = dop_fix[j];
            acc[2u * j] *= fix;
            acc[2u * j + 1u] *= fix;
            [[unroll]] for (uint n = 0u; n < NP; n++) {
                float w = dop_s[j * CP + n * GROUPS + group];
                acc[2u * j] += w * dop_f16x4(dop_v[n].xy);
                acc[2u * j + 1u] += w * dop_f16x4(dop_v[n].zw);
            }
        }
        dop_hold_v(base + CP, kvh, base + CP, hi);
        barrier();
    }
    [[unroll]] for (uint m = LANES; m < SG; m *= 2u)
        [[unroll]] for (uint j = 0u; j < R * 2u; j++)
            [[unroll]] for (uint i = 0u; i < 4u; i++)
                acc[j][i] += subgroupShuffleXor(acc[j][i], m);
    uint team = gl_LocalInvocationIndex / SG;
    [[unroll]] for (uint j0 = 0u; j0 < R; j0 += BATCH) {
        if (gl_LocalInvocationIndex % SG < LANES)
            [[unroll]] for (uint j = j0; j < min(j0 + BATCH, R); j++) {
                dop_acc[((j - j0) * TEAMS + team) * (D / 4u) + part * 2u] = acc[2u * j];
                dop_acc[((j - j0) * TEAMS + team) * (D / 4u) + part * 2u + 1u] = acc[2u * j + 1u];
            }
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < min(BATCH, R - j0) * (D / 4u); i += WG) {
            uint j = i / (D / 4u), d = i % (D / 4u) * 4u, h = kvh * R + j0 + j;
            float top = dop_m[j0 + j], sum = dop_l[j0 + j];
            vec4 o = vec4(0.0);
            [[unroll]] for (uint k = 0u; k < TEAMS; k++)
                o += dop_acc[(j * TEAMS + k) * (D / 4u) + d / 4u];
${SINK}            float m = top, l = sum;
#if MERGE
            if (used == 1u) {
                o /= l;
                uint c = h * D + d;
${STORE_WHOLE}            } else
#endif
            {
${STORE}            }
        }
        if (j0 + BATCH < R)
            barrier();
    }
#if MERGE
    // The last workgroup of this KV head to get here merges the splits.
    if (used == 1u)
        return;
    if (!dop_last_of(${MERGES}, 1u + kvh, used))
        return;
${MERGE_BODY}#endif
}
