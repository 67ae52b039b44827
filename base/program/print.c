#include "base/program/print.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* true if the output on stdout ends within a line; atomic, because loading threads print, too */
static atomic_bool in_line;

void
dop_cli_end_line(void)
{
    struct stat out, err;
    bool same = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev &&
                out.st_ino == err.st_ino;
    if (atomic_exchange(&in_line, false) && same)
        fputc('\n', stderr);
}

dop_status
dop_cli_print(const char *text, size_t len, dop_diag *diag)
{
    char *shown = NULL;
    if (len == 0)
        return DOP_OK;
    if (isatty(STDOUT_FILENO)) { /* text from models and files could control the terminal */
        shown = malloc(len + 1);
        if (!shown)
            return DOP_NO_MEMORY(diag);
        for (size_t i = 0; i < len; i++)
            shown[i] = text[i] ? text[i] : ' ';
        shown[len] = 0;
        dop_make_harmless(shown, "\n\t");
    }
    const char *from = shown ? shown : text;
    const size_t n = shown ? strlen(shown) : len;
    const bool written = fwrite(from, 1, n, stdout) == n && fflush(stdout) == 0;
    free(shown);
    if (!written)
        return DOP_FAIL(diag, DOP_E_IO, "cannot write to standard output: %s", strerror(errno));
    atomic_store(&in_line, text[len - 1] != '\n');
    return DOP_OK;
}

dop_status
dop_cli_print_buf(const dop_buf *text, dop_diag *diag)
{
    return text->failed ? DOP_NO_MEMORY(diag) : dop_cli_print(text->data, text->size, diag);
}

dop_status
dop_cli_print_line(const char *line, dop_diag *diag)
{
    if (!line)
        return DOP_NO_MEMORY(diag);
    DOP_RETURN_IF_ERROR(dop_cli_print(line, strlen(line), diag));
    return dop_cli_print("\n", 1, diag);
}
