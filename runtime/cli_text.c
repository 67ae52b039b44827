/* Text without a device: --tokenize and --detokenize, one JSON value a line. */
#include "runtime/cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

dop_status
dop_text_source_open(const dop_cli *cli, const char *needed_for, dop_diag *diag, dop_text_source *out_source)
{
    dop_text_source *out = out_source;
    memset(out, 0, sizeof *out);
    const char *path = cli->tokenizer;
    dop_status st;
    if (!path) {
        if ((st = dop_cli_plan(cli, diag, &path)) != DOP_OK || (st = dop_plan_open(path, diag, &out->plan)) != DOP_OK)
            return st;
        return dop_cli_tokenizer(&out->plan, needed_for, diag, &out->tok);
    }
    struct stat sb;
    if (stat(path, &sb) == 0 && S_ISDIR(sb.st_mode))
        return dop_tokenizer_from_hf_dir(path, diag, &out->tok);
    dop_map map;
    if ((st = dop_map_open(path, diag, &map)) != DOP_OK)
        return st;
    if (map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0) {
        st = dop_gguf_open(path, diag, &out->gguf);
        if (st == DOP_OK)
            st = dop_tokenizer_from_gguf(&out->gguf, diag, &out->tok);
    } else {
        st = dop_tokenizer_from_bytes(path, map.data, (size_t)map.size, NULL, diag, &out->tok);
    }
    dop_map_close(&map);
    return st;
}

void
dop_text_source_close(dop_text_source *source)
{
    dop_tokenizer_destroy(source->tok);
    dop_gguf_close(&source->gguf);
    dop_plan_close(&source->plan);
}

/* One line in, one line appended to out. */
typedef dop_status line_fn(const dop_tokenizer *tok, json_t *value, const char *path, long line, dop_diag *diag,
                           dop_buf *out);

static dop_status
tokenize_line(const dop_tokenizer *tok, json_t *value, const char *path, long line, dop_diag *diag, dop_buf *out)
{
    json_t *text = json_object_get(value, "text");
    if (!json_is_string(text))
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "expected an object with a string \"text\"");
    /* Without the fields: what a prompt gets. */
    json_t *special = json_object_get(value, "add_special"), *parse = json_object_get(value, "parse_special");
    unsigned flags = (special && !json_is_true(special) ? 0 : (unsigned)DOP_ENCODE_ADD_SPECIAL) |
                     (json_is_true(parse) ? (unsigned)DOP_ENCODE_PARSE_SPECIAL : 0);
    dop_ids ids = {0};
    dop_status st = dop_tokenizer_encode(tok, json_string_value(text), json_string_length(text), flags, diag, &ids);
    dop_buf_puts(out, "[");
    for (size_t i = 0; i < ids.count; i++)
        dop_buf_printf(out, "%s%u", i ? "," : "", ids.data[i]);
    dop_buf_puts(out, "]\n");
    dop_ids_finish(&ids);
    return st;
}

static dop_status
detokenize_line(const dop_tokenizer *tok, json_t *value, const char *path, long line, dop_diag *diag, dop_buf *out)
{
    json_t *list = json_is_object(value) ? json_object_get(value, "ids") : value;
    dop_ids ids = {0};
    dop_buf text = {0};
    dop_status st = DOP_OK;
    if (!json_is_array(list))
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "expected an array of ids");
    for (size_t i = 0; i < json_array_size(list) && st == DOP_OK; i++) {
        json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= UINT32_MAX)
            st = DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "element %zu is not a token id", i);
        else
            dop_ids_push(&ids, (uint32_t)json_integer_value(id));
    }
    unsigned flags = json_is_true(json_object_get(value, "skip_special")) ? (unsigned)DOP_DECODE_SKIP_SPECIAL : 0;
    if (st == DOP_OK)
        st = dop_tokenizer_decode(tok, ids.data, ids.count, flags, diag, &text);
    if (st == DOP_OK) {
        json_t *s = json_pack("{s:s#}", "text", text.data ? text.data : "", (int)text.size);
        char *dump = s ? json_dumps(s, JSON_COMPACT) : NULL;
        if (dump)
            dop_buf_printf(out, "%s\n", dump);
        else
            st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
        free(dump);
        json_decref(s);
    }
    dop_ids_finish(&ids);
    dop_buf_finish(&text);
    return st;
}

static dop_status
each_line(const dop_cli *cli, const char *path, line_fn *fn, dop_diag *diag)
{
    dop_text_source src;
    dop_buf in = {0}, out = {0};
    dop_status st;
    if ((st = dop_text_source_open(cli, "--tokenize", diag, &src)) != DOP_OK ||
        (st = dop_cli_read(path, diag, &in)) != DOP_OK)
        goto error;
    long line = 0;
    for (size_t at = 0; at < in.size && st == DOP_OK;) {
        const char *start = in.data + at, *newline = memchr(start, '\n', in.size - at);
        size_t len = newline ? (size_t)(newline - start) : in.size - at;
        at += len + 1;
        line++;
        if (len == 0)
            continue;
        json_error_t error;
        json_t *value = json_loadb(start, len, JSON_ALLOW_NUL, &error);
        if (!value)
            st = DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, error.column, "invalid JSON: %s", error.text);
        else
            st = fn(src.tok, value, path, line, diag, &out);
        json_decref(value);
        if (st == DOP_OK && out.size > 1 << 16) {
            st = dop_cli_print(out.data, out.size, diag);
            out.size = 0;
        }
    }
    if (st == DOP_OK)
        st = out.failed ? DOP_FAIL(diag, DOP_E_NOMEM, "out of memory") : dop_cli_print(out.data, out.size, diag);
error:
    dop_text_source_close(&src);
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
