/* Format in which a model's chat template writes tool calls, reasoning and answers, found by rendering the template
 * (api_form.c, api_probe.c).
 *
 * An answer with calls is open NAME middle ARGUMENTS { next NAME middle ARGUMENTS } tail. Texts may contain holes,
 * single bytes below 0x08. A run of white space in a text matches any white space, or none. */
#ifndef DOPPLER_TEXT_CALLS_API_FORM_H
#define DOPPLER_TEXT_CALLS_API_FORM_H

#include "base/base.h"
#include "text/chat/chat.h"

#include <jansson.h>

enum {
    DOP_HOLE_NAME = 1,  /* function name */
    DOP_HOLE_ID = 2,    /* call id */
    DOP_HOLE_INDEX = 3, /* index of the call, from 0 or 1 */
    DOP_HOLE_KEY = 4,   /* argument name */
    DOP_HOLE_TYPE = 5   /* word that depends on the value's type */
};

typedef enum dop_form_manner {
    DOP_FORM_OBJECT,  /* one JSON object with name and arguments per call, or a list of them */
    DOP_FORM_NAMED,   /* the name, then the arguments as a JSON object */
    DOP_FORM_KEYS,    /* the name, then keys and values between marks */
    DOP_FORM_LITERAL, /* the name, then keys and literal values: NAME(KEY="VALUE", KEY=1) */
    DOP_FORM_CHANNELS /* messages with headers (api_harmony.c) */
} dop_form_manner;

typedef enum dop_form_type {
    DOP_TYPE_STRING,
    DOP_TYPE_NUMBER,
    DOP_TYPE_BOOL,
    DOP_TYPE_NULL,
    DOP_TYPE_LIST,
    DOP_TYPE_OBJECT,
    DOP_TYPES
} dop_form_type;

/* Format of tool calls, reasoning and answers. Owns all char * texts; NULL means that there is none. */
typedef struct dop_tool_form {
    dop_form_manner manner;
    char *open, *middle, *next, *tail;
    char *head; /* DOP_FORM_OBJECT: from the start of the JSON value to the name; `open` ends before it */
    /* DOP_FORM_OBJECT: keys of the name and of the arguments. With name_key NULL, the name itself is the key of the
     * arguments. */
    char *name_key, *arguments_key;
    bool list;        /* true if the objects are in a list */
    bool text_within; /* true if the arguments are JSON inside a JSON string */
    /* DOP_FORM_KEYS: arg_open KEY assign VALUE value_close. DOP_FORM_LITERAL: arg_open separates arguments.
     * DOP_FORM_OBJECT: value_close follows the JSON value. */
    char *arg_open, *assign, *value_close;
    char *words[DOP_TYPES];    /* by type of the value: the word for DOP_HOLE_TYPE in `assign` */
    char *quote;               /* quotation mark around strings of DOP_FORM_LITERAL */
    char *spelling[DOP_TYPES]; /* spelling of true (DOP_TYPE_BOOL) and null (DOP_TYPE_NULL) */
    char *item;                /* key of list items; lists and objects are then written as nested arguments */
    char *think_open, *think_close;
    char *content_open, *content_close; /* marks around the content of an answer */
    bool id_has_name;                   /* true if the call's id contains the name: functions.NAME:INDEX */
    /* How the template renders calls, results and reasoning. */
    /* True if the format was found by rendering calls. False if it was derived from marks in the template's text, or
     * is the default. */
    bool shows_calls;
    bool shows_tools; /* true if the prompt contains the tool descriptions */
    bool shows_system, shows_results, knows_developer;
    bool wants_parts;                   /* true if content must be a list of parts */
    bool arguments_text;                /* true if the template expects arguments as JSON texts */
    bool takes_text;                    /* true if the template also accepts arguments that are not valid JSON */
    bool flat;                          /* name and arguments are also members of the call itself, next to "function" */
    bool several;                       /* true if a message may have several calls */
    bool short_ids;                     /* true if call ids must have nine letters and digits */
    bool needs_content;                 /* true if a message with calls must have non-empty content */
    bool null_content;                  /* true if the content of a message with calls is null */
    const char *reasoning;              /* message member that holds the reasoning; NULL if there is none */
    const char *thinking_switch;        /* template variable that turns reasoning on and off; NULL if there is none */
    json_t *thinking_on, *thinking_off; /* owned values of that variable */
} dop_tool_form;

/* Finds the format in which a template writes calls, reasoning and answers. *out_form is not NULL after DOP_OK.
 * chat: NULL if the model has no template. template: its text, 0-terminated. */
dop_status dop_tool_form_create(const dop_chat *chat, const char *template, const dop_tokenizer *tok, dop_diag *diag,
                                dop_tool_form **out_form);
void dop_tool_form_destroy(dop_tool_form *form); /* accepts NULL */

/* --- for the files that detect formats --- */

/* Settings for rendering probe conversations. */
typedef struct dop_probe {
    const dop_chat *chat;
    const dop_tokenizer *tok;
    const json_t *extra; /* additional template variables; may be NULL */
    dop_budget *budget;  /* shared by all renderings; once exhausted, nothing more is rendered */
} dop_probe;
/* Renders a conversation; takes ownership of messages. generate: add the generation prompt. Returns a text that the
 * caller frees, or NULL if the template rejects the conversation or the budget is exhausted. */
char *dop_probe_render(const dop_probe *p, json_t *messages, const json_t *tools, bool generate);
/* Returns the offset at which the answer begins in `text`, a rendering after the user's message. prompt: the
 * rendering after the user's message without an answer; may be NULL. */
size_t dop_form_answer(const char *text, const char *prompt);
/* Finds how calls are written. Returns false if the template does not write them. */
bool dop_form_find_calls(const dop_probe *p, dop_tool_form *form);
/* Finds all other properties of the form. */
void dop_form_find_rest(const dop_probe *p, const char *template, dop_tool_form *form);
/* Marks that the probe conversations contain in place of real texts. */
#define DOP_PROBE_USER "dopuser"
#define DOP_PROBE_CONTENT "dopcontent"
/* Returns two tool descriptions. */
json_t *dop_probe_tools(void);

#endif
