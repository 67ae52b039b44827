/* What the programs ask beside doppler/images.h. */
#ifndef DOPPLER_RUNTIME_LIBRARY_IMAGES_H
#define DOPPLER_RUNTIME_LIBRARY_IMAGES_H

#include "runtime/media/image_processor.h"
#include "runtime/model/model.h"

#include <doppler/images.h>

const dop_image_processor *dop_images_processor(const dop_images *images);
/* Two words that tell files apart. */
const uint64_t *dop_image_digest(const dop_image *image);

#endif
