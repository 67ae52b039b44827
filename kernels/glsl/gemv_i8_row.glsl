// Stages the row as f32 first, if it is not computed four values at a time, or without subgroup operations.
shared vec4 dop_x[8u * XI_UNITS];
#define DOP_X_PUT(i, x) dop_x[i] = x
#define DOP_X_PUT1(i, x) dop_x[(i) >> 2][(i) & 3u] = x
void dop_xi_row()
{
#if SG > 1
    for (uint i = gl_LocalInvocationIndex; i < 8u * XI_UNITS; i += WG)
        dop_xi_put(i, dop_x[i]);
#else
    for (uint v = gl_LocalInvocationIndex; v < XI_UNITS; v += WG) {
        vec4 most = vec4(0.0);
        for (uint j = 0u; j < 8u; j++)
            most = max(most, abs(dop_x[8u * v + j]));
        float top = max(max(most.x, most.y), max(most.z, most.w));
        int sum = 0;
        for (uint j = 0u; j < 8u; j += 2u) {
            ivec4 a = ivec4(roundEven(dop_x[8u * v + j] * dop_xi_scale(top)));
            ivec4 b = ivec4(roundEven(dop_x[8u * v + j + 1u] * dop_xi_scale(top)));
            sum += ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
#ifdef DOP_XI_BYTES
            uint w0 = dop_xi_pair(a.x, a.y) | dop_xi_pair(a.z, a.w) << 8;
            uint w1 = dop_xi_pair(b.x, b.y) | dop_xi_pair(b.z, b.w) << 8;
#else
            uint w0 = dop_xi_pair(a.x, a.y) | dop_xi_pair(b.x, b.y) << 8;
            uint w1 = dop_xi_pair(a.z, a.w) | dop_xi_pair(b.z, b.w) << 8;
#endif
            uint at = (j >> 2) * XI_UNITS + v;
            dop_xq[at][j & 3u] = uintBitsToFloat(w0);
            dop_xq[at][(j & 3u) + 1u] = uintBitsToFloat(w1);
        }
        dop_xds[v] = vec2(top * (1.0 / 127.0), top * (1.0 / 127.0) * float(sum));
    }
#endif
}
