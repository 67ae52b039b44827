        // Epilogue in which a lane has four neighbouring rows, so that vectors are stored whole.  Sums stay in registers.
        vec4 fours[${M}u * (TB * ROWS / 4u)];
#if ROWS == 4
        [[unroll]] for (uint i = 0u; i < ${M}u * TB; i++) {
            uint a = i / TB * ROWS * TB + i % TB;
            fours[i] = vec4(acc[a], acc[a + TB], acc[a + 2u * TB], acc[a + 3u * TB]);
        }
        const uint first = 0u;
#else
        // Of two neighbouring lanes the first one gets the rows of both for the first half of the tokens.
        const bool upper = (LANE & 1u) != 0u;
        [[unroll]] for (uint i = 0u; i < ${M}u * (TB / 2u); i++) {
            uint a = i / (TB / 2u) * ROWS * TB + i % (TB / 2u);
            vec2 one = vec2(acc[a], acc[a + TB]), two = vec2(acc[a + TB / 2u], acc[a + TB / 2u + TB]);
            vec2 own = upper ? two : one, other = subgroupShuffle(upper ? one : two, LANE ^ 1u);
            fours[i] = upper ? vec4(other, own) : vec4(own, other);
        }
        const uint first = upper ? TB / 2u : 0u;
#endif
        {
            const uint c = row & ~3u;
            [[unroll]] for (uint k = 0u; k < TB * ROWS / 4u; k++) {
                uint j = first + k, t = ${ROW_OF};
                if (c < rows && t < n_tokens) {
                    vec4 y[${M}];
                    [[unroll]] for (uint m = 0u; m < ${M}u; m++)
                        y[m] = fours[m * (TB * ROWS / 4u) + k];
${STORE}                }
            }
        }
