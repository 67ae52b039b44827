// Matrix products on CPU devices, of one token or of TB: a workgroup is one subgroup and the lanes split K among them, so
// that an activation loaded once meets ROWS rows of every matrix.  There are no barriers (each would cut the code into
// coroutines) and one copy of everything: such devices compile slowly, and every load is a loop over the lanes.
#define ROWS ${ROWS}u
#define TB ${TB}u
#define LANE gl_LocalInvocationIndex
// Lanes of a subgroup run in step: what one wrote to shared memory the others see.
#ifdef DOP_CPU
#define DOP_STEP() memoryBarrierShared()
#else
#define DOP_STEP() barrier()
#endif
${DECLS}
void main()
{
    dop_wait();
    uint t0 = gl_WorkGroupID.y * TB;
    uint n_tokens = ${N_TOKENS};
    if (t0 >= n_tokens)
        return;
${PROLOGUE}    DOP_STEP();
${GROUPS}}
