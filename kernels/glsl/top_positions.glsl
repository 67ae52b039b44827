// Finds the positions of a row with the K largest scores, in ascending order (top_positions of ir/ops.def), in one workgroup.
// A radix selection finds the K-th largest score. From the highest digit on, it counts the values of an eight-bit digit among
// the scores that agree with the threshold in the higher digits. Then each invocation walks over a share of the positions.
shared uint dop_found[256];   // number of scores per value of the digit
shared uint dop_state[2];     // digits of the threshold so far; number of scores equal to them still needed
shared uint dop_above[WG];    // scores above the threshold in the shares up to this one
shared uint dop_equal[WG];    // scores equal to the threshold in the same shares
// Maps a score to a number with the same order; both zeros are equal.
uint dop_order(float x)
{
    uint u = x == 0.0 ? 0u : floatBitsToUint(x);
    return (u & 0x80000000u) != 0u ? ~u : u | 0x80000000u;
}
uint dop_score(uint t, uint i)
{
${SCORE}}
void main()
{
    uint t = gl_WorkGroupID.x, me = gl_LocalInvocationIndex;
    if (t >= ${N_TOKENS})
        return;
    uint n = ${POSITION} + 1u, row = t * K;
    if (n <= K) {
        for (uint i = me; i < K; i += WG)
            ${OUT}.v[row + i] = i < n ? i : COLS;
        return;
    }
    if (me == 0u) {
        dop_state[0] = 0u;
        dop_state[1] = K;
    }
    for (uint shift = 24u; shift < 32u; shift -= 8u) { // ends when it underflows
        for (uint i = me; i < 256u; i += WG)
            dop_found[i] = 0u;
        barrier();
        uint before = dop_state[0];
        for (uint i = me; i < n; i += WG) {
            uint x = dop_score(t, i);
            if (shift == 24u || x >> (shift + 8u) == before)
                atomicAdd(dop_found[(x >> shift) & 255u], 1u);
        }
        barrier();
        if (me == 0u) {
            uint digit = 255u, wanted = dop_state[1];
            while (digit > 0u && dop_found[digit] < wanted)
                wanted -= dop_found[digit--];
            dop_state[0] = before << 8 | digit;
            dop_state[1] = wanted;
        }
        barrier();
    }
    uint threshold = dop_state[0], wanted = dop_state[1], len = (n + WG - 1u) / WG;
    uint from = min(me * len, n), end = min(from + len, n), above = 0u, equal = 0u;
    for (uint i = from; i < end; i++) {
        uint x = dop_score(t, i);
        above += uint(x > threshold);
        equal += uint(x == threshold);
    }
    dop_above[me] = above;
    dop_equal[me] = equal;
    barrier();
    for (uint far = 1u; far < WG; far *= 2u) { // prefix sums over the shares
        uint a = me >= far ? dop_above[me - far] : 0u, b = me >= far ? dop_equal[me - far] : 0u;
        barrier();
        dop_above[me] += a;
        dop_equal[me] += b;
        barrier();
    }
    above = dop_above[me] - above;
    equal = dop_equal[me] - equal;
    for (uint i = from; i < end; i++) {
        uint x = dop_score(t, i);
        bool is = x == threshold;
        if (x > threshold || (is && equal < wanted))
            ${OUT}.v[row + above + min(equal, wanted)] = i;
        above += uint(x > threshold);
        equal += uint(is);
    }
}
