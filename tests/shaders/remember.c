/* shaderc's results, kept in files by what they were made of.
 *
 * A third of the time of all tests went into compiling the same texts again: the same model for another test, in another
 * process or in the sanitized build, whose shaderc is the same library.  Programs of the tests that compile kernels are
 * linked with this file and --wrap for every function with a __wrap_ here; what a module becomes afterwards, and every
 * check of it, happens each time.  The programs that are installed know nothing of this, and check.reproducible compares
 * their plans with some that are made so.
 *
 * With DOP_SHADERS_AS_WRITTEN modules are not optimized, and loops without the hint `unroll` say that they are not to be
 * unrolled: a software device's compiler would otherwise spend half of its time on copies of what such a loop does. */
#include <inttypes.h>
#include <shaderc/shaderc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* What the functions below hand out as a shaderc_compilation_result_t. */
typedef struct kept {
    shaderc_compilation_result_t real; /* NULL: the bytes were in a file */
    char *bytes;
    size_t size;
} kept;

#ifdef DOP_SHADERS_AS_WRITTEN
enum { AS_WRITTEN = 1 };
#else
enum { AS_WRITTEN = 0 };
#endif

/* SPIR-V's words of one instruction and one mask. */
enum { SPIRV_HEADER = 5, SPIRV_LOOP_MERGE = 246, SPIRV_UNROLL = 1, SPIRV_DONT_UNROLL = 2 };

/* Of the options that this thread made last: they are used at once. */
static _Thread_local struct {
    int32_t level, environment;
    uint32_t version;
} asked;

shaderc_compile_options_t __real_shaderc_compile_options_initialize(void);
shaderc_compile_options_t __wrap_shaderc_compile_options_initialize(void);
shaderc_compile_options_t
__wrap_shaderc_compile_options_initialize(void)
{
    memset(&asked, 0, sizeof asked);
    return __real_shaderc_compile_options_initialize();
}

void __real_shaderc_compile_options_set_optimization_level(shaderc_compile_options_t, shaderc_optimization_level);
void __wrap_shaderc_compile_options_set_optimization_level(shaderc_compile_options_t, shaderc_optimization_level);
void
__wrap_shaderc_compile_options_set_optimization_level(shaderc_compile_options_t o, shaderc_optimization_level level)
{
    if (AS_WRITTEN)
        level = shaderc_optimization_level_zero;
    asked.level = 1 + (int32_t)level;
    __real_shaderc_compile_options_set_optimization_level(o, level);
}

void __real_shaderc_compile_options_set_target_env(shaderc_compile_options_t, shaderc_target_env, uint32_t);
void __wrap_shaderc_compile_options_set_target_env(shaderc_compile_options_t, shaderc_target_env, uint32_t);
void
__wrap_shaderc_compile_options_set_target_env(shaderc_compile_options_t o, shaderc_target_env env, uint32_t version)
{
    asked.environment = (int32_t)env;
    asked.version = version;
    __real_shaderc_compile_options_set_target_env(o, env, version);
}

static bool
read_file(const char *path, kept *k)
{
    FILE *f = fopen(path, "rbe");
    struct stat sb;
    bool ok = f && fstat(fileno(f), &sb) == 0 && sb.st_size > 0 && sb.st_size % 4 == 0;
    k->size = ok ? (size_t)sb.st_size : 0;
    k->bytes = ok ? malloc(k->size) : NULL;
    ok = k->bytes && fread(k->bytes, 1, k->size, f) == k->size;
    if (f)
        fclose(f);
    if (!ok) {
        free(k->bytes);
        k->bytes = NULL;
    }
    return ok;
}

/* Complete or not at all: other processes look for the same file.  One that cannot be written is not missed. */
static void
write_file(const char *path, const char *bytes, size_t size)
{
    char name[600];
    snprintf(name, sizeof name, "%s.XXXXXX", path);
    int fd = mkstemp(name);
    if (fd < 0)
        return;
    bool ok = write(fd, bytes, size) == (ssize_t)size;
    close(fd);
    if (!ok || rename(name, path) != 0)
        unlink(name);
}

static void
path_of(const char *text, size_t size, shaderc_shader_kind kind, char out[512])
{
    struct {
        int32_t level, environment, kind, as_written;
        uint32_t version, spirv;
    } how = {asked.level, asked.environment, (int32_t)kind, AS_WRITTEN, asked.version, 0};
    unsigned int revision;
    shaderc_get_spv_version(&how.spirv, &revision);
    XXH128_hash_t h = XXH3_128bits_withSeed(text, size, XXH3_64bits(&how, sizeof how));
    mkdir(DOP_SHADERS, 0777);
    snprintf(out, 512, "%s/%016" PRIx64 "%016" PRIx64 ".spv", DOP_SHADERS, h.high64, h.low64);
}

/* Loop control: loops that do not ask to be unrolled stay loops. */
static void
keep_loops(kept *k)
{
    for (size_t i = SPIRV_HEADER * sizeof(uint32_t); i + sizeof(uint32_t) <= k->size;) {
        uint32_t word, control;
        memcpy(&word, k->bytes + i, sizeof word);
        const size_t size = (word >> 16) * sizeof word, at = i + 3 * sizeof word;
        if ((word & 0xffff) == SPIRV_LOOP_MERGE && at + sizeof control <= k->size) {
            memcpy(&control, k->bytes + at, sizeof control);
            control |= control & SPIRV_UNROLL ? 0 : SPIRV_DONT_UNROLL;
            memcpy(k->bytes + at, &control, sizeof control);
        }
        if (size == 0)
            return;
        i += size;
    }
}

shaderc_compilation_status __real_shaderc_result_get_compilation_status(const shaderc_compilation_result_t);
const char *__real_shaderc_result_get_bytes(const shaderc_compilation_result_t);
size_t __real_shaderc_result_get_length(const shaderc_compilation_result_t);
void __real_shaderc_result_release(shaderc_compilation_result_t);

/* Takes over what shaderc made, in bytes of its own that are kept; a failure stays shaderc's. */
static void
take(kept *k, const char *path)
{
    if (__real_shaderc_result_get_compilation_status(k->real) != shaderc_compilation_status_success)
        return;
    k->size = __real_shaderc_result_get_length(k->real);
    k->bytes = malloc(k->size);
    if (!k->bytes)
        return;
    memcpy(k->bytes, __real_shaderc_result_get_bytes(k->real), k->size);
    __real_shaderc_result_release(k->real);
    k->real = NULL;
    if (AS_WRITTEN)
        keep_loops(k);
    write_file(path, k->bytes, k->size);
}

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
    char path[512];
    kept *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    path_of(text, size, kind, path);
    if (read_file(path, k))
        return (shaderc_compilation_result_t)(void *)k;
    k->real = __real_shaderc_compile_into_spv(compiler, text, size, kind, name, entry, options);
    if (!k->real) {
        free(k);
        return NULL;
    }
    take(k, path);
    return (shaderc_compilation_result_t)(void *)k;
}

static const kept *
kept_of(const shaderc_compilation_result_t result)
{
    return (const kept *)(const void *)result;
}

#define WRAP(type, name, otherwise)                               \
    type __wrap_##name(const shaderc_compilation_result_t);       \
    type __wrap_##name(const shaderc_compilation_result_t result) \
    {                                                             \
        const kept *k = kept_of(result);                          \
        return k->real ? __real_##name(k->real) : (otherwise);    \
    }
const char *__real_shaderc_result_get_error_message(const shaderc_compilation_result_t);
WRAP(shaderc_compilation_status, shaderc_result_get_compilation_status, shaderc_compilation_status_success)
WRAP(const char *, shaderc_result_get_bytes, k->bytes)
WRAP(size_t, shaderc_result_get_length, k->size)
WRAP(const char *, shaderc_result_get_error_message, "")

void __wrap_shaderc_result_release(shaderc_compilation_result_t);
void
__wrap_shaderc_result_release(shaderc_compilation_result_t result)
{
    kept *k = (kept *)(void *)result;
    if (k && k->real)
        __real_shaderc_result_release(k->real);
    if (k)
        free(k->bytes);
    free(k);
}
