/* Random mixtures of adapters: adapters PLAN SEED ADAPTER...  Loads the adapters into a plan for several sequences, and feeds each sequence
 * tokens of its own through adapters of its own in steps of rows of all of them, changing adapters, forking and unloading in
 * between.  The logits of every sequence must be those of the sequence alone. */
#include <doppler/doppler.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, STEPS = 6 };

static uint64_t state;

static uint32_t
below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % n;
}

static int
fail(const char *what, const dop_diag *diag)
{
    fprintf(stderr, "adapters: %s: %s\n", what, diag->message);
    return 1;
}

/* What one sequence is fed, and what came of it. */
typedef struct line {
    dop_sequence *s;
    dop_adapter_use uses[2];
    uint32_t n_uses, tokens[STEPS];
    float *logits; /* after its last token */
} line;

static void
choose(line *l, uint32_t n_loaded)
{
    l->n_uses = below(3);
    for (uint32_t k = 0; k < l->n_uses; k++)
        l->uses[k] = (dop_adapter_use){below(n_loaded), 0.25f * (float)(1 + below(6))};
}

static double
distance(const float *a, const float *b, uint32_t n)
{
    double most = 0, sum = 0, square = 0;
    for (uint32_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        sum += (double)b[i];
        square += (double)b[i] * (double)b[i];
    }
    return most / sqrt(square / n - sum / n * (sum / n));
}

int
main(int argc, char **argv)
{
    dop_diag diag = {0};
    dop_model *m = NULL;
    dop_facts facts;
    line l[MOST] = {{0}};
    uint32_t loaded[MOST], n_loaded = 0, n;
    if (argc < 4 || argc > 3 + MOST)
        return fail("usage", &(dop_diag){.message = "adapters PLAN SEED ADAPTER..."});
    state = 88172645463325252ull + strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15ull;
    if (dop_model_open(argv[1], NULL, &diag, &m) != DOP_OK)
        return fail("opening", &diag);
    dop_model_facts(m, &facts);
    n = facts.n_sequences < MOST ? facts.n_sequences : MOST;
    for (int i = 3; i < argc; i++, n_loaded++)
        if (dop_adapter_load(m, argv[i], &diag, &loaded[n_loaded]) != DOP_OK)
            return fail(argv[i], &diag);
    if (dop_adapter_load(m, argv[3], &diag, &loaded[0]) == DOP_OK && dop_model_adapter_room(m) == n_loaded)
        return fail("one more than there is room for", &diag);
    if (dop_adapter_unload(m, 0, &diag) != DOP_OK || dop_model_adapter(m, 0) ||
        dop_adapter_load(m, argv[3], &diag, &loaded[0]) != DOP_OK || loaded[0] != 0)
        return fail("unloading and loading again", &diag);
    for (uint32_t i = 0; i < n; i++) {
        if (dop_sequence_create(m, &diag, &l[i].s) != DOP_OK)
            return fail("a sequence", &diag);
        l[i].logits = malloc(facts.vocab * sizeof *l[i].logits);
        choose(&l[i], n_loaded);
        if (dop_sequence_set_adapters(l[i].s, l[i].uses, l[i].n_uses, &diag) != DOP_OK)
            return fail("setting adapters", &diag);
        for (uint32_t k = 0; k < STEPS; k++)
            l[i].tokens[k] = below(facts.vocab);
    }
    for (uint32_t k = 0; k < STEPS; k++) {
        dop_step_row rows[MOST];
        const uint32_t changed = below(n);
        if (k == STEPS / 2) { /* what it has is computed again */
            choose(&l[changed], n_loaded);
            if (dop_sequence_set_adapters(l[changed].s, l[changed].uses, l[changed].n_uses, &diag) != DOP_OK)
                return fail("changing adapters", &diag);
        }
        for (uint32_t i = 0; i < n; i++)
            rows[i] = (dop_step_row){l[i].s, l[i].tokens[k], DOP_WANTS_LOGITS};
        if (dop_step_run(m, rows, n, &diag) != DOP_OK)
            return fail("a step", &diag);
        for (uint32_t i = 0; i < n; i++)
            memcpy(l[i].logits, dop_step_logits(m, i), facts.vocab * sizeof *l[i].logits);
        dop_step_commit(m);
    }
    double worst = 0, apart = 0;
    for (uint32_t i = 0; i < n; i++)
        dop_sequence_destroy(l[i].s);
    for (uint32_t i = 0; i < n; i++) {
        dop_sequence *s = NULL;
        dop_step_row row = {.wants = DOP_WANTS_LOGITS};
        if (dop_sequence_create(m, &diag, &s) != DOP_OK ||
            dop_sequence_set_adapters(s, l[i].uses, l[i].n_uses, &diag) != DOP_OK ||
            dop_sequence_feed(s, l[i].tokens, STEPS - 1, &diag) != DOP_OK)
            return fail("a sequence alone", &diag);
        row.sequence = s;
        row.token = l[i].tokens[STEPS - 1];
        if (dop_step_run(m, &row, 1, &diag) != DOP_OK)
            return fail("a step alone", &diag);
        worst = fmax(worst, distance(l[i].logits, dop_step_logits(m, 0), facts.vocab));
        dop_step_commit(m);
        if (dop_sequence_set_adapters(s, NULL, 0, &diag) != DOP_OK ||
            dop_sequence_rewind(s, STEPS - 1, &diag) != DOP_OK || dop_step_run(m, &row, 1, &diag) != DOP_OK)
            return fail("a sequence without adapters", &diag);
        if (l[i].n_uses)
            apart = fmax(apart, distance(l[i].logits, dop_step_logits(m, 0), facts.vocab));
        dop_step_commit(m);
        dop_sequence_destroy(s);
        free(l[i].logits);
    }
    dop_model_close(m);
    printf("%u sequences, %u adapters: at most %.3g from alone, %.3g from none\n", n, n_loaded, worst, apart);
    return worst > 2e-3 || apart < 0.05;
}
