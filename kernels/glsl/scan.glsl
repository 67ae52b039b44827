// Linear recurrences.  One workgroup makes head h over the rows of the step, or of one of its sequences.  Its state, P x N, lies
// in registers: L neighbouring invocations share a row of it, each with J times W of the N values, and an invocation has R of
// the P rows.
// q, k, v and the factors of ROWS rows at a time are staged in shared memory, where results take the place of v.
#if W == 4
#define VEC vec4
#else
#define VEC float
#endif
#define TEAMS (WG / L)
#define SUBGROUPS (WG / SG)
shared VEC scan_q[ROWS * N / W], scan_k[ROWS * N / W];
shared float scan_v[ROWS * P], scan_decay[ROWS], scan_beta[ROWS];
#if EACH
shared VEC scan_decays[ROWS * N / W];
#endif

#if W == 4
#define DOP_SUM dot
#define DOP_PUT(array, i, x) array[i] = x
#define DOP_PUT1(array, i, x) array[(i) >> 2][(i) & 3u] = x
#else
#define DOP_SUM(a, b) ((a) * (b))
#define DOP_PUT(array, i, x)
#define DOP_PUT1(array, i, x) array[i] = x
#endif
#define DOP_SQ_PUT(i, x) DOP_PUT(scan_q, i, x)
#define DOP_SK_PUT(i, x) DOP_PUT(scan_k, i, x)
#define DOP_SE_PUT(i, x) DOP_PUT(scan_decays, i, x)
#define DOP_SQ_PUT1(i, x) DOP_PUT1(scan_q, i, x)
#define DOP_SK_PUT1(i, x) DOP_PUT1(scan_k, i, x)
#define DOP_SE_PUT1(i, x) DOP_PUT1(scan_decays, i, x)
#define DOP_SV_PUT1(i, x) scan_v[i] = x
#define DOP_SD_PUT1(i, x) scan_decay[i] = x
#define DOP_SB_PUT1(i, x) scan_beta[i] = x

// The sum of x over the L invocations that share a row of the state.
float scan_sum(float x)
{
#if L == SG && SG > 1
    x = subgroupAdd(x);
#elif L > 1
    [[unroll]] for (uint n = L / 2u; n > 0u; n /= 2u)
        x += subgroupShuffleXor(x, n);
#endif
    return x;
}

void main()
{
${BEGIN}    uint part = gl_LocalInvocationIndex % L, team = gl_LocalInvocationIndex / L;
    uint lane = gl_LocalInvocationIndex % SG;
    VEC s[R * J];
${FROM}    for (uint first = begin; first < rows; first += ROWS) {
        uint count = min(ROWS, rows - first);
        barrier();
${STAGE}        barrier();
        for (uint i = 0u; i < count; i++) {
            float meet = 0.0;
#if EACH
            const float decay = 1.0;
            [[unroll]] for (uint j = 0u; j < J; j++) {
                uint n = part + j * L;
                VEC each = n * W < N ? scan_decays[i * (N / W) + n] : VEC(0.0);
                [[unroll]] for (uint r = 0u; r < R; r++)
                    s[r * J + j] *= each;
            }
#else
            float decay = scan_decay[i];
#endif
            VEC k[J], q[J];
            [[unroll]] for (uint j = 0u; j < J; j++) {
                uint n = part + j * L;
                bool inside = n * W < N;
                k[j] = inside ? scan_k[i * (N / W) + n] : VEC(0.0);
                q[j] = inside ? scan_q[i * (N / W) + n] : VEC(0.0);
                meet += DOP_SUM(k[j], q[j]);
            }
            meet = scan_sum(meet);
            [[unroll]] for (uint r = 0u; r < R; r++) {
                uint p = team + r * TEAMS;
                float add = p < P ? scan_v[i * P + p] : 0.0, old = 0.0, sum = 0.0;
                [[unroll]] for (uint j = 0u; j < J; j++)
                    sum += DOP_SUM(s[r * J + j], q[j]);
#if DELTA
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
${SAVE_EACH}        }
${AFTER}    }
#if COPIES
    if (rows - begin < COPIES) // every row has left its state
        return;
#endif
${SAVE}}
