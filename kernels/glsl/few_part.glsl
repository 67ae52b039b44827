// Part ${P}: ${M} matrices of ${N} rows.
${FETCH}void dop_part${P}(uint wg)
{
    uint row = (wg * TEAMS + TEAM) * ${ROWS}u;
${RAW}        dop_fetch${P}(row, LANE${Q});
${EARLY}${SETS}    float acc[${M} * ${ROWS} * ${R}];
    [[unroll]] for (uint i = 0u; i < ${M}u * ${ROWS}u * R; i++)
        acc[i] = 0.0;
    for (uint first = 0u; first < ${UNITS}u; first += PIECE) {
        uint end = min(first + PIECE, ${UNITS}u);
${PIECE_IN}        for (uint u = first + LANE; u < end; u += LANES * ${UNROLL}u) {
            uint next = u + LANES * ${UNROLL}u;
            if (next < end)
                dop_fetch${P}(row, next${NEXT});
            else if (end + LANE < ${UNITS}u)
                dop_fetch${P}(row, end + LANE${NEXT});
${NEXT_SET}            [[unroll]] for (uint j = 0u; j < ${UNROLL}u; j++) {
                uint v = u + j * LANES;
                if (v >= end)
                    break;
                v -= first;
${DOTS}            }
           ${SHIFT}
        }
    }
    // The lanes of a team, or of its subgroups, add up their sums; then one lane stores the sums of a row and a column.
#if LANES_LOG2 > SG_LOG2
    [[unroll]] for (uint i = 0u; i < ${M}u * ${ROWS}u * R; i++) {
        float x = subgroupAdd(acc[i]);
        if (gl_LocalInvocationIndex % SG == 0u)
            dop_few_sums[gl_LocalInvocationIndex / SG * (${M}u * ${ROWS}u * R) + i] = x;
    }
    barrier();
#else
    [[unroll]] for (uint i = 0u; i < ${M}u * ${ROWS}u * R; i++)
        acc[i] = dop_team_sum(acc[i]);
#endif
    ${STORE_ROWS} {
        float y[${M}];
#if LANES_LOG2 > SG_LOG2
        [[unroll]] for (uint m = 0u; m < ${M}u; m++) {
            y[m] = 0.0;
            [[unroll]] for (uint k = 0u; k < LANES / SG; k++)
                y[m] += dop_few_sums[((TEAM * (LANES / SG) + k) * ${M}u + m) * (${ROWS}u * R) + r * R + t];
        }
#else
        [[unroll]] for (uint m = 0u; m < ${M}u; m++)
            [[unroll]] for (uint i = 0u; i < ${ROWS}u * R; i++)
                y[m] = i == r * R + t ? acc[m * ${ROWS}u * R + i] : i == 0u ? 0.0 : y[m];
#endif
${STORE}    }
${SETS_END}}
