/* --embed, --rerank and --score: embeddings and scores of texts. */
#include "base/json/json.h"
#include "tools/doppler-exec/client/cli_logits.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Texts of a run: their tokens and their vectors. */
typedef struct work {
    dop_cli *cli;
    dop_model *model;
    dop_text *text; /* NULL: the plan has no tokenizer */
    dop_facts facts;
    dop_program_facts program; /* width 0: sequences compute embeddings instead */
    dop_ids ids;               /* tokens of all texts, concatenated */
    dop_token_text *texts;     /* owned; their ids point into `ids` when all texts are read */
    size_t n, cap;
    float *vectors; /* owned, [n, width] */
    uint32_t width;
    dop_pooling pooling;
    const char *prompt; /* prefix of every text; owned by `text` */
    double ms;
} work;

static dop_pooling
pooling_named(const char *name)
{
    return strcmp(name, "mean") == 0   ? DOP_POOLING_MEAN
           : strcmp(name, "last") == 0 ? DOP_POOLING_LAST
           : strcmp(name, "cls") == 0  ? DOP_POOLING_CLS
                                       : DOP_POOLING_MODEL;
}

static const char *
pooling_name(const work *w)
{
    static const char *const names[] = {[DOP_POOLING_MODEL] = "last",
                                        [DOP_POOLING_LAST] = "last",
                                        [DOP_POOLING_MEAN] = "mean",
                                        [DOP_POOLING_CLS] = "cls",
                                        [DOP_POOLING_END] = "end"};
    return names[w->pooling == DOP_POOLING_MODEL && w->program.width ? w->program.pooling : w->pooling];
}

static dop_status
open_work(work *w, dop_diag *diag)
{
    const char *path = NULL;
    dop_open_options o;
    dop_status st = dop_cli_plan(w->cli, diag, &path);
    if (st != DOP_OK)
        return st;
    dop_cli_open_options(w->cli, &o);
    o.on_demand = !w->cli->made;
    o.no_steps = true;
    if ((st = dop_model_open(path, &o, diag, &w->model)) != DOP_OK)
        return st;
    dop_model_facts(w->model, &w->facts);
    if (dop_model_program(w->model, 0, &w->program) && w->program.merge) /* the program does not compute embeddings */
        w->program = (dop_program_facts){0};
    w->width = dop_model_embedding_size(w->model);
    if (w->width == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the plan gives no hidden states: compile it with --embed");
    return DOP_OK;
}

static void
close_work(work *w)
{
    free(w->texts);
    free(w->vectors);
    dop_ids_finish(&w->ids);
    dop_text_destroy(w->text);
    dop_model_close(w->model);
}

/* Appends a text made of the tokens pushed since index `from`. */
static dop_status
end_text(work *w, size_t from, size_t second, dop_diag *diag)
{
    if (w->n == w->cap) {
        const size_t cap = w->cap ? 2 * w->cap : 64;
        dop_token_text *texts = realloc(w->texts, cap * sizeof *texts);
        if (!texts)
            return DOP_NO_MEMORY(diag);
        w->texts = texts;
        w->cap = cap;
    }
    if (w->ids.failed)
        return DOP_NO_MEMORY(diag);
    const size_t n = w->ids.count - from;
    w->texts[w->n++] = (dop_token_text){.n = (uint32_t)n, .second = (uint32_t)(second > from ? second - from : n)};
    return DOP_OK;
}

/* Adds a text, or with a query the pair of query and text. */
static dop_status
add_text(work *w, const char *query, const char *bytes, size_t len, dop_diag *diag)
{
    const size_t from = w->ids.count;
    size_t second = 0, n = 0;
    uint32_t *ids = NULL;
    if (!query) {
        dop_buf whole = {0};
        dop_buf_puts(&whole, w->prompt ? w->prompt : "");
        dop_buf_append(&whole, bytes, len);
        dop_status st = whole.failed
                            ? DOP_NO_MEMORY(diag)
                            : dop_cli_encode(w->text, whole.data, whole.size, dop_cli_special(w->cli), diag, &w->ids);
        dop_buf_finish(&whole);
        return st == DOP_OK ? end_text(w, from, 0, diag) : st;
    }
    dop_status st = dop_text_encode_pair(w->text, query, strlen(query), bytes, len, diag, &ids, &n, &second);
    dop_cli_take_ids(ids, n, &w->ids);
    return st == DOP_OK ? end_text(w, from, from + second, diag) : st;
}

/* Adds a line of FILE.jsonl: a text, {"text": ...}, a list of ids, or {"tokens": ...}. */
static dop_status
add_line(work *w, const char *query, const json_t *value, long line, dop_diag *diag)
{
    const char *path = w->cli->file;
    const json_t *text = json_is_object(value) ? json_object_get(value, "text") : value,
                 *list = json_is_object(value) ? json_object_get(value, "tokens") : value;
    if (json_is_string(text) && w->text)
        return add_text(w, query, json_string_value(text), json_string_length(text), diag);
    if (json_is_string(text))
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0,
                           "the plan has no tokenizer (the model came without one): give ids, [1, 2, 3]");
    if (!json_is_array(list))
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0,
                           "expected a text, an object with \"text\", or a list of token ids");
    const size_t from = w->ids.count;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > UINT32_MAX)
            return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "element %zu is not a token id", i);
        dop_ids_push(&w->ids, (uint32_t)json_integer_value(id));
    }
    return end_text(w, from, 0, diag);
}

static bool
is_jsonl(const char *path)
{
    const size_t n = path ? strlen(path) : 0;
    return n > 6 && strcmp(path + n - 6, ".jsonl") == 0;
}

static dop_status
read_lines(work *w, const char *query, dop_diag *diag)
{
    dop_buf in = {0};
    dop_status st = dop_cli_read(w->cli->file, diag, &in);
    long line = 0;
    for (size_t at = 0; at < in.size && st == DOP_OK;) {
        const char *start = in.data + at, *newline = memchr(start, '\n', in.size - at);
        const size_t len = newline ? (size_t)(newline - start) : in.size - at;
        json_t *value = NULL;
        dop_diag wrong = {0};
        at += len + 1;
        line++;
        if (len == 0 || (len == 1 && *start == '\r'))
            continue;
        if (dop_json_decode(start, len, NULL, &wrong, &value) != DOP_OK)
            st = DOP_FAIL_AT(diag, DOP_E_INPUT, w->cli->file, line, wrong.column, "%s", wrong.message);
        else
            st = add_line(w, query, value, line, diag);
        json_decref(value);
    }
    dop_buf_finish(&in);
    return st;
}

static dop_status
compute_vectors(work *w, dop_diag *diag)
{
    size_t at = 0;
    for (size_t i = 0; i < w->n; at += w->texts[i++].n)
        w->texts[i].ids = w->texts[i].n > 0 ? w->ids.data + at : NULL;
    w->vectors = calloc(w->n * w->width + 1, sizeof *w->vectors);
    if (!w->vectors)
        return DOP_NO_MEMORY(diag);
    const double start = dop_now_ms();
    dop_status st = dop_model_embed(w->model, w->texts, w->n, w->pooling, diag, w->vectors);
    w->ms = dop_now_ms() - start;
    return st;
}

static void
print_times(const work *w)
{
    if (!w->cli->quiet)
        fprintf(stderr, "load %.0f ms; %zu texts, %zu tokens, %.1f tok/s; on %s\n", w->facts.load_ms, w->n,
                w->ids.count, (double)w->ids.count * 1e3 / w->ms, w->facts.device);
}

static void
append_vector(const float *v, uint32_t n, dop_buf *out)
{
    for (uint32_t i = 0; i < n; i++)
        dop_buf_printf(out, "%c%.9g", i ? ',' : '[', (double)v[i]);
    dop_buf_puts(out, "]");
}

/* Prints the result of a single prompt, with the settings used. */
static dop_status
print_single_result(const work *w, const char *key, dop_diag *diag)
{
    dop_buf out = {0};
    dop_buf_printf(&out, "{\"%s\":", key);
    append_vector(w->vectors, w->width, &out);
    if (strcmp(key, "embedding") == 0)
        dop_buf_printf(&out, ",\"pooling\":\"%s\"", pooling_name(w));
    dop_buf_printf(&out, ",\"promptTokens\":%zu,\"plan\":{\"digest\":\"%016llx\",\"model\":", w->ids.count,
                   (unsigned long long)w->facts.digest);
    json_t *model = json_string(w->facts.name);
    char *text = model ? json_dumps(model, JSON_ENCODE_ANY) : NULL;
    dop_buf_printf(&out, "%s}}\n", text ? text : "\"\"");
    free(text);
    json_decref(model);
    dop_status st = dop_cli_print_buf(&out, diag);
    dop_buf_finish(&out);
    return st;
}

static dop_status
print_lines(const work *w, dop_diag *diag)
{
    dop_buf out = {0};
    dop_status st = DOP_OK;
    for (size_t i = 0; i < w->n; i++) {
        append_vector(w->vectors + i * w->width, w->width, &out);
        dop_buf_puts(&out, "\n");
        if (out.size > 1 << 16) {
            DOP_TRY(dop_cli_print(out.data, out.size, diag));
            out.size = 0;
        }
    }
    DOP_TRY(dop_cli_print_buf(&out, diag));
error:
    dop_buf_finish(&out);
    return st;
}

/* Writes all output rows of the program to the file of --logits. */
static dop_status
write_program_rows(work *w, dop_diag *diag)
{
    dop_logits_file file;
    if (!w->cli->logits)
        return DOP_FAIL(diag, DOP_E_USAGE, "--embed=all writes raw rows to a file: give --logits FILE");
    if (!w->program.width)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, w->cli->plans.items[0],
                           "--embed=all needs a plan that encodes texts, and this one advances sequences");
    w->vectors = calloc(w->ids.count * w->width + 1, sizeof *w->vectors);
    if (!w->vectors)
        return DOP_NO_MEMORY(diag);
    const dop_value in = {"tokens", w->ids.data, w->ids.count}, out = {"rows", w->vectors, w->ids.count * w->width};
    const double start = dop_now_ms();
    dop_status st = dop_program_run(w->model, w->program.name, &in, 1, &out, 1, diag);
    w->ms = dop_now_ms() - start;
    if (st != DOP_OK || (st = dop_logits_file_open(w->cli->logits, w->width, diag, &file)) != DOP_OK)
        return st;
    st = dop_logits_file_write(&file, 0, w->ids.count, w->vectors, diag);
    dop_status closed = dop_logits_file_close(&file, st == DOP_OK, diag);
    return st == DOP_OK ? closed : st;
}

/* Chooses the prompt that --embed adds before texts. Ids get no prompt. */
static dop_status
choose_embed_prompt(work *w, dop_diag *diag)
{
    if (w->text && w->cli->embed)
        return dop_text_prompt(w->text, w->cli->prompt_name, diag, &w->prompt);
    return w->cli->prompt_name ? DOP_FAIL(diag, DOP_E_INPUT, "--prompt-name needs a plan with a tokenizer") : DOP_OK;
}

/* Reads one prompt from any of the prompt options. */
static dop_status
read_embed_prompt(work *w, dop_diag *diag)
{
    dop_buf text = {0};
    const char *needed = w->cli->prompt ? "-p" : w->cli->file ? "-f" : NULL;
    dop_status st = DOP_OK;
    DOP_TRY(dop_cli_text(w->cli, w->model, needed, diag, &w->text));
    DOP_TRY(choose_embed_prompt(w, diag));
    DOP_TRY(dop_cli_prompt(w->cli, NULL, diag, &w->ids, &text));
    DOP_TRY(w->text && needed ? add_text(w, NULL, text.data, text.size, diag) : end_text(w, 0, 0, diag));
error:
    dop_buf_finish(&text);
    return st;
}

dop_status
dop_mode_embed(dop_cli *cli, dop_diag *diag)
{
    work w = {.cli = cli, .pooling = pooling_named(cli->embed)};
    const bool lines = is_jsonl(cli->file), all = strcmp(cli->embed, "all") == 0;
    dop_status st = DOP_OK;
    DOP_TRY(open_work(&w, diag));
    if (lines)
        DOP_TRY(dop_cli_text(cli, w.model, NULL, diag, &w.text));
    if (lines)
        DOP_TRY(choose_embed_prompt(&w, diag));
    DOP_TRY(lines ? read_lines(&w, NULL, diag) : read_embed_prompt(&w, diag));
    if (w.program.classes)
        DOP_TRY(DOP_FAIL_IN(diag, DOP_E_INPUT, cli->plans.items[0],
                            "the model gives scores of texts and no vectors: use --score or --rerank"));
    DOP_TRY(all ? write_program_rows(&w, diag) : compute_vectors(&w, diag));
    if (!all)
        DOP_TRY(lines ? print_lines(&w, diag) : print_single_result(&w, "embedding", diag));
    print_times(&w);
error:
    close_work(&w);
    return st;
}

dop_status
dop_mode_classify(dop_cli *cli, dop_diag *diag)
{
    work w = {.cli = cli};
    const bool lines = is_jsonl(cli->file);
    dop_status st = DOP_OK;
    DOP_TRY(open_work(&w, diag));
    if (!w.program.classes)
        DOP_TRY(DOP_FAIL_IN(diag, DOP_E_INPUT, cli->plans.items[0],
                            "the model gives no scores of texts: use --embed, or --rerank to compare vectors"));
    if (lines)
        DOP_TRY(dop_cli_text(cli, w.model, NULL, diag, &w.text));
    DOP_TRY(lines ? read_lines(&w, NULL, diag) : read_embed_prompt(&w, diag));
    DOP_TRY(compute_vectors(&w, diag));
    DOP_TRY(lines ? print_lines(&w, diag) : print_single_result(&w, "scores", diag));
    print_times(&w);
error:
    close_work(&w);
    return st;
}

/* Returns the cosine similarity of text i and the query (text 0). */
static float
get_query_similarity(const work *w, size_t i)
{
    double sum = 0, a = 0, b = 0;
    const float *x = w->vectors, *y = w->vectors + i * w->width;
    for (uint32_t k = 0; k < w->width; k++) {
        sum += (double)x[k] * (double)y[k];
        a += (double)x[k] * (double)x[k];
        b += (double)y[k] * (double)y[k];
    }
    return a > 0 && b > 0 ? (float)(sum / sqrt(a * b)) : 0;
}

dop_status
dop_mode_rerank(dop_cli *cli, dop_diag *diag)
{
    work w = {.cli = cli};
    dop_buf out = {0};
    dop_status st = DOP_OK;
    if (!is_jsonl(cli->file))
        return DOP_FAIL(diag, DOP_E_USAGE, "--rerank needs texts, one a line: -f FILE.jsonl");
    st = open_work(&w, diag);
    if (st == DOP_OK)
        st = dop_cli_text(cli, w.model, "--rerank", diag, &w.text);
    const bool pairs = w.program.classes > 0;
    if (st == DOP_OK && !pairs)
        w.prompt = dop_text_search_prompt(w.text, true);
    if (st == DOP_OK && !pairs)
        st = add_text(&w, NULL, cli->rerank, strlen(cli->rerank), diag);
    if (st == DOP_OK && !pairs)
        w.prompt = dop_text_search_prompt(w.text, false);
    if (st == DOP_OK)
        st = read_lines(&w, pairs ? cli->rerank : NULL, diag);
    if (st == DOP_OK)
        st = compute_vectors(&w, diag);
    for (size_t i = pairs ? 0 : 1; i < w.n && st == DOP_OK; i++)
        dop_buf_printf(&out, "{\"index\":%zu,\"score\":%.9g}\n", pairs ? i : i - 1,
                       (double)(pairs ? dop_relevance(w.vectors + i * w.width, w.width) : get_query_similarity(&w, i)));
    if (st == DOP_OK)
        st = dop_cli_print_buf(&out, diag);
    if (st == DOP_OK)
        print_times(&w);
    dop_buf_finish(&out);
    close_work(&w);
    return st;
}
