// Matrix times vector, several matrices with one activation.  The grid is partitioned into parts; in a part LANES
// invocations share ROWS neighbouring rows and split K among them.  Statistics of the activation are summed beside the
// products; with a staged prologue the activation lies in dop_x.
${TEAM}${DECLS}
void dop_prologue()
{
${CONSTANTS}${PROLOGUE}}
${PARTS}
void main()
{
${BEFORE}    uint wg = DOP_GROUP.x;
${CALLS}}
