/* The tile that the pass `select` chooses for a region.  Later passes keep it, the text form prints it, and kernels
 * read it. */
#ifndef DOPPLER_IR_TILE_H
#define DOPPLER_IR_TILE_H

#include "base/base.h"

typedef struct dop_tile {
#define TILE(type, name, tuned, what) type name;
#include "ir/tile.def"
#undef TILE
} dop_tile;

/* Numbers of the fields, for texts and files. */
enum {
#define TILE(type, name, tuned, what) DOP_TILE_NO_##name,
#include "ir/tile.def"
#undef TILE
    DOP_TILE_FIELDS
};
const char *dop_tile_name(int field);
bool dop_tile_tuned(int field);
uint32_t dop_tile_get(const dop_tile *t, int field);
void dop_tile_set(dop_tile *t, int field, uint32_t value);
/* Appends " FIELD=N" for every field that is not 0. */
void dop_tile_put(const dop_tile *t, dop_buf *out);

#endif
