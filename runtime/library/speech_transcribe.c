/* Transcribes a whole file with one or several sequences. */
#include "runtime/library/speech.h"

#include <stdlib.h>

enum { MOST_LANES = DOP_STEP_MAX_SEQUENCES };

typedef struct work {
    dop_hearing *hearing;
    dop_lane *lanes; /* owned, [n] */
    uint32_t n;
    dop_lane *list[MOST_LANES];
    dop_sequence *own[MOST_LANES]; /* owned: sequences of all lanes except the first */
} work;

/* Creates the lanes. Fails if the plan has fewer sequences than requested. */
static dop_status
open_lanes(work *w, dop_model *model, dop_sequence *sequence, uint32_t asked, dop_diag *diag)
{
    dop_facts facts;
    dop_model_facts(model, &facts);
    if (asked > facts.n_sequences || asked > MOST_LANES)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, model->plan.path,
                           "the plan holds %u sequences, not %u: compile it with `sequences` %u and `rows` %u",
                           facts.n_sequences, asked, asked, asked);
    const uint32_t n = dop_hearing_most_lanes(w->hearing);
    if (!(w->lanes = calloc(n ? n : 1, sizeof *w->lanes)))
        return DOP_NO_MEMORY(diag);
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        if (i > 0)
            st = dop_sequence_create(model, diag, &w->own[i]);
        if (st != DOP_OK)
            break;
        w->list[i] = &w->lanes[i];
        w->n = i + 1;
        st = dop_lane_init(&w->lanes[i], w->hearing, i > 0 ? w->own[i] : sequence, diag);
    }
    return st;
}

dop_status
dop_speech_transcribe(const dop_speech *speech, dop_sequence *sequence, const dop_audio *audio,
                      const dop_speech_how *how, dop_diag *diag, dop_transcript *out_transcript)
{
    work w = {0};
    dop_diag_clear(diag);
    *out_transcript = (dop_transcript){0};
    dop_status st = DOP_OK;
    DOP_TRY(dop_hearing_create(speech, audio, how, diag, &w.hearing));
    DOP_TRY(open_lanes(&w, speech->model, sequence, how->together, diag));
    while (!dop_hearing_is_over(w.hearing)) {
        for (uint32_t i = 0; i < w.n; i++)
            DOP_TRY(dop_lane_begin(&w.lanes[i], diag));
        DOP_TRY(dop_lanes_step(w.list, w.n, 0, diag));
    }
error:
    if (w.hearing) {
        *out_transcript = *dop_hearing_transcript(w.hearing);
        *dop_hearing_transcript(w.hearing) = (dop_transcript){0};
    }
    for (uint32_t i = 0; i < w.n; i++)
        dop_lane_finish(&w.lanes[i]);
    for (uint32_t i = 1; i < MOST_LANES; i++)
        dop_sequence_destroy(w.own[i]);
    free(w.lanes);
    dop_hearing_release(w.hearing);
    return st;
}
