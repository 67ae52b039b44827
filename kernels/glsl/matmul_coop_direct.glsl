// Weights go from memory to the registers of the subgroup that multiplies them, and only activations go through shared memory.
// For that the kernel fills the elements of matrices itself, which lie in pairs (DOP_CAP_coop_pairs): with g = lane / 4 and
// t = lane % 4, a lane has of both factors values 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of the depth, first those of token or row g,
// then those of g + 8.  It does not matter which values of the depth these are, as long as they are the same in both factors: of
// 32 values a lane loads 8 t to 8 t + 7 at once, and uses four of them in each of two products.
#define DOP_B_AT${P}                                                                                                \
    uint row = ${PIECE_ROW}, m = row / BN, n = min(n0 + row % BN, ${N}u - 1u), c = k0 + (${PIECE_COLUMN}) * ${PIECE}u;
#if ${DECODES}
#define RAW${P} dop_raw8
#define DOP_TAKE_B${P}(RAW, K) dop_w8_${TYPE}(RAW, (K) + t * 8u)
#define DOP_B${P}(M, J, C)                                                                                          \
    dop_w8load_${TYPE}(U32(pieces[M].p), pieces[M].at + (J) * 8u * STEP + kb + (C), pieces[M].aux)
#else
#define RAW${P} uvec4
#define DOP_TAKE_B${P}(RAW, K) dop_w8_${TYPE}(dop_raw8(RAW, uvec4(0u)), 0u)
#define DOP_B${P}(M, J, C) dop_ldw4(U32(rows[M]), (J) * STEP + (C) / 8u)
#endif
// By measurement (tests/bench/RESULTS.md) one form is faster where the ends of the loop are variables, and the other one where
// they are constants.
#if ${SHARED_DEPTH}
#define DOP_A${P}(I, C) dop_ldc4(U32(${ACT}), (first + (I) * (WG / 8u)) * COLUMNS + eight + (${START}u + at + (C)) / 8u)
#define DOP_MOVE_A${P} at = next;
#define DOP_MOVE_B${P} rows[m] = dop_behind(begin[m], (next - ${FROM_K}) / 8u);
#else
#define DOP_A${P}(I, C) dop_ldc4(U32(tokens), (I) * (WG / 8u) * COLUMNS + (C) / 8u)
#define DOP_MOVE_A${P} tokens = dop_behind(tokens, (next - k0) / 8u);
#define DOP_MOVE_B${P} rows[m] = dop_behind(rows[m], (next - k0) / 8u);
#endif
#define DOP_LOAD_A${P}(C)                                                                                            \
    [[unroll]] for (uint i = 0u; i < NA; i++)                                                                       \
        ra[i] = DOP_A${P}(i, C);
#define DOP_STORE_A${P}(AT)                                                                                          \
    [[unroll]] for (uint i = 0u; i < NA; i++)                                                                       \
        dop_s[AT + put + i * (WG / 8u) * 4u] = ra[i];
#define DOP_LOAD_B${P}(R, C)                                                                                         \
    [[unroll]] for (uint m = 0u; m < M; m++)                                                                        \
        [[unroll]] for (uint j = 0u; j < WN / 8u; j++)                                                              \
            rb[R][m * (WN / 8u) + j] = DOP_B${P}(m, j, C);
#define DOP_MULTIPLY${P}(R, AT, K)                                                                                   \
    {                                                                                                               \
        FRAG_B b[M * FN * 2u];                                                                                      \
        [[unroll]] for (uint f = 0u; f < M * FN * 2u; f++) {                                                        \
            uvec4 x = DOP_TAKE_B${P}(rb[R][f / 2u * 2u], K), y = DOP_TAKE_B${P}(rb[R][f / 2u * 2u + 1u], K);         \
            b[f] = FRAG_B(0.0);                                                                                     \
            DOP_PAIRS(b[f], x, y, f % 2u)                                                                           \
        }                                                                                                           \
        [[unroll]] for (uint i = 0u; i < FM; i++) {                                                                 \
            uvec4 x = dop_s[AT + get + i * MM * 4u], y = dop_s[AT + get + (i * MM + 8u) * 4u];                      \
            [[unroll]] for (uint s = 0u; s < 2u; s++) {                                                             \
                FRAG_A a = FRAG_A(0.0);                                                                             \
                DOP_PAIRS(a, x, y, s)                                                                               \
                [[unroll]] for (uint m = 0u; m < M; m++)                                                            \
                    [[unroll]] for (uint j = 0u; j < FN; j++)                                                       \
                        acc[(m * FM + i) * FN + j] =                                                                \
                            coopMatMulAddNV(a, b[(m * FN + j) * 2u + s], acc[(m * FM + i) * FN + j]);               \
            }                                                                                                       \
        }                                                                                                           \
    }
${FIND}void dop_part${P}(uint wg, uint t0)
{
    const uint M = ${M}u, HALF = BK / 2u, PANEL = BM * 4u; // a panel: 32 of the depth, 64 bytes of each token
    const uint NA = BM * HALF / 8u / WG, COLUMNS = ${COLUMNS}u;
    const uint STEP = ${STRIDE}u * 8u; // from one group of eight rows to the next
    uint n0 = wg * BN, lane = gl_LocalInvocationIndex;
    uint sg = lane / SG, wm = sg / (BN / WN), wn = sg % (BN / WN), g = lane % SG / 4u, t = lane % 4u;
    // Eight lanes load 128 bytes of a token, and store 64 of two tokens: all banks of shared memory.
    uint token = lane / 16u * 2u + lane / 4u % 2u, eight = lane / 8u % 2u * 4u + t;
    uint put = eight / 4u * PANEL + token * 4u + t, get = (wm * WM + g) * 4u + t;
    dop_check_pairs();
    FRAG acc[M * FM * FN];
    [[unroll]] for (uint i = 0u; i < M * FM * FN; i++)
        acc[i] = FRAG(0.0);
    // Where a lane's values of the first eight rows of its subgroup are, which are all there or none; and which token it moves first.
    uvec2 begin[M], rows[M];
    [[unroll]] for (uint m = 0u; m < M; m++) {
        begin[m] = dop_behind(dop_piece_of${P}(min(n0 + wn * WN, ${N}u - WN), (m * BN + g) * (DEEP / 8u)).p,
                              t + ${FROM_K} / 8u);
        rows[m] = begin[m];
    }
#if ${DECODES}
    uint kb = ${FROM_K};
    dop_piece pieces[M];
    [[unroll]] for (uint m = 0u; m < M; m++) {
        pieces[m] = dop_piece_of${P}(min(n0 + wn * WN, ${N}u - WN), (m * BN + g) * (DEEP / 8u));
        pieces[m].at += t * 8u;
    }
#endif
    uint first = t0 + token, at = ${FROM_K};
    uvec2 tokens = dop_behind(uvec2(${ACT}), first * COLUMNS + eight + (${START}u + at) / 8u);
    uvec4 ra[NA];
    RAW${P} rb[2][M * (WN / 8u)];
    DOP_LOAD_A${P}(0u)
    DOP_LOAD_B${P}(0, 0u)
    DOP_LOAD_B${P}(1, 32u)
    DOP_STORE_A${P}(0u)
    DOP_LOAD_A${P}(HALF)
    barrier();
    // Several steps that a driver makes one of are too long for the cache of instructions.
    [[dont_unroll]] for (uint k0 = ${FROM_K}; k0 < ${TO_K}; k0 += BK) {
        // While one half of the activations is multiplied, the other one is stored.  The last step loads its own values again.
        const uint next = min(k0 + BK, ${TO_K} - BK);
        DOP_MOVE_A${P}
        DOP_STORE_A${P}(2u * PANEL)
        DOP_LOAD_A${P}(0u)
        DOP_MULTIPLY${P}(0, 0u, k0)
        DOP_LOAD_B${P}(0, HALF)
        DOP_MULTIPLY${P}(1, PANEL, k0 + 32u)
        DOP_LOAD_B${P}(1, HALF + 32u)
        barrier();
        [[unroll]] for (uint m = 0u; m < M; m++)
            DOP_MOVE_B${P}
#if ${DECODES}
        kb = next;
#endif
        DOP_STORE_A${P}(0u)
        DOP_LOAD_A${P}(HALF)
        DOP_MULTIPLY${P}(0, 2u * PANEL, k0 + HALF)
        DOP_LOAD_B${P}(0, 0u)
        DOP_MULTIPLY${P}(1, 3u * PANEL, k0 + HALF + 32u)
        DOP_LOAD_B${P}(1, 32u)
        barrier();
    }
