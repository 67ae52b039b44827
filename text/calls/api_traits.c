/* Finds how a template handles roles, contents, reasoning and the results of calls. */
#include "text/calls/api_form.h"
#include "text/calls/api_span.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define REASON "dopreason"
#define RESULT "dopresult"

static json_t *
user(void)
{
    return json_pack("{s:s, s:s}", "role", "user", "content", DOP_PROBE_USER);
}

static json_t *
list_of(json_t *first, json_t *second, json_t *third)
{
    json_t *list = json_array();
    json_t *all[] = {first, second, third};
    for (size_t i = 0; i < 3; i++)
        if (all[i])
            json_array_append_new(list, all[i]);
    return list;
}

/* Renders a conversation. Returns true if the text contains `mark`. If out is not NULL, *out receives the text,
 * which the caller frees. */
static bool
shows(const dop_probe *p, json_t *messages, const json_t *tools, bool generate, const char *mark, char **out)
{
    char *text = dop_probe_render(p, messages, tools, generate);
    const bool hit = text && strstr(text, mark);
    if (out)
        *out = text;
    else
        free(text);
    return hit;
}

static json_t *
said(const char *role, const char *content)
{
    return json_pack("{s:s, s:s}", "role", role, "content", content);
}

/* --- reasoning --------------------------------------------------------------------------------------------------------------- */

static bool
is_open(char c)
{
    return c == '<' || c == '[';
}

/* Returns the start of the tag before `end`, ignoring white space in between: "<think>", or "<|channel>thought". */
static const char *
tag_before(const char *begin, const char *end)
{
    while (end > begin && isspace((unsigned char)end[-1]))
        end--;
    while (end > begin && !is_open(*--end))
        continue;
    return end;
}

static const char *
tag_behind(const char *text)
{
    text += dop_span_blank(text, strlen(text), 0);
    if (!is_open(*text))
        return text;
    while (*text && *text != '>' && *text != ']')
        text++;
    return *text ? text + 1 : text;
}

static char *
trimmed(const char *from, const char *to)
{
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    return to > from ? strndup(from, (size_t)(to - from)) : NULL;
}

/* Finds the marks around reasoning and around the answer in the rendering of a message with both. */
static void
find_thinking(const char *text, dop_tool_form *f)
{
    const char *reason = strstr(text, REASON), *content = reason ? strstr(reason, DOP_PROBE_CONTENT) : NULL;
    if (!content)
        return;
    const char *behind = reason + strlen(REASON), *after = content + strlen(DOP_PROBE_CONTENT);
    const char *begin = text, *open = tag_before(text, reason), *answer = tag_before(behind, content);
    while (open > begin && answer > behind && reason - open == content - answer &&
           memcmp(open, answer, (size_t)(reason - open)) == 0) {
        open = tag_before(begin, open);
        answer = tag_before(behind, answer);
    }
    if (is_open(*open) && !strstr(open, DOP_PROBE_USER))
        f->think_open = trimmed(open, reason);
    if (f->content_open && answer > behind) {
        free(f->content_open);
        f->content_open = trimmed(answer, content);
    }
    const size_t n = f->content_open ? strlen(f->content_open) : 0;
    const char *close = tag_behind(behind);
    if (n > 0 && (size_t)(content - behind) > n && memcmp(content - n, f->content_open, n) == 0) {
        close = content - n;
    } else {
        const char *end = tag_behind(after);
        while (*close && close < content && close - behind == end - after &&
               memcmp(behind, after, (size_t)(close - behind)) == 0) {
            while (close < content && !is_open(*close) && *close != '>' && *close != ']')
                close++;
            while (close < content && *close != '>' && *close != ']')
                close++;
            close += close < content;
            end = after + (close - behind);
        }
    }
    if (close > content)
        close = content;
    f->think_close = trimmed(behind, close);
    if (!f->think_open || !f->think_close) {
        free(f->think_open);
        free(f->think_close);
        f->think_open = f->think_close = NULL;
    }
}

/* Finds the marks around reasoning for templates that render it only in messages with calls: compares a rendering of
 * a call with reasoning to one `without`. */
static void
find_thinking_of_calls(const char *text, const char *without, dop_tool_form *f)
{
    size_t from = 0, n = strlen(text), n_without = strlen(without), same = 0;
    while (from < n && text[from] == without[from])
        from++;
    while (same < n - from && same < n_without - from && text[n - 1 - same] == without[n_without - 1 - same])
        same++;
    n -= same;
    /* The following text may begin like the opening mark, which shifts the difference. Moves it back to the start of
     * the mark. */
    while (from > 0 && n > from && !is_open(text[from]) && text[from - 1] == text[n - 1])
        from--, n--;
    const char *reason = strstr(text + from, REASON), *behind = reason ? reason + strlen(REASON) : NULL;
    if (!reason || behind >= text + n || !is_open(text[from]) ||
        !is_open(behind[dop_span_blank(behind, (size_t)(text + n - behind), 0)]))
        return;
    f->think_open = trimmed(text + from, reason);
    f->think_close = trimmed(behind, text + n);
}

/* Corrects think_open if the tag before reasoning also begins answers, and so belongs to the role. Reasoning then
 * begins after the end of the prompt that answers lack, such as "Here are my reasoning steps:". */
static void
open_by_prompt(const char *text, const char *plain, const char *prompt, dop_tool_form *f)
{
    const char *reason = strstr(text, REASON);
    if (!f->think_open || !reason || !plain || !prompt)
        return;
    while (reason > text && isspace((unsigned char)reason[-1]))
        reason--;
    if (strncmp(text, plain, (size_t)(reason - text)) != 0)
        return;
    const char *left = prompt + dop_form_answer(plain, prompt);
    char *open = trimmed(left, left + strlen(left));
    if (open && !strstr(open, f->think_close)) {
        free(f->think_open);
        f->think_open = open;
        open = NULL;
    }
    free(open);
}

/* Finds the marks around the content of an answer without calls. */
static void
find_content(const char *plain, const char *prompt, dop_tool_form *f)
{
    const char *content = plain && prompt ? strstr(plain, DOP_PROBE_CONTENT) : NULL;
    const char *from = plain;
    if (!content)
        return;
    from += dop_form_answer(plain, prompt);
    const char *left = prompt + (from - plain); /* end of the prompt that the answer lacks */
    if (from < content && (*left == 0 || strstr(left, "think") || strstr(left, "THINK"))) {
        const char *tag = tag_before(from, content);
        bool other = false; /* another tag precedes the content's */
        for (const char *c = from; c < tag; c++)
            other |= is_open(*c);
        f->content_open = trimmed(other ? tag : from, content);
        /* An empty reasoning block is not part of the content's mark. */
        if (f->content_open && (strstr(f->content_open, "think") || strstr(f->content_open, "THINK"))) {
            free(f->content_open);
            f->content_open = NULL;
        }
    }
    const char *after = content + strlen(DOP_PROBE_CONTENT), *end = tag_behind(after);
    if (f->content_open && !f->content_close && end > after && is_open(*end)) /* a different mark ends the message */
        f->content_close = trimmed(after, end);
}

/* Finds reasoning marks in the template's text, for templates that do not render reasoning. */
static void
think_by_words(const char *template, dop_tool_form *f)
{
    static const char *const marks[][2] = {{"<|channel>thought", "<channel|>"},
                                           {"<think>", "</think>"},
                                           {"[THINK]", "[/THINK]"},
                                           {"<seed:think>", "</seed:think>"},
                                           {"<|START_THINKING|>", "<|END_THINKING|>"},
                                           {"<thought>", "</thought>"},
                                           {"<thinking>", "</thinking>"},
                                           {"<reasoning>", "</reasoning>"}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !f->think_open; i++)
        if (strstr(template, marks[i][0]) || strstr(template, marks[i][1])) {
            f->think_open = strdup(marks[i][0]);
            f->think_close = strdup(marks[i][1]);
        }
}

/* Finds the variable that turns reasoning on and off: the prompts for both values differ. */
static void
find_switch(const dop_probe *p, const char *template, dop_tool_form *f)
{
    static const struct {
        const char *name, *on, *off;
    } rows[] = {{"enable_thinking", "true", "false"},
                {"thinking", "true", "false"},
                {"reasoning", "true", "false"},
                {"thinking_budget", "-1", "0"},
                {"reasoning_effort", "\"high\"", "\"none\""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !f->thinking_switch; i++) {
        /* A template that only prints the effort has no switch. */
        if (rows[i].off[0] == '"' && !strstr(template, rows[i].off) && !strstr(template, "'none'"))
            continue;
        json_t *values[] = {json_loads(rows[i].on, JSON_DECODE_ANY, NULL),
                            json_loads(rows[i].off, JSON_DECODE_ANY, NULL)};
        char *prompts[2];
        for (size_t k = 0; k < 2; k++) {
            json_t *extra = json_pack("{s:O}", rows[i].name, values[k]);
            dop_probe own = *p;
            own.extra = extra;
            prompts[k] = dop_probe_render(&own, list_of(user(), NULL, NULL), NULL, true);
            json_decref(extra);
        }
        if (prompts[0] && prompts[1] && strcmp(prompts[0], prompts[1]) != 0) {
            f->thinking_switch = rows[i].name;
            f->thinking_on = json_incref(values[0]);
            f->thinking_off = json_incref(values[1]);
        }
        for (size_t k = 0; k < 2; k++) {
            free(prompts[k]);
            json_decref(values[k]);
        }
    }
}

static void
find_reasoning(const dop_probe *p, const char *template, dop_tool_form *f)
{
    static const char *const members[] = {"reasoning_content", "thinking", "reasoning"};
    char *prompt = dop_probe_render(p, list_of(user(), NULL, NULL), NULL, true);
    char *unopened = dop_probe_render(p, list_of(user(), NULL, NULL), NULL, false);
    char *plain = dop_probe_render(p, list_of(user(), said("assistant", DOP_PROBE_CONTENT), NULL), NULL, false);
    find_content(plain, prompt, f);
    for (size_t i = 0; i < 3 && !f->reasoning; i++) {
        /* Also tries a message with a call, because some templates keep reasoning only there. */
        json_t *answer = said("assistant", DOP_PROBE_CONTENT);
        char *text;
        json_object_set_new(answer, members[i], json_string(REASON));
        if (shows(p, list_of(user(), json_incref(answer), NULL), NULL, false, REASON, &text)) {
            f->reasoning = members[i];
            find_thinking(text, f);
            open_by_prompt(text, plain, prompt, f);
        }
        free(text);
        if (!f->reasoning) {
            json_object_set_new(answer, "content", json_string(""));
            json_object_set_new(answer, "tool_calls",
                                json_pack("[{s:s, s:s, s:{s:s, s:{}}}]", "id", "dopid0001", "type", "function",
                                          "function", "name", "dopcallone", "arguments"));
            if (shows(p, list_of(user(), json_incref(answer), NULL), NULL, false, REASON, &text)) {
                f->reasoning = members[i];
                json_object_del(answer, members[i]);
                char *without = dop_probe_render(p, list_of(user(), json_incref(answer), NULL), NULL, false);
                if (without)
                    find_thinking_of_calls(text, without, f);
                free(without);
            }
            free(text);
        }
        json_decref(answer);
    }
    if (!f->think_open)
        think_by_words(template, f);
    /* If the generation prompt is empty, the mark before an answer is the role's and not the content's. Then the
     * content has no marks. */
    if (unopened && prompt && strcmp(unopened, prompt) == 0 &&
        !(f->content_close && f->content_open && is_open(*f->content_open))) {
        free(f->content_open);
        free(f->content_close);
        f->content_open = f->content_close = NULL;
    }
    free(unopened);
    free(prompt);
    free(plain);
}

/* --- histories ----------------------------------------------------------------------------------------------------------------- */

static json_t *
called(const dop_tool_form *f, const char *id, json_t *arguments)
{
    json_t *call = json_pack("{s:s, s:s, s:{s:s, s:O}}", "id", id, "type", "function", "function", "name", "dopcallone",
                             "arguments", arguments);
    json_t *message = json_pack("{s:s, s:[O]}", "role", "assistant", "tool_calls", call);
    if (f->flat)
        json_object_update_missing(call, json_object_get(call, "function"));
    json_object_set_new(message, "content",
                        f->needs_content  ? json_string(DOP_PROBE_CONTENT)
                        : f->null_content ? json_null()
                                          : json_string(""));
    json_decref(call);
    json_decref(arguments);
    return message;
}

static json_t *
plain_arguments(const dop_tool_form *f)
{
    return f->arguments_text ? json_string("{\"a\":1}") : json_pack("{s:i}", "a", 1);
}

static void
find_results(const dop_probe *p, dop_tool_form *f)
{
    json_t *result = json_pack("{s:s, s:s, s:s, s:s}", "role", "tool", "content", RESULT, "tool_call_id", "dopid0001",
                               "name", "dopcallone");
    json_t *tools = dop_probe_tools();
    char *text = NULL, *other = NULL;
    f->shows_results =
        shows(p,
              list_of(user(), called(f, f->id_has_name ? "functions.dopcallone:0" : "dopid0001", plain_arguments(f)),
                      json_incref(result)),
              tools, true, RESULT, &text);
    /* Mistral's templates reject ids that are not nine letters and digits. */
    json_object_set_new(result, "tool_call_id", json_string("call_dop-0000000000001"));
    if (f->shows_results) {
        other = dop_probe_render(
            p, list_of(user(), called(f, "call_dop-0000000000001", plain_arguments(f)), json_incref(result)), tools,
            true);
        f->short_ids = !other;
    }
    /* Tries arguments that are not valid JSON. */
    char *cut =
        dop_probe_render(p, list_of(user(), called(f, "dopid0001", json_string("{\"a\": \"dop")), NULL), tools, false);
    f->takes_text = cut && strstr(cut, "dop");
    free(cut);
    free(text);
    free(other);
    json_decref(result);
    json_decref(tools);
}

static void
find_contents(const dop_probe *p, dop_tool_form *f)
{
    if (shows(p, list_of(user(), NULL, NULL), NULL, true, DOP_PROBE_USER, NULL))
        return;
    json_t *parts =
        json_pack("{s:s, s:[{s:s, s:s}]}", "role", "user", "content", "type", "text", "text", DOP_PROBE_USER);
    f->wants_parts = shows(p, list_of(parts, NULL, NULL), NULL, true, DOP_PROBE_USER, NULL);
}

void
dop_form_find_rest(const dop_probe *p, const char *template, dop_tool_form *form)
{
    json_t *tools = dop_probe_tools();
    const bool names_developer = strstr(template, "'developer'") || strstr(template, "\"developer\"");
    form->shows_tools = shows(p, list_of(user(), NULL, NULL), tools, true, "dopcallone", NULL) ||
                        shows(p, list_of(said("system", "x"), user(), NULL), tools, true, "dopcallone", NULL);
    form->shows_system = shows(p, list_of(said("system", REASON), user(), NULL), NULL, true, REASON, NULL) ||
                         shows(p, list_of(said("system", REASON), user(), NULL), tools, true, REASON, NULL);
    form->knows_developer =
        names_developer && shows(p, list_of(said("developer", REASON), user(), NULL), NULL, true, REASON, NULL);
    find_contents(p, form);
    find_results(p, form);
    if (form->manner != DOP_FORM_CHANNELS) {
        find_reasoning(p, template, form);
        find_switch(p, template, form);
    } else {
        form->reasoning = "thinking";
    }
    json_decref(tools);
}
