/* Mode --imatrix-out: reads a text and writes the importance matrix of the products' inputs. */
#include "base/os/system.h"
#include "plan/plan_part.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/common/cli_common.h"
#include "tools/imatrix/imatrix.h"

#include <stdio.h>
#include <string.h>

enum { WINDOW = 512 /* window length in tokens, by default */ };

static void
show_imatrix_progress(size_t done, size_t all)
{
    fprintf(stderr, "\r%3.0f%% of %zu tokens", (double)done * 100 / (double)all, all);
}

static dop_status
write_file(const dop_cli *cli, const dop_imatrix_made *made, dop_diag *diag)
{
    dop_buf file = {0};
    const char *text = cli->file ? cli->file : cli->tokens_file ? cli->tokens_file : "prompt";
    dop_imatrix_gguf(made, dop_path_name(text), &file);
    dop_status st = file.failed ? DOP_NO_MEMORY(diag) : dop_write_file(cli->imatrix, file.data, file.size, diag);
    dop_buf_finish(&file);
    return st;
}

/* Fails if the plan is in parts: all ranks would have to measure. */
static dop_status
check_imatrix_parts(const dop_cli *cli, dop_diag *diag)
{
    const char *path = NULL;
    dop_status st = dop_cli_plan(cli, diag, &path);
    return st == DOP_OK && dop_plan_count_parts(path) > 1
               ? DOP_FAIL_IN(diag, DOP_E_USAGE, path,
                             "--imatrix-out takes a plan in one part: compile it without --parts")
               : st;
}

dop_status
dop_mode_imatrix(dop_cli *cli, dop_diag *diag)
{
    dop_model *model = NULL;
    dop_sequence *sequence = NULL;
    dop_text *tokenizer = NULL;
    dop_imatrix_made made = {0};
    dop_facts facts;
    dop_buf text = {0};
    dop_ids ids = {0};
    const char *needed = cli->prompt ? "-p" : cli->file ? "-f" : NULL;
    dop_status st = check_imatrix_parts(cli, diag);
    cli->ordering = "barriers";
    if (st == DOP_OK)
        st = dop_cli_open(cli, diag, &model, &sequence);
    if (st != DOP_OK)
        return st;
    dop_model_facts(model, &facts);
    const uint32_t most = facts.ctx < WINDOW ? facts.ctx : WINDOW,
                   window = cli->ppl_ctx == DOP_CLI_UNSET ? most : cli->ppl_ctx;
    if (window > facts.ctx)
        st = DOP_FAIL(diag, DOP_E_INPUT, "--ppl-ctx %u is larger than the plan's context of %u", window, facts.ctx);
    if (st == DOP_OK && needed)
        st = dop_cli_text(cli, model, needed, diag, &tokenizer);
    if (st == DOP_OK)
        st = dop_cli_prompt(cli, tokenizer, diag, &ids, &text);
    if (st == DOP_OK && ids.count == 0)
        st = DOP_FAIL(diag, DOP_E_INPUT, "the text has no tokens");
    if (st != DOP_OK)
        goto error;
    dop_cli_hint(cli, model);
    const double start = dop_now_ms();
    const bool begins = facts.bos_id >= 0 && ids.data[0] == (uint32_t)facts.bos_id, shows = dop_cli_shows_progress(cli);
    st = dop_imatrix_make(model, sequence, ids.data, ids.count, window, begins ? facts.bos_id : -1,
                          shows ? show_imatrix_progress : NULL, diag, &made);
    if (shows)
        fprintf(stderr, "\r%30s\r", "");
    const double seconds = (dop_now_ms() - start) * 1e-3;
    if (st == DOP_OK)
        st = write_file(cli, &made, diag);
    if (st == DOP_OK && !cli->quiet)
        fprintf(stderr, "%u tensors, %zu tokens in %u windows of at most %u, %.1f tok/s; on %s\n", made.n, ids.count,
                made.chunks, made.chunk_size, (double)ids.count / seconds, facts.device);
error:
    dop_imatrix_made_finish(&made);
    dop_text_destroy(tokenizer);
    dop_model_close(model);
    dop_buf_finish(&text);
    dop_ids_finish(&ids);
    return st;
}
