// Linear recurrences of many rows in chunks of ROWS, on matrix units (GL_NV_cooperative_matrix, 16 x 16 x 16, f16 factors
// and f32 sums): the duality of Mamba-2 (arXiv 2405.21060) and, for the delta rule, the triangular system of gated DeltaNet
// (arXiv 2412.06464).  With S the state before the chunk, d(j, i) the decays of rows j + 1 to i and d(i) those of the chunk's
// first row to row i:
//   what row i adds     x_i = beta_i (v_i - d(i) S k_i - sum over j < i of d(j, i) (k_i k_j) x_j), or v_i without beta
//   its result          y_i = d(i) S q_i + sum over j <= i of d(j, i) (q_i k_j) x_j
//   the state after it  d(last) S + sum over j of d(j, last) x_j k_j^T
// Decays are sums of logarithms, whose differences are never above zero, so that nothing overflows.
//
// One workgroup makes head h; q and k lie in shared memory as halves.  A subgroup has 16 columns of v, x and y, and of the
// state as [N, P] those columns and NB blocks of 16 rows, which stay in registers as sums; SPLIT subgroups share columns.
// What is a sum and becomes a factor passes through the subgroup's own piece of shared memory (the NV form just converts it).
// The system is solved by blocks of 16 rows: those on the diagonal are inverted in f32, each column by an invocation.
#define P ${P}u
#define N ${N}u
#define ROWS ${ROWS}u
#define SPLIT ${SPLIT}u
#define SUBGROUPS (WG / SG)
#define RB (ROWS / 16u)        // blocks of rows,
#define CB (P / 16u)           // of columns,
#define NB (N / (16u * SPLIT)) // of the state's rows that a subgroup has
#define BLOCKS (RB * (RB + 1u) / 2u) // of a lower triangle
#define LK (N / 8u + 1u)       // words of eight halves from one row of q or k to the next, padded against bank conflicts
#define LM (ROWS / 8u + 1u)    // the same of the chunk's products
#define LV (P + 4u)            // floats from one row of v to the next
#define PIECES ${PIECES}u      // matrices that pass through a piece at once,
#define LP (PIECES * 2u + 1u)  // side by side
#define Q_AT 0u
#define K_AT (ROWS * LK)
#define QK_AT (2u * ROWS * LK) // d(j, i) (q_i k_j), zero where j > i
#define KK_AT (QK_AT + ROWS * LM) // -beta_i d(j, i) (k_i k_j); on the diagonal inverses, by columns
#define PIECE_AT (${PIECE_AT}u + sub * 16u * LP)
#define EL (256u / SG) // elements of a matrix of sums that an invocation has
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define HALF fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define DOP_SYNC subgroupMemoryBarrierShared(), subgroupBarrier()
shared uvec4 dop_s[${WORDS}u];   // q, k, products, pieces
shared float scan_v[${VALUES}u]; // v, then results; matrices of the state on their way from and to memory
shared float scan_log[ROWS], scan_from[ROWS], scan_to[ROWS]; // log2 of d(i); d(i), d(j, last)
shared float scan_beta[ROWS], scan_number[16];
#if ${DELTA}
shared float scan_solve[RB * 256u]; // the system's blocks on the diagonal
#endif
${DECLS}
// Four values of q or k, or of v, by their number in [ROWS, N] or [ROWS, P].
void scan_put(uint at, uint i, vec4 x)
{
    uint word = at + i / (N / 4u) * LK + i % (N / 4u) / 2u;
    dop_s[word][i % 2u * 2u] = packHalf2x16(x.xy);
    dop_s[word][i % 2u * 2u + 1u] = packHalf2x16(x.zw);
}
#define DOP_SQ_PUT(i, x) scan_put(Q_AT, i, x)
#define DOP_SK_PUT(i, x) scan_put(K_AT, i, x)
void scan_put_v(uint i, vec4 x)
{
    uint at = i / (P / 4u) * LV + i % (P / 4u) * 4u;
    scan_v[at] = x.x;
    scan_v[at + 1u] = x.y;
    scan_v[at + 2u] = x.z;
    scan_v[at + 3u] = x.w;
}

// log2 of a decay, also of one so close to 1 that the device's own logarithm has no digits of it (by the series of the area
// hyperbolic tangent); of 0, a number that is small enough.
float scan_log2(float x)
{
    float z = (x - 1.0) / (x + 1.0), s = z * z;
    float near = 2.88539008 * z * (1.0 + s * (0.333333333 + s * (0.2 + s * (0.142857143 + s * 0.111111111))));
    return x > 0.7 ? near : max(log2(x), -200.0);
}

// A matrix of sums as a factor.
#if ${CONVERTS}
#define DOP_FACTOR(to, x) to = HALF(x);
#else
#define DOP_FACTOR(to, x)                                      \
    {                                                          \
        HALF small = HALF(x);                                   \
        coopMatStoreNV(small, dop_s, PIECE_AT, LP, false);      \
        DOP_SYNC;                                              \
        coopMatLoadNV(to, dop_s, PIECE_AT, LP, false);         \
        subgroupBarrier();                                     \
    }
#endif
// m, each row times the value of it in `by`.
#define DOP_SCALE(m, by)                                       \
    {                                                          \
        FRAG rows_by;                                          \
        coopMatLoadNV(rows_by, by, rb * 16u, 0u, true);        \
        [[unroll]] for (uint e = 0u; e < EL; e++)              \
            m[e] *= rows_by[e];                                \
    }

// The products of a chunk's rows with one another, a block to a subgroup.
void scan_products(uint sub)
{
    for (uint b = sub; b < BLOCKS * (${DELTA}u + 1u); b += SUBGROUPS) {
        bool keys = b >= BLOCKS;
        uint i = 0u, j = keys ? b - BLOCKS : b;
        while (j > i)
            j -= ++i;
        FRAG m = FRAG(0.0), row_log, column_log, row, column;
        [[unroll]] for (uint n = 0u; n < N / 16u; n++) {
            HALF x, k;
            coopMatLoadNV(x, dop_s, (keys ? K_AT : Q_AT) + i * 16u * LK + n * 2u, LK, false);
            coopMatLoadNV(k, dop_s, K_AT + j * 16u * LK + n * 2u, LK, true);
            m = coopMatMulAddNV(x, k, m);
        }
        coopMatLoadNV(row_log, scan_log, i * 16u, 0u, true);
        coopMatLoadNV(column_log, scan_log, j * 16u, 0u, false);
        coopMatLoadNV(row, scan_number, 0u, 0u, true);
        coopMatLoadNV(column, scan_number, 0u, 0u, false);
        float least = i != j ? -16.0 : keys ? 1.0 : 0.0; // of row - column
        [[unroll]] for (uint e = 0u; e < EL; e++)
            m[e] = row[e] - column[e] >= least ? m[e] * exp2(min(row_log[e] - column_log[e], 0.0)) : 0.0;
#if ${DELTA}
        if (keys) {
            FRAG beta;
            coopMatLoadNV(beta, scan_beta, i * 16u, 0u, true);
            [[unroll]] for (uint e = 0u; e < EL; e++)
                m[e] *= -beta[e];
        }
        if (keys && i == j)
            coopMatStoreNV(m, scan_solve, i * 256u, 16u, false);
        else
#endif
        {
            HALF small = HALF(m);
            coopMatStoreNV(small, dop_s, (keys ? KK_AT : QK_AT) + i * 16u * LM + j * 2u, LM, false);
        }
    }
}

#if ${DELTA}
// A column of the inverse of a block on the diagonal, whose rows follow from those before them.
void scan_invert(uint at)
{
    uint b = at / 16u, c = at % 16u;
    float x[16];
    [[unroll]] for (uint i = 0u; i < 16u; i++)
        x[i] = i == c ? 1.0 : 0.0;
    [[unroll]] for (uint j = 0u; j < 15u; j++)
        [[unroll]] for (uint i = j + 1u; i < 16u; i++)
            x[i] += scan_solve[b * 256u + i * 16u + j] * x[j];
    [[unroll]] for (uint i = 0u; i < 2u; i++)
        dop_s[KK_AT + at * LM + b * 2u + i] =
            uvec4(packHalf2x16(vec2(x[i * 8u], x[i * 8u + 1u])), packHalf2x16(vec2(x[i * 8u + 2u], x[i * 8u + 3u])),
                  packHalf2x16(vec2(x[i * 8u + 4u], x[i * 8u + 5u])), packHalf2x16(vec2(x[i * 8u + 6u], x[i * 8u + 7u])));
}
#endif

void main()
{
    uint h = DOP_GROUP.x, g = ${KEY_HEAD};
${ROWS_OF}    uint lane = gl_LocalInvocationIndex % SG, sub = gl_LocalInvocationIndex / SG;
    uint p0 = sub % CB * 16u, n0 = sub / CB * NB * 16u;
    FRAG s[NB];
${FROM}    [[unroll]] for (uint b = 0u; b < NB; b++) {
        [[unroll]] for (uint i = lane; i < 64u; i += SG) {
            uint p = p0 + i / 4u, n = n0 + b * 16u + i % 4u * 4u, at = sub * 256u + i * 4u;
            vec4 x = ${LOAD};
            scan_v[at] = x.x;
            scan_v[at + 1u] = x.y;
            scan_v[at + 2u] = x.z;
            scan_v[at + 3u] = x.w;
        }
        DOP_SYNC;
        coopMatLoadNV(s[b], scan_v, sub * 256u, 16u, true);
        subgroupBarrier();
    }
    for (uint i = gl_LocalInvocationIndex; i < 16u; i += WG)
        scan_number[i] = float(i);
    for (uint first = begin; first < rows; first += ROWS) {
        uint count = min(ROWS, rows - first);
        barrier();
${STAGE}        barrier();
        scan_products(sub);
#if ${DELTA}
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < ROWS; i += WG)
            scan_invert(i);
#endif
        // y and u: S q and S k, which become what a row adds.
        FRAG y[RB], u[RB];
        [[unroll]] for (uint rb = 0u; rb < RB; rb++)
            y[rb] = u[rb] = FRAG(0.0);
        [[unroll]] for (uint b0 = 0u; b0 < NB; b0 += PIECES) {
            HALF part[PIECES];
#if ${CONVERTS}
            [[unroll]] for (uint i = 0u; i < PIECES && b0 + i < NB; i++)
                part[i] = HALF(s[b0 + i]);
#else
            [[unroll]] for (uint i = 0u; i < PIECES && b0 + i < NB; i++) {
                HALF small = HALF(s[b0 + i]);
                coopMatStoreNV(small, dop_s, PIECE_AT + i * 2u, LP, false);
            }
            DOP_SYNC;
            [[unroll]] for (uint i = 0u; i < PIECES && b0 + i < NB; i++)
                coopMatLoadNV(part[i], dop_s, PIECE_AT + i * 2u, LP, false);
            subgroupBarrier();
#endif
            [[unroll]] for (uint i = 0u; i < PIECES && b0 + i < NB; i++)
                [[unroll]] for (uint rb = 0u; rb < RB; rb++) {
                    HALF x;
                    uint at = rb * 16u * LK + n0 / 8u + (b0 + i) * 2u;
                    coopMatLoadNV(x, dop_s, Q_AT + at, LK, false);
                    y[rb] = coopMatMulAddNV(x, part[i], y[rb]);
#if ${DELTA}
                    coopMatLoadNV(x, dop_s, K_AT + at, LK, false);
                    u[rb] = coopMatMulAddNV(x, part[i], u[rb]);
#endif
                }
        }
        [[unroll]] for (uint rb = 0u; rb < RB; rb++) {
            FRAG v;
            coopMatLoadNV(v, scan_v, rb * 16u * LV + p0, LV, false);
            DOP_SCALE(y[rb], scan_from)
#if ${DELTA}
            DOP_SCALE(u[rb], scan_from)
            [[unroll]] for (uint e = 0u; e < EL; e++)
                v[e] -= u[rb][e];
            DOP_SCALE(v, scan_beta)
#endif
            u[rb] = v;
        }
        barrier();
        HALF x[RB];
        [[unroll]] for (uint rb = 0u; rb < RB; rb++) {
#if ${DELTA}
            HALF m;
            [[unroll]] for (uint c = 0u; c < rb; c++) {
                coopMatLoadNV(m, dop_s, KK_AT + rb * 16u * LM + c * 2u, LM, false);
                u[rb] = coopMatMulAddNV(m, x[c], u[rb]);
            }
            DOP_FACTOR(x[rb], u[rb])
            coopMatLoadNV(m, dop_s, KK_AT + rb * 16u * LM + rb * 2u, LM, true);
            u[rb] = coopMatMulAddNV(m, x[rb], FRAG(0.0));
#endif
            DOP_FACTOR(x[rb], u[rb])
        }
        if (sub < CB)
            [[unroll]] for (uint rb = 0u; rb < RB; rb++)
                [[unroll]] for (uint c = 0u; c <= rb; c++) {
                    HALF m;
                    coopMatLoadNV(m, dop_s, QK_AT + rb * 16u * LM + c * 2u, LM, false);
                    y[rb] = coopMatMulAddNV(m, x[c], y[rb]);
                }
        [[unroll]] for (uint rb = 0u; rb < RB; rb++) {
            DOP_SCALE(u[rb], scan_to)
            DOP_FACTOR(x[rb], u[rb])
        }
        float all = scan_from[ROWS - 1u];
        [[unroll]] for (uint b = 0u; b < NB; b++) {
            [[unroll]] for (uint e = 0u; e < EL; e++)
                s[b][e] *= all;
            [[unroll]] for (uint rb = 0u; rb < RB; rb++) {
                HALF k;
                coopMatLoadNV(k, dop_s, K_AT + rb * 16u * LK + n0 / 8u + b * 2u, LK, true);
                s[b] = coopMatMulAddNV(k, x[rb], s[b]);
            }
        }
#if ${SPLIT} > 1
        [[unroll]] for (uint part = 1u; part < SPLIT; part++) {
            if (sub / CB == part)
                [[unroll]] for (uint rb = 0u; rb < RB; rb++)
                    coopMatStoreNV(y[rb], scan_v, rb * 16u * LV + p0, LV, false);
            barrier();
            if (sub < CB)
                [[unroll]] for (uint rb = 0u; rb < RB; rb++) {
                    FRAG other;
                    coopMatLoadNV(other, scan_v, rb * 16u * LV + p0, LV, false);
                    [[unroll]] for (uint e = 0u; e < EL; e++)
                        y[rb][e] += other[e];
                }
            barrier();
        }
#endif
        if (sub < CB)
            [[unroll]] for (uint rb = 0u; rb < RB; rb++)
                coopMatStoreNV(y[rb], scan_v, rb * 16u * LV + p0, LV, false);
${AFTER}    }
    barrier();
    [[unroll]] for (uint b = 0u; b < NB; b++) {
        coopMatStoreNV(s[b], scan_v, sub * 256u, 16u, true);
        DOP_SYNC;
        [[unroll]] for (uint i = lane; i < 64u; i += SG) {
            uint p = p0 + i / 4u, n = n0 + b * 16u + i % 4u * 4u, at = sub * 256u + i * 4u, c = (h * P + p) * N + n;
            vec4 x = vec4(scan_v[at], scan_v[at + 1u], scan_v[at + 2u], scan_v[at + 3u]);
${SAVE}        }
        subgroupBarrier();
    }
}
