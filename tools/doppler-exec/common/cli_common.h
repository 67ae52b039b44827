/* Helpers shared by the modes of doppler-exec. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_COMMON_CLI_COMMON_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_COMMON_CLI_COMMON_H

#include "tools/doppler-exec/common/cli.h"

/* Gets the only plan of the command line. Fails if there are several. */
dop_status dop_cli_plan(const dop_cli *cli, dop_diag *diag, const char **out_path);
void dop_cli_open_options(const dop_cli *cli, dop_open_options *out_options);
/* Sets the prefix cache options for -i and --serve. Returns DOP_E_USAGE for an invalid size. */
dop_status dop_cli_keep_prompts(const dop_cli *cli, dop_diag *diag, dop_open_options *io_options);
/* Loads control vectors and the adapters of --lora, and returns their uses. The caller frees *out_uses. */
dop_status dop_cli_adapters(const dop_cli *cli, dop_model *model, dop_diag *diag, dop_adapter_use **out_uses,
                            size_t *out_n);
/* Creates a sequence that uses control vectors and the adapters of --lora. */
dop_status dop_cli_sequence(const dop_cli *cli, dop_model *model, dop_diag *diag, dop_sequence **out_sequence);
/* Opens the plan for reading texts, and creates a sequence with control vectors and the adapters of --lora. */
dop_status dop_cli_open(const dop_cli *cli, dop_diag *diag, dop_model **out_model, dop_sequence **out_sequence);
/* Like dop_cli_open, with these values of dop_open_options.first_tokens, .no_scoring and .no_steps. Kernels are
 * created on demand, except for conversations. */
dop_status dop_cli_open_for(const dop_cli *cli, uint32_t first_tokens, bool no_scoring, bool no_steps, dop_diag *diag,
                            dop_model **out_model, dop_sequence **out_sequence);
/* Gets the model's tokenizer, or NULL if it has none. Fails then if `needed_for`, an option's name, is not NULL. */
dop_status dop_cli_text(const dop_cli *cli, const dop_model *model, const char *needed_for, dop_diag *diag,
                        dop_text **out_text);
/* Opens the tokenizer of --tokenizer, otherwise the plan's. Needs no model. */
dop_status dop_cli_text_open(const dop_cli *cli, dop_diag *diag, dop_text **out_text);
/* Returns the flags for encoding prompts (DOP_TEXT_*), as --no-special sets them. */
unsigned dop_cli_special(const dop_cli *cli);
/* Appends the ids of a text. flags: DOP_TEXT_*. */
dop_status dop_cli_encode(const dop_text *text, const char *bytes, size_t len, unsigned flags, dop_diag *diag,
                          dop_ids *out_ids);
/* Appends ids returned by a library function, and frees them. */
void dop_cli_take_ids(uint32_t *ids, size_t n, dop_ids *out_ids);
/* Reads a whole file, or standard input for "-". */
dop_status dop_cli_read(const char *path, dop_diag *diag, dop_buf *out);
/* Gets the prompt's ids from -p, -f, --tokens or --tokens-file. out_text receives the text of the first two. */
dop_status dop_cli_prompt(const dop_cli *cli, const dop_text *text, dop_diag *diag, dop_ids *out_ids,
                          dop_buf *out_text);
/* Parses a seed: an integer, or -1 for a random one. */
dop_status dop_cli_seed(const char *text, uint64_t *out, dop_diag *diag);
/* Gets the model's sampling parameters with the command line's changes. cli owns the biases. */
dop_status dop_cli_sampling(dop_cli *cli, const dop_facts *facts, dop_diag *diag, dop_sampling *out_sampling);
/* True if stderr may show progress lines: on a terminal, without --quiet and --verbose. */
bool dop_cli_shows_progress(const dop_cli *cli);
/* Prints a note on stderr if the plan was compiled for another kind of device, which works but is slow. */
void dop_cli_hint(const dop_cli *cli, const dop_model *model);

#endif
