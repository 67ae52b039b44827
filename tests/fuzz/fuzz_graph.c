/* Random graphs against the interpreter, for as long as wanted: all kernels of all graphs on a software device, where the
 * test suite takes smaller graphs and runs some of them (tests/unit/kernels/test_kernels_random.c).
 *
 *   fuzz_graph FIRST COUNT   seeds; a failing graph is printed as text, with the reason as a comment
 *   fuzz_graph FILE...       such texts again, each for all targets */
#include "base/program/options.h"
#include "tests/unit/kernels_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints the text of a graph that fails. */
static bool
check(kernel_lab *lab, const char *name, const dop_buf *text, uint32_t target)
{
    dop_buf why = {0};
    bool ok = kernel_lab_check(lab, text->data, text->size, kernel_lab_target(target), KERNEL_LAB_BOTH, &why);
    if (!ok)
        printf("# %s: %s\n%s\n", name, why.data ? why.data : "?", text->data);
    fflush(stdout);
    dop_buf_finish(&why);
    return ok;
}

static bool
check_file(kernel_lab *lab, const char *path)
{
    dop_map map;
    dop_diag diag = {0};
    dop_buf text = {0};
    bool ok = true;
    if (dop_map_open(path, &diag, &map) != DOP_OK) {
        dop_diag_print(&diag, "fuzz_graph", false);
        return false;
    }
    dop_buf_append(&text, map.data, map.size);
    for (uint32_t t = 0; t < KERNEL_LAB_TARGETS; t++)
        ok = check(lab, path, &text, t) && ok;
    dop_buf_finish(&text);
    dop_map_close(&map);
    return ok;
}

int
main(int argc, char **argv)
{
    kernel_lab *lab;
    dop_buf why = {0};
    int failures = 0;
    char *end = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: fuzz_graph FIRST COUNT | fuzz_graph FILE...\n");
        return 2;
    }
    if (!kernel_lab_open(&lab, &why)) {
        fprintf(stderr, "fuzz_graph: %s\n", why.data ? why.data : "no device");
        dop_buf_finish(&why);
        return 1;
    }
    unsigned long long first = strtoull(argv[1], &end, 10), count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (*end) {
        for (int i = 1; i < argc; i++)
            failures += !check_file(lab, argv[i]);
    } else {
        for (unsigned long long seed = first; seed < first + count; seed++) {
            dop_buf text = {0};
            char name[32];
            snprintf(name, sizeof name, "seed %llu", seed);
            kernel_random_graph(seed, false, &text);
            failures += !check(lab, name, &text, (uint32_t)(seed % KERNEL_LAB_TARGETS));
            dop_buf_finish(&text);
        }
    }
    kernel_lab_counts n = kernel_lab_count(lab);
    fprintf(stderr, "%llu graphs, %llu runs, %llu regions, %llu kernels; worst %.3f of what is allowed; %d failures\n",
            (unsigned long long)n.graphs, (unsigned long long)n.runs, (unsigned long long)n.regions,
            (unsigned long long)n.kernels, n.worst, failures);
    kernel_lab_close(lab);
    return failures > 0;
}
