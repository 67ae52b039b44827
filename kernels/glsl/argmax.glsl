// Arg-max of one row (largest.glsl), or the index of a sampled value.
${DECLS}
#ifdef DOP_COLUMNS
// Samples a column as specified by dop_row_way of plan/plan_format.h. Among the columns left by top-k, top-p and min-p, picks
// the largest logit / temperature plus Gumbel noise, which is a sample from their softmax.
shared vec2 dop_sums[WG];
float dop_most;
// Maps a float to an unsigned number with the same order.
uint dop_key(float x)
{
    uint bits = floatBitsToUint(x);
    return (bits >> 31) != 0u ? ~bits : bits | 0x80000000u;
}
// Chris Wellons' lowbias32 (public domain).
uint dop_hash(uint x)
{
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}
// Returns the number of columns whose key is at least `least`, and the sum of their shares relative to the largest one (1).
vec2 dop_above(uint least)
{
    vec2 sum = vec2(0.0);
    for (uint c = gl_LocalInvocationIndex; c < DOP_COLUMNS; c += WG) {
        float x = dop_column(c);
        if (dop_key(x) >= least)
            sum += vec2(1.0, exp(x - dop_most));
    }
    barrier();
    dop_sums[gl_LocalInvocationIndex] = sum;
    for (uint n = WG / 2u; n > 0u; n /= 2u) {
        barrier();
        if (gl_LocalInvocationIndex < n)
            dop_sums[gl_LocalInvocationIndex] += dop_sums[gl_LocalInvocationIndex + n];
    }
    barrier();
    return dop_sums[0];
}
// Returns the cut of top-k (part 0) or top-p (part 1) sampling by bisection: the smallest key of the fewest columns whose
// number, or sum of shares, is `enough`.
uint dop_cut(uint low, uint part, float enough)
{
    uint high = dop_key(dop_most) + 1u;
    float n_low = 4e9, n_high = 0.0;
    while (high - low > 1u && n_low - n_high > 1.0) {
        uint middle = low + (high - low) / 2u;
        vec2 s = dop_above(middle);
        if (s[part] >= enough) {
            low = middle;
            n_low = s.x;
        } else {
            high = middle;
            n_high = s.x;
        }
    }
    return low;
}
// Samples a column for the row whose sampling parameters are at word `way` of the step record. Every invocation must call
// this.
void dop_draw(U32 step, uint way, uint position)
{
    barrier();
    dop_most = dop_best[0];
    uint none = dop_where[0];
    barrier();
    if (dop_most > 3.4e38 || none == 0xffffffffu)
        return;
    uint low = dop_key(-3.3e38), k = step.v[way + 3u];
    float p = uintBitsToFloat(step.v[way + 2u]), by = uintBitsToFloat(step.v[way]);
    float least = dop_most + uintBitsToFloat(step.v[way + 1u]);
    if (k > 0u)
        low = dop_cut(low, 0u, float(k));
    if (p < 1.0)
        low = dop_cut(low, 1u, p * dop_above(low).y);
    uint seed = dop_hash(step.v[way + 4u] + dop_hash(step.v[way + 5u] + dop_hash(position))), at = 0xffffffffu;
    float best = -3.4e38;
    for (uint c = gl_LocalInvocationIndex; c < DOP_COLUMNS; c += WG) {
        float x = dop_column(c);
        if (dop_key(x) < low || (x < least && x != dop_most))
            continue;
        float u = (float(dop_hash(dop_hash(c ^ seed) + seed) >> 9) + 0.5) / 8388608.0;
        float score = (x - dop_most) * by - log(-log(u));
        if (score > best) {
            best = score;
            at = c;
        }
    }
    dop_largest(best, at);
}
#endif
void main()
{
    float best = -3.4e38, next = -3.4e38;
    uint at = 0xffffffffu;
    uint part = gl_WorkGroupID.x, t = gl_WorkGroupID.y;
${SCAN}#if MARGIN
    dop_next[gl_LocalInvocationIndex] = next;
#endif
    dop_largest(best, at);
${MEET}${DRAW}    if (gl_LocalInvocationIndex == 0u) {
        best = dop_best[0];
        at = dop_where[0];
${STORE}    }
}
