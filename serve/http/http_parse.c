#include "serve/http/http_parse.h"

#include <string.h>
#include <strings.h>

static dop_http_read
set_http_fault(dop_http_fault *out, unsigned status, const char *why)
{
    *out = (dop_http_fault){status, why};
    return DOP_HTTP_WRONG;
}

static bool
is_ascii_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* True for a token of RFC 9110, section 5.6.2. */
static bool
is_http_token(const char *text)
{
    const char *c = text;
    for (; *c; c++)
        if (!is_ascii_digit(*c) && !((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z') && !strchr("!#$%&'*+-.^_`|~", *c))
            return false;
    return c > text;
}

/* --- heads ------------------------------------------------------------------------------------------------------------------- */

/* Finds the end of the head, and rejects invalid bytes. Returns the head's size; 0: incomplete. */
static size_t
find_head_end(const char *bytes, size_t n, size_t *io_seen, dop_http_fault *fault)
{
    for (size_t i = *io_seen; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c == '\n' && (i == 0 || bytes[i - 1] != '\r')) {
            set_http_fault(fault, 400, "a line of the head ends without CR");
            return 0;
        }
        if (c != '\n' && i > 0 && bytes[i - 1] == '\r') {
            set_http_fault(fault, 400, "the head has a CR that ends no line");
            return 0;
        }
        if ((c < ' ' && c != '\t' && c != '\r' && c != '\n') || c == 127) {
            set_http_fault(fault, 400, "the head has a control character");
            return 0;
        }
        if (c == '\n' && i >= 3 && bytes[i - 3] == '\r' && bytes[i - 2] == '\n')
            return i + 1;
    }
    *io_seen = n;
    return 0;
}

/* Cuts the next line, which ends with CR LF, from the rest of a head. NULL: the empty line at the end. */
static char *
cut_head_line(char **io_at, const char *head_end)
{
    char *line = *io_at, *end = memchr(line, '\r', (size_t)(head_end - line));
    *end = 0;
    *io_at = end + 2;
    return *line ? line : NULL;
}

static bool
percent_decode(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        const int high = dop_hex_digit(from[1]), low = high < 0 ? -1 : dop_hex_digit(from[2]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        *to++ = (char)(high << 4 | low);
        from += 2;
    }
    *to = 0;
    return true;
}

/* Parses METHOD SP TARGET SP HTTP/1.x. */
static dop_http_read
read_request_line(char *line, dop_http_head *head, dop_http_fault *fault)
{
    static const char scheme[] = "http://";
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version)
        return set_http_fault(fault, 400, "the request line is not METHOD TARGET HTTP/1.1");
    *target++ = *version++ = 0;
    if (!is_http_token(line) || strlen(line) > 20)
        return set_http_fault(fault, 400, "the method of the request is not a name");
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return set_http_fault(fault, strncmp(version, "HTTP/", 5) == 0 && is_ascii_digit(version[5]) ? 505 : 400,
                              "the request line does not end with HTTP/1.1");
    head->method = line;
    head->chunks = head->persists = version[7] == '1';
    if (strncasecmp(target, scheme, strlen(scheme)) == 0) { /* absolute form, as sent to a proxy */
        char *name = target + strlen(scheme), *end = name + strcspn(name, "/?");
        if (end == name || *end != '/')
            return set_http_fault(fault, 400, "the target of the request is not a path");
        memmove(target, name, (size_t)(end - name)); /* makes room for a terminator */
        target[end - name] = 0;
        head->host = target;
        target = end;
    }
    if (*target != '/' && strcmp(target, "*") != 0)
        return set_http_fault(fault, 400, "the target of the request is not a path");
    target[strcspn(target, "#")] = 0;
    char *query = target + strcspn(target, "?");
    head->query = *query ? query + 1 : query;
    *query = 0;
    if (!percent_decode(target))
        return set_http_fault(fault, 400, "the path of the request has a wrong percent sign");
    head->path = target;
    return DOP_HTTP_DONE;
}

/* Header fields that determine the framing, kept until the whole head is parsed. */
typedef struct fields {
    const char *host, *length, *coding;
    uint32_t n;
} fields;

/* Stores the value of a field that may occur only once. */
static dop_http_read
set_field_once(const char **to, const char *value, dop_http_fault *fault, const char *why)
{
    if (*to)
        return set_http_fault(fault, 400, why);
    *to = value;
    return DOP_HTTP_DONE;
}

/* True if the comma-separated list has the word. */
static bool
has_list_word(const char *list, const char *word)
{
    for (const char *at = list; *at;) {
        at += strspn(at, ", \t");
        const size_t n = strcspn(at, ", \t");
        if (n == strlen(word) && strncasecmp(at, word, n) == 0)
            return true;
        at += n;
    }
    return false;
}

static dop_http_read
store_header_field(const char *name, const char *value, dop_http_head *head, fields *f, dop_http_fault *fault)
{
    if (strcasecmp(name, "Host") == 0)
        return set_field_once(&f->host, value, fault, "the field Host comes twice");
    if (strcasecmp(name, "Content-Length") == 0)
        return set_field_once(&f->length, value, fault, "the field Content-Length comes twice");
    if (strcasecmp(name, "Transfer-Encoding") == 0)
        return set_field_once(&f->coding, value, fault, "the field Transfer-Encoding comes twice");
    if (strcasecmp(name, "Origin") == 0)
        return set_field_once(&head->origin, value, fault, "the field Origin comes twice");
    if (strcasecmp(name, "Authorization") == 0)
        return set_field_once(&head->authorization, value, fault, "the field Authorization comes twice");
    if (strcasecmp(name, "Content-Type") == 0)
        return set_field_once(&head->content_type, value, fault, "the field Content-Type comes twice");
    if (strcasecmp(name, "X-Api-Key") == 0)
        return set_field_once(&head->api_key, value, fault, "the field X-Api-Key comes twice");
    if (strcasecmp(name, "Content-Encoding") == 0 && strcasecmp(value, "identity") != 0)
        return set_http_fault(fault, 415, "bodies are sent as they are, without Content-Encoding");
    if (strcasecmp(name, "X-Request-Id") == 0 && !head->request_id)
        head->request_id = value;
    if (strcasecmp(name, "Access-Control-Request-Method") == 0)
        head->asked_method = value;
    if (strcasecmp(name, "Connection") == 0) {
        head->persists &= !has_list_word(value, "close");
    } else if (strcasecmp(name, "Expect") == 0) {
        if (strcasecmp(value, "100-continue") != 0)
            return set_http_fault(fault, 417, "the field Expect is not 100-continue");
        head->expects_continue = head->chunks;
    }
    return DOP_HTTP_DONE;
}

static dop_http_read
read_header_field(char *line, dop_http_head *head, fields *f, dop_http_fault *fault)
{
    char *colon = strchr(line, ':');
    if (*line == ' ' || *line == '\t')
        return set_http_fault(fault, 400, "a line of the head is folded");
    if (!colon)
        return set_http_fault(fault, 400, "a line of the head has no colon");
    *colon = 0;
    if (!is_http_token(line))
        return set_http_fault(fault, 400, "the name of a field has a blank or another character that no name has");
    if (++f->n > DOP_HTTP_MAX_FIELDS)
        return set_http_fault(fault, 431, "the head has too many fields");
    char *value = colon + 1 + strspn(colon + 1, " \t"), *end = value + strlen(value);
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = 0;
    return store_header_field(line, value, head, f, fault);
}

/* Determines the body's framing after all fields are parsed. */
static dop_http_read
determine_framing(dop_http_head *head, const fields *f, dop_http_fault *fault)
{
    if (!f->host && head->chunks)
        return set_http_fault(fault, 400, "the field Host is missing");
    if (head->host && f->host && strcasecmp(head->host, f->host) != 0)
        return set_http_fault(fault, 400, "the target of the request and the field Host have two names");
    if (!head->host)
        head->host = f->host;
    if (f->length && f->coding)
        return set_http_fault(fault, 400, "Content-Length and Transfer-Encoding exclude one another");
    if (f->coding && !head->chunks)
        return set_http_fault(fault, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (f->coding && strcasecmp(f->coding, "chunked") != 0)
        return set_http_fault(fault, 501, "the only Transfer-Encoding is chunked");
    head->chunked = f->coding != NULL;
    if (f->length && (!*f->length || strlen(f->length) > 18))
        return set_http_fault(fault, 400, "Content-Length is not a number of bytes");
    for (const char *c = f->length; c && *c; c++) {
        if (!is_ascii_digit(*c))
            return set_http_fault(fault, 400, "Content-Length is not a number of bytes");
        head->length = head->length * 10 + (uint64_t)(*c - '0');
    }
    return DOP_HTTP_DONE;
}

dop_http_read
dop_http_read_head(char *bytes, size_t n, size_t *io_seen, dop_http_head *out_head, size_t *out_size,
                   dop_http_fault *out_fault)
{
    fields f = {0};
    dop_http_fault fault = {0};
    *out_head = (dop_http_head){0};
    *out_fault = fault;
    const size_t most = n < DOP_HTTP_MAX_HEAD ? n : DOP_HTTP_MAX_HEAD;
    *out_size = find_head_end(bytes, most, io_seen, &fault);
    if (fault.status) {
        *out_fault = fault;
        return DOP_HTTP_WRONG;
    }
    if (*out_size == 0 && most == DOP_HTTP_MAX_HEAD)
        return set_http_fault(out_fault, 431, "the head of the request is too long");
    if (*out_size == 0)
        return DOP_HTTP_MORE;
    const char *const end = bytes + *out_size;
    char *at = bytes, *line = cut_head_line(&at, end);
    if (!line) /* one empty line before the request is allowed */
        line = cut_head_line(&at, end);
    dop_http_read r = line ? read_request_line(line, out_head, out_fault)
                           : set_http_fault(out_fault, 400, "the request line is not METHOD TARGET HTTP/1.1");
    while (r == DOP_HTTP_DONE && (line = cut_head_line(&at, end)) != NULL)
        r = read_header_field(line, out_head, &f, out_fault);
    return r == DOP_HTTP_DONE ? determine_framing(out_head, &f, out_fault) : r;
}

/* --- chunks ------------------------------------------------------------------------------------------------------------------ */

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER_BEGIN, TRAILER, TRAILER_LF, LAST_LF, END };

/* Parses a byte that is not data. Returns false if it is invalid. */
static bool
parse_chunk_byte(dop_http_chunks *c, char byte)
{
    switch (c->state) {
    case SIZE:
        if (dop_hex_digit(byte) >= 0 && c->digits < 15) {
            c->left = c->left << 4 | (uint64_t)dop_hex_digit(byte);
            c->digits++;
            return true;
        }
        c->state = byte == ';' ? EXTENSION : SIZE_LF;
        return c->digits > 0 && (byte == ';' || byte == '\r');
    case EXTENSION:
        if (byte == '\r')
            c->state = SIZE_LF;
        return byte == '\r' || ((byte == '\t' || (unsigned char)byte >= ' ') && c->skipped++ < DOP_HTTP_MAX_TRAILER);
    case SIZE_LF:
        c->state = c->left > 0 ? DATA : TRAILER_BEGIN;
        c->digits = 0;
        return byte == '\n';
    case DATA_CR:
        c->state = DATA_LF;
        return byte == '\r';
    case DATA_LF:
        c->state = SIZE;
        return byte == '\n';
    case TRAILER_BEGIN:
        c->state = byte == '\r' ? LAST_LF : TRAILER;
        return byte == '\r' || (unsigned char)byte > ' ';
    case TRAILER:
        if (byte == '\r')
            c->state = TRAILER_LF;
        return byte == '\r' || ((byte == '\t' || (unsigned char)byte >= ' ') && c->skipped++ < DOP_HTTP_MAX_TRAILER);
    case TRAILER_LF:
        c->state = TRAILER_BEGIN;
        return byte == '\n';
    case LAST_LF:
        c->state = END;
        return byte == '\n';
    default:
        return false;
    }
}

dop_http_read
dop_http_read_chunks(dop_http_chunks *chunks, const char *bytes, size_t n, size_t *out_used, const char **out_data,
                     size_t *out_n, dop_http_fault *out_fault)
{
    dop_http_chunks *c = chunks;
    size_t i = 0;
    *out_n = 0;
    for (; i < n && c->state != DATA && c->state != END; i++)
        if (!parse_chunk_byte(c, bytes[i]))
            return set_http_fault(out_fault, 400, "the chunks of the body are not well formed");
    *out_data = bytes + i;
    if (c->state == DATA) {
        *out_n = c->left < n - i ? (size_t)c->left : n - i;
        c->left -= *out_n;
        c->state = c->left > 0 ? DATA : DATA_CR;
    }
    *out_used = i + *out_n;
    return c->state == END ? DOP_HTTP_DONE : DOP_HTTP_MORE;
}
