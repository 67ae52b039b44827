/* PEFT adapters: adapter_config.json, and tensors in adapter_model.safetensors.  Source: the documentation of the library peft,
 * "Checkpoint format" and LoraConfig. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/format/adapter_file.h"

#include <math.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATTERN = 200, MAX_PATTERNS = 4096, MAX_MATCH_STEPS = 100000, MAX_MATCH_KIB = 1024 };

/* Fails for features that change more than the model's matrices. */
static dop_status
check_peft_kind(const dop_json *j, const char *path, dop_diag *diag)
{
    /* Initializations that subtract the initial pair from the weights.  Such adapters apply to the remaining weights. */
    static const char *const subtracted[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    static const char *const others[] = {"layer_replication", "alora_invocation_tokens", "alora_invocation_string"};
    const char *begun = json_string_value(dop_json_get(j, "init_lora_weights"));
    for (size_t i = 0; begun && i < sizeof subtracted / sizeof *subtracted; i++)
        if (strncmp(begun, subtracted[i], strlen(subtracted[i])) == 0)
            return DOP_FAIL_IN(
                diag, DOP_E_INPUT, path,
                "init_lora_weights is %.40s: the adapter is for other weights than the model's; convert it "
                "(path_initial_model_for_weight_conversion of peft)",
                begun);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const json_t *value = dop_json_get(j, others[i]);
        if (value && !json_is_null(value))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%s is not supported", others[i]);
    }
    return DOP_OK;
}

dop_status
dop_adapter_read_config(const json_t *root, const char *path, dop_diag *diag, dop_adapter_config *c)
{
    const char *type = NULL;
    dop_json j = {0};
    *c = (dop_adapter_config){.path = path};
    dop_status st = dop_json_root(root, path, diag, &j);
    if (st == DOP_OK)
        st = dop_json_str_or(&j, "peft_type", "LORA", &type);
    if (st == DOP_OK && strcmp(type, "LORA") != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "adapters of type %.40s are not supported, only LORA", type);
    if (st == DOP_OK)
        st = dop_json_u32(&j, "r", 1, 1u << 20, &c->r);
    if (st == DOP_OK)
        st = dop_json_f64_or(&j, "lora_alpha", -1e6, 1e6, 8, &c->alpha);
    if (st == DOP_OK)
        st = dop_json_bool_or(&j, "use_rslora", false, &c->stabilized);
    if (st == DOP_OK)
        st = dop_json_bool_or(&j, "use_dora", false, &c->dora);
    bool bias = false;
    if (st == DOP_OK)
        st = dop_json_bool_or(&j, "lora_bias", false, &bias);
    if (st == DOP_OK && bias)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "lora_bias is not supported: the adapter has biases of its own");
    if (st == DOP_OK)
        st = check_peft_kind(&j, path, diag);
    c->ranks = st == DOP_OK ? dop_json_get(&j, "rank_pattern") : NULL;
    c->alphas = st == DOP_OK ? dop_json_get(&j, "alpha_pattern") : NULL;
    if ((c->ranks && !json_is_object(c->ranks)) || (c->alphas && !json_is_object(c->alphas)))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "rank_pattern and alpha_pattern must be objects");
    if (json_object_size(c->ranks) > MAX_PATTERNS || json_object_size(c->alphas) > MAX_PATTERNS)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "rank_pattern or alpha_pattern has more than %d entries",
                           MAX_PATTERNS);
    return st;
}

/* Matches a module name against a compiled pattern.  *out_is: true if it matches. */
static dop_status
match_module_pattern(const pcre2_code *code, const char *module, bool *out_is)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    int n = PCRE2_ERROR_NOMEMORY;
    if (data && limits) {
        pcre2_set_match_limit(limits, MAX_MATCH_STEPS);
        pcre2_set_heap_limit(limits, MAX_MATCH_KIB);
        n = pcre2_match(code, (PCRE2_SPTR)module, strlen(module), 0, 0, data, limits);
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(data);
    *out_is = n >= 0;
    return n >= 0 || n == PCRE2_ERROR_NOMATCH ? DOP_OK : n == PCRE2_ERROR_NOMEMORY ? DOP_E_NOMEM : DOP_E_INPUT;
}

/* Matches a module name against a configuration pattern: a regular expression for a suffix of the name that starts after a dot. */
static dop_status
fits_peft_pattern(const char *pattern, const char *module, bool *out_is)
{
    const size_t n = strlen(pattern), m = strlen(module);
    *out_is = m >= n && strcmp(module + m - n, pattern) == 0 && (m == n || module[m - n - 1] == '.');
    if (*out_is || !strpbrk(pattern, "\\*+?[({|^$")) /* usual case: a plain name */
        return DOP_OK;
    if (n > MAX_PATTERN || m > MAX_PATTERN * 4)
        return DOP_E_INPUT;
    char text[MAX_PATTERN + 32];
    const int len = snprintf(text, sizeof text, "^(?:.*\\.)?(?:%s)$", pattern);
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, (size_t)len, 0, &error, &at, NULL);
    if (!code)
        return error == PCRE2_ERROR_HEAP_FAILED ? DOP_E_NOMEM : DOP_E_INPUT;
    const dop_status st = match_module_pattern(code, module, out_is);
    pcre2_code_free(code);
    return st;
}

/* Reads the number that the first matching pattern assigns to a module. */
static dop_status
look_up_pattern_value(const dop_adapter_config *c, const json_t *patterns, const char *module, dop_diag *diag,
                      double *io_value)
{
    const char *pattern;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)patterns, pattern, value)
    {
        bool is = false;
        const dop_status st = fits_peft_pattern(pattern, module, &is);
        if (st == DOP_E_NOMEM)
            return DOP_NO_MEMORY(diag);
        if (st != DOP_OK)
            return DOP_FAIL_IN(diag, st, c->path, "\"%.80s\" is no pattern that is read here", pattern);
        if (is && !(dop_json_number(value, io_value) && isfinite(*io_value) && fabs(*io_value) <= 1e6))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, c->path,
                               "rank_pattern or alpha_pattern has no sensible number for %s", module);
        if (is)
            break;
    }
    return DOP_OK;
}

dop_status
dop_adapter_set_scale(const dop_adapter_config *c, dop_adapter_pair *p, dop_diag *diag)
{
    double rank = c->r, alpha = c->alpha;
    const char *path = c->path;
    dop_status st = look_up_pattern_value(c, c->ranks, p->module, diag, &rank);
    if (st == DOP_OK)
        st = look_up_pattern_value(c, c->alphas, p->module, diag, &alpha);
    if (st != DOP_OK)
        return st;
    if (!(rank >= 1))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "rank_pattern or alpha_pattern has no sensible number for %s",
                           p->module);
    const uint64_t stored = p->embedding ? p->a.rows : p->a.tensor ? p->a.rows : 0;
    if (p->a.tensor && stored != (uint64_t)rank)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the rank is %.0f, but tensor %s has %llu rows", rank, p->a.tensor,
                           (unsigned long long)stored);
    p->scale = alpha / (c->stabilized ? sqrt(rank) : rank);
    if (p->lengths.tensor && !c->dora)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "use_dora is not set, but tensor %s is there", p->lengths.tensor);
    if (p->a.tensor && !p->lengths.tensor && c->dora)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "use_dora is set, but %s has no lora_magnitude_vector", p->module);
    return DOP_OK;
}

dop_status
dop_adapter_matrix_of(const dop_st_tensor *t, dop_diag *diag, dop_adapter_matrix *out)
{
    *out = (dop_adapter_matrix){.tensor = t->name, .data = t->data, .experts = 1, .rows = 1, .cols = 1};
    if (t->rank < 1 || t->rank == 3 || t->rank > 4)
        return dop_st_refuse(t, "a matrix is expected", diag);
    if (t->rank > 1)
        out->rows = t->shape[0];
    for (uint32_t i = t->rank > 1; i < t->rank; i++)
        out->cols *= t->shape[i]; /* no overflow: divides the tensor's byte count */
    if (dop_st_is(t, "F32"))
        out->type = DOP_ADAPTER_F32;
    else if (dop_st_is(t, "F16"))
        out->type = DOP_ADAPTER_F16;
    else if (dop_st_is(t, "BF16"))
        out->type = DOP_ADAPTER_BF16;
    else
        return DOP_FAIL_IN(diag, DOP_E_INPUT, t->file, "tensor %s: dtype %s is not supported; known: F32, F16, BF16",
                           t->name, t->dtype);
    return DOP_OK;
}

/* Suffixes of tensor names after the module.  They may include the adapter's name: "lora_A.default.weight". */
static const struct {
    const char *name;
    bool of_name; /* an adapter name may follow */
    size_t field;
    bool embedding;
} kinds[] = {
    {".lora_A", true, offsetof(dop_adapter_pair, a), false},
    {".lora_B", true, offsetof(dop_adapter_pair, b), false},
    {".lora_embedding_A", true, offsetof(dop_adapter_pair, a), true},
    {".lora_embedding_B", true, offsetof(dop_adapter_pair, b), true},
    {".lora_magnitude_vector", true, offsetof(dop_adapter_pair, lengths), false},
    {".modules_to_save", true, offsetof(dop_adapter_pair, whole), false},
    {".weight", false, offsetof(dop_adapter_pair, whole), false},
};

/* True if `rest` is empty, ".weight", or an adapter name before these. */
static bool
is_peft_name_end(const char *rest)
{
    if (*rest == 0 || strcmp(rest, ".weight") == 0)
        return true;
    const char *dot = *rest == '.' ? strchr(rest + 1, '.') : NULL;
    return *rest == '.' && (!dot || strcmp(dot, ".weight") == 0);
}

static dop_status
add_peft_tensor(const dop_st_tensor *t, dop_arena *arena, dop_diag *diag, dop_adapter_file *f)
{
    static const char prefix[] = "base_model.model.";
    const char *name = strncmp(t->name, prefix, sizeof prefix - 1) == 0 ? t->name + sizeof prefix - 1 : t->name;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *at = strstr(name, kinds[i].name), *rest = at ? at + strlen(kinds[i].name) : NULL;
        if (!at || (kinds[i].of_name ? !is_peft_name_end(rest) : *rest != 0))
            continue;
        dop_adapter_pair *p = NULL;
        dop_status st = dop_adapter_add(f, name, (size_t)(at - name), arena, diag, &p);
        if (st != DOP_OK)
            return st;
        p->embedding = p->turned = kinds[i].embedding;
        return dop_adapter_matrix_of(t, diag, (dop_adapter_matrix *)(void *)((char *)p + kinds[i].field));
    }
    return DOP_FAIL_IN(diag, DOP_E_INPUT, t->file, "tensor %s is no part of a low-rank adapter that is read here",
                       t->name);
}

dop_status
dop_adapter_read_peft(const char *weights, const char *config_path, dop_arena *arena, dop_diag *diag,
                      dop_adapter_file *out)
{
    dop_adapter_config c = {0};
    json_t *root = NULL;
    dop_st_set set = {0};
    *out = (dop_adapter_file){.path = weights};
    dop_status st = DOP_OK;
    DOP_TRY(dop_json_decode_file(&(dop_json_how){.path = config_path}, diag, &root));
    DOP_TRY(dop_adapter_read_config(root, config_path, diag, &c));
    DOP_TRY(dop_map_open(weights, diag, &out->map));
    DOP_TRY(dop_st_parse(weights, &out->map, arena, diag, &set));
    for (uint32_t i = 0; i < set.n; i++)
        DOP_TRY(add_peft_tensor(&set.tensors[i], arena, diag, out));
    DOP_TRY(dop_adapter_join(out, diag));
    for (uint32_t i = 0; i < out->n_pairs; i++)
        DOP_TRY(dop_adapter_set_scale(&c, &out->pairs[i], diag));
error:
    json_decref(root);
    return st;
}
