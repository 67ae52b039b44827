/* --bench: its command line.  -p and -n mean other things here than elsewhere, as in llama-bench; so it has a table
 * of options of its own. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLI_BENCH_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLI_BENCH_H

#include "base/program/options.h"

/* cli_bench.c: --bench has options of its own. */
const dop_option *dop_cli_bench_options(size_t *out_n);
bool dop_cli_wants_bench(int argc, char **argv);

#endif
