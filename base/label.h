/* Labels say where a node of a graph or a dispatch of a plan belongs: "L3/qkv" is in layer 3, "head" is in no layer.
 * The compiler writes them; its reports and those of the runtime add up what the same place takes in all layers. */
#ifndef DOPPLER_BASE_LABEL_H
#define DOPPLER_BASE_LABEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What follows the layer, from the slash on: "/qkv" of "L3/qkv"; NULL where a label is in no layer.  *out_layer, which may be NULL,
 * is set only where there is a layer. */
static inline const char *
dop_label_part(const char *label, uint32_t *out_layer)
{
    const char *p = label + 1;
    uint64_t layer = 0;
    if (label[0] != 'L' || *p < '0' || *p > '9')
        return NULL;
    for (; *p >= '0' && *p <= '9'; p++)
        layer = layer > UINT32_MAX ? layer : layer * 10 + (uint64_t)(*p - '0');
    if (*p != '/')
        return NULL;
    if (out_layer)
        *out_layer = layer > UINT32_MAX ? UINT32_MAX : (uint32_t)layer;
    return p;
}

static inline bool
dop_label_layer(const char *label, uint32_t *out_layer)
{
    return dop_label_part(label, out_layer) != NULL;
}

/* The label with a star for the number of its layer, so that all layers are one name.  A label in no layer stays as it is. */
static inline void
dop_label_any_layer(const char *label, char *out, size_t cap)
{
    const char *part = dop_label_part(label, NULL);
    snprintf(out, cap, "%s%s", part ? "L*" : "", part ? part : label);
}

#endif
