// One dispatch for the stages of a step: as many workgroups as the device runs at once go through the list of stages
// together.  Nothing orders them but the values that they hand to each other (common.glsl).
//
// A row of the table is dop_stage_row of runtime/plan_format.h: 32 words of arguments, how many workgroups the stage has,
// and which function it is.  The row of the next stage is on its way while a stage runs: the loads are volatile, so that
// they stay where they are.
${PLACEHOLDERS}
void dop_run(uint function)
{
    switch (function) {
${CALLS}    }
}
#define ROW 36u
void main()
{
    uint word = gl_LocalInvocationIndex, stages = counts.x, copy = counts.y * (step.turn & 1u);
    uint mine = word < 32u ? Handed(table).v[word] : 0u;
    uvec4 head = Handed4(table).v[8];
    if (word == 0u) {
        dop_stage.now = copy;
        dop_stage.next = counts.y - copy;
        dop_stage.pos = step.pos;
        dop_stage.step = uvec2(step);
    }
    for (uint s = 0u; s < stages; s++) {
        barrier(); // the stage before has done with shared memory
        uint groups = head.x, function = head.y, next = min(s + 1u, stages - 1u) * ROW;
        if (word < 32u)
            dop_stage.args[word >> 1][word & 1u] = mine;
        mine = word < 32u ? Handed(table).v[next + word] : 0u;
        head = Handed4(table).v[next / 4u + 8u];
        for (uint g = gl_WorkGroupID.x; g < groups; g += gl_NumWorkGroups.x) {
            if (g != gl_WorkGroupID.x)
                barrier();
            if (word == 0u)
                dop_stage.group = g;
            barrier();
            dop_run(function);
        }
    }
}
