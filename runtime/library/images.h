/* Internal additions to doppler/images.h. */
#ifndef DOPPLER_RUNTIME_LIBRARY_IMAGES_H
#define DOPPLER_RUNTIME_LIBRARY_IMAGES_H

#include "media/picture/image_processor.h"
#include "runtime/model/model.h"

#include <doppler/images.h>

const dop_image_processor *dop_images_processor(const dop_images *images);
/* Like dop_image_read, but within a budget, which stays charged with the image's values. */
dop_status dop_image_read_within(const dop_images *images, const void *bytes, size_t n, bool animated,
                                 dop_budget *budget, dop_diag *diag, dop_image **out_image);
/* True if the ids contain as many image placeholder tokens as the images have rows. */
bool dop_images_fit(const dop_images *images, const uint32_t *ids, size_t n, dop_image *const *list, size_t n_list);
/* After dop_image_see(): true if the model already had the features of the same file. */
bool dop_image_was_kept(const dop_image *image);
/* Returns the memory in bytes that the image occupies until the model has its features. */
uint64_t dop_image_bytes(const dop_image *image);
/* Returns the 128-bit digest of the file. */
const uint64_t *dop_image_digest(const dop_image *image);

#endif
