/* Lets one allocation after another fail while a model is compiled, and looks at what becomes of it.
 *
 *   fail_alloc load|drafter|compile|plan|parts MODEL TARGET EVERY [N]
 *
 * load reads the model; drafter reads MODEL/model and adds the drafter MODEL/drafter; compile goes on to the texts of all
 * kernels, plan to a plan file in the current directory; parts makes a plan in two parts of what was compiled once, without
 * failures.  A first run without a failure counts the points at which memory is asked for: malloc and its relatives of our code and
 * of Jansson, pieces of arenas (one block serves many), and appends to growable buffers (few of them grow one).
 * Then, for the first and the last point that each place in the program makes, and some between, there is a run in which
 * that point fails, in a process of its own.  EVERY takes each so-manieth of these runs (a sixteenth of them in the
 * sanitized build, but for load); 0 takes all points of all places.  N is one point alone, for a debugger.
 *
 * A run with a failure either fails with a message, and then leaves no file, or gives what the first run gave to the
 * byte.  That nothing leaks and nothing is read too far is for the sanitizers to say.
 *
 * tests/CMakeLists.txt links this program with --wrap for every function with a __wrap_ here.  The shader compiler is
 * asked once for each kernel, in the first run; it is not what is tested, and it ends the program when memory runs out. */
#include "compiler/library/make.h"
#include "compiler/parts/parts.h"
#include "compiler/target/target.h"
#include "compiler/write/plan_write.h"
#include "tests/faults/points.h"

#include <dirent.h>
#include <inttypes.h>
#include <shaderc/shaderc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_SHADERS = 512 };
static const char plan_name[] = "faults.plan";

/* ---- what is wrapped beside that of points.c ----------------------------------------------------------------------- */
WRAP(void *, dop_arena_alloc, (dop_arena * a, size_t n), (a, n))
WRAP(char *, dop_arena_strdup, (dop_arena * a, const char *s), (a, s))

char *__wrap_dop_arena_printf(dop_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *
__wrap_dop_arena_printf(dop_arena *a, const char *fmt, ...)
{
    char *text = NULL;
    if (POINT_FAILS())
        return NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : __real_dop_arena_strdup(a, text);
    free(text);
    return s;
}

/* ---- the shader compiler's results, kept by text --------------------------------------------------------------------- */
static struct {
    char *glsl;
    shaderc_compilation_result_t result;
} shaders[MAX_SHADERS];
static uint32_t n_shaders;
static bool other_kernel;

shaderc_compilation_result_t __real_shaderc_compile_into_spv(const shaderc_compiler_t, const char *, size_t,
                                                             shaderc_shader_kind, const char *, const char *,
                                                             const shaderc_compile_options_t);
shaderc_compilation_result_t __wrap_shaderc_compile_into_spv(const shaderc_compiler_t, const char *, size_t,
                                                             shaderc_shader_kind, const char *, const char *,
                                                             const shaderc_compile_options_t);
shaderc_compilation_result_t
__wrap_shaderc_compile_into_spv(const shaderc_compiler_t compiler, const char *text, size_t size,
                                shaderc_shader_kind kind, const char *name, const char *entry,
                                const shaderc_compile_options_t options)
{
    bool was = points_armed;
    uint32_t i = 0;
    while (i < n_shaders && strcmp(shaders[i].glsl, text) != 0)
        i++;
    if (i < n_shaders)
        return shaders[i].result;
    if (points_fail_at || i == MAX_SHADERS) { /* a text that is not among those of the first run */
        other_kernel = true;
        return NULL;
    }
    points_armed = false;
    shaders[i].result = __real_shaderc_compile_into_spv(compiler, text, size, kind, name, entry, options);
    shaders[i].glsl = strdup(text);
    n_shaders++;
    points_armed = was;
    return shaders[i].result;
}

void __wrap_shaderc_result_release(shaderc_compilation_result_t result);
void
__wrap_shaderc_result_release(shaderc_compilation_result_t result)
{
    (void)result;
}

/* ---- runs ----------------------------------------------------------------------------------------------------------- */
typedef struct job {
    const char *what, *model;
    const char *drafter; /* of `load`: what is added to the model; NULL: nothing */
    dop_target target;
    dop_diag diag;
    dop_buf made; /* what the last run gave */
} job;

static dop_status
run_load(job *j)
{
    dop_arena arena;
    dop_checkpoint m;
    dop_arena_init(&arena);
    dop_status st = dop_checkpoint_load(j->model, &arena, &j->diag, &m);
    const bool loaded = st == DOP_OK;
    if (loaded && j->drafter)
        st = dop_checkpoint_add_drafter(&m, j->drafter, &j->diag);
    points_armed = false;
    if (loaded) {
        for (uint32_t i = 0; i < m.weights.n; i++)
            dop_buf_printf(&j->made, "%s\n", m.weights.items[i].name);
        dop_checkpoint_finish(&m);
    }
    dop_arena_finish(&arena);
    return st;
}

static void
read_plan(dop_buf *out)
{
    char bytes[65536];
    FILE *f = fopen(plan_name, "rb");
    for (size_t n; f && (n = fread(bytes, 1, sizeof bytes, f)) > 0;)
        dop_buf_append(out, bytes, n);
    if (f)
        fclose(f);
    unlink(plan_name);
}

static dop_status
run_compile(job *j, bool plan)
{
    dop_compilation_options o = {.target = &j->target,
                                 .own_path = DOP_GLSL_SOURCE_DIR,
                                 .ctx = 64,
                                 .n_chunks = 1,
                                 .chunks = {8},
                                 .threads = 1,
                                 .no_spirv = !plan};
    dop_compilation c;
    o.passes.stop_after = -1;
    dop_status st = dop_compilation_make(j->model, &o, &j->diag, &c);
    bool compiled = st == DOP_OK;
    if (compiled && plan)
        st = dop_plan_write(&c, 1, plan_name, DOP_PLAN_WEIGHTS_MODEL, &j->diag);
    points_armed = false;
    for (uint32_t i = 0; compiled && i < c.kernels.n; i++)
        dop_buf_puts(&j->made, c.kernels.items[i].k.glsl);
    for (uint32_t i = 0; compiled && i < c.n_schedules; i++) /* barriers are in no text */
        for (uint32_t r = 1; r < c.schedules[i].g.n_regions; r++)
            dop_buf_puts(&j->made, c.schedules[i].placement.barrier[r] ? "|" : " ");
    if (st == DOP_OK && plan)
        read_plan(&j->made);
    if (compiled)
        dop_compilation_finish(&c);
    return st;
}

static dop_status
run_parts(job *j)
{
    static dop_compilation c; /* never finished: it is for all runs */
    const dop_compilation_options o = {.target = &j->target,
                                       .own_path = DOP_GLSL_SOURCE_DIR,
                                       .ctx = 64,
                                       .n_chunks = 1,
                                       .chunks = {8},
                                       .threads = 1,
                                       .in_parts = true,
                                       .passes = {.stop_after = -1}};
    dop_compilation parts[2];
    dop_cuts cuts;
    dop_status st = DOP_OK;
    points_armed = false;
    if (c.n_schedules == 0)
        st = dop_compilation_make(j->model, &o, &j->diag, &c);
    points_armed = true;
    if (st == DOP_OK)
        st = dop_parts_choose(&c, "2", NULL, &j->diag, &cuts);
    if (st != DOP_OK)
        return st;
    if ((st = dop_parts_make(&c, 1, &cuts, &j->diag, parts)) == DOP_OK) {
        st = dop_plan_write_parts(parts, 2, plan_name, false, false, &j->diag);
        dop_parts_finish(parts, 2);
    }
    points_armed = false;
    if (st == DOP_OK)
        read_plan(&j->made);
    return st;
}

static dop_status
run(job *j, uint64_t at)
{
    memset(&j->diag, 0, sizeof j->diag);
    j->made.size = 0;
    other_kernel = false;
    points_fail_at = at;
    points_seen = 0;
    points_armed = true;
    dop_status st = strcmp(j->what, "load") == 0    ? run_load(j)
                    : strcmp(j->what, "parts") == 0 ? run_parts(j)
                                                    : run_compile(j, strcmp(j->what, "plan") == 0);
    points_armed = false;
    return st;
}

/* How many files there are, and one of them. */
static uint32_t
count_files(char name[256])
{
    uint32_t n = 0;
    DIR *d = opendir(".");
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, plan_name, strlen(plan_name)) == 0) {
            n++;
            snprintf(name, 256, "%s", e->d_name);
            unlink(e->d_name);
        }
    if (d)
        closedir(d);
    return n;
}

/* One run: NULL, or what is wrong. */
static const char *
judge(job *j, const dop_buf *wanted, uint64_t at)
{
    static char text[1400], name[256];
    dop_status st = run(j, at);
    if (count_files(name) > 0) {
        snprintf(text, sizeof text, "%s is left", name);
        return text;
    }
    if (other_kernel)
        return "the text of a kernel is another one";
    if (st == DOP_OK)
        return j->made.size != wanted->size || memcmp(j->made.data, wanted->data, wanted->size) != 0
                   ? "success is reported, and the result is another one"
                   : NULL;
    if (j->diag.code != st || !j->diag.message[0])
        return "there is no message";
    if (st == DOP_E_NOMEM || st == DOP_E_IO)
        return NULL;
    snprintf(text, sizeof text, "the message blames something else: %s", j->diag.message);
    return text;
}

/* The same in a process of its own, whose sanitizers look for leaks when it ends.  True: all is well. */
static bool
judge_apart(job *j, const dop_buf *wanted, uint64_t at)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const char *wrong = judge(j, wanted, at);
        if (wrong)
            fprintf(stderr, "fail_alloc: point %" PRIu64 ": %s\n", at, wrong);
        dop_buf_finish(&j->made);
        exit(wrong ? 1 : 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (WIFSIGNALED(status))
        fprintf(stderr, "fail_alloc: point %" PRIu64 ": signal %d\n", at, WTERMSIG(status));
    else if (WEXITSTATUS(status) > 1)
        fprintf(stderr, "fail_alloc: point %" PRIu64 ": status %d\n", at, WEXITSTATUS(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static uint32_t
run_all(job *j, uint32_t every, uint64_t only)
{
    uint32_t bad = 0, runs = 0;
    points_places = calloc(MAX_POINTS, sizeof *points_places);
    uint64_t *chosen = calloc(MAX_POINTS, sizeof *chosen);
    dop_status st = points_places && chosen ? run(j, 0) : DOP_E_NOMEM;
    if (st != DOP_OK) {
        fprintf(stderr, "fail_alloc: without a failure: %s\n", j->diag.message);
        bad = 1;
        goto error;
    }
    uint64_t n = points_seen < MAX_POINTS ? points_seen : MAX_POINTS, n_chosen = points_choose(every == 0, n, chosen);
    free(points_places);
    points_places = NULL;
    dop_buf wanted = j->made;
    j->made = (dop_buf){0};
    for (uint64_t i = 0; i < (only ? 1 : n_chosen); i += every ? every : 1) {
        uint64_t at = only ? only : chosen[i];
        runs++;
        if (!only) {
            bad += !judge_apart(j, &wanted, at);
            continue;
        }
        const char *wrong = judge(j, &wanted, at);
        fprintf(stderr, "fail_alloc: %s; raised at %s:%d: %s\n", wrong ? wrong : "well",
                j->diag.src_file ? j->diag.src_file : "-", j->diag.src_line, j->diag.message);
        bad += wrong != NULL;
    }
    printf("%s %s: %" PRIu64 " points, %" PRIu64 " chosen, %u runs, %u wrong\n", j->what, j->model, n, n_chosen, runs,
           bad);
    dop_buf_finish(&wanted);
error:
    free(points_places);
    free(chosen);
    return bad;
}

int
main(int argc, char **argv)
{
    job j = {0};
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: fail_alloc load|drafter|compile|plan|parts MODEL TARGET EVERY [N]\n");
        return 2;
    }
    char model[512], drafter[512];
    j.what = argv[1];
    j.model = argv[2];
    if (strcmp(j.what, "drafter") == 0) {
        snprintf(model, sizeof model, "%s/model", argv[2]);
        snprintf(drafter, sizeof drafter, "%s/drafter", argv[2]);
        j.what = "load";
        j.model = model;
        j.drafter = drafter;
    }
    points_of_json();
    if (dop_target_resolve(argv[3], &j.diag, &j.target) != DOP_OK) {
        fprintf(stderr, "fail_alloc: %s\n", j.diag.message);
        return 2;
    }
    uint32_t every = (uint32_t)strtoul(argv[4], NULL, 10);
    if (SANITIZED && strcmp(j.what, "load") != 0)
        every *= 16;
    uint32_t bad = run_all(&j, every, argc > 5 ? strtoull(argv[5], NULL, 10) : 0);
    dop_buf_finish(&j.made);
    for (uint32_t i = 0; i < n_shaders; i++)
        free(shaders[i].glsl);
    return bad > 0;
}
