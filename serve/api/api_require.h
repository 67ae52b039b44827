/* What an answer has to be, as parts of a grammar: a call of a tool in the form of the model's template, or an answer of a schema. */
#ifndef DOPPLER_SERVE_API_API_REQUIRE_H
#define DOPPLER_SERVE_API_API_REQUIRE_H

#include "serve/api/api_internal.h"

/* The tools that a choice {"type": "allowed_tools"} leaves, a new list.  *out_mode: "auto" or "required"; NULL: the choice is wrong. */
json_t *dop_tools_allowed(const json_t *tools, const json_t *choice, const char **out_mode);
/* Demands a call of any of the tools or, unless NULL, of the tool `only`.  Returns what is wrong, or NULL. */
const char *dop_tool_require(const dop_tool_form *form, const json_t *tools, const char *only, dop_shape_demand *out);
/* Demands an answer of these parts, and takes ownership of them.  Returns what is wrong, or NULL. */
const char *dop_answer_require(const dop_tool_form *form, json_t *parts, dop_shape_demand *out);

#endif
