/* SentencePiece model files (tokenizer.model): Unigram and BPE.
 *
 * Reference: sentencepiece_model.proto and the library's behaviour. Fields that only training uses are skipped. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/encoding/protobuf.h"
#include "base/encoding/utf8.h"
#include "text/import/tokenizer_facts.h"
#include "text/import/tokenizer_json.h"
#include "text/import/tokenizer_spm.h"

enum { model_pieces = 1, model_trainer = 2, model_normalizer = 3, model_denormalizer = 5 };
enum { piece_text = 1, piece_score = 2, piece_type = 3 };
enum { type_normal = 1, type_unknown, type_control, type_user_defined, type_unused, type_byte };
enum { kind_unigram = 1, kind_bpe = 2 };

/* Fields of TrainerSpec and NormalizerSpec that encoding and decoding need; initialized with their defaults. */
typedef struct spec {
    uint64_t kind, suffix, byte_fallback, bos, eos;
    uint64_t dummy_prefix, merge_spaces, escape;
    const char *unk_surface;
    size_t unk_surface_n;
    const uint8_t *charsmap;
    size_t charsmap_n;
} spec;

typedef struct importer {
    dop_tok_build b;
    dop_diag *diag;
    const char *path;
    const uint8_t *bytes;
    size_t size;
    uint32_t pieces;
    spec spec;
    double *scores; /* [tokens] owned scores of the pieces */
    uint8_t *types; /* [tokens] owned types of the pieces */
} importer;

#define BAD(im, ...) DOP_FAIL_IN((im)->diag, DOP_E_INPUT, (im)->path, __VA_ARGS__)

static dop_status
read_trainer(importer *im, dop_pb pb)
{
    spec *s = &im->spec;
    const struct {
        uint32_t number;
        uint64_t *value;
    } keys[] = {{3, &s->kind}, {24, &s->suffix}, {35, &s->byte_fallback}, {41, &s->bos}, {42, &s->eos}};
    dop_pb_field f;
    while (dop_pb_next(&pb, &f)) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            if (f.number == keys[i].number && f.wire == DOP_PB_VARINT)
                *keys[i].value = f.value;
        if (f.number == 44 && f.wire == DOP_PB_BYTES && dop_utf8_check((const char *)f.data, f.len) == f.len) {
            s->unk_surface = (const char *)f.data;
            s->unk_surface_n = f.len;
        }
    }
    return pb.damaged ? BAD(im, "the trainer's part of this SentencePiece model is damaged") : DOP_OK;
}

static dop_status
read_normalizer(importer *im, dop_pb pb)
{
    spec *s = &im->spec;
    const struct {
        uint32_t number;
        uint64_t *value;
    } keys[] = {{3, &s->dummy_prefix}, {4, &s->merge_spaces}, {5, &s->escape}};
    dop_pb_field f;
    while (dop_pb_next(&pb, &f)) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            if (f.number == keys[i].number && f.wire == DOP_PB_VARINT)
                *keys[i].value = f.value;
        if (f.number == 2 && f.wire == DOP_PB_BYTES) {
            s->charsmap = f.data;
            s->charsmap_n = f.len;
        }
    }
    return pb.damaged ? BAD(im, "the normalizer's part of this SentencePiece model is damaged") : DOP_OK;
}

static dop_status
read_denormalizer(importer *im, dop_pb pb)
{
    dop_pb_field f;
    while (dop_pb_next(&pb, &f))
        if (f.number == 2 && f.len)
            return BAD(im, "a SentencePiece model that rewrites what it decodes (denormalizer_spec) is not supported");
    return pb.damaged ? BAD(im, "the denormalizer's part of this SentencePiece model is damaged") : DOP_OK;
}

/* Reads all parts except the pieces, which are only counted. */
static dop_status
read_spm_model(importer *im)
{
    dop_pb pb = dop_pb_of(im->bytes, im->size);
    dop_pb_field f;
    dop_status st = DOP_OK;
    im->spec = (spec){.kind = kind_unigram,
                      .bos = 1,
                      .eos = 2,
                      .dummy_prefix = 1,
                      .merge_spaces = 1,
                      .escape = 1,
                      .unk_surface = " \xe2\x81\x87 ",
                      .unk_surface_n = 5};
    while (st == DOP_OK && dop_pb_next(&pb, &f)) {
        if (f.wire != DOP_PB_BYTES)
            continue;
        if (f.number == model_pieces && im->pieces++ == DOP_TOK_MAX_TOKENS)
            return BAD(im, "this SentencePiece model has more than %u pieces", DOP_TOK_MAX_TOKENS);
        else if (f.number == model_trainer)
            st = read_trainer(im, dop_pb_of(f.data, f.len));
        else if (f.number == model_normalizer)
            st = read_normalizer(im, dop_pb_of(f.data, f.len));
        else if (f.number == model_denormalizer)
            st = read_denormalizer(im, dop_pb_of(f.data, f.len));
    }
    if (st != DOP_OK)
        return st;
    if (pb.damaged || im->pieces == 0)
        return BAD(im, "not a SentencePiece model, or a damaged one (at byte %zu of %zu)", (size_t)(pb.at - im->bytes),
                   im->size);
    if (im->spec.kind != kind_unigram && im->spec.kind != kind_bpe)
        return BAD(im, "a SentencePiece model of type %llu is not supported (unigram, 1, and BPE, 2, are)",
                   (unsigned long long)im->spec.kind);
    return DOP_OK;
}

/* Returns the text that a piece decodes to; U+2581 becomes a space. */
static dop_tok_str
decode_spm_piece(dop_tok_build *b, const char *s, size_t n, dop_buf *scratch)
{
    scratch->size = 0;
    for (size_t i = 0; i < n;) {
        bool mark = n - i >= DOP_TOK_SPACE_LEN && memcmp(s + i, DOP_TOK_SPACE, DOP_TOK_SPACE_LEN) == 0;
        dop_buf_append(scratch, mark ? " " : s + i, 1);
        i += mark ? DOP_TOK_SPACE_LEN : 1;
    }
    return dop_tok_build_string(b, scratch->data, scratch->size);
}

/* Sets the properties that depend on a piece's type: its decoded text, and whether encoding may produce it. */
static dop_status
use_piece(importer *im, uint32_t id, const char *s, size_t n, dop_buf *scratch)
{
    dop_tok_build *b = &im->b;
    int byte;
    char c;
    b->piece[id] = dop_tok_build_string(b, s, n);
    b->token_flags[id] = DOP_TOKEN_USED;
    switch (im->types[id]) {
    case type_unknown:
        if (b->unk != DOP_TOK_NONE)
            return BAD(im, "the pieces %u and %u are both of type unknown", b->unk, id);
        b->unk = id;
        b->text[id] = dop_tok_build_string(b, im->spec.unk_surface, im->spec.unk_surface_n);
        return dop_tok_build_add(b, id, DOP_ADDED_SPECIAL, false, s, n, im->diag);
    case type_control:
        b->token_flags[id] |= DOP_TOKEN_SPECIAL;
        b->text[id] = b->piece[id];
        return dop_tok_build_add(b, id, DOP_ADDED_SPECIAL, false, s, n, im->diag);
    case type_byte:
        if ((byte = dop_tok_byte_token(s, n)) < 0)
            return BAD(im, "piece %u \"%.*s\" is of type byte but does not name one", id, n > 80 ? 80 : (int)n, s);
        c = (char)byte;
        b->byte_ids[byte] = id;
        b->text[id] = dop_tok_build_string(b, &c, 1);
        return DOP_OK;
    case type_unused:
        if (im->spec.kind == kind_bpe)
            return BAD(im, "piece %u is of type unused, which is not supported in a BPE model", id);
        b->text[id] = decode_spm_piece(b, s, n, scratch);
        return DOP_OK;
    case type_user_defined:
        b->token_flags[id] |= DOP_TOKEN_USER_DEFINED;
        break;
    case type_normal:
        break;
    default:
        return BAD(im, "piece %u is of unknown type %u", id, im->types[id]);
    }
    b->token_flags[id] |= DOP_TOKEN_MODEL;
    b->text[id] = decode_spm_piece(b, s, n, scratch);
    return DOP_OK;
}

static dop_status
read_spm_piece(importer *im, uint32_t id, dop_pb pb, dop_buf *scratch)
{
    dop_pb_field f;
    const char *s = "";
    size_t n = 0;
    float score = 0;
    im->types[id] = type_normal;
    while (dop_pb_next(&pb, &f)) {
        if (f.number == piece_text && f.wire == DOP_PB_BYTES) {
            s = (const char *)f.data;
            n = f.len;
        } else if (f.number == piece_score && !dop_pb_float(&f, &score)) {
            return BAD(im, "piece %u has no score", id);
        } else if (f.number == piece_type) {
            im->types[id] = f.value > 255 ? 255 : (uint8_t)f.value;
        }
    }
    if (pb.damaged || n == 0 || n > DOP_TOK_MAX_PIECE || dop_utf8_check(s, n) != n)
        return BAD(im, "piece %u is damaged, empty, longer than %u bytes, or not valid UTF-8", id, DOP_TOK_MAX_PIECE);
    if (!(fabsf(score) <= 1e30f))
        return BAD(im, "piece %u has no usable score", id);
    im->scores[id] = (double)score;
    return use_piece(im, id, s, n, scratch);
}

static dop_status
read_spm_pieces(importer *im)
{
    dop_pb pb = dop_pb_of(im->bytes, im->size);
    dop_pb_field f;
    dop_buf scratch = {0};
    uint32_t id = 0;
    dop_status st = DOP_OK;
    im->scores = calloc(im->b.tokens, sizeof *im->scores);
    im->types = calloc(im->b.tokens, 1);
    if (!im->scores || !im->types)
        return DOP_NO_MEMORY(im->diag);
    while (st == DOP_OK && dop_pb_next(&pb, &f))
        if (f.number == model_pieces && f.wire == DOP_PB_BYTES)
            st = read_spm_piece(im, id++, dop_pb_of(f.data, f.len), &scratch);
    if (st == DOP_OK && scratch.failed)
        st = DOP_NO_MEMORY(im->diag);
    dop_buf_finish(&scratch);
    if (st == DOP_OK && im->b.unk == DOP_TOK_NONE)
        st = BAD(im, "no piece is of type unknown");
    return st;
}

static dop_status
check_byte_pieces(const importer *im)
{
    for (int i = 0; im->spec.byte_fallback && i < 256; i++)
        if (im->b.byte_ids[i] == DOP_TOK_NONE)
            return BAD(im, "bytes stand for unknown characters, but there is no piece <0x%02X>", (unsigned)i);
    return DOP_OK;
}

/* Sets Unigram's scores as the library does: in float, with a bonus for user-defined pieces derived from the best
 * score. The library's maximum starts at FLT_MIN, so it stays FLT_MIN if all scores are negative. */
static void
use_unigram(importer *im)
{
    const float unk_penalty = 10.0f;
    dop_tok_build *b = &im->b;
    float least = FLT_MAX, most = FLT_MIN;
    b->model = DOP_TOK_UNIGRAM;
    b->flags |= DOP_TOK_F_FLOAT_SCORES;
    for (uint32_t i = 0; i < im->pieces; i++) {
        if (im->types[i] != type_normal)
            continue;
        least = (float)im->scores[i] < least ? (float)im->scores[i] : least;
        most = (float)im->scores[i] > most ? (float)im->scores[i] : most;
    }
    for (uint32_t i = 0; i < im->pieces; i++)
        if (im->types[i] == type_user_defined)
            im->scores[i] = (double)((float)b->piece[i].bytes * most) - 0.1;
    b->unk_score = least == FLT_MAX ? -(double)unk_penalty : (double)(least - unk_penalty);
    b->scores = im->scores;
    im->scores = NULL;
}

static dop_status
use_spec(importer *im)
{
    const spec *s = &im->spec;
    dop_tok_build *b = &im->b;
    dop_status st = check_byte_pieces(im);
    if (st != DOP_OK)
        return st;
    b->flags |= DOP_TOK_F_FUSE_UNK | (s->byte_fallback ? DOP_TOK_F_BYTE_FALLBACK : 0u);
    if (s->kind == kind_unigram) {
        use_unigram(im);
    } else {
        b->flags |= DOP_TOK_F_BY_SCORE;
        if ((st = dop_tok_build_ranks(b, im->scores, im->diag)) != DOP_OK)
            return st;
    }
    dop_buf_append(&b->charsmap, s->charsmap, s->charsmap_n);
    if ((st = dop_tok_build_charsmap(b, im->diag)) != DOP_OK)
        return st;
    uint32_t flags = (s->merge_spaces ? DOP_SP_MERGE_SPACES : 0u) | (s->dummy_prefix ? DOP_SP_PREFIX : 0u) |
                     (s->escape ? DOP_SP_ESCAPE : 0u) | (s->suffix ? DOP_SP_SUFFIX : 0u) |
                     (s->charsmap_n ? DOP_SP_CHARSMAP : 0u);
    st = dop_tok_build_op(b, DOP_OP_SENTENCEPIECE, flags, "", 0, "", 0, im->diag);
    b->norm_ops = b->op_count;
    b->strip = s->dummy_prefix || s->merge_spaces ? 1 : 0;
    b->flags |= s->merge_spaces ? DOP_TOK_F_STRIP_EACH : 0u;
    if (s->bos < im->pieces && im->types[s->bos] == type_control)
        b->bos = (uint32_t)s->bos;
    if (s->eos < im->pieces && im->types[s->eos] == type_control)
        b->eos = (uint32_t)s->eos;
    return st;
}

/* Adds BOS or EOS for tokenizer classes that add it in code, without a setting in any file. */
static void
use_class(importer *im, const dop_tokenizer_facts *facts)
{
    static const struct {
        const char *name;
        bool bos, eos;
    } classes[] = {
        {"LlamaTokenizer", true, false},     {"LlamaTokenizerFast", true, false},
        {"CodeLlamaTokenizer", true, false}, {"CodeLlamaTokenizerFast", true, false},
        {"GemmaTokenizer", true, false},     {"GemmaTokenizerFast", true, false},
        {"T5Tokenizer", false, true},        {"T5TokenizerFast", false, true},
    };
    dop_tok_build *b = &im->b;
    const char *name = facts ? json_string_value(json_object_get(facts->config, "tokenizer_class")) : NULL;
    for (size_t i = 0; name && i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(classes[i].name, name) != 0)
            continue;
        if (classes[i].bos && b->bos != DOP_TOK_NONE)
            dop_ids_push(&b->prefix, b->bos);
        if (classes[i].eos && b->eos != DOP_TOK_NONE)
            dop_ids_push(&b->suffix, b->eos);
    }
}

dop_status
dop_tokenizer_from_sentencepiece(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                                 dop_diag *diag, dop_tokenizer **out_tok)
{
    importer im = {.diag = diag, .path = path, .bytes = bytes, .size = size};
    dop_tokenizer_facts none;
    uint32_t tokens = 0;
    dop_status st;
    *out_tok = NULL;
    dop_tokenizer_facts_init(&none);
    if ((st = read_spm_model(&im)) != DOP_OK)
        goto error;
    tokens = im.pieces;
    if ((st = dop_tok_config_tokens(facts, path, diag, &tokens)) != DOP_OK ||
        (st = dop_tok_build_init(&im.b, path, tokens, diag)) != DOP_OK || (st = read_spm_pieces(&im)) != DOP_OK ||
        (st = use_spec(&im)) != DOP_OK || (st = dop_tok_config_add(&im.b, facts, diag)) != DOP_OK)
        goto error;
    use_class(&im, facts);
    dop_tok_build_facts(&im.b, facts ? facts : &none);
    st = dop_tok_build_finish(&im.b, diag, out_tok);
error:
    free(im.scores);
    free(im.types);
    dop_tok_build_free(&im.b);
    return st;
}
