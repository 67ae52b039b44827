/* Growable array of token ids. */
#ifndef DOPPLER_TEXT_TOKENIZER_IDS_H
#define DOPPLER_TEXT_TOKENIZER_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Growable array of token ids. Zero-initialize it before use; dop_ids_finish() frees it. */
typedef struct dop_ids {
    uint32_t *data;
    size_t count;
    size_t cap;
    bool failed; /* true after an allocation failure; later pushes do nothing */
} dop_ids;

void dop_ids_push(dop_ids *ids, uint32_t id);
void dop_ids_finish(dop_ids *ids);

#endif
