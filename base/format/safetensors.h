/* Safetensors files: 8 bytes of header length, a JSON header of names, types, shapes and byte ranges, then the data, little-endian.
 * Format: https://huggingface.co/docs/safetensors (section "Format"). */
#ifndef DOPPLER_BASE_FORMAT_SAFETENSORS_H
#define DOPPLER_BASE_FORMAT_SAFETENSORS_H

#include "base/arena.h"
#include "base/base.h"

enum { DOP_ST_MAX_RANK = 8 };

typedef struct dop_st_tensor {
    const char *name;  /* tensor name, in the arena */
    const char *file;  /* path of the file that contains it, for messages */
    const char *dtype; /* data type as written in the header */
    uint32_t rank;
    uint64_t shape[DOP_ST_MAX_RANK];
    const uint8_t *data; /* inside the mapped file, possibly unaligned */
    uint64_t bytes;
} dop_st_tensor;

typedef struct dop_st_set {
    dop_st_tensor *tensors; /* sorted by name without duplicates, in the arena */
    uint32_t n;
    bool *taken;      /* [n] true if dop_st_take() has returned the tensor; allocated by dop_st_open_dir() */
    const char *path; /* file or index that lists them, for messages */
} dop_st_set;

/* Verifies the header of a mapped file (length, JSON, types, shapes against sizes, ranges without overlap) and lists its tensors. */
dop_status dop_st_parse(const char *path, const dop_map *map, dop_arena *arena, dop_diag *diag, dop_st_set *out_set);

/* Reads a string of the header's metadata into the arena; *out_text NULL: no such key. */
dop_status dop_st_metadata(const char *path, const dop_map *map, const char *key, dop_arena *arena, dop_diag *diag,
                           const char **out_text);

/* Maps the weights of a model directory and lists their tensors.  Opens DIR/model.safetensors, or the shards named by
 * DIR/model.safetensors.index.json, or the only weights file or all shards of one model.  *out_maps (malloc'ed) must outlive the data.
 * The caller closes and frees the maps, also after an error. */
dop_status dop_st_open_dir(const char *dir, dop_arena *arena, dop_diag *diag, dop_st_set *out_set, dop_map **out_maps,
                           uint32_t *out_n_maps);
/* Like dop_st_open_dir for the files STEM.safetensors or STEM.safetensors.index.json. */
dop_status dop_st_open_stem(const char *dir, const char *stem, dop_arena *arena, dop_diag *diag, dop_st_set *out_set,
                            dop_map **out_maps, uint32_t *out_n_maps);

/* Returns the tensor with this name; NULL: none. */
const dop_st_tensor *dop_st_find(const dop_st_set *set, const char *name);
/* Like dop_st_find(), and marks the tensor as taken. */
const dop_st_tensor *dop_st_take(const dop_st_set *set, const char *name);
/* Formats a tensor's shape, "[320, 64]". */
void dop_st_shape_text(const dop_st_tensor *t, char *out, size_t size);
/* Like dop_st_take() for the concatenated name prefix + part. */
const dop_st_tensor *dop_st_take_part(const dop_st_set *set, const char *prefix, const char *part);
bool dop_st_is(const dop_st_tensor *t, const char *dtype); /* true if t is not NULL and has this dtype */
/* Fails with DOP_E_INPUT, naming the tensor, its type and shape, and the reason. */
dop_status dop_st_refuse(const dop_st_tensor *t, const char *why, dop_diag *diag);
/* Fails, naming the tensor, unless its shape is dims[rank], as config.json implies. */
dop_status dop_st_check_shape(const dop_st_tensor *t, uint32_t rank, const uint64_t *dims, dop_diag *diag);

#endif
