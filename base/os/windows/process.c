/* The Windows form of base/program/process.c: nothing there is a signal. */
#include "base/program/process.h"

#include "base/os/windows/wide.h"

/* Errors of drives are results of functions, and no windows that wait for somebody. */
void
dop_process_prepare(const char *program)
{
    (void)program;
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX);
}
