#define DEEP BK
// Of the fragments side by side that matmul_coop_end.glsl stores together: the first of a lane's values S of W side by side, and of
// value q the token, counted from the first one of the fragments, the row of weights, and the place in shared memory.
#define DOP_VALUE(S, W) (((S) * SG + lane % SG) * (W))
#define DOP_TOKEN(q) ((q) / (FJ * MN))
#define DOP_COLUMN(q) (n0 + wn * WN + j * FJ * MN + (q) % (FJ * MN))
#define DOP_PLACE(q) ((q) / (FJ * MN) * LS + (q) % (FJ * MN))
#define DOP_SUM4(M, E) dop_c4(DOP_SUM_AT(M, E))
#define DOP_SUM1(M, E) dop_c1(DOP_SUM_AT(M, E))
