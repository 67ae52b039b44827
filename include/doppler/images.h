/* Pictures in a prompt: from the bytes of a file to rows of features that stand in place of tokens.
 *
 *     dop_image_read     decodes and prepares a picture, on any thread
 *     dop_images_expand  puts the texts of the model's tokens for the pictures into a prompt; then dop_text_encode makes ids
 *     dop_image_see      runs the model's vision part, on the thread that drives the model
 *     dop_images_place   puts the ids of features in place of the ids of the tokens for them
 *
 * Features of a picture are kept, up to a number of bytes, and used again for the same bytes of a file. */
#ifndef DOPPLER_INCLUDE_DOPPLER_IMAGES_H
#define DOPPLER_INCLUDE_DOPPLER_IMAGES_H

#include <doppler/doppler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_images dop_images; /* what a model knows about pictures */
typedef struct dop_image dop_image;   /* one picture */

/* Zeros are the defaults. */
typedef struct dop_images_options {
    uint64_t max_pixels; /* of a picture as it is stored; 0: 2^26 */
    uint64_t keep_bytes; /* most bytes of features that are kept although no dop_image has them; 0: 256 MiB */
} dop_images_options;

/* *out_images is the caller's to close, after its pictures and before the model.  DOP_E_INPUT: the plan takes no pictures.  The model's
 * thread. */
dop_status dop_images_open(dop_model *model, const dop_images_options *options, dop_diag *diag,
                           dop_images **out_images);
void dop_images_close(dop_images *images); /* accepts NULL */

/* Decodes and prepares a PNG, JPEG, WebP or GIF of n bytes.  animated: a picture of several frames is its first one; else it is
 * refused.  *out_image is the caller's to close.  DOP_E_INPUT: damaged, of another kind, or of a form that the model does not take;
 * DOP_E_LIMIT: too many pixels.  Any thread. */
dop_status dop_image_read(const dop_images *images, const void *bytes, size_t n, bool animated, dop_diag *diag,
                          dop_image **out_image);
/* Makes the picture's features, or finds those that the same bytes had.  Does nothing the second time.  The model's thread. */
dop_status dop_image_see(dop_image *image, dop_diag *diag);
/* Another owner of the picture, who closes it too.  Any thread. */
dop_image *dop_image_share(dop_image *image);
void dop_image_close(dop_image *image);              /* accepts NULL.  Any thread */
uint32_t dop_image_features(const dop_image *image); /* rows that stand for the picture */
/* The features of a picture that was seen, f32 [dop_image_features][*out_width], owned by the model; NULL: it was not. */
const float *dop_image_rows_of(const dop_image *image, uint32_t *out_width);

/* Puts marks in front of a text that has fewer of them than there are pictures.  *out_text is the caller's (dop_free). */
dop_status dop_images_mark(const dop_images *images, const char *text, size_t n, size_t n_images, dop_diag *diag,
                           char **out_text, size_t *out_n);
/* Replaces the model's mark of a picture in a text by the texts of the tokens that stand for the pictures, in order.
 * *out_text is the caller's (dop_free), ends with a 0 and has *out_n bytes before it.  DOP_E_INPUT: the text has another number of marks.
 * Any thread. */
dop_status dop_images_expand(const dop_images *images, const char *text, size_t n, dop_image *const *list,
                             size_t n_list, dop_diag *diag, char **out_text, size_t *out_n);
/* Replaces the ids of the tokens that stand for pictures, which have been seen, by those of their features, in order.  DOP_E_INPUT: as
 * many ids as features are not there. */
dop_status dop_images_place(const dop_images *images, uint32_t *ids, size_t n, dop_image *const *list, size_t n_list,
                            dop_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
