/* Parses one region of an answer that contains tool calls. api_tools.c parses whole answers. */
#ifndef DOPPLER_SERVE_API_API_CALL_H
#define DOPPLER_SERVE_API_API_CALL_H

#include "text/calls/api_form.h"
#include "text/calls/api_span.h"

typedef struct dop_call_text {
    const dop_tool_form *form;
    const json_t *tools; /* the request's tools */
    const char *text;
    size_t n, at;
    bool ended;        /* true if the text is complete */
    dop_buf *unknown;  /* receives the text of objects that name no known tool */
    json_t *out_calls; /* [{"name", "arguments": text}, ...] */
} dop_call_text;

/* Matches a pattern with holes (api_form.h) at c->at. If it matches, c->at moves past the match. */
dop_span dop_call_match(dop_call_text *c, const char *pattern);
/* Parses a region with calls, from its opening mark at c->at to its end. Returns CUT if more text may still complete
 * the region. */
dop_span dop_call_read(dop_call_text *c);
/* Returns the parameter schema of the function with this name. *out_known: true if there is such a function. */
const json_t *dop_tool_find(const json_t *tools, const char *name, size_t n, bool *out_known);
/* Returns the schema of an argument; NULL: unknown. */
const json_t *dop_tool_property(const json_t *schema, const char *name);
/* Returns the types that the schema allows, one bit per dop_form_type; 0: the schema does not restrict them. */
unsigned dop_tool_types(const json_t *root, const json_t *schema);

#endif
