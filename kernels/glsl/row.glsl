// One workgroup walks over one unit (a row, or one head of a row) of one token; in a stage of short units one subgroup does.
void main()
{
${UNIT}    if (t >= ${N_TOKENS})
        return;
${BODY}}
