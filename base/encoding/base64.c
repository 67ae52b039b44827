#include "base/encoding/base64.h"

static int
base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes base64.  loose: ignores white space and accepts the base64url alphabet. */
static bool
decode_base64_text(const char *s, size_t n, bool loose, dop_buf *out)
{
    const size_t before = out->size;
    size_t digits = 0, padding = 0;
    uint32_t bits = 0, held = 0; /* number of bits not yet written */
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        const bool space = s[i] == ' ' || (s[i] >= '\t' && s[i] <= '\r');
        if (loose && space)
            continue;
        if (s[i] == '=') {
            padding++;
            continue;
        }
        const int d = base64_digit(loose && s[i] == '-' ? '+' : loose && s[i] == '_' ? '/' : s[i]);
        ok = d >= 0 && padding == 0;
        digits++;
        bits = (bits << 6 | ((uint32_t)d & 63u)) & 0xffffu;
        held += 6;
        if (held >= 8) {
            held -= 8;
            char c = (char)(bits >> held);
            dop_buf_append(out, &c, 1);
        }
    }
    ok = ok && digits % 4 != 1 && padding <= 2 && (padding == 0 || (digits + padding) % 4 == 0);
    if (!ok)
        out->size = before;
    return ok;
}

bool
dop_base64_decode(const char *s, size_t n, dop_buf *out)
{
    return decode_base64_text(s, n, false, out);
}

bool
dop_base64_decode_loose(const char *s, size_t n, dop_buf *out)
{
    return decode_base64_text(s, n, true, out);
}
