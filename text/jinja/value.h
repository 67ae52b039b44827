/* Values of the Jinja interpreter: dictionaries, equality, order and hashes, with Python's semantics. */
#ifndef DOPPLER_TEXT_JINJA_VALUE_H
#define DOPPLER_TEXT_JINJA_VALUE_H

#include "text/jinja/jinja.h"

dop_j_val dop_j_lit(const char *s);
bool dop_j_eq_lit(dop_j_str s, const char *t);
bool dop_j_str_eq(dop_j_str a, dop_j_str b);
/* memmem() that also handles empty texts and charges steps. */
const char *dop_j_find(dop_j_ctx *cx, dop_j_str in, dop_j_str what);
/* Create an empty list of a kind from J_LIST to J_ITER, and an empty dictionary or namespace. */
dop_j_val dop_j_new_list(dop_j_ctx *cx, dop_j_kind kind);
dop_j_val dop_j_new_dict(dop_j_ctx *cx, dop_j_kind kind);
void dop_j_push(dop_j_ctx *cx, dop_j_val list, dop_j_val v); /* appends v to a list; does nothing after an error */
dop_j_val dop_j_pair(dop_j_ctx *cx, dop_j_val a, dop_j_val b);
/* Set and look up an entry of a dictionary. Both fail if Python could not hash the key. */
void dop_j_set(dop_j_ctx *cx, dop_j_dict *d, dop_j_val key, dop_j_val v);
const dop_j_val *dop_j_get(dop_j_ctx *cx, const dop_j_dict *d, dop_j_val key);
void dop_j_clear(dop_j_dict *d);
bool dop_j_hashable(dop_j_ctx *cx, dop_j_val v);
bool dop_j_truth(dop_j_val v);
/* Converts a number to double. Returns false if v is not a number. */
bool dop_j_number(dop_j_val v, double *out);
bool dop_j_equal(dop_j_ctx *cx, dop_j_val a, dop_j_val b);
/* Compares two values: returns -1, 0 or 1. Sets *ok to false if Python defines no order for them. */
int dop_j_order(dop_j_ctx *cx, dop_j_val a, dop_j_val b, bool *ok);
/* Converts JSON to a value. Its strings point into `j`, which must outlive the context. */
dop_j_val dop_j_from_json(dop_j_ctx *cx, const json_t *j);
const char *dop_j_kind_name(dop_j_kind k);
/* Returns the items of an iterable (list, dictionary keys, characters), or NULL if v is not iterable. Consumes the
 * items of a J_ITER. */
const dop_j_list *dop_j_items(dop_j_ctx *cx, dop_j_val v);
size_t dop_j_chars(dop_j_ctx *cx, dop_j_str s); /* returns the length in code points */
/* Returns s[from:to] in code points. Both must be within the text. */
dop_j_str dop_j_cut(dop_j_ctx *cx, dop_j_str s, int64_t from, int64_t to);
bool dop_j_is_space(uint32_t cp); /* Python's str.isspace() of one character */
dop_j_str dop_j_strip(dop_j_ctx *cx, dop_j_str s, const dop_j_str *chars, bool left, bool right);
dop_j_val dop_j_undefined_use(dop_j_ctx *cx, dop_j_val v, long line);

#endif
