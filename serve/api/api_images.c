/* Images of a conversation: replaces message parts with URIs by marks in the text, and loads the images. */
#include "serve/api/api_images.h"

#include "base/encoding/base64.h"
#include "runtime/library/images.h"
#include "serve/api/api_gather.h"
#include "serve/api/api_json.h"
#include "serve/api/api_read.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* maximum bytes of a fetched image, and seconds for one image and for all */
enum { MAX_BYTES = 32 << 20, PICTURE_SECONDS = 10, REQUEST_SECONDS = 20 };

/* Location of an image in a message. */
typedef struct place {
    const char *uri;    /* NULL: no URI */
    const char *base64; /* base64 data of an Anthropic block; NULL: none */
} place;

/* Finds the image in a part: "image_url" of chat completions, "input_image" of Responses, "image" of Messages.
 * Returns false if the part is not an image. */
static bool
find_image_place(const json_t *part, place *out)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *source = json_object_get(part, "source"), *v = json_object_get(part, "image_url");
    *out = (place){.uri = json_string_value(json_is_object(v) ? json_object_get(v, "url") : v)};
    if (!type || strcmp(type, "image") != 0)
        return type && (strcmp(type, "image_url") == 0 || strcmp(type, "input_image") == 0);
    const char *kind = json_string_value(json_object_get(source, "type"));
    out->uri = kind && strcmp(kind, "url") == 0 ? json_string_value(json_object_get(source, "url")) : NULL;
    out->base64 = kind && strcmp(kind, "base64") == 0 ? json_string_value(json_object_get(source, "data")) : NULL;
    return true;
}

static bool
has_uri_scheme(const char *uri, const char *scheme)
{
    return strncasecmp(uri, scheme, strlen(scheme)) == 0;
}

static bool
decode_image_base64(dop_budget *budget, dop_reader *r, const char *param, const char *text, const char *what,
                    dop_buf *out)
{
    const size_t n = strlen(text);
    if (!dop_budget_take(budget, n))
        dop_reader_refuse(r, param, "the pictures take too much memory");
    else if (!dop_base64_decode_loose(text, n, out) || out->size == 0)
        dop_reader_refuse(r, param, "%s is not base64", what);
    return !r->failed;
}

/* Appends a text with its %XX escapes decoded. */
static void
append_unescaped(const char *at, dop_buf *out)
{
    for (; *at; at++) {
        unsigned byte = (unsigned char)*at;
        int n = 0;
        if (*at == '%' && sscanf(at + 1, "%2x%n", &byte, &n) == 1 && n == 2)
            at += 2;
        dop_buf_append(out, &(char){(char)byte}, 1);
    }
}

/* True if the head of a data: URI, before the comma, ends with ";base64". Blanks after the semicolon are permitted. */
static bool
is_base64_head(const char *head, const char *comma)
{
    static const char form[] = "base64";
    const size_t n = sizeof form - 1;
    while (comma > head && comma[-1] == ' ')
        comma--;
    if ((size_t)(comma - head) < n || !has_uri_scheme(comma - n, form))
        return false;
    comma -= n;
    while (comma > head && comma[-1] == ' ')
        comma--;
    return comma > head && comma[-1] == ';';
}

bool
dop_reader_data(dop_reader *r, const char *param, const char *uri, dop_budget *budget, dop_buf *out)
{
    const char *comma = strchr(uri, ',');
    if (!has_uri_scheme(uri, "data:")) {
        dop_reader_refuse(r, param, "%s is a picture as a data: URI", param);
    } else if (!comma || !is_base64_head(uri, comma)) {
        dop_reader_refuse(r, param, "the data: URI of a picture has no base64");
    } else if (!strchr(comma, '%')) {
        decode_image_base64(budget, r, param, comma + 1, "the data: URI of a picture", out);
    } else {
        dop_buf plain = {0};
        if (dop_budget_take(budget, strlen(comma)))
            append_unescaped(comma + 1, &plain);
        dop_buf_append(&plain, "", 1);
        decode_image_base64(budget, r, param, plain.failed ? "" : plain.data, "the data: URI of a picture", out);
        dop_buf_finish(&plain);
    }
    return !r->failed;
}

/* Fetches the bytes of a URL. All images of a request share REQUEST_SECONDS. */
static void
fetch_image_url(dop_request_images *x, dop_reader *r, const char *url, dop_buf *out)
{
    dop_diag diag = {0};
    const double left = REQUEST_SECONDS - x->fetched_ms / 1e3, before = dop_now_ms();
    const size_t most = x->budget && x->budget->bytes < MAX_BYTES ? (size_t)x->budget->bytes : MAX_BYTES;
    if (left <= 0) {
        dop_reader_refuse(r, "messages", "fetching the pictures of the request takes longer than %d seconds",
                          REQUEST_SECONDS);
        return;
    }
    const dop_status st = x->urls->fetch(x->urls->user, url, most, left < PICTURE_SECONDS ? left : PICTURE_SECONDS,
                                         x->budget ? x->budget->cancelled : NULL, &diag, out);
    x->fetched_ms += dop_now_ms() - before;
    if (st != DOP_OK)
        dop_reader_fail(r, "messages", &diag, x->budget);
    else if (!dop_budget_take(x->budget, out->size))
        dop_reader_refuse(r, "messages", "the pictures take too much memory");
}

/* Returns the decoded path of file:///PATH, or of file:PATH relative to the directory. NULL: it has NUL bytes, or
 * memory ran out. */
static char *
make_file_url_path(const char *folder, const char *uri)
{
    dop_buf path = {0};
    const char *at = uri + strlen("file:");
    at += strncmp(at, "//", 2) == 0 ? 2 : 0;
    at += strncmp(at, "localhost/", 10) == 0 ? 9 : 0;
    if (*at != '/')
        dop_buf_printf(&path, "%s/", folder);
    append_unescaped(at, &path);
    path.failed |= path.data && memchr(path.data, 0, path.size) != NULL;
    dop_buf_append(&path, "", 1);
    if (!path.failed)
        return path.data;
    dop_buf_finish(&path);
    return NULL;
}

/* Opens a file if it is inside the directory after all symbolic links are resolved. Returns -1 otherwise. */
static int
open_file_below(const char *folder, const char *path)
{
    char *root = realpath(folder, NULL), *full = realpath(path, NULL);
    const size_t n = root ? strlen(root) : 0;
    const bool below = root && full && strncmp(full, root, n) == 0 && (n == 1 || full[n] == '/');
    const int fd = below ? open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY) : -1;
    free(root);
    free(full);
    return fd;
}

/* Reads the file of a file: URL. Files outside the directory give the same error as missing files. */
static void
read_image_file(dop_request_images *x, dop_reader *r, const char *uri, dop_buf *out)
{
    struct stat sb;
    char *path = make_file_url_path(x->urls->folder, uri);
    const int fd = path ? open_file_below(x->urls->folder, path) : -1;
    dop_free(path);
    const bool ok = fd >= 0 && fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode);
    if (!ok) {
        dop_reader_refuse(r, "messages", "the folder of --image-files has no such picture");
    } else if (sb.st_size > MAX_BYTES) {
        dop_reader_refuse(r, "messages", "the picture is longer than %d bytes", MAX_BYTES);
    } else if (!dop_budget_take(x->budget, (uint64_t)sb.st_size)) {
        dop_reader_refuse(r, "messages", "the pictures take too much memory");
    } else {
        char part[16384];
        ssize_t n;
        while ((n = read(fd, part, sizeof part)) > 0 && out->size + (size_t)n <= MAX_BYTES)
            dop_buf_append(out, part, (size_t)n);
        if (n != 0 || out->failed)
            dop_reader_refuse(r, "messages", "the picture cannot be read");
    }
    if (fd >= 0)
        close(fd);
}

/* Loads the bytes of a URI. Returns false if the request was refused. */
static bool
load_image_uri(dop_request_images *x, dop_reader *r, const char *uri, dop_buf *out)
{
    uri += strspn(uri, " \t\r\n");
    const bool web = has_uri_scheme(uri, "http:") || has_uri_scheme(uri, "https:"), file = has_uri_scheme(uri, "file:");
    if (has_uri_scheme(uri, "data:"))
        dop_reader_data(r, "messages", uri, x->budget, out);
    else if (web && x->urls && x->urls->fetch)
        fetch_image_url(x, r, uri, out);
    else if (file && x->urls && x->urls->folder)
        read_image_file(x, r, uri, out);
    else
        dop_reader_refuse(r, "messages",
                          file ? "this server reads no files (--image-files): send pictures as data: URIs"
                               : "this server fetches no pictures (--image-urls): send them as data: URIs");
    return !r->failed;
}

bool
dop_request_image(dop_request_images *x, dop_reader *r, const json_t *part, dop_buf *text)
{
    place at;
    dop_buf bytes = {0};
    dop_diag diag = {0};
    if (!find_image_place(part, &at))
        return false;
    if (!x || !x->eyes)
        dop_reader_refuse(r, "messages", "the model takes no pictures");
    else if (!at.uri && !at.base64)
        dop_reader_refuse(r, "messages",
                          json_object_get(part, "source")
                              ? "the source of a picture is {\"type\": \"base64\", \"data\": ...} or a url"
                              : "the picture of a message is {\"image_url\": {\"url\": \"data:...\"}}");
    else if (x->n == DOP_REQUEST_MAX_IMAGES)
        dop_reader_refuse(r, "messages", "the request has more than %d pictures", DOP_REQUEST_MAX_IMAGES);
    else if ((at.base64 ? decode_image_base64(x->budget, r, "messages", at.base64, "the data of a picture", &bytes)
                        : load_image_uri(x, r, at.uri, &bytes)) &&
             dop_image_read_within(x->eyes, bytes.data, bytes.size, false, x->budget, &diag, &x->list[x->n]) != DOP_OK)
        dop_reader_fail(r, "messages", &diag, x->budget);
    dop_buf_finish(&bytes);
    if (r->failed)
        return true;
    x->n++;
    const dop_image_processor *p = dop_images_processor(x->eyes);
    dop_buf_puts(text, p->before);
    dop_buf_puts(text, p->placeholder);
    dop_buf_puts(text, p->after);
    return true;
}

void
dop_request_images_finish(dop_request_images *x)
{
    while (x->n > 0)
        dop_image_close(x->list[--x->n]);
}

dop_status
dop_request_images_encode(const dop_request_images *x, const dop_tokenizer *tok, const dop_buf *text, dop_diag *diag,
                          dop_ids *out_ids)
{
    dop_buf expanded = {0};
    if (x->n == 0)
        return dop_chat_encode(tok, text, true, x->budget, diag, out_ids);
    dop_status st = DOP_OK;
    DOP_TRY(dop_images_expand(x->eyes, text->data ? text->data : "", text->size, x->list, x->n, diag, &expanded.data,
                              &expanded.size));
    DOP_TRY(dop_chat_encode(tok, &expanded, true, x->budget, diag, out_ids));
    if (!dop_images_fit(x->eyes, out_ids->data, out_ids->count, x->list, x->n))
        DOP_TRY(DOP_FAIL(diag, DOP_E_INPUT, "a text of the conversation has tokens that stand for pictures"));
error:
    dop_free(expanded.data);
    return st;
}
