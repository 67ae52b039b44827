/* What a model of speech hears before a generation. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_AUDIO_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_AUDIO_H

#include "tools/doppler-exec/common/cli.h"

#include <doppler/speech.h>

/* Fills the sequence's states from --audio or --mel, and writes the encoder's rows to --features; does nothing without either. */
dop_status dop_cli_hear(const dop_cli *cli, dop_model *model, dop_sequence *sequence, dop_diag *diag);

/* Reads a file of audio; *out is the caller's to close. */
dop_status dop_cli_read_audio(const char *path, dop_diag *diag, dop_audio **out);

#endif
