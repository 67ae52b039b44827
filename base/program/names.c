#include "base/program/names.h"

#include <stdio.h>
#include <string.h>

/* Options for fields of dop_compile_options and dop_open_options, and for functions.  NULL: the option has the parameter's name, with
 * "-" for "_". */
static const struct {
    const char *parameter, *option;
} names[] = {
    {"act", NULL},
    {"adapters", NULL},
    {"apart", "--no-fuse"},
    {"avoids", "--avoid"},
    {"chunks", NULL},
    {"control_layers", "--control-vector-layers"},
    {"controls", "--control-vector"},
    {"ctx", NULL},
    {"ctx_total", NULL},
    {"device", NULL},
    {"dop_chat_of_template", "--chat-template"},
    {"dop_compile_options.loras", "dopplerc --lora"},
    {"dop_compile_options.parts", "dopplerc --parts"},
    {"dop_devices", "--list-devices"},
    {"dop_program_run", "--embed or --rerank"},
    {"dop_sampling.logprobs", "--logprobs"},
    {"draft_head", NULL},
    {"draft_vocabulary", NULL},
    {"embed", NULL},
    {"external_weights", "--weights external"},
    {"forces", "--force"},
    {"invariant", NULL},
    {"kv", NULL},
    {"loras", "--lora"},
    {"max_chunk", "--chunk"},
    {"mmproj", NULL},
    {"model_weights", "--weights model"},
    {"ordering", NULL},
    {"part_memory", NULL},
    {"parts", NULL},
    {"quant", NULL},
    {"rank", NULL},
    {"rows", NULL},
    {"sequences", NULL},
    {"size", NULL},
    {"split", NULL},
    {"target", NULL},
};

/* Appends the option for a parameter name of `len` bytes.  False if there is none. */
static bool
put_option(const char *name, size_t len, dop_buf *out)
{
    size_t i = 0;
    while (i < sizeof names / sizeof *names &&
           (strlen(names[i].parameter) != len || memcmp(names[i].parameter, name, len) != 0))
        i++;
    if (i == sizeof names / sizeof *names)
        return false;
    if (names[i].option) {
        dop_buf_puts(out, names[i].option);
        return true;
    }
    dop_buf_puts(out, "--");
    for (size_t k = 0; k < len; k++)
        dop_buf_append(out, name[k] == '_' ? "-" : name + k, 1);
    return true;
}

void
dop_name_options(const char *message, dop_buf *out)
{
    for (const char *at = message; *at;) {
        const size_t len = *at == '`' ? strcspn(at + 1, "`") : 0;
        if (len > 0 && at[1 + len] && put_option(at + 1, len, out))
            at += len + 2;
        else
            dop_buf_append(out, at++, 1);
    }
}

void
dop_print_named(const char *before, const char *message, const char *after)
{
    dop_buf text = {0};
    dop_name_options(message, &text);
    fprintf(stderr, "%s%s%s", before, text.failed || !text.data ? message : text.data, after);
    dop_buf_finish(&text);
}
