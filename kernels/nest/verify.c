/* Verifies a nest: names are in scope where they are used, barriers are in uniform control flow, and statements are
 * complete. */
#include "kernels/nest/verify.h"
#include "kernels/nest/nest.h"

#include <ctype.h>
#include <string.h>

enum { MOST_NAMES = 256 };

typedef struct scope {
    dop_nest *n;
    const char *names[MOST_NAMES]; /* all names that statements of the nest introduce */
    bool known[MOST_NAMES];        /* true if the name is in scope at the current statement */
    uint32_t n_names;
    uint32_t depth; /* number of enclosing blocks; 0: libraries, which use their own names */
} scope;

static bool
introduces(const dop_stmt *s)
{
    switch (s->kind) {
    case DOP_STMT_number:
    case DOP_STMT_shared:
    case DOP_STMT_let:
    case DOP_STMT_array:
        return true;
    case DOP_STMT_for:
        return !s->declared;
    default:
        return false;
    }
}

static uint32_t
find_nest_name(const scope *c, const char *name, size_t len)
{
    for (uint32_t i = 0; i < c->n_names; i++)
        if (c->names[i][0] == *name && strncmp(c->names[i], name, len) == 0 && c->names[i][len] == 0)
            return i;
    return MOST_NAMES;
}

static void
collect_nest_names(scope *c, const dop_stmt *s)
{
    for (; s; s = s->next) {
        if (introduces(s) && find_nest_name(c, s->name, strlen(s->name)) == MOST_NAMES) {
            if (c->n_names == MOST_NAMES) {
                dop_nest_fail(c->n, "too many names at", s->name);
                return;
            }
            c->names[c->n_names++] = s->name;
        }
        collect_nest_names(c, s->body);
        collect_nest_names(c, s->other);
    }
}

/* True if the name follows a word or a comma, so that the text may declare it. */
static bool
follows_word(const char *text, const char *at)
{
    const char *end = at;
    while (end > text && end[-1] == ' ')
        end--;
    return end > text && end < at && (isalnum((unsigned char)end[-1]) || end[-1] == '_' || end[-1] == ',');
}

typedef enum introduction { NOTHING, DECLARES, PARAMETERS } introduction;

/* Checks that every name of the nest in the text is in scope, or is declared by the text as `by` permits. */
static void
check_names_in(scope *c, const char *text, introduction by)
{
    for (const char *p = text ? text : ""; *p;) {
        size_t len = 0;
        while (isalnum((unsigned char)p[len]) || p[len] == '_')
            len++;
        const uint32_t i = len && !isdigit((unsigned char)*p) ? find_nest_name(c, p, len) : MOST_NAMES;
        const bool member = p > text && p[-1] == '.';
        if (i < MOST_NAMES && !c->known[i] && !member) {
            if (by == PARAMETERS || (by == DECLARES && follows_word(text, p)))
                c->known[i] = true;
            else
                dop_nest_fail(c->n, "not known where it is used:", c->names[i]);
        }
        p += len ? len : 1;
    }
}

static void check_block(scope *c, const dop_stmt *s, bool in_loop, bool apart);

static void
check_inner(scope *c, const dop_stmt *s, bool in_loop, bool apart)
{
    bool known[MOST_NAMES];
    memcpy(known, c->known, sizeof known);
    if (s->kind == DOP_STMT_function)
        check_names_in(c, s->value, PARAMETERS);
    if (s->kind == DOP_STMT_for) {
        if (!s->declared)
            c->known[find_nest_name(c, s->name, strlen(s->name))] = true;
        check_names_in(c, s->end, NOTHING);
        check_names_in(c, s->step, NOTHING);
    }
    const bool loop = in_loop || s->kind == DOP_STMT_for;
    c->depth++;
    check_block(c, s->body, loop, apart || s->apart);
    check_block(c, s->other, loop, apart || s->apart);
    c->depth--;
    memcpy(c->known, known, sizeof known);
}

static void
check_block(scope *c, const dop_stmt *s, bool in_loop, bool apart)
{
    for (; s && c->n->status == DOP_OK; s = s->next) {
        const bool code = s->kind == DOP_STMT_code, hole = code || s->kind == DOP_STMT_hole,
                   function = s->kind == DOP_STMT_function;
        if (s->kind == DOP_STMT_break && !in_loop)
            dop_nest_fail(c->n, "a break outside of loops:", s->value);
        if (s->together && apart)
            dop_nest_fail(c->n, "not all invocations come to the barrier of", s->name ? s->name : "a block");
        if (!s->value || (s->kind != DOP_STMT_break && s->kind != DOP_STMT_return && s->kind != DOP_STMT_barrier &&
                          s->kind != DOP_STMT_if && !code && !s->name))
            dop_nest_fail(c->n, "a statement has no value or no name:", s->name ? s->name : s->value);
        if (!function && (!hole || c->depth > 0))
            check_names_in(c, s->value, hole ? DECLARES : NOTHING);
        if (!introduces(s) && !hole && !function)
            check_names_in(c, s->name, NOTHING);
        if (s->body || s->other || function)
            check_inner(c, s, in_loop, apart);
        if (introduces(s) && s->kind != DOP_STMT_for) {
            const uint32_t i = find_nest_name(c, s->name, strlen(s->name));
            c->known[i < MOST_NAMES ? i : 0] = true;
        }
    }
}

void
dop_nest_verify(dop_nest *n)
{
    scope c = {.n = n};
    collect_nest_names(&c, n->first);
    check_block(&c, n->first, false, false);
}
