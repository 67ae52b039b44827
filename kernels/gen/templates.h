/* Finding, reading and filling the GLSL templates. */
#ifndef DOPPLER_KERNELS_GEN_TEMPLATES_H
#define DOPPLER_KERNELS_GEN_TEMPLATES_H

#include "kernels/gen/gen.h"

void dop_gen_close(dop_gen *gen);
/* A text that is written piece by piece; it lives until dop_gen_close(). */
dop_buf *dop_gen_text(dop_gen *gen);

/* Where there are too many keys, dop_template_fill fails. */
void dop_keys_set(dop_keys *k, const char *key, const char *value);
/* A text of the generation (dop_gen_text) that is the value of the key. */
dop_buf *dop_keys_text(dop_gen *gen, dop_keys *k, const char *key);
/* Keeps the text in the arena, and frees it. */
const char *dop_gen_keep(dop_gen *gen, dop_buf *text);
dop_status dop_template_fill(dop_gen *gen, const char *name, const dop_keys *keys, dop_buf *out);

#endif
