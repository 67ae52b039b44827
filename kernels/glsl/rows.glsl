// Matrix products on CPU devices, of one token or of TB tokens.  A workgroup is one subgroup and every lane has ROWS rows of each
// matrix.  Lanes pass activations to each other by shuffles, so that no sum crosses lanes and a scale is loaded by the lane that
// needs it.  There are no barriers, because each would cut the code into coroutines and hide from the driver which values are the
// same in all lanes.  Code is not repeated, because such devices compile slowly, and loads are few, because every load that is not
// from a view becomes a loop over the lanes.
#define LANE gl_SubgroupInvocationID
// Lanes of a subgroup run in step on CPU devices, so they see what others wrote to shared memory without a barrier.
#ifdef DOP_CPU
#define DOP_STEP() subgroupMemoryBarrierShared()
#else
#define DOP_STEP() barrier()
#endif
// This tells the driver that a buffer that is chosen at run time is the same in all lanes.
#if defined(DOP_CPU) && defined(DOP_INT64)
U32 dop_same(U32 p) { return U32(subgroupBroadcastFirst(uint64_t(p))); }
#ifdef DOP_TEXELS
DOP_W dop_same(DOP_W p) { return p; }
#endif
#else
#define dop_same(p) p
#endif
// The end of a loop's body.
#define DOP_UNTIL(x) if (x) break;
${DECLS}
void main()
{
${TOKENS}${PROLOGUE}    DOP_STEP();
${GROUPS}}
