// Waits within a dispatch: workgroups that make values for others (dop_product_facts.awaited) come first in the grid.  They are counted when
// they are done, and so are all workgroups together; the last of all sets both counts to zero for the next use.
#define DOP_DONE (Counts(${COUNTS}))
bool dop_waited = false;
float dop_lost = 0.0; // not a number where a wait ran out, so that the step reports it
// An invocation waits when it has issued its loads that need not wait.
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
// Not every workgroup waits, so that the last of all may be one that makes values.
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
