/* POST /v1/images/generations and /v1/images/edits: makes jobs that draw, and writes the images as JSON or as
 * events.
 *
 * OpenAI's fields: prompt, n, size, response_format, output_format and stream; for edits, which are forms, also
 * image and mask. Extensions, with the meaning of doppler/draw.h: seed, steps, guidance, negative, sampler, init (a
 * data: URI; in edits, the image) and strength. */
#include "serve/protocols/drawings.h"

#include "runtime/library/draw.h"
#include "serve/api/api_images.h"
#include "serve/api/api_json.h"
#include "serve/api/api_read.h"
#include "serve/protocols/form_data.h"
#include "serve/protocols/protocol.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { MOST_PICTURES = 10, MOST_TEXT = 32000 /* bytes */ };

static const double LEAST_STRENGTH = 0.001; /* as for --strength, because 0 means the default in dop_draw_options */

/* One image of a request: the state of its job. */
typedef struct picture {
    dop_draw_options options;
    char *text, *negative, *sampler; /* owned; NULL if not given */
    dop_buf init;                    /* owned: initial image, a PNG of the plan's size; empty: none */
    dop_buf mask;                    /* owned: PNG mask of the area to draw; empty: the whole image */
    bool url;                        /* the answer has the image as a data: URL */
    bool edit;                       /* the request is for /v1/images/edits */
    void *png;                       /* owned, [n] bytes; NULL: not drawn yet */
    size_t n;
    /* Set while the image is being drawn. */
    dop_engine *engine;
    dop_job *job;
} picture;

static void
finish_picture(void *state)
{
    picture *p = state;
    if (!p)
        return;
    free(p->text);
    free(p->negative);
    free(p->sampler);
    dop_buf_finish(&p->init);
    dop_buf_finish(&p->mask);
    free(p->png);
    free(p);
}

/* Replaces a text of the options, which may be NULL, by an owned copy. Returns false if memory runs out. */
static bool
copy_option_text(const char **io_text, char **out_copy)
{
    *out_copy = *io_text ? strdup(*io_text) : NULL;
    const bool good = *out_copy || !*io_text;
    *io_text = *out_copy;
    return good;
}

/* Returns a copy of a file, and points the options to it; NULL if it is empty. */
static dop_buf
copy_option_file(const dop_buf *from, const void **out_bytes, size_t *out_n)
{
    dop_buf copy = {0};
    dop_buf_append(&copy, from->size ? from->data : "", from->size);
    *out_bytes = from->size ? copy.data : NULL;
    *out_n = copy.size;
    return copy;
}

static picture *
copy_picture(const picture *from)
{
    picture *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = *from;
    bool good = copy_option_text(&p->options.text, &p->text);
    /* copies all texts even after a failure, because all are freed */
    good = copy_option_text(&p->options.negative, &p->negative) && good;
    good = copy_option_text(&p->options.sampler, &p->sampler) && good;
    p->options.user = p;
    p->init = copy_option_file(&from->init, &p->options.init, &p->options.n_init);
    p->mask = copy_option_file(&from->mask, &p->options.mask, &p->options.n_mask);
    if (good && !p->init.failed && !p->mask.failed)
        return p;
    finish_picture(p);
    return NULL;
}

/* ---- drawing, on the engine's thread ---- */

static bool
report_drawing_step(void *user, uint32_t step, uint32_t n_steps)
{
    const picture *p = user;
    return dop_job_advance(p->engine, p->job, step, n_steps);
}

/* dop_job_task.run: draws the image and encodes it as PNG. */
static dop_status
run_drawing_task(void *state, dop_model *model, dop_engine *engine, dop_job *job, dop_diag *diag)
{
    picture *p = state;
    dop_drawing d = {0};
    char *text = NULL;
    p->engine = engine;
    p->job = job;
    dop_status st = DOP_OK;
    DOP_TRY(dop_draw_picture(model, &p->options, diag, &d));
    DOP_TRY(dop_drawing_parameters(&d, &p->options, diag, &text));
    DOP_TRY(dop_drawing_png(&d, text, diag, &p->png, &p->n));
error:
    dop_free(text);
    dop_free(d.rgb);
    return st;
}

/* ---- requests ---- */

/* Checks the size, which must be that of the plan. */
static void
check_drawing_size(dop_reader *r, const dop_draw_facts *facts)
{
    char own[32];
    size_t n;
    const char *size = dop_reader_text(r, "size", &n);
    snprintf(own, sizeof own, "%ux%u", facts->width, facts->height);
    if (size && strcmp(size, "auto") != 0 && strcmp(size, own) != 0)
        dop_reader_refuse(r, "size", "this plan draws pictures of %s: size is that or auto", own);
}

/* Returns a text member. Refuses texts with NUL bytes, because the library's texts are 0-terminated. */
static const char *
read_drawing_text(dop_reader *r, const char *name)
{
    size_t n = 0;
    const char *text = dop_reader_text(r, name, &n);
    if (text && strlen(text) != n)
        dop_reader_refuse(r, name, "%s has a NUL", name);
    else if (n > MOST_TEXT)
        dop_reader_refuse(r, name, "%s has more than %d bytes", name, MOST_TEXT);
    return text;
}

static void
read_drawing_format(dop_reader *r, picture *out)
{
    size_t n;
    const char *response = dop_reader_text(r, "response_format", &n), *output = dop_reader_text(r, "output_format", &n);
    if (response && strcmp(response, "b64_json") != 0 && strcmp(response, "url") != 0)
        dop_reader_refuse(r, "response_format", "response_format is b64_json or url");
    if (output && strcmp(output, "png") != 0)
        dop_reader_refuse(r, "output_format", "output_format is png");
    out->url = response && strcmp(response, "url") == 0;
}

/* Returns the field that an error of dop_draw_check is about. */
static const char *
find_wrong_option(const dop_draw_options *o, const char *why)
{
    return o->sampler && strstr(why, "sampler") ? "sampler" : "steps";
}

/* Returns the image file of a form; NULL: refused. */
static const char *
get_form_image(dop_reader *r, const dop_form_data *form, size_t *out_n)
{
    const uint32_t n = form->files[DOP_FORM_IMAGE].count;
    if (n == 0)
        dop_reader_refuse(r, "image", "image is the picture to begin with, as a file of the form");
    else if (n > 1)
        dop_reader_refuse(r, "image", "a drawing begins with one picture, and image is given %u times", n);
    *out_n = form->files[DOP_FORM_IMAGE].n;
    return r->failed ? NULL : form->files[DOP_FORM_IMAGE].bytes;
}

/* Reads the mask of a form. size: original size of the form's image. */
static void
read_drawing_mask(dop_reader *r, const dop_api *api, const dop_form_data *form, const uint32_t size[2],
                  dop_budget *budget, picture *out)
{
    dop_diag diag = {0};
    const uint32_t n = form->files[DOP_FORM_MASK].count;
    const char *bytes = form->files[DOP_FORM_MASK].bytes;
    if (n > 1)
        dop_reader_refuse(r, "mask", "a picture has one mask, and mask is given %u times", n);
    else if (n == 1 && dop_draw_fit_mask(api->model, bytes, form->files[DOP_FORM_MASK].n, size, budget, &diag,
                                         &out->mask) != DOP_OK)
        dop_reader_fail(r, "mask", &diag, budget);
    out->options.mask = out->mask.data;
    out->options.n_mask = out->mask.size;
}

/* Reads the initial image from the form or, if form is NULL, from an optional data: URI. */
static void
read_initial_image(dop_reader *r, const dop_api *api, const dop_form_data *form, dop_budget *budget, picture *out)
{
    const char *param = form ? "image" : "init";
    dop_diag diag = {0};
    dop_buf decoded = {0};
    uint32_t size[2];
    size_t n = 0;
    const char *bytes = form ? get_form_image(r, form, &n) : dop_reader_text(r, param, &n);
    if (bytes && !form && !r->failed && dop_reader_data(r, param, bytes, budget, &decoded)) {
        bytes = decoded.data;
        n = decoded.size;
    }
    out->options.init = bytes;
    out->options.n_init = n;
    if (bytes && !r->failed && dop_draw_check(api->model, &out->options, &diag) != DOP_OK)
        dop_reader_refuse(r, param, "%s", diag.message);
    else if (bytes && !r->failed && dop_draw_fit(api->model, bytes, n, budget, &diag, &out->init, size) != DOP_OK)
        dop_reader_fail(r, param, &diag, budget);
    out->options.init = out->init.data;
    out->options.n_init = out->init.size;
    if (form && !r->failed)
        read_drawing_mask(r, api, form, size, budget, out);
    dop_buf_finish(&decoded);
}

static void
read_drawing_options(dop_reader *r, const dop_api *api, picture *out)
{
    size_t n;
    dop_diag diag = {0};
    const json_t *seed = dop_reader_get(r, "seed");
    const int64_t number = dop_reader_whole(r, "seed", -1, INT64_MIN, INT64_MAX);
    out->options.text = read_drawing_text(r, "prompt");
    out->options.negative = read_drawing_text(r, "negative");
    if (!out->options.negative) /* name used by other programs */
        out->options.negative = read_drawing_text(r, "negative_prompt");
    out->options.steps = (uint32_t)dop_reader_whole(r, "steps", 0, 0, 1000);
    out->options.guidance = dop_reader_real(r, "guidance", 0, 0, 100);
    out->options.sampler = dop_reader_text(r, "sampler", &n);
    /* -1: random, as in other servers. Random seeds have 32 bits, so that JavaScript represents them exactly. */
    out->options.seed = seed && number != -1 ? (uint64_t)number : dop_any_seed() >> 32;
    out->options.strength = dop_reader_real(r, "strength", 0, LEAST_STRENGTH, 1);
    out->options.progress = report_drawing_step;
    if (!r->failed && !out->options.text)
        dop_reader_refuse(r, "prompt", "prompt is the text to draw");
    if (!r->failed && dop_draw_check(api->model, &out->options, &diag) != DOP_OK)
        dop_reader_refuse(r, find_wrong_option(&out->options, diag.message), "%s", diag.message);
}

/* Submits a job for each image, with consecutive seeds. */
static void
submit_drawing_jobs(dop_reader *r, dop_call *c, const dop_api_request *request, const picture *like)
{
    dop_job_request jobs[MOST_PICTURES] = {{.n_prompt = 0}};
    dop_job *made[MOST_PICTURES];
    dop_diag diag = {0};
    dop_submit result = DOP_SUBMIT_OK;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        picture *p = copy_picture(like);
        if (!p) {
            DOP_NO_MEMORY(&diag);
            result = DOP_SUBMIT_FAILED;
            break;
        }
        p->options.seed += i;
        jobs[i] = (dop_job_request){.task = {run_drawing_task, finish_picture, p, p->init.size + p->mask.size},
                                    .wake = request->wake,
                                    .user = request->user,
                                    .wake_at_end = !c->stream,
                                    .client = request->client,
                                    .priority = request->priority,
                                    .time_limit_s = c->api->time_limit_s};
    }
    if (result == DOP_SUBMIT_OK)
        result = dop_engine_submit(c->api->engine, jobs, c->n_choices, &diag, made);
    for (uint32_t i = 0; i < c->n_choices; i++) {
        if (result == DOP_SUBMIT_OK)
            c->choices[i].job = made[i];
        else
            finish_picture(jobs[i].task.state);
    }
    if (result != DOP_SUBMIT_OK) {
        r->failed = true;
        dop_answer_not_submitted(r->answer, result, &diag);
    }
}

/* ---- answers ---- */

static json_t *
make_drawing_settings(const dop_call *c)
{
    dop_draw_facts facts = {0};
    char size[32];
    (void)dop_model_draw_facts(c->api->model, &facts);
    snprintf(size, sizeof size, "%ux%u", facts.width, facts.height);
    return json_pack("{s:s, s:s, s:s}", "size", size, "output_format", "png", "background", "opaque");
}

/* Returns the JSON of an image whose job has succeeded. */
static json_t *
encode_drawn_picture(const picture *p)
{
    static const char head[] = "data:image/png;base64,";
    json_t *text = dop_json_base64(p->png, p->n);
    const size_t n = json_string_length(text);
    char *url = p->url && text ? malloc(sizeof head + n) : NULL;
    if (url) {
        memcpy(url, head, sizeof head - 1);
        memcpy(url + sizeof head - 1, json_string_value(text), n);
        json_t *made = json_stringn_nocheck(url, sizeof head - 1 + n);
        json_decref(text);
        text = made;
        free(url);
    }
    return json_pack("{s:o, s:I}", p->url ? "url" : "b64_json", text, "seed", (json_int_t)p->options.seed);
}

static void
write_drawings_begin(const dop_call *c, dop_buf *out)
{
    dop_buf_printf(out, "{\"created\":%lld,\"data\":[", (long long)c->created);
}

static void
write_encoded_picture(const dop_call *c, uint32_t index, dop_buf *out)
{
    json_t *one = encode_drawn_picture(dop_job_look(c->choices[index].job).task);
    out->failed = out->failed || !one;
    if (one)
        dop_json_encode(out, one);
    json_decref(one);
}

static void
write_drawings_end(const dop_call *c, dop_buf *out)
{
    json_t *rest = make_drawing_settings(c);
    char *text = rest ? json_dumps(rest, JSON_COMPACT) : NULL;
    dop_buf_printf(out, "],%s", text ? text + 1 : "\"output_format\":\"png\"}"); /* skips its "{" */
    free(text);
    json_decref(rest);
}

static void
append_drawing_event(const dop_call *c, const picture *p, dop_answer *answer)
{
    const char *type = p->edit ? "image_edit.completed" : "image_generation.completed";
    json_t *event = json_pack("{s:s, s:I}", "type", type, "created_at", (json_int_t)c->created);
    json_t *one = encode_drawn_picture(p), *rest = make_drawing_settings(c);
    (void)json_object_update(event, one);
    (void)json_object_update(event, rest);
    json_decref(one);
    json_decref(rest);
    dop_answer_event(answer, type, event);
}

static bool
stream_drawings(dop_call *c, dop_answer *answer)
{
    bool over = true;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        dop_choice *choice = &c->choices[i];
        if (choice->over)
            continue;
        dop_engine_lock(c->api->engine);
        const dop_job_state s = dop_job_look(choice->job);
        dop_engine_unlock(c->api->engine);
        const bool ended = s.end != DOP_JOB_GOES_ON, good = s.end == DOP_JOB_END_TOKEN;
        if (!ended && s.task_of > 0 && (!choice->begun || s.task_at != choice->sent_tokens)) {
            dop_buf_printf(&answer->body, ": picture %u of %u, step %u of %u\n\n", i + 1, c->n_choices, s.task_at,
                           s.task_of);
            choice->begun = true;
            choice->sent_tokens = s.task_at;
        }
        if (ended && good)
            append_drawing_event(c, s.task, answer);
        else if (ended)
            dop_answer_failed_event(answer, &s);
        choice->over = ended;
        over &= ended;
    }
    if (over)
        dop_buf_puts(&answer->body, "data: [DONE]\n\n");
    return over;
}

static const dop_task_writer writer = {write_drawings_begin, write_encoded_picture, write_drawings_end, stream_drawings,
                                       NULL};

static dop_call *
begin_drawing_call(const dop_api *api, const dop_api_request *request, const json_t *root, const dop_form_data *form,
                   dop_answer *answer)
{
    dop_reader r = {.root = root, .answer = answer};
    dop_draw_facts facts;
    picture like = {.edit = form != NULL};
    if (!dop_model_draw_facts(api->model, &facts)) {
        dop_reader_refuse(&r, "model", "the model draws no pictures");
        return NULL;
    }
    (void)dop_reader_get(&r, "model");
    const uint32_t n = (uint32_t)dop_reader_whole(&r, "n", 1, 1, MOST_PICTURES);
    const bool streams = dop_reader_bool(&r, "stream", false);
    /* accepted but ignored: partial images are an upper limit, and none is sent */
    (void)dop_reader_whole(&r, "partial_images", 0, 0, 3);
    check_drawing_size(&r, &facts);
    read_drawing_format(&r, &like);
    if (!r.failed)
        read_drawing_options(&r, api, &like);
    if (!r.failed)
        read_initial_image(&r, api, form, request->budget, &like);
    dop_reader_report(&r);
    dop_call *c = r.failed ? NULL : calloc(1, sizeof *c + n * sizeof *c->choices);
    if (!c && !r.failed)
        dop_answer_no_memory(answer);
    if (!c) {
        dop_buf_finish(&like.init);
        dop_buf_finish(&like.mask);
        return NULL;
    }
    c->api = api;
    c->tasks = &writer;
    c->stream = streams;
    c->n_choices = n;
    c->created = (int64_t)time(NULL);
    submit_drawing_jobs(&r, c, request, &like);
    dop_buf_finish(&like.init);
    dop_buf_finish(&like.mask);
    if (r.failed) {
        free(c);
        return NULL;
    }
    if (api->hold)
        api->hold(api->models, api);
    return c;
}

void
dop_drawings_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                   dop_call **out_call)
{
    *out_call = begin_drawing_call(api, request, root, NULL, answer);
}

/* Converts a form's text fields to the JSON types of their members. Malformed numbers and bools stay texts, which
 * their readers refuse. */
static json_t *
convert_form_fields(const json_t *root)
{
    static const char *const numbers[] = {"n", "seed", "steps", "guidance", "strength", "partial_images"};
    static const char *const bools[] = {"stream", "strict"};
    json_t *out = json_copy((json_t *)(uintptr_t)root);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *text = json_string_value(json_object_get(root, numbers[i]));
        char *end = NULL;
        const double v = text ? strtod(text, &end) : 0;
        if (text && end != text && !*end && isfinite(v))
            (void)json_object_set_new(out, numbers[i],
                                      strspn(text, "-0123456789") == strlen(text) && fabs(v) < 9e18
                                          ? json_integer(strtoll(text, NULL, 10))
                                          : json_real(v));
    }
    for (size_t i = 0; i < sizeof bools / sizeof *bools; i++) {
        const char *text = json_string_value(json_object_get(root, bools[i]));
        if (text && (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0))
            (void)json_object_set_new(out, bools[i], json_boolean(strcasecmp(text, "true") == 0));
    }
    return out;
}

void
dop_edits_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                dop_call **out_call)
{
    dop_form_data form = {0};
    json_t *fields = convert_form_fields(root);
    if (!fields)
        dop_answer_no_memory(answer);
    else if (dop_request_form(request, answer, &form))
        *out_call = begin_drawing_call(api, request, fields, &form, answer);
    json_decref(form.fields);
    json_decref(fields);
}
