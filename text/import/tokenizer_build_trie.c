/* Writes the pieces of a vocabulary as a trie. Nodes are stored breadth first, so siblings are adjacent. */
#include "text/import/tokenizer_build.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *s;
    uint32_t n, id;
} entry;

static int
compare_entries(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    int r = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);
    if (r)
        return r;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Node to be written; the entries [lo, hi) share their first `depth` bytes. */
typedef struct range {
    uint32_t lo, hi, depth;
} range;

static void
put_nodes(const entry *rows, uint32_t n, dop_buf *queue, dop_buf *first, dop_buf *label, dop_buf *token)
{
    range root = {0, n, 0};
    uint32_t made = 1;
    uint8_t none = 0;
    dop_buf_append(queue, &root, sizeof root);
    dop_buf_append(label, &none, 1);
    for (size_t at = 0; at < queue->size && !queue->failed; at += sizeof(range)) {
        range r;
        uint32_t id = DOP_TOK_NONE;
        memcpy(&r, queue->data + at, sizeof r);
        dop_buf_append(first, &made, sizeof made);
        for (; r.lo < r.hi && rows[r.lo].n == r.depth; r.lo++)
            id = id == DOP_TOK_NONE ? rows[r.lo].id : id; /* keep the first of several tokens with the same piece */
        dop_buf_append(token, &id, sizeof id);
        for (uint32_t end; r.lo < r.hi; r.lo = end) {
            uint8_t c = (uint8_t)rows[r.lo].s[r.depth];
            for (end = r.lo + 1; end < r.hi && (uint8_t)rows[end].s[r.depth] == c;)
                end++;
            range child = {r.lo, end, r.depth + 1};
            dop_buf_append(queue, &child, sizeof child);
            dop_buf_append(label, &c, 1);
            made++;
        }
    }
    dop_buf_append(first, &made, sizeof made);
}

dop_status
dop_tok_build_trie(const dop_tok_build *b, dop_diag *diag, dop_buf *first, dop_buf *label, dop_buf *token)
{
    dop_status st = DOP_OK;
    dop_buf queue = {0};
    uint32_t n = 0;
    entry *rows = calloc(b->tokens, sizeof *rows);
    if (!rows)
        return DOP_NO_MEMORY(diag);
    for (uint32_t id = 0; id < b->tokens; id++) {
        const dop_tok_str *p = &b->piece[id];
        if (!(b->token_flags[id] & DOP_TOKEN_MODEL) || p->bytes == 0)
            continue;
        if (p->bytes > DOP_TOK_MAX_PIECE) {
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, b->path, "token %u has %u bytes; a vocabulary of this kind may have %u",
                             id, p->bytes, DOP_TOK_MAX_PIECE);
            goto error;
        }
        rows[n++] = (entry){b->strings.data + p->offset, p->bytes, id};
    }
    qsort(rows, n, sizeof *rows, compare_entries);
    put_nodes(rows, n, &queue, first, label, token);
    if (queue.failed)
        st = DOP_NO_MEMORY(diag);
error:
    free(rows);
    dop_buf_finish(&queue);
    return st;
}
