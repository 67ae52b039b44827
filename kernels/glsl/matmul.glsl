// Tiled matrix product: a workgroup makes BM tokens by BN rows of each of a part's matrices.  Activations and decoded
// weights go through shared memory; the activation's row statistic is summed while its tiles pass by.
shared float dop_a[BK * (BM + 1u)];
shared float dop_b[M_MAX * BK * (BN + 1u)];
${DECLS}
${PARTS}
void main()
{
${BEGIN}    uint wg = gl_WorkGroupID.x;
${CALLS}}
