/* repeat PLAN RUNS [auto|barriers|persistent]: the same again and again.
 *
 * A run scores a prompt, feeds it, and picks tokens: on the device, by a sampler that sees all logits, and drawn with a seed.
 * Every tenth run opens the model anew.  Prints one digest of the bits of all logits and of all picks, and how many runs gave it;
 * fails when one gave another. */
#include <doppler/doppler.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 24, PICKS = 12, OPEN_EACH = 10 };

typedef struct run {
    uint64_t digest; /* FNV-1a */
    dop_diag diag;
} run;

static void
add(run *r, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        r->digest = (r->digest ^ p[i]) * 0x100000001b3u;
}

static dop_status
take_rows(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    struct {
        run *r;
        uint32_t vocab;
    } *u = user;
    (void)first, (void)diag;
    add(u->r, rows, n_rows * u->vocab * sizeof *rows);
    return DOP_OK;
}

static dop_status
largest(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n, dop_diag *diag,
        uint32_t *out)
{
    (void)tokens, (void)n, (void)diag;
    *out = 0;
    for (uint32_t i = 1; i < vocab; i++)
        *out = logits[i] > logits[*out] ? i : *out;
    add(user, logits, vocab * sizeof *logits);
    return DOP_OK;
}

static dop_status
pick(dop_sequence *s, run *r)
{
    dop_status st = DOP_OK;
    for (int i = 0; i < PICKS && st == DOP_OK; i++) {
        uint32_t id = 0;
        st = dop_sequence_next(s, &r->diag, &id);
        add(r, &id, sizeof id);
    }
    return st;
}

static dop_status
run_once(dop_model *m, run *r)
{
    uint32_t prompt[PROMPT];
    dop_facts facts;
    dop_sequence *s = NULL;
    dop_model_facts(m, &facts);
    struct {
        run *r;
        uint32_t vocab;
    } user = {r, facts.vocab};
    const dop_sampling drawn = {.temperature = 1, .top_k = 40, .top_p = 0.95f, .repeat_penalty = 1, .seed = 7};
    const uint32_t n = facts.ctx > 2 * (PROMPT + 3 * PICKS) ? PROMPT : 4;
    for (uint32_t i = 0; i < n; i++)
        prompt[i] = (i * 7 + 3) % facts.vocab;
    r->digest = 0xcbf29ce484222325u;
    dop_status st = dop_sequence_create(m, &r->diag, &s);
    if (st == DOP_OK)
        st = dop_sequence_score(s, prompt, n, take_rows, &user, &r->diag);
    if (st == DOP_OK)
        st = dop_sequence_rewind(s, 0, &r->diag);
    if (st == DOP_OK)
        st = dop_sequence_feed(s, prompt, n, &r->diag);
    if (st == DOP_OK)
        st = pick(s, r);
    if (st == DOP_OK) {
        dop_sequence_set_sampler(s, largest, r);
        st = pick(s, r);
    }
    if (st == DOP_OK) {
        dop_sequence_set_sampling(s, &drawn);
        st = pick(s, r);
    }
    dop_sequence_destroy(s);
    return st;
}

int
main(int argc, char **argv)
{
    dop_model *m = NULL;
    dop_open_options options = {.ordering = DOP_ORDERING_AUTO};
    run first = {0};
    unsigned long runs = argc > 2 ? strtoul(argv[2], NULL, 10) : 0, same = 0;
    if (runs == 0) {
        fprintf(stderr, "usage: repeat PLAN RUNS [auto|barriers|persistent]\n");
        return 2;
    }
    if (argc > 3 && strcmp(argv[3], "barriers") == 0)
        options.ordering = DOP_ORDERING_BARRIERS;
    else if (argc > 3 && strcmp(argv[3], "persistent") == 0)
        options.ordering = DOP_ORDERING_PERSISTENT;
    for (unsigned long i = 0; i < runs; i++) {
        run r = {0};
        dop_status st = DOP_OK;
        if (i % OPEN_EACH == 0) {
            dop_model_close(m);
            st = dop_model_open(argv[1], &options, &r.diag, &m);
        }
        if (st != DOP_OK || (st = run_once(m, &r)) != DOP_OK) {
            fprintf(stderr, "repeat: %s\n", r.diag.message);
            dop_model_close(m);
            return 1;
        }
        if (i == 0)
            first = r;
        same += r.digest == first.digest;
    }
    dop_model_close(m);
    printf("%016llx: %lu of %lu runs\n", (unsigned long long)first.digest, same, runs);
    return same != runs;
}
