/* Choice of doppler-exec's mode from the options; rejects options that the mode would ignore. */
#include "tools/doppler-exec/cli_modes.h"
#include "tools/doppler-exec/on_demand/models.h"

#include <string.h>

static const struct mode {
    const char *name; /* name of the option; the first mode is the default and has none */
    dop_mode_fn *run;
} modes[] = {
    {"generation", dop_mode_run},
    {"audio", dop_mode_audio},
    {"draw", dop_mode_draw},
    {"interactive", dop_mode_converse}, /* checks options for prompts and other output itself */
    {"list-devices", dop_mode_list_devices},
    {"serve", dop_mode_serve},
    {"ppl", dop_mode_score},
    {"embed", dop_mode_embed},
    {"rerank", dop_mode_rerank},
    {"score", dop_mode_classify},
    {"profile", dop_mode_profile},
    {"trace-kernels", dop_mode_trace},
    {"report", dop_mode_report},
    {"info", dop_mode_info},
    {"disasm", dop_mode_disasm},
    {"check", dop_mode_check},
    {"imatrix-out", dop_mode_imatrix},
    {"compare", dop_mode_compare},
    {"tokenize", dop_mode_tokenize},
    {"detokenize", dop_mode_detokenize},
    {"render-chat", dop_mode_render_chat},
    {"cache-list", dop_mode_cache_list},
    {"cache-clear", dop_mode_cache_clear},
};
#define MODES                                                                                                          \
    "audio draw interactive list-devices serve ppl embed rerank score profile trace-kernels report info disasm check " \
    "imatrix-out "                                                                                                     \
    "compare tokenize "                                                                                                \
    "detokenize render-chat cache-list cache-clear"
#define STEPS \
    "generation audio draw interactive serve ppl embed rerank score profile imatrix-out compare" /* run model steps */

static const dop_option_rule rules[] = {
    {.options = MODES, .excludes = MODES, .why = "and @ are two things to do: ask for one of them"},
    {.options = "prompt file tokens tokens-file",
     .modes = "generation audio interactive embed rerank score profile imatrix-out compare",
     .why = "is for text to continue"},
    {.options = "prompt file tokens tokens-file",
     .excludes = "prompt file tokens tokens-file",
     .why = "and @ are two prompts: give one of them"},
    {.options = "file",
     .modes = "generation interactive embed rerank score profile imatrix-out compare",
     .why = "is a text to continue"},
    {.options = "predict", .modes = "generation audio interactive profile compare", .why = "is for generation"},
    {.options = "ignore-eos gpu-loop", .modes = "generation interactive profile", .why = "is for generation"},
    {.options = "temp top-k top-p min-p repeat-penalty repeat-last-n presence-penalty frequency-penalty logit-bias",
     .modes = "generation audio interactive profile serve",
     .why = "is for generation and --serve"},
    {.options = "seed",
     .modes = "generation audio draw interactive profile serve",
     .why = "is for generation and --serve"},
    {.options = "json-schema grammar json-mode logprobs",
     .modes = "generation",
     .why = "is for generation from a prompt"},
    {.options = "image", .modes = "generation interactive", .why = "is for generation"},
    {.options = "control-vector-layer-range",
     .needs = "control-vector control-vector-scaled",
     .why = "is about a control vector: give one"},
    {.options = "features", .needs = "image audio mel", .why = "writes what pictures become: give --image FILE"},
    {.options = "language translate srt vtt no-timestamps audio-batch",
     .needs = "audio",
     .why = "is for speech: give --audio FILE"},
    {.options = "output negative steps guidance sampler init",
     .needs = "draw",
     .why = "is for pictures: give --draw TEXT"},
    {.options = "strength mask", .needs = "init", .why = "is for a picture to begin with: give --init FILE"},
    {.options = "draw", .needs = "output", .why = "needs a file for the picture: give -o FILE.png"},
    {.options = "srt vtt json", .excludes = "srt vtt", .why = "and @ are two forms: ask for one of them"},
    {.options = "mel", .modes = "generation", .needs = "tokens tokens-file", .why = "is for --tokens"},
    {.options = "image", .excludes = "mel audio", .why = "and @ exclude one another"},
    {.options = "image", .excludes = "session draft", .why = "and @ exclude one another"},
    {.options = "chat session draft draft-ngram stop", .modes = "generation interactive", .why = "is for generation"},
    {.options = "logits",
     .modes = "generation audio interactive embed",
     .why = "is for generation from a prompt, and --embed=all"},
    {.options = "no-display-prompt print-ids",
     .modes = "generation audio interactive",
     .why = "is for generation from a prompt"},
    {.options = "json",
     .modes = "generation audio interactive info ppl embed compare",
     .why = "is for generation from a prompt, and --info"},
    {.options = "tokenizer",
     .modes = "tokenize detokenize render-chat serve",
     .why = "is for --tokenize, --detokenize, --render-chat and --serve"},
    {.options = "ppl-ctx", .modes = "ppl imatrix-out compare", .why = "is for --ppl, --imatrix-out and --compare"},
    {.options = "imatrix-out compare", .needs = "prompt file tokens tokens-file", .why = "reads a text: give -f FILE"},
    {.options =
         "api-key-file image-urls image-files serve-queue serve-body serve-tokens serve-time serve-receive "
         "serve-connections "
         "serve-grace serve-prepare serve-memory serve-answer serve-host serve-comment cors prefix log store systemd "
         "models models-memory models-idle",
     .modes = "serve",
     .why = "is for --serve"},
    {.options = "models-memory models-idle", .needs = "models", .why = "is about several models: give --models DIR"},
    {.options = "models", .excludes = "hf parts part-memory", .why = "and @ exclude one another"},
    {.options = "cache-memory prompt-cache prompt-cache-size",
     .modes = "interactive serve",
     .why = "is for prompts that come again: -i and --serve"},
    {.options = "prompt-cache-size", .needs = "prompt-cache", .why = "is for files: add --prompt-cache DIR"},
    {.options = "system chat-template",
     .modes = "generation interactive render-chat serve",
     .why = "is for --chat, -i, --render-chat and --serve"},
    {.options = "system chat-template",
     .needs = "chat interactive render-chat serve",
     .why = "is for a conversation: add --chat or -i"},
    {.options = "no-special",
     .modes = "generation interactive embed score profile imatrix-out compare",
     .why = "is for prompts in words"},
    {.options = "prompt-name", .modes = "embed", .why = "is for --embed"},
    {.options = "batch", .modes = "profile", .why = "is for --profile"},
    {.options = "device", .modes = STEPS " check report", .why = "is for what runs on a device"},
    {.options = "lora control-vector control-vector-scaled",
     .modes = "generation interactive serve embed score ppl profile",
     .why = "is for steps of a plan with room for adapters"},
    {.options = "chunk", .modes = STEPS, .why = "is for prompts"},
    {.options = "ordering", .modes = STEPS " check", .why = "is for steps"},
};

dop_status
dop_cli_choose(const dop_option *table, size_t n, const dop_cli *cli, const dop_options_given *given, dop_diag *diag,
               dop_mode_fn **out_mode)
{
    const struct mode *mode = &modes[0];
    for (size_t i = 1; i < sizeof modes / sizeof modes[0]; i++)
        if (dop_option_given(table, n, given, modes[i].name))
            mode = &modes[i];
    *out_mode = mode->run;
    DOP_RETURN_IF_ERROR(dop_options_check(table, n, rules, sizeof rules / sizeof *rules, given, cli, mode->name, diag));
    for (size_t i = 0; i < cli->stop.count; i++)
        if (!cli->stop.items[i][0])
            return DOP_FAIL(diag, DOP_E_USAGE, "--stop needs a text to end before");
    return DOP_OK;
}
