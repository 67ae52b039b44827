#include "runtime/plan/prompts.h"

#include "base/json/json.h"

#include <string.h>

json_t *
dop_prompts_of(const dop_plan *plan)
{
    json_t *card = NULL, *prompts = NULL;
    if (plan->card && dop_json_decode(plan->card, (size_t)plan->card_size, NULL, NULL, &card) == DOP_OK &&
        json_is_object(json_object_get(card, "prompts")))
        prompts = json_pack("{s:O, s:O*}", "prompts", json_object_get(card, "prompts"), "default",
                            json_object_get(card, "defaultPrompt"));
    json_decref(card);
    return prompts;
}

static dop_status
refuse(json_t *all, const char *name, dop_diag *diag)
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
    return text || !name ? DOP_OK : refuse(all, name, diag);
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
