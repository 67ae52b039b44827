/* Pictures of a conversation: parts with data: URIs become pictures, and marks in the text of their message. */
#include "runtime/serve/api/api_gather.h"

#include "base/encoding/base64.h"
#include "runtime/library/images.h"

#include <stdlib.h>
#include <string.h>

/* The URI of a part; NULL: the part is no picture.  *out_asked: it is one, with a URI or without. */
static const char *
uri_of(const json_t *part, bool *out_asked)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    *out_asked = type && (strcmp(type, "image_url") == 0 || strcmp(type, "input_image") == 0);
    const json_t *v = *out_asked ? json_object_get(part, "image_url") : NULL;
    return json_string_value(json_is_object(v) ? json_object_get(v, "url") : v);
}

bool
dop_reader_data(dop_reader *r, const char *param, const char *uri, dop_budget *budget, dop_buf *out)
{
    static const char scheme[] = "data:", form[] = ";base64";
    const char *comma = strncmp(uri, scheme, sizeof scheme - 1) == 0 ? strchr(uri, ',') : NULL;
    const size_t n = comma ? strlen(comma + 1) : 0, n_form = sizeof form - 1;
    if (strncmp(uri, scheme, sizeof scheme - 1) != 0)
        dop_reader_refuse(r, param, "this server fetches no pictures: send them as data: URIs");
    else if (!comma || (size_t)(comma - uri) < n_form || memcmp(comma - n_form, form, n_form) != 0)
        dop_reader_refuse(r, param, "the data: URI of a picture has no base64");
    else if (!dop_budget_take(budget, n))
        dop_reader_refuse(r, param, "the pictures take too much memory");
    else if (!dop_base64_decode(comma + 1, n, out) || out->size == 0)
        dop_reader_refuse(r, param, "the data: URI of a picture is not base64");
    return !r->failed;
}

bool
dop_request_image(dop_request_images *x, dop_reader *r, const json_t *part, dop_buf *text)
{
    bool asked = false;
    const char *uri = uri_of(part, &asked);
    dop_buf bytes = {0};
    dop_diag diag = {0};
    if (!asked)
        return false;
    if (!x || !x->eyes)
        dop_reader_refuse(r, "messages", "the model takes no pictures");
    else if (!uri)
        dop_reader_refuse(r, "messages", "the picture of a message is {\"image_url\": {\"url\": \"data:...\"}}");
    else if (x->n == DOP_REQUEST_MAX_IMAGES)
        dop_reader_refuse(r, "messages", "the request has more than %d pictures", DOP_REQUEST_MAX_IMAGES);
    else if (dop_reader_data(r, "messages", uri, x->budget, &bytes) &&
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
