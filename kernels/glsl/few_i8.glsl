// Quantizes values 8i .. 8i+7 of the rows to int8 in shared memory. A unit has 32 values, so its four invocations, which are
// adjacent in a subgroup, must call this together.
void dop_xi_put8(uint i, vec4 x, vec4 y)
{
    vec4 most = max(abs(x), abs(y));
    float top = max(max(most.x, most.y), max(most.z, most.w));
    top = max(top, subgroupShuffleXor(top, 1u));
    top = max(top, subgroupShuffleXor(top, 2u));
    float scale = dop_xi_scale(top);
#ifdef DOP_XI_BYTES
    uint v = dop_xi_word(x.x, x.z, x.y, x.w, scale), w = dop_xi_word(y.x, y.z, y.y, y.w, scale);
#else
    uint v = dop_xi_word(x.x, y.x, x.y, y.y, scale), w = dop_xi_word(x.z, y.z, x.w, y.w, scale);
#endif
    int sum = DOP_SDOT(v, 0x01010101u) + DOP_SDOT(w, 0x01010101u);
    sum += subgroupShuffleXor(sum, 1u);
    sum += subgroupShuffleXor(sum, 2u);
    uint unit = i >> 2, at = ((i >> 1) & 1u) * XI_UNITS + unit;
    if ((i & 1u) == 0u)
        dop_xq[at].xy = uintBitsToFloat(uvec2(v, w));
    else
        dop_xq[at].zw = uintBitsToFloat(uvec2(v, w));
    if ((i & 3u) == 0u)
        dop_xds[unit] = vec2(top * (1.0 / 127.0), top * (1.0 / 127.0) * float(sum));
}
