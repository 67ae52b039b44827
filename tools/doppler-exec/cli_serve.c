/* --serve: the HTTP server, which runs until a signal. */
#include "serve/http/http.h"
#include "serve/protocols/responses_store.h"
#include "tools/doppler-exec/common/cli_common.h"
#include "tools/doppler-exec/common/text_file.h"
#include "tools/doppler-exec/on_demand/models.h"
#include "tools/doppler-exec/picture_urls.h"
#include "tools/doppler-exec/serve_host.h"
#include "tools/doppler-exec/systemd.h"

#include <doppler/draw.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct served {
    dop_cli *cli;
    dop_hosted *hosted; /* the only model; NULL: `models` is used */
    dop_models *models; /* the models of --models; NULL: `hosted` is used */
    dop_host_list list; /* entries of `models` */
    dop_api front;      /* API of the server if it has several models */
    dop_response_store *store;
    dop_picture_fetcher pictures;
    dop_http_keys keys;
    dop_http *http;
} served;

static dop_status
read_keys(const char *path, dop_diag *diag, dop_http_keys *out_keys)
{
    dop_buf text = {0};
    dop_status st = DOP_OK;
    DOP_TRY(dop_cli_read(path, diag, &text));
    DOP_TRY(dop_http_keys_read(path, text.data ? text.data : "", diag, out_keys));
error:
    dop_buf_finish(&text);
    return st;
}

/* Checks --prefix and --cors. A prefix is "/NAME[/NAME...]", with characters that need no escapes in URLs. */
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

/* Opens a model (dop_models_how.open). */
static dop_status
open_served_model(void *user, size_t number, dop_diag *diag, void **out_model, dop_api **out_api)
{
    served *s = user;
    dop_hosted *hosted = NULL;
    const dop_status st = dop_host_open_made(&s->list.models[number], diag, &hosted);
    *out_model = hosted;
    *out_api = hosted ? dop_host_api(hosted) : NULL;
    if (hosted) {
        (*out_api)->store = s->store;
        (*out_api)->urls = &s->pictures.urls;
        (*out_api)->models = s->models;
        (*out_api)->hold = dop_models_hold;
        (*out_api)->give_back = dop_models_give_back;
    }
    return st;
}

/* Compiles a model (dop_models_how.make). */
static dop_status
make_model(void *user, size_t number, const atomic_bool *stop, dop_diag *diag, uint64_t *out_bytes)
{
    served *s = user;
    return dop_host_make(&s->list.models[number], stop, diag, out_bytes);
}

/* Closes a model (dop_models_how.close). */
static void
close_model(void *user, void *model)
{
    dop_diag why;
    (void)user;
    if (dop_engine_is_broken(dop_host_api(model)->engine, &why))
        dop_diag_print(&why, "doppler-exec", false);
    dop_host_close(model);
}

/* Creates the model list of --models; a model is opened at its first request. */
static dop_status
open_models(dop_cli *cli, served *s, dop_diag *diag)
{
    dop_models_how how = {.open = open_served_model,
                          .close = close_model,
                          .user = s,
                          .max_bytes = (uint64_t)cli->models_memory << 20,
                          .idle_s = cli->models_idle};
    if (cli->plans.count > 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "--models says which plans there are, and there is also \"%s\"",
                        cli->plans.items[0]);
    if (cli->logit_bias.count > 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "--logit-bias is for one model, and --models has several");
    dop_status st = DOP_OK;
    DOP_TRY(dop_host_list_read(cli, diag, &s->list));
    for (size_t i = 0; i < s->list.n; i++)
        if (s->list.entries[i].compiled)
            how.make = make_model;
    if (!how.make)
        DOP_TRY(dop_cli_models_refuse(cli, diag));
    DOP_TRY(dop_models_create(s->list.entries, s->list.n, &how, diag, &s->models));
error:
    s->front = dop_host_defaults(cli);
    s->front.models = s->models;
    s->front.store = s->store;
    s->front.facts.name = "models";
    return st;
}

/* Returns the maximum size of a request body in bytes: base64 photos fit if the model accepts images. */
static size_t
get_max_body_bytes(const dop_cli *cli, const served *s)
{
    enum { TEXTS = 4096, PICTURES = 32768 }; /* in KiB */
    const bool sees = s->hosted && dop_host_api(s->hosted)->eyes;
    return (size_t)(cli->serve_body ? cli->serve_body : sees ? PICTURES : TEXTS) << 10;
}

static dop_status
open_server(dop_cli *cli, served *s, dop_diag *diag)
{
    const char *path = NULL;
    dop_status st = check_addresses(cli, diag);
    s->cli = cli;
    if (st == DOP_OK)
        st = dop_picture_fetcher_open(cli, diag, &s->pictures);
    if (st == DOP_OK && !cli->models)
        st = dop_cli_plan(cli, diag, &path);
    if (st == DOP_OK && cli->api_key_file)
        st = read_keys(cli->api_key_file, diag, &s->keys);
    if (st == DOP_OK && cli->store)
        st = dop_response_store_create(cli->store, diag, &s->store);
    if (st == DOP_OK)
        st = cli->models ? open_models(cli, s, diag) : dop_host_open(cli, path, NULL, diag, &s->hosted);
    if (st != DOP_OK)
        return st;
    if (s->hosted) {
        dop_host_api(s->hosted)->store = s->store;
        dop_host_api(s->hosted)->urls = &s->pictures.urls;
    }
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
        .max_body = get_max_body_bytes(cli, s),
        .max_connections = cli->serve_connections,
        .receive_s = cli->serve_receive,
        .idle_s = 75,
    };
    st = dop_http_start(s->hosted ? dop_host_api(s->hosted) : &s->front, &http, diag, &s->http);
    if (st == DOP_OK && !cli->quiet && dop_http_max_connections(s->http) < cli->serve_connections)
        dop_say("note", "note: %u connections at once: the limit on open files (ulimit -n) allows no more",
                dop_http_max_connections(s->http));
    return st;
}

static void
close_all(served *s)
{
    dop_http_destroy(s->http);
    dop_response_store_destroy(s->store);
    dop_models_destroy(s->models);
    dop_host_list_finish(&s->list);
    dop_host_close(s->hosted);
    dop_http_keys_finish(&s->keys);
}

/* Reloads the key file after SIGHUP. After a failure the keys stay unchanged. */
static void
reload_keys(const dop_cli *cli, served *s)
{
    dop_diag diag = {0};
    dop_http_keys keys = {0};
    if (read_keys(cli->api_key_file, &diag, &keys) != DOP_OK)
        dop_diag_print(&diag, "doppler-exec", cli->verbose);
    else
        dop_http_swap_keys(s->http, &s->keys, &keys);
    dop_http_keys_finish(&keys);
}

/* Reports a state to systemd, if systemd expects it. */
static void
notify_systemd(const dop_cli *cli, const char *state)
{
    const dop_systemd systemd = systemd_of(cli);
    dop_systemd_notify(&systemd, state);
}

static void
tell_reload(const dop_cli *cli)
{
    char state[80];
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)(dop_now_ms() * 1e3));
    notify_systemd(cli, state);
}

/* True if the device of the only model has failed, which this process cannot recover from. */
static bool
is_lost(served *s)
{
    dop_diag why;
    return s->hosted && dop_engine_is_broken(dop_host_api(s->hosted)->engine, &why);
}

/* Waits until a signal ends the server, or until some seconds after its device failed: clients and health checks
 * receive 503 first, and a supervisor can restart the process. Returns false if waiting is not possible. */
static bool
wait_for_end(const dop_cli *cli, served *s, const sigset_t *signals)
{
    enum { LOOKS_TOLD = 5 };
    const struct timespec look = {.tv_sec = 1};
    sigset_t all = *signals;
    if (cli->api_key_file || cli->notify_socket)
        sigaddset(&all, SIGHUP);
    for (int looks = 0;;) {
        const int number = sigtimedwait(&all, NULL, &look);
        if (number < 0 && (errno == EAGAIN || errno == EINTR)) {
            looks = is_lost(s) ? looks + 1 : 0;
            if (looks == LOOKS_TOLD)
                return true;
            continue;
        }
        if (number < 0)
            break;
        if (number != SIGHUP)
            return true;
        tell_reload(cli);
        if (cli->api_key_file)
            reload_keys(cli, s);
        notify_systemd(cli, "READY=1");
    }
    return false;
}

/* Restores the default signal actions: the next signal ends the process immediately. */
static void
restore_signal_actions(const sigset_t *signals)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

static void
stop_engines(served *s, double grace_s)
{
    if (s->models)
        dop_models_stop(s->models, grace_s);
    else
        dop_engine_stop(dop_host_api(s->hosted)->engine, grace_s);
}

static bool
are_idle(served *s)
{
    return (s->models ? dop_models_is_idle(s->models) : dop_engine_is_idle(dop_host_api(s->hosted)->engine)) &&
           dop_http_is_idle(s->http);
}

/* Gives running answers grace_s seconds to finish. A second signal stops them at once; a third ends the process. */
static void
wind_down(served *s, const sigset_t *signals, double grace_s)
{
    enum { MOST_MS_MORE = 5000 };
    double last = dop_now_ms() + grace_s * 1e3 + MOST_MS_MORE;
    bool again = false;
    dop_http_stop_listening(s->http);
    stop_engines(s, grace_s);
    while (dop_now_ms() < last && !are_idle(s)) {
        struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
        if (again) {
            nanosleep(&pause, NULL);
        } else if (sigtimedwait(signals, NULL, &pause) > 0) {
            again = true;
            restore_signal_actions(signals);
            stop_engines(s, 0);
            last = dop_now_ms() + MOST_MS_MORE;
        }
    }
    if (!again)
        restore_signal_actions(signals);
}

/* Writes the start-up line: the models and the server's URL. */
static void
describe_server(const served *s, dop_buf *out)
{
    if (!s->hosted) {
        dop_buf_printf(out, "serving the models of %s on %s (loaded when they are asked for)", s->cli->models,
                       dop_http_url(s->http));
        return;
    }
    const dop_api *api = dop_host_api(s->hosted);
    dop_draw_facts draws;
    if (dop_model_draw_facts(api->model, &draws)) {
        dop_buf_printf(out, "serving %s on %s (pictures of %ux%u)", api->facts.name, dop_http_url(s->http), draws.width,
                       draws.height);
        return;
    }
    dop_buf_printf(out, "serving %s on %s (%u sequence%s of %u tokens%s)", api->facts.name, dop_http_url(s->http),
                   api->facts.n_sequences, api->facts.n_sequences == 1 ? "" : "s", api->facts.ctx,
                   api->chat ? "" : ", no chat template");
}

const bool dop_cli_has_server = true;

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
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* inherited by threads created later */
    if (cli->api_key_file || cli->notify_socket) {
        sigset_t hup;
        sigemptyset(&hup);
        sigaddset(&hup, SIGHUP);
        pthread_sigmask(SIG_BLOCK, &hup, NULL);
    }
    dop_status st = open_server(cli, &s, diag);
    if (st == DOP_OK) {
        dop_buf line = {0}, object = {0};
        describe_server(&s, &line);
        if (dop_says_json())
            dop_say_object("info", dop_buf_text(&line), dop_http_url(s.http), &object);
        else
            dop_buf_puts(&line, "\n");
        st = dop_cli_print_buf(dop_says_json() ? &object : &line, diag);
        dop_buf_finish(&line);
        dop_buf_finish(&object);
        if (st == DOP_OK)
            notify_systemd(cli, "READY=1\nSTATUS=Serving");
    }
    if (st == DOP_OK && wait_for_end(cli, &s, &signals)) {
        notify_systemd(cli, "STOPPING=1\nSTATUS=Finishing answers");
        wind_down(&s, &signals, cli->serve_grace);
    }
    dop_diag broken;
    if (st == DOP_OK && s.hosted && dop_engine_is_broken(dop_host_api(s.hosted)->engine, &broken)) {
        *diag = broken;
        st = broken.code;
    }
    close_all(&s);
    return st;
}
