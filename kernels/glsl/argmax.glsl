// The largest value of one row and its index; among equals the lowest index.
shared float dop_best[WG];
shared uint dop_where[WG];
${DECLS}
void main()
{
    float best = -3.4e38;
    uint at = 0xffffffffu;
    uint part = gl_WorkGroupID.x, t = gl_WorkGroupID.y;
${SCAN}    dop_best[gl_LocalInvocationIndex] = best;
    dop_where[gl_LocalInvocationIndex] = at;
    for (uint n = WG / 2u; n > 0u; n /= 2u) {
        barrier();
        if (gl_LocalInvocationIndex < n) {
            float b = dop_best[gl_LocalInvocationIndex + n];
            uint w = dop_where[gl_LocalInvocationIndex + n];
            if (b > dop_best[gl_LocalInvocationIndex] ||
                (b == dop_best[gl_LocalInvocationIndex] && w < dop_where[gl_LocalInvocationIndex])) {
                dop_best[gl_LocalInvocationIndex] = b;
                dop_where[gl_LocalInvocationIndex] = w;
            }
        }
    }
    if (gl_LocalInvocationIndex == 0u) {
        best = dop_best[0];
        at = dop_where[0];
${STORE}    }
}
