/* doppler/constraint.h, implemented with text/grammar. */
#include "base/json/json.h"
#include "runtime/library/text_internal.h"
#include "runtime/model/model.h"
#include "text/grammar/grammar.h"

#include <doppler/constraint.h>

#include <stdlib.h>
#include <string.h>

struct dop_constraint {
    dop_vocab *vocab;
    dop_grammar *grammar;
    pthread_mutex_t lock;
    uint32_t owners; /* reference count: the caller and the matchers */
};

struct dop_constraint_matcher {
    dop_constraint *shape;
    dop_matcher *matcher;
    dop_sampler sampler;
    float *logits; /* owned, [vocab] */
    uint32_t n_vocab;
};

static dop_status
create_constraint(const dop_text *text, dop_diag *diag, dop_constraint **out_shape)
{
    const dop_plan *plan = dop_text_plan(text);
    const dop_tokenizer *tok = dop_text_tokenizer(text);
    dop_constraint *s = calloc(1, sizeof *s);
    *out_shape = s;
    if (!s)
        return DOP_NO_MEMORY(diag);
    pthread_mutex_init(&s->lock, NULL);
    s->owners = 1;
    if (plan)
        return dop_vocab_create(tok, plan->model->vocab, plan->model->end_ids, plan->model->n_end_ids, diag, &s->vocab);
    size_t n_ends;
    const uint32_t *ends = dop_tokenizer_end_ids(tok, &n_ends);
    return dop_vocab_create(tok, dop_tokenizer_vocab_size(tok), ends, (uint32_t)n_ends, diag, &s->vocab);
}

/* Destroys the constraint after a failure. */
static dop_status
finish_constraint(dop_status st, dop_constraint **io_shape)
{
    if (st != DOP_OK) {
        dop_constraint_destroy(*io_shape);
        *io_shape = NULL;
    }
    return st;
}

dop_status
dop_constraint_from_grammar(const dop_text *text, const char *grammar, size_t len, dop_diag *diag,
                            dop_constraint **out_shape)
{
    dop_diag_clear(diag);
    dop_status st = create_constraint(text, diag, out_shape);
    if (st == DOP_OK)
        st = dop_grammar_from_gbnf((*out_shape)->vocab, NULL, grammar, len, NULL, diag, &(*out_shape)->grammar);
    return finish_constraint(st, out_shape);
}

dop_status
dop_constraint_from_schema(const dop_text *text, const char *schema, size_t len, dop_diag *diag,
                           dop_constraint **out_shape)
{
    dop_diag_clear(diag);
    json_t *root = NULL;
    dop_status st = create_constraint(text, diag, out_shape);
    if (st == DOP_OK && len)
        st = dop_json_decode(schema, len, NULL, diag, &root);
    if (st == DOP_OK)
        st = dop_grammar_from_schema((*out_shape)->vocab, root, NULL, NULL, 0, NULL, diag, &(*out_shape)->grammar);
    json_decref(root);
    return finish_constraint(st, out_shape);
}

const char *
dop_constraint_unenforced(const dop_constraint *shape)
{
    return dop_grammar_unenforced(shape->grammar);
}

void
dop_constraint_destroy(dop_constraint *shape)
{
    if (!shape)
        return;
    pthread_mutex_lock(&shape->lock);
    bool last = --shape->owners == 0;
    pthread_mutex_unlock(&shape->lock);
    if (!last)
        return;
    dop_grammar_release(shape->grammar);
    dop_vocab_destroy(shape->vocab);
    pthread_mutex_destroy(&shape->lock);
    free(shape);
}

dop_status
dop_constraint_matcher_create(dop_constraint *shape, const dop_sampling *sampling, dop_diag *diag,
                              dop_constraint_matcher **out_matcher)
{
    dop_diag_clear(diag);
    *out_matcher = NULL;
    if (sampling && !dop_sampling_can_pick(sampling))
        return DOP_FAIL(diag, DOP_E_USAGE, DOP_SAMPLING_ODD);
    dop_constraint_matcher *s = calloc(1, sizeof *s);
    if (!s)
        return DOP_NO_MEMORY(diag);
    pthread_mutex_lock(&shape->lock);
    shape->owners++;
    pthread_mutex_unlock(&shape->lock);
    s->shape = shape;
    s->n_vocab = dop_vocab_size(shape->vocab);
    s->logits = malloc(s->n_vocab * sizeof *s->logits);
    dop_status st = s->logits ? dop_matcher_create(shape->grammar, diag, &s->matcher) : DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st = dop_sampler_init(&s->sampler, s->n_vocab, diag);
    if (st == DOP_OK && sampling)
        s->sampler.params = *sampling;
    if (st == DOP_OK)
        *out_matcher = s;
    else
        dop_constraint_matcher_destroy(s);
    return st;
}

void
dop_constraint_matcher_destroy(dop_constraint_matcher *matcher)
{
    if (!matcher)
        return;
    dop_matcher_destroy(matcher->matcher);
    dop_sampler_finish(&matcher->sampler);
    free(matcher->logits);
    dop_constraint_destroy(matcher->shape);
    free(matcher);
}

struct dop_matcher *
dop_constraint_matcher_inside(dop_constraint_matcher *matcher)
{
    return matcher->matcher;
}

uint32_t
dop_constraint_matcher_vocab(const dop_constraint_matcher *matcher)
{
    return matcher->n_vocab;
}

dop_status
dop_constraint_matcher_pick(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n_tokens,
                            dop_diag *diag, uint32_t *out_id)
{
    dop_diag_clear(diag);
    dop_constraint_matcher *s = user;
    if (vocab != s->n_vocab)
        return DOP_FAIL(diag, DOP_E_INPUT, "the shape is for a vocabulary of %u tokens, not %u", s->n_vocab, vocab);
    memcpy(s->logits, logits, vocab * sizeof *logits);
    dop_status st = dop_matcher_apply(s->matcher, s->logits, vocab, diag);
    if (st != DOP_OK)
        return st;
    *out_id = dop_sampler_pick(&s->sampler, s->logits, tokens, n_tokens, NULL);
    return dop_matcher_accept(s->matcher, *out_id, diag);
}

const uint32_t *
dop_constraint_matcher_mask(dop_constraint_matcher *matcher, dop_diag *diag)
{
    dop_diag_clear(diag);
    return dop_matcher_mask(matcher->matcher, diag);
}

dop_status
dop_constraint_matcher_accept(dop_constraint_matcher *matcher, uint32_t id, dop_diag *diag)
{
    dop_diag_clear(diag);
    return dop_matcher_accept(matcher->matcher, id, diag);
}

bool
dop_constraint_matcher_may_end(const dop_constraint_matcher *matcher)
{
    return dop_matcher_may_end(matcher->matcher);
}

bool
dop_constraint_matcher_must_end(const dop_constraint_matcher *matcher)
{
    return dop_matcher_must_end(matcher->matcher);
}
