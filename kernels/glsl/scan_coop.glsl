// Chunks of a recurrence (gen_scan.c) in fragments of 16 x 16, f16 factors and f32 sums (GL_NV_cooperative_matrix). Decays
// are sums of logarithms, whose differences are never positive, so that nothing overflows.
//
// A factor is the sum of two halves, the second of which is the rounding error of the first, and a product is three products:
// otherwise errors of f16 would propagate through several products and the state.
//
// One workgroup computes head h; q and k are in shared memory. A subgroup has 16 columns of v, x and y. Of the state as [N,
// P] it has those columns and NB blocks of 16 rows, which stay in registers as accumulators; SPLIT subgroups share columns.
// Subgroups from WORKERS on have none of these: they help to load and store, and compute the products of a chunk's rows with
// one another. An accumulator that becomes a factor passes through the subgroup's own piece of shared memory (the NV form
// converts it directly). The system is solved by blocks of 16 rows: diagonal blocks are inverted in f32, one column per
// invocation.
#define SUBGROUPS (WG / SG)
#define RB (ROWS / 16u)        // blocks of rows
#define CB (P / 16u)           // blocks of columns
#define WORKERS (CB * SPLIT)
#define NB (N / (16u * SPLIT)) // blocks of state rows per subgroup
#define BLOCKS (RB * (RB + 1u) / 2u) // blocks of a lower triangle
#define LK (N / 8u + 1u)       // row stride of q or k in words of eight halves, padded against bank conflicts
#define LM (ROWS / 8u + 1u)    // row stride of the chunk's products in words of eight halves
#define LV (P + 4u)            // row stride of v in floats
#define LP (PIECES * 4u + 1u)  // row stride in words of the factors that pass through a piece at once: two adjacent fragments each
#define Q_AT 0u
#define K_AT (ROWS * LK)
#define QK_AT (4u * ROWS * LK) // d(j, i) (q_i k_j), zero where j > i
#define KK_AT (QK_AT + ROWS * LM) // -beta_i d(j, i) (k_i k_j); on the diagonal inverses, by columns
#define REST (2u * ROWS * LK)  // offset from halves of q or k to their rounding errors
#define REST_M ((DELTA + 1u) * ROWS * LM) // offset from halves of products to their rounding errors
#define PIECE_AT (PIECES_AT + sub * 16u * LP)
#define EL (256u / SG) // elements of an accumulator per invocation
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define HALF fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define DOP_SYNC() subgroupMemoryBarrierShared(), subgroupBarrier()
shared uvec4 dop_s[WORDS];   // q, k, products, pieces; pieces also hold the state when it is loaded and stored
shared float scan_v[ROWS * LV]; // v, later results
shared float scan_log[ROWS], scan_from[ROWS], scan_to[ROWS]; // log2 of d(i); d(i), d(j, last)
shared float scan_beta[ROWS], scan_number[16];
#if DELTA
shared float scan_solve[RB * 256u]; // diagonal blocks of the system
#endif
// Returns the part of a number that a half holds exactly. Computed by a mask, because a driver may drop a conversion to half
// and back, which would make the rest always 0.
float scan_most(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0xffffe000u); }
vec2 scan_most(vec2 x) { return vec2(scan_most(x.x), scan_most(x.y)); }
// Store four values of q or k, or of v, by their index in [ROWS, N] or [ROWS, P].
void scan_put(uint at, uint i, vec4 x)
{
    uint word = at + i / (N / 4u) * LK + i % (N / 4u) / 2u;
    vec2 a = scan_most(x.xy), b = scan_most(x.zw);
    dop_s[word][i % 2u * 2u] = packHalf2x16(a);
    dop_s[word][i % 2u * 2u + 1u] = packHalf2x16(b);
    dop_s[word + REST][i % 2u * 2u] = packHalf2x16(x.xy - a);
    dop_s[word + REST][i % 2u * 2u + 1u] = packHalf2x16(x.zw - b);
}
#define DOP_SQ_PUT(i, x) scan_put(Q_AT, i, x)
#define DOP_SK_PUT(i, x) scan_put(K_AT, i, x)
#define DOP_SV_PUT(i, x) scan_put_v(i, row < count ? x : vec4(0.0))
void scan_put_v(uint i, vec4 x)
{
    uint at = i / (P / 4u) * LV + i % (P / 4u) * 4u;
    scan_v[at] = x.x;
    scan_v[at + 1u] = x.y;
    scan_v[at + 2u] = x.z;
    scan_v[at + 3u] = x.w;
}

// Returns log2 of a decay. Close to 1, where the device's logarithm loses all digits, it is the series of the area hyperbolic
// tangent. For 0 it is a sufficiently small number.
float scan_log2(float x)
{
    float z = (x - 1.0) / (x + 1.0), s = z * z;
    float near = 2.88539008 * z * (1.0 + s * (0.333333333 + s * (0.2 + s * (0.142857143 + s * 0.111111111))));
    return x > 0.7 ? near : max(log2(x), -200.0);
}

struct scan_factor { HALF most, rest; };
// Converts an accumulator to the two matrices of a factor, which cannot be multiplied yet.
scan_factor scan_halves(FRAG x)
{
    scan_factor f;
    FRAG most = x;
    [[unroll]] for (uint e = 0u; e < EL; e++) {
        most[e] = scan_most(x[e]);
        x[e] -= most[e];
    }
    f.most = HALF(most);
    f.rest = HALF(x);
    return f;
}
#define DOP_LOAD(f, at, gap, stride, columns)                         \
    coopMatLoadNV(f.most, dop_s, at, stride, columns);                 \
    coopMatLoadNV(f.rest, dop_s, (at) + (gap), stride, columns);
#define DOP_STORE(f, at, gap, stride)                                  \
    coopMatStoreNV(f.most, dop_s, at, stride, false);                  \
    coopMatStoreNV(f.rest, dop_s, (at) + (gap), stride, false);
#define DOP_MULTIPLY(sum, a, b)                                        \
    sum = coopMatMulAddNV(a.rest, b.most, sum);                        \
    sum = coopMatMulAddNV(a.most, b.rest, sum);                        \
    sum = coopMatMulAddNV(a.most, b.most, sum);
// Adds the product of a factor in shared memory and another factor.
#define DOP_TIMES(sum, at, gap, stride, columns, b)                    \
    {                                                                  \
        scan_factor a;                                                 \
        DOP_LOAD(a, at, gap, stride, columns)                          \
        DOP_MULTIPLY(sum, a, b)                                        \
    }
// Converts an accumulator to a factor of products; in the KHR form it passes through the subgroup's piece of shared memory.
#if CONVERTS
#define DOP_FACTOR(to, x) to = scan_halves(x);
#else
#define DOP_FACTOR(to, x)                                              \
    {                                                                  \
        scan_factor halves = scan_halves(x);                           \
        DOP_STORE(halves, PIECE_AT, 2u, LP)                            \
        DOP_SYNC();                                                    \
        DOP_LOAD(to, PIECE_AT, 2u, LP, false)                          \
        subgroupBarrier();                                             \
    }
#endif
// Multiplies each row of m by the row's value in `by`.
#define DOP_SCALE(m, by)                                       \
    {                                                          \
        FRAG rows_by;                                          \
        coopMatLoadNV(rows_by, by, rb * 16u, 0u, true);        \
        [[unroll]] for (uint e = 0u; e < EL; e++)              \
            m[e] *= rows_by[e];                                \
    }

// Computes the products of a chunk's rows with one another, one block per subgroup, the last one first.
void scan_products(uint number)
{
    for (uint b = number; b < BLOCKS * (DELTA + 1u); b += SUBGROUPS) {
        bool keys = b >= BLOCKS;
        uint i = 0u, j = keys ? b - BLOCKS : b;
        while (j > i)
            j -= ++i;
        FRAG m = FRAG(0.0), row_log, column_log, row, column;
        [[unroll]] for (uint n = 0u; n < N / 16u; n++) {
            scan_factor x, k;
            DOP_LOAD(x, (keys ? K_AT : Q_AT) + i * 16u * LK + n * 2u, REST, LK, false)
            DOP_LOAD(k, K_AT + j * 16u * LK + n * 2u, REST, LK, true)
            DOP_MULTIPLY(m, x, k)
        }
        coopMatLoadNV(row_log, scan_log, i * 16u, 0u, true);
        coopMatLoadNV(column_log, scan_log, j * 16u, 0u, false);
        coopMatLoadNV(row, scan_number, 0u, 0u, true);
        coopMatLoadNV(column, scan_number, 0u, 0u, false);
        float least = i != j ? -16.0 : keys ? 1.0 : 0.0; // minimum of row - column
        [[unroll]] for (uint e = 0u; e < EL; e++)
            m[e] = row[e] - column[e] >= least ? m[e] * exp2(min(row_log[e] - column_log[e], 0.0)) : 0.0;
#if DELTA
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
            scan_factor halves = scan_halves(m);
            DOP_STORE(halves, (keys ? KK_AT : QK_AT) + i * 16u * LM + j * 2u, REST_M, LM)
        }
    }
}

#if DELTA
// Computes a column of the inverse of a diagonal block by forward substitution.
void scan_invert(uint at)
{
    uint b = at / 16u, c = at % 16u;
    float x[16];
    [[unroll]] for (uint i = 0u; i < 16u; i++)
        x[i] = i == c ? 1.0 : 0.0;
    [[unroll]] for (uint j = 0u; j < 15u; j++)
        [[unroll]] for (uint i = j + 1u; i < 16u; i++)
            x[i] += scan_solve[b * 256u + i * 16u + j] * x[j];
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        uint word = KK_AT + at * LM + b * 2u + i / 4u;
        vec2 two = vec2(x[i * 2u], x[i * 2u + 1u]), most = scan_most(two);
        dop_s[word][i % 4u] = packHalf2x16(most);
        dop_s[word + REST_M][i % 4u] = packHalf2x16(two - most);
    }
}
#endif
