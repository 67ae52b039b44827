/* Checks of output files before a run: none may also be an input, and each must be writable. */
#include "tools/doppler-exec/cli_outputs.h"
#include "plan/plan_format.h"
#include "tools/doppler-exec/common/cli.h"

#include <stdlib.h>
#include <sys/stat.h>

/* True if `path` is the file `of`, after following links. */
static bool
is_file(const struct stat *of, const char *path)
{
    struct stat sb;
    return path && stat(path, &sb) == 0 && sb.st_dev == of->st_dev && sb.st_ino == of->st_ino;
}

/* True if `of` is the plan, its weights, or the file of one of its parts. */
static bool
is_of_plan(const struct stat *of, const char *plan)
{
    dop_buf name = {0};
    dop_buf_printf(&name, "%s.weights", plan);
    bool is = is_file(of, plan) || is_file(of, name.data);
    for (uint32_t i = 0; i < DOP_MAX_PARTS && !is; i++) {
        name.size = 0;
        dop_buf_printf(&name, "%s.part%u", plan, i);
        is = is_file(of, name.data);
        dop_buf_printf(&name, ".weights");
        is = is || is_file(of, name.data);
    }
    dop_buf_finish(&name);
    return is;
}

dop_status
dop_cli_refuse_outputs(const dop_cli *cli, dop_diag *diag)
{
    const char *read[] = {cli->file,    cli->tokens_file,  cli->json_schema,   cli->grammar,
                          cli->session, cli->api_key_file, cli->chat_template, cli->ppl};
    const char *written[] = {cli->logits, cli->profile, cli->imatrix, cli->features};
    for (size_t k = 0; k < sizeof written / sizeof *written; k++) {
        struct stat of;
        if (!written[k] || stat(written[k], &of) != 0 || !S_ISREG(of.st_mode))
            continue;
        bool is = cli->draft && is_of_plan(&of, cli->draft);
        for (size_t i = 0; i < cli->plans.count && !is; i++)
            is = is_of_plan(&of, cli->plans.items[i]);
        for (size_t i = 0; i < sizeof read / sizeof *read && !is; i++)
            is = is_file(&of, read[i]);
        if (is)
            return DOP_FAIL_IN(diag, DOP_E_USAGE, written[k], "this file is an input: name another one to write to");
    }
    return DOP_OK;
}

dop_status
dop_cli_try_outputs(const dop_cli *cli, dop_diag *diag)
{
    const char *written[] = {cli->logits, cli->profile, cli->imatrix, cli->features, cli->session, cli->output};
    for (size_t k = 0; k < sizeof written / sizeof *written; k++)
        if (written[k])
            DOP_RETURN_IF_ERROR(dop_out_file_try(written[k], diag));
    return DOP_OK;
}
