// Float weights have one plane, with units of 8 values.
struct dop_raw_f32 { vec4 a, b; };
float dop_w1_f32(DOP_W p, uint i, uint aux) { return uintBitsToFloat(dop_ldw1(p, i)); }
vec4 dop_w4_f32(DOP_W p, uint i, uint aux) { return uintBitsToFloat(dop_ldw4(p, i >> 2)); }
dop_raw_f32 dop_wload_f32(DOP_W p, uint u, uint aux)
{
    return dop_raw_f32(uintBitsToFloat(dop_unit4(p, 2u * u)), dop_w4_f32(p, 8u * u + 4u, 0u));
}
float dop_wdot_f32(dop_raw_f32 q, vec4 x[2]) { return dot(q.a, x[0]) + dot(q.b, x[1]); }

#define dop_raw_f16 uvec4
float dop_w1_f16(DOP_W p, uint i, uint aux) { return unpackHalf2x16(dop_ldw1(p, i >> 1))[i & 1u]; }
vec4 dop_w4_f16(DOP_W p, uint i, uint aux) { return dop_f16x4(dop_ldw2(p, i >> 2)); }
uvec4 dop_wload_f16(DOP_W p, uint u, uint aux) { return dop_unit4(p, u); }
float dop_wdot_f16(uvec4 q, vec4 x[2]) { return dot(dop_f16x4(q.xy), x[0]) + dot(dop_f16x4(q.zw), x[1]); }

#define dop_raw_bf16 uvec4
float dop_w1_bf16(DOP_W p, uint i, uint aux) { return dop_bf16x4(dop_ldw2(p, i >> 2))[i & 3u]; }
vec4 dop_w4_bf16(DOP_W p, uint i, uint aux) { return dop_bf16x4(dop_ldw2(p, i >> 2)); }
uvec4 dop_wload_bf16(DOP_W p, uint u, uint aux) { return dop_unit4(p, u); }
float dop_wdot_bf16(uvec4 q, vec4 x[2]) { return dot(dop_bf16x4(q.xy), x[0]) + dot(dop_bf16x4(q.zw), x[1]); }
