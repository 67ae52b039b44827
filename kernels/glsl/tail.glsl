// The products of ${HEADS} heads from h on with their matrices: ${N} sums each over ${K} values, which workgroups of this
// dispatch made before.  All invocations of a workgroup call, when the heads are complete.  LANES_H lanes share a row, and have as
// many rows and steps of them on their way at once as hide the latency of loads; the first before the heads are looked at.
#define LANES_H ${LANES}u
#define TEAMS_H (WG / LANES_H)
#define ROWS_H (${HEADS}u * ${N}u)
shared vec4 dop_head[${HEADS} * ${K_PAD} / 4];
void dop_tail_fetch(uint h, uint first, uint from, out dop_raw_${TYPE} q[${ROWS} * ${STEPS}])
{
    [[unroll]] for (uint i = 0u; i < ${ROWS}u * ${STEPS}u; i++) {
        uint row = min(first + i / ${STEPS}u * TEAMS_H, ROWS_H - 1u), head = h + row / ${N}u;
        uint u = min(from + i % ${STEPS}u * LANES_H, ${UNITS}u - 1u);
${AHEAD}        q[i] = dop_wload_${TYPE}(${MATRIX}, row % ${N}u * ${UNITS}u + u, ${AUX});
    }
}

void dop_tail(uint h)
{
    uint lane = gl_LocalInvocationIndex % LANES_H, first = gl_LocalInvocationIndex / LANES_H;
    dop_raw_${TYPE} q[${ROWS} * ${STEPS}], n[${ROWS} * ${STEPS}];
    dop_tail_fetch(h, first, lane, q);
    ${SYNC};
    for (uint i = gl_LocalInvocationIndex; i < ${HEADS}u * ${K_PAD}u / 4u; i += WG) {
        uint at = i % (${K_PAD}u / 4u) * 4u, c = (h + i / (${K_PAD}u / 4u)) * ${K}u + at;
        vec4 x = vec4(0.0);
        if (at < ${K}u) {
${LOAD}        }
        dop_head[i] = x;
    }
    ${SYNC};
    for (; first < ROWS_H; first += TEAMS_H * ${ROWS}u) {
        float y[${ROWS}];
        [[unroll]] for (uint r = 0u; r < ${ROWS}u; r++)
            y[r] = 0.0;
        for (uint from = lane; from < ${UNITS}u; from += LANES_H * ${STEPS}u) {
            uint next = from + LANES_H * ${STEPS}u;
            if (next < ${UNITS}u)
                dop_tail_fetch(h, first, next, n);
            else if (first + TEAMS_H * ${ROWS}u < ROWS_H)
                dop_tail_fetch(h, first + TEAMS_H * ${ROWS}u, lane, n);
            [[unroll]] for (uint i = 0u; i < ${ROWS}u * ${STEPS}u; i++) {
                uint u = from + i % ${STEPS}u * LANES_H, r = i / ${STEPS}u;
                uint at = (min(first + r * TEAMS_H, ROWS_H - 1u) / ${N}u * ${K_PAD}u + min(u, ${UNITS}u - 1u) * ${UNIT}u) / 4u;
                vec4 x[${UNIT} / 4];
                [[unroll]] for (uint k = 0u; k < ${UNIT}u / 4u; k++)
                    x[k] = dop_head[at + k];
                float z = dop_wdot_${TYPE}(q[i], x);
                y[r] += u < ${UNITS}u ? z : 0.0;
            }
            q = n;
        }
        [[unroll]] for (uint r = 0u; r < ${ROWS}u; r++) {
            float z = y[r];
#if SG > 1
            for (uint m = 1u; m < LANES_H; m *= 2u)
                z += subgroupShuffleXor(z, m);
#endif
            uint row = first + r * TEAMS_H;
            if (lane == 0u && row < ROWS_H) {
                uint c = h * ${N}u + row;
${STORE}            }
        }
    }
}
