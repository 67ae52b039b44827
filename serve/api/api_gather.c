/* Texts and lists of ids in a body, as prompts. */
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
take_ids(gathering *g, const char *param, const json_t *list, dop_ids *out)
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

/* How the texts of a request are read: DOP_ENCODE_* bits.  Other servers have add_special_tokens for add_special. */
static unsigned
special_of(gathering *g)
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
take_prompt(gathering *g, const char *param, const json_t *one, unsigned special, dop_ids *out)
{
    dop_diag diag = {0};
    if (json_is_array(one))
        take_ids(g, param, one, out);
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
    const unsigned special = special_of(g);
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
        take_prompt(g, param, several ? json_array_get(v, i) : v, special, &g->prompts[i]);
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
