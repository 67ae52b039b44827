// One dispatch runs all stages of a step: as many workgroups as the device runs concurrently walk over the list of stages
// together. Only mailboxes (common.glsl) order them; compiler/schedule/persistent.h has a drawing.
//
// A row of the table is dop_stage_row of plan/plan_format.h: 32 words of arguments, then the number of workgroups and the
// function of the stage, each for long and for short caches. The row of the next stage is loaded while a stage runs, which
// hides the latency; the load is volatile, so that the compiler does not move it after the stage.
${PLACEHOLDERS}
void dop_run(uint function)
{
    switch (function) {
${CALLS}    }
}
// Returns the number of workgroups of a stage for n positions: `each` for every split that dop_split_len makes of the cache.
// If a window makes fewer splits, the surplus workgroups return at once.
uint dop_workgroups(uint n, uint each, uint max_splits)
{
    return each * (n <= DOP_WHOLE ? 1u : min((n + DOP_LEAST - 1u) / DOP_LEAST, max_splits));
}
// main keeps few values live while a stage runs, so that the stage may use nearly all registers.
#define ROW 36u
void main()
{
    uint word = gl_LocalInvocationIndex, copy = counts.y * (step.DOP_RUNS & 1u);
    uint mine = word < ROW ? Words(table).v[word] : 0u;
    if (word == 0u) {
        dop_stage.now = copy;
        dop_stage.next = counts.y - copy;
        dop_stage.position = step.rows[0].position;
        dop_stage.step = uvec2(step);
    }
#ifdef DOP_ROWS
    if (word < DOP_ROWS)
        dop_stage.rows[word] = step.rows[min(word, step.n_rows - 1u)];
#endif
    for (uint s = 0u; s < counts.x; s++) {
        barrier(); // the previous stage no longer uses shared memory
        if (word < 32u)
            dop_stage.args[word >> 1][word & 1u] = mine;
        else if (word < ROW)
            dop_stage.row[word - 32u] = mine;
        if (word == 0u)
            dop_stage.group = gl_WorkGroupID.x;
        mine = word < ROW ? Words(table).v[min(s + 1u, counts.x - 1u) * ROW + word] : 0u;
        barrier();
        uvec4 row = dop_stage.row;
        bool few = dop_stage.position < row.w;
        uint shape = few ? row.y : row.x, groups = dop_workgroups(dop_stage.position + 1u, shape & 0xffffu, shape >> 16);
        for (uint g = gl_WorkGroupID.x; g < groups; g += gl_NumWorkGroups.x) {
            if (g != gl_WorkGroupID.x) {
                barrier();
                if (word == 0u)
                    dop_stage.group = g;
                barrier();
            }
            dop_run(few ? row.z >> 16 : row.z & 0xffffu);
        }
    }
}
