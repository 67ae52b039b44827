/* --logits: file of raw logits. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_LOGITS_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_LOGITS_H

#include "tools/doppler-exec/common/cli.h"

dop_status dop_logits_file_open(const char *path, uint32_t vocab, dop_diag *diag, dop_logits_file *out_file);
dop_status dop_logits_file_close(dop_logits_file *file, bool complete, dop_diag *diag);

#endif
