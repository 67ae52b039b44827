/* A server among clients that misuse their connections:
 *
 *   crowd PORT PID READERS OTHERS SECONDS KINDS
 *
 * READERS clients ask for short answers and read them, again and again, while OTHERS clients of these kinds hold connections:
 * n never read what they ask for, h send half of a request, b send one byte a second, s say nothing, l leave in the middle of a
 * body.  Who is disconnected comes again.  One more client asks for /health all the time.  Prints one line of JSON, and exits with 0
 * when every reader was served each time, /health never took longer than 500 ms, and the process PID did not grow by more than 300 MB. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096, PATIENCE_MS = 30000 };

typedef struct reader {
    pthread_t thread;
    uint32_t served, failed, retried;
    double worst_ms;
    char error[160];
} reader;

typedef struct other {
    int fd; /* -1: none */
    char kind;
    size_t sent;
    double next_ms;
} other;

static int port;
static atomic_bool ends;
static reader readers[MOST], health;
static other others[MOST];
static char page[64 * 60], head[400], body[200];

static double
now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int
dial(bool waits)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | (waits ? 0 : SOCK_NONBLOCK), 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) != 0 && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Sends a request and reads its answer, which ends with the connection; false: it is not what it should be. */
static bool
ask(reader *r, const char *request, const char *wanted)
{
    static _Thread_local char text[1 << 16];
    const double begin = now_ms();
    int fd = dial(true);
    size_t n = 0;
    const size_t size = strlen(request);
    bool good = fd >= 0 && send(fd, request, size, MSG_NOSIGNAL) == (ssize_t)size;
    while (good) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, PATIENCE_MS) != 1) {
            good = false;
            break;
        }
        const ssize_t k = recv(fd, text + n, sizeof text - 1 - n, 0);
        if (k <= 0)
            break;
        n += (size_t)k;
    }
    text[n] = 0;
    if (fd >= 0)
        close(fd);
    good = good && strstr(text, wanted);
    const double took = now_ms() - begin;
    r->worst_ms = took > r->worst_ms ? took : r->worst_ms;
    r->served += good;
    if (!good && r->failed++ == 0)
        snprintf(r->error, sizeof r->error, "after %.0f ms: %.100s", took, text);
    return good;
}

static void *
read_answers(void *user)
{
    char request[700];
    snprintf(request, sizeof request, "%s%s", head, body);
    while (!atomic_load(&ends)) { /* like other clients, it asks three times */
        reader once = {0}, *r = user;
        for (int i = 0; i < 3 && once.served == 0; i++)
            (void)ask(&once, request, "data: [DONE]");
        r->served += once.served;
        r->retried += once.failed;
        if (once.served == 0 && r->failed++ == 0)
            memcpy(r->error, once.error, sizeof r->error);
    }
    return NULL;
}

static void *
look_at_health(void *user)
{
    while (!atomic_load(&ends)) {
        (void)ask(user, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "{\"status\":\"ok\"}");
        usleep(50000);
    }
    return NULL;
}

/* What such a client has to say, and how much of it. */
static const char *
words(char kind, size_t *out_n)
{
    static char whole[700];
    if (kind == 'n') {
        *out_n = strlen(page);
        return page;
    }
    snprintf(whole, sizeof whole, "%s%s", head, body);
    *out_n = kind == 's' ? 0 : strlen(head) + strlen(body) / 2;
    return whole;
}

static void
go_on(other *o, double now)
{
    size_t n;
    char byte;
    const char *text = words(o->kind, &n);
    if (o->fd < 0) {
        o->fd = dial(false);
        o->sent = 0;
        o->next_ms = now + 100;
        return;
    }
    /* The kind that never reads looks only whether the connection is still there. */
    const ssize_t k = recv(o->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    const bool over = k == 0 || (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOTCONN);
    if (over || (o->kind == 'l' && o->sent == n && n > 0)) {
        close(o->fd);
        o->fd = -1;
        o->next_ms = now + (over ? 300 : 100);
        return;
    }
    size_t more = o->kind == 'b' ? 1 : n - o->sent;
    const ssize_t sent = more > 0 && o->sent < n ? send(o->fd, text + o->sent, more, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    o->sent += sent > 0 ? (size_t)sent : 0;
    o->next_ms = now + (o->kind == 'b' ? 1000 : o->kind == 'l' ? 50 : 500);
}

static long
memory_kb(const char *pid)
{
    char path[64], line[200];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%s/status", pid);
    FILE *f = fopen(path, "r");
    while (f && kb < 0 && fgets(line, sizeof line, f))
        (void)sscanf(line, "VmRSS: %ld", &kb);
    if (f)
        fclose(f);
    return kb;
}

static void
prepare(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
    snprintf(body, sizeof body,
             "{\"prompt\":\"To be, or\",\"max_tokens\":4,\"temperature\":1,\"ignore_eos\":true,\"stream\":true}");
    snprintf(head, sizeof head,
             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
             "application/json\r\nContent-Length: %zu\r\n\r\n",
             strlen(body));
    for (int i = 0; i < 60; i++)
        strcat(page, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

int
main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: crowd PORT PID READERS OTHERS SECONDS KINDS\n");
        return 2;
    }
    port = atoi(argv[1]);
    const int n_readers = atoi(argv[3]), n_others = atoi(argv[4]);
    const size_t n_kinds = strlen(argv[6]);
    if (n_readers > MOST || n_others > MOST || n_kinds == 0)
        return 2;
    prepare();
    const long before = memory_kb(argv[2]);
    const double begin = now_ms(), end = begin + atof(argv[5]) * 1e3;
    for (int i = 0; i < n_others; i++)
        others[i] = (other){.fd = -1, .kind = argv[6][(size_t)i % n_kinds]};
    long most = before;
    bool reads = false;
    for (double now = begin; now < end; now = now_ms()) {
        for (int i = 0; i < n_others; i++)
            if (now >= others[i].next_ms)
                go_on(&others[i], now);
        if (!reads && now > begin + 500) { /* the others are there first */
            reads = true;
            pthread_create(&health.thread, NULL, look_at_health, &health);
            for (int i = 0; i < n_readers; i++)
                pthread_create(&readers[i].thread, NULL, read_answers, &readers[i]);
        }
        const long kb = memory_kb(argv[2]);
        most = kb > most ? kb : most;
        usleep(20000);
    }
    atomic_store(&ends, true);
    uint32_t served = 0, failed = 0, hungry = 0, retried = 0;
    const char *error = health.failed ? health.error : "";
    if (reads)
        pthread_join(health.thread, NULL);
    for (int i = 0; i < n_readers && reads; i++) {
        pthread_join(readers[i].thread, NULL);
        served += readers[i].served;
        failed += readers[i].failed;
        retried += readers[i].retried;
        hungry += readers[i].served == 0;
        error = readers[i].failed ? readers[i].error : error;
    }
    for (int i = 0; i < n_others; i++)
        if (others[i].fd >= 0)
            close(others[i].fd);
    printf("{\"served\": %u, \"retried\": %u, \"failed\": %u, \"readersNotServed\": %u, \"health\": %u, "
           "\"worstHealthMs\": %.0f, "
           "\"grownMB\": %ld}\n",
           served, retried, failed, hungry, health.served, health.worst_ms, (most - before) / 1024);
    if (*error)
        fprintf(stderr, "%s\n", error);
    return reads && failed == 0 && retried * 100 <= served && hungry == 0 && health.failed == 0 && health.served > 0 &&
                   health.worst_ms <= 500 && before > 0 && most - before < 300 * 1024
               ? 0
               : 1;
}
