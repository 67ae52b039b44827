/* libFuzzer entry for the IR's text parser; not part of the test suite.  From the repository root:
 *
 *   clang -std=c11 -g -O1 -D_GNU_SOURCE -I. -fsanitize=fuzzer,address,undefined -o fuzz_ir tests/fuzz/fuzz_ir.c \
 *         $(find ir runtime/base.c -name '*.c') -lm && ./fuzz_ir CORPUS_DIR
 *
 * A text is refused, or it is a graph that verifies, prints, reads back and compacts. */
#include "ir/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool ok)
{
    if (!ok)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dop_arena arena;
    dop_graph g, again;
    dop_diag diag = {0};
    dop_buf one = {0}, two = {0};
    size_t end;
    dop_arena_init(&arena);
    dop_status st = dop_graph_parse("fuzz", (const char *)data, size, &arena, &diag, &g, &end);
    if (st == DOP_OK) {
        require(end <= size);
        dop_graph_print(&g, &one);
        require(dop_graph_parse("again", one.data, one.size, &arena, &diag, &again, &end) == DOP_OK);
        dop_graph_print(&again, &two);
        require(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
        require(dop_graph_hash(&g) == dop_graph_hash(&again));
        require(dop_graph_compact(&again, &diag) == DOP_OK);
        require(dop_graph_verify(&again, "compact", &diag) == DOP_OK);
    } else {
        require(st == DOP_E_INPUT && diag.line >= 1 && diag.column >= 1 && diag.message[0]);
    }
    dop_buf_finish(&one);
    dop_buf_finish(&two);
    dop_arena_finish(&arena);
    return 0;
}
