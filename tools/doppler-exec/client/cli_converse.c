/* -i: interactive conversation. Reads lines from standard input and writes answers to standard output until the
 * input ends. Lines starting with a slash are commands. Ctrl-C ends an answer. */
#include "base/encoding/utf8.h"
#include "base/os/system.h"
#include "base/program/names.h"
#include "tools/doppler-exec/client/cli_editor.h"
#include "tools/doppler-exec/client/cli_talk.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Number of Ctrl-C since the last line; global because the signal handler sets it. */
static volatile sig_atomic_t interrupts;

/* Counts the first Ctrl-C. The second one ends the program. */
static void
on_interrupt(int number)
{
    interrupts = interrupts + 1;
    signal(number, SIG_DFL);
}

static void
listen_for_interrupts(void)
{
    struct sigaction a = {.sa_handler = on_interrupt}; /* no SA_RESTART: interrupts reading, too */
    interrupts = 0;
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
}

typedef struct converse {
    dop_talk talk;
    dop_editor *editor;
    dop_buf text, line; /* user input; one line of it */
    bool raw;           /* the text is not a command, even if it starts with a slash */
    bool quit;
    bool warned; /* the hint after Ctrl-C on an empty line was shown */
} converse;

/* Reports a failed command. The conversation continues. */
static void
print_command_failure(dop_status st, const dop_diag *diag)
{
    if (st == DOP_OK)
        return;
    fprintf(stderr, "doppler-exec: %s%s", diag->path, diag->path[0] ? ": " : "");
    dop_print_named("", diag->message, "\n");
}

/* ---- commands ---- */

static dop_status
keep_or_restore(converse *c, bool keep, const char *file, dop_diag *diag)
{
    dop_talk *t = &c->talk;
    const char *path = file[0] ? file : t->cli->session, *name = keep ? "save" : "load";
    if (!path)
        return DOP_FAIL(diag, DOP_E_USAGE, "/%s needs a file: /%s FILE, or --session FILE at the start", name, name);
    DOP_RETURN_IF_ERROR(keep ? dop_talk_save(t, path, diag) : dop_talk_load(t, path, diag));
    fprintf(stderr, "doppler-exec: %s %s, %zu turn%s\n", keep ? "kept in" : "restored from", path, t->n_turns,
            t->n_turns == 1 ? "" : "s");
    return DOP_OK;
}

static dop_status
do_save(converse *c, const char *rest, dop_diag *diag)
{
    return keep_or_restore(c, true, rest, diag);
}

static dop_status
do_load(converse *c, const char *rest, dop_diag *diag)
{
    return keep_or_restore(c, false, rest, diag);
}

static dop_status
do_quit(converse *c, const char *rest, dop_diag *diag)
{
    (void)rest, (void)diag;
    c->quit = true;
    return DOP_OK;
}

static dop_status
do_new(converse *c, const char *rest, dop_diag *diag)
{
    (void)rest;
    return dop_talk_reset(&c->talk, diag);
}

static dop_status
do_image(converse *c, const char *rest, dop_diag *diag)
{
    if (!rest[0])
        return DOP_FAIL(diag, DOP_E_USAGE, "/image needs a file: /image FILE");
    return dop_cli_image_add(&c->talk.images, c->talk.gen.model, rest, diag);
}

/* Writes the start of a text to stderr, quoted and on one line. */
static void
print_quoted_start(const char *text)
{
    enum { MOST = 60 };
    const size_t len = strlen(text);
    size_t n = 0, shown = 0;
    while (n < len && shown++ < MOST)
        n += dop_utf8_next(text + n, len - n).len;
    fputc('"', stderr);
    for (size_t i = 0; i < n; i++)
        fputc((unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i], stderr);
    fprintf(stderr, "%s\"", n < len ? "..." : "");
}

static dop_status
do_undo(converse *c, const char *rest, dop_diag *diag)
{
    char *line = NULL;
    (void)rest;
    dop_status st = DOP_OK;
    DOP_TRY(dop_talk_undo(&c->talk, diag, &line));
    fputs("doppler-exec: forgot ", stderr);
    print_quoted_start(line ? line : "");
    fprintf(stderr, " and its answer; %zu turn%s left\n", c->talk.n_turns, c->talk.n_turns == 1 ? " is" : "s are");
error:
    free(line);
    return st;
}

static dop_status
do_retry(converse *c, const char *rest, dop_diag *diag)
{
    (void)rest;
    if (c->talk.n_turns > 0 && c->talk.gen.sampling.temperature <= 0)
        fputs("doppler-exec: the temperature is 0, so the answer is the same: --temp sets another one\n", stderr);
    return dop_talk_retry(&c->talk, diag);
}

static dop_status
do_drop(converse *c, const char *rest, dop_diag *diag)
{
    char *end = NULL;
    size_t dropped = 0;
    if (strcmp(rest, "auto") == 0) {
        c->talk.drops = true;
        fputs("doppler-exec: a full context forgets the oldest turns from now on\n", stderr);
        return DOP_OK;
    }
    const unsigned long n = rest[0] ? strtoul(rest, &end, 10) : 1;
    if (n == 0 || (end && *end) || rest[0] == '-')
        return DOP_FAIL(diag, DOP_E_USAGE, "/drop takes a number of turns, or auto");
    DOP_RETURN_IF_ERROR(dop_talk_drop(&c->talk, n, diag, &dropped));
    if (dropped == 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "there is nothing to forget");
    fprintf(stderr, "doppler-exec: forgot the oldest %zu of %zu turns\n", dropped, dropped + c->talk.n_turns);
    return DOP_OK;
}

static dop_status do_help(converse *c, const char *rest, dop_diag *diag);

static const struct run_command {
    const char *name, *takes, *help;
    bool has_argument;
    dop_status (*run)(converse *c, const char *rest, dop_diag *diag);
} commands[] = {
    {"/help", "", "this text", false, do_help},
    {"/retry", "", "answers the last line once more", false, do_retry},
    {"/undo", "", "forgets the last line and its answer", false, do_undo},
    {"/drop", " [N|auto]", "forgets the oldest turn, or N; auto: as many as needed, when the context is full", true,
     do_drop},
    {"/new", "", "begins anew; also /reset", false, do_new},
    {"/image", " FILE", "a picture for the next line", true, do_image},
    {"/save", " [FILE]", "keeps the conversation in a file (the one of --session)", true, do_save},
    {"/load", " [FILE]", "goes on from a file", true, do_load},
    {"/quit", "", "ends the conversation; also /exit, and Ctrl-D", false, do_quit},
    {"/reset", NULL, NULL, false, do_new},
    {"/exit", NULL, NULL, false, do_quit},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static dop_status
do_help(converse *c, const char *rest, dop_diag *diag)
{
    (void)rest, (void)diag;
    for (size_t i = 0; i < N_COMMANDS && commands[i].help; i++)
        fprintf(stderr, "%s%-*s %s\n", commands[i].name, (int)(16 - strlen(commands[i].name)), commands[i].takes,
                commands[i].help);
    fputs("//TEXT           a line that begins with a slash\n"
          "\"\"\"              begins a text of several lines, which ends with \"\"\"\n",
          stderr);
    if (dop_editor_at_terminal(c->editor))
        fputs("LINE\\            goes on in the next line; so do Alt+Enter, and what is pasted\n"
              "Up, Down, Ctrl-R earlier lines; Tab completes commands\n",
              stderr);
    fputs("Ctrl-C           ends an answer, or gives up a line\n", stderr);
    return DOP_OK;
}

/* Removes shell quoting from a file name: backslashes from Tab completion, and quotes that terminals add around
 * dropped files. */
static void
unquote_file_name(char *text)
{
    const size_t n = strlen(text);
    const bool quoted = n > 1 && (text[0] == '"' || text[0] == '\'') && text[n - 1] == text[0];
    char *to = text, open = 0;
    for (const char *at = text; *at; at++) {
        if (quoted && (open ? *at == open : *at == '"' || *at == '\'')) {
            open = open ? 0 : *at;
            continue;
        }
        at += *at == '\\' && !dop_is_slash('\\') && open != '\'' && at[1] && !isalnum((unsigned char)at[1]);
        *to++ = *at;
    }
    *to = 0;
}

/* Runs the command in a line. */
static void
run_command(converse *c, const char *line, dop_diag *io_fatal, dop_status *io_st)
{
    dop_diag diag = {0};
    const size_t n = strcspn(line, " \t");
    const char *rest = line + n + strspn(line + n, " \t");
    size_t len = strlen(rest), i = 0;
    while (len > 0 && strchr(" \t\r", rest[len - 1]))
        len--;
    char *argument = strndup(rest, len);
    if (argument)
        unquote_file_name(argument);
    while (i < N_COMMANDS && (strlen(commands[i].name) != n || strncmp(line, commands[i].name, n) != 0))
        i++;
    if (!argument)
        *io_st = DOP_NO_MEMORY(io_fatal);
    else if (i == N_COMMANDS)
        fprintf(stderr, "doppler-exec: unknown command %.*s; /help lists them\n", (int)n, line);
    else if (argument[0] && !commands[i].has_argument)
        fprintf(stderr, "doppler-exec: %s takes nothing behind it\n", commands[i].name);
    else
        print_command_failure(commands[i].run(c, argument, &diag), &diag);
    free(argument);
}

/* ---- input ---- */

static bool
ends_with(const dop_buf *b, const char *what)
{
    const size_t n = strlen(what);
    return b->size >= n && memcmp(b->data + b->size - n, what, n) == 0;
}

/* Reads the remaining lines of a multi-line text: up to a line that ends in three quotation marks or, without
 * quotes, one that does not end in a backslash. */
static dop_line
read_more(converse *c, bool quotes)
{
    dop_line kind = DOP_LINE_TEXT;
    while (quotes ? !ends_with(&c->text, "\"\"\"") : ends_with(&c->text, "\\")) {
        c->text.size -= !quotes;
        kind = dop_editor_read(c->editor, ". ", &c->line);
        if (kind != DOP_LINE_TEXT)
            break;
        if (c->text.size > 0 || !quotes)
            dop_buf_puts(&c->text, "\n");
        dop_buf_append(&c->text, c->line.data, c->line.size);
    }
    if (!quotes || kind == DOP_LINE_INTERRUPTED)
        return kind;
    if (kind == DOP_LINE_END)
        fputs("doppler-exec: the input ended before \"\"\"\n", stderr);
    else
        c->text.size -= 3;
    while (c->text.size > 0 && c->text.data[c->text.size - 1] == '\n')
        c->text.size--;
    return DOP_LINE_TEXT;
}

/* Reads the next user input into `text` and adds it to the history. */
static dop_line
read_user_text(converse *c)
{
    const bool typed = dop_editor_at_terminal(c->editor);
    c->text.size = 0;
    c->raw = false;
    listen_for_interrupts();
    dop_line kind = dop_editor_read(c->editor, "> ", &c->line);
    const bool typed_something = c->line.size > 0;
    bool several = false;
    if (kind == DOP_LINE_TEXT) {
        c->raw = c->line.size >= 3 && memcmp(c->line.data, "\"\"\"", 3) == 0;
        const size_t skip = c->raw ? 3 : 0;
        dop_buf_append(&c->text, c->line.data + skip, c->line.size - skip);
        if (c->raw || typed) /* a final backslash has no meaning in lines from a file */
            kind = read_more(c, c->raw);
        several = c->text.size > 0 && memchr(c->text.data, '\n', c->text.size);
    }
    if (kind == DOP_LINE_INTERRUPTED && !typed_something && !c->warned)
        fputs("doppler-exec: Ctrl-D or /quit ends the conversation, and so does Ctrl-C once more\n", stderr);
    else if (kind == DOP_LINE_INTERRUPTED && !typed_something)
        return DOP_LINE_END;
    c->warned = kind == DOP_LINE_INTERRUPTED && !typed_something;
    dop_buf_append(&c->text, "", 1);
    c->text.size -= !c->text.failed;
    if (kind == DOP_LINE_TEXT && !c->text.failed && strlen(c->text.data) == c->text.size) {
        c->line.size = 0;
        dop_buf_puts(&c->line, c->raw && !several && c->text.data[0] == '/' ? "/" : ""); /* not a command */
        dop_buf_append(&c->line, c->text.data, c->text.size + 1);
        if (!c->line.failed)
            dop_editor_remember(c->editor, c->line.data);
    }
    c->raw = c->raw || several;
    return kind;
}

/* Asks the user how to handle a full context. */
static dop_talk_full
ask_about_full_context(void *user, size_t used, uint32_t ctx)
{
    converse *c = user;
    fprintf(stderr,
            "doppler-exec: the context of %u tokens is full (%zu with this line): forget the oldest turns (y), and "
            "from now on too (a), all of them (new), or leave this line out (n)?\n",
            ctx, used);
    for (;;) {
        if (dop_editor_read(c->editor, "y/a/new/n? ", &c->line) != DOP_LINE_TEXT)
            return DOP_TALK_LEAVE;
        dop_buf_append(&c->line, "", 1);
        if (c->line.failed)
            return DOP_TALK_LEAVE;
        static const struct {
            const char *answers;
            dop_talk_full what;
        } known[] = {{" y yes drop ", DOP_TALK_DROP},
                     {" a always ", DOP_TALK_DROP},
                     {" new reset ", DOP_TALK_NEW},
                     {" n no ", DOP_TALK_LEAVE}};
        const char *said = c->line.data + (c->line.data[0] == '/');
        const size_t n = strcspn(said, " ");
        for (size_t i = 0; i < sizeof known / sizeof *known && n > 0; i++) {
            const char *at = memmem(known[i].answers, strlen(known[i].answers), said, n);
            if (!at || at[-1] != ' ' || at[n] != ' ')
                continue;
            c->talk.drops = i == 1 || strcmp(said, "drop auto") == 0;
            return known[i].what;
        }
    }
}

/* Runs the conversation: first the prompt of -p, then the input. */
static dop_status
run_conversation(converse *c, dop_diag *diag)
{
    dop_talk *t = &c->talk;
    dop_line kind;
    dop_status st = DOP_OK;
    listen_for_interrupts();
    if (t->cli->prompt)
        st = dop_talk_answer(t, t->cli->prompt, strlen(t->cli->prompt), diag);
    while (st == DOP_OK && !c->quit && (kind = read_user_text(c)) != DOP_LINE_END) {
        const char *text = c->text.data;
        const size_t n = c->text.size;
        if (c->text.failed)
            return DOP_NO_MEMORY(diag);
        if (kind == DOP_LINE_INTERRUPTED || n == 0 || (t->full && strspn(text, " \t\n") == n))
            continue;
        const bool slash = !c->raw && text[0] == '/';
        if (slash && text[1] != '/') {
            run_command(c, text, diag, &st);
            continue;
        }
        const size_t bad = dop_utf8_check(text, n);
        if (bad != n) { /* a typing or pasting mistake does not end the program */
            fprintf(stderr, "doppler-exec: the line is not valid UTF-8 at byte %zu: it is left out\n", bad + 1);
            continue;
        }
        st = dop_talk_answer(t, text + slash, n - slash, diag);
        if (t->refused && (!t->is_full || t->full)) { /* nor does a line that does not fit */
            if (st == DOP_E_CANCELLED && t->full)
                fputc('\n', stderr); /* after the terminal's ^C */
            print_command_failure(st, diag);
            *diag = (dop_diag){0};
            st = DOP_OK;
        }
    }
    const int error = dop_editor_error(c->editor);
    return st == DOP_OK && error ? DOP_FAIL(diag, DOP_E_IO, "cannot read standard input: %s", strerror(error)) : st;
}

static dop_status
start_converse(converse *c, dop_cli *cli, dop_diag *diag)
{
    const char *names[N_COMMANDS];
    char typed[N_COMMANDS][16];
    for (size_t i = 0; i < N_COMMANDS; i++) {
        snprintf(typed[i], sizeof typed[i], "%s%s", commands[i].name, commands[i].has_argument ? " " : "");
        names[i] = typed[i];
    }
    const dop_editor_options how = {
        .history = cli->history_file, .commands = names, .n_commands = N_COMMANDS, .quiet = cli->quiet};
    dop_status st = DOP_OK;
    DOP_TRY(dop_editor_open(&how, diag, &c->editor));
    if (dop_editor_at_terminal(c->editor)) {
        c->talk.full = ask_about_full_context;
        c->talk.user = c;
    }
    DOP_TRY(run_conversation(c, diag));
error:
    dop_editor_close(c->editor);
    return st;
}

dop_status
dop_mode_converse(dop_cli *cli, dop_diag *diag)
{
    converse c = {.raw = false};
    dop_talk *t = &c.talk;
    if (cli->tokens || cli->tokens_file || cli->file || cli->json || cli->print_ids || cli->logits)
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "-i reads its text from standard input and goes with -p only, not with -f, --tokens, --logits, "
                        "--json or --print-ids");
    dop_status st = dop_talk_open(cli, t, diag);
    t->gen.interrupted = &interrupts;
    if (st == DOP_OK && cli->session && access(cli->session, F_OK) == 0)
        st = dop_talk_load(t, cli->session, diag);
    if (st == DOP_OK)
        st = dop_cli_images_add(&t->images, cli, t->gen.model, diag);
    if (st == DOP_OK) {
        dop_cli_hint(cli, t->gen.model);
        st = start_converse(&c, cli, diag);
    }
    if ((st == DOP_OK || t->is_full) && cli->session) {
        const dop_status kept = dop_talk_save(t, cli->session, st == DOP_OK ? diag : NULL);
        st = st == DOP_OK ? kept : st;
    }
    dop_talk_close(t);
    dop_buf_finish(&c.text);
    dop_buf_finish(&c.line);
    return st;
}
