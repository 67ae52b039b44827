#include "base/os/windows/wide.h"

#include "base/os/windows/posix.h"

int
dop_windows_fail(void)
{
    static const struct {
        DWORD error;
        int number;
    } rows[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},
        {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},
        {ERROR_BAD_PATHNAME, ENOENT},
        {ERROR_INVALID_DRIVE, ENOENT},
        {ERROR_BAD_NETPATH, ENOENT},
        {ERROR_NO_MORE_FILES, ENOENT},
        {ERROR_MOD_NOT_FOUND, ENOENT},
        {ERROR_FILE_EXISTS, EEXIST},
        {ERROR_ALREADY_EXISTS, EEXIST},
        {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
        {ERROR_DIRECTORY, ENOTDIR},
        {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
        {ERROR_INVALID_HANDLE, EBADF},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
        {ERROR_OUTOFMEMORY, ENOMEM},
        {ERROR_COMMITMENT_LIMIT, ENOMEM},
        {ERROR_DISK_FULL, ENOSPC},
        {ERROR_HANDLE_DISK_FULL, ENOSPC},
        {ERROR_LOCK_VIOLATION, EAGAIN},
        {ERROR_IO_PENDING, EAGAIN},
        {ERROR_BROKEN_PIPE, EPIPE},
        {ERROR_NO_DATA, EPIPE},
        {ERROR_INVALID_PARAMETER, EINVAL},
        {ERROR_NOT_SUPPORTED, ENOTSUP},
        {ERROR_NOT_SAME_DEVICE, EXDEV},
        {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
        {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_SHARING_VIOLATION, EACCES},
        {ERROR_WRITE_PROTECT, EROFS},
        {ERROR_USER_MAPPED_FILE, EACCES},
    };
    const DWORD error = GetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].error == error)
            errno = rows[i].number;
    return -1;
}

wchar_t *
dop_windows_wide(const char *utf8)
{
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, NULL, 0);
    wchar_t *text = n > 0 ? malloc((size_t)n * sizeof *text) : NULL;
    if (n <= 0)
        errno = EILSEQ;
    else if (text)
        MultiByteToWideChar(CP_UTF8, 0, utf8, -1, text, n);
    return text;
}

wchar_t *
dop_windows_path(const char *utf8)
{
    enum { LONGEST_PLAIN = 240 };
    static const wchar_t prefix[] = L"\\\\?\\";
    wchar_t *plain = dop_windows_wide(strcmp(utf8, "/dev/null") == 0 ? "NUL" : utf8);
    if (!plain || wcslen(plain) < LONGEST_PLAIN || wcsncmp(plain, prefix, 4) == 0 || wcsncmp(plain, L"\\\\", 2) == 0)
        return plain;
    const DWORD n = GetFullPathNameW(plain, 0, NULL, NULL);
    wchar_t *whole = malloc((n + 5) * sizeof *whole);
    if (whole) {
        wcscpy(whole, prefix);
        GetFullPathNameW(plain, n, whole + 4, NULL);
    }
    free(plain);
    return whole;
}

char *
dop_windows_narrow(const wchar_t *text)
{
    const int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *utf8 = n > 0 ? malloc((size_t)n) : NULL;
    if (utf8)
        WideCharToMultiByte(CP_UTF8, 0, text, -1, utf8, n, NULL, NULL);
    return utf8;
}

char *
dop_windows_name_of(HANDLE file)
{
    const DWORD n = GetFinalPathNameByHandleW(file, NULL, 0, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS);
    wchar_t *text = n > 0 ? malloc((n + 1) * sizeof *text) : NULL;
    if (n == 0)
        dop_windows_fail();
    if (!text || GetFinalPathNameByHandleW(file, text, n + 1, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS) == 0) {
        free(text);
        return NULL;
    }
    /* forms \\?\C:\name and \\?\UNC\host\share\name */
    wchar_t *at = text;
    if (wcsncmp(at, L"\\\\?\\UNC\\", 8) == 0) {
        at += 6;
        *at = L'\\';
    } else if (wcsncmp(at, L"\\\\?\\", 4) == 0) {
        at += 4;
    }
    char *name = dop_windows_narrow(at);
    free(text);
    for (char *c = name; c && *c; c++)
        *c = *c == '\\' ? '/' : *c;
    return name;
}
