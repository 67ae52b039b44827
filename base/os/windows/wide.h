/* Conversions between UTF-8 and UTF-16, and from Windows errors to errno; internal to base/os/windows. */
#ifndef DOPPLER_BASE_OS_WINDOWS_WIDE_H
#define DOPPLER_BASE_OS_WINDOWS_WIDE_H

#define WIN32_LEAN_AND_MEAN
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0a00
#endif
#include <windows.h>

/* Sets errno from GetLastError and returns -1. */
int dop_windows_fail(void);
/* Converts a text to UTF-16; NULL with errno if memory runs out or it is not UTF-8.  Freed by the caller. */
wchar_t *dop_windows_wide(const char *utf8);
/* Converts a path to UTF-16, in extended form if it is long.  NULL with errno on failure; freed by the caller. */
wchar_t *dop_windows_path(const char *utf8);
/* Converts a text to UTF-8; NULL if memory runs out.  Freed by the caller. */
char *dop_windows_narrow(const wchar_t *text);
/* Returns the absolute path of an open file or folder, with `/` as separator; NULL with errno on failure.  Freed by the caller. */
char *dop_windows_name_of(HANDLE file);

#endif
