/* Masks of attention in the reference interpreter, against sums over all pairs of rows that see one another by definition; and what
 * the verifier and the text say about them.  Ranks that rows choose, which are a mask of columns. */
#include "tests/unit/test_ir_util.h"

#include <math.h>

enum { ROWS = 9, HEADS = 4, KV = 2, DIM = 3, HELD = 7, SEQUENCES = 3 };

/* Rows of a step: the batch has sequences of 4, 1 and 4 rows, and a block of rows 1 to 2 of the first and 1 to 3 of the last. */
static const float sequence_of[ROWS] = {2, 2, 2, 2, 0, 1, 1, 1, 1}, position_of[ROWS] = {0, 1, 2, 3, 0, 0, 1, 2, 3},
                   end_of[ROWS] = {3, 3, 3, 3, 0, 3, 3, 3, 3}, block_of[ROWS] = {0, 2, 2, 0, 0, 0, 3, 3, 3};

typedef struct mask_case {
    const char *mask; /* text of the attribute */
    bool cached, sinks;
    int window, alibi;
} mask_case;

static bool
sees(const mask_case *c, int t, int u)
{
    const int p = (int)position_of[t], j = (int)position_of[u];
    if (sequence_of[t] != sequence_of[u] || (c->window && p - j >= c->window))
        return false;
    if (strcmp(c->mask, "full") == 0)
        return !c->window || j - p < c->window;
    return j <= p || (strcmp(c->mask, "segments") == 0 && j <= (int)block_of[t]);
}

/* The slope of head h of 4 with max 8 is 2^(-2 (h + 1)). */
static double
value(const mask_case *c, const float *q, const float *k, const float *v, const float *s, int t, int h, int d)
{
    double sum = c->sinks ? exp((double)s[h]) : 0, out = 0;
    for (int u = 0; u < ROWS; u++) {
        double score = 0;
        for (int i = 0; i < DIM; i++)
            score += 0.5 * (double)q[(t * HEADS + h) * DIM + i] * (double)k[(u * KV + h / 2) * DIM + i];
        score -= c->alibi ? exp2(-2.0 * (h + 1)) * fabs((double)position_of[t] - (double)position_of[u]) : 0;
        const double e = sees(c, t, u) ? exp(score) : 0;
        sum += e;
        out += e * (double)v[(u * KV + h / 2) * DIM + d];
    }
    return out / sum;
}

static const float *
set(dop_interp *it, const dop_graph *g, const char *name, const float *values)
{
    dop_diag diag = {0};
    cr_assert(dop_interp_set(it, test_find(g, name), values, &diag) == DOP_OK, "%s", diag.message);
    return values;
}

static void
graph_text(const mask_case *c, char *text, size_t size)
{
    const char *keys = c->cached ? "%kc1,%vc1" : "%k,%v", *sinks = c->sinks ? ",%s" : "";
    const char *lasts = strcmp(c->mask, "causal") == 0 ? "" : ",%last";
    snprintf(text, size,
             "graph g(T<=9, S<=7, Q=3) { %%q:f32[T,4,3]=input \"q\" %%k:f32[T,2,3]=input \"k\" %%v:f32[T,2,3]=input "
             "\"v\" %%p:u32[T]=input \"positions\" %%seq:u32[T]=input \"sequences\" %%last:u32[T]=input \"lasts\" "
             "%%s:f32[4]=weight \"s\" %%kc:f32[Q,S,2,3]=state \"k\" kind=append %%vc:f32[Q,S,2,3]=state \"v\" "
             "kind=append %%kc1:f32[Q,S,2,3]=state_write %%kc,%%k,%%p,%%seq %%vc1:f32[Q,S,2,3]=state_write "
             "%%vc,%%v,%%p,%%seq %%a:f32[T,4,3]=attention %%q,%s,%%p,%%seq%s%s scale=0.5 window=%d cap=0 alibi=%d "
             "mask=%s return %%a,%%kc1,%%vc1 }",
             keys, sinks, lasts, c->window, c->alibi, c->mask);
}

Test(ir_masks, every_row_sees_what_its_mask_says)
{
    static const char *const masks[] = {"causal", "full", "segments"};
    static const float empty[SEQUENCES * HELD * KV * DIM];
    float q[ROWS * HEADS * DIM], k[ROWS * KV * DIM], v[ROWS * KV * DIM], s[HEADS];
    uint64_t state = 5;
    for (size_t i = 0; i < sizeof q / sizeof *q; i++)
        q[i] = test_value(&state);
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        k[i] = test_value(&state);
        v[i] = test_value(&state);
    }
    for (size_t i = 0; i < HEADS; i++)
        s[i] = test_value(&state);
    for (unsigned i = 0; i < 3 * 16; i++) {
        const mask_case c = {masks[i / 16], i & 1, i & 2, i & 4 ? 2 : 0, i & 8 ? 8 : 0};
        char text[2000];
        dop_arena arena;
        dop_graph g;
        dop_interp *it;
        dop_diag diag = {0};
        const dop_tensor *got;
        dop_arena_init(&arena);
        graph_text(&c, text, sizeof text);
        test_must_parse(text, &arena, &g);
        cr_assert(dop_interp_create(&g, ROWS, NULL, &diag, &it) == DOP_OK, "%s", diag.message);
        set(it, &g, "q", q);
        set(it, &g, "k", k);
        set(it, &g, "v", v);
        set(it, &g, "s", s);
        set(it, &g, "p", position_of);
        set(it, &g, "seq", sequence_of);
        set(it, &g, "last", strcmp(c.mask, "full") == 0 ? end_of : block_of);
        set(it, &g, "kc", empty);
        set(it, &g, "vc", empty);
        cr_assert(dop_interp_eval(it, test_find(&g, "a"), &diag, &got) == DOP_OK, "%s", diag.message);
        for (int t = 0; t < ROWS; t++)
            for (int h = 0; h < HEADS; h++)
                for (int d = 0; d < DIM; d++) {
                    const double want = value(&c, q, k, v, s, t, h, d);
                    cr_expect(fabs((double)got->f[(t * HEADS + h) * DIM + d] - want) <= 2e-7 * (1 + fabs(want)),
                              "mask=%s cached %d sinks %d window %d alibi %d: row %d head %d", c.mask, c.cached,
                              c.sinks, c.window, c.alibi, t, h);
                }
        dop_interp_destroy(it);
        dop_arena_finish(&arena);
    }
}

Test(ir_masks, rows_of_other_steps_are_errors)
{
    static const struct {
        float position[2], sequence[2], last[2];
        const char *message;
    } cases[] = {
        {{0, 1}, {0, 0}, {1, 2}, "%a: row 1 sees position 2, which is not in this step"},
        {{1, 2}, {0, 0}, {2, 2}, "%a: row 0 sees position 2, which is not in this step"},
        {{0, 1}, {0, 1}, {1, 1}, "%a: row 0 sees position 1, which is not in this step"},
        {{0, 2}, {0, 0}, {1, 2}, "%a: row 0 sees position 1, which is not in this step"},
        {{0, 1}, {0, 0}, {1, 9}, "%a: %last holds 9 but attention has 7 rows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const float some[2 * HEADS * DIM];
        char text[2000];
        dop_arena arena;
        dop_graph g;
        dop_interp *it;
        dop_diag diag = {0};
        const dop_tensor *got;
        dop_arena_init(&arena);
        graph_text(&(mask_case){.mask = "full"}, text, sizeof text);
        test_must_parse(text, &arena, &g);
        cr_assert(dop_interp_create(&g, 2, NULL, &diag, &it) == DOP_OK, "%s", diag.message);
        set(it, &g, "q", some);
        set(it, &g, "k", some);
        set(it, &g, "v", some);
        set(it, &g, "p", cases[i].position);
        set(it, &g, "seq", cases[i].sequence);
        set(it, &g, "last", cases[i].last);
        cr_expect_eq(dop_interp_eval(it, test_find(&g, "a"), &diag, &got), DOP_E_INPUT);
        cr_expect_str_eq(diag.message, cases[i].message);
        dop_interp_destroy(it);
        dop_arena_finish(&arena);
    }
}

Test(ir_masks, the_reach_of_a_row)
{
    static const struct {
        dop_mask mask;
        uint32_t window, position, last, want;
    } cases[] = {
        {DOP_MASK_causal, 0, 5, 9, 5},   {DOP_MASK_causal, 3, 5, 9, 5},        {DOP_MASK_full, 0, 5, 9, 9},
        {DOP_MASK_full, 3, 5, 9, 7},     {DOP_MASK_full, 5, 5, 9, 9},          {DOP_MASK_full, 4, 5, 9, 8},
        {DOP_MASK_segments, 3, 5, 9, 9}, {DOP_MASK_segments, 3, 5, 0, 5},      {DOP_MASK_segments, 0, 5, 5, 5},
        {DOP_MASK_full, 1, 5, 9, 5},     {DOP_MASK_full, UINT32_MAX, 5, 9, 9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dop_reach r = {.window = cases[i].window, .mask = cases[i].mask};
        cr_expect_eq(dop_reach_last(&r, cases[i].position, cases[i].last), cases[i].want, "case %zu", i);
    }
}

Test(ir_masks, text_and_sources)
{
    static const struct {
        const char *attention, *message; /* NULL: it is right */
    } cases[] = {
        {"attention %q,%k,%k,%p,%seq scale=1 window=0 cap=0 mask=causal", NULL},
        {"attention %q,%k,%k,%p,%seq,%last scale=1 window=0 cap=0 mask=full", NULL},
        {"attention %q,%k,%k,%p,%seq,%s,%last mask=segments scale=1 window=0 cap=0", NULL},
        {"attention %q,%k,%k,%p,%seq scale=1 window=0 cap=0 mask=full",
         "%a: attention with mask=full does not take 5 sources"},
        {"attention %q,%k,%k,%p,%seq,%s,%last scale=1 window=0 cap=0", "%a: attention cannot read type u32 of %last"},
        {"attention %q,%k,%k,%p,%seq,%s scale=1 window=0 cap=0 mask=segments",
         "%a: attention needs u32 ids of rank 1 for source 5, %s is f32[4]"},
        {"attention %q,%k,%v,%p,%seq scale=1 window=0 cap=0", "%a: attention %k [T,2,3] and %v [T,1,3] do not fit"},
        {"attention %q,%w,%w,%p,%seq scale=1 window=0 cap=0", "%a: attention %q [T,4,3] and %w [5,2,3] do not fit"},
        {"attention %q,%k,%k,%p,%seq scale=1 window=0 cap=0 mask=ful", "'ful' is not a word for mask"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2000];
        dop_arena arena;
        dop_graph g;
        dop_diag diag = {0};
        dop_arena_init(&arena);
        snprintf(
            text, sizeof text,
            "graph g(T<=9, S<=7, Q=3) { %%q:f32[T,4,3]=input \"q\" %%k:f32[T,2,3]=input \"k\" %%v:f32[T,1,3]=input "
            "\"v\" %%p:u32[T]=input \"positions\" %%seq:u32[T]=input \"sequences\" %%last:u32[T]=input \"lasts\" "
            "%%s:f32[4]=weight \"s\" %%w:f32[5,2,3]=weight \"w\" %%a:f32[T,4,3]=%s return %%a }",
            cases[i].attention);
        const dop_status st = test_parse(text, &arena, &diag, &g);
        if (cases[i].message) {
            cr_expect_eq(st, DOP_E_INPUT);
            cr_expect(strstr(diag.message, cases[i].message), "%s: %s", cases[i].attention, diag.message);
        } else {
            dop_buf out = {0};
            dop_graph again;
            cr_assert(st == DOP_OK, "%s", diag.message);
            dop_graph_print(&g, &out);
            cr_expect_eq(strstr(out.data, "mask=causal"), NULL); /* the default is not printed */
            cr_assert(test_parse(out.data, &arena, &diag, &again) == DOP_OK, "%s", diag.message);
            cr_expect_eq(dop_graph_hash(&g), dop_graph_hash(&again));
            dop_buf_finish(&out);
        }
        dop_arena_finish(&arena);
    }
}

/* Segments of two columns: one row names the third and the first, one none before its 0, and one a number that is too large, which is
 * the last segment; with all columns, and with the first one of each. */
Test(ir_masks, chosen_ranks)
{
    const float a[18] = {1, 2, 3, 4, 5, 6, -1, 2, 4, 8, 3, 1, 2, 2, -3, 1, 7, 5}, n[6] = {3, 1, 0, 2, 9, 0};
    const float w[12] = {1, 3, 5, 7, 9, 2, 4, 6, 8, 1, 3, 5},
                want[6] = {1 + 6 + 45 + 12, 4 + 12 + 15 + 30, 0, 0, 63 + 10, 21 + 25},
                first[6] = {1 + 45, 4 + 15, 0, 0, 63, 21};
    dop_arena arena;
    dop_graph g;
    dop_interp *it;
    dop_diag diag = {0};
    const dop_tensor *y = NULL, *z = NULL;
    dop_arena_init(&arena);
    test_must_parse(
        "graph g(T<=3, S<=1, Q=1) { %a:f32[T,6]=input \"a\" %n:f32[T,2]=input \"n\" %w:f32[2,6]=weight \"w\"\n"
        "%y:f32[T,2]=dot_at %a,%w,%n span=2 %z:f32[T,2]=dot_at %a,%w,%n span=2 used=1 return %y,%z }",
        &arena, &g);
    cr_assert(dop_interp_create(&g, 3, NULL, &diag, &it) == DOP_OK, "%s", diag.message);
    set(it, &g, "a", a);
    set(it, &g, "n", n);
    set(it, &g, "w", w);
    cr_assert(dop_interp_eval(it, test_find(&g, "y"), &diag, &y) == DOP_OK, "%s", diag.message);
    for (int i = 0; i < 6; i++)
        cr_expect_float_eq((double)y->f[i], (double)want[i], 1e-6);
    cr_assert(dop_interp_eval(it, test_find(&g, "z"), &diag, &z) == DOP_OK, "%s", diag.message);
    for (int i = 0; i < 6; i++)
        cr_expect_float_eq((double)z->f[i], (double)first[i], 1e-6);
    dop_interp_destroy(it);
    dop_arena_finish(&arena);
}
