/* Arena, types, op table, and the graph's own functions. */
#include "ir/graph/access.h"
#include "ir/graph/dims.h"
#include "ir/graph/graph_add.h"
#include "ir/graph/ops.h"
#include "ir/region/graph_regions.h"
#include "tests/unit/test_ir_util.h"

Test(ir_arena, aligned_zeroed_separate)
{
    dop_arena a;
    dop_arena_init(&a);
    unsigned char *last = NULL;
    for (size_t n = 0; n < 300; n++) {
        size_t bytes = n * n;
        unsigned char *p = dop_arena_alloc(&a, bytes);
        cr_assert(p && (uintptr_t)p % 16 == 0 && p != last);
        for (size_t i = 0; i < bytes; i++)
            cr_assert_eq(p[i], 0);
        memset(p, 0xa5, bytes);
        last = p;
    }
    cr_assert_str_eq(dop_arena_strdup(&a, "abc"), "abc");
    cr_assert_str_eq(dop_arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    cr_assert_null(dop_arena_alloc(&a, SIZE_MAX));
    cr_assert_null(dop_arena_alloc(&a, SIZE_MAX / 2 + 1));
    dop_arena_finish(&a);
    dop_arena_finish(&a);
    dop_arena zero = {0};
    dop_arena_finish(&zero);
}

Test(ir_types, names_and_rows)
{
    for (unsigned t = 1; t < DOP_TYPE_COUNT; t++) {
        const dop_type_info *ti = dop_type_of((dop_type)t);
        dop_type back;
        uint64_t bytes;
        cr_expect(dop_type_parse(ti->name, strlen(ti->name), &back) && back == (dop_type)t, "%s", ti->name);
        cr_expect(!dop_type_parse(ti->name, strlen(ti->name) - 1, &back) || back != (dop_type)t, "%s", ti->name);
        cr_expect(dop_type_row_bytes((dop_type)t, ti->block, &bytes) && bytes == ti->bytes, "%s", ti->name);
        cr_expect(dop_type_row_bytes((dop_type)t, ti->block + 1, &bytes) && bytes == 2 * ti->bytes, "%s", ti->name);
    }
    uint64_t bytes;
    dop_type t;
    cr_assert(!dop_type_parse("none", 4, &t));
    cr_assert(!dop_type_row_bytes(DOP_TYPE_f32, UINT64_MAX, &bytes));
    cr_assert(dop_type_row_bytes(DOP_TYPE_q6_k, 0, &bytes) && bytes == 0);
    cr_assert(dop_type_of((dop_type)99) == dop_type_of(DOP_TYPE_none));
}

Test(ir_ops, rows_of_the_table)
{
    const dop_op_info *s = dop_op_of(DOP_OP_attn_split);
    cr_assert_str_eq(s->name, "attn_split");
    cr_assert(s->src_min == 5 && s->src_max == 7 && s->n_attrs == 10 && s->root == DOP_ROOT_attention);
    cr_assert(s->attrs[0] == DOP_A_scale && s->attrs[3] == DOP_A_splits);
    cr_assert_eq(dop_op_of(DOP_OP_input)->traits, DOP_LEAF);
    cr_assert_eq(dop_op_of(DOP_OP_slice)->traits, DOP_VIEW);
    cr_assert_eq(dop_op_of(DOP_OP_state_write)->traits, DOP_EFFECT);
    cr_assert_eq(s->access[1].axis[DOP_AXIS_pos], DOP_ACCESS_all);
    cr_assert_eq(s->access[1].axis[DOP_AXIS_head], DOP_ACCESS_group);
    cr_assert_eq(dop_op_of(DOP_OP_gather)->access[0].axis[DOP_AXIS_row], DOP_ACCESS_at);
    cr_assert_eq(dop_op_of(DOP_OP_gather)->access[0].by, 1);
    cr_assert_eq(dop_template_of(DOP_TPL_gemv)->tile[DOP_AXIS_col], DOP_TILE_span);
    cr_assert_eq(dop_op_of(DOP_OP_add)->n_attrs, 0);
    cr_assert_str_eq(dop_op_of(DOP_OP_scale)->expr, "($0 * $by)");
    cr_assert_str_eq(dop_op_of((dop_op)1000)->name, "none");
    cr_assert_eq(dop_attr_kind_of(DOP_A_name), DOP_ATTR_S);
    cr_assert_eq(dop_attr_kind_of(DOP_A_eps), DOP_ATTR_F);
    cr_assert_eq(dop_attr_kind_of(DOP_A_window), DOP_ATTR_I);
    cr_assert_str_eq(dop_template_name(DOP_TPL_gemv), "gemv");
    for (unsigned op = 1; op < DOP_OP_COUNT; op++) { /* expressions and access agree */
        const dop_op_info *info = dop_op_of((dop_op)op);
        for (uint8_t k = 0; info->expr[0] && k < info->src_max; k++)
            cr_expect(info->root == DOP_ROOT_element && info->access[k].axis[DOP_AXIS_row] == DOP_ACCESS_same &&
                          info->access[k].axis[DOP_AXIS_col] == DOP_ACCESS_same,
                      "%s", info->name);
        cr_expect(info->src_max <= DOP_MAX_SRCS && info->n_attrs <= DOP_MAX_ATTRS, "%s", info->name);
    }
}

Test(ir_graph, accessors)
{
    dop_arena arena;
    dop_graph g;
    uint32_t start;
    dop_arena_init(&arena);
    test_must_parse("graph g(T<=4, S<=9, Q=1) {\n"
                    "%a:f32[T,24] = input \"a\"\n"
                    "%s0:f32[T,16] = slice %a start=8\n"
                    "%s1:f32[T,12] = slice %s0 start=4\n"
                    "%h:f32[T,3,4] = reshape %s1\n"
                    "%w:f32[4] = weight \"w\"\n"
                    "%hn:f32[T,3,4] = rmsnorm %h, %w eps=0.5 add=-1\n"
                    "%p:u32[T] = input \"p\"\n"
                    "%seq:u32[T] = input \"seq\"\n"
                    "%kc:f32[Q,S,3,4] = state \"k\" kind=append\n"
                    "%k1:f32[Q,S,3,4] = state_write %kc, %hn, %p, %seq\n"
                    "%rms:f32[T,1] = row_rms %a eps=0\n"
                    "%m:f32[T,24] = mul %a, %rms\n"
                    "%f:f32[4T,6] = reshape %m\n"
                    "return %k1, %f, %f }",
                    &arena, &g);
    dop_node_id a = test_find(&g, "a"), h = test_find(&g, "h"), hn = test_find(&g, "hn"), f = test_find(&g, "f");
    cr_assert_eq(dop_node_base(&g, h, &start), a);
    cr_assert_eq(start, 12);
    cr_assert_eq(dop_node_base(&g, a, NULL), a);
    cr_assert_eq(dop_node_extent(&g, hn), DOP_EXTENT_head);
    cr_assert_eq(dop_node_extent(&g, test_find(&g, "rms")), DOP_EXTENT_row);
    cr_assert_eq(dop_node_extent(&g, test_find(&g, "k1")), DOP_EXTENT_element);
    cr_assert_eq(dop_node_f(&g, hn, DOP_A_eps), 0.5);
    cr_assert_eq(dop_node_f(&g, hn, DOP_A_add), -1.0);
    cr_assert_eq(dop_node_f(&g, hn, DOP_A_scale), 0.0);
    cr_assert_eq(dop_node_i(&g, test_find(&g, "s0"), DOP_A_start), 8);
    cr_assert_str_eq(dop_node_s(&g, a, DOP_A_name), "a");
    cr_assert_str_eq(dop_node_s(&g, hn, DOP_A_name), "");
    cr_assert(dop_node_has(&g, hn, DOP_A_add) && !dop_node_has(&g, hn, DOP_A_by));
    cr_assert_eq(dop_node_cols(&g, h), 12);
    cr_assert_eq(dop_node_cols(&g, test_find(&g, "w")), 4);
    cr_assert_eq(dop_node_cols(&g, test_find(&g, "p")), 1);
    cr_assert(dop_node_per_token(&g, f) && !dop_node_per_token(&g, test_find(&g, "kc")));
    cr_assert_eq(dop_dim_value(&g, g.nodes[f].shape.dim[0], 3), 12);
    cr_assert_eq(dop_dim_value(&g, g.nodes[test_find(&g, "kc")].shape.dim[1], 3), 9);
    g.max_q = 2;
    cr_assert_eq(dop_node_rows(&g, test_find(&g, "kc"), 3), 18);
    cr_assert_eq(dop_node_cols(&g, test_find(&g, "kc")), 12);
    cr_assert_eq(dop_cache_heads(&g, test_find(&g, "kc")), 3);
    g.max_q = 1;
    dop_arena_finish(&arena);
}

Test(ir_graph, adding)
{
    dop_arena arena;
    dop_graph g;
    dop_diag diag = {0};
    dop_node_id a, b, c;
    char name[] = "weights", again[] = "x7";
    dop_attr attr = {.s = name}, by = {.f = 2};
    dop_want want = {DOP_TYPE_f16, {2, {{1, DOP_SYM_T}, {5, DOP_SYM_1}}}};
    dop_arena_init(&arena);
    cr_assert(dop_graph_init(&g, &arena, "no good", 1, 1, NULL) == DOP_E_INTERNAL);
    cr_assert(dop_graph_init(&g, &arena, "g", 0, 1, NULL) == DOP_E_INTERNAL);
    cr_assert(dop_graph_init(&g, &arena, "g", 4, 8, NULL) == DOP_OK);
    cr_assert(dop_graph_add(&g, DOP_OP_input, again, NULL, 0, &attr, &want, &diag, &a) == DOP_OK, "%s", diag.message);
    memset(name, '?', sizeof name - 1); /* strings are copied */
    memset(again, '?', sizeof again - 1);
    cr_assert_str_eq(g.nodes[a].attr[0].s, "weights");
    cr_assert_str_eq(g.nodes[a].name, "x7");
    cr_assert(g.nodes[a].label.layer == -1 && !*g.nodes[a].label.role);
    cr_assert_eq(g.nodes[a].type, DOP_TYPE_f16);
    cr_assert(dop_graph_add(&g, DOP_OP_scale, NULL, &a, 1, &by, NULL, &diag, &b) == DOP_OK);
    cr_assert_str_eq(g.nodes[b].name, "x8"); /* above the given name */
    cr_assert_eq(g.nodes[b].type, DOP_TYPE_f32);
    want.shape.rank = 0;
    cr_assert(dop_graph_add(&g, DOP_OP_relu, "r", &b, 1, NULL, &want, &diag, &c) == DOP_OK);
    cr_assert_eq(g.nodes[c].type, DOP_TYPE_f16);
    cr_assert(dop_shape_equal(&g.nodes[c].shape, &g.nodes[a].shape));
    cr_assert(dop_graph_add(&g, DOP_OP_scale, NULL, &a, 1, NULL, NULL, &diag, &b) == DOP_E_INTERNAL);
    cr_assert_str_eq(diag.message, "%x9: scale needs its attributes");
    cr_assert_eq(b, 0);
    dop_node_id bad = 99;
    cr_assert(dop_graph_add(&g, DOP_OP_relu, NULL, &bad, 1, NULL, NULL, NULL, &b) == DOP_E_INTERNAL);
    cr_assert(dop_graph_add(&g, DOP_OP_relu, "a b", &a, 1, NULL, NULL, NULL, &b) == DOP_E_INTERNAL);
    cr_assert(dop_graph_add(&g, DOP_OP_none, NULL, &a, 1, NULL, NULL, NULL, &b) == DOP_E_INTERNAL);
    cr_assert(dop_graph_output(&g, 0, NULL) == DOP_E_INTERNAL);
    cr_assert(dop_graph_output(&g, 99, NULL) == DOP_E_INTERNAL);
    cr_assert(dop_graph_add_region(&g, DOP_TPL_row, &bad, 1, &a, 1, NULL, &b) == DOP_E_INTERNAL);
    for (int i = 0; i < 500; i++) /* arrays grow */
        cr_assert(dop_graph_add(&g, DOP_OP_relu, NULL, &c, 1, NULL, NULL, &diag, &c) == DOP_OK);
    cr_assert(dop_graph_output(&g, c, NULL) == DOP_OK);
    cr_assert(dop_graph_verify(&g, "test", &diag) == DOP_OK, "%s", diag.message);
    dop_arena_finish(&arena);
}

Test(ir_graph, compact)
{
    dop_arena arena;
    dop_graph g;
    dop_diag diag = {0};
    dop_buf out = {0};
    dop_node_id id;
    dop_arena_init(&arena);
    test_must_parse("graph g(T<=4, S<=9, Q=1) {\n"
                    "%a:f32[T,4] = input \"a\"  %gone:f32[T,4] = input \"gone\"\n"
                    "%b:f32[T,4] = relu %a %dead:f32[T,4] = add %b, %gone\n"
                    "%c:f32[T,4] = exp %b %d:f32[T,4] = tanh %c return %d }\n"
                    "--- region @1 elementwise writes %b { %b } region @2 elementwise writes %dead { %dead }\n"
                    "region @3 elementwise writes %c { %c } region @4 elementwise writes %d { %d }",
                    &arena, &g);
    /* c reads a node that is made after it; compact moves c behind it and drops what nothing reads */
    dop_node_id a = test_find(&g, "a"), b = test_find(&g, "b"), c = test_find(&g, "c");
    cr_assert(dop_graph_add(&g, DOP_OP_add, "late", (dop_node_id[]){a, b}, 2, NULL, NULL, &diag, &id) == DOP_OK);
    g.nodes[c].src[0] = id;
    dop_node_id list[] = {id, c};
    g.regions[3].dead = true;
    dop_region_id r;
    cr_assert(dop_graph_add_region(&g, DOP_TPL_elementwise, list, 2, &c, 1, &diag, &r) == DOP_OK);
    cr_assert(dop_graph_compact(&g, &diag) == DOP_OK, "%s", diag.message);
    cr_assert(dop_graph_verify(&g, "test", &diag) == DOP_OK, "%s", diag.message);
    dop_graph_print(&g, &out);
    cr_assert_str_eq(out.data, "graph g(T<=4, S<=9, Q=1) {\n"
                               "  %a:f32[T,4]                  = input \"a\"\n"
                               "  %b:f32[T,4]                  = relu %a\n"
                               "  %late:f32[T,4]               = add %a, %b\n"
                               "  %c:f32[T,4]                  = exp %late\n"
                               "  %d:f32[T,4]                  = tanh %c\n"
                               "  return %d\n"
                               "}\n"
                               "---\n"
                               "region @1 elementwise writes %b { %b }\n"
                               "region @2 elementwise writes %d { %d }\n"
                               "region @3 elementwise writes %c { %late %c }\n");
    uint64_t hash = dop_graph_hash(&g);
    cr_assert(dop_graph_compact(&g, &diag) == DOP_OK);
    cr_assert(dop_graph_hash(&g) == hash, "compacting twice changes nothing");
    g.nodes[test_find(&g, "b")].src[0] = test_find(&g, "d");
    cr_assert(dop_graph_compact(&g, &diag) == DOP_E_INTERNAL);
    cr_assert_str_eq(diag.message, "%late depends on itself");
    dop_buf_finish(&out);
    dop_arena_finish(&arena);
}

Test(ir_graph, hash_sees_everything)
{
    dop_arena arena;
    dop_graph g;
    dop_arena_init(&arena);
    test_must_parse(test_all_ops, &arena, &g);
    uint64_t h = dop_graph_hash(&g);
    dop_node *n = dop_node_at(&g, test_find(&g, "n1"));
#define CHANGES(field, value)                                          \
    do {                                                               \
        __typeof__(field) old = field;                                 \
        field = value;                                                 \
        cr_expect(dop_graph_hash(&g) != h, #field " = " #value);       \
        field = old;                                                   \
        cr_expect(dop_graph_hash(&g) == h, #field " is not restored"); \
    } while (0)
    CHANGES(n->name, "other");
    CHANGES(n->label.role, "other");
    CHANGES(n->label.layer, 7);
    CHANGES(n->attr[1].f, 0.5);
    CHANGES(n->type, DOP_TYPE_f16);
    CHANGES(n->op, DOP_OP_layernorm);
    CHANGES(n->src[1], n->src[1] + 1);
    CHANGES(n->shape.dim[0].sym, DOP_SYM_S);
    CHANGES(g.max_s, 13);
    CHANGES(g.max_q, 2);
    CHANGES(g.max_t, 6);
    CHANGES(g.name, "other");
    CHANGES(g.n_outs, 2);
    CHANGES(g.regions[2].variant, NULL);
    CHANGES(g.regions[2].tpl, DOP_TPL_gemv);
    CHANGES(g.regions[2].dead, true);
    CHANGES(g.regions[2].n_outs, 1);
    dop_arena_finish(&arena);
}
