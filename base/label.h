/* Labels say where a node of a graph or a dispatch of a plan belongs: a layer, or none, and a role there.  As text, in graphs and
 * in plans, they are "L3/qkv" or "head".  The compiler carries them, and its reports and those of the runtime add up what the same
 * role takes in all layers. */
#ifndef DOPPLER_BASE_LABEL_H
#define DOPPLER_BASE_LABEL_H

#include <stdint.h>
#include <stdio.h>

typedef struct dop_label {
    int32_t layer;    /* index of the layer, from 0; -1: outside of all layers */
    const char *role; /* what the node does in its layer, as "qkv"; "" (and layer -1): the label is empty */
} dop_label;
enum { DOP_LABEL_TEXT = 224 };

/* Parses the text of a label.  The role points into `text`, which must outlive the label. */
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
/* Prints a label to a temporary text, which lives as long as the block around the expression. */
#define dop_label_text(l) dop_label_print(l, (char[DOP_LABEL_TEXT]){0}, DOP_LABEL_TEXT)

/* Prints a label with a star for the number of its layer, so that a report can sum over all layers under one name. */
static inline const char *
dop_label_any_layer(dop_label l, char *out, size_t size)
{
    snprintf(out, size, "%s%s", l.layer >= 0 ? "L*/" : "", l.role);
    return out;
}

#endif
