// Waits within a dispatch: workgroups that make values for others (dop_product_facts.awaited) come first in the grid. One
// counter counts them when they finish, another counts all workgroups. The last workgroup of all resets both to zero for the
// next use.
#define DOP_DONE (Counts(${COUNTS}))
bool dop_waited = false;
float dop_lost = 0.0; // NaN if a wait timed out, so that the step reports it
// Waits for the makers. An invocation waits after it has issued all loads that do not depend on them.
void dop_await()
{
    uint looks = 0u;
    while (!dop_waited && looks < MOST_WAITS && DOP_DONE.n[DONE_AT] < MAKERS)
        looks++;
    dop_lost = looks < MOST_WAITS ? dop_lost : uintBitsToFloat(0x7fc00000u);
    dop_waited = true;
    memoryBarrierBuffer();
}
float dop_taken1(U32 p, uint i) { return H32(p).v[i] + dop_lost; }
vec4 dop_taken4(U32 p, uint i) { return dop_take4_f32(p, i) + dop_lost; }
// Counts a finished workgroup. Not every workgroup waits, so the last of all may be a maker.
void dop_ends(bool made)
{
    groupMemoryBarrier();
    barrier();
    if (gl_LocalInvocationIndex == 0u) {
        memoryBarrierBuffer();
        if (made)
            atomicAdd(DOP_DONE.n[DONE_AT], 1u);
        if (atomicAdd(DOP_DONE.n[DONE_AT + 1u], 1u) + 1u == MAKERS + TAKERS) {
            DOP_DONE.n[DONE_AT] = 0u;
            DOP_DONE.n[DONE_AT + 1u] = 0u;
        }
    }
}
