// Matrix times vector, several matrices with one activation.  The grid is partitioned into parts; in a part LANES
// invocations share ROWS neighbouring rows and split K among them.  Statistics of the activation are summed beside the
// products; with a staged prologue the activation lies in dop_x.
#define LANES ${LANES}u
#define TEAMS (WG / LANES)
#define LANE (gl_LocalInvocationIndex % LANES)
#define TEAM (gl_LocalInvocationIndex / LANES)
${DECLS}
#if LANES_LOG2 > 0
#if SG > 1 && (1 << LANES_LOG2) <= SG
// Butterfly within the lanes of a team: they are neighbours in one subgroup.
float dop_team_sum(float x)
{
#if (1 << LANES_LOG2) == SG
    return subgroupAdd(x);
#else
    for (uint m = 1u; m < LANES; m *= 2u)
        x += subgroupShuffleXor(x, m);
    return x;
#endif
}
#elif SG > 1
// Several whole subgroups per row.
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
#else
shared float dop_team[WG];
float dop_team_sum(float x)
{
    barrier();
    dop_team[gl_LocalInvocationIndex] = x;
    for (uint n = LANES / 2u; n > 0u; n /= 2u) {
        barrier();
        float y = LANE < n ? dop_team[gl_LocalInvocationIndex] + dop_team[gl_LocalInvocationIndex + n] : 0.0;
        barrier();
        if (LANE < n)
            dop_team[gl_LocalInvocationIndex] = y;
    }
    barrier();
    return dop_team[TEAM * LANES];
}
#endif
#else
float dop_team_sum(float x) { return x; }
#endif
void dop_prologue()
{
${CONSTANTS}${PROLOGUE}}
${PARTS}
void main()
{
${BEFORE}    uint wg = DOP_GROUP.x;
${CALLS}}
