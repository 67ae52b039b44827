/* What the programs ask beside doppler/images.h. */
#ifndef DOPPLER_RUNTIME_LIBRARY_IMAGES_H
#define DOPPLER_RUNTIME_LIBRARY_IMAGES_H

#include "media/picture/image_processor.h"
#include "runtime/model/model.h"

#include <doppler/images.h>

const dop_image_processor *dop_images_processor(const dop_images *images);
/* dop_image_read within a budget; the picture's values stay charged. */
dop_status dop_image_read_within(const dop_images *images, const void *bytes, size_t n, bool animated,
                                 dop_budget *budget, dop_diag *diag, dop_image **out_image);
/* Have the ids as many of the tokens that stand for pictures as the pictures have rows? */
bool dop_images_fit(const dop_images *images, const uint32_t *ids, size_t n, dop_image *const *list, size_t n_list);
/* After dop_image_see(): had the model the features of the picture's bytes already? */
bool dop_image_was_kept(const dop_image *image);
/* Memory that the picture holds until the model has its features. */
uint64_t dop_image_bytes(const dop_image *image);
/* Two words that tell files apart. */
const uint64_t *dop_image_digest(const dop_image *image);

#endif
