// Flash decoding: attention of one token, or of each of several, in which a workgroup takes R query heads of one KV head over one split of
// the cache, CP positions at a time.
// LANES neighbouring invocations own one row of K or V, in pieces of 8 values (16 bytes of f16): lane i % LANES has piece i.
// So a subgroup reads whole rows, and queries can lie in shared memory without bank conflicts.
// Scores go to shared memory, where one subgroup turns those of a head into weights (online softmax).  Then every invocation adds
// up its columns over its share of the positions.
//
// Loops over arrays of an invocation are written out, because a driver that does not unroll them would keep the arrays in memory.
//
// The first rows are loaded before this step's queries are there, and the next ones while the current ones are used, so that
// the latency of loads is hidden.
//
// Numbers: a query and a key have D values, a V has DV; a lane owns CK pieces of a K row and CV of a V row, and an invocation NP rows,
// whose values it converts to floats PAIR rows at a time.  GROUP_WGS workgroups share a head group.  HALVINGS steps of the sum over LANES
// halve the number of values.  The sums of BATCH heads meet in shared memory at once.  APART: subgroups walk over positions of their own.
#define GROUPS (WG / LANES) // rows of a pass
#define SUBGROUPS (WG / SG)
#define VALUES (NP * R)
#define ROWS (SG / LANES) // rows of a subgroup's pass
#if APART
// The position of row n of this invocation, counted from the first position that the workgroup holds.
#define DOP_HELD(n) (gl_LocalInvocationIndex / SG * (ROWS * NP) + (n) * ROWS + gl_LocalInvocationIndex % SG / LANES)
#else
#define DOP_HELD(n) ((n) * GROUPS + gl_LocalInvocationIndex / LANES)
#endif
#define DOP_H(j) (head0 + (j))
// A query is stored as the first halves of LANES pieces, then their second halves, so that neighbouring lanes read neighbouring
// words.
#define SHARED_SUMS shared vec4 dop_acc[BATCH * SUMMED * DV / 4u];
#if MADE_ROWS > 1 // the largest array of these stages stands first
SHARED_SUMS
#endif
shared vec4 dop_q[R * D / 4u];
#define DOP_Q_AT(i) ((i) / (2u * LANES) * (2u * LANES) + (i) % 2u * LANES + (i) % (2u * LANES) / 2u)
#define DOP_Q_PUT(i, x) dop_q[DOP_Q_AT(i)] = x
#define DOP_Q_PUT1(i, x) dop_q[DOP_Q_AT((i) >> 2)][(i) & 3u] = x
#if APART
// Sums over lanes that share rows go in steps, each of which leaves a lane one half of the sums: in the end a lane has the sums of some
// rows with one head, or of some rows with all heads.  DOP_VALUE is the place of the product of row n with head j before the first step.
#if LEFT_HEADS == 1
#define DOP_VALUE(n, j) ((j) * NP + (n))
#define DOP_FIRST_HEAD (first / NP)
#define DOP_LEFT_ROW(i) (first % NP + (i))
#define DOP_TELLS (gl_LocalInvocationIndex % SG < R)
#define DOP_OVER_ROWS(m) [[unroll]] for (uint m = R; m < (1u << HALVINGS); m *= 2u)
#else
#define DOP_VALUE(n, j) ((n) * R + (j))
#define DOP_FIRST_HEAD 0u
#define DOP_LEFT_ROW(i) (first / R + (i) / R)
#define DOP_TELLS (gl_LocalInvocationIndex % SG == 0u)
#define DOP_OVER_ROWS(m) [[unroll]] for (uint m = 1u; m < (1u << HALVINGS); m *= 2u)
#endif
#define DOP_OVER_GROUPS(m) [[unroll]] for (uint m = LANES; m < SG; m *= 2u)
#define DOP_QUERY(j, c, half) dop_q[(j) * D / 4u + (2u * (c) + (half)) * LANES + part]
#if WIDE == 1
#define DOP_WEIGHTS float
#elif WIDE == 2
#define DOP_WEIGHTS vec2
#else
#define DOP_WEIGHTS vec4
#endif
// dop_s has the weights of positions, and dop_fix by which factor each subgroup's earlier sums must be multiplied now; both have the
// heads of a position or subgroup side by side.
shared DOP_WEIGHTS dop_s[CP * R / WIDE], dop_fix[SUBGROUPS * R / WIDE];
#if WIDE == 1
#define DOP_OF_HEAD(array, at, j) array[(at) * R + (j)]
#else
#define DOP_OF_HEAD(array, at, j) array[(at) * (R / WIDE) + (j) / WIDE][(j) % WIDE]
#endif
shared float dop_m[SUBGROUPS * R], dop_l[SUBGROUPS * R];
#else
shared float dop_s[R * CP];
shared float dop_m[R], dop_l[R], dop_fix[R];
#endif
#if MADE_ROWS == 1
SHARED_SUMS
#endif
${DECLS}#define DOP_DOT_K(w, q0, q1) (DOP_FACTOR_K(w) * (dot(DOP_LO_K(w), q0) + dot(DOP_HI_K(w), q1)))
DOP_PIECE_K dop_k[NP * CK];
// Piece c of row n of V.  Where V is columns of K, it is in registers already.
#if V_IN_K
#define DOP_V(n, c) dop_k[(n) * CK + V0 / 8u / LANES + (c)]
#else
DOP_PIECE_V dop_v[NP * CV];
#define DOP_V(n, c) dop_v[(n) * CV + (c)]
#endif
#if KEEPS_K || KEEPS_V
#define DOP_NEW ((D + VS) / 4u)
shared vec4 dop_new[DOP_NEW * MADE_ROWS];
#define DOP_NEW0_PUT(i, x) dop_new[i] = x
#define DOP_NEW1_PUT(i, x) dop_new[D / 4u + (i)] = x
#define DOP_NEW0_PUT1(i, x) dop_new[(i) >> 2][(i) & 3u] = x
#define DOP_NEW1_PUT1(i, x) dop_new[D / 4u + ((i) >> 2)][(i) & 3u] = x
uvec4 dop_new_part(uint first)
{
    vec4 a = dop_new[first], b = dop_new[first + 1u];
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}
${MADE}#endif
// Loads the rows of the positions from base on that lie in [from, to) from memory.
void dop_hold_k(uint base, uint kvh, uint from, uint to)
{
${@n NP}    if (base + DOP_HELD($nu) >= from && base + DOP_HELD($nu) < to) {
        uint at = DOP_ROW_K(base + DOP_HELD($nu)), lane = gl_LocalInvocationIndex % LANES;
${@c CK}        dop_k[$nu * CK + $cu] = DOP_LD_K(at, lane + $cu * LANES);
${@}    }
${@}}
void dop_hold_v(uint base, uint kvh, uint from, uint to)
{
#if !V_IN_K
${@n NP}    if (base + DOP_HELD($nu) >= from && base + DOP_HELD($nu) < to) {
        uint at = DOP_ROW_V(base + DOP_HELD($nu)), lane = gl_LocalInvocationIndex % LANES;
${@c CV}        dop_v[$nu * CV + $cu] = DOP_LD_V(at, lane + $cu * LANES);
${@}    }
${@}#endif
}

// Takes the rows of this step, from position `made` to pos, where they are among those from base on.  The workgroup made or received
// them, so they need not come from memory.
#if defined(DOP_STAGE) && defined(DOP_ROWS)
#define DOP_IS_MADE(p) ((p) >= made && (p) <= pos)
#define DOP_MADE_AT(p) ((p) - made) * DOP_NEW +
#else
#define DOP_IS_MADE(p) ((p) == pos)
#define DOP_MADE_AT(p)
#endif
void dop_hold_new(uint base, uint made, uint pos)
{
#if KEEPS_K || KEEPS_V
    uint lane = gl_LocalInvocationIndex % LANES;
${@n NP}    if (DOP_IS_MADE(base + DOP_HELD($nu))) {
        const uint p = base + DOP_HELD($nu);
#if KEEPS_K
${@c CK}        dop_k[$nu * CK + $cu] = DOP_MADE_K(DOP_MADE_AT(p) ($cu * LANES + lane) * 2u);
${@}#endif
#if KEEPS_V && !V_IN_K
${@c CV}        dop_v[$nu * CV + $cu] = DOP_MADE_V(DOP_MADE_AT(p) (D + V0) / 4u + ($cu * LANES + lane) * 2u);
${@}#endif
    }
${@}#endif
}

#if !APART
// Puts the products of the rows in registers with the queries into dop_s[head * CP + position].
void dop_scores(uint n_rows)
{
    uint lane = gl_LocalInvocationIndex % LANES, group = gl_LocalInvocationIndex / LANES;
    float s[VALUES]; // [row][head]
${@j R}    {
${@c CK}        vec4 q0_$c = dop_q[$ju * D / 4u + 2u * $cu * LANES + lane], q1_$c = dop_q[$ju * D / 4u + (2u * $cu + 1u) * LANES + lane];
${@}${@n NP}        s[$nu * R + $ju] = 0.0;
${@c CK}        s[$nu * R + $ju] += DOP_DOT_K(dop_k[$nu * CK + $cu], q0_$c, q1_$c);
${@}${@}    }
${@}    // LANES lanes add up their values: as long as the number of values is even, each half of the lanes keeps one half of them.
    uint first = 0u;
${SUMS}    if ((lane >> HALVINGS) == 0u) {
${@i LEFT}        {
            uint n = (first + $iu) / R, j = (first + $iu) % R, p = n * GROUPS + group;
            float x = s[$i];
            dop_s[j * CP + p] = p < n_rows ? ${SCORE} : -1e30;
        }
${@}    }
}

// Turns scores into weights, one head per subgroup.  Earlier sums must be multiplied by dop_fix, because the largest score may have
// grown.
void dop_softmax()
{
    uint lane = gl_LocalInvocationIndex % SG;
    for (uint j = gl_LocalInvocationIndex / SG; j < R; j += SUBGROUPS) {
        float x[CP / SG], old = dop_m[j], top = old, sum = 0.0;
${@i SHARE}        x[$i] = dop_s[j * CP + $iu * SG + lane];
        top = max(top, x[$i]);
${@}        top = subgroupMax(top);
${@i SHARE}        x[$i] = x[$i] > -1e29 ? exp(x[$i] - top) : 0.0;
        dop_s[j * CP + $iu * SG + lane] = x[$i];
        sum += x[$i];
${@}        sum = subgroupAdd(sum);
        if (lane == 0u) {
            float fix = exp(old - top);
            dop_l[j] = dop_l[j] * fix + sum;
            dop_m[j] = top;
            dop_fix[j] = fix;
        }
    }
}
#endif

// Empties mailboxes of splits that this step does not send.  They are still full where an earlier step had more splits, and
// the next step must find them empty.  The last subgroup does it, because it has no query to wait for.
void dop_clear_splits(uint head0, uint split, uint used)
{
#if MERGE && defined(DOP_STAGE)
    if (gl_LocalInvocationIndex < WG - SG)
        return;
    uint first = (used == 1u ? 0u : split + used) + gl_LocalInvocationIndex % SG * used;
    for (uint i = first; i < MAX_SPLITS; i += SG * used)
        for (uint j = 0u; j < R; j++) {
            uint at = ((head0 + j) * MAX_SPLITS + i) * (DV + 4u);
            if (dop_left(${MAILBOX}, at + DV))
                for (uint c = 0u; c < DV + 4u; c += 4u)
                    dop_clear4(${MAILBOX}, at + c);
        }
#endif
}

void main()
{
${ROW}    uint head0 = DOP_GROUP.x * R, kvh = DOP_GROUP.x / GROUP_WGS, split = DOP_GROUP.z;
    uint last = ${POSITION}, made = last; // positions of the query and of the first row that this step makes of its sequence
#if MADE_ROWS > 1
    uint row0 = t; // rows of a sequence follow one another in the step, and so do their positions
    while (row0 > 0u && dop_stage.rows[row0 - 1u].sequence == dop_stage.rows[t].sequence)
        row0--;
    made = dop_stage.rows[row0].position;
#endif
${SEQUENCE}    uint hi = last + 1u, lo = DOP_FIRST(last);
    DOP_RING_FROM(lo);
${SPLIT}${@n NP}${@c CK}    dop_k[$nu * CK + $cu] = DOP_PIECE_K(0u);
${@}${@c CV}    DOP_V($nu, $cu) = DOP_PIECE_V(0u);
${@}${@}    dop_hold_k(lo, kvh, lo, min(hi, made));
    dop_hold_v(lo, kvh, lo, min(hi, made));
#if !APART
    for (uint j = gl_LocalInvocationIndex; j < R; j += WG) {
        dop_m[j] = -1e30;
        dop_l[j] = 0.0;
    }
#endif
#if SPLITS > 1
    dop_clear_splits(head0, split, used);
#endif
${PROLOGUE}    barrier();
    // Rows from these positions on do not come from memory.
    uint held_k = KEEPS_K == 1 ? min(hi, made) : hi, held_v = KEEPS_V == 1 ? min(hi, made) : hi;
    if (last < hi) {
        dop_hold_k(lo, kvh, made, held_k);
        dop_hold_v(lo, kvh, made, held_v);
        dop_hold_new(lo, made, last);
    }
    uint part = gl_LocalInvocationIndex % LANES, group = gl_LocalInvocationIndex / LANES;
    uint sub = gl_LocalInvocationIndex / SG;
    vec4 acc[R * CV * 2u];
${@i SUMS_V}    acc[$i] = vec4(0.0);
${@}#if APART
    float top[LEFT_HEADS], sum[LEFT_HEADS]; // of the lane's heads, which are the same in every round
    uint head = 0u;
    if (gl_LocalInvocationIndex % SG < R) {
        dop_m[sub * R + gl_LocalInvocationIndex % SG] = -1e30;
        dop_l[sub * R + gl_LocalInvocationIndex % SG] = 0.0;
    }
${@h LEFT_HEADS}    top[$h] = -1e30;
    sum[$h] = 0.0;
${@}    // A subgroup whose rows are all behind the last one skips the loop; nobody waits for it before the end.
    for (uint base = lo; base + sub * (ROWS * NP) < hi; base += CP) {
        float s[VALUES];
${@p PAIRS}        {
${@i PAIR}${@c CK}            DOP_PIECE_K held$i_$c = dop_k[($pu * PAIR + $iu) * CK + $cu];
            vec4 lo$i_$c = DOP_LO_K(held$i_$c), hi$i_$c = DOP_HI_K(held$i_$c);
${@}${@}${@j R}            {
${@c CK}                vec4 q0_$c = DOP_QUERY($ju, $cu, 0u), q1_$c = DOP_QUERY($ju, $cu, 1u);
${@}${@i PAIR}                s[DOP_VALUE($pu * PAIR + $iu, $ju)] = 0.0;
${@c CK}                s[DOP_VALUE($pu * PAIR + $iu, $ju)] += DOP_FACTOR_K(held$i_$c) * (dot(lo$i_$c, q0_$c) + dot(hi$i_$c, q1_$c));
${@}${@}            }
${@}        }
${@}#if !V_IN_K
        dop_hold_k(base + CP, kvh, 0u, held_k);
#endif
        uint lane = part, first = 0u;
${SUMS}        head = DOP_FIRST_HEAD;
        float fix[LEFT_HEADS];
${@h LEFT_HEADS}        fix[$h] = top[$h];
${@}${@i LEFT}        {
            float x = s[$i];
            s[$i] = base + DOP_HELD(DOP_LEFT_ROW($iu)) < hi ? ${SCORE} : -1e30;
            top[$iu % LEFT_HEADS] = max(top[$iu % LEFT_HEADS], s[$i]);
        }
${@}${@h LEFT_HEADS}        DOP_OVER_ROWS(m)
            top[$h] = max(top[$h], subgroupShuffleXor(top[$h], m));
        DOP_OVER_GROUPS(m)
            top[$h] = max(top[$h], subgroupShuffleXor(top[$h], m));
        fix[$h] = exp(fix[$h] - top[$h]);
        sum[$h] *= fix[$h];
        if (DOP_TELLS)
            DOP_OF_HEAD(dop_fix, sub, head + $hu) = fix[$h];
${@}${@i LEFT}        s[$i] = s[$i] > -1e29 ? exp(s[$i] - top[$iu % LEFT_HEADS]) : 0.0;
        sum[$iu % LEFT_HEADS] += s[$i];
        DOP_OF_HEAD(dop_s, DOP_HELD(DOP_LEFT_ROW($iu)), head + $iu % LEFT_HEADS) = s[$i];
${@}        subgroupMemoryBarrierShared();
        subgroupBarrier();
${@j R}        {
            float fix = DOP_OF_HEAD(dop_fix, sub, $ju);
${@c CV}            acc[2u * ($ju * CV + $cu)] *= fix;
            acc[2u * ($ju * CV + $cu) + 1u] *= fix;
${@}        }
${@}${@n NP}        {
${@c CV}            DOP_PIECE_V held_$c = DOP_V($nu, $cu);
            vec4 lo_$c = DOP_LO_V(held_$c), hi_$c = DOP_HI_V(held_$c);
${@}${@j R}            {
                float w = DOP_OF_HEAD(dop_s, DOP_HELD($nu), $ju);
${@c CV}                acc[2u * ($ju * CV + $cu)] += w * DOP_FACTOR_V(held_$c) * lo_$c;
                acc[2u * ($ju * CV + $cu) + 1u] += w * DOP_FACTOR_V(held_$c) * hi_$c;
${@}            }
${@}        }
${@}#if V_IN_K
        dop_hold_k(base + CP, kvh, 0u, held_k);
#endif
        dop_hold_v(base + CP, kvh, 0u, held_v);
        if (last < hi)
            dop_hold_new(base + CP, made, last);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
${@h LEFT_HEADS}    DOP_OVER_ROWS(m)
        sum[$h] += subgroupShuffleXor(sum[$h], m);
    DOP_OVER_GROUPS(m)
        sum[$h] += subgroupShuffleXor(sum[$h], m);
    if (DOP_TELLS && lo + sub * (ROWS * NP) < hi) {
        dop_m[sub * R + head + $hu] = top[$h];
        dop_l[sub * R + head + $hu] = sum[$h];
    }
${@}    uint first = 0u;
    {
        uint lane = gl_LocalInvocationIndex % SG;
${SUMS_OF_V}    }
#else
    for (uint base = lo; base < hi; base += CP) {
        dop_scores(hi - base);
#if !V_IN_K
        dop_hold_k(base + CP, kvh, base + CP, held_k);
#endif
        barrier();
        dop_softmax();
        barrier();
${@j R}        {
            float fix = dop_fix[$j], w;
${@c CV}            acc[2u * ($ju * CV + $cu)] *= fix;
            acc[2u * ($ju * CV + $cu) + 1u] *= fix;
${@}${@n NP}            w = dop_s[$ju * CP + $nu * GROUPS + group];
${@c CV}            acc[2u * ($ju * CV + $cu)] += w * DOP_FACTOR_V(DOP_V($nu, $cu)) * DOP_LO_V(DOP_V($nu, $cu));
            acc[2u * ($ju * CV + $cu) + 1u] += w * DOP_FACTOR_V(DOP_V($nu, $cu)) * DOP_HI_V(DOP_V($nu, $cu));
${@}${@}        }
${@}#if V_IN_K
        dop_hold_k(base + CP, kvh, base + CP, held_k);
#endif
        dop_hold_v(base + CP, kvh, base + CP, held_v);
        if (last < hi)
            dop_hold_new(base + CP, made, last);
        barrier();
    }
    [[unroll]] for (uint m = LANES; m < SG; m *= 2u) {
${@i SUMS_V}        acc[$i] += subgroupShuffleXor(acc[$i], m);
${@}    }
#endif
${@b BATCHES}    {
        const uint j0 = $bu * BATCH;
#if APART
${@i LEFT_V}        {
            uint v = first + $iu, j = v / (2u * CV) - j0; // This wraps around for heads of earlier batches.
            if (j < BATCH)
                dop_acc[(j * SUBGROUPS + sub) * (DV / 4u) + (v / 2u % CV * LANES + part) * 2u + v % 2u] = acc[$i];
        }
${@}        barrier();
#else
#if SUMMED < SUBGROUPS // subgroups take turns at adding their sums
#define DOP_MINE (gl_LocalInvocationIndex % SG < LANES && sub / SUMMED == turn)
#define DOP_PLACE(j) ((j) * SUMMED + sub % SUMMED)
#define DOP_ADD(to, x) to += x
        for (uint i = gl_LocalInvocationIndex; i < BATCH * SUMMED * (DV / 4u); i += WG)
            dop_acc[i] = vec4(0.0);
        barrier();
        for (uint turn = 0u; turn < SUBGROUPS / SUMMED; turn++) {
#else
#define DOP_MINE (gl_LocalInvocationIndex % SG < LANES)
#define DOP_PLACE(j) ((j) * SUMMED + sub)
#define DOP_ADD(to, x) to = x
        {
#endif
        if (DOP_MINE) {
${@j BATCH}            if (j0 + $ju < R) {
${@c CV}                uint at$c = DOP_PLACE($ju) * (DV / 4u) + ($cu * LANES + part) * 2u;
                DOP_ADD(dop_acc[at$c], acc[min(2u * ((j0 + $ju) * CV + $cu), 2u * R * CV - 1u)]);
                DOP_ADD(dop_acc[at$c + 1u], acc[min(2u * ((j0 + $ju) * CV + $cu) + 1u, 2u * R * CV - 1u)]);
${@}            }
${@}        }
        barrier();
        }
#endif
        for (uint i = gl_LocalInvocationIndex; i < min(BATCH, R - j0) * (DV / 4u); i += WG) {
            uint j = i / (DV / 4u), d = i % (DV / 4u) * 4u, h = head0 + j0 + j;
            vec4 o = vec4(0.0);
#if APART
            float top = -1e30, sum = 0.0;
            [[unroll]] for (uint k = 0u; k < SUBGROUPS; k++)
                top = max(top, dop_m[k * R + j0 + j]);
            [[unroll]] for (uint k = 0u; k < SUBGROUPS; k++) {
                float worth = exp(dop_m[k * R + j0 + j] - top);
                sum += worth * dop_l[k * R + j0 + j];
                o += worth * dop_acc[(j * SUBGROUPS + k) * (DV / 4u) + d / 4u];
            }
#else
            float top = dop_m[j0 + j], sum = dop_l[j0 + j];
            [[unroll]] for (uint k = 0u; k < SUMMED; k++)
                o += dop_acc[(j * SUMMED + k) * (DV / 4u) + d / 4u];
#endif
${SINK}            float m = top, l = sum;
#if MERGE
            if (used == 1u) {
                o /= l;
                uint c = h * DV + d;
${STORE_WHOLE}            } else
#endif
            {
${STORE}            }
        }
        if (j0 + BATCH < R)
            barrier();
    }
${@}#if MERGE
    if (used == 1u) {
${TAIL}        return;
    }
#ifdef DOP_STAGE
    // The workgroup of the last split receives from all others.  A workgroup that runs several splits runs that one last, so it
    // never waits for itself.
    if (split + 1u != used)
        return;
#else
    // The workgroup of this KV head that gets here last merges the splits, because all are there only then.
    if (!dop_last_of(${COUNTS}, DOP_GROUP.x, used))
        return;
#endif
${MERGE_BODY}#endif
${TAIL}}
