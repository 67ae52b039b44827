// Chunks of a recurrence (gen_scan.c) in fragments of 16 x 16, f16 factors and f32 sums (GL_NV_cooperative_matrix).  Decays are sums of
// logarithms, whose differences are never above zero, so that nothing overflows.
//
// A factor is the sum of two halves, the second of which is what the first one lost, and a product is three: errors of f16
// would pass through several products and the state.
//
// One workgroup makes head h; q and k lie in shared memory.  A subgroup has 16 columns of v, x and y, and of the state as
// [N, P] those columns and NB blocks of 16 rows, which stay in registers as sums; SPLIT subgroups share columns.  Subgroups
// from WORKERS on have none of these: they help to load and store, and make the products of a chunk's rows with one another.
// What is a sum and becomes a factor passes through the subgroup's own piece of shared memory (the NV form just converts it).
// The system is solved by blocks of 16 rows: those on the diagonal are inverted in f32, each column by an invocation.
#define SUBGROUPS (WG / SG)
#define RB (ROWS / 16u)        // blocks of rows,
#define CB (P / 16u)           // of columns,
#define WORKERS (CB * SPLIT)
#define NB (N / (16u * SPLIT)) // of the state's rows that a subgroup has
#define BLOCKS (RB * (RB + 1u) / 2u) // of a lower triangle
#define LK (N / 8u + 1u)       // words of eight halves from one row of q or k to the next, padded against bank conflicts
#define LM (ROWS / 8u + 1u)    // the same of the chunk's products
#define LV (P + 4u)            // floats from one row of v to the next
#define LP (PIECES * 4u + 1u)  // words of a row of the factors that pass through a piece at once: two matrices each, side by side
#define Q_AT 0u
#define K_AT (ROWS * LK)
#define QK_AT (4u * ROWS * LK) // d(j, i) (q_i k_j), zero where j > i
#define KK_AT (QK_AT + ROWS * LM) // -beta_i d(j, i) (k_i k_j); on the diagonal inverses, by columns
#define REST (2u * ROWS * LK)  // from halves of q or k to what they lost,
#define REST_M ((DELTA + 1u) * ROWS * LM) // and from those of products
#define PIECE_AT (PIECES_AT + sub * 16u * LP)
#define EL (256u / SG) // elements of a matrix of sums that an invocation has
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define HALF fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define DOP_SYNC() subgroupMemoryBarrierShared(), subgroupBarrier()
shared uvec4 dop_s[WORDS];   // q, k, products, pieces; in these also the state on its way from and to memory
shared float scan_v[ROWS * LV]; // v, then results
shared float scan_log[ROWS], scan_from[ROWS], scan_to[ROWS]; // log2 of d(i); d(i), d(j, last)
shared float scan_beta[ROWS], scan_number[16];
#if DELTA
shared float scan_solve[RB * 256u]; // the system's blocks on the diagonal
#endif
// The part of a number that a half holds exactly.  It is made by a mask, because a driver may drop a conversion to half and back, and
// then the rest would always be 0.
float scan_most(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0xffffe000u); }
vec2 scan_most(vec2 x) { return vec2(scan_most(x.x), scan_most(x.y)); }
// Four values of q or k, or of v, by their number in [ROWS, N] or [ROWS, P].
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

// log2 of a decay.  Close to 1, where the device's logarithm has lost all digits, it is the series of the area hyperbolic tangent.
// For 0 it is a number that is small enough.
float scan_log2(float x)
{
    float z = (x - 1.0) / (x + 1.0), s = z * z;
    float near = 2.88539008 * z * (1.0 + s * (0.333333333 + s * (0.2 + s * (0.142857143 + s * 0.111111111))));
    return x > 0.7 ? near : max(log2(x), -200.0);
}

struct scan_factor { HALF most, rest; };
// A matrix of sums as the two matrices of a factor, which cannot be multiplied with yet.
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
// Adds the product of a factor in shared memory and of another one.
#define DOP_TIMES(sum, at, gap, stride, columns, b)                    \
    {                                                                  \
        scan_factor a;                                                 \
        DOP_LOAD(a, at, gap, stride, columns)                          \
        DOP_MULTIPLY(sum, a, b)                                        \
    }
// Converts a matrix of sums to a factor of products; in the KHR form it passes through the subgroup's piece of shared memory.
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
// Multiplies each row of m with the row's value in `by`.
#define DOP_SCALE(m, by)                                       \
    {                                                          \
        FRAG rows_by;                                          \
        coopMatLoadNV(rows_by, by, rb * 16u, 0u, true);        \
        [[unroll]] for (uint e = 0u; e < EL; e++)              \
            m[e] *= rows_by[e];                                \
    }

// The products of a chunk's rows with one another, a block to a subgroup, the last one first.
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
        float least = i != j ? -16.0 : keys ? 1.0 : 0.0; // of row - column
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
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        uint word = KK_AT + at * LM + b * 2u + i / 4u;
        vec2 two = vec2(x[i * 2u], x[i * 2u + 1u]), most = scan_most(two);
        dop_s[word][i % 4u] = packHalf2x16(most);
        dop_s[word + REST_M][i % 4u] = packHalf2x16(two - most);
    }
}
#endif
