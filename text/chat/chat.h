/* Chat templates: renders a conversation as the text format that a model was trained on.
 *
 * A model ships its format as a Jinja template, which is executed (text/jinja/). So every format, with or without
 * tools, is rendered as its authors wrote it; there is no list of known formats. */
#ifndef DOPPLER_TEXT_CHAT_CHAT_H
#define DOPPLER_TEXT_CHAT_CHAT_H

#include <jansson.h>
#include <time.h>

#include "base/budget.h"
#include "text/tokenizer/tokenizer.h"

#include <doppler/text.h>

/* Creates a chat format from a Jinja template. Copies the text. */
dop_status dop_chat_create(const char *text, size_t len, dop_diag *diag, dop_chat **out_chat);
/* Creates a built-in format for models without a template: chatml, gemma, llama2, llama2-sys, llama3, mistral,
 * mistral-v1, mistral-v3, mistral-v3-tekken, mistral-v7. An unknown name fails with DOP_E_INPUT and the list of
 * names. */
dop_status dop_chat_create_builtin(const char *name, dop_diag *diag, dop_chat **out_chat);
/* Creates a chat format from a tokenizer's template. Fails with DOP_E_INPUT if it has none. */
dop_status dop_chat_create_from_tokenizer(const dop_tokenizer *tok, dop_diag *diag, dop_chat **out_chat);

const char *dop_chat_template(const dop_chat *chat); /* template text, 0-terminated */

typedef struct dop_chat_input {
    const json_t *messages; /* [{"role", "content", ...}, ...] */
    const json_t *tools;    /* list of tool descriptions; may be NULL */
    bool add_generation_prompt;
    const char *bos_token, *eos_token; /* token texts; NULL: use the texts of `tokenizer`, or "" without a tokenizer */
    const dop_tokenizer *tokenizer;    /* may be NULL */
    const struct tm *now;              /* date and time for templates that write them; NULL: the current local time */
    const json_t *extra;               /* object with additional template variables (enable_thinking, ...); may be
                                        * NULL */
    dop_budget *budget;                /* charged for rendering; NULL: only the interpreter's limits apply */
} dop_chat_input;

/* True if `extra` must not define this variable, because the conversation or the interpreter defines it. */
bool dop_chat_reserved(const char *name);

/* Appends the text of a conversation, to be encoded with dop_chat_encode(). If the template rejects the conversation
 * (roles must alternate, ...), fails with DOP_E_INPUT and the template's own message. */
dop_status dop_chat_render(const dop_chat *chat, const dop_chat_input *in, dop_diag *diag, dop_buf *out);
/* Appends only the text that the last message adds to the conversation before it. The text begins with a line break
 * if the template ends the earlier conversation with one, because generation stops before that line break. */
dop_status dop_chat_render_added(const dop_chat *chat, const dop_chat_input *in, dop_diag *diag, dop_buf *out);

/* Encodes a rendered text. Parses special tokens, including those inside messages, as other programs do. start: the
 * text begins a sequence, so BOS is prepended unless the template wrote it. */
dop_status dop_chat_encode(const dop_tokenizer *tok, const dop_buf *text, bool start, dop_budget *budget,
                           dop_diag *diag, dop_ids *out_ids);

#endif
