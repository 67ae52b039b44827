    // These matrices share this code.  A workgroup walks over neighbouring rows, so that it reads memory in order.
${BEGIN}    [[dont_unroll]] for (uint b = ${FIRST}, b1 = ${END}; b < b1; b++) {
${SELECT}        uint row = ${ROW} + LANE;
        float acc[${M}u * ROWS * TB];
        [[unroll]] for (uint i = 0u; i < ${M}u * ROWS * TB; i++)
            acc[i] = 0.0;
${SLOTS}        [[dont_unroll]] for (uint v = 0u; v < ${UNITS}; v++) {
${AHEAD}${LOAD}            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
${DOTS}            }
        }
${SLOTS_END}${FINISH}    }
${DONE}
