/* --serve: the model behind HTTP, until a signal ends it. */
#include "runtime/library/text_internal.h"
#include "runtime/model/info.h"
#include "runtime/plan/prompts.h"
#include "runtime/program/client/cli_chat.h"
#include "runtime/program/common/text_file.h"
#include "runtime/program/systemd.h"
#include "runtime/serve/api/api_form.h"
#include "runtime/serve/http.h"
#include "runtime/text/grammar/grammar.h"

#include <doppler/images.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct served {
    dop_model *model;
    dop_model_info info;
    dop_text *text; /* tokenizer of --tokenizer, or the plan's */
    json_t *prompts;
    const dop_tokenizer *tok;
    dop_chat *chat;
    struct dop_tool_form *form;
    dop_vocab *vocab;
    dop_engine *engine;
    dop_http_keys keys;
    dop_api api;
    dop_http *http;
} served;

static dop_status
read_keys(const char *path, dop_diag *diag, dop_http_keys *out_keys)
{
    dop_buf text = {0};
    dop_status st = dop_cli_read(path, diag, &text);
    if (st == DOP_OK)
        st = dop_http_keys_read(path, text.data ? text.data : "", diag, out_keys);
    dop_buf_finish(&text);
    return st;
}

/* What reading a request may cost.  A step of a budget is some 10 ns: requests that exceed its steps are refused as such, before the
 * time is up, where the machine is not busy with others. */
static dop_api_limits
limits_of(const dop_cli *cli)
{
    const double steps_per_s = 4e7;
    return (dop_api_limits){.steps = (uint64_t)(cli->serve_prepare * steps_per_s),
                            .bytes = (uint64_t)cli->serve_memory << 20,
                            .seconds = cli->serve_prepare};
}

/* Checks --prefix and --cors.  A prefix is "/NAME[/NAME...]", of characters that addresses need no escapes for. */
static dop_status
check_addresses(const dop_cli *cli, dop_diag *diag)
{
    const char *p = cli->prefix;
    static const char plain[] = "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if (p &&
        (p[0] != '/' || !p[1] || strlen(p) > 200 || p[strlen(p) - 1] == '/' || strstr(p, "//") || p[strspn(p, plain)]))
        return DOP_FAIL(diag, DOP_E_USAGE, "--prefix takes a path as /llm, not \"%s\"", p);
    for (size_t i = 0; i < cli->cors.count; i++) {
        const char *o = cli->cors.items[i], *name = strstr(o, "://");
        if (strcmp(o, "*") != 0 && (!name || name == o || !name[3] || strpbrk(name + 3, "/ \t")))
            return DOP_FAIL(diag, DOP_E_USAGE, "--cors takes an origin as https://chat.example.org, or *, not \"%s\"",
                            o);
    }
    return DOP_OK;
}

static dop_systemd
systemd_of(const dop_cli *cli)
{
    return (dop_systemd){cli->notify_socket, cli->listen_pid, cli->listen_fds};
}

static dop_status
open_all(dop_cli *cli, served *s, dop_diag *diag)
{
    const char *path = NULL;
    dop_open_options open;
    dop_status st = check_addresses(cli, diag);
    if (st == DOP_OK)
        st = dop_cli_plan(cli, diag, &path);
    if (st != DOP_OK)
        return st;
    dop_cli_open_options(cli, &open);
    if (cli->api_key_file && (st = read_keys(cli->api_key_file, diag, &s->keys)) != DOP_OK)
        return st;
    if ((st = dop_model_open(path, &open, diag, &s->model)) != DOP_OK)
        return st;
    dop_model_describe(s->model, &s->info);
    s->api = (dop_api){.max_tokens = cli->serve_tokens,
                       .max_choices = DOP_MAX_ANSWERS,
                       .max_inputs = DOP_MAX_INPUTS,
                       .max_answer = (uint64_t)cli->serve_answer << 10,
                       .time_limit_s = cli->serve_time,
                       .limits = limits_of(cli),
                       .created = (int64_t)time(NULL)};
    dop_model_facts(s->model, &s->api.facts);
    if (dop_model_program(s->model, 0, &s->api.program) && s->api.program.merge) /* it makes no vectors */
        s->api.program = (dop_program_facts){0};
    s->api.prompts = s->prompts = dop_prompts_of(s->info.plan);
    st = cli->tokenizer ? dop_text_of_file(cli->tokenizer, diag, &s->text)
                        : dop_cli_text(cli, s->model, "--serve", diag, &s->text);
    s->tok = s->text ? dop_text_tokenizer(s->text) : NULL;
    if (st == DOP_OK && !cli->quiet && dop_tokenizer_vocab_size(s->tok) > s->api.facts.vocab)
        fprintf(stderr,
                "doppler-exec: note: the tokenizer has ids up to %u and the model's vocabulary has %u: prompts with "
                "others are refused\n",
                dop_tokenizer_vocab_size(s->tok) - 1, s->api.facts.vocab);
    if (st != DOP_OK || (st = dop_cli_chat_open(cli, s->text, diag, &s->chat)) != DOP_OK ||
        (st = dop_cli_sampling(cli, &s->api.facts, diag, &s->api.sampling)) != DOP_OK ||
        (st = dop_vocab_create(s->tok, s->api.facts.vocab, s->api.facts.end_ids, s->api.facts.n_end_ids, diag,
                               &s->vocab)) != DOP_OK)
        return st;
    dop_diag blind = {0}; /* a plan that takes no pictures is served without */
    if (dop_images_open(s->model, NULL, &blind, &s->api.eyes) == DOP_E_NOMEM)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    dop_engine_options engine = {.max_queue = cli->serve_queue};
    if ((st = dop_engine_create(s->model, s->tok, &engine, diag, &s->engine)) != DOP_OK)
        return st;
    s->api.model = s->model;
    s->api.engine = s->engine;
    s->api.tok = s->tok;
    s->api.chat = s->chat;
    s->api.system = cli->system;
    if ((st = dop_tool_form_create(s->chat, s->chat ? dop_chat_template(s->chat) : "", s->tok, diag, &s->form)) !=
        DOP_OK)
        return st;
    s->api.form = s->form;
    if ((st = dop_constraints_create(s->vocab, diag, &s->api.shapes)) != DOP_OK)
        return st;
    if (cli->store && (st = dop_response_store_create(cli->store, diag, &s->api.store)) != DOP_OK)
        return st;
    const dop_systemd systemd = systemd_of(cli);
    int listener = -1;
    if ((st = dop_systemd_listener(&systemd, diag, &listener)) != DOP_OK)
        return st;
    dop_http_options http = {
        .address = cli->serve,
        .listener = listener,
        .keys = &s->keys,
        .names = cli->serve_hosts.items,
        .n_names = cli->serve_hosts.count,
        .origins = cli->cors.items,
        .n_origins = cli->cors.count,
        .prefix = cli->prefix,
        .log = !cli->log                       ? DOP_HTTP_LOG_NONE
               : strcmp(cli->log, "json") == 0 ? DOP_HTTP_LOG_JSON
                                               : DOP_HTTP_LOG_TEXT,
        .comment_s = cli->serve_comment,
        .max_body = (size_t)cli->serve_body << 10,
        .max_connections = cli->serve_connections,
        .receive_s = cli->serve_receive,
        .idle_s = 75,
    };
    st = dop_http_start(&s->api, &http, diag, &s->http);
    if (st == DOP_OK && !cli->quiet && dop_http_max_connections(s->http) < cli->serve_connections)
        fprintf(stderr,
                "doppler-exec: note: %u connections at once: the limit on open files (ulimit -n) allows no more\n",
                dop_http_max_connections(s->http));
    return st;
}

static void
close_all(served *s)
{
    dop_http_destroy(s->http);
    dop_response_store_destroy(s->api.store);
    dop_engine_destroy(s->engine);
    dop_images_close(s->api.eyes);
    dop_constraints_destroy(s->api.shapes);
    dop_vocab_destroy(s->vocab);
    dop_tool_form_destroy(s->form);
    dop_chat_destroy(s->chat);
    json_decref(s->prompts);
    dop_text_destroy(s->text);
    dop_model_close(s->model);
    dop_http_keys_finish(&s->keys);
}

/* SIGHUP: the file of keys is read again; where that fails, the keys stay as they are. */
static void
read_keys_again(const dop_cli *cli, served *s)
{
    dop_diag diag = {0};
    dop_http_keys keys = {0};
    if (read_keys(cli->api_key_file, &diag, &keys) != DOP_OK)
        dop_diag_print(&diag, "doppler-exec", cli->verbose);
    else
        dop_http_swap_keys(s->http, &s->keys, &keys);
    dop_http_keys_finish(&keys);
}

/* Tells systemd a state, where it asks. */
static void
tell(const dop_cli *cli, const char *state)
{
    const dop_systemd systemd = systemd_of(cli);
    dop_systemd_notify(&systemd, state);
}

static void
tell_reload(const dop_cli *cli)
{
    char state[80];
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)(dop_now_ms() * 1e3));
    tell(cli, state);
}

/* Waits until a signal ends the server; false: that is not possible. */
static bool
wait_for_end(const dop_cli *cli, served *s, const sigset_t *signals)
{
    sigset_t all = *signals;
    int number;
    if (cli->api_key_file || cli->notify_socket)
        sigaddset(&all, SIGHUP);
    while (sigwait(&all, &number) == 0) {
        if (number != SIGHUP)
            return true;
        tell_reload(cli);
        if (cli->api_key_file)
            read_keys_again(cli, s);
        tell(cli, "READY=1");
    }
    return false;
}

/* From now on a signal ends the process at once, whatever its threads are doing. */
static void
let_signals_end(const sigset_t *signals)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

/* Gives answers in progress grace_s seconds to end; another signal ends them now, and a third one the process. */
static void
wind_down(served *s, const sigset_t *signals, double grace_s)
{
    enum { MOST_MS_MORE = 5000 };
    double last = dop_now_ms() + grace_s * 1e3 + MOST_MS_MORE;
    bool again = false;
    dop_http_stop_listening(s->http);
    dop_engine_stop(s->engine, grace_s);
    while (dop_now_ms() < last && !(dop_engine_is_idle(s->engine) && dop_http_is_idle(s->http))) {
        struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
        if (again) {
            nanosleep(&pause, NULL);
        } else if (sigtimedwait(signals, NULL, &pause) > 0) {
            again = true;
            let_signals_end(signals);
            dop_engine_stop(s->engine, 0);
            last = dop_now_ms() + MOST_MS_MORE;
        }
    }
    if (!again)
        let_signals_end(signals);
}

dop_status
dop_mode_serve(dop_cli *cli, dop_diag *diag)
{
    served s;
    sigset_t signals;
    memset(&s, 0, sizeof s);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in the threads created from here on too */
    if (cli->api_key_file || cli->notify_socket) {
        sigset_t hup;
        sigemptyset(&hup);
        sigaddset(&hup, SIGHUP);
        pthread_sigmask(SIG_BLOCK, &hup, NULL);
    }
    dop_status st = open_all(cli, &s, diag);
    if (st == DOP_OK) {
        dop_buf line = {0};
        dop_buf_printf(&line, "serving %s on %s (%u sequence%s of %u tokens%s)\n", s.api.facts.name,
                       dop_http_url(s.http), s.api.facts.n_sequences, s.api.facts.n_sequences == 1 ? "" : "s",
                       s.api.facts.ctx, s.chat ? "" : ", no chat template");
        st = dop_cli_print_buf(&line, diag);
        dop_buf_finish(&line);
        if (st == DOP_OK)
            tell(cli, "READY=1\nSTATUS=Serving");
    }
    if (st == DOP_OK && wait_for_end(cli, &s, &signals)) {
        tell(cli, "STOPPING=1\nSTATUS=Finishing answers");
        wind_down(&s, &signals, cli->serve_grace);
    }
    dop_diag broken;
    if (st == DOP_OK && dop_engine_is_broken(s.engine, &broken)) {
        *diag = broken;
        st = broken.code;
    }
    close_all(&s);
    return st;
}
