/* Lets one allocation after another fail while a model is compiled, and looks at what becomes of it.
 *
 *   fail_alloc load|compile|plan MODEL TARGET EVERY [N]
 *
 * load reads the model, compile goes on to the texts of all kernels, plan to a plan file in the current directory.  A
 * first run without a failure counts the points at which memory is asked for: malloc and its relatives of our code and
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
#include "compiler/compile.h"
#include "compiler/plan_write.h"
#include "compiler/target.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <shaderc/shaderc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_SHADERS = 512, MAX_POINTS = 4000000, N_BETWEEN = 100 };
static const char plan_name[] = "faults.plan";

/* Sanitizers make a process of its own take a second. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static bool armed;
static uint64_t fail_at;       /* 1 is the first point; 0: none */
static _Atomic uint64_t point; /* so far in this run */
static void **places;          /* [MAX_POINTS] of the first run; NULL in the others */
static bool reading;           /* the JSON reader is at work */
static _Thread_local bool fail_next;

static bool
fails(void *place)
{
    if (fail_next || !armed)
        return fail_next;
    uint64_t n = atomic_fetch_add(&point, 1) + 1;
    if (places && n <= MAX_POINTS)
        places[n - 1] = place;
    if (n != fail_at)
        return false;
    errno = ENOMEM;
    return true;
}
#define FAILS() fails(__builtin_return_address(0))

/* ---- what is wrapped ------------------------------------------------------------------------------------------------ */
#define WRAP(type, name, parameters, arguments)          \
    type __real_##name parameters;                       \
    type __wrap_##name parameters;                       \
    type __wrap_##name parameters                        \
    {                                                    \
        return FAILS() ? NULL : __real_##name arguments; \
    }
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(char *, strdup, (const char *s), (s))
WRAP(char *, strndup, (const char *s, size_t n), (s, n))
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, fdopen, (int fd, const char *mode), (fd, mode))
WRAP(void *, dop_arena_alloc, (dop_arena * a, size_t n), (a, n))
WRAP(char *, dop_arena_strdup, (dop_arena * a, const char *s), (a, s))

int __wrap_asprintf(char **out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int
__wrap_asprintf(char **out, const char *fmt, ...)
{
    if (FAILS())
        return -1;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(out, fmt, ap);
    va_end(ap);
    return n;
}

char *__wrap_dop_arena_printf(dop_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *
__wrap_dop_arena_printf(dop_arena *a, const char *fmt, ...)
{
    char *text = NULL;
    if (FAILS())
        return NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : __real_dop_arena_strdup(a, text);
    free(text);
    return s;
}

/* The buffer has to grow now, and cannot. */
static void
fail_growth(dop_buf *b)
{
    b->cap = b->size;
    fail_next = true;
}

void __real_dop_buf_append(dop_buf *b, const void *bytes, size_t n);
void __wrap_dop_buf_append(dop_buf *b, const void *bytes, size_t n);
void
__wrap_dop_buf_append(dop_buf *b, const void *bytes, size_t n)
{
    if (FAILS())
        fail_growth(b);
    __real_dop_buf_append(b, bytes, n);
    fail_next = false;
}

void __wrap_dop_buf_puts(dop_buf *b, const char *s);
void
__wrap_dop_buf_puts(dop_buf *b, const char *s)
{
    if (FAILS())
        fail_growth(b);
    __real_dop_buf_append(b, s, strlen(s));
    fail_next = false;
}

void __real_dop_buf_zeros(dop_buf *b, size_t n);
void __wrap_dop_buf_zeros(dop_buf *b, size_t n);
void
__wrap_dop_buf_zeros(dop_buf *b, size_t n)
{
    if (FAILS())
        fail_growth(b);
    __real_dop_buf_zeros(b, n);
    fail_next = false;
}

void __wrap_dop_buf_printf(dop_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void
__wrap_dop_buf_printf(dop_buf *b, const char *fmt, ...)
{
    if (FAILS())
        fail_growth(b);
    va_list ap;
    va_start(ap, fmt);
    dop_buf_vprintf(b, fmt, ap);
    va_end(ap);
    fail_next = false;
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
    bool was = armed;
    uint32_t i = 0;
    while (i < n_shaders && strcmp(shaders[i].glsl, text) != 0)
        i++;
    if (i < n_shaders)
        return shaders[i].result;
    if (fail_at || i == MAX_SHADERS) { /* a text that is not among those of the first run */
        other_kernel = true;
        return NULL;
    }
    armed = false;
    shaders[i].result = __real_shaderc_compile_into_spv(compiler, text, size, kind, name, entry, options);
    shaders[i].glsl = __real_strdup(text);
    n_shaders++;
    armed = was;
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
    armed = false;
    if (st == DOP_OK) {
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
    dop_compile_options o = {
        .target = &j->target, .exe_path = "", .ctx = 64, .n_chunks = 1, .chunks = {8}, .threads = 1, .no_spirv = !plan};
    dop_compilation c;
    o.passes.stop_after = -1;
    dop_status st = dop_compile(j->model, &o, &j->diag, &c);
    bool compiled = st == DOP_OK;
    if (compiled && plan)
        st = dop_plan_write(&c, 1, plan_name, false, &j->diag);
    armed = false;
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
run(job *j, uint64_t at)
{
    memset(&j->diag, 0, sizeof j->diag);
    j->made.size = 0;
    other_kernel = reading = false;
    fail_at = at;
    point = 0;
    armed = true;
    dop_status st = strcmp(j->what, "load") == 0 ? run_load(j) : run_compile(j, strcmp(j->what, "plan") == 0);
    armed = false;
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

/* Points to let fail: per place the first and the last, and some that lie between; or (all) each.  Returns how many. */
static uint64_t
choose(bool all, uint64_t n, uint64_t *out)
{
    uint64_t chosen = 0;
    enum { TABLE = 1 << 16 };
    struct row {
        void *place;
        uint64_t first, last;
    } *rows = calloc(TABLE, sizeof *rows);
    for (uint64_t i = 0; rows && !all && i < n; i++) {
        uint64_t h = ((uintptr_t)places[i] * 0x9e3779b97f4a7c15u) >> 48;
        while (rows[h].place && rows[h].place != places[i])
            h = (h + 1) % TABLE;
        if (!rows[h].place)
            rows[h].first = i + 1;
        rows[h].place = places[i];
        rows[h].last = i + 1;
    }
    for (uint64_t i = 0; rows && i < n; i++) {
        bool take = all;
        if (!all) {
            uint64_t h = ((uintptr_t)places[i] * 0x9e3779b97f4a7c15u) >> 48;
            while (rows[h].place != places[i])
                h = (h + 1) % TABLE;
            take = rows[h].first == i + 1 || rows[h].last == i + 1 || i % (n / N_BETWEEN + 1) == 0;
        }
        if (take)
            out[chosen++] = i + 1;
    }
    free(rows);
    return chosen;
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
    places = calloc(MAX_POINTS, sizeof *places);
    uint64_t *chosen = calloc(MAX_POINTS, sizeof *chosen);
    dop_status st = places && chosen ? run(j, 0) : DOP_E_NOMEM;
    if (st != DOP_OK) {
        fprintf(stderr, "fail_alloc: without a failure: %s\n", j->diag.message);
        bad = 1;
        goto error;
    }
    uint64_t n = point < MAX_POINTS ? point : MAX_POINTS, n_chosen = choose(every == 0, n, chosen);
    free(places);
    places = NULL;
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
    free(places);
    free(chosen);
    return bad;
}

/* Jansson 2.14 reads and writes past the end of a string that it could not save while it reads: it is spared there. */
static void *
json_malloc(size_t n)
{
    return !reading && FAILS() ? NULL : __real_malloc(n);
}

json_t *__real_json_loadb(const char *text, size_t n, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *text, size_t n, size_t flags, json_error_t *error);
json_t *
__wrap_json_loadb(const char *text, size_t n, size_t flags, json_error_t *error)
{
    reading = true;
    json_t *root = __real_json_loadb(text, n, flags, error);
    reading = false;
    return root;
}

int
main(int argc, char **argv)
{
    job j = {0};
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: fail_alloc load|compile|plan MODEL TARGET EVERY [N]\n");
        return 2;
    }
    j.what = argv[1];
    j.model = argv[2];
    json_object_seed(1);
    json_set_alloc_funcs(json_malloc, free);
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
