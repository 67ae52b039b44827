// Part ${P}: ${M} matrices of ${N} rows, ${U} values per step.
void dop_part${P}(uint wg)
{
${PART_BEGIN}    for (uint first = ${FIRST}; first < ${END}; first += ${STRIDE}) {
        uint row = first + TEAM * ${ROWS}u;
        float acc[${M} * ${ROWS}];
        for (uint i = 0u; i < ${M}u * ${ROWS}u; i++)
            acc[i] = 0.0;
${STATS_INIT}        for (uint u = LANE; u < ${UNITS}u; u += LANES * ${UNROLL}u) {
${LOADS}            [[unroll]] for (uint j = 0u; j < ${UNROLL}u; j++) {
                uint v = u + j * LANES;
                if (v >= ${UNITS}u)
                    break;
                vec4 x[${U} / 4];
${LOAD}${DOTS}            }
        }
        for (uint i = 0u; i < ${M}u * ${ROWS}u; i++)
            acc[i] = dop_team_sum(acc[i]);
${STATS_DONE}        for (uint r = LANE; r < ${ROWS}u; r += LANES) {
            uint c = row + r;
            if (c < ${ROW_LIMIT}) {
${STORE}            }
        }
    }
${PART_END}}
