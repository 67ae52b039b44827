/* Parses answers while they are generated, into content, reasoning and tool calls. See also: api_form.h for the
 * format of a model's template, api_call.c for one region with calls, api_harmony.c for answers with channels. */
#include "serve/api/api_tools.h"
#include "serve/api/api_call.h"
#include "serve/api/api_harmony.h"
#include "serve/api/api_internal.h"
#include "serve/api/api_json.h"

#include <stdlib.h>
#include <string.h>

static bool
is_answer_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Returns the length of the searchable prefix of a mark: up to its first white space or hole. */
static size_t
get_plain_mark_length(const char *mark)
{
    size_t n = 0;
    while ((unsigned char)mark[n] > ' ')
        n++;
    return n;
}

/* Returns the position of the mark's first n bytes, from `from` on; SIZE_MAX: not found. */
static size_t
find_mark_from(const char *text, size_t n_text, size_t from, const char *mark, size_t n)
{
    const char *hit = n && n_text > from ? memmem(text + from, n_text - from, mark, n) : NULL;
    return hit ? (size_t)(hit - text) : SIZE_MAX;
}

static size_t
count_held_back(const char *text, size_t n, const char *mark, size_t n_mark)
{
    for (size_t k = n_mark > 0 ? (n_mark - 1 < n ? n_mark - 1 : n) : 0; k > 0; k--)
        if (memcmp(text + n - k, mark, k) == 0)
            return k;
    return 0;
}

/* Returns whether the mark is at `at`. CUT: the text ends with a prefix of the mark. */
static dop_span
match_mark_at(const dop_reading *r, size_t at, const char *mark)
{
    const size_t left = r->whole.size - at, n = strlen(mark);
    if (memcmp(r->whole.data + at, mark, left < n ? left : n) != 0)
        return DOP_SPAN_BAD;
    return left < n ? DOP_SPAN_CUT : DOP_SPAN_GOOD;
}

void
dop_reading_begin(dop_reading *r, const dop_reading_terms *terms)
{
    memset(r, 0, sizeof *r);
    r->terms = *terms;
    r->fresh = true;
    if (terms->begin)
        dop_buf_puts(&r->whole, terms->begin);
    r->thinks = terms->thinks && terms->form->think_close;
}

void
dop_reading_finish(dop_reading *r)
{
    dop_buf_finish(&r->content);
    dop_buf_finish(&r->reasoning);
    dop_buf_finish(&r->thoughts);
    dop_buf_finish(&r->whole);
    json_decref(r->calls);
    r->calls = NULL;
}

uint32_t
dop_reading_thought_tokens(const dop_reading *r, const uint32_t *text_ends, uint32_t n)
{
    const dop_thought *thoughts = (const dop_thought *)r->thoughts.data;
    const size_t n_thoughts = r->thoughts.size / sizeof *thoughts, before = r->whole.size - r->fed;
    uint32_t found = 0;
    for (size_t i = 0, k = 0; i < n; i++) {
        const size_t end = before + text_ends[i];
        while (k < n_thoughts && end > thoughts[k].to)
            k++;
        found += k < n_thoughts && end > thoughts[k].from;
    }
    return found;
}

/* Consumes reasoning up to its end mark. Returns false if more text is needed. */
static bool
consume_reasoning(dop_reading *r, bool ended)
{
    const char *close = r->terms.form->think_close, *text = r->whole.data;
    const size_t n = r->whole.size, hit = find_mark_from(text, n, r->at, close, strlen(close));
    size_t end = hit != SIZE_MAX ? hit : ended ? n : n - count_held_back(text + r->at, n - r->at, close, strlen(close));
    const size_t begin = r->at;
    size_t from = begin;
    if (r->reasoning.size == 0)
        while (from < end && is_answer_blank(text[from]))
            from++;
    while (end > from && is_answer_blank(text[end - 1])) /* trailing white space is not part of the reasoning */
        end--;
    if (end > from)
        dop_buf_append(&r->reasoning, text + from, end - from);
    if (hit == SIZE_MAX) {
        r->at = ended ? n : end > from ? end : r->at;
        dop_reading_add_thought(r, begin, r->at);
        return false;
    }
    dop_reading_add_thought(r, begin, hit + strlen(close));
    r->at = dop_span_blank(text, n, hit + strlen(close));
    r->thinks = false;
    r->fresh = r->after_thought = true;
    return true;
}

/* Consumes opening marks of reasoning or content, at the beginning of an answer and after reasoning. Returns false
 * if more text is needed. */
static bool
consume_beginning(dop_reading *r, bool ended)
{
    const dop_tool_form *f = r->terms.form;
    const char *marks[] = {f->think_open, f->content_open};
    const size_t n = r->whole.size, at = dop_span_blank(r->whole.data, n, r->at);
    if (at == n) {
        if (ended && r->after_thought)
            r->at = n;
        r->fresh = !ended;
        return ended;
    }
    for (size_t i = 0; i < 2; i++) {
        const dop_span got = marks[i] ? match_mark_at(r, at, marks[i]) : DOP_SPAN_BAD;
        if (got == DOP_SPAN_CUT && !ended)
            return false;
        if (got != DOP_SPAN_GOOD)
            continue;
        if (i == 0)
            dop_reading_add_thought(r, r->at, at + strlen(marks[i]));
        r->at = at + strlen(marks[i]);
        r->thinks = i == 0;
        r->in_content = i == 1;
        if (i == 1)
            r->at = dop_span_blank(r->whole.data, n, r->at);
        r->fresh = i == 0;
        return true;
    }
    if (r->after_thought)
        r->at = at;
    r->fresh = false;
    return true;
}

/* Consumes a region of calls that begins at `at`, after content that has been consumed. Returns CUT if more text is
 * needed. */
static dop_span
consume_calls(dop_reading *r, size_t at, const char *open, bool ended)
{
    dop_buf unknown = {0};
    json_t *found = json_array();
    dop_call_text c = {.form = r->terms.form,
                       .tools = r->terms.tools,
                       .text = r->whole.data,
                       .n = r->whole.size,
                       .at = at,
                       .ended = ended,
                       .unknown = &unknown,
                       .out_calls = found};
    dop_span got = dop_call_match(&c, open);
    if (got == DOP_SPAN_GOOD)
        got = dop_call_read(&c);
    size_t i;
    const json_t *one;
    if (got == DOP_SPAN_GOOD && json_array_size(found) > 0) {
        json_array_foreach(found, i, one)
        {
            const json_t *name = json_object_get(one, "name"), *arguments = json_object_get(one, "arguments");
            dop_reading_add_call(r, json_string_value(name), json_string_length(name), json_string_value(arguments),
                                 json_string_length(arguments));
        }
        if (unknown.size)
            dop_buf_append(&r->content, unknown.data, unknown.size);
        r->at = dop_span_blank(r->whole.data, r->whole.size, c.at);
        r->fresh = r->after_thought = true; /* white space after calls is not content */
        r->over |= r->terms.single;
    } else if (got == DOP_SPAN_GOOD) {
        got = DOP_SPAN_BAD;
    }
    json_decref(found);
    dop_buf_finish(&unknown);
    return got;
}

/* Returns a second text that begins calls: the part of the opening mark after its first line, because models may
 * omit that line. NULL: none. */
static const char *
get_second_open_mark(const dop_tool_form *f)
{
    const char *last = f->open;
    for (const char *c = f->open; *c; c++)
        if (is_answer_blank(*c))
            last = c + 1;
    return f->manner == DOP_FORM_KEYS && last != f->open && get_plain_mark_length(last) >= 6 ? last : NULL;
}

static void
append_content_to(dop_reading *r, size_t to)
{
    if (to > r->at)
        dop_buf_append(&r->content, r->whole.data + r->at, to - r->at);
    r->at = to > r->at ? to : r->at;
}

/* Consumes an answer that begins with a call without an opening mark. */
static dop_span
consume_bare_call(dop_reading *r, bool ended)
{
    static const char tag[] = "<|python_tag|>";
    const size_t n = r->whole.size;
    size_t at = dop_span_blank(r->whole.data, n, r->at);
    if (at == n)
        return ended ? DOP_SPAN_BAD : DOP_SPAN_CUT;
    const dop_span tagged = match_mark_at(r, at, tag);
    if (tagged == DOP_SPAN_CUT && !ended)
        return tagged;
    if (tagged == DOP_SPAN_GOOD)
        at += strlen(tag);
    return consume_calls(r, at, "", ended);
}

/* Consumes an end mark of reasoning that has no opening mark, because some models reason unprompted. The content
 * before it becomes reasoning unless it was already sent. */
static void
consume_lone_close(dop_reading *r, size_t at)
{
    const char *text = r->content.size ? r->content.data : "";
    const size_t end = at + strlen(r->terms.form->think_close);
    size_t from = 0, to = r->content.size;
    if (r->shown == 0) {
        while (to > 0 && is_answer_blank(text[to - 1]))
            to--;
        while (from < to && is_answer_blank(text[from]))
            from++;
        dop_buf_append(&r->reasoning, text + from, to - from);
        r->content.size = 0;
    }
    dop_reading_add_thought(r, r->shown == 0 ? 0 : at, end);
    r->at = dop_span_blank(r->whole.data, r->whole.size, end);
    r->fresh = r->after_thought = true;
}

/* Consumes content, and calls where they begin. Returns false if more text is needed. */
static bool
consume_content(dop_reading *r, bool ended)
{
    const dop_tool_form *f = r->terms.form;
    const char *text = r->whole.data;
    const size_t n = r->whole.size;
    const bool reads = r->terms.tools != NULL;
    const char *more = reads ? get_second_open_mark(f) : NULL;
    const bool may_close = r->terms.lone_close && !r->calls && r->reasoning.size == 0 &&
                           get_plain_mark_length(f->think_close) == strlen(f->think_close);
    const char *marks[] = {reads ? f->open : NULL, more, f->think_open, r->in_content ? f->content_close : NULL,
                           may_close ? f->think_close : NULL};
    size_t first = SIZE_MAX, which = 0, held = 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const size_t n_mark = marks[i] ? get_plain_mark_length(marks[i]) : 0;
        const size_t hit = n_mark ? find_mark_from(text, n, r->at, marks[i], n_mark) : SIZE_MAX;
        const size_t back = n_mark ? count_held_back(text + r->at, n - r->at, marks[i], n_mark) : 0;
        held = back > held ? back : held;
        if (hit < first) {
            first = hit;
            which = i;
        }
    }
    if (first == SIZE_MAX) {
        append_content_to(r, ended ? n : n - held);
        return false;
    }
    if (which == 4) {
        const bool quoted = first > 0 && strchr("`'\"", text[first - 1]); /* the mark is quoted in the answer's text */
        append_content_to(r, quoted ? first + strlen(marks[4]) : first);
        if (!quoted)
            consume_lone_close(r, first);
        return true;
    }
    if (which == 3) {
        append_content_to(r, first);
        r->at = first + strlen(marks[3]);
        r->in_content = false;
        return true;
    }
    if (which == 2) { /* reasoning in the middle of content stays there, but calls in it are ignored */
        const size_t close = find_mark_from(text, n, first, f->think_close, strlen(f->think_close));
        append_content_to(r, first);
        if (close == SIZE_MAX && !ended)
            return false;
        append_content_to(r, close == SIZE_MAX ? n : close + strlen(f->think_close));
        return close != SIZE_MAX;
    }
    append_content_to(r, first);
    const dop_span got = consume_calls(r, first, marks[which], ended);
    if (got == DOP_SPAN_CUT && !ended)
        return false;
    if (got != DOP_SPAN_GOOD)
        append_content_to(r, first + get_plain_mark_length(marks[which]));
    return true;
}

void
dop_reading_feed(dop_reading *r, const char *text, size_t n, bool ended)
{
    if (n > r->fed)
        dop_buf_append(&r->whole, text + r->fed, n - r->fed);
    r->fed = n > r->fed ? n : r->fed;
    if (r->whole.failed || r->whole.size == 0 || (!ended && r->whole.size < r->wait))
        return;
    if (r->terms.form->manner == DOP_FORM_CHANNELS) {
        dop_reading_channels(r, ended);
        return;
    }
    const char *open = r->terms.form->open;
    for (bool goes_on = true; goes_on && !r->over && (r->at < r->whole.size || ended);) {
        const size_t before = r->at;
        const bool was_fresh = r->fresh;
        if (r->thinks) {
            goes_on = consume_reasoning(r, ended);
        } else if (r->fresh) {
            goes_on = consume_beginning(r, ended);
            if (!r->fresh && goes_on && r->terms.tools && open && !get_plain_mark_length(open) && r->whole.size > 0) {
                const dop_span got = consume_bare_call(r, ended);
                if (got == DOP_SPAN_CUT && !ended) { /* retried with more text */
                    r->fresh = true;
                    goes_on = false;
                }
            }
        } else {
            goes_on = consume_content(r, ended);
        }
        if (r->at == r->whole.size && r->at == before && r->fresh == was_fresh)
            break;
    }
    /* An incomplete region is parsed again only after the text has grown by 1/16 of its length, instead of for every
     * token. */
    r->wait = r->whole.size + (r->whole.size - r->at) / 16;
}
