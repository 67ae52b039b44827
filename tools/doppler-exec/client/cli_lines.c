/* Line input in a build without libedit (DOPPLER_EDIT=OFF): a terminal's own line editing, no history. */
#include "tools/doppler-exec/client/cli_editor.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct dop_editor {
    bool terminal, quiet;
    FILE *out; /* not owned: receives prompts */
    char *line;
    size_t cap;
    int error;
};

dop_status
dop_editor_open(const dop_editor_options *options, dop_diag *diag, dop_editor **out_editor)
{
    dop_editor *e = *out_editor = calloc(1, sizeof *e);
    if (!e)
        return DOP_NO_MEMORY(diag);
    e->quiet = options->quiet;
    e->out = isatty(STDERR_FILENO) ? stderr : stdout;
    e->terminal = isatty(STDIN_FILENO) && isatty(fileno(e->out));
    return DOP_OK;
}

void
dop_editor_close(dop_editor *editor)
{
    if (editor)
        free(editor->line);
    free(editor);
}

bool
dop_editor_at_terminal(const dop_editor *editor)
{
    return editor->terminal;
}

dop_line
dop_editor_read(dop_editor *editor, const char *prompt, dop_buf *out_text)
{
    out_text->size = 0;
    if (editor->terminal && !editor->quiet) {
        fputs(prompt, editor->out);
        fflush(editor->out);
    }
    ssize_t n = getline(&editor->line, &editor->cap, stdin);
    if (n < 0) {
        editor->error = ferror(stdin) && errno != EINTR ? errno : 0;
        return DOP_LINE_END;
    }
    n -= n > 0 && editor->line[n - 1] == '\n';
    n -= n > 0 && editor->line[n - 1] == '\r'; /* CR of a DOS line end */
    dop_buf_append(out_text, editor->line, (size_t)n);
    return DOP_LINE_TEXT;
}

int
dop_editor_error(const dop_editor *editor)
{
    return editor->error;
}

void
dop_editor_remember(dop_editor *editor, const char *line)
{
    (void)editor;
    (void)line;
}
