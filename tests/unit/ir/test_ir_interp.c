/* The reference interpreter against small oracles written here from the definitions, at odd sizes. */
#include "ir/graph/graph_add.h"
#include "tests/unit/test_ir_util.h"

#include <math.h>

/* Leaves by name: what the test gave, else deterministic values that depend on the name. */
typedef struct given {
    const char *name;
    float *f;
    uint32_t *u;
} given;

typedef struct fixture {
    dop_arena arena;
    dop_graph g;
    dop_interp *it;
    given leaves[16];
    uint32_t n_leaves, asked;
    uint64_t short_by; /* makes the provider give too little */
} fixture;

static float *
leaf(fixture *x, const char *name, uint64_t n)
{
    for (uint32_t i = 0; i < x->n_leaves; i++) {
        if (strcmp(x->leaves[i].name, name) == 0)
            return x->leaves[i].f;
    }
    uint64_t state = (uint64_t)name[0] * 977 + (uint64_t)name[strlen(name) - 1];
    float *f = dop_arena_alloc(&x->arena, n * sizeof *f);
    for (uint64_t i = 0; i < n; i++)
        f[i] = test_value(&state);
    x->leaves[x->n_leaves++] = (given){name, f, NULL};
    return f;
}

static void
give_ids(fixture *x, const char *name, uint32_t *u)
{
    x->leaves[x->n_leaves++] = (given){name, NULL, u};
}

static dop_status
provide(void *user, const dop_graph *g, dop_node_id id, uint32_t t, dop_tensor *out, dop_diag *diag)
{
    fixture *x = user;
    (void)t;
    (void)diag;
    const char *name = dop_node_s(g, id, DOP_A_name);
    static uint32_t zeros[8]; /* one sequence */
    x->asked++;
    if (strcmp(name, "seq") == 0)
        out->u = zeros;
    for (uint32_t i = 0; i < x->n_leaves; i++) {
        if (strcmp(x->leaves[i].name, name) == 0)
            out->u = x->leaves[i].u;
    }
    if (!out->u)
        out->f = leaf(x, name, out->count);
    out->count -= x->short_by;
    return DOP_OK;
}

static void
start(fixture *x, uint32_t t, const char *text)
{
    dop_diag diag = {0};
    dop_leaf_provider leaves = {x, provide};
    dop_arena_init(&x->arena);
    test_must_parse(text, &x->arena, &x->g);
    cr_assert(dop_interp_create(&x->g, t, &leaves, &diag, &x->it) == DOP_OK, "%s", diag.message);
}

static void
finish(fixture *x)
{
    dop_interp_destroy(x->it);
    dop_arena_finish(&x->arena);
}

static const dop_tensor *
eval(fixture *x, const char *name)
{
    dop_diag diag = {0};
    const dop_tensor *v;
    cr_assert(dop_interp_eval(x->it, test_find(&x->g, name), &diag, &v) == DOP_OK, "%s", diag.message);
    return v;
}

/* Results are rounded to f32 once.  `extra`: what rounding of parts may add. */
static void
check_within(const char *what, const float *got, const double *want, uint64_t n, double extra)
{
    for (uint64_t i = 0; i < n; i++) {
        double limit = 1e-7 * (fabs(want[i]) + 1e-3) + extra;
        cr_assert(fabs((double)got[i] - want[i]) <= limit, "%s[%llu] is %.9g, not %.9g", what, (unsigned long long)i,
                  (double)got[i], want[i]);
    }
}

static void
check(const char *what, const float *got, const double *want, uint64_t n)
{
    check_within(what, got, want, n, 0);
}

/* ---- element by element ---- */

Test(ir_interp, element_functions)
{
    static const float in[5] = {-3.0f, -0.5f, 0.0f, 1.0f, 2.5f};
    /* from Python's math module */
    static const struct {
        const char *op, *attr;
        double want[5];
    } cases[] = {
        {"silu", "", {-0.14227761953270035, -0.1887703343990727, 0.0, 0.7310585786300049, 2.3103545499468914}},
        {"gelu", "", {-0.00404969409489031, -0.15426876936299344, 0.0, 0.8413447460685429, 2.4844758366855597}},
        {"gelu_tanh", "", {-0.0036373920817729943, -0.15428599017485606, 0.0, 0.8411919906082768, 2.484915733910001}},
        {"sigmoid", "", {0.04742587317756678, 0.3775406687981454, 0.5, 0.7310585786300049, 0.9241418199787566}},
        {"softplus",
         "",
         {0.04858735157374206, 0.4740769841801067, 0.6931471805599453, 1.3132616875182228, 2.5788897342925496}},
        {"tanh", "", {-0.9950547536867305, -0.46211715726000974, 0.0, 0.7615941559557649, 0.9866142981514303}},
        {"exp", "", {0.049787068367863944, 0.6065306597126334, 1.0, 2.718281828459045, 12.182493960703473}},
        {"softcap", "cap=1.5", {-1.4460413701137254, -0.4822691062974515, 0.0, 0.8741744180218654, 1.3966644130013663}},
        {"relu", "", {0, 0, 0, 1, 2.5}},
        {"relu2", "", {0, 0, 0, 1, 6.25}},
        {"cast", "", {-3, -0.5, 0, 1, 2.5}},
        {"scale", "by=-0.5", {1.5, 0.25, 0, -0.5, -1.25}},
        {"offset", "by=0.25", {-2.75, -0.25, 0.25, 1.25, 2.75}},
        {"at_most", "by=0.75", {-3, -0.5, 0, 0.75, 0.75}},
        {"at_least", "by=-0.75", {-0.75, -0.5, 0, 1, 2.5}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture x = {0};
        char text[200];
        snprintf(text, sizeof text,
                 "graph g(T<=1, S<=1, Q=1) { %%a:f32[T,5]=input \"a\" %%y:f32[T,5]=%s %%a %s return %%y }", cases[i].op,
                 cases[i].attr);
        start(&x, 1, text);
        memcpy(leaf(&x, "a", 5), in, sizeof in);
        check(cases[i].op, eval(&x, "y")->f, cases[i].want, 5);
        finish(&x);
    }
}

/* xIELU with alpha_p 0.3, alpha_n -0.2, beta 0.5, by Python's math module. */
Test(ir_interp, xielu)
{
    static const double want[5] = {0.7509508509805012, -0.1330145419316151, 0.0, 1.3543552513164157, 6.589720320727597};
    static const float in[5] = {-3.0f, -0.5f, 0.0f, 1.0f, 2.5f};
    fixture x = {0};
    start(&x, 1,
          "graph g(T<=1, S<=1, Q=1) { %a:f32[T,5]=input \"a\" %p:f32[1]=weight \"p\" %n:f32[1]=weight \"n\" "
          "%b:f32[1]=weight \"b\" %y:f32[T,5]=xielu %a,%p,%n,%b return %y }");
    memcpy(leaf(&x, "a", 5), in, sizeof in);
    *leaf(&x, "p", 1) = 0.3f;
    *leaf(&x, "n", 1) = -0.2f;
    *leaf(&x, "b", 1) = 0.5f;
    check("xielu", eval(&x, "y")->f, want, 5);
    finish(&x);
}

Test(ir_interp, element_functions_at_the_ends)
{
    static const struct {
        const char *op;
        float low, high; /* of -1e4 and 1e4 */
    } cases[] = {{"silu", 0, 1e4f},     {"gelu", 0, 1e4f}, {"gelu_tanh", 0, 1e4f}, {"sigmoid", 0, 1},
                 {"softplus", 0, 1e4f}, {"tanh", -1, 1},   {"relu2", 0, 1e8f}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture x = {0};
        char text[200];
        snprintf(text, sizeof text,
                 "graph g(T<=1, S<=1, Q=1) { %%a:f32[T,2]=input \"a\" %%y:f32[T,2]=%s %%a return %%y }", cases[i].op);
        start(&x, 1, text);
        float *a = leaf(&x, "a", 2);
        a[0] = -1e4f;
        a[1] = 1e4f;
        const float *y = eval(&x, "y")->f;
        cr_expect(fabsf(y[0] - cases[i].low) < 1e-30f && y[1] == cases[i].high, "%s gives %g %g", cases[i].op,
                  (double)y[0], (double)y[1]);
        finish(&x);
    }
}

/* For each pair of shapes: the element of each source that belongs to result [i0,i1,i2]. */
Test(ir_interp, broadcasting)
{
    static const struct {
        const char *a, *b, *out;
        uint32_t sa[3], sb[3], so[3];
    } cases[] = {
        {"T,3,5", "5", "T,3,5", {15, 5, 1}, {0, 0, 1}, {4, 3, 5}},
        {"T,3,5", "T,3,1", "T,3,5", {15, 5, 1}, {3, 1, 0}, {4, 3, 5}},
        {"T,3,1", "T,1,5", "T,3,5", {3, 1, 0}, {5, 0, 1}, {4, 3, 5}},
        {"T,1", "T,7", "T,7", {0, 1, 0}, {0, 7, 1}, {1, 4, 7}},
        {"7", "T,7", "T,7", {0, 0, 1}, {0, 7, 1}, {1, 4, 7}},
        {"1,7", "T,1", "T,7", {0, 0, 1}, {0, 1, 0}, {1, 4, 7}},
        {"T,3,5", "1", "T,3,5", {15, 5, 1}, {0, 0, 0}, {4, 3, 5}},
    };
    static const char *const ops[] = {"add", "sub", "mul", "div"};
    for (size_t i = 0; i < 4 * sizeof cases / sizeof cases[0]; i++) {
        fixture x = {0};
        char text[300];
        size_t c = i / 4;
        snprintf(text, sizeof text,
                 "graph g(T<=6, S<=1, Q=1) { %%a:f32[%s]=input \"a\" %%b:f32[%s]=input \"b\" %%y:f32[%s]=%s %%a,%%b "
                 "return %%y }",
                 cases[c].a, cases[c].b, cases[c].out, ops[i % 4]);
        start(&x, 4, text);
        const float *a = leaf(&x, "a", 60), *b = leaf(&x, "b", 60);
        const dop_tensor *y = eval(&x, "y");
        const uint32_t *so = cases[c].so, *sa = cases[c].sa, *sb = cases[c].sb;
        double want[60];
        uint64_t n = 0;
        for (uint32_t p = 0; p < so[0]; p++) {
            for (uint32_t q = 0; q < so[1]; q++) {
                for (uint32_t r = 0; r < so[2]; r++, n++) {
                    double u = (double)a[p * sa[0] + q * sa[1] + r * sa[2]],
                           v = (double)b[p * sb[0] + q * sb[1] + r * sb[2]];
                    want[n] = i % 4 == 0 ? u + v : i % 4 == 1 ? u - v : i % 4 == 2 ? u * v : u / v;
                    if (i % 4 == 3 && v == 0)
                        want[n] = (double)y->f[n];
                }
            }
        }
        cr_assert_eq(y->count, n);
        check(text, y->f, want, n);
        finish(&x);
    }
}

/* ---- rows ---- */

Test(ir_interp, rows_and_heads)
{
    fixture x = {0};
    start(&x, 2,
          "graph g(T<=4, S<=1, Q=1) { %a:f32[T,3,7]=input \"a\" %w:f32[7]=weight \"w\" %b:f32[7]=weight \"b\"\n"
          "%rms:f32[T,3,1]=row_rms %a eps=0.125 %mean:f32[T,3,1]=row_mean %a %istd:f32[T,3,1]=row_istd %a eps=0.25\n"
          "%rn:f32[T,3,7]=rmsnorm %a,%w eps=0.125 add=1 %ln:f32[T,3,7]=layernorm %a,%w,%b eps=0.25\n"
          "%sm:f32[T,3,7]=softmax %a return %rms }");
    const float *a = leaf(&x, "a", 42), *w = leaf(&x, "w", 7), *b = leaf(&x, "b", 7);
    double rms[6], mean[6], istd[6], rn[42], ln[42], sm[42];
    for (int r = 0; r < 6; r++) {
        double s = 0, s2 = 0, e = 0;
        for (int i = 0; i < 7; i++) {
            s += (double)a[r * 7 + i];
            s2 += (double)a[r * 7 + i] * (double)a[r * 7 + i];
            e += exp((double)a[r * 7 + i]);
        }
        mean[r] = s / 7;
        rms[r] = 1 / sqrt(s2 / 7 + 0.125);
        istd[r] = 1 / sqrt(s2 / 7 - mean[r] * mean[r] + 0.25);
        for (int i = 0; i < 7; i++) {
            double v = (double)a[r * 7 + i];
            rn[r * 7 + i] = v * rms[r] * ((double)w[i] + 1);
            ln[r * 7 + i] = (v - mean[r]) * istd[r] * (double)w[i] + (double)b[i];
            sm[r * 7 + i] = exp(v) / e;
        }
    }
    check("row_rms", eval(&x, "rms")->f, rms, 6);
    check("row_mean", eval(&x, "mean")->f, mean, 6);
    check("row_istd", eval(&x, "istd")->f, istd, 6);
    check("rmsnorm", eval(&x, "rn")->f, rn, 42);
    check("layernorm", eval(&x, "ln")->f, ln, 42);
    check("softmax", eval(&x, "sm")->f, sm, 42);
    finish(&x);
}

Test(ir_interp, argmax)
{
    fixture x = {0};
    static const float rows[3][6] = {{1, 5, 5, 2, 5, 0}, {-3, -2, -9, -2, -4, -5}, {7, 0, 0, 0, 0, 7}};
    start(&x, 3,
          "graph g(T<=3, S<=1, Q=1) { %a:f32[T,6]=input \"a\" %i:u32[T]=argmax %a\n"
          "%p4:f32[T,4,2]=argmax_part %a parts=4 %i4:u32[T]=argmax_merge %p4\n"
          "%p1:f32[T,1,2]=argmax_part %a parts=1 %i1:u32[T]=argmax_merge %p1\n"
          "%p9:f32[T,9,2]=argmax_part %a parts=9 %i9:u32[T]=argmax_merge %p9\n"
          "%l:f32[6]=input \"l\" %li:u32[T]=argmax %a,%l %l4:u32[T]=argmax_merge %p4,%l return %i }");
    memcpy(leaf(&x, "a", 18), rows, sizeof rows);
    memcpy(leaf(&x, "l", 6), (const float[]){70, 3, 9, 8, 7, 6}, 6 * sizeof(float));
    static const char *const results[] = {"i", "i1", "i4", "i9"};
    for (int k = 0; k < 4; k++) {
        const uint32_t *i = eval(&x, results[k])->u;
        cr_expect(i[0] == 1 && i[1] == 1 && i[2] == 0, "%s: %u %u %u", results[k], i[0], i[1], i[2]);
    }
    for (int k = 0; k < 2; k++) { /* the ids of a list */
        const uint32_t *id = eval(&x, k ? "l4" : "li")->u;
        cr_expect(id[0] == 3 && id[1] == 3 && id[2] == 70, "%u %u %u", id[0], id[1], id[2]);
    }
    const float *p = eval(&x, "p4")->f; /* 2 columns each, the fourth part is unused */
    static const float want[8] = {5, 1, 5, 2, 5, 4, -INFINITY, 0};
    cr_assert(memcmp(p, want, sizeof want) == 0);
    /* parts in another order: the lowest index still wins */
    static const float shuffled[3][8] = {
        {5, 4, 5, 2, -INFINITY, 0, 5, 1}, {-2, 3, -2, 1, -3, 0, -4, 4}, {7, 5, 7, 0, 0, 2, 0, 3}};
    cr_assert(dop_interp_set(x.it, test_find(&x.g, "p4"), &shuffled[0][0], NULL) == DOP_OK);
    const uint32_t *i = eval(&x, "i4")->u;
    cr_assert(i[0] == 1 && i[1] == 1 && i[2] == 0);
    finish(&x);
}

/* ---- data movement ---- */

Test(ir_interp, gather_last_row_views)
{
    fixture x = {0};
    uint32_t ids[4] = {2, 0, 4, 2};
    start(&x, 4,
          "graph g(T<=7, S<=1, Q=1) { %e:f32[5,6]=weight \"e\" %t:u32[T]=input \"t\" %g:f32[T,6]=gather %e,%t\n"
          "%l:f32[1,6]=last_row %g %h:f32[T,2,3]=reshape %g %s:f32[T,2,2]=slice %h start=1\n"
          "%r:f32[2T,2]=reshape %s %l2:f32[1,2]=last_row %r %ts:u32[T]=reshape %t return %l }");
    give_ids(&x, "t", ids);
    const float *e = leaf(&x, "e", 30);
    const dop_tensor *g = eval(&x, "g"), *s = eval(&x, "s");
    cr_assert_eq(g->count, 24);
    for (int t = 0; t < 4; t++) {
        for (int i = 0; i < 6; i++)
            cr_assert_eq(g->f[t * 6 + i], e[ids[t] * 6 + (uint32_t)i]);
    }
    cr_assert(memcmp(eval(&x, "l")->f, e + 12, 6 * sizeof *e) == 0);
    cr_assert_eq(s->count, 16);
    for (int r = 0; r < 8; r++)
        cr_assert(s->f[2 * r] == g->f[3 * r + 1] && s->f[2 * r + 1] == g->f[3 * r + 2]);
    cr_assert(memcmp(eval(&x, "l2")->f, s->f + 14, 2 * sizeof *e) == 0);
    cr_assert_eq(eval(&x, "r")->shape.dim[0].mul, 8);
    cr_assert_eq(eval(&x, "ts")->u[2], 4);
    finish(&x);
}

Test(ir_interp, matmul)
{
    fixture x = {0};
    start(&x, 3,
          "graph g(T<=3, S<=1, Q=1) { %a:f32[T,37]=input \"a\" %w:f32[11,37]=weight \"w\" %y:f32[T,11]=matmul %a,%w "
          "%p:f32[T,4]=matmul %a,%w return %y, %p }");
    const float *a = leaf(&x, "a", 111), *w = leaf(&x, "w", 407);
    double want[33];
    for (int t = 0; t < 3; t++) {
        for (int n = 0; n < 11; n++) {
            want[t * 11 + n] = 0;
            for (int k = 36; k >= 0; k--)
                want[t * 11 + n] += (double)a[t * 37 + k] * (double)w[n * 37 + k];
        }
    }
    check("matmul", eval(&x, "y")->f, want, 33);
    cr_assert_eq(x.asked, 2);
    const dop_tensor *part = eval(&x, "p"); /* the first rows of the matrix */
    cr_assert_eq(part->count, 12);
    for (int t = 0; t < 3; t++)
        check("matmul of a part", part->f + 4 * t, want + 11 * t, 4);
    eval(&x, "y");
    cr_assert_eq(x.asked, 2, "leaves are asked for once");
    finish(&x);
}

Test(ir_interp, rope)
{
    fixture x = {0};
    uint32_t pos[2] = {3, 1};
    start(&x, 2,
          "graph g(T<=2, S<=5, Q=1) { %a:f32[T,3,7]=input \"a\" %p:u32[T]=input \"p\" %seq:u32[T]=input \"seq\" "
          "%t:f32[S,4]=weight \"t\"\n"
          "%y:f32[T,3,7]=rope %a,%p,%t dims=4 interleaved=0 %z:f32[T,3,7]=rope %a,%p,%t dims=4 interleaved=1 return %y "
          "}");
    give_ids(&x, "p", pos);
    const float *a = leaf(&x, "a", 42), *tab = leaf(&x, "t", 20);
    double y[42], z[42];
    for (int r = 0; r < 6; r++) {
        const float *t = tab + pos[r / 3] * 4, *v = a + r * 7;
        double c0 = (double)t[0], c1 = (double)t[1], s0 = (double)t[2], s1 = (double)t[3];
        double x0 = (double)v[0], x1 = (double)v[1], x2 = (double)v[2], x3 = (double)v[3];
        double *o = y + r * 7, *q = z + r * 7;
        o[0] = x0 * c0 - x2 * s0;
        o[2] = x2 * c0 + x0 * s0;
        o[1] = x1 * c1 - x3 * s1;
        o[3] = x3 * c1 + x1 * s1;
        q[0] = x0 * c0 - x1 * s0;
        q[1] = x1 * c0 + x0 * s0;
        q[2] = x2 * c1 - x3 * s1;
        q[3] = x3 * c1 + x2 * s1;
        for (int i = 4; i < 7; i++)
            o[i] = q[i] = (double)v[i];
    }
    check("rope", eval(&x, "y")->f, y, 42);
    check("rope interleaved", eval(&x, "z")->f, z, 42);
    finish(&x);
}

/* ---- attention ---- */

enum { HEADS = 6, KV = 2, DIM = 5, CACHE = 300, TOKENS = 3 };

typedef struct attn_case {
    uint32_t pos[TOKENS];
    int window;
    double cap;
    bool sinks;
} attn_case;

static const attn_case attn_cases[] = {
    {{0, 1, 2}, 0, 0, false},         {{5, 9, 2}, 3, 0, false},        {{11, 12, 70}, 0, 1.5, false},
    {{7, 8, 9}, 4, 0, true},          {{299, 150, 64}, 0, 0, true},    {{200, 127, 0}, 1, 0, true},
    {{190, 191, 192}, 100, 2, false}, {{63, 128, 255}, 129, 0, false},
};

/* Straight from the definition, rows weighed one by one. */
static void
attention_oracle(const attn_case *c, const float *q, const float *k, const float *v, const float *sinks, double *out)
{
    for (int t = 0; t < TOKENS; t++) {
        for (int h = 0; h < HEADS; h++) {
            double e[CACHE], sum = c->sinks ? exp((double)sinks[h]) : 0, *o = out + (t * HEADS + h) * DIM;
            int kv = h / (HEADS / KV);
            for (int d = 0; d < DIM; d++)
                o[d] = 0;
            for (int p = 0; p <= (int)c->pos[t]; p++) {
                double s = 0;
                for (int d = 0; d < DIM; d++)
                    s += (double)q[(t * HEADS + h) * DIM + d] * (double)k[(p * KV + kv) * DIM + d];
                s *= 0.375;
                s = c->cap > 0 ? c->cap * tanh(s / c->cap) : s;
                e[p] = c->window > 0 && (int)c->pos[t] - p >= c->window ? 0 : exp(s);
                sum += e[p];
            }
            for (int p = 0; p <= (int)c->pos[t]; p++) {
                for (int d = 0; d < DIM; d++)
                    o[d] += e[p] / sum * (double)v[(p * KV + kv) * DIM + d];
            }
        }
    }
}

Test(ir_interp, attention_and_splits)
{
    for (size_t i = 0; i < sizeof attn_cases / sizeof attn_cases[0]; i++) {
        const attn_case *c = &attn_cases[i];
        fixture x = {0};
        char text[1200], attrs[80];
        const char *sinks = c->sinks ? ",%s" : "";
        snprintf(attrs, sizeof attrs, "scale=0.375 window=%d cap=%g", c->window, c->cap);
        snprintf(text, sizeof text,
                 "graph g(T<=3, S<=300, Q=1) { %%q:f32[T,6,5]=input \"q\" %%k:f32[Q,S,2,5]=state \"k\" kind=append "
                 "%%v:f32[Q,S,2,5]=state \"v\" kind=append\n"
                 "%%p:u32[T]=input \"p\" %%seq:u32[T]=input \"seq\" %%s:f32[6]=weight \"s\" %%a:f32[T,6,5]=attention "
                 "%%q,%%k,%%v,%%p,%%seq%s %s\n"
                 "%%p1:f32[T,6,7]=attn_split %%q,%%k,%%v,%%p,%%seq%s %s splits=1 whole=192 least=64 "
                 "%%c1:f32[T,6,5]=attn_combine "
                 "%%p1 splits=1\n"
                 "%%p2:f32[T,12,7]=attn_split %%q,%%k,%%v,%%p,%%seq%s %s splits=2 whole=10 least=3 "
                 "%%c2:f32[T,6,5]=attn_combine "
                 "%%p2 splits=2\n"
                 "%%p7:f32[T,42,7]=attn_split %%q,%%k,%%v,%%p,%%seq%s %s splits=7 whole=192 least=64 "
                 "%%c7:f32[T,6,5]=attn_combine "
                 "%%p7 splits=7\n"
                 "return %%a }",
                 sinks, attrs, sinks, attrs, sinks, attrs, sinks, attrs);
        start(&x, TOKENS, text);
        uint32_t pos[TOKENS];
        memcpy(pos, c->pos, sizeof pos);
        give_ids(&x, "p", pos);
        double want[TOKENS * HEADS * DIM];
        attention_oracle(c, leaf(&x, "q", TOKENS * HEADS * DIM), leaf(&x, "k", CACHE * KV * DIM),
                         leaf(&x, "v", CACHE * KV * DIM), leaf(&x, "s", HEADS), want);
        check("attention", eval(&x, "a")->f, want, TOKENS * HEADS * DIM);
        check_within("1 split", eval(&x, "c1")->f, want, TOKENS * HEADS * DIM, 5e-7);  /* parts are f32 */
        check_within("2 splits", eval(&x, "c2")->f, want, TOKENS * HEADS * DIM, 5e-7); /* parts are f32 */
        check_within("7 splits", eval(&x, "c7")->f, want, TOKENS * HEADS * DIM, 5e-7); /* parts are f32 */
        finish(&x);
    }
}

/* One value per cache row tells which rows a split covers. */
Test(ir_interp, split_layout)
{
    fixture x = {0};
    uint32_t pos[2] = {299, 99};
    start(
        &x, 2,
        "graph g(T<=2, S<=300, Q=1) { %q:f32[T,1,1]=input \"q\" %k:f32[Q,S,1,1]=state \"k\" kind=append "
        "%v:f32[Q,S,1,1]=state \"v\" kind=append\n"
        "%p:u32[T]=input \"p\" %seq:u32[T]=input \"seq\" %s:f32[1]=weight \"s\"\n"
        "%y:f32[T,3,3]=attn_split %q,%k,%v,%p,%seq,%s scale=1 window=250 cap=0 splits=3 whole=192 least=64\n"
        "%z:f32[T,3,3]=attn_split %q,%k,%v,%p,%seq,%s scale=1 window=250 cap=0 splits=3 whole=60 least=20 return %y }");
    give_ids(&x, "p", pos);
    float *v = leaf(&x, "v", 300), *k = leaf(&x, "k", 300);
    memset(leaf(&x, "q", 2), 0, 2 * sizeof(float)); /* every score is 0 */
    leaf(&x, "s", 1)[0] = 1;
    for (int i = 0; i < 300; i++) {
        v[i] = (float)i;
        k[i] = 1;
    }
    /* token 0: rows 50..299, 3 splits of 84, 84, 82; token 1: rows 0..99 in one split, two of none */
    const double e = exp(-1), want[18] = {e * (50 + 133) * 42,
                                          1,
                                          1 + 84 * e,
                                          (134 + 217) * 42,
                                          0,
                                          84,
                                          (218 + 299) * 41,
                                          0,
                                          82,
                                          e * 99 * 50,
                                          1,
                                          1 + 100 * e,
                                          0,
                                          -1e30,
                                          0,
                                          0,
                                          -1e30,
                                          0};
    check("attn_split", eval(&x, "y")->f, want, 18);
    /* Rows 50..299 again: 80, 80, and 90, because 40 rows are a round; rows 0..99: 34, 34, 32. */
    const double rounds[18] = {e * (50 + 129) * 40, 1, 1 + 80 * e, (130 + 209) * 40, 0, 80, (210 + 299) * 45, 0, 90,
                               e * 33 * 17,         1, 1 + 34 * e, (34 + 67) * 17,   0, 34, (68 + 99) * 16,   0, 32};
    check("attn_split, whole rounds", eval(&x, "z")->f, rounds, 18);
    finish(&x);
}

/* ---- state ---- */

/* Three steps of 2, 1 and 1 tokens write the same cache and give the same results as one step of 4. */
Test(ir_interp, state_over_steps)
{
    static const char text[] =
        "graph g(T<=4, S<=6, Q=1) { %x:f32[T,8]=input \"x\" %p:u32[T]=input \"p\" %seq:u32[T]=input \"seq\" "
        "%k:f32[Q,S,2,4]=state \"k\" kind=append %v:f32[Q,S,2,4]=state \"v\" kind=append\n"
        "%h:f32[T,2,4]=reshape %x %h2:f32[T,2,4]=scale %h by=-0.5\n"
        "%k1:f32[Q,S,2,4]=state_write %k,%h,%p,%seq %v1:f32[Q,S,2,4]=state_write %v,%h2,%p,%seq\n"
        "%a:f32[T,2,4]=attention %h,%k1,%v1,%p,%seq scale=0.5 window=0 cap=0 return %a,%k1,%v1 }";
    float in[32], whole[32], cache[48], parts[32], k_state[48] = {0}, v_state[48] = {0};
    uint64_t state = 9;
    for (int i = 0; i < 32; i++)
        in[i] = test_value(&state);
    for (int step = 0; step < 4; step++) { /* the first is the whole */
        static const uint32_t first[] = {0, 0, 2, 3}, count[] = {4, 2, 1, 1};
        fixture x = {0};
        uint32_t pos[4] = {first[step], first[step] + 1, first[step] + 2, first[step] + 3};
        start(&x, count[step], text);
        give_ids(&x, "p", pos);
        if (step == 1) {
            memcpy(cache, k_state, sizeof cache);
            memset(k_state, 0, sizeof k_state);
            memset(v_state, 0, sizeof v_state);
        }
        x.leaves[x.n_leaves++] = (given){"x", in + 8 * first[step], NULL};
        x.leaves[x.n_leaves++] = (given){"k", k_state, NULL};
        x.leaves[x.n_leaves++] = (given){"v", v_state, NULL};
        memcpy(step ? parts + 8 * first[step] : whole, eval(&x, "a")->f, count[step] * 8 * sizeof(float));
        cr_assert(eval(&x, "k1")->f == k_state);
        finish(&x);
    }
    cr_assert(memcmp(whole, parts, sizeof whole) == 0);
    cr_assert(memcmp(cache, k_state, sizeof cache) == 0);
    cr_assert(memcmp(k_state, in, sizeof in) == 0, "rows lie at their positions");
    for (int i = 32; i < 48; i++)
        cr_assert_eq(k_state[i], 0);
}

Test(ir_interp, storage_rounding)
{
    static const char text[] = "graph g(T<=1, S<=2, Q=1) { %x:f32[T,4]=input \"x\" %p:u32[T]=input \"p\" "
                               "%seq:u32[T]=input \"seq\" %k:f16[Q,S,2,2]=state \"k\" kind=append\n"
                               "%h:f16[T,4]=cast %x %b:bf16[T,4]=scale %x by=1 %s:f32[T,4]=add %h,%h\n"
                               "%r:f32[T,2,2]=reshape %x %k1:f16[Q,S,2,2]=state_write %k,%r,%p,%seq return %s }";
    for (int on = 0; on < 2; on++) {
        fixture x = {0};
        uint32_t pos[1] = {1};
        start(&x, 1, text);
        dop_interp_round_storage(x.it, on);
        give_ids(&x, "p", pos);
        float *in = leaf(&x, "x", 4);
        for (int i = 0; i < 4; i++)
            in[i] = 1.0f / (float)(i + 3);
        for (int i = 0; i < 4; i++) {
            float f16 = on ? dop_f16_to_f32(dop_f32_to_f16(in[i])) : in[i];
            float bf16 = on ? dop_bf16_to_f32(dop_f32_to_bf16(in[i])) : in[i];
            cr_expect_eq(eval(&x, "h")->f[i], f16);
            cr_expect_eq(eval(&x, "b")->f[i], bf16);
            cr_expect_eq(eval(&x, "s")->f[i], f16 + f16);
            cr_expect_eq(eval(&x, "k1")->f[4 + i], f16);
            cr_expect_eq(eval(&x, "x")->f[i], in[i]);
        }
        finish(&x);
    }
}

/* State that is replaced is another value beside the one before; of several rows of a sequence the last one counts, and
 * a sequence without rows keeps what it has. */
Test(ir_interp, replace_state)
{
    fixture x = {0};
    start(&x, 3,
          "graph g(T<=3, S<=1, Q=3) { %x:f32[T,2]=input \"x\" %q:u32[T]=input \"q\" %h:f32[Q,2]=state \"h\" "
          "kind=replace\n"
          "%c:f32[Q,2]=state \"c\" kind=replace %o:f32[T,2]=gather %h,%q %y:f32[T,2]=add %o,%x\n"
          "%h1:f32[Q,2]=state_write %h,%y,%q %d:f32[Q,2]=scale %c by=2 %c1:f32[Q,2]=state_write %c,%d\n"
          "return %h1,%c1,%o }");
    uint32_t q[3] = {2, 0, 2};
    float h[6] = {1, 2, 3, 4, 5, 6}, c[6] = {1, 2, 3, 4, 5, 6}, in[6] = {10, 20, 30, 40, 50, 60};
    give_ids(&x, "q", q);
    x.leaves[x.n_leaves++] = (given){"h", h, NULL};
    x.leaves[x.n_leaves++] = (given){"c", c, NULL};
    x.leaves[x.n_leaves++] = (given){"x", in, NULL};
    const float want[6] = {31, 42, 3, 4, 55, 66}, old[6] = {5, 6, 1, 2, 5, 6}, twice[6] = {2, 4, 6, 8, 10, 12};
    cr_expect(memcmp(eval(&x, "h1")->f, want, sizeof want) == 0);
    cr_expect(memcmp(eval(&x, "o")->f, old, sizeof old) == 0, "the version before can still be read");
    cr_expect(memcmp(eval(&x, "c1")->f, twice, sizeof twice) == 0);
    cr_expect(h[0] == 1 && c[0] == 1);
    finish(&x);
}

/* Two sequences share a cache and see nothing of each other. */
Test(ir_interp, append_state_of_sequences)
{
    fixture x = {0};
    start(&x, 2,
          "graph g(T<=2, S<=2, Q=2) { %x:f32[T,1,2]=input \"x\" %p:u32[T]=input \"p\" %q:u32[T]=input \"q\"\n"
          "%k:f32[Q,S,1,2]=state \"k\" kind=append %k1:f32[Q,S,1,2]=state_write %k,%x,%p,%q\n"
          "%a:f32[T,1,2]=attention %x,%k1,%k1,%p,%q scale=0 window=0 cap=0 return %k1,%a }");
    uint32_t p[2] = {1, 0}, q[2] = {1, 0};
    float k[8] = {9, 9, 9, 9, 2, 4, 9, 9}, in[4] = {6, 8, 1, 3};
    give_ids(&x, "p", p);
    give_ids(&x, "q", q);
    x.leaves[x.n_leaves++] = (given){"k", k, NULL};
    x.leaves[x.n_leaves++] = (given){"x", in, NULL};
    const float want[8] = {1, 3, 9, 9, 2, 4, 6, 8}, mean[4] = {4, 6, 1, 3};
    cr_expect(memcmp(eval(&x, "k1")->f, want, sizeof want) == 0);
    cr_expect(memcmp(eval(&x, "a")->f, mean, sizeof mean) == 0);
    finish(&x);
}

/* ---- experts ---- */

Test(ir_interp, top_k_and_pick)
{
    fixture x = {0};
    start(&x, 2,
          "graph g(T<=2, S<=1, Q=1) { %a:f32[T,6]=input \"a\" %i:u32[T,3]=top_k %a k=3 groups=1 group_best=1 "
          "group_keep=1\n"
          "%m:u32[T,2]=top_k %a k=2 groups=3 group_best=1 group_keep=2\n"
          "%s:u32[T,2]=top_k %a k=2 groups=3 group_best=2 group_keep=1 %v:f32[T,3]=pick %a,%i return %v,%m,%s }");
    float a[12] = {1, 7, 5, 5, 6, 2, 3, 3, 3, 3, -1, -2};
    x.leaves[x.n_leaves++] = (given){"a", a, NULL};
    const uint32_t plain[6] = {1, 4, 2, 0, 1, 2}, best[4] = {1, 4, 0, 1}, sums[4] = {2, 3, 0, 1};
    const float values[6] = {7, 6, 5, 3, 3, 3};
    cr_expect(memcmp(eval(&x, "i")->u, plain, sizeof plain) == 0, "the lower of equals is first");
    cr_expect(memcmp(eval(&x, "m")->u, best, sizeof best) == 0, "groups by their best column");
    cr_expect(memcmp(eval(&x, "s")->u, sums, sizeof sums) == 0, "groups by the sum of their two best");
    cr_expect(memcmp(eval(&x, "v")->f, values, sizeof values) == 0);
    finish(&x);
}

/* The second row's best columns are near each other: x_c - x_i is at most 0.1 times the larger of |x_i| and x_c. */
Test(ir_interp, near_softmax)
{
    fixture x = {0};
    start(&x, 2,
          "graph g(T<=2, S<=1, Q=1) { %a:f32[T,4]=input \"a\" %i:u32[T,2]=top_k %a k=2 groups=1 group_best=1 "
          "group_keep=1 %w:f32[T,2]=near_softmax %a,%i eps=0.1 return %w }");
    float a[8] = {1, 8, 4, 3.9f, 10, 9.5f, -3, 9.4f};
    x.leaves[x.n_leaves++] = (given){"a", a, NULL};
    const double e = exp(-0.5), f = exp(-0.6), g = exp(-0.1);
    const double want[4] = {1, 1 / (1 + g), 1 / (1 + e + f), 1 / (1 + g)};
    for (int i = 0; i < 4; i++)
        cr_expect_float_eq((double)eval(&x, "w")->f[i], want[i], 1e-6);
    finish(&x);
}

/* Gate with a bias, down, and the weighted sum of two of three experts, against the same done by hand. */
Test(ir_interp, expert_products)
{
    fixture x = {0};
    start(&x, 2,
          "graph g(T<=2, S<=1, Q=1) { %a:f32[T,3]=input \"a\" %i:u32[T,2]=input \"i\" %p:f32[T,2]=input \"p\"\n"
          "%w:f32[3,4,3]=weight \"w\" %d:f32[3,3,4]=weight \"d\" %b:f32[3,4]=weight \"b\"\n"
          "%g:f32[T,2,4]=matmul_at %a,%w,%i %gb:f32[T,2,4]=gather %b,%i %h:f32[T,2,4]=add %g,%gb\n"
          "%y:f32[T,2,3]=matmul_at %h,%d,%i %z:f32[T,3]=weighted_sum %y,%p return %z }");
    uint32_t i[4] = {2, 0, 1, 2};
    give_ids(&x, "i", i);
    const float *a = leaf(&x, "a", 6), *w = leaf(&x, "w", 36), *d = leaf(&x, "d", 36), *b = leaf(&x, "b", 12);
    const float *p = leaf(&x, "p", 4);
    double want[6] = {0};
    for (uint32_t t = 0; t < 2; t++)
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t e = i[t * 2 + k];
            double h[4];
            for (uint32_t n = 0; n < 4; n++) {
                h[n] = (double)b[e * 4 + n];
                for (uint32_t c = 0; c < 3; c++)
                    h[n] += (double)w[(e * 4 + n) * 3 + c] * (double)a[t * 3 + c];
            }
            for (uint32_t n = 0; n < 3; n++)
                for (uint32_t c = 0; c < 4; c++)
                    want[t * 3 + n] += (double)p[t * 2 + k] * (double)d[(e * 3 + n) * 4 + c] * h[c];
        }
    check_within("experts", eval(&x, "z")->f, want, 6, 1e-6);
    i[0] = 3;
    finish(&x);
}

/* ---- the interface ---- */

Test(ir_interp, set_overrides)
{
    fixture x = {0};
    start(&x, 2,
          "graph g(T<=2, S<=1, Q=1) { %a:f32[T,2]=input \"a\" %b:f32[T,2]=scale %a by=2 %c:f32[T,2]=offset %b by=1\n"
          "%e:f32[3,2]=weight \"e\" %i:u32[T]=input \"i\" %y:f32[T,2]=gather %e,%i return %c }");
    static const float one[4] = {1, 2, 3, 4}, two[4] = {5, 6, 7, 8}, ids[2] = {2, 1};
    dop_node_id a = test_find(&x.g, "a"), b = test_find(&x.g, "b");
    cr_assert(dop_interp_set(x.it, a, one, NULL) == DOP_OK);
    cr_assert_eq(eval(&x, "c")->f[3], 9);
    cr_assert(dop_interp_set(x.it, b, two, NULL) == DOP_OK);
    cr_assert_eq(eval(&x, "c")->f[3], 9, "%g", (double)eval(&x, "c")->f[3]);
    cr_assert_eq(eval(&x, "c")->f[0], 6);
    cr_assert(dop_interp_set(x.it, a, two, NULL) == DOP_OK);
    cr_assert_eq(eval(&x, "c")->f[0], 6, "what was set stays set");
    cr_assert(dop_interp_set(x.it, b, eval(&x, "c")->f, NULL) == DOP_OK);
    cr_assert_eq(eval(&x, "c")->f[0], 7);
    cr_assert(dop_interp_set(x.it, test_find(&x.g, "i"), ids, NULL) == DOP_OK);
    cr_assert(memcmp(eval(&x, "y")->f, leaf(&x, "e", 6) + 4, 2 * sizeof(float)) == 0);
    cr_assert(dop_interp_set(x.it, 99, ids, NULL) == DOP_E_INTERNAL);
    finish(&x);
}

static void
must_refuse(fixture *x, const char *name, dop_status code, const char *message)
{
    dop_diag diag = {0};
    const dop_tensor *v;
    cr_expect(dop_interp_eval(x->it, test_find(&x->g, name), &diag, &v) == code);
    cr_expect_str_eq(diag.message, message);
    cr_expect_null(v);
}

Test(ir_interp, errors)
{
    fixture x = {0};
    dop_interp *it;
    dop_diag diag = {0};
    uint32_t ids[2] = {4, 5}, pos[2] = {2, 3};
    start(&x, 2,
          "graph g(T<=2, S<=3, Q=1) { %e:f32[5,4]=weight \"e\" %t:u32[T]=input \"t\" %p:u32[T]=input \"p\" "
          "%seq:u32[T]=input \"seq\" "
          "%k:f32[Q,S,1,4]=state \"k\" kind=append\n"
          "%k2:f32[Q,S,1,4]=state \"k2\" kind=append %r:f32[S,4]=weight \"r\" %h:f32[T,1,4]=input \"h\" "
          "%g:f32[T,4]=gather %e,%t\n"
          "%k1:f32[Q,S,1,4]=state_write %k,%h,%p,%seq %ro:f32[T,1,4]=rope %h,%p,%r dims=4 interleaved=0\n"
          "%a:f32[T,1,4]=attention %h,%k2,%k2,%p,%seq scale=1 window=0 cap=0 return %g }");
    give_ids(&x, "t", ids);
    give_ids(&x, "p", pos);
    must_refuse(&x, "g", DOP_E_INPUT, "%g: %t holds 5 but gather has 5 rows");
    must_refuse(&x, "k1", DOP_E_INPUT, "%k1: %p holds 3 but state_write has 3 rows");
    must_refuse(&x, "ro", DOP_E_INPUT, "%ro: %p holds 3 but rope has 3 rows");
    must_refuse(&x, "a", DOP_E_INPUT, "%a: %p holds 3 but attention has 3 rows");
    ids[1] = 0; /* a failed node can be tried again */
    eval(&x, "g");
    dop_interp_destroy(x.it);
    dop_leaf_provider leaves = {&x, provide};
    cr_assert(dop_interp_create(&x.g, 2, &leaves, NULL, &x.it) == DOP_OK);
    x.short_by = 1;
    must_refuse(&x, "e", DOP_E_INTERNAL, "%e: the value given for weight \"e\" has the wrong type or size");
    x.short_by = 0;
    x.leaves[0].name = "e"; /* ids where floats belong */
    must_refuse(&x, "e", DOP_E_INTERNAL, "%e: the value given for weight \"e\" has the wrong type or size");
    dop_interp_destroy(x.it);
    cr_assert(dop_interp_create(&x.g, 2, NULL, NULL, &x.it) == DOP_OK);
    must_refuse(&x, "e", DOP_E_INTERNAL, "%e: nobody provides weight \"e\"");
    cr_assert(dop_interp_create(&x.g, 3, NULL, &diag, &it) == DOP_E_INTERNAL);
    cr_assert_null(it);
    cr_assert(dop_interp_create(&x.g, 0, NULL, NULL, &it) == DOP_E_INTERNAL);
    dop_interp_destroy(NULL);
    finish(&x);
}

Test(ir_interp, deep_graphs_need_no_stack)
{
    fixture x = {0};
    dop_diag diag = {0};
    start(&x, 1, "graph g(T<=1, S<=1, Q=1) { %a:f32[T,1]=input \"a\" return %a }");
    dop_interp_destroy(x.it);
    dop_node_id id = 1;
    dop_attr by = {.f = 1};
    for (int i = 0; i < 200000; i++)
        cr_assert(dop_graph_add(&x.g, DOP_OP_offset, NULL, &id, 1, &by, NULL, &diag, &id) == DOP_OK);
    dop_leaf_provider leaves = {&x, provide};
    cr_assert(dop_interp_create(&x.g, 1, &leaves, NULL, &x.it) == DOP_OK);
    leaf(&x, "a", 1)[0] = 0;
    const dop_tensor *v;
    cr_assert(dop_interp_eval(x.it, id, &diag, &v) == DOP_OK);
    cr_assert_eq(v->f[0], 200000);
    finish(&x);
}
