// Products of one unit of weights with activations: dop_dot_TYPE(weights, unit, activations of that unit).
// A unit is what one invocation loads at once; DOP_UNIT of kernels/weight_types.c gives its values.
float dop_dot_f32(U32 p, uint u, vec4 x[2])
{
    F32x4 w = F32x4(p);
    return dot(w.v[2u * u], x[0]) + dot(w.v[2u * u + 1u], x[1]);
}
float dop_dot_f16(U32 p, uint u, vec4 x[2])
{
    uvec4 q = U32x4(p).v[u];
    return dot(dop_f16x4(q.xy), x[0]) + dot(dop_f16x4(q.zw), x[1]);
}
float dop_dot_bf16(U32 p, uint u, vec4 x[2])
{
    uvec4 q = U32x4(p).v[u];
    return dot(dop_bf16x4(q.xy), x[0]) + dot(dop_bf16x4(q.zw), x[1]);
}
