// Every kernel starts with this file: buffer references, loads and stores by storage type, element-wise functions, workgroup
// reductions. The generator puts #version, extensions and the constants WG (workgroup size) and SG (subgroup size, 1 without
// subgroup operations) before this file, and the push-constant block after it.

// SHARED: values that other workgroups write while this one runs (such as partial results of splits). They are accessed
// coherently, because no barrier invalidates the caches of a multiprocessor in between. Weights are read through U32x4
// (dop_ldw4), which is not coherent, because they are never written.
#ifdef DOP_MERGES
#define SHARED coherent
#else
#define SHARED
#endif
#if defined(DOP_MERGES) && !defined(DOP_HANDS_ON)
layout(buffer_reference, std430, buffer_reference_align = 16) buffer U32 { SHARED uint v[]; };
#else // words of weights are read through this type, so it is not coherent
layout(buffer_reference, std430, buffer_reference_align = 16) buffer U32 { uint v[]; };
#endif
layout(buffer_reference, std430, buffer_reference_align = 8) buffer U32x2 { SHARED uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer U32x4 { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer C32x4 { SHARED uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer F32 { SHARED float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer F32x2 { SHARED vec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer F32x4 { SHARED vec4 v[]; };
#ifdef DOP_F16_STORAGE
layout(buffer_reference, std430, buffer_reference_align = 2) buffer F16 { SHARED float16_t v[]; };
#endif
#ifdef DOP_INT64
layout(buffer_reference, std430, buffer_reference_align = 8) buffer U64 { SHARED uint64_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer U64x2 { SHARED u64vec2 v[]; };
#endif
// The step record and its rows: dop_step and dop_row of plan/plan_format.h.
${STEP_RECORD}

#if defined(DOP_MERGES) || defined(DOP_HANDS_ON) || defined(DOP_CLAIMS)
// volatile implies coherent; with both qualifiers glslang decorates a member twice, which SPIR-V forbids.
layout(buffer_reference, std430, buffer_reference_align = 4) volatile buffer Counts { uint n[]; };
#endif
#if defined(DOP_MERGES) || defined(DOP_HANDS_ON)
shared uint dop_arrived;
// True if this workgroup is the last of n to arrive. The last one resets the count to zero for the next use. Contains
// barriers, so every invocation must call this.
bool dop_last_of(U32 counts, uint i, uint n)
{
#if defined(DOP_CPU) && SG > 1 && WG == SG
    // One subgroup, whose lanes run in lockstep; barriers are expensive on such devices.
    memoryBarrierBuffer();
    uint arrived = 0u;
    if (gl_LocalInvocationIndex == 0u)
        arrived = atomicAdd(Counts(counts).n[i], 1u) + 1u;
    memoryBarrierBuffer();
    if (subgroupBroadcastFirst(arrived) != n)
        return false;
#else
    groupMemoryBarrier();
    barrier();
    if (gl_LocalInvocationIndex == 0u) {
        memoryBarrierBuffer();
        dop_arrived = atomicAdd(Counts(counts).n[i], 1u) + 1u;
    }
    groupMemoryBarrier();
    barrier();
    if (dop_arrived != n)
        return false;
#endif
    if (gl_LocalInvocationIndex == 0u)
        Counts(counts).n[i] = 0u;
    return true;
}
#endif
#ifdef DOP_CLAIMS
// Claims a block of work: returns 0, 1, 2 and so on, each number to one workgroup of the dispatch. The n-th call of a
// dispatch resets the count to zero for the next use. Workgroups must be single subgroups.
uint dop_claim(U32 counts, uint i, uint n)
{
    uint claimed = 0u;
    if (gl_LocalInvocationIndex == 0u) {
        claimed = atomicAdd(Counts(counts).n[i], 1u);
        if (claimed + 1u == n)
            Counts(counts).n[i] = 0u;
    }
    return subgroupBroadcastFirst(claimed);
}
#endif

// Coherent stores and loads of values that workgroups pass to other workgroups of the dispatch.
#ifdef DOP_HANDS_ON
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer H32 { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer H32x4 { uvec4 v[]; };
void dop_hand1_f32(U32 p, uint i, float x) { H32(p).v[i] = x; }
void dop_hand4_f32(U32 p, uint i, vec4 x) { H32x4(p).v[i >> 2] = floatBitsToUint(x); }
vec4 dop_take4_f32(U32 p, uint i) { return uintBitsToFloat(H32x4(p).v[i >> 2]); }
#endif

// --- mailboxes: exchange of values between the stages of a persistent dispatch ----------------------------------------
// A word of a mailbox is DOP_NOTHING until its value is sent; a receiver polls until it differs. All mailboxes have two
// copies, for even and odd steps. So the sender of a value can empty its place in the copy of the next step, which is not
// read in this step. compiler/schedule/persistent.h has a drawing.
#ifdef DOP_STAGE
struct Stage {
    uvec2 args[16];
    uvec4 row; // the words after the arguments in the stage table
    uint group;
    uint now, next; // offsets in words from a value's address to the copies of this step and of the next
    uint position; // of the step's only row, or of its first
    uvec2 step;
#ifdef DOP_ROWS
    Row rows[DOP_ROWS]; // for steps of at most DOP_ROWS rows; surplus entries repeat the last row, so that code needs no test
#endif
};
shared Stage dop_stage;
#define DOP_NOTHING 0xffffffffu
layout(buffer_reference, std430, buffer_reference_align = 4) volatile buffer Words { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) volatile buffer Words4 { uvec4 v[]; };
uint dop_look1(U32 p, uint i) { return Words(p).v[i + dop_stage.now]; }
uvec4 dop_look4(U32 p, uint i) { return Words4(p).v[(i + dop_stage.now) >> 2]; }
// True if a receiver should give up. The bound keeps a device that does not run all workgroups concurrently from hanging; it
// is below the number of iterations after which llvmpipe ends loops. A receiver that gives up sets a flag of the step. Other
// receivers test it occasionally, so that they soon give up, too.
#define DOP_MOST_LOOKS 50000u
bool dop_given_up(uint looks)
{
    Words flags = Words(dop_stage.step); // word 2 is `flags` of the step
    if (looks == DOP_MOST_LOOKS)
        flags.v[2] |= 1u;
    return looks == DOP_MOST_LOOKS || ((looks & 255u) == 255u && (flags.v[2] & 1u) != 0u);
}
bool dop_missing(uint x) { return x == DOP_NOTHING; }
bool dop_missing(uvec4 x) { return any(equal(x, uvec4(DOP_NOTHING))); }
float dop_receive1(uint x, U32 p, uint i)
{
    for (uint n = 0u; dop_missing(x) && !dop_given_up(n); n++)
        x = dop_look1(p, i);
    return uintBitsToFloat(x);
}
vec4 dop_receive4(uvec4 x, U32 p, uint i)
{
    for (uint n = 0u; dop_missing(x) && !dop_given_up(n); n++)
        x = dop_look4(p, i);
    return uintBitsToFloat(x);
}
void dop_send1(U32 p, uint i, float x)
{
    uint w = floatBitsToUint(x);
    Words(p).v[i + dop_stage.now] = w == DOP_NOTHING ? 0x7fc00000u : w; // a NaN other than DOP_NOTHING
    Words(p).v[i + dop_stage.next] = DOP_NOTHING;
}
void dop_send4(U32 p, uint i, vec4 x)
{
    uvec4 w = floatBitsToUint(x);
    w = mix(w, uvec4(0x7fc00000u), equal(w, uvec4(DOP_NOTHING)));
    Words4(p).v[(i + dop_stage.now) >> 2] = w;
    Words4(p).v[(i + dop_stage.next) >> 2] = uvec4(DOP_NOTHING);
}
bool dop_left(U32 p, uint i) { return !dop_missing(Words(p).v[i + dop_stage.next]); }
void dop_clear4(U32 p, uint i) { Words4(p).v[(i + dop_stage.next) >> 2] = uvec4(DOP_NOTHING); }
#else
#define DOP_GROUP gl_WorkGroupID
#endif

#define DOP_EACH(i, n) [[unroll]] for (uint i = 0u; i < n; i++)

// --- addresses: dop_at(p, words) is the address p plus `words` times 16 bytes -------------------------------------------
#ifdef DOP_ADDRESSES
uvec2 dop_behind(uvec2 at, uint words)
{
    uint carry;
    at.x = uaddCarry(at.x, words << 4, carry);
    at.y += (words >> 28) + carry;
    return at;
}
U32 dop_at(U32 p, uint words) { return U32(dop_behind(uvec2(p), words)); }
// Selects one of two addresses. Some drivers (SwiftShader) fail to select pointers, but all can select pairs of words.
#define DOP_EITHER(FIRST, A, B) U32(FIRST ? uvec2(A) : uvec2(B))
#endif

// --- two and four words at once; CPU devices load component by component, so components have 64 bits there -------------
#ifdef DOP_INT64
uvec2 dop_ldw2(U32 p, uint i) { return unpack32(U64(p).v[i]); }
uvec4 dop_ldw4(U32 p, uint i)
{
    return uvec4(unpack32(U64(p).v[2u * i]), unpack32(U64(p).v[2u * i + 1u]));
}
#define dop_ldc4 dop_ldw4
void dop_stw2(U32 p, uint i, uvec2 w) { U64(p).v[i] = pack64(w); }
void dop_stw4(U32 p, uint i, uvec4 w) { U64x2(p).v[i] = u64vec2(pack64(w.xy), pack64(w.zw)); }
#else
uvec2 dop_ldw2(U32 p, uint i) { return U32x2(p).v[i]; }
uvec4 dop_ldw4(U32 p, uint i) { return U32x4(p).v[i]; }
uvec4 dop_ldc4(U32 p, uint i) { return C32x4(p).v[i]; }
void dop_stw2(U32 p, uint i, uvec2 w) { U32x2(p).v[i] = w; }
void dop_stw4(U32 p, uint i, uvec4 w) { C32x4(p).v[i] = w; }
#endif


// --- memory read through a view (base/caps.h) with texels of 16 bytes: `at` is the index of the first texel ------------
#ifdef DOP_TEXELS
#define DOP_VIEW(SET, T)                                                                \
    layout(set = SET, binding = 0) uniform usamplerBuffer dop_view_##T;                 \
    struct T {                                                                          \
        uint at;                                                                        \
    };                                                                                  \
    uvec4 dop_ldw4(T p, uint i) { return texelFetch(dop_view_##T, int(p.at + i)); }     \
    uvec2 dop_ldw2(T p, uint i)                                                         \
    {                                                                                   \
        uvec4 w = dop_ldw4(p, i >> 1);                                                  \
        return (i & 1u) != 0u ? w.zw : w.xy;                                            \
    }                                                                                   \
    uint dop_ldw1(T p, uint i) { return dop_ldw4(p, i >> 2)[i & 3u]; }                  \
    T dop_at(T p, uint words) { return T(p.at + words); }
DOP_VIEW(0, View1)
DOP_VIEW(1, View2)
DOP_VIEW(2, View3)
#define DOP_W View1
#else
#define DOP_W U32
#define dop_ldw1(p, i) (p).v[i]
#endif

// Prefetch: rows.glsl may have loaded the first words of a unit of weights into dop_ahead, from which dop_unit2 and dop_unit4
// then return them.
#if defined(DOP_AHEAD) && defined(DOP_TEXELS)
uvec4 dop_ahead;
uvec2 dop_unit2(DOP_W p, uint i) { return (i & 1u) != 0u ? dop_ahead.zw : dop_ahead.xy; }
uvec4 dop_unit4(DOP_W p, uint i) { return dop_ahead; }
#elif defined(DOP_AHEAD)
uint64_t dop_ahead;
uvec2 dop_unit2(U32 p, uint i) { return unpack32(dop_ahead); }
uvec4 dop_unit4(U32 p, uint i) { return uvec4(unpack32(dop_ahead), unpack32(U64(p).v[2u * i + 1u])); }
#else
#define dop_unit2 dop_ldw2
#define dop_unit4 dop_ldw4
#endif

// --- loads: value i, and values i .. i+3 with i a multiple of 4 --------------------------------------------------
float dop_ld1_f32(U32 p, uint i) { return F32(p).v[i]; }
vec4 dop_ld4_f32(U32 p, uint i) { return uintBitsToFloat(dop_ldc4(p, i >> 2)); }
vec2 dop_ld2_f32(U32 p, uint i) { return uintBitsToFloat(dop_ldw2(p, i >> 1)); }
uint dop_ld1_u32(U32 p, uint i) { return p.v[i]; }
float dop_ld1_f16(U32 p, uint i)
{
    vec2 h = unpackHalf2x16(p.v[i >> 1]);
    return (i & 1u) != 0u ? h.y : h.x;
}
vec4 dop_f16x4(uvec2 w) { return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y)); }
vec4 dop_ld4_f16(U32 p, uint i) { return dop_f16x4(dop_ldw2(p, i >> 2)); }
float dop_ld1_bf16(U32 p, uint i)
{
    uint w = p.v[i >> 1];
    return uintBitsToFloat((i & 1u) != 0u ? w & 0xffff0000u : w << 16);
}
// A bfloat16 is the upper half of an f32, so a shift converts it exactly.
vec4 dop_bf16x4(uvec2 w)
{
    return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
}
vec4 dop_ld4_bf16(U32 p, uint i) { return dop_bf16x4(dop_ldw2(p, i >> 2)); }

#ifdef DOP_TEXELS
#define DOP_VIEW_LOADS(T)                                                                                   \
    float dop_ld1_f32(T p, uint i) { return uintBitsToFloat(dop_ldw1(p, i)); }                              \
    vec4 dop_ld4_f32(T p, uint i) { return uintBitsToFloat(dop_ldw4(p, i >> 2)); }                          \
    float dop_ld1_f16(T p, uint i) { return unpackHalf2x16(dop_ldw1(p, i >> 1))[i & 1u]; }                  \
    vec4 dop_ld4_f16(T p, uint i) { return dop_f16x4(dop_ldw2(p, i >> 2)); }                                \
    float dop_ld1_bf16(T p, uint i) { return dop_bf16x4(dop_ldw2(p, i >> 2))[i & 3u]; }                     \
    vec4 dop_ld4_bf16(T p, uint i) { return dop_bf16x4(dop_ldw2(p, i >> 2)); }
DOP_VIEW_LOADS(View1)
DOP_VIEW_LOADS(View2)
DOP_VIEW_LOADS(View3)
#endif

// --- stores ---------------------------------------------------------------------------------------------------------
void dop_st1_f32(U32 p, uint i, float x) { F32(p).v[i] = x; }
void dop_st1_u32(U32 p, uint i, uint x) { p.v[i] = x; }
void dop_st4_f32(U32 p, uint i, vec4 x) { dop_stw4(p, i >> 2, floatBitsToUint(x)); }
#ifdef DOP_F16_STORAGE
void dop_st1_f16(U32 p, uint i, float x) { F16(p).v[i] = float16_t(x); }
#endif
void dop_st4_f16(U32 p, uint i, vec4 x)
{
    dop_stw2(p, i >> 2, uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw)));
}

// Splits of the cache (flash decoding, ir/ops.def). dop_split_len returns the number of positions per split, for n positions
// in total.
#ifdef DOP_WHOLE
uint dop_split_len(uint n, uint splits, uint round)
{
    const uint full = round > 0u ? n / splits / round * round : 0u;
    return n <= DOP_WHOLE ? n : full > 0u && n - full * splits <= round ? full : max(DOP_LEAST, (n + splits - 1u) / splits);
}
uint dop_split_count(uint n, uint len, uint splits) { return min((n + len - 1u) / len, splits); }
uint dop_split_end(uint hi, uint lo, uint len, uint split, uint splits) { return split + 1u == splits ? hi : min(lo + len, hi); }
#endif

// Returns a logit for the arg-max: a value that is not finite counts as larger than all others, so that the arg-max finds it
// and the step can report it.
float dop_logit(float x)
{
    const uint exponent = 0x7f800000u;
    return (floatBitsToUint(x) & exponent) == exponent ? uintBitsToFloat(exponent) : x;
}

// --- element-wise functions of ir/ops.def, for float and vec4 ----------------------------------------------------------
// For x < -88, exp(-x) overflows to infinity, and dividing by it gives zero, the correct limit.
#define DOP_ELEMENTWISE(T)                                                                                  \
    T dop_sigmoid(T x) { return 1.0 / (1.0 + exp(-x)); }                                                    \
    T dop_silu(T x) { return x / (1.0 + exp(-x)); }                                                         \
    T dop_tanh(T x) { return 1.0 - 2.0 / (exp(2.0 * clamp(x, T(-20.0), T(20.0))) + 1.0); }                  \
    T dop_gelu_tanh(T x)                                                                                    \
    {                                                                                                       \
        return 0.5 * x * (1.0 + dop_tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));                 \
    }                                                                                                       \
    T dop_relu2(T x) { return max(x, T(0.0)) * max(x, T(0.0)); }                                            \
    T dop_softplus(T x) { return max(x, T(0.0)) + log(1.0 + exp(-abs(x))); }                                \
    T dop_xielu(T x, T p, T n, T beta)                                                                      \
    {                                                                                                       \
        T up = max(x, T(0.0)), down = min(x, T(0.0));                                                       \
        return dop_softplus(p) * up * up + (dop_softplus(n) + beta) * (exp(down) - 1.0 - down) + beta * x;  \
    }                                                                                                       \
    /* 1 - erfc, with erfc by the Chebyshev fit of Numerical Recipes 6.2 (erfcc), whose fractional error is \
       less than 1.2e-7 everywhere. */                                                                      \
    T dop_erf(T x)                                                                                          \
    {                                                                                                       \
        T z = abs(x), t = 1.0 / (1.0 + 0.5 * z);                                                            \
        T p = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 + t *     \
              (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));  \
        T r = 1.0 - t * exp(-z * z + p);                                                                    \
        return sign(x) * r;                                                                                 \
    }                                                                                                       \
    T dop_gelu_erf(T x) { return 0.5 * x * (1.0 + dop_erf(x * 0.7071067811865476)); }
DOP_ELEMENTWISE(float)
DOP_ELEMENTWISE(vec4)

// --- contribution of one load to a sum, for float and vec4 -------------------------------------------------------------
float dop_sum(float x) { return x; }
float dop_sum(vec4 x) { return (x.x + x.y) + (x.z + x.w); }
float dop_sumsq(float x) { return x * x; }
float dop_sumsq(vec4 x) { return dot(x, x); }

// --- workgroup reductions: every invocation must call them, and all get the result ------------------------------------
#if SG > 1
shared float dop_red[WG / SG];
#define DOP_WG_REDUCE(name, op, sgop)                                                                       \
    float name(float x)                                                                                     \
    {                                                                                                       \
        x = sgop(x);                                                                                        \
        if (WG == SG)                                                                                       \
            return x;                                                                                       \
        barrier();                                                                                          \
        if (gl_LocalInvocationIndex % SG == 0u)                                                             \
            dop_red[gl_LocalInvocationIndex / SG] = x;                                                      \
        barrier();                                                                                          \
        x = dop_red[0];                                                                                     \
        for (uint i = 1u; i < WG / SG; i++)                                                                 \
            x = op(x, dop_red[i]);                                                                          \
        return x;                                                                                           \
    }
#else
shared float dop_red[WG];
#define DOP_WG_REDUCE(name, op, sgop)                                                                       \
    float name(float x)                                                                                     \
    {                                                                                                       \
        barrier();                                                                                          \
        dop_red[gl_LocalInvocationIndex] = x;                                                               \
        barrier();                                                                                          \
        for (uint n = WG / 2u; n > 0u; n /= 2u) {                                                           \
            if (gl_LocalInvocationIndex < n)                                                                \
                dop_red[gl_LocalInvocationIndex] =                                                          \
                    op(dop_red[gl_LocalInvocationIndex], dop_red[gl_LocalInvocationIndex + n]);             \
            barrier();                                                                                      \
        }                                                                                                   \
        return dop_red[0];                                                                                  \
    }
#endif
float dop_plus(float a, float b) { return a + b; }
DOP_WG_REDUCE(dop_wg_sum, dop_plus, subgroupAdd)
DOP_WG_REDUCE(dop_wg_max, max, subgroupMax)

// Own sums, at the beginning of a stage: the first sum (which = 0) and the second (1) have shared memory that no other sum of
// the stage uses, so that each needs only one barrier. That barrier also makes earlier stores to shared memory visible.
#if SG > 1 && defined(DOP_STAGE)
shared float dop_own[2u * (WG / SG)];
float dop_own_sum(uint which, float x)
{
    x = subgroupAdd(x);
    if (gl_LocalInvocationIndex % SG == 0u)
        dop_own[which * (WG / SG) + gl_LocalInvocationIndex / SG] = x;
    barrier();
    x = dop_own[which * (WG / SG)];
    [[unroll]] for (uint i = 1u; i < WG / SG; i++)
        x += dop_own[which * (WG / SG) + i];
    return x;
}
#endif
