/* Prompts of sentence-transformers models (config_sentence_transformers.json). */
#include "text/import/prompt_files.h"
#include "text/import/tokenizer_json.h"

#include <stdio.h>

/* Like SentenceTransformer, fails unless "prompts" is an object of strings and "default_prompt_name" is null or one of
 * its keys. */
static dop_status
check_prompts(const char *path, json_t *prompts, const json_t *first, dop_diag *diag)
{
    const char *name;
    json_t *text;
    if (prompts && !json_is_null(prompts) && !json_is_object(prompts))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "\"prompts\" is not an object");
    json_object_foreach(prompts, name, text)
    {
        if (!json_is_string(text))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "\"prompts\": \"%.60s\" is not a text", name);
    }
    if (!first || json_is_null(first) || (json_is_string(first) && json_object_get(prompts, json_string_value(first))))
        return DOP_OK;
    return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "\"default_prompt_name\" is none of its prompts");
}

dop_status
dop_prompts_of_dir(const char *dir, dop_diag *diag, json_t **out_prompts)
{
    static const char file[] = "config_sentence_transformers.json";
    char path[1100];
    json_t *root = NULL;
    *out_prompts = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    dop_status st = dop_tok_read_object(dir, file, diag, &root);
    json_t *prompts = json_object_get(root, "prompts"), *first = json_object_get(root, "default_prompt_name");
    if (st == DOP_OK)
        st = check_prompts(path, prompts, first, diag);
    if (st == DOP_OK && json_object_size(prompts) > 0) {
        *out_prompts =
            json_pack("{s:O, s:O*}", "prompts", prompts, "defaultPrompt", json_is_string(first) ? first : NULL);
        if (!*out_prompts)
            st = DOP_NO_MEMORY(diag);
    }
    json_decref(root);
    return st;
}
