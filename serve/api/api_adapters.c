/* The server's adapters: the loaded ones, the default factors, and the factors of a request. Requests use
 * llama-server's form, a list of {"id": 0, "scale": 0.5}. Adapters missing from the list have factor 0. */
#include "serve/api/api_adapters.h"
#include "serve/api/api_internal.h"
#include "serve/api/api_json.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

struct dop_adapter_list {
    pthread_mutex_t lock; /* protects the scale factors */
    uint32_t n;
    dop_adapter_use uses[MOST];
    const char *paths[MOST]; /* owned by the model */
    char *names[MOST];       /* owned */
};

/* Returns "style" for "dir/style.gguf", "dir/style/" and "dir/style/adapter_model.safetensors". The caller frees it. */
static char *
copy_adapter_name(const char *path)
{
    static const char *const ends[] = {"/adapter_model.safetensors", ".safetensors", ".gguf", "/"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t len = strlen(ends[i]);
        if (n > len && memcmp(path + n - len, ends[i], len) == 0)
            n -= len;
    }
    size_t first = n;
    while (first > 0 && path[first - 1] != '/')
        first--;
    return strndup(path + first, n - first);
}

dop_status
dop_adapter_list_create(const dop_model *model, const dop_adapter_use *uses, size_t n, dop_diag *diag,
                        dop_adapter_list **out_list)
{
    dop_adapter_list *a = calloc(1, sizeof *a);
    *out_list = NULL;
    if (!a)
        return DOP_NO_MEMORY(diag);
    pthread_mutex_init(&a->lock, NULL);
    for (size_t i = 0; i < n && i < MOST; i++) {
        a->uses[a->n] = uses[i];
        a->paths[a->n] = dop_model_adapter(model, uses[i].adapter);
        a->names[a->n] = copy_adapter_name(a->paths[a->n]);
        if (!a->names[a->n++]) {
            dop_adapter_list_destroy(a);
            return DOP_NO_MEMORY(diag);
        }
    }
    *out_list = a;
    return DOP_OK;
}

void
dop_adapter_list_destroy(dop_adapter_list *list)
{
    if (!list)
        return;
    for (uint32_t i = 0; i < list->n; i++)
        free(list->names[i]);
    pthread_mutex_destroy(&list->lock);
    free(list);
}

const char *
dop_adapter_list_name(const dop_adapter_list *list, uint32_t i)
{
    return list && i < list->n ? list->names[i] : NULL;
}

json_t *
dop_adapter_list_json(dop_adapter_list *list)
{
    json_t *all = json_array();
    for (uint32_t i = 0; list && i < list->n; i++) {
        pthread_mutex_lock(&list->lock);
        const double scale = (double)list->uses[i].scale;
        pthread_mutex_unlock(&list->lock);
        json_array_append_new(all, json_pack("{s:I, s:s, s:s, s:f}", "id", (json_int_t)i, "path", list->paths[i],
                                             "name", list->names[i], "scale", scale));
    }
    return all;
}

/* Reads a list of factors into out[MOST]. Returns NULL, or an error text. */
static const char *
read_adapter_scales(const dop_adapter_list *a, const json_t *value, float *out)
{
    if (!json_is_array(value))
        return "a list of {\"id\", \"scale\"} is expected";
    memset(out, 0, MOST * sizeof *out);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i), *id = json_object_get(one, "id"),
                     *scale = json_object_get(one, "scale");
        double v = 1;
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= (a ? a->n : 0))
            return a ? "an id is none of the adapters that are loaded (GET /lora-adapters)"
                     : "no adapters are loaded (--lora)";
        if (scale && (!dop_json_number(scale, &v) || !isfinite(v) || fabs(v) > 1e6))
            return "a scale is not a number of sensible size";
        out[json_integer_value(id)] = (float)v;
    }
    return NULL;
}

void
dop_adapter_list_set(const dop_api *api, const json_t *value, dop_answer *answer)
{
    float scales[MOST];
    const char *why = read_adapter_scales(api->adapters, value, scales);
    if (why) {
        dop_answer_error(answer, &(dop_api_error){400, "invalid_request_error", NULL, NULL}, "%s", why);
        return;
    }
    for (uint32_t i = 0; api->adapters && i < api->adapters->n; i++) {
        pthread_mutex_lock(&api->adapters->lock);
        api->adapters->uses[i].scale = scales[i];
        pthread_mutex_unlock(&api->adapters->lock);
    }
    dop_answer_json(answer, 200, json_pack("{s:b}", "success", 1));
}

/* Sets the factors for a model name of the form "base:adapter". */
static void
read_adapter_of_model(dop_reader *r, const dop_api *api, float *scales, bool *io_stated)
{
    size_t n = 0;
    const dop_adapter_list *a = api->adapters;
    const char *name = dop_reader_text(r, "model", &n);
    const size_t base = strlen(api->facts.name);
    if (!a || !name || n <= base + 1 || memcmp(name, api->facts.name, base) != 0 || name[base] != ':')
        return;
    for (uint32_t i = 0; i < a->n; i++)
        if (strcmp(a->names[i], name + base + 1) == 0) {
            memset(scales, 0, MOST * sizeof *scales);
            scales[i] = 1;
            *io_stated = true;
            return;
        }
    dop_reader_refuse(r, "model", "no adapter has the name of this model: GET /v1/models lists them");
}

void
dop_reader_adapters(dop_reader *r, const dop_api *api, dop_job_request *job)
{
    dop_adapter_list *a = api->adapters;
    float scales[MOST];
    bool stated = false;
    const json_t *value = dop_reader_get(r, "lora");
    read_adapter_of_model(r, api, scales, &stated);
    const char *why = value ? read_adapter_scales(a, value, scales) : NULL;
    if (why)
        dop_reader_refuse(r, "lora", "lora: %s", why);
    job->n_uses = 0;
    for (uint32_t i = 0; a && i < a->n && !r->failed; i++) {
        pthread_mutex_lock(&a->lock);
        const float scale = value || stated ? scales[i] : a->uses[i].scale;
        pthread_mutex_unlock(&a->lock);
        if (scale != 0 && job->n_uses == DOP_ADAPTERS_AT_ONCE)
            dop_reader_refuse(r, "lora", "at most %d adapters may be used at once", DOP_ADAPTERS_AT_ONCE);
        else if (scale != 0)
            job->uses[job->n_uses++] = (dop_adapter_use){a->uses[i].adapter, scale};
    }
}
