    // This ends a part of matmul_coop_direct.glsl.  A lane's sums of a token are side by side, so they are stored from registers.
${MEET}    [[unroll]] for (uint i = 0u; i < FM; i += ${DEEP}u) {
${LOAD}${STORE_ALL}    }
}
