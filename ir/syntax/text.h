/* Text form of a graph: `--emit=ir` prints it and the parser reads it back (docs/design.md, section 3).
 *
 *   graph decode(T=1, S<=4096) {
 *     %tok:u32[T]          = input "tokens"
 *     %emb:f16[32000,2048] = weight "embed"
 *     %x0:f32[T,2048]      = gather %emb, %tok
 *     %x1:f32[T,2048]      = scale %x0 by=0x1.6a09e6p+5
 *     return %x1
 *   }
 *   ---
 *   region @1 elementwise writes %x1 { %x0 %x1 }
 *
 * Floats are hexadecimal so that the text is exact.  An axis prints as 7, T, S, 4T (the head declares dimensions).  A label prints
 * as `; L3/qkv` at the end of the line.  After the template, a chosen variant prints as `using NAME`, followed by the fields of its
 * tile that are not 0 as `FIELD=N`.  Region numbers skip dead regions.  `#` starts a comment, numbers may be decimal, and attributes
 * may be in any order.  Printing a parsed print gives identical bytes. */
#ifndef DOPPLER_IR_SYNTAX_TEXT_H
#define DOPPLER_IR_SYNTAX_TEXT_H

#include "ir/graph/graph.h"

void dop_graph_print(const dop_graph *g, dop_buf *out_text);
/* Parses text of `size` bytes; `path` is for messages (file:line:column).  Several graphs may follow each other.  *out_end is the
 * end of this one, after white space; a `---` without a region after it is left there.  The result has passed the verifier.
 * Errors are DOP_E_INPUT, and the message ends with the source line and a caret. */
dop_status dop_graph_parse(const char *path, const char *text, size_t size, dop_arena *arena, dop_diag *diag,
                           dop_graph *out_graph, size_t *out_end);

/* Checks every invariant of a graph:
 *  - handles are in range and defined before use; arity, types, attributes and recomputed shapes are right; names are unique;
 *  - state is threaded linearly: a cache that state_write replaces has no other reader;
 *  - regions cover each computed node that the outputs need, list nodes topologically, write all values that others read, and
 *    can be put in an order (their array may be in another order).  These checks need at least one region.
 * `when` names the pass in the message. */
dop_status dop_graph_verify(const dop_graph *g, const char *when, dop_diag *diag);

#endif
