#include "text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding/utf8.h"

struct dop_regex {
    pcre2_code *code;
    bool jit;
};

struct dop_regex_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

enum {
    /* Design limit: tokenizer patterns have a few hundred characters and match single words. */
    max_pattern = 1 << 16,
    jit_stack_start = 32 * 1024,
    jit_stack_max = 1 << 20,
    /* Design limit: PCRE2 steps for one match. At about 30 million steps/s this is at most 0.3 s. */
    match_limit = 10 * 1000 * 1000,
    heap_limit_kib = 256 * 1024,
};

/* Contents of character classes: White_Space characters, and their complement. */
static const char space_set[] = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"
                                "\\x{202f}\\x{205f}\\x{3000}";
static const char not_space_set[] = "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}"
                                    "\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"
                                    "\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
/* Word characters as Oniguruma defines them: in addition to the properties, six numbers of Latin-1. */
static const char word_set[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

/* Rewrites an escape (\s, \w, \b, \h and their opposites) for PCRE2 and appends it. Returns false and appends
 * nothing if the escape needs no change. */
static bool
rewrite_escape(char c, bool in_class, dop_buf *out)
{
    if (!in_class && (c == 'b' || c == 'B')) { /* word boundaries of Oniguruma's word characters */
        static const char *const ends[] = {"(?:(?<=[%s])(?![%s])|(?<![%s])(?=[%s]))",
                                           "(?:(?<=[%s])(?=[%s])|(?<![%s])(?![%s]))"};
        dop_buf_printf(out, ends[c == 'B'], word_set, word_set, word_set, word_set);
        return true;
    }
    if (c == 'h' || c == 'H') { /* hexadecimal digits in Oniguruma, white space in PCRE2 */
        dop_buf_puts(out, in_class ? (c == 'h' ? "0-9a-fA-F" : "\\x{0}-/:-@G-`g-\\x{10ffff}")
                                   : (c == 'h' ? "[0-9a-fA-F]" : "[^0-9a-fA-F]"));
        return true;
    }
    const char *set = c == 's' ? space_set : c == 'S' ? not_space_set : c == 'w' || c == 'W' ? word_set : NULL;
    if (!set || (c == 'W' && in_class)) /* the complement of a property set cannot be written inside a class */
        return false;
    if (!in_class)
        dop_buf_puts(out, c == 'W' ? "[^" : "[");
    dop_buf_puts(out, set);
    if (!in_class)
        dop_buf_puts(out, "]");
    return true;
}

/* Rewrites a POSIX class, [:name:], that means other characters in PCRE2, and appends it. Returns false if it needs
 * no change. */
static bool
rewrite_named(const char *name, size_t n, dop_buf *out)
{
    static const char *const sets[][2] = {{"punct", "\\p{P}\\p{S}"},
                                          {"alpha", "\\p{Alphabetic}"},
                                          {"alnum", "\\p{Alphabetic}\\p{Nd}"},
                                          {"word", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"},
                                          {"upper", "\\p{Uppercase}"},
                                          {"lower", "\\p{Lowercase}"},
                                          {"space", space_set}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (strlen(sets[i][0]) == n && memcmp(sets[i][0], name, n) == 0) {
            dop_buf_puts(out, sets[i][1]);
            return true;
        }
    return false;
}

static dop_status
rewrite_pattern(const char *p, size_t n, dop_diag *diag, dop_buf *out)
{
    bool in_class = false;
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (c == '\\' && i + 1 < n) {
            i++;
            if (!rewrite_escape(p[i], in_class, out))
                dop_buf_append(out, p + i - 1, 2);
            continue;
        }
        if (in_class && c == '&' && i + 1 < n && p[i + 1] == '&')
            return DOP_FAIL(diag, DOP_E_INPUT,
                            "the regular expression intersects character classes (&&), which is not supported");
        if (in_class && c == ']') {
            in_class = false;
        } else if (in_class && c == '[' && i + 1 < n && p[i + 1] == ':') {
            size_t j = i + 2; /* [:name:] is part of the class */
            while (j + 1 < n && !(p[j] == ':' && p[j + 1] == ']'))
                j++;
            if (j + 1 < n) {
                if (!rewrite_named(p + i + 2, j - i - 2, out))
                    dop_buf_append(out, p + i, j + 2 - i);
                i = j + 1;
                continue;
            }
        } else if (!in_class && c == '[') {
            in_class = true;
            dop_buf_append(out, &c, 1);
            if (i + 1 < n && p[i + 1] == '^')
                dop_buf_append(out, p + ++i, 1);
            if (i + 1 < n && p[i + 1] == ']') { /* a first ']' is a literal */
                dop_buf_puts(out, "\\]");
                i++;
            }
            continue;
        }
        dop_buf_append(out, &c, 1);
    }
    return out->failed ? DOP_NO_MEMORY(diag) : DOP_OK;
}

dop_status
dop_regex_create(const char *pattern, size_t n, dop_diag *diag, dop_regex **out_re)
{
    dop_status st = DOP_OK;
    dop_buf text = {0};
    dop_regex *re = NULL;
    int error = 0;
    PCRE2_SIZE at = 0;
    *out_re = NULL;
    if (n > max_pattern)
        return DOP_FAIL(diag, DOP_E_INPUT, "the regular expression has %zu bytes, more than %d", n, max_pattern);
    if (dop_utf8_check(pattern, n) != n)
        return DOP_FAIL(diag, DOP_E_INPUT, "the regular expression is not valid UTF-8");
    st = rewrite_pattern(pattern, n, diag, &text);
    if (st != DOP_OK)
        goto error;
    re = calloc(1, sizeof *re);
    if (!re) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    /* MULTILINE: ^ and $ match at lines in Oniguruma's Ruby syntax. */
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_UTF_CHECK;
    re->code = pcre2_compile((PCRE2_SPTR)(text.data ? text.data : ""), text.size, options, &error, &at, NULL);
    if (!re->code) {
        char why[128];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
        st = DOP_FAIL(diag, DOP_E_INPUT,
                      "regular expression \"%.*s\" is not supported: %s at offset %zu of its PCRE2 form",
                      n > 80 ? 80 : (int)n, pattern, why, (size_t)at);
        goto error;
    }
    re->jit = pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) == 0; /* matching works without JIT, only slower */
    *out_re = re;
    re = NULL;
error:
    dop_regex_destroy(re);
    dop_buf_finish(&text);
    return st;
}

void
dop_regex_destroy(dop_regex *re)
{
    if (!re)
        return;
    pcre2_code_free(re->code);
    free(re);
}

dop_regex_scratch *
dop_regex_scratch_create(void)
{
    dop_regex_scratch *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    if (!s->match || !s->context) {
        dop_regex_scratch_destroy(s);
        return NULL;
    }
    pcre2_set_match_limit(s->context, match_limit);
    pcre2_set_depth_limit(s->context, match_limit);
    pcre2_set_heap_limit(s->context, heap_limit_kib);
    s->stack = pcre2_jit_stack_create(jit_stack_start, jit_stack_max, NULL);
    if (s->stack)
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return s;
}

void
dop_regex_scratch_destroy(dop_regex_scratch *s)
{
    if (!s)
        return;
    pcre2_match_context_free(s->context);
    pcre2_match_data_free(s->match);
    pcre2_jit_stack_free(s->stack);
    free(s);
}

dop_status
dop_regex_find(const dop_regex *re, dop_regex_scratch *s, const char *subject, size_t n, size_t from,
               dop_budget *budget, dop_diag *diag, bool *out_found, size_t *out_start, size_t *out_end)
{
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    *out_found = false;
    if (!dop_budget_step(budget, 1) || dop_budget_ended(budget))
        return dop_budget_fail(budget, diag, "the tokenizer's regular expression on this text");
    if (re->jit)
        rc = pcre2_jit_match(re->code, (PCRE2_SPTR)subject, n, from, 0, s->match, s->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter allocates its stack on the heap */
        rc = pcre2_match(re->code, (PCRE2_SPTR)subject, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match,
                         s->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return DOP_OK;
    if (rc < 0) {
        char why[128];
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        bool limit = rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT;
        return DOP_FAIL(diag,
                        limit                        ? DOP_E_LIMIT
                        : rc == PCRE2_ERROR_NOMEMORY ? DOP_E_NOMEM
                                                     : DOP_E_INPUT,
                        "the tokenizer's regular expression gave up on this text: %s", why);
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(s->match);
    /* \K in a lookaround can put the start after the end; treated as no match. */
    if (span[0] > span[1] || span[0] < from)
        return DOP_OK;
    *out_found = true;
    *out_start = span[0];
    *out_end = span[1];
    return DOP_OK;
}
