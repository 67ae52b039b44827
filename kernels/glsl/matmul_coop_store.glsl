            [[unroll]] for (uint s = 0u; s < MM * FJ * MN / (SG * ${W}u); s++) {
                uint q = (s * SG + lane % SG) * ${W}u, r = q / (FJ * MN), e = r * LS + q % (FJ * MN);
                uint t = ${STORE_ROW}, c = n0 + wn * WN + j * FJ * MN + q % (FJ * MN);
                if (t < dop_tokens && c < ${N}u) {
${STORE}                }
            }
