// Per-head products: multiplies HEADS_H heads from h on by their matrices, with N_H sums per head over K_H values, which
// workgroups of this dispatch have made. All invocations of a workgroup must call this when the heads are complete. LANES_H
// lanes share a row. They load RUN_H rows and STEPS_H steps at a time to hide the latency of loads. The first weights are
// loaded before the heads, because they do not depend on them.
#define TEAMS_H (WG / LANES_H)
shared vec4 dop_head[HEADS_H * K_PAD_H / 4u];
// Index of the q-th four values of unit u in head j.
#define DOP_HEAD_AT(j, q, u) ((j) * (K_PAD_H / 4u) + ${AT})
dop_raw_${TYPE} dop_rows[HELD_H];
void dop_tail_fetch(uint h, uint first, uint from)
{
    DOP_EACH(i, HELD_H) {
        uint row = min(first + i / STEPS_H * TEAMS_H, ROWS_H - 1u), head = h + row / N_H;
        uint u = min(from + i % STEPS_H * LANES_H, UNITS_H - 1u);
${AHEAD}        dop_rows[i] = dop_wload_${TYPE}(${W}, row % N_H * UNITS_H + u, ${AUX});
    }
}

void dop_tail(uint h)
{
    uint lane = gl_LocalInvocationIndex % LANES_H, first = gl_LocalInvocationIndex / LANES_H;
    dop_tail_fetch(h, first, lane);
    DOP_SYNC_H();
    for (uint i = gl_LocalInvocationIndex; i < HEADS_H * K_PAD_H / 4u; i += WG) {
        uint j = i / (K_PAD_H / 4u), four = i % (K_PAD_H / 4u), at = four * 4u, c = (h + j) * K_H + at;
        vec4 x = vec4(0.0);
        if (at < K_H) {
${LOAD}        }
        dop_head[DOP_HEAD_AT(j, four % (UNIT_H / 4u), four / (UNIT_H / 4u))] = x;
    }
    DOP_SYNC_H();
    for (; first < ROWS_H; first += TEAMS_H * RUN_H) {
        float y[RUN_H];
        DOP_EACH(r, RUN_H) y[r] = 0.0;
        for (uint from = lane; from < UNITS_H; from += LANES_H * STEPS_H) {
            DOP_EACH(s, STEPS_H) {
                uint u = min(from + s * LANES_H, UNITS_H - 1u);
                bool more = from + s * LANES_H < UNITS_H;
                vec4 x[UNIT_H / 4u];
#if HEADS_H == 1
                DOP_EACH(q, UNIT_H / 4u) x[q] = dop_head[DOP_HEAD_AT(0u, q, u)];
#endif
                DOP_EACH(r, RUN_H) {
#if HEADS_H > 1
                    DOP_EACH(q, UNIT_H / 4u)
                        x[q] = dop_head[DOP_HEAD_AT(min(first + r * TEAMS_H, ROWS_H - 1u) / N_H, q, u)];
#endif
                    float z = dop_wdot_${TYPE}(dop_rows[r * STEPS_H + s], x);
                    y[r] += more ? z : 0.0;
                }
            }
            uint next = from + LANES_H * STEPS_H;
            if (next < UNITS_H)
                dop_tail_fetch(h, first, next);
            else if (first + TEAMS_H * RUN_H < ROWS_H)
                dop_tail_fetch(h, first + TEAMS_H * RUN_H, lane);
        }
        DOP_EACH(r, RUN_H) {
            float z = y[r];
#if SG > 1
            for (uint m = 1u; m < LANES_H; m *= 2u)
                z += subgroupShuffleXor(z, m);
#endif
            uint row = first + r * TEAMS_H;
            if (lane == 0u && row < ROWS_H) {
                uint c = h * N_H + row;
${STORE}            }
        }
    }
}
