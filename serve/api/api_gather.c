/* Converts texts and lists of ids in a body to prompts, and reads reasoning switches. */
#include "serve/api/api_gather.h"
#include "serve/api/api_json.h"
#include "serve/api/api_read.h"

#include <stdlib.h>
#include <string.h>

void
dop_gather_refuse(gathering *g, const char *param, const dop_diag *diag)
{
    dop_reader_fail(&g->r, param, diag, g->budget);
}

void
dop_gather_no_memory(gathering *g)
{
    dop_diag diag = {0};
    DOP_NO_MEMORY(&diag);
    dop_gather_refuse(g, NULL, &diag);
}

static void
read_prompt_ids(gathering *g, const char *param, const json_t *list, dop_ids *out)
{
    size_t i;
    const json_t *v;
    json_array_foreach(list, i, v)
    {
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= g->api->facts.vocab) {
            dop_reader_refuse(&g->r, param, "token ids of a prompt are whole numbers below %u", g->api->facts.vocab);
            return;
        }
        dop_ids_push(out, (uint32_t)json_integer_value(v));
    }
}

/* Returns DOP_ENCODE_* bits for the texts of a request. Other servers use add_special_tokens instead of add_special. */
static unsigned
read_special_flags(gathering *g)
{
    bool adds = dop_reader_bool(&g->r, "add_special", dop_reader_bool(&g->r, "add_special_tokens", true));
    bool parses = dop_reader_bool(&g->r, "parse_special", true);
    return (adds ? (unsigned)DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_ONCE : 0) |
           (parses ? (unsigned)DOP_ENCODE_PARSE_SPECIAL : 0);
}

dop_status
dop_gather_text(gathering *g, const char *text, size_t n, unsigned special, dop_diag *diag, dop_ids *out)
{
    if (!g->front || !*g->front)
        return dop_tokenizer_encode_within(g->api->tok, text, n, special, g->budget, diag, out);
    dop_buf whole = {0};
    dop_buf_puts(&whole, g->front);
    dop_buf_append(&whole, text, n);
    dop_status st =
        whole.failed ? DOP_NO_MEMORY(diag)
                     : dop_tokenizer_encode_within(g->api->tok, whole.data, whole.size, special, g->budget, diag, out);
    dop_buf_finish(&whole);
    return st;
}

static void
read_one_prompt(gathering *g, const char *param, const json_t *one, unsigned special, dop_ids *out)
{
    dop_diag diag = {0};
    if (json_is_array(one))
        read_prompt_ids(g, param, one, out);
    else if (!json_is_string(one))
        dop_reader_refuse(&g->r, param, "%s is a text, a list of token ids, or a list of such", param);
    else if (dop_gather_text(g, json_string_value(one), json_string_length(one), special, &diag, out) != DOP_OK)
        dop_gather_refuse(g, param, &diag);
}

void
dop_gather_prompts(gathering *g, const char *param)
{
    const json_t *v = dop_reader_get(&g->r, param);
    bool several = json_is_array(v) && json_array_size(v) > 0 && !json_is_integer(json_array_get(v, 0));
    size_t n = several ? json_array_size(v) : 1;
    const unsigned special = read_special_flags(g);
    g->texts = v;
    const uint32_t most = g->call->embeds ? g->api->max_inputs : g->api->max_choices;
    if (n > most) {
        dop_reader_refuse(&g->r, param, "at most %u %s", most, g->call->embeds ? "inputs" : "prompts");
        return;
    }
    g->prompts = calloc(n, sizeof *g->prompts);
    g->n_prompts = g->prompts ? (uint32_t)n : 0;
    if (!g->prompts)
        dop_gather_no_memory(g);
    for (size_t i = 0; i < n && g->prompts && !g->r.failed; i++)
        read_one_prompt(g, param, several ? json_array_get(v, i) : v, special, &g->prompts[i]);
}

bool
dop_gather_echo(const gathering *g, uint32_t prompt, dop_choice *choice)
{
    const dop_ids *ids = &g->prompts[prompt];
    const json_t *given = json_is_array(g->texts) && !json_is_integer(json_array_get(g->texts, 0))
                              ? json_array_get(g->texts, prompt)
                              : g->texts;
    size_t n;
    choice->prompt = calloc(ids->count + 1, sizeof *choice->prompt);
    if (!choice->prompt)
        return false;
    memcpy(choice->prompt, ids->data, ids->count * sizeof *choice->prompt);
    choice->n_prompt = (uint32_t)ids->count;
    if (!json_is_string(given))
        return dop_tokenizer_decode(g->api->tok, ids->data, ids->count, 0, NULL, &choice->before) == DOP_OK;
    dop_buf_append(&choice->before, json_string_value(given), json_string_length(given));
    const char *first = ids->count ? dop_tokenizer_piece(g->api->tok, ids->data[0], &n) : NULL;
    choice->n_added = first && dop_tokenizer_is_special(g->api->tok, ids->data[0]) &&
                      (json_string_length(given) < n || memcmp(json_string_value(given), first, n) != 0);
    return !choice->before.failed;
}

/* --- reasoning ------------------------------------------------------------------------------------------------------------------ */

/* Members that turn reasoning on or off, in a request or among its template variables. The first one with an effect
 * applies. */
static const char *const switches[] = {"enable_thinking",  "think",          "thinking", "reasoning",
                                       "reasoning_effort", "thinking_budget"};
enum { N_SWITCHES = sizeof switches / sizeof *switches };

static const json_t *
get_reasoning_effort(const json_t *v)
{
    const json_t *inner = json_object_get(v, "effort");
    return inner && !json_is_null(inner) ? inner : v;
}

/* Returns the effect of a switch: a boolean, a word, a number of tokens, or an object with one of these. Other words
 * are effort levels, which turn nothing on or off. */
static dop_reasoning_wish
get_reasoning_wish(const json_t *v)
{
    static const char *const off[] = {"none", "disabled", "off", "false"},
                             *const on[] = {"enabled", "adaptive", "auto", "on", "true"},
                             *const inner[] = {"enabled", "type", "effort", "max_tokens", "budget_tokens"};
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
        if (json_is_object(v) && get_reasoning_wish(json_object_get(v, inner[i])))
            return get_reasoning_wish(json_object_get(v, inner[i]));
    return DOP_REASONING_UNSTATED;
}

/* True if the member only has switches and efforts. Token budgets have no effect, but budget_tokens is accepted,
 * because Anthropic's clients must state it. */
static bool
is_supported_reasoning(const json_t *v)
{
    static const char *const names[] = {"enabled",          "type",          "effort", "summary",
                                        "generate_summary", "budget_tokens", "display"};
    const char *name;
    const json_t *one;
    bool good = json_is_object(v) || json_is_string(v) || get_reasoning_wish(v);
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
    for (size_t i = 0; i < N_SWITCHES && !g->wish; i++)
        g->wish = get_reasoning_wish(json_object_get(extra, switches[i]));
    for (size_t i = 0; i < N_SWITCHES; i++) {
        const json_t *v = dop_reader_get(&g->r, switches[i]), *own = get_reasoning_effort(v);
        const bool is_effort = strcmp(switches[i], "reasoning_effort") == 0 || own != v;
        if (v && is_effort && !json_is_string(own))
            dop_reader_refuse(&g->r, "reasoning_effort", "reasoning_effort is a text, such as low, medium or high");
        if (!effort && json_is_string(own) && (is_effort || !get_reasoning_wish(own)))
            effort = own;
        g->wish = g->wish ? g->wish : get_reasoning_wish(v);
        if (v && !is_supported_reasoning(v))
            dop_reader_forget(&g->r, switches[i]);
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
    for (size_t i = 0; i < N_SWITCHES && g->wish && !good; i++) {
        if (get_reasoning_wish(json_object_get(extra, switches[i])) == g->wish)
            dop_reader_forget(&g->r, "chat_template_kwargs");
        if (get_reasoning_wish(json_object_get(g->r.root, switches[i])) == g->wish)
            dop_reader_forget(&g->r, switches[i]);
    }
}
