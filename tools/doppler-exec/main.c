/* doppler-exec: parses options, chooses a mode, reports the result. */
#include "base/os/system.h"
#include "base/program/process.h"
#include "tools/doppler-exec/cli_bench.h"
#include "tools/doppler-exec/cli_modes.h"
#include "tools/doppler-exec/cli_mpi.h"
#include "tools/doppler-exec/cli_outputs.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/on_demand/compiler.h"
#include "tools/doppler-exec/on_demand/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef DOP_COMMIT /* defined by the build if the commit is known */
#define RELEASE "doppler-exec " DOP_VERSION " (" DOP_COMMIT ")"
#else
#define RELEASE "doppler-exec " DOP_VERSION
#endif

#define OPT(...) DOP_OPTION(dop_cli, __VA_ARGS__)
#define NUM(...) DOP_NUMBER_OPTION(dop_cli, __VA_ARGS__)
#define HEADING DOP_OPTION_HEADING

static const dop_option options[] = {
    HEADING("Prompt"),
    OPT('p', "prompt", TEXT, prompt, "TEXT", "text to continue"),
    OPT('f', "file", TEXT, file, "FILE", "the same from a file (- for standard input), byte for byte"),
    OPT(0, "tokens", TEXT, tokens, "IDS", "token ids to continue, for example \"1 2 3\"; nothing is added to them"),
    OPT(0, "tokens-file", TEXT, tokens_file, "FILE", "the same from a file"),
    OPT(0, "no-special", FLAG, no_special, NULL, "special tokens that are written in the prompt are letters"),
    HEADING("Generation"),
    NUM('n', "predict", COUNT, n_predict, "N",
        "tokens to generate (default 128); -1: until the model or the context ends", -1, UINT32_MAX - 2),
    NUM(0, "temp", REAL, temperature, "X", "temperature; 0 is greedy (default: the model's own)", 0, 1000),
    NUM(0, "top-k", COUNT, top_k, "N", "sample from the N most likely tokens; 0 or -1: all", -1, UINT32_MAX - 2),
    NUM(0, "top-p", REAL, top_p, "X",
        "sample from the most likely tokens that make up this probability; 1: all, 0: the likeliest", 0, 1),
    NUM(0, "min-p", REAL, min_p, "X", "sample from tokens with at least this share of the largest probability", 0, 1),
    NUM(0, "repeat-penalty", REAL, repeat_penalty, "X", "divide the logits of recent tokens by this; 1: off", 0.01,
        1000),
    NUM(0, "repeat-last-n", COUNT, repeat_last_n, "N", "how many tokens are recent (default 64); -1: all", -1,
        UINT32_MAX - 2),
    NUM(0, "presence-penalty", REAL, presence_penalty, "X",
        "subtract this from the logits of tokens that were generated; 0: off (default)", -2, 2),
    NUM(0, "frequency-penalty", REAL, frequency_penalty, "X",
        "subtract this from them for each time that they were; 0: off (default)", -2, 2),
    OPT(0, "logit-bias", LIST, logit_bias, "ID=X",
        "add X to the logit of a token id, as also ID+X or ID-X; repeatable"),
    OPT('s', "seed", TEXT, seed, "N", "seed of the random numbers (default 0; -1: a random one)"),
    OPT(0, "ignore-eos", FLAG, ignore_eos, NULL, "continue after the model's end token"),
    OPT(0, "stop", LIST, stop, "TEXT", "end before this text; repeatable"),
    OPT(0, "image", LIST, images, "FILE",
        "a picture (PNG, JPEG, WebP, GIF) in the prompt, where that has the model's mark, or in front; repeatable"),
    OPT(0, "features", TEXT, features, "FILE",
        "write the rows that stand for the pictures, or those of the audio's encoder, raw f32 [rows, hidden]"),
    OPT(0, "json-schema", TEXT, json_schema, "FILE", "generate JSON that is valid for this schema"),
    OPT(0, "grammar", TEXT, grammar, "FILE", "generate only what this grammar (GBNF) allows"),
    OPT(0, "json-mode", FLAG, json_mode, NULL, "generate a JSON object"),
    OPT(0, "chat", FLAG, chat, NULL, "put the prompt into the model's chat template"),
    OPT('i', "interactive", FLAG, interactive, NULL, "hold a conversation"),
    OPT(0, "system", TEXT, system, "TEXT", "a system message for conversations that have none of their own"),
    OPT(0, "chat-template", TEXT, chat_template, "NAME|FILE",
        "use this instead of the model's: chatml, llama3, ..., or a Jinja file"),
    OPT(0, "session", TEXT, session, "FILE",
        "continue the sequence in FILE, if it exists, and save it there afterwards"),
    OPT(0, "lora", LIST, lora, "FILE[:SCALE]",
        "load a LoRA adapter into a plan that has room for it (dopplerc --adapters), times SCALE; repeatable"),
    OPT(0, "control-vector", LIST, control_vector, "FILE[:SCALE]",
        "load a control vector (GGUF) into a plan that has room for it (dopplerc --adapters), times SCALE; repeatable"),
    OPT(0, "control-vector-scaled", LIST, control_vector, "FILE:SCALE", "the same, by llama.cpp's name"),
    OPT(0, "control-vector-layer-range", TEXT, control_layers, "A-B",
        "the layers, counted from 0, behind which control vectors are added (default: from 1 on)"),
    OPT(0, "draft", TEXT, draft, "PLAN",
        "a smaller model with the same vocabulary that writes drafts, several of which are checked at a time; none: no "
        "drafts by the "
        "model's own layer for that either"),
    NUM(0, "draft-ngram", COUNT, draft_ngram, "N",
        "use as drafts what followed the last N tokens when they occurred before", 1, 64),
    HEADING("Speech"),
    OPT(0, "audio", TEXT, audio, "FILE",
        "write what is said in FILE (WAV, FLAC, OGG, MP3; - for standard input); -p: words that could have been said "
        "before"),
    OPT(0, "language", TEXT, language, "NAME",
        "the language that is spoken, as de, de-AT or german (default: auto, found in the audio)"),
    OPT(0, "translate", FLAG, translate, NULL, "write it in English"),
    OPT(0, "srt", FLAG, srt, NULL, "write subtitles, as SRT"),
    OPT(0, "vtt", FLAG, vtt, NULL, "write subtitles, as WebVTT"),
    OPT(0, "no-timestamps", FLAG, no_timestamps, NULL, "find no times within 30 seconds"),
    NUM(0, "audio-batch", COUNT, audio_batch, "N", "write down N pieces of the audio at the same time, each by itself",
        1, 64),
    OPT(0, "mel", TEXT, mel, "FILE", "hear this chunk before --tokens: log-mel values, raw f32 [bins, frames]"),
    HEADING("Pictures"),
    OPT(0, "draw", TEXT, draw, "TEXT", "draw a picture of this with a diffusion model, into the file of -o"),
    OPT('o', "output", TEXT, output, "FILE.png", "the picture; the file carries text, seed and the like"),
    OPT(0, "negative", TEXT, negative, "TEXT", "what not to draw, with guidance"),
    NUM(0, "steps", COUNT, steps, "N", "steps from noise to the picture (default: 1, 4 or 20, by the model)", 1, 1000),
    NUM(0, "guidance", REAL, guidance, "X", "how much to stress the text (default: 7.5, or 1 by the model)", 0.1, 100),
    OPT(0, "sampler", TEXT, sampler, "NAME", "how noise is removed (default: by the model)",
        .values = "euler ancestral ddim lcm"),
    OPT(0, "init", TEXT, init, "FILE", "begin with this picture (PNG, JPEG, WebP, GIF) in the place of noise"),
    OPT(0, "mask", TEXT, mask, "FILE", "draw only where this picture, of the size of --init, is transparent"),
    NUM(0, "strength", REAL, strength, "X", "how much of the picture of --init to change (default 0.8, with --mask 1)",
        0.001, 1),
    HEADING("Output"),
    OPT(0, "no-display-prompt", FLAG, no_display_prompt, NULL, "print only what is generated"),
    OPT(0, "print-ids", FLAG, print_ids, NULL, "print the generated ids on one line instead of text"),
    OPT(0, "logits", TEXT, logits, "FILE", "write the prompt's logits, raw f32 [tokens, vocabulary]"),
    OPT(0, "json", FLAG, json, NULL, "print one JSON object"),
    NUM(0, "logprobs", COUNT, logprobs, "N", "in --json: log-probability of each token and of the N most likely ones",
        0, 1000),
    OPT(0, "quiet", FLAG, quiet, NULL, "no timing summary"),
    OPT('v', "verbose", FLAG, verbose, NULL, "show what is decided, and where in the source errors come from"),
    HEADING("Device"),
    OPT(0, "device", TEXT, device, "N|NAME", "which device (default: the best one)"),
    OPT(0, "list-devices", FLAG, list_devices, NULL, "one line per device"),
    NUM(0, "gpu-loop", COUNT, gpu_loop, "N", "greedy tokens per read-back (default: depends on device and model)", 1,
        256),
    NUM(0, "chunk", COUNT, chunk, "N", "feed the prompt in pieces of at most N tokens; 1: token by token", 1, 4096),
    OPT(0, "ordering", TEXT, ordering, "HOW",
        "order the dispatches of a step by barriers, or run them as one persistent dispatch (default auto: the "
        "faster)",
        .values = DOP_CLI_ORDERINGS),
    NUM('j', "threads", COUNT, threads, "N", "threads while loading (default: one per core)", 1, 256),
    HEADING("Prompts that come again (-i, --serve)"),
    OPT(0, "cache-memory", TEXT, cache_memory, "SIZE",
        "host memory of each model for states of prompts, as 8G; 0: none (default: a quarter of what is free, at most "
        "16G)"),
    OPT(0, "prompt-cache", TEXT, prompt_cache, "DIR",
        "keep states of prompts in files too, so that they survive a restart; several processes may share DIR"),
    OPT(0, "prompt-cache-size", TEXT, prompt_cache_size, "SIZE",
        "most bytes of files in DIR, of which the least recently used are removed (default 32G)"),
    HEADING("Server"),
    OPT(0, "serve", TEXT, serve, "[HOST:]PORT",
        "OpenAI-style server and chat page, on 127.0.0.1 unless HOST is given; port 0: any free one"),
    OPT(0, "api-key-file", TEXT, api_key_file, "FILE",
        "require one of the keys in FILE, one a line; # begins a comment"),
    NUM(0, "serve-queue", COUNT, serve_queue, "N", "requests that may wait for a sequence (default 256)", 1, 1e6),
    NUM(0, "serve-body", COUNT, serve_body, "KIB",
        "longest body of a request (default 4096; 32768 with a model that takes pictures)", 1, 1 << 20),
    OPT(0, "image-urls", TEXT, image_urls, "WHICH",
        "fetch pictures that requests name by http: and https: addresses: public, or any, private networks included",
        .values = "public any"),
    OPT(0, "image-files", TEXT, image_files, "DIR", "read pictures that requests name by file: URLs, below DIR"),
    NUM(0, "serve-tokens", COUNT, serve_tokens, "N", "most tokens of an answer (default: what the context holds)", 1,
        UINT32_MAX - 2),
    NUM(0, "serve-time", REAL, serve_time, "S", "seconds that a request may take; 0: no limit (default 600)", 0, 1e9),
    NUM(0, "serve-receive", REAL, serve_receive, "S", "seconds in which a request must arrive (default 30)", 0.1, 1e6),
    NUM(0, "serve-prepare", REAL, serve_prepare, "S",
        "seconds that reading a request may take before it waits for its turn; 0: no limit (default 10)", 0, 1e6),
    NUM(0, "serve-memory", COUNT, serve_memory, "MIB",
        "memory that reading a request may take; 0: no limit (default 64)", 0, 1 << 20),
    NUM(0, "serve-answer", COUNT, serve_answer, "KIB",
        "largest answer, as estimated before it begins; 0: no limit (default 131072)", 0, 1 << 30),
    OPT(0, "serve-host", LIST, serve_hosts, "NAME",
        "a further name under which clients may address the server, may be repeated; *: any"),
    OPT(0, "cors", LIST, cors, "ORIGIN",
        "let pages of this site ask, as https://chat.example.org; repeatable; *: of any site"),
    OPT(0, "prefix", TEXT, prefix, "PATH", "begin all paths with this, for example /llm"),
    OPT(0, "log", TEXT, log, "text|json", "write a line for each request; json: all lines are JSON objects",
        .values = "text json"),
    NUM(0, "serve-comment", REAL, serve_comment, "S",
        "seconds after which a stream without news gets a comment; 0: never (default 10)", 0, 1e6),
    OPT(0, "models", TEXT, models, "DIR|FILE.yaml",
        "serve the plans and models of a folder, or of a file (models: a list of id, plan, model or hf, aliases, "
        "options of a model), each loaded, and compiled if need be, when it is asked for"),
    NUM(0, "models-memory", COUNT, models_memory, "MIB",
        "device memory of the models together; others are unloaded; 0: no limit (default)", 0, 1 << 24),
    NUM(0, "models-idle", REAL, models_idle, "S",
        "seconds after which an unused model is unloaded; 0: never (default 900)", 0, 1e9),
    OPT(0, "systemd", FLAG, systemd, NULL,
        "take the socket that systemd passes, if it does, and tell it when the server is ready, reloads and stops"),
    NUM(0, "store", COUNT, store, "N",
        "keep the last N responses of /v1/responses in memory, so that requests may name one; 0: none (default)", 0,
        1e6),
    NUM(0, "serve-connections", COUNT, serve_connections, "N", "most connections at once (default 1024)", 4, 1e6),
    NUM(0, "serve-grace", REAL, serve_grace, "S", "seconds that answers may continue after SIGTERM (default 30)", 0,
        1e6),
    DOP_CLI_MODEL_OPTIONS,
    HEADING("Instead of generating"),
    OPT(0, "ppl", TEXT, ppl, "FILE", "perplexity of a text, as one JSON line"),
    NUM(0, "ppl-ctx", COUNT, ppl_ctx, "N",
        "window of --ppl, --imatrix-out and --compare in tokens (default: the context, at most 512 and 256 for the "
        "last "
        "two)",
        2, UINT32_MAX - 1),
    OPT(0, "compare", TEXT, compare, "PLAN2",
        "with a text (-f FILE): how far the logits of PLAN2 are from those of PLAN, whether both write the same, and "
        "how "
        "fast each is"),
    OPT(0, "imatrix-out", TEXT, imatrix, "FILE",
        "with a text (-f FILE): measure how much the inputs of each product matter, for dopplerc --quant ... --imatrix "
        "FILE; of a plan that dopplerc --no-fuse made"),
    OPT(0, "embed", OPTIONAL, embed, "cls|mean|last|all",
        "the prompt's embedding as JSON, pooled and normalized as the model's files say unless told; of -f FILE.jsonl "
        "a "
        "vector a line; all: every row, raw f32, to --logits FILE",
        .values = "cls mean last all"),
    OPT(0, "prompt-name", TEXT, prompt_name, "NAME",
        "with --embed: the prompt that the model's files have under that name in front of every text (default: their "
        "default_prompt_name)"),
    OPT(0, "rerank", TEXT, rerank, "QUERY", "how well each text of -f FILE.jsonl goes with QUERY, one JSON line each"),
    OPT(0, "score", FLAG, classify, NULL, "the scores that a cross-encoder or classifier gives the prompt, as JSON"),
    OPT(0, "bench", FLAG, bench, NULL, "speed of one or several plans; -p and -n are then lists, see below"),
    OPT(0, "profile", TEXT, profile, "FILE",
        "time of every dispatch: prints a table, and writes a timeline to FILE.html, trace events to FILE.json, or "
        "stage "
        "times for dopplerc --simulate to FILE.yaml"),
    OPT('b', "batch", TEXT, bench_batches, "N", "with --profile: steps with a row of each of N sequences (default 1)"),
    OPT(0, "trace-kernels", FLAG, trace_kernels, NULL, "one line per dispatch: op, layer, shape, variant, why"),
    OPT(0, "report", FLAG, report, NULL,
        "what the device's driver made of each kernel: registers, spilled ones, scratch and shared memory"),
    OPT(0, "info", FLAG, info, NULL, "what the plan contains and needs"),
    OPT(0, "disasm", FLAG, disasm, NULL, "the plan's dispatches as text"),
    OPT(0, "check", FLAG, check, NULL, "compare every kernel with the reference, on random inputs and this device"),
    OPT(0, "tokenize", TEXT, tokenize, "FILE",
        "turn lines of {\"text\", \"add_special\", \"parse_special\"} into arrays of ids"),
    OPT(0, "detokenize", TEXT, detokenize, "FILE", "the inverse: turn arrays of ids into {\"text\"}"),
    OPT(0, "render-chat", TEXT, render_chat, "FILE",
        "print what the chat template makes of [{\"role\", \"content\"}, ...]"),
    OPT(0, "tokenizer", TEXT, tokenizer, "FILE", "use a tokenizer's file, its folder, or a .gguf, instead of a plan"),
    OPT(0, "cache-list", FLAG, cache_list, NULL, "the plans of models that are kept, one a line"),
    OPT(0, "cache-clear", OPTIONAL, cache_clear, "all",
        "remove them, and compiled pipelines; all: and models that were downloaded", .values = "all"),
    OPT('h', "help", FLAG, help, NULL, "this text"),
    OPT(0, "version", FLAG, version, NULL, "print the release, its commit and the shader compiler"),
    DOP_OPTION_POINTER('m', "model", "the plan comes without an option: doppler-exec PLAN, and so does a model"),
    DOP_OPTION_POINTER(
        'c', "ctx-size",
        "the context is part of the plan: dopplerc MODEL --ctx N -o PLAN, or doppler-exec MODEL --ctx N"),
    DOP_OPTION_POINTER('t', NULL, "-j N is for threads while loading; the device does the rest"),
    DOP_OPTION_POINTER(0, "n-predict", "use -n N"),
    DOP_OPTION_POINTER(0, "max-tokens", "use -n N"),
    DOP_OPTION_POINTER(0, "host", "--serve HOST:PORT has both"),
    DOP_OPTION_POINTER(0, "port", "--serve [HOST:]PORT starts the server"),
    DOP_OPTION_POINTER(0, "api-key", "keys are in a file, where other users cannot list them: --api-key-file FILE"),
    DOP_OPTION_POINTER(0, "metrics", "the server always answers /metrics"),
    DOP_OPTION_POINTER(0, "ssl-cert-file", "the server speaks plain HTTP: a proxy in front of it has the certificate"),
    DOP_OPTION_POINTER(0, "ssl-certfile", "the server speaks plain HTTP: a proxy in front of it has the certificate"),
    DOP_OPTION_POINTER(0, "parallel",
                       "sequences are part of the plan: dopplerc MODEL --sequences N -o PLAN, or doppler-exec MODEL "
                       "--sequences N"),
    DOP_OPTION_POINTER(0, "np", "sequences are part of the plan, as --parallel says"),
    DOP_OPTION_POINTER(0, "fa", "attention is always one kernel"),
    DOP_OPTION_POINTER(0, "flash-attn", "attention is always one kernel"),
    DOP_OPTION_POINTER(0, "cnv", "-i holds a conversation"),
    DOP_OPTION_POINTER(0, "no-cnv", "a prompt is continued as it is without --chat and -i"),
    DOP_OPTION_POINTER(0, "sys", "use --system TEXT"),
    DOP_OPTION_POINTER(0, "hfr", "use -hf USER/REPO[:FILE]"),
    DOP_OPTION_POINTER(0, "dev", "use --device N|NAME"),
    DOP_OPTION_POINTER(0, "ctk", "use --kv k=TYPE,v=TYPE, which is part of the plan"),
    DOP_OPTION_POINTER(0, "ctv", "use --kv k=TYPE,v=TYPE, which is part of the plan"),
    DOP_OPTION_POINTER(0, "ot", "the whole model runs on the device of --device"),
    DOP_OPTION_POINTER(0, "grammar-file", "--grammar takes a file"),
    DOP_OPTION_POINTER(0, "json-schema-file", "--json-schema takes a file"),
    DOP_OPTION_POINTER(0, "cache-type-k", "use --kv k=TYPE,v=TYPE, which is part of the plan"),
    DOP_OPTION_POINTER(0, "cache-type-v", "use --kv k=TYPE,v=TYPE, which is part of the plan"),
    DOP_OPTION_POINTER(0, "jinja", "templates are Jinja always"),
    DOP_OPTION_POINTER(0, "stream", "a text is printed as it is written"),
    DOP_OPTION_POINTER(0, "list-models", "dopplerc --list-models prints them"),
    DOP_OPTION_POINTER(0, "list-targets", "dopplerc --list-targets prints them"),
    DOP_OPTION_POINTER(0, "list-types", "dopplerc --list-types prints them"),
    DOP_OPTION_POINTER(0, "list-kernels", "dopplerc --list-kernels prints them"),
    DOP_OPTIONS_OF_GPU_LAYERS("the whole model runs on the device of --device"),
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static void
cli_init(dop_cli *cli)
{
    memset(cli, 0, sizeof *cli);
    cli->start_ms = dop_now_ms();
    cli->release = RELEASE;
    cli->n_predict = cli->logprobs = cli->top_k = cli->repeat_last_n = cli->ppl_ctx = DOP_CLI_UNSET;
    cli->serve_queue = 256;
    cli->serve_connections = 1024;
    cli->serve_time = 600;
    cli->serve_receive = cli->serve_grace = 30;
    cli->serve_prepare = cli->serve_comment = 10;
    cli->models_idle = 900;
    cli->serve_memory = 64;
    cli->serve_answer = 131072;
    cli->guidance = cli->strength = cli->temperature = cli->top_p = cli->min_p = cli->repeat_penalty = (double)NAN;
}

static dop_status
print_help(dop_diag *diag)
{
    dop_buf text = {0};
    dop_buf_puts(&text,
                 "usage: doppler-exec PLAN|MODEL [options]\n\n"
                 "Runs a plan made by dopplerc on a Vulkan device and prints what the model writes.  A MODEL (a\n"
                 "Hugging Face or RDRR directory, or a .gguf file) is compiled first, and its plan is kept.\n");
    if (!dop_cli_has_server)
        dop_buf_puts(&text, "This build has no server: --serve and the options of it are refused.\n");
    size_t n_bench;
    const dop_option *bench = dop_cli_bench_options(&n_bench);
    dop_options_help(options, N_OPTIONS, &text);
    size_t n_own = 1; /* rows of --bench itself; the model options after them are listed above */
    while (n_own < n_bench && (bench[n_own].name || bench[n_own].letter))
        n_own++;
    dop_options_help(bench, n_own, &text);
    dop_status st = dop_cli_print_buf(&text, diag);
    dop_buf_finish(&text);
    return st;
}

/* Finds a directory of the XDG Base Directory Specification: caches for plans, downloads and pipelines, state for
 * the lines of -i. Other variables in use: launcher marks (launched), HF_ENDPOINT and HF_TOKEN for -hf, and with
 * --systemd systemd's own. */
static void
find_dir(const char *variable, const char *below_home, const char *name, dop_buf *out)
{
    const char *xdg = getenv(variable), *home = getenv("HOME");
    if (xdg && dop_path_is_absolute(xdg))
        dop_buf_printf(out, "%s/%s", xdg, name);
    else if (home && dop_path_is_absolute(home))
        dop_buf_printf(out, "%s/%s/%s", home, below_home, name);
}

/* True if an MPI launcher (Open MPI, PMIx, MPICH) started this process. MPI reports the number of ranks later. */
static bool
is_launched_by_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK");
}

static void
read_systemd_environment(dop_cli *cli)
{
    cli->notify_socket = getenv("NOTIFY_SOCKET");
    cli->listen_pid = getenv("LISTEN_PID");
    cli->listen_fds = getenv("LISTEN_FDS");
}

int
main(int argc, char **argv)
{
    dop_cli cli;
    dop_options_given given;
    dop_mode_fn *mode = dop_mode_bench;
    dop_diag diag = {0};
    dop_buf cache_dir = {0}, history = {0};
    bool quiet = false;
    dop_process_prepare("doppler-exec");
    cli_init(&cli);
    size_t n_rows = N_OPTIONS;
    const dop_option *rows = dop_cli_wants_bench(argc, argv) ? dop_cli_bench_options(&n_rows) : options;
    dop_status st = dop_options_parse(rows, n_rows, argc, argv, &diag, &cli, &cli.plans, &given);
    if (cli.log && strcmp(cli.log, "json") == 0)
        dop_say_as_json();
    if (st == DOP_OK && cli.help) {
        st = print_help(&diag);
    } else if (st == DOP_OK && cli.version) {
        dop_buf text = {0};
        dop_buf_puts(&text, RELEASE "\n");
        dop_load_and_describe_compiler(&text);
        st = text.failed ? DOP_NO_MEMORY(&diag) : dop_cli_print(text.data, text.size, &diag);
        dop_buf_finish(&text);
    } else if (st == DOP_OK) {
        find_dir("XDG_CACHE_HOME", ".cache", "doppler", &cache_dir);
        find_dir("XDG_STATE_HOME", ".local/state", "doppler/history", &history);
        if (!cli.cache_dir)
            cli.cache_dir = cache_dir.size ? cache_dir.data : NULL;
        cli.history_file = history.size && !history.failed ? history.data : NULL;
        cli.launched = is_launched_by_mpi();
        cli.hf_endpoint = getenv("HF_ENDPOINT");
        cli.hf_token = getenv("HF_TOKEN");
        if (cli.systemd)
            read_systemd_environment(&cli);
        if (!cli.bench)
            st = dop_cli_choose(options, N_OPTIONS, &cli, &given, &diag, &mode);
        bool done = false;
        if (st == DOP_OK)
            st = dop_cli_refuse_outputs(&cli, &diag); /* an output that would replace a model */
        if (st == DOP_OK && !cli.launched)
            st = dop_cli_try_outputs(&cli, &diag);
        if (st == DOP_OK)
            st = dop_cli_models_take(&cli, rows, n_rows, &given, &diag);
        if (st == DOP_OK)
            st = dop_cli_mpi_start(&cli, mode, &diag, &done);
        if (st == DOP_OK && !done)
            st = dop_cli_refuse_outputs(&cli, &diag);
        if (st == DOP_OK && !done && cli.launched) /* only the writing rank needs the folders */
            st = dop_cli_try_outputs(&cli, &diag);
        if (st == DOP_OK && !done)
            do
                st = mode(&cli, &diag);
            while (dop_cli_models_again(&cli, &st, &diag));
        quiet = done; /* rank 0 reports it */
    }
    if (st != DOP_OK && !quiet) {
        dop_cli_end_line();
        dop_diag_print(&diag, "doppler-exec", cli.verbose);
    }
    dop_cli_mpi_end(&cli, st);
    dop_texts_finish(&cli.plans);
    dop_texts_finish(&cli.images);
    dop_texts_finish(&cli.stop);
    dop_texts_finish(&cli.lora);
    dop_texts_finish(&cli.control_vector);
    dop_texts_finish(&cli.logit_bias);
    dop_texts_finish(&cli.cors);
    dop_texts_finish(&cli.force);
    dop_texts_finish(&cli.no_fuse);
    dop_texts_finish(&cli.skip);
    dop_texts_finish(&cli.avoid);
    dop_cli_models_finish(&cli);
    free(cli.biases);
    dop_buf_finish(&cache_dir);
    dop_buf_finish(&history);
    /* After a device loss, the driver's exit handlers may wait forever. */
    if (st == DOP_E_DEVICE) {
        fflush(NULL);
        _exit(dop_status_exit(st));
    }
    return dop_status_exit(st);
}
