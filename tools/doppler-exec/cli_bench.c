/* --bench: its command line. It has a table of options of its own, because -p and -n have llama-bench's meaning. */
#include "tools/doppler-exec/cli_bench.h"
#include "tools/bench/bench.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/common/cli_common.h"
#include "tools/doppler-exec/on_demand/models.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPT(...) DOP_OPTION(dop_cli, __VA_ARGS__)
#define NUM(...) DOP_NUMBER_OPTION(dop_cli, __VA_ARGS__)

static const dop_option bench_options[] = {
    DOP_OPTION_HEADING("With --bench (several plans: measured in turn and compared with the first)"),
    OPT(0, "bench", FLAG, bench, NULL, "speed of prompt processing and of generation"),
    OPT('p', "n-prompt", TEXT, bench_prompts, "LIST", "prompt lengths, for example 128,512; 0: none (default 512)"),
    OPT('n', "n-gen", TEXT, bench_gens, "LIST", "numbers of tokens to generate; 0: none (default 128)"),
    OPT('d', "n-depth", TEXT, bench_depths, "LIST", "tokens in the cache before each test (default 0)"),
    OPT('b', "batch", TEXT, bench_batches, "LIST",
        "sequences that generate at once, with a row each per step (default 1)"),
    OPT(0, "drafts", TEXT, bench_drafts, "LIST",
        "also generate with replayed drafts, of which these percentages are accepted (default none)"),
    OPT(0, "sampled", FLAG, bench_sampled, NULL, "also generate with sampled tokens"),
    OPT(0, "lora", LIST, lora, "FILE[:SCALE]", "an adapter; may be repeated, and sequences of -b use them in turn"),
    NUM('r', "repetitions", COUNT, bench_rounds, "N", "rounds after one that is not counted (default 5)", 1, 10000),
    OPT('o', "output", TEXT, bench_output, "md|json|csv", "form of the result (default md)", .values = "md json csv"),
    NUM(0, "floor", REAL, bench_floor, "GB/S", "read bandwidth of the device, to show the share that is reached", 0,
        1e9),
    OPT(0, "device", TEXT, device, "N|NAME", "which device (default: the best one)"),
    NUM(0, "gpu-loop", COUNT, gpu_loop, "N", "tokens per submission (default: depends on device and model)", 1, 256),
    OPT(0, "ordering", TEXT, ordering, "HOW", "order of dispatches: auto (default), barriers, persistent",
        .values = DOP_CLI_ORDERINGS),
    NUM(0, "chunk", COUNT, chunk, "N", "feed prompts in pieces of at most N tokens", 1, 4096),
    NUM('j', "threads", COUNT, threads, "N", "threads while loading (default: one per core)", 1, 256),
    OPT(0, "quiet", FLAG, quiet, NULL, "no progress"),
    OPT('v', "verbose", FLAG, verbose, NULL, "show what is decided, and every round"),
    OPT(0, "help", FLAG, help, NULL, "this text"),
    DOP_CLI_MODEL_OPTIONS,
    DOP_OPTION_POINTER(0, "profile", "--profile measures by itself, without --bench"),
    DOP_OPTION_POINTER(0, "check", "--check runs by itself, without --bench"),
    DOP_OPTION_POINTER(0, "temp", "--sampled also measures sampling"),
};

const dop_option *
dop_cli_bench_options(size_t *out_n)
{
    *out_n = sizeof bench_options / sizeof bench_options[0];
    return bench_options;
}

bool
dop_cli_wants_bench(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--bench") == 0)
            return true;
    return false;
}

/* Parses integers separated by commas. An absent list has one element, `standard`. */
static dop_status
parse_list(const char *option, const char *text, uint32_t standard, dop_ids *out, dop_diag *diag)
{
    const unsigned long most = 1ul << 24; /* larger than any context */
    if (!text)
        dop_ids_push(out, standard);
    while (text) {
        char *end;
        unsigned long value = isdigit((unsigned char)text[0]) ? strtoul(text, &end, 10) : ULONG_MAX;
        if (value > most || (*end != ',' && *end))
            return DOP_FAIL(diag, DOP_E_USAGE, "%s needs numbers of tokens separated by commas, not \"%.40s\"", option,
                            text);
        dop_ids_push(out, (uint32_t)value);
        text = *end ? end + 1 : NULL;
    }
    return out->failed ? DOP_NO_MEMORY(diag) : DOP_OK;
}

typedef void print_fn(const dop_bench *bench, dop_buf *out);

static print_fn *
find_output(const char *name)
{
    static const struct {
        const char *name;
        print_fn *fn;
    } outputs[] = {{"json", dop_bench_json}, {"csv", dop_bench_csv}};
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        if (name && strcmp(name, outputs[i].name) == 0)
            return outputs[i].fn;
    return dop_bench_markdown;
}

dop_status
dop_mode_bench(dop_cli *cli, dop_diag *diag)
{
    dop_bench bench = {0};
    dop_ids prompts = {0}, gens = {0}, depths = {0}, batches = {0}, drafts = {0};
    dop_buf text = {0};
    dop_status st;
    print_fn *print = find_output(cli->json ? "json" : cli->bench_output);
    if (cli->plans.count == 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "no plan given: doppler-exec --bench PLAN... [options]; see --bench --help");
    if ((st = parse_list("-p", cli->bench_prompts, 512, &prompts, diag)) != DOP_OK ||
        (st = parse_list("-n", cli->bench_gens, 128, &gens, diag)) != DOP_OK ||
        (st = parse_list("-d", cli->bench_depths, 0, &depths, diag)) != DOP_OK ||
        (st = parse_list("-b", cli->bench_batches, 1, &batches, diag)) != DOP_OK ||
        (cli->bench_drafts && (st = parse_list("--drafts", cli->bench_drafts, 0, &drafts, diag)) != DOP_OK))
        goto error;
    for (size_t i = 0; i < batches.count; i++)
        if (batches.data[i] == 0) {
            st = DOP_FAIL(diag, DOP_E_USAGE, "-b needs numbers of sequences from 1 on");
            goto error;
        }
    for (size_t i = 0; i < drafts.count; i++)
        if (drafts.data[i] > 100) {
            st = DOP_FAIL(diag, DOP_E_USAGE, "--drafts needs percentages, not %u", drafts.data[i]);
            goto error;
        }
    dop_bench_options o = {
        .prompts = prompts.data,
        .n_prompts = prompts.count,
        .gens = gens.data,
        .n_gens = gens.count,
        .depths = depths.data,
        .n_depths = depths.count,
        .batches = batches.data,
        .n_batches = batches.count,
        .drafts = drafts.data,
        .n_drafts = drafts.count,
        .loras = cli->lora.items,
        .n_loras = cli->lora.count,
        .sampled = cli->bench_sampled,
        .rounds = cli->bench_rounds ? cli->bench_rounds : 5,
        .floor_gbps = cli->bench_floor,
        .progress = cli->verbose || (!cli->quiet && isatty(STDERR_FILENO)),
        .start_ms = cli->start_ms,
    };
    dop_cli_open_options(cli, &o.open);
    if ((st = dop_bench_run(cli->plans.items, cli->plans.count, &o, diag, &bench)) != DOP_OK)
        goto error;
    for (size_t i = 0; i < bench.n_plans; i++)
        bench.plans[i].path = dop_cli_models_name(cli, bench.plans[i].path);
    print(&bench, &text);
    st = dop_cli_print_buf(&text, diag);
error:
    dop_buf_finish(&text);
    dop_bench_finish(&bench);
    dop_ids_finish(&prompts);
    dop_ids_finish(&gens);
    dop_ids_finish(&depths);
    dop_ids_finish(&batches);
    dop_ids_finish(&drafts);
    return st;
}
