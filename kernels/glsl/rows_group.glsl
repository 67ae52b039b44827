    // A group of parts whose matrices share this code.  Loops end behind their bodies (DOP_UNTIL), because a test before the body would
    // run the body once more with no lane switched on.
${BEGIN}    uint b = ${FIRST}, b1 = ${END};
    ${SOME}[[dont_unroll]] for (;;) {
${SELECT}        uint row = ${ROW} + ${LANE_ROW};
        float acc[${M}u * ROWS * TB];
        [[unroll]] for (uint i = 0u; i < ${M}u * ROWS * TB; i++)
            acc[i] = 0.0;
${SLOTS}        [[dont_unroll]] for (uint v = 0u;;) {
${AHEAD}${LOAD}            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
${DOTS}            }
            DOP_UNTIL(++v >= ${UNITS})
        }
${SLOTS_END}${FINISH}        DOP_UNTIL((${NEXT}) >= b1)
    }
${DONE}
