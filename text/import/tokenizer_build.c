/* Converts a tokenizer under construction into the binary form (text/tokenizer/tokenizer_format.h). */
#include "text/import/tokenizer_build.h"

#include <stdlib.h>

#include "base/encoding/utf8.h"
#include "text/tokenizer/tokenizer_charsmap.h"

const char dop_tok_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

const char dop_tok_punctuation[] = "[\\p{P}!-/:-@\\[-`{-~]";

dop_status
dop_tok_build_init(dop_tok_build *b, const char *path, uint32_t tokens, dop_diag *diag)
{
    b->path = path;
    b->tokens = tokens;
    b->bos = b->eos = b->unk = DOP_TOK_NONE;
    memset(b->byte_ids, 0xff, sizeof b->byte_ids);
    if (tokens == 0 || tokens > DOP_TOK_MAX_TOKENS)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the vocabulary has %u tokens; 1 to %u are supported", tokens,
                           DOP_TOK_MAX_TOKENS);
    b->piece = calloc(tokens, sizeof *b->piece);
    b->text = calloc(tokens, sizeof *b->text);
    b->token_flags = calloc(tokens, 1);
    dop_buf_puts(&b->strings, ""); /* ensures that strings.data is not NULL */
    if (!b->piece || !b->text || !b->token_flags || b->strings.failed)
        return DOP_NO_MEMORY(diag);
    return DOP_OK;
}

void
dop_tok_build_free(dop_tok_build *b)
{
    free(b->piece);
    free(b->text);
    free(b->token_flags);
    free(b->ranks);
    free(b->scores);
    dop_buf_finish(&b->charsmap);
    free(b->merges);
    free(b->added);
    dop_ids_finish(&b->prefix);
    dop_ids_finish(&b->middle);
    dop_ids_finish(&b->suffix);
    dop_ids_finish(&b->end_ids);
    dop_buf_finish(&b->strings);
    memset(b, 0, sizeof *b);
}

dop_tok_str
dop_tok_build_string(dop_tok_build *b, const char *s, size_t n)
{
    if (n > UINT32_MAX / 2 || b->strings.size > UINT32_MAX / 2) {
        b->strings.failed = true;
        return (dop_tok_str){0, 0};
    }
    dop_tok_str r = {(uint32_t)b->strings.size, (uint32_t)n};
    dop_buf_append(&b->strings, s, n);
    if (b->strings.failed) /* the string was not stored, so the range must be empty */
        return (dop_tok_str){0, 0};
    return r;
}

dop_status
dop_tok_build_op(dop_tok_build *b, dop_tok_op_kind kind, uint32_t flags, const char *a, size_t an, const char *c,
                 size_t cn, dop_diag *diag)
{
    if (b->op_count >= sizeof b->ops / sizeof *b->ops)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, b->path,
                           "the tokenizer has more than %zu normalizer and pre-tokenizer steps",
                           sizeof b->ops / sizeof *b->ops);
    b->ops[b->op_count++] =
        (dop_tok_op){(uint32_t)kind, flags, dop_tok_build_string(b, a, an), dop_tok_build_string(b, c, cn)};
    return DOP_OK;
}

dop_status
dop_tok_build_add(dop_tok_build *b, uint32_t id, uint32_t flags, bool normalized, const char *s, size_t n,
                  dop_diag *diag)
{
    if (b->added_count == b->added_cap) {
        size_t cap = b->added_cap ? b->added_cap * 2 : 64;
        dop_tok_build_added *p = realloc(b->added, cap * sizeof *p);
        if (!p)
            return DOP_NO_MEMORY(diag);
        b->added = p;
        b->added_cap = cap;
    }
    b->added[b->added_count++] = (dop_tok_build_added){id, flags, normalized, dop_tok_build_string(b, s, n)};
    return DOP_OK;
}

dop_status
dop_tok_build_bert(dop_tok_build *b, bool clean, bool chinese, bool accents, bool lower, dop_diag *diag)
{
    const struct {
        bool wanted;
        dop_tok_op_kind kind;
    } steps[] = {{clean, DOP_OP_BERT_CLEAN},
                 {chinese, DOP_OP_BERT_CHINESE},
                 {accents, DOP_OP_NFD},
                 {accents, DOP_OP_STRIP_ACCENTS},
                 {lower, DOP_OP_LOWERCASE}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].wanted)
            DOP_RETURN_IF_ERROR(dop_tok_build_op(b, steps[i].kind, 0, "", 0, "", 0, diag));
    return DOP_OK;
}

dop_status
dop_tok_build_bert_words(dop_tok_build *b, dop_diag *diag)
{
    dop_status st = dop_tok_build_op(b, DOP_OP_SPLIT_REGEX, DOP_SPLIT_REMOVED, "\\s", 2, "", 0, diag);
    if (st != DOP_OK)
        return st;
    return dop_tok_build_op(b, DOP_OP_SPLIT_REGEX, DOP_SPLIT_ISOLATED, dop_tok_punctuation, strlen(dop_tok_punctuation),
                            "", 0, diag);
}

dop_status
dop_tok_build_charsmap(dop_tok_build *b, dop_diag *diag)
{
    if (b->charsmap.failed)
        return DOP_NO_MEMORY(diag);
    const char *bad = dop_charsmap_check(b->charsmap.data, b->charsmap.size);
    return bad ? DOP_FAIL_IN(diag, DOP_E_INPUT, b->path, "the precompiled charsmap is damaged: %s", bad) : DOP_OK;
}

int
dop_tok_byte_token(const char *s, size_t n)
{
    int v = 0;
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        int d = dop_hex_digit(s[i]);
        if (d < 0 || s[i] >= 'a') /* "<0xab>" is ordinary text: SentencePiece writes byte values in upper case */
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* Header and sections of the binary form before concatenation. */
typedef struct layout {
    dop_tok_header head;
    dop_buf data[DOP_TOK_S_COUNT];
} layout;

static void
put_strings(const dop_tok_build *b, const dop_tok_str *str, dop_buf *off, dop_buf *bytes)
{
    for (uint32_t i = 0; i < b->tokens; i++) {
        uint32_t at = (uint32_t)bytes->size;
        dop_buf_append(off, &at, sizeof at);
        dop_buf_append(bytes, b->strings.data + str[i].offset, str[i].bytes);
    }
    uint32_t end = (uint32_t)bytes->size;
    dop_buf_append(off, &end, sizeof end);
}

static dop_status
put_vocab_hash(const dop_tok_build *b, dop_diag *diag, dop_buf *out)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < b->tokens; i++)
        used += (b->token_flags[i] & DOP_TOKEN_MODEL) != 0;
    uint32_t slots = used * 2 + 8;
    uint32_t *table = malloc(slots * sizeof *table);
    if (!table)
        return DOP_NO_MEMORY(diag);
    memset(table, 0xff, slots * sizeof *table);
    for (uint32_t id = 0; id < b->tokens; id++) {
        if (!(b->token_flags[id] & DOP_TOKEN_MODEL))
            continue;
        const char *s = b->strings.data + b->piece[id].offset;
        size_t n = b->piece[id].bytes;
        uint32_t k = dop_tok_slot(dop_tok_hash_bytes(s, n), slots);
        while (table[k] != DOP_TOK_NONE) {
            const dop_tok_str *o = &b->piece[table[k]];
            if (o->bytes == n && memcmp(b->strings.data + o->offset, s, n) == 0)
                break; /* the table keeps the first of two tokens with the same piece */
            k = k + 1 == slots ? 0 : k + 1;
        }
        if (table[k] == DOP_TOK_NONE)
            table[k] = id;
    }
    dop_buf_append(out, table, slots * sizeof *table);
    free(table);
    return DOP_OK;
}

static dop_status
put_merges(const dop_tok_build *b, dop_diag *diag, dop_buf *out)
{
    size_t slots = b->merge_count + b->merge_count / 2 + 8;
    dop_tok_merge *table = malloc(slots * sizeof *table);
    if (!table)
        return DOP_NO_MEMORY(diag);
    memset(table, 0xff, slots * sizeof *table);
    for (size_t i = 0; i < b->merge_count; i++) {
        const dop_tok_merge *m = &b->merges[i];
        uint32_t k = dop_tok_slot(dop_tok_hash_pair(m->a, m->b), slots);
        while (table[k].a != DOP_TOK_NONE && (table[k].a != m->a || table[k].b != m->b))
            k = k + 1 == slots ? 0 : k + 1;
        if (table[k].a == DOP_TOK_NONE || !b->first_merge_wins)
            table[k] = *m;
    }
    dop_buf_append(out, table, slots * sizeof *table);
    free(table);
    return DOP_OK;
}

/* Determines where words may be cut before U+2581 (DOP_TOK_F_SEAMS). A merge crosses such a cut only if its left
 * part ends right before the cut and its right part begins with U+2581. */
static void
find_seams(const dop_tok_build *b, layout *l)
{
    uint32_t refuse = DOP_TOK_F_BYTE_LEVEL | DOP_TOK_F_IGNORE_MERGES;
    bool has_space = false;
    if (b->model != DOP_TOK_BPE || (b->flags & refuse) || b->joint.bytes)
        return;
    for (uint32_t i = 0; i < b->tokens; i++) {
        const char *s = b->strings.data + b->piece[i].offset;
        size_t n = b->piece[i].bytes;
        if (!(b->token_flags[i] & DOP_TOKEN_MODEL))
            continue;
        if (n == DOP_TOK_SPACE_LEN && memcmp(s, DOP_TOK_SPACE, n) == 0)
            has_space = true;
        if (!(b->flags & DOP_TOK_F_BY_SCORE))
            continue;
        for (size_t k = 1; k + DOP_TOK_SPACE_LEN <= n; k++)
            if (memcmp(s + k, DOP_TOK_SPACE, DOP_TOK_SPACE_LEN) == 0)
                l->head.seam[(uint8_t)s[k - 1] >> 3] |= (uint8_t)(1u << ((uint8_t)s[k - 1] & 7u));
    }
    for (size_t i = 0; i < b->merge_count; i++) {
        const dop_tok_str *x = &b->piece[b->merges[i].a], *y = &b->piece[b->merges[i].b];
        if (x->bytes == 0 || y->bytes < DOP_TOK_SPACE_LEN ||
            memcmp(b->strings.data + y->offset, DOP_TOK_SPACE, DOP_TOK_SPACE_LEN) != 0)
            continue;
        const char *s = b->strings.data + x->offset;
        int byte = dop_tok_byte_token(s, x->bytes);
        uint8_t last = byte >= 0 ? (uint8_t)byte : (uint8_t)s[x->bytes - 1];
        l->head.seam[last >> 3] |= (uint8_t)(1u << (last & 7u));
    }
    if (has_space)
        l->head.flags |= DOP_TOK_F_SEAMS;
}

typedef struct sortable {
    const char *s;
    uint32_t n, group, id, flags, order;
} sortable;

static int
compare_added(const void *x, const void *y)
{
    const sortable *a = x, *b = y;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    int r = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);
    if (r)
        return r;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* Normalizes the texts of added tokens that match normalized text. `bare` is the tokenizer without added tokens. */
static dop_status
normalize_added(dop_tok_build *b, const dop_tokenizer *bare, dop_diag *diag)
{
    dop_status st = DOP_OK;
    dop_tok_work w = {.regex = dop_regex_scratch_create()};
    if (!w.regex)
        DOP_TRY(DOP_NO_MEMORY(diag));
    for (size_t i = 0; i < b->added_count; i++) {
        dop_tok_build_added *a = &b->added[i];
        if (!a->normalized || a->text.bytes == 0)
            continue;
        w.text.size = w.spans.count = 0;
        dop_buf_append(&w.text, b->strings.data + a->text.offset, a->text.bytes);
        dop_tok_spans_push(&w.spans, (dop_tok_span){0, a->text.bytes, true});
        DOP_TRY(dop_tok_apply_ops(bare, 0, bare->head->norm_ops, &w, diag));
        a->text = dop_tok_build_string(b, w.text.data, w.spans.count ? w.text.size : 0);
    }
error:
    dop_tok_work_finish(&w);
    return st;
}

static dop_status
put_added(const dop_tok_build *b, dop_diag *diag, layout *l)
{
    sortable *rows = calloc(b->added_count + 1, sizeof *rows);
    if (!rows)
        return DOP_NO_MEMORY(diag);
    size_t n = 0;
    for (size_t i = 0; i < b->added_count; i++) {
        const dop_tok_build_added *a = &b->added[i];
        if (a->text.bytes)
            rows[n++] = (sortable){
                b->strings.data + a->text.offset, a->text.bytes, a->normalized, a->id, a->flags, (uint32_t)i};
    }
    qsort(rows, n, sizeof *rows, compare_added);
    for (size_t i = 0; i < n; i++) {
        const sortable *r = &rows[i], *next = i + 1 < n ? r + 1 : NULL;
        if (next && next->group == r->group && next->n == r->n && memcmp(next->s, r->s, r->n) == 0)
            continue; /* duplicate text: the last definition counts */
        dop_tok_added a = {r->id, r->flags, {(uint32_t)l->data[DOP_TOK_S_strings].size, r->n}};
        dop_buf_append(&l->data[DOP_TOK_S_strings], r->s, r->n);
        dop_buf_append(&l->data[DOP_TOK_S_added], &a, sizeof a);
        l->head.added_raw += r->group == 0;
    }
    free(rows);
    return DOP_OK;
}

static void
put_ops(const dop_tok_build *b, layout *l)
{
    dop_buf *strings = &l->data[DOP_TOK_S_strings];
    for (uint32_t i = 0; i < b->op_count; i++) {
        dop_tok_op op = b->ops[i];
        dop_tok_str *both[2] = {&op.a, &op.b};
        for (int k = 0; k < 2; k++) {
            const char *s = b->strings.data + both[k]->offset;
            both[k]->offset = (uint32_t)strings->size;
            dop_buf_append(strings, s, both[k]->bytes);
        }
        dop_buf_append(&l->data[DOP_TOK_S_ops], &op, sizeof op);
    }
}

static int
compare_u32(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

static void
put_end_ids(dop_tok_build *b, dop_buf *out)
{
    if (b->end_ids.count)
        qsort(b->end_ids.data, b->end_ids.count, sizeof *b->end_ids.data, compare_u32);
    for (size_t i = 0; i < b->end_ids.count; i++)
        if (i == 0 || b->end_ids.data[i] != b->end_ids.data[i - 1])
            dop_buf_append(out, &b->end_ids.data[i], sizeof(uint32_t));
}

/* Concatenates header and sections into one allocation and loads it. */
static dop_status
join_tokenizer_blob(layout *l, dop_diag *diag, dop_tokenizer **out_tok)
{
    uint64_t size = sizeof l->head;
    for (int i = 0; i < DOP_TOK_S_COUNT; i++) {
        if (l->data[i].failed)
            return DOP_NO_MEMORY(diag);
        size = dop_align_u64(size, 8);
        l->head.section[i].offset = size;
        l->head.section[i].bytes = l->data[i].size;
        size += l->data[i].size;
    }
    size = dop_align_u64(size, 8);
    l->head.size = size;
    char *blob = calloc(1, size);
    if (!blob)
        return DOP_NO_MEMORY(diag);
    memcpy(blob, &l->head, sizeof l->head);
    for (int i = 0; i < DOP_TOK_S_COUNT; i++)
        if (l->data[i].size)
            memcpy(blob + l->head.section[i].offset, l->data[i].data, l->data[i].size);
    return dop_tokenizer_adopt(blob, size, diag, out_tok);
}

static void
put_tokenizer_head(const dop_tok_build *b, dop_tok_header *h)
{
    memcpy(h->magic, DOP_TOK_MAGIC, 8);
    h->version = DOP_TOK_VERSION;
    h->flags = b->flags | (b->chat ? DOP_TOK_F_HAS_CHAT : 0);
    for (uint32_t i = 0; i < b->tokens; i++)
        if (b->token_flags[i] & DOP_TOKEN_USER_DEFINED)
            h->flags |= DOP_TOK_F_USER_DEFINED;
    h->tokens = b->tokens;
    h->norm_ops = b->norm_ops;
    h->bos = b->bos;
    h->eos = b->eos;
    h->unk = b->unk;
    h->strip = b->strip;
    h->model = b->model;
    h->word_max = b->word_max;
    h->unk_score = b->unk_score;
}

/* Writes the sections that encode and decode words: pieces, hash table, merges or scores, trie, charsmap. */
static dop_status
put_model(const dop_tok_build *b, dop_diag *diag, layout *l)
{
    dop_buf *d = l->data;
    dop_status st;
    put_strings(b, b->piece, &d[DOP_TOK_S_piece_off], &d[DOP_TOK_S_piece_bytes]);
    put_strings(b, b->text, &d[DOP_TOK_S_text_off], &d[DOP_TOK_S_text_bytes]);
    dop_buf_append(&d[DOP_TOK_S_token_flags], b->token_flags, b->tokens);
    if ((st = put_vocab_hash(b, diag, &d[DOP_TOK_S_vocab_hash])) != DOP_OK ||
        (st = put_merges(b, diag, &d[DOP_TOK_S_merges])) != DOP_OK)
        return st;
    find_seams(b, l);
    if (b->ranks)
        dop_buf_append(&d[DOP_TOK_S_ranks], b->ranks, b->tokens * sizeof *b->ranks);
    if (b->scores)
        dop_buf_append(&d[DOP_TOK_S_scores], b->scores, b->tokens * sizeof *b->scores);
    if ((b->model != DOP_TOK_BPE || (l->head.flags & DOP_TOK_F_USER_DEFINED)) &&
        (st = dop_tok_build_trie(b, diag, &d[DOP_TOK_S_trie_first], &d[DOP_TOK_S_trie_label],
                                 &d[DOP_TOK_S_trie_token])) != DOP_OK)
        return st;
    dop_buf_append(&d[DOP_TOK_S_charsmap], b->charsmap.data, b->charsmap.size);
    dop_buf_append(&d[DOP_TOK_S_byte_ids], b->byte_ids, sizeof b->byte_ids);
    if (b->joint.bytes)
        l->head.joint = (dop_tok_str){(uint32_t)d[DOP_TOK_S_strings].size, b->joint.bytes};
    dop_buf_append(&d[DOP_TOK_S_strings], b->strings.data + b->joint.offset, b->joint.bytes);
    return DOP_OK;
}

static dop_status
assemble_tokenizer(dop_tok_build *b, bool with_added, dop_diag *diag, dop_tokenizer **out_tok)
{
    dop_status st = DOP_OK;
    layout *l = calloc(1, sizeof *l);
    if (!l)
        return DOP_NO_MEMORY(diag);
    dop_buf *d = l->data;
    put_tokenizer_head(b, &l->head);
    if ((st = put_model(b, diag, l)) != DOP_OK || (with_added && (st = put_added(b, diag, l)) != DOP_OK))
        goto error;
    put_ops(b, l);
    dop_buf_append(&d[DOP_TOK_S_middle], b->middle.data, b->middle.count * sizeof(uint32_t));
    dop_buf_append(&d[DOP_TOK_S_prefix], b->prefix.data, b->prefix.count * sizeof(uint32_t));
    dop_buf_append(&d[DOP_TOK_S_suffix], b->suffix.data, b->suffix.count * sizeof(uint32_t));
    put_end_ids(b, &d[DOP_TOK_S_end_ids]);
    if (b->chat)
        dop_buf_append(&d[DOP_TOK_S_chat], b->chat, b->chat_len);
    st = join_tokenizer_blob(l, diag, out_tok);
error:
    for (int i = 0; i < DOP_TOK_S_COUNT; i++)
        dop_buf_finish(&d[i]);
    free(l);
    return st;
}

dop_status
dop_tok_build_finish(dop_tok_build *b, dop_diag *diag, dop_tokenizer **out_tok)
{
    bool normalized = false;
    *out_tok = NULL;
    for (size_t i = 0; i < b->added_count; i++)
        normalized |= b->added[i].normalized;
    if (b->strings.failed || b->charsmap.failed || b->prefix.failed || b->suffix.failed || b->middle.failed ||
        b->end_ids.failed)
        return DOP_NO_MEMORY(diag);
    if (normalized && b->norm_ops) {
        dop_tokenizer *bare = NULL;
        dop_status st = assemble_tokenizer(b, false, diag, &bare);
        if (st == DOP_OK)
            st = normalize_added(b, bare, diag);
        dop_tokenizer_destroy(bare);
        if (st != DOP_OK)
            return st;
    }
    return assemble_tokenizer(b, true, diag, out_tok);
}
