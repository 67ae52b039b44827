/* Prints a nest as GLSL, and as a dump. */
#include "kernels/nest/print.h"
#include "kernels/nest/nest.h"

#include <string.h>

static void put_block(const dop_stmt *s, uint32_t depth, dop_buf *out);

static void
put_indent(uint32_t depth, dop_buf *out)
{
    for (uint32_t i = 0; i < depth; i++)
        dop_buf_puts(out, "    ");
}

static void
put_braces(const dop_stmt *body, uint32_t depth, dop_buf *out)
{
    dop_buf_puts(out, "{\n");
    put_block(body, depth + 1, out);
    put_indent(depth, out);
    dop_buf_puts(out, "}\n");
}

static void
put_for(const dop_stmt *s, uint32_t depth, dop_buf *out)
{
    dop_buf_printf(out, "%sfor (", s->unroll ? "[[unroll]] " : s->rolled ? "[[dont_unroll]] " : "");
    if (*s->value)
        dop_buf_printf(out, "%s%s = %s", s->declared ? "" : "uint ", s->name, s->value);
    if (s->late_test) {
        dop_buf_puts(out, ";;) {\n");
        put_block(s->body, depth + 1, out);
        put_indent(depth + 1, out);
        dop_buf_printf(out, "if (%s%s >= %s) break;\n", s->step ? "" : "++", s->step ? s->step : s->name, s->end);
        put_indent(depth, out);
        dop_buf_puts(out, "}\n");
        return;
    }
    dop_buf_printf(out, "; %s %s %s; ", s->name, s->through ? "<=" : "<", s->end);
    if (s->step)
        dop_buf_printf(out, "%s += %s) ", s->name, s->step);
    else
        dop_buf_printf(out, "%s++) ", s->name);
    put_braces(s->body, depth, out);
}

static void
put_if(const dop_stmt *s, uint32_t depth, dop_buf *out)
{
    for (;; s = s->other) {
        dop_buf_printf(out, "if (%s) {\n", s->value);
        put_block(s->body, depth + 1, out);
        put_indent(depth, out);
        if (!s->other || s->other->kind != DOP_STMT_if || s->other->next)
            break;
        dop_buf_puts(out, "} else ");
    }
    dop_buf_puts(out, s->other ? "} else " : "}\n");
    if (s->other)
        put_braces(s->other, depth, out);
}

static void
put_statement(const dop_stmt *s, uint32_t depth, dop_buf *out)
{
    switch (s->kind) {
    case DOP_STMT_number:
        dop_buf_printf(out, "#define %s %s\n", s->name, s->value);
        break;
    case DOP_STMT_shared:
        dop_buf_printf(out, "shared %s %s[%s];\n", s->type, s->name, s->value);
        break;
    case DOP_STMT_function:
        dop_buf_printf(out, "void %s(%s)\n", s->name, s->value);
        put_braces(s->body, depth, out);
        break;
    case DOP_STMT_for:
        put_for(s, depth, out);
        break;
    case DOP_STMT_if:
        put_if(s, depth, out);
        break;
    case DOP_STMT_let:
        dop_buf_printf(out, "%s %s = %s;\n", s->type, s->name, s->value);
        break;
    case DOP_STMT_array:
        dop_buf_printf(out, "%s %s[%s];\n", s->type, s->name, s->value);
        break;
    case DOP_STMT_set:
    case DOP_STMT_load:
    case DOP_STMT_store:
    case DOP_STMT_dot:
    case DOP_STMT_reduce:
        dop_buf_printf(out, "%s %s= %s;\n", s->name, s->step ? s->step : "", s->value);
        break;
    case DOP_STMT_call:
        dop_buf_printf(out, "%s(%s);\n", s->name, s->value);
        break;
    case DOP_STMT_barrier:
        dop_buf_printf(out, "%s;\n", *s->value ? s->value : "barrier()");
        break;
    case DOP_STMT_break:
        dop_buf_printf(out, "if (%s) break;\n", s->value);
        break;
    case DOP_STMT_return:
        dop_buf_printf(out, "if (%s) return;\n", s->value);
        break;
    case DOP_STMT_code:
        for (const char *line = s->value, *next; *line; line = next) {
            next = strchr(line, '\n') + 1;
            put_indent(line > s->value ? depth : 0, out);
            dop_buf_append(out, line, (size_t)(next - line));
        }
        break;
    case DOP_STMT_hole:
    case DOP_STMT_KINDS:
        dop_buf_puts(out, s->value);
        break;
    }
}

static void
put_block(const dop_stmt *s, uint32_t depth, dop_buf *out)
{
    for (; s; s = s->next) {
        if (s->kind != DOP_STMT_hole && s->kind != DOP_STMT_number)
            put_indent(depth, out);
        put_statement(s, depth, out);
    }
}

void
dop_nest_print(const dop_nest *n, dop_buf *out)
{
    put_block(n->first, 0, out);
}

/* --- dump -------------------------------------------------------------------------------------------------------------- */

static const char *
kind_name(dop_stmt_kind kind)
{
    static const char *const names[] = {
#define STATEMENT(kind, ...) #kind,
#include "kernels/nest/statement.def"
#undef STATEMENT
    };
    return names[kind];
}

static void
dump_memories(const dop_nest *n, const char *verb, uint32_t bits, dop_buf *out)
{
    for (uint32_t i = 0; i < n->n_memories; i++)
        if (bits >> i & 1)
            dop_buf_printf(out, ", %s %s", verb, n->memories[i]);
}

static void
dump_block(const dop_nest *n, const dop_stmt *s, uint32_t depth, dop_buf *out)
{
    for (; s; s = s->next) {
        const bool loop = s->kind == DOP_STMT_for, hole = s->kind == DOP_STMT_hole || s->kind == DOP_STMT_code;
        dop_buf_printf(out, "%*s", (int)depth * 2, "");
        dop_buf_puts(out, kind_name(s->kind));
        if (s->type)
            dop_buf_printf(out, " %s", s->type);
        if (s->name)
            dop_buf_printf(out, " %s", s->name);
        if (loop)
            dop_buf_printf(out, " from %s %s %s by %s%s%s", s->value, s->through ? "to" : "below", s->end,
                           s->step ? s->step : "1u", s->unroll ? ", unrolled" : "",
                           s->late_test ? ", at least once" : "");
        else if (s->kind == DOP_STMT_call || s->kind == DOP_STMT_function)
            dop_buf_printf(out, "(%s)", s->value);
        else if (s->kind == DOP_STMT_array || s->kind == DOP_STMT_shared)
            dop_buf_printf(out, "[%s]", s->value);
        else if (*s->value && !hole)
            dop_buf_printf(out, "%s%s", s->name ? s->step ? " += " : " = " : " ", s->value);
        dop_buf_puts(out, s->apart                                     ? ", each by itself"
                          : s->together && s->kind != DOP_STMT_barrier ? ", together"
                                                                       : "");
        dump_memories(n, "reads", s->reads, out);
        dump_memories(n, "writes", s->writes, out);
        dop_buf_puts(out, "\n");
        if (hole && depth > 1) /* holes outside of functions are libraries */
            dop_buf_puts(out, s->value);
        dump_block(n, s->body, depth + 1, out);
        if (s->other) {
            dop_buf_printf(out, "%*selse\n", (int)depth * 2, "");
            dump_block(n, s->other, depth + 1, out);
        }
    }
}

void
dop_nest_dump(const dop_nest *n, dop_buf *out)
{
    dop_buf_printf(out, "nest %s\n", n->name);
    dop_placement_dump(&n->placement, out);
    dump_block(n, n->first, 1, out);
}
