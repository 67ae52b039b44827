#include "base/encoding/base64.h"

static int
digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool
dop_base64_decode(const char *s, size_t n, dop_buf *out)
{
    size_t before = out->size;
    uint32_t bits = 0, held = 0; /* held: number of bits not yet written */
    if (n % 4 == 0 && n && s[n - 1] == '=') {
        n--;
        if (s[n - 1] == '=')
            n--;
    }
    bool ok = n % 4 != 1;
    for (size_t i = 0; i < n && ok; i++) {
        int d = digit(s[i]);
        ok = d >= 0;
        bits = (bits << 6 | ((uint32_t)d & 63u)) & 0xffffu;
        held += 6;
        if (held >= 8) {
            held -= 8;
            char c = (char)(bits >> held);
            dop_buf_append(out, &c, 1);
        }
    }
    if (!ok)
        out->size = before;
    return ok;
}
