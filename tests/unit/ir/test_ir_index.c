/* Ops of sparse attention, against the same done another way: a score with heads in the outer loop, a choice by counting what comes
 * before each position, and attention as plain attention with a mask. */
#include "tests/unit/test_ir_util.h"

#include <math.h>

enum { ROWS = 4, CTX = 12, HEADS = 3, DIM = 4, TOP = 5, KEYS = CTX * DIM };

static const char text[] =
    "graph g(T<=4, S<=12, Q=2) {\n"
    "%pos:u32[T] = input \"positions\"\n"
    "%seq:u32[T] = input \"sequences\"\n"
    "%q:f32[T,3,4] = input \"q\"\n"
    "%w:f32[T,3] = input \"w\"\n"
    "%x:f32[Q,S,1,4] = state \"x\" kind=append\n"
    "%k:f32[Q,S,1,4] = state \"k\" kind=append\n"
    "%v:f32[Q,S,1,4] = state \"v\" kind=append\n"
    "%s:f32[T,12] = index_scores %q, %x, %w, %pos, %seq scale=0x1p-2\n"
    "%c:u32[T,5] = top_positions %s, %pos k=5\n"
    "%a:f32[T,3,4] = attention %q, %k, %v, %pos, %seq, %c scale=0x1p-1 window=0 cap=0x0p+0 top=5\n"
    "%p:f32[T,3,4] = attention %q, %k, %v, %pos, %seq scale=0x1p-1 window=0 cap=0x0p+0\n"
    "return %a, %p\n}\n";

static const float positions[ROWS] = {2, 4, 11, 9}, sequences[ROWS] = {0, 1, 1, 0};

typedef struct fixture {
    dop_arena arena;
    dop_graph g;
    dop_interp *it;
    float q[ROWS * HEADS * DIM], w[ROWS * HEADS], x[2 * KEYS], k[2 * KEYS], v[2 * KEYS];
} fixture;

static void
set(fixture *f, const char *name, const float *values)
{
    dop_diag diag = {0};
    cr_assert(dop_interp_set(f->it, test_find(&f->g, name), values, &diag) == DOP_OK, "%s", diag.message);
}

static void
start(fixture *f, uint64_t seed)
{
    dop_diag diag = {0};
    struct {
        const char *name;
        float *values;
        size_t n;
    } all[] = {{"q", f->q, ROWS * HEADS * DIM},
               {"w", f->w, ROWS * HEADS},
               {"x", f->x, 2 * KEYS},
               {"k", f->k, 2 * KEYS},
               {"v", f->v, 2 * KEYS}};
    test_must_parse(text, &f->arena, &f->g);
    cr_assert(dop_interp_create(&f->g, ROWS, NULL, &diag, &f->it) == DOP_OK, "%s", diag.message);
    set(f, "pos", positions);
    set(f, "seq", sequences);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (size_t j = 0; j < all[i].n; j++)
            all[i].values[j] = roundf(test_value(&seed)); /* few values, so that scores are equal now and then */
        set(f, all[i].name, all[i].values);
    }
}

static const dop_tensor *
eval(fixture *f, const char *name)
{
    dop_diag diag = {0};
    const dop_tensor *out = NULL;
    cr_assert(dop_interp_eval(f->it, test_find(&f->g, name), &diag, &out) == DOP_OK, "%s", diag.message);
    return out;
}

static void
finish(fixture *f)
{
    dop_interp_destroy(f->it);
    dop_arena_finish(&f->arena);
}

Test(ir_index, scores_choice_and_attention)
{
    uint32_t equal = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fixture f = {0};
        start(&f, seed);
        for (int t = 0; t < ROWS; t++) {
            const int last = (int)positions[t], n = (int)sequences[t];
            double score[CTX] = {0};
            bool in[CTX] = {false};
            for (int h = 0; h < HEADS; h++)
                for (int j = 0; j <= last; j++) {
                    double dot = 0;
                    for (int d = 0; d < DIM; d++)
                        dot += (double)f.q[(t * HEADS + h) * DIM + d] * (double)f.x[(n * CTX + j) * DIM + d];
                    score[j] += 0.25 * (double)f.w[t * HEADS + h] * fmax(dot, 0);
                }
            for (int j = 0; j < CTX; j++)
                cr_expect_float_eq((double)eval(&f, "s")->f[t * CTX + j], score[j], 1e-6);
            uint32_t used = 0;
            for (int j = 0; j <= last; j++) {
                int before = 0;
                for (int i = 0; i <= last; i++) {
                    const bool same = i != j && score[i] == score[j];
                    before += score[i] > score[j] || (same && i < j);
                    equal += same ? 1 : 0;
                }
                in[j] = before < TOP;
                if (in[j])
                    cr_expect_eq(eval(&f, "c")->u[(uint32_t)(t * TOP) + used++], (uint32_t)j);
            }
            for (; used < TOP; used++)
                cr_expect_eq(eval(&f, "c")->u[(uint32_t)(t * TOP) + used], CTX);
            for (int h = 0; h < HEADS; h++)
                for (int d = 0; d < DIM; d++) {
                    double sum = 0, y = 0;
                    for (int j = 0; j <= last; j++) {
                        double s = 0;
                        for (int i = 0; i < DIM; i++)
                            s += (double)f.q[(t * HEADS + h) * DIM + i] * (double)f.k[(n * CTX + j) * DIM + i];
                        const double e = in[j] ? exp(0.5 * s) : 0;
                        sum += e;
                        y += e * (double)f.v[(n * CTX + j) * DIM + d];
                    }
                    cr_expect_float_eq((double)eval(&f, "a")->f[(t * HEADS + h) * DIM + d], y / sum, 1e-5);
                }
            /* Rows that have no more positions than they may see. */
            if (last < TOP)
                cr_expect(memcmp(eval(&f, "a")->f + t * HEADS * DIM, eval(&f, "p")->f + t * HEADS * DIM,
                                 HEADS * DIM * sizeof(float)) == 0);
        }
        finish(&f);
    }
    cr_assert(equal > 100, "%u equal scores", equal);
}

Test(ir_index, lists_that_a_row_cannot_see)
{
    static const float bad[][ROWS * TOP] = {{0, 1, 3, 12, 12, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4},
                                            {0, 1, 2, 12, 12, 0, 1, 2, 3, 4, 0, 2, 1, 3, 4, 0, 1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture f = {0};
        dop_diag diag = {0};
        const dop_tensor *out;
        start(&f, 1);
        set(&f, "c", bad[i]);
        cr_expect(dop_interp_eval(f.it, test_find(&f.g, "a"), &diag, &out) == DOP_E_INPUT);
        cr_expect(strstr(diag.message, "lists positions"), "%s", diag.message);
        finish(&f);
    }
}

Test(ir_index, refusals)
{
    static const struct {
        const char *line, *instead, *why;
    } cases[] = {
        {"k=5\n", "k=13\n", "cannot choose"},
        {"window=0 cap=0x0p+0 top=5", "window=3 cap=0x0p+0 top=5", "neither window"},
        {"%seq, %c scale=0x1p-1 window=0 cap=0x0p+0 top=5", "%seq, %c scale=0x1p-1 window=0 cap=0x0p+0 top=4",
         "do not fit"},
        {"%seq, %c scale", "%seq, %s scale", "do not fit"},
        {"%q, %x, %w, %pos, %seq scale", "%q, %x, %q, %pos, %seq scale", "rank"},
        {"%x:f32[Q,S,1,4]", "%x:f32[Q,S,2,4]", "do not fit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_arena arena = {0};
        dop_graph g;
        dop_diag diag = {0};
        char changed[2 * sizeof text];
        const char *at = strstr(text, cases[i].line);
        cr_assert(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, cases[i].instead,
                 at + strlen(cases[i].line));
        cr_expect(test_parse(changed, &arena, &diag, &g) != DOP_OK, "case %zu", i);
        cr_expect(strstr(diag.message, cases[i].why), "case %zu: %s", i, diag.message);
        dop_arena_finish(&arena);
    }
}
