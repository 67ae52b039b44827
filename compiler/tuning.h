/* Measured tile choices for one device and model: a YAML list whose entries override the tile that select chose.
 *
 *   - {op: qkv, phase: decode, lanes: 32, rows: 1, unroll: 4, wg: 256}
 *
 * `op` is a template's name or the last part of a region's label, `phase` is decode, prefill or score (all when absent);
 * the other fields are those of dop_tile.  Later entries win. */
#ifndef DOPPLER_COMPILER_TUNING_H
#define DOPPLER_COMPILER_TUNING_H

#include "kernels/kernel.h"

enum { DOP_MAX_TUNING = 64, DOP_TILE_FIELDS = 13 };

typedef struct dop_tuning_entry {
    char op[32], phase[16];
    uint32_t value[DOP_TILE_FIELDS]; /* in the order of tuning.c's table; 0: not set */
} dop_tuning_entry;

typedef struct dop_tuning {
    uint32_t n;
    dop_tuning_entry entries[DOP_MAX_TUNING];
} dop_tuning;

dop_status dop_tuning_load(const char *path, dop_tuning *out, dop_diag *diag);
void dop_tuning_apply(const dop_tuning *t, const char *phase, const char *tpl, const char *label, dop_tile *tile);

#endif
