/* Dimensions that a graph declares: shapes of them in texts, in the verifier, in the interpreter and as rows and
 * columns. */
#include "ir/graph/dims.h"
#include "ir/graph/graph_add.h"
#include "ir/graph/unit.h"
#include "tests/unit/test_ir_util.h"

#include <math.h>

static const char picture[] = "graph picture(Y<=6, X<=5, S<=3) {\n"
                              "%p:f32[Y,X,4] = input \"pixels\"\n"
                              "%w:f32[4] = weight \"w\"\n"
                              "%c:f32[X,4] = input \"columns\"\n"
                              "%q:f32[2Y,X,2] = reshape %p\n"
                              "%h:f32[Y,X,2] = slice %p start=1\n"
                              "%m:f32[Y,X,1] = row_mean %p\n"
                              "%d:f32[Y,X,4] = sub %p, %m\n"
                              "%e:f32[Y,X,4] = mul %d, %w\n"
                              "%z:f32[Y,X,4] = add %e, %c\n"
                              "%s:f32[Y,X,4] = softmax %z\n"
                              "%o:f32[S] = weight \"o\"\n"
                              "return %s, %q, %h, %o }";

Test(ir_dims, rows_and_columns)
{
    dop_arena arena;
    dop_graph g, like;
    dop_diag diag = {0};
    dop_buf text = {0}, again = {0};
    dop_arena_init(&arena);
    test_must_parse(picture, &arena, &g);
    const dop_node_id p = test_find(&g, "p"), q = test_find(&g, "q"), c = test_find(&g, "c");
    cr_expect(g.max_s == 3 && g.max_t == 1 && g.max_q == 1);
    cr_expect(dop_graph_dim(&g, "Y", 1) >= DOP_SYM_OWN && dop_graph_dim(&g, "S", 1) == DOP_SYM_S);
    cr_expect_eq(dop_graph_dim(&g, "T", 1), DOP_SYM_1);
    cr_expect_eq(dop_node_rows(&g, p, 1), 30);
    cr_expect_eq(dop_node_cols(&g, p), 4);
    cr_expect_eq(dop_node_rows(&g, q, 1), 60);
    cr_expect_eq(dop_node_cols(&g, q), 2);
    cr_expect_eq(dop_node_unit(&g, p).len, 4);
    cr_expect_eq(dop_node_unit(&g, p).units, 1);
    cr_expect(!dop_shape_is_rows(&g.nodes[p].shape) && !dop_shape_is_rows(&g.nodes[c].shape));
    cr_expect(dop_shape_is_rows(&g.nodes[test_find(&g, "o")].shape));
    dop_graph_print(&g, &text);
    cr_expect(strncmp(text.data, "graph picture(S<=3, Y<=6, X<=5) {\n", 34) == 0, "%.60s", text.data);
    test_must_parse(text.data, &arena, &like);
    dop_graph_print(&like, &again);
    cr_expect_str_eq(text.data, again.data);
    cr_expect_eq(dop_graph_hash(&g), dop_graph_hash(&like));
    like.bound[dop_graph_dim(&like, "Y", 1)] = 7;
    cr_expect_neq(dop_graph_hash(&g), dop_graph_hash(&like));
    cr_assert(dop_graph_init_like(&like, &arena, &g, &diag) == DOP_OK);
    cr_expect(memcmp(like.bound, g.bound, sizeof g.bound) == 0);
    dop_buf_finish(&text);
    dop_buf_finish(&again);
    dop_arena_finish(&arena);
}

/* Sizes below the bounds: what is computed has exactly these. */
Test(ir_dims, the_interpreter_computes_any_size)
{
    enum { MOST_Y = 6, MOST_X = 5, C = 4 };
    for (uint32_t y = 1; y <= MOST_Y; y += 2)
        for (uint32_t x = 1; x <= MOST_X; x += 2) {
            float p[MOST_Y * MOST_X * C], w[C], c[MOST_X * C];
            uint64_t state = y * 100 + x;
            dop_arena arena;
            dop_graph g;
            dop_interp *it;
            dop_diag diag = {0};
            const dop_tensor *s;
            for (uint32_t i = 0; i < y * x * C; i++)
                p[i] = test_value(&state);
            for (uint32_t i = 0; i < C; i++)
                w[i] = test_value(&state);
            for (uint32_t i = 0; i < x * C; i++)
                c[i] = test_value(&state);
            dop_arena_init(&arena);
            test_must_parse(picture, &arena, &g);
            cr_assert(dop_interp_create(&g, 1, NULL, &diag, &it) == DOP_OK, "%s", diag.message);
            cr_assert(dop_interp_size(it, "Y", y, &diag) == DOP_OK && dop_interp_size(it, "X", x, &diag) == DOP_OK);
            cr_assert(dop_interp_set(it, test_find(&g, "p"), p, &diag) == DOP_OK);
            cr_assert(dop_interp_set(it, test_find(&g, "w"), w, &diag) == DOP_OK);
            cr_assert(dop_interp_set(it, test_find(&g, "c"), c, &diag) == DOP_OK);
            cr_assert(dop_interp_eval(it, test_find(&g, "s"), &diag, &s) == DOP_OK, "%s", diag.message);
            cr_assert_eq(s->count, y * x * C);
            for (uint32_t i = 0; i < y * x; i++) {
                double mean = 0, e[C], sum = 0;
                for (uint32_t k = 0; k < C; k++)
                    mean += (double)p[i * C + k] / C;
                for (uint32_t k = 0; k < C; k++)
                    sum += e[k] = exp(((double)p[i * C + k] - mean) * (double)w[k] + (double)c[i % x * C + k]);
                for (uint32_t k = 0; k < C; k++)
                    cr_expect(fabs((double)s->f[i * C + k] - e[k] / sum) < 1e-5, "%u x %u: pixel %u", y, x, i);
            }
            dop_interp_destroy(it);
            dop_arena_finish(&arena);
        }
}

Test(ir_dims, sizes_that_cannot_be)
{
    dop_arena arena;
    dop_graph g;
    dop_interp *it;
    dop_diag diag = {0};
    dop_arena_init(&arena);
    test_must_parse(picture, &arena, &g);
    cr_assert(dop_interp_create(&g, 1, NULL, &diag, &it) == DOP_OK);
    cr_expect_eq(dop_interp_size(it, "Y", 7, &diag), DOP_E_INTERNAL);
    cr_expect_str_eq(diag.message, "graph picture: no dimension Y can be 7");
    cr_expect_eq(dop_interp_size(it, "Z", 1, &diag), DOP_E_INTERNAL);
    cr_expect_eq(dop_interp_size(it, "X", 0, &diag), DOP_E_INTERNAL);
    cr_expect_eq(dop_interp_size(it, "S", 2, &diag), DOP_E_INTERNAL); /* a language model's, which has its bound */
    dop_interp_destroy(it);
    diag = (dop_diag){0};
    cr_assert(dop_interp_create(&g, 2, NULL, &diag, &it) == DOP_E_INTERNAL);
    cr_expect_str_eq(diag.message, "graph picture: a step of 2 tokens, but T is 1 to 1");
    dop_arena_finish(&arena);
}

Test(ir_dims, must_fail)
{
    static const struct {
        const char *node, *message;
    } cases[] = {
        {"%b:f32[Y,X,8]=matmul %a,%w", "%b: matmul reads rows of one dimension, %a is [Y,X,4]"},
        {"%b:u32[Y,X]=argmax %a", "%b: argmax reads rows of one dimension, %a is [Y,X,4]"},
        {"%b:f32[1,X,4]=last_row %a", "%b: last_row reads rows of one dimension, %a is [Y,X,4]"},
        {"%b:f32[Y,X,8]=concat %a,%a", "%b: concat reads rows of one dimension, %a is [Y,X,4]"},
        {"%b:u32[Y,2]=top_k %yx k=2 groups=1 group_best=1 group_keep=1",
         "%b: top_k reads rows of one dimension, %yx is [Y,X]"},
        {"%b:f32[Y,X]=softmax %yx", "%b: softmax works along the last axis, which must be constant"},
        {"%b:f32[Y,X,4]=add %a,%y", "%b: add %a [Y,X,4] and %y [Y,4] do not fit"},
        {"%b:f32[Y,4,X]=reshape %a", "%b: reshape axis 2 is a dimension behind a constant axis"},
        {"%b:f32[Y,Y,4]=reshape %a", "%b: reshape cannot view %a [Y,X,4] as [Y,Y,4]"},
        {"%b:f32[4294967295Y,X,4]=input \"b\"", "%b: input is too large"},
        {"%b:f32[Y,5R]=input \"b\"", "%b: input axis 1 is empty"},
        {"%b:f32[Q,X,4]=state \"b\" kind=replace", "expected an axis: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600];
        dop_arena arena;
        dop_graph g;
        dop_diag diag = {0};
        dop_arena_init(&arena);
        snprintf(text, sizeof text,
                 "graph g(Y<=6, X<=5) { %%a:f32[Y,X,4]=input \"a\" %%w:f32[8,4]=weight \"w\" %%y:f32[Y,4]=input \"y\" "
                 "%%yx:f32[Y,X]=input \"yx\" %s return %%b }",
                 cases[i].node);
        cr_expect_eq(test_parse(text, &arena, &diag, &g), DOP_E_INPUT, "%s", cases[i].node);
        cr_expect(strstr(diag.message, cases[i].message), "%s: %s", cases[i].node, diag.message);
        dop_arena_finish(&arena);
    }
}
