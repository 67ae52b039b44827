#include "base/foreign.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static bool
bytes_begin_with(const char *bytes, uint64_t size, const char *with, bool any_case)
{
    const size_t n = strlen(with);
    return size >= n && (any_case ? strncasecmp(bytes, with, n) : memcmp(bytes, with, n)) == 0;
}

/* True if the file starts like safetensors: an 8-byte header length and a JSON object. */
static bool
is_safetensors(const unsigned char *bytes, uint64_t size)
{
    uint64_t n = 0;
    for (unsigned i = 8; size > 9 && i-- > 0;)
        n = n << 8 | bytes[i];
    return n >= 2 && n <= 100000000 && bytes[8] == '{';
}

dop_file_kind
dop_file_kind_of(const void *data, uint64_t size)
{
    static const struct {
        const char *with;
        dop_file_kind kind;
    } rows[] = {
        {"version https://git-lfs.github.com/spec/", DOP_FILE_LFS},
        {"<!doctype html", DOP_FILE_PAGE},
        {"<html", DOP_FILE_PAGE},
        {"GGUF", DOP_FILE_GGUF},
        {"PK\003\004", DOP_FILE_PICKLE},
        {"\200\002", DOP_FILE_PICKLE},
        {"lmgg", DOP_FILE_GGML},
        {"fmgg", DOP_FILE_OLD_GGML},
        {"tjgg", DOP_FILE_OLD_GGML},
        {"DOPPLAN\n", DOP_FILE_PLAN},
        {"DOPPARTS", DOP_FILE_PLAN},
    };
    const char *bytes = data;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (bytes_begin_with(bytes, size, rows[i].with, rows[i].kind == DOP_FILE_PAGE))
            return rows[i].kind;
    if (size && is_safetensors(data, size))
        return DOP_FILE_SAFETENSORS;
    uint64_t at = bytes_begin_with(bytes, size, "\xef\xbb\xbf", false) ? 3 : 0;
    while (at < size && (bytes[at] == ' ' || bytes[at] == '\t' || bytes[at] == '\r' || bytes[at] == '\n'))
        at++;
    return at < size && (bytes[at] == '{' || bytes[at] == '[') ? DOP_FILE_JSON : DOP_FILE_OTHER;
}

const char *
dop_file_refusal(dop_file_kind kind)
{
    switch (kind) {
    case DOP_FILE_LFS:
        return "this is a Git LFS pointer, not the file that it stands for: run `git lfs pull` in its folder";
    case DOP_FILE_PAGE:
        return "this is a web page, not the file that was to be downloaded: download it again";
    case DOP_FILE_PICKLE:
        return "this is a checkpoint as PyTorch saves it (a pickle): use the model's safetensors";
    case DOP_FILE_OLD_GGML:
        return "this is a GGML file, GGUF's predecessor: use the model's GGUF";
    default:
        return NULL;
    }
}

/* True if the path looks like a model name on a hub, "org/name": two plain components, without a model file's extension. */
static bool
is_hub_name(const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const char *slash = strchr(path, '/'), *dot = slash ? strrchr(slash, '.') : NULL;
    static const char *const endings[] = {".gguf", ".plan", ".bin", ".json", ".safetensors"};
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcmp(dot, endings[i]) == 0)
            return false;
    return slash && slash != path && slash[1] && *path != '.' && path + strspn(path, plain) == slash &&
           slash[1 + strspn(slash + 1, plain)] == 0;
}

dop_status
dop_refuse_absent(const char *path, int error, dop_diag *diag)
{
    static const char *const urls[] = {"http://", "https://", "hf://", "hf.co/", "huggingface.co/"};
    for (size_t i = 0; error == ENOENT && i < sizeof urls / sizeof *urls; i++)
        if (strncmp(path, urls[i], strlen(urls[i])) == 0)
            return DOP_FAIL_IN(diag, DOP_E_IO, path,
                               "nothing is fetched: download the model, and name its folder or file");
    if (error == ENOENT && is_hub_name(path))
        return DOP_FAIL_IN(diag, DOP_E_IO, path,
                           "no file or folder is here; if this is a name on a model hub, download the model "
                           "(hf download %.100s --local-dir FOLDER) and name its folder",
                           path);
    return DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot open: %s", strerror(error));
}
