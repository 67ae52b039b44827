// Rows of caches that are stored in blocks (ir/cache_row.h): `at` is a row's first word, c a column, `cols` how many the
// row has.  Eight values at once are their words and the word that has the scale.
float dop_block_scale(uint word, uint c) { return unpackHalf2x16(word)[(c >> 5) & 1u]; }
vec4 dop_signed4(uint w)
{
    return vec4(ivec4(int(w << 24), int(w << 16), int(w << 8), int(w)) >> 24);
}
vec4 dop_nibbles4(uint w) { return vec4(uvec4(w, w >> 4, w >> 8, w >> 12) & 15u) - 8.0; }

#define DOP_PIECE_q8_0 uvec3
uvec3 dop_ld8_q8_0(U32 p, uint at, uint c, uint cols)
{
    float d = dop_block_scale(p.v[at + (cols >> 2) + (c >> 6)], c);
    return uvec3(dop_ldw2(p, (at >> 1) + (c >> 3)), floatBitsToUint(d));
}
vec4 dop_lo_q8_0(uvec3 w) { return uintBitsToFloat(w.z) * dop_signed4(w.x); }
vec4 dop_hi_q8_0(uvec3 w) { return uintBitsToFloat(w.z) * dop_signed4(w.y); }
vec4 dop_ld4_q8_0(U32 p, uint at, uint c, uint cols)
{
    return dop_block_scale(p.v[at + (cols >> 2) + (c >> 6)], c) * dop_signed4(p.v[at + (c >> 2)]);
}

#define DOP_PIECE_q4_0 uvec2
uvec2 dop_ld8_q4_0(U32 p, uint at, uint c, uint cols)
{
    return uvec2(p.v[at + (c >> 3)], floatBitsToUint(dop_block_scale(p.v[at + (cols >> 3) + (c >> 6)], c)));
}
vec4 dop_lo_q4_0(uvec2 w) { return uintBitsToFloat(w.y) * dop_nibbles4(w.x); }
vec4 dop_hi_q4_0(uvec2 w) { return uintBitsToFloat(w.y) * dop_nibbles4(w.x >> 16); }
vec4 dop_ld4_q4_0(U32 p, uint at, uint c, uint cols)
{
    uint w = p.v[at + (c >> 3)] >> ((c & 4u) * 4u);
    return dop_block_scale(p.v[at + (cols >> 3) + (c >> 6)], c) * dop_nibbles4(w);
}

// The scale of a block, from its largest and its smallest value and zero, before it is rounded; and what values become.
float dop_scale_q8_0(float most, float least) { return max(most, -least) / 127.0; }
float dop_scale_q4_0(float most, float least) { return (most >= -least ? most : least) / -8.0; }
float dop_inverse(float d) { return d != 0.0 ? 1.0 / d : 0.0; }
uint dop_bytes_q8_0(vec4 x, float inverse)
{
    uvec4 q = uvec4(ivec4(sign(x) * floor(abs(x * inverse) + 0.5))) & 255u;
    return q.x | q.y << 8 | q.z << 16 | q.w << 24;
}
uint dop_bits_q4_0(vec4 x, float inverse)
{
    uvec4 q = uvec4(clamp(floor(x * inverse + 8.5), 0.0, 15.0));
    return q.x | q.y << 4 | q.z << 8 | q.w << 12;
}
float dop_most(vec4 x) { return max(max(x.x, x.y), max(x.z, x.w)); }
// The scale as it is stored.
float dop_rounded(float d) { return unpackHalf2x16(packHalf2x16(vec2(d, 0.0))).x; }

uvec4 dop_halves(vec4 a, vec4 b)
{
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
// Eight values a, b of a block that lies in shared memory.
uvec3 dop_make8_q8_0(float most, float least, vec4 a, vec4 b)
{
    float d = dop_scale_q8_0(most, least), inverse = dop_inverse(d);
    return uvec3(dop_bytes_q8_0(a, inverse), dop_bytes_q8_0(b, inverse), floatBitsToUint(dop_rounded(d)));
}
uvec2 dop_make8_q4_0(float most, float least, vec4 a, vec4 b)
{
    float d = dop_scale_q4_0(most, least), inverse = dop_inverse(d);
    return uvec2(dop_bits_q4_0(a, inverse) | dop_bits_q4_0(b, inverse) << 16, floatBitsToUint(dop_rounded(d)));
}

// Stores four values from column c on.  Eight neighbouring invocations have a block, and all of them are here.
#if SG > 1 && defined(DOP_F16_STORAGE)
#define DOP_BLOCK_RANGE                                                                  \
    float most = max(dop_most(x), 0.0), least = min(-dop_most(-x), 0.0);                 \
    [[unroll]] for (uint i = 1u; i < 8u; i *= 2u) {                                      \
        most = max(most, subgroupShuffleXor(most, i));                                   \
        least = min(least, subgroupShuffleXor(least, i));                                \
    }
void dop_st4_q8_0(U32 p, uint at, uint c, uint cols, vec4 x)
{
    DOP_BLOCK_RANGE
    float d = dop_scale_q8_0(most, least);
    p.v[at + (c >> 2)] = dop_bytes_q8_0(x, dop_inverse(d));
    if ((c & 31u) == 0u)
        F16(p).v[2u * at + (cols >> 1) + (c >> 5)] = float16_t(d);
}
void dop_st4_q4_0(U32 p, uint at, uint c, uint cols, vec4 x)
{
    DOP_BLOCK_RANGE
    float d = dop_scale_q4_0(most, least);
    uint bits = dop_bits_q4_0(x, dop_inverse(d)), next = subgroupShuffleXor(bits, 1u);
    if ((c & 4u) == 0u)
        p.v[at + (c >> 3)] = bits | next << 16;
    if ((c & 31u) == 0u)
        F16(p).v[2u * at + (cols >> 2) + (c >> 5)] = float16_t(d);
}
#endif
