#include "tools/doppler-exec/on_demand/models.h"

#include "base/os/clock.h"
#include "base/program/progress_line.h"
#include "base/program/say.h"
#include "plan/plan.h"
#include "plan/plan_part.h"
#include "plan/plan_ranges.h"
#include "runtime/device/device.h"
#include "tools/doppler-exec/on_demand/compiler.h"
#include "tools/doppler-exec/on_demand/model_key.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { MOST_TRIES = 3, MOST_REFUSED = 32, NAME_SIZE = 64 };
#define DEFAULT_LIMIT (UINT64_C(64) << 30)

/* Model of the command line, and its plan. */
typedef struct model_plan {
    const char *model;  /* as given */
    const char **place; /* its variable in the command line's options */
    char *plan;         /* owned: path in the cache */
    dop_cache_key key;
    uint64_t bytes; /* size of the model's files */
} model_plan;

/* The device that doppler-exec chooses. */
typedef struct chosen_device {
    dop_cache_device bare; /* digest of the device and its driver */
    dop_cache_device id;   /* digest of these and the kernels to avoid; part of the keys of plans */
    dop_buf avoid;         /* kernels to avoid, separated by commas */
    uint32_t number;
    char *name; /* owned */
} chosen_device;

/* Kernels that the driver rejected in this run, or that failed --check. Several threads add to it. */
typedef struct refused_kernels {
    char names[MOST_REFUSED][NAME_SIZE];
    _Atomic uint32_t n; /* number reported; those over MOST_REFUSED are dropped */
} refused_kernels;

struct dop_cli_models {
    dop_plan_cache cache;
    dop_compile_options options;
    const char *release; /* release of this program */
    dop_progress_line line;
    model_plan *list; /* owned, [n] */
    size_t n;
    bool tied;          /* plans are specific to one device, as no target was given */
    bool looked, other; /* the plan's device was compared with the present one; they differ */
    chosen_device here; /* device found by compare_device or identify */
    dop_cache_device expected;
    refused_kernels refused;
    bool avoids; /* kernels to avoid were added since the list was stored */
    bool made;   /* a plan was compiled in this run */
    /* Instance of identify_device(). Kept until the model has its own, so that the driver is loaded once
     * (tests/bench/log/2026-11-27-cold-starts.md). */
    dop_instance instance;
    uint32_t tries;
    uint32_t rounds; /* number of times that kernels were rejected */
    char *fetched;   /* owned: model of -hf; NULL: none */
};

/* --- devices ---------------------------------------------------------------------------------------------------------------- */

/* Computes the device part of plan keys: the device's digest, combined with the kernels to avoid if there are any. */
static dop_status
make_device_key(chosen_device *d, dop_diag *diag)
{
    dop_buf text = {0};
    d->id = d->bare;
    if (d->avoid.size > 0) {
        dop_buf_printf(&text, "%s %s", d->bare.text, d->avoid.data);
        snprintf(d->id.text, sizeof d->id.text, "%016" PRIx64, (uint64_t)XXH3_64bits(text.data, text.size));
    }
    const bool failed = text.failed || d->avoid.failed;
    dop_buf_finish(&text);
    return failed ? DOP_NO_MEMORY(diag) : DOP_OK;
}

/* Computes the digest of a device from all its properties except its number, including the driver version. Loads the
 * list of kernels to avoid there. */
static dop_status
note_device(struct dop_cli_models *m, uint32_t number, const char *name, const char *line, dop_diag *diag)
{
    const char *colon = strchr(line, ':');
    const size_t len = colon ? strcspn(colon, "\n") : 0;
    dop_cache_device bare;
    snprintf(bare.text, sizeof bare.text, "%016" PRIx64, (uint64_t)XXH3_64bits(colon ? colon : line, len));
    if (strcmp(bare.text, m->here.bare.text) != 0) {
        m->here.bare = bare;
        m->avoids = false;
        dop_buf_finish(&m->here.avoid);
        dop_plan_cache_avoided(&m->cache, &bare, m->release, &m->here.avoid);
        dop_status st = make_device_key(&m->here, diag);
        if (st != DOP_OK)
            return st;
    }
    m->here.number = number;
    free(m->here.name);
    m->here.name = strdup(name);
    return m->here.name ? DOP_OK : DOP_NO_MEMORY(diag);
}

/* Records a rejected kernel (dop_open_options.refused). */
static void
note_refused(void *user, const char *kernel)
{
    refused_kernels *r = &((struct dop_cli_models *)user)->refused;
    const uint32_t i = atomic_fetch_add(&r->n, 1);
    if (i < MOST_REFUSED)
        snprintf(r->names[i], sizeof r->names[i], "%s", kernel);
}

/* Fails if the plans are for another device (dop_open_options.chosen). */
static dop_status
compare_device(void *user, const dop_device_facts *facts, dop_diag *diag)
{
    struct dop_cli_models *m = user;
    dop_status st = note_device(m, facts->number, facts->name, facts->line, diag);
    dop_instance_destroy(&m->instance);
    m->looked = true;
    m->other = st == DOP_OK && strcmp(m->here.id.text, m->expected.text) != 0;
    return m->other ? DOP_FAIL(diag, DOP_E_DEVICE, "the plan is for another device") : st;
}

/* Finds the device that the runtime will choose. */
static dop_status
identify_device(const dop_cli *cli, struct dop_cli_models *m, dop_diag *diag)
{
    dop_instance *instance = &m->instance;
    uint32_t index = 0;
    const bool listed = cli->device && strchr(cli->device, ','); /* one device per rank */
    dop_buf line = {0};
    dop_instance_destroy(instance);
    dop_status st = dop_instance_create(diag, instance);
    if (st != DOP_OK)
        return st;
    if ((st = dop_instance_choose(instance, listed ? NULL : cli->device, diag, &index)) == DOP_OK) {
        const dop_device_info *d = &instance->devices[index];
        dop_device_describe(d, &line);
        st = line.failed ? DOP_NO_MEMORY(diag) : note_device(m, d->index, d->caps.name, line.data, diag);
    }
    dop_buf_finish(&line);
    return st;
}

/* --- compiling ---------------------------------------------------------------------------------------------------------------- */

/* Shows notes about a model; other compiler messages need -v. */
static void
show_model_note(void *user, const char *text)
{
    const dop_cli *cli = user;
    if (cli->verbose || (!cli->quiet && strstr(text, ": note: ")))
        dop_say("note", "%s", text);
}

static dop_status
compile_model_plan(const dop_cli *cli, struct dop_cli_models *m, const model_plan *x, dop_diag *diag)
{
    dop_compile_options o = m->options;
    o.model_weights = !o.parts; /* no copy of the weights, but parts may run on other hosts */
    dop_compile_facts facts;
    char number[16];
    dop_buf text = {0};
    const char **avoids = NULL;
    const double start_ms = dop_now_ms();
    snprintf(number, sizeof number, "%u", m->here.number);
    o.device = m->tied ? number : cli->device;
    if (m->tied && m->here.avoid.size > 0) {
        avoids = calloc(m->options.n_avoids + 1, sizeof *avoids);
        if (!avoids)
            return DOP_NO_MEMORY(diag);
        for (size_t i = 0; i < m->options.n_avoids; i++)
            avoids[i] = m->options.avoids[i];
        avoids[o.n_avoids++] = m->here.avoid.data;
        o.avoids = avoids;
    }
    if (m->rounds == 0 || cli->verbose) /* shown once */
        o.notes = (dop_log){show_model_note, (void *)(uintptr_t)cli};
    dop_plan_cache_trim(&m->cache, x->bytes, NULL);
    dop_status st = dop_load_and_compile(x->model, x->plan, &o, diag, &facts);
    dop_progress_line_end(&m->line);
    free(avoids);
    if (st != DOP_OK)
        return st;
    if (facts.nearest && !cli->quiet && !m->made)
        dop_say("note",
                "%s: note: no target file is for %s, whose costs are guessed: --check compares every kernel "
                "with the reference there, dopplerc %s --tune --target-out FILE.yaml measures a target for it",
                x->model, m->here.name ? m->here.name : "this device", x->model);
    m->made = true;
    dop_compile_options_text(&m->options, &text);
    char *full = realpath(x->model, NULL);
    /* Only --cache-list uses it, so errors are ignored. */
    (void)dop_plan_cache_describe(x->plan, full ? full : x->model, text.data ? text.data + 1 : "",
                                  m->tied ? m->here.name : facts.target, NULL);
    free(full);
    dop_buf_finish(&text);
    dop_plan_cache_trim(&m->cache, 0, x->plan);
    if (cli->verbose)
        dop_say("info", "compiled %s for %s in %.1f s: %s", x->model, facts.target, (dop_now_ms() - start_ms) / 1e3,
                x->plan);
    return DOP_OK;
}

/* Compiles a model's plan, unless another process does so first. */
static dop_status
make_plan_once(const dop_cli *cli, struct dop_cli_models *m, const model_plan *x, dop_diag *diag)
{
    bool waited;
    dop_status st = dop_plan_cache_lock(&m->cache, &x->key, &m->options.progress, diag, &waited);
    if (st != DOP_OK)
        return st;
    if (waited && cli->verbose)
        dop_say("info", "another process was compiling %s", x->model);
    st = dop_plan_cache_use(x->plan) ? DOP_OK : compile_model_plan(cli, m, x, diag);
    dop_plan_cache_unlock(&m->cache, &x->key);
    return st;
}

/* Sets the plan's path to the entry for device `id`. */
static dop_status
set_plan_path(struct dop_cli_models *m, model_plan *x, const dop_cache_device *id, dop_diag *diag)
{
    free(x->plan);
    x->plan = dop_plan_cache_path(&m->cache, &x->key, id);
    *x->place = x->plan;
    return x->plan ? DOP_OK : DOP_NO_MEMORY(diag);
}

/* Finds or compiles the plans of all models for the device m->here. */
static dop_status
make_all(const dop_cli *cli, struct dop_cli_models *m, dop_diag *diag)
{
    m->expected = m->here.id;
    for (size_t i = 0; i < m->n; i++) {
        DOP_RETURN_IF_ERROR(set_plan_path(m, &m->list[i], &m->expected, diag));
        if (!dop_plan_cache_use(m->list[i].plan))
            DOP_RETURN_IF_ERROR(make_plan_once(cli, m, &m->list[i], diag));
    }
    return DOP_OK;
}

/* Finds the plans of all models for one device: the one that the first model last ran on. Returns false if one is
 * missing. */
static bool
find_all(struct dop_cli_models *m, dop_status *out_st, dop_diag *diag)
{
    dop_cache_device id = {"0000000000000000"};
    bool found = !m->tied || dop_plan_cache_last(&m->cache, &m->list[0].key, &id);
    *out_st = DOP_OK;
    for (size_t i = 0; i < m->n && found && *out_st == DOP_OK; i++)
        if ((*out_st = set_plan_path(m, &m->list[i], &id, diag)) == DOP_OK)
            found = dop_plan_cache_use(m->list[i].plan);
    m->expected = id;
    if (!m->tied)
        m->here.id = id;
    return found;
}

/* --- the command line ----------------------------------------------------------------------------------------------------------- */

static uint64_t
get_cache_limit(const dop_cli *cli)
{
    return cli->cache_limit ? (uint64_t)cli->cache_limit << 20 : DEFAULT_LIMIT;
}

static dop_status
need_folder(const dop_cli *cli, dop_diag *diag)
{
    return cli->cache_dir ? DOP_OK
                          : DOP_FAIL(diag, DOP_E_USAGE,
                                     "there is no cache, as neither XDG_CACHE_HOME nor HOME is set: name one with "
                                     "--cache-dir");
}

/* Returns the progress callback: the command line's, or a progress line. */
static dop_progress
choose_progress(const dop_cli *cli, struct dop_cli_models *m)
{
    return cli->progress.fn ? cli->progress : (dop_progress){dop_progress_line_show, &m->line};
}

/* Returns the compile options of the command line. */
static dop_compile_options
get_compile_options(const dop_cli *cli)
{
    dop_compile_options all = cli->compile, *o = &all;
    o->forces = cli->force.items;
    o->n_forces = cli->force.count;
    o->apart = cli->no_fuse.items;
    o->n_apart = cli->no_fuse.count;
    o->skips = cli->skip.items;
    o->n_skips = cli->skip.count;
    o->avoids = cli->avoid.items;
    o->n_avoids = cli->avoid.count;
    o->threads = cli->threads;
    o->embed = cli->embed != NULL;
    return all;
}

dop_status
dop_cli_models_refuse(const dop_cli *cli, dop_diag *diag)
{
    const dop_compile_options options = get_compile_options(cli);
    dop_buf text = {0};
    dop_compile_options_text(&options, &text);
    const dop_status st =
        text.failed ? DOP_NO_MEMORY(diag)
        : text.size ? DOP_FAIL(diag, DOP_E_USAGE, "%s is part of a plan: there are only plans, and no model to compile",
                               text.data + 1)
                    : DOP_OK;
    dop_buf_finish(&text);
    return st;
}

/* Returns DOP_E_USAGE if a compile option is given and there is nothing to compile. */
static dop_status
refuse_options(const dop_cli *cli, const dop_option *table, size_t n, const dop_options_given *given, dop_diag *diag)
{
    static const char *const names[] = {"target",    "quant",    "imatrix", "ctx",         "chunks",
                                        "sequences", "adapters", "rank",    "ctx-total",   "rows",
                                        "kv",        "size",     "act",     "kernel-path", "tuning",
                                        "force",     "parts",    "no-fuse", "part-memory", "skip",
                                        "invariant", "avoid",    "mmproj",  "draft-head",  "draft-vocabulary"};
    for (size_t i = 0; i < cli->plans.count; i++) /* opening it reports the error */
        if (access(cli->plans.items[i], F_OK) != 0)
            return DOP_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (dop_option_given(table, n, given, names[i]))
            return DOP_FAIL(diag, DOP_E_USAGE,
                            "--%s is part of the plan: dopplerc MODEL --%s ... -o PLAN makes one with it%s", names[i],
                            names[i], cli->plans.count ? ", or name the model here instead of a plan" : "");
    return DOP_OK;
}

static dop_status
add_model_plan(struct dop_cli_models *m, const char **place_of, dop_diag *diag)
{
    if (!*place_of || !dop_is_model(*place_of))
        return DOP_OK;
    model_plan *list = realloc(m->list, (m->n + 1) * sizeof *list);
    if (!list)
        return DOP_NO_MEMORY(diag);
    m->list = list;
    m->list[m->n++] = (model_plan){.model = *place_of, .place = place_of};
    return DOP_OK;
}

/* Downloads the model of -hf and adds it to the command line's plans. */
static dop_status
fetch_model(dop_cli *cli, struct dop_cli_models *m, dop_diag *diag)
{
    dop_fetch_request r = {.name = cli->hf, .endpoint = cli->hf_endpoint, .token = cli->hf_token};
    char *dir = NULL, *endpoint = NULL;
    dop_status st = need_folder(cli, diag);
    if (st != DOP_OK)
        return st;
    if (asprintf(&dir, "%s/models", cli->cache_dir) < 0)
        return DOP_NO_MEMORY(diag);
    endpoint = strdup(cli->hf_endpoint && *cli->hf_endpoint ? cli->hf_endpoint : "https://huggingface.co");
    for (size_t n = endpoint ? strlen(endpoint) : 0; n > 0 && endpoint[n - 1] == '/'; n--)
        endpoint[n - 1] = 0;
    r.endpoint = endpoint;
    r.dir = dir;
    r.token = cli->hf_token && *cli->hf_token ? cli->hf_token : NULL;
    r.progress = choose_progress(cli, m);
    r.log = (dop_log){show_model_note, cli};
    st = endpoint ? dop_load_and_fetch(&r, diag, &m->fetched) : DOP_NO_MEMORY(diag);
    dop_progress_line_end(&m->line);
    free(endpoint);
    free(dir);
    return st == DOP_OK ? dop_texts_push(&cli->plans, m->fetched, diag) : st;
}

dop_status
dop_cli_models_take(dop_cli *cli, const dop_option *table, size_t n, const dop_options_given *given, dop_diag *diag)
{
    struct dop_cli_models *m = calloc(1, sizeof *m);
    if (!m)
        return DOP_NO_MEMORY(diag);
    m->cache.lock = -1;
    m->line =
        (dop_progress_line){.program = "doppler-exec", .quiet = cli->quiet || dop_says_json(), .verbose = cli->verbose};
    m->release = cli->release;
    cli->compiled = m;
    dop_status st = DOP_OK;
    if (cli->hf)
        st = fetch_model(cli, m, diag);
    for (size_t i = 0; i < cli->plans.count && st == DOP_OK; i++)
        st = add_model_plan(m, &cli->plans.items[i], diag);
    if (st == DOP_OK)
        st = add_model_plan(m, &cli->draft, diag);
    if (st == DOP_OK)
        st = add_model_plan(m, &cli->compare, diag);
    if (st == DOP_OK && m->n == 0) /* with --models, the list has models */
        return cli->models ? DOP_OK : refuse_options(cli, table, n, given, diag);
    if (st != DOP_OK)
        return st;
    if ((st = need_folder(cli, diag)) != DOP_OK)
        return st;
    m->options = get_compile_options(cli);
    m->options.progress = choose_progress(cli, m);
    m->tied = !m->options.target || strstr(m->options.target, "auto") != NULL;
    if ((st = dop_plan_cache_open(cli->cache_dir, get_cache_limit(cli), diag, &m->cache)) != DOP_OK)
        return st;
    for (size_t i = 0; i < m->n && st == DOP_OK; i++)
        st = dop_model_key(&m->cache, m->list[i].model, &m->options, m->release, diag, &m->list[i].key,
                           &m->list[i].bytes);
    dop_progress_line_end(&m->line);
    if (st != DOP_OK || find_all(m, &st, diag) || st != DOP_OK)
        goto end;
    if (m->tied)
        st = identify_device(cli, m, diag);
    if (st == DOP_OK)
        st = make_all(cli, m, diag);
end:
    if (m->tied && st == DOP_OK && !cli->launched) {
        cli->chosen = compare_device;
        cli->refused = note_refused;
        cli->chosen_user = m;
    }
    cli->made = m->made;
    return st;
}

/* Removes a damaged plan. Returns true if no plan is left at the path. */
static bool
drop_damaged(const char *path)
{
    dop_plan plan;
    const _Atomic bool stop = false;
    bool sound = false;
    if (access(path, F_OK) != 0)
        return true;
    if (dop_plan_is_set(path)) { /* any of its parts may be damaged */
        const uint32_t n = dop_plan_count_parts(path);
        sound = n > 0;
        for (uint32_t i = 0; i < n && sound; i++) {
            sound = dop_plan_open_part(path, n, i, NULL, &plan) == DOP_OK;
            if (sound) {
                sound = dop_plan_verify_weights(&plan, &stop, NULL) == DOP_OK;
                dop_plan_close(&plan);
            }
        }
    } else if (dop_plan_open(path, NULL, &plan) == DOP_OK) {
        sound = dop_plan_verify_weights(&plan, &stop, NULL) == DOP_OK;
        dop_plan_close(&plan);
    }
    if (!sound)
        dop_plan_cache_remove(path);
    return !sound;
}

/* Adds the rejected kernels to those to avoid on the device. *out_new: the new names, separated by commas. */
static void
add_refused(struct dop_cli_models *m, dop_buf *out_new)
{
    const uint32_t n = m->refused.n < MOST_REFUSED ? m->refused.n : MOST_REFUSED;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = m->refused.names[i];
        bool known = false;
        for (const char *at = m->here.avoid.size ? m->here.avoid.data : ""; *at && !known;
             at += strcspn(at, ","), at += *at == ',')
            known = strcspn(at, ",") == strlen(name) && strncmp(at, name, strlen(name)) == 0;
        if (known)
            continue;
        dop_buf_printf(&m->here.avoid, "%s%s", m->here.avoid.size ? "," : "", name);
        dop_buf_printf(out_new, "%s%s", out_new->size ? ", " : "", name);
    }
    m->refused.n = 0;
}

/* Recompiles the plans without kernels that the driver rejected or that failed --check. Returns false, with nothing
 * changed, if there are none or they have no alternative. */
static bool
avoid_refused(const dop_cli *cli, struct dop_cli_models *m, dop_diag *diag)
{
    dop_buf before = {0}, names = {0};
    dop_diag why = {0};
    if (!m->tied || !m->looked || m->other || m->refused.n == 0 || m->rounds++ == MOST_REFUSED)
        return false;
    dop_buf_append(&before, m->here.avoid.data ? m->here.avoid.data : "", m->here.avoid.size);
    add_refused(m, &names);
    bool again = names.size > 0 && !names.failed && !before.failed;
    dop_status st = again ? make_device_key(&m->here, &why) : DOP_OK;
    if (again && st == DOP_OK)
        st = make_all(cli, m, &why);
    again = again && st == DOP_OK;
    if (again) {
        if (!cli->quiet)
            dop_say("note",
                    "%s: note: the driver of %s refuses %s or gets that wrong: plans for it do without "
                    "from now on",
                    m->list[0].model, m->here.name, names.data);
        m->avoids = true;
        dop_diag_clear(diag);
    } else if (!before.failed) {
        if (st != DOP_OK && cli->verbose)
            dop_say("info", "nothing to use instead of %s: %s", names.data, why.message);
        dop_buf_finish(&m->here.avoid);
        m->here.avoid = before;
        before = (dop_buf){0};
        if (make_device_key(&m->here, NULL) == DOP_OK && names.size > 0)
            (void)make_all(cli, m, NULL); /* restores the previous plans */
    }
    dop_buf_finish(&names);
    dop_buf_finish(&before);
    return again;
}

/* Stores the kernels to avoid after a successful run, until the driver changes. */
static void
store_avoided_kernels(struct dop_cli_models *m)
{
    if (m->avoids) /* with a read-only cache, the next run finds them again */
        (void)dop_plan_cache_avoid(&m->cache, &m->here.bare, m->release, m->here.avoid.data, NULL);
    m->avoids = false;
}

bool
dop_cli_models_again(dop_cli *cli, dop_status *io_st, dop_diag *diag)
{
    struct dop_cli_models *m = cli->compiled;
    bool again = false;
    if (m && *io_st == DOP_OK) {
        /* The run succeeded, but kernels were rejected in the background: the next run starts with a plan that
         * avoids them. */
        if (m->refused.n > 0)
            (void)avoid_refused(cli, m, NULL);
        store_avoided_kernels(m);
    }
    if (!m || m->n == 0 || *io_st == DOP_OK || *io_st == DOP_E_USAGE || !m->list[0].plan)
        return false;
    if (*io_st == DOP_E_DEVICE && avoid_refused(cli, m, diag)) {
        *io_st = DOP_OK;
        m->other = m->looked = false;
        cli->made = true;
        return true;
    }
    if (++m->tries < MOST_TRIES) {
        for (size_t i = 0; i < m->n; i++)
            if (!m->other && m->list[i].plan && strcmp(diag->path, m->list[i].plan) == 0 &&
                drop_damaged(m->list[i].plan)) {
                again = true;
                if (!cli->quiet)
                    dop_say("note",
                            "%s: note: its plan in the cache was damaged, or the model was elsewhere: it is made again",
                            m->list[i].model);
            }
        again = again || m->other;
    }
    if (again) {
        dop_diag_clear(diag);
        *io_st = m->tied && !m->looked ? identify_device(cli, m, diag) : DOP_OK;
        m->other = m->looked = false;
        if (*io_st == DOP_OK)
            *io_st = make_all(cli, m, diag);
    }
    for (size_t i = 0; i < m->n && *io_st != DOP_OK; i++)
        if (m->list[i].plan && strcmp(diag->path, m->list[i].plan) == 0 && *io_st != DOP_E_IO)
            snprintf(diag->path, sizeof diag->path, "%s", m->list[i].model);
    return again && *io_st == DOP_OK;
}

const char *
dop_cli_models_name(const dop_cli *cli, const char *plan)
{
    const struct dop_cli_models *m = cli->compiled;
    for (size_t i = 0; m && i < m->n; i++)
        if (m->list[i].plan && strcmp(m->list[i].plan, plan) == 0)
            return m->list[i].model;
    return plan;
}

uint64_t
dop_cli_models_bytes(const dop_cli *cli)
{
    uint64_t bytes = 0;
    for (size_t i = 0; cli->compiled && i < cli->compiled->n; i++)
        bytes += cli->compiled->list[i].bytes;
    return bytes;
}

void
dop_cli_models_finish(dop_cli *cli)
{
    struct dop_cli_models *m = cli->compiled;
    if (!m)
        return;
    for (size_t i = 0; i < m->n; i++)
        free(m->list[i].plan);
    free(m->list);
    free(m->here.name);
    dop_instance_destroy(&m->instance);
    dop_buf_finish(&m->here.avoid);
    free(m->fetched);
    dop_plan_cache_close(&m->cache);
    free(m);
    cli->compiled = NULL;
}

dop_status
dop_mode_cache_list(dop_cli *cli, dop_diag *diag)
{
    dop_buf text = {0};
    dop_status st = DOP_OK;
    DOP_TRY(need_folder(cli, diag));
    DOP_TRY(dop_plan_cache_list(cli->cache_dir, get_cache_limit(cli), diag, &text));
    DOP_TRY(dop_cli_print_buf(&text, diag));
error:
    dop_buf_finish(&text);
    return st;
}

dop_status
dop_mode_cache_clear(dop_cli *cli, dop_diag *diag)
{
    uint64_t bytes = 0;
    dop_buf text = {0};
    dop_status st = DOP_OK;
    DOP_TRY(need_folder(cli, diag));
    DOP_TRY(dop_cache_clear(cli->cache_dir, strcmp(cli->cache_clear, "all") == 0, diag, &bytes));
    dop_buf_printf(&text, "%.1f MB freed in %s\n", (double)bytes / 1e6, cli->cache_dir);
    DOP_TRY(dop_cli_print_buf(&text, diag));
error:
    dop_buf_finish(&text);
    return st;
}
