/* Programs of a diffusion model. `context` stores keys and values of a text in states. `denoise` predicts the noise of
 * latents. `decode` turns latents into pixels, and `encode_picture` pixels into latents. Each is one step; its rows are
 * positions of an image or rows of a text. */
#include "runtime/model/model_load.h"
#include "runtime/model/model_used.h"
#include "runtime/model/part.h"
#include "runtime/step/program.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"

#include <stdlib.h>
#include <string.h>

typedef struct program {
    const char *name, *input, *output;
    uint32_t kind;
} program;

static const program programs[] = {{"context", "context", NULL, DOP_SCHED_CONTEXT},
                                   {"denoise", "latents", "predicted", DOP_SCHED_DENOISE},
                                   {"decode", "latents", "pixels", DOP_SCHED_DECODE_LATENTS},
                                   {"encode_picture", "pixels", "moments", DOP_SCHED_ENCODE_PIXELS},
                                   {"encode_2", "tokens", "rows", DOP_SCHED_ENCODE_2}};

static const program *
find_draw_program(const char *name)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].name, name) == 0)
            return &programs[i];
    return NULL;
}

bool
dop_draws(const dop_model *m, const char *name)
{
    return m->plan.draw && find_draw_program(name);
}

/* Returns the number of 32-bit values in all rows of an input. */
static uint64_t
count_input_values(const dop_part_value *v, uint32_t rows)
{
    return v->row_bytes / sizeof(float) * (v->one_row ? 1 : rows);
}

/* Fills the program's inputs: from `inputs` by name, and row indices ("places<n>") and the last row index ("lasts<n>")
 * for attention. */
static dop_status
fill_draw_inputs(const dop_part_value *in, uint32_t n_in, uint32_t rows, const dop_value *inputs, size_t n_inputs,
                 dop_diag *diag)
{
    for (uint32_t i = 0; i < n_in; i++) {
        const dop_value *given = dop_value_find(inputs, n_inputs, in[i].name);
        const uint64_t n = count_input_values(&in[i], rows);
        uint32_t *numbers = (uint32_t *)(void *)in[i].bytes;
        if (given) {
            dop_status st = dop_value_check(given, n, diag);
            if (st != DOP_OK)
                return st;
            memcpy(in[i].bytes, given->data, n * sizeof(float));
            continue;
        }
        const bool places = strncmp(in[i].name, "places", 6) == 0, lasts = strncmp(in[i].name, "lasts", 5) == 0;
        if (!places && !lasts)
            return DOP_FAIL(diag, DOP_E_INPUT, "the program needs the input \"%s\"", in[i].name);
        for (uint64_t k = 0; k < n; k++)
            numbers[k] = places ? (uint32_t)k : (uint32_t)n - 1;
    }
    return DOP_OK;
}

static dop_status
check_draw_values(const program *p, const dop_value *inputs, size_t n_inputs, const dop_value *outputs,
                  size_t n_outputs, dop_diag *diag)
{
    for (size_t i = 0; i < n_inputs; i++)
        if (strcmp(inputs[i].name, p->input) != 0 && strcmp(inputs[i].name, "sequence") != 0 &&
            !(p->kind == DOP_SCHED_DENOISE &&
              (strcmp(inputs[i].name, "time") == 0 || strcmp(inputs[i].name, "added") == 0)))
            return DOP_FAIL(diag, DOP_E_INPUT, "the program %s has no input \"%.40s\"", p->name, inputs[i].name);
    for (size_t i = 0; i < n_outputs; i++)
        if (!p->output || strcmp(outputs[i].name, p->output) != 0)
            return DOP_FAIL(diag, DOP_E_INPUT, "the program %s has no output \"%.40s\"", p->name, outputs[i].name);
    return DOP_OK;
}

/* Returns the number of values of a program's output. */
static size_t
values_given(const dop_plan_draw *d, uint32_t kind)
{
    return kind == DOP_SCHED_DECODE_LATENTS  ? dop_draw_pixels(d)
           : kind == DOP_SCHED_ENCODE_PIXELS ? 2 * dop_draw_latents(d)
           : kind == DOP_SCHED_ENCODE_2      ? dop_draw_rows_2(d)
                                             : dop_draw_latents(d);
}

dop_status
dop_draw_run(dop_model *m, const char *name, const dop_value *inputs, size_t n_inputs, const dop_value *outputs,
             size_t n_outputs, dop_diag *diag)
{
    const program *p = find_draw_program(name);
    const dop_value *given = dop_value_find(inputs, n_inputs, "sequence"),
                    *out = p->output ? dop_value_find(outputs, n_outputs, p->output) : NULL;
    const uint32_t sequence = given && given->n == 1 ? *(const uint32_t *)given->data : 0;
    dop_part_value in[DOP_PART_MAX_VALUES];
    uint32_t n_of;
    const uint32_t *of = dop_used_of(&m->used, p->kind, DOP_ORDER_BARRIERS, &n_of);
    dop_status st = check_draw_values(p, inputs, n_inputs, outputs, n_outputs, diag);
    if (st != DOP_OK)
        return st;
    if (n_of == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path, "the plan has no schedule of the program %s", name);
    if ((given && given->n != 1) || sequence >= m->plan.model->n_sequences)
        return DOP_FAIL(diag, DOP_E_INPUT, "\"sequence\" is not one number below %u", m->plan.model->n_sequences);
    const uint32_t rows = m->plan.schedules[of[0]].max_rows;
    st = dop_step_none_open(m, diag);
    if (st == DOP_OK)
        st = dop_step_drain(m, diag);
    if (st == DOP_OK)
        st = dop_model_need(m, of[0], diag);
    if (st != DOP_OK)
        return st;
    const uint32_t n_in = dop_part_inputs(m, of[0], in);
    st = fill_draw_inputs(in, n_in, rows, inputs, n_inputs, diag);
    if (st == DOP_OK && out)
        st = dop_value_check(out, values_given(m->plan.draw, p->kind), diag);
    for (uint32_t r = 0; r < rows; r++)
        dop_replay_write_row(&m->replay, r, &(dop_row){.position = r, .sequence = sequence});
    if (st == DOP_OK)
        st = dop_program_step(m, of[0], rows, diag);
    if (st == DOP_OK && out)
        memcpy(out->data, dop_model_logits(m, of[0]), out->n * sizeof(float));
    return st;
}
