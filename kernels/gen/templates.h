/* Locates, reads and fills the GLSL templates. */
#ifndef DOPPLER_KERNELS_GEN_TEMPLATES_H
#define DOPPLER_KERNELS_GEN_TEMPLATES_H

#include "kernels/gen/gen.h"

void dop_gen_close(dop_gen *gen);
/* Creates an empty text, which is freed by dop_gen_close(). */
dop_buf *dop_gen_text(dop_gen *gen);

/* Sets a key's value. If there are too many keys, dop_template_fill fails later. */
void dop_keys_set(dop_keys *k, const char *key, const char *value);
/* Creates a text (dop_gen_text) that is the value of the key. */
dop_buf *dop_keys_text(dop_gen *gen, dop_keys *k, const char *key);
/* Copies the text to the arena, and frees it. */
const char *dop_gen_keep(dop_gen *gen, dop_buf *text);
dop_status dop_template_fill(dop_gen *gen, const char *name, const dop_keys *keys, dop_buf *out);

#endif
