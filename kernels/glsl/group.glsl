// Sorts the pairs of a row and one of its SLOTS by expert (group_rows of ir/ops.def), in one workgroup. An invocation walks
// over one slice of the ids twice: to count the pairs of each expert, and to write its pairs to their blocks.
#define NONE 0xffffffffu
shared uint dop_found[SLICES * EXPERTS]; // pairs of an expert in a slice; later, number of pairs before the slice's next one
shared uint dop_total[EXPERTS]; // pairs per expert
shared uint dop_first[EXPERTS]; // first block per expert
${IDS}uint dop_blocks_of(uint pairs) { return (pairs + SPAN - 1u) / SPAN; }
void main()
{
    uint me = gl_LocalInvocationIndex, pairs = ${N_TOKENS} * SLOTS;
    uint len = (pairs + 4u * SLICES - 1u) / (4u * SLICES); // vec4s of ids per slice
    uint from = me * len, end = me < SLICES ? min(from + len, (pairs + 3u) / 4u) : 0u;
    for (uint i = me; i < SLICES * EXPERTS; i += WG)
        dop_found[i] = 0u;
    barrier();
    for (uint q = from; q < end; q++) {
        uvec4 ids = dop_ids(q);
        for (uint k = 0u; k < 4u; k++)
            if (q * 4u + k < pairs)
                dop_found[me * EXPERTS + ids[k]]++;
    }
    barrier();
    for (uint e = me; e < EXPERTS; e += WG) {
        uint n = 0u;
        for (uint s = 0u; s < SLICES; s++) {
            uint found = dop_found[s * EXPERTS + e];
            dop_found[s * EXPERTS + e] = n;
            n += found;
        }
        dop_total[e] = n;
    }
    barrier();
    uint used = 0u; // number of used blocks
    for (uint e = 0u; e < EXPERTS; e++) {
        if (e % WG == me)
            dop_first[e] = used;
        used += dop_blocks_of(dop_total[e]);
    }
    barrier();
    for (uint q = from; q < end; q++) {
        uvec4 ids = dop_ids(q);
        for (uint k = 0u; k < 4u; k++)
            if (q * 4u + k < pairs) {
                uint n = dop_found[me * EXPERTS + ids[k]]++;
                ${OUT}.v[(dop_first[ids[k]] + n / SPAN) * (SPAN + 1u) + 1u + n % SPAN] = q * 4u + k;
            }
    }
    for (uint e = me; e < EXPERTS; e += WG)
        for (uint b = 0u; b < dop_blocks_of(dop_total[e]); b++)
            ${OUT}.v[(dop_first[e] + b) * (SPAN + 1u)] = e;
    // Fills the rest of each expert's last block, and all unused blocks.
    for (uint i = me; i < EXPERTS * SPAN; i += WG) {
        uint e = i / SPAN, in_last = dop_total[e] % SPAN;
        if (in_last > 0u && i % SPAN >= in_last)
            ${OUT}.v[(dop_first[e] + dop_total[e] / SPAN) * (SPAN + 1u) + 1u + i % SPAN] = NONE;
    }
    for (uint i = used * (SPAN + 1u) + me; i < BLOCKS * (SPAN + 1u); i += WG)
        ${OUT}.v[i] = NONE;
}
