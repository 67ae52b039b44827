/* libdoppler in C: goes on with a text, tries two ways, and keeps the sequence in a file.
 *
 *   cc write.c -o write $(pkg-config --cflags --libs doppler)
 *   ./write demo.plan "ROMEO:" 40 sequence.bin */
#include <doppler/generation.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A sampler of one's own: the largest logit of a token that was not among the last eight. */
static dop_status
no_repeats(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n_tokens, dop_diag *diag,
           uint32_t *out_id)
{
    size_t recent = n_tokens < 8 ? n_tokens : 8;
    uint32_t best = UINT32_MAX;
    (void)user, (void)diag;
    for (uint32_t id = 0; id < vocab; id++) {
        int seen = 0;
        for (size_t i = 0; i < recent; i++)
            seen |= tokens[n_tokens - 1 - i] == id;
        if (!seen && (best == UINT32_MAX || logits[id] > logits[best]))
            best = id;
    }
    *out_id = best;
    return DOP_OK;
}

/* Goes on for up to n tokens, and prints their text as it comes. */
static dop_status
print_tokens(const dop_text *text, dop_sequence *sequence, int n, dop_diag *diag)
{
    dop_generation_options how;
    dop_generation_token token;
    dop_generation *generation = NULL;
    memset(&how, 0, sizeof how);
    memset(&token, 0, sizeof token);
    how.text = text;
    how.max_tokens = (uint32_t)n;
    dop_status st = dop_generation_create(sequence, &how, diag, &generation);
    if (st == DOP_OK) /* what comes before is in the sequence already */
        st = dop_generation_begin(generation, 0, diag);
    while (st == DOP_OK && token.end == DOP_END_NOT_YET)
        if ((st = dop_generation_next(generation, diag, &token)) == DOP_OK)
            fwrite(token.text, 1, token.len, stdout);
    putchar('\n');
    dop_generation_destroy(generation);
    return st;
}

int
main(int argc, char **argv)
{
    dop_diag diag;
    dop_model *model = NULL;
    dop_sequence *sequence = NULL, *other = NULL;
    dop_text *text = NULL;
    uint32_t *ids = NULL;
    size_t n_ids;
    dop_status st;
    memset(&diag, 0, sizeof diag);
    if (argc != 5) {
        fprintf(stderr, "usage: %s PLAN PROMPT TOKENS FILE\n", argv[0]);
        return 2;
    }
    int n = atoi(argv[3]);
    if ((st = dop_model_open(argv[1], NULL, &diag, &model)) != DOP_OK ||
        (st = dop_text_of_model(model, &diag, &text)) != DOP_OK ||
        (st = dop_sequence_create(model, &diag, &sequence)) != DOP_OK ||
        (st = dop_text_encode(text, argv[2], strlen(argv[2]), DOP_TEXT_ADD_SPECIAL, &diag, &ids, &n_ids)) != DOP_OK ||
        (st = dop_sequence_feed(sequence, ids, n_ids, &diag)) != DOP_OK)
        goto error;

    /* The same beginning goes on in two ways, where the plan holds two sequences. */
    dop_facts facts;
    dop_model_facts(model, &facts);
    fprintf(stderr, "libdoppler %s: %s on %s, %u sequences\n", dop_version(), facts.name, facts.device,
            facts.n_sequences);
    if (facts.n_sequences > 1) {
        if ((st = dop_sequence_fork(sequence, &diag, &other)) != DOP_OK)
            goto error;
        dop_sequence_set_sampler(other, no_repeats, NULL);
        printf("without repetitions:%s", argv[2]);
        if ((st = print_tokens(text, other, n, &diag)) != DOP_OK)
            goto error;
    }
    printf("greedy:%s", argv[2]);
    if ((st = print_tokens(text, sequence, n, &diag)) != DOP_OK)
        goto error;

    /* What was saved goes on as if nothing had been between. */
    if ((st = dop_sequence_save(sequence, argv[4], NULL, 0, &diag)) != DOP_OK ||
        (st = dop_sequence_rewind(sequence, 0, &diag)) != DOP_OK ||
        (st = dop_sequence_load(sequence, argv[4], &diag, NULL, NULL)) != DOP_OK)
        goto error;
    (void)dop_sequence_tokens(sequence, &n_ids);
    printf("%zu tokens restored:", n_ids);
    st = print_tokens(text, sequence, n, &diag);
error:
    if (st != DOP_OK)
        fprintf(stderr, "error: %s\n", diag.message);
    dop_free(ids);
    dop_text_destroy(text); /* before the model that it is of */
    dop_model_close(model); /* and its sequences */
    return st == DOP_OK ? 0 : 1;
}
