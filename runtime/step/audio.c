/* The program `audio`: frames of a chunk of audio to rows of the encoder, and to the states of a sequence that its decoder attends to. */
#include "runtime/model/part.h"
#include "runtime/step/program.h"

#include <string.h>
#include <xxhash.h>

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

/* Writes the frames, two in a row, and the positions of the rows of the sequence. */
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

static dop_status
run(dop_model *m, uint32_t schedule, uint32_t n_rows, dop_diag *diag)
{
    volatile dop_step *step = dop_replay_step(&m->replay);
    uint64_t ticket;
    step->flags = 0;
    step->n_rows = m->replay.n_rows = n_rows;
    dop_status st = dop_model_make_code(m, schedule, DOP_FORM_READ, diag);
    if (st == DOP_OK)
        st = dop_replay_submit(&m->replay, schedule, DOP_FORM_READ, 1, diag, &ticket);
    return st == DOP_OK ? dop_replay_wait(&m->replay, ticket, diag) : st;
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
    dop_status st = dop_sequence_rewind(s, 0, diag); /* what was fed depends on what was heard before */
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
        st = run(m, schedule, p->n_places, diag);
    if (st != DOP_OK)
        return st;
    s->prefix.seed = XXH3_64bits_withSeed(mel, n * sizeof *mel, s->adapters);
    if (out_rows)
        memcpy(out_rows, dop_model_logits(m, schedule), (size_t)p->n_places * p->width * sizeof *out_rows);
    return DOP_OK;
}
