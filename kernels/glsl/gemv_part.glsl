// Part ${P}: ${M} matrices of ${N} rows, ${U} values per step.
${FETCH}void dop_part${P}(uint wg)
{
${PART_BEGIN}    {
        uint first = ${FIRST}, row = first + TEAM * ${ROWS}u;
${RAW}        // The loads of the first weights are issued before the prologue waits for the activation.
        dop_fetch${P}(row, LANE${Q});
${EARLY}        dop_prologue();
        while (first < ${END}) {
${PRELOAD}            float acc[${M} * ${ROWS}];
            [[unroll]] for (uint i = 0u; i < ${M}u * ${ROWS}u; i++)
                acc[i] = 0.0;
${STATS_INIT}            uint next_row = row + ${STRIDE};
            for (uint u = LANE; u < ${UNITS}u; u += LANES * ${UNROLL}u) {
                uint next = u + LANES * ${UNROLL}u;
                if (next < ${UNITS}u)
                    dop_fetch${P}(row, next${NEXT});
                else if (first + ${STRIDE} < ${END})
                    dop_fetch${P}(next_row, LANE${NEXT});
                [[unroll]] for (uint j = 0u; j < ${UNROLL}u; j++) {
                    uint v = u + j * LANES;
${BREAK}${LOAD}${DOTS}                }
               ${SHIFT}
            }
            [[unroll]] for (uint i = 0u; i < ${M}u * ${ROWS}u; i++)
                acc[i] = dop_team_sum(acc[i]);
${STATS_DONE}            ${STORE_ROWS} {
${STORE}            }
            first += ${STRIDE};
            row = next_row;
        }
    }
${PART_END}}
