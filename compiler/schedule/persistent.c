#include "compiler/schedule/persistent.h"

#include "compiler/schedule/compilation.h"
#include "compiler/schedule/region_facts.h"
#include "ir/graph/dims.h"
#include "ir/region/region.h"
#include "passes/fusion/region.h"
#include "plan/plan_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAILBOX_ALIGN = 64 /* keeps values of two producers in different cache-line sectors */, MAX_FUNCTIONS = 64 };

typedef struct builder {
    dop_compilation *c;
    dop_schedule *s;
    dop_diag *diag;
    dop_target target; /* target for the stages' kernels */
    dop_persistent *p;
    uint8_t *routes; /* [n_nodes] how each stored value reaches its readers: DOP_MAILBOX, DOP_LEAVES or both */
    uint32_t n_functions;
    dop_kernel functions[MAX_FUNCTIONS];
} builder;

/* Returns the region that makes the logits (the LM head), or g->n_regions if there is none. Later regions choose a
 * token. */
static dop_region_id
find_head_region(const dop_graph *g)
{
    for (dop_region_id r = 1; r < g->n_regions; r++)
        if (dop_region_has(&g->regions[r], dop_node_base(g, g->outs[0], NULL)))
            return r;
    return g->n_regions;
}

/* Decides how each stored value of the stages reaches its readers, and places the mailboxes. Returns the reason if a
 * value cannot go through a mailbox, otherwise NULL. */
static const char *
plan_values(builder *b, const dop_flow *f)
{
    const dop_graph *g = &b->s->g;
    for (dop_region_id r = 1; r <= b->p->n_stages; r++)
        for (uint32_t i = 0; i < g->regions[r].n_outs; i++) {
            dop_node_id id = g->regions[r].outs[i];
            const dop_node *n = dop_node_at(g, id);
            bool splits = id == g->regions[r].info->attn.root && dop_node_is(g, id, DOP_PARTIAL);
            if (splits && f->readers[id].n == 0)
                b->routes[id] = DOP_MAILBOX; /* attention splits: for other workgroups of the same stage */
            if (dop_region_hands_on(&g->regions[r], id))
                b->routes[id] = DOP_MAILBOX;
            for (uint32_t k = 0; k < f->readers[id].n; k++)
                b->routes[id] |= f->readers[id].ids[k] <= b->p->n_stages ? DOP_MAILBOX : DOP_LEAVES;
            if (f->output[id])
                b->routes[id] |= DOP_LEAVES;
            if (!(b->routes[id] & DOP_MAILBOX))
                continue;
            uint64_t bytes = dop_node_bytes(g, id);
            if (dop_node_is(g, id, DOP_EFFECT)) { /* later steps need the row in the cache, too */
                if (!dop_shape_appends(&n->shape))
                    return "a state is replaced and read in the same step";
                b->routes[id] = DOP_MAILBOX | DOP_LEAVES;
                bytes = (uint64_t)dop_node_cols(g, id) * g->max_t * 4u;
            } else if (splits) { /* partial results of attention: rows of o, m, l, padded to 16 bytes */
                uint64_t row = n->shape.dim[n->shape.rank - 1].mul;
                if (f->readers[id].n != 0)
                    return "splits of attention are merged in another region";
                bytes = bytes / row * (row + 2);
            } else if (n->type != DOP_TYPE_f32 && n->type != DOP_TYPE_u32) { /* u32 indices fit 32-bit mailbox words */
                return "activations are not f32";
            }
            b->p->mailbox[id] = b->p->copy_bytes;
            b->p->mailbox_bytes[id] = bytes;
            b->p->copy_bytes += dop_align_u64(bytes, MAILBOX_ALIGN);
        }
    return NULL;
}

/* Sets *out_entry to the number of a stage's function. Equal stages share a function. Returns the reason if there are
 * too many functions, otherwise NULL. */
static const char *
add_function(builder *b, const dop_kernel *k, uint32_t *out_entry)
{
    for (uint32_t i = 0; i < b->n_functions; i++)
        if (strcmp(b->functions[i].glsl, k->glsl) == 0) {
            *out_entry = i;
            return NULL;
        }
    if (b->n_functions == MAX_FUNCTIONS)
        return "there are too many different regions";
    b->functions[b->n_functions] = *k;
    *out_entry = b->n_functions++;
    return NULL;
}

static void
take_generated(dop_built_region *x, const dop_kernel *k)
{
    memcpy(x->grid, k->grid, sizeof x->grid);
    x->args = k->args;
    x->n_args = k->n_args;
}

static bool
same_args(const dop_kernel_arg *a, const dop_kernel_arg *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].value != b[i].value || a[i].kind != b[i].kind || a[i].mailbox != b[i].mailbox)
            return false;
    return true;
}

/* Builds the function that an attention stage uses while its cache is short, if there is a kernel for that. */
static dop_status
build_short(builder *b, dop_region_id r, const dop_sync *sync, const char **out_no)
{
    const dop_graph *g = &b->s->g;
    const dop_built_region *x = &b->p->regions[r];
    dop_stage_form *f = &b->p->forms[r];
    dop_selection choice;
    dop_kernel k;
    f->short_positions = dop_kernel_select_short(g, &g->regions[r], &b->target, &x->choice, &choice);
    if (!f->short_positions)
        return DOP_OK;
    dop_status st = dop_kernel_generate(&b->c->templates, g, &g->regions[r], &b->target, &choice, sync, b->diag, &k);
    if (st != DOP_OK)
        return st;
    if (k.n_args != x->n_args || !same_args(k.args, x->args, k.n_args))
        return DOP_FAIL(b->diag, DOP_E_INTERNAL, "two kernels of a stage have different arguments");
    f->short_groups = k.grid[0] * k.grid[1];
    f->short_splits = k.grid[2];
    *out_no = add_function(b, &k, &f->short_function);
    return DOP_OK;
}

static dop_status
build_stages(builder *b, const char **out_no)
{
    const dop_graph *g = &b->s->g;
    dop_sync sync = {.kind = DOP_SYNC_STAGE, .routes = b->routes};
    dop_status st = DOP_OK;
    for (dop_region_id r = 1; r <= b->p->n_stages && st == DOP_OK && !*out_no; r++) {
        dop_built_region *x = &b->p->regions[r];
        dop_kernel k;
        *out_no = dop_kernel_select_stage(g, &g->regions[r], &b->target, &b->s->regions[r].choice, &x->choice);
        if (*out_no)
            return DOP_OK;
        st = dop_kernel_generate(&b->c->templates, g, &g->regions[r], &b->target, &x->choice, &sync, b->diag, &k);
        if (st == DOP_E_INPUT) { /* not an error: the region's own kernel fits and suffices */
            *b->diag = (dop_diag){0};
            *out_no = "a stage needs more shared memory than a workgroup has";
            return DOP_OK;
        }
        if (st != DOP_OK)
            return st;
        take_generated(x, &k);
        b->p->forms[r].rounding = k.rounding;
        *out_no = add_function(b, &k, &b->p->forms[r].function);
        if (!*out_no)
            st = build_short(b, r, &sync, out_no);
    }
    return st;
}

/* Builds the persistent dispatch's kernel and the kernel of the schedule's last dispatch. The last one counts the run,
 * which flips the parity of the mailboxes. */
static dop_status
build_dispatches(builder *b)
{
    const dop_graph *g = &b->s->g;
    dop_persistent *p = b->p;
    dop_region_id last = g->n_regions - 1;
    const dop_kernel *functions[MAX_FUNCTIONS];
    for (uint32_t i = 0; i < b->n_functions; i++)
        functions[i] = &b->functions[i];
    dop_kernel k;
    dop_sync advance = {.kind = DOP_SYNC_ADVANCE, .runs = 1, .several = g->max_t > 1};
    p->n_functions = b->n_functions;
    p->groups = b->target.cores;
    p->table = p->n_stages * (uint32_t)sizeof(dop_stage_row);
    p->counts[0] = p->n_stages;
    p->counts[1] = (uint32_t)(p->copy_bytes / 4);
    dop_status st = dop_kernel_persistent(&b->c->templates, g, &b->target, functions, b->n_functions, p->counts,
                                          &b->c->arena, b->diag, &k);
    if (st == DOP_OK)
        st = dop_kernel_set_add(&b->c->kernels, &k, g->regions[1].tpl, dop_region_label(g, &g->regions[1]), b->diag,
                                &p->kernel);
    for (dop_region_id r = p->n_stages + 1; r < last; r++)
        p->regions[r] = b->s->regions[r];
    dop_built_region *x = &p->regions[last];
    *x = b->s->regions[last];
    if (st == DOP_OK)
        st = dop_kernel_generate(&b->c->templates, g, &g->regions[last], b->c->target, &x->choice, &advance, b->diag,
                                 &k);
    if (st != DOP_OK)
        return st;
    take_generated(x, &k);
    return dop_kernel_set_add(&b->c->kernels, &k, g->regions[last].tpl, dop_region_label(g, &g->regions[last]), b->diag,
                              &x->kernel);
}

dop_status
dop_persistent_build(dop_compilation *c, dop_schedule *s, dop_diag *diag)
{
    const dop_graph *g = &s->g;
    /* A part that sends values has no head; its last region counts the run. */
    dop_region_id head = s->n_sent > 0 ? g->n_regions - 1 : find_head_region(g);
    dop_flow f = {0};
    if (head <= 2 || head >= g->n_regions) {
        s->persistent_no = "nothing stands before the head";
        return DOP_OK;
    }
    builder *b = calloc(1, sizeof *b);
    dop_persistent *p = dop_arena_alloc(&c->arena, sizeof *p);
    dop_status st = b && p ? dop_flow_init(g, diag, &f) : DOP_NO_MEMORY(diag);
    if (st != DOP_OK)
        goto error;
    *b = (builder){.c = c, .s = s, .diag = diag, .target = *c->target, .p = p};
    p->n_stages = head + 1 < g->n_regions ? head : head - 1; /* one dispatch must remain to count the run */
    p->mailbox = dop_arena_alloc(&c->arena, g->n_nodes * sizeof *p->mailbox);
    p->mailbox_bytes = dop_arena_alloc(&c->arena, g->n_nodes * sizeof *p->mailbox_bytes);
    p->forms = dop_arena_alloc(&c->arena, g->n_regions * sizeof *p->forms);
    p->regions = dop_arena_alloc(&c->arena, g->n_regions * sizeof *p->regions);
    b->routes = calloc(g->n_nodes, 1);
    if (!p->mailbox || !p->mailbox_bytes || !p->forms || !p->regions || !b->routes) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    const char *no = plan_values(b, &f);
    if (!no)
        st = build_stages(b, &no);
    if (st == DOP_OK && !no)
        st = build_dispatches(b);
    if (st == DOP_OK && !no) {
        s->persistent = p;
        c->kernels.items[p->kernel].optional = true;
    }
    s->persistent_no = no;
error:
    dop_flow_finish(&f);
    if (b)
        free(b->routes);
    free(b);
    return st;
}

const char *
dop_persistent_says(const dop_schedule *s, char *out, size_t size)
{
    const dop_persistent *p = s->persistent;
    *out = 0;
    if (p)
        snprintf(out, size,
                 "as a persistent dispatch: %u stages by %u functions in %u workgroups of %u, %u dispatches after them",
                 p->n_stages, p->n_functions, p->groups, p->regions[1].choice.tile.wg,
                 s->g.n_regions - 1 - p->n_stages);
    else if (s->persistent_no)
        snprintf(out, size, "no persistent form: %s", s->persistent_no);
    return out;
}

void
dop_compilation_drop_persistent(dop_compilation *c)
{
    for (uint32_t i = 0; i < c->n_schedules; i++) {
        dop_schedule *s = &c->schedules[i];
        if (s->persistent && c->kernels.items[s->persistent->kernel].dropped) {
            s->persistent = NULL;
            s->persistent_no = "its stages need more shared memory than a workgroup has";
        }
    }
}
