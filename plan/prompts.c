#include "plan/prompts.h"

#include "base/json/json.h"

#include <string.h>

json_t *
dop_prompts_of(const dop_plan *plan)
{
    json_t *card = NULL, *prompts = NULL;
    if (plan->card && dop_json_decode(plan->card, (size_t)plan->card_size, NULL, NULL, &card) == DOP_OK &&
        (json_is_object(json_object_get(card, "prompts")) || json_is_string(json_object_get(card, "pairPrompt"))))
        prompts = json_pack("{s:O*, s:O*, s:O*}", "prompts", json_object_get(card, "prompts"), "default",
                            json_object_get(card, "defaultPrompt"), "pair", json_object_get(card, "pairPrompt"));
    json_decref(card);
    return prompts;
}

static dop_status
refuse_prompt_name(json_t *all, const char *name, dop_diag *diag)
{
    dop_buf names = {0};
    const char *one;
    json_t *text;
    json_object_foreach(all, one, text)
    {
        if (names.size < 200)
            dop_buf_printf(&names, "%s%.60s", names.size ? ", " : "; it has ", one);
    }
    dop_status st =
        DOP_FAIL(diag, DOP_E_INPUT, "the model has no prompt \"%.60s\"%s", name, names.size ? names.data : "");
    dop_buf_finish(&names);
    return st;
}

dop_status
dop_prompts_find(const json_t *prompts, const char *name, dop_diag *diag, const char **out_prompt)
{
    json_t *all = json_object_get(prompts, "prompts");
    const char *one = name ? name : json_string_value(json_object_get(prompts, "default"));
    const char *text = one ? json_string_value(json_object_get(all, one)) : "";
    *out_prompt = text ? text : "";
    return text || !name ? DOP_OK : refuse_prompt_name(all, name, diag);
}

const char *
dop_prompts_for(const json_t *prompts, bool query)
{
    static const char *const names[] = {"query", "document", "passage", "corpus"};
    const json_t *all = json_object_get(prompts, "prompts");
    const char *text = NULL;
    for (size_t i = query ? 0 : 1; i < (query ? 1 : sizeof names / sizeof *names) && !text; i++)
        text = json_string_value(json_object_get(all, names[i]));
    if (!text)
        (void)dop_prompts_find(prompts, NULL, NULL, &text);
    return text;
}

bool
dop_prompts_pair(const json_t *prompts, const char *query, size_t n_query, const char *document, size_t n_document,
                 dop_buf *out)
{
    static const char first[] = "{query}", second[] = "{document}";
    const char *at = json_string_value(json_object_get(prompts, "pair"));
    if (!at)
        return false;
    while (*at) {
        const bool q = strncmp(at, first, strlen(first)) == 0, d = strncmp(at, second, strlen(second)) == 0;
        const size_t plain = 1 + strcspn(at + 1, "{");
        dop_buf_append(out, q ? query : d ? document : at, q ? n_query : d ? n_document : plain);
        at += q ? strlen(first) : d ? strlen(second) : plain;
    }
    return !out->failed;
}
