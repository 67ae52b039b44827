/* Shared by the files of sequences (tests/tools/sequences.c). */
#ifndef DOPPLER_TESTS_TOOLS_SEQUENCES_STATE_H
#define DOPPLER_TESTS_TOOLS_SEQUENCES_STATE_H

#include <doppler/doppler.h>

enum { TEXTS = 5, LENGTH = 40, LONGEST = 240, MAX = 64, CHECKPOINTS = 3 };

typedef struct state {
    dop_model *m;
    dop_diag diag;
    dop_facts facts;
    dop_ordering ordering; /* of the steps, not of those by which they are judged */
    uint32_t length;       /* of the texts */
    uint32_t text[TEXTS][LONGEST];
    float *want[TEXTS]; /* [length][vocab] */
    struct {
        dop_sequence *s; /* NULL: none */
        uint32_t text, n;
        bool restored;  /* from a checkpoint, so that the states of some of its tokens may still have to be computed */
        uint32_t *mask; /* [(vocab + 31) / 32] that picks are among; NULL: all ids */
    } of[MAX];
    char file[MAX][512]; /* what was saved by number, and of which text: */
    uint32_t file_text[MAX], file_n[MAX], n_files;
    uint64_t checkpoint[CHECKPOINTS]; /* handles, of which text and how much of it: */
    uint32_t checkpoint_text[CHECKPOINTS], checkpoint_n[CHECKPOINTS];
    uint64_t held, restored;
    uint64_t x;
    double bound, worst;
    uint64_t rows, full;
    bool shares; /* prefixes are found again */
} state;

/* Ends the program where something is not so. */
void ok(state *t, dop_status st, const char *what);
void must(bool good, const char *what);
/* Were there no pages?  Anything but that and success is a failure. */
bool is_full(state *t, dop_status st, const char *what);
/* A number below n. */
uint32_t pick(state *t, uint32_t n);
/* The tokens of sequence i are the beginning of its text. */
void check_tokens(state *t, uint32_t i);

/* converse.c: some of the sequences go on with their own picks for a while, and then return to where they were. */
void talk_in_steps(state *t);

#endif
