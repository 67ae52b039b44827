/* Safetensors files: 8 bytes of header length, a JSON header of names, types, shapes and byte ranges, then the bytes.
 * Format: https://huggingface.co/docs/safetensors (section "Format").  Little-endian. */
#ifndef DOPPLER_BASE_FORMAT_SAFETENSORS_H
#define DOPPLER_BASE_FORMAT_SAFETENSORS_H

#include "base/arena.h"
#include "base/base.h"

enum { DOP_ST_MAX_RANK = 8 };

typedef struct dop_st_tensor {
    const char *name;  /* in the arena */
    const char *file;  /* path of the file that holds it, for messages */
    const char *dtype; /* as the header spells it */
    uint32_t rank;
    uint64_t shape[DOP_ST_MAX_RANK];
    const uint8_t *data; /* in the mapped file, not necessarily aligned */
    uint64_t bytes;
} dop_st_tensor;

typedef struct dop_st_set {
    dop_st_tensor *tensors; /* sorted by name, no duplicates; in the arena */
    uint32_t n;
    bool *taken;      /* [n], allocated by dop_st_open_dir(): dop_st_take() has returned the tensor */
    const char *path; /* the file or index that lists them, for messages */
} dop_st_set;

/* Checks the header of one mapped file completely (length, JSON, types, shape against size, ranges inside the file, no
 * overlap) and lists its tensors. */
dop_status dop_st_parse(const char *path, const dop_map *map, dop_arena *arena, dop_diag *diag, dop_st_set *out_set);

/* The text under a key of the header's metadata, in the arena; *out_text NULL: there is none. */
dop_status dop_st_metadata(const char *path, const dop_map *map, const char *key, dop_arena *arena, dop_diag *diag,
                           const char **out_text);

/* Maps DIR/model.safetensors, or the shards that DIR/model.safetensors.index.json names, or where there is neither the only file of
 * weights, or all shards of one model, and lists the tensors of all of them.  The maps (*out_maps, malloc'ed array; closed and freed
 * by the caller also after an error) must outlive every use of the data. */
dop_status dop_st_open_dir(const char *dir, dop_arena *arena, dop_diag *diag, dop_st_set *out_set, dop_map **out_maps,
                           uint32_t *out_n_maps);
/* As dop_st_open_dir, of the files STEM.safetensors or STEM.safetensors.index.json. */
dop_status dop_st_open_stem(const char *dir, const char *stem, dop_arena *arena, dop_diag *diag, dop_st_set *out_set,
                            dop_map **out_maps, uint32_t *out_n_maps);

/* The tensor of a name; NULL: there is none. */
const dop_st_tensor *dop_st_find(const dop_st_set *set, const char *name);
/* Finds a tensor as dop_st_find() does, and marks it as read. */
const dop_st_tensor *dop_st_take(const dop_st_set *set, const char *name);
/* Writes a tensor's shape as text, "[320, 64]". */
void dop_st_shape_text(const dop_st_tensor *t, char *out, size_t size);
/* As dop_st_take, of the name prefix and part together. */
const dop_st_tensor *dop_st_take_part(const dop_st_set *set, const char *prefix, const char *part);
bool dop_st_is(const dop_st_tensor *t, const char *dtype); /* t may be NULL */
/* DOP_E_INPUT: names the tensor, its type and shape, and why. */
dop_status dop_st_refuse(const dop_st_tensor *t, const char *why, dop_diag *diag);
/* Fails, naming the tensor, unless its shape is dims[rank], which follows from config.json. */
dop_status dop_st_check_shape(const dop_st_tensor *t, uint32_t rank, const uint64_t *dims, dop_diag *diag);

#endif
