/* Converts the model part of manifest.json to facts. A field that is null or missing (older manifests) means "none";
 * for a multiplier, 1. */
#ifndef DOPPLER_FRONTEND_RDRR_CONFIG_H
#define DOPPLER_FRONTEND_RDRR_CONFIG_H

#include "frontend/rdrr/rdrr.h"

/* Reads facts and token ids (dop_rdrr_config), and the kernel path (dop_rdrr_path). Fails at the first unsupported feature,
 * naming it. */
dop_status dop_rdrr_config(dop_rdrr *r);
/* dop_rdrr_open_sections() opens the sections. dop_rdrr_read_rope() reads the rotary embedding of full layers, or of sliding
 * layers (`local`). head_dim: values per head. Defined in config.c. */
dop_status dop_rdrr_open_sections(dop_rdrr *r, dop_rdrr_sections *s);
dop_status dop_rdrr_read_rope(dop_rdrr *r, const dop_json *j, bool local, uint32_t head_dim, dop_rope *rope);

#endif
