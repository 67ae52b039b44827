// Arg-max of a workgroup: the largest of all invocations' values and its index, the lowest index among equal values.  With MARGIN also the
// largest of the other values, of which an invocation has put its own into dop_next before.  Leaves them in dop_best[0], dop_where[0]
// and dop_next[0], for the first invocation to read, which also has them in its variables.
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
