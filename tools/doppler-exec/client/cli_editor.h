/* Lines of standard input.  At a terminal they are edited (libedit), and earlier ones are found again: the history, which a file
 * keeps.  Elsewhere they are read as they are. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_EDITOR_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_EDITOR_H

#include "base/base.h"

typedef struct dop_editor dop_editor;

typedef enum dop_line {
    DOP_LINE_TEXT,        /* a line */
    DOP_LINE_INTERRUPTED, /* Ctrl-C at a terminal: the line is given up; its text is what was typed */
    DOP_LINE_END          /* there are no more */
} dop_line;

enum { DOP_HISTORY_LINES = 1000 }; /* what a file of lines holds */

/* Words that the Tab key completes: commands, sorted or not, each followed by a blank where it takes a file.  The list lives as long
 * as the editor. */
typedef struct dop_editor_options {
    const char *history;         /* file; NULL: lines are forgotten at the end */
    const char *const *commands; /* [n_commands] */
    size_t n_commands;
    bool quiet; /* no prompts */
} dop_editor_options;

/* One editor may be open at a time, because Ctrl-C, the size of the window and the end of the process reach it as signals. */
dop_status dop_editor_open(const dop_editor_options *options, dop_diag *diag, dop_editor **out_editor);
void dop_editor_close(dop_editor *editor); /* accepts NULL */
/* Does a person type the lines? */
bool dop_editor_at_terminal(const dop_editor *editor);
/* Reads a line, without its end.  It may contain line breaks: those of a paste, and those of Alt+Enter.  *out_text is 0-terminated
 * unless empty. */
dop_line dop_editor_read(dop_editor *editor, const char *prompt, dop_buf *out_text);
/* errno of what ended the input; 0: its end, or Ctrl-C. */
int dop_editor_error(const dop_editor *editor);
/* Puts a line into the history, and into its file.  What does not work is no error: the history is a convenience. */
void dop_editor_remember(dop_editor *editor, const char *line);

#endif
