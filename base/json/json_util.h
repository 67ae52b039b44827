/* Reads fields of untrusted JSON with checks of presence, type and range; messages name file and field.  A null field counts as
 * absent. */
#ifndef DOPPLER_BASE_JSON_JSON_UTIL_H
#define DOPPLER_BASE_JSON_JSON_UTIL_H

#include "base/arena.h"
#include "base/json/json.h"

/* View of one object.  where: prefix of its keys in messages ("text_config." or ""). */
typedef struct dop_json {
    const json_t *object; /* not owned; NULL: an absent object, whose fields are all absent */
    const char *path;
    char where[96];
    dop_diag *diag;
} dop_json;

dop_status dop_json_root(const json_t *root, const char *path, dop_diag *diag, dop_json *out);
/* Returns the view of an object member; out->object is NULL if it is absent. */
dop_status dop_json_sub(const dop_json *j, const char *key, dop_json *out);
bool dop_json_has(const dop_json *j, const char *key);
/* Returns the member; NULL if absent or null. */
const json_t *dop_json_get(const dop_json *j, const char *key);
bool dop_json_is_null(const dop_json *j, const char *key); /* true if the member exists and is null */

/* Fails with "FIELD is missing". */
dop_status dop_json_missing(const dop_json *j, const char *key);
/* Read an integer in [min, max]; the _or form returns `otherwise` (unchecked) if the field is absent. */
dop_status dop_json_u32(const dop_json *j, const char *key, uint32_t min, uint32_t max, uint32_t *out);
dop_status dop_json_u32_or(const dop_json *j, const char *key, uint32_t min, uint32_t max, uint32_t otherwise,
                           uint32_t *out);
dop_status dop_json_u64(const dop_json *j, const char *key, uint64_t min, uint64_t max, uint64_t *out);
/* Reads a token id or a list of up to max_ids ids.  Drops -1 (none) and ids that are not below `vocab`, which the model cannot
 * produce. */
dop_status dop_json_ids(const dop_json *j, const char *key, uint32_t vocab, uint32_t max_ids, int64_t *ids,
                        uint32_t *out_n);
/* Read a number (or integer) in [min, max]; the _or form returns `otherwise` if the field is absent. */
dop_status dop_json_f64_or(const dop_json *j, const char *key, double min, double max, double otherwise, double *out);
dop_status dop_json_f64(const dop_json *j, const char *key, double min, double max, double *out);
dop_status dop_json_bool_or(const dop_json *j, const char *key, bool otherwise, bool *out);
/* *out is valid as long as the root. */
dop_status dop_json_str_or(const dop_json *j, const char *key, const char *otherwise, const char **out);
/* Reads a list of numbers in [min, max] into the arena; *out_n is 0 if the field is absent. */
dop_status dop_json_f64_list(const dop_json *j, const char *key, double min, double max, dop_arena *arena,
                             const double **out, uint32_t *out_n);
/* Returns the type of a value for messages: "a string", "an integer", ... */
const char *dop_json_kind(const json_t *v);

#endif
