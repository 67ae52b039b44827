/* Chat templates: a conversation to the text that a model was trained on.
 *
 * A model ships its format as a Jinja template.  The template itself is executed (text/jinja/), so every format, with
 * tools or without, comes out as its authors wrote it; there is no list of formats that are known. */
#ifndef DOPPLER_TEXT_CHAT_CHAT_H
#define DOPPLER_TEXT_CHAT_CHAT_H

#include <jansson.h>
#include <time.h>

#include "base/budget.h"
#include "text/tokenizer/tokenizer.h"

#include <doppler/text.h>

/* Copies the text. */
dop_status dop_chat_create(const char *text, size_t len, dop_diag *diag, dop_chat **out_chat);
/* A format by name, for models without a template: chatml, gemma, llama2, llama2-sys, llama3, mistral, mistral-v1,
 * mistral-v3, mistral-v3-tekken, mistral-v7.  An unknown name is DOP_E_INPUT with the list. */
dop_status dop_chat_create_builtin(const char *name, dop_diag *diag, dop_chat **out_chat);
/* The template of a tokenizer; DOP_E_INPUT if it has none. */
dop_status dop_chat_create_from_tokenizer(const dop_tokenizer *tok, dop_diag *diag, dop_chat **out_chat);

const char *dop_chat_template(const dop_chat *chat); /* its text, 0-terminated */

typedef struct dop_chat_input {
    const json_t *messages; /* [{"role", "content", ...}, ...] */
    const json_t *tools;    /* list of tool descriptions or NULL */
    bool add_generation_prompt;
    const char *bos_token, *eos_token; /* texts of the tokens; NULL: those of `tokenizer`, or "" without a tokenizer */
    const dop_tokenizer *tokenizer;    /* may be NULL */
    const struct tm *now;              /* date for templates that write one; NULL: now, local time */
    const json_t *extra;               /* object with more variables for the template (enable_thinking, ...) or NULL */
    dop_budget *budget;                /* charged for the rendering; NULL: only the interpreter's own limits hold */
} dop_chat_input;

/* Is a variable's name reserved, so that `extra` may not have it?  The conversation or the interpreter gives such names a meaning. */
bool dop_chat_reserved(const char *name);

/* Appends the text of a conversation.  Encode it with dop_chat_encode.  A template that refuses the conversation
 * (roles that must alternate, ...) is DOP_E_INPUT with the template's own words. */
dop_status dop_chat_render(const dop_chat *chat, const dop_chat_input *in, dop_diag *diag, dop_buf *out);
/* Appends only what the last message adds to the conversation before it.  A line break comes first where the template ends the earlier
 * conversation with one: generation stops before it and has not written it. */
dop_status dop_chat_render_added(const dop_chat *chat, const dop_chat_input *in, dop_diag *diag, dop_buf *out);

/* Encodes a rendered text to ids.  Special tokens are parsed, those in the messages too, as in other programs.  start: the text begins a
 * sequence, so that the tokens that the tokenizer puts in front of texts (BOS) are added unless the template wrote them. */
dop_status dop_chat_encode(const dop_tokenizer *tok, const dop_buf *text, bool start, dop_budget *budget,
                           dop_diag *diag, dop_ids *out_ids);

#endif
