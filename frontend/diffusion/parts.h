/* The parts of a latent diffusion model as readers of directories and of single files hand them over: for each, its configuration and its
 * tensors as a directory of diffusers has them. */
#ifndef DOPPLER_FRONTEND_DIFFUSION_PARTS_H
#define DOPPLER_FRONTEND_DIFFUSION_PARTS_H

#include "base/format/safetensors.h"
#include "base/json/json_util.h"
#include "frontend/facts/diffusion.h"
#include "frontend/facts/import.h"

enum { DOP_DRAW_TEXT, DOP_DRAW_TEXT_2, DOP_DRAW_UNET, DOP_DRAW_VAE, DOP_DRAW_SCHEDULER, DOP_DRAW_N_PARTS };

typedef struct dop_draw_part {
    const char *dir;  /* the part's folder; in a single file the path of that file */
    const char *path; /* what messages about the configuration name */
    json_t *config;   /* owned; NULL: the model has no such part */
    dop_st_set set;   /* no tensors for the scheduler */
} dop_draw_part;

typedef struct dop_draw_parts {
    dop_draw_part of[DOP_DRAW_N_PARTS];
    bool blank_zero;                 /* dop_diffusion.blank_zero */
    const char *tokenizer;           /* the folder of the tokenizer's files */
    const char *pad;                 /* text of the token that fills texts up; NULL: the tokenizer's files name it */
    const char *tokenizer_2, *pad_2; /* of the second text encoder, whose vocabulary is the first one's */
    const char *path;                /* the model, for messages */
} dop_draw_parts;

/* A model that is being imported. */
typedef struct dop_draw_reader {
    dop_draw_parts parts;
    dop_arena *arena;
    dop_diag *diag;
    dop_checkpoint *m;
    dop_diffusion *d;
} dop_draw_reader;

/* facts.c: reads a configuration into r->d. */
dop_status dop_draw_read_unet(dop_draw_reader *r, const dop_json *j);
dop_status dop_draw_read_text_2(dop_draw_reader *r, const dop_json *j); /* before the U-Net */
dop_status dop_draw_read_vae(dop_draw_reader *r, const dop_json *j);
dop_status dop_draw_read_schedule(dop_draw_reader *r, const dop_json *j);

/* import.c.  Reads DIR/FILE, an object, as a part's configuration. */
dop_status dop_draw_open_config(dop_draw_reader *r, int part, const char *dir, const char *file);
/* Facts and weights of all parts. */
dop_status dop_draw_import(dop_draw_reader *r);
/* Releases the parts' configurations, and returns st. */
dop_status dop_draw_finish(dop_draw_reader *r, dop_status st);
dop_status dop_draw_no_memory(const dop_draw_reader *r);

/* names.c: the name that a tensor of a single file has in a part of a directory, where "{q,k,v}" stands for three tensors that are one
 * in the file; NULL: directories have no such tensor, or memory is out.  `name` is what follows the part's prefix.  layers: the U-Net's
 * residual blocks of a level on the way down; layers of the text encoder that are used.  projected: its
 * projection, which is the transposed matrix in files, is one of its tensors.  levels: of the autoencoder. */
const char *dop_draw_unet_name(dop_arena *arena, const char *name, uint32_t layers);
const char *dop_draw_vae_name(dop_arena *arena, const char *name, uint32_t levels);
const char *dop_draw_text_name(dop_arena *arena, const char *name, uint32_t layers, bool projected);
/* The name in a single file of a tensor or module of the U-Net, by its name in a directory, without prefixes; NULL: single files have none. */
const char *dop_draw_unet_file_name(dop_arena *arena, const char *name, const dop_diffusion *d);

/* The names that adapters' files have for a matrix, by its name in the first of these forms: "unet.NAME", "text_encoder.NAME",
 * "text_encoder_2.NAME".  Returns how many; one that is NULL: memory is out. */
enum { DOP_DRAW_MOST_NAMES = 4 };
uint32_t dop_draw_adapter_names(dop_arena *arena, const dop_diffusion *d, const char *module, const char **out_names);

#endif
