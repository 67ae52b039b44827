// Arg-max over a workgroup: the maximum of all invocations' values and its index, the lowest one among equal values. With
// MARGIN also the second largest value; each invocation has put its own into dop_next before. The results are in dop_best[0],
// dop_where[0] and dop_next[0], which the first invocation may read, and in its variables.
shared float dop_best[WG];
shared uint dop_where[WG];
#if defined(MARGIN) && MARGIN
shared float dop_next[WG];
#endif
void dop_largest(inout float best, inout uint where)
{
    const uint i = gl_LocalInvocationIndex;
    dop_best[i] = best;
    dop_where[i] = where;
    for (uint n = WG / 2u; n > 0u; n /= 2u) {
        barrier();
        if (i < n) {
            float b = dop_best[i + n];
            uint w = dop_where[i + n];
#if defined(MARGIN) && MARGIN
            dop_next[i] = max(max(dop_next[i], dop_next[i + n]), min(b, best));
#endif
            if (b > best || (b == best && w < where)) {
                best = b;
                where = w;
                dop_best[i] = b;
                dop_where[i] = w;
            }
        }
    }
}
