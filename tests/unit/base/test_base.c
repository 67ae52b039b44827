/* base/base: conversions against an oracle that only uses doubles, buffers, files, diagnostics. */
#include "base/base.h"
#include "base/os/system.h"
#include "base/program/options.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- half precision and bfloat16 ---------------------------------------------------------------------------------- */

typedef struct format {
    int man_bits, exp_bits;
} format;

static const format f16 = {10, 5}, bf16 = {7, 8};

/* Value of the finite encoding h, from the definition of the format. */
static double
decode(format f, uint32_t h)
{
    int bias = (1 << (f.exp_bits - 1)) - 1;
    int exp = (int)(h >> f.man_bits) & ((1 << f.exp_bits) - 1);
    int man = (int)h & ((1 << f.man_bits) - 1);
    double v = exp == 0 ? ldexp(man, 1 - bias - f.man_bits) : ldexp(man + (1 << f.man_bits), exp - bias - f.man_bits);
    return h >> (f.man_bits + f.exp_bits) ? -v : v;
}

static uint32_t
infinity_of(format f)
{
    return ((1u << f.exp_bits) - 1) << f.man_bits;
}

/* Nearest encoding of v, ties to even; v is any double that is not a NaN. */
static uint32_t
encode(format f, double v)
{
    uint32_t sign = signbit(v) ? 1u << (f.man_bits + f.exp_bits) : 0;
    int bias = (1 << (f.exp_bits - 1)) - 1;
    double a = fabs(v);
    if (isinf(a))
        return sign | infinity_of(f);
    int exp = 0;
    frexp(a, &exp); /* a in [2^(exp-1), 2^exp) */
    int e = exp - 1 < 1 - bias ? 1 - bias : exp - 1;
    double q = nearbyint(ldexp(a, f.man_bits - e)); /* in units of the last place */
    double top = ldexp(1, f.man_bits);
    if (q >= 2 * top) { /* rounded up to the next power of two */
        q /= 2;
        e++;
    }
    if (e > bias)
        return sign | infinity_of(f);
    if (q < top) /* subnormal or zero */
        return sign | (uint32_t)q;
    return sign | (uint32_t)(e + bias) << f.man_bits | (uint32_t)(q - top);
}

static float
float_of_bits(uint32_t u)
{
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static uint32_t
bits_of_float(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

/* Compares one conversion from f32 with the oracle. */
static void
check_narrow(format f, uint16_t (*narrow)(float), uint32_t bits)
{
    float v = float_of_bits(bits);
    uint16_t got = narrow(v);
    if (isnan(v)) {
        uint32_t magnitude = got & 0x7fffu;
        cr_assert(magnitude > infinity_of(f), "f32 NaN %08x became %04x", bits, got);
        cr_assert((uint32_t)(got >> 15) == bits >> 31, "the sign of NaN %08x is lost: %04x", bits, got);
    } else {
        uint32_t want = encode(f, v);
        cr_assert(got == want, "f32 %08x (%a) became %04x, nearest is %04x", bits, (double)v, got, want);
    }
}

/* Every boundary at which the result changes, its two neighbours, and a coarse walk over all of f32. */
static void
check_all_narrow(format f, uint16_t (*narrow)(float))
{
    for (uint32_t h = 0; h < infinity_of(f); h++) {
        double next = h + 1 == infinity_of(f) ? 2 * decode(f, h) - decode(f, h - 1) : decode(f, h + 1);
        float middle = (float)((decode(f, h) + next) / 2); /* exact: one more bit than the format has */
        uint32_t centre = bits_of_float(middle);
        for (uint32_t sign = 0; sign < 2; sign++) {
            check_narrow(f, narrow, sign << 31 | centre);
            check_narrow(f, narrow, sign << 31 | (centre + 1));
            check_narrow(f, narrow, sign << 31 | (centre ? centre - 1 : 0));
            check_narrow(f, narrow, sign << 31 | bits_of_float((float)decode(f, h)));
        }
    }
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 2003)
        check_narrow(f, narrow, (uint32_t)bits);
    static const uint32_t edges[] = {0x7f800000u, 0xff800000u, 0x7f800001u, 0x7fffffffu, 0xffc00000u, 0xff800001u,
                                     0x7f7fffffu, 0xff7fffffu, 0x00000001u, 0x80000001u, 0x007fffffu, 0x80000000u};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        check_narrow(f, narrow, edges[i]);
}

static void
check_all_widen(format f, float (*widen)(uint16_t), uint16_t (*narrow)(float))
{
    for (uint32_t h = 0; h < 65536; h++) {
        float got = widen((uint16_t)h);
        uint32_t magnitude = h & 0x7fffu;
        if (magnitude > infinity_of(f)) {
            cr_assert(isnan(got), "%04x is a NaN, got %a", h, (double)got);
        } else if (magnitude == infinity_of(f)) {
            cr_assert(isinf(got) && (got < 0) == (h >> 15 != 0), "%04x is infinite, got %a", h, (double)got);
        } else {
            cr_assert((double)got == decode(f, h), "%04x is %a, got %a", h, decode(f, h), (double)got);
            cr_assert((signbit(got) != 0) == (h >> 15 != 0), "%04x has the wrong sign", h);
            cr_assert(narrow(got) == h, "%04x does not survive a round trip: %04x", h, narrow(got));
        }
    }
}

Test(base, f16_widen)
{
    check_all_widen(f16, dop_f16_to_f32, dop_f32_to_f16);
}

Test(base, f16_narrow)
{
    check_all_narrow(f16, dop_f32_to_f16);
}

Test(base, bf16_widen)
{
    check_all_widen(bf16, dop_bf16_to_f32, dop_f32_to_bf16);
}

Test(base, bf16_narrow)
{
    check_all_narrow(bf16, dop_f32_to_bf16);
}

/* The oracle itself, on values from the IEEE tables. */
Test(base, oracle)
{
    cr_assert(encode(f16, 65504.0) == 0x7bff);
    cr_assert(encode(f16, 65519.99) == 0x7bff);
    cr_assert(encode(f16, 65520.0) == 0x7c00);
    cr_assert(encode(f16, 0x1p-24) == 0x0001);
    cr_assert(encode(f16, 0x1p-25) == 0x0000);
    cr_assert(encode(f16, 0x1.8p-24) == 0x0002);
    cr_assert(encode(f16, -1.0 / 3) == 0xb555);
    cr_assert(encode(bf16, 1.0) == 0x3f80);
    cr_assert(decode(bf16, 0x7f7f) == 0x1.fep127);
    cr_assert(decode(f16, 0x03ff) == 0x3ffp-24);
}

/* ---- arithmetic --------------------------------------------------------------------------------------------------- */

Test(base, checked_arithmetic)
{
    uint64_t r;
    cr_assert(dop_add_u64(UINT64_MAX - 1, 1, &r) && r == UINT64_MAX);
    cr_assert_not(dop_add_u64(UINT64_MAX, 1, &r));
    cr_assert_not(dop_add_u64(UINT64_MAX, UINT64_MAX, &r));
    cr_assert(dop_mul_u64(UINT32_MAX, UINT32_MAX, &r) && r == UINT64_C(0xfffffffe00000001));
    cr_assert(dop_mul_u64(UINT64_MAX, 0, &r) && r == 0);
    cr_assert_not(dop_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &r));
    cr_assert_not(dop_mul_u64(UINT64_MAX, 2, &r));
}

Test(base, rounding)
{
    cr_assert_eq(dop_align_u64(0, 16), 0);
    cr_assert_eq(dop_align_u64(1, 16), 16);
    cr_assert_eq(dop_align_u64(16, 16), 16);
    cr_assert_eq(dop_align_u64(UINT64_C(0x100000001), 4096), UINT64_C(0x100001000));
    cr_assert_eq(dop_div_up_u32(0, 8), 0);
    cr_assert_eq(dop_div_up_u32(8, 8), 1);
    cr_assert_eq(dop_div_up_u32(9, 8), 2);
}

/* ---- diagnostics -------------------------------------------------------------------------------------------------- */

Test(base, first_failure_wins)
{
    dop_diag diag = {0};
    cr_assert_eq(DOP_FAIL_AT(&diag, DOP_E_INPUT, "a.json", 3, 7, "bad %s", "thing"), DOP_E_INPUT);
    cr_assert_eq(DOP_FAIL(&diag, DOP_E_NOMEM, "later"), DOP_E_NOMEM);
    cr_assert_eq(diag.code, DOP_E_INPUT);
    cr_assert_str_eq(diag.message, "bad thing");
    cr_assert_str_eq(diag.path, "a.json");
    cr_assert_eq(diag.line, 3);
    cr_assert_eq(diag.column, 7);
    cr_assert_eq(DOP_FAIL(NULL, DOP_E_IO, "nobody listens"), DOP_E_IO);
}

Test(base, long_messages_are_cut)
{
    char text[4096];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    dop_diag diag = {0};
    DOP_FAIL_IN(&diag, DOP_E_INPUT, text, "%s", text);
    cr_assert_eq(strlen(diag.message), sizeof diag.message - 1);
    cr_assert_eq(strlen(diag.path), sizeof diag.path - 1);
}

Test(base, print_with_place, .init = cr_redirect_stderr)
{
    dop_diag diag = {0};
    DOP_FAIL_AT(&diag, DOP_E_INPUT, "dir/config.json", 12, 5, "expected a number");
    dop_diag_print(&diag, "dopplerc", false);
    fflush(stderr);
    cr_assert_stderr_eq_str("dopplerc: dir/config.json:12:5: error: expected a number\n");
}

Test(base, print_without_place, .init = cr_redirect_stderr)
{
    dop_diag diag = {0};
    DOP_FAIL(&diag, DOP_E_DEVICE, "no Vulkan device");
    dop_diag_print(&diag, "doppler-exec", false);
    fflush(stderr);
    cr_assert_stderr_eq_str("doppler-exec: error: no Vulkan device\n");
}

/* Texts of outside files cannot make a message into several lines or talk to the terminal. */
Test(base, messages_are_one_line)
{
    dop_diag diag = {0};
    DOP_FAIL_IN(&diag, DOP_E_INPUT, "a\033[2Jb", "the compiler says: %s", "one\n\ttwo\r3\n\n");
    cr_assert_str_eq(diag.message, "the compiler says: one  two?3");
    cr_assert_str_eq(diag.path, "a?[2Jb");
    diag = (dop_diag){0};
    DOP_FAIL(&diag, DOP_E_INPUT, "here:\n  %s\n  ^", "a\033[2Jb");
    cr_assert_str_eq(diag.message, "here:\n  a?[2Jb\n  ^");
}

Test(base, exit_statuses)
{
    cr_assert_eq(dop_status_exit(DOP_OK), 0);
    cr_assert_eq(dop_status_exit(DOP_E_USAGE), 2);
    cr_assert_eq(dop_status_exit(DOP_E_INPUT), 1);
    cr_assert_eq(dop_status_exit(DOP_E_INTERNAL), 1);
}

/* ---- buffers ------------------------------------------------------------------------------------------------------ */

Test(base, buf_builds_strings)
{
    dop_buf b = {0};
    dop_buf_append(&b, NULL, 0);
    cr_assert_str_eq(b.data, "");
    dop_buf_puts(&b, "ab");
    dop_buf_printf(&b, "%d-%s", 42, "c");
    cr_assert_str_eq(b.data, "ab42-c");
    cr_assert_eq(b.size, 6);
    dop_buf_zeros(&b, 2);
    cr_assert_eq(b.size, 8);
    cr_assert_arr_eq(b.data, "ab42-c\0\0\0", 9);
    for (int i = 0; i < 10000; i++)
        dop_buf_printf(&b, "%d,", i % 10);
    cr_assert_eq(b.size, 8 + 20000);
    cr_assert_eq(b.data[b.size], 0);
    cr_assert_eq(b.data[b.size - 2], '9');
    dop_buf_zeros(&b, 100000);
    cr_assert_eq(b.size, 8 + 20000 + 100000);
    cr_assert_eq(b.data[b.size - 1], 0);
    cr_assert_not(b.failed);
    dop_buf_finish(&b);
    cr_assert_null(b.data);
    dop_buf_finish(&b);
}

Test(base, buf_failure_sticks)
{
    dop_buf b = {0};
    dop_buf_puts(&b, "kept");
    dop_buf_zeros(&b, SIZE_MAX - 2);
    cr_assert(b.failed);
    dop_buf_puts(&b, "dropped");
    dop_buf_printf(&b, "%d", 1);
    cr_assert_eq(b.size, 4);
    cr_assert_str_eq(b.data, "kept");
    dop_buf_finish(&b);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/doppler-base-XXXXXX";

static void
make_dir(void)
{
    cr_assert_not_null(mkdtemp(dir));
}

/* Path of NAME in the test's directory; each use overwrites the last one. */
static const char *
in_dir(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int
count_entries(void)
{
    DIR *d = opendir(dir);
    cr_assert_not_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void
remove_dir(void)
{
    rmdir(in_dir("taken/inside"));
    rmdir(in_dir("taken"));
    unlink(in_dir("file"));
    unlink(in_dir("empty"));
    cr_assert(rmdir(dir) == 0, "something is left in %s", dir);
}

static void
assert_file_is(const char *path, const char *text)
{
    dop_diag diag = {0};
    dop_map map;
    cr_assert_eq(dop_map_open(path, &diag, &map), DOP_OK, "%s", diag.message);
    cr_assert_eq(map.size, strlen(text));
    cr_assert_arr_eq(map.data, text, strlen(text));
    dop_map_close(&map);
    cr_assert_null(map.data);
    dop_map_close(&map);
}

Test(base, names_of_files)
{
    const char *path = "a.b/c/d.e";
    cr_assert_eq(dop_path_slash(path), path + 5);
    cr_assert_str_eq(dop_path_name(path), "d.e");
    cr_assert_str_eq(dop_path_name("d.e"), "d.e");
    cr_assert_str_eq(dop_path_name("/d"), "d");
    cr_assert_str_eq(dop_path_name("a/"), "");
    cr_assert_null(dop_path_slash("d.e"));
    cr_assert_null(dop_path_slash(""));
    cr_assert_null(dop_path_slash("a\\b"), "a character like others, except on Windows");
}

Test(base, write_and_map, .init = make_dir, .fini = remove_dir)
{
    dop_diag diag = {0};
    cr_assert_eq(dop_write_file(in_dir("file"), "first", 5, &diag), DOP_OK);
    assert_file_is(in_dir("file"), "first");
    cr_assert_eq(dop_write_file(in_dir("file"), "2nd", 3, &diag), DOP_OK);
    assert_file_is(in_dir("file"), "2nd");
    cr_assert_eq(dop_write_file(in_dir("empty"), NULL, 0, &diag), DOP_OK);
    dop_map map;
    cr_assert_eq(dop_map_open(in_dir("empty"), &diag, &map), DOP_OK);
    cr_assert(!map.data && map.size == 0);
    dop_map_close(&map);
    cr_assert_eq(count_entries(), 2, "temporary files were left");
}

Test(base, write_keeps_the_old_file_when_the_disk_is_full, .init = make_dir, .fini = remove_dir)
{
    dop_diag diag = {0};
    cr_assert_eq(dop_write_file(in_dir("file"), "old", 3, &diag), DOP_OK);
    /* A file size limit fails the write the way a full disk does. */
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 1000;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    static char big[100000];
    dop_status st = dop_write_file(in_dir("file"), big, sizeof big, &diag);
    limit.rlim_cur = before;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(st, DOP_E_IO);
    cr_assert_str_eq(diag.path, in_dir("file"));
    cr_assert(strstr(diag.message, strerror(EFBIG)), "%s", diag.message);
    assert_file_is(in_dir("file"), "old");
    cr_assert_eq(count_entries(), 1, "temporary files were left");
}

Test(base, write_leaves_nothing_when_the_name_is_taken, .init = make_dir, .fini = remove_dir)
{
    cr_assert_eq(mkdir(in_dir("taken"), 0777), 0);
    cr_assert_eq(mkdir(in_dir("taken/inside"), 0777), 0);
    dop_diag diag = {0};
    cr_assert_eq(dop_write_file(in_dir("taken"), "x", 1, &diag), DOP_E_IO);
    cr_assert_eq(count_entries(), 1, "temporary files were left");
    diag = (dop_diag){0};
    cr_assert_eq(dop_write_file(in_dir("missing/file"), "x", 1, &diag), DOP_E_IO);
    cr_assert(strstr(diag.message, strerror(ENOENT)), "%s", diag.message);
}

/* Devices and pipes are written to, not replaced by a file of their name. */
Test(base, write_to_what_is_no_file, .init = make_dir, .fini = remove_dir)
{
    dop_diag diag = {0};
    struct stat sb;
    cr_assert_eq(dop_write_file("/dev/null", "x", 1, &diag), DOP_OK, "%s", diag.message);
    cr_assert(stat("/dev/null", &sb) == 0 && S_ISCHR(sb.st_mode));
    cr_assert_eq(dop_write_file("/dev/full", "x", 1, &diag), DOP_E_IO);
    cr_assert(strstr(diag.message, strerror(ENOSPC)), "%s", diag.message);
    cr_assert(stat("/dev/full", &sb) == 0 && S_ISCHR(sb.st_mode));
    cr_assert_eq(dop_write_file(dir, "x", 1, &diag), DOP_E_IO);
}

/* Nothing is there before the end, nothing is there without one, and what was there stays until then. */
Test(base, output_appears_when_complete, .init = make_dir, .fini = remove_dir)
{
    dop_diag diag = {0};
    dop_out_file o;
    dop_map map;
    cr_assert_eq(dop_write_file(in_dir("file"), "old", 3, &diag), DOP_OK);
    for (int ok = 0; ok < 2; ok++) {
        char path[512];
        snprintf(path, sizeof path, "%s", in_dir("file"));
        cr_assert_eq(dop_out_file_open(path, &diag, &o), DOP_OK, "%s", diag.message);
        cr_assert_eq(fwrite("new", 1, 3, o.f), 3);
        cr_assert_eq(dop_map_open(path, &diag, &map), DOP_OK);
        cr_assert_arr_eq(map.data, "old", 3);
        dop_map_close(&map);
        cr_assert_eq(dop_out_file_close(&o, ok, &diag), DOP_OK);
        cr_assert_eq(dop_out_file_close(&o, ok, &diag), DOP_OK);
        cr_assert_eq(dop_map_open(path, &diag, &map), DOP_OK);
        cr_assert_arr_eq(map.data, ok ? "new" : "old", 3);
        dop_map_close(&map);
        cr_assert_eq(count_entries(), 1);
    }
}

Test(base, map_refuses, .init = make_dir, .fini = remove_dir)
{
    dop_diag diag = {0};
    dop_map map;
    cr_assert_eq(dop_map_open(in_dir("nothing"), &diag, &map), DOP_E_IO);
    cr_assert(strstr(diag.message, strerror(ENOENT)), "%s", diag.message);
    cr_assert_str_eq(diag.path, in_dir("nothing"));
    cr_assert(!map.data && map.size == 0);
    dop_map_close(&map);
    diag = (dop_diag){0};
    cr_assert_eq(dop_map_open(dir, &diag, &map), DOP_E_IO);
    cr_assert(!map.data);
    diag = (dop_diag){0};
    cr_assert_eq(dop_map_open("/dev/zero", &diag, &map), DOP_E_IO);
    cr_assert_str_eq(diag.message, "not a regular file");
    diag = (dop_diag){0};
    cr_assert_eq(mkfifo(in_dir("pipe"), 0600), 0);
    alarm(10); /* nobody will ever write to it */
    cr_assert_eq(dop_map_open(in_dir("pipe"), &diag, &map), DOP_E_IO);
    alarm(0);
    cr_assert_eq(unlink(in_dir("pipe")), 0);
    cr_assert_str_eq(diag.message, "not a regular file");
    cr_assert_str_eq(diag.message, "not a regular file");
    cr_assert_eq(dop_map_open(in_dir("nothing"), NULL, &map), DOP_E_IO);
}

/* ---- texts and paths from outside --------------------------------------------------------------------------------- */

Test(base, harmless_texts)
{
    static const struct {
        const char *text, *kept, *want;
    } cases[] = {
        {"plain \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "", "plain \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"a\033[31mb\a\bc\r\x7f", "", "a?[31mb??c??"},
        {"a\nb\tc", "", "a b c"},
        {"a\nb\tc\r", "\n\t", "a\nb\tc?"},
        {"C1: \xc2\x9b"
         "31m \xc2\x85 \xc2\xa0",
         "", "C1: ?31m ? \xc2\xa0"},
        {"8 bits: \x9b"
         "31m \xff\xe9",
         "", "8 bits: ?31m \xff\xe9"},
        {"cut \xe2\x80", "", "cut \xe2?"},
        {"\xe2\x80\xae"
         "txt.exe \xe2\x81\xa6x\xe2\x81\xa9 \xe2\x80\x8f\xd8\x9c\xe2\x80\xa8",
         "", "?txt.exe ?x? ???"},
        {"\xe2\x80\x9cquoted\xe2\x80\x9d \xe2\x80\xa6", "", "\xe2\x80\x9cquoted\xe2\x80\x9d \xe2\x80\xa6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        dop_diag diag = {0};
        snprintf(text, sizeof text, "%s", cases[i].text);
        dop_make_harmless(text, cases[i].kept);
        cr_expect_str_eq(text, cases[i].want, "%zu: %s", i, text);
        if (!*cases[i].kept) { /* as in messages */
            DOP_FAIL_IN(&diag, DOP_E_INPUT, cases[i].text, "x%sx", cases[i].text);
            cr_expect_str_eq(diag.path, cases[i].want, "%zu", i);
        }
    }
}

Test(base, paths_inside)
{
    static const char *const inside[] = {"a", "1_Pooling", "a/b/c.json", "..a", "a..", "a/...", "."},
                             *const outside[] = {"",       "/",      "/a",    "..",   "../a", "a/..",
                                                 "a/../b", "a/b/..", "..\\a", "a\\b", "C:a"};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        cr_expect(dop_path_is_inside(inside[i]), "%s", inside[i]);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        cr_expect_not(dop_path_is_inside(outside[i]), "%s", outside[i]);
}
