// A few rows times matrices: every unit of weights is loaded and unpacked once, and multiplied with R rows.  As in gemv.glsl
// LANES invocations share ${ROWS} neighbouring rows of the matrices and split K among them.  Activations of all rows lie in
// shared memory, one piece of K at a time.
#define R ${R}u
${TEAM}#define PIECE ${PIECE}u // units of a row in shared memory
${DECLS}
#ifdef DOP_STAGE
// Puts the columns from c0 on of every row into shared memory.  An invocation receives four neighbouring columns; it looks for
// those of all rows before it waits for the first, so that the looks overlap.
void dop_put_rows(uint c0)
{
${RECEIVE}}
#else
// Puts the columns from c0 on of every row into shared memory, ${AT_ONCE} neighbouring ones by an invocation.
void dop_put_rows(uint c0)
{
    const uint pieces = PIECE * ${U}u / ${AT_ONCE}u; // of a row
    for (uint i = gl_LocalInvocationIndex; i < R * pieces; i += WG) {
        uint t = i / pieces;
        vec4 xs[${AT_ONCE} / 4];
        [[unroll]] for (uint j = 0u; j < ${AT_ONCE}u / 4u; j++) {
            uint c = c0 + i % pieces * ${AT_ONCE}u + j * 4u;
            vec4 x = vec4(0.0);
            if (t < ${N_TOKENS} && c < ${K}u) {
${LOAD}            }
            xs[j] = x;
        }
        ${PUT}
    }
${STATS}}
#endif
${PARTS}
void main()
{
    uint wg = DOP_GROUP.x;
${CALLS}}
