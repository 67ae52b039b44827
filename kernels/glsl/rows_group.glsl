    // Matrices of one shape of work, ROWS rows at a time.
${BEGIN}    [[dont_unroll]] for (uint b = ${FIRST}; b < ${END}; b += ${STRIDE}) {
${SELECT}        uint row = ${ROW};
        float acc[TB * ${M}u * ROWS];
        [[unroll]] for (uint i = 0u; i < TB * ${M}u * ROWS; i++)
            acc[i] = 0.0;
        [[dont_unroll]] for (uint v = LANE; v < ${UNITS}u; v += WG) {
            vec4 x[TB][${U} / 4];
${LOAD}            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
${DOTS}            }
        }
        [[unroll]] for (uint i = 0u; i < TB * ${M}u * ROWS; i += 4u)
            dop_part[(LANE * (TB * ${M}u * ROWS) + i) >> 2] = vec4(acc[i], acc[i + 1u], acc[i + 2u], acc[i + 3u]);
        DOP_STEP();
        uint c = row + LANE;
        if (LANE < ROWS && c < rows) {
            [[dont_unroll]] for (uint j = 0u; j < min(TB, n_tokens - t0); j++) {
                uint t = t0 + j;
                float y[${M}];
                [[unroll]] for (uint m = 0u; m < ${M}u; m++) {
                    y[m] = 0.0;
                    [[dont_unroll]] for (uint i = 0u; i < WG; i++) {
                        uint at = (i * TB + j) * (${M}u * ROWS) + m * ROWS + LANE;
                        y[m] += dop_part[at >> 2][at & 3u];
                    }
                }
${STORE}            }
        }
        DOP_STEP();
    }
${DONE}
