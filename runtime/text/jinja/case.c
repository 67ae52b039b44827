/* Upper and lower case as Python's str has them: Unicode's full mappings, which may make several letters of one. */
#include <string.h>
#include <utf8proc.h>

#include "base/encoding/utf8.h"
#include "runtime/text/jinja/jinja.h"

/* Letters with more than one capital: SpecialCasing.txt of the Unicode Character Database, its unconditional part. */
static const struct {
    uint32_t cp;
    const char *upper;
} special[] = {{0xdf, "\123\123"},
               {0x149, "\312\274\116"},
               {0x1f0, "\112\314\214"},
               {0x390, "\316\231\314\210\314\201"},
               {0x3b0, "\316\245\314\210\314\201"},
               {0x587, "\324\265\325\222"},
               {0x1e96, "\110\314\261"},
               {0x1e97, "\124\314\210"},
               {0x1e98, "\127\314\212"},
               {0x1e99, "\131\314\212"},
               {0x1e9a, "\101\312\276"},
               {0x1f50, "\316\245\314\223"},
               {0x1f52, "\316\245\314\223\314\200"},
               {0x1f54, "\316\245\314\223\314\201"},
               {0x1f56, "\316\245\314\223\315\202"},
               {0x1f80, "\341\274\210\316\231"},
               {0x1f81, "\341\274\211\316\231"},
               {0x1f82, "\341\274\212\316\231"},
               {0x1f83, "\341\274\213\316\231"},
               {0x1f84, "\341\274\214\316\231"},
               {0x1f85, "\341\274\215\316\231"},
               {0x1f86, "\341\274\216\316\231"},
               {0x1f87, "\341\274\217\316\231"},
               {0x1f88, "\341\274\210\316\231"},
               {0x1f89, "\341\274\211\316\231"},
               {0x1f8a, "\341\274\212\316\231"},
               {0x1f8b, "\341\274\213\316\231"},
               {0x1f8c, "\341\274\214\316\231"},
               {0x1f8d, "\341\274\215\316\231"},
               {0x1f8e, "\341\274\216\316\231"},
               {0x1f8f, "\341\274\217\316\231"},
               {0x1f90, "\341\274\250\316\231"},
               {0x1f91, "\341\274\251\316\231"},
               {0x1f92, "\341\274\252\316\231"},
               {0x1f93, "\341\274\253\316\231"},
               {0x1f94, "\341\274\254\316\231"},
               {0x1f95, "\341\274\255\316\231"},
               {0x1f96, "\341\274\256\316\231"},
               {0x1f97, "\341\274\257\316\231"},
               {0x1f98, "\341\274\250\316\231"},
               {0x1f99, "\341\274\251\316\231"},
               {0x1f9a, "\341\274\252\316\231"},
               {0x1f9b, "\341\274\253\316\231"},
               {0x1f9c, "\341\274\254\316\231"},
               {0x1f9d, "\341\274\255\316\231"},
               {0x1f9e, "\341\274\256\316\231"},
               {0x1f9f, "\341\274\257\316\231"},
               {0x1fa0, "\341\275\250\316\231"},
               {0x1fa1, "\341\275\251\316\231"},
               {0x1fa2, "\341\275\252\316\231"},
               {0x1fa3, "\341\275\253\316\231"},
               {0x1fa4, "\341\275\254\316\231"},
               {0x1fa5, "\341\275\255\316\231"},
               {0x1fa6, "\341\275\256\316\231"},
               {0x1fa7, "\341\275\257\316\231"},
               {0x1fa8, "\341\275\250\316\231"},
               {0x1fa9, "\341\275\251\316\231"},
               {0x1faa, "\341\275\252\316\231"},
               {0x1fab, "\341\275\253\316\231"},
               {0x1fac, "\341\275\254\316\231"},
               {0x1fad, "\341\275\255\316\231"},
               {0x1fae, "\341\275\256\316\231"},
               {0x1faf, "\341\275\257\316\231"},
               {0x1fb2, "\341\276\272\316\231"},
               {0x1fb3, "\316\221\316\231"},
               {0x1fb4, "\316\206\316\231"},
               {0x1fb6, "\316\221\315\202"},
               {0x1fb7, "\316\221\315\202\316\231"},
               {0x1fbc, "\316\221\316\231"},
               {0x1fc2, "\341\277\212\316\231"},
               {0x1fc3, "\316\227\316\231"},
               {0x1fc4, "\316\211\316\231"},
               {0x1fc6, "\316\227\315\202"},
               {0x1fc7, "\316\227\315\202\316\231"},
               {0x1fcc, "\316\227\316\231"},
               {0x1fd2, "\316\231\314\210\314\200"},
               {0x1fd3, "\316\231\314\210\314\201"},
               {0x1fd6, "\316\231\315\202"},
               {0x1fd7, "\316\231\314\210\315\202"},
               {0x1fe2, "\316\245\314\210\314\200"},
               {0x1fe3, "\316\245\314\210\314\201"},
               {0x1fe4, "\316\241\314\223"},
               {0x1fe6, "\316\245\315\202"},
               {0x1fe7, "\316\245\314\210\315\202"},
               {0x1ff2, "\341\277\272\316\231"},
               {0x1ff3, "\316\251\316\231"},
               {0x1ff4, "\316\217\316\231"},
               {0x1ff6, "\316\251\315\202"},
               {0x1ff7, "\316\251\315\202\316\231"},
               {0x1ffc, "\316\251\316\231"},
               {0xfb00, "\106\106"},
               {0xfb01, "\106\111"},
               {0xfb02, "\106\114"},
               {0xfb03, "\106\106\111"},
               {0xfb04, "\106\106\114"},
               {0xfb05, "\123\124"},
               {0xfb06, "\123\124"},
               {0xfb13, "\325\204\325\206"},
               {0xfb14, "\325\204\324\265"},
               {0xfb15, "\325\204\324\273"},
               {0xfb16, "\325\216\325\206"},
               {0xfb17, "\325\204\324\275"}};

static const char *
special_upper(uint32_t cp)
{
    size_t low = 0, high = sizeof special / sizeof *special;
    while (cp >= special[0].cp && low < high) {
        const size_t mid = (low + high) / 2;
        if (special[mid].cp == cp)
            return special[mid].upper;
        if (special[mid].cp < cp)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static bool
is_cased(uint32_t cp)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

static void
put_cp(dop_j_ctx *cx, dop_j_out *o, utf8proc_int32_t cp)
{
    char c[4];
    dop_j_put(cx, o, c, dop_utf8_put((uint32_t)cp, c));
}

/* A capital sigma becomes its final form behind a letter where no letter follows. */
static bool
ends_word(dop_j_str s, size_t at, size_t len)
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
    const bool final = u.cp == 0x3a3 && ends_word(s, at, u.len);
    put_cp(cx, o, final ? 0x3c2 : utf8proc_tolower((utf8proc_int32_t)u.cp));
}

/* The capital of a letter; as the first of a word only the first of its letters is one. */
static void
put_upper(dop_j_ctx *cx, dop_j_out *o, dop_utf8_char u, bool first)
{
    const utf8proc_int32_t cp = (utf8proc_int32_t)u.cp, title = utf8proc_totitle(cp);
    const char *all = special_upper(u.cp);
    if (!all || (first && utf8proc_category(title) == UTF8PROC_CATEGORY_LT)) {
        put_cp(cx, o, first ? title : utf8proc_toupper(cp));
        return;
    }
    for (size_t i = 0, n = strlen(all); i < n;) {
        const dop_utf8_char c = dop_utf8_next(all + i, n - i);
        put_cp(cx, o, first && i > 0 ? utf8proc_tolower((utf8proc_int32_t)c.cp) : (utf8proc_int32_t)c.cp);
        i += c.len;
    }
}

static void
put_folded(dop_j_ctx *cx, dop_j_out *o, dop_utf8_char u)
{
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)u.cp, folded, 8, UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && i < 8; i++)
        put_cp(cx, o, folded[i]);
}

dop_j_val
dop_j_change_case(dop_j_ctx *cx, dop_j_str s, dop_j_case how)
{
    dop_j_out o = {0};
    bool inside = false; /* of a word */
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
