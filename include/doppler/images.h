/* Images in a prompt: from the bytes of an image file to feature rows that replace tokens.
 *
 *     dop_image_read     decodes and preprocesses an image, on any thread
 *     dop_images_expand  inserts the image tokens into the text of a prompt; dop_text_encode then makes ids
 *     dop_image_see      runs the vision encoder, on the model's thread
 *     dop_images_place   replaces the ids of the image tokens with the ids of the features
 *
 * Features are cached, up to a number of bytes, and reused for equal file bytes. */
#ifndef DOPPLER_INCLUDE_DOPPLER_IMAGES_H
#define DOPPLER_INCLUDE_DOPPLER_IMAGES_H

#include <doppler/doppler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_images dop_images; /* image preprocessor and feature cache of a model */
typedef struct dop_image dop_image;   /* one preprocessed image */

/* Options of dop_images_open.  Zeros are the defaults. */
typedef struct dop_images_options {
    uint64_t max_pixels; /* maximum number of pixels of an image file; 0: 2^26 */
    uint64_t keep_bytes; /* maximum bytes of cached features that no dop_image uses; 0: 256 MiB */
} dop_images_options;

/* Opens the image input of a model.  Close *out_images after its images and before the model.  DOP_E_INPUT: the plan does not support
 * images.  Call on the model's thread. */
dop_status dop_images_open(dop_model *model, const dop_images_options *options, dop_diag *diag,
                           dop_images **out_images);
void dop_images_close(dop_images *images); /* accepts NULL */

/* Decodes and preprocesses a PNG, JPEG, WebP or GIF file of n bytes.  animated: use the first frame of an animation, which otherwise is
 * an error.  The caller closes *out_image.  DOP_E_INPUT: damaged, another file type, or a shape that the model does not support;
 * DOP_E_LIMIT: too many pixels.  Callable from any thread. */
dop_status dop_image_read(const dop_images *images, const void *bytes, size_t n, bool animated, dop_diag *diag,
                          dop_image **out_image);
/* Computes the image's features, or finds them in the cache.  Does nothing if they exist.  Call on the model's thread. */
dop_status dop_image_see(dop_image *image, dop_diag *diag);
/* Adds a reference to the image and returns it; close it once more.  Callable from any thread. */
dop_image *dop_image_share(dop_image *image);
void dop_image_close(dop_image *image);              /* accepts NULL; callable from any thread */
uint32_t dop_image_features(const dop_image *image); /* number of feature rows */
/* Returns the features, f32 [dop_image_features][*out_width], owned by the model; NULL before dop_image_see. */
const float *dop_image_rows_of(const dop_image *image, uint32_t *out_width);

/* Prepends image placeholders to a text that has fewer than n_images of them.  Release *out_text with dop_free. */
dop_status dop_images_mark(const dop_images *images, const char *text, size_t n, size_t n_images, dop_diag *diag,
                           char **out_text, size_t *out_n);
/* Replaces each image placeholder in a text by the texts of its image tokens, in order.  *out_text is 0-terminated and *out_n bytes
 * long; release it with dop_free.  DOP_E_INPUT: the number of placeholders differs from n_list.  Callable from any thread. */
dop_status dop_images_expand(const dop_images *images, const char *text, size_t n, dop_image *const *list,
                             size_t n_list, dop_diag *diag, char **out_text, size_t *out_n);
/* Replaces the ids of image tokens by those of the images' features, in order.  Call dop_image_see for each image first.  DOP_E_INPUT:
 * the number of image tokens differs from the number of features. */
dop_status dop_images_place(const dop_images *images, uint32_t *ids, size_t n, dop_image *const *list, size_t n_list,
                            dop_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
