// Register-direct tiles: weights go from memory to the registers of the subgroup that multiplies them; only activations are staged.
// For that the kernel fills the elements of the weights' matrices itself, which lie in pairs (DOP_CAP_coop_pairs): with g = lane / 4
// and t = lane % 4, a lane has values 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of the depth, first those of column g, then those of g + 8.  It
// does not matter which values of the depth these are, as long as they are the same in both factors.  Of 32 floats a lane loads 8 t to
// 8 t + 7 at once, and uses four of them in each of two products.  Of quantized weights it has a whole unit of a step's four, the t-th,
// so that addresses, loads and scales serve 32 values; a quarter of the step's products takes eight of them.  Activations are stored in
// this order.  Nor does it matter which rows of weights are the columns: they are those with which the sums of a lane, in columns 2 t,
// 2 t + 1, 2 t + 8 and 2 t + 9 of each fragment, are of OWN rows side by side.
#define DOP_B_AT${P}                                                                                                \
    uint row = ${PIECE_ROW}, m = row / BN, n = min(n0 + row % BN, ${N}u - 1u), c = k0 + (${PIECE_COLUMN}) * ${PIECE}u;
#define DOP_PIECE_AT${P}(ROW) (${PIECE_AT}) // of the row's first values
#if ${DECODES}
#define RAW${P} ${RAW}
${RAW} dop_load_b${P}(dop_piece b, uint c)
{
${LOAD_B}}
uvec4 dop_take_b${P}(${RAW} r, uint j)
{
${TAKE_B}}
// Values 8 Q to 8 Q + 7 of unit I of those that a lane has.
#define DOP_TAKE_B${P}(R, I, Q) dop_take_b${P}(rb[0][I], Q)
#define DOP_LOAD_B${P}(R, C)
#define DOP_LOAD_UNITS${P}                                                                                           \
    [[unroll]] for (uint m = 0u; m < M; m++)                                                                        \
        [[unroll]] for (uint j = 0u; j < WN / 8u; j++)                                                              \
            rb[0][m * (WN / 8u) + j] = dop_load_b${P}(pieces[m], kb + j * 8u * STEP);
#else
#define RAW${P} uvec4
#define DOP_TAKE_B${P}(R, I, Q) dop_w8_${TYPE}(dop_raw8(rb[R][I], uvec4(0u)), 0u)
#define DOP_LOAD_B${P}(R, C)                                                                                         \
    [[unroll]] for (uint m = 0u; m < M; m++)                                                                        \
        [[unroll]] for (uint j = 0u; j < WN / 8u; j++)                                                              \
            rb[R][m * (WN / 8u) + j] = dop_ldw4(U32(rows[m]), j * STEP + (C) / 8u);
#define DOP_LOAD_UNITS${P}
#endif
// Piece I of the activations from column C of the step at `at` on.
#if ${WINDOWS}
dop_raw8 dop_load_a${P}(uint t, uint c) // t: row of the tile
{
${LOAD_A}}
#define DOP_A${P}(I, C) dop_load_a${P}(token + (I) * (WG / 8u), eight * 8u + at + (C)).a
#else
#define DOP_A${P}(I, C) dop_ldc4(U32(${ACT}), (first + (I) * (WG / 8u)) * COLUMNS + eight + (${START}u + at + (C)) / 8u)
#endif
#define DOP_STORE${P}(SLOT, I)                                                                                      \
    [[unroll]] for (uint c = 0u; c < 4u; c++)                                                                       \
        dop_s[(SLOT) + put + (I) * (WG / 8u) * LINE + c][t] = ra[I][c];
// Loads the activations of fragment I of tokens from shared memory, for both products.
#define DOP_FACTORS${P}(AT, I)                                                                                      \
    [[unroll]] for (uint s = 0u; s < 2u; s++)                                                                       \
        coopMatLoadNV(a[s], dop_s, (AT) + (wm * WM + (I) * MM) * LINE + s * 2u, LINE, false);
// What else is done beside the products of fragment i of tokens: storing activations, and loading those of the next step.
#define DOP_STORE_BESIDE${P}(SLOT)                                                                                  \
    [[unroll]] for (uint q = 0u; q < NA; q++)                                                                       \
        if (i == ${FIRST}u + q / ${EACH}u)                                                                          \
            DOP_STORE${P}(SLOT, q)
#define DOP_LOAD_BESIDE${P}(C)                                                                                      \
    if (i < NA)                                                                                                     \
        ra[i] = DOP_A${P}(i, C);
#define DOP_LOAD_ALL_BESIDE${P}(C)                                                                                  \
    if (i == 0u) {                                                                                                  \
        DOP_LOAD_UNITS${P}                                                                                           \
    }                                                                                                               \
    DOP_LOAD_BESIDE${P}(C)
// Multiplies quarter Q of a step.  LOADED: the first fragment of tokens is already in registers.
#define DOP_MULTIPLY${P}(R, AT, Q, LOADED, BESIDE)                                                                  \
    {                                                                                                               \
        FRAG_B b[M * FN * 2u];                                                                                      \
        [[unroll]] for (uint f = 0u; f < M * FN * 2u; f++) {                                                        \
            uvec4 x = DOP_TAKE_B${P}(R, f / 2u * 2u, Q);                                                            \
            uvec4 y = DOP_TAKE_B${P}(R, f / 2u * 2u + 1u, Q);                                                       \
            b[f] = FRAG_B(0.0);                                                                                     \
            DOP_PAIRS(b[f], x, y, f % 2u)                                                                           \
        }                                                                                                           \
        [[unroll]] for (uint i = 0u; i < FM; i++) {                                                                 \
            if (i > 0u || !LOADED) {                                                                                \
                DOP_FACTORS${P}(AT, i)                                                                              \
            }                                                                                                       \
            BESIDE                                                                                                  \
            [[unroll]] for (uint s = 0u; s < 2u; s++)                                                               \
                [[unroll]] for (uint m = 0u; m < M; m++)                                                            \
                    [[unroll]] for (uint j = 0u; j < FN; j++)                                                       \
                        acc[(m * FM + i) * FN + j] =                                                                \
                            coopMatMulAddNV(a[s], b[(m * FN + j) * 2u + s], acc[(m * FM + i) * FN + j]);            \
        }                                                                                                           \
    }
${FIND}void dop_part${P}(uint wg, uint t0)
{
    // Half of a step's activations, 64 values of each token; 16 bytes between two tokens keep their banks apart.
    const uint M = ${M}u, HALF = BK / 2u, LINE = HALF / 8u + 1u, SLOT = BM * LINE;
    const uint NA = BM * HALF / 8u / WG, COLUMNS = ${COLUMNS}u;
    const uint STEP = ${STRIDE}u * 2u; // from a row of one group of eight columns to that of the next
    uint n0 = wg * BN, lane = gl_LocalInvocationIndex;
    uint sg = lane / SG, wm = sg / (BN / WN), wn = sg % (BN / WN), g = lane % SG / 4u, t = lane % 4u;
    uint row = g / 2u * OWN + g % 2u; // of the subgroup's, for the first group of columns
    // Eight lanes load the 64 values of a token, and store in all banks of shared memory.
    uint token = lane / 16u * 2u + lane / 4u % 2u, put = token * LINE + lane / 8u % 2u * 4u;
#if ${DECODES} // the first, and then the second half of each of four units
    const uint LATER = 16u;
    uint eight = lane / 8u % 2u + t * 4u;
#else
    const uint LATER = HALF;
    uint eight = lane / 8u % 2u * 4u + t;
#endif
    dop_check_pairs();
    FRAG acc[M * FM * FN];
    [[unroll]] for (uint i = 0u; i < M * FM * FN; i++)
        acc[i] = FRAG(0.0);
    // Where a lane's values of the first eight columns of its subgroup are (the rows of a subgroup are all inside the matrix or all outside),
    // and which token the lane moves first.
#if ${DECODES}
    uint kb = ${FROM_K};
    dop_piece pieces[M];
    [[unroll]] for (uint m = 0u; m < M; m++) {
        pieces[m] = dop_piece_of${P}(min(n0 + wn * WN, ${N}u - WN), DOP_PIECE_AT${P}(m * BN + row));
        pieces[m].at += t * 32u;
    }
#if ${BOOK}
    dop_fill_book(U32(pieces[0].p), pieces[0].aux);
#endif
#else
    uvec2 begin[M], rows[M];
    [[unroll]] for (uint m = 0u; m < M; m++) {
        begin[m] = dop_behind(dop_piece_of${P}(min(n0 + wn * WN, ${N}u - WN), DOP_PIECE_AT${P}(m * BN + row)).p,
                              t + ${FROM_K} / 8u);
        rows[m] = begin[m];
    }
#endif
    uint first = t0 + token, at = ${FROM_K};
    FRAG_A a[2];
    uvec4 ra[NA];
    RAW${P} rb[${DECODES} != 0 ? 1 : 2][M * (WN / 8u)];
    [[unroll]] for (uint i = 0u; i < NA; i++)
        ra[i] = DOP_A${P}(i, 0u);
    DOP_LOAD_B${P}(0, 0u)
    DOP_LOAD_B${P}(1, 32u)
    DOP_LOAD_UNITS${P}
    [[unroll]] for (uint i = 0u; i < NA; i++) {
        DOP_STORE${P}(0u, i)
        ra[i] = DOP_A${P}(i, LATER);
    }
    barrier();
    // The loop must not be unrolled: several steps are too long for the instruction cache.
    [[dont_unroll]] for (uint k0 = ${FROM_K}; k0 < ${TO_K}; k0 += BK) {
        // Double buffering: while one half of the activations is multiplied, the other half is stored, but no sooner than the first
        // products after a barrier have what they need.  The last step loads its own values again.
        const uint next = min(k0 + BK, ${TO_K} - BK);
        at = next;
        DOP_FACTORS${P}(0u, 0u)
        DOP_MULTIPLY${P}(0, 0u, 0u, true, DOP_STORE_BESIDE${P}(SLOT))
        DOP_LOAD_B${P}(0, HALF)
        DOP_MULTIPLY${P}(1, 4u, 1u, false, DOP_LOAD_BESIDE${P}(0u))
        DOP_LOAD_B${P}(1, HALF + 32u)
        barrier();
#if ${DECODES}
        kb = next;
#else
        [[unroll]] for (uint m = 0u; m < M; m++)
            rows[m] = dop_behind(begin[m], (next - ${FROM_K}) / 8u);
#endif
        DOP_FACTORS${P}(SLOT, 0u)
        DOP_MULTIPLY${P}(0, SLOT, 2u, true, DOP_STORE_BESIDE${P}(0u))
        DOP_LOAD_B${P}(0, 0u)
        DOP_MULTIPLY${P}(1, SLOT + 4u, 3u, false, DOP_LOAD_ALL_BESIDE${P}(LATER))
        DOP_LOAD_B${P}(1, 32u)
        barrier();
    }
