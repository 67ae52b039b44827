/* POSIX and GNU string functions missing in the Windows C library. */
#include "base/os/windows/posix.h"
#include "base/os/windows/wide.h"

#include <ctype.h>

void *
memmem(const void *in, size_t n, const void *what, size_t m)
{
    const char *at = in, *end = at + n;
    if (m == 0)
        return (void *)(uintptr_t)in;
    while ((size_t)(end - at) >= m && (at = memchr(at, *(const char *)what, (size_t)(end - at) - m + 1))) {
        if (memcmp(at, what, m) == 0)
            return (void *)(uintptr_t)at;
        at++;
    }
    return NULL;
}

void *
memrchr(const void *in, int byte, size_t n)
{
    const unsigned char *at = in;
    while (n > 0)
        if (at[--n] == (unsigned char)byte)
            return (void *)(uintptr_t)(at + n);
    return NULL;
}

char *
strndup(const char *text, size_t n)
{
    const size_t len = strnlen(text, n);
    char *copy = malloc(len + 1);
    if (copy) {
        memcpy(copy, text, len);
        copy[len] = 0;
    }
    return copy;
}

char *
strchrnul(const char *text, int byte)
{
    while (*text && *text != (char)byte)
        text++;
    return (char *)(uintptr_t)text;
}

char *
strsep(char **io_at, const char *separators)
{
    char *begin = *io_at;
    if (!begin)
        return NULL;
    char *end = begin + strcspn(begin, separators);
    *io_at = *end ? end + 1 : NULL;
    *end = 0;
    return begin;
}

char *
stpcpy(char *to, const char *from)
{
    const size_t n = strlen(from);
    memcpy(to, from, n + 1);
    return to + n;
}

char *
strcasestr(const char *in, const char *what)
{
    const size_t n = strlen(what);
    for (; *in; in++)
        if (strncasecmp(in, what, n) == 0)
            return (char *)(uintptr_t)in;
    return n == 0 ? (char *)(uintptr_t)in : NULL;
}

/* Reads a line from a console, as UTF-16 independent of the code page. */
static ssize_t
console_line(HANDLE console, char **io_line, size_t *io_cap)
{
    wchar_t wide[4096];
    DWORD n = 0;
    if (!ReadConsoleW(console, wide, sizeof wide / sizeof *wide - 1, &n, NULL) || n == 0 || wide[0] == 26 /* Ctrl-Z */)
        return -1;
    wide[n] = 0;
    char *line = dop_windows_narrow(wide);
    if (!line)
        return -1;
    free(*io_line);
    *io_line = line;
    *io_cap = strlen(line) + 1;
    return (ssize_t)strlen(line);
}

ssize_t
getline(char **io_line, size_t *io_cap, FILE *f)
{
    size_t n = 0;
    if (isatty(fileno(f)))
        return console_line((HANDLE)_get_osfhandle(fileno(f)), io_line, io_cap);
    for (int c; (c = getc(f)) != EOF;) {
        if (n + 2 > *io_cap) {
            const size_t cap = *io_cap ? *io_cap * 2 : 128;
            char *more = realloc(*io_line, cap);
            if (!more)
                return -1;
            *io_line = more;
            *io_cap = cap;
        }
        (*io_line)[n++] = (char)c;
        (*io_line)[n] = 0;
        if (c == '\n')
            break;
    }
    return n ? (ssize_t)n : -1;
}

/* True if a bracket expression contains the character.  *io_at: after the opening bracket; then after the closing one, or NULL if there
 * is none. */
static bool
in_set(const char **io_at, char c)
{
    const char *p = *io_at;
    const bool negated = *p == '!' || *p == '^';
    bool found = false;
    p += negated;
    for (bool first = true; *p && (first || *p != ']'); first = false, p++) {
        const char from = *p;
        if (p[1] == '-' && p[2] && p[2] != ']')
            p += 2;
        found = found || (c >= from && c <= *p);
    }
    *io_at = *p ? p + 1 : NULL;
    return found != negated;
}

int
fnmatch(const char *pattern, const char *text, int flags)
{
    /* Backtracking position: the last * and the text it was matched up to. */
    const char *star = NULL, *star_text = NULL;
    (void)flags;
    for (;;) {
        const char *next = pattern + 1;
        bool matches = false;
        if (*pattern == '*') {
            star = ++pattern;
            star_text = text;
            continue;
        }
        if (*text == 0 && *pattern == 0)
            return 0;
        if (*text && *pattern == '[') {
            matches = in_set(&next, *text);
            if (!next) { /* unmatched bracket: literal */
                next = pattern + 1;
                matches = *text == '[';
            }
        } else if (*text && *pattern == '\\' && pattern[1]) {
            next = pattern + 2;
            matches = *text == pattern[1];
        } else if (*text && *pattern) {
            matches = *pattern == '?' || *pattern == *text;
        }
        if (matches) {
            pattern = next;
            text++;
        } else if (star && *star_text) {
            pattern = star;
            text = ++star_text;
        } else {
            return FNM_NOMATCH;
        }
    }
}

struct tm *
gmtime_r(const time_t *at, struct tm *out)
{
    return gmtime_s(out, at) == 0 ? out : NULL;
}

struct tm *
localtime_r(const time_t *at, struct tm *out)
{
    return localtime_s(out, at) == 0 ? out : NULL;
}
