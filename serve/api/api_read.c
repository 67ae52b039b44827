/* Reads a request's JSON within its budget, and reports members that are ignored. */
#include "serve/api/api_read.h"
#include "serve/api/api_internal.h"
#include "serve/api/api_json.h"

#include <string.h>

/* Answers a request that exceeds its budget. */
static void
answer_budget_error(dop_answer *answer, const char *param, const dop_budget *budget, const char *message)
{
    const bool late = budget && budget->end == DOP_BUDGET_TIME;
    dop_answer_error(answer,
                     late ? &(dop_api_error){408, "timeout_error", "timeout", param}
                          : &(dop_api_error){400, "invalid_request_error", "request_too_costly", param},
                     "%s", message);
}

json_t *
dop_request_json(const dop_api_request *request, bool list, dop_answer *answer)
{
    const dop_json_how how = {.flags = DOP_JSON_EXACT | DOP_JSON_UNIQUE, .budget = request->budget};
    dop_diag diag = {0};
    json_t *root = NULL;
    const dop_status st = dop_json_decode(request->body, request->n_body, &how, &diag, &root);
    if (st == DOP_OK && (list ? json_is_array(root) : json_is_object(root)))
        return root;
    if (st == DOP_E_LIMIT)
        answer_budget_error(answer, NULL, request->budget, diag.message);
    else if (st == DOP_E_NOMEM)
        dop_answer_no_memory(answer);
    else
        dop_answer_error(answer, &(dop_api_error){400, "invalid_request_error", "invalid_json", NULL},
                         "We could not parse the JSON body of your request: %s",
                         st == DOP_OK ? list ? "it is not a list" : "it is not an object" : diag.message);
    json_decref(root);
    return NULL;
}

const char *
dop_path_below(const char *path, const char *name)
{
    static const char version[] = "/v1";
    const size_t v = strncmp(path, version, strlen(version)) == 0 ? strlen(version) : 0, n = strlen(name);
    return path[v] == '/' && strncmp(path + v + 1, name, n) == 0 && path[v + 1 + n] == '/' ? path + v + n + 2 : NULL;
}

bool
dop_request_parameter(const dop_api_request *request, const char *name, char *out, size_t size)
{
    const size_t n = strlen(name);
    const char *at = request->query ? request->query : "";
    while (strncmp(at, name, n) != 0 || !strchr("=&", at[n])) {
        at += strcspn(at, "&");
        if (!*at++)
            return false;
    }
    at += n + (at[n] == '=');
    size_t k = 0;
    for (; *at && *at != '&' && k + 1 < size; at++) {
        const int high = *at == '%' ? dop_hex_digit(at[1]) : -1, low = high >= 0 ? dop_hex_digit(at[2]) : -1;
        out[k++] = low >= 0 ? (char)(high << 4 | low) : *at == '+' ? ' ' : *at;
        at += low >= 0 ? 2 : 0;
    }
    out[k] = 0;
    return true;
}

void
dop_reader_fail(dop_reader *r, const char *param, const dop_diag *diag, const dop_budget *budget)
{
    if (r->failed)
        return;
    if (diag->code == DOP_E_LIMIT) {
        answer_budget_error(r->answer, param, budget, diag->message);
        r->failed = true;
    } else if (diag->code == DOP_E_NOMEM) {
        dop_answer_error(r->answer, &(dop_api_error){503, "server_error", "out_of_memory", NULL}, "%s", diag->message);
        r->failed = true;
    } else {
        dop_reader_refuse(r, param, "%s", diag->message);
    }
}

/* True for members that are meant for a hosting provider and do not affect the answer. `model` is one of them,
 * because the model is already chosen. */
static bool
is_provider_member(const char *name)
{
    static const char *const names[] = {"model",
                                        "user",
                                        "metadata",
                                        "store",
                                        "service_tier",
                                        "safety_identifier",
                                        "prompt_cache_key",
                                        "prompt_cache_retention",
                                        "cache_prompt",
                                        "strict"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* True if a member that only other servers support has its default value there, or a value that disables it.
 * Booleans count as 0 and 1. Members that are not listed are reported even if they are false. */
static bool
is_disabled_member(const char *name, const json_t *v)
{
    static const struct {
        const char *name;
        double off;
    } rows[] = {
        {"typical_p", 1},
        {"typical", 1},
        {"mirostat", 0},
        {"tfs_z", 1},
        {"epsilon_cutoff", 0},
        {"eta_cutoff", 0},
        {"dynatemp_range", 0},
        {"xtc_probability", 0},
        {"dry_multiplier", 0},
        {"length_penalty", 1},
        {"num_beams", 1},
        {"no_repeat_ngram_size", 0},
        {"encoder_repetition_penalty", 1},
        {"top_n_sigma", -1},
        {"min_tokens", 0},
        {"n_keep", 0},
        {"n_probs", 0},
        {"top_a", 0},
        {"smoothing_factor", 0},
        {"prompt_logprobs", 0},
        {"return_tokens", 0},
        {"use_beam_search", 0},
        {"early_stopping", 0},
        {"skip_special_tokens", 1},
        {"add_generation_prompt", 1},
        {"include_reasoning", 1},
    };
    const double value = json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
    if (json_is_null(v))
        return true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && (json_is_number(v) || json_is_boolean(v)); i++)
        if (strcmp(rows[i].name, name) == 0)
            return value == rows[i].off;
    return false;
}

void
dop_reader_report(dop_reader *r)
{
    enum { MOST = 24 };
    const char *ignored[MOST], *name;
    size_t n = 0;
    json_t *v;
    const bool strict = dop_reader_bool(r, "strict", false);
    json_object_foreach((json_t *)(uintptr_t)r->root, name, v)
    {
        bool known = is_provider_member(name) || is_disabled_member(name, v);
        for (size_t i = 0; i < r->n_asked && !known; i++)
            known = strcmp(r->asked[i], name) == 0;
        if (!known && n < MOST)
            ignored[n++] = name;
    }
    if (r->failed || n == 0)
        return;
    if (strict)
        dop_reader_refuse(r, ignored[0], "%.100s is not a parameter of this request, which is strict", ignored[0]);
    else
        dop_answer_header(r->answer, "X-Doppler-Ignored", ignored, n);
}
