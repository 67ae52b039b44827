#include "compiler/write/plan_writer.h"

#include <stdio.h>
#include <string.h>

void
dop_plan_writer_no_memory(dop_plan_writer *w)
{
    w->status = DOP_NO_MEMORY(w->diag);
}

bool
dop_plan_writer_refuses(const char *name)
{
    while (*name && (unsigned char)*name >= 0x20 && *name != 0x7f)
        name++;
    return *name != 0;
}

uint32_t
dop_plan_writer_string(dop_plan_writer *w, const char *s)
{
    dop_buf *b = &w->sections.sec[DOP_SEC_STRINGS];
    size_t len = strlen(s) + 1;
    if (b->size == 0)
        dop_buf_append(b, "", 1);
    if (len == 1)
        return 0;
    uint32_t at, cursor = 0, hash = dop_lookup_hash(s);
    while (dop_lookup_next(&w->strings, hash, &cursor, &at))
        if (!b->failed && strcmp(b->data + at, s) == 0)
            return at;
    if (dop_plan_writer_refuses(s) && w->status == DOP_OK)
        w->status = DOP_FAIL(w->diag, DOP_E_INPUT,
                             "the name \"%.200s\" has a control character, which names in a plan have not", s);
    at = (uint32_t)b->size;
    dop_buf_append(b, s, len);
    if (!dop_lookup_add(&w->strings, hash, at))
        dop_plan_writer_no_memory(w);
    return at;
}

uint32_t
dop_plan_writer_pages(const dop_compilation *c)
{
    const dop_graph *g = &c->schedules[0].g;
    const uint32_t page = dop_graph_page(g);
    return !page ? 0 : c->options.ctx_total ? dop_div_up_u32(c->options.ctx_total, page) : g->max_q * (g->max_s / page);
}

void
dop_plan_writer_kernel_name(const dop_target_rows *t, uint32_t kernel, char *out, size_t size)
{
    const dop_built_kernel *k = &t->c->kernels.items[kernel];
    snprintf(out, size, "%s/%s#%u", dop_variant_of(k->k.variant)->name, dop_label_text(k->label), t->kernels[kernel]);
}
