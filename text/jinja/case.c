/* Case conversion as in Python's str: Unicode's full mappings, which may map one letter to several. */
#include <string.h>
#include <utf8proc.h>

#include "base/encoding/utf8.h"
#include "text/jinja/arena.h"
#include "text/jinja/case.h"
#include "text/jinja/jinja.h"

/* Case-folds a letter, to several letters if its uppercase has several. The uppercase of the folded letters then
 * equals the unconditional mapping in SpecialCasing.txt of the Unicode Character Database. */
enum { MOST_FOLDED = 8 };
static utf8proc_ssize_t
fold_letter(uint32_t cp, utf8proc_int32_t out[MOST_FOLDED])
{
    int boundary = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)cp, out, MOST_FOLDED, UTF8PROC_CASEFOLD, &boundary);
    return n < MOST_FOLDED ? n : MOST_FOLDED;
}

static bool
is_cased(uint32_t cp)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

static void
put_code_point(dop_j_ctx *cx, dop_j_out *o, utf8proc_int32_t cp)
{
    char c[4];
    dop_j_put(cx, o, c, dop_utf8_put((uint32_t)cp, c));
}

/* True if a capital sigma at `at` becomes a final small sigma: a letter precedes it and none follows. */
static bool
is_final_sigma(dop_j_str s, size_t at, size_t len)
{
    if (at == 0)
        return false;
    const size_t before = dop_utf8_prev(s.s, at);
    return is_cased(dop_utf8_next(s.s + before, at - before).cp) &&
           (at + len >= s.n || !is_cased(dop_utf8_next(s.s + at + len, s.n - at - len).cp));
}

static void
put_lower(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, size_t at, dop_utf8_char u)
{
    if (u.cp == 0x130) {
        dop_j_puts(cx, o, "i\314\207");
        return;
    }
    const bool final = u.cp == 0x3a3 && is_final_sigma(s, at, u.len);
    put_code_point(cx, o, final ? 0x3c2 : utf8proc_tolower((utf8proc_int32_t)u.cp));
}

/* Appends the uppercase of a letter, possibly several letters. first: title case, only the first letter is
 * uppercase. */
static void
put_upper(dop_j_ctx *cx, dop_j_out *o, dop_utf8_char u, bool first)
{
    const utf8proc_int32_t cp = (utf8proc_int32_t)u.cp, title = utf8proc_totitle(cp);
    utf8proc_int32_t all[MOST_FOLDED];
    const utf8proc_ssize_t n = utf8proc_category(cp) == UTF8PROC_CATEGORY_LU ? 1 : fold_letter(u.cp, all);
    if (n < 2 || (first && utf8proc_category(title) == UTF8PROC_CATEGORY_LT)) {
        put_code_point(cx, o, first ? title : utf8proc_toupper(cp));
        return;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++)
        put_code_point(cx, o, first && i > 0 ? all[i] : utf8proc_toupper(all[i]));
}

static void
put_folded(dop_j_ctx *cx, dop_j_out *o, dop_utf8_char u)
{
    utf8proc_int32_t folded[MOST_FOLDED];
    for (utf8proc_ssize_t i = 0, n = fold_letter(u.cp, folded); i < n; i++)
        put_code_point(cx, o, folded[i]);
}

dop_j_val
dop_j_change_case(dop_j_ctx *cx, dop_j_str s, dop_j_case how)
{
    dop_j_out o = {0};
    bool inside = false; /* true inside a word */
    for (size_t i = 0; i < s.n && dop_j_step(cx, 4);) {
        const dop_utf8_char u = dop_utf8_next(s.s + i, s.n - i);
        const bool is_upper = utf8proc_category((utf8proc_int32_t)u.cp) == UTF8PROC_CATEGORY_LU;
        if (how == CASE_FOLD)
            put_folded(cx, &o, u);
        else if (how == CASE_UPPER || (how == CASE_SWAP && !is_upper))
            put_upper(cx, &o, u, false);
        else if ((how == CASE_TITLE || how == CASE_CAPITAL) && !inside)
            put_upper(cx, &o, u, true);
        else
            put_lower(cx, &o, s, i, u);
        inside = how == CASE_TITLE ? is_cased(u.cp) : true;
        i += u.len;
    }
    return dop_j_take(&o);
}
