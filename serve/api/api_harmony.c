/* Parses answers in OpenAI's harmony format, used by gpt-oss: messages with headers,
 * <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...
 *
 * A tool call is a message to the tool: its header has " to=functions.NAME", before or after the channel, and its
 * body has the arguments as JSON. Source: https://cookbook.openai.com/articles/openai-harmony. */
#include "serve/api/api_harmony.h"
#include "serve/api/api_call.h"
#include "serve/api/api_internal.h"
#include "serve/api/api_json.h"

#include <string.h>

static const char channel_mark[] = "<|channel|>", message_mark[] = "<|message|>", start_mark[] = "<|start|>";
static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>"};
enum { ENDS = sizeof ends / sizeof *ends };

typedef struct reader {
    const char *text;
    size_t n, at;
    bool ended;
} reader;

static bool
begins_with_mark(const reader *r, const char *mark)
{
    return r->n - r->at >= strlen(mark) && memcmp(r->text + r->at, mark, strlen(mark)) == 0;
}

/* True if the rest of the text is a proper prefix of the mark, whose end may still come. */
static bool
may_begin_mark(const reader *r, const char *mark)
{
    const size_t left = r->n - r->at;
    return !r->ended && left < strlen(mark) && memcmp(r->text + r->at, mark, left) == 0;
}

/* Finds the word after a mark in a header. Returns its length, or 0 if the mark is absent. */
static size_t
find_word_after_mark(const char *header, size_t n, const char *mark, const char **out_word)
{
    const char *hit = n ? memmem(header, n, mark, strlen(mark)) : NULL;
    size_t k = 0;
    if (!hit)
        return 0;
    hit += strlen(mark);
    while (hit + k < header + n && hit[k] != ' ' && hit[k] != '<' && hit[k] != '\n')
        k++;
    *out_word = hit;
    return k;
}

/* Reads the header at r->at and moves r->at past it. Returns false if its end is missing so far. */
static bool
read_harmony_header(reader *r, const char **out_header, size_t *out_n)
{
    const char *begin = r->text + r->at, *end = memmem(begin, r->n - r->at, message_mark, strlen(message_mark));
    *out_header = begin;
    *out_n = end ? (size_t)(end - begin) : 0;
    if (end)
        r->at += *out_n + strlen(message_mark);
    return end != NULL;
}

/* Returns the length of the body at r->at, without a last part that may begin its end mark. *out_closed: true if the
 * end mark was found; r->at is then after it. */
static size_t
read_harmony_body(reader *r, bool *out_closed)
{
    const char *body = r->text + r->at, *first = NULL;
    size_t n = r->n - r->at, mark = 0, held = 0;
    for (size_t i = 0; i < ENDS; i++) {
        const char *hit = n ? memmem(body, n, ends[i], strlen(ends[i])) : NULL;
        const size_t partial = dop_partial_mark(body, n, ends[i]);
        held = partial > held ? partial : held;
        if (hit && (!first || hit < first)) {
            first = hit;
            mark = i + 1 < ENDS ? strlen(ends[i])
                                : 0; /* the last mark is not skipped: it begins the next message's header */
        }
    }
    *out_closed = first != NULL;
    if (first)
        n = (size_t)(first - body);
    else if (!r->ended)
        n -= held;
    r->at = first ? r->at + n + mark : r->n;
    return n;
}

/* True if the recipient is one of the request's tools. An optional prefix "functions." is skipped. *out_own: true if
 * it was absent, so that the recipient may be a built-in tool of the model. */
static bool
is_harmony_call(const dop_reading *out, const char **io_name, size_t *io_n, bool *out_own)
{
    static const char functions[] = "functions.";
    const size_t skip = strlen(functions);
    bool known;
    *out_own = *io_n <= skip || memcmp(*io_name, functions, skip) != 0;
    if (!*out_own) {
        *io_name += skip;
        *io_n -= skip;
    }
    (void)dop_tool_find(out->terms.tools, *io_name, *io_n, &known);
    return known;
}

/* Adds a call. The arguments must be a JSON object; an empty body means an empty object. */
static void
add_harmony_call(dop_reading *out, const char *name, size_t n_name, const char *body, size_t n, bool closed)
{
    dop_buf made = {0};
    size_t at = 0, from = dop_span_blank(body, n, 0);
    const bool good = from < n && body[from] == '{' && dop_span_json(body, n, &at) == DOP_SPAN_GOOD &&
                      dop_span_blank(body, n, at) == n;
    if (good)
        dop_span_append(&made, body, n);
    if (good || (from == n && closed))
        dop_reading_add_call(out, name, n_name, made.size ? made.data : "{}", made.size ? made.size : 2);
    else
        dop_buf_append(&out->content, body, n);
    dop_buf_finish(&made);
}

void
dop_reading_channels(dop_reading *out, bool ended)
{
    static const char analysis[] = "analysis";
    static const char *const heads[] = {channel_mark, " to=", message_mark, start_mark};
    const char *text = out->whole.data ? out->whole.data : "";
    reader r = {text, out->whole.size, out->at, ended};
    /* Drops the output of a message that was incomplete last time; it is parsed again. */
    out->content.size = out->sure_content;
    out->reasoning.size = out->sure_reasoning;
    while (r.at < r.n && !out->over) {
        const char *header = "", *word = NULL, *name = NULL;
        size_t n_header = 0, i = 0;
        const size_t from = r.at;
        bool closed, own = true;
        while (i < 4 && !begins_with_mark(&r, heads[i]) && !may_begin_mark(&r, heads[i]))
            i++;
        if (i < 4 && !read_harmony_header(&r, &header, &n_header))
            return;
        const char *body = text + r.at;
        const size_t n_body = read_harmony_body(&r, &closed);
        size_t n_name = find_word_after_mark(header, n_header, "to=", &name);
        const size_t n_word = find_word_after_mark(header, n_header, channel_mark, &word);
        if (n_name > 0 && is_harmony_call(out, &name, &n_name, &own)) {
            if (closed || ended)
                add_harmony_call(out, name, n_name, body, n_body, closed);
            out->over = out->terms.single && out->calls;
        } else if ((n_name > 0 && own) || (n_word == strlen(analysis) && memcmp(word, analysis, n_word) == 0)) {
            dop_buf_append(&out->reasoning, body, n_body);
            if (closed || ended)
                dop_reading_add_thought(out, from, r.at);
        } else {
            dop_buf_append(&out->content, body, n_body);
        }
        if (!closed)
            return;
        out->at = r.at;
        out->sure_content = out->content.size;
        out->sure_reasoning = out->reasoning.size;
    }
}
