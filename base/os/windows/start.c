/* Program start on Windows: UTF-8 arguments and binary standard streams. */
#include "base/os/windows/posix.h"
#include "base/os/windows/wide.h"

/* Converts `\` to `/` in a path argument.  An argument is a path if it begins with a drive or host, or if a file of that name exists;
 * others, such as prompts, are not changed. */
static void
unify_path(char *argument)
{
    char *at = argument[0] == '-' && argument[1] == '-' && strchr(argument, '=') ? strchr(argument, '=') + 1 : argument;
    struct stat sb;
    const bool absolute = (at[0] && at[1] == ':' && at[2] == '\\') || (at[0] == '\\' && at[1] == '\\');
    if (strchr(at, '\\') && (absolute || stat(at, &sb) == 0))
        for (; *at; at++)
            *at = *at == '\\' ? '/' : *at;
}

int wmain(int argc, wchar_t **wide);

int
wmain(int argc, wchar_t **wide)
{
    char **argv = calloc((size_t)argc + 1, sizeof *argv);
    for (int i = 0; i < argc && argv; i++) {
        argv[i] = dop_windows_narrow(wide[i]);
        if (!argv[i])
            return 1;
        unify_path(argv[i]);
    }
    if (!argv)
        return 1;
    for (int fd = 0; fd < 3; fd++)
        (void)_setmode(fd, _O_BINARY);
    SetConsoleOutputCP(CP_UTF8);
    SetConsoleCP(CP_UTF8);
    return main(argc, argv);
}
