    // Matrices of one shape of work, ROWS rows at a time.
${BEGIN}    [[dont_unroll]] for (uint b = ${FIRST}; b < ${END}; b += ${STRIDE}) {
${SELECT}        uint row = ${ROW};
        float acc[${M}u * ROWS];
        [[unroll]] for (uint i = 0u; i < ${M}u * ROWS; i++)
            acc[i] = 0.0;
        [[dont_unroll]] for (uint v = LANE; v < ${UNITS}u; v += WG) {
${LOAD}            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
${DOTS}            }
        }
        float y[${M}];
        [[unroll]] for (uint i = 0u; i < ${M}u * ROWS; i++) {
            float sum = subgroupAdd(acc[i]);
            if (i % ROWS == 0u || LANE == i % ROWS)
                y[i / ROWS] = sum;
        }
        uint c = row + LANE;
        if (LANE < ROWS && c < rows) {
            const uint j = 0u;
${STORE}        }
    }
${DONE}
