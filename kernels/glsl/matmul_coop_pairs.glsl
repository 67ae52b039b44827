#define DEEP BK
// Sets the weights of product s of two: X holds the lane's values of row g, Y those of g + 8.
#define DOP_PAIRS(FACTOR, X, Y, S)                                                                                  \
    [[unroll]] for (uint q = 0u; q < 2u; q++) {                                                                     \
        f16vec2 low = unpackFloat2x16((X)[2u * (S) + q]), high = unpackFloat2x16((Y)[2u * (S) + q]);                \
        FACTOR[2u * q] = low.x;                                                                                     \
        FACTOR[2u * q + 1u] = low.y;                                                                                \
        FACTOR[2u * q + 4u] = high.x;                                                                               \
        FACTOR[2u * q + 5u] = high.y;                                                                               \
    }
// Are the elements of weights where this kernel puts them?  No driver says so, so one workgroup of each dispatch looks, and
// the host refuses the results if they are not (DOP_STEP_UNPAIRED).
void dop_check_pairs()
{
    if (gl_WorkGroupID.x + gl_WorkGroupID.y != 0u)
        return;
    const uint lane = gl_LocalInvocationIndex;
    if (lane < 2u * MM) // element (r, k) is 16 r + k
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            dop_s[lane][i] = packHalf2x16(vec2(lane * 8u + 2u * i, lane * 8u + 2u * i + 1u));
    barrier();
    FRAG_A a;
    FRAG_B b;
    coopMatLoadNV(a, dop_s, 0u, 2u, false);
    coopMatLoadNV(b, dop_s, 0u, 2u, true);
    bool right = b.length() == 8;
    [[unroll]] for (uint e = 0u; e < 8u; e++) {
        float at = float((lane % SG / 4u + e / 4u * 8u) * 16u + lane % 4u * 2u + e / 2u % 2u * 8u + e % 2u);
        right = right && float(b[e]) == at;
    }
    // Products use them as well: a matrix that is only looked at would be one of sums.
    FRAG sums = coopMatMulAddNV(a, b, FRAG(0.0));
    if (!right || isnan(sums[0]))
        atomicOr(${STEP}.flags, 2u);
    barrier();
}
