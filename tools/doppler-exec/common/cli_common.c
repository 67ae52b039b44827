#include "tools/doppler-exec/common/cli_common.h"
#include "base/format/adapter.h"
#include "base/os/system.h"
#include "base/program/names.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/common/text_file.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

bool
dop_cli_shows_progress(const dop_cli *cli)
{
    return !cli->quiet && !cli->verbose && isatty(STDERR_FILENO);
}

void
dop_cli_hint(const dop_cli *cli, const dop_model *model)
{
    static const char *const for_gpus[] = {"tier1", "tier2", "tier3", "nvidia-hopper", "amd-rdna3", "intel-xe2"};
    dop_facts facts;
    dop_model_facts(model, &facts);
    bool software = strcmp(facts.target, "lavapipe") == 0, gpu = false;
    for (size_t i = 0; i < sizeof for_gpus / sizeof for_gpus[0]; i++)
        gpu = gpu || strcmp(facts.target, for_gpus[i]) == 0;
    if (!cli->quiet && (facts.software ? gpu : software))
        dop_say("note",
                "%s: note: made for target %s, and %s is %s: dopplerc without --target makes a faster plan here",
                cli->plans.items[0], facts.target, facts.device, facts.software ? "a software device" : "a GPU");
}

static void
print_log_line(void *user, const char *text)
{
    (void)user;
    dop_say("info", "%s", text);
}

dop_status
dop_cli_plan(const dop_cli *cli, dop_diag *diag, const char **out_path)
{
    if (cli->plans.count == 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "no plan given: doppler-exec PLAN|MODEL [options]; see --help");
    if (cli->plans.count > 1)
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "one plan at a time, and there is also \"%s\": a prompt is given with -p TEXT",
                        cli->plans.items[1]);
    *out_path = cli->plans.items[0];
    return DOP_OK;
}

void
dop_cli_open_options(const dop_cli *cli, dop_open_options *out_options)
{
    *out_options = (dop_open_options){
        .device = cli->device,
        .cache_dir = cli->cache_dir,
        .threads = cli->threads,
        .max_chunk = cli->chunk,
        .steps_per_submit = cli->gpu_loop,
        .wire = cli->wire,
        .chosen = cli->chosen,
        .chosen_user = cli->chosen_user,
        .refused = cli->refused,
        .refused_user = cli->chosen_user,
    };
    if (cli->verbose)
        out_options->log.line = print_log_line;
    if (cli->ordering)
        out_options->ordering = strcmp(cli->ordering, "barriers") == 0     ? DOP_ORDERING_BARRIERS
                                : strcmp(cli->ordering, "persistent") == 0 ? DOP_ORDERING_PERSISTENT
                                                                           : DOP_ORDERING_AUTO;
}

/* Parses a size in bytes such as 500M; K, M, G and T are powers of 1024. */
static dop_status
read_size(const char *option, const char *text, dop_diag *diag, uint64_t *out)
{
    static const char units[] = "KMGT";
    char *end;
    const double n = strtod(text, &end);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    const double bytes = unit ? ldexp(n, 10 * (int)(unit - units + 1)) : n;
    if (unit)
        end++;
    if (end == text || strcmp(end, "iB") * strcmp(end, "B") * strcmp(end, "") != 0 || !(bytes >= 0 && bytes < 0x1p60))
        return DOP_FAIL(diag, DOP_E_USAGE, "%s %s: expected a size, as 8G or 500M", option, text);
    *out = (uint64_t)bytes;
    return DOP_OK;
}

dop_status
dop_cli_keep_prompts(const dop_cli *cli, dop_diag *diag, dop_open_options *io_options)
{
    enum { MOST_CHECKPOINTS = 64, SHARE_OF_FREE = 4 };
    static const uint64_t most_by_default = 16ull << 30;
    dop_open_options *o = io_options;
    o->checkpoints = MOST_CHECKPOINTS;
    o->prompt_cache = cli->prompt_cache;
    o->cache_memory = dop_memory_free() / SHARE_OF_FREE;
    if (o->cache_memory > most_by_default)
        o->cache_memory = most_by_default;
    if (cli->cache_memory)
        DOP_RETURN_IF_ERROR(read_size("--cache-memory", cli->cache_memory, diag, &o->cache_memory));
    if (cli->prompt_cache_size)
        DOP_RETURN_IF_ERROR(read_size("--prompt-cache-size", cli->prompt_cache_size, diag, &o->prompt_cache_bytes));
    if (cli->prompt_cache_size && o->prompt_cache_bytes == 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "--prompt-cache-size %s keeps nothing: leave --prompt-cache out",
                        cli->prompt_cache_size);
    return DOP_OK;
}

/* Parses --control-vector-layer-range. */
static dop_status
read_layers(const char *text, dop_diag *diag, uint32_t *out_first, uint32_t *out_last)
{
    int end = 0;
    *out_first = 1;
    *out_last = UINT32_MAX;
    if (text && (sscanf(text, "%9u-%9u%n", out_first, out_last, &end) != 2 || text[end] || *out_first > *out_last))
        return DOP_FAIL(diag, DOP_E_USAGE, "--control-vector-layer-range %s: expected layers as 1-12", text);
    return DOP_OK;
}

/* Loads an adapter given as "FILE" or "FILE:SCALE". */
static dop_status
load_adapter(const dop_cli *cli, dop_model *model, const char *text, bool control, dop_diag *diag, dop_adapter_use *out)
{
    dop_arena arena;
    const char *path = NULL;
    double scale = 1;
    uint32_t first, last;
    dop_arena_init(&arena);
    dop_status st = DOP_OK;
    DOP_TRY(read_layers(cli->control_layers, diag, &first, &last));
    DOP_TRY(dop_adapter_argument(text, &arena, diag, &path, &scale));
    DOP_TRY(control ? dop_control_vector_load(model, path, first, last, diag, &out->adapter)
                    : dop_adapter_load(model, path, diag, &out->adapter));
error:
    out->scale = (float)scale;
    dop_arena_finish(&arena);
    return st;
}

dop_status
dop_cli_adapters(const dop_cli *cli, dop_model *model, dop_diag *diag, dop_adapter_use **out_uses, size_t *out_n)
{
    const size_t n_loras = cli->lora.count, n = n_loras + cli->control_vector.count;
    dop_status st = DOP_OK;
    *out_n = 0;
    *out_uses = calloc(n + 1, sizeof **out_uses);
    if (!*out_uses)
        return DOP_NO_MEMORY(diag);
    for (size_t i = 0; i < n && st == DOP_OK; i++) {
        const bool control = i >= n_loras;
        const char *text = control ? cli->control_vector.items[i - n_loras] : cli->lora.items[i];
        st = load_adapter(cli, model, text, control, diag, &(*out_uses)[i]);
        *out_n += st == DOP_OK;
    }
    return st;
}

dop_status
dop_cli_sequence(const dop_cli *cli, dop_model *model, dop_diag *diag, dop_sequence **out_sequence)
{
    dop_adapter_use *uses = NULL;
    size_t n = 0;
    dop_status st = dop_sequence_create(model, diag, out_sequence);
    if (st == DOP_OK && cli->lora.count + cli->control_vector.count > 0 &&
        (st = dop_cli_adapters(cli, model, diag, &uses, &n)) == DOP_OK)
        st = dop_sequence_set_adapters(*out_sequence, uses, n, diag);
    free(uses);
    return st;
}

dop_status
dop_cli_open_for(const dop_cli *cli, uint32_t first_tokens, bool no_scoring, bool no_steps, dop_diag *diag,
                 dop_model **out_model, dop_sequence **out_sequence)
{
    const char *path = NULL;
    dop_open_options o;
    dop_status st = dop_cli_plan(cli, diag, &path);
    if (st != DOP_OK)
        return st;
    dop_cli_open_options(cli, &o);
    /* Draft models and n-gram drafts need more kernels than dop_model_open can derive. For a new plan, all kernels
     * are created if the needed ones are unknown, so that the driver rejects one before any output. */
    o.first_tokens = cli->made && (cli->draft || cli->draft_ngram) ? 0 : first_tokens;
    o.no_scoring = no_scoring;
    o.no_steps = no_steps;
    o.on_demand = !cli->interactive && (o.first_tokens > 0 || !cli->made);
    if (cli->interactive && (st = dop_cli_keep_prompts(cli, diag, &o)) != DOP_OK)
        return st;
    const bool shows = dop_cli_shows_progress(cli);
    if (shows)
        fputs("loading ...", stderr);
    if ((st = dop_model_open(path, &o, diag, out_model)) == DOP_OK)
        st = dop_cli_sequence(cli, *out_model, diag, out_sequence);
    if (shows)
        fputs("\r           \r", stderr);
    if (st != DOP_OK) {
        dop_model_close(*out_model);
        *out_model = NULL;
    }
    return st;
}

dop_status
dop_cli_open(const dop_cli *cli, dop_diag *diag, dop_model **out_model, dop_sequence **out_sequence)
{
    return dop_cli_open_for(cli, 0, false, true, diag, out_model, out_sequence);
}

dop_status
dop_cli_text(const dop_cli *cli, const dop_model *model, const char *needed_for, dop_diag *diag, dop_text **out_text)
{
    dop_facts facts;
    *out_text = NULL;
    dop_model_facts(model, &facts);
    if (facts.has_text)
        return dop_text_of_model(model, diag, out_text);
    if (needed_for)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, cli->plans.items[0],
                           "the plan has no tokenizer (the model came without one), which %s needs: give ids with "
                           "--tokens",
                           needed_for);
    return DOP_OK;
}

dop_status
dop_cli_text_open(const dop_cli *cli, dop_diag *diag, dop_text **out_text)
{
    const char *path = NULL;
    *out_text = NULL;
    if (cli->tokenizer)
        return dop_text_of_file(cli->tokenizer, diag, out_text);
    DOP_RETURN_IF_ERROR(dop_cli_plan(cli, diag, &path));
    return dop_text_open(path, diag, out_text);
}

unsigned
dop_cli_special(const dop_cli *cli)
{
    return cli->no_special ? (unsigned)DOP_TEXT_ADD_SPECIAL : (unsigned)DOP_TEXT_PROMPT;
}

dop_status
dop_cli_encode(const dop_text *text, const char *bytes, size_t len, unsigned flags, dop_diag *diag, dop_ids *out_ids)
{
    uint32_t *ids;
    size_t n;
    dop_status st = dop_text_encode(text, len ? bytes : "", len, flags, diag, &ids, &n);
    dop_cli_take_ids(ids, n, out_ids);
    return st;
}

void
dop_cli_take_ids(uint32_t *ids, size_t n, dop_ids *out_ids)
{
    for (size_t i = 0; i < n; i++)
        dop_ids_push(out_ids, ids[i]);
    dop_free(ids);
}

dop_status
dop_cli_read(const char *path, dop_diag *diag, dop_buf *out)
{
    static dop_buf once; /* standard input can be read only once, and a mode may run again with another plan */
    static bool was_read;
    char chunk[65536];
    bool is_stdin = strcmp(path, "-") == 0;
    if (is_stdin && was_read) {
        dop_buf_append(out, once.data, once.size);
        return out->failed || once.failed ? DOP_NO_MEMORY(diag) : DOP_OK;
    }
    FILE *f = is_stdin ? stdin : fopen(path, "rbe");
    if (!f)
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot open: %s", strerror(errno));
    errno = 0;
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        dop_buf_append(out, chunk, n);
    dop_status st = DOP_OK;
    if (ferror(f))
        DOP_TRY(DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot read: %s", strerror(errno)));
    else if (out->failed)
        DOP_TRY(DOP_NO_MEMORY(diag));
error:
    if (!is_stdin)
        fclose(f);
    else if (st == DOP_OK)
        dop_buf_append(&once, out->data, out->size);
    was_read = was_read || (is_stdin && st == DOP_OK);
    return st;
}

/* Parses ids separated by white space or commas. what: their source, for messages; a mistake in an option (--tokens)
 * is a usage error. */
static dop_status
parse_ids(const char *what, const char *text, size_t len, dop_diag *diag, dop_ids *out_ids)
{
    for (size_t i = 0; i < len;) {
        char c = text[i];
        if (isspace((unsigned char)c) || c == ',') {
            i++;
            continue;
        }
        uint64_t id = 0;
        size_t first = i;
        for (; i < len && isdigit((unsigned char)text[i]) && id <= UINT32_MAX; i++)
            id = id * 10 + (uint64_t)(text[i] - '0');
        bool ends = i == len || isspace((unsigned char)text[i]) || text[i] == ',';
        if (i == first || !ends || id >= UINT32_MAX)
            return DOP_FAIL(diag, strncmp(what, "--", 2) == 0 ? DOP_E_USAGE : DOP_E_INPUT,
                            "%s: token ids are whole numbers, not \"%.*s\"", what,
                            (int)(len - first < 20 ? len - first : 20), text + first);
        dop_ids_push(out_ids, (uint32_t)id);
    }
    return out_ids->failed ? DOP_NO_MEMORY(diag) : DOP_OK;
}

dop_status
dop_cli_prompt(const dop_cli *cli, const dop_text *text, dop_diag *diag, dop_ids *out_ids, dop_buf *out_text)
{
    dop_status st = DOP_OK;
    if (cli->tokens)
        return parse_ids("--tokens", cli->tokens, strlen(cli->tokens), diag, out_ids);
    if (cli->tokens_file) {
        dop_buf file = {0};
        st = dop_cli_read(cli->tokens_file, diag, &file);
        if (st == DOP_OK && file.size > 0)
            st = parse_ids(cli->tokens_file, file.data, file.size, diag, out_ids);
        dop_buf_finish(&file);
        return st;
    }
    if (cli->file)
        st = dop_cli_read(cli->file, diag, out_text);
    else
        dop_buf_puts(out_text, cli->prompt ? cli->prompt : "");
    if (st != DOP_OK || !text)
        return st;
    return dop_cli_encode(text, out_text->data, out_text->size, dop_cli_special(cli), diag, out_ids);
}

dop_status
dop_cli_seed(const char *text, uint64_t *out, dop_diag *diag)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (strcmp(text, "-1") == 0) {
        if (getrandom(out, sizeof *out, 0) != (ssize_t)sizeof *out)
            return DOP_FAIL(diag, DOP_E_IO, "the system gives no random numbers: set --seed");
        return DOP_OK;
    }
    if (!isdigit((unsigned char)text[0]) || *end || errno)
        return DOP_FAIL(diag, DOP_E_USAGE, "--seed needs a whole number, or -1 for a random one, not \"%s\"", text);
    return DOP_OK;
}

/* Parses --logit-bias ID=X or, in llama.cpp's syntax, ID+X or ID-X. */
static dop_status
parse_bias(const char *text, uint32_t vocab, dop_bias *out, dop_diag *diag)
{
    char *at, *end;
    errno = 0;
    const unsigned long long id = strtoull(text, &at, 10);
    const char *number = *at == '=' ? at + 1 : at;
    const double by = strtod(number, &end);
    const bool marked = *at == '=' || *at == '+' || *at == '-';
    if (!isdigit((unsigned char)text[0]) || !marked || end == number || *end || errno || !(fabs(by) <= 1e6))
        return DOP_FAIL(diag, DOP_E_USAGE, "--logit-bias needs ID=X, ID+X or ID-X, not \"%s\"", text);
    if (id >= vocab)
        return DOP_FAIL(diag, DOP_E_USAGE, "--logit-bias %s: token id %llu is outside the vocabulary of %u", text, id,
                        vocab);
    *out = (dop_bias){(uint32_t)id, (float)by};
    return DOP_OK;
}

static dop_status
parse_biases(dop_cli *cli, uint32_t vocab, dop_diag *diag, dop_sampling *out)
{
    free(cli->biases);
    cli->biases = NULL;
    if (cli->logit_bias.count == 0)
        return DOP_OK;
    cli->biases = calloc(cli->logit_bias.count, sizeof *cli->biases);
    if (!cli->biases)
        return DOP_NO_MEMORY(diag);
    for (size_t i = 0; i < cli->logit_bias.count; i++)
        DOP_RETURN_IF_ERROR(parse_bias(cli->logit_bias.items[i], vocab, &cli->biases[i], diag));
    out->biases = cli->biases;
    out->n_biases = cli->logit_bias.count;
    return DOP_OK;
}

dop_status
dop_cli_sampling(dop_cli *cli, const dop_facts *facts, dop_diag *diag, dop_sampling *out_sampling)
{
    dop_sampling *s = out_sampling;
    *s = facts->sampling;
    if (!isnan(cli->temperature))
        s->temperature = (float)cli->temperature;
    if (!isnan(cli->top_p))
        s->top_p = (float)cli->top_p;
    if (!isnan(cli->min_p))
        s->min_p = (float)cli->min_p;
    if (!isnan(cli->repeat_penalty))
        s->repeat_penalty = (float)cli->repeat_penalty;
    if (cli->top_k != DOP_CLI_UNSET)
        s->top_k = cli->top_k == DOP_OPTION_MINUS_1 ? 0 : cli->top_k;
    if (cli->repeat_last_n != DOP_CLI_UNSET)
        s->repeat_last_n = cli->repeat_last_n;
    s->presence_penalty = (float)cli->presence_penalty;
    s->frequency_penalty = (float)cli->frequency_penalty;
    dop_status st = parse_biases(cli, facts->vocab, diag, s);
    return st == DOP_OK && cli->seed ? dop_cli_seed(cli->seed, &s->seed, diag) : st;
}
