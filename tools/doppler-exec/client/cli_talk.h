/* Conversation: its messages, its sequence, and the operations on both (cli_converse.c). */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_TALK_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_TALK_H

#include "tools/doppler-exec/client/cli_chat.h"
#include "tools/doppler-exec/client/cli_images.h"

/* Action if a line does not fit the context together with the conversation. */
typedef enum dop_talk_full {
    DOP_TALK_LEAVE, /* reject the line */
    DOP_TALK_DROP,  /* drop the oldest turns, as many as needed */
    DOP_TALK_NEW    /* drop all turns */
} dop_talk_full;
/* Called when the context is full. used: tokens of the conversation including the line. */
typedef dop_talk_full dop_talk_full_fn(void *user, size_t used, uint32_t ctx);

typedef struct dop_talk {
    dop_cli *cli;
    dop_cli_generation gen;
    dop_chat *chat;        /* owned; NULL: plain text */
    dop_cli_images images; /* images of all messages in order, then those for the next line */
    size_t n_asked;        /* number of images that belong to messages */
    json_t *messages;      /* owned: user, assistant, user, ... */
    uint32_t *turns;       /* owned, [n_turns]: token index of each user line; 0 with a chat format */
    size_t n_turns, cap_turns;
    bool drops;             /* a full context drops the oldest turns without asking */
    dop_talk_full_fn *full; /* NULL: a line that does not fit is an error */
    void *user;
    bool refused; /* last line rejected (too long, by the format, or interrupted); nothing else changed */
    bool is_full; /* the reason is that earlier turns fill the context */
} dop_talk;

dop_status dop_talk_open(dop_cli *cli, dop_talk *talk, dop_diag *diag);
void dop_talk_close(dop_talk *talk); /* accepts a zeroed struct */

/* Answers a line of the user. Returns DOP_E_INPUT and sets `refused` if the line is rejected. */
dop_status dop_talk_answer(dop_talk *talk, const char *line, size_t len, dop_diag *diag);
/* Answers the last line again with another seed. Returns DOP_E_USAGE if there is none. */
dop_status dop_talk_retry(dop_talk *talk, dop_diag *diag);
/* Removes the last line and its answer. *out_line: that line, freed by the caller; NULL if unknown. Returns
 * DOP_E_USAGE if there is none. */
dop_status dop_talk_undo(dop_talk *talk, dop_diag *diag, char **out_line);
/* Removes the oldest n turns, or all if there are fewer. */
dop_status dop_talk_drop(dop_talk *talk, size_t n, dop_diag *diag, size_t *out_dropped);
dop_status dop_talk_reset(dop_talk *talk, dop_diag *diag);
/* Save the conversation to a file, and restore it. */
dop_status dop_talk_save(dop_talk *talk, const char *path, dop_diag *diag);
dop_status dop_talk_load(dop_talk *talk, const char *path, dop_diag *diag);

#endif
