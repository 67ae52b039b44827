/* Audio input of speech models: audio files, or files of log-mel values. */
#include "tools/doppler-exec/client/cli_audio.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

dop_status
dop_cli_read_audio(const char *path, dop_diag *diag, dop_audio **out)
{
    dop_buf file = {0};
    *out = NULL;
    dop_status st = dop_cli_read(path, diag, &file);
    if (st == DOP_OK) {
        st = dop_audio_read(file.data, file.size, NULL, diag, out);
        if (st != DOP_OK && !diag->path[0])
            snprintf(diag->path, sizeof diag->path, "%s", path);
    }
    dop_buf_finish(&file);
    return st;
}

/* Gets the log-mel values of the first chunk, from --mel or --audio. */
static dop_status
get_first_chunk(const dop_cli *cli, const dop_audio_facts *facts, dop_diag *diag, float *out)
{
    const size_t size = (size_t)facts->bins * facts->frames * sizeof *out;
    dop_buf file = {0};
    dop_audio *audio = NULL;
    dop_status st;
    if (!cli->mel) {
        st = dop_cli_read_audio(cli->audio, diag, &audio);
        if (st == DOP_OK)
            st = dop_audio_chunk(audio, facts, 0, diag, out);
        dop_audio_close(audio);
        return st;
    }
    st = dop_cli_read(cli->mel, diag, &file);
    if (st == DOP_OK && file.size != size)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, cli->mel, "%zu bytes are no f32 [%u, %u], which are %zu", file.size,
                         facts->bins, facts->frames, size);
    if (st == DOP_OK)
        memcpy(out, file.data, size);
    dop_buf_finish(&file);
    return st;
}

static dop_status
write_feature_rows(const char *path, const float *rows, size_t n, dop_diag *diag)
{
    dop_out_file file;
    dop_status st = dop_out_file_open(path, diag, &file);
    if (st != DOP_OK)
        return st;
    if (fwrite(rows, sizeof *rows, n, file.f) != n)
        st = DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot write: %s", strerror(errno));
    dop_status closed = dop_out_file_close(&file, st == DOP_OK, diag);
    return st != DOP_OK ? st : closed;
}

dop_status
dop_cli_hear(const dop_cli *cli, dop_model *model, dop_sequence *sequence, dop_diag *diag)
{
    dop_audio_facts facts;
    if (!cli->audio && !cli->mel)
        return DOP_OK;
    if (!dop_model_audio(model, &facts))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, cli->plans.items[0],
                           "the plan hears nothing: it is not of a model of speech");
    const size_t n = (size_t)facts.bins * facts.frames, n_rows = (size_t)facts.rows * facts.width;
    float *mel = malloc(n * sizeof *mel), *rows = malloc(n_rows * sizeof *rows);
    dop_status st = DOP_OK;
    if (!(mel && rows))
        DOP_TRY(DOP_NO_MEMORY(diag));
    DOP_TRY(get_first_chunk(cli, &facts, diag, mel));
    DOP_TRY(dop_sequence_hear(sequence, mel, n, diag, rows));
    if (cli->features)
        DOP_TRY(write_feature_rows(cli->features, rows, n_rows, diag));
error:
    free(mel);
    free(rows);
    return st;
}
