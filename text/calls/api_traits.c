/* Finds how a template handles roles, contents, reasoning and the results of calls. */
#include "text/calls/api_form.h"
#include "text/calls/api_span.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define REASON "dopreason"
#define RESULT "dopresult"

static json_t *
make_user_message(void)
{
    return json_pack("{s:s, s:s}", "role", "user", "content", DOP_PROBE_USER);
}

static json_t *
make_message_list(json_t *first, json_t *second, json_t *third)
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
render_shows_mark(const dop_probe *p, json_t *messages, const json_t *tools, bool generate, const char *mark,
                  char **out)
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
make_text_message(const char *role, const char *content)
{
    return json_pack("{s:s, s:s}", "role", role, "content", content);
}

/* --- reasoning --------------------------------------------------------------------------------------------------------------- */

static bool
is_opening_mark(char c)
{
    return c == '<' || c == '[';
}

/* Returns the start of the tag before `end`, ignoring white space in between: "<think>", or "<|channel>thought". */
static const char *
find_tag_before(const char *begin, const char *end)
{
    while (end > begin && isspace((unsigned char)end[-1]))
        end--;
    while (end > begin && !is_opening_mark(*--end))
        continue;
    return end;
}

static const char *
find_tag_after(const char *text)
{
    text += dop_span_blank(text, strlen(text), 0);
    if (!is_opening_mark(*text))
        return text;
    while (*text && *text != '>' && *text != ']')
        text++;
    return *text ? text + 1 : text;
}

static char *
copy_trimmed_text(const char *from, const char *to)
{
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    return to > from ? strndup(from, (size_t)(to - from)) : NULL;
}

/* Finds the marks around reasoning and around the answer in the rendering of a message with both. */
static void
find_thinking_marks(const char *text, dop_tool_form *f)
{
    const char *reason = strstr(text, REASON), *content = reason ? strstr(reason, DOP_PROBE_CONTENT) : NULL;
    if (!content)
        return;
    const char *behind = reason + strlen(REASON), *after = content + strlen(DOP_PROBE_CONTENT);
    const char *begin = text, *open = find_tag_before(text, reason), *answer = find_tag_before(behind, content);
    while (open > begin && answer > behind && reason - open == content - answer &&
           memcmp(open, answer, (size_t)(reason - open)) == 0) {
        open = find_tag_before(begin, open);
        answer = find_tag_before(behind, answer);
    }
    if (is_opening_mark(*open) && !strstr(open, DOP_PROBE_USER))
        f->think_open = copy_trimmed_text(open, reason);
    if (f->content_open && answer > behind) {
        free(f->content_open);
        f->content_open = copy_trimmed_text(answer, content);
    }
    const size_t n = f->content_open ? strlen(f->content_open) : 0;
    const char *close = find_tag_after(behind);
    if (n > 0 && (size_t)(content - behind) > n && memcmp(content - n, f->content_open, n) == 0) {
        close = content - n;
    } else {
        const char *end = find_tag_after(after);
        while (*close && close < content && close - behind == end - after &&
               memcmp(behind, after, (size_t)(close - behind)) == 0) {
            while (close < content && !is_opening_mark(*close) && *close != '>' && *close != ']')
                close++;
            while (close < content && *close != '>' && *close != ']')
                close++;
            close += close < content;
            end = after + (close - behind);
        }
    }
    if (close > content)
        close = content;
    f->think_close = copy_trimmed_text(behind, close);
    if (!f->think_open || !f->think_close) {
        free(f->think_open);
        free(f->think_close);
        f->think_open = f->think_close = NULL;
    }
}

/* Finds the marks around reasoning for templates that render it only in messages with calls: compares a rendering of
 * a call with reasoning to one `without`. */
static void
find_call_thinking_marks(const char *text, const char *without, dop_tool_form *f)
{
    size_t from = 0, n = strlen(text), n_without = strlen(without), same = 0;
    while (from < n && text[from] == without[from])
        from++;
    while (same < n - from && same < n_without - from && text[n - 1 - same] == without[n_without - 1 - same])
        same++;
    n -= same;
    /* If the following text begins like the opening mark, the common start is too long. Moves the difference back to
     * the mark. */
    while (from > 0 && n > from && !is_opening_mark(text[from]) && text[from - 1] == text[n - 1])
        from--, n--;
    const char *reason = strstr(text + from, REASON), *behind = reason ? reason + strlen(REASON) : NULL;
    if (!reason || behind >= text + n || !is_opening_mark(text[from]) ||
        !is_opening_mark(behind[dop_span_blank(behind, (size_t)(text + n - behind), 0)]))
        return;
    f->think_open = copy_trimmed_text(text + from, reason);
    f->think_close = copy_trimmed_text(behind, text + n);
}

/* Corrects think_open if the tag before reasoning also begins answers, and so belongs to the role. Reasoning then
 * begins after the end of the prompt that answers lack, such as "Here are my reasoning steps:". */
static void
correct_think_open(const char *text, const char *plain, const char *prompt, dop_tool_form *f)
{
    const char *reason = strstr(text, REASON);
    if (!f->think_open || !reason || !plain || !prompt)
        return;
    while (reason > text && isspace((unsigned char)reason[-1]))
        reason--;
    if (strncmp(text, plain, (size_t)(reason - text)) != 0)
        return;
    const char *left = prompt + dop_form_answer(plain, prompt);
    char *open = copy_trimmed_text(left, left + strlen(left));
    if (open && !strstr(open, f->think_close)) {
        free(f->think_open);
        f->think_open = open;
        open = NULL;
    }
    free(open);
}

/* Finds the marks around the content of an answer without calls. */
static void
find_content_marks(const char *plain, const char *prompt, dop_tool_form *f)
{
    const char *content = plain && prompt ? strstr(plain, DOP_PROBE_CONTENT) : NULL;
    const char *from = plain;
    if (!content)
        return;
    from += dop_form_answer(plain, prompt);
    const char *left = prompt + (from - plain); /* end of the prompt that the answer lacks */
    if (from < content && (*left == 0 || strstr(left, "think") || strstr(left, "THINK"))) {
        const char *tag = find_tag_before(from, content);
        bool other = false; /* another tag precedes the content's */
        for (const char *c = from; c < tag; c++)
            other |= is_opening_mark(*c);
        f->content_open = copy_trimmed_text(other ? tag : from, content);
        /* An empty reasoning block is not part of the content's mark. */
        if (f->content_open && (strstr(f->content_open, "think") || strstr(f->content_open, "THINK"))) {
            free(f->content_open);
            f->content_open = NULL;
        }
    }
    const char *after = content + strlen(DOP_PROBE_CONTENT), *end = find_tag_after(after);
    if (f->content_open && !f->content_close && end > after &&
        is_opening_mark(*end)) /* a different mark ends the message */
        f->content_close = copy_trimmed_text(after, end);
}

/* Finds reasoning marks in the template's text, for templates that do not render reasoning. */
static void
find_thinking_by_words(const char *template, dop_tool_form *f)
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
find_thinking_switch(const dop_probe *p, const char *template, dop_tool_form *f)
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
            prompts[k] = dop_probe_render(&own, make_message_list(make_user_message(), NULL, NULL), NULL, true);
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
find_reasoning_member(const dop_probe *p, const char *template, dop_tool_form *f)
{
    static const char *const members[] = {"reasoning_content", "thinking", "reasoning"};
    char *prompt = dop_probe_render(p, make_message_list(make_user_message(), NULL, NULL), NULL, true);
    char *unopened = dop_probe_render(p, make_message_list(make_user_message(), NULL, NULL), NULL, false);
    char *plain = dop_probe_render(
        p, make_message_list(make_user_message(), make_text_message("assistant", DOP_PROBE_CONTENT), NULL), NULL,
        false);
    find_content_marks(plain, prompt, f);
    for (size_t i = 0; i < 3 && !f->reasoning; i++) {
        /* Also tries a message with a call, because some templates keep reasoning only there. */
        json_t *answer = make_text_message("assistant", DOP_PROBE_CONTENT);
        char *text;
        json_object_set_new(answer, members[i], json_string(REASON));
        if (render_shows_mark(p, make_message_list(make_user_message(), json_incref(answer), NULL), NULL, false, REASON,
                              &text)) {
            f->reasoning = members[i];
            find_thinking_marks(text, f);
            correct_think_open(text, plain, prompt, f);
        }
        free(text);
        if (!f->reasoning) {
            json_object_set_new(answer, "content", json_string(""));
            json_object_set_new(answer, "tool_calls",
                                json_pack("[{s:s, s:s, s:{s:s, s:{}}}]", "id", "dopid0001", "type", "function",
                                          "function", "name", "dopcallone", "arguments"));
            if (render_shows_mark(p, make_message_list(make_user_message(), json_incref(answer), NULL), NULL, false,
                                  REASON, &text)) {
                f->reasoning = members[i];
                json_object_del(answer, members[i]);
                char *without =
                    dop_probe_render(p, make_message_list(make_user_message(), json_incref(answer), NULL), NULL, false);
                if (without)
                    find_call_thinking_marks(text, without, f);
                free(without);
            }
            free(text);
        }
        json_decref(answer);
    }
    if (!f->think_open)
        find_thinking_by_words(template, f);
    /* If the generation prompt is empty, the mark before an answer is the role's and not the content's. Then the
     * content has no marks. */
    if (unopened && prompt && strcmp(unopened, prompt) == 0 &&
        !(f->content_close && f->content_open && is_opening_mark(*f->content_open))) {
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
make_call_message(const dop_tool_form *f, const char *id, json_t *arguments)
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
make_plain_arguments(const dop_tool_form *f)
{
    return f->arguments_text ? json_string("{\"a\":1}") : json_pack("{s:i}", "a", 1);
}

static void
find_result_traits(const dop_probe *p, dop_tool_form *f)
{
    json_t *result = json_pack("{s:s, s:s, s:s, s:s}", "role", "tool", "content", RESULT, "tool_call_id", "dopid0001",
                               "name", "dopcallone");
    json_t *tools = dop_probe_tools();
    char *text = NULL, *other = NULL;
    f->shows_results = render_shows_mark(
        p,
        make_message_list(
            make_user_message(),
            make_call_message(f, f->id_has_name ? "functions.dopcallone:0" : "dopid0001", make_plain_arguments(f)),
            json_incref(result)),
        tools, true, RESULT, &text);
    /* Mistral's templates reject ids that are not nine letters and digits. */
    json_object_set_new(result, "tool_call_id", json_string("call_dop-0000000000001"));
    if (f->shows_results) {
        other =
            dop_probe_render(p,
                             make_message_list(make_user_message(),
                                               make_call_message(f, "call_dop-0000000000001", make_plain_arguments(f)),
                                               json_incref(result)),
                             tools, true);
        f->short_ids = !other;
    }
    /* Tries arguments that are not valid JSON. */
    char *cut = dop_probe_render(
        p,
        make_message_list(make_user_message(), make_call_message(f, "dopid0001", json_string("{\"a\": \"dop")), NULL),
        tools, false);
    f->takes_text = cut && strstr(cut, "dop");
    free(cut);
    free(text);
    free(other);
    json_decref(result);
    json_decref(tools);
}

static void
find_content_kind(const dop_probe *p, dop_tool_form *f)
{
    if (render_shows_mark(p, make_message_list(make_user_message(), NULL, NULL), NULL, true, DOP_PROBE_USER, NULL))
        return;
    json_t *parts =
        json_pack("{s:s, s:[{s:s, s:s}]}", "role", "user", "content", "type", "text", "text", DOP_PROBE_USER);
    f->wants_parts = render_shows_mark(p, make_message_list(parts, NULL, NULL), NULL, true, DOP_PROBE_USER, NULL);
}

void
dop_form_find_rest(const dop_probe *p, const char *template, dop_tool_form *form)
{
    json_t *tools = dop_probe_tools();
    const bool names_developer = strstr(template, "'developer'") || strstr(template, "\"developer\"");
    form->shows_tools =
        render_shows_mark(p, make_message_list(make_user_message(), NULL, NULL), tools, true, "dopcallone", NULL) ||
        render_shows_mark(p, make_message_list(make_text_message("system", "x"), make_user_message(), NULL), tools,
                          true, "dopcallone", NULL);
    form->shows_system =
        render_shows_mark(p, make_message_list(make_text_message("system", REASON), make_user_message(), NULL), NULL,
                          true, REASON, NULL) ||
        render_shows_mark(p, make_message_list(make_text_message("system", REASON), make_user_message(), NULL), tools,
                          true, REASON, NULL);
    form->knows_developer =
        names_developer &&
        render_shows_mark(p, make_message_list(make_text_message("developer", REASON), make_user_message(), NULL), NULL,
                          true, REASON, NULL);
    find_content_kind(p, form);
    find_result_traits(p, form);
    if (form->manner != DOP_FORM_CHANNELS) {
        find_reasoning_member(p, template, form);
        find_thinking_switch(p, template, form);
    } else {
        form->reasoning = "thinking";
    }
    json_decref(tools);
}
