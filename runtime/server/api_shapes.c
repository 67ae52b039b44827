/* Keeps the grammars of recent requests.  Clients send the same schema again and again, and a grammar remembers the masks that
 * it has computed. */
#include "runtime/grammar/grammar.h"
#include "runtime/server/api_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 16 };

struct dop_shapes {
    const dop_vocab *vocab;
    pthread_mutex_t lock;
    struct {
        char *key; /* owned */
        dop_grammar *grammar;
        uint64_t used; /* number of the look-up */
    } rows[KEPT];
    uint64_t n;
};

dop_status
dop_shapes_create(const struct dop_vocab *vocab, dop_diag *diag, dop_shapes **out_shapes)
{
    dop_shapes *s = calloc(1, sizeof *s);
    *out_shapes = s;
    if (!s)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    s->vocab = vocab;
    pthread_mutex_init(&s->lock, NULL);
    return DOP_OK;
}

void
dop_shapes_destroy(dop_shapes *shapes)
{
    if (!shapes)
        return;
    for (size_t i = 0; i < KEPT; i++) {
        free(shapes->rows[i].key);
        dop_grammar_release(shapes->rows[i].grammar);
    }
    pthread_mutex_destroy(&shapes->lock);
    free(shapes);
}

/* One more reference to the grammar that is kept under this key; NULL: there is none. */
static dop_grammar *
find(dop_shapes *s, const char *key)
{
    dop_grammar *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < KEPT && !found; i++)
        if (s->rows[i].key && strcmp(s->rows[i].key, key) == 0) {
            s->rows[i].used = ++s->n;
            found = dop_grammar_share(s->rows[i].grammar);
        }
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* Keeps a grammar in place of the least recently used one. */
static void
keep(dop_shapes *s, const char *key, dop_grammar *grammar)
{
    char *own = strdup(key);
    size_t oldest = 0;
    if (!own)
        return;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 1; i < KEPT; i++)
        if (s->rows[i].used < s->rows[oldest].used)
            oldest = i;
    free(s->rows[oldest].key);
    dop_grammar_release(s->rows[oldest].grammar);
    s->rows[oldest].key = own;
    s->rows[oldest].grammar = dop_grammar_share(grammar);
    s->rows[oldest].used = ++s->n;
    pthread_mutex_unlock(&s->lock);
}

/* The grammar under a key, or one that is made and kept. */
typedef dop_status make_fn(const dop_shapes *shapes, const void *what, dop_diag *diag, dop_grammar **out_grammar);

static dop_status
find_or_make(dop_shapes *shapes, dop_buf *key, make_fn *make, const void *what, dop_diag *diag,
             dop_grammar **out_grammar)
{
    dop_status st = DOP_OK;
    bool kept = !key->failed && strlen(key->data) == key->size; /* a text with a zero byte cannot be a key */
    *out_grammar = kept ? find(shapes, key->data) : NULL;
    if (!*out_grammar) {
        st = make(shapes, what, diag, out_grammar);
        if (st == DOP_OK && kept)
            keep(shapes, key->data, *out_grammar);
    }
    dop_buf_finish(key);
    return st;
}

static dop_status
make_from_parts(const dop_shapes *shapes, const void *what, dop_diag *diag, dop_grammar **out_grammar)
{
    return dop_grammar_from_parts(shapes->vocab, what, diag, out_grammar);
}

dop_status
dop_shapes_find_parts(dop_shapes *shapes, const json_t *parts, dop_diag *diag, struct dop_grammar **out_grammar)
{
    dop_buf key = {0};
    dop_buf_puts(&key, "p");
    dop_json_append(&key, parts);
    return find_or_make(shapes, &key, make_from_parts, parts, diag, out_grammar);
}

dop_status
dop_shapes_find(dop_shapes *shapes, const json_t *schema, const char *before, const char *after, const char *gbnf,
                size_t n_gbnf, dop_diag *diag, struct dop_grammar **out_grammar)
{
    dop_buf key = {0};
    dop_status st = DOP_OK;
    *out_grammar = NULL;
    if (gbnf) {
        dop_buf_puts(&key, "g");
        dop_buf_append(&key, gbnf, n_gbnf);
    } else {
        dop_buf_printf(&key, "s%s\n%s\n", before ? before : "", after ? after : "");
        if (schema)
            dop_json_append(&key, schema);
    }
    bool kept = !key.failed && strlen(key.data) == key.size; /* a text with a zero byte cannot be a key */
    if (kept)
        *out_grammar = find(shapes, key.data);
    if (!*out_grammar) {
        st = gbnf ? dop_grammar_from_gbnf(shapes->vocab, "grammar", gbnf, n_gbnf, diag, out_grammar)
                  : dop_grammar_from_schema(shapes->vocab, schema, before, after, diag, out_grammar);
        if (st == DOP_OK && kept)
            keep(shapes, key.data, *out_grammar);
    }
    dop_buf_finish(&key);
    return st;
}
