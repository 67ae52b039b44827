/* The state of a generation (dop_gen): opening it, its shared memory, and texts that outlive it. */
#include "kernels/gen.h"

void
dop_gen_open(dop_gen *gen, const dop_site *s, const dop_descriptor *d, const dop_selection *choice, dop_diag *diag)
{
    *gen = (dop_gen){.descriptor = d, .choice = choice, .failures = dop_buf_failures()};
    dop_emit_init(&gen->e, s->g, s->r, s->t, diag);
    gen->e.routes = s->routes;
}

uint32_t
dop_gen_shared(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    uint32_t sums = tile->subgroup ? tile->wg / gen->e.target->subgroup * 4 : tile->wg * 4;
    return sums + (gen->descriptor->shared ? gen->descriptor->shared(gen) : 0) +
           (dop_int8_levels(gen) ? DOP_LEVEL_BYTES : 0);
}

/* A text and the next one of its generation. */
struct dop_gen_texts {
    dop_buf text;
    struct dop_gen_texts *next;
};

dop_buf *
dop_gen_text(dop_gen *gen)
{
    struct dop_gen_texts *t = dop_arena_alloc(gen->e.g->arena, sizeof *t);
    if (!t) {
        gen->e.status = gen->e.status ? gen->e.status : DOP_FAIL(gen->e.diag, DOP_E_NOMEM, "out of memory");
        return &gen->main; /* which nobody reads after a failure */
    }
    *t = (struct dop_gen_texts){.next = gen->texts};
    gen->texts = t;
    return &t->text;
}

void
dop_gen_close(dop_gen *gen)
{
    for (struct dop_gen_texts *t = gen->texts; t; t = t->next)
        dop_buf_finish(&t->text);
    gen->texts = NULL;
    dop_buf_finish(&gen->main);
}

const char *
dop_gen_keep(dop_gen *gen, dop_buf *text)
{
    const char *kept = text->failed ? NULL : dop_arena_strdup(gen->e.g->arena, text->data ? text->data : "");
    if (!kept && gen->e.status == DOP_OK)
        gen->e.status = DOP_FAIL(gen->e.diag, DOP_E_NOMEM, "out of memory");
    dop_buf_finish(text);
    return kept ? kept : "";
}
