// A few rows times matrices: every unit of weights is loaded and unpacked once, and meets R rows.  As in gemv.glsl LANES
// invocations share ${ROWS} neighbouring rows of the matrices and split K among them.  The activations of all rows lie in
// shared memory, a piece of K at a time.
#define R ${R}u
#define LANES ${LANES}u
#define TEAMS (WG / LANES)
#define LANE (gl_LocalInvocationIndex % LANES)
#define TEAM (gl_LocalInvocationIndex / LANES)
#define PIECE ${PIECE}u // units of a row in shared memory
${DECLS}
#if LANES_IN_SUBGROUP
float dop_team_sum(float x)
{
    for (uint m = 1u; m < LANES; m *= 2u)
        x += subgroupShuffleXor(x, m);
    return x;
}
#else
shared float dop_team[WG / SG];
float dop_team_sum(float x)
{
    x = subgroupAdd(x);
    barrier();
    if (gl_LocalInvocationIndex % SG == 0u)
        dop_team[gl_LocalInvocationIndex / SG] = x;
    barrier();
    x = 0.0;
    for (uint i = 0u; i < LANES / SG; i++)
        x += dop_team[TEAM * (LANES / SG) + i];
    return x;
}
#endif
// Columns c0 and on of every row.
void dop_stage(uint c0)
{
    for (uint i = gl_LocalInvocationIndex; i < R * PIECE * ${U}u / 4u; i += WG) {
        uint t = i / (PIECE * ${U}u / 4u), c = c0 + i % (PIECE * ${U}u / 4u) * 4u;
        vec4 x = vec4(0.0);
        if (t < ${N_TOKENS} && c < ${K}u) {
${LOAD}        }
        DOP_X_PUT(i, x);
    }
}
${PARTS}
void main()
{
    uint wg = gl_WorkGroupID.x;
${CALLS}}
