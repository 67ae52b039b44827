/* Between UTF-8 and the UTF-16 of Windows, and from its errors to errno: for the files of base/os/windows. */
#ifndef DOPPLER_BASE_OS_WINDOWS_WIDE_H
#define DOPPLER_BASE_OS_WINDOWS_WIDE_H

#define WIN32_LEAN_AND_MEAN
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0a00
#endif
#include <windows.h>

/* Sets errno to what GetLastError says; -1. */
int dop_windows_fail(void);
/* The text in UTF-16; NULL with errno where memory ends or it is no UTF-8.  Freed by the caller. */
wchar_t *dop_windows_wide(const char *utf8);
/* The name of a file for functions of Windows, which take long ones in a form of their own.  NULL with errno; freed by the caller. */
wchar_t *dop_windows_path(const char *utf8);
/* The text in UTF-8; NULL with errno where memory ends.  Freed by the caller. */
char *dop_windows_narrow(const wchar_t *text);
/* The absolute name of an open file or folder with `/` between folders; NULL with errno.  Freed by the caller. */
char *dop_windows_name_of(HANDLE file);

#endif
