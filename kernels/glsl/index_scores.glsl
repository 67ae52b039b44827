// Index scores of positions (index_scores of ir/ops.def). A workgroup has some positions of one row of the step. Each of its
// invocations multiplies one key by the queries of all heads, HS heads at a time.
#define KV 1u
shared vec4 dop_q[HS * D / 4u];
shared float dop_w[H];
${DECLS}
void main()
{
    uint t = gl_WorkGroupID.y;
    if (t >= ${N_TOKENS})
        return;
    const uint kvh = 0u;
    uint last = ${POSITION}, p = gl_WorkGroupID.x * WG + gl_LocalInvocationIndex;
    float sum = 0.0;
    if (gl_WorkGroupID.x * WG <= last) {
${SEQUENCE}        DOP_RING_FROM(0u);
#if STEP == 8
        uint at = DOP_ROW_K(min(p, last));
#else
        uint at = DOP_AT_K(min(p, last));
#endif
        for (uint i = gl_LocalInvocationIndex; i < H; i += WG) {
${LOAD_W}        }
        for (uint first = 0u; first < H; first += HS) {
            barrier();
            for (uint i = gl_LocalInvocationIndex * WIDTH; i < HS * D; i += WG * WIDTH) {
                uint c = first * D + i;
    ${LOAD_Q}            }
            barrier();
            float s[HS];
            [[unroll]] for (uint j = 0u; j < HS; j++)
                s[j] = 0.0;
            for (uint d = 0u; d < D; d += STEP) {
#if STEP == 8
                DOP_PIECE_K kw = DOP_LD_K(at, d >> 3);
                vec4 k0 = DOP_SCALED_K(kw, DOP_LO_K(kw)), k1 = DOP_SCALED_K(kw, DOP_HI_K(kw));
                [[unroll]] for (uint j = 0u; j < HS; j++)
                    s[j] += dot(k0, dop_q[(j * D + d) >> 2]) + dot(k1, dop_q[((j * D + d) >> 2) + 1u]);
#else
                vec4 k = DOP_LD4_K(at, d);
                [[unroll]] for (uint j = 0u; j < HS; j++)
                    s[j] += dot(k, dop_q[(j * D + d) >> 2]);
#endif
            }
            [[unroll]] for (uint j = 0u; j < HS; j++)
                sum += dop_w[first + j] * max(s[j], 0.0);
        }
    }
    if (p < COLS)
        dop_st1_f32(${OUT}, t * COLS + p, p <= last ? ${SCALE} * sum : 0.0);
}
