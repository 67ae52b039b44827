// One workgroup makes the choice of experts of one token.
${DECLS}
void main()
{
    uint t = gl_WorkGroupID.x;
    if (t >= ${N_TOKENS})
        return;
${BODY}}
