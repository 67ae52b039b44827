/* Foundations of all modules: status and diagnostics, overflow-safe arithmetic, mapped files, growable buffers, atomic output files.
 * The status type is that of the public headers. */
#ifndef DOPPLER_BASE_BASE_H
#define DOPPLER_BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <doppler/status.h>

/* Records a failure in *diag, unless one is recorded already, and returns its code.  diag may be NULL. */
dop_status dop_fail(dop_diag *diag, const char *src_file, int src_line, dop_status code, const char *path, long line,
                    long column, const char *fmt, ...) __attribute__((format(printf, 8, 9)));
/* Resets a diagnostic to DOP_OK without a message.  Public functions call it first, so that a reused diagnostic reports the last call.
 * Inside the library the first failure is kept.  diag may be NULL. */
void dop_diag_clear(dop_diag *diag);
#define DOP_FAIL(diag, code, ...) dop_fail((diag), __FILE__, __LINE__, (code), NULL, 0, 0, __VA_ARGS__)
#define DOP_FAIL_IN(diag, code, path, ...) dop_fail((diag), __FILE__, __LINE__, (code), (path), 0, 0, __VA_ARGS__)
#define DOP_FAIL_AT(diag, code, path, line, col, ...) \
    dop_fail((diag), __FILE__, __LINE__, (code), (path), (line), (col), __VA_ARGS__)

/* Replaces characters of untrusted text that could control a terminal or forge log lines: control characters, bidirectional marks, line
 * separators.  kept: characters that are not replaced. */
void dop_make_harmless(char *text, const char *kept);
/* True if a path from a model's file stays below that file's folder: relative and without "..". */
bool dop_path_is_inside(const char *path);

/* Records an allocation failure; the only place with its wording. */
#define DOP_NO_MEMORY(diag) DOP_FAIL((diag), DOP_E_NOMEM, "out of memory")

/* Returns from the calling function with the status of `call` unless it is DOP_OK. */
#define DOP_RETURN_IF_ERROR(call)             \
    do {                                      \
        const dop_status status_of_ = (call); \
        if (status_of_ != DOP_OK)             \
            return status_of_;                \
    } while (0)

/* Stores the status of `call` in the local variable `st` and jumps to the label `error` unless it is DOP_OK.  The label precedes the
 * cleanup shared by success and failure. */
#define DOP_TRY(call)     \
    do {                  \
        st = (call);      \
        if (st != DOP_OK) \
            goto error;   \
    } while (0)

/* Overflow-safe arithmetic on untrusted numbers.  False if the result does not fit; *out is then unspecified. */
static inline bool
dop_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool
dop_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Rounds up to a power-of-two alignment.  The result must not overflow. */
static inline uint64_t
dop_align_u64(uint64_t v, uint64_t align)
{
    return (v + align - 1) & ~(align - 1);
}

static inline uint32_t
dop_div_up_u32(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Returns the value of a hexadecimal digit in either case; -1: not a digit. */
static inline int
dop_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A file mapped read-only.  An empty file has data NULL and size 0.  Git LFS pointer files are refused. */
typedef struct dop_map {
    const uint8_t *data;
    uint64_t size; /* bytes */
    char *path;    /* owned; path as passed to dop_map_open; NULL if nothing is mapped */
} dop_map;

dop_status dop_map_open(const char *path, dop_diag *diag, dop_map *out_map);
void dop_map_close(dop_map *map); /* accepts a zeroed struct */
/* Hints that pages read so far may be evicted; later reads load them from the file again. */
void dop_map_forget(const dop_map *map);

/* Growable byte buffer and string builder.  After the first append, data is 0-terminated.  A failed allocation sets `failed` and turns
 * later appends into no-ops, so checking once at the end suffices. */
typedef struct dop_buf {
    char *data;
    size_t size; /* bytes, without the terminator */
    size_t cap;
    bool failed;
} dop_buf;

void dop_buf_append(dop_buf *b, const void *bytes, size_t n);
void dop_buf_puts(dop_buf *b, const char *s);
void dop_buf_printf(dop_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dop_buf_vprintf(dop_buf *b, const char *fmt, va_list ap);
void dop_buf_zeros(dop_buf *b, size_t n);
const char *dop_buf_text(const dop_buf *b); /* contents as a string; "" if empty */
void dop_buf_finish(dop_buf *b);            /* frees the memory; accepts a zeroed struct */
/* Returns the number of buffers of this thread that have failed.  Comparing it before and after detects a failure in any of many
 * buffers. */
uint64_t dop_buf_failures(void);

/* An output file that is replaced atomically when it is complete.  Until then it has no name if the file system supports that, so that
 * a killed process leaves nothing; otherwise its name is PATH.tmp.PID.  A symbolic link is kept and its target replaced or created.
 * Existing files that are not regular (/dev/stdout, a named pipe) are written directly. */
typedef struct dop_out_file {
    FILE *f;          /* stream to write to */
    const char *path; /* path as passed by the caller; not owned */
    char *final;      /* owned; `path` with symbolic links resolved */
    char *tmp;        /* owned; temporary name; NULL: written directly */
    bool has_name;    /* true if the file is written under the name `tmp`, false if it has no name yet */
} dop_out_file;

/* Opens an output file for writing.  path must outlive it. */
dop_status dop_out_file_open(const char *path, dop_diag *diag, dop_out_file *out_output);
/* Restricts an output file to its owner (mode 0600), for user data.  Does nothing for devices and pipes. */
void dop_out_file_keep_private(dop_out_file *output);
/* Closes the file and, with ok, moves it to its final name; otherwise removes it.  Does nothing with a zeroed struct. */
dop_status dop_out_file_close(dop_out_file *output, bool ok, dop_diag *diag);

/* Fails if opening `path` as an output file would fail, so that programs report it before long work.  Does not leave a file.  Does not
 * open devices and pipes. */
dop_status dop_out_file_try(const char *path, dop_diag *diag);

/* Writes a whole file through a dop_out_file. */
dop_status dop_write_file(const char *path, const void *data, size_t size, dop_diag *diag);

/* Convert between float and the bits of IEEE half precision or bfloat16, rounding to nearest even. */
float dop_f16_to_f32(uint16_t h);
uint16_t dop_f32_to_f16(float f);
float dop_bf16_to_f32(uint16_t h);
uint16_t dop_f32_to_bf16(float f);

#endif
