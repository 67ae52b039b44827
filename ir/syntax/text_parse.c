/* The parser of text.h: one token of lookahead, no recursion, untrusted input.  Newlines are white space except that they end
 * labels; `#` starts a comment. */
#include "ir/graph/dims.h"
#include "ir/graph/graph_add.h"
#include "ir/graph/ops.h"
#include "ir/graph/shapes.h"
#include "ir/region/graph_regions.h"
#include "ir/syntax/text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hash table from names to nodes, with open addressing.  Names point into the graph. */
typedef struct name_table {
    dop_node_id *slots;
    uint32_t n, cap; /* cap: 0 or a power of two */
} name_table;

typedef struct id_list {
    dop_node_id *ids;
    uint32_t n, cap;
} id_list;

typedef struct parser {
    const char *path, *text;
    size_t size, pos;
    dop_diag *diag;
    dop_graph *g;
    locale_t c_locale;
    name_table names;
    id_list nodes, outs;
} parser;

typedef struct word {
    const char *s;
    size_t n, pos;
} word;

/* ---- errors ---- */

enum { EXCERPT = 100 }; /* maximum bytes of the source line that a message quotes */

/* Writes the source line around `pos` and a caret below it to `out`, as two lines. */
static void
write_excerpt(const parser *p, size_t start, size_t pos, char *out, size_t out_size)
{
    char line[EXCERPT + 1];
    size_t from = pos - start > EXCERPT / 2 ? pos - EXCERPT / 2 : start, n = 0;
    while (n < EXCERPT && from + n < p->size && p->text[from + n] != '\n') {
        char c = p->text[from + n];
        line[n++] =
            c >= 0x20 && c < 0x7f ? c : ' '; /* non-printable bytes must not move the caret or reach the terminal */
    }
    line[n] = 0;
    snprintf(out, out_size, "    %s\n    %*s^", line, (int)(pos - from), "");
}

static dop_status fail_at_text(parser *p, int src_line, size_t pos, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define FAIL(p, pos, ...) fail_at_text((p), __LINE__, (pos), __VA_ARGS__)

static dop_status
fail_at_text(parser *p, int src_line, size_t pos, const char *fmt, ...)
{
    char text[600], where[2 * EXCERPT + 32];
    size_t start = 0;
    long line = 1;
    pos = pos < p->size ? pos : p->size;
    for (size_t i = 0; i < pos; i++) {
        if (p->text[i] == '\n') {
            start = i + 1;
            line++;
        }
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    write_excerpt(p, start, pos, where, sizeof where);
    return dop_fail(p->diag, __FILE__, src_line, DOP_E_INPUT, p->path, line, (long)(pos - start) + 1, "%s\n%s", text,
                    where);
}

/* Reports a failure of the graph as an error of the text at `pos`. */
static dop_status
fail_from_graph(parser *p, size_t pos, dop_status st, const dop_diag *inner)
{
    if (st == DOP_E_NOMEM)
        return DOP_FAIL(p->diag, DOP_E_NOMEM, "%s", inner->message);
    return FAIL(p, pos, "%s", inner->message);
}

/* ---- tokens ---- */

static void
skip_text_blanks(parser *p)
{
    while (p->pos < p->size && (p->text[p->pos] == ' ' || p->text[p->pos] == '\t'))
        p->pos++;
}

static void
skip_text_space(parser *p)
{
    for (; p->pos < p->size; p->pos++) {
        char c = p->text[p->pos];
        if (c == '#') {
            while (p->pos < p->size && p->text[p->pos] != '\n')
                p->pos++;
            if (p->pos == p->size)
                return;
        } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            return;
        }
    }
}

static bool
is_at_token(parser *p, const char *s)
{
    size_t n = strlen(s);
    skip_text_space(p);
    return p->size - p->pos >= n && memcmp(p->text + p->pos, s, n) == 0;
}

static bool
accept_token(parser *p, const char *s)
{
    if (!is_at_token(p, s))
        return false;
    p->pos += strlen(s);
    return true;
}

static dop_status
expect_token(parser *p, const char *s)
{
    return accept_token(p, s) ? DOP_OK : FAIL(p, p->pos, "expected '%s'", s);
}

static bool
is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-' || c == '/';
}

/* Reads a run of name characters; may be empty. */
static word
read_text_word(parser *p)
{
    skip_text_space(p);
    word w = {p->text + p->pos, 0, p->pos};
    while (p->pos < p->size && is_word_char(p->text[p->pos]))
        p->pos++;
    w.n = p->pos - w.pos;
    return w;
}

static bool
is_text_word(word w, const char *s)
{
    return strlen(s) == w.n && memcmp(w.s, s, w.n) == 0;
}

/* Returns the length of a word for %.*s, at most 60. */
static int
clip_word(word w)
{
    return w.n < 60 ? (int)w.n : 60;
}

/* Reads the decimal digits at the start of a word: their number and value.  False if the value exceeds 2^32-1. */
static bool
read_leading_number(word w, size_t *out_digits, uint32_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    for (; i < w.n && w.s[i] >= '0' && w.s[i] <= '9'; i++) {
        v = v * 10 + (uint64_t)(w.s[i] - '0');
        if (v > UINT32_MAX)
            return false;
    }
    *out_digits = i;
    *out = (uint32_t)v;
    return true;
}

static dop_status
read_text_u32(parser *p, const char *what, uint32_t *out)
{
    size_t digits;
    word w = read_text_word(p);
    *out = 0;
    if (w.n == 0 || !read_leading_number(w, &digits, out) || digits != w.n)
        return FAIL(p, w.pos, "expected %s, a number up to 4294967295", what);
    return DOP_OK;
}

/* Copies a name to the arena. */
static dop_status
keep_node_name(parser *p, word w, const char *what, const char **out)
{
    char *s = w.n ? dop_arena_alloc(p->g->arena, w.n + 1) : NULL;
    if (w.n == 0)
        return FAIL(p, w.pos, "expected %s", what);
    if (!s)
        return DOP_NO_MEMORY(p->diag);
    memcpy(s, w.s, w.n);
    if (!dop_name_ok(s))
        return FAIL(p, w.pos, "%s has more than 200 characters", what);
    *out = s;
    return DOP_OK;
}

/* Reads a string in double quotes, with the escapes \" \\ and \xNN. */
static dop_status
read_attr_string(parser *p, const char **out)
{
    skip_text_space(p);
    size_t open = p->pos, end, n = 0;
    if (!accept_token(p, "\""))
        return FAIL(p, open, "expected a string in double quotes");
    for (end = p->pos; end < p->size && p->text[end] != '"' && p->text[end] != '\n'; end++)
        end += p->text[end] == '\\';
    if (end >= p->size || p->text[end] != '"')
        return FAIL(p, open, "the string has no end");
    char *s = dop_arena_alloc(p->g->arena, end - p->pos + 1);
    if (!s)
        return DOP_NO_MEMORY(p->diag);
    while (p->pos < end) {
        char c = p->text[p->pos++];
        if (c == '\\') {
            c = p->text[p->pos++];
            if (c == 'x' && end - p->pos >= 2 && dop_hex_digit(p->text[p->pos]) >= 0 &&
                dop_hex_digit(p->text[p->pos + 1]) >= 0) {
                c = (char)(dop_hex_digit(p->text[p->pos]) << 4 | dop_hex_digit(p->text[p->pos + 1]));
                p->pos += 2;
            } else if (c != '"' && c != '\\') {
                return FAIL(p, p->pos - 2, "unknown escape in a string; known are \\\" \\\\ and \\xNN");
            }
        }
        if (c == 0)
            return FAIL(p, open, "a string cannot hold a zero byte");
        s[n++] = c;
    }
    p->pos = end + 1;
    *out = s;
    return DOP_OK;
}

/* Copies the characters of a number.  Hexadecimal floats are exact. */
static dop_status
read_attr_number(parser *p, char out[64], size_t *out_pos)
{
    size_t n = 0;
    skip_text_space(p);
    *out_pos = p->pos;
    while (p->pos < p->size && n < 63 && (is_word_char(p->text[p->pos]) || p->text[p->pos] == '+'))
        out[n++] = p->text[p->pos++];
    out[n] = 0;
    size_t sign = out[0] == '-' || out[0] == '+';
    return out[sign] >= '0' && out[sign] <= '9' ? DOP_OK : FAIL(p, *out_pos, "expected a number");
}

static dop_status
read_attr_value(parser *p, dop_attr_id a, dop_attr *out)
{
    char digits[64], *end = digits;
    size_t pos;
    dop_status st;
    if (dop_attr_kind_of(a) == DOP_ATTR_S)
        return read_attr_string(p, &out->s);
    if (dop_attr_kind_of(a) == DOP_ATTR_W || dop_attr_kind_of(a) == DOP_ATTR_D) {
        word w = read_text_word(p);
        for (out->i = 0; dop_attr_word(a, out->i); out->i++)
            if (is_text_word(w, dop_attr_word(a, out->i)))
                return DOP_OK;
        return FAIL(p, w.pos, "'%.*s' is not a word for %s", clip_word(w), w.s, dop_attr_name(a));
    }
    if ((st = read_attr_number(p, digits, &pos)) != DOP_OK)
        return st;
    if (dop_attr_kind_of(a) == DOP_ATTR_F) {
        out->f = strtod_l(digits, &end, p->c_locale);
        if (*end || !isfinite(out->f))
            return FAIL(p, pos, "'%s' is not a number for %s", digits, dop_attr_name(a));
        return DOP_OK;
    }
    if (strlen(digits) <= 18)
        out->i = strtoll(digits, &end, 10);
    return *end || end == digits ? FAIL(p, pos, "'%s' is not a whole number for %s", digits, dop_attr_name(a)) : DOP_OK;
}

/* ---- names of nodes ---- */

static uint32_t
hash_name(const char *s, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

/* Returns the slot of a name: that of its node, or the free slot where it belongs. */
static uint32_t
find_name_slot(const parser *p, const dop_node_id *slots, uint32_t cap, const char *s, size_t n)
{
    uint32_t i = hash_name(s, n) & (cap - 1);
    for (; slots[i]; i = (i + 1) & (cap - 1)) {
        const char *have = p->g->nodes[slots[i]].name;
        if (strlen(have) == n && memcmp(have, s, n) == 0)
            break;
    }
    return i;
}

static dop_node_id
find_named_node(const parser *p, word w)
{
    const name_table *t = &p->names;
    return t->cap ? t->slots[find_name_slot(p, t->slots, t->cap, w.s, w.n)] : 0;
}

static dop_status
remember_name(parser *p, dop_node_id id)
{
    name_table *t = &p->names;
    if (t->n >= t->cap / 2) {
        uint32_t cap = t->cap ? t->cap * 2 : 256;
        dop_node_id *slots = calloc(cap, sizeof *slots);
        if (!slots)
            return DOP_NO_MEMORY(p->diag);
        for (uint32_t i = 0; i < t->cap; i++) {
            const char *name = t->slots[i] ? p->g->nodes[t->slots[i]].name : NULL;
            if (name)
                slots[find_name_slot(p, slots, cap, name, strlen(name))] = t->slots[i];
        }
        free(t->slots);
        t->slots = slots;
        t->cap = cap;
    }
    const char *name = p->g->nodes[id].name;
    t->slots[find_name_slot(p, t->slots, t->cap, name, strlen(name))] = id;
    t->n++;
    return DOP_OK;
}

/* Reads %name, which must be a node defined before. */
static dop_status
read_ref(parser *p, dop_node_id *out)
{
    dop_status st = expect_token(p, "%");
    if (st != DOP_OK)
        return st;
    word w = read_text_word(p);
    *out = w.n ? find_named_node(p, w) : 0;
    if (!*out)
        return FAIL(p, w.pos, "there is no node %%%.*s before this place", clip_word(w), w.s);
    return DOP_OK;
}

/* Reads %a %b ... into a list. */
static dop_status
read_refs(parser *p, id_list *list)
{
    list->n = 0;
    while (is_at_token(p, "%")) {
        if (list->n == list->cap) {
            uint32_t cap = list->cap ? list->cap * 2 : 64;
            dop_node_id *ids = cap < UINT32_MAX / 8 ? realloc(list->ids, cap * sizeof *ids) : NULL;
            if (!ids)
                return DOP_NO_MEMORY(p->diag);
            list->ids = ids;
            list->cap = cap;
        }
        dop_status st = read_ref(p, &list->ids[list->n]);
        if (st != DOP_OK)
            return st;
        list->n++;
    }
    return DOP_OK;
}

/* ---- statements ---- */

/* Reads type[dims]. */
static dop_status
read_node_type(parser *p, dop_want *out)
{
    word w = read_text_word(p);
    if (!dop_type_parse(w.s, w.n, &out->type))
        return FAIL(p, w.pos, "unknown type '%.*s'", clip_word(w), w.s);
    dop_status st = expect_token(p, "[");
    if (st != DOP_OK)
        return st;
    do {
        size_t digits;
        uint32_t mul;
        w = read_text_word(p);
        bool ok = w.n > 0 && read_leading_number(w, &digits, &mul);
        dop_dim d = dop_dim_n(ok && digits ? mul : 1);
        if (ok && digits < w.n) {
            const char *name = w.s + digits;
            d.sym = w.n - digits == 1 && *name == 'R' ? DOP_SYM_R : dop_graph_dim(p->g, name, w.n - digits);
            ok = d.sym != DOP_SYM_1;
        }
        if (!ok || d.mul == 0)
            return FAIL(p, w.pos,
                        "expected an axis: a number, a dimension of the graph, R, or a number and one of them");
        if (out->shape.rank == DOP_MAX_RANK)
            return FAIL(p, w.pos, "a shape has at most %d axes", DOP_MAX_RANK);
        out->shape.dim[out->shape.rank++] = d;
    } while (accept_token(p, ","));
    return expect_token(p, "]");
}

static dop_status
read_op(parser *p, dop_op *out)
{
    word w = read_text_word(p);
    for (unsigned op = 1; op < DOP_OP_COUNT; op++) {
        if (is_text_word(w, dop_op_of((dop_op)op)->name)) {
            *out = (dop_op)op;
            return DOP_OK;
        }
    }
    return FAIL(p, w.pos, "unknown op '%.*s'", clip_word(w), w.s);
}

/* Returns the index of the first mandatory attribute that is missing; n_attrs: none is. */
static uint8_t
find_missing_attr(const dop_op_info *info, const bool *have)
{
    uint8_t k = 0;
    while (k < info->n_attrs && (have[k] || dop_attr_optional(info->attrs[k])))
        k++;
    return k;
}

/* Reads the attributes of an op in any order; kinds O and D are optional.  A leaf's name is a plain string. */
static dop_status
read_attrs(parser *p, const dop_op_info *info, dop_attr *attrs)
{
    bool have[DOP_MAX_ATTRS] = {false};
    for (uint8_t n = 0; n < info->n_attrs; n++) {
        dop_status st;
        uint8_t k = 0, missing = find_missing_attr(info, have);
        if (info->attrs[0] == DOP_A_name && !have[0]) {
            st = read_attr_string(p, &attrs[0].s);
        } else {
            size_t before = p->pos;
            word w = read_text_word(p);
            while (k < info->n_attrs && !(is_text_word(w, dop_attr_name(info->attrs[k])) && !have[k]))
                k++;
            if (k == info->n_attrs && missing == info->n_attrs) {
                p->pos = before;
                return DOP_OK;
            }
            if (k == info->n_attrs)
                return FAIL(p, w.pos, "expected %s=, an attribute of %s", dop_attr_name(info->attrs[missing]),
                            info->name);
            if ((st = expect_token(p, "=")) == DOP_OK)
                st = read_attr_value(p, info->attrs[k], &attrs[k]);
        }
        if (st != DOP_OK)
            return st;
        have[k] = true;
    }
    return DOP_OK;
}

/* Reads "; label" up to the end of the line. */
static dop_status
read_label(parser *p, dop_node_id id)
{
    skip_text_blanks(p);
    if (p->pos >= p->size || p->text[p->pos] != ';')
        return DOP_OK;
    p->pos++;
    skip_text_blanks(p);
    size_t start = p->pos;
    while (p->pos < p->size && p->text[p->pos] != '\n')
        p->pos++;
    size_t n = p->pos - start;
    while (n && (p->text[start + n - 1] == ' ' || p->text[start + n - 1] == '\r'))
        n--;
    if (n > 200)
        return FAIL(p, start, "the label has more than 200 characters");
    for (size_t i = start; i < start + n; i++) {
        if (p->text[i] < 0x20 || p->text[i] > 0x7e)
            return FAIL(p, i, "the label has a character that is not plain ASCII");
    }
    char *s = dop_arena_alloc(p->g->arena, n + 1);
    if (!s)
        return DOP_NO_MEMORY(p->diag);
    memcpy(s, p->text + start, n);
    dop_node_at(p->g, id)->label = dop_label_read(s);
    return DOP_OK;
}

/* Reads %name:type[dims] = op %sources attributes ; label */
static dop_status
read_node(parser *p)
{
    dop_status st;
    dop_want want = {0};
    dop_op op = DOP_OP_none;
    dop_attr attrs[DOP_MAX_ATTRS] = {{0}};
    dop_node_id srcs[DOP_MAX_SRCS], id;
    uint32_t n_srcs = 0;
    const char *name;
    if ((st = expect_token(p, "%")) != DOP_OK)
        return st;
    word w = read_text_word(p);
    if ((st = keep_node_name(p, w, "a name", &name)) != DOP_OK)
        return st;
    if (find_named_node(p, w))
        return FAIL(p, w.pos, "a second node is named %%%s", name);
    if ((st = expect_token(p, ":")) != DOP_OK || (st = read_node_type(p, &want)) != DOP_OK ||
        (st = expect_token(p, "=")) != DOP_OK)
        return st;
    skip_text_space(p);
    size_t op_pos = p->pos;
    if ((st = read_op(p, &op)) != DOP_OK)
        return st;
    if (dop_op_of(op)->src_min > 0) {
        do {
            if (n_srcs == DOP_MAX_SRCS)
                return FAIL(p, p->pos, "more than %d sources", DOP_MAX_SRCS);
            if ((st = read_ref(p, &srcs[n_srcs++])) != DOP_OK)
                return st;
        } while (accept_token(p, ","));
    }
    if ((st = read_attrs(p, dop_op_of(op), attrs)) != DOP_OK)
        return st;
    dop_diag inner = {0};
    st = dop_graph_add(p->g, op, name, srcs, n_srcs, attrs, &want, &inner, &id);
    if (st != DOP_OK)
        return fail_from_graph(p, op_pos, st, &inner);
    if (!dop_shape_equal(&want.shape, &dop_node_at(p->g, id)->shape)) {
        char a[DOP_SHAPE_TEXT], b[DOP_SHAPE_TEXT];
        return FAIL(p, w.pos, "%%%s is marked %s but %s gives %s", name, dop_shape_text(p->g, &want.shape, a),
                    dop_op_of(op)->name, dop_shape_text(p->g, &dop_node_at(p->g, id)->shape, b));
    }
    if ((st = remember_name(p, id)) != DOP_OK)
        return st;
    return read_label(p, id);
}

/* Reads T<=512: a dimension and its bound.  T=1 and Q=16 are exact. */
static dop_status
read_dim(parser *p)
{
    dop_status st;
    dop_diag inner = {0};
    char name[16] = {0};
    uint32_t bound;
    word w = read_text_word(p);
    if (!dop_dim_name_ok(w.s, w.n))
        return FAIL(p, w.pos, "expected a dimension: a capital letter and up to 7 letters or digits, but not R");
    memcpy(name, w.s, w.n);
    const bool one = strcmp(name, "T") == 0, all = strcmp(name, "Q") == 0, exact = (one || all) && accept_token(p, "=");
    if (!exact && (st = expect_token(p, all ? "=" : "<=")) != DOP_OK)
        return st;
    skip_text_space(p);
    const size_t pos = p->pos;
    if ((st = read_text_u32(p, name, &bound)) != DOP_OK)
        return st;
    if (one && (bound == 0 || (exact && bound != 1)))
        return FAIL(p, pos, "T is 1 (T=1) or up to a number (T<=512)");
    st = dop_graph_declare(p->g, name, bound, &inner);
    return st == DOP_OK ? st : fail_from_graph(p, bound ? w.pos : pos, st, &inner);
}

/* Reads graph NAME(T=1, S<=4096, Q=1) { */
static dop_status
read_head(parser *p, dop_arena *arena)
{
    dop_status st;
    word w = read_text_word(p);
    if (!is_text_word(w, "graph"))
        return FAIL(p, w.pos, "expected 'graph NAME(T<=..., S<=..., Q=...) {'");
    w = read_text_word(p);
    char name[201];
    if (w.n == 0 || w.n > 200)
        return FAIL(p, w.pos, "expected the graph's name, 1 to 200 characters");
    memcpy(name, w.s, w.n);
    name[w.n] = 0;
    if ((st = expect_token(p, "(")) != DOP_OK || (st = dop_graph_open(p->g, arena, name, p->diag)) != DOP_OK)
        return st;
    do {
        if ((st = read_dim(p)) != DOP_OK)
            return st;
    } while (accept_token(p, ","));
    return (st = expect_token(p, ")")) == DOP_OK ? expect_token(p, "{") : st;
}

/* Reads return %a, %b } */
static dop_status
read_return(parser *p)
{
    dop_status st;
    dop_node_id id;
    word w = read_text_word(p);
    if (!is_text_word(w, "return"))
        return FAIL(p, w.pos, "expected a node (%%name:...) or 'return'");
    if (is_at_token(p, "%")) {
        do {
            if ((st = read_ref(p, &id)) != DOP_OK || (st = dop_graph_output(p->g, id, p->diag)) != DOP_OK)
                return st;
        } while (accept_token(p, ","));
    }
    return expect_token(p, "}");
}

/* Reads FIELD=N ..., and the first word after them. */
static dop_status
read_region_tile(parser *p, dop_tile *tile, word *out_next)
{
    for (;;) {
        word w = read_text_word(p);
        int i = 0;
        uint32_t value;
        dop_status st;
        while (i < DOP_TILE_FIELDS && !is_text_word(w, dop_tile_name(i)))
            i++;
        *out_next = w;
        if (i == DOP_TILE_FIELDS)
            return DOP_OK;
        if ((st = expect_token(p, "=")) != DOP_OK || (st = read_text_u32(p, "the tile's field", &value)) != DOP_OK)
            return st;
        dop_tile_set(tile, i, value);
    }
}

/* Reads region @1 TEMPLATE [using VARIANT] writes %a %b { %x %y } */
static dop_status
read_region(parser *p)
{
    dop_status st;
    uint32_t number;
    unsigned tpl = 1;
    const char *variant = NULL;
    dop_tile tile = {0};
    word w = read_text_word(p); /* "region" */
    size_t start = w.pos;
    if ((st = expect_token(p, "@")) != DOP_OK || (st = read_text_u32(p, "the region's number", &number)) != DOP_OK)
        return st;
    if (number != p->g->n_regions)
        return FAIL(p, start, "this is region @%u, not @%u", p->g->n_regions, number);
    w = read_text_word(p);
    while (tpl < DOP_TPL_COUNT && !is_text_word(w, dop_template_name((dop_template)tpl)))
        tpl++;
    if (tpl == DOP_TPL_COUNT)
        return FAIL(p, w.pos, "unknown template '%.*s'", clip_word(w), w.s);
    w = read_text_word(p);
    if (is_text_word(w, "using")) {
        if ((st = keep_node_name(p, read_text_word(p), "the variant's name", &variant)) != DOP_OK)
            return st;
        if ((st = read_region_tile(p, &tile, &w)) != DOP_OK)
            return st;
    }
    if (!is_text_word(w, "writes"))
        return FAIL(p, w.pos, "expected 'writes'");
    if ((st = read_refs(p, &p->outs)) != DOP_OK || (st = expect_token(p, "{")) != DOP_OK ||
        (st = read_refs(p, &p->nodes)) != DOP_OK || (st = expect_token(p, "}")) != DOP_OK)
        return st;
    dop_diag inner = {0};
    dop_region_id id;
    st = dop_graph_add_region(p->g, (dop_template)tpl, p->nodes.ids, p->nodes.n, p->outs.ids, p->outs.n, &inner, &id);
    if (st != DOP_OK)
        return fail_from_graph(p, start, st, &inner);
    p->g->regions[id].variant = variant;
    p->g->regions[id].tile = tile;
    return DOP_OK;
}

/* Reads "---" and the regions after it.  A "---" before anything else is left for the caller. */
static dop_status
read_regions(parser *p)
{
    size_t end = p->pos;
    if (!accept_token(p, "---") || !is_at_token(p, "region")) {
        p->pos = end;
        return DOP_OK;
    }
    while (is_at_token(p, "region")) {
        dop_status st = read_region(p);
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

static dop_status
read_graph(parser *p, dop_arena *arena)
{
    dop_status st;
    skip_text_space(p);
    size_t start = p->pos;
    if ((st = read_head(p, arena)) != DOP_OK)
        return st;
    while (is_at_token(p, "%")) {
        if ((st = read_node(p)) != DOP_OK)
            return st;
    }
    if ((st = read_return(p)) != DOP_OK || (st = read_regions(p)) != DOP_OK)
        return st;
    dop_diag inner = {0};
    char when[256];
    snprintf(when, sizeof when, "graph %s", p->g->name);
    st = dop_graph_verify(p->g, when, &inner);
    return st == DOP_OK ? st : fail_from_graph(p, start, st, &inner);
}

dop_status
dop_graph_parse(const char *path, const char *text, size_t size, dop_arena *arena, dop_diag *diag, dop_graph *out_graph,
                size_t *out_end)
{
    parser p = {.path = path, .text = text, .size = size, .diag = diag, .g = out_graph};
    memset(out_graph, 0, sizeof *out_graph);
    *out_end = 0;
    p.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* makes '.' the decimal point */
    if (!p.c_locale)
        return DOP_NO_MEMORY(diag);
    dop_status st = read_graph(&p, arena);
    skip_text_space(&p);
    *out_end = p.pos;
    freelocale(p.c_locale);
    free(p.names.slots);
    free(p.nodes.ids);
    free(p.outs.ids);
    return st;
}
