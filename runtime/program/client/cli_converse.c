/* -i: lines from standard input, answers to standard output, until the input ends.  A line that begins with a slash is a
 * command.  Ctrl-C ends an answer, and the program where there is none. */
#include "base/encoding/utf8.h"
#include "runtime/program/client/cli_talk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Number of Ctrl-C since the last line; a variable of the file, because a signal handler has nowhere else to note it. */
static volatile sig_atomic_t interrupts;

/* Only the first Ctrl-C is caught: a second one ends the program, as it ends others. */
static void
on_interrupt(int number)
{
    interrupts = interrupts + 1;
    signal(number, SIG_DFL);
}

static void
listen_for_interrupts(void)
{
    struct sigaction a = {.sa_handler = on_interrupt}; /* without SA_RESTART: reading a line ends too */
    interrupts = 0;
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
}

static const char help[] = "/help          this text\n"
                           "/quit          ends the conversation\n"
                           "/save [FILE]   keeps it in a file (the one of --session)\n"
                           "/load [FILE]   goes on from a file\n"
                           "/reset         begins anew\n"
                           "/image FILE    a picture for the next line\n"
                           "/undo          forgets the last line and its answer\n"
                           "//TEXT         a line that begins with a slash\n"
                           "Ctrl-C ends an answer; twice, or where there is none, the program\n";

/* Reports a command that failed; the conversation goes on. */
static void
say_failure(dop_status st, const dop_diag *diag)
{
    if (st != DOP_OK)
        fprintf(stderr, "doppler-exec: %s%s%s\n", diag->path, diag->path[0] ? ": " : "", diag->message);
}

static void
keep_or_restore(dop_talk *t, bool keep, const char *file)
{
    dop_diag diag = {0};
    const char *path = file[0] ? file : t->cli->session;
    if (!path) {
        fprintf(stderr, "doppler-exec: %s needs a file: /%s FILE, or --session FILE at the start\n",
                keep ? "/save" : "/load", keep ? "save" : "load");
        return;
    }
    dop_status st = keep ? dop_talk_save(t, path, &diag) : dop_talk_load(t, path, &diag);
    say_failure(st, &diag);
    if (st == DOP_OK)
        fprintf(stderr, "doppler-exec: %s %s, %zu turn%s\n", keep ? "kept in" : "restored from", path, t->n_turns,
                t->n_turns == 1 ? "" : "s");
}

/* Is the line a command, and does it end the conversation? */
static bool
command(dop_talk *t, const char *line, bool *out_quit)
{
    dop_diag diag = {0};
    bool there_was = true;
    dop_status st = DOP_OK;
    if (line[0] != '/' || line[1] == '/')
        return false;
    size_t n = strcspn(line, " ");
    const char *rest = line + n + strspn(line + n, " ");
    if (strcmp(line, "/quit") == 0)
        *out_quit = true;
    else if (strcmp(line, "/help") == 0)
        fputs(help, stderr);
    else if (n == 5 && strncmp(line, "/save", n) == 0)
        keep_or_restore(t, true, rest);
    else if (n == 5 && strncmp(line, "/load", n) == 0)
        keep_or_restore(t, false, rest);
    else if (n == 6 && strncmp(line, "/image", n) == 0 && rest[0])
        st = dop_cli_image_add(&t->images, t->gen.model, rest, &diag);
    else if (strcmp(line, "/reset") == 0)
        st = dop_talk_reset(t, &diag);
    else if (strcmp(line, "/undo") == 0)
        st = dop_talk_undo(t, &diag, &there_was);
    else
        fprintf(stderr, "doppler-exec: unknown command %.*s; /help lists them\n", (int)n, line);
    if (!there_was)
        fprintf(stderr, "doppler-exec: there is nothing to undo\n");
    say_failure(st, &diag);
    return true;
}

/* Reads the next line, without its line end; NULL: there are no more.  *io_line is owned by the caller. */
static char *
read_line(char **io_line, size_t *io_cap, bool prompts, size_t *out_len)
{
    listen_for_interrupts();
    if (prompts)
        fputs("> ", stderr);
    errno = 0;
    ssize_t n = getline(io_line, io_cap, stdin);
    if (n < 0) {
        if (prompts)
            fputc('\n', stderr);
        return NULL;
    }
    if (n > 0 && (*io_line)[n - 1] == '\n')
        (*io_line)[--n] = 0;
    *out_len = (size_t)n;
    return *io_line;
}

/* The conversation: the prompt of -p, then line after line of the input. */
static dop_status
talk_on(dop_talk *t, dop_diag *diag)
{
    char *buffer = NULL, *line;
    size_t cap = 0, n;
    bool quit = false, prompts = isatty(STDIN_FILENO) && !t->cli->quiet;
    dop_status st = DOP_OK;
    listen_for_interrupts();
    if (t->cli->prompt)
        st = dop_talk_answer(t, t->cli->prompt, strlen(t->cli->prompt), diag);
    while (st == DOP_OK && !quit && (line = read_line(&buffer, &cap, prompts, &n))) {
        if (n == 0 || command(t, line, &quit))
            continue;
        bool slash = line[0] == '/';
        size_t bad = dop_utf8_check(line, n);
        if (bad != n) { /* a typing or pasting mistake is no reason to end */
            fprintf(stderr, "doppler-exec: the line is not valid UTF-8 at byte %zu: it is left out\n", bad + 1);
            continue;
        }
        st = dop_talk_answer(t, line + slash, n - slash, diag);
        if (t->refused) { /* nor is a line that does not fit */
            say_failure(st, diag);
            *diag = (dop_diag){0};
            st = DOP_OK;
        }
    }
    free(buffer);
    return st;
}

dop_status
dop_mode_converse(dop_cli *cli, dop_diag *diag)
{
    dop_talk t = {.cli = NULL};
    if (cli->tokens || cli->tokens_file || cli->file || cli->json || cli->print_ids || cli->logits)
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "-i reads its text from standard input and goes with -p only, not with -f, --tokens, --logits, "
                        "--json or --print-ids");
    dop_status st = dop_talk_open(cli, &t, diag);
    t.gen.interrupted = &interrupts;
    if (st == DOP_OK && cli->session && access(cli->session, F_OK) == 0)
        st = dop_talk_load(&t, cli->session, diag);
    if (st == DOP_OK)
        st = dop_cli_images_add(&t.images, cli, t.gen.model, diag);
    if (st == DOP_OK) {
        dop_cli_hint(cli, t.gen.model);
        st = talk_on(&t, diag);
    }
    if (st == DOP_OK && cli->session)
        st = dop_talk_save(&t, cli->session, diag);
    dop_talk_close(&t);
    return st;
}
