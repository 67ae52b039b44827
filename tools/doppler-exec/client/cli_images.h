/* --image: images of the prompt. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_IMAGES_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_IMAGES_H

#include "tools/doppler-exec/client/cli_generate.h"

#include <jansson.h>

#include <doppler/images.h>

typedef struct dop_cli_images {
    dop_images *images; /* owned; NULL: the plan does not accept images */
    dop_image **list;   /* owned, [n] */
    size_t n;
} dop_cli_images;

/* Reads an image and runs the vision encoder on it. The first call opens the image preprocessor. */
dop_status dop_cli_image_add(dop_cli_images *x, dop_model *model, const char *path, dop_diag *diag);
/* Adds the images of --image. */
dop_status dop_cli_images_add(dop_cli_images *x, const dop_cli *cli, dop_model *model, dop_diag *diag);
/* Removes at most n images, starting at index `from`. */
void dop_cli_images_drop(dop_cli_images *x, size_t from, size_t n);
size_t dop_cli_images_of(const json_t *message); /* number of images in a message */
void dop_cli_images_finish(dop_cli_images *x);   /* call before closing the model; accepts a zeroed struct */
/* Encode a prompt with the tokens of its images, or replace the ids of image tokens by those of image features.
 * Without images, they encode plain text or change nothing. special: flags of dop_text_encode. */
dop_status dop_cli_images_encode(const dop_cli_images *x, const dop_text *text, const char *prompt, size_t n,
                                 unsigned special, dop_diag *diag, dop_ids *out_ids);
dop_status dop_cli_images_place(const dop_cli_images *x, dop_ids *ids, dop_diag *diag);
/* Writes the features of all images to a file as raw f32 [rows, hidden]. */
dop_status dop_cli_features_write(const dop_cli_images *x, const char *path, dop_diag *diag);
/* cli_chat.c: adds a user message with n images. Inserts missing image marks before the text. */
dop_status dop_cli_images_message(const dop_cli_images *x, size_t n, json_t *messages, const char *text, size_t len,
                                  dop_diag *diag);

#endif
