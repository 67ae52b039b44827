/* Download of an image named by a request to the server. To prevent server-side request forgery, every connection,
 * including redirects, must go to a public address. */
#include "tools/fetch/fetch.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_REDIRECTS = 3, CONNECT_SECONDS = 5 };

typedef struct download {
    const dop_fetch_picture_request *r;
    dop_buf *out;
    bool refused, too_long; /* the address is not public; the image exceeds the size limit */
} download;

/* Private or special-purpose address block (RFC 6890): the value of the first `bits` bits. */
typedef struct block {
    uint32_t first;
    unsigned bits;
} block;

/* True if an IPv4 address in host byte order is public. */
static bool
is_public_v4(uint32_t a)
{
    static const block special[] = {
        {0x00000000, 8},  {0x0a000000, 8},  {0x64400000, 10}, {0x7f000000, 8},  {0xa9fe0000, 16},
        {0xac100000, 12}, {0xc0000000, 24}, {0xc0000200, 24}, {0xc0586300, 24}, {0xc0a80000, 16},
        {0xc6120000, 15}, {0xc6336400, 24}, {0xcb007100, 24}, {0xe0000000, 3}, /* multicast and reserved */
    };
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if ((a ^ special[i].first) >> (32 - special[i].bits) == 0)
            return false;
    return true;
}

static uint32_t
load_big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* True if an IPv6 address is public: in 2000::/3 except tunnels (2001::/23, 2002::/16) and documentation.
 * 64:ff9b::/96 and ::ffff:0:0/96 contain an IPv4 address, which decides. */
static bool
is_public_v6(const uint8_t a[16])
{
    static const uint8_t translated[12] = {0, 0x64, 0xff, 0x9b}, mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (memcmp(a, translated, sizeof translated) == 0 || memcmp(a, mapped, sizeof mapped) == 0)
        return is_public_v4(load_big_endian(a + 12));
    const uint32_t first = load_big_endian(a);
    return first >> 29 == 1 && first >> 9 != 0x20010000 >> 9 && first >> 16 != 0x2002 && first != 0x20010db8 &&
           first >> 12 != 0x3fff0;
}

bool
dop_fetch_is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        return is_public_v4(ntohl(in.sin_addr.s_addr));
    }
    if (address->sa_family != AF_INET6)
        return false;
    struct sockaddr_in6 in6;
    memcpy(&in6, address, sizeof in6);
    return is_public_v6(in6.sin6_addr.s6_addr);
}

/* Creates the socket of a connection after checking its address (CURLOPT_OPENSOCKETFUNCTION). */
static curl_socket_t
open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *a)
{
    download *d = user;
    (void)purpose;
    if (!d->r->any_address && !dop_fetch_is_public(&a->addr)) {
        d->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static size_t
take_image_bytes(char *bytes, size_t size, size_t n, void *user)
{
    download *d = user;
    d->too_long = size * n > d->r->max_bytes - d->out->size;
    if (!d->too_long)
        dop_buf_append(d->out, bytes, size * n);
    return d->too_long || d->out->failed ? 0 : size * n;
}

/* Returns nonzero to end the download (CURLOPT_XFERINFOFUNCTION, called at least once a second). */
static int
check_cancelled(void *user, curl_off_t to_come, curl_off_t came, curl_off_t to_send, curl_off_t sent)
{
    const download *d = user;
    (void)to_come, (void)came, (void)to_send, (void)sent;
    return d->r->cancelled && atomic_load(d->r->cancelled);
}

static void
init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static dop_status
explain_image_failure(const download *d, CURLcode code, long status, dop_diag *diag)
{
    if (code == CURLE_OK)
        return d->out->size ? DOP_OK : DOP_FAIL(diag, DOP_E_INPUT, "the picture cannot be fetched: it has no bytes");
    if (d->out->failed || code == CURLE_OUT_OF_MEMORY)
        return DOP_NO_MEMORY(diag);
    if (d->refused)
        return DOP_FAIL(diag, DOP_E_INPUT, "the picture cannot be fetched: its server's address is not public");
    if (d->too_long || code == CURLE_FILESIZE_EXCEEDED)
        return DOP_FAIL(diag, DOP_E_INPUT, "the picture cannot be fetched: it is longer than %zu bytes",
                        d->r->max_bytes);
    if (status >= 400)
        return DOP_FAIL(diag, DOP_E_INPUT, "the picture cannot be fetched: its server answers %ld", status);
    return DOP_FAIL(diag, DOP_E_INPUT, "the picture cannot be fetched: %s", curl_easy_strerror(code));
}

dop_status
dop_fetch_picture(const dop_fetch_picture_request *request, dop_diag *diag, dop_buf *out_bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    download d = {.r = request, .out = out_bytes};
    pthread_once(&once, init_curl);
    CURL *c = curl_easy_init();
    long status = 0;
    if (!c)
        return DOP_NO_MEMORY(diag);
    curl_easy_setopt(c, CURLOPT_URL, request->url);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
    curl_easy_setopt(c, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_PROXY, ""); /* a proxy would bypass the address check */
    curl_easy_setopt(c, CURLOPT_USERAGENT, "doppler/" DOP_VERSION);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(request->seconds * 1e3));
    curl_easy_setopt(c, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)request->max_bytes);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, &d);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, check_cancelled);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, &d);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_image_bytes);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, &d);
    const CURLcode code = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(c);
    return explain_image_failure(&d, code, status, diag);
}
