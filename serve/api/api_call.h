/* Reads one region of an answer in which functions are called: api_call.c.  Answers as a whole: api_tools.c. */
#ifndef DOPPLER_SERVE_API_API_CALL_H
#define DOPPLER_SERVE_API_API_CALL_H

#include "text/calls/api_form.h"
#include "text/calls/api_span.h"

typedef struct dop_call_text {
    const dop_tool_form *form;
    const json_t *tools; /* the request's tools */
    const char *text;
    size_t n, at;
    bool ended;        /* nothing more will come */
    dop_buf *unknown;  /* text of objects that name no tool */
    json_t *out_calls; /* [{"name", "arguments": text}, ...] */
} dop_call_text;

/* Does a text with holes (api_form.h) stand at c->at?  If so, c->at moves behind it. */
dop_span dop_call_match(dop_call_text *c, const char *pattern);
/* Reads a region with calls, from its opening mark at c->at to its end.  CUT: the text may become a region with calls. */
dop_span dop_call_read(dop_call_text *c);
/* The parameters' schema of the function with this name: *out_known tells whether there is one. */
const json_t *dop_tool_find(const json_t *tools, const char *name, size_t n, bool *out_known);
/* The schema of an argument; NULL: nothing is known of it. */
const json_t *dop_tool_property(const json_t *schema, const char *name);
/* A bit per dop_form_type that the schema allows; 0: it does not say. */
unsigned dop_tool_types(const json_t *root, const json_t *schema);

#endif
