/* Audio input of speech models. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_AUDIO_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_AUDIO_H

#include "tools/doppler-exec/common/cli.h"

#include <doppler/speech.h>

/* Fills the sequence's states from --audio or --mel and writes the encoder's output to --features. Does nothing
 * without these. */
dop_status dop_cli_hear(const dop_cli *cli, dop_model *model, dop_sequence *sequence, dop_diag *diag);

/* Reads an audio file. The caller closes *out. */
dop_status dop_cli_read_audio(const char *path, dop_diag *diag, dop_audio **out);

#endif
