    // This ends a part of matmul_coop_part.glsl or of matmul_coop_direct.glsl.
${MEET}    barrier();
    // Epilogue by fragments side by side, through the subgroup's own piece of shared memory: its lanes then have values
    // side by side of the same token.
    [[unroll]] for (uint i = 0u; i < FM; i++)
        [[unroll]] for (uint j = 0u; j < FN / FJ; j++) {
${LOAD}            [[unroll]] for (uint m = 0u; m < ${M}u; m++)
                [[unroll]] for (uint f = 0u; f < FJ; f++)
                    coopMatStoreNV(acc[(m * FM + i) * FN + j * FJ + f], dop_s,
                                   (m * (WG / SG) + sg) * (MM * LS / 4u) + f * (MN / 4u), LS / 4u, false);
            subgroupMemoryBarrierShared();
            subgroupBarrier();
${STORE_ALL}            subgroupBarrier();
        }
}
