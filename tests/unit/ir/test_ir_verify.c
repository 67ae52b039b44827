/* The verifier: every invariant broken once, each with its message; and what must pass. */
#include "ir/graph/graph_add.h"
#include "tests/unit/test_ir_util.h"

#include "ir/region/region.h"

#include <math.h>

/* Damages a good graph, then the verifier must say `message`. */
static const char *const good =
    "graph g(T<=4, S<=8, Q=1) {\n"
    "%pos:u32[T] = input \"positions\"\n"
    "%seq:u32[T] = input \"sequences\"\n"
    "%x:f32[T,8] = input \"x\"\n"
    "%w:f32[8] = weight \"w\"\n"
    "%wk:f32[8,8] = weight \"wk\"\n"
    "%kc:f32[Q,S,2,4] = state \"L0.k\" kind=append\n"
    "%n:f32[T,8] = rmsnorm %x, %w eps=0x1p-20 add=0x0p+0\n"
    "%k:f32[T,8] = matmul %n, %wk\n"
    "%k3:f32[T,2,4] = reshape %k\n"
    "%kc1:f32[Q,S,2,4] = state_write %kc, %k3, %pos, %seq\n"
    "%a:f32[T,2,4] = attention %k3, %kc1, %kc1, %pos, %seq scale=0x1p+0 window=0 cap=0x0p+0\n"
    "%flat:f32[T,8] = reshape %a\n"
    "%y:f32[T,8] = add %flat, %x\n"
    "%z:f32[T,8] = silu %y\n"
    "return %z, %kc1\n"
    "}\n"
    "---\n"
    "region @1 row writes %n { %n }\n"
    "region @2 matmul writes %k { %k }\n"
    "region @3 attention writes %kc1 %a { %k3 %kc1 %a }\n"
    "region @4 elementwise writes %z { %flat %y %z }\n";

typedef void damage_fn(dop_graph *g);

static dop_node *
node(dop_graph *g, const char *name)
{
    return dop_node_at(g, test_find(g, name));
}

static void
set_region(dop_graph *g, dop_region_id r, const char *nodes, const char *outs)
{
    dop_region *rg = &g->regions[r];
    for (int pass = 0; pass < 2; pass++) {
        char *copy = strdup(pass ? outs : nodes), *save = NULL;
        dop_node_id *ids = dop_arena_alloc(g->arena, 64 * sizeof *ids);
        uint32_t n = 0;
        for (char *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save))
            ids[n++] = test_find(g, s);
        free(copy);
        if (pass) {
            rg->outs = ids;
            rg->n_outs = n;
        } else {
            rg->nodes = ids;
            rg->n_nodes = n;
        }
    }
    dop_diag diag = {0};
    cr_assert_eq(dop_region_describe(g, rg, &diag), DOP_OK);
}

static dop_node_id
append(dop_graph *g, dop_op op, const char *name, dop_node_id a, dop_node_id b)
{
    dop_node_id srcs[] = {a, b}, id;
    dop_diag diag = {0};
    cr_assert(dop_graph_add(g, op, name, srcs, b ? 2 : 1, NULL, NULL, &diag, &id) == DOP_OK, "%s", diag.message);
    return id;
}

/* clang-format off */
static void d_name(dop_graph *g) { node(g, "y")->name = "a b"; }
static void d_no_name(dop_graph *g) { node(g, "y")->name = ""; }
static void d_twice(dop_graph *g) { node(g, "y")->name = "n"; }
static void d_label(dop_graph *g) { node(g, "y")->label.role = "a\nb"; }
static void d_label_blank(dop_graph *g) { node(g, "y")->label.role = " a"; }
static void d_label_null(dop_graph *g) { node(g, "y")->label.role = NULL; }
static void d_label_layer(dop_graph *g) { node(g, "y")->label = (dop_label){-1, "L3/qkv"}; }
static void d_label_empty(dop_graph *g) { node(g, "y")->label = (dop_label){3, ""}; }
static void d_graph_name(dop_graph *g) { g->name = "a b"; }
static void d_op(dop_graph *g) { node(g, "y")->op = DOP_OP_COUNT; }
static void d_sources(dop_graph *g) { node(g, "y")->n_srcs = DOP_MAX_SRCS + 1; }
static void d_arity(dop_graph *g) { node(g, "y")->n_srcs = 1; }
static void d_src(dop_graph *g) { node(g, "y")->src[1] = 999; }
static void d_src_zero(dop_graph *g) { node(g, "y")->src[1] = 0; }
static void d_later(dop_graph *g) { node(g, "n")->src[0] = test_find(g, "k"); }
static void d_itself(dop_graph *g) { node(g, "z")->src[0] = test_find(g, "z"); }
static void d_shape(dop_graph *g) { node(g, "y")->shape.dim[1].mul = 9; }
static void d_leaf_empty(dop_graph *g) { node(g, "x")->shape.dim[1].mul = 0; }
static void d_leaf_sym(dop_graph *g) { node(g, "x")->shape = (dop_shape){3, {{1, DOP_SYM_T}, {8, 0}, {1, DOP_SYM_S}}}; }
static void d_leaf_rank(dop_graph *g) { node(g, "x")->shape.rank = 5; }
static void d_leaf_type(dop_graph *g) { node(g, "x")->type = DOP_TYPE_none; }
static void d_leaf_size(dop_graph *g)
{
    node(g, "x")->shape = (dop_shape){3, {{1, DOP_SYM_T}, {1 << 16, 0}, {1 << 16, 0}}};
}
static void d_leaf_large(dop_graph *g) { node(g, "wk")->shape = (dop_shape){2, {{1u << 31, 0}, {1u << 31, 0}}}; }
static void d_state_type(dop_graph *g) { node(g, "kc")->type = DOP_TYPE_q8_0; }
static void d_type(dop_graph *g) { node(g, "y")->type = DOP_TYPE_u32; }
static void d_kv_type(dop_graph *g) { node(g, "kc1")->type = DOP_TYPE_f16; }
static void d_nan(dop_graph *g) { node(g, "n")->attr[0].f = NAN; }
static void d_negative(dop_graph *g) { node(g, "n")->attr[0].f = -1; }
static void d_window(dop_graph *g) { node(g, "a")->attr[1].i = -1; }
static void d_string(dop_graph *g) { node(g, "w")->attr[0].s = NULL; }
static void d_broadcast(dop_graph *g) { node(g, "y")->src[1] = test_find(g, "wk"); }
static void d_ids(dop_graph *g) { node(g, "kc1")->src[2] = test_find(g, "w"); }
static void d_kinds(dop_graph *g) { node(g, "y")->src[1] = test_find(g, "pos"); }
static void d_vector(dop_graph *g) { node(g, "w")->shape.dim[0].mul = 7; }
static void d_matmul(dop_graph *g) { node(g, "wk")->shape.dim[1].mul = 7; }
static void d_gqa(dop_graph *g) { node(g, "k3")->shape.dim[1].mul = 8; node(g, "k3")->shape.dim[2].mul = 1; }
static void d_out(dop_graph *g) { g->outs[0] = 77; }
static void d_state_read(dop_graph *g) { append(g, DOP_OP_relu, "old", test_find(g, "kc"), 0); }
static void d_state_out(dop_graph *g) { (void)dop_graph_output(g, test_find(g, "kc"), NULL); }
static void d_not_state(dop_graph *g) { node(g, "kc")->op = DOP_OP_weight; }
static void d_same_state(dop_graph *g)
{
    dop_attr a[2] = {{.s = "L0.k"}, {.i = DOP_STATE_append}};
    dop_want w = {DOP_TYPE_f32, {4, {{1, DOP_SYM_Q}, {1, DOP_SYM_S}, {2, 0}, {4, 0}}}};
    dop_node_id id;
    cr_assert(dop_graph_add(g, DOP_OP_state, "kc2", NULL, 0, a, &w, NULL, &id) == DOP_OK);
}
static void d_tpl(dop_graph *g) { g->regions[1].tpl = DOP_TPL_none; }
static void d_variant(dop_graph *g) { g->regions[1].variant = "a b"; }
static void d_empty(dop_graph *g) { g->regions[1].n_nodes = 0; }
static void d_no_outs(dop_graph *g) { g->regions[1].n_outs = 0; }
static void d_lists(dop_graph *g) { g->regions[1].nodes[0] = 1000; }
static void d_leaf_listed(dop_graph *g) { set_region(g, 1, "w n", "n"); }
static void d_listed_twice(dop_graph *g) { set_region(g, 1, "n n", "n"); }
static void d_not_listed(dop_graph *g) { set_region(g, 1, "n", "k"); }
static void d_out_order(dop_graph *g) { set_region(g, 3, "k3 kc1 a", "a kc1"); }
static void d_view_out(dop_graph *g) { set_region(g, 4, "flat y z", "flat z"); }
static void d_two_writers(dop_graph *g) { set_region(g, 2, "n k", "n k"); }
static void d_not_topo(dop_graph *g) { set_region(g, 4, "flat z y", "z"); }
static void d_unwritten(dop_graph *g) { set_region(g, 3, "k3 kc1 a", "kc1"); }
static void d_uncovered(dop_graph *g) { set_region(g, 4, "flat y", "y"); }
static void d_no_result(dop_graph *g) { set_region(g, 4, "flat y z", "y"); }
static void d_state_lost(dop_graph *g) { set_region(g, 3, "k3 kc1 a", "a"); g->n_outs = 1; }
static void d_cycle(dop_graph *g)
{ /* @1 makes n and z, @4 makes y from @3, which needs n: @1 -> @2 -> @3 -> @4 -> @1 */
    set_region(g, 1, "n z", "n z");
    set_region(g, 4, "flat y", "y");
}
/* clang-format on */

static const struct {
    damage_fn *damage;
    const char *message;
} damages[] = {
    {d_name, "pass: node 13 has the name 'a b', which would not read back"},
    {d_no_name, "pass: node 13 has the name '', which would not read back"},
    {d_twice, "pass: two nodes are named %n"},
    {d_label, "pass: %y has the label 'a b', which would not read back"},
    {d_label_blank, "pass: %y has the label ' a', which would not read back"},
    {d_label_null, "pass: %y has the label '', which would not read back"},
    {d_label_layer, "pass: %y has the label 'L3/qkv', which would not read back"},
    {d_label_empty, "pass: %y has the label 'L3/', which would not read back"},
    {d_graph_name, "pass: the graph's name 'a b' cannot be printed"},
    {d_op, "pass: %y has no op or too many sources"},
    {d_sources, "pass: %y has no op or too many sources"},
    {d_arity, "pass: %y: add takes 2 to 2 sources, not 1"},
    {d_src, "pass: %y: source 1 is not a node"},
    {d_src_zero, "pass: %y: source 1 is not a node"},
    {d_later, "pass: %n uses %k, which comes after it"},
    {d_itself, "pass: %z uses %z, which comes after it"},
    {d_shape, "pass: %y is marked [T,9] but add gives [T,8]"},
    {d_leaf_empty, "pass: %x: input axis 1 is empty"},
    {d_leaf_sym, "pass: %x: input axis 2 is a dimension behind a constant axis"},
    {d_leaf_rank, "pass: %x: input has rank 5; 1 to 4 are possible"},
    {d_leaf_type, "pass: %x: input has no type"},
    {d_leaf_size, "pass: %x: input a row has more than 2^32-1 values"},
    {d_leaf_large, "pass: %wk: weight is too large"},
    {d_state_type, "pass: %kc: state must have a float type, not q8_0"},
    {d_type, "pass: %y: add cannot give type u32"},
    {d_kv_type, "pass: %kc1: state_write cannot give type f16"},
    {d_nan, "pass: %n: rmsnorm attribute eps is not finite"},
    {d_negative, "pass: %n: rmsnorm attribute eps must be positive"},
    {d_window, "pass: %a: attention attribute window=-1 is not in 0 to 4294967295"},
    {d_string, "pass: %w: weight attribute name is empty or longer than 1000 bytes"},
    {d_broadcast, "pass: %y: add %flat [T,8] and %wk [8,8] do not fit"},
    {d_ids, "pass: %kc1: state_write needs u32 ids of rank 1 for source 2, %w is f32[8]"},
    {d_kinds, "pass: %y: add cannot read type u32 of %pos"},
    {d_vector, "pass: %n: rmsnorm %x [T,8] and %w [7] do not fit"},
    {d_matmul, "pass: %k: matmul %n [T,8] and %wk [8,7] do not fit"},
    {d_gqa, "pass: %kc1: state_write %kc [Q,S,2,4] and %k3 [T,8,1] do not fit"},
    {d_out, "pass: output 0 is not a node"},
    {d_state_read, "pass: %kc1 overwrites %kc, which has 1 more readers"},
    {d_state_out, "pass: %kc1 overwrites %kc, which has 1 more readers"},
    {d_not_state, "pass: %kc1 writes to %kc, which is not state"},
    {d_same_state, "pass: state \"L0.k\" appears twice"},
    {d_tpl, "pass: region @1 has no template"},
    {d_variant, "pass: region @1 uses 'a b', which would not read back"},
    {d_empty, "pass: region @1 lists or writes nothing"},
    {d_no_outs, "pass: region @1 lists or writes nothing"},
    {d_lists, "pass: region @1 lists 1000, which is not a node"},
    {d_leaf_listed, "pass: region @1 lists %w, which is a leaf"},
    {d_listed_twice, "pass: region @1 lists %n twice"},
    {d_not_listed, "pass: region @1 writes %k, which it does not list"},
    {d_out_order, "pass: region @3 writes %kc1 out of order"},
    {d_view_out, "pass: region @4 writes %flat but does not list %a, whose bytes it has"},
    {d_two_writers, "pass: %n is written by region @1 and by region @2"},
    {d_not_topo, "pass: region @4 lists %z before its source %y"},
    {d_unwritten, "pass: region @4 reads %a, which no region writes"},
    {d_uncovered, "pass: no region lists %z"},
    {d_no_result, "pass: no region writes %z, a result of the graph"},
    {d_state_lost, "pass: no region writes %kc1, which is state"},
    {d_cycle, "pass: 4 regions wait for each other"},
};

Test(ir_verify, must_fail)
{
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        dop_arena arena;
        dop_graph g;
        dop_diag diag = {0};
        dop_arena_init(&arena);
        test_must_parse(good, &arena, &g);
        cr_assert(dop_graph_verify(&g, "pass", NULL) == DOP_OK);
        damages[i].damage(&g);
        cr_expect(dop_graph_verify(&g, "pass", &diag) == DOP_E_INTERNAL, "accepted; expected %s", damages[i].message);
        cr_expect_str_eq(diag.message, damages[i].message);
        dop_arena_finish(&arena);
    }
}

static void
must_pass(damage_fn *change)
{
    dop_arena arena;
    dop_graph g;
    dop_diag diag = {0};
    dop_arena_init(&arena);
    test_must_parse(good, &arena, &g);
    change(&g);
    cr_expect(dop_graph_verify(&g, "pass", &diag) == DOP_OK, "%s", diag.message);
    dop_arena_finish(&arena);
}

static void
any_order(dop_graph *g)
{
    dop_region first = g->regions[1];
    g->regions[1] = g->regions[4];
    g->regions[4] = first;
}

static void
recompute(dop_graph *g)
{
    g->regions[1].dead = true; /* both readers compute n again */
    set_region(g, 2, "n k", "k");
}

static void
one_region(dop_graph *g)
{
    g->regions[2].dead = g->regions[3].dead = g->regions[4].dead = true;
    set_region(g, 1, "n k kc1 a y z", "kc1 z"); /* views need not be listed */
}

static void
unused_node(dop_graph *g)
{
    append(g, DOP_OP_relu, "unused", test_find(g, "y"), 0);
}

static void
no_regions(dop_graph *g)
{
    for (dop_region_id r = 1; r < g->n_regions; r++)
        g->regions[r].dead = true;
}

Test(ir_verify, must_pass)
{
    must_pass(any_order);
    must_pass(recompute);
    must_pass(one_region);
    must_pass(unused_node);
    must_pass(no_regions);
}

#define ROPE(more, srcs, message)                                                                              \
    {                                                                                                          \
        "%a:f32[T,2,6]=input \"a\" %p:u32[T]=input \"p\" %i:u32[T]=input \"i\" %w:f32[S,4]=weight \"w\" " more \
        "%b:f32[T,2,6]=rope %a," srcs " dims=4 interleaved=1",                                                 \
            message                                                                                            \
    }

/* Shape rules that the damages above do not reach, as texts that the parser must refuse. */
Test(ir_verify, shape_rules)
{
    static const struct {
        const char *body, *message;
    } cases[] = {
        {"%a:f32[T,6]=input \"a\" %b:f32[T,4]=reshape %a", "%b: reshape cannot view %a [T,6] as [T,4]"},
        {"%a:f32[T,6]=input \"a\" %b:f32[6,1]=reshape %a", "%b: reshape cannot view %a [T,6] as [6,1]"},
        {"%a:f32[4,6]=input \"a\" %b:f32[4,2]=slice %a start=5", "%b: slice cannot take [4,2] at 5 of %a [4,6]"},
        {"%a:f32[4,6]=input \"a\" %b:f32[3,2]=slice %a start=0", "%b: slice cannot take [3,2] at 0 of %a [4,6]"},
        {"%a:q4_0[4,64]=weight \"a\" %b:q4_0[4,32]=slice %a start=16",
         "%b: slice start 16 is not a multiple of the 32 values in a block of q4_0"},
        {"%a:q4_0[4,64]=weight \"a\" %b:q4_0[8,32]=reshape %a",
         "%b: reshape cannot change the last axis of %a, whose type q4_0 comes in blocks along it"},
        {"%a:q4_0[4,64]=input \"a\"", "%a: input cannot have the block type q4_0"},
        {"%a:q4_0[4,64]=weight \"a\" %b:f32[4,64]=relu %a", "%b: relu cannot read type q4_0 of %a"},
        {"%a:f32[4,64]=weight \"a\" %b:q4_0[4,64]=cast %a", "%b: cast cannot give type q4_0"},
        {"%a:q4_0[4,64]=weight \"a\" %b:q4_0[4,64]=dequant %a", "%b: dequant cannot give type q4_0"},
        {"%a:f32[64]=weight \"a\" %b:f16[64]=dequant %a", "%b: dequant is not of a weight matrix"},
        {"%a:f32[T,64]=input \"a\" %b:f16[T,64]=dequant %a", "%b: dequant is not of a weight matrix"},
        {"%a:f32[4,6]=weight \"a\" %b:f16[4,3]=slice %a start=0", "%b: slice cannot give type f16"},
        {"%a:f32[4,6]=weight \"a\" %b:f32[4]=argmax %a", "%b: argmax cannot give type f32"},
        {"%a:f32[4]=weight \"a\" %b:u32[1]=argmax %a", "%b: argmax needs rank 2 or more"},
        {"%a:f32[4,6]=weight \"a\" %l:f32[5]=weight \"l\" %b:u32[4]=argmax %a,%l",
         "%b: argmax %a [4,6] and %l [5] do not fit"},
        {"%a:f32[4]=weight \"a\" %b:f32[1]=last_row %a", "%b: last_row needs rank 2 or more"},
        {"%a:f32[T]=input \"a\" %b:f32[T]=softmax %a", "%b: softmax works along the last axis, which must be constant"},
        {"%a:f32[T,2,3]=input \"a\" %w:f32[3,3]=weight \"w\" %b:f32[T,3]=matmul %a,%w",
         "%b: matmul needs rank 2 for source 0, %a is [T,2,3]"},
        {"%a:f32[T,3]=input \"a\" %w:f32[3,3]=weight \"w\" %b:f32[T,4]=matmul %a,%w",
         "%b is marked [T,4] but matmul gives [T,3]"},
        {"%a:f32[T,2,6]=input \"a\" %p:u32[T]=input \"p\" %w:f32[S,4]=weight \"w\" "
         "%b:f32[T,2,6]=rope %a,%p,%w dims=3 interleaved=0",
         "%b: rope dims=3 must be even and at most the 6 values of a head"},
        {"%a:f32[T,2,6]=input \"a\" %p:u32[T]=input \"p\" %w:f32[S,4]=weight \"w\" "
         "%b:f32[T,2,6]=rope %a,%p,%w dims=6 interleaved=0",
         "%b: rope the table %w has rows of 4, not dims=6"},
        {"%a:f32[T,2,6]=input \"a\" %p:u32[T]=input \"p\" %w:f32[S,4]=weight \"w\" "
         "%b:f32[T,2,6]=rope %a,%p,%w dims=4 interleaved=2",
         "%b: rope attribute interleaved=2 is not in 0 to 1"},
        {"%a:f32[T,2,6]=input \"a\" %p:u32[5]=input \"p\" %w:f32[S,4]=weight \"w\" "
         "%b:f32[T,2,6]=rope %a,%p,%w dims=4 interleaved=1",
         "%b: rope %p [5] and %a [T,2,6] differ on axis 0"},
        ROPE("", "%p,%w,%i,%i", "%b: rope has turns %i and no table for them"),
        ROPE("", "%p,%w,%w", "%b: rope needs u32 ids of rank 1 for source 3, %w is f32[S,4]"),
        ROPE("", "%p,%w,%i,%w,%w", "%b: rope needs u32 ids of rank 1 for source 4, %w is f32[S,4]"),
        ROPE("%e:f32[4]=weight \"e\" ", "%p,%w,%i,%i,%e", "%b: rope needs rank 2 for source 5, %e is [4]"),
        ROPE("%e:f32[2,6]=weight \"e\" ", "%p,%w,%i,%i,%e",
             "%b: rope the table %e has no even number of rows of dims=4"),
        ROPE("%e:f32[3,4]=weight \"e\" ", "%p,%w,%i,%i,%e",
             "%b: rope the table %e has no even number of rows of dims=4"),
        ROPE("%e:f32[S,4]=weight \"e\" ", "%p,%w,%i,%i,%e",
             "%b: rope the table %e has no even number of rows of dims=4"),
        {"%q:f32[T,3,6]=input \"a\" %p:u32[T]=input \"p\" %seq:u32[T]=input \"q\" %k:f32[Q,S,2,6]=state \"k\" "
         "kind=append "
         "%b:f32[T,3,6]=attention %q,%k,%k,%p,%seq scale=1 window=0 cap=0",
         "%b: attention %q [T,3,6] and %k [Q,S,2,6] do not fit"},
        {"%q:f32[T,4,6]=input \"a\" %p:u32[T]=input \"p\" %seq:u32[T]=input \"q\" %k:f32[Q,S,2,6]=state \"k\" "
         "kind=append %s:f32[3]=weight \"s\" "
         "%b:f32[T,4,6]=attention %q,%k,%k,%p,%seq,%s scale=1 window=0 cap=0",
         "%b: attention %q [T,4,6] and %s [3] do not fit"},
        {"%q:f32[T,4,6]=input \"a\" %p:u32[T]=input \"p\" %seq:u32[T]=input \"seq\" %k:f32[Q,S,2,6]=state \"k\" "
         "kind=append "
         "%b:f32[T,4,8]=attn_split %q,%k,%k,%p,%seq scale=1 window=0 cap=0 splits=0 whole=192 least=64",
         "%b: attn_split attribute splits=0 is not in 1 to 4294967295"},
        {"%q:f32[T,4,6]=input \"a\" %b:f32[T,1,4]=attn_combine %q splits=3",
         "%b: attn_combine %q is not the result of attn_split with splits=3"},
        {"%q:f32[T,4,6]=input \"a\" %b:u32[T]=argmax_merge %q", "%b: argmax_merge %q is not the result of argmax_part"},
        {"%q:f32[T,6]=input \"a\" %b:f32[T,0,2]=argmax_part %q parts=0", NULL},
        {"%q:f32[T,6]=input \"a\" %b:f32[T,6]=softcap %q cap=0", "%b: softcap attribute cap must be positive"},
        {"%a:f32[T,6]=input \"a\" %b:u32[T,2]=top_k %a k=2 groups=4 group_best=1 group_keep=1",
         "%b: top_k cannot keep 1 of 4 groups of 6 columns by their best 1"},
        {"%a:f32[T,6]=input \"a\" %b:u32[T,3]=top_k %a k=3 groups=3 group_best=1 group_keep=1",
         "%b: top_k cannot take 3 of 2 columns"},
        {"%a:f32[T,6]=input \"a\" %b:u32[T,3]=top_k %a k=0 groups=1 group_best=1 group_keep=1",
         "%b: top_k attribute k=0 is not in 1 to 4294967295"},
        {"%a:f32[T,6]=input \"a\" %i:u32[T,2]=input \"i\" %w:f32[3,4,5]=weight \"w\" %b:f32[T,2,4]=matmul_at %a,%w,%i",
         "%b: matmul_at %a [T,6] and %w [3,4,5] do not fit"},
        {"%a:f32[T,3,6]=input \"a\" %i:u32[T,2]=input \"i\" %w:f32[3,4,6]=weight \"w\" "
         "%b:f32[T,2,4]=matmul_at %a,%w,%i",
         "%b: matmul_at %a [T,3,6] and %i [T,2] do not fit"},
        {"%a:f32[T,6]=input \"a\" %i:f32[T,2]=input \"i\" %b:f32[T,2]=pick %a,%i",
         "%b: pick needs u32 ids for source 1, %i is f32"},
        {"%a:f32[T,2,6]=input \"a\" %p:f32[T,3]=input \"p\" %b:f32[T,6]=weighted_sum %a,%p",
         "%b: weighted_sum %a [T,2,6] and %p [T,3] do not fit"},
        {"%a:f32[T,8]=input \"a\" %n:f32[T,2]=input \"n\" %w:f32[5,6]=weight \"w\" %b:f32[T,5]=dot_at %a,%w,%n span=2",
         "%b: dot_at %a [T,8] and %w [5,6] do not fit"},
        {"%a:f32[T,8]=input \"a\" %n:u32[T,2]=input \"n\" %w:f32[5,8]=weight \"w\" %b:f32[T,5]=dot_at %a,%w,%n span=2",
         "%b: dot_at cannot read type u32 of %n"},
        {"%a:f32[T,8]=input \"a\" %n:f32[T,2]=input \"n\" %w:f32[5,8]=weight \"w\" %b:f32[T,5]=dot_at %a,%w,%n span=9",
         "%b: dot_at has segments of 9 columns and 8 columns"},
        {"%a:f32[T,8]=input \"a\" %n:f32[T,2]=input \"n\" %w:f32[5,8]=weight \"w\" %b:f32[T,5]=dot_at %a,%w,%n span=4 "
         "used=5",
         "%b: dot_at reads 5 columns of segments of 4"},
        {"%h:f32[Q,4]=state \"h\" kind=append",
         "%h: state of kind append is [Q,S,...] or a ring [Q,<rows>R,...], not [Q,4]"},
        {"%h:f32[Q,S,4]=state \"h\" kind=replace", "%h: state of kind replace is [Q,...], not [Q,S,4]"},
        {"%h:f32[T,4]=state \"h\" kind=replace", "%h: state of kind replace is [Q,...], not [T,4]"},
        {"%h:f32[Q,4]=state \"h\" kind=replace %x:f32[T,4]=input \"x\" %b:f32[Q,4]=state_write %h,%x",
         "%b: state_write of replace state by rows takes 3 sources, not 2"},
        {"%h:f32[Q,4]=state \"h\" kind=replace %x:f32[T,5]=input \"x\" %q:u32[T]=input \"q\" "
         "%b:f32[Q,4]=state_write %h,%x,%q",
         "%b: state_write %h [Q,4] and %x [T,5] do not fit"},
        {"%k:f32[Q,S,4]=state \"k\" kind=append %q:u32[T]=input \"q\" %b:f32[T,S,4]=gather %k,%q",
         "%b: gather needs a table of rows, not the append state %k"},
        {"%t:f32[8]=weight \"a\" %p:u32[T]=input \"p\" %b:f32[T,8]=gather %t,%p", "%b: gather needs rank 2 or more"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dop_arena arena;
        dop_graph g;
        dop_diag diag = {0};
        char text[600];
        dop_arena_init(&arena);
        snprintf(text, sizeof text, "graph g(T<=4, S<=8, Q=1) { %s return }", cases[i].body);
        cr_expect(test_parse(text, &arena, &diag, &g) == DOP_E_INPUT, "accepted: %s", text);
        char *newline = strchr(diag.message, '\n');
        if (newline)
            *newline = 0;
        if (cases[i].message)
            cr_expect_str_eq(diag.message, cases[i].message);
        dop_arena_finish(&arena);
    }
}
