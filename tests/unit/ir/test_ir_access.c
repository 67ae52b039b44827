/* The one form of accesses (ir/graph/access.h): what the names of ops.def are in it, whether a tile holds what is read, that shapes agree
 * with it, and products that the interpreter computes straight from it. */
#include "ir/interp/interp_access.h"
#include "tests/unit/test_ir_util.h"

#include "ir/graph/access.h"
#include "ir/interp/interp_ops.h"

#include <math.h>

/* ---- names as cases of the form ---- */

Test(ir_access, names_are_cases_of_one_form)
{
    static const struct {
        const char *node;
        uint32_t source;
        dop_axis axis;
        uint32_t mul, div, reach;
        bool chosen;
    } cases[] = {
        {"sum", 0, DOP_AXIS_row, 1, 1, 1, false},
        {"sum", 0, DOP_AXIS_pos, 0, 1, 1, false}, /* absent */
        {"rms", 0, DOP_AXIS_col, 0, 1, DOP_REACH_ALL, false},
        {"rms", 0, DOP_AXIS_row, 1, 1, 1, false},
        {"qr", 0, DOP_AXIS_col, 1, 1, DOP_REACH_FEW, false},
        {"qr", 2, DOP_AXIS_row, 0, 1, 1, true},
        {"a", 1, DOP_AXIS_head, 1, 2, 1, false}, /* 4 query heads on 2 */
        {"a", 1, DOP_AXIS_pos, 0, 1, DOP_REACH_ALL, false},
        {"a", 5, DOP_AXIS_head, 1, 1, 1, false}, /* sinks */
        {"a", 6, DOP_AXIS_row, 1, 1, 1, false},  /* lasts */
        {"q", 1, DOP_AXIS_row, 1, 1, 1, false},  /* follows the columns */
        {"x0", 0, DOP_AXIS_row, 0, 1, 1, true},
        {"me", 1, DOP_AXIS_expert, 0, 1, 1, true},
        {"ws", 0, DOP_AXIS_head, 0, 1, DOP_REACH_ALL, false},
        {"ap", 0, DOP_AXIS_col, 0, 1, DOP_REACH_SPAN, false},
        {"am", 0, DOP_AXIS_part, 0, 1, DOP_REACH_ALL, false},
        {"sc", 0, DOP_AXIS_head, 1, 2, 1, false}, /* 4 heads of values on 2 of keys */
        {"cn", 0, DOP_AXIS_row, 2, 1, 3, false},
        {"cn", 0, DOP_AXIS_head, 2, 1, 5, false},
        {"cn", 0, DOP_AXIS_col, 0, 1, DOP_REACH_ALL, false},
        {"cn", 1, DOP_AXIS_row, 1, 1, 1, false},
    };
    dop_arena arena;
    dop_graph g;
    dop_arena_init(&arena);
    test_must_parse(test_all_ops, &arena, &g);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dop_axis_map m = dop_node_map(&g, test_find(&g, cases[i].node), cases[i].source, cases[i].axis);
        cr_expect(m.mul == cases[i].mul && m.div == cases[i].div && m.reach == cases[i].reach &&
                      m.chosen == cases[i].chosen,
                  "%%%s source %u axis %d: mul %u div %u reach %u chosen %d", cases[i].node, cases[i].source,
                  cases[i].axis, m.mul, m.div, m.reach, m.chosen);
    }
    const dop_axis_map w = dop_node_map(&g, test_find(&g, "cn"), 0, DOP_AXIS_head);
    cr_expect(w.kind == DOP_ACCESS_window && w.step == 1 && w.pad == 2);
    cr_expect_eq(dop_node_map(&g, test_find(&g, "cn"), 1, DOP_AXIS_row).of, DOP_AXIS_col);
    dop_arena_finish(&arena);
}

Test(ir_access, what_a_tile_holds)
{
    static const struct {
        dop_axis_map map;
        bool one, span, whole;
    } cases[] = {
        {{.of = DOP_AXIS_row, .mul = 1, .div = 1, .reach = 1}, true, true, true},   /* same */
        {{.of = DOP_AXIS_row, .mul = 0, .div = 1, .reach = 1}, true, true, true},   /* absent */
        {{.of = DOP_AXIS_col, .mul = 1, .div = 1, .reach = 1}, false, false, true}, /* that its column names */
        {{.of = DOP_AXIS_row, .mul = 1, .div = 2, .reach = 1}, false, false, true}, /* group */
        {{.of = DOP_AXIS_row, .mul = 2, .div = 1, .reach = 1}, false, false, true}, /* every second */
        {{.of = DOP_AXIS_row, .mul = 1, .div = 1, .reach = 1, .pad = 1}, false, false, true}, /* the one before */
        {{.of = DOP_AXIS_row, .mul = 1, .div = 1, .reach = 3, .step = 1, .pad = 1}, false, false, true}, /* window */
        {{.of = DOP_AXIS_row, .mul = 1, .div = 1, .reach = DOP_REACH_FEW}, false, false, true},
        {{.of = DOP_AXIS_row, .mul = 0, .div = 1, .reach = DOP_REACH_ALL}, false, false, true},
        {{.of = DOP_AXIS_row, .mul = 0, .div = 1, .reach = 1, .chosen = true}, false, false, false}, /* at */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(dop_axis_map_in_tile(&cases[i].map, DOP_AXIS_row, DOP_TILE_one), cases[i].one, "case %zu", i);
        cr_expect_eq(dop_axis_map_in_tile(&cases[i].map, DOP_AXIS_row, DOP_TILE_span), cases[i].span, "case %zu", i);
        cr_expect_eq(dop_axis_map_in_tile(&cases[i].map, DOP_AXIS_row, DOP_TILE_whole), cases[i].whole, "case %zu", i);
    }
}

/* ---- shapes ---- */

Test(ir_access, shapes_agree_with_accesses)
{
    static const struct {
        const char *node; /* made wrong */
        const char *reader;
        uint32_t source, axis;
        dop_dim dim;
    } damages[] = {
        {"x1", "n1", 0, 0, {2, DOP_SYM_T}}, {"w", "n1", 1, 0, {63, DOP_SYM_1}},   {"c0", "c1", 0, 1, {31, DOP_SYM_1}},
        {"wq", "q", 1, 0, {63, DOP_SYM_1}}, {"kc1", "a", 1, 2, {3, DOP_SYM_1}},   {"sinks", "a", 5, 0, {5, DOP_SYM_1}},
        {"me", "ws", 0, 2, {9, DOP_SYM_1}}, {"img", "cn", 0, 1, {12, DOP_SYM_1}}, {"wc", "cn", 1, 0, {5, DOP_SYM_1}},
        {"wc", "cn", 0, 1, {3, DOP_SYM_1}}, /* taps: its windows then have another number of places */
    };
    dop_arena arena;
    dop_graph g;
    dop_arena_init(&arena);
    test_must_parse(test_all_ops, &arena, &g);
    for (dop_node_id id = 1; id < g.n_nodes; id++) {
        uint32_t src, axis;
        cr_expect(dop_node_access_fits(&g, id, &src, &axis), "%%%s source %u axis %u", g.nodes[id].name, src, axis);
    }
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        dop_node *n = &g.nodes[test_find(&g, damages[i].node)];
        const bool taps = damages[i].source == 0 && strcmp(damages[i].node, "wc") == 0;
        const uint32_t at = taps ? 2 : damages[i].axis;
        const dop_dim was = n->shape.dim[at];
        uint32_t src = 99, axis = 99;
        n->shape.dim[at] = damages[i].dim;
        cr_expect(!dop_node_access_fits(&g, test_find(&g, damages[i].reader), &src, &axis), "%%%s", damages[i].node);
        cr_expect(src == damages[i].source && axis == damages[i].axis, "%%%s: source %u axis %u", damages[i].node, src,
                  axis);
        n->shape.dim[at] = was;
    }
    uint32_t src, axis;
    g.nodes[test_find(&g, "wq")].shape.dim[0].mul++; /* a product reads the first rows of a matrix */
    cr_expect(dop_node_access_fits(&g, test_find(&g, "q"), &src, &axis));
    dop_arena_finish(&arena);
}

/* A table of distances has a row for each head. */
Test(ir_access, tables_of_distances)
{
    dop_arena arena;
    dop_graph g;
    uint32_t src = 99, axis = 99;
    dop_arena_init(&arena);
    test_must_parse(
        "graph g(T<=4, S<=8, Q=1) { %q:f32[T,4,2]=input \"q\" %p:u32[T]=input \"positions\" "
        "%s:u32[T]=input \"sequences\" %l:u32[T]=input \"lasts\" %r:f32[4,7]=weight \"r\" "
        "%a:f32[T,4,2]=attention %q,%q,%q,%p,%s,%r,%l scale=1 window=0 cap=0 mask=full relative=3 return %a }",
        &arena, &g);
    const dop_node_id a = test_find(&g, "a");
    const dop_axis_map head = dop_node_map(&g, a, 5, DOP_AXIS_head), col = dop_node_map(&g, a, 5, DOP_AXIS_col);
    cr_expect(dop_axis_map_is_own(&head, DOP_AXIS_head) && dop_axis_map_is_whole(&col));
    cr_expect(dop_node_access_fits(&g, a, &src, &axis));
    g.nodes[test_find(&g, "r")].shape.dim[0].mul = 5;
    cr_expect(!dop_node_access_fits(&g, a, &src, &axis) && src == 5 && axis == 0, "source %u axis %u", src, axis);
    dop_arena_finish(&arena);
}

/* ---- convolutions ---- */

typedef struct conv_case {
    uint32_t y, x, c, n, ky, kx, stride, dilation, pad;
    bool bias, dims;
} conv_case;

static void
check_conv(const conv_case *k)
{
    float p[400], w[400], b[8];
    uint64_t state = k->y * 100 + k->kx;
    char text[700], shape[40], out[40];
    const uint32_t oy = (k->y + 2 * k->pad - k->dilation * (k->ky - 1) - 1) / k->stride + 1,
                   ox = (k->x + 2 * k->pad - k->dilation * (k->kx - 1) - 1) / k->stride + 1;
    dop_arena arena;
    dop_graph g;
    dop_interp *it;
    dop_diag diag = {0};
    const dop_tensor *got;
    for (uint32_t i = 0; i < k->y * k->x * k->c; i++)
        p[i] = test_value(&state);
    for (uint32_t i = 0; i < k->n * k->ky * k->kx * k->c; i++)
        w[i] = test_value(&state);
    for (uint32_t i = 0; i < k->n; i++)
        b[i] = test_value(&state);
    snprintf(shape, sizeof shape, k->dims ? "Y,X,%u" : "%u,%u,%u", k->dims ? k->c : k->y, k->x, k->c);
    snprintf(out, sizeof out, k->dims ? "Y,X,%u" : "%u,%u,%u", k->dims ? k->n : oy, ox, k->n);
    snprintf(text, sizeof text,
             "graph g(Y<=9, X<=9) { %%p:f32[%s]=input \"p\" %%w:f32[%u,%u,%u,%u]=weight \"w\" %%b:f32[%u]=weight \"b\" "
             "%%o:f32[%s]=conv %%p,%%w%s stride=%u dilation=%u pad=%u return %%o,%%b }",
             shape, k->n, k->ky, k->kx, k->c, k->n, out, k->bias ? ",%b" : "", k->stride, k->dilation, k->pad);
    dop_arena_init(&arena);
    test_must_parse(text, &arena, &g);
    cr_assert(dop_interp_create(&g, 1, NULL, &diag, &it) == DOP_OK, "%s", diag.message);
    cr_assert(dop_interp_size(it, "Y", k->y, &diag) == DOP_OK && dop_interp_size(it, "X", k->x, &diag) == DOP_OK);
    cr_assert(dop_interp_set(it, test_find(&g, "p"), p, &diag) == DOP_OK);
    cr_assert(dop_interp_set(it, test_find(&g, "w"), w, &diag) == DOP_OK);
    cr_assert(dop_interp_set(it, test_find(&g, "b"), b, &diag) == DOP_OK);
    cr_assert(dop_interp_eval(it, test_find(&g, "o"), &diag, &got) == DOP_OK, "%s", diag.message);
    cr_assert_eq(got->count, oy * ox * k->n);
    for (uint32_t i = 0; i < got->count; i++) {
        const int n = (int)(i % k->n), x = (int)(i / k->n % ox), y = (int)(i / k->n / ox);
        double sum = k->bias ? (double)b[n] : 0;
        for (int ty = 0; ty < (int)k->ky; ty++)
            for (int tx = 0; tx < (int)k->kx; tx++) {
                const int iy = y * (int)k->stride + ty * (int)k->dilation - (int)k->pad,
                          ix = x * (int)k->stride + tx * (int)k->dilation - (int)k->pad;
                if (iy < 0 || ix < 0 || iy >= (int)k->y || ix >= (int)k->x)
                    continue;
                for (int c = 0; c < (int)k->c; c++)
                    sum += (double)p[(iy * (int)k->x + ix) * (int)k->c + c] *
                           (double)w[((n * (int)k->ky + ty) * (int)k->kx + tx) * (int)k->c + c];
            }
        cr_expect(fabs((double)got->f[i] - sum) <= 1e-6 * (1 + fabs(sum)), "%u x %u taps %u x %u: [%d,%d,%d]", k->y,
                  k->x, k->ky, k->kx, y, x, n);
    }
    dop_interp_destroy(it);
    dop_arena_finish(&arena);
}

Test(ir_access, convolutions_through_windows)
{
    static const conv_case cases[] = {
        {5, 6, 3, 4, 3, 3, 1, 1, 1, true, false},  {5, 6, 3, 4, 3, 3, 1, 1, 0, false, false},
        {8, 6, 3, 2, 2, 2, 2, 1, 0, true, false}, /* patches */
        {7, 9, 2, 3, 3, 2, 2, 1, 1, true, false},  {7, 7, 1, 1, 3, 3, 1, 2, 2, false, false},
        {9, 9, 2, 2, 3, 3, 3, 3, 1, false, false}, {1, 1, 4, 3, 3, 3, 1, 1, 1, true, false},
        {1, 9, 2, 2, 1, 5, 2, 1, 0, true, false}, /* along one axis */
        {6, 4, 3, 2, 3, 3, 1, 1, 1, true, true},   {3, 8, 2, 2, 5, 5, 1, 1, 2, false, true},
        {4, 4, 2, 5, 1, 1, 1, 1, 0, true, true},   {9, 2, 1, 1, 3, 3, 1, 2, 2, false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_conv(&cases[i]);
}

/* The same function computes products of rows and matrices, which have a faster form. */
Test(ir_access, products_by_their_accesses)
{
    enum { T = 3, K = 17, N = 5 };
    float x[T * K], w[N * K], out[T * N];
    uint64_t state = 3;
    dop_arena arena;
    dop_graph g;
    dop_interp *it;
    dop_diag diag = {0};
    const dop_tensor *y;
    for (uint32_t i = 0; i < T * K; i++)
        x[i] = test_value(&state);
    for (uint32_t i = 0; i < N * K; i++)
        w[i] = test_value(&state);
    dop_arena_init(&arena);
    test_must_parse(
        "graph g(T<=3) { %x:f32[T,17]=input \"x\" %w:f32[5,17]=weight \"w\" %y:f32[T,5]=matmul %x,%w return %y }",
        &arena, &g);
    cr_assert(dop_interp_create(&g, T, NULL, &diag, &it) == DOP_OK);
    cr_assert(dop_interp_set(it, test_find(&g, "x"), x, &diag) == DOP_OK);
    cr_assert(dop_interp_set(it, test_find(&g, "w"), w, &diag) == DOP_OK);
    cr_assert(dop_interp_eval(it, test_find(&g, "y"), &diag, &y) == DOP_OK);
    const dop_tensor sx = {{2, {{T, 0}, {K, 0}}}, T * K, x, NULL}, sw = {{2, {{N, 0}, {K, 0}}}, N * K, w, NULL};
    const dop_interp_node n = {
        .g = &g, .id = test_find(&g, "y"), .src = {&sx, &sw}, .out = {{2, {{T, 0}, {N, 0}}}, T * N, out, NULL}};
    dop_interp_by_access(&n);
    for (uint32_t i = 0; i < T * N; i++)
        cr_expect(fabs((double)out[i] - (double)y->f[i]) <= 1e-6 * (1 + fabs((double)y->f[i])), "[%u]", i);
    dop_interp_destroy(it);
    dop_arena_finish(&arena);
}

Test(ir_access, convolutions_that_cannot_be)
{
    static const struct {
        const char *node, *message;
    } cases[] = {
        {"%b:f32[2,2,4]=conv %x,%w stride=0 dilation=1 pad=0", "attribute stride=0 is not in 1 to 4294967295"},
        {"%b:f32[2,2,4]=conv %x,%w stride=1 dilation=0 pad=0", "attribute dilation=0 is not in 1 to 4294967295"},
        {"%b:f32[2,2,4]=conv %x,%w stride=1 dilation=3 pad=0", "%b: conv no window of 3 taps fits axis 0 of %x"},
        {"%b:f32[3,3,4]=conv %x,%w stride=1 dilation=1 pad=1", "%b is marked [3,3,4] but conv gives [5,6,4]"},
        {"%b:f32[5,6,4]=conv %x,%m stride=1 dilation=1 pad=1", "%b: conv needs rank 4 for source 1, %m is [3,3,2]"},
        {"%b:f32[Y,X,4]=conv %i,%w stride=2 dilation=1 pad=1",
         "axis 0 of %i is a dimension, whose length only stride=1"},
        {"%b:f32[Y,X,4]=conv %i,%w stride=1 dilation=1 pad=0",
         "axis 0 of %i is a dimension, whose length only stride=1"},
        {"%b:f32[Y,X,4]=conv %i,%w stride=1 dilation=1 pad=4294967295", "axis 0 of %i is a dimension"},
        {"%b:f32[5,6,4]=conv %x,%w stride=1 dilation=1 pad=4294967295", "%b: conv "},
        {"%b:f32[5,6,4]=conv %x,%w,%v stride=1 dilation=1 pad=1", "%b: conv %w [4,3,3,2] and %v [3] do not fit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[700];
        dop_arena arena;
        dop_graph g;
        dop_diag diag = {0};
        dop_arena_init(&arena);
        snprintf(text, sizeof text,
                 "graph g(Y<=9, X<=9) { %%x:f32[5,6,2]=input \"x\" %%i:f32[Y,X,2]=input \"i\" %%w:f32[4,3,3,2]=weight "
                 "\"w\" %%m:f32[3,3,2]=weight \"m\" %%v:f32[3]=weight \"v\" %s return %%b }",
                 cases[i].node);
        cr_expect_eq(test_parse(text, &arena, &diag, &g), DOP_E_INPUT, "%s", cases[i].node);
        cr_expect(strstr(diag.message, cases[i].message), "%s: %s", cases[i].node, diag.message);
        dop_arena_finish(&arena);
    }
}
