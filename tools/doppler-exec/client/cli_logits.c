#include "tools/doppler-exec/client/cli_logits.h"
#include "tools/doppler-exec/common/cli.h"

#include <errno.h>
#include <string.h>

dop_status
dop_logits_file_open(const char *path, uint32_t vocab, dop_diag *diag, dop_logits_file *out_file)
{
    memset(out_file, 0, sizeof *out_file);
    out_file->vocab = vocab;
    return dop_out_file_open(path, diag, &out_file->out);
}

dop_status
dop_logits_file_write(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    dop_logits_file *file = user;
    (void)first;
    if (fwrite(rows, sizeof *rows * file->vocab, n_rows, file->out.f) != n_rows)
        return DOP_FAIL_IN(diag, DOP_E_IO, file->out.path, "cannot write: %s", strerror(errno));
    return DOP_OK;
}

dop_status
dop_logits_file_close(dop_logits_file *file, bool complete, dop_diag *diag)
{
    return dop_out_file_close(&file->out, complete, diag);
}
