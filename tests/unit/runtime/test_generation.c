/* Generations (doppler/generation.h) on a hand-made plan: who picks, what is shown, what ends a text.  The server's way through
 * the same parts: tests/golden/serve.sh. */
#include "runtime/library/generation.h"
#include "runtime/library/text_internal.h"
#include "runtime/model/model.h"
#include "tests/unit/grammar_util.h"
#include "tests/unit/plan_builder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { END = 2 }; /* the toy model's end id */

static dop_diag diag;

static void
ok(dop_status st)
{
    cr_assert_eq(st, DOP_OK, "%s", diag.message);
}

typedef struct fixture {
    dop_model *m;
    dop_sequence *s;
    dop_text *text; /* id n is byte n - 1 */
    dop_generation *g;
    uint32_t ids[TOY_CTX + 1], n; /* what the sequence should have */
} fixture;

static fixture
open_toy(void)
{
    char path[] = "/tmp/doppler-test-XXXXXX";
    int fd = mkstemp(path);
    plan_builder b;
    dop_buf file;
    fixture f = {0};
    util_bytes bytes = util_bytes_make(0);
    memset(&diag, 0, sizeof diag);
    pb_toy_of(&b, 1);
    pb_build(&b, &file);
    cr_assert(fd >= 0 && write(fd, file.data, file.size) == (ssize_t)file.size);
    close(fd);
    ok(dop_model_open(path, NULL, &diag, &f.m));
    unlink(path);
    dop_buf_finish(&file);
    plan_builder_finish(&b);
    dop_vocab_destroy(bytes.vocab);
    ok(dop_text_of_tokenizer(bytes.tok, &diag, &f.text));
    ok(dop_sequence_create(f.m, &diag, &f.s));
    return f;
}

static void
close_toy(fixture *f)
{
    dop_generation_destroy(f->g);
    dop_model_close(f->m);
    dop_text_destroy(f->text);
}

/* Reads a prompt of n tokens. */
static void
start(fixture *f, const dop_generation_options *how, uint32_t n)
{
    uint32_t prompt[TOY_CTX];
    for (uint32_t i = 0; i < n; i++)
        f->ids[f->n++] = prompt[i] = 3 + i * 7 % 50;
    ok(dop_generation_create(f->s, how, &diag, &f->g));
    ok(dop_generation_read(f->g, prompt, n, &diag));
}

static dop_generation_token
next(fixture *f)
{
    dop_generation_token t;
    size_t n;
    ok(dop_generation_next(f->g, &diag, &t));
    f->ids[f->n++] = t.id;
    const uint32_t *ids = dop_sequence_tokens(f->s, &n);
    cr_assert_eq(n, f->n);
    cr_assert_arr_eq(ids, f->ids, n * sizeof *ids);
    return t;
}

static void
check_text(const dop_generation_token *t, const char *want)
{
    cr_assert_eq(t->len, strlen(want), "\"%.*s\" instead of \"%s\"", (int)t->len, t->text, want);
    cr_assert_arr_eq(t->text, want, t->len);
}

/* A sampler of the caller's: the characters of a text. */
static dop_status
spell(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n_tokens, dop_diag *d,
      uint32_t *out_id)
{
    const char **at = user;
    (void)logits, (void)vocab, (void)tokens, (void)n_tokens, (void)d;
    *out_id = **at == '!' ? END : 1u + (unsigned char)**at;
    ++*at;
    return DOP_OK;
}

Test(generation, greedy_until_its_length)
{
    fixture f = open_toy();
    const dop_generation_options how = {.text = f.text, .max_tokens = 6, .ignore_end = true};
    start(&f, &how, 5);
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t want = toy_argmax(f.ids, f.n);
        const dop_generation_token t = next(&f);
        cr_assert_eq(t.id, want);
        cr_assert_eq(t.end, i < 5 ? DOP_END_NOT_YET : DOP_END_LENGTH);
        cr_assert_null(t.logprobs);
    }
    close_toy(&f);
}

Test(generation, until_the_context_is_full)
{
    fixture f = open_toy();
    const dop_generation_options how = {.ignore_end = true};
    start(&f, &how, TOY_CTX - 3);
    cr_assert_eq(next(&f).end, DOP_END_NOT_YET);
    cr_assert_eq(next(&f).end, DOP_END_NOT_YET);
    cr_assert_eq(next(&f).end, DOP_END_LENGTH);
    close_toy(&f);
}

Test(generation, as_little_as_can_be_said)
{
    fixture f = open_toy();
    dop_generation_token t;
    uint32_t id;
    ok(dop_generation_create(f.s, NULL, &diag, &f.g)); /* the defaults */
    ok(dop_generation_read(f.g, NULL, 0, &diag));
    cr_assert_eq(dop_generation_next(f.g, &diag, &t), DOP_E_INPUT); /* nothing to go on from */
    dop_generation_destroy(f.g);
    /* Nothing is read: the text follows what the sequence has, in all the room that there is. */
    const uint32_t prompt[] = {3, 10};
    const dop_generation_options all = {.ignore_end = true};
    ok(dop_sequence_feed(f.s, prompt, 2, &diag));
    ok(dop_generation_create(f.s, &all, &diag, &f.g));
    for (uint32_t i = 2; i < TOY_CTX; i++) {
        ok(dop_generation_next(f.g, &diag, &t));
        cr_assert_eq(t.end, i + 1 < TOY_CTX ? DOP_END_NOT_YET : DOP_END_LENGTH, "after %u", i);
    }
    cr_assert_eq(dop_generation_next(f.g, &diag, &t), DOP_E_USAGE);
    cr_assert_str_eq(diag.message, "the text has ended");
    /* What nothing can be picked by is said by the pick. */
    ok(dop_sequence_rewind(f.s, 1, &diag));
    dop_sequence_set_sampling(f.s, &(dop_sampling){.temperature = NAN});
    cr_assert_eq(dop_sequence_next(f.s, &diag, &id), DOP_E_USAGE);
    const dop_step_row row = {f.s, 4, DOP_WANTS_LOGITS};
    ok(dop_step_run(f.m, &row, 1, &diag));
    cr_assert_eq(dop_step_sample(f.m, 0, &diag, &id), DOP_E_USAGE);
    ok(dop_sequence_end_turn(f.s, &diag)); /* which does nothing here, and says so to both */
    cr_assert_eq(diag.code, DOP_OK);
    cr_assert_str_eq(diag.message, "");
    close_toy(&f);
}

Test(generation, ids_that_end_have_no_text)
{
    fixture f = open_toy();
    const char *says = "12!3";
    const dop_generation_options how = {.text = f.text, .max_tokens = 9},
                                 all = {.text = f.text, .max_tokens = 4, .ignore_end = true};
    dop_generation_token t;
    dop_sequence_set_sampler(f.s, spell, &says);
    start(&f, &how, 2);
    t = next(&f);
    check_text(&t, "1");
    t = next(&f);
    check_text(&t, "2");
    t = next(&f);
    check_text(&t, "");
    cr_assert_eq(t.end, DOP_END_ID);
    dop_generation_destroy(f.g);
    says = "4!5!";
    start(&f, &all, 1); /* the sampler is still there */
    for (uint32_t i = 0; i < 4; i++)
        t = next(&f);
    cr_assert_eq(t.end, DOP_END_LENGTH);
    size_t n;
    cr_assert_str_eq(dop_generation_text(f.g, &n), "4\0015\001");
    close_toy(&f);
}

Test(generation, stop_texts_are_held_back)
{
    fixture f = open_toy();
    const char *const stops[] = {"345", "77"};
    const char *says = "13435";
    const dop_generation_options how = {.text = f.text, .stops = stops, .n_stops = 2, .max_tokens = 9};
    static const char *const shown[] = {"1", "", "", "34", ""};
    dop_generation_token t;
    dop_sequence_set_sampler(f.s, spell, &says);
    start(&f, &how, 2);
    for (uint32_t i = 0; i < 4; i++) {
        t = next(&f);
        check_text(&t, shown[i]);
        cr_assert_eq(t.end, DOP_END_NOT_YET);
    }
    ok(dop_generation_stop(f.g, &diag, &t)); /* what was held is no stop text now */
    check_text(&t, "3");
    dop_generation_destroy(f.g);
    says = "2345";
    start(&f, &how, 1);
    for (uint32_t i = 0; i < 4; i++)
        t = next(&f);
    cr_assert_eq(t.end, DOP_END_STOP_TEXT);
    size_t n;
    cr_assert_str_eq(dop_generation_text(f.g, &n), "2");
    close_toy(&f);
}

static dop_constraint_matcher *
two_digits(fixture *f, dop_constraint **out_shape)
{
    static const char grammar[] = "root ::= [3-8] [0-5]";
    dop_constraint_matcher *m;
    ok(dop_constraint_from_grammar(f->text, grammar, sizeof grammar - 1, &diag, out_shape));
    ok(dop_constraint_matcher_create(*out_shape, NULL, &diag, &m));
    return m;
}

/* The logits of a row, of ids that are bytes from `first` to `last` alone. */
static void
logits_of(const fixture *f, char first, char last, float *out)
{
    toy_logits(f->ids, f->n, out);
    for (uint32_t v = 0; v < TOY_VOCAB; v++)
        if (v < 1u + (unsigned char)first || v > 1u + (unsigned char)last)
            out[v] = -INFINITY;
}

/* The most likely token of those that the matcher allows, and a draw among them.  A bias makes the host pick: the toy's kernels know
 * no masks, which tests/golden/serve.sh has. */
Test(generation, a_matcher_restricts_and_ends)
{
    const dop_sampling draws = {.temperature = 1.5f, .top_p = 1, .repeat_penalty = 1, .seed = 5};
    const dop_bias bias = {.id = TOY_VOCAB - 1, .by = 1};
    const dop_sampling likeliest = {.top_p = 1, .repeat_penalty = 1, .biases = &bias, .n_biases = 1};
    const dop_sampling *const samplings[] = {&likeliest, &draws};
    for (uint32_t k = 0; k < 2; k++) {
        fixture f = open_toy();
        dop_constraint *shape;
        dop_constraint_matcher *matcher = two_digits(&f, &shape);
        const dop_generation_options how = {
            .text = f.text, .matcher = matcher, .sampling = samplings[k], .max_tokens = 9};
        dop_sampler sampler;
        float logits[TOY_VOCAB];
        ok(dop_sampler_init(&sampler, TOY_VOCAB, &diag));
        sampler.params = draws;
        start(&f, &how, 4);
        for (uint32_t i = 0; i < 2; i++) {
            logits_of(&f, i == 0 ? '3' : '0', i == 0 ? '8' : '5', logits);
            uint32_t want = 0;
            for (uint32_t v = 0; v < TOY_VOCAB; v++)
                want = logits[v] > logits[want] ? v : want;
            if (k == 1)
                want = dop_sampler_pick(&sampler, logits, f.ids, f.n, NULL);
            const dop_generation_token t = next(&f);
            cr_assert_eq(t.id, want);
            cr_assert_eq(t.len, 1);
            cr_assert_eq(t.end, i == 0 ? DOP_END_NOT_YET : DOP_END_CONSTRAINT);
        }
        dop_sampler_finish(&sampler);
        dop_generation_destroy(f.g);
        f.g = NULL;
        dop_constraint_matcher_destroy(matcher);
        dop_constraint_destroy(shape);
        uint32_t id; /* nothing of it is left: the sequence goes on by itself */
        dop_sequence_set_sampling(f.s, &(dop_sampling){0});
        const uint32_t want = toy_argmax(f.ids, f.n);
        ok(dop_sequence_next(f.s, &diag, &id));
        cr_assert_eq(id, want);
        close_toy(&f);
    }
}

Test(generation, log_probabilities)
{
    enum { TOP = 3 };
    fixture f = open_toy();
    const dop_sampling s = {.logprobs = true};
    const dop_generation_options how = {.sampling = &s, .n_top = TOP, .max_tokens = 4, .ignore_end = true};
    start(&f, &how, 4);
    for (uint32_t i = 0; i < 4; i++) {
        float logits[TOY_VOCAB];
        dop_logprob want[1 + TOP];
        toy_logits(f.ids, f.n, logits);
        dop_logits_logprobs(logits, TOY_VOCAB, toy_argmax(f.ids, f.n), TOP, &want[0], &want[1]);
        const dop_generation_token t = next(&f);
        for (uint32_t k = 0; k < 1 + TOP; k++) {
            cr_assert_eq(t.logprobs[k].id, want[k].id);
            cr_assert_float_eq(t.logprobs[k].logprob, want[k].logprob, 1e-6);
        }
    }
    dop_constraint *shape;
    dop_constraint_matcher *matcher = two_digits(&f, &shape);
    const dop_generation_options both = {.sampling = &s, .matcher = matcher};
    dop_generation *none;
    cr_assert_eq(dop_generation_create(f.s, &both, &diag, &none), DOP_E_USAGE);
    const dop_generation_options many = {.sampling = &s, .n_top = TOY_VOCAB + 1};
    cr_assert_eq(dop_generation_create(f.s, &many, &diag, &none), DOP_E_USAGE);
    dop_constraint_matcher_destroy(matcher);
    dop_constraint_destroy(shape);
    close_toy(&f);
}

/* Penalties count from the end of the prompt, and biases are copied. */
Test(generation, penalties_and_biases)
{
    fixture f = open_toy();
    dop_bias bias = {.id = 7, .by = 1000};
    dop_sampling s = {.presence_penalty = 2000, .repeat_penalty = 1, .top_p = 1, .biases = &bias, .n_biases = 1};
    const dop_generation_options how = {.sampling = &s, .max_tokens = 4, .ignore_end = true};
    f.ids[f.n++] = 7;
    ok(dop_sequence_feed(f.s, f.ids, 1, &diag));
    start(&f, &how, 3);
    bias.id = 9;
    cr_assert_eq(next(&f).id, 7);
    cr_assert_neq(next(&f).id, 7); /* it was written once */
    close_toy(&f);
}
