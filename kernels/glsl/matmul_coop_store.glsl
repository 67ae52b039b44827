            [[unroll]] for (uint s = 0u; s < ${DEEP}u * MM * FJ * MN / (SG * ${W}u); s++) {
                uint q = DOP_VALUE(s, ${W}u), e = DOP_PLACE(q), r = DOP_TOKEN(q), c = DOP_COLUMN(q);
                uint t = ${STORE_ROW};
                if (t < dop_tokens && c < ${N}u) {
${STORE}                }
            }
