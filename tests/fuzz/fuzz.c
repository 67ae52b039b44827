/* Fuzz targets of everything that reads outside bytes, on libFuzzer.
 *
 *   fuzz_NAME [option of libFuzzer...] [FOLDER...]   a target (targets.def); the build makes a link of each name
 *   fuzz_plan --shrink PLAN OUT                      a seed for fuzz_plan, of a plan
 *
 * tests/fuzz/long.sh runs all of them for as long as one likes. */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

typedef struct target {
    const char *name;
    fuzz_run *run;
    fuzz_mutator *mutate;
    size_t longest;
} target;

static const target targets[] = {
#define FUZZ(name, mutator, longest, what) {#name, fuzz_##name, mutator, longest},
#include "tests/fuzz/targets.def"
#undef FUZZ
};

static const target *chosen;
static char program[1024], folder[64];

static void
remove_folder(void)
{
    static const char *const files[] = {"config.json",
                                        "model.safetensors",
                                        "manifest.json",
                                        "shard_0.bin",
                                        "shard_1.bin",
                                        "fuzz.yaml",
                                        "tokenizer.json",
                                        "a.safetensors",
                                        "tokenizer_config.json",
                                        "generation_config.json",
                                        "added_tokens.json",
                                        "chat_template.jinja",
                                        "preprocessor_config.json",
                                        "scheduler_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        fuzz_file_gone(files[i]);
    (void)rmdir(folder);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *called = strrchr((*argv)[0], '/');
    called = called ? called + 1 : (*argv)[0];
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strncmp(called, "fuzz_", 5) == 0 && strcmp(called + 5, targets[i].name) == 0)
            chosen = &targets[i];
    if (!chosen) {
        fprintf(stderr, "fuzz: call it by the name of a target:");
        for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
            fprintf(stderr, " fuzz_%s", targets[i].name);
        fprintf(stderr, "\n");
        exit(2);
    }
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    require(n > 0);
    /* The one driver that the Vulkan loader finds. */
    require(setenv("VK_DRIVER_FILES", fuzz_beside("fake_driver.json"), 1) == 0 &&
            setenv("VK_ICD_FILENAMES", fuzz_beside("fake_driver.json"), 1) == 0);
    if (*argc == 4 && strcmp((*argv)[1], "--shrink") == 0)
        exit(fuzz_plan_shrink((*argv)[2], (*argv)[3]));
    return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= chosen->longest)
        chosen->run(data, size);
    return 0;
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    if (max_size > chosen->longest)
        max_size = chosen->longest;
    if (size > max_size)
        size = max_size;
    return chosen->mutate ? chosen->mutate(data, size, max_size, seed) : LLVMFuzzerMutate(data, size, max_size);
}

void
fuzz_check_lines(dop_status st, const dop_diag *diag)
{
    if (st == DOP_OK)
        return;
    if (st == DOP_E_INTERNAL || diag->code != st || !diag->message[0]) {
        fprintf(stderr, "status %d, code %d at %s:%d: %s\n", (int)st, (int)diag->code,
                diag->src_file ? diag->src_file : "-", diag->src_line, diag->message);
        abort();
    }
}

void
fuzz_check(dop_status st, const dop_diag *diag)
{
    fuzz_check_lines(st, diag);
    require(st == DOP_OK || !strchr(diag->message, '\n'));
}

static void
write_all(int fd, const void *bytes, size_t size, size_t whole)
{
    require(ftruncate(fd, 0) == 0 && ftruncate(fd, (off_t)(whole > size ? whole : size)) == 0);
    for (size_t at = 0; at < size;) {
        ssize_t n = pwrite(fd, (const char *)bytes + at, size - at, (off_t)at);
        require(n > 0);
        at += (size_t)n;
    }
}

const char *
fuzz_file(const void *bytes, size_t size, size_t whole)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        require(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    write_all(fd, bytes, size, whole);
    return path;
}

static void
path_in(const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", folder, name);
}

void
fuzz_file_in(const char *name, const void *bytes, size_t size, size_t whole, const char **out_dir)
{
    char path[128];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "%s/doppler-fuzz.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        require(mkdtemp(folder) != NULL);
        atexit(remove_folder);
    }
    path_in(name, path, sizeof path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    require(fd >= 0);
    write_all(fd, bytes, size, whole);
    close(fd);
    *out_dir = folder;
}

void
fuzz_file_gone(const char *name)
{
    char path[128];
    path_in(name, path, sizeof path);
    (void)unlink(path);
}

const char *
fuzz_beside(const char *name)
{
    static char path[1280];
    const char *slash = strrchr(program, '/');
    snprintf(path, sizeof path, "%.*s/%s", (int)(slash - program), program, name);
    return path;
}

uint32_t
fuzz_random(uint32_t *state)
{
    uint32_t x = *state ? *state : 0x9e3779b9u; /* xorshift */
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}
