    // Several workgroups may have made values of a head. The last one to finish computes the head's product, when all values
    // exist.
    {
        uint from = max(gl_WorkGroupID.x * BLOCKS_H / gl_NumWorkGroups.x, FIRST_H);
        uint to = min((gl_WorkGroupID.x + 1u) * BLOCKS_H / gl_NumWorkGroups.x, FIRST_H + (ALL_H * K_H + BLOCK_H - 1u) / BLOCK_H);
        uint h = (from - FIRST_H) * BLOCK_H / K_H, end = from < to ? (min((to - FIRST_H) * BLOCK_H, ALL_H * K_H) - 1u) / K_H + 1u : h;
        [[dont_unroll]] for (; h < end; h++) {
            uint a = h * K_H / BLOCK_H + FIRST_H, b = (h * K_H + K_H - 1u) / BLOCK_H + FIRST_H;
            // With more workgroups than blocks, some between the first and the last maker have none.
            uint makers = min(((b + 1u) * gl_NumWorkGroups.x - 1u) / BLOCKS_H - ((a + 1u) * gl_NumWorkGroups.x - 1u) / BLOCKS_H, b - a) + 1u;
            if (dop_last_of(${COUNTS}, h, makers))
                dop_tail(h);
        }
    }
