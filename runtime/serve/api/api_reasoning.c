/* Whether a conversation's answer is to have reasoning: the switches of several APIs, and what the model's template makes of them. */
#include "runtime/serve/api/api_gather.h"

#include <string.h>

/* Members that switch reasoning, in a request or as variables of the template; the first one that says on or off holds. */
static const char *const members[] = {"enable_thinking",  "think",          "thinking", "reasoning",
                                      "reasoning_effort", "thinking_budget"};
enum { N_MEMBERS = sizeof members / sizeof *members };

static const json_t *
effort_of(const json_t *v)
{
    const json_t *inner = json_object_get(v, "effort");
    return inner && !json_is_null(inner) ? inner : v;
}

/* Reads the value of a switch: true or false, a word (with another word it is an effort, which is neither on nor off), a number of
 * tokens, or an object that has one of these. */
static dop_reasoning_wish
wish_of(const json_t *v)
{
    static const char *const off[] = {"none", "disabled", "off", "false"},
                             *const on[] = {"enabled", "adaptive", "auto", "on", "true"},
                             *const inner[] = {"enabled", "type", "effort"};
    const char *word = json_string_value(v);
    if (json_is_boolean(v))
        return json_is_true(v) ? DOP_REASONING_ON : DOP_REASONING_OFF;
    if (json_is_number(v))
        return json_number_value(v) == 0 ? DOP_REASONING_OFF : DOP_REASONING_UNSTATED;
    for (size_t i = 0; word && i < sizeof off / sizeof *off; i++)
        if (strcmp(word, off[i]) == 0)
            return DOP_REASONING_OFF;
    for (size_t i = 0; word && i < sizeof on / sizeof *on; i++)
        if (strcmp(word, on[i]) == 0)
            return DOP_REASONING_ON;
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        if (json_is_object(v) && wish_of(json_object_get(v, inner[i])))
            return wish_of(json_object_get(v, inner[i]));
    return DOP_REASONING_UNSTATED;
}

/* True if everything that a member asks for is a switch or an effort.  Budgets are not kept, except that Anthropic's clients must state
 * one. */
static bool
is_understood(const json_t *v)
{
    static const char *const names[] = {"enabled",          "type",          "effort", "summary",
                                        "generate_summary", "budget_tokens", "display"};
    const char *name;
    const json_t *one;
    bool good = json_is_object(v) || json_is_string(v) || wish_of(v);
    json_object_foreach((json_t *)(uintptr_t)v, name, one)
    {
        bool known = json_is_null(one) || json_is_false(one);
        for (size_t i = 0; i < sizeof names / sizeof *names && !known; i++)
            known = strcmp(names[i], name) == 0;
        good = good && known;
    }
    return good;
}

json_t *
dop_gather_variables(gathering *g)
{
    const json_t *extra = dop_reader_get(&g->r, "chat_template_kwargs"), *effort = NULL;
    const dop_tool_form *f = g->api->form;
    const char *name;
    json_t *value;
    if (extra && !json_is_object(extra))
        dop_reader_refuse(&g->r, "chat_template_kwargs", "chat_template_kwargs is an object");
    json_object_foreach((json_t *)(uintptr_t)extra, name, value) if (dop_chat_reserved(name))
        dop_reader_refuse(&g->r, "chat_template_kwargs", "chat_template_kwargs cannot set \"%.80s\"", name);
    for (size_t i = 0; i < N_MEMBERS && !g->wish; i++)
        g->wish = wish_of(json_object_get(extra, members[i]));
    for (size_t i = 0; i < N_MEMBERS; i++) {
        const json_t *v = dop_reader_get(&g->r, members[i]), *own = effort_of(v);
        const bool is_effort = strcmp(members[i], "reasoning_effort") == 0 || own != v;
        if (v && is_effort && !json_is_string(own))
            dop_reader_refuse(&g->r, "reasoning_effort", "reasoning_effort is a text, such as low, medium or high");
        if (!effort && json_is_string(own) && (is_effort || !wish_of(own)))
            effort = own;
        g->wish = g->wish ? g->wish : wish_of(v);
        if (v && !is_understood(v))
            dop_reader_forget(&g->r, members[i]);
    }
    json_t *all = json_object();
    const bool on = g->wish == DOP_REASONING_ON;
    if (g->wish && f->thinking_switch)
        json_object_set_new(all, f->thinking_switch, json_copy(on ? f->thinking_on : f->thinking_off));
    if (effort)
        json_object_set(all, "reasoning_effort", (json_t *)(uintptr_t)effort);
    if (g->wish)
        json_object_set_new(all, "enable_thinking", json_boolean(on));
    json_object_update(all, (json_t *)(uintptr_t)extra);
    return all;
}

void
dop_gather_check_reasoning(gathering *g)
{
    const dop_tool_form *f = g->api->form;
    const bool can_reason = f->think_open || f->manner == DOP_FORM_CHANNELS;
    const json_t *extra = dop_reader_get(&g->r, "chat_template_kwargs");
    const bool good =
        f->thinking_switch || (g->wish == DOP_REASONING_OFF ? !can_reason || g->reasoning_closed : can_reason);
    for (size_t i = 0; i < N_MEMBERS && g->wish && !good; i++) {
        if (wish_of(json_object_get(extra, members[i])) == g->wish)
            dop_reader_forget(&g->r, "chat_template_kwargs");
        if (wish_of(json_object_get(g->r.root, members[i])) == g->wish)
            dop_reader_forget(&g->r, members[i]);
    }
}
