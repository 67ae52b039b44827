// Cooperative lanes: LANES adjacent invocations that work on the same matrix rows, and the sum of a value over them.
#define TEAMS (WG / LANES)
#define LANE (gl_LocalInvocationIndex % LANES)
#define TEAM (gl_LocalInvocationIndex / LANES)
#if LANES > 1
#if SG > 1 && LANES <= SG
// Butterfly sum: cooperative lanes are adjacent in one subgroup.
float dop_team_sum(float x)
{
#if LANES == SG
    return subgroupAdd(x);
#else
    for (uint m = 1u; m < LANES; m *= 2u)
        x += subgroupShuffleXor(x, m);
    return x;
#endif
}
#elif SG > 1
// Cooperative lanes span several whole subgroups.
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
