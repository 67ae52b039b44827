/* A conversation: its messages, the sequence that holds them, and what is done with both (cli_converse.c). */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_TALK_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_TALK_H

#include "tools/doppler-exec/client/cli_chat.h"
#include "tools/doppler-exec/client/cli_images.h"

/* What to do with a line that no longer fits the context beside the conversation. */
typedef enum dop_talk_full {
    DOP_TALK_LEAVE, /* the line is not taken */
    DOP_TALK_DROP,  /* the oldest turns are forgotten, as many as needed */
    DOP_TALK_NEW    /* all of them are */
} dop_talk_full;
/* Asked when the context is full; used: tokens of the conversation with the line. */
typedef dop_talk_full dop_talk_full_fn(void *user, size_t used, uint32_t ctx);

typedef struct dop_talk {
    dop_cli *cli;
    dop_cli_generation gen;
    dop_chat *chat;        /* owned; NULL: plain text */
    dop_cli_images images; /* of all messages in order, then those for the next line */
    size_t n_asked;        /* the first ones, which are in messages */
    json_t *messages;      /* owned: user, assistant, user, ... */
    uint32_t *turns; /* owned, [n_turns]: first token of each line of the user in the sequence; 0 with a chat format */
    size_t n_turns, cap_turns;
    bool drops;             /* a full context drops the oldest turns without asking */
    dop_talk_full_fn *full; /* NULL: a line that does not fit is an error */
    void *user;
    bool
        refused; /* the last line was not taken: it does not fit, the format refuses it, or it was interrupted; all else is
                   * as before */
    bool is_full; /* and that is because the context is full of earlier turns */
} dop_talk;

dop_status dop_talk_open(dop_cli *cli, dop_talk *talk, dop_diag *diag);
void dop_talk_close(dop_talk *talk); /* accepts a zeroed one */

/* Answers a line of the user.  DOP_E_INPUT with `refused`: it is not taken. */
dop_status dop_talk_answer(dop_talk *talk, const char *line, size_t len, dop_diag *diag);
/* Answers the last line once more, with other draws.  DOP_E_USAGE: there is none. */
dop_status dop_talk_retry(dop_talk *talk, dop_diag *diag);
/* Forgets the last line and its answer; *out_line: that line, which the caller frees; NULL: not known.  DOP_E_USAGE: there is none. */
dop_status dop_talk_undo(dop_talk *talk, dop_diag *diag, char **out_line);
/* Forgets the oldest n turns, or as many as there are. */
dop_status dop_talk_drop(dop_talk *talk, size_t n, dop_diag *diag, size_t *out_dropped);
dop_status dop_talk_reset(dop_talk *talk, dop_diag *diag);
/* Saves the conversation to a file, and restores it. */
dop_status dop_talk_save(dop_talk *talk, const char *path, dop_diag *diag);
dop_status dop_talk_load(dop_talk *talk, const char *path, dop_diag *diag);

#endif
