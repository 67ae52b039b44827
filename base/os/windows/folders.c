/* Directory listing with UTF-8 names. */
#include "base/os/windows/posix.h"
#include "base/os/windows/wide.h"

struct dop_windows_folder {
    char *path; /* owned */
    int fd;     /* descriptor of the folder; -1: none */
    HANDLE find;
    WIN32_FIND_DATAW found;
    bool ahead; /* true if `found` was not returned yet */
    struct dop_windows_entry entry;
};

static int
begin(DIR *d)
{
    char *pattern = NULL;
    if (asprintf(&pattern, "%s/*", d->path) < 0)
        return -1;
    wchar_t *wide = dop_windows_path(pattern);
    free(pattern);
    if (!wide)
        return -1;
    d->find = FindFirstFileW(wide, &d->found);
    free(wide);
    d->ahead = d->find != INVALID_HANDLE_VALUE;
    return d->ahead ? 0 : dop_windows_fail();
}

DIR *
opendir(const char *path)
{
    DIR *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->fd = -1;
    d->find = INVALID_HANDLE_VALUE;
    d->path = strdup(path);
    if (d->path && begin(d) == 0)
        return d;
    const int saved = errno;
    closedir(d);
    errno = saved;
    return NULL;
}

DIR *
fdopendir(int fd)
{
    const intptr_t h = _get_osfhandle(fd);
    char *name = h == -1 ? NULL : dop_windows_name_of((HANDLE)h);
    DIR *d = name ? opendir(name) : NULL;
    free(name);
    if (d)
        d->fd = fd;
    return d;
}

struct dirent *
readdir(DIR *d)
{
    while (d->ahead || FindNextFileW(d->find, &d->found)) {
        char *name = dop_windows_narrow(d->found.cFileName);
        d->ahead = false;
        if (name && strlen(name) < sizeof d->entry.d_name) {
            strcpy(d->entry.d_name, name);
            free(name);
            return &d->entry;
        }
        free(name);
    }
    return NULL;
}

void
rewinddir(DIR *d)
{
    FindClose(d->find);
    begin(d);
}

int
closedir(DIR *d)
{
    if (d->find != INVALID_HANDLE_VALUE)
        FindClose(d->find);
    if (d->fd >= 0)
        close(d->fd);
    free(d->path);
    free(d);
    return 0;
}

int
dirfd(DIR *d)
{
    if (d->fd < 0)
        d->fd = open(d->path, O_RDONLY | O_DIRECTORY);
    return d->fd;
}

int
scandir(const char *path, struct dirent ***out_list, int (*want)(const struct dirent *),
        int (*compare)(const struct dirent **, const struct dirent **))
{
    struct dirent **list = NULL;
    int n = 0;
    bool failed = false;
    DIR *d = opendir(path);
    if (!d)
        return -1;
    for (struct dirent *e; !failed && (e = readdir(d));) {
        if (want && !want(e))
            continue;
        struct dirent **more = realloc(list, ((size_t)n + 1) * sizeof *list), *copy = malloc(sizeof *copy);
        list = more ? more : list;
        failed = !more || !copy;
        if (failed) {
            free(copy);
        } else {
            *copy = *e;
            list[n++] = copy;
        }
    }
    closedir(d);
    if (failed) {
        while (n > 0)
            free(list[--n]);
        free(list);
        errno = ENOMEM;
        return -1;
    }
    if (compare && n > 1)
        qsort(list, (size_t)n, sizeof *list, (int (*)(const void *, const void *))compare);
    *out_list = list;
    return n;
}

int
alphasort(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}
