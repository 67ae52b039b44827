/* Text modes without a device: --tokenize and --detokenize, one JSON value per line. */
#include "base/json/json.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <stdlib.h>
#include <string.h>

/* Handles one input line and appends one output line to `out`. */
typedef dop_status line_fn(const dop_text *text, json_t *value, const char *path, long line, dop_diag *diag,
                           dop_buf *out);

static dop_status
tokenize_line(const dop_text *text, json_t *value, const char *path, long line, dop_diag *diag, dop_buf *out)
{
    json_t *one = json_object_get(value, "text");
    if (!json_is_string(one))
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "expected an object with a string \"text\"");
    /* Without these fields, special tokens are handled as in prompts. */
    json_t *special = json_object_get(value, "add_special"), *parse = json_object_get(value, "parse_special");
    unsigned flags = (special && !json_is_true(special) ? 0 : (unsigned)DOP_TEXT_ADD_SPECIAL) |
                     (special ? 0 : (unsigned)DOP_TEXT_ONCE) |
                     (parse && !json_is_true(parse) ? 0 : (unsigned)DOP_TEXT_PARSE_SPECIAL);
    dop_ids ids = {0};
    dop_status st = dop_cli_encode(text, json_string_value(one), json_string_length(one), flags, diag, &ids);
    dop_buf_puts(out, "[");
    for (size_t i = 0; i < ids.count; i++)
        dop_buf_printf(out, "%s%u", i ? "," : "", ids.data[i]);
    dop_buf_puts(out, "]\n");
    dop_ids_finish(&ids);
    return st;
}

static dop_status
detokenize_line(const dop_text *text, json_t *value, const char *path, long line, dop_diag *diag, dop_buf *out)
{
    json_t *list = json_is_object(value) ? json_object_get(value, "ids") : value;
    dop_decoder *decoder = NULL;
    dop_buf out_text = {0};
    const char *bytes;
    size_t n;
    if (!json_is_array(list))
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "expected an array of ids");
    unsigned flags = json_is_true(json_object_get(value, "skip_special")) ? 0 : (unsigned)DOP_TEXT_KEEP_SPECIAL;
    dop_status st = dop_decoder_create(text, flags, diag, &decoder);
    for (size_t i = 0; i < json_array_size(list) && st == DOP_OK; i++) {
        json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= UINT32_MAX)
            st = DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "element %zu is not a token id", i);
        else if ((st = dop_decoder_push(decoder, (uint32_t)json_integer_value(id), diag, &bytes, &n)) == DOP_OK)
            dop_buf_append(&out_text, bytes, n);
    }
    if (st == DOP_OK && (st = dop_decoder_end(decoder, diag, &bytes, &n)) == DOP_OK)
        dop_buf_append(&out_text, bytes, n);
    if (st == DOP_OK) {
        json_t *s = json_pack("{s:s#}", "text", out_text.data ? out_text.data : "", (int)out_text.size);
        char *dump = s ? json_dumps(s, JSON_COMPACT) : NULL;
        if (dump)
            dop_buf_printf(out, "%s\n", dump);
        else
            st = DOP_NO_MEMORY(diag);
        free(dump);
        json_decref(s);
    }
    dop_decoder_destroy(decoder);
    dop_buf_finish(&out_text);
    return st;
}

static dop_status
each_line(const dop_cli *cli, const char *path, line_fn *fn, dop_diag *diag)
{
    dop_text *text = NULL;
    dop_buf in = {0}, out = {0};
    dop_status st;
    if ((st = dop_cli_text_open(cli, diag, &text)) != DOP_OK || (st = dop_cli_read(path, diag, &in)) != DOP_OK)
        goto error;
    long line = 0;
    for (size_t at = 0; at < in.size && st == DOP_OK;) {
        const char *start = in.data + at, *newline = memchr(start, '\n', in.size - at);
        size_t len = newline ? (size_t)(newline - start) : in.size - at;
        at += len + 1;
        line++;
        if (len == 0)
            continue;
        json_t *value;
        dop_diag wrong = {0};
        if (dop_json_decode(start, len, NULL, &wrong, &value) != DOP_OK)
            st = DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, wrong.column, "%s", wrong.message);
        else
            st = fn(text, value, path, line, diag, &out);
        json_decref(value);
        if (st == DOP_OK && out.size > 1 << 16) {
            st = dop_cli_print(out.data, out.size, diag);
            out.size = 0;
        }
    }
    if (st == DOP_OK)
        st = dop_cli_print_buf(&out, diag);
error:
    dop_text_destroy(text);
    dop_buf_finish(&in);
    dop_buf_finish(&out);
    return st;
}

dop_status
dop_mode_tokenize(dop_cli *cli, dop_diag *diag)
{
    return each_line(cli, cli->tokenize, tokenize_line, diag);
}

dop_status
dop_mode_detokenize(dop_cli *cli, dop_diag *diag)
{
    return each_line(cli, cli->detokenize, detokenize_line, diag);
}
