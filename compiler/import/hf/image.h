/* Preprocessing of pictures as a Hugging Face directory states it. */
#ifndef DOPPLER_COMPILER_IMPORT_HF_IMAGE_H
#define DOPPLER_COMPILER_IMPORT_HF_IMAGE_H

#include "base/read/json_util.h"
#include "runtime/media/image_processor.h"

/* Reads preprocessor_config.json of a directory (or image_processor of its processor_config.json), and what config.json states
 * about patches and features.  *out_present is false where neither file is there.  *out_processor was checked. */
dop_status dop_hf_image_processor(const char *dir, const dop_json *config, dop_diag *diag, bool *out_present,
                                  dop_image_processor *out_processor);

#endif
