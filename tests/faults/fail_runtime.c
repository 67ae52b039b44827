/* Lets one allocation after another fail while a plan is opened and run, or a text is tokenized, and looks at what becomes
 * of it.
 *
 *   fail_runtime run PLAN EVERY [N]     opens the model, feeds, picks on the device and on the host, scores, rewinds
 *   fail_runtime text FILE EVERY [N]    a tokenizer file (or a model's directory): tokenizer, its binary form, encoding,
 *                                       decoding, the chat template
 *   fail_runtime grammar FILE EVERY [N] a tokenizer file: vocabulary, grammars of a schema and of GBNF, and their masks
 *
 * As fail_alloc.c does with the compiler: a first run counts the points at which something can fail, and then, for the
 * first and the last point of each place in the program, and some between, that point fails in a process of its own.
 * Points are those of points.c, and functions of threads, PCRE2 and Vulkan that make something.  EVERY takes each so-manieth
 * of these runs; 0 takes all points of all places.  N is one point alone, for a debugger.
 *
 * A run with a failure either fails with a message or gives what the first run gave.  That nothing leaks and nothing is read
 * too far is for the sanitizers to say.  Threads make the order of points differ a little from run to run. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/model/info.h"
#include "tests/faults/points.h"
#include "text/chat/chat.h"
#include "text/grammar/grammar.h"
#include "text/import/tokenizer_hf.h"

#include <errno.h>
#include <inttypes.h>
#include <pcre2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

enum { MAX_MADE = 1 << 16, MAX_RUN_POINTS = 1 << 20, MAX_SECONDS = 60 };

/* ---- what is wrapped beside that of points.c ----------------------------------------------------------------------- */
#define WRAP_CODE(type, failure, name, parameters, arguments)     \
    type __real_##name parameters;                                \
    type __wrap_##name parameters;                                \
    type __wrap_##name parameters                                 \
    {                                                             \
        return POINT_FAILS() ? failure : __real_##name arguments; \
    }
#define WRAP_VK(name, parameters, arguments) \
    WRAP_CODE(VkResult, VK_ERROR_OUT_OF_HOST_MEMORY, name, parameters, arguments)

/* Nothing of a device that is lost is given back, since that may wait for ever: a leak, for who looks for leaks. */
#if SANITIZED
#define LOST VK_ERROR_OUT_OF_HOST_MEMORY
#else
#define LOST VK_ERROR_DEVICE_LOST
#endif

typedef void *thread_main(void *);
WRAP_CODE(int, EAGAIN, pthread_create, (pthread_t * t, const pthread_attr_t *a, thread_main *f, void *x), (t, a, f, x))
WRAP_CODE(int, ENOMEM, pthread_mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t *a), (m, a))
WRAP_CODE(int, ENOMEM, pthread_cond_init, (pthread_cond_t * c, const pthread_condattr_t *a), (c, a))
WRAP_CODE(void *, MAP_FAILED, mmap, (void *p, size_t n, int prot, int flags, int fd, off_t at),
          (p, n, prot, flags, fd, at))
WRAP_CODE(pcre2_match_data *, NULL, pcre2_match_data_create_8, (uint32_t n, pcre2_general_context *c), (n, c))
WRAP_CODE(pcre2_match_context *, NULL, pcre2_match_context_create_8, (pcre2_general_context * c), (c))
WRAP_CODE(pcre2_jit_stack *, NULL, pcre2_jit_stack_create_8, (size_t a, size_t b, pcre2_general_context *c), (a, b, c))
#define DEVICE_AND(type) (VkDevice d, const type *info, const VkAllocationCallbacks *a
WRAP_VK(vkCreateBuffer, DEVICE_AND(VkBufferCreateInfo), VkBuffer *out), (d, info, a, out))
WRAP_CODE(VkResult, VK_ERROR_OUT_OF_DEVICE_MEMORY, vkAllocateMemory,
          (VkDevice d, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *a, VkDeviceMemory *out),
          (d, info, a, out))
WRAP_VK(vkCreateCommandPool, DEVICE_AND(VkCommandPoolCreateInfo), VkCommandPool *out), (d, info, a, out))
WRAP_VK(vkCreateShaderModule, DEVICE_AND(VkShaderModuleCreateInfo), VkShaderModule *out), (d, info, a, out))
WRAP_VK(vkCreatePipelineLayout, DEVICE_AND(VkPipelineLayoutCreateInfo), VkPipelineLayout *out), (d, info, a, out))
WRAP_VK(vkCreatePipelineCache, DEVICE_AND(VkPipelineCacheCreateInfo), VkPipelineCache *out), (d, info, a, out))
WRAP_VK(vkCreateSemaphore, DEVICE_AND(VkSemaphoreCreateInfo), VkSemaphore *out), (d, info, a, out))
WRAP_VK(vkBindBufferMemory, (VkDevice d, VkBuffer b, VkDeviceMemory m, VkDeviceSize at), (d, b, m, at))
WRAP_VK(vkMapMemory, (VkDevice d, VkDeviceMemory m, VkDeviceSize at, VkDeviceSize n, VkMemoryMapFlags f, void **out),
        (d, m, at, n, f, out))
WRAP_VK(vkAllocateCommandBuffers, (VkDevice d, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out),
        (d, info, out))
WRAP_VK(vkBeginCommandBuffer, (VkCommandBuffer c, const VkCommandBufferBeginInfo *info), (c, info))
WRAP_VK(vkEndCommandBuffer, (VkCommandBuffer c), (c))
WRAP_VK(vkCreateComputePipelines,
        (VkDevice d, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *info,
         const VkAllocationCallbacks *a, VkPipeline *out),
        (d, cache, n, info, a, out))
WRAP_CODE(VkResult, VK_ERROR_INCOMPATIBLE_DRIVER, vkCreateInstance,
          (const VkInstanceCreateInfo *info, const VkAllocationCallbacks *a, VkInstance *out), (info, a, out))
WRAP_CODE(VkResult, VK_ERROR_FEATURE_NOT_PRESENT, vkCreateDevice,
        (VkPhysicalDevice d, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *a, VkDevice *out),
        (d, info, a, out))
WRAP_VK(vkEnumeratePhysicalDevices, (VkInstance i, uint32_t *n, VkPhysicalDevice *out), (i, n, out))
/* A device that is lost runs nothing: what was submitted ends first, or the process would end under the driver's threads. */
VkResult __real_vkQueueSubmit(VkQueue q, uint32_t n, const VkSubmitInfo *info, VkFence fence);
VkResult __wrap_vkQueueSubmit(VkQueue q, uint32_t n, const VkSubmitInfo *info, VkFence fence);
VkResult
__wrap_vkQueueSubmit(VkQueue q, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    if (!POINT_FAILS())
        return __real_vkQueueSubmit(q, n, info, fence);
    vkQueueWaitIdle(q);
    return LOST;
}

VkResult __real_vkWaitSemaphores(VkDevice d, const VkSemaphoreWaitInfo *info, uint64_t timeout);
VkResult __wrap_vkWaitSemaphores(VkDevice d, const VkSemaphoreWaitInfo *info, uint64_t timeout);
VkResult
__wrap_vkWaitSemaphores(VkDevice d, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    const bool fails = !SANITIZED && POINT_FAILS(); /* whatever a wait reports, the device counts as lost */
    const VkResult r = __real_vkWaitSemaphores(d, info, timeout);
    return fails ? LOST : r;
}

/* ---- runs ----------------------------------------------------------------------------------------------------------- */
/* What the first run, in a process of its own as all are, leaves for the others. */
typedef struct shared {
    uint64_t n_points;
    size_t made_size; /* bytes of made */
    char made[MAX_MADE];
    void *places[MAX_RUN_POINTS];
} shared;

typedef struct job {
    const char *what, *path;
    dop_diag diag;
    dop_buf made; /* what the run gave */
} job;

static dop_status
keep_rows(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    dop_buf *made = user;
    (void)first, (void)diag;
    bool armed = points_armed;
    points_armed = false;
    for (size_t i = 0; i < n_rows; i++)
        dop_buf_append(made, rows + i, sizeof *rows);
    points_armed = armed;
    return DOP_OK;
}

/* n tokens; they go to `made`, of which no point is part. */
static dop_status
take(dop_sequence *s, uint32_t n, job *j)
{
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        uint32_t id = 0;
        if ((st = dop_sequence_next(s, &j->diag, &id)) != DOP_OK)
            break;
        points_armed = false;
        dop_buf_append(&j->made, &id, sizeof id);
        points_armed = true;
    }
    return st;
}

static dop_status
run_plan(job *j)
{
    static const uint32_t prompt[] = {3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9};
    const dop_open_options o = {.threads = 2, .ordering = DOP_ORDERING_BARRIERS};
    const dop_sampling warm = {.temperature = 0.8f, .top_p = 1, .top_k = 5, .repeat_penalty = 1, .seed = 7};
    dop_model *m = NULL;
    dop_sequence *s = NULL;
    dop_status st = dop_model_open(j->path, &o, &j->diag, &m);
    if (st == DOP_OK)
        st = dop_sequence_create(m, &j->diag, &s);
    if (st == DOP_OK)
        st = dop_sequence_feed(s, prompt, sizeof prompt / sizeof *prompt, &j->diag);
    if (st == DOP_OK)
        st = take(s, 3, j);
    if (st == DOP_OK) {
        dop_sequence_set_sampling(s, &warm);
        st = take(s, 2, j);
    }
    if (st == DOP_OK)
        st = dop_sequence_score(s, prompt, 4, keep_rows, &j->made, &j->diag);
    if (st == DOP_OK)
        st = dop_sequence_rewind(s, 5, &j->diag);
    if (st == DOP_OK) {
        dop_step_row row = {s, 11, DOP_WANTS_LOGITS};
        st = dop_step_run(m, &row, 1, &j->diag);
        dop_step_rollback(m);
    }
    if (st == DOP_OK)
        st = take(s, 2, j);
    dop_model_close(m);
    points_armed = false;
    return st;
}

/* The tokenizer's binary form, and a text back and forth through it. */
static dop_status
through_blob(const dop_tokenizer *tok, job *j)
{
    static const char text[] = "ROMEO: what's in a name? 42 \xc3\xa4\xe2\x82\xac\n";
    dop_tokenizer *loaded = NULL;
    dop_buf blob = {0}, back = {0};
    dop_ids ids = {0};
    dop_status st = dop_tokenizer_serialize(tok, &blob);
    if (st != DOP_OK)
        j->diag = (dop_diag){.code = st, .message = "serializing"}; /* which takes no diag */
    if (st == DOP_OK)
        st = dop_tokenizer_from_blob(blob.data, blob.size, &j->diag, &loaded);
    if (st == DOP_OK)
        st = dop_tokenizer_encode(loaded, text, sizeof text - 1, DOP_ENCODE_ADD_SPECIAL, &j->diag, &ids);
    if (st == DOP_OK)
        st = dop_tokenizer_decode(loaded, ids.data, ids.count, DOP_DECODE_SKIP_SPECIAL, &j->diag, &back);
    if (st == DOP_OK && back.failed)
        st = DOP_NO_MEMORY(&j->diag); /* the caller's to look at */
    bool armed = points_armed;
    points_armed = false;
    if (st == DOP_OK) {
        dop_buf_append(&j->made, ids.data, ids.count * sizeof *ids.data);
        dop_buf_append(&j->made, back.data, back.size);
    }
    points_armed = armed;
    dop_tokenizer_destroy(loaded);
    dop_ids_finish(&ids);
    dop_buf_finish(&blob);
    dop_buf_finish(&back);
    return st;
}

static dop_status
render(const dop_tokenizer *tok, const json_t *messages, job *j)
{
    static const struct tm day = {.tm_year = 124, .tm_mon = 5, .tm_mday = 7};
    dop_chat *chat = NULL;
    dop_buf text = {0};
    size_t n;
    dop_status st = dop_tokenizer_chat_template(tok, &n) ? dop_chat_create_from_tokenizer(tok, &j->diag, &chat)
                                                         : dop_chat_create_builtin("llama3", &j->diag, &chat);
    const dop_chat_input in = {.messages = messages, .add_generation_prompt = true, .tokenizer = tok, .now = &day};
    if (st == DOP_OK)
        st = dop_chat_render(chat, &in, &j->diag, &text);
    if (st == DOP_OK && text.failed)
        st = DOP_NO_MEMORY(&j->diag);
    bool armed = points_armed;
    points_armed = false;
    if (st == DOP_OK)
        dop_buf_append(&j->made, text.data, text.size);
    points_armed = armed;
    dop_buf_finish(&text);
    dop_chat_destroy(chat);
    return st;
}

static dop_status
run_text(job *j)
{
    points_armed = false;
    json_t *messages = json_pack("[{ssss}{ssss}{ssss}]", "role", "user", "content", "Who?", "role", "assistant",
                                 "content", "I.", "role", "user", "content", "Why?");
    points_armed = true;
    dop_map map = {0};
    dop_tokenizer *tok = NULL;
    struct stat sb;
    bool directory = stat(j->path, &sb) == 0 && S_ISDIR(sb.st_mode);
    dop_status st =
        directory ? dop_tokenizer_from_hf_dir(j->path, &j->diag, &tok) : dop_map_open(j->path, &j->diag, &map);
    if (st == DOP_OK && !directory)
        st = dop_tokenizer_from_bytes(j->path, map.data, map.size, NULL, &j->diag, &tok);
    if (st == DOP_OK)
        st = through_blob(tok, j);
    if (st == DOP_OK)
        st = render(tok, messages, j);
    dop_tokenizer_destroy(tok);
    dop_map_close(&map);
    points_armed = false;
    json_decref(messages);
    return st;
}

/* Which tokens a grammar allows at the beginning and after each token of a text that it accepts. */
static dop_status
constrain(const dop_tokenizer *tok, dop_grammar *g, const char *text, job *j)
{
    dop_matcher *m = NULL;
    dop_ids ids = {0};
    dop_status st = dop_tokenizer_encode(tok, text, strlen(text), 0, &j->diag, &ids);
    if (st == DOP_OK)
        st = dop_matcher_create(g, &j->diag, &m);
    for (size_t i = 0; i <= ids.count && st == DOP_OK; i++) {
        const uint32_t *mask = dop_matcher_mask(m, &j->diag);
        if (!mask) {
            st = j->diag.code;
            break;
        }
        points_armed = false;
        uint32_t sum = dop_matcher_may_end(m);
        for (uint32_t k = 0; k < (dop_tokenizer_vocab_size(tok) + 31) / 32; k++)
            sum = sum * 31 + mask[k];
        dop_buf_append(&j->made, &sum, sizeof sum);
        points_armed = true;
        if (i < ids.count)
            st = dop_matcher_accept(m, ids.data[i], &j->diag);
    }
    dop_matcher_destroy(m);
    dop_ids_finish(&ids);
    return st;
}

static dop_status
run_grammar(job *j)
{
    static const char gbnf[] = "root ::= [^a-z\\n]{1,3} (\"b\" | [c-fx])+ sum?\nsum ::= \"=\" [0-9]+\n";
    const uint32_t ends = 0;
    points_armed = false;
    json_t *schema = json_loads(
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^[a-cx][^0-9e-g\\\\s]*$\","
        "\"maxLength\":9},"
        "\"b\":{\"anyOf\":[{\"type\":\"integer\",\"minimum\":-7,\"maximum\":1200},{\"enum\":[\"x\",null,1.5]}]},"
        "\"c\":{\"type\":\"array\",\"items\":{\"not\":{\"const\":\"no\"},\"type\":\"string\"},\"maxItems\":3}},"
        "\"required\":[\"a\",\"b\"]}",
        0, NULL);
    points_armed = true;
    dop_map map = {0};
    dop_tokenizer *tok = NULL;
    dop_vocab *vocab = NULL;
    dop_grammar *g[2] = {NULL, NULL};
    dop_status st = dop_map_open(j->path, &j->diag, &map);
    points_armed = false; /* of what `text` is for */
    if (st == DOP_OK)
        st = dop_tokenizer_from_bytes(j->path, map.data, map.size, NULL, &j->diag, &tok);
    points_armed = true;
    if (st == DOP_OK)
        st = dop_vocab_create(tok, dop_tokenizer_vocab_size(tok), &ends, 1, &j->diag, &vocab);
    if (st == DOP_OK)
        st = dop_grammar_from_schema(vocab, schema, NULL, NULL, DOP_SCHEMA_COMPACT, NULL, &j->diag, &g[0]);
    if (st == DOP_OK)
        st = constrain(tok, g[0], "{\"a\":\"xyz\",\"b\":120,\"c\":[\"nor\"]}", j);
    if (st == DOP_OK)
        st = dop_grammar_from_gbnf(vocab, "g", gbnf, sizeof gbnf - 1, NULL, &j->diag, &g[1]);
    if (st == DOP_OK)
        st = constrain(tok, g[1], "A1bx=30", j);
    dop_grammar_release(g[0]);
    dop_grammar_release(g[1]);
    dop_vocab_destroy(vocab);
    dop_tokenizer_destroy(tok);
    dop_map_close(&map);
    points_armed = false;
    json_decref(schema);
    return st;
}

/* Runs by their names on the command line. */
static const struct {
    const char *what;
    dop_status (*run)(job *j);
} runs[] = {{"run", run_plan}, {"text", run_text}, {"grammar", run_grammar}};

static dop_status
run(job *j, uint64_t at)
{
    size_t i = 0;
    while (strcmp(runs[i].what, j->what) != 0)
        i++;

    points_fail_at = at;
    points_seen = 0;
    points_armed = true;
    dop_status st = runs[i].run(j);
    points_armed = false;
    return st;
}

/* One run: NULL, or what is wrong. */
static const char *
judge(job *j, const shared *first, uint64_t at)
{
    static char text[1400];
    dop_status st = run(j, at);
    if (st == DOP_OK)
        return j->made.size != first->made_size || memcmp(j->made.data, first->made, first->made_size) != 0
                   ? "success is reported, and the result is another one"
                   : NULL;
    if (j->diag.code != st || !j->diag.message[0])
        return "there is no message";
    if (st == DOP_E_NOMEM || st == DOP_E_IO || st == DOP_E_DEVICE)
        return NULL;
    snprintf(text, sizeof text, "the message blames something else: %s", j->diag.message);
    return text;
}

/* In a process of its own, whose sanitizers look for leaks when it ends.  at 0: the first run.  True: all is well. */
static bool
run_apart(const char *what, const char *path, shared *first, uint64_t at, bool shows)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        job j = {.what = what, .path = path};
        const char *wrong = NULL;
        alarm(MAX_SECONDS); /* who waits for what a thread could not do waits for ever */
        if (at == 0) {
            points_places = first->places;
            wrong = run(&j, 0) != DOP_OK ? j.diag.message : j.made.size > MAX_MADE ? "it gives too much" : NULL;
            first->n_points = points_seen < MAX_RUN_POINTS ? points_seen : MAX_RUN_POINTS;
            first->made_size = j.made.size;
            if (!wrong && j.made.size > 0)
                memcpy(first->made, j.made.data, j.made.size);
        } else {
            wrong = judge(&j, first, at);
        }
        if (wrong || shows)
            fprintf(stderr, "fail_runtime: point %" PRIu64 ": %s; raised at %s:%d: %s\n", at, wrong ? wrong : "well",
                    j.diag.src_file ? j.diag.src_file : "-", j.diag.src_line, j.diag.message);
        dop_buf_finish(&j.made);
        exit(wrong ? 1 : 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (WIFSIGNALED(status))
        fprintf(stderr, "fail_runtime: point %" PRIu64 ": signal %d\n", at, WTERMSIG(status));
    else if (WEXITSTATUS(status) > 1)
        fprintf(stderr, "fail_runtime: point %" PRIu64 ": status %d\n", at, WEXITSTATUS(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int
main(int argc, char **argv)
{
    bool known = false;
    for (size_t i = 0; i < sizeof runs / sizeof *runs && argc > 1; i++)
        known |= strcmp(argv[1], runs[i].what) == 0;
    if (argc < 4 || argc > 5 || !known) {
        fprintf(stderr, "usage: fail_runtime run|text|grammar FILE EVERY [N]\n");
        return 2;
    }
    uint32_t every = (uint32_t)strtoul(argv[3], NULL, 10), n_runs = 0, bad = 0;
    uint64_t only = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    points_of_json();
    shared *first = mmap(NULL, sizeof *first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t *chosen = calloc(MAX_RUN_POINTS, sizeof *chosen);
    if (first == MAP_FAILED || !chosen || !run_apart(argv[1], argv[2], first, 0, false)) {
        fprintf(stderr, "fail_runtime: the first run failed\n");
        return 1;
    }
    points_places = first->places;
    uint64_t n_chosen = points_choose(every == 0, first->n_points, chosen);
    points_places = NULL;
    for (uint64_t i = 0; i < (only ? 1 : n_chosen); i += every ? every : 1, n_runs++)
        bad += !run_apart(argv[1], argv[2], first, only ? only : chosen[i], only != 0);
    printf("%s %s: %" PRIu64 " points, %" PRIu64 " chosen, %u runs, %u wrong\n", argv[1], argv[2], first->n_points,
           n_chosen, n_runs, bad);
    free(chosen);
    return bad > 0;
}
