/* Functions of cli_common.c. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_COMMON_CLI_COMMON_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_COMMON_CLI_COMMON_H

#include "tools/doppler-exec/common/cli.h"

/* The command line's only plan. */
dop_status dop_cli_plan(const dop_cli *cli, dop_diag *diag, const char **out_path);
void dop_cli_open_options(const dop_cli *cli, dop_open_options *out_options);
/* For -i and --serve: prompts that come again are kept, as the options say.  DOP_E_USAGE: a size that is none. */
dop_status dop_cli_keep_prompts(const dop_cli *cli, dop_diag *diag, dop_open_options *io_options);
/* Loads the adapters of --lora and the control vectors, and gives their uses. The caller frees *out_uses. */
dop_status dop_cli_adapters(const dop_cli *cli, dop_model *model, dop_diag *diag, dop_adapter_use **out_uses,
                            size_t *out_n);
/* Creates a sequence that uses the adapters of --lora and the control vectors. */
dop_status dop_cli_sequence(const dop_cli *cli, dop_model *model, dop_diag *diag, dop_sequence **out_sequence);
/* Opens the plan as a model for reading texts, and creates a sequence, which uses the adapters of --lora and the control vectors. */
dop_status dop_cli_open(const dop_cli *cli, dop_diag *diag, dop_model **out_model, dop_sequence **out_sequence);
/* Opens as dop_cli_open does, with these values of dop_open_options.first_tokens, .no_scoring and .no_steps; kernels are made on demand
 * unless a conversation is to come. */
dop_status dop_cli_open_for(const dop_cli *cli, uint32_t first_tokens, bool no_scoring, bool no_steps, dop_diag *diag,
                            dop_model **out_model, dop_sequence **out_sequence);
/* The model's tokenizer; *out_text is NULL when it has none, and then `needed_for` (an option) is an error unless NULL. */
dop_status dop_cli_text(const dop_cli *cli, const dop_model *model, const char *needed_for, dop_diag *diag,
                        dop_text **out_text);
/* The tokenizer of --tokenizer, or else of the plan; needs no model. */
dop_status dop_cli_text_open(const dop_cli *cli, dop_diag *diag, dop_text **out_text);
/* How prompts are encoded: DOP_TEXT_* bits, by --no-special. */
unsigned dop_cli_special(const dop_cli *cli);
/* Appends the ids of a text; flags: DOP_TEXT_*. */
dop_status dop_cli_encode(const dop_text *text, const char *bytes, size_t len, unsigned flags, dop_diag *diag,
                          dop_ids *out_ids);
/* Appends ids that a function of the library returned, and frees them. */
void dop_cli_take_ids(uint32_t *ids, size_t n, dop_ids *out_ids);
/* A whole file, or standard input for "-". */
dop_status dop_cli_read(const char *path, dop_diag *diag, dop_buf *out);
/* The prompt's ids from -p, -f, --tokens or --tokens-file; out_text receives the text of the first two. */
dop_status dop_cli_prompt(const dop_cli *cli, const dop_text *text, dop_diag *diag, dop_ids *out_ids,
                          dop_buf *out_text);
/* Reads a seed: a whole number, or -1 for a random one. */
dop_status dop_cli_seed(const char *text, uint64_t *out, dop_diag *diag);
/* The model's sampling, overridden by the command line; cli owns the biases. */
dop_status dop_cli_sampling(dop_cli *cli, const dop_facts *facts, dop_diag *diag, dop_sampling *out_sampling);
/* May stderr show progress that is overwritten?  Only on a terminal, and unless quiet or verbose output was asked for. */
bool dop_cli_shows_progress(const dop_cli *cli);
/* One line on stderr when the plan was made for another kind of device than the one that runs it: it works, but slowly. */
void dop_cli_hint(const dop_cli *cli, const dop_model *model);

#endif
