/* Line editing with libedit. next_char reads the characters for it, because a signal must end or redraw the line
 * that is being typed, whichever thread it reaches. Signal handlers write to a pipe that is polled together with the
 * terminal. */
#include "tools/doppler-exec/client/cli_editor.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

enum {
    LONGEST_KEPT = 1 << 16, /* maximum bytes of a line in the history file */
    LONGEST_FILE = 1 << 26, /* maximum bytes of the history file; larger files are ignored */
    LONGEST_PASTE = 1 << 22 /* maximum characters of a paste; the rest is dropped */
};

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

/* Pipe to which signal handlers write signal numbers; global because handlers have no argument. */
static volatile sig_atomic_t wake_to = -1;

struct dop_editor {
    dop_editor_options options;
    bool terminal;
    /* on a terminal: */
    EditLine *el;
    History *history;
    FILE *out; /* not owned: receives prompts and echo */
    const char *prompt;
    int wake[2];
    mbstate_t state;
    bool pastes;      /* the terminal supports bracketed paste */
    bool began;       /* at least one character of the line was read */
    int ended_by;     /* signal that ended the line; 0: none */
    dop_buf given_up; /* text of the line when the signal arrived */
    struct sigaction before[N_SIGNALS];
    /* without a terminal: */
    char *line;
    size_t cap;
    int error;
};

static void
on_signal(int number)
{
    const int saved = errno;
    const unsigned char byte = (unsigned char)number;
    (void)!write(wake_to, &byte, 1); /* a full pipe wakes the reader anyway */
    errno = saved;
}

static dop_editor *
get_editor(EditLine *el)
{
    void *e = NULL;
    el_get(el, EL_CLIENTDATA, &e);
    return e;
}

static char *
prompt_of(EditLine *el)
{
    return (char *)(uintptr_t)get_editor(el)->prompt;
}

/* Turns bracketed paste of the terminal on or off. */
static void
mark_pastes(dop_editor *e, bool begins)
{
    if (e->pastes)
        fputs(begins ? "\033[?2004h" : "\033[?2004l", e->out);
}

/* Redraws the line from its start after a change of the window's width, which made the terminal rewrap it. */
static void
redraw_line(dop_editor *e)
{
    int rows = 0, columns = 80, at = (int)strlen(e->prompt);
    el_resize(e->el);
    el_get(e->el, EL_GETTC, "co", &columns, NULL);
    const LineInfoW *l = el_wline(e->el);
    for (const wchar_t *c = l->buffer; c < l->cursor; c++) {
        const int width = *c == L'\t' ? 8 - at % 8 : wcwidth(*c);
        const bool breaks = *c == L'\n' || at + width > columns;
        rows += breaks;
        at = breaks ? 0 : at;
        at += *c == L'\n' || width < 0 ? 0 : width;
    }
    fputc('\r', e->out);
    if (e->pastes && rows > 0)
        fprintf(e->out, "\033[%dA", rows);
    if (e->pastes)
        fputs("\033[J", e->out);
    el_set(e->el, EL_REFRESH);
}

/* Handles pending signals. Returns true if one of them ends the line. */
static bool
take_signals(dop_editor *e)
{
    unsigned char number;
    while (read(e->wake[0], &number, 1) == 1) {
        if (number == SIGWINCH) {
            redraw_line(e);
        } else if (number == SIGCONT) { /* the shell may have changed terminal modes */
            el_set(e->el, EL_PREP_TERM, 0);
            el_set(e->el, EL_PREP_TERM, 1);
            mark_pastes(e, true);
            el_set(e->el, EL_REFRESH);
        } else {
            e->ended_by = number;
        }
    }
    return e->ended_by != 0;
}

/* Handles signals that arrived after the last key of a line. They end this line, not the next one. */
static void
take_late_signals(dop_editor *e)
{
    unsigned char number;
    while (read(e->wake[0], &number, 1) == 1)
        if (number != SIGWINCH && number != SIGCONT)
            e->ended_by = number;
}

/* Reads the next character for libedit. Returns 1, or 0 at the end of input, or -1 if a signal ended the line. */
static int
next_char(EditLine *el, wchar_t *out)
{
    dop_editor *e = get_editor(el);
    for (;;) {
        struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = e->wake[0], .events = POLLIN}};
        char c;
        if (!e->ended_by && poll(p, 2, -1) < 0 && errno != EINTR) /* ended_by is set after a signal within a paste */
            return -1;
        if (take_signals(e)) {
            const LineInfo *typed = el_line(el);
            e->given_up.size = 0;
            dop_buf_append(&e->given_up, typed->buffer, (size_t)(typed->lastchar - typed->buffer));
            errno = EINTR;
            return -1;
        }
        if (!(p[0].revents & (POLLIN | POLLHUP | POLLERR)))
            continue;
        const ssize_t n = read(STDIN_FILENO, &c, 1);
        if (n <= 0 && (n == 0 || (errno != EINTR && errno != EAGAIN)))
            return 0; /* a closed terminal is the end of input, too */
        if (n <= 0)
            continue;
        const bool first = !e->began;
        e->began = true;
        if (first && c == 0) { /* Ctrl-D typed before, converted by the terminal */
            *out = 4;
            return 1;
        }
        const size_t used = mbrtowc(out, &c, 1, &e->state);
        if (used == (size_t)-2)
            continue; /* incomplete character */
        if (used == (size_t)-1) {
            memset(&e->state, 0, sizeof e->state);
            *out = 0xfffd;
        }
        return 1;
    }
}

/* Inserts pasted text, which the terminal sends between ESC [ 200 ~ and ESC [ 201 ~. */
static unsigned char
insert_paste(EditLine *el, int key)
{
    static const wchar_t end[] = L"\033[201~";
    enum { N_END = sizeof end / sizeof *end - 1 };
    size_t n = 0, cap = 0;
    wchar_t *text = NULL, c;
    wchar_t before = 0;
    bool lost = false;
    (void)key;
    while (next_char(el, &c) == 1) {
        /* Drops the second character of CR LF. libedit makes the terminal swap CR and LF. */
        const bool second = (c == L'\r' && before == L'\n') || (c == L'\n' && before == L'\r');
        before = second ? 0 : c;
        if (second || c == 0)
            continue;
        if (n + 1 >= cap && !lost) {
            const size_t more = cap ? 2 * cap : 4096;
            wchar_t *grown = more <= LONGEST_PASTE ? realloc(text, more * sizeof *grown) : NULL;
            text = grown ? grown : text;
            cap = grown ? more : cap;
        }
        if (n + 1 >= cap) { /* keeps room for the end mark */
            lost = true;
            if (n < N_END)
                continue;
            memmove(text + n - N_END, text + n - N_END + 1, (N_END - 1) * sizeof *text);
            n--;
        }
        text[n++] = c == L'\r' ? L'\n' : c;
        if (n >= N_END && wmemcmp(text + n - N_END, end, N_END) == 0) {
            n -= N_END;
            break;
        }
    }
    while (n > 0 && text[n - 1] == L'\n') /* a final newline would prevent editing the line */
        n--;
    for (size_t i = 0; i < n; i++)
        if (text[i] == 0x1b || text[i] == 0x7f) /* the terminal would interpret these */
            text[i] = L' ';
    if (text)
        text[n] = 0;
    const bool bad = n > 0 && el_winsertstr(el, text) != 0;
    free(text);
    return bad || lost ? CC_REFRESH_BEEP : CC_REFRESH;
}

static unsigned char
line_break(EditLine *el, int key)
{
    (void)key;
    return el_winsertstr(el, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/* Completes a command name or its file name; inserts a Tab elsewhere. */
static unsigned char
complete_word(EditLine *el, int key)
{
    const dop_editor *e = get_editor(el);
    const LineInfo *l = el_line(el);
    const size_t n = (size_t)(l->cursor - l->buffer);
    const char *fits = NULL;
    size_t same = 0;
    if (n == 0 || l->buffer[0] != '/')
        return el_winsertstr(el, L"\t") == 0 ? CC_REFRESH : CC_ERROR;
    if (memchr(l->buffer, ' ', n))
        return _el_fn_complete(el, key);
    for (size_t i = 0; i < e->options.n_commands; i++) {
        const char *name = e->options.commands[i];
        if (strncmp(name, l->buffer, n) != 0)
            continue;
        size_t k = fits ? 0 : strlen(name);
        while (fits && k < same && name[k] == fits[k])
            k++;
        same = k;
        fits = fits ? fits : name;
    }
    if (!fits || same <= n)
        return CC_REFRESH_BEEP;
    char *rest = strndup(fits + n, same - n);
    const bool bad = !rest || el_insertstr(el, rest) != 0;
    free(rest);
    return bad ? CC_ERROR : CC_REFRESH;
}

/* Creates a history with the file's lines. Returns NULL if memory is exhausted. */
static History *
load_history(const char *path)
{
    HistEvent event;
    struct stat s;
    History *h = history_init();
    if (!h)
        return NULL;
    history(h, &event, H_SETSIZE, DOP_HISTORY_LINES);
    history(h, &event, H_SETUNIQUE, 1);
    if (path && stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size < LONGEST_FILE)
        history(h, &event, H_LOAD, path);
    return h;
}

/* Creates the parent folders of a file with mode 0700, as XDG requires. */
static void
make_history_folders(const char *path)
{
    char *p = strdup(path);
    for (char *slash = p ? strchr(p + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(p, 0700);
        *slash = '/';
    }
    free(p);
}

void
dop_editor_remember(dop_editor *editor, const char *line)
{
    dop_editor *e = editor;
    HistEvent event;
    dop_out_file file;
    struct stat s;
    const char *path = e->options.history;
    if (!e->terminal || !line[0])
        return;
    history(e->history, &event, H_ENTER, line);
    if (!path || strlen(line) > LONGEST_KEPT ||
        (stat(path, &s) == 0 && S_ISFIFO(s.st_mode))) /* not a pipe, which has no reader */
        return;
    make_history_folders(path);
    History *all = load_history(path); /* includes lines of other processes */
    if (!all)
        return;
    history(all, &event, H_ENTER, line);
    if (dop_out_file_open(path, NULL, &file) == DOP_OK) {
        dop_out_file_keep_private(&file);
        (void)dop_out_file_close(&file, history(all, &event, H_SAVE_FP, file.f) >= 0, NULL);
    }
    history_end(all);
}

static void
bind_keys(EditLine *el)
{
    static const struct {
        const wchar_t *name, *does; /* wide, because libedit leaks its copies of narrow strings */
        unsigned char (*fn)(EditLine *, int);
        const wchar_t *keys[2];
    } own[] = {{L"doppler-paste", L"insert what is pasted", insert_paste, {L"\\e[200~", NULL}},
               {L"doppler-line-break", L"begin another line of the same text", line_break, {L"\\e\\r", L"\\e\\n"}},
               {L"doppler-complete", L"complete a command", complete_word, {L"\\t", NULL}}};
    static const char *const more[][2] = {
        {"^R", "em-inc-search-prev"},      {"\\e[1;5D", "ed-prev-word"}, {"\\e[1;5C", "em-next-word"},
        {"\\e[3~", "ed-delete-next-char"}, {"\\e[H", "ed-move-to-beg"},  {"\\e[F", "ed-move-to-end"},
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        el_wset(el, EL_ADDFN, own[i].name, own[i].does, own[i].fn);
        for (size_t k = 0; k < 2 && own[i].keys[k]; k++)
            el_wset(el, EL_BIND, own[i].keys[k], own[i].name, NULL);
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        el_set(el, EL_BIND, more[i][0], more[i][1], NULL);
}

static dop_status
open_terminal(dop_editor *e, dop_diag *diag)
{
    char *clears = NULL;
    setlocale(LC_CTYPE, "C.UTF-8"); /* texts are UTF-8 in every locale */
    if (pipe2(e->wake, O_CLOEXEC | O_NONBLOCK) != 0)
        return DOP_FAIL(diag, DOP_E_IO, "cannot make a pipe: %s", strerror(errno));
    e->history = load_history(e->options.history);
    e->el = el_init("doppler-exec", stdin, e->out, e->out);
    if (!e->history || !e->el)
        return DOP_NO_MEMORY(diag);
    el_set(e->el, EL_CLIENTDATA, e);
    el_set(e->el, EL_PROMPT, prompt_of);
    el_set(e->el, EL_EDITOR, "emacs");
    el_set(e->el, EL_HIST, history, e->history);
    el_set(e->el, EL_GETCFN, next_char);
    bind_keys(e->el);
    (void)el_source(e->el, NULL); /* ~/.editrc: the user's libedit settings */
    el_get(e->el, EL_GETTC, "ce", &clears);
    e->pastes = clears && clears[0]; /* a terminal that cannot clear a line is too simple for this */
    wake_to = e->wake[1];
    return DOP_OK;
}

dop_status
dop_editor_open(const dop_editor_options *options, dop_diag *diag, dop_editor **out_editor)
{
    dop_editor *e = *out_editor = calloc(1, sizeof *e);
    dop_status st = DOP_OK;
    if (!e)
        return DOP_NO_MEMORY(diag);
    e->options = *options;
    e->wake[0] = e->wake[1] = -1;
    e->out = isatty(STDERR_FILENO) ? stderr : stdout;
    e->terminal = isatty(STDIN_FILENO) && isatty(fileno(e->out));
    if (e->terminal)
        st = open_terminal(e, diag);
    if (st != DOP_OK) {
        dop_editor_close(e);
        *out_editor = NULL;
    }
    return st;
}

void
dop_editor_close(dop_editor *editor)
{
    dop_editor *e = editor;
    if (!e)
        return;
    wake_to = -1;
    if (e->el)
        el_end(e->el);
    if (e->history)
        history_end(e->history);
    for (int i = 0; i < 2; i++)
        if (e->wake[i] >= 0)
            close(e->wake[i]);
    dop_buf_finish(&e->given_up);
    free(e->line);
    free(e);
}

bool
dop_editor_at_terminal(const dop_editor *editor)
{
    return editor->terminal;
}

int
dop_editor_error(const dop_editor *editor)
{
    return editor->error;
}

static dop_line
read_plain(dop_editor *e, dop_buf *out)
{
    ssize_t n = getline(&e->line, &e->cap, stdin);
    if (n < 0) {
        e->error = ferror(stdin) && errno != EINTR ? errno : 0;
        return DOP_LINE_END;
    }
    n -= n > 0 && e->line[n - 1] == '\n';
    n -= n > 0 && e->line[n - 1] == '\r'; /* CR of a DOS line end */
    dop_buf_append(out, e->line, (size_t)n);
    return DOP_LINE_TEXT;
}

static void
switch_signal_handlers(dop_editor *e, bool begins)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&a.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++)
        sigaction(signals[i], begins ? &a : &e->before[i], begins ? &e->before[i] : NULL);
    mark_pastes(e, begins);
    fflush(e->out);
}

dop_line
dop_editor_read(dop_editor *editor, const char *prompt, dop_buf *out_text)
{
    dop_editor *e = editor;
    int n = 0;
    out_text->size = 0;
    if (!e->terminal)
        return read_plain(e, out_text);
    e->prompt = e->options.quiet ? "" : prompt;
    e->ended_by = 0;
    e->began = false;
    e->given_up.size = 0;
    memset(&e->state, 0, sizeof e->state);
    /* libedit does so only when it reads a key, after the prompt; earlier keys would be lost. */
    el_set(e->el, EL_PREP_TERM, 1);
    switch_signal_handlers(e, true);
    el_resize(e->el); /* the size may have changed during the answer */
    const char *line = el_gets(e->el, &n);
    switch_signal_handlers(e, false);
    take_late_signals(e);
    if (e->ended_by == SIGINT)
        fputs("^C", e->out);
    if (!line || e->ended_by)
        fputc('\n', e->out);
    fflush(e->out);
    if (e->ended_by && e->ended_by != SIGINT)
        raise(e->ended_by); /* after the terminal modes are restored */
    if (e->ended_by && !line)
        dop_buf_append(out_text, e->given_up.data, e->given_up.size);
    else if (!line || n <= 0)
        return DOP_LINE_END;
    else
        dop_buf_append(out_text, line, (size_t)n - (line[n - 1] == '\n'));
    return e->ended_by ? DOP_LINE_INTERRUPTED : DOP_LINE_TEXT;
}
