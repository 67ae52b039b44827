/* Pictures of a conversation: parts with data: URIs become pictures, and marks in the text of their message. */
#include "runtime/serve/api/api_gather.h"

#include "base/encoding/base64.h"
#include "runtime/library/images.h"

#include <stdlib.h>
#include <string.h>

/* Where a picture of a message is. */
typedef struct place {
    const char *uri;    /* NULL: it has none */
    const char *base64; /* its bytes, as Anthropic's blocks have them; NULL: none */
} place;

/* Finds the picture of a part: "image_url" of chat completions, "input_image" of Responses, "image" of Messages.  false: it is none. */
static bool
place_of(const json_t *part, place *out)
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
decode_base64(dop_request_images *x, dop_reader *r, const char *text, const char *what, dop_buf *out)
{
    const size_t n = strlen(text);
    if (!dop_budget_take(x->budget, n))
        dop_reader_refuse(r, "messages", "the pictures take too much memory");
    else if (!dop_base64_decode(text, n, out) || out->size == 0)
        dop_reader_refuse(r, "messages", "%s is not base64", what);
    return !r->failed;
}

/* The bytes of a URI: data:TYPE;base64,BYTES. */
static bool
decode(dop_request_images *x, dop_reader *r, const char *uri, dop_buf *out)
{
    static const char scheme[] = "data:", form[] = ";base64";
    const char *comma = strncmp(uri, scheme, sizeof scheme - 1) == 0 ? strchr(uri, ',') : NULL;
    const size_t n_form = sizeof form - 1;
    if (strncmp(uri, scheme, sizeof scheme - 1) != 0)
        dop_reader_refuse(r, "messages", "this server fetches no pictures: send them as data: URIs");
    else if (!comma || (size_t)(comma - uri) < n_form || memcmp(comma - n_form, form, n_form) != 0)
        dop_reader_refuse(r, "messages", "the data: URI of a picture has no base64");
    else
        decode_base64(x, r, comma + 1, "the data: URI of a picture", out);
    return !r->failed;
}

bool
dop_request_image(dop_request_images *x, dop_reader *r, const json_t *part, dop_buf *text)
{
    place at;
    dop_buf bytes = {0};
    dop_diag diag = {0};
    if (!place_of(part, &at))
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
    else if ((at.base64 ? decode_base64(x, r, at.base64, "the data of a picture", &bytes)
                        : decode(x, r, at.uri, &bytes)) &&
             dop_image_read(x->eyes, bytes.data, bytes.size, false, &diag, &x->list[x->n]) != DOP_OK)
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
    dop_status st = dop_images_expand(x->eyes, text->data ? text->data : "", text->size, x->list, x->n, diag,
                                      &expanded.data, &expanded.size);
    if (st == DOP_OK)
        st = dop_chat_encode(tok, &expanded, true, x->budget, diag, out_ids);
    if (st == DOP_OK && !dop_images_fit(x->eyes, out_ids->data, out_ids->count, x->list, x->n))
        st = DOP_FAIL(diag, DOP_E_INPUT, "a text of the conversation has tokens that stand for pictures");
    dop_free(expanded.data);
    return st;
}
