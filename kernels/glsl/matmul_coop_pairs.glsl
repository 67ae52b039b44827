// Register-direct tiles: weights go from global memory to the registers of the subgroup that multiplies them; only
// activations are staged. The kernel fills the elements of the weight fragments itself. Elements are in pairs
// (DOP_CAP_coop_pairs): with g = lane / 4 and t = lane % 4, a lane has values 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of the depth,
// first those of column g, then those of g + 8.
// It does not matter which values of the depth these are, if they are the same in both factors. Of 32 floats a lane loads 8 t
// to 8 t + 7 at once, and uses four of them in each of two products. Of quantized weights it loads the t-th of an iteration's
// four units, so that addresses, loads and scales serve 32 values; a quarter of the iteration's products uses eight of them.
// Activations are stored in this order.
// It does not matter either which weight rows are the columns. They are chosen so that the sums of a lane, in columns 2 t, 2
// t + 1, 2 t + 8 and 2 t + 9 of each fragment, belong to OWN adjacent rows.
// Sets the weights of product s of two: X holds the lane's values of row g, Y those of g + 8.
#define DOP_PAIRS(FACTOR, X, Y, S)                                                                                  \
    [[unroll]] for (uint q = 0u; q < 2u; q++) {                                                                     \
        f16vec2 low = unpackFloat2x16((X)[2u * (S) + q]), high = unpackFloat2x16((Y)[2u * (S) + q]);                \
        FACTOR[2u * q] = low.x;                                                                                     \
        FACTOR[2u * q + 1u] = low.y;                                                                                \
        FACTOR[2u * q + 4u] = high.x;                                                                               \
        FACTOR[2u * q + 5u] = high.y;                                                                               \
    }
// Checks that the elements of weights and of sums are in the positions that this kernel assumes. No driver documents them, so
// one workgroup of each dispatch checks them, and the host refuses the results if the check fails (DOP_STEP_UNPAIRED).
void dop_check_pairs(Step step)
{
    if (gl_WorkGroupID.x + gl_WorkGroupID.y != 0u)
        return;
    const uint lane = gl_LocalInvocationIndex;
    if (lane < 2u * MM) // element (r, k) of the factors is 16 r + k
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            dop_s[lane][i] = packHalf2x16(vec2(lane * 8u + 2u * i, lane * 8u + 2u * i + 1u));
    if (lane < 4u * MM) // and so is the addend of their product
        dop_s[2u * MM + lane] = floatBitsToUint(vec4(lane * 4u) + vec4(0.0, 1.0, 2.0, 3.0));
    barrier();
    FRAG_A a;
    FRAG_B b;
    FRAG sums;
    coopMatLoadNV(a, dop_s, 0u, 2u, false);
    coopMatLoadNV(b, dop_s, 0u, 2u, true);
    coopMatLoadNV(sums, dop_s, 2u * MM, 4u, false);
    // A matrix that no product uses would become an accumulator.
    sums = coopMatMulAddNV(a, b, sums);
    bool right = b.length() == 8 && sums.length() == 8;
    [[unroll]] for (uint e = 0u; e < 8u; e++) {
        uint r = lane % SG / 4u + e / 4u * 8u, c = lane % 4u * 2u + e / 2u % 2u * 8u + e % 2u; // b: column and depth
        // The sum of (16 r + k) (16 c + k) over k is 4096 r c + 1920 (r + c) + 1240.
        right = right && float(b[e]) == float(16u * r + c) &&
                sums[e] == float(4096u * r * c + 1920u * (r + c) + 1240u + 16u * r + c);
    }
    if (!right)
        atomicOr(step.flags, 2u);
    barrier();
}
