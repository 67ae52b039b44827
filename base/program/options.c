#include "base/program/options.h"

#include "base/program/names.h"
#include "base/program/say.h"
#include "base/words.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

dop_status
dop_texts_push(dop_texts *t, const char *text, dop_diag *diag)
{
    const char **items = realloc(t->items, (t->count + 1) * sizeof *items);
    if (!items)
        return DOP_NO_MEMORY(diag);
    t->items = items;
    t->items[t->count++] = text;
    return DOP_OK;
}

void
dop_texts_finish(dop_texts *texts)
{
    free(texts->items);
    memset(texts, 0, sizeof *texts);
}

static bool
requires_value(const dop_option *o)
{
    return o->kind != DOP_OPT_FLAG && o->kind != DOP_OPT_OPTIONAL && o->kind != DOP_OPT_FILES &&
           o->kind != DOP_OPT_PAIRS;
}

static dop_status
parse_option_number(const dop_option *o, const char *shown, const char *text, double *out, dop_diag *diag)
{
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    bool whole = o->kind == DOP_OPT_COUNT;
    if (end == text || *end || !isfinite(*out) || (whole && *out != floor(*out)))
        return DOP_FAIL(diag, DOP_E_USAGE, "%s needs a %snumber, not \"%s\"", shown, whole ? "whole " : "", text);
    if (*out < o->min || *out > o->max)
        return DOP_FAIL(diag, DOP_E_USAGE, "%s must lie between %.10g and %.10g, not %s", shown, o->min, o->max, text);
    return DOP_OK;
}

/* Fails because the value is not allowed; the message lists the allowed ones, "a, b and c". */
static dop_status
refuse_unknown_value(const dop_option *o, const char *shown, const char *value, dop_diag *diag)
{
    dop_buf known = {0};
    for (const char *p = o->values; *p;) {
        const size_t len = strcspn(p, " ");
        const char *next = p + len + (p[len] == ' ');
        dop_buf_printf(&known, "%s%.*s", p == o->values ? "" : *next ? ", " : " and ", (int)len, p);
        p = next;
    }
    dop_status st = DOP_FAIL(diag, DOP_E_USAGE, "%s%s%.60s: known are %s", shown,
                             o->kind == DOP_OPT_OPTIONAL ? "=" : " ", value, known.data ? known.data : "");
    dop_buf_finish(&known);
    return st;
}

static dop_status
store_option_value(const dop_option *o, const char *shown, const char *value, void *values, dop_diag *diag)
{
    char *field = (char *)values + o->offset;
    double v = 0;
    dop_status st = DOP_OK;
    switch (o->kind) {
    case DOP_OPT_FLAG:
        memcpy(field, &(bool){true}, sizeof(bool));
        break;
    case DOP_OPT_TEXT:
    case DOP_OPT_OPTIONAL:
        if (o->values && (*value || o->kind == DOP_OPT_TEXT) && !dop_has_word(o->values, value))
            return refuse_unknown_value(o, shown, value, diag);
        memcpy(field, &value, sizeof value);
        break;
    case DOP_OPT_COUNT:
        if ((st = parse_option_number(o, shown, value, &v, diag)) == DOP_OK)
            memcpy(field, &(uint32_t){v < 0 ? DOP_OPTION_MINUS_1 : (uint32_t)v}, sizeof(uint32_t));
        break;
    case DOP_OPT_REAL:
        if ((st = parse_option_number(o, shown, value, &v, diag)) == DOP_OK)
            memcpy(field, &v, sizeof v);
        break;
    case DOP_OPT_LIST:
    case DOP_OPT_FILES:
    case DOP_OPT_PAIRS:
        st = dop_texts_push((dop_texts *)(void *)field, value, diag);
        break;
    case DOP_OPT_POINTER: /* rejected earlier */
        break;
    }
    return st;
}

/* Returns the Levenshtein distance of two short names; 40 (MAX) for longer ones. */
static unsigned
edit_distance(const char *a, const char *b)
{
    enum { MAX = 40 };
    unsigned row[MAX + 1];
    size_t na = strlen(a), nb = strlen(b);
    if (na > MAX || nb > MAX)
        return MAX;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            unsigned shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = replace < shift ? replace : shift;
        }
    }
    return row[nb];
}

/* True if one name is a prefix of the other, such as --temp and --temperature. */
static bool
is_name_prefix(const char *a, const char *b)
{
    enum { LEAST = 4 }; /* minimum letters for a meaningful match */
    const size_t na = strlen(a), nb = strlen(b), n = na < nb ? na : nb;
    return n >= LEAST && strncmp(a, b, n) == 0;
}

/* Returns the option with the most similar name: distance up to 2 (1 for names of 3 or 4 letters), or a common prefix.  NULL: none. */
static const dop_option *
guess_option(const dop_option *table, size_t n, const char *name)
{
    const dop_option *best = NULL;
    const size_t len = strlen(name);
    unsigned best_distance = len > 4 ? 3 : len > 2 ? 2 : 1;
    for (size_t i = 0; i < n; i++) {
        unsigned d =
            table[i].name && table[i].kind != DOP_OPT_POINTER ? edit_distance(name, table[i].name) : UINT32_MAX;
        if (d < best_distance) {
            best = &table[i];
            best_distance = d;
        }
    }
    for (size_t i = 0; i < n && !best; i++)
        if (table[i].name && table[i].kind != DOP_OPT_POINTER && is_name_prefix(name, table[i].name))
            best = &table[i];
    return best;
}

static dop_status
refuse_unknown_option(const dop_option *table, size_t n, const char *name, const char *shown, dop_diag *diag)
{
    const dop_option *best = guess_option(table, n, name);
    if (best)
        return DOP_FAIL(diag, DOP_E_USAGE, "unknown option %s; did you mean %s%s?", shown, best->one_dash ? "-" : "--",
                        best->name);
    return DOP_FAIL(diag, DOP_E_USAGE, "unknown option %s; see --help", shown);
}

static const dop_option *
find_long(const dop_option *table, size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (table[i].name && strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
            return &table[i];
    return NULL;
}

static const dop_option *
find_letter(const dop_option *table, size_t n, char letter)
{
    for (size_t i = 0; i < n; i++)
        if (table[i].letter == letter && table[i].kind != DOP_OPT_POINTER)
            return &table[i];
    return NULL;
}

/* Finds the DOP_OPT_POINTER row that an argument names as -x, -name or --name, optionally with =VALUE. */
static const dop_option *
find_pointer(const dop_option *table, size_t n, const char *arg)
{
    const char *name = arg + (arg[1] == '-' ? 2 : 1);
    size_t len = strcspn(name, "=");
    for (size_t i = 0; i < n; i++) {
        const dop_option *o = &table[i];
        bool letter = arg[1] != '-' && o->letter == arg[1] && len == 1;
        if (o->kind == DOP_OPT_POINTER && (letter || find_long(o, 1, name, len)))
            return o;
    }
    return NULL;
}

/* True if the text after a single dash is an option name (-fa, -no-cnv, -ctk in other programs), not a letter with a value (-n8, -n-1,
 * -fa.txt).  Names have only lowercase letters, digits and dashes; their second character that is not a dash is a letter. */
static bool
is_short_name(const char *text)
{
    const char *const lower = "abcdefghijklmnopqrstuvwxyz";
    const size_t len = strlen(text);
    return len > 1 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_") == len &&
           strchr(lower, text[text[1] == '-' && len > 2 ? 2 : 1]);
}

/* Parses one argument that starts with a dash.  Advances *io_i if the value is the next argument. */
static dop_status
parse_option(const dop_option *table, size_t n, int argc, char **argv, int *io_i, void *values,
             dop_options_given *given, dop_diag *diag)
{
    const char *arg = argv[*io_i], *value = NULL;
    const dop_option *o = find_pointer(table, n, arg);
    char shown[64];
    if (o)
        return DOP_FAIL(diag, DOP_E_USAGE, "unknown option %.*s: %s", (int)strcspn(arg, "="), arg, o->help);
    if (arg[1] == '-') {
        const char *equals = strchr(arg, '=');
        size_t len = equals ? (size_t)(equals - arg) - 2 : strlen(arg) - 2;
        snprintf(shown, sizeof shown, "%.*s", (int)(len + 2 < sizeof shown ? len + 2 : sizeof shown - 1), arg);
        o = find_long(table, n, arg + 2, len);
        if (!o)
            return refuse_unknown_option(table, n, shown + 2, shown, diag);
        value = equals ? equals + 1 : NULL;
    } else if ((o = find_long(table, n, arg + 1, strlen(arg + 1))) != NULL && o->one_dash) {
        snprintf(shown, sizeof shown, "-%s", o->name);
    } else {
        snprintf(shown, sizeof shown, "-%c", arg[1]);
        o = find_letter(table, n, arg[1]);
        if (!o || (is_short_name(arg + 1) && !o->joined))
            return refuse_unknown_option(table, n, arg + 1, arg, diag);
        value = arg[2] ? arg + 2 : NULL;
    }
    if (o->kind == DOP_OPT_FLAG && value)
        return DOP_FAIL(diag, DOP_E_USAGE, "%s takes no value", shown);
    if ((o->kind == DOP_OPT_OPTIONAL || o->kind == DOP_OPT_FILES) && !value)
        value = "";
    if (o->kind == DOP_OPT_PAIRS && !value) {
        const char *next = *io_i + 1 < argc ? argv[*io_i + 1] : "";
        const bool pair = next[0] != '-' && strchr(next, '+') && access(next, F_OK) != 0;
        value = pair ? argv[++*io_i] : "";
    }
    if (requires_value(o) && !value) {
        if (*io_i + 1 >= argc)
            return DOP_FAIL(diag, DOP_E_USAGE, "%s needs a value: %s", shown, o->arg);
        value = argv[++*io_i];
    }
    if (given->row[o - table] && o->kind != DOP_OPT_FLAG && o->kind != DOP_OPT_LIST && o->kind != DOP_OPT_PAIRS &&
        o->kind != DOP_OPT_FILES)
        return DOP_FAIL(diag, DOP_E_USAGE, "%s is given twice, the second time with \"%.60s\": give it once", shown,
                        value);
    given->row[o - table] = true;
    return store_option_value(o, shown, value, values, diag);
}

dop_status
dop_options_parse(const dop_option *table, size_t n, int argc, char **argv, dop_diag *diag, void *values,
                  dop_texts *out_rest, dop_options_given *out_given)
{
    bool only_rest = false;
    memset(out_rest, 0, sizeof *out_rest);
    memset(out_given, 0, sizeof *out_given);
    if (n > DOP_OPTIONS_MOST)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "more than %d options", DOP_OPTIONS_MOST);
    for (int i = 1; i < argc; i++) {
        dop_status st = DOP_OK;
        if (only_rest || argv[i][0] != '-' || !argv[i][1])
            st = dop_texts_push(out_rest, argv[i], diag);
        else if (strcmp(argv[i], "--") == 0)
            only_rest = true;
        else
            st = parse_option(table, n, argc, argv, &i, values, out_given, diag);
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

dop_status
dop_option_set(const dop_option *table, size_t n, const char *name, const char *value, dop_diag *diag, void *values)
{
    const dop_option *o = find_long(table, n, name, strlen(name));
    if (!o || o->kind == DOP_OPT_POINTER)
        return DOP_FAIL(diag, DOP_E_USAGE, "unknown option %.60s", name);
    if (o->kind != DOP_OPT_FLAG)
        return store_option_value(o, name, value, values, diag);
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "%s is true or false, not \"%.60s\"", name, value);
    memcpy((char *)values + o->offset, &(bool){value[0] == 't'}, sizeof(bool));
    return DOP_OK;
}

bool
dop_option_given(const dop_option *table, size_t n, const dop_options_given *given, const char *name)
{
    const dop_option *o = find_long(table, n, name, strlen(name));
    return o && given->row[o - table];
}

/* Parsed command line that rules are checked against. */
typedef struct check {
    const dop_option *table;
    size_t n;
    const dop_options_given *given;
    const char *values;
} check;

/* Returns the value of an option for NAME=VALUE in a rule.  For several values, returns the one equal to `asked` (`len` characters) or
 * the last one.  NULL: no value. */
static const char *
find_option_value(const check *c, const dop_option *o, const char *asked, size_t len)
{
    const char *text = NULL;
    if (o->kind != DOP_OPT_FILES) {
        memcpy(&text, c->values + o->offset, sizeof text);
        return text;
    }
    const dop_texts *list = (const dop_texts *)(const void *)(c->values + o->offset);
    for (size_t i = 0; i < list->count && !(text && strlen(text) == len && memcmp(text, asked, len) == 0); i++)
        text = list->items[i];
    return text;
}

/* Finds the next given option among the names in `words` from byte *io_from on, and advances *io_from past it.  NULL: none.
 * *out_shown: its name for messages, with the value for NAME=VALUE. */
static const dop_option *
find_next_given(const check *c, const char *words, size_t *io_from, dop_buf *out_shown)
{
    while (words[*io_from]) {
        const char *word = words + *io_from, *text = NULL;
        const size_t len = strcspn(word, " "), name = strcspn(word, " =");
        const dop_option *o = find_long(c->table, c->n, word, name);
        *io_from += len + (word[len] == ' ');
        if (!o || !c->given->row[o - c->table])
            continue;
        if (name < len)
            text = find_option_value(c, o, word + name + 1, len - name - 1);
        if (text && (strlen(text) != len - name - 1 || memcmp(text, word + name + 1, len - name - 1) != 0))
            continue;
        dop_buf_finish(out_shown);
        if (o->letter)
            dop_buf_printf(out_shown, "-%c, ", o->letter);
        dop_buf_printf(out_shown, "--%s%s%s", o->name, text && *text ? " " : "", text ? text : "");
        return o;
    }
    return NULL;
}

static dop_status
refuse_broken_rule(const check *c, const dop_option_rule *rule, const dop_buf *option, const dop_buf *other,
                   const char *mode, dop_diag *diag)
{
    dop_buf text = {0};
    const char *at = strchr(rule->why, '@');
    const size_t before = at ? (size_t)(at - rule->why) : strlen(rule->why);
    if (option->size)
        dop_buf_printf(&text, "%s ", option->data);
    dop_buf_append(&text, rule->why, before);
    if (at)
        dop_buf_printf(&text, "%s%s", other->size ? other->data : "", at + 1);
    if (rule->modes)
        dop_buf_printf(&text, "; %s%s has no use for it", find_long(c->table, c->n, mode, strlen(mode)) ? "--" : "",
                       mode);
    dop_status st = DOP_FAIL(diag, DOP_E_USAGE, "%s", text.data ? text.data : rule->why);
    dop_buf_finish(&text);
    return st;
}

dop_status
dop_options_check(const dop_option *table, size_t n, const dop_option_rule *rules, size_t n_rules,
                  const dop_options_given *given, const void *values, const char *mode, dop_diag *diag)
{
    const check c = {table, n, given, values};
    dop_buf option = {0}, other = {0};
    dop_status st = DOP_OK;
    for (const dop_option_rule *r = rules; r < rules + n_rules && st == DOP_OK; r++) {
        const dop_option *o = NULL, *x = NULL;
        size_t from = 0;
        while (st == DOP_OK && (r->options ? (o = find_next_given(&c, r->options, &from, &option)) != NULL : !from++)) {
            size_t at = 0;
            bool fails = r->modes && mode && !dop_has_word(r->modes, mode);
            fails = fails || (r->needs && !find_next_given(&c, r->needs, &at, &other));
            at = 0;
            while (r->excludes && !fails && (x = find_next_given(&c, r->excludes, &at, &other)) != NULL)
                fails = x != o;
            if (fails)
                st = refuse_broken_rule(&c, r, &option, &other, mode, diag);
        }
        dop_buf_finish(&option);
    }
    dop_buf_finish(&other);
    return st;
}

void
dop_options_help(const dop_option *table, size_t n, dop_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        const dop_option *o = &table[i];
        if (o->kind == DOP_OPT_POINTER)
            continue;
        if (!o->letter && !o->name) {
            dop_buf_printf(out, "\n%s\n", o->help);
            continue;
        }
        char left[64];
        size_t at = (size_t)snprintf(left, sizeof left, "  ");
        if (o->letter)
            at += (size_t)snprintf(left + at, sizeof left - at, "-%c%s", o->letter, o->name ? ", " : "");
        if (o->name)
            at += (size_t)snprintf(left + at, sizeof left - at, "--%s", o->name);
        if (o->kind != DOP_OPT_FLAG && !requires_value(o))
            snprintf(left + at, sizeof left - at, "[=%s]", o->arg);
        else if (o->kind != DOP_OPT_FLAG)
            snprintf(left + at, sizeof left - at, " %s", o->arg);
        dop_buf_printf(out, "%-28s %s\n", left, o->help);
    }
}

void
dop_diag_print(const dop_diag *diag, const char *program, bool verbose)
{
    if (dop_says_json()) {
        dop_say_failure(diag);
        return;
    }
    fprintf(stderr, "%s: ", program);
    if (diag->path[0]) {
        fprintf(stderr, "%s:", diag->path);
        if (diag->line > 0)
            fprintf(stderr, "%ld:", diag->line);
        if (diag->column > 0)
            fprintf(stderr, "%ld:", diag->column);
        fputc(' ', stderr);
    }
    dop_print_named("error: ", diag->message,
                    diag->code == DOP_E_INTERNAL ? " (this is a bug in Doppler, please report it)\n" : "\n");
    if (verbose && diag->src_file)
        fprintf(stderr, "  raised at %s:%d\n", diag->src_file, diag->src_line);
}

int
dop_status_exit(dop_status code)
{
    switch (code) {
    case DOP_OK:
        return 0;
    case DOP_E_USAGE:
        return 2;
    default:
        return 1;
    }
}
