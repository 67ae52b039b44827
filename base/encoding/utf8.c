#include "base/encoding/utf8.h"

#include <string.h>

dop_utf8_char
dop_utf8_next(const char *s, size_t n)
{
    const uint8_t *p = (const uint8_t *)s;
    dop_utf8_char c = {.cp = 0xfffd, .len = n ? 1 : 0, .valid = false, .partial = n == 0};
    if (n == 0)
        return c;
    uint32_t b = p[0];
    if (b < 0x80) {
        c.cp = b;
        c.valid = true;
        return c;
    }
    uint32_t need, cp, lo = 0x80, hi = 0xbf; /* bounds of the second byte */
    if (b >= 0xc2 && b <= 0xdf) {
        need = 1;
        cp = b & 0x1fu;
    } else if (b >= 0xe0 && b <= 0xef) {
        need = 2;
        cp = b & 0x0fu;
        if (b == 0xe0)
            lo = 0xa0; /* no overlong forms */
        else if (b == 0xed)
            hi = 0x9f; /* no surrogates */
    } else if (b >= 0xf0 && b <= 0xf4) {
        need = 3;
        cp = b & 0x07u;
        if (b == 0xf0)
            lo = 0x90;
        else if (b == 0xf4)
            hi = 0x8f; /* nothing above U+10FFFF */
    } else {
        return c;
    }
    for (uint32_t i = 1; i <= need; i++) {
        if (i >= n) {
            c.partial = true;
            return c;
        }
        if (p[i] < lo || p[i] > hi)
            return c;
        cp = (cp << 6) | (p[i] & 0x3fu);
        c.len = i + 1;
        lo = 0x80;
        hi = 0xbf;
    }
    c.cp = cp;
    c.valid = true;
    return c;
}

size_t
dop_utf8_check(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        /* Fast path: eight ASCII bytes at a time. */
        while (n - i >= 8) {
            uint64_t w;
            memcpy(&w, s + i, 8);
            if (w & 0x8080808080808080u)
                break;
            i += 8;
        }
        if (i >= n)
            break;
        dop_utf8_char c = dop_utf8_next(s + i, n - i);
        if (!c.valid)
            return i;
        i += c.len;
    }
    return n;
}

size_t
dop_utf8_prev(const char *s, size_t end)
{
    size_t i = end - 1;
    while (i > 0 && ((uint8_t)s[i] & 0xc0u) == 0x80u)
        i--;
    return i;
}

size_t
dop_utf8_put(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0u | (cp >> 6));
        out[1] = (char)(0x80u | (cp & 0x3fu));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0u | (cp >> 12));
        out[1] = (char)(0x80u | ((cp >> 6) & 0x3fu));
        out[2] = (char)(0x80u | (cp & 0x3fu));
        return 3;
    }
    out[0] = (char)(0xf0u | (cp >> 18));
    out[1] = (char)(0x80u | ((cp >> 12) & 0x3fu));
    out[2] = (char)(0x80u | ((cp >> 6) & 0x3fu));
    out[3] = (char)(0x80u | (cp & 0x3fu));
    return 4;
}

bool
dop_utf8_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}
