    // Matrices of one shape of work, ROWS rows at a time: the activations of a step stay in registers for all of them, the
    // sums of every lane lie in shared memory.
    [[dont_unroll]] for (uint b = gl_WorkGroupID.x; b < ${BLOCKS}u; b += gl_NumWorkGroups.x) {
${SELECT}        uint row = (b - base) * ROWS, count = min(ROWS, rows - row);
        [[dont_unroll]] for (uint i = LANE; i < ${M}u * ROWS * (TB / 4u) * WG; i += WG)
            dop_part[i] = vec4(0.0);
        [[dont_unroll]] for (uint v0 = 0u; v0 < ${UNITS}u; v0 += WG) {
            uint v = v0 + LANE;
${STAGE}            if (v >= ${UNITS}u)
                continue;
            vec4 x[TB][${U} / 4];
            [[unroll]] for (uint j = 0u; j < TB; j++)
                [[unroll]] for (uint q = 0u; q < ${U}u / 4u; q++)
                    x[j][q] = dop_x[${X}];
            [[dont_unroll]] for (uint r = 0u; r < count; r++) {
                float acc[TB * ${M}u];
                [[unroll]] for (uint i = 0u; i < TB * ${M}u; i++)
                    acc[i] = 0.0;
${DOTS}                [[unroll]] for (uint i = 0u; i < TB * ${M}u; i += 4u)
                    dop_part[((i / TB * ROWS + r) * (TB / 4u) + i % TB / 4u) * WG + LANE] +=
                        vec4(acc[i], acc[i + 1u], acc[i + 2u], acc[i + 3u]);
            }
        }
        DOP_STEP();
        [[dont_unroll]] for (uint p = LANE; p < count * (TB / 4u); p += WG) {
            uint r = p / (TB / 4u), c = row + r;
            vec4 sum[${M}];
            [[unroll]] for (uint m = 0u; m < ${M}u; m++) {
                sum[m] = vec4(0.0);
                [[dont_unroll]] for (uint i = 0u; i < WG; i++)
                    sum[m] += dop_part[((m * ROWS + r) * (TB / 4u) + p % (TB / 4u)) * WG + i];
            }
            [[dont_unroll]] for (uint k = 0u; k < 4u; k++) {
                uint j = p % (TB / 4u) * 4u + k, t = t0 + j;
                if (t < n_tokens) {
                    float y[${M}];
                    [[unroll]] for (uint m = 0u; m < ${M}u; m++)
                        y[m] = sum[m][k];
${STORE}                }
            }
        }
        DOP_STEP();
    }
