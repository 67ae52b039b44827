/* Prefetch (double buffering in registers): transforms a loop that loads what it uses into one whose iterations load the
 * operands of the next iteration. */
#include "kernels/nest/ahead.h"
#include "kernels/nest/nest.h"

#include <ctype.h>
#include <string.h>

/* Creates a call of the load function with these arguments, into the registers or into their copies for the next
 * iteration. */
static dop_stmt *
make_load_call(dop_nest *n, const dop_stmt *load, const char *arguments, bool copies)
{
    dop_stmt *s = dop_nest_new(n, DOP_STMT_call);
    s->name = load->name;
    s->value = arguments;
    for (uint32_t i = 0; i < load->n_registers; i++)
        s->value = dop_nest_text(n, "%s, %s%s", s->value, copies ? "next_" : "", load->registers[i]);
    return s;
}

static dop_stmt *
make_condition(dop_nest *n, const char *text, dop_stmt *body, dop_stmt *other)
{
    dop_stmt *s = dop_nest_new(n, DOP_STMT_if);
    s->value = text;
    s->body = body;
    s->other = other;
    return s;
}

/* Returns the statement that declares the array in the function's block; NULL if there is none. */
static dop_stmt *
array_of(const dop_stmt *function, const char *name)
{
    dop_stmt *s = function->body;
    while (s && (s->kind != DOP_STMT_array || strcmp(s->name, name) != 0))
        s = s->next;
    return s;
}

/* Adds copies of the registers after their declarations, and the load of the first iteration. */
static void
begin_loads(dop_nest *n, dop_stmt *function, const dop_stmt *load)
{
    dop_stmt *at = array_of(function, load->registers[load->n_registers - 1]);
    for (uint32_t i = 0; i < load->n_registers; i++) {
        const dop_stmt *own = array_of(function, load->registers[i]);
        if (!at || !own) {
            dop_nest_fail(n, "no registers for loads ahead by", load->name);
            return;
        }
        dop_stmt *copy = dop_nest_new(n, DOP_STMT_array);
        copy->type = own->type;
        copy->value = own->value;
        copy->name = dop_nest_text(n, "next_%s", own->name);
        copy->next = at->next;
        at->next = copy;
        at = copy;
    }
    dop_stmt *first = make_load_call(n, load, load->again, false);
    first->next = at->next;
    at->next = first;
}

/* Returns the text with one name replaced by another. */
static const char *
rename_in(dop_nest *n, const char *text, const char *from, const char *to)
{
    dop_buf b = {0};
    const size_t size = strlen(from);
    for (const char *p = text; *p;) {
        size_t len = 0;
        while (isalnum((unsigned char)p[len]) || p[len] == '_')
            len++;
        if (len == size && strncmp(p, from, len) == 0)
            dop_buf_puts(&b, to);
        else
            dop_buf_append(&b, p, len ? len : 1);
        p += len ? len : 1;
    }
    const char *renamed = dop_nest_text(n, "%s", b.data ? b.data : "");
    dop_buf_finish(&b);
    return renamed;
}

/* Replaces the load `*at` in the innermost loop by the load of the next iteration. This is the loop's own next iteration, or
 * the first one in the next iteration of an enclosing loop. */
static void
load_next(dop_nest *n, dop_stmt **at, dop_stmt *const *loops, uint32_t n_loops)
{
    const dop_stmt *load = *at;
    dop_stmt *inner = loops[n_loops - 1], *chain = NULL, **last = &inner->body;
    for (uint32_t i = 0; i + 1 < n_loops; i++) /* from the outermost to the innermost */
        if (loops[i]->more && !loops[i]->late)
            chain = make_condition(n, loops[i]->more, make_load_call(n, load, loops[i]->again, true), chain);
    for (uint32_t i = 0; i + 1 < n_loops; i++) {
        dop_stmt **end = &loops[i]->body;
        while (*end)
            end = &(*end)->next;
        if (loops[i]->more && loops[i]->late)
            *end = make_condition(n, loops[i]->more, make_load_call(n, load, loops[i]->again, false), NULL);
    }
    const char *again = rename_in(n, load->value, inner->name, "next");
    dop_stmt *next = dop_nest_new(n, DOP_STMT_let);
    next->type = "uint";
    next->name = "next";
    next->value = dop_nest_text(n, "%s + %s", inner->name, inner->step);
    next->next =
        make_condition(n, dop_nest_text(n, "next < %s", inner->end), make_load_call(n, load, again, true), chain);
    next->next->next = load->next;
    *at = next;
    while (*last)
        last = &(*last)->next;
    for (uint32_t i = 0; i < load->n_registers; i++) {
        dop_stmt *s = dop_nest_new(n, DOP_STMT_set);
        s->name = load->registers[i];
        s->value = dop_nest_text(n, "next_%s", load->registers[i]);
        *last = s;
        last = &s->next;
    }
}

static void
pipeline_block(dop_nest *n, dop_stmt *function, dop_stmt **at, dop_stmt **loops, uint32_t n_loops)
{
    for (; *at && n->status == DOP_OK; at = &(*at)->next) {
        dop_stmt *s = *at;
        const bool loop = s->kind == DOP_STMT_for;
        if (s->n_registers > 0 && n_loops == 0) {
            dop_nest_fail(n, "no loop is around loads ahead by", s->name);
        } else if (s->n_registers > 0) {
            begin_loads(n, function, s);
            load_next(n, at, loops, n_loops);
            return;
        }
        if (loop)
            loops[n_loops] = s;
        pipeline_block(n, function, &s->body, loops, n_loops + loop);
        pipeline_block(n, function, &s->other, loops, n_loops);
    }
}

void
dop_nest_pipeline(dop_nest *n)
{
    dop_stmt *loops[DOP_NEST_DEPTH];
    for (dop_stmt *s = n->first; s; s = s->next)
        if (s->kind == DOP_STMT_function)
            pipeline_block(n, s, &s->body, loops, 0);
}
