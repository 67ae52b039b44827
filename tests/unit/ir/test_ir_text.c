/* The golden text: what is printed reads back to the same bytes, what is wrong is refused with its place. */
#include "ir/graph/ops.h"
#include "ir/region/graph_regions.h"
#include "tests/unit/test_ir_util.h"

#include <locale.h>

static void
print(const dop_graph *g, dop_buf *out)
{
    dop_graph_print(g, out);
    cr_assert(!out->failed);
}

Test(ir_text, covers_all_tables)
{
    dop_arena arena;
    dop_graph g;
    bool ops[DOP_OP_COUNT] = {false}, templates[DOP_TPL_COUNT] = {false}, attrs[DOP_A_COUNT] = {false};
    dop_arena_init(&arena);
    test_must_parse(test_all_ops, &arena, &g);
    for (dop_node_id id = 1; id < g.n_nodes; id++) {
        const dop_op_info *info = dop_op_of(g.nodes[id].op);
        ops[g.nodes[id].op] = true;
        for (uint8_t k = 0; k < info->n_attrs; k++)
            attrs[info->attrs[k]] = true;
    }
    for (dop_region_id r = 1; r < g.n_regions; r++)
        templates[g.regions[r].tpl] = true;
    for (unsigned i = 1; i < DOP_OP_COUNT; i++)
        cr_expect(ops[i], "op %s is not in the text", dop_op_of((dop_op)i)->name);
    for (unsigned i = 1; i < DOP_TPL_COUNT; i++)
        cr_expect(templates[i], "template %s is not in the text", dop_template_name((dop_template)i));
    for (unsigned i = 0; i < DOP_A_COUNT; i++)
        cr_expect(attrs[i], "attribute %s is not in the text", dop_attr_name((dop_attr_id)i));
    dop_arena_finish(&arena);
}

Test(ir_text, round_trip)
{
    dop_arena arena;
    dop_graph g, again;
    dop_buf one = {0}, two = {0};
    dop_arena_init(&arena);
    test_must_parse(test_all_ops, &arena, &g);
    print(&g, &one);
    test_must_parse(one.data, &arena, &again);
    print(&again, &two);
    cr_assert_str_eq(one.data, two.data);
    cr_assert(dop_graph_hash(&g) == dop_graph_hash(&again));
    cr_assert_eq(g.n_nodes, again.n_nodes);
    cr_assert_eq(g.n_regions, again.n_regions);
    cr_assert_eq(g.n_outs, 7);
    cr_assert_str_eq(dop_node_s(&again, test_find(&again, "emb"), DOP_A_name), "emb \"quoted\" \\ \x01\xff");
    cr_assert_eq(dop_node_f(&again, test_find(&again, "rms"), DOP_A_eps), 0x0.0000000000001p-1022);
    const dop_label label = again.nodes[test_find(&again, "n1")].label;
    cr_assert(label.layer == 0 && strcmp(label.role, "qkv") == 0);
    cr_assert_str_eq(again.regions[4].variant, "attn/decode.f16-a");
    /* what the input said is what was printed, white space aside */
    char *in = strdup(test_all_ops), *save_in = NULL, *save_out = NULL;
    char *a = strtok_r(in, " \n", &save_in), *b = strtok_r(one.data, " \n", &save_out);
    for (; a || b; a = strtok_r(NULL, " \n", &save_in), b = strtok_r(NULL, " \n", &save_out)) {
        cr_assert(a && b);
        cr_assert_str_eq(a, b);
    }
    free(in);
    dop_buf_finish(&one);
    dop_buf_finish(&two);
    dop_arena_finish(&arena);
}

Test(ir_text, exact_bytes)
{
    dop_arena arena;
    dop_graph g;
    dop_buf out = {0};
    dop_arena_init(&arena);
    test_must_parse(
        "graph decode(T=1,S<=4096, Q=1){#c\n%tok:u32[T]=input\"tokens\"%emb:f16[32000,2048]=weight \"embed\"\n"
        "%x0:f32[T,2048]=gather %emb , %tok;  L3/qkv # not a comment \r\n"
        "%x1:f32[T,2048]=scale %x0 by=45.25 return %x1}---region@1 elementwise using v subgroup=1 wg =64 rows= 0 "
        "writes%x1{%x0%x1}",
        &arena, &g);
    print(&g, &out);
    cr_assert_str_eq(out.data, "graph decode(T=1, S<=4096, Q=1) {\n"
                               "  %tok:u32[T]                  = input \"tokens\"\n"
                               "  %emb:f16[32000,2048]         = weight \"embed\"\n"
                               "  %x0:f32[T,2048]              = gather %emb, %tok ; L3/qkv # not a comment\n"
                               "  %x1:f32[T,2048]              = scale %x0 by=0x1.6ap+5\n"
                               "  return %x1\n"
                               "}\n"
                               "---\n"
                               "region @1 elementwise using v wg=64 subgroup=1 writes %x1 { %x0 %x1 }\n");
    dop_buf_finish(&out);
    dop_arena_finish(&arena);
}

/* Every double prints as "%a" does in the C locale and reads back bit for bit. */
Test(ir_text, floats_are_exact)
{
    uint64_t state = 1;
    for (int i = 0; i < 3000; i++) {
        static const double edges[] = {0.0,    -0.0,    1.0,       -1.0, 0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp+1023,
                                       0x1p52, 0x1.8p0, 1.0 / 3.0, 0.1};
        uint64_t bits = test_random(&state);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (i < (int)(sizeof edges / sizeof edges[0]))
            v = edges[i];
        if (v - v != 0.0) /* not finite */
            continue;
        dop_arena arena;
        dop_graph g;
        dop_buf out = {0};
        char want[64];
        dop_arena_init(&arena);
        test_must_parse("graph g(T=1, S<=1, Q=1) { %a:f32[T,2] = input \"a\" %b:f32[T,2] = scale %a by=1 return %b }",
                        &arena, &g);
        g.nodes[2].attr[0].f = v;
        print(&g, &out);
        snprintf(want, sizeof want, "by=%a\n", v);
        cr_assert(strstr(out.data, want), "%a in\n%s", v, out.data);
        test_must_parse(out.data, &arena, &g);
        cr_assert(memcmp(&g.nodes[2].attr[0].f, &v, sizeof v) == 0, "%a", v);
        dop_buf_finish(&out);
        dop_arena_finish(&arena);
    }
}

Test(ir_text, several_graphs_and_separators)
{
    static const char text[] = "graph a(T=1, S<=1, Q=1) { %x:f32[2] = weight \"x\" return %x }\n"
                               "graph b(T=1, S<=1, Q=1) { %x:f32[2] = weight \"x\" %y:f32[2] = relu %x return %y }\n"
                               "---\nregion @1 elementwise writes %y { %y }\n"
                               "---\ngraph c(T<=1, S<=1, Q=1) { return }\n";
    dop_arena arena;
    dop_diag diag = {0};
    dop_graph g;
    size_t at = 0, end;
    dop_arena_init(&arena);
    cr_assert(dop_graph_parse("p", text, sizeof text - 1, &arena, &diag, &g, &end) == DOP_OK);
    cr_assert_str_eq(g.name, "a");
    cr_assert(strncmp(text + end, "graph b", 7) == 0);
    at += end;
    cr_assert(dop_graph_parse("p", text + at, sizeof text - 1 - at, &arena, &diag, &g, &end) == DOP_OK);
    at += end;
    cr_assert_eq(g.n_regions, 2);
    cr_assert(strncmp(text + at, "---\ngraph c", 11) == 0);
    at += 3;
    cr_assert(dop_graph_parse("p", text + at, sizeof text - 1 - at, &arena, &diag, &g, &end) == DOP_OK);
    cr_assert_eq(at + end, sizeof text - 1);
    cr_assert_eq(g.max_t, 1);
    dop_arena_finish(&arena);
}

Test(ir_text, dead_regions_are_not_printed)
{
    dop_arena arena;
    dop_graph g;
    dop_buf out = {0};
    dop_arena_init(&arena);
    test_must_parse(
        "graph g(T<=2, S<=1, Q=1) { %a:f32[T,2] = input \"a\" %b:f32[T,2] = exp %a %c:f32[T,2] = exp %b return %c }\n"
        "--- region @1 elementwise writes %b { %b } region @2 elementwise writes %c { %c }\n",
        &arena, &g);
    dop_node_id both[] = {2, 3}, last[] = {3};
    dop_region_id id;
    uint64_t before = dop_graph_hash(&g);
    cr_assert(dop_graph_add_region(&g, DOP_TPL_elementwise, both, 2, last, 1, NULL, &id) == DOP_OK);
    g.regions[1].dead = g.regions[2].dead = true;
    cr_assert(dop_graph_verify(&g, "test", NULL) == DOP_OK);
    print(&g, &out);
    cr_assert(strstr(out.data, "---\nregion @1 elementwise writes %c { %b %c }\n"), "%s", out.data);
    cr_assert(dop_graph_hash(&g) != before);
    uint64_t dirty = dop_graph_hash(&g);
    cr_assert(dop_graph_compact(&g, NULL) == DOP_OK);
    cr_assert_eq(g.n_regions, 2);
    cr_assert(dop_graph_hash(&g) == dirty, "equal text, equal digest");
    dop_buf_finish(&out);
    dop_arena_finish(&arena);
}

/* ---- what must be refused ---- */

typedef struct refusal {
    const char *text;
    long line, column;
    const char *message; /* of its first line */
} refusal;

#define HEAD "graph g(T<=3, S<=8, Q=1) {\n"
static const refusal refusals[] = {
    {"", 1, 1, "expected 'graph NAME(T<=..., S<=..., Q=...) {'"},
    {"\n\n  grape", 3, 3, "expected 'graph NAME(T<=..., S<=..., Q=...) {'"},
    {"graph (T=1, S<=1, Q=1) {", 1, 7, "expected the graph's name, 1 to 200 characters"},
    {"graph g(T=2, S<=1, Q=1) {", 1, 11, "T is 1 (T=1) or up to a number (T<=512)"},
    {"graph g(T<=0, S<=1, Q=1) {", 1, 12, "T is 1 (T=1) or up to a number (T<=512)"},
    {"graph g(T<=4294967296, S<=1, Q=1) {", 1, 12, "expected T, a number up to 4294967295"},
    {"graph g(T<=4, S<=0, Q=1) {", 1, 18, "S is at least 1"},
    {"graph g(T<=4, S<=1, Q=1) ", 1, 26, "expected '{'"},
    {"graph g(T<=4, S<=1, Q=0) {", 1, 23, "Q is at least 1"},
    {"graph g() {", 1, 9, "expected a dimension: a capital letter and up to 7 letters or digits, but not R"},
    {"graph g(T<=4, R<=1) {", 1, 15, "expected a dimension: a capital letter and up to 7 letters or digits, but not R"},
    {"graph g(y<=4) {", 1, 9, "expected a dimension: a capital letter and up to 7 letters or digits, but not R"},
    {"graph g(Tokens.4<=4) {", 1, 9, "expected a dimension: a capital letter and up to 7 letters or digits, but not R"},
    {"graph g(Y<=4, Y<=5) {", 1, 15, "a second dimension is named Y"},
    {"graph g(Y<=4, X=5) {", 1, 16, "expected '<='"},
    {"graph g(Y<=4, X<=0) {", 1, 18, "X is at least 1"},
    {"graph g(A<=1,B<=1,C<=1,D<=1,E<=1,F<=1,G<=1,H<=1) {", 1, 44, "more than 10 dimensions"},
    {"graph g(Y<=4) {\n%a:f32[X,2]", 2, 8,
     "expected an axis: a number, a dimension of the graph, R, or a number and one of them"},
    {"graph g(Y<=4) {\n%a:f32[T,2]", 2, 8,
     "expected an axis: a number, a dimension of the graph, R, or a number and one of them"},
    {HEAD "%a:f32[Q,4] = state \"a\" kind=other", 2, 30, "'other' is not a word for kind"},
    {HEAD, 2, 1, "expected a node (%name:...) or 'return'"},
    {HEAD "foo", 2, 1, "expected a node (%name:...) or 'return'"},
    {HEAD "%", 2, 2, "expected a name"},
    {HEAD "%a", 2, 3, "expected ':'"},
    {HEAD "%a:f33[2]", 2, 4, "unknown type 'f33'"},
    {HEAD "%a:none[2]", 2, 4, "unknown type 'none'"},
    {HEAD "%a:f32[0]", 2, 8, "expected an axis: a number, a dimension of the graph, R, or a number and one of them"},
    {HEAD "%a:f32[2X]", 2, 8, "expected an axis: a number, a dimension of the graph, R, or a number and one of them"},
    {HEAD "%a:f32[]", 2, 8, "expected an axis: a number, a dimension of the graph, R, or a number and one of them"},
    {HEAD "%a:f32[1,2,3,4,5]", 2, 16, "a shape has at most 4 axes"},
    {HEAD "%a:f32[99999999999]", 2, 8,
     "expected an axis: a number, a dimension of the graph, R, or a number and one of them"},
    {HEAD "%a:f32[2] = frob", 2, 13, "unknown op 'frob'"},
    {HEAD "%a:f32[2] = none", 2, 13, "unknown op 'none'"},
    {HEAD "%a:f32[2] = weight a", 2, 20, "expected a string in double quotes"},
    {HEAD "%a:f32[2] = weight \"a\nb\"", 2, 20, "the string has no end"},
    {HEAD "%a:f32[2] = weight \"a\\", 2, 20, "the string has no end"},
    {HEAD "%a:f32[2] = weight \"\\q\"", 2, 21, "unknown escape in a string; known are \\\" \\\\ and \\xNN"},
    {HEAD "%a:f32[2] = weight \"\\x00\"", 2, 20, "a string cannot hold a zero byte"},
    {HEAD "%a:f32[2] = weight \"\"", 2, 13, "%a: weight attribute name is empty or longer than 1000 bytes"},
    {HEAD "%a:f32[2] = weight \"a\" %a:f32[2] = weight \"b\"", 2, 25, "a second node is named %a"},
    {HEAD "%b:f32[2] = relu %a", 2, 19, "there is no node %a before this place"},
    {HEAD "%b:f32[2] = relu %b", 2, 19, "there is no node %b before this place"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[2] = add %a return %b }", 2, 36, "%b: add takes 2 to 2 sources, not 1"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[2] = add %a,%a,%a,%a,%a,%a,%a,%a", 2, 61, "more than 7 sources"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[2] = scale %a\nreturn %b }", 3, 1, "expected by=, an attribute of scale"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[2] = scale %a by 1", 2, 48, "expected '='"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[2] = scale %a by=x", 2, 48, "expected a number"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[2] = scale %a by=nan", 2, 48, "expected a number"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[2] = scale %a by=1e999", 2, 48, "'1e999' is not a number for by"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[2] = scale %a by=1x", 2, 48, "'1x' is not a number for by"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[2] = scale %a by=1,5", 2, 49, "expected a node (%name:...) or 'return'"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[1] = slice %a start=0x1", 2, 51, "'0x1' is not a whole number for start"},
    {HEAD "%a:f32[2] = weight \"a\" %b:f32[1] = slice %a start=9999999999999999999", 2, 51,
     "'9999999999999999999' is not a whole number for start"},
    {HEAD "%a:f32[2] = weight \"a\"\n  %b:f32[3] = relu %a return %b }", 3, 4, "%b is marked [3] but relu gives [2]"},
    {HEAD "%a:f32[2] = weight \"a\" ; \x01\n", 2, 26, "the label has a character that is not plain ASCII"},
    {HEAD "return %a }", 2, 9, "there is no node %a before this place"},
    {HEAD "return", 2, 7, "expected '}'"},
    {HEAD "return }\n--- region 1", 3, 12, "expected '@'"},
    {HEAD "return }\n--- region @2", 3, 5, "this is region @1, not @2"},
    {HEAD "return }\n--- region @1 tall", 3, 15, "unknown template 'tall'"},
    {HEAD "return }\n--- region @1 row reads", 3, 19, "expected 'writes'"},
    {HEAD "return }\n--- region @1 row using {", 3, 25, "expected the variant's name"},
    {HEAD "return }\n--- region @1 row using v wg writes", 3, 30, "expected '='"},
    {HEAD "return }\n--- region @1 row using v wg=-1 writes", 3, 30,
     "expected the tile's field, a number up to 4294967295"},
    {HEAD "return }\n--- region @1 row using v gw=1 writes", 3, 27, "expected 'writes'"},
    {HEAD "return }\n--- region @1 row writes { %q }", 3, 29, "there is no node %q before this place"},
    {HEAD "return }\n--- region @1 row writes { }", 1, 1, "graph g: region @1 lists or writes nothing"},
};

Test(ir_text, refusals)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        dop_arena arena;
        dop_graph g;
        dop_diag diag = {0};
        dop_arena_init(&arena);
        dop_status st = test_parse(r->text, &arena, &diag, &g);
        char *newline = strchr(diag.message, '\n');
        cr_expect(st == DOP_E_INPUT, "accepted: %s", r->text);
        cr_expect(newline != NULL, "no excerpt: %s", diag.message);
        if (newline)
            *newline = 0;
        cr_expect_str_eq(diag.message, r->message);
        cr_expect_str_eq(diag.path, "test.dir");
        cr_expect(diag.line == r->line && diag.column == r->column, "%s: at %ld:%ld, not %ld:%ld", r->message,
                  diag.line, diag.column, r->line, r->column);
        dop_arena_finish(&arena);
    }
}

Test(ir_text, excerpt_and_caret)
{
    dop_arena arena;
    dop_graph g;
    dop_diag diag = {0};
    dop_arena_init(&arena);
    cr_assert(test_parse(HEAD "\t%a:f32[2] = frob \x1b[31m\nreturn %a }", &arena, &diag, &g) == DOP_E_INPUT);
    cr_assert_str_eq(diag.message, "unknown op 'frob'\n     %a:f32[2] = frob  [31m\n                 ^");
    dop_arena_finish(&arena);
}

/* Damaged texts: never a crash, always either a graph that prints and reads back or an error with its place. */
Test(ir_text, mutations)
{
    static const char *const pieces[] = {"%",   "[",      "T",   "S",    "4294967295", "-1", "0x1p+1023", "=",
                                         ",",   "}",      "{",   "\"",   "\\x",        "; ", "region",    "@1",
                                         "---", "return", "%x0", "%kc1", "\n",         " "};
    uint64_t state = 42;
    size_t size = strlen(test_all_ops), accepted = 0, refused = 0;
    char *text = malloc(2 * size);
    for (int round = 0; round < 12000; round++) {
        size_t n = size;
        memcpy(text, test_all_ops, size);
        for (uint64_t k = 1 + test_random(&state) % 3; k > 0; k--) {
            size_t at = test_random(&state) % n, len = test_random(&state) % 8 + 1;
            const char *piece = pieces[test_random(&state) % (sizeof pieces / sizeof pieces[0])];
            len = len < n - at ? len : n - at;
            switch (test_random(&state) % 5) {
            case 0: /* another byte */
                text[at] = (char)test_random(&state);
                break;
            case 1: /* a piece goes */
                memmove(text + at, text + at + len, n - at - len);
                n -= len;
                break;
            case 2: /* a known token comes */
                memmove(text + at + strlen(piece), text + at, n - at);
                memcpy(text + at, piece, strlen(piece));
                n += strlen(piece);
                break;
            case 3: { /* a digit changes, or two places swap */
                size_t other = test_random(&state) % n;
                char c = text[at];
                text[at] = text[other];
                text[other] = c;
                break;
            }
            default: /* it ends here; rarely, or nothing is left to test */
                if (test_random(&state) % 8 == 0)
                    n = at + 1;
                break;
            }
        }
        dop_arena arena;
        dop_graph g, again;
        dop_diag diag = {0};
        size_t end;
        dop_arena_init(&arena);
        char *exact = malloc(n); /* so that reading past the end is seen */
        memcpy(exact, text, n);
        dop_status st = dop_graph_parse("m", exact, n, &arena, &diag, &g, &end);
        if (st == DOP_OK) {
            dop_buf one = {0}, two = {0};
            accepted++;
            print(&g, &one);
            cr_assert(dop_graph_parse("m", one.data, one.size, &arena, &diag, &again, &end) == DOP_OK, "%s\n%s",
                      diag.message, one.data);
            print(&again, &two);
            cr_assert_str_eq(one.data, two.data);
            dop_buf_finish(&one);
            dop_buf_finish(&two);
        } else {
            refused++;
            cr_assert(st == DOP_E_INPUT && diag.line >= 1 && diag.column >= 1 && diag.message[0], "%s", diag.message);
        }
        free(exact);
        dop_arena_finish(&arena);
    }
    free(text);
    cr_assert(accepted > 500 && refused > 5000, "%zu accepted, %zu refused", accepted, refused);
}
