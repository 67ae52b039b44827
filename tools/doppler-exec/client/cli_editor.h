/* Line input from standard input. On a terminal, with editing (libedit) and a history that a file keeps; otherwise
 * plain lines. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_EDITOR_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_EDITOR_H

#include "base/base.h"

typedef struct dop_editor dop_editor;

typedef enum dop_line {
    DOP_LINE_TEXT,        /* a complete line */
    DOP_LINE_INTERRUPTED, /* Ctrl-C on a terminal: abandoned; the text is what was typed */
    DOP_LINE_END          /* end of the input */
} dop_line;

enum { DOP_HISTORY_LINES = 1000 }; /* maximum lines in the history file */

/* Settings of the editor. The Tab key completes `commands`; a trailing blank marks one that accepts a file. The
 * array must outlive the editor. */
typedef struct dop_editor_options {
    const char *history;         /* history file; NULL: the history is not saved */
    const char *const *commands; /* [n_commands] */
    size_t n_commands;
    bool quiet; /* true: no prompts */
} dop_editor_options;

/* Opens the editor. Only one may be open at a time, because signal handlers (Ctrl-C, window size, termination) use
 * global state. */
dop_status dop_editor_open(const dop_editor_options *options, dop_diag *diag, dop_editor **out_editor);
void dop_editor_close(dop_editor *editor); /* accepts NULL */
/* True if the lines are typed on a terminal. */
bool dop_editor_at_terminal(const dop_editor *editor);
/* Reads a line without its newline. It contains line breaks if they were pasted or typed with Alt+Enter. *out_text
 * is NUL-terminated unless empty. */
dop_line dop_editor_read(dop_editor *editor, const char *prompt, dop_buf *out_text);
/* Returns the errno that ended the input, or 0 after its end or Ctrl-C. */
int dop_editor_error(const dop_editor *editor);
/* Adds a line to the history and its file. Ignores failures, as the history is a convenience. */
void dop_editor_remember(dop_editor *editor, const char *line);

#endif
