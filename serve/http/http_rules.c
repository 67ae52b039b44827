#include "serve/http/http_rules.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- keys -------------------------------------------------------------------------------------------------------------------- */

static const char blanks[] = " \t\r\f\v";

/* Removes " priority=N" from the end of a line. Returns false if N is not a number from -100 to 100. */
static bool
cut_key_priority(const char *key, const char **io_end, int *out_priority)
{
    static const char word[] = "priority=";
    const char *at = *io_end;
    char *stop;
    while (at > key && !strchr(blanks, at[-1]))
        at--;
    if (at == key || (size_t)(*io_end - at) <= strlen(word) || strncmp(at, word, strlen(word)) != 0)
        return true;
    const long n = strtol(at + strlen(word), &stop, 10);
    if (stop != *io_end || n < -100 || n > 100)
        return false;
    *out_priority = (int)n;
    while (at > key && strchr(blanks, at[-1]))
        at--;
    *io_end = at;
    return true;
}

uint64_t
dop_http_hash(const char *text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash;
}

dop_status
dop_http_keys_read(const char *path, const char *text, dop_diag *diag, dop_http_keys *out_keys)
{
    static const char mark[] = "\xef\xbb\xbf"; /* UTF-8 byte order mark, written by some editors */
    dop_http_keys *k = out_keys;
    size_t lines = 1, used = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n' || *c == '\r';
    *k = (dop_http_keys){.bytes = malloc(strlen(text) + lines + 1),
                         .at = calloc(lines, sizeof *k->at),
                         .size = calloc(lines, sizeof *k->size),
                         .priority = calloc(lines, sizeof *k->priority)};
    if (!k->bytes || !k->at || !k->size || !k->priority)
        return DOP_NO_MEMORY(diag);
    text += strncmp(text, mark, strlen(mark)) == 0 ? strlen(mark) : 0;
    for (long line = 1; *text; line++) {
        size_t n = strcspn(text, "\n");
        const char *key = text, *end = text + n;
        text = end + (*end != 0);
        key += strspn(key, blanks);
        while (end > key && strchr(blanks, end[-1]))
            end--;
        if (end <= key || *key == '#')
            continue;
        if (!cut_key_priority(key, &end, &k->priority[k->n]))
            return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "a priority is a whole number from -100 to 100");
        for (const char *c = key; c < end; c++)
            if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127)
                return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0,
                                   "a key has no blanks and no characters outside ASCII: # begins a comment");
        k->at[k->n] = used;
        k->size[k->n++] = (size_t)(end - key);
        memcpy(k->bytes + used, key, (size_t)(end - key));
        used += (size_t)(end - key);
        k->bytes[used++] = 0;
    }
    return k->n > 0 ? DOP_OK : DOP_FAIL_IN(diag, DOP_E_INPUT, path, "no key in it: one a line");
}

void
dop_http_keys_finish(dop_http_keys *keys)
{
    free(keys->bytes);
    free(keys->at);
    free(keys->size);
    free(keys->priority);
    *keys = (dop_http_keys){0};
}

/* True if `given` is one of the keys; *out_client is then its client. Runs in constant time per key. */
static bool
has_api_key(const dop_http_keys *keys, const char *given, dop_http_client *out_client)
{
    const size_t len = strlen(given);
    unsigned found = 0;
    for (size_t k = 0; k < keys->n; k++) {
        const char *key = keys->bytes + keys->at[k];
        unsigned different = keys->size[k] != len;
        for (size_t i = 0; i < keys->size[k]; i++)
            different |= (unsigned)(key[i] ^ given[len ? i % len : 0]);
        found |= !different;
        if (!different)
            *out_client = (dop_http_client){dop_http_hash(key), keys->priority[k]};
    }
    return found;
}

bool
dop_http_keys_admit(const dop_http_keys *keys, const char *authorization, const char *api_key,
                    dop_http_client *out_client)
{
    static const char scheme[] = "Bearer ";
    bool admits = api_key && has_api_key(keys, api_key, out_client);
    if (authorization && strncasecmp(authorization, scheme, strlen(scheme)) == 0) {
        const char *given = authorization + strlen(scheme);
        admits |= has_api_key(keys, given + strspn(given, " "), out_client);
    }
    return admits;
}

/* --- names ------------------------------------------------------------------------------------------------------------------- */

/* Splits NAME[:PORT] into the name, without brackets, and the port ("": none). Returns false if it is malformed. */
static bool
split_host_port(const char *host, char *name, size_t size, const char **out_port)
{
    const char *end = host + strcspn(host, ":");
    const bool brackets = *host == '[';
    if (brackets && !(end = strchr(host, ']')))
        return false;
    const size_t n = (size_t)(end - host) - brackets;
    end += brackets;
    if (n == 0 || n >= size || (*end && *end != ':') ||
        strspn(end + (*end == ':'), "0123456789") != strlen(end + (*end == ':')))
        return false;
    snprintf(name, size, "%.*s", (int)n, host + brackets);
    *out_port = *end ? end + 1 : end;
    return true;
}

static bool
is_ip_address(const char *name)
{
    struct in6_addr a;
    return inet_pton(AF_INET, name, &a) == 1 || inet_pton(AF_INET6, name, &a) == 1;
}

static bool
is_added_name(const dop_http_names *names, const char *name)
{
    for (size_t i = 0; i < names->n_added; i++)
        if (strcasecmp(names->added[i], name) == 0)
            return true;
    return false;
}

bool
dop_http_names_has(const dop_http_names *names, const char *host)
{
    char name[256];
    const char *port;
    if (!host)
        return true;
    if (!split_host_port(host, name, sizeof name, &port))
        return false;
    if (strcasecmp(name, "localhost") == 0 || strcasecmp(name, names->bound) == 0 || is_added_name(names, name) ||
        is_added_name(names, "*"))
        return true;
    if (names->loopback)
        return strcmp(name, "127.0.0.1") == 0 || strcmp(name, "::1") == 0;
    /* A browser that addresses the server by a numeric address cannot be a victim of DNS rebinding. */
    const size_t n = strlen(names->machine);
    return is_ip_address(name) ||
           (n > 0 && strncasecmp(name, names->machine, n) == 0 && (!name[n] || strcasecmp(name + n, ".local") == 0));
}

bool
dop_http_names_has_origin(const dop_http_names *names, const char *origin, const char *host)
{
    char name[256], own[256];
    const char *port, *own_port, *usual = NULL;
    if (strncasecmp(origin, "http://", 7) == 0)
        usual = "80";
    else if (strncasecmp(origin, "https://", 8) == 0)
        usual = "443";
    if (!usual || !host || !split_host_port(strchr(origin, '/') + 2, name, sizeof name, &port) ||
        !split_host_port(host, own, sizeof own, &own_port))
        return false;
    if (strcasecmp(name, own) == 0 && strcmp(*port ? port : usual, *own_port ? own_port : usual) == 0)
        return true;
    return is_added_name(names, name); /* a proxy may send another Host */
}

bool
dop_http_allows_origin(const char *const *origins, size_t n, const char *origin)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(origins[i], "*") == 0 || strcasecmp(origins[i], origin) == 0)
            return true;
    return false;
}

const char *
dop_http_behind_prefix(const char *prefix, const char *path)
{
    const size_t n = prefix ? strlen(prefix) : 0;
    return strncmp(path, prefix ? prefix : "", n) == 0 && (n == 0 || path[n] == '/' || !path[n]) ? path + n : NULL;
}

void
dop_http_tidy_path(char *path)
{
    size_t n = 0;
    for (const char *c = path; *c; c++)
        if (*c != '/' || n == 0 || path[n - 1] != '/')
            path[n++] = *c;
    n -= n > 1 && path[n - 1] == '/';
    path[n] = 0;
}

/* True if the Content-Type is this media type, with or without parameters. */
static bool
is_media_type(const char *content_type, const char *type)
{
    if (!content_type || strncasecmp(content_type, type, strlen(type)) != 0)
        return false;
    const char *rest = content_type + strlen(type);
    rest += strspn(rest, " \t");
    return !*rest || *rest == ';';
}

bool
dop_http_is_json(const char *content_type)
{
    return is_media_type(content_type, "application/json");
}

bool
dop_http_is_form(const char *content_type)
{
    return is_media_type(content_type, "multipart/form-data");
}
