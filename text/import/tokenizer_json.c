/* Hugging Face tokenizer.json: reads the file, vocabulary and added tokens for all model types. */
#include "text/import/tokenizer_json.h"
#include "text/import/tokenizer_json_decoder.h"
#include "text/import/tokenizer_json_models.h"
#include "text/import/tokenizer_json_parts.h"
#include "text/import/tokenizer_tiktoken.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/encoding/utf8.h"

#define BAD(b, diag, ...) DOP_FAIL_IN((diag), DOP_E_INPUT, (b)->path, __VA_ARGS__)

typedef dop_tok_json reader;

/* Sets *out_tokens to one past the largest id of vocabulary and added tokens. */
static dop_status
count_json_tokens(reader *r, const char *path, uint32_t *out_tokens)
{
    json_int_t top = -1;
    const char *key;
    json_t *v;
    json_object_foreach(r->vocab, key, v)
    {
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= DOP_TOK_MAX_TOKENS)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "token \"%.80s\" has no id between 0 and %u", key,
                               DOP_TOK_MAX_TOKENS - 1);
        if (json_integer_value(v) > top)
            top = json_integer_value(v);
    }
    for (size_t i = 0; i < json_array_size(r->added); i++) {
        const json_t *id = json_object_get(json_array_get(r->added, i), "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= DOP_TOK_MAX_TOKENS)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "added token %zu has no id between 0 and %u", i,
                               DOP_TOK_MAX_TOKENS - 1);
        if (json_integer_value(id) > top)
            top = json_integer_value(id);
    }
    *out_tokens = (uint32_t)(top + 1);
    return DOP_OK;
}

static dop_status
read_json_vocab(reader *r, const dop_tok_decoder *dec)
{
    dop_tok_build *b = &r->b;
    dop_buf text = {0};
    const char *key;
    size_t n;
    json_t *v;
    dop_status st = DOP_OK;
    json_object_keylen_foreach(r->vocab, key, n, v)
    {
        uint32_t id = (uint32_t)json_integer_value(v);
        if (b->token_flags[id] & DOP_TOKEN_USED) {
            st = BAD(b, r->diag, "two tokens have the id %u", id);
            break;
        }
        b->token_flags[id] = DOP_TOKEN_USED | DOP_TOKEN_MODEL;
        text.size = 0;
        if (!(b->flags & DOP_TOK_F_BYTE_LEVEL)) {
            b->piece[id] = dop_tok_build_string(b, key, n);
        } else if (dop_tok_bytes_of_piece(key, n, &text)) {
            b->piece[id] = dop_tok_build_string(b, text.data, text.size);
        } else { /* not in the byte alphabet: the id has no piece and is never produced */
            b->token_flags[id] = DOP_TOKEN_USED;
        }
        if (dec->wordpiece && n >= dec->an[0] && memcmp(key, dec->a[0], dec->an[0]) == 0)
            b->token_flags[id] |= DOP_TOKEN_GOES_ON;
        text.size = 0;
        dop_tok_decoder_apply(dec, key, n, &text);
        b->text[id] = dop_tok_build_string(b, text.data, text.size);
    }
    if (st == DOP_OK && text.failed)
        st = DOP_NO_MEMORY(r->diag);
    dop_buf_finish(&text);
    return st;
}

/* Decodes an added token that is not in the model's vocabulary. Decoders that separate words put a space before it. */
static dop_status
decode_added_token(reader *r, const dop_tok_decoder *dec, const char *s, size_t n, dop_tok_str *out)
{
    dop_buf text = {0};
    dop_tok_decoder_apply(dec, s, n, &text);
    *out = dop_tok_build_string(&r->b, text.data, text.size);
    bool failed = text.failed;
    dop_buf_finish(&text);
    return failed ? DOP_NO_MEMORY(r->diag) : DOP_OK;
}

static dop_status
read_json_added(reader *r, const dop_tok_decoder *dec)
{
    dop_tok_build *b = &r->b;
    for (size_t i = 0; i < json_array_size(r->added); i++) {
        const json_t *o = json_array_get(r->added, i);
        const char *s;
        size_t n;
        uint32_t id = (uint32_t)json_integer_value(json_object_get(o, "id")), flags = 0;
        bool normalized;
        dop_status st = dop_tok_json_added(o, b->path, r->diag, &s, &n, &flags, &normalized);
        if (st != DOP_OK)
            return st;
        dop_tok_json_vocab_id(r, s, n, &id); /* a token of the model's vocabulary keeps its id there */
        if (!(b->token_flags[id] & DOP_TOKEN_USED) || !(b->token_flags[id] & DOP_TOKEN_MODEL)) {
            b->piece[id] = b->text[id] = dop_tok_build_string(b, s, n);
            if (dec->wordpiece && (st = decode_added_token(r, dec, s, n, &b->text[id])) != DOP_OK)
                return st;
        }
        b->token_flags[id] |= DOP_TOKEN_USED;
        if (flags & DOP_ADDED_SPECIAL)
            b->token_flags[id] |= DOP_TOKEN_SPECIAL;
        if ((st = dop_tok_build_add(b, id, flags, normalized, s, n, r->diag)) != DOP_OK)
            return st;
    }
    return DOP_OK;
}

static dop_status
read_json_root(reader *r, const char *path, const dop_tokenizer_facts *facts, dop_tokenizer **out_tok)
{
    dop_tok_build *b = &r->b;
    dop_tok_decoder dec;
    const dop_tok_json_model *kind;
    uint32_t tokens = 0;
    dop_status st;
    r->model = json_object_get(r->root, "model");
    r->added = json_object_get(r->root, "added_tokens");
    if (!json_is_object(r->model))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, path, "not a tokenizer.json: it has no object \"model\"");
    if ((st = dop_tok_json_find_model(r->model, path, r->diag, &kind)) != DOP_OK ||
        (st = dop_tok_json_vocab(r, path)) != DOP_OK)
        return st;
    if ((st = count_json_tokens(r, path, &tokens)) != DOP_OK ||
        (st = dop_tok_config_tokens(facts, path, r->diag, &tokens)) != DOP_OK ||
        (st = dop_tok_build_init(b, path, tokens, r->diag)) != DOP_OK)
        return st;
    if ((st = kind->begin(r)) != DOP_OK ||
        (st = dop_tok_json_normalizer(b, json_object_get(r->root, "normalizer"), r->diag)) != DOP_OK ||
        (st = dop_tok_json_pre_tokenizer(b, json_object_get(r->root, "pre_tokenizer"), r->diag)) != DOP_OK ||
        (st = dop_tok_json_decoder(b, json_object_get(r->root, "decoder"), &dec, r->diag)) != DOP_OK)
        return st;
    dop_tok_json_word_ends(r->model, &dec);
    if ((st = read_json_vocab(r, &dec)) != DOP_OK || (st = read_json_added(r, &dec)) != DOP_OK ||
        (st = dop_tok_config_add(b, facts, r->diag)) != DOP_OK || (st = kind->finish(r)) != DOP_OK ||
        (st = dop_tok_json_post_processor(b, json_object_get(r->root, "post_processor"), r->diag)) != DOP_OK)
        return st;
    if (facts)
        dop_tok_build_facts(b, facts);
    return dop_tok_build_finish(b, r->diag, out_tok);
}

dop_status
dop_tokenizer_from_json(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                        dop_diag *diag, dop_tokenizer **out_tok)
{
    reader r = {.diag = diag};
    json_t *root;
    *out_tok = NULL;
    dop_status st = dop_json_decode(bytes, size, &(dop_json_how){.path = path}, diag, &root);
    if (st != DOP_OK)
        return st;
    r.root = root;
    st = dop_tok_is_tekken(root) ? dop_tok_tekken(root, path, facts, diag, out_tok)
                                 : read_json_root(&r, path, facts, out_tok);
    dop_tok_build_free(&r.b);
    json_decref(r.vocab);
    json_decref(root);
    return st;
}

static dop_status
join_dir_path(const char *dir, const char *name, dop_diag *diag, dop_buf *out)
{
    out->size = 0;
    dop_buf_printf(out, "%s/%s", dir, name);
    return out->failed ? DOP_NO_MEMORY(diag) : DOP_OK;
}

dop_status
dop_tok_read_object(const char *dir, const char *name, dop_diag *diag, json_t **out)
{
    dop_buf path = {0};
    dop_status st = join_dir_path(dir, name, diag, &path);
    if (st != DOP_OK || access(path.data, F_OK) != 0)
        goto error;
    if ((st = dop_json_decode_file(&(dop_json_how){.path = path.data}, diag, out)) != DOP_OK)
        goto error;
    if (!json_is_object(*out))
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path.data, "not a JSON object");
error:
    dop_buf_finish(&path);
    return st;
}
