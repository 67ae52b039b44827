/* Image processor of a Hugging Face directory: how pictures are resized, cut and normalized for the vision part. */
#ifndef DOPPLER_FRONTEND_HF_IMAGE_H
#define DOPPLER_FRONTEND_HF_IMAGE_H

#include "base/json/json_util.h"
#include "media/picture/image_processor.h"

/* Reads preprocessor_config.json (or image_processor of processor_config.json), and the patch and feature fields of config.json.
 * *out_present: false if neither processor file exists. *out_processor has been validated. */
dop_status dop_hf_image_processor(const char *dir, const dop_json *config, dop_diag *diag, bool *out_present,
                                  dop_image_processor *out_processor);

#endif
