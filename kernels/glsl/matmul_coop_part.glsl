// Activations of token t (clamped: rows past the last one are never stored) and weights of row n, from column c on.
dop_raw8 dop_load_a${P}(uint t0, uint i, uint k0)
{
    uint t = min(t0 + i / (BK / 8u), dop_tokens - 1u), c = k0 + i % (BK / 8u) * 8u;
${LOAD_A}}
#define DOP_B_AT${P}                                                                                                \
    uint m = i / (BN * (BK / 8u)), n = min(n0 + i / (BK / 8u) % BN, ${N}u - 1u), c = k0 + i % (BK / 8u) * 8u;
dop_raw8 dop_load_b${P}(uint n0, uint i, uint k0)
{
    DOP_B_AT${P}
${LOAD_B}}
uvec4 dop_take_b${P}(dop_raw8 r, uint n0, uint i, uint k0)
{
    DOP_B_AT${P}
${TAKE_B}}
void dop_part${P}(uint wg, uint t0)
{
    // Pieces of 8 values, and how many of them an invocation moves.
    const uint A = BM * BK / 8u, B = ${M}u * BN * BK / 8u, NA = (A + WG - 1u) / WG, NB = (B + WG - 1u) / WG;
    uint n0 = wg * BN, lane = gl_LocalInvocationIndex;
    uint sg = lane / SG, wm = sg / (BN / WN), wn = sg % (BN / WN);
    FRAG acc[${M} * ${FM} * ${FN}];
    [[unroll]] for (uint i = 0u; i < ${M}u * FM * FN; i++)
        acc[i] = FRAG(0.0);
    dop_raw8 ra[NA], rb[NB];
    [[unroll]] for (uint i = 0u; i < NA; i++)
        ra[i] = dop_load_a${P}(t0, lane + i * WG, 0u);
    [[unroll]] for (uint i = 0u; i < NB; i++)
        rb[i] = dop_load_b${P}(n0, lane + i * WG, 0u);
    uint cur = 0u;
    for (uint k0 = 0u; k0 < ${K}u; k0 += BK) {
        [[unroll]] for (uint i = 0u; i < NA; i++) {
            uint e = lane + i * WG;
            if (A % WG == 0u || e < A)
                dop_a[cur * SIZE_A + e / (BK / 8u) * LD + e % (BK / 8u)] = ${TAKE_A};
        }
        [[unroll]] for (uint i = 0u; i < NB; i++) {
            uint e = lane + i * WG;
            if (B % WG == 0u || e < B)
                dop_b[cur * SIZE_B + e / (BK / 8u) * LD + e % (BK / 8u)] = dop_take_b${P}(rb[i], n0, e, k0);
        }
        barrier();
        if (k0 + BK < ${K}u) {
            [[unroll]] for (uint i = 0u; i < NA; i++)
                ra[i] = dop_load_a${P}(t0, lane + i * WG, k0 + BK);
            [[unroll]] for (uint i = 0u; i < NB; i++)
                rb[i] = dop_load_b${P}(n0, lane + i * WG, k0 + BK);
        }
        [[unroll]] for (uint kk = 0u; kk < BK; kk += MK) {
            FRAG_A a[FM];
            FRAG_B b[FN];
            [[unroll]] for (uint i = 0u; i < FM; i++)
                coopMatLoadNV(a[i], dop_a, cur * SIZE_A + (wm * WM + i * MM) * LD + kk / 8u, LD, false);
            [[unroll]] for (uint m = 0u; m < ${M}u; m++) {
                [[unroll]] for (uint j = 0u; j < FN; j++)
                    coopMatLoadNV(b[j], dop_b, cur * SIZE_B + (m * BN + wn * WN + j * MN) * LD + kk / 8u, LD, true);
                [[unroll]] for (uint i = 0u; i < FM; i++)
                    [[unroll]] for (uint j = 0u; j < FN; j++)
                        acc[(m * FM + i) * FN + j] = coopMatMulAddNV(a[i], b[j], acc[(m * FM + i) * FN + j]);
            }
        }
        cur ^= 1u;
    }
    barrier();
    // Epilogue by fragment: through the subgroup's own piece of shared memory, a lane then has EACH values of one token.
    [[unroll]] for (uint i = 0u; i < FM; i++)
        [[unroll]] for (uint j = 0u; j < FN; j++) {
            [[unroll]] for (uint m = 0u; m < ${M}u; m++)
                coopMatStoreNV(acc[(m * FM + i) * FN + j], dop_b, (m * (WG / SG) + sg) * (MM * MN / 4u), MN / 4u, false);
            barrier();
            uint t = t0 + wm * WM + i * MM + lane % SG * EACH / MN;
            for (uint q = 0u; q < EACH; q += ${W}u) {
                uint e = lane % SG * EACH + q, c = n0 + wn * WN + j * MN + e % MN;
                if (t < dop_tokens && c < ${N}u) {
${STORE}                }
            }
            barrier();
        }
}
