#include "ir/tile.h"

#include <stddef.h>

static const struct {
    const char *name;
    size_t offset;
    bool wide, tuned; /* wide: the field is uint32_t, otherwise bool */
} fields[DOP_TILE_FIELDS] = {
#define TILE(type, name, tuned, what) {#name, offsetof(dop_tile, name), sizeof(type) == sizeof(uint32_t), tuned},
#include "ir/tile.def"
#undef TILE
};

const char *
dop_tile_name(int field)
{
    return fields[field].name;
}

bool
dop_tile_tuned(int field)
{
    return fields[field].tuned;
}

uint32_t
dop_tile_get(const dop_tile *t, int field)
{
    const char *at = (const char *)t + fields[field].offset;
    return fields[field].wide ? *(const uint32_t *)(const void *)at : *(const bool *)at;
}

void
dop_tile_set(dop_tile *t, int field, uint32_t value)
{
    char *at = (char *)t + fields[field].offset;
    if (fields[field].wide)
        *(uint32_t *)(void *)at = value;
    else
        *(bool *)at = value != 0;
}

void
dop_tile_put(const dop_tile *t, dop_buf *out)
{
    for (int i = 0; i < DOP_TILE_FIELDS; i++)
        if (dop_tile_get(t, i))
            dop_buf_printf(out, " %s=%u", fields[i].name, dop_tile_get(t, i));
}
