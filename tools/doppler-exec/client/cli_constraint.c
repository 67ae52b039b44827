#include "tools/doppler-exec/client/cli_constraint.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <stdio.h>
#include <string.h>

bool
dop_cli_wants_shape(const dop_cli *cli)
{
    return cli->json_schema || cli->grammar || cli->json_mode;
}

dop_status
dop_cli_constraint_start(const dop_cli *cli, dop_cli_generation *gen, dop_diag *diag, dop_cli_constraint *out_shape)
{
    dop_cli_constraint *s = out_shape;
    const char *path = cli->grammar ? cli->grammar : cli->json_schema;
    dop_buf file = {0};
    dop_status st = DOP_OK;
    if ((cli->json_schema != NULL) + (cli->grammar != NULL) + cli->json_mode > 1 || cli->ignore_eos ||
        cli->logprobs != DOP_CLI_UNSET)
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "--json-schema, --grammar, --json-mode, --ignore-eos and --logprobs exclude one another");
    if (path && (path[0] == '{' || strstr(path, "::="))) /* an inline grammar, as other programs accept */
        return DOP_FAIL(diag, DOP_E_USAGE, "--%s names a file: put \"%.40s%s\" into one",
                        cli->grammar ? "grammar" : "json-schema", path, strlen(path) > 40 ? "..." : "");
    if (path && (st = dop_cli_read(path, diag, &file)) == DOP_OK && file.size == 0)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the file is empty");
    if (st == DOP_OK) {
        if (cli->grammar)
            st = dop_constraint_from_grammar(gen->text, file.data, file.size, diag, &s->shape);
        else
            st = dop_constraint_from_schema(gen->text, file.data, file.size, diag, &s->shape);
        if (st == DOP_E_INPUT && path && diag && !diag->path[0])
            snprintf(diag->path, sizeof diag->path, "%s", path);
    }
    if (st == DOP_OK && dop_constraint_unenforced(s->shape)[0])
        fprintf(stderr, "doppler-exec: note: not enforced exactly: %s\n", dop_constraint_unenforced(s->shape));
    if (st == DOP_OK)
        st = dop_constraint_matcher_create(s->shape, NULL, diag, &s->matcher);
    gen->matcher = s->matcher;
    dop_buf_finish(&file);
    return st;
}

void
dop_cli_constraint_finish(dop_cli_constraint *shape)
{
    dop_constraint_matcher_destroy(shape->matcher);
    dop_constraint_destroy(shape->shape);
    memset(shape, 0, sizeof *shape);
}
