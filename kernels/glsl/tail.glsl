// The product of head h with its matrix: ${N} sums over ${K} values, which workgroups of this dispatch made before.  All
// invocations of a workgroup call, when the head is complete.  LANES_H lanes share a row, and have as many rows and steps of
// them on their way at once as hide the latency of loads.
shared vec4 dop_head[${K_PAD} / 4];
void dop_tail(uint h)
{
    const uint LANES_H = ${LANES}u, TEAMS_H = WG / LANES_H;
    uint lane = gl_LocalInvocationIndex % LANES_H;
    ${SYNC};
    for (uint i = gl_LocalInvocationIndex; i < ${K_PAD}u / 4u; i += WG) {
        vec4 x = vec4(0.0);
        if (i < ${K}u / 4u) {
            uint c = h * ${K}u + i * 4u;
${LOAD}        }
        dop_head[i] = x;
    }
    ${SYNC};
    U32 w = ${MATRIX};
    for (uint first = gl_LocalInvocationIndex / LANES_H; first < ${N}u; first += TEAMS_H * ${ROWS}u) {
        float y[${ROWS}];
        [[unroll]] for (uint r = 0u; r < ${ROWS}u; r++)
            y[r] = 0.0;
        for (uint from = lane; from < ${UNITS}u; from += LANES_H * ${STEPS}u) {
            dop_raw_${TYPE} q[${ROWS} * ${STEPS}];
            [[unroll]] for (uint i = 0u; i < ${ROWS}u * ${STEPS}u; i++) {
                uint row = min(first + i / ${STEPS}u * TEAMS_H, ${N}u - 1u);
                uint u = min(from + i % ${STEPS}u * LANES_H, ${UNITS}u - 1u);
                q[i] = dop_wload_${TYPE}(w, row * ${UNITS}u + u, ${AUX});
            }
            [[unroll]] for (uint s = 0u; s < ${STEPS}u; s++) {
                uint u = from + s * LANES_H;
                if (u >= ${UNITS}u)
                    break;
                vec4 x[${UNIT} / 4];
                [[unroll]] for (uint k = 0u; k < ${UNIT}u / 4u; k++)
                    x[k] = dop_head[u * (${UNIT}u / 4u) + k];
                [[unroll]] for (uint r = 0u; r < ${ROWS}u; r++)
                    y[r] += dop_wdot_${TYPE}(q[r * ${STEPS}u + s], x);
            }
        }
        [[unroll]] for (uint r = 0u; r < ${ROWS}u; r++) {
            float z = y[r];
#if SG > 1
            for (uint m = 1u; m < LANES_H; m *= 2u)
                z += subgroupShuffleXor(z, m);
#endif
            uint row = first + r * TEAMS_H;
            if (lane == 0u && row < ${N}u) {
                uint c = h * ${N}u + row;
${STORE}            }
        }
    }
}
