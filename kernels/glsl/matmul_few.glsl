// A group of TS subgroups has one of SHARES shares of the depth, and loads DEEP values of it together; AHEAD tiles are on their way.
// EACH (matmul_own_part.glsl): the last step loads what it has once more, which needs no branch around loads.
#define TS (WG / SG / SHARES)
vec4 dop_shares4(uint i)
{
    vec4 x = vec4(0.0);
    [[unroll]] for (uint k = 0u; k < SHARES; k++)
        x += dop_c4(i + k * TS * MM * LS);
    return x;
}
float dop_shares1(uint i)
{
    float x = 0.0;
    [[unroll]] for (uint k = 0u; k < SHARES; k++)
        x += dop_c1(i + k * TS * MM * LS);
    return x;
}
#define DOP_SUM4(M, E) dop_shares4(DOP_SUM_AT(M, E))
#define DOP_SUM1(M, E) dop_shares1(DOP_SUM_AT(M, E))
