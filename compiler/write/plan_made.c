/* Describes how a plan was made, for its card: release, kernels and options. Files are identified by digests, so that
 * equal inputs give equal bytes from any folder. */
#include "base/os/system.h"
#include "compiler/write/plan_writer.h"
#include "kernels/spirv/link.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static json_t *
digest_json(const char *kind, uint64_t digest)
{
    return json_sprintf("%s %016llx", kind, (unsigned long long)digest);
}

/* Returns the card's name of a file: "file DIGEST", or "file" if it cannot be read again (a pipe). */
static json_t *
file_json(const char *path)
{
    dop_map map = {0};
    if (dop_map_open(path, NULL, &map) != DOP_OK)
        return json_string("file");
    json_t *j = digest_json("file", XXH3_64bits(map.data, map.size));
    dop_map_close(&map);
    return j;
}

static json_t *
spec_json(const char *spec)
{
    const char *dot = strrchr(spec, '.');
    const bool file = dop_path_slash(spec) || (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0));
    return file ? file_json(spec) : json_string(spec);
}

/* Returns "file DIGEST" of a file, or of the file `name` in the directory `path`. */
static json_t *
inside_json(const char *path, const char *name)
{
    char *inside = NULL;
    if (asprintf(&inside, "%s/%s", path, name) < 0)
        return NULL;
    json_t *file = file_json(access(inside, F_OK) == 0 ? inside : path);
    free(inside);
    return file;
}

/* Returns "file DIGEST" of an adapter's matrices, with its scale if not 1: "file DIGEST * 0.5". */
static json_t *
adapter_json(const dop_lora *l)
{
    json_t *file = inside_json(l->path, "adapter_model.safetensors");
    json_t *j =
        file && l->scale != 1 ? json_sprintf("%s * %.9g", json_string_value(file), l->scale) : json_incref(file);
    json_decref(file);
    return j;
}

/* Adds a value to an object, or to a list (append). The value is NULL after an allocation failure; Jansson rejects it,
 * and *io_failed is set. */
static void
put_json_value(json_t *object, const char *key, json_t *value, bool *io_failed)
{
    *io_failed = json_object_set_new(object, key, value) != 0 || *io_failed;
}

static void
append_json_item(json_t *list, json_t *value, bool *io_failed)
{
    *io_failed = json_array_append_new(list, value) != 0 || *io_failed;
}

static void
put_list(json_t *object, const char *key, json_t *list, bool *io_failed)
{
    if (!list || json_array_size(list) > 0)
        put_json_value(object, key, list, io_failed);
    else
        json_decref(list);
}

json_t *
dop_plan_made(const dop_compilation *c)
{
    const dop_compilation_options *o = &c->options;
    bool failed = false;
    dop_buf shaders = {0};
    json_t *made = json_object(), *forced = json_array(), *apart = json_array(), *skipped = json_array(),
           *loras = json_array(), *controls = json_array();
    put_json_value(made, "release", json_string("dopplerc " DOP_VERSION), &failed);
    put_json_value(made, "kernels", json_sprintf("%016llx", (unsigned long long)dop_templates_digest(&c->templates)),
                   &failed);
    dop_shader_compiler_describe(&shaders);
    put_json_value(made, "shaderCompiler", json_string(shaders.failed ? NULL : shaders.data), &failed);
    dop_buf_finish(&shaders);
    put_json_value(made, "quant", o->quant ? spec_json(o->quant) : json_string("keep"), &failed);
    if (o->invariant)
        put_json_value(made, "invariant", json_true(), &failed);
    if (o->imatrix)
        put_json_value(made, "imatrix", file_json(o->imatrix), &failed);
    if (o->draft_head)
        put_json_value(made, "drafter", inside_json(o->draft_head, "model.safetensors"), &failed);
    if (o->draft_vocabulary)
        put_json_value(made, "draftVocabulary", json_integer(o->draft_vocabulary), &failed);
    for (uint32_t i = 0; i < o->n_loras; i++)
        append_json_item(loras, adapter_json(&c->loras[i]), &failed);
    put_list(made, "adapters", loras, &failed);
    for (uint32_t i = 0; i < o->n_controls; i++)
        append_json_item(controls, adapter_json(&c->loras[o->n_loras + i]), &failed);
    put_list(made, "controlVectors", controls, &failed);
    if (o->kernel_path)
        put_json_value(made, "kernelPath", spec_json(o->kernel_path), &failed);
    else if (c->path_name)
        put_json_value(made, "kernelPath", json_sprintf("%s, which the model states", c->path_name), &failed);
    if (o->tuning)
        put_json_value(made, "tuning", file_json(o->tuning), &failed);
    if (c->stale)
        put_json_value(made, "ignored", json_sprintf("rules that were measured %s", c->stale), &failed);
    if (c->target->avoid[0])
        put_json_value(made, "avoided", json_string(c->target->avoid), &failed);
    for (uint32_t i = 0; i < o->n_forces; i++)
        append_json_item(forced, json_sprintf("%s=%s", o->forces[i].op, o->forces[i].variant), &failed);
    for (uint32_t i = 0; i < o->n_apart; i++)
        append_json_item(apart, json_string(o->apart[i]), &failed);
    for (int p = 0; p < DOP_PASS_COUNT; p++)
        if (o->passes.skip[p])
            append_json_item(skipped, json_string(dop_pass_of((dop_pass_id)p)->name), &failed);
    put_list(made, "forced", forced, &failed);
    put_list(made, "apart", apart, &failed);
    put_list(made, "skipped", skipped, &failed);
    if (o->adapters) {
        put_json_value(made, "roomForAdapters", json_integer(o->adapters), &failed);
        put_json_value(made, "rank", json_integer(o->rank), &failed);
    }
    if (o->embed)
        put_json_value(made, "embed", json_true(), &failed);
    if (failed) {
        json_decref(made);
        return NULL;
    }
    return made;
}
