/* How a model's chat template writes calls of tools, reasoning and answers, found by rendering it (api_form.c, api_probe.c).
 *
 * An answer with calls is   open NAME middle ARGUMENTS { next NAME middle ARGUMENTS } tail.   Texts have holes, which are bytes below
 * 0x08; a run of white space in a text stands for any white space, or none. */
#ifndef DOPPLER_TEXT_CALLS_API_FORM_H
#define DOPPLER_TEXT_CALLS_API_FORM_H

#include "base/base.h"
#include "text/chat/chat.h"

#include <jansson.h>

enum {
    DOP_HOLE_NAME = 1,  /* name of the function */
    DOP_HOLE_ID = 2,    /* id of the call */
    DOP_HOLE_INDEX = 3, /* the number of the call, from 0 or 1 */
    DOP_HOLE_KEY = 4,   /* name of an argument */
    DOP_HOLE_TYPE = 5   /* a word that depends on a value's type */
};

typedef enum dop_form_manner {
    DOP_FORM_OBJECT,  /* a JSON object that has the name and the arguments, or a list of JSON objects like that */
    DOP_FORM_NAMED,   /* the name, then the arguments as a JSON object */
    DOP_FORM_KEYS,    /* the name, then keys and values between marks */
    DOP_FORM_LITERAL, /* the name, then keys and values as literals: NAME(KEY="VALUE", KEY=1) */
    DOP_FORM_CHANNELS /* messages with headers: api_harmony.c */
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

/* All texts are owned; NULL: there is none. */
typedef struct dop_tool_form {
    dop_form_manner manner;
    char *open, *middle, *next, *tail;
    char *head; /* DOP_FORM_OBJECT: from the beginning of the JSON value to the name; `open` ends before it */
    /* DOP_FORM_OBJECT: members that have the name and the arguments; name_key NULL: the name is the key of the arguments. */
    char *name_key, *arguments_key;
    bool list;        /* the objects stand in a list */
    bool text_within; /* the arguments are JSON within a JSON string */
    /* DOP_FORM_KEYS: arg_open KEY assign VALUE value_close; DOP_FORM_LITERAL: arg_open stands between two arguments.
     * DOP_FORM_OBJECT: value_close stands behind the JSON value. */
    char *arg_open, *assign, *value_close;
    char *words[DOP_TYPES];    /* by type of a value: the word that stands in `assign` for DOP_HOLE_TYPE */
    char *quote;               /* around strings of DOP_FORM_LITERAL */
    char *spelling[DOP_TYPES]; /* how true (DOP_TYPE_BOOL) and null (DOP_TYPE_NULL) are written */
    char *item; /* the key that items of a list get; lists and objects are then written like arguments, nested */
    char *think_open, *think_close;
    char *content_open, *content_close; /* marks around an answer */
    bool id_has_name;                   /* the name is written within the call's id: functions.NAME:INDEX */
    /* How the template renders calls, results and reasoning. */
    /* The form was found by rendering calls; false: it is one that the template's text mentions, or the default. */
    bool shows_calls;
    bool shows_tools; /* descriptions of tools appear in the prompt */
    bool shows_system, shows_results, knows_developer;
    bool wants_parts;            /* content is a list of parts */
    bool arguments_text;         /* arguments are given to the template as JSON texts */
    bool takes_text;             /* arguments may be given as texts that are no JSON */
    bool flat;                   /* name and arguments are also given in the call itself, beside "function" */
    bool several;                /* a message may have several calls */
    bool short_ids;              /* ids of calls have nine letters and digits */
    bool needs_content;          /* a message with calls has a content that is not empty */
    bool null_content;           /* the content of a message with calls is null */
    const char *reasoning;       /* the member that reasoning is read from; NULL: none */
    const char *thinking_switch; /* variable by which the template turns reasoning on and off; NULL: there is none */
    json_t *thinking_on, *thinking_off; /* owned: values of that variable */
} dop_tool_form;

/* Finds how a template writes calls, reasoning and answers; *out_form is not NULL after DOP_OK.  chat NULL: the model has no
 * template. template: its text, 0-terminated. */
dop_status dop_tool_form_create(const dop_chat *chat, const char *template, const dop_tokenizer *tok, dop_diag *diag,
                                dop_tool_form **out_form);
void dop_tool_form_destroy(dop_tool_form *form); /* accepts NULL */

/* --- for the files that find forms --- */

/* One rendering of a conversation. */
typedef struct dop_probe {
    const dop_chat *chat;
    const dop_tokenizer *tok;
    const json_t *extra; /* further variables; NULL: none */
    dop_budget *budget;  /* of all renderings; where it is exhausted, nothing is rendered any more */
} dop_probe;
/* Renders a conversation, and takes ownership of messages; generate: up to where an answer begins.  NULL: the template refuses,
 * or the budget is exhausted.  The text is the caller's to free. */
char *dop_probe_render(const dop_probe *p, json_t *messages, const json_t *tools, bool generate);
/* Offset in `text`, a rendering behind the user's message, at which the answer begins.  prompt: the rendering of the same
 * conversation without the answer, behind the user's message, or NULL. */
size_t dop_form_answer(const char *text, const char *prompt);
/* Fills in how calls are written; false: the template does not write them. */
bool dop_form_find_calls(const dop_probe *p, dop_tool_form *form);
/* Fills in everything else. */
void dop_form_find_rest(const dop_probe *p, const char *template, dop_tool_form *form);
/* The marks that the probing conversations have in place of texts. */
#define DOP_PROBE_USER "dopuser"
#define DOP_PROBE_CONTENT "dopcontent"
/* Two descriptions of tools. */
json_t *dop_probe_tools(void);

#endif
