// Double buffering: one tile lies in shared memory while the next one is loaded to registers.  A step waits for one trip to memory, and
// deep tiles need fewer steps.
// Activations of token t (clamped: rows past the last one are never stored) and weights of row n, from column c on.
dop_raw8 dop_load_a${P}(uint t0, uint i, uint k0)
{
    uint t = ${LOAD_ROW}, c = k0 + i % (BK / 8u) * 8u;
${LOAD_A}}
// Piece i of the tile's weights: ${PIECE} values of one row.
#define DOP_B_AT${P}                                                                                                \
    uint row = ${PIECE_ROW}, m = row / BN, n = min(n0 + row % BN, ${N}u - 1u), c = k0 + (${PIECE_COLUMN}) * ${PIECE}u;
${FIND}${RAW} dop_load_b${P}(${FROM}, uint i, uint k0)
{
    ${AT}
${LOAD_B}}
// Converts values 8 j to 8 j + 7 of a loaded piece of weights to halves.
uvec4 dop_take_b${P}(${RAW} r, uint j, ${FROM}, uint i, uint k0)
{
    ${AT}
${TAKE_B}}
void dop_part${P}(uint wg, uint t0)
{
    // Pieces of activations and weights, and how many of them an invocation moves.
    const uint A = BM * BK / 8u, B = ${M}u * BN * BK / ${PIECE}u, NA = (A + WG - 1u) / WG, NB = (B + WG - 1u) / WG;
    uint n0 = wg * BN, lane = gl_LocalInvocationIndex;
    uint sg = lane / SG, wm = sg / (BN / WN), wn = sg % (BN / WN);
    FRAG acc[${M} * FM * FN];
    [[unroll]] for (uint i = 0u; i < ${M}u * FM * FN; i++)
        acc[i] = FRAG(0.0);
    dop_raw8 ra[NA];
    ${RAW} rb[NB];
${ROWS}${PIECES}    [[unroll]] for (uint i = 0u; i < NA; i++)
        ra[i] = dop_load_a${P}(${ROW_OF}, lane + i * WG, ${FROM_K});
    [[unroll]] for (uint i = 0u; i < NB; i++)
        rb[i] = dop_load_b${P}(${OF_I}, lane + i * WG, ${FROM_K});
    for (uint k0 = ${FROM_K}; k0 < ${TO_K}; k0 += BK) {
        barrier();
        [[unroll]] for (uint i = 0u; i < NA; i++) {
            uint e = lane + i * WG;
            dop_raw8 r = ra[i];
            if (A % WG == 0u || e < A)
                dop_s[e / (BK / 8u) * LD + e % (BK / 8u)] = ${TAKE_A};
        }
        [[unroll]] for (uint b = 0u; b < NB; b++) {
            uint i = lane + b * WG;
            uint at = SIZE_A + (${PIECE_ROW}) * LD + (${PIECE_COLUMN}) * (${PIECE}u / 8u);
            if (B % WG == 0u || i < B)
                [[unroll]] for (uint j = 0u; j < ${PIECE}u / 8u; j++)
                    dop_s[at + j] = dop_take_b${P}(rb[b], j, ${OF_B}, i, k0);
        }
        barrier();
        if (k0 + BK < ${TO_K}) {
            [[unroll]] for (uint i = 0u; i < NA; i++)
                ra[i] = dop_load_a${P}(${ROW_OF}, lane + i * WG, k0 + BK);
            [[unroll]] for (uint i = 0u; i < NB; i++)
                rb[i] = dop_load_b${P}(${OF_I}, lane + i * WG, k0 + BK);
        }
        [[unroll]] for (uint kk = 0u; kk < BK; kk += MK) {
            FRAG_A a[FM];
            FRAG_B b[FN];
            [[unroll]] for (uint i = 0u; i < FM; i++)
                coopMatLoadNV(a[i], dop_s, (wm * WM + i * MM) * LD + kk / 8u, LD, false);
            [[unroll]] for (uint m = 0u; m < ${M}u; m++) {
                [[unroll]] for (uint j = 0u; j < FN; j++)
                    coopMatLoadNV(b[j], dop_s, SIZE_A + (m * BN + wn * WN + j * MN) * LD + kk / 8u, LD, true);
                [[unroll]] for (uint i = 0u; i < FM; i++)
                    [[unroll]] for (uint j = 0u; j < FN; j++)
                        acc[(m * FM + i) * FN + j] = coopMatMulAddNV(a[i], b[j], acc[(m * FM + i) * FN + j]);
            }
        }
    }
