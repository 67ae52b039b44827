/* Label of a graph node or a dispatch: a layer (or none) and a role, as text "L3/qkv" or "head".  Reports of compiler and runtime sum
 * the cost of a role over all layers. */
#ifndef DOPPLER_BASE_LABEL_H
#define DOPPLER_BASE_LABEL_H

#include <stdint.h>
#include <stdio.h>

typedef struct dop_label {
    int32_t layer;    /* layer index, from 0; -1: outside of the layers */
    const char *role; /* role within the layer, such as "qkv"; "" (with layer -1): empty label */
} dop_label;
enum { DOP_LABEL_TEXT = 224 };

/* Parses a label.  The role points into `text`, which must outlive it. */
static inline dop_label
dop_label_read(const char *text)
{
    const char *p = text + 1;
    int64_t layer = 0;
    if (text[0] == 'L' && *p >= '0' && *p <= '9' && (p[0] != '0' || p[1] == '/')) {
        for (; *p >= '0' && *p <= '9' && layer <= INT32_MAX; p++)
            layer = layer * 10 + (*p - '0');
        if (*p == '/' && p[1] && layer <= INT32_MAX)
            return (dop_label){(int32_t)layer, p + 1};
    }
    return (dop_label){-1, text};
}

static inline const char *
dop_label_print(dop_label l, char *out, size_t size)
{
    if (l.layer >= 0)
        snprintf(out, size, "L%d/%s", (int)l.layer, l.role);
    else
        snprintf(out, size, "%s", l.role);
    return out;
}
/* Formats a label to a temporary array, valid until the end of the enclosing block. */
#define dop_label_text(l) dop_label_print(l, (char[DOP_LABEL_TEXT]){0}, DOP_LABEL_TEXT)

/* Formats a label with "*" for the layer number, so that reports can sum over all layers. */
static inline const char *
dop_label_any_layer(dop_label l, char *out, size_t size)
{
    snprintf(out, size, "%s%s", l.layer >= 0 ? "L*/" : "", l.role);
    return out;
}

#endif
