/* YAML files of the compiler: depth is bounded, in time that follows the length. */
#include "base/os/clock.h"
#include "base/yaml/yaml_util.h"
#include "tests/unit/import_util.h"

static void
expect_yaml(const char *text, const char *message, long line)
{
    scratch s = scratch_make();
    scratch_text(&s, "f.yaml", text);
    dop_yaml y;
    dop_diag diag = {0};
    const double begin = dop_now_ms();
    const dop_status st = dop_yaml_open(scratch_path(&s, "f.yaml"), YAML_SEQUENCE_NODE, "a list is wanted", &diag, &y);
    cr_expect_lt(dop_now_ms() - begin, 2000.0, "%.20s", text);
    cr_expect_eq(st, message ? DOP_E_INPUT : DOP_OK);
    if (message) {
        cr_expect_str_eq(diag.message, message);
        cr_expect_eq(diag.line, line);
    } else {
        dop_yaml_close(&y);
    }
    scratch_remove(&s);
}

/* 200 KB of one thing within another took 40 seconds. */
Test(yaml, depth_is_bounded)
{
    static const char *const opens[] = {"[", "{", "[{", "- ", "? ", "[\n", "{a: ", "- ? "};
    enum { SIZE = 200000 };
    char *text = malloc(SIZE + 8);
    for (size_t i = 0; i < sizeof opens / sizeof *opens; i++) {
        const size_t n = strlen(opens[i]);
        for (size_t at = 0; at + n <= SIZE; at += n)
            memcpy(text + at, opens[i], n);
        text[SIZE / n * n] = 0;
        expect_yaml(text, "lists and mappings are nested more than 32 deep", strcmp(opens[i], "[\n") == 0 ? 33 : 1);
    }
    memset(text, '[', 32);
    memset(text + 32, ']', 32);
    text[64] = 0;
    expect_yaml(text, NULL, 0);
    free(text);
}

Test(yaml, other_errors_are_said)
{
    expect_yaml("a: 1", "a list is wanted", 0);
    expect_yaml("", "nothing is in this file: a list is wanted", 0);
    expect_yaml("[1, 2", "not YAML: did not find expected ',' or ']'", 2);
}
