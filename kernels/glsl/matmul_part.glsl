void dop_part${P}(uint wg, uint t0)
{
    uint n0 = wg * BN;
    uint tx = gl_LocalInvocationIndex % (BN / TN), ty = gl_LocalInvocationIndex / (BN / TN);
    float acc[${M} * TM * TN];
    for (uint i = 0u; i < ${M}u * TM * TN; i++)
        acc[i] = 0.0;
${STATS_INIT}    for (uint k0 = 0u; k0 < ${K}; k0 += BK) {
        for (uint i = gl_LocalInvocationIndex; i < BM * BK / 4u; i += WG) {
            uint m = i / (BK / 4u), k = (i % (BK / 4u)) * 4u, t = ${LOAD_ROW}, c = k0 + k;
            vec4 x = vec4(0.0);
            if (t < ${N_TOKENS} && c < ${K}) {
${LOAD}            }
            for (uint j = 0u; j < 4u; j++)
                dop_a[(k + j) * (BM + 1u) + m] = x[j];
        }
${LOAD_B}        barrier();
        for (uint k = 0u; k < BK; k++) {
            float a[TM], b[${M} * TN];
            for (uint i = 0u; i < TM; i++)
                a[i] = dop_a[k * (BM + 1u) + ty * TM + i];
            for (uint m = 0u; m < ${M}u; m++)
                for (uint j = 0u; j < TN; j++)
                    b[m * TN + j] = dop_b[(m * BK + k) * (BN + 1u) + tx * TN + j];
            for (uint m = 0u; m < ${M}u; m++)
                for (uint i = 0u; i < TM; i++)
                    for (uint j = 0u; j < TN; j++)
                        acc[(m * TM + i) * TN + j] += a[i] * b[m * TN + j];
        }
        barrier();
    }
${STATS_DONE}    for (uint i = 0u; i < TM; i++) {
${STATS_ROW}        for (uint j = 0u; j < TN; j++) {
            uint t = ${STORE_ROW}, c = n0 + tx * TN + j;
            if (t < ${N_TOKENS} && c < ${N}u) {
${STORE}            }
        }
    }
}
