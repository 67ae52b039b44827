#include "text/tokenizer/tokenizer_charsmap.h"

#include <utf8proc.h>

#include "base/encoding/utf8.h"

/* Bit fields of a double-array unit, as defined by Darts-clone. */
static uint32_t
unit_offset(uint32_t u)
{
    return (u >> 10) << ((u & (1u << 9)) >> 6);
}

static bool
unit_has_leaf(uint32_t u)
{
    return (u >> 8) & 1u;
}

/* Returns the label of an inner unit. For a leaf, bit 31 makes it different from all byte values. */
static uint32_t
unit_label(uint32_t u)
{
    return u & ((1u << 31) | 0xffu);
}

static uint32_t
unit_value(uint32_t u)
{
    return u & ((1u << 31) - 1u);
}

const char *
dop_charsmap_check(const char *map, size_t size)
{
    uint32_t trie;
    if (size == 0)
        return NULL;
    if (size < sizeof trie + sizeof trie)
        return "it is too short";
    memcpy(&trie, map, sizeof trie);
    if (trie % 4 || trie == 0 || trie > size - sizeof trie)
        return "the size of its trie is impossible";
    const char *text = map + sizeof trie + trie;
    size_t bytes = size - sizeof trie - trie;
    if (bytes && text[bytes - 1] != 0)
        return "its replacements do not end with 0";
    if (dop_utf8_check(text, bytes) != bytes)
        return "its replacements are not valid UTF-8";
    for (size_t i = 0; i < bytes;) {
        size_t n = strlen(text + i);
        if (n > DOP_TOK_MAX_REPLACED)
            return "a replacement is too long";
        i += n + 1;
    }
    return NULL;
}

/* A replacement rule that matches the start of a text. */
typedef struct rule {
    size_t len;     /* bytes of the text that it replaces; 0: no rule matches */
    const char *by; /* replacement, 0-terminated */
} rule;

/* Maximum bytes that a rule replaces. Bounds the search in a damaged map, whose trie may be cyclic; published maps
 * need 20. */
enum { longest_rule = 256 };

/* Finds the longest or the shortest rule that matches the start of a text. Each index is checked here, because the
 * loader does not check the double array. */
static rule
find_rule(const dop_tokenizer *t, const char *s, size_t n, bool shortest)
{
    rule found = {0, ""};
    uint32_t trie, unit, at = 0;
    if (t->charsmap_count == 0)
        return found;
    memcpy(&trie, t->charsmap, sizeof trie);
    const char *units = t->charsmap + sizeof trie, *text = units + trie;
    size_t count = trie / 4, bytes = t->charsmap_count - sizeof trie - trie;
    memcpy(&unit, units, sizeof unit);
    at ^= unit_offset(unit);
    for (size_t i = 0; i < n && i < longest_rule && s[i]; i++) {
        at ^= (uint8_t)s[i];
        if (at >= count)
            break;
        memcpy(&unit, units + (size_t)at * 4, sizeof unit);
        if (unit_label(unit) != (uint8_t)s[i])
            break;
        at ^= unit_offset(unit);
        if (!unit_has_leaf(unit))
            continue;
        if (at >= count)
            break;
        memcpy(&unit, units + (size_t)at * 4, sizeof unit);
        uint32_t value = unit_value(unit);
        if (value >= bytes || ((uint8_t)text[value] & 0xc0u) == 0x80u)
            break;
        found = (rule){i + 1, text + value};
        if (shortest)
            break;
    }
    return found;
}

static size_t
grapheme_length(const char *s, size_t n)
{
    dop_utf8_char c = dop_utf8_next(s, n);
    utf8proc_int32_t state = 0;
    size_t len = c.len;
    while (len < n) {
        dop_utf8_char next = dop_utf8_next(s + len, n - len);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)c.cp, (utf8proc_int32_t)next.cp, &state))
            break;
        c = next;
        len += next.len;
    }
    return len;
}

void
dop_charsmap_graphemes(const dop_tokenizer *t, const char *s, size_t n, dop_buf *out)
{
    enum { short_grapheme = 6 }; /* bytes; longer graphemes are rewritten character by character */
    for (size_t i = 0, len; i < n; i += len) {
        len = grapheme_length(s + i, n - i);
        /* As in spm_precompiled, the shortest rule that matches the grapheme's start replaces the whole grapheme. */
        rule r = len < short_grapheme ? find_rule(t, s + i, len, true) : (rule){0, ""};
        if (r.len) {
            dop_buf_puts(out, r.by);
            continue;
        }
        for (size_t k = 0, c; k < len; k += c) {
            c = dop_utf8_next(s + i + k, len - k).len;
            r = find_rule(t, s + i + k, c, true);
            if (r.len)
                dop_buf_puts(out, r.by);
            else
                dop_buf_append(out, s + i + k, c);
        }
    }
}

/* Normalizes the first unit of the text: a user-defined token is copied, otherwise the longest rule applies. Returns
 * the number of bytes consumed; *out_s, *out_n is the normalized text. */
static size_t
normalize_start(const dop_tokenizer *t, unsigned flags, const char *s, size_t n, const char **out_s, size_t *out_n)
{
    uint32_t id;
    size_t len = (t->head->flags & DOP_TOK_F_USER_DEFINED) ? dop_tok_user_defined(t, s, n, &id) : 0;
    rule r = {0, ""};
    if (len == 0 && (flags & DOP_SP_CHARSMAP))
        r = find_rule(t, s, n, false);
    if (r.len) {
        *out_s = r.by;
        *out_n = strlen(r.by);
        /* A rule of a damaged map may end inside a character. Its remaining bytes are dropped, too. */
        while (r.len < n && ((uint8_t)s[r.len] & 0xc0u) == 0x80u)
            r.len++;
        return r.len;
    }
    *out_s = s;
    *out_n = len ? len : dop_utf8_next(s, n).len;
    return *out_n;
}

void
dop_charsmap_sentencepiece(const dop_tokenizer *t, unsigned flags, const char *s, size_t n, dop_buf *out)
{
    bool merge = (flags & DOP_SP_MERGE_SPACES) != 0, after_space = merge;
    const char *space = (flags & DOP_SP_ESCAPE) ? DOP_TOK_SPACE : " ", *p;
    size_t space_len = strlen(space), start = out->size, at = 0, len, used;
    while (merge && at < n) {
        used = normalize_start(t, flags, s + at, n - at, &p, &len);
        if (len != 1 || *p != ' ')
            break;
        at += used;
    }
    if (at == n)
        return;
    if ((flags & DOP_SP_PREFIX) && !(flags & DOP_SP_SUFFIX))
        dop_buf_append(out, space, space_len);
    for (; at < n; at += used) {
        used = normalize_start(t, flags, s + at, n - at, &p, &len);
        while (after_space && len && *p == ' ') {
            p++;
            len--;
        }
        for (size_t i = 0; i < len; i++)
            dop_buf_append(out, p[i] == ' ' ? space : p + i, p[i] == ' ' ? space_len : 1);
        if (len)
            after_space = merge && p[len - 1] == ' ';
    }
    while (merge && !out->failed && out->size - start >= space_len &&
           memcmp(out->data + out->size - space_len, space, space_len) == 0)
        out->size -= space_len;
    if ((flags & DOP_SP_PREFIX) && (flags & DOP_SP_SUFFIX))
        dop_buf_append(out, space, space_len);
}
