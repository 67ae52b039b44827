// One invocation makes W neighbouring values of one token's row.
void main()
{
    uint i = DOP_GROUP.x * WG + gl_LocalInvocationIndex;
    uint t = i / COLS_W, c = (i % COLS_W) * W;
    if (t >= ${N_TOKENS})
        return;
${BODY}}
