#include "compiler/library/inputs.h"

#include "plan/plan_format.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 2 /* levels of subdirectories; shards may be in one */ };

struct dop_input {
    dev_t device;
    ino_t inode;
};

static dop_status
append_input(dop_inputs *in, const struct stat *sb, dop_diag *diag)
{
    if (in->n == in->cap) {
        size_t cap = in->cap ? in->cap * 2 : 32;
        dop_input *list = realloc(in->list, cap * sizeof *list);
        if (!list)
            return DOP_NO_MEMORY(diag);
        in->list = list;
        in->cap = cap;
    }
    in->list[in->n++] = (dop_input){sb->st_dev, sb->st_ino};
    return DOP_OK;
}

static bool
is_plan(const char *path)
{
    char magic[sizeof DOP_PLAN_MAGIC - 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is =
        fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t)sizeof magic &&
        (memcmp(magic, DOP_PLAN_MAGIC, sizeof magic) == 0 || memcmp(magic, DOP_PLAN_SET_MAGIC, sizeof magic) == 0);
    if (fd >= 0)
        close(fd);
    return is;
}

/* True if the file was written by Doppler and is not a model: a plan, PLAN.weights, PLAN.part0.weights, or a report
 * page. */
static bool
is_doppler_output(char *path)
{
    char *dot = strrchr(path, '.');
    if (dot && strcmp(dot, ".html") == 0)
        return true;
    if (!dot || strcmp(dot, ".weights") != 0)
        return is_plan(path);
    *dot = 0;
    bool is = is_plan(path);
    char *part = strrchr(path, '.');
    if (!is && part && strncmp(part, ".part", 5) == 0) { /* PLAN.part0.weights next to PLAN, which contains all parts */
        *part = 0;
        is = is_plan(path);
        *part = '.';
    }
    *dot = '.';
    return is;
}

static dop_status
add_input_folder(dop_inputs *in, const char *folder, int depth, dop_diag *diag)
{
    dop_status st = DOP_OK;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && st == DOP_OK && (e = readdir(d));) {
        struct stat sb;
        char *path = NULL;
        if (e->d_name[0] == '.')
            continue;
        if (asprintf(&path, "%s/%s", folder, e->d_name) < 0) {
            st = DOP_NO_MEMORY(diag);
            break;
        }
        if (stat(path, &sb) == 0 && S_ISDIR(sb.st_mode) && depth < MAX_DEPTH)
            st = add_input_folder(in, path, depth + 1, diag);
        else if (stat(path, &sb) == 0 && S_ISREG(sb.st_mode) && !is_doppler_output(path))
            st = append_input(in, &sb, diag);
        free(path);
    }
    if (d)
        closedir(d);
    return st;
}

dop_status
dop_inputs_add(dop_inputs *in, const char *path, dop_diag *diag)
{
    struct stat sb;
    if (stat(path, &sb) != 0)
        return DOP_OK;
    return S_ISDIR(sb.st_mode)   ? add_input_folder(in, path, 1, diag)
           : S_ISREG(sb.st_mode) ? append_input(in, &sb, diag)
                                 : DOP_OK;
}

dop_status
dop_inputs_add_list(dop_inputs *in, const char *list, dop_diag *diag)
{
    dop_status st = DOP_OK;
    for (const char *at = list; *at && st == DOP_OK;) {
        size_t len = strcspn(at, ",");
        char *path = strndup(at, len);
        st = path ? dop_inputs_add(in, path, diag) : DOP_NO_MEMORY(diag);
        free(path);
        at += len + (at[len] == ',');
    }
    return st;
}

dop_status
dop_inputs_refuse(const dop_inputs *in, const char *path, dop_diag *diag)
{
    struct stat sb;
    if (!in)
        return DOP_OK;
    const bool exists = stat(path, &sb) == 0;
    for (size_t i = 0; i < in->n && exists; i++)
        if (in->list[i].device == sb.st_dev && in->list[i].inode == sb.st_ino)
            return DOP_FAIL_IN(diag, DOP_E_USAGE, path, "this file is an input: name another one to write to");
    return dop_out_file_try(path, diag);
}

void
dop_inputs_finish(dop_inputs *in)
{
    free(in->list);
    memset(in, 0, sizeof *in);
}
