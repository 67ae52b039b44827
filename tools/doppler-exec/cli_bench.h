/* --bench: its command line. It has a table of options of its own, because -p and -n have llama-bench's meaning. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLI_BENCH_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLI_BENCH_H

#include "base/program/options.h"

/* cli_bench.c: returns the options of --bench. */
const dop_option *dop_cli_bench_options(size_t *out_n);
bool dop_cli_wants_bench(int argc, char **argv);

#endif
