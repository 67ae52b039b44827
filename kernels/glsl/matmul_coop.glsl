// Tiled matrix product on matrix units (GL_NV_cooperative_matrix, 16x16x16, f16 in, f32 accumulate): BM tokens by BN rows
// per matrix, BK deep, double-buffered in shared memory.  Each subgroup owns WM x WN of the tile.
#define BM ${BM}u
#define BN ${BN}u
#define BK ${BK}u
#define WM ${WM}u
#define WN ${WN}u
#define LD ((BK + 8u) / 8u) // words of 8 halves per row, padded against bank conflicts
#define FM (WM / 16u)
#define FN (WN / 16u)
#define FRAG fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define FRAG_IN fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define SIZE_A (BM * LD)
#define SIZE_B (${M_MAX} * BN * LD)
shared uvec4 dop_a[2u * SIZE_A];
shared uvec4 dop_b[2u * SIZE_B]; // and at the end, 64 words of a 16x16 fragment for each matrix and subgroup
vec4 dop_c4(uint i) { return uintBitsToFloat(dop_b[i >> 2]); }
float dop_c1(uint i) { return uintBitsToFloat(dop_b[i >> 2][i & 3u]); }
uvec4 dop_pack8(vec4 a, vec4 b)
{
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
uint dop_tokens; // read once
${PARTS}
void main()
{
    uint t0 = gl_WorkGroupID.y * BM;
    dop_tokens = ${N_TOKENS};
    if (t0 >= dop_tokens)
        return;
    uint wg = gl_WorkGroupID.x;
    dop_wait();
${CALLS}}
