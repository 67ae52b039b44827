/* WordPiece: greedy longest-match encoding. If no piece matches at some point, the whole word becomes one unknown
 * token.
 *
 * Time is at most bytes of the word x bytes of the longest piece (DOP_TOK_MAX_PIECE). */
#include <stdlib.h>

#include "base/encoding/utf8.h"
#include "text/tokenizer/tokenizer_internal.h"

/* Encoder state; nothing is kept between words. */
typedef struct wordpiece {
    const dop_tokenizer *t;
    dop_budget *budget; /* not owned */
} wordpiece;

static void *
wordpiece_create(const dop_tokenizer *t, bool with_cache, dop_budget *budget)
{
    (void)with_cache;
    wordpiece *state = malloc(sizeof *state);
    if (state)
        *state = (wordpiece){t, budget};
    return state;
}

static void
wordpiece_destroy(void *state)
{
    free(state);
}

/* True if the word exceeds the vocabulary's limit (word_max characters) and so becomes the unknown token. */
static bool
is_word_too_long(const dop_tokenizer *t, const char *s, size_t n)
{
    size_t chars = 0;
    if (t->head->word_max == 0 || n <= t->head->word_max)
        return false;
    for (size_t i = 0; i < n; i++)
        chars += ((uint8_t)s[i] & 0xc0u) != 0x80u;
    return chars > t->head->word_max;
}

static size_t
find_longest_piece(const dop_tokenizer *t, uint32_t node, const char *s, size_t n, uint32_t *out_id)
{
    size_t len = 0;
    for (size_t i = 0; i < n && i < t->longest_piece && (node = dop_tok_step(t, node, (uint8_t)s[i])) != 0; i++) {
        if (t->trie_token[node] != DOP_TOK_NONE) {
            len = i + 1;
            *out_id = t->trie_token[node];
        }
    }
    return len;
}

static dop_status
wordpiece_word(void *state, const char *s, size_t n, dop_diag *diag, dop_ids *out)
{
    const wordpiece *w = state;
    const dop_tokenizer *t = w->t;
    size_t before = out->count, len;
    bool bad = is_word_too_long(t, s, n);
    for (size_t at = 0; at < n && !bad; at += len) {
        uint32_t id = DOP_TOK_NONE;
        bool goes_on = at > 0 && t->head->joint.bytes > 0;
        len =
            goes_on && t->joint_node == 0 ? 0 : find_longest_piece(t, goes_on ? t->joint_node : 0, s + at, n - at, &id);
        if (!dop_budget_step(w->budget, 1 + (t->longest_piece < n - at ? t->longest_piece : n - at)))
            return dop_tok_no_room(w->budget, diag);
        bad = len == 0;
        if (!bad)
            dop_ids_push(out, id);
    }
    if (bad && !out->failed) {
        out->count = before;
        if (t->head->unk != DOP_TOK_NONE)
            dop_ids_push(out, t->head->unk);
    }
    return DOP_OK;
}

static const char *
wordpiece_check(const dop_tokenizer *t)
{
    const dop_tok_header *h = t->head;
    if (h->unk_score != 0 || t->scores_count || (h->flags & (DOP_TOK_F_BYTE_LEVEL | DOP_TOK_F_BY_SCORE)))
        return "header";
    return t->trie_label_count == 0 ? "trie" : NULL;
}

const dop_tok_kind dop_tok_wordpiece_kind = {"WordPiece", wordpiece_check, wordpiece_create, wordpiece_destroy,
                                             wordpiece_word};
