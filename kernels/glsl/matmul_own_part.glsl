// Activations of row t and weights of row n, from column c on.
dop_raw8 dop_load_a${P}(uint t, uint c)
{
${GUARD_ROW}${LOAD_A}}
${RAW} dop_load_b${P}(uint m, uint n, uint c)
{
${LOAD_B}}
// Converts values 8 j to 8 j + 7 of a loaded piece of weights to halves.
uvec4 dop_take_b${P}(${RAW} r, uint j, uint m, uint n, uint c)
{
${TAKE_B}}
// Piece x of an invocation, in column g of fragments: its place among the pieces, its matrix, row and first column.
#define DOP_AT${P}                                                                                                  \
    uint i = in_sg + x * SG, m = g / FN, n = min(n0 + g % FN * MN + (${PIECE_ROW}), ${N}u - 1u);                     \
    uint c = first + (${PIECE_COLUMN}) * ${PIECE}u;
#define DOP_FETCH_A${P}(p, f, k)                                                                                    \
    [[unroll]] for (uint x = 0u; x < NA; x++) {                                                                     \
        uint e = in_sg + x * SG;                                                                                    \
        ra[((p) * FM + (f)) * NA + x] = dop_load_a${P}((f) * MM + e / (DEEP / 8u), (k) + first + e % (DEEP / 8u) * 8u);  \
    }
#define DOP_FETCH_B${P}(p, k)                                                                                       \
    [[unroll]] for (uint x = 0u; x < NB; x++) {                                                                     \
        DOP_AT${P}                                                                                                  \
        rb[((p) * ${M}u * FN + g) * NB + x] = dop_load_b${P}(m, n, c + (k));                                         \
    }
void dop_part${P}(uint wg)
{
    // Fragments pass through the subgroup's own slice of shared memory: first the fragments of activations, which then stay in
    // registers, then the fragments of weights, a row of matrices at a time.  So no subgroup waits for another one before the end.
    const uint NA = MM * DEEP / 8u / SG, NB = MN * DEEP / ${PIECE}u / SG, SLD = (DEEP + 8u) / 8u, STEPS = DEEP / MK,
               RANGE = (${K}u + BK - 1u) / BK * DEEP; // a subgroup's part of the depth, in one piece
    uint n0 = wg * BN, lane = gl_LocalInvocationIndex, own = lane / SG, share = own, sg = 0u, wm = 0u, wn = 0u;
    uint in_sg = lane % SG, slice = own * MM * SLD, first = own * RANGE;
    FRAG acc[${M} * FM * FN];
    [[unroll]] for (uint i = 0u; i < ${M}u * FM * FN; i++)
        acc[i] = FRAG(0.0);
    dop_raw8 ra[AHEAD * FM * NA];
    ${RAW} rb[AHEAD * ${M}u * FN * NB];
    [[unroll]] for (uint p = 0u; p < AHEAD; p++)
        if (p * DEEP < RANGE) {
            [[unroll]] for (uint f = 0u; f < FM; f++)
                DOP_FETCH_A${P}(p, f, p * DEEP)
            [[unroll]] for (uint g = 0u; g < ${M}u * FN; g++)
                DOP_FETCH_B${P}(p, p * DEEP)
        }
    for (uint base = 0u; base < RANGE; base += AHEAD * DEEP) {
        [[unroll]] for (uint p = 0u; p < AHEAD; p++) {
            uint k0 = base + p * DEEP, next = k0 + AHEAD * DEEP;
            if (EACH != 0u)
                next = min(next, RANGE - DEEP);
            if (AHEAD == 1u || k0 < RANGE) {
                FRAG_A a[FM * STEPS];
                [[unroll]] for (uint f = 0u; f < FM; f++) {
                    [[unroll]] for (uint x = 0u; x < NA; x++) {
                        uint e = in_sg + x * SG;
                        dop_raw8 r = ra[(p * FM + f) * NA + x];
                        dop_s[slice + e / (DEEP / 8u) * SLD + e % (DEEP / 8u)] = ${TAKE_A};
                    }
                    subgroupMemoryBarrierShared();
                    subgroupBarrier();
                    [[unroll]] for (uint s = 0u; s < STEPS; s++)
                        coopMatLoadNV(a[f * STEPS + s], dop_s, slice + s * (MK / 8u), SLD, false);
                    if (EACH != 0u || next < RANGE)
                        DOP_FETCH_A${P}(p, f, next)
                    subgroupBarrier();
                }
                [[unroll]] for (uint g = 0u; g < ${M}u * FN; g++) {
                    [[unroll]] for (uint x = 0u; x < NB; x++) {
                        DOP_AT${P}
                        uint at = slice + (${PIECE_ROW}) * SLD + (${PIECE_COLUMN}) * (${PIECE}u / 8u);
                        [[unroll]] for (uint j = 0u; j < ${PIECE}u / 8u; j++)
                            dop_s[at + j] = dop_take_b${P}(rb[(p * ${M}u * FN + g) * NB + x], j, m, n, c + k0);
                    }
                    subgroupMemoryBarrierShared();
                    subgroupBarrier();
                    if (EACH != 0u || next < RANGE)
                        DOP_FETCH_B${P}(p, next)
                    [[unroll]] for (uint s = 0u; s < STEPS; s++) {
                        FRAG_B b;
                        coopMatLoadNV(b, dop_s, slice + s * (MK / 8u), SLD, true);
                        [[unroll]] for (uint f = 0u; f < FM; f++)
                            acc[(g / FN * FM + f) * FN + g % FN] =
                                coopMatMulAddNV(a[f * STEPS + s], b, acc[(g / FN * FM + f) * FN + g % FN]);
                    }
                    subgroupBarrier();
                }
            }
        }
    }
    barrier();
