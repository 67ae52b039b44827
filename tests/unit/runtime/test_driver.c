/* One process, and one thread at a time, use a model: how that is noticed, and that every call notices it; a second thread where the
 * library is built so (DOPPLER_CHECKED). */
#include "runtime/model/model.h"

#include <criterion/criterion.h>
#include <doppler/compile.h>
#include <doppler/doppler.h>
#include <doppler/generation.h>
#include <doppler/text.h>
#include <sys/wait.h>
#include <unistd.h>

static void *
try_to_enter(void *driver)
{
    const bool entered = dop_driver_enter(driver);
    if (entered)
        dop_driver_leave(driver);
    return entered ? driver : NULL;
}

static bool
other_thread_enters(dop_driver *d)
{
    pthread_t thread;
    void *entered = NULL;
    cr_assert_eq(pthread_create(&thread, NULL, try_to_enter, d), 0);
    cr_assert_eq(pthread_join(thread, &entered), 0);
    return entered != NULL;
}

Test(driver, one_thread_at_a_time)
{
    dop_driver d = {0};
    cr_assert(other_thread_enters(&d));
    cr_assert(dop_driver_enter(&d));
    cr_assert(dop_driver_enter(&d)); /* a call within a call */
    cr_assert_not(other_thread_enters(&d));
    dop_driver_leave(&d);
    cr_assert_not(other_thread_enters(&d));
    dop_driver_leave(&d);
    cr_assert(other_thread_enters(&d));
}

Test(driver, a_diagnostic_is_of_the_last_call)
{
    dop_diag diag;
    dop_plan_facts *facts = NULL;
    dop_chat *chat = NULL;
    memset(&diag, 0xff, sizeof diag); /* it needs no initialization */
    cr_assert_eq(dop_plan_read("/nowhere/at.plan", 0, &diag, &facts), DOP_E_IO);
    cr_assert_eq(diag.code, DOP_E_IO);
    cr_assert_str_eq(diag.path, "/nowhere/at.plan");
    cr_assert_neq(diag.message[0], 0);
    cr_assert_eq(dop_chat_of_name("no such name", &diag, &chat), DOP_E_INPUT);
    cr_assert_eq(diag.code, DOP_E_INPUT);
    cr_assert(strstr(diag.message, "no such name"), "%s", diag.message);
    cr_assert_str_eq(diag.path, "");
    cr_assert_eq(dop_chat_of_name("chatml", &diag, &chat), DOP_OK);
    cr_assert_eq(diag.code, DOP_OK);
    cr_assert_str_eq(diag.message, "");
    dop_chat_destroy(chat);
}

/* What a forked child does with its parent's model; the number of calls that are not refused as they should be. */
static int
use_parents_model(dop_model *model, dop_sequence *sequence)
{
    const uint32_t ids[] = {1, 2};
    const dop_step_row row = {sequence, 1, DOP_WANTS_PICK};
    dop_sequence *made = NULL;
    dop_generation *writing = NULL;
    dop_generation_token token;
    dop_diag diag = {0};
    uint32_t id;
    size_t n;
    int wrong = 0;
#define REFUSED(call)                                                                                           \
    (wrong += (call) != DOP_E_USAGE || !strstr(diag.message, "from which this one was forked: open it here") || \
              strchr(diag.message, '\n'))
    REFUSED(dop_sequence_feed(sequence, ids, 2, &diag));
    REFUSED(dop_sequence_next(sequence, &diag, &id));
    REFUSED(dop_sequence_rewind(sequence, 0, &diag));
    REFUSED(dop_sequence_reuse(sequence, ids, 2, &diag, &n));
    REFUSED(dop_sequence_create(model, &diag, &made));
    REFUSED(dop_sequence_fork(sequence, &diag, &made));
    REFUSED(dop_sequence_save(sequence, "never.bin", NULL, 0, &diag));
    REFUSED(dop_sequence_end_turn(sequence, &diag));
    REFUSED(dop_step_run(model, &row, 1, &diag));
    wrong += dop_generation_create(sequence, NULL, &diag, &writing) != DOP_OK;
    REFUSED(dop_generation_next(writing, &diag, &token));
#undef REFUSED
    dop_generation_destroy(writing);
    (void)dop_model_counters(model);
    dop_step_rollback(model);
    dop_sequence_destroy(sequence);
    dop_model_close(model);
    return wrong;
}

Test(driver, a_forked_child_is_refused)
{
    static const char plan[] = "forked.plan";
    const dop_compile_options o = {.target = "lavapipe", .ctx = 64, .chunks = "8", .sequences = 2, .threads = 1};
    const dop_open_options open = {.threads = 1, .cache_memory = 1 << 20, .checkpoints = 2};
    dop_model *model;
    dop_sequence *sequence;
    dop_diag diag;
    uint32_t ids[9] = {1}, id, same;
    int status;
    cr_assert_eq(dop_compile(DOP_SOURCE_DIR "/tests/golden/llama", plan, &o, &diag, NULL), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_model_open(plan, &open, &diag, &model), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_sequence_create(model, &diag, &sequence), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_sequence_feed(sequence, ids, 9, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_sequence_next(sequence, &diag, &id), DOP_OK, "%s", diag.message);
    const pid_t child = fork();
    if (child == 0)
        _exit(use_parents_model(model, sequence));
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    /* The parent's model is as it was. */
    cr_assert_eq(dop_sequence_rewind(sequence, 9, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_sequence_next(sequence, &diag, &same), DOP_OK, "%s", diag.message);
    cr_assert_eq(same, id);
    dop_model_close(model);
    /* A child opens its own, and so does one of a parent with a device. */
    cr_assert_eq(dop_model_open(plan, &open, &diag, &model), DOP_OK, "%s", diag.message);
    const pid_t other = fork();
    if (other == 0) {
        bool good = dop_model_open(plan, &open, &diag, &model) == DOP_OK &&
                    dop_sequence_create(model, &diag, &sequence) == DOP_OK &&
                    dop_sequence_feed(sequence, ids, 9, &diag) == DOP_OK &&
                    dop_sequence_next(sequence, &diag, &same) == DOP_OK;
        dop_model_close(model);
        _exit(!good || same != id);
    }
    cr_assert_eq(waitpid(other, &status, 0), other);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    dop_model_close(model);
    unlink(plan);
}

#ifdef DOPPLER_CHECKED
typedef struct second {
    dop_model *model;
    dop_sequence *sequence;
    uint32_t asked, refused;
} second;

/* Counts a call of the second thread, and whether it was refused as it should be. */
static void
count(second *x, dop_status st, const dop_diag *diag)
{
    x->asked++;
    x->refused += st == DOP_E_USAGE && diag->code == DOP_E_USAGE && strstr(diag->message, "another thread") != NULL;
}

static void *
use_it(void *user)
{
    second *x = user;
    dop_diag diag = {0};
    dop_sequence *made = NULL;
    const uint32_t ids[] = {1, 2};
    const dop_step_row row = {x->sequence, 1, DOP_WANTS_PICK};
    uint32_t id;
    size_t n;
    count(x, dop_sequence_feed(x->sequence, ids, 2, &diag), &diag);
    count(x, dop_sequence_next(x->sequence, &diag, &id), &diag);
    count(x, dop_sequence_rewind(x->sequence, 0, &diag), &diag);
    count(x, dop_sequence_cut(x->sequence, 0, 0, &diag), &diag);
    count(x, dop_sequence_reuse(x->sequence, ids, 2, &diag, &n), &diag);
    count(x, dop_sequence_create(x->model, &diag, &made), &diag);
    count(x, dop_sequence_fork(x->sequence, &diag, &made), &diag);
    count(x, dop_sequence_save(x->sequence, "never.bin", NULL, 0, &diag), &diag);
    count(x, dop_sequence_set_mask(x->sequence, NULL, &diag), &diag);
    count(x, dop_step_run(x->model, &row, 1, &diag), &diag);
    cr_assert_null(made);
    return NULL;
}

static bool
another_meanwhile(void *user, const char *step, uint64_t done, uint64_t all)
{
    pthread_t thread;
    (void)step;
    if (done == all)
        return true;
    cr_assert_eq(pthread_create(&thread, NULL, use_it, user), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    return true;
}

Test(driver, a_second_thread_is_refused)
{
    static const char plan[] = "driver.plan";
    const dop_compile_options o = {.target = "lavapipe", .ctx = 64, .chunks = "8", .sequences = 3, .threads = 1};
    const dop_open_options open = {.threads = 1};
    second x = {0};
    dop_sequence *first;
    dop_diag diag;
    uint32_t ids[20] = {1}, id;
    cr_assert_eq(dop_compile(DOP_SOURCE_DIR "/tests/golden/llama", plan, &o, &diag, NULL), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_model_open(plan, &open, &diag, &x.model), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_sequence_create(x.model, &diag, &first), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_sequence_create(x.model, &diag, &x.sequence), DOP_OK, "%s", diag.message);
    dop_sequence_set_progress(first, &(dop_progress){another_meanwhile, &x});
    cr_assert_eq(dop_sequence_feed(first, ids, 20, &diag), DOP_OK, "%s", diag.message);
    cr_assert_geq(x.asked, 10);
    cr_assert_eq(x.refused, x.asked);
    /* And afterwards it is anybody's again; what was refused left nothing behind. */
    cr_assert_eq(dop_sequence_next(first, &diag, &id), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_sequence_feed(x.sequence, ids, 20, &diag), DOP_OK, "%s", diag.message);
    uint32_t same;
    cr_assert_eq(dop_sequence_next(x.sequence, &diag, &same), DOP_OK, "%s", diag.message);
    cr_assert_eq(same, id);
    dop_model_close(x.model);
    unlink(plan);
}
#endif
