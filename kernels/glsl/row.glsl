// One workgroup walks over one unit (a row, or one head of a row) of one token.
void main()
{
    uint t = gl_WorkGroupID.y, unit = gl_WorkGroupID.x;
    if (t >= ${N_TOKENS})
        return;
${BODY}}
