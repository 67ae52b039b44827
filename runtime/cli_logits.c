#include "runtime/cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

dop_status
dop_logits_file_open(const char *path, uint32_t vocab, dop_diag *diag, dop_logits_file *out_file)
{
    memset(out_file, 0, sizeof *out_file);
    out_file->path = path;
    out_file->vocab = vocab;
    dop_buf_printf(&out_file->temporary, "%s.tmp.%ld", path, (long)getpid());
    if (out_file->temporary.failed)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    out_file->f = fopen(out_file->temporary.data, "wbe");
    if (!out_file->f) {
        dop_buf_finish(&out_file->temporary);
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot write: %s", strerror(errno));
    }
    return DOP_OK;
}

dop_status
dop_logits_file_write(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    dop_logits_file *file = user;
    (void)first;
    if (fwrite(rows, sizeof *rows * file->vocab, n_rows, file->f) != n_rows)
        return DOP_FAIL_IN(diag, DOP_E_IO, file->path, "cannot write: %s", strerror(errno));
    return DOP_OK;
}

dop_status
dop_logits_file_close(dop_logits_file *file, bool complete, dop_diag *diag)
{
    dop_status st = DOP_OK;
    if (!file->f)
        return DOP_OK;
    bool ok = fclose(file->f) == 0;
    if (complete && (!ok || rename(file->temporary.data, file->path) != 0))
        st = DOP_FAIL_IN(diag, DOP_E_IO, file->path, "cannot write: %s", strerror(errno));
    if (!complete || st != DOP_OK)
        unlink(file->temporary.data);
    dop_buf_finish(&file->temporary);
    memset(file, 0, sizeof *file);
    return st;
}
