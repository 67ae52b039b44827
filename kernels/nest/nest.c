/* Builds the tree of statements. */
#include "kernels/nest/nest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void
dop_nest_open(dop_nest *n, const char *name, const dop_nest_placement *p, dop_arena *arena, dop_diag *diag)
{
    *n = (dop_nest){.arena = arena, .diag = diag, .name = name, .placement = *p};
    n->at = &n->first;
}

void
dop_nest_fail(dop_nest *n, const char *what, const char *name)
{
    if (n->status == DOP_OK)
        n->status =
            DOP_FAIL(n->diag, DOP_E_INTERNAL, "nest %s: %s%s%s", n->name, what, name ? " " : "", name ? name : "");
}

static const char *
format_text(dop_nest *n, const char *format, va_list ap)
{
    dop_buf b = {0};
    dop_buf_vprintf(&b, format, ap);
    const char *text = b.failed ? NULL : dop_arena_strdup(n->arena, b.data ? b.data : "");
    dop_buf_finish(&b);
    if (!text && n->status == DOP_OK)
        n->status = DOP_NO_MEMORY(n->diag);
    return text ? text : "";
}

const char *
dop_nest_text(dop_nest *n, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    const char *text = format_text(n, format, ap);
    va_end(ap);
    return text;
}

dop_stmt *
dop_nest_new(dop_nest *n, dop_stmt_kind kind)
{
    static dop_stmt nothing; /* target of writes after a failure; never read */
    dop_stmt *s = dop_arena_alloc(n->arena, sizeof *s);
    if (!s && n->status == DOP_OK)
        n->status = DOP_NO_MEMORY(n->diag);
    s = s ? s : &nothing;
    *s = (dop_stmt){.kind = kind};
    return s;
}

/* Adds a statement to the open block. */
static dop_stmt *
append_statement(dop_nest *n, dop_stmt_kind kind, const char *name, const char *value)
{
    dop_stmt *s = dop_nest_new(n, kind);
    s->name = name;
    s->value = value;
    if (n->status == DOP_OK) {
        *n->at = s;
        n->at = &s->next;
    }
    return s;
}

/* Opens the statement's body as the current block. */
static dop_stmt *
open_statement(dop_nest *n, dop_stmt *s)
{
    if (n->n_open == DOP_NEST_DEPTH)
        dop_nest_fail(n, "blocks are too deep at", s->name);
    if (n->status != DOP_OK)
        return s;
    n->open[n->n_open++] = s;
    n->at = &s->body;
    return s;
}

void
dop_nest_else(dop_nest *n)
{
    if (n->n_open == 0 || n->open[n->n_open - 1]->kind != DOP_STMT_if)
        dop_nest_fail(n, "no condition is open", NULL);
    if (n->status == DOP_OK)
        n->at = &n->open[n->n_open - 1]->other;
}

void
dop_nest_end(dop_nest *n)
{
    if (n->n_open == 0)
        dop_nest_fail(n, "no block is open", NULL);
    if (n->status == DOP_OK)
        n->at = &n->open[--n->n_open]->next;
}

void
dop_nest_ends(dop_nest *n, uint32_t blocks)
{
    while (blocks-- > 0)
        dop_nest_end(n);
}

void
dop_nest_number(dop_nest *n, const char *name, uint32_t value)
{
    append_statement(n, DOP_STMT_number, name, dop_nest_text(n, "%uu", value));
}

uint32_t
dop_nest_memory(dop_nest *n, const char *name)
{
    if (n->n_memories == DOP_NEST_MEMORIES) {
        dop_nest_fail(n, "no bit is left for memory", name);
        return 0;
    }
    n->memories[n->n_memories] = name;
    return 1u << n->n_memories++;
}

uint32_t
dop_nest_named(const dop_nest *n, const char *text)
{
    uint32_t bits = 0;
    for (size_t len = 0; *text; text += len ? len : 1) {
        for (len = 0; isalnum((unsigned char)text[len]) || text[len] == '_';)
            len++;
        for (uint32_t i = 0; i < n->n_memories && len > 0; i++)
            if (strncmp(n->memories[i], text, len) == 0 && n->memories[i][len] == 0)
                bits |= 1u << i;
    }
    return bits;
}

uint32_t
dop_nest_shared(dop_nest *n, const char *type, const char *name, uint32_t count)
{
    dop_stmt *s = dop_nest_new(n, DOP_STMT_shared), **at = n->at;
    s->type = type;
    s->name = name;
    s->value = dop_nest_text(n, "%u", count);
    if (n->n_open > 0) /* insert before the open function */
        for (at = &n->first; *at != n->open[0];)
            at = &(*at)->next;
    if (n->status == DOP_OK) {
        s->next = *at;
        *at = s;
        n->at = n->n_open ? n->at : &s->next;
    }
    return dop_nest_memory(n, name);
}

void
dop_nest_function(dop_nest *n, const char *name, const char *parameters)
{
    open_statement(n, append_statement(n, DOP_STMT_function, name, parameters));
}

dop_stmt *
dop_nest_for(dop_nest *n, const char *name, const char *first, const char *end, const char *step)
{
    dop_stmt *s = open_statement(n, append_statement(n, DOP_STMT_for, name, first));
    s->end = end;
    s->step = step;
    return s;
}

dop_stmt *
dop_nest_rolled(dop_nest *n, const char *name, const char *first, const char *end, const char *next)
{
    dop_stmt *s = dop_nest_for(n, name, first ? first : "", end, next);
    s->rolled = s->late_test = true;
    s->declared = !first;
    return s;
}

dop_stmt *
dop_nest_unrolled(dop_nest *n, const char *name, uint32_t turns)
{
    dop_stmt *s = dop_nest_for(n, name, "0u", dop_nest_text(n, "%uu", turns), NULL);
    s->unroll = true;
    return s;
}

/* Adds a statement whose value is formatted from the variable arguments after `format`. */
#define ADD(s, kind, name, format)                 \
    va_list ap;                                    \
    va_start(ap, format);                          \
    const char *text = format_text(n, format, ap); \
    va_end(ap);                                    \
    dop_stmt *s = append_statement(n, DOP_STMT_##kind, name, text)

dop_stmt *
dop_nest_if(dop_nest *n, const char *condition, ...)
{
    ADD(s, if, NULL, condition);
    return open_statement(n, s);
}

dop_stmt *
dop_nest_let(dop_nest *n, const char *type, const char *name, const char *value, ...)
{
    ADD(s, let, name, value);
    s->type = type;
    return s;
}

void
dop_nest_array(dop_nest *n, const char *type, const char *name, uint32_t count)
{
    append_statement(n, DOP_STMT_array, name, dop_nest_text(n, "%u", count))->type = type;
}

dop_stmt *
dop_nest_set(dop_nest *n, const char *place, const char *value, ...)
{
    ADD(s, set, place, value);
    return s;
}

dop_stmt *
dop_nest_each(dop_nest *n, const char *name, uint32_t turns, const char *place, const char *value, ...)
{
    dop_nest_unrolled(n, name, turns);
    ADD(s, set, place, value);
    dop_nest_end(n);
    return s;
}

void
dop_nest_zeros(dop_nest *n, const char *name, uint32_t count)
{
    dop_nest_array(n, "float", name, count);
    dop_nest_each(n, "i", count, dop_nest_text(n, "%s[i]", name), "0.0");
}

dop_stmt *
dop_nest_add(dop_nest *n, const char *place, const char *value, ...)
{
    ADD(s, set, place, value);
    s->step = "+";
    return s;
}

void
dop_nest_load(dop_nest *n, const char *place, const char *value, ...)
{
    ADD(s, load, place, value);
    (void)s;
}

void
dop_nest_store(dop_nest *n, uint32_t memory, const char *place, const char *value, ...)
{
    ADD(s, store, place, value);
    s->writes = memory;
}

void
dop_nest_dot(dop_nest *n, const char *place, const char *value, ...)
{
    ADD(s, dot, place, value);
    s->step = "+";
}

dop_stmt *
dop_nest_reduce(dop_nest *n, const char *place, const char *value, ...)
{
    ADD(s, reduce, place, value);
    return s;
}

dop_stmt *
dop_nest_call(dop_nest *n, const char *function, const char *arguments)
{
    return append_statement(n, DOP_STMT_call, function, arguments);
}

void
dop_nest_library(dop_nest *n, const char *function, const char *arguments, uint32_t reads, uint32_t writes)
{
    dop_stmt *s = dop_nest_call(n, function, arguments);
    s->reads = reads;
    s->writes = writes;
}

void
dop_nest_ahead(dop_nest *n, const char *function, const char *first, const char *arguments,
               const char *const *registers, uint32_t n_registers)
{
    dop_stmt *s = append_statement(n, DOP_STMT_call, function, arguments);
    s->again = first;
    s->registers = registers;
    s->n_registers = n_registers;
}

void
dop_nest_break(dop_nest *n, const char *condition)
{
    append_statement(n, DOP_STMT_break, NULL, condition);
}

void
dop_nest_return(dop_nest *n, const char *condition, ...)
{
    ADD(s, return, NULL, condition);
    (void)s;
}

/* Finds how the lines access the shared memory of that name: assignments, possibly after an index and a component, write. */
static void
find_traffic(dop_stmt *s, const char *name, uint32_t bit)
{
    const size_t len = strlen(name);
    for (const char *p = s->value; (p = strstr(p, name)); p += len) {
        const char *q = p + len;
        if ((p > s->value && (isalnum((unsigned char)p[-1]) || p[-1] == '_')) || isalnum((unsigned char)*q) ||
            *q == '_')
            continue;
        for (uint32_t depth = 0; *q == '[' || depth > 0; q++)
            depth += *q == '[' ? 1 : *q == ']' ? UINT32_MAX : 0;
        q += *q == '.' ? 2 : 0;
        q += strspn(q, " ");
        const bool changes = *q && strchr("+-*/|&", *q) && q[1] == '=', sets = q[0] == '=' && q[1] != '=';
        s->writes |= changes || sets ? bit : 0;
        s->reads |= sets ? 0 : bit;
    }
}

dop_stmt *
dop_nest_code(dop_nest *n, const char *lines, ...)
{
    ADD(s, code, NULL, lines);
    for (uint32_t i = 0; i < n->n_memories; i++)
        find_traffic(s, n->memories[i], 1u << i);
    return s;
}

dop_stmt *
dop_nest_hole(dop_nest *n, const char *what, const char *text)
{
    return append_statement(n, DOP_STMT_hole, what, text ? text : "");
}

const dop_stmt *
dop_nest_find(const dop_nest *n, const char *function)
{
    const dop_stmt *s = n->first;
    while (s && (s->kind != DOP_STMT_function || strcmp(s->name, function) != 0))
        s = s->next;
    return s;
}
