    // Several workgroups may have made values of a head.  The one that is done last computes the head's product, because all
    // values are there only then.
    {
        uint from = max(gl_WorkGroupID.x * ${BLOCKS}u / gl_NumWorkGroups.x, ${FIRST}u);
        uint to = min((gl_WorkGroupID.x + 1u) * ${BLOCKS}u / gl_NumWorkGroups.x, ${FIRST}u + (${HEADS}u * ${K}u + ${ROWS}u - 1u) / ${ROWS}u);
        uint h = (from - ${FIRST}u) * ${ROWS}u / ${K}u, end = from < to ? (min((to - ${FIRST}u) * ${ROWS}u, ${HEADS}u * ${K}u) - 1u) / ${K}u + 1u : h;
        [[dont_unroll]] for (; h < end; h++) {
            uint a = h * ${K}u / ${ROWS}u + ${FIRST}u, b = (h * ${K}u + ${K}u - 1u) / ${ROWS}u + ${FIRST}u;
            // Where there are more workgroups than blocks, some of those between the first and the last maker have none.
            uint makers = min(((b + 1u) * gl_NumWorkGroups.x - 1u) / ${BLOCKS}u - ((a + 1u) * gl_NumWorkGroups.x - 1u) / ${BLOCKS}u, b - a) + 1u;
            if (dop_last_of(${COUNTS}, h, makers))
                dop_tail(h);
        }
    }
