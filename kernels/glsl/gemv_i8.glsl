// Staging of the activation in int8 (types/int.glsl has the format): XI_UNITS units of 32 values. dop_xq has words 0..3 of
// all units, then words 4..7, so that adjacent invocations read adjacent 16 bytes. Words are stored as bits of floats,
// because the stages of a persistent dispatch share memory of one type.
shared vec4 dop_xq[2u * XI_UNITS];
shared vec2 dop_xds[XI_UNITS];
dop_xi dop_xi_get(uint v) { return dop_xi(floatBitsToUint(dop_xq[v]), floatBitsToUint(dop_xq[XI_UNITS + v]), dop_xds[v]); }
// Returns 127 / (maximum of a unit). A unit whose values are all 0, or almost, becomes zeros.
float dop_xi_scale(float top) { return top > 1e-30 ? 127.0 / top : 0.0; }
// Returns a word with a in byte 0 and b in byte 2.
uint dop_xi_pair(int a, int b) { return (uint(a) & 255u) | (uint(b) & 255u) << 16; }
// Returns the nearest integer to x * scale, in 8 bits. Adding 1.5 * 2^23 to a float leaves the integer in its low bits.
// Converting floats to integers would run at a quarter of the rate of additions, or less. `precise` keeps the product rounded
// before the addition.
uint dop_xi_low_byte(float x, float scale)
{
    precise float y = x * scale;
    precise float z = y + 12582912.0;
    return floatBitsToUint(z) & 255u;
}
uint dop_xi_word(float a, float b, float c, float d, float scale)
{
    return (dop_xi_low_byte(a, scale) | dop_xi_low_byte(b, scale) << 8) |
           (dop_xi_low_byte(c, scale) << 16 | dop_xi_low_byte(d, scale) << 24);
}
#if SG > 1
// Quantizes and stores values 4i .. 4i+3. The eight invocations of a unit are adjacent in a subgroup and must call this
// together.
void dop_xi_put(uint i, vec4 x)
{
    float top = max(max(abs(x.x), abs(x.y)), max(abs(x.z), abs(x.w)));
    top = max(top, subgroupShuffleXor(top, 1u));
    top = max(top, subgroupShuffleXor(top, 2u));
    top = max(top, subgroupShuffleXor(top, 4u));
    uint v = i >> 3, word = dop_xi_word(x.x, x.z, x.y, x.w, dop_xi_scale(top));
    float sum = 0.0;
#ifndef DOP_XI_BYTES // bytes need no sum
    int n = DOP_SDOT(word, 0x01010101u);
    n += subgroupShuffleXor(n, 1u);
    n += subgroupShuffleXor(n, 2u);
    n += subgroupShuffleXor(n, 4u);
    sum = top * (1.0 / 127.0) * float(n);
    // Each of two neighbors has half of two words: it keeps the half of its own word and sends the other half.
    bool odd = (i & 1u) != 0u;
    uint low = word & 0x00ff00ffu, high = (word >> 8) & 0x00ff00ffu;
    uint mine = odd ? high << 8 : low, others = odd ? low << 8 : high;
    word = mine | subgroupShuffleXor(others, 1u);
#endif
    dop_xq[((i >> 2) & 1u) * XI_UNITS + v][i & 3u] = uintBitsToFloat(word);
    if ((i & 7u) == 0u)
        dop_xds[v] = vec2(top * (1.0 / 127.0), sum);
}
#endif
