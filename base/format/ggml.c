#include "base/format/ggml.h"
#include "base/encoding/little_endian.h"
#include "base/format/gguf.h"

#include <string.h>

enum { MAGIC = 0x67676d6c, MOST_BINS = 1024, FREQUENCIES = 201, MOST_NAME = 200, MOST_TENSORS = 1 << 16 };
enum {
    MOST_LANGUAGES = 100,
    OTHERS = 8,
    TIMES = 1501
}; /* special tokens except languages and times; number of time tokens */

/* Unread rest of a file. */
typedef struct reader {
    const dop_ggml *g;
    const uint8_t *at;
    uint64_t left;
    dop_arena *arena;
    dop_diag *diag;
} reader;

static dop_status
refuse_truncated_ggml(const reader *r)
{
    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "the file is cut off, or damaged");
}

/* Returns the next n bytes; NULL: fewer are left. */
static const uint8_t *
take_ggml_bytes(reader *r, uint64_t n)
{
    const uint8_t *at = r->at;
    if (n > r->left)
        return NULL;
    r->at += n;
    r->left -= n;
    return at;
}

static bool
take_ggml_u32(reader *r, uint32_t *out)
{
    const uint8_t *at = take_ggml_bytes(r, 4);
    if (at)
        *out = dop_word_at(at, 0);
    return at != NULL;
}

static dop_status
read_ggml_sizes(reader *r, dop_ggml *g)
{
    dop_ggml_sizes *s = &g->sizes;
    uint32_t *const all[] = {&s->vocab,        &s->audio_rows, &s->audio_hidden, &s->audio_heads,
                             &s->audio_layers, &s->text_rows,  &s->text_hidden,  &s->text_heads,
                             &s->text_layers,  &s->bins,       &s->type};
    uint32_t magic = 0, bins = 0, frequencies = 0;
    if (!take_ggml_u32(r, &magic))
        return refuse_truncated_ggml(r);
    if (magic != MAGIC)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, g->path, "this is no GGML file of a model of speech");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!take_ggml_u32(r, all[i]))
            return refuse_truncated_ggml(r);
    if (!take_ggml_u32(r, &bins) || !take_ggml_u32(r, &frequencies))
        return refuse_truncated_ggml(r);
    /* GGML files of other models have other sizes here. */
    if (bins != s->bins || bins == 0 || bins > MOST_BINS || frequencies != FREQUENCIES)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, g->path,
                           "this GGML file is of no model of speech (Whisper); of other models use the GGUF file");
    if (!take_ggml_bytes(r, (uint64_t)bins * frequencies * sizeof(float)))
        return refuse_truncated_ggml(r);
    return DOP_OK;
}

static dop_status
read_ggml_tokens(reader *r, dop_ggml *g)
{
    if (!take_ggml_u32(r, &g->n_tokens) || g->n_tokens > r->left / 4)
        return refuse_truncated_ggml(r);
    if (g->n_tokens > g->sizes.vocab)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, g->path, "the file lists %u tokens, and its vocabulary has %u",
                           g->n_tokens, g->sizes.vocab);
    g->tokens = dop_arena_alloc(r->arena, ((size_t)g->n_tokens + 1) * sizeof *g->tokens);
    if (!g->tokens)
        return DOP_NO_MEMORY(r->diag);
    for (uint32_t i = 0; i < g->n_tokens; i++) {
        dop_ggml_token *t = &g->tokens[i];
        if (!take_ggml_u32(r, &t->n) || !(t->bytes = (const char *)take_ggml_bytes(r, t->n)))
            return refuse_truncated_ggml(r);
    }
    return DOP_OK;
}

/* Returns the bytes of a tensor's values; 0: not whole blocks of the type, or overflow. */
static uint64_t
ggml_tensor_bytes(const dop_ggml_tensor *t)
{
    dop_gguf_tensor_info info;
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] == 0 || n > UINT64_MAX / 64 / t->dims[i])
            return 0;
        else
            n *= t->dims[i];
    if (!dop_gguf_tensor_type(t->type, &info) || t->dims[0] % info.block || n / info.block > UINT64_MAX / info.bytes)
        return 0;
    return n / info.block * info.bytes;
}

static dop_status
read_ggml_tensor(reader *r, dop_ggml_tensor *t)
{
    uint32_t n_name = 0;
    const uint8_t *name;
    *t = (dop_ggml_tensor){.dims = {1, 1, 1, 1}};
    if (!take_ggml_u32(r, &t->n_dims) || !take_ggml_u32(r, &n_name) || !take_ggml_u32(r, &t->type))
        return refuse_truncated_ggml(r);
    if (t->n_dims == 0 || t->n_dims > DOP_GGML_MAX_DIMS || n_name == 0 || n_name > MOST_NAME)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "the file is damaged: tensor %u has %u axes",
                           r->g->n_tensors, t->n_dims);
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (!take_ggml_u32(r, &t->dims[i]))
            return refuse_truncated_ggml(r);
    if (!(name = take_ggml_bytes(r, n_name)))
        return refuse_truncated_ggml(r);
    for (uint32_t i = 0; i < n_name; i++)
        if (name[i] <= ' ' || name[i] >= 127)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "the file is damaged: the name of tensor %u",
                               r->g->n_tensors);
    if (!(t->name = dop_arena_printf(r->arena, "%.*s", (int)n_name, (const char *)name)))
        return DOP_NO_MEMORY(r->diag);
    if ((t->bytes = ggml_tensor_bytes(t)) == 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path,
                           "tensor %s: values of type %u do not fill its %u columns, or the type is not known", t->name,
                           t->type, t->dims[0]);
    return (t->data = take_ggml_bytes(r, t->bytes)) ? DOP_OK : refuse_truncated_ggml(r);
}

dop_status
dop_ggml_parse(const char *path, const void *bytes, uint64_t size, dop_arena *arena, dop_diag *diag, dop_ggml *out_ggml)
{
    dop_ggml *g = out_ggml;
    *g = (dop_ggml){.path = path};
    reader r = {.g = g, .at = bytes, .left = size, .arena = arena, .diag = diag};
    uint32_t cap = 0;
    dop_status st = read_ggml_sizes(&r, g);
    if (st == DOP_OK)
        st = read_ggml_tokens(&r, g);
    while (st == DOP_OK && r.left > 0) {
        void *items = g->tensors;
        if (g->n_tensors == MOST_TENSORS)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the file has more than %d tensors", MOST_TENSORS);
        if (!dop_arena_grow(arena, &items, g->n_tensors, &cap, sizeof *g->tensors))
            return DOP_NO_MEMORY(diag);
        g->tensors = items;
        st = read_ggml_tensor(&r, &g->tensors[g->n_tensors]);
        g->n_tensors += st == DOP_OK;
    }
    return st;
}

bool
dop_ggml_specials(const dop_ggml *ggml, uint32_t *out_first, uint32_t *out_languages)
{
    enum {
        ENGLISH = 51864,
        ENGLISH_TEXT = 50256
    }; /* published vocabulary sizes; multilingual models have one more token */
    const uint32_t vocab = ggml->sizes.vocab;
    /* Some converters also list the first special token, end of text, as ordinary. */
    *out_first = vocab >= ENGLISH ? (uint32_t)ENGLISH_TEXT + (vocab > ENGLISH) : ggml->n_tokens;
    *out_languages = vocab - *out_first - OTHERS - TIMES;
    return vocab >= *out_first && vocab - *out_first >= OTHERS + TIMES && *out_languages <= MOST_LANGUAGES &&
           ggml->n_tokens >= *out_first;
}
