/* Message framing of HTTP and who may ask (serve/http/http_parse.c, http_rules.c). */
#include "serve/http/http_parse.h"
#include "serve/http/http_rules.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Reads a head that comes in pieces of `piece` bytes. */
static dop_http_read
read_pieces(const char *text, size_t n, size_t piece, dop_http_head *head, size_t *size, dop_http_fault *fault)
{
    static char bytes[100000];
    size_t seen = 0, have = 0;
    dop_http_read r = DOP_HTTP_MORE;
    cr_assert_leq(n, sizeof bytes);
    while (r == DOP_HTTP_MORE && have < n) {
        size_t k = n - have < piece ? n - have : piece;
        memcpy(bytes + have, text + have, k);
        have += k;
        r = dop_http_read_head(bytes, have, &seen, head, size, fault);
    }
    return r;
}

static unsigned
status_of(const char *text, size_t n)
{
    dop_http_head head;
    dop_http_fault fault;
    size_t size;
    unsigned first = 0;
    for (size_t piece = 1; piece < 64; piece = piece * 3 + 1) {
        dop_http_read r = read_pieces(text, n, piece, &head, &size, &fault);
        unsigned status = r == DOP_HTTP_WRONG ? fault.status : r == DOP_HTTP_DONE ? 200 : 0;
        cr_assert(piece == 1 || status == first, "pieces of %zu: %u instead of %u for %s", piece, status, first, text);
        first = status;
    }
    return first;
}

Test(http, heads)
{
    dop_http_head h;
    dop_http_fault fault;
    size_t size;
    static const char plain[] =
        "POST /v1/completions?x=%41 HTTP/1.1\r\nHOST: Localhost:80\r\ncontent-length:  12 \t\r\n"
        "Content-Type:application/json\r\nOrigin: http://a\r\nauthorization: Bearer x\r\n"
        "Expect: 100-continue\r\nX: \xc3\xa9\r\nEmpty:\r\n\r\n{";
    cr_assert_eq(read_pieces(plain, sizeof plain - 1, 7, &h, &size, &fault), DOP_HTTP_DONE);
    cr_assert_eq(size, sizeof plain - 2);
    cr_assert_str_eq(h.method, "POST");
    cr_assert_str_eq(h.path, "/v1/completions");
    cr_assert_str_eq(h.query, "x=%41");
    cr_assert_str_eq(h.host, "Localhost:80");
    cr_assert_str_eq(h.content_type, "application/json");
    cr_assert_str_eq(h.origin, "http://a");
    cr_assert_str_eq(h.authorization, "Bearer x");
    cr_assert(h.length == 12 && !h.chunked && h.persists && h.chunks && h.expects_continue);
    static const char chunked[] = "\r\nPOST /a%20b%2Fc HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n"
                                  "Connection: TE, Close\r\n\r\n";
    cr_assert_eq(read_pieces(chunked, sizeof chunked - 1, 1, &h, &size, &fault), DOP_HTTP_DONE);
    cr_assert_str_eq(h.path, "/a b/c");
    cr_assert_str_eq(h.query, "");
    cr_assert(h.chunked && !h.persists && h.length == 0);
    static const char old[] = "GET / HTTP/1.0\r\n\r\n", absolute[] = "GET http://h:1/p?q HTTP/1.1\r\nHost: H:1\r\n\r\n";
    cr_assert_eq(read_pieces(old, sizeof old - 1, 99, &h, &size, &fault), DOP_HTTP_DONE);
    cr_assert(!h.persists && !h.chunks && !h.host);
    cr_assert_eq(read_pieces(absolute, sizeof absolute - 1, 99, &h, &size, &fault), DOP_HTTP_DONE);
    cr_assert_str_eq(h.path, "/p");
    cr_assert_str_eq(h.query, "q");
    cr_assert_str_eq(h.host, "h:1");
}

Test(http, what_servers_could_read_in_two_ways_is_refused)
{
#define GET "GET / HTTP/1.1\r\nHost: h\r\n"
#define POST "POST / HTTP/1.1\r\nHost: h\r\n"
    static const struct {
        unsigned status;
        const char *text;
    } cases[] = {
        {200, GET "\r\n"},
        {0, GET},
        {0, "G"},
        {400, POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {400, POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"},
        {400, POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"},
        {400, POST "Content-Length: 3\r\ncontent-length: 4\r\n\r\n"},
        {400, POST "Content-Length : 3\r\n\r\n"},
        {400, POST "Content-Length\t: 3\r\n\r\n"},
        {400, POST " Content-Length: 3\r\n\r\n"},
        {400, POST "Content-Length: 3, 3\r\n\r\n"},
        {400, POST "Content-Length: +3\r\n\r\n"},
        {400, POST "Content-Length: -3\r\n\r\n"},
        {400, POST "Content-Length: 0x3\r\n\r\n"},
        {400, POST "Content-Length: 3 3\r\n\r\n"},
        {400, POST "Content-Length:\r\n\r\n"},
        {400, POST "Content-Length: 99999999999999999999999\r\n\r\n"},
        {400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {501, POST "Transfer-Encoding: chunked, identity\r\n\r\n"},
        {501, POST "Transfer-Encoding: xchunked\r\n\r\n"},
        {501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n"},
        {501, POST "Transfer-Encoding: \"chunked\"\r\n\r\n"},
        {400, POST "Transfer-Encoding: \x0b"
                   "chunked\r\n\r\n"},
        {400, POST "Transfer-Encoding:\r\n chunked\r\n\r\n"},
        {400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {400, GET "X: a\r\n b\r\n\r\n"},
        {400, GET "X: a\r\n\tb\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n Host: h\r\n\r\n"},
        {400, "GET / HTTP/1.1\nHost: h\r\n\r\n"},
        {400, GET "X: a\nContent-Length: 3\r\n\r\n"},
        {400, GET "X: a\rContent-Length: 3\r\n\r\n"},
        {400, GET "X: a\r\r\n\r\n"},
        {400, GET "\n"},
        {400, GET "\r\r\n"},
        {400, GET "no colon\r\n\r\n"},
        {400, GET ": no name\r\n\r\n"},
        {400, GET "a(b): c\r\n\r\n"},
        {400, GET "Host: h\r\n\r\n"},
        {400, GET "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"},
        {400, GET "Origin: http://a\r\nOrigin: http://h\r\n\r\n"},
        {400, POST "Content-Type: text/plain\r\nContent-Type: application/json\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n\r\n"},
        {400, "GET / HTTP/1.1 \r\nHost: h\r\n\r\n"},
        {400, "GET  / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /\r\n\r\n"},
        {400, "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /a%zz HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /a%00 HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET a HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET http:///a HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET http://other/a HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "G(T / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET / http/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET / HTTP/1.1x\r\nHost: h\r\n\r\n"},
        {505, "GET / HTTP/2.0\r\nHost: h\r\n\r\n"},
        {400, "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {417, POST "Expect: a miracle\r\n\r\n"},
        {400, "\x16\x03\x01\x02"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned status = status_of(cases[i].text, strlen(cases[i].text));
        bool good = status == cases[i].status || (cases[i].status == 400 && status == 505);
        cr_expect(good, "case %zu: %u instead of %u for %s", i, status, cases[i].status, cases[i].text);
    }
    static const char zero[] = GET "X: a\0b\r\n\r\n";
    cr_assert_eq(status_of(zero, sizeof zero - 1), 400);
    /* Long and many. */
    static char large[DOP_HTTP_MAX_HEAD + 100];
    memset(large, 'a', sizeof large);
    memcpy(large, "GET /", 5);
    cr_assert_eq(status_of(large, sizeof large), 431);
    for (int more = 0; more < 2; more++) { /* GET has one field */
        size_t n = (size_t)sprintf(large, GET);
        for (int i = 0; i < DOP_HTTP_MAX_FIELDS - 1 + more; i++)
            n += (size_t)sprintf(large + n, "a: b\r\n");
        n += (size_t)sprintf(large + n, "\r\n");
        cr_expect_eq(status_of(large, n), more ? 431 : 200, "%d fields", DOP_HTTP_MAX_FIELDS + more);
    }
    for (int more = 0; more < 2; more++) {
        size_t n = (size_t)sprintf(large, GET "a: ");
        memset(large + n, 'b', sizeof large - n);
        memcpy(large + DOP_HTTP_MAX_HEAD - 4 + more, "\r\n\r\n", 4);
        cr_expect_eq(status_of(large, (size_t)DOP_HTTP_MAX_HEAD + (size_t)more), more ? 431 : 200, "%d bytes",
                     DOP_HTTP_MAX_HEAD + more);
    }
}

/* Reads a body that comes in pieces; NULL: it is refused. */
static char *
unchunk(const char *text, size_t piece, bool *out_done)
{
    dop_http_chunks c = {0};
    dop_http_fault fault;
    dop_buf body = {0};
    dop_http_read r = DOP_HTTP_MORE;
    size_t n = strlen(text), at = 0;
    while (r == DOP_HTTP_MORE && at < n) {
        size_t used = 0, k = 0, more = n - at < piece ? n - at : piece;
        const char *data = NULL;
        r = dop_http_read_chunks(&c, text + at, more, &used, &data, &k, &fault);
        if (r == DOP_HTTP_WRONG)
            break;
        cr_assert(used > 0 && used <= more);
        dop_buf_append(&body, data, k);
        at += used;
    }
    *out_done = r == DOP_HTTP_DONE;
    dop_buf_append(&body, "", 1);
    if (r != DOP_HTTP_WRONG)
        return body.data;
    dop_buf_finish(&body);
    return NULL;
}

/* An extension or a trailer of n characters. */
static bool
skips(bool trailer, int n)
{
    static char text[DOP_HTTP_MAX_TRAILER + 100], row[DOP_HTTP_MAX_TRAILER + 10];
    bool done = false;
    memset(row, 'x', sizeof row);
    snprintf(text, sizeof text, trailer ? "0\r\n%.*s\r\n\r\n" : "0;%.*s\r\n\r\n", n, row);
    char *body = unchunk(text, 100, &done);
    free(body);
    return body && done;
}

Test(http, chunks)
{
    /* The first character of a trailer's line is not counted. */
    cr_expect(skips(false, DOP_HTTP_MAX_TRAILER) && !skips(false, DOP_HTTP_MAX_TRAILER + 1));
    cr_expect(skips(true, DOP_HTTP_MAX_TRAILER + 1) && !skips(true, DOP_HTTP_MAX_TRAILER + 2));
    static const struct {
        const char *text, *body; /* body NULL: refused; "-": not complete */
    } cases[] = {
        {"3\r\nabc\r\n0\r\n\r\n", "abc"},
        {"3\r\nabc\r\nA;x=\"y\"\r\n0123456789\r\n000\r\nTrailer: t\r\n\r\n", "abc0123456789"},
        {"0\r\n\r\n", ""},
        {"3\r\nab", "-"},
        {"3\r\nabc\r\n0\r\n", "-"},
        {"3\nabc\r\n0\r\n\r\n", NULL},
        {"3\r\nabc\n0\r\n\r\n", NULL},
        {"3\r\nabcd\r\n0\r\n\r\n", NULL},
        {"3 \r\nabc\r\n0\r\n\r\n", NULL},
        {" 3\r\nabc\r\n0\r\n\r\n", NULL},
        {"0x3\r\nabc\r\n0\r\n\r\n", NULL},
        {"+3\r\nabc\r\n0\r\n\r\n", NULL},
        {"-1\r\nabc\r\n0\r\n\r\n", NULL},
        {"\r\nabc\r\n0\r\n\r\n", NULL},
        {";x\r\nabc\r\n0\r\n\r\n", NULL},
        {"3;\nabc\r\n0\r\n\r\n", NULL},
        {"3\r\nabc\r\n0\r\n\n", NULL},
        {"3\r\nabc\r\n0\r\nT: a\n\r\n", NULL},
        {"3\r\nabc\r\n0\r\n folded\r\n\r\n", NULL},
        {"1000000000000000\r\n", NULL},
        {"ffffffffffffffff\r\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece < 40; piece = piece * 2 + 1) {
            bool done;
            char *body = unchunk(cases[i].text, piece, &done);
            if (!cases[i].body)
                cr_expect_null(body, "case %zu, pieces of %zu", i, piece);
            else if (strcmp(cases[i].body, "-") == 0)
                cr_expect(body && !done, "case %zu, pieces of %zu", i, piece);
            else
                cr_expect(body && done && strcmp(body, cases[i].body) == 0, "case %zu, pieces of %zu", i, piece);
            free(body);
        }
    dop_http_chunks c = {0}; /* an extension without end */
    dop_http_fault fault;
    dop_http_read r = dop_http_read_chunks(&c, "3;", 2, &(size_t){0}, &(const char *){0}, &(size_t){0}, &fault);
    for (int i = 0; i < 100000 && r == DOP_HTTP_MORE; i++)
        r = dop_http_read_chunks(&c, "xxxxxxxxxx", 10, &(size_t){0}, &(const char *){0}, &(size_t){0}, &fault);
    cr_assert_eq(r, DOP_HTTP_WRONG);
}

Test(http, keys)
{
    static const char text[] =
        "\xef\xbb\xbf# people\r\n\r\n  secret-1  \r\n   \t \r\n\tsecret-2\n#secret-3\n  # secret-4\nabc";
    dop_http_keys keys = {0};
    dop_diag diag = {0};
    cr_assert_eq(dop_http_keys_read("keys", text, &diag, &keys), DOP_OK);
    cr_assert_eq(keys.n, 3);
    static const char *const good[] = {"Bearer secret-1", "bearer secret-2", "BEARER  abc"}, *const bad[] = {
                                                                                                 "Bearer ",
                                                                                                 "Bearer",
                                                                                                 "",
                                                                                                 "secret-1",
                                                                                                 "Bearer secret-",
                                                                                                 "Bearer secret-11",
                                                                                                 "Bearer people",
                                                                                                 "Bearer  ",
                                                                                                 "Bearer #secret-3",
                                                                                                 "Bearer secret-3",
                                                                                                 "Bearer \xef\xbb\xbf",
                                                                                                 "Basic abc",
                                                                                                 "Bearer abc ",
                                                                                                 "Bearer ABC"};
    dop_http_client whose;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_expect(dop_http_keys_admit(&keys, good[i], NULL, &whose), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(!dop_http_keys_admit(&keys, bad[i], NULL, &whose), "%s", bad[i]);
    cr_assert(!dop_http_keys_admit(&keys, NULL, NULL, &whose));
    cr_assert(dop_http_keys_admit(&keys, NULL, good[0] + strlen("Bearer "), &whose));
    cr_assert(!dop_http_keys_admit(&keys, NULL, "", &whose) && !dop_http_keys_admit(&keys, NULL, good[0], &whose));
    dop_http_keys_finish(&keys);
    static const char *const none[] = {"", "\n\r\n", "  \n\t\n", "# only this\n", "\xef\xbb\xbf", "\xef\xbb\xbf\n#\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        cr_expect_eq(dop_http_keys_read("keys", none[i], &diag, &keys), DOP_E_INPUT, "case %zu", i);
        dop_http_keys_finish(&keys);
    }
    dop_diag where = {0};
    cr_assert_eq(dop_http_keys_read("keys", "good\ntwo words\n", &where, &keys), DOP_E_INPUT);
    cr_assert_eq(where.line, 2);
    dop_http_keys_finish(&keys);
}

Test(http, names)
{
    static const char *const added[] = {"my.name"};
    const dop_http_names loopback = {.bound = "127.0.0.1", .loopback = true, .machine = "box"},
                         more = {.bound = "::1", .loopback = true, .added = added, .n_added = 1},
                         network = {.bound = "0.0.0.0", .machine = "box", .added = added, .n_added = 1};
    static const struct {
        const char *host;
        bool loopback, more, network;
    } cases[] = {
        {"localhost", 1, 1, 1},
        {"LocalHost:8080", 1, 1, 1},
        {"127.0.0.1:8080", 1, 1, 1},
        {"[::1]:80", 1, 1, 1},
        {"127.0.0.1", 1, 1, 1},
        {"[::1]", 1, 1, 1},
        {"my.name:80", 0, 1, 1},
        {"MY.NAME", 0, 1, 1},
        {"192.168.1.2:80", 0, 0, 1},
        {"[fe80::1]", 0, 0, 1},
        {"box", 0, 0, 1},
        {"Box.local:80", 0, 0, 1},
        {"box.evil.example", 0, 0, 0},
        {"evil.example", 0, 0, 0},
        {"localhost.evil.example", 0, 0, 0},
        {"127.0.0.1.evil.example", 0, 0, 0},
        {"evil.example:8080", 0, 0, 0},
        {"localhost:80.evil", 0, 0, 0},
        {"", 0, 0, 0},
        {":80", 0, 0, 0},
        {"[::1", 0, 0, 0},
        {"[::1]evil", 0, 0, 0},
        {"[]", 0, 0, 0},
        {"localhost.", 0, 0, 0},
        {"a@localhost", 0, 0, 0},
        {"127.0.0.1:80:80", 0, 0, 0},
        {"*", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(dop_http_names_has(&loopback, cases[i].host), cases[i].loopback, "loopback: %s", cases[i].host);
        cr_expect_eq(dop_http_names_has(&more, cases[i].host), cases[i].more, "more: %s", cases[i].host);
        cr_expect_eq(dop_http_names_has(&network, cases[i].host), cases[i].network, "network: %s", cases[i].host);
    }
    cr_assert(dop_http_names_has(&loopback, NULL));
    static const char *const any[] = {"*"};
    const dop_http_names all = {.bound = "0.0.0.0", .added = any, .n_added = 1};
    cr_assert(dop_http_names_has(&all, "evil.example"));
    static const struct {
        const char *origin, *host;
        bool good;
    } origins[] = {
        {"http://localhost:8080", "localhost:8080", true},
        {"http://LOCALHOST:8080", "localhost:8080", true},
        {"http://localhost", "localhost:80", true},
        {"https://localhost", "localhost:443", true},
        {"https://localhost", "localhost", true},
        {"http://[::1]:8080", "[::1]:8080", true},
        {"https://my.name", "127.0.0.1:8080", true},
        {"http://localhost:8081", "localhost:8080", false},
        {"http://127.0.0.1:8080", "localhost:8080", false},
        {"http://evil.example", "localhost:8080", false},
        {"http://localhost:8080.evil.example", "localhost:8080", false},
        {"http://evil.example/http://localhost:8080", "localhost:8080", false},
        {"null", "localhost:8080", false},
        {"", "localhost:8080", false},
        {"file://", "localhost:8080", false},
        {"localhost:8080", "localhost:8080", false},
        {"http://localhost:8080", NULL, false},
    };
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
        cr_expect_eq(dop_http_names_has_origin(&more, origins[i].origin, origins[i].host), origins[i].good, "%s to %s",
                     origins[i].origin, origins[i].host ? origins[i].host : "nobody");
    cr_assert(!dop_http_names_has_origin(&all, "http://evil.example", "localhost"));
}

Test(http, json)
{
    static const char *const good[] = {"application/json", "Application/JSON", "application/json; charset=utf-8",
                                       "application/json;charset=utf-8", "application/json ; x=y"},
                             *const bad[] = {"",
                                             "application/jsonfoo",
                                             "application/json-patch+json",
                                             "application/json,text/plain",
                                             "text/plain",
                                             "text/plain; application/json",
                                             "application/x-www-form-urlencoded",
                                             "multipart/form-data; boundary=x",
                                             " application/json",
                                             "application/json x"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_expect(dop_http_is_json(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(!dop_http_is_json(bad[i]), "%s", bad[i]);
    cr_assert(!dop_http_is_json(NULL));
}

Test(http, prefixes_and_origins)
{
    static const char *const sites[] = {"https://a.example", "http://b.example:81"}, *const any[] = {"*"};
    cr_assert_str_eq(dop_http_behind_prefix("/llm", "/llm/v1/models"), "/v1/models");
    cr_assert_str_eq(dop_http_behind_prefix("/llm", "/llm"), "");
    cr_assert_null(dop_http_behind_prefix("/llm", "/llmx"));
    static const char *const tidied[][2] = {{"/", "/"},
                                            {"//", "/"},
                                            {"", ""},
                                            {"/v1/models", "/v1/models"},
                                            {"//v1//models///", "/v1/models"},
                                            {"/v1/models/", "/v1/models"}};
    for (size_t i = 0; i < sizeof tidied / sizeof *tidied; i++) {
        char path[32];
        strcpy(path, tidied[i][0]);
        dop_http_tidy_path(path);
        cr_assert_str_eq(path, tidied[i][1]);
    }
    cr_assert_null(dop_http_behind_prefix("/llm", "/v1/models"));
    cr_assert_str_eq(dop_http_behind_prefix(NULL, "/v1"), "/v1");
    cr_assert_str_eq(dop_http_behind_prefix("", "*"), "*");
    cr_assert(dop_http_allows_origin(sites, 2, "https://A.example"));
    cr_assert(!dop_http_allows_origin(sites, 2, "http://a.example"));
    cr_assert(!dop_http_allows_origin(sites, 2, "http://b.example"));
    cr_assert(!dop_http_allows_origin(sites, 0, "null"));
    cr_assert(dop_http_allows_origin(any, 1, "null"));
}

Test(http, keys_with_priorities)
{
    dop_http_keys keys;
    dop_http_client a, b, c;
    static const char *const wrong[] = {"a priority=\n",  "a priority=x",   "a priority=101",
                                        "a b priority=1", "a priority=1 b", "a priority=1.5"};
    cr_assert_eq(dop_http_keys_read("keys", "one\ntwo priority=7\n three\tpriority=-3 \npriority=9\n", NULL, &keys),
                 DOP_OK);
    cr_assert_eq(keys.n, 4);
    cr_assert(dop_http_keys_admit(&keys, "Bearer one", NULL, &a) && a.priority == 0);
    cr_assert(dop_http_keys_admit(&keys, "Bearer two", NULL, &b) && b.priority == 7 && a.id != b.id);
    cr_assert(dop_http_keys_admit(&keys, NULL, "three", &c) && c.priority == -3);
    cr_assert(dop_http_keys_admit(&keys, NULL, "priority=9", &c) && c.priority == 0);
    cr_assert(!dop_http_keys_admit(&keys, NULL, "two priority=7", &c));
    dop_http_keys_finish(&keys);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect_eq(dop_http_keys_read("keys", wrong[i], NULL, &keys), DOP_E_INPUT, "%s", wrong[i]);
        dop_http_keys_finish(&keys);
    }
}
