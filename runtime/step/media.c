/* Image and audio input. `image` turns patch rows into features; the host runs the plan's programs `image` and
 * `features` in turn. `audio` turns the frames of an audio chunk into encoder rows, and into the states of a sequence
 * that its decoder attends to. */
#include "base/parallel.h"
#include "plan/plan_names.h"
#include "runtime/model/model_load.h"
#include "runtime/model/model_used.h"
#include "runtime/model/part.h"
#include "runtime/step/program.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const dop_value *
dop_value_find(const dop_value *values, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(values[i].name, name) == 0)
            return &values[i];
    return NULL;
}

dop_status
dop_value_check(const dop_value *v, size_t n, dop_diag *diag)
{
    return !v || v->n == n ? DOP_OK
                           : DOP_FAIL(diag, DOP_E_INPUT, "\"%s\" has %zu values, expected %zu", v->name, v->n, n);
}

enum { DOP_MAX_FEATURES = 1 + 8 }; /* 1 + DOP_VISION_MAX_DEEP of frontend/facts/vision.h */

typedef struct job {
    dop_model *m;
    const dop_plan_program *image, *features;
    const dop_value *inputs;
    size_t n_inputs;
    const uint32_t *lengths; /* rows per tile */
    size_t n_tiles, n_rows;
    float *out_rows; /* NULL: not requested */
    /* features, then those for single layers of the text model; NULL: not requested */
    float *out_features[DOP_MAX_FEATURES];
    uint32_t n_kinds; /* number of feature kinds, at least 1 */
} job;

static uint32_t
find_most_program_rows(const dop_model *m, uint32_t kind)
{
    uint32_t n;
    const uint32_t *of = dop_used_of(&m->used, kind, DOP_ORDER_BARRIERS, &n);
    return n > 0 ? m->plan.schedules[of[n - 1]].max_rows : 0;
}

static uint32_t
patches_of(const job *j, size_t tile)
{
    return j->lengths[tile] - j->image->class_row;
}

void
dop_image_facts(const dop_model *model, dop_program_facts *out_facts)
{
    const dop_plan_program *image = dop_plan_program_of(&model->plan, DOP_SCHED_IMAGE),
                           *features = dop_plan_program_of(&model->plan, DOP_SCHED_FEATURES);
    *out_facts = (dop_program_facts){.name = dop_plan_string(&model->plan, image->name),
                                     .width = features->width,
                                     .max_rows = find_most_program_rows(model, DOP_SCHED_IMAGE),
                                     .merge = features->merge,
                                     .class_row = image->class_row};
}

/* Copies the output of `image` for the patches of tiles first .. end - 1, all kinds, to the input of `features`. */
static dop_status
hand_over(const job *j, size_t first, size_t end, uint32_t image, uint32_t features, dop_diag *diag)
{
    dop_model *m = j->m;
    const dop_plan_schedule *s = &m->plan.schedules[image];
    const uint64_t row = j->image->width * sizeof(float);
    dop_part_value in[DOP_PART_MAX_VALUES], out[DOP_PART_MAX_VALUES];
    VkCommandBuffer commands;
    uint64_t ticket;
    dop_status st = dop_replay_begin(&m->replay, diag, &commands);
    (void)dop_part_inputs(m, features, in);
    (void)dop_part_outputs(m, image, out);
    for (uint32_t k = 0; k < j->n_kinds && st == DOP_OK; k++) {
        const dop_slot_place *a = &m->memory.places[k == 0 ? s->logits_slot : out[k - 1].slot],
                             *b = &m->memory.places[in[k].slot];
        VkBufferCopy copy = {a->offset + (k == 0 ? s->logits_offset : out[k - 1].offset), b->offset + in[k].offset, 0};
        for (size_t i = first; i < end; i++) {
            copy.size = patches_of(j, i) * row;
            vkCmdCopyBuffer(commands, m->memory.blocks[a->block].buffer, m->memory.blocks[b->block].buffer, 1, &copy);
            copy.srcOffset += j->lengths[i] * row;
            copy.dstOffset += copy.size;
        }
    }
    return st == DOP_OK ? dop_replay_end(&m->replay, diag, &ticket) : st;
}

/* Runs `features` for `count` rows whose input is ready, and copies the results from row `feature` on. */
static dop_status
run_features(const job *j, uint32_t schedule, uint32_t count, size_t feature, dop_diag *diag)
{
    dop_model *m = j->m;
    const size_t width = j->features->width;
    dop_part_value out[DOP_PART_MAX_VALUES];
    (void)dop_part_outputs(m, schedule, out);
    for (uint32_t r = 0; r < count; r++)
        dop_replay_write_row(&m->replay, r, &(dop_row){.position = r});
    DOP_RETURN_IF_ERROR(
        dop_program_step_pieces(m, schedule, DOP_FORM_READ, DOP_PIECE_STEP | DOP_PIECE_OUT, count, diag));
    for (uint32_t k = 0; k < j->n_kinds; k++)
        if (j->out_features[k])
            dop_parallel_copy(j->out_features[k] + feature * width,
                              k == 0 ? dop_model_logits(m, schedule) : (const float *)(const void *)out[k - 1].bytes,
                              count * width * sizeof(float));
    return DOP_OK;
}

/* Runs the rows of tiles first .. end - 1 in one step, then computes their features. at: index of their first row;
 * feature: index of their first feature. */
static dop_status
run_tiles(const job *j, size_t first, size_t end, size_t at, uint32_t n_rows, size_t feature, dop_diag *diag)
{
    dop_model *m = j->m;
    const uint32_t schedule = dop_model_schedule_for(m, DOP_SCHED_IMAGE, n_rows),
                   count = (n_rows - (uint32_t)(end - first) * j->image->class_row) / j->features->merge,
                   next = dop_model_schedule_for(m, DOP_SCHED_FEATURES, count);
    const size_t width = j->image->width;
    dop_part_value in[DOP_PART_MAX_VALUES];
    bool wanted = false;
    for (uint32_t k = 0; k < j->n_kinds; k++)
        wanted = wanted || j->out_features[k];
    dop_status st = dop_model_need(m, schedule, diag);
    if (st == DOP_OK && wanted)
        st = dop_model_need(m, next, diag);
    if (st != DOP_OK)
        return st;
    const uint32_t n_in = dop_part_inputs(m, schedule, in);
    for (uint32_t i = 0; i < n_in; i++) {
        const uint8_t *from = dop_value_find(j->inputs, j->n_inputs, in[i].name)->data;
        dop_parallel_copy(in[i].bytes, from + at * in[i].row_bytes, n_rows * in[i].row_bytes);
    }
    uint32_t row = 0;
    for (size_t i = first; i < end; i++)
        for (uint32_t k = 0; k < j->lengths[i]; k++, row++)
            dop_replay_write_row(&m->replay, row, &(dop_row){.position = k, .sequence = j->lengths[i] - 1});
    st = dop_program_step_pieces(m, schedule, j->out_rows ? DOP_FORM_READ : DOP_FORM_FULL,
                                 DOP_PIECE_IN | DOP_PIECE_STEP, n_rows, diag);
    if (st == DOP_OK && j->out_rows)
        memcpy(j->out_rows + at * width, dop_model_logits(m, schedule), n_rows * width * sizeof(float));
    if (st == DOP_OK && wanted)
        st = hand_over(j, first, end, schedule, next, diag);
    return st == DOP_OK && wanted ? run_features(j, next, count, feature, diag) : st;
}

static dop_status
check_image_tiles(const job *j, dop_diag *diag)
{
    const uint32_t most = find_most_program_rows(j->m, DOP_SCHED_IMAGE);
    size_t sum = 0;
    for (size_t i = 0; i < j->n_tiles; i++) {
        if (j->lengths[i] > most)
            return DOP_FAIL(diag, DOP_E_INPUT,
                            "tile %zu has %u rows, and this plan takes at most %u: resize the picture", i,
                            j->lengths[i], most);
        if (j->lengths[i] <= j->image->class_row || patches_of(j, i) % j->features->merge)
            return DOP_FAIL(diag, DOP_E_INPUT, "tile %zu has %u rows, which do not make features of %u", i,
                            j->lengths[i], j->features->merge);
        sum += j->lengths[i];
    }
    return sum == j->n_rows && sum > 0
               ? DOP_OK
               : DOP_FAIL(diag, DOP_E_INPUT, "the tiles have %zu rows together, and %zu are given", sum, j->n_rows);
}

/* Checks values that kernels use as table indices. */
static dop_status
check_table_numbers(const job *j, const dop_value *v, const char *name, dop_diag *diag)
{
    const uint32_t *x = v->data, places = j->image->n_places;
    const bool turns = strcmp(name, "turns") == 0, place = strcmp(name, "places") == 0 || strcmp(name, "corners") == 0;
    if (strcmp(name, "axes") == 0)
        for (size_t i = 0; i < v->n; i++)
            if (x[i] - i % 2 * (places / 2) >= places / 2)
                return DOP_FAIL(diag, DOP_E_INPUT,
                                "\"axes\" has %u: the picture has more than %u rows or columns of patches", x[i],
                                places / 2);
    const uint32_t end = turns ? DOP_STEP_EDGE * DOP_STEP_EDGE : places;
    for (size_t i = 0; i < v->n && (turns || place); i++) /* the other inputs need no check */
        if (x[i] >= end)
            return DOP_FAIL(diag, DOP_E_INPUT, "\"%s\" has %u, of %u", name, x[i], end);
    return DOP_OK;
}

/* Checks that each row's window is contiguous and lies in its tile. */
static dop_status
check_windows(const job *j, dop_diag *diag)
{
    const dop_value *in = dop_value_find(j->inputs, j->n_inputs, "in_window"),
                    *last = dop_value_find(j->inputs, j->n_inputs, "window_lasts");
    const uint32_t *at = in ? in->data : NULL, *end = last ? last->data : NULL;
    size_t row = 0;
    for (size_t i = 0; i < j->n_tiles && at && end; i++)
        for (uint32_t k = 0; k < j->lengths[i]; k++, row++)
            if (at[row] > k || end[row] < at[row] || end[row] - at[row] >= j->lengths[i] - k)
                return DOP_FAIL(diag, DOP_E_INPUT, "the window of row %zu leaves its tile", row);
    return DOP_OK;
}

/* Checks that all inputs of the plan are given, and no others. */
static dop_status
check_image_inputs(const job *j, dop_diag *diag)
{
    dop_part_value in[DOP_PART_MAX_VALUES];
    const dop_plan *p = &j->m->plan;
    uint32_t n_of, n = 0;
    const uint32_t *of = dop_used_of(&j->m->used, DOP_SCHED_IMAGE, DOP_ORDER_BARRIERS, &n_of);
    for (uint32_t i = 0; i < p->n_crossings && n_of > 0; i++)
        if (p->crossings[i].schedule == of[0] && p->crossings[i].way == DOP_CROSSING_RECEIVED &&
            n < DOP_PART_MAX_VALUES)
            in[n++] = (dop_part_value){.name = dop_plan_string(p, p->crossings[i].name),
                                       .row_bytes = p->crossings[i].row_bytes};
    for (size_t i = 0; i < j->n_inputs; i++) {
        bool known = strcmp(j->inputs[i].name, "lengths") == 0;
        for (uint32_t k = 0; k < n && !known; k++)
            known = strcmp(j->inputs[i].name, in[k].name) == 0;
        if (!known)
            return DOP_FAIL(diag, DOP_E_INPUT, "the program image has no input \"%.40s\"", j->inputs[i].name);
    }
    for (uint32_t i = 0; i < n; i++) {
        const dop_value *v = dop_value_find(j->inputs, j->n_inputs, in[i].name);
        if (!v)
            return DOP_FAIL(diag, DOP_E_INPUT, "the program image needs the input \"%s\"", in[i].name);
        dop_status st = dop_value_check(v, j->n_rows * (size_t)(in[i].row_bytes / sizeof(float)), diag);
        if (st == DOP_OK)
            st = check_table_numbers(j, v, in[i].name, diag);
        if (st != DOP_OK)
            return st;
    }
    return check_windows(j, diag);
}

/* Returns the number of inputs or outputs of a step of the program. */
static uint32_t
count_crossing_values(const dop_model *m, uint32_t kind, uint32_t way)
{
    uint32_t n, count = 0;
    const uint32_t *of = dop_used_of(&m->used, kind, DOP_ORDER_BARRIERS, &n);
    for (uint32_t i = 0; i < m->plan.n_crossings && n > 0; i++)
        count += m->plan.crossings[i].schedule == of[0] && m->plan.crossings[i].way == way;
    return count;
}

/* Returns the feature kind of an output: 0 for "features", 1 and up for "deep0" and up; j->n_kinds if it is none. */
static uint32_t
find_feature_kind(const job *j, const char *name)
{
    char deep[24];
    uint32_t k = 0;
    if (strcmp(name, "features") == 0)
        return 0;
    do
        snprintf(deep, sizeof deep, "deep%u", k++);
    while (k < j->n_kinds && strcmp(name, deep) != 0);
    return k;
}

/* Returns the number of values in a row of "patches"; 0: the plan has no such input. */
static size_t
patch_values(const dop_model *m)
{
    const dop_plan *p = &m->plan;
    for (uint32_t i = 0; i < p->n_crossings; i++)
        if (strcmp(dop_plan_string(p, p->crossings[i].name), "patches") == 0)
            return (size_t)(p->crossings[i].row_bytes / sizeof(float));
    return 0;
}

static dop_status
run_image_job(job *j, dop_diag *diag)
{
    const uint32_t most = find_most_program_rows(j->m, DOP_SCHED_IMAGE);
    DOP_RETURN_IF_ERROR(dop_step_none_open(j->m, diag));
    DOP_RETURN_IF_ERROR(dop_step_drain(j->m, diag));
    size_t at = 0, feature = 0;
    for (size_t first = 0, end; first < j->n_tiles; first = end) {
        uint32_t n_rows = 0, n_patches = 0;
        for (end = first; end < j->n_tiles && n_rows + j->lengths[end] <= most; end++) {
            n_rows += j->lengths[end];
            n_patches += patches_of(j, end);
        }
        DOP_RETURN_IF_ERROR(run_tiles(j, first, end, at, n_rows, feature, diag));
        at += n_rows;
        feature += n_patches / j->features->merge;
    }
    return DOP_OK;
}

dop_status
dop_image_run(dop_model *model, const dop_value *inputs, size_t n_inputs, const dop_value *outputs, size_t n_outputs,
              dop_diag *diag)
{
    const size_t values = patch_values(model);
    if (find_most_program_rows(model, DOP_SCHED_IMAGE) == 0 || find_most_program_rows(model, DOP_SCHED_FEATURES) == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, model->plan.path, "the plan has no schedules of the program image");
    const dop_value *patches = dop_value_find(inputs, n_inputs, "patches"),
                    *lengths = dop_value_find(inputs, n_inputs, "lengths"),
                    *rows = dop_value_find(outputs, n_outputs, "rows");
    job j = {.m = model,
             .image = dop_plan_program_of(&model->plan, DOP_SCHED_IMAGE),
             .features = dop_plan_program_of(&model->plan, DOP_SCHED_FEATURES),
             .n_kinds = count_crossing_values(model, DOP_SCHED_FEATURES, DOP_CROSSING_RECEIVED)};
    /* One step of `features` must hold the results of one step of `image`. */
    if (find_most_program_rows(model, DOP_SCHED_IMAGE) / j.features->merge >
            find_most_program_rows(model, DOP_SCHED_FEATURES) ||
        j.n_kinds > DOP_MAX_FEATURES ||
        j.n_kinds != 1 + count_crossing_values(model, DOP_SCHED_FEATURES, DOP_CROSSING_SENT) ||
        j.n_kinds != 1 + count_crossing_values(model, DOP_SCHED_IMAGE, DOP_CROSSING_SENT))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, model->plan.path, "the plan is damaged: its image program and features");
    for (size_t i = 0; i < n_outputs; i++) {
        const uint32_t kind = &outputs[i] == rows ? 0 : find_feature_kind(&j, outputs[i].name);
        if (kind == j.n_kinds)
            return DOP_FAIL(diag, DOP_E_INPUT, "the program image has no output \"%.40s\"", outputs[i].name);
        if (&outputs[i] != rows)
            j.out_features[kind] = outputs[i].data;
    }
    if (!patches || values == 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "the program image needs the input \"patches\"");
    const uint32_t one = patches->n / values < UINT32_MAX ? (uint32_t)(patches->n / values) : UINT32_MAX;
    j.inputs = inputs;
    j.n_inputs = n_inputs;
    j.lengths = lengths ? lengths->data : &one;
    j.n_tiles = lengths ? lengths->n : 1;
    j.n_rows = patches->n / values;
    j.out_rows = rows ? rows->data : NULL;
    DOP_RETURN_IF_ERROR(check_image_tiles(&j, diag));
    DOP_RETURN_IF_ERROR(check_image_inputs(&j, diag));
    DOP_RETURN_IF_ERROR(dop_value_check(rows, j.n_rows * j.image->width, diag));
    for (size_t i = 0; i < n_outputs; i++)
        if (&outputs[i] != rows)
            DOP_RETURN_IF_ERROR(dop_value_check(
                &outputs[i], (j.n_rows - j.n_tiles * j.image->class_row) / j.features->merge * j.features->width,
                diag));
    return run_image_job(&j, diag);
}

/* ---- audio ---- */

static const dop_plan_program *
audio_of(const dop_model *m)
{
    return dop_plan_program_of(&m->plan, DOP_SCHED_AUDIO);
}

bool
dop_model_audio(const dop_model *model, dop_audio_facts *out_facts)
{
    const dop_plan_program *p = audio_of(model);
    uint32_t n = 0;
    if (p)
        (void)dop_used_of(&model->used, DOP_SCHED_AUDIO, DOP_ORDER_BARRIERS, &n);
    if (n == 0)
        return false;
    *out_facts = (dop_audio_facts){.bins = p->bins, .frames = 2 * p->n_places, .rows = p->n_places, .width = p->width};
    return true;
}

/* Writes the mel frames, two per row, and the positions of the rows. */
static dop_status
give_frames(dop_model *m, uint32_t schedule, const dop_plan_program *p, uint32_t place, const float *mel,
            dop_diag *diag)
{
    dop_part_value in[DOP_PART_MAX_VALUES];
    const uint32_t n_in = dop_part_inputs(m, schedule, in), frames = 2 * p->n_places;
    for (uint32_t i = 0; i < n_in; i++) {
        const bool is_mel = strcmp(in[i].name, "mel") == 0;
        if (in[i].row_bytes != (is_mel ? 2 * p->bins * sizeof(float) : sizeof(uint32_t)))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path, "the plan is damaged: its audio program");
        float *values = (float *)(void *)in[i].bytes;
        for (uint32_t k = 0; is_mel && k < frames; k++)
            for (uint32_t b = 0; b < p->bins; b++)
                values[(size_t)k * p->bins + b] = mel[(size_t)b * frames + k];
        uint32_t *last = (uint32_t *)(void *)in[i].bytes;
        for (uint32_t k = 0; !is_mel && k < p->n_places; k++)
            last[k] = p->n_places - 1;
    }
    for (uint32_t i = 0; i < p->n_places; i++)
        dop_replay_write_row(&m->replay, i, &(dop_row){.position = i, .sequence = place});
    return DOP_OK;
}

dop_status
dop_sequence_hear(dop_sequence *sequence, const float *mel, size_t n, dop_diag *diag, float *out_rows)
{
    dop_diag_clear(diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    const dop_plan_program *p = audio_of(m);
    dop_audio_facts facts;
    if (!dop_model_audio(m, &facts))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path, "the plan hears nothing: it has no program audio");
    if (n != (size_t)facts.bins * facts.frames)
        return DOP_FAIL(diag, DOP_E_INPUT, "%zu values are no %u x %u bins of frames", n, facts.bins, facts.frames);
    dop_status st = dop_sequence_rewind(s, 0, diag); /* the states depend on the audio of the previous call */
    if (st == DOP_OK)
        st = dop_step_none_open(m, diag);
    if (st == DOP_OK)
        st = dop_step_drain(m, diag);
    const uint32_t schedule = dop_model_schedule_for(m, DOP_SCHED_AUDIO, p->n_places);
    if (st == DOP_OK)
        st = dop_model_need(m, schedule, diag);
    if (st == DOP_OK)
        st = give_frames(m, schedule, p, s->place, mel, diag);
    if (st == DOP_OK)
        st = dop_program_step(m, schedule, p->n_places, diag);
    if (st != DOP_OK)
        return st;
    s->prefix.seed = XXH3_64bits_withSeed(mel, n * sizeof *mel, s->adapters);
    if (out_rows)
        memcpy(out_rows, dop_model_logits(m, schedule), (size_t)p->n_places * p->width * sizeof *out_rows);
    return DOP_OK;
}
