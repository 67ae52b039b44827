/* --embed: the prompt as a vector. */
#include "runtime/program/common/cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static dop_status
print_vector(const dop_facts *facts, const float *vector, uint32_t size, dop_pooling pooling, size_t n_tokens,
             dop_diag *diag)
{
    char digest[17];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)facts->digest);
    json_t *values = json_array();
    for (uint32_t i = 0; i < size; i++)
        json_array_append_new(values, json_real((double)vector[i]));
    json_t *root = json_pack("{s:o, s:s, s:I, s:{s:s, s:s}}", "embedding", values, "pooling",
                             pooling == DOP_POOLING_MEAN ? "mean" : "last", "promptTokens", (json_int_t)n_tokens,
                             "plan", "digest", digest, "model", facts->name);
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    dop_status st = dop_cli_print_line(text, diag);
    free(text);
    return st;
}

dop_status
dop_mode_embed(dop_cli *cli, dop_diag *diag)
{
    dop_model *model = NULL;
    dop_sequence *sequence = NULL;
    dop_facts facts;
    dop_text *tokenizer = NULL;
    dop_ids ids = {0};
    dop_buf text = {0};
    float *vector = NULL;
    const dop_pooling pooling = strcmp(cli->embed, "mean") == 0 ? DOP_POOLING_MEAN : DOP_POOLING_LAST;
    dop_status st = dop_cli_open(cli, diag, &model, &sequence);
    if (st != DOP_OK)
        return st;
    dop_model_facts(model, &facts);
    const char *needed = cli->prompt ? "-p" : cli->file ? "-f" : NULL;
    if ((st = dop_cli_text(cli, model, needed, diag, &tokenizer)) != DOP_OK ||
        (st = dop_cli_prompt(cli, tokenizer, diag, &ids, &text)) != DOP_OK)
        goto error;
    uint32_t size = dop_model_embedding_size(model);
    if (ids.failed || !(vector = calloc(size + 1, sizeof *vector))) {
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
        goto error;
    }
    double start = dop_now_ms();
    if ((st = dop_sequence_embed(sequence, ids.data, ids.count, pooling, diag, vector)) != DOP_OK)
        goto error;
    double ms = dop_now_ms() - start;
    st = print_vector(&facts, vector, size, pooling, ids.count, diag);
    if (st == DOP_OK && !cli->quiet)
        fprintf(stderr, "load %.0f ms; %zu tokens, %.1f tok/s; on %s\n", facts.load_ms, ids.count,
                (double)ids.count * 1e3 / ms, facts.device);
error:
    free(vector);
    dop_text_destroy(tokenizer);
    dop_model_close(model);
    dop_buf_finish(&text);
    dop_ids_finish(&ids);
    return st;
}
