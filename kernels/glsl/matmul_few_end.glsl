    // This ends a part of matmul_few_part.glsl or of matmul_own_part.glsl.  The epilogue takes a few neighbouring fragments at a time:
    // those of all shares of the depth go to shared memory, and are added up when they are read.
    [[unroll]] for (uint i = 0u; i < FM; i++)
        [[unroll]] for (uint j = 0u; j < FN / FJ; j++) {
            [[unroll]] for (uint m = 0u; m < ${M}u; m++)
                [[unroll]] for (uint f = 0u; f < FJ; f++)
                    coopMatStoreNV(acc[(m * FM + i) * FN + j * FJ + f], dop_s,
                                   (m * (WG / SG) + own) * (MM * LS / 4u) + f * (MN / 4u), LS / 4u, false);
            barrier();
            for (uint q = (share * SG + lane % SG) * ${W}u; q < MM * FJ * MN; q += SHARES * SG * ${W}u) {
                uint r = q / (FJ * MN), e = r * LS + q % (FJ * MN);
                uint t = wm * WM + i * MM + r, c = n0 + wn * WN + j * FJ * MN + q % (FJ * MN);
                if (t < dop_tokens && c < ${N}u) {
${STORE}                }
            }
            barrier();
        }
}
