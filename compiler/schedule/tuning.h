/* Measured tile choices for one device and model: a YAML list whose entries override the tile that select chose.
 *
 *   - {op: qkv, phase: decode, lanes: 32, rows: 1, unroll: 4, wg: 256}
 *
 * `op` is a template's name or the last part of a region's label, `template` the region's, `phase` is decode, prefill or score
 * (all when absent), `step` the rows of the schedule's steps, `variant` the kernel instead of the one that select would choose,
 * where that can make the region; the other fields are those of dop_tile.  Later entries win.
 *
 * A file of dopplerc --tune begins with an entry that says what it was measured with:
 *
 *   - {device: NVIDIA H200, driver: NVIDIA 580.159.04, kernels: 0123456789abcdef}
 *
 * If device, driver or text of the kernel templates differ from these, the file is ignored, and the compiler says so. */
#ifndef DOPPLER_COMPILER_SCHEDULE_TUNING_H
#define DOPPLER_COMPILER_SCHEDULE_TUNING_H

#include "kernels/kernel.h"

enum { DOP_MAX_TUNING = 256 };

typedef struct dop_tuning_entry {
    char op[32], tpl[16], phase[16], variant[40];
    uint32_t step;                   /* rows; 0: any */
    uint32_t value[DOP_TILE_FIELDS]; /* in the order of ir/tile.def; 0: not set */
} dop_tuning_entry;

/* What measurements depend on. */
typedef struct dop_tuning_key {
    char device[256], driver[512], kernels[20]; /* the last: a digest */
} dop_tuning_key;

typedef struct dop_tuning {
    uint32_t n;
    dop_tuning_entry entries[DOP_MAX_TUNING];
    dop_tuning_key key; /* from the file; "": it has none */
} dop_tuning;

/* The key by which an entry is found. */
typedef struct dop_tuning_site {
    const char *phase, *tpl, *role; /* role: of its label */
    uint32_t step;                  /* rows */
} dop_tuning_site;

dop_status dop_tuning_load(const char *path, dop_tuning *out, dop_diag *diag);
void dop_tuning_apply(const dop_tuning *t, const dop_tuning_site *at, dop_tile *tile);
/* The kernel that the last matching entry names; NULL: none does. */
const char *dop_tuning_variant(const dop_tuning *t, const dop_tuning_site *at);
void dop_tuning_key_of(const dop_device_caps *device, const dop_templates *templates, dop_tuning_key *out);
/* NULL: the file was measured here, or does not say where.  Else what differs, as text. */
const char *dop_tuning_stale(const dop_tuning *t, const dop_tuning_key *here);
/* Names and values of the tile's fields that differ, in the form of an entry. */
void dop_tuning_put_tile(const dop_tile *tile, const dop_tile *other, dop_buf *out);

#endif
