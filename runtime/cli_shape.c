#include "runtime/cli_shape.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

bool
dop_cli_wants_shape(const dop_cli *cli)
{
    return cli->json_schema || cli->grammar || cli->json_mode;
}

static dop_status
read_schema(const char *path, dop_diag *diag, json_t **out_schema)
{
    dop_buf text = {0};
    json_error_t error;
    dop_status st = dop_cli_read(path, diag, &text);
    *out_schema = st == DOP_OK ? json_loadb(text.data ? text.data : "", text.size, JSON_DECODE_ANY, &error) : NULL;
    if (st == DOP_OK && !*out_schema)
        st = DOP_FAIL_AT(diag, DOP_E_INPUT, path, error.line, error.column, "invalid JSON: %s", error.text);
    dop_buf_finish(&text);
    return st;
}

static dop_status
make_grammar(const dop_cli *cli, const dop_vocab *vocab, dop_diag *diag, dop_grammar **out_grammar)
{
    dop_buf text = {0};
    json_t *schema = NULL;
    dop_status st;
    if (cli->grammar) {
        if ((st = dop_cli_read(cli->grammar, diag, &text)) == DOP_OK)
            st = dop_grammar_from_gbnf(vocab, cli->grammar, text.data ? text.data : "", text.size, diag, out_grammar);
    } else {
        st = cli->json_schema ? read_schema(cli->json_schema, diag, &schema) : DOP_OK;
        if (st == DOP_OK)
            st = dop_grammar_from_schema(vocab, schema, NULL, NULL, diag, out_grammar);
    }
    json_decref(schema);
    dop_buf_finish(&text);
    return st;
}

static dop_status
pick(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n_tokens, dop_diag *diag,
     uint32_t *out_id)
{
    dop_shape *s = user;
    memcpy(s->logits, logits, vocab * sizeof *logits);
    dop_status st = dop_matcher_apply(s->matcher, s->logits, vocab, diag);
    if (st != DOP_OK)
        return st;
    *out_id = dop_sampler_pick(&s->sampler, s->logits, tokens, n_tokens);
    return dop_matcher_accept(s->matcher, *out_id, diag);
}

dop_status
dop_shape_start(const dop_cli *cli, dop_generation *gen, dop_diag *diag, dop_shape *out_shape)
{
    dop_shape *s = out_shape;
    const dop_plan_model *m = gen->info.plan->model;
    if ((cli->json_schema != NULL) + (cli->grammar != NULL) + cli->json_mode > 1 || cli->ignore_eos ||
        cli->logprobs != DOP_CLI_UNSET)
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "--json-schema, --grammar, --json-mode, --ignore-eos and --logprobs exclude one another");
    s->logits = malloc(m->vocab * sizeof *s->logits);
    if (!s->logits)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    dop_status st = dop_vocab_create(gen->tok, m->vocab, m->end_ids, m->n_end_ids, diag, &s->vocab);
    if (st == DOP_OK && (st = make_grammar(cli, s->vocab, diag, &s->grammar)) == DOP_OK &&
        (st = dop_matcher_create(s->grammar, diag, &s->matcher)) == DOP_OK)
        st = dop_sampler_init(&s->sampler, m->vocab, diag);
    if (st != DOP_OK)
        return st;
    dop_sampler_set(&s->sampler, &gen->sampling);
    dop_sequence_set_sampler(gen->sequence, pick, s);
    return DOP_OK;
}

void
dop_shape_finish(dop_shape *shape)
{
    dop_matcher_destroy(shape->matcher);
    dop_grammar_release(shape->grammar);
    dop_vocab_destroy(shape->vocab);
    dop_sampler_finish(&shape->sampler);
    free(shape->logits);
    memset(shape, 0, sizeof *shape);
}
