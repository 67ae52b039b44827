// One invocation makes ${W} neighbouring values of one token's row.
void main()
{
    uint i = gl_GlobalInvocationID.x;
    uint t = i / ${COLS_W}u, c = (i % ${COLS_W}u) * ${W}u;
    if (t >= ${N_TOKENS})
        return;
${BODY}}
