/* A conversation: its messages, the sequence that holds them, and what is done with both (cli_converse.c). */
#ifndef DOPPLER_RUNTIME_PROGRAM_CLIENT_CLI_TALK_H
#define DOPPLER_RUNTIME_PROGRAM_CLIENT_CLI_TALK_H

#include "runtime/program/client/cli_chat.h"
#include "runtime/program/client/cli_images.h"

typedef struct dop_talk {
    dop_cli *cli;
    dop_cli_generation gen;
    dop_chat *chat;        /* owned; NULL: plain text */
    dop_cli_images images; /* of all messages in order, then those for the next line */
    size_t n_asked;        /* the first ones, which are in messages */
    json_t *messages;      /* owned: user, assistant, user, ... */
    uint32_t *turns; /* owned, [n_turns]: first token of each line of the user in the sequence; 0 with a chat format */
    size_t n_turns, cap_turns;
    bool refused; /* the last line was not taken: it does not fit, or the format refuses it; all else is as before */
} dop_talk;

dop_status dop_talk_open(dop_cli *cli, dop_talk *talk, dop_diag *diag);
void dop_talk_close(dop_talk *talk); /* accepts a zeroed one */

/* Answers a line of the user.  When the context is full, the oldest turns are dropped first, with a note. */
dop_status dop_talk_answer(dop_talk *talk, const char *line, size_t len, dop_diag *diag);
/* Forgets the last line and its answer; false: there is none. */
dop_status dop_talk_undo(dop_talk *talk, dop_diag *diag, bool *out_there_was);
dop_status dop_talk_reset(dop_talk *talk, dop_diag *diag);
/* Saves the conversation to a file, and restores it. */
dop_status dop_talk_save(dop_talk *talk, const char *path, dop_diag *diag);
dop_status dop_talk_load(dop_talk *talk, const char *path, dop_diag *diag);

#endif
