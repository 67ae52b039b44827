/* What programs of others do with plans: compile them, know them without a device, open them from memory and from descriptors, see how
 * far that is, and cancel it. */
#include "runtime/model/model.h"

#include <criterion/criterion.h>
#include <doppler/compile.h>
#include <doppler/doppler.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char model_dir[] = DOP_SOURCE_DIR "/tests/golden/llama";

/* Counts reports by step, and cancels at report number `stop`. */
typedef struct seen {
    uint32_t kernels, weights, tokens, stop;
    uint64_t last, all;
} seen;

static bool
see(void *user, const char *step, uint64_t done, uint64_t all)
{
    seen *s = user;
    s->kernels += strcmp(step, "kernels") == 0;
    s->weights += strcmp(step, "weights") == 0;
    s->tokens += strcmp(step, "tokens") == 0;
    cr_assert_leq(done, all);
    s->last = done;
    s->all = all;
    return s->stop == 0 || s->kernels + s->weights + s->tokens < s->stop;
}

static dop_compile_options
small(seen *s)
{
    return (dop_compile_options){.target = "lavapipe", .ctx = 64, .chunks = "4,8", .threads = 1, .progress = {see, s}};
}

static void
note(void *user, const char *text)
{
    dop_buf_printf(user, "%s\n", text);
}

/* The plan that the tests use, in a file of this process. */
static const char *
plan_path(void)
{
    static char path[64];
    if (!path[0]) {
        seen s = {0};
        dop_buf notes = {0};
        dop_diag diag;
        dop_compile_facts facts;
        dop_compile_options o = small(&s);
        o.notes = (dop_log){note, &notes};
        snprintf(path, sizeof path, "library-%ld.plan", (long)getpid());
        cr_assert_eq(dop_compile(model_dir, path, &o, &diag, &facts), DOP_OK, "%s", diag.message);
        cr_assert_str_eq(facts.target, "lavapipe");
        cr_assert_eq(facts.n_parts, 1);
        struct stat sb;
        cr_assert_eq(stat(path, &sb), 0);
        cr_assert_eq(facts.bytes, (uint64_t)sb.st_size);
        cr_assert_gt(s.kernels, 0);
        cr_assert_gt(s.weights, 0);
        cr_assert_eq(s.last, s.all);
        cr_assert(strstr(notes.data, "target lavapipe"), "%s", notes.data);
        dop_buf_finish(&notes);
    }
    return path;
}

static void
remove_plan(void)
{
    unlink(plan_path());
}

TestSuite(library_plans, .fini = remove_plan);

Test(library_plans, compiling_is_cancelled)
{
    seen s = {0};
    dop_diag diag;
    dop_compile_options o = small(&s);
    (void)plan_path();
    for (s.stop = 1; s.stop < 60; s.stop += 29) {
        const uint32_t stop = s.stop;
        s = (seen){.stop = stop};
        cr_assert_eq(dop_compile(model_dir, "cancelled.plan", &o, &diag, NULL), DOP_E_CANCELLED, "%s", diag.message);
        cr_assert_str_eq(diag.message, "cancelled");
        cr_assert_eq(access("cancelled.plan", F_OK), -1);
    }
}

Test(library_plans, options_are_checked)
{
    const char *const forces[] = {"qkv"}, *const skips[] = {"no-such-pass"};
    dop_compile_options o = {.target = "lavapipe"};
    dop_diag diag;
    o.act = "q8_0";
    cr_assert_eq(dop_compile(model_dir, "x.plan", &o, &diag, NULL), DOP_E_USAGE);
    o.act = NULL;
    o.forces = forces;
    o.n_forces = 1;
    cr_assert_eq(dop_compile(model_dir, "x.plan", &o, &diag, NULL), DOP_E_USAGE);
    cr_assert(strstr(diag.message, "expected OP=VARIANT"));
    o.n_forces = 0;
    o.skips = skips;
    o.n_skips = 1;
    cr_assert_eq(dop_compile(model_dir, "x.plan", &o, &diag, NULL), DOP_E_USAGE);
    cr_assert(strstr(diag.message, "unknown pass no-such-pass"));
    static const dop_compile_options odd[] = {{.ctx = UINT32_MAX},
                                              {.sequences = UINT32_MAX},
                                              {.ctx_total = UINT32_MAX},
                                              {.split = true},
                                              {.part_memory = "1GiB"},
                                              {.control_layers = "1-2"},
                                              {.adapters = 2},
                                              {.rank = 2},
                                              {.adapters = 1000, .rank = 4},
                                              {.adapters = 2, .rank = UINT32_MAX},
                                              {.external_weights = true, .model_weights = true}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        o = odd[i];
        o.target = "lavapipe";
        cr_assert_eq(dop_compile(model_dir, "x.plan", &o, &diag, NULL), DOP_E_USAGE, "%zu", i);
    }
    cr_assert_eq(dop_compile("/nowhere", "x.plan", NULL, NULL, NULL), DOP_E_IO);
    cr_assert_eq(access("x.plan", F_OK), -1);
}

Test(library_plans, facts_need_no_device)
{
    dop_plan_facts *f;
    dop_diag diag;
    cr_assert_eq(dop_plan_read(plan_path(), 0, &diag, &f), DOP_OK, "%s", diag.message);
    struct stat sb;
    cr_assert_eq(stat(plan_path(), &sb), 0);
    cr_assert_eq(f->bytes, (uint64_t)sb.st_size);
    cr_assert_str_eq(f->family, "llama");
    cr_assert_eq(f->ctx, 64);
    cr_assert_eq(f->n_parts, 1);
    cr_assert_eq(f->n_targets, 1);
    cr_assert_str_eq(f->targets[0].name, "lavapipe");
    cr_assert_gt(f->targets[0].device_bytes, 0);
    cr_assert(strstr(f->made, "\"release\":\"dopplerc "), "%s", f->made);
    dop_free(f);
    cr_assert_eq(dop_plan_read(plan_path(), 1, &diag, &f), DOP_E_USAGE);
    cr_assert_null(f);
    cr_assert_neq(dop_plan_read("/nowhere", 0, &diag, &f), DOP_OK);
    cr_assert_null(f);
    cr_assert_str_eq(diag.path, "/nowhere");
}

/* The ids that a model writes after a prompt. */
static void
write_ids(dop_model *m, uint32_t out[4])
{
    static const uint32_t prompt[] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21};
    enum { N = sizeof prompt / sizeof *prompt };
    dop_sequence *s;
    dop_diag diag;
    seen p = {0};
    cr_assert_eq(dop_sequence_create(m, &diag, &s), DOP_OK, "%s", diag.message);
    dop_sequence_set_progress(s, &(dop_progress){see, &p});
    cr_assert_eq(dop_sequence_feed(s, prompt, N, &diag), DOP_OK, "%s", diag.message);
    cr_assert_geq(p.tokens, 3); /* pieces of 8, 8 and 1 */
    cr_assert_eq(p.last, N);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(dop_sequence_next(s, &diag, &out[i]), DOP_OK, "%s", diag.message);
    /* Cancelled after its first piece, it goes on with the next call. */
    uint32_t again[4];
    dop_sequence_destroy(s);
    cr_assert_eq(dop_sequence_create(m, &diag, &s), DOP_OK, "%s", diag.message);
    p = (seen){.stop = 1};
    dop_sequence_set_progress(s, &(dop_progress){see, &p});
    cr_assert_eq(dop_sequence_feed(s, prompt, N, &diag), DOP_E_CANCELLED);
    dop_sequence_set_progress(s, NULL);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(dop_sequence_next(s, &diag, &again[i]), DOP_OK, "%s", diag.message);
    cr_assert_arr_eq(out, again, sizeof again);
    dop_sequence_destroy(s);
}

static dop_status
refuse_device(void *user, const dop_device_facts *facts, dop_diag *diag)
{
    *(bool *)user = facts->name[0] && facts->line[0];
    return DOP_FAIL(diag, DOP_E_USAGE, "not this one");
}

Test(library_plans, are_opened_from_memory_and_descriptors)
{
    uint32_t want[4], got[4];
    dop_model *m;
    dop_diag diag;
    dop_facts facts;
    seen p = {0};
    bool shown = false;
    dop_open_options o = {.progress = {see, &p}, .threads = 1};
    cr_assert_eq(dop_model_open(plan_path(), &o, &diag, &m), DOP_OK, "%s", diag.message);
    cr_assert_gt(p.weights + p.kernels, 0);
    dop_model_facts(m, &facts);
    cr_assert_eq(facts.n_chunks, 2);
    cr_assert_eq(facts.chunks[0], 4);
    cr_assert_eq(facts.chunks[1], 8);
    write_ids(m, want);
    dop_model_close(m);

    p = (seen){.stop = 1};
    cr_assert_eq(dop_model_open(plan_path(), &o, &diag, &m), DOP_E_CANCELLED);
    cr_assert_null(m);
    const dop_open_options odd[] = {{.ordering = (dop_ordering)7},
                                    {.timeout_s = (double)INFINITY},
                                    {.timeout_s = -1},
                                    {.submit_ms = (double)NAN},
                                    {.submit_ms = -1},
                                    {.steps_per_submit = 257}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        m = (dop_model *)1;
        cr_assert_eq(dop_model_open(plan_path(), &odd[i], &diag, &m), DOP_E_USAGE, "%zu", i);
        cr_assert_null(m);
    }
    o = (dop_open_options){.timeout_s = 1e300, .threads = 1};
    cr_assert_eq(dop_model_open(plan_path(), &o, &diag, &m), DOP_OK, "%s", diag.message);
    float vector[512];
    const dop_token_text text = {(const uint32_t[]){1}, 1, 1};
    cr_assert_eq(dop_model_embed(m, &text, 1, (dop_pooling)9, &diag, vector), DOP_E_USAGE);
    cr_assert_str_eq(diag.message, "there is no pooling 9");
    dop_model_close(m);
    o = (dop_open_options){.chosen = refuse_device, .chosen_user = &shown};
    cr_assert_eq(dop_model_open(plan_path(), &o, &diag, &m), DOP_E_USAGE);
    cr_assert_str_eq(diag.message, "not this one");
    cr_assert(shown);

    int fd = open(plan_path(), O_RDONLY | O_CLOEXEC);
    struct stat sb;
    cr_assert_eq(fstat(fd, &sb), 0);
    cr_assert_eq(dop_model_open_fd(fd, NULL, &diag, &m), DOP_OK, "%s", diag.message);
    void *bytes = aligned_alloc(4096, ((size_t)sb.st_size + 4095) / 4096 * 4096);
    cr_assert_eq(pread(fd, bytes, (size_t)sb.st_size, 0), sb.st_size);
    close(fd);
    write_ids(m, got);
    cr_assert_arr_eq(got, want, sizeof got);
    dop_model_close(m);
    cr_assert_eq(dop_model_open_memory(bytes, (size_t)sb.st_size, NULL, &diag, &m), DOP_OK, "%s", diag.message);
    write_ids(m, got);
    cr_assert_arr_eq(got, want, sizeof got);
    dop_model_close(m);
    cr_assert_eq(dop_model_open_memory((char *)bytes + 1, 100, NULL, &diag, &m), DOP_E_USAGE);
    cr_assert_eq(dop_model_open_memory(bytes, 100, NULL, &diag, &m), DOP_E_INPUT);
    ((char *)bytes)[sb.st_size / 2] ^= 1;
    cr_assert_eq(dop_model_open_memory(bytes, (size_t)sb.st_size, NULL, &diag, &m), DOP_E_INPUT);
    free(bytes);
    cr_assert_eq(dop_model_open_fd(-1, NULL, &diag, &m), DOP_E_IO);
}
