/* Builds grammar parts for a required answer: a tool call in the format of the model's template, or an answer that
 * matches a schema. */
#ifndef DOPPLER_SERVE_API_API_REQUIRE_H
#define DOPPLER_SERVE_API_API_REQUIRE_H

#include "serve/api/api_internal.h"

/* Returns a new list of the tools that a choice {"type": "allowed_tools"} allows. *out_mode: "auto" or "required";
 * NULL: the choice is invalid. */
json_t *dop_tools_allowed(const json_t *tools, const json_t *choice, const char **out_mode);
/* Requires a call of the tool `only`, or of any tool if it is NULL. Returns an error text or NULL. */
const char *dop_tool_require(const dop_tool_form *form, const json_t *tools, const char *only, dop_shape_demand *out);
/* Requires an answer that matches these parts, and takes ownership of them. Returns an error text or NULL. */
const char *dop_answer_require(const dop_tool_form *form, json_t *parts, dop_shape_demand *out);

#endif
