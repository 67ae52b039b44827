/* What every room shares: status and diagnostics, overflow-safe arithmetic, mapped files, growable buffers.  One status type, which
 * is that of the library's public headers, is better than two. */
#ifndef DOPPLER_BASE_BASE_H
#define DOPPLER_BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <doppler/status.h>

/* Records a failure (the first one wins) and returns its code, so that `return DOP_FAIL(...)` reads well.
 * diag may be NULL. */
dop_status dop_fail(dop_diag *diag, const char *src_file, int src_line, dop_status code, const char *path, long line,
                    long column, const char *fmt, ...) __attribute__((format(printf, 8, 9)));
/* Resets a diagnostic to DOP_OK without a message.  Every function of the public interface begins with this call, so that a diagnostic
 * that a caller uses again reports the last call.  Inside the library the first failure stays until the call ends.  diag may be NULL. */
void dop_diag_clear(dop_diag *diag);
#define DOP_FAIL(diag, code, ...) dop_fail((diag), __FILE__, __LINE__, (code), NULL, 0, 0, __VA_ARGS__)
#define DOP_FAIL_IN(diag, code, path, ...) dop_fail((diag), __FILE__, __LINE__, (code), (path), 0, 0, __VA_ARGS__)
#define DOP_FAIL_AT(diag, code, path, line, col, ...) \
    dop_fail((diag), __FILE__, __LINE__, (code), (path), (line), (col), __VA_ARGS__)

/* Replaces, in a text from outside, what a terminal would obey or what would make a line of a log look like another one: control
 * characters, marks of text direction, separators of lines.  kept: characters that stay. */
void dop_make_harmless(char *text, const char *kept);
/* True if a path that a model's file states stays below that file's folder: relative and without "..". */
bool dop_path_is_inside(const char *path);

/* Records that the host has no memory left; the one wording of that failure. */
#define DOP_NO_MEMORY(diag) DOP_FAIL((diag), DOP_E_NOMEM, "out of memory")

/* Returns from the calling function with the status of `call`, unless it is DOP_OK. */
#define DOP_RETURN_IF_ERROR(call)             \
    do {                                      \
        const dop_status status_of_ = (call); \
        if (status_of_ != DOP_OK)             \
            return status_of_;                \
    } while (0)

/* Stores the status of `call` in the local variable `st` and jumps to the label `error`, unless it is DOP_OK.  The label precedes the
 * cleanup that success and failure share. */
#define DOP_TRY(call)     \
    do {                  \
        st = (call);      \
        if (st != DOP_OK) \
            goto error;   \
    } while (0)

/* Overflow-safe arithmetic on outside numbers: false when the result does not fit; *out is then unspecified. */
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

/* Rounds up to a power-of-two alignment; the caller knows it does not overflow. */
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

/* The value of a hexadecimal digit of either case; -1: the character is no such digit. */
static inline int
dop_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A file mapped read-only.  An empty file has data == NULL and size 0; a pointer of Git LFS is refused. */
typedef struct dop_map {
    const uint8_t *data;
    uint64_t size; /* bytes */
    char *path;    /* owned: the file, as it was named; NULL where nothing is mapped */
} dop_map;

dop_status dop_map_open(const char *path, dop_diag *diag, dop_map *out_map);
void dop_map_close(dop_map *map); /* accepts a zeroed one */
/* Tells the system that pages read so far need not stay in memory; they are read again from the file when needed. */
void dop_map_forget(const dop_map *map);

/* A growable byte buffer that doubles as a string builder: data is always 0-terminated once anything was appended.
 * An allocation failure sets `failed` and later appends do nothing; check once at the end. */
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
const char *dop_buf_text(const dop_buf *b); /* what was put into it; "" where that is nothing */
void dop_buf_finish(dop_buf *b);            /* frees; accepts a zeroed one */
/* How many buffers of this thread have failed so far.  Code that assembles a text from many buffers compares this before and
 * after, so that a piece that was lost anywhere is noticed. */
uint64_t dop_buf_failures(void);

/* An output file that is replaced atomically: it appears under its name only when it is complete.  Until then it has no name, where the
 * file system supports that (so that a killed process leaves nothing), else the name PATH.tmp.PID.  A symbolic link stays, and its
 * target is replaced or created.  An existing file that is not a regular one (/dev/stdout, a named pipe) is written to directly. */
typedef struct dop_out_file {
    FILE *f;          /* the stream to write to */
    const char *path; /* the name that the caller gave; not owned */
    char *final;      /* `path` with symbolic links followed; owned */
    char *tmp;        /* temporary name; owned; NULL: the file is written to directly */
    bool has_name;    /* the file is written under `tmp`; else without a name */
} dop_out_file;

dop_status dop_out_file_open(const char *path, dop_diag *diag, dop_out_file *out_output); /* path is not copied */
/* Restricts an output file to its owner (mode 0600), for files that hold what users wrote.  Devices and pipes stay as they are. */
void dop_out_file_keep_private(dop_out_file *output);
/* Closes the file; with ok it gets its name, otherwise it is removed.  Does nothing with a zeroed one. */
dop_status dop_out_file_close(dop_out_file *output, bool ok, dop_diag *diag);

/* Fails as opening an output file `path` would, so that a program notices before its work.  Leaves nothing there, and does not open
 * devices and pipes. */
dop_status dop_out_file_try(const char *path, dop_diag *diag);

/* Writes a whole file at once, as a dop_out_file. */
dop_status dop_write_file(const char *path, const void *data, size_t size, dop_diag *diag);

/* Conversions between float and the bits of IEEE half precision and bfloat16, rounding to nearest even. */
float dop_f16_to_f32(uint16_t h);
uint16_t dop_f32_to_f16(float f);
float dop_bf16_to_f32(uint16_t h);
uint16_t dop_f32_to_bf16(float f);

#endif
