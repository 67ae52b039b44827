#include "tools/doppler-exec/on_demand/model_key.h"

#include "base/foreign.h"
#include "base/os/system.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "tools/doppler-exec/on_demand/compiler.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { MOST_FILES = 4096, MOST_DEPTH = 2 /* folder levels: shards may be in a subfolder */ };

/* Files of a model, sorted by name. */
typedef struct files {
    char **paths; /* owned, as are the texts */
    size_t n, cap;
    bool failed; /* out of memory */
    uint64_t bytes, hashed;
    uint32_t threads; /* 0: one per core */
    const dop_progress *progress;
} files;

static bool
file_name_ends_with(const char *name, const char *with)
{
    const size_t n = strlen(name), len = strlen(with);
    return n >= len && strcmp(name + n - len, with) == 0;
}

size_t
dop_gguf_suffix(const char *name, bool *out_vision)
{
    static const char numbers[] = "-00001-of-00000";
    const size_t n = strlen(name), short_one = strlen(".gguf"), long_one = strlen(numbers) + short_one;
    *out_vision = name[0] != '.' && file_name_ends_with(name, ".gguf") && strstr(name, "mmproj");
    if (!file_name_ends_with(name, ".gguf") || *out_vision)
        return 0;
    const char *tail = n > long_one ? name + n - long_one : "";
    size_t same = 0; /* length of the match; digits match digits, other characters themselves */
    while (tail[same] && same < strlen(numbers) &&
           (numbers[same] == '0' || numbers[same] == '1' ? tail[same] >= '0' && tail[same] <= '9'
                                                         : tail[same] == numbers[same]))
        same++;
    if (same < strlen(numbers))
        return n > short_one ? short_one : 0;
    return strncmp(tail, "-00001-", 7) == 0 ? long_one : 0;
}

bool
dop_is_model(const char *path)
{
    struct stat sb;
    char first[64] = "";
    if (stat(path, &sb) != 0)
        return false;
    if (S_ISDIR(sb.st_mode) || (S_ISREG(sb.st_mode) && strcmp(dop_path_name(path), "manifest.json") == 0))
        return true;
    FILE *f = S_ISREG(sb.st_mode) ? fopen(path, "rbe") : NULL;
    const size_t n = f ? fread(first, 1, sizeof first, f) : 0;
    if (f)
        fclose(f);
    const dop_file_kind kind = dop_file_kind_of(first, n);
    return kind == DOP_FILE_GGUF || kind == DOP_FILE_GGML || kind == DOP_FILE_SAFETENSORS;
}

/* --- files of a model -------------------------------------------------------------------------------------------- */

static void
add_model_file(files *f, const char *path)
{
    if (f->n == f->cap) {
        const size_t cap = f->cap ? 2 * f->cap : 32;
        char **paths = realloc(f->paths, cap * sizeof *paths);
        f->failed = f->failed || !paths;
        if (!paths)
            return;
        f->paths = paths;
        f->cap = cap;
    }
    f->paths[f->n] = strdup(path);
    f->failed = f->failed || !f->paths[f->n];
    f->n += f->paths[f->n] != NULL;
}

/* True if no importer reads files with this name. */
static bool
is_ignored_file(const char *name)
{
    static const char *const endings[] = {".md",  ".html", ".png", ".jpg",    ".jpeg", ".gif",    ".svg",  ".pdf",
                                          ".py",  ".onnx", ".h5",  ".ot",     ".pth",  ".pt",     ".ckpt", ".msgpack",
                                          ".log", ".lock", ".tmp", ".txt.gz", ".plan", ".weights"};
    bool is = name[0] == '.' || strstr(name, ".tmp.") != NULL;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !is; i++)
        is = file_name_ends_with(name, endings[i]);
    return is;
}

bool
dop_is_model_folder(const char *dir) /* other folders may be huge, so they are not scanned */
{
    bool is = false;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && !is && (e = readdir(d));)
        is = strcmp(e->d_name, "config.json") == 0 || strcmp(e->d_name, "manifest.json") == 0 ||
             strcmp(e->d_name, "model_index.json") == 0 || file_name_ends_with(e->d_name, ".gguf");
    if (d)
        closedir(d);
    return is;
}

static void
add_folder(files *f, const char *dir, int depth)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && !f->failed && f->n < MOST_FILES && (e = readdir(d));) {
        struct stat sb;
        char *path;
        if (is_ignored_file(e->d_name) || fstatat(dirfd(d), e->d_name, &sb, 0) != 0)
            continue;
        if (asprintf(&path, "%s/%s", dir, e->d_name) < 0) {
            f->failed = true;
            break;
        }
        if (S_ISDIR(sb.st_mode) && depth < MOST_DEPTH)
            add_folder(f, path, depth + 1);
        else if (S_ISREG(sb.st_mode))
            add_model_file(f, path);
        free(path);
    }
    if (d)
        closedir(d);
}

/* Adds a GGUF file and, if its name is that of the first part (NAME-00001-of-00003.gguf), the other parts. */
static void
add_gguf(files *f, const char *path)
{
    const size_t n = strlen(path), tail = sizeof "-00001-of-00000.gguf" - 1;
    add_model_file(f, path);
    if (n < tail || strncmp(path + n - tail, "-00001-of-", 10) != 0 || !file_name_ends_with(path, ".gguf"))
        return;
    const unsigned long parts = strtoul(path + n - 10, NULL, 10);
    for (unsigned long i = 2; i <= parts && i < MOST_FILES; i++) {
        char *other;
        if (asprintf(&other, "%.*s-%05lu%s", (int)(n - tail), path, i, path + n - 14) < 0) {
            f->failed = true;
            return;
        }
        add_model_file(f, other);
        free(other);
    }
}

/* Adds the vision part next to a GGUF file, if there is exactly one (see dop_compile_options.mmproj). */
static void
add_mmproj(files *f, const char *path)
{
    char *dir = strndup(path, (size_t)(dop_path_name(path) - path)), *found = NULL;
    size_t n = 0;
    DIR *d = dir ? opendir(*dir ? dir : ".") : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' || !file_name_ends_with(e->d_name, ".gguf") || !strstr(e->d_name, "mmproj") || n++ > 0)
            continue;
        if (asprintf(&found, "%s%s", dir, e->d_name) < 0)
            found = NULL;
        f->failed = f->failed || !found;
    }
    if (d)
        closedir(d);
    if (n == 1 && found)
        add_model_file(f, found);
    f->failed = f->failed || !dir;
    free(found);
    free(dir);
}

/* Adds the tokenizer and configuration files that the compiler reads next to a single-file diffusion model. */
static void
add_companion_files(files *f, const char *path)
{
    static const char *const names[] = {"tokenizer/vocab.json",
                                        "tokenizer/merges.txt",
                                        "tokenizer/tokenizer.json",
                                        "tokenizer/tokenizer_config.json",
                                        "tokenizer/special_tokens_map.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "scheduler_config.json",
                                        "scheduler/scheduler_config.json",
                                        "text_encoder/config.json",
                                        "text_encoder_2/config.json",
                                        "unet/config.json",
                                        "vae/config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !f->failed; i++) {
        struct stat sb;
        char *name;
        if (asprintf(&name, "%.*s%s", (int)(dop_path_name(path) - path), path, names[i]) < 0) {
            f->failed = true;
            return;
        }
        if (stat(name, &sb) == 0 && S_ISREG(sb.st_mode))
            add_model_file(f, name);
        free(name);
    }
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* --- digests ------------------------------------------------------------------------------------------------------------------ */

typedef struct digest {
    uint64_t high, low;
} digest;

/* Writes the properties that change with a file's contents: size, times, device and inode. */
static void
put_state(const struct stat *sb, char *out, size_t cap)
{
    snprintf(out, cap, "%lld %lld.%09ld %lld.%09ld %llu %llu", (long long)sb->st_size, (long long)sb->st_mtim.tv_sec,
             sb->st_mtim.tv_nsec, (long long)sb->st_ctim.tv_sec, sb->st_ctim.tv_nsec, (unsigned long long)sb->st_dev,
             (unsigned long long)sb->st_ino);
}

/* Returns the path of the cached digest for the file at an absolute path; the caller frees it. */
static char *
make_digest_path(const dop_plan_cache *cache, const char *full)
{
    char *path;
    return asprintf(&path, "%s/%016" PRIx64, cache->files, (uint64_t)XXH3_64bits(full, strlen(full))) < 0 ? NULL : path;
}

static bool
read_cached_digest(const char *memory, const char *full, const char *state, digest *out)
{
    char line[4096 + 300], want[4096 + 256];
    FILE *f = fopen(memory, "re");
    snprintf(want, sizeof want, "%s\t%s\t", full, state);
    const bool is = f && fgets(line, sizeof line, f) && strncmp(line, want, strlen(want)) == 0 &&
                    sscanf(line + strlen(want), "%16" SCNx64 " %16" SCNx64 "\n", &out->high, &out->low) == 2 &&
                    strlen(line + strlen(want)) == 2 * 16 + 2;
    if (f)
        fclose(f);
    return is;
}

/* True if the file could still change without a new time stamp, because time stamps have limited resolution. */
static bool
is_fresh(const struct stat *sb)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const struct timespec *last = sb->st_ctim.tv_sec > sb->st_mtim.tv_sec ? &sb->st_ctim : &sb->st_mtim;
    const double age = (double)(now.tv_sec - last->tv_sec) + (double)(now.tv_nsec - last->tv_nsec) / 1e9;
    const bool coarse = sb->st_mtim.tv_nsec == 0 && sb->st_ctim.tv_nsec == 0;
    return age < (coarse ? 2.5 : 0.05);
}

enum { PIECE_BYTES = 4 << 20, BATCH = 64 /* pieces per progress report */ };

/* Pieces of a file, hashed in parallel: one core would dominate the start-up time. */
typedef struct pieces {
    const uint8_t *data; /* [size] */
    uint64_t size;
    digest digests[BATCH];
} pieces;

static dop_status
digest_piece(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    pieces *p = user;
    const uint64_t at = (uint64_t)index * PIECE_BYTES;
    const XXH128_hash_t h =
        XXH3_128bits(p->data + at, (size_t)(p->size - at < PIECE_BYTES ? p->size - at : PIECE_BYTES));
    (void)worker, (void)diag;
    p->digests[index] = (digest){h.high64, h.low64};
    return DOP_OK;
}

/* Computes the digest of a file from the digests of its pieces. An unreadable file has digest 0; the compiler
 * reports the error later. */
static dop_status
compute_file_digest(files *f, const char *path, dop_diag *diag, digest *out)
{
    dop_map map = {0};
    XXH3_state_t *s = XXH3_createState();
    dop_status st = s ? DOP_OK : DOP_NO_MEMORY(diag);
    *out = (digest){0};
    if (st == DOP_OK && dop_map_open(path, NULL, &map) == DOP_OK && XXH3_128bits_reset(s) == XXH_OK) {
        for (uint64_t at = 0; at < map.size && st == DOP_OK;) {
            pieces p = {.data = map.data + at, .size = map.size - at};
            if (p.size > (uint64_t)BATCH * PIECE_BYTES)
                p.size = (uint64_t)BATCH * PIECE_BYTES;
            const uint32_t n = (uint32_t)((p.size + PIECE_BYTES - 1) / PIECE_BYTES);
            if ((st = dop_parallel_for(n, f->threads, digest_piece, &p, diag)) != DOP_OK)
                break;
            (void)XXH3_128bits_update(s, p.digests, n * sizeof *p.digests);
            at += p.size;
            f->hashed += p.size;
            if (!dop_progress_report(f->progress, "files", f->hashed, f->bytes))
                st = DOP_CANCELLED(diag);
        }
        const XXH128_hash_t h = XXH3_128bits_digest(s);
        *out = (digest){h.high64, h.low64};
    }
    dop_map_close(&map);
    XXH3_freeState(s);
    return st;
}

static dop_status
digest_of(const dop_plan_cache *cache, files *f, const char *path, dop_diag *diag, digest *out)
{
    struct stat before, after;
    char state[256], later[256];
    char *full = realpath(path, NULL), *memory = full ? make_digest_path(cache, full) : NULL;
    dop_status st = DOP_OK;
    *out = (digest){0};
    if (memory && strlen(full) < 4096 && stat(path, &before) == 0) {
        put_state(&before, state, sizeof state);
        const bool fresh = is_fresh(&before);
        if (read_cached_digest(memory, full, state, out)) {
            f->hashed += (uint64_t)before.st_size;
        } else if ((st = compute_file_digest(f, path, diag, out)) == DOP_OK && !fresh && stat(path, &after) == 0) {
            put_state(&after, later, sizeof later);
            dop_buf line = {0};
            dop_buf_printf(&line, "%s\t%s\t%016" PRIx64 " %016" PRIx64 "\n", full, state, out->high, out->low);
            if (strcmp(state, later) == 0 && !line.failed) /* a failure only costs time in later runs */
                (void)dop_write_file(memory, line.data, line.size, NULL);
            dop_buf_finish(&line);
        }
    } else {
        st = compute_file_digest(f, path, diag, out);
    }
    free(memory);
    free(full);
    return st;
}

/* Adds an option's file, or the files of its folder, to the key of a plan. */
static dop_status
add_option_path(const dop_plan_cache *cache, const char *option, const char *path, files *all, dop_diag *diag,
                dop_buf *key)
{
    files f = {.progress = all->progress, .hashed = all->hashed, .bytes = all->bytes, .threads = all->threads};
    struct stat sb;
    dop_status st = DOP_OK;
    if (stat(path, &sb) != 0)
        return DOP_OK;
    if (S_ISREG(sb.st_mode))
        add_model_file(&f, path);
    else if (S_ISDIR(sb.st_mode) && dop_is_model_folder(path))
        add_folder(&f, path, 1);
    if (f.n > 1)
        qsort(f.paths, f.n, sizeof *f.paths, by_name);
    for (size_t i = 0; i < f.n && st == DOP_OK; i++) {
        digest d;
        const char *in = f.n > 1 || S_ISDIR(sb.st_mode) ? f.paths[i] + strlen(path) : "";
        if ((st = digest_of(cache, &f, f.paths[i], diag, &d)) == DOP_OK)
            dop_buf_printf(key, "option %s%s %016" PRIx64 "%016" PRIx64 "\n", option, in, d.high, d.low);
    }
    all->hashed = f.hashed;
    all->failed = all->failed || f.failed;
    for (size_t i = 0; i < f.n; i++)
        free(f.paths[i]);
    free(f.paths);
    return st;
}

/* --- options ------------------------------------------------------------------------------------------------------------------ */

typedef struct text_option {
    const char *name, *value;
} text_option;

enum { N_TEXTS = 14 };
static void
text_options(const dop_compile_options *o, text_option out[N_TEXTS])
{
    const text_option all[N_TEXTS] = {
        {"target", o->target},
        {"quant", o->quant},
        {"imatrix", o->imatrix},
        {"kv", o->kv},
        {"act", o->act},
        {"size", o->size},
        {"chunks", o->chunks},
        {"rows", o->rows},
        {"kernel-path", o->kernel_path},
        {"tuning", o->tuning},
        {"parts", o->parts},
        {"part-memory", o->part_memory},
        {"mmproj", o->mmproj},
        {"draft-head", o->draft_head},
    };
    memcpy(out, all, sizeof all);
}

void
dop_compile_options_text(const dop_compile_options *o, dop_buf *out)
{
    text_option texts[N_TEXTS];
    text_options(o, texts);
    for (int i = 0; i < N_TEXTS; i++)
        if (texts[i].value)
            dop_buf_printf(out, " --%s %s", texts[i].name, texts[i].value);
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {{"ctx", o->ctx},           {"sequences", o->sequences}, {"ctx-total", o->ctx_total},
                   {"adapters", o->adapters}, {"rank", o->rank},           {"draft-vocabulary", o->draft_vocabulary}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value)
            dop_buf_printf(out, " --%s %u", numbers[i].name, numbers[i].value);
    const struct {
        const char *name;
        const char *const *items;
        size_t n;
    } lists[] = {{"force", o->forces, o->n_forces},
                 {"no-fuse", o->apart, o->n_apart},
                 {"skip", o->skips, o->n_skips},
                 {"avoid", o->avoids, o->n_avoids}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (size_t k = 0; k < lists[i].n; k++)
            dop_buf_printf(out, *lists[i].items[k] ? " --%s=%s" : " --%s", lists[i].name, lists[i].items[k]);
    if (o->invariant)
        dop_buf_puts(out, " --invariant");
    if (o->embed)
        dop_buf_puts(out, " --embed");
}

/* Adds the contents of files that options name, including comma-separated lists (--target). */
static dop_status
add_option_files(const dop_plan_cache *cache, const dop_compile_options *o, files *f, dop_diag *diag, dop_buf *key)
{
    text_option texts[N_TEXTS];
    dop_status st = DOP_OK;
    text_options(o, texts);
    for (int i = 0; i < N_TEXTS && st == DOP_OK; i++)
        for (const char *at = texts[i].value; at && *at && st == DOP_OK;) {
            const size_t len = strcspn(at, ",");
            char *name = strndup(at, len);
            if (!name)
                return DOP_NO_MEMORY(diag);
            st = add_option_path(cache, texts[i].name, name, f, diag, key);
            free(name);
            at += len + (at[len] == ',');
        }
    return st;
}

/* Returns the sum of the digests of files in a folder and its subfolders, independent of their order. 0: no such
 * folder. */
static uint64_t
compute_folder_digest(const char *dir, int depth)
{
    uint64_t sum = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        dop_map map;
        char *path;
        if (e->d_name[0] == '.' || asprintf(&path, "%s/%s", dir, e->d_name) < 0)
            continue;
        if (dop_map_open(path, NULL, &map) == DOP_OK) {
            sum += XXH3_64bits_withSeed(map.data, map.size, XXH3_64bits(e->d_name, strlen(e->d_name)));
            dop_map_close(&map);
        } else if (depth < MOST_DEPTH) {
            sum += compute_folder_digest(path, depth + 1);
        }
        free(path);
    }
    if (d)
        closedir(d);
    return sum;
}

/* Adds the compiler next to libdoppler: its library, kernel templates, kernel paths, and the shared library of the
 * shader compiler. Plans of another compiler are not reused. */
static dop_status
add_compiler(const dop_plan_cache *cache, dop_diag *diag, dop_buf *key)
{
    static const char *const folders[] = {"glsl", DOP_GLSL_INSTALL_REL, DOP_GLSL_INSTALL_REL "/../kernel-paths"};
    static const dop_progress silent;
    const char *own = dop_library_path(), *slash = dop_path_slash(own);
    const int n = slash ? (int)(slash - own) : 0;
    char *library = NULL, *folder;
    files f = {.progress = &silent, .threads = 1};
    digest d[2] = {{0}};
    if (asprintf(&library, "%.*s/" DOP_COMPILER_LIBRARY, n, own) < 0)
        return DOP_NO_MEMORY(diag);
    dop_status st = digest_of(cache, &f, library, diag, &d[0]);
    if (st == DOP_OK)
        st = digest_of(cache, &f, DOP_SHADERC_FILE, diag, &d[1]);
    for (int i = 0; i < 2; i++)
        dop_buf_printf(key, "%016" PRIx64 "%016" PRIx64 "\n", d[i].high, d[i].low);
    for (size_t i = 0; i < sizeof folders / sizeof *folders && st == DOP_OK; i++) {
        if (asprintf(&folder, "%.*s/%s", n, own, folders[i]) < 0) {
            st = DOP_NO_MEMORY(diag);
            break;
        }
        dop_buf_printf(key, "%016" PRIx64 "\n", compute_folder_digest(folder, 1));
        free(folder);
    }
    free(library);
    return st;
}

dop_status
dop_model_key(const dop_plan_cache *cache, const char *model, const dop_compile_options *options, const char *release,
              dop_diag *diag, dop_cache_key *out_key, uint64_t *out_bytes)
{
    files f = {.progress = &options->progress, .threads = options->threads};
    struct stat sb;
    dop_buf key = {0};
    dop_status st = DOP_OK;
    const char *name = dop_path_name(model);
    char *folder = strcmp(name, "manifest.json") == 0 ? strndup(model, (size_t)(name - model)) : NULL;
    const char *root = folder ? (*folder ? folder : ".") : model;
    const bool is_folder = stat(root, &sb) == 0 && S_ISDIR(sb.st_mode);
    if (is_folder && dop_is_model_folder(root))
        add_folder(&f, root, 1);
    else if (!is_folder)
        add_gguf(&f, root);
    if (!is_folder && !options->mmproj)
        add_mmproj(&f, root);
    if (!is_folder && file_name_ends_with(root, ".safetensors"))
        add_companion_files(&f, root);
    if (f.n > 1)
        qsort(f.paths, f.n, sizeof *f.paths, by_name);
    for (size_t i = 0; i < f.n; i++)
        f.bytes += stat(f.paths[i], &sb) == 0 ? (uint64_t)sb.st_size : 0;
    dop_buf_printf(&key, "%s\n", release);
    dop_compile_options_text(options, &key);
    dop_buf_puts(&key, "\n");
    DOP_TRY(add_compiler(cache, diag, &key));
    DOP_TRY(add_option_files(cache, options, &f, diag, &key));
    for (size_t i = 0; i < f.n; i++) {
        digest d;
        /* A file in a folder counts with its relative name; a GGUF file only with its contents. */
        const char *in = is_folder ? f.paths[i] + strlen(root) : "";
        if ((st = digest_of(cache, &f, f.paths[i], diag, &d)) == DOP_OK)
            dop_buf_printf(&key, "%s %016" PRIx64 "%016" PRIx64 "\n", in, d.high, d.low);
    }
    if (f.failed || key.failed)
        DOP_TRY(DOP_NO_MEMORY(diag));
    {
        const XXH128_hash_t h = XXH3_128bits(key.data, key.size);
        snprintf(out_key->text, sizeof out_key->text, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64,
                 (uint64_t)h.low64);
    }
error:
    *out_bytes = f.bytes;
    for (size_t i = 0; i < f.n; i++)
        free(f.paths[i]);
    free(f.paths);
    free(folder);
    dop_buf_finish(&key);
    return st;
}
