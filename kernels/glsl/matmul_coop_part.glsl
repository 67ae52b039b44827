// Activations of token t (clamped: rows past the last one are never stored) and weights of row n, from column c on.
dop_raw8 dop_load_a${P}(uint t0, uint i, uint k0)
{
    uint t = ${LOAD_ROW}, c = k0 + i % (BK / 8u) * 8u;
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
${ROWS}    [[unroll]] for (uint i = 0u; i < NA; i++)
        ra[i] = dop_load_a${P}(${ROW_OF}, lane + i * WG, 0u);
    [[unroll]] for (uint i = 0u; i < NB; i++)
        rb[i] = dop_load_b${P}(n0, lane + i * WG, 0u);
    for (uint k0 = 0u; k0 < ${K}u; k0 += BK) {
        barrier();
        [[unroll]] for (uint i = 0u; i < NA; i++) {
            uint e = lane + i * WG;
            dop_raw8 r = ra[i];
            if (A % WG == 0u || e < A)
                dop_s[e / (BK / 8u) * LD + e % (BK / 8u)] = ${TAKE_A};
        }
        [[unroll]] for (uint i = 0u; i < NB; i++) {
            uint e = lane + i * WG;
            if (B % WG == 0u || e < B)
                dop_s[SIZE_A + e / (BK / 8u) * LD + e % (BK / 8u)] = dop_take_b${P}(rb[i], n0, e, k0);
        }
        barrier();
        if (k0 + BK < ${K}u) {
            [[unroll]] for (uint i = 0u; i < NA; i++)
                ra[i] = dop_load_a${P}(${ROW_OF}, lane + i * WG, k0 + BK);
            [[unroll]] for (uint i = 0u; i < NB; i++)
                rb[i] = dop_load_b${P}(n0, lane + i * WG, k0 + BK);
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
    barrier();
    // Epilogue by fragments side by side, through the subgroup's own piece of shared memory: its lanes then have values
    // side by side of the same token.
    [[unroll]] for (uint i = 0u; i < FM; i++)
        [[unroll]] for (uint j = 0u; j < FN / FJ; j++) {
            [[unroll]] for (uint m = 0u; m < ${M}u; m++)
                [[unroll]] for (uint f = 0u; f < FJ; f++)
                    coopMatStoreNV(acc[(m * FM + i) * FN + j * FJ + f], dop_s,
                                   (m * (WG / SG) + sg) * (MM * LS / 4u) + f * (MN / 4u), LS / 4u, false);
            subgroupMemoryBarrierShared();
            subgroupBarrier();
            [[unroll]] for (uint s = 0u; s < MM * FJ * MN / (SG * ${W}u); s++) {
                uint q = (s * SG + lane % SG) * ${W}u, r = q / (FJ * MN), e = r * LS + q % (FJ * MN);
                uint t = ${STORE_ROW}, c = n0 + wn * WN + j * FJ * MN + q % (FJ * MN);
                if (t < dop_tokens && c < ${N}u) {
${STORE}                }
            }
            subgroupBarrier();
        }
}
