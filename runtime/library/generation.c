/* The generation loop: decides where tokens are picked and when a text ends. */
#include "runtime/library/generation.h"
#include "runtime/library/text_internal.h"
#include "runtime/model/model.h"
#include "runtime/step/sequence.h"
#include "runtime/step/speculate.h"
#include "text/grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

dop_status
dop_picker_init(dop_picker *picker, uint32_t vocab, dop_diag *diag)
{
    picker->allowed = malloc((size_t)vocab * sizeof *picker->allowed);
    return picker->allowed ? dop_sampler_init(&picker->sampler, vocab, diag) : DOP_NO_MEMORY(diag);
}

void
dop_picker_finish(dop_picker *picker)
{
    dop_sampler_finish(&picker->sampler);
    free(picker->allowed);
    picker->allowed = NULL;
}

/* --- creation
 * -------------------------------------------------------------------------------------------------------- */

/* Copies the stop texts into one allocation: pointers, then bytes. */
static char **
copy_stops(const char *const *stops, size_t n)
{
    size_t size = n * sizeof(char *) + 1;
    for (size_t i = 0; i < n; i++)
        size += strlen(stops[i]) + 1;
    char **list = malloc(size), *at = list ? (char *)(list + n) : NULL;
    for (size_t i = 0; i < n && list; i++) {
        list[i] = at;
        at = stpcpy(at, stops[i]) + 1;
    }
    return list;
}

dop_status
dop_generation_init(dop_generation *generation, dop_model *model, const dop_tokenizer *tok, struct dop_matcher *matcher,
                    const dop_generation_options *o, dop_diag *diag)
{
    static const dop_sampling greedy;
    const dop_plan_model *p = model->plan.model;
    dop_generation *g = generation;
    const size_t n_biases = o->sampling ? o->sampling->n_biases : 0;
    *g = (dop_generation){
        .model = model,
        .tok = tok,
        .matcher = matcher,
        .sampling = o->sampling ? *o->sampling : greedy,
        .end_ids = p->end_ids,
        .n_end_ids = o->ignore_end ? 0 : p->n_end_ids,
        .max_tokens = o->max_tokens,
        .n_top = o->n_top < p->vocab ? o->n_top : p->vocab,
    };
    g->biases = malloc((n_biases + 1) * sizeof *g->biases);
    g->stops = copy_stops(o->stops, o->n_stops);
    g->logprobs = g->sampling.logprobs ? calloc((size_t)g->n_top + 1, sizeof *g->logprobs) : NULL;
    if (!g->biases || !g->stops || (g->sampling.logprobs && !g->logprobs)) {
        dop_generation_finish(g);
        return DOP_NO_MEMORY(diag);
    }
    if (n_biases > 0)
        memcpy(g->biases, g->sampling.biases, n_biases * sizeof *g->biases);
    g->sampling.biases = g->biases;
    dop_output_init(&g->output, (const char *const *)g->stops, o->n_stops);
    if (tok)
        dop_text_stream_init(&g->stream, tok,
                             DOP_DECODE_CONTINUE | (o->keep_special ? 0 : (unsigned)DOP_DECODE_SKIP_SPECIAL));
    return DOP_OK;
}

void
dop_generation_finish(dop_generation *generation)
{
    dop_picker_finish(&generation->own);
    dop_output_finish(&generation->output);
    dop_buf_finish(&generation->piece);
    free(generation->logprobs);
    free(generation->stops);
    free(generation->biases);
    memset(generation, 0, sizeof *generation);
}

/* --- picking --------------------------------------------------------------------------------------------------------- */

uint32_t
dop_generation_wants(const dop_generation *generation)
{
    return dop_model_wants(generation->model, &generation->sampling);
}

dop_status
dop_generation_prepare(dop_generation *generation, uint64_t steps, dop_diag *diag)
{
    dop_generation *g = generation;
    if (!g->matcher || g->mask_ready)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_matcher_prepare(g->matcher, steps, diag, &g->mask_ready));
    if (g->mask_ready && dop_generation_wants(g) != DOP_WANTS_LOGITS)
        g->mask = dop_matcher_mask(g->matcher, diag);
    return DOP_OK;
}

/* Reports that the grammar allows no token of the vocabulary. */
static dop_status
refuse_pick(dop_generation *g, dop_diag *diag)
{
    g->refused = true;
    dop_diag_clear(diag);
    return DOP_FAIL(diag, DOP_E_INPUT, "no token of the vocabulary goes on with what the grammar wants next");
}

/* Sets the matcher's mask (`masks`) or none, so that the device picks among the allowed ids. */
static dop_status
set_mask(dop_generation *g, bool masks, dop_diag *diag)
{
    if (masks && !g->mask && !(g->mask = dop_matcher_mask(g->matcher, diag)))
        return diag ? diag->code : DOP_E_NOMEM;
    g->mask_ready |= masks;
    dop_status st = dop_sequence_set_mask(g->sequence, masks ? g->mask : NULL, diag);
    return st == DOP_E_INPUT ? refuse_pick(g, diag) : st;
}

dop_status
dop_generation_ready(dop_generation *generation, dop_diag *diag)
{
    dop_generation *g = generation;
    const bool on_device = dop_generation_wants(g) != DOP_WANTS_LOGITS;
    if (on_device && !dop_sampling_is_greedy(&g->sampling))
        dop_sequence_set_sampling(g->sequence, &g->sampling);
    return set_mask(g, g->matcher && on_device, diag);
}

/* Picks from a row of logits, among the tokens that the matcher allows. */
static dop_status
pick_from(dop_generation *g, dop_picker *picker, const float *logits, const uint32_t *history, size_t n_history,
          dop_diag *diag)
{
    const uint32_t vocab = picker->sampler.vocab;
    const float *from = logits;
    bool finite = true;
    dop_status st = DOP_OK;
    if (g->matcher) { /* the matcher sets logits to -infinity, so check the model's own first */
        finite = dop_logits_largest(logits, vocab) != UINT32_MAX;
        memcpy(picker->allowed, logits, (size_t)vocab * sizeof *logits);
        if ((st = dop_matcher_apply(g->matcher, picker->allowed, vocab, diag)) != DOP_OK)
            return st == DOP_E_INPUT ? refuse_pick(g, diag) : st;
        from = picker->allowed;
    }
    picker->sampler.params = g->sampling;
    g->pick = dop_sampler_pick(&picker->sampler, from, history, n_history, NULL);
    if (!finite || (!g->matcher && picker->sampler.bad))
        return DOP_FAIL(diag, DOP_E_INPUT, "the model's logits are not finite after %zu tokens", n_history);
    if (g->logprobs)
        dop_logits_logprobs(logits, vocab, g->pick, g->n_top, &g->logprobs[0], &g->logprobs[1]);
    return DOP_OK;
}

/* Advances the matcher by the pick. */
static dop_status
advance_matcher(dop_generation *g, dop_diag *diag)
{
    g->mask = NULL;
    g->mask_ready = false;
    return g->matcher ? dop_matcher_accept(g->matcher, g->pick, diag) : DOP_OK;
}

dop_status
dop_generation_pick(dop_generation *generation, uint32_t row, dop_picker *picker, const uint32_t *history,
                    size_t n_history, dop_diag *diag)
{
    dop_generation *g = generation;
    if (dop_generation_wants(g) == DOP_WANTS_LOGITS)
        DOP_RETURN_IF_ERROR(pick_from(g, picker, dop_step_logits(g->model, row), history, n_history, diag));
    else if (dop_sampling_is_greedy(&g->sampling))
        g->pick = dop_step_pick(g->model, row);
    else
        DOP_RETURN_IF_ERROR(dop_step_sample(g->model, row, diag, &g->pick));
    return advance_matcher(g, diag);
}

/* --- text and end ---------------------------------------------------------------------------------------------------- */

static dop_status
push_piece(dop_generation *g, dop_diag *diag, size_t *out_from)
{
    return g->piece.failed ? DOP_NO_MEMORY(diag)
                           : dop_output_push(&g->output, g->piece.data, g->piece.size, diag, out_from);
}

dop_status
dop_generation_flush(dop_generation *generation, dop_diag *diag, size_t *out_from)
{
    dop_generation *g = generation;
    size_t from = *out_from = g->output.text.size;
    if (!g->tok || g->output.stopped)
        return DOP_OK;
    g->piece.size = 0;
    dop_text_stream_flush(&g->stream, &g->piece);
    DOP_RETURN_IF_ERROR(push_piece(g, diag, &from));
    return dop_output_end(&g->output, diag, &from);
}

static bool
is_end_id(const dop_generation *g, uint32_t id)
{
    for (uint32_t i = 0; i < g->n_end_ids; i++)
        if (g->end_ids[i] == id)
            return true;
    return false;
}

/* Returns why the text ends with the last token, whose text is already pushed. */
static dop_end
find_end_reason(const dop_generation *g)
{
    return is_end_id(g, g->pick)                            ? DOP_END_ID
           : g->output.stopped                              ? DOP_END_STOP_TEXT
           : g->matcher && dop_matcher_must_end(g->matcher) ? DOP_END_CONSTRAINT
           : g->n_written >= g->max_tokens                  ? DOP_END_LENGTH
                                                            : DOP_END_NOT_YET;
}

dop_status
dop_generation_write(dop_generation *generation, dop_diag *diag, size_t *out_from, dop_end *out_end)
{
    dop_generation *g = generation;
    dop_status st = DOP_OK;
    size_t from;
    *out_from = g->output.text.size;
    g->n_written++;
    /* A model may have more ids than the tokenizer has tokens. Such an id has no text. */
    if (g->tok && g->pick < dop_tokenizer_vocab_size(g->tok) && !is_end_id(g, g->pick) && !g->output.stopped) {
        g->piece.size = 0;
        st = dop_text_stream_push(&g->stream, g->pick, diag, &g->piece);
        if (st == DOP_OK)
            st = push_piece(g, diag, &from);
    }
    *out_end = find_end_reason(g);
    return st == DOP_OK && *out_end != DOP_END_NOT_YET ? dop_generation_flush(g, diag, &from) : st;
}

/* --- one sequence ---------------------------------------------------------------------------------------------------- */

/* dop_sampler_fn of a sequence whose picks a matcher restricts on the host. */
static dop_status
pick_for_sequence(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n_tokens,
                  dop_diag *diag, uint32_t *out_id)
{
    dop_generation *g = user;
    (void)vocab;
    dop_status st = pick_from(g, &g->own, logits, tokens, n_tokens, diag);
    if (st == DOP_OK && (st = advance_matcher(g, diag)) == DOP_OK)
        *out_id = g->pick;
    return st;
}

/* True if the sequence picks with the matcher's mask. Otherwise pick_for_sequence is its sampler and applies the
 * matcher. */
static bool
masks_picks(const dop_generation *g)
{
    return g->matcher && dop_sampling_is_greedy(&g->sampling);
}

dop_status
dop_generation_create(dop_sequence *sequence, const dop_generation_options *options, dop_diag *diag,
                      dop_generation **out_generation)
{
    dop_diag_clear(diag);
    *out_generation = NULL;
    static const dop_generation_options usual;
    const dop_generation_options *o = options ? options : &usual;
    dop_model *m = sequence->model;
    struct dop_matcher *matcher = o->matcher ? dop_constraint_matcher_inside(o->matcher) : NULL;
    if (matcher && dop_constraint_matcher_vocab(o->matcher) < m->plan.model->vocab)
        return DOP_FAIL(diag, DOP_E_INPUT, "the shape is for a vocabulary of %u tokens, not %u",
                        dop_constraint_matcher_vocab(o->matcher), m->plan.model->vocab);
    if (matcher && o->sampling && o->sampling->logprobs)
        return DOP_FAIL(diag, DOP_E_USAGE, "a matcher and log-probabilities exclude one another");
    if (o->sampling && !dop_sampling_can_pick(o->sampling))
        return DOP_FAIL(diag, DOP_E_USAGE, DOP_SAMPLING_ODD);
    if (o->n_top > m->plan.model->vocab)
        return DOP_FAIL(diag, DOP_E_USAGE, "%u likeliest ids are asked for, and the vocabulary has %u", o->n_top,
                        m->plan.model->vocab);
    dop_generation *g = malloc(sizeof *g);
    if (!g)
        return DOP_NO_MEMORY(diag);
    dop_status st = dop_sequence_draft_by_default(sequence, diag);
    if (st == DOP_OK)
        st = dop_generation_init(g, m, o->text ? dop_text_tokenizer(o->text) : NULL, matcher, o, diag);
    if (st != DOP_OK) {
        free(g);
        return st;
    }
    g->sequence = sequence;
    if (matcher && !masks_picks(g) && (st = dop_picker_init(&g->own, m->plan.model->vocab, diag)) != DOP_OK) {
        dop_generation_destroy(g);
        return st;
    }
    *out_generation = g;
    return DOP_OK;
}

void
dop_generation_destroy(dop_generation *generation)
{
    if (!generation)
        return;
    dop_sequence *s = generation->sequence;
    if (s->pick_user == generation)
        dop_sequence_set_sampler(s, NULL, NULL);
    if (s->sampler.params.biases == generation->biases)
        s->sampler.params.n_biases = 0;
    (void)dop_sequence_set_mask(s, NULL, NULL);
    dop_generation_finish(generation);
    free(generation);
}

dop_status
dop_generation_begin(dop_generation *generation, size_t n, dop_diag *diag)
{
    dop_generation *g = generation;
    dop_sequence *s = g->sequence;
    dop_diag_clear(diag);
    dop_status st = dop_sequence_check_room(s, n, diag);
    if (st != DOP_OK)
        return st;
    const uint32_t before = s->n_tokens + (uint32_t)n, room = s->model->plan.model->ctx - before;
    dop_sampler_fn *own = s->pick == pick_for_sequence ? NULL : s->pick;
    void *user = s->pick_user;
    if (g->max_tokens == 0 || g->max_tokens > room)
        g->max_tokens = room;
    g->sampling.penalty_from = before;
    dop_sequence_expect(s, g->max_tokens);
    dop_sequence_set_sampling(s, &g->sampling);
    if (g->matcher && !masks_picks(g))
        dop_sequence_set_sampler(s, pick_for_sequence, g);
    else if (own && !g->matcher)
        dop_sequence_set_sampler(s, own, user);
    g->begun = true;
    return set_mask(g, masks_picks(g), diag);
}

dop_status
dop_generation_read(dop_generation *generation, const uint32_t *ids, size_t n, dop_diag *diag)
{
    dop_sequence *s = generation->sequence;
    size_t found = 0;
    dop_status st = dop_generation_begin(generation, n, diag);
    if (st == DOP_OK && s->n_tokens == 0)
        st = dop_sequence_reuse(s, ids, n, diag, &found);
    return st == DOP_OK && found < n ? dop_sequence_feed(s, ids + found, n - found, diag) : st;
}

/* Returns the last token with the text from offset `from` on. */
static dop_generation_token
token_from(const dop_generation *g, size_t from, dop_end end)
{
    size_t len;
    const char *text = dop_generation_text(g, &len);
    return (dop_generation_token){
        .id = g->pick, .end = end, .text = text + from, .len = len - from, .logprobs = g->logprobs};
}

dop_status
dop_generation_next(dop_generation *generation, dop_diag *diag, dop_generation_token *out_token)
{
    dop_generation *g = generation;
    size_t from;
    dop_end end;
    dop_diag_clear(diag);
    if (g->ended)
        return DOP_FAIL(diag, DOP_E_USAGE, "the text has ended");
    dop_status st = g->begun ? set_mask(g, masks_picks(g), diag) : dop_generation_begin(g, 0, diag);
    if (st == DOP_OK)
        st = dop_sequence_next(g->sequence, diag, &g->pick);
    if (st == DOP_OK && masks_picks(g))
        st = advance_matcher(g, diag);
    if (st == DOP_OK && g->logprobs)
        st = dop_sequence_logprobs(g->sequence, g->n_top, diag, &g->logprobs[0], &g->logprobs[1]);
    if (st == DOP_OK)
        st = dop_generation_write(g, diag, &from, &end);
    g->ended = st == DOP_OK && end != DOP_END_NOT_YET;
    if (g->ended)
        st = dop_sequence_end_turn(g->sequence, diag);
    if (st == DOP_OK)
        *out_token = token_from(g, from, end);
    return st;
}

dop_status
dop_generation_stop(dop_generation *generation, dop_diag *diag, dop_generation_token *out_token)
{
    size_t from;
    dop_diag_clear(diag);
    dop_status st = DOP_OK;
    DOP_TRY(dop_generation_flush(generation, diag, &from));
    DOP_TRY(dop_sequence_end_turn(generation->sequence, diag));
error:
    *out_token = token_from(generation, from, DOP_END_NOT_YET);
    return st;
}

const char *
dop_generation_text(const dop_generation *generation, size_t *out_len)
{
    *out_len = generation->output.text.size;
    return generation->output.text.size ? generation->output.text.data : "";
}
