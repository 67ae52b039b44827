/* The shape of the graphs: what is in them, how it is named and labelled, which storage types. */
#include "tests/unit/model_util.h"

#define GOLDEN DOP_SOURCE_DIR "/tests/golden/"

/* A built graph of a golden model. */
typedef struct built {
    util_model u;
    dop_graph g;
} built;

static void
build(built *b, const char *model, dop_build_options opt)
{
    util_model_open(&b->u, model, opt.max_s);
    util_ok(&b->u, dop_build_graph(&b->u.m, &opt, &b->u.arena, &b->u.diag, &b->g), "build");
    util_ok(&b->u, dop_graph_verify(&b->g, "build", &b->u.diag), "verify");
}

static dop_node_id
find(const dop_graph *g, const char *name)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        if (strcmp(g->nodes[id].name, name) == 0)
            return id;
    return 0;
}

static uint32_t
count(const dop_graph *g, dop_op op)
{
    uint32_t n = 0;
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        n += g->nodes[id].op == op;
    return n;
}

static const dop_build_options decode = {
    .phase = DOP_PHASE_DECODE, .max_t = 1, .max_s = 64, .kv_type = DOP_TYPE_f16, .act_type = DOP_TYPE_f32};

Test(build, decode_llama)
{
    static const char *const labels[][2] = {
        {"emb", "embed"},
        {"L1.attn_norm", "L1/qkv"},
        {"L1.q", "L1/qkv"},
        {"L1.qr", "L1/attn"},
        {"L1.k_cache", "L1/attn"},
        {"L1.attn", "L1/attn"},
        {"L1.o", "L1/o"},
        {"x1a", "L1/o"},
        {"L1.gate", "L1/ffn_up"},
        {"L1.gated", "L1/ffn_up"},
        {"L1.down", "L1/ffn_down"},
        {"x2", "L1/ffn_down"},
        {"final_norm", "head"},
        {"logits", "head"},
        {"id", "head"},
        {"w.L0.q", ""},
        {"s.L0.k", ""},
        {"tok", ""},
    };
    built b;
    build(&b, GOLDEN "llama", decode);
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        dop_node_id id = find(&b.g, labels[i][0]);
        cr_assert(id, "no node %s", labels[i][0]);
        const char *label = dop_label_text(b.g.nodes[id].label);
        cr_expect_str_eq(label, labels[i][1], "%s: %s", labels[i][0], label);
    }
    cr_expect_eq(count(&b.g, DOP_OP_attention), 2);
    cr_expect_eq(count(&b.g, DOP_OP_matmul), 15);
    cr_expect_eq(count(&b.g, DOP_OP_state_write), 4);
    cr_expect_eq(count(&b.g, DOP_OP_rmsnorm), 5);
    cr_expect_eq(count(&b.g, DOP_OP_last_row), 0);
    cr_expect_eq(b.g.max_t, 1);
    cr_assert_eq(b.g.n_outs, 6);
    cr_expect_eq(b.g.outs[0], find(&b.g, "logits"));
    cr_expect_eq(b.g.outs[1], find(&b.g, "id"));
    cr_expect_eq(b.g.outs[5], find(&b.g, "L1.v_cache"));
    cr_expect_eq(b.g.nodes[find(&b.g, "L0.k_cache")].type, DOP_TYPE_f16);
    cr_expect_eq(b.g.nodes[find(&b.g, "w.L0.q")].type, DOP_TYPE_bf16);
    util_model_close(&b.u);
}

/* Doge's bias of keys by their values has names of its own beside that of the projection. */
Test(build, names_of_biases)
{
    built b;
    build(&b, GOLDEN "doge", decode);
    cr_expect(find(&b.g, "L0.k_biased") && find(&b.g, "L0.q_biased"));
    cr_expect(!find(&b.g, "L0.kb"));
    util_model_close(&b.u);
}

Test(build, phases)
{
    dop_build_options opt = decode;
    built b;
    opt.phase = DOP_PHASE_PREFILL;
    opt.max_t = 16;
    build(&b, GOLDEN "qwen3", opt);
    dop_node_id last = find(&b.g, "last"), logits = find(&b.g, "logits");
    cr_assert(last && logits);
    cr_expect_eq(b.g.nodes[find(&b.g, "final_norm")].src[0], last);
    cr_expect(b.g.nodes[logits].shape.dim[0].sym == DOP_SYM_1 && b.g.nodes[logits].shape.dim[0].mul == 1);
    cr_expect_eq(b.g.max_t, 16);
    util_model_close(&b.u);
    opt.phase = DOP_PHASE_SCORE;
    build(&b, GOLDEN "qwen3", opt);
    cr_expect_eq(b.g.nodes[find(&b.g, "logits")].shape.dim[0].sym, DOP_SYM_T);
    cr_expect_eq(count(&b.g, DOP_OP_argmax), 0);
    cr_expect_eq(b.g.n_outs, 5);
    util_model_close(&b.u);
}

/* The tied output matrix is the same leaf as the embedding. */
Test(build, tied_embedding_is_one_leaf)
{
    built b;
    build(&b, GOLDEN "gemma3", decode);
    cr_expect_eq(b.g.nodes[find(&b.g, "logits")].src[1], b.g.nodes[find(&b.g, "emb")].src[0]);
    cr_expect_eq(dop_node_f(&b.g, find(&b.g, "emb_s"), DOP_A_by), 8.0);
    cr_expect_eq(dop_node_f(&b.g, find(&b.g, "L0.attn_norm"), DOP_A_add), 1.0);
    cr_expect_eq(dop_node_i(&b.g, find(&b.g, "L0.attn"), DOP_A_window), 10);
    cr_expect_eq(dop_node_i(&b.g, find(&b.g, "L5.attn"), DOP_A_window), 0);
    cr_expect_eq(b.g.nodes[find(&b.g, "L0.qr")].src[2], find(&b.g, "rope.1"));
    cr_expect_eq(b.g.nodes[find(&b.g, "L5.qr")].src[2], find(&b.g, "rope.0"));
    util_model_close(&b.u);
}

Test(build, window_that_holds_the_cache_is_none)
{
    dop_build_options opt = decode;
    built b;
    opt.max_s = 12;
    build(&b, GOLDEN "mistral_window", opt);
    cr_expect_eq(dop_node_i(&b.g, find(&b.g, "L0.attn"), DOP_A_window), 0);
    util_model_close(&b.u);
    opt.max_s = 13;
    build(&b, GOLDEN "mistral_window", opt);
    cr_expect_eq(dop_node_i(&b.g, find(&b.g, "L0.attn"), DOP_A_window), 12);
    util_model_close(&b.u);
}

/* f16 activations: what regions exchange, but not the residual stream and not the logits. */
Test(build, half_precision_activations)
{
    static const char *const half[] = {"L0.attn_norm", "L0.q", "L0.qr", "L0.attn", "L0.o", "L0.gated", "L0.down"};
    static const char *const full[] = {"emb", "x0a", "x1", "logits"};
    dop_build_options opt = decode;
    built b;
    opt.act_type = DOP_TYPE_f16;
    build(&b, GOLDEN "llama", opt);
    for (size_t i = 0; i < sizeof half / sizeof *half; i++)
        cr_expect_eq(b.g.nodes[find(&b.g, half[i])].type, DOP_TYPE_f16, "%s", half[i]);
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        cr_expect_eq(b.g.nodes[find(&b.g, full[i])].type, DOP_TYPE_f32, "%s", full[i]);
    util_model_close(&b.u);
}

/* Learned positions end somewhere. */
Test(build, context_past_learned_positions)
{
    util_model u;
    dop_graph g;
    dop_build_options opt = decode;
    util_model_open(&u, GOLDEN "gpt2", 64);
    opt.max_s = 129;
    cr_expect_eq(dop_build_graph(&u.m, &opt, &u.arena, &u.diag, &g), DOP_E_INPUT);
    cr_expect_str_eq(u.diag.message,
                     "a context of 129 tokens is longer than the 128 positions this model has learned; lower it");
    util_model_close(&u);
}

/* Two builds give the same text, and the text parses back. */
Test(build, text_is_stable)
{
    static const char *const models[] = {"llama", "gemma2", "gpt2", "olmo2", "granite"};
    for (size_t i = 0; i < 5; i++) {
        char path[256];
        dop_buf text[2] = {{0}, {0}};
        snprintf(path, sizeof path, GOLDEN "%s", models[i]);
        for (unsigned k = 0; k < 2; k++) {
            built b;
            build(&b, path, decode);
            dop_graph_print(&b.g, &text[k]);
            util_model_close(&b.u);
        }
        cr_expect_str_eq(text[0].data, text[1].data);
        dop_arena arena;
        dop_diag diag = {0};
        dop_graph back;
        size_t end = 0;
        dop_arena_init(&arena);
        cr_expect_eq(dop_graph_parse("x", text[0].data, text[0].size, &arena, &diag, &back, &end), DOP_OK, "%ld: %s",
                     diag.line, diag.message);
        dop_arena_finish(&arena);
        dop_buf_finish(&text[0]);
        dop_buf_finish(&text[1]);
    }
}
