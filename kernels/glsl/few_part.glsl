// Part ${P}: ${M} matrices of ${N} rows.
${FETCH}void dop_part${P}(uint wg)
{
    uint row = (wg * TEAMS + TEAM) * ${ROWS}u;
${RAW}        dop_fetch${P}(row, LANE${Q});
    float acc[${M} * ${ROWS} * ${R}];
    [[unroll]] for (uint i = 0u; i < ${M}u * ${ROWS}u * R; i++)
        acc[i] = 0.0;
    for (uint first = 0u; first < ${UNITS}u; first += PIECE) {
        uint end = min(first + PIECE, ${UNITS}u);
        barrier();
        dop_stage(first * ${U}u);
        barrier();
        for (uint u = first + LANE; u < end; u += LANES * ${UNROLL}u) {
            uint next = u + LANES * ${UNROLL}u;
            if (next < end)
                dop_fetch${P}(row, next${NEXT});
            else if (end < ${UNITS}u)
                dop_fetch${P}(row, end + LANE${NEXT});
            [[unroll]] for (uint j = 0u; j < ${UNROLL}u; j++) {
                uint v = u + j * LANES;
                if (v >= end)
                    break;
                v -= first;
${DOTS}            }
           ${SHIFT}
        }
    }
    [[unroll]] for (uint i = 0u; i < ${M}u * ${ROWS}u * R; i++)
        acc[i] = dop_team_sum(acc[i]);
    [[unroll]] for (uint t = 0u; t < R; t++)
        [[unroll]] for (uint r = 0u; r < ${ROWS}u; r++) {
            uint c = row + r;
            if (LANE == (t * ${ROWS}u + r) % LANES && c < ${N}u && t < ${N_TOKENS}) {
${STORE}            }
        }
}
