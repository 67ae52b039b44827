        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            uint c = row + r * SG;
            if (c < rows) {
                const uint j = 0u;
                float y[${M}];
                [[unroll]] for (uint m = 0u; m < ${M}u; m++)
                    y[m] = acc[m * ROWS + r];
${STORE}            }
        }
