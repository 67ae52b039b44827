/* Word lists in one string: "silu swish". */
#ifndef DOPPLER_BASE_WORDS_H
#define DOPPLER_BASE_WORDS_H

#include <stdbool.h>
#include <string.h>

/* True if `word` is one of the space-separated `words`. */
static inline bool
dop_has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = words; n && *p;) {
        const size_t len = strcspn(p, " ");
        if (len == n && memcmp(p, word, n) == 0)
            return true;
        p += len + (p[len] == ' ');
    }
    return false;
}

#endif
