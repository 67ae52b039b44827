        // Epilogue through shared memory, so that the code that uses a sum exists once instead of once per token.
        [[unroll]] for (uint i = 0u; i < ${M}u * ROWS * TB; i += 4u)
            dop_part[i / 4u * SG + LANE] = vec4(acc[i], acc[i + 1u], acc[i + 2u], acc[i + 3u]);
        [[dont_unroll]] for (uint p = 0u;;) {
            uint c = row + p / (TB / 4u) * SG;
            vec4 sum[${M}];
            [[unroll]] for (uint m = 0u; m < ${M}u; m++)
                sum[m] = dop_part[(m * (ROWS * (TB / 4u)) + p) * SG + LANE];
            [[dont_unroll]] for (uint k = 0u;;) {
                uint j = p % (TB / 4u) * 4u + k, t = ${ROW_OF};
                if (c < rows && t < n_tokens) {
                    float y[${M}];
                    [[unroll]] for (uint m = 0u; m < ${M}u; m++)
                        y[m] = sum[m][k];
${STORE}                }
                DOP_UNTIL(++k >= 4u)
            }
            DOP_UNTIL(++p >= ROWS * (TB / 4u))
        }
