/* Reading the fields of JSON that came from outside, checked for presence, type and range with messages that name file and
 * field.  A null field counts as absent everywhere. */
#ifndef DOPPLER_BASE_JSON_JSON_UTIL_H
#define DOPPLER_BASE_JSON_JSON_UTIL_H

#include "base/arena.h"
#include "base/json/json.h"

/* A view of one object; `where` is what to print before a key ("text_config." or ""). */
typedef struct dop_json {
    const json_t *object; /* borrowed; NULL: an absent object, every field of which is absent */
    const char *path;
    char where[96];
    dop_diag *diag;
} dop_json;

dop_status dop_json_root(const json_t *root, const char *path, dop_diag *diag, dop_json *out);
/* The view of a member that is an object; out->object is NULL when the member is absent. */
dop_status dop_json_sub(const dop_json *j, const char *key, dop_json *out);
bool dop_json_has(const dop_json *j, const char *key);
/* The member, NULL when absent or null. */
const json_t *dop_json_get(const dop_json *j, const char *key);
bool dop_json_is_null(const dop_json *j, const char *key); /* there, and null; not: absent */

/* Fails with "FIELD is missing". */
dop_status dop_json_missing(const dop_json *j, const char *key);
/* Reads an integer in [min, max]; the _or form gives `otherwise` (which is not checked) when the field is absent. */
dop_status dop_json_u32(const dop_json *j, const char *key, uint32_t min, uint32_t max, uint32_t *out);
dop_status dop_json_u32_or(const dop_json *j, const char *key, uint32_t min, uint32_t max, uint32_t otherwise,
                           uint32_t *out);
dop_status dop_json_u64(const dop_json *j, const char *key, uint64_t min, uint64_t max, uint64_t *out);
/* Reads a token id or a list of up to max_ids token ids.  Drops -1, which means none, and ids from `vocab` on, which no model gives. */
dop_status dop_json_ids(const dop_json *j, const char *key, uint32_t vocab, uint32_t max_ids, int64_t *ids,
                        uint32_t *out_n);
/* Reads a number (an integer too) in [min, max]; the _or form gives `otherwise` when the field is absent. */
dop_status dop_json_f64_or(const dop_json *j, const char *key, double min, double max, double otherwise, double *out);
dop_status dop_json_f64(const dop_json *j, const char *key, double min, double max, double *out);
dop_status dop_json_bool_or(const dop_json *j, const char *key, bool otherwise, bool *out);
/* *out lives as long as the root. */
dop_status dop_json_str_or(const dop_json *j, const char *key, const char *otherwise, const char **out);
/* Reads a list of numbers in [min, max], copied to the arena; *out_n is 0 when the field is absent. */
dop_status dop_json_f64_list(const dop_json *j, const char *key, double min, double max, dop_arena *arena,
                             const double **out, uint32_t *out_n);
/* Names the type of a value for messages: "a string", "an integer", ... */
const char *dop_json_kind(const json_t *v);

#endif
