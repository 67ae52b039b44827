/* Loads and checks the binary form, and implements the tokenizer's queries. */
#include <stdlib.h>

#include "base/encoding/utf8.h"
#include "text/tokenizer/tokenizer_charsmap.h"

#define DAMAGED(diag, what) \
    DOP_FAIL((diag), DOP_E_INPUT, "the tokenizer data is damaged (%s); compile the plan again", (what))

static const char *const section_names[] = {
#define X(name, type) #name,
    DOP_TOK_SECTIONS(X)
#undef X
};

static const uint32_t section_elem[] = {
#define X(name, type) (uint32_t)sizeof(type),
    DOP_TOK_SECTIONS(X)
#undef X
};

static dop_status
map_sections(dop_tokenizer *t, dop_diag *diag)
{
    const dop_tok_header *h = t->head;
    const char *data[DOP_TOK_S_COUNT];
    uint32_t count[DOP_TOK_S_COUNT];
    for (int i = 0; i < DOP_TOK_S_COUNT; i++) {
        uint64_t offset = h->section[i].offset, bytes = h->section[i].bytes, end;
        if (!dop_add_u64(offset, bytes, &end) || end > t->blob_size || offset < sizeof *h || offset % 8 ||
            bytes % section_elem[i] || bytes / section_elem[i] > UINT32_MAX / 2)
            return DAMAGED(diag, section_names[i]);
        data[i] = t->blob + offset;
        count[i] = (uint32_t)(bytes / section_elem[i]);
    }
#define X(sec, type)                                            \
    t->sec = (const type *)(const void *)data[DOP_TOK_S_##sec]; \
    t->sec##_count = count[DOP_TOK_S_##sec];
    DOP_TOK_SECTIONS(X)
#undef X
    return DOP_OK;
}

static bool
check_text_offsets(const uint32_t *off, uint32_t off_count, uint32_t tokens, uint32_t bytes, uint32_t *out_longest)
{
    if (off_count != tokens + 1 || off[0] != 0 || off[tokens] != bytes)
        return false;
    uint32_t longest = 0;
    for (uint32_t i = 0; i < tokens; i++) {
        if (off[i] > off[i + 1])
            return false;
        if (off[i + 1] - off[i] > longest)
            longest = off[i + 1] - off[i];
    }
    *out_longest = longest;
    return true;
}

static bool
check_id_range(const uint32_t *ids, uint32_t n, uint32_t tokens, bool none_ok)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= tokens && !(none_ok && ids[i] == DOP_TOK_NONE))
            return false;
    return true;
}

static bool
has_empty_slot(const dop_tokenizer *t)
{
    uint32_t i = 0;
    while (i < t->vocab_hash_count && t->vocab_hash[i] != DOP_TOK_NONE)
        i++;
    if (i == t->vocab_hash_count)
        return false;
    for (i = 0; i < t->merges_count && t->merges[i].a != DOP_TOK_NONE;)
        i++;
    return i < t->merges_count;
}

static bool
is_string_in_range(const dop_tokenizer *t, dop_tok_str s)
{
    return s.offset <= t->strings_count && s.bytes <= t->strings_count - s.offset;
}

static dop_status
check_tables(dop_tokenizer *t, dop_diag *diag)
{
    const dop_tok_header *h = t->head;
    uint32_t n = h->tokens, longest_text;
    if (n == 0 || n > DOP_TOK_MAX_TOKENS || (h->flags & ~(uint32_t)DOP_TOK_F_ALL))
        return DAMAGED(diag, "header");
    if (!check_text_offsets(t->piece_off, t->piece_off_count, n, t->piece_bytes_count, &t->longest_piece))
        return DAMAGED(diag, "piece_off");
    if (!check_text_offsets(t->text_off, t->text_off_count, n, t->text_bytes_count, &longest_text))
        return DAMAGED(diag, "text_off");
    if (t->token_flags_count != n)
        return DAMAGED(diag, "token_flags");
    if (!has_empty_slot(t) || !check_id_range(t->vocab_hash, t->vocab_hash_count, n, true))
        return DAMAGED(diag, "hash tables");
    for (uint32_t i = 0; i < t->merges_count; i++) {
        const dop_tok_merge *m = &t->merges[i];
        if (m->a != DOP_TOK_NONE && (m->id >= n || m->rank == DOP_TOK_NONE))
            return DAMAGED(diag, "merges");
    }
    if (t->byte_ids_count != 256 || !check_id_range(t->byte_ids, 256, n, true))
        return DAMAGED(diag, "byte_ids");
    const uint32_t single[3] = {h->bos, h->eos, h->unk};
    if (!check_id_range(single, 3, n, true) || !check_id_range(t->prefix, t->prefix_count, n, false) ||
        !check_id_range(t->middle, t->middle_count, n, false) ||
        !check_id_range(t->suffix, t->suffix_count, n, false) ||
        !check_id_range(t->end_ids, t->end_ids_count, n, false))
        return DAMAGED(diag, "special ids");
    return DOP_OK;
}

static const dop_tok_kind *const kinds[DOP_TOK_MODEL_COUNT] = {
    [DOP_TOK_BPE] = &dop_tok_bpe_kind,
    [DOP_TOK_UNIGRAM] = &dop_tok_unigram_kind,
    [DOP_TOK_WORDPIECE] = &dop_tok_wordpiece_kind,
};

/* Checks data specific to a kind of vocabulary: trie, scores, charsmap, and the header fields for them. */
static dop_status
check_vocab_kind(dop_tokenizer *t, dop_diag *diag)
{
    const dop_tok_header *h = t->head;
    const char *bad;
    if (h->model >= DOP_TOK_MODEL_COUNT || h->reserved || !is_string_in_range(t, h->joint))
        return DAMAGED(diag, "header");
    t->kind = kinds[h->model];
    if ((bad = dop_tok_trie_check(t)) != NULL || (bad = t->kind->check(t)) != NULL)
        return DAMAGED(diag, bad);
    if ((h->flags & DOP_TOK_F_USER_DEFINED) && t->trie_label_count == 0)
        return DAMAGED(diag, "trie");
    if (dop_charsmap_check(t->charsmap, t->charsmap_count))
        return DAMAGED(diag, "charsmap");
    if (dop_utf8_check(t->strings + h->joint.offset, h->joint.bytes) != h->joint.bytes)
        return DAMAGED(diag, "joint");
    for (uint32_t i = 0; i < h->joint.bytes && t->trie_label_count > 0; i++) {
        t->joint_node = dop_tok_step(t, t->joint_node, (uint8_t)t->strings[h->joint.offset + i]);
        if (t->joint_node == 0)
            break;
    }
    return DOP_OK;
}

static int
compare_strings(const char *a, size_t an, const char *b, size_t bn)
{
    int r = memcmp(a, b, an < bn ? an : bn);
    return r ? r : an < bn ? -1 : an > bn;
}

/* Checks the added tokens (matching relies on their bytewise order) and indexes them by first byte. */
static dop_status
index_added(dop_tokenizer *t, dop_diag *diag)
{
    if (t->head->added_raw > t->added_count)
        return DAMAGED(diag, "added");
    for (int group = 0; group < 2; group++) {
        uint32_t from = group ? t->head->added_raw : 0, to = group ? t->added_count : t->head->added_raw;
        uint32_t i = from;
        for (uint32_t k = from; k < to; k++) {
            const dop_tok_added *a = &t->added[k], *p = k > from ? a - 1 : NULL;
            if (a->id >= t->head->tokens || !is_string_in_range(t, a->text) || a->text.bytes == 0)
                return DAMAGED(diag, "added");
            if (p && compare_strings(t->strings + p->text.offset, p->text.bytes, t->strings + a->text.offset,
                                     a->text.bytes) >= 0)
                return DAMAGED(diag, "order of added");
        }
        for (uint32_t c = 0; c <= 256; c++) {
            while (i < to && (uint8_t)t->strings[t->added[i].text.offset] < c)
                i++;
            t->added_first[group][c] = i;
        }
    }
    return DOP_OK;
}

static dop_status
load_ops(dop_tokenizer *t, dop_diag *diag)
{
    if (t->head->norm_ops > t->ops_count || t->ops_count > 256)
        return DAMAGED(diag, "ops");
    t->regex = calloc(t->ops_count + 1u, sizeof *t->regex);
    if (!t->regex)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < t->ops_count; i++) {
        const dop_tok_op *op = &t->ops[i];
        bool is_split = op->kind == DOP_OP_SPLIT || op->kind == DOP_OP_SPLIT_REGEX;
        if (op->kind >= DOP_TOK_OP_COUNT || !is_string_in_range(t, op->a) || !is_string_in_range(t, op->b) ||
            (is_split && ((op->flags & 15u) >= DOP_SPLIT_COUNT || i < t->head->norm_ops)))
            return DAMAGED(diag, "ops");
        if (op->kind == DOP_OP_BYTES && /* the result need not be UTF-8, so no other op may follow */
            (i + 1 < t->ops_count || i < t->head->norm_ops || !(t->head->flags & DOP_TOK_F_BYTE_LEVEL)))
            return DAMAGED(diag, "ops");
        if (op->kind == DOP_OP_SENTENCEPIECE && (op->flags & ~(uint32_t)DOP_SP_ALL))
            return DAMAGED(diag, "ops");
        /* Inserted text must be UTF-8, because later steps rely on it. */
        if (dop_utf8_check(t->strings + op->a.offset, op->a.bytes) != op->a.bytes ||
            dop_utf8_check(t->strings + op->b.offset, op->b.bytes) != op->b.bytes)
            return DAMAGED(diag, "ops");
        if (op->kind == DOP_OP_SPLIT_REGEX || op->kind == DOP_OP_REPLACE_REGEX) {
            dop_status st = dop_regex_create(t->strings + op->a.offset, op->a.bytes, diag, &t->regex[i]);
            if (st != DOP_OK)
                return st;
        }
    }
    return DOP_OK;
}

/* Checks the blob t->blob and initializes the other fields of t. */
static dop_status
load_blob(dop_tokenizer *t, dop_diag *diag)
{
    dop_status st;
    t->head = (const dop_tok_header *)(const void *)t->blob;
    if (t->blob_size < sizeof *t->head || memcmp(t->head->magic, DOP_TOK_MAGIC, 8) != 0)
        return DAMAGED(diag, "no tokenizer header");
    if (t->head->version != DOP_TOK_VERSION)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "the tokenizer data has version %u, this program reads %u; compile the plan again",
                        t->head->version, DOP_TOK_VERSION);
    if (t->head->size != t->blob_size)
        return DAMAGED(diag, "size");
    if ((st = map_sections(t, diag)) != DOP_OK || (st = check_tables(t, diag)) != DOP_OK ||
        (st = check_vocab_kind(t, diag)) != DOP_OK || (st = index_added(t, diag)) != DOP_OK ||
        (st = load_ops(t, diag)) != DOP_OK)
        return st;
    for (int c = 0; c < 128; c++) {
        char s = (char)c;
        t->ascii_ids[c] = dop_tok_lookup(t, &s, 1);
    }
    return DOP_OK;
}

/* Creates a tokenizer from a blob. owned: memory freed with the tokenizer, and also on failure; may be NULL. */
static dop_status
create_from_blob(const void *blob, size_t size, void *owned, dop_diag *diag, dop_tokenizer **out_tok)
{
    *out_tok = NULL;
    dop_tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        free(owned);
        return DOP_NO_MEMORY(diag);
    }
    t->owned = owned;
    t->blob = blob;
    t->blob_size = size;
    dop_status st = load_blob(t, diag);
    if (st != DOP_OK) {
        dop_tokenizer_destroy(t);
        return st;
    }
    *out_tok = t;
    return DOP_OK;
}

dop_status
dop_tokenizer_adopt(void *blob, size_t size, dop_diag *diag, dop_tokenizer **out_tok)
{
    return create_from_blob(blob, size, blob, diag, out_tok);
}

dop_status
dop_tokenizer_from_blob(const void *bytes, size_t size, dop_diag *diag, dop_tokenizer **out_tok)
{
    *out_tok = NULL;
    if ((uintptr_t)bytes % 8) {
        void *copy = malloc(size ? size : 1);
        if (!copy)
            return DOP_NO_MEMORY(diag);
        memcpy(copy, bytes, size);
        return dop_tokenizer_adopt(copy, size, diag, out_tok);
    }
    return create_from_blob(bytes, size, NULL, diag, out_tok);
}

void
dop_tokenizer_destroy(dop_tokenizer *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; t->regex && i < t->ops_count; i++)
        dop_regex_destroy(t->regex[i]);
    free(t->regex);
    free(t->owned);
    free(t);
}

dop_status
dop_tokenizer_serialize(const dop_tokenizer *t, dop_buf *out)
{
    dop_buf_append(out, t->blob, t->blob_size);
    return out->failed ? DOP_E_NOMEM : DOP_OK;
}

uint32_t
dop_tokenizer_vocab_size(const dop_tokenizer *t)
{
    return t->head->tokens;
}

const char *
dop_tokenizer_piece(const dop_tokenizer *t, uint32_t id, size_t *out_len)
{
    *out_len = 0;
    if (id >= t->head->tokens)
        return NULL;
    *out_len = t->text_off[id + 1] - t->text_off[id];
    return t->text_bytes + t->text_off[id];
}

uint32_t
dop_tokenizer_find(const dop_tokenizer *t, const char *text, size_t len)
{
    for (uint32_t i = 0; i < t->added_count; i++) {
        dop_tok_str s = t->added[i].text;
        if (s.bytes == len && memcmp(t->strings + s.offset, text, len) == 0)
            return t->added[i].id;
    }
    return len ? dop_tok_lookup(t, text, len) : DOP_NO_TOKEN;
}

bool
dop_tokenizer_is_special(const dop_tokenizer *t, uint32_t id)
{
    return id < t->head->tokens && (t->token_flags[id] & DOP_TOKEN_SPECIAL);
}

bool
dop_tokenizer_is_end(const dop_tokenizer *t, uint32_t id)
{
    for (uint32_t i = 0; i < t->end_ids_count; i++)
        if (t->end_ids[i] == id)
            return true;
    return false;
}

uint32_t
dop_tokenizer_bos(const dop_tokenizer *t)
{
    return t->head->bos;
}

uint32_t
dop_tokenizer_eos(const dop_tokenizer *t)
{
    return t->head->eos;
}

bool
dop_tokenizer_adds_bos(const dop_tokenizer *t)
{
    return t->prefix_count > 0 && t->head->bos != DOP_NO_TOKEN && t->prefix[0] == t->head->bos;
}

const uint32_t *
dop_tokenizer_end_ids(const dop_tokenizer *t, size_t *out_count)
{
    *out_count = t->end_ids_count;
    return t->end_ids;
}

const char *
dop_tokenizer_chat_template(const dop_tokenizer *t, size_t *out_len)
{
    *out_len = t->chat_count;
    return (t->head->flags & DOP_TOK_F_HAS_CHAT) ? t->chat : NULL;
}
