// A workgroup computes one unit (a row, or one head of a row) of one token; a subgroup does where units are short, because a
// workgroup would have more invocations than values.
void main()
{
${UNIT}    if (t >= ${N_TOKENS})
        return;
${BODY}}
