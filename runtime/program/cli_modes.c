/* Finds out what doppler-exec is asked to do, and refuses options that this would ignore. */
#include "runtime/program/common/cli.h"

#include <string.h>

/* Options that go together. */
enum {
    PROMPT = 1,
    LENGTH = 2,
    PICK = 4,
    END = 8,
    GENERATE = 16,
    SESSION = 32,
    SHOW = 64,
    JSON = 128,
    TOKENIZER = 256,
    PPL = 512,
    SERVER = 1024,
    BATCH = 2048,
    WHERE = 4096,
    PIECES = 8192,
    ORDER = 16384,
    LOOP = 32768,
    CHAT = 65536,
    LETTERS = 131072,
    STEPS = WHERE | PIECES | ORDER
};

static const struct {
    unsigned group;
    const char *names; /* each between spaces */
    const char *with;  /* the option that uses them */
} groups[] = {
    {PROMPT, " prompt file tokens tokens-file ", "text to continue"},
    {LENGTH, " predict ", "generation"},
    {PICK, " temp top-k top-p min-p repeat-penalty repeat-last-n presence-penalty frequency-penalty logit-bias seed ",
     "generation and --serve"},
    {END, " ignore-eos ", "generation"},
    {GENERATE, " json-schema grammar json-mode logprobs ", "generation from a prompt"},
    {SESSION, " chat session draft draft-ngram stop ", "generation"},
    {SHOW, " no-display-prompt print-ids logits ", "generation from a prompt"},
    {JSON, " json ", "generation from a prompt, and --info"},
    {TOKENIZER, " tokenizer ", "--tokenize, --detokenize, --render-chat and --serve"},
    {PPL, " ppl-ctx ", "--ppl"},
    {SERVER,
     " api-key-file serve-queue serve-body serve-tokens serve-time serve-receive serve-connections "
     "serve-grace serve-prepare serve-memory serve-answer serve-host ",
     "--serve"},
    {CHAT, " chat-template system ", "--chat, -i, --render-chat and --serve"},
    {LETTERS, " no-special ", "prompts in words"},
    {BATCH, " batch ", "--profile"},
    {WHERE, " device ", "what runs on a device"},
    {PIECES, " chunk ", "prompts"},
    {ORDER, " ordering ", "steps"},
    {LOOP, " gpu-loop ", "generation"},
};

/* The first mode is the default. */
static const struct mode {
    const char *name; /* option */
    dop_mode_fn *run;
    unsigned uses;
} modes[] = {
    {"generation", dop_mode_run,
     PROMPT | LENGTH | PICK | END | GENERATE | SESSION | SHOW | JSON | STEPS | LOOP | CHAT | LETTERS},
    {"list-devices", dop_mode_list_devices, 0},
    {"profile", dop_mode_profile, PROMPT | LENGTH | PICK | END | BATCH | STEPS | LOOP | LETTERS},
    {"trace-kernels", dop_mode_trace, 0},
    {"info", dop_mode_info, JSON},
    {"disasm", dop_mode_disasm, 0},
    {"check", dop_mode_check, WHERE | ORDER},
    {"tokenize", dop_mode_tokenize, TOKENIZER},
    {"detokenize", dop_mode_detokenize, TOKENIZER},
    {"render-chat", dop_mode_render_chat, TOKENIZER | CHAT},
    {"ppl", dop_mode_score, PPL | JSON | STEPS},
    {"serve", dop_mode_serve, SERVER | TOKENIZER | PICK | STEPS | CHAT},
    {"embed", dop_mode_embed, PROMPT | JSON | STEPS | LETTERS},
    /* A conversation itself checks options for prompts and other output. */
    {"interactive", dop_mode_converse,
     PROMPT | LENGTH | PICK | END | SESSION | SHOW | JSON | STEPS | LOOP | CHAT | LETTERS},
};

static size_t
field_size(dop_option_kind kind)
{
    switch (kind) {
    case DOP_OPT_FLAG:
        return sizeof(bool);
    case DOP_OPT_TEXT:
    case DOP_OPT_OPTIONAL:
        return sizeof(const char *);
    case DOP_OPT_COUNT:
        return sizeof(uint32_t);
    case DOP_OPT_REAL:
        return sizeof(double);
    case DOP_OPT_LIST:
    case DOP_OPT_PAIRS:
        return sizeof(dop_texts);
    case DOP_OPT_POINTER:
        break;
    }
    return 0;
}

/* Has the option another value than before the command line was read? */
static bool
is_given(const dop_option *o, const dop_cli *cli, const dop_cli *unset)
{
    size_t size = o->name ? field_size(o->kind) : 0;
    return size > 0 && memcmp((const char *)cli + o->offset, (const char *)unset + o->offset, size) != 0;
}

static const struct mode *
mode_of(const char *name)
{
    for (size_t i = 1; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(modes[i].name, name) == 0)
            return &modes[i];
    return NULL;
}

/* The row of groups[] that has the option; their number where none has. */
static size_t
group_of(const char *name)
{
    char word[64];
    size_t i = 0;
    snprintf(word, sizeof word, " %s ", name);
    while (i < sizeof groups / sizeof groups[0] && !strstr(groups[i].names, word))
        i++;
    return i;
}

dop_status
dop_cli_choose(const dop_option *table, size_t n, const dop_cli *cli, const dop_cli *unset, dop_diag *diag,
               dop_mode_fn **out_mode)
{
    const struct mode *mode = &modes[0];
    *out_mode = mode->run;
    for (size_t i = 0; i < n; i++) {
        const struct mode *asked = is_given(&table[i], cli, unset) ? mode_of(table[i].name) : NULL;
        if (asked && mode != &modes[0])
            return DOP_FAIL(diag, DOP_E_USAGE, "--%s and --%s are two things to do: ask for one of them", mode->name,
                            asked->name);
        mode = asked ? asked : mode;
    }
    for (size_t i = 0; i < n; i++) {
        size_t group = is_given(&table[i], cli, unset) ? group_of(table[i].name) : sizeof groups / sizeof groups[0];
        char letter[8] = "";
        if (table[i].letter)
            snprintf(letter, sizeof letter, "-%c, ", table[i].letter);
        if (group < sizeof groups / sizeof groups[0] && !(groups[group].group & mode->uses))
            return DOP_FAIL(diag, DOP_E_USAGE, "%s--%s is for %s; %s%s has no use for it", letter, table[i].name,
                            groups[group].with, mode == &modes[0] ? "" : "--", mode->name);
    }
    if (mode == &modes[0] && !cli->chat && (cli->chat_template || cli->system))
        return DOP_FAIL(diag, DOP_E_USAGE, "--%s is for a conversation: add --chat or -i",
                        cli->system ? "system" : "chat-template");
    for (size_t i = 0; i < cli->stop.count; i++)
        if (!cli->stop.items[i][0])
            return DOP_FAIL(diag, DOP_E_USAGE, "--stop needs a text to end before");
    *out_mode = mode->run;
    return DOP_OK;
}
