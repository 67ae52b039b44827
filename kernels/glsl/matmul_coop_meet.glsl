    // Split-K: workgroups that share a tile store their sums, each in its invocations' own order.  The last workgroup to finish adds all
    // sums in the order of the shares, so that the result does not depend on which is last.
    if (dop_share < SHARES) {
        const uint N = ${M}u * FM * FN, FOURS = MM * MN / SG / 4u; // fragments, and fours of values of an invocation in each
        const uint step = MATS * FM * FN * FOURS * WG;
        uint first = dop_tile * SHARES * step + lane;
        [[unroll]] for (uint f = 0u; f < N; f++)
            [[unroll]] for (uint q = 0u; q < FOURS; q++)
                dop_hand4_f32(${SUMS}, (first + dop_share * step + (f * FOURS + q) * WG) * 4u,
                              vec4(acc[f][4u * q], acc[f][4u * q + 1u], acc[f][4u * q + 2u], acc[f][4u * q + 3u]));
        if (!dop_last_of(${COUNTS}, dop_tile, SHARES))
            return;
        [[unroll]] for (uint f = 0u; f < N; f++)
            acc[f] = FRAG(0.0);
        // Unrolled for one share only: kernels of a layer that do not fit the instruction cache together slow each other.
        [[dont_unroll]] for (uint s = 0u; s < SHARES; s++)
            [[unroll]] for (uint f = 0u; f < N; f++)
                [[unroll]] for (uint q = 0u; q < FOURS; q++) {
                    vec4 sum = dop_take4_f32(${SUMS}, (first + s * step + (f * FOURS + q) * WG) * 4u);
                    [[unroll]] for (uint e = 0u; e < 4u; e++)
                        acc[f][4u * q + e] += sum[e];
                }
    }
