// Cache rows that are stored in quantized blocks (ir/graph/cache_row.h). `at` is a row's first word, c a column, `cols` the
// number of columns. A piece has eight values: their words, and the scale as f16 in the lower half of another word.
uint dop_block_scale(uint word, uint c) { return word >> ((c >> 1) & 16u); }
#ifdef DOP_CPU
vec4 dop_signed4(uint w)
{
    return vec4(ivec4(int(w << 24), int(w << 16), int(w << 8), int(w)) >> 24);
}
vec4 dop_nibbles4(uint w) { return vec4(ivec4(uvec4(w, w >> 4, w >> 8, w >> 12) & 15u)) - 8.0; }
vec4 dop_lo_nibbles(uint w) { return dop_nibbles4(w); }
vec4 dop_hi_nibbles(uint w) { return dop_nibbles4(w >> 16); }
#else
// Converts two values at once by placing them in the low mantissa bits of f16 1024. A signed byte has its top bit inverted
// there, so the result is 1152 above its value.
vec2 dop_low_bits(uint a) { return unpackHalf2x16(a | 0x64006400u); }
vec4 dop_signed4(uint w)
{
    vec2 a = unpackHalf2x16((w & 0x00ff00ffu) ^ 0x64806480u), b = unpackHalf2x16(((w >> 8) & 0x00ff00ffu) ^ 0x64806480u);
    return vec4(a.x, b.x, a.y, b.y) - 1152.0;
}
vec4 dop_lo_nibbles(uint w)
{
    return vec4(dop_low_bits(w & 0x000f000fu).x, dop_low_bits((w >> 4) & 0x000f000fu).x,
                dop_low_bits((w >> 8) & 0x000f000fu).x, dop_low_bits((w >> 12) & 0x000f000fu).x) - 1032.0;
}
vec4 dop_hi_nibbles(uint w)
{
    return vec4(dop_low_bits(w & 0x000f000fu).y, dop_low_bits((w >> 4) & 0x000f000fu).y,
                dop_low_bits((w >> 8) & 0x000f000fu).y, dop_low_bits((w >> 12) & 0x000f000fu).y) - 1032.0;
}
#endif

#define DOP_PIECE_q8_0 uvec3
uvec3 dop_ld8_q8_0(U32 p, uint at, uint c, uint cols)
{
    return uvec3(dop_ldw2(p, (at >> 1) + (c >> 3)), dop_block_scale(p.v[at + (cols >> 2) + (c >> 6)], c));
}
float dop_factor_q8_0(uvec3 w) { return unpackHalf2x16(w.z).x; }
vec4 dop_lo_q8_0(uvec3 w) { return dop_signed4(w.x); } // without the factor
vec4 dop_hi_q8_0(uvec3 w) { return dop_signed4(w.y); }

#define DOP_PIECE_q4_0 uvec2
uvec2 dop_ld8_q4_0(U32 p, uint at, uint c, uint cols)
{
    return uvec2(p.v[at + (c >> 3)], dop_block_scale(p.v[at + (cols >> 3) + (c >> 6)], c));
}
float dop_factor_q4_0(uvec2 w) { return unpackHalf2x16(w.y).x; }
vec4 dop_lo_q4_0(uvec2 w) { return dop_lo_nibbles(w.x); }
vec4 dop_hi_q4_0(uvec2 w) { return dop_hi_nibbles(w.x); }
// Load four values of either type.
vec4 dop_ld4_q8_0(U32 p, uint at, uint c, uint cols)
{
    uint d = dop_block_scale(p.v[at + (cols >> 2) + (c >> 6)], c);
    return unpackHalf2x16(d).x * dop_signed4(p.v[at + (c >> 2)]);
}
vec4 dop_ld4_q4_0(U32 p, uint at, uint c, uint cols)
{
    uvec2 w = dop_ld8_q4_0(p, at, c, cols);
    return dop_factor_q4_0(w) * ((c & 4u) != 0u ? dop_hi_q4_0(w) : dop_lo_q4_0(w));
}

// Scale of a block before rounding, from its maximum and minimum including zero; and the quantized values.
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
// Returns the scale in its stored form, f16.
uint dop_rounded(float d) { return packHalf2x16(vec2(d, 0.0)); }

uvec4 dop_halves(float d, vec4 a, vec4 b)
{
    a *= d;
    b *= d;
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
// Quantize eight values a, b of a block in shared memory.
uvec3 dop_make8_q8_0(float most, float least, vec4 a, vec4 b)
{
    float d = dop_scale_q8_0(most, least), inverse = dop_inverse(d);
    return uvec3(dop_bytes_q8_0(a, inverse), dop_bytes_q8_0(b, inverse), dop_rounded(d));
}
uvec2 dop_make8_q4_0(float most, float least, vec4 a, vec4 b)
{
    float d = dop_scale_q4_0(most, least), inverse = dop_inverse(d);
    return uvec2(dop_bits_q4_0(a, inverse) | dop_bits_q4_0(b, inverse) << 16, dop_rounded(d));
}

// Store four values from column c on. Eight adjacent invocations share a block, and all of them must call this.
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
