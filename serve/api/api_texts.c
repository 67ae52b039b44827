/* Requests for /v1/embeddings and /v1/rerank: makes their jobs, and writes vectors and scores as JSON. */
#include "serve/api/api_texts.h"
#include "plan/prompts.h"
#include "serve/api/api_gather.h"
#include "serve/api/api_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sets what requests for embeddings and scores have in common. Returns false if the plan computes neither; the
 * request is then refused. */
static bool
begin_text_request(gathering *g)
{
    dop_reader *r = &g->r;
    if (dop_model_embedding_size(g->api->model) == 0)
        dop_reader_refuse(r, "model", "this plan gives no embeddings: compile it with dopplerc --embed");
    g->job.embeds = g->job.wake_at_end = true;
    g->job.pooling = DOP_POOLING_MODEL;
    g->job.time_limit_s = g->api->time_limit_s;
    g->n_each = 1;
    return !r->failed;
}

/* Refuses texts that are empty or too long. */
static void
check_text_lengths(gathering *g, const char *param)
{
    const uint32_t most = g->api->program.width ? g->api->program.max_rows : g->api->facts.ctx;
    for (uint32_t i = 0; i < g->n_prompts && !g->r.failed; i++) {
        if (g->prompts[i].failed)
            dop_gather_no_memory(g);
        else if (g->prompts[i].count == 0)
            dop_reader_refuse(&g->r, param, "an input is empty");
        else if (g->prompts[i].count > most)
            dop_reader_refuse(&g->r, param, "an input has %zu tokens, and the model's maximum context length is %u",
                              g->prompts[i].count, most);
        for (size_t k = 0; k < g->prompts[i].count && !g->r.failed; k++)
            if (g->prompts[i].data[k] >= g->api->facts.vocab)
                dop_reader_refuse(&g->r, param,
                                  "the tokenizer makes token id %u of the input, and the model's vocabulary has %u",
                                  g->prompts[i].data[k], g->api->facts.vocab);
    }
}

void
dop_gather_embedding(gathering *g)
{
    dop_reader *r = &g->r;
    size_t n;
    const char *format = dop_reader_text(r, "encoding_format", &n), *pooling = dop_reader_text(r, "pooling", &n);
    if (!begin_text_request(g))
        return;
    if (g->api->program.classes)
        dop_reader_refuse(r, "model", "the model gives scores of texts and no vectors: use /v1/rerank");
    if (format && strcmp(format, "float") != 0 && strcmp(format, "base64") != 0)
        dop_reader_refuse(r, "encoding_format", "encoding_format is float or base64");
    if (pooling && strcmp(pooling, "last") != 0 && strcmp(pooling, "mean") != 0 && strcmp(pooling, "cls") != 0)
        dop_reader_refuse(r, "pooling", "pooling is cls, last or mean");
    const uint32_t size = dop_model_embedding_size(g->api->model);
    const int64_t dimensions = dop_reader_whole(r, "dimensions", size, 1, INT32_MAX);
    if (dimensions > size)
        dop_reader_refuse(r, "dimensions", "dimensions is at most %u, which the model's vectors have", size);
    g->call->dimensions = (uint32_t)dimensions;
    g->call->base64 = format && strcmp(format, "base64") == 0;
    g->job.pooling = !pooling                       ? DOP_POOLING_MODEL
                     : strcmp(pooling, "mean") == 0 ? DOP_POOLING_MEAN
                     : strcmp(pooling, "cls") == 0  ? DOP_POOLING_CLS
                                                    : DOP_POOLING_LAST;
    dop_diag diag = {0};
    if (dop_prompts_find(g->api->prompts, dop_reader_text(r, "prompt_name", &n), &diag, &g->front) != DOP_OK)
        dop_reader_refuse(r, "prompt_name", "%s", diag.message);
    if (!r->failed)
        dop_gather_prompts(g, "input");
    check_text_lengths(g, "input");
    enum { VALUE = 13 }; /* bytes of a number in JSON; base64 needs less than half */
    const uint64_t bytes = (uint64_t)g->n_prompts * size * (g->call->base64 ? VALUE / 2 : VALUE);
    if (!r->failed && g->api->max_answer && bytes > g->api->max_answer)
        dop_reader_refuse(r, "input", "the vectors of so many inputs are more than this server writes in an answer");
}

/* ---- reranking ---- */

/* Returns the text of a document, which is a string or an object with a "text". */
static const json_t *
get_document_text(const json_t *document)
{
    const json_t *text = json_is_object(document) ? json_object_get(document, "text") : document;
    return json_is_string(text) ? text : NULL;
}

static void
add_rank_document(gathering *g, const char *query, size_t n_query, const json_t *document, uint32_t at)
{
    const json_t *text = get_document_text(document);
    dop_diag diag = {0};
    dop_status st;
    size_t second = 0;
    dop_buf whole = {0};
    if (!text) {
        dop_reader_refuse(&g->r, "documents", "a document is a text, or an object with one as \"text\"");
        return;
    }
    if (g->call->pairs &&
        dop_prompts_pair(g->api->prompts, query, n_query, json_string_value(text), json_string_length(text), &whole)) {
        st = dop_tokenizer_encode_within(g->api->tok, whole.data, whole.size, DOP_ENCODE_PARSE_SPECIAL, g->budget,
                                         &diag, &g->prompts[at]);
        second = g->prompts[at].count;
    } else if (whole.failed)
        st = DOP_NO_MEMORY(&diag);
    else if (g->call->pairs)
        st = dop_tokenizer_encode_pair(g->api->tok, query, n_query, json_string_value(text), json_string_length(text),
                                       g->budget, &diag, &g->prompts[at], &second);
    else
        st = dop_gather_text(g, json_string_value(text), json_string_length(text), DOP_ENCODE_ADD_SPECIAL, &diag,
                             &g->prompts[at]);
    dop_buf_finish(&whole);
    g->seconds[at] = (uint32_t)second;
    if (st != DOP_OK)
        dop_gather_refuse(g, "documents", &diag);
}

void
dop_gather_rerank(gathering *g)
{
    dop_reader *r = &g->r;
    dop_diag diag = {0};
    size_t n_query = 0;
    const char *query = dop_reader_text(r, "query", &n_query);
    const json_t *list = dop_reader_get(r, "documents");
    const bool keeps = dop_reader_bool(r, "return_documents", false);
    if (!begin_text_request(g))
        return;
    if (!query)
        dop_reader_refuse(r, "query", "query is the text that documents are compared with");
    if (!json_is_array(list) || json_array_size(list) == 0)
        dop_reader_refuse(r, "documents", "documents is a list of texts");
    if (json_array_size(list) > g->api->max_inputs)
        dop_reader_refuse(r, "documents", "at most %u documents", g->api->max_inputs);
    const uint32_t n = (uint32_t)json_array_size(list);
    const int64_t top = dop_reader_whole(r, "top_n", n, 1, INT32_MAX);
    g->call->top_n = top < n ? (uint32_t)top : n;
    g->call->pairs = g->api->program.classes > 0;
    if (r->failed)
        return;
    g->n_prompts = n + !g->call->pairs;
    g->prompts = calloc(g->n_prompts, sizeof *g->prompts);
    g->seconds = calloc(g->n_prompts, sizeof *g->seconds);
    g->call->documents = keeps ? json_deep_copy(list) : NULL;
    if (!g->prompts || !g->seconds || (keeps && !g->call->documents)) {
        g->n_prompts = g->prompts ? g->n_prompts : 0;
        dop_gather_no_memory(g);
        return;
    }
    g->front = dop_prompts_for(g->api->prompts, true);
    if (!g->call->pairs && dop_gather_text(g, query, n_query, DOP_ENCODE_ADD_SPECIAL, &diag, &g->prompts[0]) != DOP_OK)
        dop_gather_refuse(g, "query", &diag);
    g->front = dop_prompts_for(g->api->prompts, false);
    for (uint32_t i = 0; i < n && !r->failed; i++)
        add_rank_document(g, query, n_query, json_array_get(list, i), i + !g->call->pairs);
    check_text_lengths(g, "documents");
}

/* ---- answers ---- */

/* Returns the factor that scales the first n values of a unit-length vector to unit length again. */
static double
compute_unit_scale(const dop_job_state *s, uint32_t n)
{
    double squares = 0;
    for (uint32_t i = 0; i < n; i++)
        squares += (double)s->embedding[i] * (double)s->embedding[i];
    return n < s->n_embedding && squares > 0 ? 1 / sqrt(squares) : 1;
}

/* Writes values with nine digits, enough to restore the exact float. */
void
dop_texts_write_vector(const dop_call *c, uint32_t index, dop_buf *out)
{
    const dop_job_state s = dop_job_look(c->choices[index].job);
    const uint32_t n = c->dimensions < s.n_embedding ? c->dimensions : s.n_embedding;
    const double by = compute_unit_scale(&s, n);
    dop_buf_printf(out, "{\"object\":\"embedding\",\"index\":%u,\"embedding\":", index);
    if (c->base64) {
        float *scaled = calloc((size_t)n + 1, sizeof *scaled);
        for (uint32_t k = 0; k < n && scaled; k++)
            scaled[k] = (float)(by * (double)s.embedding[k]);
        json_t *text = scaled ? dop_json_base64(scaled, n * sizeof *scaled) : NULL;
        char *dump = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
        dop_buf_puts(out, dump ? dump : "\"\"");
        out->failed = out->failed || !dump;
        free(dump);
        json_decref(text);
        free(scaled);
    } else {
        for (uint32_t k = 0; k < n; k++)
            dop_buf_printf(out, "%c%.9g", k > 0 ? ',' : '[', (double)(float)(by * (double)s.embedding[k]));
        dop_buf_puts(out, "]");
    }
    dop_buf_puts(out, "}");
}

typedef struct ranked {
    float score;
    uint32_t index;
} ranked;

static int
compare_ranked(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score ? 1 : x->index < y->index ? -1 : x->index > y->index;
}

static float
compute_cosine(const dop_job_state *a, const dop_job_state *b)
{
    double sum = 0, x = 0, y = 0;
    for (uint32_t i = 0; i < a->n_embedding; i++) {
        sum += (double)a->embedding[i] * (double)b->embedding[i];
        x += (double)a->embedding[i] * (double)a->embedding[i];
        y += (double)b->embedding[i] * (double)b->embedding[i];
    }
    return x > 0 && y > 0 ? (float)(sum / sqrt(x * y)) : 0;
}

/* Writes "document": {"text": ...}, as the request stated it. */
static void
write_rank_document(const dop_call *c, uint32_t index, dop_buf *out)
{
    const json_t *document = json_array_get(c->documents, index);
    char *text = document ? json_dumps(document, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (!text)
        return;
    dop_buf_printf(out, json_is_object(document) ? ",\"document\":%s" : ",\"document\":{\"text\":%s}", text);
    free(text);
}

void
dop_texts_write_ranks(const dop_call *c, dop_buf *out)
{
    const uint32_t first = c->pairs ? 0 : 1, n = c->n_choices - first;
    ranked *rows = calloc((size_t)n + 1, sizeof *rows);
    out->failed = out->failed || !rows;
    for (uint32_t i = 0; i < n && rows; i++) {
        const dop_job_state s = dop_job_look(c->choices[first + i].job), query = dop_job_look(c->choices[0].job);
        rows[i] = (ranked){c->pairs ? dop_relevance(s.embedding, s.n_embedding) : compute_cosine(&query, &s), i};
    }
    if (rows)
        qsort(rows, n, sizeof *rows, compare_ranked);
    for (uint32_t i = 0; i < c->top_n && rows; i++) {
        dop_buf_printf(out, "%s{\"index\":%u,\"relevance_score\":%.9g", i ? "," : "", rows[i].index,
                       (double)rows[i].score);
        write_rank_document(c, rows[i].index, out);
        dop_buf_puts(out, "}");
    }
    free(rows);
}
