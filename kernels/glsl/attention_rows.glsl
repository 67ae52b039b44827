// Attention on CPU devices: four query rows (tokens by the query heads of one KV head) over one split of the cache, by
// online softmax.  A workgroup is one subgroup whose lanes split the head; sums and weights go round by shuffles, without
// barriers, and four rows are the components of a vector, so that there is one copy of everything.  A query and a key have D
// values, a V has DV.  TILE positions lie between two rescalings; one iteration handles ONCE of them.
#define R 4u
#define SUBGROUPS 1u
#if TURNS > 1
// These loops end behind their bodies (DOP_UNTIL), because a test before the body would run it once more with no lane switched on.
#define DOP_POSITIONS(b) [[dont_unroll]] for (uint b = 0u;;)
#define DOP_NEXT(b) DOP_UNTIL((b += ONCE) >= n)
#else
#define DOP_POSITIONS(b) [[unroll]] for (uint b = 0u; b < TILE; b += ONCE)
#define DOP_NEXT(b)
#endif
#define DOP_LANES(o) [[unroll]] for (uint o = 0u; o < ONCE; o += WG)
#define STEPS ((D / STEP + WG - 1u) / WG)
#define STEPS_V ((DV / STEP + WG - 1u) / WG)
// Does every lane have the same number of values?  Then no condition depends on the lane, after which the driver would select each
// value anew.
#define DOP_WHOLE(n) (n % (STEP * WG) == 0u)
// The first row of a workgroup and the end of its rows.  Where rows are of several sequences, OF_TOKEN workgroups have those of one token.
#if MIXES
#define DOP_FIRST_ROW gl_WorkGroupID.y / OF_TOKEN * G + gl_WorkGroupID.y % OF_TOKEN * R
#define DOP_N_ROWS min(n_tokens, gl_WorkGroupID.y / OF_TOKEN + 1u) * G
#else
#define DOP_FIRST_ROW gl_WorkGroupID.y * R
#define DOP_N_ROWS n_tokens * G
#endif
// The product of a step's values of a key, x0 and x1, with query row j.
#if STEP == 8
#define DOP_DOT(j) dot(x0, q[j][s * (STEP / 4u) + 0u]) + dot(x1, q[j][s * (STEP / 4u) + 1u])
#else
#define DOP_DOT(j) dot(x0, q[j][s * (STEP / 4u) + 0u])
#endif
#define DOP_T(j) (min(r0 + (j), n_rows - 1u) / G)
#define DOP_H(j) (kvh * G + min(r0 + (j), n_rows - 1u) % G)
shared vec4 dop_q[R * max(D, DV) / 4u];
#define DOP_Q_PUT(i, x) dop_q[i] = x
#define DOP_Q_PUT1(i, x) dop_q[(i) >> 2][(i) & 3u] = x
shared vec4 dop_s[TILE];
${DECLS}
void dop_store_row(uint t, uint h, uint d, vec4 o, float m, float l, uint split)
{
${STORE}}

void main()
{
    uint kvh = gl_WorkGroupID.x, r0 = DOP_FIRST_ROW, split = gl_WorkGroupID.z;
    uint n_tokens = ${N_TOKENS}, n_rows = DOP_N_ROWS;
    if (r0 >= n_rows)
        return;
${SEQUENCE}${SPAN}    DOP_RING_FROM(lo);
#if SPLITS > 1
    uint len = dop_split_len(hi - lo, SPLITS, ROUND);
    lo += split * len;
    hi = dop_split_end(hi, lo, len, split, SPLITS);
    if (lo >= hi)
        return;
#endif
${PROLOGUE}    DOP_STEP();
    vec4 q[R][STEPS * STEP / 4u], acc[R][STEPS_V * STEP / 4u];
    [[unroll]] for (uint j = 0u; j < R; j++) {
        [[unroll]] for (uint s = 0u; s < STEPS * STEP / 4u; s++) {
            uint d = (s / (STEP / 4u) * WG + LANE) * STEP + s % (STEP / 4u) * 4u;
            q[j][s] = DOP_WHOLE(D) || d < D ? dop_q[(j * D + d) >> 2] : vec4(0.0);
        }
        [[unroll]] for (uint s = 0u; s < STEPS_V * STEP / 4u; s++)
            acc[j][s] = vec4(0.0);
    }
    DOP_STEP();
    vec4 m = vec4(-1e30), l = vec4(0.0);
    [[dont_unroll]] for (uint base = lo;;) {
        uint n = min(hi - base, TILE);
        vec4 top = m;
        DOP_POSITIONS(b0) {
            DOP_LANES(o) {
                uint b = b0 + o;
                // Each lane makes its share of the products of WG positions; after the exchange each lane has the sum of one
                // position.  Past the end the last position is used again.  Unrolled, because a driver may limit iterations.
                vec4 parts[WG];
                [[unroll]] for (uint i = 0u; i < WG; i++) {
                    uint at = DOP_AT_K(min(base + b + i, hi - 1u));
                    vec4 x = vec4(0.0);
                    [[unroll]] for (uint s = 0u; s < STEPS; s++) {
                        uint d = (s * WG + LANE) * STEP;
                        if (DOP_WHOLE(D) || d < D) {
#if STEP == 8
                            DOP_PIECE_K w = DOP_LD8_K(at, d);
                            vec4 x0 = DOP_LO_K(w), x1 = DOP_HI_K(w);
#else
                            vec4 x0 = DOP_LD4_K(at, d + 0u);
#endif
                            [[unroll]] for (uint j = 0u; j < R; j++)
                                x[j] += DOP_DOT(j);
                        }
                    }
                    parts[i] = x;
                }
${SUMS}                uint p = base + b + LANE;
                vec4 x = parts[0];
                x = ${SCORE};
                [[unroll]] for (uint j = 0u; j < R; j++)
                    x[j] = p < hi && p <= pq[j] && p >= ${FROM} ? x[j] : -1e30;
                dop_s[b + LANE] = x;
                top = max(top, x);
                DOP_STEP();
            }
            DOP_NEXT(b0)
        }
        top = subgroupMax(top);
        vec4 fix = exp(m - top);
        m = top;
        l *= fix;
        [[unroll]] for (uint j = 0u; j < R; j++)
            [[unroll]] for (uint s = 0u; s < STEPS_V * STEP / 4u; s++)
                acc[j][s] *= fix[j];
        DOP_POSITIONS(b0) {
            DOP_LANES(o) {
                uint b = b0 + o + LANE;
                // A row that sees no position here has scores of -1e30 only.  Its weights must be 0 and not exp(0).
                vec4 x = dop_s[b], e = exp(x - m) * vec4(greaterThan(x, vec4(-1e29)));
                dop_s[b] = e;
                l += e;
            }
            DOP_NEXT(b0)
        }
        DOP_STEP();
        DOP_POSITIONS(b0) {
            DOP_LANES(o) {
                uint b = b0 + o;
                vec4 es = dop_s[b + LANE];
                [[unroll]] for (uint i = 0u; i < WG; i++) {
                    vec4 e = subgroupShuffle(es, i);
                    uint at = DOP_AT_V(min(base + b + i, hi - 1u));
                    [[unroll]] for (uint s = 0u; s < STEPS_V; s++) {
                        uint d = (s * WG + LANE) * STEP;
                        if (DOP_WHOLE(DV) || d < DV) {
#if STEP == 8
                            DOP_PIECE_V w = DOP_LD8_V(at, d);
                            vec4 x0 = DOP_LO_V(w), x1 = DOP_HI_V(w);
#else
                            vec4 x0 = DOP_LD4_V(at, d + 0u);
#endif
                            [[unroll]] for (uint j = 0u; j < R; j++) {
                                acc[j][s * (STEP / 4u) + 0u] += e[j] * x0;
#if STEP == 8
                                acc[j][s * (STEP / 4u) + 1u] += e[j] * x1;
#endif
                            }
                        }
                    }
                }
            }
            DOP_NEXT(b0)
        }
        DOP_STEP();
        DOP_UNTIL((base += TILE) >= hi)
    }
    l = subgroupAdd(l);
    [[unroll]] for (uint j = 0u; j < R; j++)
        [[unroll]] for (uint s = 0u; s < STEPS_V * STEP / 4u; s++) {
            uint d = (s / (STEP / 4u) * WG + LANE) * STEP + s % (STEP / 4u) * 4u;
            if (DOP_WHOLE(DV) || d < DV)
                dop_q[(j * DV + d) >> 2] = acc[j][s];
        }
    DOP_STEP();
    [[dont_unroll]] for (uint i = LANE; i < min(R, n_rows - r0) * (DV / 4u); i += WG) {
        uint j = i / (DV / 4u), d = i % (DV / 4u) * 4u, t = DOP_T(j), h = DOP_H(j);
        float sum = l[j], top = m[j];
        vec4 o = dop_q[i];
${SINK}        dop_store_row(t, h, d, o, top, sum, split);
    }
${TAIL}}
