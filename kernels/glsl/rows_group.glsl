    // Matrices of one shape of work.
${BEGIN}    [[dont_unroll]] for (uint b = ${FIRST}; b < ${END}; b += ${STRIDE}) {
${SELECT}        uint row = ${ROW} + LANE;
        float acc[${M}u * ROWS * TB];
        [[unroll]] for (uint i = 0u; i < ${M}u * ROWS * TB; i++)
            acc[i] = 0.0;
        [[dont_unroll]] for (uint v = 0u; v < ${UNITS}u; v++) {
${LOAD}            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
${DOTS}            }
        }
${FINISH}    }
${DONE}
