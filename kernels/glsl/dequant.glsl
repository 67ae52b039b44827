// A matrix of weights as f16 or f32 values: an invocation makes V neighbouring ones of a row at a time.
void main()
{
    [[dont_unroll]] for (uint i = gl_GlobalInvocationID.x; i < ${COUNT}; i += gl_NumWorkGroups.x * WG) {
        uint at = ${AT};
        [[unroll]] for (uint j = 0u; j < V; j += 8u) {
            vec4 a = dop_w4_${TYPE}(${W}, at + j, ${AUX}), b = dop_w4_${TYPE}(${W}, at + j + 4u, ${AUX});
            uint to = i * V + j;
${STORE}        }
    }
}
