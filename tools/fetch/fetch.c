#include "tools/fetch/fetch.h"

#include "base/os/log.h"
#include "base/progress.h"
#include "tools/fetch/hub.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MOST_PAGES = 200, MOST_ANSWER = 16 << 20, TRIES = 5, STALL_SECONDS = 60 };

typedef struct fetch {
    const dop_fetch_request *r;
    dop_hub_name name;
    dop_diag *diag;
    CURL *curl;
    struct curl_slist *headers;
    char error[CURL_ERROR_SIZE];
    char *root;         /* owned: folder of this model */
    uint64_t done, all; /* bytes of all files: downloaded, total */
} fetch;

/* --- requests ----------------------------------------------------------------------------------------------------------------- */

/* Sets the options common to all requests. */
static void
set_request(fetch *f, const char *url)
{
    const bool secret = strncmp(f->r->endpoint, "https://", 8) == 0;
    curl_easy_reset(f->curl);
    f->error[0] = 0;
    curl_easy_setopt(f->curl, CURLOPT_URL, url);
    curl_easy_setopt(f->curl, CURLOPT_ERRORBUFFER, f->error);
    curl_easy_setopt(f->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(f->curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(f->curl, CURLOPT_MAXREDIRS, 8L);
    curl_easy_setopt(f->curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(f->curl, CURLOPT_USERAGENT, "doppler/" DOP_VERSION);
    curl_easy_setopt(f->curl, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(f->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(f->curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
    curl_easy_setopt(f->curl, CURLOPT_PROTOCOLS_STR, secret ? "https" : "http,https");
    curl_easy_setopt(f->curl, CURLOPT_REDIR_PROTOCOLS_STR, secret ? "https" : "http,https");
    curl_easy_setopt(f->curl, CURLOPT_HTTPHEADER, f->headers); /* libcurl sends the token to no other host */
}

/* Converts a failed request into a message for the user. */
static dop_status
explain_fetch_failure(fetch *f, CURLcode code, const char *what)
{
    long status = 0;
    curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_HTTP_RETURNED_ERROR && (status == 401 || status == 403))
        return DOP_FAIL(f->diag, DOP_E_INPUT, "-hf %s: %s refuses access (HTTP %ld): %s", f->r->name, f->r->endpoint,
                        status,
                        f->r->token ? "HF_TOKEN must be of an account that may read this model"
                                    : "the model does not exist, or needs an account: set HF_TOKEN");
    if (code == CURLE_HTTP_RETURNED_ERROR && status == 404)
        return DOP_FAIL(f->diag, DOP_E_INPUT, "-hf %s: %s has no such %s", f->r->name, f->r->endpoint, what);
    return DOP_FAIL(f->diag, DOP_E_IO, "-hf %s: cannot get the %s from %s: %s", f->r->name, what, f->r->endpoint,
                    f->error[0] ? f->error : curl_easy_strerror(code));
}

/* True if the failure may be temporary. */
static bool
is_temporary_failure(fetch *f, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &status);
    return code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
           code == CURLE_GOT_NOTHING || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_COULDNT_CONNECT ||
           code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM ||
           (code == CURLE_HTTP_RETURNED_ERROR && (status == 429 || status >= 500));
}

/* True if the server or a proxy does not support range requests. */
static bool
refuses_range(fetch *f, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &status);
    return code == CURLE_RANGE_ERROR || (code == CURLE_HTTP_RETURNED_ERROR && status == 416);
}

/* Waits before retry number `try`, which starts at 1. */
static void
pause_before(unsigned try)
{
    usleep(200000u << try);
}

static size_t
take_answer(char *bytes, size_t one, size_t n, void *user)
{
    dop_buf *out = user;
    (void)one;
    if (out->size + n > MOST_ANSWER)
        return 0;
    dop_buf_append(out, bytes, n);
    return out->failed ? 0 : n;
}

/* Extracts the URL of the next page from the header Link: <URL>; rel="next". */
static size_t
take_link(char *bytes, size_t one, size_t n, void *user)
{
    dop_buf *out = user, line = {0};
    (void)one;
    dop_buf_append(&line, bytes, n);
    if (line.data && strncasecmp(line.data, "link:", 5) == 0) {
        const char *next = strstr(line.data, "rel=\"next\""), *from = strchr(line.data, '<');
        const char *to = from ? strchr(from, '>') : NULL;
        if (next && to && to < next)
            dop_buf_append(out, from + 1, (size_t)(to - from) - 1);
    }
    dop_buf_finish(&line);
    return n;
}

/* Appends a path, with each component percent-encoded. */
static void
put_path(CURL *curl, const char *path, dop_buf *out)
{
    while (*path) {
        const size_t len = strcspn(path, "/");
        char *part = curl_easy_escape(curl, path, (int)len);
        dop_buf_puts(out, part ? part : "");
        curl_free(part);
        path += len;
        if (*path == '/') {
            dop_buf_puts(out, "/");
            path++;
        }
    }
}

/* Appends the revision as one percent-encoded URL component, even if it has slashes (refs/pr/1). */
static void
put_revision(const fetch *f, dop_buf *out)
{
    char *part = curl_easy_escape(f->curl, f->name.revision, 0);
    dop_buf_puts(out, part ? part : "");
    curl_free(part);
}

static dop_status
list_files(fetch *f, dop_hub_files *files)
{
    dop_buf url = {0}, next = {0}, answer = {0};
    dop_status st = DOP_OK;
    dop_buf_printf(&url, "%s/api/models/%s/tree/", f->r->endpoint, f->name.repo);
    put_revision(f, &url);
    dop_buf_puts(&url, "?recursive=true");
    for (int page = 0; st == DOP_OK && url.size > 0 && page < MOST_PAGES; page++) {
        CURLcode code = CURLE_OK;
        for (unsigned i = 0; i == 0 || (i < TRIES && code != CURLE_OK && is_temporary_failure(f, code)); i++) {
            if (i > 0)
                pause_before(i);
            answer.size = next.size = 0;
            set_request(f, url.data);
            curl_easy_setopt(f->curl, CURLOPT_WRITEFUNCTION, take_answer);
            curl_easy_setopt(f->curl, CURLOPT_WRITEDATA, &answer);
            curl_easy_setopt(f->curl, CURLOPT_HEADERFUNCTION, take_link);
            curl_easy_setopt(f->curl, CURLOPT_HEADERDATA, &next);
            code = curl_easy_perform(f->curl);
        }
        if (code != CURLE_OK)
            st = explain_fetch_failure(f, code, "model");
        else
            st = dop_hub_files_read(answer.data ? answer.data : "", answer.size, f->name.repo, f->diag, files);
        url.size = 0;
        /* Ignores pages of other servers, which would receive the token. */
        const size_t n = strlen(f->r->endpoint);
        if (next.size > n && strncmp(next.data, f->r->endpoint, n) == 0 && next.data[n] == '/')
            dop_buf_append(&url, next.data, next.size);
        else if (next.size && next.data[0] == '/')
            dop_buf_printf(&url, "%s%s", f->r->endpoint, next.data);
    }
    if (st == DOP_OK && (url.failed || next.failed || answer.failed))
        st = DOP_NO_MEMORY(f->diag);
    dop_buf_finish(&url);
    dop_buf_finish(&next);
    dop_buf_finish(&answer);
    return st;
}

/* --- files -------------------------------------------------------------------------------------------------------------------- */

/* File being downloaded. */
typedef struct download {
    fetch *f;
    const dop_hub_file *file;
    int fd;
    uint64_t at;    /* bytes written so far */
    bool begun;     /* an answer has begun */
    bool resumed;   /* a previous request left bytes */
    bool cancelled; /* the caller cancelled */
    int error;      /* errno of a failed write; 0: none */
} download;

/* Restarts a download because the server sends the whole file. */
static bool
restart_download(download *d)
{
    d->f->done -= d->at;
    d->at = 0;
    d->error = ftruncate(d->fd, 0) == 0 ? 0 : errno;
    return d->error == 0;
}

static size_t
take_bytes(char *bytes, size_t one, size_t n, void *user)
{
    download *d = user;
    (void)one;
    if (!d->begun) {
        long status = 0;
        curl_easy_getinfo(d->f->curl, CURLINFO_RESPONSE_CODE, &status);
        if (d->at > 0 && status != 206 && !restart_download(d))
            return 0;
        d->begun = true;
    }
    for (size_t k = 0; k < n;) {
        const ssize_t w = pwrite(d->fd, bytes + k, n - k, (off_t)(d->at + k));
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0) {
            d->error = w < 0 ? errno : ENOSPC;
            return 0;
        }
        k += (size_t)w;
    }
    d->at += n;
    d->f->done += n;
    if (d->at > d->file->size) /* more than the listed size */
        return 0;
    return n;
}

static int
on_progress(void *user, curl_off_t all, curl_off_t now, curl_off_t up_all, curl_off_t up)
{
    download *d = user;
    (void)all;
    (void)now;
    (void)up_all;
    (void)up;
    d->cancelled = d->cancelled || !dop_progress_report(&d->f->r->progress, "download", d->f->done, d->f->all);
    return d->cancelled;
}

/* Downloads the missing bytes of a file. */
static dop_status
get_bytes(download *d, const char *part)
{
    fetch *f = d->f;
    CURLcode code = CURLE_OK;
    dop_buf url = {0};
    dop_buf_printf(&url, "%s/%s/resolve/", f->r->endpoint, f->name.repo);
    put_revision(f, &url);
    dop_buf_puts(&url, "/");
    put_path(f->curl, d->file->path, &url);
    if (url.failed) {
        dop_buf_finish(&url);
        return DOP_NO_MEMORY(f->diag);
    }
    for (unsigned i = 0; i < TRIES && d->at < d->file->size; i++) {
        if (i > 0)
            pause_before(i);
        d->begun = false;
        set_request(f, url.data);
        curl_easy_setopt(f->curl, CURLOPT_WRITEFUNCTION, take_bytes);
        curl_easy_setopt(f->curl, CURLOPT_WRITEDATA, d);
        curl_easy_setopt(f->curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(f->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(f->curl, CURLOPT_XFERINFODATA, d);
        if (d->at > 0) {
            char range[48];
            snprintf(range, sizeof range, "%" PRIu64 "-", d->at);
            curl_easy_setopt(f->curl, CURLOPT_RANGE, range);
            d->resumed = true;
        }
        const uint64_t before = d->at;
        code = curl_easy_perform(f->curl);
        if (d->at > before)
            i = 0;
        if (d->at > 0 && refuses_range(f, code)) {
            restart_download(d);
            continue;
        }
        if (code != CURLE_OK && !is_temporary_failure(f, code))
            break;
        if (code == CURLE_OK && d->at == before) /* empty answer */
            break;
    }
    dop_buf_finish(&url);
    if (d->cancelled)
        return DOP_CANCELLED(f->diag);
    if (d->error)
        return DOP_FAIL_IN(f->diag, DOP_E_IO, part, "cannot write: %s; --cache-dir names another folder",
                           strerror(d->error));
    if (d->at == d->file->size)
        return DOP_OK;
    return code != CURLE_OK && d->at < d->file->size
               ? explain_fetch_failure(f, code, "file")
               : DOP_FAIL(f->diag, DOP_E_INPUT, "-hf %s: the server sends %" PRIu64 " bytes of %s instead of %" PRIu64,
                          f->r->name, d->at, d->file->path, d->file->size);
}

/* Checks the digest of a complete file; *out_is: true if it matches. */
static dop_status
check_digest(fetch *f, const dop_hub_file *file, int fd, const char *path, bool *out_is)
{
    enum { PIECE = 1 << 20 };
    const bool git = strlen(file->digest) == 40;
    unsigned char value[EVP_MAX_MD_SIZE];
    char text[2 * EVP_MAX_MD_SIZE + 1] = "", head[48];
    unsigned n = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    uint8_t *bytes = malloc(PIECE);
    bool ok = md && bytes && EVP_DigestInit_ex(md, git ? EVP_sha1() : EVP_sha256(), NULL);
    dop_status st = ok ? DOP_OK : DOP_NO_MEMORY(f->diag);
    const int len = snprintf(head, sizeof head, "blob %" PRIu64, file->size);
    if (ok && git) /* Git hashes the NUL after the header, too */
        ok = EVP_DigestUpdate(md, head, (size_t)len + 1);
    for (uint64_t at = 0; ok && st == DOP_OK && at < file->size;) {
        const ssize_t k = pread(fd, bytes, PIECE, (off_t)at);
        if (k <= 0)
            st = DOP_FAIL_IN(f->diag, DOP_E_IO, path, "cannot read: %s", strerror(k < 0 ? errno : EIO));
        else
            ok = EVP_DigestUpdate(md, bytes, (size_t)k);
        at += k > 0 ? (uint64_t)k : 0;
        if (st == DOP_OK && !dop_progress_report(&f->r->progress, "checking", at, file->size))
            st = DOP_CANCELLED(f->diag);
    }
    ok = ok && st == DOP_OK && EVP_DigestFinal_ex(md, value, &n);
    for (unsigned i = 0; ok && i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", value[i]);
    *out_is = ok && strcmp(text, file->digest) == 0;
    EVP_MD_CTX_free(md);
    free(bytes);
    return st;
}

static int
make_parents(char *path)
{
    int result = 0;
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            result = mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : errno;
            *p = '/';
        }
    return result;
}

static bool
has_size(const char *path, uint64_t size)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISREG(sb.st_mode) && (uint64_t)sb.st_size == size;
}

/* Downloads a file as PATH.part, locked by one process at a time, checks it, and renames it. */
static dop_status
get_part(fetch *f, const dop_hub_file *file, const char *path, const char *part)
{
    download d = {.f = f, .file = file};
    struct stat sb;
    bool is = false;
    if ((d.fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) < 0 || flock(d.fd, LOCK_EX) != 0 ||
        fstat(d.fd, &sb) != 0) {
        dop_status st =
            DOP_FAIL_IN(f->diag, DOP_E_IO, part, "cannot write: %s; --cache-dir names another folder", strerror(errno));
        if (d.fd >= 0)
            close(d.fd);
        return st;
    }
    dop_status st = DOP_OK;
    if (sb.st_nlink == 0 && has_size(path, file->size)) { /* another process has just finished it */
        f->done += file->size;
        close(d.fd);
        return DOP_OK;
    }
    d.at = (uint64_t)sb.st_size;
    if (d.at > file->size) {
        d.at = 0;
        if (ftruncate(d.fd, 0) != 0)
            st = DOP_FAIL_IN(f->diag, DOP_E_IO, part, "cannot write: %s", strerror(errno));
    }
    if (d.at > 0)
        dop_log_printf(&f->r->log, "%s: going on after %" PRIu64 " of %" PRIu64 " bytes", file->path, d.at, file->size);
    d.resumed = d.at > 0;
    f->done += d.at;
    if (st == DOP_OK)
        st = get_bytes(&d, part);
    if (st == DOP_OK)
        st = check_digest(f, file, d.fd, part, &is);
    if (st == DOP_OK && !is && d.resumed) { /* its start may be from another file, or the server sent a wrong range */
        dop_log_printf(&f->r->log, "%s: its beginning is of another file: once more from the start", file->path);
        f->done -= d.at;
        d.at = 0;
        st = ftruncate(d.fd, 0) == 0 ? get_bytes(&d, part)
                                     : DOP_FAIL_IN(f->diag, DOP_E_IO, part, "cannot write: %s", strerror(errno));
        if (st == DOP_OK)
            st = check_digest(f, file, d.fd, part, &is);
    }
    if (st == DOP_OK && !is)
        st = DOP_FAIL(f->diag, DOP_E_INPUT, "-hf %s: %s was damaged on its way: its digest is not %s; try again",
                      f->r->name, file->path, file->digest);
    if (st == DOP_OK && (fsync(d.fd) != 0 || rename(part, path) != 0))
        st = DOP_FAIL_IN(f->diag, DOP_E_IO, path, "cannot write: %s", strerror(errno));
    if (st == DOP_E_INPUT) /* the data is useless */
        (void)unlink(part);
    close(d.fd);
    return st;
}

static dop_status
get_file(fetch *f, const dop_hub_file *file)
{
    char *path = NULL, *part = NULL;
    dop_status st = DOP_OK;
    if (asprintf(&path, "%s/%s", f->root, file->path) < 0 || asprintf(&part, "%s.part", path) < 0)
        st = DOP_NO_MEMORY(f->diag);
    const int error = st == DOP_OK ? make_parents(path) : 0;
    bool is = false;
    if (error)
        st = DOP_FAIL_IN(f->diag, DOP_E_IO, path, "cannot make its folder: %s; --cache-dir names another one",
                         strerror(error));
    if (st == DOP_OK && has_size(path, file->size)) { /* kept from another revision or an interrupted run */
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        st = fd >= 0 ? check_digest(f, file, fd, path, &is)
                     : DOP_FAIL_IN(f->diag, DOP_E_IO, path, "cannot read: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        f->done += is ? file->size : 0;
    }
    if (st == DOP_OK && !is)
        st = get_part(f, file, path, part);
    free(path);
    free(part);
    return st;
}

/* --- models ------------------------------------------------------------------------------------------------------------------- */

/* Returns the path of the file that marks a model as complete. It has a line with the model's path, then a line per
 * file with its size. */
static char *
make_marker_path(const fetch *f)
{
    dop_buf name = {0};
    dop_buf_printf(&name, "%s/.complete-%s", f->root, f->name.file ? f->name.file : "");
    for (char *p = name.data ? name.data + strlen(f->root) + 1 : NULL; p && *p; p++)
        *p = *p == '/' ? ' ' : *p;
    if (!name.failed)
        return name.data;
    dop_buf_finish(&name);
    return NULL;
}

/* Finds a model that is completely downloaded. Returns NULL if there is none. */
static char *
find_complete(const fetch *f)
{
    char line[1200], *marker = make_marker_path(f), *model = NULL;
    FILE *in = marker ? fopen(marker, "re") : NULL;
    bool complete = in && fgets(line, sizeof line, in) != NULL;
    line[complete ? strcspn(line, "\n") : 0] = 0;
    if (complete && asprintf(&model, "%s%s%s", f->root, *line ? "/" : "", line) < 0)
        model = NULL;
    while (complete && fgets(line, sizeof line, in)) {
        char *path = NULL, *end = NULL;
        const uint64_t size = strtoull(line, &end, 10);
        line[strcspn(line, "\n")] = 0;
        complete = *end == ' ' && asprintf(&path, "%s/%s", f->root, end + 1) >= 0;
        complete = complete && has_size(path, size);
        free(complete || *end == ' ' ? path : NULL);
    }
    if (in)
        fclose(in);
    free(marker);
    if (!complete) {
        free(model);
        model = NULL;
    }
    return model;
}

static dop_status
mark_complete(const fetch *f, const dop_hub_files *files, const dop_hub_file *gguf)
{
    dop_buf text = {0};
    char *marker = make_marker_path(f);
    dop_buf_printf(&text, "%s\n", gguf ? gguf->path : "");
    for (size_t i = 0; i < files->n; i++)
        if (files->list[i].wanted)
            dop_buf_printf(&text, "%" PRIu64 " %s\n", files->list[i].size, files->list[i].path);
    dop_status st =
        marker && !text.failed ? dop_write_file(marker, text.data, text.size, f->diag) : DOP_NO_MEMORY(f->diag);
    free(marker);
    dop_buf_finish(&text);
    return st;
}

/* Returns the bytes of a file that are missing, with interrupted downloads taken into account. */
static uint64_t
count_missing_bytes(const char *path, uint64_t size)
{
    struct stat sb;
    char *part = NULL;
    uint64_t missing = has_size(path, size) ? 0 : size;
    if (missing > 0 && asprintf(&part, "%s.part", path) >= 0) {
        if (stat(part, &sb) == 0 && (uint64_t)sb.st_size <= size)
            missing = size - (uint64_t)sb.st_size;
        free(part);
    }
    return missing;
}

/* Fails if the disk has no space for the missing bytes. */
static dop_status
check_room(fetch *f)
{
    struct statvfs disk;
    char *path = strdup(f->root);
    if (!path)
        return DOP_NO_MEMORY(f->diag);
    while (statvfs(path, &disk) != 0 && strrchr(path, '/') > path) /* the folder may not exist yet */
        *strrchr(path, '/') = 0;
    const bool known = statvfs(path, &disk) == 0;
    free(path);
    const uint64_t here = known ? (uint64_t)disk.f_bavail * disk.f_frsize : UINT64_MAX;
    return here >= f->all ? DOP_OK
                          : DOP_FAIL_IN(f->diag, DOP_E_IO, f->r->dir,
                                        "%s has %.1f GB, and %.1f GB are free here: --cache-dir names another folder",
                                        f->name.repo, (double)f->all / 1e9, (double)here / 1e9);
}

static dop_status
download_model(fetch *f, char **out_path)
{
    dop_hub_files files = {.list = NULL};
    const dop_hub_file *gguf = NULL;
    dop_status st = list_files(f, &files);
    if (st == DOP_OK)
        st = dop_hub_files_choose(&files, &f->name, f->diag, &gguf);
    uint64_t missing = 0;
    for (size_t i = 0; i < files.n && st == DOP_OK; i++) {
        char *path;
        if (!files.list[i].wanted)
            continue;
        if (asprintf(&path, "%s/%s", f->root, files.list[i].path) < 0)
            st = DOP_NO_MEMORY(f->diag);
        else
            missing += count_missing_bytes(path, files.list[i].size);
        free(st == DOP_OK ? path : NULL);
        f->all += files.list[i].size;
    }
    if (st == DOP_OK && missing > 0) {
        const uint64_t all = f->all;
        f->all = missing;
        st = check_room(f);
        f->all = all;
    }
    for (size_t i = 0; i < files.n && st == DOP_OK; i++)
        if (files.list[i].wanted)
            st = get_file(f, &files.list[i]);
    if (st == DOP_OK)
        st = mark_complete(f, &files, gguf);
    if (st == DOP_OK && asprintf(out_path, "%s%s%s", f->root, gguf ? "/" : "", gguf ? gguf->path : "") < 0) {
        *out_path = NULL;
        st = DOP_NO_MEMORY(f->diag);
    }
    dop_hub_files_finish(&files);
    return st;
}

dop_status
dop_fetch(const dop_fetch_request *request, dop_diag *diag, char **out_path)
{
    fetch f = {.r = request, .diag = diag};
    *out_path = NULL;
    dop_status st = dop_hub_name_parse(request->name, diag, &f.name);
    if (st != DOP_OK)
        return st;
    const bool main = strcmp(f.name.revision, "main") == 0;
    if (asprintf(&f.root, "%s/%s%s%s", request->dir, f.name.repo, main ? "" : "@", main ? "" : f.name.revision) < 0) {
        f.root = NULL;
        st = DOP_NO_MEMORY(diag);
    }
    if (st != DOP_OK || (*out_path = find_complete(&f)) != NULL)
        goto end;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || !(f.curl = curl_easy_init())) {
        st = DOP_NO_MEMORY(diag);
        goto end;
    }
    if (request->token) {
        dop_buf header = {0};
        const size_t before = strspn(request->token, " \t\r\n");
        size_t n = strlen(request->token + before);
        while (n > 0 && strchr(" \t\r\n", request->token[before + n - 1])) /* token files often end in a newline */
            n--;
        for (size_t i = 0; i < n && st == DOP_OK; i++)
            if ((unsigned char)request->token[before + i] <= 0x20 || (unsigned char)request->token[before + i] >= 0x7f)
                st = DOP_FAIL(diag, DOP_E_USAGE, "-hf %s: HF_TOKEN is no token: it has blanks or the like",
                              request->name);
        if (st != DOP_OK)
            goto end;
        dop_buf_printf(&header, "Authorization: Bearer %.*s", (int)n, request->token + before);
        f.headers = header.data ? curl_slist_append(NULL, header.data) : NULL;
        dop_buf_finish(&header);
    }
    st = download_model(&f, out_path);
end:
    curl_slist_free_all(f.headers);
    curl_easy_cleanup(f.curl);
    free(f.root);
    dop_hub_name_finish(&f.name);
    return st;
}
