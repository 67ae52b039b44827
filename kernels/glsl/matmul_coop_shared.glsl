#define DEEP BK
// Epilogue through shared memory: places in the fragments side by side that matmul_coop_end.glsl stores together.  DOP_VALUE: the first of
// the S-th group of W values side by side of a lane.  Of value q, DOP_TOKEN: the token, counted from the fragments' first; DOP_COLUMN:
// the row of weights; DOP_PLACE: the place in shared memory.
#define DOP_VALUE(S, W) (((S) * SG + lane % SG) * (W))
#define DOP_TOKEN(q) ((q) / (FJ * MN))
#define DOP_COLUMN(q) (n0 + wn * WN + j * FJ * MN + (q) % (FJ * MN))
#define DOP_PLACE(q) ((q) / (FJ * MN) * LS + (q) % (FJ * MN))
#define DOP_SUM4(M, E) dop_c4(DOP_SUM_AT(M, E))
#define DOP_SUM1(M, E) dop_c1(DOP_SUM_AT(M, E))
