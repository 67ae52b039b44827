// Codebook values for products on matrix units (schedule: coop_late_books). Loaded data stays integers, two words and a scale
// per eight values, until it is stored in shared memory. In contrast, DOP_HALVES_ANY (codes.glsl) multiplies and rounds at
// once: four words of halves wait, and their sources are in flight for all pieces of a lane.
uvec4 dop_late_book(uvec4 r)
{
    return dop_scaled8_book(r.xy, uintBitsToFloat(r.z));
}
#define DOP_HALVES_BOOK(T)                                                                                             \
    uvec4 dop_late_load_##T(U32 p, uint i, uint aux)                                                                    \
    {                                                                                                                  \
        dop_raw_##T r = dop_load_##T(p, i >> 5, aux, dop_ldw2(p, i >> 5));                                              \
        return uvec4(dop_bytes_##T(r, (i >> 3) & 3u), floatBitsToUint(dop_scale_##T(r)[(i >> 4) & 1u]), 0u);            \
    }                                                                                                                  \
    DOP_HALVES(T, dop_raw8(dop_late_load_##T(p, i, aux), uvec4(0u)), dop_late_book(r.a))
// Sixteen bits of codes, the scale, and the subtrahend.
uvec4 dop_late_moved(uvec4 r)
{
    return dop_scaled8_two(r.x, uintBitsToFloat(r.y) * vec2(1.0, -uintBitsToFloat(r.z)));
}
#define DOP_HALVES_MOVED(T)                                                                                            \
    uvec4 dop_late_load_##T(U32 p, uint i, uint aux)                                                                    \
    {                                                                                                                  \
        dop_raw_##T r = dop_load_##T(p, i >> 5, aux, dop_ldw1(p, i >> 5));                                              \
        uint k = (i >> 3) & 3u;                                                                                         \
        return uvec4(dop_word_##T(r, k), floatBitsToUint(dop_scale_##T(r)[k >> 1]), floatBitsToUint(dop_less_##T(r, k)), \
                     0u);                                                                                               \
    }                                                                                                                  \
    DOP_HALVES(T, dop_raw8(dop_late_load_##T(p, i, aux), uvec4(0u)), dop_late_moved(r.a))
