// A few rows times matrices: every unit of weights is loaded and unpacked once, and meets R rows.  As in gemv.glsl LANES
// invocations share ${ROWS} neighbouring rows of the matrices and split K among them.  The activations of all rows lie in
// shared memory, a piece of K at a time.
#define R ${R}u
${TEAM}#define PIECE ${PIECE}u // units of a row in shared memory
${DECLS}
// Columns c0 and on of every row.
void dop_stage(uint c0)
{
    for (uint i = gl_LocalInvocationIndex; i < R * PIECE * ${U}u / 4u; i += WG) {
        uint t = i / (PIECE * ${U}u / 4u), c = c0 + i % (PIECE * ${U}u / 4u) * 4u;
        vec4 x = vec4(0.0);
        if (t < ${N_TOKENS} && c < ${K}u) {
${LOAD}        }
        DOP_X_PUT(i, x);
    }
}
${PARTS}
void main()
{
    uint wg = gl_WorkGroupID.x;
${CALLS}}
