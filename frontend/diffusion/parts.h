/* Parts of a latent diffusion model, as provided by the readers of directories and of single files: configuration and tensors of
 * each part in the form of a diffusers directory. */
#ifndef DOPPLER_FRONTEND_DIFFUSION_PARTS_H
#define DOPPLER_FRONTEND_DIFFUSION_PARTS_H

#include "base/format/safetensors.h"
#include "base/json/json_util.h"
#include "frontend/facts/diffusion.h"
#include "frontend/facts/import.h"

enum { DOP_DRAW_TEXT, DOP_DRAW_TEXT_2, DOP_DRAW_UNET, DOP_DRAW_VAE, DOP_DRAW_SCHEDULER, DOP_DRAW_N_PARTS };

typedef struct dop_draw_part {
    const char *dir;  /* the part's folder; for a single file, the file's path */
    const char *path; /* name of the configuration in messages */
    json_t *config;   /* owned; NULL: the model does not have this part */
    dop_st_set set;   /* tensors; none for the scheduler */
} dop_draw_part;

typedef struct dop_draw_parts {
    dop_draw_part of[DOP_DRAW_N_PARTS];
    bool blank_zero;                 /* sets dop_diffusion.blank_zero */
    const char *tokenizer;           /* folder of the tokenizer's files */
    const char *pad;                 /* text of the padding token; NULL: stated by the tokenizer's files */
    const char *tokenizer_2, *pad_2; /* as above for the second text encoder, which has the same vocabulary */
    const char *path;                /* path of the model, for messages */
} dop_draw_parts;

/* State of an import. */
typedef struct dop_draw_reader {
    dop_draw_parts parts;
    dop_arena *arena;
    dop_diag *diag;
    dop_checkpoint *m;
    dop_diffusion *d;
} dop_draw_reader;

/* Read a configuration into r->d. Defined in facts.c. */
dop_status dop_draw_read_unet(dop_draw_reader *r, const dop_json *j);
dop_status dop_draw_read_text_2(dop_draw_reader *r, const dop_json *j); /* must precede the U-Net's */
dop_status dop_draw_read_vae(dop_draw_reader *r, const dop_json *j);
dop_status dop_draw_read_schedule(dop_draw_reader *r, const dop_json *j);

/* Reads DIR/FILE, a JSON object, as a part's configuration. This and the next functions are defined in import.c. */
dop_status dop_draw_open_config(dop_draw_reader *r, int part, const char *dir, const char *file);
/* Imports facts and weights of all parts. */
dop_status dop_draw_import(dop_draw_reader *r);
/* Releases the parts' configurations and returns st. */
dop_status dop_draw_finish(dop_draw_reader *r, dop_status st);
dop_status dop_draw_no_memory(const dop_draw_reader *r);

/* Convert the name of a single-file tensor, without the part's prefix, to its name in a diffusers directory. "{q,k,v}" stands for
 * three tensors that are fused in the file. Return NULL if directories have no such tensor, or if out of memory. layers: residual
 * blocks per level in the U-Net's down path, or used layers of the text encoder. projected: the text encoder has a projection,
 * which files store transposed. levels: of the autoencoder. Defined in names.c. */
const char *dop_draw_unet_name(dop_arena *arena, const char *name, uint32_t layers);
const char *dop_draw_vae_name(dop_arena *arena, const char *name, uint32_t levels);
const char *dop_draw_text_name(dop_arena *arena, const char *name, uint32_t layers, bool projected);
/* Converts the directory name of a U-Net tensor or module, without prefixes, to its single-file name; NULL: single
 * files have none. */
const char *dop_draw_unet_file_name(dop_arena *arena, const char *name, const dop_diffusion *d);

/* Lists the names of a matrix in adapter files. module: its name in the first of these forms: "unet.NAME", "text_encoder.NAME",
 * "text_encoder_2.NAME". Returns the number of names; a NULL name means out of memory. */
enum { DOP_DRAW_MOST_NAMES = 4 };
uint32_t dop_draw_adapter_names(dop_arena *arena, const dop_diffusion *d, const char *module, const char **out_names);

#endif
