// Per-head products: multiplies HEADS_H heads from h on with their matrices, ${N} sums for each head over ${K} values, which workgroups of
// this dispatch made before.  All invocations of a workgroup must call this, when the heads are complete.  LANES_H lanes share a row.
// They load several rows and steps at a time, because that hides the latency of loads, and the first ones before they look at the
// heads, because weights do not depend on these.  Loops over arrays of an invocation are written out, because a driver that does
// not unroll them would keep the arrays in memory.
#define TEAMS_H (WG / LANES_H)
shared vec4 dop_head[HEADS_H * ${K_PAD} / 4];
// The place of the q-th four values of unit u in head j.
#define DOP_HEAD_AT(j, q, u) ((j) * (${K_PAD}u / 4u) + ${AT})
dop_raw_${TYPE} dop_rows[${HELD}];
void dop_tail_fetch(uint h, uint first, uint from)
{
${@i HELD}    {
        uint row = min(first + $iu / ${STEPS}u * TEAMS_H, ROWS_H - 1u), head = h + row / ${N}u;
        uint u = min(from + $iu % ${STEPS}u * LANES_H, ${UNITS}u - 1u);
${AHEAD}        dop_rows[$i] = dop_wload_${TYPE}(${MATRIX}, row % ${N}u * ${UNITS}u + u, ${AUX});
    }
${@}}

void dop_tail(uint h)
{
    uint lane = gl_LocalInvocationIndex % LANES_H, first = gl_LocalInvocationIndex / LANES_H;
    dop_tail_fetch(h, first, lane);
    ${SYNC};
    for (uint i = gl_LocalInvocationIndex; i < HEADS_H * ${K_PAD}u / 4u; i += WG) {
        uint j = i / (${K_PAD}u / 4u), four = i % (${K_PAD}u / 4u), at = four * 4u, c = (h + j) * ${K}u + at;
        vec4 x = vec4(0.0);
        if (at < ${K}u) {
${LOAD}        }
        dop_head[DOP_HEAD_AT(j, four % (${UNIT}u / 4u), four / (${UNIT}u / 4u))] = x;
    }
    ${SYNC};
    for (; first < ROWS_H; first += TEAMS_H * ${ROWS}u) {
        float y[${ROWS}];
${@r ROWS}        y[$r] = 0.0;
${@}        for (uint from = lane; from < ${UNITS}u; from += LANES_H * ${STEPS}u) {
${@s STEPS}            {
                uint u = min(from + $su * LANES_H, ${UNITS}u - 1u);
                bool more = from + $su * LANES_H < ${UNITS}u;
                vec4 x[${UNIT} / 4];
#if HEADS_H == 1
                [[unroll]] for (uint q = 0u; q < ${UNIT}u / 4u; q++)
                    x[q] = dop_head[DOP_HEAD_AT(0u, q, u)];
#endif
${@r ROWS}                {
#if HEADS_H > 1
                    [[unroll]] for (uint q = 0u; q < ${UNIT}u / 4u; q++)
                        x[q] = dop_head[DOP_HEAD_AT(min(first + $ru * TEAMS_H, ROWS_H - 1u) / ${N}u, q, u)];
#endif
                    float z = dop_wdot_${TYPE}(dop_rows[$r * ${STEPS} + $s], x);
                    y[$r] += more ? z : 0.0;
                }
${@}            }
${@}            uint next = from + LANES_H * ${STEPS}u;
            if (next < ${UNITS}u)
                dop_tail_fetch(h, first, next);
            else if (first + TEAMS_H * ${ROWS}u < ROWS_H)
                dop_tail_fetch(h, first + TEAMS_H * ${ROWS}u, lane);
        }
${@r ROWS}        {
            float z = y[$r];
#if SG > 1
            for (uint m = 1u; m < LANES_H; m *= 2u)
                z += subgroupShuffleXor(z, m);
#endif
            uint row = first + $ru * TEAMS_H;
            if (lane == 0u && row < ROWS_H) {
                uint c = h * ${N}u + row;
${STORE}            }
        }
${@}    }
}
