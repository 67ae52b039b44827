/* GGML files of models of speech: what is read, where special tokens are, and files that are damaged. */
#include "base/format/ggml.h"
#include "frontend/facts/import.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void
put_u32(dop_buf *b, uint32_t v)
{
    dop_buf_append(b, &v, sizeof v);
}

static void
put_tensor(dop_buf *b, const char *name, uint32_t type, uint32_t cols, uint32_t rows, size_t bytes)
{
    static const char zeros[4096];
    put_u32(b, 2);
    put_u32(b, (uint32_t)strlen(name));
    put_u32(b, type);
    put_u32(b, cols);
    put_u32(b, rows);
    dop_buf_puts(b, name);
    dop_buf_append(b, zeros, bytes);
}

/* A file with two tokens and two tensors. */
static dop_buf
file(uint32_t vocab)
{
    const uint32_t head[] = {0x67676d6c, vocab, 100, 64, 4, 2, 64, 64, 4, 2, 2, 1, 2, 201};
    const float filter = 0;
    dop_buf b = {0};
    dop_buf_append(&b, head, sizeof head);
    for (uint32_t i = 0; i < 2 * 201; i++)
        dop_buf_append(&b, &filter, sizeof filter);
    put_u32(&b, 2);
    put_u32(&b, 0);
    put_u32(&b, 3);
    dop_buf_puts(&b, "abc");
    put_tensor(&b, "first", 1, 3, 5, 30);
    put_tensor(&b, "second", 8, 64, 2, 136);
    return b;
}

static dop_status
parse(const void *bytes, size_t n, dop_arena *arena, dop_diag *diag, dop_ggml *out)
{
    *diag = (dop_diag){0};
    const dop_status st = dop_ggml_parse("test", bytes, n, arena, diag, out);
    cr_expect_eq(st != DOP_OK, diag->message[0] != 0);
    cr_expect_null(strchr(diag->message, '\n'));
    return st;
}

Test(import_ggml, what_is_in_a_file)
{
    dop_arena arena;
    dop_ggml g;
    dop_diag diag;
    dop_buf b = file(40);
    dop_arena_init(&arena);
    cr_assert_eq(parse(b.data, b.size, &arena, &diag, &g), DOP_OK, "%s", diag.message);
    cr_expect_eq(g.sizes.vocab, 40);
    cr_expect_eq(g.sizes.bins, 2);
    cr_expect_eq(g.n_tokens, 2);
    cr_expect(g.tokens[1].n == 3 && memcmp(g.tokens[1].bytes, "abc", 3) == 0);
    cr_assert_eq(g.n_tensors, 2);
    cr_expect_str_eq(g.tensors[1].name, "second");
    cr_expect(g.tensors[1].dims[0] == 64 && g.tensors[1].dims[1] == 2 && g.tensors[1].bytes == 136);
    for (size_t end = 0; end < b.size; end++) {
        char *own = malloc(end + 1); /* so that reading behind it is found */
        memcpy(own, b.data, end);
        const dop_status st = parse(own, end, &arena, &diag, &g);
        cr_expect(st == DOP_E_INPUT || (st == DOP_OK && g.n_tensors < 2), "%zu", end);
        free(own);
    }
    dop_arena_finish(&arena);
    dop_buf_finish(&b);
}

Test(import_ggml, damaged)
{
    /* Words of the file, and what they are made: magic, bins, bins of the filters, frequencies, tokens, a token's length, axes, length of a
     * name, type, columns. */
    const size_t tokens = 14 * 4 + 402 * 4, first = tokens + 4 + 4 + 4 + 3;
    const struct {
        size_t at;
        uint32_t value;
    } rows[] = {{0, 0x67676d66},
                {40, 3},
                {48, 0},
                {52, 200},
                {tokens, 41},
                {tokens, 0xffffffff},
                {tokens + 8, 0xfffffff0},
                {first, 0},
                {first, 5},
                {first + 4, 0},
                {first + 4, 201},
                {first + 8, 99},
                {first + 12, 0},
                {first + 12, 0xffffffff}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_arena arena;
        dop_ggml g;
        dop_diag diag;
        dop_buf b = file(40);
        dop_arena_init(&arena);
        memcpy(b.data + rows[i].at, &rows[i].value, sizeof rows[i].value);
        cr_expect_eq(parse(b.data, b.size, &arena, &diag, &g), DOP_E_INPUT, "row %zu", i);
        dop_arena_finish(&arena);
        dop_buf_finish(&b);
    }
}

/* The sizes of published models: English only, of several languages, and large-v3 with one more. */
Test(import_ggml, special_tokens)
{
    static const struct {
        uint32_t vocab, listed, first, languages;
        bool good;
    } rows[] = {{51864, 50256, 50256, 99, true},
                {51864, 50257, 50256, 99, true},
                {51865, 50257, 50257, 99, true},
                {51865, 50258, 50257, 99, true},
                {51866, 50257, 50257, 100, true},
                {51867, 50257, 0, 0, false},
                {51865, 50000, 0, 0, false},
                {1908, 300, 300, 99, true},
                {1809, 300, 300, 0, true},
                {1808, 300, 0, 0, false},
                {2, 2, 0, 0, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const dop_ggml g = {.sizes = {.vocab = rows[i].vocab}, .n_tokens = rows[i].listed};
        uint32_t first, languages;
        cr_expect_eq(dop_ggml_specials(&g, &first, &languages), rows[i].good, "row %zu", i);
        cr_expect(!rows[i].good || (first == rows[i].first && languages == rows[i].languages), "row %zu", i);
    }
}
