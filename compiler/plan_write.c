#include "compiler/plan_write.h"

#include "ir/text.h"
#include "kernels/weight_types.h"
#include "passes/region.h"
#include "runtime/gguf.h"
#include "runtime/plan_format.h"
#include "runtime/text/tokenizer.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { COUNTER_STRIDE = 128 /* a counter has a cache line of its own */ };
enum { STATE_SEGMENT = 1 << 30, STATE_ALIGN = 256, STATE_TAIL = 32 /* rows */ };

typedef struct state_place {
    const char *name;
    uint32_t slot;
    uint64_t offset, size;
} state_place;

typedef struct writer {
    const dop_compilation *c;
    dop_diag *diag;
    dop_status status;
    dop_buf sec[DOP_SEC_LIMIT];
    uint32_t n_slots, slot_step, slot_scratch, slot_result, slot_sync;
    state_place *states;
    uint32_t n_states;
    uint64_t weights_size; /* of DOP_SEC_WEIGHTS, or of the file beside the plan */
    bool external;
} writer;

/* Offset of a string in the table; equal strings share one. */
static uint32_t
string(writer *w, const char *s)
{
    dop_buf *b = &w->sec[DOP_SEC_STRINGS];
    size_t len = strlen(s) + 1;
    if (b->size == 0)
        dop_buf_append(b, "", 1);
    for (size_t at = 0; at + len <= b->size; at += strlen(b->data + at) + 1)
        if (memcmp(b->data + at, s, len) == 0)
            return (uint32_t)at;
    uint32_t at = (uint32_t)b->size;
    dop_buf_append(b, s, len);
    return at;
}

static uint32_t
add_slot(writer *w, uint32_t kind, const char *name, uint64_t size, uint64_t file_offset)
{
    dop_plan_slot s = {.kind = kind,
                       .name = string(w, name),
                       .size = size,
                       .file_offset = file_offset,
                       .file = kind == DOP_SLOT_WEIGHTS && w->external ? 0 : 0xffffffffu};
    dop_buf_append(&w->sec[DOP_SEC_SLOTS], &s, sizeof s);
    return w->n_slots++;
}

static void
write_weights_slots(writer *w)
{
    const dop_pack *p = &w->c->pack;
    uint64_t at = 0;
    uint32_t first = w->n_slots;
    for (uint32_t i = 0; i < p->n_segments; i++) {
        add_slot(w, DOP_SLOT_WEIGHTS, "weights", p->segment_size[i], at);
        at += p->segment_size[i];
    }
    w->weights_size = at;
    for (uint32_t i = 0; i < p->n; i++) {
        const dop_packed *x = &p->items[i];
        dop_plan_tensor t = {.name = string(w, x->name),
                             .type = x->type,
                             .rows = x->rows,
                             .cols = x->cols,
                             .slot = first + x->segment,
                             .offset = x->offset,
                             .size = x->size};
        dop_buf_append(&w->sec[DOP_SEC_TENSORS], &t, sizeof t);
    }
}

/* Caches of all schedules are the same: the first graph lists them. */
static void
write_state_slots(writer *w)
{
    const dop_graph *g = &w->c->schedules[0].g;
    uint64_t used = 0;
    uint32_t n = 0, from = 0;
    w->states = calloc(g->n_nodes, sizeof *w->states);
    if (!w->states) {
        w->status = DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
        return;
    }
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        if (dop_node_at(g, id)->op != DOP_OP_state)
            continue;
        /* Kernels read caches in tiles: what lies past the last row must be memory, and zero. */
        uint64_t bytes = dop_node_bytes(g, id),
                 size = dop_align_u64(bytes + bytes / g->max_s * STATE_TAIL, STATE_ALIGN);
        if (used > 0 && used + size > STATE_SEGMENT) {
            uint32_t slot = add_slot(w, DOP_SLOT_STATE, "cache", used, 0);
            for (; from < n; from++)
                w->states[from].slot = slot;
            used = 0;
        }
        w->states[n++] = (state_place){dop_node_s(g, id, DOP_A_name), 0, used, size};
        used += size;
    }
    if (used > 0) {
        uint32_t slot = add_slot(w, DOP_SLOT_STATE, "cache", used, 0);
        for (; from < n; from++)
            w->states[from].slot = slot;
    }
    w->n_states = n;
}

/* Regions of the largest schedule that uses completion counters or merges splits; 0: none does. */
static uint32_t
count_counters(const dop_compilation *c)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < c->n_schedules; i++) {
        const dop_schedule *s = &c->schedules[i];
        bool used = s->counted != NULL;
        for (dop_region_id r = 1; r < s->g.n_regions && !used; r++)
            for (uint32_t k = 0; k < s->regions[r].n_args; k++)
                used = used || s->regions[r].args[k].counter;
        if (used && s->g.n_regions > most)
            most = s->g.n_regions;
    }
    return most;
}

static void
write_slots(writer *w)
{
    uint64_t scratch = 256, result = 4;
    for (uint32_t i = 0; i < w->c->n_schedules; i++) {
        const dop_schedule *s = &w->c->schedules[i];
        uint64_t bytes = dop_align_u64(dop_node_bytes(&s->g, dop_node_base(&s->g, s->g.outs[0], NULL)), 256);
        scratch = s->placement.scratch > scratch ? s->placement.scratch : scratch;
        result = bytes > result ? bytes : result;
    }
    w->slot_step = add_slot(w, DOP_SLOT_STEP, "step", sizeof(dop_step), 0);
    w->slot_result = add_slot(w, DOP_SLOT_RESULT, "logits", result, 0);
    w->slot_scratch = add_slot(w, DOP_SLOT_SCRATCH, "activations", scratch + 256, 0);
    uint32_t counters = count_counters(w->c);
    if (counters)
        w->slot_sync = add_slot(w, DOP_SLOT_SYNC, "counters", (uint64_t)counters * COUNTER_STRIDE, 0);
    write_state_slots(w);
    write_weights_slots(w);
}

static dop_plan_arg
arg_of(writer *w, const dop_schedule *s, dop_region_id r, const dop_built_region *b, const dop_kernel_arg *a)
{
    const dop_graph *g = &s->g;
    if (a->counter) {
        dop_region_id of = a->counter == 1 ? r : b->waits[a->counter - 2];
        return (dop_plan_arg){.slot = w->slot_sync, .offset = of * COUNTER_STRIDE, .size = COUNTER_STRIDE};
    }
    if (a->numbers)
        return (dop_plan_arg){.slot = DOP_ARG_NUMBERS, .offset = a->number[0] | (uint64_t)a->number[1] << 32};
    if (a->value == 0)
        return (dop_plan_arg){.slot = w->slot_step, .value = 0, .offset = 0, .size = sizeof(dop_step)};
    const dop_node *n = dop_node_at(g, a->value);
    dop_plan_arg out = {.value = string(w, n->name)};
    if (n->op == DOP_OP_weight) {
        const dop_packed *x = dop_pack_find(&w->c->pack, dop_node_s(g, a->value, DOP_A_name));
        uint32_t first = w->n_slots - w->c->pack.n_segments;
        out.slot = first + x->segment;
        out.offset = x->offset;
        out.size = x->size;
    } else if (n->op == DOP_OP_state) {
        for (uint32_t i = 0; i < w->n_states; i++)
            if (strcmp(w->states[i].name, dop_node_s(g, a->value, DOP_A_name)) == 0) {
                out.slot = w->states[i].slot;
                out.offset = w->states[i].offset;
                out.size = w->states[i].size;
            }
    } else if (s->placement.values[a->value].size > 0) {
        out.slot = w->slot_scratch;
        out.offset = s->placement.values[a->value].offset;
        out.size = s->placement.values[a->value].size;
    } else if (a->value == dop_node_base(g, g->outs[0], NULL)) {
        out.slot = w->slot_result;
        out.size = dop_node_bytes(g, a->value);
    } else {
        w->status = DOP_FAIL(w->diag, DOP_E_INTERNAL, "value %%%s has no place", n->name);
    }
    return out;
}

static void
write_dispatch(writer *w, const dop_schedule *s, dop_region_id r, const dop_built_region *b, uint32_t flags)
{
    const dop_region *reg = &s->g.regions[r];
    dop_buf ops = {0};
    dop_region_ops(&s->g, reg, &ops);
    dop_plan_dispatch d = {.kernel = b->kernel,
                           .grid = {b->grid[0], b->grid[1], b->grid[2]},
                           .first_arg = (uint32_t)(w->sec[DOP_SEC_ARGS].size / sizeof(dop_plan_arg)),
                           .n_args = b->n_args,
                           .flags = flags,
                           .label = string(w, dop_region_label(&s->g, reg)),
                           .ops = string(w, ops.data ? ops.data : ""),
                           .region = r};
    dop_region_traffic(&s->g, reg, 0, &d.bytes_read, &d.bytes_written);
    for (uint32_t i = 0; i < b->n_args; i++) {
        dop_plan_arg a = arg_of(w, s, r, b, &b->args[i]);
        dop_buf_append(&w->sec[DOP_SEC_ARGS], &a, sizeof a);
    }
    dop_buf_append(&w->sec[DOP_SEC_DISPATCHES], &d, sizeof d);
    dop_buf_finish(&ops);
}

static void
write_schedule(writer *w, const dop_schedule *s, uint32_t ordering)
{
    static const uint32_t kinds[] = {DOP_SCHED_DECODE, DOP_SCHED_PREFILL, DOP_SCHED_SCORE};
    const dop_built_region *regions = ordering == DOP_ORDER_COUNTERS ? s->counted : s->regions;
    dop_plan_schedule row = {.kind = kinds[s->phase],
                             .profile = 0,
                             .max_tokens = s->g.max_t,
                             .first_dispatch = (uint32_t)(w->sec[DOP_SEC_DISPATCHES].size / sizeof(dop_plan_dispatch)),
                             .n_dispatches = s->g.n_regions - 1,
                             .n_body = s->n_body,
                             .logits_slot = w->slot_result,
                             .greedy = s->phase != DOP_PHASE_SCORE,
                             .logits_offset = 0,
                             .ordering = ordering};
    for (dop_region_id r = 1; r < s->g.n_regions; r++) {
        bool barrier = ordering == DOP_ORDER_BARRIERS && s->placement.barrier[r];
        write_dispatch(w, s, r, &regions[r], barrier ? DOP_DISPATCH_BARRIER : 0u);
    }
    dop_buf_append(&w->sec[DOP_SEC_SCHEDULES], &row, sizeof row);
    dop_graph_print(&s->g, &w->sec[DOP_SEC_IR]); /* one graph per schedule, also where only the ordering differs */
}

static void
write_schedules(writer *w)
{
    for (uint32_t i = 0; i < w->c->n_schedules && w->status == DOP_OK; i++) {
        write_schedule(w, &w->c->schedules[i], DOP_ORDER_BARRIERS);
        if (w->c->schedules[i].counted)
            write_schedule(w, &w->c->schedules[i], DOP_ORDER_COUNTERS);
    }
}

static void
kernel_name(const dop_compilation *c, uint32_t kernel, char *out, size_t size)
{
    const dop_built_kernel *k = &c->kernels[kernel];
    snprintf(out, size, "%s/%s#%u", dop_variant_of(k->variant)->name, k->label, kernel);
}

/* Why each kernel was taken, by its name: the reason of the first region that uses it.  For --trace-kernels. */
static json_t *
choices_json(const dop_compilation *c)
{
    json_t *choices = json_object();
    for (uint32_t i = 0; i < c->n_schedules; i++)
        for (dop_region_id r = 1; r < c->schedules[i].g.n_regions; r++) {
            const dop_built_region *b = &c->schedules[i].regions[r];
            char name[160];
            kernel_name(c, b->kernel, name, sizeof name);
            if (!json_object_get(choices, name))
                json_object_set_new(choices, name, json_string(b->choice.why));
        }
    return choices;
}

static void
write_kernels(writer *w)
{
    const dop_compilation *c = w->c;
    dop_plan_profile profile = {.name = string(w, c->target.name), .subgroup = 0};
    for (uint32_t i = 0; i < c->n_kernels; i++) {
        const dop_built_kernel *k = &c->kernels[i];
        char name[160];
        kernel_name(c, i, name, sizeof name);
        dop_plan_kernel row = {.name = string(w, name),
                               .variant = string(w, dop_variant_of(k->variant)->name),
                               .spirv_first = (uint32_t)(w->sec[DOP_SEC_SPIRV].size / 4),
                               .spirv_words = (uint32_t)(k->spirv.size / 4),
                               .caps = k->k.caps,
                               .subgroup = k->k.subgroup,
                               .local = {k->k.local, 1, 1},
                               .shared_bytes = k->shared_bytes,
                               .push_bytes = 8 * k->k.n_args};
        dop_buf_append(&w->sec[DOP_SEC_KERNELS], &row, sizeof row);
        dop_buf_append(&w->sec[DOP_SEC_SPIRV], k->spirv.data, k->spirv.size);
        profile.caps |= k->k.caps;
        profile.subgroup = k->k.subgroup ? k->k.subgroup : profile.subgroup;
        profile.shared_bytes = k->shared_bytes > profile.shared_bytes ? k->shared_bytes : profile.shared_bytes;
        profile.max_workgroup = k->k.local > profile.max_workgroup ? k->k.local : profile.max_workgroup;
    }
    dop_buf_append(&w->sec[DOP_SEC_PROFILES], &profile, sizeof profile);
}

/* Storage types of the matrices, the one with most bytes first: "q4_k, q6_k". */
static void
weight_types(const dop_pack *p, dop_buf *out)
{
    uint64_t bytes[DOP_TYPE_COUNT] = {0};
    for (uint32_t i = 0; i < p->n; i++)
        if (p->items[i].source && p->items[i].source->rank > 1)
            bytes[p->items[i].type] += p->items[i].size;
    for (;;) {
        uint32_t most = 0;
        for (uint32_t t = 1; t < DOP_TYPE_COUNT; t++)
            most = bytes[t] > bytes[most] ? t : most;
        if (bytes[most] == 0)
            return;
        dop_buf_printf(out, "%s%s", out->size ? ", " : "", dop_type_of((dop_type)most)->name);
        bytes[most] = 0;
    }
}

static void
write_model(writer *w)
{
    const dop_compilation *c = w->c;
    const dop_arch *a = &c->model.arch;
    dop_buf types = {0};
    weight_types(&c->pack, &types);
    dop_plan_model m = {.vocab = a->vocab,
                        .ctx = c->ctx,
                        .ctx_train = a->ctx_train,
                        .n_layers = a->n_layers,
                        .bos_id = (int32_t)a->bos_id,
                        .n_end_ids = a->n_end_ids,
                        .temperature = (float)c->model.temperature,
                        .top_p = (float)c->model.top_p,
                        .min_p = (float)c->model.min_p,
                        .top_k = c->model.top_k,
                        .name = string(w, c->model.name ? c->model.name : ""),
                        .family = string(w, a->family),
                        .quant = string(w, types.data ? types.data : ""),
                        .kernel_path = c->path_name ? string(w, c->path_name) : 0};
    for (uint32_t i = 0; i < a->n_end_ids && i < 16; i++)
        m.end_ids[i] = (uint32_t)a->end_ids[i];
    if (types.failed)
        w->status = DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
    dop_buf_finish(&types);
    dop_buf_append(&w->sec[DOP_SEC_MODEL], &m, sizeof m);
    const dop_schedule *d = &c->schedules[0];
    json_t *card = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:o}", "name", c->model.name ? c->model.name : "",
        "family", a->family, "layers", (int)a->n_layers, "hidden", (int)a->hidden, "vocab", (int)a->vocab, "context",
        (int)c->ctx, "target", c->target.name, "kvType", dop_type_of(c->options.kv_type)->name, "activationType",
        dop_type_of(c->options.act_type)->name, "decodeDispatches", (int)(d->g.n_regions - 1), "decodeOps",
        (int)d->n_ops, "decodeBarriers", (int)d->placement.n_barriers, "choices", choices_json(c));
    char *text = card ? json_dumps(card, JSON_SORT_KEYS | JSON_INDENT(2)) : NULL;
    if (text)
        dop_buf_puts(&w->sec[DOP_SEC_CARD], text);
    else
        w->status = DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
    free(text);
    json_decref(card);
}

static void
write_text(writer *w)
{
    const dop_model *m = &w->c->model;
    dop_tokenizer *tok = NULL;
    dop_status st = DOP_OK;
    if (m->tokenizer_json_path) {
        char dir[1024];
        snprintf(dir, sizeof dir, "%s", m->tokenizer_json_path);
        char *slash = strrchr(dir, '/');
        if (slash)
            *slash = 0;
        else
            snprintf(dir, sizeof dir, ".");
        st = dop_tokenizer_from_hf_dir(dir, w->diag, &tok);
    } else if (m->tokenizer_gguf_path) {
        dop_gguf gguf = {0};
        st = dop_gguf_open(m->tokenizer_gguf_path, w->diag, &gguf);
        if (st == DOP_OK)
            st = dop_tokenizer_from_gguf(&gguf, w->diag, &tok);
        dop_gguf_close(&gguf);
    }
    if (st == DOP_OK && tok)
        st = dop_tokenizer_serialize(tok, &w->sec[DOP_SEC_TOKENIZER]);
    if (st == DOP_OK && m->chat_template)
        dop_buf_puts(&w->sec[DOP_SEC_TEMPLATE], m->chat_template);
    if (st != DOP_OK)
        w->status = st;
    dop_tokenizer_destroy(tok);
}

/* --- the file --------------------------------------------------------------------------------------------------------- */

static const uint32_t row_sizes[DOP_SEC_LIMIT] = {
#define SECTION(number, name, type, what) [number] = (uint32_t)sizeof(type),
    DOP_PLAN_SECTIONS(SECTION)
#undef SECTION
};

static bool
put(FILE *f, const void *data, size_t size)
{
    return size == 0 || fwrite(data, 1, size, f) == size;
}

static bool
pad_to(FILE *f, uint64_t *at, uint64_t target)
{
    static const char zeros[4096];
    while (*at < target) {
        size_t n = target - *at < sizeof zeros ? (size_t)(target - *at) : sizeof zeros;
        if (!put(f, zeros, n))
            return false;
        *at += n;
    }
    return true;
}

/* Streams the packed weights; they may be far larger than memory. */
static dop_status
put_weights(writer *w, FILE *f, uint64_t *out_digest)
{
    const dop_pack *p = &w->c->pack;
    dop_status st = DOP_OK;
    uint8_t *buf = NULL;
    uint64_t cap = 0, at = 0, segment = 0;
    XXH3_state_t *h = XXH3_createState();
    if (!h)
        return DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
    XXH3_64bits_reset(h);
    for (uint32_t i = 0; i <= p->n && st == DOP_OK; i++) {
        const dop_packed *x = i < p->n ? &p->items[i] : NULL;
        if (x && i > 0 && x->segment != p->items[i - 1].segment)
            segment += p->segment_size[p->items[i - 1].segment];
        uint64_t start = x ? segment + x->offset : w->weights_size;
        uint64_t need = start - at + (x ? x->size : 0);
        if (need > cap) {
            free(buf);
            cap = need;
            buf = malloc((size_t)cap);
            if (!buf) {
                st = DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
                break;
            }
        }
        memset(buf, 0, (size_t)(start - at));
        /* Rows are written past the gap, which keeps their 16-byte alignment for the table of floats. */
        uint8_t *row = malloc(x && x->size ? (size_t)x->size : 1);
        if (!row)
            st = DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
        else if (x)
            st = dop_pack_write(p, x, row, w->diag);
        if (st == DOP_OK && x)
            memcpy(buf + (start - at), row, (size_t)x->size);
        free(row);
        if (st != DOP_OK)
            break;
        XXH3_64bits_update(h, buf, (size_t)need);
        if (!put(f, buf, (size_t)need))
            st = DOP_FAIL(w->diag, DOP_E_IO, "cannot write the weights: %s", strerror(errno));
        at += need;
        if (w->c->options.progress && w->weights_size)
            w->c->options.progress(w->c->options.user, "weights", (double)at / (double)w->weights_size);
    }
    *out_digest = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    free(buf);
    return st;
}

static dop_status
put_file(writer *w, FILE *f)
{
    dop_plan_section table[DOP_SEC_LIMIT];
    uint32_t n = 0;
    uint64_t at = 0;
    for (uint32_t k = 1; k < DOP_SEC_LIMIT; k++)
        if (w->sec[k].failed)
            return DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
        else if (w->sec[k].size > 0 && k != DOP_SEC_WEIGHTS)
            table[n++] = (dop_plan_section){.kind = k,
                                            .row_bytes = row_sizes[k],
                                            .size = w->sec[k].size,
                                            .digest = XXH3_64bits(w->sec[k].data, w->sec[k].size)};
    if (w->weights_size > 0 && !w->external)
        table[n++] = (dop_plan_section){.kind = DOP_SEC_WEIGHTS, .row_bytes = 1, .size = w->weights_size};
    dop_plan_header head = {.version = DOP_PLAN_VERSION, .n_sections = n};
    memcpy(head.magic, DOP_PLAN_MAGIC, sizeof head.magic);
    uint64_t offset = sizeof head + n * sizeof *table;
    for (uint32_t i = 0; i < n; i++) {
        offset = dop_align_u64(offset, table[i].kind == DOP_SEC_WEIGHTS ? 4096 : 16);
        table[i].offset = offset;
        offset += table[i].size;
    }
    head.file_size = offset;
    /* The header comes last: digests are known only then. */
    if (!pad_to(f, &at, sizeof head + n * sizeof *table))
        goto io;
    for (uint32_t i = 0; i < n; i++) {
        if (!pad_to(f, &at, table[i].offset))
            goto io;
        if (table[i].kind == DOP_SEC_WEIGHTS) {
            dop_status st = put_weights(w, f, &table[i].digest);
            if (st != DOP_OK)
                return st;
        } else if (!put(f, w->sec[table[i].kind].data, table[i].size)) {
            goto io;
        }
        at += table[i].size;
    }
    XXH3_state_t *h = XXH3_createState();
    if (!h)
        return DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
    XXH3_64bits_reset(h);
    XXH3_64bits_update(h, &head, sizeof head);
    XXH3_64bits_update(h, table, n * sizeof *table);
    head.digest = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    if (fseek(f, 0, SEEK_SET) != 0 || !put(f, &head, sizeof head) || !put(f, table, n * sizeof *table))
        goto io;
    return DOP_OK;
io:
    return DOP_FAIL(w->diag, DOP_E_IO, "cannot write the plan: %s", strerror(errno));
}

/* The weights in a file beside the plan, and the plan's row for it. */
static dop_status
put_external(writer *w, const char *path, dop_out_file *output)
{
    dop_plan_file row = {.size = w->weights_size};
    const char *slash = strrchr(path, '/');
    dop_status st = dop_out_file_open(path, w->diag, output);
    if (st == DOP_OK && !output->tmp)
        st = DOP_FAIL_IN(w->diag, DOP_E_IO, path, "cannot write the weights: not a regular file");
    if (st == DOP_OK)
        st = put_weights(w, output->f, &row.digest);
    row.name = string(w, slash ? slash + 1 : path);
    dop_buf_append(&w->sec[DOP_SEC_FILES], &row, sizeof row);
    return st;
}

/* Both files get their names only when both are complete: weights first, since a plan without them is of no use. */
static dop_status
put_files(writer *w, const char *path)
{
    dop_out_file plan = {0}, weights = {0};
    char *weights_path = NULL;
    dop_status st = DOP_OK;
    if (w->external && asprintf(&weights_path, "%s.weights", path) < 0)
        return DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
    st = dop_out_file_open(path, w->diag, &plan);
    if (st == DOP_OK && w->external && !plan.tmp)
        st = DOP_FAIL_IN(w->diag, DOP_E_IO, path, "--weights external needs a regular file to write the plan to");
    if (st == DOP_OK && w->external)
        st = put_external(w, weights_path, &weights);
    if (st == DOP_OK)
        st = put_file(w, plan.f);
    if (w->external) {
        dop_status closed = dop_out_file_close(&weights, st == DOP_OK, w->diag);
        st = st == DOP_OK ? closed : st;
    }
    dop_status closed = dop_out_file_close(&plan, st == DOP_OK, w->diag);
    if (st == DOP_OK && closed != DOP_OK && w->external)
        unlink(weights_path);
    free(weights_path);
    return st == DOP_OK ? closed : st;
}

dop_status
dop_plan_write(const dop_compilation *c, const char *path, bool external_weights, dop_diag *diag)
{
    writer w = {.c = c, .diag = diag, .external = external_weights};
    string(&w, "");
    write_slots(&w);
    write_schedules(&w);
    write_kernels(&w);
    write_model(&w);
    if (w.status == DOP_OK)
        write_text(&w);
    if (w.status == DOP_OK)
        w.status = put_files(&w, path);
    for (uint32_t i = 0; i < DOP_SEC_LIMIT; i++)
        dop_buf_finish(&w.sec[i]);
    free(w.states);
    return w.status;
}
