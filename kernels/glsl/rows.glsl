// Lanes of a subgroup in products and attention on CPU devices (gen_rows.c, gen_attention_rows.c).
#define LANE gl_SubgroupInvocationID
// Lanes of a subgroup run in lockstep on CPU devices, so writes to shared memory are visible to other lanes without a
// barrier.
#ifdef DOP_CPU
#define DOP_STEP() subgroupMemoryBarrierShared()
#else
#define DOP_STEP() barrier()
#endif
// Tells the driver that a buffer selected at run time is the same in all lanes.
#if defined(DOP_CPU) && defined(DOP_INT64)
U32 dop_same(U32 p) { return U32(subgroupBroadcastFirst(uint64_t(p))); }
#ifdef DOP_TEXELS
DOP_W dop_same(DOP_W p) { return p; }
#endif
#else
#define dop_same(p) p
#endif
// Ends the loop if x holds; for the end of a loop's body.
#define DOP_UNTIL(x) if (x) break;
