/* One start of a plan for all that a second driver is asked: what a driver makes of kernels takes most of the time, and it makes them
 * once here.
 *
 *   second PLAN TOKENS COUNT LOGITS IDS [check]
 *
 * Scores the prompt in the file TOKENS, which gives LOGITS (f32 rows), and goes on from there with COUNT greedy tokens, IDS (a line).  With
 * `check` every kernel is then compared with the reference interpreter, as --check does.
 *
 * Exit status 0 when all was done and no kernel missed its bound, else 1. */
#include "tools/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 512 };

typedef struct rows {
    FILE *file;
    uint32_t vocab;
} rows;

static dop_status
write_rows(void *user, size_t first, size_t n_rows, const float *values, dop_diag *diag)
{
    const rows *r = user;
    (void)first;
    return fwrite(values, r->vocab * sizeof *values, n_rows, r->file) == n_rows
               ? DOP_OK
               : DOP_FAIL(diag, DOP_E_IO, "the logits cannot be written");
}

static size_t
read_tokens(const char *path, uint32_t tokens[MAX_TOKENS])
{
    size_t n = 0;
    FILE *f = fopen(path, "r");
    while (f && n < MAX_TOKENS && fscanf(f, "%u", &tokens[n]) == 1)
        n++;
    if (f)
        fclose(f);
    return n;
}

static dop_status
generate(dop_model *m, char **argv, dop_diag *diag)
{
    uint32_t tokens[MAX_TOKENS];
    const size_t n = read_tokens(argv[2], tokens);
    const unsigned long count = strtoul(argv[3], NULL, 10);
    FILE *ids = fopen(argv[5], "w");
    dop_facts facts;
    dop_model_facts(m, &facts);
    rows r = {fopen(argv[4], "wb"), facts.vocab};
    dop_sequence *s = NULL;
    dop_status st = n > 0 && count > 0 && ids && r.file ? dop_sequence_create(m, diag, &s)
                                                        : DOP_FAIL(diag, DOP_E_INPUT, "no prompt, no count or no file");
    if (st == DOP_OK)
        st = dop_sequence_score(s, tokens, n, write_rows, &r, diag);
    for (unsigned long i = 0; i < count && st == DOP_OK; i++) {
        uint32_t id = 0;
        if ((st = dop_sequence_next(s, diag, &id)) == DOP_OK)
            fprintf(ids, i > 0 ? " %u" : "%u", id);
    }
    if (st == DOP_OK)
        fputc('\n', ids);
    dop_sequence_destroy(s);
    if (r.file && fclose(r.file) != 0 && st == DOP_OK)
        st = DOP_FAIL(diag, DOP_E_IO, "the logits cannot be written");
    if (ids && fclose(ids) != 0 && st == DOP_OK)
        st = DOP_FAIL(diag, DOP_E_IO, "the ids cannot be written");
    return st;
}

int
main(int argc, char **argv)
{
    dop_diag diag = {0};
    dop_model *m = NULL;
    const bool check = argc == 7 && strcmp(argv[6], "check") == 0;
    if (argc != 6 && !check) {
        fprintf(stderr, "usage: second PLAN TOKENS COUNT LOGITS IDS [check]\n");
        return 1;
    }
    dop_status st = dop_model_open(argv[1], &(dop_open_options){.steps_ahead = 1}, &diag, &m);
    if (st == DOP_OK)
        st = generate(m, argv, &diag);
    if (st == DOP_OK && check) {
        vkDeviceWaitIdle(m->device.handle); /* steps that nobody waited for */
        st = dop_check_model(m, &diag);
    }
    dop_model_close(m);
    if (st != DOP_OK)
        fprintf(stderr, "second: %s\n", diag.message);
    return st != DOP_OK;
}
