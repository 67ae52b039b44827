// Linear recurrences of many rows in chunks of ROWS, by products over a chunk: the duality of Mamba-2 (arXiv 2405.21060) and,
// for the delta rule, the UT transform of gated DeltaNet (arXiv 2412.06464) as a triangular system.  With S the state before the
// chunk, d(j, i) the decays of rows j + 1 to i and d(i) those of the chunk's first row to row i:
//   what row i adds     x_i = beta_i (v_i - d(i) S k_i - sum over j < i of d(j, i) (k_i k_j) x_j), or v_i without beta
//   its result          y_i = d(i) S q_i + sum over j <= i of d(j, i) (q_i k_j) x_j
//   the state after it  d(last) S + sum over j of d(j, last) x_j k_j^T
// The state is read and written once for all rows, and no row waits for the state after another one.  Decays are running
// products of factors of at most 1, so that nothing overflows.  One workgroup makes head h; its state lies in registers as in
// scan.glsl, L neighbouring invocations to a row of it.  Rows that a chunk has not are zeros and change nothing.
#define GROUPS (ROWS / L)
#define LK (N / 4u + 1u) // vectors from one row to the next, padded against bank conflicts
#define LM (ROWS / 4u + 1u)
#define TEAMS (WG / L)
#define SUBGROUPS (WG / SG)
shared vec4 scan_q[ROWS * LK], scan_k[ROWS * LK];
shared vec4 scan_qk[ROWS * LM]; // d(j, i) (q_i k_j), zero where j > i
#if DELTA
shared vec4 scan_kk[ROWS * LM]; // beta_i d(j, i) (k_i k_j), zero where j >= i
#endif
shared float scan_v[ROWS * P], scan_decay[ROWS], scan_beta[ROWS];
shared float scan_from[ROWS], scan_to[ROWS]; // d(i), d(j, last)
#define VEC vec4
#define DOP_SV_PUT1(i, x) scan_v[i] = x
#define DOP_SD_PUT1(i, x) scan_decay[i] = x
#define DOP_SB_PUT1(i, x) scan_beta[i] = x
#define DOP_AT(i) ((i) / (N / 4u) * LK + (i) % (N / 4u))
#define DOP_SQ_PUT(i, x) scan_q[DOP_AT(i)] = x
#define DOP_SK_PUT(i, x) scan_k[DOP_AT(i)] = x
#define DOP_SQ_PUT1(i, x) scan_q[DOP_AT((i) >> 2)][(i) & 3u] = x
#define DOP_SK_PUT1(i, x) scan_k[DOP_AT((i) >> 2)][(i) & 3u] = x

// Sums of L rows at once over the L invocations that share a row of the state: invocation `part` gets that of row `part`.
// The steps are written out, so that the rows stay in registers.
#define DOP_HALVE(n) \
    [[unroll]] for (uint i = 0u; i < n; i++) {                                          \
        bool upper = (part & n) != 0u;                                                  \
        float give = upper ? x[i] : x[i + n];                                           \
        x[i] = (upper ? x[i + n] : x[i]) + subgroupShuffleXor(give, n);                 \
    }
float scan_sums(float x[L], uint part)
{
#if L >= 64
    DOP_HALVE(32u)
#endif
#if L >= 32
    DOP_HALVE(16u)
#endif
#if L >= 16
    DOP_HALVE(8u)
#endif
#if L >= 8
    DOP_HALVE(4u)
#endif
#if L >= 4
    DOP_HALVE(2u)
#endif
#if L >= 2
    DOP_HALVE(1u)
#endif
    return x[0];
}

void scan_put(uint i, uint j, float qk, float kk, float decay)
{
    scan_qk[i * LM + j / 4u][j % 4u] = decay * qk;
#if DELTA
    scan_kk[i * LM + j / 4u][j % 4u] = i > j ? scan_beta[i] * decay * kk : 0.0;
#endif
}

// The products of a chunk's rows with one another, two by two, and what the decays make of them.
void scan_products(uint count)
{
    uint pairs = (count + 1u) / 2u;
    for (uint at = gl_LocalInvocationIndex; at < pairs * (pairs + 1u) / 2u; at += WG) {
        uint b = uint(sqrt(2.0 * float(at) + 0.25) - 0.5);
        b -= uint(b * (b + 1u) / 2u > at);
        b += uint((b + 1u) * (b + 2u) / 2u <= at);
        uint i = 2u * b, j = 2u * (at - b * (b + 1u) / 2u);
        vec4 qk = vec4(0.0), kk = vec4(0.0); // (i, j), (i, j + 1), (i + 1, j), (i + 1, j + 1)
        for (uint n = 0u; n < N / 4u; n++) {
            vec4 k0 = scan_k[j * LK + n], k1 = scan_k[j * LK + LK + n];
            vec4 q0 = scan_q[i * LK + n], q1 = scan_q[i * LK + LK + n];
            qk += vec4(dot(q0, k0), dot(q0, k1), dot(q1, k0), dot(q1, k1));
#if DELTA
            vec4 i0 = scan_k[i * LK + n], i1 = scan_k[i * LK + LK + n];
            kk += vec4(dot(i0, k0), dot(i0, k1), dot(i1, k0), dot(i1, k1));
#endif
        }
        float d = 1.0, last = scan_decay[i + 1u], after = scan_decay[j + 1u];
        for (uint n = j + 2u; n <= i; n++)
            d *= scan_decay[n];
        bool below = j < i;
        scan_put(i, j, qk.x, kk.x, below ? d * after : 1.0);
        scan_put(i, j + 1u, qk.y, kk.y, below ? d : 0.0);
        scan_put(i + 1u, j, qk.z, kk.z, below ? d * after * last : last);
        scan_put(i + 1u, j + 1u, qk.w, kk.w, below ? d * last : 1.0);
    }
    for (uint i = gl_LocalInvocationIndex; i < ROWS; i += WG) {
        float from = 1.0, to = 1.0;
        for (uint n = 0u; n < ROWS; n++) {
            from *= n <= i ? scan_decay[n] : 1.0;
            to *= n > i ? scan_decay[n] : 1.0;
        }
        scan_from[i] = from;
        scan_to[i] = to;
    }
}

void main()
{
${BEGIN}    uint part = gl_LocalInvocationIndex % L, team = gl_LocalInvocationIndex / L;
    uint lane = gl_LocalInvocationIndex % SG;
    vec4 s[R * J];
${FROM}    for (uint i = gl_LocalInvocationIndex; i < ROWS * LM; i += WG) {
        scan_qk[i] = vec4(0.0);
#if DELTA
        scan_kk[i] = vec4(0.0);
#endif
    }
    for (uint first = begin; first < rows; first += ROWS) {
        uint count = min(ROWS, rows - first);
        barrier();
        for (uint i = count * LK + gl_LocalInvocationIndex; i < ROWS * LK; i += WG)
            scan_q[i] = scan_k[i] = vec4(0.0);
        for (uint i = count * P + gl_LocalInvocationIndex; i < ROWS * P; i += WG)
            scan_v[i] = 0.0;
        for (uint i = count + gl_LocalInvocationIndex; i < ROWS; i += WG) {
            scan_decay[i] = 1.0;
            scan_beta[i] = 0.0;
        }
${STAGE}        barrier();
        scan_products(count);
        barrier();
        // S k and S q
        float y[R * GROUPS];
        [[unroll]] for (uint b = 0u; b < GROUPS; b++) {
            float old[R * L], sum[R * L];
            [[unroll]] for (uint u = 0u; u < L; u++) {
                [[unroll]] for (uint r = 0u; r < R; r++)
                    old[r * L + u] = sum[r * L + u] = 0.0;
                [[unroll]] for (uint j = 0u; j < J; j++) {
                    uint n = part + j * L;
                    if (n * 4u < N) {
                        vec4 q = scan_q[(b * L + u) * LK + n];
                        [[unroll]] for (uint r = 0u; r < R; r++)
                            sum[r * L + u] += dot(s[r * J + j], q);
#if DELTA
                        vec4 k = scan_k[(b * L + u) * LK + n];
                        [[unroll]] for (uint r = 0u; r < R; r++)
                            old[r * L + u] += dot(s[r * J + j], k);
#endif
                    }
                }
            }
            uint i = b * L + part;
            [[unroll]] for (uint r = 0u; r < R; r++) {
                float x[L];
                [[unroll]] for (uint u = 0u; u < L; u++)
                    x[u] = sum[r * L + u];
                y[r * GROUPS + b] = scan_from[i] * scan_sums(x, part);
#if DELTA
                uint p = team + r * TEAMS;
                [[unroll]] for (uint u = 0u; u < L; u++)
                    x[u] = old[r * L + u];
                float was = scan_sums(x, part);
                if (p < P)
                    scan_v[i * P + p] = scan_beta[i] * (scan_v[i * P + p] - scan_from[i] * was);
#endif
            }
        }
#if DELTA
        // What each row adds depends on the rows before it, but every column is independent.
        barrier();
        for (uint p = gl_LocalInvocationIndex; p < P; p += WG)
            for (uint i = 1u; i < count; i++) {
                vec4 x = vec4(0.0);
                for (uint j = 0u; j < (i + 3u) / 4u; j++) {
                    uint at = 4u * j * P + p;
                    x += scan_kk[i * LM + j] * vec4(scan_v[at], scan_v[at + P], scan_v[at + 2u * P], scan_v[at + 3u * P]);
                }
                scan_v[i * P + p] -= (x.x + x.y) + (x.z + x.w);
            }
        barrier();
#endif
        [[unroll]] for (uint b = 0u; b < GROUPS; b++) {
            uint i = b * L + part;
            for (uint j = 0u; j < (b * L + L + 3u) / 4u; j++) {
                vec4 m = scan_qk[i * LM + j];
                [[unroll]] for (uint r = 0u; r < R; r++) {
                    uint at = 4u * j * P + min(team + r * TEAMS, P - 1u);
                    y[r * GROUPS + b] +=
                        dot(m, vec4(scan_v[at], scan_v[at + P], scan_v[at + 2u * P], scan_v[at + 3u * P]));
                }
            }
        }
        float all = scan_from[ROWS - 1u];
        [[unroll]] for (uint i = 0u; i < R * J; i++)
            s[i] *= all;
        for (uint i = 0u; i < count; i++) {
            float to = scan_to[i];
            vec4 k[J];
            [[unroll]] for (uint j = 0u; j < J; j++)
                k[j] = (part + j * L) * 4u < N ? scan_k[i * LK + part + j * L] : vec4(0.0);
            [[unroll]] for (uint r = 0u; r < R; r++) {
                float x = to * scan_v[i * P + min(team + r * TEAMS, P - 1u)];
                [[unroll]] for (uint j = 0u; j < J; j++)
                    s[r * J + j] += x * k[j];
            }
        }
        barrier();
        [[unroll]] for (uint b = 0u; b < GROUPS; b++)
            [[unroll]] for (uint r = 0u; r < R; r++) {
                uint i = b * L + part, p = team + r * TEAMS;
                if (i < count && p < P)
                    scan_v[i * P + p] = y[r * GROUPS + b];
            }
${AFTER}    }
${SAVE}}
