/* Clients of a server, many at once:
 *
 *   clients PORT N SECONDS PROMPT ANSWER [RATE [JSON]]   N clients that ask again and again; RATE: requests a second of
 *                                                   each; JSON: members of every request, "temperature":1 if not said
 *   clients PORT storm N SECONDS                    half of them misbehave: they leave, send garbage, stop halfway
 *   clients PORT stays BYTES SECONDS                sends BYTES bytes of a request and no more: closed within SECONDS?
 *   clients PORT silent N SECONDS                   opens N connections that say nothing: another answered within SECONDS?
 *   clients PORT raw FILE                           sends a file and prints what comes back
 *
 * PROMPT and ANSWER are numbers of words and tokens.  The first form prints one line of JSON: tokens a second, time to the
 * first token and between tokens at p50, p95 and p99 in ms, and how far the slowest client's p95 is from the median of
 * all.  Tokens a second are of the whole run, and, steady, of its second half before the first client ends: as the server counts
 * them, because not every token has a text.  The exit status is 0 when every request that was to be answered was answered in full. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CLIENTS = 512, WAIT_MS = 120000 };

typedef struct list {
    double *v;
    size_t n, cap;
} list;

typedef struct client {
    pthread_t thread;
    uint32_t number;
    bool bad;
    list first, between; /* ms */
    uint64_t tokens, requests, errors;
    char error[200];
} client;

static int port;
static double seconds, rate;
static uint32_t prompt_words = 4, answer_tokens = 16;
static const char *members = "\"temperature\":1";

static double
now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
add(list *l, double x)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->v = realloc(l->v, l->cap * sizeof *l->v);
        if (!l->v)
            abort();
    }
    l->v[l->n++] = x;
}

static int
compare(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* Nearest rank of a list, which is put in order. */
static double
at(list *l, double share)
{
    if (l->n == 0)
        return 0;
    qsort(l->v, l->n, sizeof *l->v, compare);
    size_t rank = (size_t)(share * (double)l->n + 0.999999);
    return l->v[rank ? rank - 1 : 0];
}

static int
dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static bool
say(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t k = send(fd, text, n, MSG_NOSIGNAL);
        if (k <= 0)
            return false;
        text += k;
        n -= (size_t)k;
    }
    return true;
}

/* More bytes behind what is there; false at the end, or when nothing comes. */
static bool
hear(int fd, char *buffer, size_t size, size_t *io_n, int wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, wait_ms) != 1)
        return false;
    ssize_t k = recv(fd, buffer + *io_n, size - *io_n - 1, 0);
    if (k <= 0)
        return false;
    *io_n += (size_t)k;
    buffer[*io_n] = 0;
    return true;
}

static void
fail(client *c, const char *what)
{
    if (c->errors++ == 0)
        snprintf(c->error, sizeof c->error, "%s", what);
}

static bool
ask(const client *c, int fd, uint32_t tokens)
{
    static const char *const words[] = {"the", "king", "and", "queen", "of", "my", "lord", "shall"};
    char *body = malloc(prompt_words * 8 + strlen(members) + 400), head[200];
    size_t n = 0;
    uint32_t x = (c->number + 1) * 2654435761u + (uint32_t)c->requests * 40503u;
    if (!body)
        abort();
    n += (size_t)sprintf(body, "{\"prompt\":\"");
    for (uint32_t i = 0; i < prompt_words; i++) { /* no two prompts begin alike for long */
        x = x * 1664525 + 1013904223;
        n += (size_t)sprintf(body + n, "%s ", words[x >> 29]);
    }
    n += (size_t)sprintf(body + n, "\",\"max_tokens\":%u,%s,\"ignore_eos\":true,\"stream\":true}", tokens, members);
    int h = snprintf(
        head, sizeof head,
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        "%zu\r\n\r\n",
        n);
    bool good = say(fd, head, (size_t)h) && say(fd, body, n);
    free(body);
    return good;
}

/* One request on an open connection; events are counted by what begins them. */
static bool
converse(client *c, int fd)
{
    static const char mark[] = "\"text\":\"", done[] = "data: [DONE]";
    enum { SIZE = 1 << 16 };
    char *buffer = malloc(SIZE);
    size_t n = 0, seen = 0;
    double begin = now_ms(), last = begin;
    uint64_t events = 0;
    bool ended = false;
    if (!buffer)
        abort();
    if (!ask(c, fd, answer_tokens)) {
        fail(c, "cannot send");
        ended = false;
        goto out;
    }
    while (!ended) {
        if (!hear(fd, buffer, SIZE, &n, WAIT_MS)) {
            fail(c, "the answer stopped");
            goto out;
        }
        if (seen == 0 && n > 12 && memcmp(buffer + 9, "200", 3) != 0) {
            fail(c, buffer);
            goto out;
        }
        double now = now_ms();
        for (char *hit; (hit = strstr(buffer + seen, mark)) != NULL; seen = (size_t)(hit - buffer) + 1) {
            if (events++ == 0)
                add(&c->first, now - begin);
            else
                add(&c->between, now - last);
            last = now;
        }
        char *end = strstr(buffer, done);
        ended = end && strstr(end, "\r\n0\r\n\r\n");
        if (strstr(buffer, "\"error\"")) {
            fail(c, strstr(buffer, "\"error\""));
            goto out;
        }
        if (!end && n > SIZE / 2) { /* keeps what may be the beginning of a mark */
            size_t keep = 64;
            memmove(buffer, buffer + n - keep, keep + 1);
            seen = seen > n - keep ? seen - (n - keep) : 0;
            n = keep;
        }
    }
    c->requests++;
    c->tokens += answer_tokens;
    if (events < 2)
        fail(c, "an answer of one event");
out:
    free(buffer);
    return ended;
}

static void *
good_client(void *user)
{
    client *c = user;
    double end = now_ms() + seconds * 1e3, next = now_ms() + (rate > 0 ? 1e3 / rate * (c->number % 16) / 16 : 0);
    int fd = -1;
    while (now_ms() < end) {
        if (rate > 0 && next > now_ms())
            usleep((useconds_t)((next - now_ms()) * 1e3));
        next += rate > 0 ? 1e3 / rate : 0;
        if (fd < 0 && (fd = dial()) < 0) {
            fail(c, "cannot connect");
            break;
        }
        if (!converse(c, fd)) {
            close(fd);
            fd = -1;
            break;
        }
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* What a client should not do; the server has to bear it. */
static void *
bad_client(void *user)
{
    client *c = user;
    double end = now_ms() + seconds * 1e3;
    unsigned seed = c->number;
    char buffer[4096];
    static const char half[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                               "application/json\r\nContent-Length: 1000\r\n\r\n{\"prompt\"";
    for (uint32_t kind = c->number; now_ms() < end; kind++) {
        int fd = dial();
        size_t n = 0;
        if (fd < 0)
            continue;
        switch (kind % 6) {
        case 0: /* leaves in the middle of an answer */
            (void)ask(c, fd, 400);
            (void)hear(fd, buffer, sizeof buffer, &n, 1000);
            break;
        case 1: /* leaves at once */
            (void)ask(c, fd, 400);
            break;
        case 2: /* garbage */
            for (size_t i = 0; i < sizeof buffer; i++)
                buffer[i] = (char)rand_r(&seed);
            (void)say(fd, buffer, sizeof buffer);
            (void)hear(fd, buffer, sizeof buffer, &n, 100);
            break;
        case 3: /* half a body */
            (void)say(fd, half, sizeof half - 1);
            usleep(20000);
            break;
        case 4: /* a body that is no JSON, and one that is too large */
            (void)say(fd,
                      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                      "4\r\n\r\n{\"a}",
                      99);
            (void)hear(fd, buffer, sizeof buffer, &n, 1000);
            (void)say(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", 73);
            n = 0;
            (void)hear(fd, buffer, sizeof buffer, &n, 1000);
            break;
        default: { /* does not read, and resets */
            struct linger hard = {1, 0};
            (void)ask(c, fd, 100);
            usleep(10000);
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        }
        }
        close(fd);
        c->requests++;
    }
    return NULL;
}

/* Tokens that the server has written so far; -1: it does not say. */
static double
written(void)
{
    static const char get[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                      name[] = "\ndoppler_written_tokens_total ";
    enum { SIZE = 1 << 16 };
    char *text = malloc(SIZE);
    size_t n = 0;
    int fd = dial();
    if (!text)
        abort();
    text[0] = 0;
    if (fd >= 0 && say(fd, get, sizeof get - 1))
        while (n + 1 < SIZE && hear(fd, text, SIZE, &n, 2000))
            ;
    if (fd >= 0)
        close(fd);
    const char *hit = strstr(text, name);
    double v = hit ? atof(hit + sizeof name - 1) : -1;
    free(text);
    return v;
}

/* Tokens a second in the second half of the time, when everybody is busy. */
static double
steady(void)
{
    usleep((useconds_t)(seconds * 5e5));
    double begin = now_ms(), from = written();
    usleep((useconds_t)(seconds * 5e5 - 1e4));
    double to = written(), took = (now_ms() - begin) / 1e3;
    return from < 0 || to < 0 ? 0 : (to - from) / took;
}

static int
run(uint32_t n, bool storm)
{
    static client all[MOST_CLIENTS];
    list first = {0}, between = {0}, p95 = {0};
    uint64_t tokens = 0, requests = 0, errors = 0;
    double begin = now_ms(), worst = 0;
    for (uint32_t i = 0; i < n; i++) {
        all[i].number = i;
        all[i].bad = storm && i % 2;
        if (pthread_create(&all[i].thread, NULL, all[i].bad ? bad_client : good_client, &all[i]) != 0)
            return 1;
    }
    double half = storm ? 0 : steady();
    for (uint32_t i = 0; i < n; i++) {
        client *c = &all[i];
        pthread_join(c->thread, NULL);
        if (c->errors)
            fprintf(stderr, "client %u: %s\n", i, c->error);
        errors += c->errors;
        if (c->bad)
            continue;
        tokens += c->tokens;
        requests += c->requests;
        for (size_t k = 0; k < c->first.n; k++)
            add(&first, c->first.v[k]);
        for (size_t k = 0; k < c->between.n; k++)
            add(&between, c->between.v[k]);
        if (c->between.n) {
            add(&p95, at(&c->between, 0.95));
            worst = p95.v[p95.n - 1] > worst ? p95.v[p95.n - 1] : worst;
        }
        free(c->first.v);
        free(c->between.v);
    }
    double elapsed = (now_ms() - begin) / 1e3, median = at(&p95, 0.5);
    printf("{\"clients\": %u, \"seconds\": %.2f, \"requests\": %llu, \"errors\": %llu, \"tokensPerSec\": %.1f, "
           "\"steadyTokensPerSec\": %.1f, "
           "\"firstTokenMs\": {\"p50\": %.1f, \"p95\": %.1f, \"p99\": %.1f}, "
           "\"tokenMs\": {\"p50\": %.2f, \"p95\": %.2f, \"p99\": %.2f}, \"worstP95OverMedian\": %.2f}\n",
           n, elapsed, (unsigned long long)requests, (unsigned long long)errors, (double)tokens / elapsed, half,
           at(&first, 0.5), at(&first, 0.95), at(&first, 0.99), at(&between, 0.5), at(&between, 0.95),
           at(&between, 0.99), median > 0 ? worst / median : 0);
    free(first.v);
    free(between.v);
    free(p95.v);
    return errors || !requests;
}

/* A request that never ends: does the server close the connection in time? */
static int
stays(size_t bytes, double most)
{
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                               "application/json\r\nContent-Length: 100000\r\n\r\n";
    int fd = dial();
    double begin = now_ms();
    char buffer[4096];
    if (fd < 0)
        return 1;
    (void)say(fd, head, bytes < strlen(head) ? bytes : strlen(head));
    for (;;) { /* a byte now and then, so that it does not look dead */
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 100) == 1 && recv(fd, buffer, sizeof buffer, 0) <= 0)
            break;
        if (now_ms() - begin > most * 1e3)
            return 1;
        if (bytes >= strlen(head) && !say(fd, " ", 1))
            break;
    }
    printf("closed after %.1f s\n", (now_ms() - begin) / 1e3);
    return 0;
}

static int
silent(uint32_t n, double most)
{
    static const char ask[] = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char buffer[64];
    size_t got = 0;
    const double begin = now_ms();
    for (uint32_t i = 0; i < n; i++) /* they stay open to the end */
        if (dial() < 0)
            return 1;
    int fd = dial();
    if (fd < 0 || !say(fd, ask, strlen(ask)) || !hear(fd, buffer, sizeof buffer, &got, (int)(most * 1e3)))
        return 1;
    printf("answered after %.1f s\n", (now_ms() - begin) / 1e3);
    return strncmp(buffer, "HTTP/1.1 200", 12) == 0 ? 0 : 1;
}

static int
raw(const char *path)
{
    FILE *f = fopen(path, "rb");
    int fd = dial();
    char buffer[65536];
    size_t n = 0;
    if (!f || fd < 0)
        return 1;
    for (size_t k; (k = fread(buffer, 1, sizeof buffer, f)) > 0;)
        if (!say(fd, buffer, k))
            break;
    fclose(f);
    while (hear(fd, buffer, sizeof buffer, &n, 2000)) {
        fwrite(buffer, 1, n, stdout);
        n = 0;
    }
    close(fd);
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    port = atoi(argv[1]);
    if (strcmp(argv[2], "raw") == 0)
        return raw(argv[3]);
    if (strcmp(argv[2], "stays") == 0 && argc > 4)
        return stays((size_t)atol(argv[3]), atof(argv[4]));
    if (strcmp(argv[2], "silent") == 0 && argc > 4)
        return silent((uint32_t)atoi(argv[3]), atof(argv[4]));
    bool storm = strcmp(argv[2], "storm") == 0;
    if (argc < (storm ? 5 : 6))
        return 2;
    uint32_t n = (uint32_t)atoi(argv[storm ? 3 : 2]);
    seconds = atof(argv[storm ? 4 : 3]);
    if (!storm) {
        prompt_words = (uint32_t)atoi(argv[4]);
        answer_tokens = (uint32_t)atoi(argv[5]);
        rate = argc > 6 ? atof(argv[6]) : 0;
        members = argc > 7 ? argv[7] : members;
    }
    return run(n < MOST_CLIENTS ? n : MOST_CLIENTS, storm);
}
