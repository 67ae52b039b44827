// Matrix products on CPU devices, of one token or of TB: a workgroup is one subgroup, every lane has ROWS rows of each
// matrix, and the activations go round by shuffles, so that no sum crosses lanes and a scale is loaded by the lane that
// needs it.  There are no barriers (each would cut the code into coroutines and hide from the driver what all lanes agree
// on) and one copy of everything: such devices compile slowly, and every load is a loop over the lanes, except from a view.
#define ROWS ${ROWS}u
#define TB ${TB}u
#define LANE gl_SubgroupInvocationID
// Lanes of a subgroup run in step: what one wrote to shared memory the others see.
#ifdef DOP_CPU
#define DOP_STEP() subgroupMemoryBarrierShared()
#else
#define DOP_STEP() barrier()
#endif
// A buffer that is chosen at run time stays one that all lanes agree on.
#if defined(DOP_CPU) && defined(DOP_INT64)
U32 dop_same(U32 p) { return U32(subgroupBroadcastFirst(uint64_t(p))); }
#else
#define dop_same(p) p
#endif
#ifdef DOP_TEXELS
DOP_W dop_same(DOP_W p) { return p; }
#endif
${DECLS}
void main()
{
${TOKENS}${PROLOGUE}    DOP_STEP();
${GROUPS}}
