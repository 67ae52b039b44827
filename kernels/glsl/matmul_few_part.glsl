// Activations of row t and weights of row n, from column c on.
dop_raw8 dop_load_a${P}(uint i, uint k0)
{
    uint t = i / (BK / 8u), c = k0 + i % (BK / 8u) * 8u;
    if (t >= dop_tokens)
        return dop_raw8(uvec4(0u), uvec4(0u));
${LOAD_A}}
// Piece i of the tile's weights: ${PIECE} values of one row.
#define DOP_B_AT${P}                                                                                                \
    uint row = ${PIECE_ROW}, m = row / BN, n = min(n0 + row % BN, ${N}u - 1u), c = k0 + (${PIECE_COLUMN}) * ${PIECE}u;
${RAW} dop_load_b${P}(uint n0, uint i, uint k0)
{
    DOP_B_AT${P}
${LOAD_B}}
// Converts values 8 j to 8 j + 7 of a loaded piece of weights to halves.
uvec4 dop_take_b${P}(${RAW} r, uint j, uint n0, uint i, uint k0)
{
    DOP_B_AT${P}
${TAKE_B}}
void dop_part${P}(uint wg)
{
    // Pieces of activations and weights, and how many of them an invocation moves.
    const uint A = BM * BK / 8u, B = ${M}u * BN * BK / ${PIECE}u, NA = (A + WG - 1u) / WG, NB = (B + WG - 1u) / WG;
    const uint t0 = 0u;
    uint n0 = wg * BN, lane = gl_LocalInvocationIndex;
    uint own = lane / SG, sg = own % TS, share = own / TS, wm = sg / (BN / WN), wn = sg % (BN / WN);
    FRAG acc[${M} * FM * FN];
    [[unroll]] for (uint i = 0u; i < ${M}u * FM * FN; i++)
        acc[i] = FRAG(0.0);
    dop_raw8 ra[AHEAD * NA];
    ${RAW} rb[AHEAD * NB];
    [[unroll]] for (uint p = 0u; p < AHEAD; p++)
        if (p * BK < ${K}u) {
            [[unroll]] for (uint i = 0u; i < NB; i++)
                rb[p * NB + i] = dop_load_b${P}(n0, lane + i * WG, p * BK);
            [[unroll]] for (uint i = 0u; i < NA; i++)
                ra[p * NA + i] = dop_load_a${P}(lane + i * WG, p * BK);
        }
    for (uint base = 0u; base < ${K}u; base += AHEAD * BK) {
        [[unroll]] for (uint p = 0u; p < AHEAD; p++) {
            uint k0 = base + p * BK;
            if (k0 < ${K}u) {
                barrier();
                [[unroll]] for (uint i = 0u; i < NA; i++) {
                    uint e = lane + i * WG;
                    dop_raw8 r = ra[p * NA + i];
                    if (A % WG == 0u || e < A)
                        dop_s[e / (BK / 8u) * LD + e % (BK / 8u)] = ${TAKE_A};
                }
                [[unroll]] for (uint b = 0u; b < NB; b++) {
                    uint i = lane + b * WG;
                    uint at = SIZE_A + (${PIECE_ROW}) * LD + (${PIECE_COLUMN}) * (${PIECE}u / 8u);
                    if (B % WG == 0u || i < B)
                        [[unroll]] for (uint j = 0u; j < ${PIECE}u / 8u; j++)
                            dop_s[at + j] = dop_take_b${P}(rb[p * NB + b], j, n0, i, k0);
                }
                if (k0 + AHEAD * BK < ${K}u) {
                    [[unroll]] for (uint i = 0u; i < NB; i++)
                        rb[p * NB + i] = dop_load_b${P}(n0, lane + i * WG, k0 + AHEAD * BK);
                    [[unroll]] for (uint i = 0u; i < NA; i++)
                        ra[p * NA + i] = dop_load_a${P}(lane + i * WG, k0 + AHEAD * BK);
                }
                barrier();
                [[unroll]] for (uint step = 0u; step < BK / MK / SHARES; step++) {
                    uint kk = (step * SHARES + share) * MK;
                    FRAG_A a[FM];
                    FRAG_B b;
                    [[unroll]] for (uint i = 0u; i < FM; i++)
                        coopMatLoadNV(a[i], dop_s, (wm * WM + i * MM) * LD + kk / 8u, LD, false);
                    [[unroll]] for (uint m = 0u; m < ${M}u; m++)
                        [[unroll]] for (uint j = 0u; j < FN; j++) {
                            coopMatLoadNV(b, dop_s, SIZE_A + (m * BN + wn * WN + j * MN) * LD + kk / 8u, LD, true);
                            [[unroll]] for (uint i = 0u; i < FM; i++)
                                acc[(m * FM + i) * FN + j] = coopMatMulAddNV(a[i], b, acc[(m * FM + i) * FN + j]);
                        }
                }
            }
        }
    }
    barrier();
