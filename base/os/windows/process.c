/* Windows version of base/program/process.c, without signals. */
#include "base/program/process.h"

#include "base/os/windows/wide.h"

static const char *program_name;

const char *
dop_process_name(void)
{
    return program_name ? program_name : "doppler";
}

/* Makes drive errors return from functions instead of showing a dialog. */
void
dop_process_prepare(const char *program)
{
    program_name = program;
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX);
}
