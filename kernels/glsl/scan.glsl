// Linear recurrences.  One workgroup makes head h over the rows of the step, or of one of its sequences.  Its state, P x N, lies
// in registers: L neighbouring invocations share a row of it, each with J times ${W} of the N values, and an invocation has R of
// the P rows.
// q, k, v and the factors of ROWS rows at a time are staged in shared memory, where results take the place of v.
#define P ${P}u
#define N ${N}u
#define L ${L}u
#define J ${J}u
#define R ${R}u
#define ROWS ${ROWS}u
#define VEC ${VEC}
#define TEAMS (WG / L)
#define SUBGROUPS (WG / SG)
shared VEC scan_q[ROWS * N / ${W}u], scan_k[ROWS * N / ${W}u];
shared float scan_v[ROWS * P], scan_decay[ROWS], scan_beta[ROWS];
${DECAYS}${DECLS}
#if ${W} == 4
#define DOP_SUM dot
#define DOP_SQ_PUT(i, x) scan_q[i] = x
#define DOP_SK_PUT(i, x) scan_k[i] = x
#define DOP_SQ_PUT1(i, x) scan_q[(i) >> 2][(i) & 3u] = x
#define DOP_SK_PUT1(i, x) scan_k[(i) >> 2][(i) & 3u] = x
#else
#define DOP_SUM(a, b) ((a) * (b))
#define DOP_SQ_PUT(i, x)
#define DOP_SK_PUT(i, x)
#define DOP_SQ_PUT1(i, x) scan_q[i] = x
#define DOP_SK_PUT1(i, x) scan_k[i] = x
#endif

// The sum of x over the L invocations that share a row of the state.
float scan_sum(float x)
{
#if ${L} == SG && SG > 1
    x = subgroupAdd(x);
#elif ${L} > 1
    [[unroll]] for (uint n = L / 2u; n > 0u; n /= 2u)
        x += subgroupShuffleXor(x, n);
#endif
    return x;
}

void main()
{
    uint h = DOP_GROUP.x, g = ${KEY_HEAD};
${ROWS_OF}    uint part = gl_LocalInvocationIndex % L, team = gl_LocalInvocationIndex / L;
    uint lane = gl_LocalInvocationIndex % SG;
    VEC s[R * J];
${FROM}    [[unroll]] for (uint r = 0u; r < R; r++)
        [[unroll]] for (uint j = 0u; j < J; j++) {
            uint p = team + r * TEAMS, n = (part + j * L) * ${W}u;
            s[r * J + j] = VEC(0.0);
            if (p < P && n < N)
                s[r * J + j] = ${LOAD};
        }
    for (uint first = begin; first < rows; first += ROWS) {
        uint count = min(ROWS, rows - first);
        barrier();
${STAGE}        barrier();
        for (uint i = 0u; i < count; i++) {
${DECAY}            VEC k[J], q[J];
            [[unroll]] for (uint j = 0u; j < J; j++) {
                uint n = part + j * L;
                bool inside = n * ${W}u < N;
                k[j] = inside ? scan_k[i * (N / ${W}u) + n] : VEC(0.0);
                q[j] = inside ? scan_q[i * (N / ${W}u) + n] : VEC(0.0);
                meet += DOP_SUM(k[j], q[j]);
            }
            meet = scan_sum(meet);
            [[unroll]] for (uint r = 0u; r < R; r++) {
                uint p = team + r * TEAMS;
                float add = p < P ? scan_v[i * P + p] : 0.0, old = 0.0, sum = 0.0;
                [[unroll]] for (uint j = 0u; j < J; j++)
                    sum += DOP_SUM(s[r * J + j], q[j]);
#if ${DELTA}
                [[unroll]] for (uint j = 0u; j < J; j++)
                    old += DOP_SUM(s[r * J + j], k[j]);
                old = scan_sum(old);
                add = scan_beta[i] * (add - decay * old);
#endif
                // (decay S + add k) q, without waiting for the new S
                sum = decay * scan_sum(sum) + add * meet;
                [[unroll]] for (uint j = 0u; j < J; j++)
                    s[r * J + j] = decay * s[r * J + j] + add * k[j];
                if (part == 0u && p < P)
                    scan_v[i * P + p] = sum;
            }
        }
${AFTER}    }
${SAVE}}
