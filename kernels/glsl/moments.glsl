// The number of values of a group of columns in some rows, their mean, and the sum of their squared distances from it.  A workgroup has a
// group and a part of the rows; distances are first taken from one of the values, because sums of squares cancel out far from zero.
shared vec2 dop_sums[WG];
${DECLS}void main()
{
    uint group = gl_WorkGroupID.x, part = gl_WorkGroupID.y, rows = ${ROWS};
    uint span = (rows + PARTS - 1u) / PARTS, first = min(part * span, rows), end = min(first + span, rows);
    uint count = (end - first) * WIDE, at = min(first, rows - 1u);
    float near = dop_x1(at, group * WIDE);
    vec2 sums = vec2(0.0);
    for (uint i = gl_LocalInvocationIndex; i < count / LOAD; i += WG) {
        ${TYPE} x = dop_x(first + i / LOADS, group * WIDE + i % LOADS * LOAD) - near;
        sums += vec2(dot(x, ${TYPE}(1.0)), dot(x, x));
    }
    dop_sums[gl_LocalInvocationIndex] = sums;
    for (uint n = WG / 2u; n > 0u; n /= 2u) {
        barrier();
        if (gl_LocalInvocationIndex < n)
            dop_sums[gl_LocalInvocationIndex] += dop_sums[gl_LocalInvocationIndex + n];
    }
    if (gl_LocalInvocationIndex == 0u) {
        sums = dop_sums[0];
        float n = float(max(count, 1u));
        uint o = (part * GROUPS + group) * 3u;
        dop_st1_f32(${OUT}, o, float(count));
        dop_st1_f32(${OUT}, o + 1u, count > 0u ? near + sums.x / n : 0.0);
        dop_st1_f32(${OUT}, o + 2u, max(sums.y - sums.x * sums.x / n, 0.0));
    }
}
