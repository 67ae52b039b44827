/* Drafters as converted by llama.cpp (architectures "eagle3" and "gemma4-assistant"). */
#include "frontend/gguf/eagle.h"
#include "frontend/facts/arch.h"
#include "frontend/facts/weights.h"
#include "frontend/gguf/gguf_import.h"
#include "frontend/gguf/keys.h"
#include "frontend/gguf/open.h"

#include <stdlib.h>
#include <string.h>

/* Reads the list of model layers whose input streams are read; early files use the first name of the key. */
static dop_status
read_gguf_streams(const dop_gi *gi, dop_eagle *e)
{
    char full[96];
    const dop_gguf_kv *kv = dop_gi_find(gi, "target_layers", full, sizeof full);
    kv = kv ? kv : dop_gi_find(gi, "extract_layers", full, sizeof full);
    e->n = 3;
    e->defaults = !kv;
    if (!kv)
        return DOP_OK;
    if (kv->type != DOP_GGUF_ARRAY || kv->count == 0 || kv->count > DOP_MAX_JOINED)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is no list of up to %d layers", full, DOP_MAX_JOINED);
    e->n = (uint32_t)kv->count;
    for (uint32_t i = 0; i < e->n; i++) {
        uint64_t v = 0;
        if (!dop_gguf_u64(kv, i, &v) || v > DOP_MAX_LAYERS)
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s: entry %u is no layer", full, i);
        e->from[i] = (uint32_t)v;
    }
    return DOP_OK;
}

dop_status
dop_gi_eagle_vocab(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    const dop_gguf_tensor *embed = dop_gi_tensor(gi, "token_embd.weight", NULL);
    const dop_gguf_kv *tokens = dop_gguf_find(&gi->parts[0], "tokenizer.ggml.tokens");
    const uint64_t n = embed ? embed->dims[1] : tokens && tokens->count <= DOP_MAX_VOCAB ? tokens->count : 0;
    if (n > DOP_MAX_VOCAB)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor token_embd.weight has %llu rows, at most %d fit",
                           (unsigned long long)n, DOP_MAX_VOCAB);
    dop_status st = DOP_OK;
    DOP_TRY(dop_gi_size(gi, DOP_GGUF(drafted_vocab), 0, (uint32_t)n, &a->vocab));
error:
    a->vocab = st == DOP_OK && embed ? (uint32_t)n : a->vocab;
    return st;
}

dop_status
dop_gi_eagle(dop_gi *gi)
{
    const dop_norm norm = {.kind = DOP_NORM_RMS};
    dop_arch *a = &gi->model->arch;
    const dop_gguf_tensor *list = dop_gi_tensor(gi, "d2t", NULL), *head = dop_gi_tensor(gi, "output.weight", NULL);
    dop_eagle e = {.vocab = a->vocab,
                   .embeds = dop_gi_tensor(gi, "token_embd.weight", NULL) != NULL,
                   .head = head != NULL,
                   .listed = list != NULL};
    bool joined = false;
    uint32_t hidden = a->hidden;
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(drafted_hidden), 0, a->hidden, &hidden));
    if (hidden != a->hidden)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "a drafter of hidden size %u for models of %u is not supported", a->hidden, hidden);
    if (a->n_layers != 1)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "a drafter of %u layers is not supported, only one of 1",
                           a->n_layers);
    if (list && (list->dims[0] == 0 || list->dims[0] > a->vocab))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor d2t has %llu entries for %u tokens",
                           (unsigned long long)list->dims[0], a->vocab);
    if (list)
        e.vocab = (uint32_t)list->dims[0];
    DOP_RETURN_IF_ERROR(read_gguf_streams(gi, &e));
    DOP_RETURN_IF_ERROR(dop_gi_flag(gi, DOP_GGUF(draft_residual_normed), false, &e.residual_normed));
    DOP_RETURN_IF_ERROR(dop_gi_flag(gi, DOP_GGUF(draft_joined_normed), false, &joined));
    e.norm = joined ? norm : e.norm;
    dop_arch_make_drafter(a, &e);
    return DOP_OK;
}

dop_status
dop_gi_reader(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    uint32_t hidden = 0;
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(backbone_hidden), 0, 0, &hidden));
    if (a->inputs.width)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "%s.embedding_length_per_layer_input is %u: a drafter's layers have no inputs of their own",
                           gi->name, a->inputs.width);
    dop_arch_make_reader(a, hidden);
    return DOP_OK;
}

static int
compare_token_numbers(const void *a, const void *b)
{
    int64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Sets *out if the n entries of a draft token list are relative. llama.cpp writes ids, which are distinct. Its first converters
 * wrote offsets from the index, like the original files. */
static dop_status
is_relative(const dop_gi *gi, const uint8_t *data, uint32_t n, bool *out)
{
    int64_t *sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        return DOP_NO_MEMORY(gi->diag);
    memcpy(sorted, data, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_token_numbers);
    *out = false;
    for (uint32_t i = 1; i < n; i++)
        *out = *out || sorted[i] == sorted[i - 1];
    free(sorted);
    return DOP_OK;
}

dop_status
dop_gi_eagle_list(const dop_gi *gi, const char *name, dop_weight *w)
{
    enum { I64 = 27 };
    const dop_gguf *part = NULL;
    const dop_gguf_tensor *t = dop_gi_take(gi, name, &part);
    bool relative = false;
    if (!t)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor %s is missing", name);
    if (t->type != I64 || t->dims[0] != w->cols || t->bytes != w->cols * sizeof(int64_t))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path, "tensor %s is no list of %u numbers of type I64", name,
                           w->cols);
    dop_status st = is_relative(gi, part->map.data + t->offset, w->cols, &relative);
    const char *kept = dop_arena_strdup(gi->model->arena, name);
    if (st == DOP_OK && !kept)
        st = DOP_NO_MEMORY(gi->diag);
    return st == DOP_OK ? dop_drafter_list(part->map.data + t->offset, sizeof(int64_t), relative, gi->model->arch.vocab,
                                           part->path, kept, gi->model->arena, gi->diag, w)
                        : st;
}
